//! What goes wrong while a cluster runs: links and switches that are exchanged, hosts that reboot.

use core::fmt;

use viaduct_cluster::faults::Slowness;
use viaduct_engine::Time;
use viaduct_network::outages::Links;
use viaduct_topology::Topology;

/// Boots of one host, at most: names of its endpoints tell them apart.
pub const BOOTS_MAX: usize = 250;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Links carry nothing for some time: a cable or a switch is exchanged, or breaks. What is on
    /// its way over them is lost.
    LinksDown {
        /// Which: `Links::Between` for a cable, `Links::Of` for a switch with all its cables.
        links: Links,
        /// When that begins.
        from: Time,
        /// When it ends, if it does.
        until: Option<Time>,
    },
    /// Links lose packets that cross them, at a rate.
    LinksLose {
        /// Which.
        links: Links,
        /// Of packets that cross one, 0 to 1.
        rate: f64,
    },
    /// A host stops, and comes back if it does: its endpoints are gone, its interface numbers
    /// everything anew, and its program starts again with an endpoint of another key.
    Reboot {
        /// Which.
        host: u32,
        /// When it stops.
        at: Time,
        /// How long it is gone; longer if its bus is still busy then.
        down_for: Option<Time>,
    },
    /// An interface dies, and nothing reaches its host or leaves it any more. The host's programs
    /// go on: what they have under way comes back to them as unreachable, and what they post later
    /// at once.
    InterfaceDies {
        /// Of which host.
        host: u32,
        /// When.
        at: Time,
    },
    /// A host's processor is slow from some time on, for its programs and its driver. Several of
    /// these add up. The interface has a processor of its own.
    SlowHost {
        /// Which.
        host: u32,
        /// When that begins.
        from: Time,
        /// How slow; of messages those count that a program takes.
        by: Slowness,
    },
}

impl Fault {
    /// The host that it strikes, of faults that strike one.
    #[must_use]
    pub const fn host(&self) -> Option<u32> {
        match *self {
            Self::Reboot { host, .. }
            | Self::InterfaceDies { host, .. }
            | Self::SlowHost { host, .. } => Some(host),
            Self::LinksDown { .. } | Self::LinksLose { .. } => None,
        }
    }

    /// Whether messages may be lost or come back because of it.
    pub(crate) const fn loses(&self) -> bool {
        !matches!(self, Self::SlowHost { .. })
    }
}

/// How fast a host's processor is at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// How many times as long its work takes, if that is not once.
    factor: Option<f64>,
    per_message: Time,
}

impl Pace {
    /// As it is without faults.
    pub(crate) const USUAL: Self = Self {
        factor: None,
        per_message: Time::ZERO,
    };

    /// That of a host at some time.
    #[cold]
    pub(crate) fn of(faults: &[Fault], number: u32, now: Time) -> Self {
        let mut pace = Self::USUAL;
        for fault in faults {
            match *fault {
                Fault::SlowHost { host, from, by } if host == number && from <= now => match by {
                    Slowness::Factor(factor) => {
                        pace.factor = Some(pace.factor.unwrap_or(1.0) * factor);
                    }
                    Slowness::PerMessage(span) => pace.per_message += span,
                },
                _ => {}
            }
        }
        pace
    }

    /// How long work takes.
    #[inline]
    pub(crate) fn stretch(self, span: Time) -> Time {
        match self.factor {
            None => span,
            Some(factor) => {
                Time::from_picoseconds((span.picoseconds() as f64 * factor + 0.5) as u64)
            }
        }
    }

    /// What taking a message costs beside the usual, before it is stretched.
    #[inline]
    pub(crate) const fn per_message(self) -> Time {
        self.per_message
    }
}

/// A fault that cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FaultError {
    /// Its place among the faults, from 0.
    pub fault: usize,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {}: {}", self.fault, self.reason)
    }
}

impl core::error::Error for FaultError {}

/// Whether all faults can be, among so many hosts.
pub(crate) fn check(faults: &[Fault], hosts: u32, topology: &Topology) -> Result<(), FaultError> {
    for (number, fault) in faults.iter().enumerate() {
        let checked = match *fault {
            Fault::LinksDown { links, from, until } => match until {
                Some(until) if until <= from => Err("it ends before it begins".to_owned()),
                _ => links.resolve(topology).map(drop),
            },
            Fault::LinksLose { rate, .. } if !(0.0..=1.0).contains(&rate) => {
                Err(format!("a rate of {rate}: it is from 0 to 1"))
            }
            Fault::LinksLose { links, .. } => links.resolve(topology).map(drop),
            Fault::Reboot { host, .. }
            | Fault::InterfaceDies { host, .. }
            | Fault::SlowHost { host, .. }
                if host >= hosts =>
            {
                let last = hosts.saturating_sub(1);
                Err(format!("no host {host}: they are 0 to {last}"))
            }
            Fault::SlowHost {
                by: Slowness::Factor(factor),
                ..
            } if !(factor > 0.0 && factor.is_finite()) => {
                Err(format!("a factor is above 0, not {factor}"))
            }
            Fault::InterfaceDies { .. } | Fault::SlowHost { .. } => Ok(()),
            Fault::Reboot { host, .. } => {
                let is_it =
                    |it: &&Fault| matches!(it, Fault::Reboot { host: of, .. } if *of == host);
                if faults.iter().filter(is_it).count() < BOOTS_MAX {
                    Ok(())
                } else {
                    Err(format!("host {host} reboots more than {BOOTS_MAX} times"))
                }
            }
        };
        checked.map_err(|reason| FaultError {
            fault: number,
            reason,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use viaduct_topology::{HostId, LinkId, Node, SwitchId};

    use super::*;
    use crate::Config;

    #[test]
    fn faults_of_what_is_not_there_are_told() {
        let ms = Time::from_milliseconds;
        let down = |links, until| Fault::LinksDown {
            links,
            from: ms(2),
            until,
        };
        // Leaf switches are 0 to 2, those of the spine 3 to 6.
        let switch = |number| Node::Switch(SwitchId(number));
        let host = |number| Node::Host(HostId(number));
        let mut config = Config::am_myrinet(12, 8);
        let fine = down(Links::Of(switch(6)), None);
        config.faults = vec![fine, down(Links::Between(host(11), switch(2)), None)];
        assert_eq!(config.check_faults(), Ok(()));
        for wrong in [
            down(Links::Between(host(12), switch(2)), None),
            down(Links::Between(host(11), switch(1)), None),
            down(Links::Between(switch(0), switch(7)), None),
            down(Links::Of(switch(7)), None),
            down(Links::One(LinkId(48)), None),
            down(Links::Of(switch(2)), Some(ms(2))),
            Fault::Reboot {
                host: 12,
                at: ms(2),
                down_for: None,
            },
        ] {
            config.faults[1] = wrong;
            let error = config.check_faults().unwrap_err();
            assert_eq!(error.fault, 1, "{error}");
        }
    }
}
