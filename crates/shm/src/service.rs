//! The service thread.
