//! The page of several studies beside one another.

use std::collections::BTreeSet;

use viaduct_scenario::{Study, tables};

use super::run::{figures, latency, map_figure, stage_blocks, time};
use super::{Block, Column, Page, Section, Table, alerts, commands};
use crate::figure::{count, difference, percent, quantity, scaled_count};
use crate::pictures::link_map;
use crate::record::{CellRecord, Look};
use crate::screen::mean_text;
use crate::shown::{NamedCell, ShownStudy, chosen, named_cells, named_runs};

/// Columns of a table.
const COLUMNS_MAX: usize = 12;
/// Columns beside which there is room for what a key means.
const MEANING_COLUMNS_MAX: usize = 3;
/// Maps of links.
const MAPS_MAX: usize = 4;

pub(super) fn page(studies: &[ShownStudy<'_>]) -> Page {
    let all = named_cells(studies);
    let cells = chosen(&all, COLUMNS_MAX);
    let runs = named_runs(&all);
    let mut lead: Vec<String> = studies
        .iter()
        .map(|study| format!("{}: {}", study.name, study.headline))
        .collect();
    if cells.len() < all.len() {
        lead.push(format!(
            "{} of {} points are shown, evenly chosen.",
            cells.len(),
            all.len()
        ));
    }
    // One seed of each, so that there is a line for each cell.
    let firsts = cells.iter().map(|named| {
        let mut runs = named_runs(std::slice::from_ref(named));
        runs.truncate(1);
        runs
    });
    let firsts: Vec<_> = firsts.flatten().collect();
    let sections = [
        Section::new("warnings", "Warnings", alerts(studies, &runs)),
        Section::new("results", "Results", vec![Block::Table(numbers(&cells))]),
        Section::new("settings", "Settings that differ", differences(&cells)),
        Section::new("latency", "Latency", latency(&firsts)),
        Section::new("stages", "Where the time goes", stage_blocks(&cells)),
        Section::new("links", "Links", maps(&cells)),
        Section::new("time", "Over time", time(&firsts)),
        Section::new("again", "Run it again", commands(studies)),
    ];
    let digests = studies.iter().map(|study| {
        format!(
            "{}: viaduct {}, digest {}",
            study.name, study.version, study.digest
        )
    });
    Page {
        title: format!("{} runs compared", studies.len()),
        lead,
        sections: sections.into_iter().flatten().collect(),
        foot: digests.collect::<Vec<_>>().join("; "),
    }
}

/// One row per quantity, one column per cell; each but the first with its difference from the
/// first.
fn numbers(cells: &[NamedCell<'_>]) -> Table {
    let views: Vec<CellRecord<'_>> = cells.iter().map(|named| named.cell.record()).collect();
    let mut table = Table::new([("quantity", false)]);
    let columns = cells.iter().map(|named| Column::new(&named.name, true));
    table.columns.extend(columns);
    let mut row =
        |name: &str, show: &dyn Fn(f64) -> String, of: &dyn Fn(&CellRecord<'_>) -> Option<f64>| {
            let values: Vec<Option<f64>> = views.iter().map(of).collect();
            if values.iter().all(Option::is_none) {
                return;
            }
            let first = values.first().copied().flatten();
            let texts = values
                .iter()
                .enumerate()
                .map(|(column, value)| match (value, first) {
                    (None, _) => "-".to_owned(),
                    (Some(value), Some(first)) if column > 0 && first != 0.0 => {
                        format!("{} ({})", show(*value), difference(*value, first))
                    }
                    (Some(value), _) => show(*value),
                });
            let name = name.to_owned();
            table
                .rows
                .push(std::iter::once(name).chain(texts).collect());
        };
    row("all operations, us", &quantity, &|view| view.makespan_us());
    row("bus bandwidth, GB/s", &quantity, &|view| {
        view.collective(|it| it.bus_bandwidth_gb_per_s)
    });
    row("mean latency, us", &quantity, &|view| {
        view.mean_us.map(|spread| spread.mean)
    });
    row("standard deviation, us", &quantity, &|view| {
        view.latency(|latency| latency.sd)
    });
    row("p50, us", &quantity, &|view| {
        view.latency(|latency| latency.p50)
    });
    row("p99, us", &quantity, &|view| {
        view.latency(|latency| latency.p99)
    });
    row("p99.9, us", &quantity, &|view| {
        view.latency(|latency| latency.p999)
    });
    row("fastest, us", &quantity, &|view| {
        view.latency(|latency| latency.min)
    });
    row("slowest, us", &quantity, &|view| {
        view.latency(|latency| latency.max)
    });
    for (class, name) in [
        ("mesh", "mesh links"),
        ("tree_up", "links up the tree"),
        ("tree_down", "links down the tree"),
        ("host_up", "links from hosts"),
        ("host_down", "links to hosts"),
    ] {
        let busy = format!("{name}, % busy");
        row(&busy, &percent, &|view| view.link(class).map(|pair| pair.0));
        let busiest = format!("{name}, busiest, %");
        row(&busiest, &percent, &|view| {
            view.link(class).map(|pair| pair.1)
        });
    }
    row("buses, % busy", &percent, &|view| {
        view.mean(|run| Some(run.buses.utilisation_mean))
            .filter(|mean| *mean > 0.0)
    });
    row("messages dropped, %", &percent, &|view| {
        view.dropped_fraction().filter(|fraction| *fraction > 0.0)
    });
    let counted = |value: f64| count(value as u64);
    row("messages measured", &counted, &|view| {
        Some(view.sum(|run| run.latency_us.count) as f64)
    });
    row("events", &scaled_count, &|view| {
        Some(view.sum(|run| run.events) as f64)
    });

    let mut words = |name: &str, of: &dyn Fn(&CellRecord<'_>) -> String| {
        let texts: Vec<String> = views.iter().map(of).collect();
        if texts.iter().any(|text| !text.is_empty()) {
            let name = name.to_owned();
            table
                .rows
                .push(std::iter::once(name).chain(texts).collect());
        }
    };
    words("mean with 95 % CI, us", &|view| mean_text(view.mean_us));
    words("note", &|view| view.note(Look::Run));
    table
}

/// The keys whose values are not the same everywhere.
fn differences(cells: &[NamedCell<'_>]) -> Vec<Block> {
    let studies: Vec<Option<Study>> = cells
        .iter()
        .map(|named| Study::from_resolved(named.cell.scenario_toml).ok())
        .collect();
    let keys = tables().iter().flat_map(|table| {
        let keys = table.keys.iter();
        keys.map(move |key| (format!("{}.{}", table.name, key.name), key.meaning))
    });
    let mut table = Table::default();
    table.columns.push(Column::key());
    let columns = cells.iter().map(|named| Column::new(&named.name, false));
    table.columns.extend(columns);
    let has_meaning = cells.len() <= MEANING_COLUMNS_MAX;
    let meaning = has_meaning.then(|| Column::new("meaning", false));
    table.columns.extend(meaning);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (path, meaning) in keys {
        if path.starts_with("study.") || !seen.insert(path.clone()) {
            continue;
        }
        let values: Vec<Option<String>> = studies
            .iter()
            .map(|study| study.as_ref().and_then(|study| study.value(&path)))
            .collect();
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let values = values
            .into_iter()
            .map(|value| value.unwrap_or_else(|| "-".to_owned()));
        let row = std::iter::once(path).chain(values);
        let meaning = has_meaning.then(|| meaning.to_owned());
        table.rows.push(row.chain(meaning).collect());
    }
    match table.rows.is_empty() {
        true => vec![Block::text(
            "None: the same scenario, with the seeds given in each.",
        )],
        false => vec![Block::Table(table)],
    }
}

/// A map for some cells, with one scale for all.
fn maps(cells: &[NamedCell<'_>]) -> Vec<Block> {
    let shown = chosen(cells, MAPS_MAX);
    let runs: Vec<_> = shown
        .iter()
        .filter_map(|named| named_runs(std::slice::from_ref(named)).into_iter().next())
        .collect();
    let ends = runs
        .iter()
        .filter_map(|named| Some(link_map(named, "")?.map.most));
    let most = ends.fold(0.0, f64::max);
    let drawn = runs.iter().filter_map(|named| {
        let mut figure = map_figure(named, Some(most))?;
        figure.title.clone_from(&named.name);
        Some(figure)
    });
    let mut blocks = figures(drawn.collect());
    if shown.len() < cells.len() {
        blocks.push(Block::text(format!(
            "{} of {}, evenly chosen.",
            shown.len(),
            cells.len()
        )));
    }
    blocks
}
