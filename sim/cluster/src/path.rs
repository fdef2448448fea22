//! What a message's way costs with nobody else there: its floor, and how much of it each stage is.

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::config::ClusterConfig;
use viaduct_hardware::STAGES;
use viaduct_hardware::mechanism::Plan;
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::{Alone, Delays};

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
    /// The plan of a message that is alone.
    pub(crate) fn plan_alone(&self, bytes: u32) -> Plan {
        self.host.plan_alone(self.host_link(), bytes)
    }

    /// What the network costs a message that is alone, planned so, over these links.
    pub(crate) fn alone(&self, links: &[LinkId], plan: &Plan) -> Alone {
        let delays = Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        };
        delays.alone_over(links, &plan.demand(0), &self.host.ends())
    }
}

/// The latency of a message alone in the network: the floor that no message can beat.
///
/// One way, from the application's post until its receiver has it.
#[must_use]
pub fn floor_latency(config: &ClusterConfig, source: HostId, target: HostId, bytes: u32) -> Time {
    let mut links = Vec::new();
    config.topology.route(source, target, &mut links);
    let plan = config.plan_alone(bytes);
    floor_of(config, &plan, config.alone(&links, &plan))
}

/// The whole latency of a message that is planned so, over a way on which it is alone for so long.
pub(crate) fn floor_of(config: &ClusterConfig, plan: &Plan, alone: Alone) -> Time {
    let stages = floor_stages(config, plan, alone);
    stages.into_iter().fold(Time::ZERO, |sum, time| sum + time)
}

/// How much of the floor each stage is.
pub(crate) fn floor_stages(config: &ClusterConfig, plan: &Plan, alone: Alone) -> [Time; STAGES] {
    let host = &config.host;
    host.stages_alone(plan, alone, host.notice().alone())
}
