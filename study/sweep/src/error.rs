//! Why a sweep cannot be made.

use std::fmt;

use viaduct_scenario::Diagnostics;

/// Why a sweep cannot begin, go on, or keep what was made.
#[derive(Debug)]
pub enum SweepError {
    /// The study is wrong, whatever the cell: messages that point at their places.
    Scenario(Diagnostics),
    /// Anything else: what, and what to do about it.
    Other {
        /// What is wrong.
        title: String,
        /// What to do instead.
        help: Option<String>,
    },
}

impl SweepError {
    pub(crate) fn new(title: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Other {
            title: title.into(),
            help: Some(help.into()),
        }
    }

    pub(crate) fn plain(title: impl fmt::Display) -> Self {
        Self::Other {
            title: title.to_string(),
            help: None,
        }
    }
}

impl From<Diagnostics> for SweepError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Scenario(diagnostics)
    }
}

impl fmt::Display for SweepError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(diagnostics) => {
                formatter.write_str(diagnostics.render(false).trim_end())
            }
            Self::Other { title, help: None } => write!(formatter, "error: {title}"),
            Self::Other {
                title,
                help: Some(help),
            } => write!(formatter, "error: {title}\nhelp: {help}"),
        }
    }
}

impl std::error::Error for SweepError {}
