//! Channels that wait for each other in a ring.
//!
//! A message that holds one link and waits for the next makes the one depend on the other. Where
//! these dependencies form a cycle, hardware that holds messages up instead of dropping or storing
//! them can stand still for ever (Dally and Seitz, 1987). Several channels on each link break the
//! cycles if messages change from one to the next: in a ring where they pass its end, in a
//! dragonfly on each link between groups, elsewhere at each switch. Where some make a detour half
//! of the channels are for the way to where it leads, or all of the way without one, and the rest
//! for the way from there: these never wait for the first ones.

use core::ops::Range;
use std::collections::VecDeque;

use crate::flow::EqualPaths;
use crate::topology::Kind;
use crate::{HostId, LinkId, SwitchId, Topology};

/// Pairs of switches between which routes are followed at most; beyond them only to some targets.
pub const CYCLE_PAIRS_MAX: u64 = 1 << 20;

/// Channels that are named at most.
const CHANNELS_SHOWN_MAX: usize = 16;

/// A channel of a link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Channel {
    /// The link.
    pub link: LinkId,
    /// Its number on the link, from 0.
    pub number: u32,
}

/// What is known of rings of waiting channels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Waiting {
    /// There is no such ring, so no message waits for ever.
    Never,
    /// One of them, in order.
    Ring(Vec<Channel>),
    /// None was found, but the network has more than [`CYCLE_PAIRS_MAX`] pairs of switches, and not
    /// all routes were followed.
    TooLarge,
}

/// A link on which a message arrives, counted from the first between switches, and its channel.
type Held = Option<(u32, u32)>;

/// What follows what, on the routes of a network.
struct Follower<'a> {
    topology: &'a Topology,
    channels: u32,
    /// Pairs of channels, each as its number among all.
    pairs: Vec<(u32, u32)>,
    steps: Vec<(u32, SwitchId)>,
    /// For each channel the target towards which its messages were followed last.
    seen: Vec<u32>,
    round: u32,
}

impl Topology {
    /// Whether channels may wait for each other in a ring, with so many of them on each link, for
    /// traffic from each host to each other.
    #[must_use]
    pub fn waiting(&self, channels: u32) -> Waiting {
        let mut follower = Follower {
            topology: self,
            channels: channels.max(1),
            pairs: Vec::new(),
            steps: Vec::new(),
            seen: vec![0; (self.switch_link_count() * channels.max(1)) as usize],
            round: 0,
        };
        let has_followed_all = follower.follow_all();
        let Follower {
            channels, pairs, ..
        } = follower;
        let Some(cycle) = find_cycle(&pairs) else {
            return match has_followed_all {
                true => Waiting::Never,
                false => Waiting::TooLarge,
            };
        };
        let first = 2 * self.host_count();
        let channel = |number: u32| Channel {
            link: LinkId(first + number / channels),
            number: number % channels,
        };
        Waiting::Ring(cycle.into_iter().map(channel).collect())
    }
}

impl Follower<'_> {
    /// Whether that was all.
    fn follow_all(&mut self) -> bool {
        let topology = self.topology;
        let mut sources: Vec<SwitchId> = (0..topology.host_count())
            .map(|host| topology.host_switch(HostId(host)))
            .collect();
        sources.dedup();
        sources.sort_unstable();
        sources.dedup();
        // Where the rule takes one way to each host, those of a switch differ; else they do not.
        let is_by_switch = topology.equal_paths() != EqualPaths::Single
            || matches!(topology.kind, Kind::Grid(_) | Kind::HyperX(_));
        let mut last = None;
        let mut targets: Vec<HostId> = (0..topology.host_count()).map(HostId).collect();
        targets.retain(|&target| {
            let switch = topology.host_switch(target);
            !is_by_switch || last.replace(switch) != Some(switch)
        });
        let pairs = targets.len() as u64 * sources.len() as u64;
        let stride = pairs.div_ceil(CYCLE_PAIRS_MAX).max(1);
        let sources: Vec<(SwitchId, Held)> = sources.iter().map(|&at| (at, None)).collect();
        let mut arrivals = Vec::new();
        let leg = topology.leg(self.channels, false);
        for &target in targets.iter().step_by(stride as usize) {
            self.follow(target, &sources, &leg, &mut arrivals);
        }
        if topology.has_detours() {
            // From where they went by chance messages go on to every target.
            let sources = core::mem::take(&mut arrivals);
            let leg = topology.leg(self.channels, true);
            for &target in targets.iter().step_by(stride as usize) {
                self.follow(target, &sources, &leg, &mut arrivals);
                arrivals.clear();
            }
        }
        self.pairs.sort_unstable();
        self.pairs.dedup();
        stride == 1
    }

    /// The routes to one host, from switches where messages arrive by these channels. What they
    /// arrive by at last is added to `arrivals`.
    fn follow(
        &mut self,
        target: HostId,
        sources: &[(SwitchId, Held)],
        leg: &Range<u32>,
        arrivals: &mut Vec<(SwitchId, Held)>,
    ) {
        let topology = self.topology;
        let goal = topology.host_switch(target);
        self.round += 1;
        let mut open = sources.to_vec();
        while let Some((at, held)) = open.pop() {
            if let Some((link, number)) = held {
                let place = (link * self.channels + number) as usize;
                if core::mem::replace(&mut self.seen[place], self.round) == self.round {
                    continue;
                }
            }
            if at == goal {
                arrivals.push((at, held));
                continue;
            }
            let mut steps = core::mem::take(&mut self.steps);
            steps.clear();
            topology.steps(at, target, &mut steps);
            for &(link, to) in &steps {
                let number = topology.next_channel(held, link, leg);
                if let Some((before, its)) = held {
                    let all = self.channels;
                    self.pairs.push((before * all + its, link * all + number));
                }
                open.push((to, Some((link, number))));
            }
            self.steps = steps;
        }
        if self.pairs.len() > 1 << 22 {
            self.pairs.sort_unstable();
            self.pairs.dedup();
        }
    }
}

impl Topology {
    /// The channels that a message takes on the links of its way, of so many on each: those of
    /// [`Topology::waiting`], and the first on links of hosts. They are added to `numbers`. A
    /// detour leads to where the link at place `turn` begins.
    pub fn channels_along(
        &self,
        way: &[u32],
        turn: Option<usize>,
        channels: u32,
        numbers: &mut Vec<u32>,
    ) {
        let first = 2 * self.host_count();
        let legs = [false, true].map(|is_second| self.leg(channels.max(1), is_second));
        let mut held = None;
        for (place, link) in way.iter().enumerate() {
            let leg = &legs[usize::from(turn.is_some_and(|turn| place >= turn))];
            let between = link.checked_sub(first);
            let number = between.map_or(0, |link| self.next_channel(held, link, leg));
            held = between.map(|link| (link, number));
            numbers.push(number);
        }
    }

    /// The channels, of so many, of messages on their first way, or on the way from where a detour
    /// has led them.
    fn leg(&self, channels: u32, is_second: bool) -> Range<u32> {
        match (self.has_detours(), is_second) {
            (false, _) => 0..channels,
            (true, false) => 0..(channels / 2).max(1),
            (true, true) => channels / 2..channels,
        }
    }

    /// Channels that wait for each other, the first ones of many: `s0 -> s1 (channel 0), ...`.
    #[must_use]
    pub fn channel_names(&self, channels: &[Channel]) -> String {
        let name = |it: &Channel| format!("{} (channel {})", self.link_name(it.link), it.number);
        let mut names: Vec<String> = channels.iter().take(CHANNELS_SHOWN_MAX).map(name).collect();
        if channels.len() > CHANNELS_SHOWN_MAX {
            names.push(format!("{} more", channels.len() - CHANNELS_SHOWN_MAX));
        }
        names.join(", ")
    }

    /// The channel of the next link, counted from the first between switches, of those for a leg.
    fn next_channel(&self, held: Held, link: u32, leg: &Range<u32>) -> u32 {
        let held = held.filter(|(_, number)| leg.contains(number));
        let Some((before, number)) = held else {
            return leg.start;
        };
        let next = match &self.kind {
            // The first channel until the end of a ring is passed, anew in each dimension.
            Kind::Grid(grid) if self.equal_paths() == EqualPaths::Single => {
                match grid.are_of_one_ring(before, link) {
                    true => number + u32::from(grid.passes_end(before)),
                    false => leg.start,
                }
            }
            Kind::Dragonfly(network) => number + u32::from(network.is_between_groups(before)),
            _ => number + 1,
        };
        next.min(leg.end - 1)
    }
}

/// A cycle in a graph of sorted edges, if there is one; short, though not always the shortest.
pub(crate) fn find_cycle(edges: &[(u32, u32)]) -> Option<Vec<u32>> {
    let vertices = edges
        .iter()
        .map(|&(from, to)| from.max(to) as usize + 1)
        .max()?;
    let first = |vertex: u32| edges.partition_point(|&(from, _)| from < vertex);
    let next = |vertex: u32| {
        edges[first(vertex)..]
            .iter()
            .take_while(move |e| e.0 == vertex)
    };
    // Take away vertices without a predecessor, again and again: what is left lies on a cycle or
    // behind one.
    let mut predecessors = vec![0u32; vertices];
    for &(_, to) in edges {
        predecessors[to as usize] += 1;
    }
    let mut queue: VecDeque<u32> = (0..vertices as u32)
        .filter(|&vertex| predecessors[vertex as usize] == 0)
        .collect();
    let mut left = vertices;
    while let Some(vertex) = queue.pop_front() {
        left -= 1;
        for &(_, to) in next(vertex) {
            predecessors[to as usize] -= 1;
            if predecessors[to as usize] == 0 {
                queue.push_back(to);
            }
        }
    }
    if left == 0 {
        return None;
    }
    // Backwards from any vertex that is left there is always another one, so some comes again.
    let mut before = vec![u32::MAX; vertices];
    for &(from, to) in edges {
        if predecessors[from as usize] > 0 {
            before[to as usize] = before[to as usize].min(from);
        }
    }
    let mut at = (0..vertices as u32).find(|&vertex| predecessors[vertex as usize] > 0)?;
    let mut met = vec![false; vertices];
    while !met[at as usize] {
        met[at as usize] = true;
        at = before[at as usize];
    }
    // That one is on a cycle: breadth first gives the shortest through it.
    let start = at;
    let mut came_from = vec![u32::MAX; vertices];
    let mut queue = VecDeque::from([start]);
    while let Some(vertex) = queue.pop_front() {
        for &(_, to) in next(vertex) {
            if to == start {
                let mut cycle = vec![vertex];
                let mut at = vertex;
                while at != start {
                    at = came_from[at as usize];
                    cycle.push(at);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if came_from[to as usize] == u32::MAX {
                came_from[to as usize] = vertex;
                queue.push_back(to);
            }
        }
    }
    None
}
