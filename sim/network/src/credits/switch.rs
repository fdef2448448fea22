//! A switch: which of its buffers goes on by which of its links.
//!
//! The allocator is separable and input first (Dally and Towles, 2004, chapter 19): each input that
//! is free puts one of its channels forward whose front may go on now, and each output takes one of
//! the inputs that ask for it. Both go round, and move on when a unit has gone; or the unit goes
//! first whose message began first. Whole packets are
//! matched until no more can go; flits once for each time that a flit takes.

use super::channel::{Link, NONE, Rank};
use super::settings::{Arbitration, FlowControl};
use super::{Credits, Room};
use crate::adapter::NEVER;

/// The links that end at a switch.
#[derive(Debug, Default)]
pub(super) struct Switch {
    inputs: Vec<u32>,
    /// For each channel of them a bit, which says whether its buffer has something.
    filled: Vec<u64>,
}

impl Switch {
    /// A link ends here: its port.
    pub(super) fn join(&mut self, link: u32) -> u32 {
        self.inputs.push(link);
        self.inputs.len() as u32 - 1
    }

    /// Each link has so many channels.
    pub(super) fn lay(&mut self, channels: u32) {
        let count = self.inputs.len() * channels as usize;
        self.filled = vec![0; count.div_ceil(64)];
    }

    /// A channel has something: its number among all that end here.
    #[inline]
    pub(super) fn note(&mut self, channel: u32) {
        self.filled[channel as usize / 64] |= 1 << (channel % 64);
    }

    #[inline]
    fn forget(&mut self, channel: u32) {
        self.filled[channel as usize / 64] &= !(1 << (channel % 64));
    }

    /// The next channel that has something, from one on.
    #[inline]
    fn next(&self, from: u32) -> Option<u32> {
        let mut place = from as usize / 64;
        let mut word = self.filled.get(place)? & (u64::MAX << (from % 64));
        while word == 0 {
            place += 1;
            word = *self.filled.get(place)?;
        }
        Some(place as u32 * 64 + word.trailing_zeros())
    }

    pub(super) fn state_bytes(&self) -> usize {
        size_of::<Self>()
            + self.inputs.capacity() * size_of::<u32>()
            + self.filled.capacity() * size_of::<u64>()
    }
}

/// What may go on by a channel.
enum Front {
    /// It may.
    May,
    /// Not before a time.
    Later(u64),
    /// Not before something else has happened.
    Waits,
}

impl Credits {
    /// A switch has something to do at a time.
    pub(super) fn work_switch(&mut self, number: u32, now: u64) {
        loop {
            self.ask(number, now);
            if self.asked.is_empty() {
                break;
            }
            let mut asked = core::mem::take(&mut self.asked);
            for link in asked.drain(..) {
                self.grant(number, link, now);
            }
            self.asked = asked;
            if self.settings.flow_control == FlowControl::Wormhole {
                break;
            }
        }
        let next = self.next_time(number, now);
        if next < NEVER {
            self.wake(number, next);
        }
    }

    /// Each input that is free asks for an output.
    fn ask(&mut self, number: u32, now: u64) {
        let channels = self.settings.channels;
        let mut from = 0;
        while let Some(first) = self.switches[number as usize].next(from) {
            let port = if channels == 1 {
                first
            } else {
                first / channels
            };
            let link = self.switches[number as usize].inputs[port as usize];
            let end = (port + 1) * channels;
            from = end;
            if self.links[link as usize].input_free_at > now {
                continue;
            }
            let turn = self.links[link as usize].turn_of_channel;
            let mut best: Option<(Rank, u32)> = None;
            let mut at = Some(first);
            while let Some(local) = at
                && local < end
            {
                let channel = link * channels + local - port * channels;
                let distance = behind(local - port * channels, turn, channels);
                let rank = self.rank(channel, distance);
                if best.is_none_or(|(least, _)| rank < least)
                    && let Front::May = self.front(link, channel, now)
                {
                    best = Some((rank, channel));
                }
                at = self.switches[number as usize].next(local + 1);
            }
            if let Some((_, channel)) = best {
                self.put_forward(number, port, channel);
            }
        }
    }

    /// An input asks for the output that the front of a channel goes on by.
    fn put_forward(&mut self, number: u32, port: u32, channel: u32) {
        let Some(unit) = self.channels[channel as usize].units.front() else {
            return;
        };
        let next_link = unit.next_link;
        let turn = self.links[next_link as usize].turn_of_port;
        let ports = self.switches[number as usize].inputs.len() as u32;
        let rank = self.rank(channel, behind(port, turn, ports));
        let output = &mut self.links[next_link as usize];
        match output.asked {
            None => self.asked.push(next_link),
            Some((least, _)) if least <= rank => return,
            Some(_) => {}
        }
        output.asked = Some((rank, channel));
    }

    /// What says whether the front of a channel goes before others, so far behind its turn.
    #[inline]
    fn rank(&self, channel: u32, distance: u32) -> Rank {
        let begun = match self.settings.arbitration {
            Arbitration::RoundRobin => 0,
            Arbitration::Age => {
                let front = self.channels[channel as usize].units.front();
                front.map_or(u64::MAX, |unit| {
                    self.passages[unit.passage as usize].parts.begun
                })
            }
        };
        (begun, distance)
    }

    /// An output takes the input whose turn it is.
    fn grant(&mut self, number: u32, output: u32, now: u64) {
        let Some((_, channel)) = self.links[output as usize].asked.take() else {
            return;
        };
        let channels = self.settings.channels;
        let its = &mut self.channels[channel as usize];
        let Some(unit) = its.units.pop_front() else {
            return;
        };
        let (is_empty, input) = (its.units.is_empty(), its.link);
        self.waiting -= 1;
        let passage = &self.passages[unit.passage as usize];
        let service = self.links[output as usize].service(passage.parts.bytes(unit.kind));
        let link = &mut self.links[input as usize];
        let (port, local) = (link.port, channel - input * channels);
        let read_at = now + service.div_ceil(u64::from(self.settings.speedup.max(1)));
        link.input_free_at = read_at;
        link.turn_of_channel = (local + 1) % channels;
        let switch = &mut self.switches[number as usize];
        if is_empty {
            switch.forget(port * channels + local);
        }
        self.links[output as usize].turn_of_port = (port + 1) % switch.inputs.len() as u32;
        self.give_back(channel, unit.credits, read_at);
        self.note_leaving(&unit);
        let carried = (unit.passage, unit.packet, unit.kind);
        self.leave(carried, unit.next_place, (now, service));
    }

    /// Whether the front of a channel may go on.
    #[inline]
    fn front(&mut self, link: u32, channel: u32, now: u64) -> Front {
        let Some(unit) = self.channels[channel as usize].units.front() else {
            return Front::Waits;
        };
        let mut unit = *unit;
        if unit.packet != NONE && (unit.next_place == 1 || self.chooses_links) {
            if unit.ready > now {
                return Front::Later(unit.ready);
            }
            unit = self.choose_way(channel, unit, now);
        }
        let input: &Link = &self.links[link as usize];
        let output = &self.links[unit.next_link as usize];
        let from = unit.ready.max(input.input_free_at).max(output.free_at);
        if from > now {
            return Front::Later(from);
        }
        let front = match self.room(unit.next_channel, unit.next_credits, unit.holder(), now) {
            Room::Now => return Front::May,
            Room::At(time) => Front::Later(time),
            Room::Unknown => Front::Waits,
        };
        if self.followed.is_some() {
            self.follow_want(unit.passage, unit.next_link, now);
        }
        front
    }

    /// When a switch is to be worked out next, as far as that is known.
    fn next_time(&mut self, number: u32, now: u64) -> u64 {
        let channels = self.settings.channels;
        let (mut next, mut from) = (NEVER, 0);
        while let Some(local) = self.switches[number as usize].next(from) {
            from = local + 1;
            let port = if channels == 1 {
                local
            } else {
                local / channels
            };
            let link = self.switches[number as usize].inputs[port as usize];
            let channel = link * channels + local - port * channels;
            next = next.min(match self.front(link, channel, now) {
                Front::Later(time) => time,
                Front::Waits => NEVER,
                // It was not put forward, or not taken: the next time is a flit later.
                Front::May => {
                    let unit = self.channels[channel as usize].units.front();
                    unit.map_or(NEVER, |unit| {
                        let bytes = self.passages[unit.passage as usize].parts.bytes(unit.kind);
                        now + self.links[unit.next_link as usize].service(bytes)
                    })
                }
            });
        }
        next
    }
}

/// How far a place is behind the one whose turn it is, of some.
#[inline]
fn behind(place: u32, turn: u32, count: u32) -> u32 {
    if place >= turn {
        place - turn
    } else {
        place + count - turn
    }
}
