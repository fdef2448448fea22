//! A measurement between two simulated hosts, in their own time.

use std::time::Instant;

use viaduct_engine::Time;
use viaduct_fit::{Broken, measure_in};
use viaduct_hardware::{Mechanism, Stage};
use viaduct_measure::{
    Around, Happened, MeasureError, Origin, Plan, Report, Row, Stages, Test, Transfer,
};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Simulation, SimulationError, breakdown, way};
use viaduct_scenario::{ProgramsError, load_preset, load_programs, read_faults};

use crate::failure::Failure;
use crate::inspection::{self, Account};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::measure::{Ending, Measured, Task};
use crate::output;

/// What such fabrics' names begin with.
const PREFIX: &str = "sim:";

/// Repetitions of a row if nobody says: simulated time does not vary.
const ITERATIONS: u64 = 200;

/// Requests of each connection in a row with an offered load, if nobody says.
const LOADED_ROUNDS: u64 = 100;

/// Requests of a row with as many as are answered, if nobody says, and the least of a connection.
const REQUESTS: u64 = 20_000;
const ROUNDS_MIN: u64 = 10;

/// Hosts of a model, in the network of a study if one is named.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    name: String,
    config: SimulationConfig,
    /// Hosts of them that ask the last one.
    clients: u32,
}

impl Simulated {
    /// The hosts of a name `sim:MODEL` or `sim:MODEL@STUDY`, so many of which ask; `None` for a
    /// name of another kind.
    ///
    /// # Errors
    ///
    /// What is wrong with the model or the study.
    pub(crate) fn named(name: &str, clients: u32) -> Option<Result<Self, Failure>> {
        let rest = name.strip_prefix(PREFIX)?;
        let (model, study) = match rest.split_once('@') {
            Some((model, study)) => (model, Some(study)),
            None => (rest, None),
        };
        Some(Self::of(name, model, study, clients))
    }

    /// A pair of hosts of a model.
    ///
    /// # Errors
    ///
    /// As [`Simulated::named`].
    pub(crate) fn of_model(model: &str) -> Result<Self, Failure> {
        Self::of(&format!("{PREFIX}{model}"), model, None, 1)
    }

    /// Others of the same name, so many of which ask.
    ///
    /// # Errors
    ///
    /// As [`Simulated::named`].
    pub(crate) fn with_clients(&self, clients: u32) -> Result<Self, Failure> {
        Self::named(&self.name, clients).unwrap_or_else(|| Ok(self.clone()))
    }

    /// As it was called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is simulated.
    pub(crate) const fn config(&self) -> &SimulationConfig {
        &self.config
    }

    /// What a measurement on them says of where it was made.
    pub(crate) fn origin(&self) -> Origin {
        Origin::simulated(VERSION, self.config.links.sharing.name())
    }

    /// Whether anything but the programs uses the hosts and links, or goes wrong there.
    pub(crate) fn is_disturbed(&self) -> bool {
        let config = &self.config;
        config.around.is_some() || !config.faults.is_empty() || !config.background.is_empty()
    }

    /// Whether the hosts' adapters have queue pairs.
    pub(crate) fn has_queue_pairs(&self) -> bool {
        matches!(self.config.host.common().mechanism, Mechanism::Rdma(_))
    }

    /// The largest message that all hosts take.
    pub(crate) fn transfer_max_bytes(&self) -> Option<u32> {
        let models = self.config.host.values();
        models.map(|host| host.transfer_max_bytes).min()
    }

    fn of(name: &str, model: &str, study: Option<&str>, clients: u32) -> Result<Self, Failure> {
        // What is wrong with a preset is shown as `viaduct models` shows it.
        load_preset(model)?;
        let config =
            load_programs(model, study, clients.saturating_add(1)).map_err(
                |error| match error {
                    ProgramsError::Wrong(diagnostics) => Failure::from(diagnostics),
                    other => Failure::plain(other),
                },
            )?;
        if config.host_count() < 2 {
            let title = format!("`{name}` has one host: a measurement takes two");
            return Err(Failure::plain(title));
        }
        let others = config.host_count() - 1;
        if clients > others {
            return Err(Failure::new(
                format!("`{name}` has no {clients} hosts beside the one that they ask"),
                format!("its network has {others} others: --hosts {others}, or another study"),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            config,
            clients,
        })
    }

    /// Says no to a way of moving bytes: the model has its own.
    ///
    /// # Errors
    ///
    /// When one is asked for.
    pub(crate) fn tune(&self, transfer: Option<Transfer>) -> Result<(), Failure> {
        match transfer {
            None | Some(Transfer::Auto) => Ok(()),
            Some(other) => Err(Failure::new(
                format!("--transfer {other} means nothing for `{}`", self.name),
                "a simulated adapter moves bytes as its model says: sim:clan-pio, sim:clan-dma",
            )),
        }
    }

    /// Has faults strike, beside those of the study.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub(crate) fn suffer(&mut self, lines: &[String]) -> Result<(), Failure> {
        let faults = read_faults(lines, &self.config.topology)?;
        self.config.faults.extend(faults);
        Ok(())
    }

    /// Leaves out the traffic of the study.
    ///
    /// # Errors
    ///
    /// When no study was named.
    pub(crate) fn silence(&mut self) -> Result<(), Failure> {
        let around = self.config.around.take();
        around.map(drop).ok_or_else(|| no_study(&self.name))
    }

    /// Whether the hosts can carry the traffic of the study.
    ///
    /// # Errors
    ///
    /// When they cannot.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.config.check_around().map_err(|error| {
            Failure::new(
                format!("`{}`: {error}", self.name),
                "`--no-traffic` leaves the study's messages out",
            )
        })
    }

    /// Has faults and traffic of others follow a seed, in place of the study's.
    pub(crate) const fn draw_from(&mut self, seed: u64) {
        self.config.seed = seed;
    }

    /// What the programs are told: as many repetitions as are enough here, if nobody says.
    pub(crate) fn plan(&self, task: &Task) -> Plan {
        let mut plan = task.plan.clone();
        plan.asker.of = self.clients;
        let usual = if plan.test == Test::Cq {
            let connections = plan.connections.iter().copied().max().unwrap_or_default();
            if plan.loads_requests_s.is_empty() {
                REQUESTS.max(ROUNDS_MIN * u64::from(connections))
            } else {
                LOADED_ROUNDS * u64::from(connections)
            }
        } else {
            ITERATIONS
        };
        plan.iterations = plan.iterations.or(Some(usual));
        plan
    }

    /// Measures between the first host and the last; tells how many rows are done after each.
    pub(crate) fn measure(
        &self,
        task: &Task,
        interrupt: &Interrupt,
        on_row: &mut dyn FnMut(usize),
    ) -> Measured {
        let plan = self.plan(task);
        let asked = interrupt.clone();
        let started = Instant::now();
        let mut simulation = Simulation::new(self.config.clone());
        if task.has_account {
            simulation.keep_account(0);
        }
        if let Some(selection) = task.recorded {
            simulation.record(selection);
        }
        let measured = measure_in(&mut simulation, plan.clone(), move || asked.is_asked());
        let account = task
            .has_account
            .then(|| Account::of(&simulation, started.elapsed().as_secs_f64()));
        for shortage in &measured.shortages {
            let title = format!("{}: {shortage}", self.name);
            output::message(
                "warning",
                &title,
                Some("`viaduct models` has the adapter's numbers"),
            );
        }
        let mut rows = measured.rows;
        for row in &mut rows {
            count_all(row);
            if task.plan.test != Test::Cq {
                row.set_stages(self.stages_us(row.variant()));
            }
        }
        on_row(rows.len());
        let mut report = Report::new(&self.name, &plan, Transfer::Auto, None, rows);
        report.origin = self.origin();
        let counts = measured.counts;
        if !self.config.faults.is_empty() || !self.config.background.is_empty() {
            report.faults = Some(Happened {
                simulated_us: measured.end.as_nanos() as f64 / 1e3,
                messages: counts.messages,
                messages_lost: counts.lost,
                messages_corrupted: counts.corrupted,
                connections_broken: counts.connections_broken,
                background_transfers: counts.transfers,
            });
        }
        report.around = self.config.around.as_ref().map(|around| {
            let told = simulation.around();
            Around {
                begun_us: around.warmup.microseconds_f64(),
                ended_us: measured.end.as_nanos() as f64 / 1e3,
                messages_posted: told.posted,
                messages_delivered: told.delivered,
                messages_dropped: told.dropped,
                messages_in_flight: told.in_flight,
            }
        });
        let help = self.why_broken(report.faults.as_ref());
        let broken = |title: String| Ending::Failed(Failure::Broken { title, help });
        if task.shows_links {
            report.links = account.as_ref().map(Account::links).unwrap_or_default();
        }
        let violation = account.as_ref().and_then(Account::violation);
        let ending = match measured.ending {
            Ok(()) => match violation {
                Some(violation) => Ending::Failed(inspection::broken(violation)),
                None => Ending::Complete,
            },
            Err(Broken::Simulation(SimulationError::Stopped { .. })) => Ending::Interrupted,
            Err(Broken::Program(MeasureError::Impossible { reason })) => {
                Ending::Failed(Failure::plain(reason))
            }
            Err(Broken::Program(error)) => broken(error.to_string()),
            Err(Broken::Simulation(error)) => broken(error.to_string()),
        };
        Measured {
            report,
            account: account.map(Box::new),
            ending,
        }
    }
}

/// Says that a fabric has no traffic around it.
pub(crate) fn no_study(fabric: &str) -> Failure {
    Failure::new(
        format!("`--no-traffic` means nothing for `{fabric}`"),
        "it is for the network of a study: --on sim:clan@torus-1024",
    )
}

impl Simulated {
    /// What faults have to do with a measurement that broke.
    fn why_broken(&self, happened: Option<&Happened>) -> Option<String> {
        let happened = happened.filter(|_| !self.config.faults.is_empty())?;
        let at_reliable_levels = match &self.config.host.common().mechanism {
            Mechanism::Rdma(model) if model.retries > 0 => format!(
                "The adapter sends again what is lost at the reliable levels, and gives a \
                 connection up after {} times without progress; what is lost",
                model.retries
            ),
            _ => "VIA sends nothing twice: what is lost breaks a connection at the reliable \
                  levels, and"
                .to_owned(),
        };
        Some(format!(
            "{happened}. {at_reliable_levels} is waited for in vain at unreliable delivery"
        ))
    }

    /// Where the time of a message of so many bytes goes.
    fn stages_us(&self, bytes: u32) -> Stages {
        let stages = breakdown(&self.config, bytes).into_iter();
        stages
            .map(|(stage, time)| (stage.name().to_owned(), time.microseconds_f64()))
            .collect()
    }
}

/// Where the time of each size goes, a message alone: one column per size, in microseconds.
pub(crate) fn stages_table(hosts: &Simulated, sizes: &[u32]) -> String {
    let columns: Vec<Vec<(Stage, Time)>> = sizes
        .iter()
        .map(|bytes| breakdown(&hosts.config, *bytes))
        .collect();
    let mut text = String::from("\n  where it goes, us, a message alone and polled for:\n\n");
    let mut line = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        text.push_str(&format!("  {name:<10}{cells}\n"));
    };
    line("bytes", sizes.iter().map(u32::to_string).collect());
    let taken = sizes.iter().map(|bytes| way(&hosts.config, *bytes));
    line("way", taken.map(str::to_owned).collect());
    let rows = columns.first().map_or(0, Vec::len);
    for row in 0..rows {
        if columns.iter().all(|stages| stages[row].1 == Time::ZERO) {
            continue;
        }
        let cells = columns.iter().map(|stages| shown(stages[row].1));
        line(columns[0][row].0.name(), cells.collect());
    }
    let sums = columns.iter().map(|stages| {
        let times = stages.iter().map(|(_, time)| *time);
        shown(times.fold(Time::ZERO, |sum, time| sum + time))
    });
    line("together", sums.collect());
    text
}

fn shown(time: Time) -> String {
    format!("{:.3}", time.microseconds_f64())
}

/// Nothing interrupts a simulated host, so the whole time counts: batches may come in bursts, and
/// then the median one says little.
const fn count_all(row: &mut Row) {
    match row {
        Row::Latency(_) => {}
        Row::Stream(row) => {
            row.mbyte_s = row.mean_mbyte_s;
            row.messages_s = row.mean_messages_s;
        }
        Row::CompletionQueue(row) => row.requests_s = row.mean_requests_s,
    }
}
