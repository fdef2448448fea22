//! Routes that go up and then down, in any graph: no message that has gone down goes up again, so
//! that links never wait for each other in a ring (Schroeder and others, Autonet, 1991).
//!
//! Up is towards the switches that are farthest from the hosts; where all have hosts, towards the
//! one with most links. Of two that are as far the one with the lower number is above.

use std::collections::VecDeque;

use crate::graph::Graph;
use crate::{HostId, SwitchId};

/// An order of the switches: what is above comes first.
#[derive(Debug)]
pub(crate) struct Order {
    /// Of each switch its place.
    places: Vec<u32>,
    /// The switches by place.
    switches: Vec<u32>,
}

impl Order {
    /// The order that most ways keep short. Not always does it leave a way between all hosts that
    /// are joined.
    pub(crate) fn from_hosts(graph: &Graph) -> Self {
        let hosts = (0..graph.host_count()).map(|host| graph.host_switch(HostId(host)).0);
        let from_hosts = distances(graph, hosts);
        let reached = from_hosts
            .iter()
            .copied()
            .filter(|&distance| distance != u32::MAX);
        let farthest = reached.max().unwrap_or(0);
        match farthest {
            0 => Self::from_one(graph),
            _ => {
                let tops = (0..).zip(&from_hosts);
                let tops = tops.filter_map(|(switch, &it)| (it == farthest).then_some(switch));
                Self::below(graph, tops)
            }
        }
    }

    /// The order below one switch, which leaves a way between all hosts that are joined.
    pub(crate) fn from_one(graph: &Graph) -> Self {
        let links = |switch: &u32| graph.out_links(*switch).len();
        // Of several the first.
        let top = (0..graph.switch_count()).rev().max_by_key(links);
        Self::below(graph, top.into_iter())
    }

    fn below(graph: &Graph, tops: impl Iterator<Item = u32>) -> Self {
        let mut levels = distances(graph, tops);
        // Parts of the network that are not joined to this one have tops of their own.
        while let Some(top) = levels.iter().position(|&level| level == u32::MAX) {
            for (level, other) in levels
                .iter_mut()
                .zip(distances(graph, [top as u32].into_iter()))
            {
                *level = (*level).min(other);
            }
        }
        let mut switches: Vec<u32> = (0..graph.switch_count()).collect();
        switches.sort_by_key(|&switch| levels[switch as usize]);
        let mut places = vec![0; switches.len()];
        for (place, &switch) in (0..).zip(&switches) {
            places[switch as usize] = place;
        }
        Self { places, switches }
    }

    /// Whether a link from one switch to the other leads up.
    pub(crate) fn leads_up(&self, from: u32, to: u32) -> bool {
        self.places[to as usize] < self.places[from as usize]
    }

    /// Completes distances over ways that lead down alone by those that lead up first. Which
    /// switches had one before.
    pub(crate) fn go_up(&self, graph: &Graph, distances: &mut [u32]) -> Vec<bool> {
        let comes_down: Vec<bool> = distances.iter().map(|&it| it != u32::MAX).collect();
        // What is above is known before what is below.
        for &switch in &self.switches {
            if comes_down[switch as usize] {
                continue;
            }
            let links = graph.out_links(switch).iter();
            let above = links.map(|&link| graph.link_ends(link).1.0);
            let above = above.filter(|&to| self.leads_up(switch, to));
            let nearest = above.map(|to| distances[to as usize]).min();
            distances[switch as usize] = nearest.unwrap_or(u32::MAX).saturating_add(1);
        }
        comes_down
    }
}

/// Links from the nearest of some switches to each.
fn distances(graph: &Graph, starts: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut distances = vec![u32::MAX; graph.switch_count() as usize];
    let mut queue = VecDeque::new();
    for start in starts {
        if core::mem::replace(&mut distances[start as usize], 0) != 0 {
            queue.push_back(start);
        }
    }
    while let Some(switch) = queue.pop_front() {
        for &link in graph.out_links(switch) {
            let SwitchId(to) = graph.link_ends(link).1;
            if distances[to as usize] == u32::MAX {
                distances[to as usize] = distances[switch as usize] + 1;
                queue.push_back(to);
            }
        }
    }
    distances
}

/// Gives a graph these routes.
pub(crate) fn apply(graph: &mut Graph) -> Result<(), crate::TopologyError> {
    let routes = graph.shortest_paths(Some(&Order::from_hosts(graph)))?;
    graph.routes = routes;
    if !graph.reaches_all() {
        graph.routes = graph.shortest_paths(Some(&Order::from_one(graph)))?;
    }
    Ok(())
}
