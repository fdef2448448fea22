//! What crossed between processes, for whoever wants to know that RDMA was used.

/// Operations and bytes of this process since it opened its first device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Sends that completed, and their bytes.
    pub sends: u64,
    /// Bytes of them.
    pub send_bytes: u64,
    /// Receives that completed.
    pub receives: u64,
    /// Bytes of them.
    pub receive_bytes: u64,
    /// Remote writes that completed.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Remote reads that completed.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Atomics that completed.
    pub atomics: u64,
    /// Copies that the kernel made between two processes.
    pub kernel_copies: u64,
    /// Packets that went through shared memory.
    pub packets: u64,
    /// Times that a peer's service thread was woken.
    pub kicks: u64,
    /// Completions with an error, flushes among them.
    pub errors: u64,
}

impl Counters {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        crate::engine::counters()
    }
}
