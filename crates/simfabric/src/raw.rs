//! CLAN without VIA: what its remote writes cost alone.

use viaduct_engine::Time;
use viaduct_sim::config::Rate;
use viaduct_sim::path::head_delay;
use viaduct_topology::HostId;

use crate::config::{Mechanism, RemoteWriteModel, SimulationConfig};

/// From a program's write into another host's memory to a program's seeing it there, polling.
///
/// Between the first host and the last; `None` for an adapter without remote writes.
#[must_use]
pub fn remote_write_latency(config: &SimulationConfig, bytes: u32) -> Option<Time> {
    let model = remote_writes(config)?;
    let bus = &config.host.bus;
    let wire_bytes = config.links.frame.wire_bytes(u64::from(bytes)) as f64;
    let moving = model
        .write_rate
        .time_for(f64::from(bytes))
        .max(config.links.host_rate.time_for(wire_bytes));
    let mut route = Vec::new();
    let last = HostId(config.topology.host_count() - 1);
    config.topology.route(HostId(0), last, &mut route);
    let (topology, links) = (&config.topology, &config.links);
    let head = head_delay(topology, links, &config.switch, &route, wire_bytes);
    let adapters = model.adapter + model.adapter;
    let polling = config.host.processor.polling_delay;
    Some(bus.programmed_write + moving + head + adapters + bus.write + polling)
}

/// The rate of DMA requests of so many bytes, one after another.
///
/// `None` for an adapter without remote writes.
#[must_use]
pub fn remote_write_rate(config: &SimulationConfig, bytes: u32) -> Option<Rate> {
    let model = remote_writes(config)?;
    let wire_bytes = config.links.frame.wire_bytes(u64::from(bytes)) as f64;
    let moving = config
        .host
        .bus
        .dma_rate()
        .time_for(f64::from(bytes))
        .max(config.links.host_rate.time_for(wire_bytes));
    let request = model.dma_setup + moving + model.dma_interrupt;
    let bits = f64::from(bytes) * 8.0;
    Some(Rate::from_bits_per_second(bits / request.seconds_f64()))
}

fn remote_writes(config: &SimulationConfig) -> Option<&RemoteWriteModel> {
    match &config.host.mechanism {
        Mechanism::RemoteWrites(model) => Some(model),
        Mechanism::Native(_)
        | Mechanism::Firmware(_)
        | Mechanism::Kernel(_)
        | Mechanism::Rdma(_) => None,
    }
}
