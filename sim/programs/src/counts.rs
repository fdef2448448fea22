//! What a simulation counts.

use viaduct_hardware::mechanism::{Tally, Way};

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Messages that arrived: sends, remote writes, and answers of remote reads.
    pub messages: u64,
    /// Writes into another host's memory by CLAN adapters.
    pub remote_writes: u64,
    /// Of these, below VIA: those into memory that was taken back, which changed nothing.
    pub refused_writes: u64,
    /// Requests to DMA engines of CLAN adapters.
    pub dma_requests: u64,
    /// Entries of the asynchronous event queues of CLAN adapters.
    pub events: u64,
    /// Times that a sleeping program was woken.
    pub wake_ups: u64,
    /// Messages that did not arrive for a fault, acknowledgements included.
    pub lost: u64,
    /// Messages that RDMA adapters have sent again.
    pub retransmissions: u64,
    /// Messages that arrived corrupt.
    pub corrupted: u64,
    /// Connections that a fault broke, however many ends noticed.
    pub connections_broken: u64,
    /// Transfers of generators that ended.
    pub transfers: u64,
}

/// Adds what carrying a message of so many bytes takes to what is counted at its sender.
pub(crate) fn add(counts: &mut viaduct_provider::Counts, tally: &Tally, bytes: u32) {
    let messages = match tally.way {
        Way::Inline => &mut counts.inline,
        Way::Direct => &mut counts.direct,
        Way::Copied => &mut counts.copied,
    };
    *messages += 1;
    counts.bytes += u64::from(bytes);
    counts.transfers += u64::from(tally.transfers);
    counts.slots += u64::from(tally.slots);
    counts.indexes += u64::from(tally.indexes);
    counts.returns += u64::from(tally.returns);
    counts.data_writes += u64::from(tally.data_writes);
    counts.copies += u64::from(tally.copies);
    counts.index_requests += u64::from(tally.index_requests);
}
