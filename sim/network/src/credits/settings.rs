//! What links with virtual channels and credits are told.

use viaduct_engine::Time;

/// The bytes that one credit stands for, unless something else is said: InfiniBand counts buffers
/// in blocks of 64 bytes (InfiniBand Architecture Specification, volume 1, 7.9.4).
pub const CREDIT_BYTES: u32 = 64;

/// Virtual channels, their buffers, and how credits come back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreditLinks {
    /// What has to find room at the end of a link before it begins there.
    pub flow_control: FlowControl,
    /// Bytes of a flit, which is also what a credit stands for; 1 at least.
    pub flit_bytes: u32,
    /// Virtual channels of each link, 1 at least.
    pub channels: u32,
    /// Classes that the channels of a link are divided into, in equal parts: a packet moves up from
    /// class to class where its way would else close a ring. 1 keeps it where it is.
    pub classes: u32,
    /// Bytes that each channel's buffer at the end of a link holds; none: as many as keep the link
    /// busy, and two packets more.
    pub buffer_bytes: Option<u64>,
    /// What a credit takes beside the cable, from the leaving of the last byte to its use.
    pub credit_delay: Time,
    /// From a switch's decision to the first bit on the cable.
    pub traversal: Time,
    /// How many times as fast as a link leaves it, what is in a buffer does: 1 at least. Beyond 1
    /// an input feeds several outputs at a time.
    pub speedup: u32,
    /// Which of those that may go on goes first.
    pub arbitration: Arbitration,
}

impl Default for CreditLinks {
    fn default() -> Self {
        Self {
            flow_control: FlowControl::VirtualCutThrough,
            flit_bytes: CREDIT_BYTES,
            channels: 1,
            classes: 1,
            buffer_bytes: None,
            credit_delay: Time::ZERO,
            traversal: Time::ZERO,
            speedup: 1,
            arbitration: Arbitration::RoundRobin,
        }
    }
}

/// What has to find room at the end of a link before it begins there (Dally and Towles, Principles
/// and Practices of Interconnection Networks, 2004, chapter 13).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FlowControl {
    /// A whole packet; it moves without a gap.
    #[default]
    VirtualCutThrough,
    /// Each of its flits by itself; a packet keeps its channel until its last flit has it behind.
    Wormhole,
}

/// Which channel an input of a switch puts forward, and which input an output takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Arbitration {
    /// They take turns.
    #[default]
    RoundRobin,
    /// The one whose message began first; of equal ones in turn (Abts and Weisser, Age-based packet
    /// arbitration in large-radix k-ary n-cubes, 2007).
    Age,
}

impl CreditLinks {
    /// Channels of one class.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        let lanes = self.channels / self.classes;
        if lanes == 0 { 1 } else { lanes }
    }
}
