//! Max-min fair shares, worked out once an instant and only where something changed.
//!
//! Rates are max-min fair if each flow has a holder: a resource that is full and on which no flow
//! is faster, or the flow's own limit. On a bus, too, it is rates in bytes on the link that are
//! equal: a bus counts other bytes, and with one measure for all the fair rates are unique.
//!
//! All flows that begin and end in one instant of simulated time are solved for together, when the
//! instant is over. The solver fills resources from the lowest level up, and takes in flows as it
//! meets them. A flow is *open* once its rate is in question: it is new; or what held it has lost
//! a flow or gained a changed one; or it is faster than the level that its resource comes to. The
//! resource with the lowest level fixes its open flows, whose changed rates open the flows that are
//! held by the other resources of their paths. Those have higher levels, so nothing that was fixed
//! is looked at again: a flow that opens does not lower any level below its own old rate.
//!
//! A resource's key in the heap is at most its level. The first is its rate over all of its flows,
//! which costs nothing; only a resource whose key comes up has its flows read.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use viaduct_engine::Time;

use super::resource::Resource;
use super::{Flow, FlowDemand, FlowId, Fluid, Paths, ResourceId, touch};

/// Rates that differ by less than this, relatively, are equal: a picosecond in a second.
const TOLERANCE: f64 = 1e-12;

const UNSEEN: u32 = u32::MAX;
/// A flow's holder when that is its own limit.
const OWN_LIMIT: ResourceId = ResourceId(u32::MAX);
/// Marks a flow in the heap; without it a name there is an index in `servers`.
const FLOW: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct MaxMin {
    /// Indexed by resource.
    places: Vec<Place>,
    /// Indexed by flow.
    flows: Vec<Fair>,
    /// Flows that began in this instant.
    newcomers: Vec<FlowId>,
    /// Resources that hold flows and lost one in this instant.
    freed: Vec<ResourceId>,
    /// Resources that open flows cross.
    servers: Vec<Server>,
    /// Flows whose rate is or was in question.
    opened: Vec<FlowId>,
    /// How many of them have no rate yet.
    open: usize,
    /// How many servers are marked as raised.
    raised: usize,
    /// Levels by their bits, which are in the order of the numbers: none is negative.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Servers whose key may have to be lowered.
    lowered: Vec<u32>,
    /// Servers whose held flows are to be opened.
    disturbed: Vec<u32>,
    /// Open flows of the server at hand.
    held: Vec<FlowId>,
    /// Flows of the server at hand that are faster than its level.
    faster: Vec<(f64, FlowId)>,
}

/// A resource between two solutions.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// How many flows it holds back.
    holds: u32,
    /// Its index in `servers`, or [`UNSEEN`].
    server: u32,
}

/// A flow's fair rate.
#[derive(Clone, Copy, Debug)]
struct Fair {
    /// Bytes on the link a picosecond; zero before the first solution.
    rate: f64,
    /// Bytes on a bus for each byte on the link.
    weight_on_bus: f64,
    /// While it is open: the rate that it cannot pass, whatever others do.
    limit: f64,
    /// What sets that limit.
    limited_by: ResourceId,
    holder: ResourceId,
    status: Status,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Status {
    /// The rate stands.
    Settled,
    /// In question.
    Open,
    /// It was in question, and is final.
    Fixed,
}

/// A resource while flows on it are in question.
#[derive(Debug)]
struct Server {
    resource: ResourceId,
    /// Open flows here.
    open: u32,
    /// Their bytes here for each byte on the link, added up.
    weight: f64,
    /// What the others take of the rate, once they were read.
    used: f64,
    /// The key that counts in the heap; infinite if none does.
    key: f64,
    /// Whether its flows were read.
    is_read: bool,
    /// Whether the flows that it held were opened.
    is_disturbed: bool,
    /// Whether it is in `lowered`.
    is_lowered: bool,
    /// Whether a flow got more elsewhere, so that it may carry too much.
    is_raised: bool,
}

impl MaxMin {
    pub(super) fn new(resources: usize) -> Self {
        let place = Place {
            holds: 0,
            server: UNSEEN,
        };
        Self {
            places: vec![place; resources],
            flows: Vec::new(),
            newcomers: Vec::new(),
            freed: Vec::new(),
            servers: Vec::new(),
            opened: Vec::new(),
            open: 0,
            raised: 0,
            heap: BinaryHeap::new(),
            lowered: Vec::new(),
            disturbed: Vec::new(),
            held: Vec::new(),
            faster: Vec::new(),
        }
    }

    /// Whether something began or ended since the last solution that may have changed rates.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        !self.newcomers.is_empty() || !self.freed.is_empty()
    }

    /// What holds a flow back.
    pub(super) fn is_held_by(&self, id: FlowId, resource: ResourceId) -> bool {
        self.flows[id.0 as usize].holder == resource
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.flows.capacity() * size_of::<Fair>()
    }

    /// Takes a flow in: one that is alone on its path with the rate that it has there.
    fn begin(&mut self, id: FlowId, weight_on_bus: f64, alone: Option<(f64, ResourceId)>) {
        let (rate, holder) = alone.unwrap_or((0.0, OWN_LIMIT));
        let fair = Fair {
            rate,
            weight_on_bus,
            limit: 0.0,
            limited_by: OWN_LIMIT,
            holder,
            status: Status::Settled,
        };
        let index = id.0 as usize;
        if index < self.flows.len() {
            self.flows[index] = fair;
        } else {
            // Numbers are given in order.
            self.flows.push(fair);
        }
        if let Some(place) = self.places.get_mut(holder.0 as usize) {
            place.holds += 1;
        }
        if alone.is_none() {
            self.newcomers.push(id);
        }
    }

    /// Has a place for a flow that rides in a crowd, and is not solved for.
    pub(super) fn begin_rider(&mut self, id: FlowId) {
        self.begin(id, 0.0, Some((0.0, OWN_LIMIT)));
    }

    pub(super) fn member_becomes_rider(&mut self, id: FlowId) {
        let fair = &mut self.flows[id.0 as usize];
        let holder = core::mem::replace(&mut fair.holder, OWN_LIMIT);
        if let Some(place) = self.places.get_mut(holder.0 as usize) {
            place.holds -= 1;
        }
    }

    /// A link holds the flow; its shares are to be found again.
    pub(super) fn rider_becomes_member(
        &mut self,
        id: FlowId,
        demand: &FlowDemand,
        rate: f64,
        link: ResourceId,
    ) {
        self.begin(id, 1.0 / demand.scale, Some((rate, link)));
        if self.freed.last() != Some(&link) {
            self.freed.push(link);
        }
    }

    /// The index of a resource in `servers`.
    fn see(&mut self, resource: ResourceId) -> u32 {
        let place = &mut self.places[resource.0 as usize];
        if place.server == UNSEEN {
            place.server = self.servers.len() as u32;
            self.servers.push(Server {
                resource,
                open: 0,
                weight: 0.0,
                used: 0.0,
                key: f64::INFINITY,
                is_read: false,
                is_disturbed: false,
                is_lowered: false,
                is_raised: false,
            });
        }
        place.server
    }

    fn clear(&mut self) {
        for id in self.opened.drain(..) {
            self.flows[id.0 as usize].status = Status::Settled;
        }
        for server in self.servers.drain(..) {
            self.places[server.resource.0 as usize].server = UNSEEN;
        }
        self.newcomers.clear();
        self.freed.clear();
        self.heap.clear();
        (self.open, self.raised) = (0, 0);
    }
}

impl Fluid {
    /// A flow joins its resources; its rate, which is final if it is alone on all of them.
    pub(super) fn begin_max_min(&mut self, id: FlowId, path: &[ResourceId]) -> f64 {
        let demand = &self.flows[id.0 as usize].demand;
        let (mut rate, mut holder) = (demand.rate_max, OWN_LIMIT);
        let mut is_alone = true;
        for &resource in path {
            let server = &mut self.resources[resource.0 as usize];
            is_alone &= server.join(id);
            let is_bus = resource.0 >= self.first_bus;
            let most = server.rate * if is_bus { demand.scale } else { 1.0 };
            if most < rate {
                (rate, holder) = (most, resource);
            }
        }
        let weight_on_bus = 1.0 / demand.scale;
        if let Some(state) = &mut self.max_min {
            state.begin(id, weight_on_bus, is_alone.then_some((rate, holder)));
        }
        rate
    }

    /// A flow has left its resources.
    pub(super) fn end_max_min(&mut self, id: FlowId) {
        let Some(state) = &mut self.max_min else {
            return;
        };
        let holder = state.flows[id.0 as usize].holder;
        if let Some(place) = state.places.get_mut(holder.0 as usize) {
            place.holds -= 1;
        }
        let path_len = self.flows[id.0 as usize].path_len;
        for &resource in self.paths.of(id, path_len) {
            if state.places[resource.0 as usize].holds > 0 {
                state.freed.push(resource);
            }
        }
    }

    /// Finds the rates that what began and ended in this instant has changed.
    pub(super) fn solve_max_min(&mut self, now: Time) {
        let Some(mut state) = self.max_min.take() else {
            return;
        };
        let mut solution = Solution {
            state: &mut state,
            resources: &self.resources,
            paths: &self.paths,
            flows: &mut self.flows,
            touched: &mut self.touched,
            first_bus: self.first_bus,
            now,
        };
        solution.find();
        state.clear();
        self.max_min = Some(state);
    }
}

/// The search for the rates of one instant.
struct Solution<'fluid> {
    state: &'fluid mut MaxMin,
    resources: &'fluid [Resource],
    paths: &'fluid Paths,
    flows: &'fluid mut [Flow],
    touched: &'fluid mut Vec<FlowId>,
    first_bus: u32,
    now: Time,
}

impl Solution<'_> {
    fn find(&mut self) {
        for index in 0..self.state.freed.len() {
            let server = self.state.see(self.state.freed[index]);
            self.disturb(server);
        }
        for index in 0..self.state.newcomers.len() {
            self.open(self.state.newcomers[index]);
        }
        self.push_lowered();
        while self.state.open + self.state.raised > 0 {
            let Some(Reverse((bits, name))) = self.state.heap.pop() else {
                debug_assert!(false, "what is in question has a key in the heap");
                return;
            };
            if name & FLOW != 0 {
                let id = FlowId(name & !FLOW);
                let fair = self.state.flows[id.0 as usize];
                if fair.status != Status::Open {
                    continue;
                }
                self.fix(id, fair.limit, fair.limited_by);
            } else if !self.come_up(name, f64::from_bits(bits)) {
                continue;
            }
            while let Some(server) = self.state.disturbed.pop() {
                self.disturb(server);
            }
            self.push_lowered();
        }
    }

    /// A server's key has come up; says whether the server fixed or opened flows.
    fn come_up(&mut self, index: u32, key: f64) -> bool {
        let server = &mut self.state.servers[index as usize];
        // Another key counts.
        if server.key != key {
            return false;
        }
        server.key = f64::INFINITY;
        // Nothing is in question here any more.
        if server.open == 0 && !server.is_raised {
            return false;
        }
        if !server.is_read {
            self.read(index);
        }
        let server = &self.state.servers[index as usize];
        if server.open == 0 {
            let rate = self.resources[server.resource.0 as usize].rate;
            let is_above = server.used > rate * (1.0 + TOLERANCE);
            self.lay(index);
            if is_above {
                self.fill(index, 0.0);
            }
            return is_above;
        }
        let level = self.level(index);
        let next = self.state.heap.peek();
        let is_behind = next.is_some_and(|Reverse((bits, _))| f64::from_bits(*bits) < level);
        if level > key && is_behind {
            self.state.servers[index as usize].key = level;
            self.state.heap.push(Reverse((level.to_bits(), index)));
            return false;
        }
        self.fill(index, level);
        true
    }

    /// Fixes a server's open flows at its level, or opens those that are faster.
    fn fill(&mut self, index: u32, level: f64) {
        let resource = self.state.servers[index as usize].resource;
        let mut held = core::mem::take(&mut self.state.held);
        let mut faster = core::mem::take(&mut self.state.faster);
        let bound = level * (1.0 + TOLERANCE);
        for id in self.resources[resource.0 as usize].members() {
            let fair = &self.state.flows[id.0 as usize];
            match fair.status {
                Status::Open => held.push(id),
                Status::Settled if fair.rate > bound => faster.push((fair.rate, id)),
                _ => {}
            }
        }
        if faster.is_empty() {
            for &id in &held {
                self.fix(id, level, resource);
            }
            self.lay(index);
        } else {
            // The fastest first: the level rises with each, and may pass the others.
            faster.sort_by(|one, other| other.0.total_cmp(&one.0));
            for &(rate, id) in &faster {
                let is_open = self.state.servers[index as usize].open > 0;
                if is_open && rate <= self.level(index) * (1.0 + TOLERANCE) {
                    break;
                }
                self.open(id);
            }
            self.lower(index);
        }
        held.clear();
        faster.clear();
        (self.state.held, self.state.faster) = (held, faster);
    }

    /// A server carries no more than it can.
    fn lay(&mut self, index: u32) {
        let is_raised = &mut self.state.servers[index as usize].is_raised;
        self.state.raised -= usize::from(core::mem::take(is_raised));
    }

    /// Opens the flows that a server held before.
    fn disturb(&mut self, index: u32) {
        let server = &mut self.state.servers[index as usize];
        server.is_disturbed = true;
        let resource = server.resource;
        let resources = self.resources;
        for id in resources[resource.0 as usize].members() {
            if self.state.flows[id.0 as usize].holder == resource {
                self.open(id);
            }
        }
    }

    /// Brings a flow's rate into question.
    fn open(&mut self, id: FlowId) {
        let fair = &mut self.state.flows[id.0 as usize];
        if fair.status != Status::Settled {
            return;
        }
        fair.status = Status::Open;
        let fair = *fair;
        self.state.opened.push(id);
        self.state.open += 1;
        let flow = &self.flows[id.0 as usize];
        let (mut limit, mut limited_by) = (flow.demand.rate_max, OWN_LIMIT);
        let mut shared_most = f64::INFINITY;
        for &resource in self.paths.of(id, flow.path_len) {
            let server = &self.resources[resource.0 as usize];
            let weight = self.weight(&fair, resource);
            let most = server.rate / weight;
            // Nobody else is there, so the resource is no more than a limit of this flow.
            if server.len() == 1 {
                if most < limit {
                    (limit, limited_by) = (most, resource);
                }
                continue;
            }
            shared_most = shared_most.min(most);
            let index = self.state.see(resource);
            let server = &mut self.state.servers[index as usize];
            server.open += 1;
            server.weight += weight;
            if server.is_read {
                server.used -= fair.rate * weight;
            }
            self.lower(index);
        }
        let fair = &mut self.state.flows[id.0 as usize];
        (fair.limit, fair.limited_by) = (limit, limited_by);
        if limit < shared_most {
            self.state
                .heap
                .push(Reverse((limit.to_bits(), id.0 | FLOW)));
        }
    }

    /// Gives an open flow its rate.
    fn fix(&mut self, id: FlowId, rate: f64, holder: ResourceId) {
        let state = &mut *self.state;
        state.open -= 1;
        let fair = &mut state.flows[id.0 as usize];
        fair.status = Status::Fixed;
        let is_changed = (rate - fair.rate).abs() > TOLERANCE * fair.rate;
        let is_raised = is_changed && rate > fair.rate;
        if is_changed {
            fair.rate = rate;
        }
        let before = core::mem::replace(&mut fair.holder, holder);
        let fair = *fair;
        if before != holder {
            if let Some(place) = state.places.get_mut(before.0 as usize) {
                place.holds -= 1;
            }
            if let Some(place) = state.places.get_mut(holder.0 as usize) {
                place.holds += 1;
            }
        }
        let path_len = self.flows[id.0 as usize].path_len;
        for &resource in self.paths.of(id, path_len) {
            if self.resources[resource.0 as usize].len() == 1 {
                continue;
            }
            let weight = self.weight(&fair, resource);
            let place = self.state.places[resource.0 as usize];
            let server = &mut self.state.servers[place.server as usize];
            server.open -= 1;
            server.weight = if server.open == 0 {
                0.0
            } else {
                server.weight - weight
            };
            if server.is_read {
                server.used += fair.rate * weight;
            }
            if is_raised && resource != holder && !server.is_raised {
                server.is_raised = true;
                self.state.raised += 1;
            }
            if is_changed && place.holds > 0 && resource != holder && !server.is_disturbed {
                self.state.disturbed.push(place.server);
            }
        }
        if is_changed {
            let flow = &mut self.flows[id.0 as usize];
            flow.settle(self.now);
            flow.rate = fair.rate;
            touch(self.touched, id, flow);
        }
    }

    /// Adds up what the flows of a server take whose rates are not in question.
    fn read(&mut self, index: u32) {
        let resource = self.state.servers[index as usize].resource;
        let mut used = 0.0;
        for id in self.resources[resource.0 as usize].members() {
            let fair = &self.state.flows[id.0 as usize];
            if fair.status != Status::Open {
                used += fair.rate * self.weight(fair, resource);
            }
        }
        let server = &mut self.state.servers[index as usize];
        (server.used, server.is_read) = (used, true);
    }

    /// The rate at which a server's open flows fill it, once its flows were read; until then what
    /// it has at least.
    fn level(&self, index: u32) -> f64 {
        let server = &self.state.servers[index as usize];
        let resource = &self.resources[server.resource.0 as usize];
        if server.is_read {
            (resource.rate - server.used).max(0.0) / server.weight
        } else {
            resource.share
        }
    }

    /// Notes that a server's level may have become lower.
    fn lower(&mut self, index: u32) {
        let server = &mut self.state.servers[index as usize];
        if !server.is_lowered {
            server.is_lowered = true;
            self.state.lowered.push(index);
        }
    }

    /// Puts the servers whose levels became lower into the heap.
    fn push_lowered(&mut self) {
        while let Some(index) = self.state.lowered.pop() {
            let level = self.level(index);
            let server = &mut self.state.servers[index as usize];
            server.is_lowered = false;
            if server.open > 0 && level < server.key {
                server.key = level;
                self.state.heap.push(Reverse((level.to_bits(), index)));
            }
        }
    }

    /// Bytes on a resource for each byte of a flow on the link.
    fn weight(&self, fair: &Fair, resource: ResourceId) -> f64 {
        if resource.0 >= self.first_bus {
            fair.weight_on_bus
        } else {
            1.0
        }
    }
}
