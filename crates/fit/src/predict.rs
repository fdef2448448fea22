//! What simulated hosts of a preset measure: the programs of `viaduct measure` run on them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_measure::{Host, MeasureError, Meeting, Plan, Row, Test};
use viaduct_scenario::{Preset, programs_of};
use viaduct_simfabric::{Process, Simulation, SimulationError};

use crate::error::FitError;
use crate::measured::{Measured, Point};

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
    let mut simulation = Simulation::new(config);
    let meeting = Meeting {
        device: "sim0".to_owned(),
        host: Some("host1".to_owned()),
        discriminator: b"measure".to_vec(),
    };
    let level = plan.level;
    let shared: Arc<Mutex<(Vec<Row>, Option<MeasureError>)>> = Arc::default();
    let (results, place) = (Arc::clone(&shared), meeting.clone());
    simulation.spawn(0, move |process| {
        let fabric = process.fabric();
        let host = SimulatedHost(process);
        match viaduct_measure::initiate(&*fabric, &place, &plan, &host, |_| {}) {
            Ok(rows) => lock(&results).0 = rows,
            Err(error) => lock(&results).1 = Some(error),
        }
    });
    let results = Arc::clone(&shared);
    simulation.spawn(1, move |process| {
        let fabric = process.fabric();
        let host = SimulatedHost(process);
        if let Err(error) = viaduct_measure::respond(&*fabric, &meeting, level, &host) {
            lock(&results).1.get_or_insert(error);
        }
    });
    simulation.stop_when(stop);
    let outcome = simulation.run();
    let (rows, error) = std::mem::take(&mut *lock(&shared));
    match (outcome, error) {
        (Err(SimulationError::Stopped { .. }), _) => Err(FitError::Stopped),
        (_, Some(error)) => Err(FitError::Broken {
            reason: error.to_string(),
        }),
        (Err(error), None) => Err(FitError::Broken {
            reason: error.to_string(),
        }),
        (Ok(_), None) => Ok(rows),
    }
}

/// A simulated host as the measuring programs know one.
struct SimulatedHost(Process);

impl Host for SimulatedHost {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.now().as_nanos()).unwrap_or(u64::MAX)
    }

    fn relax(&self) {
        self.0.relax();
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
