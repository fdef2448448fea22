//! Where the time of one message went, or of a whole application, for people and for programs.

mod object;
mod path;
mod path_object;
mod path_tables;
mod path_text;
mod text;

pub use object::explanation_document;
pub use path::ExplainedPath;
pub(crate) use path::{End, Part, end_of, parts_of, parts_of_path};
pub use path_object::critical_path_document;
pub(crate) use path_tables::{rank_table, step_table, what};
pub use path_text::critical_path_text;
pub use text::explanation_text;

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{Choice, Explanation, MessageName, Place};
use viaduct_topology::{HostId, Node};

/// An explanation with what it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// Name of the study or of the scenario file.
    pub study: &'a str,
    /// Version of the program.
    pub version: &'a str,
    /// What was run.
    pub config: &'a ClusterConfig,
    /// Which message was asked for.
    pub choice: Choice,
    /// How it ended.
    pub explanation: &'a Explanation,
}

impl Explained<'_> {
    fn place_name(&self, place: Place) -> String {
        match place {
            Place::Link(link) => self.config.topology.link_name(link),
            Place::Bus(host) => format!("bus of {}", host_name(self.config, host)),
        }
    }
}

fn host_name(config: &ClusterConfig, host: HostId) -> String {
    config.topology.node_name(Node::Host(host))
}

/// The process's host, with its number there if a host has several.
fn process_name(config: &ClusterConfig, process: u32) -> String {
    let processes = config.hosts.processes;
    let host = host_name(config, HostId(process / processes));
    match processes {
        1 => host,
        processes => format!("{host} process {}", process % processes),
    }
}

fn ends(config: &ClusterConfig, message: MessageName) -> String {
    format!(
        "{} -> {}",
        process_name(config, message.source),
        process_name(config, message.target)
    )
}
