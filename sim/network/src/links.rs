//! How fast links are, how flows share them, and what a switch costs.

use viaduct_engine::Time;
use viaduct_topology::{LinkClass, LinkId, Topology};

use crate::credits::CreditLinks;
use crate::frames::nscc::WINDOW_BYTES;
use crate::frames::pause::{headroom, headroom_of_switch};
use crate::hops::Delays;
use crate::rate::{Frame, Rate, Switching};

/// The links of the network.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How a link shares its rate among its active flows.
    pub sharing: Sharing,
    /// Of [`Sharing::Queues`], whether a queue serves bytes that have not come yet.
    pub arrival: Arrival,
    /// Whether a message crosses its links at once or one after the other; of frames that go one
    /// by one, whether each does.
    pub switching: Switching,
    /// Rate of a link between switches, after line coding.
    pub rate: Rate,
    /// Rate of the link between a host and its switch, after line coding.
    pub host_rate: Rate,
    /// Signal propagation of one link between switches.
    pub propagation: Time,
    /// Signal propagation of the link between a host and its switch.
    pub host_propagation: Time,
    /// Framing on the link.
    pub frame: Frame,
    /// What the output queues of switches hold, of frames that go one by one.
    pub buffers: Buffers,
    /// Channels and credits, where links have them.
    pub credits: CreditLinks,
}

impl LinkConfig {
    /// When switches forward messages: while they arrive, where frames are forwarded one by one.
    pub(crate) fn switching_of_messages(&self) -> Switching {
        match self.sharing {
            Sharing::Packets | Sharing::Credits => Switching::CutThrough,
            Sharing::Fluid | Sharing::MaxMin | Sharing::Queues => self.switching,
        }
    }

    /// The rate of one link: its own, if the network's file gives one.
    #[must_use]
    pub fn rate_of(&self, topology: &Topology, link: LinkId) -> Rate {
        if let Some(bits_per_second) = topology.link_rate_bits_per_second(link) {
            return Rate::from_bits_per_second(bits_per_second);
        }
        match topology.link_class(link) {
            LinkClass::HostUp | LinkClass::HostDown => self.host_rate,
            LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => self.rate,
        }
    }

    /// Whether a message may hold a link up while it waits for the next: with credits, and where
    /// links pause.
    #[must_use]
    pub const fn has_back_pressure(&self) -> bool {
        match self.sharing {
            Sharing::Fluid | Sharing::MaxMin | Sharing::Queues => false,
            Sharing::Packets => self.buffers.may_pause(),
            Sharing::Credits => true,
        }
    }

    /// What a switch keeps free for what still comes by a link that was told to pause, bytes: most
    /// of all links. See [`Buffers::full`].
    #[must_use]
    pub fn pause_headroom(&self, topology: &Topology, switch: SwitchModel) -> u64 {
        let delays = Delays {
            topology,
            links: self,
            switch: &switch,
        };
        let most = |link| headroom(&delays, LinkId(link));
        (0..topology.link_count()).map(most).max().unwrap_or(0)
    }

    /// What a switch keeps free for what still comes by all its links, bytes: most of all switches.
    #[must_use]
    pub fn pause_headroom_of_switch(&self, topology: &Topology, switch: SwitchModel) -> u64 {
        headroom_of_switch(&Delays {
            topology,
            links: self,
            switch: &switch,
        })
    }

    /// The propagation of one link: its own, if the network's file gives one.
    #[must_use]
    pub fn propagation_of(&self, topology: &Topology, link: LinkId) -> Time {
        if let Some(picoseconds) = topology.link_latency_picoseconds(link) {
            return Time::from_picoseconds(picoseconds);
        }
        match topology.link_class(link) {
            LinkClass::HostUp | LinkClass::HostDown => self.host_propagation,
            LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => self.propagation,
        }
    }
}

/// What an output queue of a switch holds of frames that go one by one, and what it does with those
/// that come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Buffers {
    /// Bytes of the frames that are in it, with the one that leaves: what becomes of a frame with
    /// which it would be more, [`Buffers::full`] says. Any number if none.
    pub bytes_max: Option<u64>,
    /// The memory that all queues of a switch share, if they do: of what would be more in one than
    /// its threshold, [`Buffers::full`] says what becomes, too. Where links pause, what came by
    /// each link has such a threshold, and all links keep their headroom beside what they share.
    pub shared: Option<SharedMemory>,
    /// Which frame goes first.
    pub queueing: Queueing,
    /// What a switch does that has no room.
    pub full: WhenFull,
    /// Which frames it marks, if any.
    pub marking: Option<Marking>,
}

/// The memory of a switch, with dynamic thresholds (Choudhury and Hahne, 1998): a queue may hold so
/// many times what is free. One alone comes to `alpha / (1 + alpha)` of it, each of n to
/// `alpha / (1 + n alpha)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemory {
    /// Bytes of the frames that all queues of a switch hold together, with those that leave.
    pub bytes: u64,
    /// How many times what is free a queue may hold.
    pub alpha: f64,
}

impl SharedMemory {
    /// Bytes that the longest frame may have: one that comes to an empty switch.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.threshold(0).min(self.bytes)
    }

    /// Bytes that a queue may hold, or what came by one link that may pause, where all together
    /// hold so many.
    #[must_use]
    pub fn threshold(&self, used: u64) -> u64 {
        (self.alpha * self.bytes.saturating_sub(used) as f64) as u64
    }
}

/// Which frame of an output queue goes first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Queueing {
    /// The one that came first.
    #[default]
    FirstCome,
    /// Flows take turns: deficit round robin, of a full frame each. What is alone in its own flow
    /// is one.
    Fair,
}

/// What a switch does when its buffers are full.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// It loses the frame that comes. [`Buffers::bytes_max`] is of each output queue.
    #[default]
    Drop,
    /// It has a link pause before that: priority flow control (IEEE 802.1Qbb), with one priority.
    /// [`Buffers::bytes_max`] is what it holds of frames that came by one link, wherever they go;
    /// its queues share that.
    Pause {
        /// How much of this, or of the memory that all links share, is kept for what still comes
        /// when the link has been told to pause, bytes: what the link's length and rate ask for if
        /// none.
        headroom_bytes: Option<u64>,
    },
    /// It cuts the frame that comes to its header, which goes on at priority, and the receiver asks
    /// for it again. [`Buffers::bytes_max`] is of each output queue, and of whole frames; one that
    /// finds none before it always has room.
    Trim,
}

impl Buffers {
    /// Whether frames may be lost in queues.
    #[must_use]
    pub const fn may_lose(&self) -> bool {
        match self.full {
            WhenFull::Drop => self.is_limited(),
            // What links ask for is enough; what is given may be less.
            WhenFull::Pause { headroom_bytes } => self.is_limited() && headroom_bytes.is_some(),
            WhenFull::Trim => false,
        }
    }

    /// Whether frames are trimmed.
    #[must_use]
    pub const fn may_trim(&self) -> bool {
        self.is_limited() && matches!(self.full, WhenFull::Trim)
    }

    /// Whether queues do not hold all that comes.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.bytes_max.is_some() || self.shared.is_some()
    }

    /// Whether senders keep windows.
    #[must_use]
    pub(crate) fn has_windows(&self) -> bool {
        let control = self.marking.map(|marking| marking.control);
        control == Some(CongestionControl::Nscc)
    }

    /// Bytes of memory that are kept for each flow that has sent anything.
    #[must_use]
    pub fn flow_bytes(&self) -> u64 {
        match self.has_windows() {
            true => WINDOW_BYTES,
            false => 0,
        }
    }

    /// Whether links are told to pause.
    #[must_use]
    pub const fn may_pause(&self) -> bool {
        self.is_limited() && matches!(self.full, WhenFull::Pause { .. })
    }
}

/// Which frames a queue marks, so that their receivers tell their senders of congestion (ECN).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Bytes of the frames before it up to which none is marked.
    pub low_bytes: u64,
    /// Bytes from which each is; in between it is drawn, and the more bytes the more are.
    pub high_bytes: u64,
    /// The part of frames that is marked just below that, 0 to 1.
    pub probability: f64,
    /// What senders do that are told.
    pub control: CongestionControl,
}

/// What a sender does whose frames are marked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CongestionControl {
    /// Nothing.
    #[default]
    None,
    /// It slows the flow down, and speeds it up again: DCQCN.
    Dcqcn,
    /// It keeps so many bytes of the flow on their way as marks, and how long frames wait, allow:
    /// NSCC of Ultra Ethernet.
    Nscc,
}

/// How a link's rate is shared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// Ours: each of n active flows gets 1/n of each link on its path, moves at the smallest of
    /// these, and what it does not use is lost.
    Fluid,
    /// Max-min fairness: unused shares are handed on.
    MaxMin,
    /// The published rule: each output queue by itself, a subqueue for each flow and the same share
    /// for each busy subqueue.
    Queues,
    /// Not at all: each frame of a message by itself goes through output queues.
    Packets,
    /// Each packet or flit by itself, where it finds room at the end of its next link: virtual
    /// channels and credits.
    Credits,
}

/// Whether a queue of messages serves bytes that have not come yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Arrival {
    /// It does, as the text has it: a message enters with its whole length.
    #[default]
    Free,
    /// It serves no byte before that has come; what a subqueue cannot use of its share goes to the
    /// others.
    Limits,
}

impl Sharing {
    /// Its word in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fluid => "fluid",
            Self::MaxMin => "max-min",
            Self::Queues => "queues",
            Self::Packets => "packets",
            Self::Credits => "credits",
        }
    }

    /// Whether messages go piece by piece: frames, packets or flits.
    #[must_use]
    pub const fn goes_in_pieces(self) -> bool {
        matches!(self, Self::Packets | Self::Credits)
    }
}

/// What a switch costs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SwitchModel {
    /// From the arrival of the part that decides the route to the start of forwarding.
    pub delay: Time,
    /// Bytes that must have arrived before a cut-through switch forwards, at most the message.
    pub cut_through_bytes: u32,
}
