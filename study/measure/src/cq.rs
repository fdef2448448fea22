//! Many connections with one request each, into one completion queue.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use viaduct_provider::via::{Address, Queue, ReliabilityLevel};
use viaduct_provider::{CompletionQueueHandle, Provider, ReturnCode, ViHandle, ViMap};

use crate::error::{Doing, MeasureError, Result};
use crate::host::Host;
use crate::lane::{Arrival, Blocks, Lane, Looks, Shape, Waiter};
use crate::latency::{Exchange, Pace};
use crate::order::{Order, Task};
use crate::pacer::Pacer;
use crate::patience::PATIENCE;
use crate::plan::{Mode, Plan};
use crate::report::CompletionQueueRow;
use crate::run::{accept, asked, noise};
use crate::samples::Samples;
use crate::session::Session;

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

    /// The next VI that has received something, if one has within a limit: asleep, or after one
    /// look and a pause.
    #[inline]
    fn next_within<H: Host>(
        &self,
        waiter: &Waiter<'_, H>,
        limit: Option<Duration>,
    ) -> Result<Option<ViHandle>> {
        const DOING: &str = "waiting for a completion";

        let limit = limit.unwrap_or(PATIENCE).min(PATIENCE);
        let entry = match waiter.mode {
            Mode::Poll => {
                let entry = self.provider.completion_done(self.handle).doing(DOING)?;
                if entry.is_none() {
                    waiter.host.relax_for(limit);
                }
                entry
            }
            Mode::Block => match self.provider.completion_wait(self.handle, Some(limit)) {
                Ok(entry) => Some(entry),
                Err(error) if error.code() == ReturnCode::Timeout && limit < PATIENCE => None,
                Err(error) => return Err(waiter.refused(DOING, error)),
            },
        };
        Ok(entry.map(|entry| entry.vi))
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
    fn index(&self, vi: ViHandle) -> Result<usize> {
        let index = self.index_of.get(&vi).copied();
        index.ok_or_else(|| MeasureError::WrongData {
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

/// Opens the connections over a control lane's session, and times requests: as many as can be
/// answered, or so many a second.
pub(crate) fn initiate<'s, P: Provider, H: Host>(
    session: &'s Session<'s, P>,
    remote: &Address,
    order: Order,
    plan: &Plan,
    offered_requests_s: Option<u32>,
    control: &mut Lane<'s, P>,
    waiter: &Waiter<'_, H>,
) -> Result<CompletionQueueRow> {
    let host = waiter.host;
    let asker = plan.asker;
    let count = asker.part_of(order.count.into()) as u32;
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

    let mut client = Client {
        lanes,
        queue,
        waiter,
        outstanding: 0,
    };
    if asker.of > 1 {
        // Until all connections of all clients are there.
        let begin = control.receive(waiter)?;
        control.post_receive(begin.slot)?;
    }
    let iterations = plan.iterations.map(|all| asker.part_of(all).max(1));
    let mut pacer = None;
    let (mut memory_here, mut before) = (None, None);
    // Every connection has been used by then; the samples' memory is not there yet.
    let mut warm = || {
        memory_here = growth(memory_before, host.memory_bytes());
        before = control.counts();
    };
    let timed = match offered_requests_s {
        None => client.saturate(iterations, &mut warm)?,
        Some(load) => {
            let now_ns = host.now_ns();
            let pacer = pacer.insert(Pacer::new(asker, order.count, load, now_ns));
            let share = f64::from(load) * f64::from(count) / f64::from(order.count);
            client.offer(pacer, share, iterations, &mut warm)?
        }
    };
    let after = control.counts();
    if asker.of > 1 {
        client.go_on(pacer.as_mut(), control)?;
    }
    client.finish()?;

    let farewell = stop(control, waiter)?;
    let bytes_per_connection = memory_here
        .zip(farewell)
        .map(|(here, there)| (here + there) / u64::from(count));
    let Timed { samples, batch } = timed;
    let rate = |nanoseconds: f64| batch as f64 * 1e9 / nanoseconds.max(1.0);
    Ok(CompletionQueueRow {
        connections: order.count,
        offered_requests_s,
        requests_s: rate(samples.spread(1.0).median),
        bytes_per_connection,
        mean_requests_s: rate(samples.total_ns() as f64 / samples.len().max(1) as f64),
        requests: samples.len() as u64 * batch,
        noise: noise(
            samples.lost_fraction(),
            samples.len() as u64 * batch,
            (before, after),
        ),
    })
}

/// Times of batches of so many requests.
struct Timed {
    samples: Samples,
    batch: u64,
}

/// The side that asks, with its connections.
struct Client<'s, 'h, P: Provider, H: Host> {
    /// Dropped before the queue that their VIs tell.
    lanes: Lanes<'s, P>,
    queue: CompletionQueue<'s, P>,
    waiter: &'h Waiter<'h, H>,
    /// Requests that are not answered.
    outstanding: usize,
}

impl<P: Provider, H: Host> Client<'_, '_, P, H> {
    fn count(&self) -> u64 {
        self.lanes.lanes.len() as u64
    }

    /// Keeps a request of each connection out; `warm` is told when the timing begins.
    fn saturate(&mut self, iterations: Option<u64>, warm: &mut impl FnMut()) -> Result<Timed> {
        let host = self.waiter.host;
        let count = self.count();
        for index in 0..self.lanes.lanes.len() {
            self.send(index)?;
        }
        let mut requests = |wanted: u64| -> Result<()> {
            for _ in 0..wanted {
                let vi = self.queue.next(self.waiter)?;
                let index = self.take(vi)?;
                self.send(index)?;
            }
            Ok(())
        };
        let rounds = iterations.map(|requests| requests.div_ceil(count));
        let pace = Pace::find(host, rounds, &mut |rounds| requests(rounds * count))?;
        warm();
        let batch = pace.batch * count;
        let mut samples = Samples::with_capacity(pace.batches as usize);
        let mut before_ns = host.now_ns();
        for _ in 0..pace.batches {
            requests(batch)?;
            let now_ns = host.now_ns();
            samples.push(now_ns - before_ns);
            before_ns = now_ns;
        }
        Ok(Timed { samples, batch })
    }

    /// Issues so many requests a second, as long as a connection is free for one.
    fn offer(
        &mut self,
        pacer: &mut Pacer,
        requests_s: f64,
        iterations: Option<u64>,
        warm: &mut impl FnMut(),
    ) -> Result<Timed> {
        /// Of timed time, if it may have its way.
        const ROW_S: f64 = 0.3;
        /// Requests of a connection, at the least.
        const ROUNDS_MIN: u64 = 10;
        const BATCHES_MAX: u64 = 1 << 16;

        let host = self.waiter.host;
        let count = self.count();
        let usual = ((requests_s * ROW_S) as u64).max(ROUNDS_MIN * count);
        let requests = iterations.unwrap_or(usual).max(1);
        // A round of all connections, so that each batch has the same share of each.
        let batch = count * requests.div_ceil(count).div_ceil(BATCHES_MAX);
        let batches = requests.div_ceil(batch);
        self.paced(2 * count, pacer)?;
        warm();
        let mut samples = Samples::with_capacity(batches as usize);
        let mut before_ns = host.now_ns();
        for _ in 0..batches {
            self.paced(batch, pacer)?;
            let now_ns = host.now_ns();
            samples.push(now_ns - before_ns);
            before_ns = now_ns;
        }
        Ok(Timed { samples, batch })
    }

    /// Sends what is due until so many requests have been answered.
    fn paced(&mut self, wanted: u64, pacer: &mut Pacer) -> Result<()> {
        let host = self.waiter.host;
        let mut looks = Looks::default();
        let mut answered = 0;
        while answered < wanted {
            let now_ns = host.now_ns();
            if let Some(index) = pacer.take_due(now_ns) {
                self.send(index)?;
                continue;
            }
            match self.queue.next_within(self.waiter, pacer.pause(now_ns))? {
                Some(vi) => {
                    let index = self.take(vi)?;
                    pacer.answered(index, host.now_ns());
                    answered += 1;
                    looks = Looks::default();
                }
                None => looks.add(self.waiter)?,
            }
        }
        Ok(())
    }

    /// Keeps the load up until the other clients have been timed too.
    fn go_on(&mut self, mut pacer: Option<&mut Pacer>, control: &mut Lane<'_, P>) -> Result<()> {
        control.post_send(0, false)?;
        while control.try_receive()?.is_none() {
            match &mut pacer {
                Some(pacer) => self.paced(1, pacer)?,
                None => {
                    let vi = self.queue.next(self.waiter)?;
                    let index = self.take(vi)?;
                    self.send(index)?;
                }
            }
        }
        Ok(())
    }

    /// Waits for the answers that are due, and asks no more.
    fn finish(&mut self) -> Result<()> {
        while self.outstanding > 0 {
            let vi = self.queue.next(self.waiter)?;
            self.take(vi)?;
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, index: usize) -> Result<()> {
        let (lane, exchange) = &mut self.lanes.lanes[index];
        exchange.send(lane)?;
        self.outstanding += 1;
        Ok(())
    }

    /// Takes the answer that a VI has; whose it is.
    #[inline]
    fn take(&mut self, vi: ViHandle) -> Result<usize> {
        let index = self.lanes.index(vi)?;
        let (lane, exchange) = &mut self.lanes.lanes[index];
        let arrival = take(lane)?;
        exchange.accept(lane, arrival)?;
        exchange.next();
        lane.post_receive(arrival.slot)?;
        lane.drain_sends(0, self.waiter)?;
        self.outstanding -= 1;
        Ok(index)
    }
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
    request: viaduct_provider::IncomingRequest,
    order: Order,
    level: ReliabilityLevel,
    waiter: &Waiter<'_, H>,
) -> Result<()> {
    let host = waiter.host;
    let (count, clients) = (order.count, order.number.max(1));
    let vis = count.saturating_add(clients);
    let queue = CompletionQueue::new(session, vis.saturating_mul(SHAPE.receives))?;
    let lane = |vi, blocks: &Rc<Blocks<'s, P>>, index| -> Result<Lane<'s, P>> {
        let mut lane = Lane::new(session, vi, blocks, index);
        lane.post_all_receives()?;
        Ok(lane)
    };
    let blocks = Blocks::new(session, SHAPE, vis as usize, order.memory)?;
    let mut lanes = Lanes::new(count as usize);
    let vi = session.create_vi(level, Some(queue.handle))?;
    let mut controls = vec![lane(vi, &blocks, count as usize)?];
    let memory_before = host.memory_bytes();
    accept(session, request.connection, vi)?;
    while controls.len() < clients as usize || lanes.lanes.len() < count as usize {
        let vi = session.create_vi(level, Some(queue.handle))?;
        let (request, other) = asked(session, local, host)?;
        match other.task {
            Task::Serve if controls.len() < clients as usize => {
                let place = count as usize + controls.len();
                controls.push(lane(vi, &blocks, place)?);
            }
            Task::Member if lanes.lanes.len() < count as usize => {
                let place = lanes.lanes.len();
                lanes.push(lane(vi, &blocks, place)?, order.is_touched);
            }
            _ => {
                return Err(MeasureError::WrongData {
                    what: "a connection for another row".to_owned(),
                });
            }
        }
        accept(session, request.connection, vi)?;
    }
    if clients > 1 {
        for control in &mut controls {
            control.post_send(0, false)?;
        }
    }

    // One client stops when it likes; of several each goes on until all have been timed.
    let mut timed = if clients > 1 { 0 } else { clients };
    let mut stopped = 0;
    while stopped < clients {
        let vi = queue.next(waiter)?;
        if let Some(control) = controls.iter_mut().find(|control| control.vi == vi) {
            let word = take(control)?;
            stopped += u32::from(word.is_stop);
            timed += u32::from(!word.is_stop);
            if !word.is_stop && timed == clients {
                for control in &mut controls {
                    control.post_send(0, false)?;
                }
            }
            continue;
        }
        let index = lanes.index(vi)?;
        let (lane, exchange) = &mut lanes.lanes[index];
        let arrival = take(lane)?;
        exchange.accept(lane, arrival)?;
        exchange.send(lane)?;
        lane.post_receive(arrival.slot)?;
        lane.drain_sends(1, waiter)?;
        exchange.next();
    }
    let grown = growth(memory_before, host.memory_bytes());
    for control in &mut controls {
        control.drain_sends(0, waiter)?;
        let farewell_bytes = match grown {
            Some(grown) => {
                control.outgoing(8).copy_from_slice(&grown.to_le_bytes());
                8
            }
            None => 0,
        };
        control.post_send(farewell_bytes, true)?;
    }
    for control in &mut controls {
        control.drain_sends(0, waiter)?;
        control.await_end(host);
    }
    Ok(())
}
