//! The programs of `viaduct measure` between two simulated hosts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_measure::{Asker, Host, MeasureError, Meeting, Plan, Row};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Counts, Process, Shortage, Simulation, SimulationError};

/// The result of measuring between two simulated hosts.
#[derive(Debug)]
pub struct Simulated {
    /// The rows that there are.
    pub rows: Vec<Row>,
    /// Whether there are all; [`SimulationError::Stopped`] when the caller asked for the end.
    pub ending: Result<(), Broken>,
    /// Simulated time at the end.
    pub end: Duration,
    /// What happened on the way.
    pub counts: Counts,
    /// What became short on the adapters.
    pub shortages: Vec<Shortage>,
}

/// What ended a measurement early.
#[derive(Debug)]
pub enum Broken {
    /// A program, of the side that asks if both failed.
    Program(MeasureError),
    /// The simulation.
    Simulation(SimulationError),
}

/// Runs a plan between the first host and the last; with several askers ([`Plan::asker`]) the first
/// so many hosts ask, and a row is what they measure together.
///
/// It ends with the first program that fails: whom the other waits for is gone.
///
/// # Panics
///
/// For faults or traffic that cannot be, as [`Simulation::new`] does.
#[must_use]
pub fn measure_simulated(
    config: SimulationConfig,
    plan: Plan,
    stop: impl Fn() -> bool + 'static,
) -> Simulated {
    measure_in(&mut Simulation::new(config), plan, stop)
}

/// The same in a simulation in which nothing has begun: for whoever watches it.
#[must_use]
pub fn measure_in(
    simulation: &mut Simulation,
    plan: Plan,
    stop: impl Fn() -> bool + 'static,
) -> Simulated {
    let last = simulation.hosts() - 1;
    let meeting = Meeting {
        device: "sim0".to_owned(),
        host: Some(format!("host{last}")),
        discriminator: b"measure".to_vec(),
    };
    let level = plan.level;
    let shared: Arc<Mutex<Told>> = Arc::default();
    let (told, place) = (Arc::clone(&shared), meeting.clone());
    let of = plan.asker.of.clamp(1, last);
    lock(&told).rows.resize(of as usize, Vec::new());
    for number in 0..of {
        let (told, place) = (Arc::clone(&told), place.clone());
        let mut plan = plan.clone();
        plan.asker = Asker { number, of };
        simulation.spawn(number, move |process| {
            let fabric = process.fabric();
            let host = SimulatedHost(process);
            let on_row = |row: &Row| lock(&told).rows[number as usize].push(row.clone());
            let outcome = viaduct_measure::initiate(&*fabric, &place, &plan, &host, on_row);
            if let Err(error) = outcome {
                lock(&told).asking.get_or_insert(error);
            }
        });
    }
    let told = Arc::clone(&shared);
    simulation.spawn(last, move |process| {
        let fabric = process.fabric();
        let host = SimulatedHost(process);
        let outcome = viaduct_measure::respond(&*fabric, &meeting, level, &host);
        lock(&told).answering = outcome.err();
    });
    let told = Arc::clone(&shared);
    simulation.stop_when(move || lock(&told).asking.is_some() || stop());
    let outcome = simulation.run();
    let Told {
        rows,
        asking,
        answering,
    } = std::mem::take(&mut *lock(&shared));
    let rows = together(rows);
    let ending = match (asking.or(answering), outcome) {
        (Some(error), _) => Err(Broken::Program(error)),
        (None, Err(error)) => Err(Broken::Simulation(error)),
        (None, Ok(_)) => Ok(()),
    };
    Simulated {
        rows,
        ending,
        end: simulation.now(),
        counts: simulation.counts(),
        shortages: simulation.shortages(),
    }
}

/// What the programs of the two sides tell.
#[derive(Default)]
struct Told {
    /// Of each host that asks.
    rows: Vec<Vec<Row>>,
    asking: Option<MeasureError>,
    answering: Option<MeasureError>,
}

/// The rows that all askers have, each what they measured together.
fn together(askers: Vec<Vec<Row>>) -> Vec<Row> {
    let mut askers = askers.into_iter();
    let mut rows = askers.next().unwrap_or_default();
    for other in askers {
        rows.truncate(other.len());
        for (row, other) in rows.iter_mut().zip(&other) {
            row.add(other);
        }
    }
    rows
}

/// A simulated host as the measuring programs know one.
#[derive(Debug)]
pub struct SimulatedHost(pub Process);

impl Host for SimulatedHost {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.now().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now_ps(&self) -> u64 {
        self.0.time().picoseconds()
    }

    fn compute(&self, time_ns: u64) -> u64 {
        let from_ps = self.now_ps();
        self.0.compute(Duration::from_nanos(time_ns));
        self.now_ps() - from_ps
    }

    fn relax(&self) {
        self.0.relax();
    }

    fn relax_for(&self, longest: Duration) {
        self.0.relax_for(longest);
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
