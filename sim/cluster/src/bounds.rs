//! What a configuration asks of its links and hosts before anything is run, and where it ends.
//!
//! An open-loop process offers so many messages a second, of so many bytes, to targets of known
//! probability over known routes. So the expected load of each link and host is known, and with
//! it the rate at which the busiest of them is full. A run can only be slower: queues form before.
//! A list of messages says all of that message by message.

mod listed;
mod shares;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkClass, LinkId, Node, Topology};

use crate::config::{Arrivals, ClusterConfig, TrafficConfig};
use crate::path::leg_of;
use crate::workload::{MessageOperation, PatternError, SizeDistribution, Targets};
use viaduct_hardware::mechanism::{Mover, Plan};
use viaduct_hardware::{HostModel, Leg, Notice, Pair, Step};
use viaduct_network::Sharing;

pub use shares::ROUTE_STEPS_MAX;
use shares::{Degree, Parts, Shares};

/// The expected load of links and hosts, 1 is full; above 1, more is offered than can be carried.
///
/// It is that of the time in which messages are posted. A list's is that of the time in which the
/// run measures, as the measured utilisation is: from `warmup` to the last message's arrival, which
/// no run sees earlier, and not beyond `until`. [`Self::list`] has what it asks in its own time.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBounds {
    /// Links by class; classes without links are left out.
    pub classes: Vec<ClassLoad>,
    /// The hosts' processors: posting, taking completions, interrupts.
    pub processor: ServerLoad,
    /// The hosts' buses: data, doorbells, descriptors, status words, other devices.
    pub bus: ServerLoad,
    /// The NICs' stage that reads send descriptors.
    pub nic_send: ServerLoad,
    /// The NICs' stage that reads receive descriptors.
    pub nic_receive: ServerLoad,
    /// Where offering more ends; none if nothing in the way of a message has a limit.
    pub saturation: Option<Saturation>,
    /// Whether the links' figures are from a sample of routes, because all would be more than
    /// [`ROUTE_STEPS_MAX`] steps. The mean is then off by well below 1 %; the maximum is rather
    /// too high, by a few percent for some thousand links, more for more.
    pub is_sampled: bool,
    /// Of a list of messages, what it asks in its own time.
    pub list: Option<ListLoad>,
}

/// What a list of messages asks in its own time.
#[derive(Clone, Debug, PartialEq)]
pub struct ListLoad {
    /// From the first message that is posted to the last.
    pub span: Time,
    /// How long the messages keep one server busy, the one with most to do: no run of the list is
    /// shorter.
    pub work: Time,
    /// Which server that is: `link s0-0 -> s1-0`, `bus of n0-0-0`.
    pub place: String,
    /// The server with the highest load while messages are posted; none if all are posted at one
    /// time.
    pub fullest: Option<Fullest>,
}

/// A server's load from the first message to the last, without those posted at the last moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Fullest {
    /// Above 1 messages queue for it: more is posted than it can do.
    pub load: f64,
    /// Which server it is.
    pub place: String,
    /// How many messages are left at the last moment of those posted before, 0 if `load` is 1 or
    /// less.
    pub left_over: f64,
}

/// The expected utilisation of the links of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassLoad {
    /// Which links.
    pub class: LinkClass,
    /// Mean and busiest.
    pub load: ServerLoad,
}

/// The expected utilisation of some servers, 0 upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerLoad {
    /// Mean over the servers.
    pub mean: f64,
    /// The busiest server's.
    pub max: f64,
}

/// The rate at which the busiest link, bus, NIC, VI or processor is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// Messages a second of each process that sends.
    pub rate_per_s: f64,
    /// What is full then: `link s0-0 -> s1-0`, `bus of n0-0-0`.
    pub place: String,
    /// The rule that the bound is for.
    pub sharing: Sharing,
    /// Whether queues grow without end at a lower rate already: shares of a link or bus are lost to
    /// messages that are held back elsewhere. No closed form tells at which.
    pub is_reached_before: bool,
}

impl Saturation {
    /// `saturates at`, or `saturates below`.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        if self.is_reached_before {
            "saturates below"
        } else {
            "saturates at"
        }
    }
}

impl LoadBounds {
    /// The expected load of the busiest link.
    #[must_use]
    pub fn busiest_link(&self) -> f64 {
        let loads = self.classes.iter().map(|class| class.load.max);
        loads.fold(0.0, f64::max)
    }
}

/// The expected loads of an open-loop configuration; none for closed loops, which offer as much
/// as is answered, and where hosts have several adapters or a number of processors.
///
/// # Errors
///
/// When the pattern does not fit the network.
pub fn load_bounds(config: &ClusterConfig) -> Result<Option<LoadBounds>, PatternError> {
    let (hosts, seed) = (&config.hosts, config.run.seed);
    let is_drawn = matches!(
        config.traffic.arrivals,
        Arrivals::Open(_) | Arrivals::Listed(_)
    );
    if is_drawn && (hosts.adapters.count > 1 || hosts.processors.is_some()) {
        let (pattern, adapters) = (&config.traffic.pattern, hosts.adapters.count);
        Targets::between(pattern, &config.topology, adapters, seed)?;
        return Ok(None);
    }
    let interval = match &config.traffic.arrivals {
        Arrivals::Open(interval) => interval,
        Arrivals::Listed(list) => return listed::load_bounds(config, list).map(Some),
        Arrivals::PingPong | Arrivals::Window(_) | Arrivals::Application(_) => return Ok(None),
    };
    let topology = &*config.topology;
    let targets = Targets::new(&config.traffic.pattern, &config.topology, config.run.seed)?;
    let processes = f64::from(config.hosts.processes);
    let rate = processes / interval.mean_picoseconds();
    let costs = costs_by_group(config);
    // All adapters cut messages alike.
    let [there, back] = costs[0].wire_bytes;
    let wire_bytes = there + back;
    let parts = match back {
        0.0 => Parts::THERE,
        back => Parts {
            there: there / wire_bytes,
            back: back / wire_bytes,
        },
    };
    let shares = shares::link_shares(topology, &targets, config.hosts.processes, parts);

    let mut busiest = Busiest::default();
    let mut classes = Classes::default();
    for entry in &shares.entries {
        let time = entry.share * wire_bytes / config.link_rate(entry.link).bytes_per_picosecond();
        busiest.offer(time, 0.0, Place::Link(entry.link));
        classes.add(topology, entry.link, rate * time, entry.count);
    }

    let hosts = like_hosts(config, &shares);
    let mut server = |name, time_of: &dyn Fn(&Degree, &HostCosts) -> f64| {
        let mut load = ServerLoad::default();
        for &(host, degree, count) in &hosts {
            let base = base_load(config, name, host.0);
            let time = time_of(degree, &costs[config.host.group(host.0)]);
            busiest.offer(time, base, Place::Host(name, host));
            let used = base + rate * time;
            load.mean += used * count;
            load.max = load.max.max(used);
        }
        load.mean /= f64::from(topology.host_count());
        load
    };
    let processor = server("processor", &|host, costs| {
        host.sends * costs.source.processor + host.receives * costs.target.processor
    });
    let bus = server(BUS, &|host, costs| {
        host.sends * costs.source.bus + host.receives * costs.target.bus
    });
    let nic_send = server("sending NIC", &|host, costs| {
        host.sends * costs.source.nic_send + host.receives * costs.target.nic_send
    });
    let nic_receive = server("receiving NIC", &|host, costs| {
        host.sends * costs.source.nic_receive + host.receives * costs.target.nic_receive
    });
    // Each process has its own VIs.
    server("a VI", &|host, costs| {
        host.busiest_peer * costs.vi / processes
    });

    Ok(Some(LoadBounds {
        classes: classes.into_means(topology),
        processor,
        bus,
        nic_send,
        nic_receive,
        saturation: busiest.saturation(topology, processes, config.links.sharing),
        is_sampled: shares.is_sampled,
        list: None,
    }))
}

/// What a mean message asks of hosts of each group, whose peers are taken to be like them; its VI
/// is kept no longer than to the peers that are quickest.
fn costs_by_group(config: &ClusterConfig) -> Vec<HostCosts> {
    let TrafficConfig {
        size, operation, ..
    } = &config.traffic;
    let costs = |pair| HostCosts::new(config, pair, size, *operation);
    let of_model = |(group, model)| {
        let own = costs(Pair::alike(model));
        let others = (0..).zip(config.host.values());
        let others = others.filter(|(other, _)| *other != group);
        let vis = others.map(|(_, peer)| costs(Pair::between(model, peer)).vi);
        HostCosts {
            vi: vis.fold(own.vi, f64::min),
            ..own
        }
    };
    (0_usize..)
        .zip(config.host.values())
        .map(of_model)
        .collect()
}

/// Hosts that are used alike, and are alike: one of them, how it is used, and how many there are.
fn like_hosts<'shares>(
    config: &ClusterConfig,
    shares: &'shares Shares,
) -> Vec<(HostId, &'shares Degree, f64)> {
    if shares.hosts_each == 1.0 || config.host.are_alike() {
        let hosts = (0..).map(HostId).zip(&shares.hosts);
        return hosts
            .map(|(host, degree)| (host, degree, shares.hosts_each))
            .collect();
    }
    // One host stands for all in how it is used: one of each group does in what it is.
    let mut found: Vec<Option<(HostId, f64)>> = vec![None; config.host.values().count()];
    for host in 0..config.topology.host_count() {
        let of_group = &mut found[config.host.group(host)];
        of_group.get_or_insert((HostId(host), 0.0)).1 += 1.0;
    }
    let found = found.into_iter().flatten();
    let degree = &shares.hosts[0];
    found.map(|(host, count)| (host, degree, count)).collect()
}

/// Collects links' loads by class.
#[derive(Default)]
struct Classes(Vec<ClassLoad>);

impl Classes {
    /// Adds so many links that are as busy as this one.
    fn add(&mut self, topology: &Topology, link: LinkId, load: f64, count: u64) {
        let class = topology.link_class(link);
        let known = self.0.iter().position(|load| load.class == class);
        let index = known.unwrap_or_else(|| {
            self.0.push(ClassLoad {
                class,
                load: ServerLoad::default(),
            });
            self.0.len() - 1
        });
        let sum = &mut self.0[index].load;
        sum.mean += load * count as f64;
        sum.max = sum.max.max(load);
    }

    fn into_means(mut self, topology: &Topology) -> Vec<ClassLoad> {
        for class in &mut self.0 {
            class.load.mean /= f64::from(link_count(topology, class.class));
        }
        self.0
    }
}

/// Looks for the server that is full first.
#[derive(Default)]
struct Busiest(Option<(f64, Place)>);

#[derive(Clone, Copy)]
enum Place {
    Link(LinkId),
    Host(&'static str, HostId),
}

/// How the bus of a host is called, which other devices may use, too.
const BUS: &str = "bus";

impl Busiest {
    /// A server that each message of a host keeps for `time` on average, picoseconds, and that
    /// is busy for a share `base` of the time without any.
    fn offer(&mut self, time: f64, base: f64, place: Place) {
        if time <= 0.0 {
            return;
        }
        let rate = (1.0 - base).max(0.0) / time;
        if self.0.as_ref().is_none_or(|&(lowest, _)| rate < lowest) {
            self.0 = Some((rate, place));
        }
    }

    fn saturation(
        self,
        topology: &Topology,
        processes: f64,
        sharing: Sharing,
    ) -> Option<Saturation> {
        let (rate, place) = self.0?;
        let is_shared = matches!(place, Place::Link(_) | Place::Host(BUS, _));
        Some(Saturation {
            rate_per_s: rate / processes * 1e12,
            place: place.name(topology),
            sharing,
            is_reached_before: sharing == Sharing::Fluid && is_shared,
        })
    }
}

impl Place {
    fn name(&self, topology: &Topology) -> String {
        match *self {
            Self::Link(link) => format!("link {}", topology.link_name(link)),
            Self::Host(server, host) => {
                format!("{server} of {}", topology.node_name(Node::Host(host)))
            }
        }
    }
}

/// What a mean message asks of its two hosts.
#[derive(Clone, Copy)]
struct HostCosts {
    source: EndCosts,
    target: EndCosts,
    /// Picoseconds for which it keeps its VI.
    vi: f64,
    /// On the links from its source to its target, and back.
    wire_bytes: [f64; 2],
}

/// Picoseconds for which a mean message keeps each server of a host.
#[derive(Clone, Copy, Default)]
struct EndCosts {
    processor: f64,
    bus: f64,
    nic_send: f64,
    nic_receive: f64,
}

impl EndCosts {
    fn and(self, other: Self) -> Self {
        Self {
            processor: self.processor + other.processor,
            bus: self.bus + other.bus,
            nic_send: self.nic_send + other.nic_send,
            nic_receive: self.nic_receive + other.nic_receive,
        }
    }
}

impl HostCosts {
    fn new(
        config: &ClusterConfig,
        hosts: Pair<'_>,
        size: &SizeDistribution,
        operation: MessageOperation,
    ) -> Self {
        let notice = match hosts.receiver.notice() {
            Notice::Polling { .. } => Time::ZERO,
            notice @ Notice::Interrupt { .. } => notice.alone(),
        };
        let leg = leg_of(operation, false, notice);
        if operation != MessageOperation::Read {
            return Self::of_leg(config, hosts, size, leg);
        }
        let request = Self::of_leg(config, hosts, &SizeDistribution::constant(0), leg);
        let answer = Self::of_leg(config, hosts.back(), size, Leg::Answer);
        Self {
            source: request.source.and(answer.target),
            target: request.target.and(answer.source),
            vi: request.vi,
            wire_bytes: [request.wire_bytes[0], answer.wire_bytes[0]],
        }
    }

    /// What a message that crosses the network once asks of the two hosts.
    fn of_leg(config: &ClusterConfig, hosts: Pair<'_>, size: &SizeDistribution, leg: Leg) -> Self {
        let HostModel {
            processor,
            bus,
            mechanism,
            ..
        } = hosts.sender;
        let picoseconds = |time: Time| time.picoseconds() as f64;
        let dma_rates = [bus, &hosts.receiver.bus].map(|bus| bus.dma_rate().bytes_per_picosecond());
        let plan_alone = |bytes| hosts.plan_alone(config.host_link(), bytes);
        let link_rate = config.links.host_rate.bytes_per_picosecond();
        let mean = |of: &dyn Fn(&Plan) -> f64| size.mean_of(|bytes| of(&plan_alone(bytes)));
        let mean_time = |of: &dyn Fn(&Plan) -> Time| mean(&|plan| picoseconds(of(plan)));
        // With nobody else on the way, and as if no link between switches were slower.
        let moving_of = |plan: &Plan| {
            let [source, target] = dma_rates.map(|rate| rate * plan.scale);
            plan.wire_bytes / plan.rate_max.min(source).min(target).min(link_rate)
        };
        let moving = mean(&moving_of);
        // The payload's mean is exact; only what else crosses the bus is from draws.
        let beside = size.mean_of(|bytes| {
            let plan = plan_alone(bytes);
            plan.wire_bytes / plan.scale - f64::from(bytes)
        });
        let data = dma_rates.map(|rate| (size.mean_bytes() + beside) / rate);
        let doorbell = mechanism.doorbell(bus).unwrap_or(Step::ZERO);
        let writing = |plan: &Plan| match plan.mover {
            Mover::Processor(writing) => writing,
            Mover::Engine | Mover::HeldEngine => plan.beside + plan.sent_interrupt,
        };
        let held = mean(&|plan| match plan.mover {
            Mover::HeldEngine => moving_of(plan) + picoseconds(plan.sent_interrupt),
            Mover::Processor(_) | Mover::Engine => 0.0,
        });
        let receive = mean_time(&|plan| plan.match_service.alone());
        // A processor of an adapter's own that receives does not send meanwhile.
        let shared = mean(&|plan| {
            let is_shared = plan.is_one_engine;
            f64::from(u8::from(is_shared)) * picoseconds(plan.match_service.alone())
        });
        let source = match leg {
            Leg::Taken(_) | Leg::Placed => EndCosts {
                processor: picoseconds(processor.post + processor.reap)
                    + mean_time(&|plan| plan.processor + writing(plan)),
                bus: data[0] + picoseconds(doorbell.bus) + mean_time(&|plan| plan.service.bus),
                nic_send: mean_time(&|plan| plan.service.alone()) + held,
                nic_receive: 0.0,
            },
            Leg::Answer => EndCosts {
                bus: data[0],
                ..EndCosts::default()
            },
        };
        let taking = match leg {
            // The descriptor is posted again.
            Leg::Taken(notice) => {
                let processor = &hosts.receiver.processor;
                picoseconds(notice + processor.reap + processor.post)
            }
            Leg::Placed | Leg::Answer => 0.0,
        };
        let target = EndCosts {
            processor: taking + mean_time(&|plan| plan.receive_processor),
            bus: data[1] + mean_time(&|plan| plan.match_service.bus + plan.completion.bus),
            nic_send: shared,
            nic_receive: receive,
        };
        Self {
            source,
            target,
            vi: moving / f64::from(mechanism.moving_per_vi().max(1)),
            wire_bytes: [mean_wire_bytes(size, plan_alone), 0.0],
        }
    }
}

/// The share of a host's server that others take: other devices of its bus.
fn base_load(config: &ClusterConfig, server: &str, host: u32) -> f64 {
    let devices = config.hosts.bus_load.as_ref();
    devices.filter(|_| server == BUS).map_or(0.0, |load| {
        let rate = config.host.of(host).bus.dma_rate();
        let time = load.size.mean_bytes() / rate.bytes_per_picosecond();
        time / load.interval.mean_picoseconds()
    })
}

/// The payload's mean is exact; only the frames' share is from draws.
fn mean_wire_bytes(size: &SizeDistribution, plan: impl Fn(u32) -> Plan) -> f64 {
    let framing = size.mean_of(|bytes| plan(bytes).wire_bytes - f64::from(bytes));
    size.mean_bytes() + framing
}

fn link_count(topology: &Topology, class: LinkClass) -> u32 {
    match class {
        LinkClass::HostUp | LinkClass::HostDown => topology.host_count(),
        LinkClass::Mesh => topology.switch_link_count(),
        LinkClass::TreeUp | LinkClass::TreeDown => topology.switch_link_count() / 2,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use viaduct_core::ReliabilityLevel;
    use viaduct_topology::Ports;

    use super::*;
    use crate::config::{BusLoad, HostsConfig, RunConfig, TrafficConfig};
    use crate::faults::Detection;
    use crate::workload::{Interval, Pattern, SizeDistribution};
    use viaduct_hardware::{
        BusModel, Completion, Frame, Mechanism, MemoryModel, NicModel, ProcessorModel, Rate,
        Switching,
    };
    use viaduct_network::{Arrival, LinkConfig, SwitchModel};

    /// The adapter of the study's hosts.
    pub(super) fn nic(config: &mut ClusterConfig) -> &mut NicModel {
        match &mut config.host.common_mut().mechanism {
            Mechanism::Native(nic) => nic,
            other => panic!("an adapter without VIA: {other:?}"),
        }
    }

    /// The study: its network and traffic; a bus of 264 MB/s without bursts, 0.3, 0.6 and 0.3 us
    /// a write, read and status; processors of 1 us and 9 us; a NIC of 1.3 us a descriptor.
    pub(super) fn study() -> ClusterConfig {
        let microseconds = |tenths: u64| Time::from_nanoseconds(100 * tenths);
        ClusterConfig {
            topology: Arc::new(Topology::torus(&[16, 16], 4, Ports(8)).unwrap()),
            links: LinkConfig {
                sharing: Sharing::Fluid,
                arrival: Arrival::default(),
                switching: Switching::CutThrough,
                rate: Rate::from_bits_per_second(856e6),
                host_rate: Rate::from_bits_per_second(856e6),
                propagation: Time::ZERO,
                host_propagation: Time::ZERO,
                frame: Frame {
                    payload_bytes: 0,
                    header_bytes: 0,
                },
                buffers: viaduct_network::Buffers::default(),
                credits: viaduct_network::CreditLinks::default(),
            },
            switch: SwitchModel {
                delay: Time::ZERO,
                cut_through_bytes: 0,
            },
            host: HostModel {
                name: "test".into(),
                processor: ProcessorModel {
                    post: microseconds(10),
                    reap: microseconds(10),
                    polling_delay: Time::ZERO,
                    interrupt: microseconds(70),
                    wake_up: microseconds(20),
                },
                completion: Completion::Interrupt,
                memory: MemoryModel::FREE,
                bus: BusModel {
                    rate: Rate::from_bits_per_second(264e6 * 8.0),
                    burst_bytes: 0,
                    burst_overhead: Time::ZERO,
                    programmed_write: microseconds(3),
                    read: microseconds(6),
                    write: microseconds(3),
                },
                mechanism: Mechanism::Native(NicModel {
                    doorbell: microseconds(5),
                    send_descriptor: microseconds(5),
                    translate: microseconds(3),
                    inline_bytes: 0,
                    dma_setup: microseconds(5),
                    moving_per_vi: 1,
                    rate: Rate::INFINITE,
                    page_bytes: 0,
                    page_crossing: Time::ZERO,
                    forwarding: Switching::CutThrough,
                    receive_match: microseconds(5),
                    completion: microseconds(3),
                }),
                transfer_max_bytes: 1 << 30,
            }
            .into(),
            interfaces: None,
            hosts: HostsConfig {
                processes: 1,
                adapters: crate::adapters::Adapters::ONE,
                processors: None,
                prepost: 8,
                is_prepost_chosen: true,
                send_buffers: 8,
                bus_load: None,
            },
            traffic: TrafficConfig {
                pattern: Pattern::StraightLine { hops: 4 },
                arrivals: Arrivals::Open(Interval::exponential(1e10).unwrap()),
                size: SizeDistribution::constant(32 << 10),
                operation: MessageOperation::Send,
                reliability: ReliabilityLevel::Unreliable,
                start: Time::ZERO,
                stop: Time::MAX,
            },
            faults: Vec::new(),
            detection: Detection::default(),
            background: Vec::new(),
            run: RunConfig {
                warmup: Time::ZERO,
                until: Time::from_milliseconds(1),
                drain: true,
                messages_max: None,
                events_max: None,
                seed: 1,
                message_rows_max: 0,
                connections_kept: crate::CONNECTIONS_KEPT,
            },
        }
    }

    pub(super) fn bounds(config: &ClusterConfig) -> LoadBounds {
        load_bounds(config).unwrap().unwrap()
    }

    pub(super) fn class(bounds: &LoadBounds, class: LinkClass) -> ServerLoad {
        bounds
            .classes
            .iter()
            .find(|load| load.class == class)
            .unwrap()
            .load
    }

    pub(super) fn near(one: f64, two: f64) -> bool {
        (one - two).abs() <= 1e-9 * two.abs()
    }

    #[test]
    fn study_loads_the_mesh_to_an_eighth_and_ends_at_816_messages() {
        let bounds = bounds(&study());
        // 4 links of 1 for each host: 400 messages/s of 262,144 bit at 856 Mbit/s.
        let mesh = class(&bounds, LinkClass::Mesh);
        assert!(near(mesh.mean, 400.0 * 262_144.0 / 856e6) && near(mesh.max, mesh.mean));
        assert!((mesh.mean - 0.1225).abs() < 5e-5, "{mesh:?}");
        assert!(near(class(&bounds, LinkClass::HostUp).max, mesh.mean / 4.0));
        assert!(near(
            class(&bounds, LinkClass::HostDown).max,
            mesh.mean / 4.0
        ));
        let Saturation {
            rate_per_s, place, ..
        } = bounds.saturation.clone().unwrap();
        assert!((rate_per_s - 816.3).abs() < 0.1, "{rate_per_s}");
        assert!(place.starts_with("link s0-0 -> "), "{place}");
        assert!(!bounds.is_sampled);
        // 100 in and 100 out a second: 124.12 us of data each, 0.9 us of the rest.
        assert!(
            near(bounds.bus.max, 200.0 * (32_768.0 / 264e6 + 0.9e-6)),
            "{:?}",
            bounds.bus
        );
        assert!(near(bounds.bus.mean, bounds.bus.max));
        assert!(near(bounds.processor.max, 100.0 * 13e-6));
        assert!(near(bounds.nic_send.max, 100.0 * 1.9e-6));
        assert!(near(bounds.nic_receive.max, 100.0 * 1.9e-6));
    }

    #[test]
    fn processes_share_what_a_host_can_offer() {
        let mut config = study();
        config.hosts.processes = 4;
        let bounds = bounds(&config);
        assert!((class(&bounds, LinkClass::Mesh).mean - 0.49).abs() < 2e-4);
        assert!((bounds.saturation.unwrap().rate_per_s - 816.3 / 4.0).abs() < 0.1);
    }

    #[test]
    fn frames_count_on_the_wire() {
        let mut config = study();
        config.links.frame = Frame {
            payload_bytes: 1024,
            header_bytes: 64,
        };
        let mesh = class(&bounds(&config), LinkClass::Mesh);
        assert!(near(mesh.mean, 400.0 * (32.0 * 1088.0 * 8.0) / 856e6));
        config.traffic.size = SizeDistribution::uniform(0, 4096).unwrap();
        // 2048 bytes and 1 + 3 + 3 + 3... of 4: frames of 1 to 1024 bytes one, and none as one.
        let frames = (1.0 + 1024.0 * (1.0 + 2.0 + 3.0 + 4.0)) / 4097.0;
        let expected = 400.0 * (2048.0 + 64.0 * frames) * 8.0 / 856e6;
        let mesh = class(&bounds(&config), LinkClass::Mesh);
        assert!(
            (mesh.mean / expected - 1.0).abs() < 1e-3,
            "{} and {expected}",
            mesh.mean
        );
    }

    #[test]
    fn incast_fills_the_link_down_to_its_target() {
        let mut config = study();
        config.traffic.pattern = Pattern::Incast { target: 5 };
        config.host.common_mut().bus.rate = Rate::INFINITE;
        config.host.common_mut().completion = Completion::Polling;
        let bounds = bounds(&config);
        let Saturation {
            rate_per_s, place, ..
        } = bounds.saturation.clone().unwrap();
        assert_eq!(place, "link s1-0 -> n1-0-1");
        assert!(near(rate_per_s, 856e6 / 262_144.0 / 1023.0), "{rate_per_s}");
        assert!(near(
            class(&bounds, LinkClass::HostDown).mean * 1024.0,
            1023.0 * 0.030_624_299_065_420_56
        ));
        assert_eq!(bounds.bus, ServerLoad::default());
    }

    #[test]
    fn other_devices_leave_less_of_the_bus() {
        let mut config = study();
        config.links.rate = Rate::INFINITE;
        config.links.host_rate = Rate::INFINITE;
        let alone = bounds(&config).saturation.unwrap();
        assert_eq!(alone.place, "bus of n0-0-0");
        // 66 MB/s of 264: a quarter.
        config.hosts.bus_load = Some(BusLoad {
            interval: Interval::constant(1e9).unwrap(),
            size: SizeDistribution::constant(66_000),
        });
        let shared = bounds(&config);
        assert!(near(
            shared.saturation.unwrap().rate_per_s,
            0.75 * alone.rate_per_s
        ));
        assert!(near(shared.bus.max, 0.25 + 100.0 / alone.rate_per_s));
        config.hosts.bus_load.as_mut().unwrap().size = SizeDistribution::constant(300_000);
        assert_eq!(bounds(&config).saturation.unwrap().rate_per_s, 0.0);
    }

    #[test]
    fn one_vi_moves_one_message_at_a_time() {
        let mut config = study();
        config.traffic.pattern = Pattern::Pairs(vec![(0, 1)]);
        nic(&mut config).rate = Rate::from_bits_per_second(428e6);
        let bounds = bounds(&config);
        let Saturation {
            rate_per_s, place, ..
        } = bounds.saturation.unwrap();
        assert_eq!(place, "a VI of n0-0-0");
        assert!(near(rate_per_s, 428e6 / 262_144.0), "{rate_per_s}");
    }

    #[test]
    fn closed_loops_offer_nothing_and_free_servers_have_no_end() {
        let mut config = study();
        config.links.rate = Rate::INFINITE;
        config.links.host_rate = Rate::INFINITE;
        config.host.common_mut().bus.rate = Rate::INFINITE;
        config.host.common_mut().completion = Completion::Polling;
        let processor = &mut config.host.common_mut().processor;
        (processor.post, processor.reap) = (Time::ZERO, Time::ZERO);
        let nic = nic(&mut config);
        (nic.send_descriptor, nic.translate) = (Time::ZERO, Time::ZERO);
        (nic.dma_setup, nic.receive_match) = (Time::ZERO, Time::ZERO);
        assert_eq!(bounds(&config).saturation, None);
        config.traffic.arrivals = Arrivals::PingPong;
        assert_eq!(load_bounds(&config), Ok(None));
        config.traffic.arrivals = Arrivals::Window(4);
        assert_eq!(load_bounds(&config), Ok(None));
        config.traffic.arrivals = Arrivals::Open(Interval::constant(1e9).unwrap());
        config.traffic.pattern = Pattern::StraightLine { hops: 16 };
        assert!(load_bounds(&config).is_err());
    }

    #[test]
    fn a_million_hosts_are_exact_from_one() {
        let mut config = study();
        config.topology = Arc::new(Topology::torus(&[512, 512], 4, Ports(8)).unwrap());
        let bounds = bounds(&config);
        assert!(!bounds.is_sampled);
        assert!(near(
            class(&bounds, LinkClass::Mesh).mean,
            400.0 * 262_144.0 / 856e6
        ));
    }
}
