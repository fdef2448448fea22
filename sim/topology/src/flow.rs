//! How a flow chooses between equally good links.

use crate::HostId;

/// Which of several equally good links a message takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EqualPaths {
    /// One for each flow, by a hash of its source, its target and its number, and of the switch.
    #[default]
    Hash,
    /// The same for all messages to a host: in a graph the lowest-numbered, else as the network's
    /// rule says. In a graph the others stay idle.
    Single,
    /// Another one for each frame of a message, in turn. What knows no frames takes those of
    /// [`EqualPaths::Hash`].
    Spray,
    /// For each frame, at each switch, that with the shortest queue. Likewise.
    LeastQueued,
}

impl EqualPaths {
    /// All of them, each with its word.
    const WORDS: [(Self, &'static str); 4] = [
        (Self::Hash, "hash"),
        (Self::Single, "single"),
        (Self::Spray, "spray"),
        (Self::LeastQueued, "least-queued"),
    ];

    /// Whether the frames of one message take different ones.
    #[must_use]
    pub const fn is_by_frame(self) -> bool {
        matches!(self, Self::Spray | Self::LeastQueued)
    }

    /// The word that studies use.
    #[must_use]
    pub fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(known, _)| *known == self);
        known.map_or("", |(_, word)| word)
    }

    /// What a word means.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word);
        known.map(|(known, _)| *known)
    }
}

/// Which messages, or which of their frames, go over the switch of a host by chance first and from
/// there to their target (Valiant and Brebner, 1981).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Detours {
    /// None.
    #[default]
    Never,
    /// All: each flow over one of its own, or where frames take ways of their own each frame.
    Always,
    /// Frames that find the shortest way too full where they enter the network, by the queues of
    /// their first switch (UGAL-L).
    ByLocalQueues,
    /// The same by all queues on both ways, as if they were known (UGAL-G).
    ByAllQueues,
}

impl Detours {
    /// The word that studies use for routes with them; none if there are none.
    #[must_use]
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::Always => Some("valiant"),
            Self::ByLocalQueues => Some("ugal-l"),
            Self::ByAllQueues => Some("ugal-g"),
        }
    }

    /// Whether queues decide on them.
    #[must_use]
    pub const fn are_by_queues(self) -> bool {
        matches!(self, Self::ByLocalQueues | Self::ByAllQueues)
    }
}

/// How a way is chosen among equally good ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// The one that the rule of the network takes.
    Fixed,
    /// By a hash of the flow and of each switch.
    Of(FlowKey),
}

/// What a flow's links are chosen by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowKey(u64);

impl FlowKey {
    #[inline]
    pub(crate) fn new(source: HostId, target: HostId, flow: u32) -> Self {
        Self((u64::from(source.0) << 32 | u64::from(target.0)) ^ u64::from(flow).rotate_right(16))
    }

    /// One of `count` links of a switch. Each switch chooses by a hash of its own, so that flows
    /// that took one link of the switch before are spread over all of its.
    #[inline]
    pub(crate) fn choose(self, switch: u32, count: usize) -> usize {
        // SplitMix64, once for the flow and once with the switch.
        let hash = mixed(mixed(self.0).wrapping_add(u64::from(switch)));
        ((u128::from(hash) * count as u128) >> 64) as usize
    }
}

pub(crate) const fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
