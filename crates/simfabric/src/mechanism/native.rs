//! VIA in the adapter: the stages of the study simulator, for programs.

use viaduct_engine::Time;
use viaduct_sim::config::{BusModel, Frame, NicModel};
use viaduct_sim::path::page_crossings;

use super::{Mover, Plan, Request};

pub(crate) fn plan(nic: &NicModel, bus: &BusModel, frame: Frame, request: &Request) -> Plan {
    let bytes = request.bytes;
    // A host whose bus costs nothing for data has none for short transactions either.
    let short = |time: Time| {
        if bus.dma_rate().is_infinite() {
            Time::ZERO
        } else {
            time
        }
    };
    let translate = if bytes > 0 { nic.translate } else { Time::ZERO };
    let setup = if bytes > nic.inline_bytes {
        nic.dma_setup
    } else {
        Time::ZERO
    };
    let data = translate + setup;
    let wire_bytes = frame.wire_bytes(u64::from(bytes)) as f64;
    let crossings = page_crossings(bytes, nic.page_bytes);
    let stops = nic.page_crossing.picoseconds() as f64 * 2.0 * f64::from(crossings);
    let moving = f64::from(bytes) / nic.rate.bytes_per_picosecond();
    let is_inline = bytes <= nic.inline_bytes;
    Plan {
        way: if is_inline { "inline" } else { "DMA" },
        service: short(bus.read) + nic.send_descriptor + data,
        mover: Mover::Engine,
        wire_bytes,
        scale: if bytes == 0 {
            f64::INFINITY
        } else {
            wire_bytes / f64::from(bytes)
        },
        rate_max: wire_bytes / (moving + stops),
        sent: nic.completion + short(bus.write),
        match_service: short(bus.read) + nic.receive_match + data,
        matches_first: true,
        completion: nic.completion + short(bus.write),
        ..Plan::free(bytes)
    }
}
