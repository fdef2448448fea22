//! What is told of what programs post to queue pairs: how many messages there were, how they ended,
//! what they cost, and where the time of one of them went.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::record::{Selection, Used};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::why::{Choice, Fate as Ended, Overlap, Place, Work};
use viaduct_cluster::workload::MessageOperation;
use viaduct_engine::Time;
use viaduct_network::Sharing;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::verbs::{CompletionStatus, QueuePairType, SendOpcode};
use viaduct_programs::{Outcome, Simulation, explain};
use viaduct_topology::{HostId, LinkId, Node};

use super::queue_pairs::{End, hosts, two};

const MODELS: [&str; 3] = ["rnic-gen3", "rnic-gen4", "rnic-gen5"];
const ROUNDS: u64 = 40;
/// As long as a program waits for what may not come.
const PATIENCE: Option<Duration> = Some(Duration::from_millis(20));

/// The end of host 1 takes what comes until nothing does.
fn take_all(simulation: &Simulation, far: End) {
    simulation.spawn(1, move |_| {
        while let Some(taken) = far.queue.wait(PATIENCE).unwrap() {
            if taken.status == CompletionStatus::Success {
                far.receive(0);
            }
        }
    });
}

/// Host 0 does every operation of its kind in turn, all at once, and host 1 takes what it has to.
fn start(simulation: &Simulation, near: End, far: End, kind: QueuePairType) {
    let to = far.memory();
    for request in 0..8 {
        far.receive(request);
    }
    let mut opcodes = vec![
        SendOpcode::Send,
        SendOpcode::RdmaWrite,
        SendOpcode::RdmaWriteWithImmediate,
    ];
    if kind == QueuePairType::Rc {
        opcodes.extend([SendOpcode::RdmaRead, SendOpcode::AtomicFetchAndAdd]);
    }
    take_all(simulation, far);
    simulation.spawn(0, move |_| {
        for round in 0..ROUNDS as usize {
            let opcode = opcodes[round % opcodes.len()];
            let bytes = if opcode.is_atomic() { 8 } else { 3000 };
            near.post(opcode, 0, bytes, to, 1);
        }
        for _ in 0..ROUNDS {
            if near.queue.wait(PATIENCE).unwrap().is_none() {
                break;
            }
        }
    });
}

/// A run, and the same of one that nobody watches.
fn run(config: &SimulationConfig, kind: QueuePairType, timeout: u8) -> (RunResult, Outcome) {
    let both = [true, false].map(|is_watched| {
        let (mut simulation, near, far) = two(config.clone(), kind, timeout);
        if is_watched {
            simulation.keep_account(1000);
        }
        start(&simulation, near, far, kind);
        let outcome = simulation.run().unwrap();
        (simulation.account(), outcome)
    });
    let [(told, outcome), (_, alone)] = both;
    assert_eq!(outcome, alone, "whoever watches changes nothing");
    assert_eq!(told.violations, Vec::<String>::new());
    let counts = told.messages;
    let ended = counts.delivered + counts.dropped + counts.in_flight;
    assert_eq!((counts.posted, ended), (ROUNDS, ROUNDS));
    (told, outcome)
}

fn lossy(model: &str, rate: f64) -> SimulationConfig {
    let mut config = hosts(model);
    let links = Links::All;
    config.faults = vec![Fault::Loss { links, rate }];
    config
}

fn drops(told: &RunResult) -> Vec<(&'static str, u32, u64)> {
    let drops = told.drops.iter();
    drops.map(|it| (it.cause, it.host, it.count)).collect()
}

#[test]
fn every_operation_is_a_message_whose_stages_add_up() {
    for model in MODELS {
        for kind in [QueuePairType::Rc, QueuePairType::Uc] {
            let (told, _) = run(&hosts(model), kind, 14);
            assert_eq!(told.messages.delivered, ROUNDS, "{model} {kind:?}");
            let latency = told.latency.unwrap();
            assert!(latency.min_us >= latency.floor_us && latency.floor_us > 0.5);
            let stages: f64 = told.breakdown.iter().map(|stage| stage.mean_us).sum();
            let mean = latency.mean_us.mean;
            assert!(
                (stages - mean).abs() < 1e-6 * mean,
                "{model}: {stages} {mean}"
            );
            let rows = told.message_rows.iter();
            let of = |wanted| rows.clone().filter(move |row| row.operation == wanted);
            let reads = of(MessageOperation::Read);
            assert!(reads.clone().all(|row| [8, 3000].contains(&row.bytes)));
            // Five operations in turn, of which two are reads; or three, of which none is.
            let expected = if kind == QueuePairType::Rc { 16 } else { 0 };
            assert_eq!(reads.count() as u64, expected);
            let sends = if kind == QueuePairType::Rc { 8 } else { 14 };
            assert_eq!(of(MessageOperation::Send).count(), sends);
            assert!(
                told.message_rows
                    .iter()
                    .all(|row| (row.source, row.target) == (0, 1))
            );
        }
    }
}

#[test]
fn what_is_lost_and_goes_again_is_one_message() {
    let mut again = 0;
    for model in MODELS {
        let (told, outcome) = run(&lossy(model, 0.03), QueuePairType::Rc, 4);
        assert_eq!(
            told.messages.delivered,
            ROUNDS,
            "{model}: {:?}",
            drops(&told)
        );
        again += outcome.counts.retransmissions;
        let (same, _) = run(&lossy(model, 0.03), QueuePairType::Rc, 4);
        assert_eq!(told.digest, same.digest);
    }
    assert!(again > 5, "{again} times");
}

#[test]
fn what_an_unreliable_queue_pair_loses_is_dropped() {
    let (told, _) = run(&lossy("rnic-gen4", 0.1), QueuePairType::Uc, 14);
    let counts = told.messages;
    assert!(counts.delivered > ROUNDS / 2 && counts.dropped > 0);
    assert_eq!(drops(&told), [("lost", 1, counts.dropped)]);
}

/// What becomes of two sends to host 1, whose program does something 50 us later.
fn two_sends(
    kind: QueuePairType,
    bytes: u32,
    faults: Vec<Fault>,
    prepare: impl FnOnce(&End),
    then: impl FnOnce(&End) + Send + 'static,
) -> RunResult {
    let mut config = hosts("rnic-gen5");
    config.faults = faults;
    let (mut simulation, near, far) = two(config, kind, 6);
    simulation.keep_account(0);
    prepare(&far);
    simulation.spawn(1, move |process| {
        process.sleep(Duration::from_micros(50));
        then(&far);
    });
    simulation.spawn(0, move |process| {
        process.sleep(Duration::from_micros(10));
        for _ in 0..2 {
            near.post(SendOpcode::Send, 0, bytes, (0, 0), 0);
        }
        process.sleep(Duration::from_millis(50));
    });
    simulation.run().unwrap();
    let told = simulation.account();
    assert_eq!(told.violations, Vec::<String>::new());
    let counts = told.messages;
    assert_eq!(counts.posted, 2);
    assert_eq!(counts.delivered + counts.dropped + counts.in_flight, 2);
    told
}

#[test]
fn what_does_not_arrive_is_dropped_with_its_cause_or_in_flight() {
    use QueuePairType::{Rc, Uc};

    let nothing = |_: &End| {};
    let receives = |far: &End| (0..2).for_each(|request| far.receive(request));
    // Without reliability nobody is told that there is no receive; with it the sender tries on.
    let told = two_sends(Uc, 64, Vec::new(), nothing, nothing);
    assert_eq!(drops(&told), [("no_descriptor", 1, 2)]);
    let told = two_sends(Rc, 64, Vec::new(), nothing, nothing);
    assert_eq!((drops(&told), told.messages.in_flight), (Vec::new(), 2));
    // The first does not fit its receive, and throws the second out.
    let told = two_sends(Rc, 5000, Vec::new(), receives, nothing);
    assert_eq!(drops(&told), [("no_connection", 1, 1), ("too_long", 1, 1)]);
    // The sender gives up on a dead host.
    let at = Time::from_picoseconds(1_000_000);
    let dies = Fault::HostDies { host: 1, at };
    let told = two_sends(Rc, 64, vec![dies], receives, nothing);
    assert_eq!(drops(&told), [("lost", 1, 2)]);
    // What has come and was not taken is in flight, or gone with its queue pair.
    let told = two_sends(Rc, 64, Vec::new(), receives, nothing);
    assert_eq!((drops(&told), told.messages.in_flight), (Vec::new(), 2));
    let told = two_sends(Rc, 64, Vec::new(), receives, |far| {
        assert_eq!(far.done().status, CompletionStatus::Success);
        far.pair.destroy().unwrap();
    });
    assert_eq!(told.messages.delivered, 1);
    assert_eq!(drops(&told), [("no_connection", 1, 1)]);
}

#[test]
fn the_time_of_a_message_is_accounted_for_to_the_picosecond() {
    for (rate, timeout) in [(0.0, 14), (0.03, 4)] {
        let config = lossy("rnic-gen5", rate);
        let run = |simulation: &mut Simulation| {
            let [near, far] =
                [0, 1].map(|host| End::new(&simulation.process(host), QueuePairType::Rc));
            near.raise(far.pair.number(), timeout, 7);
            far.raise(near.pair.number(), timeout, 7);
            start(simulation, near, far, QueuePairType::Rc);
            simulation.run().is_ok()
        };
        for choice in [Choice::Slowest, Choice::Message(1)] {
            let explanation = explain(&config, choice, run).unwrap();
            assert_eq!(explanation.violations, Vec::<String>::new());
            let Ended::Delivered(account) = &explanation.fate else {
                panic!("{choice:?} was not delivered");
            };
            let stages = account.stages.iter().map(|stage| stage.time);
            let sum = stages.fold(Time::ZERO, |sum, time| sum + time);
            assert_eq!(sum, account.latency);
            assert!(account.floor <= account.latency);
            let met = account.waits.iter().flat_map(|wait| &wait.longest);
            let met: Vec<u64> = met.filter_map(|it| Some(it.message?.number)).collect();
            // All were posted at once, so that each waits for others, the second for the first.
            let is_right = match choice {
                Choice::Message(_) => met.contains(&0),
                _ => !met.is_empty(),
            };
            assert!(is_right, "{choice:?} met {met:?}");
            assert!(met.iter().all(|number| *number < ROUNDS), "{met:?}");
        }
    }
}

#[test]
fn what_messages_use_is_recorded() {
    let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 14);
    simulation.record(Selection {
        from: Time::ZERO,
        every: 1,
        count: 5,
    });
    start(&simulation, near, far, QueuePairType::Rc);
    simulation.run().unwrap();
    let recording = simulation.recorded();
    let numbers = recording.messages.iter().map(|it| it.message.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(recording.under_way, 0);
    // Of each its post, its descriptor and each link; and takes, of those that are taken.
    assert!(recording.uses.len() >= 5 * 4);
    // The read and the atomic are answered, and so not acknowledged.
    let uses = recording.uses.iter();
    let acknowledged = uses.filter(|used| used.work == Work::Acknowledge);
    let acknowledged: Vec<_> = acknowledged.map(|it| (it.message, it.used)).collect();
    let topology = &simulation.configuration().topology;
    let mut way = Vec::new();
    topology.route_flow(HostId(1), HostId(0), 0, &mut way);
    for number in [0, 1, 2] {
        for link in &way {
            let used = (number, Used::Link(*link));
            assert!(acknowledged.contains(&used), "{acknowledged:?}");
        }
    }
    assert!(acknowledged.iter().all(|(number, _)| *number < 3));
}

/// A write of host 1 shares its way with the acknowledgements of host 0's writes, and is told so;
/// those of host 0 do not meet their own.
#[test]
fn who_shares_a_way_with_acknowledgements_is_told() {
    const WRITES: usize = 40;
    let config = over(Sharing::MaxMin);
    let run = |simulation: &mut Simulation| {
        let [near, far] = [0, 1].map(|host| End::new(&simulation.process(host), QueuePairType::Rc));
        near.raise(far.pair.number(), 14, 7);
        far.raise(near.pair.number(), 14, 7);
        let (to, back) = (far.memory(), near.memory());
        simulation.spawn(1, move |process| {
            process.sleep(Duration::from_micros(200) - process.now());
            far.post(SendOpcode::RdmaWrite, 0, 1 << 20, back, 0);
            assert_eq!(far.done().status, CompletionStatus::Success);
        });
        simulation.spawn(0, move |process| {
            process.sleep(Duration::from_micros(205) - process.now());
            for _ in 0..WRITES {
                near.post(SendOpcode::RdmaWrite, 0, 64, to, 0);
            }
            for _ in 0..WRITES {
                near.done();
            }
            // Its memory stays until the other write is there.
            process.sleep(Duration::from_micros(100));
        });
        simulation.run().is_ok()
    };
    for (message, meets) in [(0, WRITES as u64), (WRITES as u64, 0)] {
        let explanation = explain(&config, Choice::Message(message), run).unwrap();
        assert_eq!(explanation.violations, Vec::<String>::new());
        let Ended::Delivered(account) = &explanation.fate else {
            panic!("message {message} was not delivered");
        };
        let places = account.way.places.iter();
        let links: Vec<_> = places
            .filter(|place| matches!(place.place, Place::Link(_)))
            .collect();
        assert_eq!(links.len(), 2);
        for link in links {
            let is_acknowledging = |it: &Overlap| it.work == Work::Acknowledge;
            let longest = link.longest.iter();
            assert_eq!(
                longest.filter(|it| is_acknowledging(it)).count() > 0,
                meets > 0
            );
            assert_eq!(link.messages, meets, "message {message}: {link:?}");
        }
        let waits = account.waits.iter().flat_map(|wait| &wait.longest);
        assert!(waits.into_iter().all(|it| it.work != Work::Acknowledge));
    }
}

/// Two hosts on one switch, over a network that is computed so.
fn over(sharing: Sharing) -> SimulationConfig {
    let mut config = hosts("rnic-gen4");
    config.links.sharing = sharing;
    config
}

const LEVELS: [Sharing; 5] = [
    Sharing::Fluid,
    Sharing::MaxMin,
    Sharing::Queues,
    Sharing::Packets,
    Sharing::Credits,
];

#[test]
fn each_acknowledgement_is_a_frame_without_payload() {
    const WRITES: u32 = 20;
    for sharing in LEVELS {
        for (kind, acknowledgements) in [(QueuePairType::Rc, WRITES), (QueuePairType::Uc, 0)] {
            let config = over(sharing);
            let frame = config.links.frame;
            let (mut simulation, near, far) = two(config, kind, 14);
            simulation.keep_account(0);
            let to = far.memory();
            simulation.spawn(0, move |_| {
                for _ in 0..WRITES {
                    near.post(SendOpcode::RdmaWrite, 0, 3000, to, 0);
                }
                for _ in 0..WRITES {
                    assert_eq!(near.done().status, CompletionStatus::Success);
                }
            });
            simulation.run().unwrap();
            let told = simulation.account();
            assert_eq!(told.violations, Vec::<String>::new());
            let from = |host| {
                let rows = told.link_rows.iter();
                let from = Node::Host(HostId(host));
                let own = rows.filter(|row| told.topology.link_ends(LinkId(row.link)).0 == from);
                own.map(|row| row.wire_bytes.round() as u64).sum::<u64>()
            };
            let (one, none) = (frame.wire_bytes(3000), frame.wire_bytes(0));
            let expected = [u64::from(WRITES) * one, u64::from(acknowledgements) * none];
            assert_eq!([from(0), from(1)], expected, "{sharing:?}, {kind:?}");
        }
    }
}

/// How long an operation without bytes takes, beside bytes that its target sends.
fn span_beside(sharing: Sharing, opcode: SendOpcode, beside: u32) -> Time {
    let (mut simulation, near, far) = two(over(sharing), QueuePairType::Rc, 14);
    let (to, back) = (far.memory(), near.memory());
    let begin = Duration::from_micros(200);
    if beside > 0 {
        simulation.spawn(1, move |process| {
            process.sleep(begin - Duration::from_micros(10) - process.now());
            far.post(SendOpcode::RdmaWrite, 0, beside, back, 0);
            assert_eq!(far.done().status, CompletionStatus::Success);
        });
    }
    let took = Arc::new(Mutex::new(Time::ZERO));
    let told = Arc::clone(&took);
    simulation.spawn(0, move |process| {
        // The adapters learn of the connection.
        near.post(opcode, 0, 0, to, 0);
        near.done();
        process.sleep(begin - process.now());
        let begun = process.time();
        near.post(opcode, 0, 0, to, 0);
        assert_eq!(near.done().status, CompletionStatus::Success);
        *told.lock().unwrap() = process.time() - begun;
        // Its memory stays until the other bytes are there.
        process.sleep(begin);
    });
    simulation.run().unwrap();
    let took = took.lock().unwrap();
    *took
}

#[test]
fn an_acknowledgement_comes_back_as_the_answer_of_a_read_without_bytes_does() {
    for sharing in LEVELS {
        let [write, read] = [SendOpcode::RdmaWrite, SendOpcode::RdmaRead];
        let alone = span_beside(sharing, write, 0);
        assert_eq!(alone, span_beside(sharing, read, 0), "{sharing:?}");
        // 1 MiB moves for 42 us at 200 Gbit/s, from 10 us before: the link is taken when the answer
        // comes.
        let shared = span_beside(sharing, write, 1 << 20);
        assert_eq!(shared, span_beside(sharing, read, 1 << 20), "{sharing:?}");
        assert!(shared > alone, "{sharing:?}: {shared:?}, alone {alone:?}");
    }
}
