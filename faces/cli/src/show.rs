//! `viaduct show`: the network of a study, or of a file, as a picture.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use viaduct_report::{Layout, NETWORK_SVG_NODES_MAX, count, network_page, network_svg};
use viaduct_scenario::{Override, Study, read_text};
use viaduct_topology::{
    Topology, TopologyError, parse_edge_list, parse_graphml, parse_node_link_json,
};

use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// A study's name, a scenario file, or a network: .graphml, .json (node-link) or .txt (edges)
    #[arg(value_name = "STUDY|FILE")]
    network: String,
    /// Set a key of the study, as in `--set network.dimensions="[8, 8]"`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// The picture: .svg for small networks, .html for a network of any size
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

type Reader = fn(&str) -> Result<Topology, TopologyError>;

/// Most nodes of a picture: a page beyond it takes a browser seconds to draw.
const NODES_MAX: u64 = 2_000_000;

/// Draws a network.
pub(crate) fn show(arguments: &ShowArguments) -> Result<Exit, Failure> {
    let ending = arguments.output.extension().unwrap_or_default();
    let is_page = ["html", "htm"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known));
    if !is_page && !ending.eq_ignore_ascii_case("svg") {
        return Err(Failure::new(
            format!(
                "`{}`: the ending says no format of a picture",
                arguments.output.display()
            ),
            "let it end with .svg or .html",
        ));
    }
    let (name, topology) = network(arguments)?;
    let nodes = u64::from(topology.host_count()) + u64::from(topology.switch_count());
    let nodes_max = if is_page {
        NODES_MAX
    } else {
        NETWORK_SVG_NODES_MAX as u64
    };
    if nodes > nodes_max {
        let title = format!("{} nodes are too many for this picture", count(nodes));
        let help = match is_page {
            true => format!("the most is {}", count(nodes_max)),
            false => format!(
                "an SVG has at most {}: write a page, -o x.html",
                count(nodes_max)
            ),
        };
        return Err(Failure::new(title, help));
    }
    let title = format!(
        "{name}: {} hosts, {} switches ({})",
        count(topology.host_count().into()),
        count(topology.switch_count().into()),
        topology.description()
    );
    let layout = Layout::new(&topology);
    let picture = match is_page {
        true => network_page(&topology, &layout, &title),
        false => network_svg(&topology, &layout, &title),
    };
    fs::write(&arguments.output, &picture).map_err(|error| {
        let path = arguments.output.display();
        Failure::plain(format_args!("cannot write `{path}`: {error}"))
    })?;
    output::result(&format!(
        "{title}\n  picture  {}\n",
        arguments.output.display()
    ))?;
    Ok(Exit::Fine)
}

fn network(arguments: &ShowArguments) -> Result<(String, Arc<Topology>), Failure> {
    let path = Path::new(&arguments.network);
    let ending = path.extension().and_then(|ending| ending.to_str());
    let reader: Reader = match ending {
        Some("graphml") => parse_graphml,
        Some("json") => parse_node_link_json,
        Some("txt") => parse_edge_list,
        _ => {
            let overrides = arguments.overrides.iter();
            let overrides: Vec<Override> = overrides
                .map(|text| Override::fixed(text.as_str()))
                .collect();
            let study = Study::load(&arguments.network, &overrides)?;
            return Ok((study.name, study.config.topology));
        }
    };
    if !arguments.overrides.is_empty() {
        return Err(Failure::plain("a network's file has no keys to set"));
    }
    let refused = |problem: String| {
        Failure::plain(format_args!("cannot read `{}`: {problem}", path.display()))
    };
    let text = read_text(path).map_err(&refused)?;
    let topology = reader(&text).map_err(|error| refused(error.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((name.into_owned(), Arc::new(topology)))
}
