//! Faults and background traffic of simulated hosts: `[[fault]]`, `[[background]]`, and a fault in
//! one line, as `--fault` has it.

mod line;

use std::collections::BTreeMap;

use viaduct_cluster::background;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::faults::{Detection, Fault, Links, Slowness};
use viaduct_hardware::Rate;
use viaduct_topology::{HostId, LinkId, Node, SwitchId, Topology};

use crate::build::{Drawn, picoseconds};
use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt};
use crate::document::Tree;
use crate::files::Files;
use crate::rows::{self, List};
use crate::schema::{Background, FaultKind, FaultRow};
use crate::section::{Absent, Field, Setting};
use crate::settings::Settings;
use crate::units::rough_rate;

pub use line::read_faults;

/// Most faults, and most generators, of a study.
pub const FAULTS_MAX: usize = 1_000;

/// Slower than that no host is: the longest work of a message would outlast the clock.
const FACTOR_MAX: f64 = 1e6;

const FAULTS: List = List {
    nouns: ["a fault", "faults"],
    rows_max: FAULTS_MAX,
};

const BACKGROUND: List = List {
    nouns: [
        "a source of background traffic",
        "sources of background traffic",
    ],
    rows_max: FAULTS_MAX,
};

/// What disturbs a study's own traffic, and programs on its hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disturbances {
    pub(crate) faults: Vec<Fault>,
    pub(crate) background: Vec<background::Background>,
    pub(crate) detection: Detection,
    /// Links that are slow, each with how many times as long bytes take on it.
    pub(crate) slow_links: BTreeMap<LinkId, f64>,
    /// The rows as they were read, as TOML.
    pub(crate) toml: String,
}

impl Disturbances {
    /// Reads the lists of a tree; what names a host or a link is held to the network.
    pub(crate) fn read(
        tree: &Tree,
        settings: &Settings,
        config: &ClusterConfig,
        files: &mut Files,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut read = Self::default();
        let topology = &config.topology;
        let mut background_load = BackgroundLoad::default();
        if let Some(detection) = &settings.detection {
            let usual = read.detection;
            read.detection = Detection {
                transport_timeout: detection
                    .transport_timeout
                    .known()
                    .unwrap_or(usual.transport_timeout),
                host_timeout: detection.host_timeout.known().unwrap_or(usual.host_timeout),
            };
        }
        for row in BACKGROUND.read::<Background>(tree, "", diagnostics) {
            let made = background(&row.keys, config, files, diagnostics);
            if let Some(made) = diagnostics.tell(made) {
                background_load.add(&row.keys, &made, config, diagnostics);
                read.background.push(made);
            }
            read.toml.push_str(&rows::to_toml(&row.keys));
        }
        for row in FAULTS.read::<FaultRow>(tree, "", diagnostics) {
            if row.keys.kind.known() == Some(FaultKind::SlowLink) {
                match slow_links(&row.keys, row.place, topology) {
                    Ok(links) => links.into_iter().for_each(|(link, factor)| {
                        *read.slow_links.entry(link).or_insert(1.0) *= factor;
                    }),
                    Err(Wrong::Said(diagnostic)) => diagnostics.push(diagnostic),
                    Err(Wrong::Absent(_)) => {}
                }
            } else {
                let made = fault(&row.keys, row.place, topology, diagnostics);
                read.faults.extend(diagnostics.tell(made));
            }
            read.toml.push_str(&rows::to_toml(&row.keys));
        }
        read
    }
}

fn wrong<T: Field>(key: &Setting<T>, label: impl Into<String>) -> Diagnostic {
    let title = format!("this fault cannot be, for its `{}`", key.key.name);
    Diagnostic::error(title).at(key.place()).label(label)
}

/// A fault; `place` is that of its row.
fn fault(
    row: &FaultRow,
    place: Place,
    topology: &Topology,
    diagnostics: &mut Diagnostics,
) -> Result<Fault, Absent> {
    let mut tell = |diagnostic| {
        diagnostics.push(diagnostic);
        Absent::Told
    };
    let host = || {
        let (host, hosts) = (row.host.get()?, topology.host_count());
        if host >= hosts {
            let label = format!("no host {host}: hosts are 0 to {}", hosts - 1);
            return Err(Wrong::Said(wrong(&row.host, label)));
        }
        Ok(host)
    };
    let made = || -> Result<Fault, Wrong> {
        Ok(match row.kind.get()? {
            FaultKind::LinkDown => {
                let (from, until) = (row.from.get()?, row.until.optional()?);
                if until.is_some_and(|until| until <= from) {
                    let label = "it ends before it begins";
                    return Err(Wrong::Said(wrong(&row.until, label)));
                }
                let links = links(row, topology)?;
                Fault::LinkDown { links, from, until }
            }
            FaultKind::Loss => Fault::Loss {
                links: links(row, topology)?,
                rate: row.rate.get()?,
            },
            FaultKind::Corruption => Fault::Corruption {
                links: links(row, topology)?,
                rate: row.rate.get()?,
            },
            FaultKind::SlowHost => Fault::SlowHost {
                host: host()?,
                from: row.from.get()?,
                by: slowness(row, place)?,
            },
            FaultKind::SlowLink => {
                let title = "links are slow in a study, not in a fault beside it";
                let help = "put the [[fault]] into the study";
                let told = Diagnostic::error(title).at(place).help(help);
                return Err(Wrong::Said(told));
            }
            FaultKind::NicDies => Fault::NicDies {
                host: host()?,
                at: row.at.get()?,
            },
            FaultKind::HostDies => Fault::HostDies {
                host: host()?,
                at: row.at.get()?,
            },
        })
    };
    made().map_err(|wrong| match wrong {
        Wrong::Said(diagnostic) => tell(diagnostic),
        Wrong::Absent(absent) => absent,
    })
}

/// Why there is no fault.
enum Wrong {
    Said(Diagnostic),
    Absent(Absent),
}

impl From<Absent> for Wrong {
    fn from(absent: Absent) -> Self {
        Self::Absent(absent)
    }
}

/// Links of a row that are slow, each with its factor.
fn slow_links(
    row: &FaultRow,
    place: Place,
    topology: &Topology,
) -> Result<Vec<(LinkId, f64)>, Wrong> {
    let Slowness::Factor(factor) = slowness(row, place)? else {
        let label = "it has no messages of its own: say by what factor it is slow";
        return Err(Wrong::Said(wrong(&row.per_message, label)));
    };
    let found = links(row, topology)?.resolve(topology);
    let found = found.map_err(|label| Wrong::Said(wrong(&row.links, label)))?;
    Ok(found
        .into_iter()
        .map(|link| (LinkId(link), factor))
        .collect())
}

fn slowness(row: &FaultRow, place: Place) -> Result<Slowness, Wrong> {
    if let Some(factor) = row.factor.optional()? {
        if factor > 0.0 && factor <= FACTOR_MAX {
            return Ok(Slowness::Factor(factor));
        }
        let label = format!("a factor is above 0, and at most {FACTOR_MAX}");
        return Err(Wrong::Said(wrong(&row.factor, label)));
    }
    if let Some(per_message) = row.per_message.optional()? {
        return Ok(Slowness::PerMessage(per_message));
    }
    let title = "missing key `factor` or `per_message` in [[fault]]";
    let help = "add `factor = 2`: all its work takes twice as long; or `per_message = \"5 us\"`: so \
                much more for each that arrives";
    Err(Wrong::Said(Diagnostic::error(title).at(place).help(help)))
}

/// The links of a fault.
fn links(row: &FaultRow, topology: &Topology) -> Result<Links, Wrong> {
    named_links(&row.links.get()?, topology).map_err(|label| {
        let help = "write `all`; `host 1` for the cable of a host, both directions; `switch s0` for all \
                    of a switch; `s0 -> s1` as results name a link, or `s0 <-> s1` for both";
        Wrong::Said(wrong(&row.links, label).help(help))
    })
}

fn named_links(text: &str, topology: &Topology) -> Result<Links, String> {
    let text = text.trim();
    if text == "all" {
        return Ok(Links::All);
    }
    if let Some(number) = text.strip_prefix("host")
        && let Ok(host) = number.trim().parse::<u32>()
    {
        let hosts = topology.host_count();
        if host >= hosts {
            return Err(format!("no host {host}: hosts are 0 to {}", hosts - 1));
        }
        let host = HostId(host);
        let switch = Node::Switch(topology.host_switch(host));
        return Ok(Links::Between(Node::Host(host), switch));
    }
    if let Some(name) = text.strip_prefix("switch ") {
        return switch(name, topology).map(|found| Links::Of(Node::Switch(found)));
    }
    let (ends, is_one_way) = match (text.split_once("<->"), text.split_once("->")) {
        (Some(ends), _) => (ends, false),
        (None, Some(ends)) => (ends, true),
        (None, None) => return Err("it names no link".to_owned()),
    };
    let (from, to) = (node(ends.0, topology)?, node(ends.1, topology)?);
    let joins = |from, to| {
        (0..topology.link_count()).any(|link| topology.link_ends(LinkId(link)) == (from, to))
    };
    if !joins(from, to) && (is_one_way || !joins(to, from)) {
        let names = [from, to].map(|node| topology.node_name(node));
        return Err(format!("no link joins {} and {}", names[0], names[1]));
    }
    Ok(if is_one_way {
        Links::OneWay(from, to)
    } else {
        Links::Between(from, to)
    })
}

/// The switch of a name.
pub(crate) fn switch(name: &str, topology: &Topology) -> Result<SwitchId, String> {
    match node(name, topology)? {
        Node::Switch(switch) => Ok(switch),
        Node::Host(_) => Err(format!("{} is no switch", excerpt(name.trim()))),
    }
}

/// The host of a name.
pub(crate) fn host(name: &str, topology: &Topology) -> Result<HostId, String> {
    match node(name, topology)? {
        Node::Host(host) => Ok(host),
        Node::Switch(_) => Err(format!("{} is no host", excerpt(name.trim()))),
    }
}

/// The host or switch of a name.
fn node(name: &str, topology: &Topology) -> Result<Node, String> {
    let name = name.trim();
    let hosts = (0..topology.host_count()).map(|host| Node::Host(HostId(host)));
    let switches = 0..topology.switch_count();
    let switches = switches.map(|switch| Node::Switch(SwitchId(switch)));
    let is_it = |node: &Node| topology.node_name(*node) == name;
    hosts.chain(switches).find(is_it).ok_or_else(|| {
        let example = topology.link_name(LinkId(0));
        let name = excerpt(name);
        format!("no host or switch has the name {name}; a link of this network is `{example}`")
    })
}

/// What all background traffic together brings the ends that its rows name, in bits a second.
#[derive(Debug, Default)]
struct BackgroundLoad {
    sent: BTreeMap<u32, f64>,
    received: BTreeMap<u32, f64>,
}

impl BackgroundLoad {
    /// Counts a row in; warns where it is the one that fills a bus or a link.
    fn add(
        &mut self,
        row: &Background,
        made: &background::Background,
        config: &ClusterConfig,
        diagnostics: &mut Diagnostics,
    ) {
        let offered = made.size.mean_bytes() * 8e12 / made.interval.mean_picoseconds();
        let ends = [
            (Some(made.source), &mut self.sent),
            (made.target, &mut self.received),
        ];
        for (host, loads) in ends {
            let Some(host) = host else { continue };
            let load = loads.entry(host).or_default();
            let before = *load;
            *load += offered;
            let limits = [
                ("link", config.links.host_rate),
                ("bus", config.host.of(host).bus.dma_rate()),
            ];
            let rate = |limit: &(&str, Rate)| limit.1.bits_per_second();
            let least = limits
                .into_iter()
                .min_by(|a, b| rate(a).total_cmp(&rate(b)));
            let full = least.filter(|least| before < rate(least) && *load >= rate(least));
            let Some((what, least)) = full else { continue };
            let least = least.bits_per_second();
            let percent = *load / least * 100.0;
            let (load, least) = (rough_rate(*load), rough_rate(least));
            diagnostics.push(
                Diagnostic::warning(format!(
                    "the background traffic alone fills the {what} of host {host}"
                ))
                .at(row.interval.place())
                .label(format!("{load} of {least}: {percent:.0} %"))
                .help(
                    "more and more of it will wait, and slow the run down: make `interval` longer \
                     or `size` smaller",
                ),
            );
        }
    }
}

fn background(
    row: &Background,
    config: &ClusterConfig,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Result<background::Background, Absent> {
    let mut drawn = Drawn { files, diagnostics };
    let hosts = config.topology.host_count();
    let adapters = config.hosts.adapters.count;
    for key in [&row.source, &row.target] {
        if let Some(host) = key.known()
            && host >= hosts
        {
            let label = format!("no host {host}: hosts are 0 to {}", hosts - 1);
            let error = Diagnostic::error("background traffic of a host that there is not");
            return Err(drawn.wrong(error.at(key.place()).label(label)));
        }
    }
    let (source, target) = (row.source.get()?, row.target.optional()?);
    if target == Some(source) || hosts < 2 {
        let error = Diagnostic::error("background traffic goes to another host");
        let label = format!("host {source} sends to itself");
        return Err(drawn.wrong(error.at(row.target.place()).label(label)));
    }
    if let Some(target) = target
        && target / adapters == source / adapters
    {
        let error = Diagnostic::error("background traffic goes to another host");
        let label = format!(
            "{source} and {target} are adapters of host {}",
            source / adapters
        );
        return Err(drawn.wrong(error.at(row.target.place()).label(label)));
    }
    let (from, until) = (row.from.get()?, row.until.optional()?);
    if until.is_some_and(|until| until <= from) {
        let error = Diagnostic::error("background traffic ends before it begins");
        return Err(drawn.wrong(error.at(row.until.place())));
    }
    let mean = row.interval.known().map(picoseconds);
    let interval = drawn.interval(&row.intervals, mean, &row.interval);
    let size = drawn.size(&row.sizes);
    Ok(background::Background {
        source,
        target,
        interval: interval?,
        size: size?,
        from,
        until,
    })
}
