//! Interfaces of another kind than the adapters here, which carry out graphs of operations.
//!
//! A configuration that has such [`Interfaces`] is run by them. What ranks do, what matches what,
//! and where their time went are the cluster's own [`Operations`]; how messages move, and what
//! processors spend on them, are theirs. A run of theirs is told as any other.

use core::fmt;
use core::ops::ControlFlow;
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_hardware::STAGES;
use viaduct_statistics::{Estimate, Moments as Distribution, Quantiles};
use viaduct_topology::LinkId;

use crate::cluster::Progress;
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::operations::{Moments, Operations};
use crate::result::{
    Ended, InterfaceCounts, Latency, LinkRow, MessageCounts, QueueDepth, ResourceUse, RunResult,
    SteadyState,
};
use crate::run::{classes, stage_shares};
pub use crate::why::{AloneParts, Journey, Request};

/// Whoever carries out graphs of operations on hosts of another kind.
pub trait Interfaces: fmt::Debug + Send + Sync {
    /// How packets share links there, in a word.
    fn level(&self, config: &ClusterConfig) -> &'static str;

    /// Whether they can do what a configuration asks.
    ///
    /// # Errors
    ///
    /// What they cannot do, and what helps.
    fn check(&self, config: &ClusterConfig) -> Result<(), Refused>;

    /// Carries out the operations of a configuration that passes [`Interfaces::check`]. `control`
    /// is called as by [`crate::run()`].
    ///
    /// # Errors
    ///
    /// [`RunError`] if it cannot begin.
    fn carry_out(
        &self,
        config: &ClusterConfig,
        operations: Box<Operations>,
        control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Box<Operations>, Carried), RunError>;
}

/// What interfaces cannot do.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What asks it of them.
    pub asked: Asked,
    /// Why they cannot.
    pub reason: String,
    /// What to do instead, if anything is known to help.
    pub help: Option<String>,
}

impl Refused {
    /// What cannot be done, why, and what helps.
    pub fn new(asked: Asked, reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            asked,
            reason: reason.into(),
            help: Some(help.into()),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)?;
        self.help
            .iter()
            .try_for_each(|help| write!(formatter, ": {help}"))
    }
}

/// Which part of a configuration asks something of interfaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// How long the turns of ranks on one processor are.
    Turns,
    /// Processors of a host.
    Processors,
    /// Processes of a host.
    Processes,
    /// Other devices on the bus.
    BusLoad,
    /// How endpoints come into frames.
    Remap,
    /// How many frames an interface has.
    Frames,
    /// That the interface's own network loses packets.
    Loss,
    /// How fast the interface's processor is.
    Clock,
    /// After how long an answer is overdue.
    TimeOut,
    /// The interfaces as a whole.
    Interfaces,
}

/// What interfaces tell of a run.
#[derive(Clone, Debug)]
pub struct Carried {
    /// When it ended.
    pub end: Time,
    /// Why: what has not ended is seen by the operations.
    pub ended: Ended,
    /// Whether nothing could happen any more, or all operations had ended.
    pub is_over: bool,
    /// Requests that ranks posted, and that others took.
    pub messages: MessageCounts,
    /// Payload of those taken, bytes.
    pub delivered_bytes: u64,
    /// How long they took.
    pub times: MessageTimes,
    /// Directed links that carried anything: bytes, and for how long they were busy.
    pub links: Vec<(LinkId, u64, Time)>,
    /// Events handled.
    pub events: u64,
    /// Memory, bytes, beside that of the operations.
    pub state_bytes: u64,
    /// A hash over what was taken, and when.
    pub digest: u64,
    /// What happened on interfaces.
    pub counts: InterfaceCounts,
}

/// How long messages took, of those that were posted after the warm-up: from when a processor began
/// to post one until another had taken it.
#[derive(Clone, Debug)]
pub struct MessageTimes {
    warmup: Time,
    us: Distribution,
    ps: Quantiles,
    stages: [u64; STAGES],
    floor: Time,
}

impl MessageTimes {
    /// Of none so far.
    #[must_use]
    pub fn new(warmup: Time) -> Self {
        Self {
            warmup,
            us: Distribution::default(),
            ps: Quantiles::default(),
            stages: [0; STAGES],
            floor: Time::MAX,
        }
    }

    /// One was taken, which takes `floor` at least.
    pub fn record(&mut self, moments: &Moments, floor: Time) {
        if moments.post < self.warmup {
            return;
        }
        let latency = moments.taken.saturating_sub(moments.post);
        self.us.record(latency.microseconds_f64());
        self.ps.record(latency.picoseconds());
        for (sum, span) in self.stages.iter_mut().zip(moments.stages(moments.post)) {
            *sum += span;
        }
        self.floor = self.floor.min(floor);
    }

    /// Without an interval: the messages of a graph are not drawn.
    fn latency(&self) -> Option<Latency> {
        Some(Latency {
            count: self.us.count(),
            mean_us: Estimate {
                mean: self.us.mean()?,
                ci95: None,
            },
            no_interval: None,
            sd_us: self.us.standard_deviation().unwrap_or(0.0),
            min_us: self.us.min()?,
            max_us: self.us.max()?,
            quantiles_ps: self.ps.clone(),
            floor_us: self.floor.microseconds_f64(),
        })
    }
}

/// Carries out the operations of a configuration, which `keep` has keep what is asked for.
pub(crate) fn run(
    interfaces: &dyn Interfaces,
    config: &ClusterConfig,
    keep: impl FnOnce(&mut Operations),
    control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Box<Operations>, RunResult), RunError> {
    let checked = interfaces.check(config);
    checked.map_err(|refused| RunError::Interfaces(refused.to_string()))?;
    let Some(mut operations) = Operations::of(config) else {
        return Err(RunError::NoGraph);
    };
    keep(&mut operations);
    let (operations, carried) = interfaces.carry_out(config, operations, control)?;
    let result = result(config, &operations, carried);
    Ok((operations, result))
}

fn result(config: &ClusterConfig, operations: &Operations, carried: Carried) -> RunResult {
    let link_rows = link_rows(config, &carried);
    let application = operations.result(config.traffic.start, carried.is_over);
    let lost = carried.messages.dropped;
    let source = operations.application().shown();
    let ended = match (&application.stalled, carried.ended) {
        (Some(_), Ended::Finished) => Ended::Stalled,
        (_, ended) => ended,
    };
    RunResult {
        digest: carried.digest,
        simulated: carried.end,
        ended,
        messages: carried.messages,
        around: MessageCounts::default(),
        latency: carried.times.latency(),
        breakdown: stage_shares(carried.times.stages, carried.times.us.count()),
        links: classes(&link_rows),
        link_rows,
        topology: Arc::clone(&config.topology),
        adapters: 1,
        buses: ResourceUse::default(),
        drops: Vec::new(),
        has_unasked_drops: false,
        depths: Vec::<QueueDepth>::new(),
        series: Vec::new(),
        queues: Vec::new(),
        message_rows: Vec::new(),
        message_stride: 1,
        steady: SteadyState::Unknown,
        delivered_bytes: carried.delivered_bytes,
        events: carried.events,
        events_pending_max: 0,
        state_bytes: carried.state_bytes + operations.state_bytes() as u64,
        violations: application.violations(&source, lost, |_| false).collect(),
        warnings: Vec::from_iter(application.warnings(carried.ended)),
        application: Some(application),
        interfaces: Some(carried.counts),
    }
}

fn link_rows(config: &ClusterConfig, carried: &Carried) -> Vec<LinkRow> {
    let topology = &config.topology;
    let all = 0..topology.link_count();
    let row = |link: u32| LinkRow::unused(link, topology.link_class(LinkId(link)));
    let mut rows: Vec<LinkRow> = all.map(row).collect();
    let span = carried.end.picoseconds().max(1) as f64;
    for (link, bytes, busy) in &carried.links {
        if let Some(row) = rows.get_mut(link.0 as usize) {
            row.wire_bytes = *bytes as f64;
            row.utilisation = busy.picoseconds() as f64 / span;
        }
    }
    rows
}
