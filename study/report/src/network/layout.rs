//! Where hosts and switches stand: meshes in their dimensions, trees by level, dragonflies by
//! group, graphs from their middle outwards. Everything is linear in the size of the network, but
//! for small graphs, which springs then pull apart.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use viaduct_topology::{HostId, LinkId, Node, Plan, Topology};

/// A place; one unit is the distance of neighbouring switches.
pub(super) type Point = (f64, f64);

/// Graphs of at most so many switches are pulled apart by springs, at a cost of their square.
const SPRINGS_MAX: usize = 400;

/// Turns of the springs.
const TURNS: u32 = 300;

/// Where a network's nodes stand and which are joined.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) hosts: Vec<Point>,
    pub(super) switches: Vec<Point>,
    /// Switches that are joined, each pair once.
    pub(super) links: Vec<Line>,
    /// The switch of each host.
    pub(super) switch_of: Vec<u32>,
}

/// A line between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Whether it leads around the edge of a torus: it is drawn as two ends.
    pub(super) is_wrapped: bool,
}

impl Layout {
    /// Places the nodes of a network; equal networks are placed equally.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let switch_of: Vec<u32> = (0..topology.host_count())
            .map(|host| topology.host_switch(HostId(host)).0)
            .collect();
        let pairs = pairs(topology);
        let (mut switches, is_tree) = switches(topology, &pairs);
        let is_grid = topology.dimensions().is_some();
        let spread = match is_tree {
            true => 1.0,
            false => spread(&switches, is_grid, most_hosts(&switch_of, switches.len())),
        };
        for (x, y) in &mut switches {
            (*x, *y) = (*x * spread, *y * spread);
        }
        let links = pairs.into_iter().map(|(from, to)| {
            let ((x0, y0), (x1, y1)) = (switches[from as usize], switches[to as usize]);
            Line {
                from,
                to,
                is_wrapped: is_grid
                    && (x1 - x0).hypot(y1 - y0) > 1.5 * spread
                    && wraps(topology, from, to),
            }
        });
        let links = links.collect();
        let hosts = hosts(&switch_of, &switches, is_tree);
        Self {
            hosts,
            switches,
            links,
            switch_of,
        }
    }

    /// Hosts and switches in all.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.hosts.len() + self.switches.len()
    }

    /// The corners of the smallest box that holds all, with a margin.
    pub(super) fn bounds(&self) -> (Point, Point) {
        let points = self.hosts.iter().chain(&self.switches);
        let start = ((f64::MAX, f64::MAX), (f64::MIN, f64::MIN));
        let ((x0, y0), (x1, y1)) = points.fold(start, |(least, most), &(x, y)| {
            (
                (least.0.min(x), least.1.min(y)),
                (most.0.max(x), most.1.max(y)),
            )
        });
        ((x0 - 0.6, y0 - 0.6), (x1 + 0.6, y1 + 0.6))
    }

    /// The two parts of a line: of one that wraps, its ends alone, each pointing outwards.
    pub(super) fn parts(&self, line: Line) -> Vec<(Point, Point)> {
        let (from, to) = (
            self.switches[line.from as usize],
            self.switches[line.to as usize],
        );
        if !line.is_wrapped {
            return vec![(from, to)];
        }
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        let (dx, dy) = (dx / length * 0.45, dy / length * 0.45);
        vec![
            (from, (from.0 - dx, from.1 - dy)),
            (to, (to.0 + dx, to.1 + dy)),
        ]
    }
}

/// The switches that are joined, each pair once, in order.
fn pairs(topology: &Topology) -> Vec<(u32, u32)> {
    let between = 2 * topology.host_count()..topology.link_count();
    let mut pairs: Vec<(u32, u32)> = between
        .filter_map(|link| match topology.link_ends(LinkId(link)) {
            (Node::Switch(from), Node::Switch(to)) if from != to => {
                Some((from.0.min(to.0), from.0.max(to.0)))
            }
            _ => None,
        })
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn coordinates(sizes: &[u32], mut switch: u32) -> Vec<u32> {
    let coordinate = |&size: &u32| {
        let here = switch % size.max(1);
        switch /= size.max(1);
        here
    };
    sizes.iter().map(coordinate).collect()
}

/// Whether two switches of a grid are joined around its edge.
fn wraps(topology: &Topology, from: u32, to: u32) -> bool {
    let sizes = topology.dimensions().unwrap_or_default();
    let (from, to) = (coordinates(sizes, from), coordinates(sizes, to));
    from.iter().zip(&to).any(|(a, b)| a.abs_diff(*b) > 1)
}

/// Room of a host on the arc around its switch.
const HOST_ROOM: f64 = 0.17;

/// How far from a switch its hosts stand: each has room of its own.
fn fan_radius(hosts: u32) -> f64 {
    (f64::from(hosts) * HOST_ROOM / TAU).max(0.33)
}

/// The most hosts of a switch.
fn most_hosts(switch_of: &[u32], switches: usize) -> u32 {
    let mut counts = vec![0_u32; switches];
    for &switch in switch_of {
        counts[switch as usize] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}

/// By how much switches are moved apart, so that the hosts around one are not among those around
/// another.
fn spread(switches: &[Point], is_grid: bool, hosts: u32) -> f64 {
    let wanted = 2.0 * fan_radius(hosts) + 0.3;
    // Springs pull some closer than the unit; without them each has it.
    let nearest = match is_grid || switches.len() > SPRINGS_MAX {
        true => 1.0,
        false => {
            let pairs = switches.iter().enumerate().flat_map(|(index, a)| {
                let others = switches[index + 1..].iter();
                others.map(move |b| (a.0 - b.0).hypot(a.1 - b.1))
            });
            pairs.fold(f64::INFINITY, f64::min)
        }
    };
    match nearest.is_finite() && nearest > 1e-6 {
        true => (wanted / nearest).max(1.0),
        false => 1.0,
    }
}

/// Places of the switches, and whether hosts stand below them.
fn switches(topology: &Topology, pairs: &[(u32, u32)]) -> (Vec<Point>, bool) {
    let count = topology.switch_count();
    if let Some(sizes) = topology.dimensions() {
        let places = (0..count).map(|switch| grid_place(sizes, switch));
        return (places.collect(), false);
    }
    match topology.plan() {
        Some(Plan::LeafSpine { .. } | Plan::Rail(_) | Plan::Clos(_)) => {
            return (level_places(topology, pairs), true);
        }
        Some(Plan::Dragonfly(shape)) => {
            return (group_places(shape.groups, shape.switches_per_group), false);
        }
        Some(Plan::DragonflyPlus { radix, groups }) => {
            return (group_places(groups, radix), false);
        }
        _ => {}
    }
    if let Some(arity) = topology.hosts_per_switch() {
        // A tree: all levels are equally wide, and level 0 has the hosts.
        let width = (topology.host_count() / arity.max(1)).max(1);
        let gap = tree_gap(arity);
        let places = (0..count).map(|switch| {
            let (level, place) = (switch / width, switch % width);
            (
                f64::from(place) * gap,
                -f64::from(level) * (1.0 + f64::from(width) * gap / 12.0),
            )
        });
        return (places.collect(), true);
    }
    (graph_places(count as usize, pairs), false)
}

/// Rows of switches by how far they are from the hosts, each in the order of its numbers and as
/// wide as the widest.
fn level_places(topology: &Topology, pairs: &[(u32, u32)]) -> Vec<Point> {
    let count = topology.switch_count() as usize;
    let mut level = vec![usize::MAX; count];
    let mut hosts = vec![0_u32; count];
    for host in 0..topology.host_count() {
        let switch = topology.host_switch(HostId(host)).0 as usize;
        level[switch] = 0;
        hosts[switch] += 1;
    }
    // Links lead from a level to the next: in the order of their switches each is met from below.
    for &(lower, upper) in pairs {
        let next = level[lower as usize].saturating_add(1);
        level[upper as usize] = level[upper as usize].min(next);
    }
    let levels = 1 + level
        .iter()
        .copied()
        .filter(|&it| it < count)
        .max()
        .unwrap_or(0);
    let mut sizes = vec![0_u32; levels];
    let places: Vec<u32> = level
        .iter()
        .map(|&level| {
            let size = &mut sizes[level.min(levels - 1)];
            *size += 1;
            *size - 1
        })
        .collect();
    let most = hosts.iter().copied().max().unwrap_or(0);
    let width = f64::from(sizes.iter().copied().max().unwrap_or(1)) * tree_gap(most);
    let place = |(&place, &level): (&u32, &usize)| {
        let level = level.min(levels - 1);
        let gap = width / f64::from(sizes[level]);
        let x = (f64::from(place) + 0.5) * gap;
        (x, -(level as f64) * (1.0 + width / 12.0))
    };
    places.iter().zip(&level).map(place).collect()
}

/// Groups in a circle, the switches of each in a smaller one.
fn group_places(groups: u32, switches: u32) -> Vec<Point> {
    let around = |place: u32, count: u32, radius: f64| {
        let angle = TAU * f64::from(place) / f64::from(count.max(1));
        (radius * angle.cos(), radius * angle.sin())
    };
    // Neighbours in a circle are at least a unit apart, and groups as much from each other.
    let radius = |count: u32, apart: f64| match count {
        0 | 1 => 0.0,
        _ => apart / 2.0 / (TAU / 2.0 / f64::from(count)).sin(),
    };
    let small = radius(switches, 1.0);
    let large = radius(groups, 2.0 * small + 2.0);
    let groups = (0..groups).map(|group| around(group, groups, large));
    let places = groups.flat_map(|(x, y)| {
        (0..switches).map(move |switch| {
            let (dx, dy) = around(switch, switches, small);
            (x + dx, y + dy)
        })
    });
    places.collect()
}

/// Room for a switch's hosts beside each other.
fn tree_gap(arity: u32) -> f64 {
    (f64::from(arity) * 0.28).max(1.0)
}

/// The first two dimensions as they are; planes of further ones beside and below each other.
fn grid_place(sizes: &[u32], switch: u32) -> Point {
    let mut place = [0.0, 0.0];
    let mut span = [1.0, 1.0];
    for (dimension, coordinate) in coordinates(sizes, switch).into_iter().enumerate() {
        let side = dimension % 2;
        place[side] += f64::from(coordinate) * span[side];
        let size = f64::from(sizes[dimension]);
        span[side] = span[side] * size + if dimension >= 2 { 1.5 } else { 1.0 };
    }
    (place[0], place[1])
}

/// Hosts of a switch: in an arc around it, or in a row below it.
fn hosts(switch_of: &[u32], switches: &[Point], is_tree: bool) -> Vec<Point> {
    let mut counts = vec![0_u32; switches.len()];
    let mut places = Vec::with_capacity(switch_of.len());
    for &switch in switch_of {
        places.push(counts[switch as usize]);
        counts[switch as usize] += 1;
    }
    let place = |(&switch, place): (&u32, u32)| {
        let ((x, y), count) = (switches[switch as usize], counts[switch as usize]);
        if is_tree {
            let gap = tree_gap(count) / f64::from(count.max(1));
            return (
                x + (f64::from(place) - f64::from(count - 1) / 2.0) * gap,
                y + 0.8,
            );
        }
        // Between the directions in which links to neighbours of a mesh leave.
        let angle = TAU * (f64::from(place) + 0.5) / f64::from(count) + TAU / 16.0;
        let radius = fan_radius(count);
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    switch_of.iter().zip(places).map(place).collect()
}

/// Rings around the middle, each switch near the one that it was reached from.
fn graph_places(count: usize, pairs: &[(u32, u32)]) -> Vec<Point> {
    let mut neighbours = vec![Vec::new(); count];
    for &(from, to) in pairs {
        neighbours[from as usize].push(to as usize);
        neighbours[to as usize].push(from as usize);
    }
    let mut places = vec![(0.0, 0.0); count];
    let mut is_placed = vec![false; count];
    let mut left = 0.0;
    for start in 0..count {
        if is_placed[start] {
            continue;
        }
        let middle = middle(start, &neighbours);
        let (order, parent, depth) = breadth_first(middle, &neighbours);
        // The share of a circle that each has is that of the switches beyond it.
        let mut weight = vec![0.0_f64; count];
        for &switch in order.iter().rev() {
            weight[switch] = f64::max(weight[switch], 1.0);
            if let Some(parent) = parent[switch] {
                weight[parent] += weight[switch];
            }
        }
        let rings = order.iter().map(|&switch| depth[switch]).max().unwrap_or(0);
        // Room for the fullest ring.
        let mut full = vec![0_usize; rings + 1];
        for &switch in &order {
            full[depth[switch]] += 1;
        }
        let mut radius = vec![0.0_f64; rings + 1];
        for ring in 1..=rings {
            radius[ring] = (radius[ring - 1] + 1.0).max(full[ring] as f64 / TAU);
        }
        let mut next = vec![0.0; count];
        let centre = left + radius[rings];
        for &switch in &order {
            let share = TAU * weight[switch] / weight[middle].max(1.0);
            let begin = parent[switch].map_or(0.0, |parent| next[parent]);
            if let Some(parent) = parent[switch] {
                next[parent] += share;
            }
            next[switch] = begin;
            let angle = begin + share / 2.0;
            let radius = radius[depth[switch]];
            places[switch] = (centre + radius * angle.cos(), radius * angle.sin());
            is_placed[switch] = true;
        }
        left = centre + radius[rings] + 2.0;
    }
    if count <= SPRINGS_MAX {
        pull_apart(&mut places, pairs);
    }
    places
}

/// The middle of a longest shortest way, found by two searches.
fn middle(start: usize, neighbours: &[Vec<usize>]) -> usize {
    let far = |from| {
        let (order, parent, depth) = breadth_first(from, neighbours);
        (order.last().copied().unwrap_or(from), parent, depth)
    };
    let (end, ..) = far(start);
    let (other, parent, depth) = far(end);
    let mut middle = other;
    for _ in 0..depth[other] / 2 {
        middle = parent[middle].unwrap_or(middle);
    }
    middle
}

/// Order, parents and depths of a search from `start`.
fn breadth_first(
    start: usize,
    neighbours: &[Vec<usize>],
) -> (Vec<usize>, Vec<Option<usize>>, Vec<usize>) {
    let mut parent = vec![None; neighbours.len()];
    let mut depth = vec![usize::MAX; neighbours.len()];
    let mut order = Vec::new();
    let mut queue = VecDeque::from([start]);
    depth[start] = 0;
    while let Some(switch) = queue.pop_front() {
        order.push(switch);
        for &next in &neighbours[switch] {
            if depth[next] == usize::MAX {
                depth[next] = depth[switch] + 1;
                parent[next] = Some(switch);
                queue.push_back(next);
            }
        }
    }
    (order, parent, depth)
}

/// Fruchterman and Reingold's springs, cooling down.
fn pull_apart(places: &mut [Point], pairs: &[(u32, u32)]) {
    let mut forces = vec![(0.0, 0.0); places.len()];
    for turn in 0..TURNS {
        let heat = 0.5 * (1.0 - f64::from(turn) / f64::from(TURNS));
        forces.fill((0.0, 0.0));
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let (dx, dy) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
                let square = (dx * dx + dy * dy).max(1e-4);
                if square < 100.0 {
                    let (dx, dy) = (dx / square, dy / square);
                    forces[a] = (forces[a].0 + dx, forces[a].1 + dy);
                    forces[b] = (forces[b].0 - dx, forces[b].1 - dy);
                }
            }
        }
        for &(a, b) in pairs {
            let (a, b) = (a as usize, b as usize);
            let (dx, dy) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
            let length = dx.hypot(dy);
            let (dx, dy) = (dx * length, dy * length);
            forces[a] = (forces[a].0 - dx, forces[a].1 - dy);
            forces[b] = (forces[b].0 + dx, forces[b].1 + dy);
        }
        for (place, force) in places.iter_mut().zip(&forces) {
            let strength = force.0.hypot(force.1).max(1e-9);
            let step = strength.min(heat) / strength;
            *place = (place.0 + force.0 * step, place.1 + force.1 * step);
        }
    }
}
