//! What a run keeps of its messages, in memory that does not grow with their number.

use std::collections::BTreeMap;

use viaduct_engine::Time;
use viaduct_statistics::{BatchMeans, Moments, Quantiles, Transient};

use crate::message::Message;
use crate::programs::OF_PROGRAM;
use crate::result::{Drops, MessageCounts, MessageRow, SeriesRow};
use crate::why::Chooser;
use viaduct_hardware::STAGES;

/// Marks the numbers of drawn messages where there are programs, which have numbers of their own.
pub(crate) const AROUND: u64 = 1 << 63;

/// Counts and distributions of one run.
#[derive(Debug)]
pub(crate) struct Accounting {
    /// Messages posted before are left out of distributions.
    warmup: Time,
    pub(crate) counts: MessageCounts,
    /// Drawn messages where there are programs, whose own are meant: they are counted, and no more.
    pub(crate) around: MessageCounts,
    has_programs: bool,
    pub(crate) latency_us: Moments,
    pub(crate) latency_ps: Quantiles,
    pub(crate) batches_us: BatchMeans,
    /// Latency over the time of posting, warm-up included.
    pub(crate) transient: Transient,
    /// Picoseconds in each stage, summed over measured messages.
    pub(crate) stages: [u64; STAGES],
    pub(crate) delivered_bytes: u64,
    /// By how much the message closest to its floor was above it, picoseconds.
    pub(crate) smallest_excess: Option<i64>,
    pub(crate) smallest_floor: Option<Time>,
    /// Picoseconds of all measured messages.
    pub(crate) latency_sum: u64,
    /// The same of their floors.
    pub(crate) floor_sum: u64,
    digest: u64,
    drops: BTreeMap<(&'static str, u32), (u64, Time)>,
    pub(crate) rows: Vec<MessageRow>,
    pub(crate) row_stride: u64,
    rows_max: usize,
    /// The series' present window.
    pub(crate) window: SeriesRow,
    window_latency_us: f64,
    /// What listens for one message; see [`crate::why`].
    pub(crate) chooser: Option<Box<Chooser>>,
}

impl Accounting {
    pub(crate) fn new(warmup: Time, rows_max: u32, has_programs: bool) -> Self {
        Self {
            warmup,
            counts: MessageCounts::default(),
            around: MessageCounts::default(),
            has_programs,
            latency_us: Moments::default(),
            latency_ps: Quantiles::default(),
            batches_us: BatchMeans::default(),
            transient: Transient::default(),
            stages: [0; STAGES],
            delivered_bytes: 0,
            smallest_excess: None,
            smallest_floor: None,
            latency_sum: 0,
            floor_sum: 0,
            digest: 0,
            drops: BTreeMap::new(),
            rows: Vec::new(),
            row_stride: 1,
            rows_max: rows_max as usize,
            window: SeriesRow::default(),
            window_latency_us: 0.0,
            chooser: None,
        }
    }

    /// Keeps so many messages as rows.
    pub(crate) const fn keep_rows(&mut self, rows_max: u32) {
        self.rows_max = rows_max as usize;
    }

    /// A message is wanted, of those around programs or not: gives its number.
    #[inline]
    pub(crate) fn posted(&mut self, is_around: bool) -> u64 {
        if is_around {
            let number = self.around.posted | AROUND;
            self.around.posted += 1;
            return number;
        }
        let number = self.counts.posted;
        self.counts.posted += 1;
        self.window.posted += 1;
        number
    }

    /// Whether a message is drawn, where programs are what is meant.
    #[inline]
    const fn is_around(&self, message: &Message) -> bool {
        self.has_programs && message.connection & OF_PROGRAM == 0
    }

    /// A message's receiver has it. `hosts` are the sending and the receiving host.
    pub(crate) fn delivered(&mut self, message: &Message, hosts: (u32, u32)) {
        let latency = message.mark - message.posted;
        let is_measured = self.record(message, hosts, latency, message.queued());
        if is_measured {
            for (sum, stage) in self.stages.iter_mut().zip(message.stages) {
                *sum += stage;
            }
        }
        if let Some(chooser) = &mut self.chooser {
            chooser.delivered(
                &message.record(latency, message.stages, chooser.processes),
                is_measured,
            );
        }
    }

    /// The same of a message that went the direct way, and arrived at `now`.
    pub(crate) fn delivered_directly(&mut self, message: &Message, hosts: (u32, u32), now: Time) {
        let latency = now - message.posted;
        let queued = message.queued_directly();
        let is_measured = self.record(message, hosts, latency, queued);
        let spans = message.spans_directly(now);
        if is_measured {
            for (stage, span) in spans {
                self.stages[stage as usize] += span.picoseconds();
            }
        }
        if let Some(chooser) = &mut self.chooser {
            let mut stages = [0; STAGES];
            for (stage, span) in spans {
                stages[stage as usize] = span.picoseconds();
            }
            chooser.delivered(
                &message.record(latency, stages, chooser.processes),
                is_measured,
            );
        }
    }

    /// Records what all messages have; says whether this one is measured.
    fn record(
        &mut self,
        message: &Message,
        hosts: (u32, u32),
        latency: Time,
        queued: Time,
    ) -> bool {
        let floor = message.floor;
        if self.is_around(message) {
            self.around.delivered += 1;
            self.fold(message.number);
            self.fold(latency.picoseconds());
            return false;
        }
        self.counts.delivered += 1;
        self.window.delivered += 1;
        let latency_us = latency.microseconds_f64();
        self.window_latency_us += latency_us;
        self.transient
            .record(message.posted.picoseconds(), latency_us);
        self.fold(message.number);
        self.fold(message.posted.picoseconds());
        self.fold(latency.picoseconds());
        let is_measured = message.posted >= self.warmup;
        if is_measured {
            self.latency_us.record(latency_us);
            self.latency_ps.record(latency.picoseconds());
            self.batches_us.record(latency_us);
            self.latency_sum += latency.picoseconds();
            self.floor_sum += floor.picoseconds();
            self.delivered_bytes += u64::from(message.bytes);
            self.smallest_floor = Some(
                self.smallest_floor
                    .map_or(floor, |smallest| smallest.min(floor)),
            );
            let excess = latency.picoseconds() as i64 - floor.picoseconds() as i64;
            self.smallest_excess = Some(
                self.smallest_excess
                    .map_or(excess, |smallest| smallest.min(excess)),
            );
        }
        self.sample(message, hosts, Some(latency), queued);
        is_measured
    }

    /// A message was lost at the receiving host.
    pub(crate) fn dropped(
        &mut self,
        message: &Message,
        hosts: (u32, u32),
        cause: &'static str,
        queued: Time,
        now: Time,
    ) {
        let is_around = self.is_around(message);
        self.fold(message.number);
        self.fold(now.picoseconds() ^ u64::MAX);
        if is_around {
            self.around.dropped += 1;
            return;
        }
        self.counts.dropped += 1;
        self.window.dropped += 1;
        let entry = self.drops.entry((cause, hosts.1)).or_insert((0, now));
        entry.0 += 1;
        self.sample(message, hosts, None, queued);
        if let Some(chooser) = &mut self.chooser {
            let name = message.name(chooser.processes);
            chooser.dropped((name, message.posted), cause, now);
        }
    }

    pub(crate) fn drops(&self) -> Vec<Drops> {
        self.drops
            .iter()
            .map(|(&(cause, host), &(count, first))| Drops {
                cause,
                host,
                count,
                first,
            })
            .collect()
    }

    /// Ends the present window of the series.
    pub(crate) fn close_window(&mut self, end: Time) -> SeriesRow {
        let counts = self.counts;
        let mut row = core::mem::take(&mut self.window);
        row.end = end;
        row.in_flight = counts.posted - counts.delivered - counts.dropped;
        if row.delivered > 0 {
            row.latency_mean_us = self.window_latency_us / row.delivered as f64;
        }
        self.window_latency_us = 0.0;
        row
    }

    /// The digest of all that was folded in and of the final counts.
    pub(crate) fn digest(&mut self, events: u64, end: Time) -> u64 {
        for word in [
            self.counts.posted,
            self.counts.delivered,
            self.counts.dropped,
            self.delivered_bytes,
            events,
            end.picoseconds(),
        ] {
            self.fold(word);
        }
        self.digest
    }

    pub(crate) fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.rows.capacity() * size_of::<MessageRow>()
    }

    /// Mixes a word into the digest; order counts.
    fn fold(&mut self, word: u64) {
        let mixed = (self.digest.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ (mixed >> 29);
    }

    #[inline]
    fn sample(
        &mut self,
        message: &Message,
        hosts: (u32, u32),
        latency: Option<Time>,
        queued: Time,
    ) {
        // The stride is a power of two.
        if message.number & (self.row_stride - 1) != 0 || self.rows_max == 0 {
            return;
        }
        if self.rows.len() == self.rows_max {
            self.row_stride *= 2;
            let stride = self.row_stride;
            self.rows.retain(|row| row.message & (stride - 1) == 0);
            if message.number & (stride - 1) != 0 {
                return;
            }
        }
        self.rows.push(MessageRow {
            message: message.number,
            source: hosts.0,
            target: hosts.1,
            bytes: message.bytes,
            operation: message.operation,
            posted: message.posted,
            latency,
            queued,
        });
    }
}
