//! The two sides of a measurement.

use std::time::Duration;

use viaduct_provider::via::{Address, ReliabilityLevel};
use viaduct_provider::{ConnectionHandle, Counts, IncomingRequest, Provider, ReturnCode, ViHandle};

use crate::error::{Doing, MeasureError, Result};
use crate::host::Host;
use crate::lane::{Blocks, Lane, Shape, Waiter};
use crate::latency::Exchange;
use crate::line::Placement;
use crate::order::{Order, Task};
use crate::plan::{Plan, Test};
use crate::report::{Noise, Row, RowCounts};
use crate::session::Session;
use crate::{cq, latency, stream};

/// Where the two sides meet.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The device whose NIC either side opens.
    pub device: String,
    /// The responder's host, as the name service knows it; the initiator's own if `None`.
    pub host: Option<String>,
    /// The responder's endpoint on its host.
    pub discriminator: Vec<u8>,
}

/// Runs a plan against a [`respond`]er, row by row; each is told as soon as it is there.
///
/// # Errors
///
/// When the fabric refuses, the other side is gone or hangs, or a message is not what was sent.
pub fn initiate<P: Provider, H: Host>(
    provider: &P,
    meeting: &Meeting,
    plan: &Plan,
    host: &H,
    mut on_row: impl FnMut(&Row),
) -> Result<Vec<Row>> {
    let session = Session::open(provider, &meeting.device)?;
    let remote = match &meeting.host {
        Some(name) => provider
            .host_by_name(session.nic, name, 0)
            .doing("resolving the other side's host")?,
        None => session.host,
    };
    let remote = Address::new(remote, &meeting.discriminator);
    check(plan, &session)?;

    let variants = plan.rows();
    let mut rows = Vec::with_capacity(variants.len());
    let mut line_ns = host.line_ns();
    for variant in variants {
        let row = initiate_row(&session, &remote, plan, variant, host);
        let mut row = row.map_err(|error| match (error, host.stop_reason()) {
            // The host knows better than a call that found nobody.
            (MeasureError::Refused { .. }, Some(reason)) => MeasureError::Stopped { reason },
            (error, _) => error,
        })?;
        let before_ns = line_ns;
        line_ns = host.line_ns();
        let noise = row.noise_mut();
        noise.line_ns_before = before_ns;
        noise.line_ns_after = line_ns;
        noise.placement = before_ns
            .zip(line_ns)
            .map(|(before, after)| Placement::of_lines(before, after));
        if !plan.is_counted {
            row.noise_mut().counts = None;
        }
        on_row(&row);
        rows.push(row);
        if let Some(reason) = host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
    }
    if plan.asker.number == 0 {
        finish(&session, &remote, plan, host)?;
    }
    Ok(rows)
}

fn check<P: Provider>(plan: &Plan, session: &Session<'_, P>) -> Result<()> {
    let bytes_max = session.attributes.max_transfer_bytes;
    if let Some(bytes) = plan.sizes.iter().find(|bytes| **bytes > bytes_max) {
        return Err(MeasureError::Impossible {
            reason: format!(
                "a message of {bytes} bytes is asked for; this fabric's longest has {bytes_max}"
            ),
        });
    }
    let vis_max = session.attributes.max_vis;
    if let Some(count) = plan
        .connections
        .iter()
        .find(|count| **count == 0 || **count >= vis_max)
    {
        return Err(MeasureError::Impossible {
            reason: format!(
                "{count} connections are asked for; this fabric has 1 to {}",
                vis_max - 1
            ),
        });
    }
    let of = plan.asker.of;
    if let Some(count) = plan.connections.iter().find(|count| **count < of) {
        return Err(MeasureError::Impossible {
            reason: format!(
                "{count} connections cannot come from {of} hosts: each has one or more"
            ),
        });
    }
    if plan.loads_requests_s.contains(&0) {
        return Err(MeasureError::Impossible {
            reason: "a load of 0 requests a second is asked for; no row would end".to_owned(),
        });
    }
    if !session.attributes.reliability_levels.contains(plan.level) {
        return Err(MeasureError::Impossible {
            reason: "this fabric does not have the reliability level asked for".to_owned(),
        });
    }
    Ok(())
}

fn initiate_row<P: Provider, H: Host>(
    session: &Session<'_, P>,
    remote: &Address,
    plan: &Plan,
    (variant, load): (u32, Option<u32>),
    host: &H,
) -> Result<Row> {
    let (task, bytes, count) = match plan.test {
        Test::Latency => (Task::Echo, variant, 1),
        Test::Bandwidth | Test::Rate => (Task::Sink, variant, stream::window(plan.test, variant)),
        Test::Cq => (Task::Serve, cq::REQUEST_BYTES, variant),
    };
    let order = Order {
        task,
        mode: plan.mode,
        is_touched: plan.is_touched,
        memory: plan.memory,
        bytes,
        count,
        number: plan.asker.of,
    };
    let shape = match plan.test {
        Test::Latency => latency::shape(bytes, plan.is_touched),
        Test::Bandwidth | Test::Rate => stream::sender_shape(bytes, count, plan.is_touched),
        Test::Cq => cq::control_shape(),
    };
    let waiter = Waiter {
        host,
        mode: plan.mode,
    };
    let mut lane = lane(session, shape, &order, plan.level)?;
    session
        .connect(lane.vi, &order.to_bytes(), remote, host)
        .doing("connecting to the other side")?;
    let exchange = Exchange::new(bytes, plan.is_touched);
    let row = match plan.test {
        Test::Latency => Row::Latency(latency::initiate(
            &mut lane,
            exchange,
            plan.iterations,
            &waiter,
        )?),
        Test::Bandwidth | Test::Rate => Row::Stream(stream::initiate(
            &mut lane,
            exchange,
            count,
            plan.iterations,
            &waiter,
        )?),
        Test::Cq => {
            // It says farewell itself.
            let row = cq::initiate(session, remote, order, plan, load, &mut lane, &waiter)?;
            return Ok(Row::CompletionQueue(row));
        }
    };
    lane.drain_sends(0, &waiter)?;
    lane.post_send(0, true)?;
    while !lane.receive(&waiter)?.is_stop {}
    Ok(row)
}

fn lane<'s, P: Provider>(
    session: &'s Session<'s, P>,
    shape: Shape,
    order: &Order,
    level: ReliabilityLevel,
) -> Result<Lane<'s, P>> {
    let blocks = Blocks::new(session, shape, 1, order.memory)?;
    let vi = session.create_vi(level, None)?;
    let mut lane = Lane::new(session, vi, &blocks, 0);
    lane.post_all_receives()?;
    Ok(lane)
}

/// Tells the responder that there is no more to do.
fn finish<P: Provider, H: Host>(
    session: &Session<'_, P>,
    remote: &Address,
    plan: &Plan,
    host: &H,
) -> Result<()> {
    let order = Order {
        task: Task::Finish,
        mode: plan.mode,
        is_touched: false,
        memory: plan.memory,
        bytes: 0,
        count: 0,
        number: u32::MAX,
    };
    let lane = lane(session, latency::shape(0, false), &order, plan.level)?;
    match session.connect(lane.vi, &order.to_bytes(), remote, host) {
        Err(error) if error.code() != ReturnCode::Reject => {
            Err(error).doing("telling the other side to finish")
        }
        _ => Ok(()),
    }
}

/// Does what an initiator asks for, row by row, until told that there is no more.
///
/// # Errors
///
/// As [`initiate`]; also when no request comes for a minute.
pub fn respond<P: Provider, H: Host>(
    provider: &P,
    meeting: &Meeting,
    level: ReliabilityLevel,
    host: &H,
) -> Result<()> {
    let session = Session::open(provider, &meeting.device)?;
    let local = Address::new(session.host, &meeting.discriminator);
    loop {
        let (request, order) = asked(&session, &local, host)?;
        let waiter = Waiter {
            host,
            mode: order.mode,
        };
        let Order {
            bytes,
            count,
            is_touched,
            ..
        } = order;
        let shape = match order.task {
            Task::Echo => latency::shape(bytes, is_touched),
            Task::Sink => stream::receiver_shape(bytes, count),
            Task::Serve => {
                cq::respond(&session, &local, request, order, level, &waiter)?;
                continue;
            }
            Task::Member => {
                return Err(MeasureError::WrongData {
                    what: "a connection of many, without the others".to_owned(),
                });
            }
            Task::Finish => {
                return provider
                    .connect_reject(request.connection)
                    .doing("saying goodbye");
            }
        };
        let mut lane = lane(&session, shape, &order, level)?;
        accept(&session, request.connection, lane.vi)?;
        let exchange = Exchange::new(bytes, is_touched);
        match order.task {
            Task::Sink => stream::respond(&mut lane, exchange, count, &waiter)?,
            _ => latency::respond(&mut lane, exchange, &waiter)?,
        }
        lane.drain_sends(0, &waiter)?;
        lane.post_send(0, true)?;
        lane.drain_sends(0, &waiter)?;
        lane.await_end(host);
    }
}

/// Waits for the next request and reads what it is for.
pub(crate) fn asked<P: Provider, H: Host>(
    session: &Session<'_, P>,
    local: &Address,
    host: &H,
) -> Result<(IncomingRequest, Order)> {
    const DOING: &str = "waiting for the other side to connect";
    const PATIENCE: Duration = Duration::from_secs(60);
    const SLICE: Duration = Duration::from_secs(1);

    let start_ns = host.now_ns();
    loop {
        match session
            .provider
            .connect_wait(session.nic, local, Some(SLICE))
        {
            Ok(request) => {
                let order = Order::from_bytes(request.remote.discriminator.as_bytes());
                let order = order.ok_or_else(|| MeasureError::WrongData {
                    what: "a connection request from another program".to_owned(),
                })?;
                return Ok((request, order));
            }
            Err(error) if error.code() == ReturnCode::Timeout => {}
            Err(error) => return Err(error).doing(DOING),
        }
        if let Some(reason) = host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
        let waited = Duration::from_nanos(host.now_ns() - start_ns);
        if waited > PATIENCE {
            return Err(MeasureError::Stalled {
                doing: DOING,
                waited,
            });
        }
    }
}

pub(crate) fn accept<P: Provider>(
    session: &Session<'_, P>,
    connection: ConnectionHandle,
    vi: ViHandle,
) -> Result<()> {
    session
        .provider
        .connect_accept(connection, vi)
        .doing("accepting a connection")
}

/// What is known of a row's noise before the line is probed, and what was counted before and after
/// so many repetitions.
pub(crate) fn noise(
    lost_fraction: f64,
    over: u64,
    (before, after): (Option<Counts>, Option<Counts>),
) -> Noise {
    let counts = before.zip(after);
    Noise {
        line_ns_before: None,
        line_ns_after: None,
        placement: None,
        lost_fraction,
        counts: counts.map(|(before, after)| RowCounts {
            over,
            counts: after - before,
        }),
    }
}
