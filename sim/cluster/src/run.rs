//! A run from configuration to result, and the checks that it makes on itself.

use core::ops::ControlFlow;
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_statistics::{Estimate, Steadiness, is_growing};
use viaduct_topology::{LinkClass, LinkId};

use crate::cluster::{Cluster, Progress};
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::faults::Fault;
use crate::host::{AlignedNic, Buffers, Engines, Processor};
use crate::interfaces;
use crate::interval::{Measured, half_width};
use crate::levels;
use crate::programs::Programs;
use crate::result::{
    Ended, Latency, LinkClassUse, LinkRow, QueueDepth, ResourceUse, RunResult, StageShare,
    SteadyState, TooShort, Warning,
};
use viaduct_hardware::{STAGES, Stage};
use viaduct_network::fluid::ResourceId;

/// A link may carry this much more than its rate before a run says that its model broke: rounding.
const RATE_TOLERANCE: f64 = 1e-6;

/// What links and buses carried up to a moment.
#[derive(Debug, Default)]
pub(crate) struct ClosedUse {
    end: Time,
    links: Vec<LinkRow>,
    buses: ResourceUse,
}

/// Simulates a cluster.
///
/// `control` is called every 65,536 events; when it breaks, the run ends with what there is.
///
/// # Errors
/// [`RunError`] if the configuration cannot be run.
pub fn run(
    config: &ClusterConfig,
    control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunResult, RunError> {
    if let Some(interfaces) = &config.interfaces {
        let (_, result) = interfaces::run(&**interfaces, config, |_| {}, control)?;
        return Ok(result);
    }
    let mut cluster = Cluster::new(config)?;
    let ended = cluster.run(control);
    Ok(cluster.result(ended))
}

impl<P: Programs> Cluster<P> {
    /// Events are to be taken until a time, which is given back. What happens in the network alone
    /// needs none, unless somebody looks at each.
    pub(crate) fn run_until(&mut self, until: Time) -> Time {
        if !P::EXIST && !self.has_growing_windows() {
            let events_max = self.config.run.events_max.unwrap_or(u64::MAX);
            self.queue.allow_spare(until, events_max);
        }
        until
    }

    /// What happened up to now, as a run tells it, and whether it was sound. To be asked once:
    /// tables are handed over.
    pub fn result(&mut self, ended: Ended) -> RunResult {
        let end = self.queue.now();
        if self.has_growing_windows() {
            self.close_windows(end);
        }
        self.close_use(end);
        let used = self.closed_use.take().unwrap_or_default();
        self.network.credit_all(end);
        self.close_window(end);
        let counts = &mut self.accounting.counts;
        counts.in_flight = counts.posted - counts.delivered - counts.dropped;
        let around = &mut self.accounting.around;
        around.in_flight = around.posted - around.delivered - around.dropped;
        let events = self.events();
        let digest = self.accounting.digest(events, end);
        let (mut link_rows, buses) = (used.links, used.buses);
        self.note_queues(&mut link_rows, end);
        let links = classes(&link_rows);
        self.check(&link_rows, buses);
        let (latency, steady) = self.latency(end);
        let no_interval = latency.as_ref().and_then(|latency| latency.no_interval);
        let mut warnings = self.warnings(steady, no_interval);
        warnings.extend(self.level_warning(&link_rows));
        let has_unasked_drops = self.has_unasked_drops();
        let application = self.application_result();
        if let Some(application) = &application {
            let source = self.config.traffic.application();
            let source = source.map_or_else(String::new, |application| application.shown());
            let lost = self.accounting.counts.dropped;
            let is_dead = |host| self.is_host_dead(host);
            let violations: Vec<_> = application.violations(&source, lost, is_dead).collect();
            self.violations.extend(violations);
            warnings.extend(application.warnings(ended));
        }
        RunResult {
            digest,
            simulated: used.end,
            ended,
            messages: self.accounting.counts,
            around: self.accounting.around,
            breakdown: self.breakdown(),
            latency,
            links,
            link_rows,
            topology: Arc::clone(&self.config.topology),
            adapters: self.config.hosts.adapters.count,
            buses,
            drops: self.accounting.drops(),
            depths: self.depths(),
            message_stride: self.accounting.row_stride,
            steady,
            delivered_bytes: self.accounting.delivered_bytes,
            events,
            events_pending_max: self.queue.pending_max() as u64,
            state_bytes: self.state_bytes(),
            series: core::mem::take(&mut self.series),
            queues: self.windows.take_queues(),
            message_rows: core::mem::take(&mut self.accounting.rows),
            violations: core::mem::take(&mut self.violations),
            warnings,
            has_unasked_drops,
            application,
            interfaces: None,
        }
    }

    /// The latency, and whether it was steady: only a run that is long enough for an interval,
    /// and does not seem to drift, is called so.
    fn latency(&self, end: Time) -> (Option<Latency>, SteadyState) {
        let is_chosen = self.is_chosen();
        let steady = match is_chosen {
            true => SteadyState::Unknown,
            false => self.steady(),
        };
        let moments = &self.accounting.latency_us;
        let (Some(mean), Some(min), Some(max)) = (moments.mean(), moments.min(), moments.max())
        else {
            return (None, steady);
        };
        let batches = &self.accounting.batches_us;
        let drift = batches.drift().filter(|_| !is_chosen);
        let steady = match (steady, drift) {
            (SteadyState::Steady | SteadyState::Unknown, Some(drift)) if drift.is_certain() => {
                SteadyState::Drifting {
                    first_us: drift.first,
                    last_us: drift.last,
                }
            }
            _ => steady,
        };
        let traffic = &self.config.traffic;
        let measured = Measured {
            messages: moments.count(),
            span: end
                .min(traffic.stop)
                .saturating_sub(traffic.start.max(self.config.run.warmup)),
            mean_us: mean,
            floor_us: self.accounting.floor_sum as f64 / moments.count() as f64 * 1e-6,
            half_width: batches.half_width(),
        };
        let interval = match is_chosen {
            true => Err(None),
            false => half_width(&self.config, steady, measured).map_err(Some),
        };
        let may_drift = drift.is_some_and(|drift| drift.is_likely());
        let steady = match steady {
            SteadyState::Steady if interval.is_err() || may_drift => SteadyState::Unknown,
            _ => steady,
        };
        let latency = Latency {
            count: moments.count(),
            mean_us: Estimate {
                mean,
                ci95: interval.ok(),
            },
            no_interval: interval.err().flatten(),
            sd_us: moments.standard_deviation().unwrap_or(0.0),
            min_us: min,
            max_us: max,
            quantiles_ps: self.accounting.latency_ps.clone(),
            floor_us: self
                .accounting
                .smallest_floor
                .unwrap_or(Time::ZERO)
                .microseconds_f64(),
        };
        (Some(latency), steady)
    }

    fn breakdown(&self) -> Vec<StageShare> {
        stage_shares(self.accounting.stages, self.accounting.latency_us.count())
    }

    /// Keeps what links and buses have carried from the warm-up to `end`, unless that is known.
    pub(crate) fn close_use(&mut self, end: Time) {
        if self.closed_use.is_none() {
            self.network.credit_all(end);
            self.closed_use = Some(ClosedUse {
                end,
                links: self.link_rows(end),
                buses: self.bus_use(end),
            });
        }
    }

    fn link_rows(&self, end: Time) -> Vec<LinkRow> {
        let span = end.saturating_sub(self.measured_from).picoseconds() as f64;
        (0..self.config.topology.link_count())
            .map(|link| {
                let resource = ResourceId(link);
                let wire_bytes = self.network.carried(resource);
                let possible = self.network.rate(resource) * span;
                let class = self.config.topology.link_class(LinkId(link));
                LinkRow {
                    wire_bytes,
                    utilisation: if possible > 0.0 {
                        wire_bytes / possible
                    } else {
                        0.0
                    },
                    flows_max: self.network.flows_max(resource),
                    // What queues did is of the whole run: see `note_queues`.
                    ..LinkRow::unused(link, class)
                }
            })
            .collect()
    }

    /// Tells of each link's queue what it held, lost, trimmed and marked, and how the link paused,
    /// until the very end.
    fn note_queues(&self, rows: &mut [LinkRow], end: Time) {
        for row in rows {
            let resource = ResourceId(row.link);
            let counts = self.network.queue_counts(resource, end);
            row.queue_max_bytes = self.network.queue_max_bytes(resource);
            (row.frames_lost, row.frames_marked) = (counts.lost, counts.marked);
            row.frames_trimmed = counts.trimmed;
            (row.pauses, row.paused) = (counts.pauses, counts.paused);
        }
    }

    fn bus_use(&self, end: Time) -> ResourceUse {
        let span = end.saturating_sub(self.measured_from).picoseconds() as f64;
        let count = if self.network.has_buses() {
            self.engines.len() as u32
        } else {
            0
        };
        let buses = (0..count).filter(|place| self.config.bus_at(*place) == *place);
        let use_of = |host| {
            let bus = self.network.bus(host);
            let possible = self.network.rate(bus) * span;
            if possible > 0.0 {
                self.network.carried(bus) / possible
            } else {
                0.0
            }
        };
        summarise(buses.map(use_of))
    }

    fn depths(&self) -> Vec<QueueDepth> {
        let deepest_link = (0..self.config.topology.link_count())
            .map(|link| (self.network.flows_max(ResourceId(link)), link))
            .max_by_key(|&(depth, link)| (depth, core::cmp::Reverse(link)))
            .unwrap_or_default();
        let largest_queue = (0..self.config.topology.link_count())
            .map(|link| (self.network.queue_max_bytes(ResourceId(link)), link))
            .max_by_key(|&(bytes, link)| (bytes, core::cmp::Reverse(link)));
        let largest_queue = largest_queue.filter(|(bytes, _)| *bytes > 0);
        let mut depths = vec![
            QueueDepth {
                queue: "messages waiting for a NIC",
                depth_max: self.queue_depth_max.0,
                place: self.queue_depth_max.1,
            },
            QueueDepth {
                queue: "posts waiting for a send buffer",
                depth_max: self.blocked_depth_max.0,
                place: self.blocked_depth_max.1,
            },
            QueueDepth {
                queue: "flows on a link",
                depth_max: u64::from(deepest_link.0),
                place: deepest_link.1,
            },
        ];
        depths.extend(largest_queue.map(|(bytes, link)| QueueDepth {
            queue: "bytes in the queue of a link",
            depth_max: bytes,
            place: link,
        }));
        depths
    }

    fn state_bytes(&self) -> u64 {
        let buffers = self.buffers.iter().map(Buffers::state_bytes);
        let engines = self.engines.iter().map(Engines::state_bytes);
        let processors = self.processors.len() * size_of::<Processor>();
        let hosts = buffers.sum::<usize>() + engines.sum::<usize>() + processors;
        let processes: usize = self
            .processes
            .iter()
            .map(crate::host::Process::state_bytes)
            .sum();
        (hosts
            + processes
            + self.programs.state_bytes()
            + self.operations.as_ref().map_or(0, |it| it.state_bytes())
            + self.spreading.as_ref().map_or(0, |it| it.state_bytes())
            + self.nics.len() * size_of::<AlignedNic>()
            + self.network.state_bytes()
            + self.queue.state_bytes()
            + self.messages.state_bytes()
            + self.windows.state_bytes()
            + self.accounting.state_bytes()) as u64
    }

    /// What must hold whatever the scenario.
    fn check(&mut self, links: &[LinkRow], buses: ResourceUse) {
        let counts = self.accounting.counts;
        let accounted = counts.delivered + counts.dropped + counts.in_flight;
        if counts.posted != accounted {
            self.violations.push(format!(
                "messages are not conserved: {} posted, {accounted} delivered, dropped or in flight",
                counts.posted
            ));
        }
        if self.has_account() {
            let open = self.guests.sent.iter().filter(|sent| sent.is_open).count();
            let open = open + self.guests.posts.open();
            if open as u64 != counts.in_flight {
                self.violations.push(format!(
                    "{} messages of programs are in flight, and {open} have not ended",
                    counts.in_flight
                ));
            }
        }
        self.check_taken();
        for row in links {
            if row.utilisation > 1.0 + RATE_TOLERANCE {
                self.violations.push(format!(
                    "link {} carried {:.4} times what its rate allows",
                    self.config.topology.link_name(LinkId(row.link)),
                    row.utilisation
                ));
            }
        }
        if buses.utilisation_max > 1.0 + RATE_TOLERANCE {
            self.violations.push(format!(
                "a bus carried {:.4} times its rate",
                buses.utilisation_max
            ));
        }
        if let Some(excess) = self.accounting.smallest_excess
            && excess < 0
            && !self.config.faults.iter().any(Fault::speeds_up)
        {
            self.violations.push(format!(
                "a message was {} ps faster than its floor allows",
                excess.unsigned_abs()
            ));
        }
        let stages: u64 = self.accounting.stages.iter().sum();
        let total = self.accounting.latency_sum;
        if stages != total {
            self.violations.push(format!(
                "the {STAGES} stages add up to {stages} ps, the latencies to {total} ps"
            ));
        }
    }

    /// What was delivered, applications and programs have taken.
    fn check_taken(&mut self) {
        let own = self.accounting.counts;
        let kinds = match P::EXIST {
            true => [
                (own, self.taken_by_programs),
                (self.accounting.around, self.completions_taken),
            ],
            false => [(own, self.completions_taken), Default::default()],
        };
        // A process that dies may have taken what it never looks at.
        let has_deaths = self.failures.as_ref().is_some_and(|failures| {
            let mut hosts = 0..self.engines.len() as u32;
            failures.has_deaths() || hosts.any(|host| failures.faults.is_host_dead(host))
        });
        for (counts, taken) in kinds {
            let delivered = counts.delivered;
            let is_right = taken == delivered || has_deaths && taken > delivered;
            if counts.in_flight == 0 && !is_right {
                self.violations.push(format!(
                    "{delivered} messages were delivered, and applications took {taken} completions"
                ));
            }
        }
    }

    /// Whether the level of the network is far off frames at such a load.
    fn level_warning(&self, links: &[LinkRow]) -> Option<Warning> {
        let busiest = links.iter().map(|row| row.utilisation).fold(0.0, f64::max);
        levels::far_off(&self.config, busiest)
    }

    /// Whether messages found no receive descriptor although nobody said how many there are.
    fn has_unasked_drops(&self) -> bool {
        let mut drops = self.accounting.drops().into_iter();
        !P::EXIST
            && !self.config.hosts.is_prepost_chosen
            && drops.any(|row| row.cause == "no_descriptor")
    }

    fn warnings(&self, steady: SteadyState, no_interval: Option<TooShort>) -> Vec<Warning> {
        if P::EXIST {
            // How many receives are posted, and how long a run is, programs say.
            return self.failure_warnings();
        }
        let mut warnings = Vec::new();
        let counts = self.accounting.counts;
        if self.has_unasked_drops() {
            warnings.push(Warning {
                text: format!(
                    "{} of {} messages were lost for want of receive descriptors, and nothing in \
                     the study asks for that: every latency is of the others",
                    counts.dropped, counts.posted
                ),
                help: Some(format!(
                    "set `hosts.prepost`: to \"unlimited\", or to {} if that is what the hosts \
                     have",
                    self.config.hosts.prepost
                )),
            });
        }
        if let Some(reason) = no_interval.filter(|reason| reason.is_news()) {
            warnings.push(Warning {
                text: reason.to_string(),
                help: Some(reason.help(&self.config)),
            });
        }
        if let SteadyState::Transient {
            warmup_needed,
            overloaded,
        } = steady
        {
            warnings.push(steadiness_warning(&self.config, warmup_needed, overloaded));
        }
        if let SteadyState::Drifting { first_us, last_us } = steady {
            warnings.push(Warning {
                text: format!(
                    "latency drifts from about {first_us:.3} us to {last_us:.3} us between \
                     warm-up and end: its mean says little but how long the run was"
                ),
                help: Some(
                    "set `run.until` later, or `run.warmup`; if what is offered changes with \
                     time, look at latency over time and not at the mean"
                        .into(),
                ),
            });
        }
        let topology = &self.config.topology;
        for drops in self.accounting.drops().iter().take(4) {
            let name = topology.node_name(viaduct_topology::Node::Host(viaduct_topology::HostId(
                drops.host,
            )));
            if drops.cause == "no_descriptor" {
                warnings.push(Warning {
                    text: format!(
                        "{} messages found no receive descriptor at host {name}, the first at {} \
                         (unreliable delivery: they were dropped)",
                        drops.count, drops.first
                    ),
                    help: Some(format!(
                        "raise `hosts.prepost` (now {})",
                        self.config.hosts.prepost
                    )),
                });
            }
        }
        warnings.extend(self.failure_warnings());
        if self.blocked_depth_max.0 > 0 {
            warnings.push(Warning {
                text: format!(
                    "applications waited for send buffers; {} posts at once at host {}",
                    self.blocked_depth_max.0,
                    topology.node_name(viaduct_topology::Node::Host(viaduct_topology::HostId(
                        self.blocked_depth_max.1
                    )))
                ),
                help: Some(format!(
                    "raise `hosts.send_buffers` (now {}), or lower the load",
                    self.config.hosts.send_buffers
                )),
            });
        }
        warnings
    }

    /// Whether latency had settled by the end of the warm-up, and what came was served.
    fn steady(&self) -> SteadyState {
        let warmup = self.config.run.warmup;
        let stop = self.config.traffic.stop;
        // The series while traffic is offered: what drains afterwards is not the load's doing.
        let in_flight: Vec<f64> = self
            .series
            .iter()
            .filter(|row| row.end <= stop && row.end > self.config.traffic.start)
            .map(|row| row.in_flight as f64)
            .collect();
        let overloaded = is_growing(&in_flight);
        match self.accounting.transient.check(warmup.picoseconds()) {
            Steadiness::Transient { settled_at } => SteadyState::Transient {
                warmup_needed: settled_at.map_or(stop, Time::from_picoseconds),
                overloaded,
            },
            _ if overloaded => SteadyState::Transient {
                warmup_needed: stop,
                overloaded,
            },
            Steadiness::Steady => SteadyState::Steady,
            Steadiness::Unknown => SteadyState::Unknown,
        }
    }
}

fn steadiness_warning(config: &ClusterConfig, warmup_needed: Time, overloaded: bool) -> Warning {
    if overloaded {
        return Warning {
            text: "unstable: messages under way grow for as long as the run lasts, so its latency \
                   says nothing but how long it lasted"
                .into(),
            help: Some("lower the load: more is offered than served".into()),
        };
    }
    Warning {
        text: format!(
            "latency had not settled by the end of the warm-up ({}): the mean is off",
            config.run.warmup
        ),
        help: Some(format!(
            "set `run.warmup` to {warmup_needed} or more, and `run.until` later"
        )),
    }
}

/// Mean times of so many messages in each stage, of which these are the sums in picoseconds.
pub(crate) fn stage_shares(sums: [u64; STAGES], messages: u64) -> Vec<StageShare> {
    let share = |(stage, sum): (&Stage, u64)| StageShare {
        stage: stage.name(),
        mean_us: sum as f64 / messages.max(1) as f64 * 1e-6,
    };
    Stage::ALL.iter().zip(sums).map(share).collect()
}

pub(crate) fn classes(rows: &[LinkRow]) -> Vec<LinkClassUse> {
    const CLASSES: [LinkClass; 5] = [
        LinkClass::Mesh,
        LinkClass::TreeUp,
        LinkClass::TreeDown,
        LinkClass::HostUp,
        LinkClass::HostDown,
    ];
    CLASSES
        .into_iter()
        .map(|class| LinkClassUse {
            class,
            usage: summarise(
                rows.iter()
                    .filter(|row| row.class == class)
                    .map(|row| row.utilisation),
            ),
        })
        .filter(|class| class.usage.count > 0)
        .collect()
}

fn summarise(utilisations: impl Iterator<Item = f64>) -> ResourceUse {
    let mut usage = ResourceUse::default();
    for utilisation in utilisations {
        usage.count += 1;
        usage.utilisation_mean += utilisation;
        usage.utilisation_max = usage.utilisation_max.max(utilisation);
    }
    usage.utilisation_mean /= usage.count.max(1) as f64;
    usage
}
