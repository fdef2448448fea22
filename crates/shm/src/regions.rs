//! Registered memory and protection tags.
