//! What a message is counted as at its sender.

use viaduct_fabric::Counts;

/// Where a message's bytes go, and who moves them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Way {
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
pub(crate) struct Tally {
    pub(crate) way: Way,
    /// Messages of the transfer queue, and the slots that they take.
    pub(crate) transfers: u32,
    pub(crate) slots: u32,
    /// Write indexes that the processor writes.
    pub(crate) indexes: u32,
    /// Read indexes of the cookie queue that go back.
    pub(crate) returns: u32,
    /// Contiguous pieces of data that the processor writes.
    pub(crate) data_writes: u32,
    /// Contiguous pieces of data that an engine is asked to move.
    pub(crate) copies: u32,
    /// Write indexes that pass the engine's queue.
    pub(crate) index_requests: u32,
}

impl Tally {
    pub(crate) fn add_to(&self, counts: &mut Counts, bytes: u32) {
        let messages = match self.way {
            Way::Inline => &mut counts.inline,
            Way::Direct => &mut counts.direct,
            Way::Copied => &mut counts.copied,
        };
        *messages += 1;
        counts.bytes += u64::from(bytes);
        counts.transfers += u64::from(self.transfers);
        counts.slots += u64::from(self.slots);
        counts.indexes += u64::from(self.indexes);
        counts.returns += u64::from(self.returns);
        counts.data_writes += u64::from(self.data_writes);
        counts.copies += u64::from(self.copies);
        counts.index_requests += u64::from(self.index_requests);
    }
}
