//! A message to and fro.

use viaduct_provider::Provider;

use crate::error::{MeasureError, Result};
use crate::host::Host;
use crate::lane::{Arrival, Lane, Shape, Waiter};
use crate::report::LatencyRow;
use crate::run::noise;
use crate::samples::Samples;
use crate::touch;

/// The memory of either side.
pub(crate) const fn shape(bytes: u32, is_touched: bool) -> Shape {
    Shape {
        sends: 2,
        // An untouched buffer is sent again and again.
        send_buffers: if is_touched { 2 } else { 1 },
        receives: 4,
        send_bytes: bytes,
        receive_bytes: bytes,
    }
}

/// What both sides do with messages of one size.
pub(crate) struct Exchange {
    pub(crate) bytes: u32,
    pub(crate) is_touched: bool,
    /// Messages so far, which is also what a touched one is filled with.
    value: u64,
}

impl Exchange {
    pub(crate) const fn new(bytes: u32, is_touched: bool) -> Self {
        Self {
            bytes,
            is_touched,
            value: 0,
        }
    }

    #[inline]
    pub(crate) fn send<P: Provider>(&self, lane: &mut Lane<'_, P>) -> Result<()> {
        if self.is_touched {
            touch::fill(lane.outgoing(self.bytes), self.value);
        }
        lane.post_send(self.bytes, false)
    }

    /// Looks at what came: the message that was expected.
    #[inline]
    pub(crate) fn accept<P: Provider>(&self, lane: &Lane<'_, P>, arrival: Arrival) -> Result<()> {
        if arrival.length != self.bytes {
            return Err(self.wrong(arrival));
        }
        if self.is_touched && !touch::is_filled(lane.incoming(arrival), self.value) {
            return Err(MeasureError::WrongData {
                what: format!(
                    "the content of message {} of {} bytes",
                    self.value, self.bytes
                ),
            });
        }
        Ok(())
    }

    #[inline]
    pub(crate) const fn next(&mut self) {
        self.value += 1;
    }

    #[cold]
    fn wrong(&self, arrival: Arrival) -> MeasureError {
        let Self { bytes, value, .. } = self;
        let length = arrival.length;
        MeasureError::WrongData {
            what: format!("message {value} has {length} bytes instead of {bytes}"),
        }
    }
}

/// Plays rounds with a [`respond`]er and times them.
pub(crate) fn initiate<P: Provider, H: Host>(
    lane: &mut Lane<'_, P>,
    mut exchange: Exchange,
    iterations: Option<u64>,
    waiter: &Waiter<'_, H>,
) -> Result<LatencyRow> {
    let host = waiter.host;
    let mut last_slot = None;
    let mut rounds = |lane: &mut Lane<'_, P>, count: u64| -> Result<()> {
        for _ in 0..count {
            exchange.send(lane)?;
            // While it travels: what the round before has left to do.
            if let Some(slot) = last_slot.take() {
                lane.post_receive(slot)?;
            }
            lane.drain_sends(1, waiter)?;
            let arrival = lane.receive(waiter)?;
            exchange.accept(lane, arrival)?;
            exchange.next();
            last_slot = Some(arrival.slot);
        }
        Ok(())
    };

    let pace = Pace::find(host, iterations, &mut |count| rounds(lane, count))?;
    let mut samples = Samples::with_capacity(pace.batches as usize);
    let before = lane.counts();
    let mut before_ns = host.now_ns();
    for _ in 0..pace.batches {
        rounds(lane, pace.batch)?;
        let now_ns = host.now_ns();
        samples.push(now_ns - before_ns);
        before_ns = now_ns;
    }

    // A round trip has two halves; nanoseconds to microseconds.
    let factor = 1e-3 / (2 * pace.batch) as f64;
    Ok(LatencyRow {
        bytes: exchange.bytes,
        half_rtt_us: samples.spread(factor),
        round_trips: pace.batch * pace.batches,
        batch: pace.batch,
        stages_us: None,
        noise: noise(
            samples.lost_fraction(),
            pace.batch * pace.batches,
            (before, lane.counts()),
        ),
    })
}

/// Sends each message back until told to stop.
pub(crate) fn respond<P: Provider, H: Host>(
    lane: &mut Lane<'_, P>,
    mut exchange: Exchange,
    waiter: &Waiter<'_, H>,
) -> Result<()> {
    loop {
        let arrival = lane.receive(waiter)?;
        if arrival.is_stop {
            return Ok(());
        }
        exchange.accept(lane, arrival)?;
        exchange.send(lane)?;
        lane.post_receive(arrival.slot)?;
        lane.drain_sends(1, waiter)?;
        exchange.next();
    }
}

/// How many repetitions make a batch, and how many batches a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) batch: u64,
    pub(crate) batches: u64,
}

impl Pace {
    /// Warms up, and finds batches long enough that the clock's own time does not count.
    pub(crate) fn find(
        host: &impl Host,
        iterations: Option<u64>,
        repeat: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        const WARM_UP_NS: u64 = 30_000_000;
        const WARM_UP_MAX: u64 = 100_000;
        const PROBE: u64 = 16;

        let warm_up_max = iterations.unwrap_or(WARM_UP_MAX).clamp(PROBE, WARM_UP_MAX);
        let start_ns = host.now_ns();
        let mut done = 0;
        while done < warm_up_max && host.now_ns() - start_ns < WARM_UP_NS {
            repeat(PROBE)?;
            done += PROBE;
        }
        let probe_ns = host.now_ns();
        repeat(PROBE)?;
        Ok(Self::of((host.now_ns() - probe_ns) / PROBE, iterations))
    }

    /// From the time of one repetition.
    fn of(each_ns: u64, iterations: Option<u64>) -> Self {
        const BATCH_NS: u64 = 5000;
        const BATCH_MAX: u64 = 64;
        const BATCHES_MAX: u64 = 1 << 20;
        const ROW_NS: u64 = 300_000_000;

        let each_ns = each_ns.max(1);
        let total = iterations
            .unwrap_or((ROW_NS / each_ns).clamp(100, 4_000_000))
            .max(1);
        let batch = (BATCH_NS / each_ns).clamp(1, BATCH_MAX.min(total));
        // A row of many hours keeps its samples in a few megabytes all the same.
        let batch = batch.max(total.div_ceil(BATCHES_MAX));
        Self {
            batch,
            batches: total.div_ceil(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_iterations_asked_for_and_batches_longer_than_the_clock() {
        let pace = Pace::of(100, Some(1000));
        assert_eq!((pace.batch, pace.batches), (50, 20));
        let pace = Pace::of(10, Some(1));
        assert_eq!((pace.batch, pace.batches), (1, 1));
        let pace = Pace::of(100_000, None);
        assert_eq!((pace.batch, pace.batches), (1, 3000));
        let pace = Pace::of(100, Some(1 << 40));
        assert_eq!((pace.batch, pace.batches), (1 << 20, 1 << 20));
        let pace = Pace::of(0, None);
        assert_eq!(pace.batch, 64);
    }
}
