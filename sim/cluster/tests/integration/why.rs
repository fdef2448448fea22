//! Messages whose waits can be worked out by hand.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::{costly_host, ideal_host, nanoseconds, nic, run, scenario, set_propagation};
use viaduct_cluster::config::{Arrivals, BusLoad, ClusterConfig, TrafficConfig};
use viaduct_cluster::why::{Account, Choice, Explanation, Fate, Place, WhyError, Work, explain};
use viaduct_cluster::workload::{
    Interval, ListedMessage, MessageList, MessageOperation, Pattern, SizeDistribution,
};
use viaduct_engine::Time;
use viaduct_hardware::HostModel;
use viaduct_hardware::Stage;
use viaduct_network::{Arrival, Buffers, CongestionControl, Marking, Sharing, WhenFull};
use viaduct_topology::{HostId, Node, Ports, Topology};

fn why(config: &ClusterConfig, choice: Choice) -> Result<Explanation, WhyError> {
    let explanation = explain(config, choice, &mut |_, _| ControlFlow::Continue(()))?;
    assert_eq!(explanation.violations, Vec::<String>::new());
    assert_eq!(explanation.digest, run(config).digest);
    Ok(explanation)
}

fn account(config: &ClusterConfig, choice: Choice) -> Account {
    match why(config, choice).expect("explained").fate {
        Fate::Delivered(account) => *account,
        fate => panic!("{fate:?}"),
    }
}

/// Each pair sends one message at the same time: 1,000 bytes, 8 us on a link of 1 Gbit/s.
fn at_once(host: HostModel, pairs: &[(u32, u32)]) -> ClusterConfig {
    let topology = Topology::single_switch(6, Ports(8)).expect("a switch");
    let mut config = scenario(topology, host, Pattern::Pairs(pairs.to_vec()));
    let interval = Interval::constant(1e6).expect("an interval");
    config.traffic.arrivals = Arrivals::Open(interval);
    config.traffic.stop = Time::from_nanoseconds(1_500);
    config
}

#[test]
fn a_message_alone_waits_nowhere() {
    let hosts = [ideal_host(), costly_host()];
    let levels = [
        (Sharing::Fluid, Arrival::Free),
        (Sharing::Queues, Arrival::Free),
        (Sharing::Queues, Arrival::Limits),
        (Sharing::Packets, Arrival::Free),
        (Sharing::Credits, Arrival::Free),
    ];
    for (host, level) in hosts.iter().flat_map(|host| levels.map(|it| (host, it))) {
        let mut config = at_once(host.clone(), &[(0, 1)]);
        (config.links.sharing, config.links.arrival) = level;
        config.links.frame.payload_bytes = 300;
        let account = account(&config, Choice::Message(0));
        assert_eq!(account.latency, account.floor);
        assert!(account.waits.is_empty(), "{:?}", account.waits);
        for stage in &account.stages {
            assert_eq!(stage.time, stage.alone, "{stage:?}");
        }
        assert_eq!(account.way.rest_picoseconds, Some(0));
        for place in &account.way.places {
            assert_eq!((place.messages, place.device_transfers), (0, 0));
            assert_eq!((place.shared, place.lost), (Time::ZERO, Some(Time::ZERO)));
            assert!(place.longest.is_empty());
        }
    }
}

#[test]
fn a_shared_link_is_named_with_who_shared_it() {
    let mut config = at_once(ideal_host(), &[(0, 1), (2, 1), (3, 4)]);
    let explanation = why(&config, Choice::Message(0)).expect("explained");
    assert_eq!(explanation.messages_posted, 3);
    let message = explanation.message;
    assert_eq!(
        (message.source, message.target, message.bytes),
        (0, 1, 1_000)
    );
    let Fate::Delivered(first) = explanation.fate else {
        panic!("{:?}", explanation.fate);
    };
    // Half of the link to host 1 all the time, so twice the time.
    assert_eq!(first.latency, nanoseconds(16_000));
    let [up, down] = &first.way.places[..] else {
        panic!("{:?}", first.way);
    };
    assert_eq!((up.messages, up.lost), (0, Some(Time::ZERO)));
    assert_eq!((down.messages, down.shared), (1, nanoseconds(16_000)));
    assert_eq!(down.lost, Some(nanoseconds(8_000)));
    let Place::Link(link) = down.place else {
        panic!("{:?}", down.place);
    };
    let (_, end) = config.topology.link_ends(link);
    assert_eq!(end, Node::Host(HostId(1)));
    let [other] = &down.longest[..] else {
        panic!("{:?}", down.longest);
    };
    let name = other.message.expect("a message");
    assert_eq!((name.number, name.source, name.target), (1, 2, 1));
    assert_eq!((other.work, other.time), (Work::Move, nanoseconds(16_000)));

    config.links.sharing = Sharing::MaxMin;
    let account = account(&config, Choice::Message(0));
    let down = &account.way.places[1];
    assert_eq!((down.messages, down.shared), (1, nanoseconds(16_000)));
    assert_eq!((down.lost, account.way.rest_picoseconds), (None, None));
}

#[test]
fn a_post_waits_for_the_processor_and_a_descriptor_for_its_turn() {
    // The second message of host 0 is posted when the first has been: its post takes 1 us.
    let mut config = at_once(costly_host(), &[(0, 1)]);
    config.traffic.arrivals = Arrivals::Window(2);
    config.traffic.stop = Time::from_nanoseconds(100);
    let account = account(&config, Choice::Message(1));
    let wait = |stage: Stage| {
        let wait = account.waits.iter().find(|wait| wait.stage == stage);
        wait.unwrap_or_else(|| panic!("{stage:?} in {:?}", account.waits))
    };
    let processor = wait(Stage::SenderProcessor);
    assert_eq!(
        (processor.messages, processor.time),
        (1, nanoseconds(1_000))
    );
    let ahead = &processor.longest[0];
    assert_eq!(ahead.message.expect("a message").number, 0);
    assert_eq!((ahead.work, ahead.time), (Work::Post, nanoseconds(1_000)));
    // One message of a VI moves at a time: the second waits for the first one's bytes.
    let turn = wait(Stage::SendQueue);
    assert_eq!(turn.explained, turn.time);
    assert_eq!(turn.longest[0].work, Work::Move);
    assert_eq!(turn.longest[0].message.expect("a message").number, 0);
}

#[test]
fn a_message_without_a_buffer_waits_for_those_that_hold_them() {
    let mut config = at_once(costly_host(), &[(0, 1)]);
    config.traffic.arrivals = Arrivals::Window(3);
    config.traffic.stop = Time::from_nanoseconds(100);
    config.hosts.send_buffers = 2;
    let account = account(&config, Choice::Message(2));
    let wait = &account.waits[0];
    assert_eq!(wait.stage, Stage::Buffer);
    let holders: Vec<u64> = wait
        .longest
        .iter()
        .map(|overlap| overlap.message.expect("a message").number)
        .collect();
    assert_eq!(holders, [0, 1]);
    assert!(
        wait.longest
            .iter()
            .all(|overlap| overlap.work == Work::Buffer)
    );
    assert!(wait.longest.iter().all(|overlap| overlap.time == wait.time));
}

#[test]
fn other_devices_on_the_bus_are_told_from_messages() {
    let mut config = at_once(costly_host(), &[(0, 1)]);
    config.hosts.bus_load = Some(BusLoad {
        interval: Interval::constant(5e6).expect("an interval"),
        size: SizeDistribution::constant(900),
    });
    let account = account(&config, Choice::Message(0));
    let bus = &account.way.places[0];
    assert_eq!(bus.place, Place::Bus(HostId(0)));
    assert_eq!(bus.messages, 0);
    assert!(
        bus.device_transfers > 0 && bus.lost > Some(Time::ZERO),
        "{bus:?}"
    );
    assert_eq!(bus.longest[0].message, None);
    assert_eq!(bus.longest[0].time, bus.shared);
}

#[test]
fn what_was_not_delivered_is_said() {
    let mut config = at_once(ideal_host(), &[(0, 1), (2, 1)]);
    config.hosts.prepost = 0;
    let lost = why(&config, Choice::Message(1)).expect("explained");
    let Fate::Dropped { cause, .. } = lost.fate else {
        panic!("{:?}", lost.fate);
    };
    assert_eq!((cause, lost.message.source), ("no_descriptor", 2));
    let none = why(&config, Choice::Slowest);
    assert!(matches!(none, Err(WhyError::NothingMeasured)), "{none:?}");

    config.hosts.prepost = 1;
    config.hosts.send_buffers = 1;
    config.run.until = Time::from_microseconds(5);
    config.traffic.stop = config.run.until;
    config.run.drain = false;
    let until = |number| match why(&config, Choice::Message(number))
        .expect("explained")
        .fate
    {
        Fate::UnderWay { has_no_buffer, .. } => has_no_buffer,
        fate => panic!("{fate:?}"),
    };
    assert!(!until(0), "moving");
    assert!(until(3), "blocked behind the first of its host");
    let beyond = why(&config, Choice::Message(1_000));
    let posted = run(&config).messages.posted;
    assert!(
        matches!(beyond, Err(WhyError::NoSuchMessage { number: 1_000, posted: p }) if p == posted),
        "{beyond:?}"
    );
}

#[test]
fn quantiles_and_numbers_are_those_of_the_message_table() {
    let topology = Topology::torus(&[4, 4], 1, Ports(8)).expect("a torus");
    let mut config = scenario(topology, ideal_host(), Pattern::Uniform);
    let interval = Interval::exponential(1e8).expect("a mean");
    config.traffic.arrivals = Arrivals::Open(interval);
    config.traffic.stop = Time::from_milliseconds(3);
    config.run.until = config.traffic.stop;
    config.run.warmup = Time::from_milliseconds(1);
    config.run.message_rows_max = 100_000;
    let mut rows = run(&config).message_rows;
    rows.retain(|row| row.posted >= config.run.warmup);
    rows.sort_by_key(|row| (row.latency, row.message));
    for (quantile, rank) in [(0.0, 1), (0.5, rows.len().div_ceil(2)), (1.0, rows.len())] {
        let row = rows[rank - 1];
        let explanation = why(&config, Choice::Quantile(quantile)).expect("explained");
        assert_eq!(explanation.message.number, row.message, "{quantile}");
        assert_eq!(explanation.posted, row.posted);
        assert_eq!(explanation.messages_measured, rows.len() as u64);
        let Fate::Delivered(account) = &explanation.fate else {
            panic!("{:?}", explanation.fate);
        };
        assert_eq!(Some(account.latency), row.latency);
        assert_eq!(account.way.queued, row.queued);
    }
    let slowest = rows
        .iter()
        .rev()
        .take_while(|row| row.latency == rows[rows.len() - 1].latency);
    let first = slowest.map(|row| row.message).min();
    let explanation = why(&config, Choice::Slowest).expect("explained");
    assert_eq!(Some(explanation.message.number), first);
}

/// As [`at_once`], in frames of 500 bytes without headers: two a message, 4 us each.
fn in_frames(pairs: &[(u32, u32)]) -> ClusterConfig {
    let mut config = at_once(ideal_host(), pairs);
    config.links.sharing = Sharing::Packets;
    config.links.frame.payload_bytes = 500;
    config.links.frame.header_bytes = 0;
    config
}

fn queue_of(account: &Account, place: usize) -> (Option<Time>, (u32, u32)) {
    let queue = account.way.places[place].queue.expect("a queue");
    (account.way.places[place].lost, (queue.frames, queue.marked))
}

#[test]
fn the_queue_is_charged_where_the_last_frame_waited() {
    // Frames of the two senders take turns on the link to host 1, the first sender's first: its
    // second frame waits for one of the other, and the other's last one for two frames of it.
    let config = in_frames(&[(0, 1), (2, 1), (3, 4)]);
    for (message, waited) in [(0, 4_000), (1, 8_000), (2, 0)] {
        let account = account(&config, Choice::Message(message));
        let name = format!("message {message}");
        assert_eq!(account.way.queued, nanoseconds(waited), "{name}");
        assert_eq!(queue_of(&account, 0), (Some(Time::ZERO), (2, 0)), "{name}");
        let down = (Some(nanoseconds(waited)), (2, 0));
        assert_eq!(queue_of(&account, 1), down, "{name}");
        assert_eq!(account.way.rest_picoseconds, Some(0), "{name}");
    }
}

#[test]
fn a_turn_that_others_of_its_host_have_is_charged_to_its_link() {
    // Host 0 sends to two others at once: a frame of each in turn.
    let mut config = in_frames(&[(0, 1)]);
    at_list(&mut config, &[(0, 1, 1_000), (0, 2, 1_000)]);
    let account = account(&config, Choice::Message(0));
    let [up, down] = &account.way.places[..] else {
        panic!("{:?}", account.way);
    };
    assert_eq!(account.way.queued, nanoseconds(4_000));
    assert_eq!(
        (up.lost, down.lost),
        (Some(nanoseconds(4_000)), Some(Time::ZERO))
    );
    assert_eq!(account.way.rest_picoseconds, Some(0));
}

/// At the beginning a message of so many bytes goes from one host to another.
fn at_list(config: &mut ClusterConfig, messages: &[(u32, u32, u32)]) {
    let message = |&(source, target, bytes): &(u32, u32, u32)| ListedMessage {
        time: Time::ZERO,
        source,
        target,
        bytes,
        operation: MessageOperation::Send,
    };
    let messages: Vec<_> = messages.iter().map(message).collect();
    let hosts = config.topology.host_count();
    let list = MessageList::new(&messages, hosts, 1).expect("a list");
    config.traffic = TrafficConfig::listed(Arc::new(list), Time::ZERO, config.run.until);
}

/// Three hosts send 8,000 bytes each, in frames of 500, to a fourth.
fn incast(buffers: Buffers) -> ClusterConfig {
    let mut config = in_frames(&[(0, 1), (2, 1), (3, 1)]);
    config.traffic.size = SizeDistribution::constant(8_000);
    config.links.buffers = buffers;
    config
}

/// The message of the three that came last.
fn last_of(config: &ClusterConfig) -> Account {
    let accounts = (0..3).map(|number| account(config, Choice::Message(number)));
    let last = accounts
        .max_by_key(|account| account.latency)
        .expect("one of three");
    let rest = last.way.rest_picoseconds.expect("is known");
    assert!(rest <= 0, "{:?}", last.way);
    last
}

#[test]
fn marks_pauses_and_trimmed_frames_are_told() {
    // Messages so long that their senders are told in time, and slowed down until the queue is
    // empty.
    let mut slowed = incast(Buffers {
        marking: Some(Marking {
            low_bytes: 0,
            high_bytes: 1,
            probability: 1.0,
            control: CongestionControl::Dcqcn,
        }),
        ..Buffers::default()
    });
    slowed.traffic.size = SizeDistribution::constant(200_000);
    let marked = last_of(&slowed);
    let down = marked.way.places[1].queue.expect("a queue");
    assert_eq!((down.frames, down.trimmed), (400, 0));
    assert!((1..400).contains(&down.marked), "{down:?}");
    let frames = marked.way.beside.expect("of frames");
    assert!(frames.held_back > Time::ZERO, "{:?}", marked.way);

    // A fourth message, to a host that nobody else sends to, shares a link that pauses.
    let mut config = incast(Buffers {
        bytes_max: Some(6_000),
        full: WhenFull::Pause {
            headroom_bytes: None,
        },
        ..Buffers::default()
    });
    let messages = [(0, 1), (2, 1), (3, 1), (0, 4)];
    at_list(
        &mut config,
        &messages.map(|(source, target)| (source, target, 8_000)),
    );
    let paused = account(&config, Choice::Message(3));
    let [up, down] = &paused.way.places[..] else {
        panic!("{:?}", paused.way);
    };
    let queue = up.queue.expect("a queue");
    assert!(queue.paused > Time::ZERO, "{:?}", paused.way);
    assert!(Some(queue.paused) < up.lost, "{:?}", paused.way);
    assert_eq!(down.lost, Some(Time::ZERO));
    assert_eq!(paused.way.rest_picoseconds, Some(0));

    let trimmed = last_of(&incast(Buffers {
        bytes_max: Some(2_000),
        full: WhenFull::Trim,
        ..Buffers::default()
    }));
    let down = trimmed.way.places[1].queue.expect("a queue");
    let frames = trimmed.way.beside.expect("of frames");
    assert!(down.trimmed > 0, "{:?}", trimmed.way);
    // Each frame that was trimmed came twice.
    assert_eq!(down.frames, 16 + down.trimmed);
    assert!(frames.sent_again > Time::ZERO, "{frames:?}");
}

#[test]
fn queues_are_charged_with_what_those_before_them_had_not_taken() {
    for arrival in [Arrival::Free, Arrival::Limits] {
        // The first message has half of its host's link, and a third of that to host 1.
        let mut config = at_once(ideal_host(), &[(0, 1)]);
        (config.links.sharing, config.links.arrival) = (Sharing::Queues, arrival);
        let messages = [(0, 1), (0, 2), (3, 1), (4, 1)];
        at_list(
            &mut config,
            &messages.map(|(source, target)| (source, target, 1_000)),
        );
        let account = account(&config, Choice::Message(0));
        let [up, down] = &account.way.places[..] else {
            panic!("{:?}", account.way);
        };
        assert_eq!(account.way.queued, nanoseconds(16_000), "{arrival:?}");
        assert_eq!(up.lost, Some(nanoseconds(8_000)), "{arrival:?}");
        assert_eq!(down.lost, Some(nanoseconds(8_000)), "{arrival:?}");
        assert_eq!((up.messages, down.messages), (1, 2), "{arrival:?}");
        assert_eq!(account.way.rest_picoseconds, Some(0), "{arrival:?}");
    }
}

/// Packets of 500 bytes, of which each buffer holds two, from three hosts to one; and one message
/// to a host that nobody else sends to, over a link that waits for credits.
fn behind_full_buffers() -> ClusterConfig {
    let mut config = in_frames(&[(0, 1)]);
    config.links.sharing = Sharing::Credits;
    config.links.credits.flit_bytes = 10;
    config.links.credits.buffer_bytes = Some(1_000);
    let messages = [(0, 1), (2, 1), (3, 1), (0, 4)];
    at_list(
        &mut config,
        &messages.map(|(source, target)| (source, target, 8_000)),
    );
    config
}

#[test]
fn a_link_without_credits_is_charged_where_the_packets_waited() {
    let config = behind_full_buffers();
    let blocked = account(&config, Choice::Message(3));
    let [up, down] = &blocked.way.places[..] else {
        panic!("{:?}", blocked.way);
    };
    let without = up.queue.expect("a queue").paused;
    assert!(without > Time::ZERO, "{:?}", blocked.way);
    // For a part of the time its host sent packets of the other message.
    assert!(Some(without) < up.lost, "{:?}", blocked.way);
    // In the switch it is behind packets of that one, though its own link is free.
    assert!(down.lost > Some(Time::ZERO), "{:?}", blocked.way);
    assert_eq!(down.queue.expect("a queue").paused, Time::ZERO);
    assert_eq!(blocked.way.rest_picoseconds, Some(0), "{:?}", blocked.way);

    // With as much room as it likes no link waits for credits. It comes no sooner: packets of the
    // other message leave the switch as slowly as before, and now it waits behind them there.
    let mut config = config;
    config.links.credits.buffer_bytes = Some(1_000_000);
    let free = account(&config, Choice::Message(3));
    let [first, second] = &free.way.places[..] else {
        panic!("{:?}", free.way);
    };
    assert_eq!(free.way.queued, blocked.way.queued, "{:?}", free.way);
    assert_eq!(first.queue.expect("a queue").paused, Time::ZERO);
    assert!(first.lost < up.lost, "{:?}", free.way);
    assert!(second.lost > down.lost, "{:?}", free.way);
    assert_eq!(free.way.rest_picoseconds, Some(0), "{:?}", free.way);
}

#[test]
fn a_message_waits_for_those_of_its_flow_before_it() {
    // Frames of the first message of host 0 are trimmed; the second one is so short that it is
    // there before they come again.
    let mut config = incast(Buffers {
        bytes_max: Some(2_000),
        full: WhenFull::Trim,
        ..Buffers::default()
    });
    for host in config.host.values_mut() {
        nic(host).moving_per_vi = u32::MAX;
    }
    set_propagation(&mut config, Time::from_microseconds(100));
    let messages = [(0, 1, 8_000), (2, 1, 8_000), (3, 1, 8_000), (0, 1, 100)];
    at_list(&mut config, &messages);
    let account = account(&config, Choice::Message(3));
    let frames = account.way.beside.expect("of frames");
    assert!(frames.in_order > Time::ZERO, "{:?}", account.way);
    assert!(account.way.rest_picoseconds <= Some(0), "{:?}", account.way);
}
