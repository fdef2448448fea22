//! What a device has at most.

use viaduct_core::verbs::{Limits, LinkLayer};

use crate::device;

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
/// Completion queues, protection domains, shared receive queues, ... of a process.
pub(crate) const OBJECTS_MAX: u32 = 65_536;
/// Entries of a completion queue.
pub(crate) const COMPLETION_ENTRIES_MAX: u32 = 4_194_303;
/// Regions of a process.
pub(crate) const REGIONS_MAX: u32 = 65_535;
/// Reads and atomics under way at either end of a queue pair.
pub(crate) const READ_ATOMIC_MAX: u8 = 16;
/// Address handles of a process.
pub(crate) const ADDRESS_HANDLES_MAX: u32 = 1 << 20;
/// Bytes that a send brings with it.
pub(crate) const INLINE_BYTES_MAX: u32 = 944;
/// The same of every queue pair, whatever it asked for.
const INLINE_BYTES_MIN: u32 = 256;
/// Bytes of a message.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// `IBV_DEVICE_CHANGE_PHY_PORT`, `PORT_ACTIVE_EVENT`, `SYS_IMAGE_GUID`, `RC_RNR_NAK_GEN`,
/// `SRQ_RESIZE` is not among them.
pub(crate) const CAPABILITY_FLAGS: u32 = 1 << 10 | 1 << 11 | 1 << 12;

/// Those of a process whose queue pairs have numbers of this block.
pub(crate) fn of_block(block: u32) -> Limits {
    let gids = device::devices().first().map_or(0, |one| one.gids().len());
    Limits {
        first_number: block << QUEUE_PAIR_BITS,
        max_queue_pairs: QUEUE_PAIRS_MAX,
        max_regions: REGIONS_MAX,
        max_address_handles: ADDRESS_HANDLES_MAX,
        max_objects: OBJECTS_MAX,
        max_requests: REQUESTS_MAX,
        max_elements: ELEMENTS_MAX,
        max_inline_bytes: INLINE_BYTES_MAX,
        min_inline_bytes: INLINE_BYTES_MIN,
        max_completion_entries: COMPLETION_ENTRIES_MAX,
        max_read_atomic: READ_ATOMIC_MAX,
        max_message_bytes: u64::from(MESSAGE_BYTES_MAX),
        max_region_bytes: REGION_BYTES_MAX,
        mtu: device::active_mtu(),
        gids: gids as u32,
        needs_route: device::link_layer() == LinkLayer::Ethernet,
    }
}
