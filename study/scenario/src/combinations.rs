//! Which combinations of workload, adapter, level and fault are refused, and why: one table.
//!
//! Any workload runs on any host with any adapter over any network, at any level, with any fault,
//! but for what stands here, which would have no meaning. Readers of studies and presets refuse
//! with these words, so that `viaduct check` and `viaduct run` print them, and the matrix test
//! (`tests/matrix`) leaves out these combinations and no others: it runs all the rest.

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::workload::MessageOperation;
use viaduct_hardware::{ByHost, HostModel};
use viaduct_provider::via::ReliabilityLevel;

use crate::schema::MechanismKind;

/// What puts messages on the adapters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Workload {
    /// A study's own messages, drawn or from a list.
    Traffic,
    /// Programs that use VIs.
    Programs,
    /// Programs that use endpoints of Active Messages: on interfaces that have such, or over VIs.
    Endpoints,
}

/// What disturbs the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disturbance {
    /// Links that are down.
    LinkDown,
    /// Links that lose frames.
    Loss,
    /// Links that corrupt frames.
    Corruption,
    /// An adapter that dies, and not its host.
    NicDies,
    /// A host that dies.
    HostDies,
    /// A processor that is slow.
    SlowHost,
    /// Traffic of others.
    Background,
}

/// What is put together. Every topology carries every combination, at every level of the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Combination {
    /// Who sends.
    pub workload: Workload,
    /// How adapters carry messages.
    pub adapter: MechanismKind,
    /// What the messages are.
    pub operation: MessageOperation,
    /// Whether each message of a study's own is answered by one of its kind.
    pub is_answered: bool,
    /// The level that is asked for; none where nobody asks.
    pub level: Option<ReliabilityLevel>,
    /// What disturbs it, if anything.
    pub disturbance: Option<Disturbance>,
    /// Which hosts there are.
    pub hosts: HostsKind,
}

/// Which hosts are put together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostsKind {
    /// All are alike.
    Alike,
    /// They differ in what each end of a message may have for itself.
    Groups,
    /// Each has several adapters.
    Adapters,
    /// Their adapters do not understand each other: [`viaduct_hardware::Mechanism::differs_from`]
    /// says why.
    Strangers,
}

impl HostsKind {
    /// That of hosts whose adapters understand each other.
    #[must_use]
    pub fn of(hosts: &ByHost<HostModel>, adapters: Adapters) -> Self {
        match hosts.are_alike() {
            _ if adapters.count > 1 => Self::Adapters,
            true => Self::Alike,
            false => Self::Groups,
        }
    }
}

/// Why some combinations are refused.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Why.
    pub reason: &'static str,
    /// What to do instead.
    pub help: &'static str,
    refuses: fn(&Combination) -> bool,
}

impl Refusal {
    /// Interfaces with endpoints, of which something is asked that VIs have.
    pub const NO_VIS: Self = Self {
        reason: "interfaces with endpoints have no VIs",
        help: "they carry out collectives, parallel programs and graphs of files: see \
               traffic.arrivals; viaduct measure logp, bulk, contention and timesharing are for \
               them, too",
        refuses: |it| it.workload != Workload::Endpoints && it.adapter == MechanismKind::Endpoints,
    };

    /// A level of reliability for endpoints.
    pub const OWN_TRANSPORT: Self = Self {
        reason: "endpoints have a transport of their own, which delivers each message once or \
                 gives it back: the levels of reliability are those of VIs",
        help: "leave the level out",
        refuses: |it| it.workload == Workload::Endpoints && it.level.is_some(),
    };

    /// Remote memory of endpoints.
    pub const OWN_MESSAGES: Self = Self {
        reason: "endpoints have requests and replies of their own: remote writes and reads are \
                 those of VIs",
        help: "leave the operation out",
        refuses: |it| it.workload == Workload::Endpoints && it.operation != MessageOperation::Send,
    };

    /// Remote reads at unreliable delivery.
    pub const UNRELIABLE_READS: Self = Self {
        reason: "VIA has no remote reads at unreliable delivery",
        help: "set traffic.reliability to \"reliable-delivery\" or \"reliable-reception\"",
        refuses: |it| {
            it.operation == MessageOperation::Read && it.level == Some(ReliabilityLevel::Unreliable)
        },
    };

    /// Answers to what nobody hears of.
    pub const NO_ANSWERS: Self = Self {
        reason: "nobody at the target hears of a remote write without immediate data, or of a \
                 remote read, to answer it",
        help: "set traffic.operation to \"send\" or \"write-with-immediate\", or traffic.arrivals \
               to \"open\" or \"window\"",
        refuses: |it| it.is_answered && !it.operation.is_heard(),
    };

    /// Hosts of which some cannot take what others send.
    pub const STRANGERS: Self = Self {
        reason: "the adapters of some hosts do not understand those of others",
        help: "name presets of one mechanism for all hosts: viaduct models shows each one's; what \
               the two ends of a message must agree on (queues, packets, frames) is the same in all",
        refuses: |it| it.hosts == HostsKind::Strangers,
    };

    /// Interfaces with endpoints that differ.
    pub const ALIKE_INTERFACES: Self = Self {
        reason: "hosts of interfaces with endpoints are all alike",
        help: "leave [[host_group]] out of the study",
        refuses: |it| it.adapter == MechanismKind::Endpoints && it.hosts == HostsKind::Groups,
    };

    /// Endpoints on hosts of several adapters.
    pub const ONE_ADAPTER: Self = Self {
        reason: "endpoints find one interface at their host",
        help: "leave hosts.adapters out: on the topology \"rail\" each interface of a server is a \
               host of its own for them",
        refuses: |it| it.workload == Workload::Endpoints && it.hosts == HostsKind::Adapters,
    };

    /// The table.
    pub const ALL: [Self; 8] = [
        Self::NO_VIS,
        Self::OWN_TRANSPORT,
        Self::OWN_MESSAGES,
        Self::UNRELIABLE_READS,
        Self::NO_ANSWERS,
        Self::STRANGERS,
        Self::ALIKE_INTERFACES,
        Self::ONE_ADAPTER,
    ];

    /// Why a combination is refused; none if it runs.
    #[must_use]
    pub fn of(combination: &Combination) -> Option<&'static Self> {
        const TABLE: &[Refusal] = &Refusal::ALL;
        TABLE.iter().find(|refusal| (refusal.refuses)(combination))
    }
}
