//! Every schedule of a small world: two interfaces, one or two channels, two messages, and as many
//! losses, copies, time-outs, refusals, recalls, reboots and partings as a budget allows. Breadth
//! first, so that the first schedule that breaks something is a shortest one.
//!
//! Time stands still: a time-out may come at any moment, whatever the clock would say. What only
//! chooses a delay (round trips, back-off, draws) is no part of a state.

use std::collections::BTreeSet;

use super::ledger::Ledger;
use super::messages::Place;
use super::*;
use crate::seeds;

/// What is under way, of which any may be next.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    Packet(Packet, Option<u32>),
    Answer(Answer),
    /// A boot of an interface writes a message.
    Write(Peer, u32, Ticket, u32),
}

/// How much of what may still happen.
#[derive(Clone, Copy, Debug)]
struct Budget {
    losses: u8,
    copies: u8,
    timeouts: u8,
    refusals: u8,
    refusals_for_good: u8,
    recalls: u8,
    sender_reboots: u8,
    receiver_reboots: u8,
    partings: u8,
}

const NOTHING: Budget = Budget {
    losses: 0,
    copies: 0,
    timeouts: 0,
    refusals: 0,
    refusals_for_good: 0,
    recalls: 0,
    sender_reboots: 0,
    receiver_reboots: 0,
    partings: 0,
};

impl Budget {
    /// For the long form: one more of what the network does.
    fn more(mut self) -> Self {
        for count in [&mut self.losses, &mut self.copies, &mut self.timeouts] {
            *count += u8::from(*count > 0);
        }
        self
    }
}

#[derive(Clone)]
struct World {
    ends: [Transport; 2],
    under_way: Vec<Item>,
    ledger: Ledger,
    /// Messages to be sent, as sender and token.
    unsent: Vec<(u8, u32)>,
    names: [Option<(u8, MessageId)>; 2],
    budget: Budget,
    config: Config,
    trail: Vec<String>,
}

/// An interface that knows the number of the other one.
fn boot(me: u32, incarnation: u32, config: Config, random: Stream) -> Transport {
    let mut transport = Transport::new(Peer::new(me), incarnation, config, random);
    transport.line(Peer::new(1 - me));
    transport
}

impl World {
    /// Messages from these interfaces, each to the other.
    fn new(channels: u8, senders: [u8; 2], budget: Budget) -> Self {
        let config = Config {
            peers: 2,
            channels,
            transmissions_max: 1,
            ..Config::default()
        };
        let end = |me| boot(me, 1, config, seeds::stream(0, 0));
        let mut ledger = Ledger::default();
        let unsent = senders.map(|sender| (sender, ledger.begin())).to_vec();
        let mut world = Self {
            ends: [end(0), end(1)],
            under_way: Vec::new(),
            ledger,
            unsent,
            names: [None; 2],
            budget,
            config,
            trail: Vec::new(),
        };
        world.drain();
        world
    }

    /// Takes all outputs, and sends what finds a channel.
    fn drain(&mut self) {
        loop {
            for end in &mut self.ends {
                while let Some(output) = end.poll() {
                    self.ledger.hear(output);
                    if let Output::Transmit { packet, token } = output {
                        self.under_way.push(Item::Packet(packet, token));
                    }
                }
            }
            let sendable = self.unsent.iter().position(|(from, _)| {
                let to = Peer::new(u32::from(1 - *from));
                self.ends[usize::from(*from)].has_channel(to)
            });
            let Some(place) = sendable else { break };
            let (from, token) = self.unsent.remove(place);
            let to = Peer::new(u32::from(1 - from));
            let name = self.ends[usize::from(from)].send(to, token, Time::ZERO);
            self.names[token as usize] = name.ok().map(|name| (from, name));
        }
        self.under_way.sort_unstable();
    }

    /// The worlds that one more happening leads to.
    fn successors(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for (place, item) in self.under_way.iter().enumerate() {
            if place > 0 && self.under_way[place - 1] == *item {
                continue;
            }
            self.deliveries(place, *item, &mut next);
        }
        for end in 0..2 {
            self.timeouts(end, &mut next);
            let reboots = if end == 0 {
                self.budget.sender_reboots
            } else {
                self.budget.receiver_reboots
            };
            if reboots > 0 {
                next.push(self.branch(format!("{end} reboots"), |world| world.reboot(end)));
            }
            let has_pending = self.ends[end].pending() > 0;
            if self.budget.partings > 0 && has_pending {
                next.push(
                    self.branch(format!("{end} hears nothing for long"), |world| {
                        world.budget.partings -= 1;
                        world.ends[end].give_up(Line::new(0));
                    }),
                );
            }
        }
        for (token, name) in self.names.iter().enumerate() {
            let Some((from, name)) = *name else { continue };
            if self.budget.recalls > 0 && self.ledger.0[token].end.is_none() {
                next.push(self.branch(format!("{token} is recalled"), |world| {
                    world.budget.recalls -= 1;
                    world.ends[usize::from(from)].recall(name, Time::ZERO);
                }));
            }
        }
        next
    }

    fn branch(&self, what: String, change: impl FnOnce(&mut Self)) -> Self {
        let mut world = self.clone();
        world.trail.push(what);
        let guard = Shown(core::mem::take(&mut world.trail));
        change(&mut world);
        world.drain();
        world.trail = guard.keep();
        world
    }

    fn deliveries(&self, place: usize, item: Item, next: &mut Vec<Self>) {
        if let Item::Write(..) = item {
            let mut verdicts = vec![Ok(())];
            if self.budget.refusals > 0 {
                verdicts.push(Err(Reason::QueueFull));
            }
            if self.budget.refusals_for_good > 0 {
                verdicts.push(Err(Reason::NoSuchEndpoint));
            }
            for verdict in verdicts {
                next.push(self.branch(format!("{verdict:?} of {item:?}"), |world| {
                    match verdict {
                        Ok(()) => {}
                        Err(Reason::QueueFull) => world.budget.refusals -= 1,
                        Err(_) => world.budget.refusals_for_good -= 1,
                    }
                    world.under_way.remove(place);
                    world.deliver(item, verdict);
                }));
            }
            return;
        }
        next.push(self.branch(format!("arrives: {item:?}"), |world| {
            world.under_way.remove(place);
            world.deliver(item, Ok(()));
        }));
        if self.budget.losses > 0 {
            next.push(self.branch(format!("lost: {item:?}"), |world| {
                world.budget.losses -= 1;
                world.under_way.remove(place);
            }));
        }
        if self.budget.copies > 0 {
            next.push(self.branch(format!("a copy arrives: {item:?}"), |world| {
                world.budget.copies -= 1;
                world.deliver(item, Ok(()));
            }));
        }
    }

    fn deliver(&mut self, item: Item, verdict: Result<(), Reason>) {
        match item {
            Item::Packet(packet, token) => {
                let end = &mut self.ends[packet.target.index()];
                match end.handle_packet(packet, Time::ZERO) {
                    Received::Drop => {}
                    Received::Answer(answer) => self.under_way.push(Item::Answer(answer)),
                    Received::Judge(ticket) => {
                        let boot = end.incarnation;
                        let token = token.expect("an empty packet is not judged");
                        let write = Item::Write(packet.target, boot, ticket, token);
                        self.under_way.push(write);
                    }
                }
            }
            Item::Answer(answer) => {
                self.ends[answer.target.index()].handle_answer(answer, Time::ZERO);
            }
            Item::Write(at, boot, ticket, token) => {
                let end = &mut self.ends[at.index()];
                if end.incarnation != boot {
                    return;
                }
                if verdict.is_ok() {
                    self.ledger.write(token);
                }
                let answer = end.judge(ticket, verdict);
                self.under_way.extend(answer.map(Item::Answer));
            }
        }
    }

    fn timeouts(&self, end: usize, next: &mut Vec<Self>) {
        if self.budget.timeouts == 0 {
            return;
        }
        for key in self.set_timers(end) {
            next.push(self.branch(format!("{end} times out: {key}"), |world| {
                world.budget.timeouts -= 1;
                world.time_out(end, key);
            }));
        }
    }

    fn set_timers(&self, end: usize) -> Vec<u32> {
        let transport = &self.ends[end];
        let most = transport
            .messages
            .slots()
            .max(transport.channels.len() as u32);
        let keys = 0..2 * most;
        keys.filter(|key| transport.timers.deadline(*key).is_some())
            .collect()
    }

    fn time_out(&mut self, end: usize, key: u32) {
        self.ends[end].timers.clear(key);
        self.ends[end].expire(key, Time::ZERO);
    }

    fn reboot(&mut self, end: usize) {
        let reboots = if end == 0 {
            &mut self.budget.sender_reboots
        } else {
            &mut self.budget.receiver_reboots
        };
        *reboots -= 1;
        let incarnation = self.ends[end].incarnation + 1;
        let random = seeds::stream(0, 0);
        self.ends[end] = boot(end as u32, incarnation, self.config, random);
        for (token, name) in self.names.iter_mut().enumerate() {
            if name.is_some_and(|(from, _)| usize::from(from) == end) {
                self.ledger.forget(token as u32);
                *name = None;
            }
        }
    }

    /// In good weather all ends by itself: checks it from here.
    fn check_it_ends(&self) {
        let mut world = self.clone();
        let guard = Shown(core::mem::take(&mut world.trail));
        for _ in 0..100 {
            world.drain();
            if let Some(item) = world.under_way.pop() {
                world.deliver(item, Ok(()));
                continue;
            }
            let timers = [0, 1].map(|end| world.set_timers(end));
            if timers.iter().all(Vec::is_empty) {
                break;
            }
            for (end, keys) in timers.into_iter().enumerate() {
                for key in keys {
                    if world.ends[end].timers.deadline(key).is_some() {
                        world.time_out(end, key);
                    }
                }
            }
        }
        assert_eq!(world.ledger.unfinished(), [0; 0], "messages do not end");
        for end in &world.ends {
            assert_eq!(end.pending(), 0);
        }
        let _ = guard.keep();
    }

    /// 128 bits of all that may change what happens later.
    fn digest(&self) -> u128 {
        let mut digest = Digest(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        for end in &self.ends {
            digest.add(end.incarnation);
            for channel in &end.channels {
                digest.add(channel.sequence);
                digest.add(channel.bound);
                digest.add(channel.limbo);
                digest.add(channel.stamp);
                digest.add(channel.transmissions.min(2));
                digest.add(u32::from(channel.awaits_answer));
            }
            for slot in 0..end.messages.slots() {
                let message = end.messages[slot];
                let place = match message.place {
                    Place::Free => 0,
                    Place::Bound(key) => 0x100 + key,
                    Place::Limbo(key) => 0x200 + key,
                    Place::Waiting => 0x300,
                    Place::Ready => 0x400,
                };
                digest.add(place);
                if message.place != Place::Free {
                    digest.add(message.token);
                    digest.add(u32::from(message.is_due) * 2 + u32::from(message.is_recalled));
                }
            }
            digest.add(0xffff);
            digest.text(&format!("{:?}", end.incoming));
            for peer in &end.peers {
                digest.add(peer.incarnation);
                digest.add(peer.free_channels);
                digest.text(&format!("{:?}{:?}", peer.ready, peer.waiting));
            }
        }
        for end in 0..2 {
            for key in self.set_timers(end) {
                digest.add(key);
            }
            digest.add(0xfffe);
        }
        digest.text(&format!(
            "{:?}{:?}{:?}{:?}",
            self.under_way, self.ledger, self.unsent, self.budget
        ));
        digest.0
    }
}

struct Digest(u128);

impl Digest {
    /// FNV-1a of 128 bits.
    fn add(&mut self, word: u32) {
        for byte in word.to_le_bytes() {
            self.byte(byte);
        }
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
}

/// Shows how a world came about when something breaks in it.
struct Shown(Vec<String>);

impl Shown {
    fn keep(mut self) -> Vec<String> {
        core::mem::take(&mut self.0)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            println!("the shortest way here:\n  {}", self.0.join("\n  "));
        }
    }
}

/// Visits every world; says how many there are.
fn explore(channels: u8, senders: [u8; 2], budget: Budget) {
    let is_long = seeds::times() > 1;
    let budget = if is_long { budget.more() } else { budget };
    let mut seen = BTreeSet::new();
    let mut worlds = vec![World::new(channels, senders, budget)];
    seen.insert(worlds[0].digest());
    while !worlds.is_empty() {
        let mut next = Vec::new();
        for world in worlds {
            for successor in world.successors() {
                let digest = successor.digest();
                if seen.insert(digest) {
                    if is_long || digest.is_multiple_of(4) {
                        successor.check_it_ends();
                    }
                    next.push(successor);
                }
            }
        }
        worlds = next;
    }
    println!("{} worlds with {budget:?}", seen.len());
    assert!(seen.len() > 500, "the budget allows next to nothing");
}

const ONE_WAY: [u8; 2] = [0, 0];
const BOTH_WAYS: [u8; 2] = [0, 1];

#[test]
fn no_loss_or_copy_breaks_one_channel() {
    let budget = Budget {
        timeouts: 3,
        losses: 1,
        copies: 1,
        ..NOTHING
    };
    explore(1, ONE_WAY, budget);
}

#[test]
fn no_refusal_or_recall_breaks_one_channel() {
    let budget = Budget {
        timeouts: 2,
        copies: 1,
        refusals: 1,
        recalls: 1,
        ..NOTHING
    };
    explore(1, ONE_WAY, budget);
}

#[test]
fn no_reboot_breaks_one_channel() {
    for budget in [
        Budget {
            timeouts: 2,
            copies: 1,
            receiver_reboots: 1,
            ..NOTHING
        },
        Budget {
            timeouts: 2,
            copies: 1,
            sender_reboots: 1,
            ..NOTHING
        },
    ] {
        explore(1, ONE_WAY, budget);
    }
}

#[test]
fn no_reboot_breaks_messages_that_cross() {
    let budget = Budget {
        timeouts: 1,
        copies: 1,
        receiver_reboots: 1,
        ..NOTHING
    };
    explore(1, BOTH_WAYS, budget);
}

#[test]
fn no_silence_or_return_breaks_one_channel() {
    let budget = Budget {
        timeouts: 2,
        copies: 1,
        refusals_for_good: 1,
        partings: 1,
        ..NOTHING
    };
    explore(1, ONE_WAY, budget);
}

#[test]
fn nothing_breaks_two_channels() {
    let budget = Budget {
        timeouts: 2,
        copies: 1,
        ..NOTHING
    };
    explore(2, ONE_WAY, budget);
}
