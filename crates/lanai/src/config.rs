//! What a simulated cluster is made of, and the two presets.

use viaduct_engine::Time;
use viaduct_interface::residency::{Policy, Stall};
use viaduct_interface::service::Discipline;
use viaduct_interface::transport;

use crate::faults::{Fault, FaultError, Shape};

/// Cycles of the interface's processor for each kind of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Firmware {
    /// Hz.
    pub clock_hz: f64,
    /// A message of an endpoint: find it, make its header, start it.
    pub send: u32,
    /// A message that came: check it, find its endpoint, write it.
    pub receive: u32,
    /// Error checking and defence, on each of the two above.
    pub check: u32,
    /// An answer made and sent.
    pub send_answer: u32,
    /// An answer that came.
    pub receive_answer: u32,
    /// A word of the driver, or one to it.
    pub driver_word: u32,
    /// A look at an endpoint that cannot send now.
    pub look: u32,
}

/// The host: its processor, and its bus. All times are spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Processor's time for a message that is sent.
    pub send: Time,
    /// Processor's time for a message that is taken.
    pub receive: Time,
    /// A look at an endpoint that has nothing.
    pub poll: Time,
    /// From one thread to another.
    pub switch: Time,
    /// A trap into the kernel and back.
    pub fault: Time,
    /// From the interface's interrupt to the driver's first instruction.
    pub interrupt: Time,
    /// The driver's own work for each word that it says.
    pub driver: Time,
    /// DMA into host memory, bytes a second.
    pub write_bytes_s: f64,
    /// DMA out of host memory, bytes a second.
    pub read_bytes_s: f64,
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
    /// Hosts at one leaf switch of the tree.
    pub hosts_a_leaf: u16,
    /// Packets that an interface can hold before its link stops.
    pub receive_buffers: u16,
    /// Packets and answers, of a million, that are lost as they leave.
    pub lost_per_million: u32,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Hosts with one interface each.
    pub hosts: u16,
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
    /// What goes wrong; it takes a transport to get over that.
    pub faults: Vec<Fault>,
    /// Of all random draws.
    pub seed: u64,
}

impl Config {
    /// The first generation: one endpoint, no virtual networks, links that are trusted.
    ///
    /// Given: overhead 2 x 2.9 us, gap 5.8 us, 38 MB/s. The interface's processor takes the gap for
    /// a request and its reply, so 217 cycles of 26.7 ns for a send and a receive. DMA into host
    /// memory peaks at 46.8 MB/s, so that what bounds bulk at 38 MB/s is the way out of host
    /// memory.
    #[must_use]
    pub fn gam_myrinet(hosts: u16) -> Self {
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
                send: 110,
                receive: 107,
                check: 0,
                send_answer: 20,
                receive_answer: 25,
                driver_word: 100,
                look: 10,
            },
            host: Host {
                send: Time::from_nanoseconds(2_900),
                receive: Time::from_nanoseconds(2_900),
                poll: Time::from_nanoseconds(300),
                switch: Time::from_nanoseconds(2_200),
                fault: Time::from_nanoseconds(9_100),
                interrupt: Time::from_nanoseconds(9_100),
                driver: Time::from_microseconds(50),
                write_bytes_s: 46.8e6,
                read_bytes_s: 38.2e6,
            },
            network: Network {
                link_bytes_s: 150e6,
                switch: Time::from_nanoseconds(300),
                header_bytes: 16,
                answer_bytes: 24,
                hosts_a_leaf: 5,
                receive_buffers: 32,
                lost_per_million: 0,
            },
            faults: Vec::new(),
            seed: 1,
        }
    }

    /// Whether its faults can be.
    ///
    /// # Errors
    ///
    /// The first that names what is not there, or ends before it begins.
    pub fn check_faults(&self) -> Result<(), FaultError> {
        let shape = Shape {
            hosts: self.hosts,
            hosts_a_leaf: self.network.hosts_a_leaf,
            spines: self.transport.map_or(1, |it| u16::from(it.routes)),
        };
        if !self.faults.is_empty() && self.transport.is_none() {
            return Err(FaultError {
                fault: 0,
                reason: "without a transport what is lost stays lost".to_owned(),
            });
        }
        shape.check(&self.faults)
    }

    /// Virtual networks on the same machines: endpoint frames, transport, error checking and
    /// defensive firmware (1.1 us in latency and gap, so half of it on each side: 20.6 cycles).
    #[must_use]
    pub fn am_myrinet(hosts: u16, frames: u16) -> Self {
        let gam = Self::gam_myrinet(hosts);
        Self {
            frames,
            transport: Some(transport::Config {
                peers: hosts,
                routes: 4,
                ..transport::Config::default()
            }),
            firmware: Firmware {
                check: 21,
                ..gam.firmware
            },
            ..gam
        }
    }
}
