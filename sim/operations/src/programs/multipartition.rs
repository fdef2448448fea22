//! The points of BT and SP, cut into p x p x p cells, of which each of p x p ranks has p: one in
//! each plane of each direction, so that all ranks have work in each step of a sweep.
//!
//! From `make_set.f` of both benchmarks: the cell of rank (i, j) in plane c of the third direction
//! is (i + c, j - c, c), modulo p; points that are left over go to the first cells.

use super::{DOUBLE, Rounds};
use crate::collective::block_bytes;
use crate::trace::Work;

/// Bytes of a point: five doubles.
pub(super) const POINT: u64 = 5 * DOUBLE;
/// Points that a cell has at least in each direction.
const SIDE_MIN: u32 = 3;

/// Most ranks in each direction, for so many points.
pub(super) const fn across_max(side: u32) -> u32 {
    side / SIDE_MIN
}

/// Where the cells of a rank lie, of so many points in each direction.
#[derive(Clone, Copy)]
pub(super) struct Cells {
    side: u32,
    /// Ranks in a row, and cells of a rank.
    pub(super) across: u32,
    column: u32,
    row: u32,
}

impl Cells {
    pub(super) const fn of(side: u32, (ranks, rank): (u32, u32)) -> Self {
        let across = ranks.isqrt();
        Self {
            side,
            across,
            column: rank % across,
            row: rank / across,
        }
    }

    /// The rank with the cells next to its own along an axis.
    pub(super) const fn successor(&self, axis: usize) -> u32 {
        self.rank_at(axis, 1)
    }

    pub(super) const fn predecessor(&self, axis: usize) -> u32 {
        self.rank_at(axis, self.across - 1)
    }

    const fn rank_at(&self, axis: usize, steps: u32) -> u32 {
        let back = self.across - steps;
        let (columns, rows) = match axis {
            0 => (steps, 0),
            1 => (0, steps),
            _ => (back, steps),
        };
        (self.column + columns) % self.across + (self.row + rows) % self.across * self.across
    }

    /// The side of a cell, without the point that some have more.
    pub(super) const fn side_of_cell(&self) -> u32 {
        self.side / self.across
    }

    /// Where its cell in a plane of an axis lies.
    pub(super) const fn cell(&self, axis: usize, plane: u32) -> [u32; 3] {
        let across = self.across;
        let third = match axis {
            0 => plane + across - self.column,
            1 => self.row + across - plane,
            _ => plane,
        } % across;
        [
            (self.column + third) % across,
            (self.row + across - third) % across,
            third,
        ]
    }

    /// Points of a cell in each direction.
    pub(super) fn points(&self, cell: [u32; 3]) -> [u64; 3] {
        cell.map(|at| block_bytes(self.side.into(), self.across, at))
    }

    /// The same without those at the border of the whole.
    pub(super) fn inner_points(&self, cell: [u32; 3]) -> [u64; 3] {
        let last = self.across - 1;
        cell.map(|at| {
            let points = block_bytes(self.side.into(), self.across, at);
            points - u64::from(at == 0) - u64::from(at == last)
        })
    }

    /// The share of a cell in all points.
    pub(super) fn share(&self, cell: [u32; 3]) -> f64 {
        let points = self.points(cell).iter().product::<u64>();
        points as f64 / f64::from(self.side).powi(3)
    }

    /// The share of all its cells.
    fn share_of_rank(&self) -> f64 {
        let planes = 0..self.across;
        planes.map(|plane| self.share(self.cell(2, plane))).sum()
    }

    /// Iterations: faces, the right side, a sweep along each axis, the addition. `each` is how many
    /// operations of all ranks one of a point stands for; the right side and the addition have so
    /// many of a point.
    pub(super) fn iterate(
        &self,
        (count, each): (u32, f64),
        (right_side, addition): (f64, f64),
        sweep: impl Fn(&mut Rounds, usize),
    ) -> Rounds {
        let mut rounds = Rounds::default();
        let of_rank = each * self.share_of_rank();
        for _ in 0..count {
            self.copy_faces(&mut rounds);
            rounds.compute("right side", of_rank * right_side);
            (0..3).for_each(|axis| sweep(&mut rounds, axis));
            rounds.compute("addition", of_rank * addition);
        }
        rounds
    }

    /// Two layers of points on each side of each cell are exchanged, with all neighbours at once:
    /// those of all cells that lie side by side in one message.
    fn copy_faces(&self, rounds: &mut Rounds) {
        if self.across == 1 {
            return;
        }
        let planes = || (0..self.across).map(|plane| self.cell(2, plane));
        let bytes = |axis: usize, border: u32| {
            let cells = planes().filter(|cell| cell[axis] != border);
            let faces = cells.map(|cell| {
                let points = self.points(cell);
                points[(axis + 1) % 3] * points[(axis + 2) % 3]
            });
            2 * POINT * faces.sum::<u64>()
        };
        let mut all = Vec::new();
        for axis in 0..3 {
            let tag = 2 * axis as u32;
            all.push(Work::Receive {
                bytes: bytes(axis, self.across - 1),
                from: self.successor(axis),
                tag,
            });
            all.push(Work::Receive {
                bytes: bytes(axis, 0),
                from: self.predecessor(axis),
                tag: tag + 1,
            });
        }
        for axis in 0..3 {
            let tag = 2 * axis as u32;
            all.push(Work::Send {
                bytes: bytes(axis, self.across - 1),
                to: self.successor(axis),
                tag: tag + 1,
            });
            all.push(Work::Send {
                bytes: bytes(axis, 0),
                to: self.predecessor(axis),
                tag,
            });
        }
        rounds.add("faces", &all);
    }
}
