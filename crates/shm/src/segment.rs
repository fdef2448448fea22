//! Memory that can be mapped by another process.
