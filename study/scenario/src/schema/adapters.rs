//! Keys of the kinds of adapters beside native VIA, and of a preset's link.

use viaduct_engine::Time;
use viaduct_frames::residency::{Policy, Stall};
use viaduct_hardware::{QueueDesign, Rate};

use super::TOLERANCE_DEFAULT;
use crate::figure::FigureTest;
use crate::section::kinds::{
    choice, count, frequency, message, number, rate, rate_or_infinite, share, size, text, time,
    whole,
};
use crate::section::{KeyOf, Setting, section, words};

fn bytes(meaning: &'static str) -> KeyOf<u32> {
    size(1 << 30, meaning)
}

fn transfer_max() -> KeyOf<u32> {
    message("largest message that a descriptor takes")
}

section! {
    Memory Optional "hosts.model.memory": "what registering it costs; nothing, if left out" {
        register: Setting<Time> = time("a registration, beside its bytes");
        register_rate: Setting<Rate> = rate_or_infinite("of its bytes");
    }
}

section! {
    Cable Optional "preset.link": "a preset's [link]: the cable of a pair of such hosts" {
        rate: Setting<Rate> = rate("payload rate, after line coding");
        propagation: Setting<Time> = time("of a cable between two hosts");
        frame_payload: Setting<u32> = bytes("of a frame; 0 B: a message is one");
        frame_header: Setting<u32> = bytes("header, trailer and gap of a frame");
    }
}

words!(QueueDesign { Indexed = "indexed", Lapped = "lapped" });

section! {
    RemoteWrites Optional "hosts.model.remote_writes":
        "the adapter of mechanism remote-writes: VIA in a library above them" {
        adapter: Setting<Time> = time("between bus and link, at each end");
        write_rate: Setting<Rate> = rate("of the processor's own writes");
        segment: Setting<Time> = time("a segment's cookie and its mapping");
        map: Setting<Time> = time("making a mapping that is not cached");
        mappings: Setting<u32> = count("that the cache keeps");
        dma_from: Setting<u32> = bytes("messages from this size go by DMA");
        dma_request: Setting<Time> = time("passing a request to the engine");
        dma_written: Setting<u32> =
            bytes("requests up to this size the scheduler writes itself");
        dma_setup: Setting<Time> = time("starting the engine");
        dma_interrupt: Setting<Time> = time("at the end of each request");
        slot: Setting<u32> = bytes("a message of the transfer queue");
        queues: Setting<QueueDesign> = choice("a write index tells of a slot, or a mark in it");
        inline: Setting<u32> = bytes("up to here the data is in the slot");
        inline_first: Setting<u32> = bytes("of it in a message's first slot");
        inline_next: Setting<u32> = bytes("of it in each further slot");
        returned_every: Setting<u32> = count("slots read until the writer is told");
        tripwires: Setting<u32> = whole(0, 1 << 20, "locations that the adapter can watch");
        tripwire: Setting<Time> = time("setting one");
        events: Setting<u32> = count("entries of the event queue");
        event_interrupt: Setting<Time> = time("for each message that the event queue tells of");
        event: Setting<Time> = time("reading one");
        look: Setting<Time> = time("at a location without a tripwire");
        transfer_max: Setting<u32> = transfer_max();
    }
}

words! {
    /// How messages move through a slow processor of an adapter.
    pub(crate) enum WaysKind {
        Staged = "staged",
        Streamed = "streamed",
        Adaptive = "adaptive",
    }
}

/// Cycles of an adapter's own processor.
fn slow_cycles(meaning: &'static str) -> KeyOf<u32> {
    whole(0, 1 << 30, meaning)
}

section! {
    Firmware Optional "hosts.model.firmware":
        "the adapter of mechanism firmware: VIA in its own processor" {
        cycle: Setting<Time> = time("of the adapter's processor");
        doorbell: Setting<u32> = slow_cycles("cycles to notice a doorbell");
        descriptor: Setting<u32> = slow_cycles("cycles to fetch and read a descriptor");
        page: Setting<u32> = slow_cycles("cycles to translate and check a page");
        dma: Setting<u32> = slow_cycles("cycles to set up a DMA transfer");
        send: Setting<u32> = slow_cycles("cycles to send a packet");
        receive: Setting<u32> = slow_cycles("cycles to take a packet in and match it");
        completion: Setting<u32> = slow_cycles("cycles to complete a descriptor");
        packet: Setting<u32> = bytes("largest payload of a packet");
        page_size: Setting<u32> = bytes("page of the translation table");
        write_rate: Setting<Rate> = rate("of the processor's own writes");
        ways: Setting<WaysKind> =
            choice("how messages move; adaptive: written, staged or streamed");
        transfer_max: Setting<u32> = transfer_max();
    }
}

section! {
    Kernel Optional "hosts.model.kernel": "the adapter of mechanism kernel: VIA in the kernel" {
        system_call: Setting<Time> = time("into the kernel and back");
        send_frame: Setting<Time> = time("protocol and driver, sending");
        receive_frame: Setting<Time> = time("driver and protocol, receiving");
        copy_rate: Setting<Rate> = rate("of a copy, one at each end");
        adapter: Setting<Time> = time("between driver and wire, each");
        interrupt: Setting<Time> = time("of a frame, to its handler");
        coalescing: Setting<Time> = time("waiting for more frames before it");
        frame: Setting<u32> = bytes("largest payload of a frame");
        transfer_max: Setting<u32> = transfer_max();
    }
}

words! {
    /// What a reliable connection sends again.
    pub(crate) enum Repeat {
        GoBackN = "go-back-n",
        Selective = "selective-repeat",
    }
}

section! {
    Rdma Optional "hosts.model.rdma": "the adapter of mechanism rdma: a current one" {
        doorbell: Setting<Time> = time("a doorbell's way to the adapter");
        inline: Setting<u32> = bytes("sends up to this go with the descriptor");
        read: Setting<Time> = time("a PCI Express read, beside its data");
        read_credit: Setting<u32> = bytes("of reads that may be outstanding");
        message: Setting<Time> = time("the adapter's own, at each end");
        fetch_batch: Setting<u32> = count("descriptors that a read brings");
        adapters: Setting<Time> = time("both, in the one-way latency");
        completion: Setting<Time> = time("writing a completion entry");
        connections: Setting<u32> = whole(1, 65_534, "whose state the adapter keeps");
        retries: Setting<u32> = whole(0, 1000, "of what is lost; 0: none");
        timeout: Setting<Time> = time("until what is lost is sent again");
        retransmission: Setting<Repeat> =
            choice("all from a gap on goes again, or what is missing alone");
        transfer_max: Setting<u32> = transfer_max();
    }
}

words!(Policy {
    Random = "random",
    LeastRecentlyUsed = "least-recently-used",
    Clock = "clock",
});
words!(Stall { Nobody = "background", Thread = "blocking" });

section! {
    Endpoints Optional "hosts.model.endpoints":
        "the adapter of mechanism endpoints: Active Messages, in frames of the interface" {
        frames: Setting<u16> = whole(1, 1024, "of an interface");
        image: Setting<u32> = bytes("of an endpoint, moved when frames change");
        queue: Setting<u32> =
            whole(1, 1 << 16, "messages that a queue holds; as many requests may be outstanding");
        policy: Setting<Policy> = choice("which endpoint leaves its frame");
        remap: Setting<Stall> = choice("threads go on while frames change, or wait");
        turn_messages: Setting<u32> = count("of one endpoint, then the next");
        turn: Setting<Time> = time("most time of one endpoint's turn");
    }
}

/// Cycles of an interface's processor.
fn cycles(meaning: &'static str) -> KeyOf<u32> {
    whole(0, 1 << 20, meaning)
}

section! {
    /// The interface's processor, and what each step of its work takes.
    Interface Optional "hosts.model.interface": "its processor, which serves endpoints" {
        clock: Setting<f64> = frequency("of the interface's processor");
        turn: Setting<u32> = cycles("cycles to look at the endpoint whose turn it is");
        descriptor: Setting<u32> = cycles("cycles to read a send descriptor");
        header: Setting<u32> = cycles("cycles to make a packet's header, or read it");
        start: Setting<u32> = cycles("cycles to start the engine that sends");
        notice: Setting<u32> = cycles("cycles to see that a packet came");
        word: Setting<u32> = cycles("cycles to move 4 bytes of a short message");
        endpoint: Setting<u32> = cycles("cycles to find the endpoint of a message");
        queue: Setting<u32> = cycles("cycles to fill an entry of its queue");
        dma: Setting<u32> = cycles("cycles to start and end a transfer over the bus");
        check_out: Setting<u32> = cycles("cycles of checking a message that leaves");
        check_in: Setting<u32> = cycles("cycles of checking one that came");
        name: Setting<u32> = cycles("cycles to write name and key, or compare them");
        channel: Setting<u32> = cycles("cycles to find the channel of a packet");
        sequence: Setting<u32> = cycles("cycles to give a sequence, or compare it");
        stamp: Setting<u32> = cycles("cycles for the time stamp in a packet");
        timer: Setting<u32> = cycles("cycles to set a timer, or cancel it");
        end: Setting<u32> = cycles("cycles to end a message that was answered");
        recall: Setting<u32> = cycles("cycles to recall a message, for a remap");
        driver_word: Setting<u32> = cycles("cycles for a word of the driver, or to it");
    }
}

section! {
    HostSide Optional "hosts.model.host": "processor, driver and bus beside such an interface" {
        send: Setting<Time> = time("of the processor, for a message sent");
        receive: Setting<Time> = time("of the processor, for a message taken");
        poll_frame: Setting<Time> = time("a look at an endpoint in a frame");
        poll_host: Setting<Time> = time("a look at one in host memory");
        copy_rate: Setting<Rate> = rate("of the processor, copying long messages");
        switch: Setting<Time> = time("from one thread to another");
        fault: Setting<Time> = time("a trap into the kernel and back");
        interrupt: Setting<Time> = time("of the interface, to the driver");
        remap_period: Setting<Time> = time("between looks at what is to be remapped");
        driver: Setting<Time> = time("its work for each word that it says");
        unmap: Setting<Time> = time("taking an endpoint away from its process");
        store: Setting<Time> = time("moving an endpoint's backing store");
        map: Setting<Time> = time("giving the process its endpoint again");
        write_rate: Setting<Rate> = rate("of DMA into host memory");
        read_rate: Setting<Rate> = rate("of DMA out of host memory");
    }
}

section! {
    InterfaceNetwork Optional "hosts.model.network":
        "links and switches between such interfaces: a study has its own" {
        rate: Setting<Rate> = rate("of a link");
        switch: Setting<Time> = time("what a switch adds");
        header: Setting<u32> = bytes("of a packet, beside its payload");
        answer: Setting<u32> = bytes("an answer, as a whole");
        hosts_a_leaf: Setting<u16> = whole(1, u16::MAX, "of the tree of switches");
        receive_buffers: Setting<u16> =
            whole(1, u16::MAX, "packets that an interface holds; then its link stops");
        lost: Setting<f64> = share("of packets and answers, in millionths");
    }
}

section! {
    /// Exactly-once delivery from interface to interface.
    Transport Optional "hosts.model.transport":
        "what brings their messages exactly once; once and unanswered, if left out" {
        channels: Setting<u8> = whole(1, 32, "from one interface to another");
        routes: Setting<u8> = whole(1, u8::MAX, "between two interfaces");
        timeout_min: Setting<Time> = time("until an answer is overdue");
        timeout_max: Setting<Time> = time("the same, and waits, at most");
        refusal_delay: Setting<Time> = time("mean wait after a first refusal");
        doublings_max: Setting<u8> = whole(0, 32, "how often time-out and wait double");
        transmissions_max: Setting<u8> =
            whole(1, u8::MAX, "of a message, then it leaves its channel");
        unbound_delay: Setting<Time> = time("mean time until it is put on again");
        unreachable_after: Setting<Time> = time("silence of an interface, then all returns");
    }
}

words! {
    pub(crate) enum FigureUnit {
        Microseconds = "us",
        Megabits = "Mbit/s",
        Megabytes = "MB/s",
    }
}

words! {
    pub(crate) enum FigureRole {
        Given = "given",
        Result = "result",
    }
}

words!(FigureTest {
    Latency = "latency",
    Bandwidth = "bandwidth",
    RawLatency = "raw-latency",
    RawBandwidth = "raw-bandwidth",
    Overheads = "overheads",
    Gap = "gap",
    Bulk = "bulk",
    CheckingLatency = "checking-latency",
    CheckingGap = "checking-gap",
});

section! {
    FigureRow Rows "preset.published": "a preset's [[published]]: a figure of a program on it, one per row" {
        test: Setting<FigureTest> =
            choice(
                "half a round trip, messages one way, remote writes without VIA; of endpoints: overheads of both \
                ends, gap, bulk messages, what error checking adds to latency and gap",
            );
        size: Setting<u32> = message("bytes of a message");
        value: Setting<f64> = number("the published figure");
        unit: Setting<FigureUnit> = choice("its unit: us, Mbit/s (bandwidths), or MB/s (bulk)");
        source: Setting<String> = text("where it is published");
        role: Setting<FigureRole> = choice("calibrated on, or to be predicted").or("given");
        tolerance: Setting<f64> =
            share("how far a reproduction may be off").otherwise(TOLERANCE_DEFAULT);
    }
}
