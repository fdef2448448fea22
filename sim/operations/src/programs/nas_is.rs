//! IS: in each of ten iterations the ranks add up how many keys each bucket has and five counts
//! of the verification, tell each other how many keys they send, and send them.
//!
//! From `is.c` of the benchmarks; keys and buckets by class from there. It is assumed that each
//! rank has as many keys for each other one: in the program that depends on the keys drawn, which
//! are near to even between buckets that are cut for it.

use super::{Class, Rounds};
use crate::collective::Collective;

pub(super) const ITERATIONS: u32 = 10;
/// Bytes of a key, and of a count.
const INTEGER: u64 = 4;
/// Keys whose rank is looked at in each iteration.
const LOOKED_AT: u64 = 5;

const fn log2_of_keys(class: Class) -> u32 {
    match class {
        Class::S => 16,
        Class::W => 20,
        Class::A => 23,
        Class::B => 25,
        Class::C => 27,
    }
}

const fn buckets(class: Class) -> u64 {
    match class {
        Class::S => 1 << 9,
        _ => 1 << 10,
    }
}

pub(super) fn rounds(class: Class, ranks: u32, iterations: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let keys = 1_u64 << log2_of_keys(class);
    let own = keys / u64::from(ranks);
    for _ in 0..iterations {
        rounds.compute("rank keys", keys as f64 / f64::from(ranks));
        let counts = (buckets(class) + LOOKED_AT) * INTEGER;
        rounds.together("bucket sizes", Collective::AllReduce, counts);
        let each_other = u64::from(ranks) * INTEGER;
        rounds.together("how many keys", Collective::AllToAll, each_other);
        rounds.together("keys", Collective::AllToAll, own * INTEGER);
    }
    rounds
}
