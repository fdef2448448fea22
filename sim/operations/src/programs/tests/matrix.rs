use super::*;
use crate::programs::linpack::{dealt, grid_rows};

fn linpack(order: u32, block: u32, ranks: u32, panel_broadcast: PanelBroadcast) -> Request {
    Request {
        matrix: Matrix {
            order,
            block,
            panel_broadcast,
        },
        ..Request::usual(Program::Linpack, ranks)
    }
}

const BROADCASTS: [PanelBroadcast; 3] = [
    PanelBroadcast::Ring,
    PanelBroadcast::ModifiedRing,
    PanelBroadcast::TwoRings,
];

#[test]
fn blocks_are_dealt_to_ranks_in_turn() {
    for (length, block, across) in [(100_u32, 7_u32, 3_u32), (64, 8, 4), (5, 9, 2), (33, 1, 5)] {
        for first in 0..=length.div_ceil(block) {
            for place in 0..across {
                // Element by element.
                let is_own = |at: &u32| {
                    let of_block = at / block;
                    of_block >= first && of_block % across == place
                };
                let counted = (0..length).filter(is_own).count() as u64;
                assert_eq!(dealt(length, block, first, (across, place)), counted);
            }
        }
    }
}

#[test]
fn grids_are_as_square_as_powers_of_two_make_them() {
    let grid = |ranks: u32| (grid_rows(ranks), ranks / grid_rows(ranks));
    assert_eq!(
        [1, 2, 4, 6, 7, 8, 12, 16, 32, 48].map(grid),
        [
            (1, 1),
            (1, 2),
            (2, 2),
            (2, 3),
            (1, 7),
            (2, 4),
            (2, 6),
            (4, 4),
            (4, 8),
            (4, 12)
        ]
    );
}

/// Bytes by name of what is sent for, of all ranks.
fn bytes_of(request: &Request, name: &str) -> u64 {
    let made = trace(request).unwrap();
    let all = made.ranks.iter().flat_map(|steps| {
        let places = (0..steps.len() as u32).filter(|place| steps.name(*place).1 == name);
        places.map(|place| steps.work(place))
    });
    let sent = all.filter_map(|work| match work {
        Work::Send { bytes, .. } => Some(bytes),
        _ => None,
    });
    sent.sum()
}

#[test]
fn panels_pivots_and_rows_have_the_bytes_of_a_closed_form() {
    let (order, block) = (96_u64, 8_u64);
    for (ranks, rows, columns) in [(8_u64, 2_u64, 4_u64), (16, 4, 4), (7, 1, 7), (4, 2, 2)] {
        for broadcast in BROADCASTS {
            let request = linpack(96, 8, ranks as u32, broadcast);
            let panels = order / block;
            // However it goes, all ranks of a row but one get the panel: what is below of all rows
            // of ranks, and for each row of ranks the panel's square, its pivots and a flag.
            let below: u64 = (0..panels).map(|it| order - (it + 1) * block).sum();
            let squares = panels * rows * (block * block + block + 1);
            let panel = (columns - 1) * (below * block + squares);
            assert_eq!(bytes_of(&request, "panel"), 8 * panel, "{ranks}");
            // For each column all exchange a row and four numbers in each round, and those that
            // have it, twice as many in each round, the row that is replaced.
            let doublings: u64 = (0..rows.ilog2()).map(|round| 1 << round).sum();
            let rounds = u64::from(rows.ilog2());
            let pivots = order * (rounds * rows * (block + 4) + doublings * block);
            assert_eq!(bytes_of(&request, "pivot"), 8 * pivots, "{ranks}");
            // The panel's rows, of what is right of it, go to all rows of ranks but one; the other
            // way come a half, two quarters, ... of as many rows, each with its number.
            let right: u64 = (0..panels).map(|it| order + 1 - (it + 1) * block).sum();
            let numbers = panels * columns - idle(order + 1, block, columns);
            let given = (rows - 1) * block * right;
            let come = returned(rows, block) * right + returned(rows, block) * numbers;
            let exchanged = bytes_of(&request, "rows");
            assert_eq!(exchanged, 8 * (given + come), "{ranks} {rows}");
        }
    }
}

/// How often a column of ranks has nothing right of a panel.
fn idle(columns: u64, block: u64, across: u64) -> u64 {
    let blocks = columns.div_ceil(block);
    let panels = (columns - 1) / block;
    let has = |panel: u64, place: u64| (panel + 1..blocks).any(|at| at % across == place);
    let all = (0..panels).flat_map(|panel| (0..across).map(move |place| (panel, place)));
    all.filter(|(panel, place)| !has(*panel, *place)).count() as u64
}

/// Rows that those without the panel's send in a column of ranks, each of which has as many.
fn returned(rows: u64, block: u64) -> u64 {
    let mut sum = 0;
    for round in 0..rows.ilog2() {
        // In groups of 2^round: all but the first one, which has the panel's, send what they have.
        sum += (rows - (1 << round)) * (1 << round) * block / rows;
    }
    sum
}

#[test]
fn a_panel_goes_the_way_of_its_broadcast() {
    // One row of five ranks; the second has the second panel.
    let ways = |broadcast| {
        let request = Request {
            iterations: Some(2),
            ..linpack(100, 10, 5, broadcast)
        };
        let graph = made(&request);
        let mut all = Vec::new();
        for rank in 0..5 {
            let sends = graph.of_rank(rank).map(|id| graph.operation(id));
            let mut to: Vec<u32> = sends
                .filter(|it| it.kind == Kind::Send && it.amount == (80 * 10 + 111) * 8)
                .map(|it| it.peer)
                .collect();
            to.sort_unstable();
            all.push(to);
        }
        all
    };
    let none: Vec<u32> = Vec::new();
    assert_eq!(
        ways(PanelBroadcast::Ring),
        [none.clone(), vec![2], vec![3], vec![4], vec![0]]
    );
    assert_eq!(
        ways(PanelBroadcast::ModifiedRing),
        [none.clone(), vec![2, 3], none.clone(), vec![4], vec![0]]
    );
    // Three steps ahead begins the other half.
    assert_eq!(
        ways(PanelBroadcast::TwoRings),
        [none.clone(), vec![2, 4], vec![3], none, vec![0]]
    );
}

#[test]
fn one_rank_does_the_operations_of_an_elimination() {
    let (order, block) = (120_u64, 9_u64);
    let request = linpack(120, 9, 1, PanelBroadcast::Ring);
    // Column by column: below the pivot a division, and a row's product and difference; one more
    // column is the right side. A triangular system with so many rows takes as many squares.
    let mut expected = 0;
    for column in 0..order {
        let below = order - column - 1;
        let panel = column / block;
        let end = ((panel + 1) * block).min(order);
        expected += below * (1 + 2 * (end - column - 1));
        if column + 1 == end {
            let (width, right) = (end - panel * block, order + 1 - end);
            expected += width * width * right + 2 * (order - end) * width * right;
        }
    }
    assert_eq!(operations(&request), expected as f64);
    // What the rate counts, but for the right side's solution and what blocks do twice.
    let n = order as f64;
    let rate = 2.0 / 3.0 * n * n * n + 1.5 * n * n;
    assert!((expected as f64 / rate - 1.0).abs() < 0.02, "{expected}");
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let refused = |request: Request| trace(&request).expect_err("it is refused").to_string();
    let ring = PanelBroadcast::Ring;
    assert_eq!(
        refused(linpack(0, 8, 4, ring)),
        "the order of the matrix is 1 to 1048576, not 0"
    );
    assert_eq!(
        refused(linpack(100, 5000, 4, ring)),
        "a block's side is 1 to 4096, not 5000"
    );
    assert_eq!(
        refused(Request {
            iterations: Some(14),
            ..linpack(100, 8, 4, ring)
        }),
        "linpack of order 100 in blocks of 8 has 1 to 13 iterations, not 14"
    );
    let mut sort = Request::usual(Program::RadixSort, 4);
    sort.keys.digit_bits = 17;
    assert_eq!(
        refused(sort),
        "the number of bits of a digit is 1 to 16, not 17"
    );
}
