//! Output queues, each by itself: the published rule of sharing.
//!
//! Each link and bus is a queue with a subqueue for each flow, first in first out inside, and
//! serves each of its n busy subqueues with 1/n of its rate, whatever other queues do with the same
//! message. A message enters a queue with its whole length when its head comes there, and it may be
//! served there before its bytes have come. It leaves a queue when that has served it, and is there
//! when all have: no queue can have given away what another one still holds.
//!
//! A message's head goes on when its queue begins to serve it, so that only an earlier message of
//! the same flow holds it up. As long as there is none, the times at which it enters its queues are
//! known when it begins. They are told to the queues then, and nothing is worked out before
//! somebody asks what has left a queue by some time ([`server`]): a message takes two events, and
//! some more if others delay it. One that has an earlier message of its flow before it goes queue
//! by queue.
//!
//! Amounts are bytes on the link, and message bytes on a bus, as in [`crate::fluid`].

mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use viaduct_engine::{EventId, EventQueue, Time, prefetch, prefetch_all};

use self::server::{Happening, Server, Visit};
use crate::fluid::{FlowDemand, FlowId, ResourceId};
use crate::journeys::FlowName;

/// Names no message.
const NOBODY: FlowId = FlowId(u32::MAX);

/// A queue that a message is to go through, and how far the message's head is from the first one
/// when it gets there with nothing before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) resource: ResourceId,
    pub(crate) offset: Time,
}

/// What is to go through some queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'way> {
    pub(crate) stops: &'way [Stop],
    /// Of these, those that its sender is busy with.
    pub(crate) senders: usize,
    pub(crate) demand: FlowDemand,
    /// The subqueue that it belongs to at its first stop; none if it is alone in its own.
    pub(crate) flow: Option<FlowKey>,
    /// The least time that it takes, and that its sender is busy with it, nobody else there.
    pub(crate) unshared: Time,
    pub(crate) sending: Time,
}

/// Names a subqueue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlowKey(u128);

impl FlowKey {
    /// Of a flow of a class, whose messages enter queues at a place of their way.
    #[inline]
    pub(crate) fn new(((source, target), flow): FlowName, class: u8, place: u16) -> Self {
        let ends = u128::from(source) << 32 | u128::from(target);
        let rest = u128::from(class) << 16 | u128::from(place);
        Self((ends << 32 | u128::from(flow)) << 24 | rest)
    }

    /// Which of some equal parts of all flows it belongs to: a hash of its ends and number.
    pub(crate) const fn part(self, parts: u32) -> u32 {
        /// 2^64 over the golden ratio (Knuth, The Art of Computer Programming, volume 3, 6.4).
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

        let name = self.0 >> 24;
        let mixed = (name as u64).wrapping_mul(FACTOR) ^ ((name >> 64) as u64);
        ((mixed.wrapping_mul(FACTOR) >> 32) % parts as u64) as u32
    }
}

/// The shortest time.
const ONE: Time = Time::from_picoseconds(1);

/// What has come of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Nothing that anybody has to hear of.
    None,
    /// Its head, which had to wait, enters its last queue as if the message had begun at this time
    /// and had not waited.
    Head(Time),
    /// Its sender is done with it; other queues are not.
    Gone,
    /// Every queue has served it.
    Served {
        /// When they would have, had the message's head been in all of them when it began.
        at: Time,
        /// Whether its sender is done with it only now.
        leaves_sender: bool,
    },
}

/// All queues, and the messages in them.
#[derive(Debug)]
pub(crate) struct Queues {
    servers: Vec<Server>,
    /// Servers from this number on are buses.
    first_bus: u32,
    passages: Vec<Passage>,
    free: Vec<FlowId>,
    /// The last message of each flow that is in some queue, but for those whose first queue keeps
    /// that: it keeps one.
    last: BTreeMap<FlowKey, FlowId>,
}

/// A message on its way through its queues.
#[derive(Debug)]
struct Passage {
    tag: u32,
    wire_bytes: f64,
    scale: f64,
    is_active: bool,
    /// Whether its sender is done with it.
    is_gone: bool,
    /// Whether its head's coming to the last queue is to be told.
    owes_head: bool,
    /// Places that know of it, and those that keep its sender.
    entered: u32,
    senders: u32,
    places: Vec<Place>,
    /// Its end, counted as `served_at` is, and its leaving its sender are not before.
    end_min: Time,
    gone_min: Time,
    /// The latest time at which a queue has served it, less the distance to that queue.
    served_at: Time,
    /// When its head is at the place that knows of it last, or will be at the next.
    head_at: Time,
    event: EventId,
    flow: Option<FlowKey>,
    /// The message of its flow before it, and that behind it.
    ahead: FlowId,
    behind: FlowId,
}

/// A queue on the way of a message.
#[derive(Clone, Copy, Debug)]
struct Place {
    stop: Stop,
    /// When its head is here, once that is known.
    enters: Time,
    /// The level of the queue at which it will have been served; before it has entered
    /// [`NOT_ENTERED`], and afterwards [`SERVED`].
    finish: f64,
}

/// No level of a queue.
const NOT_ENTERED: f64 = -f64::INFINITY;
const SERVED: f64 = f64::INFINITY;

impl Queues {
    /// Queues with the given rates, bytes a picosecond; those from `first_bus` on are buses.
    pub(crate) fn new(rates: impl Iterator<Item = f64>, first_bus: u32) -> Self {
        Self {
            servers: rates.map(Server::new).collect(),
            first_bus,
            passages: Vec::new(),
            free: Vec::new(),
            last: BTreeMap::new(),
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
        let ahead = passing.flow.and_then(|flow| self.come_last(flow, id));
        if let Some(ahead) = ahead {
            self.passage(ahead).behind = id;
            let passage = self.passage(id);
            passage.ahead = ahead;
            passage.owes_head = true;
            self.wake(queue, id);
            return (id, false);
        }
        self.enter_rest(id);
        let passage = self.passage(id);
        let next = if passage.is_gone {
            passage.told_min()
        } else {
            passage.gone_min
        };
        passage.event = queue.schedule(next.max(now + ONE), E::from(id));
        (id, true)
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
        passage.event = EventId::NONE;
        let tag = passage.tag;
        let mut next = Time::MAX;
        if !passage.has_entered_all() {
            next = self.go_on(queue, id);
        }
        let passage = self.passage(id);
        if passage.owes_head && passage.has_entered_all() {
            passage.owes_head = false;
            let head = passage.head_as_if_begun();
            self.wake(queue, id);
            return (tag, Step::Head(head));
        }
        if !passage.is_gone && passage.entered >= passage.senders {
            let senders = passage.senders as usize;
            let gone = passage.gone_min;
            let gone = self.look(id, senders, now).max(gone);
            if gone <= now {
                let passage = self.passage(id);
                passage.is_gone = true;
                next = next.min(passage.told_min()).max(now);
                passage.event = queue.schedule(next, E::from(id));
                return (tag, Step::Gone);
            }
            next = next.min(gone);
        } else if passage.has_entered_all() {
            let (places, told) = (passage.places.len(), passage.told_min());
            let end = self.look(id, places, now).max(told);
            if end <= now {
                let passage = self.passage(id);
                let served = Step::Served {
                    at: passage.served_at.max(passage.end_min),
                    leaves_sender: passage.senders as usize == places,
                };
                self.remove(queue, id);
                return (tag, served);
            }
            next = next.min(end);
        }
        if next < Time::MAX {
            self.passage(id).event = queue.schedule(next.max(now + ONE), E::from(id));
        }
        (tag, Step::None)
    }

    /// Lets a message's head go on as far as it can: when it is to be looked at again, unless the
    /// message before it tells.
    fn go_on<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) -> Time {
        let now = queue.now();
        loop {
            let passage = self.passage(id);
            if passage.has_entered_all() {
                return Time::MAX;
            }
            let (place, ahead, behind) = (passage.entered, passage.ahead, passage.behind);
            if ahead == NOBODY {
                let passage = self.passage(id);
                passage.head_at = passage.head_at.max(now);
                self.enter_rest(id);
                self.wake_waiting(queue, behind);
                return Time::MAX;
            }
            if passage.head_at > now {
                return passage.head_at;
            }
            if self.passage(ahead).entered <= place {
                return Time::MAX;
            }
            let leaves = self.look_at(ahead, place as usize, now);
            if leaves > now {
                return leaves;
            }
            let passage = self.passage(id);
            passage.head_at = now;
            self.enter(id);
            self.wake_waiting(queue, behind);
        }
    }

    /// A message's head meets no earlier message of its flow any more: all its queues hear when it
    /// comes.
    fn enter_rest(&mut self, id: FlowId) {
        while !self.passage(id).has_entered_all() {
            self.enter(id);
        }
    }

    /// The next queue of a message hears when its head comes.
    #[inline]
    fn enter(&mut self, id: FlowId) {
        let passage = &mut self.passages[id.0 as usize];
        let index = passage.entered as usize;
        let (at, stop) = (passage.head_at, passage.places[index].stop);
        passage.places[index].enters = at;
        passage.entered += 1;
        if let Some(next) = passage.places.get(index + 1) {
            passage.head_at = at + next.stop.offset.saturating_sub(stop.offset);
        }
        let bytes = passage.work(stop.resource.0 >= self.first_bus);
        let visit = Visit {
            message: id,
            place: index as u32,
        };
        self.servers[stop.resource.0 as usize].expect(at, bytes, visit);
    }

    /// When the last of some places at the start of a message's way will have served it, at the
    /// earliest; a time that is not after `now` if all have.
    #[inline]
    fn look(&mut self, id: FlowId, places: usize, now: Time) -> Time {
        let mut last = Time::ZERO;
        for place in 0..places {
            last = last.max(self.look_at(id, place, now));
        }
        last
    }

    /// As [`Queues::look`], of one place.
    #[inline]
    fn look_at(&mut self, id: FlowId, place: usize, now: Time) -> Time {
        let place_of = |passages: &[Passage]| passages[id.0 as usize].places[place];
        let Place { stop, finish, .. } = place_of(&self.passages);
        if finish == SERVED {
            return Time::ZERO;
        }
        self.work_out(stop.resource, now);
        let Place { enters, finish, .. } = place_of(&self.passages);
        if finish == SERVED {
            return Time::ZERO;
        }
        let server = &self.servers[stop.resource.0 as usize];
        if finish == NOT_ENTERED {
            let is_bus = stop.resource.0 >= self.first_bus;
            return enters + server.alone(self.passages[id.0 as usize].work(is_bus));
        }
        server.leaves(finish)
    }

    /// Works out what has happened at a queue until now.
    #[inline]
    fn work_out(&mut self, resource: ResourceId, now: Time) {
        let server = &mut self.servers[resource.0 as usize];
        while let Some(happening) = server.next(now) {
            match happening {
                Happening::Entered(visit, finish) => {
                    let passage = &mut self.passages[visit.message.0 as usize];
                    passage.places[visit.place as usize].finish = finish;
                }
                Happening::Served(visit, at) => {
                    let passage = &mut self.passages[visit.message.0 as usize];
                    let place = &mut passage.places[visit.place as usize];
                    place.finish = SERVED;
                    let at = at.saturating_sub(place.stop.offset);
                    passage.served_at = passage.served_at.max(at);
                }
            }
        }
    }

    /// A message is looked at before time moves on.
    fn wake<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        let now = queue.now();
        let passage = self.passage(id);
        if !queue.reschedule(passage.event, now) {
            passage.event = queue.schedule(now, E::from(id));
        }
    }

    /// As [`Queues::wake`], if there is such a message and its head waits.
    fn wake_waiting<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        if id != NOBODY && !self.passage(id).has_entered_all() {
            self.wake(queue, id);
        }
    }

    fn add(&mut self, passing: &Passing<'_>, now: Time) -> FlowId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.passages.push(Passage::EMPTY);
            FlowId(self.passages.len() as u32 - 1)
        });
        let demand = &passing.demand;
        let passage = &mut self.passages[id.0 as usize];
        passage.places.clear();
        let places = passing.stops.iter().map(|&stop| Place {
            stop,
            enters: Time::MAX,
            finish: NOT_ENTERED,
        });
        passage.places.extend(places);
        passage.tag = demand.tag;
        passage.wire_bytes = demand.wire_bytes;
        passage.scale = demand.scale;
        passage.is_active = true;
        passage.senders = passing.senders as u32;
        passage.is_gone = passing.senders == passing.stops.len();
        passage.owes_head = false;
        passage.entered = 0;
        passage.end_min = now + passing.unshared;
        passage.gone_min = now + passing.sending;
        passage.served_at = Time::ZERO;
        passage.head_at = now;
        passage.flow = passing.flow;
        (passage.ahead, passage.behind) = (NOBODY, NOBODY);
        id
    }

    fn remove<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>, id: FlowId) {
        let passage = self.passage(id);
        passage.is_active = false;
        let (flow, ahead, behind) = (passage.flow, passage.ahead, passage.behind);
        self.free.push(id);
        // A message may end before the one ahead of it, whose ends were slower than its queues.
        if ahead != NOBODY {
            self.passage(ahead).behind = behind;
        }
        if behind != NOBODY {
            self.passage(behind).ahead = ahead;
            self.wake_waiting(queue, behind);
        } else if let Some(flow) = flow {
            self.go_last(id, flow, ahead);
        }
    }

    /// A message is the last of its flow now; the one that was.
    #[inline]
    fn come_last(&mut self, flow: FlowKey, id: FlowId) -> Option<FlowId> {
        let first = self.passages[id.0 as usize].places.first()?.stop.resource;
        let kept = &mut self.servers[first.0 as usize].last;
        match kept {
            Some((key, last)) if *key == flow => Some(core::mem::replace(last, id)),
            None if self.last.is_empty() => {
                *kept = Some((flow, id));
                None
            }
            _ => self.last.insert(flow, id),
        }
    }

    /// The last message of a flow is in no queue any more; the one before it, if it still is.
    #[inline]
    fn go_last(&mut self, id: FlowId, flow: FlowKey, ahead: FlowId) {
        let Some(first) = self.passages[id.0 as usize].places.first() else {
            return;
        };
        let kept = &mut self.servers[first.stop.resource.0 as usize].last;
        match kept {
            Some((key, last)) if *key == flow => {
                if ahead == NOBODY {
                    *kept = None;
                } else {
                    *last = ahead;
                }
            }
            _ if ahead == NOBODY => drop(self.last.remove(&flow)),
            _ => drop(self.last.insert(flow, ahead)),
        }
    }

    #[inline]
    fn passage(&mut self, id: FlowId) -> &mut Passage {
        &mut self.passages[id.0 as usize]
    }

    /// Asks for a message's memory.
    #[inline]
    pub(crate) fn prefetch(&self, id: FlowId) {
        prefetch_all(&self.passages[id.0 as usize]);
    }

    /// Asks for the memory of a message's queues; returns its tag.
    #[inline]
    pub(crate) fn prefetch_path(&self, id: FlowId) -> u32 {
        let passage = &self.passages[id.0 as usize];
        for place in &passage.places {
            prefetch(&raw const self.servers[place.stop.resource.0 as usize]);
        }
        passage.tag
    }

    /// What a message belongs to.
    #[inline]
    pub(crate) fn tag(&self, id: FlowId) -> u32 {
        self.passages[id.0 as usize].tag
    }

    /// What the messages in queues belong to.
    pub(crate) fn active_tags(&self) -> impl Iterator<Item = u32> {
        let active = self.passages.iter().filter(|passage| passage.is_active);
        active.map(|passage| passage.tag)
    }

    /// Subqueues of a queue that are busy now.
    pub(crate) fn busy_on(&mut self, resource: ResourceId, now: Time) -> u32 {
        self.work_out(resource, now);
        self.servers[resource.0 as usize].busy()
    }

    /// A short transaction takes `time` of a bus away from what it serves.
    pub(crate) fn hold_up(&mut self, bus: ResourceId, time: Time, now: Time) {
        self.work_out(bus, now);
        self.servers[bus.0 as usize].hold_up(time, now);
    }

    /// Works all queues out until now.
    pub(crate) fn work_out_all(&mut self, now: Time) {
        for index in 0..self.servers.len() as u32 {
            self.work_out(ResourceId(index), now);
            self.servers[index as usize].account(now);
        }
    }

    /// Begins a new account of what queues carry.
    pub(crate) fn clear_carried(&mut self) {
        for server in &mut self.servers {
            server.carried = 0.0;
        }
    }

    /// Bytes that a queue has served, up to when it was worked out last.
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

    /// Memory of all this.
    pub(crate) fn state_bytes(&self) -> usize {
        let spilled: usize = self.servers.iter().map(Server::spilled_bytes).sum();
        let places: usize = self
            .passages
            .iter()
            .map(|passage| passage.places.capacity() * size_of::<Place>())
            .sum();
        self.servers.capacity() * size_of::<Server>()
            + spilled
            + self.passages.capacity() * size_of::<Passage>()
            + places
    }
}

impl Passage {
    const EMPTY: Self = Self {
        tag: 0,
        wire_bytes: 0.0,
        scale: 1.0,
        is_active: false,
        is_gone: false,
        owes_head: false,
        entered: 0,
        senders: 0,
        places: Vec::new(),
        end_min: Time::ZERO,
        gone_min: Time::ZERO,
        served_at: Time::ZERO,
        head_at: Time::ZERO,
        event: EventId::NONE,
        flow: None,
        ahead: NOBODY,
        behind: NOBODY,
    };

    /// Bytes that a link, or a bus, is to serve.
    #[inline]
    fn work(&self, is_bus: bool) -> f64 {
        if is_bus {
            self.wire_bytes / self.scale
        } else {
            self.wire_bytes
        }
    }

    #[inline]
    fn has_entered_all(&self) -> bool {
        self.entered as usize == self.places.len()
    }

    /// Of one whose head has come to its last queue, or is known to: when it would have begun.
    fn head_as_if_begun(&self) -> Time {
        let last = self.places.last().map_or(Time::ZERO, |it| it.stop.offset);
        self.head_at.saturating_sub(last)
    }

    /// Before which nobody needs to hear of its end: its last byte is where it goes after that.
    #[inline]
    fn told_min(&self) -> Time {
        let last = self.places.last().map_or(Time::ZERO, |it| it.stop.offset);
        self.end_min + last
    }
}
