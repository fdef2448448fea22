//! Each collective three ways: what each rank sends, when it ends, and what each rank then has.

use super::plan::{Blocks, Part, Use};
use super::*;
use crate::check::check;
use crate::dependencies::Dependencies;
use crate::graph::{After, Kind, OperationId};
use crate::loggops::{Parameters, replay};
use crate::matching::Matching;

const RANKS: [u32; 20] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 33, 64,
];

fn requests(bytes: u64) -> impl Iterator<Item = Request> {
    let pairs = Collective::ALL.into_iter().flat_map(|collective| {
        let algorithms = collective.algorithms().iter();
        algorithms.map(move |algorithm| (collective, *algorithm))
    });
    pairs.flat_map(move |(collective, algorithm)| {
        RANKS.into_iter().flat_map(move |ranks| {
            let roots = [0, ranks / 2, ranks - 1].into_iter();
            let roots = roots.take(if collective.has_root() { 3 } else { 1 });
            let groups = (1..=ranks).filter(move |group_ranks| ranks.is_multiple_of(*group_ranks));
            let is_hierarchical = algorithm == Algorithm::Hierarchical;
            let groups = groups.take(if is_hierarchical { usize::MAX } else { 1 });
            let pairs = groups
                .flat_map(move |group_ranks| roots.clone().map(move |root| (group_ranks, root)));
            pairs.map(move |(group_ranks, root)| Request {
                collective,
                algorithm,
                ranks,
                bytes,
                root,
                pieces: 3,
                group_ranks,
                reduce_bytes_per_second: None,
            })
        })
    })
}

/// What a block of a rank holds: who has contributed, or of an all-to-all from whom and for whom.
type Held = Vec<u32>;

/// What each rank has at the beginning and must have at the end; none if it does not matter.
fn ends(request: &Request, blocks: u32) -> (Vec<Vec<Held>>, Vec<Vec<Option<Held>>>) {
    let ranks = request.ranks;
    let all: Held = (0..ranks).collect();
    let pair = |source: u32, target: u32| vec![source * 1000 + target];
    let is_bruck = request.algorithm == Algorithm::Bruck;
    let root = request.root;
    // Blocks are counted from the root's on.
    let owner = |block: u32| (root + block) % ranks;
    let first = |rank: u32, block: u32| match request.collective {
        Collective::Broadcast | Collective::Scatter if rank != root => vec![],
        Collective::Scatter => pair(root, owner(block)),
        Collective::Gather if rank != owner(block) => vec![],
        Collective::AllGather if rank != block => vec![],
        Collective::AllToAll if is_bruck => pair(rank, (rank + block) % ranks),
        Collective::AllToAll => pair(rank, block),
        _ => vec![rank],
    };
    let last = |rank: u32, block: u32| match request.collective {
        Collective::Broadcast => Some(vec![root]),
        Collective::Reduce | Collective::Gather if rank != root => None,
        Collective::Gather => Some(vec![owner(block)]),
        Collective::Scatter => (rank == owner(block)).then(|| pair(root, rank)),
        Collective::ReduceScatter if rank != block => None,
        Collective::AllGather => Some(vec![block]),
        Collective::AllToAll if is_bruck => Some(pair((rank + ranks - block) % ranks, rank)),
        Collective::AllToAll => Some(pair(block, rank)),
        _ => Some(all.clone()),
    };
    (
        (0..ranks)
            .map(|rank| (0..blocks).map(|block| first(rank, block)).collect())
            .collect(),
        (0..ranks)
            .map(|rank| (0..blocks).map(|block| last(rank, block)).collect())
            .collect(),
    )
}

/// Carries a graph out in some order that its dependencies allow, and follows the data.
struct Followed<'a> {
    graph: &'a Graph,
    parts: &'a [Part],
    blocks: u32,
    held: Vec<Vec<Held>>,
    /// Where what comes is put, if not there.
    taken: Option<Vec<Vec<Held>>>,
    /// What each message took with it.
    carried: Vec<Vec<Held>>,
    may_repeat: bool,
}

impl Followed<'_> {
    fn numbers(&self, id: OperationId) -> Vec<u32> {
        self.parts[id as usize].blocks.numbers(self.blocks)
    }

    /// A send takes what is there when it may begin: what the receive of the same step brings is
    /// put elsewhere first, and used when the step is over.
    fn begins(&mut self, id: OperationId) {
        if self.graph.operation(id).kind != Kind::Send {
            return;
        }
        let rank = self.graph.rank_of(id) as usize;
        let numbers = self.numbers(id).into_iter();
        self.carried[id as usize] = numbers
            .map(|block| self.held[rank][block as usize].clone())
            .collect();
    }

    fn receives(&mut self, message: OperationId, receive: OperationId) {
        let (send, taken) = (self.graph.operation(message), self.graph.operation(receive));
        assert_eq!(send.amount, taken.amount, "{}", self.graph.name(receive));
        let label = self.graph.label(message);
        assert!(
            label.is_some() && label == self.graph.label(receive),
            "of one round"
        );
        let rank = self.graph.rank_of(receive) as usize;
        let carried = core::mem::take(&mut self.carried[message as usize]);
        let numbers = self.numbers(receive);
        assert_eq!(numbers.len(), carried.len());
        for (block, mut data) in numbers.into_iter().zip(carried) {
            let taken = self.taken.as_mut().unwrap_or(&mut self.held);
            let held = &mut taken[rank][block as usize];
            match self.parts[receive as usize].usage {
                Some(Use::Place) => *held = data,
                Some(Use::Add) => {
                    held.append(&mut data);
                    held.sort_unstable();
                    let count = held.len();
                    held.dedup();
                    assert!(self.may_repeat || held.len() == count, "counted twice");
                }
                None => panic!("no receive"),
            }
        }
    }

    /// Picks the next that is free by `pick`, until all are done.
    fn carry_out(&mut self, mut pick: impl FnMut(usize) -> usize) {
        let graph = self.graph;
        let mut dependencies = Dependencies::new(graph);
        let mut matching = Matching::new(graph.ranks(), false);
        let all = 0..graph.len() as u32;
        let mut free: Vec<u32> = all.filter(|id| dependencies.is_free(*id)).collect();
        free.iter().for_each(|id| self.begins(*id));
        // Receives are posted in order, as messages of one tag are told apart by it.
        while !free.is_empty() {
            let place = pick(free.len());
            let kind_of = |id: u32| graph.operation(id).kind;
            let chosen = free[place];
            let place = free.iter().position(|id| {
                kind_of(*id) == kind_of(chosen) && graph.rank_of(*id) == graph.rank_of(chosen)
            });
            let id = free.remove(place.expect("it is among them"));
            let rank = graph.rank_of(id);
            let operation = graph.operation(id);
            let mut ended = Vec::new();
            if operation.kind == Kind::Send {
                ended.push(id);
                if let Some(receive) = matching.arrive(operation.peer, rank, operation.tag, id) {
                    self.receives(id, receive);
                    ended.push(receive);
                }
            } else if let Some(message) = matching.post(rank, operation.peer, operation.tag, id) {
                self.receives(message, id);
                ended.push(id);
            }
            for id in ended {
                let first = free.len();
                dependencies.happened(graph, id, After::End, |waiter| free.push(waiter));
                free[first..].iter().for_each(|id| self.begins(*id));
            }
        }
        assert!(matching.waiting_receives().is_empty());
        assert!(matching.waiting_messages().is_empty());
    }
}

#[test]
fn every_rank_ends_with_what_it_should() {
    let mut state = 1u64;
    for bytes in [0, 7, 1 << 12, 100_003] {
        for request in requests(bytes) {
            let plan = plan(&request, true).expect("it is right");
            let blocks = plan.blocks;
            let (graph, parts) = plan.finish();
            assert_eq!(check(&graph), [], "{request:?}");
            for order in 0..3 {
                let (held, expected) = ends(&request, blocks);
                let is_apart = (request.collective, request.algorithm)
                    == (Collective::AllToAll, Algorithm::Pairwise);
                let mut followed = Followed {
                    taken: is_apart.then(|| held.clone()),
                    graph: &graph,
                    parts: &parts,
                    blocks,
                    held,
                    carried: vec![Vec::new(); graph.len()],
                    may_repeat: request.collective == Collective::Barrier,
                };
                followed.carry_out(|count| match order {
                    0 => 0,
                    1 => count - 1,
                    _ => {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        (state >> 33) as usize % count
                    }
                });
                let held = followed.taken.as_ref().unwrap_or(&followed.held);
                for (held, expected) in held.iter().zip(&expected) {
                    for (held, expected) in held.iter().zip(expected) {
                        let Some(expected) = expected else { continue };
                        assert_eq!(held, expected, "{request:?}, order {order}");
                    }
                }
            }
        }
    }
}

#[test]
fn operations_say_their_round() {
    let last = |collective, algorithm, ranks| {
        let request = Request {
            algorithm,
            pieces: 3,
            group_ranks: 4,
            ..Request::usual(collective, ranks, 4_096)
        };
        let graph = graph(&request).expect("it is right");
        let rounds = graph.operations().filter_map(|(id, _)| graph.label(id));
        let number = |it: &std::sync::Arc<str>| it.strip_prefix("round ")?.parse::<u32>().ok();
        rounds.filter_map(number).max()
    };
    use Algorithm::{Binomial, DoubleTree, Hierarchical, Rabenseifner, RecursiveDoubling, Ring};
    for (algorithm, ranks, rounds) in [
        (Ring, 6, Some(10)),
        // Three rounds within groups of four, one between two of them, and as many again.
        (Hierarchical, 8, Some(8)),
        (RecursiveDoubling, 8, Some(3)),
        // Those beyond a power of two give what they have before, and get the result behind.
        (RecursiveDoubling, 9, Some(5)),
        (Rabenseifner, 8, Some(6)),
        (Rabenseifner, 9, Some(8)),
        (DoubleTree, 8, None),
    ] {
        let found = last(Collective::AllReduce, algorithm, ranks);
        assert_eq!(found, rounds, "{algorithm} of {ranks}");
    }
    for collective in [Collective::Broadcast, Collective::Reduce] {
        assert_eq!(last(collective, Binomial, 9), Some(4));
    }
}

/// What each rank sends.
fn sent(graph: &Graph) -> Vec<u64> {
    let of_rank = |rank| {
        let all = graph.of_rank(rank).map(|id| graph.operation(id));
        let sends = all.filter(|operation| operation.kind == Kind::Send);
        sends.map(|operation| operation.amount).sum()
    };
    (0..graph.ranks()).map(of_rank).collect()
}

#[test]
fn every_rank_sends_the_bytes_of_the_literature() {
    let block = 64;
    // A multiple of all block counts: of 2 x 3 pieces, of ranks, and of powers of two.
    for request in requests(0) {
        let p = u64::from(request.ranks);
        let n = block * p * 64 * 6;
        let request = Request {
            bytes: n,
            ..request
        };
        let bytes = sent(&graph(&request).expect("it is right"));
        let (total, most) = (bytes.iter().sum::<u64>(), bytes.iter().copied().max());
        let most = most.expect("there are ranks");
        let (levels, power) = (u64::from(request.ranks.ilog2()), 1 << request.ranks.ilog2());
        let each = |expected: u64| {
            assert!(
                bytes.iter().all(|bytes| *bytes == expected),
                "{request:?}: {bytes:?}"
            );
        };
        match (request.collective, request.algorithm) {
            (Collective::Barrier, _) => each(0),
            (Collective::Broadcast | Collective::Reduce, _) => {
                assert_eq!(total, n * (p - 1), "{request:?}");
                let of_root = bytes[request.root as usize];
                let children = p.next_power_of_two().ilog2();
                match request.collective {
                    Collective::Broadcast => assert_eq!(of_root, n * u64::from(children)),
                    _ => assert_eq!((of_root, most), (0, if p > 1 { n } else { 0 })),
                }
            }
            (Collective::Gather | Collective::Scatter, _) => {
                let of_root = bytes[request.root as usize];
                assert_eq!(total, n / p * (p - 1), "{request:?}");
                let is_source = request.collective == Collective::Scatter;
                assert_eq!(of_root, if is_source { total } else { 0 }, "{request:?}");
            }
            (Collective::AllReduce, Algorithm::Ring | Algorithm::Hierarchical) => {
                each(2 * n / p * (p - 1));
            }
            (Collective::AllReduce, Algorithm::RecursiveDoubling) => {
                assert_eq!(
                    total,
                    n * levels * power + 2 * n * (p - power),
                    "{request:?}"
                );
            }
            (Collective::AllReduce, Algorithm::Rabenseifner) => {
                let halving = 2 * n / power * (power - 1);
                assert_eq!(total, halving * power + 2 * n * (p - power), "{request:?}");
            }
            (Collective::AllReduce, _) => {
                assert_eq!(total, 2 * n * (p - 1), "{request:?}");
                assert!(most <= 2 * n, "{request:?}: {bytes:?}");
            }
            (Collective::AllToAll, Algorithm::Bruck) => {
                let blocks: u32 = (0..request.ranks).map(u32::count_ones).sum();
                each(n / p * u64::from(blocks));
            }
            _ => each(n / p * (p - 1)),
        }
    }
}

/// One message by itself, in nanoseconds: 2 o + L + (s - 1) G.
fn alone(bytes: u64) -> u64 {
    5_500 + 6 * bytes.saturating_sub(1)
}

#[test]
fn at_loggops_it_takes_what_the_closed_form_says() {
    let parameters = Parameters {
        eager_bytes: u64::MAX,
        ..Parameters::default()
    };
    for request in requests(0) {
        let p = u64::from(request.ranks);
        let n = p * 64 * 6 * 10;
        let request = Request {
            bytes: n,
            ..request
        };
        let outcome = replay(&graph(&request).expect("it is right"), &parameters);
        let outcome = outcome.expect("short enough");
        assert_eq!((outcome.stalled.as_ref(), outcome.misfits.count), (None, 0));
        let end = outcome.end().picoseconds() / 1000;
        let up = u64::from(p.next_power_of_two().ilog2());
        let (is_power, down) = (p.is_power_of_two(), u64::from(p.ilog2()));
        let steps = |count: u64, bytes: u64| count * alone(bytes);
        let exact = match (request.collective, request.algorithm) {
            (Collective::Barrier, _) => Some(steps(up, 0)),
            (Collective::Broadcast, _) => Some(tree_end(request.ranks, n)),
            (Collective::Gather | Collective::Scatter, _) if p == 1 => Some(0),
            // The root takes one message after the other.
            (Collective::Gather, _) => Some(4_000 + (p - 1) * (alone(n / p) - 4_000)),
            (Collective::Scatter, _) => {
                let gap = 1_000 + 6 * (n / p - 1);
                Some((p - 2) * gap.max(1_500) + alone(n / p))
            }
            (Collective::Reduce, _) | (_, Algorithm::RecursiveDoubling) if is_power => {
                Some(steps(down, n))
            }
            (_, Algorithm::Rabenseifner) if is_power => {
                Some(2 * (1..=down).map(|level| alone(n >> level)).sum::<u64>())
            }
            (Collective::AllReduce, Algorithm::Ring) => Some(steps(2 * (p - 1), n / p)),
            (_, Algorithm::Hierarchical) => {
                let group = u64::from(request.group_ranks);
                let rail = p / group;
                Some(steps(2 * (group - 1), n / group) + steps(2 * (rail - 1), n / p))
            }
            (_, Algorithm::Ring) => Some(steps(p - 1, n / p)),
            (Collective::AllGather, Algorithm::Bruck) => {
                let sent = (0..up).map(|step| (n / p) * (1 << step).min(p - (1 << step)));
                Some(sent.map(alone).sum())
            }
            (Collective::AllToAll, Algorithm::Bruck) => {
                let sent = (0..up).map(|step| {
                    let with_bit = (0..p).filter(|block| block >> step & 1 == 1);
                    n / p * with_bit.count() as u64
                });
                Some(sent.map(alone).sum())
            }
            (Collective::AllToAll | Collective::ReduceScatter, Algorithm::Pairwise) => {
                Some(steps(p - 1, n / p))
            }
            _ => None,
        };
        if let Some(exact) = exact {
            assert_eq!(end, exact, "{request:?}");
            continue;
        }
        // The least that a rank's bytes take, and all steps one behind the other.
        let (least, most) = match request.algorithm {
            Algorithm::DoubleTree if p == 1 => (0, 0),
            Algorithm::DoubleTree => (2 * alone(n / 6), 2 * (up + 1) * 6 * 3 * alone(n / 6)),
            Algorithm::Rabenseifner => {
                let halving = (1..=down).map(|level| alone(n >> level)).sum::<u64>();
                (2 * halving, 4 * halving + 4 * alone(n))
            }
            // A rank may have to take two messages at once.
            _ => (steps(down, n), 2 * steps(down + 2, n)),
        };
        assert!(
            least <= end && end <= most,
            "{request:?}: {least} <= {end} <= {most}"
        );
    }
}

#[test]
fn what_is_added_up_takes_the_time_of_its_bytes() {
    let parameters = Parameters {
        eager_bytes: u64::MAX,
        ..Parameters::default()
    };
    let (ranks, bytes) = (8, 8_000);
    let end = |collective, algorithm, reduce_bytes_per_second| {
        let request = Request {
            algorithm,
            group_ranks: 4,
            reduce_bytes_per_second,
            ..Request::usual(collective, ranks, bytes)
        };
        let graph = graph(&request).expect("it is right");
        assert_eq!(check(&graph), []);
        let outcome = replay(&graph, &parameters).expect("short enough");
        assert_eq!(outcome.stalled, None);
        outcome.end().picoseconds() / 1000
    };
    use Algorithm::{Binomial, Hierarchical, Pairwise, Rabenseifner, RecursiveDoubling, Ring};
    // Of the bytes, 1 ns each, so many are added up one after the other.
    for (collective, algorithm, added) in [
        (Collective::AllReduce, Ring, 7 * 1_000),
        (Collective::AllReduce, RecursiveDoubling, 3 * 8_000),
        (Collective::AllReduce, Rabenseifner, 4_000 + 2_000 + 1_000),
        (Collective::AllReduce, Hierarchical, 3 * 2_000 + 1_000),
        (Collective::ReduceScatter, Pairwise, 7 * 1_000),
        (Collective::Reduce, Binomial, 3 * 8_000),
        (Collective::AllGather, Ring, 0),
    ] {
        let at_once = end(collective, algorithm, None);
        let added_up = end(collective, algorithm, Some(1_000_000_000));
        assert_eq!(added_up, at_once + added, "{collective} by {algorithm}");
    }
    let tree = |rate| end(Collective::AllReduce, Algorithm::DoubleTree, rate);
    assert!(tree(Some(1_000_000_000)) > tree(None));
}

/// When the last rank of a broadcast has it, by recursion over the tree: a rank's k-th send begins
/// k gaps after it has the message.
fn tree_end(ranks: u32, bytes: u64) -> u64 {
    let gap = 1_000 + 6 * (bytes - 1);
    let mut there = vec![0];
    for rank in 1..ranks {
        let highest = rank.ilog2();
        let above = rank - (1 << highest);
        let first = above.checked_ilog2().map_or(0, |bit| bit + 1);
        let sends_before = u64::from(highest - first);
        there.push(there[above as usize] + sends_before * gap.max(1_500) + alone(bytes));
    }
    there.into_iter().max().unwrap_or(0)
}

#[test]
fn a_double_tree_of_two_ranks_takes_two_halves() {
    let request = Request {
        algorithm: Algorithm::DoubleTree,
        pieces: 1,
        ..Request::usual(Collective::AllReduce, 2, 2_000)
    };
    let outcome = replay(
        &graph(&request).expect("it is right"),
        &Parameters::default(),
    );
    let end = outcome.expect("short enough").end();
    assert_eq!(end.picoseconds() / 1000, 2 * alone(1_000));
}

#[test]
fn a_rank_is_an_inner_node_of_at_most_one_of_two_trees() {
    for ranks in 1..200 {
        for is_second in [false, true] {
            let places: Vec<_> = (0..ranks)
                .map(|rank| trees::binary(ranks, rank, is_second))
                .collect();
            let roots = places.iter().filter(|place| place.above.is_none());
            assert_eq!(roots.count(), 1, "{ranks}");
            for (rank, place) in (0..).zip(&places) {
                assert!(place.below.len() <= 2);
                for below in &place.below {
                    assert_eq!(
                        places[*below as usize].above,
                        Some(rank),
                        "{ranks}: {below}"
                    );
                }
                let mut depth = 0;
                let mut at = rank;
                while let Some(above) = places[at as usize].above {
                    (at, depth) = (above, depth + 1);
                    assert!(depth <= ranks.ilog2(), "{ranks}: {rank}");
                }
            }
        }
        let is_inner = |rank, is_second| !trees::binary(ranks, rank, is_second).below.is_empty();
        assert!(
            !(0..ranks).any(|rank| is_inner(rank, false) && is_inner(rank, true)),
            "{ranks}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let request = Request {
        algorithm: Algorithm::Bruck,
        ..Request::usual(Collective::AllReduce, 2, 2)
    };
    let refused = |request: &Request| graph(request).expect_err("it is wrong").to_string();
    assert_eq!(
        refused(&request),
        "there is no all-reduce by bruck: it is ring, recursive-doubling, rabenseifner, double-tree, \
         hierarchical"
    );
    let none = Request::usual(Collective::Barrier, 0, 0);
    assert_eq!(
        refused(&none),
        "a collective has 1 to 16777216 ranks, not 0"
    );
    let uneven = Request {
        algorithm: Algorithm::Hierarchical,
        group_ranks: 4,
        ..Request::usual(Collective::AllReduce, 6, 0)
    };
    assert_eq!(
        refused(&uneven),
        "6 ranks are no groups of 4: a group has a divisor of the ranks"
    );
    let nobody = Request {
        root: 2,
        ..Request::usual(Collective::Reduce, 2, 0)
    };
    assert_eq!(
        refused(&nobody),
        "there is no rank 2 to be the root: ranks are 0 to 1"
    );
    assert_eq!(Blocks::From { first: 2, count: 2 }.numbers(3), [2, 0]);
}
