//! Settings made into the configuration of a run.

use std::sync::Arc;

use viaduct_cluster::adapters::{AdapterChoice, Adapters};
use viaduct_cluster::config::{
    Arrivals, BusLoad, ClusterConfig, HostsConfig, RunConfig, TrafficConfig, UNLIMITED,
};
use viaduct_cluster::faults::Detection;
use viaduct_cluster::workload::{
    DistributionError, Interval, MessageList, Pattern, SizeDistribution, parse_size_cdf,
};
use viaduct_engine::Time;
use viaduct_hardware::{BusModel, Completion, Frame, HostModel, MemoryModel, ProcessorModel, Rate};
use viaduct_lanai::MESSAGE_BYTES_MAX;
use viaduct_network::{
    Buffers, CreditLinks, LinkConfig, Marking, Queueing, SharedMemory, Sharing, SwitchModel,
    WhenFull,
};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_topology::{Topology, Waiting};

use crate::adapter::Adapter;
use crate::application;
use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::endpoints;
use crate::files::Files;
use crate::host_groups::{self, Group};
use crate::message_list;
use crate::network::{self, TopologyCache};
use crate::schema::{
    ArrivalKind, Bus, BusKind, Coding, CompletionKind, Cpu, IntervalKind, Intervals, Links, Memory,
    NoticeBy, PatternKind, QueueingKind, Run, SizeKind, Sizes, Switches, Traffic, WhenFullKind,
};
use crate::section::{Absent, Field, Setting, Start};
use crate::settings::{Hardware, Settings};

/// Classes of channels that are tried, to find how many a network needs.
const CLASSES_TRIED: u32 = 16;

/// Makes the configuration; none if something is wrong, and then the diagnostics say what.
///
/// What follows from other values (`links.rate` from the signal's, `traffic.stop`) is put into the
/// settings.
pub(crate) fn build(
    settings: &mut Settings,
    groups: &[Group],
    files: &mut Files,
    topologies: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) -> Option<ClusterConfig> {
    complete(settings, diagnostics);
    let made = configuration(settings, groups, files, topologies, diagnostics);
    diagnostics.tell(made)
}

fn configuration(
    settings: &Settings,
    groups: &[Group],
    files: &mut Files,
    topologies: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) -> Result<ClusterConfig, Absent> {
    // Each part is tried, so that all its errors are said.
    let topology = network::topology(&settings.network, files, topologies, diagnostics);
    let host = topology
        .as_ref()
        .map_err(|absent| *absent)
        .and_then(|topology| {
            let completion = settings.hosts.completion.get()?;
            let common = host(&settings.hardware, completion)?;
            host_groups::by_host(common, groups, completion, topology, diagnostics)
        });
    let mut drawn = Drawn { files, diagnostics };
    let hosts = hosts(settings, &mut drawn);
    let links = links(&settings.links, topology.as_deref().ok());
    let host_count = topology.as_ref().map_err(|absent| *absent);
    let host_count = host_count.and_then(|topology| host_count_of(settings, topology, &mut drawn));
    let cluster = host_count.and_then(|count| {
        let hosts = host.as_ref().map_err(|absent| *absent)?;
        let limits = hosts.values().map(|host| host.transfer_max_bytes);
        Ok((count, limits.min().unwrap_or(u32::MAX)))
    });
    let traffic = traffic(settings, cluster, &mut drawn);
    Ok(ClusterConfig {
        topology: topology?,
        links: links?,
        switch: switch(&settings.switches)?,
        host: host?,
        interfaces: endpoints::interfaces(settings)?,
        hosts: hosts?,
        traffic: traffic?,
        // They name links and hosts: `Disturbances` reads them when the network is there.
        faults: Vec::new(),
        detection: Detection::default(),
        background: Vec::new(),
        run: run(&settings.run)?,
    })
}

/// Fills in what follows from other values.
fn complete(settings: &mut Settings, diagnostics: &mut Diagnostics) {
    let links = &mut settings.links;
    if links.signal_rate.is_given() {
        let (data, line) = match links.coding.known().unwrap_or(Coding::None) {
            Coding::None => (1.0, 1.0),
            Coding::EightTen => (8.0, 10.0),
            Coding::SixtyFour => (64.0, 66.0),
        };
        if let Some(signal) = links.signal_rate.known() {
            let rate = Rate::from_bits_per_second(signal.bits_per_second() * data / line);
            links.rate.derive(rate, &mut links.signal_rate);
        } else {
            links.rate.mark_wrong();
        }
        links.coding.follow(None);
    } else if !links.rate.is_given() && !links.rate.is_wrong() {
        let (key, help) = if links.coding.is_given() {
            (
                "signal_rate",
                "add the rate of the bits on the wire: `signal_rate = \"1.25 Gbit/s\"`",
            )
        } else {
            (
                "rate",
                "add `rate = \"856 Mbit/s\"`, or `signal_rate` and `coding`",
            )
        };
        diagnostics.push(
            Diagnostic::error(format!("missing key `{key}` in [links]"))
                .at(links.coding.place())
                .help(help),
        );
        links.rate.mark_wrong();
    }
    if !links.host_rate.is_given() {
        links.host_rate.follow_setting(&links.rate);
    }
    if !links.host_propagation.is_given() {
        links.host_propagation.follow_setting(&links.propagation);
    }
    let traffic = &mut settings.traffic;
    if traffic.start.known() == Some(Start::AfterWarmup) {
        match settings.run.warmup.get() {
            Ok(warmup) => traffic.start.follow(Some(Start::At(warmup))),
            Err(_) => traffic.start.mark_wrong(),
        }
    }
    // An adapter without limits has none of these either, unless the study says so.
    let nic = settings.hardware.adapter.native();
    if nic.and_then(|nic| nic.moving_per_vi.known()) == Some(UNLIMITED) {
        for key in [
            &mut settings.hosts.prepost,
            &mut settings.hosts.send_buffers,
        ] {
            if !key.is_given() {
                key.follow(Some(UNLIMITED));
            }
        }
    }
    let is_application = matches!(
        traffic.arrivals.known(),
        Some(
            ArrivalKind::Goal
                | ArrivalKind::Chakra
                | ArrivalKind::Simgrid
                | ArrivalKind::Collective
                | ArrivalKind::Program
        )
    );
    if is_application {
        complete_application(settings);
    }
    // Copies that take turns are on the same hosts.
    let processes = &mut settings.hosts.processes;
    if settings.scheduling.is_some()
        && !processes.is_given()
        && let Some(copies) = settings.traffic.copies.known()
    {
        processes.follow(Some(copies));
    }
    let until = &mut settings.run.until;
    if !until.is_given() && !until.is_wrong() {
        if is_application {
            until.follow(Some(UNTIL_ALL_HAVE_ENDED));
        } else {
            diagnostics.push(
                Diagnostic::error("missing key `until` in [run]")
                    .at(until.place())
                    .help("add `until = \"10 ms\"` or another time: end of simulated time"),
            );
            until.mark_wrong();
        }
    }
    let traffic = &mut settings.traffic;
    if !traffic.stop.is_given() {
        traffic.stop.follow_setting(&settings.run.until);
    }
}

/// The end of a run that ends when all its operations have: 46 days.
pub const UNTIL_ALL_HAVE_ENDED: Time = Time::from_picoseconds(4_000_000 * 1_000_000_000_000);

/// Where a graph of operations is carried out, a message that is lost is waited for by somebody.
fn complete_application(settings: &mut Settings) {
    let reliability = &mut settings.traffic.reliability;
    if !reliability.is_given() && !reliability.is_wrong() {
        reliability.follow(Some(ReliabilityLevel::ReliableDelivery));
    }
    let prepost = &mut settings.hosts.prepost;
    if !prepost.is_given() && !prepost.is_wrong() {
        prepost.follow(Some(UNLIMITED));
    }
}

fn links(links: &Links, topology: Option<&Topology>) -> Result<LinkConfig, Absent> {
    Ok(LinkConfig {
        sharing: links.model.get()?,
        arrival: links.arrival.optional()?.unwrap_or_default(),
        switching: links.switching.get()?,
        rate: links.rate.get()?,
        host_rate: links.host_rate.get()?,
        propagation: links.propagation.get()?,
        host_propagation: links.host_propagation.get()?,
        frame: Frame {
            payload_bytes: links.frame_payload.get()?,
            header_bytes: links.frame_header.get()?,
        },
        buffers: buffers(links)?,
        credits: credits(links, topology)?,
    })
}

/// Channels and credits; at other levels nobody asks.
fn credits(links: &Links, topology: Option<&Topology>) -> Result<CreditLinks, Absent> {
    let usual = CreditLinks::default();
    if links.model.get()? != Sharing::Credits {
        return Ok(usual);
    }
    let given = links.virtual_channels.optional()?;
    let classes = links.channel_classes.optional()?.unwrap_or_else(|| {
        let needed = topology.map_or(1, classes_needed);
        given.map_or(needed, |channels| needed.min(channels))
    });
    Ok(CreditLinks {
        flow_control: links.flow_control.get()?,
        flit_bytes: links.flit.get()?,
        channels: given.unwrap_or(classes),
        classes,
        buffer_bytes: links.channel_buffer.optional()?.map(u64::from),
        credit_delay: links.credit_delay.get()?,
        traversal: links.traversal.get()?,
        speedup: links.speedup.get()?,
        arbitration: links.arbitration.get()?,
    })
}

/// The fewest classes of channels with which none wait in a ring; 1 if none are few enough.
fn classes_needed(topology: &Topology) -> u32 {
    let mut classes = 1..=CLASSES_TRIED;
    let found = classes.find(|&classes| !matches!(topology.waiting(classes), Waiting::Ring(_)));
    found.unwrap_or(1)
}

/// What queues hold and mark; both of frames alone.
fn buffers(links: &Links) -> Result<Buffers, Absent> {
    let low = links.ecn_low.optional()?;
    let high = links.ecn_high.optional()?.or(low);
    let probability = links.ecn_probability.optional()?;
    let bytes_max = links.buffer.optional()?;
    let control = links.congestion_control.optional()?;
    let headroom = links.pause_headroom.optional()?;
    let alpha = links.alpha.optional()?.unwrap_or(1.0);
    let full = match links.full.optional()?.unwrap_or(WhenFullKind::Drop) {
        WhenFullKind::Drop => WhenFull::Drop,
        WhenFullKind::Trim => WhenFull::Trim,
        WhenFullKind::Pause => WhenFull::Pause {
            headroom_bytes: headroom.map(u64::from),
        },
    };
    let queueing = match links.queueing.optional()?.unwrap_or(QueueingKind::Fifo) {
        QueueingKind::Fifo => Queueing::FirstCome,
        QueueingKind::Fair => Queueing::Fair,
    };
    Ok(Buffers {
        queueing,
        full,
        bytes_max: bytes_max.filter(|it| *it != UNLIMITED).map(u64::from),
        shared: links.shared_buffer.optional()?.map(|bytes| SharedMemory {
            bytes: bytes.into(),
            alpha,
        }),
        marking: low.zip(high).map(|(low, high)| Marking {
            low_bytes: low.into(),
            high_bytes: high.into(),
            probability: probability.unwrap_or(1.0),
            control: control.unwrap_or_default(),
        }),
    })
}

fn switch(switches: &Switches) -> Result<SwitchModel, Absent> {
    Ok(SwitchModel {
        delay: switches.delay.get()?,
        cut_through_bytes: switches.cut_through.get()?,
    })
}

/// Hosts of some hardware, whose applications wait in the way that is chosen.
pub(crate) fn host(hardware: &Hardware, chosen: CompletionKind) -> Result<HostModel, Absent> {
    let name = hardware.model.name.known();
    let has_vis = !matches!(hardware.adapter, Adapter::Endpoints(_));
    Ok(HostModel {
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        processor: match has_vis {
            true => processor(&hardware.cpu)?,
            false => ProcessorModel::FREE,
        },
        completion: match has_vis {
            true => completion(&hardware.cpu, chosen)?,
            false => Completion::Polling,
        },
        memory: memory(hardware.memory.as_ref())?,
        bus: match has_vis {
            true => bus(&hardware.bus)?,
            false => BusModel::FREE,
        },
        mechanism: hardware.adapter.mechanism()?,
        transfer_max_bytes: match hardware.adapter.transfer_max() {
            Some(bytes) => bytes.get()?,
            None => MESSAGE_BYTES_MAX,
        },
    })
}

/// What hosts spend to register memory, of studies and of presets; nothing if nothing is said.
pub(crate) fn memory(memory: Option<&Memory>) -> Result<MemoryModel, Absent> {
    memory.map_or(Ok(MemoryModel::FREE), |memory| {
        Ok(MemoryModel {
            register: memory.register.get()?,
            register_rate: memory.register_rate.get()?,
        })
    })
}

/// What the processor spends, of studies and of presets.
pub(crate) fn processor(cpu: &Cpu) -> Result<ProcessorModel, Absent> {
    Ok(ProcessorModel {
        post: cpu.post.get()?,
        reap: cpu.reap.get()?,
        polling_delay: cpu.polling_delay.get()?,
        interrupt: cpu.interrupt.get()?,
        wake_up: cpu.wake_up.get()?,
    })
}

/// How applications wait: as the study says, or else the preset.
pub(crate) fn completion(cpu: &Cpu, chosen: CompletionKind) -> Result<Completion, Absent> {
    let notice = match chosen {
        CompletionKind::Preset => cpu.notice.get()?,
        CompletionKind::Polling => NoticeBy::Polling,
        CompletionKind::Interrupt => NoticeBy::Interrupt,
    };
    Ok(match notice {
        NoticeBy::Polling => Completion::Polling,
        NoticeBy::Interrupt => Completion::Interrupt,
    })
}

/// The I/O bus, of studies and of presets.
pub(crate) fn bus(bus: &Bus) -> Result<BusModel, Absent> {
    Ok(BusModel {
        rate: bus.rate.get()?,
        burst_bytes: bus.burst.get()?,
        burst_overhead: bus.burst_overhead.get()?,
        programmed_write: bus.programmed_write.get()?,
        read: bus.read.get()?,
        write: bus.write.get()?,
    })
}

fn hosts(settings: &Settings, drawn: &mut Drawn<'_>) -> Result<HostsConfig, Absent> {
    let bus_load = match &settings.bus_load {
        None => None,
        Some(load) => {
            let mean = load.interval.known().map(picoseconds);
            let interval = drawn.interval(&load.intervals, mean, &load.interval);
            let size = drawn.size(&load.sizes);
            Some(BusLoad {
                interval: interval?,
                size: size?,
            })
        }
    };
    let hosts = &settings.hosts;
    Ok(HostsConfig {
        adapters: adapters(settings)?,
        processors: hosts.processors.optional()?,
        processes: hosts.processes.get()?,
        prepost: hosts.prepost.get()?,
        is_prepost_chosen: hosts.prepost.is_given(),
        send_buffers: hosts.send_buffers.get()?,
        bus_load,
    })
}

/// The adapters of each host.
pub(crate) fn adapters(settings: &Settings) -> Result<Adapters, Absent> {
    let hosts = &settings.hosts;
    let usual = match settings.traffic.arrivals.get()? {
        ArrivalKind::Goal => AdapterChoice::Operation,
        ArrivalKind::Chakra
        | ArrivalKind::Simgrid
        | ArrivalKind::Collective
        | ArrivalKind::Program => AdapterChoice::Stripe,
        ArrivalKind::Open | ArrivalKind::PingPong | ArrivalKind::Window | ArrivalKind::List => {
            AdapterChoice::Flow
        }
    };
    Ok(Adapters {
        count: hosts.adapters.get()?,
        choice: hosts.adapter_choice.optional()?.unwrap_or(usual),
        has_own_bus: hosts.buses.get()? == BusKind::Own,
    })
}

/// Hosts, each of which has as many places in a network as adapters.
fn host_count_of(
    settings: &Settings,
    topology: &Topology,
    drawn: &mut Drawn<'_>,
) -> Result<u32, Absent> {
    let (adapters, places) = (settings.hosts.adapters.get()?, topology.host_count());
    if places.is_multiple_of(adapters) {
        return Ok(places / adapters);
    }
    let error = Diagnostic::error("the network has no place for each adapter");
    let (less, more) = (
        places - places % adapters,
        places.next_multiple_of(adapters),
    );
    let label = format!("its {places} places are no multiple of {adapters}");
    let help = match less {
        0 => format!("take a network of {more} hosts, which are places of adapters here"),
        less => {
            format!("take a network of {less} or {more} hosts, which are places of adapters here")
        }
    };
    Err(drawn.wrong(
        error
            .at(settings.hosts.adapters.place())
            .label(label)
            .help(help),
    ))
}

fn traffic(
    settings: &Settings,
    cluster: Result<(u32, u32), Absent>,
    drawn: &mut Drawn<'_>,
) -> Result<TrafficConfig, Absent> {
    let traffic = &settings.traffic;
    let size = drawn.size(&traffic.sizes);
    let arrivals = match traffic.arrivals.get()? {
        ArrivalKind::List => {
            let processes = settings.hosts.processes.get()?;
            let list = drawn.message_list(&traffic.file, (cluster?.0, processes))?;
            let listed = TrafficConfig::listed(list, start(traffic)?, traffic.stop.get()?);
            return Ok(TrafficConfig {
                reliability: traffic.reliability.get()?,
                ..listed
            });
        }
        ArrivalKind::Goal
        | ArrivalKind::Chakra
        | ArrivalKind::Simgrid
        | ArrivalKind::Collective
        | ArrivalKind::Program => {
            let application = application::application(settings, cluster?, drawn)?;
            let (start, stop) = (start(traffic)?, traffic.stop.get()?);
            return Ok(TrafficConfig {
                reliability: traffic.reliability.get()?,
                ..TrafficConfig::of_application(Arc::new(application), start, stop)
            });
        }
        ArrivalKind::Open => drawn.open(traffic).map(Arrivals::Open),
        ArrivalKind::PingPong => Ok(Arrivals::PingPong),
        ArrivalKind::Window => traffic.window.get().map(Arrivals::Window),
    };
    Ok(TrafficConfig {
        pattern: pattern(traffic)?,
        arrivals: arrivals?,
        size: size?,
        operation: traffic.operation.get()?,
        reliability: traffic.reliability.get()?,
        start: start(traffic)?,
        stop: traffic.stop.get()?,
    })
}

/// When the traffic starts, once that after the warm-up has become a time.
fn start(traffic: &Traffic) -> Result<Time, Absent> {
    match traffic.start.get()? {
        Start::At(time) => Ok(time),
        // `complete` has put the time, or said that the warm-up is wrong.
        Start::AfterWarmup => Err(Absent::Unset(traffic.start.table, traffic.start.key)),
    }
}

fn pattern(traffic: &Traffic) -> Result<Pattern, Absent> {
    Ok(match traffic.pattern.get()? {
        PatternKind::StraightLine => Pattern::StraightLine {
            hops: traffic.hops.get()?,
        },
        PatternKind::Uniform => Pattern::Uniform,
        PatternKind::Transpose => Pattern::Transpose,
        PatternKind::BitReversal => Pattern::BitReversal,
        PatternKind::RandomPermutation => Pattern::RandomPermutation,
        PatternKind::Neighbours => Pattern::Neighbours,
        PatternKind::HotSpot => Pattern::HotSpot {
            hot: traffic.hot.get()?,
            fraction: traffic.fraction.get()?,
        },
        PatternKind::Incast => Pattern::Incast {
            target: traffic.target.get()?,
        },
        PatternKind::AllToAll => Pattern::AllToAll,
        PatternKind::Pairs => Pattern::Pairs(traffic.pairs.get()?),
    })
}

fn run(run: &Run) -> Result<RunConfig, Absent> {
    Ok(RunConfig {
        warmup: run.warmup.get()?,
        until: run.until.get()?,
        drain: run.drain.get()?,
        messages_max: run.messages_max.optional()?,
        events_max: run.events_max.optional()?,
        seed: run.seed.get()?,
        message_rows_max: run.message_rows_max.get()?,
        connections_kept: viaduct_cluster::CONNECTIONS_KEPT,
    })
}

pub(crate) fn picoseconds(time: Time) -> f64 {
    time.picoseconds() as f64
}

/// Makes what is drawn or read from a file.
pub(crate) struct Drawn<'a> {
    pub(crate) files: &'a mut Files,
    pub(crate) diagnostics: &'a mut Diagnostics,
}

impl Drawn<'_> {
    /// Keeps an error.
    pub(crate) fn wrong(&mut self, diagnostic: Diagnostic) -> Absent {
        self.diagnostics.push(diagnostic);
        Absent::Told
    }

    /// The list of `traffic.file`, for so many hosts of so many processes.
    fn message_list(
        &mut self,
        file: &Setting<String>,
        (hosts, processes): (u32, u32),
    ) -> Result<Arc<MessageList>, Absent> {
        let path = &file.get()?;
        let cannot = "the list of messages cannot be used";
        let known = self.files.list(path);
        let known = known.filter(|list| list.made_for() == (hosts, processes));
        if let Some(messages) = self.files.messages(path) {
            let made = known.map_or_else(
                || MessageList::new(&messages, hosts, processes).map(Arc::new),
                Ok,
            );
            let made = made.map_err(|error| {
                let error = Diagnostic::error(cannot).label(error.to_string());
                self.wrong(error.at(file.place()))
            })?;
            self.files.keep_list(path, Arc::clone(&made));
            return Ok(made);
        }
        // Also where the list is known: the study carries the text.
        let text = self.files.text(path).map_err(|reason| {
            let error = Diagnostic::error("cannot read the list of messages");
            self.wrong(error.at(file.place()).label(reason))
        })?;
        if let Some(list) = known {
            return Ok(list);
        }
        let made = message_list::read(&text).and_then(|read| {
            MessageList::new(&read.messages, hosts, processes).map_err(|error| {
                message_list::Wrong {
                    line: error.message.map_or(1, |message| read.line(message)),
                    column: 1,
                    problem: error.problem.to_string(),
                }
            })
        });
        let list = made.map(Arc::new).map_err(|wrong| {
            let source = self.diagnostics.add_source(path, &text);
            let place = place_at(source, &text, wrong.line, wrong.column);
            self.wrong(
                Diagnostic::error(cannot)
                    .at(place)
                    .label(wrong.problem)
                    .help(
                        "a message is a line of time, source, target and bytes, below their \
                         names, and of `operation` if that is named; hosts are numbered from 0",
                    ),
            )
        })?;
        self.files.keep_list(path, Arc::clone(&list));
        Ok(list)
    }

    /// The intervals of an open loop.
    fn open(&mut self, traffic: &Traffic) -> Result<Interval, Absent> {
        let intervals = &traffic.intervals;
        if let Some(rate) = traffic.rate.optional()? {
            return self.interval(intervals, Some(1e12 / rate), &traffic.rate);
        }
        let mean = traffic.interval.optional()?.map(picoseconds);
        self.interval(intervals, mean, &traffic.interval)
    }

    /// The intervals that a table describes, with the mean that `mean_key` gives.
    pub(crate) fn interval<T: Field>(
        &mut self,
        intervals: &Intervals,
        mean_picoseconds: Option<f64>,
        mean_key: &Setting<T>,
    ) -> Result<Interval, Absent> {
        let kind = intervals.interval_distribution.get()?;
        let mean = match kind {
            IntervalKind::Uniform | IntervalKind::Empirical => 0.0,
            IntervalKind::Exponential
            | IntervalKind::Constant
            | IntervalKind::Pareto
            | IntervalKind::LogNormal => match mean_picoseconds {
                Some(mean) => mean,
                None => return Err(self.mean_missing(mean_key)),
            },
        };
        let made = match kind {
            IntervalKind::Exponential => Interval::exponential(mean),
            IntervalKind::Constant => Interval::constant(mean),
            IntervalKind::Uniform => {
                let (min, max) = (&intervals.interval_min, &intervals.interval_max);
                let (least, most) = self.rising(min, max)?;
                Interval::uniform(picoseconds(least), picoseconds(most))
            }
            IntervalKind::Pareto => Interval::pareto(mean, intervals.interval_shape.get()?),
            IntervalKind::LogNormal => {
                Interval::log_normal(mean, intervals.interval_variation.get()?)
            }
            IntervalKind::Empirical => {
                let points = intervals.interval_table.get()?.into_iter();
                Interval::empirical(
                    points
                        .map(|(time, share)| (picoseconds(time), share))
                        .collect(),
                )
            }
        };
        made.map_err(|error| match error {
            DistributionError::Shape { .. } => self.refused(&intervals.interval_shape, &error),
            DistributionError::Variation { .. } => {
                self.refused(&intervals.interval_variation, &error)
            }
            DistributionError::Range { .. } => self.refused(&intervals.interval_min, &error),
            DistributionError::Mean { .. } => self.refused(mean_key, &error),
            _ => self.refused(&intervals.interval_table, &error),
        })
    }

    /// The open loop has neither rate nor interval.
    fn mean_missing<T: Field>(&mut self, mean_key: &Setting<T>) -> Absent {
        // Other tables must have the key, and where it is wrong, that is said already.
        if mean_key.is_wrong() || mean_key.is_given() {
            return Absent::Told;
        }
        self.wrong(
            Diagnostic::error("missing key `rate` or `interval` in [traffic]")
                .at(mean_key.place())
                .help("add `rate = \"100/s\"`, messages a second and process, or `interval`"),
        )
    }

    /// The sizes that a table describes.
    pub(crate) fn size(&mut self, sizes: &Sizes) -> Result<SizeDistribution, Absent> {
        let made = match sizes.size_distribution.get()? {
            SizeKind::Constant => Ok(SizeDistribution::constant(sizes.size.get()?)),
            SizeKind::Uniform => {
                let (min, max) = self.rising(&sizes.size_min, &sizes.size_max)?;
                SizeDistribution::uniform(min, max)
            }
            SizeKind::Pareto => {
                let (min, max) = self.rising(&sizes.size_min, &sizes.size_max)?;
                SizeDistribution::pareto(min, max, sizes.size_shape.get()?)
            }
            SizeKind::LogNormal => SizeDistribution::log_normal(
                f64::from(sizes.size.get()?),
                sizes.size_variation.get()?,
                sizes.size_max.get()?,
            ),
            SizeKind::Empirical => return self.size_table(&sizes.size_file),
        };
        made.map_err(|error| match error {
            DistributionError::Shape { .. } => self.refused(&sizes.size_shape, &error),
            DistributionError::Variation { .. } => self.refused(&sizes.size_variation, &error),
            DistributionError::Range { .. } => self.refused(&sizes.size_min, &error),
            DistributionError::Mean { .. } => self.refused(&sizes.size, &error),
            _ => self.refused(&sizes.size_file, &error),
        })
    }

    fn size_table(&mut self, file: &Setting<String>) -> Result<SizeDistribution, Absent> {
        let path = &file.get()?;
        let text = self.files.text(path).map_err(|reason| {
            let error = Diagnostic::error("cannot read the table of sizes");
            self.wrong(error.at(file.place()).label(reason))
        })?;
        parse_size_cdf(&text).map_err(|error| {
            let source = self.diagnostics.add_source(path, &text);
            let place = place_at(source, &text, error.line, error.column);
            self.wrong(
                Diagnostic::error("the table of sizes cannot be used")
                    .at(place)
                    .label(error.problem.to_string())
                    .help("each line is `size_bytes cumulative_percent`, from 0 to 100 percent"),
            )
        })
    }

    /// Two values of which the first is not above the second.
    fn rising<T: Field + PartialOrd>(
        &mut self,
        min: &Setting<T>,
        max: &Setting<T>,
    ) -> Result<(T, T), Absent> {
        let (least, most) = (min.get()?, max.get()?);
        if least > most {
            let (table, min_name, max_name) = (min.table.name, min.key.name, max.key.name);
            let title = format!("`{min_name}` is above `{max_name}` in [{table}]");
            return Err(self.wrong(Diagnostic::error(title).at(min.place())));
        }
        Ok((least, most))
    }

    fn refused<T: Field>(&mut self, setting: &Setting<T>, error: &DistributionError) -> Absent {
        let (key, table) = (setting.key.name, setting.table.name);
        let title = format!("no such distribution: `{key}` in [{table}]");
        self.wrong(
            Diagnostic::error(title)
                .at(setting.place())
                .label(error.to_string()),
        )
    }
}

/// The place of a line and a column in characters, both from 1; it reaches to the next blank.
pub(crate) fn place_at(source: usize, text: &str, line: usize, column: usize) -> Place {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let rest = text.get(line_start..).unwrap_or("");
    let offset = rest
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(0, |(at, _)| at);
    let start = line_start + offset;
    let length = text
        .get(start..)
        .unwrap_or("")
        .find(char::is_whitespace)
        .unwrap_or(1)
        .max(1);
    Place {
        source,
        start,
        end: start + length,
    }
}
