//! Fluid servers: links and buses that share their rate among the flows that cross them.
//!
//! A flow crosses all resources of its path at once and moves at the smallest of its shares, at
//! most at its own limit. When a flow begins or ends, the shares on the resources of its path are
//! worked out again, and with them what is left of each flow there and when it ends. A flow whose
//! rate stays the same is not touched, so the cost of an event follows the few flows it concerns.
//!
//! Two rules ([`Sharing`]): `Fluid`, where each of n active flows gets 1/n of a resource and what
//! it does not use is lost, and `MaxMin` (`max_min.rs`), where unused shares are handed on. Max-min
//! shares are worked out once an instant: whoever moves time on calls [`Fluid::settle`] before.
//! Many flows that one link alone holds back cost as little as one (`crowd.rs`).
//!
//! Amounts are bytes on the link. A bus carries a message's bytes without framing: a flow's `scale`
//! (bytes on the link a byte of message) converts a bus's share.

mod crowd;
mod max_min;
mod resource;
#[cfg(test)]
mod tests;

use viaduct_engine::{EventId, EventQueue, Time, prefetch, prefetch_all};
use viaduct_topology::LinkId;

use self::crowd::{CROWD_MIN, Crowd};
use self::max_min::MaxMin;
use self::resource::Resource;
use crate::links::Sharing;

/// Number of a link or bus.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ResourceId(pub u32);

impl From<LinkId> for ResourceId {
    /// Links come first, with their own numbers.
    fn from(link: LinkId) -> Self {
        Self(link.0)
    }
}

/// Number of an active flow; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowId(pub u32);

/// What a flow carries and how fast it may go on its own.
#[derive(Clone, Copy, Debug)]
pub struct FlowDemand {
    /// Bytes on the link.
    pub wire_bytes: f64,
    /// Bytes on the link for each byte on a bus.
    pub scale: f64,
    /// The fastest that its source and target can go, bytes on the link a picosecond.
    pub rate_max: f64,
    /// What the flow belongs to; the caller's.
    pub tag: u32,
}

impl FlowDemand {
    /// Whether its bytes cross the buses of its ends as they move; some have crossed them before.
    #[inline]
    #[must_use]
    pub fn uses_buses(&self) -> bool {
        self.scale.is_finite()
    }

    /// Whether two are the same but for whom they belong to.
    #[inline]
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.wire_bytes == other.wire_bytes
            && self.scale == other.scale
            && self.rate_max == other.rate_max
    }
}

/// Resources and the flows that cross them.
#[derive(Debug)]
pub struct Fluid {
    resources: Vec<Resource>,
    /// Resources from this number on are buses.
    first_bus: u32,
    flows: Vec<Flow>,
    paths: Paths,
    free: Vec<FlowId>,
    max_min: Option<MaxMin>,
    /// Flows whose rate an event changes.
    touched: Vec<FlowId>,
    crowds: Vec<Crowd>,
    /// Links that may have become crowded in this instant.
    crowded: Vec<ResourceId>,
    /// Flows on a link from which on it is.
    crowd_min: u32,
    /// How many flows are to begin before the next crowd is made.
    crowd_pause: u32,
}

/// The paths of all flows in one list: for each as many places as the longest needs.
#[derive(Debug, Default)]
struct Paths {
    places: Vec<ResourceId>,
    stride: usize,
}

#[derive(Debug)]
struct Flow {
    demand: FlowDemand,
    /// Bytes on the link not yet moved at `updated`.
    remaining: f64,
    /// Bytes not yet credited to the resources of the path.
    uncredited: f64,
    /// Bytes a picosecond since `updated`.
    rate: f64,
    updated: Time,
    end: EventId,
    /// Resources of its path, in [`Paths`].
    path_len: u32,
    /// Whether the flow is in `touched`.
    is_touched: bool,
    active: bool,
    /// Whether it is in a crowd, which then knows what remains.
    rides: bool,
}

impl Fluid {
    /// Resources with the given rates, bytes a picosecond; those from `first_bus` on are buses.
    #[must_use]
    pub fn new(sharing: Sharing, rates: impl Iterator<Item = f64>, first_bus: u32) -> Self {
        let resources: Vec<Resource> = rates.map(Resource::new).collect();
        let max_min = (sharing == Sharing::MaxMin).then(|| MaxMin::new(resources.len()));
        Self {
            resources,
            first_bus,
            flows: Vec::new(),
            paths: Paths::default(),
            free: Vec::new(),
            max_min,
            touched: Vec::new(),
            crowds: Vec::new(),
            crowded: Vec::new(),
            crowd_min: CROWD_MIN,
            crowd_pause: 0,
        }
    }

    /// Begins a flow over `path` and schedules its end, an event made from its number.
    pub fn begin<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        path: &[ResourceId],
        demand: FlowDemand,
    ) -> FlowId {
        debug_assert!(!demand.rate_max.is_nan(), "a flow's rate is a number");
        let now = queue.now();
        let id = self.allocate(path, demand, now);
        if !self.crowds.is_empty() && self.join_crowd(queue, id, path) {
            self.slow_others(now, id, path);
            self.schedule_touched(queue);
            return id;
        }
        if self.max_min.is_some() {
            // With others on its path it is slower: the end is moved when the instant is over.
            self.flows[id.0 as usize].rate = self.begin_max_min(id, path);
            self.note_crowded(queue, id);
            return self.schedule_end(queue, id);
        }

        let mut rate = demand.rate_max;
        let mut is_alone = true;
        for &resource in path {
            let server = &mut self.resources[resource.0 as usize];
            is_alone &= server.join(id);
            let mut share = server.share;
            if resource.0 >= self.first_bus {
                share *= demand.scale;
            }
            rate = lesser(rate, share);
        }
        self.flows[id.0 as usize].rate = rate;
        if !is_alone {
            self.note_crowded(queue, id);
            self.slow_others(now, id, path);
            self.schedule_touched(queue);
        }
        self.schedule_end(queue, id)
    }

    /// A flow that does not ride has begun: what that means for crowds, or for their making.
    #[inline]
    fn note_crowded<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        if !self.crowds.is_empty() {
            self.update_crowds(queue, id);
        }
        if self.crowd_pause > 0 {
            self.crowd_pause -= 1;
            return;
        }
        let path = self.paths.of(id, self.flows[id.0 as usize].path_len);
        for &link in path.iter().filter(|link| link.0 < self.first_bus) {
            if self.resources[link.0 as usize].member_count() >= self.crowd_min {
                self.crowded.push(link);
            }
        }
    }

    #[inline(always)]
    fn schedule_end<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
    ) -> FlowId {
        let flow = &mut self.flows[id.0 as usize];
        // A flow takes time, however little, so that a chain of empty messages moves on.
        let end = flow.end_time().max(queue.now() + Time::from_picoseconds(1));
        flow.end = queue.schedule(end, E::from(id));
        id
    }

    /// Works out the max-min shares that this instant has changed, if it is over, and makes crowds:
    /// to be called before time moves on.
    #[inline]
    pub fn settle<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let is_unsettled = self.max_min.as_ref().is_some_and(MaxMin::is_unsettled);
        let is_due = is_unsettled || !self.crowded.is_empty();
        if is_due && queue.next_time().is_none_or(|next| next > queue.now()) {
            self.settle_now(queue);
        }
    }

    /// Works out the max-min shares that this instant has changed until now.
    #[inline(never)]
    fn settle_now<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let now = queue.now();
        self.solve_max_min(now);
        for id in self.touched.drain(..) {
            let flow = &mut self.flows[id.0 as usize];
            flow.is_touched = false;
            // What begins takes time, however little.
            let end = flow.end_time().max(now + Time::from_picoseconds(1));
            queue.reschedule(flow.end, end);
        }
        if !self.crowded.is_empty() {
            self.make_crowds(queue);
        }
    }

    /// Ends a flow; returns its tag.
    pub fn end<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) -> u32 {
        let now = queue.now();
        let flow = &mut self.flows[id.0 as usize];
        debug_assert!(flow.active, "a flow ends once");
        flow.active = false;
        let tag = flow.demand.tag;
        let carried = flow.uncredited;
        let carried_on_bus = carried / flow.demand.scale;
        let (rode, path_len) = (flow.rides, flow.path_len);
        if rode {
            self.leave_crowd(id);
        }
        let mut is_alone = true;
        for &resource in self.paths.of(id, path_len) {
            let server = &mut self.resources[resource.0 as usize];
            is_alone &= !rode && server.leave(id);
            let is_bus = resource.0 >= self.first_bus;
            server.carried += if is_bus { carried_on_bus } else { carried };
        }
        if !self.crowds.is_empty() {
            self.update_crowds(queue, id);
        }
        if self.max_min.is_some() {
            self.end_max_min(id);
        } else if !is_alone {
            self.quicken_others(now, id);
            self.schedule_touched(queue);
        }
        self.free.push(id);
        tag
    }

    /// Asks for a flow's memory, before its end is handled.
    #[inline]
    pub fn prefetch_flow(&self, id: FlowId) {
        prefetch_all(&self.flows[id.0 as usize]);
    }

    /// Asks for the memory of a flow's resources; returns its tag.
    #[inline]
    pub fn prefetch_path(&self, id: FlowId) -> u32 {
        let flow = &self.flows[id.0 as usize];
        self.prefetch_resources(self.paths.of(id, flow.path_len));
        flow.demand.tag
    }

    /// What a flow belongs to.
    #[inline]
    #[must_use]
    pub fn tag(&self, id: FlowId) -> u32 {
        self.flows[id.0 as usize].demand.tag
    }

    /// What the flows that have not ended belong to.
    pub fn active_tags(&self) -> impl Iterator<Item = u32> {
        let active = self.flows.iter().filter(|flow| flow.active);
        active.map(|flow| flow.demand.tag)
    }

    /// Asks for the memory of resources.
    #[inline]
    pub fn prefetch_resources(&self, path: &[ResourceId]) {
        for &resource in path {
            prefetch(&raw const self.resources[resource.0 as usize]);
        }
    }

    /// Flows that cross a resource now.
    #[inline]
    #[must_use]
    pub fn active_on(&self, resource: ResourceId) -> u32 {
        self.resources[resource.0 as usize].len()
    }

    /// A short transaction takes `time` of a bus away from the flows that it limits.
    pub fn hold_up<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        bus: ResourceId,
        time: Time,
    ) {
        if self.max_min.as_ref().is_some_and(MaxMin::is_unsettled) {
            self.settle_now(queue);
        }
        let server = &self.resources[bus.0 as usize];
        let share = server.share;
        for id in server.members() {
            let flow = &mut self.flows[id.0 as usize];
            let is_held = match &self.max_min {
                Some(state) => state.is_held_by(id, bus),
                None => flow.rate >= share * flow.demand.scale,
            };
            if is_held {
                flow.remaining += flow.rate * time.picoseconds() as f64;
                queue.reschedule(flow.end, flow.end_time());
            }
        }
    }

    /// Credits all resources with what active flows have moved up to now.
    pub fn credit_all(&mut self, now: Time) {
        for index in 0..self.flows.len() {
            let flow = &self.flows[index];
            if flow.active && !flow.rides {
                let remaining = flow.remaining_at(now);
                self.credit(FlowId(index as u32), remaining);
            }
        }
        for (id, remaining) in self.riders_left(now) {
            self.credit(id, remaining);
        }
    }

    /// Credits a flow's resources with what it has moved, so that so much is left.
    #[inline]
    fn credit(&mut self, id: FlowId, remaining: f64) {
        let flow = &mut self.flows[id.0 as usize];
        let remaining = remaining.min(flow.uncredited);
        let moved = flow.uncredited - remaining;
        flow.uncredited = remaining;
        for &resource in self.paths.of(id, flow.path_len) {
            let is_bus = resource.0 >= self.first_bus;
            let bytes = if is_bus {
                moved / flow.demand.scale
            } else {
                moved
            };
            self.resources[resource.0 as usize].carried += bytes;
        }
    }

    /// Begins a new account of what resources carry.
    pub fn clear_credit(&mut self) {
        for resource in &mut self.resources {
            resource.carried = 0.0;
        }
    }

    /// Bytes credited to a resource.
    #[must_use]
    pub fn carried(&self, resource: ResourceId) -> f64 {
        self.resources[resource.0 as usize].carried
    }

    /// A resource's rate, bytes a picosecond.
    #[inline]
    #[must_use]
    pub fn rate(&self, resource: ResourceId) -> f64 {
        self.resources[resource.0 as usize].rate
    }

    /// Most flows that a resource ever had.
    #[must_use]
    pub fn flows_max(&self, resource: ResourceId) -> u32 {
        self.resources[resource.0 as usize].flows_max
    }

    /// Memory of all this.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let resources = self.resources.capacity() * size_of::<Resource>();
        let spilled: usize = self.resources.iter().map(Resource::spilled_bytes).sum();
        let paths = self.paths.places.capacity() * size_of::<ResourceId>();
        let max_min = self.max_min.as_ref().map_or(0, MaxMin::state_bytes);
        let crowds = self.crowds_bytes();
        let flows = self.flows.capacity() * size_of::<Flow>();
        resources + spilled + paths + max_min + crowds + flows
    }

    #[inline]
    fn allocate(&mut self, path: &[ResourceId], demand: FlowDemand, now: Time) -> FlowId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow {
                demand,
                remaining: 0.0,
                uncredited: 0.0,
                rate: 0.0,
                updated: now,
                end: EventId::NONE,
                path_len: 0,
                is_touched: false,
                active: false,
                rides: false,
            });
            FlowId(self.flows.len() as u32 - 1)
        });
        self.paths.set(id, path, self.flows.len());
        let flow = &mut self.flows[id.0 as usize];
        flow.demand = demand;
        flow.remaining = demand.wire_bytes;
        flow.uncredited = demand.wire_bytes;
        flow.rate = 0.0;
        flow.updated = now;
        flow.path_len = path.len() as u32;
        flow.active = true;
        id
    }

    /// The share that a resource gives to each of its flows, in bytes on the link.
    #[inline]
    fn share(&self, resource: ResourceId, scale: f64) -> f64 {
        let share = self.resources[resource.0 as usize].share;
        if resource.0 >= self.first_bus {
            share * scale
        } else {
            share
        }
    }

    #[inline]
    fn smallest_share(&self, id: FlowId) -> f64 {
        let flow = &self.flows[id.0 as usize];
        let scale = flow.demand.scale;
        self.paths
            .of(id, flow.path_len)
            .iter()
            .map(|&resource| self.share(resource, scale))
            .fold(flow.demand.rate_max, lesser)
    }

    /// Lowers the rates of those that had more than their new, smaller share.
    #[inline]
    fn slow_others(&mut self, now: Time, newcomer: FlowId, path: &[ResourceId]) {
        for &resource in path {
            let server = &self.resources[resource.0 as usize];
            if server.len() == 1 {
                continue;
            }
            let is_bus = resource.0 >= self.first_bus;
            for id in server.members() {
                let flow = &mut self.flows[id.0 as usize];
                let share = if is_bus {
                    server.share * flow.demand.scale
                } else {
                    server.share
                };
                if flow.rate > share && id != newcomer {
                    flow.settle(now);
                    flow.rate = share;
                    touch(&mut self.touched, id, flow);
                }
            }
        }
    }

    /// Raises the rates of those that the departed flow had held back.
    #[inline]
    fn quicken_others(&mut self, now: Time, departed: FlowId) {
        let path_len = self.flows[departed.0 as usize].path_len;
        for &resource in self.paths.of(departed, path_len) {
            let server = &self.resources[resource.0 as usize];
            if server.len() == 0 {
                continue;
            }
            // What each had while the departed flow was there.
            let share_before = server.rate / f64::from(server.len() + 1);
            let is_bus = resource.0 >= self.first_bus;
            for id in server.members() {
                let flow = &self.flows[id.0 as usize];
                let before = if is_bus {
                    share_before * flow.demand.scale
                } else {
                    share_before
                };
                if flow.rate >= before {
                    let rate = self.smallest_share(id);
                    let flow = &mut self.flows[id.0 as usize];
                    if rate != flow.rate {
                        flow.settle(now);
                        flow.rate = rate;
                        touch(&mut self.touched, id, flow);
                    }
                }
            }
        }
    }

    fn schedule_touched<E: Copy>(&mut self, queue: &mut EventQueue<E>) {
        for id in self.touched.drain(..) {
            let flow = &mut self.flows[id.0 as usize];
            flow.is_touched = false;
            // What has nothing to move ends when it was to, a picosecond after it began.
            if flow.demand.wire_bytes > 0.0 {
                queue.reschedule(flow.end, flow.end_time());
            }
        }
    }
}

impl Flow {
    #[inline]
    fn remaining_at(&self, now: Time) -> f64 {
        let span = now.saturating_sub(self.updated).picoseconds() as f64;
        (self.remaining - self.rate * span).max(0.0)
    }

    /// Accounts for what was moved at the rate that held until now.
    fn settle(&mut self, now: Time) {
        self.remaining = self.remaining_at(now);
        self.updated = now;
    }

    /// When the flow ends at its present rate: the next whole picosecond.
    #[inline]
    fn end_time(&self) -> Time {
        let span = whole_above(self.remaining / self.rate);
        self.updated.saturating_add(Time::from_picoseconds(span))
    }
}

impl Paths {
    #[inline]
    fn of(&self, id: FlowId, len: u32) -> &[ResourceId] {
        &self.places[id.0 as usize * self.stride..][..len as usize]
    }

    /// Keeps the path of one of `flows` flows.
    #[inline]
    fn set(&mut self, id: FlowId, path: &[ResourceId], flows: usize) {
        if path.len() > self.stride {
            self.widen(path.len());
        }
        if self.places.len() < flows * self.stride {
            self.places
                .resize(flows * self.stride, ResourceId(u32::MAX));
        }
        self.places[id.0 as usize * self.stride..][..path.len()].copy_from_slice(path);
    }

    #[cold]
    fn widen(&mut self, stride: usize) {
        let mut places = Vec::new();
        if self.stride > 0 {
            for path in self.places.chunks_exact(self.stride) {
                places.extend_from_slice(path);
                places.resize(places.len() + stride - self.stride, ResourceId(u32::MAX));
            }
        }
        (self.places, self.stride) = (places, stride);
    }
}

#[inline]
fn touch(touched: &mut Vec<FlowId>, id: FlowId, flow: &mut Flow) {
    if !flow.is_touched {
        flow.is_touched = true;
        touched.push(id);
    }
}

/// As `f64::min`, where `share` is a number; one instruction.
#[inline]
fn lesser(rate: f64, share: f64) -> f64 {
    if rate < share { rate } else { share }
}

/// The least whole number that is not below, as `ceil` and a cast; without a call to a library.
#[inline]
pub(crate) fn whole_above(number: f64) -> u64 {
    /// From this one on, up to its double, the numbers of this type are one apart.
    const SPARSE: f64 = (1_u64 << 52) as f64;

    if (0.0..SPARSE).contains(&number) {
        // A sum among those is the nearest whole one, and its last bits are that number. A cast
        // takes twice as many instructions, since it minds what is no such number.
        let sum = number + SPARSE;
        let nearest = sum.to_bits() - SPARSE.to_bits();
        return nearest + u64::from(sum - SPARSE < number);
    }
    let whole = number as u64;
    whole.saturating_add(u64::from((whole as f64) < number))
}
