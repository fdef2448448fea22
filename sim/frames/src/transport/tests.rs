//! Random schedules: loss, copies, delays, partitions, refusals, recalls, reboots.

use std::collections::BTreeMap;

use super::ledger::{End, Ledger};
use super::messages::Place;
use super::*;
use crate::seeds;

#[derive(Clone, Copy, Debug)]
enum Event {
    Packet(Packet, Option<u32>),
    Answer(Answer),
    /// The interface and its boot, whose packet is judged by now.
    Judged(Peer, u32, Ticket, u32),
    Send(Peer),
    Recall,
    Reboot(Peer),
    Partition(Peer, bool),
}

/// How bad the world is, drawn for each seed; rates in 256ths.
struct Weather {
    loss: u64,
    copies: u64,
    refusals: u64,
    refusals_for_good: u64,
    delay_max_us: u64,
    reboots: u64,
    partitions: u64,
    recalls: u64,
}

struct World {
    weather: Weather,
    interfaces: Vec<Transport>,
    boots: Vec<u32>,
    cut_off: Vec<bool>,
    config: Config,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    now: Time,
    random: Stream,
    ledger: Ledger,
    /// Of each message: its sender and name, and whether it is recalled.
    names: Vec<(Peer, MessageId)>,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = seeds::stream(seed, 0);
        let config = Config {
            peers: 2 + random.below(2) as u32,
            channels: 1 + random.below(3) as u8,
            routes: 1 + random.below(2) as u8,
            timeout_min: Time::from_microseconds(20 + random.below(200)),
            timeout_max: Time::from_milliseconds(2),
            refusal_delay: Time::from_microseconds(1 + random.below(100)),
            doublings_max: 4,
            transmissions_max: 1 + random.below(4) as u8,
            unbound_delay: Time::from_microseconds(1 + random.below(500)),
            unreachable_after: Time::from_milliseconds(2 + random.below(30)),
            incarnation_at_first: 0,
        };
        let mut rate = |bound| random.below(bound) * random.below(2);
        let weather = Weather {
            loss: rate(120),
            copies: rate(120),
            refusals: rate(200),
            refusals_for_good: rate(30),
            delay_max_us: 1 + rate(400),
            reboots: rate(3),
            partitions: rate(3),
            recalls: rate(60),
        };
        let interfaces = (0..config.peers)
            .map(|peer| {
                let random = seeds::stream(seed, 1 + u64::from(peer));
                Transport::new(Peer::new(peer), 1, config, random)
            })
            .collect();
        Self {
            weather,
            interfaces,
            boots: vec![1; config.peers as usize],
            cut_off: vec![false; config.peers as usize],
            config,
            events: BTreeMap::new(),
            sequence: 0,
            now: Time::ZERO,
            random,
            ledger: Ledger::default(),
            names: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn chance(&mut self, of_256: u64) -> bool {
        self.random.below(256) < of_256
    }

    fn schedule(&mut self, delay_us: u64, event: Event) {
        let delay = Time::from_nanoseconds(self.random.below(1 + delay_us * 1000));
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    fn carry(&mut self, from: Peer, to: Peer, event: Event) {
        let is_cut = self.cut_off[from.index()] || self.cut_off[to.index()];
        let copies = u64::from(self.chance(self.weather.copies));
        for _ in 0..=copies {
            if !is_cut && !self.chance(self.weather.loss) {
                self.schedule(self.weather.delay_max_us, event);
            }
        }
    }

    fn drain(&mut self, peer: Peer) {
        while let Some(output) = self.interfaces[peer.index()].poll() {
            self.ledger.hear(output);
            if let Output::Transmit { packet, token } = output {
                assert_eq!(packet.is_empty, token.is_none());
                self.carry(peer, packet.target, Event::Packet(packet, token));
            }
        }
        let transport = &self.interfaces[peer.index()];
        for state in &transport.peers {
            assert!(state.ready.first().is_none() || state.free_channels == 0);
        }
        for slot in 0..transport.messages.slots() {
            let is_off = matches!(
                transport.messages[slot].place,
                Place::Limbo(_) | Place::Waiting
            );
            let timer = timer_of_message(slot);
            assert!(
                is_off || transport.timers.deadline(timer).is_none(),
                "a timer is left"
            );
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send(from) => {
                let count = self.interfaces.len() as u64;
                // To itself too: an interface is its own peer.
                let to = Peer::new(self.random.below(count) as u32);
                let token = self.ledger.0.len() as u32;
                let had_channel = self.interfaces[from.index()].has_channel(to);
                let sent = self.interfaces[from.index()].send(to, token, self.now);
                assert_eq!(sent.is_ok(), had_channel);
                if let Ok(name) = sent {
                    self.ledger.begin();
                    self.names.push((from, name));
                    self.drain(from);
                }
            }
            Event::Recall => {
                let unfinished = self.ledger.unfinished();
                if unfinished.is_empty() {
                    return;
                }
                let place = self.random.below(unfinished.len() as u64) as usize;
                let (from, name) = self.names[unfinished[place]];
                self.interfaces[from.index()].recall(name, self.now);
                self.drain(from);
            }
            Event::Packet(packet, token) => {
                let at = packet.target;
                match self.interfaces[at.index()].handle_packet(packet, self.now) {
                    Received::Drop => {}
                    Received::Answer(answer) => {
                        self.carry(at, answer.target, Event::Answer(answer));
                    }
                    Received::Judge(ticket) => {
                        let token = token.expect("an empty packet is not judged");
                        let boot = self.boots[at.index()];
                        self.schedule(30, Event::Judged(at, boot, ticket, token));
                    }
                }
                self.drain(at);
            }
            Event::Judged(at, boot, ticket, token) => {
                if self.boots[at.index()] != boot {
                    return;
                }
                let verdict = if self.chance(self.weather.refusals) {
                    Err([Reason::NotResident, Reason::QueueFull][self.random.below(2) as usize])
                } else if self.chance(self.weather.refusals_for_good) {
                    Err(Reason::NoSuchEndpoint)
                } else {
                    self.ledger.write(token);
                    Ok(())
                };
                if let Some(answer) = self.interfaces[at.index()].judge(ticket, verdict) {
                    self.carry(at, answer.target, Event::Answer(answer));
                }
            }
            Event::Answer(answer) => {
                self.interfaces[answer.target.index()].handle_answer(answer, self.now);
                self.drain(answer.target);
            }
            Event::Reboot(peer) => {
                let boot = &mut self.boots[peer.index()];
                *boot += 1;
                let random = seeds::stream(self.sequence, u64::from(*boot));
                let new = Transport::new(peer, *boot, self.config, random);
                self.note_counts(peer);
                self.interfaces[peer.index()] = new;
                for (token, (from, _)) in self.names.iter().enumerate() {
                    if *from == peer {
                        self.ledger.forget(token as u32);
                    }
                }
            }
            Event::Partition(peer, is_cut) => self.cut_off[peer.index()] = is_cut,
        }
    }

    fn note_counts(&mut self, peer: Peer) {
        let counts = self.interfaces[peer.index()].counts();
        self.counts.unbound += counts.unbound;
        self.counts.timeouts += counts.timeouts;
        self.counts.refusals += counts.refusals;
        self.counts.returned += counts.returned;
        self.counts.repeated += counts.repeated;
        self.counts.stale += counts.stale;
    }

    /// Lets the next thing happen, an event or a time-out; returns whether there was one.
    fn step(&mut self) -> bool {
        let event = self.events.first_key_value().map(|(key, _)| key.0);
        let timeouts = self.interfaces.iter().map(Transport::poll_timeout);
        let timeout = timeouts.flatten().min();
        let is_event = match (event, timeout) {
            (None, None) => return false,
            (Some(event), Some(timeout)) => event <= timeout,
            (event, _) => event.is_some(),
        };
        if is_event {
            let (key, event) = self.events.pop_first().expect("there is one");
            self.now = self.now.max(key.0);
            self.happen(event);
        } else {
            self.now = self.now.max(timeout.expect("there is one"));
            for index in 0..self.interfaces.len() {
                self.interfaces[index].handle_timeout(self.now);
                self.drain(Peer::new(index as u32));
            }
        }
        true
    }

    fn run(&mut self) {
        let count = self.interfaces.len() as u64;
        for _ in 0..60 {
            let peer = Peer::new(self.random.below(count) as u32);
            self.schedule(8_000, Event::Send(peer));
            if self.chance(self.weather.recalls) {
                self.schedule(9_000, Event::Recall);
            }
            if self.chance(self.weather.reboots) {
                self.schedule(9_000, Event::Reboot(peer));
            }
            if self.chance(self.weather.partitions) {
                self.schedule(9_000, Event::Partition(peer, true));
                self.schedule(60_000, Event::Partition(peer, false));
            }
        }
        while self.now < Time::from_milliseconds(9) && self.step() {}
        // Good weather: what has not ended must end by itself.
        self.weather.loss = 0;
        self.weather.refusals = 0;
        self.cut_off.fill(false);
        for _ in 0..200_000 {
            if !self.step() {
                break;
            }
        }
        for peer in 0..self.interfaces.len() {
            self.note_counts(Peer::new(peer as u32));
            let transport = &self.interfaces[peer];
            assert_eq!(transport.poll_timeout(), None, "a timer is left");
            assert_eq!(transport.pending(), 0);
            let all = u32::MAX >> (32 - u32::from(self.config.channels));
            for state in &transport.peers {
                assert_eq!(state.free_channels, all, "a channel is lost");
            }
        }
        assert_eq!(self.ledger.unfinished(), [0; 0], "messages do not end");
    }
}

#[test]
fn every_message_ends_once_and_is_written_at_most_once() {
    seeds::each("transport::tests", 4000, |seed| World::new(seed).run());
}

#[test]
fn random_schedules_reach_every_corner() {
    // Goal: the seeds above are about something. Each kind of thing happens in the first 300.
    let mut counts = Counts::default();
    let mut ends = BTreeMap::new();
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.run();
        counts.unbound += world.counts.unbound;
        counts.timeouts += world.counts.timeouts;
        counts.refusals += world.counts.refusals;
        counts.repeated += world.counts.repeated;
        counts.stale += world.counts.stale;
        for record in &world.ledger.0 {
            *ends.entry((record.end, record.writes)).or_insert(0) += 1;
        }
    }
    let counted = [
        counts.unbound,
        counts.timeouts,
        counts.refusals,
        counts.repeated,
        counts.stale,
    ];
    assert!(counted.iter().all(|count| *count > 300), "{counted:?}");
    for end in [
        (End::Completed, 1),
        (End::Released, 0),
        (End::Forgotten, 0),
        (End::Forgotten, 1),
        (End::Returned(ReturnReason::Rebooted, true), 1),
        (End::Returned(ReturnReason::Unreachable, true), 1),
        (End::Returned(ReturnReason::Unreachable, true), 0),
        (End::Returned(ReturnReason::Unreachable, false), 0),
        (
            End::Returned(ReturnReason::Refused(Reason::NoSuchEndpoint), false),
            0,
        ),
    ] {
        let key = (Some(end.0), end.1);
        assert!(ends.contains_key(&key), "{end:?} never happened: {ends:?}");
    }
}

/// Two interfaces over a link that the test holds in its hands.
struct Pair {
    ends: [Transport; 2],
    now: Time,
}

impl Pair {
    fn new(config: Config) -> Self {
        let config = Config { peers: 2, ..config };
        let end = |me| Transport::new(Peer::new(me), 1, config, seeds::stream(9, u64::from(me)));
        Self {
            ends: [end(0), end(1)],
            now: Time::ZERO,
        }
    }

    fn send(&mut self, token: u32) -> Result<MessageId, Busy> {
        self.ends[0].send(Peer::new(1), token, self.now)
    }

    fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.ends[0].poll()).collect()
    }

    /// The packet of the last output.
    fn packet(&mut self) -> Packet {
        match self.outputs().pop() {
            Some(Output::Transmit { packet, .. }) => packet,
            output => panic!("no packet but {output:?}"),
        }
    }

    /// The receiver's answer, with this verdict if it has to judge.
    fn answer(&mut self, packet: Packet, verdict: Result<(), Reason>) -> Answer {
        match self.ends[1].handle_packet(packet, self.now) {
            Received::Answer(answer) => answer,
            Received::Judge(ticket) => self.ends[1].judge(ticket, verdict).unwrap(),
            Received::Drop => panic!("{packet:?} is dropped"),
        }
    }

    /// As [`Pair::answer`], and the sender hears it.
    fn exchange(&mut self, packet: Packet, verdict: Result<(), Reason>) -> Vec<Output> {
        let answer = self.answer(packet, verdict);
        self.ends[0].handle_answer(answer, self.now);
        self.outputs()
    }

    /// Both know each other's incarnation.
    fn met(config: Config) -> Self {
        let mut pair = Self::new(config);
        pair.send(99).unwrap();
        let first = pair.packet();
        assert_eq!(first.target_incarnation, 0);
        let outputs = pair.exchange(first, Ok(()));
        let [Output::Transmit { packet, .. }] = outputs[..] else {
            panic!("it goes again with the incarnation that it learnt: {outputs:?}");
        };
        assert_eq!(packet.target_incarnation, 1);
        assert_ne!(packet.stamp, first.stamp);
        let outputs = pair.exchange(packet, Ok(()));
        assert_eq!(outputs[0], Output::Completed { token: 99 });
        pair
    }

    /// Lets time pass until a deadline of the sender is over. Being called early is harmless.
    fn time_out(&mut self) {
        let timeouts = self.ends[0].counts().timeouts;
        while !self.ends[0].has_output() && self.ends[0].counts().timeouts == timeouts {
            self.now = self.ends[0].poll_timeout().expect("a deadline");
            self.ends[0].handle_timeout(self.now);
        }
    }
}

#[test]
fn a_lost_answer_is_repeated_and_the_message_not_written_again() {
    let mut pair = Pair::met(Config::default());
    pair.send(1).unwrap();
    let first = pair.packet();
    let _lost = pair.answer(first, Ok(()));
    pair.time_out();
    let second = pair.packet();
    assert_eq!(second.sequence, first.sequence);
    assert_ne!(second.stamp, first.stamp);
    assert!(matches!(
        pair.ends[1].handle_packet(second, pair.now),
        Received::Answer(Answer {
            verdict: Verdict::Accepted,
            ..
        })
    ));
}

#[test]
fn a_message_taken_off_is_not_put_on_again_before_its_fate_is_known() {
    let config = Config {
        channels: 1,
        transmissions_max: 1,
        ..Config::default()
    };
    let mut pair = Pair::met(config);
    pair.send(1).unwrap();
    let first = pair.packet();
    // It arrives, and the answer is lost: the channel is for others.
    let _lost = pair.answer(first, Ok(()));
    pair.time_out();
    assert_eq!(pair.outputs(), [Output::ChannelFree(Line::new(0))]);
    pair.send(2).unwrap();
    let second = pair.packet();
    assert_eq!(second.sequence, first.sequence + 1);
    // The outcome of the second says that the first was written.
    let outputs = pair.exchange(second, Err(Reason::QueueFull));
    assert_eq!(outputs[0], Output::Completed { token: 1 });
}

#[test]
fn a_late_copy_of_a_message_that_was_taken_off_is_dropped() {
    let config = Config {
        channels: 1,
        transmissions_max: 1,
        ..Config::default()
    };
    let mut pair = Pair::met(config);
    pair.send(1).unwrap();
    let delayed = pair.packet();
    pair.time_out();
    let _ = pair.outputs();
    pair.send(2).unwrap();
    let second = pair.packet();
    let _ = pair.exchange(second, Ok(()));
    assert_eq!(
        pair.ends[1].handle_packet(delayed, pair.now),
        Received::Drop
    );
    // So the first may go again, under a new sequence.
    pair.time_out();
    let again = pair.packet();
    assert_eq!(again.sequence, second.sequence + 1);
    let outputs = pair.exchange(again, Ok(()));
    assert_eq!(outputs[0], Output::Completed { token: 1 });
}

#[test]
fn a_recalled_message_is_released_though_the_peer_refuses_it_for_ever() {
    // Goal: two endpoints that have to leave their frames, each with a message for one that gets a
    // frame only after: what waits for acceptance alone never ends.
    let mut pair = Pair::met(Config::default());
    let name = pair.send(1).unwrap();
    let packet = pair.packet();
    let _ = pair.exchange(packet, Err(Reason::NotResident));
    pair.ends[0].recall(name, pair.now);
    let empty = pair.packet();
    assert!(empty.is_empty && empty.channel == packet.channel);
    // A copy that arrives before the empty packet is judged, and refused; after it, dropped.
    let outputs = pair.exchange(empty, Ok(()));
    assert_eq!(outputs[0], Output::Released { token: 1 });
    assert_eq!(pair.ends[1].handle_packet(packet, pair.now), Received::Drop);
}

#[test]
fn a_refusal_of_an_earlier_transmission_is_not_taken_for_one_of_the_last() {
    let mut pair = Pair::met(Config::default());
    pair.send(1).unwrap();
    let first = pair.packet();
    let late = pair.answer(first, Err(Reason::QueueFull));
    pair.time_out();
    let _second = pair.packet();
    let overdue_at = pair.ends[0].poll_timeout();
    pair.ends[0].handle_answer(late, pair.now);
    assert_eq!(pair.ends[0].poll_timeout(), overdue_at);
}

#[test]
fn a_late_answer_of_an_earlier_boot_undoes_nothing() {
    let mut pair = Pair::met(Config::default());
    pair.send(1).unwrap();
    let packet = pair.packet();
    let late = pair.answer(packet, Err(Reason::QueueFull));
    let config = Config {
        peers: 2,
        ..Config::default()
    };
    pair.ends[1] = Transport::new(Peer::new(1), 2, config, seeds::stream(9, 2));
    let outputs = pair.exchange(packet, Ok(()));
    let reason = ReturnReason::Rebooted;
    assert_eq!(
        outputs[0],
        Output::Returned {
            token: 1,
            reason,
            may_have_arrived: true
        }
    );
    pair.send(2).unwrap();
    let packet = pair.packet();
    assert_eq!(packet.target_incarnation, 2);
    pair.ends[0].handle_answer(late, pair.now);
    assert_eq!(pair.outputs(), []);
    assert_eq!(pair.ends[0].incarnation_of(Peer::new(1)), 2);
    let outputs = pair.exchange(packet, Ok(()));
    assert_eq!(outputs[0], Output::Completed { token: 2 });
}

#[test]
fn silence_returns_messages_and_back_off_grows() {
    let mut pair = Pair::met(Config::default());
    pair.send(1).unwrap();
    let mut gaps = Vec::new();
    let mut last = pair.now;
    let returned = loop {
        let outputs = pair.outputs();
        if let Some(output) = outputs
            .iter()
            .find(|output| matches!(output, Output::Returned { .. }))
        {
            break *output;
        }
        if outputs
            .iter()
            .any(|output| matches!(output, Output::Transmit { .. }))
        {
            gaps.push(pair.now - last);
            last = pair.now;
        }
        pair.time_out();
    };
    assert_eq!(
        returned,
        Output::Returned {
            token: 1,
            reason: ReturnReason::Unreachable,
            may_have_arrived: true
        }
    );
    assert!(pair.now >= Config::default().unreachable_after);
    assert!(gaps[5] > Time::from_milliseconds(8), "{gaps:?}");
}

#[test]
fn answers_are_overdue_by_what_round_trips_take() {
    let mut pair = Pair::met(Config::default());
    for token in 0..200 {
        pair.send(token).unwrap();
        let packet = pair.packet();
        pair.now += Time::from_milliseconds(3);
        let _ = pair.exchange(packet, Ok(()));
    }
    let mean = pair.ends[0].round_trip(Peer::new(1)).unwrap();
    assert!(mean > Time::from_microseconds(2_900) && mean < Time::from_microseconds(3_100));
    pair.send(1).unwrap();
    let _ = pair.packet();
    let sent_at = pair.now;
    pair.time_out();
    let overdue_after = pair.now - sent_at;
    assert!(overdue_after >= mean && overdue_after < mean + Time::from_milliseconds(1));
}

#[test]
fn a_packet_that_leaves_later_is_overdue_later_and_measures_from_then() {
    let mut pair = Pair::met(Config::default());
    let (wait, way) = (Time::from_milliseconds(4), Time::from_microseconds(300));
    for token in 0..20 {
        pair.send(token).unwrap();
        let mut packet = pair.packet();
        let timeout = pair.ends[0].hold(&packet, pair.now);
        pair.now += wait;
        pair.ends[0].handle_timeout(pair.now);
        pair.ends[0].leaves(&mut packet, pair.now + wait, timeout, pair.now);
        pair.now += wait + way;
        pair.ends[0].handle_timeout(pair.now);
        let outputs = pair.exchange(packet, Ok(()));
        assert_eq!(outputs[0], Output::Completed { token });
    }
    assert_eq!(pair.ends[0].counts().timeouts, 0);
    let mean = pair.ends[0].round_trip(Peer::new(1)).unwrap();
    assert!(mean < way + way, "{mean}");
    // What is lost is sent again, so much later.
    pair.send(20).unwrap();
    let mut packet = pair.packet();
    let left_at = pair.now + wait;
    let timeout = pair.ends[0].hold(&packet, pair.now);
    pair.ends[0].leaves(&mut packet, left_at, timeout, pair.now);
    pair.time_out();
    let overdue_after = pair.now.saturating_sub(left_at);
    let shortest = Config::default().timeout_min;
    assert!(
        (shortest..shortest + shortest).contains(&overdue_after),
        "{overdue_after}"
    );
    let mut again = pair.packet();
    assert_eq!(again.sequence, packet.sequence);
    assert_ne!(again.stamp, packet.stamp);
    // The first is answered after all, before its copy leaves.
    let timeout = pair.ends[0].hold(&again, pair.now);
    let outputs = pair.exchange(packet, Ok(()));
    assert_eq!(outputs[0], Output::Completed { token: 20 });
    pair.ends[0].leaves(&mut again, pair.now + wait, timeout, pair.now);
    assert_eq!(pair.ends[0].poll_timeout(), None);
}

#[test]
fn peers_whose_incarnation_is_given_need_not_be_told() {
    let mut pair = Pair::new(Config {
        incarnation_at_first: 1,
        ..Config::default()
    });
    pair.send(1).unwrap();
    let packet = pair.packet();
    let outputs = pair.exchange(packet, Ok(()));
    assert_eq!(outputs[0], Output::Completed { token: 1 });
    assert_eq!(pair.ends[0].counts().retransmissions, 0);
}

#[test]
fn a_round_trip_longer_than_the_first_time_out_is_learnt() {
    let mut pair = Pair::met(Config::default());
    let round_trip = Time::from_milliseconds(3);
    for token in 0..40 {
        pair.send(token).unwrap();
        let first = pair.packet();
        let back_at = pair.now + round_trip;
        while pair.ends[0].poll_timeout().is_some_and(|at| at < back_at) {
            pair.now = pair.ends[0].poll_timeout().unwrap();
            pair.ends[0].handle_timeout(pair.now);
        }
        pair.now = back_at;
        let _ = pair.exchange(first, Ok(()));
    }
    let early = pair.ends[0].counts().timeouts;
    assert!(
        early < 20,
        "{early} time-outs of 40 messages that were not lost"
    );
}

#[test]
fn numbers_that_do_not_exist_are_dropped_and_counted() {
    let mut pair = Pair::met(Config::default());
    pair.send(1).unwrap();
    let packet = pair.packet();
    for wrong in [
        Packet {
            channel: 8,
            ..packet
        },
        Packet {
            source: Peer::new(2),
            ..packet
        },
        Packet {
            target: Peer::new(0),
            ..packet
        },
        Packet {
            source_incarnation: 0,
            ..packet
        },
    ] {
        assert_eq!(pair.ends[1].handle_packet(wrong, pair.now), Received::Drop);
    }
    assert_eq!(pair.ends[1].counts().malformed, 4);
    let answer = pair.answer(packet, Ok(()));
    for wrong in [
        Answer {
            channel: 255,
            ..answer
        },
        Answer {
            source: Peer::new(u32::MAX),
            ..answer
        },
        Answer {
            target: Peer::new(1),
            ..answer
        },
    ] {
        pair.ends[0].handle_answer(wrong, pair.now);
    }
    assert_eq!(pair.ends[0].counts().malformed, 3);
    assert_eq!(pair.outputs(), []);
}
