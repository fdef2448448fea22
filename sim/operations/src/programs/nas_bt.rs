//! BT: systems of equations of three directions one after the other, in blocks of 5 x 5. Before
//! them each rank exchanges faces of its cells with six neighbours. Along a direction a sweep goes
//! from plane to plane of cells, and one comes back: a rank takes what the plane before needs
//! passed on, solves its cell, and sends on.
//!
//! From `adi.f`, `copy_faces.f`, `x_solve.f`, `y_solve.f`, `z_solve.f` and `header.h` of the
//! benchmarks, sizes from `setparams.c`: messages of a sweep are as long as the largest cell would
//! need with a row more than a p-th. Operations are those that the rate counts, shared between
//! computations as counted for a point in those files, `rhs.f` and `solve_subs.f`; what is left of
//! the rate goes to the forward sweeps.

use super::multipartition::{Cells, across_max};
use super::{Class, DOUBLE, Rounds};
use crate::trace::Work;

/// Operations of a point.
const RIGHT_SIDE: f64 = 440.0;
const FORWARD: f64 = 961.0;
const BACKWARD: f64 = 50.0;
const ADDITION: f64 = 5.0;
const ALL: f64 = RIGHT_SIDE + 3.0 * (FORWARD + BACKWARD) + ADDITION;
/// Doubles of a point that go with the forward sweep: a block and a right side.
const SENT_FORWARD: u64 = 5 * 5 + 5;
/// Doubles that go back.
const SENT_BACKWARD: u64 = 5;

/// Points in each direction.
const fn side(class: Class) -> u32 {
    match class {
        Class::S => 12,
        Class::W => 24,
        Class::A => 64,
        Class::B => 102,
        Class::C => 162,
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S => 60,
        Class::W | Class::A | Class::B | Class::C => 200,
    }
}

pub(super) const fn ranks_max(class: Class) -> u32 {
    across_max(side(class)).pow(2)
}

/// Operations of an iteration, of all ranks.
fn operations(class: Class) -> f64 {
    let side = f64::from(side(class));
    3478.8 * side.powi(3) - 17_655.7 * side.powi(2) + 28_023.7 * side
}

pub(super) fn rounds(class: Class, place: (u32, u32), iterations: u32) -> Rounds {
    let cells = Cells::of(side(class), place);
    let each = operations(class) / ALL;
    let around = (RIGHT_SIDE, ADDITION);
    cells.iterate((iterations, each), around, |rounds, axis| {
        sweep(rounds, &cells, axis, each);
    })
}

fn sweep(rounds: &mut Rounds, cells: &Cells, axis: usize, each: f64) {
    let across = cells.across;
    let row = u64::from(cells.side_of_cell() + 1);
    let bytes = |doubles: u64| row * row * doubles * DOUBLE;
    let (ahead, behind) = (cells.successor(axis), cells.predecessor(axis));
    let pass = |bytes: u64, to: u32, from: u32| {
        let tag = 0;
        [
            Work::Send { bytes, to, tag },
            Work::Receive { bytes, from, tag },
        ]
    };
    for plane in 0..across {
        if plane > 0 {
            rounds.add("sweep", &pass(bytes(SENT_FORWARD), ahead, behind));
        }
        let share = cells.share(cells.cell(axis, plane));
        rounds.compute("sweep", each * share * FORWARD);
    }
    for plane in (0..across).rev() {
        if plane + 1 < across {
            rounds.add("sweep back", &pass(bytes(SENT_BACKWARD), behind, ahead));
        }
        let share = cells.share(cells.cell(axis, plane));
        rounds.compute("sweep back", each * share * BACKWARD);
    }
}
