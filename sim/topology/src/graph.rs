//! Any graph: nodes and links as lists, routes as tables of next links.
//!
//! A route table has a row for each target and in it a number for each switch: which of the
//! switch's links, counted from its first, a message for this target takes. With shortest paths the
//! hosts of a switch share a row; with given tables each host has its own. Where several links do
//! as well, the number may stand for a group of them, from which a flow takes one by its hash.

use std::collections::{BTreeMap, VecDeque};

use crate::error::TopologyError;
use crate::flow::{EqualPaths, FlowKey};
use crate::generated::{alternated, hosts_in_words};
use crate::names::Names;
use crate::parts::{AttributeColumns, GraphParts};
use crate::up_down::Order;
use crate::{HostId, LinkId, SwitchId};

/// Most hosts of a graph from a file.
pub const GRAPH_HOSTS_MAX: u32 = 1 << 20;
/// Most switches of a graph from a file.
pub const GRAPH_SWITCHES_MAX: u32 = 1 << 18;
/// Most directed links between switches of a graph from a file.
pub const GRAPH_LINKS_MAX: u32 = 1 << 23;
/// Most links from one switch to others, in a graph from a file.
pub const GRAPH_DEGREE_MAX: u32 = u16::MAX as u32 - 1;
/// Most memory of the routing tables of a graph: two bytes for each target and switch.
pub const ROUTE_TABLE_BYTES_MAX: u64 = 256 << 20;
/// Most steps to find the shortest paths: targets times switches and links.
pub const ROUTE_STEPS_MAX: u64 = 4_000_000_000;

/// Table entry: no way from here.
pub(crate) const HOLE: u16 = u16::MAX;

/// A graph that was read, with its routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Graph {
    directed: bool,
    multigraph: bool,
    host_names: Names,
    switch_names: Names,
    switch_ports: Box<[Option<u32>]>,
    host_switches: Box<[u32]>,
    links: Box<[(u32, u32)]>,
    /// Where the links of each switch begin in `out_links`; one more than switches.
    out_first: Box<[u32]>,
    /// Links between switches by source, in each by number.
    out_links: Box<[u32]>,
    /// By link number.
    attributes: AttributeColumns,
    unused_attributes: Box<[(String, u32)]>,
    equal_paths: EqualPaths,
    pub(crate) routes: Routes,
}

/// Where a message goes next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Routes {
    /// The row of each target host.
    pub(crate) row_of_host: Box<[u32]>,
    /// For each row one of its hosts.
    pub(crate) row_host: Box<[u32]>,
    /// Row by row, in each a number for each switch: one of its links, or, from the number of its
    /// links on, one of its groups, or [`HOLE`].
    pub(crate) next: Box<[u16]>,
    pub(crate) groups: Groups,
    /// With [`EqualPaths::Single`] the first switch and target at which links stay idle that would
    /// do as well, with their number.
    pub(crate) first_idle: Option<(SwitchId, HostId, usize)>,
    /// Switches at which there are any.
    pub(crate) idle_switches: u64,
    /// Faults of given tables; shortest paths have none.
    pub(crate) faults: TableFaults,
}

/// Links of a switch that do as well as each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Groups {
    /// Where the groups of each switch begin in `first_port`; empty without any group.
    first: Box<[u32]>,
    /// Where the links of each group begin in `ports`; one more than groups.
    first_port: Box<[u32]>,
    ports: Box<[u16]>,
}

impl Groups {
    fn get(&self, switch: u32, group: u16) -> &[u16] {
        let place = self.first[switch as usize] as usize + usize::from(group);
        &self.ports[self.first_port[place] as usize..self.first_port[place + 1] as usize]
    }

    fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.first) + size_of_val(&*self.first_port) + size_of_val(&*self.ports))
            as u64
    }
}

/// Makes the entries of route tables, and the groups that they name.
#[derive(Debug)]
pub(crate) struct Entries {
    equal_paths: EqualPaths,
    /// By switch: its groups, each with its number.
    groups: Vec<BTreeMap<Box<[u16]>, u16>>,
    first_idle: Option<(SwitchId, HostId, usize)>,
    has_idle: Vec<bool>,
}

impl Entries {
    pub(crate) fn new(graph: &Graph) -> Self {
        let switches = graph.switch_names.len();
        Self {
            equal_paths: graph.equal_paths,
            groups: vec![BTreeMap::new(); switches],
            first_idle: None,
            has_idle: vec![false; switches],
        }
    }

    /// The entry of a switch for a target: these of its links do equally well, in ascending order.
    pub(crate) fn entry(
        &mut self,
        graph: &Graph,
        switch: u32,
        target: HostId,
        ports: &[u16],
    ) -> Result<u16, TopologyError> {
        let Some(&first) = ports.first() else {
            return Ok(HOLE);
        };
        if ports.len() == 1 {
            return Ok(first);
        }
        if self.equal_paths == EqualPaths::Single {
            self.has_idle[switch as usize] = true;
            self.first_idle
                .get_or_insert((SwitchId(switch), target, ports.len()));
            return Ok(first);
        }
        let groups = &mut self.groups[switch as usize];
        let links = graph.out_links(switch).len();
        let group = match groups.get(ports) {
            Some(&group) => group,
            None => {
                let group = groups.len();
                limit(
                    "the number of links and of groups of equal links of a switch",
                    (links + group) as u64,
                    u64::from(GRAPH_DEGREE_MAX),
                )?;
                groups.insert(ports.into(), group as u16);
                group as u16
            }
        };
        Ok(links as u16 + group)
    }

    /// The routes of the entries that were made.
    pub(crate) fn into_routes(
        self,
        row_of_host: Box<[u32]>,
        row_host: Box<[u32]>,
        next: Box<[u16]>,
    ) -> Routes {
        let mut groups = Groups::default();
        if self.groups.iter().any(|groups| !groups.is_empty()) {
            let (mut first, mut first_port, mut ports) = (Vec::new(), vec![0], Vec::new());
            for of_switch in self.groups {
                first.push(first_port.len() as u32 - 1);
                let mut by_number: Vec<_> = of_switch.into_iter().collect();
                by_number.sort_unstable_by_key(|&(_, number)| number);
                for (links, _) in by_number {
                    ports.extend_from_slice(&links);
                    first_port.push(ports.len() as u32);
                }
            }
            groups = Groups {
                first: first.into(),
                first_port: first_port.into(),
                ports: ports.into(),
            };
        }
        Routes {
            row_of_host,
            row_host,
            next,
            groups,
            first_idle: self.first_idle,
            idle_switches: self.has_idle.into_iter().map(u64::from).sum(),
            faults: TableFaults::default(),
        }
    }
}

/// What is wrong with given tables. Entries on a loop are replaced by holes, so that routes end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableFaults {
    /// Loops met, each once a target.
    pub(crate) loop_count: u64,
    /// Missing entries that some message would need.
    pub(crate) hole_count: u64,
    /// The first loop: the target and the switches in order.
    pub(crate) first_loop: Option<(HostId, Vec<SwitchId>)>,
    /// The first hole: the target and the switch.
    pub(crate) first_hole: Option<(HostId, SwitchId)>,
}

impl Graph {
    /// A graph that routes by shortest path.
    pub(crate) fn new(parts: GraphParts, equal_paths: EqualPaths) -> Result<Self, TopologyError> {
        let switches = parts.switch_names.len();
        let (out_first, out_links) = by_end(switches, parts.links.iter().map(|link| link.0));
        for window in out_first.windows(2) {
            limit(
                "the number of links of a switch",
                u64::from(window[1] - window[0]),
                u64::from(GRAPH_DEGREE_MAX),
            )?;
        }
        let mut graph = Self {
            directed: parts.directed,
            multigraph: parts.multigraph,
            attributes: parts.attributes,
            host_names: parts.host_names,
            switch_names: parts.switch_names,
            switch_ports: parts.switch_ports.into(),
            host_switches: parts.host_switches.into(),
            links: parts.links.into(),
            out_first,
            out_links,
            unused_attributes: parts.unused_attributes.into(),
            equal_paths,
            routes: Routes::default(),
        };
        graph.routes = graph.shortest_paths(None)?;
        Ok(graph)
    }

    /// The graph in words.
    pub(crate) fn description(&self) -> String {
        let hosts = hosts_in_words(self.host_count());
        match self.switch_count() {
            1 => format!("graph of 1 switch, {hosts}"),
            switches => format!("graph of {switches} switches, {hosts}"),
        }
    }

    pub(crate) fn equal_paths(&self) -> EqualPaths {
        self.equal_paths
    }

    /// Whether flows between two hosts may take several paths.
    pub(crate) fn has_equal_paths(&self) -> bool {
        !self.routes.groups.ports.is_empty()
    }

    pub(crate) fn is_directed(&self) -> bool {
        self.directed
    }

    pub(crate) fn is_multigraph(&self) -> bool {
        self.multigraph
    }

    pub(crate) fn host_count(&self) -> u32 {
        self.host_switches.len() as u32
    }

    pub(crate) fn switch_count(&self) -> u32 {
        self.switch_names.len() as u32
    }

    pub(crate) fn switch_link_count(&self) -> u32 {
        self.links.len() as u32
    }

    #[inline]
    pub(crate) fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.host_switches[host.0 as usize])
    }

    pub(crate) fn host_name(&self, host: HostId) -> &str {
        self.host_names.get(host.0)
    }

    pub(crate) fn switch_name(&self, switch: SwitchId) -> &str {
        self.switch_names.get(switch.0)
    }

    pub(crate) fn host_names(&self) -> &Names {
        &self.host_names
    }

    pub(crate) fn switch_names(&self) -> &Names {
        &self.switch_names
    }

    pub(crate) fn switch_ports(&self, switch: SwitchId) -> Option<u32> {
        self.switch_ports[switch.0 as usize]
    }

    pub(crate) fn unused_attributes(&self) -> &[(String, u32)] {
        &self.unused_attributes
    }

    /// Ends of a link between switches, counted from the first of them.
    pub(crate) fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let (source, target) = self.links[index as usize];
        (SwitchId(source), SwitchId(target))
    }

    /// Links from a switch to others, ascending, counted from the first link between switches.
    pub(crate) fn out_links(&self, switch: u32) -> &[u32] {
        let first = self.out_first[switch as usize] as usize;
        &self.out_links[first..self.out_first[switch as usize + 1] as usize]
    }

    pub(crate) fn rate(&self, link: LinkId) -> Option<f64> {
        self.attributes.rate(link.0 as usize)
    }

    pub(crate) fn latency(&self, link: LinkId) -> Option<u64> {
        self.attributes.latency(link.0 as usize)
    }

    /// The row of a target in the route tables: for each switch one of its links or groups, or
    /// [`HOLE`].
    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[u16] {
        let switches = self.switch_names.len();
        let first = row as usize * switches;
        &self.routes.next[first..first + switches]
    }

    /// The row of a target host.
    pub(crate) fn row_of(&self, target: HostId) -> &[u16] {
        self.row(self.routes.row_of_host[target.0 as usize])
    }

    /// The links that `row` may take from `switch`, counted from the first link between switches.
    pub(crate) fn next_links(&self, row: &[u16], switch: u32) -> impl Iterator<Item = u32> {
        let links = self.out_links(switch);
        let entry = row[switch as usize];
        let (one, many) = match usize::from(entry).checked_sub(links.len()) {
            None => (Some(entry), &[][..]),
            Some(_) if entry == HOLE => (None, &[][..]),
            Some(group) => (None, self.routes.groups.get(switch, group as u16)),
        };
        let ports = one.into_iter().chain(many.iter().copied());
        ports.map(|port| links[usize::from(port)])
    }

    /// The first of the links that `row` may take from `switch`.
    pub(crate) fn next_link(&self, row: &[u16], switch: u32) -> Option<u32> {
        self.next_links(row, switch).next()
    }

    /// The link that a flow takes by `row` from `switch`.
    #[inline]
    fn next_link_of(&self, row: &[u16], switch: u32, flow: FlowKey) -> Option<u32> {
        let links = self.out_links(switch);
        let entry = row[switch as usize];
        if let Some(&link) = links.get(usize::from(entry)) {
            return Some(link);
        }
        if entry == HOLE {
            return None;
        }
        let ports = (self.routes.groups).get(switch, entry - links.len() as u16);
        let port = ports[flow.choose(switch, ports.len())];
        Some(links[usize::from(port)])
    }

    /// Appends the links that a flow takes from the switch of `source` to that of `target`.
    ///
    /// Without a way nothing is appended and the answer is false.
    #[inline]
    pub(crate) fn route<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        flow: u32,
        path: &mut Vec<L>,
    ) -> bool {
        let key = FlowKey::new(source, target, flow);
        let before = path.len();
        let first = 2 * self.host_count();
        let row = self.row(self.routes.row_of_host[target.0 as usize]);
        let goal = self.host_switches[target.0 as usize];
        let mut at = self.host_switches[source.0 as usize];
        while at != goal {
            let Some(link) = self.next_link_of(row, at, key) else {
                path.truncate(before);
                return false;
            };
            path.push(LinkId(first + link).into());
            at = self.links[link as usize].1;
        }
        true
    }

    /// Ways between the switches of `source` and `target`, at most `most`.
    pub(crate) fn equal_ways(
        &self,
        source: HostId,
        target: HostId,
        most: usize,
    ) -> Vec<Vec<LinkId>> {
        let row = self.row(self.routes.row_of_host[target.0 as usize]);
        let goal = self.host_switches[target.0 as usize];
        let mut known = BTreeMap::from([(goal, vec![Vec::new()])]);
        let start = self.host_switches[source.0 as usize];
        let mut ways = self.ways_from(row, start, most, &mut known);
        for way in &mut ways {
            // The last link was found first.
            way.reverse();
        }
        ways
    }

    /// Ways from a switch on, their last link first; `known` has those of switches that were met.
    fn ways_from(
        &self,
        row: &[u16],
        switch: u32,
        most: usize,
        known: &mut BTreeMap<u32, Vec<Vec<LinkId>>>,
    ) -> Vec<Vec<LinkId>> {
        if let Some(ways) = known.get(&switch) {
            return ways.clone();
        }
        let first = 2 * self.host_count();
        let branches: Vec<_> = self
            .next_links(row, switch)
            .map(|link| {
                let next = self.links[link as usize].1;
                let mut ways = self.ways_from(row, next, most, known);
                for way in &mut ways {
                    way.push(LinkId(first + link));
                }
                ways
            })
            .collect();
        let ways = alternated(&branches, most);
        known.insert(switch, ways.clone());
        ways
    }

    /// Links between the switches of `source` and `target`, if there is a way.
    pub(crate) fn distance(&self, source: HostId, target: HostId) -> Option<u32> {
        let row = self.row(self.routes.row_of_host[target.0 as usize]);
        let goal = self.host_switches[target.0 as usize];
        let mut at = self.host_switches[source.0 as usize];
        let mut distance = 0;
        while at != goal {
            at = self.links[self.next_link(row, at)? as usize].1;
            distance += 1;
        }
        Some(distance)
    }

    /// Whether there is a way from each host to each other.
    pub(crate) fn reaches_all(&self) -> bool {
        let mut rows = 0..self.routes.row_host.len() as u32;
        rows.all(|row| {
            let goal = self.host_switches[self.routes.row_host[row as usize] as usize];
            let row = self.row(row);
            let mut switches = self.host_switches.iter();
            switches.all(|&switch| switch == goal || row[switch as usize] != HOLE)
        })
    }

    /// Bytes of the route tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        let routes = &self.routes;
        (size_of_val(&*routes.next)
            + size_of_val(&*routes.row_of_host)
            + size_of_val(&*routes.row_host)) as u64
            + routes.groups.memory_bytes()
    }

    /// Bytes on the heap, tables and names included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let names = self.host_names.memory_bytes() + self.switch_names.memory_bytes();
        let lists = size_of_val(&*self.switch_ports)
            + size_of_val(&*self.host_switches)
            + size_of_val(&*self.links)
            + size_of_val(&*self.out_first)
            + size_of_val(&*self.out_links);
        self.table_bytes() + names + self.attributes.memory_bytes() + lists as u64
    }

    /// Tables of shortest paths; with an order of the switches, of the shortest that go down from
    /// where a way down begins, and up before.
    pub(crate) fn shortest_paths(&self, order: Option<&Order>) -> Result<Routes, TopologyError> {
        let switches = self.switch_names.len();
        let mut row_of_switch = vec![u32::MAX; switches];
        let mut row_host = Vec::new();
        let mut row_of_host = Vec::with_capacity(self.host_switches.len());
        for (host, &switch) in self.host_switches.iter().enumerate() {
            let row = &mut row_of_switch[switch as usize];
            if *row == u32::MAX {
                *row = row_host.len() as u32;
                row_host.push(host as u32);
            }
            row_of_host.push(*row);
        }
        let rows = row_host.len() as u64;
        check_table_size(rows, switches as u64)?;
        limit(
            "the work to find the shortest paths (targets times switches and links)",
            rows * (switches + self.links.len()) as u64,
            ROUTE_STEPS_MAX,
        )?;

        let (in_first, in_links) = by_end(switches, self.links.iter().map(|link| link.1));
        let mut next = vec![HOLE; rows as usize * switches].into_boxed_slice();
        let mut distances = vec![u32::MAX; switches];
        let mut queue = VecDeque::with_capacity(switches);
        let mut entries = Entries::new(self);
        let mut ports = Vec::new();
        for (&host, row) in row_host.iter().zip(next.chunks_exact_mut(switches.max(1))) {
            distances.fill(u32::MAX);
            let goal = self.host_switches[host as usize];
            distances[goal as usize] = 0;
            queue.push_back(goal);
            while let Some(switch) = queue.pop_front() {
                let first = in_first[switch as usize] as usize;
                for &link in &in_links[first..in_first[switch as usize + 1] as usize] {
                    let source = self.links[link as usize].0;
                    let leads_up = order.is_some_and(|order| order.leads_up(source, switch));
                    if distances[source as usize] == u32::MAX && !leads_up {
                        distances[source as usize] = distances[switch as usize] + 1;
                        queue.push_back(source);
                    }
                }
            }
            let comes_down = order.map(|order| order.go_up(self, &mut distances));
            for (switch, entry) in row.iter_mut().enumerate() {
                let distance = distances[switch];
                if distance == 0 || distance == u32::MAX {
                    continue;
                }
                let closer = |link: &u32| {
                    let to = self.links[*link as usize].1;
                    let may_go = match (order, &comes_down) {
                        (Some(order), Some(comes_down)) => {
                            match order.leads_up(switch as u32, to) {
                                true => !comes_down[switch],
                                false => comes_down[switch] && comes_down[to as usize],
                            }
                        }
                        _ => true,
                    };
                    may_go && distances[to as usize] == distance - 1
                };
                // Some neighbour is closer, since the distance came from one.
                let links = self.out_links(switch as u32).iter().zip(0..);
                ports.clear();
                ports.extend(links.filter(|(link, _)| closer(link)).map(|(_, port)| port));
                *entry = entries.entry(self, switch as u32, HostId(host), &ports)?;
            }
        }
        Ok(entries.into_routes(row_of_host.into(), row_host.into(), next))
    }
}

/// Refuses tables that would take too much memory.
pub(crate) fn check_table_size(rows: u64, switches: u64) -> Result<(), TopologyError> {
    limit(
        "bytes of the routing tables (two for each target and switch)",
        rows.saturating_mul(switches).saturating_mul(2),
        ROUTE_TABLE_BYTES_MAX,
    )
}

/// Refuses a count beyond its limit.
pub(crate) fn limit(what: &'static str, count: u64, limit: u64) -> Result<(), TopologyError> {
    if count <= limit {
        return Ok(());
    }
    let help = "use a smaller graph, or a generated topology, which needs no tables";
    Err(TopologyError::TooLarge {
        what,
        count,
        limit,
        help,
    })
}

/// Links sorted by one of their ends, in each by number: where each end's begin, and the links.
fn by_end(ends: usize, end_of_link: impl Iterator<Item = u32> + Clone) -> (Box<[u32]>, Box<[u32]>) {
    let mut first = vec![0u32; ends + 1];
    for end in end_of_link.clone() {
        first[end as usize + 1] += 1;
    }
    for end in 0..ends {
        first[end + 1] += first[end];
    }
    let mut links = vec![0u32; first[ends] as usize];
    let mut free = first.clone();
    for (link, end) in end_of_link.enumerate() {
        links[free[end as usize] as usize] = link as u32;
        free[end as usize] += 1;
    }
    (first.into(), links.into())
}
