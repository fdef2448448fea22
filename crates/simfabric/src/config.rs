//! What a simulation is told: the network, the hosts on it, and what their adapters cost.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_fabric::via::NicAttributes;
use viaduct_sim::config::{BusModel, LinkConfig, NicModel, Rate, SwitchModel};
use viaduct_topology::Topology;

use crate::faults::{Detection, Fault};
use crate::traffic::Traffic;

/// A cluster for programs.
#[derive(Clone, Debug)]
pub struct SimulationConfig {
    /// Hosts, switches, links and routes.
    pub topology: Arc<Topology>,
    /// How links share their rate.
    pub links: LinkConfig,
    /// What a switch costs a message.
    pub switch: SwitchModel,
    /// Processor, bus and adapter: the same on each host.
    pub host: HostModel,
    /// What goes wrong. Nothing is drawn, and no time passes otherwise, where this is empty.
    pub faults: Vec<Fault>,
    /// How long it takes until faults are noticed.
    pub detection: Detection,
    /// Traffic of others on the same links and buses.
    pub traffic: Vec<Traffic>,
    /// The seed of what is drawn: which messages are lost or corrupted, and when others send.
    pub seed: u64,
}

/// A host's hardware and system software, as programs on it pay for them.
#[derive(Clone, Debug)]
pub struct HostModel {
    /// The preset's name.
    pub name: String,
    /// What the processor spends.
    pub processor: ProcessorModel,
    /// What registering memory costs.
    pub memory: MemoryModel,
    /// The I/O bus.
    pub bus: BusModel,
    /// How the adapter moves messages.
    pub mechanism: Mechanism,
    /// What the NIC can do.
    pub attributes: NicAttributes,
}

/// What the processor of a host spends. One processor a host; its programs take turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessorModel {
    /// Building a descriptor and putting it into a work queue.
    pub post: Time,
    /// Taking a completed descriptor off its queue.
    pub reap: Time,
    /// From a completion's being written to a polling program's seeing it, in the mean: half a
    /// turn of the loop. A look that finds nothing takes two of these.
    pub polling_delay: Time,
    /// From an interrupt to its handler's end, when a program sleeps.
    pub interrupt: Time,
    /// Scheduling a program that sleeps.
    pub wake_up: Time,
}

/// What it costs the processor to register memory: locking pages and telling the adapter of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryModel {
    /// A registration, whatever its length.
    pub register: Time,
    /// Bytes that are registered in a time, beside that; infinite if the length costs nothing.
    pub register_rate: Rate,
}

impl MemoryModel {
    /// Registration costs nothing.
    pub const FREE: Self = Self {
        register: Time::ZERO,
        register_rate: Rate::INFINITE,
    };

    /// What so many bytes take.
    #[must_use]
    pub fn registration(&self, bytes: u64) -> Time {
        self.register + self.register_rate.time_for(bytes as f64)
    }
}

/// How an adapter, with the software above it, carries a message.
#[derive(Clone, Debug)]
pub enum Mechanism {
    /// VIA in the adapter: doorbell, descriptor fetch, protection, DMA (Giganet cLAN).
    Native(NicModel),
    /// VIA in a library above remote writes and a DMA engine of one request (CLAN).
    RemoteWrites(RemoteWriteModel),
    /// VIA in the program of a slow processor on the adapter (Myrinet's LANai).
    Firmware(FirmwareModel),
    /// VIA in the kernel, on an ordinary adapter (M-VIA).
    Kernel(KernelModel),
    /// A current RDMA adapter on PCI Express.
    Rdma(RdmaModel),
}

/// CLAN: an adapter that knows remote writes, and a DMA engine that takes one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteWriteModel {
    /// From a write's being on the bus to its first bit on the link, and from the link to the
    /// bus: at each end.
    pub adapter: Time,
    /// Rate of the processor's own writes over the bus.
    pub write_rate: Rate,
    /// Library: taking a segment's cookie and finding its mapping.
    pub segment: Time,
    /// Making a mapping of a remote buffer that is not in the cache.
    pub map: Time,
    /// Mappings that the cache keeps, the least recently used one goes.
    pub mappings: u32,
    /// Messages of at least so many bytes go by the DMA engine, bytes.
    pub dma_from_bytes: u32,
    /// Library and scheduler: passing a request through the DMA queue.
    pub dma_request: Time,
    /// Requests up to this size the scheduler writes itself, bytes.
    pub dma_written_bytes: u32,
    /// Starting the engine.
    pub dma_setup: Time,
    /// The interrupt at a request's end: its service routine starts the next.
    pub dma_interrupt: Time,
    /// A message of the transfer queue, bytes on the bus.
    pub slot_bytes: u32,
    /// How the library's message queues are made.
    pub queues: QueueDesign,
    /// Messages up to this size go with the message of the transfer queue, bytes. They are not
    /// written into the receive's buffer, so that no cookie is looked up.
    pub inline_bytes: u32,
    /// Bytes of such a message that its first slot takes.
    pub inline_first_bytes: u32,
    /// Bytes of such a message that each further slot takes.
    pub inline_next_bytes: u32,
    /// Slots after which a reader tells how far it has read; at once where the sender waits for
    /// it, at reliable reception.
    pub returned_every: u32,
    /// How programs hear of what was written.
    pub notices: NoticeModel,
}

/// How a message in a queue between two hosts becomes visible to its reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueDesign {
    /// By a write index that is written after it. Of each posted receive the sender gets a message,
    /// and one for each of its segments.
    Indexed,
    /// By a mark in its slot, which is written last. The sender gets a count of posted receives,
    /// and a message for those of one segment that are longer than what goes inline.
    Lapped,
}

/// CLAN's tripwires and its asynchronous event queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoticeModel {
    /// Locations that the adapter's content-addressable memory can watch at a time.
    pub tripwires: u32,
    /// Setting a tripwire.
    pub tripwire: Time,
    /// Entries of the event queue.
    pub events: u32,
    /// The interrupt for each message that it tells of: the adapter cannot write an entry itself.
    pub interrupt: Time,
    /// Reading an entry of it, at user level.
    pub event: Time,
    /// Looking at a location that no tripwire watches, one of many in turn.
    pub look: Time,
}

/// A programmable adapter whose one processor handles every doorbell, descriptor and packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirmwareModel {
    /// Time of one cycle of its processor.
    pub cycle: Time,
    /// Cycles to notice a doorbell and find its VI.
    pub doorbell_cycles: u32,
    /// Cycles to fetch a descriptor from the host and read it.
    pub descriptor_cycles: u32,
    /// Cycles to translate and check the page of a segment.
    pub page_cycles: u32,
    /// Cycles to set up a DMA transfer between host and adapter.
    pub dma_cycles: u32,
    /// Cycles to send a packet that lies in the adapter's memory.
    pub send_cycles: u32,
    /// Cycles to take a packet in and find its receive.
    pub receive_cycles: u32,
    /// Cycles to complete a descriptor.
    pub completion_cycles: u32,
    /// Largest payload of a packet, bytes.
    pub packet_bytes: u32,
    /// Size of a page in the translation table, bytes.
    pub page_bytes: u32,
    /// Rate of the host processor's own writes into the adapter's memory.
    pub write_rate: Rate,
    /// How messages may be moved; the adapter's program takes the one that it expects to be
    /// quickest for a message's size and segments.
    pub ways: Ways,
}

/// Which ways of moving a message a programmable adapter knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ways {
    /// The host's processor writes descriptor and data into the adapter's memory.
    pub written: bool,
    /// The adapter fetches a packet into its memory, then sends it.
    pub staged: bool,
    /// The adapter sends a packet while it still fetches it.
    pub streamed: bool,
}

/// VIA in the kernel: a system call, copies, frames, interrupts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelModel {
    /// Entering and leaving the kernel at a post.
    pub system_call: Time,
    /// The protocol's and driver's work on a frame to send.
    pub send_frame: Time,
    /// The driver's and protocol's work on a frame that came.
    pub receive_frame: Time,
    /// Rate of a copy by the processor, once at each end.
    pub copy_rate: Rate,
    /// Adapter: from the driver's word to the first bit, and from the last bit to memory: each.
    pub adapter: Time,
    /// The interrupt of a frame, its handler begun.
    pub interrupt: Time,
    /// How long the adapter waits for more frames before it interrupts.
    pub coalescing: Time,
    /// Largest payload of a frame, bytes.
    pub frame_bytes: u32,
}

/// A current RDMA adapter: latencies of PCI Express, and caches that miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RdmaModel {
    /// A doorbell's way to the adapter.
    pub doorbell: Time,
    /// Sends up to this size are written with their descriptor by the processor, bytes.
    pub inline_bytes: u32,
    /// A read over PCI Express, request to data, without the data's own time.
    pub read: Time,
    /// Bytes of reads that may be outstanding: with the read's latency they bound the rate.
    pub read_credit_bytes: u32,
    /// The adapter's time for a message, at each end, pipelined.
    pub message: Time,
    /// Descriptors that come with one fetch.
    pub fetch_batch: u32,
    /// The adapters' part of the one-way latency, both ends.
    pub adapters: Time,
    /// Writing a completion entry.
    pub completion: Time,
    /// Connections whose state the adapter keeps, 1 to 65,534; others cost a read.
    pub connections: u32,
    /// Times that a reliable connection sends again without progress before it breaks; 0: never.
    pub retries: u32,
    /// How long it waits for a message's acknowledgement until then.
    pub timeout: Time,
}
