//! How busy each link is.

use viaduct_cluster::result::LinkRow;
use viaduct_plot::HeatMap;
use viaduct_topology::{LinkId, Topology};

use super::csv_line;
use super::network::{Drawing, draw_network};
use crate::figure::percent;
use crate::shown::NamedRun;

/// A map of a run's links.
pub(crate) struct LinkMap {
    pub(crate) map: HeatMap,
    /// How to read it.
    pub(crate) caption: String,
    pub(crate) csv: String,
}

/// Lays out the links of a run as its network is; none where no link has a row.
pub(crate) fn link_map(named: &NamedRun<'_>, study: &str) -> Option<LinkMap> {
    let topology = &*named.cell.config.topology;
    if named.run.links.is_empty() {
        return None;
    }
    let loads = Loads::new(topology, named.run.links);
    let Drawing {
        mut map,
        caption,
        elements,
    } = draw_network(topology, &loads);
    let name = if named.name.is_empty() {
        String::new()
    } else {
        format!(", {}", named.name)
    };
    map.title = format!("{study}{name}: how busy links are");
    let mut csv = csv_line(["place", "utilisation_fraction"]);
    for (place, value) in elements {
        csv += &csv_line([&place, &value.to_string()]);
    }
    Some(LinkMap { map, caption, csv })
}

/// Utilisation by the number of the link.
pub(crate) struct Loads {
    fractions: Vec<f64>,
    /// End of the scale of colours.
    pub(crate) most: f64,
}

impl Loads {
    pub(crate) fn new(topology: &Topology, rows: &[LinkRow]) -> Self {
        let mut fractions = vec![0.0; topology.link_count() as usize];
        for row in rows {
            if let Some(fraction) = fractions.get_mut(row.link as usize) {
                *fraction = row.utilisation;
            }
        }
        let most = fractions.iter().copied().fold(0.0, f64::max);
        Self {
            fractions,
            most: round_end(most),
        }
    }

    pub(crate) fn of(&self, link: LinkId) -> f64 {
        self.fractions
            .get(link.0 as usize)
            .copied()
            .unwrap_or_default()
    }
}

/// A round fraction, no less than the busiest.
fn round_end(most: f64) -> f64 {
    const ENDS: [f64; 14] = [
        0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8,
    ];
    ENDS.into_iter().find(|end| most <= *end).unwrap_or(1.0)
}

/// Of each of the busiest links: its name, class, utilisation in per cent, most messages at once;
/// where frames go one by one also the most bytes in its queue, frames lost, trimmed and
/// marked there, and how often the link was told to pause.
pub(crate) fn busiest(named: &NamedRun<'_>, most: usize) -> Vec<Vec<String>> {
    let topology = &*named.cell.config.topology;
    let mut rows: Vec<&LinkRow> = Vec::new();
    for row in named.run.links {
        let place = rows.partition_point(|other| other.utilisation >= row.utilisation);
        if place < most {
            rows.insert(place, row);
            rows.truncate(most);
        }
    }
    let rows = rows.into_iter().filter(|row| row.utilisation > 0.0);
    let has_frames = named.run.summary.frames.is_some();
    rows.map(|row| {
        let mut cells = vec![
            topology.link_name(LinkId(row.link)),
            crate::summary::class_word(row.class).replace('_', " "),
            percent(row.utilisation),
            at_once(row),
        ];
        if has_frames {
            let counts = [
                row.queue_max_bytes,
                row.frames_lost,
                row.frames_trimmed,
                row.frames_marked,
                row.pauses,
            ];
            cells.extend(counts.map(|count| count.to_string()));
        }
        cells
    })
    .collect()
}

/// Most messages at once on a link that something has crossed: not all interfaces count them.
fn at_once(row: &LinkRow) -> String {
    match row.flows_max {
        0 => "-".to_owned(),
        most => most.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_no_number() {
        let mut row = crate::sample::result().link_rows.swap_remove(0);
        assert_eq!(at_once(&row), "4");
        row.flows_max = 0;
        assert_eq!(at_once(&row), "-");
    }

    #[test]
    fn the_scale_ends_at_a_round_value_above_the_busiest() {
        let ends = [0.0, 0.0004, 0.128, 0.15, 0.62, 0.99, 1.0].map(round_end);
        assert_eq!(ends, [0.001, 0.001, 0.15, 0.15, 0.8, 1.0, 1.0]);
    }
}
