//! Messages under way.

use viaduct_engine::{Time, prefetch_all};
use viaduct_hardware::mechanism::{LastPlan, Plan, PlanId, Plans};
use viaduct_provider::via::{MessageHeader, Peer, RemoteSegment, StartedReceive, ViId, WorkId};

use viaduct_cluster::faults::Fate;

/// Number of a message under way; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MessageId(pub(crate) u32);

/// A send, a remote write or a remote read on its way.
#[derive(Clone, Copy, Debug)]
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
    pub(crate) plan: PlanId,
    /// When its bytes began to move.
    pub(crate) begun: Time,
    /// How long its first byte is on the links, then.
    pub(crate) head: Time,
    /// The links that it crosses now, of those of its way: from one, and up to another.
    pub(crate) links: (u16, u16),
    /// The answer to a remote read is on its way back.
    pub(crate) is_answer: bool,
    /// Which receive it has taken, if it has met its VI.
    pub(crate) matched: Matched,
    /// Its number on its connection, where what is lost is sent again; else 0.
    pub(crate) sequence: u32,
    /// In which go of its connection it was sent last; of an answer, frames of it that have come.
    pub(crate) epoch: u32,
    /// Times that its answer was lost.
    pub(crate) goes: u32,
    /// How its bytes ended.
    pub(crate) fate: Fate,
    /// Things yet to happen that name it.
    pub(crate) references: u8,
}

/// The links of a message that crosses its way at once.
pub(crate) const WHOLE_WAY: (u16, u16) = (0, u16::MAX);

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
    /// One that nothing names any more is free.
    slots: Vec<Message>,
    /// By slot: the bytes, as they were when the message started. Those of free ones are empty,
    /// and keep their memory.
    payloads: Vec<Vec<u8>>,
    free: Vec<u32>,
    plans: Plans,
}

/// Longer payloads are given back, but for those of the first messages.
const KEPT_BYTES: usize = 1 << 10;
const KEPT_MESSAGES: u32 = 64;

impl Messages {
    /// Holds the plan that was made last, for a message that is to be inserted.
    #[inline]
    pub(crate) fn hold_plan(&mut self, last: &mut LastPlan) -> PlanId {
        self.plans.hold_last(last)
    }

    /// Gives a message a plan of its own.
    pub(crate) fn change_plan(&mut self, id: MessageId, plan: Plan) {
        if self.get(id).is_none() {
            return;
        }
        let plan = self.plans.add(plan);
        let former = core::mem::replace(&mut self.slots[id.0 as usize].plan, plan);
        self.plans.release(former);
    }

    /// A message, and how it is carried.
    #[inline]
    pub(crate) fn with_plan(&mut self, id: MessageId) -> Option<(&mut Message, &Plan)> {
        let message = self.slots.get_mut(id.0 as usize)?;
        let plan = self.plans.get(message.plan);
        (message.references > 0).then_some((message, plan))
    }

    // Always inlined, so that the message is written where it stays: a copy of what was just
    // written field by field stalls the processor.
    #[inline(always)]
    pub(crate) fn insert(&mut self, make: impl FnOnce() -> Message) -> MessageId {
        if let Some(slot) = self.free.pop() {
            if let Some(place) = self.slots.get_mut(slot as usize) {
                *place = make();
            }
            return MessageId(slot);
        }
        self.slots.push(make());
        self.payloads.push(Vec::new());
        MessageId(self.slots.len() as u32 - 1)
    }

    #[inline]
    /// The number of a message's flow, which is its VI: all of them take one path.
    pub(crate) fn flow(&mut self, id: MessageId) -> u32 {
        self.get(id).map_or(0, |message| message.vi.index())
    }

    pub(crate) fn get(&mut self, id: MessageId) -> Option<&mut Message> {
        let message = self.slots.get_mut(id.0 as usize)?;
        (message.references > 0).then_some(message)
    }

    /// A message, or what is left of one; for hints.
    #[inline]
    pub(crate) fn peek(&self, id: MessageId) -> Option<&Message> {
        self.slots.get(id.0 as usize)
    }

    /// Asks for a message's memory.
    #[inline]
    pub(crate) fn prefetch(&self, id: MessageId) {
        if let Some(message) = self.slots.get(id.0 as usize) {
            prefetch_all(message);
        }
    }

    /// The bytes of a message under way.
    #[inline]
    pub(crate) fn payload(&mut self, id: MessageId) -> &mut Vec<u8> {
        &mut self.payloads[id.0 as usize]
    }

    /// One of the things that name it has happened.
    #[inline(always)]
    pub(crate) fn release(&mut self, id: MessageId) {
        let Some(message) = self.get(id) else { return };
        message.references -= 1;
        if message.references == 0 {
            self.free(id);
        }
    }

    #[inline(never)]
    fn free(&mut self, id: MessageId) {
        self.plans.release(self.slots[id.0 as usize].plan);
        let payload = &mut self.payloads[id.0 as usize];
        payload.clear();
        if payload.capacity() > KEPT_BYTES && id.0 >= KEPT_MESSAGES {
            *payload = Vec::new();
        }
        self.free.push(id.0);
    }
}
