//! Where the time of a message goes that is alone in the network.

use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_hardware::mechanism::{LastPlan, Plan, Request, State, Step};
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::{Alone, Delays, Shape};
use viaduct_topology::HostId;

use crate::config::SimulationConfig;

/// The stages of a message of so many bytes from the first host to the last, one segment, its
/// buffers known to the adapters, both programs polling. They add up to half a round trip.
#[must_use]
pub fn breakdown(config: &SimulationConfig, bytes: u32) -> Vec<(Stage, Time)> {
    let host = &config.host;
    let last = config.topology.host_count() - 1;
    let request = request_alone(config, bytes);
    let plan = plan_alone(config, &mut State::new(&host.mechanism), &request);

    let mut route = Vec::new();
    config.topology.route(HostId(0), HostId(last), &mut route);
    let delays = Delays {
        topology: &config.topology,
        links: &config.links,
        switch: &config.switch,
    };
    let demand = FlowDemand {
        wire_bytes: plan.wire_bytes,
        scale: plan.scale,
        rate_max: plan.rate_max,
        tag: 0,
    };
    let ends = config.ends();
    let has_buses = ends.have_buses() && demand.uses_buses();
    let shape = Shape::between(has_buses, route.len());
    let Alone { moving, delay } = delays.alone(shape, &route, &demand, &ends);
    let network = delay + plan.adapters;

    let mut receive = plan.match_service.alone();
    if plan.receive_processor > Time::ZERO {
        let there = receive + moving + plan.receive_last;
        receive = plan.receive_processor.max(there) - moving;
    }
    let doorbell = host.mechanism.doorbell(&host.bus);
    let doorbell = doorbell.map_or(Time::ZERO, Step::alone);
    vec![
        (Stage::Post, host.processor.post),
        (Stage::Software, plan.processor),
        (Stage::Doorbell, doorbell),
        (Stage::Descriptor, plan.service.alone() + plan.fetch),
        (Stage::Transfer, moving),
        (Stage::Network, network),
        (Stage::Receive, receive),
        (Stage::Completion, plan.completion.alone()),
        (Stage::Notice, host.processor.polling_delay),
        (Stage::Reap, host.processor.reap),
    ]
}

fn request_alone(config: &SimulationConfig, bytes: u32) -> Request {
    Request {
        bytes,
        segments: 1,
        is_behind: false,
        place_in_batch: 0,
        target: (config.topology.host_count() - 1, 0),
    }
}

fn plan_alone(config: &SimulationConfig, state: &mut State, request: &Request) -> Plan {
    // The first message fills the caches.
    let last = &mut LastPlan::default();
    let (hardware, link) = (config.hardware(), config.host_link());
    state.plan(hardware, link, request, last);
    *state.plan(hardware, link, request, last)
}

/// How a message of so many bytes and one segment is moved, alone: the word of its adapter.
#[must_use]
pub fn way(config: &SimulationConfig, bytes: u32) -> &'static str {
    let request = request_alone(config, bytes);
    plan_alone(config, &mut State::new(&config.host.mechanism), &request).way
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
