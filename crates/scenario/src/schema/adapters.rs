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
        Key::new(
            "event_interrupt",
            Kind::Time,
            "for each message that the event queue tells of",
        ),
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
            Kind::Count(1, 65_534),
            "whose state the adapter keeps",
        ),
        Key::new("retries", Kind::Count(0, 1000), "of what is lost; 0: none"),
        Key::new("timeout", Kind::Time, "until what is lost is sent again"),
        transfer_max(),
    ]
}

/// Endpoints of Active Messages: what an interface keeps, and whose turn it is.
pub(super) fn endpoints_keys() -> Vec<Key> {
    vec![
        Key::new("frames", Kind::Count(1, 1024), "of an interface"),
        Key::new("image", BYTES, "of an endpoint, moved when frames change"),
        Key::new(
            "queue",
            Kind::Count(1, 1 << 16),
            "messages that a queue holds; as many requests may be outstanding",
        ),
        Key::new(
            "policy",
            Kind::Choice(&["random", "least-recently-used", "clock"]),
            "which endpoint leaves its frame",
        ),
        Key::new(
            "remap",
            Kind::Choice(&["background", "blocking"]),
            "threads go on while frames change, or wait",
        ),
        Key::new(
            "turn_messages",
            NUMBER_FROM_1,
            "of one endpoint, then the next",
        ),
        Key::new("turn", Kind::Time, "most time of one endpoint's turn"),
    ]
}

/// The interface's processor, and what each step of its work takes.
pub(super) fn interface_keys() -> Vec<Key> {
    let cycles = |name, meaning| Key::new(name, Kind::Count(0, 1 << 20), meaning);
    vec![
        Key::new("clock", Kind::Frequency, "of the interface's processor"),
        cycles("turn", "cycles to look at the endpoint whose turn it is"),
        cycles("descriptor", "cycles to read a send descriptor"),
        cycles("header", "cycles to make a packet's header, or read it"),
        cycles("start", "cycles to start the engine that sends"),
        cycles("notice", "cycles to see that a packet came"),
        cycles("word", "cycles to move 4 bytes of a short message"),
        cycles("endpoint", "cycles to find the endpoint of a message"),
        cycles("queue", "cycles to fill an entry of its queue"),
        cycles("dma", "cycles to start and end a transfer over the bus"),
        cycles("check_out", "cycles of checking a message that leaves"),
        cycles("check_in", "cycles of checking one that came"),
        cycles("name", "cycles to write name and key, or compare them"),
        cycles("channel", "cycles to find the channel of a packet"),
        cycles("sequence", "cycles to give a sequence, or compare it"),
        cycles("stamp", "cycles for the time stamp in a packet"),
        cycles("timer", "cycles to set a timer, or cancel it"),
        cycles("end", "cycles to end a message that was answered"),
        cycles("recall", "cycles to recall a message, for a remap"),
        cycles("driver_word", "cycles for a word of the driver, or to it"),
    ]
}

/// The host beside it.
pub(super) fn host_side_keys() -> Vec<Key> {
    let time = |name, meaning| Key::new(name, Kind::Time, meaning);
    vec![
        time("send", "of the processor, for a message sent"),
        time("receive", "of the processor, for a message taken"),
        time("poll_frame", "a look at an endpoint in a frame"),
        time("poll_host", "a look at one in host memory"),
        Key::new(
            "copy_rate",
            Kind::Rate,
            "of the processor, copying long messages",
        ),
        time("switch", "from one thread to another"),
        time("fault", "a trap into the kernel and back"),
        time("interrupt", "of the interface, to the driver"),
        time("remap_period", "between looks at what is to be remapped"),
        time("driver", "its work for each word that it says"),
        time("unmap", "taking an endpoint away from its process"),
        time("store", "moving an endpoint's backing store"),
        time("map", "giving the process its endpoint again"),
        Key::new("write_rate", Kind::Rate, "of DMA into host memory"),
        Key::new("read_rate", Kind::Rate, "of DMA out of host memory"),
    ]
}

/// Links and switches between interfaces.
pub(super) fn interface_network_keys() -> Vec<Key> {
    let number = Kind::Count(1, u16::MAX as u64);
    vec![
        Key::new("rate", Kind::Rate, "of a link"),
        Key::new("switch", Kind::Time, "what a switch adds"),
        Key::new("header", BYTES, "of a packet, beside its payload"),
        Key::new("answer", BYTES, "an answer, as a whole"),
        Key::new("hosts_a_leaf", number, "of the tree of switches"),
        Key::new(
            "receive_buffers",
            number,
            "packets that an interface holds; then its link stops",
        ),
        Key::new("lost", Kind::Ratio, "of packets and answers, in millionths"),
    ]
}

/// Exactly-once delivery from interface to interface.
pub(super) fn transport_keys() -> Vec<Key> {
    vec![
        Key::new(
            "channels",
            Kind::Count(1, 32),
            "from one interface to another",
        ),
        Key::new("routes", Kind::Count(1, 255), "between two interfaces"),
        Key::new("timeout_min", Kind::Time, "until an answer is overdue"),
        Key::new("timeout_max", Kind::Time, "the same, and waits, at most"),
        Key::new(
            "refusal_delay",
            Kind::Time,
            "mean wait after a first refusal",
        ),
        Key::new(
            "doublings_max",
            Kind::Count(0, 32),
            "how often time-out and wait double",
        ),
        Key::new(
            "transmissions_max",
            Kind::Count(1, 255),
            "of a message, then it leaves its channel",
        ),
        Key::new(
            "unbound_delay",
            Kind::Time,
            "mean time until it is put on again",
        ),
        Key::new(
            "unreachable_after",
            Kind::Time,
            "silence of an interface, then all returns",
        ),
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
        .otherwise(TOLERANCE_DEFAULT),
    ]
}
