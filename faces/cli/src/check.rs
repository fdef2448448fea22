//! `viaduct check`: what a study would cost and what can go wrong, before it is run.

use viaduct_cluster::bounds::{LoadBounds, load_bounds};
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::levels::far_off;
use viaduct_cluster::result::Warning;
use viaduct_cluster::workload::Application;
use viaduct_operations::check::check as check_graph;
use viaduct_report::{count, duration};
use viaduct_topology::{FindingKind, Severity, Waiting};

use crate::arguments::CheckArguments;
use crate::cost::{Cost, bytes_text};
use crate::describe;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::planning::Prepared;

/// More channels than switches have.
const CHANNELS_MAX: u32 = 8;

/// Reads a study and says what is known of it beforehand.
pub(crate) fn check(arguments: &CheckArguments) -> Result<Exit, Failure> {
    let prepared = Prepared::new(&arguments.scenario, &arguments.seeds)?;
    prepared.print_warnings();
    let mut has_errors = false;
    let mut costs = Vec::new();
    output::result(&describe::headline(&prepared.plan))?;
    let (mut seen_topology, mut seen_graph) = (None, None);
    for cell in &prepared.plan.cells {
        let Some(config) = cell.configs.first() else {
            continue;
        };
        let label: Vec<String> = cell
            .set
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        if !label.is_empty() {
            output::result(&format!("\n{}\n", label.join(", ")))?;
        }
        // Points of a sweep mostly share their network.
        let topology = std::sync::Arc::as_ptr(&config.topology);
        if seen_topology != Some(topology) {
            seen_topology = Some(topology);
            has_errors |= report_network(config);
        }
        if let Some(application) = config.traffic.application() {
            let graph = std::sync::Arc::as_ptr(application.graph());
            if seen_graph != Some(graph) {
                seen_graph = Some(graph);
                has_errors |= report_application(application);
            }
        }
        let refused = |error| {
            Failure::plain(format_args!(
                "{} cannot be run: {error}",
                prepared.plan.study
            ))
        };
        let bounds = load_bounds(config).map_err(refused)?;
        let mut queues_grow = false;
        if let Some(bounds) = &bounds {
            output::result(&format!("  bounds   {}\n", describe::bounds_text(bounds)))?;
            queues_grow = report_overload(config, bounds);
            if let Some(Warning { text, help }) = far_off(config, bounds.busiest_link()) {
                output::message("warning", &text, help.as_deref());
            }
        }
        let mut cost = Cost::of(config).map_err(refused)?.times(cell.configs.len());
        cost.queues_grow = queues_grow;
        output::result(&cost_text(config, cost))?;
        costs.push(cost);
    }
    if costs.len() > 1 {
        output::result(&total_text(prepared.plan.run_count(), &costs))?;
    }
    Ok(if has_errors {
        Exit::WrongInput
    } else {
        Exit::Fine
    })
}

/// What is wrong with the operations that a file lists; whether they do not come to their end.
/// Those of collectives and programs are made without mistakes.
fn report_application(application: &Application) -> bool {
    let Some(file) = application.file() else {
        return false;
    };
    let faults = check_graph(application.graph());
    for fault in &faults {
        output::message("error", &format!("`{file}`: {fault}"), None);
    }
    !faults.is_empty()
}

/// What is wrong with the network; whether messages cannot arrive.
fn report_network(config: &ClusterConfig) -> bool {
    let report = config.topology.check();
    for finding in &report.findings {
        if finding.kind == FindingKind::Deadlock {
            report_deadlock(config, &finding.text);
            continue;
        }
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        output::message(level, &finding.text, Some(finding.help));
    }
    report.has_errors()
}

/// That links may wait for each other in a ring, and how many channels would end it: worth knowing
/// where messages do not hold links up, and a warning where they do.
fn report_deadlock(config: &ClusterConfig, text: &str) {
    let mut found =
        (2..=CHANNELS_MAX).map(|channels| (channels, config.topology.waiting(channels)));
    let end = match found.find(|(_, waiting)| !matches!(waiting, Waiting::Ring(_))) {
        Some((channels, Waiting::Never)) => {
            format!("{channels} channels on each link, changed on the way, end it")
        }
        Some(_) => "it is too large to say how many channels on each link end it".to_owned(),
        None => format!("{CHANNELS_MAX} channels on each link, changed on the way, do not end it"),
    };
    let model = config.links.sharing.name();
    let classes = config.links.credits.classes;
    match config.links.has_back_pressure() {
        true if classes > 1 => match config.topology.waiting(classes) {
            Waiting::Ring(ring) => {
                let text = format!(
                    "with {classes} classes of channels they may wait for each other in a ring: {}",
                    config.topology.channel_names(&ring)
                );
                let help = format!("messages may stand still at `{model}`; {end}");
                output::message("warning", &text, Some(&help));
            }
            Waiting::Never => {
                let help = format!(
                    "no message stands still at `{model}`: each link has channels of {classes} \
                     classes, changed on the way"
                );
                output::message("note", text, Some(&help));
            }
            Waiting::TooLarge => {
                let help = format!(
                    "with channels of {classes} classes no ring was found at `{model}`, but not \
                     all routes were followed"
                );
                output::message("note", text, Some(&help));
            }
        },
        true => {
            // Links that pause have one channel each.
            let at = match config.links.buffers.may_pause() {
                true => ", at links.model = \"credits\"",
                false => "",
            };
            let help =
                format!("messages hold links up at `{model}` and may stand still; {end}{at}");
            output::message("warning", text, Some(&help));
        }
        false => {
            let help =
                format!("no message holds a link up at `{model}`; hardware may stand still; {end}");
            output::message("note", text, Some(&help));
        }
    }
}

/// Overload that the scenario's own checks, which know no routes, cannot see; whether there is any.
fn report_overload(config: &ClusterConfig, bounds: &LoadBounds) -> bool {
    let (Some(saturation), Arrivals::Open(interval)) =
        (&bounds.saturation, &config.traffic.arrivals)
    else {
        return false;
    };
    let offered = 1e12 / interval.mean_picoseconds();
    let is_overload = offered > saturation.rate_per_s;
    if is_overload {
        let title = format!(
            "{offered:.1} messages/s a process are offered, but {} is full at {:.1}",
            saturation.place, saturation.rate_per_s
        );
        let help = "queues will grow until the traffic stops; lower `traffic.rate`";
        output::message("warning", &title, Some(help));
    }
    is_overload
}

fn cost_text(config: &ClusterConfig, cost: Cost) -> String {
    let messages = match cost.messages {
        Some(messages) => format!("about {} messages", count(messages as u64)),
        None => "messages as the answers allow".to_owned(),
    };
    let seconds = seconds_text(cost.seconds, cost.queues_grow);
    format!(
        "  cost     {messages}; {seconds} on one core; {} of memory ({} links, {} VIs)\n",
        bytes_text(cost.bytes),
        count(u64::from(config.topology.link_count())),
        count(cost.vis),
    )
}

fn seconds_text(seconds: Option<f64>, queues_grow: bool) -> String {
    match seconds {
        // What waits in a queue may cost something at each event, so that nobody knows how much.
        Some(seconds) if queues_grow => format!("at least {}", duration(seconds)),
        Some(seconds) => format!("about {}", duration(seconds)),
        None => "a time that depends on the latency".to_owned(),
    }
}

fn total_text(runs: usize, costs: &[Cost]) -> String {
    let seconds: Option<f64> = costs.iter().map(|cost| cost.seconds).sum();
    let seconds = seconds_text(seconds, costs.iter().any(|cost| cost.queues_grow));
    let bytes = costs.iter().map(|cost| cost.bytes).fold(0.0, f64::max);
    let bytes = bytes_text(bytes);
    format!("\n{runs} runs: {seconds} on one core; {bytes} of memory for each run at a time\n")
}
