//! Which way a message takes.
