//! Links: what is under way, and when it arrives.
//!
//! A packet holds its whole path until its tail has left, since a hop buffers some 7 bytes: the
//! sender's engine is busy until then. Contention is on the last link, to the target's interface,
//! where packets queue in the order in which they were sent; when the interface has no buffer, the
//! packet waits on its path and the engine behind it with it. Inner links of the fat tree are taken
//! as enough: what several paths share there is not modelled, nor deadlock.

use std::collections::VecDeque;

use viaduct_engine::Time;
use viaduct_interface::transport::{Answer, Packet};

use crate::config;

/// What goes over a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A message; the number of its record, if the packet carries one.
    Message(Packet, Option<u32>),
    Answer(Answer),
    /// A message of an interface that has no transport.
    Plain(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) bytes: u32,
    pub(crate) load: Load,
}

/// One interface's ends of its link.
#[derive(Clone, Debug, Default)]
struct Port {
    /// When the link to it is free.
    free_at: Time,
    /// Buffers promised or taken.
    taken: u16,
    /// Packets that wait for a buffer, on their paths.
    waiting: VecDeque<u32>,
    /// When its sending engine is free.
    engine_free_at: Time,
    /// Its engine holds a packet that cannot go on.
    is_stopped: bool,
    /// Packets behind the engine.
    outbox: VecDeque<(u32, Time)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Links {
    config: config::Network,
    ports: Vec<Port>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Of a link, in 1024ths of a picosecond.
    byte: u64,
    pub(crate) packets: u64,
    pub(crate) stops: u64,
}

impl Links {
    pub(crate) fn new(config: config::Network, hosts: u16) -> Self {
        Self {
            ports: vec![Port::default(); usize::from(hosts)],
            flights: Vec::new(),
            free: Vec::new(),
            byte: (1024e12 / config.link_bytes_s) as u64,
            packets: 0,
            stops: 0,
            config,
        }
    }

    /// A packet leaves the interface's memory at `at` or later. `arrivals` gets the times at which
    /// tails are there.
    pub(crate) fn send(&mut self, flight: Flight, at: Time, arrivals: &mut Vec<(Time, u32)>) {
        self.packets += 1;
        let index = match self.free.pop() {
            Some(index) => {
                self.flights[index as usize] = flight;
                index
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        let port = &mut self.ports[usize::from(flight.from)];
        if port.is_stopped {
            port.outbox.push_back((index, at));
        } else {
            self.start(index, at, arrivals);
        }
    }

    /// Where a flight goes.
    pub(crate) fn target(&self, index: u32) -> u16 {
        self.flights[index as usize].to
    }

    /// What arrived with this number; its buffer is taken until [`Links::release`].
    pub(crate) fn arrived(&mut self, index: u32) -> Flight {
        self.free.push(index);
        self.flights[index as usize]
    }

    /// An interface has a buffer free again.
    pub(crate) fn release(&mut self, host: u16, now: Time, arrivals: &mut Vec<(Time, u32)>) {
        let port = &mut self.ports[usize::from(host)];
        port.taken -= 1;
        let Some(index) = port.waiting.pop_front() else {
            return;
        };
        let from = self.flights[index as usize].from;
        self.ports[usize::from(from)].is_stopped = false;
        self.go(index, now, arrivals);
        while !self.ports[usize::from(from)].is_stopped {
            let Some((next, at)) = self.ports[usize::from(from)].outbox.pop_front() else {
                break;
            };
            self.start(next, at.max(now), arrivals);
        }
    }

    /// The head leaves as soon as the engine is free.
    fn start(&mut self, index: u32, at: Time, arrivals: &mut Vec<(Time, u32)>) {
        let Flight { from, to, .. } = self.flights[index as usize];
        if self.ports[usize::from(to)].taken >= self.config.receive_buffers {
            self.stops += 1;
            self.ports[usize::from(to)].waiting.push_back(index);
            self.ports[usize::from(from)].is_stopped = true;
            return;
        }
        self.go(index, at, arrivals);
    }

    fn go(&mut self, index: u32, at: Time, arrivals: &mut Vec<(Time, u32)>) {
        let Flight {
            from, to, bytes, ..
        } = self.flights[index as usize];
        let latency = self.config.switch.saturating_mul(self.switches(from, to));
        let span = Time::from_picoseconds((u64::from(bytes) * self.byte) >> 10);
        let head = at.max(self.ports[usize::from(from)].engine_free_at) + latency;
        let target = &mut self.ports[usize::from(to)];
        target.taken += 1;
        let tail = head.max(target.free_at) + span;
        target.free_at = tail;
        self.ports[usize::from(from)].engine_free_at = tail - latency;
        arrivals.push((tail, index));
    }

    /// Switches between two hosts: one at the same leaf, three over the spine.
    fn switches(&self, from: u16, to: u16) -> u64 {
        let leaf = self.config.hosts_a_leaf;
        if from == to {
            0
        } else if from / leaf == to / leaf {
            1
        } else {
            3
        }
    }
}
