//! Any graph: nodes and links as lists, routes as tables of next links.
//!
//! A route table has a row for each target and in it a number for each switch: which of the
//! switch's links, counted from its first, a message for this target takes. With shortest paths the
//! hosts of a switch share a row; with given tables each host has its own.

use std::collections::VecDeque;

use crate::error::TopologyError;
use crate::names::Names;
use crate::parts::{AttributeColumns, GraphParts};
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
    pub(crate) routes: Routes,
}

/// Where a message goes next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Routes {
    /// The row of each target host.
    pub(crate) row_of_host: Box<[u32]>,
    /// For each row one of its hosts.
    pub(crate) row_host: Box<[u32]>,
    /// Row by row, in each a number for each switch: one of its links, or [`HOLE`].
    pub(crate) next: Box<[u16]>,
    /// Faults of given tables; shortest paths have none.
    pub(crate) faults: TableFaults,
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
    pub(crate) fn new(parts: GraphParts) -> Result<Self, TopologyError> {
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
            routes: Routes::default(),
        };
        graph.routes = graph.shortest_paths()?;
        Ok(graph)
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

    /// The row of a target in the route tables: for each switch one of its links, or [`HOLE`].
    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[u16] {
        let switches = self.switch_names.len();
        let first = row as usize * switches;
        &self.routes.next[first..first + switches]
    }

    /// The link that `row` takes from `switch`, counted from the first link between switches.
    #[inline]
    pub(crate) fn next_link(&self, row: &[u16], switch: u32) -> Option<u32> {
        let port = row[switch as usize];
        if port == HOLE {
            return None;
        }
        Some(self.out_links[self.out_first[switch as usize] as usize + usize::from(port)])
    }

    /// Appends the links from the switch of `source` to that of `target`.
    ///
    /// Without a way nothing is appended and the answer is false.
    #[inline]
    pub(crate) fn route<L: From<LinkId>>(
        &self,
        source: HostId,
        target: HostId,
        path: &mut Vec<L>,
    ) -> bool {
        let before = path.len();
        let first = 2 * self.host_count();
        let row = self.row(self.routes.row_of_host[target.0 as usize]);
        let goal = self.host_switches[target.0 as usize];
        let mut at = self.host_switches[source.0 as usize];
        while at != goal {
            let Some(link) = self.next_link(row, at) else {
                path.truncate(before);
                return false;
            };
            path.push(LinkId(first + link).into());
            at = self.links[link as usize].1;
        }
        true
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

    /// Bytes of the route tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        let routes = &self.routes;
        (size_of_val(&*routes.next)
            + size_of_val(&*routes.row_of_host)
            + size_of_val(&*routes.row_host)) as u64
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

    /// Tables of shortest paths; of several the lowest-numbered link at each switch.
    fn shortest_paths(&self) -> Result<Routes, TopologyError> {
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
        for (&host, row) in row_host.iter().zip(next.chunks_exact_mut(switches.max(1))) {
            distances.fill(u32::MAX);
            let goal = self.host_switches[host as usize];
            distances[goal as usize] = 0;
            queue.push_back(goal);
            while let Some(switch) = queue.pop_front() {
                let first = in_first[switch as usize] as usize;
                for &link in &in_links[first..in_first[switch as usize + 1] as usize] {
                    let source = self.links[link as usize].0;
                    if distances[source as usize] == u32::MAX {
                        distances[source as usize] = distances[switch as usize] + 1;
                        queue.push_back(source);
                    }
                }
            }
            for (switch, entry) in row.iter_mut().enumerate() {
                let distance = distances[switch];
                if distance == 0 || distance == u32::MAX {
                    continue;
                }
                let closer =
                    |link: &u32| distances[self.links[*link as usize].1 as usize] == distance - 1;
                // Some neighbour is closer, since the distance came from one.
                let port = self.out_links(switch as u32).iter().position(closer);
                *entry = port.map_or(HOLE, |port| port as u16);
            }
        }
        Ok(Routes {
            row_of_host: row_of_host.into(),
            row_host: row_host.into(),
            next,
            faults: TableFaults::default(),
        })
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
