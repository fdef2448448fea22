//! The page of a critical path.

use viaduct_cluster::why::{Doing, Step};
use viaduct_engine::Time;
use viaduct_plot::{Axis, BarChart, Bars, Format, LineChart, Look, Marks, Notation, Scale, Series};

use super::run::table_of;
use super::{Block, Page, Section};
use crate::explanation::{ExplainedPath, rank_table, step_table};
use crate::figure::{count, quantity};
use crate::summary::violation_words;

/// Ranks with a row of their own.
const RANKS_MAX: usize = 20;

/// Steps with a row of their own.
const STEPS_MAX: usize = 100;

pub(super) fn page(explained: &ExplainedPath<'_>, headline: &str, command: &str) -> Page {
    let path = explained.path;
    let (ended, operations) = path.operations;
    let mut lead = vec![headline.to_owned()];
    lead.push(format!(
        "{} us from the start to the end of the last operation: {} of {} operations of {} ranks have \
         ended. The critical path is the {} steps that had to happen one after the other; what \
         is not on it could take longer without making this take longer.",
        quantity(path.makespan.microseconds_f64()),
        count(ended),
        count(operations),
        count(path.ranks.into()),
        count(path.steps.len() as u64),
    ));
    let alerts = path.violations.iter().map(|violation| {
        let (text, help) = violation_words(violation, path.ended.is_standstill());
        Block::Alert {
            level: "error",
            text,
            help: Some(help.to_owned()),
        }
    });
    let steps = step_table(explained, STEPS_MAX);
    let is_cut = path.steps.len() > STEPS_MAX;
    let mut step_blocks = vec![Block::Table(table_of(steps))];
    if is_cut {
        step_blocks.push(Block::text(format!(
            "The {} longest of {}; viaduct why --critical-path --json has all.",
            count(STEPS_MAX as u64),
            count(path.steps.len() as u64)
        )));
    }
    let sections = match path.steps.is_empty() {
        true => Vec::new(),
        false => vec![
            Section::new("parts", "Where the time goes", vec![parts(explained)]),
            Section::new(
                "ranks",
                "Whose time it is",
                vec![
                    Block::Table(table_of(rank_table(explained, RANKS_MAX))),
                    through_ranks(path.start, &path.steps),
                ],
            ),
            Section::new("steps", "Step by step", step_blocks),
        ],
    };
    let again = Block::Command {
        text: command.to_owned(),
        meaning: "The same again:".to_owned(),
    };
    let sections = [Section::new("warnings", "Warnings", alerts.collect())]
        .into_iter()
        .chain(sections)
        .chain([Section::new("again", "Run it again", vec![again])]);
    Page {
        title: format!("{}: the critical path", explained.study),
        lead,
        sections: sections.flatten().collect(),
        foot: format!(
            "{}, viaduct {}, links.model {}, seed {}, digest {:016x}.",
            explained.study,
            explained.version,
            explained.config.links.sharing.name(),
            explained.config.run.seed,
            path.digest
        ),
    }
}

fn parts(explained: &ExplainedPath<'_>) -> Block {
    let parts = explained.parts();
    let whole = explained.path.makespan.microseconds_f64();
    let amounts: Vec<f64> = parts
        .iter()
        .map(|(_, time)| time.microseconds_f64())
        .collect();
    let label = |amount: &f64| format!("{}  ({:.1} %)", quantity(*amount), amount / whole * 100.0);
    let chart = BarChart {
        title: String::new(),
        x: "time on the path, us".to_owned(),
        rows: parts.iter().map(|(part, _)| part.words()).collect(),
        sets: vec![Bars {
            name: String::new(),
            labels: amounts.iter().map(label).collect(),
            amounts,
        }],
    };
    let words = "What the time of the critical path goes to";
    let element = |format| chart.draw(format).to_element(words);
    let mut figure = Block::figure(
        "",
        element(Format::SCREEN),
        "Stages of all messages of the path, added up, and what ranks and processors did between \
         them. They add up to the time of all operations.",
    );
    figure.wide_svg = Some(element(Format::WIDE));
    Block::Figures {
        figures: vec![figure],
        beside: None,
    }
}

/// The path as a line through the ranks.
fn through_ranks(start: Time, steps: &[Step]) -> Block {
    let place = |time: Time, rank: u32| {
        let since = time.saturating_sub(start);
        (since.microseconds_f64(), f64::from(rank))
    };
    let ends = |step: &Step| {
        let reached = match step.doing {
            Doing::Message { .. } | Doing::Local => step.receiver(),
            _ => step.rank,
        };
        [place(step.begin, step.rank), place(step.end, reached)]
    };
    let axis = |title: &str| Axis {
        title: title.to_owned(),
        scale: Scale::Linear,
        notation: Notation::Plain,
    };
    let chart = LineChart {
        title: String::new(),
        x: axis("time since the start, us"),
        y: axis("rank"),
        series: vec![Series {
            name: String::new(),
            points: steps.iter().flat_map(ends).collect(),
        }],
    };
    let marks = Marks {
        looks: vec![Look::Line],
        ..Marks::default()
    };
    let words = "The critical path through the ranks";
    Block::Figures {
        figures: vec![Block::figure(
            words,
            chart.draw(&marks, Format::SCREEN).to_element(words),
            "Level while a rank computes or posts; a slope is a message from one rank to another.",
        )],
        beside: None,
    }
}
