//! Handles that are told from dead ones.
