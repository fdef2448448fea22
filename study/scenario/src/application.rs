//! The graph of operations that a study has its hosts carry out: from a file, traces of ranks, or a
//! collective or a program by name.

use std::sync::Arc;

use viaduct_cluster::config::UNLIMITED;
use viaduct_cluster::workload::{Application, ApplicationError, Handling, LocalLink, Protocol};
use viaduct_engine::Time;
use viaduct_hardware::Rate;
use viaduct_operations::chakra::{Groups, join, read_groups, repeat};
use viaduct_operations::collective::{
    Algorithm, Collective, CollectiveError, RANKS_MAX, Request, graph,
};
use viaduct_operations::programs::{self, Keys, Matrix, Program, ProgramError};
use viaduct_operations::{Graph, goal, trace};

use crate::build::{self, Drawn, place_at};
use crate::diagnostics::{Diagnostic, Place};
use crate::schema::{ArrivalKind, Registration, Traffic};
use crate::section::{Absent, Setting};
use crate::settings::Settings;
use crate::trace_files::TraceFiles;

/// The graph of operations that a study has so many hosts carry out, each of which takes messages
/// of so many bytes.
pub(crate) fn application(
    settings: &Settings,
    (host_count, transfer_max_bytes): (u32, u32),
    drawn: &mut Drawn<'_>,
) -> Result<Application, Absent> {
    let (traffic, hosts) = (&settings.traffic, &settings.hosts);
    let cluster = (host_count, hosts.processes.get()?);
    let arrivals = traffic.arrivals.get()?;
    let request = match arrivals {
        ArrivalKind::Collective => Some(request(traffic, cluster)?),
        _ => None,
    };
    let (graph, place) = match &request {
        Some(request) => (
            drawn.collective(traffic, request)?,
            traffic.collective.place(),
        ),
        None if arrivals == ArrivalKind::Chakra => {
            (drawn.chakra(traffic, cluster)?, traffic.file.place())
        }
        None if arrivals == ArrivalKind::Simgrid => (drawn.simgrid(traffic)?, traffic.file.place()),
        None if arrivals == ArrivalKind::Program => {
            (drawn.program(traffic, cluster)?, traffic.program.place())
        }
        None => (drawn.goal(&traffic.file)?, traffic.file.place()),
    };
    let local_rate = hosts.local_rate.optional()?;
    let local_latency = hosts.local_latency.optional()?.unwrap_or(Time::ZERO);
    let protocol = Protocol {
        eager_bytes: match traffic.eager.get()? {
            UNLIMITED => u64::MAX,
            bytes => bytes.into(),
        },
        piece_bytes: transfer_max_bytes,
        local: local_rate.map(|rate| LocalLink {
            rate,
            latency: local_latency,
        }),
        adapters: build::adapters(settings)?,
        handling: Handling {
            copy_rate: traffic.copy_rate.optional()?.unwrap_or(Rate::INFINITE),
            registers: traffic.registration.get()? == Registration::Each,
        },
    };
    let made = Application::new(graph, cluster, traffic.placement.get()?, protocol);
    let file = traffic.file.optional()?;
    let made = made.map(|made| match (request, file) {
        (Some(request), _) => made.of_request(request),
        (None, Some(file)) => made.of_file(file),
        (None, None) => made,
    });
    made.map_err(|error| {
        let told = Diagnostic::error("the cluster cannot carry the graph out").at(place);
        let told = told.label(error.to_string());
        drawn.wrong(match error {
            ApplicationError::WithinHost(_) => told.help(
                "set hosts.local_rate, and hosts.local_latency; or one process a host \
                 (hosts.processes) and placement = \"linear\"",
            ),
            ApplicationError::Ranks { .. } => {
                told.help("take a larger network, or more hosts.processes")
            }
            _ => told,
        })
    })
}

/// How fast ranks add up, if the study says so.
fn reduce_bytes_per_second(traffic: &Traffic) -> Result<Option<u64>, Absent> {
    let rate = traffic.reduce_rate.optional()?;
    Ok(rate.map(|rate| (rate.bits_per_second() / 8.0).round().max(1.0) as u64))
}

/// The collective operation that is asked for, between all processes if nothing else is said.
fn request(traffic: &Traffic, (hosts, processes): (u32, u32)) -> Result<Request, Absent> {
    let collective = traffic.collective.get()?;
    let all = hosts.saturating_mul(processes);
    let ranks = traffic.ranks.optional()?.unwrap_or(all);
    let usual = Request::usual(collective, ranks, traffic.bytes.get()?);
    Ok(Request {
        algorithm: traffic.algorithm.optional()?.unwrap_or(usual.algorithm),
        root: traffic.root.get()?,
        pieces: traffic.pieces.get()?,
        group_ranks: traffic.group_ranks.get()?,
        reduce_bytes_per_second: reduce_bytes_per_second(traffic)?,
        ..usual
    })
}

impl Drawn<'_> {
    /// The graph of the GOAL file `traffic.file`.
    fn goal(&mut self, file: &Setting<String>) -> Result<Arc<Graph>, Absent> {
        let path = &file.get()?;
        if let Some(graph) = self.files.handed_in_application(path) {
            return Ok(graph);
        }
        let known = self.files.application(path);
        // Also where the graph is known: the study carries the text.
        let text = self.files.goal_text(path).map_err(|reason| {
            let error = Diagnostic::error("cannot read the GOAL file");
            let error = error.at(file.place()).label(reason);
            self.wrong(error.help("it is a text or binary file, as in docs/guides/goal.md"))
        })?;
        if let Some(graph) = known {
            return Ok(graph);
        }
        let graph = goal::parse_text(&text).map_err(|error| {
            let source = self.diagnostics.add_source(path, &text);
            let line = error.line.map_or(1, |line| line as usize);
            let place = place_at(source, &text, line, 1);
            let told = Diagnostic::error("the GOAL file cannot be used").at(place);
            self.wrong(
                told.label(error.problem)
                    .help("docs/guides/goal.md has its form"),
            )
        })?;
        let graph = Arc::new(graph);
        self.files.keep_application(path, Arc::clone(&graph));
        Ok(graph)
    }

    /// The graph of a collective operation.
    fn collective(&mut self, traffic: &Traffic, request: &Request) -> Result<Arc<Graph>, Absent> {
        graph(request).map(Arc::new).map_err(|error| {
            let place = match error {
                CollectiveError::NoSuchAlgorithm { .. } => traffic.algorithm.place(),
                CollectiveError::Root { .. } => traffic.root.place(),
                CollectiveError::Groups { .. } => traffic.group_ranks.place(),
                _ => traffic.collective.place(),
            };
            let told = Diagnostic::error("there is no such collective").at(place);
            self.wrong(told.label(error.to_string()))
        })
    }

    /// The graph of the Chakra traces `traffic.file`, for so many hosts of so many processes.
    fn chakra(
        &mut self,
        traffic: &Traffic,
        (hosts, processes): (u32, u32),
    ) -> Result<Arc<Graph>, Absent> {
        let options = self.trace_options(traffic)?;
        let groups = self.groups(&traffic.groups)?;
        let place = traffic.file.place();
        let path = &traffic.file.get()?;
        let files = self.files.trace(path).map_err(|reason| {
            let error = Diagnostic::error("cannot read the Chakra trace");
            let error = error.at(place).label(reason);
            self.wrong(error.help("docs/guides/training-step.md says which files are read"))
        })?;
        let given = traffic.ranks.optional()?;
        let joined = match &*files {
            TraceFiles::One(file) => {
                let all = hosts.saturating_mul(processes);
                repeat(file, given.unwrap_or(all), &groups)
            }
            TraceFiles::Ranks(files) => match given {
                Some(ranks) if ranks as usize != files.len() => {
                    let told = Diagnostic::error("the trace has another number of ranks");
                    let told = told.at(traffic.ranks.place());
                    return Err(self.wrong(told.label(format!(
                        "there are files of {} ranks, one for each",
                        files.len()
                    ))));
                }
                _ => join(files, &groups),
            },
        };
        let untimed = files.notes().untimed;
        if untimed > 0 && options.operations_per_second.is_none() {
            let told = Diagnostic::warning("some computations take no time");
            let told = told.at(place).label(format!(
                "{untimed} have a number of operations (num_ops), and no time is recorded"
            ));
            let told = told.help("traffic.operations_per_second says how long they take");
            self.diagnostics.push(told);
        }
        let wrong = |problem: String| Diagnostic::error(problem).at(place);
        let joined = joined.map_err(|error| {
            let told = wrong(error.to_string());
            self.wrong(match error.problem.contains("is not known") {
                true => told
                    .help("traffic.groups = \"groups.json\" names a file such as {\"0\": [0, 1]}"),
                false => told,
            })
        })?;
        let graph = trace::graph(&joined, &options);
        graph
            .map(Arc::new)
            .map_err(|error| self.wrong(wrong(error.to_string())))
    }

    /// The graph of the SimGrid trace `traffic.file`.
    fn simgrid(&mut self, traffic: &Traffic) -> Result<Arc<Graph>, Absent> {
        let options = self.trace_options(traffic)?;
        let place = traffic.file.place();
        let trace = self.files.simgrid_trace(&traffic.file.get()?);
        let trace = trace.map_err(|reason| {
            let error = Diagnostic::error("cannot read the SimGrid trace");
            let error = error.at(place).label(reason);
            self.wrong(error.help("docs/guides/mpi-program.md says what is read"))
        })?;
        self.counted(&trace, &options, place)
    }

    /// The graph of the parallel program `traffic.program`, for so many hosts of so many processes.
    fn program(
        &mut self,
        traffic: &Traffic,
        (hosts, processes): (u32, u32),
    ) -> Result<Arc<Graph>, Absent> {
        let options = self.trace_options(traffic)?;
        let all = hosts.saturating_mul(processes);
        let copies = traffic.copies.get()?;
        let ranks = traffic.ranks.optional()?.unwrap_or(all / copies);
        let mut request = programs::Request::usual(traffic.program.get()?, ranks);
        request.iterations = traffic.iterations.optional()?;
        match request.program {
            Program::Linpack => {
                request.matrix = Matrix {
                    order: traffic.order.get()?,
                    block: traffic.block.get()?,
                    panel_broadcast: traffic.panel_broadcast.get()?,
                };
            }
            Program::RadixSort => {
                request.keys = Keys {
                    count: traffic.keys.get()?,
                    digit_bits: traffic.digit_bits.get()?,
                };
            }
            _ => request.class = traffic.class.get()?,
        }
        let trace = programs::trace(&request).map_err(|error| {
            let place = match error {
                ProgramError::Iterations { .. } => traffic.iterations.place(),
                _ if traffic.ranks.is_given() => traffic.ranks.place(),
                _ => traffic.program.place(),
            };
            let told = Diagnostic::error("there is no such program").at(place);
            self.wrong(
                told.label(error.to_string())
                    .help("traffic.ranks says how many ranks there are"),
            )
        })?;
        let in_all = ranks
            .checked_mul(copies)
            .filter(|ranks| *ranks <= RANKS_MAX);
        if in_all.is_none() {
            let told = Diagnostic::error("there are too many ranks").at(traffic.copies.place());
            return Err(self.wrong(told.label(format!(
                "{copies} copies of {ranks} ranks are more than {RANKS_MAX}"
            ))));
        }
        let trace = match copies {
            1 => trace,
            _ => trace.side_by_side(copies),
        };
        self.counted(&trace, &options, traffic.program.place())
    }

    /// The graph of a trace, all of whose computations have to take some time.
    fn counted(
        &mut self,
        trace: &trace::Trace,
        options: &trace::Options,
        place: Place,
    ) -> Result<Arc<Graph>, Absent> {
        let counting = trace.counting();
        if counting > 0 && options.operations_per_second.is_none() {
            let told = Diagnostic::error("nothing says how long computations take").at(place);
            let told = told.label(format!("{counting} of them count operations"));
            return Err(self.wrong(
                told.help("set traffic.operations_per_second, as in `operations_per_second = 2e9`"),
            ));
        }
        trace::graph(trace, options)
            .map(Arc::new)
            .map_err(|error| self.wrong(Diagnostic::error(error.to_string()).at(place)))
    }

    fn groups(&mut self, file: &Setting<String>) -> Result<Groups, Absent> {
        let Some(path) = file.optional()? else {
            return Ok(Groups::default());
        };
        let cannot = Diagnostic::error("cannot read the process groups").at(file.place());
        let text = self.files.text(&path);
        let read = text.and_then(|text| read_groups(&text).map_err(|error| error.to_string()));
        read.map_err(|reason| self.wrong(cannot.label(reason)))
    }

    /// How the collectives of a trace are done.
    fn trace_options(&mut self, traffic: &Traffic) -> Result<trace::Options, Absent> {
        let scale = traffic.compute_scale.get()?;
        if !scale.is_finite() || scale < 0.0 {
            let told = Diagnostic::error("times of computations cannot be multiplied by that");
            let told = told.at(traffic.compute_scale.place());
            return Err(self.wrong(told.label("a number of at least 0 is expected")));
        }
        let each_second = traffic.operations_per_second.optional()?;
        if each_second.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            let told = Diagnostic::error("no computation ends at that rate");
            let told = told.at(traffic.operations_per_second.place());
            return Err(self.wrong(told.label("a number above 0 is expected")));
        }
        // The sums of the programs are short: a ring would take a step for each rank.
        let is_program = traffic.arrivals.known() == Some(ArrivalKind::Program);
        let all_reduce = is_program.then_some(Algorithm::RecursiveDoubling);
        Ok(trace::Options {
            operations_per_second: each_second,
            all_reduce: self.algorithm(&traffic.all_reduce, Collective::AllReduce, all_reduce)?,
            all_gather: self.algorithm(&traffic.all_gather, Collective::AllGather, None)?,
            reduce_scatter: self.algorithm(
                &traffic.reduce_scatter,
                Collective::ReduceScatter,
                None,
            )?,
            all_to_all: self.algorithm(&traffic.all_to_all, Collective::AllToAll, None)?,
            pieces: traffic.pieces.get()?,
            group_ranks: traffic.group_ranks.get()?,
            reduce_bytes_per_second: reduce_bytes_per_second(traffic)?,
            compute_scale: scale,
        })
    }

    /// The algorithm that a key names for a collective; else the usual one, or the first there is.
    fn algorithm(
        &mut self,
        setting: &Setting<Algorithm>,
        collective: Collective,
        usual: Option<Algorithm>,
    ) -> Result<Algorithm, Absent> {
        let all = collective.algorithms();
        let chosen = setting.optional()?.or(usual).unwrap_or(all[0]);
        if all.contains(&chosen) {
            return Ok(chosen);
        }
        let error = CollectiveError::NoSuchAlgorithm {
            collective,
            algorithm: chosen,
        };
        let told = Diagnostic::error("there is no such collective").at(setting.place());
        Err(self.wrong(told.label(error.to_string())))
    }
}
