//! Which receive takes which message: by source and tag, in order, with wildcards.
//!
//! A message takes the receive that was posted first among those that fit; a receive takes the
//! message that came first. Both are looked up by a hash of receiver, source and tag. Receives that
//! take any are kept apart, and where a graph has some, messages that wait are also kept in the
//! order in which they came.

use std::collections::VecDeque;

use viaduct_engine::prefetch;

use crate::graph::{ANY, Graph, OperationId};

const NONE: u32 = u32::MAX;

/// What is looked up: a receiving rank, a sending rank and a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Key {
    rank: u32,
    source: u32,
    tag: u32,
}

impl Key {
    /// Equal on every machine, and spread.
    #[inline]
    const fn hash(self) -> u64 {
        let mixed = (self.rank as u64) << 32 | self.source as u64;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.tag as u64).rotate_left(17);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }
}

/// One that waits.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    id: OperationId,
    /// The next in its bucket, or the next free one.
    next: u32,
    /// Neighbours in the order of all that wait at its rank; only kept with wildcards.
    earlier: u32,
    later: u32,
    /// Its place in the order of all.
    order: u64,
}

/// Those that wait, by key; of one key first come, first served.
#[derive(Debug)]
struct Waiting {
    /// First and last of each bucket.
    buckets: Vec<(u32, u32)>,
    entries: Vec<Entry>,
    free: u32,
    count: usize,
    /// First and last of each rank; empty without wildcards.
    ranks: Vec<(u32, u32)>,
}

impl Waiting {
    fn new(ranks: usize) -> Self {
        Self {
            buckets: vec![(NONE, NONE); 16],
            entries: Vec::new(),
            free: NONE,
            count: 0,
            ranks: vec![(NONE, NONE); ranks],
        }
    }

    #[inline]
    fn bucket(&self, key: Key) -> usize {
        key.hash() as usize & (self.buckets.len() - 1)
    }

    fn insert(&mut self, key: Key, id: OperationId, order: u64) {
        if self.count >= self.buckets.len() {
            self.grow();
        }
        self.count += 1;
        let entry = Entry {
            key,
            id,
            next: NONE,
            earlier: NONE,
            later: NONE,
            order,
        };
        let place = match self.free {
            NONE => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            place => {
                self.free = self.entries[place as usize].next;
                self.entries[place as usize] = entry;
                // The next one is taken soon, and lies anywhere.
                if let Some(free) = self.entries.get(self.free as usize) {
                    prefetch(&raw const *free);
                }
                place
            }
        };
        self.link(place);
        if let Some(ends) = self.ranks.get_mut(key.rank as usize) {
            match ends.1 {
                NONE => ends.0 = place,
                last => {
                    self.entries[last as usize].later = place;
                    self.entries[place as usize].earlier = last;
                }
            }
            ends.1 = place;
        }
    }

    /// Puts an entry behind those of its bucket.
    fn link(&mut self, place: u32) {
        let bucket = self.bucket(self.entries[place as usize].key);
        let ends = &mut self.buckets[bucket];
        match ends.1 {
            NONE => ends.0 = place,
            last => self.entries[last as usize].next = place,
        }
        ends.1 = place;
    }

    fn grow(&mut self) {
        let former = core::mem::take(&mut self.buckets);
        self.buckets = vec![(NONE, NONE); former.len() * 2];
        for (mut place, _) in former {
            while place != NONE {
                let next = core::mem::replace(&mut self.entries[place as usize].next, NONE);
                self.link(place);
                place = next;
            }
        }
    }

    /// The first of a key: what stands before it in its bucket, and it.
    #[inline]
    fn find(&self, key: Key) -> Option<(u32, u32)> {
        let mut before = NONE;
        let mut place = self.buckets[self.bucket(key)].0;
        while place != NONE {
            let entry = &self.entries[place as usize];
            if entry.key == key {
                return Some((before, place));
            }
            before = place;
            place = entry.next;
        }
        None
    }

    fn remove(&mut self, (before, place): (u32, u32)) -> OperationId {
        let entry = self.entries[place as usize];
        let bucket = self.bucket(entry.key);
        match before {
            NONE => self.buckets[bucket].0 = entry.next,
            before => self.entries[before as usize].next = entry.next,
        }
        if self.buckets[bucket].1 == place {
            self.buckets[bucket].1 = before;
        }
        if let Some(ends) = self.ranks.get_mut(entry.key.rank as usize) {
            match entry.earlier {
                NONE => ends.0 = entry.later,
                earlier => self.entries[earlier as usize].later = entry.later,
            }
            match entry.later {
                NONE => ends.1 = entry.earlier,
                later => self.entries[later as usize].earlier = entry.earlier,
            }
        }
        self.entries[place as usize].next = self.free;
        self.free = place;
        self.count -= 1;
        entry.id
    }

    /// The first that came to a rank and that a receive takes.
    fn first_for(&self, key: Key, any_tag_end: u32) -> Option<(u32, u32)> {
        let mut place = self.ranks.get(key.rank as usize)?.0;
        while place != NONE {
            let entry = &self.entries[place as usize];
            let message = (entry.key.source, entry.key.tag);
            if takes((key.source, key.tag), message, any_tag_end) {
                // Messages of one key are told apart by their order, and this is its first.
                return self.find(entry.key);
            }
            place = entry.later;
        }
        None
    }

    fn state_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + (self.buckets.capacity() + self.ranks.capacity()) * size_of::<(u32, u32)>()
    }
}

/// Whether a receive of a source and tag takes a message: one of any tag those below an end.
const fn takes((source, tag): (u32, u32), message: (u32, u32), any_tag_end: u32) -> bool {
    (source == ANY || source == message.0)
        && (tag == message.1 || tag == ANY && message.1 < any_tag_end)
}

/// A receive that takes any source or any tag.
#[derive(Clone, Copy, Debug)]
struct Wild {
    source: u32,
    tag: u32,
    id: OperationId,
    order: u64,
}

/// Receives that wait for messages, and messages that wait for receives, of all ranks.
///
/// ```
/// use viaduct_operations::{ANY, Matching};
///
/// let mut matching = Matching::new(2, true);
/// assert_eq!(matching.post(1, ANY, 7, 10), None);
/// assert_eq!(matching.post(1, 0, 7, 11), None);
/// assert_eq!(matching.arrive(1, 0, 7, 20), Some(10), "it was posted first");
/// assert_eq!(matching.arrive(1, 0, 8, 21), None);
/// assert_eq!(matching.post(1, ANY, ANY, 12), Some(21));
/// ```
#[derive(Debug)]
pub struct Matching {
    receives: Waiting,
    /// By rank; empty without wildcards.
    wild: Vec<VecDeque<Wild>>,
    messages: Waiting,
    order: u64,
    any_tag_end: u32,
}

impl Matching {
    /// For the ranks of a graph.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        Self {
            any_tag_end: graph.any_tag_end(),
            ..Self::new(graph.ranks(), graph.has_wildcards())
        }
    }

    /// For so many ranks. Without wildcards it keeps less.
    #[must_use]
    pub fn new(ranks: u32, has_wildcards: bool) -> Self {
        let wild = if has_wildcards { ranks as usize } else { 0 };
        Self {
            receives: Waiting::new(0),
            wild: vec![VecDeque::new(); wild],
            messages: Waiting::new(wild),
            order: 0,
            any_tag_end: ANY,
        }
    }

    /// Asks for where a message or a receive is looked up.
    #[inline]
    pub(crate) fn prefetch(&self, rank: u32, source: u32, tag: u32) {
        let key = Key { rank, source, tag };
        for waiting in [&self.receives, &self.messages] {
            prefetch(&raw const waiting.buckets[waiting.bucket(key)]);
        }
    }

    /// A rank posts a receive: gives the message that it takes, if one is there.
    pub fn post(
        &mut self,
        rank: u32,
        source: u32,
        tag: u32,
        receive: OperationId,
    ) -> Option<OperationId> {
        let key = Key { rank, source, tag };
        let is_wild = source == ANY || tag == ANY;
        let found = match is_wild {
            true => self.messages.first_for(key, self.any_tag_end),
            false => self.messages.find(key),
        };
        if let Some(found) = found {
            return Some(self.messages.remove(found));
        }
        self.order += 1;
        match self.wild.get_mut(rank as usize).filter(|_| is_wild) {
            Some(wild) => wild.push_back(Wild {
                source,
                tag,
                id: receive,
                order: self.order,
            }),
            None => self.receives.insert(key, receive, self.order),
        }
        None
    }

    /// A message comes to a rank: gives the receive that takes it, if one is there.
    pub fn arrive(
        &mut self,
        rank: u32,
        source: u32,
        tag: u32,
        message: OperationId,
    ) -> Option<OperationId> {
        let key = Key { rank, source, tag };
        let exact = self.receives.find(key);
        if let Some(wild) = self.wild.get_mut(rank as usize) {
            let place = wild
                .iter()
                .position(|it| takes((it.source, it.tag), (source, tag), self.any_tag_end));
            if let Some(place) = place
                && exact.is_none_or(|(_, exact)| {
                    wild[place].order < self.receives.entries[exact as usize].order
                })
            {
                return wild.remove(place).map(|it| it.id);
            }
        }
        if let Some(exact) = exact {
            return Some(self.receives.remove(exact));
        }
        self.order += 1;
        self.messages.insert(key, message, self.order);
        None
    }

    /// Receives that wait, wildcards among them, by number.
    #[must_use]
    pub fn waiting_receives(&self) -> Vec<OperationId> {
        let wild = self.wild.iter().flatten().map(|it| it.id);
        let mut all: Vec<_> = listed(&self.receives).chain(wild).collect();
        all.sort_unstable();
        all
    }

    /// Messages that wait, by number.
    #[must_use]
    pub fn waiting_messages(&self) -> Vec<OperationId> {
        let mut all: Vec<_> = listed(&self.messages).collect();
        all.sort_unstable();
        all
    }

    /// Memory that it holds, bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let wild = self.wild.iter().map(|it| it.capacity() * size_of::<Wild>());
        self.receives.state_bytes() + self.messages.state_bytes() + wild.sum::<usize>()
    }
}

fn listed(waiting: &Waiting) -> impl Iterator<Item = OperationId> + '_ {
    waiting.buckets.iter().flat_map(|&(first, _)| {
        let entry = |place: u32| waiting.entries.get(place as usize);
        let chain = core::iter::successors(entry(first), move |it| entry(it.next));
        chain.map(|it| it.id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists that are searched from their beginning.
    #[derive(Default)]
    struct Slow {
        receives: Vec<(u32, u32, u32, u32)>,
        messages: Vec<(u32, u32, u32, u32)>,
    }

    impl Slow {
        fn post(&mut self, rank: u32, source: u32, tag: u32, id: u32) -> Option<u32> {
            let found = self.messages.iter();
            let found = found
                .enumerate()
                .find(|(_, it)| it.0 == rank && takes((source, tag), (it.1, it.2), ANY));
            let Some((place, _)) = found else {
                self.receives.push((rank, source, tag, id));
                return None;
            };
            Some(self.messages.remove(place).3)
        }

        fn arrive(&mut self, rank: u32, source: u32, tag: u32, id: u32) -> Option<u32> {
            let found = self.receives.iter();
            let found = found
                .enumerate()
                .find(|(_, it)| it.0 == rank && takes((it.1, it.2), (source, tag), ANY));
            let Some((place, _)) = found else {
                self.messages.push((rank, source, tag, id));
                return None;
            };
            Some(self.receives.remove(place).3)
        }
    }

    #[test]
    fn equal_to_lists_in_order_of_arrival() {
        for has_wildcards in [false, true] {
            let (mut fast, mut slow) = (Matching::new(3, has_wildcards), Slow::default());
            let mut state = 7u64;
            let mut draw = |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) % below) as u32
            };
            let mut taken = 0;
            for id in 0..20_000 {
                let (rank, mut source, mut tag) = (draw(3), draw(4), draw(3));
                let answers = if draw(2) == 0 {
                    if has_wildcards && draw(5) == 0 {
                        source = ANY;
                    }
                    if has_wildcards && draw(5) == 0 {
                        tag = ANY;
                    }
                    (
                        fast.post(rank, source, tag, id),
                        slow.post(rank, source, tag, id),
                    )
                } else {
                    (
                        fast.arrive(rank, source, tag, id),
                        slow.arrive(rank, source, tag, id),
                    )
                };
                assert_eq!(answers.0, answers.1, "{id}");
                taken += u32::from(answers.0.is_some());
            }
            assert!(taken > 8_000, "{taken}");
            let mut left: Vec<u32> = slow.receives.iter().map(|it| it.3).collect();
            left.sort_unstable();
            assert_eq!(fast.waiting_receives(), left);
            let mut left: Vec<u32> = slow.messages.iter().map(|it| it.3).collect();
            left.sort_unstable();
            assert_eq!(fast.waiting_messages(), left);
        }
    }
}
