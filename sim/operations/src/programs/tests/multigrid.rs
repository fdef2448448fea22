use super::*;
use crate::programs::nas_mg::log2_of_ranks;

/// How often borders of a grid of 2^level points a side are exchanged in an iteration, of so many
/// grids: after a restriction to it, its residual and its smoothing; of the finest, after two
/// residuals and its smoothing.
fn exchanges(level: u32) -> u64 {
    if level == 1 { 2 } else { 3 }
}

/// Messages and doubles of an exchange of borders, of all ranks: those that have points lie on a
/// grid of their own, and each has two neighbours in a direction in which there are two.
fn borders(level: u32, ranks: [u64; 3]) -> (u64, u64) {
    let side = 1_u64 << level;
    let active = ranks.map(|across| across.min(side));
    let all: u64 = active.iter().product();
    let (mut messages, mut doubles) = (0, 0);
    for axis in (0..3).filter(|axis| active[*axis] > 1) {
        messages += 2 * all;
        let face = (0..3).map(|other| match other {
            _ if other == axis => active[axis],
            // The border has come in directions before.
            _ if other < axis => side + 2 * active[other],
            _ => side,
        });
        doubles += 2 * face.product::<u64>();
    }
    (messages, doubles)
}

/// Messages and doubles by which ranks that rested before get the points of a grid, of all ranks.
fn wakings(level: u32, ranks: [u64; 3]) -> (u64, u64) {
    let side = 1_u64 << level;
    let (mut messages, mut doubles) = (0, 0);
    for axis in (0..3).filter(|axis| ranks[*axis] >= side) {
        let woken = side / 2;
        let others = (0..3).filter(|other| *other != axis);
        // Also ranks that rest because of another direction.
        messages += 2 * woken * others.clone().map(|other| ranks[other]).product::<u64>();
        let layer = others.map(|other| side + 2 * ranks[other]);
        doubles += 3 * woken * layer.product::<u64>();
    }
    (messages, doubles)
}

#[test]
fn cycles_send_what_an_independent_count_says() {
    for log2_ranks in 0..=9_u32 {
        let ranks = 1 << log2_ranks;
        let across = log2_of_ranks(ranks).map(|log2| 1_u64 << log2);
        assert_eq!(across.iter().product::<u64>(), u64::from(ranks));
        let (mut messages, mut doubles) = borders(5, across);
        let mut add = |times: u64, (some, of_them): (u64, u64)| {
            messages += times * some;
            doubles += times * of_them;
        };
        for level in 1..=5 {
            add(4 * exchanges(level), borders(level, across));
            if level > 1 {
                add(4, wakings(level, across));
            }
        }
        // Four norms, by recursive doubling.
        let norms = 4 * u64::from(log2_ranks) * u64::from(ranks);
        add(1, (norms, norms));
        let graph = made(&request(Program::NasMg, Class::S, ranks));
        let all = (0..ranks).map(|rank| sent(&graph, rank));
        let found = all.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        assert_eq!(found, (messages, 8 * doubles), "{ranks} ranks");
    }
}

#[test]
fn a_rank_exchanges_borders_by_the_formula() {
    // 2 x 2 x 2 ranks: each has half of the points in each direction.
    let graph = made(&request(Program::NasMg, Class::S, 8));
    let border = |level: u32| {
        let side = 1_u64 << (level - 1);
        2 * 8 * (side * side + (side + 2) * side + (side + 2) * (side + 2))
    };
    let of_iteration: u64 = (1..=5).map(|level| exchanges(level) * border(level)).sum();
    let bytes = border(5) + 4 * of_iteration + 4 * 3 * 8;
    let messages = 6 * (1 + 4 * (2 + 4 * 3)) + 4 * 3;
    for rank in 0..8 {
        assert_eq!(sent(&graph, rank), (messages, bytes), "rank {rank}");
    }
    // The norm at the end is after the last iteration alone: two sums of three messages.
    let three = made(&Request {
        iterations: Some(3),
        ..request(Program::NasMg, Class::S, 8)
    });
    let less = 6 * (2 + 4 * 3) + 2 * 3;
    assert_eq!(sent(&three, 0).0, messages - less);
}

#[test]
fn who_rests_on_a_coarse_grid_gets_its_points_from_whoever_has_them() {
    // Four ranks of 16 lie in the third direction: two points there are with the second and fourth.
    let one_iteration = Request {
        iterations: Some(1),
        ..request(Program::NasMg, Class::S, 16)
    };
    let made = trace(&one_iteration).unwrap();
    let waking = |rank: u32| {
        let steps = &made.ranks[rank as usize];
        let all = (0..steps.len() as u32).filter(|place| steps.name(*place).1 == "points");
        all.map(|place| steps.work(place)).collect::<Vec<_>>()
    };
    // Their layer of 4 x 4 x 4 points, of which the others have half, with borders: 4 x 4.
    let (layer, tag) = (4 * 4 * 8, 4);
    let receive = |from, bytes, tag| Work::Receive { bytes, from, tag };
    let send = |to, bytes, tag| Work::Send { bytes, to, tag };
    assert_eq!(
        waking(0),
        [receive(4, layer, tag), receive(12, 2 * layer, tag + 1)]
    );
    assert_eq!(
        waking(4),
        [send(8, 2 * layer, tag + 1), send(0, layer, tag)]
    );
}

#[test]
fn a_cycle_waits_for_each_exchange_in_turn() {
    // Two ranks that share one direction.
    let graph = made(&request(Program::NasMg, Class::S, 2));
    let exchanges = 1 + 4 * (1..=5).map(exchanges).sum::<u64>();
    let norms = 4;
    assert_eq!(latencies(&graph), exchanges + norms);
}

#[test]
fn operations_of_cycles_are_those_of_the_rate() {
    for (class, side, iterations) in [
        (Class::S, 32_u64, 4_u32),
        (Class::W, 128, 4),
        (Class::B, 256, 20),
    ] {
        for ranks in [1, 8, 128] {
            let all = request(Program::NasMg, class, ranks);
            let expected = 58.0 * side.pow(3) as f64;
            let found = operations(&all) / (expected * f64::from(iterations));
            let tolerance = if ranks == 1 { 5e-6 } else { 1e-3 };
            assert!((found - 1.0).abs() < tolerance, "{class:?} {ranks} {found}");
            let some = Request {
                iterations: Some(2),
                ..all
            };
            let found = operations(&some) / (2.0 * expected);
            assert!((found - 1.0).abs() < 1e-3, "{class:?} {ranks} {found}");
        }
    }
}
