//! How much of the traffic each link carries and each host sends and receives.
//!
//! Everything is in messages for each message of a sending host. Hosts' shares are exact. The
//! links between switches are counted along routes, by the cheapest way that fits:
//!
//! - on a torus, and a pattern that looks the same from each host, from host 0 alone: all links
//!   of one direction carry the same; on a fat tree likewise for uniform traffic, by level;
//! - uniform traffic on chains and meshes between switches rather than hosts;
//! - otherwise, from each host to each target.
//!
//! What would be more than [`ROUTE_STEPS_MAX`] steps is drawn instead of counted.

use std::collections::BTreeMap;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::{Detours, HostId, LinkClass, LinkId, Node, SwitchId, Topology};

use crate::ways::flow_between;
use crate::workload::Targets;

/// The traffic's shares.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Links with any traffic; one entry may stand for several like it.
    pub(super) entries: Vec<Entry>,
    /// Hosts, or one host that stands for all.
    pub(super) hosts: Vec<Degree>,
    /// How many hosts each of `hosts` stands for.
    pub(super) hosts_each: f64,
    pub(super) is_sampled: bool,
}

/// A link and its messages for each message of a sending host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) link: LinkId,
    /// Links that carry as much, this one included.
    pub(super) count: u64,
    pub(super) share: f64,
}

/// What a host sends and receives, in messages for each message of a sending host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Degree {
    pub(super) sends: f64,
    pub(super) receives: f64,
    /// What it sends to the peer that gets most.
    pub(super) busiest_peer: f64,
}

/// Steps along routes that are counted at most, about 50 ms of work.
pub const ROUTE_STEPS_MAX: u64 = 5_000_000;

/// How much of a message goes from its source to its target, and how much back: remote reads bring
/// their bytes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) there: f64,
    pub(super) back: f64,
}

impl Parts {
    /// All of it goes to its target.
    pub(super) const THERE: Self = Self {
        there: 1.0,
        back: 0.0,
    };
}

pub(super) fn link_shares(
    topology: &Topology,
    targets: &Targets,
    processes: u32,
    parts: Parts,
) -> Shares {
    let mut shares = match Symmetry::of(topology, targets) {
        Some(symmetry) => from_host_zero(topology, targets, &symmetry, parts),
        None => from_everywhere(topology, targets, processes, parts),
    };
    let Parts { there, back } = parts;
    let each = shares.hosts_each as u64;
    for (host, degree) in shares.hosts.iter().enumerate() {
        let host = HostId(host as u32);
        let up = Entry {
            link: topology.host_up(host),
            count: each,
            share: degree.sends * there + degree.receives * back,
        };
        let down = Entry {
            link: topology.host_down(host),
            count: each,
            share: degree.receives * there + degree.sends * back,
        };
        shares.entries.extend([up, down]);
    }
    shares
}

/// Why all hosts are alike, and links of a kind are.
enum Symmetry<'topology> {
    /// The switches in each dimension.
    Torus(&'topology [u32]),
    /// A fat tree under uniform traffic.
    Tree,
}

impl<'topology> Symmetry<'topology> {
    fn of(topology: &'topology Topology, targets: &Targets) -> Option<Self> {
        if !topology.are_links_alike() || topology.has_equal_paths() {
            return None;
        }
        let Some(sizes) = topology.dimensions() else {
            let is_tree = topology.hosts_per_switch().is_some();
            let is_uniform = targets.uniform_share(HostId(0)) == 1.0;
            let fits = is_tree && is_uniform && targets.is_shift_invariant();
            return fits.then_some(Self::Tree);
        };
        // In a corner, only a torus leads on in the negative directions.
        let is_closed = (0..).zip(sizes).all(|(dimension, &size)| {
            size == 1
                || topology
                    .straight_line(HostId(0), 2 * dimension + 1, 1)
                    .is_some()
        });
        (is_closed && targets.is_shift_invariant()).then_some(Self::Torus(sizes))
    }

    /// Which links carry as much as the one at `place` of a path of `len`.
    fn kind(&self, topology: &Topology, link: LinkId, place: usize, len: usize) -> u32 {
        match self {
            Self::Torus(sizes) => {
                let (Node::Switch(from), Node::Switch(to)) = topology.link_ends(link) else {
                    return u32::MAX;
                };
                direction(sizes, from, to)
            }
            // Level of the upper switch; up and down apart.
            Self::Tree if topology.link_class(link) == LinkClass::TreeUp => 2 * place as u32,
            Self::Tree => 2 * (len - 1 - place) as u32 + 1,
        }
    }

    /// Links of each kind.
    fn kind_count(&self, topology: &Topology) -> u32 {
        match self {
            Self::Torus(_) => topology.switch_count(),
            Self::Tree => topology.host_count(),
        }
    }
}

/// The direction of a link of a torus: twice the dimension, and 1 more if it is the negative one.
/// In a dimension of two switches there is only the positive.
fn direction(sizes: &[u32], from: SwitchId, to: SwitchId) -> u32 {
    let (mut from, mut to) = (from.0, to.0);
    for (dimension, &size) in (0..).zip(sizes) {
        let (here, there) = (from % size, to % size);
        if here != there {
            return 2 * dimension + u32::from((here + 1) % size != there);
        }
        (from, to) = (from / size, to / size);
    }
    u32::MAX
}

/// Counts the routes of host 0 and spreads them over all links of their kinds.
fn from_host_zero(
    topology: &Topology,
    targets: &Targets,
    symmetry: &Symmetry<'_>,
    parts: Parts,
) -> Shares {
    let hosts = topology.host_count();
    let (source, uniform) = (HostId(0), targets.uniform_share(HostId(0)));
    let mut kinds: BTreeMap<u32, Entry> = BTreeMap::new();
    let kind_count = symmetry.kind_count(topology);
    let spread = f64::from(hosts) / f64::from(kind_count);
    let mut walk = Walk::new(topology, 1, parts);
    let mut count_way = |walk: &mut Walk<'_>, (from, to), weight: f64| {
        let path = walk.route(from, to);
        for (place, &link) in path.iter().enumerate().take(path.len() - 1).skip(1) {
            let kind = symmetry.kind(topology, link, place, path.len());
            let new = Entry {
                link,
                count: u64::from(kind_count),
                share: 0.0,
            };
            kinds.entry(kind).or_insert(new).share += weight * spread;
        }
    };
    let mut count = |walk: &mut Walk<'_>, target, weight: f64| {
        count_way(walk, (source, target), weight * parts.there);
        if parts.back > 0.0 {
            count_way(walk, (target, source), weight * parts.back);
        }
    };
    for (target, share) in targets.named_shares(source) {
        count(&mut walk, target, share);
    }
    let mut is_sampled = false;
    if uniform > 0.0 {
        let draws = walk.draws(u64::from(hosts) - 1, |stream| {
            (source, other(source, hosts, stream))
        });
        match draws {
            None => (1..hosts).for_each(|target| {
                count(&mut walk, HostId(target), uniform / f64::from(hosts - 1));
            }),
            Some(draws) => {
                is_sampled = true;
                let mut stream = sampling_stream();
                for _ in 0..draws {
                    let target = other(source, hosts, &mut stream);
                    count(&mut walk, target, uniform / draws as f64);
                }
            }
        }
    }
    Shares {
        entries: kinds.into_values().collect(),
        hosts: vec![Degree {
            sends: 1.0,
            receives: 1.0,
            busiest_peer: uniform / f64::from(hosts - 1) + largest_share(targets, source),
        }],
        hosts_each: f64::from(hosts),
        is_sampled,
    }
}

/// Counts the routes of all hosts.
fn from_everywhere(topology: &Topology, targets: &Targets, processes: u32, parts: Parts) -> Shares {
    let hosts = topology.host_count();
    let mut loads = vec![0.0; topology.switch_link_count() as usize];
    let mut walk = Walk::new(topology, processes, parts);
    let mut is_sampled = false;

    let named_count: u64 = (0..hosts)
        .map(|host| targets.named_shares(HostId(host)).count() as u64)
        .sum();
    let drawn_host = |stream: &mut Stream| HostId(stream.below(u64::from(hosts)) as u32);
    let named = |host: HostId, stream: &mut Stream| {
        let mut drawn = stream.next_u64() as f64 / 2_f64.powi(64);
        targets.named_shares(host).find(|&(_, share)| {
            drawn -= share;
            drawn < 0.0
        })
    };
    let draws = walk.draws(named_count, |stream| {
        let source = drawn_host(stream);
        (
            source,
            named(source, stream).map_or(source, |(target, _)| target),
        )
    });
    match draws {
        None => {
            for source in (0..hosts).map(HostId) {
                for (target, share) in targets.named_shares(source) {
                    walk.add(source, target, share, &mut loads);
                }
            }
        }
        Some(draws) => {
            is_sampled = true;
            let mut stream = sampling_stream();
            for _ in 0..draws {
                let source = drawn_host(&mut stream);
                if let Some((target, _)) = named(source, &mut stream) {
                    let weight = f64::from(hosts) / draws as f64;
                    walk.add(source, target, weight, &mut loads);
                }
            }
        }
    }

    let uniform: Vec<f64> = (0..hosts)
        .map(|host| targets.uniform_share(HostId(host)))
        .collect();
    let uniform_sum: f64 = uniform.iter().sum();
    if uniform_sum > 0.0 {
        is_sampled |= add_uniform(&mut walk, &uniform, &mut loads);
    }

    let entries = (2 * hosts..).zip(loads).filter(|&(_, share)| share > 0.0);
    Shares {
        entries: entries
            .map(|(link, share)| Entry {
                link: LinkId(link),
                count: 1,
                share,
            })
            .collect(),
        hosts: degrees(targets, &uniform, uniform_sum),
        hosts_each: 1.0,
        is_sampled,
    }
}

/// Exact: what each host sends, and what it receives from all others.
fn degrees(targets: &Targets, uniform: &[f64], uniform_sum: f64) -> Vec<Degree> {
    let others = (uniform.len() - 1) as f64;
    let mut degrees: Vec<Degree> = uniform
        .iter()
        .map(|&share| Degree {
            sends: share,
            receives: (uniform_sum - share) / others,
            busiest_peer: share / others,
        })
        .collect();
    for source in 0..uniform.len() {
        for (target, share) in targets.named_shares(HostId(source as u32)) {
            degrees[source].sends += share;
            degrees[target.0 as usize].receives += share;
        }
        degrees[source].busiest_peer += largest_share(targets, HostId(source as u32));
    }
    degrees
}

/// The largest share that one target has by name.
fn largest_share(targets: &Targets, source: HostId) -> f64 {
    let mut shares: Vec<(HostId, f64)> = targets.named_shares(source).collect();
    shares.sort_by_key(|&(target, _)| target);
    let sums = shares.chunk_by(|one, next| one.0 == next.0);
    sums.map(|same| same.iter().map(|&(_, share)| share).sum())
        .fold(0.0, f64::max)
}

/// Adds the messages that go to all other hosts alike; `uniform` is their share at each source.
/// Returns whether they are drawn.
fn add_uniform(walk: &mut Walk<'_>, uniform: &[f64], loads: &mut [f64]) -> bool {
    let topology = walk.topology;
    let hosts = uniform.len() as u32;
    let others = f64::from(hosts - 1);
    // The routes of a grid follow from the switches, but for flows that choose: one host stands for
    // those of its switch.
    let by_switch = topology.dimensions().is_some() && !topology.has_equal_paths();
    let mut places: Vec<Place> = Vec::new();
    for (host, &sends) in (0..).map(HostId).zip(uniform) {
        let switch = topology.host_switch(host);
        match places.last_mut() {
            Some(place) if by_switch && place.switch == switch => {
                place.sends += sends;
                place.hosts += 1.0;
            }
            _ => places.push(Place {
                host,
                switch,
                sends,
                hosts: 1.0,
            }),
        }
    }
    let count = places.len() as u64;
    let drawn_pair = |stream: &mut Stream| {
        let source = HostId(stream.below(u64::from(hosts)) as u32);
        (source, other(source, hosts, stream))
    };
    let Some(draws) = walk.draws(count * (count - 1), drawn_pair) else {
        for source in &places {
            for target in &places {
                if source.host != target.host {
                    let weight = source.sends * target.hosts / others;
                    walk.add(source.host, target.host, weight, loads);
                }
            }
        }
        return false;
    };
    let mut stream = sampling_stream();
    for _ in 0..draws {
        let (source, target) = drawn_pair(&mut stream);
        let weight = uniform[source.0 as usize] * f64::from(hosts) / draws as f64;
        walk.add(source, target, weight, loads);
    }
    true
}

/// Hosts of one switch.
struct Place {
    host: HostId,
    switch: SwitchId,
    sends: f64,
    hosts: f64,
}

/// Walks routes.
struct Walk<'topology> {
    topology: &'topology Topology,
    /// Flows between two hosts whose paths may differ: one for each process, which sends to the
    /// process of its number on the other host.
    flows: u32,
    parts: Parts,
    path: Vec<LinkId>,
}

impl<'topology> Walk<'topology> {
    fn new(topology: &'topology Topology, processes: u32, parts: Parts) -> Self {
        let may_differ = topology.has_equal_paths();
        Self {
            topology,
            flows: if may_differ { processes } else { 1 },
            parts,
            path: Vec::new(),
        }
    }

    fn route(&mut self, source: HostId, target: HostId) -> &[LinkId] {
        self.path.clear();
        self.topology.route(source, target, &mut self.path);
        &self.path
    }

    /// Links to be added to for messages between two hosts.
    fn steps(&mut self, source: HostId, target: HostId) -> u64 {
        if self.topology.spreads_frames() {
            let mut steps = 1;
            spread(self.topology, source, target, 1.0, &mut |_, _| steps += 1);
            return steps;
        }
        self.route(source, target).len() as u64 * u64::from(self.flows)
    }

    /// Adds `weight` to each link between switches on the way there, or back, or its parts.
    fn add(&mut self, source: HostId, target: HostId, weight: f64, loads: &mut [f64]) {
        let Parts { there, back } = self.parts;
        self.add_way(source, target, weight * there, loads);
        if back > 0.0 {
            self.add_way(target, source, weight * back, loads);
        }
    }

    fn add_way(&mut self, source: HostId, target: HostId, weight: f64, loads: &mut [f64]) {
        let first = 2 * self.topology.host_count();
        let (flows, topology) = (self.flows, self.topology);
        if topology.spreads_frames() {
            let add = &mut |link: LinkId, part| loads[(link.0 - first) as usize] += part;
            return spread(topology, source, target, weight, add);
        }
        for process in 0..flows {
            let flow = flow_between(flows, process, process);
            self.path.clear();
            topology.route_flow(source, target, flow, &mut self.path);
            for link in &self.path {
                if let Some(index) = link.0.checked_sub(first) {
                    loads[index as usize] += weight / f64::from(flows);
                }
            }
        }
    }

    /// How many routes to draw if `count` routes are too many to walk; none if they are not.
    ///
    /// Some routes of the kind are walked for their length.
    fn draws(
        &mut self,
        count: u64,
        mut drawn: impl FnMut(&mut Stream) -> (HostId, HostId),
    ) -> Option<u64> {
        const TRIED: u64 = 64;
        if count <= TRIED {
            return None;
        }
        let mut stream = sampling_stream();
        let directions = 1 + u64::from(self.parts.back > 0.0);
        let steps: u64 = (0..TRIED)
            .map(|_| {
                let (source, target) = drawn(&mut stream);
                self.steps(source, target) * directions
            })
            .sum();
        let routes_max = ROUTE_STEPS_MAX * TRIED / steps.max(1);
        (count > routes_max).then_some(routes_max.max(1))
    }
}

/// Of `weight`, the part that each link between switches gets where frames take ways of their own:
/// each switch has its links share alike. Of detours some are taken for all; those that queues
/// decide on are left out.
pub(super) fn spread(
    topology: &Topology,
    source: HostId,
    target: HostId,
    weight: f64,
    add: &mut impl FnMut(LinkId, f64),
) {
    const TRIED: u32 = 16;

    let at = topology.host_switch(source);
    if topology.detours() != Detours::Always {
        return spread_from(topology, at, target, weight, add);
    }
    let part = weight / f64::from(TRIED);
    for number in 0..TRIED {
        let over = topology.detour_host(source, target, number);
        let ends = [source, target].map(|end| topology.host_switch(end));
        let middle = topology.host_switch(over);
        if ends[0] == ends[1] || ends.contains(&middle) {
            spread_from(topology, at, target, part, add);
        } else {
            spread_from(topology, at, over, part, add);
            spread_from(topology, middle, target, part, add);
        }
    }
}

/// The same from a switch on, without detours.
fn spread_from(
    topology: &Topology,
    at: SwitchId,
    target: HostId,
    weight: f64,
    add: &mut impl FnMut(LinkId, f64),
) {
    if at == topology.host_switch(target) {
        return;
    }
    let count = topology.next_count(at, target);
    let part = weight / f64::from(count);
    for link in (0..count).filter_map(|number| topology.next_link(at, target, number)) {
        add(link, part);
        if let Node::Switch(next) = topology.link_ends(link).1 {
            spread_from(topology, next, target, part, add);
        }
    }
}

/// Any host but `source`, each equally likely.
fn other(source: HostId, hosts: u32, stream: &mut Stream) -> HostId {
    let drawn = stream.below(u64::from(hosts) - 1) as u32;
    HostId(drawn + u32::from(drawn >= source.0))
}

/// The same for each call: bounds don't depend on the run's seed beyond its pattern.
pub(super) fn sampling_stream() -> Stream {
    Stream::new(StreamKey {
        seed: 0,
        purpose: 0x626f_756e_6473,
        entity: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use viaduct_topology::{ChainHosts, Ports, TreeShape};

    use super::*;
    use crate::workload::Pattern;

    fn of(topology: Topology, pattern: &Pattern) -> (Arc<Topology>, Targets) {
        let topology = Arc::new(topology);
        let targets = Targets::new(pattern, &topology, 3).unwrap();
        (topology, targets)
    }

    fn torus(sizes: &[u32], hosts: u32) -> Topology {
        Topology::torus(sizes, hosts, Ports(64)).unwrap()
    }

    fn mesh(sizes: &[u32], hosts: u32) -> Topology {
        Topology::mesh(sizes, hosts, Ports(64)).unwrap()
    }

    fn tree(arity: u32, levels: u32) -> Topology {
        Topology::fat_tree(TreeShape { arity, levels }, Ports(64)).unwrap()
    }

    /// As of reads whose requests are a quarter of what they put on links.
    const OF_READS: Parts = Parts {
        there: 0.25,
        back: 0.75,
    };

    /// All links' loads by definition: each source's every target, no short cut.
    fn by_definition(topology: &Topology, targets: &Targets, parts: Parts) -> Vec<f64> {
        let hosts = topology.host_count();
        let mut loads = vec![0.0; topology.link_count() as usize];
        let mut path: Vec<LinkId> = Vec::new();
        let mut add = |source: u32, target: u32, weight: f64| {
            let ways = [(source, target, parts.there), (target, source, parts.back)];
            for (from, to, part) in ways {
                path.clear();
                topology.route(HostId(from), HostId(to), &mut path);
                path.iter()
                    .for_each(|link| loads[link.0 as usize] += weight * part);
            }
        };
        for source in 0..hosts {
            for (target, share) in targets.named_shares(HostId(source)) {
                add(source, target.0, share);
            }
            let uniform = targets.uniform_share(HostId(source)) / f64::from(hosts - 1);
            if uniform > 0.0 {
                (0..hosts)
                    .filter(|&target| target != source)
                    .for_each(|target| add(source, target, uniform));
            }
        }
        loads
    }

    /// The sorted loads of all links, those without traffic included.
    fn sorted(topology: &Topology, shares: &Shares) -> Vec<f64> {
        let mut loads: Vec<f64> = shares
            .entries
            .iter()
            .flat_map(|entry| core::iter::repeat_n(entry.share, entry.count as usize))
            .collect();
        assert!(loads.len() <= topology.link_count() as usize);
        loads.resize(topology.link_count() as usize, 0.0);
        loads.sort_by(f64::total_cmp);
        loads
    }

    #[test]
    fn short_cuts_agree_with_the_definition() {
        let patterns = [
            Pattern::StraightLine { hops: 1 },
            Pattern::StraightLine { hops: 2 },
            Pattern::Uniform,
            Pattern::AllToAll,
            Pattern::Neighbours,
            Pattern::RandomPermutation,
            Pattern::Incast { target: 1 },
            Pattern::HotSpot {
                hot: 2,
                fraction: 0.3,
            },
            Pattern::Pairs(vec![(0, 1), (0, 2), (1, 0), (0, 1)]),
        ];
        let topologies = [
            torus(&[4, 3], 2),
            torus(&[5], 1),
            torus(&[4, 1, 3], 1),
            torus(&[3, 2, 4], 1),
            mesh(&[4, 3], 2),
            mesh(&[3, 3, 2], 1),
            tree(2, 3),
            tree(3, 2),
            Topology::chain(5, ChainHosts::Ends(2), Ports(8)).unwrap(),
            Topology::chain(5, ChainHosts::EverySwitch(2), Ports(8)).unwrap(),
            Topology::single_switch(6, Ports(8)).unwrap(),
        ];
        let mut compared = 0;
        for topology in topologies {
            let topology = Arc::new(topology);
            for pattern in &patterns {
                let Ok(targets) = Targets::new(pattern, &topology, 3) else {
                    continue;
                };
                for parts in [Parts::THERE, OF_READS] {
                    let shares = link_shares(&topology, &targets, 1, parts);
                    let mut expected = by_definition(&topology, &targets, parts);
                    expected.sort_by(f64::total_cmp);
                    let found = sorted(&topology, &shares);
                    let alike = found
                        .iter()
                        .zip(&expected)
                        .all(|(one, two)| (one - two).abs() < 1e-9);
                    let name = topology.description();
                    assert!(
                        alike,
                        "{name} with {pattern:?}, {parts:?}: {found:?}, not {expected:?}"
                    );
                    assert!(!shares.is_sampled);
                    compared += 1;
                }
            }
        }
        assert!(compared > 140, "{compared}");
    }

    #[test]
    fn entries_of_unlike_links_name_their_own_load() {
        let hot = Pattern::HotSpot {
            hot: 2,
            fraction: 0.3,
        };
        let (topology, targets) = of(mesh(&[4, 3], 2), &hot);
        for parts in [Parts::THERE, OF_READS] {
            let expected = by_definition(&topology, &targets, parts);
            for entry in link_shares(&topology, &targets, 1, parts).entries {
                assert!((entry.share - expected[entry.link.0 as usize]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn most_used_peer_counts_for_a_vi() {
        let busiest = |pattern: &Pattern, host: usize| {
            let (topology, targets) = of(torus(&[8], 1), pattern);
            let shares = link_shares(&topology, &targets, 1, Parts::THERE);
            shares.hosts[host.min(shares.hosts.len() - 1)].busiest_peer
        };
        assert_eq!(busiest(&Pattern::StraightLine { hops: 4 }, 0), 1.0);
        assert_eq!(busiest(&Pattern::StraightLine { hops: 3 }, 0), 0.5);
        assert_eq!(busiest(&Pattern::Uniform, 0), 1.0 / 7.0);
        let pairs = Pattern::Pairs(vec![(1, 0), (1, 2), (1, 0), (1, 0)]);
        assert_eq!(busiest(&pairs, 1), 0.75);
        let hot = busiest(
            &Pattern::HotSpot {
                hot: 0,
                fraction: 0.3,
            },
            1,
        );
        assert!((hot - (0.3 + 0.7 / 7.0)).abs() < 1e-12, "{hot}");
    }

    #[test]
    fn too_many_routes_are_drawn_and_close_to_the_sum() {
        // A mesh of k x k switches: the mean distance of any two, itself included, is
        // 2 (k - 1/k) / 3.
        let (topology, targets) = of(mesh(&[64, 64], 2), &Pattern::Uniform);
        let shares = link_shares(&topology, &targets, 1, Parts::THERE);
        assert!(shares.is_sampled);
        let of_class = |class| -> Vec<f64> {
            let entries = shares.entries.iter();
            let those = entries.filter(|entry| topology.link_class(entry.link) == class);
            those.map(|entry| entry.share).collect()
        };
        let mesh: f64 = of_class(LinkClass::Mesh).iter().sum();
        let hosts = 2.0 * 64.0 * 64.0;
        let expected = hosts * 2.0 * (64.0 - 1.0 / 64.0) / 3.0 * (hosts / (hosts - 1.0));
        assert!(
            (mesh / expected - 1.0).abs() < 0.01,
            "{mesh}, not {expected}"
        );
        // Hosts' own links are exact all the same.
        let down = of_class(LinkClass::HostDown);
        assert_eq!(down.len(), 8_192);
        assert!(down.iter().all(|share| (share - 1.0).abs() < 1e-9));
    }

    #[test]
    fn fixed_targets_of_a_large_mesh_are_drawn_too() {
        let (topology, targets) = of(mesh(&[256, 256], 1), &Pattern::RandomPermutation);
        let shares = link_shares(&topology, &targets, 1, Parts::THERE);
        assert!(shares.is_sampled);
        let total: f64 = shares.entries.iter().map(|entry| entry.share).sum();
        let exact: f64 = (0..65_536)
            .map(|host| {
                let (target, _) = targets.named_shares(HostId(host)).next().unwrap();
                f64::from(topology.path_length(HostId(host), target).unwrap())
            })
            .sum();
        assert!((total / exact - 1.0).abs() < 0.01, "{total}, not {exact}");
    }

    #[test]
    fn large_networks_are_done_from_one_host() {
        for (topology, pattern) in [
            (torus(&[512, 512], 4), Pattern::Neighbours),
            (torus(&[64, 64], 4), Pattern::Uniform),
            (tree(8, 5), Pattern::AllToAll),
        ] {
            let (topology, targets) = of(topology, &pattern);
            let shares = link_shares(&topology, &targets, 1, Parts::THERE);
            assert!(!shares.is_sampled && shares.hosts.len() == 1, "{pattern:?}");
        }
    }
}
