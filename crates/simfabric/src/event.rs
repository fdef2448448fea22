//! What can happen in a simulated cluster of programs.

use viaduct_fabric::via::ViId;
use viaduct_sim::fluid::FlowId;

use crate::failures::Consequence;
use crate::message::MessageId;
use crate::raw::RawEvent;
use crate::tasks::TaskId;

/// One event.
#[derive(Clone, Copy, Debug)]
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
    /// Something follows from a fault.
    Follows(Consequence),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}
