//! What is wrong, or unwise, with values that are each right by themselves.

mod ways;

use viaduct_cluster::bounds::{Fullest, load_bounds};
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::workload::{MessageOperation, Pattern, PatternError};
use viaduct_engine::Time;
use viaduct_hardware::{MemoryModel, Rate};
use viaduct_network::{CongestionControl, FlowControl, Queueing, Sharing, WhenFull};

use crate::combinations::{Combination, HostsKind, Refusal, Workload};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::host_groups::Group;
use crate::network::TopologyCache;
use crate::schema::{MechanismKind, Registration};
use crate::section::Start;
use crate::settings::Settings;
use crate::stored_messages;
use crate::units::{format_rate, format_size, format_time, rough_rate};

/// A link this much faster than the NIC behind it is probably not what was meant.
const LINK_OVER_NIC_MAX: f64 = 2.0;

/// So many messages that wait for one link or host are a queue that grows.
const LEFT_OVER_MIN: f64 = 10.0;

/// Checks a scenario; the configuration is none if it could not be made, and then only what needs
/// no more than single values is checked.
pub(crate) fn check(
    settings: &Settings,
    groups: &[Group],
    config: Option<&ClusterConfig>,
    topologies: &mut TopologyCache,
    diagnostics: &mut Diagnostics,
) {
    let mut checker = Checker {
        settings,
        diagnostics,
    };
    checker.times();
    checker.link_against_nic();
    let Some(config) = config else { return };
    checker.pattern(config, topologies);
    checker.operations(config, groups);
    checker.adapter_choice(config);
    checker.scheduling(config);
    checker.transfer_size(config);
    checker.frames(config);
    let stored = stored_messages::warning(settings, config);
    if let Some(warning) = stored {
        checker.diagnostics.push(warning);
    }
    checker.registration(config);
    checker.buffers(config);
    checker.channels(config);
    checker.ways(config);
    checker.closed_loop(config);
    checker.listed(config);
    checker.listed_load(config);
    checker.offered_load(config);
    checker.bus_load(config);
}

/// Bytes of the longest frame of a study's own messages, with its header.
fn longest_frame(config: &ClusterConfig) -> u64 {
    let frame = config.links.frame;
    let payload = match frame.payload_bytes {
        0 => config.traffic.size.max_bytes(),
        payload => payload,
    };
    u64::from(payload) + u64::from(frame.header_bytes)
}

struct Checker<'a> {
    settings: &'a Settings,
    diagnostics: &'a mut Diagnostics,
}

impl Checker<'_> {
    fn times(&mut self) {
        let (run, traffic) = (&self.settings.run, &self.settings.traffic);
        let (until, warmup) = (run.until.known(), run.warmup.known());
        let start = match traffic.start.known() {
            Some(Start::At(start)) => Some(start),
            // The warm-up is wrong.
            Some(Start::AfterWarmup) | None => None,
        };
        let stop = traffic.stop.known();
        if until == Some(Time::ZERO) {
            let error = Diagnostic::error("the run ends where it begins");
            self.diagnostics.push(error.at(run.until.place()));
            return;
        }
        if let (Some(until), Some(warmup)) = (until, warmup)
            && warmup >= until
        {
            let (warmup, until) = (format_time(warmup), format_time(until));
            self.diagnostics.push(
                Diagnostic::error("no message would be counted")
                    .at(run.warmup.place())
                    .label(format!("the warm-up of {warmup} reaches the end, {until}"))
                    .help("make `warmup` shorter or `until` later"),
            );
            return;
        }
        let (Some(start), Some(stop)) = (start, stop) else {
            return;
        };
        if start >= stop {
            let (start, stop) = (format_time(start), format_time(stop));
            let place = match traffic.stop.is_given() {
                true => traffic.stop.place(),
                false => traffic.start.place(),
            };
            self.diagnostics.push(
                Diagnostic::error("no message would be posted")
                    .at(place)
                    .label(format!("the traffic starts at {start} and stops at {stop}"))
                    .help("`stop`, or `run.until` without it, must be later than `start`"),
            );
            return;
        }
        if warmup.is_some_and(|warmup| warmup >= stop) {
            let stop = format_time(stop);
            self.diagnostics.push(
                Diagnostic::error("no message would be counted")
                    .at(run.warmup.place())
                    .label(format!("the traffic stops at {stop}, within the warm-up"))
                    .help("make `warmup` shorter or `traffic.stop` later"),
            );
        } else if until.is_some_and(|until| stop > until) {
            self.diagnostics.push(
                Diagnostic::warning("`traffic.stop` lies behind the end of the run")
                    .at(traffic.stop.place())
                    .help("leave it out, or make `run.until` later"),
            );
        }
    }

    /// A link that no NIC can fill: by a slip of bits and bytes an error, else a warning.
    fn link_against_nic(&mut self) {
        let links = &self.settings.links;
        let nic = self.settings.hardware.adapter.native();
        let nic = nic.and_then(|nic| nic.rate.known());
        let (Some(link), Some(nic)) = (links.host_rate.known(), nic) else {
            return;
        };
        if nic.is_infinite() || link.bits_per_second() < LINK_OVER_NIC_MAX * nic.bits_per_second() {
            return;
        }
        let rates = [&links.host_rate, &links.rate, &links.signal_rate];
        let given = rates
            .iter()
            .find_map(|rate| Some((rate.key.name, rate.given()?)));
        let Some((key, given)) = given else { return };
        let in_bytes = given.written.contains("B/s") || given.written.contains("Byte/s");
        let as_bits = Rate::from_bits_per_second(link.bits_per_second() / 8.0);
        let label = format!("this NIC tops out at {}", format_rate(nic));
        let fits = as_bits.bits_per_second() <= LINK_OVER_NIC_MAX * nic.bits_per_second();
        if in_bytes && fits {
            let meant = in_bits(&given.written).unwrap_or_else(|| format_rate(as_bits));
            self.diagnostics.push(
                Diagnostic::error(format!("{key} is above what the NIC can inject"))
                    .at(given.place)
                    .label(label)
                    .help(format!("did you mean \"{meant}\"?")),
            );
        } else {
            self.diagnostics.push(
                Diagnostic::warning(format!("{key} is above what the NIC can inject"))
                    .at(given.place)
                    .label(label)
                    .help("a faster NIC: hosts.nic, or rate in [hosts.model.nic]"),
            );
        }
    }

    fn pattern(&mut self, config: &ClusterConfig, topologies: &mut TopologyCache) {
        if config.traffic.application().is_some() {
            return;
        }
        let adapters = config.hosts.adapters.count;
        let fit = topologies.fit(&config.traffic.pattern, &config.topology, adapters);
        let Err(error) = fit else {
            return;
        };
        let traffic = &self.settings.traffic;
        let place = match error {
            PatternError::NoHops
            | PatternError::ReturnsToSource { .. }
            | PatternError::LeadsOutside { .. } => traffic.hops.place(),
            PatternError::ToItself { .. } | PatternError::TooManyPairs { .. } => {
                traffic.pairs.place()
            }
            PatternError::Fraction { .. } => traffic.fraction.place(),
            PatternError::NoSuchHost { .. } => match config.traffic.pattern {
                Pattern::HotSpot { .. } => traffic.hot.place(),
                Pattern::Incast { .. } => traffic.target.place(),
                _ => traffic.pairs.place(),
            },
            _ => traffic.pattern.place(),
        };
        self.diagnostics.push(
            Diagnostic::error("the pattern does not fit the network")
                .at(place)
                .label(error.to_string()),
        );
    }

    /// What the table of combinations says of the messages.
    fn operations(&mut self, config: &ClusterConfig, groups: &[Group]) {
        // A preset that says nothing of it is of native adapters.
        let mechanism = &self.settings.hardware.model.mechanism;
        let adapter = mechanism.known().unwrap_or(MechanismKind::Native);
        let traffic = &config.traffic;
        let is_answered = matches!(traffic.arrivals, Arrivals::PingPong);
        let is_of_ranks = traffic.application().is_some() && config.interfaces.is_some();
        let workload = match is_of_ranks {
            true => Workload::Endpoints,
            false => Workload::Traffic,
        };
        // What a study leaves out is not asked for.
        let has_level = !is_of_ranks || self.settings.traffic.reliability.is_given();
        let all = MessageOperation::ALL.into_iter();
        let combinations = all
            .filter(|it| traffic.has(*it))
            .map(|operation| Combination {
                workload,
                adapter,
                operation,
                is_answered,
                level: Some(traffic.reliability).filter(|_| has_level),
                disturbance: None,
                // Those that do not understand each other were refused when they were read.
                hosts: HostsKind::of(&config.host, config.hosts.adapters),
            });
        let refused = combinations.filter_map(|it| Refusal::of(&it)).next();
        let Some(refusal @ Refusal { reason, help, .. }) = refused else {
            return;
        };
        let (keys, hosts) = (&self.settings.traffic, &self.settings.hosts);
        let is = |other: Refusal| refusal.reason == other.reason;
        let place = match traffic.arrivals {
            _ if is(Refusal::ONE_ADAPTER) => hosts.adapters.place(),
            _ if is(Refusal::OWN_TRANSPORT) => keys.reliability.place(),
            _ if is(Refusal::OWN_MESSAGES) => keys.operation.place(),
            _ if is(Refusal::ALIKE_INTERFACES) => {
                groups.first().map_or(hosts.nic.place(), Group::place)
            }
            _ if config.interfaces.is_some() => hosts.nic.place(),
            Arrivals::Listed(_) => keys.file.place(),
            Arrivals::Application(_) => keys.arrivals.place(),
            Arrivals::Open(_) | Arrivals::PingPong | Arrivals::Window(_) => keys.operation.place(),
        };
        let error = Diagnostic::error(*reason).at(place).help(*help);
        self.diagnostics.push(error);
    }

    /// A scheduler where no processor is shared, or none of the simulation's.
    fn scheduling(&mut self, config: &ClusterConfig) {
        let Some(table) = &self.settings.scheduling else {
            return;
        };
        let label = match (&config.interfaces, config.hosts.processors) {
            (Some(_), Some(_)) => return,
            (Some(_), None) => "ranks have processors of their own: set hosts.processors to 1",
            (None, _) => "ranks take turns where interfaces have endpoints: hosts.nic",
        };
        let error = Diagnostic::error("[hosts.scheduler] has no effect here");
        self.diagnostics
            .push(error.at(table.quantum.place()).label(label));
    }

    /// Whether messages say of themselves which adapter they take, if that is asked.
    fn adapter_choice(&mut self, config: &ClusterConfig) {
        let adapters = config.hosts.adapters;
        if let Some(host) = config.unlike_adapters() {
            self.diagnostics.push(
                Diagnostic::error("adapters on one bus are not alike")
                    .at(self.settings.hosts.adapters.place())
                    .label(format!(
                        "those of host {host} are in several groups of hosts"
                    ))
                    .help("set hosts.buses to \"own\", or have all places of a host in one group"),
            );
        }
        let is_asked = adapters.count > 1 && adapters.choice.is_of_graphs();
        if is_asked && config.traffic.application().is_none() {
            self.diagnostics.push(
                Diagnostic::error("these messages take one adapter, and name none")
                    .at(self.settings.hosts.adapter_choice.place())
                    .label("only operations of a graph name one, or go in stripes")
                    .help("take \"flow\", \"round-robin\", \"process\" or \"peer\""),
            );
        }
    }

    fn transfer_size(&mut self, config: &ClusterConfig) {
        let Some(key) = self.settings.hardware.adapter.transfer_max() else {
            return;
        };
        let table = key.table.name;
        let limits = config.host.values().map(|host| host.transfer_max_bytes);
        let limit = limits.min().unwrap_or(u32::MAX);
        let largest = config.traffic.size.max_bytes();
        if largest <= limit {
            return;
        }
        let who = match config.host.are_alike() {
            true => "this NIC takes",
            false => "the NICs of some hosts take",
        };
        let (traffic, sizes) = (&self.settings.traffic, &self.settings.traffic.sizes);
        let places = [
            sizes.size.given(),
            sizes.size_max.given(),
            sizes.size_file.given(),
            traffic.file.given(),
        ];
        let place = places.into_iter().flatten().next();
        let place = place.map_or(sizes.size.place(), |given| given.place);
        let (largest, limit) = (format_size(largest.into()), format_size(limit.into()));
        self.diagnostics.push(
            Diagnostic::error("a message is larger than one descriptor takes")
                .at(place)
                .label(format!("up to {largest}; {who} {limit}"))
                .help(format!(
                    "send at most {limit}, or raise transfer_max in [{table}]"
                )),
        );
    }

    /// A message that is one frame is stored and queued as a whole, which few networks do.
    fn frames(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        let goes_by_frames = config.links.sharing.goes_in_pieces();
        if goes_by_frames && !links.frame_payload.is_given() {
            self.diagnostics.push(
                Diagnostic::warning("each message is one frame, however long it is")
                    .at(links.model.place())
                    .label("frames go one by one, and nothing says how long they are")
                    .help(
                        "set links.frame_payload, as in \"1500 B\"; \"0 B\" if one frame a \
                         message is meant",
                    ),
            );
        }
    }

    /// Memory that is registered for each message, at no cost.
    fn registration(&mut self, config: &ClusterConfig) {
        let registration = &self.settings.traffic.registration;
        let mut hosts = config.host.values();
        if registration.known() == Some(Registration::Each)
            && hosts.all(|host| host.memory == MemoryModel::FREE)
        {
            self.diagnostics.push(
                Diagnostic::warning("registering memory takes no time on these hosts")
                    .at(registration.place())
                    .label("this changes nothing")
                    .help(
                        "say what it takes: hosts.model.memory.register = \"16 us\", and \
                         `register_rate`; or leave it out",
                    ),
            );
        }
    }

    /// Channels against their classes, and what one holds against frames and flits.
    fn channels(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        let credits = config.links.credits;
        if config.links.sharing != Sharing::Credits {
            return;
        }
        let (channels, classes) = (credits.channels, credits.classes);
        if !channels.is_multiple_of(classes) {
            self.diagnostics.push(
                Diagnostic::error("channels do not divide into classes")
                    .at(links.virtual_channels.place())
                    .label(format!(
                        "{channels} channels, and {classes} classes of equal size"
                    ))
                    .help(
                        "set links.virtual_channels to a multiple of links.channel_classes, or \
                         leave one of them out",
                    ),
            );
        }
        let Some(held) = credits.buffer_bytes else {
            return;
        };
        let flit = u64::from(credits.flit_bytes);
        let (needed, what) = match credits.flow_control {
            FlowControl::Wormhole => (flit, "a flit has"),
            FlowControl::VirtualCutThrough => (longest_frame(config), "frames have up to"),
        };
        let needed = needed.next_multiple_of(flit);
        if held < needed {
            let (held, needed) = (format_size(held), format_size(needed));
            self.diagnostics.push(
                Diagnostic::error("a channel cannot hold what must have room in it")
                    .at(links.channel_buffer.place())
                    .label(format!("it holds {held}; in whole flits {what} {needed}"))
                    .help(
                        "raise links.channel_buffer, have shorter frames by links.frame_payload, or \
                         set links.flow_control to \"wormhole\"",
                    ),
            );
        }
    }

    /// What switches need that trim frames.
    fn trims(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        if config.links.buffers.full != WhenFull::Trim {
            return;
        }
        if !config.links.buffers.is_limited() {
            self.diagnostics.push(
                Diagnostic::warning("no frame will be trimmed")
                    .at(links.full.place())
                    .label("one is that finds a queue full, and `buffer` has no limit")
                    .help(
                        "set links.buffer to what an output queue of a switch holds, as in \
                         \"128 KiB\"",
                    ),
            );
        } else if config.links.frame.payload_bytes == 0 {
            self.diagnostics.push(
                Diagnostic::error("switches that trim need frames")
                    .at(links.full.place())
                    .label("one frame a message is as long as a message")
                    .help("set links.frame_payload, as in \"4 KiB\""),
            );
        }
    }

    /// What senders need that keep windows.
    fn windows(&mut self, config: &ClusterConfig) {
        let control = &self.settings.links.congestion_control;
        if control.known() == Some(CongestionControl::Nscc) && config.links.frame.payload_bytes == 0
        {
            self.diagnostics.push(
                Diagnostic::error("windows are counted in frames")
                    .at(control.place())
                    .label("one frame a message is as long as a message")
                    .help("set links.frame_payload, as in \"4 KiB\""),
            );
        }
    }

    /// What switches need that have links pause.
    fn pauses(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        let buffers = config.links.buffers;
        let WhenFull::Pause { headroom_bytes } = buffers.full else {
            if let Some(given) = links.pause_headroom.given() {
                self.diagnostics.push(
                    Diagnostic::error("`pause_headroom` in [links] has no effect here")
                        .at(given.place)
                        .label("no link is told to pause")
                        .help("set links.full = \"pause\", or leave this out"),
                );
            }
            return;
        };
        if !buffers.is_limited() {
            self.diagnostics.push(
                Diagnostic::warning("no link will be told to pause")
                    .at(links.full.place())
                    .label("it is when a switch is nearly full, and `buffer` has no limit")
                    .help(
                        "set links.buffer to what a switch holds of frames that came by one \
                         link, as in \"128 KiB\", or links.shared_buffer to what it holds of all",
                    ),
            );
            return;
        }
        let frame = config.links.frame;
        if frame.payload_bytes == 0 {
            self.diagnostics.push(
                Diagnostic::error("links that pause need frames")
                    .at(links.full.place())
                    .label("one frame a message is as long as a message")
                    .help("set links.frame_payload, as in \"4 KiB\""),
            );
            return;
        }
        let longest = u64::from(frame.payload_bytes) + u64::from(frame.header_bytes);
        let needed = config.links.pause_headroom(&config.topology, config.switch);
        let headroom = headroom_bytes.unwrap_or(needed);
        if let Some(room) = buffers.bytes_max
            && room < headroom + longest
        {
            let (held, kept) = (format_size(room), format_size(headroom));
            let least = format_size(headroom + 4 * longest);
            self.diagnostics.push(
                Diagnostic::error("links would pause for every frame")
                    .at(links.buffer.place())
                    .label(format!(
                        "it holds {held}, and {kept} of this are kept for what comes after the pause"
                    ))
                    .help(format!(
                        "raise links.buffer to {least} or more; the longer and faster a link, the \
                         more it takes"
                    )),
            );
        } else if headroom < needed {
            let (kept, needed) = (format_size(headroom), format_size(needed));
            self.diagnostics.push(
                Diagnostic::warning("frames may be lost though links pause")
                    .at(links.pause_headroom.place())
                    .label(format!(
                        "up to {needed} come after the pause, and {kept} are kept"
                    ))
                    .help("leave links.pause_headroom out: then it is as much as the links take"),
            );
        }
    }

    /// What queues hold that share the memory of their switch.
    fn shared_memory(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        let buffers = config.links.buffers;
        let Some(shared) = buffers.shared else {
            if let Some(given) = links.alpha.given() {
                self.diagnostics.push(
                    Diagnostic::error("`alpha` in [links] has no effect here")
                        .at(given.place)
                        .label("no queues share a memory")
                        .help("set links.shared_buffer, as in \"16 MiB\", or leave this out"),
                );
            }
            return;
        };
        if !(shared.alpha > 0.0 && shared.alpha.is_finite()) {
            self.diagnostics.push(
                Diagnostic::error("a queue would hold nothing")
                    .at(links.alpha.place())
                    .label("`alpha` is above 0")
                    .help("set links.alpha as switches have it: 0.125 to 8"),
            );
            return;
        }
        let longest = longest_frame(config);
        if matches!(buffers.full, WhenFull::Pause { .. }) {
            let links_of = &config.links;
            let kept = links_of.pause_headroom_of_switch(&config.topology, config.switch);
            if shared.threshold(kept) < longest {
                let (held, kept_size) = (format_size(shared.bytes), format_size(kept));
                let beside = (4.0 * longest as f64 * (1.0 + 1.0 / shared.alpha)) as u64;
                self.diagnostics.push(
                    Diagnostic::error("links would pause for every frame")
                        .at(links.shared_buffer.place())
                        .label(format!(
                            "a switch holds {held}, and {kept_size} of this are kept for what \
                             comes by its links after the pause"
                        ))
                        .help(format!(
                            "raise links.shared_buffer to {} or more; the more links a switch has, \
                             and the longer and faster they are, the more it takes",
                            format_size(kept + beside)
                        )),
                );
            }
            return;
        }
        let most = shared.longest();
        if most < longest {
            let (held, longest) = (format_size(most), format_size(longest));
            self.diagnostics.push(
                Diagnostic::error("a queue cannot hold a frame")
                    .at(links.shared_buffer.place())
                    .label(format!(
                        "of an empty one it may hold {held}, and frames have up to {longest}"
                    ))
                    .help("raise links.shared_buffer or links.alpha"),
            );
        }
    }

    /// What queues hold and mark against each other, and against frames.
    fn buffers(&mut self, config: &ClusterConfig) {
        let links = &self.settings.links;
        let buffers = config.links.buffers;
        let longest = longest_frame(config);
        if let Some(bytes_max) = buffers.bytes_max
            && bytes_max < longest
        {
            let (held, longest) = (format_size(bytes_max), format_size(longest));
            self.diagnostics.push(
                Diagnostic::error("a queue cannot hold a frame")
                    .at(links.buffer.place())
                    .label(format!("it holds {held}, and frames have up to {longest}"))
                    .help(
                        "raise links.buffer to some frames, or have shorter ones: links.frame_payload",
                    ),
            );
        }
        self.shared_memory(config);
        self.trims(config);
        self.pauses(config);
        self.windows(config);
        if buffers.queueing == Queueing::Fair && config.links.frame.payload_bytes == 0 {
            self.diagnostics.push(
                Diagnostic::error("flows that take turns need frames")
                    .at(links.queueing.place())
                    .label("one frame a message is as long as a message")
                    .help("set links.frame_payload, as in \"1500 B\""),
            );
        }
        let Some(marking) = buffers.marking else {
            let control = &links.congestion_control;
            if control
                .known()
                .is_some_and(|it| it != CongestionControl::None)
            {
                self.diagnostics.push(
                    Diagnostic::error("no sender would ever slow down")
                        .at(control.place())
                        .label("it does when its frames are marked, and none is without `ecn_low`")
                        .help(match control.known() {
                            Some(CongestionControl::Nscc) => {
                                "set links.ecn_low and `ecn_high`, to a fifth and four fifths of \
                                 what a link carries in an unloaded round trip"
                            }
                            _ => {
                                "set links.ecn_low, and `ecn_high` and `ecn_probability`, as in \
                                 \"5 KB\", \"200 KB\" and \"1 %\""
                            }
                        }),
                );
            }
            // A resolved scenario has what is usual.
            let is_usual = links.ecn_probability.known() == Some(1.0);
            let probability = links.ecn_probability.given().filter(|_| !is_usual);
            for (name, place) in [
                ("ecn_high", links.ecn_high.given()),
                ("ecn_probability", probability),
            ] {
                if let Some(given) = place {
                    self.diagnostics.push(
                        Diagnostic::error(format!("`{name}` in [links] has no effect here"))
                            .at(given.place)
                            .label("no frame is marked without `ecn_low`")
                            .help("set links.ecn_low, as in \"100 KB\", or leave this out"),
                    );
                }
            }
            return;
        };
        if marking.high_bytes < marking.low_bytes {
            let (low, high) = (
                format_size(marking.low_bytes),
                format_size(marking.high_bytes),
            );
            self.diagnostics.push(
                Diagnostic::error("marking ends before it begins")
                    .at(links.ecn_high.place())
                    .label(format!("{high} is less than links.ecn_low, {low}"))
                    .help("make `ecn_high` at least `ecn_low`"),
            );
        }
        if buffers
            .bytes_max
            .is_some_and(|most| marking.low_bytes >= most)
        {
            self.diagnostics.push(
                Diagnostic::warning("no frame will be marked")
                    .at(links.ecn_low.place())
                    .label("a queue is full before it holds as much")
                    .help("make `ecn_low` less than `buffer`"),
            );
        }
        if links.congestion_control.given().is_none() {
            self.diagnostics.push(
                Diagnostic::warning("links mark frames, and no sender heeds the marks")
                    .at(links.ecn_low.place())
                    .label("frames are marked beyond this, and counted")
                    .help(
                        "set links.congestion_control to \"dcqcn\" or \"nscc\", or to \"none\" if \
                         that is meant",
                    ),
            );
        }
    }

    fn closed_loop(&mut self, config: &ClusterConfig) {
        let Arrivals::Window(window) = config.traffic.arrivals else {
            return;
        };
        let needed = u64::from(window) * u64::from(config.hosts.processes);
        if needed > u64::from(config.hosts.send_buffers) {
            let buffers = config.hosts.send_buffers;
            self.diagnostics.push(
                Diagnostic::warning("the window is larger than the pool of send buffers")
                    .at(self.settings.traffic.window.place())
                    .label(format!(
                        "{needed} messages a host wait for {buffers} buffers"
                    ))
                    .help(format!("raise hosts.send_buffers to {needed}")),
            );
        }
    }

    /// Says how much of a list comes too late to be posted.
    fn listed(&mut self, config: &ClusterConfig) {
        let traffic = &config.traffic;
        let Arrivals::Listed(list) = &traffic.arrivals else {
            return;
        };
        let posted = list.count_before(traffic.stop.saturating_sub(traffic.start));
        let late = list.len() - posted;
        if late == 0 {
            return;
        }
        let (start, stop) = (format_time(traffic.start), format_time(traffic.stop));
        let label = format!("the traffic starts at {start} and stops at {stop}");
        let diagnostic = match posted {
            0 => Diagnostic::error("no message of the list would be posted"),
            _ => Diagnostic::warning(format!(
                "{late} of {} messages of the list come too late to be posted",
                list.len()
            )),
        };
        self.diagnostics.push(
            diagnostic
                .at(self.settings.traffic.file.place())
                .label(label)
                .help("make `traffic.stop`, or `run.until` without it, later"),
        );
    }

    /// Warns where a list gives a link or a part of a host more than it can do.
    fn listed_load(&mut self, config: &ClusterConfig) {
        if !matches!(config.traffic.arrivals, Arrivals::Listed(_)) {
            return;
        }
        // What is wrong with the hosts has been said.
        let Ok(Some(bounds)) = load_bounds(config) else {
            return;
        };
        let Some(list) = bounds.list else {
            return;
        };
        // A few messages that are posted close together are no overload.
        let many = |fullest: &Fullest| fullest.left_over >= LEFT_OVER_MIN;
        let Some(fullest) = list.fullest.filter(many) else {
            return;
        };
        let place = &fullest.place;
        let (percent, left_over) = (fullest.load * 100.0, fullest.left_over.floor());
        self.diagnostics.push(
            Diagnostic::warning(format!("the list gives {place} more than it can do"))
                .at(self.settings.traffic.file.place())
                .label(format!(
                    "{percent:.0} % in the {} in which messages are posted; {left_over} are left then",
                    format_time(list.span)
                ))
                .help("queues will grow meanwhile; send less, or spread the times"),
        );
    }

    /// Warns where an open loop offers more than a resource that all of a host's messages share.
    fn offered_load(&mut self, config: &ClusterConfig) {
        let Arrivals::Open(interval) = &config.traffic.arrivals else {
            return;
        };
        if config.hosts.adapters.count > 1 {
            // What each adapter is offered hangs on which of them messages take.
            return;
        }
        let a_host = f64::from(config.hosts.processes) * config.traffic.size.mean_bytes() * 8e12
            / interval.mean_picoseconds();
        let hosts = f64::from(config.topology.host_count());
        let links = &config.links;
        let mut limits = vec![("the host's link", a_host, links.host_rate)];
        for host in config.host.values() {
            let nic = host
                .mechanism
                .native()
                .map(|nic| ("the NIC", a_host, nic.rate));
            limits.extend(nic);
            limits.push(("the host's bus", a_host, host.bus.dma_rate()));
        }
        match config.traffic.pattern {
            Pattern::Incast { .. } => {
                limits.push(("the target's link", a_host * (hosts - 1.0), links.host_rate));
            }
            Pattern::HotSpot { fraction, .. } => {
                let offered = a_host * (hosts - 1.0) * fraction;
                limits.push(("the hot host's link", offered, links.host_rate));
            }
            Pattern::StraightLine { hops } => {
                limits.extend(straight_line_load(config, a_host, hops));
            }
            _ => {}
        }
        let load = |(_, offered, rate): &(&str, f64, Rate)| offered / rate.bits_per_second();
        let worst = limits
            .into_iter()
            .max_by(|a, b| load(a).total_cmp(&load(b)));
        let Some(worst) = worst.filter(|worst| load(worst) >= 1.0) else {
            return;
        };
        let percent = load(&worst) * 100.0;
        let (what, offered, rate) = worst;
        let (offered, rate) = (rough_rate(offered), rough_rate(rate.bits_per_second()));
        let traffic = &self.settings.traffic;
        let place = match traffic.rate.is_given() {
            true => traffic.rate.place(),
            false => traffic.interval.place(),
        };
        self.diagnostics.push(
            Diagnostic::warning(format!("more is offered than {what} can carry"))
                .at(place)
                .label(format!("{offered} of {rate}: {percent:.0} %"))
                .help("queues will grow until the traffic stops; latencies then say little"),
        );
    }

    fn bus_load(&mut self, config: &ClusterConfig) {
        let (Some(load), Some(keys)) = (&config.hosts.bus_load, &self.settings.bus_load) else {
            return;
        };
        let offered = load.size.mean_bytes() * 8e12 / load.interval.mean_picoseconds();
        let Some(rate) = slowest_bus(config) else {
            return;
        };
        if offered >= rate.bits_per_second() {
            let percent = offered / rate.bits_per_second() * 100.0;
            let (offered, rate) = (rough_rate(offered), rough_rate(rate.bits_per_second()));
            self.diagnostics.push(
                Diagnostic::warning("the other devices alone fill the bus")
                    .at(keys.interval.place())
                    .label(format!("{offered} of {rate}: {percent:.0} %"))
                    .help("make `interval` longer or `size` smaller"),
            );
        }
    }
}

/// What straight lines bring on a link between switches of a torus: each message crosses `hops`
/// links, and they are spread evenly.
fn straight_line_load(
    config: &ClusterConfig,
    a_host: f64,
    hops: u32,
) -> Option<(&'static str, f64, Rate)> {
    let topology = &config.topology;
    let switch_links = topology
        .link_count()
        .checked_sub(2 * topology.host_count())?;
    if switch_links == 0 {
        return None;
    }
    let crossed = a_host * f64::from(topology.host_count()) * f64::from(hops);
    Some((
        "a link between switches",
        crossed / f64::from(switch_links),
        config.links.rate,
    ))
}

/// The rate of the hosts' slowest bus.
fn slowest_bus(config: &ClusterConfig) -> Option<Rate> {
    let rates = config.host.values().map(|host| host.bus.dma_rate());
    rates.min_by(|one, other| one.bits_per_second().total_cmp(&other.bits_per_second()))
}

/// A rate written in bytes, written in bits instead.
fn in_bits(written: &str) -> Option<String> {
    let text = written.trim_matches('"');
    let stem = text
        .strip_suffix("Byte/s")
        .or_else(|| text.strip_suffix("B/s"))?;
    // `MiB/s` has no counterpart in bits.
    (!stem.ends_with('i')).then(|| format!("{stem}bit/s"))
}
