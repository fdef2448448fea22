//! Pictures of runs, each with the numbers that it is drawn from.

mod curves;
mod distribution;
mod links;
mod network;
mod queues;
mod ranks;
mod stages;
mod time;

use viaduct_plot::{Format, LineChart, Marks, Picture};

use crate::shown::{ShownStudy, chosen, named_cells, named_runs};

pub(crate) use curves::curves;
pub use curves::sweep_curves;
pub(crate) use distribution::{distribution, tail};
pub(crate) use links::{LinkMap, busiest, link_map};
pub(crate) use queues::{QueueMap, queue_map};
pub(crate) use ranks::{leaves_ranks_out, most_waited_for, rank_times, ranks_waited_for};
pub(crate) use stages::stages;
pub(crate) use time::{TimeQuantity, over_time};

/// Lines of one picture: more could not be told apart.
pub(crate) const LINES_MAX: usize = 7;
/// Bars of one stage.
pub(crate) const BARS_MAX: usize = 4;

/// What a picture of runs is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject {
    /// The distribution of latency: one line per run.
    Latency,
    /// The share of messages that are slower, by its logarithm: one line per run.
    Tail,
    /// How busy each link of one run is, laid out as the network is.
    Links,
    /// What the deepest queues of links held over simulated time, in one run.
    Queues,
    /// Where the mean latency goes: one set of bars per cell.
    Stages,
    /// The mean latency over simulated time: one line per run.
    Time,
}

/// A picture, and its numbers as comma-separated values with a line of names.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The picture.
    pub picture: Picture,
    /// Its numbers.
    pub csv: String,
    /// Runs or cells that were left out, because a picture holds no more.
    pub left_out: usize,
}

/// A chart with what is beside its lines.
pub(crate) struct Chart {
    pub(crate) chart: LineChart,
    pub(crate) marks: Marks,
    pub(crate) csv: String,
}

impl Chart {
    /// As an element of the page, which says above it what it is.
    pub(crate) fn element(mut self) -> String {
        let words = std::mem::take(&mut self.chart.title);
        self.chart
            .draw(&self.marks, Format::SCREEN)
            .to_element(&words)
    }

    /// Whether there is anything to see.
    pub(crate) fn is_empty(&self) -> bool {
        self.chart
            .series
            .iter()
            .all(|series| series.points.is_empty())
    }
}

/// Draws a picture of a study on paper; none where the runs have nothing of the kind. The links are
/// those of the first run.
#[must_use]
pub fn draw(subject: Subject, study: &ShownStudy<'_>) -> Option<Drawn> {
    let studies = std::slice::from_ref(study);
    let cells = named_cells(studies);
    let runs = named_runs(&cells);
    let (shown, left_out) = match subject {
        Subject::Stages => (
            chosen(&cells, BARS_MAX),
            cells.len().saturating_sub(BARS_MAX),
        ),
        Subject::Links | Subject::Queues => (Vec::new(), runs.len().saturating_sub(1)),
        _ => (Vec::new(), runs.len().saturating_sub(LINES_MAX)),
    };
    let runs = chosen(&runs, LINES_MAX);
    let (picture, csv) = match subject {
        Subject::Stages => {
            let (chart, csv) = stages(&shown, &study.name)?;
            (chart.draw(Format::PAPER), csv)
        }
        Subject::Links => {
            let LinkMap { map, csv, .. } = link_map(runs.first()?, &study.name)?;
            (map.draw(Format::PAPER), csv)
        }
        Subject::Queues => {
            let QueueMap { map, csv, .. } = queue_map(runs.first()?, &study.name)?;
            (map.draw(Format::PAPER), csv)
        }
        Subject::Latency | Subject::Tail | Subject::Time => {
            let chart = match subject {
                Subject::Latency => distribution(&runs, &study.name),
                Subject::Tail => tail(&runs, &study.name),
                _ => over_time(&runs, TimeQuantity::Latency, &study.name),
            };
            if chart.is_empty() {
                return None;
            }
            (chart.chart.draw(&chart.marks, Format::PAPER), chart.csv)
        }
    };
    Some(Drawn {
        picture,
        csv,
        left_out,
    })
}

/// A line of comma-separated values (RFC 4180).
pub(crate) fn csv_line<const N: usize>(values: [&str; N]) -> String {
    let quoted = values.map(|value| match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    });
    quoted.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv_line(["a", "1.5"]), "a,1.5\n");
        assert_eq!(
            csv_line(["a,b", "say \"c\"", "d\ne"]),
            "\"a,b\",\"say \"\"c\"\"\",\"d\ne\"\n"
        );
    }
}
