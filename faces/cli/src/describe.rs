//! The lines above the table: what is run, and within which bounds.

use viaduct_cluster::bounds::{LoadBounds, load_bounds};
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_engine::Time;
use viaduct_report::{Summary, count, percent, quantity, scaled_count};
use viaduct_scenario::{KeyName, UNTIL_ALL_HAVE_ENDED, format_size, key};
use viaduct_topology::LinkClass;

use crate::jobs::Plan;

/// One line: the study, its network, its traffic, its time and seeds. Empty for an empty plan.
pub(crate) fn headline(plan: &Plan) -> String {
    let Some(config) = plan.cells.first().and_then(|cell| cell.configs.first()) else {
        return String::new();
    };
    let topology = &config.topology;
    let hosts = counted(u64::from(config.host_count()), "host");
    let hosts = match config.hosts.adapters.count {
        1 => hosts,
        adapters => format!("{hosts} of {adapters} adapters"),
    };
    let network = match topology.switch_count() {
        1 => "one switch".to_owned(),
        switches => format!(
            "{} switches ({})",
            count(u64::from(switches)),
            topology.description()
        ),
    };
    let mut parts = vec![format!("{}: {hosts}", plan.study), network];
    // What a sweep varies is in its table.
    let varies = |key: KeyName| {
        let mut swept = plan.cells.iter().flat_map(|cell| &cell.set);
        swept.any(|(path, _)| key.is_at(path))
    };
    if !varies(key::Traffic::size) {
        parts.push(format!("{} messages", sizes(config)));
    }
    if !varies(key::Traffic::rate) && !varies(key::Traffic::interval) {
        parts.push(arrivals(config));
    }
    parts.push(format!("simulated {}", times(config)));
    if plan.cells.len() > 1 {
        let keys: Vec<&str> = plan.cells[0]
            .set
            .iter()
            .map(|(key, _)| key.as_str())
            .collect();
        parts.push(format!(
            "{} cells of {}",
            plan.cells.len(),
            keys.join(" and ")
        ));
    }
    parts.push(seeds(plan));
    parts.join(", ") + "\n"
}

/// Where runs were stopped; empty if none was.
pub(crate) fn stopped<'a>(runs: impl Iterator<Item = &'a Summary>) -> String {
    let stopped = runs.filter(|run| run.is_interrupted());
    let places: Vec<String> = stopped
        .map(|run| Time::from_seconds_f64(run.simulated_s).to_string())
        .collect();
    match places.as_slice() {
        [] => String::new(),
        [only] => format!("stopped at {only}"),
        [first, .., last] => format!("{} runs stopped, at {first} to {last}", places.len()),
    }
}

/// One line: what the load is before anything is run, and where more of it ends. Empty for a sweep,
/// whose points differ, and for closed loops, which offer what is answered.
pub(crate) fn bounds(plan: &Plan) -> String {
    let [cell] = plan.cells.as_slice() else {
        return String::new();
    };
    // What is wrong with the pattern is the run's to say.
    let bounds = cell
        .configs
        .first()
        .and_then(|config| load_bounds(config).ok().flatten());
    bounds.map_or_else(String::new, |bounds| {
        format!("  bounds   {}\n", bounds_text(&bounds))
    })
}

/// The load of links and buses, and the rate at which the first of all servers is full.
pub(crate) fn bounds_text(bounds: &LoadBounds) -> String {
    let has_switch_links = bounds.classes.iter().any(|load| !is_host_link(load.class));
    let links = bounds
        .classes
        .iter()
        .filter(|load| is_host_link(load.class) != has_switch_links);
    let mut parts: Vec<String> = links
        .map(|load| {
            let busiest = match load.load.max > load.load.mean * 1.005 {
                true => format!(", the busiest {} %", percent(load.load.max)),
                false => String::new(),
            };
            format!(
                "{} {} % busy{busiest}",
                class_words(load.class),
                percent(load.load.mean)
            )
        })
        .collect();
    if bounds.bus.mean > 0.0 {
        parts.push(format!("buses {} %", percent(bounds.bus.mean)));
    }
    if let Some(saturation) = &bounds.saturation {
        parts.push(format!(
            "{} {} msg/s per process ({}, {})",
            saturation.verb(),
            quantity(saturation.rate_per_s),
            saturation.place,
            saturation.sharing.name()
        ));
    }
    if let Some(list) = &bounds.list {
        let posted = match &list.fullest {
            Some(fullest) => format!(
                "the list is posted within {} ({} % busy: {})",
                list.span,
                percent(fullest.load),
                fullest.place
            ),
            None => "the list is posted at one time".to_owned(),
        };
        let takes = format!("{posted} and takes {} at least", list.work);
        parts.push(match &list.fullest {
            Some(fullest) if fullest.place == list.place => takes,
            _ => format!("{takes} ({})", list.place),
        });
    }
    parts.join("; ")
}

fn is_host_link(class: LinkClass) -> bool {
    matches!(class, LinkClass::HostUp | LinkClass::HostDown)
}

fn class_words(class: LinkClass) -> &'static str {
    match class {
        LinkClass::Mesh => "mesh links",
        LinkClass::TreeUp => "links up the tree",
        LinkClass::TreeDown => "links down the tree",
        LinkClass::HostUp => "links from hosts",
        LinkClass::HostDown => "links to hosts",
    }
}

/// A number of something, as `1 rank` or `2 ranks`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

fn sizes(config: &ClusterConfig) -> String {
    let size = &config.traffic.size;
    let (min, max) = (u64::from(size.min_bytes()), u64::from(size.max_bytes()));
    if min == max {
        return format_size(min);
    }
    let range = format!("{} to {}", format_size(min), format_size(max));
    if config.traffic.application().is_some() {
        return range;
    }
    let mean = scaled_count(size.mean_bytes());
    format!("{range} (mean {mean} bytes)")
}

fn arrivals(config: &ClusterConfig) -> String {
    let each = match config.hosts.processes {
        1 => "per host".to_owned(),
        processes => format!("for each of {processes} processes per host"),
    };
    match &config.traffic.arrivals {
        Arrivals::Open(interval) if interval.is_constant() => {
            format!("one every {} {each}", interval.mean())
        }
        Arrivals::Open(interval) => {
            let rate =
                Time::from_seconds_f64(1.0).picoseconds() as f64 / interval.mean_picoseconds();
            let rate = match rate.round() {
                whole if whole >= 1.0 && (rate / whole - 1.0).abs() < 1e-9 => count(whole as u64),
                _ => quantity(rate),
            };
            format!("{rate}/s {each} on average")
        }
        Arrivals::PingPong => "ping-pong".to_owned(),
        Arrivals::Window(1) => format!("one under way {each}"),
        Arrivals::Listed(list) => format!("a list of {}", count(list.len() as u64)),
        Arrivals::Application(application) => {
            let graph = application.graph();
            let what = application.request().map_or_else(
                || "a graph".to_owned(),
                |request| format!("{} by {}", request.collective, request.algorithm),
            );
            format!(
                "{what}: {}, {}",
                counted(graph.ranks().into(), "rank"),
                counted(graph.len() as u64, "operation")
            )
        }
        Arrivals::Window(window) => format!("up to {window} under way {each}"),
    }
}

fn times(config: &ClusterConfig) -> String {
    let until = config.run.until;
    if config.traffic.application().is_some() && until == UNTIL_ALL_HAVE_ENDED {
        return "until all operations have ended".to_owned();
    }
    let ends_early = config.run.messages_max.is_some()
        || config.run.events_max.is_some()
        || matches!(
            config.traffic.arrivals,
            Arrivals::Listed(_) | Arrivals::Application(_)
        );
    let at_most = if ends_early { " at most" } else { "" };
    match config.run.warmup {
        Time::ZERO => format!("{until}{at_most}"),
        warmup => format!("{warmup} to {until}{at_most}"),
    }
}

fn seeds(plan: &Plan) -> String {
    let seeds: Vec<u64> = plan.cells[0]
        .configs
        .iter()
        .map(|config| config.run.seed)
        .collect();
    match seeds.as_slice() {
        [first, .., last] => format!("seeds {first} to {last}"),
        [only] => format!("seed {only}"),
        [] => "no seed".to_owned(),
    }
}
