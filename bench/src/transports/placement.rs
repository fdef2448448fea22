//! Where the two cores lie: a virtual machine is moved about, and a line's time tells.
//!
//! Two cores of one cache exchange a line in 0.05 us ("near"), those of two in 0.2 us ("far"), and
//! every figure of shared memory follows. A guest cannot ask where it is, so that the line is timed
//! before and after each value.

use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use viaduct_provider::is_near_line;

use crate::floor;
use crate::protocol::{Plan, Test};
use crate::transports::cell::{Figures, read_figures};
use crate::transports::process;

/// Measurements of a value until it is given up.
const ATTEMPTS: usize = 4;
const PROBE_DURATION: Duration = Duration::from_millis(3);
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// How far apart the cores are.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    /// One cache below them.
    Near,
    /// A cache each.
    Far,
}

impl Placement {
    pub(crate) const ALL: [Self; 2] = [Self::Near, Self::Far];

    fn of(line_us: f64) -> Self {
        if is_near_line(line_us * 1e3) {
            Self::Near
        } else {
            Self::Far
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// One value with the line on both sides of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) line_before_us: f64,
    pub(crate) line_after_us: f64,
    #[serde(skip)]
    pub(crate) placement: Placement,
}

/// Times the line, and remembers it: what is after one value is before the next.
#[derive(Debug)]
pub(crate) struct Prober<L> {
    line_us: L,
    last_us: Option<f64>,
    thrown_away: usize,
}

impl<L: FnMut() -> Result<f64, String>> Prober<L> {
    /// `line_us` times the line.
    pub(crate) fn new(line_us: L) -> Self {
        Self {
            line_us,
            last_us: None,
            thrown_away: 0,
        }
    }

    /// Values that were measured while the cores moved.
    pub(crate) fn thrown_away(&self) -> usize {
        self.thrown_away
    }

    /// Measures until the line is the same before and after.
    ///
    /// # Errors
    ///
    /// What `measure` says, or that the cores never lay still.
    pub(crate) fn value(
        &mut self,
        mut measure: impl FnMut() -> Result<Figures, String>,
    ) -> Result<Sample, String> {
        for _ in 0..ATTEMPTS {
            let before = match self.last_us {
                Some(line_us) => line_us,
                None => (self.line_us)()?,
            };
            self.last_us = None;
            let figures = measure()?;
            let after = (self.line_us)()?;
            self.last_us = Some(after);
            let placement = Placement::of(before);
            if placement == Placement::of(after) {
                return Ok(Sample {
                    figures,
                    line_before_us: before,
                    line_after_us: after,
                    placement,
                });
            }
            self.thrown_away += 1;
        }
        Err(format!(
            "the cores moved in each of {ATTEMPTS} measurements"
        ))
    }
}

/// The time of a line between `cores`, by the floor.
///
/// # Errors
///
/// When the floor does not run.
pub(crate) fn line_us(cores: [usize; 2]) -> Result<f64, String> {
    let plan = Plan {
        kind: floor::LINE.to_owned(),
        test: Test::Latency,
        bytes: 8,
        touched: false,
        duration: PROBE_DURATION,
        cores,
    };
    let mut command = Command::new(process::own_program()?);
    command.arg(floor::FIRST).args(plan.arguments());
    let output = process::run(&mut command, PROBE_LIMIT)?;
    Ok(read_figures(Test::Latency, &output)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prober(lines: &[f64]) -> Prober<impl FnMut() -> Result<f64, String>> {
        let mut lines = lines.iter().copied();
        Prober::new(move || lines.next().ok_or("no more lines".to_owned()))
    }

    fn figures(value: f64) -> Result<Figures, String> {
        Ok(Figures {
            value,
            ..Figures::default()
        })
    }

    #[test]
    fn value_between_two_placements_is_thrown_away() {
        let mut prober = prober(&[0.05, 0.21, 0.20, 0.06, 0.05]);
        let mut values = [1.0, 2.0].into_iter();
        let sample = prober
            .value(|| figures(values.next().expect("a value")))
            .expect("measured");
        assert_eq!(
            (sample.figures.value, sample.placement),
            (2.0, Placement::Far)
        );
        assert_eq!((sample.line_before_us, sample.line_after_us), (0.21, 0.20));
        assert_eq!(prober.thrown_away(), 1);
        // The line after one value is the line before the next.
        let mut values = [3.0, 4.0].into_iter();
        let sample = prober
            .value(|| figures(values.next().expect("a value")))
            .expect("measured");
        assert_eq!(
            (sample.figures.value, sample.placement),
            (4.0, Placement::Near)
        );
        assert_eq!(prober.thrown_away(), 2);
    }

    #[test]
    fn cores_that_never_lie_still_are_given_up() {
        let mut prober = prober(&[0.05, 0.2, 0.05, 0.2, 0.05, 0.2]);
        assert_eq!(
            prober.value(|| figures(1.0)).unwrap_err(),
            "the cores moved in each of 4 measurements"
        );
    }

    #[test]
    fn failure_of_a_value_is_not_repeated() {
        let mut prober = prober(&[0.05, 0.05]);
        let mut runs = 0;
        let failed = prober.value(|| {
            runs += 1;
            Err("crashed".to_owned())
        });
        assert_eq!((failed.unwrap_err().as_str(), runs), ("crashed", 1));
    }
}
