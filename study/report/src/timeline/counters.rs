//! What the queue of a link held and did while messages were recorded, as counters.

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::record::Recording;
use viaduct_engine::Time;
use viaduct_network::{QueueWindow, Sharing};

use super::perfetto::{UNIT_BYTES, UNIT_COUNT, UNIT_NANOSECONDS};

/// One figure of a queue, from each of some times on.
pub(super) struct Counter {
    pub(super) name: &'static str,
    pub(super) unit: i32,
    /// Picoseconds, and the value from then on.
    pub(super) values: Vec<(u64, u64)>,
}

/// A figure of a window.
type Figure = fn(&QueueWindow) -> u64;

/// The counters of a link's queue: of the figures that are not 0 throughout.
pub(super) fn counters(config: &ClusterConfig, recording: &Recording, link: u32) -> Vec<Counter> {
    let depth = match config.links.sharing {
        Sharing::Credits => "credits spent",
        _ => "queue",
    };
    let figures: [(&str, i32, Figure); 5] = [
        (depth, UNIT_BYTES, |it| it.bytes_max),
        ("frames marked", UNIT_COUNT, |it| it.counts.marked),
        ("frames trimmed", UNIT_COUNT, |it| it.counts.trimmed),
        ("frames lost", UNIT_COUNT, |it| it.counts.lost),
        ("paused", UNIT_NANOSECONDS, |it| {
            it.counts.paused.picoseconds() / 1000
        }),
    ];
    let rows: Vec<_> = recording
        .queues
        .iter()
        .filter(|row| row.link == link)
        .collect();
    let counters = figures.into_iter().map(|(name, unit, figure)| Counter {
        name,
        unit,
        values: steps(recording, &rows, figure),
    });
    counters.filter(|it| !it.values.is_empty()).collect()
}

/// A value for each window, and 0 behind those that no other follows at once.
fn steps(recording: &Recording, rows: &[&QueueWindow], figure: Figure) -> Vec<(u64, u64)> {
    let (from, width) = (recording.queues_from, recording.queue_window);
    let begin = |end: Time| {
        let since = end.saturating_sub(from).picoseconds();
        let windows = since.div_ceil(width.picoseconds().max(1));
        let before = width.saturating_mul(windows.saturating_sub(1));
        from.saturating_add(before).picoseconds()
    };
    let mut values: Vec<(u64, u64)> = Vec::new();
    for row in rows.iter().filter(|row| figure(row) > 0) {
        let begin = begin(row.end);
        match values.last_mut() {
            Some(last) if last.0 == begin => last.1 = figure(row),
            _ => values.push((begin, figure(row))),
        }
        values.push((row.end.picoseconds(), 0));
    }
    values
}
