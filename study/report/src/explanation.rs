//! Where the time of one message went, for people and for programs.

mod object;
mod text;

pub use object::explanation_document;
pub use text::explanation_text;

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{Choice, Explanation, Place};
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
    fn host_name(&self, host: HostId) -> String {
        self.config.topology.node_name(Node::Host(host))
    }

    /// The process's host, with its number there if a host has several.
    fn process_name(&self, process: u32) -> String {
        let processes = self.config.hosts.processes;
        let host = self.host_name(HostId(process / processes));
        match processes {
            1 => host,
            processes => format!("{host} process {}", process % processes),
        }
    }

    fn place_name(&self, place: Place) -> String {
        match place {
            Place::Link(link) => self.config.topology.link_name(link),
            Place::Bus(host) => format!("bus of {}", self.host_name(host)),
        }
    }
}
