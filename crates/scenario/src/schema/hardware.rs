//! Keys of a host's hardware: those of presets, and of [hosts.model] in a study.

use super::{MESSAGE, NUMBER_FROM_1};
use crate::keys::Key;
use crate::value::Kind;

/// Its name.
pub(super) fn model_keys() -> Vec<Key> {
    vec![Key::new("name", Kind::Text, "the name of the hardware").otherwise("the preset's")]
}

/// What the processor spends on a message.
pub(super) fn cpu_keys() -> Vec<Key> {
    vec![
        Key::new("post", Kind::Time, "building a descriptor and queueing it"),
        Key::new(
            "reap",
            Kind::Time,
            "taking a completed descriptor off its queue",
        ),
        Key::new(
            "notice",
            Kind::Choice(&["polling", "interrupt"]),
            "how the application learns of a message",
        ),
        Key::new(
            "polling_delay",
            Kind::Time,
            "from the completion's write to the loop's seeing it",
        ),
        Key::new(
            "interrupt",
            Kind::Time,
            "from the interrupt to its handler's end",
        ),
        Key::new(
            "wake_up",
            Kind::Time,
            "scheduling the application that waits",
        ),
    ]
}

/// The I/O bus.
pub(super) fn bus_keys() -> Vec<Key> {
    vec![
        Key::new("rate", Kind::RateOrInfinite, "peak rate"),
        Key::new(
            "burst",
            Kind::Size(1 << 30),
            "data of a DMA burst; 0 B: bursts cost nothing",
        ),
        Key::new(
            "burst_overhead",
            Kind::Time,
            "arbitration, address and turn-around of a burst",
        ),
        Key::new(
            "programmed_write",
            Kind::Time,
            "a write of the processor to the NIC: a doorbell",
        ),
        Key::new("read", Kind::Time, "a short read by the NIC: a descriptor"),
        Key::new(
            "write",
            Kind::Time,
            "a short write by the NIC: a status word",
        ),
    ]
}

/// The network adapter.
pub(super) fn nic_keys() -> Vec<Key> {
    vec![
        Key::new(
            "doorbell",
            Kind::Time,
            "from the doorbell's arrival to the NIC's reaction",
        ),
        Key::new(
            "send_descriptor",
            Kind::Time,
            "reading and checking a send descriptor",
        ),
        Key::new(
            "translate",
            Kind::Time,
            "translation and protection check of a segment",
        ),
        Key::new(
            "inline",
            Kind::Size(1 << 20),
            "messages up to this travel with the descriptor",
        ),
        Key::new(
            "dma_setup",
            Kind::Time,
            "starting a DMA transfer, at each end",
        ),
        Key::new(
            "moving_per_vi",
            NUMBER_FROM_1,
            "messages of one VI whose data may move at once",
        ),
        Key::new(
            "rate",
            Kind::RateOrInfinite,
            "at which bytes move between bus and link",
        ),
        Key::new(
            "page",
            Kind::Size(1 << 30),
            "page of the translation table; 0 B: costs nothing",
        ),
        Key::new(
            "page_crossing",
            Kind::Time,
            "going on in the buffer's next page, at each end",
        ),
        Key::new(
            "forwarding",
            Kind::Choice(&["cut-through", "store-and-forward"]),
            "send while data still arrives, or when it has",
        ),
        Key::new(
            "receive_match",
            Kind::Time,
            "finding the VI and its receive descriptor",
        ),
        Key::new("completion", Kind::Time, "preparing the completion"),
        Key::new(
            "transfer_max",
            MESSAGE,
            "largest message that a descriptor takes",
        ),
    ]
}
