//! The tables of a critical path, for the screen and for the page.

use core::cmp::Reverse;

use viaduct_cluster::why::{Doing, Step};
use viaduct_engine::Time;
use viaduct_scenario::format_size;
use viaduct_topology::HostId;

use super::host_name;
use super::path::{ExplainedPath, RankShare};
use super::text::{exact_us, number_of};
use crate::figure::count;
use crate::screen::CellsTable;

/// The share of a time in the whole.
pub(crate) fn share(time: Time, whole: Time) -> f64 {
    time.picoseconds() as f64 / whole.picoseconds().max(1) as f64
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn columns(titles: &[(&str, bool)]) -> Vec<(String, bool)> {
    let titles = titles.iter();
    titles
        .map(|(title, is_number)| ((*title).to_owned(), *is_number))
        .collect()
}

/// At whom a path was: so many of the ranks with most time, the others together, and what carries
/// bytes between them.
pub(crate) fn rank_table(explained: &ExplainedPath<'_>, most: usize) -> CellsTable {
    let whole = explained.path.makespan;
    let (ranks, between) = explained.ranks();
    let several = ranks.len() > most + 1;
    let shown = if several { most } else { ranks.len() };
    let (shown, others) = ranks.split_at(shown);
    let row = |name: String, it: &RankShare| {
        let mut row = vec![name, exact_us(it.time().picoseconds())];
        row.push(percent(share(it.time(), whole)));
        let times = [it.computing, it.sending, it.receiving];
        row.extend(times.map(|time| exact_us(time.picoseconds())));
        row
    };
    let mut rows: Vec<Vec<String>> = shown
        .iter()
        .map(|it| {
            let host = host_name(explained.config, HostId(it.host));
            row(format!("rank {} ({host})", it.rank), it)
        })
        .collect();
    if several {
        let together = others
            .iter()
            .fold(RankShare::default(), |sum, it| RankShare {
                computing: sum.computing.saturating_add(it.computing),
                sending: sum.sending.saturating_add(it.sending),
                receiving: sum.receiving.saturating_add(it.receiving),
                ..sum
            });
        let name = format!("{} other ranks", count(others.len() as u64));
        rows.push(row(name, &together));
    }
    let mut links = vec!["links and buses".to_owned()];
    links.push(exact_us(between.picoseconds()));
    links.push(percent(share(between, whole)));
    links.resize(6, String::new());
    rows.push(links);
    CellsTable {
        columns: columns(&[
            ("at", false),
            ("time, us", true),
            ("share", true),
            ("computes, us", true),
            ("sends, us", true),
            ("receives, us", true),
        ]),
        rows,
    }
}

/// The longest steps, at most so many, in the order of the path.
pub(crate) fn step_table(explained: &ExplainedPath<'_>, most: usize) -> CellsTable {
    let steps = &explained.path.steps;
    let mut shown: Vec<usize> = (0..steps.len()).collect();
    shown.sort_by_key(|place| (Reverse(steps[*place].time()), *place));
    shown.truncate(most);
    shown.sort_unstable();
    let row = |place: usize| {
        let step = &steps[place];
        let begin = step.begin.saturating_sub(explained.path.start);
        vec![
            count(place as u64 + 1),
            exact_us(begin.picoseconds()),
            exact_us(step.time().picoseconds()),
            exact_us(step.waited().picoseconds()),
            step.rank.to_string(),
            what(step),
        ]
    };
    CellsTable {
        columns: columns(&[
            ("step", true),
            ("begin, us", true),
            ("time, us", true),
            ("waited, us", true),
            ("rank", true),
            ("what", false),
        ]),
        rows: shown.into_iter().map(row).collect(),
    }
}

/// What a step is, in words.
pub(crate) fn what(step: &Step) -> String {
    let operation = step.operation.operation;
    let (size, peer) = (format_size(operation.amount), operation.peer);
    let place = match step.operation.line {
        Some(line) => format!(" ({} {line})", step.operation.line_word),
        None => String::new(),
    };
    let what = match &step.doing {
        Doing::Compute { waited } => {
            let took = step.time().saturating_sub(*waited).picoseconds();
            let given = Time::from_nanoseconds(operation.amount).picoseconds();
            let computes = format!("computes {} ns", operation.amount);
            match took as f64 / given.max(1) as f64 {
                slower if given > 0 && slower >= 1.005 => {
                    format!("{computes}, its host {slower:.2} times as slow")
                }
                _ => computes,
            }
        }
        Doing::Post => format!("posts {size} for rank {peer}"),
        Doing::Message { part, message, .. } => {
            let number = number_of(*message);
            let what = match *part {
                "request" => format!("asks rank {peer} to take {size}"),
                "clearance" => format!("tells rank {} to send", step.operation.rank),
                _ => format!("{size} to rank {peer}"),
            };
            format!("{what}: message {number}")
        }
        Doing::Leave => format!("{size} for rank {peer} leave"),
        Doing::Local => format!("{size} to rank {peer}, of the same host"),
        Doing::Copy => "copies the message that was there".to_owned(),
        Doing::Register => format!("registers {size}"),
    };
    match &step.operation.label {
        Some(label) => format!("{label}: {what}{place}"),
        None => what + &place,
    }
}
