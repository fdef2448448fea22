//! What a run is told: the resolved scenario, every value in its final unit.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_topology::{LinkClass, LinkId, Topology};

use crate::workload::{Interval, MessageList, Pattern, SizeDistribution};

/// A data rate in bits a second, of payload bits unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate {
    bits_per_second: f64,
}

impl Rate {
    /// A rate that no transfer notices.
    pub const INFINITE: Self = Self {
        bits_per_second: f64::INFINITY,
    };

    /// From bits a second.
    #[must_use]
    pub const fn from_bits_per_second(bits_per_second: f64) -> Self {
        Self { bits_per_second }
    }

    /// In bits a second.
    #[must_use]
    pub const fn bits_per_second(self) -> f64 {
        self.bits_per_second
    }

    /// In bytes a picosecond, the unit of the fluid model.
    #[must_use]
    pub fn bytes_per_picosecond(self) -> f64 {
        self.bits_per_second / 8e12
    }

    /// Whether the rate is without bound.
    #[must_use]
    pub fn is_infinite(self) -> bool {
        self.bits_per_second.is_infinite()
    }

    /// How long `bytes` take at this rate, to the nearest picosecond.
    #[must_use]
    pub fn time_for(self, bytes: f64) -> Time {
        Time::from_picoseconds((bytes / self.bytes_per_picosecond() + 0.5) as u64)
    }
}

/// Everything that decides a run. Equal configurations give equal results to the bit.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Hosts, switches, links and routes.
    pub topology: Arc<Topology>,
    /// How links share their rate.
    pub links: LinkConfig,
    /// What a switch costs a message.
    pub switch: SwitchModel,
    /// CPU, bus and NIC: the same on each host.
    pub host: HostModel,
    /// How each host is used.
    pub hosts: HostsConfig,
    /// What the applications send.
    pub traffic: TrafficConfig,
    /// How long, which seed.
    pub run: RunConfig,
}

/// The links of the network.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How a link shares its rate among its active flows.
    pub sharing: Sharing,
    /// Whether a message crosses its links at once or one after the other.
    pub switching: Switching,
    /// Rate of a link between switches, after line coding.
    pub rate: Rate,
    /// Rate of the link between a host and its switch, after line coding.
    pub host_rate: Rate,
    /// Signal propagation of one link.
    pub propagation: Time,
    /// Framing on the link.
    pub frame: Frame,
}

impl LinkConfig {
    /// The rate of one link: its own, if the network's file gives one.
    #[must_use]
    pub fn rate_of(&self, topology: &Topology, link: LinkId) -> Rate {
        if let Some(bits_per_second) = topology.link_rate_bits_per_second(link) {
            return Rate::from_bits_per_second(bits_per_second);
        }
        match topology.link_class(link) {
            LinkClass::HostUp | LinkClass::HostDown => self.host_rate,
            LinkClass::Mesh | LinkClass::TreeUp | LinkClass::TreeDown => self.rate,
        }
    }

    /// The propagation of one link: its own, if the network's file gives one.
    #[must_use]
    pub fn propagation_of(&self, topology: &Topology, link: LinkId) -> Time {
        topology
            .link_latency_picoseconds(link)
            .map_or(self.propagation, Time::from_picoseconds)
    }
}

/// How a link's rate is shared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// Ours: each of n active flows gets 1/n of each link on its path, moves at the smallest of
    /// these, and what it does not use is lost. The published rule shares each queue in this way by
    /// itself, and couples nothing over a path.
    Fluid,
    /// Max-min fairness: unused shares are handed on.
    MaxMin,
}

impl Sharing {
    /// Its word in a study.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fluid => "fluid",
            Self::MaxMin => "max-min",
        }
    }
}

/// When a switch, or a NIC, forwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Switching {
    /// While the message still arrives.
    CutThrough,
    /// When the whole message has arrived.
    StoreAndForward,
}

/// Framing: what a message costs on the link beside its own bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Largest payload of a frame, bytes; 0 means that a message is one frame.
    pub payload_bytes: u32,
    /// Header, trailer and gap of a frame, bytes.
    pub header_bytes: u32,
}

impl Frame {
    /// Bytes on the link for a message of `bytes`: at least one frame.
    #[must_use]
    pub fn wire_bytes(self, bytes: u64) -> u64 {
        bytes + self.count(bytes) * u64::from(self.header_bytes)
    }

    /// Frames of a message of `bytes`: at least one.
    #[must_use]
    pub fn count(self, bytes: u64) -> u64 {
        match self.payload_bytes {
            0 => 1,
            payload => bytes.div_ceil(u64::from(payload)).max(1),
        }
    }
}

/// What a switch costs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SwitchModel {
    /// From the arrival of the part that decides the route to the start of forwarding.
    pub delay: Time,
    /// Bytes that must have arrived before a cut-through switch forwards, at most the message.
    pub cut_through_bytes: u32,
}

/// A host's hardware and system software: one preset.
#[derive(Clone, Debug)]
pub struct HostModel {
    /// The preset's name.
    pub name: String,
    /// What the processor spends on a message.
    pub cpu: CpuModel,
    /// The I/O bus.
    pub bus: BusModel,
    /// The network adapter.
    pub nic: NicModel,
}

/// Processor costs. One processor a host; its work is served first come, first served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CpuModel {
    /// Building a descriptor and putting it into a work queue.
    pub post: Time,
    /// Taking a completed descriptor off its queue.
    pub reap: Time,
    /// How the application learns of a received message.
    pub notice: Notice,
}

/// How a completion reaches the application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// The application reads the completion word in memory over and over.
    Polling {
        /// From the write of the completion to the loop's seeing it, in the mean.
        delay: Time,
    },
    /// The NIC interrupts; the system wakes the application.
    Interrupt {
        /// From the interrupt to its handler's end.
        interrupt: Time,
        /// Scheduling the application that waits.
        wake_up: Time,
    },
}

/// The I/O bus: a fluid server for DMA, and a cost for each short transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusModel {
    /// Peak rate.
    pub rate: Rate,
    /// Bytes a DMA burst carries; 0: bursts cost nothing.
    pub burst_bytes: u32,
    /// Arbitration, address and turn-around of each burst.
    pub burst_overhead: Time,
    /// A programmed write of the CPU to the NIC (a doorbell).
    pub programmed_write: Time,
    /// A short read by the NIC (a descriptor): request to data.
    pub read: Time,
    /// A short write by the NIC (a status word).
    pub write: Time,
}

impl BusModel {
    /// The rate that long DMA transfers reach, bursts' overhead counted.
    #[must_use]
    pub fn dma_rate(&self) -> Rate {
        if self.burst_bytes == 0 || self.rate.is_infinite() {
            return self.rate;
        }
        let bytes = f64::from(self.burst_bytes);
        let picoseconds =
            bytes / self.rate.bytes_per_picosecond() + self.burst_overhead.picoseconds() as f64;
        Rate::from_bits_per_second(bytes / picoseconds * 8e12)
    }
}

/// The network adapter, stage by stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicModel {
    /// From the doorbell's arrival to the NIC's reaction.
    pub doorbell: Time,
    /// Reading and checking a send descriptor, beside the bus read.
    pub send_descriptor: Time,
    /// Translation and protection check of one buffer segment.
    pub translate: Time,
    /// Messages up to this size travel with their descriptor and need no DMA of their own, bytes.
    pub inline_bytes: u32,
    /// Starting a DMA transfer of data, at each end.
    pub dma_setup: Time,
    /// Messages of one VI whose data may move at once; the next ones wait in order.
    ///
    /// With more than one, a short message may overtake; its latency counts to its own arrival.
    pub moving_per_vi: u32,
    /// Rate at which the NIC moves a message's bytes between bus and link.
    pub rate: Rate,
    /// Size of a page in the translation table, bytes; 0: pages cost nothing.
    pub page_bytes: u32,
    /// Stopping and restarting the stream where a buffer crosses into its next page, at each end.
    pub page_crossing: Time,
    /// Whether data is forwarded to the link (and from it to the bus) while it still arrives.
    pub forwarding: Switching,
    /// Finding the VI and its next receive descriptor, beside the bus read.
    pub receive_match: Time,
    /// Preparing the completion, beside the bus write.
    pub completion: Time,
}

/// How each host is used.
#[derive(Clone, Debug)]
pub struct HostsConfig {
    /// Application processes a host.
    pub processes: u32,
    /// Receive descriptors that are kept posted on each VI; [`UNLIMITED`]: one for each message.
    pub prepost: u32,
    /// Whether somebody chose `prepost`, and so expects messages to be dropped without it.
    pub is_prepost_chosen: bool,
    /// Send buffers of a host's memory pool; a process waits when none is free. [`UNLIMITED`]:
    /// one for each message.
    pub send_buffers: u32,
    /// Other devices on the bus, taken together.
    pub bus_load: Option<BusLoad>,
}

/// A number of descriptors or buffers that no run reaches.
pub const UNLIMITED: u32 = u32::MAX;

/// Transfers of other devices over the same bus.
#[derive(Clone, Debug)]
pub struct BusLoad {
    /// Time between the starts of two transfers.
    pub interval: Interval,
    /// Bytes of a transfer.
    pub size: SizeDistribution,
}

/// What the applications send.
#[derive(Clone, Debug)]
pub struct TrafficConfig {
    /// To whom.
    pub pattern: Pattern,
    /// When the next message is posted.
    pub arrivals: Arrivals,
    /// How many bytes.
    pub size: SizeDistribution,
    /// No message is posted before.
    pub start: Time,
    /// No message is posted at or after.
    pub stop: Time,
}

impl TrafficConfig {
    /// The messages of a list. What is due at `stop` or later is not posted.
    #[must_use]
    pub fn listed(list: Arc<MessageList>, start: Time, stop: Time) -> Self {
        Self {
            pattern: Pattern::Pairs(list.host_pairs()),
            size: SizeDistribution::listed(&list),
            arrivals: Arrivals::Listed(list),
            start,
            stop,
        }
    }
}

/// When a process posts its next message.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Open loop: after a drawn interval, whatever became of the earlier ones.
    Open(Interval),
    /// Closed loop: a message is answered by one of equal size; the next follows the answer.
    PingPong,
    /// Closed loop: up to this many messages posted whose sends are not yet complete.
    Window(u32),
    /// Open loop: at the times of a list, counted from the start of the traffic, whatever became
    /// of the earlier ones. Targets and sizes are the list's too; see [`TrafficConfig::listed`].
    Listed(Arc<MessageList>),
}

/// How long a run lasts.
#[derive(Clone, Copy, Debug)]
pub struct RunConfig {
    /// Messages posted before this time are not counted in the statistics.
    pub warmup: Time,
    /// The end of simulated time.
    pub until: Time,
    /// Whether messages under way at `until` are carried to their end.
    pub drain: bool,
    /// The run ends when this many messages are delivered, if any.
    pub messages_max: Option<u64>,
    /// The run ends after this many events, if any.
    pub events_max: Option<u64>,
    /// The seed of all random streams.
    pub seed: u64,
    /// Rows of the message table kept at most; beyond it every second row is dropped, evenly.
    pub message_rows_max: u32,
}
