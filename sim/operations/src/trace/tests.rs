use super::*;
use crate::check::check;
use crate::collective::Request;
use crate::graph::Kind;
use crate::loggops::{Parameters, replay};

fn compute(nanoseconds: u64) -> Work {
    Work::Compute {
        nanoseconds,
        processor: ACCELERATOR,
    }
}

fn together(collective: Collective, bytes: u64, group: u32) -> Work {
    Work::Together(Together {
        collective,
        bytes,
        group,
        root: 0,
    })
}

/// Each step waits for the one before.
fn in_turn(all: &[Work]) -> Arc<Steps> {
    let mut steps = Steps::default();
    for (place, work) in (0_u32..).zip(all) {
        steps.add(*work, place.into(), "step", place.checked_sub(1));
    }
    Arc::new(steps)
}

fn trace(ranks: &[Arc<Steps>], groups: &[&[u32]]) -> Trace {
    let groups = (0..).zip(groups);
    Trace {
        ranks: ranks.to_vec(),
        groups: groups
            .map(|(number, members): (u32, &&[u32])| Group {
                name: number.to_string(),
                members: members.to_vec(),
            })
            .collect(),
        step_word: "node",
        receives_are_limits: false,
    }
}

/// When all has ended, in nanoseconds.
fn end(trace: &Trace, options: &Options) -> u64 {
    let graph = graph(trace, options).expect("it is right");
    assert_eq!(check(&graph), []);
    let parameters = Parameters {
        eager_bytes: u64::MAX,
        ..Parameters::default()
    };
    let outcome = replay(&graph, &parameters).expect("short enough");
    assert_eq!(outcome.stalled, None);
    outcome.end().picoseconds() / 1000
}

fn error(trace: &Trace) -> String {
    graph(trace, &Options::default())
        .expect_err("it is wrong")
        .to_string()
}

/// One message by itself, in nanoseconds.
const fn alone(bytes: u64) -> u64 {
    5_500 + 6 * (bytes - 1)
}

#[test]
fn operations_are_called_as_their_steps() {
    let mut steps = Steps::default();
    steps.add(compute(1), 5, "forward\n1", []);
    steps.add(together(Collective::AllReduce, 2, 0), 6, "gradients", [0]);
    let steps = Arc::new(steps);
    let graph = graph(
        &trace(&[&steps; 2].map(Arc::clone), &[&[0, 1]]),
        &Options::default(),
    );
    let graph = graph.expect("it is right");
    let label = |id| graph.label(id).map(|label| &**label);
    assert_eq!(label(0), Some("forward 1"));
    assert!(
        graph
            .of_rank(1)
            .skip(1)
            .all(|id| label(id) == Some("gradients"))
    );
}

#[test]
fn a_step_takes_its_computations_and_its_collectives() {
    let works = [
        compute(7_000),
        together(Collective::AllReduce, 4_000, 0),
        compute(300),
        together(Collective::AllGather, 4_000, 0),
    ];
    let steps = in_turn(&works);
    let same = trace(&[&steps; 4].map(Arc::clone), &[&[0, 1, 2, 3]]);
    let ring = 6 * alone(1_000);
    assert_eq!(
        end(&same, &Options::default()),
        7_300 + ring + 3 * alone(1_000)
    );
    let other = Options {
        all_reduce: Algorithm::RecursiveDoubling,
        compute_scale: 2.0,
        ..Options::default()
    };
    assert_eq!(
        end(&same, &other),
        14_600 + 2 * alone(4_000) + 3 * alone(1_000)
    );
    // Ranks that do the same are made from one list or from equal ones.
    let apart = trace(&[0; 4].map(|_| in_turn(&works)), &[&[0, 1, 2, 3]]);
    let made = |trace: &Trace| graph(trace, &Options::default()).unwrap();
    assert_eq!(made(&same), made(&apart));
}

#[test]
fn groups_do_not_wait_for_each_other() {
    // Ranks 0 and 2 are slow, but in groups of their own.
    let of_rank = |rank: u32| {
        let group = rank % 2;
        in_turn(&[
            compute(if group == 0 { 50_000 } else { 10 }),
            together(Collective::AllReduce, 200, group),
        ])
    };
    let four = trace(&[0, 1, 2, 3].map(of_rank), &[&[0, 2], &[3, 1]]);
    let graph = graph(&four, &Options::default()).unwrap();
    let outcome = replay(&graph, &Parameters::default()).unwrap();
    let ends: Vec<u64> = outcome
        .ends
        .iter()
        .map(|end| end.picoseconds() / 1000)
        .collect();
    let both = 2 * alone(100);
    assert_eq!(ends, [50_000 + both, 10 + both, 50_000 + both, 10 + both]);
}

#[test]
fn collectives_of_a_group_that_need_not_wait_stay_apart_and_in_order() {
    // The second and third wait for nothing: their messages must not be taken for those of others.
    let mut steps = Steps::default();
    for (number, bytes) in [(0, 1_000), (1, 2_000), (2, 3_000)] {
        steps.add(together(Collective::AllGather, bytes, 0), number, "", []);
    }
    let steps = Arc::new(steps);
    let two = trace(&[Arc::clone(&steps), steps], &[&[0, 1]]);
    let all: u64 = [500, 1_000, 1_500].map(alone).iter().sum();
    assert_eq!(end(&two, &Options::default()), all);
    let graph = graph(&two, &Options::default()).unwrap();
    let sends = graph.operations().filter(|(_, it)| it.kind == Kind::Send);
    let tags: std::collections::BTreeSet<u32> = sends.map(|(_, it)| it.tag).collect();
    assert_eq!(tags.len(), 3);
}

#[test]
fn a_step_may_wait_for_one_behind_it() {
    let mut steps = Steps::default();
    steps.add(compute(5), 10, "last", [1]);
    steps.add(compute(7), 11, "first", []);
    let one = trace(&[Arc::new(steps)], &[]);
    assert_eq!(end(&one, &Options::default()), 12);
    let mut ring = Steps::default();
    ring.add(compute(5), 10, "gemm", [2]);
    ring.add(compute(7), 11, "", []);
    ring.add(
        compute(7),
        12,
        "a name that is longer than what a message shows of it",
        [0],
    );
    assert_eq!(
        error(&trace(&[Arc::new(Steps::default()), Arc::new(ring)], &[])),
        "steps wait for each other in a ring:\n  rank 1, node 10 `gemm`\n  \
         rank 1, node 12 `a name that is longer than what a message shows ...`"
    );
}

#[test]
fn what_ends_in_several_ways_is_waited_for_whole() {
    // A double tree ends with many operations; what follows waits for all, and has one dependency.
    let steps = in_turn(&[
        compute(100),
        together(Collective::AllReduce, 6_400, 0),
        compute(1_000),
    ]);
    let eight = trace(&[&steps; 8].map(Arc::clone), &[&[0, 1, 2, 3, 4, 5, 6, 7]]);
    let options = Options {
        all_reduce: Algorithm::DoubleTree,
        ..Options::default()
    };
    let whole = graph(&eight, &options).unwrap();
    let parameters = Parameters::default();
    let outcome = replay(&whole, &parameters).unwrap();
    let tree = crate::collective::graph(&Request {
        algorithm: Algorithm::DoubleTree,
        ..Request::usual(Collective::AllReduce, 8, 6_400)
    });
    let alone = replay(&tree.unwrap(), &parameters).unwrap();
    assert_eq!(
        outcome.end().picoseconds(),
        alone.end().picoseconds() + 1_100_000
    );
}

#[test]
fn a_group_of_one_does_nothing_and_a_root_is_a_member() {
    let steps = in_turn(&[
        compute(3),
        together(Collective::AllReduce, 9, 0),
        compute(4),
    ]);
    assert_eq!(end(&trace(&[steps], &[&[0]]), &Options::default()), 7);
    let broadcast = Work::Together(Together {
        collective: Collective::Broadcast,
        bytes: 10,
        group: 0,
        root: 1,
    });
    let both = [[broadcast, compute(1)], [broadcast, compute(2)]];
    let two = trace(&both.map(|works| in_turn(&works)), &[&[0, 1]]);
    let graph = graph(&two, &Options::default()).unwrap();
    let sends = graph.operations().filter(|(_, it)| it.kind == Kind::Send);
    let sends: Vec<(u32, u32)> = sends.map(|(id, it)| (graph.rank_of(id), it.peer)).collect();
    assert_eq!(sends, [(1, 0)]);
}

#[test]
fn to_an_all_to_all_each_brings_what_it_has() {
    let bytes = [300, 10, 8_000];
    let ranks = bytes.map(|bytes| in_turn(&[together(Collective::AllToAll, bytes, 0)]));
    // Members in another order than ranks.
    let three = trace(&ranks, &[&[2, 0, 1]]);
    let made = graph(&three, &Options::default()).unwrap();
    assert_eq!(check(&made), []);
    for (rank, bytes) in (0..).zip(bytes) {
        let sends = made.of_rank(rank).map(|id| made.operation(id));
        let sends: Vec<u64> = sends
            .filter(|it| it.kind == Kind::Send)
            .map(|it| it.amount)
            .collect();
        // A third each, and what is left over goes to the first members.
        assert!(
            sends.iter().all(|it| it.abs_diff(bytes / 3) <= 1),
            "{sends:?}"
        );
    }
    let outcome = replay(&made, &Parameters::default()).unwrap();
    assert!(outcome.stalled.is_none() && outcome.misfits.is_empty());
    let bruck = Options {
        all_to_all: Algorithm::Bruck,
        ..Options::default()
    };
    assert_eq!(
        graph(&three, &bruck).unwrap_err().to_string(),
        "rank 0, node 0 `step`: not all ranks bring as many bytes, and by bruck they must: by \
         pairwise they need not"
    );
    // Of other collectives all have as many.
    let gathers = bytes.map(|bytes| in_turn(&[together(Collective::AllGather, bytes, 0)]));
    assert!(error(&trace(&gathers, &[&[0, 1, 2]])).contains("is not the same on all ranks"));
}

#[test]
fn what_members_do_not_do_alike_is_named() {
    let reduce = |bytes| in_turn(&[together(Collective::AllReduce, bytes, 0)]);
    assert_eq!(
        error(&trace(&[reduce(8), reduce(9)], &[&[0, 1]])),
        "collective 1 of group `0` is not the same on all ranks:\n  \
         rank 0, node 0 `step`: all-reduce of 8 B\n  rank 1, node 0 `step`: all-reduce of 9 B"
    );
    assert_eq!(
        error(&trace(&[reduce(8), in_turn(&[])], &[&[0, 1]])),
        "rank 1 does 0 collectives of group `0`, and another does more:\n  rank 0, node 0 `step`"
    );
    assert_eq!(
        error(&trace(&[reduce(8), reduce(8)], &[&[0]])),
        "rank 1, node 0 `step`: rank 1 is not in its group `0`: 0"
    );
    let far = in_turn(&[Work::Send {
        bytes: 1,
        to: 7,
        tag: 0,
    }]);
    assert_eq!(
        error(&trace(&[far], &[])),
        "rank 0, node 0 `step`: there is no rank 7: ranks are 0 to 0"
    );
    let tagged = in_turn(&[Work::Send {
        bytes: 1,
        to: 0,
        tag: 1 << 31,
    }]);
    assert_eq!(
        error(&trace(&[tagged], &[])),
        "rank 0, node 0 `step`: tags are below 2147483648"
    );
}
