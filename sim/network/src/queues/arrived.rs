//! Output queues that serve no byte before it has come: the published rule, made stricter.
//!
//! Messages enter queues, and their heads go on, as in [`super`]. What differs is how fast a queue
//! serves them. The bytes of a message come to its next queue as the one before serves them, and as
//! much later as its head does, or less behind a slow link, where a fast one catches up with what
//! is held back; to its first one as its adapter gives them. Those that have come
//! and are not served wait. A subqueue in which some wait gets a share; one in which none do passes
//! bytes on as they come, if that is slower, and what it leaves of its share goes to the others, in
//! equal parts. So a queue is never idle while bytes wait in it (generalised processor sharing;
//! Parekh and Gallager, IEEE/ACM Transactions on Networking 1(3), 1993), and small frames that take
//! turns do the same.
//!
//! Parts of a message are counted from 0 to 1, so that bytes on a link and those on a bus are one.
//! They come and go at rates that change at a few moments only. A change of a rate at one queue is
//! a change of what comes to the next one, a cable later, and may be one of other messages there:
//! this takes several times as many events as the published rule.

use std::collections::{BTreeMap, VecDeque};

use viaduct_engine::{EventId, EventQueue, Time};

use super::server::after;
use super::{FlowKey, NOBODY, ONE, Passing, Step, whole_bytes};
use crate::fluid::{FlowId, ResourceId};
use crate::followed::Waits;
use crate::hops::moving_time;

/// Part of a share by which a rate may be above it and still count as no more: what rounding makes.
const NOISE: f64 = 1e-12;

/// So often a queue is worked out at one instant before what it changes elsewhere is put off by a
/// picosecond: queues that change each other in a ring, without a delay, might never end.
const ROUNDS_MAX: u32 = 64;

/// What a queue serves of a message that has no bytes there, so that it does so at some rate.
const BYTES_MIN: f64 = 1e-9;

/// All queues, and the messages in them.
#[derive(Debug)]
pub(crate) struct Arrived {
    servers: Vec<Server>,
    /// Servers from this number on are buses.
    first_bus: u32,
    passages: Vec<Passage>,
    free: Vec<FlowId>,
    /// The last message of each flow that is in some queue.
    newest: BTreeMap<FlowKey, FlowId>,
    /// Queues whose shares are to be worked out before time moves on.
    changed: Vec<ResourceId>,
    /// By what a member may get: room for working shares out.
    wanted: Vec<(f64, u32)>,
}

/// A link or bus as a queue.
#[derive(Debug)]
struct Server {
    /// Bytes a picosecond.
    rate: f64,
    /// The first message of each busy subqueue, and which of its places this is.
    members: Vec<(FlowId, u32)>,
    busy_max: u32,
    /// Most bytes that had come and waited while several messages were there: in this window of the
    /// time series, and in those before.
    held_max: f64,
    held_max_before: f64,
    /// Bytes served, up to when that was worked out last.
    carried: f64,
    is_changed: bool,
    /// Until when it serves nobody; zero if it does.
    held_until: Time,
    /// When shares were worked out last, and how often at that instant.
    shared_at: Time,
    rounds: u32,
}

/// A part of a message that grows evenly from a time on.
#[derive(Clone, Copy, Debug)]
struct Curve {
    at: Time,
    part: f64,
    /// What it grows by in a picosecond.
    slope: f64,
}

/// A message on its way through its queues.
#[derive(Debug)]
struct Passage {
    tag: u32,
    is_active: bool,
    /// Whether its sender is done with it.
    is_gone: bool,
    /// Whether its head's coming to the last queue is to be told.
    owes_head: bool,
    places: Vec<Place>,
    /// Places that keep its sender, that its head has entered, and that have served it all.
    senders: usize,
    entered: usize,
    served: usize,
    /// The message of its flow before it, and that behind it.
    ahead: FlowId,
    behind: FlowId,
    event: EventId,
    /// When the event is.
    next: Time,
    /// Its end, counted as if its head had been at each place when it began, is not before; nor is
    /// its leaving its sender.
    end_min: Time,
    gone_min: Time,
    /// Before which nobody needs to hear of its end.
    told_min: Time,
    /// When its head is at the next place.
    head_at: Time,
    flow: Option<FlowKey>,
}

/// A queue on the way of a message.
#[derive(Debug)]
struct Place {
    resource: ResourceId,
    /// How far the last byte is from the first queue; how far the next one is from this for the
    /// message's head, and for bytes that are served here.
    lag: Time,
    hop: Time,
    bytes_hop: Time,
    /// What it has to serve.
    bytes: f64,
    is_busy: bool,
    /// What has come, and what will change that.
    came: Curve,
    changes: VecDeque<Curve>,
    /// What has been served.
    went: Curve,
    /// Whether bytes go on as they come.
    follows: bool,
    /// When nothing waits any more, or all has been served, if nothing changes before.
    due: Time,
    /// When all has been served.
    at: Time,
    /// The part that the queue's account has.
    accounted: f64,
}

impl Arrived {
    /// Queues with the given rates, bytes a picosecond; those from `first_bus` on are buses.
    pub(crate) fn new(rates: impl Iterator<Item = f64>, first_bus: u32) -> Self {
        let server = |rate| Server {
            rate,
            members: Vec::new(),
            busy_max: 0,
            held_max: 0.0,
            held_max_before: 0.0,
            carried: 0.0,
            is_changed: false,
            held_until: Time::ZERO,
            shared_at: Time::MAX,
            rounds: 0,
        };
        Self {
            servers: rates.map(server).collect(),
            first_bus,
            passages: Vec::new(),
            free: Vec::new(),
            newest: BTreeMap::new(),
            changed: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// A message begins to move; an event of its number is scheduled. Says whether its head comes
    /// to its last queue without having to wait.
    pub(crate) fn begin<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        passing: &Passing<'_>,
    ) -> (FlowId, bool) {
        let now = queue.now();
        let id = self.add(passing, now);
        let flow = self.passage(id).flow;
        let ahead = flow.and_then(|flow| self.newest.insert(flow, id));
        if let Some(ahead) = ahead {
            self.passage(ahead).behind = id;
            let passage = self.passage(id);
            passage.ahead = ahead;
            passage.owes_head = true;
        }
        self.wake(queue, id, now);
        (id, ahead.is_none())
    }

    /// The event of a message's number: its tag, and what has come of it. After [`Step::Served`]
    /// there is no such message.
    pub(crate) fn step<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
    ) -> (u32, Step) {
        let now = queue.now();
        let passage = self.passage(id);
        (passage.event, passage.next) = (EventId::NONE, Time::MAX);
        let tag = passage.tag;
        for index in passage.served..passage.places.len() {
            self.visit(queue, id, index);
        }
        let passage = self.passage(id);
        let count = passage.places.len();
        if passage.owes_head && passage.entered == count {
            passage.owes_head = false;
            let lag = passage.places.last().map_or(Time::ZERO, |it| it.lag);
            let head = passage.head_at.saturating_sub(lag);
            self.wake(queue, id, now);
            return (tag, Step::Head(head));
        }
        if !passage.is_gone && passage.served >= passage.senders {
            if passage.gone_min <= now {
                passage.is_gone = true;
                self.wake(queue, id, now);
                return (tag, Step::Gone);
            }
        } else if passage.served == count && passage.told_min <= now {
            let served = |place: &Place| place.at.saturating_sub(place.lag);
            let ends = passage.places.iter().map(served);
            let at = ends.fold(passage.end_min, Time::max);
            let leaves_sender = passage.senders == count;
            self.remove(queue, id);
            return (tag, Step::Served { at, leaves_sender });
        }
        self.plan(queue, id);
        (tag, Step::None)
    }

    /// Does what is due at one place of a message.
    fn visit<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
        index: usize,
    ) {
        let now = queue.now();
        let place = &mut self.passages[id.0 as usize].places[index];
        let mut is_changed = false;
        while place.changes.front().is_some_and(|it| it.at <= now) {
            let Some(change) = place.changes.pop_front() else {
                break;
            };
            place.went = place.went_until(now);
            place.came = change;
            is_changed = true;
        }
        if place.is_busy {
            let server = &mut self.servers[place.resource.0 as usize];
            if server.held_until != Time::ZERO && server.held_until <= now {
                server.held_until = Time::ZERO;
                is_changed = true;
            }
            let has_all = place.came.is_all();
            if has_all && (place.follows || place.due <= now) {
                self.serve_last(queue, id, index);
            } else if place.due <= now {
                place.follows = true;
                place.due = Time::MAX;
                is_changed = true;
            }
            if is_changed {
                self.change(id, index);
            }
        } else if self.may_enter(id, index, now) {
            self.enter(id, index, now);
        }
    }

    /// Whether a message's head is at a place, and no earlier message of its flow there.
    fn may_enter(&self, id: FlowId, index: usize, now: Time) -> bool {
        let passage = &self.passages[id.0 as usize];
        let is_there = passage.entered == index && passage.head_at <= now;
        is_there
            && (passage.ahead == NOBODY || self.passages[passage.ahead.0 as usize].served > index)
    }

    /// A queue begins to serve a message, whose head goes on.
    fn enter(&mut self, id: FlowId, index: usize, now: Time) {
        let passage = &mut self.passages[id.0 as usize];
        passage.entered += 1;
        passage.head_at = now + passage.places[index].hop;
        let place = &mut passage.places[index];
        place.is_busy = true;
        place.went.at = now;
        place.follows = !place.came.is_all() && place.came.part_at(now) == 0.0;
        let server = &mut self.servers[place.resource.0 as usize];
        server.members.push((id, index as u32));
        server.busy_max = server.busy_max.max(server.members.len() as u32);
        self.change(id, index);
    }

    /// A queue has served the last of a message.
    fn serve_last<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
        index: usize,
    ) {
        let now = queue.now();
        self.change(id, index);
        let passage = &mut self.passages[id.0 as usize];
        passage.served += 1;
        let place = &mut passage.places[index];
        place.is_busy = false;
        place.at = now;
        let end = Curve::all(now + place.bytes_hop);
        let server = &mut self.servers[place.resource.0 as usize];
        server.carried += (1.0 - place.accounted) * place.bytes;
        server
            .members
            .retain(|member| *member != (id, index as u32));
        if let Some(next) = passage.places.get_mut(index + 1) {
            next.expect(end);
        }
        let behind = passage.behind;
        if behind != NOBODY {
            self.wake(queue, behind, now);
        }
    }

    /// The shares of a message's queue are to be worked out.
    fn change(&mut self, id: FlowId, index: usize) {
        let resource = self.passages[id.0 as usize].places[index].resource;
        let server = &mut self.servers[resource.0 as usize];
        if !server.is_changed {
            server.is_changed = true;
            self.changed.push(resource);
        }
    }

    /// To be called before time moves on: works out the shares that this instant has changed.
    pub(crate) fn settle<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        while let Some(resource) = self.changed.pop() {
            self.servers[resource.0 as usize].is_changed = false;
            self.share(queue, resource);
        }
    }

    /// Works out what each message gets of a queue from now on.
    fn share<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, resource: ResourceId) {
        let now = queue.now();
        let server = &mut self.servers[resource.0 as usize];
        server.rounds = if server.shared_at == now {
            server.rounds + 1
        } else {
            0
        };
        server.shared_at = now;
        let late = if server.rounds < ROUNDS_MAX {
            Time::ZERO
        } else {
            ONE
        };
        let mut left = if server.held_until > now {
            0.0
        } else {
            server.rate
        };
        // Who wants least is first: what it leaves is shared by the others.
        self.wanted.clear();
        let mut held = 0.0;
        for (number, &(id, index)) in (0..).zip(&server.members) {
            let place = &mut self.passages[id.0 as usize].places[index as usize];
            place.went = place.went_until(now);
            held += place.waits_at(now);
            let wants = match place.follows {
                true => place.came.slope * place.bytes,
                false => f64::INFINITY,
            };
            self.wanted.push((wants, number));
        }
        if server.members.len() > 1 {
            server.held_max = server.held_max.max(held);
        }
        self.wanted
            .sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for sharing in 0..self.wanted.len() {
            let (wants, number) = self.wanted[sharing];
            let (id, index) = self.servers[resource.0 as usize].members[number as usize];
            let share = left / (self.wanted.len() - sharing) as f64;
            let passage = &mut self.passages[id.0 as usize];
            let place = &mut passage.places[index as usize];
            let (got, slope) = if wants <= share * (1.0 + NOISE) {
                (wants, place.came.slope)
            } else {
                place.follows = false;
                (share, share / place.bytes)
            };
            left = (left - got).max(0.0);
            let is_other = slope != place.went.slope;
            place.went.slope = slope;
            place.due = place.due_from(now);
            let change = Curve {
                at: now + place.bytes_hop.max(late),
                ..place.went
            };
            let is_at_once = change.at == now;
            if is_other && let Some(next) = passage.places.get_mut(index as usize + 1) {
                next.expect(change);
                if is_at_once && next.is_busy {
                    self.wake(queue, id, now);
                }
            }
            self.plan(queue, id);
        }
    }

    /// The event of a message is when something is due next.
    fn plan<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        let passage = &self.passages[id.0 as usize];
        let mut next = Time::MAX;
        for (index, place) in passage.places.iter().enumerate().skip(passage.served) {
            if index > passage.entered {
                break;
            }
            if place.is_busy {
                next = next.min(place.due);
                let server = &self.servers[place.resource.0 as usize];
                if server.is_changed {
                    // When is known once its share is; it has an event until then.
                    next = next.min(queue.now() + ONE);
                }
                if server.held_until > queue.now() {
                    next = next.min(server.held_until);
                }
                if let Some(change) = place.changes.front() {
                    next = next.min(change.at);
                }
            } else if self.may_enter(id, index, Time::MAX) {
                next = next.min(passage.head_at);
            }
        }
        let (served, count) = (passage.served, passage.places.len());
        if !passage.is_gone && served >= passage.senders {
            next = next.min(passage.gone_min);
        } else if served == count {
            next = next.min(passage.told_min);
        }
        self.wake(queue, id, next);
    }

    /// A message's event is at a time, or earlier.
    fn wake<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId, at: Time) {
        let at = at.max(queue.now());
        let passage = &mut self.passages[id.0 as usize];
        if at == passage.next {
            return;
        }
        if passage.next == queue.now() && passage.event != EventId::NONE {
            return;
        }
        passage.next = at;
        if at == Time::MAX {
            queue.cancel(passage.event);
            passage.event = EventId::NONE;
        } else if !queue.reschedule(passage.event, at) {
            passage.event = queue.schedule(at, E::from(id));
        }
    }

    fn add(&mut self, passing: &Passing<'_>, now: Time) -> FlowId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.passages.push(Passage::EMPTY);
            FlowId(self.passages.len() as u32 - 1)
        });
        let demand = &passing.demand;
        let bytes_on = [demand.wire_bytes, demand.wire_bytes / demand.scale];
        let passage = &mut self.passages[id.0 as usize];
        let mut places = core::mem::take(&mut passage.places);
        places.clear();
        for (index, stop) in passing.stops.iter().enumerate() {
            let next = passing.stops.get(index + 1).unwrap_or(stop);
            let is_bus = stop.resource.0 >= self.first_bus;
            places.push(Place {
                resource: stop.resource,
                lag: stop.lag,
                hop: next.offset.saturating_sub(stop.offset),
                bytes_hop: next.lag.saturating_sub(stop.lag),
                bytes: bytes_on[usize::from(is_bus)].max(BYTES_MIN),
                ..Place::EMPTY
            });
        }
        if let Some(first) = places.first_mut() {
            first.came = Curve::all(now);
            if demand.rate_max.is_finite() {
                first.came = Curve {
                    at: now,
                    part: 0.0,
                    slope: demand.rate_max / demand.wire_bytes,
                };
                let all = now + moving_time(demand.wire_bytes, demand.rate_max);
                first.expect(Curve::all(all));
            }
        }
        let last = passing.stops.last().map_or(Time::ZERO, |it| it.lag);
        let end_min = now + passing.unshared;
        *passage = Passage {
            tag: demand.tag,
            is_active: true,
            is_gone: passing.senders == places.len(),
            flow: passing.flow.filter(|_| !places.is_empty()),
            places,
            senders: passing.senders,
            end_min,
            gone_min: now + passing.sending,
            told_min: end_min + last,
            head_at: now,
            ..Passage::EMPTY
        };
        id
    }

    fn remove<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        let passage = self.passage(id);
        passage.is_active = false;
        let (flow, ahead, behind) = (passage.flow, passage.ahead, passage.behind);
        self.free.push(id);
        if ahead != NOBODY {
            self.passage(ahead).behind = behind;
        }
        if behind != NOBODY {
            self.passage(behind).ahead = ahead;
            let now = queue.now();
            self.wake(queue, behind, now);
        } else if let Some(flow) = flow {
            match ahead {
                NOBODY => self.newest.remove(&flow),
                ahead => self.newest.insert(flow, ahead),
            };
        }
    }

    fn passage(&mut self, id: FlowId) -> &mut Passage {
        &mut self.passages[id.0 as usize]
    }

    /// What a message waited for that all its queues have served.
    pub(crate) fn waits_of(&self, id: FlowId) -> Waits {
        let passage = &self.passages[id.0 as usize];
        let places = passage.places.iter();
        let served = places.map(|it| (it.resource, it.at.saturating_sub(it.lag)));
        Waits::of_queues(passage.end_min, served)
    }

    /// What a message belongs to.
    pub(crate) fn tag(&self, id: FlowId) -> u32 {
        self.passages[id.0 as usize].tag
    }

    /// What the messages in queues belong to.
    pub(crate) fn active_tags(&self) -> impl Iterator<Item = u32> {
        let active = self.passages.iter().filter(|passage| passage.is_active);
        active.map(|passage| passage.tag)
    }

    /// Subqueues of a queue that are busy now.
    pub(crate) fn busy_on(&self, resource: ResourceId) -> u32 {
        self.servers[resource.0 as usize].members.len() as u32
    }

    /// A short transaction takes `time` of a bus away from what it serves.
    pub(crate) fn hold_up(&mut self, bus: ResourceId, time: Time, now: Time) {
        let server = &mut self.servers[bus.0 as usize];
        if let Some(&(id, index)) = server.members.first() {
            server.held_until = server.held_until.max(now) + time;
            self.change(id, index as usize);
        }
    }

    /// Works out what all queues have served until now.
    pub(crate) fn account_all(&mut self, now: Time) {
        for server in &mut self.servers {
            for &(id, index) in &server.members {
                let place = &mut self.passages[id.0 as usize].places[index as usize];
                let part = place.went_until(now).part;
                server.carried += (part - place.accounted) * place.bytes;
                place.accounted = part;
            }
        }
    }

    /// Begins a new account of what queues carry.
    pub(crate) fn clear_carried(&mut self) {
        for server in &mut self.servers {
            server.carried = 0.0;
        }
    }

    /// Bytes that a queue has served, up to when that was worked out last.
    pub(crate) fn carried(&self, resource: ResourceId) -> f64 {
        self.servers[resource.0 as usize].carried
    }

    /// A queue's rate, bytes a picosecond.
    pub(crate) fn rate(&self, resource: ResourceId) -> f64 {
        self.servers[resource.0 as usize].rate
    }

    /// Most subqueues that a queue ever had busy.
    pub(crate) fn busy_max(&self, resource: ResourceId) -> u32 {
        self.servers[resource.0 as usize].busy_max
    }

    /// As [`super::Queues::held_max_bytes`], of bytes that had come.
    pub(crate) fn held_max_bytes(&self, link: ResourceId) -> u64 {
        whole_bytes(self.servers[link.0 as usize].held_max_before)
    }

    /// As [`Arrived::held_max_bytes`], of the window of the time series that ends now.
    pub(crate) fn take_held_max_bytes(&mut self, link: ResourceId, now: Time) -> u64 {
        let server = &mut self.servers[link.0 as usize];
        let mut held = 0.0;
        if server.members.len() > 1 {
            for &(id, index) in &server.members {
                held += self.passages[id.0 as usize].places[index as usize].waits_at(now);
            }
        }
        let most = core::mem::replace(&mut server.held_max, held).max(held);
        server.held_max_before = server.held_max_before.max(most);
        whole_bytes(most)
    }

    /// Memory of all this.
    pub(crate) fn state_bytes(&self) -> usize {
        let members = |server: &Server| server.members.capacity() * size_of::<(FlowId, u32)>();
        let places = |passage: &Passage| {
            let changes = |place: &Place| place.changes.capacity() * size_of::<Curve>();
            passage.places.capacity() * size_of::<Place>()
                + passage.places.iter().map(changes).sum::<usize>()
        };
        self.servers.capacity() * size_of::<Server>()
            + self.servers.iter().map(members).sum::<usize>()
            + self.passages.capacity() * size_of::<Passage>()
            + self.passages.iter().map(places).sum::<usize>()
    }
}

impl Curve {
    const NOTHING: Self = Self {
        at: Time::ZERO,
        part: 0.0,
        slope: 0.0,
    };

    /// All of a message is there.
    const fn all(at: Time) -> Self {
        Self {
            at,
            part: 1.0,
            slope: 0.0,
        }
    }

    fn is_all(&self) -> bool {
        self.part >= 1.0 && self.slope == 0.0
    }

    fn part_at(&self, now: Time) -> f64 {
        let span = now.saturating_sub(self.at).picoseconds() as f64;
        (self.part + self.slope * span).min(1.0)
    }
}

impl Passage {
    const EMPTY: Self = Self {
        tag: 0,
        is_active: false,
        is_gone: false,
        owes_head: false,
        places: Vec::new(),
        senders: 0,
        entered: 0,
        served: 0,
        ahead: NOBODY,
        behind: NOBODY,
        event: EventId::NONE,
        next: Time::MAX,
        end_min: Time::ZERO,
        gone_min: Time::ZERO,
        told_min: Time::ZERO,
        head_at: Time::ZERO,
        flow: None,
    };
}

impl Place {
    const EMPTY: Self = Self {
        resource: ResourceId(u32::MAX),
        lag: Time::ZERO,
        hop: Time::ZERO,
        bytes_hop: Time::ZERO,
        bytes: 0.0,
        is_busy: false,
        came: Curve::NOTHING,
        changes: VecDeque::new(),
        went: Curve::NOTHING,
        follows: false,
        due: Time::MAX,
        at: Time::ZERO,
        accounted: 0.0,
    };

    /// From a time on something else comes.
    fn expect(&mut self, change: Curve) {
        while self.changes.back().is_some_and(|it| it.at >= change.at) {
            self.changes.pop_back();
        }
        self.changes.push_back(change);
    }

    /// What has been served until now, and what goes on.
    fn went_until(&self, now: Time) -> Curve {
        let went = if self.follows { &self.came } else { &self.went };
        Curve {
            at: now,
            part: went.part_at(now),
            slope: self.went.slope,
        }
    }

    /// Bytes that have come and wait.
    fn waits_at(&self, now: Time) -> f64 {
        let waits = self.came.part_at(now) - self.went_until(now).part;
        waits.max(0.0) * self.bytes
    }

    /// When nothing waits any more, or all has been served, at the present rates.
    fn due_from(&self, now: Time) -> Time {
        let (left, speed) = if self.came.is_all() {
            // By rounding all of it may have been served a part of a picosecond early. It ends now
            // even where the queue is held up: the next one takes it that all has come.
            if self.went.part >= 1.0 && !self.follows {
                return now;
            }
            (1.0 - self.went.part, self.went.slope)
        } else {
            let waits = self.came.part_at(now) - self.went.part;
            (waits, self.went.slope - self.came.slope)
        };
        if self.follows || speed <= 0.0 {
            return Time::MAX;
        }
        now.saturating_add(after(left.max(0.0) / speed))
    }
}
