//! Packets that hold their whole way while they cross it, as worms do in Myrinet.
//!
//! A hop buffers a few bytes only: a packet holds its way until its tail has left, and the engine
//! that sends it is busy until then. Packets queue at the last link, to their target, in the order
//! in which they were sent. A target without a free buffer stops its link: the packet waits on its
//! way, and what its sender sends next waits behind it. The sender chooses one of the equal ways
//! for each packet, by number. A packet whose way is down before its tail has arrived is lost, and
//! its sender does not know.
//!
//! Links between switches are taken as enough: what several ways share there is not modelled, nor
//! is deadlock.
//!
//! # What the caller does
//!
//! ```text
//!  send    -> when the tail will be there; nothing if the packet waits or is lost
//!  release -> whether a packet waited for the buffer that is free again
//!  take_up -> packets that go on because of it, with the arrivals of their tails
//! ```
//!
//! A packet's content is the caller's: a packet that waits comes back with it. No event of a queue
//! is needed, since an arrival is known as soon as a packet goes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkAttributes, LinkClass, LinkId, Topology};

use crate::outages::{Links, Outages, parts};

/// Speeds and buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WormholeConfig {
    /// Bytes a second of a link between a host and its switch, if the network's file gives it no
    /// rate of its own.
    pub host_bytes_s: f64,
    /// Bytes a second of a link between switches, likewise.
    pub switch_bytes_s: f64,
    /// What a signal takes on a link, likewise.
    pub propagation: Time,
    /// What a switch adds.
    pub switch: Time,
    /// Packets that a host can hold before it stops its link.
    pub receive_buffers: u16,
    /// Of the equal ways between two hosts, how many are used at most.
    pub ways_max: u16,
}

/// What goes from host to host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<C> {
    /// Who sends it, by its place among the hosts that take part.
    pub from: u32,
    /// Who gets it.
    pub to: u32,
    /// With its header.
    pub bytes: u32,
    /// Which of the equal ways it takes: modulo their count.
    pub route: u16,
    /// What the network does not look at.
    pub content: C,
}

/// What happened, since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WormholeCounts {
    /// Packets that were given to the network.
    pub packets: u64,
    /// Packets that a full host stopped on their way.
    pub stops: u64,
    /// Packets lost: their way was down, or a host that began anew had them.
    pub cut: u64,
}

/// A host's ends of its link.
#[derive(Clone, Debug)]
struct Port<C> {
    /// When the link to it is free.
    free_at: Time,
    /// Buffers promised or taken.
    taken: u16,
    /// Packets that wait for a buffer, on their ways.
    waiting: VecDeque<Packet<C>>,
    /// When its sending engine is free.
    engine_free_at: Time,
    /// Its engine holds a packet that cannot go on.
    is_stopped: bool,
    /// Packets behind the engine.
    outbox: VecDeque<(Packet<C>, Time)>,
}

impl<C> Default for Port<C> {
    fn default() -> Self {
        Self {
            free_at: Time::ZERO,
            taken: 0,
            waiting: VecDeque::new(),
            engine_free_at: Time::ZERO,
            is_stopped: false,
            outbox: VecDeque::new(),
        }
    }
}

/// One of the equal ways between two hosts.
#[derive(Clone, Debug)]
struct Way {
    links: Box<[LinkId]>,
    /// From a byte's start to its arrival.
    latency: Time,
    /// Of its slowest link, in 1024ths of a picosecond.
    byte: u64,
}

/// How fast packets between two hosts are, as it was found last.
#[derive(Clone, Copy, Debug)]
struct Speed {
    ends: (u32, u32),
    /// Zero if all ways are alike.
    route: u16,
    /// From a byte's start to its arrival.
    latency: Time,
    /// What each byte takes after the one before it, in 1024ths of a picosecond.
    byte: u64,
}

/// Places for speeds that are kept, at most: a power of two.
const SPEEDS_MAX: usize = 1 << 12;

/// Hosts and the links between them.
#[derive(Clone, Debug)]
pub struct Wormhole<C> {
    config: WormholeConfig,
    topology: Arc<Topology>,
    hosts: Vec<HostId>,
    ports: Vec<Port<C>>,
    /// Of a link to a host, and of the slower of that and one between switches, in 1024ths of a
    /// picosecond.
    bytes: [u64; 2],
    /// Whether no link has a rate or a latency of its own.
    are_links_alike: bool,
    /// Ways of pairs of which more than the length had to be known.
    ways: BTreeMap<(HostId, HostId), Box<[Way]>>,
    /// Each in the place that its ends and its route fall upon.
    speeds: Box<[Speed]>,
    outages: Outages,
    counts: WormholeCounts,
}

impl<C: Copy> Wormhole<C> {
    /// Some hosts of a network, which packets name by their places among these: nothing is kept of
    /// the others.
    #[must_use]
    pub fn new(topology: &Arc<Topology>, config: WormholeConfig, hosts: Vec<HostId>) -> Self {
        let has_its_own = |link: u32| {
            let attributes = topology.link_attributes(LinkId(link));
            attributes != LinkAttributes::default()
        };
        let pairs = hosts.len().saturating_pow(2);
        // Of no pair: no host has this number.
        let none = Speed {
            ends: (u32::MAX, u32::MAX),
            route: 0,
            latency: Time::ZERO,
            byte: 0,
        };
        Self {
            ports: hosts.iter().map(|_| Port::default()).collect(),
            hosts,
            bytes: [
                config.host_bytes_s,
                config.host_bytes_s.min(config.switch_bytes_s),
            ]
            .map(byte_time),
            are_links_alike: topology.are_links_alike()
                || !(0..topology.link_count()).any(has_its_own),
            ways: BTreeMap::new(),
            speeds: vec![none; pairs.min(SPEEDS_MAX).next_power_of_two()].into(),
            outages: Outages::default(),
            counts: WormholeCounts::default(),
            topology: Arc::clone(topology),
            config,
        }
    }

    /// What happened.
    #[must_use]
    pub const fn counts(&self) -> WormholeCounts {
        self.counts
    }

    /// Some links carry nothing from one time to another, or for ever.
    ///
    /// # Errors
    ///
    /// There are no such links.
    pub fn take_down(
        &mut self,
        links: Links,
        from: Time,
        until: Option<Time>,
    ) -> Result<(), String> {
        for link in links.resolve(&self.topology)? {
            self.outages.add(link, from, until);
        }
        Ok(())
    }

    /// A host hears and says nothing from one time to another.
    pub fn cut_off(&mut self, host: u32, from: Time, until: Time) {
        let host = self.hosts[host as usize];
        for link in [self.topology.host_up(host), self.topology.host_down(host)] {
            self.outages.add(link.0, from, Some(until));
        }
    }

    /// A packet leaves its sender's memory at `at` or later; when its tail is there, unless it has
    /// to wait for that, or is lost.
    #[inline(always)]
    pub fn send(&mut self, packet: Packet<C>, at: Time) -> Option<Time> {
        self.counts.packets += 1;
        let port = &mut self.ports[packet.from as usize];
        if port.is_stopped {
            port.outbox.push_back((packet, at));
            return None;
        }
        self.start(packet, at)
    }

    /// A host has a buffer free again.
    ///
    /// Returns whether a packet waited for it, which [`Wormhole::take_up`] is for.
    #[inline]
    pub fn release(&mut self, host: u32) -> bool {
        let port = &mut self.ports[host as usize];
        port.taken -= 1;
        !port.waiting.is_empty()
    }

    /// The packet that waited longest for a buffer of `host` goes on, and what it kept behind it;
    /// if it is lost, it takes no buffer, and the next goes on as well. `arrivals` gets those that
    /// arrive, and the times at which their tails are there.
    #[cold]
    pub fn take_up(&mut self, host: u32, now: Time, arrivals: &mut VecDeque<(Time, Packet<C>)>) {
        while self.ports[host as usize].taken < self.config.receive_buffers {
            let Some(packet) = self.ports[host as usize].waiting.pop_front() else {
                return;
            };
            if let Some(at) = self.go(&packet, now) {
                arrivals.push_back((at, packet));
            }
            self.go_on(packet.from, now, arrivals);
        }
    }

    /// An engine has got rid of the packet that it held.
    fn go_on(&mut self, from: u32, now: Time, arrivals: &mut VecDeque<(Time, Packet<C>)>) {
        self.ports[from as usize].is_stopped = false;
        while !self.ports[from as usize].is_stopped {
            let Some((next, at)) = self.ports[from as usize].outbox.pop_front() else {
                break;
            };
            if let Some(at) = self.start(next, at.max(now)) {
                arrivals.push_back((at, next));
            }
        }
    }

    /// A host begins anew: what waits for it on the network, in its engine and behind that is gone.
    pub fn reset(&mut self, host: u32, now: Time, arrivals: &mut VecDeque<(Time, Packet<C>)>) {
        let old = core::mem::take(&mut self.ports[host as usize]);
        if old.is_stopped {
            // The packet that its engine held waits at another host.
            let waiting = self.ports.iter_mut().map(|port| &mut port.waiting);
            for waiting in waiting {
                if let Some(place) = waiting.iter().position(|packet| packet.from == host) {
                    waiting.remove(place);
                    break;
                }
            }
        }
        for packet in old.waiting {
            self.counts.cut += 1;
            if packet.from != host {
                self.go_on(packet.from, now, arrivals);
            }
        }
    }

    /// The head leaves as soon as the engine is free.
    #[inline(always)]
    fn start(&mut self, packet: Packet<C>, at: Time) -> Option<Time> {
        let target = &mut self.ports[packet.to as usize];
        if target.taken >= self.config.receive_buffers {
            self.counts.stops += 1;
            target.waiting.push_back(packet);
            self.ports[packet.from as usize].is_stopped = true;
            return None;
        }
        self.go(&packet, at)
    }

    /// The tail's arrival; none if a part of the way is down.
    #[inline(always)]
    fn go(&mut self, packet: &Packet<C>, at: Time) -> Option<Time> {
        let Speed { latency, byte, .. } = self.speed(packet);
        let span = Time::from_picoseconds((u64::from(packet.bytes) * byte) >> 10);
        let leaves_at = at.max(self.ports[packet.from as usize].engine_free_at);
        let target = &self.ports[packet.to as usize];
        let tail = (leaves_at + latency).max(target.free_at) + span;
        if !self.outages.is_empty() && self.is_cut(packet, leaves_at, tail) {
            // The engine does not know: it sends the packet all the same.
            self.ports[packet.from as usize].engine_free_at = leaves_at + span;
            self.counts.cut += 1;
            return None;
        }
        let target = &mut self.ports[packet.to as usize];
        target.taken += 1;
        target.free_at = tail;
        self.ports[packet.from as usize].engine_free_at = tail - latency;
        Some(tail)
    }

    /// How fast a packet is.
    #[inline]
    fn speed(&mut self, packet: &Packet<C>) -> Speed {
        let ends = (packet.from, packet.to);
        let route = if self.are_links_alike {
            0
        } else {
            packet.route
        };
        let place = ends.0 ^ ends.1.rotate_left(6) ^ u32::from(route).rotate_left(10);
        let place = place as usize & (self.speeds.len() - 1);
        let kept = self.speeds[place];
        if kept.ends == ends && kept.route == route {
            return kept;
        }
        let (latency, byte) = self.find_speed(packet);
        let found = Speed {
            ends,
            route,
            latency,
            byte,
        };
        self.speeds[place] = found;
        found
    }

    fn find_speed(&mut self, packet: &Packet<C>) -> (Time, u64) {
        if !self.are_links_alike {
            let way = self.way(packet);
            return (way.latency, way.byte);
        }
        let ends = self.ends(packet);
        if ends.0 == ends.1 {
            return (Time::ZERO, self.bytes[0]);
        }
        let switches = if self.topology.host_switch(ends.0) == self.topology.host_switch(ends.1) {
            1
        } else {
            // All equal ways are of one length.
            let links = self.topology.path_length(ends.0, ends.1);
            links.unwrap_or_default().saturating_sub(1)
        };
        let switches = u64::from(switches);
        let latency = self.config.switch.saturating_mul(switches)
            + self.config.propagation.saturating_mul(switches + 1);
        (latency, self.bytes[usize::from(switches > 1)])
    }

    #[cold]
    fn is_cut(&mut self, packet: &Packet<C>, from: Time, to: Time) -> bool {
        let links = self.way(packet).links.clone();
        self.outages.cut(parts(&links), from, to).is_some()
    }

    #[inline]
    fn ends(&self, packet: &Packet<C>) -> (HostId, HostId) {
        let host = |number: u32| self.hosts[number as usize];
        (host(packet.from), host(packet.to))
    }

    /// The way of a packet; its host's link and back if it has none, which a network that was
    /// checked leaves to no pair.
    fn way(&mut self, packet: &Packet<C>) -> &Way {
        let ends = self.ends(packet);
        let (topology, config) = (&self.topology, &self.config);
        let ways = self.ways.entry(ends).or_insert_with(|| {
            let most = usize::from(config.ways_max.max(1));
            let mut found = topology.equal_ways(ends.0, ends.1, most);
            if found.is_empty() {
                found.push(vec![topology.host_up(ends.0), topology.host_down(ends.1)]);
            }
            let made = found.into_iter().map(|links| {
                let mut way = Way::new(topology, config, links);
                if ends.0 == ends.1 {
                    way.latency = Time::ZERO;
                }
                way
            });
            made.collect()
        });
        &ways[usize::from(packet.route) % ways.len()]
    }
}

impl Way {
    fn new(topology: &Topology, config: &WormholeConfig, links: Vec<LinkId>) -> Self {
        let mut latency = config.switch.saturating_mul(links.len() as u64 - 1);
        let mut byte = 0;
        for link in &links {
            let its = topology.link_attributes(*link);
            let propagation = its.latency_picoseconds.map(Time::from_picoseconds);
            latency += propagation.unwrap_or(config.propagation);
            let usual = match topology.link_class(*link) {
                LinkClass::HostUp | LinkClass::HostDown => config.host_bytes_s,
                LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => config.switch_bytes_s,
            };
            let bytes_s = its.rate_bits_per_second.map(|rate| rate / 8.0);
            byte = byte.max(byte_time(bytes_s.unwrap_or(usual)));
        }
        Self {
            links: links.into(),
            latency,
            byte,
        }
    }
}

/// Of one byte, in 1024ths of a picosecond.
fn byte_time(bytes_s: f64) -> u64 {
    (1024e12 / bytes_s) as u64
}
