//! What a workload that sends packets needs of a network, whichever rule moves them.
//!
//! [`PacketNetwork`] is the boundary. A caller is written once, over any network that implements it
//! ([`crate::Wormhole`], [`crate::SharedLinks`]); which one is fixed when the caller is compiled.
//!
//! ```text
//!  send     -> when the tail will be there, if that is known; nothing if the packet waits, is
//!              lost, or has to be asked for
//!  next     -> when something happens in the network itself; never, where each arrival is known
//!              as soon as its packet goes
//!  proceed  -> packets whose tails are there by then
//!  release  -> whether a packet waited for the buffer that is free again
//!  take_up  -> packets that go on because of it, with the arrivals of their tails
//! ```
//!
//! The boundary has all that packets of an adapter know: a receiver that has no buffer left stops
//! its link, and what its sender has behind that packet waits too; the sender chooses one of the
//! equal ways for each packet, by number; packets are lost, and cut in flight when a part of their
//! way is down. A packet's content is the caller's. What differs between networks is
//! [`PacketNetwork::go`] alone: when, or in which steps, a packet crosses its way.

use std::collections::{BTreeMap, VecDeque};

use viaduct_engine::{Stream, Time};
use viaduct_topology::{HostId, LinkId};

use crate::outages::Links;
use crate::ports::Ports;
use crate::routes::Routes;

/// A packet, as far as a network looks at it.
pub trait Parcel: Copy {
    /// Who sends it, by its place among the hosts that take part.
    fn from(&self) -> u32;
    /// Who gets it, likewise.
    fn to(&self) -> u32;
    /// Its bytes, with its header.
    fn bytes(&self) -> u32;
    /// Which of the equal ways it takes: modulo their count.
    fn route(&self) -> u16;
}

/// What goes from host to host, for whoever has no packets of its own.
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

impl<C: Copy> Parcel for Packet<C> {
    #[inline]
    fn from(&self) -> u32 {
        self.from
    }

    #[inline]
    fn to(&self) -> u32 {
        self.to
    }

    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn route(&self) -> u16 {
        self.route
    }
}

/// Packets that arrive, and when their tails are there.
pub type Arrivals<P> = VecDeque<(Time, P)>;

/// What happened, since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PacketCounts {
    /// Packets that were given to the network, and not lost as they left.
    pub packets: u64,
    /// Packets that a full host stopped on their way.
    pub stops: u64,
    /// Packets lost: their way was down, or a host that began anew had them.
    pub cut: u64,
    /// Packets lost as they left, or harmed by a link.
    pub lost: u64,
}

/// What a link has carried.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkUse {
    /// Packets that crossed it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they held it; where links are shared, what their bytes take at its rate.
    pub busy: Time,
}

/// A network that carries packets between hosts, and answers with values: the caller owns time.
///
/// Hosts take part from [`PacketNetwork::join`] on and are named by their places; of the others
/// nothing is kept.
pub trait PacketNetwork<P: Parcel> {
    /// What the hosts' ends of their links hold.
    fn ports(&self) -> &Ports<P>;

    /// The same, to be changed.
    fn ports_mut(&mut self) -> &mut Ports<P>;

    /// The ways between hosts, and what goes wrong on them.
    fn routes(&self) -> &Routes;

    /// The same, to be changed.
    fn routes_mut(&mut self) -> &mut Routes;

    /// A packet, whose buffer at its target is free, leaves its sender at `at` or later; when its
    /// tail will be there, if that is known. The network takes the buffer.
    fn go(&mut self, packet: &P, at: Time) -> Option<Time>;

    /// How long a packet takes until its tail is there, nobody else there.
    fn alone(&mut self, packet: &P) -> Time;

    /// The links that a packet crosses.
    fn way(&mut self, packet: &P) -> &[LinkId] {
        self.routes_mut().way(packet)
    }

    /// When the network itself has something to do: call [`PacketNetwork::proceed`] then, before
    /// anything else that happens at that time.
    #[inline(always)]
    fn next(&mut self) -> Time {
        Time::MAX
    }

    /// Does what is due by `now`. `arrivals` gets packets that arrive.
    #[inline(always)]
    fn proceed(&mut self, _now: Time, _arrivals: &mut Arrivals<P>) {}

    /// A host takes part from now on; its place.
    fn join(&mut self, host: HostId) -> u32 {
        self.routes_mut().join(host);
        self.ports_mut().add()
    }

    /// What happened.
    fn counts(&self) -> PacketCounts {
        self.ports().counts
    }

    /// Of a million packets, so many are lost as they leave; `random` is what that is drawn from.
    fn lose(&mut self, per_million: u32, random: Stream) {
        self.ports_mut().lose(per_million, random);
    }

    /// Some links lose packets that cross them, at a rate of 0 to 1. What is drawn hangs on the
    /// seed.
    ///
    /// # Errors
    ///
    /// There are no such links.
    fn lose_on(&mut self, links: Links, rate: f64, seed: u64) -> Result<(), String> {
        self.routes_mut().lose_on(links, rate, seed)
    }

    /// Some links carry nothing from one time to another, or for ever.
    ///
    /// # Errors
    ///
    /// There are no such links.
    fn take_down(&mut self, links: Links, from: Time, until: Option<Time>) -> Result<(), String> {
        self.routes_mut().take_down(links, from, until)
    }

    /// A host hears and says nothing from one time to another.
    fn cut_off(&mut self, host: u32, from: Time, until: Time) {
        self.routes_mut().cut_off(host, from, until);
    }

    /// Counts from here on what each link carries, from nothing.
    fn watch_links(&mut self) {
        self.routes_mut().watch();
    }

    /// What each link that carried anything has carried since [`PacketNetwork::watch_links`].
    fn link_use(&self) -> &BTreeMap<LinkId, LinkUse> {
        self.routes().link_use()
    }

    /// A packet leaves its sender's memory at `at` or later; when its tail will be there, if that
    /// is known. It may have to wait, or be lost.
    #[inline(always)]
    fn send(&mut self, packet: P, at: Time) -> Option<Time> {
        let ports = self.ports_mut();
        if ports.loses() {
            return None;
        }
        ports.counts.packets += 1;
        let port = ports.of_mut(packet.from());
        if port.is_stopped {
            port.outbox.push_back((packet, at));
            return None;
        }
        self.start(packet, at)
    }

    /// The head leaves as soon as the engine is free, if the target has a buffer.
    #[inline(always)]
    fn start(&mut self, packet: P, at: Time) -> Option<Time> {
        let ports = self.ports_mut();
        if ports.of(packet.to()).taken >= ports.receive_buffers {
            ports.stop(packet);
            return None;
        }
        self.go(&packet, at)
    }

    /// A host has a buffer free again.
    ///
    /// Returns whether a packet waited for it, which [`PacketNetwork::take_up`] is for.
    #[inline]
    fn release(&mut self, host: u32) -> bool {
        let port = self.ports_mut().of_mut(host);
        port.taken -= 1;
        !port.waiting.is_empty()
    }

    /// The packet that waited longest for a buffer of `host` goes on, and what it kept behind it;
    /// if it is lost, it takes no buffer, and the next goes on as well.
    #[cold]
    fn take_up(&mut self, host: u32, now: Time, arrivals: &mut Arrivals<P>) {
        while let Some(packet) = self.ports_mut().next_waiting(host) {
            self.ports_mut().of_mut(packet.from()).is_stopped = false;
            if let Some(at) = self.go(&packet, now) {
                arrivals.push_back((at, packet));
            }
            self.drain(packet.from(), now, arrivals);
        }
    }

    /// An engine that is free sends what it has behind it.
    fn drain(&mut self, from: u32, now: Time, arrivals: &mut Arrivals<P>) {
        while let Some((next, at)) = self.ports_mut().next_behind(from) {
            if let Some(at) = self.start(next, at.max(now)) {
                arrivals.push_back((at, next));
            }
        }
    }

    /// A host begins anew: what waits for it on the network, in its engine and behind that is gone.
    fn reset(&mut self, host: u32, now: Time, arrivals: &mut Arrivals<P>) {
        for sender in self.ports_mut().reset(host) {
            self.ports_mut().of_mut(sender).is_stopped = false;
            self.drain(sender, now, arrivals);
        }
    }
}
