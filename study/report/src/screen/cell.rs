//! The table of one run, or of several seeds of one scenario.

use super::{
    figure_format, indented, is_fraction, mark, mean_text, plain_table, shown, sources, spread,
};
use crate::figure::{count, difference, duration, percent, quantity, scaled_count};
use crate::outcome::{FigureRole, Published};
use crate::record::CellRecord;
use crate::summary::{
    ApplicationSummary, Counts, FrameCounts, InterfaceSummary, LatencySummary, RankSpread, Summary,
};

/// The table of one cell: one row per quantity, published figures beside ours, then where the mean
/// latency goes. Ends with a line feed.
#[must_use]
pub fn cell_table(cell: &CellRecord<'_>) -> String {
    let ours = match cell.runs.len() {
        1 => "this run (95 % CI)".to_owned(),
        seeds => format!("{seeds} seeds (95 % CI)"),
    };
    let rows = cell_rows(cell);
    let published = rows.iter().any(|row| !row.published.is_empty());
    let compared = published || rows.iter().any(|row| !row.difference.is_empty());
    let mut header = vec!["quantity".to_owned(), ours];
    header.extend(published.then(|| "published".to_owned()));
    header.extend(compared.then(|| if published { "difference" } else { "" }.to_owned()));
    let mut table = plain_table(header);
    for row in rows {
        let mut cells = vec![row.quantity, row.ours];
        cells.extend(published.then_some(row.published));
        cells.extend(compared.then_some(row.difference));
        table.add_row(cells);
    }
    indented(&table) + &losses(cell) + &sources([cell.published].into_iter())
}

/// What was dropped in a study that does not ask for it: a table does not say it loudly enough.
fn losses(view: &CellRecord<'_>) -> String {
    if !view.runs.iter().any(|run| run.drops_unasked) {
        return String::new();
    }
    let (dropped, posted) = (
        view.sum(|run| run.messages.dropped),
        view.sum(|run| run.messages.posted),
    );
    format!(
        "\n  LOST: {} of {} messages found no receive descriptor, and all figures are of the \
         others.\n  Nothing in the study asks for that: set `hosts.prepost`.\n",
        count(dropped),
        count(posted)
    )
}

/// A quantity and what is said of it.
pub(crate) struct Row {
    pub(crate) quantity: String,
    pub(crate) ours: String,
    pub(crate) published: String,
    pub(crate) difference: String,
}

impl Row {
    fn new(quantity: impl Into<String>, ours: impl Into<String>) -> Self {
        Self {
            quantity: quantity.into(),
            ours: ours.into(),
            published: String::new(),
            difference: String::new(),
        }
    }

    /// With the published figure at `path`, shown by `show`.
    fn beside(
        mut self,
        published: &Published,
        path: &str,
        ours: Option<f64>,
        show: fn(f64) -> String,
    ) -> Self {
        if let Some(figure) = published.figures.get(path) {
            self.published = show(figure.value) + mark(figure);
            self.difference = match (ours, figure.role) {
                (None, _) | (_, FigureRole::Context) => String::new(),
                (Some(ours), _) => difference(ours, figure.value),
            };
        }
        self
    }
}

/// The quantities of a cell, and then where the mean latency goes.
fn cell_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let mut rows = headline_rows(view);
    rows.extend(stage_rows(view));
    rows
}

/// The quantities of a cell.
pub(crate) fn headline_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let mut rows = application_rows(view);
    rows.extend(latency_rows(view));
    rows.extend(usage_rows(view));
    rows.extend(count_rows(view));
    rows.extend(other_rows(view));
    rows
}

/// How long a graph of operations took, and where the time of its ranks went.
fn application_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let Some(first) = view.runs.iter().find_map(|run| run.application.as_ref()) else {
        return Vec::new();
    };
    let published = view.published;
    let beside = |row: Row, path: &str, ours| row.beside(published, path, Some(ours), quantity);
    let makespan = view.makespan_us();
    let over_seeds = view.spread(Summary::makespan_us);
    let text = over_seeds.map_or_else(|| shown(makespan), spread);
    let row = Row::new("all operations, us", text);
    let mut rows = vec![row.beside(published, "application.makespan_us", makespan, quantity)];
    for (place, job) in first.jobs.iter().enumerate() {
        let of_job = |it: &ApplicationSummary| it.jobs.get(place).map(|job| job.makespan_us);
        let mean = view.spread(|run| of_job(run.application.as_ref()?));
        let text = mean.map_or_else(|| quantity(job.makespan_us), spread);
        let (rank, ranks) = (job.first_rank, count(job.ranks));
        rows.push(Row::new(
            format!("job of rank {rank}, {ranks} ranks, us"),
            text,
        ));
    }
    for (name, path, ours) in [
        (
            "bytes / time, GB/s",
            "application.collective.bytes_over_time_gb_per_s",
            view.collective(|it| it.bytes_over_time_gb_per_s),
        ),
        (
            "bus bandwidth (as NCCL's tests count it), GB/s",
            "application.collective.bus_bandwidth_gb_per_s",
            view.collective(|it| it.bus_bandwidth_gb_per_s),
        ),
    ] {
        let row = ours.map(|ours| beside(Row::new(name, quantity(ours)), path, ours));
        rows.extend(row);
    }
    type OfRanks = fn(&ApplicationSummary) -> RankSpread;
    let spreads: [(&str, OfRanks); 4] = [
        ("a rank computes, us", |it| it.computing_us),
        ("a rank handles messages, us", |it| it.messaging_us),
        ("a rank waits, us", |it| it.waiting_us),
        ("others wait for a rank, us", |it| it.waited_for_us),
    ];
    for (name, of_ranks) in spreads {
        let mean = view.application(|it| of_ranks(it).mean);
        let max = view.application(|it| of_ranks(it).max);
        if let (Some(mean), Some(max)) = (mean, max.filter(|max| *max > 0.0)) {
            let rank = match view.runs.as_slice() {
                [run] => run.application.as_ref().map(|it| of_ranks(it).max_rank),
                _ => None,
            };
            let rank = rank.map_or(String::new(), |rank| format!(", rank {rank}"));
            let text = format!("{} (most {}{rank})", quantity(mean), quantity(max));
            rows.push(Row::new(name, text));
        }
    }
    rows
}

fn latency_rows(view: &CellRecord<'_>) -> Vec<Row> {
    // Of ranks over endpoints no message is timed.
    let is_timed = |run: &&Summary| run.interfaces.is_none() || run.latency_us.count > 0;
    if !view.runs.iter().any(is_timed) {
        return Vec::new();
    }
    let published = view.published;
    let mean = view.mean_us.map(|spread| spread.mean);
    let sd = view.latency(|latency| latency.sd);
    type Quantile = (&'static str, fn(&LatencySummary) -> Option<f64>);
    let quantiles: [Quantile; 3] = [
        ("latency_us.p50", |latency| latency.p50),
        ("latency_us.p99", |latency| latency.p99),
        ("latency_us.p999", |latency| latency.p999),
    ];
    let ours = quantiles.map(|(_, of)| view.latency(of));
    let figures = quantiles.map(|(path, _)| published.value(path));
    let mut quantile_row = Row::new("p50 / p99 / p99.9, us", ours.map(shown).join(" / "));
    if figures.iter().any(Option::is_some) {
        quantile_row.published = figures.map(shown).join(" / ");
        quantile_row.difference = ours
            .into_iter()
            .zip(figures)
            .map(|pair| match pair {
                (Some(ours), Some(figure)) => difference(ours, figure),
                _ => "-".to_owned(),
            })
            .collect::<Vec<_>>()
            .join(" / ");
    }
    let min = view.latency(|latency| latency.min);
    let floor = view.latency(|latency| latency.floor);
    let floor = floor.map(|floor| format!(" (no message below {})", quantity(floor)));
    let max = shown(view.latency(|latency| latency.max));
    let extremes = Row::new(
        "fastest, slowest, us",
        format!("{}{}, {max}", shown(min), floor.unwrap_or_default()),
    );
    let is_sample = view.runs.iter().all(|run| run.application.is_none());
    let mean_latency = match is_sample {
        true => mean_text(view.mean_us),
        false => shown(mean),
    };
    vec![
        Row::new("mean latency, us", mean_latency).beside(
            published,
            "latency_us.mean",
            mean,
            quantity,
        ),
        Row::new("standard deviation, us", shown(sd)).beside(
            published,
            "latency_us.sd",
            sd,
            quantity,
        ),
        quantile_row,
        extremes,
    ]
}

/// Classes of links that have a row, with its name: those between switches; those to the hosts
/// where there are no others, or where one of them is busier than all of those, as when many send
/// to one.
fn link_rows(view: &CellRecord<'_>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let between_switches = [
        ("mesh", "mesh link utilisation, %"),
        ("tree_up", "tree link utilisation upwards, %"),
        ("tree_down", "tree link utilisation downwards, %"),
    ];
    let to_hosts = [
        ("host_up", "host link utilisation, sending, %"),
        ("host_down", "host link utilisation, receiving, %"),
    ];
    let busiest = |class: &str| view.link(class).map_or(0.0, |(_, most)| most);
    let most = between_switches.iter().map(|(class, _)| busiest(class));
    let most = most.fold(0.0, f64::max);
    let has_switch_links = view.has_switch_links();
    between_switches
        .into_iter()
        .filter(move |_| has_switch_links)
        .chain(
            to_hosts
                .into_iter()
                .filter(move |(class, _)| !has_switch_links || busiest(class) > most),
        )
}

fn usage_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let published = view.published;
    let row = |(class, quantity): (&str, &str)| {
        let (mean, max) = view.link(class)?;
        let ours = format!("{} (busiest {})", percent(mean), percent(max));
        let path = format!("links.{class}.utilisation_mean");
        Some(Row::new(quantity, ours).beside(published, &path, Some(mean), percent))
    };
    let mut rows: Vec<Row> = link_rows(view).filter_map(row).collect();
    let bus = view
        .mean(|run| Some(run.buses.utilisation_mean))
        .unwrap_or_default();
    let bus_max = view
        .mean(|run| Some(run.buses.utilisation_max))
        .unwrap_or_default();
    if bus > 0.0 || published.figures.contains_key("buses.utilisation_mean") {
        let ours = format!("{} (busiest {})", percent(bus), percent(bus_max));
        rows.push(Row::new("bus utilisation, %", ours).beside(
            published,
            "buses.utilisation_mean",
            Some(bus),
            percent,
        ));
    }
    rows
}

fn count_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let published = view.published;
    let mut rows = Vec::new();
    let messages = Counts {
        posted: view.sum(|run| run.messages.posted),
        delivered: view.sum(|run| run.messages.delivered),
        dropped: view.sum(|run| run.messages.dropped),
        in_flight: view.sum(|run| run.messages.in_flight),
    };
    if messages.dropped > 0 || published.figures.contains_key("dropped_fraction") {
        let fraction = view.dropped_fraction().unwrap_or_default();
        rows.push(Row::new("messages dropped, %", percent(fraction)).beside(
            published,
            "dropped_fraction",
            Some(fraction),
            percent,
        ));
    }
    rows.push(conservation(messages));
    let of_frames =
        |count: fn(&FrameCounts) -> u64| view.sum(|run| run.frames.as_ref().map_or(0, count));
    for (name, count) in [
        ("frames lost in full queues", of_frames(|it| it.lost)),
        ("frames trimmed in full queues", of_frames(|it| it.trimmed)),
        ("frames marked in queues", of_frames(|it| it.marked)),
        ("pauses of links", of_frames(|it| it.pauses)),
    ] {
        if count > 0 {
            rows.push(Row::new(name, count.to_string()));
        }
    }
    let of_interfaces = |count: fn(&InterfaceSummary) -> u64| {
        view.sum(|run| run.interfaces.as_ref().map_or(0, count))
    };
    for (name, count) in [
        ("endpoints moved into frames", of_interfaces(|it| it.remaps)),
        (
            "messages refused for a while",
            of_interfaces(|it| it.refusals),
        ),
        (
            "messages sent again",
            of_interfaces(|it| it.retransmissions),
        ),
        ("turns of another rank", of_interfaces(|it| it.switches)),
        ("ranks that blocked", of_interfaces(|it| it.blocks)),
    ] {
        if count > 0 {
            rows.push(Row::new(name, count.to_string()));
        }
    }
    let paused_ps = of_frames(|it| it.paused_ps);
    if paused_ps > 0 {
        let milliseconds = format!("{:.3}", paused_ps as f64 * 1e-9);
        rows.push(Row::new("links paused, all added up, ms", milliseconds));
    }
    let early: Vec<String> = view.runs.iter().filter_map(|run| early_end(run)).collect();
    if !early.is_empty() {
        rows.push(Row::new("simulated, s", early.join("; ")));
    }
    let wall_s: f64 = view.runs.iter().map(|run| run.wall_s).sum();
    let events = view.sum(|run| run.events);
    let name = match view.runs.len() {
        1 => "events, wall clock",
        _ => "events, wall clock, all runs added up",
    };
    let mut cost = Row::new(
        name,
        format!("{}, {}", scaled_count(events as f64), duration(wall_s)),
    );
    cost.published = [
        published.value("events").map(scaled_count),
        published.value("wall_s").map(duration),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ");
    rows.push(cost);
    rows
}

/// Up to when a run got that did not come to its end, and why.
fn early_end(run: &Summary) -> Option<String> {
    let why = match run.ended.as_str() {
        "message_count" => "`run.messages_max` was reached",
        "event_count" => "`run.events_max` was reached",
        "interrupted" => "stopped",
        _ => return None,
    };
    Some(format!("{} to {}: {why}", run.warmup_s, run.simulated_s))
}

/// Published figures of what has no row of its own.
fn other_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let published = view.published;
    let shown_above = |path: &str| {
        let is_mean = |class: &str| path == format!("links.{class}.utilisation_mean");
        let has_row = link_rows(view).any(|(class, _)| is_mean(class));
        has_row || PATHS_WITH_A_ROW.contains(&path)
    };
    let paths = published.figures.keys().filter(|path| !shown_above(path));
    paths
        .map(|path| {
            let ours = view.mean(|run| run.number(path));
            let show = figure_format(path);
            let unit = if is_fraction(path) { ", %" } else { "" };
            Row::new(
                format!("{path}{unit}"),
                ours.map_or_else(|| "-".to_owned(), show),
            )
            .beside(published, path, ours, show)
        })
        .collect()
}

/// Paths of published figures that stand in a row of their own; links have theirs besides.
const PATHS_WITH_A_ROW: [&str; 9] = [
    "latency_us.mean",
    "latency_us.sd",
    "latency_us.p50",
    "latency_us.p99",
    "latency_us.p999",
    "buses.utilisation_mean",
    "dropped_fraction",
    "events",
    "wall_s",
];

/// Posted = delivered + dropped + in flight; the last two only where there are any.
fn conservation(messages: Counts) -> Row {
    let rest = [
        ("dropped", messages.dropped),
        ("in flight", messages.in_flight),
    ];
    let rest = rest.into_iter().filter(|(_, count)| *count > 0);
    let terms = [("delivered", messages.delivered)]
        .into_iter()
        .chain(rest)
        .collect::<Vec<_>>();
    let names = terms
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(" + ");
    let counts = terms
        .iter()
        .map(|(_, term)| count(*term))
        .collect::<Vec<_>>()
        .join(" + ");
    let sum = terms.iter().map(|(_, term)| term).sum::<u64>();
    let is_conserved = sum == messages.posted;
    let sign = if is_conserved { "=" } else { "/=" };
    let mut row = Row::new(
        format!("messages posted = {names}"),
        format!("{} {sign} {counts}", count(messages.posted)),
    );
    row.difference = if is_conserved {
        "conserved"
    } else {
        "NOT CONSERVED"
    }
    .to_owned();
    row
}

/// Where the mean goes: each stage that takes time, with its share.
fn stage_rows(view: &CellRecord<'_>) -> Vec<Row> {
    let Some(first) = view.runs.first() else {
        return Vec::new();
    };
    let stages: Vec<(&str, f64)> = first
        .breakdown_us
        .iter()
        .filter_map(|(stage, _)| {
            let mean = view.mean(|run| run.breakdown_us.get(stage).copied())?;
            (mean > 0.0).then_some((stage.as_str(), mean))
        })
        .collect();
    let total: f64 = stages.iter().map(|(_, mean)| mean).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let width = stages
        .iter()
        .map(|(_, mean)| quantity(*mean).len())
        .max()
        .unwrap_or_default();
    let rows = stages.iter().map(|(stage, mean)| {
        let share = format!("{:.1} %", mean / total * 100.0);
        Row::new(
            format!("  {}", stage.replace('_', " ")),
            format!("{:>width$}   {share:>7}", quantity(*mean)),
        )
    });
    [Row::new("where the mean goes, us", "")]
        .into_iter()
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn one_run_beside_published_figures() {
        insta::assert_snapshot!(cell_table(&sample::one_run().cells[0].record()));
    }

    #[test]
    fn several_seeds() {
        insta::assert_snapshot!(cell_table(&sample::three_seeds().cells[0].record()));
    }

    #[test]
    fn drops_and_messages_under_way_are_terms_of_the_sum() {
        let mut outcome = sample::one_run();
        let summary = outcome.cells[0].runs[0].summary_mut();
        summary.messages = Counts {
            posted: 870_412,
            delivered: 869_196,
            dropped: 1_204,
            in_flight: 12,
        };
        outcome.cells[0].published = Published::default();
        insta::assert_snapshot!(cell_table(&outcome.cells[0].record()));
    }

    #[test]
    fn drops_that_nobody_asked_for_stand_below_the_table() {
        let mut outcome = sample::one_run();
        let summary = outcome.cells[0].runs[0].summary_mut();
        summary.messages.posted = 20;
        summary.messages.dropped = 12;
        assert!(!cell_table(&outcome.cells[0].record()).contains("LOST"));
        outcome.cells[0].runs[0].summary_mut().drops_unasked = true;
        let table = cell_table(&outcome.cells[0].record());
        assert!(
            table.contains("\n  LOST: 12 of 20 messages found no"),
            "{table}"
        );
    }

    #[test]
    fn links_of_hosts_that_are_the_busiest_have_a_row() {
        let mut outcome = sample::one_run();
        let name = "host link utilisation, receiving, %";
        assert!(!cell_table(&outcome.cells[0].record()).contains("host link"));
        let links = &mut outcome.cells[0].runs[0].summary_mut().links;
        let mut of_hosts = links["mesh"];
        of_hosts.utilisation_max += 0.2;
        links.insert("host_down".to_owned(), of_hosts);
        let table = cell_table(&outcome.cells[0].record());
        assert!(table.contains("mesh link utilisation, %"), "{table}");
        assert!(table.contains(name), "{table}");
        let links = &mut outcome.cells[0].runs[0].summary_mut().links;
        links["host_down"].utilisation_max -= 0.2;
        let table = cell_table(&outcome.cells[0].record());
        assert!(!table.contains("host link"), "{table}");
    }

    #[test]
    fn a_run_without_an_interval_says_so() {
        let mut outcome = sample::one_run();
        outcome.cells[0].runs[0].summary_mut().latency_us.ci95 = None;
        let table = cell_table(&outcome.cells[0].record());
        assert!(table.contains(" (too short for an interval)"), "{table}");
    }

    #[test]
    fn a_run_that_measured_nothing() {
        let mut outcome = sample::one_run();
        let summary = outcome.cells[0].runs[0].summary_mut();
        summary.latency_us = LatencySummary::default();
        summary.breakdown_us = crate::OrderedMap::default();
        summary.messages = Counts {
            posted: 1,
            ..Counts::default()
        };
        outcome.cells[0].published = Published::default();
        insta::assert_snapshot!(cell_table(&outcome.cells[0].record()));
    }
}
