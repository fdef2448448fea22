//! What a NIC counts of its own traffic.

/// How the messages of one NIC moved since it was opened, from [`crate::Provider::counts`].
///
/// Each thing is counted where it is done: at the end that writes, that asks for a copy, or that
/// sleeps. A *remote write* is a run of bytes, however long, that this end writes for one purpose
/// into memory that the other end reads. What a field is on each fabric, and which of them can be
/// compared between fabrics, is in `docs/models.md`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Messages whose bytes went in slots of the transfer queue, or that had none.
    pub inline: u64,
    /// Messages whose bytes this end's processor wrote straight to where they belong.
    pub direct: u64,
    /// Messages whose bytes the kernel, or a DMA engine, moved to where they belong.
    pub copied: u64,
    /// Messages through a pool of memory that both ends share.
    pub pooled: u64,
    /// Bytes of all these messages.
    pub bytes: u64,
    /// Messages that completed a receive.
    pub received: u64,
    /// Remote writes: messages put into the peer's transfer queue, each with what stands in it.
    pub transfers: u64,
    /// Slots that those took.
    pub slots: u64,
    /// Remote writes: data straight to where it belongs, one for each piece that is contiguous.
    pub data_writes: u64,
    /// Remote writes: cookies, which tell where the buffer of a posted receive is.
    pub cookies: u64,
    /// Remote writes: how far a queue is written, apart from what was written into it.
    pub indexes: u64,
    /// Remote writes: how far a queue is read, told by its reader.
    pub returns: u64,
    /// The same, told because the other end asked after a pause.
    pub answers: u64,
    /// Remote writes: bits that tell a completion queue with many VIs which of them has news.
    pub notices: u64,
    /// Pieces of messages written into the pool.
    pub chunks: u64,
    /// Contiguous pieces of data that the kernel, or a DMA engine, was asked to move.
    pub copies: u64,
    /// The requests to a DMA engine that move a write index behind the data.
    pub index_requests: u64,
    /// System calls made to wake the other end, or its service thread.
    pub kicks: u64,
    /// Calls that waited asleep.
    pub sleeps: u64,
    /// Those of them that somebody woke.
    pub wake_ups: u64,
}

impl Counts {
    /// Messages sent: sends, remote writes and remote reads that were carried.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.inline + self.direct + self.copied + self.pooled
    }

    /// Remote writes of every purpose.
    #[must_use]
    pub const fn remote_writes(&self) -> u64 {
        self.transfers
            + self.data_writes
            + self.cookies
            + self.indexes
            + self.returns
            + self.answers
            + self.notices
            + self.chunks
    }

    /// Requests to a DMA engine: copies, and write indexes behind them.
    #[must_use]
    pub const fn dma_requests(&self) -> u64 {
        self.copies + self.index_requests
    }

    /// Every count by its name, in the order of the fields.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 20] {
        [
            ("inline", self.inline),
            ("direct", self.direct),
            ("copied", self.copied),
            ("pooled", self.pooled),
            ("bytes", self.bytes),
            ("received", self.received),
            ("transfers", self.transfers),
            ("slots", self.slots),
            ("data_writes", self.data_writes),
            ("cookies", self.cookies),
            ("indexes", self.indexes),
            ("returns", self.returns),
            ("answers", self.answers),
            ("notices", self.notices),
            ("chunks", self.chunks),
            ("copies", self.copies),
            ("index_requests", self.index_requests),
            ("kicks", self.kicks),
            ("sleeps", self.sleeps),
            ("wake_ups", self.wake_ups),
        ]
    }

    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            inline: with(self.inline, other.inline),
            direct: with(self.direct, other.direct),
            copied: with(self.copied, other.copied),
            pooled: with(self.pooled, other.pooled),
            bytes: with(self.bytes, other.bytes),
            received: with(self.received, other.received),
            transfers: with(self.transfers, other.transfers),
            slots: with(self.slots, other.slots),
            data_writes: with(self.data_writes, other.data_writes),
            cookies: with(self.cookies, other.cookies),
            indexes: with(self.indexes, other.indexes),
            returns: with(self.returns, other.returns),
            answers: with(self.answers, other.answers),
            notices: with(self.notices, other.notices),
            chunks: with(self.chunks, other.chunks),
            copies: with(self.copies, other.copies),
            index_requests: with(self.index_requests, other.index_requests),
            kicks: with(self.kicks, other.kicks),
            sleeps: with(self.sleeps, other.sleeps),
            wake_ups: with(self.wake_ups, other.wake_ups),
        }
    }
}

impl core::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl core::ops::Sub for Counts {
    type Output = Self;

    /// What was counted since `other`, which is of the same NIC and earlier.
    fn sub(self, other: Self) -> Self {
        self.each(other, u64::wrapping_sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_name_and_takes_part_in_sums() {
        let mut one = Counts::default();
        for (place, field) in [
            &mut one.inline,
            &mut one.direct,
            &mut one.copied,
            &mut one.pooled,
            &mut one.bytes,
            &mut one.received,
            &mut one.transfers,
            &mut one.slots,
            &mut one.data_writes,
            &mut one.cookies,
            &mut one.indexes,
            &mut one.returns,
            &mut one.answers,
            &mut one.notices,
            &mut one.chunks,
            &mut one.copies,
            &mut one.index_requests,
            &mut one.kicks,
            &mut one.sleeps,
            &mut one.wake_ups,
        ]
        .into_iter()
        .enumerate()
        {
            *field = 1 << place;
        }
        for (place, (name, count)) in one.named().into_iter().enumerate() {
            assert_eq!(count, 1 << place, "{name}");
        }
        for (place, (name, count)) in (one + one).named().into_iter().enumerate() {
            assert_eq!(count, 2 << place, "{name}");
        }
        assert_eq!(one + one - one, one);
        assert_eq!(one.messages(), 0b1111);
        assert_eq!(one.remote_writes(), 0b111_1111_0100_0000);
        assert_eq!(one.dma_requests(), 0b1_1000_0000_0000_0000);
    }
}
