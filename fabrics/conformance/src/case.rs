//! What a case is.

use std::fmt;
use std::sync::Arc;

use viaduct_provider::via::outcome::Harm;

use crate::check::Outcome;
use crate::environment::Environment;

/// One side of a case. Sides run in threads or in processes of their own and share nothing but
/// the fabric and what [`Environment`] gives them.
pub type Side = fn(&Arc<Environment>) -> Outcome;

/// From which conformance level on a fabric must pass a case.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// The least a fabric has.
    EarlyAdopter,
    /// Asynchronous errors, protection, resizing, peer-to-peer connections.
    Functional,
    /// Notify handlers.
    Full,
    /// Remote reads and system management: only where the fabric says that it has them.
    Optional,
    /// Decided by this project where the specification leaves room, or an extension of it.
    Decision,
}

impl Level {
    /// The letter of the table of cases.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::EarlyAdopter => 'E',
            Self::Functional => 'F',
            Self::Full => 'X',
            Self::Optional => 'O',
            Self::Decision => 'D',
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.letter())
    }
}

/// One case: a claim about a fabric.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its number in the list of cases, 1 to 80; from 81 on those of this suite.
    pub number: u16,
    /// What it claims.
    pub name: &'static str,
    /// Who must pass it.
    pub level: Level,
    /// One side, or two that meet.
    pub sides: &'static [Side],
    /// Whether a side dies in it, so that it needs processes.
    pub kills: bool,
    /// What happens to every message in it, so that it needs a fabric that harms its messages.
    pub harm: Option<Harm>,
}

impl Case {
    /// A case with one side.
    pub(crate) const fn alone(
        number: u16,
        level: Level,
        name: &'static str,
        sides: &'static [Side; 1],
    ) -> Self {
        Self {
            number,
            name,
            level,
            sides,
            kills: false,
            harm: None,
        }
    }

    /// A case with two sides: the first asks for the connection, the second waits.
    pub(crate) const fn pair(
        number: u16,
        level: Level,
        name: &'static str,
        sides: &'static [Side; 2],
    ) -> Self {
        Self {
            number,
            name,
            level,
            sides,
            kills: false,
            harm: None,
        }
    }

    /// The name by which a filter finds it: `case_07_name`.
    #[must_use]
    pub fn identifier(&self) -> String {
        format!("case_{:02}_{}", self.number, self.name)
    }
}
