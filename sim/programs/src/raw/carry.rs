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
use viaduct_network::{Begun, Moved, Next};

use super::{Cookie, model_of};
use crate::cluster::{Cluster, Hosted};
use crate::event::Event;
use viaduct_cluster::faults::Fate;
use viaduct_cluster::programs::Crossing;

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
    /// How it crosses its way now, once it has begun.
    crossing: Option<Crossing>,
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

impl Hosted {
    /// Takes memory back that a host has given.
    pub(crate) fn take_back(cluster: &mut Cluster, cookie: Cookie) {
        cluster.programs.raw.areas.remove(&cookie.area);
        if let Some(notices) = &mut cluster.programs.host(cookie.host).notices {
            notices.forget(cookie.area);
        }
    }

    /// The processor of a host writes into another's memory.
    pub(crate) fn write_raw(
        cluster: &mut Cluster,
        source: u32,
        cookie: Cookie,
        offset: u32,
        bytes: &[u8],
    ) {
        let Some(model) = model_of(cluster.config.host.of(source)) else {
            return;
        };
        let span = Time::from_picoseconds(
            (bytes.len() as f64 / model.write_rate.bytes_per_picosecond() + 0.5) as u64,
        );
        let writing = cluster.config.host.of(source).bus.programmed_write + span;
        let id = Self::admit_raw(
            cluster,
            source,
            (cookie, offset),
            bytes,
            model.write_rate,
            false,
        );
        let (begins, _) = cluster.work(source, cluster.now(), writing);
        cluster.schedule(begins, Event::Raw(RawEvent::Begins(id)));
    }

    /// A program of a host asks the engine to write into another's memory.
    pub(crate) fn post_raw(
        cluster: &mut Cluster,
        source: u32,
        cookie: Cookie,
        offset: u32,
        bytes: &[u8],
    ) {
        let Some(model) = model_of(cluster.config.host.of(source)) else {
            return;
        };
        cluster.programs.counts.dma_requests += 1;
        let is_queued = cluster.programs.raw.requests(source) > 0;
        cluster.work_now(source, model.dma_request);
        if bytes.len() as u64 <= u64::from(model.dma_written_bytes) && !is_queued {
            Self::write_raw(cluster, source, cookie, offset, bytes);
            return;
        }
        let id = Self::admit_raw(
            cluster,
            source,
            (cookie, offset),
            bytes,
            Rate::INFINITE,
            true,
        );
        *cluster.programs.raw.requests.entry(source).or_default() += 1;
        cluster.queue_request(source, id.0);
    }

    fn admit_raw(
        cluster: &mut Cluster,
        source: u32,
        (cookie, offset): (Cookie, u32),
        bytes: &[u8],
        rate: Rate,
        is_dma: bool,
    ) -> WriteId {
        cluster.programs.counts.remote_writes += 1;
        let length = bytes.len() as f64;
        let wire_bytes = cluster.config.links.frame.wire_bytes(bytes.len() as u64) as f64;
        let scale = wire_bytes / length;
        cluster.programs.raw.insert(Write {
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
            crossing: None,
            fate: Fate::Whole,
        })
    }

    /// A request's turn at the engine has come; when its bytes begin to move.
    pub(crate) fn serve_raw(cluster: &mut Cluster, host: u32, id: WriteId) {
        let Some(model) = model_of(cluster.config.host.of(host)) else {
            return;
        };
        // A request is there when the processor has written it.
        let written = cluster.processor_free(host).max(cluster.now());
        let event = Event::Raw(RawEvent::Begins(id));
        cluster.schedule(written + model.dma_setup, event);
    }

    pub(crate) fn handle_raw(cluster: &mut Cluster, event: RawEvent) {
        match event {
            RawEvent::Begins(id) => Self::begin_raw_in_order(cluster, id),
            RawEvent::Ended(host) => {
                if let Some(requests) = cluster.programs.raw.requests.get_mut(&host) {
                    *requests -= 1;
                }
                cluster.end_request(host);
                Self::changed(cluster, host);
            }
            RawEvent::Arrives(id) => Self::place_raw(cluster, id),
        }
    }

    fn begin_raw_in_order(cluster: &mut Cluster, id: WriteId) {
        let Some(Write { source, is_dma, .. }) = cluster.programs.raw.get(id) else {
            return;
        };
        let (source, is_dma) = (*source, *is_dma);
        if !is_dma {
            let written = cluster.programs.raw.written.entry(source).or_default();
            written.push_back(id);
            if written.len() > 1 {
                return;
            }
        }
        Self::begin_raw(cluster, id);
    }

    fn begin_raw(cluster: &mut Cluster, id: WriteId) {
        let Some(write) = cluster.programs.raw.get(id) else {
            return;
        };
        let (ends, demand) = ((write.source, write.cookie.host), write.demand);
        let crossing = cluster.begin_request(id.0, ends, demand);
        if let Some(write) = cluster.programs.raw.get(id) {
            write.crossing = Some(crossing);
        }
    }

    /// A write has begun to move over the next hop of its way.
    pub(crate) fn raw_begun(cluster: &mut Cluster, id: WriteId, begun: &Begun) {
        let Some(write) = cluster.programs.raw.get(id) else {
            return;
        };
        let ends = (write.source, write.cookie.host);
        let crossing = cluster.crossing(ends, begun);
        if let Some(write) = cluster.programs.raw.get(id) {
            write.crossing = Some(crossing);
        }
    }

    /// The bytes of a raw write have moved over its whole way, or over a hop of it.
    pub(crate) fn raw_moved(cluster: &mut Cluster, id: WriteId, moved: &Moved) {
        let now = cluster.now();
        let Some(write) = cluster.programs.raw.get(id) else {
            return;
        };
        let (ends, is_dma) = ((write.source, write.cookie.host), write.is_dma);
        let (bytes, mut fate) = (write.bytes.len() as u64, write.fate);
        let Some(crossing) = write.crossing else {
            return;
        };
        if moved.loss.is_some() {
            fate = Fate::Lost;
        }
        if fate != Fate::Lost {
            let (frames, is_there) = (
                cluster.config.links.frame.count(bytes),
                moved.next == Next::There,
            );
            fate = cluster.fate_of_request(&crossing, frames, is_there);
        }
        if let Some(write) = cluster.programs.raw.get(id) {
            write.fate = fate;
        }
        let hosts = &cluster.config.host;
        let (source, target) = (hosts.of(ends.0), hosts.of(ends.1));
        let (Some(model), Some(receiver)) = (model_of(source), model_of(target)) else {
            return;
        };
        let (head, is_lost) = (crossing.delay, fate == Fate::Lost);
        match moved.next {
            Next::Onward | Next::Head(_) => {}
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) if !is_lost => {
                cluster.go_on_after(journey, after);
            }
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                cluster.give_up_request(journey);
                Self::expect_raw(cluster, id, (ends, is_dma), now + after);
            }
            Next::There => {
                let adapters = model.adapter + receiver.adapter;
                let mut there = moved.at + head + adapters + target.bus.write;
                if !is_dma {
                    there += source.bus.programmed_write;
                }
                Self::expect_raw(cluster, id, (ends, is_dma), there);
            }
        }
        if !moved.is_gone {
            return;
        }
        if is_dma {
            let served = cluster.work_now(ends.0, model.dma_interrupt);
            cluster.schedule(served, Event::Raw(RawEvent::Ended(ends.0)));
        } else if let Some(written) = cluster.programs.raw.written.get_mut(&ends.0) {
            written.pop_front();
            if let Some(next) = written.front().copied() {
                Self::begin_raw(cluster, next);
            }
        }
    }

    /// A write's last byte would be there at a time: it is, behind those of its kind.
    fn expect_raw(cluster: &mut Cluster, id: WriteId, kind: ((u32, u32), bool), there: Time) {
        let ((source, target), is_dma) = kind;
        let last = cluster
            .programs
            .raw
            .last_arrival
            .entry((source, target, is_dma));
        let last = last.or_default();
        *last = there.max(*last);
        let there = *last;
        cluster.schedule(there, Event::Raw(RawEvent::Arrives(id)));
    }

    /// The bytes are there: they are placed if the memory is given still.
    fn place_raw(cluster: &mut Cluster, id: WriteId) {
        let Some(mut write) = cluster.programs.raw.remove(id) else {
            return;
        };
        match write.fate {
            Fate::Whole => {}
            Fate::Corrupt => {
                cluster.programs.counts.corrupted += 1;
                write.bytes[0] ^= 1;
            }
            Fate::Lost | Fate::Gap => {
                cluster.programs.counts.lost += 1;
                return;
            }
        }
        let from = write.offset as usize;
        let Some(area) = cluster.programs.raw.areas.get_mut(&write.cookie.area) else {
            cluster.programs.counts.refused_writes += 1;
            return;
        };
        area[from..from + write.bytes.len()].copy_from_slice(&write.bytes);
        Self::changed(cluster, write.cookie.host);
    }
}
