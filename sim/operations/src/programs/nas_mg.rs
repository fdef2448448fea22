//! MG: V-cycles over grids of points that repeat in all directions, each half as fine as the one
//! before, down to two points a side. The ranks are a grid as well, of three directions. After each
//! computation on a grid a rank exchanges the points at its borders with its neighbours, one
//! direction after the other. On a grid of fewer points than ranks in a direction, the ranks that
//! have none rest; on the way back those that have some send them what they begin with.
//!
//! An iteration is a V-cycle and a residual; before the first is a residual and a norm, after the
//! last a norm: two sums of a double over all. From `mg.f` of the benchmarks, version 3.3, sizes
//! from `setparams.c` (in version 2, class W was 40 iterations of 64 x 64 x 64). Operations are
//! those that its rate counts, shared between computations by what their comments count for a
//! point. A rank that is its own neighbour sends nothing here: in the program that is a copy.

use super::{Class, DOUBLE, Rounds};
use crate::collective::{Collective, RANKS_MAX};
use crate::trace::Work;

/// Operations of a point and an iteration, as the rate counts them.
const OPERATIONS: f64 = 58.0;
/// Operations of computations, for each point that they make.
const RESIDUAL: f64 = 15.0;
const SMOOTHING: f64 = 16.0;
const RESTRICTION: f64 = 24.0;
/// For each point of the finer grid: 20 for each of the coarser one, which has an eighth of them.
const INTERPOLATION: f64 = 20.0 / 8.0;

/// Points in each direction, as a power of two: as many grids there are.
const fn grids(class: Class) -> u32 {
    match class {
        Class::S => 5,
        Class::W => 7,
        Class::A | Class::B => 8,
        Class::C => 9,
    }
}

pub(super) const fn iterations(class: Class) -> u32 {
    match class {
        Class::S | Class::W | Class::A => 4,
        Class::B | Class::C => 20,
    }
}

pub(super) const fn ranks_max(class: Class) -> u32 {
    let most = 1 << (3 * grids(class));
    if most < RANKS_MAX { most } else { RANKS_MAX }
}

/// Ranks in each direction, as powers of two.
pub(super) const fn log2_of_ranks(ranks: u32) -> [u32; 3] {
    let all = ranks.ilog2();
    let first = all / 3;
    let second = (all - first) / 2;
    [first, second, all - first - second]
}

/// A direction of a grid, as a rank sees it.
#[derive(Clone, Copy, Default)]
struct Direction {
    /// Its points; none on a grid on which it rests.
    points: u64,
    /// The ranks behind and ahead of it that have points.
    neighbours: [u32; 2],
    /// Whether on the next coarser grid it has a point, and the rank that then rests has none.
    gives: bool,
    /// The other way round.
    takes: bool,
}

/// A grid, as a rank sees it.
type Grid = [Direction; 3];

/// The grids of a rank, the coarsest first.
fn grids_of(class: Class, (ranks, rank): (u32, u32)) -> Vec<Grid> {
    let log2_ranks = log2_of_ranks(ranks);
    let mut below = 0;
    let place: [u32; 3] = log2_ranks.map(|log2| {
        let place = (rank >> below) & ((1 << log2) - 1);
        below += log2;
        place
    });
    let mut strides = [1_u32; 3];
    let mut all = vec![Grid::default(); grids(class) as usize];
    for level in (0..all.len()).rev() {
        let side = 2_u64 << level;
        let mut above = 0;
        for axis in 0..3 {
            let (own, across) = (place[axis], 1_u32 << log2_ranks[axis]);
            let end = |of: u32| u64::from(of + 1) * side / u64::from(across);
            let begin = |of: u32| u64::from(of) * side / u64::from(across);
            let points = end(own) - begin(own);
            let next = own + strides[axis];
            let of_next = end(next) - begin(next);
            if points == 0 || of_next == 0 {
                strides[axis] *= 2;
            }
            if let Some(finer) = all.get_mut(level + 1) {
                finer[axis].gives = points == 1 && of_next == 0;
                finer[axis].takes = points == 0 && of_next == 1;
            }
            let at = |place: u32| rank - (own << above) + ((place % across) << above);
            let stride = strides[axis] % across;
            all[level][axis].points = points;
            all[level][axis].neighbours = [at(own + across - stride), at(own + stride)];
            above += log2_ranks[axis];
        }
    }
    all
}

/// What a rank does.
struct Cycle {
    rounds: Rounds,
    rank: u32,
    grids: Vec<Grid>,
    /// What operations of comments are multiplied by.
    scale: f64,
}

pub(super) fn rounds(class: Class, (ranks, rank): (u32, u32), iterations: u32) -> Rounds {
    let finest = grids(class) as usize - 1;
    let points = |level: usize| (8_u64 << (3 * level)) as f64;
    let coarser: f64 = (0..finest).map(points).sum();
    let of_iteration = points(finest) * (2.0 * RESIDUAL + SMOOTHING + INTERPOLATION)
        + coarser * (RESTRICTION + RESIDUAL + SMOOTHING + INTERPOLATION)
        - points(0) * (RESIDUAL + INTERPOLATION);
    let all = points(finest) * RESIDUAL + f64::from(iterations) * of_iteration;
    let mut cycle = Cycle {
        rounds: Rounds::default(),
        rank,
        grids: grids_of(class, (ranks, rank)),
        scale: OPERATIONS * points(finest) * f64::from(iterations) / all,
    };
    cycle.compute("residual", RESIDUAL, finest);
    cycle.norm();
    for _ in 0..iterations {
        for level in (0..finest).rev() {
            cycle.compute("restriction", RESTRICTION, level);
        }
        cycle.compute("smoothing", SMOOTHING, 0);
        for level in 1..=finest {
            cycle.interpolate(level);
            cycle.compute("residual", RESIDUAL, level);
            cycle.compute("smoothing", SMOOTHING, level);
        }
        cycle.compute("residual", RESIDUAL, finest);
    }
    if iterations == self::iterations(class) {
        cycle.norm();
    }
    cycle.rounds
}

impl Cycle {
    /// Computes on a grid, and exchanges its borders.
    fn compute(&mut self, name: &str, operations_of_point: f64, level: usize) {
        self.work(name, operations_of_point, level);
        let grid = self.grids[level];
        if grid.iter().any(|direction| direction.points == 0) {
            return;
        }
        for (axis, direction) in grid.iter().enumerate() {
            // Borders of a direction have the points that came in those before it, too.
            let sides = [1, 2].map(|step| {
                let other = (axis + step) % 3;
                grid[other].points + if other < axis { 2 } else { 0 }
            });
            let bytes = sides[0] * sides[1] * DOUBLE;
            let [behind, ahead] = direction.neighbours;
            if ahead != self.rank {
                let posted = [(ahead, BACK), (behind, FORTH)];
                let sent = [(ahead, FORTH, bytes), (behind, BACK, bytes)];
                self.pass(
                    "borders",
                    axis,
                    (&posted.map(|it| (it.0, it.1, bytes)), &sent),
                );
            }
        }
    }

    /// Takes what the coarser grid has; ranks that rested there get theirs, with the borders.
    fn interpolate(&mut self, level: usize) {
        self.work("interpolation", INTERPOLATION, level);
        let grid = self.grids[level];
        for (axis, direction) in grid.iter().enumerate() {
            let sides = [1, 2].map(|step| grid[(axis + step) % 3].points + 2);
            let layer = sides[0] * sides[1] * DOUBLE;
            let [behind, ahead] = direction.neighbours;
            if direction.takes {
                let posted = [(ahead, BACK, layer), (behind, FORTH, 2 * layer)];
                self.pass("points", axis, (&posted, &[]));
            }
            if direction.gives {
                let sent = [(ahead, FORTH, 2 * layer), (behind, BACK, layer)];
                self.pass("points", axis, (&[], &sent));
            }
        }
    }

    fn work(&mut self, name: &str, operations_of_point: f64, level: usize) {
        let points = self.grids[level].iter().map(|direction| direction.points);
        let points = points.product::<u64>();
        if points > 0 {
            let operations = points as f64 * operations_of_point * self.scale;
            self.rounds.compute(name, operations);
        }
    }

    /// Receives are posted, then sent is one message after the other; all is waited for.
    fn pass(&mut self, name: &str, axis: usize, (posted, sent): (&[Message], &[Message])) {
        let tag = |way: u32| 2 * axis as u32 + way;
        let posted = posted.iter().map(|(from, way, bytes)| Work::Receive {
            bytes: *bytes,
            from: *from,
            tag: tag(*way),
        });
        let sent = sent.iter().map(|(to, way, bytes)| {
            vec![Work::Send {
                bytes: *bytes,
                to: *to,
                tag: tag(*way),
            }]
        });
        let (posted, sent): (Vec<Work>, Vec<Vec<Work>>) = (posted.collect(), sent.collect());
        self.rounds.add_in_turn(name, &posted, &sent);
    }

    fn norm(&mut self) {
        for name in ["largest residual", "sum of squares"] {
            self.rounds.together(name, Collective::AllReduce, DOUBLE);
        }
    }
}

/// The other rank, the way of the message along its axis, and its bytes.
type Message = (u32, u32, u64);

const BACK: u32 = 0;
const FORTH: u32 = 1;
