//! Links: what is under way, and when it arrives.
//!
//! A packet holds its whole path until its tail has left, since a hop buffers some 7 bytes: the
//! sender's engine is busy until then. Contention is on the last link, to the target's interface,
//! where packets queue in the order in which they were sent; when the interface has no buffer, the
//! packet waits on its path and the engine behind it with it. Inner links of the fat tree are taken
//! as enough: what several paths share there is not modelled, nor deadlock.

use std::collections::VecDeque;

use viaduct_engine::Time;
use viaduct_frames::transport::{Answer, Packet};
use viaduct_network::outages::Outages;

use crate::config;
use crate::faults::Parts;

/// What goes over a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A message; the number of its record, if the packet carries one.
    Message(Packet, Option<u32>),
    Answer(Answer),
    /// A message of an interface that has no transport.
    Plain(u32),
    /// One that its target refused, on its way back.
    Back(u32),
}

impl Load {
    /// The switch of the spine that it crosses, if it has to cross one.
    fn route(self) -> u8 {
        match self {
            Self::Message(packet, _) => packet.route,
            Self::Answer(answer) => answer.route,
            Self::Plain(_) | Self::Back(_) => 0,
        }
    }
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
    waiting: VecDeque<Flight>,
    /// When its sending engine is free.
    engine_free_at: Time,
    /// Its engine holds a packet that cannot go on.
    is_stopped: bool,
    /// Packets behind the engine.
    outbox: VecDeque<(Flight, Time)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Links {
    config: config::Network,
    ports: Vec<Port>,
    /// The leaf of each host.
    leaves: Vec<u16>,
    over_spine: Time,
    /// Of a link, in 1024ths of a picosecond.
    byte: u64,
    pub(crate) packets: u64,
    pub(crate) stops: u64,
    pub(crate) outages: Outages,
    parts: Parts,
    /// Packets lost to outages.
    pub(crate) cut: u64,
}

impl Links {
    pub(crate) fn new(
        config: config::Network,
        hosts: u16,
        (parts, outages): (Parts, Outages),
    ) -> Self {
        Self {
            ports: vec![Port::default(); usize::from(hosts)],
            leaves: (0..hosts).map(|host| host / config.hosts_a_leaf).collect(),
            over_spine: config.switch.saturating_mul(3),
            byte: (1024e12 / config.link_bytes_s) as u64,
            packets: 0,
            stops: 0,
            outages,
            parts,
            cut: 0,
            config,
        }
    }

    /// A packet leaves the interface's memory at `at` or later; when its tail is there, unless it
    /// has to wait for that.
    #[inline(always)]
    pub(crate) fn send(&mut self, flight: Flight, at: Time) -> Option<Time> {
        self.packets += 1;
        let port = &mut self.ports[usize::from(flight.from)];
        if port.is_stopped {
            port.outbox.push_back((flight, at));
            return None;
        }
        self.start(flight, at)
    }

    /// An interface has a buffer free again.
    ///
    /// Returns whether a packet waited for it, which [`Links::take_up`] is for.
    #[inline]
    pub(crate) fn release(&mut self, host: u16) -> bool {
        let port = &mut self.ports[usize::from(host)];
        port.taken -= 1;
        !port.waiting.is_empty()
    }

    /// The packet that waited longest for a buffer of `host` goes on, and what it kept behind it.
    /// `arrivals` gets them, and the times at which their tails are there.
    #[cold]
    pub(crate) fn take_up(
        &mut self,
        host: u16,
        now: Time,
        arrivals: &mut VecDeque<(Time, Flight)>,
    ) {
        let Some(flight) = self.ports[usize::from(host)].waiting.pop_front() else {
            return;
        };
        let from = flight.from;
        if let Some(at) = self.go(&flight, now) {
            arrivals.push_back((at, flight));
        }
        self.go_on(from, now, arrivals);
    }

    /// An engine has got rid of the packet that it held.
    fn go_on(&mut self, from: u16, now: Time, arrivals: &mut VecDeque<(Time, Flight)>) {
        self.ports[usize::from(from)].is_stopped = false;
        while !self.ports[usize::from(from)].is_stopped {
            let Some((next, at)) = self.ports[usize::from(from)].outbox.pop_front() else {
                break;
            };
            if let Some(at) = self.start(next, at.max(now)) {
                arrivals.push_back((at, next));
            }
        }
    }

    /// An interface begins anew: what waits for it on the network, in its engine and behind that is
    /// gone.
    pub(crate) fn reset(&mut self, host: u16, now: Time, arrivals: &mut VecDeque<(Time, Flight)>) {
        let old = core::mem::take(&mut self.ports[usize::from(host)]);
        if old.is_stopped {
            // The packet that its engine held waits at another interface.
            let waiting = self.ports.iter_mut().map(|port| &mut port.waiting);
            for waiting in waiting {
                if let Some(place) = waiting.iter().position(|flight| flight.from == host) {
                    waiting.remove(place);
                    break;
                }
            }
        }
        for flight in old.waiting {
            self.cut += 1;
            if flight.from != host {
                self.go_on(flight.from, now, arrivals);
            }
        }
    }

    /// The head leaves as soon as the engine is free.
    #[inline(always)]
    fn start(&mut self, flight: Flight, at: Time) -> Option<Time> {
        let target = &mut self.ports[usize::from(flight.to)];
        if target.taken >= self.config.receive_buffers {
            self.stops += 1;
            target.waiting.push_back(flight);
            self.ports[usize::from(flight.from)].is_stopped = true;
            return None;
        }
        self.go(&flight, at)
    }

    /// The tail's arrival; none if a part of the way is down.
    #[inline(always)]
    fn go(&mut self, flight: &Flight, at: Time) -> Option<Time> {
        let latency = self.latency(flight.from, flight.to);
        let span = Time::from_picoseconds((u64::from(flight.bytes) * self.byte) >> 10);
        let leaves_at = at.max(self.ports[usize::from(flight.from)].engine_free_at);
        let target = &self.ports[usize::from(flight.to)];
        let tail = (leaves_at + latency).max(target.free_at) + span;
        let ends = (flight.from, flight.to);
        if !self.outages.is_empty() && self.is_cut(ends, flight.load.route(), leaves_at, tail) {
            // The engine does not know: it sends the packet all the same.
            self.ports[usize::from(flight.from)].engine_free_at = leaves_at + span;
            self.cut += 1;
            return None;
        }
        let target = &mut self.ports[usize::from(flight.to)];
        target.taken += 1;
        target.free_at = tail;
        self.ports[usize::from(flight.from)].engine_free_at = tail - latency;
        Some(tail)
    }

    #[cold]
    fn is_cut(&self, ends: (u16, u16), route: u8, from: Time, to: Time) -> bool {
        let way = self.parts.way(ends, route);
        self.outages.cut(way, from, to).is_some()
    }

    /// A host hears and says nothing from one time to another.
    pub(crate) fn cut_off(&mut self, host: u16, from: Time, until: Time) {
        let cable = self.parts.of_host(host);
        self.outages.add(cable, from, Some(until));
    }

    /// Of the switches between two hosts: one at the same leaf, three over the spine.
    #[inline]
    fn latency(&self, from: u16, to: u16) -> Time {
        let is_near = self.leaves[usize::from(from)] == self.leaves[usize::from(to)];
        if is_near && from == to {
            Time::ZERO
        } else if is_near {
            self.config.switch
        } else {
            self.over_spine
        }
    }
}
