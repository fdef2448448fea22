//! SP: systems of equations of three directions one after the other, each of five numbers that do
//! not mix. Before them each rank exchanges faces of its cells with six neighbours. Along a
//! direction a sweep goes from plane to plane of cells, and one comes back: while a rank waits for
//! what the plane before passes on, it computes what needs nothing of it.
//!
//! From `adi.f`, `copy_faces.f`, `x_solve.f`, `y_solve.f` and `z_solve.f` of the benchmarks, sizes
//! from `setparams.c`. Operations are those that the rate counts, shared between computations as
//! counted for a point in those files, `rhs.f`, `txinvr.f`, `ninvr.f`, `pinvr.f`, `tzetar.f` and
//! `lhsx.f`.

use super::multipartition::{Cells, across_max};
use super::{Class, DOUBLE, Rounds, counted};
use crate::trace::Work;

/// Operations of a point.
const RIGHT_SIDE: f64 = 444.0 + 27.0;
const LEFT_SIDE: f64 = 22.0;
const FORWARD: f64 = 77.0;
const BACKWARD: f64 = 20.0;
/// After the sweeps of each direction.
const INVERSION: [f64; 3] = [7.0, 7.0, 28.0];
const ADDITION: f64 = 5.0;
const ALL: f64 = RIGHT_SIDE
    + 3.0 * (LEFT_SIDE + FORWARD + BACKWARD)
    + (INVERSION[0] + INVERSION[1] + INVERSION[2])
    + ADDITION;
/// Doubles of a point that go with the forward sweep, and back.
const SENT_FORWARD: u64 = 22;
const SENT_BACKWARD: u64 = 10;

/// Points in each direction.
const fn side(class: Class) -> u32 {
    match class {
        Class::S => 12,
        Class::W => 36,
        Class::A => 64,
        Class::B => 102,
        Class::C => 162,
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S => 100,
        Class::W | Class::A | Class::B | Class::C => 400,
    }
}

pub(super) const fn ranks_max(class: Class) -> u32 {
    across_max(side(class)).pow(2)
}

/// Operations of an iteration, of all ranks.
fn operations(class: Class) -> f64 {
    let side = f64::from(side(class));
    881.174 * side.powi(3) - 4_683.91 * side.powi(2) + 11_484.5 * side - 19_272.4
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
    let bytes = |plane: u32, doubles: u64| {
        let points = cells.inner_points(cells.cell(axis, plane));
        points[(axis + 1) % 3] * points[(axis + 2) % 3] * doubles * DOUBLE
    };
    let share = |plane: u32| cells.share(cells.cell(axis, plane));
    let (ahead, behind) = (cells.successor(axis), cells.predecessor(axis));
    let tag = 0;
    for plane in 0..across {
        let left_side = counted(each * share(plane) * LEFT_SIDE);
        if plane > 0 {
            let send = Work::Send {
                bytes: bytes(plane - 1, SENT_FORWARD),
                to: ahead,
                tag,
            };
            let receive = Work::Receive {
                bytes: bytes(plane, SENT_FORWARD),
                from: behind,
                tag,
            };
            rounds.add("sweep", &[send, receive, left_side]);
        } else {
            rounds.add("left side", &[left_side]);
        }
        rounds.compute("sweep", each * share(plane) * FORWARD);
    }
    for plane in (0..across).rev() {
        if plane + 1 < across {
            let send = Work::Send {
                bytes: bytes(plane + 1, SENT_BACKWARD),
                to: behind,
                tag,
            };
            let receive = Work::Receive {
                bytes: bytes(plane, SENT_BACKWARD),
                from: ahead,
                tag,
            };
            // The plane that is done is inverted while the next one's message is on the way.
            let inversion = counted(each * share(plane + 1) * INVERSION[axis]);
            rounds.add("sweep back", &[send, receive, inversion]);
        }
        rounds.compute("sweep back", each * share(plane) * BACKWARD);
    }
    rounds.compute("inversion", each * share(0) * INVERSION[axis]);
}
