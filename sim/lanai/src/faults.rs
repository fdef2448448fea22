//! What goes wrong while a cluster runs: links and switches that are exchanged, hosts that reboot.

use core::fmt;

use viaduct_engine::Time;
use viaduct_network::outages::Outages;

/// Boots of one host, at most: names of its endpoints tell them apart.
pub const BOOTS_MAX: usize = 250;

/// A cable of the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cable {
    /// Between a host and its leaf switch.
    Host(u16),
    /// Between a leaf switch and a switch of the spine; a route over the spine crosses its switch.
    Spine {
        /// Which leaf switch: host h is at leaf h divided by hosts a leaf.
        leaf: u16,
        /// Which switch of the spine, and so which route.
        spine: u16,
    },
}

/// A switch of the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Switch {
    /// The one of some hosts.
    Leaf(u16),
    /// One that leaves meet in.
    Spine(u16),
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// A cable carries nothing for some time: it is exchanged, or breaks. What is on its way over
    /// it is lost.
    CableDown {
        /// Which.
        cable: Cable,
        /// When that begins.
        from: Time,
        /// When it ends, if it does.
        until: Option<Time>,
    },
    /// A switch, and with it all its cables.
    SwitchDown {
        /// Which.
        switch: Switch,
        /// When that begins.
        from: Time,
        /// When it ends, if it does.
        until: Option<Time>,
    },
    /// A host stops, and comes back if it does: its endpoints are gone, its interface numbers
    /// everything anew, and its program starts again with an endpoint of another key.
    Reboot {
        /// Which.
        host: u16,
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

/// Switches of a two-level tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) hosts: u16,
    pub(crate) hosts_a_leaf: u16,
    pub(crate) spines: u16,
}

impl Shape {
    fn leaves(self) -> u16 {
        self.hosts.div_ceil(self.hosts_a_leaf)
    }

    /// Whether all faults can be.
    pub(crate) fn check(self, faults: &[Fault]) -> Result<(), FaultError> {
        let below = |what: &str, number: u16, count: u16| {
            if number < count {
                return Ok(());
            }
            let last = count.saturating_sub(1);
            Err(format!("no {what} {number}: they are 0 to {last}"))
        };
        let in_order = |from: Time, until: Option<Time>| match until {
            Some(until) if until <= from => Err("it ends before it begins".to_owned()),
            _ => Ok(()),
        };
        for (number, fault) in faults.iter().enumerate() {
            let checked = match *fault {
                Fault::CableDown { cable, from, until } => match cable {
                    Cable::Host(host) => below("host", host, self.hosts),
                    Cable::Spine { leaf, spine } => below("leaf switch", leaf, self.leaves())
                        .and_then(|()| below("spine switch", spine, self.spines)),
                }
                .and_then(|()| in_order(from, until)),
                Fault::SwitchDown {
                    switch,
                    from,
                    until,
                } => match switch {
                    Switch::Leaf(leaf) => below("leaf switch", leaf, self.leaves()),
                    Switch::Spine(spine) => below("spine switch", spine, self.spines),
                }
                .and_then(|()| in_order(from, until)),
                Fault::Reboot { host, .. } => {
                    let is_it =
                        |it: &&Fault| matches!(it, Fault::Reboot { host: of, .. } if *of == host);
                    let boots = faults.iter().filter(is_it).count();
                    below("host", host, self.hosts).and_then(|()| {
                        if boots < BOOTS_MAX {
                            Ok(())
                        } else {
                            Err(format!("host {host} reboots more than {BOOTS_MAX} times"))
                        }
                    })
                }
            };
            checked.map_err(|reason| FaultError {
                fault: number,
                reason,
            })?;
        }
        Ok(())
    }
}

/// Numbers of cables and switches as parts of a way: hosts' cables, leaf switches, switches of the
/// spine, and from each leaf the cables to those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    shape: Shape,
}

impl Parts {
    pub(crate) const fn new(shape: Shape) -> Self {
        Self { shape }
    }

    fn cable(self, cable: Cable) -> u32 {
        match cable {
            Cable::Host(host) => host.into(),
            Cable::Spine { leaf, spine } => {
                let first = self.switch(Switch::Spine(self.shape.spines));
                first + u32::from(leaf) * u32::from(self.shape.spines) + u32::from(spine)
            }
        }
    }

    fn switch(self, switch: Switch) -> u32 {
        match switch {
            Switch::Leaf(leaf) => u32::from(self.shape.hosts) + u32::from(leaf),
            Switch::Spine(spine) => {
                self.switch(Switch::Leaf(self.shape.leaves())) + u32::from(spine)
            }
        }
    }

    /// What a packet crosses from host to host over a route.
    pub(crate) fn way(self, ends: (u16, u16), route: u8) -> impl Iterator<Item = u32> {
        let leaf = |host: u16| host / self.shape.hosts_a_leaf;
        let leaves = [leaf(ends.0), leaf(ends.1)];
        let spine = u16::from(route);
        let near = [ends.0, ends.1]
            .map(|host| self.cable(Cable::Host(host)))
            .into_iter()
            .chain(leaves.map(|leaf| self.switch(Switch::Leaf(leaf))));
        let crosses_spine = leaves[0] != leaves[1] && spine < self.shape.spines;
        let over_spine = crosses_spine.then(|| {
            let cables = leaves.map(|leaf| self.cable(Cable::Spine { leaf, spine }));
            cables
                .into_iter()
                .chain([self.switch(Switch::Spine(spine))])
        });
        near.chain(over_spine.into_iter().flatten())
    }

    /// What of the network is down when.
    pub(crate) fn outages(self, faults: &[Fault]) -> Outages {
        let mut outages = Outages::default();
        for fault in faults {
            match *fault {
                Fault::CableDown { cable, from, until } => {
                    outages.add(self.cable(cable), from, until);
                }
                Fault::SwitchDown {
                    switch,
                    from,
                    until,
                } => outages.add(self.switch(switch), from, until),
                Fault::Reboot { .. } => {}
            }
        }
        outages
    }

    /// A host's cable, by which it hears and speaks.
    pub(crate) fn of_host(self, host: u16) -> u32 {
        self.cable(Cable::Host(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Time {
        Time::from_milliseconds(milliseconds)
    }

    const PARTS: Parts = Parts::new(Shape {
        hosts: 15,
        hosts_a_leaf: 5,
        spines: 4,
    });

    fn down(fault: impl Fn(Time, Option<Time>) -> Fault) -> Outages {
        PARTS.outages(&[fault(ms(10), Some(ms(20)))])
    }

    #[test]
    fn what_crosses_a_part_while_it_is_down_is_cut() {
        let cable = |cable| down(|from, until| Fault::CableDown { cable, from, until });
        let switch = |switch| {
            down(|from, until| Fault::SwitchDown {
                switch,
                from,
                until,
            })
        };
        // Hosts 0 to 4 are at one leaf, 5 to 9 at the next.
        for (outages, ends, route, is_cut) in [
            (cable(Cable::Host(3)), (3, 9), 0, true),
            (cable(Cable::Host(3)), (9, 3), 1, true),
            (cable(Cable::Host(3)), (2, 9), 0, false),
            (switch(Switch::Leaf(1)), (0, 7), 0, true),
            (switch(Switch::Leaf(1)), (0, 4), 0, false),
            (switch(Switch::Spine(2)), (0, 7), 2, true),
            (switch(Switch::Spine(2)), (0, 7), 1, false),
            (switch(Switch::Spine(2)), (0, 4), 2, false),
            (cable(Cable::Spine { leaf: 1, spine: 2 }), (7, 0), 2, true),
            (cable(Cable::Spine { leaf: 1, spine: 2 }), (12, 0), 2, false),
        ] {
            let at = |from, to| {
                let way = PARTS.way(ends, route);
                outages.cut(way, ms(from), ms(to)).is_some()
            };
            assert_eq!(at(12, 13), is_cut, "{outages:?}, {ends:?} over {route}");
            assert_eq!((at(5, 9), at(20, 25)), (false, false), "{outages:?}");
            assert_eq!((at(9, 10), at(19, 25)), (is_cut, is_cut), "{outages:?}");
        }
    }

    #[test]
    fn faults_of_what_is_not_there_are_told() {
        let shape = Shape {
            hosts: 12,
            hosts_a_leaf: 5,
            spines: 4,
        };
        let (from, until) = (ms(2), None);
        let wrong = [
            Fault::CableDown {
                cable: Cable::Host(12),
                from,
                until,
            },
            Fault::CableDown {
                cable: Cable::Spine { leaf: 0, spine: 4 },
                from,
                until,
            },
            Fault::SwitchDown {
                switch: Switch::Leaf(3),
                from,
                until,
            },
            Fault::SwitchDown {
                switch: Switch::Leaf(2),
                from,
                until: Some(ms(2)),
            },
            Fault::Reboot {
                host: 12,
                at: from,
                down_for: None,
            },
        ];
        for fault in wrong {
            let fine = Fault::SwitchDown {
                switch: Switch::Spine(3),
                from,
                until,
            };
            let error = shape.check(&[fine, fault]).unwrap_err();
            assert_eq!(error.fault, 1, "{error}");
        }
    }
}
