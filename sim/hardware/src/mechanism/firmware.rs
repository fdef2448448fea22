//! A programmable adapter: one slow processor for every doorbell, descriptor and packet.
//!
//! Three ways to move a message; the adapter's program takes the one that it expects to be
//! quickest, of those that it knows. *Written*: the host's processor writes descriptor and data
//! into the adapter's memory, so that nothing is fetched. *Staged*: packet by packet is fetched
//! into that memory and then sent. *Streamed*: a packet is sent while it is still being fetched,
//! which costs a second set-up. The receiver stages what comes and writes it to the host.

use viaduct_engine::Time;

use super::{Mover, Plan, Request, Step};
use crate::bus::BusModel;
use crate::pages::page_crossings;
use viaduct_network::{Frame, Rate};

/// A programmable adapter whose one processor handles every doorbell, descriptor and packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirmwareModel {
    /// Time of one cycle of its processor.
    pub cycle: Time,
    /// Cycles to notice a doorbell and find its VI.
    pub doorbell_cycles: u32,
    /// Cycles to fetch a descriptor from the host and read it.
    pub descriptor_cycles: u32,
    /// Cycles to translate and check the page of a segment.
    pub page_cycles: u32,
    /// Cycles to set up a DMA transfer between host and adapter.
    pub dma_cycles: u32,
    /// Cycles to send a packet that lies in the adapter's memory.
    pub send_cycles: u32,
    /// Cycles to take a packet in and find its receive.
    pub receive_cycles: u32,
    /// Cycles to complete a descriptor.
    pub completion_cycles: u32,
    /// Largest payload of a packet, bytes.
    pub packet_bytes: u32,
    /// Size of a page in the translation table, bytes.
    pub page_bytes: u32,
    /// Rate of the host processor's own writes into the adapter's memory.
    pub write_rate: Rate,
    /// How messages may be moved; the adapter's program takes the one that it expects to be
    /// quickest for a message's size and segments.
    pub ways: Ways,
}

/// Which ways of moving a message a programmable adapter knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ways {
    /// The host's processor writes descriptor and data into the adapter's memory.
    pub written: bool,
    /// The adapter fetches a packet into its memory, then sends it.
    pub staged: bool,
    /// The adapter sends a packet while it still fetches it.
    pub streamed: bool,
}

impl FirmwareModel {
    fn cycles(&self, count: u32) -> Time {
        Time::from_picoseconds(self.cycle.picoseconds() * u64::from(count))
    }
}

/// Bytes of a descriptor that the processor writes with the data.
const DESCRIPTOR_BYTES: u32 = 64;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Written,
    Staged,
    Streamed,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Staged => "staged",
            Self::Streamed => "streamed",
        }
    }
}

pub(crate) fn plan(
    [nic, receiver]: [&FirmwareModel; 2],
    buses: [&BusModel; 2],
    link: (Frame, Rate),
    request: &Request,
) -> Plan {
    let known = [
        (Way::Written, nic.ways.written),
        (Way::Staged, nic.ways.staged),
        (Way::Streamed, nic.ways.streamed),
    ];
    let ways = known
        .into_iter()
        .filter_map(|(way, knows)| knows.then_some(way));
    let plans = ways.map(|way| plan_of(way, [nic, receiver], buses, link, request));
    let quickest = plans.min_by_key(|(_, expected)| *expected);
    quickest.map_or_else(|| Plan::free(request.bytes), |(plan, _)| plan)
}

/// A way's plan, and how long a message alone would take.
fn plan_of(
    way: Way,
    [nic, receiver]: [&FirmwareModel; 2],
    [bus, receiver_bus]: [&BusModel; 2],
    (frame, link_rate): (Frame, Rate),
    request: &Request,
) -> (Plan, Time) {
    let cycles = |count: u32| nic.cycles(count);
    let bytes = request.bytes;
    let payload = nic.packet_bytes.max(1);
    let packets = bytes.div_ceil(payload).max(1);
    let pages = match bytes {
        0 => 0,
        _ => page_crossings(bytes, nic.page_bytes) + request.segments.max(1),
    };
    let dma = bus.dma_rate();
    let wire_bytes = frame.wire_bytes(u64::from(bytes)) as f64;
    let first_bytes = f64::from(bytes.min(payload));
    let staging = dma.time_for(first_bytes);
    let (processor, service, per_packet, before) = match way {
        Way::Written => {
            let written = f64::from(bytes + DESCRIPTOR_BYTES);
            let writing = nic.write_rate.time_for(written);
            (writing, 0, nic.send_cycles, Time::ZERO)
        }
        Way::Staged => (
            Time::ZERO,
            nic.descriptor_cycles + pages * nic.page_cycles,
            nic.send_cycles + nic.dma_cycles,
            staging,
        ),
        Way::Streamed => (
            Time::ZERO,
            nic.descriptor_cycles + pages * nic.page_cycles + nic.dma_cycles,
            nic.send_cycles + nic.dma_cycles,
            Time::ZERO,
        ),
    };
    let read = if way == Way::Written {
        Time::ZERO
    } else {
        bus.read
    };
    // The first packet waits for its cycles; those of the others overlap with the bytes' moving,
    // and bound its rate.
    let each =
        cycles(per_packet).max(receiver.cycles(receiver.receive_cycles + receiver.dma_cycles));
    let moving_max = f64::from(bytes) / (each.picoseconds() as f64 * f64::from(packets));
    let scale = if bytes == 0 || way == Way::Written && bytes < payload {
        f64::INFINITY
    } else {
        wire_bytes / f64::from(bytes)
    };
    let rate_max = if packets > 1 {
        moving_max * wire_bytes / f64::from(bytes)
    } else {
        f64::INFINITY
    };
    let last_bytes = bytes - (packets - 1) * payload;
    let unstaging = receiver_bus.dma_rate().time_for(f64::from(last_bytes));
    let service = Step {
        bus: read,
        own: cycles(service) + cycles(per_packet),
    };
    let for_data = if bytes > 0 { receiver.dma_cycles } else { 0 };
    let match_service = Step::of(receiver.cycles(receiver.receive_cycles + for_data));
    let completion = Step {
        bus: receiver_bus.write,
        own: unstaging + receiver.cycles(receiver.completion_cycles),
    };
    let plan = Plan {
        way: way.name(),
        processor,
        service,
        mover: Mover::Engine,
        fetch: before,
        wire_bytes,
        scale,
        rate_max,
        sent: cycles(nic.completion_cycles) + bus.write,
        match_service,
        is_one_engine: true,
        completion,
        ..Plan::free(bytes)
    };
    // At the rate of the slowest part; data that the processor has written is over the bus.
    let over_buses = [bus, receiver_bus].map(|bus| bus.dma_rate().bytes_per_picosecond() * scale);
    let rates = [rate_max, over_buses[0], over_buses[1]];
    let rate = rates
        .into_iter()
        .fold(link_rate.bytes_per_picosecond(), f64::min);
    let moving = Time::from_picoseconds((wire_bytes / rate).ceil() as u64);
    let adapter = service.alone() + match_service.alone() + completion.alone();
    let expected = processor + adapter + before + moving;
    (plan, expected)
}
