//! The bits of verbs.h.

/// `enum ibv_access_flags`.
pub mod access {
    /// This side may write: receives, reads and atomics land here.
    pub const LOCAL_WRITE: u32 = 1;
    /// A peer may write.
    pub const REMOTE_WRITE: u32 = 1 << 1;
    /// A peer may read.
    pub const REMOTE_READ: u32 = 1 << 2;
    /// A peer may use atomic operations.
    pub const REMOTE_ATOMIC: u32 = 1 << 3;
    /// Memory windows may be bound. There are none to bind, so it lets nobody do anything.
    pub const MEMORY_WINDOW_BIND: u32 = 1 << 4;
    /// Remote addresses count from the start of the region.
    pub const ZERO_BASED: u32 = 1 << 5;
    /// On-demand paging: refused here.
    pub const ON_DEMAND: u32 = 1 << 6;
    /// All of it lies in huge pages: a hint.
    pub const HUGE_PAGES: u32 = 1 << 7;
    /// Flush to global visibility: a hint.
    pub const FLUSH_GLOBAL: u32 = 1 << 8;
    /// Flush to persistent memory: a hint.
    pub const FLUSH_PERSISTENT: u32 = 1 << 9;
    /// Order may be relaxed: a hint.
    pub const RELAXED_ORDERING: u32 = 1 << 20;
    /// Bits that a device may ignore (`IBV_ACCESS_OPTIONAL_RANGE`).
    pub const OPTIONAL: u32 = 0x3ff0_0000;
}

/// `enum ibv_qp_attr_mask`.
pub mod attribute {
    /// The state to go to.
    pub const STATE: u32 = 1;
    /// The state it is believed to be in.
    pub const CURRENT_STATE: u32 = 1 << 1;
    /// Whether to tell when sends are drained.
    pub const SEND_DRAINED_NOTIFY: u32 = 1 << 2;
    /// What the peer may do.
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    /// Which P_Key.
    pub const PARTITION_KEY_INDEX: u32 = 1 << 4;
    /// Which port.
    pub const PORT: u32 = 1 << 5;
    /// The Q_Key of a datagram queue pair.
    pub const QUEUE_KEY: u32 = 1 << 6;
    /// Address of the peer.
    pub const ADDRESS: u32 = 1 << 7;
    /// Bytes of a packet.
    pub const PATH_MTU: u32 = 1 << 8;
    /// How long to wait for an answer.
    pub const TIMEOUT: u32 = 1 << 9;
    /// How often to try again without an answer.
    pub const RETRY_COUNT: u32 = 1 << 10;
    /// How often to try again when the peer has no receive.
    pub const RECEIVER_NOT_READY_RETRY: u32 = 1 << 11;
    /// The number of the first packet that comes.
    pub const RECEIVE_PACKET_NUMBER: u32 = 1 << 12;
    /// Reads and atomics under way from here.
    pub const MAX_READ_ATOMIC: u32 = 1 << 13;
    /// A second path: refused here.
    pub const ALTERNATE_PATH: u32 = 1 << 14;
    /// How long a peer without a receive of ours is told to wait.
    pub const MIN_RECEIVER_NOT_READY_TIMER: u32 = 1 << 15;
    /// The number of the first packet that goes.
    pub const SEND_PACKET_NUMBER: u32 = 1 << 16;
    /// Reads and atomics under way to here.
    pub const MAX_DESTINATION_READ_ATOMIC: u32 = 1 << 17;
    /// Which path.
    pub const PATH_MIGRATION_STATE: u32 = 1 << 18;
    /// Sizes of queues.
    pub const CAPABILITIES: u32 = 1 << 19;
    /// The peer's number.
    pub const DESTINATION: u32 = 1 << 20;
    /// A rate of packets: refused here.
    pub const RATE_LIMIT: u32 = 1 << 25;
}

/// `enum ibv_send_flags`.
pub mod send {
    /// Not before reads and atomics posted earlier are done.
    pub const FENCE: u32 = 1;
    /// Completes visibly.
    pub const SIGNALED: u32 = 1 << 1;
    /// Its receive wakes whoever waits for solicited events.
    pub const SOLICITED: u32 = 1 << 2;
    /// Its bytes are taken when it is posted.
    pub const INLINE: u32 = 1 << 3;
    /// Checksum offload: refused here.
    pub const IP_CHECKSUM: u32 = 1 << 4;
}

/// `enum ibv_wc_flags`.
pub mod completion {
    /// The first 40 bytes of the buffer are a global routing header.
    pub const GLOBAL_ROUTING_HEADER: u32 = 1;
    /// Immediate data came.
    pub const WITH_IMMEDIATE: u32 = 1 << 1;
}

/// `enum ibv_srq_attr_mask`.
pub mod shared_receive {
    /// Another size: refused here.
    pub const MAX_REQUESTS: u32 = 1;
    /// When to tell that few receives are left.
    pub const LIMIT: u32 = 1 << 1;
}

/// `enum ibv_rereg_mr_flags`.
pub mod reregister {
    /// Another range.
    pub const TRANSLATION: u32 = 1;
    /// Another protection domain.
    pub const PROTECTION_DOMAIN: u32 = 1 << 1;
    /// Other rights.
    pub const ACCESS: u32 = 1 << 2;
}
