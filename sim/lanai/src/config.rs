//! What a simulated cluster is made of, and the two presets.

use core::fmt;
use std::sync::Arc;

use viaduct_cluster::background::Background;
use viaduct_cluster::interfaces::Asked;
use viaduct_engine::Time;
use viaduct_frames::residency::{Policy, Stall};
use viaduct_frames::service::Discipline;
use viaduct_frames::transport;
use viaduct_network::{
    Arrival, Buffers, CreditLinks, Frame, LinkConfig, Rate, Sharing, SwitchModel, Switching,
    WormholeConfig,
};
use viaduct_topology::{HostId, Node, Topology, TopologyError};

use crate::agenda::HOSTS_MAX;
use crate::cluster::SHORT_BYTES;
use crate::faults::{self, Fault, FaultError};
use crate::work::Steps;

/// The interface's processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Firmware {
    /// Hz.
    pub clock_hz: f64,
    /// What each step of its work takes.
    pub steps: Steps,
}

/// The host: its processor, its kernel's thread that remaps, and its bus. All times are spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Processor's time for a message that is sent.
    pub send: Time,
    /// Processor's time for a message that is taken out of a frame, with the look that finds it.
    pub receive: Time,
    /// A look at an endpoint in a frame: an uncached read of the interface's memory.
    pub poll_frame: Time,
    /// A look at an endpoint in host memory: a read that caches may answer.
    pub poll_host: Time,
    /// Bytes a second that the processor copies: long messages, to and from where the bus's engine
    /// reaches them.
    pub copy_bytes_s: f64,
    /// From one thread to another.
    pub switch: Time,
    /// A trap into the kernel and back.
    pub fault: Time,
    /// From the interface's interrupt to the driver's first instruction.
    pub interrupt: Time,
    /// Between the kernel's thread's looks at what has to be remapped; zero: it looks at once. Once
    /// awake it goes on until nothing is left.
    pub remap_period: Time,
    /// The driver's own work for each word that it says.
    pub driver: Time,
    /// Taking an endpoint's mapping away from its process, before its image moves.
    pub unmap: Time,
    /// Moving an endpoint's backing store, beside its image's way over the bus.
    pub store: Time,
    /// Giving the process its new mapping, when the image has moved.
    pub map: Time,
    /// DMA into host memory, bytes a second.
    pub write_bytes_s: f64,
    /// DMA out of host memory, bytes a second.
    pub read_bytes_s: f64,
}

impl Host {
    /// Processor's time for a message of `bytes` that is sent.
    #[inline]
    pub(crate) fn send_of(&self, bytes: u32) -> Time {
        self.send + self.copy_of(bytes)
    }

    /// Processor's time for a message of `bytes` that is taken out of its endpoint.
    #[inline]
    pub(crate) fn receive_of(&self, bytes: u32, is_in_frame: bool) -> Time {
        // The read that finds it is a part of what is published, of an endpoint in its frame.
        let work = self.receive.saturating_sub(self.poll_frame);
        work + self.look_of(is_in_frame) + self.copy_of(bytes)
    }

    /// A look at an endpoint.
    #[inline]
    pub(crate) const fn look_of(&self, is_in_frame: bool) -> Time {
        if is_in_frame {
            self.poll_frame
        } else {
            self.poll_host
        }
    }

    #[inline]
    fn copy_of(&self, bytes: u32) -> Time {
        if bytes > SHORT_BYTES {
            Time::from_seconds_f64(f64::from(bytes) / self.copy_bytes_s)
        } else {
            Time::ZERO
        }
    }
}

/// Links and switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Bytes a second of a link.
    pub link_bytes_s: f64,
    /// What a switch adds.
    pub switch: Time,
    /// Bytes of a packet beside its payload.
    pub header_bytes: u32,
    /// Bytes of an answer.
    pub answer_bytes: u32,
    /// Hosts at one leaf switch of the tree, if no other network is given.
    pub hosts_a_leaf: u16,
    /// Packets that an interface can hold before its link stops.
    pub receive_buffers: u16,
    /// Packets and answers, of a million, that are lost as they leave.
    pub lost_per_million: u32,
}

/// A network in place of the usual tree. Its last host is the first that takes part, which clients
/// ask; the others that take part are its first.
#[derive(Clone, Debug, PartialEq)]
pub struct Wiring {
    /// Hosts, switches and links; a link with a rate or a latency of its own keeps that.
    pub topology: Arc<Topology>,
    /// Bytes a second of a link between a host and its switch.
    pub host_bytes_s: f64,
    /// Bytes a second of a link between switches.
    pub switch_bytes_s: f64,
    /// What a signal takes on a link between switches.
    pub propagation: Time,
    /// What it takes on a link between a host and its switch, likewise.
    pub host_propagation: Time,
    /// What a switch adds, from the arrival of what decides the route.
    pub switch: Time,
    /// Bytes that must have arrived before a switch forwards.
    pub cut_through_bytes: u32,
    /// What queues of switches hold, where packets go through such.
    pub buffers: Buffers,
    /// Channels and credits, where packets share links that have them.
    pub credits: CreditLinks,
}

/// How packets share links.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LinkModel {
    /// A packet holds its whole way, and waits at the last link: the rule of these interfaces.
    #[default]
    Wormhole,
    /// Packets share the rate of links, and cross them at once or one after the other.
    Shared(Sharing, Switching),
}

/// A network that cannot carry what its hosts say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetworkError(String);

impl NetworkError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for NetworkError {}

impl From<TopologyError> for NetworkError {
    fn from(error: TopologyError) -> Self {
        Self(error.to_string())
    }
}

/// The slowest processor of an interface, in Hz: below, times have no place in 64 bits.
const CLOCK_HZ_MIN: f64 = 1e3;

/// Hosts of a network from a file of which each pair is looked at for a way, at most.
const PAIRS_HOSTS_MAX: u32 = 1024;

fn rate(bytes_s: f64) -> Rate {
    // A power of two multiplies a double exactly.
    Rate::from_bits_per_second(bytes_s * 8.0)
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Hosts with one interface each. One that runs nothing, and is sent nothing, takes no memory.
    pub hosts: u32,
    /// Endpoint frames of an interface.
    pub frames: u16,
    /// Bytes of an endpoint's image.
    pub image_bytes: u32,
    /// Requests that an endpoint's queue holds, and messages that its send queue does; as many
    /// requests may be outstanding from one endpoint.
    pub queue_entries: u32,
    /// Who has to leave a frame.
    pub policy: Policy,
    /// Who waits for a remap.
    pub stall: Stall,
    /// Whose message is next.
    pub discipline: Discipline,
    /// The transport; none: messages go once, unanswered, over links that are trusted.
    pub transport: Option<transport::Config>,
    /// The interface's processor.
    pub firmware: Firmware,
    /// Hosts.
    pub host: Host,
    /// Links.
    pub network: Network,
    /// How links join hosts and switches; none: a tree of two levels, as many switches above as a
    /// transport has routes, its hosts `host0` and so on, its switches `leaf0` and so on, then
    /// `spine0`.
    pub wiring: Option<Wiring>,
    /// How packets share links.
    pub model: LinkModel,
    /// What goes wrong; it takes a transport to get over that.
    pub faults: Vec<Fault>,
    /// Traffic of others, between hosts of the network as that numbers them, whether they take part
    /// or not: through hosts' buses and links, and past their interfaces and processors.
    pub background: Vec<Background>,
    /// Whether it is counted what each link carries.
    pub watches_links: bool,
    /// Of all random draws.
    pub seed: u64,
}

impl Config {
    /// The first generation: one endpoint, no virtual networks, links that are trusted.
    ///
    /// Given: overhead 2 x 2.9 us, gap 5.8 us, 38 MB/s. The interface's processor takes the gap for
    /// a message sent and one taken in, 217 cycles of 26.7 ns: 196 are counted step by step, and
    /// the descriptor has what is left. DMA into host memory peaks at 46.8 MB/s, so that what
    /// bounds bulk at 38 MB/s is the way out of host memory.
    #[must_use]
    pub fn gam_myrinet(hosts: u32) -> Self {
        Self {
            hosts,
            frames: 8,
            image_bytes: 8192,
            queue_entries: 32,
            policy: Policy::Random,
            stall: Stall::Nobody,
            discipline: Discipline::default(),
            transport: None,
            firmware: Firmware {
                clock_hz: 37.5e6,
                steps: Steps {
                    turn: 12,
                    descriptor: 53,
                    header: 16,
                    start: 16,
                    notice: 24,
                    word: 5,
                    endpoint: 12,
                    queue: 28,
                    dma: 36,
                    driver_word: 100,
                    ..Steps::default()
                },
            },
            host: Host {
                send: Time::from_nanoseconds(2_900),
                receive: Time::from_nanoseconds(2_900),
                poll_frame: Time::from_nanoseconds(500),
                poll_host: Time::from_nanoseconds(100),
                copy_bytes_s: 120e6,
                switch: Time::from_nanoseconds(2_200),
                fault: Time::from_nanoseconds(9_100),
                interrupt: Time::from_nanoseconds(9_100),
                remap_period: Time::from_milliseconds(10),
                driver: Time::from_microseconds(10),
                unmap: Time::from_microseconds(20),
                store: Time::from_microseconds(80),
                map: Time::from_microseconds(20),
                write_bytes_s: 46.8e6,
                read_bytes_s: 38.2e6,
            },
            network: Network {
                link_bytes_s: 150e6,
                switch: Time::from_nanoseconds(300),
                header_bytes: 16,
                answer_bytes: 24,
                hosts_a_leaf: 5,
                receive_buffers: 64,
                lost_per_million: 0,
            },
            wiring: None,
            model: LinkModel::Wormhole,
            faults: Vec::new(),
            background: Vec::new(),
            watches_links: false,
            seed: 1,
        }
    }

    /// Whether its numbers can be.
    ///
    /// # Errors
    ///
    /// The first that cannot.
    pub fn check_numbers(&self) -> Result<(), (Asked, &'static str)> {
        if self.firmware.clock_hz < CLOCK_HZ_MIN {
            return Err((Asked::Clock, "`clock` in [interface] is below 1 kHz"));
        }
        let transport = self.transport;
        if transport.is_some_and(|transport| transport.timeout_min == Time::ZERO) {
            let reason = "`timeout_min` in [transport] is 0 s: an answer would be overdue at once";
            return Err((Asked::TimeOut, reason));
        }
        Ok(())
    }

    /// Whether its faults can be.
    ///
    /// # Errors
    ///
    /// The first that names what is not there, or ends before it begins.
    pub fn check_faults(&self) -> Result<(), FaultError> {
        let loses = self.faults.iter().position(Fault::loses);
        if let Some(fault) = loses.filter(|_| self.transport.is_none()) {
            return Err(FaultError {
                fault,
                reason: "without a transport what is lost stays lost".to_owned(),
            });
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let topology = self.joined().map_err(|error| FaultError {
            fault: 0,
            reason: error.to_string(),
        })?;
        faults::check(&self.faults, self.hosts, &topology)
    }

    /// The network, found to join all hosts.
    ///
    /// # Errors
    ///
    /// More hosts than have numbers; the network has too few hosts, or no way between two of those
    /// that take part; or the tree is larger than networks are.
    pub fn joined(&self) -> Result<Arc<Topology>, NetworkError> {
        if self.hosts > HOSTS_MAX {
            return Err(NetworkError(format!(
                "{} hosts: interfaces have numbers for {HOSTS_MAX}: let fewer take part",
                self.hosts
            )));
        }
        let Some(Wiring { topology, .. }) = &self.wiring else {
            return Ok(Arc::new(self.tree()?));
        };
        if topology.host_count() < self.hosts {
            return Err(NetworkError(format!(
                "the network has {} hosts, and {} take part",
                topology.host_count(),
                self.hosts
            )));
        }
        // Networks that are generated join all their hosts.
        let apart = (!topology.is_generated())
            .then(|| self.hosts_apart(topology))
            .flatten();
        match apart {
            None => Ok(Arc::clone(topology)),
            Some((from, to)) => Err(NetworkError(format!(
                "the network has no way from {} to {}",
                topology.node_name(Node::Host(from)),
                topology.node_name(Node::Host(to))
            ))),
        }
    }

    /// Two hosts that take part without a way from the one to the other. Among more than
    /// [`PAIRS_HOSTS_MAX`] only ways from and to the first are looked for, which is enough where
    /// routes are shortest ways.
    fn hosts_apart(&self, topology: &Topology) -> Option<(HostId, HostId)> {
        let host = |number| self.host_in(topology, number);
        let ends = if self.hosts <= PAIRS_HOSTS_MAX {
            self.hosts
        } else {
            1
        };
        let pairs = (0..ends).flat_map(|one| (0..self.hosts).map(move |other| (one, other)));
        let both = pairs.flat_map(|(one, other)| [(one, other), (other, one)]);
        both.map(|(from, to)| (host(from), host(to)))
            .find(|(from, to)| topology.path_length(*from, *to).is_none())
    }

    /// Which host of the network a host is.
    pub(crate) fn host_in(&self, topology: &Topology, host: u32) -> HostId {
        HostId(match self.wiring {
            None => host,
            Some(_) if host == 0 => topology.host_count() - 1,
            Some(_) => host - 1,
        })
    }

    /// Which host here a host of the network is, if it takes part.
    #[must_use]
    pub fn host_at(&self, topology: &Topology, host: HostId) -> Option<u32> {
        let number = self.number_of(topology, host);
        (number < self.hosts).then_some(number)
    }

    /// Which host here a host of the network is, or would be if more took part.
    pub(crate) fn number_of(&self, topology: &Topology, host: HostId) -> u32 {
        match self.wiring {
            None => host.0,
            Some(_) if host.0 + 1 == topology.host_count() => 0,
            Some(_) => host.0 + 1,
        }
    }

    /// Speeds and buffers of the network.
    pub(crate) fn wormhole(&self) -> WormholeConfig {
        let link_bytes_s = self.network.link_bytes_s;
        let wiring = self.wiring.as_ref();
        WormholeConfig {
            host_bytes_s: wiring.map_or(link_bytes_s, |it| it.host_bytes_s),
            switch_bytes_s: wiring.map_or(link_bytes_s, |it| it.switch_bytes_s),
            propagation: wiring.map_or(Time::ZERO, |it| it.propagation),
            host_propagation: wiring.map_or(Time::ZERO, |it| it.host_propagation),
            switch: wiring.map_or(self.network.switch, |it| {
                // A switch forwards when it has the bytes that decide the route.
                it.switch + rate(it.switch_bytes_s).time_for(it.cut_through_bytes.into())
            }),
            receive_buffers: self.network.receive_buffers,
            ways_max: self.spines(),
        }
    }

    /// The same for links that packets share.
    pub(crate) fn shared(
        &self,
        sharing: Sharing,
        switching: Switching,
    ) -> (LinkConfig, SwitchModel) {
        let speeds = self.wormhole();
        let wiring = self.wiring.as_ref();
        let links = LinkConfig {
            sharing,
            arrival: Arrival::default(),
            switching,
            rate: rate(speeds.switch_bytes_s),
            host_rate: rate(speeds.host_bytes_s),
            propagation: speeds.propagation,
            host_propagation: speeds.host_propagation,
            // Packets bring the headers of their interface.
            frame: Frame {
                payload_bytes: 0,
                header_bytes: 0,
            },
            buffers: wiring.map_or_else(Buffers::default, |it| it.buffers),
            credits: wiring.map_or_else(CreditLinks::default, |it| it.credits),
        };
        let switch = SwitchModel {
            delay: wiring.map_or(self.network.switch, |it| it.switch),
            cut_through_bytes: wiring.map_or(0, |it| it.cut_through_bytes),
        };
        (links, switch)
    }

    fn spines(&self) -> u16 {
        self.transport.map_or(1, |it| u16::from(it.routes))
    }

    /// The tree of two levels.
    fn tree(&self) -> Result<Topology, TopologyError> {
        let hosts_a_leaf = self.network.hosts_a_leaf.into();
        Topology::leaf_spine(self.hosts, hosts_a_leaf, self.spines().into())
    }

    /// Virtual networks on the same machines: endpoint frames, a transport, error checking and
    /// defensive firmware (1.1 us in latency and gap: 41 cycles for a message sent and taken in).
    #[must_use]
    pub fn am_myrinet(hosts: u32, frames: u16) -> Self {
        let gam = Self::gam_myrinet(hosts);
        Self {
            frames,
            transport: Some(transport::Config {
                peers: hosts,
                routes: 4,
                ..transport::Config::default()
            }),
            firmware: Firmware {
                steps: Steps {
                    check_out: 20,
                    check_in: 21,
                    name: 24,
                    channel: 16,
                    sequence: 12,
                    stamp: 12,
                    timer: 20,
                    end: 20,
                    recall: 20,
                    ..gam.firmware.steps
                },
                ..gam.firmware
            },
            network: Network {
                header_bytes: 36,
                ..gam.network
            },
            ..gam
        }
    }
}
