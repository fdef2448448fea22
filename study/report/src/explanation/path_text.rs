//! The text of `viaduct why --critical-path`: where the time went, at whom, and the longest steps.
//!
//! Times are in microseconds with all six decimals, as those of one message: they add up.

use core::cmp::Reverse;

use viaduct_cluster::why::{Doing, Step};
use viaduct_engine::Time;
use viaduct_scenario::format_size;
use viaduct_topology::HostId;

use super::host_name;
use super::path::{ExplainedPath, RankShare};
use super::text::{aligned, bar, counted, exact_us, number_of};
use crate::figure::count;
use crate::screen::plain_table;

/// How many ranks have a row.
const RANKS_SHOWN: usize = 5;

/// How many steps have a row.
const STEPS_SHOWN: usize = 20;

/// The critical path for a terminal. Ends with a line feed.
#[must_use]
pub fn critical_path_text(explained: &ExplainedPath<'_>) -> String {
    let path = explained.path;
    let (ended, operations) = path.operations;
    let ended = match ended == operations {
        true => String::new(),
        false => format!(", of which {} have ended", count(ended)),
    };
    let mut text = format!(
        "  all operations  {} us: {} of {}{ended}\n  critical path   {}, each of which waited for the one before\n",
        exact_us(path.makespan.picoseconds()),
        counted(operations, "operation"),
        counted(path.ranks.into(), "rank"),
        counted(path.steps.len() as u64, "step"),
    );
    if path.steps.is_empty() {
        return text;
    }
    text += &format!("\n{}", part_table(explained));
    text += &format!("\n{}", rank_table(explained));
    text + &format!("\n{}", step_table(explained))
}

/// The share of a time in the whole.
fn share(time: Time, whole: Time) -> f64 {
    time.picoseconds() as f64 / whole.picoseconds().max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn part_table(explained: &ExplainedPath<'_>) -> String {
    let whole = explained.path.makespan;
    let header = ["where", "time, us", "share", ""];
    let mut table = plain_table(header.map(str::to_owned).to_vec());
    for (part, time) in explained.parts() {
        let share = share(time, whole);
        table.add_row(vec![
            part.words(),
            exact_us(time.picoseconds()),
            percent(share),
            bar(share),
        ]);
    }
    table.add_row(vec![
        "all operations".to_owned(),
        exact_us(whole.picoseconds()),
        percent(1.0),
    ]);
    aligned(table, &[1, 2])
}

fn rank_table(explained: &ExplainedPath<'_>) -> String {
    let header = [
        "at",
        "time, us",
        "share",
        "computes, us",
        "sends, us",
        "receives, us",
    ];
    let mut table = plain_table(header.map(str::to_owned).to_vec());
    let whole = explained.path.makespan;
    let (ranks, between) = explained.ranks();
    let several = ranks.len() > RANKS_SHOWN + 1;
    let shown = if several { RANKS_SHOWN } else { ranks.len() };
    let (shown, others) = ranks.split_at(shown);
    let mut add = |name: String, times: [Time; 3], time: Time| {
        let time_us = exact_us(time.picoseconds());
        let [computing, sending, receiving] = times.map(|time| exact_us(time.picoseconds()));
        let share = percent(share(time, whole));
        table.add_row(vec![name, time_us, share, computing, sending, receiving]);
    };
    for it in shown {
        let host = host_name(explained.config, HostId(it.host));
        let name = format!("rank {} ({host})", it.rank);
        add(name, [it.computing, it.sending, it.receiving], it.time());
    }
    if several {
        let sum = |of: fn(&RankShare) -> Time| {
            let times = others.iter().map(of);
            times.fold(Time::ZERO, Time::saturating_add)
        };
        let times = [
            sum(|it| it.computing),
            sum(|it| it.sending),
            sum(|it| it.receiving),
        ];
        let name = format!("{} other ranks", count(others.len() as u64));
        add(name, times, sum(RankShare::time));
    }
    table.add_row(vec![
        "links and buses".to_owned(),
        exact_us(between.picoseconds()),
        percent(share(between, whole)),
    ]);
    aligned(table, &[1, 2, 3, 4, 5])
}

fn step_table(explained: &ExplainedPath<'_>) -> String {
    let steps = &explained.path.steps;
    let header = [
        "step",
        "begin, us",
        "time, us",
        "waited, us",
        "rank",
        "what",
    ];
    let mut table = plain_table(header.map(str::to_owned).to_vec());
    // The longest, in the order of the path.
    let mut shown: Vec<usize> = (0..steps.len()).collect();
    shown.sort_by_key(|place| (Reverse(steps[*place].time()), *place));
    shown.truncate(STEPS_SHOWN);
    shown.sort_unstable();
    for place in shown {
        let step = &steps[place];
        let begin = step.begin.saturating_sub(explained.path.start);
        table.add_row(vec![
            count(place as u64 + 1),
            exact_us(begin.picoseconds()),
            exact_us(step.time().picoseconds()),
            exact_us(step.waited().picoseconds()),
            step.rank.to_string(),
            what(step),
        ]);
    }
    let text = aligned(table, &[0, 1, 2, 3, 4]);
    match steps.len() > STEPS_SHOWN {
        true => text + "  (the longest; --json has all)\n",
        false => text,
    }
}

/// What a step is, in words.
pub(super) fn what(step: &Step) -> String {
    let operation = step.operation.operation;
    let (size, peer) = (format_size(operation.amount), operation.peer);
    let place = match step.operation.line {
        Some(line) => format!(" (line {line})"),
        None => String::new(),
    };
    match &step.doing {
        Doing::Compute { .. } => format!("computes {} ns{place}", operation.amount),
        Doing::Post => format!("posts {size} for rank {peer}{place}"),
        Doing::Message { part, message, .. } => {
            let number = number_of(*message);
            let what = match *part {
                "request" => format!("asks rank {peer} to take {size}"),
                "clearance" => format!("tells rank {} to send", step.operation.rank),
                _ => format!("{size} to rank {peer}"),
            };
            format!("{what}: message {number}{place}")
        }
        Doing::Leave => format!("{size} for rank {peer} leave{place}"),
        Doing::Local => format!("{size} to rank {peer}, of the same host{place}"),
    }
}
