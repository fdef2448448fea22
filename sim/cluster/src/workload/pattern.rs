//! To whom a process sends, as a user says it.

/// To whom a process sends; compiled for one network by [`Targets::new`](super::Targets::new).
///
/// Hosts are named by their number. No host ever sends to itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// To the host at the same place of the switch that lies `hops` switch-to-switch links away
    /// in a straight line, in a direction drawn anew for each message.
    ///
    /// In a mesh the direction is drawn among those that stay inside; a host that has none does
    /// not send.
    StraightLine {
        /// Switch-to-switch links crossed, at least 1.
        hops: u32,
    },
    /// To any other host, each equally likely.
    Uniform,
    /// Host `row * n + column` of n x n hosts sends to host `column * n + row`; the diagonal does
    /// not send.
    Transpose,
    /// To the host whose number has the bits of the sender's in reverse order; a host whose
    /// number reads the same does not send.
    BitReversal,
    /// To one fixed other host, drawn from the seed: each host sends to one and receives from
    /// one.
    RandomPermutation,
    /// To the corresponding hosts of the neighbouring switches in turn.
    Neighbours,
    /// To one host with the given probability, otherwise to any other host (which may be the hot
    /// one). The hot host itself sends to any other.
    HotSpot {
        /// The host that many send to.
        hot: u32,
        /// Share of the messages that go to it on purpose, 0 to 1.
        fraction: f64,
    },
    /// All to one, which does not send.
    Incast {
        /// The host that all send to.
        target: u32,
    },
    /// To every other host in turn, beginning with the one after the sender.
    AllToAll,
    /// The given (source, target) pairs; a source named several times takes its targets in turn,
    /// in the order given; a host not named as a source does not send.
    Pairs(Vec<(u32, u32)>),
}

impl Pattern {
    /// The pattern's name in scenarios and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::StraightLine { .. } => "straight-line",
            Self::Uniform => "uniform",
            Self::Transpose => "transpose",
            Self::BitReversal => "bit-reversal",
            Self::RandomPermutation => "random-permutation",
            Self::Neighbours => "neighbours",
            Self::HotSpot { .. } => "hot-spot",
            Self::Incast { .. } => "incast",
            Self::AllToAll => "all-to-all",
            Self::Pairs(_) => "pairs",
        }
    }
}
