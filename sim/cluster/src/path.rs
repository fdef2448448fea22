//! What a message's way costs with nobody else there: its floor, and how much of it each stage is.

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::config::ClusterConfig;
use crate::workload::MessageOperation;
use viaduct_hardware::mechanism::Plan;
use viaduct_hardware::{Leg, Pair};
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
    /// The plan of a message that is alone, from one host to another.
    pub(crate) fn plan_alone(&self, bytes: u32, hosts: (u32, u32)) -> Plan {
        self.pair(hosts).plan_alone(self.host_link(), bytes)
    }

    /// What the network costs a message that is alone, planned so, between two hosts over these
    /// links.
    pub(crate) fn alone(&self, hosts: Pair<'_>, links: &[LinkId], plan: &Plan) -> Alone {
        let delays = Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        };
        delays.alone_over(links, &plan.demand(0), &hosts.ends())
    }

    /// As [`floor_latency`], between two processes.
    pub(crate) fn floor_between(
        &self,
        (source, target): (u32, u32),
        bytes: u32,
        operation: MessageOperation,
    ) -> Time {
        let over = |from, to, plan: &Plan, leg| {
            let mut links: Vec<LinkId> = Vec::new();
            self.route(from, to, &mut links);
            let pair = self.pair(self.hosts_of((from, to)));
            floor_of(pair, plan, self.alone(pair, &links, plan), leg)
        };
        let there = self.hosts_of((source, target));
        let notice = self.host.of(there.1).notice().alone();
        let leg = leg_of(operation, false, notice);
        if operation != MessageOperation::Read {
            return over(source, target, &self.plan_alone(bytes, there), leg);
        }
        let back = (there.1, there.0);
        let (request, answer) = (
            self.plan_alone(0, there),
            self.plan_alone(bytes, back).of_answer(),
        );
        let asked = over(source, target, &request, leg);
        asked + over(target, source, &answer, Leg::Answer)
    }
}

/// The latency of a message alone in the network: the floor that no message can beat.
///
/// From the application's post until its receiver has it: its application, or of a remote write its
/// memory; of a remote read, there and back, until its bytes are in the memory of whoever reads.
#[must_use]
pub fn floor_latency(
    config: &ClusterConfig,
    source: HostId,
    target: HostId,
    bytes: u32,
    operation: MessageOperation,
) -> Time {
    let each = config.hosts.processes;
    config.floor_between((source.0 * each, target.0 * each), bytes, operation)
}

/// What a message is on its way, of which an application hears in so long if it does.
pub(crate) const fn leg_of(operation: MessageOperation, is_answer: bool, notice: Time) -> Leg {
    match operation {
        MessageOperation::Send | MessageOperation::WriteWithImmediate => Leg::Taken(notice),
        MessageOperation::Read if is_answer => Leg::Answer,
        MessageOperation::Write | MessageOperation::Read => Leg::Placed,
    }
}

/// The whole latency of a message that is planned so, over a way on which it is alone for so long.
pub(crate) fn floor_of(hosts: Pair<'_>, plan: &Plan, alone: Alone, leg: Leg) -> Time {
    let stages = hosts.stages_alone(plan, alone, leg);
    stages.into_iter().fold(Time::ZERO, |sum, time| sum + time)
}
