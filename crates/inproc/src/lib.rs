//! A fabric inside one process: the VI Architecture's semantics between threads, with no transport.
