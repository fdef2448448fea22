//! Crowds: many flows that one link alone holds back share one event and one clock.
//!
//! As long as nothing but one link holds some flows back, each moves at that link's share, so that
//! all have moved equally much since any moment. Such flows *ride*: they are counted on their
//! resources, but no list of members there has them. The crowd's virtual clock is the bytes that a
//! rider has moved. A rider ends at a fixed mark of that clock, and only the rider that ends next
//! has an event. A flow that begins or ends costs a place in a heap, however many ride.
//!
//! A crowd needs two conditions. Its link's share may rise up to its ceiling, which lies below all
//! other shares and limits of its riders. No other resource's share may fall below its floor, the
//! highest ceiling of the riders there. Where either would be broken, all crowds end, and their
//! riders are flows like others again. With max-min sharing, riders must be alone on their
//! resources, so that nobody takes what they leave: nor may they cross the link of another crowd,
//! whose riders would.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use viaduct_engine::{EventId, EventQueue, Time};

use super::{FlowDemand, FlowId, Fluid, ResourceId, whole_above};

/// How many flows a link must have for a crowd: with fewer, the flows cost little by themselves.
pub(super) const CROWD_MIN: u32 = 48;
/// How many times the link's share the least other share must be.
const ROOM: f64 = 1.05;
/// Bytes of the clock after which it begins anew: marks stay exact to a fraction of a picosecond.
const CLOCK_MAX_BYTES: f64 = 1e8;

#[derive(Debug)]
pub(super) struct Crowd {
    link: ResourceId,
    /// The virtual clock: bytes that each rider has moved at `updated`.
    moved: f64,
    updated: Time,
    /// The clock's speed: bytes a picosecond of each rider.
    level: f64,
    /// The highest level at which nothing else holds a rider back.
    ceiling: f64,
    /// The marks of the clock at which riders end, by their bits: none is negative.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// The end of the rider that ends next.
    event: EventId,
    next: Option<FlowId>,
}

impl Crowd {
    /// Moves the clock on to a time; from then on it goes at `level`.
    fn advance(&mut self, now: Time, level: f64) {
        self.moved = self.moved_at(now);
        self.updated = now;
        self.level = level;
    }

    fn moved_at(&self, now: Time) -> f64 {
        let span = now.saturating_sub(self.updated).picoseconds() as f64;
        self.moved + self.level * span
    }

    /// What a rider has left at `moved`.
    fn left(&self, mark: u64) -> f64 {
        (f64::from_bits(mark) - self.moved).max(0.0)
    }

    /// Begins the clock anew at zero.
    fn restart_clock(&mut self) {
        let riders = core::mem::take(&mut self.ends).into_vec();
        let ends = riders
            .into_iter()
            .map(|Reverse((mark, id))| Reverse((self.left(mark).to_bits(), id)));
        self.ends = ends.collect();
        self.moved = 0.0;
    }

    /// Has the event be the end of the rider that ends next, `least` or later.
    fn schedule_next<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, least: Time) {
        if self.moved > CLOCK_MAX_BYTES {
            self.restart_clock();
        }
        let Some(&Reverse((mark, id))) = self.ends.peek() else {
            queue.cancel(self.event);
            self.next = None;
            return;
        };
        let span = whole_above(self.left(mark) / self.level);
        let end = self.updated.saturating_add(Time::from_picoseconds(span));
        let end = end.max(least);
        if self.next == Some(FlowId(id)) && queue.reschedule(self.event, end) {
            return;
        }
        queue.cancel(self.event);
        self.event = queue.schedule(end, E::from(FlowId(id)));
        self.next = Some(FlowId(id));
    }
}

impl Fluid {
    /// Has a flow that begins ride, if it can.
    pub(super) fn join_crowd<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
        path: &[ResourceId],
    ) -> bool {
        let mut crowds = self.crowds.iter();
        let Some(index) = crowds.position(|crowd| path.contains(&crowd.link)) else {
            return false;
        };
        let (link, ceiling) = (self.crowds[index].link, self.crowds[index].ceiling);
        let demand = self.flows[id.0 as usize].demand;
        if demand.rate_max < ceiling {
            return false;
        }
        for &resource in path {
            let server = &self.resources[resource.0 as usize];
            let share = server.rate / f64::from(server.len() + 1);
            let is_of_others = |crowd: &Crowd| crowd.link == resource && resource != link;
            let is_free = self.max_min.is_none()
                || server.member_count() == 0 && !self.crowds.iter().any(is_of_others);
            let is_enough = resource == link || share * self.scale(&demand, resource) >= ceiling;
            // Riders of other crowds may cross this crowd's link, too.
            if !is_free || !is_enough || share < server.floor() {
                return false;
            }
        }
        if let Some(state) = &mut self.max_min {
            state.begin_rider(id);
        }
        for &resource in path {
            let scale = self.scale(&demand, resource);
            let server = &mut self.resources[resource.0 as usize];
            server.join_rider();
            if resource != link {
                server.raise_floor(ceiling / scale);
            }
        }
        let flow = &mut self.flows[id.0 as usize];
        flow.rides = true;
        flow.end = EventId::NONE;
        let now = queue.now();
        let crowd = &mut self.crowds[index];
        let mark = crowd.moved_at(now) + flow.remaining;
        crowd.ends.push(Reverse((mark.to_bits(), id.0)));
        // A flow takes time, however little.
        let least = now + Time::from_picoseconds(1);
        for crowd in &mut self.crowds {
            if path.contains(&crowd.link) {
                crowd.advance(now, self.resources[crowd.link.0 as usize].share);
                crowd.schedule_next(queue, least);
            }
        }
        true
    }

    /// A rider has moved all its bytes: takes it out of its crowd and off its resources.
    pub(super) fn leave_crowd(&mut self, id: FlowId) {
        let mut crowds = self.crowds.iter_mut();
        if let Some(crowd) = crowds.find(|crowd| crowd.next == Some(id)) {
            crowd.ends.pop();
            crowd.next = None;
        }
        let flow = &mut self.flows[id.0 as usize];
        flow.rides = false;
        for &resource in self.paths.of(id, flow.path_len) {
            self.resources[resource.0 as usize].leave_rider();
        }
    }

    /// After a flow began or ended: has crowds go on at the present shares of their links, or ends
    /// all where something else would hold a rider back.
    pub(super) fn update_crowds<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
    ) {
        let now = queue.now();
        let is_max_min = self.max_min.is_some();
        let path = self.paths.of(id, self.flows[id.0 as usize].path_len);
        let mut must_end = path.iter().any(|resource| {
            let server = &self.resources[resource.0 as usize];
            let is_mixed = is_max_min && server.member_count() > 0;
            server.rider_count() > 0 && (is_mixed || server.share < server.floor())
        });
        for crowd in &mut self.crowds {
            if path.contains(&crowd.link) {
                let server = &self.resources[crowd.link.0 as usize];
                let is_small = server.rider_count() < self.crowd_min / 2;
                must_end |= is_small || server.share > crowd.ceiling;
                if !must_end {
                    crowd.advance(now, server.share);
                    crowd.schedule_next(queue, now);
                }
            }
        }
        if must_end {
            self.end_crowds(queue);
        }
    }

    /// Makes flows like others of all riders, at the rates that they had.
    fn end_crowds<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let now = queue.now();
        for mut crowd in core::mem::take(&mut self.crowds) {
            queue.cancel(crowd.event);
            let level = crowd.level;
            crowd.advance(now, level);
            let riders = core::mem::take(&mut crowd.ends).into_sorted_vec();
            // In the order of their ends, so that the order of the heap decides nothing.
            for Reverse((mark, id)) in riders.into_iter().rev() {
                let id = FlowId(id);
                let flow = &mut self.flows[id.0 as usize];
                flow.rides = false;
                flow.remaining = crowd.left(mark);
                flow.rate = level;
                flow.updated = now;
                for &resource in self.paths.of(id, flow.path_len) {
                    self.resources[resource.0 as usize].rider_becomes_member(id);
                }
                if let Some(state) = &mut self.max_min {
                    state.rider_becomes_member(id, &flow.demand, level, crowd.link);
                }
                flow.end = queue.schedule(flow.end_time().max(now), E::from(id));
            }
        }
        // As many flows begin before the next crowd as its making costs.
        self.crowd_pause = self.flows.len() as u32;
    }

    /// Makes crowds of what links alone hold back, now that an instant is over.
    #[cold]
    pub(super) fn make_crowds<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let mut links = core::mem::take(&mut self.crowded);
        links.sort_unstable();
        links.dedup();
        for link in links.drain(..) {
            let server = &self.resources[link.0 as usize];
            let members = server.member_count();
            let may_be = members >= self.crowd_min && server.rider_count() == 0;
            if may_be && !self.make_crowd(queue, link) {
                self.crowd_pause = self.crowd_pause.saturating_add(members);
            }
        }
        self.crowded = links;
    }

    /// Makes a crowd of the flows that a link alone holds back, if they are enough.
    fn make_crowd<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        link: ResourceId,
    ) -> bool {
        let server = &self.resources[link.0 as usize];
        let level = server.share;
        let is_max_min = self.max_min.is_some();
        let (mut riders, mut least) = (Vec::new(), f64::INFINITY);
        let mut crossed: BTreeMap<u32, u32> = BTreeMap::new();
        for id in server.members() {
            match self.room_of(id, link) {
                Some(room) if room >= level * ROOM => {
                    riders.push(id);
                    least = least.min(room);
                    for resource in self.paths.of(id, self.flows[id.0 as usize].path_len) {
                        *crossed.entry(resource.0).or_default() += 1;
                    }
                }
                _ if is_max_min => return false,
                _ => {}
            }
        }
        let is_mixed = is_max_min
            && crossed
                .iter()
                .any(|(&resource, &riders)| self.resources[resource as usize].len() != riders);
        if riders.len() < self.crowd_min as usize || is_mixed {
            return false;
        }
        let now = queue.now();
        let ceiling = (level + least) / 2.0;
        let mut crowd = Crowd {
            link,
            moved: 0.0,
            updated: now,
            level,
            ceiling,
            ends: BinaryHeap::with_capacity(riders.len()),
            event: EventId::NONE,
            next: None,
        };
        for id in riders {
            let flow = &mut self.flows[id.0 as usize];
            flow.settle(now);
            flow.rides = true;
            queue.cancel(flow.end);
            crowd.ends.push(Reverse((flow.remaining.to_bits(), id.0)));
            let (demand, path_len) = (flow.demand, flow.path_len);
            for &resource in self.paths.of(id, path_len) {
                let scale = self.scale(&demand, resource);
                let server = &mut self.resources[resource.0 as usize];
                server.member_becomes_rider(id);
                if resource != link {
                    server.raise_floor(ceiling / scale);
                }
            }
            if let Some(state) = &mut self.max_min {
                state.member_becomes_rider(id);
            }
        }
        crowd.schedule_next(queue, now + Time::from_picoseconds(1));
        self.crowds.push(crowd);
        true
    }

    /// The least that anything but a link allows a flow which that link holds back; none if another
    /// resource or its own limit does.
    fn room_of(&self, id: FlowId, link: ResourceId) -> Option<f64> {
        let flow = &self.flows[id.0 as usize];
        let is_held = match &self.max_min {
            Some(state) => state.is_held_by(id, link),
            None => flow.rate >= self.resources[link.0 as usize].share,
        };
        let others = self.paths.of(id, flow.path_len).iter();
        let others = others.filter(|&&resource| resource != link);
        let share = |&resource: &ResourceId| {
            self.resources[resource.0 as usize].share * self.scale(&flow.demand, resource)
        };
        is_held.then(|| others.map(share).fold(flow.demand.rate_max, f64::min))
    }

    /// Riders, and what they have not moved yet.
    pub(super) fn riders_left(&self, now: Time) -> Vec<(FlowId, f64)> {
        let mut left = Vec::new();
        for crowd in &self.crowds {
            let moved = crowd.moved_at(now);
            left.extend(
                crowd.ends.iter().map(|&Reverse((mark, id))| {
                    (FlowId(id), (f64::from_bits(mark) - moved).max(0.0))
                }),
            );
        }
        left
    }

    pub(super) fn crowds_bytes(&self) -> usize {
        let ends = self.crowds.iter().map(|crowd| crowd.ends.capacity());
        ends.sum::<usize>() * size_of::<Reverse<(u64, u32)>>()
    }

    /// Bytes of a flow on the link for each byte on a resource.
    fn scale(&self, demand: &FlowDemand, resource: ResourceId) -> f64 {
        if resource.0 >= self.first_bus {
            demand.scale
        } else {
            1.0
        }
    }
}
