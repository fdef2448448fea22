//! Where links are on a map: a grid as a grid, a tree by its levels, another graph round a circle.
//!
//! A map has at most some thousand elements: of larger networks each place stands for many links
//! and shows the busiest.

mod grid;
mod levels;

use viaduct_plot::{HeatCell, HeatLabel, HeatMap, HeatStroke};
use viaduct_topology::{HostId, LinkId, Node, SwitchId, Topology};

use super::links::Loads;
use crate::figure::percent;

/// A network with its links' loads.
pub(crate) struct Drawing {
    pub(crate) map: HeatMap,
    /// How to read it.
    pub(crate) caption: String,
    /// What each element stands for, and its value.
    pub(crate) elements: Vec<(String, f64)>,
}

/// Lays out a network.
pub(crate) fn draw_network(topology: &Topology, loads: &Loads) -> Drawing {
    match topology.dimensions() {
        Some(sizes) if topology.switch_count() > 1 => grid::draw(topology, sizes, loads),
        _ => levels::draw(topology, loads),
    }
}

impl Drawing {
    fn new(loads: &Loads) -> Self {
        Self {
            map: HeatMap {
                title: String::new(),
                size: (1.0, 1.0),
                strokes: Vec::new(),
                stroke_width: 0.0,
                cells: Vec::new(),
                cell_size: (0.0, 0.0),
                labels: Vec::new(),
                scale: "utilisation, %".to_owned(),
                most: loads.most,
                write: |fraction| {
                    let text = format!("{:.2}", fraction * 100.0);
                    text.trim_end_matches('0').trim_end_matches('.').to_owned()
                },
            },
            caption: String::new(),
            elements: Vec::new(),
        }
    }

    fn stroke(&mut self, ends: [(f64, f64); 2], what: String, value: f64) {
        self.map.strokes.push(HeatStroke {
            ends,
            value: Some(value),
            note: note(&what, value),
        });
        self.element(what, value);
    }

    /// A square with its middle there; `value` is none where there is nothing to be busy.
    fn square(&mut self, (x, y): (f64, f64), what: String, value: Option<f64>) {
        let (width, height) = self.map.cell_size;
        let shown = match value {
            Some(value) => note(&what, value),
            None => what.clone(),
        };
        self.map.cells.push(HeatCell {
            at: (x - width / 2.0, y - height / 2.0),
            value,
            note: shown,
        });
        if let Some(value) = value {
            self.element(what, value);
        }
    }

    fn label(&mut self, at: (f64, f64), words: impl Into<String>, is_centred: bool) {
        self.map.labels.push(HeatLabel {
            at,
            words: words.into(),
            is_centred,
        });
    }

    /// The two halves of a link that leaves a picture on one side and comes back on the other are
    /// one element.
    fn element(&mut self, what: String, value: f64) {
        if self.elements.last().is_none_or(|last| last.0 != what) {
            self.elements.push((what, value));
        }
    }
}

fn note(what: &str, value: f64) -> String {
    format!("{what}: {} %", percent(value))
}

/// The busiest of some links.
#[derive(Clone, Copy, Debug, Default)]
struct Busiest(Option<(f64, LinkId)>);

impl Busiest {
    fn offer(&mut self, link: LinkId, loads: &Loads) {
        let load = loads.of(link);
        if self.0.is_none_or(|(most, _)| load > most) {
            self.0 = Some((load, link));
        }
    }

    fn value(self) -> Option<f64> {
        self.0.map(|(load, _)| load)
    }

    /// Its name after those of the place.
    fn what(self, topology: &Topology, place: &str) -> String {
        match self.0 {
            Some((_, link)) => format!("{place}, busiest {}", topology.link_name(link)),
            None => place.to_owned(),
        }
    }
}

/// Of each switch the busiest link from and to its hosts.
fn busiest_of_hosts(topology: &Topology, loads: &Loads) -> Vec<Busiest> {
    let mut busiest = vec![Busiest::default(); topology.switch_count() as usize];
    for host in (0..topology.host_count()).map(HostId) {
        let SwitchId(switch) = topology.host_switch(host);
        let place = &mut busiest[switch as usize];
        place.offer(topology.host_up(host), loads);
        place.offer(topology.host_down(host), loads);
    }
    busiest
}

/// The links between switches, with their ends.
fn switch_links(topology: &Topology) -> impl Iterator<Item = (LinkId, u32, u32)> + '_ {
    let first = topology.link_count() - topology.switch_link_count();
    let links = (first..topology.link_count()).map(LinkId);
    links.filter_map(|link| match topology.link_ends(link) {
        (Node::Switch(from), Node::Switch(to)) => Some((link, from.0, to.0)),
        _ => None,
    })
}

fn switch_name(topology: &Topology, switch: usize) -> String {
    topology.node_name(Node::Switch(SwitchId(switch as u32)))
}

#[cfg(test)]
mod tests;
