//! Max-min fair shares, worked out again only where an event changes them.
//!
//! An allocation is max-min fair if each flow has a bottleneck: a resource that is full and on
//! which no flow is faster (or the flow's own limit). After a flow begins or ends, the flows on its
//! path that may be concerned are solved by progressive filling, all other flows held fast. Then
//! the others on the resources in question are looked at: one that is faster than a flow held back
//! there, or one that has lost its bottleneck, joins the set, and the set is solved again. When
//! none is left every flow has a bottleneck, which is the fair allocation of the whole network. The
//! set is a few flows at moderate load, where solving everything at each event would cost the size
//! of the network.

use viaduct_engine::Time;

use super::{FlowId, Fluid, ResourceId};

/// Rates that differ by less than this, relatively, are equal.
const TOLERANCE: f64 = 1e-9;

const UNSEEN: u32 = u32::MAX;
/// A flow's bottleneck when that is its own limit.
const OWN_LIMIT: ResourceId = ResourceId(u32::MAX);

#[derive(Debug)]
pub(super) struct MaxMin {
    /// For each resource its index in `servers`, or [`UNSEEN`].
    server_of: Vec<u32>,
    /// Resources crossed by the flows in `solved`.
    servers: Vec<Server>,
    /// The flows that are solved for.
    solved: Vec<Solved>,
    /// Indexed by flow: the resource that holds it back.
    bottleneck: Vec<ResourceId>,
    /// Indexed by flow: its index in `solved`, or [`UNSEEN`].
    place: Vec<u32>,
    /// Flows of one resource and their rates.
    rates: Vec<(FlowId, f64)>,
}

#[derive(Debug)]
struct Server {
    resource: ResourceId,
    /// Rate left for the flows without a rate, on the link's side.
    left: f64,
    /// Flows of `solved` here that have no rate yet.
    open: u32,
    /// Whether a flow was held back here.
    holds_back: bool,
    /// That flow's rate, in the resource's own bytes.
    level: f64,
}

#[derive(Debug)]
struct Solved {
    flow: FlowId,
    rate: Option<f64>,
}

impl MaxMin {
    pub(super) fn new(resources: usize) -> Self {
        Self {
            server_of: vec![UNSEEN; resources],
            servers: Vec::new(),
            solved: Vec::new(),
            bottleneck: Vec::new(),
            place: Vec::new(),
            rates: Vec::new(),
        }
    }

    fn add(&mut self, id: FlowId, path: &[ResourceId]) {
        let index = id.0 as usize;
        if self.place.len() <= index {
            self.place.resize(index + 1, UNSEEN);
            self.bottleneck.resize(index + 1, OWN_LIMIT);
        }
        if self.place[index] != UNSEEN {
            return;
        }
        self.place[index] = self.solved.len() as u32;
        self.solved.push(Solved {
            flow: id,
            rate: None,
        });
        for &resource in path {
            self.see(resource);
        }
    }

    fn see(&mut self, resource: ResourceId) {
        let server_of = &mut self.server_of[resource.0 as usize];
        if *server_of == UNSEEN {
            *server_of = self.servers.len() as u32;
            self.servers.push(Server {
                resource,
                left: 0.0,
                open: 0,
                holds_back: false,
                level: 0.0,
            });
        }
    }

    /// The index of a flow in `solved`.
    fn place_of(&self, id: FlowId) -> Option<usize> {
        is_in(&self.place, id).then(|| self.place[id.0 as usize] as usize)
    }

    fn clear(&mut self) {
        for solved in self.solved.drain(..) {
            self.place[solved.flow.0 as usize] = UNSEEN;
        }
        for server in self.servers.drain(..) {
            self.server_of[server.resource.0 as usize] = UNSEEN;
        }
    }
}

/// Whether a flow has a place in `solved`.
fn is_in(place: &[u32], id: FlowId) -> bool {
    place
        .get(id.0 as usize)
        .is_some_and(|&place| place != UNSEEN)
}

impl Fluid {
    /// Finds the fair rates after `newcomer` began, or after a flow over `path` ended.
    pub(super) fn reallocate_max_min(
        &mut self,
        now: Time,
        newcomer: Option<FlowId>,
        path: &[ResourceId],
    ) {
        let Some(mut state) = self.max_min.take() else {
            return;
        };
        if let Some(id) = newcomer {
            state.add(id, self.path(id));
        }
        for &resource in path {
            state.see(resource);
        }
        if newcomer.is_none() {
            self.add_concerned(&mut state);
        }
        while !state.solved.is_empty() {
            self.fill(&mut state);
            if !self.add_concerned(&mut state) {
                break;
            }
        }
        for solved in &state.solved {
            let id = solved.flow;
            let rate = solved.rate.unwrap_or(0.0);
            let flow = &mut self.flows[id.0 as usize];
            if flow.rate != rate {
                flow.settle(now);
                flow.rate = rate;
                if Some(id) != newcomer {
                    self.touch(id);
                }
            }
        }
        state.clear();
        self.max_min = Some(state);
    }

    /// Gives each flow of the set its rate: the resource with the smallest level first.
    fn fill(&self, state: &mut MaxMin) {
        for solved in &mut state.solved {
            solved.rate = None;
        }
        let place = &state.place;
        for server in &mut state.servers {
            server.holds_back = false;
            server.open = 0;
            server.left = self.resources[server.resource.0 as usize].rate;
            for id in self.members(server.resource) {
                if is_in(place, id) {
                    server.open += 1;
                } else {
                    server.left -= self.rate_on(id, server.resource, None);
                }
            }
        }
        let mut unsolved = state.solved.len();
        while unsolved > 0 {
            // The fullest resource, or the smallest own limit below its level.
            let mut level = f64::INFINITY;
            let mut fullest = None;
            for (index, server) in state.servers.iter().enumerate() {
                if server.open > 0 {
                    let share = server.left.max(0.0) / f64::from(server.open);
                    if share < level {
                        level = share;
                        fullest = Some(index);
                    }
                }
            }
            let before = unsolved;
            for index in 0..state.solved.len() {
                if state.solved[index].rate.is_some() {
                    continue;
                }
                let id = state.solved[index].flow;
                let demand = &self.flows[id.0 as usize].demand;
                if demand.rate_max <= self.level_for(id, fullest, level, state) {
                    Self::fix(self, state, index, demand.rate_max, OWN_LIMIT);
                    unsolved -= 1;
                }
            }
            if unsolved < before {
                // Limits freed room: find the fullest again.
                continue;
            }
            let Some(fullest) = fullest else { break };
            let resource = state.servers[fullest].resource;
            if let Some((index, elsewhere, rate)) = self.held_elsewhere(state, resource, level) {
                let server = &mut state.servers[elsewhere];
                let holds = server.resource;
                server.holds_back = true;
                server.level = rate / self.scale_on(state.solved[index].flow, holds);
                Self::fix(self, state, index, rate, holds);
                unsolved -= 1;
                continue;
            }
            state.servers[fullest].holds_back = true;
            state.servers[fullest].level = level;
            for index in 0..state.solved.len() {
                let id = state.solved[index].flow;
                if state.solved[index].rate.is_none() && self.path(id).contains(&resource) {
                    let scale = self.scale_on(id, resource);
                    Self::fix(self, state, index, level * scale, resource);
                    unsolved -= 1;
                }
            }
        }
    }

    /// Of the open flows on a resource with the smallest level the one that another resource of its
    /// path holds back the most: its index, that resource's, and its rate.
    ///
    /// A bus counts other bytes than a link: the smallest level there may still be more than the
    /// flow's part of a link.
    fn held_elsewhere(
        &self,
        state: &MaxMin,
        resource: ResourceId,
        level: f64,
    ) -> Option<(usize, usize, f64)> {
        let mut found: Option<(usize, usize, f64)> = None;
        for (index, solved) in state.solved.iter().enumerate() {
            let path = self.path(solved.flow);
            let scale = self.scale_on(solved.flow, resource);
            if solved.rate.is_some() || scale <= 1.0 || !path.contains(&resource) {
                continue;
            }
            for &other in path {
                let place = state.server_of[other.0 as usize] as usize;
                let server = &state.servers[place];
                let share = server.left.max(0.0) / f64::from(server.open);
                let rate = share * self.scale_on(solved.flow, other);
                let least = found.map_or(level * scale * (1.0 - TOLERANCE), |(.., least)| least);
                if rate < least {
                    found = Some((index, place, rate));
                }
            }
        }
        found
    }

    /// The level that `fullest` would give to a flow, in the flow's bytes.
    ///
    /// A flow that does not cross that resource is not decided by it, but it will get at least the
    /// same level elsewhere, so a limit below the level is final for it too.
    fn level_for(&self, id: FlowId, fullest: Option<usize>, level: f64, state: &MaxMin) -> f64 {
        fullest.map_or(f64::INFINITY, |index| {
            level * self.scale_on(id, state.servers[index].resource).min(1.0)
        })
    }

    fn fix(&self, state: &mut MaxMin, index: usize, rate: f64, bottleneck: ResourceId) {
        let id = state.solved[index].flow;
        state.solved[index].rate = Some(rate);
        state.bottleneck[id.0 as usize] = bottleneck;
        for &resource in self.path(id) {
            let scale = self.scale_on(id, resource);
            let server = &mut state.servers[state.server_of[resource.0 as usize] as usize];
            server.left -= rate / scale;
            server.open -= 1;
        }
    }

    /// Adds flows that the set's rates concern; says whether there were any.
    fn add_concerned(&self, state: &mut MaxMin) -> bool {
        let solved_before = state.solved.len();
        let mut rates = core::mem::take(&mut state.rates);
        // Flows that join add resources that need no look: nothing has changed there yet.
        for index in 0..state.servers.len() {
            let Server {
                resource,
                holds_back,
                level,
                ..
            } = state.servers[index];
            rates.clear();
            rates.extend(self.members(resource).map(|id| {
                let place = state.place_of(id).filter(|&place| place < solved_before);
                let rate = place.and_then(|place| state.solved[place].rate);
                (id, self.rate_on(id, resource, rate))
            }));
            let used: f64 = rates.iter().map(|&(_, rate)| rate).sum();
            let fastest = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
            let is_full = used >= self.resources[resource.0 as usize].rate * (1.0 - TOLERANCE);
            for &(id, rate) in &rates {
                if state.place_of(id).is_some() {
                    continue;
                }
                let hogs = holds_back && rate > level * (1.0 + TOLERANCE);
                let lost_bottleneck = state.bottleneck.get(id.0 as usize) == Some(&resource)
                    && !(is_full && rate >= fastest * (1.0 - TOLERANCE));
                if hogs || lost_bottleneck {
                    state.add(id, self.path(id));
                }
            }
        }
        state.rates = rates;
        state.solved.len() > solved_before
    }

    fn members(&self, resource: ResourceId) -> impl Iterator<Item = FlowId> {
        self.resources[resource.0 as usize].members()
    }

    /// Bytes of a flow for each byte on the resource.
    fn scale_on(&self, id: FlowId, resource: ResourceId) -> f64 {
        if resource.0 >= self.first_bus {
            self.flows[id.0 as usize].demand.scale
        } else {
            1.0
        }
    }

    fn rate_on(&self, id: FlowId, resource: ResourceId, rate: Option<f64>) -> f64 {
        rate.unwrap_or(self.flows[id.0 as usize].rate) / self.scale_on(id, resource)
    }
}
