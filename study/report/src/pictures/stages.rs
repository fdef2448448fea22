//! Where the mean latency goes.

use viaduct_plot::{BarChart, Bars};

use super::csv_line;
use crate::figure::quantity;
use crate::record::CellRecord;
use crate::shown::NamedCell;

/// One row per stage that takes time anywhere, in the order in which a message meets them; one set
/// of bars per cell. None where nothing was measured.
pub(crate) fn stages(cells: &[NamedCell<'_>], study: &str) -> Option<(BarChart, String)> {
    let views: Vec<CellRecord<'_>> = cells.iter().map(|named| named.cell.record()).collect();
    let mut names: Vec<&str> = Vec::new();
    for run in views.iter().flat_map(|view| &view.runs) {
        let taken = run.breakdown_us.iter().filter(|(_, mean)| **mean > 0.0);
        for (stage, _) in taken {
            if !names.contains(&stage.as_str()) {
                names.push(stage);
            }
        }
    }
    // Stages that only a later cell has would stand at the end.
    let order: Vec<&str> = views
        .first()?
        .runs
        .first()?
        .breakdown_us
        .iter()
        .map(|(stage, _)| stage.as_str())
        .collect();
    names.sort_by_key(|stage| order.iter().position(|name| name == stage));
    if names.is_empty() {
        return None;
    }
    let mut csv = csv_line(["cell", "stage", "mean_us"]);
    let mut sets = Vec::new();
    for (named, view) in cells.iter().zip(&views) {
        let mean = |stage: &&str| view.mean(|run| run.breakdown_us.get(*stage).copied());
        let amounts: Vec<f64> = names
            .iter()
            .map(|stage| mean(stage).unwrap_or_default())
            .collect();
        let total: f64 = amounts.iter().sum();
        let labels = amounts.iter().map(|amount| {
            let share = if total > 0.0 {
                amount / total * 100.0
            } else {
                0.0
            };
            format!("{}  ({share:.1} %)", quantity(*amount))
        });
        for (stage, amount) in names.iter().zip(&amounts) {
            csv += &csv_line([&named.name, stage, &amount.to_string()]);
        }
        sets.push(Bars {
            name: named.name.clone(),
            labels: labels.collect(),
            amounts,
        });
    }
    let chart = BarChart {
        title: format!("{study}: where the mean latency goes"),
        x: "mean time of a message, us".to_owned(),
        rows: names.iter().map(|stage| stage.replace('_', " ")).collect(),
        sets,
    };
    Some((chart, csv))
}
