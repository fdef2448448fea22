//! How a program on a CLAN host hears of what its adapter wrote: tripwires, and the asynchronous
//! event queue.
//!
//! A tripwire is tied to one location in memory and fires when that is written over the network.
//! The adapter's content-addressable memory holds a fixed number of them. A location that finds no
//! room is not watched: the library looks at it itself, in turn with all others of that kind, so
//! that nothing is missed and time is lost instead. [`Shortage`] says so.
//!
//! What fires, and DMA requests that end, put an entry each into a queue in the host's memory. The
//! adapter cannot do that: it interrupts the host for each message. The queue is read at user
//! level, an entry at a time; a tripwire has one entry there at most. Who polls a VI looks at its
//! memory, and has neither. When the queue is full the adapter sets its overflow word, and the
//! reader looks at every watched location when it has read what is there.

use std::collections::VecDeque;
use std::fmt;

use viaduct_engine::Time;
use viaduct_provider::Watched;
use viaduct_provider::via::{Nic, Queue, ReliabilityLevel, ViId};

use crate::cluster::{Cluster, Hosted};
use crate::host::{DEVICE, reserve_little};
use viaduct_hardware::{Mechanism, NoticeModel};

/// A location that is written over the network.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Location {
    /// An index of a queue that a VI has.
    Queue(ViId, Queue),
    /// A byte of memory that the host has given below VIA.
    Memory(u32, u32),
}

/// Something of an adapter that was used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Resource {
    /// Tripwires.
    Tripwires,
    /// Entries of the event queue.
    Events,
}

/// What became short on a host, and how often.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shortage {
    /// Where.
    pub host: u32,
    /// Of what.
    pub resource: Resource,
    /// How many there are.
    pub limit: u32,
    /// Tripwires that were refused; events that found the queue full.
    pub count: u64,
    /// When that was first so.
    pub first: Time,
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host, limit, count, ..
        } = self;
        let at = self.first.microseconds_f64();
        match self.resource {
            Resource::Tripwires => write!(
                formatter,
                "host{host}: all {limit} tripwires are taken since {at} us: {count} locations \
                 without one are looked at in turn"
            ),
            Resource::Events => write!(
                formatter,
                "host{host}: the event queue of {limit} entries was full at {at} us and {count} \
                 events were not told: every watched location was looked at instead"
            ),
        }
    }
}

/// How a program that waits learns that the wait is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    /// By an interrupt; then it has an entry of the event queue to read, if there is one.
    Woken(Option<Time>),
    /// By looking: a round of looks takes so long.
    Looks(Time),
}

/// A location of interest.
#[derive(Clone, Copy, Debug)]
struct Watch {
    has_tripwire: bool,
    /// Whether its VI's queue is bound to a completion queue, which reads the event queue.
    is_bound: bool,
    /// Whether it has an entry in the event queue.
    is_told: bool,
}

/// Locations of interest, in their order: a host has two or three as a rule, and at most a few
/// thousand.
#[derive(Debug, Default)]
struct Watches(Vec<(Location, Watch)>);

impl Watches {
    fn place(&self, location: Location) -> Result<usize, usize> {
        self.0.binary_search_by_key(&location, |(known, _)| *known)
    }

    fn get(&self, location: Location) -> Option<Watch> {
        let place = self.place(location).ok()?;
        self.0.get(place).map(|(_, watch)| *watch)
    }

    fn get_mut(&mut self, location: Location) -> Option<&mut Watch> {
        let place = self.place(location).ok()?;
        self.0.get_mut(place).map(|(_, watch)| watch)
    }

    fn insert(&mut self, location: Location, watch: Watch) {
        match self.place(location) {
            Ok(place) => self.0[place].1 = watch,
            Err(place) => {
                reserve_little(&mut self.0);
                self.0.insert(place, (location, watch));
            }
        }
    }
}

/// By resource: how often it was short, and when first.
type Shortages = [Option<(u64, Time)>; 2];

/// One host's tripwires and event queue.
#[derive(Debug)]
pub(crate) struct Notices {
    model: NoticeModel,
    watches: Watches,
    /// Of these: how many have a tripwire.
    tripwires: u32,
    /// How many have none.
    without: u32,
    /// Entries: a location, or the end of a DMA request.
    events: VecDeque<Option<Location>>,
    has_overflowed: bool,
    /// Made for the first: nothing is short, as a rule.
    shortages: Option<Box<Shortages>>,
}

impl Notices {
    /// Of an adapter that has them.
    pub(crate) fn new(mechanism: &Mechanism) -> Option<Box<Self>> {
        let Mechanism::RemoteWrites(model) = mechanism else {
            return None;
        };
        Some(Box::new(Self {
            model: model.notices,
            watches: Watches::default(),
            tripwires: 0,
            without: 0,
            events: VecDeque::new(),
            has_overflowed: false,
            shortages: None,
        }))
    }

    /// Asks for a location to be watched; what that costs the processor.
    fn watch(&mut self, nic: &Nic, location: Location, is_bound: bool, now: Time) -> Time {
        if let Some(watch) = self.watches.get_mut(location) {
            watch.is_bound |= is_bound;
            if watch.has_tripwire {
                return Time::ZERO;
            }
        }
        if self.tripwires >= self.model.tripwires {
            self.purge(nic);
        }
        let known = self.watches.get(location);
        let has_tripwire = self.tripwires < self.model.tripwires;
        let is_refused_again = known.is_some() && !has_tripwire;
        if is_refused_again {
            return Time::ZERO;
        }
        if known.is_some() {
            self.without -= 1;
        }
        let watch = Watch {
            has_tripwire,
            is_bound: is_bound || known.is_some_and(|watch| watch.is_bound),
            is_told: false,
        };
        self.watches.insert(location, watch);
        if has_tripwire {
            self.tripwires += 1;
            self.model.tripwire
        } else {
            self.without += 1;
            self.miss(Resource::Tripwires, now);
            Time::ZERO
        }
    }

    /// Takes tripwires back from VIs that are gone.
    fn purge(&mut self, nic: &Nic) {
        self.watches.0.retain(|(location, _)| match location {
            Location::Queue(vi, _) => nic.vi_state(*vi).is_some(),
            Location::Memory(..) => true,
        });
        self.count();
    }

    /// Memory that the host had given is no longer there.
    pub(crate) fn forget(&mut self, area: u32) {
        self.watches.0.retain(
            |(location, _)| !matches!(location, Location::Memory(other, _) if *other == area),
        );
        self.count();
    }

    fn count(&mut self) {
        let all = self.watches.0.len() as u32;
        let have = |(_, watch): &&(_, Watch)| watch.has_tripwire;
        self.tripwires = self.watches.0.iter().filter(have).count() as u32;
        self.without = all - self.tripwires;
    }

    fn miss(&mut self, resource: Resource, now: Time) {
        let shortages = self.shortages.get_or_insert_default();
        let (count, _) = shortages[resource as usize].get_or_insert((0, now));
        *count += 1;
    }

    /// A location was written: whether that made an entry, if the event queue tells of it.
    fn fire(&mut self, location: Location, now: Time) -> Option<bool> {
        let watch = self.watches.get_mut(location)?;
        if !watch.has_tripwire || !watch.is_bound {
            return None;
        }
        if watch.is_told {
            return Some(false);
        }
        let has_room = self.events.len() < self.model.events as usize;
        watch.is_told = has_room;
        Some(self.enter(Some(location), now))
    }

    /// Of the interrupt that wakes a sleeper: what was spent already to make the entry that it
    /// will read.
    pub(crate) fn interrupt_served(&self) -> Time {
        if self.events.is_empty() {
            Time::ZERO
        } else {
            self.model.interrupt
        }
    }

    /// Puts an entry into the event queue, or sets its overflow word.
    fn enter(&mut self, entry: Option<Location>, now: Time) -> bool {
        let has_room = self.has_room(now);
        if has_room {
            self.events.push_back(entry);
        }
        has_room
    }

    /// Whether the event queue has room; else the overflow word is set.
    fn has_room(&mut self, now: Time) -> bool {
        let has_room = self.events.len() < self.model.events as usize;
        if !has_room {
            self.has_overflowed = true;
            self.miss(Resource::Events, now);
        }
        has_room
    }

    /// What a program pays that has found something by way of the event queue.
    fn read(&mut self) -> Time {
        if let Some(entry) = self.events.pop_front() {
            if let Some(watch) = entry.and_then(|location| self.watches.get_mut(location)) {
                watch.is_told = false;
            }
            return self.model.event;
        }
        if core::mem::take(&mut self.has_overflowed) {
            return times(self.model.look, self.tripwires);
        }
        Time::ZERO
    }

    /// How a program learns that waits for a location alone.
    fn told(&self, location: Location) -> Told {
        let watch = self.watches.get(location);
        if watch.is_some_and(|watch| watch.has_tripwire) {
            Told::Woken(Some(self.model.event))
        } else {
            Told::Looks(self.model.look)
        }
    }

    /// A round of looks at what no tripwire watches.
    pub(crate) fn round(&self) -> Option<Time> {
        (self.without > 0).then(|| times(self.model.look, self.without))
    }

    fn shortages(&self, host: u32) -> impl Iterator<Item = Shortage> {
        let all = [
            (Resource::Tripwires, self.model.tripwires),
            (Resource::Events, self.model.events),
        ];
        let shortages = self.shortages.as_deref().copied().unwrap_or_default();
        all.into_iter().filter_map(move |(resource, limit)| {
            let (count, first) = shortages[resource as usize]?;
            Some(Shortage {
                host,
                resource,
                limit,
                count,
                first,
            })
        })
    }
}

fn times(span: Time, count: u32) -> Time {
    Time::from_picoseconds(span.picoseconds().saturating_mul(u64::from(count)))
}

impl Hosted {
    /// A program of a host is about to wait, or to be told by a handler: how it will learn. What
    /// that takes to set up its processor has to do first.
    pub(crate) fn arrange(cluster: &mut Cluster, host: u32, watched: Watched) -> Told {
        let now = cluster.now();
        let state = cluster.programs.host(host);
        let Some(notices) = &mut state.notices else {
            return Told::Woken(None);
        };
        let Watched::Vi(handle, queue) = watched else {
            return notices.round().map_or(Told::Woken(None), Told::Looks);
        };
        let event = notices.model.event;
        let Some((device, vi)) = state.agent.place_of(handle) else {
            return Told::Woken(None);
        };
        let nic = &state.agent.devices[device].nic;
        // A send ends with its DMA request, or with the processor's own writes; at reliable
        // reception it ends when the receiver has written back how far it is.
        if queue == Queue::Send && !is_acknowledged(nic, vi) {
            return Told::Woken(Some(event));
        }
        let location = Location::Queue(vi, queue);
        let cost = notices.watch(nic, location, false, now);
        let told = notices.told(location);
        cluster.work(host, now, cost);
        told
    }

    /// As [`Hosted::arrange`], for a byte of memory that a host has given below VIA.
    pub(crate) fn arrange_memory(
        cluster: &mut Cluster,
        host: u32,
        (area, offset): (u32, u32),
    ) -> Told {
        let now = cluster.now();
        let state = cluster.programs.host(host);
        let Some(notices) = &mut state.notices else {
            return Told::Woken(None);
        };
        let location = Location::Memory(area, offset);
        let nic = &state.agent.devices[DEVICE].nic;
        let cost = notices.watch(nic, location, false, now);
        let told = notices.told(location);
        cluster.work(host, now, cost);
        told
    }

    /// A VI has a receive, or a send: if its queue is bound to a completion queue, that is to hear
    /// of it by the event queue.
    #[inline]
    pub(crate) fn arrange_bound(cluster: &mut Cluster, host: u32, vi: ViId, queue: Queue) {
        let state = &mut cluster.programs.hosts[host as usize];
        if state.notices.is_some() && !state.told(vi).note_arranged(queue) {
            Self::arrange_new(cluster, host, vi, queue);
        }
    }

    #[inline(never)]
    fn arrange_new(cluster: &mut Cluster, host: u32, vi: ViId, queue: Queue) {
        let now = cluster.now();
        let state = &mut cluster.programs.hosts[host as usize];
        let handle = state.agent.handle_of(DEVICE, vi);
        let is_bound = handle.is_some_and(|handle| state.agent.is_bound(handle, queue));
        let nic = &state.agent.devices[DEVICE].nic;
        if !is_bound || queue == Queue::Send && !is_acknowledged(nic, vi) {
            return;
        }
        if let Some(notices) = &mut state.notices {
            let cost = notices.watch(nic, Location::Queue(vi, queue), true, now);
            cluster.work(host, now, cost);
        }
    }

    /// The location of a VI's queue was written over the network.
    pub(crate) fn fire(cluster: &mut Cluster, host: u32, vi: ViId, queue: Queue) {
        let now = cluster.now();
        let state = cluster.programs.host(host);
        let Some(notices) = &mut state.notices else {
            return;
        };
        let Some(is_new) = notices.fire(Location::Queue(vi, queue), now) else {
            return;
        };
        let interrupt = notices.model.interrupt;
        cluster.work(host, now, interrupt);
        cluster.programs.counts.events += u64::from(is_new);
    }

    /// A DMA request of a VI's send has ended.
    pub(crate) fn end_request(cluster: &mut Cluster, host: u32, vi: ViId) {
        let now = cluster.now();
        let state = cluster.programs.host(host);
        let handle = state.agent.handle_of(DEVICE, vi);
        let is_bound = handle.is_some_and(|handle| state.agent.is_bound(handle, Queue::Send));
        if is_bound
            && let Some(notices) = &mut state.notices
            && notices.enter(None, now)
        {
            cluster.programs.counts.events += 1;
        }
    }

    /// An out-of-band message has come. Its entry is read by the interrupt that it makes, which is
    /// a part of what the kernel agents cost.
    pub(crate) fn hear_out_of_band(cluster: &mut Cluster, host: u32) {
        let now = cluster.now();
        if let Some(notices) = &mut cluster.programs.host(host).notices
            && notices.has_room(now)
        {
            cluster.programs.counts.events += 1;
        }
    }

    /// A round of looks that a program makes beside its look there.
    pub(crate) fn round(cluster: &Cluster, host: u32, watched: Watched) -> Time {
        let notices = &cluster.programs.hosts[host as usize].notices;
        match (watched, notices) {
            (Watched::Entries(_), Some(notices)) => notices.round().unwrap_or(Time::ZERO),
            _ => Time::ZERO,
        }
    }

    /// What it takes a program to have found something in a completion queue.
    pub(crate) fn read_event(cluster: &mut Cluster, host: u32) -> Time {
        let notices = &mut cluster.programs.host(host).notices;
        notices
            .as_mut()
            .map_or(Time::ZERO, |notices| notices.read())
    }

    pub(crate) fn shortages(cluster: &Cluster) -> Vec<Shortage> {
        let hosts = cluster.programs.hosts.iter().enumerate();
        hosts
            .filter_map(|(host, state)| Some((host as u32, state.notices.as_ref()?)))
            .flat_map(|(host, notices)| notices.shortages(host))
            .collect()
    }
}

fn is_acknowledged(nic: &Nic, vi: ViId) -> bool {
    let information = nic.query_vi(vi);
    information.is_ok_and(|vi| vi.attributes.reliability == ReliabilityLevel::ReliableReception)
}
