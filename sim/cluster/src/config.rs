//! What a run is told: the resolved scenario, every value in its final unit.

use std::sync::Arc;

use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::{ByHost, Frame, HostModel, Pair, Rate};
use viaduct_network::{LinkConfig, SwitchModel};
use viaduct_topology::Topology;

use crate::adapters::Adapters;
use crate::background::Background;
use crate::error::RunError;
use crate::faults::{Detection, Fault};
use crate::interfaces::Interfaces;
use crate::workload::{
    Application, Interval, MessageList, MessageOperation, Pattern, SizeDistribution,
};

/// Everything that decides a run. Equal configurations give equal results to the bit.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Hosts, switches, links and routes.
    pub topology: Arc<Topology>,
    /// How links share their rate.
    pub links: LinkConfig,
    /// What a switch costs a message.
    pub switch: SwitchModel,
    /// Processor, bus and adapter of each host.
    pub host: ByHost<HostModel>,
    /// Interfaces of another kind in place of these adapters, which carry out graphs of operations.
    pub interfaces: Option<Arc<dyn Interfaces>>,
    /// How each host is used.
    pub hosts: HostsConfig,
    /// What the applications send.
    pub traffic: TrafficConfig,
    /// What goes wrong. Nothing is drawn, and no time passes otherwise, where this is empty.
    pub faults: Vec<Fault>,
    /// How long it takes until faults are noticed.
    pub detection: Detection,
    /// Traffic of others on the same links and buses.
    pub background: Vec<Background>,
    /// How long, which seed.
    pub run: RunConfig,
}

impl ClusterConfig {
    /// Framing and rate of the link between a host and its switch.
    #[inline]
    pub(crate) const fn host_link(&self) -> (Frame, Rate) {
        (self.links.frame, self.links.host_rate)
    }

    /// Two hosts, of which one sends to the other.
    #[inline]
    pub(crate) fn pair(&self, (source, target): (u32, u32)) -> Pair<'_> {
        Pair::of(&self.host, source, target)
    }

    /// The places of two ports.
    #[inline]
    pub(crate) fn hosts_of(&self, (source, target): (u32, u32)) -> (u32, u32) {
        self.flow_of(source, target).0
    }
}

/// How each host is used.
#[derive(Clone, Debug)]
pub struct HostsConfig {
    /// Application processes a host.
    pub processes: u32,
    /// Its adapters.
    pub adapters: Adapters,
    /// Processors of a host, of which each process has one and shares it if there are more
    /// processes. None: one works for all messages of a host, and whatever is computed beside it
    /// has processors of its own.
    pub processors: Option<u32>,
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
    /// What each message is; those of a list say it themselves.
    pub operation: MessageOperation,
    /// The level of all connections.
    pub reliability: ReliabilityLevel,
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
            operation: MessageOperation::Send,
            reliability: ReliabilityLevel::Unreliable,
            start,
            stop,
        }
    }

    /// The messages of a graph of operations, all of them sends. What is due at `stop` or later is
    /// not begun.
    #[must_use]
    pub fn of_application(application: Arc<Application>, start: Time, stop: Time) -> Self {
        let (least, most) = application.bytes_range();
        let sizes = SizeDistribution::uniform(least, most);
        Self {
            pattern: Pattern::Pairs(Vec::new()),
            size: sizes.unwrap_or_else(|_| SizeDistribution::constant(most)),
            arrivals: Arrivals::Application(application),
            operation: MessageOperation::Send,
            reliability: ReliabilityLevel::ReliableDelivery,
            start,
            stop,
        }
    }

    /// The graph of operations that is carried out, if it is one.
    #[must_use]
    pub const fn application(&self) -> Option<&Arc<Application>> {
        match &self.arrivals {
            Arrivals::Application(application) => Some(application),
            _ => None,
        }
    }

    /// Whether there may be messages of an operation.
    #[must_use]
    pub fn has(&self, operation: MessageOperation) -> bool {
        match &self.arrivals {
            Arrivals::Listed(list) => list.has(operation),
            Arrivals::Open(_)
            | Arrivals::PingPong
            | Arrivals::Window(_)
            | Arrivals::Application(_) => self.operation == operation,
        }
    }

    /// Whether all messages are sends.
    pub(crate) fn has_sends_alone(&self) -> bool {
        let mut all = MessageOperation::ALL.into_iter();
        all.all(|it| it == MessageOperation::Send || !self.has(it))
    }

    /// Whether there may be messages that take a receive.
    pub(crate) fn takes_receives(&self) -> bool {
        let mut all = MessageOperation::ALL.into_iter();
        all.any(|it| it.is_heard() && self.has(it))
    }

    /// Whether VIA can do what is asked of it.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.has(MessageOperation::Read) && !self.reliability.is_reliable() {
            return Err(RunError::UnreliableReads);
        }
        if matches!(self.arrivals, Arrivals::PingPong) && !self.operation.is_heard() {
            return Err(RunError::NoAnswers);
        }
        Ok(())
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
    /// As a graph of operations says: when what a message waits for has happened. See
    /// [`TrafficConfig::of_application`].
    Application(Arc<Application>),
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
    /// Connections between processes above which idle ones are given back, to be made again when
    /// they are used; [`CONNECTIONS_KEPT`](crate::CONNECTIONS_KEPT) is right, and stands for 16 per
    /// process where that is more. Costs time or memory, and changes no result.
    pub connections_kept: u32,
}
