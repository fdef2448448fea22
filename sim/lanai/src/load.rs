//! What interfaces say to each other in one packet.

use viaduct_frames::transport::{Answer, Packet};

/// What a packet of the network carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A message; the number of its record, if the packet carries one.
    Message(Packet, Option<u32>),
    Answer(Answer),
    /// A message of an interface that has no transport.
    Plain(u32),
    /// One that its target refused, on its way back.
    Back(u32),
}

impl Load {
    /// Which of the equal ways it takes.
    const fn route(self) -> u8 {
        match self {
            Self::Message(packet, _) => packet.route,
            Self::Answer(answer) => answer.route,
            Self::Plain(_) | Self::Back(_) => 0,
        }
    }

    /// The packet that carries it.
    #[inline]
    pub(crate) fn packed(self, from: u16, to: u16, bytes: u32) -> Flight {
        Flight {
            from: from.into(),
            to: to.into(),
            bytes,
            route: self.route().into(),
            content: self,
        }
    }
}

/// A packet under way.
pub(crate) type Flight = viaduct_network::Packet<Load>;
