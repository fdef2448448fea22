//! What queues of links held, over simulated time.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use viaduct_network::{QueueWindow, Sharing};
use viaduct_plot::{HeatCell, HeatLabel, HeatMap};
use viaduct_topology::LinkId;

use super::csv_line;
use super::time::time_unit;
use crate::figure::quantity;
use crate::shown::NamedRun;
use crate::summary::seconds;

/// Links that a picture has room for. With more, a map has too many cells to name each of them.
const LINKS_MAX: usize = 15;
/// Of the plane's width of 100: what names of links take.
const NAMES_WIDTH: f64 = 36.0;
/// Of one link, in the same measure: a line of words fits in.
const ROW_HEIGHT: f64 = 3.4;
/// Letters of a name that fit.
const NAME_LETTERS_MAX: usize = 22;

/// A map of queues: a row for each of the deepest, a column for each window.
pub(crate) struct QueueMap {
    pub(crate) map: HeatMap,
    /// How to read it.
    pub(crate) caption: String,
    pub(crate) csv: String,
}

/// Draws the queues of a run over time; none where nothing waited.
pub(crate) fn queue_map(named: &NamedRun<'_>, study: &str) -> Option<QueueMap> {
    let ends: Vec<_> = named.run.series.iter().map(|row| row.end).collect();
    let mut most_of: BTreeMap<u32, u64> = BTreeMap::new();
    for row in named.run.queues {
        let most = most_of.entry(row.link).or_default();
        *most = row.bytes_max.max(*most);
    }
    let mut links: Vec<(u32, u64)> = most_of.into_iter().filter(|(_, most)| *most > 0).collect();
    links.sort_by_key(|&(link, most)| (Reverse(most), link));
    let (&(_, deepest), last) = (links.first()?, *ends.last()?);
    let (count, topology) = (links.len(), &*named.cell.config.topology);
    links.truncate(LINKS_MAX);

    let (unit, unit_name) = time_unit(seconds(last.picoseconds()));
    let width = (100.0 - NAMES_WIDTH) / ends.len() as f64;
    let mut cells = Vec::new();
    let mut labels = Vec::new();
    for (place, (link, _)) in links.iter().enumerate() {
        let name = topology.link_name(LinkId(*link));
        let top = place as f64 * ROW_HEIGHT;
        let held = |end| {
            let place = named
                .run
                .queues
                .binary_search_by_key(&(end, *link), |row| (row.end, row.link));
            place.map_or(0, |place| named.run.queues[place].bytes_max)
        };
        for (column, end) in ends.iter().enumerate() {
            let bytes = held(*end);
            let until = quantity(seconds(end.picoseconds()) * unit);
            cells.push(HeatCell {
                at: (NAMES_WIDTH + column as f64 * width, top),
                value: Some(bytes as f64),
                note: format!("{name}, until {until} {unit_name}: {bytes} bytes"),
            });
        }
        labels.push(HeatLabel {
            at: (0.0, top + ROW_HEIGHT * 0.75),
            words: shortened(&name),
            is_centred: false,
        });
    }
    let bottom = links.len() as f64 * ROW_HEIGHT;
    let all = seconds(last.picoseconds()) * unit;
    // Of the last one half would be beyond the edge.
    for (part, place) in [(0.0, 0.0), (0.5, 0.5), (1.0, 0.92)] {
        labels.push(HeatLabel {
            at: (NAMES_WIDTH + (100.0 - NAMES_WIDTH) * place, bottom + 3.0),
            words: format!("{} {unit_name}", plain(part * all)),
            is_centred: part > 0.0,
        });
    }
    let name = match named.name.as_str() {
        "" => String::new(),
        name => format!(", {name}"),
    };
    let shown = links.len();
    let what = match named.cell.config.links.sharing {
        Sharing::Queues => "messages",
        _ => "frames",
    };
    Some(QueueMap {
        map: HeatMap {
            title: format!("{study}{name}: what queues of links held"),
            size: (100.0, bottom + 4.0),
            strokes: Vec::new(),
            stroke_width: 0.0,
            cells,
            cell_size: (width, ROW_HEIGHT * 0.9),
            labels,
            scale: "most that a queue held at once in the window, KB".to_owned(),
            most: deepest as f64,
            write: |bytes| plain(bytes / 1_000.0),
        },
        caption: format!(
            "The deepest {shown} of {count} queues in which {what} waited, the deepest first, over \
             simulated time; all are in queues.parquet."
        ),
        csv: numbers(named, |row| topology.link_name(LinkId(row.link))),
    })
}

fn numbers(named: &NamedRun<'_>, name: impl Fn(&QueueWindow) -> String) -> String {
    let mut csv = csv_line([
        "end_s",
        "link",
        "queue_max_bytes",
        "frames_lost",
        "frames_trimmed",
        "frames_marked",
        "pauses",
        "paused_ps",
    ]);
    for row in named.run.queues {
        csv += &csv_line([
            &seconds(row.end.picoseconds()).to_string(),
            &name(row),
            &row.bytes_max.to_string(),
            &row.counts.lost.to_string(),
            &row.counts.trimmed.to_string(),
            &row.counts.marked.to_string(),
            &row.counts.pauses.to_string(),
            &row.counts.paused.picoseconds().to_string(),
        ]);
    }
    csv
}

fn plain(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value => quantity(value),
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_LETTERS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
