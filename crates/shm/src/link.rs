//! The link between two processes.
