//! What one process holds.
