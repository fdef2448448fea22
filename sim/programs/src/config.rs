//! What a simulation is told: the network, the hosts on it, and what their adapters cost.

use std::sync::Arc;

use viaduct_hardware::{BusModel, Frame, HostModel, Mechanism, Rate};
use viaduct_network::{LinkConfig, SwitchModel};
use viaduct_topology::Topology;

use crate::faults::{Detection, Fault};
use crate::traffic::Traffic;

/// A cluster for programs.
#[derive(Clone, Debug)]
pub struct SimulationConfig {
    /// Hosts, switches, links and routes.
    pub topology: Arc<Topology>,
    /// How links share their rate.
    pub links: LinkConfig,
    /// What a switch costs a message.
    pub switch: SwitchModel,
    /// Processor, bus and adapter: the same on each host.
    pub host: HostModel,
    /// What goes wrong. Nothing is drawn, and no time passes otherwise, where this is empty.
    pub faults: Vec<Fault>,
    /// How long it takes until faults are noticed.
    pub detection: Detection,
    /// Traffic of others on the same links and buses.
    pub traffic: Vec<Traffic>,
    /// The seed of what is drawn: which messages are lost or corrupted, and when others send.
    pub seed: u64,
}

impl SimulationConfig {
    /// What prices a message at a host.
    #[inline]
    pub(crate) const fn hardware(&self) -> (&Mechanism, &BusModel) {
        (&self.host.mechanism, &self.host.bus)
    }

    /// Framing and rate of the link between a host and its switch.
    #[inline]
    pub(crate) const fn host_link(&self) -> (Frame, Rate) {
        (self.links.frame, self.links.host_rate)
    }
}
