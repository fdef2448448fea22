//! `--fault` on simulated interfaces: lines into faults of a cluster.

use viaduct_engine::Time;
use viaduct_lanai::{Cable, Config, Fault, Switch};
use viaduct_programs::faults::{Fault as HostFault, Links};
use viaduct_scenario::{parse_time, read_faults};
use viaduct_topology::{Node, Topology, parse_edge_list};

use crate::failure::Failure;

const FORMS: &str = "the forms are `link host 1 down 10 ms..20 ms` (its cable), `link leaf0 <-> spine1 \
                     down 10 ms..`, `link switch spine1 down ..20 ms`, `host 1 dies at 5 ms`, `host 1 \
                     reboots at 5 ms for 100 ms`";

/// Reads lines, and holds them to a cluster.
pub(super) fn read(lines: &[String], config: &Config) -> Result<Vec<Fault>, Failure> {
    let shape = Tree::of(config);
    let topology = shape.topology()?;
    let mut faults = Vec::new();
    for line in lines {
        if let Some(reboot) = reboot(line)? {
            faults.push(reboot);
            continue;
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        // Of other faults it is said below what they would need.
        if !["link", "host", "nic", "loss", "corruption"].contains(&first) {
            return Err(Failure::new(
                format!("`--fault {line}`: it begins with neither `link` nor `host`"),
                FORMS,
            ));
        }
        for fault in read_faults(core::slice::from_ref(line), &topology)? {
            faults.extend(shape.translate(&fault, line)?);
        }
    }
    let with_faults = Config {
        faults,
        ..config.clone()
    };
    match with_faults.check_faults() {
        Ok(()) => Ok(with_faults.faults),
        Err(error) => Err(Failure::new(
            format!(
                "`--fault {}`: {}",
                lines[error.fault.min(lines.len() - 1)],
                error.reason
            ),
            FORMS,
        )),
    }
}

/// `host 1 reboots at 5 ms for 100 ms`; none if it is something else.
fn reboot(line: &str) -> Result<Option<Fault>, Failure> {
    let Some((host, rest)) = line.split_once("reboots") else {
        return Ok(None);
    };
    let wrong = |problem: &str| Failure::new(format!("`--fault {line}`: {problem}"), FORMS);
    let host = host.trim().strip_prefix("host").map(str::trim);
    let host = host.and_then(|host| host.parse::<u16>().ok());
    let host = host.ok_or_else(|| wrong("hosts have numbers, from 0"))?;
    let times = rest
        .trim()
        .strip_prefix("at ")
        .and_then(|it| it.split_once(" for "));
    let (at, down_for) = times.ok_or_else(|| wrong("when, and for how long?"))?;
    let time = |text: &str| -> Result<Time, Failure> {
        parse_time(text.trim())
            .map_err(|error| wrong(&format!("{}: {}", text.trim(), error.problem)))
    };
    Ok(Some(Fault::Reboot {
        host,
        at: time(at)?,
        down_for: Some(time(down_for)?),
    }))
}

/// A cluster's two levels of switches.
#[derive(Clone, Copy, Debug)]
struct Tree {
    hosts: u16,
    hosts_a_leaf: u16,
    leaves: u16,
    spines: u16,
}

impl Tree {
    fn of(config: &Config) -> Self {
        Self {
            hosts: config.hosts,
            hosts_a_leaf: config.network.hosts_a_leaf,
            leaves: config.hosts.div_ceil(config.network.hosts_a_leaf),
            spines: config.transport.map_or(1, |it| u16::from(it.routes)),
        }
    }

    /// The same as a graph with names: `host3`, `leaf0`, `spine1`.
    fn topology(self) -> Result<Topology, Failure> {
        let mut text = "hosts host*\n".to_owned();
        for host in 0..self.hosts {
            text.push_str(&format!("host{host} leaf{}\n", host / self.hosts_a_leaf));
        }
        for leaf in 0..self.leaves {
            for spine in 0..self.spines {
                text.push_str(&format!("leaf{leaf} spine{spine}\n"));
            }
        }
        parse_edge_list(&text).map_err(Failure::plain)
    }

    fn translate(self, fault: &HostFault, line: &str) -> Result<Vec<Fault>, Failure> {
        let wrong = |problem: &str| Failure::new(format!("`--fault {line}`: {problem}"), FORMS);
        match *fault {
            HostFault::LinkDown { links, from, until } => {
                let cable = |cable| Fault::CableDown { cable, from, until };
                let switch = |switch| Fault::SwitchDown {
                    switch,
                    from,
                    until,
                };
                let topology = self.topology()?;
                let number = |node: Node, word: &str| -> Option<u16> {
                    topology.node_name(node).strip_prefix(word)?.parse().ok()
                };
                Ok(match links {
                    Links::All => (0..self.leaves)
                        .map(|leaf| switch(Switch::Leaf(leaf)))
                        .collect(),
                    Links::Of(node) => {
                        let leaf = number(node, "leaf").map(Switch::Leaf);
                        let found = leaf.or_else(|| number(node, "spine").map(Switch::Spine));
                        vec![switch(found.ok_or_else(|| wrong("it names no switch"))?)]
                    }
                    Links::Between(one, other) => {
                        let of = |word| number(one, word).or_else(|| number(other, word));
                        let found = match (of("host"), of("leaf"), of("spine")) {
                            (Some(host), ..) => Cable::Host(host),
                            (None, Some(leaf), Some(spine)) => Cable::Spine { leaf, spine },
                            _ => return Err(wrong("it names no cable")),
                        };
                        vec![cable(found)]
                    }
                    Links::One(_) | Links::OneWay(..) => {
                        return Err(wrong("a cable goes down in both directions, as in `<->`"));
                    }
                })
            }
            HostFault::HostDies { host, at } => Ok(vec![Fault::Reboot {
                host: u16::try_from(host).map_err(|_| wrong("there is no such host"))?,
                at,
                down_for: None,
            }]),
            _ => Err(wrong("on these interfaces cables, switches and hosts fail")),
        }
    }
}
