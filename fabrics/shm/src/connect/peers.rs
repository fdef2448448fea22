//! Connections between equals: both sides name both addresses, and either may come first.
//!
//! Whoever comes first binds the name made from the two addresses and plays the server; the other
//! finds it taken and plays the client. A thread of each request does this, so that asking for the
//! outcome is only a look.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use viaduct_provider::via::connection::{RequestPhase, RequestStep};
use viaduct_provider::via::matching::are_peers;
use viaduct_provider::via::{Address, ConnectFailure, RemoteViAttributes};
use viaduct_provider::{Error, Result, ReturnCode};

use super::handshake::{self, Ask, Failure};
use super::line::Line;
use super::waiters::{self, Desk};
use super::{Bell, Connectable, check_request, resource};
use crate::deadline::Deadline;
use crate::host::Host;
use crate::meeting;
use crate::rendezvous::{self, Listener, Place};
use crate::service::{locked, spawn};
use crate::wire::{Handshake, Request};

/// A request between equals, from its start until its outcome is taken.
pub(super) struct PeerAttempt {
    bell: Bell,
    outcome: Mutex<Option<Result<RemoteViAttributes>>>,
    decided: Condvar,
}

impl PeerAttempt {
    pub(super) fn cancel(&self) {
        self.bell.ring();
    }

    fn decide(&self, outcome: Result<RemoteViAttributes>) {
        *locked(&self.outcome) = Some(outcome);
        self.decided.notify_all();
    }
}

impl Host {
    /// Starts connecting a VI with the one whose addresses are the other way round.
    ///
    /// # Errors
    ///
    /// `InvalidParameter`, `InvalidState`, `Resource`.
    pub(crate) fn connect_peer_request(
        &'static self,
        vi: &Arc<dyn Connectable>,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        check_request(local, remote, limit)?;
        let attempt = Arc::new(PeerAttempt {
            bell: Bell::new().map_err(|error| resource(&error))?,
            outcome: Mutex::default(),
            decided: Condvar::new(),
        });
        vi.begin_pending()?;
        let number = vi.local_end().vi;
        locked(&self.connections.peers).insert(number, attempt.clone());
        let meeting = Meeting {
            host: self,
            vi: vi.clone(),
            local: local.clone(),
            remote: remote.clone(),
            deadline: Deadline::after(limit),
        };
        let thread = spawn("viaduct-peer", move || {
            let outcome = meeting.meet(&attempt.bell).map_err(|failure| {
                meeting.vi.cancel_pending();
                failure.into_error()
            });
            attempt.decide(outcome);
        });
        if let Err(error) = thread {
            locked(&self.connections.peers).remove(&number);
            vi.cancel_pending();
            return Err(resource(&error));
        }
        Ok(())
    }

    /// The outcome; `None` while that is open. The outcome is told once.
    ///
    /// # Errors
    ///
    /// `Timeout`, what differs between the ends, `Resource`; `InvalidState` when nothing was
    /// started, or it was ended by a disconnect, or its outcome was told.
    pub(crate) fn connect_peer_done(&self, vi: u64) -> Result<Option<RemoteViAttributes>> {
        let attempt = self.peer_attempt(vi)?;
        let outcome = locked(&attempt.outcome).clone();
        match outcome {
            None => Ok(None),
            Some(outcome) => self.take_outcome(vi, &attempt, outcome).map(Some),
        }
    }

    /// Waits until it is decided.
    ///
    /// # Errors
    ///
    /// As [`Host::connect_peer_done`].
    pub(crate) fn connect_peer_wait(&self, vi: u64) -> Result<RemoteViAttributes> {
        let attempt = self.peer_attempt(vi)?;
        let mut outcome = locked(&attempt.outcome);
        let decided = loop {
            match &*outcome {
                Some(decided) => break decided.clone(),
                None => {
                    outcome = attempt
                        .decided
                        .wait(outcome)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(outcome);
        self.take_outcome(vi, &attempt, decided)
    }

    fn peer_attempt(&self, vi: u64) -> Result<Arc<PeerAttempt>> {
        let attempt = locked(&self.connections.peers).get(&vi).cloned();
        attempt.ok_or_else(|| {
            Error::new(
                ReturnCode::InvalidState,
                "the VI has no connection request between equals under way",
            )
        })
    }

    fn take_outcome(
        &self,
        vi: u64,
        attempt: &Arc<PeerAttempt>,
        outcome: Result<RemoteViAttributes>,
    ) -> Result<RemoteViAttributes> {
        let mut peers = locked(&self.connections.peers);
        if peers.get(&vi).is_some_and(|now| Arc::ptr_eq(now, attempt)) {
            peers.remove(&vi);
        }
        outcome
    }
}

struct Meeting {
    host: &'static Host,
    vi: Arc<dyn Connectable>,
    local: Address,
    remote: Address,
    deadline: Deadline,
}

impl Meeting {
    fn meet(&self, bell: &Bell) -> std::result::Result<RemoteViAttributes, Failure> {
        let place = self.host.place();
        if self.remote.host != self.host.address() && matches!(place, Place::Abstract(_)) {
            return Err(handshake::ended(RequestPhase::Waiting, RequestStep::CutOff));
        }
        let name = meeting::peers(&self.local, &self.remote);
        loop {
            match Listener::bind(place, name) {
                Ok(listener) => return self.wait(listener, bell),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error.into()),
            }
            let socket = rendezvous::connect(place, name, self.deadline, || bell.silence())?;
            if let Some(socket) = socket {
                match self.ask(Line::new(socket), bell) {
                    // Whoever lives there is not our peer, or has just left.
                    Err(Failure::Ended(ConnectFailure::NoMatch)) => {}
                    outcome => return outcome,
                }
            }
            let pause = self.deadline.or_after(PAUSE);
            waiters::sleep(None, &[], bell, pause)?;
            if bell.silence() {
                return Err(handshake::ended(
                    RequestPhase::Waiting,
                    RequestStep::Withdraw,
                ));
            }
            if self.deadline.has_passed() {
                return Err(handshake::ended(RequestPhase::Waiting, RequestStep::Expire));
            }
        }
    }

    fn ask(&self, line: Line, bell: &Bell) -> std::result::Result<RemoteViAttributes, Failure> {
        let ask = Ask {
            local: &self.local,
            remote: &self.remote,
            peer_to_peer: true,
        };
        handshake::ask(self.host, line, &self.vi, &ask, self.deadline, bell)
    }

    fn wait(
        &self,
        listener: Listener,
        bell: &Bell,
    ) -> std::result::Result<RemoteViAttributes, Failure> {
        let mut desk = Desk::default();
        let is_peer = |request: &Request| {
            let asked = (&request.local, &request.remote);
            request.peer_to_peer && are_peers((&self.local, &self.remote), asked)
        };
        loop {
            while let Some((line, request)) = desk.sweep(Some(&listener), is_peer)? {
                let local = self.vi.local_end();
                if let Err(error) = local.match_with(&request.end.attributes) {
                    let differs = Handshake::Differs(local.attributes.for_peer());
                    let _ = handshake::say(&line, &differs);
                    return Err(Failure::Refused(error));
                }
                match handshake::answer(self.host, line, &request, &self.vi) {
                    Ok(()) => return Ok(request.end.attributes),
                    // That one has left; another may come.
                    Err(Failure::Withdrawn | Failure::Ended(_) | Failure::Misbehaved) => {}
                    Err(failure) => return Err(failure),
                }
            }
            let open = (!desk.is_full()).then_some(&listener);
            if !waiters::sleep(open, &desk.sockets(), bell, self.deadline)? {
                return Err(handshake::ended(RequestPhase::Waiting, RequestStep::Expire));
            }
            if bell.silence() {
                return Err(handshake::ended(
                    RequestPhase::Waiting,
                    RequestStep::Withdraw,
                ));
            }
        }
    }
}

/// Between two tries when the name is taken and nobody answers behind it.
const PAUSE: Duration = Duration::from_millis(2);
