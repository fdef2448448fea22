//! What a run tells: plain numbers, units in the names.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_network::QueueWindow;
use viaduct_operations::{Misfits, Stalled};
use viaduct_statistics::{Estimate, Quantiles};
use viaduct_topology::{LinkClass, Topology};

pub use crate::interval::TooShort;
use crate::workload::MessageOperation;

/// Everything measured in one run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// A hash over every delivered and dropped message and the final counts: equal runs have equal
    /// digests.
    pub digest: u64,
    /// Simulated time at the end.
    pub simulated: Time,
    /// Why the run ended.
    pub ended: Ended,
    /// Messages of the whole run, warm-up included.
    pub messages: MessageCounts,
    /// Drawn messages where there are programs, whose messages are those above: they are in no
    /// distribution.
    pub around: MessageCounts,
    /// One-way latency from post to the receiver's completion, of messages posted after warm-up;
    /// for a ping-pong half of the round trip.
    pub latency: Option<Latency>,
    /// Mean share of each stage in the latency, in the order in which a message meets them.
    pub breakdown: Vec<StageShare>,
    /// Links by class.
    pub links: Vec<LinkClassUse>,
    /// Each link: one row.
    pub link_rows: Vec<LinkRow>,
    /// The network, for the names of its links.
    pub topology: Arc<Topology>,
    /// Adapters of each host, which are so many hosts of the network, one after the other.
    pub adapters: u32,
    /// The hosts' buses.
    pub buses: ResourceUse,
    /// Messages dropped, by cause and place; sorted by cause, then host.
    pub drops: Vec<Drops>,
    /// Whether messages were dropped for want of receive descriptors and nobody had chosen their
    /// number.
    pub has_unasked_drops: bool,
    /// Deepest queues seen, by place.
    pub depths: Vec<QueueDepth>,
    /// The run over time: equal windows.
    pub series: Vec<SeriesRow>,
    /// What the queues of links held and did in the same windows, in order of the windows' ends and
    /// of the links, where frames go one by one.
    pub queues: Vec<QueueWindow>,
    /// Sampled messages: every `message_stride`-th.
    pub message_rows: Vec<MessageRow>,
    /// One row stands for this many messages.
    pub message_stride: u64,
    /// Whether the latency had settled after warm-up.
    pub steady: SteadyState,
    /// Payload bytes delivered after warm-up.
    pub delivered_bytes: u64,
    /// Events handled.
    pub events: u64,
    /// Most events pending at once.
    pub events_pending_max: u64,
    /// Simulator state, bytes, as the structures count it themselves.
    pub state_bytes: u64,
    /// Checks that the run made on itself and that failed; empty when all held.
    pub violations: Vec<String>,
    /// What the user should know of this run.
    pub warnings: Vec<Warning>,
    /// The result of the application that the hosts carried out, if there was one.
    pub application: Option<ApplicationResult>,
    /// What happened on interfaces with endpoints, if hosts have such.
    pub interfaces: Option<InterfaceCounts>,
}

/// How often what happened on interfaces with endpoints, and on the processors beside them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InterfaceCounts {
    /// Endpoints moved into a frame.
    pub remaps: u64,
    /// Messages refused for the time being.
    pub refusals: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    /// Processors given from one process to another.
    pub switches: u64,
    /// Processes that blocked while they waited.
    pub blocks: u64,
}

/// The result of a graph of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationResult {
    /// From the start of the traffic to the end of the last operation.
    pub makespan: Time,
    /// Operations that there are.
    pub operations: u64,
    /// Of these, such that have ended.
    pub ended: u64,
    /// Messages between ranks of one host, which no adapter was given.
    pub local_messages: u64,
    /// Whether the run ended before the graph: `run.until` or another limit was reached.
    pub is_cut: bool,
    /// What has not ended although nothing could happen any more, if anything.
    pub stalled: Option<Stalled>,
    /// Sends and receives that matched and whose sizes do not fit.
    pub misfits: Misfits,
    /// Each rank: one row.
    pub ranks: Vec<RankRow>,
}

/// Where the time of a rank went. A processor that works for messages while the rank computes on
/// another one makes these add up to more than the whole.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// Its host, or the place of the first of its adapters.
    pub host: u32,
    /// From the start of the traffic to the end of its last operation.
    pub span: Time,
    /// For how long it computed, on all its processors.
    pub computing: Time,
    /// For how long its host's processor worked for its messages.
    pub messaging: Time,
    /// For how long its first processor did neither.
    pub waiting: Time,
    /// The rank for whose messages it waited longest, and how long: from the end of an operation,
    /// or the last work of its processor, to the end of a receive from that rank or of a send that
    /// waited for it. None if it waited for nobody.
    pub longest_wait: Option<(u32, Time)>,
    /// How long all ranks together waited for its messages, or for it to take theirs.
    pub waited_for: Time,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Simulated time reached its end, or nothing was left to do.
    Finished,
    /// The given number of messages was delivered.
    MessageCount,
    /// The given number of events was handled.
    EventCount,
    /// The caller asked for it (Ctrl-C).
    Interrupted,
    /// Messages wait for each other in the network, for ever.
    Deadlock,
    /// Operations are left, and wait for what never comes.
    Stalled,
}

impl Ended {
    /// Whether everybody waited for somebody, so that nothing could happen any more.
    #[must_use]
    pub const fn is_standstill(self) -> bool {
        matches!(self, Self::Deadlock | Self::Stalled)
    }
}

/// Messages: posted = delivered + dropped + in flight.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MessageCounts {
    /// Given to a VI by an application.
    pub posted: u64,
    /// Completed at the receiver.
    pub delivered: u64,
    /// Lost, with a cause in [`RunResult::drops`].
    pub dropped: u64,
    /// Under way when the run ended.
    pub in_flight: u64,
}

/// The distribution of latency, in microseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Messages counted.
    pub count: u64,
    /// Mean, with the 95 % confidence interval's half width by batch means.
    pub mean_us: Estimate,
    /// Why there is no interval, if there is none.
    pub no_interval: Option<TooShort>,
    /// Standard deviation of one message.
    pub sd_us: f64,
    /// Smallest.
    pub min_us: f64,
    /// Largest.
    pub max_us: f64,
    /// Quantiles, in picoseconds, read with [`Quantiles::value_at`].
    pub quantiles_ps: Quantiles,
    /// No message of the smallest size over the shortest path can be faster.
    pub floor_us: f64,
}

/// One stage's share.
#[derive(Clone, Debug, PartialEq)]
pub struct StageShare {
    /// The stage: `post`, `doorbell`, ...
    pub stage: &'static str,
    /// Mean time a message spent in it, microseconds.
    pub mean_us: f64,
}

/// The links of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkClassUse {
    /// Which links.
    pub class: LinkClass,
    /// Count and utilisation.
    pub usage: ResourceUse,
}

/// How busy a set of servers was, between warm-up and end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUse {
    /// Servers.
    pub count: u64,
    /// Mean of carried over possible, 0 to 1.
    pub utilisation_mean: f64,
    /// The busiest server's.
    pub utilisation_max: f64,
}

/// One link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    /// Link number in the topology.
    pub link: u32,
    /// Its class.
    pub class: LinkClass,
    /// Bytes carried between warm-up and end, framing included.
    pub wire_bytes: f64,
    /// Carried over possible, 0 to 1.
    pub utilisation: f64,
    /// Most flows at once.
    pub flows_max: u32,
    /// Of its output queue, where it has one: most bytes in it at once.
    pub queue_max_bytes: u64,
    /// Frames that found it full in the whole run, and were lost.
    pub frames_lost: u64,
    /// Frames that found it full in the whole run, and of which their headers went on.
    pub frames_trimmed: u64,
    /// Frames that it marked in the whole run.
    pub frames_marked: u64,
    /// How often the link was told to pause in the whole run.
    pub pauses: u64,
    /// For how long it has paused altogether.
    pub paused: Time,
}

impl LinkRow {
    /// Of a link that nothing has crossed.
    #[must_use]
    pub const fn unused(link: u32, class: LinkClass) -> Self {
        Self {
            link,
            class,
            wire_bytes: 0.0,
            utilisation: 0.0,
            flows_max: 0,
            queue_max_bytes: 0,
            frames_lost: 0,
            frames_trimmed: 0,
            frames_marked: 0,
            pauses: 0,
            paused: Time::ZERO,
        }
    }
}

/// Messages lost at one host for one cause.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Drops {
    /// The cause: `no_descriptor`, ...
    pub cause: &'static str,
    /// Where.
    pub host: u32,
    /// How many.
    pub count: u64,
    /// When first.
    pub first: Time,
}

/// The deepest a queue of one kind became.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueDepth {
    /// What queues there: `send queue`, `flows on a link`, ...
    pub queue: &'static str,
    /// Deepest.
    pub depth_max: u64,
    /// At which host or link.
    pub place: u32,
}

/// One window of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeriesRow {
    /// The window's end.
    pub end: Time,
    /// Messages posted in it.
    pub posted: u64,
    /// Messages delivered in it.
    pub delivered: u64,
    /// Messages dropped in it.
    pub dropped: u64,
    /// Messages under way at its end.
    pub in_flight: u64,
    /// Mean latency of those delivered, microseconds; 0 if none.
    pub latency_mean_us: f64,
    /// Mean utilisation of links between switches in it, 0 to 1.
    pub link_utilisation_mean: f64,
    /// The busiest such link's; of windows that were joined, since nobody knew how long the run
    /// would be, the larger.
    pub link_utilisation_max: f64,
}

impl SeriesRow {
    /// Two windows of equal width as one; of a last one alone that one.
    pub(crate) fn joined(windows: &[Self]) -> Self {
        let [first, last] = windows else {
            return windows.first().copied().unwrap_or_default();
        };
        let mut row = *first;
        row.join(*last);
        row.end = last.end;
        row.link_utilisation_mean =
            (first.link_utilisation_mean + last.link_utilisation_mean) / 2.0;
        row.link_utilisation_max = first.link_utilisation_max.max(last.link_utilisation_max);
        row
    }

    /// Takes what happened at its very end, behind whatever else did then.
    pub(crate) fn join(&mut self, after: Self) {
        let delivered = self.delivered + after.delivered;
        if after.delivered > 0 {
            let sum_us = self.latency_mean_us * self.delivered as f64
                + after.latency_mean_us * after.delivered as f64;
            self.latency_mean_us = sum_us / delivered as f64;
        }
        self.posted += after.posted;
        self.delivered = delivered;
        self.dropped += after.dropped;
        self.in_flight = after.in_flight;
    }
}

/// One message of the sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRow {
    /// Number of the message in order of posting, from 0.
    pub message: u64,
    /// The host that posted it: of several adapters the place of the one that it took.
    pub source: u32,
    /// The host that it was for, or the place of the adapter by which it came.
    pub target: u32,
    /// Payload.
    pub bytes: u32,
    /// What it was.
    pub operation: MessageOperation,
    /// When the application posted it.
    pub posted: Time,
    /// Latency; none if it was dropped.
    pub latency: Option<Time>,
    /// Of which waiting for shares of links and buses.
    pub queued: Time,
}

/// Whether the measured part of the run was steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SteadyState {
    /// Too short a run to tell.
    Unknown,
    /// The initial transient ends within the warm-up, nothing drifts, and the run is long enough
    /// to tell.
    Steady,
    /// Latency changes from the warm-up to the end: the straight line through it.
    Drifting {
        /// At the first message, microseconds.
        first_us: f64,
        /// At the last.
        last_us: f64,
    },
    /// The transient is longer: the time that should be cut, and whether messages pile up.
    Transient {
        /// A warm-up that would do.
        warmup_needed: Time,
        /// More was offered than served.
        overloaded: bool,
    },
}

/// Something that the user should know; located and counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// What happened, with figures.
    pub text: String,
    /// What to do about it.
    pub help: Option<String>,
}
