//! What two NICs say to each other to connect, who is connected with whom, and the table of what
//! is still open.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::address::{Address, HostAddress};
use crate::attributes::RemoteViAttributes;
use crate::event::ConnectFailure;
use crate::status::Status;
use crate::time::Timestamp;
use crate::vi::{Peer, ViId};

/// Names one attempt to connect, or one connection, at one of its ends.
///
/// Numbers of one NIC come again after 2^32 waits, requests and connections.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionNumber(pub(crate) u32);

/// Names a wait for a connection request.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WaitId(pub(crate) u32);

/// Names a connection request that waits for an answer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub(crate) u32);

/// A message of connection management that a driver must carry to another host.
///
/// The driver carries these reliably and, between two hosts, in order; when it cannot, it tells
/// both NICs through `handle_host_unreachable`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Transmit {
    /// Where to.
    pub to: HostAddress,
    /// What.
    pub message: ConnectionMessage,
}

/// What one NIC says to another about connections.
///
/// ```text
/// client                              server
///   | -- Request ---------------------> |   meets a wait: event; else NoMatch
///   | <------------ Accept / Reject --- |
///   | -- Withdraw --------------------> |   the client gave up before an answer
///
/// peer                                peer
///   | -- PeerRequest -----------------> |   kept until this peer asks too, or Withdraw
///   | <----------------- PeerRequest -- |   each is connected when it has asked and was asked
///
///   | <- Disconnect, Broken ----------> |   either end, once connected
///   | <- ReceivesPosted --------------> |   to an end with flow control
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectionMessage {
    /// A client asks for a connection.
    Request {
        /// The client's VI.
        vi: ViId,
        /// The client's number for the attempt, and for the connection it becomes.
        connection: ConnectionNumber,
        /// The client's own address.
        local: Address,
        /// Whom it asks for.
        remote: Address,
        /// The client's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// The server accepts.
    Accept {
        /// The client's number.
        to: ConnectionNumber,
        /// The server's VI.
        vi: ViId,
        /// The server's number for the connection.
        connection: ConnectionNumber,
        /// The server's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// The server rejects.
    Reject {
        /// The client's number.
        to: ConnectionNumber,
    },
    /// Nobody waits on the address asked for.
    NoMatch {
        /// The client's number.
        to: ConnectionNumber,
    },
    /// The client no longer waits for an answer.
    Withdraw {
        /// The client's number.
        connection: ConnectionNumber,
    },
    /// The consumer of the other end has disconnected.
    Disconnect {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
    },
    /// A peer asks another for a connection, as that one does or will do.
    PeerRequest {
        /// The sender's VI.
        vi: ViId,
        /// The sender's number for the attempt, and for the connection it becomes.
        connection: ConnectionNumber,
        /// The sender's own address.
        local: Address,
        /// Whom it asks for.
        remote: Address,
        /// The sender's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// An error has broken the connection at the other end.
    Broken {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
        /// What the receiver's descriptors learn of it.
        reason: BreakReason,
    },
    /// Extension, flow control: the other end has posted receives.
    ReceivesPosted {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
        /// Bytes that each holds, in the order of the posts.
        capacities: Vec<u32>,
    },
}

/// What an end that broke a connection tells the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakReason {
    /// An error that concerns none of the other end's descriptors.
    Local,
    /// The transport gave up: what was under way is lost.
    Transport,
    /// A message of the other end was refused, and its descriptor still waits.
    Refused {
        /// Which: messages of a connection are numbered from 0, in the order of their sending.
        message: u64,
        /// Its error bit.
        error: Status,
    },
}

/// How far a request for a connection has come.
///
/// ```text
///          Meet             Accept
/// Waiting ------> Offered ---------> Connected
///    |               |     Reject
///    | Lapse         +-------------> Rejected
///    | LoseServer    |
///    |               +-- LoseServer -------+
///    v                                     v
/// Unmatched     either --- Expire -----> TimedOut
///               either --- Withdraw ---> Withdrawn ----+ Accept, Reject
///               either --- CutOff -----> Unreachable   +-> Withdrawn
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestPhase {
    /// Asked, and not met yet by anybody who waits, or who asks in turn.
    Waiting,
    /// The server's consumer has been told of it.
    Offered,
    /// There is a connection.
    Connected,
    /// The server's consumer has said no.
    Rejected,
    /// Nobody waited for it.
    Unmatched,
    /// There was no answer in time, or there will be none.
    TimedOut,
    /// The asker's consumer has given up. The server's learns it when it answers.
    Withdrawn,
    /// The asker's host hears nothing of the other.
    Unreachable,
}

/// What may happen to a request for a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestStep {
    /// Somebody waits on its address, or asks for the asker as a peer.
    Meet,
    /// It is kept no longer for somebody who will wait.
    Lapse,
    /// The server's consumer accepts.
    Accept,
    /// The server's consumer rejects.
    Reject,
    /// The asker's time is up.
    Expire,
    /// The asker's consumer ends the attempt, or is gone.
    Withdraw,
    /// The server's consumer is gone.
    LoseServer,
    /// The two hosts hear nothing of each other.
    CutOff,
}

/// How far a request has come after a step; `None` where there is no such step.
///
/// VIA, connection set-up. Both ends ask: the server about the requests that it has, the asker
/// about its own. To the asker an answer says, too, that it was met.
#[must_use]
pub fn request_after(phase: RequestPhase, step: RequestStep) -> Option<RequestPhase> {
    use RequestPhase::{
        Connected, Offered, Rejected, TimedOut, Unmatched, Unreachable, Waiting, Withdrawn,
    };
    use RequestStep::{Accept, CutOff, Expire, Lapse, LoseServer, Meet, Reject, Withdraw};
    let next = match (step, phase) {
        (Meet, Waiting) => Some(Offered),
        (Lapse | LoseServer, Waiting) => Some(Unmatched),
        (Accept, Offered) => Some(Connected),
        (Reject, Offered) => Some(Rejected),
        (Accept | Reject, Withdrawn) | (Withdraw, Waiting | Offered) => Some(Withdrawn),
        (Expire, Waiting | Offered) | (LoseServer, Offered) => Some(TimedOut),
        (CutOff, Waiting | Offered) => Some(Unreachable),
        _ => None,
    };
    rule!(next, step)
}

/// What the asker's consumer is told of a request that has come so far; nothing of one that is
/// under way, or that it gave up itself.
#[must_use]
pub fn failure_told(phase: RequestPhase) -> Option<ConnectFailure> {
    rule!(match phase {
        RequestPhase::Rejected => Some(ConnectFailure::Rejected),
        RequestPhase::Unmatched => Some(ConnectFailure::NoMatch),
        RequestPhase::TimedOut => Some(ConnectFailure::TimedOut),
        RequestPhase::Unreachable => Some(ConnectFailure::NotReachable),
        RequestPhase::Waiting
        | RequestPhase::Offered
        | RequestPhase::Connected
        | RequestPhase::Withdrawn => None,
    })
}

/// Whether a client that asks for an address meets a wait.
///
/// VIA, connection set-up: what counts is the address asked for, length and bytes; the client's own
/// takes no part.
#[must_use]
pub fn meets(asked: &Address, waited_on: &Address) -> bool {
    rule!(asked == waited_on)
}

/// Whether two requests of peers, each the asker's own address and the one that it asks for, are
/// for each other.
///
/// VIA, peer-to-peer: each asks for the other's own address.
#[must_use]
pub fn are_peers(one: (&Address, &Address), other: (&Address, &Address)) -> bool {
    rule!(one == (other.1, other.0))
}

/// Everything that is open between a command and its answer. A NIC has one only meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) transmits: VecDeque<Transmit>,
    waits: BTreeMap<(Address, WaitId), Timestamp>,
    requests: BTreeMap<RequestId, Request>,
    /// Requests by the name that their client gives them.
    clients: BTreeMap<(HostAddress, ConnectionNumber), RequestId>,
    /// Requests that met no wait and are kept for a while, oldest first for each address.
    held: BTreeSet<(Address, RequestId)>,
    attempts: BTreeMap<ConnectionNumber, Attempt>,
    /// Attempts of peers: own address, address asked for, number.
    peer_attempts: BTreeSet<(Address, Address, ConnectionNumber)>,
    /// Requests of peers for which nobody has asked here: address asked for, peer's own, request.
    peer_requests: BTreeSet<(Address, Address, RequestId)>,
    /// VIs whose deferred sends may be able to start.
    pub(crate) ready: VecDeque<ViId>,
    deadlines: BTreeMap<(Timestamp, u32), Timer>,
}

/// A client's request, at the server.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) host: HostAddress,
    pub(crate) vi: ViId,
    pub(crate) connection: ConnectionNumber,
    pub(crate) client: Address,
    pub(crate) asked: Address,
    pub(crate) attributes: RemoteViAttributes,
    pub(crate) phase: RequestPhase,
    pub(crate) kept: Kept,
}

/// For how long a request is kept that nobody has met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kept {
    Until(Timestamp),
    /// Of a peer: until it is withdrawn.
    AsPeer,
}

impl Request {
    /// Until when a client's is kept that has met no wait.
    fn held_until(&self) -> Option<Timestamp> {
        match (self.phase, self.kept) {
            (RequestPhase::Waiting, Kept::Until(deadline)) => Some(deadline),
            _ => None,
        }
    }

    /// Takes a step, if there is one.
    pub(crate) fn step(&mut self, step: RequestStep) -> Option<RequestPhase> {
        let next = request_after(self.phase, step)?;
        self.phase = next;
        Some(next)
    }
}

/// A request of ours that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) vi: ViId,
    pub(crate) host: HostAddress,
    pub(crate) deadline: Timestamp,
    /// Of a peer: its own address and the one it asks for.
    pub(crate) peer: Option<Box<(Address, Address)>>,
}

/// Whose time is up.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    Wait(Address, WaitId),
    Held(RequestId),
    Attempt(ConnectionNumber),
}

/// Requests of clients that a NIC keeps for waits to come; one more is answered as if its time were
/// up.
const HELD_REQUESTS_MAX: usize = 1024;
/// Requests of peers that a NIC keeps until its own consumer asks; one more finds no match.
const HELD_PEERS_MAX: usize = 1 << 16;

impl Connections {
    pub(crate) fn is_idle(&self) -> bool {
        self.transmits.is_empty()
            && self.waits.is_empty()
            && self.requests.is_empty()
            && self.attempts.is_empty()
            && self.ready.is_empty()
    }

    pub(crate) fn send(&mut self, to: HostAddress, message: ConnectionMessage) {
        self.transmits.push_back(Transmit { to, message });
    }

    /// Tells a peer of one more posted receive, in the message that waits for it if there is one.
    pub(crate) fn send_posted(&mut self, peer: Peer, capacity: u32) {
        if let Some(Transmit {
            to,
            message:
                ConnectionMessage::ReceivesPosted {
                    connection,
                    capacities,
                    ..
                },
        }) = self.transmits.back_mut()
            && (*to, *connection) == (peer.host, peer.connection)
        {
            capacities.push(capacity);
            return;
        }
        self.send(
            peer.host,
            ConnectionMessage::ReceivesPosted {
                vi: peer.vi,
                connection: peer.connection,
                capacities: alloc::vec![capacity],
            },
        );
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines
            .first_key_value()
            .map(|((deadline, _), _)| *deadline)
    }

    /// Takes a timer whose time has come.
    pub(crate) fn expired(&mut self, now: Timestamp) -> Option<Timer> {
        let entry = self
            .deadlines
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    fn set_deadline(&mut self, deadline: Timestamp, number: u32, timer: Timer) {
        if deadline != Timestamp::NEVER {
            self.deadlines.insert((deadline, number), timer);
        }
    }

    pub(crate) fn insert_wait(&mut self, local: Address, wait: WaitId, deadline: Timestamp) {
        self.set_deadline(deadline, wait.0, Timer::Wait(local.clone(), wait));
        self.waits.insert((local, wait), deadline);
    }

    /// Takes the oldest wait on an address.
    pub(crate) fn take_wait_on(&mut self, address: &Address) -> Option<WaitId> {
        let from = (address.clone(), WaitId(0));
        let ((found, wait), _) = self.waits.range(from..).next()?;
        if !meets(address, found) {
            return None;
        }
        let wait = *wait;
        self.take_wait(address.clone(), wait);
        Some(wait)
    }

    /// Takes a wait; whether it was there.
    pub(crate) fn take_wait(&mut self, local: Address, wait: WaitId) -> bool {
        let Some(deadline) = self.waits.remove(&(local, wait)) else {
            return false;
        };
        self.deadlines.remove(&(deadline, wait.0));
        true
    }

    /// Takes a wait by its name alone; whether it was there.
    pub(crate) fn cancel_wait(&mut self, wait: WaitId) -> bool {
        let found = self.waits.keys().find(|(_, id)| *id == wait).cloned();
        found.is_some_and(|(local, wait)| self.take_wait(local, wait))
    }

    pub(crate) fn knows_client(&self, host: HostAddress, connection: ConnectionNumber) -> bool {
        self.clients.contains_key(&(host, connection))
    }

    pub(crate) fn may_hold(&self) -> bool {
        self.held.len() < HELD_REQUESTS_MAX
    }

    pub(crate) fn may_hold_peer(&self) -> bool {
        self.peer_requests.len() < HELD_PEERS_MAX
    }

    /// Takes the oldest request of a peer that matches an attempt from `local` to `remote`.
    pub(crate) fn take_peer_request(
        &mut self,
        local: &Address,
        remote: &Address,
    ) -> Option<Request> {
        let from = (local.clone(), remote.clone(), RequestId(0));
        let (asked, own, id) = self.peer_requests.range(from..).next()?;
        if !are_peers((local, remote), (own, asked)) {
            return None;
        }
        let id = *id;
        self.take_request(id)
    }

    /// Takes our oldest attempt that matches a request of a peer; never that request's own, which
    /// a NIC that asks for its own address hears.
    pub(crate) fn take_peer_attempt(
        &mut self,
        request: &Request,
    ) -> Option<(ConnectionNumber, Attempt)> {
        let from = (
            request.asked.clone(),
            request.client.clone(),
            ConnectionNumber(0),
        );
        let is_own = |number: ConnectionNumber| {
            request.asked == request.client
                && self
                    .attempts
                    .get(&number)
                    .is_some_and(|attempt| (attempt.vi, number) == (request.vi, request.connection))
        };
        let number = self
            .peer_attempts
            .range(from..)
            .take_while(|(local, remote, _)| {
                are_peers((local, remote), (&request.client, &request.asked))
            })
            .map(|(_, _, number)| *number)
            .find(|number| !is_own(*number))?;
        self.take_attempt(number).map(|attempt| (number, attempt))
    }

    pub(crate) fn insert_request(&mut self, id: RequestId, request: Request) {
        if let Some(deadline) = request.held_until() {
            self.set_deadline(deadline, id.0, Timer::Held(id));
            self.held.insert((request.asked.clone(), id));
        }
        if request.kept == Kept::AsPeer {
            let key = (request.asked.clone(), request.client.clone(), id);
            self.peer_requests.insert(key);
        }
        self.clients.insert((request.host, request.connection), id);
        self.requests.insert(id, request);
    }

    /// The oldest kept request for an address; it counts as offered from here on.
    pub(crate) fn offer_held(&mut self, address: &Address) -> Option<(RequestId, &Request)> {
        let from = (address.clone(), RequestId(0));
        let id = self
            .held
            .range(from..)
            .next()
            .filter(|(asked, _)| meets(asked, address))?
            .1;
        let request = self.requests.get_mut(&id)?;
        let held_until = request.held_until();
        request.step(RequestStep::Meet)?;
        if let Some(deadline) = held_until {
            self.deadlines.remove(&(deadline, id.0));
        }
        self.held.remove(&(request.asked.clone(), id));
        Some((id, request))
    }

    pub(crate) fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(&id)
    }

    pub(crate) fn take_request(&mut self, id: RequestId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        self.clients.remove(&(request.host, request.connection));
        if let Some(deadline) = request.held_until() {
            self.deadlines.remove(&(deadline, id.0));
            self.held.remove(&(request.asked.clone(), id));
        }
        if request.kept == Kept::AsPeer {
            let key = (request.asked.clone(), request.client.clone(), id);
            self.peer_requests.remove(&key);
        }
        Some(request)
    }

    /// The client of a request is gone.
    pub(crate) fn withdraw(&mut self, host: HostAddress, connection: ConnectionNumber) {
        let Some(id) = self.clients.get(&(host, connection)).copied() else {
            return;
        };
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        let is_known = request.phase != RequestPhase::Waiting;
        let next = request_after(request.phase, RequestStep::Withdraw);
        match next {
            // The consumer learns it at its answer.
            Some(next) if is_known => request.phase = next,
            Some(_) => drop(self.take_request(id)),
            None => {}
        }
    }

    /// Every request of a host's clients is withdrawn.
    pub(crate) fn withdraw_host(&mut self, host: HostAddress) {
        let range = (host, ConnectionNumber(0))..=(host, ConnectionNumber(u32::MAX));
        let numbers: Vec<_> = self
            .clients
            .range(range)
            .map(|((_, number), _)| *number)
            .collect();
        numbers
            .into_iter()
            .for_each(|number| self.withdraw(host, number));
    }

    pub(crate) fn insert_attempt(&mut self, connection: ConnectionNumber, attempt: Attempt) {
        self.set_deadline(attempt.deadline, connection.0, Timer::Attempt(connection));
        if let Some(pair) = &attempt.peer {
            let key = (pair.0.clone(), pair.1.clone(), connection);
            self.peer_attempts.insert(key);
        }
        self.attempts.insert(connection, attempt);
    }

    /// Takes the attempt that a message from `host` answers.
    pub(crate) fn answered(
        &mut self,
        connection: ConnectionNumber,
        host: HostAddress,
    ) -> Option<Attempt> {
        self.attempts
            .get(&connection)
            .filter(|attempt| attempt.host == host)?;
        self.take_attempt(connection)
    }

    pub(crate) fn attempt(&self, connection: ConnectionNumber) -> Option<&Attempt> {
        self.attempts.get(&connection)
    }

    pub(crate) fn take_attempt(&mut self, connection: ConnectionNumber) -> Option<Attempt> {
        let attempt = self.attempts.remove(&connection)?;
        self.deadlines.remove(&(attempt.deadline, connection.0));
        if let Some(pair) = &attempt.peer {
            let key = (pair.0.clone(), pair.1.clone(), connection);
            self.peer_attempts.remove(&key);
        }
        Some(attempt)
    }

    /// Takes every attempt to reach a host, or every one.
    pub(crate) fn take_attempts_to(&mut self, host: Option<HostAddress>) -> Vec<Attempt> {
        let to_host = |(_, attempt): &(&ConnectionNumber, &Attempt)| {
            host.is_none_or(|host| attempt.host == host)
        };
        let numbers: Vec<_> = self
            .attempts
            .iter()
            .filter(to_host)
            .map(|(number, _)| *number)
            .collect();
        numbers
            .into_iter()
            .filter_map(|number| self.take_attempt(number))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [RequestPhase; 8] = [
        RequestPhase::Waiting,
        RequestPhase::Offered,
        RequestPhase::Connected,
        RequestPhase::Rejected,
        RequestPhase::Unmatched,
        RequestPhase::TimedOut,
        RequestPhase::Withdrawn,
        RequestPhase::Unreachable,
    ];
    const STEPS: [RequestStep; 8] = [
        RequestStep::Meet,
        RequestStep::Lapse,
        RequestStep::Accept,
        RequestStep::Reject,
        RequestStep::Expire,
        RequestStep::Withdraw,
        RequestStep::LoseServer,
        RequestStep::CutOff,
    ];

    #[test]
    fn a_request_ends_once_and_its_asker_is_told_of_every_end_but_its_own() {
        for phase in PHASES {
            let is_open = matches!(phase, RequestPhase::Waiting | RequestPhase::Offered);
            for step in STEPS {
                match request_after(phase, step) {
                    // Only the server's answer comes after an end, and changes nothing.
                    Some(next) if !is_open => {
                        assert_eq!((phase, next), (RequestPhase::Withdrawn, phase), "{step:?}");
                    }
                    Some(next) => assert_ne!(next, phase, "{step:?}"),
                    None => {}
                }
            }
            let is_silent =
                is_open || matches!(phase, RequestPhase::Connected | RequestPhase::Withdrawn);
            assert_eq!(failure_told(phase).is_none(), is_silent, "{phase:?}");
        }
    }

    #[test]
    fn an_answer_needs_an_offer() {
        for answer in [RequestStep::Accept, RequestStep::Reject] {
            assert_eq!(request_after(RequestPhase::Waiting, answer), None);
            let late = request_after(RequestPhase::Withdrawn, answer);
            assert_eq!(late, Some(RequestPhase::Withdrawn));
        }
        let lost = |phase| request_after(phase, RequestStep::LoseServer);
        assert_eq!(lost(RequestPhase::Waiting), Some(RequestPhase::Unmatched));
        assert_eq!(lost(RequestPhase::Offered), Some(RequestPhase::TimedOut));
    }
}
