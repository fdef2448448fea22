//! Dragonflies: groups of switches, all joined to each other within a group, and each group to
//! each other, by arithmetic.
//!
//! ```text
//! switches                 group * switches of a group + place
//! links within a group     first + switch * (switches of a group - 1) + port
//! links between groups     behind these: group * ports + port; see `groups.rs`
//! ```
//!
//! A way goes to the switch that has the link to the target's group, over that link, and to the
//! target's switch: at most three links, one of them between groups. A way over two other groups'
//! links and none within a group may be shorter than one of three; as in the networks that are
//! built so, no message takes it, since two channels are then enough for no deadlock.

use crate::error::TopologyError;
use crate::generated::{Generated, Step, at_least_one, hosts_in_words};
use crate::grid::within;
use crate::groups::Groups;
use crate::{HostId, Plan, SwitchId};

/// The measures of a dragonfly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DragonflyShape {
    /// p: hosts at a switch.
    pub hosts_per_switch: u32,
    /// a: switches of a group.
    pub switches_per_group: u32,
    /// h: links of a switch to other groups.
    pub global_links: u32,
    /// g: groups, from 1 to a h + 1.
    pub groups: u32,
}

impl DragonflyShape {
    /// The most groups that can be joined: a h + 1.
    #[must_use]
    pub fn groups_max(&self) -> u64 {
        u64::from(self.switches_per_group) * u64::from(self.global_links) + 1
    }
}

/// A dragonfly.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Dragonfly {
    shape: DragonflyShape,
    groups: Groups,
    hosts: u32,
    switches: u32,
    /// Links within groups.
    local_links: u32,
}

impl Dragonfly {
    pub(crate) fn new(shape: DragonflyShape) -> Result<Self, TopologyError> {
        let DragonflyShape {
            hosts_per_switch,
            switches_per_group,
            global_links,
            groups,
        } = shape;
        at_least_one("the number of hosts at a switch", hosts_per_switch)?;
        at_least_one("the number of switches of a group", switches_per_group)?;
        at_least_one(
            "the number of links of a switch to other groups",
            global_links,
        )?;
        at_least_one("the number of groups", groups)?;
        too_many_groups(groups, shape.groups_max())?;
        let switches = u64::from(switches_per_group).saturating_mul(u64::from(groups));
        let switches = within("the number of switches", switches)?;
        let hosts = within(
            "the number of hosts",
            switches * u64::from(hosts_per_switch),
        )?;
        let local = switches.saturating_mul(u64::from(switches_per_group - 1));
        let ports = switches_per_group.saturating_mul(global_links);
        let global = switches.saturating_mul(u64::from(global_links));
        let links = local.saturating_add(global).saturating_add(2 * hosts);
        within("the number of directed links", links)?;
        Ok(Self {
            shape,
            groups: Groups::new(groups, ports),
            hosts: hosts as u32,
            switches: switches as u32,
            local_links: local as u32,
        })
    }

    /// Whether a link leads from one group to another.
    pub(crate) const fn is_between_groups(&self, index: u32) -> bool {
        index >= self.local_links
    }

    fn group(&self, switch: SwitchId) -> u32 {
        switch.0 / self.shape.switches_per_group
    }

    /// The step to another switch of a group.
    fn within_group(&self, at: SwitchId, to: u32) -> Step {
        let others = self.shape.switches_per_group - 1;
        let (from, place) = (
            at.0 % self.shape.switches_per_group,
            to % self.shape.switches_per_group,
        );
        Step {
            link: at.0 * others + place - u32::from(place > from),
            to: SwitchId(to),
        }
    }

    /// The step over a port of a group.
    fn between_groups(&self, group: u32, port: u32) -> Step {
        let (to, port_there) = self.groups.across(group, port);
        Step {
            link: self.local_links + group * self.groups.ports() + port,
            to: SwitchId(self.switch_of(to, port_there)),
        }
    }

    /// The switch that has a port of its group.
    fn switch_of(&self, group: u32, port: u32) -> u32 {
        group * self.shape.switches_per_group + port / self.shape.global_links
    }

    /// The first steps of the shortest ways to a switch of another group.
    fn outwards(&self, at: SwitchId, goal: SwitchId) -> impl Iterator<Item = Step> {
        let (from, to) = (self.group(at), self.group(goal));
        let ways = (0..self.groups.links).map(move |link| {
            let port = self.groups.port(from, to, link);
            let (leaves, over) = (self.switch_of(from, port), self.between_groups(from, port));
            let detours = u32::from(leaves != at.0) + u32::from(over.to != goal);
            (detours, leaves, over)
        });
        let least = ways.clone().map(|(detours, ..)| detours).min();
        let mut before = None;
        ways.filter_map(move |(detours, leaves, over)| {
            if Some(detours) != least {
                return None;
            }
            if leaves == at.0 {
                return Some(over);
            }
            // Several links of one switch are one choice here.
            let is_new = before.replace(leaves) != Some(leaves);
            is_new.then(|| self.within_group(at, leaves))
        })
    }
}

/// Refuses more groups than can be joined.
pub(crate) fn too_many_groups(groups: u32, most: u64) -> Result<(), TopologyError> {
    if u64::from(groups) <= most {
        return Ok(());
    }
    Err(TopologyError::TooLarge {
        what: "the number of groups",
        count: u64::from(groups),
        limit: most,
        help: "each group has a link to each other: take fewer groups, or more links or switches \
               of a group",
    })
}

impl Generated for Dragonfly {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.switches
    }

    fn switch_link_count(&self) -> u32 {
        self.local_links + self.shape.groups * self.groups.ports()
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(host.0 / self.shape.hosts_per_switch)
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let size = self.shape.switches_per_group;
        if let Some(index) = index.checked_sub(self.local_links) {
            let (group, port) = (index / self.groups.ports(), index % self.groups.ports());
            let from = SwitchId(self.switch_of(group, port));
            return (from, self.between_groups(group, port).to);
        }
        let (from, port) = (index / (size - 1), index % (size - 1));
        let (group, place) = (from / size, from % size);
        let to = group * size + port + u32::from(port >= place);
        (SwitchId(from), SwitchId(to))
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        from < to
    }

    fn is_multigraph(&self) -> bool {
        self.groups.links > 1 && self.shape.global_links >= self.shape.groups
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        match self.group(at) == self.group(goal) {
            true => 1,
            false if self.groups.links == 1 => 1,
            false => self.outwards(at, goal).count() as u32,
        }
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        if self.group(at) == self.group(goal) {
            return self.within_group(at, goal.0);
        }
        let step = self.outwards(at, goal).nth(number as usize);
        step.unwrap_or_else(|| self.within_group(at, goal.0))
    }

    /// Traffic to each host comes over one of the links between two groups.
    fn fixed_step(&self, _at: SwitchId, target: HostId, count: u32) -> u32 {
        target.0 % count
    }

    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        let shape = self.shape;
        Some(shape.hosts_per_switch + shape.switches_per_group - 1 + shape.global_links)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        let size = self.shape.switches_per_group;
        format!("s{}-{}", switch.0 / size, switch.0 % size)
    }

    fn host_name(&self, host: HostId) -> String {
        let (size, each) = (self.shape.switches_per_group, self.shape.hosts_per_switch);
        let (switch, place) = (host.0 / each, host.0 % each);
        format!("n{}-{}-{place}", switch / size, switch % size)
    }

    fn description(&self) -> String {
        let DragonflyShape {
            switches_per_group,
            global_links,
            groups,
            ..
        } = self.shape;
        let each = hosts_in_words(self.shape.hosts_per_switch);
        format!(
            "dragonfly of {groups} groups of {switches_per_group} switches, {each} and \
             {global_links} global links a switch"
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Dragonfly(self.shape)
    }
}
