//! Errors as the exceptions of `viaduct._errors`, with the texts of the command.

use std::fmt::Display;
use std::time::Duration;

use pyo3::PyErr;
use viaduct_programs::verbs::CompletionStatus;
use viaduct_provider::via::Status;
use viaduct_provider::{CompletionError, Error, ReturnCode};
use viaduct_report::Summary;
use viaduct_scenario::Diagnostics;
use viaduct_sweep::SweepError;

mod classes {
    pyo3::import_exception!(viaduct._errors, DeadlockError);
    pyo3::import_exception!(viaduct._errors, DescriptorError);
    pyo3::import_exception!(viaduct._errors, FabricError);
    pyo3::import_exception!(viaduct._errors, FlushedError);
    pyo3::import_exception!(viaduct._errors, RunError);
    pyo3::import_exception!(viaduct._errors, ScenarioError);
    pyo3::import_exception!(viaduct._errors, TimeLimitError);
}

/// What is wrong with a scenario, as the command prints it.
pub(crate) fn scenario(diagnostics: &Diagnostics) -> PyErr {
    classes::ScenarioError::new_err(diagnostics.render(false).trim_end().to_owned())
}

/// What is wrong with a network or a setting, with advice if there is any.
pub(crate) fn scenario_text(title: impl Display, help: Option<&str>) -> PyErr {
    classes::ScenarioError::new_err(text(title, help))
}

/// Why a scenario cannot be run, or a message not explained; with advice if there is any.
pub(crate) fn run(title: impl Display, help: Option<&str>) -> PyErr {
    classes::RunError::new_err(text(title, help))
}

/// What is wrong with some runs, an error each; none if nothing is.
pub(crate) fn broken<'a>(runs: impl Iterator<Item = &'a Summary>) -> Option<String> {
    let told = runs.flat_map(|run| run.violations.iter().map(|violation| run.told(violation)));
    let texts: Vec<String> = told.map(|(title, help)| text(title, Some(help))).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn text(title: impl Display, help: Option<&str>) -> String {
    match help {
        Some(help) => format!("error: {title}\nhelp: {help}"),
        None => format!("error: {title}"),
    }
}

/// Why a sweep cannot begin, go on, or keep what was made.
pub(crate) fn sweep(error: &SweepError) -> PyErr {
    match error {
        SweepError::Scenario(diagnostics) => scenario(diagnostics),
        SweepError::Other { title, help } => run(title, help.as_deref()),
    }
}

/// What a fabric refuses, with the name of its code.
pub(crate) fn fabric(code: &'static str, text: String) -> PyErr {
    classes::FabricError::new_err((text, code))
}

/// The same, of a fabric's error.
pub(crate) fn refused(error: Error) -> PyErr {
    refused_as(error.code(), error.to_string())
}

/// The same in other words.
pub(crate) fn refused_as(code: ReturnCode, text: String) -> PyErr {
    match code {
        ReturnCode::Timeout => time_limit(text),
        _ => classes::FabricError::new_err((text, format!("{code:?}"))),
    }
}

/// A time limit that passed.
pub(crate) fn time_limit(text: String) -> PyErr {
    classes::TimeLimitError::new_err((text, "Timeout"))
}

/// Two uses of one thing at once, by threads.
pub(crate) fn in_use() -> PyErr {
    fabric(
        "InvalidState",
        "it is used at this moment, or on another fabric: one program uses it, from one thread"
            .to_owned(),
    )
}

/// Why no completed descriptor came.
pub(crate) fn completion(error: &CompletionError) -> PyErr {
    match error {
        CompletionError::Failed { status, .. } => {
            let arguments = (error.to_string(), status.bits());
            if status.contains(Status::FLUSHED_ERROR) {
                classes::FlushedError::new_err(arguments)
            } else {
                classes::DescriptorError::new_err(arguments)
            }
        }
        CompletionError::Fabric(error) => refused(error.clone()),
        other => fabric("InvalidState", format!("{other}: post one first")),
    }
}

/// A request of a queue pair that failed.
pub(crate) fn work_completion(request: u64, status: CompletionStatus) -> PyErr {
    let why = status.text().to_string_lossy();
    let text = format!("request {request}: {why}");
    let arguments = (text, status.number());
    match status {
        CompletionStatus::FlushError => classes::FlushedError::new_err(arguments),
        _ => classes::DescriptorError::new_err(arguments),
    }
}

/// Nothing can happen any more, and these wait.
pub(crate) fn deadlock(waiting: &[String], at_us: f64, messages: u64) -> PyErr {
    let lines = waiting.join("\n  ");
    classes::DeadlockError::new_err(format!(
        "at {at_us:.3} us, after {messages} messages, nothing is left that could happen:\n  {lines}"
    ))
}

/// A program between real processes that waited too long.
pub(crate) fn patience(limit: Duration, words: &str) -> PyErr {
    classes::DeadlockError::new_err(format!(
        "the time limit of the run, {} s, has passed: {words}",
        limit.as_secs_f64()
    ))
}
