//! How cases ended, as values and as a table.

use std::fmt;
use std::time::Duration;

use crate::case::Case;
use crate::check::{Outcome, Stop};

/// How a case ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending {
    /// Every side passed.
    Passed,
    /// The fabric does not have what the case is about.
    Skipped(String),
    /// What was expected, and what was, side by side.
    Failed(String),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which case.
    pub case: Case,
    /// How it ended.
    pub ending: Ending,
    /// How long it took.
    pub duration: Duration,
}

/// All of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The fabric, and how the sides were run.
    pub title: String,
    /// In the order of the cases.
    pub reports: Vec<Report>,
}

/// Which cases to run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Numbers, or parts of identifiers; a case that fits one of them is run. All if empty.
    pub words: Vec<String>,
    /// Whether a word must be a whole identifier.
    pub exact: bool,
    /// Whether nothing more is run after a case that failed, wherever this filter is used.
    pub until_failure: bool,
}

impl Filter {
    /// Whether a case is to be run.
    #[must_use]
    pub fn takes(&self, case: &Case) -> bool {
        let identifier = case.identifier();
        let fits = |word: &String| {
            if self.exact {
                *word == identifier
            } else {
                match word.parse::<u16>() {
                    Ok(number) => number == case.number,
                    Err(_) => identifier.contains(word.as_str()),
                }
            }
        };
        self.words.is_empty() || self.words.iter().any(fits)
    }
}

impl Summary {
    /// How many cases passed, were skipped, and failed.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let count =
            |wanted: fn(&Ending) -> bool| self.reports.iter().filter(|r| wanted(&r.ending)).count();
        [
            count(|ending| matches!(ending, Ending::Passed)),
            count(|ending| matches!(ending, Ending::Skipped(_))),
            count(|ending| matches!(ending, Ending::Failed(_))),
        ]
    }

    /// Whether no case failed, and at least one passed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let [passed, _, failed] = self.counts();
        passed > 0 && failed == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            number,
            name,
            level,
            ..
        } = self.case;
        let took = self.duration.as_millis();
        write!(formatter, "{number:>4} {level} {name:<58} ")?;
        match &self.ending {
            Ending::Passed => write!(formatter, "ok {took:>5} ms"),
            Ending::Skipped(reason) => write!(formatter, "skipped: {reason}"),
            Ending::Failed(reason) => {
                write!(formatter, "FAILED {took} ms")?;
                reason
                    .lines()
                    .try_for_each(|line| write!(formatter, "\n         {line}"))
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, skipped, failed] = self.counts();
        write!(
            formatter,
            "{}: {passed} passed, {skipped} skipped, {failed} failed, of {} cases",
            self.title,
            self.reports.len()
        )?;
        for report in &self.reports {
            let Case { number, name, .. } = report.case;
            match &report.ending {
                Ending::Passed => {}
                Ending::Skipped(reason) => {
                    write!(formatter, "\n  skipped {number} {name}: {reason}")?;
                }
                Ending::Failed(_) => write!(formatter, "\n  failed {number} {name}")?,
            }
        }
        Ok(())
    }
}

/// How a side ended; a side that has not ended when the time is over has none.
pub type SideEnding = Option<Outcome>;

/// What the endings of its sides make of a case.
#[must_use]
pub fn ending_of(sides: &[SideEnding]) -> Ending {
    let mut failures = Vec::new();
    let mut skipped = None;
    let mut stopped = Vec::new();
    for (side, ending) in sides.iter().enumerate() {
        match ending {
            None => failures.push(format!("side {side}: hangs")),
            Some(Ok(())) => {}
            Some(Err(Stop::Failed(reason))) => failures.push(format!("side {side}: {reason}")),
            Some(Err(Stop::Skipped(reason))) => skipped = Some(reason.clone()),
            Some(Err(Stop::OtherSide(reason))) => {
                stopped.push(format!("side {side}: waited for the other side: {reason}"));
            }
        }
    }
    // A side that waited in vain for one that failed or skipped has nothing to add.
    if !failures.is_empty() {
        return Ending::Failed(failures.join("\n"));
    }
    match skipped {
        Some(reason) => Ending::Skipped(reason),
        None if stopped.is_empty() => Ending::Passed,
        None => Ending::Failed(stopped.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Level;

    #[test]
    fn the_side_that_knows_why_decides() {
        let failed = || Some(Err(Stop::Failed("why".into())));
        let skipped = || Some(Err(Stop::Skipped("lacks it".into())));
        let alone = || Some(Err(Stop::OtherSide("gone".into())));
        assert_eq!(ending_of(&[Some(Ok(())), Some(Ok(()))]), Ending::Passed);
        assert_eq!(
            ending_of(&[failed(), alone()]),
            Ending::Failed("side 0: why".into())
        );
        assert_eq!(
            ending_of(&[None, Some(Ok(()))]),
            Ending::Failed("side 0: hangs".into())
        );
        assert_eq!(
            ending_of(&[alone(), skipped()]),
            Ending::Skipped("lacks it".into())
        );
        assert_eq!(
            ending_of(&[skipped(), failed()]),
            Ending::Failed("side 1: why".into())
        );
        assert!(matches!(
            ending_of(&[Some(Ok(())), alone()]),
            Ending::Failed(_)
        ));
    }

    #[test]
    fn cases_are_found_by_number_and_by_part_of_the_name() {
        let case = Case::alone(7, Level::EarlyAdopter, "transfer_too_long", &[|_| Ok(())]);
        let takes = |words: &[&str], exact| {
            Filter {
                words: words.iter().map(ToString::to_string).collect(),
                exact,
                ..Filter::default()
            }
            .takes(&case)
        };
        assert!(takes(&[], false));
        assert!(takes(&["7"], false));
        assert!(!takes(&["70"], false));
        assert!(!takes(&["0"], false));
        assert!(takes(&["nothing", "too_long"], false));
        assert!(!takes(&["too_long"], true));
        assert!(takes(&["case_07_transfer_too_long"], true));
    }
}
