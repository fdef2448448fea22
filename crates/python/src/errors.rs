//! Errors as the exceptions of `viaduct._errors`, with the texts of the command.

use std::fmt::Display;

use pyo3::PyErr;
use viaduct_scenario::Diagnostics;
use viaduct_sweep::SweepError;

mod classes {
    pyo3::import_exception!(viaduct._errors, RunError);
    pyo3::import_exception!(viaduct._errors, ScenarioError);
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
