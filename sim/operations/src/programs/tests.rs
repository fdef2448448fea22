mod keys;
mod matrix;
mod multigrid;
mod multipartition;

use viaduct_engine::Time;

use super::*;
use crate::check::check;
use crate::collective::Algorithm;
use crate::loggops::{Parameters, replay};
use crate::trace::{Options, graph};
use crate::{Kind, Operation};

fn request(program: Program, class: Class, ranks: u32) -> Request {
    Request {
        class,
        ..Request::usual(program, ranks)
    }
}

fn made(request: &Request) -> crate::Graph {
    let options = Options {
        all_reduce: Algorithm::RecursiveDoubling,
        ..Options::default()
    };
    let trace = trace(request).expect("there is such a program");
    graph(&trace, &options).expect("it is right")
}

/// Messages and bytes that a rank sends.
fn sent(graph: &crate::Graph, rank: u32) -> (u64, u64) {
    let all = graph.of_rank(rank).map(|id| graph.operation(id));
    let sends = all.filter(|operation| operation.kind == Kind::Send);
    sends.fold((0, 0), |(count, bytes), operation| {
        (count + 1, bytes + operation.amount)
    })
}

/// How many messages one after the other it takes, where a message takes nothing but a latency.
fn latencies(graph: &crate::Graph) -> u64 {
    let latency = Time::from_nanoseconds(1000);
    let parameters = Parameters {
        latency,
        overhead: Time::ZERO,
        gap: Time::ZERO,
        gap_per_byte: Time::ZERO,
        overhead_per_byte: Time::ZERO,
        eager_bytes: u64::MAX,
    };
    let end = replay(graph, &parameters).unwrap().end().picoseconds();
    assert_eq!(end % latency.picoseconds(), 0);
    end / latency.picoseconds()
}

/// So many ranks, and the smallest class that they can have; none if the program has not so many.
fn smallest(program: Program, ranks: u32) -> Option<Request> {
    let mut all = [Class::S, Class::W, Class::A].map(|class| request(program, class, ranks));
    for request in &mut all {
        request.iterations = Some(1);
        (request.matrix.order, request.matrix.block) = (100, 7);
        request.keys.count = 1_000;
    }
    all.into_iter().find(|request| trace(request).is_ok())
}

#[test]
fn all_that_is_sent_is_received_and_all_ranks_end() {
    for program in Program::ALL {
        let mut numbers = 0;
        for ranks in (1..=17).chain([32, 33, 36, 49, 64]) {
            let Some(request) = smallest(program, ranks) else {
                continue;
            };
            numbers += 1;
            let graph = made(&request);
            assert_eq!(check(&graph), [], "{program} {ranks}");
            for rank in 0..ranks {
                let mut all = graph.of_rank(rank).map(|id| graph.operation(id));
                let is_to_itself = |it: &Operation| it.kind != Kind::Compute && it.peer == rank;
                assert!(!all.any(|it| is_to_itself(&it)), "{program} {ranks}");
            }
            let outcome = replay(&graph, &Parameters::default()).expect("short enough");
            assert_eq!(outcome.stalled, None, "{program} {ranks}");
            assert_eq!(outcome.messages == 0, ranks == 1, "{program} {ranks}");
        }
        let expected = match program {
            Program::NasEp | Program::Linpack | Program::RadixSort => 22,
            _ => 7,
        };
        assert_eq!(numbers, expected, "{program}");
    }
}

#[test]
fn copies_side_by_side_know_nothing_of_each_other() {
    for program in Program::ALL {
        let request = smallest(program, 4).unwrap();
        let one = trace(&request).unwrap();
        assert_eq!(one.side_by_side(1).ranks, one.ranks, "{program}");
        let options = Options {
            all_reduce: Algorithm::RecursiveDoubling,
            operations_per_second: Some(1e7),
            ..Options::default()
        };
        let alone = graph(&one, &options).unwrap();
        let three = graph(&one.side_by_side(3), &options).unwrap();
        assert_eq!(check(&three), [], "{program}");
        for rank in 0..12 {
            assert_eq!(sent(&three, rank), sent(&alone, rank / 3), "{program}");
            let mut all = three.of_rank(rank).map(|id| three.operation(id));
            let is_of_copy = |it: &Operation| it.kind == Kind::Compute || it.peer % 3 == rank % 3;
            assert!(all.all(|it| is_of_copy(&it)), "{program}");
        }
        // Where nothing is shared, they take as long as one.
        let end = |graph| replay(graph, &Parameters::default()).unwrap().end();
        assert_eq!(end(&alone), end(&three), "{program}");
    }
}

#[test]
fn conjugate_gradients_send_by_the_formula() {
    // Columns of the grid, as powers of two, and rows of the matrix a rank sums.
    for (ranks, columns, rows) in [(4, 1, 7_000), (8, 2, 3_500), (16, 2, 3_500), (32, 3, 1_750)] {
        let graph = made(&request(Program::NasCg, Class::A, ranks));
        // 26 products, 52 sums of a double and one of two in each of 15 iterations.
        for rank in 0..ranks {
            let grid_rows = 1 << (ranks.ilog2() / 2);
            let grid_columns = ranks / grid_rows;
            let (row, column) = (rank / grid_columns, rank % grid_columns);
            let others = u64::from(row != column / (grid_columns / grid_rows));
            let products = 15 * 26 * (columns + others);
            let sums = 15 * columns;
            let bytes = products * rows * 8 + sums * (52 * 8 + 16);
            assert_eq!(sent(&graph, rank), (products + sums * 53, bytes), "{rank}");
        }
    }
}

#[test]
fn a_rank_sums_rows_that_are_left_over_with_its_neighbours() {
    // 1,400 rows over 16 rows of ranks: 88 or 87, of which a rank sums 43 or 44.
    let one_iteration = Request {
        iterations: Some(1),
        ..request(Program::NasCg, Class::S, 512)
    };
    let first = trace(&one_iteration).unwrap();
    let messages = |rank: usize| {
        let all = first.ranks[rank].all();
        let long = all.filter_map(|work| match work {
            Work::Send { bytes, .. } if bytes > 16 => Some(bytes),
            _ => None,
        });
        long.take(6).collect::<Vec<_>>()
    };
    assert_eq!(messages(1), [44 * 8; 6]);
    let odd = messages(32 * 15 + 1);
    assert_eq!(odd, [44, 43, 43, 43, 43, 43].map(|rows| rows * 8));
    assert_eq!(check(&made(&one_iteration)), []);
}

#[test]
fn numbers_are_summed_with_the_farthest_rank_first_and_vectors_with_the_nearest() {
    // 64 ranks are a grid of 8 x 8: rank 0 sums along its row, and is on the diagonal.
    let one_iteration = Request {
        iterations: Some(1),
        ..request(Program::NasCg, Class::S, 64)
    };
    let made = trace(&one_iteration).unwrap();
    let to = made.ranks[0].all().filter_map(|work| match work {
        Work::Send { to, .. } => Some(to),
        _ => None,
    });
    assert_eq!(to.take(6).collect::<Vec<_>>(), [4, 2, 1, 1, 2, 4]);
}

#[test]
fn sweeps_send_rows_to_the_neighbours_by_the_formula() {
    // 102 points a side over 4 x 2 ranks: 26, 26, 25 and 25 from north to south, 51 each from
    // west to east; 100 planes. Rank 1 is in the west, between two others.
    let all = made(&Request {
        iterations: Some(2),
        ..request(Program::NasLu, Class::B, 8)
    });
    let point = 40;
    let (to_south_or_north, to_east) = ((51 - 1) * point, 26 * point);
    let sweeps = 100 * (2 * to_south_or_north + to_east);
    let borders = 2 * 102 * point * (2 * 51 + 26);
    assert_eq!(sent(&all, 1), (2 * (300 + 3), 2 * (sweeps + borders)));
    // Rank 7 is at two borders.
    let sweeps = 100 * ((51 - 1) * point + (25 - 1) * point);
    let borders = 2 * 102 * point * (51 + 25);
    assert_eq!(sent(&all, 7), (2 * (200 + 2), 2 * (sweeps + borders)));
    // Two norms after the last iteration, two messages each.
    let whole = made(&request(Program::NasLu, Class::S, 4));
    let one = made(&Request {
        iterations: Some(1),
        ..request(Program::NasLu, Class::S, 4)
    });
    assert_eq!(sent(&whole, 0).0, 50 * sent(&one, 0).0 + 2 * 2);
}

#[test]
fn a_sweep_goes_through_the_grid_rank_by_rank() {
    // Two ranks, messages that take no time: while the second one computes a plane, the first
    // computes the next, so each sweep takes one plane more than with all at once.
    let request = Request {
        iterations: Some(1),
        ..request(Program::NasLu, Class::S, 2)
    };
    let options = Options {
        operations_per_second: Some(1e6),
        ..Options::default()
    };
    let parameters = Parameters {
        latency: Time::ZERO,
        overhead: Time::ZERO,
        gap: Time::ZERO,
        gap_per_byte: Time::ZERO,
        overhead_per_byte: Time::ZERO,
        eager_bytes: u64::MAX,
    };
    let graph = graph(&trace(&request).unwrap(), &options).unwrap();
    let end = replay(&graph, &parameters).unwrap().end();
    let microseconds = (1984.77 * 1728.0 - 10_923.3 * 144.0 + 27_770.9 * 12.0 - 144_010.0) / 2.0;
    let planes = microseconds / 3.0 / 10.0;
    let expected = microseconds + 2.0 * planes;
    let found = end.picoseconds() as f64 / 1e6;
    assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
}

#[test]
fn sorting_and_transforming_send_by_the_formula() {
    let (ranks, others) = (8_u32, 7);
    let sort = made(&request(Program::NasIs, Class::A, ranks));
    let keys = (1 << 23) * 4 / 64;
    let sizes = 3 * (1024 + 5) * 4;
    let bytes = 10 * (sizes + others * (4 + keys));
    assert_eq!(sent(&sort, 3), (10 * (3 + 2 * others), bytes));
    let transform = made(&request(Program::NasFt, Class::A, ranks));
    let block = 256 * 256 * 128 * 16 / 64;
    // A rank that is a leaf of the tree to rank 0 sends a checksum in each iteration.
    assert_eq!(
        sent(&transform, 7),
        (7 * others + 6, 7 * others * block + 6 * 16)
    );
}

#[test]
fn pencils_are_transposed_along_columns_and_rows() {
    // Class S has 64 planes: a grid of 64 rows and of so many columns.
    for columns in [2_u32, 4, 64] {
        let ranks = 64 * columns;
        let transform = Request {
            iterations: Some(1),
            ..request(Program::NasFt, Class::S, ranks)
        };
        let made_of = trace(&transform).unwrap();
        let rank = ranks - 2;
        let steps = &made_of.ranks[rank as usize];
        let of_transpositions = steps.all().filter_map(|work| match work {
            Work::Together(together) if together.collective == Collective::AllToAll => {
                assert_eq!(together.bytes, (1 << 18) / u64::from(ranks) * 16);
                let members = &made_of.groups[together.group as usize].members;
                assert!(members.contains(&rank));
                Some((members.len() as u32, members[1] - members[0]))
            }
            _ => None,
        });
        let (column, row) = ((64, columns), (columns, 1));
        let expected = [column, row, row, column];
        assert_eq!(of_transpositions.collect::<Vec<_>>(), expected);
        // To all others of a column and of a row, twice; the last rank is a leaf of the checksum's
        // tree.
        let graph = made(&transform);
        let messages = 2 * u64::from(63 + columns - 1) + 1;
        let block = |members: u32| (1 << 18) / u64::from(ranks) * 16 / u64::from(members);
        let bytes = 2 * (63 * block(64) + u64::from(columns - 1) * block(columns)) + 16;
        assert_eq!(sent(&graph, ranks - 1), (messages, bytes));
        assert_eq!(check(&graph), []);
    }
    // As many operations as in planes, but for a rounding in each rank's computation.
    let all = |ranks| {
        operations(&Request {
            iterations: Some(2),
            ..request(Program::NasFt, Class::S, ranks)
        })
    };
    assert!((all(4096) / all(64) - 1.0).abs() < 1e-3);
}

#[test]
fn random_numbers_take_their_share_and_three_sums() {
    for ranks in [1, 4, 16] {
        let request = request(Program::NasEp, Class::S, ranks);
        let options = Options {
            all_reduce: Algorithm::RecursiveDoubling,
            operations_per_second: Some(1e9),
            ..Options::default()
        };
        let graph = graph(&trace(&request).unwrap(), &options).unwrap();
        let parameters = Parameters {
            eager_bytes: u64::MAX,
            ..Parameters::default()
        };
        let end = replay(&graph, &parameters).unwrap().end();
        // LogGOPS: a message by itself takes 5,500 ns and 6 ns for each byte after the first.
        let alone = |bytes: u64| 5_500 + 6 * (bytes - 1);
        let rounds = u64::from(ranks.ilog2());
        let sums = rounds * (2 * alone(8) + alone(80));
        let drawn = (1_u64 << 25) / u64::from(ranks);
        assert_eq!(end.picoseconds() / 1000, drawn + sums);
    }
}

/// Operations of all ranks.
fn operations(request: &Request) -> f64 {
    let trace = trace(request).unwrap();
    let all = trace.ranks.iter().flat_map(|steps| steps.all());
    let counts = all.filter_map(|work| match work {
        Work::Count { operations, .. } => Some(operations),
        _ => None,
    });
    counts.sum::<u64>() as f64
}

#[test]
fn operations_are_those_that_the_programs_count() {
    // 2 x 15 x 14,000 x (3 + 132 + 25 x (5 + 132) + 3);
    // of the transform what its rate counts, with ln(2^23) = 15.942385.
    let counted = |program, class| operations(&request(program, class, 4));
    let gradients = counted(Program::NasCg, Class::A);
    assert!((gradients / (420_000.0 * 3_563.0) - 1.0).abs() < 1e-6);
    let points = 8_388_608.0_f64;
    let logarithm = 15.942_385;
    let each = 14.8157 + 7.19641 * logarithm + 6.0 * (5.23518 + 7.21113 * logarithm);
    let transform = counted(Program::NasFt, Class::A);
    assert!((transform / (points * each) - 1.0).abs() < 1e-6);
}

#[test]
fn numbers_of_ranks_and_iterations_that_do_not_exist_are_refused_with_the_nearest() {
    let refused = |program, class, ranks, iterations| {
        let request = Request {
            iterations,
            ..request(program, class, ranks)
        };
        trace(&request).expect_err("it is refused").to_string()
    };
    assert_eq!(
        refused(Program::NasCg, Class::B, 12, None),
        "nas-cg of class B has no 12 ranks: it has powers of two, as 8 and 16"
    );
    assert_eq!(
        refused(Program::NasFt, Class::A, 1 << 15, None),
        "nas-ft of class A has no 32768 ranks: it has at most 16384"
    );
    assert_eq!(
        refused(Program::NasIs, Class::A, 0, None),
        "nas-is of class A has no 0 ranks: it has at least 1"
    );
    assert_eq!(
        refused(Program::NasFt, Class::A, 4, Some(7)),
        "nas-ft of class A has 1 to 6 iterations, not 7"
    );
    assert_eq!(
        refused(Program::NasSp, Class::A, 8, None),
        "nas-sp of class A has no 8 ranks: it has squares, as 4 and 9"
    );
    assert_eq!(
        refused(Program::NasBt, Class::S, 25, None),
        "nas-bt of class S has no 25 ranks: it has at most 16"
    );
    assert_eq!(
        refused(Program::NasMg, Class::S, 1 << 16, None),
        "nas-mg of class S has no 65536 ranks: it has at most 32768"
    );
    assert_eq!(
        refused(Program::NasLu, Class::S, 8, None),
        "nas-lu of class S has no 8 ranks: it has at most 4"
    );
    assert!(trace(&request(Program::NasEp, Class::S, 12)).is_ok());
}
