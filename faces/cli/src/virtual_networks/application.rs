//! `viaduct measure application`: what a study has ranks do, done by programs over endpoints.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use viaduct_cluster::workload::Application as Workload;
use viaduct_fit::SimulatedHost;
use viaduct_lanai::{FairLinks, HeldLinks, LinkModel, Links, Programs};
use viaduct_measure::{
    Application, ApplicationReport, ApplicationRow, MeasureError, Messaging, Origin, RequestReport,
    RequestTest, Stoppable,
};
use viaduct_programs::Simulation;
use viaduct_programs::config::SimulationConfig;
use viaduct_scenario::{
    Override, Preset, ProgramsError, Study, endpoints_in, load_preset, programs_in,
};
use viaduct_topology::HostId;
use viaduct_vi_carrier::Options;

use super::simulated::{InterfaceHost, impossible};
use super::{adapters, check, failure_of, meaningless, refuse_given};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::measure::MeasureArguments;
use crate::output;

/// Why the first program of those that failed did so.
type Failed = Arc<Mutex<Option<MeasureError>>>;

/// A cell of a study on hosts of a preset.
struct Cell<'a> {
    preset: &'a Preset,
    model: &'a str,
    name: &'a str,
    study: &'a Study,
}

/// Measures what the study of each fabric has its ranks do.
pub(crate) fn application(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let test = RequestTest::Application.name();
    check(arguments, test)?;
    if let Some(option) = arguments.contention.given() {
        return Err(meaningless(
            option,
            test,
            "it is for `viaduct measure contention`",
        ));
    }
    let of_study = "the study says it";
    let given = [
        ("--sizes", !arguments.sizes.is_empty(), of_study),
        ("--hosts", arguments.hosts.is_some(), of_study),
        (
            "--fault",
            !arguments.faults.is_empty(),
            "a study has rows of them: [[fault]]",
        ),
        (
            "--no-traffic",
            arguments.no_traffic,
            "it is the traffic of the study",
        ),
        (
            "--iterations",
            arguments.iterations.is_some(),
            "simulated time does not vary",
        ),
        (
            "--cores",
            arguments.cores.is_some(),
            "its hosts are simulated",
        ),
        ("--plot", arguments.plot.is_some(), "--json has all numbers"),
    ];
    refuse_given(test, given)?;
    let overrides = arguments.overrides.iter();
    let overrides = overrides.map(|text| Override::listed(text.as_str()));
    let overrides: Vec<Override> = overrides
        .chain(arguments.seed.map(Override::seed))
        .collect();
    let interrupt = Interrupt::listen();
    let mut reports = Vec::new();
    let mut exit = Exit::Fine;
    for fabric in &arguments.fabrics {
        let report = measure(fabric, &overrides, &interrupt)?;
        for row in &report.figures.rows {
            if let Some(broken) = broken(row) {
                output::message("error", &broken, None);
                exit = Exit::AssumptionBroke;
            }
        }
        reports.push(report);
    }
    let text = match (arguments.json, &reports[..]) {
        (true, [report]) => report.to_json() + "\n",
        (true, reports) => {
            let objects: Vec<String> = reports.iter().map(RequestReport::to_json).collect();
            format!("[{}]\n", objects.join(","))
        }
        (false, reports) => {
            let tables: Vec<String> = reports.iter().map(ApplicationReport::table).collect();
            tables.join("\n")
        }
    };
    output::result(&text)?;
    Ok(exit)
}

/// What was wrong with what the ranks did, if anything.
fn broken(row: &ApplicationRow) -> Option<String> {
    let stalled = row.stalled.as_ref().map(ToString::to_string);
    let misfits = (!row.misfits.is_empty()).then(|| row.misfits.to_string());
    stalled.or(misfits)
}

fn measure(
    fabric: &str,
    overrides: &[Override],
    interrupt: &Interrupt,
) -> Result<RequestReport<ApplicationReport>, Failure> {
    let test = RequestTest::Application;
    let named = fabric.strip_prefix("sim:");
    let Some((model, name)) = named.and_then(|rest| rest.split_once('@')) else {
        return Err(Failure::new(
            format!("`{fabric}` names no study, which says what the ranks do"),
            "--on sim:MODEL@STUDY: sim:am-myrinet@speed-up, or the path of a file in place of \
             either",
        ));
    };
    let preset = load_preset(model)?;
    let study = Study::load(name, overrides)?;
    if !study.warnings.is_empty() {
        output::note(&study.warnings.render(output::is_coloured()));
    }
    let cells = study.cells();
    let measured = cells.par_iter().map(|study| {
        let cell = Cell {
            preset: &preset,
            model,
            name,
            study,
        };
        let (mut row, level) = cell.measure(interrupt)?;
        row.settings.extend(study.point.iter().cloned());
        Ok((row, level))
    });
    let measured: Vec<(ApplicationRow, &str)> = measured.collect::<Result<_, Failure>>()?;
    let level = measured.first().map_or("", |(_, level)| level);
    let rows = measured.into_iter().map(|(row, _)| row).collect();
    Ok(RequestReport {
        fabric: fabric.to_owned(),
        test,
        cores: None,
        origin: Origin::simulated(VERSION, level),
        figures: ApplicationReport::new(study.name, rows),
    })
}

impl Cell<'_> {
    /// What it took, and the level of its network.
    fn measure(&self, interrupt: &Interrupt) -> Result<(ApplicationRow, &'static str), Failure> {
        let config = &self.study.config;
        let Some(workload) = config.traffic.application() else {
            return Err(Failure::new(
                format!("the study {} has no graph of operations", self.name),
                "its traffic.arrivals is \"goal\", \"chakra\", \"simgrid\", \"collective\" or \
                 \"program\"",
            ));
        };
        self.refuse(workload)?;
        let protocol = workload.protocol();
        let messaging = Messaging {
            eager_bytes: protocol.eager_bytes,
            copy_bytes_s: protocol.handling.copy_rate.bits_per_second() / 8.0,
        };
        let made = Application::new(Arc::clone(workload.graph()), messaging);
        let application = Arc::new(made.map_err(failure_of)?);
        let hosts = workload.hosts_of_ranks(&config.topology, config.run.seed);
        let (failed, ran, level) = if self.preset.has_endpoints() {
            let count = config.topology.host_count();
            let endpoints = endpoints_in(self.model, self.name, self.study, count);
            let endpoints = endpoints.map_err(wrong)?;
            let joined = endpoints.joined().map_err(Failure::plain)?;
            let places = hosts
                .iter()
                .map(|host| endpoints.host_at(&joined, HostId(*host)));
            // All hosts of the network take part.
            let places: Vec<u32> = places.map(Option::unwrap_or_default).collect();
            match endpoints.model {
                LinkModel::Wormhole => {
                    let made = Programs::<HeldLinks>::on_links(endpoints);
                    let (failed, ran) = on_interfaces(made, &places, &application, interrupt)?;
                    (failed, ran, "held")
                }
                LinkModel::Shared(sharing, _) => {
                    let made = Programs::<FairLinks>::on_links(endpoints);
                    let (failed, ran) = on_interfaces(made, &places, &application, interrupt)?;
                    (failed, ran, sharing.name())
                }
            }
        } else {
            let programs = programs_in(self.preset, self.model, self.name, self.study);
            let mut programs = programs.map_err(wrong)?;
            // The ranks are what its traffic is.
            programs.around = None;
            let level = programs.links.sharing.name();
            let (failed, ran) = on_adapters(programs, &hosts, &application, interrupt);
            (failed, ran, level)
        };
        let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (failed, application.is_over(), ran) {
            (Some(error), ..) => Err(failure_of(error)),
            (None, false, Some(why)) => Err(failure_of(impossible(why))),
            (None, ..) => Ok((application.row(), level)),
        }
    }

    /// Says no to what programs over endpoints cannot do.
    fn refuse(&self, workload: &Workload) -> Result<(), Failure> {
        let protocol = workload.protocol();
        let given = [
            (
                workload.made_for().1 > 1,
                "has several ranks on a host, each of which has one program: hosts.processes = 1",
            ),
            (
                protocol.adapters.count > 1,
                "has several adapters at a host, and endpoints are at one: hosts.adapters = 1",
            ),
            (
                protocol.handling.registers,
                "registers each message, and endpoints copy what they are given: leave \
                 traffic.registration out",
            ),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, why)) => Err(Failure::plain(format!("the study {} {why}", self.name))),
            None => Ok(()),
        }
    }
}

fn wrong(error: ProgramsError) -> Failure {
    match error {
        ProgramsError::Wrong(diagnostics) => diagnostics.into(),
        other => Failure::plain(other),
    }
}

fn keep(failed: &Failed, outcome: Result<(), MeasureError>) {
    if let Err(error) = outcome {
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
    }
}

/// Runs the ranks on interfaces with endpoints; why a program failed, and how all ended.
fn on_interfaces<N: Links + 'static>(
    made: Result<Programs<N>, viaduct_am::CarrierError>,
    places: &[u32],
    application: &Arc<Application>,
    interrupt: &Interrupt,
) -> Result<(Failed, Option<String>), Failure> {
    let mut programs = made.map_err(Failure::plain)?;
    let failed = Failed::default();
    for (rank, place) in (0..).zip(places) {
        let (application, failed) = (Arc::clone(application), Arc::clone(&failed));
        let interrupt = interrupt.clone();
        programs.spawn(*place, move |station| {
            let host = Stoppable {
                host: InterfaceHost { station: &station },
                stop_reason: || interrupt.stop_reason(),
            };
            keep(&failed, application.carry_out(rank, &station, &host));
        });
    }
    let ran = programs.run();
    Ok((failed, ran.err().map(|stuck| stuck.to_string())))
}

/// Runs the ranks over connections of VIs, as [`on_interfaces`].
fn on_adapters(
    config: SimulationConfig,
    hosts: &[u32],
    application: &Arc<Application>,
    interrupt: &Interrupt,
) -> (Failed, Option<String>) {
    let mut simulation = Simulation::new(config);
    let failed = Failed::default();
    for (rank, host) in (0..).zip(hosts) {
        let (application, failed) = (Arc::clone(application), Arc::clone(&failed));
        let interrupt = interrupt.clone();
        simulation.spawn(*host, move |process| {
            let outcome = adapters::station(&process, Options::default()).and_then(|station| {
                let host = Stoppable {
                    host: SimulatedHost(process),
                    stop_reason: || interrupt.stop_reason(),
                };
                application.carry_out(rank, &station, &host)
            });
            keep(&failed, outcome);
        });
    }
    let ran = simulation.run();
    (failed, ran.err().map(|error| error.to_string()))
}
