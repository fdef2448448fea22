//! EP: each rank draws its share of 2^(m+1) random numbers, then three sums over all are made: of
//! two doubles, one by one, and of ten counts.
//!
//! From `ep.f` of the benchmarks; m by class from the report.

use super::{Class, DOUBLE, Rounds};
use crate::collective::Collective;

const fn log2_of_pairs(class: Class) -> u32 {
    match class {
        Class::S => 24,
        Class::W => 25,
        Class::A => 28,
        Class::B => 30,
        Class::C => 32,
    }
}

pub(super) fn rounds(class: Class, ranks: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let drawn = (2_u64 << log2_of_pairs(class)) as f64;
    rounds.compute("draw", drawn / f64::from(ranks));
    for (name, doubles) in [("sum of x", 1), ("sum of y", 1), ("sum of counts", 10)] {
        rounds.together(name, Collective::AllReduce, doubles * DOUBLE);
    }
    rounds
}
