//! The connected VIs that a completion queue looks at, and how it learns which have news.
//!
//! ```text
//!   few VIs     the next slot of each is peeked at, without a lock
//!   many        their peers set bits, see `notice`: the cost does not grow with idle VIs
//!                    |
//!                    v
//!   ready       those with news, each once, in the order found: looked at in turn
//! ```
//!
//! Each link is held as long as one of its VIs is a source, so that the slots stay mapped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::channel::{Direction, Watch};
use crate::handle::Slot;
use crate::link::Link;
use crate::notice::{CHANNELS, place};
use crate::vi::{News, Vi};
use crate::wait::barrier_everywhere;

/// Sources up to which each is peeked at. Chosen by few and noisy measurements: at 64 peeking did
/// 4.3 to 4.9 million requests a second and tripwires 4.2 to 4.5, at 256 there was no difference.
/// Each of them is left a mark before a sleep, which speaks for fewer.
pub(super) const SCANNED_MAX: usize = 80;
/// Messages that one look takes from one VI, so that none keeps the others waiting.
const MESSAGES_A_LOOK: u32 = 16;
/// Messages that are enough for one look.
const ENOUGH: u32 = 32;
/// VIs ahead whose slots are fetched.
const SLOTS_AHEAD: usize = 4;
/// Looks between two looks at the clock.
const LOOKS_A_CLOCK: u32 = 256;
/// How often some VIs with a tripwire are peeked at in turn all the same: a peer may not have told.
const SCAN_EVERY: Duration = Duration::from_millis(1);
/// And how many: to peek at one takes about as long as a message.
pub(super) const SCANNED_AT_ONCE: usize = 1024;
const HALF: usize = CHANNELS as usize / 2;

/// A VI that was connected.
pub(crate) struct NewSource {
    pub(crate) slot: &'static Slot<Vi>,
    pub(crate) vi: u64,
    pub(crate) link: Arc<Link>,
    pub(crate) channel: u32,
    pub(crate) connection: u64,
    /// In which it receives.
    pub(crate) direction: Direction,
    /// Of its first slot.
    pub(crate) watch: Watch,
}

/// What a look relies on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Extent {
    /// What peers told, if nothing is left from before.
    Told,
    /// All that is there. Before a sleep.
    All,
}

/// A connection that is to be broken.
pub(super) struct Broken {
    pub(super) slot: &'static Slot<Vi>,
    pub(super) vi: u64,
    pub(super) connection: u64,
}

/// The sources of one completion queue.
#[derive(Default)]
pub(super) struct Sources {
    vis: Vec<Source>,
    /// By the same numbers, close together.
    watches: Vec<Watch>,
    links: Vec<Option<SourceLink>>,
    /// Sources without a tripwire.
    scanned: Vec<u32>,
    /// Sources with news.
    ready: VecDeque<u32>,
    looks: u32,
    scanned_at: Option<Instant>,
    /// The VI that was peeked at last.
    scanned_last: usize,
}

struct Source {
    slot: &'static Slot<Vi>,
    vi: u64,
    connection: u64,
    direction: Direction,
    link: u32,
    channel: u32,
    has_tripwire: bool,
    is_ready: bool,
}

struct SourceLink {
    link: Arc<Link>,
    sources: u32,
    /// The group of the link's incoming notices that is this queue's.
    group: Option<u32>,
    /// By place of the channel, either end's: the source's number plus 1.
    places: [Vec<u32>; 2],
}

impl Source {
    fn is(&self, vi: u64, connection: u64) -> bool {
        self.vi == vi && self.connection == connection
    }
}

impl SourceLink {
    fn set_place(&mut self, channel: u32, number: u32) {
        let place = place(channel) as usize;
        let places = &mut self.places[place / HALF];
        let index = place % HALF;
        if places.len() <= index {
            places.resize(index + 1, 0);
        }
        places[index] = number;
    }
}

impl Sources {
    /// Adds a connected VI.
    pub(super) fn add(&mut self, new: NewSource) {
        let known = self.links.iter().position(|known| {
            let known = known.as_ref();
            known.is_some_and(|known| Arc::ptr_eq(&known.link, &new.link))
        });
        let link = known.unwrap_or_else(|| {
            let added = SourceLink {
                link: new.link,
                sources: 0,
                group: None,
                places: [Vec::new(), Vec::new()],
            };
            match self.links.iter().position(Option::is_none) {
                Some(free) => {
                    self.links[free] = Some(added);
                    free
                }
                None => {
                    self.links.push(Some(added));
                    self.links.len() - 1
                }
            }
        });
        if let Some(link) = &mut self.links[link] {
            link.sources += 1;
        }
        let number = self.vis.len() as u32;
        new.slot.object.source().store(number, Ordering::Relaxed);
        self.vis.push(Source {
            slot: new.slot,
            vi: new.vi,
            connection: new.connection,
            direction: new.direction,
            link: link as u32,
            channel: new.channel,
            has_tripwire: false,
            is_ready: false,
        });
        self.watches.push(new.watch);
        self.scanned.push(number);
        if self.vis.len() > SCANNED_MAX {
            self.set_tripwires();
        }
    }

    /// Gives a tripwire to every source that can have one.
    fn set_tripwires(&mut self) {
        let mut switched = Vec::new();
        for number in std::mem::take(&mut self.scanned) {
            if self.set_tripwire(number) {
                switched.push(number);
            } else {
                self.scanned.push(number);
            }
        }
        if switched.is_empty() {
            return;
        }
        // A message whose sender had not seen the tripwire is visible now.
        barrier_everywhere();
        for number in switched {
            self.make_ready(number);
        }
    }

    fn set_tripwire(&mut self, number: u32) -> bool {
        let source = &mut self.vis[number as usize];
        let Some(link) = &mut self.links[source.link as usize] else {
            return false;
        };
        if source.channel >= CHANNELS {
            return false;
        }
        let group = link.group.or_else(|| link.link.take_group());
        link.group = group;
        let Some(group) = group else {
            return false;
        };
        link.set_place(source.channel, number + 1);
        source.has_tripwire = true;
        let vi = &source.slot.object;
        // One whose connection is over is about to be removed.
        let _ = vi.set_tripwire(source.vi, source.connection, group + 1);
        true
    }

    #[inline]
    fn make_ready(&mut self, number: u32) {
        if let Some(source) = self.vis.get_mut(number as usize)
            && !source.is_ready
        {
            source.is_ready = true;
            self.ready.push_back(number);
        }
    }

    /// Removes a connection of a VI. What it returns is to be dropped without the lock.
    pub(super) fn remove(&mut self, object: &Vi, vi: u64, connection: u64) -> Option<Arc<Link>> {
        // Its slot knows, unless another VI lives there now.
        let hint = object.source().load(Ordering::Relaxed);
        let number = match self.vis.get(hint as usize) {
            Some(source) if source.is(vi, connection) => hint as usize,
            _ => self
                .vis
                .iter()
                .position(|source| source.is(vi, connection))?,
        };
        let source = self.vis.swap_remove(number);
        self.watches.swap_remove(number);
        let (removed, last) = (number as u32, self.vis.len() as u32);
        self.forget(&source, removed);
        if removed != last {
            self.rename(last, removed);
        }
        let link = self.links[source.link as usize].as_mut()?;
        link.sources -= 1;
        if link.sources > 0 {
            return None;
        }
        let link = self.links[source.link as usize].take()?;
        while matches!(self.links.last(), Some(None)) {
            self.links.pop();
        }
        if let Some(group) = link.group {
            link.link
                .incoming_notices()
                .sleeper(group)
                .store(0, Ordering::SeqCst);
            link.link.give_back_group(group);
        }
        Some(link.link)
    }

    fn forget(&mut self, source: &Source, number: u32) {
        if source.is_ready {
            self.ready.retain(|ready| *ready != number);
        }
        if source.has_tripwire {
            if let Some(link) = &mut self.links[source.link as usize] {
                link.set_place(source.channel, 0);
            }
        } else {
            self.scanned.retain(|scanned| *scanned != number);
        }
    }

    /// The source at `to` was at `from`.
    fn rename(&mut self, from: u32, to: u32) {
        let source = &self.vis[to as usize];
        source.slot.object.source().store(to, Ordering::Relaxed);
        if source.is_ready {
            for ready in self.ready.iter_mut().filter(|ready| **ready == from) {
                *ready = to;
            }
        }
        if source.has_tripwire {
            if let Some(link) = &mut self.links[source.link as usize] {
                link.set_place(source.channel, to + 1);
            }
        } else {
            for scanned in self.scanned.iter_mut().filter(|scanned| **scanned == from) {
                *scanned = to;
            }
        }
    }

    /// Whether nothing is left to be looked at.
    pub(super) fn is_quiet(&self) -> bool {
        self.ready.is_empty()
    }

    /// Deals with some messages. A connection that is to be broken ends the look.
    #[inline]
    pub(super) fn look(&mut self, extent: Extent) -> Option<Broken> {
        if extent == Extent::All {
            self.find(false);
        } else if self.ready.is_empty() {
            self.find(true);
        }
        for number in self.ready.iter().take(SLOTS_AHEAD) {
            self.watches[*number as usize].prefetch();
        }
        let mut found = 0;
        for _ in 0..self.ready.len() {
            let number = self.ready.pop_front()?;
            // A slot comes from the peer's cache, the VI from one of ours.
            if let Some(later) = self.ready.get(SLOTS_AHEAD - 1) {
                self.watches[*later as usize].prefetch();
            }
            if let Some(later) = self.ready.get(1) {
                self.vis[*later as usize].slot.object.prefetch_receive();
            }
            let source = &mut self.vis[number as usize];
            source.is_ready = false;
            #[cfg(test)]
            counts::LOOKS.set(counts::LOOKS.get() + 1);
            let news = source.slot.object.look_as_source(
                source.vi,
                source.connection,
                MESSAGES_A_LOOK,
                &mut self.watches[number as usize],
            );
            match news {
                News::Slots(slots) => {
                    found += slots;
                    // Of few VIs all this is at hand.
                    if source.has_tripwire {
                        source.slot.object.prefetch_send();
                    }
                    if slots == MESSAGES_A_LOOK {
                        self.make_ready(number);
                    }
                }
                News::Broken => {
                    return Some(Broken {
                        slot: source.slot,
                        vi: source.vi,
                        connection: source.connection,
                    });
                }
            }
            if found >= ENOUGH {
                break;
            }
        }
        None
    }

    #[cold]
    fn scan_if_due(&mut self) {
        let now = Instant::now();
        if let Some(before) = self.scanned_at
            && now.duration_since(before) < SCAN_EVERY
        {
            return;
        }
        self.scanned_at = Some(now);
        #[cfg(test)]
        counts::SCANS.set(counts::SCANS.get() + 1);
        self.scan();
    }

    /// Peeks at the next VIs in turn.
    pub(super) fn scan(&mut self) {
        let count = self.vis.len();
        for _ in 0..count.min(SCANNED_AT_ONCE) {
            self.scanned_last = if self.scanned_last + 1 < count {
                self.scanned_last + 1
            } else {
                0
            };
            // SAFETY: the link is held.
            if unsafe { self.watches[self.scanned_last].has_news() } {
                self.make_ready(self.scanned_last as u32);
            }
        }
    }

    /// Leaves a sleeper's mark for the next message: one for all VIs with a tripwire on one link.
    pub(super) fn set_sleeper(&self, mark: u32) {
        for (link, group) in self.groups() {
            // SeqCst: before the bits are looked at, see `Notices::post`.
            link.incoming_notices()
                .sleeper(group)
                .store(mark, Ordering::SeqCst);
        }
        for number in &self.scanned {
            let direction = self.vis[*number as usize].direction;
            // The link is held, so it is mapped.
            direction.sleeper().store(mark, Ordering::Relaxed);
        }
    }

    /// Takes it back where it still is.
    pub(super) fn clear_sleeper(&self, mark: u32) {
        for (link, group) in self.groups() {
            let notices = link.incoming_notices();
            let sleeper = notices.sleeper(group);
            let _ = sleeper.compare_exchange(mark, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        for number in &self.scanned {
            let direction = self.vis[*number as usize].direction;
            let sleeper = direction.sleeper();
            let _ = sleeper.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn scanned_sources(&self) -> usize {
        self.scanned.len()
    }

    #[cfg(test)]
    pub(super) fn own_groups(&self) -> Vec<(Arc<Link>, u32)> {
        let links = self.links.iter().flatten();
        links
            .filter_map(|link| Some((Arc::clone(&link.link), link.group?)))
            .collect()
    }

    fn groups(&self) -> impl Iterator<Item = (&Link, u32)> {
        let links = self.links.iter().flatten();
        links.filter_map(|link| Some((&*link.link, link.group?)))
    }

    /// Finds the sources with news.
    #[inline]
    fn find(&mut self, relies_on_summary: bool) {
        let Self {
            vis,
            watches,
            links,
            scanned,
            ready,
            ..
        } = self;
        for number in scanned.iter() {
            // SAFETY: the link is held.
            if unsafe { watches[*number as usize].has_news() } {
                let source = &mut vis[*number as usize];
                if !source.is_ready {
                    source.is_ready = true;
                    ready.push_back(*number);
                }
            }
        }
        if scanned.len() == vis.len() {
            return;
        }
        for link in links.iter().flatten() {
            let Some(group) = link.group else { continue };
            let notices = link.link.incoming_notices();
            let counts = [link.places[0].len(), link.places[1].len()];
            notices.take(group, counts, relies_on_summary, |place| {
                let places = &link.places[place as usize / HALF];
                let number = places.get(place as usize % HALF).copied().unwrap_or(0);
                if let Some(source) = vis.get_mut((number as usize).wrapping_sub(1))
                    && !source.is_ready
                {
                    source.is_ready = true;
                    ready.push_back(number - 1);
                }
            });
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_A_CLOCK) {
            self.scan_if_due();
        }
    }
}

#[cfg(test)]
pub(super) mod counts {
    use std::cell::Cell;

    thread_local! {
        /// Looks at a VI, and scans of all, by this thread.
        pub(crate) static LOOKS: Cell<u64> = const { Cell::new(0) };
        pub(crate) static SCANS: Cell<u64> = const { Cell::new(0) };
    }
}
