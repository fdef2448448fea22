//! VIA in the adapter: the stages of the study simulator, for programs.

use viaduct_engine::Time;

use super::{Mover, Plan, Request};
use crate::bus::BusModel;
use crate::pages::page_crossings;
use crate::rate::{Frame, Rate, Switching};

/// The network adapter, stage by stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicModel {
    /// From the doorbell's arrival to the NIC's reaction.
    pub doorbell: Time,
    /// Reading and checking a send descriptor, beside the bus read.
    pub send_descriptor: Time,
    /// Translation and protection check of one buffer segment.
    pub translate: Time,
    /// Messages up to this size travel with their descriptor and need no DMA of their own, bytes.
    pub inline_bytes: u32,
    /// Starting a DMA transfer of data, at each end.
    pub dma_setup: Time,
    /// Messages of one VI whose data may move at once; the next ones wait in order.
    ///
    /// With more than one, a short message may overtake; its latency counts to its own arrival.
    pub moving_per_vi: u32,
    /// Rate at which the NIC moves a message's bytes between bus and link.
    pub rate: Rate,
    /// Size of a page in the translation table, bytes; 0: pages cost nothing.
    pub page_bytes: u32,
    /// Stopping and restarting the stream where a buffer crosses into its next page, at each end.
    pub page_crossing: Time,
    /// Whether data is forwarded to the link (and from it to the bus) while it still arrives.
    pub forwarding: Switching,
    /// Finding the VI and its next receive descriptor, beside the bus read.
    pub receive_match: Time,
    /// Preparing the completion, beside the bus write.
    pub completion: Time,
}

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
