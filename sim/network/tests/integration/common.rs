//! A chain of switches, and what a network answers to those that send over it.

use std::sync::Arc;

use viaduct_engine::{EventQueue, Time};
use viaduct_network::fluid::{FlowDemand, FlowId};
use viaduct_network::hops::End;
use viaduct_network::{
    Arrival, Buffers, CreditLinks, Frame, JourneyId, Landing, LinkConfig, Network, Next, QueueLoss,
    Rate, Sharing, SwitchModel, Switching, Transfer,
};
use viaduct_topology::{ChainHosts, Ports, Topology};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Begins(usize),
    FlowEnds(FlowId),
    Forwarded(JourneyId),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}

/// 1 byte takes 1 ns on a link.
pub(crate) const BYTE: u64 = 1_000;
pub(crate) const PROPAGATION: u64 = 7_000;
pub(crate) const SWITCH: u64 = 50_000;

/// A chain of switches with a host each.
pub(crate) fn network(
    sharing: Sharing,
    switches: u32,
    links: Switching,
    ends: End,
    keeps_ways: bool,
) -> Network {
    build((sharing, ONE_FRAME), switches, links, ends, keeps_ways)
}

/// The same with messages in frames.
pub(crate) fn framed(
    sharing: Sharing,
    switches: u32,
    links: Switching,
    ends: End,
    frame: Frame,
) -> Network {
    build((sharing, frame), switches, links, ends, false)
}

/// Frames of any length, each a message, through queues that hold so much; links of hosts are a
/// thousand times as fast as those between switches.
pub(crate) fn limited(switches: u32, buffers: Buffers, seed: u64) -> Network {
    let config = LinkConfig {
        host_rate: Rate::from_bits_per_second(8e12),
        buffers,
        ..links_of(Sharing::Packets, Switching::CutThrough, ONE_FRAME)
    };
    let mut network = of_links(&config, switches, NO_BUSES, false);
    network.set_seed(seed);
    network
}

const ONE_FRAME: Frame = Frame {
    payload_bytes: 0,
    header_bytes: 0,
};

fn build(
    (sharing, frame): (Sharing, Frame),
    switches: u32,
    links: Switching,
    ends: End,
    keeps_ways: bool,
) -> Network {
    of_links(&links_of(sharing, links, frame), switches, ends, keeps_ways)
}

pub(crate) fn links_of(sharing: Sharing, switching: Switching, frame: Frame) -> LinkConfig {
    let rate = Rate::from_bits_per_second(8e9);
    LinkConfig {
        sharing,
        arrival: Arrival::default(),
        switching,
        rate,
        host_rate: rate,
        propagation: Time::from_picoseconds(PROPAGATION),
        host_propagation: Time::from_picoseconds(PROPAGATION),
        frame,
        buffers: Buffers::default(),
        credits: CreditLinks::default(),
    }
}

/// The same at `queues`, with bytes that may or may not be served before they have come.
pub(crate) fn queues(arrival: Arrival, switches: u32) -> Network {
    let config = LinkConfig {
        arrival,
        ..links_of(Sharing::Queues, Switching::CutThrough, ONE_FRAME)
    };
    of_links(&config, switches, NO_BUSES, false)
}

pub(crate) fn chain(switches: u32) -> Topology {
    Topology::chain(switches, ChainHosts::EverySwitch(1), Ports(64)).unwrap()
}

fn of_links(links: &LinkConfig, switches: u32, ends: End, keeps_ways: bool) -> Network {
    let topology = chain(switches);
    Network::new(&Arc::new(topology), links, CUT_THROUGH, ends, keeps_ways)
}

pub(crate) const CUT_THROUGH: SwitchModel = SwitchModel {
    delay: Time::from_picoseconds(SWITCH),
    cut_through_bytes: 0,
};

pub(crate) const NO_BUSES: End = End {
    bus_rate: Rate::INFINITE,
    forwarding: Switching::CutThrough,
    write: Time::ZERO,
};

pub(crate) fn transfer(ends: (u32, u32), bytes: u32, tag: usize) -> Transfer {
    Transfer {
        ends,
        flow: 0,
        class: 0,
        is_ordered: true,
        landing: Landing::InOrder,
        demand: FlowDemand {
            wire_bytes: f64::from(bytes),
            scale: 1.0,
            rate_max: f64::INFINITY,
            tag: tag as u32,
        },
    }
}

/// When the last byte of each transfer is there, and when its first; each begins at its time.
pub(crate) fn carry(network: &mut Network, transfers: &[(u64, Transfer)]) -> Vec<(Time, Time)> {
    carry_or_lose(network, transfers).0
}

/// The same, and what of each was lost.
pub(crate) fn carry_or_lose(
    network: &mut Network,
    transfers: &[(u64, Transfer)],
) -> (Vec<(Time, Time)>, Vec<Option<QueueLoss>>) {
    carry_with(&mut EventQueue::new(), network, transfers)
}

/// The same by a queue of the caller's.
pub(crate) fn carry_with(
    queue: &mut EventQueue<Event>,
    network: &mut Network,
    transfers: &[(u64, Transfer)],
) -> (Vec<(Time, Time)>, Vec<Option<QueueLoss>>) {
    let mut losses = vec![None; transfers.len()];
    let mut there = vec![(Time::MAX, Time::MAX); transfers.len()];
    let mut delays = vec![Time::ZERO; transfers.len()];
    for (place, (time, _)) in transfers.iter().enumerate() {
        queue.schedule(Time::from_picoseconds(*time), Event::Begins(place));
    }
    loop {
        network.settle(queue);
        let Some((now, event)) = queue.pop() else {
            return (there, losses);
        };
        let begun = match event {
            Event::Begins(place) => Some(network.begin(queue, &transfers[place].1)),
            Event::Forwarded(journey) => network.forward(queue, journey),
            Event::FlowEnds(flow) => {
                let Some(moved) = network.end(queue, flow) else {
                    continue;
                };
                let tag = moved.tag as usize;
                losses[tag] = moved.loss.or(losses[tag]);
                match moved.next {
                    Next::There => there[tag].0 = moved.at + delays[tag],
                    Next::Head(begun) => there[tag].1 = begun + delays[tag],
                    Next::Onward => {}
                    Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                        queue.schedule(now + after, Event::Forwarded(journey));
                    }
                }
                let behind = moved.behind;
                behind.map(|journey| network.forward(queue, journey).unwrap())
            }
        };
        if let Some(begun) = begun {
            let tag = begun.tag as usize;
            delays[tag] = begun.delay;
            if begun.has_head {
                there[tag].1 = now + begun.delay;
            }
        }
    }
}
