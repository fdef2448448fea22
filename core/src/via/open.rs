//! What is still open of waits, requests and attempts to connect.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::address::{Address, HostAddress};
use crate::connection::{RequestPhase, RequestStep, request_after};
use crate::ids::{ConnectionNumber, Peer, RequestId, ViId, WaitId};
use crate::time::Timestamp;
use crate::via::attributes::RemoteViAttributes;
use crate::via::matching::{are_peers, meets};
use crate::via::messages::{ConnectionMessage, Transmit};

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
