//! The page of a run, that of several runs beside one another, and that of a sweep: one file of
//! HTML that opens without a network, in light and in dark.
//!
//! What is shown is composed here of a few kinds of [`Block`]; `page/page.html` writes them, and
//! escapes all that comes from a user's file. Nothing on a page is a script.

mod comparison;
mod critical_path;
mod measurement;
mod run;
mod sweep;

use minijinja::Environment;
use serde::Serialize;
use viaduct_plot::page_style;

pub use self::measurement::ShownTest;
use crate::explanation::ExplainedPath;
use crate::outcome::StudyOutcome;
use crate::shown::{NamedRun, ShownStudy};

/// More warnings are counted, not shown.
const WARNINGS_MAX: usize = 100;

/// The page of one study: of one run, of several seeds, or of a sweep.
///
/// # Panics
///
/// Never: the template is a part of the program.
#[must_use]
pub fn run_page(study: &ShownStudy<'_>) -> String {
    render(&run::page(study))
}

/// The page of several studies, with their numbers and distributions beside one another.
///
/// # Panics
///
/// Never, as [`run_page`].
#[must_use]
pub fn comparison_page(studies: &[ShownStudy<'_>]) -> String {
    render(&comparison::page(studies))
}

/// The page of measurements: `machines` are heads and rows of a table that says where each was
/// made.
///
/// # Panics
///
/// Never, as [`run_page`].
#[must_use]
pub fn measurement_page(
    title: &str,
    machines: (Vec<String>, Vec<Vec<String>>),
    tests: &[ShownTest],
) -> String {
    render(&measurement::page(title, machines, tests))
}

/// The page of a sweep; `commands` are for a shell, each with what it does.
///
/// # Panics
///
/// Never, as [`run_page`].
#[must_use]
pub fn sweep_page(outcome: &StudyOutcome, commands: &[(&str, &str)]) -> String {
    render(&sweep::page(outcome, commands))
}

/// The page of a critical path; `headline` says what was run, `command` is for a shell.
///
/// # Panics
///
/// Never, as [`run_page`].
#[must_use]
pub fn critical_path_page(explained: &ExplainedPath<'_>, headline: &str, command: &str) -> String {
    render(&critical_path::page(explained, headline, command))
}

#[derive(Serialize)]
struct Page {
    title: String,
    /// Lines below the title.
    lead: Vec<String>,
    sections: Vec<Section>,
    /// Which program, which results.
    foot: String,
}

#[derive(Serialize)]
struct Section {
    id: &'static str,
    title: &'static str,
    blocks: Vec<Block>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Alert {
        level: &'static str,
        text: String,
        help: Option<String>,
    },
    Table(Table),
    /// Beside one another where there is room, and perhaps a table beside the last.
    Figures {
        figures: Vec<Figure>,
        beside: Option<Table>,
    },
    Details {
        title: String,
        blocks: Vec<Self>,
    },
    Command {
        text: String,
        meaning: String,
    },
}

#[derive(Default, Serialize)]
struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct Column {
    title: String,
    is_number: bool,
    /// Names that are not to be broken: of links.
    is_name: bool,
    /// Keys, which may be broken behind their dots.
    is_key: bool,
}

impl Column {
    fn new(title: impl Into<String>, is_number: bool) -> Self {
        Self {
            title: title.into(),
            is_number,
            is_name: false,
            is_key: false,
        }
    }

    fn key() -> Self {
        Self {
            is_key: true,
            ..Self::new("key", false)
        }
    }
}

#[derive(Serialize)]
struct Figure {
    title: String,
    /// An SVG element of ours, which is not escaped again.
    svg: String,
    /// The same for wide windows, where it stands alone.
    wide_svg: Option<String>,
    caption: String,
}

impl Block {
    fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    fn figure(title: impl Into<String>, svg: String, caption: impl Into<String>) -> Figure {
        Figure {
            title: title.into(),
            svg,
            wide_svg: None,
            caption: caption.into(),
        }
    }
}

impl Table {
    fn new<const N: usize>(columns: [(&str, bool); N]) -> Self {
        let columns = columns.map(|(title, is_number)| Column::new(title, is_number));
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }
}

impl Section {
    /// None without anything in it.
    fn new(id: &'static str, title: &'static str, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then_some(Self { id, title, blocks })
    }
}

/// What the user should know of some runs, what must not be used first.
fn alerts(studies: &[ShownStudy<'_>], runs: &[NamedRun<'_>]) -> Vec<Block> {
    let mut violations = Vec::new();
    let mut warnings = Vec::new();
    for named in runs {
        let place = match named.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let summary = named.run.summary;
        for violation in &summary.violations {
            let (title, help) = summary.told(violation);
            violations.push(Block::Alert {
                level: "error",
                text: format!("{place}{title}"),
                help: Some(help.to_owned()),
            });
        }
        if summary.ended == "interrupted" {
            let text = format!("{place}stopped by the user at {} s", summary.simulated_s);
            warnings.push(Block::Alert {
                level: "warning",
                text,
                help: None,
            });
        }
        for warning in &summary.warnings {
            warnings.push(Block::Alert {
                level: "warning",
                text: format!("{place}{}", warning.text),
                help: warning.help.clone(),
            });
        }
    }
    for study in studies.iter().filter(|study| study.runs_not_begun > 0) {
        warnings.push(Block::Alert {
            level: "warning",
            text: format!(
                "{}: {} runs were not begun",
                study.name, study.runs_not_begun
            ),
            help: None,
        });
    }
    violations.extend(warnings);
    let left_out = violations.len().saturating_sub(WARNINGS_MAX);
    violations.truncate(WARNINGS_MAX);
    if left_out > 0 {
        violations.push(Block::text(format!("{left_out} more are in summary.json.")));
    }
    violations
}

fn commands(studies: &[ShownStudy<'_>]) -> Vec<Block> {
    let commands = studies.iter().flat_map(|study| &study.commands);
    commands
        .map(|(text, meaning)| Block::Command {
            text: text.clone(),
            meaning: meaning.clone(),
        })
        .collect()
}

fn render(page: &Page) -> String {
    let mut environment = Environment::new();
    // The ending of the name turns escaping on.
    environment
        .add_template("page.html", include_str!("page/page.html"))
        .expect("the template is a part of the program");
    let template = environment
        .get_template("page.html")
        .expect("it was just added");
    let context = minijinja::context! {
        page => minijinja::value::Serde(page),
        style => include_str!("page/page.css"),
        plot_style => page_style(),
    };
    template.render(context).expect("it uses what it is given")
}

#[cfg(test)]
mod tests;
