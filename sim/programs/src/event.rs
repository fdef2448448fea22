//! What can happen in a simulated cluster of programs.

use viaduct_network::JourneyId;
use viaduct_network::fluid::FlowId;
use viaduct_provider::via::ViId;

use crate::message::MessageId;
use crate::raw::{RawEvent, WriteId};
use crate::tasks::TaskId;

/// One event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// A task that waits has waited long enough; which of its waits.
    Wake(TaskId, u32),
    /// An adapter notices a doorbell.
    Doorbell(u32, ViId),
    /// A sending engine has done its work on a message: its bytes may move.
    Fetched(MessageId),
    /// A processor begins to write a message's bytes.
    Begins(MessageId),
    /// A message's first byte is at the receiver, where that takes a receive.
    Heads(MessageId),
    /// A flow has moved all its bytes.
    FlowEnds(FlowId),
    /// What was stored on its way goes on.
    Forwarded(JourneyId),
    /// A held engine is free again.
    EngineFree(u32),
    /// The sender may learn that its message has left.
    Sent(MessageId),
    /// A message lies at the receiver, which may match and place it.
    Arrives(MessageId),
    /// The sender's adapter hears that its message was placed.
    Acknowledged(MessageId),
    /// A message about connections arrives.
    Control(u32),
    /// A host's handlers are to be called.
    Call(u32),
    /// A generator starts a transfer.
    Transfers(u32),
    /// Something happens to a write below VIA.
    Raw(RawEvent),
    /// Something of the semantics on a host has run out of time.
    Timeout(u32),
    /// Something follows from a fault: its number among what is expected.
    Follows(u32),
}

/// An event as the event queue keeps it: two words, which are copied through registers. An event is
/// often taken right after it was scheduled, and a wide copy of what was just written field by
/// field stalls the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// Which kind of event in the lower half, a number in the upper.
    what: u64,
    about: u64,
}

impl Code {
    #[inline(always)]
    const fn new(kind: u64, number: u32, about: u64) -> Self {
        Self {
            what: kind | (number as u64) << 32,
            about,
        }
    }

    /// The event; always there, for a code made of one.
    #[inline(always)]
    pub(crate) fn event(self) -> Option<Event> {
        let number = (self.what >> 32) as u32;
        let message = MessageId(number);
        Some(match self.what as u32 {
            0 => Event::Wake(TaskId(number), self.about as u32),
            1 => Event::Doorbell(number, ViId::from_bits(self.about)?),
            2 => Event::Fetched(message),
            3 => Event::Begins(message),
            4 => Event::Heads(message),
            5 => Event::FlowEnds(FlowId(number)),
            6 => Event::EngineFree(number),
            7 => Event::Sent(message),
            8 => Event::Arrives(message),
            9 => Event::Acknowledged(message),
            10 => Event::Control(number),
            11 => Event::Call(number),
            12 => Event::Transfers(number),
            13 => Event::Raw(RawEvent::Begins(WriteId(number))),
            14 => Event::Raw(RawEvent::Ended(number)),
            15 => Event::Raw(RawEvent::Arrives(WriteId(number))),
            16 => Event::Timeout(number),
            17 => Event::Follows(number),
            18 => Event::Forwarded(JourneyId(number)),
            _ => return None,
        })
    }
}

impl From<Event> for Code {
    #[inline(always)]
    fn from(event: Event) -> Self {
        match event {
            Event::Wake(task, wait) => Self::new(0, task.0, wait.into()),
            Event::Doorbell(host, vi) => Self::new(1, host, vi.to_bits()),
            Event::Fetched(message) => Self::new(2, message.0, 0),
            Event::Begins(message) => Self::new(3, message.0, 0),
            Event::Heads(message) => Self::new(4, message.0, 0),
            Event::FlowEnds(flow) => Self::new(5, flow.0, 0),
            Event::EngineFree(host) => Self::new(6, host, 0),
            Event::Sent(message) => Self::new(7, message.0, 0),
            Event::Arrives(message) => Self::new(8, message.0, 0),
            Event::Acknowledged(message) => Self::new(9, message.0, 0),
            Event::Control(number) => Self::new(10, number, 0),
            Event::Call(host) => Self::new(11, host, 0),
            Event::Transfers(generator) => Self::new(12, generator, 0),
            Event::Raw(RawEvent::Begins(write)) => Self::new(13, write.0, 0),
            Event::Raw(RawEvent::Ended(host)) => Self::new(14, host, 0),
            Event::Raw(RawEvent::Arrives(write)) => Self::new(15, write.0, 0),
            Event::Timeout(host) => Self::new(16, host, 0),
            Event::Follows(number) => Self::new(17, number, 0),
            Event::Forwarded(journey) => Self::new(18, journey.0, 0),
        }
    }
}

impl From<FlowId> for Code {
    #[inline(always)]
    fn from(flow: FlowId) -> Self {
        Event::FlowEnds(flow).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_one_event() {
        let message = MessageId(0x8000_0003);
        let vi = ViId::from_bits(7 << 32 | 0xFFFF_FFFE).unwrap();
        for event in [
            Event::Wake(TaskId(u32::MAX), u32::MAX - 1),
            Event::Doorbell(9, vi),
            Event::Fetched(message),
            Event::Begins(message),
            Event::Heads(message),
            Event::FlowEnds(FlowId(u32::MAX)),
            Event::EngineFree(4),
            Event::Sent(message),
            Event::Arrives(message),
            Event::Acknowledged(message),
            Event::Control(5),
            Event::Call(6),
            Event::Transfers(7),
            Event::Raw(RawEvent::Begins(WriteId(8))),
            Event::Raw(RawEvent::Ended(9)),
            Event::Raw(RawEvent::Arrives(WriteId(10))),
            Event::Timeout(11),
            Event::Follows(12),
            Event::Forwarded(JourneyId(13)),
        ] {
            assert_eq!(Code::from(event).event(), Some(event));
        }
    }
}
