//! Why there is no fit.

use std::fmt;

use viaduct_scenario::ProgramsError;

/// Why there is no fit.
#[derive(Debug)]
#[non_exhaustive]
pub enum FitError {
    /// What was measured cannot be used, or the base cannot be fitted to it.
    Unusable {
        /// What is wrong.
        problem: String,
        /// What to do instead.
        help: String,
    },
    /// The base is no preset for programs.
    Base(ProgramsError),
    /// A simulation broke.
    Broken {
        /// How.
        reason: String,
    },
    /// It was asked to stop.
    Stopped,
}

impl FitError {
    pub(crate) fn unusable(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Unusable {
            problem: problem.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for FitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { problem, help } => write!(formatter, "{problem}; {help}"),
            Self::Base(error) => error.fmt(formatter),
            Self::Broken { reason } => write!(formatter, "a simulation broke: {reason}"),
            Self::Stopped => formatter.write_str("stopped"),
        }
    }
}

impl std::error::Error for FitError {}
