//! The summary of one run: the object that `--json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::{
    ApplicationResult, Ended, InterfaceCounts, Latency, RankRow, ResourceUse, RunResult,
    SteadyState,
};
use viaduct_cluster::workload::help_of_application;
use viaduct_engine::Time;
use viaduct_network::Sharing;
use viaduct_operations::collective::{Collective, Request};
use viaduct_operations::jobs::ranks_of_jobs;
use viaduct_topology::LinkClass;

use crate::OrderedMap;
use crate::flow::Flow;

/// What is known of a run beside its configuration and result.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// Name of the study or of the scenario file.
    pub study: String,
    /// Version of the program.
    pub version: String,
    /// Wall clock of the run, seconds.
    pub wall_s: f64,
    /// Most memory the process has held so far, bytes, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// One run in plain numbers; `docs/output.md` says what each field means.
///
/// Floats are rounded to nine significant digits, so that equal runs print equal text.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the study or of the scenario file.
    pub study: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// Hash of every message and the final counts, 16 hexadecimal digits.
    pub digest: String,
    /// Hosts.
    pub hosts: u64,
    /// Switches.
    pub switches: u64,
    /// How the network was computed, a word of `links.model`; empty in summaries of programs that
    /// did not tell.
    #[serde(default)]
    pub level: String,
    /// Simulated time at the end, seconds.
    pub simulated_s: f64,
    /// Messages posted earlier are not in the statistics, seconds.
    pub warmup_s: f64,
    /// Why the run ended: `finished`, `message_count`, `event_count`, `interrupted`, `deadlock`,
    /// `stalled`.
    pub ended: String,
    /// Whether the measured part was steady.
    pub steady_state: SteadySummary,
    /// Messages of the whole run.
    pub messages: Counts,
    /// Latency of messages posted after warm-up, microseconds.
    pub latency_us: LatencySummary,
    /// Mean time in each stage, microseconds, in the order in which a message meets them.
    pub breakdown_us: OrderedMap<f64>,
    /// Links by class: `mesh`, `host_up`, `host_down`, `tree_up`, `tree_down`; those there are.
    pub links: OrderedMap<Usage>,
    /// The hosts' buses.
    pub buses: Usage,
    /// Messages lost, by cause; `no_descriptor` is always there.
    pub drops: BTreeMap<String, u64>,
    /// Whether messages found no receive descriptor although the study does not say how many
    /// there are.
    #[serde(default)]
    pub drops_unasked: bool,
    /// What queues of links did with frames, where these go one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameCounts>,
    /// Deepest queues, by what queues.
    pub queue_depths: Vec<QueueDepthSummary>,
    /// Payload delivered after warm-up, bytes.
    pub delivered_bytes: u64,
    /// Posted a second of simulated time between warm-up and end of traffic, by all processes;
    /// none of a run that is too short to tell.
    #[serde(default)]
    pub offered_messages_per_s: Option<f64>,
    /// Delivered or dropped a second in the same time.
    #[serde(default)]
    pub carried_messages_per_s: Option<f64>,
    /// Whether more was offered than carried, so that latency grows with the length of the run.
    #[serde(default)]
    pub is_unstable: bool,
    /// Events handled.
    pub events: u64,
    /// Most events pending at once.
    pub events_pending_max: u64,
    /// Wall clock, seconds.
    pub wall_s: f64,
    /// Events a wall-clock second.
    pub events_per_s: f64,
    /// Messages delivered a wall-clock second.
    pub messages_per_wall_s: f64,
    /// Most memory the process has held, bytes; none where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// Simulator state, bytes, by the simulator's own count.
    pub state_bytes: u64,
    /// The result of a graph of operations, if the hosts carried one out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationSummary>,
    /// What happened on interfaces with endpoints, if hosts have such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<InterfaceSummary>,
    /// What the user should know.
    pub warnings: Vec<WarningSummary>,
    /// Checks of the run on itself that failed.
    pub violations: Vec<String>,
}

/// Messages: posted = delivered + dropped + in flight.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Given to a VI by an application.
    pub posted: u64,
    /// Completed at the receiver.
    pub delivered: u64,
    /// Lost.
    pub dropped: u64,
    /// Under way at the end.
    pub in_flight: u64,
}

/// The distribution of latency, microseconds; all but `count` absent if nothing was measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Messages measured.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Half width of the mean's 95 % confidence interval; none if the run was too short.
    pub ci95: Option<f64>,
    /// Why there is no interval, if there is none.
    #[serde(default)]
    pub no_interval: Option<String>,
    /// Standard deviation of one message.
    pub sd: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90 % are at most this.
    pub p90: Option<f64>,
    /// 99 % are at most this.
    pub p99: Option<f64>,
    /// 99.9 % are at most this.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// No message of the smallest size over the shortest path can be faster.
    pub floor: Option<f64>,
}

/// How busy a set of servers was between warm-up and end.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Servers.
    pub count: u64,
    /// Mean of carried over possible, 0 to 1.
    pub utilisation_mean: f64,
    /// The busiest one's.
    pub utilisation_max: f64,
}

/// Whether the measured part of a run was steady.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SteadySummary {
    /// `steady`, `transient`, `overloaded`, or `unknown` for too short a run.
    pub state: String,
    /// A warm-up that would do, seconds, where the given one is too short and another would do.
    pub warmup_needed_s: Option<f64>,
}

/// What the queues of all links did with frames in the whole run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct FrameCounts {
    /// Frames that found a queue full, and were lost.
    pub lost: u64,
    /// Frames that did, and were cut to their headers.
    #[serde(default)]
    pub trimmed: u64,
    /// Frames that were marked.
    pub marked: u64,
    /// How often links were told to pause.
    #[serde(default)]
    pub pauses: u64,
    /// For how long they did, the times of all links added up.
    #[serde(default)]
    pub paused_ps: u64,
}

impl FrameCounts {
    fn of(config: &ClusterConfig, result: &RunResult) -> Option<Self> {
        let rows = &result.link_rows;
        (config.links.sharing == Sharing::Packets).then(|| Self {
            lost: rows.iter().map(|row| row.frames_lost).sum(),
            trimmed: rows.iter().map(|row| row.frames_trimmed).sum(),
            marked: rows.iter().map(|row| row.frames_marked).sum(),
            pauses: rows.iter().map(|row| row.pauses).sum(),
            paused_ps: rows.iter().map(|row| row.paused.picoseconds()).sum(),
        })
    }
}

/// The result of a graph of operations.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ApplicationSummary {
    /// From the start of the traffic to the end of the last operation, microseconds. None where
    /// some have not ended: then nobody knows.
    pub makespan_us: Option<f64>,
    /// Ranks.
    pub ranks: u64,
    /// Operations.
    pub operations: u64,
    /// Of these, such that have ended.
    pub operations_ended: u64,
    /// Messages between ranks of one host.
    pub local_messages: u64,
    /// Where the time of the ranks went, microseconds.
    pub computing_us: RankSpread,
    /// Their hosts' processors worked for their messages.
    pub messaging_us: RankSpread,
    /// Their processors did neither, up to the end of their last operation.
    pub waiting_us: RankSpread,
    /// How long all ranks together waited for one.
    #[serde(default)]
    pub waited_for_us: RankSpread,
    /// Of a collective with bytes: how fast it was, if it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<CollectiveSummary>,
    /// Where ranks are of several jobs, between which no message goes, and all have ended: each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
}

/// How often what happened on interfaces with endpoints, and on the processors beside them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct InterfaceSummary {
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

impl From<InterfaceCounts> for InterfaceSummary {
    fn from(counts: InterfaceCounts) -> Self {
        Self {
            remaps: counts.remaps,
            refusals: counts.refusals,
            retransmissions: counts.retransmissions,
            switches: counts.switches,
            blocks: counts.blocks,
        }
    }
}

/// Most jobs of a run that are told of.
const JOBS_MAX: usize = 20;

/// Ranks that send messages to each other, and to nobody else.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct JobSummary {
    /// The first of them.
    pub first_rank: u32,
    /// How many they are.
    pub ranks: u64,
    /// From the start of the traffic to the end of their last operation, microseconds.
    pub makespan_us: f64,
}

/// Ranks beside each other.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RankSpread {
    /// Of all ranks.
    pub mean: f64,
    /// Of the rank that has most.
    pub max: f64,
    /// The first such rank.
    pub max_rank: u32,
}

/// How fast a collective was.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CollectiveSummary {
    /// What: `all-reduce`.
    pub name: String,
    /// How: `ring`.
    pub algorithm: String,
    /// The vector, bytes.
    pub bytes: u64,
    /// Bytes over time, GB/s.
    pub bytes_over_time_gb_per_s: f64,
    /// What each rank's link had to carry at least over time, as NCCL's tests count it, GB/s.
    pub bus_bandwidth_gb_per_s: f64,
}

impl ApplicationSummary {
    fn of(config: &ClusterConfig, result: &ApplicationResult) -> Self {
        let spread = |of: fn(&RankRow) -> Time| {
            let mut spread = RankSpread::default();
            let mut sum = 0.0;
            for row in &result.ranks {
                let span = of(row).microseconds_f64();
                sum += span;
                if span > spread.max {
                    (spread.max, spread.max_rank) = (span, row.rank);
                }
            }
            let count = result.ranks.len().max(1) as f64;
            (spread.mean, spread.max) = (tidy(sum / count), tidy(spread.max));
            spread
        };
        let makespan_us = result.makespan.microseconds_f64();
        let request = config.traffic.application().and_then(|it| it.request());
        let collective = |request: &Request| {
            let rate = request.bytes as f64 / (makespan_us * 1e3);
            let factor = request.collective.bus_factor(request.ranks);
            CollectiveSummary {
                name: request.collective.name().to_owned(),
                algorithm: request.algorithm.name().to_owned(),
                bytes: request.bytes,
                bytes_over_time_gb_per_s: tidy(rate),
                bus_bandwidth_gb_per_s: tidy(rate * factor),
            }
        };
        let jobs = config.traffic.application();
        let jobs = jobs.map_or(Vec::new(), |it| ranks_of_jobs(it.graph()));
        let job = |ranks: Vec<u32>| {
            let spans = ranks.iter().filter_map(|rank| {
                let row = result.ranks.get(*rank as usize)?;
                Some(row.span)
            });
            JobSummary {
                first_rank: ranks.first().copied().unwrap_or_default(),
                ranks: ranks.len() as u64,
                makespan_us: tidy(spans.max().unwrap_or_default().microseconds_f64()),
            }
        };
        let has_ended = result.ended == result.operations;
        let has_rate = |request: &&Request| {
            has_ended && request.collective != Collective::Barrier && result.makespan > Time::ZERO
        };
        Self {
            makespan_us: has_ended.then(|| tidy(makespan_us)),
            ranks: result.ranks.len() as u64,
            operations: result.operations,
            operations_ended: result.ended,
            local_messages: result.local_messages,
            computing_us: spread(|row| row.computing),
            messaging_us: spread(|row| row.messaging),
            waiting_us: spread(|row| row.waiting),
            waited_for_us: spread(|row| row.waited_for),
            collective: request.filter(has_rate).map(collective),
            jobs: match jobs.len() {
                2..=JOBS_MAX if has_ended => jobs.into_iter().map(job).collect(),
                _ => Vec::new(),
            },
        }
    }
}

/// The deepest that queues of one kind became.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct QueueDepthSummary {
    /// What queues there.
    pub queue: String,
    /// Deepest.
    pub depth_max: u64,
    /// Number of the host or link.
    pub place: u32,
}

/// Something that the user should know.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WarningSummary {
    /// What happened.
    pub text: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Summary {
    /// From the start of the traffic to the end of the last operation of its application.
    pub(crate) fn makespan_us(&self) -> Option<f64> {
        self.application.as_ref()?.makespan_us
    }

    /// Gathers one run.
    #[must_use]
    pub fn new(provenance: &Provenance, config: &ClusterConfig, result: &RunResult) -> Self {
        let per_wall_second = |count: u64| match provenance.wall_s {
            wall_s if wall_s > 0.0 => tidy(count as f64 / wall_s),
            _ => 0.0,
        };
        let mut drops = BTreeMap::from([("no_descriptor".to_owned(), 0)]);
        for row in &result.drops {
            *drops.entry(row.cause.to_owned()).or_default() += row.count;
        }
        let flow = Flow::of(config, result);
        let steady_state = SteadySummary::new(result.steady);
        Self {
            study: provenance.study.clone(),
            seed: config.run.seed,
            version: provenance.version.clone(),
            digest: format!("{:016x}", result.digest),
            hosts: u64::from(config.host_count()),
            switches: u64::from(config.topology.switch_count()),
            level: match &config.interfaces {
                Some(interfaces) => interfaces.level(config),
                None => config.links.sharing.name(),
            }
            .to_owned(),
            simulated_s: seconds(result.simulated.picoseconds()),
            warmup_s: seconds(config.run.warmup.picoseconds()),
            ended: ended_word(result.ended).to_owned(),
            is_unstable: steady_state.state == "overloaded" || flow.grows(),
            steady_state,
            messages: Counts {
                posted: result.messages.posted,
                delivered: result.messages.delivered,
                dropped: result.messages.dropped,
                in_flight: result.messages.in_flight,
            },
            latency_us: result
                .latency
                .as_ref()
                .map(LatencySummary::new)
                .unwrap_or_default(),
            breakdown_us: result
                .breakdown
                .iter()
                .map(|share| (share.stage.to_owned(), tidy(share.mean_us)))
                .collect(),
            links: result
                .links
                .iter()
                .filter(|class| class.usage.count > 0)
                .map(|class| (class_word(class.class).to_owned(), Usage::new(class.usage)))
                .collect(),
            buses: Usage::new(result.buses),
            drops,
            drops_unasked: result.has_unasked_drops,
            frames: FrameCounts::of(config, result),
            queue_depths: result
                .depths
                .iter()
                .map(|depth| QueueDepthSummary {
                    queue: depth.queue.to_owned(),
                    depth_max: depth.depth_max,
                    place: depth.place,
                })
                .collect(),
            delivered_bytes: result.delivered_bytes,
            offered_messages_per_s: flow.per_second(flow.posted),
            carried_messages_per_s: flow.per_second(flow.left),
            events: result.events,
            events_pending_max: result.events_pending_max,
            wall_s: tidy(provenance.wall_s),
            events_per_s: per_wall_second(result.events),
            messages_per_wall_s: per_wall_second(result.messages.delivered),
            peak_rss_bytes: provenance.peak_rss_bytes,
            state_bytes: result.state_bytes,
            application: result
                .application
                .as_ref()
                .map(|application| ApplicationSummary::of(config, application)),
            interfaces: result.interfaces.map(InterfaceSummary::from),
            warnings: result
                .warnings
                .iter()
                .map(|warning| WarningSummary {
                    text: warning.text.clone(),
                    help: warning.help.clone(),
                })
                .collect(),
            violations: result.violations.clone(),
        }
    }

    /// Share of the posted messages that was lost, 0 to 1.
    #[must_use]
    pub fn dropped_fraction(&self) -> f64 {
        match self.messages.posted {
            0 => 0.0,
            posted => tidy(self.messages.dropped as f64 / posted as f64),
        }
    }

    /// Whether there is a mean, and no interval for it though nothing else is said to be wrong.
    pub(crate) fn is_too_short(&self) -> bool {
        let latency = &self.latency_us;
        let is_told = matches!(self.steady_state.state.as_str(), "transient" | "overloaded");
        // What an application sends is no sample of anything.
        let is_sample = self.application.is_none();
        latency.mean.is_some() && latency.ci95.is_none() && !is_told && is_sample
    }

    /// Whether the user stopped the run before its end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.ended == "interrupted"
    }

    /// The class of links that has the busiest link.
    pub(crate) fn busiest_links(&self) -> Option<&Usage> {
        self.links
            .values()
            .reduce(|a, b| match a.utilisation_max >= b.utilisation_max {
                true => a,
                false => b,
            })
    }

    /// The number at a path such as `latency_us.mean` or `links.mesh.utilisation_mean`, the
    /// names by which published figures are given; `dropped_fraction` is one of them.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<f64> {
        if path == "dropped_fraction" {
            return Some(self.dropped_fraction());
        }
        let value = serde_json::to_value(self).ok()?;
        value
            .pointer(&format!("/{}", path.replace('.', "/")))?
            .as_f64()
    }
}

impl Summary {
    /// What is said of one of its violations, and what helps.
    #[must_use]
    pub fn told(&self, violation: &str) -> (String, &'static str) {
        violation_words(violation, self.standstill().is_some())
    }

    /// The word for how it came to a standstill, if it did.
    pub(crate) fn standstill(&self) -> Option<&'static str> {
        let words = [Ended::Deadlock, Ended::Stalled].map(ended_word);
        words.into_iter().find(|word| self.ended == *word)
    }
}

/// What is said of a violation of a run that came to a standstill or did not, and what helps.
#[must_use]
pub fn violation_words(violation: &str, is_standstill: bool) -> (String, &'static str) {
    if is_standstill {
        let help = "the run ended there; what it measured is of the time before";
        return (violation.to_owned(), help);
    }
    if let Some(help) = help_of_application(violation) {
        return (violation.to_owned(), help);
    }
    (
        format!("a check of the run on itself failed: {violation}"),
        "do not use these results; this is an error in the program, please report it",
    )
}

impl LatencySummary {
    fn new(latency: &Latency) -> Self {
        let quantile = |quantile: f64| quantile_us(latency, quantile).map(tidy);
        Self {
            count: latency.count,
            mean: Some(tidy(latency.mean_us.mean)),
            ci95: latency.mean_us.ci95.map(tidy),
            no_interval: latency.no_interval.map(|reason| reason.to_string()),
            sd: Some(tidy(latency.sd_us)),
            min: Some(tidy(latency.min_us)),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: Some(tidy(latency.max_us)),
            floor: Some(tidy(latency.floor_us)),
        }
    }
}

impl Usage {
    fn new(usage: ResourceUse) -> Self {
        Self {
            count: usage.count,
            utilisation_mean: tidy(usage.utilisation_mean),
            utilisation_max: tidy(usage.utilisation_max),
        }
    }
}

impl SteadySummary {
    fn new(steady: SteadyState) -> Self {
        let (state, warmup_needed_s) = match steady {
            SteadyState::Unknown => ("unknown", None),
            SteadyState::Steady => ("steady", None),
            SteadyState::Drifting { .. } => ("transient", None),
            SteadyState::Transient {
                overloaded: true, ..
            } => ("overloaded", None),
            SteadyState::Transient {
                warmup_needed,
                overloaded: false,
            } => ("transient", Some(seconds(warmup_needed.picoseconds()))),
        };
        Self {
            state: state.to_owned(),
            warmup_needed_s,
        }
    }
}

/// A quantile of the latency, microseconds; the histogram counts picoseconds.
pub(crate) fn quantile_us(latency: &Latency, quantile: f64) -> Option<f64> {
    latency
        .quantiles_ps
        .value_at(quantile)
        .map(|picoseconds| picoseconds as f64 / 1e6)
}

/// The word of a link class in files.
pub(crate) fn class_word(class: LinkClass) -> &'static str {
    match class {
        LinkClass::Mesh => "mesh",
        LinkClass::HostUp => "host_up",
        LinkClass::HostDown => "host_down",
        LinkClass::TreeUp => "tree_up",
        LinkClass::TreeDown => "tree_down",
    }
}

fn ended_word(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::MessageCount => "message_count",
        Ended::EventCount => "event_count",
        Ended::Interrupted => "interrupted",
        Ended::Deadlock => "deadlock",
        Ended::Stalled => "stalled",
    }
}

/// Picoseconds in seconds, correctly rounded.
pub(crate) fn seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 / 1e12
}

/// Rounded to nine significant digits: what was measured is not more exact, and 0.1225 reads
/// better than 0.12249999999999998.
pub(crate) fn tidy(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}
