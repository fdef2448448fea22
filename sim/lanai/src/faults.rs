//! What goes wrong while a cluster runs: links and switches that are exchanged, hosts that reboot.

use core::fmt;

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
            Fault::Reboot { host, .. } if host >= hosts => {
                let last = hosts.saturating_sub(1);
                Err(format!("no host {host}: they are 0 to {last}"))
            }
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
