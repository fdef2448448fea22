//! Where the time of the ranks of an application went.

use core::cmp::Reverse;

use viaduct_cluster::result::RankRow;
use viaduct_engine::Time;
use viaduct_plot::{Axis, LineChart, Look, Marks, Notation, Scale, Series};
use viaduct_topology::{HostId, Node};

use super::{Chart, csv_line};
use crate::figure::quantity;
use crate::shown::NamedRun;

/// Ranks that a picture has room for.
const RANKS_MAX: usize = 256;

/// A set of points.
type Quantity = (&'static str, fn(&RankRow) -> Time);

/// Of each rank how long its processors computed, worked for messages, and did neither.
pub(crate) fn rank_times(named: &NamedRun<'_>) -> Chart {
    let quantities: [Quantity; 3] = [
        ("computes", |row| row.computing),
        ("handles messages", |row| row.messaging),
        ("waits", |row| row.waiting),
    ];
    chart(named, &quantities)
}

/// Of each rank how long all ranks together waited for it.
pub(crate) fn ranks_waited_for(named: &NamedRun<'_>) -> Chart {
    chart(named, &[("others wait for it", |row| row.waited_for)])
}

fn chart(named: &NamedRun<'_>, quantities: &[Quantity]) -> Chart {
    let mut csv = csv_line(["rank", "what", "time_us"]);
    let mut series = Vec::new();
    for (name, of) in quantities {
        let rows = named.run.ranks.iter();
        let points: Vec<(u32, f64)> = rows
            .map(|row| (row.rank, of(row).microseconds_f64()))
            .collect();
        for (rank, time) in &points {
            csv += &csv_line([&rank.to_string(), name, &time.to_string()]);
        }
        if points.iter().any(|(_, time)| *time > 0.0) {
            series.push(Series {
                name: (*name).to_owned(),
                points: thinned(&points),
            });
        }
    }
    let axis = |title: &str| Axis {
        title: title.to_owned(),
        scale: Scale::Linear,
        notation: Notation::Plain,
    };
    Chart {
        chart: LineChart {
            title: String::new(),
            x: axis("rank"),
            y: axis("time, us"),
            series,
        },
        marks: Marks {
            looks: vec![Look::Points; quantities.len()],
            ..Marks::default()
        },
        csv,
    }
}

/// Where there are too many, of each group of neighbours those with most and least: what stands out
/// stays.
fn thinned(points: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let each = (2 * points.len()).div_ceil(RANKS_MAX).max(1);
    let group = |group: &[(u32, f64)]| {
        let most = group.iter().max_by(|one, two| one.1.total_cmp(&two.1));
        let least = group.iter().min_by(|one, two| one.1.total_cmp(&two.1));
        let mut ends: Vec<(u32, f64)> = least.into_iter().chain(most).copied().collect();
        ends.sort_by_key(|(rank, _)| *rank);
        ends.dedup();
        ends
    };
    let kept: Vec<(u32, f64)> = match points.len() <= RANKS_MAX {
        true => points.to_vec(),
        false => points.chunks(each).flat_map(group).collect(),
    };
    let place = |(rank, time): (u32, f64)| (f64::from(rank), time);
    kept.into_iter().map(place).collect()
}

/// Whether a picture leaves ranks out.
pub(crate) fn leaves_ranks_out(named: &NamedRun<'_>) -> bool {
    named.run.ranks.len() > RANKS_MAX
}

/// The ranks that others waited for longest, at most so many, the longest first: each with its
/// host, where its time went, and for whom it waited longest.
pub(crate) fn most_waited_for(named: &NamedRun<'_>, most: usize) -> Vec<Vec<String>> {
    let mut rows: Vec<&RankRow> = named.run.ranks.iter().collect();
    rows.sort_by_key(|row| (Reverse(row.waited_for), row.rank));
    let topology = &*named.cell.config.topology;
    let us = |time: Time| quantity(time.microseconds_f64());
    let cells = |row: &RankRow| {
        let longest = row.longest_wait.map_or_else(String::new, |(rank, wait)| {
            format!("rank {rank}: {}", us(wait))
        });
        vec![
            row.rank.to_string(),
            topology.node_name(Node::Host(HostId(row.host))),
            us(row.waited_for),
            us(row.computing),
            us(row.messaging),
            us(row.waiting),
            longest,
        ]
    };
    rows.into_iter().take(most).map(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_stands_out_is_drawn_however_many_there_are() {
        for count in [1, 3, 256, 257, 1_000, 100_000] {
            let mut points: Vec<(u32, f64)> = (0..count).map(|rank| (rank, 5.0)).collect();
            points[count as usize / 3].1 = 9.0;
            points[count as usize / 2].1 = 1.0;
            let drawn = thinned(&points);
            assert!(drawn.len() <= RANKS_MAX.min(points.len()), "{count}");
            for place in [count / 3, count / 2] {
                let point = points[place as usize];
                assert!(drawn.contains(&(f64::from(point.0), point.1)), "{count}");
            }
            assert!(drawn.is_sorted_by(|one, two| one.0 < two.0), "{count}");
        }
    }
}
