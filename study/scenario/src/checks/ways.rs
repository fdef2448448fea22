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
        if !topology.spreads_frames() {
            return;
        }
        let (place, otherwise) = match topology.equal_paths().is_by_frame() {
            true => (
                network.equal_paths.place(),
                "network.equal_paths to \"hash\": a way for each flow",
            ),
            false => (
                network.routing.place(),
                "network.routing to \"valiant\": a detour for each flow",
            ),
        };
        let level = config.links.sharing;
        let error = if !matches!(level, Sharing::Packets | Sharing::Credits) {
            let level = level.name();
            Diagnostic::error("frames take no ways of their own at this level")
                .label(format!(
                    "links.model is \"{level}\", where a message takes one way"
                ))
                .help(format!(
                    "set links.model to \"packets\" or \"credits\", or {otherwise}"
                ))
        } else if !are_alike(topology) {
            Diagnostic::error("ways that frames choose among must cost the same")
                .label("some links between switches have a rate or a latency of their own")
                .help(format!(
                    "give all links between switches the same by [links], or set {otherwise}"
                ))
        } else {
            return;
        };
        self.diagnostics.push(error.at(place));
    }
}

/// Whether all links between switches cost the same.
fn are_alike(topology: &Topology) -> bool {
    let first = 2 * topology.host_count();
    let mut all = (first..topology.link_count()).map(|link| topology.link_attributes(LinkId(link)));
    topology.are_links_alike() || all.next().is_none_or(|one| all.all(|other| other == one))
}
