//! Making connections: who asks, who answers, and what happens when both ask at once.
//!
//! Whoever has a message for a process without a connection asks its acceptor for one. If both ask
//! at once, the request of the process with the lower identity stands: it rejects the other's, and
//! the other accepts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use viaduct_am::Reason;
use viaduct_core::Address;
use viaduct_provider::{IncomingRequest, Provider, ReturnCode, ViHandle};

use crate::identity::Identity;
use crate::peers::SELF;
use crate::state::StationState;
use crate::station::Shared;

/// How long an acceptor waits before it looks whether its station has closed, and does what the
/// program has left undone.
const LOOK: Duration = Duration::from_secs(1);
/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two times that nobody was there to answer, and how often that may be. An acceptor is
/// away between two requests, and while others have its processor.
const ABSENT: Duration = Duration::from_millis(1);
const ABSENCES_MAX: u32 = 200;
/// The same for a process whose connection was lost. It has most likely died, and each time that
/// nobody answers again is tried half as often: who sends on to it does not wait every time.
const ABSENCES_MAX_DOUBTFUL: u32 = 20;
/// After a rejection, and how many there may be before others get their turn.
const REJECTED: Duration = Duration::from_micros(100);
const REJECTIONS_MAX: u32 = 4;

/// Answers who wants to connect to a station.
pub struct Acceptor<P: Provider> {
    shared: Arc<Shared<P>>,
}

impl<P: Provider> Acceptor<P> {
    pub(crate) const fn new(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }

    /// Answers until the station closes. Connections that arrive before it runs fail.
    pub fn run(self) {
        let Shared {
            fabric,
            nic,
            address,
            ..
        } = &*self.shared;
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            match fabric.connect_wait(*nic, address, Some(LOOK)) {
                Ok(incoming) => self.answer(&incoming),
                Err(error) if error.code() == ReturnCode::Timeout => self.look_after(),
                // Out of something: others may give it back.
                Err(_) => self.shared.pause(ABSENT),
            }
        }
    }

    fn answer(&self, incoming: &IncomingRequest) {
        let shared = &self.shared;
        let Some((index, handle)) = self.admit(&incoming.remote) else {
            // Who has gone meanwhile needs no answer.
            let _ = shared.fabric.connect_reject(incoming.connection);
            return;
        };
        let accepted = shared.fabric.connect_accept(incoming.connection, handle);
        let mut state = shared.lock();
        if state.by_vi.get(&handle) != Some(&index) {
            return;
        }
        if accepted.is_ok() {
            state.opened(index, false);
        } else {
            state.close(index, true);
        }
    }

    /// Takes in and acknowledges what has come for a program that computes and calls nothing:
    /// others get their verdicts, and connections that they want to close come to rest.
    fn look_after(&self) {
        let mut state = self.shared.lock();
        if state.waiters.has_leader() {
            return;
        }
        state.progress(|_| false);
        state.acknowledge_all();
        state.settle_late();
    }

    /// A VI for whoever asks, unless it is not to be.
    fn admit(&self, remote: &Address) -> Option<(usize, ViHandle)> {
        let identity = Identity::of_address(remote)?;
        let mut state = self.shared.lock();
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return None;
        }
        // The end of an earlier connection may stand in the queue. If somebody sleeps there, that
        // one takes it, and must find what it is woken for.
        if !state.waiters.has_leader() {
            state.progress(|_| false);
        }
        let peer = state.peer_of(remote.host, identity);
        if peer == SELF {
            return None;
        }
        if let Some(index) = state.peers[peer as usize].connection {
            let (is_open, has_agreed) = state.connections[index]
                .as_deref()
                .map_or((false, false), |each| (each.is_open, each.has_agreed));
            if is_open && has_agreed {
                // The other end has closed it, and is back.
                state.close(index, true);
            } else if is_open || state.identity < identity {
                return None;
            }
            // Else this end asks too, and gives way: its own request will be rejected.
        }
        state.new_connection(peer).ok().flatten()
    }
}

/// How a request for a connection ended.
enum Asked {
    Accepted,
    /// Not now.
    Rejected,
    Failed(Reason),
}

impl<P: Provider> StationState<P> {
    /// A connection has come about. A spare one, which the peer may use already, is brought to
    /// rest.
    fn opened(&mut self, index: usize, is_spare: bool) {
        let Some(connection) = self.connections[index].as_deref_mut() else {
            return;
        };
        connection.is_open = true;
        let peer = connection.peer;
        self.statistics.connections_made += 1;
        let its = &mut self.peers[peer as usize];
        its.absences = 0;
        if is_spare {
            self.ask_to_rest(index);
        }
        self.touch(peer);
        self.follow();
    }
}

impl<P: Provider> Shared<P> {
    /// Connects to every peer that somebody has a message for. Called with the lock free: an answer
    /// takes its time.
    #[cold]
    pub(crate) fn connect_waiting(&self) {
        let mut state = self.lock();
        for _ in 0..state.to_connect.len() {
            let Some(peer) = state.to_connect.pop_front() else {
                break;
            };
            let its = &mut state.peers[peer as usize];
            if its.connection.is_some() || its.pending.is_empty() {
                its.is_wanted = false;
                state.touch(peer);
                continue;
            }
            let remote = its.identity.address(its.host);
            let absences_max = match its.absences {
                0 => ABSENCES_MAX,
                times => (ABSENCES_MAX_DOUBTFUL >> (times - 1).min(31)).max(1),
            };
            let Ok(Some((index, handle))) = state.new_connection(peer) else {
                // No frame, or no memory, until others have closed.
                state.to_connect.push_back(peer);
                break;
            };
            drop(state);
            let asked = self.ask(peer, handle, &remote, absences_max);
            state = self.lock();
            let is_there = state.by_vi.get(&handle) == Some(&index);
            let its = &mut state.peers[peer as usize];
            its.is_wanted = false;
            let is_current = is_there && its.connection == Some(index);
            match asked {
                _ if !is_there => state.touch(peer),
                Asked::Accepted => {
                    // The other end's request may have taken its place, and may have ended.
                    let is_spare = its.connection.is_some_and(|other| other != index);
                    if !is_spare {
                        its.connection = Some(index);
                    }
                    state.opened(index, is_spare);
                }
                Asked::Failed(reason) if is_current => {
                    state.close(index, true);
                    state.fail(peer, reason);
                }
                Asked::Rejected | Asked::Failed(_) => {
                    state.close(index, true);
                    state.touch(peer);
                }
            }
            state.follow();
        }
        state.follow();
    }

    fn ask(&self, peer: u32, vi: ViHandle, remote: &Address, absences_max: u32) -> Asked {
        let (mut absences, mut rejections) = (0, 0);
        loop {
            let asked = self
                .fabric
                .connect_request(vi, &self.address, remote, Some(PATIENCE));
            let Err(error) = asked else {
                return Asked::Accepted;
            };
            match error.code() {
                ReturnCode::NoMatch => {
                    absences += 1;
                    if absences >= absences_max {
                        return Asked::Failed(Reason::ProcessDied);
                    }
                    self.pause(ABSENT);
                }
                ReturnCode::Reject => {
                    rejections += 1;
                    if rejections >= REJECTIONS_MAX || self.is_replaced(peer, vi) {
                        return Asked::Rejected;
                    }
                    self.pause(REJECTED);
                }
                _ => return Asked::Failed(Reason::HostUnreachable),
            }
            if self.is_replaced(peer, vi) {
                return Asked::Rejected;
            }
        }
    }

    /// Whether the other end's request has come through meanwhile.
    fn is_replaced(&self, peer: u32, vi: ViHandle) -> bool {
        let state = self.lock();
        state.by_vi.get(&vi).copied() != state.peers[peer as usize].connection
    }

    /// Has the acceptor look whether the station has closed.
    pub(crate) fn knock(&self) {
        let state = self.lock();
        let vi = state.nic.vi().send_depth(1).receive_depth(0).build();
        drop(state);
        if let Ok(vi) = vi {
            // Nobody there, or rejected: either way it has looked.
            let _ = self.fabric.connect_request(
                vi.handle(),
                &self.address,
                &self.address,
                Some(ABSENT),
            );
        }
    }
}

impl<P: Provider> fmt::Debug for Acceptor<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Acceptor")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}
