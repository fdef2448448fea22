use super::*;

/// Points a side, and the operations of an iteration as the rate has them.
fn size(program: Program, class: Class) -> (u64, f64) {
    let side = match (program, class) {
        (_, Class::S) => 12,
        (Program::NasBt, Class::W) => 24,
        (_, Class::W) => 36,
        (_, Class::A) => 64,
        (_, Class::B) => 102,
        (_, Class::C) => 162,
    };
    let n = side as f64;
    let operations = match program {
        Program::NasBt => 3478.8 * n * n * n - 17_655.7 * n * n + 28_023.7 * n,
        _ => 881.174 * n * n * n - 4_683.91 * n * n + 11_484.5 * n - 19_272.4,
    };
    (side, operations)
}

fn one_iteration(program: Program, class: Class, ranks: u32) -> Request {
    Request {
        iterations: Some(1),
        ..request(program, class, ranks)
    }
}

#[test]
fn faces_and_sweeps_are_as_many_and_as_long_as_an_independent_count_says() {
    for (program, class) in [
        (Program::NasBt, Class::S),
        (Program::NasBt, Class::A),
        (Program::NasSp, Class::S),
        (Program::NasSp, Class::W),
    ] {
        for across in [1_u64, 2, 3, 4, 5, 7, 8] {
            let ranks = (across * across) as u32;
            let request = one_iteration(program, class, ranks);
            let Ok(_) = trace(&request) else {
                assert!(across > 4, "{program} {class:?} {ranks}");
                continue;
            };
            let graph = made(&request);
            let (side, _) = size(program, class);
            // Across the whole lie as many borders between cells as cells in a row but one.
            let borders = 3 * (across - 1);
            let faces = borders * 2 * 2 * side * side * 40;
            let sweeps = match program {
                // Each cell of a plane sends what the largest may need.
                Program::NasBt => {
                    let cell = side / across + 1;
                    borders * across * across * cell * cell * (30 + 5) * 8
                }
                _ => borders * (side - 2) * (side - 2) * (22 + 10) * 8,
            };
            let all = (0..ranks).map(|rank| sent(&graph, rank));
            let found = all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            let of_faces = if across == 1 { 0 } else { 6 * u64::from(ranks) };
            let messages = of_faces + borders * across * across * 2;
            assert_eq!(found, (messages, faces + sweeps), "{program} {ranks}");
        }
    }
}

#[test]
fn a_rank_sends_faces_and_sweeps_by_the_formula() {
    // Rank 0 of 2 x 2, 12 points a side: cells of 6 x 6 x 6, one in each plane of each direction.
    let sent_by = |program| sent(&made(&one_iteration(program, Class::S, 4)), 0);
    // To each of six sides one face: two layers of points of five doubles.
    let faces = 6 * (2 * 6 * 6 * 40);
    let (forward, back) = (7 * 7 * 30 * 8, 7 * 7 * 5 * 8);
    assert_eq!(
        sent_by(Program::NasBt),
        (6 + 6, faces + 3 * (forward + back))
    );
    // Of each cell a row in both other directions is at the border of the whole.
    let (forward, back) = (5 * 5 * 22 * 8, 5 * 5 * 10 * 8);
    assert_eq!(
        sent_by(Program::NasSp),
        (6 + 6, faces + 3 * (forward + back))
    );
}

#[test]
fn sweeps_go_to_neighbours_of_the_grid_of_ranks() {
    // Rank 5 of 4 x 4 is the second in the second row.
    for program in [Program::NasBt, Program::NasSp] {
        let made = trace(&one_iteration(program, Class::S, 16)).unwrap();
        let sent = made.ranks[5].all().filter_map(|work| match work {
            Work::Send { to, .. } => Some(to),
            _ => None,
        });
        let sweeps: Vec<u32> = sent.skip(6).collect();
        // Three forward and three back in each direction: along the row, up the rows, across both.
        let ways = [(6, 4), (9, 1), (8, 2)].map(|(to, back)| [to, to, to, back, back, back]);
        assert_eq!(sweeps, ways.concat(), "{program}");
    }
}

#[test]
fn inversions_after_the_third_direction_are_four_times_as_long() {
    let made = trace(&one_iteration(Program::NasSp, Class::A, 1)).unwrap();
    let steps = &made.ranks[0];
    let all = (0..steps.len() as u32).filter(|place| steps.name(*place).1 == "inversion");
    let counts: Vec<u64> = all
        .map(|place| match steps.work(place) {
            Work::Count { operations, .. } => operations,
            work => panic!("{work:?}"),
        })
        .collect();
    let [first, second, third] = counts[..] else {
        panic!("{counts:?}");
    };
    assert_eq!(first, second);
    assert!(third.abs_diff(4 * first) <= 4, "{counts:?}");
}

#[test]
fn all_ranks_have_work_in_each_step_of_a_sweep() {
    // Messages that take no time: cells of one size are done as if no rank ever waited.
    let parameters = Parameters {
        latency: Time::ZERO,
        overhead: Time::ZERO,
        gap: Time::ZERO,
        gap_per_byte: Time::ZERO,
        overhead_per_byte: Time::ZERO,
        eager_bytes: u64::MAX,
    };
    let options = Options {
        operations_per_second: Some(1e6),
        ..Options::default()
    };
    for program in [Program::NasBt, Program::NasSp] {
        for ranks in [1, 4, 9, 16] {
            let (_, microseconds) = size(program, Class::S);
            let request = one_iteration(program, Class::S, ranks);
            let graph = graph(&trace(&request).unwrap(), &options).unwrap();
            let end = replay(&graph, &parameters).unwrap().end();
            let found = end.picoseconds() as f64 / 1e6 * f64::from(ranks) / microseconds;
            assert!((found - 1.0).abs() < 1e-3, "{program} {ranks}: {found}");
        }
    }
}

#[test]
fn a_left_side_is_computed_while_the_message_of_a_sweep_is_on_the_way() {
    // Two steps a direction: with a latency between a forward message's 77 + 22 operations and the
    // left side's 22 only what is left of the latency is waited for.
    let cell = 6 * 6 * 6;
    let microseconds = |operations: f64, all: f64| {
        let (_, of_rate) = size(Program::NasSp, Class::S);
        of_rate / all * operations * f64::from(cell) / 1728.0
    };
    let left_side = microseconds(22.0, 875.0);
    let end = |latency: f64| {
        let options = Options {
            operations_per_second: Some(1e6),
            ..Options::default()
        };
        let request = one_iteration(Program::NasSp, Class::S, 4);
        let graph = graph(&trace(&request).unwrap(), &options).unwrap();
        let parameters = Parameters {
            latency: Time::from_nanoseconds((latency * 1e3) as u64),
            overhead: Time::ZERO,
            gap: Time::ZERO,
            gap_per_byte: Time::ZERO,
            overhead_per_byte: Time::ZERO,
            eager_bytes: u64::MAX,
        };
        let end = replay(&graph, &parameters).unwrap().end();
        end.picoseconds() as f64 / 1e6
    };
    let inversions = [7.0, 7.0, 28.0].map(|operations| microseconds(operations, 875.0));
    let latency = left_side * 0.9;
    // Faces take a whole latency, forward messages none, and those back what inversions leave.
    let back = inversions.map(|inversion| (latency - inversion).max(0.0));
    let expected = latency + back.iter().sum::<f64>();
    let found = end(latency) - end(0.0);
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
}

#[test]
fn operations_of_sweeps_are_those_of_the_rate() {
    for program in [Program::NasBt, Program::NasSp] {
        for (class, ranks) in [(Class::S, 9), (Class::W, 25), (Class::A, 49), (Class::B, 4)] {
            let (_, expected) = size(program, class);
            let found = operations(&one_iteration(program, class, ranks)) / expected;
            assert!((found - 1.0).abs() < 1e-3, "{program} {class:?}: {found}");
        }
    }
}
