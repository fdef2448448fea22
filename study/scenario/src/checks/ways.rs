//! What networks need whose frames take ways of their own.

use viaduct_cluster::config::ClusterConfig;
use viaduct_network::Sharing;
use viaduct_topology::{LinkId, Topology};

use super::Checker;
use crate::diagnostics::Diagnostic;

impl Checker<'_> {
    pub(super) fn ways(&mut self, config: &ClusterConfig) {
        let network = &self.settings.network;
        let topology = &config.topology;
        if !topology.equal_paths().is_by_frame() {
            return;
        }
        let error =
            if config.links.sharing != Sharing::Packets {
                let level = config.links.sharing.name();
                Diagnostic::error("frames take no ways of their own at this level")
                .label(format!("links.model is \"{level}\", where a message takes one way"))
                .help(
                    "set links.model to \"packets\", or network.equal_paths to \"hash\": a way for \
                     each flow",
                )
            } else if topology.has_detours() {
                Diagnostic::error("frames take no detours of their own")
                    .label("network.routing is \"valiant\", which goes by flows")
                    .help("set network.equal_paths to \"hash\", or leave network.routing out")
            } else if !are_alike(topology) {
                Diagnostic::error("ways that frames choose among must cost the same")
                .label("some links between switches have a rate or a latency of their own")
                .help(
                    "set network.equal_paths to \"hash\", or give all links between switches the \
                     same by [links]",
                )
            } else {
                return;
            };
        self.diagnostics.push(error.at(network.equal_paths.place()));
    }
}

/// Whether all links between switches cost the same.
fn are_alike(topology: &Topology) -> bool {
    let first = 2 * topology.host_count();
    let mut all = (first..topology.link_count()).map(|link| topology.link_attributes(LinkId(link)));
    topology.are_links_alike() || all.next().is_none_or(|one| all.all(|other| other == one))
}
