//! FT: one transform forward, then in each iteration one back; each is a transposition, to which
//! a rank brings its planes of complex numbers, all of them. An iteration ends with the sum of a
//! checksum at rank 0.
//!
//! From `ft.f` of the benchmarks with its layout in planes, which it has up to as many ranks as
//! there are planes; its layout in pencils is not made. Operations as its rate counts them.

use super::{Class, DOUBLE, Rounds};
use crate::collective::Collective;

const COMPLEX: u64 = 2 * DOUBLE;

/// Points in each direction, as powers of two.
const fn log2_of_points(class: Class) -> [u32; 3] {
    match class {
        Class::S => [6, 6, 6],
        Class::W => [7, 7, 5],
        Class::A => [8, 8, 7],
        Class::B => [9, 8, 8],
        Class::C => [9, 9, 9],
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S | Class::W | Class::A => 6,
        Class::B | Class::C => 20,
    }
}

pub(super) const fn ranks_max(class: Class) -> u32 {
    1 << log2_of_points(class)[2]
}

pub(super) fn rounds(class: Class, ranks: u32, iterations: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let log2_points: u32 = log2_of_points(class).iter().sum();
    let points = 1_u64 << log2_points;
    let logarithm = f64::from(log2_points) * core::f64::consts::LN_2;
    let own = points as f64 / f64::from(ranks);
    let transform = |rounds: &mut Rounds, operations_of_point: f64| {
        rounds.compute("transform", own * operations_of_point);
        let bytes = points / u64::from(ranks) * COMPLEX;
        rounds.together("transposition", Collective::AllToAll, bytes);
    };
    transform(&mut rounds, 14.8157 + 7.19641 * logarithm);
    for _ in 0..iterations {
        transform(&mut rounds, 5.23518 + 7.21113 * logarithm);
        rounds.together("checksum", Collective::Reduce, COMPLEX);
    }
    rounds
}
