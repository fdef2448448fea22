//! What a configuration asks of its links and hosts before anything is run, and where it ends.
//!
//! An open-loop process offers so many messages a second, of so many bytes, to targets of known
//! probability over known routes. So the expected load of each link and host is known, and with
//! it the rate at which the busiest of them is full. A run can only be slower: queues form before.

mod shares;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkClass, LinkId, Node, Topology};

use crate::config::{Arrivals, ClusterConfig, Notice};
use crate::path::PathCosts;
use crate::workload::{PatternError, Targets};

pub use shares::ROUTE_STEPS_MAX;

/// The expected load of links and hosts, 1 is full; above 1, more is offered than can be carried.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBounds {
    /// Links by class; classes without links are left out.
    pub classes: Vec<ClassLoad>,
    /// The hosts' processors: posting, taking completions, interrupts.
    pub processor: ServerLoad,
    /// The hosts' buses: data, doorbells, descriptors, status words, other devices.
    pub bus: ServerLoad,
    /// The NICs' sending half, as if no link delayed it.
    pub nic_send: ServerLoad,
    /// The NICs' receive descriptors.
    pub nic_receive: ServerLoad,
    /// Where offering more ends; none if nothing in the way of a message has a limit.
    pub saturation: Option<Saturation>,
    /// Whether the links' figures are from a sample of routes, because all would be more than
    /// [`ROUTE_STEPS_MAX`] steps. The mean is then off by well below 1 %; the maximum is rather
    /// too high, by a few percent for some thousand links, more for more.
    pub is_sampled: bool,
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

/// The rate at which the busiest link, bus, NIC or processor is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// Messages a second of each process that sends.
    pub rate_per_s: f64,
    /// What is full then: `link s0-0 -> s1-0`, `bus of n0-0-0`.
    pub place: String,
}

/// The expected loads of an open-loop configuration; none for closed loops, which offer as much
/// as is answered.
///
/// # Errors
///
/// When the pattern does not fit the network.
pub fn load_bounds(config: &ClusterConfig) -> Result<Option<LoadBounds>, PatternError> {
    let Arrivals::Open(interval) = &config.traffic.arrivals else {
        return Ok(None);
    };
    let topology = &*config.topology;
    let targets = Targets::new(&config.traffic.pattern, &config.topology, config.run.seed)?;
    let processes = f64::from(config.hosts.processes);
    let rate = processes / interval.mean_picoseconds();
    let shares = shares::link_shares(topology, &targets);

    let mut busiest = Busiest::default();
    let wire_bytes = mean_wire_bytes(config);
    let mut classes: Vec<ClassLoad> = Vec::new();
    for entry in &shares.entries {
        let time = entry.share * wire_bytes / config.link_rate(entry.link).bytes_per_picosecond();
        busiest.offer(time, 0.0, Place::Link(entry.link));
        let class = topology.link_class(entry.link);
        let index = classes
            .iter()
            .position(|load| load.class == class)
            .unwrap_or_else(|| {
                classes.push(ClassLoad {
                    class,
                    load: ServerLoad::default(),
                });
                classes.len() - 1
            });
        let load = &mut classes[index].load;
        load.mean += rate * time * entry.count as f64;
        load.max = load.max.max(rate * time);
    }
    for load in &mut classes {
        load.load.mean /= f64::from(link_count(topology, load.class));
    }

    let costs = HostCosts::new(config);
    let devices = device_load(config);
    let mut server = |name, send: f64, receive: f64, base: f64| {
        let mut load = ServerLoad::default();
        for (host, degree) in shares.hosts.iter().enumerate() {
            let time = degree.sends * send + degree.receives * receive;
            busiest.offer(time, base, Place::Host(name, HostId(host as u32)));
            let used = base + rate * time;
            load.mean += used * shares.hosts_each;
            load.max = load.max.max(used);
        }
        load.mean /= f64::from(topology.host_count());
        load
    };
    let processor = server(
        "processor",
        costs.processor_send,
        costs.processor_receive,
        0.0,
    );
    let bus = server("bus", costs.bus_send, costs.bus_receive, devices);
    let nic_send = server("sending NIC", costs.nic_send, 0.0, 0.0);
    let nic_receive = server("receiving NIC", 0.0, costs.nic_receive, 0.0);

    Ok(Some(LoadBounds {
        classes,
        processor,
        bus,
        nic_send,
        nic_receive,
        saturation: busiest.saturation(topology, processes),
        is_sampled: shares.is_sampled,
    }))
}

/// Looks for the server that is full first.
#[derive(Default)]
struct Busiest(Option<(f64, Place)>);

enum Place {
    Link(LinkId),
    Host(&'static str, HostId),
}

impl Busiest {
    /// A server that each message of a host keeps for `time` in the mean, picoseconds, and that
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

    fn saturation(self, topology: &Topology, processes: f64) -> Option<Saturation> {
        let (rate, place) = self.0?;
        let place = match place {
            Place::Link(link) => format!("link {}", topology.link_name(link)),
            Place::Host(server, host) => {
                format!("{server} of {}", topology.node_name(Node::Host(host)))
            }
        };
        Some(Saturation {
            rate_per_s: rate / processes * 1e12,
            place,
        })
    }
}

/// Picoseconds for which a mean message keeps each server of a host.
struct HostCosts {
    processor_send: f64,
    processor_receive: f64,
    bus_send: f64,
    bus_receive: f64,
    nic_send: f64,
    nic_receive: f64,
}

impl HostCosts {
    fn new(config: &ClusterConfig) -> Self {
        let (cpu, bus) = (&config.host.cpu, &config.host.bus);
        let picoseconds = |time: Time| time.picoseconds() as f64;
        let size = &config.traffic.size;
        let dma_rate = bus.dma_rate();
        let has_bus = !dma_rate.is_infinite();
        let on_bus = |time: Time| if has_bus { picoseconds(time) } else { 0.0 };
        let data = size.mean_bytes() / dma_rate.bytes_per_picosecond();
        let notice = match cpu.notice {
            Notice::Polling { .. } => Time::ZERO,
            Notice::Interrupt { interrupt, wake_up } => interrupt + wake_up,
        };
        let costs = PathCosts::new(config);
        // One message moves while the next one's descriptor is read: the slower of both counts.
        let moving = size.mean_of(|bytes| {
            let demand = costs.demand(config, bytes, 0);
            let bus_rate = dma_rate.bytes_per_picosecond() * demand.scale;
            let link_rate = config.links.host_rate.bytes_per_picosecond();
            demand.wire_bytes / demand.rate_max.min(bus_rate).min(link_rate)
        });
        let send_descriptor = size.mean_of(|bytes| picoseconds(costs.send_descriptor(bytes)));
        let receive_descriptor = size.mean_of(|bytes| picoseconds(costs.receive_descriptor(bytes)));
        Self {
            processor_send: picoseconds(cpu.post + cpu.reap),
            // The descriptor is posted again.
            processor_receive: picoseconds(notice + cpu.reap + cpu.post),
            bus_send: data + on_bus(bus.programmed_write) + on_bus(bus.read),
            bus_receive: data + on_bus(bus.read) + on_bus(bus.write),
            nic_send: moving.max(send_descriptor + on_bus(bus.read)),
            nic_receive: receive_descriptor + on_bus(bus.read),
        }
    }
}

/// The share of a bus that other devices take.
fn device_load(config: &ClusterConfig) -> f64 {
    config.hosts.bus_load.as_ref().map_or(0.0, |load| {
        let time = load.size.mean_bytes() / config.host.bus.dma_rate().bytes_per_picosecond();
        time / load.interval.mean_picoseconds()
    })
}

/// The payload's mean is exact; only the frames' share is from draws.
fn mean_wire_bytes(config: &ClusterConfig) -> f64 {
    let size = &config.traffic.size;
    let framing = size.mean_of(|bytes| {
        let bytes = u64::from(bytes);
        (config.links.frame.wire_bytes(bytes) - bytes) as f64
    });
    size.mean_bytes() + framing
}

fn link_count(topology: &Topology, class: LinkClass) -> u32 {
    match class {
        LinkClass::HostUp | LinkClass::HostDown => topology.host_count(),
        LinkClass::Mesh => topology.switch_link_count(),
        LinkClass::TreeUp | LinkClass::TreeDown => topology.switch_link_count() / 2,
    }
}
