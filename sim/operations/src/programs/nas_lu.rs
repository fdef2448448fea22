//! LU: the points lie on a grid of ranks, in columns as high as the whole. In each iteration a
//! sweep goes from plane to plane, and in each plane from the north-western rank to the
//! south-eastern one: a rank takes the rows at its border from north and west, computes, and
//! sends its own on. Another sweep comes back. Then each exchanges two rows with its neighbours.
//! After the last iteration two norms of five doubles are summed over all.
//!
//! From `ssor.f`, `rhs.f`, `exchange_1.f`, `exchange_3.f`, `neighbors.f` and `subdomain.f` of the
//! benchmarks, operations as its rate counts them. It is assumed that each sweep and the rest are a
//! third of them, and that all ranks have as many.

use super::{Class, DOUBLE, Rounds};
use crate::collective::{Collective, block_bytes};
use crate::trace::Work;

/// Doubles of a point.
const POINT: u64 = 5 * DOUBLE;
/// Points that a rank has at least in each direction.
const SIDE_MIN: u32 = 4;

/// Points in each direction.
const fn side(class: Class) -> u32 {
    match class {
        Class::S => 12,
        Class::W => 33,
        Class::A => 64,
        Class::B => 102,
        Class::C => 162,
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S => 50,
        Class::W => 300,
        Class::A | Class::B | Class::C => 250,
    }
}

/// Ranks from north to south, as many as from west to east or twice as many.
const fn ranks_south(ranks: u32) -> u32 {
    1 << ranks.ilog2().div_ceil(2)
}

pub(super) const fn ranks_max(class: Class) -> u32 {
    let mut ranks = 1;
    while side(class) / ranks_south(2 * ranks) >= SIDE_MIN {
        ranks *= 2;
    }
    ranks
}

/// The neighbours of a rank, and the rows at its borders.
struct Place {
    north: Option<u32>,
    south: Option<u32>,
    west: Option<u32>,
    east: Option<u32>,
    /// Points from north to south and from west to east.
    points: (u64, u64),
    /// Those of them that are not at the border of the whole.
    inner: (u64, u64),
}

impl Place {
    fn of(class: Class, ranks: u32, rank: u32) -> Self {
        let south = ranks_south(ranks);
        let east = ranks / south;
        let (row, column) = (rank % south, rank / south);
        let next = |is_there: bool, other: u32| is_there.then_some(other);
        let all = u64::from(side(class));
        let points = (block_bytes(all, south, row), block_bytes(all, east, column));
        let at_border = |place: u32, of: u32| u64::from(place == 0) + u64::from(place + 1 == of);
        Self {
            north: next(row > 0, rank.wrapping_sub(1)),
            south: next(row + 1 < south, rank + 1),
            west: next(column > 0, rank.wrapping_sub(south)),
            east: next(column + 1 < east, rank + south),
            points,
            inner: (
                points.0 - at_border(row, south),
                points.1 - at_border(column, east),
            ),
        }
    }
}

pub(super) fn rounds(class: Class, (ranks, rank): (u32, u32), iterations: u32) -> Rounds {
    let place = Place::of(class, ranks, rank);
    let planes = side(class) - 2;
    let third = operations(class) / f64::from(ranks) / 3.0;
    let mut rounds = Rounds::default();
    for iteration in 1..=iterations {
        let of_plane = third / f64::from(planes);
        let (from, to) = ([place.north, place.west], [place.south, place.east]);
        for _ in 0..planes {
            sweep(&mut rounds, ("lower", of_plane), &place, (from, to));
        }
        for _ in 0..planes {
            sweep(&mut rounds, ("upper", of_plane), &place, (to, from));
        }
        let has_norms = iteration == self::iterations(class);
        let norm = |rounds: &mut Rounds| {
            if has_norms {
                rounds.together("norm", Collective::AllReduce, POINT);
            }
        };
        norm(&mut rounds);
        // Two rows to each side, first between north and south.
        let height = u64::from(side(class));
        let rows = |points: u64| 2 * points * height * POINT;
        let (along_west, along_north) = (rows(place.points.1), rows(place.points.0));
        border(&mut rounds, (place.north, place.south), along_west);
        border(&mut rounds, (place.south, place.north), along_west);
        rounds.compute("right side", third / 2.0);
        border(&mut rounds, (place.west, place.east), along_north);
        border(&mut rounds, (place.east, place.west), along_north);
        rounds.compute("right side", third / 2.0);
        norm(&mut rounds);
    }
    rounds
}

/// Operations of an iteration, of all ranks.
fn operations(class: Class) -> f64 {
    let side = f64::from(side(class));
    1984.77 * side.powi(3) - 10_923.3 * side.powi(2) + 27_770.9 * side - 144_010.0
}

/// A plane of a sweep: first the neighbour to the north or south, then that to the west or east.
fn sweep(
    rounds: &mut Rounds,
    (name, operations): (&str, f64),
    place: &Place,
    (from, to): ([Option<u32>; 2], [Option<u32>; 2]),
) {
    let rows = [place.inner.1 * POINT, place.inner.0 * POINT];
    let received = from.into_iter().zip(rows);
    let received = received.filter_map(|(from, bytes)| Some(receive(from?, bytes)));
    rounds.add(name, &received.collect::<Vec<_>>());
    rounds.compute(name, operations);
    let sent = to.into_iter().zip(rows);
    let sent = sent.filter_map(|(to, bytes)| Some(send(to?, bytes)));
    rounds.add(name, &sent.collect::<Vec<_>>());
}

/// Rows come from one side and go to the other, where there are neighbours.
fn border(rounds: &mut Rounds, (from, to): (Option<u32>, Option<u32>), bytes: u64) {
    let received = from.map(|from| receive(from, bytes));
    let sent = to.map(|to| send(to, bytes));
    let all: Vec<Work> = received.into_iter().chain(sent).collect();
    rounds.add("borders", &all);
}

const fn receive(from: u32, bytes: u64) -> Work {
    Work::Receive {
        bytes,
        from,
        tag: 0,
    }
}

const fn send(to: u32, bytes: u64) -> Work {
    Work::Send { bytes, to, tag: 0 }
}
