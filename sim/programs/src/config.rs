//! What a simulation is told: the network, the hosts on it, and what their adapters cost.

use std::fmt;
use std::sync::Arc;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::background::{Background, BackgroundError, Sources};
use viaduct_cluster::config::{
    Arrivals, ClusterConfig, HostsConfig, RunConfig, TrafficConfig, UNLIMITED,
};
use viaduct_cluster::faults::{Detection, Fault, FaultError, Faults};
use viaduct_cluster::workload::{MessageOperation, Pattern, SizeDistribution};
use viaduct_engine::Time;
use viaduct_hardware::{ByHost, Frame, HostModel, Rate};
use viaduct_network::{LinkConfig, SwitchModel};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_topology::Topology;

/// A cluster for programs.
#[derive(Clone, Debug)]
pub struct SimulationConfig {
    /// Hosts, switches, links and routes.
    pub topology: Arc<Topology>,
    /// How links share their rate.
    pub links: LinkConfig,
    /// What a switch costs a message.
    pub switch: SwitchModel,
    /// Processor, bus and adapter of each host.
    pub host: ByHost<HostModel>,
    /// How many adapters a host has: the topology has a place for each.
    pub adapters: Adapters,
    /// How many processors a host has, which its programs take in turn as they are started; `None`
    /// is one, for all of them.
    pub processors: Option<u32>,
    /// What goes wrong. Nothing is drawn, and no time passes otherwise, where this is empty.
    pub faults: Vec<Fault>,
    /// How long it takes until faults are noticed.
    pub detection: Detection,
    /// Traffic of others on the same links and buses.
    pub background: Vec<Background>,
    /// Traffic of a study on the same hosts, if there is any.
    pub around: Option<Around>,
    /// The seed of what is drawn: which messages are lost or corrupted, and when others send.
    pub seed: u64,
}

/// A study's own messages, drawn or from a list, around programs: sent and taken by processes of
/// their own on the hosts, which share processors, adapters, buses and links with the programs.
#[derive(Clone, Debug)]
pub struct Around {
    /// How these processes use the hosts, but for adapters and processors, which are the cluster's.
    pub hosts: HostsConfig,
    /// What they send: until `stop`, if programs last so long.
    pub traffic: TrafficConfig,
    /// Programs begin when this is over, and what links carry is counted from then on.
    pub warmup: Time,
}

impl Around {
    /// Nobody sends anything.
    fn nobody() -> Self {
        Self {
            hosts: HostsConfig {
                processes: 1,
                adapters: Adapters::ONE,
                processors: None,
                prepost: UNLIMITED,
                is_prepost_chosen: false,
                send_buffers: UNLIMITED,
                bus_load: None,
            },
            traffic: TrafficConfig {
                pattern: Pattern::Pairs(Vec::new()),
                arrivals: Arrivals::PingPong,
                size: SizeDistribution::constant(0),
                operation: MessageOperation::Send,
                reliability: ReliabilityLevel::Unreliable,
                start: Time::ZERO,
                stop: Time::ZERO,
            },
            warmup: Time::ZERO,
        }
    }
}

/// Messages around programs that the hosts cannot carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AroundError {
    /// Some are too long.
    Bytes {
        /// Of the longest that may be sent.
        bytes: u32,
        /// Of the longest that an adapter takes.
        limit_bytes: u32,
    },
    /// They are those of a graph of operations, which begins once and ends.
    Operations,
}

impl fmt::Display for AroundError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { bytes, limit_bytes } => write!(
                formatter,
                "the study's own messages have up to {bytes} bytes, and the adapters take \
                 {limit_bytes}"
            ),
            Self::Operations => formatter.write_str(
                "the study's own messages are those of a graph of operations, and go on around no \
                 programs",
            ),
        }
    }
}

impl std::error::Error for AroundError {}

impl SimulationConfig {
    /// The same hosts in the same network, with nothing around programs.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self {
            around: None,
            ..self
        }
    }

    /// Hosts: the topology has a place for each of their adapters.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        self.topology.host_count() / self.adapters.count
    }

    /// Whether its faults can be.
    ///
    /// # Errors
    ///
    /// The first that names what is not there, or has a number that makes no sense.
    pub fn check_faults(&self) -> Result<(), FaultError> {
        Faults::new(&self.faults, &self.topology, self.detection, self.seed).map(drop)
    }

    /// Whether its background traffic can be.
    ///
    /// # Errors
    ///
    /// The first source that names a host that is not there, or sends to itself.
    pub fn check_background(&self) -> Result<(), BackgroundError> {
        let hosts = self.topology.host_count();
        Sources::new(&self.background, hosts, self.seed).map(drop)
    }

    /// Whether the hosts can carry the traffic around programs.
    ///
    /// # Errors
    ///
    /// If a message of it may be longer than their adapters take, or it is a graph of operations.
    pub fn check_around(&self) -> Result<(), AroundError> {
        let Some(around) = &self.around else {
            return Ok(());
        };
        let limits = self.host.values().map(|host| host.transfer_max_bytes);
        let (bytes, limit_bytes) = (
            around.traffic.size.max_bytes(),
            limits.min().unwrap_or(u32::MAX),
        );
        if around.traffic.application().is_some() {
            return Err(AroundError::Operations);
        }
        match bytes > limit_bytes {
            true => Err(AroundError::Bytes { bytes, limit_bytes }),
            false => Ok(()),
        }
    }

    /// Framing and rate of the link between a host and its switch.
    #[inline]
    pub(crate) const fn host_link(&self) -> (Frame, Rate) {
        (self.links.frame, self.links.host_rate)
    }
}

/// A cluster of such hosts, on which nothing is sent but what programs send and is around them.
impl From<SimulationConfig> for ClusterConfig {
    fn from(config: SimulationConfig) -> Self {
        let around = config.around.unwrap_or_else(Around::nobody);
        Self {
            topology: config.topology,
            links: config.links,
            switch: config.switch,
            host: config.host,
            interfaces: None,
            hosts: HostsConfig {
                adapters: config.adapters,
                processors: config.processors,
                ..around.hosts
            },
            traffic: around.traffic,
            faults: config.faults,
            detection: config.detection,
            background: config.background,
            run: RunConfig {
                warmup: around.warmup,
                until: Time::MAX,
                drain: true,
                messages_max: None,
                events_max: None,
                seed: config.seed,
                message_rows_max: 0,
                connections_kept: viaduct_cluster::CONNECTIONS_KEPT,
            },
        }
    }
}
