//! Messages one way, in windows.
//!
//! ```text
//! sender    W messages, W messages, wait for ack 1, W messages, wait for ack 2, ...
//! receiver  posts each receive again; after W of them, an acknowledgement of no bytes
//! ```
//!
//! Two windows are on the way at most, and the receiver has as many receives posted: no level ever
//! loses a message for want of a receive.

use viaduct_provider::Provider;

use crate::error::{MeasureError, Result};
use crate::host::Host;
use crate::lane::{Lane, Shape, Waiter};
use crate::latency::{Exchange, Pace};
use crate::plan::Test;
use crate::report::StreamRow;
use crate::run::noise;
use crate::samples::Samples;

/// Messages of a window.
pub(crate) const fn window(test: Test, bytes: u32) -> u32 {
    const WINDOW_MAX: u32 = 64;
    /// Both windows of large messages stay in a cache of the second level.
    const WINDOW_BYTES: u32 = 512 * 1024;

    if matches!(test, Test::Rate) || bytes <= WINDOW_BYTES / WINDOW_MAX {
        return WINDOW_MAX;
    }
    let window = WINDOW_BYTES / bytes;
    if window < 2 { 2 } else { window }
}

/// The memory of the sender.
pub(crate) const fn sender_shape(bytes: u32, window: u32, is_touched: bool) -> Shape {
    Shape {
        sends: 2 * window,
        // An untouched buffer is sent again and again.
        send_buffers: if is_touched { 2 * window } else { 1 },
        receives: 4,
        send_bytes: bytes,
        receive_bytes: 0,
    }
}

/// The memory of the receiver.
pub(crate) const fn receiver_shape(bytes: u32, window: u32) -> Shape {
    Shape {
        sends: 4,
        send_buffers: 1,
        // One more than can be on the way: the order to stop.
        receives: 2 * window + 1,
        send_bytes: 0,
        receive_bytes: bytes,
    }
}

/// Sends windows to a [`respond`]er and times them.
pub(crate) fn initiate<P: Provider, H: Host>(
    lane: &mut Lane<'_, P>,
    mut exchange: Exchange,
    window: u32,
    iterations: Option<u64>,
    waiter: &Waiter<'_, H>,
) -> Result<StreamRow> {
    let host = waiter.host;
    let mut unacknowledged = 0;
    let mut windows = |lane: &mut Lane<'_, P>, count: u64| -> Result<()> {
        for _ in 0..count {
            if unacknowledged == 2 {
                acknowledgement(lane, waiter)?;
                unacknowledged -= 1;
            }
            for _ in 0..window {
                lane.drain_sends(2 * window - 1, waiter)?;
                exchange.send(lane)?;
                exchange.next();
            }
            unacknowledged += 1;
        }
        Ok(())
    };

    let iterations = iterations.map(|messages| messages.div_ceil(u64::from(window)));
    let pace = Pace::find(host, iterations, &mut |count| windows(lane, count))?;
    let mut samples = Samples::with_capacity(pace.batches as usize);
    let before = lane.counts();
    let mut before_ns = host.now_ns();
    for _ in 0..pace.batches {
        windows(lane, pace.batch)?;
        let now_ns = host.now_ns();
        samples.push(now_ns - before_ns);
        before_ns = now_ns;
    }
    let after = lane.counts();
    for _ in 0..unacknowledged {
        acknowledgement(lane, waiter)?;
    }
    lane.drain_sends(0, waiter)?;

    let bytes = exchange.bytes;
    let batch_messages = (pace.batch * u64::from(window)) as f64;
    let rate = |nanoseconds: f64| batch_messages * 1e9 / nanoseconds.max(1.0);
    let messages_s = rate(samples.spread(1.0).median);
    let mean_messages_s = rate(samples.total_ns() as f64 / samples.len().max(1) as f64);
    let mbyte = f64::from(bytes) * 1e-6;
    Ok(StreamRow {
        bytes,
        mbyte_s: messages_s * mbyte,
        messages_s,
        mean_mbyte_s: mean_messages_s * mbyte,
        mean_messages_s,
        window,
        messages: pace.batches * pace.batch * u64::from(window),
        stages_us: None,
        noise: noise(
            samples.lost_fraction(),
            pace.batches * pace.batch * u64::from(window),
            (before, after),
        ),
    })
}

fn acknowledgement<P: Provider, H: Host>(
    lane: &mut Lane<'_, P>,
    waiter: &Waiter<'_, H>,
) -> Result<()> {
    let arrival = lane.receive(waiter)?;
    if arrival.length != 0 || arrival.is_stop {
        return Err(MeasureError::WrongData {
            what: "an acknowledgement that is none".to_owned(),
        });
    }
    lane.post_receive(arrival.slot)
}

/// Takes messages until told to stop, and acknowledges each window.
pub(crate) fn respond<P: Provider, H: Host>(
    lane: &mut Lane<'_, P>,
    mut exchange: Exchange,
    window: u32,
    waiter: &Waiter<'_, H>,
) -> Result<()> {
    let mut taken = 0;
    loop {
        let arrival = lane.receive(waiter)?;
        if arrival.is_stop {
            return Ok(());
        }
        exchange.accept(lane, arrival)?;
        exchange.next();
        lane.post_receive(arrival.slot)?;
        taken += 1;
        if taken == window {
            taken = 0;
            lane.drain_sends(3, waiter)?;
            lane.post_send(0, false)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_large_messages_are_short() {
        assert_eq!(window(Test::Rate, 8), 64);
        assert_eq!(window(Test::Bandwidth, 8192), 64);
        assert_eq!(window(Test::Bandwidth, 65_536), 8);
        assert_eq!(window(Test::Bandwidth, 1 << 20), 2);
        assert_eq!(window(Test::Bandwidth, u32::MAX), 2);
    }
}
