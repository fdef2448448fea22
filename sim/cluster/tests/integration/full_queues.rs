//! Queues of switches that lose what they cannot hold: what becomes of the messages.
//!
//! Hosts 0 and 1 begin at once to send frames of 1,000 bytes to host 2, over one switch, so that
//! two come for each that leaves.

use std::sync::Arc;

use crate::common::{ideal_host, run, scenario};
use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{ListedMessage, MessageList, MessageOperation, Pattern};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::{HostModel, Mechanism};
use viaduct_network::{
    Buffers, CongestionControl, Marking, QueueCounts, QueueWindow, Sharing, WhenFull,
};
use viaduct_topology::{EqualPaths, Ports, Topology};

const FRAME: u32 = 1_000;
/// The link from host 1 to the switch, and that from the switch to host 2.
const FROM_1: usize = 1;
const TO_2: usize = 5;

/// The adapter that sends again.
fn rdma() -> HostModel {
    let programs = viaduct_scenario::load_programs("rnic-gen4", None, 2);
    programs
        .expect("a preset with a link")
        .host
        .common()
        .clone()
}

fn timeout(host: &HostModel) -> Time {
    match &host.mechanism {
        Mechanism::Rdma(model) => model.timeout,
        other => panic!("no adapter of RDMA: {other:?}"),
    }
}

/// Messages of so many frames of host 0 and host 1, at a level, with room for so many frames.
fn both(host: HostModel, frames: (u32, u32), holds: u64, operation: MessageOperation) -> RunResult {
    let topology = Topology::single_switch(3, Ports(3)).expect("a switch");
    over(topology, host, frames, holds, operation)
}

/// The same over another network.
fn over(
    topology: Topology,
    host: HostModel,
    frames: (u32, u32),
    holds: u64,
    operation: MessageOperation,
) -> RunResult {
    let buffers = Buffers {
        bytes_max: Some(holds * u64::from(FRAME)),
        ..Buffers::default()
    };
    run(&config(buffers, topology, host, frames, operation))
}

/// What is run, with queues that may do more than lose frames.
fn config(
    buffers: Buffers,
    topology: Topology,
    host: HostModel,
    frames: (u32, u32),
    operation: MessageOperation,
) -> ClusterConfig {
    // The bytes of a read come from its target.
    let ends = |source| match operation {
        MessageOperation::Read => (2, source),
        _ => (source, 2),
    };
    let message = |source, frames| ListedMessage {
        time: Time::ZERO,
        source: ends(source).0,
        target: ends(source).1,
        bytes: frames * FRAME,
        operation,
    };
    let hosts = topology.host_count();
    let sends_again = host.mechanism.sends_again();
    let mut config: ClusterConfig = scenario(topology, host, Pattern::Uniform);
    config.links.sharing = Sharing::Packets;
    config.links.frame.payload_bytes = FRAME;
    config.links.buffers = buffers;
    let messages = [message(0, frames.0), message(1, frames.1)];
    let list = MessageList::new(&messages, hosts, 1).expect("a list");
    config.traffic = TrafficConfig::listed(Arc::new(list), Time::ZERO, config.run.until);
    if sends_again {
        config.traffic.reliability = ReliabilityLevel::ReliableDelivery;
    }
    config
}

fn latency(result: &RunResult, source: u32) -> Time {
    let mut rows = result.message_rows.iter();
    let row = rows.find(|row| row.source == source).expect("a message");
    row.latency.expect("it is delivered")
}

#[test]
fn a_message_is_lost_with_one_of_its_frames_and_the_cause_is_counted() {
    // The queue has 1, 2, 3 frames more than have left after the first, second and third pair: the
    // fourth frame of host 1 is the fifth that is there.
    let four = |holds| both(ideal_host(), (4, 4), holds, MessageOperation::Send);
    let (fits, lacks) = (four(5), four(4));
    assert_eq!(fits.messages.delivered, 2);
    assert_eq!(fits.link_rows[TO_2].queue_max_bytes, 5_000);
    assert_eq!((lacks.messages.delivered, lacks.messages.dropped), (1, 1));
    assert_eq!(lacks.drops[0].cause, "queue_full");
    let lost: Vec<u64> = lacks.link_rows.iter().map(|row| row.frames_lost).collect();
    assert_eq!(lost, [0, 0, 0, 0, 0, 1]);
    let carried = lacks.link_rows[TO_2].wire_bytes;
    assert_eq!(carried.round() as u64, 7 * u64::from(FRAME));
}

#[test]
fn windows_of_queues_add_up_to_the_whole_run() {
    let lossy = Buffers {
        bytes_max: Some(4 * u64::from(FRAME)),
        marking: Some(Marking {
            low_bytes: 1_000,
            high_bytes: 3_000,
            probability: 1.0,
            control: CongestionControl::None,
        }),
        ..Buffers::default()
    };
    let pausing = Buffers {
        full: WhenFull::Pause {
            headroom_bytes: None,
        },
        ..lossy
    };
    for buffers in [lossy, pausing] {
        let topology = Topology::single_switch(3, Ports(3)).expect("a switch");
        let mut config = config(buffers, topology, rdma(), (60, 12), MessageOperation::Send);
        // Windows of 20 us; all is there after less than half of them.
        config.run.until = Time::from_milliseconds(2);
        let result = run(&config);
        assert!(result.queues.len() > 10, "{}", result.queues.len());
        let in_order =
            |one: &QueueWindow, other: &QueueWindow| (one.end, one.link) < (other.end, other.link);
        assert!(result.queues.is_sorted_by(in_order));
        for row in &result.link_rows {
            let windows = || result.queues.iter().filter(|it| it.link == row.link);
            let sum = |of: fn(&QueueCounts) -> u64| windows().map(|it| of(&it.counts)).sum::<u64>();
            assert_eq!(sum(|it| it.lost), row.frames_lost);
            assert_eq!(sum(|it| it.marked), row.frames_marked);
            assert_eq!(sum(|it| it.pauses), row.pauses);
            assert_eq!(sum(|it| it.paused.picoseconds()), row.paused.picoseconds());
            let most = windows().map(|it| it.bytes_max).max().unwrap_or_default();
            // What is no more than a frame is no queue.
            if row.queue_max_bytes > u64::from(FRAME) {
                assert_eq!(most, row.queue_max_bytes);
            } else {
                assert_eq!(most, 0);
            }
        }
        let does_something = |it: &QueueWindow| match buffers.full {
            WhenFull::Pause { .. } => it.counts.pauses > 0 && it.counts.paused > Time::ZERO,
            _ => it.counts.marked > 0 && it.counts.lost > 0,
        };
        assert!(result.queues.iter().any(does_something));
        // A window tells of itself alone: host 1 is done early, and from then on nothing waits.
        let of_2 = result.queues.iter().filter(|it| it.link as usize == TO_2);
        assert!(of_2.count() < result.series.len() * 3 / 4);
        // The windows are those of the series.
        let ends: Vec<Time> = result.series.iter().map(|row| row.end).collect();
        assert!(result.queues.iter().all(|it| ends.contains(&it.end)));
    }
}

#[test]
fn a_receiver_that_has_a_frame_behind_a_gap_has_it_sent_again_from_there() {
    // With room for three, the third and fourth frame of host 1 are lost; the fifth finds a place,
    // since host 0 has no fifth. From the third on they come again.
    let host = rdma();
    let result = both(host.clone(), (4, 5), 3, MessageOperation::Send);
    assert_eq!(result.messages.delivered, 2);
    assert_eq!(result.link_rows[TO_2].frames_lost, 2);
    let sent = result.link_rows[FROM_1].wire_bytes.round() as u64;
    assert_eq!(sent, 8 * u64::from(FRAME));
    assert!(latency(&result, 1) < timeout(&host));
    assert!(latency(&result, 1) > latency(&result, 0));
}

#[test]
fn a_sender_that_is_told_of_no_gap_sends_again_when_its_time_is_over() {
    // The last frame of host 1 is the one that is lost.
    for operation in [MessageOperation::Send, MessageOperation::Write] {
        let host = rdma();
        let result = both(host.clone(), (4, 4), 4, operation);
        assert_eq!(result.messages.delivered, 2);
        assert_eq!(result.link_rows[TO_2].frames_lost, 1);
        let sent = result.link_rows[FROM_1].wire_bytes.round() as u64;
        assert_eq!(sent, 5 * u64::from(FRAME));
        assert!(latency(&result, 1) > timeout(&host));
    }
}

#[test]
fn the_answers_of_reads_are_sent_again_too() {
    // Host 2 asks for both at once.
    let result = both(rdma(), (9, 9), 3, MessageOperation::Read);
    assert_eq!(result.messages.delivered, 2);
    let lost = result.link_rows[TO_2].frames_lost;
    assert!(lost > 0);
    // All that was lost was sent again, and no frame went thrice on the link of its sender.
    let sent = |link: usize| result.link_rows[link].wire_bytes.round() as u64 / u64::from(FRAME);
    assert!(
        sent(0) + sent(FROM_1) >= 18 + lost,
        "{} {}",
        sent(0),
        sent(FROM_1)
    );
    assert!(sent(0) <= 18 && sent(FROM_1) <= 18);
}

#[test]
fn of_frames_that_take_ways_of_their_own_only_those_that_are_missing_go_again() {
    let tree = Topology::leaf_spine(4, 2, 2).expect("a tree");
    for equal_paths in [EqualPaths::Spray, EqualPaths::LeastQueued] {
        let tree = tree.clone().with_equal_paths(equal_paths);
        for operation in [MessageOperation::Send, MessageOperation::Write] {
            let result = over(tree.clone(), rdma(), (19, 19), 3, operation);
            assert_eq!(result.messages.delivered, 2);
            let lost: u64 = result.link_rows.iter().map(|row| row.frames_lost).sum();
            assert!(lost > 2);
            let sent: f64 = [0, 1]
                .map(|link| result.link_rows[link].wire_bytes)
                .iter()
                .sum();
            assert_eq!(sent.round() as u64, (38 + lost) * u64::from(FRAME));
        }
    }
}
