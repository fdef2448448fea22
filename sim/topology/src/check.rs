//! What is known of a topology before a run: hosts without a way, faults of tables, cycles of
//! waiting links.
//!
//! A message that holds one link and waits for the next makes the one depend on the other. Where
//! these dependencies form a cycle, hardware that cannot drop or buffer whole messages can stand
//! still for ever (Dally and Seitz, 1987). The models here do not: messages are not held up by
//! buffers. So a cycle is a warning about the hardware that the topology stands for.

use std::fmt;

use crate::cycles::{CYCLE_PAIRS_MAX, Waiting, find_cycle};
use crate::generated::Generated;
use crate::graph::Graph;
use crate::grid::Grid;
use crate::topology::Kind;
use crate::{EqualPaths, HostId, LinkId, Node, Topology};

/// Names that a finding shows at most; the others are counted.
pub const NAMES_SHOWN_MAX: usize = 5;
/// Table entries up to which a graph's link dependencies are examined.
pub const CHECK_ENTRIES_MAX: u64 = 64 << 20;
/// Dependencies between links up to which a graph is searched for cycles.
pub const CHECK_DEPENDENCIES_MAX: usize = 8 << 20;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// Worth knowing; a run is right all the same.
    Warning,
    /// Some messages cannot reach their target.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum FindingKind {
    /// Hosts that cannot exchange messages with the others.
    UnreachableHosts,
    /// Tables that send a message round in circles.
    RoutingLoop,
    /// Tables without an entry that a message needs.
    RoutingHole,
    /// Links that would do as well as others, and that no message takes.
    IdlePaths,
    /// A cycle of links that wait for each other.
    Deadlock,
    /// Attributes of the file that mean nothing here.
    UnusedAttributes,
    /// The topology is too large for a part of the check.
    NotChecked,
}

/// One thing that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub kind: FindingKind,
    /// What was found, with names and counts.
    pub text: String,
    /// What to do about it, or how to take it.
    pub help: &'static str,
    /// The links of a cycle, in order; otherwise empty.
    pub links: Vec<LinkId>,
}

/// What [`Topology::check`] found; errors first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// All findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether some messages cannot reach their target.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    fn add(
        &mut self,
        severity: Severity,
        kind: FindingKind,
        text: String,
        help: &'static str,
    ) -> &mut Finding {
        let finding = Finding {
            severity,
            kind,
            text,
            help,
            links: Vec::new(),
        };
        let place = match severity {
            Severity::Error => self
                .findings
                .iter()
                .take_while(|finding| finding.severity == Severity::Error)
                .count(),
            Severity::Warning => self.findings.len(),
        };
        self.findings.insert(place, finding);
        &mut self.findings[place]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            writeln!(formatter, "{severity}: {}; {}", finding.text, finding.help)?;
        }
        Ok(())
    }
}

const TOO_LARGE: &str = "the topology is too large to look for deadlocks";
const NOT_CHECKED_HELP: &str = "the run is not affected; check a smaller network of the same kind";
const DEADLOCK_HELP: &str = "real cut-through hardware needs a second virtual channel, or other \
                             routes, not to stand still; the models here do not deadlock";

impl Topology {
    /// Examines routes and links, for traffic from each host to each other.
    ///
    /// Generated topologies are judged by their rule, at no cost; graphs exactly, up to
    /// [`CHECK_ENTRIES_MAX`] table entries, beyond which the report says what was not examined.
    #[must_use]
    pub fn check(&self) -> Report {
        let mut report = Report::default();
        match &self.kind {
            Kind::Grid(grid) if self.equal_paths() == EqualPaths::Single && !self.has_detours() => {
                self.check_rings(grid, &mut report);
            }
            Kind::Graph(graph) => {
                self.check_faults(graph, &mut report);
                self.check_reach(graph, &mut report);
                self.check_idle_paths(graph, &mut report);
                match self.has_detours() {
                    true => self.check_waiting(&mut report),
                    false => self.check_dependencies(graph, &mut report),
                }
            }
            // Up-down routes of a tree depend upwards on up links, then downwards: never in a ring.
            Kind::Tree(_) | Kind::LeafSpine(_) | Kind::Clos(_) if !self.has_detours() => {}
            _ => self.check_waiting(&mut report),
        }
        check_attributes(self.unused_attributes(), &mut report);
        report
    }

    /// Rings of a torus: links in one direction wait for each other where routes have two hops.
    fn check_rings(&self, grid: &Grid, report: &mut Report) {
        let mut rings = 0u64;
        let mut first = Vec::new();
        for (number, dimension) in grid.lines().iter().enumerate() {
            if !dimension.wraps {
                continue;
            }
            let lines = u64::from(grid.switch_count() / dimension.size);
            // At exactly half the ring routes go in the positive direction.
            let hops_positive = dimension.size / 2;
            let hops_negative = (dimension.size - 1) / 2;
            rings += lines * (u64::from(hops_positive > 1) + u64::from(hops_negative > 1));
            if hops_positive > 1 && first.is_empty() {
                let links = grid.first_ring(number);
                first = links
                    .map(|link| LinkId(2 * grid.host_count() + link))
                    .collect();
            }
        }
        if rings == 0 {
            return;
        }
        let mut text = format!("possible deadlock: {}", self.cycle_name(&first));
        if rings > 1 {
            text.push_str(&format!(
                "; {} like it",
                counted(rings - 1, "more ring", "more rings")
            ));
        }
        report
            .add(
                Severity::Warning,
                FindingKind::Deadlock,
                text,
                DEADLOCK_HELP,
            )
            .links = first;
    }

    /// Rings of waiting links on the routes of a rule.
    fn check_waiting(&self, report: &mut Report) {
        match self.waiting(1) {
            Waiting::Never => {}
            Waiting::TooLarge => {
                let text = format!("{TOO_LARGE}: over {CYCLE_PAIRS_MAX} pairs of switches");
                report.add(
                    Severity::Warning,
                    FindingKind::NotChecked,
                    text,
                    NOT_CHECKED_HELP,
                );
            }
            Waiting::Ring(channels) => {
                let links: Vec<_> = channels.iter().map(|channel| channel.link).collect();
                let text = format!("possible deadlock: {}", self.cycle_name(&links));
                let kind = FindingKind::Deadlock;
                report
                    .add(Severity::Warning, kind, text, DEADLOCK_HELP)
                    .links = links;
            }
        }
    }

    /// The nodes of a cycle of links: `s0-0 -> s1-0 -> ... -> s0-0 (16 links, 1 virtual channel)`.
    fn cycle_name(&self, links: &[LinkId]) -> String {
        let name = |link: &LinkId| self.node_name(self.link_ends(*link).0);
        let mut names: Vec<String> = if links.len() > NAMES_SHOWN_MAX {
            let last = links.last().map(name);
            links[..2]
                .iter()
                .map(name)
                .chain(["...".to_owned()])
                .chain(last)
                .collect()
        } else {
            links.iter().map(name).collect()
        };
        names.extend(links.first().map(name));
        format!(
            "{} ({} links, 1 virtual channel)",
            names.join(" -> "),
            links.len()
        )
    }

    fn names(&self, nodes: &[Node], count: usize) -> String {
        let shown: Vec<String> = nodes
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|&node| self.node_name(node))
            .collect();
        let mut text = shown.join(", ");
        if count > shown.len() {
            text.push_str(&format!(" and {} more", count - shown.len()));
        }
        text
    }

    /// Loops and holes of given tables, as found when they were read.
    fn check_faults(&self, graph: &Graph, report: &mut Report) {
        let faults = &graph.routes.faults;
        if let Some((target, switches)) = &faults.first_loop {
            let mut round: Vec<Node> = switches.iter().map(|&s| Node::Switch(s)).collect();
            round.extend(round.first().copied());
            let length = round.len();
            let mut text = format!(
                "messages to {} go round for ever: {}",
                self.node_name(Node::Host(*target)),
                self.walk_name(&round, length)
            );
            if faults.loop_count > 1 {
                text.push_str(&format!("; {} loops in all", faults.loop_count));
            }
            let help = "correct the tables of these switches";
            report.add(Severity::Error, FindingKind::RoutingLoop, text, help);
        }
        if let Some((target, switch)) = &faults.first_hole {
            let mut text = format!(
                "switch {} has no entry for {}, though messages for it come there",
                self.node_name(Node::Switch(*switch)),
                self.node_name(Node::Host(*target))
            );
            if faults.hole_count > 1 {
                text.push_str(&format!("; {} holes in all", faults.hole_count));
            }
            let help = "add the entry, or one for \"*\"";
            report.add(Severity::Error, FindingKind::RoutingHole, text, help);
        }
    }

    /// Nodes in order, the middle left out if there are many.
    fn walk_name(&self, nodes: &[Node], length: usize) -> String {
        let name = |node: &Node| self.node_name(*node);
        let names: Vec<String> = if length > NAMES_SHOWN_MAX + 1 {
            let tail = nodes[length - 2..].iter().map(name);
            nodes[..2]
                .iter()
                .map(name)
                .chain(["...".to_owned()])
                .chain(tail)
                .collect()
        } else {
            nodes.iter().map(name).collect()
        };
        names.join(" -> ")
    }

    /// Hosts that cannot exchange messages with most others.
    fn check_reach(&self, graph: &Graph, report: &mut Report) {
        let switches = graph.switch_count();
        let mut hosts_at = vec![0u64; switches as usize];
        for host in 0..graph.host_count() {
            hosts_at[graph.host_switch(HostId(host)).0 as usize] += 1;
        }
        let all = u64::from(graph.host_count());
        let rows = graph.routes.row_host.len() as u32;
        let mut best: Option<(u64, u32)> = None;
        let mut incomplete_row = None;
        let mut reaches = Vec::new();
        for row in 0..rows {
            mark_sources(graph, row, &mut reaches);
            let there = reaches
                .iter()
                .zip(&hosts_at)
                .filter(|(reaches, _)| **reaches);
            let reaching: u64 = there.map(|(_, hosts)| hosts).sum();
            if reaching < all {
                incomplete_row.get_or_insert(row);
            }
            if best.is_none_or(|(most, _)| reaching > most) {
                best = Some((reaching, row));
            }
        }
        let (Some((_, main_row)), Some(incomplete_row)) = (best, incomplete_row) else {
            return;
        };
        // The host that most others reach stands for the main part of the network.
        let main = HostId(graph.routes.row_host[main_row as usize]);
        mark_sources(graph, main_row, &mut reaches);
        let mut apart = Vec::new();
        for host in (0..graph.host_count()).map(HostId) {
            let there = reaches[graph.host_switch(host).0 as usize];
            if !there || graph.distance(main, host).is_none() {
                apart.push(Node::Host(host));
            }
        }
        let help = "add links or table entries, or leave these hosts out";
        let main_name = self.node_name(Node::Host(main));
        let text = if apart.is_empty() {
            // All reach it and are reached: some other pair has no way.
            let target = HostId(graph.routes.row_host[incomplete_row as usize]);
            let mut sources = (0..graph.host_count()).map(HostId);
            let source = sources.find(|&source| graph.distance(source, target).is_none());
            let source = source.map_or_else(String::new, |host| self.node_name(Node::Host(host)));
            let target = self.node_name(Node::Host(target));
            format!("not all hosts can send to all others; {source} cannot send to {target}")
        } else {
            let count = apart.len();
            let hosts = counted(count as u64, "host", "hosts");
            let names = self.names(&apart, count);
            format!("{hosts} cannot exchange messages with {main_name}: {names}")
        };
        report.add(Severity::Error, FindingKind::UnreachableHosts, text, help);
    }

    /// Links that stay idle since the first of equal ones is always taken.
    fn check_idle_paths(&self, graph: &Graph, report: &mut Report) {
        let routes = &graph.routes;
        let Some((switch, target, links)) = routes.first_idle else {
            return;
        };
        let mut text = format!(
            "equal paths stay idle: of {links} equally good links from {} to {} the first takes all",
            self.node_name(Node::Switch(switch)),
            self.node_name(Node::Host(target))
        );
        if routes.idle_switches > 1 {
            let others = counted(routes.idle_switches - 1, "more switch", "more switches");
            text.push_str(&format!("; likewise at {others}"));
        }
        let help = "equal_paths = \"hash\" spreads the flows over them";
        report.add(Severity::Warning, FindingKind::IdlePaths, text, help);
    }

    fn check_dependencies(&self, graph: &Graph, report: &mut Report) {
        let entries = graph.routes.next.len() as u64;
        let (too_large, help) = (TOO_LARGE, NOT_CHECKED_HELP);
        if entries > CHECK_ENTRIES_MAX {
            let text = format!("{too_large}: {entries} table entries, at most {CHECK_ENTRIES_MAX}");
            report.add(Severity::Warning, FindingKind::NotChecked, text, help);
            return;
        }
        let Some(dependencies) = dependencies(graph) else {
            let text = format!("{too_large}: over {CHECK_DEPENDENCIES_MAX} dependencies of links");
            report.add(Severity::Warning, FindingKind::NotChecked, text, help);
            return;
        };
        let Some(cycle) = find_cycle(&dependencies) else {
            return;
        };
        let first = 2 * graph.host_count();
        let links: Vec<LinkId> = cycle.into_iter().map(|link| LinkId(first + link)).collect();
        let text = format!("possible deadlock: {}", self.cycle_name(&links));
        report
            .add(
                Severity::Warning,
                FindingKind::Deadlock,
                text,
                DEADLOCK_HELP,
            )
            .links = links;
    }
}

/// A count with its word.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn check_attributes(unused: &[(String, u32)], report: &mut Report) {
    if unused.is_empty() {
        return;
    }
    let shown: Vec<String> = unused
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|(name, count)| format!("{name} ({})", counted(u64::from(*count), "time", "times")))
        .collect();
    let mut text = format!("attributes without a meaning here: {}", shown.join(", "));
    if unused.len() > shown.len() {
        text.push_str(&format!(" and {} more", unused.len() - shown.len()));
    }
    let help = "known are kind and ports of nodes, rate and latency of edges";
    report.add(Severity::Warning, FindingKind::UnusedAttributes, text, help);
}

/// Marks the switches from which the target of `row` is reached.
fn mark_sources(graph: &Graph, row: u32, reaches: &mut Vec<bool>) {
    let entries = graph.row(row);
    let goal = graph
        .host_switch(HostId(graph.routes.row_host[row as usize]))
        .0;
    reaches.clear();
    reaches.resize(entries.len(), false);
    reaches[goal as usize] = true;
    let mut met = reaches.clone();
    let mut walk = Vec::new();
    for switch in 0..entries.len() as u32 {
        let mut at = switch;
        // A walk ends at the goal, in a hole, or where this or an earlier walk has been: the first
        // is a loop, and so not marked as reaching.
        while !met[at as usize] {
            met[at as usize] = true;
            walk.push(at);
            match graph.next_link(entries, at) {
                Some(link) => at = graph.link_ends(link).1.0,
                None => break,
            }
        }
        let outcome = reaches[at as usize];
        for switch in walk.drain(..) {
            reaches[switch as usize] = outcome;
        }
    }
}

/// Pairs of links that follow one another on a route, sorted, each once; none if there are too
/// many.
fn dependencies(graph: &Graph) -> Option<Vec<(u32, u32)>> {
    let mut sources: Vec<u32> = (0..graph.host_count())
        .map(|host| graph.host_switch(HostId(host)).0)
        .collect();
    sources.sort_unstable();
    sources.dedup();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut compact_at = CHECK_DEPENDENCIES_MAX;
    let mut seen = vec![u32::MAX; graph.switch_count() as usize];
    let mut walk: Vec<(u32, Option<u32>)> = Vec::new();
    for row in 0..graph.routes.row_host.len() as u32 {
        let entries = graph.row(row);
        let goal = graph
            .host_switch(HostId(graph.routes.row_host[row as usize]))
            .0;
        walk.clear();
        walk.extend(sources.iter().map(|&source| (source, None)));
        while let Some((at, before)) = walk.pop() {
            if at == goal {
                continue;
            }
            // Behind a switch seen for this target everything is noted already.
            let is_new = core::mem::replace(&mut seen[at as usize], row) != row;
            for link in graph.next_links(entries, at) {
                pairs.extend(before.map(|before| (before, link)));
                if is_new {
                    walk.push((graph.link_ends(link).1.0, Some(link)));
                }
            }
        }
        if pairs.len() > compact_at {
            pairs.sort_unstable();
            pairs.dedup();
            if pairs.len() > CHECK_DEPENDENCIES_MAX {
                return None;
            }
            compact_at = 2 * CHECK_DEPENDENCIES_MAX;
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    (pairs.len() <= CHECK_DEPENDENCIES_MAX).then_some(pairs)
}
