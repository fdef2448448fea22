//! Those who wait for requests.
//!
//! All waiters of this process on one address share a listener. It exists as long as one of them
//! waits, so that a request that nobody waits for is refused at once. Requests that came in
//! meanwhile but were not taken when the last waiter leaves are kept for a moment: a server that
//! takes one and waits again finds them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use viaduct_provider::via::Address;
use viaduct_provider::via::matching::meets;
use viaduct_provider::{Error, Result, ReturnCode};

use super::line::Line;
use super::{Bell, handshake, resource};
use crate::deadline::Deadline;
use crate::host::Host;
use crate::meeting;
use crate::rendezvous::Listener;
use crate::service::{Pace, Progress, locked};
use crate::wire::{self, Handshake, Request};

/// The addresses that this process waits on.
#[derive(Default)]
pub(super) struct Waiters {
    points: Mutex<BTreeMap<Address, Point>>,
}

/// One address.
#[derive(Default)]
struct Point {
    /// While somebody waits.
    listener: Option<Arc<Listener>>,
    waiters: Vec<Waiter>,
    desk: Desk,
    /// When what is left on the desk goes.
    closes: Option<Instant>,
}

struct Waiter {
    nic: u64,
    bell: Arc<Bell>,
    is_retired: bool,
}

/// Clients that have connected and not been taken, in order.
#[derive(Default)]
pub(super) struct Desk {
    callers: Vec<Caller>,
}

struct Caller {
    line: Line,
    since: Instant,
}

impl Caller {
    fn new(socket: OwnedFd) -> Self {
        Self {
            line: Line::new(socket),
            since: Instant::now(),
        }
    }
}

impl Desk {
    /// Lets in whoever came, and takes the first whose request is good. Those who ask for
    /// something else are told that there is no match, and those who say nothing are sent away
    /// after a second.
    pub(super) fn sweep(
        &mut self,
        listener: Option<&Listener>,
        is_good: impl Fn(&Request) -> bool,
    ) -> io::Result<Option<(Line, Request)>> {
        let mut failure = None;
        while let Some(listener) = listener
            && !self.is_full()
        {
            match listener.accept() {
                Ok(Some(socket)) => self.callers.push(Caller::new(socket)),
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let mut index = 0;
        while let Some(caller) = self.callers.get(index) {
            match handshake::hear(&caller.line) {
                Ok(None) if caller.since.elapsed() < SILENCE_MAX => index += 1,
                Ok(Some((Handshake::Request(request), _))) => {
                    let Caller { line, .. } = self.callers.remove(index);
                    if !is_good(&request) {
                        handshake::turn_away(&line);
                    } else if handshake::is_there(&line) {
                        return Ok(Some((line, request)));
                    }
                }
                _ => {
                    self.callers.remove(index);
                }
            }
        }
        match failure {
            // Without descriptors a waiter can do nothing but fail.
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// What to sleep on until a sweep can find more.
    pub(super) fn sockets(&self) -> Vec<Arc<OwnedFd>> {
        let callers = self.callers.iter();
        callers.map(|caller| caller.line.socket()).collect()
    }

    /// Whether nobody more is let in.
    pub(super) fn is_full(&self) -> bool {
        self.callers.len() >= CALLERS_MAX
    }

    fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }
}

/// Sleeps until a sweep of the desk may find something, the bell rings, or the deadline has passed,
/// which is false.
pub(super) fn sleep(
    listener: Option<&Listener>,
    sockets: &[Arc<OwnedFd>],
    bell: &Bell,
    deadline: Deadline,
) -> io::Result<bool> {
    let mut sources = vec![PollFd::new(&bell.0, PollFlags::IN)];
    if let Some(listener) = listener {
        sources.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
    }
    sources.extend(sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)));
    // The silent are sent away in time.
    let nap = match sockets {
        [] => deadline,
        _ => deadline.or_after(SILENCE_MAX),
    };
    Ok(wire::poll(&mut sources, nap)? || !deadline.has_passed())
}

impl Waiters {
    /// Waits for a request to exactly this address.
    pub(super) fn wait(
        &self,
        host: &'static Host,
        nic: u64,
        local: &Address,
        deadline: Deadline,
    ) -> Result<(Line, Request)> {
        let bell = Arc::new(Bell::new().map_err(|error| resource(&error))?);
        let begin = Instant::now();
        while !self.enter(host, nic, local, &bell)? {
            if begin.elapsed() > TAKEN_MAX || deadline.has_passed() {
                let name = &local.discriminator;
                return Err(Error::new(
                    ReturnCode::Resource,
                    format!("another process waits on {name:?}: use another discriminator"),
                ));
            }
            std::thread::sleep(TAKEN_NAP);
        }
        let result = self.wait_inside(local, deadline, &bell);
        self.leave(host, local, &bell);
        result
    }

    /// Whether it got in; not if another process has the address.
    fn enter(
        &self,
        host: &'static Host,
        nic: u64,
        local: &Address,
        bell: &Arc<Bell>,
    ) -> Result<bool> {
        let mut points = locked(&self.points);
        let point = points.entry(local.clone()).or_default();
        if point.listener.is_none() {
            match Listener::bind(host.place(), meeting::server(local)) {
                Ok(listener) => point.listener = Some(Arc::new(listener)),
                Err(error) => {
                    if point.desk.is_empty() {
                        points.remove(local);
                    }
                    return match error.kind() {
                        io::ErrorKind::AddrInUse => Ok(false),
                        _ => Err(resource(&error)),
                    };
                }
            }
        }
        point.closes = None;
        point.waiters.push(Waiter {
            nic,
            bell: bell.clone(),
            is_retired: false,
        });
        Ok(true)
    }

    fn wait_inside(
        &self,
        local: &Address,
        deadline: Deadline,
        bell: &Arc<Bell>,
    ) -> Result<(Line, Request)> {
        loop {
            let (listener, sockets) = {
                let mut points = locked(&self.points);
                let point = points.entry(local.clone()).or_default();
                let is_mine = |waiter: &&Waiter| Arc::ptr_eq(&waiter.bell, bell);
                if point
                    .waiters
                    .iter()
                    .find(is_mine)
                    .is_some_and(|w| w.is_retired)
                {
                    return Err(super::invalid("the NIC was closed"));
                }
                let is_good =
                    |request: &Request| !request.peer_to_peer && meets(&request.remote, local);
                let taken = point.desk.sweep(point.listener.as_deref(), is_good);
                if let Some(taken) = taken.map_err(|error| resource(&error))? {
                    return Ok(taken);
                }
                let listener = point.listener.clone().filter(|_| !point.desk.is_full());
                (listener, point.desk.sockets())
            };
            let woken = sleep(listener.as_deref(), &sockets, bell, deadline);
            if !woken.map_err(|error| resource(&error))? {
                return Err(Error::new(
                    ReturnCode::Timeout,
                    "no connection request came within the time limit",
                ));
            }
            bell.silence();
        }
    }

    fn leave(&self, host: &'static Host, local: &Address, bell: &Arc<Bell>) {
        let mut points = locked(&self.points);
        let Some(point) = points.get_mut(local) else {
            return;
        };
        point.waiters.retain(|w| !Arc::ptr_eq(&w.bell, bell));
        if !point.waiters.is_empty() {
            // Those who sleep on other sockets than are on the desk look again.
            if !point.desk.is_empty() {
                point.waiters.iter().for_each(|waiter| waiter.bell.ring());
            }
            return;
        }
        // Whoever is in the listener's queue came while somebody waited.
        if let Some(listener) = point.listener.take() {
            while !point.desk.is_full()
                && let Ok(Some(socket)) = listener.accept()
            {
                point.desk.callers.push(Caller::new(socket));
            }
        }
        if point.desk.is_empty() {
            points.remove(local);
        } else {
            point.closes = Some(Instant::now() + KEPT);
            drop(points);
            host.watch(
                Arc::new(Closing {
                    host,
                    local: local.clone(),
                }),
                Pace::Quick,
            );
        }
    }

    /// Has those who wait on a NIC return.
    pub(super) fn retire_nic(&self, nic: u64) {
        for point in locked(&self.points).values_mut() {
            for waiter in point.waiters.iter_mut().filter(|w| w.nic == nic) {
                waiter.is_retired = true;
                waiter.bell.ring();
            }
        }
    }
}

/// Sends away, after a while, those whom nobody waited for again.
struct Closing {
    host: &'static Host,
    local: Address,
}

impl Progress for Closing {
    fn progress(&self) -> Pace {
        let mut points = locked(&self.host.connections.waiters.points);
        match points.get(&self.local).and_then(|point| point.closes) {
            Some(closes) if closes > Instant::now() => Pace::Quick,
            Some(_) => {
                let point = points.remove(&self.local);
                drop(points);
                for caller in point.into_iter().flat_map(|point| point.desk.callers) {
                    handshake::turn_away(&caller.line);
                }
                Pace::Over
            }
            None => Pace::Over,
        }
    }
}

/// Callers on one desk; more wait in the listener's queue.
const CALLERS_MAX: usize = 128;

/// How long a caller may be silent: a client speaks as soon as it is connected.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long those who came in time are kept for the next wait.
const KEPT: Duration = Duration::from_millis(250);

/// How long an address may be taken before it is another's. A child of this process has a copy of
/// the last listener until it runs a program of its own.
const TAKEN_MAX: Duration = Duration::from_secs(1);

/// Between two looks at a taken address.
const TAKEN_NAP: Duration = Duration::from_millis(1);
