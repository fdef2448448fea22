//! CLAN: VIA in a library above remote writes.
//!
//! A send looks up the cookie of the receive it meets, writes the data straight into that buffer,
//! and then a message into the receiver's transfer queue: its body, and the write index that makes
//! it visible. By PIO the processor does all of it. By DMA the data and, behind it, the index go
//! through the queue of an engine that takes one request at a time and interrupts at the end of
//! each; what is short the queue's scheduler writes itself.

use viaduct_engine::Time;
use viaduct_sim::config::{BusModel, Frame};

use super::{Mover, Plan, Request};
use crate::config::RemoteWriteModel;

/// Bytes of a queue's index.
const INDEX_BYTES: f64 = 4.0;

/// What the library remembers on one host.
#[derive(Debug)]
pub(crate) struct RemoteWrites {
    /// Mapped remote buffers, the least recently used first.
    mapped: Vec<(u32, u64)>,
    mappings_max: usize,
}

impl RemoteWrites {
    pub(crate) const fn new(mappings_max: u32) -> Self {
        Self {
            mapped: Vec::new(),
            mappings_max: mappings_max as usize,
        }
    }

    /// Whether a buffer is mapped; it is from now on.
    fn is_mapped(&mut self, buffer: (u32, u64)) -> bool {
        if self.mapped.last() == Some(&buffer) {
            return true;
        }
        let found = self.mapped.iter().position(|mapped| *mapped == buffer);
        if let Some(place) = found {
            self.mapped.remove(place);
        } else if self.mapped.len() >= self.mappings_max && !self.mapped.is_empty() {
            self.mapped.remove(0);
        }
        self.mapped.push(buffer);
        found.is_some()
    }

    pub(crate) fn plan(
        &mut self,
        model: &RemoteWriteModel,
        bus: &BusModel,
        frame: Frame,
        request: &Request,
    ) -> Plan {
        let bytes = request.bytes;
        let slot_bytes = f64::from(model.slot_bytes);
        let frames = |bytes: u64| frame.wire_bytes(bytes) as f64;
        let mut processor = Time::ZERO;
        let mut remote_writes = 2;
        if bytes > 0 {
            remote_writes += request.segments.max(1);
            for _ in 0..request.segments.max(1) {
                processor += model.segment;
            }
            if !self.is_mapped(request.target) {
                processor += model.map;
            }
        }
        // Data, body of the slot, index: a write each, posted one behind the other.
        let body = frames(u64::from(model.slot_bytes)) + frames(INDEX_BYTES as u64);
        let data = if bytes > 0 {
            frames(u64::from(bytes))
        } else {
            0.0
        };
        let on_bus = f64::from(bytes) + slot_bytes + INDEX_BYTES;
        let wire_bytes = data + body;
        let arrival = Plan {
            wire_bytes,
            scale: wire_bytes / on_bus,
            adapters: Time::from_picoseconds(2 * model.adapter.picoseconds()),
            completion: bus.write,
            remote_writes,
            ..Plan::free(bytes)
        };
        let pushing = |bytes: f64| {
            let writes = Time::from_picoseconds(
                (bytes / model.write_rate.bytes_per_picosecond() + 0.5) as u64,
            );
            bus.programmed_write + writes
        };
        if bytes < model.dma_from_bytes && !request.is_behind {
            return Plan {
                processor,
                mover: Mover::Processor(pushing(on_bus)),
                rate_max: wire_bytes / (on_bus / model.write_rate.bytes_per_picosecond()),
                adapters: arrival.adapters + bus.programmed_write,
                ..arrival
            };
        }
        // The data, if there is any, and the index: two requests.
        let requests = 1 + u32::from(bytes > 0);
        for _ in 0..requests {
            processor += model.dma_request;
        }
        if bytes <= model.dma_written_bytes && !request.is_behind {
            return Plan {
                processor,
                mover: Mover::Processor(pushing(on_bus)),
                rate_max: wire_bytes / (on_bus / model.write_rate.bytes_per_picosecond()),
                adapters: arrival.adapters + bus.programmed_write,
                dma_requests: requests,
                ..arrival
            };
        }
        Plan {
            processor: processor + pushing(slot_bytes),
            service: model.dma_setup,
            mover: Mover::HeldEngine,
            rate_max: f64::INFINITY,
            sent_interrupt: model.dma_interrupt,
            // The index follows the interrupt.
            completion: model.dma_interrupt + bus.programmed_write + bus.write,
            dma_requests: requests,
            ..arrival
        }
    }
}
