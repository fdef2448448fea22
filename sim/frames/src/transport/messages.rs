//! Messages that have not ended, in a slab; those without a channel in lists of their peers.

use crate::names::{Line, NONE};

/// Names a message that has not ended. Afterwards another message may have the name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageId(u32);

impl MessageId {
    pub(super) const fn new(slot: u32) -> Self {
        Self(slot)
    }

    pub(super) const fn slot(self) -> u32 {
        self.0
    }
}

/// Where a message is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Place {
    /// Nowhere: the slot is free.
    Free,
    /// On the channel with this key.
    Bound(u32),
    /// Off this channel, its fate unknown.
    Limbo(u32),
    /// Off, not delivered; its time has not come.
    Waiting,
    /// Off, not delivered; takes the next free channel.
    Ready,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) token: u32,
    before: u32,
    after: u32,
    pub(super) place: Place,
    pub(super) line: Line,
    /// How often it was taken off a channel.
    pub(super) times_unbound: u8,
    /// Its time to be put on again came while its fate was unknown.
    pub(super) is_due: bool,
    pub(super) is_recalled: bool,
}

/// Messages linked through their slots.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Messages {
    slots: Vec<Message>,
    free: u32,
    live: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            live: 0,
        }
    }
}

impl core::ops::Index<u32> for Messages {
    type Output = Message;
    fn index(&self, slot: u32) -> &Message {
        &self.slots[slot as usize]
    }
}

impl core::ops::IndexMut<u32> for Messages {
    fn index_mut(&mut self, slot: u32) -> &mut Message {
        &mut self.slots[slot as usize]
    }
}

impl Messages {
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Slots there are, free ones included.
    pub(super) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    pub(super) fn add(&mut self, token: u32, line: Line) -> u32 {
        let message = Message {
            token,
            before: NONE,
            after: NONE,
            place: Place::Free,
            line,
            times_unbound: 0,
            is_due: false,
            is_recalled: false,
        };
        self.live += 1;
        if self.free == NONE {
            self.slots.push(message);
            return self.slots() - 1;
        }
        let slot = self.free;
        self.free = self[slot].after;
        self[slot] = message;
        slot
    }

    /// Frees a slot that is in no list; returns its token.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> u32 {
        let free = self.free;
        let message = &mut self[slot];
        message.place = Place::Free;
        message.after = free;
        let token = message.token;
        self.free = slot;
        self.live -= 1;
        token
    }

    pub(super) fn append(&mut self, list: &mut List, slot: u32) {
        self[slot].before = list.last;
        self[slot].after = NONE;
        match self.slots.get_mut(list.last as usize) {
            Some(last) => last.after = slot,
            None => list.first = slot,
        }
        list.last = slot;
    }

    pub(super) fn detach(&mut self, list: &mut List, slot: u32) {
        let Message { before, after, .. } = self[slot];
        match self.slots.get_mut(before as usize) {
            Some(message) => message.after = after,
            None => list.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(message) => message.before = before,
            None => list.last = before,
        }
    }
}
