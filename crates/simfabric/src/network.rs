//! Links and buses: routes, shares, delays.

use viaduct_engine::{EventQueue, Time};
use viaduct_sim::config::{BusModel, Frame, Rate};
use viaduct_sim::fluid::{FlowDemand, FlowId, Fluid, ResourceId};
use viaduct_sim::path::head_delay;
use viaduct_topology::{HostId, LinkId};

use crate::config::SimulationConfig;
use crate::event::Event;

/// What messages share.
#[derive(Debug)]
pub(crate) struct Network {
    fluid: Fluid,
    first_bus: u32,
    has_buses: bool,
    links: Vec<LinkId>,
    path: Vec<ResourceId>,
}

impl Network {
    pub(crate) fn new(config: &SimulationConfig) -> Self {
        let link_count = config.topology.link_count();
        let bus_rate = config.host.bus.dma_rate();
        let has_buses = !bus_rate.is_infinite();
        let bus_count = if has_buses {
            config.topology.host_count()
        } else {
            0
        };
        let link_rate = |link| config.links.rate_of(&config.topology, LinkId(link));
        let rates = (0..link_count)
            .map(link_rate)
            .chain((0..bus_count).map(|_| bus_rate))
            .map(Rate::bytes_per_picosecond);
        Self {
            fluid: Fluid::new(config.links.sharing, rates, link_count),
            first_bus: link_count,
            has_buses,
            links: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Begins to move a message's bytes; also tells the delay from the start of its first byte on
    /// its first link to its arrival at the end of the last.
    pub(crate) fn begin(
        &mut self,
        queue: &mut EventQueue<Event>,
        config: &SimulationConfig,
        (source, target): (u32, u32),
        demand: FlowDemand,
    ) -> (FlowId, Time) {
        self.route(config, source, target);
        let (topology, links) = (&config.topology, &config.links);
        let bytes = demand.wire_bytes;
        let head = head_delay(topology, links, &config.switch, &self.links, bytes);
        self.path.clear();
        let uses_bus = self.has_buses && demand.scale.is_finite();
        let bus = |host: u32| ResourceId(self.first_bus + host);
        if uses_bus {
            self.path.push(bus(source));
        }
        let links = self.links.iter();
        self.path.extend(links.map(|link| ResourceId(link.0)));
        if uses_bus && target != source {
            self.path.push(bus(target));
        }
        (self.fluid.begin(queue, &self.path, demand), head)
    }

    /// Ends a flow; what it was tagged with.
    pub(crate) fn end(&mut self, queue: &mut EventQueue<Event>, flow: FlowId) -> u32 {
        self.fluid.end(queue, flow)
    }

    /// As [`Network::begin`] tells it.
    pub(crate) fn head_delay(
        &mut self,
        config: &SimulationConfig,
        (source, target): (u32, u32),
        wire_bytes: f64,
    ) -> Time {
        self.route(config, source, target);
        let (topology, links) = (&config.topology, &config.links);
        head_delay(topology, links, &config.switch, &self.links, wire_bytes)
    }

    /// How long a short message of the adapters themselves takes: an acknowledgement, say.
    pub(crate) fn control_delay(
        &mut self,
        config: &SimulationConfig,
        ends: (u32, u32),
        bus: &BusModel,
    ) -> Time {
        const CONTROL_BYTES: u64 = 16;

        let wire_bytes = Frame::wire_bytes(config.links.frame, CONTROL_BYTES) as f64;
        let head = self.head_delay(config, ends, wire_bytes);
        let moving = config.links.host_rate.time_for(wire_bytes);
        let short = if self.has_buses {
            bus.write
        } else {
            Time::ZERO
        };
        head + moving + short
    }

    /// The links that a message crosses.
    pub(crate) fn way(&mut self, config: &SimulationConfig, source: u32, target: u32) -> &[LinkId] {
        self.route(config, source, target);
        &self.links
    }

    fn route(&mut self, config: &SimulationConfig, source: u32, target: u32) {
        self.links.clear();
        if source != target {
            let (source, target) = (HostId(source), HostId(target));
            config.topology.route(source, target, &mut self.links);
        }
    }
}
