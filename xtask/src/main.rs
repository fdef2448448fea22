//! Checks that no other tool makes: dependency walls, tidiness, documentation.

fn main() {}
