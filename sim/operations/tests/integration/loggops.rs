//! Graphs carried out by the LogGOPS model: what LogGOPSim prints for them, and closed forms.

use std::collections::BTreeMap;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_operations::collective::{Collective, Request, graph};
use viaduct_operations::goal::{parse_text, read_binary, write_binary};
use viaduct_operations::loggops::{Parameters, ReplayError, replay};
use viaduct_operations::{
    ANY, After, Builder, Dependencies, Graph, Kind, Matching, Misfits, Operation,
};

fn nanoseconds(graph: &Graph, parameters: &Parameters) -> Vec<u64> {
    let outcome = replay(graph, parameters).expect("short enough");
    assert_eq!(outcome.stalled, None);
    assert_eq!(outcome.misfits, Misfits::default());
    let ends = outcome.ends.iter();
    ends.map(|end| {
        assert_eq!(end.picoseconds() % 1000, 0);
        end.picoseconds() / 1000
    })
    .collect()
}

fn end(graph: &Graph, parameters: &Parameters) -> u64 {
    nanoseconds(graph, parameters)
        .into_iter()
        .max()
        .unwrap_or(0)
}

fn eager(bytes: u64) -> Parameters {
    Parameters {
        eager_bytes: bytes,
        ..Parameters::default()
    }
}

/// Each rank but the first has its message from the rank without its highest bit; a rank sends to
/// the farthest first, once it has its own.
fn binomial_broadcast(ranks: u32, bytes: u64) -> Graph {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let highest = rank.checked_ilog2().map_or(0, |bit| bit + 1);
        let received = (rank > 0).then(|| {
            let from = rank - (1 << (highest - 1));
            builder
                .add(Operation::receive(bytes, from))
                .expect("it is right")
        });
        for bit in highest..ranks.ilog2() {
            let sent = builder
                .add(Operation::send(bytes, rank + (1 << bit)))
                .expect("it is right");
            if let Some(received) = received {
                builder
                    .require(sent, received, After::End)
                    .expect("it is right");
            }
        }
        builder.next_rank();
    }
    builder.finish()
}

/// In round k each rank sends to the one 2^k behind it, once its round before is over.
fn dissemination(ranks: u32, bytes: u64) -> Graph {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let mut before: Option<[u32; 2]> = None;
        let mut distance = 1;
        while distance < ranks {
            let to = (rank + distance) % ranks;
            let from = (rank + ranks - distance) % ranks;
            let sent = builder
                .add(Operation::send(bytes, to))
                .expect("it is right");
            let received = builder
                .add(Operation::receive(bytes, from))
                .expect("it is right");
            for other in before.into_iter().flatten() {
                builder
                    .require(sent, other, After::End)
                    .expect("it is right");
                builder
                    .require(received, other, After::End)
                    .expect("it is right");
            }
            before = Some([sent, received]);
            distance *= 2;
        }
        builder.next_rank();
    }
    builder.finish()
}

fn ring(ranks: u32, bytes: u64) -> Graph {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let mut before = None;
        for _ in 0..2 * (ranks - 1) {
            let sent = builder
                .add(Operation::send(bytes, (rank + 1) % ranks))
                .expect("it is right");
            let from = (rank + ranks - 1) % ranks;
            let received = builder
                .add(Operation::receive(bytes, from))
                .expect("it is right");
            if let Some(other) = before {
                builder
                    .require(sent, other, After::End)
                    .expect("it is right");
                builder
                    .require(received, other, After::End)
                    .expect("it is right");
            }
            before = Some(received);
        }
        builder.next_rank();
    }
    builder.finish()
}

/// The same model as LogGOPSim computes it, of hosts of one processor and adapter: whatever finds
/// its host busy goes back into one queue, by itself. When each rank ends, in nanoseconds.
struct Plain<'a> {
    graph: &'a Graph,
    /// By time and order: operations, and messages that come.
    queue: BTreeMap<(u64, u64), (bool, u32)>,
    /// By rank: when its processor is free, and its adapter for sends and for messages.
    free: Vec<[u64; 3]>,
    dependencies: Dependencies,
    matching: Matching,
    freed: Vec<(u32, Kind, u32)>,
    order: u64,
}

impl Plain<'_> {
    fn ends(graph: &Graph, parameters: &Parameters) -> Vec<u64> {
        let mut plain = Plain {
            graph,
            queue: BTreeMap::new(),
            free: vec![[0; 3]; graph.ranks() as usize],
            dependencies: Dependencies::new(graph),
            matching: Matching::of(graph),
            freed: Vec::new(),
            order: 0,
        };
        for (id, operation) in graph.operations() {
            if plain.dependencies.is_free(id) {
                plain.freed.push((graph.rank_of(id), operation.kind, id));
            }
        }
        plain.enter();
        while let Some(((now, _), (is_message, id))) = plain.queue.pop_first() {
            plain.attempt(now, is_message, id, parameters);
            let next = plain.queue.keys().next();
            if next.is_none_or(|(next, _)| *next > now) {
                plain.enter();
            }
        }
        plain
            .free
            .iter()
            .map(|[processor, ..]| *processor)
            .collect()
    }

    fn put(&mut self, time: u64, is_message: bool, id: u32) {
        self.order += 1;
        self.queue.insert((time, self.order), (is_message, id));
    }

    fn enter(&mut self) {
        let mut freed = core::mem::take(&mut self.freed);
        freed.sort_by_key(|(rank, kind, _)| (*rank, *kind));
        for (rank, kind, id) in freed {
            let [processor, sending, _] = self.free[rank as usize];
            let send = if kind == Kind::Send { sending } else { 0 };
            self.put(processor.max(send), false, id);
        }
    }

    fn happened(&mut self, id: u32, what: After) {
        let (graph, freed) = (self.graph, &mut self.freed);
        self.dependencies.happened(graph, id, what, |waiter| {
            let kind = graph.operation(waiter).kind;
            freed.push((graph.rank_of(waiter), kind, waiter));
        });
    }

    fn attempt(&mut self, now: u64, is_message: bool, id: u32, parameters: &Parameters) {
        let operation = self.graph.operation(id);
        let nanoseconds = |time: Time| time.picoseconds() / 1000;
        let further = operation.amount.saturating_sub(1);
        let overhead = nanoseconds(parameters.overhead);
        let per_byte = nanoseconds(parameters.overhead_per_byte);
        let adapter_per_byte = nanoseconds(parameters.gap_per_byte);
        let adapter = nanoseconds(parameters.gap) + further * adapter_per_byte;
        let rank = match is_message {
            true => operation.peer,
            false => self.graph.rank_of(id),
        };
        let [processor, sending, receiving] = self.free[rank as usize];
        let free = match (is_message, operation.kind) {
            (true, _) => processor.max(receiving),
            (false, Kind::Send) => processor.max(sending),
            (false, Kind::Compute) => processor,
            (false, Kind::Receive) => now,
        };
        if free > now {
            return self.put(free, is_message, id);
        }
        let ends = &mut self.free[rank as usize];
        let mut pair = None;
        if is_message {
            ends[0] = now + overhead + further * per_byte.max(adapter_per_byte);
            ends[2] = now + adapter;
            let source = self.graph.rank_of(id);
            let receive = self.matching.arrive(rank, source, operation.tag, id);
            pair = receive.map(|receive| (id, receive));
        } else {
            match operation.kind {
                Kind::Compute => ends[0] = now + operation.amount,
                Kind::Send => {
                    ends[0] = now + overhead + further * per_byte;
                    ends[1] = now + adapter;
                    self.put(now + overhead + nanoseconds(parameters.latency), true, id);
                }
                Kind::Receive => {
                    let (source, tag) = (operation.peer, operation.tag);
                    let message = self.matching.post(rank, source, tag, id);
                    pair = message.map(|message| (message, id));
                }
            }
            self.happened(id, After::Start);
            let is_eager = operation.amount <= parameters.eager_bytes;
            if operation.kind == Kind::Compute || operation.kind == Kind::Send && is_eager {
                self.happened(id, After::End);
            }
        }
        let Some((message, receive)) = pair else {
            return;
        };
        if self.graph.operation(message).amount > parameters.eager_bytes {
            let sender = self.graph.rank_of(message) as usize;
            let [processor, sending, _] = self.free[sender];
            self.free[sender][..2].copy_from_slice(&[processor.max(now), sending.max(now)]);
            self.happened(message, After::End);
        }
        self.happened(receive, After::End);
    }
}

/// Messages between ranks that are drawn, some with wildcards, and computations, in rounds: of a
/// round all may go at once, or one behind the other.
fn drawn_graph(seed: u64) -> Graph {
    let key = StreamKey {
        seed,
        purpose: 0,
        entity: 0,
    };
    let mut stream = Stream::new(key);
    let mut draw = |below: u64| stream.next_u64() % below;
    let ranks = 2 + draw(9) as u32;
    let has_wildcards = draw(3) == 0;
    let mut operations: Vec<Vec<(u64, Operation)>> = vec![Vec::new(); ranks as usize];
    for round in 0..1 + draw(6) {
        for _ in 0..draw(60) {
            let source = draw(ranks.into()) as u32;
            let target = draw(ranks.into()) as u32;
            let tag = draw(3) as u32;
            let bytes = 1 + draw(900) + draw(2) * 2_000;
            let send = Operation::send(bytes, target).tagged(tag);
            let mut receive = Operation::receive(bytes, source).tagged(tag);
            // All of a rank's wildcards take whatever comes, so that nothing is left over.
            if has_wildcards && target.is_multiple_of(2) {
                (receive.peer, receive.tag) = (ANY, ANY);
            }
            operations[source as usize].push((round, send));
            operations[target as usize].push((round, receive));
        }
        for of_rank in &mut operations {
            of_rank.push((round, Operation::compute(draw(5_000))));
        }
    }
    let mut builder = Builder::new(ranks);
    for of_rank in operations {
        let mut first_of_round = [0; 2];
        for (place, (round, operation)) in (0u32..).zip(&of_rank) {
            builder.add(*operation).expect("it is right");
            let before = place.checked_sub(1);
            let is_next = before.is_some_and(|before| of_rank[before as usize].0 != *round);
            if is_next {
                first_of_round = [first_of_round[1], place];
            }
            // Of the round before; a receive waits for no receive, so that nothing goes in a ring.
            for other in first_of_round[0]..first_of_round[1] {
                let is_receive = of_rank[other as usize].1.kind == Kind::Receive;
                if draw(4) == 0 && !(is_receive && operation.kind == Kind::Receive) {
                    let after = [After::Start, After::End][draw(2) as usize];
                    builder.require(place, other, after).expect("it is right");
                }
            }
        }
        builder.next_rank();
    }
    builder.finish()
}

#[test]
fn drawn_graphs_end_as_with_one_queue_of_all() {
    let (mut messages, mut stalled) = (0, 0);
    for seed in 0..400 {
        let graph = drawn_graph(seed);
        for parameters in [
            Parameters::default(),
            Parameters {
                // Numbers that rarely add up to the same.
                latency: Time::from_nanoseconds(2_477),
                overhead: Time::from_nanoseconds(311),
                gap: Time::from_nanoseconds(1_013),
                eager_bytes: 1_000,
                ..Parameters::default()
            },
        ] {
            let outcome = replay(&graph, &parameters).expect("short enough");
            stalled += u32::from(outcome.stalled.is_some());
            messages += outcome.messages;
            let ends = outcome.ends.iter().map(|end| end.picoseconds() / 1000);
            let ends: Vec<u64> = ends.collect();
            assert_eq!(ends, Plain::ends(&graph, &parameters), "seed {seed}");
        }
    }
    assert!(messages > 20_000, "{messages}");
    // Rendezvous that wait for each other.
    assert!(stalled < 80, "{stalled} of 800");
}

/// Every rank sends to all others at once, in one order: all hosts are busy all the time, and
/// alike.
fn all_to_all(ranks: u32, bytes: u64) -> Graph {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        for distance in 1..ranks {
            for operation in [
                Operation::send(bytes, (rank + distance) % ranks),
                Operation::receive(bytes, (rank + ranks - distance) % ranks),
            ] {
                builder.add(operation).expect("it is right");
            }
        }
        builder.next_rank();
    }
    builder.finish()
}

#[test]
fn all_to_all_ends_as_with_one_queue_of_all() {
    for (ranks, bytes) in [(7, 1), (16, 1), (31, 100), (32, 1000), (48, 70_000)] {
        let graph = all_to_all(ranks, bytes);
        for parameters in [Parameters::default(), eager(100)] {
            let ends = nanoseconds(&graph, &parameters);
            assert_eq!(ends, Plain::ends(&graph, &parameters), "{ranks} ranks");
        }
    }
}

#[test]
fn all_to_all_of_many_ranks_costs_what_its_messages_do() {
    let ranks = 256;
    let outcome = replay(&all_to_all(ranks, 1000), &Parameters::default()).expect("it is right");
    let messages = u64::from(ranks * (ranks - 1));
    assert_eq!(outcome.messages, messages);
    assert!(outcome.events < 6 * messages, "{}", outcome.events);
}

#[test]
fn a_barrier_of_65536_ranks_is_made_and_carried_out_at_a_cost_that_follows_it() {
    let graph = dissemination(65_536, 1);
    let outcome = replay(&graph, &Parameters::default()).expect("it is right");
    assert_eq!(outcome.end(), Time::from_nanoseconds(16 * 5_500));
    assert!(
        outcome.events < 3 * graph.len() as u64,
        "{}",
        outcome.events
    );
}

#[test]
fn a_tree_of_32_ranks_ends_when_loggopsim_says() {
    assert_eq!(
        end(&binomial_broadcast(32, 1), &Parameters::default()),
        27_500
    );
}

#[test]
fn each_rank_of_a_broadcast_ends_when_loggopsim_says() {
    let ends = nanoseconds(&binomial_broadcast(8, 1024), &Parameters::default());
    let mut sorted = ends.clone();
    sorted.sort_unstable();
    let printed = [
        15_776, 20_276, 20_276, 24_776, 25_914, 30_414, 30_414, 34_914,
    ];
    assert_eq!(sorted, printed);
    assert_eq!(ends[0], 15_776, "the root");
}

#[test]
fn a_ring_all_reduce_ends_when_loggopsim_says() {
    assert_eq!(end(&ring(8, 128), &Parameters::default()), 87_668);
}

#[test]
fn dissemination_ends_when_loggopsim_says() {
    assert_eq!(end(&dissemination(8, 1024), &Parameters::default()), 34_914);
}

#[test]
fn long_messages_sent_eagerly_end_when_loggopsim_says() {
    let parameters = eager(100_000_000);
    for (ranks, printed) in [(4, 797_420), (16, 1_594_840), (64, 2_392_260)] {
        assert_eq!(
            end(&binomial_broadcast(ranks, 65_536), &parameters),
            printed
        );
        assert_eq!(end(&dissemination(ranks, 65_536), &parameters), printed);
    }
}

#[test]
fn a_rendezvous_ends_at_the_sender_when_loggopsim_says() {
    let text = "num_ranks 2\nrank 0 {\nl1: calc 1500\nl2: send 8b to 1\nl2 requires l1\n\
                l3: recv 100000b from 1\nl3 requires l2\n}\nrank 1 {\nl1: recv 8b from 0\n\
                l2: send 100000b to 0\nl2 requires l1\n}\n";
    let graph = parse_text(text).expect("it is right");
    assert_eq!(
        nanoseconds(&graph, &Parameters::default()),
        [612_536, 11_042]
    );
}

#[test]
fn a_receive_of_any_rank_and_tag_takes_what_comes() {
    let text =
        "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 3\n}\nrank 1 {\nrecv 8b from -1 tag -1\n}\n";
    assert_eq!(
        end(
            &parse_text(text).expect("it is right"),
            &Parameters::default()
        ),
        5_542
    );
}

#[test]
fn a_dependency_from_one_processor_to_another_holds() {
    // LogGOPSim loses it, and ends at 100,000.
    let text = "num_ranks 1\nrank 0 {\nl1: calc 100000 cpu 0\nl2: calc 50000 cpu 1\n\
                l2 requires l1\n}\n";
    assert_eq!(
        end(
            &parse_text(text).expect("it is right"),
            &Parameters::default()
        ),
        150_000
    );
    let started = text.replace("requires", "irequires");
    assert_eq!(
        end(
            &parse_text(&started).expect("it is right"),
            &Parameters::default()
        ),
        100_000
    );
}

/// All ranks send to all others, and nothing waits for anything: who sends when is the order of the
/// operations, and each receiver has one message at a time.
#[test]
fn what_is_ready_goes_one_by_one_in_order() {
    let (ranks, bytes) = (64, 1);
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        for distance in 1..ranks {
            builder
                .add(Operation::send(bytes, (rank + distance) % ranks))
                .expect("it is right");
            builder
                .add(Operation::receive(bytes, (rank + distance) % ranks))
                .expect("it is right");
        }
        builder.next_rank();
    }
    let graph = builder.finish();
    let parameters = Parameters::default();
    // A processor sends 63 messages and takes 63, each in 1,500 ns, and has no pause but the first
    // latency if it takes them between its sends.
    let ends = nanoseconds(&graph, &parameters);
    assert!(
        ends.iter().all(|it| *it == ends[0]),
        "all ranks are alike: {ends:?}"
    );
    assert_eq!(ends[0], 2 * 63 * 1500);
    assert_eq!(
        replay(&graph, &parameters).expect("it is right").messages,
        64 * 63
    );
}

#[test]
fn many_messages_to_one_rank_cost_what_they_are() {
    let senders = 20_000;
    let mut builder = Builder::new(senders + 1);
    for rank in 1..=senders {
        builder
            .add(Operation::receive(1, rank))
            .expect("it is right");
    }
    builder.next_rank();
    for _ in 0..senders {
        builder.add(Operation::send(1, 0)).expect("it is right");
        builder.next_rank();
    }
    let outcome = replay(&builder.finish(), &Parameters::default()).expect("it is right");
    assert_eq!(
        outcome.end(),
        Time::from_nanoseconds(4_000 + 1_500 * u64::from(senders))
    );
    assert!(
        outcome.events < 5 * u64::from(senders),
        "{}",
        outcome.events
    );
}

#[test]
fn who_waits_for_whom_is_said() {
    let text = "num_ranks 3\nrank 0 {\nrecv 8b from 1\n}\nrank 1 {\nrecv 8b from 2\n}\n\
                rank 2 {\nrecv 8b from 0\nsend 4b to 0 tag 9\n}\n";
    let outcome = replay(
        &parse_text(text).expect("it is right"),
        &Parameters::default(),
    )
    .expect("it is right");
    let stalled = outcome.stalled.expect("it is right");
    assert_eq!(
        stalled.to_string(),
        "3 operations never ended\n  receives that no message came for: 3\n    \
         rank 0, line 3: recv 8b from 1\n    rank 1, line 6: recv 8b from 2\n    \
         rank 2, line 9: recv 8b from 0\n  messages that no receive took: 1\n    \
         rank 2, line 10: send 4b to 0 with tag 9\n  who waits for whom:\n    \
         rank 0, line 3: recv 8b from 1: waits for rank 1 to send it\n    \
         rank 1, line 6: recv 8b from 2: waits for rank 2 to send it\n    \
         rank 2, line 9: recv 8b from 0: waits for rank 0 to send it\n    \
         and so round in a ring"
    );
}

#[test]
fn sizes_that_differ_are_named_and_do_not_stall() {
    let mut builder = Builder::new(2);
    builder
        .add(Operation::send(100_000, 1))
        .expect("it is right");
    builder.next_rank();
    builder
        .add(Operation::receive(8, ANY))
        .expect("it is right");
    let outcome = replay(&builder.finish(), &Parameters::default()).expect("it is right");
    assert_eq!(outcome.stalled, None);
    let [(send, receive)] = &*outcome.misfits.first else {
        panic!("{:?}", outcome.misfits);
    };
    assert_eq!(send.to_string(), "rank 0, operation 0: send 100000b to 1");
    assert_eq!(
        receive.to_string(),
        "rank 1, operation 0: recv 8b from any rank"
    );
}

#[test]
fn what_takes_too_long_is_refused() {
    let text = "num_ranks 2\nrank 0 {\nl1: calc 18446744073709551615\nl2: calc 1\nl2 requires l1\n\
                }\nrank 1 {\n}\n";
    let graph = parse_text(text).expect("it is right");
    assert_eq!(
        replay(&graph, &Parameters::default()).err(),
        Some(ReplayError::TooLong)
    );
}

#[test]
fn an_operation_takes_at_most_48_bytes_carried_out() {
    for (collective, ranks) in [
        (Collective::Barrier, 1 << 16),
        (Collective::AllReduce, 200),
        (Collective::AllToAll, 300),
    ] {
        let made = graph(&Request::usual(collective, ranks, 1 << 20)).expect("it is right");
        let mut file = Vec::new();
        write_binary(&made, &mut file).expect("memory is enough");
        let read = read_binary(&mut std::io::Cursor::new(file)).expect("it is right");
        for graph in [made, read] {
            let outcome = replay(&graph, &Parameters::default()).expect("it is right");
            assert_eq!(outcome.stalled, None);
            let bytes = (graph.state_bytes() + outcome.state_bytes) as f64 / graph.len() as f64;
            assert!(
                bytes <= 48.0,
                "{collective} of {ranks} ranks: {bytes} an operation"
            );
        }
    }
}
