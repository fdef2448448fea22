//! What can go wrong in a simulation: links that are down, messages that are lost or corrupted,
//! hosts and NICs that die, processors that are slow.
//!
//! What a fault leads to is said by the semantics, by reliability level; `failures.rs` asks it.
//! Here is what a simulation is told, and when and where each fault strikes.

use std::collections::BTreeSet;
use std::fmt;

use viaduct_core::ConnectionNumber;
use viaduct_engine::Time;
use viaduct_network::damage::{Damage, Harm};
pub use viaduct_network::outages::Links;
use viaduct_network::outages::{Outages, parts};
use viaduct_topology::{LinkId, Topology};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Links carry nothing for some time. A message whose bytes move while a link of its way is
    /// down is lost; what the kernel agents say to each other is said again until it gets through,
    /// or until [`Detection::host_timeout`].
    LinkDown {
        /// Which.
        links: Links,
        /// When that begins.
        from: Time,
        /// When it ends, if it does.
        until: Option<Time>,
    },
    /// Links lose frames, and with a frame its message, unless the adapters send it again. Of each
    /// link that a frame crosses, at this rate: over two such links fewer get through than over
    /// one. An acknowledgement at reliable reception is a frame too; what the kernel agents say to
    /// each other is not, since they say it again.
    Loss {
        /// Which.
        links: Links,
        /// Of all frames, 0 to 1: a message longer than the payload of one has several.
        rate: f64,
    },
    /// Links corrupt frames: at the receiver a checksum is wrong. As for [`Fault::Loss`].
    Corruption {
        /// Which.
        links: Links,
        /// Of all frames, 0 to 1.
        rate: f64,
    },
    /// A host dies: its programs never run again, what it sends and what is sent to it is lost.
    HostDies {
        /// Which.
        host: u32,
        /// When.
        at: Time,
    },
    /// A NIC dies: its connections are lost, and what it sends and is sent. The host's programs go
    /// on, and hear of a catastrophic error.
    NicDies {
        /// On which host.
        host: u32,
        /// When.
        at: Time,
    },
    /// A host's processor is slow from some time on. Several of these add up.
    SlowHost {
        /// Which.
        host: u32,
        /// When that begins.
        from: Time,
        /// How slow.
        by: Slowness,
    },
}

impl Fault {
    /// Whether it keeps messages, or whole bytes of them, from crossing a link.
    #[must_use]
    pub const fn is_of_links(&self) -> bool {
        matches!(
            self,
            Self::LinkDown { .. } | Self::Loss { .. } | Self::Corruption { .. }
        )
    }

    /// Whether it makes something faster: a processor that is slow by a factor below 1.
    #[must_use]
    pub fn speeds_up(&self) -> bool {
        matches!(self, Self::SlowHost { by: Slowness::Factor(factor), .. } if *factor < 1.0)
    }
}

/// How slow a processor is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slowness {
    /// Whatever it does takes so many times as long.
    Factor(f64),
    /// Each message that arrives takes it so much time; longer by a factor, if there is one too.
    PerMessage(Time),
}

/// How long it takes until a fault is noticed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Detection {
    /// From a lost message's arrival, had it arrived, until the sending NIC gives up. At the
    /// reliable levels only: VIA sends nothing again there, so this breaks the connection.
    pub transport_timeout: Time,
    /// How long the kernel agents of two hosts miss each other until each tells its NIC that the
    /// other host cannot be reached: at every level this ends the connections between the two.
    pub host_timeout: Time,
}

impl Default for Detection {
    /// 1 ms for a message: twenty times the round trip of the slowest system-area network of the
    /// time, so that none which only waits behind others is given up, and little for a program. 10
    /// ms for a host: ten greetings of the agents, one a millisecond, that stay away.
    fn default() -> Self {
        Self {
            transport_timeout: Time::from_milliseconds(1),
            host_timeout: Time::from_milliseconds(10),
        }
    }
}

/// A fault that cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FaultError {
    /// Its place in the list of faults, from 0.
    pub fault: usize,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for FaultError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "fault {}: {}", self.fault, self.reason)
    }
}

impl std::error::Error for FaultError {}

/// What is wrong where, and what has struck so far.
#[derive(Debug)]
pub struct Faults {
    /// How long it takes until they are noticed.
    pub detection: Detection,
    /// Links that are down.
    pub outages: Outages,
    /// Links that lose or corrupt frames.
    damage: Damage,
    /// Whether a link may lose what crosses it, for any of these reasons.
    may_lose: bool,
    dead_nics: BTreeSet<u32>,
    dead_hosts: BTreeSet<u32>,
    /// Connections, by their number at a host, of which a message to it was lost at a reliable
    /// level: what follows on them is not delivered either.
    gaps: BTreeSet<Gap>,
}

/// A connection of which a message was lost: the host that it is to, whether a program of it has
/// that, and its number there.
pub(crate) type Gap = (u32, bool, ConnectionNumber);

/// A host's or NIC's death, and when it happens.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// Where.
    pub host: u32,
    /// Whether all of the host dies, not its NIC alone.
    pub is_host: bool,
    /// When.
    pub at: Time,
}

/// A processor that becomes slow.
#[derive(Clone, Copy, Debug)]
pub struct Slowing {
    /// When that begins.
    pub from: Time,
    /// How slow.
    pub by: Slowness,
}

/// What faults bring about at times that are known from the start.
#[derive(Debug, Default)]
pub struct Timetable {
    /// Deaths.
    pub deaths: Vec<Death>,
    /// Processors that become slow, each with its host.
    pub slowings: Vec<(u32, Slowing)>,
}

impl Faults {
    /// Nothing is wrong yet. `seed` is that of what the links lose and corrupt.
    #[must_use]
    pub fn none(topology: &Topology, detection: Detection, seed: u64) -> Self {
        Self {
            detection,
            outages: Outages::default(),
            damage: Damage::none(topology.link_count(), seed),
            may_lose: false,
            dead_nics: BTreeSet::new(),
            dead_hosts: BTreeSet::new(),
            gaps: BTreeSet::new(),
        }
    }

    /// A list of faults; those that strike at a time of their own beside them.
    ///
    /// # Errors
    ///
    /// The first fault that names what is not there, or has a number that makes no sense.
    pub fn new(
        list: &[Fault],
        topology: &Topology,
        detection: Detection,
        seed: u64,
    ) -> Result<(Self, Timetable), FaultError> {
        let mut faults = Self::none(topology, detection, seed);
        let mut timetable = Timetable::default();
        faults.may_lose = list.iter().any(Fault::is_of_links);
        for (number, fault) in list.iter().enumerate() {
            let wrong = |reason| FaultError {
                fault: number,
                reason,
            };
            let known = |host: u32| check_host(host, topology).map_err(wrong);
            match *fault {
                Fault::LinkDown { links, from, until } => {
                    if until.is_some_and(|until| until <= from) {
                        return Err(wrong("it ends before it begins".to_owned()));
                    }
                    for link in links.resolve(topology).map_err(wrong)? {
                        faults.outages.add(link, from, until);
                    }
                }
                Fault::Loss { links, rate } | Fault::Corruption { links, rate } => {
                    if !(0.0..=1.0).contains(&rate) {
                        return Err(wrong(format!("a rate is 0 to 1, not {rate}")));
                    }
                    let is_loss = matches!(fault, Fault::Loss { .. });
                    for link in links.resolve(topology).map_err(wrong)? {
                        if is_loss {
                            faults.damage.lose(link, rate);
                        } else {
                            faults.damage.corrupt(link, rate);
                        }
                    }
                }
                Fault::HostDies { host, at } | Fault::NicDies { host, at } => {
                    known(host)?;
                    let is_host = matches!(fault, Fault::HostDies { .. });
                    timetable.deaths.push(Death { host, is_host, at });
                }
                Fault::SlowHost { host, from, by } => {
                    known(host)?;
                    if let Slowness::Factor(factor) = by
                        && !(factor > 0.0 && factor.is_finite())
                    {
                        return Err(wrong(format!("a factor is above 0, not {factor}")));
                    }
                    timetable.slowings.push((host, Slowing { from, by }));
                }
            }
        }
        Ok((faults, timetable))
    }

    /// Queues of switches may lose frames.
    pub(crate) fn expect_losses(&mut self) {
        self.may_lose = true;
    }

    /// Whether links, or switches before them, may lose what crosses them.
    #[must_use]
    pub const fn may_lose(&self) -> bool {
        self.may_lose
    }

    /// Whether a message of so many frames crosses these links unhurt, its bytes moving from one
    /// time to another.
    pub fn fate(&mut self, links: &[LinkId], frames: u64, from: Time, to: Time) -> Fate {
        if self.cut(links, from, to).is_some() {
            return Fate::Lost;
        }
        self.draw(links, frames).0
    }

    /// What the rates of these links do to a message of so many frames, and how many of its frames
    /// are before the first that comes to harm.
    pub fn draw(&mut self, links: &[LinkId], frames: u64) -> (Fate, u64) {
        let (harm, came) = self.damage.draw(links, frames);
        let fate = match harm {
            Harm::None => Fate::Whole,
            Harm::Corrupt => Fate::Corrupt,
            Harm::Lost => Fate::Lost,
        };
        (fate, came)
    }

    /// Whether a frame that crosses these links comes to no harm.
    pub fn lets_pass(&mut self, links: &[LinkId]) -> bool {
        self.damage.lets_pass(links)
    }

    /// The first time between two at which one of these links is down.
    pub fn cut(&self, links: &[LinkId], from: Time, to: Time) -> Option<Time> {
        self.outages.cut(parts(links), from, to)
    }

    /// Notes a death; false if it was dead before.
    pub fn bury(&mut self, host: u32, is_host: bool) -> bool {
        let was_alive = self.dead_nics.insert(host);
        was_alive | (is_host && self.dead_hosts.insert(host))
    }

    /// Whether a host is dead: its programs do nothing any more.
    #[must_use]
    pub fn is_host_dead(&self, host: u32) -> bool {
        self.dead_hosts.contains(&host)
    }

    /// Whether a host neither sends nor receives any more.
    pub fn is_nic_dead(&self, host: u32) -> bool {
        self.dead_nics.contains(&host)
    }

    /// Notes that a message was lost on a connection.
    pub(crate) fn open_gap(&mut self, gap: Gap) {
        self.gaps.insert(gap);
    }

    /// Whether a message was lost on a connection.
    pub(crate) fn has_gap(&self, gap: Gap) -> bool {
        self.gaps.contains(&gap)
    }
}

/// How a message on its way ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fate {
    /// Nothing happened to it.
    #[default]
    Whole,
    /// Its bytes came to harm.
    Corrupt,
    /// It does not arrive.
    Lost,
    /// It ends with the frame by which its receiver learns of a gap: in it, or before it.
    Gap,
}

fn check_host(host: u32, topology: &Topology) -> Result<(), String> {
    let count = topology.host_count();
    if host < count {
        return Ok(());
    }
    Err(format!("no host {host}: hosts are 0 to {}", count - 1))
}

impl Slowing {
    /// How long work takes that begins at some time.
    pub fn stretch(&self, begins: Time, span: Time) -> Time {
        match self.by {
            Slowness::Factor(factor) if begins >= self.from => {
                Time::from_picoseconds((span.picoseconds() as f64 * factor + 0.5) as u64)
            }
            Slowness::Factor(_) | Slowness::PerMessage(_) => span,
        }
    }

    /// What a message costs that arrives at some time.
    pub fn per_message(&self, arrives: Time) -> Time {
        match self.by {
            Slowness::PerMessage(span) if arrives >= self.from => span,
            Slowness::PerMessage(_) | Slowness::Factor(_) => Time::ZERO,
        }
    }
}
