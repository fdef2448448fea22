//! What every network that follows a rule answers; each kind has its file.

use crate::error::TopologyError;
use crate::flow::Choice;
use crate::topology::Plan;
use crate::{EqualPaths, HostId, LinkClass, LinkId, Ports, SwitchId};

/// A link between switches on a shortest way.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Step {
    /// Counted from the first link between switches.
    pub(crate) link: u32,
    /// Where it leads.
    pub(crate) to: SwitchId,
}

/// A network whose links and routes follow from its measures.
pub(crate) trait Generated {
    fn host_count(&self) -> u32;
    fn switch_count(&self) -> u32;
    /// Directed links between switches.
    fn switch_link_count(&self) -> u32;
    fn host_switch(&self, host: HostId) -> SwitchId;

    /// Ends of a link between switches, counted from the first of them.
    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId);

    /// The class of a link between switches.
    fn link_class(&self, _index: u32) -> LinkClass {
        LinkClass::Mesh
    }

    /// Whether a link between switches stands for both directions in an undirected graph.
    fn is_first_of_pair(&self, index: u32) -> bool;

    /// Whether switches may have several links between them.
    fn is_multigraph(&self) -> bool {
        false
    }

    /// How many links of a switch lead closer to another.
    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32;

    /// One of them, by its number.
    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step;

    /// Which of `count` steps is taken towards a host where there is no choice.
    fn fixed_step(&self, _at: SwitchId, _target: HostId, _count: u32) -> u32 {
        0
    }

    /// Links between the switches of `source` and `target`.
    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let (mut at, goal) = (self.host_switch(source), self.host_switch(target));
        let mut distance = 0;
        while at != goal {
            at = self.step(at, goal, 0).to;
            distance += 1;
        }
        distance
    }

    /// Ways between the switches of `source` and `target`, at most `most`.
    fn equal_ways(&self, source: HostId, target: HostId, most: usize) -> Vec<Vec<LinkId>> {
        let first = 2 * self.host_count();
        let mut ways = spread(
            self,
            self.host_switch(source),
            self.host_switch(target),
            most,
        );
        for way in &mut ways {
            // The last link was found first.
            way.reverse();
            for link in way {
                link.0 += first;
            }
        }
        ways
    }

    fn host_name(&self, host: HostId) -> String;
    fn switch_name(&self, switch: SwitchId) -> String;

    /// The network in words.
    fn description(&self) -> String;

    /// Its measures.
    fn plan(&self) -> Plan<'_>;

    /// Switches in each dimension of a chain, mesh or torus.
    fn dimensions(&self) -> Option<&[u32]> {
        None
    }

    /// See [`crate::Topology::hosts_per_switch`].
    fn hosts_per_switch(&self) -> Option<u32> {
        None
    }

    /// Ports of each switch, where they are said of all alike.
    fn ports(&self) -> Option<Ports> {
        None
    }

    /// Ports of a switch that is as large as it must be.
    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        None
    }

    /// How flows choose between equal ways where nothing else is said.
    fn usual_paths(&self) -> EqualPaths {
        EqualPaths::Hash
    }

    /// Bytes on the heap.
    fn heap_bytes(&self) -> u64 {
        0
    }
}

/// Appends the links of a shortest way from a switch to that of `target`.
pub(crate) fn walk<L: From<LinkId>>(
    network: &(impl Generated + ?Sized),
    from: SwitchId,
    target: HostId,
    choice: Choice,
    path: &mut Vec<L>,
) {
    let first = 2 * network.host_count();
    let goal = network.host_switch(target);
    let mut at = from;
    while at != goal {
        let count = network.step_count(at, goal);
        let number = match choice {
            _ if count == 1 => 0,
            Choice::Fixed => network.fixed_step(at, target, count),
            Choice::Of(flow) => flow.choose(at.0, count as usize) as u32,
        };
        let step = network.step(at, goal, number);
        path.push(LinkId(first + step.link).into());
        at = step.to;
    }
}

/// Ways between two switches, each with its last link first.
fn spread(
    network: &(impl Generated + ?Sized),
    at: SwitchId,
    goal: SwitchId,
    most: usize,
) -> Vec<Vec<LinkId>> {
    if at == goal {
        return vec![Vec::new()];
    }
    let steps = (0..network.step_count(at, goal)).take(most);
    let branches: Vec<_> = steps
        .map(|number| {
            let Step { link, to } = network.step(at, goal, number);
            let mut ways = spread(network, to, goal, most);
            for way in &mut ways {
                way.push(LinkId(link));
            }
            ways
        })
        .collect();
    alternated(&branches, most)
}

/// The first way of each branch, then the second of each.
pub(crate) fn alternated(branches: &[Vec<Vec<LinkId>>], most: usize) -> Vec<Vec<LinkId>> {
    let longest = branches.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest)
        .flat_map(|number| branches.iter().filter_map(move |ways| ways.get(number)))
        .take(most)
        .cloned()
        .collect()
}

/// A count of hosts with its word.
pub(crate) fn hosts_in_words(count: u32) -> String {
    match count {
        1 => "1 host".to_owned(),
        _ => format!("{count} hosts"),
    }
}

/// Refuses a count of none.
pub(crate) fn at_least_one(what: &'static str, count: u32) -> Result<(), TopologyError> {
    match count {
        0 => Err(TopologyError::TooSmall {
            what,
            count: 0,
            minimum: 1,
        }),
        _ => Ok(()),
    }
}

/// Refuses switches whose ports are not one half for either side.
pub(crate) fn even_ports(network: &'static str, radix: u32) -> Result<(), TopologyError> {
    if radix >= 2 && radix.is_multiple_of(2) {
        return Ok(());
    }
    Err(TopologyError::NoSuchSize {
        what: "the number of ports of a switch",
        size: u64::from(radix),
        rule: format!("{network} has half of them on either side"),
        nearest: nearest(u64::from(radix), |ports| {
            ports >= 2 && ports.is_multiple_of(2)
        }),
    })
}

/// The sizes nearest to one that does not exist, below and above.
pub(crate) fn nearest(size: u64, exists: impl Fn(u64) -> bool) -> Vec<u64> {
    /// Farther than any two sizes of a kind lie apart.
    const FAR: u64 = 1 << 12;

    let below = (size.saturating_sub(FAR)..size)
        .rev()
        .find(|&size| exists(size));
    let above = (size + 1..=size.saturating_add(FAR)).find(|&size| exists(size));
    below.into_iter().chain(above).collect()
}
