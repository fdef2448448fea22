//! The links that a message may take next, wherever it is.

use super::{Kind, Topology};
use crate::{EqualPaths, HostId, LinkId, SwitchId};

impl Topology {
    /// How many links a message to `target` may take from a switch, each as good as the others; at
    /// the target's own switch that means nothing.
    #[must_use]
    pub fn next_count(&self, at: SwitchId, target: HostId) -> u32 {
        match (&self.kind, self.kind.generated()) {
            (Kind::Graph(graph), _) => graph.next_links(graph.row_of(target), at.0).count() as u32,
            (_, Some(network)) if self.equal_paths != EqualPaths::Single => {
                network.step_count(at, self.host_switch(target))
            }
            _ => 1,
        }
    }

    /// One of these links, by its number; none only where there is no way.
    #[must_use]
    pub fn next_link(&self, at: SwitchId, target: HostId, number: u32) -> Option<LinkId> {
        let index = match (&self.kind, self.kind.generated()) {
            (Kind::Graph(graph), _) => {
                let mut links = graph.next_links(graph.row_of(target), at.0);
                links.nth(number as usize)?
            }
            (_, network) => {
                let (network, goal) = (network?, self.host_switch(target));
                let number = match self.equal_paths {
                    EqualPaths::Single => {
                        network.fixed_step(at, target, network.step_count(at, goal))
                    }
                    _ => number,
                };
                network.step(at, goal, number).link
            }
        };
        Some(LinkId(2 * self.host_count() + index))
    }

    /// All of them, counted from the first link between switches, and where they lead.
    pub(crate) fn steps(&self, at: SwitchId, target: HostId, steps: &mut Vec<(u32, SwitchId)>) {
        let goal = self.host_switch(target);
        if let Kind::Graph(graph) = &self.kind {
            let row = graph.row_of(target);
            let links = graph.next_links(row, at.0);
            steps.extend(links.map(|link| (link, graph.link_ends(link).1)));
            return;
        }
        let Some(network) = self.kind.generated() else {
            return;
        };
        let count = network.step_count(at, goal);
        let numbers = match self.equal_paths {
            EqualPaths::Single => {
                let number = network.fixed_step(at, target, count);
                number..number + 1
            }
            _ => 0..count,
        };
        let found = numbers.map(|number| network.step(at, goal, number));
        steps.extend(found.map(|step| (step.link, step.to)));
    }
}
