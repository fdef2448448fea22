//! Why a run cannot begin.

use thiserror::Error;

use crate::adapters::{ADAPTERS_MAX, PROCESSORS_MAX};
use crate::background::BackgroundError;
use crate::faults::FaultError;
use crate::workload::PatternError;

/// Why a run cannot begin.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The traffic pattern does not fit the network.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A fault cannot be.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// Background traffic cannot be.
    #[error(transparent)]
    Background(#[from] BackgroundError),
    /// Adapters of hosts that do not understand each other.
    #[error("the adapters of some hosts do not understand those of others: {0}")]
    Adapters(&'static str),
    /// Processes are numbered by 32 bits.
    #[error("hosts times processes exceed 2^32; use fewer processes a host")]
    TooManyProcesses,
    /// The list of messages is for another cluster.
    #[error(
        "the list of messages is for {} hosts of {} processes; the cluster has {} of {}",
        list.0, list.1, cluster.0, cluster.1
    )]
    ListedForOthers {
        /// Hosts, and processes on each, that the list is for.
        list: (u32, u32),
        /// Those of the cluster.
        cluster: (u32, u32),
    },
    /// An application is placed on another cluster.
    #[error(
        "the application is placed on {} hosts of {} processes; the cluster has {} of {}",
        made_for.0, made_for.1, cluster.0, cluster.1
    )]
    PlacedOnAnother {
        /// Hosts, and processes on each, that it is placed on.
        made_for: (u32, u32),
        /// Those of the cluster.
        cluster: (u32, u32),
    },
    /// The configuration's sizes leave out messages of its list.
    #[error(
        "the list has messages of {} to {} bytes, the sizes say {} to {}; use `TrafficConfig::listed`",
        list.0, list.1, sizes.0, sizes.1
    )]
    ListedSizes {
        /// Smallest and largest message of the list, bytes.
        list: (u32, u32),
        /// What the configuration says.
        sizes: (u32, u32),
    },
    /// The network has no place for each adapter.
    #[error(
        "a network with places for {places} adapters cannot be shared out to hosts of {count} \
         (1 to {ADAPTERS_MAX}): it takes a multiple of that"
    )]
    Places {
        /// Adapters of each host.
        count: u32,
        /// Places of the network, its hosts.
        places: u32,
    },
    /// Adapters on one bus that are not alike.
    #[error("the adapters of host {host} share a bus and are not alike: give each its own")]
    UnlikeAdapters {
        /// Which host, numbered with all of its adapters as one.
        host: u32,
    },
    /// An application for hosts of other adapters.
    #[error("the application was made for hosts of other adapters than the cluster has")]
    AdaptersOfOthers,
    /// Processors beyond those that are told apart.
    #[error("a host has 1 to {PROCESSORS_MAX} processors")]
    Processors,
    /// Adapters chosen by operations that are not there.
    #[error("drawn messages and those of a list take one adapter, and name none")]
    NoOperations,
    /// Remote reads at unreliable delivery.
    #[error("VIA has no remote reads at unreliable delivery; use one of the reliable levels")]
    UnreliableReads,
    /// Messages to be answered of which their receivers do not hear.
    #[error("nobody hears of a remote write without immediate data or a remote read, to answer it")]
    NoAnswers,
    /// Drawn traffic or a list on interfaces with endpoints.
    #[error(
        "interfaces with endpoints carry out graphs of operations: collectives, programs, traces"
    )]
    NoGraph,
    /// What only adapters do, asked of interfaces with endpoints.
    #[error("hosts whose interfaces have endpoints have no adapters for this")]
    NoAdapters,
    /// Interfaces of another kind cannot do what is asked.
    #[error("{0}")]
    Interfaces(String),
}
