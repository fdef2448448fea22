//! Linpack, as HPL does it: a matrix of rows and columns in blocks, dealt out to a grid of ranks
//! in turn, both ways. A panel is a block of columns. The column of ranks that has it looks for one
//! pivot per column: ranks 1, 2, 4 rows apart exchange the best row so far, together with the row
//! that it will change places with. The panel goes along the rows of ranks by a ring. Then each
//! column of ranks exchanges rows, again between ranks 1, 2, 4 rows apart: those that have the
//! panel's rows send them, and get as many of what is to be there. Each rank then updates what it
//! has of the rest.
//!
//! From `HPL_pdgesv0.c` (a panel after the other, no look-ahead), `HPL_pdmxswp.c`,
//! `HPL_pdpanel_init.c`, `HPL_1ring.c`, `HPL_1rinM.c`, `HPL_2ring.c` and `HPL_pdlaswp00N.c` of HPL
//! 2.3. The matrix has a column more, the right side. Operations are those of the factorization,
//! of the triangular system with the panel's rows, which each row of ranks solves for itself, and
//! of the product. It is assumed that each row of ranks has as many of the rows that are
//! exchanged: in truth that depends on the numbers. The triangular system at the end is not
//! solved.

use super::{DOUBLE, Rounds};
use crate::trace::Work;

/// A system of equations, and how it is solved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Matrix {
    /// How many equations.
    pub order: u32,
    /// Rows and columns of a block, and columns of a panel.
    pub block: u32,
    /// How a panel goes along a row of ranks.
    pub panel_broadcast: PanelBroadcast,
}

impl Default for Matrix {
    fn default() -> Self {
        Self {
            order: 1_000,
            block: 64,
            panel_broadcast: PanelBroadcast::Ring,
        }
    }
}

impl Matrix {
    /// How many panels there are.
    pub(super) const fn panels(&self) -> u32 {
        self.order.div_ceil(self.block)
    }

    /// Columns of a panel.
    fn columns(&self, panel: u32) -> u64 {
        u64::from(self.block.min(self.order - panel * self.block))
    }
}

/// How a panel goes from the ranks that have it along their rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PanelBroadcast {
    /// From each rank to the next.
    Ring,
    /// The next one, who has the panel after this one, passes nothing on: the ring goes on with the
    /// one behind it.
    ModifiedRing,
    /// Two rings, each for half of the ranks.
    TwoRings,
}

impl PanelBroadcast {
    /// From whom a rank gets the panel, and to whom it passes it on, in order: of so many in a row,
    /// as steps from the one that has it.
    fn way(self, across: u32, steps: u32) -> (Option<u32>, Vec<u32>) {
        // The rank with which another ring begins, if there is one.
        let second = match self {
            Self::Ring => across,
            Self::ModifiedRing => 2,
            Self::TwoRings => across.div_ceil(2),
        };
        let heads = [1, second];
        let heads = heads.into_iter().filter(|head| *head < across);
        let from = match steps {
            0 => None,
            _ if heads.clone().any(|head| head == steps) => Some(0),
            _ => Some(steps - 1),
        };
        let next = steps + 1;
        let to: Vec<u32> = match steps {
            0 => {
                let mut all: Vec<u32> = heads.collect();
                all.dedup();
                all
            }
            _ if next < across && next != second => vec![next],
            _ => Vec::new(),
        };
        (from, to)
    }
}

/// Rows of the grid of ranks: the largest power of two that divides it and is at most its root.
pub(super) fn grid_rows(ranks: u32) -> u32 {
    let mut rows = 1;
    while ranks.is_multiple_of(2 * rows) && 4 * rows * rows <= ranks {
        rows *= 2;
    }
    rows
}

/// How much of a length cut in blocks, from one of them on, is dealt to a place of so many.
pub(super) fn dealt(length: u32, block: u32, first: u32, (across, place): (u32, u32)) -> u64 {
    let blocks = length.div_ceil(block);
    if first >= blocks {
        return 0;
    }
    let skipped = (place + across - first % across) % across;
    let own = (blocks - first).saturating_sub(skipped).div_ceil(across);
    let missing = blocks * block - length;
    let has_last = own > 0 && (blocks - 1) % across == place;
    u64::from(own * block - if has_last { missing } else { 0 })
}

/// A rank of the grid.
struct Place {
    rows: u32,
    columns: u32,
    row: u32,
    column: u32,
}

impl Place {
    const fn rank_of(&self, row: u32, column: u32) -> u32 {
        row * self.columns + column
    }
}

pub(super) fn rounds(matrix: &Matrix, (ranks, rank): (u32, u32), panels: u32) -> Rounds {
    let rows = grid_rows(ranks);
    let columns = ranks / rows;
    let place = Place {
        rows,
        columns,
        row: rank / columns,
        column: rank % columns,
    };
    let mut rounds = Rounds::default();
    let (order, block) = (matrix.order, matrix.block);
    for panel in 0..panels {
        let width = matrix.columns(panel);
        let across = (rows, place.row);
        let below = dealt(order, block, panel + 1, across);
        if place.column == panel % columns {
            factorize(&mut rounds, &place, panel, (below, width));
        }
        let doubles = below * width + width * width + width + 1;
        pass_on(&mut rounds, &place, panel, (doubles, matrix));
        // The last column is the right side.
        let right = match dealt(order + 1, block, panel + 1, (columns, place.column)) {
            0 if width < u64::from(block) && place.column == panel % columns => 1,
            right => right,
        };
        if right > 0 {
            exchange_rows(&mut rounds, &place, panel, (width, right));
            let (width, right) = (width as f64, right as f64);
            let solved = width * width * right;
            rounds.compute("update", solved + 2.0 * below as f64 * width * right);
        }
    }
    rounds
}

/// The ranks 1, 2, 4 rows away, as steps from the row that has the panel's rows; and how many steps
/// this rank is from it itself.
fn by_rows(place: &Place, panel: u32) -> (u32, impl Iterator<Item = (u32, u32)>) {
    let (rows, first) = (place.rows, panel % place.rows);
    let steps = (place.row + rows - first) % rows;
    let column = place.column;
    let columns = place.columns;
    let others = (0..rows.ilog2()).map(move |step| {
        let other = (steps ^ 1 << step) + first;
        (step, other % rows * columns + column)
    });
    (steps, others)
}

/// A pivot for each column of the panel, and the columns behind it brought up to date.
fn factorize(rounds: &mut Rounds, place: &Place, panel: u32, (below, width): (u64, u64)) {
    let (steps, others) = by_rows(place, panel);
    let others: Vec<(u32, u32)> = others.collect();
    // The best row and what is said about it; with it goes the row that it is exchanged with.
    let (one, both) = ((width + 4) * DOUBLE, (2 * width + 4) * DOUBLE);
    for column in 0..width {
        for (step, other) in &others {
            let bytes = match (steps >> (step + 1), steps >> step) {
                (0, 0) => (both, one),
                (0, _) => (one, both),
                _ => (one, one),
            };
            rounds.exchange("pivot", *other, bytes);
        }
        let behind = width - column - 1;
        let rows = below + if steps == 0 { behind } else { 0 };
        rounds.compute("factorization", (rows * (1 + 2 * behind)) as f64);
    }
}

fn pass_on(rounds: &mut Rounds, place: &Place, panel: u32, (doubles, matrix): (u64, &Matrix)) {
    let (columns, first) = (place.columns, panel % place.columns);
    let steps = (place.column + columns - first) % columns;
    let at = |steps: u32| place.rank_of(place.row, (first + steps) % columns);
    let (from, to) = matrix.panel_broadcast.way(columns, steps);
    let (bytes, tag) = (doubles * DOUBLE, 1);
    if let Some(from) = from {
        let from = at(from);
        rounds.add("panel", &[Work::Receive { bytes, from, tag }]);
    }
    for to in to {
        let to = at(to);
        rounds.add("panel", &[Work::Send { bytes, to, tag }]);
    }
}

/// Who has the panel's rows of the columns right of it sends them, and gets rows for them.
fn exchange_rows(rounds: &mut Rounds, place: &Place, panel: u32, (width, right): (u64, u64)) {
    let (steps, others) = by_rows(place, panel);
    let all = width * right;
    for (step, other) in others {
        // A row goes with its number. The rows of so many rows of ranks have come together; what is
        // left over of them is with the first ones.
        let gathered = |of: u32| {
            let group = of >> step << step;
            let own = |steps: u32| {
                let [width, steps, rows] = [width, steps.into(), place.rows.into()];
                width / rows + u64::from(steps < width % rows)
            };
            (group..group + (1 << step)).map(own).sum::<u64>() * (right + 1)
        };
        let (own, of_other) = (gathered(steps), gathered(steps ^ 1 << step));
        let doubles = match (steps >> (step + 1), steps >> step) {
            (0, 0) => (all, of_other),
            (0, _) => (own, all),
            _ => (own, of_other),
        };
        rounds.exchange("rows", other, (doubles.0 * DOUBLE, doubles.1 * DOUBLE));
    }
}
