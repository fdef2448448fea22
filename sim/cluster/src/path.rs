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

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::config::ClusterConfig;
use viaduct_hardware::mechanism::{LastPlan, Plan, Request, State};
use viaduct_hardware::{HostModel, STAGES, Stage, Step};
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::{Alone, Delays, Ends, Shape};

/// Costs that follow from the configuration alone.
#[derive(Clone, Debug)]
pub(crate) struct PathCosts {
    model: HostModel,
}

/// What a message of one size costs over a way on which it is alone for so long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Priced {
    pub(crate) bytes: u32,
    pub(crate) demand: FlowDemand,
    pub(crate) alone: Alone,
    /// The whole latency.
    pub(crate) floor: Time,
}

impl ClusterConfig {
    /// What hosts are to the network.
    pub(crate) fn ends(&self) -> Ends {
        Ends {
            bus_rate: self.host.bus.dma_rate(),
            forwarding: self.host.mechanism.forwarding(),
        }
    }

    /// What the network costs a message that is alone, planned so, over these links.
    pub(crate) fn alone(&self, links: &[LinkId], plan: &Plan) -> Alone {
        let delays = Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        };
        let (ends, demand) = (self.ends(), demand(plan, 0));
        let has_buses = ends.have_buses() && demand.uses_buses();
        let shape = Shape::between(has_buses, links.len());
        delays.alone(shape, links, &demand, &ends)
    }
}

impl PathCosts {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            model: config.host.clone(),
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
    let plan = PathCosts::new(config).plan_alone(config, bytes);
    floor_of(config, &plan, config.alone(&links, &plan))
}

/// The whole latency of a message that is planned so, over a way on which it is alone for so long.
pub(crate) fn floor_of(config: &ClusterConfig, plan: &Plan, alone: Alone) -> Time {
    let stages = floor_stages(config, plan, alone);
    stages.into_iter().fold(Time::ZERO, |sum, time| sum + time)
}

/// How much of the floor each stage is.
pub(crate) fn floor_stages(config: &ClusterConfig, plan: &Plan, alone: Alone) -> [Time; STAGES] {
    let HostModel {
        processor,
        bus,
        mechanism,
        ..
    } = &config.host;
    let Alone { moving, delay } = alone;
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
        (Stage::Network, delay + plan.adapters),
        (Stage::Receive, receive),
        (Stage::Completion, plan.completion.alone()),
        (Stage::Notice, config.host.notice().alone()),
        (Stage::Reap, processor.reap),
    ] {
        stages[stage as usize] = time;
    }
    stages
}
