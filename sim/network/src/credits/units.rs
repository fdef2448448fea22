//! What a message is cut into: packets, and what of a packet moves and takes a buffer as a whole.
//!
//! With virtual cut-through that is the packet, with wormhole each of its flits.

use super::channel::NONE;
use super::settings::{CreditLinks, FlowControl};
use crate::frames::alone::Sizes;
use crate::passage::Parts;
use crate::rate::Frame;

/// Which unit of its packet and message one is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Others of its packet follow.
    Inner,
    /// The last of a packet; other packets follow.
    PacketEnd,
    /// The last of all.
    MessageEnd,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Inner, Self::PacketEnd, Self::MessageEnd];

    #[inline]
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// Whether it is the last of its packet.
    #[inline]
    pub(super) fn ends_packet(self) -> bool {
        self != Self::Inner
    }
}

/// The units of a message. All packets but the last are of one size, and all units but the last of
/// a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Units {
    pub(super) packets: u32,
    pub(super) per_packet: u32,
    pub(super) in_last: u32,
    /// By kind: bytes on the link, and credits.
    pub(super) bytes: [f64; 3],
    pub(super) credits: [u32; 3],
}

/// A message on its way; by kind of unit.
pub(super) type Passages = crate::passage::Passages<Cut, 3>;

/// What one is cut into.
#[derive(Debug)]
pub(super) struct Cut {
    units: Units,
    /// What the adapter has not sent yet.
    pub(super) left: Left,
    /// Units that are not with its target, and when the last of the others was.
    coming: u32,
    there: u64,
    /// Whether its packets take ways of their own; if so, the one that is being sent, and the
    /// number of the next.
    pub(super) is_spread: bool,
    pub(super) packet: u32,
    pub(super) next_number: u16,
    /// When it began.
    pub(super) begun: u64,
    /// Which of the channels of a class its packets take.
    pub(super) lane: u32,
}

/// What of a message has not been sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    pub(super) packets: u32,
    /// Units of the packet that is being sent.
    pub(super) units: u32,
}

impl Units {
    pub(super) const NONE: Self = Self {
        packets: 0,
        per_packet: 0,
        in_last: 0,
        bytes: [0.0; 3],
        credits: [0; 3],
    };

    pub(super) fn of(wire_bytes: f64, frame: Frame, links: &CreditLinks) -> Self {
        let sizes = Sizes::of(wire_bytes, frame);
        let flit = f64::from(links.flit_bytes.max(1));
        let flits = |bytes: f64| (bytes / flit).ceil().max(1.0);
        let (full, last) = (flits(sizes.full), flits(sizes.last));
        match links.flow_control {
            FlowControl::VirtualCutThrough => Self {
                packets: sizes.count,
                per_packet: 1,
                in_last: 1,
                bytes: [sizes.full, sizes.full, sizes.last],
                credits: [full as u32, full as u32, last as u32],
            },
            FlowControl::Wormhole => Self {
                packets: sizes.count,
                per_packet: full as u32,
                in_last: last as u32,
                bytes: [
                    flit,
                    sizes.full - (full - 1.0) * flit,
                    sizes.last - (last - 1.0) * flit,
                ],
                credits: [1; 3],
            },
        }
    }

    /// Of what crosses links; on a bus alone whole packets take turns.
    pub(super) fn over(
        has_links: bool,
        wire_bytes: f64,
        frame: Frame,
        links: &CreditLinks,
    ) -> Self {
        let flow_control = match has_links {
            true => links.flow_control,
            false => FlowControl::VirtualCutThrough,
        };
        let links = CreditLinks {
            flow_control,
            ..*links
        };
        Self::of(wire_bytes, frame, &links)
    }

    /// All of them.
    pub(super) fn all(&self) -> Left {
        Left {
            packets: self.packets,
            units: self.units_of(self.packets),
        }
    }

    fn count(&self) -> u32 {
        match self.packets {
            0 => 0,
            packets => (packets - 1) * self.per_packet + self.in_last,
        }
    }

    /// Those of the first of so many packets.
    fn units_of(&self, packets: u32) -> u32 {
        match packets {
            0 => 0,
            1 => self.in_last,
            _ => self.per_packet,
        }
    }

    /// What is left when one more has gone.
    #[inline]
    pub(super) fn after(&self, left: Left) -> Left {
        if left.units > 1 {
            return Left {
                units: left.units - 1,
                ..left
            };
        }
        let packets = left.packets - 1;
        Left {
            packets,
            units: self.units_of(packets),
        }
    }
}

impl Parts for Cut {
    const NONE: Self = Self {
        units: Units::NONE,
        left: Left::NOTHING,
        coming: 0,
        there: 0,
        is_spread: false,
        packet: NONE,
        next_number: 0,
        begun: 0,
        lane: 0,
    };

    #[inline]
    fn are_sent(&self) -> bool {
        self.left.packets == 0
    }
}

impl Cut {
    /// Of a message that begins.
    pub(super) fn of(units: Units) -> Self {
        Self {
            units,
            left: units.all(),
            coming: units.count(),
            ..Self::NONE
        }
    }

    /// A unit is with the target from a time on: when all are, if it is the last to come.
    #[inline]
    pub(super) fn come(&mut self, end: u64) -> Option<u64> {
        self.coming -= 1;
        self.there = self.there.max(end);
        (self.coming == 0).then_some(self.there)
    }

    /// Bytes of a unit on the link.
    #[inline]
    pub(super) fn bytes(&self, kind: Kind) -> f64 {
        self.units.bytes[kind.place()]
    }

    /// Credits that it takes.
    #[inline]
    pub(super) fn credits(&self, kind: Kind) -> u32 {
        self.units.credits[kind.place()]
    }

    /// The next one is sent.
    #[inline]
    pub(super) fn send(&mut self) {
        self.left = self.units.after(self.left);
    }
}

impl Left {
    pub(super) const NOTHING: Self = Self {
        packets: 0,
        units: 0,
    };

    /// Which one is next.
    #[inline]
    pub(super) fn next(self) -> Kind {
        match self {
            Self { units: 2.., .. } => Kind::Inner,
            Self { packets: 2.., .. } => Kind::PacketEnd,
            Self { .. } => Kind::MessageEnd,
        }
    }
}
