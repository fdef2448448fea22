//! The page of one study.

use std::collections::BTreeSet;

use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::Arrivals;
use viaduct_plot::Format;

use super::{Block, Column, Figure, Page, Section, Table, alerts, commands};
use crate::figure::{count, percent, quantity};
use crate::pictures::{
    BARS_MAX, Chart, LINES_MAX, LinkMap, QueueMap, TimeQuantity, busiest, curves, distribution,
    leaves_ranks_out, link_map, most_waited_for, over_time, queue_map, rank_times,
    ranks_waited_for, stages, tail,
};
use crate::record::{CellRecord, Look};
use crate::screen::{CellsTable, cells_table, headline_rows};
use crate::shown::{NamedCell, NamedRun, ShownCell, ShownStudy, chosen, named_cells, named_runs};

/// Rows of a table of cells.
const CELLS_MAX: usize = 500;
/// Cells of a sweep with pictures of their own.
const CELLS_IN_DETAIL_MAX: usize = 4;
/// Links with a row of their own.
const LINKS_MAX: usize = 8;
/// Ranks with a row of their own.
const RANKS_MAX: usize = 8;

pub(super) fn page(study: &ShownStudy<'_>) -> Page {
    let studies = std::slice::from_ref(study);
    let cells = named_cells(studies);
    let runs = named_runs(&cells);
    let title = if study.title.is_empty() {
        &study.name
    } else {
        &study.title
    };
    let lead = [&study.question, &study.headline]
        .into_iter()
        .filter(|line| !line.is_empty());
    let mut lead: Vec<String> = lead.cloned().collect();
    if !study.source.is_empty() {
        lead.push(format!("Source: {}", study.source));
    }
    let levels: BTreeSet<&str> = runs
        .iter()
        .map(|named| named.run.summary.level.as_str())
        .collect();
    let levels = levels.into_iter().collect::<Vec<_>>().join(", ");
    let mut sections = vec![
        Section::new("warnings", "Warnings", alerts(studies, &runs)),
        Section::new("results", "Results", results(study, &cells)),
    ];
    let records: Vec<CellRecord<'_>> = cells.iter().map(|named| named.cell.record()).collect();
    if let [only] = cells.as_slice() {
        sections.extend(cell_sections(only));
    } else {
        sections.extend([
            Section::new(
                "curves",
                "Curves",
                curve_figures(&records, &study.name, Look::Run),
            ),
            Section::new("latency", "Latency", latency(&runs)),
            Section::new("stages", "Where the time goes", stage_blocks(&cells)),
            Section::new("cells", "Points in detail", details(&cells)),
        ]);
    }
    sections.extend([
        Section::new(
            "settings",
            "Settings that differ from the defaults",
            settings(study),
        ),
        Section::new("again", "Run it again", commands(studies)),
    ]);
    Page {
        title: title.clone(),
        lead,
        sections: sections.into_iter().flatten().collect(),
        foot: format!(
            "{}, viaduct {}, links.model {}, digest {}. The numbers behind these pictures are in summary.json and \
             the Parquet tables beside this file.",
            study.name, study.version, levels, study.digest
        ),
    }
}

/// What is shown of one cell beside its table.
fn cell_sections(cell: &NamedCell<'_>) -> Vec<Option<Section>> {
    // It stands alone: its name is above.
    let cell = &NamedCell {
        name: String::new(),
        cell: cell.cell,
    };
    let cells = std::slice::from_ref(cell);
    let runs = named_runs(cells);
    vec![
        Section::new("ranks", "Where the time of the ranks goes", ranks(&runs)),
        Section::new("latency", "Latency", latency(&runs)),
        Section::new("stages", "Where the time goes", stage_blocks(cells)),
        Section::new("links", "Links", links(&runs)),
        Section::new("queues", "Queues", queues(&runs)),
        Section::new("time", "Over time", time(&runs)),
        Section::new("bounds", "Bounds", bounds(cell.cell)),
    ]
}

fn results(study: &ShownStudy<'_>, cells: &[NamedCell<'_>]) -> Vec<Block> {
    let mut blocks = match cells {
        [only] => vec![Block::Table(headline(only.cell))],
        _ => cell_rows(cells),
    };
    let mut sources: Vec<&str> = Vec::new();
    for source in study.cells.iter().flat_map(|cell| &cell.published.sources) {
        if !source.is_empty() && !sources.contains(&source.as_str()) {
            sources.push(source);
        }
    }
    for source in sources {
        blocks.push(Block::text(format!("Published: {source}")));
    }
    blocks
}

/// The quantities of one cell; published figures and what differs only where there are some.
fn headline(cell: &ShownCell<'_>) -> Table {
    let rows = headline_rows(&cell.record());
    let ours = match cell.runs.len() {
        1 => "this run (95 % CI)".to_owned(),
        seeds => format!("{seeds} seeds (95 % CI)"),
    };
    let is_published = rows.iter().any(|row| !row.published.is_empty());
    let mut table = Table::new([("quantity", false), (&ours, true)]);
    let more = if is_published {
        &["published", "difference"][..]
    } else {
        &[""][..]
    };
    let more = more.iter().map(|title| Column::new(*title, true));
    table.columns.extend(more);
    for row in rows {
        let published = is_published.then_some(row.published);
        let cells = [row.quantity, row.ours].into_iter().chain(published);
        table.rows.push(cells.chain([row.difference]).collect());
    }
    table
}

/// One row per cell.
fn cell_rows(cells: &[NamedCell<'_>]) -> Vec<Block> {
    let shown = chosen(cells, CELLS_MAX);
    let records: Vec<CellRecord<'_>> = shown.iter().map(|named| named.cell.record()).collect();
    let table = table_of(cells_table(&records, Look::Run));
    let mut blocks = vec![Block::Table(table)];
    if shown.len() < cells.len() {
        blocks.push(Block::text(format!(
            "{} of {} points, evenly chosen; all are in summary.json.",
            shown.len(),
            cells.len()
        )));
    }
    blocks
}

pub(super) fn table_of(CellsTable { columns, rows }: CellsTable) -> Table {
    let columns = columns.into_iter();
    Table {
        columns: columns
            .map(|(title, is_number)| Column::new(title, is_number))
            .collect(),
        rows,
    }
}

pub(super) fn curve_figures(cells: &[CellRecord<'_>], study: &str, look: Look) -> Vec<Block> {
    let drawn = curves(cells, study, look).into_iter().map(|curve| {
        let mut chart = curve.chart;
        chart.title = String::new();
        let element = chart
            .draw(&curve.marks, Format::SCREEN)
            .to_element(curve.title);
        Block::figure(curve.title, element, curve.caption)
    });
    figures(drawn.collect())
}

/// Nothing where there is no figure.
pub(super) fn figures(figures: Vec<Figure>) -> Vec<Block> {
    match figures.is_empty() {
        true => Vec::new(),
        false => vec![Block::Figures {
            figures,
            beside: None,
        }],
    }
}

/// Of the first run: each rank's time, and who was waited for.
fn ranks(runs: &[NamedRun<'_>]) -> Vec<Block> {
    let Some(first) = runs.first().filter(|first| !first.run.ranks.is_empty()) else {
        return Vec::new();
    };
    let left_out = match leaves_ranks_out(first) {
        true => " Of neighbours those with most and least are drawn.",
        false => "",
    };
    let charts = [
        (
            "Each rank",
            rank_times(first),
            format!("Up to the end of its last operation.{left_out}"),
        ),
        (
            "Who is waited for",
            ranks_waited_for(first),
            format!(
                "How long all ranks together did nothing but wait for this one's messages, or for it \
                 to take theirs. It may have waited itself: viaduct why --critical-path goes back to \
                 where that began.{left_out}"
            ),
        ),
    ];
    let drawn = charts.into_iter().filter(|(_, chart, _)| !chart.is_empty());
    let drawn = drawn.map(|(title, chart, caption)| figure(title, chart, caption));
    let mut blocks = figures(drawn.collect());
    let mut table = Table::new([
        ("rank", true),
        ("host", false),
        ("others wait for it, us", true),
        ("computes, us", true),
        ("handles messages, us", true),
        ("waits, us", true),
        ("most of it for", true),
    ]);
    table.columns[1].is_name = true;
    table.rows = most_waited_for(first, RANKS_MAX);
    blocks.push(Block::Table(table));
    if first.run.ranks.len() > RANKS_MAX {
        blocks.push(Block::text(format!(
            "Those of {} ranks that others waited for longest; all are in ranks.parquet.",
            count(first.run.ranks.len() as u64)
        )));
    }
    if runs.len() > 1 {
        blocks.push(Block::text(format!(
            "This is the run with seed {}.",
            first.run.summary.seed
        )));
    }
    blocks
}

pub(super) fn latency(runs: &[NamedRun<'_>]) -> Vec<Block> {
    let shown = chosen(runs, LINES_MAX);
    let what = match runs
        .first()
        .map(|named| &named.cell.config.traffic.arrivals)
    {
        Some(Arrivals::PingPong) => "Half of each round trip.",
        _ => "From the post of a message to its receiver's completion.",
    };
    let chosen_of = match shown.len() < runs.len() {
        true => format!(" {} of {} runs, evenly chosen.", shown.len(), runs.len()),
        false => String::new(),
    };
    let charts = [
        (
            "Share of messages over latency",
            distribution(&shown, ""),
            format!("{what}{chosen_of}"),
        ),
        ("The slowest messages", tail(&shown, ""), String::new()),
    ];
    let drawn = charts.into_iter().filter(|(_, chart, _)| !chart.is_empty());
    let drawn = drawn.map(|(title, chart, caption)| figure(title, chart, caption));
    figures(drawn.collect())
}

fn figure(title: &str, mut chart: Chart, caption: String) -> Figure {
    chart.chart.title = title.to_owned();
    Block::figure(title, chart.element(), caption)
}

pub(super) fn stage_blocks(cells: &[NamedCell<'_>]) -> Vec<Block> {
    let shown = chosen(cells, BARS_MAX);
    let Some((mut chart, _)) = stages(&shown, "") else {
        return Vec::new();
    };
    chart.title = String::new();
    let svg = chart
        .draw(Format::SCREEN)
        .to_element("Where the mean latency goes");
    let mut caption = "Mean time of a message in each stage, in the order in which it meets them; \
                       they add up to the mean latency."
        .to_owned();
    if shown.len() < cells.len() {
        caption += &format!(" {} of {} points, evenly chosen.", shown.len(), cells.len());
    }
    let mut figure = Block::figure("", svg, caption);
    let wide = chart.draw(Format::WIDE);
    figure.wide_svg = Some(wide.to_element("Where the mean latency goes"));
    figures(vec![figure])
}

fn links(runs: &[NamedRun<'_>]) -> Vec<Block> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let Some(figure) = map_figure(first, None) else {
        return Vec::new();
    };
    let has_frames = first.run.summary.frames.is_some();
    let most = match has_frames {
        true => "most frames at once",
        false => "most messages at once",
    };
    let mut table = Table::new([
        ("busiest links", false),
        ("class", false),
        ("% busy", true),
        (most, true),
    ]);
    if has_frames {
        let of_queue = ["most bytes", "lost", "trimmed", "marked", "pauses"];
        let of_queue = of_queue.map(|title| Column::new(title, true));
        table.columns.extend(of_queue);
    }
    table.columns[0].is_name = true;
    table.rows = busiest(first, LINKS_MAX);
    let beside = (!table.rows.is_empty()).then_some(table);
    let mut blocks = vec![Block::Figures {
        figures: vec![figure],
        beside,
    }];
    if runs.len() > 1 {
        blocks.push(Block::text(format!(
            "This is the run with seed {}.",
            first.run.summary.seed
        )));
    }
    blocks
}

/// A map with a scale of its own, or that ends at `most`.
pub(super) fn map_figure(named: &NamedRun<'_>, most: Option<f64>) -> Option<Figure> {
    let LinkMap {
        mut map, caption, ..
    } = link_map(named, "")?;
    map.title = String::new();
    map.most = most.unwrap_or(map.most);
    let svg = map.draw(Format::SCREEN).to_element("How busy each link is");
    Some(Block::figure("", svg, caption))
}

/// Of the first run: what its deepest queues held over time.
fn queues(runs: &[NamedRun<'_>]) -> Vec<Block> {
    let Some(QueueMap {
        mut map, caption, ..
    }) = runs.first().and_then(|first| queue_map(first, ""))
    else {
        return Vec::new();
    };
    map.title = String::new();
    let drawn = |format| map.draw(format).to_element("What queues of links held");
    let mut figure = Block::figure("", drawn(Format::SCREEN), caption);
    figure.wide_svg = Some(drawn(Format::WIDE));
    figures(vec![figure])
}

pub(super) fn time(runs: &[NamedRun<'_>]) -> Vec<Block> {
    let shown = chosen(runs, LINES_MAX);
    let mut quantities = vec![
        ("Mean latency of delivered messages", TimeQuantity::Latency),
        ("Messages under way", TimeQuantity::InFlight),
    ];
    let mut rows = shown.iter().flat_map(|named| named.run.series);
    if rows.any(|row| row.link_utilisation_mean > 0.0) {
        quantities.push(("Links between switches", TimeQuantity::Links));
    }
    if shown
        .iter()
        .any(|named| named.run.summary.messages.dropped > 0)
    {
        quantities.push(("Messages dropped", TimeQuantity::Dropped));
    }
    let charts = quantities
        .into_iter()
        .map(|(title, quantity)| (title, over_time(&shown, quantity, "")));
    let drawn = charts.filter(|(_, chart)| !chart.is_empty());
    figures(
        drawn
            .map(|(title, chart)| figure(title, chart, String::new()))
            .collect(),
    )
}

/// What is known without a run, beside what the run had; of several seeds their mean.
fn bounds(cell: &ShownCell<'_>) -> Vec<Block> {
    let view = cell.record();
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), quantity);
    let mut table = Table::new([
        ("quantity", false),
        ("by arithmetic", true),
        ("this run", true),
    ]);
    let mut row = |name: String, by_arithmetic: String, achieved: String| {
        table.rows.push(vec![name, by_arithmetic, achieved]);
    };
    let floor = view.latency(|latency| latency.floor);
    if floor.is_some() {
        let fastest = view.latency(|latency| latency.min);
        row(
            "fastest message, us: no less than".to_owned(),
            shown(floor),
            shown(fastest),
        );
    }
    let mut texts = Vec::new();
    // What is wrong with a pattern the run has said already.
    if let Ok(Some(bounds)) = load_bounds(cell.config) {
        for class in &bounds.classes {
            let word = crate::summary::class_word(class.class);
            let achieved = view.link(word);
            let of = |part: fn((f64, f64)) -> f64| {
                achieved.map_or_else(|| "-".to_owned(), |pair| percent(part(pair)))
            };
            let name = word.replace('_', " ");
            row(
                format!("{name} links, % busy"),
                percent(class.load.mean),
                of(|pair| pair.0),
            );
            row(
                format!("busiest {name} link, %"),
                percent(class.load.max),
                of(|pair| pair.1),
            );
        }
        if bounds.bus.mean > 0.0 {
            let mean = view.mean(|run| Some(run.buses.utilisation_mean));
            let max = view.mean(|run| Some(run.buses.utilisation_max));
            let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
            row(
                "buses, % busy".to_owned(),
                percent(bounds.bus.mean),
                or_none(mean),
            );
            row(
                "busiest bus, %".to_owned(),
                percent(bounds.bus.max),
                or_none(max),
            );
        }
        if let (Some(saturation), Arrivals::Open(interval)) =
            (&bounds.saturation, &cell.config.traffic.arrivals)
        {
            let offered = 1e12 / interval.mean_picoseconds();
            let verb = saturation.verb();
            let name = format!("messages/s that a process offers: {verb}");
            row(name, quantity(saturation.rate_per_s), quantity(offered));
            let (place, rule) = (&saturation.place, saturation.sharing.name());
            texts.push(format!(
                "What saturates first: {place}, by the rule {rule}."
            ));
        }
        if let Some(list) = &bounds.list {
            texts.push(format!(
                "The list takes {} at least: so long {} is busy with it.",
                list.work, list.place
            ));
            if let Some(fullest) = &list.fullest {
                texts.push(format!(
                    "It is posted within {}, in which {} is given {} % of what it can do.",
                    list.span,
                    fullest.place,
                    percent(fullest.load)
                ));
            }
        }
        if bounds.is_sampled {
            texts.push("The bounds of links are from a sample of routes.".to_owned());
        }
        let loads = match bounds.list {
            None => {
                "Loads by arithmetic are means over random draws, so that one run's busiest link \
                 is above them. They are of the time in which messages are posted: a run that \
                 waits for the last of them has links fall idle at its end."
            }
            Some(_) => "Loads by arithmetic are of the time from the warm-up to the end.",
        };
        texts.push(loads.to_owned());
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let texts = texts.into_iter().map(Block::text);
    std::iter::once(Block::Table(table)).chain(texts).collect()
}

/// Some cells of a sweep with pictures of their own.
fn details(cells: &[NamedCell<'_>]) -> Vec<Block> {
    let shown = chosen(cells, CELLS_IN_DETAIL_MAX);
    let mut blocks: Vec<Block> = shown
        .iter()
        .map(|named| {
            let sections = cell_sections(named).into_iter().flatten();
            let note = named.cell.record().note(Look::Run);
            let title = match note.as_str() {
                "" => named.name.clone(),
                note => format!("{} ({note})", named.name),
            };
            let headline = Block::Table(headline(named.cell));
            let rest = sections.flat_map(titled);
            Block::Details {
                title,
                blocks: std::iter::once(headline).chain(rest).collect(),
            }
        })
        .collect();
    if shown.len() < cells.len() {
        blocks.push(Block::text(format!(
            "{} of {} points, evenly chosen. `viaduct plot` draws any of them.",
            shown.len(),
            cells.len()
        )));
    }
    blocks
}

/// A section's blocks where its title does not stand above them.
fn titled(section: Section) -> Vec<Block> {
    let mut blocks = section.blocks;
    if let Some(Block::Figures { figures, .. }) = blocks.first_mut()
        && let Some(first) = figures.first_mut()
        && first.title.is_empty()
    {
        section.title.clone_into(&mut first.title);
    }
    blocks
}

fn settings(study: &ShownStudy<'_>) -> Vec<Block> {
    if study.differences.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new([
        ("key", false),
        ("value", false),
        ("default", false),
        ("meaning", false),
    ]);
    table.columns[0] = Column::key();
    table.rows = study
        .differences
        .iter()
        .map(|difference| {
            let default = difference.default.clone();
            vec![
                difference.key.clone(),
                difference.value.clone(),
                default.unwrap_or_else(|| "must be given".to_owned()),
                difference.meaning.to_owned(),
            ]
        })
        .collect();
    vec![Block::Table(table)]
}
