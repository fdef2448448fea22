//! Which way messages between two processes take, and whose flow they are.

use viaduct_network::fluid::FlowDemand;
use viaduct_network::{Landing, Transfer};
use viaduct_topology::{HostId, LinkId};

use crate::cluster::class;
use crate::config::ClusterConfig;
use crate::trace::FlowName;

impl ClusterConfig {
    /// Appends the links that messages between two processes take: those of two processes are one
    /// flow.
    pub(crate) fn route<L: From<LinkId>>(&self, source: u32, target: u32, path: &mut Vec<L>) {
        let ((source, target), flow) = self.flow_of(source, target);
        let (source, target) = (HostId(source), HostId(target));
        self.topology.route_flow(source, target, flow, path);
    }

    /// The links that a flow between two hosts takes.
    pub(crate) fn links_of(&self, ((source, target), flow): FlowName) -> Vec<LinkId> {
        let mut links = Vec::new();
        let (source, target) = (HostId(source), HostId(target));
        self.topology.route_flow(source, target, flow, &mut links);
        links
    }

    /// What the network is given of a message between two processes.
    #[inline]
    pub(crate) fn transfer(&self, source: u32, target: u32, demand: FlowDemand) -> Transfer {
        let (ends, flow) = self.flow_of(source, target);
        Transfer {
            ends,
            flow,
            class: class::DRAWN,
            is_ordered: false,
            landing: Landing::Apart,
            demand,
        }
    }

    /// The hosts of two processes, and the number of the flow from one to the other between them.
    #[inline]
    pub(crate) fn flow_of(&self, source: u32, target: u32) -> ((u32, u32), u32) {
        let processes = self.hosts.processes;
        if processes == 1 {
            return ((source, target), 0);
        }
        let flow = flow_between(processes, source % processes, target % processes);
        ((source / processes, target / processes), flow)
    }
}

/// The number of the flow from one process to another, each by its number on its host.
pub(crate) fn flow_between(processes: u32, source: u32, target: u32) -> u32 {
    source.wrapping_mul(processes).wrapping_add(target)
}
