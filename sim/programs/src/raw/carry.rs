//! The way of a write below VIA, from its program to the memory of another host.
//!
//! ```text
//!  a processor:  Begins -> flow ... -> Arrives
//!  the engine:   turn -> Begins -> flow ... -> Arrives
//!                                          `-> Ended: the interrupt is served
//! ```

use std::collections::{BTreeMap, VecDeque};

use viaduct_engine::Time;
use viaduct_hardware::Rate;
use viaduct_network::fluid::FlowDemand;
use viaduct_network::{Begun, Moved, Next, Transfer};

use super::{Cookie, model_of};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::failures::crossed;
use crate::host::Turn;
use crate::message::WHOLE_WAY;
use viaduct_cluster::faults::Fate;

/// The flows of raw writes are tagged with their numbers and this.
const RAW: u32 = 1 << 31;

/// The raw write that a flow's tag means, if it means one.
pub(crate) const fn raw_of_tag(tag: u32) -> Option<WriteId> {
    if tag & RAW == 0 {
        return None;
    }
    Some(WriteId(tag & !RAW))
}

/// Number of a raw write under way; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WriteId(pub(crate) u32);

/// What happens to a raw write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RawEvent {
    /// Its bytes begin to move.
    Begins(WriteId),
    /// Its request to the engine of a host has ended, and the interrupt is served.
    Ended(u32),
    /// Its bytes are there.
    Arrives(WriteId),
}

/// Bytes on their way.
#[derive(Debug)]
struct Write {
    source: u32,
    cookie: Cookie,
    offset: u32,
    bytes: Vec<u8>,
    is_dma: bool,
    demand: FlowDemand,
    begun: Time,
    /// How long a byte of it is on what it crosses now, and which links of its way that is.
    head: Time,
    links: (u16, u16),
    fate: Fate,
}

/// Memory that is given, and writes under way.
#[derive(Debug, Default)]
pub(crate) struct RawWrites {
    areas: BTreeMap<u32, Vec<u8>>,
    last_area: u32,
    writes: Vec<Option<Write>>,
    free: Vec<WriteId>,
    /// By source and target, the processor's writes and the engine's apart: when the last arrives,
    /// which none of its kind overtakes.
    last_arrival: BTreeMap<(u32, u32, bool), Time>,
    /// By host: what its processor has written, in order; the bytes of the first move.
    written: BTreeMap<u32, VecDeque<WriteId>>,
    /// By host: requests to its engine that have not ended.
    requests: BTreeMap<u32, u32>,
}

impl RawWrites {
    pub(crate) fn give(&mut self, host: u32, length: u32) -> Cookie {
        self.last_area += 1;
        self.areas.insert(self.last_area, vec![0; length as usize]);
        Cookie {
            host,
            area: self.last_area,
            length,
        }
    }

    pub(crate) fn has(&self, cookie: Cookie) -> bool {
        self.areas.contains_key(&cookie.area)
    }

    pub(crate) fn bytes(&self, area: u32) -> Option<&[u8]> {
        self.areas.get(&area).map(Vec::as_slice)
    }

    pub(crate) fn requests(&self, host: u32) -> u32 {
        self.requests.get(&host).copied().unwrap_or(0)
    }

    fn insert(&mut self, write: Write) -> WriteId {
        if let Some(id) = self.free.pop() {
            self.writes[id.0 as usize] = Some(write);
            return id;
        }
        self.writes.push(Some(write));
        WriteId(self.writes.len() as u32 - 1)
    }

    fn get(&mut self, id: WriteId) -> Option<&mut Write> {
        self.writes.get_mut(id.0 as usize)?.as_mut()
    }

    fn remove(&mut self, id: WriteId) -> Option<Write> {
        let write = self.writes.get_mut(id.0 as usize)?.take()?;
        self.free.push(id);
        Some(write)
    }
}

impl Cluster {
    /// Takes memory back that a host has given.
    pub(crate) fn take_back(&mut self, cookie: Cookie) {
        self.raw.areas.remove(&cookie.area);
        if let Some(notices) = &mut self.host(cookie.host).notices {
            notices.forget(cookie.area);
        }
    }

    /// The processor of a host writes into another's memory.
    pub(crate) fn write_raw(&mut self, source: u32, cookie: Cookie, offset: u32, bytes: &[u8]) {
        let Some(model) = model_of(&self.config) else {
            return;
        };
        let span = Time::from_picoseconds(
            (bytes.len() as f64 / model.write_rate.bytes_per_picosecond() + 0.5) as u64,
        );
        let writing = self.config.host.bus.programmed_write + span;
        let id = self.admit_raw(source, (cookie, offset), bytes, model.write_rate, false);
        let now = self.now();
        let state = self.host(source);
        let begins = state.processor_free.max(now);
        state.work(begins, writing);
        self.queue
            .schedule(begins, Event::Raw(RawEvent::Begins(id)).into());
    }

    /// A program of a host asks the engine to write into another's memory.
    pub(crate) fn post_raw(&mut self, source: u32, cookie: Cookie, offset: u32, bytes: &[u8]) {
        let Some(model) = model_of(&self.config) else {
            return;
        };
        let now = self.now();
        self.counts.dma_requests += 1;
        let is_queued = self.raw.requests(source) > 0;
        self.host(source).work(now, model.dma_request);
        if bytes.len() as u64 <= u64::from(model.dma_written_bytes) && !is_queued {
            self.write_raw(source, cookie, offset, bytes);
            return;
        }
        let id = self.admit_raw(source, (cookie, offset), bytes, Rate::INFINITE, true);
        *self.raw.requests.entry(source).or_default() += 1;
        self.host(source).engine.turns.push_back(Turn::Raw(id));
        self.serve(source);
    }

    fn admit_raw(
        &mut self,
        source: u32,
        (cookie, offset): (Cookie, u32),
        bytes: &[u8],
        rate: Rate,
        is_dma: bool,
    ) -> WriteId {
        self.counts.remote_writes += 1;
        let length = bytes.len() as f64;
        let wire_bytes = self.config.links.frame.wire_bytes(bytes.len() as u64) as f64;
        let scale = wire_bytes / length;
        let id = self.raw.insert(Write {
            source,
            cookie,
            offset,
            bytes: bytes.to_vec(),
            is_dma,
            demand: FlowDemand {
                wire_bytes,
                scale,
                rate_max: rate.bytes_per_picosecond() * scale,
                tag: 0,
            },
            begun: Time::ZERO,
            head: Time::ZERO,
            links: WHOLE_WAY,
            fate: Fate::Whole,
        });
        if let Some(write) = self.raw.get(id) {
            write.demand.tag = id.0 | RAW;
        }
        id
    }

    /// A request's turn at the engine has come; when its bytes begin to move.
    pub(crate) fn serve_raw(&mut self, host: u32, id: WriteId) {
        let Some(model) = model_of(&self.config) else {
            return;
        };
        let now = self.now();
        let state = self.host(host);
        state.engine.is_busy = true;
        // A request is there when the processor has written it.
        let begins = state.processor_free.max(now) + model.dma_setup;
        self.queue
            .schedule(begins, Event::Raw(RawEvent::Begins(id)).into());
    }

    pub(crate) fn handle_raw(&mut self, event: RawEvent) {
        match event {
            RawEvent::Begins(id) => self.begin_raw_in_order(id),
            RawEvent::Ended(host) => {
                if let Some(requests) = self.raw.requests.get_mut(&host) {
                    *requests -= 1;
                }
                self.handle_engine_free(host);
                self.changed(host);
            }
            RawEvent::Arrives(id) => self.place_raw(id),
        }
    }

    fn begin_raw_in_order(&mut self, id: WriteId) {
        let Some(Write { source, is_dma, .. }) = self.raw.get(id) else {
            return;
        };
        let (source, is_dma) = (*source, *is_dma);
        if !is_dma {
            let written = self.raw.written.entry(source).or_default();
            written.push_back(id);
            if written.len() > 1 {
                return;
            }
        }
        self.begin_raw(id);
    }

    fn begin_raw(&mut self, id: WriteId) {
        let Some(write) = self.raw.get(id) else {
            return;
        };
        let transfer = Transfer {
            ends: (write.source, write.cookie.host),
            flow: 0,
            is_ordered: true,
            demand: write.demand,
        };
        let begun = self.network.begin(&mut self.queue, &transfer);
        self.raw_begun(id, &begun);
    }

    /// A write has begun to move, over its whole way or the next hop of it.
    pub(crate) fn raw_begun(&mut self, id: WriteId, begun: &Begun) {
        let (now, links) = (self.now(), self.links_crossed(begun.journey));
        if let Some(write) = self.raw.get(id) {
            (write.begun, write.head, write.links) = (now, begun.delay, links);
        }
    }

    /// The bytes of a raw write have moved over its whole way, or over a hop of it.
    pub(crate) fn raw_moved(&mut self, id: WriteId, moved: &Moved) {
        let now = self.now();
        let (Some(model), Some(write)) = (model_of(&self.config), self.raw.get(id)) else {
            return;
        };
        let (ends, is_dma) = ((write.source, write.cookie.host), write.is_dma);
        let is_there = moved.next == Next::There;
        if let Some(faults) = &mut self.faults {
            let way = self.network.way(ends, 0);
            let is_lost = faults.is_nic_dead(ends.0)
                || faults.is_nic_dead(ends.1)
                || faults
                    .cut(crossed(way, write.links), write.begun, now)
                    .is_some();
            if is_lost {
                write.fate = Fate::Lost;
            } else if is_there {
                let frames = self.config.links.frame.count(write.bytes.len() as u64);
                (write.fate, _) = faults.draw(way, frames);
            }
        }
        let (head, is_lost) = (write.head, write.fate == Fate::Lost);
        match moved.next {
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) if !is_lost => {
                self.forward_after(journey, after);
            }
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                self.network.give_up(journey);
                self.expect_raw(id, (ends, is_dma), now + after);
            }
            Next::There => {
                let bus = self.config.host.bus;
                let mut there = now + head + model.adapter + model.adapter + bus.write;
                if !is_dma {
                    there += bus.programmed_write;
                }
                self.expect_raw(id, (ends, is_dma), there);
            }
        }
        if !moved.is_gone {
            return;
        }
        if is_dma {
            let served = self.host(ends.0).work(now, model.dma_interrupt);
            self.queue
                .schedule(served, Event::Raw(RawEvent::Ended(ends.0)).into());
        } else if let Some(written) = self.raw.written.get_mut(&ends.0) {
            written.pop_front();
            if let Some(next) = written.front().copied() {
                self.begin_raw(next);
            }
        }
    }

    /// A write's last byte would be there at a time: it is, behind those of its kind.
    fn expect_raw(&mut self, id: WriteId, kind: ((u32, u32), bool), there: Time) {
        let ((source, target), is_dma) = kind;
        let last = self.raw.last_arrival.entry((source, target, is_dma));
        let last = last.or_default();
        *last = there.max(*last);
        self.queue
            .schedule(*last, Event::Raw(RawEvent::Arrives(id)).into());
    }

    /// The bytes are there: they are placed if the memory is given still.
    fn place_raw(&mut self, id: WriteId) {
        let Some(mut write) = self.raw.remove(id) else {
            return;
        };
        match write.fate {
            Fate::Whole => {}
            Fate::Corrupt => {
                self.counts.corrupted += 1;
                write.bytes[0] ^= 1;
            }
            Fate::Lost | Fate::Gap => {
                self.counts.lost += 1;
                return;
            }
        }
        let from = write.offset as usize;
        let Some(area) = self.raw.areas.get_mut(&write.cookie.area) else {
            self.counts.refused_writes += 1;
            return;
        };
        area[from..from + write.bytes.len()].copy_from_slice(&write.bytes);
        self.changed(write.cookie.host);
    }
}
