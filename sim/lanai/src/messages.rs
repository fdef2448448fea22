//! Records of messages, in places that are used again, and of bulk on a host's bus.

use core::ops::{Index, IndexMut};

use viaduct_engine::Time;
use viaduct_frames::transport::Ticket;
use viaduct_frames::{Endpoint, Frame};

use crate::cluster::{Entry, Message};
use crate::load::Flight;

/// A bulk message on its way into host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkWrite {
    pub(crate) ticket: Option<Ticket>,
    pub(crate) entry: Entry,
    pub(crate) endpoint: Endpoint,
    pub(crate) frame: Frame,
}

/// A packet whose bulk message is still in host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) flight: Flight,
    pub(crate) bytes: u32,
    /// How long it may go unanswered.
    pub(crate) timeout: Time,
}

/// Messages until their senders know what became of them, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    records: Vec<Message>,
    free: Vec<u32>,
}

impl Messages {
    /// A new record; returns its number.
    #[inline(always)]
    pub(crate) fn add(&mut self, message: Message) -> u32 {
        if let Some(index) = self.free.pop() {
            self.records[index as usize] = message;
            return index;
        }
        self.records.push(message);
        self.records.len() as u32 - 1
    }

    /// A record is over: its number is for another one.
    #[inline]
    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Records that are not over.
    pub(crate) const fn count(&self) -> usize {
        self.records.len() - self.free.len()
    }
}

impl Index<u32> for Messages {
    type Output = Message;

    #[inline]
    fn index(&self, index: u32) -> &Message {
        &self.records[index as usize]
    }
}

impl IndexMut<u32> for Messages {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Message {
        &mut self.records[index as usize]
    }
}
