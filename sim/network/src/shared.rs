//! Packets over links that share their rate: [`Network`] behind the boundary of packets.
//!
//! A packet is a flow over the way that its sender chose. It crosses all its links at once, or is
//! stored at each switch, as the links say; how fast it moves is what its links' shares let it. An
//! adapter's engine sends one packet at a time, and takes the next when the last byte has left it.
//! Buffers of the receiver are promised when a packet begins.

use std::sync::Arc;

use viaduct_engine::{EventQueue, Time};
use viaduct_topology::{LinkId, Topology};

use crate::fluid::{FlowDemand, FlowId};
use crate::hops::End;
use crate::journeys::JourneyId;
use crate::links::{LinkConfig, SwitchModel};
use crate::network::{Begun, Landing, Network, Next, Transfer};
use crate::packets::{Arrivals, PacketNetwork, Parcel};
use crate::ports::Ports;
use crate::rate::{Rate, Switching};
use crate::routes::{Loss, Routes};

/// What happens in the network itself.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// A packet's head leaves.
    Begins(u32),
    /// A packet has crossed what it crosses at once.
    FlowEnds(FlowId),
    /// A stored packet goes on.
    Forwarded(JourneyId),
    /// A packet's tail is there.
    Arrives(u32),
}

impl From<FlowId> for Progress {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Flight<P> {
    packet: P,
    /// When its head left.
    began: Time,
    /// From a byte's start to its arrival, over what it crosses now.
    delay: Time,
    /// Whether a queue on its way was full.
    is_lost: bool,
    /// Which lives of its sender and its target it belongs to.
    lives: (u32, u32),
}

/// Hosts, and links that share their rate among the packets that cross them.
#[derive(Debug)]
pub struct SharedLinks<P> {
    links: LinkConfig,
    ports: Ports<P>,
    routes: Routes,
    network: Network,
    queue: EventQueue<Progress>,
    flights: Vec<Flight<P>>,
    free: Vec<u32>,
}

impl<P: Parcel> SharedLinks<P> {
    /// A network of which no host takes part yet. Framing is the packets' own: what `links` says of
    /// it means nothing. Of the equal ways between two hosts `ways_max` are used at most.
    #[must_use]
    pub fn new(
        topology: &Arc<Topology>,
        links: &LinkConfig,
        switch: SwitchModel,
        receive_buffers: u16,
        ways_max: u16,
    ) -> Self {
        // The hosts' buses are their adapters' business here.
        let end = End {
            bus_rate: Rate::INFINITE,
            forwarding: Switching::CutThrough,
            write: Time::ZERO,
        };
        Self {
            links: links.clone(),
            ports: Ports::new(receive_buffers),
            routes: Routes::new(topology, ways_max),
            network: Network::new(topology, links, switch, end, false),
            queue: EventQueue::new(),
            flights: Vec::new(),
            free: Vec::new(),
        }
    }

    fn happen(&mut self, progress: Progress, now: Time, arrivals: &mut Arrivals<P>) {
        match progress {
            Progress::Begins(slot) => {
                let flight = &mut self.flights[slot as usize];
                flight.began = now;
                let packet = flight.packet;
                let transfer = transfer(&packet, slot);
                let way = self.routes.way(&packet);
                let begun = self.network.begin_along(&mut self.queue, way, &transfer);
                self.note(&begun);
            }
            Progress::Forwarded(journey) => self.forward(journey),
            Progress::FlowEnds(flow) => {
                let Some(moved) = self.network.end(&mut self.queue, flow) else {
                    return;
                };
                let flight = &mut self.flights[moved.tag as usize];
                flight.is_lost |= moved.loss.is_some();
                let flight = *flight;
                match moved.next {
                    Next::There => {
                        let arrives = Progress::Arrives(moved.tag);
                        self.queue.schedule(moved.at + flight.delay, arrives);
                    }
                    Next::Onward | Next::Head(_) => {}
                    Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                        let forwarded = Progress::Forwarded(journey);
                        self.queue.schedule(now + after, forwarded);
                    }
                }
                if let Some(journey) = moved.behind {
                    self.forward(journey);
                }
                let from = flight.packet.from();
                if moved.is_gone && self.ports.of(from).life == flight.lives.0 {
                    self.ports.of_mut(from).is_stopped = false;
                    self.drain(from, now, arrivals);
                }
            }
            Progress::Arrives(slot) => self.arrive(slot, now, arrivals),
        }
    }

    fn forward(&mut self, journey: JourneyId) {
        if let Some(begun) = self.network.forward(&mut self.queue, journey) {
            self.note(&begun);
        }
    }

    fn note(&mut self, begun: &Begun) {
        self.flights[begun.tag as usize].delay = begun.delay;
    }

    /// A tail is there, unless it was lost on its way.
    fn arrive(&mut self, slot: u32, now: Time, arrivals: &mut Arrivals<P>) {
        let Flight {
            packet,
            began,
            is_lost,
            lives,
            ..
        } = self.flights[slot as usize];
        self.free.push(slot);
        let is_of_its_life = self.ports.of(packet.to()).life == lives.1;
        let loss = if is_lost {
            Some(Loss::Harmed)
        } else if self.routes.are_of_interest {
            self.routes.harm(&packet, began, now)
        } else {
            None
        };
        match loss {
            None if is_of_its_life => {
                let (links, topology) = (&self.links, self.routes.topology_shared());
                let busy = |link: LinkId, _| {
                    let rate = links.rate_of(&topology, link);
                    rate.time_for(packet.bytes().into())
                };
                self.routes.charge(&packet, busy);
                arrivals.push_back((now, packet));
                return;
            }
            Some(Loss::Harmed) => self.ports.counts.lost += 1,
            None | Some(Loss::Cut) => self.ports.counts.cut += 1,
        }
        if is_of_its_life && self.release(packet.to()) {
            self.take_up(packet.to(), now, arrivals);
        }
    }
}

/// What a packet is to the network, in a place among those under way.
fn transfer(packet: &impl Parcel, slot: u32) -> Transfer {
    Transfer {
        ends: (packet.from(), packet.to()),
        flow: packet.route().into(),
        class: 0,
        is_ordered: true,
        landing: Landing::Apart,
        demand: FlowDemand {
            wire_bytes: packet.bytes().into(),
            scale: 1.0,
            rate_max: f64::INFINITY,
            tag: slot,
        },
    }
}

impl<P: Parcel> PacketNetwork<P> for SharedLinks<P> {
    fn ports(&self) -> &Ports<P> {
        &self.ports
    }

    fn ports_mut(&mut self) -> &mut Ports<P> {
        &mut self.ports
    }

    fn routes(&self) -> &Routes {
        &self.routes
    }

    fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    fn go(&mut self, packet: &P, at: Time) -> Option<Time> {
        let target = self.ports.of_mut(packet.to());
        target.taken += 1;
        let life = target.life;
        let source = self.ports.of_mut(packet.from());
        source.is_stopped = true;
        let flight = Flight {
            packet: *packet,
            began: at,
            delay: Time::ZERO,
            is_lost: false,
            lives: (source.life, life),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.flights[slot as usize] = flight;
                slot
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        self.queue.schedule(at, Progress::Begins(slot));
        None
    }

    fn alone(&mut self, packet: &P) -> Time {
        let alone = self
            .network
            .alone_along(self.routes.way(packet), &transfer(packet, 0));
        alone.delay + alone.moving
    }

    fn next(&mut self) -> Time {
        self.network.settle(&mut self.queue);
        self.queue.next_time().unwrap_or(Time::MAX)
    }

    fn proceed(&mut self, now: Time, arrivals: &mut Arrivals<P>) {
        while self.next() <= now {
            if let Some((at, progress)) = self.queue.pop() {
                self.happen(progress, at, arrivals);
            }
        }
    }
}
