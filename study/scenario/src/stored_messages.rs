//! Levels without frames store whole messages at each switch, where others store frames.

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::floor_latency;
use viaduct_cluster::levels::AGREE_WITHIN;
use viaduct_cluster::workload::MessageOperation;
use viaduct_network::{LinkConfig, Sharing, Switching};
use viaduct_operations::Kind;
use viaduct_topology::HostId;

use crate::diagnostics::Diagnostic;
use crate::settings::Settings;
use crate::units::format_size;

/// So many hosts are looked at for the one to which most links lead.
const HOSTS_LOOKED_AT: u32 = 64;

/// A warning, if a message of the study then takes another time than at `packets`.
pub(crate) fn warning(settings: &Settings, config: &ClusterConfig) -> Option<Diagnostic> {
    let links = &config.links;
    let stores = links.switching == Switching::StoreAndForward;
    if !stores || links.sharing.goes_in_pieces() || links.frame.payload_bytes == 0 {
        return None;
    }
    // Interfaces with endpoints cut messages into packets of their own.
    if config.interfaces.is_some() {
        return None;
    }
    let bytes = typical_bytes(config)?;
    let by_frames = ClusterConfig {
        links: LinkConfig {
            sharing: Sharing::Packets,
            ..links.clone()
        },
        ..config.clone()
    };
    let (from, to) = (HostId(0), farthest_host(config));
    let alone_us = |config: &ClusterConfig| {
        floor_latency(config, from, to, bytes, MessageOperation::Send).microseconds_f64()
    };
    let (stored, framed) = (alone_us(config), alone_us(&by_frames));
    if (stored / framed - 1.0).abs() <= AGREE_WITHIN {
        return None;
    }
    let title = format!(
        "level `{}` stores whole messages at each switch, and not frames",
        links.sharing.name()
    );
    let label = format!(
        "{} from host 0 to host {} take {stored:.3} us alone, and {framed:.3} us at `packets`",
        format_size(bytes.into()),
        to.0
    );
    Some(
        Diagnostic::warning(title)
            .at(settings.links.switching.place())
            .label(label)
            .help("set links.model to \"packets\", or links.switching to \"cut-through\""),
    )
}

/// The mean length of drawn and listed messages, or the longest that a graph of operations sends.
fn typical_bytes(config: &ClusterConfig) -> Option<u32> {
    let Some(application) = config.traffic.application() else {
        return Some(config.traffic.size.mean_bytes() as u32);
    };
    let operations = application.graph().operations();
    let sends = operations.filter(|(_, operation)| operation.kind == Kind::Send);
    let amount = sends.map(|(_, operation)| operation.amount).max()?;
    let piece = u64::from(application.piece_bytes(amount));
    Some(amount.min(piece) as u32)
}

/// Of some hosts, spread over all, the one to which most links lead from the first.
fn farthest_host(config: &ClusterConfig) -> HostId {
    let count = config.topology.host_count();
    let stride = count / HOSTS_LOOKED_AT + 1;
    let mut links: Vec<viaduct_topology::LinkId> = Vec::new();
    let mut distance = |host: &HostId| {
        links.clear();
        config.topology.route(HostId(0), *host, &mut links);
        links.len()
    };
    let hosts = (1..count).step_by(stride as usize).map(HostId);
    hosts.max_by_key(|host| distance(host)).unwrap_or(HostId(0))
}
