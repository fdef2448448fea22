//! What a message is counted as at its sender.

/// Where a message's bytes go, and who moves them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Way {
    /// With the message of the transfer queue.
    #[default]
    Inline,
    /// To their place, by the processor.
    Direct,
    /// To their place, by an engine.
    Copied,
}

/// What carrying one message takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Where its bytes go.
    pub way: Way,
    /// Messages of the transfer queue.
    pub transfers: u32,
    /// Slots that these take.
    pub slots: u32,
    /// Write indexes that the processor writes.
    pub indexes: u32,
    /// Read indexes of the cookie queue that go back.
    pub returns: u32,
    /// Contiguous pieces of data that the processor writes.
    pub data_writes: u32,
    /// Contiguous pieces of data that an engine is asked to move.
    pub copies: u32,
    /// Write indexes that pass the engine's queue.
    pub index_requests: u32,
}
