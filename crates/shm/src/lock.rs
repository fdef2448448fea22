//! Locks that cost nothing while one thread uses them.
