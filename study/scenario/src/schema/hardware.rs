//! Keys of a host's hardware: those of presets, and of [hosts.model] in a study.

use viaduct_engine::Time;
use viaduct_hardware::{Rate, Switching};

use super::MechanismKind;
use crate::section::kinds::{choice, count, message, rate_or_infinite, size, text, time};
use crate::section::{Setting, section, words};

section! {
    Model "hosts.model": "the hardware of a host, over the preset's values" {
        name: Setting<String> = text("the name of the hardware").otherwise("the preset's");
        mechanism: Setting<MechanismKind> =
            choice("how the adapter carries messages; it has a table of its own")
                .otherwise("the preset's, or native");
    }
}

words! {
    pub(crate) enum NoticeBy {
        Polling = "polling",
        Interrupt = "interrupt",
    }
}

section! {
    Cpu "hosts.model.cpu": "what the processor spends on a message" {
        post: Setting<Time> = time("building a descriptor and queueing it");
        reap: Setting<Time> = time("taking a completed descriptor off its queue");
        notice: Setting<NoticeBy> = choice("how the application learns of a message");
        polling_delay: Setting<Time> = time("from the completion's write to the loop's seeing it");
        interrupt: Setting<Time> = time("from the interrupt to its handler's end");
        wake_up: Setting<Time> = time("scheduling the application that waits");
    }
}

section! {
    Bus "hosts.model.bus": "the I/O bus" {
        rate: Setting<Rate> = rate_or_infinite("peak rate");
        burst: Setting<u32> = size(1 << 30, "data of a DMA burst; 0 B: bursts cost nothing");
        burst_overhead: Setting<Time> = time("arbitration, address and turn-around of a burst");
        programmed_write: Setting<Time> = time("a write of the processor to the NIC: a doorbell");
        read: Setting<Time> = time("a short read by the NIC: a descriptor");
        write: Setting<Time> = time("a short write by the NIC: a status word");
    }
}

section! {
    Nic "hosts.model.nic": "the adapter of mechanism native, stage by stage" {
        doorbell: Setting<Time> = time("from the doorbell's arrival to the NIC's reaction");
        send_descriptor: Setting<Time> = time("reading and checking a send descriptor");
        translate: Setting<Time> = time("translation and protection check of a segment");
        inline: Setting<u32> = size(1 << 20, "messages up to this travel with the descriptor");
        dma_setup: Setting<Time> = time("starting a DMA transfer, at each end");
        moving_per_vi: Setting<u32> = count("messages of one VI whose data may move at once");
        rate: Setting<Rate> = rate_or_infinite("at which bytes move between bus and link");
        page: Setting<u32> = size(1 << 30, "page of the translation table; 0 B: costs nothing");
        page_crossing: Setting<Time> = time("going on in the buffer's next page, at each end");
        forwarding: Setting<Switching> = choice("send while data still arrives, or when it has");
        receive_match: Setting<Time> = time("finding the VI and its receive descriptor");
        completion: Setting<Time> = time("preparing the completion");
        transfer_max: Setting<u32> = message("largest message that a descriptor takes");
    }
}

words! {
    pub(crate) enum WaitKind {
        Spin = "spin",
        Block = "block",
        TwoPhase = "two-phase",
    }
}

words! {
    pub(crate) enum PhasesKind {
        Random = "random",
        Aligned = "aligned",
    }
}

section! {
    Scheduling Optional "hosts.scheduler":
        "how ranks of one host share its processor, where interfaces have endpoints" {
        quantum: Setting<Time> = time("processor's time of a turn").or("10 ms");
        switch: Setting<Time> =
            time("from one rank to another, caches included").or("50 us");
        wait: Setting<WaitKind> =
            choice("what a rank does that waits for messages: looks, blocks, or looks for `spin` first")
                .otherwise("two-phase where ranks share a host, else spin");
        spin: Setting<Time> = time("how long it looks before it blocks").or("150 us");
        phases: Setting<PhasesKind> =
            choice("whether turns of different hosts end at random times, or together").or("random");
    }
}
