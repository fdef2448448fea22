//! Speed and memory against targets, beside peers: make bench.

fn main() {}
