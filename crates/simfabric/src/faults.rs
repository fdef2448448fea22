//! What can go wrong in a simulation: links that are down, messages that are lost or corrupted,
//! hosts and NICs that die, processors that are slow.
//!
//! What a fault leads to is said by the semantics, by reliability level; `failures.rs` asks it.
//! Here is what a simulation is told, and when and where each fault strikes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_fabric::via::ConnectionNumber;
use viaduct_topology::{LinkId, Node, Topology};

use crate::config::SimulationConfig;

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

/// Some of a network's links, each in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Links {
    /// Every link.
    All,
    /// One, by number.
    One(LinkId),
    /// Those from one node to another.
    OneWay(Node, Node),
    /// Those between two nodes, in both directions.
    Between(Node, Node),
    /// All of a switch, in both directions.
    Of(Node),
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
    /// Its place in [`SimulationConfig::faults`], from 0.
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

impl SimulationConfig {
    /// Whether its faults can be.
    ///
    /// # Errors
    ///
    /// The first that names what is not there, or has a number that makes no sense.
    pub fn check_faults(&self) -> Result<(), FaultError> {
        Faults::new(self).map(drop)
    }
}

/// Later than anything.
const NEVER: Time = Time::from_picoseconds(u64::MAX);

/// Purposes of random streams; each link has one of each.
const LOSS: u64 = 0xfa01;
const CORRUPTION: u64 = 0xfa02;

impl Links {
    /// Their numbers.
    fn resolve(self, topology: &Topology) -> Result<Vec<u32>, String> {
        let count = topology.link_count();
        let leads = |from: Node, to: Node| {
            (0..count).filter(move |link| topology.link_ends(LinkId(*link)) == (from, to))
        };
        let found: Vec<u32> = match self {
            Self::All => return Ok((0..count).collect()),
            Self::One(link) if link.0 < count => vec![link.0],
            Self::One(link) => {
                return Err(format!("no link {}: links are 0 to {}", link.0, count - 1));
            }
            Self::OneWay(from, to) => leads(from, to).collect(),
            Self::Between(one, other) => leads(one, other).chain(leads(other, one)).collect(),
            Self::Of(node) => (0..count)
                .filter(|link| {
                    let (from, to) = topology.link_ends(LinkId(*link));
                    from == node || to == node
                })
                .collect(),
        };
        if found.is_empty() {
            return Err("no link joins the two nodes that it names".to_owned());
        }
        Ok(found)
    }
}

/// What is wrong where, and what has struck so far.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) detection: Detection,
    /// By link: when it is down, in order; the times do not touch.
    down: BTreeMap<u32, Vec<(Time, Time)>>,
    loss: Rates,
    corruption: Rates,
    dead_nics: BTreeSet<u32>,
    dead_hosts: BTreeSet<u32>,
    /// Connections, by their number at a host, of which a message to it was lost at a reliable
    /// level: what follows on them is not delivered either.
    gaps: BTreeSet<(u32, ConnectionNumber)>,
}

/// A host's or NIC's death, and when it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) host: u32,
    pub(crate) is_host: bool,
    pub(crate) at: Time,
}

/// A processor that becomes slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowing {
    pub(crate) from: Time,
    pub(crate) by: Slowness,
}

/// What faults bring about at times that are known from the start.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    pub(crate) deaths: Vec<Death>,
    pub(crate) slowings: Vec<(u32, Slowing)>,
}

impl Faults {
    /// Nothing is wrong yet.
    pub(crate) fn none(detection: Detection) -> Self {
        Self {
            detection,
            down: BTreeMap::new(),
            loss: Rates::default(),
            corruption: Rates::default(),
            dead_nics: BTreeSet::new(),
            dead_hosts: BTreeSet::new(),
            gaps: BTreeSet::new(),
        }
    }

    /// The faults of a configuration; those that strike at a time of their own beside them.
    pub(crate) fn new(config: &SimulationConfig) -> Result<(Self, Timetable), FaultError> {
        let topology = &*config.topology;
        let link_count = topology.link_count() as usize;
        let mut faults = Self::none(config.detection);
        let mut timetable = Timetable::default();
        for (number, fault) in config.faults.iter().enumerate() {
            let wrong = |reason| FaultError {
                fault: number,
                reason,
            };
            let known = |host: u32| check_host(host, topology).map_err(wrong);
            match *fault {
                Fault::LinkDown { links, from, until } => {
                    let until = until.unwrap_or(NEVER);
                    if until <= from {
                        return Err(wrong("it ends before it begins".to_owned()));
                    }
                    for link in links.resolve(topology).map_err(wrong)? {
                        faults.down.entry(link).or_default().push((from, until));
                    }
                }
                Fault::Loss { links, rate } | Fault::Corruption { links, rate } => {
                    if !(0.0..=1.0).contains(&rate) {
                        return Err(wrong(format!("a rate is 0 to 1, not {rate}")));
                    }
                    let is_loss = matches!(fault, Fault::Loss { .. });
                    let (rates, purpose) = if is_loss {
                        (&mut faults.loss, LOSS)
                    } else {
                        (&mut faults.corruption, CORRUPTION)
                    };
                    rates.passing.resize(link_count, 1.0);
                    (rates.seed, rates.purpose) = (config.seed, purpose);
                    for link in links.resolve(topology).map_err(wrong)? {
                        rates.passing[link as usize] *= 1.0 - rate;
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
        for times in faults.down.values_mut() {
            *times = merged(times);
        }
        Ok((faults, timetable))
    }

    /// Links, and since when each is down, that are down for as long as hosts take to notice.
    pub(crate) fn long_cuts(&self) -> impl Iterator<Item = (u32, Time)> + '_ {
        let least = self.detection.host_timeout;
        self.down.iter().flat_map(move |(link, times)| {
            let long = move |(from, until): &&(Time, Time)| until.saturating_sub(*from) >= least;
            times.iter().filter(long).map(|(from, _)| (*link, *from))
        })
    }

    /// Whether a message of so many frames crosses these links unhurt, its bytes moving from one
    /// time to another.
    pub(crate) fn fate(&mut self, links: &[LinkId], frames: u64, from: Time, to: Time) -> Fate {
        if self.is_cut(links, from, to) {
            return Fate::Lost;
        }
        self.draw(links, frames).0
    }

    /// What the rates of these links do to a message of so many frames, and how many of its frames
    /// are before the first that comes to harm.
    pub(crate) fn draw(&mut self, links: &[LinkId], frames: u64) -> (Fate, u64) {
        let mut fate = Fate::Whole;
        // Frames that go on to the next link, and those before a corrupt one.
        let (mut left, mut whole) = (frames, frames);
        for link in links {
            if let Some(lost) = (0..left).find(|_| self.loss.strikes(link.0)) {
                left = lost;
                fate = Fate::Lost;
            }
            if let Some(corrupt) = (0..left).find(|_| self.corruption.strikes(link.0)) {
                whole = whole.min(corrupt);
                if fate == Fate::Whole {
                    fate = Fate::Corrupt;
                }
            }
        }
        (fate, left.min(whole))
    }

    /// Whether a frame that crosses these links comes to no harm.
    pub(crate) fn lets_pass(&mut self, links: &[LinkId]) -> bool {
        self.draw(links, 1).0 == Fate::Whole
    }

    /// Whether one of these links is down at some time between two.
    pub(crate) fn is_cut(&self, links: &[LinkId], from: Time, to: Time) -> bool {
        self.cut(links, from, to).is_some()
    }

    /// The first time between two at which one of these links is down.
    pub(crate) fn cut(&self, links: &[LinkId], from: Time, to: Time) -> Option<Time> {
        let times = links.iter().filter_map(|link| self.down.get(&link.0));
        let hit = times
            .flatten()
            .filter(|(down, up)| *down <= to && from < *up);
        hit.map(|(down, _)| from.max(*down)).min()
    }

    /// The first time from `from` on at which none of these links is down.
    pub(crate) fn up_again(&self, links: &[LinkId], from: Time) -> Time {
        let mut time = from;
        loop {
            let times = links.iter().filter_map(|link| self.down.get(&link.0));
            let blocks = |(down, up): &&(Time, Time)| *down <= time && time < *up;
            let Some((_, up)) = times.flatten().find(blocks) else {
                return time;
            };
            time = *up;
        }
    }

    /// Notes a death; false if it was dead before.
    pub(crate) fn bury(&mut self, host: u32, is_host: bool) -> bool {
        let was_alive = self.dead_nics.insert(host);
        was_alive | (is_host && self.dead_hosts.insert(host))
    }

    pub(crate) fn is_host_dead(&self, host: u32) -> bool {
        self.dead_hosts.contains(&host)
    }

    /// Whether a host neither sends nor receives any more.
    pub(crate) fn is_nic_dead(&self, host: u32) -> bool {
        self.dead_nics.contains(&host)
    }

    /// Notes that a message to a host was lost on a connection.
    pub(crate) fn open_gap(&mut self, host: u32, connection: ConnectionNumber) {
        self.gaps.insert((host, connection));
    }

    /// Whether a message to a host was lost on a connection.
    pub(crate) fn has_gap(&self, host: u32, connection: ConnectionNumber) -> bool {
        self.gaps.contains(&(host, connection))
    }
}

/// What became of a message on its way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Fate {
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

/// How often a fault strikes, by link.
#[derive(Debug, Default)]
struct Rates {
    seed: u64,
    purpose: u64,
    /// The part that gets through; empty if the fault is nowhere.
    passing: Vec<f64>,
    streams: BTreeMap<u32, Stream>,
}

impl Rates {
    /// Whether the fault strikes the message that crosses a link now.
    fn strikes(&mut self, link: u32) -> bool {
        /// As many as there are numbers of 64 bits.
        const ALL: f64 = 18_446_744_073_709_551_616.0;

        let Some(passing) = self.passing.get(link as usize).filter(|part| **part < 1.0) else {
            return false;
        };
        let key = StreamKey {
            seed: self.seed,
            purpose: self.purpose,
            entity: u64::from(link),
        };
        let stream = self.streams.entry(link);
        let drawn = stream.or_insert_with(|| Stream::new(key)).next_u64();
        u128::from(drawn) < ((1.0 - passing) * ALL) as u128
    }
}

fn check_host(host: u32, topology: &Topology) -> Result<(), String> {
    let count = topology.host_count();
    if host < count {
        return Ok(());
    }
    Err(format!("no host {host}: hosts are 0 to {}", count - 1))
}

/// The same times in order, those that touch made one.
fn merged(times: &[(Time, Time)]) -> Vec<(Time, Time)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<(Time, Time)> = Vec::new();
    for (from, until) in sorted {
        match merged.last_mut() {
            Some((_, end)) if from <= *end => *end = until.max(*end),
            _ => merged.push((from, until)),
        }
    }
    merged
}

impl Slowing {
    /// How long work takes that begins at some time.
    pub(crate) fn stretch(&self, begins: Time, span: Time) -> Time {
        match self.by {
            Slowness::Factor(factor) if begins >= self.from => {
                Time::from_picoseconds((span.picoseconds() as f64 * factor + 0.5) as u64)
            }
            Slowness::Factor(_) | Slowness::PerMessage(_) => span,
        }
    }

    /// What a message costs that arrives at some time.
    pub(crate) fn per_message(&self, arrives: Time) -> Time {
        match self.by {
            Slowness::PerMessage(span) if arrives >= self.from => span,
            Slowness::PerMessage(_) | Slowness::Factor(_) => Time::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(microseconds: u64) -> Time {
        Time::from_microseconds(microseconds)
    }

    fn cut(times: &[(u64, u64)]) -> Faults {
        let mut faults = Faults::none(Detection::default());
        let times: Vec<_> = times
            .iter()
            .map(|(from, to)| (at(*from), at(*to)))
            .collect();
        faults.down.insert(3, merged(&times));
        faults
    }

    #[test]
    fn times_that_touch_are_one() {
        let faults = cut(&[(5, 6), (1, 2), (2, 4), (3, 3)]);
        assert_eq!(faults.down[&3], [(at(1), at(4)), (at(5), at(6))]);
    }

    #[test]
    fn a_message_is_lost_if_its_bytes_move_while_a_link_is_down() {
        let mut faults = cut(&[(10, 20)]);
        let way = [LinkId(1), LinkId(3)];
        for (from, to, fate) in [
            (0, 9, Fate::Whole),
            (0, 10, Fate::Lost),
            (12, 13, Fate::Lost),
            (19, 30, Fate::Lost),
            (20, 30, Fate::Whole),
            (0, 30, Fate::Lost),
        ] {
            assert_eq!(
                faults.fate(&way, 1, at(from), at(to)),
                fate,
                "{from} to {to}"
            );
        }
        assert_eq!(faults.fate(&way[..1], 1, at(12), at(13)), Fate::Whole);
    }

    #[test]
    fn a_way_is_up_when_all_its_links_are() {
        let mut faults = cut(&[(10, 20)]);
        faults.down.insert(4, vec![(at(15), at(25))]);
        let way = [LinkId(3), LinkId(4)];
        assert_eq!(faults.up_again(&way, at(5)), at(5));
        assert_eq!(faults.up_again(&way, at(12)), at(25));
        assert_eq!(faults.up_again(&way[..1], at(12)), at(20));
    }
}
