//! Handlers, run by a thread that holds no lock.
