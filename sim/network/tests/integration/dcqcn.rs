//! Flows to one host whose senders slow down when frames are marked (DCQCN), over one switch.

use std::sync::Arc;

use viaduct_engine::{EventQueue, Time};
use viaduct_network::fluid::{FlowDemand, FlowId, ResourceId};
use viaduct_network::hops::End;
use viaduct_network::{
    Arrival, Buffers, CongestionControl, CreditLinks, Frame, Landing, LinkConfig, Marking, Network,
    Next, Rate, Sharing, SwitchModel, Switching, Transfer,
};
use viaduct_topology::{Ports, Topology};

/// Bytes of a message; each flow has so many that they do not end.
const MESSAGE: u32 = 16_000;
const MS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    Begins(u32),
    FlowEnds(FlowId),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}

/// The results of some flows that begin 50 us one after another.
struct Result {
    /// Bytes of each between two times.
    bytes: Vec<f64>,
    /// Most bytes in the queue before the host that they all send to.
    queue: u64,
}

/// Links of 40 Gbit/s and 1 us, frames of 1,000 bytes, and the published limits of marking.
fn run(flows: u32, control: CongestionControl, from: u64, until: u64) -> Result {
    let rate = Rate::from_bits_per_second(40e9);
    let links = LinkConfig {
        sharing: Sharing::Packets,
        arrival: Arrival::default(),
        switching: Switching::CutThrough,
        rate,
        host_rate: rate,
        propagation: Time::from_nanoseconds(1_000),
        host_propagation: Time::from_nanoseconds(1_000),
        frame: Frame {
            payload_bytes: 1_000,
            header_bytes: 48,
        },
        buffers: Buffers {
            marking: Some(Marking {
                low_bytes: 5_000,
                high_bytes: 200_000,
                probability: 0.01,
                control,
            }),
            ..Buffers::default()
        },
        credits: CreditLinks::default(),
    };
    let switch = SwitchModel {
        delay: Time::from_nanoseconds(500),
        cut_through_bytes: 64,
    };
    let ends = End {
        bus_rate: Rate::INFINITE,
        forwarding: Switching::CutThrough,
        write: Time::ZERO,
    };
    let topology = Topology::single_switch(flows + 1, Ports(64)).unwrap();
    let mut network = Network::new(&Arc::new(topology), &links, switch, ends, false);
    network.set_seed(1);
    let mut queue = EventQueue::new();
    for flow in 0..flows {
        let at = Time::from_microseconds(50 * u64::from(flow));
        // One message of each is being sent, and one stands behind it.
        queue.schedule(at, Event::Begins(flow));
        queue.schedule(at, Event::Begins(flow));
    }
    let mut bytes = vec![0.0; flows as usize];
    while let Some((now, event)) = queue.pop_until(Time::from_picoseconds(until)) {
        let flow = match event {
            Event::Begins(flow) => flow,
            Event::FlowEnds(id) => {
                let Some(moved) = network.end(&mut queue, id) else {
                    continue;
                };
                match moved.next {
                    Next::Onward => moved.tag,
                    Next::There => {
                        if now.picoseconds() >= from {
                            bytes[moved.tag as usize] += f64::from(MESSAGE);
                        }
                        continue;
                    }
                    _ => continue,
                }
            }
        };
        let transfer = Transfer {
            ends: (flow + 1, 0),
            flow: 0,
            class: 0,
            is_ordered: true,
            landing: Landing::Apart,
            demand: FlowDemand {
                wire_bytes: links.frame.wire_bytes(MESSAGE.into()) as f64,
                scale: 1.0,
                rate_max: f64::INFINITY,
                tag: flow,
            },
        };
        network.begin(&mut queue, &transfer);
    }
    // The link from the switch to host 0 comes behind those of all hosts to it.
    let to_0 = ResourceId(flows + 1);
    Result {
        bytes,
        queue: network.queue_max_bytes(to_0),
    }
}

/// Jain's index: 1 if all have the same, 1/n if one has all.
fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// With the published constants that takes some 20 ms: they go up by 40 Mbit/s in 55 us.
#[test]
fn flows_that_begin_one_after_another_come_to_equal_shares_of_a_link_that_stays_busy() {
    for flows in [2, 8, 16] {
        let found = run(flows, CongestionControl::Dcqcn, 40 * MS, 50 * MS);
        let index = fairness(&found.bytes);
        let carried: f64 = found.bytes.iter().sum();
        // What 40 Gbit/s carry in 10 ms without headers.
        let possible = 50e6 / 1.048;
        assert!(index >= 0.99, "{flows} flows: {index}, {:?}", found.bytes);
        assert!(carried >= 0.95 * possible, "{flows}: {carried}");
    }
}

#[test]
fn the_queue_is_short_where_senders_slow_down_and_grows_where_they_do_not() {
    let slowed = run(8, CongestionControl::Dcqcn, 0, 5 * MS).queue;
    let not = run(8, CongestionControl::None, 0, 5 * MS).queue;
    // 35 GB a second more come than leave, until the first are told and each has halved its rate
    // thrice; then it is no longer.
    assert!(not > 100_000_000, "{not}");
    assert!(slowed < 10_000_000, "{slowed}");
}
