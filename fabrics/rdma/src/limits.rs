//! What a device has at most.

/// Bytes of a region.
pub(crate) const REGION_BYTES_MAX: u64 = 1 << 46;
/// Bits of a queue pair number that count within a process.
pub(crate) const QUEUE_PAIR_BITS: u32 = 14;
/// Queue pairs of a process.
pub(crate) const QUEUE_PAIRS_MAX: u32 = 1 << QUEUE_PAIR_BITS;
/// Requests on a queue.
pub(crate) const REQUESTS_MAX: u32 = 16_384;
/// Elements of a request.
pub(crate) const ELEMENTS_MAX: u32 = 32;
/// Completion queues of a process.
pub(crate) const COMPLETION_QUEUES_MAX: u32 = 65_536;
/// Entries of a completion queue.
pub(crate) const COMPLETION_ENTRIES_MAX: u32 = 4_194_303;
/// Regions of a process.
pub(crate) const REGIONS_MAX: u32 = 65_535;
/// Protection domains of a process.
pub(crate) const PROTECTION_DOMAINS_MAX: u32 = 65_536;
/// Reads and atomics under way at either end of a queue pair.
pub(crate) const READ_ATOMIC_MAX: u8 = 16;
/// Address handles of a process.
pub(crate) const ADDRESS_HANDLES_MAX: u32 = 1 << 20;
/// Shared receive queues of a process.
pub(crate) const SHARED_RECEIVE_QUEUES_MAX: u32 = 65_536;
/// Bytes that a send brings with it.
pub(crate) const INLINE_BYTES_MAX: u32 = 944;
/// Bytes of a message.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// `IBV_DEVICE_CHANGE_PHY_PORT`, `PORT_ACTIVE_EVENT`, `SYS_IMAGE_GUID`, `RC_RNR_NAK_GEN`,
/// `SRQ_RESIZE` is not among them.
pub(crate) const CAPABILITY_FLAGS: u32 = 1 << 10 | 1 << 11 | 1 << 12;
