//! FT: one transform forward, then one back in each iteration.
//!
//! With at most as many ranks as there are planes, each rank has whole planes. A transform is then
//! a transposition of all complex numbers. With more ranks each has pencils, on a grid of ranks
//! with a row for each plane. A transform then goes direction by direction: between the first and
//! the second it transposes along the columns of the grid, between the second and the third along
//! its rows. The way back is the reverse. An iteration ends with the sum of a checksum at rank 0.
//!
//! From `ft.f` of the benchmarks. Operations as its rate counts them; it is assumed that those of a
//! transform in pencils are shared between directions by the logarithms of their points.

use super::{Class, DOUBLE, Rounds};
use crate::collective::Collective;
use crate::trace::Group;

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
    planes(class) * planes(class)
}

/// Planes of the third direction.
const fn planes(class: Class) -> u32 {
    1 << log2_of_points(class)[2]
}

/// The grid of ranks that have pencils: its rows, and its columns.
const fn grid(class: Class, ranks: u32) -> (u32, u32) {
    (planes(class), ranks / planes(class))
}

/// Whether so many ranks have pencils, and no whole planes.
pub(super) const fn has_pencils(class: Class, ranks: u32) -> bool {
    ranks > planes(class)
}

/// Who transposes together, beside all: each row of the grid, then each column.
pub(super) fn groups(class: Class, ranks: u32) -> Vec<Group> {
    if !has_pencils(class, ranks) {
        return Vec::new();
    }
    let (rows, columns) = grid(class, ranks);
    let row = |row: u32| Group {
        name: format!("row {row}"),
        members: (0..columns).map(|column| row * columns + column).collect(),
    };
    let column = |column: u32| Group {
        name: format!("column {column}"),
        members: (0..rows).map(|row| row * columns + column).collect(),
    };
    (0..rows).map(row).chain((0..columns).map(column)).collect()
}

pub(super) fn rounds(class: Class, (ranks, rank): (u32, u32), iterations: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let log2_points: u32 = log2_of_points(class).iter().sum();
    let points = 1_u64 << log2_points;
    let logarithm = f64::from(log2_points) * core::f64::consts::LN_2;
    let own = points as f64 / f64::from(ranks);
    let bytes = points / u64::from(ranks) * COMPLEX;
    let transpose = |rounds: &mut Rounds, group: u32| {
        rounds.together_in(group, "transposition", Collective::AllToAll, bytes);
    };
    let transform = |rounds: &mut Rounds, is_forward: bool, operations_of_point: f64| {
        let operations = own * operations_of_point;
        if !has_pencils(class, ranks) {
            rounds.compute("transform", operations);
            return transpose(rounds, 0);
        }
        let (rows, columns) = grid(class, ranks);
        // Group 0 are all.
        let (row, column) = (1 + rank / columns, 1 + rows + rank % columns);
        let share = log2_of_points(class).map(|log2| f64::from(log2) / f64::from(log2_points));
        let (axes, groups) = match is_forward {
            true => ([0, 1, 2], [column, row]),
            false => ([2, 1, 0], [row, column]),
        };
        for (place, axis) in axes.into_iter().enumerate() {
            rounds.compute("transform", operations * share[axis]);
            if let Some(group) = groups.get(place) {
                transpose(rounds, *group);
            }
        }
    };
    transform(&mut rounds, true, 14.8157 + 7.19641 * logarithm);
    for _ in 0..iterations {
        transform(&mut rounds, false, 5.23518 + 7.21113 * logarithm);
        rounds.together("checksum", Collective::Reduce, COMPLEX);
    }
    rounds
}
