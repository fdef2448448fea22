//! What a message's way costs with nobody else there: the constants between events, and the floor.
//!
//! The floor of a message of n bytes over a path is the sum of its fixed costs plus its bytes at
//! the rate of the slowest stage (links, buses, the NICs' own rate):
//!
//! ```text
//! post + doorbell + descriptor + max over stages(n / rate) + propagation + switches
//!      + receive + completion + notice + reap
//! ```
//!
//! With store-and-forward the bytes are paid once a hop.

use core::ops::Range;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::config::ClusterConfig;
use viaduct_hardware::mechanism::{LastPlan, Plan, Request, State};
use viaduct_hardware::{HostModel, STAGES, Stage, Step, Switching};
use viaduct_network::delay::{head_delay, moving_time};
use viaduct_network::fluid::FlowDemand;

/// Costs that follow from the configuration alone.
#[derive(Clone, Debug)]
pub(crate) struct PathCosts {
    model: HostModel,
    has_buses: bool,
}

/// What a message of one size costs on a path of one length, nobody else there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) links: usize,
    pub(crate) bytes: u32,
    pub(crate) demand: FlowDemand,
    /// From the first byte's start to its arrival at the receiving NIC, cut-through.
    pub(crate) head_delay: Time,
    /// How long the bytes take, cut-through.
    pub(crate) unshared: Time,
    /// The whole latency.
    pub(crate) floor: Time,
}

/// One hop: links and buses that a message crosses at once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hop {
    /// Places in the path of buses and links.
    pub(crate) places: Range<usize>,
    /// Whether the message is stored at the end of the hop.
    pub(crate) is_last: bool,
}

impl PathCosts {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            model: config.host.clone(),
            has_buses: !config.host.bus.is_free(),
        }
    }

    /// The plan of a message that is alone: its buffers known to the adapter, nothing before it.
    pub(crate) fn plan_alone(&self, config: &ClusterConfig, bytes: u32) -> Plan {
        let request = Request {
            bytes,
            segments: 1,
            target: (0, 0),
            is_behind: false,
            place_in_batch: 0,
        };
        let hardware = (&self.model.mechanism, &self.model.bus);
        let link = config.host_link();
        let mut state = State::new(&self.model.mechanism);
        let last = &mut LastPlan::default();
        if !self.model.mechanism.is_stateless() {
            // The first message fills the caches.
            state.plan(hardware, link, &request, last);
        }
        *state.plan(hardware, link, &request, last)
    }

    /// The way of a message of `bytes` over `links`.
    pub(crate) fn way(
        &self,
        config: &ClusterConfig,
        links: &[LinkId],
        (bytes, plan): (u32, &Plan),
    ) -> Way {
        let demand = demand(plan, 0);
        let bus_rate = self.model.bus.dma_rate().bytes_per_picosecond() * demand.scale;
        let slowest = links
            .iter()
            .map(|&link| config.link_rate(link).bytes_per_picosecond())
            .fold(demand.rate_max.min(bus_rate), f64::min);
        Way {
            links: links.len(),
            bytes,
            demand,
            head_delay: self.head_delay(config, links, demand.wire_bytes) + plan.adapters,
            unshared: moving_time(demand.wire_bytes, slowest),
            floor: floor_over(config, self, links, plan),
        }
    }

    /// As [`head_delay`].
    pub(crate) fn head_delay(
        &self,
        config: &ClusterConfig,
        links: &[LinkId],
        wire_bytes: f64,
    ) -> Time {
        let (topology, link_config) = (&config.topology, &config.links);
        head_delay(topology, link_config, &config.switch, links, wire_bytes)
    }

    /// The hop that begins at place `from` of a path of `len` buses and links.
    pub(crate) fn hop(&self, config: &ClusterConfig, from: usize, len: usize) -> Hop {
        let is_bus = |place: usize| self.has_buses && (place == 0 || place + 1 == len);
        let mut end = from + 1;
        while end < len {
            let crosses_nic = is_bus(end - 1) || is_bus(end);
            let rule = if crosses_nic {
                self.model.mechanism.forwarding()
            } else {
                config.links.switching
            };
            if rule == Switching::StoreAndForward {
                break;
            }
            end += 1;
        }
        Hop {
            places: from..end,
            is_last: end == len,
        }
    }
}

/// What a message puts on links and buses, and how fast the adapters can move it.
pub(crate) fn demand(plan: &Plan, tag: u32) -> FlowDemand {
    FlowDemand {
        wire_bytes: plan.wire_bytes,
        scale: plan.scale,
        rate_max: plan.rate_max,
        tag,
    }
}

/// The latency of a message alone in the network: the floor that no message can beat.
///
/// One way, from the application's post to its receiver's having it.
#[must_use]
pub fn floor_latency(config: &ClusterConfig, source: HostId, target: HostId, bytes: u32) -> Time {
    let mut links = Vec::new();
    config.topology.route(source, target, &mut links);
    let costs = PathCosts::new(config);
    floor_over(config, &costs, &links, &costs.plan_alone(config, bytes))
}

/// The whole latency over `links` of a message that is planned so, nobody else there.
pub(crate) fn floor_over(
    config: &ClusterConfig,
    costs: &PathCosts,
    links: &[LinkId],
    plan: &Plan,
) -> Time {
    let stages = floor_stages(config, costs, links, plan);
    stages.into_iter().fold(Time::ZERO, |sum, time| sum + time)
}

/// How much of the floor each stage is.
pub(crate) fn floor_stages(
    config: &ClusterConfig,
    costs: &PathCosts,
    links: &[LinkId],
    plan: &Plan,
) -> [Time; STAGES] {
    let HostModel {
        processor,
        bus,
        mechanism,
        ..
    } = &config.host;
    let demand = demand(plan, 0);
    let bus_rate = bus.dma_rate().bytes_per_picosecond() * demand.scale;
    let link_rate = |place: usize| config.link_rate(links[place]).bytes_per_picosecond();
    let buses = usize::from(costs.has_buses);
    let len = links.len() + 2 * buses;
    let (mut moving, mut network) = (Time::ZERO, Time::ZERO);
    let mut from = 0;
    while from < len {
        let hop = costs.hop(config, from, len);
        from = hop.places.end;
        let mut rate = f64::INFINITY;
        let mut hop_links = 0..0;
        for place in hop.places {
            if costs.has_buses && (place == 0 || place + 1 == len) {
                rate = rate.min(bus_rate).min(demand.rate_max);
            } else {
                let link = place - buses;
                if link == 0 || link + 1 == links.len() {
                    rate = rate.min(demand.rate_max);
                }
                rate = rate.min(link_rate(link));
                let begin = if hop_links.is_empty() {
                    link
                } else {
                    hop_links.start
                };
                hop_links = begin..link + 1;
            }
        }
        moving += moving_time(demand.wire_bytes, rate);
        network += costs.head_delay(config, &links[hop_links.clone()], demand.wire_bytes);
        if !hop_links.is_empty() && hop_links.end < links.len() {
            network += config.switch.delay;
        }
    }
    let mut receive = plan.match_service.alone();
    if plan.receive_processor > Time::ZERO {
        // Most of the processor's work is done while the bytes come.
        let there = receive + moving + plan.receive_last;
        receive = plan.receive_processor.max(there) - moving;
    }
    let doorbell = mechanism.doorbell(bus).unwrap_or(Step::ZERO);
    let mut stages = [Time::ZERO; STAGES];
    for (stage, time) in [
        (Stage::Post, processor.post),
        (Stage::Software, plan.processor),
        (Stage::Doorbell, doorbell.alone()),
        (Stage::Descriptor, plan.service.alone() + plan.fetch),
        (Stage::Transfer, moving),
        (Stage::Network, network + plan.adapters),
        (Stage::Receive, receive),
        (Stage::Completion, plan.completion.alone()),
        (Stage::Notice, config.host.notice().alone()),
        (Stage::Reap, processor.reap),
    ] {
        stages[stage as usize] = time;
    }
    stages
}
