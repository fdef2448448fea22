//! Where the time of a message goes that is alone in the network.

use viaduct_engine::Time;
use viaduct_hardware::{Leg, Pair, Stage};
use viaduct_network::hops::Delays;
use viaduct_topology::HostId;

use crate::config::SimulationConfig;

/// The place of the last host's first adapter.
fn last_place(config: &SimulationConfig) -> u32 {
    (config.host_count() - 1) * config.adapters.count
}

/// The stages of a message of so many bytes from the first host to the last, one segment, its
/// buffers known to the adapters, both programs polling. They add up to half a round trip.
#[must_use]
pub fn breakdown(config: &SimulationConfig, bytes: u32) -> Vec<(Stage, Time)> {
    let last = HostId(last_place(config));
    let hosts = Pair::of(&config.host, 0, last.0);
    let plan = hosts.plan_alone(config.host_link(), bytes);
    let mut links = Vec::new();
    config.topology.route(HostId(0), last, &mut links);
    let delays = Delays {
        topology: &config.topology,
        links: &config.links,
        switch: &config.switch,
    };
    let way = delays.alone_over(&links, &plan.demand(0), &hosts.ends());
    let notice = hosts.receiver.processor.polling_delay;
    let stages = hosts.stages_alone(&plan, way, Leg::Taken(notice));
    Stage::ALL
        .into_iter()
        .filter(|stage| !stage.is_wait())
        .map(|stage| (stage, stages[stage as usize]))
        .collect()
}

/// How a message of so many bytes and one segment is moved between the same two, alone: the word of
/// its adapter.
#[must_use]
pub fn way(config: &SimulationConfig, bytes: u32) -> &'static str {
    let hosts = Pair::of(&config.host, 0, last_place(config));
    hosts.plan_alone(config.host_link(), bytes).way
}

/// Which way messages of up to so many bytes go, each with the size from which on they do.
#[must_use]
pub fn ways(config: &SimulationConfig, bytes_max: u32) -> Vec<(u32, &'static str)> {
    let mut found: Vec<(u32, &'static str)> = Vec::new();
    for bytes in 0..=bytes_max {
        let way = way(config, bytes);
        if found.last().is_none_or(|(_, last)| *last != way) {
            found.push((bytes, way));
        }
    }
    found
}
