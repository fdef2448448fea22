//! Links and buses: routes, shares, delays.

use viaduct_engine::{EventQueue, Time};
use viaduct_hardware::{BusModel, Frame, Rate};
use viaduct_network::delay::head_delay;
use viaduct_network::fluid::{FlowDemand, FlowId, Fluid, ResourceId};
use viaduct_topology::{HostId, LinkId};

use crate::config::SimulationConfig;
use crate::event::Code;

/// What messages share.
#[derive(Debug)]
pub(crate) struct Network {
    fluid: Fluid,
    first_bus: u32,
    has_buses: bool,
    has_equal_paths: bool,
    links: Vec<LinkId>,
    path: Vec<ResourceId>,
    /// Ways that were asked for, each in the place that its key falls upon; empty before the first.
    ways: Box<[Way]>,
}

/// Places for ways that are kept.
const WAYS_MAX: usize = 1 << 12;

/// Links and buses of the ways that are kept; longer ones are worked out each time.
const WAY_LENGTH_MAX: usize = 8;

/// What a message of so many bytes crosses between two hosts, and how long its first byte takes.
/// Nothing in a run changes it.
#[derive(Clone, Copy, Debug)]
struct Way {
    ends: (u32, u32),
    flow: u32,
    wire_bytes: f64,
    uses_bus: bool,
    length: u8,
    path: [ResourceId; WAY_LENGTH_MAX],
    head: Time,
}

impl Way {
    const NONE: Self = Self {
        ends: (u32::MAX, u32::MAX),
        flow: 0,
        wire_bytes: 0.0,
        uses_bus: false,
        length: 0,
        path: [ResourceId(0); WAY_LENGTH_MAX],
        head: Time::ZERO,
    };

    /// The place of a way between two hosts: those of neighbours differ.
    const fn place((source, target): (u32, u32), places: usize) -> usize {
        (source ^ target.rotate_left(6)) as usize & (places - 1)
    }
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
            has_equal_paths: config.topology.has_equal_paths(),
            links: Vec::new(),
            path: Vec::new(),
            ways: Box::default(),
        }
    }

    /// Begins to move a message's bytes, on the path of its flow; also tells the delay from the
    /// start of its first byte on its first link to its arrival at the end of the last.
    pub(crate) fn begin(
        &mut self,
        queue: &mut EventQueue<Code>,
        config: &SimulationConfig,
        ends: (u32, u32),
        flow: u32,
        demand: FlowDemand,
    ) -> (FlowId, Time) {
        let flow = self.distinct(flow);
        let uses_bus = self.has_buses && demand.scale.is_finite();
        let place = Way::place(ends, self.ways.len().max(1));
        if let Some(way) = self.ways.get(place)
            && way.ends == ends
            && way.flow == flow
            && way.wire_bytes == demand.wire_bytes
            && way.uses_bus == uses_bus
        {
            let path = &way.path[..usize::from(way.length)];
            return (self.fluid.begin(queue, path, demand), way.head);
        }
        let head = self.find_way(config, (ends, flow), demand.wire_bytes, uses_bus);
        (self.fluid.begin(queue, &self.path, demand), head)
    }

    /// Works a way out, and keeps it.
    #[inline(never)]
    fn find_way(
        &mut self,
        config: &SimulationConfig,
        (ends, flow): ((u32, u32), u32),
        wire_bytes: f64,
        uses_bus: bool,
    ) -> Time {
        let (source, target) = ends;
        let head = self.head_delay(config, ends, flow, wire_bytes);
        self.path.clear();
        let bus = |host: u32| ResourceId(self.first_bus + host);
        if uses_bus {
            self.path.push(bus(source));
        }
        let links = self.links.iter();
        self.path.extend(links.map(|link| ResourceId(link.0)));
        if uses_bus && target != source {
            self.path.push(bus(target));
        }
        if self.path.len() <= WAY_LENGTH_MAX {
            if self.ways.is_empty() {
                let pairs = (config.topology.host_count() as usize).saturating_pow(2);
                let places = pairs.min(WAYS_MAX).next_power_of_two();
                self.ways = vec![Way::NONE; places].into_boxed_slice();
            }
            let mut path = [ResourceId(0); WAY_LENGTH_MAX];
            path[..self.path.len()].copy_from_slice(&self.path);
            self.ways[Way::place(ends, self.ways.len())] = Way {
                ends,
                flow,
                wire_bytes,
                uses_bus,
                length: self.path.len() as u8,
                path,
                head,
            };
        }
        head
    }

    /// Ends a flow; what it was tagged with.
    pub(crate) fn end(&mut self, queue: &mut EventQueue<Code>, flow: FlowId) -> u32 {
        self.fluid.end(queue, flow)
    }

    /// To be called before time moves on, as [`Fluid::settle`].
    #[inline]
    pub(crate) fn settle(&mut self, queue: &mut EventQueue<Code>) {
        self.fluid.settle(queue);
    }

    /// Asks for a flow's memory.
    #[inline]
    pub(crate) fn prefetch(&self, flow: FlowId) {
        self.fluid.prefetch_flow(flow);
    }

    /// What a flow was tagged with.
    #[inline]
    pub(crate) fn tag(&self, flow: FlowId) -> u32 {
        self.fluid.tag(flow)
    }

    /// As [`Network::begin`] tells it.
    pub(crate) fn head_delay(
        &mut self,
        config: &SimulationConfig,
        ends: (u32, u32),
        flow: u32,
        wire_bytes: f64,
    ) -> Time {
        self.route(config, ends, flow);
        let (topology, links) = (&config.topology, &config.links);
        head_delay(topology, links, &config.switch, &self.links, wire_bytes)
    }

    /// How long a short message of the adapters themselves takes: an acknowledgement, say.
    pub(crate) fn control_delay(
        &mut self,
        config: &SimulationConfig,
        ends: (u32, u32),
        flow: u32,
        bus: &BusModel,
    ) -> Time {
        const CONTROL_BYTES: u64 = 16;

        let wire_bytes = Frame::wire_bytes(config.links.frame, CONTROL_BYTES) as f64;
        let head = self.head_delay(config, ends, flow, wire_bytes);
        let moving = config.links.host_rate.time_for(wire_bytes);
        let short = if self.has_buses {
            bus.write
        } else {
            Time::ZERO
        };
        head + moving + short
    }

    /// The links that the messages of a flow cross.
    pub(crate) fn way(
        &mut self,
        config: &SimulationConfig,
        ends: (u32, u32),
        flow: u32,
    ) -> &[LinkId] {
        self.route(config, ends, flow);
        &self.links
    }

    fn route(&mut self, config: &SimulationConfig, (source, target): (u32, u32), flow: u32) {
        self.links.clear();
        if source != target {
            let (source, target) = (HostId(source), HostId(target));
            let topology = &config.topology;
            topology.route_flow(source, target, flow, &mut self.links);
        }
    }

    /// The flow's number, where flows between two hosts may differ in their paths.
    fn distinct(&self, flow: u32) -> u32 {
        if self.has_equal_paths { flow } else { 0 }
    }
}
