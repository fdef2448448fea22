//! The viaduct command.

fn main() {}
