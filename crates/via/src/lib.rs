//! The Virtual Interface Architecture's semantics: no I/O, no clock, no thread, no randomness.
