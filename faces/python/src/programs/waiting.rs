//! How what a program waits for comes about.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use viaduct_programs::{SimulatedFabric, verbs};
use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionEntry, CompletionError, Error, Memory, ReturnCode};

use super::aside::Aside;
use super::device::refused;
use super::home::Held;
use super::join::Joined;
use super::meeting::{Clock, Meeting, Met, accept, asking, explained};
use super::operation::{End, Kind, Operation, text_of};
use super::state::{HostState, Real, Simulated};
use super::vi::{AnyVi, Peer, Vi};
use super::{On, on};
use crate::errors;

type SimulatedVi = viaduct_provider::Vi<SimulatedFabric>;
type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An operation that a program waits for.
pub(crate) struct Waiting {
    operation: Py<Operation>,
    /// When the wait began.
    since: Duration,
    state: WaitingFor,
}

enum WaitingFor {
    Simulated {
        has_caught_up: bool,
        how: How,
        /// Whether a look has found nothing.
        has_looked: bool,
        limit: Option<Sleep>,
    },
    Real {
        begun: Instant,
    },
    /// For a thread that connects a queue pair between processes.
    Joining(Receiver<Joined>),
    /// Several, with the results of those that are there.
    All(Vec<(Waiting, Option<Py<PyAny>>)>),
}

/// What a simulated program polls.
enum How {
    Queues,
    Sleep(Sleep),
    Meeting(Arc<Aside<(SimulatedVi, Met)>>),
    Joining(Arc<Aside<Joined>>),
    Work(Arc<Aside<verbs::Result<Option<verbs::Completion>>>>),
    Event(Arc<Aside<verbs::Result<Option<verbs::AsyncEvent>>>>),
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Waiting")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

impl Waiting {
    /// From what a program yielded; `None` if there is nothing to wait for.
    pub(crate) fn of(host: &HostState, yielded: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if yielded.is_none() {
            return Ok(None);
        }
        let operation = yielded.cast::<Operation>().map_err(|_| {
            let shown = yielded.repr().map_or_else(
                |_| "something".to_owned(),
                |text| text.to_string_lossy().into_owned(),
            );
            let hint = if yielded.is_callable() {
                "; is it to be called?"
            } else {
                ""
            };
            PyTypeError::new_err(format!(
                "a program yields what functions of its host, VIs and queues give, not {shown}{hint}"
            ))
        })?;
        operation.get().take()?;
        Self::begin(host, operation.clone().unbind(), yielded.py()).map(Some)
    }

    fn begin(host: &HostState, operation: Py<Operation>, py: Python<'_>) -> PyResult<Self> {
        let what = operation.get();
        let since = host.now();
        let state = match (&what.kind, &host.place) {
            (Kind::All(operations), _) => {
                let begin =
                    |each: &Py<Operation>| Ok((Self::begin(host, each.clone_ref(py), py)?, None));
                WaitingFor::All(operations.iter().map(begin).collect::<PyResult<_>>()?)
            }
            (kind, On::Simulated(place)) => WaitingFor::Simulated {
                has_caught_up: false,
                how: How::of(host, place, kind, what.limit)?,
                has_looked: false,
                limit: match kind {
                    // They know their limits themselves.
                    Kind::Connect { .. } | Kind::Accept { .. } => None,
                    Kind::Work(_) | Kind::Event if !host.polls => None,
                    _ => what.limit.map(|limit| sleep(place, limit)),
                },
            },
            (kind, On::Real(place)) => match joining(host, place, kind, what.limit)? {
                Some(joining) => WaitingFor::Joining(joining),
                None => WaitingFor::Real {
                    begun: Instant::now(),
                },
            },
        };
        Ok(Self {
            operation,
            since,
            state,
        })
    }

    /// What the program waits for, since when.
    pub(crate) fn words(&self) -> String {
        format!(
            "waits for {} since {}",
            self.operation.get().words(),
            text_of(self.since)
        )
    }

    /// Polls it on a simulated host.
    pub(crate) fn poll(
        &mut self,
        py: Python<'_>,
        host: &HostState,
        context: &mut Context<'_>,
    ) -> Poll<PyResult<Py<PyAny>>> {
        let On::Simulated(place) = &host.place else {
            return Poll::Ready(Err(errors::in_use()));
        };
        match &mut self.state {
            WaitingFor::All(all) => {
                for (each, result) in all.iter_mut().filter(|(_, result)| result.is_none()) {
                    if let Poll::Ready(ready) = each.poll(py, host, context) {
                        *result = Some(ready?);
                    }
                }
                gathered(py, all).map_or(Poll::Pending, Poll::Ready)
            }
            WaitingFor::Simulated {
                has_caught_up,
                how,
                has_looked,
                limit,
            } => {
                // As a blocking program does before it looks at anything.
                if !*has_caught_up {
                    if place.process.poll_caught_up().is_pending() {
                        return Poll::Pending;
                    }
                    *has_caught_up = true;
                }
                let operation = self.operation.get();
                let polled = match (&how, host.polls) {
                    (How::Queues, true) => looked(py, host, place, &operation.kind, has_looked),
                    _ => how.poll(py, host, place, operation, context),
                };
                if polled.is_pending()
                    && limit
                        .as_mut()
                        .is_some_and(|limit| limit.as_mut().poll(context).is_ready())
                {
                    return Poll::Ready(Err(late(operation)));
                }
                polled
            }
            WaitingFor::Real { .. } | WaitingFor::Joining(_) => Poll::Ready(Err(errors::in_use())),
        }
    }

    /// Waits for it between processes, so long at most; `None` if it has not come about.
    pub(crate) fn attempt(
        &mut self,
        py: Python<'_>,
        host: &HostState,
        slice: Duration,
    ) -> PyResult<Option<Py<PyAny>>> {
        /// So that of several, each is looked at often.
        const TURN: Duration = Duration::from_micros(500);

        let On::Real(place) = &host.place else {
            return Err(errors::in_use());
        };
        match &mut self.state {
            WaitingFor::All(all) => {
                for (each, result) in all.iter_mut().filter(|(_, result)| result.is_none()) {
                    let turn = if host.polls { Duration::ZERO } else { TURN };
                    *result = each.attempt(py, host, slice.min(turn))?;
                }
                gathered(py, all).transpose()
            }
            WaitingFor::Real { begun } => {
                let operation = self.operation.get();
                let left = operation
                    .limit
                    .map(|limit| limit.saturating_sub(begun.elapsed()));
                let slice = left.map_or(slice, |left| left.min(slice));
                let is_queue = matches!(
                    operation.kind,
                    Kind::Receive(_) | Kind::Send(_) | Kind::Entry(_) | Kind::Work(_) | Kind::Event
                );
                let result = match host.polls && is_queue {
                    true => spun(py, host, &operation.kind, slice)?,
                    false => attempt(py, host, place, &operation.kind, *begun, slice)?,
                };
                if result.is_none() && left.is_some_and(|left| left.is_zero()) {
                    return Err(late(operation));
                }
                Ok(result)
            }
            WaitingFor::Joining(joining) => match py.detach(move || joining.recv_timeout(slice)) {
                Ok(result) => joined(py, &self.operation.get().kind, result).map(Some),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(errors::in_use()),
            },
            WaitingFor::Simulated { .. } => Err(errors::in_use()),
        }
    }
}

/// The results of all, if they are there.
fn gathered(
    py: Python<'_>,
    all: &mut [(Waiting, Option<Py<PyAny>>)],
) -> Option<PyResult<Py<PyAny>>> {
    if all.iter().any(|(_, result)| result.is_none()) {
        return None;
    }
    let results = all.iter_mut().filter_map(|(_, result)| result.take());
    let list = PyList::new(py, results.collect::<Vec<_>>());
    Some(list.map(|list| list.into_any().unbind()))
}

fn sleep(place: &Simulated, span: Duration) -> Sleep {
    let process = place.process.clone();
    Box::pin(async move { process.sleep_async(span).await })
}

fn late(operation: &Operation) -> PyErr {
    let limit = operation.limit.unwrap_or_default();
    errors::time_limit(format!(
        "{} passed without {}",
        text_of(limit),
        operation.words()
    ))
}

impl How {
    fn of(
        host: &HostState,
        place: &Simulated,
        kind: &Kind,
        limit: Option<Duration>,
    ) -> PyResult<Self> {
        Ok(match kind {
            Kind::Sleep(span) => Self::Sleep(sleep(place, *span)),
            Kind::Connect {
                end,
                name,
                number,
                port,
            } => {
                let (place, remote) = (simulated(end)?, end.host().address(*number, port)?);
                let rank = host.rank();
                let meeting = Meeting::Connect { rank, remote };
                Self::meet(place, end, meeting, Some(name), limit)?
            }
            Kind::Accept { end, port } => {
                let place = simulated(end)?;
                let meeting = Meeting::Accept(place.nic.listen(port.as_bytes()));
                Self::meet(place, end, meeting, None, limit)?
            }
            Kind::Work(work) if !host.polls => Self::Work(work.wait_aside(place, limit)),
            Kind::Event if !host.polls => Self::Event(host.event_aside(place, limit)?),
            _ => Self::Queues,
        })
    }

    /// Begins to connect an end.
    fn meet(
        place: &Simulated,
        end: &End,
        meeting: Meeting<SimulatedFabric>,
        name: Option<&str>,
        limit: Option<Duration>,
    ) -> PyResult<Self> {
        Ok(match end {
            End::Vi(vi) => {
                let mut vi = simulated_vi(vi)?;
                Self::Meeting(Aside::call(&place.process, move |process| {
                    let met = meeting.meet(process, &mut vi, limit);
                    (vi, met)
                }))
            }
            End::Pair(pair, data) => {
                let (nic, memory) = (&*place.nic, Memory::Private);
                let join = pair.get().join(nic, memory, meeting, name, data, limit)?;
                let home = Arc::clone(&place.home);
                Self::Joining(Aside::call(&place.process, move |process| {
                    let (vi, rank, data) = join.carry_out(process)?;
                    Ok((On::Simulated(Held::new(vi, Some(home))), rank, data))
                }))
            }
        })
    }

    fn poll(
        &mut self,
        py: Python<'_>,
        host: &HostState,
        place: &Simulated,
        operation: &Operation,
        context: &mut Context<'_>,
    ) -> Poll<PyResult<Py<PyAny>>> {
        match (self, &operation.kind) {
            (Self::Sleep(sleep), _) => sleep.as_mut().poll(context).map(|()| Ok(py.None())),
            (Self::Meeting(meeting), kind) => meeting.poll(context).map(|(vi, result)| {
                let vi = On::Simulated(Held::new(vi, Some(Arc::clone(&place.home))));
                met(py, host, kind, vi, result)
            }),
            (Self::Joining(joining), kind) => {
                joining.poll(context).map(|result| joined(py, kind, result))
            }
            (Self::Work(aside), Kind::Work(work)) => {
                aside
                    .poll(context)
                    .map(|done| match done.map_err(|error| refused(&error))? {
                        Some(done) => work.completed(py, &done),
                        None => Err(late(operation)),
                    })
            }
            (Self::Work(_), _) => Poll::Ready(Err(errors::in_use())),
            (Self::Event(aside), _) => {
                aside
                    .poll(context)
                    .map(|event| match event.map_err(|error| refused(&error))? {
                        Some(event) => host.event(py, &event),
                        None => Err(late(operation)),
                    })
            }
            (Self::Queues, Kind::Receive(vi)) => {
                let mut state = vi.get().state()?;
                let On::Simulated(queues) = state.vi()? else {
                    return Poll::Ready(Err(errors::in_use()));
                };
                let polled = queues.poll_receive(context);
                polled.map(|result| state.received(py, result))
            }
            (Self::Queues, Kind::Send(vi)) => {
                let mut state = vi.get().state()?;
                let On::Simulated(queues) = state.vi()? else {
                    return Poll::Ready(Err(errors::in_use()));
                };
                let polled = queues.halves().0.poll_sent(context);
                polled.map(|result| state.sent(py, result))
            }
            (Self::Queues, Kind::Entry(queue)) => {
                let polled = match &mut *queue.get().queue()? {
                    On::Simulated(entries) => entries.poll_next(context),
                    On::Real(_) => return Poll::Ready(Err(errors::in_use())),
                };
                let host = &queue.get().host;
                polled.map(|result| entry(py, host, result.map_err(errors::refused)?))
            }
            (Self::Queues, _) => Poll::Ready(Ok(py.None())),
        }
    }
}

/// The simulated host that an end is on, by its adapter.
fn simulated(end: &End) -> PyResult<&Simulated> {
    match &end.host().place {
        On::Simulated(place) => Ok(place),
        On::Real(_) => Err(errors::in_use()),
    }
}

/// Begins to connect a queue pair between processes, on a thread that blocks; `None` for anything
/// else.
fn joining(
    host: &HostState,
    place: &Real,
    kind: &Kind,
    limit: Option<Duration>,
) -> PyResult<Option<Receiver<Joined>>> {
    let (pair, data, name, meeting) = match kind {
        Kind::Connect {
            end: End::Pair(pair, data),
            name,
            number,
            port,
        } => {
            let (rank, remote) = (host.rank(), host.address(*number, port)?);
            let meeting = Meeting::Connect { rank, remote };
            (pair, data, Some(name.as_str()), meeting)
        }
        Kind::Accept {
            end: End::Pair(pair, data),
            port,
        } => {
            let address = host.address(host.number(), port)?;
            let listener = place.nic.listen(address.discriminator.as_bytes());
            (pair, data, None, Meeting::Accept(listener))
        }
        _ => return Ok(None),
    };
    let (nic, memory) = (&place.nic, Memory::Shared);
    let join = pair.get().join(nic, memory, meeting, name, data, limit)?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let joined = join.carry_out(&Instant::now());
        // Nobody may wait for it any more.
        let _ = tell.send(joined.map(|(vi, rank, data)| (On::Real(vi), rank, data)));
    });
    Ok(Some(told))
}

/// A queue pair is connected, or is not.
fn joined(py: Python<'_>, kind: &Kind, result: Joined) -> PyResult<Py<PyAny>> {
    match kind {
        Kind::Connect {
            end: End::Pair(pair, _),
            name,
            port,
            ..
        } => pair.get().joined(py, Some(name), port, result),
        Kind::Accept {
            end: End::Pair(pair, _),
            port,
        } => pair.get().joined(py, None, port, result),
        _ => Err(errors::in_use()),
    }
}

/// Looks for what a program that polls waits for, and looks again when something changed on its
/// host: a loop would find nothing before.
fn looked(
    py: Python<'_>,
    host: &HostState,
    place: &Simulated,
    kind: &Kind,
    has_looked: &mut bool,
) -> Poll<PyResult<Py<PyAny>>> {
    match try_once(py, host, kind).transpose() {
        Some(found) => {
            if *has_looked {
                place.process.pay_for_polling();
            }
            Poll::Ready(found)
        }
        None => {
            *has_looked = true;
            place.process.watch();
            Poll::Pending
        }
    }
}

/// Whether a queue has something; anything but a queue has nothing to wait for.
fn try_once(py: Python<'_>, host: &HostState, kind: &Kind) -> PyResult<Option<Py<PyAny>>> {
    match kind {
        Kind::Receive(vi) => {
            let mut state = vi.get().state()?;
            let tried = on!(state.vi()?, vi => vi.try_receive()).transpose();
            tried.map(|result| state.received(py, result)).transpose()
        }
        Kind::Send(vi) => {
            let mut state = vi.get().state()?;
            let tried = on!(state.vi()?, vi => vi.try_sent()).transpose();
            tried.map(|result| state.sent(py, result)).transpose()
        }
        Kind::Entry(queue) => {
            let tried = on!(&mut *queue.get().queue()?, entries => entries.try_next());
            let found = tried.map_err(errors::refused)?;
            found
                .map(|found| entry(py, &queue.get().host, found))
                .transpose()
        }
        Kind::Work(work) => work.look(py),
        Kind::Event => host.look_for_event(py),
        _ => Ok(Some(py.None())),
    }
}

/// Takes a VI to be connected.
fn simulated_vi(vi: &Py<Vi>) -> PyResult<SimulatedVi> {
    let mut state = vi.get().state()?;
    state.vi()?;
    match state.vi.take() {
        Some(On::Simulated(vi)) => Ok(vi.into_inner()),
        other => {
            state.vi = other;
            Err(errors::in_use())
        }
    }
}

/// A VI comes back from being connected, or from the attempt.
fn met(
    py: Python<'_>,
    host: &HostState,
    kind: &Kind,
    vi: AnyVi,
    result: Met,
) -> PyResult<Py<PyAny>> {
    let (own, name, port) = match kind {
        Kind::Connect {
            end: End::Vi(vi),
            name,
            port,
            ..
        } => (vi, Some(name.as_str()), port),
        Kind::Accept {
            end: End::Vi(vi),
            port,
        } => (vi, None, port),
        _ => return Err(errors::in_use()),
    };
    match result {
        Ok(rank) => {
            let peer = Peer {
                name: name.or_else(|| host.name_of(rank?)).map(str::to_owned),
                is_accepted: name.is_none(),
                port: port.clone(),
            };
            own.get().connected(vi, Some(peer));
            Ok(own.clone_ref(py).into_any())
        }
        Err(error) => {
            own.get().connected(vi, None);
            Err(errors::refused_as(error.code(), explained(&error, name)))
        }
    }
}

fn entry(py: Python<'_>, host: &HostState, entry: CompletionEntry) -> PyResult<Py<PyAny>> {
    let queue = match entry.queue {
        Queue::Send => "send",
        Queue::Receive => "receive",
    };
    let vi = host.vi(py, entry.vi);
    Ok((vi, queue).into_pyobject(py)?.into_any().unbind())
}

/// Looks again and again for so long, without sleeping.
fn spun(
    py: Python<'_>,
    host: &HostState,
    kind: &Kind,
    slice: Duration,
) -> PyResult<Option<Py<PyAny>>> {
    /// After so long the other process may need this processor.
    const ALONE: Duration = Duration::from_micros(50);
    /// Looks between two at the clock.
    const LOOKS: u32 = 64;

    let mut begun = None;
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = try_once(py, host, kind)? {
                return Ok(Some(found));
            }
            std::hint::spin_loop();
        }
        let elapsed = begun.get_or_insert_with(Instant::now).elapsed();
        if elapsed >= slice {
            return Ok(None);
        }
        if elapsed > ALONE {
            // Other threads of this process, too.
            py.detach(thread::yield_now);
        }
    }
}

/// Whether an operation between processes came about in so long.
fn attempt(
    py: Python<'_>,
    host: &HostState,
    place: &Real,
    kind: &Kind,
    begun: Instant,
    slice: Duration,
) -> PyResult<Option<Py<PyAny>>> {
    match kind {
        Kind::CatchUp => Ok(Some(py.None())),
        Kind::Sleep(span) => {
            let left = span.saturating_sub(begun.elapsed());
            py.detach(|| thread::sleep(left.min(slice)));
            Ok((left <= slice).then(|| py.None()))
        }
        Kind::Receive(vi) => {
            let mut state = vi.get().state()?;
            let On::Real(queues) = state.vi()? else {
                return Err(errors::in_use());
            };
            let result = match queues.try_receive().transpose() {
                Some(result) => result,
                None => py.detach(|| queues.receive(Some(slice))),
            };
            match result {
                Err(CompletionError::Fabric(error)) if is_timeout(&error) => Ok(None),
                result => state.received(py, result).map(Some),
            }
        }
        Kind::Send(vi) => {
            let mut state = vi.get().state()?;
            let On::Real(queues) = state.vi()? else {
                return Err(errors::in_use());
            };
            let result = match queues.try_sent().transpose() {
                Some(result) => result,
                None => py.detach(|| queues.sent(Some(slice))),
            };
            match result {
                Err(CompletionError::Fabric(error)) if is_timeout(&error) => Ok(None),
                result => state.sent(py, result).map(Some),
            }
        }
        Kind::Entry(queue) => {
            let waited = match &mut *queue.get().queue()? {
                On::Real(entries) => py.detach(|| entries.wait(Some(slice))),
                On::Simulated(_) => return Err(errors::in_use()),
            };
            match waited {
                Ok(found) => entry(py, host, found).map(Some),
                Err(error) if is_timeout(&error) => Ok(None),
                Err(error) => Err(errors::refused(error)),
            }
        }
        Kind::Connect {
            end: End::Vi(vi),
            number,
            port,
            ..
        } => {
            let address = host.address(*number, port)?;
            let mut state = vi.get().state()?;
            let On::Real(asking) = state.vi()? else {
                return Err(errors::in_use());
            };
            // Who listens answers soon; a limit of zero is none that can be kept.
            let limit = slice.max(Duration::from_millis(100));
            let own = self::asking(host.rank(), asking.handle());
            let result = py.detach(|| asking.connect_as(&own, &address, Some(limit)));
            let patience_ends = begun.elapsed() > Instant::PATIENCE;
            match &result {
                Err(error) if is_timeout(error) => return Ok(None),
                Err(error) if error.code() == ReturnCode::NoMatch && !patience_ends => {
                    py.detach(|| thread::sleep(Duration::from_micros(200).min(slice)));
                    return Ok(None);
                }
                _ => {}
            }
            let vi = state.vi.take().ok_or_else(errors::in_use)?;
            drop(state);
            met(py, host, kind, vi, result.map(|_| None)).map(Some)
        }
        Kind::Accept {
            end: End::Vi(vi),
            port,
        } => {
            let address = host.address(host.number(), port)?;
            let mut state = vi.get().state()?;
            let On::Real(waiting) = state.vi()? else {
                return Err(errors::in_use());
            };
            let listener = place.nic.listen(address.discriminator.as_bytes());
            let limit = slice.max(Duration::from_micros(100));
            let result = py.detach(|| accept(&listener, waiting, Some(limit)));
            if result.as_ref().is_err_and(is_timeout) {
                return Ok(None);
            }
            let vi = state.vi.take().ok_or_else(errors::in_use)?;
            drop(state);
            met(py, host, kind, vi, result).map(Some)
        }
        Kind::Work(work) => work.wait_here(py, slice),
        Kind::Event => host.event_here(py, slice),
        // Several are waited for one by one, queue pairs are connected by a thread.
        Kind::All(_) | Kind::Connect { .. } | Kind::Accept { .. } => Err(errors::in_use()),
    }
}

fn is_timeout(error: &Error) -> bool {
    error.code() == ReturnCode::Timeout
}
