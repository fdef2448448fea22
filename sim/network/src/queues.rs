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

pub(crate) mod arrived;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use viaduct_engine::{EventId, EventQueue, Time, prefetch, prefetch_all};

use self::server::{Server, Visit};
use crate::fluid::{FlowDemand, FlowId, ResourceId};
use crate::followed::Waits;
use crate::journeys::FlowName;

/// Names no message.
const NOBODY: FlowId = FlowId(u32::MAX);

/// A queue that a message is to go through, and how far the message's head is from the first one
/// when it gets there with nothing before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) resource: ResourceId,
    pub(crate) offset: Time,
    /// How much later the message's last byte is served there than at the first one, nobody else
    /// there: as much as its head, but less behind a slow link, where fast ones catch up.
    pub(crate) lag: Time,
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

    /// The number of the flow between its ends.
    pub(crate) const fn number(self) -> u32 {
        (self.0 >> 24) as u32
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
    /// The places of all passages.
    places: Vec<Place>,
    /// By queue, the last message of a flow that begins there.
    newest: Vec<Newest>,
    /// That of other flows, and where they begin.
    newest_of_others: BTreeMap<FlowKey, (FlowId, ResourceId)>,
    /// Of each link, most bytes that it had left to serve at once, of windows that have ended.
    held_max: Vec<f64>,
    /// How long a message took alone at the last link and at the last bus.
    last_alone: [Alone; 2],
}

/// How long a queue serves so many bytes, nobody else there.
#[derive(Clone, Copy, Debug)]
struct Alone {
    rate: f64,
    bytes: f64,
    time: Time,
}

/// Of the flows that begin at one queue, the last message of one that is in some queue. Hardly ever
/// there are two at once.
#[derive(Clone, Copy, Debug)]
struct Newest {
    flow: FlowKey,
    message: FlowId,
    /// How many flows that begin here are kept elsewhere.
    others: u32,
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
    /// Its places: the first, how many there are, and how many there may be.
    first: u32,
    count: u32,
    room: u32,
    /// Places that know of it, and those that keep its sender.
    entered: u32,
    senders: u32,
    /// The message of its flow before it, and that behind it.
    ahead: FlowId,
    behind: FlowId,
    event: EventId,
    /// Its end, counted as if its head had been at each place when it began, is not before; nor is
    /// its leaving its sender.
    end_min: Time,
    gone_min: Time,
    /// Before which nobody needs to hear of its end: its last byte is where it goes after that.
    told_min: Time,
    /// When its head is at the place that knows of it last, or will be at the next.
    head_at: Time,
    flow: Option<FlowKey>,
}

/// A queue on the way of a message.
#[derive(Clone, Copy, Debug)]
struct Place {
    stop: Stop,
    /// What it has to serve, and how long that takes if nobody else is there.
    bytes: f64,
    alone: Time,
    /// When the message's head is here, once that is known; at the end, when it has been served.
    at: Time,
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
        let servers: Vec<Server> = rates.map(Server::new).collect();
        Self {
            newest: vec![Newest::NONE; servers.len()],
            held_max: vec![0.0; first_bus as usize],
            servers,
            first_bus,
            passages: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            newest_of_others: BTreeMap::new(),
            last_alone: [Alone::UNKNOWN; 2],
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
            passage.told_min
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
            let head = self.head_as_if_begun(id);
            self.wake(queue, id);
            return (tag, Step::Head(head));
        }
        if !passage.is_gone && passage.entered >= passage.senders {
            let (senders, gone) = (passage.senders, passage.gone_min);
            let gone = self.look(id, senders, now).max(gone);
            if gone <= now {
                let passage = self.passage(id);
                passage.is_gone = true;
                next = next.min(passage.told_min).max(now);
                passage.event = queue.schedule(next, E::from(id));
                return (tag, Step::Gone);
            }
            next = next.min(gone);
        } else if passage.has_entered_all() {
            let (count, told) = (passage.count, passage.told_min);
            let leaves_sender = passage.senders == count;
            let end = self.look(id, count, now).max(told);
            if end <= now {
                let at = self.served_as_if_begun(id);
                let served = Step::Served { at, leaves_sender };
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
            let before = self.passage(ahead);
            if before.entered <= place {
                return Time::MAX;
            }
            let index = before.first + place;
            let leaves = self.look_at(index, now);
            if leaves > now {
                return leaves;
            }
            self.passage(id).head_at = now;
            self.enter_up_to(id, place + 1);
            self.wake_waiting(queue, behind);
        }
    }

    /// A message's head meets no earlier message of its flow any more: all its queues hear when it
    /// comes.
    fn enter_rest(&mut self, id: FlowId) {
        let count = self.passage(id).count;
        self.enter_up_to(id, count);
    }

    /// The next queues of a message hear when its head comes, until so many have.
    #[inline]
    fn enter_up_to(&mut self, id: FlowId, entered: u32) {
        let passage = &mut self.passages[id.0 as usize];
        let places = &mut self.places[passage.first as usize..][..passage.count as usize];
        for index in passage.entered..entered {
            let at = passage.head_at;
            let place = &mut places[index as usize];
            place.at = at;
            let Stop {
                resource, offset, ..
            } = place.stop;
            if let Some(next) = places.get(index as usize + 1) {
                passage.head_at = at + next.stop.offset.saturating_sub(offset);
            }
            let visit = Visit(passage.first + index);
            self.servers[resource.0 as usize].expect(at, visit);
        }
        passage.entered = entered;
    }

    /// When the last of some places at the start of a message's way will have served it, at the
    /// earliest; a time that is not after `now` if all have.
    #[inline]
    fn look(&mut self, id: FlowId, places: u32, now: Time) -> Time {
        let first = self.passage(id).first;
        let mut last = Time::ZERO;
        for index in first..first + places {
            last = last.max(self.look_at(index, now));
        }
        last
    }

    /// As [`Queues::look`], of one place of all.
    #[inline]
    fn look_at(&mut self, index: u32, now: Time) -> Time {
        let place = &self.places[index as usize];
        if place.finish == SERVED {
            return Time::ZERO;
        }
        let server = &mut self.servers[place.stop.resource.0 as usize];
        server.work_out(&mut self.places, now);
        let place = &self.places[index as usize];
        if place.finish == SERVED {
            Time::ZERO
        } else if place.finish == NOT_ENTERED {
            place.at + place.alone
        } else {
            server.leaves(place.finish)
        }
    }

    /// Works out what has happened at a queue until now.
    #[inline]
    fn work_out(&mut self, resource: ResourceId, now: Time) -> &mut Server {
        let server = &mut self.servers[resource.0 as usize];
        server.work_out(&mut self.places, now);
        server
    }

    /// The places of a message.
    #[inline]
    fn places_of(&self, id: FlowId) -> &[Place] {
        let passage = &self.passages[id.0 as usize];
        &self.places[passage.first as usize..][..passage.count as usize]
    }

    /// Of a message that all its queues have served: when they would have, had its head been in all
    /// of them when it began.
    #[inline]
    fn served_as_if_begun(&self, id: FlowId) -> Time {
        let served = |place: &Place| place.at.saturating_sub(place.stop.lag);
        let end_min = self.passages[id.0 as usize].end_min;
        self.places_of(id)
            .iter()
            .map(served)
            .fold(end_min, Time::max)
    }

    /// Of one whose head has come to its last queue, or is known to: when it would have begun.
    fn head_as_if_begun(&self, id: FlowId) -> Time {
        let last = self.places_of(id).last();
        let lag = last.map_or(Time::ZERO, |last| last.stop.lag);
        self.passages[id.0 as usize].head_at.saturating_sub(lag)
    }

    /// What a message waited for that all its queues have served.
    pub(crate) fn waits_of(&self, id: FlowId) -> Waits {
        let places = self.places_of(id).iter();
        let served = places.map(|it| (it.stop.resource, it.at.saturating_sub(it.stop.lag)));
        Waits::of_queues(self.passages[id.0 as usize].end_min, served)
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
        let count = passing.stops.len() as u32;
        let passage = &mut self.passages[id.0 as usize];
        if passage.room < count {
            (passage.first, passage.room) = (self.places.len() as u32, count);
            self.places
                .resize(self.places.len() + count as usize, Place::EMPTY);
        }
        let demand = &passing.demand;
        let bytes_on = [demand.wire_bytes, demand.wire_bytes / demand.scale];
        let places = &mut self.places[passage.first as usize..][..count as usize];
        for (place, &stop) in places.iter_mut().zip(passing.stops) {
            let kind = usize::from(stop.resource.0 >= self.first_bus);
            let bytes = bytes_on[kind];
            let server = &self.servers[stop.resource.0 as usize];
            // Most messages and most queues are like the last.
            let last = &mut self.last_alone[kind];
            if (last.rate, last.bytes) != (server.rate, bytes) {
                *last = Alone {
                    rate: server.rate,
                    bytes,
                    time: server.alone(bytes),
                };
            }
            *place = Place {
                stop,
                bytes,
                alone: last.time,
                at: Time::MAX,
                finish: NOT_ENTERED,
            };
        }
        let last = passing.stops.last().map_or(Time::ZERO, |it| it.lag);
        passage.tag = demand.tag;
        passage.is_active = true;
        passage.count = count;
        passage.senders = passing.senders as u32;
        passage.is_gone = passing.senders == passing.stops.len();
        passage.owes_head = false;
        passage.entered = 0;
        passage.end_min = now + passing.unshared;
        passage.gone_min = now + passing.sending;
        passage.told_min = passage.end_min + last;
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
        let first = self.places_of(id).first()?.stop.resource;
        let newest = &mut self.newest[first.0 as usize];
        if newest.message != NOBODY && newest.flow == flow {
            return Some(core::mem::replace(&mut newest.message, id));
        }
        if newest.message == NOBODY && newest.others == 0 {
            (newest.flow, newest.message) = (flow, id);
            return None;
        }
        let former = self.newest_of_others.insert(flow, (id, first));
        if let Some((_, first)) = former {
            self.newest[first.0 as usize].others -= 1;
        }
        self.newest[first.0 as usize].others += 1;
        former.map(|(message, _)| message)
    }

    /// The last message of a flow is in no queue any more; the one before it, if it still is.
    #[inline]
    fn go_last(&mut self, id: FlowId, flow: FlowKey, ahead: FlowId) {
        let Some(&Place { stop, .. }) = self.places_of(id).first() else {
            return;
        };
        let newest = &mut self.newest[stop.resource.0 as usize];
        if newest.message != NOBODY && newest.flow == flow {
            newest.message = ahead;
        } else if ahead != NOBODY {
            if let Some((message, _)) = self.newest_of_others.get_mut(&flow) {
                *message = ahead;
            }
        } else if let Some((_, first)) = self.newest_of_others.remove(&flow) {
            self.newest[first.0 as usize].others -= 1;
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
        for place in self.places_of(id) {
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
        self.work_out(resource, now).busy()
    }

    /// A short transaction takes `time` of a bus away from what it serves.
    pub(crate) fn hold_up(&mut self, bus: ResourceId, time: Time, now: Time) {
        self.work_out(bus, now).hold_up(time, now);
    }

    /// Works all queues out until now.
    pub(crate) fn work_out_all(&mut self, now: Time) {
        for index in 0..self.servers.len() as u32 {
            self.work_out(ResourceId(index), now).account(now);
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

    /// Most bytes that a link had left to serve at once, of windows that have ended, while several
    /// messages were there.
    pub(crate) fn held_max_bytes(&self, link: ResourceId) -> u64 {
        whole_bytes(self.held_max[link.0 as usize])
    }

    /// As [`Queues::held_max_bytes`], of the window of the time series that ends now.
    pub(crate) fn take_held_max_bytes(&mut self, link: ResourceId, now: Time) -> u64 {
        let most = self.work_out(link, now).take_held_max(now);
        let of_run = &mut self.held_max[link.0 as usize];
        *of_run = of_run.max(most);
        whole_bytes(most)
    }

    /// Memory of all this.
    pub(crate) fn state_bytes(&self) -> usize {
        let spilled: usize = self.servers.iter().map(Server::spilled_bytes).sum();
        self.servers.capacity() * size_of::<Server>()
            + spilled
            + self.newest.capacity() * size_of::<Newest>()
            + self.held_max.capacity() * size_of::<f64>()
            + self.passages.capacity() * size_of::<Passage>()
            + self.places.capacity() * size_of::<Place>()
    }
}

/// Bytes that are counted in parts, as whole ones.
fn whole_bytes(bytes: f64) -> u64 {
    (bytes + 0.5) as u64
}

impl Alone {
    /// Nothing, of no queue.
    const UNKNOWN: Self = Self {
        rate: f64::NAN,
        bytes: 0.0,
        time: Time::ZERO,
    };
}

impl Newest {
    const NONE: Self = Self {
        flow: FlowKey(0),
        message: NOBODY,
        others: 0,
    };
}

impl Passage {
    const EMPTY: Self = Self {
        tag: 0,
        is_active: false,
        is_gone: false,
        owes_head: false,
        first: 0,
        count: 0,
        room: 0,
        entered: 0,
        senders: 0,
        ahead: NOBODY,
        behind: NOBODY,
        event: EventId::NONE,
        end_min: Time::ZERO,
        gone_min: Time::ZERO,
        told_min: Time::ZERO,
        head_at: Time::ZERO,
        flow: None,
    };

    #[inline]
    fn has_entered_all(&self) -> bool {
        self.entered == self.count
    }
}

impl Place {
    const EMPTY: Self = Self {
        stop: Stop {
            resource: ResourceId(u32::MAX),
            offset: Time::ZERO,
            lag: Time::ZERO,
        },
        bytes: 0.0,
        alone: Time::ZERO,
        at: Time::MAX,
        finish: NOT_ENTERED,
    };

    /// The queue has served the message.
    #[inline]
    fn is_served(&mut self, at: Time) {
        self.at = at;
        self.finish = SERVED;
    }
}
