//! CG: the matrix lies on a grid of ranks, of as many columns as rows or twice as many. Sums of
//! vectors go along a row, in steps with the rank 1, 2, 4 columns away; then each exchanges what it
//! has with the rank on the other side of the diagonal. Sums of numbers go along a row as well, the
//! farthest rank first.
//!
//! An iteration has 25 steps, each with a product (sums of vectors and an exchange) and two sums of
//! a double. Before them is a sum of a double, after them another product, a sum of a double and
//! one of two. From `cg.f` of the benchmarks; order, entries and iterations by class from there,
//! operations as its rate counts them. A rank on the diagonal sends itself nothing here: in the
//! program that is a copy. It is assumed that rows that are left over go to the first ranks, and
//! that all ranks have as many entries.

use super::{Class, DOUBLE, Rounds};
use crate::collective::block_bytes;

const STEPS: u32 = 25;

/// Rows of the matrix, and drawn entries a row.
const fn size(class: Class) -> (u64, u64) {
    match class {
        Class::S => (1_400, 7),
        Class::W => (7_000, 8),
        Class::A => (14_000, 11),
        Class::B => (75_000, 13),
        Class::C => (150_000, 15),
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S | Class::W | Class::A => 15,
        Class::B | Class::C => 75,
    }
}

/// The place of a rank in the grid.
#[derive(Clone, Copy)]
struct Place {
    rank: u32,
    grid_rows: u32,
    grid_columns: u32,
}

impl Place {
    /// The rank on the other side of the diagonal: of a grid twice as wide, pairs change places.
    const fn opposite(self) -> Self {
        let width = self.grid_columns / self.grid_rows;
        let pair = self.rank / width;
        let pair = pair % self.grid_rows * self.grid_rows + pair / self.grid_rows;
        Self {
            rank: pair * width + self.rank % width,
            ..self
        }
    }

    /// How many rows of the matrix it has, and of how many of them it is to have the sum.
    fn rows(self, matrix_rows: u64) -> (u64, u64) {
        let grid_row = self.rank / self.grid_columns;
        let rows = block_bytes(matrix_rows, self.grid_rows, grid_row);
        let summed = match (self.grid_columns == self.grid_rows, self.rank % 2) {
            (true, _) => rows,
            (false, 0) => rows.div_ceil(2),
            (false, _) => rows / 2,
        };
        (rows, summed)
    }
}

pub(super) fn rounds(class: Class, (ranks, rank): (u32, u32), iterations: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let (matrix_rows, entries) = size(class);
    let grid_rows = 1 << (ranks.ilog2() / 2);
    let place = Place {
        rank,
        grid_rows,
        grid_columns: ranks / grid_rows,
    };
    let entries = (entries * (entries + 1)) as f64;
    let operations = |of_row: f64| 2.0 * matrix_rows as f64 * of_row / f64::from(ranks);
    for _ in 0..iterations {
        sum(&mut rounds, place, 1);
        for _ in 0..STEPS {
            rounds.compute("product", operations(5.0 + entries));
            sum_product(&mut rounds, place, matrix_rows);
            sum(&mut rounds, place, 1);
            sum(&mut rounds, place, 1);
        }
        rounds.compute("residual", operations(6.0 + entries));
        sum_product(&mut rounds, place, matrix_rows);
        sum(&mut rounds, place, 1);
        sum(&mut rounds, place, 2);
    }
    rounds
}

/// The ranks with whom a sum of vectors along the row is made, in order.
fn along_row(place: Place) -> impl DoubleEndedIterator<Item = u32> {
    let steps = place.grid_columns.ilog2();
    (0..steps).map(move |step| place.rank ^ (1 << step))
}

fn sum(rounds: &mut Rounds, place: Place, doubles: u64) {
    for other in along_row(place).rev() {
        rounds.exchange("sum", other, (doubles * DOUBLE, doubles * DOUBLE));
    }
}

fn sum_product(rounds: &mut Rounds, place: Place, matrix_rows: u64) {
    let (rows, summed) = place.rows(matrix_rows);
    for (step, other) in along_row(place).enumerate() {
        // On a grid twice as wide the first step halves what is summed.
        let is_halved = step == 0 && place.grid_columns != place.grid_rows;
        let sent = if is_halved { rows - summed } else { summed };
        rounds.exchange("sum of product", other, (sent * DOUBLE, summed * DOUBLE));
    }
    let opposite = place.opposite();
    if opposite.rank != place.rank {
        let (_, received) = opposite.rows(matrix_rows);
        let bytes = (summed * DOUBLE, received * DOUBLE);
        rounds.exchange("transposition", opposite.rank, bytes);
    }
}
