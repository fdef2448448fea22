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
//! No event is needed: an arrival is known as soon as its packet goes.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkAttributes, LinkClass, LinkId, Topology};

use crate::packets::{PacketNetwork, Parcel};
use crate::ports::Ports;
use crate::routes::{Loss, Routes};

/// Speeds and buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WormholeConfig {
    /// Bytes a second of a link between a host and its switch, if the network's file gives it no
    /// rate of its own.
    pub host_bytes_s: f64,
    /// Bytes a second of a link between switches, likewise.
    pub switch_bytes_s: f64,
    /// What a signal takes on a link between switches, likewise.
    pub propagation: Time,
    /// What it takes on a link between a host and its switch, likewise.
    pub host_propagation: Time,
    /// What a switch adds.
    pub switch: Time,
    /// Packets that a host can hold before it stops its link.
    pub receive_buffers: u16,
    /// Of the equal ways between two hosts, how many are used at most.
    pub ways_max: u16,
}

/// How fast packets between two hosts are, as it was found last.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Of the two places, and the route unless all ways are alike.
    key: u64,
    /// From a byte's start to its arrival.
    latency: Time,
    /// What each byte takes after the one before it, in 1024ths of a picosecond.
    byte: u64,
}

impl Speed {
    /// Of no pair: no packet has this key.
    const NONE: Self = Self {
        key: u64::MAX,
        latency: Time::ZERO,
        byte: 0,
    };
}

/// Places for speeds that are kept, at most: a power of two.
const SPEEDS_MAX: usize = 1 << 12;

/// Places of hosts have so many bits in a key.
const PLACE_BITS: u32 = 24;

/// Hosts and the links between them.
#[derive(Debug)]
pub struct Wormhole<P> {
    config: WormholeConfig,
    ports: Ports<P>,
    routes: Routes,
    /// Of a link to a host, and of the slower of that and one between switches, in 1024ths of a
    /// picosecond.
    bytes: [u64; 2],
    /// Whether no link has a rate or a latency of its own.
    are_links_alike: bool,
    /// Each in the place that its ends and its route fall upon.
    speeds: Box<[Speed]>,
    /// From the places of packets to one host to those of packets to the next.
    stride: u32,
}

impl<P: Parcel> Wormhole<P> {
    /// A network of which no host takes part yet.
    #[must_use]
    pub fn new(topology: &Arc<Topology>, config: WormholeConfig) -> Self {
        let has_its_own = |link: u32| {
            let attributes = topology.link_attributes(LinkId(link));
            attributes != LinkAttributes::default()
        };
        Self {
            ports: Ports::new(config.receive_buffers),
            routes: Routes::new(topology, config.ways_max),
            bytes: [
                config.host_bytes_s,
                config.host_bytes_s.min(config.switch_bytes_s),
            ]
            .map(byte_time),
            are_links_alike: topology.are_links_alike()
                || !(0..topology.link_count()).any(has_its_own),
            speeds: Box::new([Speed::NONE]),
            stride: 1,
            config,
        }
    }

    /// How fast a packet is.
    #[inline]
    fn speed(&mut self, packet: &P) -> Speed {
        let (from, to) = (packet.from(), packet.to());
        let route = if self.are_links_alike {
            0
        } else {
            packet.route()
        };
        let key =
            u64::from(route) << (2 * PLACE_BITS) | u64::from(to) << PLACE_BITS | u64::from(from);
        // Of few hosts each pair has a place of its own.
        let place = (to * self.stride + from) ^ (u32::from(route) << 10);
        let place = place as usize & (self.speeds.len() - 1);
        let kept = self.speeds[place];
        if kept.key == key {
            return kept;
        }
        self.find_speed(packet, key, place)
    }

    #[cold]
    fn find_speed(&mut self, packet: &P, key: u64, place: usize) -> Speed {
        let ends = self.routes.ends(packet);
        let (latency, byte) = if self.are_links_alike {
            self.usual_speed(ends)
        } else {
            let links = self.routes.way(packet).to_vec();
            self.speed_over(&links, ends)
        };
        let found = Speed { key, latency, byte };
        self.speeds[place] = found;
        found
    }

    /// Where all links are alike.
    fn usual_speed(&self, ends: (HostId, HostId)) -> (Time, u64) {
        if ends.0 == ends.1 {
            return (Time::ZERO, self.bytes[0]);
        }
        let topology = self.routes.topology();
        let switches = if topology.host_switch(ends.0) == topology.host_switch(ends.1) {
            1
        } else {
            // All equal ways are of one length.
            let links = topology.path_length(ends.0, ends.1);
            links.unwrap_or_default().saturating_sub(1)
        };
        let switches = u64::from(switches);
        let latency = self.config.switch.saturating_mul(switches)
            + self
                .config
                .propagation
                .saturating_mul(switches.saturating_sub(1))
            + self.config.host_propagation.saturating_mul(2);
        (latency, self.bytes[usize::from(switches > 1)])
    }

    fn speed_over(&self, links: &[LinkId], ends: (HostId, HostId)) -> (Time, u64) {
        let (config, topology) = (&self.config, self.routes.topology());
        let mut latency = config.switch.saturating_mul(links.len() as u64 - 1);
        let mut byte = 0;
        for link in links {
            let its = topology.link_attributes(*link);
            let propagation = its.latency_picoseconds.map(Time::from_picoseconds);
            let (usual, usual_propagation) = match topology.link_class(*link) {
                LinkClass::HostUp | LinkClass::HostDown => {
                    (config.host_bytes_s, config.host_propagation)
                }
                LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => {
                    (config.switch_bytes_s, config.propagation)
                }
            };
            latency += propagation.unwrap_or(usual_propagation);
            let bytes_s = its.rate_bits_per_second.map(|rate| rate / 8.0);
            byte = byte.max(byte_time(bytes_s.unwrap_or(usual)));
        }
        if ends.0 == ends.1 {
            latency = Time::ZERO;
        }
        (latency, byte)
    }

    /// What happens to a packet on its way beside the time it takes: whether it is lost, and which
    /// links it holds for how long.
    #[cold]
    fn is_lost(&mut self, packet: &P, leaves_at: Time, tail: Time, speed: Speed) -> bool {
        match self.routes.harm(packet, leaves_at, tail) {
            None => {
                let span = span(packet, speed);
                let held = (tail - speed.latency).saturating_sub(leaves_at);
                let busy = |_, is_last| if is_last { span } else { held };
                self.routes.charge(packet, busy);
                return false;
            }
            Some(Loss::Cut) => self.ports.counts.cut += 1,
            Some(Loss::Harmed) => self.ports.counts.lost += 1,
        }
        // The engine does not know: it sends the packet all the same.
        let port = self.ports.of_mut(packet.from());
        port.engine_free_at = leaves_at + span(packet, speed);
        true
    }
}

impl<P: Parcel> PacketNetwork<P> for Wormhole<P> {
    #[inline]
    fn ports(&self) -> &Ports<P> {
        &self.ports
    }

    #[inline]
    fn ports_mut(&mut self) -> &mut Ports<P> {
        &mut self.ports
    }

    fn routes(&self) -> &Routes {
        &self.routes
    }

    fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    fn join(&mut self, host: HostId) -> u32 {
        self.routes.join(host);
        let count = self.routes.count();
        assert!(
            count < 1 << PLACE_BITS,
            "{count} hosts take part in a network of packets that hold their way, which names 2^24"
        );
        let speeds = count.saturating_pow(2).min(SPEEDS_MAX).next_power_of_two();
        if self.speeds.len() < speeds {
            self.speeds = vec![Speed::NONE; speeds].into();
        }
        // At most as far as the square root of the places: 2^24 times that has 32 bits.
        self.stride = (count as u32).min(64);
        self.ports.add()
    }

    fn alone(&mut self, packet: &P) -> Time {
        let speed = self.speed(packet);
        speed.latency + span(packet, speed)
    }

    #[inline(always)]
    fn go(&mut self, packet: &P, at: Time) -> Option<Time> {
        let speed = self.speed(packet);
        let leaves_at = at.max(self.ports.of(packet.from()).engine_free_at);
        let free_at = self.ports.of(packet.to()).free_at;
        let tail = (leaves_at + speed.latency).max(free_at) + span(packet, speed);
        if self.routes.are_of_interest && self.is_lost(packet, leaves_at, tail, speed) {
            return None;
        }
        let target = self.ports.of_mut(packet.to());
        target.taken += 1;
        target.free_at = tail;
        self.ports.of_mut(packet.from()).engine_free_at = tail - speed.latency;
        Some(tail)
    }
}

/// How long a packet's bytes take.
#[inline]
fn span(packet: &impl Parcel, speed: Speed) -> Time {
    Time::from_picoseconds((u64::from(packet.bytes()) * speed.byte) >> 10)
}

/// Of one byte, in 1024ths of a picosecond.
fn byte_time(bytes_s: f64) -> u64 {
    (1024e12 / bytes_s) as u64
}
