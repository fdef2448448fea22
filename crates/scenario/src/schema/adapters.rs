//! Keys of the kinds of adapters that programs run on, beside native VIA, and of a preset's link.

use super::{MESSAGE, NUMBER_FROM_1, TOLERANCE_DEFAULT};
use crate::keys::Key;
use crate::value::Kind;

const BYTES: Kind = Kind::Size(1 << 30);
const CYCLES: Kind = Kind::Count(0, 1 << 30);

fn transfer_max() -> Key {
    let meaning = "largest message that a descriptor takes";
    Key::new("transfer_max", MESSAGE, meaning)
}

/// A cable of the adapter's own network.
pub(super) fn link_keys() -> Vec<Key> {
    vec![
        Key::new("rate", Kind::Rate, "payload rate, after line coding"),
        Key::new("propagation", Kind::Time, "of a cable between two hosts"),
        Key::new("frame_payload", BYTES, "of a frame; 0 B: a message is one"),
        Key::new("frame_header", BYTES, "header, trailer and gap of a frame"),
    ]
}

/// What the processor pays for registering memory.
pub(super) fn memory_keys() -> Vec<Key> {
    vec![
        Key::new("register", Kind::Time, "a registration, beside its bytes"),
        Key::new("register_rate", Kind::RateOrInfinite, "of its bytes"),
    ]
}

/// VIA in a library above remote writes.
pub(super) fn remote_writes_keys() -> Vec<Key> {
    vec![
        Key::new("adapter", Kind::Time, "between bus and link, at each end"),
        Key::new("write_rate", Kind::Rate, "of the processor's own writes"),
        Key::new("segment", Kind::Time, "a segment's cookie and its mapping"),
        Key::new("map", Kind::Time, "making a mapping that is not cached"),
        Key::new("mappings", NUMBER_FROM_1, "that the cache keeps"),
        Key::new("dma_from", BYTES, "messages from this size go by DMA"),
        Key::new("dma_request", Kind::Time, "passing a request to the engine"),
        Key::new(
            "dma_written",
            BYTES,
            "requests up to this size the scheduler writes itself",
        ),
        Key::new("dma_setup", Kind::Time, "starting the engine"),
        Key::new("dma_interrupt", Kind::Time, "at the end of each request"),
        Key::new("slot", BYTES, "a message of the transfer queue"),
        Key::new(
            "queues",
            Kind::Choice(&["indexed", "lapped"]),
            "a write index tells of a slot, or a mark in it",
        ),
        Key::new("inline", BYTES, "up to here the data is in the slot"),
        Key::new("inline_first", BYTES, "of it in a message's first slot"),
        Key::new("inline_next", BYTES, "of it in each further slot"),
        Key::new(
            "returned_every",
            NUMBER_FROM_1,
            "slots read until the writer is told",
        ),
        Key::new(
            "tripwires",
            Kind::Count(0, 1 << 20),
            "locations that the adapter can watch",
        ),
        Key::new("tripwire", Kind::Time, "setting one"),
        Key::new("events", NUMBER_FROM_1, "entries of the event queue"),
        Key::new("event", Kind::Time, "reading one"),
        Key::new("look", Kind::Time, "at a location without a tripwire"),
        transfer_max(),
    ]
}

/// VIA in an adapter's own slow processor.
pub(super) fn firmware_keys() -> Vec<Key> {
    let cycles = |name, meaning| Key::new(name, CYCLES, meaning);
    vec![
        Key::new("cycle", Kind::Time, "of the adapter's processor"),
        cycles("doorbell", "cycles to notice a doorbell"),
        cycles("descriptor", "cycles to fetch and read a descriptor"),
        cycles("page", "cycles to translate and check a page"),
        cycles("dma", "cycles to set up a DMA transfer"),
        cycles("send", "cycles to send a packet"),
        cycles("receive", "cycles to take a packet in and match it"),
        cycles("completion", "cycles to complete a descriptor"),
        Key::new("packet", BYTES, "largest payload of a packet"),
        Key::new("page_size", BYTES, "page of the translation table"),
        Key::new("write_rate", Kind::Rate, "of the processor's own writes"),
        Key::new(
            "ways",
            Kind::Choice(&["staged", "streamed", "adaptive"]),
            "how messages move; adaptive: written, staged or streamed",
        ),
        transfer_max(),
    ]
}

/// VIA in the kernel.
pub(super) fn kernel_keys() -> Vec<Key> {
    vec![
        Key::new("system_call", Kind::Time, "into the kernel and back"),
        Key::new("send_frame", Kind::Time, "protocol and driver, sending"),
        Key::new(
            "receive_frame",
            Kind::Time,
            "driver and protocol, receiving",
        ),
        Key::new("copy_rate", Kind::Rate, "of a copy, one at each end"),
        Key::new("adapter", Kind::Time, "between driver and wire, each"),
        Key::new("interrupt", Kind::Time, "of a frame, to its handler"),
        Key::new(
            "coalescing",
            Kind::Time,
            "waiting for more frames before it",
        ),
        Key::new("frame", BYTES, "largest payload of a frame"),
        transfer_max(),
    ]
}

/// A current RDMA adapter.
pub(super) fn rdma_keys() -> Vec<Key> {
    vec![
        Key::new("doorbell", Kind::Time, "a doorbell's way to the adapter"),
        Key::new("inline", BYTES, "sends up to this go with the descriptor"),
        Key::new("read", Kind::Time, "a PCI Express read, beside its data"),
        Key::new("read_credit", BYTES, "of reads that may be outstanding"),
        Key::new("message", Kind::Time, "the adapter's own, at each end"),
        Key::new(
            "fetch_batch",
            NUMBER_FROM_1,
            "descriptors that a read brings",
        ),
        Key::new("adapters", Kind::Time, "both, in the one-way latency"),
        Key::new("completion", Kind::Time, "writing a completion entry"),
        Key::new(
            "connections",
            NUMBER_FROM_1,
            "whose state the adapter keeps",
        ),
        Key::new("retries", Kind::Count(0, 1000), "of what is lost; 0: none"),
        Key::new("timeout", Kind::Time, "until what is lost is sent again"),
        transfer_max(),
    ]
}

/// A published figure of a program on the preset.
pub(super) fn figure_keys() -> Vec<Key> {
    vec![
        Key::new(
            "test",
            Kind::Choice(&["latency", "bandwidth", "raw-latency", "raw-bandwidth"]),
            "half a round trip, messages one way, or remote writes without VIA",
        ),
        Key::new("size", MESSAGE, "bytes of a message"),
        Key::new("value", Kind::Real, "the published figure"),
        Key::new(
            "unit",
            Kind::Choice(&["us", "Mbit/s"]),
            "its unit: us or Mbit/s",
        ),
        Key::new("source", Kind::Text, "where it is published"),
        Key::new(
            "role",
            Kind::Choice(&["given", "result"]),
            "calibrated on, or to be predicted",
        )
        .or("given"),
        Key::new(
            "tolerance",
            Kind::Ratio,
            "how far a reproduction may be off",
        )
        .or(TOLERANCE_DEFAULT),
    ]
}
