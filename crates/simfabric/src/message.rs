//! Messages under way.

use viaduct_engine::Time;
use viaduct_fabric::via::{MessageHeader, Peer, RemoteSegment, StartedReceive, ViId, WorkId};

use crate::faults::Fate;
use crate::mechanism::Plan;

/// Number of a message under way; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MessageId(pub(crate) u32);

/// A send, a remote write or a remote read on its way.
#[derive(Debug)]
pub(crate) struct Message {
    /// The host that posted it, and how it names it.
    pub(crate) host: u32,
    pub(crate) vi: ViId,
    pub(crate) work: WorkId,
    pub(crate) header: MessageHeader,
    pub(crate) remote: Option<RemoteSegment>,
    pub(crate) peer: Peer,
    /// The peer's host.
    pub(crate) target: u32,
    pub(crate) plan: Plan,
    /// When its bytes began to move.
    pub(crate) begun: Time,
    /// How long its first byte is on the links, then.
    pub(crate) head: Time,
    /// The answer to a remote read is on its way back.
    pub(crate) is_answer: bool,
    /// Which receive it has taken, if it has met its VI.
    pub(crate) matched: Matched,
    /// Its number on its connection, where what is lost is sent again; else 0.
    pub(crate) sequence: u32,
    /// In which go of its connection it was sent last.
    pub(crate) epoch: u32,
    /// Times that its answer was lost.
    pub(crate) goes: u32,
    /// What became of its bytes.
    pub(crate) fate: Fate,
    /// The bytes, as they were when the message started.
    pub(crate) payload: Vec<u8>,
    /// Things yet to happen that name it.
    pub(crate) references: u8,
}

/// What a message has met at its target, when its first byte was there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Matched {
    /// It has met nothing yet.
    #[default]
    Not,
    /// A receive: its bytes follow.
    Receive(StartedReceive),
    /// Nothing that could take it: what follows is dropped.
    Dropped,
}

/// All messages under way.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    slots: Vec<Option<Message>>,
    free: Vec<u32>,
    /// Emptied payloads, for others.
    spare: Vec<Vec<u8>>,
}

impl Messages {
    pub(crate) fn insert(&mut self, message: Message) -> MessageId {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(message);
                MessageId(slot)
            }
            None => {
                self.slots.push(Some(message));
                MessageId(self.slots.len() as u32 - 1)
            }
        }
    }

    pub(crate) fn get(&mut self, id: MessageId) -> Option<&mut Message> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// One of the things that name it has happened.
    pub(crate) fn release(&mut self, id: MessageId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else {
            return;
        };
        let Some(message) = slot else { return };
        message.references -= 1;
        if message.references == 0 {
            let mut payload = core::mem::take(&mut message.payload);
            *slot = None;
            self.free.push(id.0);
            if payload.capacity() > 0 && self.spare.len() < 64 {
                payload.clear();
                self.spare.push(payload);
            }
        }
    }

    /// A buffer for bytes.
    pub(crate) fn payload(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
}
