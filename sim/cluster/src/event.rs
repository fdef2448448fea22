//! What can happen in a simulated cluster.

use crate::message::MessageId;
use viaduct_network::JourneyId;
use viaduct_network::fluid::FlowId;

/// One event: eight bytes, where there are no programs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event<E> {
    /// A process posts its next message.
    Arrival(u32),
    /// The sending NIC has read and checked a descriptor: its data can move.
    Fetched(MessageId),
    /// A message's bytes may begin to move, if those of its VI before it have gone.
    Begins(MessageId),
    /// A sending engine that was held is free again.
    EngineFree(u32),
    /// A message's first bytes reach the receiving NIC.
    HeadArrives(MessageId),
    /// A flow has moved all its bytes.
    FlowEnds(FlowId),
    /// A stored message goes on over its next link.
    Forwarded(MessageId),
    /// A message's last byte reaches the receiving NIC's memory side.
    TailArrives(MessageId),
    /// A process that is behind the kernel is done with what it did, and looks for messages.
    Looks(u32),
    /// A process looks at its sends behind a post: see [`crate::sent`].
    LooksAtSends(u32),
    /// The receiving application has taken the message.
    Reaped(MessageId),
    /// A receive descriptor that was used is with the NIC again.
    Reposted(MessageId),
    /// The sending application has learnt that its send descriptor is complete.
    SendReaped(u32),
    /// The sender of a message hears that it was placed.
    Acknowledged(MessageId),
    /// The sender of a message that was lost has waited for long enough.
    GivesUp(MessageId),
    /// A host or its NIC dies: which, by its place in the list of deaths.
    Dies(u32),
    /// The other hosts have missed one for long enough.
    DeathNoticed(u32),
    /// A link has been down for long enough.
    CutNoticed(u32),
    /// A process that keeps a window full and could not send tries again.
    Refused(u32),
    /// A source of background traffic starts a transfer.
    Background(u32),
    /// What was stored on its way, and is no message, goes on.
    GoesOn(JourneyId),
    /// An operation of a graph has ended, or a message within a host has come: see
    /// [`crate::operations`].
    Operation(u32),
    /// Another device on a host's bus begins a transfer.
    DeviceTransfer(u32),
    /// The warm-up ends.
    WarmupEnds,
    /// A window of the time series ends.
    WindowEnds,
    /// The sender of a program's message may learn that it has left.
    Sent(MessageId),
    /// A program's message takes its receive, whose first byte was there before.
    Meets(MessageId),
    /// A host's program rings a doorbell for a receive.
    Rings(u32),
    /// A message about connections arrives.
    Control(u32),
    /// Something follows from a fault: its number among what is expected.
    Follows(u32),
    /// Something happens to programs, and to nobody else.
    OfPrograms(E),
}

impl<E> From<FlowId> for Event<E> {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}
