//! What goes over the network: headers of packets and of answers.

use crate::names::Peer;

/// The header of a packet: a message, or an empty packet that only asks for the end of one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Packet {
    /// Who sends it.
    pub source: Peer,
    /// To whom.
    pub target: Peer,
    /// On which logical channel between the two.
    pub channel: u8,
    /// Over which route.
    pub route: u8,
    /// Whether it carries no message.
    pub is_empty: bool,
    /// Its place on the channel.
    pub sequence: u32,
    /// When it was sent: different for each transmission of one sequence, reflected in the answer.
    pub stamp: u32,
    /// Which boot of the source.
    pub source_incarnation: u32,
    /// Which boot of the target it is meant for; 0 if the source knows none.
    pub target_incarnation: u32,
}

/// The answer to one packet.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Answer {
    /// Who answers.
    pub source: Peer,
    /// Who had sent the packet.
    pub target: Peer,
    /// The packet's channel.
    pub channel: u8,
    /// The packet's route.
    pub route: u8,
    /// The packet's place on the channel.
    pub sequence: u32,
    /// The packet's stamp.
    pub stamp: u32,
    /// Which boot answers.
    pub source_incarnation: u32,
    /// Which boot had sent the packet.
    pub target_incarnation: u32,
    /// How the packet ended.
    pub verdict: Verdict,
    /// How the packet before it on the channel ended. Means nothing if the verdict is
    /// [`Verdict::Unsynchronised`].
    pub previous: Fate,
}

/// How a packet ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// It is written in the destination endpoint's queue.
    Accepted,
    /// It is not, and this is why.
    Refused(Reason),
    /// It was meant for another boot of this interface, or for none: it was not looked at.
    Unsynchronised,
}

/// Why a message was not written in its destination's queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// The endpoint is in no frame now.
    NotResident,
    /// Its queue is full now.
    QueueFull,
    /// The message's key is not the endpoint's.
    WrongKey,
    /// There is no such endpoint.
    NoSuchEndpoint,
    /// The message fails a check of the receiver, such as of its length.
    Malformed,
}

impl Reason {
    /// Whether the same message would be refused again for ever.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::NotResident | Self::QueueFull)
    }
}

/// What became, for good, of a packet that no answer was heard of.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// It was not accepted, and no copy of it will be.
    #[default]
    Undelivered,
    /// It was accepted.
    Accepted,
    /// It was refused for good.
    Refused(Reason),
}

/// Why a message returned to its sender.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ReturnReason {
    /// The destination refused it for good.
    Refused(Reason),
    /// The destination's interface answered nothing for long.
    Unreachable,
    /// The destination's host rebooted while it was under way.
    Rebooted,
}
