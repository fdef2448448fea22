//! How a command ends.

use std::fmt;

use viaduct_cluster::RunError;
use viaduct_scenario::Diagnostics;
use viaduct_sweep::SweepError;

use crate::output;

/// The exit codes that the program promises.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// All went well.
    Fine,
    /// What the user gave cannot be used.
    WrongInput,
    /// A run failed a check on itself, a rerun differs, or a measurement broke.
    AssumptionBroke,
    /// A figure is farther off than its tolerance.
    TargetMissed,
    /// Stopped by Ctrl-C: what a shell expects of a program that a signal stopped.
    Interrupted,
}

impl Exit {
    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::WrongInput => 1,
            Self::AssumptionBroke => 2,
            Self::TargetMissed => 3,
            Self::Interrupted => 130,
        }
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The scenario is wrong: messages that point at their places.
    Scenario(Diagnostics),
    /// A measurement broke: the other side has gone, wrong data arrived.
    Broken {
        /// What happened.
        title: String,
        /// What else is known.
        help: Option<String>,
    },
    /// Anything else: what, and what to do about it.
    Other {
        /// What is wrong.
        title: String,
        /// What to do instead.
        help: Option<String>,
    },
}

impl Failure {
    /// A study that cannot be run.
    pub(crate) fn of_run(study: &str, error: &RunError) -> Self {
        Self::plain(format_args!("{study} cannot be run: {error}"))
    }

    /// A failure with advice.
    pub(crate) fn new(title: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Other {
            title: title.into(),
            help: Some(help.into()),
        }
    }

    /// A failure that says all in one line.
    pub(crate) fn plain(title: impl fmt::Display) -> Self {
        Self::Other {
            title: title.to_string(),
            help: None,
        }
    }

    /// What is wrong, without advice.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Scenario(diagnostics) => diagnostics.render(false),
            Self::Broken { title, .. } | Self::Other { title, .. } => title.clone(),
        }
    }

    /// The exit code that goes with it.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Broken { .. } => Exit::AssumptionBroke,
            Self::Scenario(_) | Self::Other { .. } => Exit::WrongInput,
        }
    }

    /// Tells the user on stderr.
    pub(crate) fn print(&self) {
        match self {
            Self::Scenario(diagnostics) => output::note(&diagnostics.render(output::is_coloured())),
            Self::Broken { title, help } | Self::Other { title, help } => {
                output::message("error", title, help.as_deref())
            }
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Scenario(diagnostics)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Scenario(diagnostics) => Self::Scenario(diagnostics),
            SweepError::Other { title, help } => Self::Other { title, help },
        }
    }
}
