//! CLAN: VIA in a library above remote writes.
//!
//! A send looks up the cookie of the receive it meets, writes the data straight into that buffer,
//! and then a message into the receiver's transfer queue: its body, and the write index that makes
//! it visible. By PIO the processor does all of it. By DMA the data and, behind it, the index go
//! through the queue of an engine that takes one request at a time and interrupts at the end of
//! each, while the processor writes the message's body; what is short the queue's scheduler writes
//! itself. With queues of the other design a short
//! message goes in the slot itself, which needs no index: so the real fabric does it.

use viaduct_engine::Time;

use super::{LastPlan, Likeness, Mover, Plan, Request, Step, Tally, Way};
use crate::bus::BusModel;
use viaduct_network::{Frame, Rate};

/// CLAN: an adapter that knows remote writes, and a DMA engine that takes one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteWriteModel {
    /// From a write's being on the bus to its first bit on the link, and from the link to the
    /// bus: at each end.
    pub adapter: Time,
    /// Rate of the processor's own writes over the bus.
    pub write_rate: Rate,
    /// Library: taking a segment's cookie and finding its mapping.
    pub segment: Time,
    /// Making a mapping of a remote buffer that is not in the cache.
    pub map: Time,
    /// Mappings that the cache keeps, the least recently used one goes.
    pub mappings: u32,
    /// Messages of at least so many bytes go by the DMA engine, bytes.
    pub dma_from_bytes: u32,
    /// Library and scheduler: passing a request through the DMA queue.
    pub dma_request: Time,
    /// Requests up to this size the scheduler writes itself, bytes.
    pub dma_written_bytes: u32,
    /// Starting the engine.
    pub dma_setup: Time,
    /// The interrupt at a request's end: its service routine starts the next.
    pub dma_interrupt: Time,
    /// A message of the transfer queue, bytes on the bus.
    pub slot_bytes: u32,
    /// How the library's message queues are made.
    pub queues: QueueDesign,
    /// Messages up to this size go with the message of the transfer queue, bytes. They are not
    /// written into the receive's buffer, so that no cookie is looked up.
    pub inline_bytes: u32,
    /// Bytes of such a message that its first slot takes.
    pub inline_first_bytes: u32,
    /// Bytes of such a message that each further slot takes.
    pub inline_next_bytes: u32,
    /// Slots after which a reader tells how far it has read; at once where the sender waits for
    /// it, at reliable reception.
    pub returned_every: u32,
    /// How programs hear of what was written.
    pub notices: NoticeModel,
}

/// How a message in a queue between two hosts becomes visible to its reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueDesign {
    /// By a write index that is written after it. Of each posted receive the sender gets a message,
    /// and one for each of its segments.
    Indexed,
    /// By a mark in its slot, which is written last. The sender gets a count of posted receives,
    /// and a message for those of one segment that are longer than what goes inline.
    Lapped,
}

/// CLAN's tripwires and its asynchronous event queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoticeModel {
    /// Locations that the adapter's content-addressable memory can watch at a time.
    pub tripwires: u32,
    /// Setting a tripwire.
    pub tripwire: Time,
    /// Entries of the event queue.
    pub events: u32,
    /// The interrupt for each message that it tells of: the adapter cannot write an entry itself.
    pub interrupt: Time,
    /// Reading an entry of it, at user level.
    pub event: Time,
    /// Looking at a location that no tripwire watches, one of many in turn.
    pub look: Time,
}

impl RemoteWriteModel {
    /// Whether its queues are made otherwise than another's, which are written from afar.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let queues = |it: &Self| {
            let slots = [it.slot_bytes, it.returned_every];
            let inline = [it.inline_bytes, it.inline_first_bytes, it.inline_next_bytes];
            (it.queues, slots, inline)
        };
        queues(self) != queues(other)
    }

    /// Slots of a message of the transfer queue whose bytes go with it.
    #[must_use]
    pub fn inline_slots(&self, bytes: u32) -> u32 {
        let more = bytes.saturating_sub(self.inline_first_bytes);
        1 + more.div_ceil(self.inline_next_bytes.max(1))
    }
}

/// Bytes of a queue's index.
const INDEX_BYTES: f64 = 4.0;

/// What the library remembers on one host.
#[derive(Debug, Default)]
pub struct RemoteWrites {
    /// Mapped remote buffers, the least recently used first.
    mapped: Vec<(u32, u64)>,
}

impl RemoteWrites {
    /// Whether a buffer is mapped, of so many that can be; it is from now on.
    fn is_mapped(&mut self, buffer: (u32, u64), mappings_max: u32) -> bool {
        if self.mapped.last() == Some(&buffer) {
            return true;
        }
        let found = self.mapped.iter().position(|mapped| *mapped == buffer);
        if let Some(place) = found {
            self.mapped.remove(place);
        } else if self.mapped.len() >= mappings_max as usize && !self.mapped.is_empty() {
            self.mapped.remove(0);
        }
        // It doubles from one: most hosts map one or two.
        if self.mapped.len() == self.mapped.capacity() {
            self.mapped.reserve_exact(self.mapped.len().max(1));
        }
        self.mapped.push(buffer);
        found.is_some()
    }

    pub(crate) fn plan<'a>(
        &mut self,
        models: [&RemoteWriteModel; 2],
        (buses, groups): ([&BusModel; 2], [usize; 2]),
        frame: Frame,
        request: &Request,
        last: &'a mut LastPlan,
    ) -> &'a Plan {
        let bytes = request.bytes;
        let [model, _] = models;
        let has_pieces = bytes > model.inline_bytes;
        let is_mapped = !has_pieces || self.is_mapped(request.target, model.mappings);
        let likeness = Likeness {
            bytes,
            segments: request.segments,
            groups,
            is_mapped,
            is_behind: request.is_behind,
        };
        if !last.is_like(likeness) {
            last.set(plan(models, buses, frame, request, is_mapped));
        }
        &last.plan
    }
}

fn plan(
    [model, receiver]: [&RemoteWriteModel; 2],
    [bus, receiver_bus]: [&BusModel; 2],
    frame: Frame,
    request: &Request,
    is_mapped: bool,
) -> Plan {
    let bytes = request.bytes;
    let slot_bytes = f64::from(model.slot_bytes);
    let frames = |bytes: u64| frame.wire_bytes(bytes) as f64;
    let mut processor = Time::ZERO;
    let is_inline = bytes <= model.inline_bytes;
    let pieces = if is_inline {
        0
    } else {
        request.segments.max(1)
    };
    if pieces > 0 {
        for _ in 0..pieces {
            processor += model.segment;
        }
        if !is_mapped {
            processor += model.map;
        }
    }
    // Data, body of the slot, index: a write each, posted one behind the other.
    let indexes = u32::from(model.queues == QueueDesign::Indexed);
    let index = f64::from(indexes) * INDEX_BYTES;
    let in_slot = u64::from(model.slot_bytes + if is_inline { bytes } else { 0 });
    let body = frames(in_slot) + f64::from(indexes) * frames(INDEX_BYTES as u64);
    let data = if pieces > 0 {
        frames(u64::from(bytes))
    } else {
        0.0
    };
    let on_bus = f64::from(bytes) + slot_bytes + index;
    let wire_bytes = data + body;
    let arrival = Plan {
        wire_bytes,
        scale: wire_bytes / on_bus,
        adapters: model.adapter + receiver.adapter,
        completion: Step {
            bus: receiver_bus.write,
            own: Time::ZERO,
        },
        tally: Tally {
            way: if pieces > 0 { Way::Direct } else { Way::Inline },
            transfers: 1,
            slots: if is_inline {
                model.inline_slots(bytes)
            } else {
                1
            },
            indexes,
            // The cookies of the receive are read. A count of receives needs no answer.
            returns: indexes,
            data_writes: pieces,
            ..Tally::default()
        },
        ..Plan::free(bytes)
    };
    let pushing = |bytes: f64| {
        let writes =
            Time::from_picoseconds((bytes / model.write_rate.bytes_per_picosecond() + 0.5) as u64);
        bus.programmed_write + writes
    };
    let by_processor = bytes < model.dma_from_bytes || (is_inline && bytes > 0);
    if by_processor && !request.is_behind {
        return Plan {
            way: "PIO",
            processor,
            mover: Mover::Processor(pushing(on_bus)),
            rate_max: wire_bytes / (on_bus / model.write_rate.bytes_per_picosecond()),
            adapters: arrival.adapters + bus.programmed_write,
            ..arrival
        };
    }
    // A request for each piece of the data, and one for what makes the message visible.
    for _ in 0..=pieces {
        processor += model.dma_request;
    }
    let tally = Tally {
        way: if pieces > 0 { Way::Copied } else { Way::Inline },
        indexes: 0,
        data_writes: 0,
        copies: pieces,
        index_requests: 1,
        ..arrival.tally
    };
    // The processor writes the body when the send is processed, and only the index follows the data
    // through the queue. A slot that says itself that it is new has to follow it as a whole.
    let (writing_body, follows, follows_on_wire) = match model.queues {
        QueueDesign::Indexed => (pushing(slot_bytes), index, frames(INDEX_BYTES as u64)),
        QueueDesign::Lapped => (Time::ZERO, slot_bytes, body),
    };
    let on_bus = f64::from(bytes) + follows;
    let wire_bytes = data + follows_on_wire;
    let arrival = Plan {
        wire_bytes,
        scale: wire_bytes / on_bus,
        tally,
        ..arrival
    };
    if bytes <= model.dma_written_bytes && !request.is_behind {
        return Plan {
            way: "queued PIO",
            processor: processor + writing_body,
            mover: Mover::Processor(pushing(on_bus)),
            rate_max: wire_bytes / (on_bus / model.write_rate.bytes_per_picosecond()),
            adapters: arrival.adapters + bus.programmed_write,
            ..arrival
        };
    }
    Plan {
        way: "DMA",
        processor,
        // While data still waits.
        beside: writing_body,
        // The interrupt at the end of each piece starts the next.
        service: Step::of(
            times(model.dma_setup, pieces.max(1))
                + times(model.dma_interrupt, pieces.saturating_sub(1)),
        ),
        mover: Mover::HeldEngine,
        rate_max: f64::INFINITY,
        sent_interrupt: model.dma_interrupt,
        // The index follows the interrupt.
        completion: Step {
            bus: bus.programmed_write + receiver_bus.write,
            own: model.dma_interrupt,
        },
        ..arrival
    }
}

fn times(time: Time, count: u32) -> Time {
    Time::from_picoseconds(time.picoseconds() * u64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLAN's numbers, with a body of so many bytes.
    fn planned(slot_bytes: u32, bytes: u32) -> Plan {
        let nanoseconds = |count: u64| Time::from_picoseconds(count * 1000);
        let model = RemoteWriteModel {
            adapter: nanoseconds(940),
            write_rate: Rate::from_bits_per_second(85e6 * 8.0),
            segment: nanoseconds(1150),
            map: nanoseconds(20_000),
            mappings: 1024,
            dma_from_bytes: 0,
            dma_request: nanoseconds(940),
            dma_written_bytes: 128,
            dma_setup: nanoseconds(600),
            dma_interrupt: nanoseconds(4100),
            slot_bytes,
            queues: QueueDesign::Indexed,
            inline_bytes: 0,
            inline_first_bytes: 0,
            inline_next_bytes: 0,
            returned_every: 1,
            notices: NoticeModel {
                tripwires: 4096,
                tripwire: nanoseconds(400),
                events: 1024,
                interrupt: nanoseconds(4100),
                event: nanoseconds(150),
                look: nanoseconds(30),
            },
        };
        let bus = BusModel {
            rate: Rate::from_bits_per_second(132e6 * 8.0),
            burst_bytes: 512,
            burst_overhead: nanoseconds(390),
            programmed_write: nanoseconds(200),
            read: nanoseconds(500),
            write: nanoseconds(250),
        };
        let frame = Frame {
            payload_bytes: 512,
            header_bytes: 8,
        };
        let request = Request {
            bytes,
            segments: 1,
            place_in_batch: 0,
            target: (1, 7),
            is_behind: false,
            is_inline: None,
        };
        plan([&model; 2], [&bus; 2], frame, &request, true)
    }

    #[test]
    fn by_dma_only_the_index_follows_the_data() {
        let [short, long] = [16, 160].map(|slot_bytes| planned(slot_bytes, 4096));
        // Eight frames of data and one of the index.
        assert_eq!(short.wire_bytes, 4096.0 + 4.0 + 9.0 * 8.0);
        assert_eq!(short.scale, short.wire_bytes / 4100.0);
        // However long the body is, it delays nothing but the processor.
        assert_eq!(
            (short.processor, short.service),
            (long.processor, long.service)
        );
        assert_eq!(short.wire_bytes, long.wire_bytes);
        assert_eq!(short.beside, Time::from_picoseconds(200_000 + 188_235));
        assert!(long.beside > short.beside);
        // What the scheduler writes itself has the processor for both, one after the other.
        let (slot, written) = (planned(16, 4), planned(160, 4));
        assert_eq!(
            (slot.way, slot.wire_bytes),
            ("queued PIO", 4.0 + 4.0 + 2.0 * 8.0)
        );
        assert_eq!(slot.wire_bytes, written.wire_bytes);
        let of_bodies = written.processor.saturating_sub(slot.processor);
        assert_eq!(of_bodies, long.beside.saturating_sub(short.beside));
    }

    #[test]
    fn the_mapping_that_was_used_longest_ago_goes() {
        let mut library = RemoteWrites::default();
        for (buffer, was_mapped) in [
            (1, false),
            (2, false),
            (3, false),
            (1, true),
            // 2 goes, since 1 was used again.
            (4, false),
            (1, true),
            (3, true),
            (2, false),
            (4, false),
            (3, true),
        ] {
            assert_eq!(library.is_mapped((0, buffer), 3), was_mapped, "{buffer}");
            assert!(library.mapped.len() <= 3);
        }
    }

    #[test]
    fn buffers_of_one_number_on_two_hosts_are_two_mappings() {
        let mut library = RemoteWrites::default();
        assert!(!library.is_mapped((0, 7), 8));
        assert!(!library.is_mapped((1, 7), 8));
        assert!(library.is_mapped((0, 7), 8));
    }
}
