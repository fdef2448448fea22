//! What simulated hosts of a preset measure: the programs of `viaduct measure` run on them.

use viaduct_measure::{Plan, Row, Test};
use viaduct_programs::SimulationError;
use viaduct_scenario::{Preset, programs_of};

use crate::error::FitError;
use crate::measured::{Measured, Point};
use crate::pair::{Broken, measure_simulated};

/// How exact a prediction is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Care {
    /// As quick as may be; only the points of the fit.
    Searching,
    /// As `viaduct measure` does it on simulated hosts; every point.
    Final,
}

impl Care {
    fn takes(self, point: &Point) -> bool {
        self == Self::Final || !point.is_held_out
    }

    /// Round trips or messages that are timed.
    const fn iterations(self, test: Test) -> u64 {
        match (self, test) {
            (Self::Final, _) => 200,
            // Nanoseconds of a clock over so many round trips.
            (Self::Searching, Test::Latency) => 16,
            (Self::Searching, _) => 1,
        }
    }
}

/// A size's time for each measurement and point that `care` takes, in order, in microseconds.
pub(crate) fn times(
    preset: &Preset,
    measured: &[Measured],
    care: Care,
    stop: &(impl Fn() -> bool + Clone + 'static),
) -> Result<Vec<f64>, FitError> {
    let mut times = Vec::new();
    for each in measured {
        let sizes = each.points.iter().filter(|point| care.takes(point));
        let mut plan = Plan::usual(each.test);
        plan.sizes = sizes.map(|point| point.bytes).collect();
        if plan.sizes.is_empty() {
            continue;
        }
        plan.mode = each.mode;
        plan.level = each.level;
        plan.iterations = Some(care.iterations(each.test));
        let rows = run(preset, plan, stop.clone())?;
        times.extend(rows.iter().map(|row| match row {
            Row::Latency(row) => row.half_rtt_us.median,
            Row::Stream(row) => 1e6 / row.messages_s,
            Row::CompletionQueue(row) => 1e6 / row.requests_s,
        }));
    }
    Ok(times)
}

fn run(
    preset: &Preset,
    plan: Plan,
    stop: impl Fn() -> bool + 'static,
) -> Result<Vec<Row>, FitError> {
    let config = programs_of(preset, &preset.name, None, 2).map_err(FitError::Base)?;
    let measured = measure_simulated(config, plan, stop);
    match measured.ending {
        Ok(()) => Ok(measured.rows),
        Err(Broken::Simulation(SimulationError::Stopped { .. })) => Err(FitError::Stopped),
        Err(Broken::Simulation(error)) => Err(FitError::Broken {
            reason: error.to_string(),
        }),
        Err(Broken::Program(error)) => Err(FitError::Broken {
            reason: error.to_string(),
        }),
    }
}
