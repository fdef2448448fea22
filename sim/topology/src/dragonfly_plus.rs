//! Dragonflies whose groups are trees of two levels (dragonfly+, megafly), by arithmetic.
//!
//! A group of switches with k ports has k/2 leaves with k/2 hosts each, all joined to k/2 spines,
//! each of which has k/2 links to other groups.
//!
//! ```text
//! switches                 group * k + place, the leaves of a group before its spines
//! links within a group     first + 2 * ((group * k/2 + leaf) * k/2 + spine), and the way down
//!                          behind it
//! links between groups     behind these: group * ports + port; see `groups.rs`
//! ```
//!
//! A way goes up to a spine, at most once to another group, and down: at most three links.

use crate::dragonfly::too_many_groups;
use crate::error::TopologyError;
use crate::generated::{Generated, Step, at_least_one, even_ports};
use crate::grid::within;
use crate::groups::Groups;
use crate::{HostId, Plan, SwitchId};

/// A dragonfly+.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DragonflyPlus {
    radix: u32,
    /// Leaves and spines of a group, hosts of a leaf, links of a spine to other groups.
    half: u32,
    groups: Groups,
    hosts: u32,
    /// Links within groups.
    local_links: u32,
}

impl DragonflyPlus {
    /// Of switches with so many ports; as many groups as can be joined, if they are not said.
    pub(crate) fn new(radix: u32, groups: Option<u32>) -> Result<Self, TopologyError> {
        even_ports("a dragonfly+", radix)?;
        let half = radix / 2;
        let most = u64::from(half) * u64::from(half) + 1;
        let count = match groups {
            Some(groups) => groups,
            None => within("the number of groups", most)? as u32,
        };
        at_least_one("the number of groups", count)?;
        too_many_groups(count, most)?;
        let switches = u64::from(radix).saturating_mul(u64::from(count));
        let switches = within("the number of switches", switches)?;
        let leaves = switches / 2;
        let hosts = within("the number of hosts", leaves * u64::from(half))?;
        // As many as hosts, within groups and between them, each both ways.
        within("the number of directed links", hosts.saturating_mul(6))?;
        Ok(Self {
            radix,
            half,
            groups: Groups::new(count, half * half),
            hosts: hosts as u32,
            local_links: 2 * hosts as u32,
        })
    }

    fn group(&self, switch: SwitchId) -> u32 {
        switch.0 / self.radix
    }

    /// The place of a leaf in its group, or of a spine.
    fn place(&self, switch: SwitchId) -> Result<u32, u32> {
        let place = switch.0 % self.radix;
        match place.checked_sub(self.half) {
            None => Ok(place),
            Some(spine) => Err(spine),
        }
    }

    /// The step from a leaf up to a spine, or from it down.
    fn within_group(&self, group: u32, leaf: u32, spine: u32, is_down: bool) -> Step {
        let pair = (group * self.half + leaf) * self.half + spine;
        let place = match is_down {
            true => leaf,
            false => self.half + spine,
        };
        Step {
            link: 2 * pair + u32::from(is_down),
            to: SwitchId(group * self.radix + place),
        }
    }

    /// The step over a port of a group.
    fn between_groups(&self, group: u32, port: u32) -> Step {
        let (to, port_there) = self.groups.across(group, port);
        Step {
            link: self.local_links + group * self.groups.ports() + port,
            to: SwitchId(to * self.radix + self.half + port_there / self.half),
        }
    }

    /// The ports of a group that lead to another, each with its spine.
    fn ports_to(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..self.groups.links).map(move |link| {
            let port = self.groups.port(from, to, link);
            (port, port / self.half)
        })
    }

    /// The spines of a group with links to another, each once.
    fn spines_to(&self, from: u32, to: u32) -> impl Iterator<Item = u32> {
        let mut before = None;
        let spines = self.ports_to(from, to).map(|(_, spine)| spine);
        spines.filter(move |&spine| before.replace(spine) != Some(spine))
    }

    /// The shortest steps to a leaf.
    fn steps(&self, at: SwitchId, goal: SwitchId) -> Steps {
        let (from, to) = (self.group(at), self.group(goal));
        match (self.place(at), from == to) {
            (Ok(_), true) => Steps::AnySpine,
            (Ok(_), false) => Steps::SpinesTo(to),
            (Err(_), true) => Steps::Down,
            (Err(spine), false) => {
                let has_link = self.ports_to(from, to).any(|(_, its)| its == spine);
                if has_link {
                    Steps::Across(to)
                } else {
                    Steps::AnyLeaf
                }
            }
        }
    }
}

/// What leads closer to a leaf.
enum Steps {
    /// In the leaf's group from another leaf: all spines.
    AnySpine,
    /// From a leaf of another group: the spines with a link to this one.
    SpinesTo(u32),
    /// From a spine with links to this group.
    Across(u32),
    /// From a spine of the group.
    Down,
    /// From a spine of another group that has no link: all leaves. No way of a host's comes there.
    AnyLeaf,
}

impl Generated for DragonflyPlus {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.radix * self.groups.count
    }

    fn switch_link_count(&self) -> u32 {
        self.local_links + self.groups.count * self.groups.ports()
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        let leaf = host.0 / self.half;
        SwitchId(leaf / self.half * self.radix + leaf % self.half)
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        if let Some(index) = index.checked_sub(self.local_links) {
            let (group, port) = (index / self.groups.ports(), index % self.groups.ports());
            let from = group * self.radix + self.half + port / self.half;
            return (SwitchId(from), self.between_groups(group, port).to);
        }
        let (leaf, spine) = (index / 2 / self.half, index / 2 % self.half);
        let (group, leaf) = (leaf / self.half, leaf % self.half);
        let ends = [true, false].map(|is_down| self.within_group(group, leaf, spine, is_down).to);
        match index.is_multiple_of(2) {
            true => (ends[0], ends[1]),
            false => (ends[1], ends[0]),
        }
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        from < to
    }

    fn is_multigraph(&self) -> bool {
        self.groups.links > 1 && self.half >= self.groups.count
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        match self.steps(at, goal) {
            Steps::AnySpine | Steps::AnyLeaf => self.half,
            Steps::SpinesTo(to) => self.spines_to(self.group(at), to).count() as u32,
            Steps::Across(to) => {
                let spine = self.place(at).err();
                let ports = self.ports_to(self.group(at), to);
                ports.filter(|&(_, its)| Some(its) == spine).count() as u32
            }
            Steps::Down => 1,
        }
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        let group = self.group(at);
        let (leaf, spine) = match self.place(at) {
            Ok(leaf) => (leaf, number),
            Err(spine) => (number, spine),
        };
        match self.steps(at, goal) {
            Steps::AnySpine => self.within_group(group, leaf, number, false),
            Steps::SpinesTo(to) => {
                let spine = self.spines_to(group, to).nth(number as usize);
                self.within_group(group, leaf, spine.unwrap_or(0), false)
            }
            Steps::Across(to) => {
                let ports = self.ports_to(group, to);
                let port = ports.filter(|&(_, its)| its == spine).nth(number as usize);
                self.between_groups(group, port.map_or(0, |(port, _)| port))
            }
            Steps::Down => self.within_group(group, goal.0 % self.radix, spine, true),
            Steps::AnyLeaf => self.within_group(group, leaf, spine, true),
        }
    }

    /// By the target's number.
    fn fixed_step(&self, _at: SwitchId, target: HostId, count: u32) -> u32 {
        target.0 % count
    }

    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        Some(self.radix)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        let group = self.group(switch);
        match self.place(switch) {
            Ok(leaf) => format!("leaf{group}-{leaf}"),
            Err(spine) => format!("spine{group}-{spine}"),
        }
    }

    fn host_name(&self, host: HostId) -> String {
        let (leaf, place) = (host.0 / self.half, host.0 % self.half);
        format!("n{}-{}-{place}", leaf / self.half, leaf % self.half)
    }

    fn description(&self) -> String {
        let Self {
            radix, half, hosts, ..
        } = self;
        let groups = self.groups.count;
        format!(
            "dragonfly+ of {groups} groups of {half} leaves and {half} spines with {radix} ports, \
             {hosts} hosts"
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::DragonflyPlus {
            radix: self.radix,
            groups: self.groups.count,
        }
    }
}
