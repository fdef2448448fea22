//! Faults and background traffic of simulated hosts: `[[fault]]`, `[[background]]`, and a fault in
//! one line, as `--fault` has it.

mod line;

use viaduct_simfabric::faults::{Detection, Fault, Links, Slowness};
use viaduct_simfabric::traffic::Traffic;
use viaduct_topology::{HostId, LinkId, Node, Topology};

use crate::build::Builder;
use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt};
use crate::document::Tree;
use crate::files::Files;
use crate::rows::{List, Row};
use crate::settings::Settings;

pub use line::read_faults;

/// Most faults, and most generators, of a study.
pub const FAULTS_MAX: usize = 1_000;

/// Slower than that no host is: the longest work of a message would outlast the clock.
const FACTOR_MAX: f64 = 1e6;

const FAULTS: List = List {
    root: "fault",
    table: "fault",
    nouns: ["a fault", "faults"],
    rows_max: FAULTS_MAX,
};

const BACKGROUND: List = List {
    root: "background",
    table: "background",
    nouns: [
        "a source of background traffic",
        "sources of background traffic",
    ],
    rows_max: FAULTS_MAX,
};

/// What a study says of programs on its hosts, and of nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForPrograms {
    pub(crate) faults: Vec<Fault>,
    pub(crate) background: Vec<Traffic>,
    pub(crate) detection: Detection,
    /// The first place of these, if there is one, and its heading.
    pub(crate) first: Option<(Place, &'static str)>,
    /// The rows as they were read, for the resolved text.
    rows: Vec<Row>,
}

impl ForPrograms {
    /// Reads the lists of a tree; what names a host or a link is held to the network.
    pub(crate) fn read(
        tree: &Tree,
        settings: &Settings,
        topology: &Topology,
        files: &mut Files,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut read = Self {
            detection: detection(settings),
            ..Self::default()
        };
        if settings.is_present("detection") {
            let place = settings.place_or_table("detection", "host_timeout");
            read.first = Some((place, "[detection]"));
        }
        for (row, _) in BACKGROUND.read(tree, "", diagnostics) {
            read.background
                .extend(background(&row, topology, files, diagnostics));
            read.first = Some((row.place, "[[background]]"));
            read.rows.push(row);
        }
        for (row, _) in FAULTS.read(tree, "", diagnostics) {
            match fault(&row, topology) {
                Ok(fault) => read.faults.extend(fault),
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
            read.first = Some((row.place, "[[fault]]"));
            read.rows.push(row);
        }
        read
    }

    /// The rows as TOML.
    pub(crate) fn to_toml(&self) -> String {
        self.rows.iter().map(Row::to_toml).collect()
    }
}

fn detection(settings: &Settings) -> Detection {
    let usual = Detection::default();
    let time = |key, usual| settings.time("detection", key).unwrap_or(usual);
    Detection {
        transport_timeout: time("transport_timeout", usual.transport_timeout),
        host_timeout: time("host_timeout", usual.host_timeout),
    }
}

type Wrong = Box<Diagnostic>;

fn wrong(row: &Row, key: &str, label: impl Into<String>) -> Wrong {
    let title = format!("this fault cannot be, for its `{key}`");
    Box::new(Diagnostic::error(title).at(row.place_of(key)).label(label))
}

/// A fault; none if one of its values is wrong, which has been said.
fn fault(row: &Row, topology: &Topology) -> Result<Option<Fault>, Wrong> {
    let Some(kind) = row.choice("kind") else {
        return Ok(None);
    };
    let host = || -> Result<Option<u32>, Wrong> {
        match (row.count("host"), topology.host_count()) {
            (Some(host), hosts) if host >= hosts => {
                let label = format!("no host {host}: hosts are 0 to {}", hosts - 1);
                Err(wrong(row, "host", label))
            }
            (host, _) => Ok(host),
        }
    };
    let links = || links(row, topology);
    Ok(match kind {
        "link-down" => {
            let (from, until) = (row.time("from"), row.time("until"));
            if let (Some(from), Some(until)) = (from, until)
                && until <= from
            {
                return Err(wrong(row, "until", "it ends before it begins"));
            }
            let links = links()?;
            from.map(|from| Fault::LinkDown { links, from, until })
        }
        "loss" | "corruption" => {
            let links = links()?;
            row.real("rate").map(|rate| match kind {
                "loss" => Fault::Loss { links, rate },
                _ => Fault::Corruption { links, rate },
            })
        }
        "slow-host" => {
            let host = host()?;
            let by = match (row.real("factor"), row.time("per_message")) {
                (Some(factor), _) if factor > 0.0 && factor <= FACTOR_MAX => {
                    Some(Slowness::Factor(factor))
                }
                (Some(_), _) => {
                    let label = format!("a factor is above 0, and at most {FACTOR_MAX}");
                    return Err(wrong(row, "factor", label));
                }
                (None, per_message) => per_message.map(Slowness::PerMessage),
            };
            if by.is_none() && !row.is_given("factor") && !row.is_given("per_message") {
                let title = "missing key `factor` or `per_message` in [[fault]]";
                let help = "add `factor = 2`: all its work takes twice as long; or `per_message = \
                            \"5 us\"`: so much more for each that arrives";
                return Err(Box::new(Diagnostic::error(title).at(row.place).help(help)));
            }
            let from = row.time("from");
            match (host, from, by) {
                (Some(host), Some(from), Some(by)) => Some(Fault::SlowHost { host, from, by }),
                _ => None,
            }
        }
        _ => match (host()?, row.time("at")) {
            (Some(host), Some(at)) if kind == "nic-dies" => Some(Fault::NicDies { host, at }),
            (Some(host), Some(at)) => Some(Fault::HostDies { host, at }),
            _ => None,
        },
    })
}

/// The links of a fault.
fn links(row: &Row, topology: &Topology) -> Result<Links, Wrong> {
    let text = row.text("links").unwrap_or_else(|| "all".to_owned());
    named_links(&text, topology).map_err(|label| {
        let help = "write `all`; `host 1` for the cable of a host, both directions; `switch s0` for all \
                    of a switch; `s0 -> s1` as results name a link, or `s0 <-> s1` for both";
        Box::new(wrong(row, "links", label).help(help))
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
        let found = node(name, topology)?;
        return match found {
            Node::Switch(_) => Ok(Links::Of(found)),
            Node::Host(_) => Err(format!("{} is no switch", excerpt(name.trim()))),
        };
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

/// The host or switch of a name.
fn node(name: &str, topology: &Topology) -> Result<Node, String> {
    let name = name.trim();
    let hosts = (0..topology.host_count()).map(|host| Node::Host(HostId(host)));
    let switches = 0..topology.switch_count();
    let switches = switches.map(|switch| Node::Switch(viaduct_topology::SwitchId(switch)));
    let is_it = |node: &Node| topology.node_name(*node) == name;
    hosts.chain(switches).find(is_it).ok_or_else(|| {
        let example = topology.link_name(LinkId(0));
        let name = excerpt(name);
        format!("no host or switch has the name {name}; a link of this network is `{example}`")
    })
}

fn background(
    row: &Row,
    topology: &Topology,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Traffic> {
    let hosts = topology.host_count();
    for key in ["source", "target"] {
        if let Some(host) = row.count(key)
            && host >= hosts
        {
            let label = format!("no host {host}: hosts are 0 to {}", hosts - 1);
            let error = Diagnostic::error("background traffic of a host that there is not");
            diagnostics.push(error.at(row.place_of(key)).label(label));
            return None;
        }
    }
    let (source, target) = (row.count("source")?, row.count("target"));
    if target == Some(source) || hosts < 2 {
        let error = Diagnostic::error("background traffic goes to another host");
        let label = format!("host {source} sends to itself");
        diagnostics.push(error.at(row.place_of("target")).label(label));
        return None;
    }
    let (from, until) = (row.time("from")?, row.time("until"));
    if until.is_some_and(|until| until <= from) {
        let error = Diagnostic::error("background traffic ends before it begins");
        diagnostics.push(error.at(row.place_of("until")));
        return None;
    }
    let mean = row.time("interval").map(|time| time.picoseconds() as f64);
    let mut builder = Builder {
        settings: &row.settings,
        files,
        diagnostics,
    };
    let (interval, size) = (
        builder.interval("background", mean),
        builder.size("background"),
    );
    Some(Traffic {
        source,
        target,
        interval: interval?,
        size: size?,
        from,
        until,
    })
}
