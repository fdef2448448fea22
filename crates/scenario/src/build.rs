//! Settings made into the configuration of a run.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_sim::config::{
    Arrivals, BusLoad, BusModel, ClusterConfig, CpuModel, Frame, HostModel, HostsConfig,
    LinkConfig, NicModel, Notice, Rate, RunConfig, Sharing, SwitchModel, Switching, TrafficConfig,
    UNLIMITED,
};
use viaduct_sim::workload::{
    DistributionError, Interval, MessageList, Pattern, SizeDistribution, parse_size_cdf,
};

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::files::Files;
use crate::message_list;
use crate::network::{self, TopologyCache};
use crate::settings::Settings;
use crate::value::Value;

/// Makes the configuration; none if something is wrong, and then the diagnostics say what.
///
/// What follows from other values (`links.rate` from the signal's, `traffic.stop`) is put into the
/// settings.
pub(crate) fn build(
    settings: &mut Settings,
    files: &mut Files,
    topologies: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) -> Option<ClusterConfig> {
    complete(settings, diagnostics);
    let topology = network::topology(settings, files, topologies, diagnostics);
    let mut builder = Builder {
        settings,
        files,
        diagnostics,
    };
    // Each part is tried, so that all its errors are said.
    let (links, switch, host) = (builder.links(), builder.switch(), builder.host());
    let host_count = topology.as_ref().map(|topology| topology.host_count());
    let (hosts, run) = (builder.hosts(), builder.run());
    let traffic = match builder.choice("traffic", "arrivals") {
        Some("list") => builder.listed(host_count),
        _ => builder.traffic(),
    };
    Some(ClusterConfig {
        topology: topology?,
        links: links?,
        switch: switch?,
        host: host?,
        hosts: hosts?,
        traffic: traffic?,
        run: run?,
    })
}

/// Fills in what follows from other values.
fn complete(settings: &mut Settings, diagnostics: &mut Diagnostics) {
    let is_given = |key| {
        settings
            .find("links", key)
            .is_some_and(|s| s.given.is_some())
    };
    if is_given("signal_rate") {
        let coding = match settings.value("links", "coding") {
            Some(Value::Choice("8b/10b")) => (8.0, 10.0),
            Some(Value::Choice("64b/66b")) => (64.0, 66.0),
            _ => (1.0, 1.0),
        };
        if let Some(Value::Rate(signal)) = settings.value("links", "signal_rate") {
            let bits = signal.bits_per_second() * coding.0 / coding.1;
            let rate = Value::Rate(Rate::from_bits_per_second(bits));
            settings.derive("links", "rate", rate, "signal_rate");
        }
        settings.assign("links", "coding", None);
    } else if !is_given("rate") {
        let (key, help) = if is_given("coding") {
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
        if !settings.is_misshapen("links") {
            diagnostics.push(
                Diagnostic::error(format!("missing key `{key}` in [links]"))
                    .at(settings.place_or_table("links", "coding"))
                    .help(help),
            );
        }
    }
    let host_rate = settings.find("links", "host_rate");
    if host_rate.is_some_and(|host_rate| host_rate.given.is_none()) {
        settings.assign(
            "links",
            "host_rate",
            settings.value("links", "rate").cloned(),
        );
    }
    if let Some(Value::Choice("run.warmup")) = settings.value("traffic", "start") {
        let warmup = settings.value("run", "warmup").cloned();
        settings.assign("traffic", "start", warmup);
    }
    // An adapter without limits has none of these either, unless the study says so.
    let no_limit = Value::Count(UNLIMITED.into());
    if settings.value("hosts.model.nic", "moving_per_vi") == Some(&no_limit) {
        for key in ["prepost", "send_buffers"] {
            if settings.place("hosts", key).is_none() {
                settings.assign("hosts", key, Some(Value::Unlimited));
            }
        }
    }
    let stop_given = settings
        .find("traffic", "stop")
        .is_some_and(|stop| stop.given.is_some());
    if !stop_given {
        settings.assign("traffic", "stop", settings.value("run", "until").cloned());
    }
}

/// Makes parts of a configuration from settings.
pub(crate) struct Builder<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) files: &'a mut Files,
    pub(crate) diagnostics: &'a mut Diagnostics,
}

impl Builder<'_> {
    fn bytes(&self, table: &str, key: &str) -> Option<u32> {
        match self.settings.value(table, key)? {
            Value::Size(bytes) => u32::try_from(*bytes).ok(),
            _ => None,
        }
    }

    fn whole(&self, table: &str, key: &str) -> Option<u64> {
        match self.settings.value(table, key)? {
            Value::Count(count) => Some(*count),
            Value::Unlimited => Some(UNLIMITED.into()),
            _ => None,
        }
    }

    fn count(&self, table: &str, key: &str) -> Option<u32> {
        u32::try_from(self.whole(table, key)?).ok()
    }

    fn real(&self, table: &str, key: &str) -> Option<f64> {
        match self.settings.value(table, key)? {
            Value::Real(number) | Value::Ratio(number) | Value::Frequency(number) => Some(*number),
            _ => None,
        }
    }

    fn choice(&self, table: &str, key: &str) -> Option<&'static str> {
        match self.settings.value(table, key)? {
            Value::Choice(choice) => Some(choice),
            _ => None,
        }
    }

    fn switching(&self, table: &str, key: &str) -> Option<Switching> {
        Some(match self.choice(table, key)? {
            "store-and-forward" => Switching::StoreAndForward,
            _ => Switching::CutThrough,
        })
    }

    fn links(&self) -> Option<LinkConfig> {
        Some(LinkConfig {
            sharing: match self.choice("links", "model")? {
                "max-min" => Sharing::MaxMin,
                _ => Sharing::Fluid,
            },
            switching: self.switching("links", "switching")?,
            rate: self.settings.rate("links", "rate")?,
            host_rate: self.settings.rate("links", "host_rate")?,
            propagation: self.settings.time("links", "propagation")?,
            frame: Frame {
                payload_bytes: self.bytes("links", "frame_payload")?,
                header_bytes: self.bytes("links", "frame_header")?,
            },
        })
    }

    fn switch(&self) -> Option<SwitchModel> {
        Some(SwitchModel {
            delay: self.settings.time("switches", "delay")?,
            cut_through_bytes: self.bytes("switches", "cut_through")?,
        })
    }

    fn host(&self) -> Option<HostModel> {
        let name = match self.settings.value("hosts.model", "name") {
            Some(Value::Text(name)) => name.clone(),
            _ => "unnamed".to_owned(),
        };
        Some(HostModel {
            name,
            cpu: self.cpu()?,
            bus: self.bus()?,
            nic: self.nic()?,
        })
    }

    fn cpu(&self) -> Option<CpuModel> {
        let cpu = "hosts.model.cpu";
        let completion = match self.choice("hosts", "completion")? {
            "preset" => self.choice(cpu, "notice")?,
            chosen => chosen,
        };
        let polling = Notice::Polling {
            delay: self.settings.time(cpu, "polling_delay")?,
        };
        let interrupt = Notice::Interrupt {
            interrupt: self.settings.time(cpu, "interrupt")?,
            wake_up: self.settings.time(cpu, "wake_up")?,
        };
        Some(CpuModel {
            post: self.settings.time(cpu, "post")?,
            reap: self.settings.time(cpu, "reap")?,
            notice: if completion == "polling" {
                polling
            } else {
                interrupt
            },
        })
    }

    fn bus(&self) -> Option<BusModel> {
        let bus = "hosts.model.bus";
        Some(BusModel {
            rate: self.settings.rate(bus, "rate")?,
            burst_bytes: self.bytes(bus, "burst")?,
            burst_overhead: self.settings.time(bus, "burst_overhead")?,
            programmed_write: self.settings.time(bus, "programmed_write")?,
            read: self.settings.time(bus, "read")?,
            write: self.settings.time(bus, "write")?,
        })
    }

    fn nic(&self) -> Option<NicModel> {
        let nic = "hosts.model.nic";
        Some(NicModel {
            doorbell: self.settings.time(nic, "doorbell")?,
            send_descriptor: self.settings.time(nic, "send_descriptor")?,
            translate: self.settings.time(nic, "translate")?,
            inline_bytes: self.bytes(nic, "inline")?,
            dma_setup: self.settings.time(nic, "dma_setup")?,
            moving_per_vi: self.count(nic, "moving_per_vi")?,
            rate: self.settings.rate(nic, "rate")?,
            page_bytes: self.bytes(nic, "page")?,
            page_crossing: self.settings.time(nic, "page_crossing")?,
            forwarding: self.switching(nic, "forwarding")?,
            receive_match: self.settings.time(nic, "receive_match")?,
            completion: self.settings.time(nic, "completion")?,
        })
    }

    fn hosts(&mut self) -> Option<HostsConfig> {
        let table = "hosts.bus_load";
        let bus_load = if self.settings.is_present(table) {
            let mean = self
                .settings
                .time(table, "interval")
                .map(|time| time.picoseconds() as f64);
            let (interval, size) = (self.interval(table, mean), self.size(table));
            Some(BusLoad {
                interval: interval?,
                size: size?,
            })
        } else {
            None
        };
        Some(HostsConfig {
            processes: self.count("hosts", "processes")?,
            prepost: self.count("hosts", "prepost")?,
            is_prepost_chosen: self.settings.place("hosts", "prepost").is_some(),
            send_buffers: self.count("hosts", "send_buffers")?,
            bus_load,
        })
    }

    fn traffic(&mut self) -> Option<TrafficConfig> {
        let (pattern, arrivals, size) = (self.pattern(), self.arrivals(), self.size("traffic"));
        Some(TrafficConfig {
            pattern: pattern?,
            arrivals: arrivals?,
            size: size?,
            start: self.settings.time("traffic", "start")?,
            stop: self.settings.time("traffic", "stop")?,
        })
    }

    fn listed(&mut self, host_count: Option<u32>) -> Option<TrafficConfig> {
        let (start, stop) = (
            self.settings.time("traffic", "start")?,
            self.settings.time("traffic", "stop")?,
        );
        let processes = self.count("hosts", "processes")?;
        let list = self.message_list((host_count?, processes))?;
        Some(TrafficConfig::listed(list, start, stop))
    }

    /// The list of `traffic.file`, for so many hosts of so many processes.
    fn message_list(&mut self, (hosts, processes): (u32, u32)) -> Option<Arc<MessageList>> {
        let Value::Text(path) = self.settings.value("traffic", "file")? else {
            return None;
        };
        let place = self.settings.place("traffic", "file");
        let cannot = "the list of messages cannot be used";
        let known = self.files.list(path);
        let known = known.filter(|list| list.made_for() == (hosts, processes));
        if let Some(messages) = self.files.messages(path) {
            let made = known.map_or_else(
                || MessageList::new(&messages, hosts, processes).map(Arc::new),
                Ok,
            );
            return match made {
                Ok(list) => {
                    self.files.keep_list(path, Arc::clone(&list));
                    Some(list)
                }
                Err(error) => {
                    let error = Diagnostic::error(cannot).label(error.to_string());
                    self.diagnostics.push(error.at_maybe(place));
                    None
                }
            };
        }
        // Also where the list is known: the study carries the text.
        let text = match self.files.text(path) {
            Ok(text) => text,
            Err(reason) => {
                let error = Diagnostic::error("cannot read the list of messages").at_maybe(place);
                self.diagnostics.push(error.label(reason));
                return None;
            }
        };
        if let Some(list) = known {
            return Some(list);
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
        match made {
            Ok(list) => {
                let list = Arc::new(list);
                self.files.keep_list(path, Arc::clone(&list));
                Some(list)
            }
            Err(wrong) => {
                let source = self.diagnostics.add_source(path, &text);
                let place = place_at(source, &text, wrong.line, wrong.column);
                self.diagnostics.push(
                    Diagnostic::error(cannot)
                        .at(place)
                        .label(wrong.problem)
                        .help(
                            "a message is a line of time, source, target and bytes, below their \
                             names; hosts are numbered from 0",
                        ),
                );
                None
            }
        }
    }

    fn pattern(&self) -> Option<Pattern> {
        let traffic = "traffic";
        Some(match self.choice(traffic, "pattern")? {
            "straight-line" => Pattern::StraightLine {
                hops: self.count(traffic, "hops")?,
            },
            "uniform" => Pattern::Uniform,
            "transpose" => Pattern::Transpose,
            "bit-reversal" => Pattern::BitReversal,
            "random-permutation" => Pattern::RandomPermutation,
            "neighbours" => Pattern::Neighbours,
            "hot-spot" => Pattern::HotSpot {
                hot: self.count(traffic, "hot")?,
                fraction: self.real(traffic, "fraction")?,
            },
            "incast" => Pattern::Incast {
                target: self.count(traffic, "target")?,
            },
            "all-to-all" => Pattern::AllToAll,
            "pairs" => match self.settings.value(traffic, "pairs")? {
                Value::Pairs(pairs) => Pattern::Pairs(pairs.clone()),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn arrivals(&mut self) -> Option<Arrivals> {
        Some(match self.choice("traffic", "arrivals")? {
            "ping-pong" => Arrivals::PingPong,
            "window" => Arrivals::Window(self.count("traffic", "window")?),
            _ => {
                let rate = self.real("traffic", "rate").map(|rate| 1e12 / rate);
                let interval = self.settings.time("traffic", "interval");
                let mean = rate.or_else(|| Some(interval?.picoseconds() as f64));
                Arrivals::Open(self.interval("traffic", mean)?)
            }
        })
    }

    /// The intervals that a table describes, with the mean that it gives.
    pub(crate) fn interval(
        &mut self,
        table: &str,
        mean_picoseconds: Option<f64>,
    ) -> Option<Interval> {
        let distribution = self.choice(table, "interval_distribution")?;
        let needs_mean = !matches!(distribution, "uniform" | "empirical");
        if needs_mean && mean_picoseconds.is_none() {
            self.mean_missing(table);
            return None;
        }
        let mean = mean_picoseconds.unwrap_or_default();
        let made = match distribution {
            "constant" => Interval::constant(mean),
            "uniform" => {
                let min = self.settings.time(table, "interval_min")?;
                let max = self.settings.time(table, "interval_max")?;
                if min > max {
                    self.falls(table, "interval_min", "interval_max");
                    return None;
                }
                Interval::uniform(min.picoseconds() as f64, max.picoseconds() as f64)
            }
            "pareto" => Interval::pareto(mean, self.real(table, "interval_shape")?),
            "log-normal" => Interval::log_normal(mean, self.real(table, "interval_variation")?),
            "empirical" => match self.settings.value(table, "interval_table")? {
                Value::TimeTable(points) => {
                    let point = |&(time, share): &(Time, f64)| (time.picoseconds() as f64, share);
                    Interval::empirical(points.iter().map(point).collect())
                }
                _ => return None,
            },
            _ => Interval::exponential(mean),
        };
        let mean_key = match self.settings.place(table, "rate") {
            Some(_) => "rate",
            None => "interval",
        };
        made.map_err(|error| self.distribution(table, "interval", mean_key, &error))
            .ok()
    }

    /// The open loop has neither rate nor interval; where one of them is wrong, that is said
    /// already.
    fn mean_missing(&mut self, table: &str) {
        let place_of = |key| self.settings.place(table, key);
        if table != "traffic"
            || self.settings.is_misshapen(table)
            || place_of("rate").or(place_of("interval")).is_some()
        {
            return;
        }
        self.diagnostics.push(
            Diagnostic::error("missing key `rate` or `interval` in [traffic]")
                .at(self.settings.place_or_table(table, "rate"))
                .help("add `rate = \"100/s\"`, messages a second and process, or `interval`"),
        );
    }

    /// The sizes that a table describes.
    pub(crate) fn size(&mut self, table: &str) -> Option<SizeDistribution> {
        let distribution = self.choice(table, "size_distribution")?;
        let made = match distribution {
            "uniform" | "pareto" => {
                let (min, max) = (
                    self.bytes(table, "size_min")?,
                    self.bytes(table, "size_max")?,
                );
                if min > max {
                    self.falls(table, "size_min", "size_max");
                    return None;
                }
                match distribution {
                    "uniform" => SizeDistribution::uniform(min, max),
                    _ => SizeDistribution::pareto(min, max, self.real(table, "size_shape")?),
                }
            }
            "log-normal" => SizeDistribution::log_normal(
                f64::from(self.bytes(table, "size")?),
                self.real(table, "size_variation")?,
                self.bytes(table, "size_max")?,
            ),
            "empirical" => return self.size_table(table),
            _ => Ok(SizeDistribution::constant(self.bytes(table, "size")?)),
        };
        made.map_err(|error| self.distribution(table, "size", "size", &error))
            .ok()
    }

    fn size_table(&mut self, table: &str) -> Option<SizeDistribution> {
        let Value::Text(path) = self.settings.value(table, "size_file")? else {
            return None;
        };
        let place = self.settings.place(table, "size_file");
        let text = match self.files.text(path) {
            Ok(text) => text,
            Err(reason) => {
                let error = Diagnostic::error("cannot read the table of sizes").at_maybe(place);
                self.diagnostics.push(error.label(reason));
                return None;
            }
        };
        match parse_size_cdf(&text) {
            Ok(sizes) => Some(sizes),
            Err(error) => {
                let source = self.diagnostics.add_source(path, &text);
                let place = place_at(source, &text, error.line, error.column);
                self.diagnostics.push(
                    Diagnostic::error("the table of sizes cannot be used")
                        .at(place)
                        .label(error.problem.to_string())
                        .help(
                            "each line is `size_bytes cumulative_percent`, from 0 to 100 percent",
                        ),
                );
                None
            }
        }
    }

    fn falls(&mut self, table: &str, min: &str, max: &str) {
        let error = Diagnostic::error(format!("`{min}` is above `{max}` in [{table}]"));
        self.diagnostics
            .push(error.at(self.settings.place_or_table(table, min)));
    }

    fn distribution(&mut self, table: &str, stem: &str, mean_key: &str, error: &DistributionError) {
        let key = match error {
            DistributionError::Shape { .. } => format!("{stem}_shape"),
            DistributionError::Variation { .. } => format!("{stem}_variation"),
            DistributionError::Range { .. } => format!("{stem}_min"),
            DistributionError::Mean { .. } => mean_key.to_owned(),
            _ => format!("{stem}_table"),
        };
        let place = self.settings.place_or_table(table, &key);
        let title = format!("no such distribution: `{key}` in [{table}]");
        self.diagnostics
            .push(Diagnostic::error(title).at(place).label(error.to_string()));
    }

    fn run(&self) -> Option<RunConfig> {
        let run = "run";
        Some(RunConfig {
            warmup: self.settings.time(run, "warmup")?,
            until: self.settings.time(run, "until")?,
            drain: match self.settings.value(run, "drain")? {
                Value::Boolean(drain) => *drain,
                _ => return None,
            },
            messages_max: self.whole(run, "messages_max"),
            events_max: self.whole(run, "events_max"),
            seed: self.whole(run, "seed")?,
            message_rows_max: self.count(run, "message_rows_max")?,
        })
    }
}

/// The place of a line and a column in characters, both from 1; it reaches to the next blank.
fn place_at(source: usize, text: &str, line: usize, column: usize) -> Place {
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
