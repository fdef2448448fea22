//! Jellyfish: a random graph in which each switch has the same number of links to others.
//!
//! The ends of all links are shuffled and joined in pairs. A pair that would join a switch to
//! itself, or to a neighbour a second time, exchanges an end with a random link. This is repeated
//! until no such pair is left. A graph that is not connected is drawn anew. Where each switch has
//! more than half of the others as neighbours, the links that are absent are drawn instead.

use crate::builder::GraphBuilder;
use crate::error::TopologyError;
use crate::flow::mixed;
use crate::generated::{at_least_one, nearest};
use crate::graph::{GRAPH_LINKS_MAX, check_table_size, limit};
use crate::parts::{GraphParts, LinkAttributes};
use crate::{Node, UsualLinks};

/// The measures of a random regular graph.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JellyfishShape {
    /// All switches.
    pub switches: u32,
    /// Hosts at each.
    pub hosts_per_switch: u32,
    /// Links of each switch to others.
    pub switch_links: u32,
    /// Which of all such graphs.
    pub seed: u64,
}

/// Graphs that are drawn before one is connected, at most: of those with two links a switch, which
/// are rings, few are.
const DRAWN_MAX: u64 = 10_000;

/// Its nodes and links.
pub(crate) fn parts(shape: JellyfishShape) -> Result<GraphParts, TopologyError> {
    let JellyfishShape {
        switches,
        hosts_per_switch,
        switch_links,
        seed,
    } = shape;
    at_least_one("the number of switches", switches)?;
    at_least_one("the number of hosts at a switch", hosts_per_switch)?;
    check_table_size(u64::from(switches), u64::from(switches))?;
    let ends = u64::from(switches) * u64::from(switch_links);
    limit(
        "the number of links between switches",
        ends,
        u64::from(GRAPH_LINKS_MAX),
    )?;
    let exists = |links: u64| {
        let switches = u64::from(switches);
        let is_even = (switches * links).is_multiple_of(2);
        // One link each joins no more than two.
        is_even && links < switches && (links > 1 || links + 1 == switches)
    };
    if !exists(u64::from(switch_links)) {
        return Err(TopologyError::NoSuchSize {
            what: "the number of links of a switch to others",
            size: u64::from(switch_links),
            rule: format!(
                "{switches} switches are joined to one network by at least 2 each, fewer than \
                 there are switches, and in all an even number of ends"
            ),
            nearest: nearest(u64::from(switch_links), exists),
        });
    }
    let mut draw = Draw { seed, drawn: 0 };
    let neighbours = (0..DRAWN_MAX)
        .map(|_| regular(switches, switch_links, &mut draw))
        .find(|neighbours| is_connected(neighbours));
    let Some(neighbours) = neighbours else {
        return Err(TopologyError::Graph {
            problem: format!("of {DRAWN_MAX} random graphs none was connected"),
            help: "give switches more links to others, or take another seed".to_owned(),
        });
    };
    let mut graph = GraphBuilder::new(false, false);
    let cable = LinkAttributes::default();
    for switch in 0..switches {
        graph.add_switch(Some(&format!("s{switch}")), None)?;
    }
    for switch in 0..switches {
        for host in 0..hosts_per_switch {
            let host = graph.add_host(Some(&format!("n{switch}-{host}")))?;
            graph.link(Node::Host(host), graph.switch(switch)?, cable)?;
        }
    }
    for (switch, neighbours) in (0..).zip(&neighbours) {
        for &other in neighbours.iter().filter(|&&other| other > switch) {
            graph.link(graph.switch(switch)?, graph.switch(other)?, cable)?;
        }
    }
    graph.parts(UsualLinks::default())
}

/// Numbers by chance, the same for the same seed.
struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.drawn += 1;
        let number = mixed(mixed(self.seed).wrapping_add(self.drawn));
        ((u128::from(number) * count as u128) >> 64) as usize
    }
}

/// The neighbours of each switch, ascending; not always connected.
fn regular(switches: u32, links: u32, draw: &mut Draw) -> Vec<Vec<u32>> {
    let missing = switches - 1 - links;
    if missing < links {
        let absent = paired(switches, missing, draw);
        let others = |(switch, absent): (u32, &Vec<u32>)| {
            let others = (0..switches).filter(|other| *other != switch && !absent.contains(other));
            others.collect()
        };
        return (0..).zip(&absent).map(others).collect();
    }
    paired(switches, links, draw)
}

/// Of switches that have at most half of the others as neighbours: then there is always a link to
/// exchange an end with.
fn paired(switches: u32, links: u32, draw: &mut Draw) -> Vec<Vec<u32>> {
    let mut ends: Vec<u32> = (0..switches)
        .flat_map(|switch| (0..links).map(move |_| switch))
        .collect();
    for place in (1..ends.len()).rev() {
        ends.swap(place, draw.below(place + 1));
    }
    // How often each pair is joined shows in the neighbours.
    let mut neighbours = vec![Vec::new(); switches as usize];
    for pair in ends.chunks_exact(2) {
        join(&mut neighbours, pair[0], pair[1]);
    }
    let is_wrong = |neighbours: &[Vec<u32>], one: u32, other: u32| {
        let mut same = neighbours[one as usize].iter().filter(|&&it| it == other);
        one == other || same.nth(1).is_some()
    };
    let pairs = ends.len() / 2;
    loop {
        let mut has_wrong = false;
        for place in 0..pairs {
            let (one, other) = (ends[2 * place], ends[2 * place + 1]);
            if !is_wrong(&neighbours, one, other) {
                continue;
            }
            has_wrong = true;
            let with = draw.below(pairs);
            let (third, fourth) = (ends[2 * with], ends[2 * with + 1]);
            let is_free = |a: u32, b: u32| a != b && !neighbours[a as usize].contains(&b);
            if with == place || !is_free(one, third) || !is_free(other, fourth) {
                continue;
            }
            part(&mut neighbours, one, other);
            part(&mut neighbours, third, fourth);
            join(&mut neighbours, one, third);
            join(&mut neighbours, other, fourth);
            ends[2 * place + 1] = third;
            ends[2 * with] = other;
        }
        if !has_wrong {
            break;
        }
    }
    for neighbours in &mut neighbours {
        neighbours.sort_unstable();
    }
    neighbours
}

fn join(neighbours: &mut [Vec<u32>], one: u32, other: u32) {
    neighbours[one as usize].push(other);
    neighbours[other as usize].push(one);
}

fn part(neighbours: &mut [Vec<u32>], one: u32, other: u32) {
    for (from, to) in [(one, other), (other, one)] {
        let its = &mut neighbours[from as usize];
        if let Some(place) = its.iter().position(|&it| it == to) {
            its.swap_remove(place);
        }
    }
}

fn is_connected(neighbours: &[Vec<u32>]) -> bool {
    let mut is_met = vec![false; neighbours.len()];
    let mut open = vec![0u32];
    is_met[0] = true;
    let mut met = 1;
    while let Some(switch) = open.pop() {
        for &next in &neighbours[switch as usize] {
            if !core::mem::replace(&mut is_met[next as usize], true) {
                met += 1;
                open.push(next);
            }
        }
    }
    met == neighbours.len()
}
