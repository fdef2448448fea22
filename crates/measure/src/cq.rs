//! Many connections with one request each, into one completion queue.

use std::collections::HashMap;
use std::rc::Rc;

use viaduct_fabric::via::{Address, Queue, ReliabilityLevel};
use viaduct_fabric::{CompletionQueueHandle, Provider, ViHandle, ViMap};

use crate::error::{Doing, MeasureError, Result};
use crate::host::Host;
use crate::lane::{Arrival, Blocks, Lane, Shape, Waiter};
use crate::latency::{Exchange, Pace};
use crate::order::{Order, Task};
use crate::plan::{Mode, Plan};
use crate::report::CompletionQueueRow;
use crate::run::{accept, asked, noise};
use crate::samples::Samples;
use crate::session::{PATIENCE, Session};

/// Bytes of a request and of its answer.
pub(crate) const REQUEST_BYTES: u32 = 32;

/// The memory of one end of one connection.
const SHAPE: Shape = Shape {
    sends: 2,
    send_buffers: 2,
    receives: 2,
    send_bytes: REQUEST_BYTES,
    receive_bytes: REQUEST_BYTES,
};

/// A completion queue, destroyed when dropped.
struct CompletionQueue<'s, P: Provider> {
    provider: &'s P,
    handle: CompletionQueueHandle,
}

impl<'s, P: Provider> CompletionQueue<'s, P> {
    fn new(session: &'s Session<'_, P>, entries: u32) -> Result<Self> {
        let entries_max = session.attributes.max_completion_queue_entries;
        if entries > entries_max {
            return Err(MeasureError::Impossible {
                reason: format!(
                    "a completion queue of this fabric has at most {entries_max} entries: ask for \
                     fewer connections"
                ),
            });
        }
        let handle = session
            .provider
            .create_completion_queue(session.nic, entries)
            .doing("making a completion queue")?;
        Ok(Self {
            provider: session.provider,
            handle,
        })
    }

    /// The next VI that has received something.
    #[inline]
    fn next<H: Host>(&self, waiter: &Waiter<'_, H>) -> Result<ViHandle> {
        const DOING: &str = "waiting for a completion";

        let entry = match waiter.mode {
            Mode::Poll => waiter.poll(DOING, || {
                self.provider.completion_done(self.handle).doing(DOING)
            })?,
            Mode::Block => self
                .provider
                .completion_wait(self.handle, Some(PATIENCE))
                .map_err(|error| waiter.refused(DOING, error))?,
        };
        debug_assert_eq!(entry.queue, Queue::Receive);
        Ok(entry.vi)
    }
}

impl<P: Provider> Drop for CompletionQueue<'_, P> {
    fn drop(&mut self) {
        // If a VI is left that could not be destroyed, it stays too.
        let _ = self.provider.destroy_completion_queue(self.handle);
    }
}

/// The lanes of one side, found by their VI.
struct Lanes<'s, P: Provider> {
    lanes: Vec<(Lane<'s, P>, Exchange)>,
    index_of: ViMap<usize>,
}

impl<'s, P: Provider> Lanes<'s, P> {
    fn new(count: usize) -> Self {
        Self {
            lanes: Vec::with_capacity(count),
            index_of: HashMap::with_capacity_and_hasher(count, Default::default()),
        }
    }

    fn push(&mut self, lane: Lane<'s, P>, is_touched: bool) {
        self.index_of.insert(lane.vi, self.lanes.len());
        self.lanes
            .push((lane, Exchange::new(REQUEST_BYTES, is_touched)));
    }

    #[inline]
    fn get(&mut self, vi: ViHandle) -> Result<&mut (Lane<'s, P>, Exchange)> {
        let index = self.index_of.get(&vi).copied();
        let lane = index.and_then(|index| self.lanes.get_mut(index));
        lane.ok_or_else(|| MeasureError::WrongData {
            what: "a completion of a VI that is not of this row".to_owned(),
        })
    }
}

/// The message that a completion told of.
#[inline]
fn take<P: Provider>(lane: &mut Lane<'_, P>) -> Result<Arrival> {
    lane.try_receive()?.ok_or_else(|| MeasureError::WrongData {
        what: "a completion with no completed receive behind it".to_owned(),
    })
}

/// Opens the connections over a control lane's session, and times requests.
pub(crate) fn initiate<'s, P: Provider, H: Host>(
    session: &'s Session<'s, P>,
    remote: &Address,
    order: Order,
    plan: &Plan,
    control: &mut Lane<'s, P>,
    waiter: &Waiter<'_, H>,
) -> Result<CompletionQueueRow> {
    let host = waiter.host;
    let count = order.count;
    let queue = CompletionQueue::new(session, count * SHAPE.receives)?;
    let blocks = Blocks::new(session, SHAPE, count as usize, order.memory)?;
    let mut lanes = Lanes::new(count as usize);
    let memory_before = host.memory_bytes();
    for number in 0..count {
        let vi = session.create_vi(plan.level, Some(queue.handle))?;
        let mut lane = Lane::new(session, vi, &blocks, number as usize);
        lane.post_all_receives()?;
        let member = Order {
            task: Task::Member,
            number,
            ..order
        };
        session
            .connect(vi, &member.to_bytes(), remote, host)
            .doing("connecting one of many")?;
        lanes.push(lane, order.is_touched);
    }

    // As many requests as connections are out at any time, until so many are asked for.
    let mut outstanding = 0;
    let mut requests = |wanted: u64, is_last: bool| -> Result<()> {
        if outstanding == 0 {
            for (lane, exchange) in &mut lanes.lanes {
                exchange.send(lane)?;
                outstanding += 1;
            }
        }
        for _ in 0..wanted {
            let (lane, exchange) = lanes.get(queue.next(waiter)?)?;
            let arrival = take(lane)?;
            exchange.accept(lane, arrival)?;
            exchange.next();
            lane.post_receive(arrival.slot)?;
            lane.drain_sends(0, waiter)?;
            if is_last {
                outstanding -= 1;
            } else {
                exchange.send(lane)?;
            }
        }
        Ok(())
    };
    let rounds = plan
        .iterations
        .map(|requests| requests.div_ceil(u64::from(count)));
    let pace = Pace::find(host, rounds, &mut |rounds| {
        requests(rounds * u64::from(count), false)
    })?;
    // Every connection has been used; the samples' memory is not there yet.
    let memory_here = growth(memory_before, host.memory_bytes());
    let batch_requests = pace.batch * u64::from(count);
    let mut samples = Samples::with_capacity(pace.batches as usize);
    let before = control.counts();
    let mut before_ns = host.now_ns();
    for _ in 0..pace.batches {
        requests(batch_requests, false)?;
        let now_ns = host.now_ns();
        samples.push(now_ns - before_ns);
        before_ns = now_ns;
    }
    let after = control.counts();
    requests(u64::from(count), true)?;

    let farewell = stop(control, waiter)?;
    let bytes_per_vi = memory_here
        .zip(farewell)
        .map(|(here, there)| (here + there) / u64::from(count));
    let rate = |nanoseconds: f64| batch_requests as f64 * 1e9 / nanoseconds.max(1.0);
    Ok(CompletionQueueRow {
        connections: count,
        requests_s: rate(samples.spread(1.0).median),
        bytes_per_vi,
        mean_requests_s: rate(samples.total_ns() as f64 / samples.len().max(1) as f64),
        requests: pace.batches * batch_requests,
        noise: noise(
            samples.lost_fraction(),
            pace.batches * batch_requests,
            (before, after),
        ),
    })
}

/// Has the server stop, and learns how much its memory grew.
fn stop<P: Provider, H: Host>(
    control: &mut Lane<'_, P>,
    waiter: &Waiter<'_, H>,
) -> Result<Option<u64>> {
    control.post_send(0, true)?;
    let farewell = control.receive(waiter)?;
    Ok(control
        .incoming(farewell)
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes)))
}

fn growth(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    before
        .zip(after)
        .map(|(before, after)| after.saturating_sub(before))
}

/// The memory of the control lane, on either side.
pub(crate) const fn control_shape() -> Shape {
    SHAPE
}

/// Accepts the control connection and then the others, and echoes until told to stop.
pub(crate) fn respond<'s, P: Provider, H: Host>(
    session: &'s Session<'s, P>,
    local: &Address,
    request: viaduct_fabric::IncomingRequest,
    order: Order,
    level: ReliabilityLevel,
    waiter: &Waiter<'_, H>,
) -> Result<()> {
    let host = waiter.host;
    let count = order.count;
    let queue = CompletionQueue::new(session, (count + 1).saturating_mul(SHAPE.receives))?;
    let lane = |vi, blocks: &Rc<Blocks<'s, P>>, index| -> Result<Lane<'s, P>> {
        let mut lane = Lane::new(session, vi, blocks, index);
        lane.post_all_receives()?;
        Ok(lane)
    };
    let blocks = Blocks::new(session, SHAPE, count as usize + 1, order.memory)?;
    let mut lanes = Lanes::new(count as usize);
    let vi = session.create_vi(level, Some(queue.handle))?;
    let mut control = lane(vi, &blocks, count as usize)?;
    let memory_before = host.memory_bytes();
    accept(session, request.connection, vi)?;
    for index in 0..count as usize {
        let vi = session.create_vi(level, Some(queue.handle))?;
        let lane = lane(vi, &blocks, index)?;
        let (request, member) = asked(session, local, host)?;
        if member.task != Task::Member {
            return Err(MeasureError::WrongData {
                what: "a connection for another row".to_owned(),
            });
        }
        accept(session, request.connection, vi)?;
        lanes.push(lane, order.is_touched);
    }

    loop {
        let vi = queue.next(waiter)?;
        if vi == control.vi {
            break;
        }
        let (lane, exchange) = lanes.get(vi)?;
        let arrival = take(lane)?;
        exchange.accept(lane, arrival)?;
        exchange.send(lane)?;
        lane.post_receive(arrival.slot)?;
        lane.drain_sends(1, waiter)?;
        exchange.next();
    }
    take(&mut control)?;
    let farewell_bytes = match growth(memory_before, host.memory_bytes()) {
        Some(grown) => {
            control.outgoing(8).copy_from_slice(&grown.to_le_bytes());
            8
        }
        None => 0,
    };
    control.post_send(farewell_bytes, true)?;
    control.drain_sends(0, waiter)?;
    control.await_end(host);
    Ok(())
}
