//! Connecting and disconnecting, client and server. Peers are in `peer.rs`, what ends a connection
//! from outside is in `breaking.rs`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::address::{Address, HostAddress};
use crate::connection::{RequestPhase, RequestStep, request_after};
use crate::ids::{ConnectionNumber, RequestId, WaitId};
use crate::ids::{Peer, ViId};
use crate::time::{Timespan, Timestamp};
use crate::via::attributes::RemoteViAttributes;
use crate::via::check;
use crate::via::error::ConnectError;
use crate::via::error::ConnectFailure;
use crate::via::event::Event;
use crate::via::ledger::Ledger;
use crate::via::matching::failure_told;
use crate::via::messages::{ConnectionMessage, Transmit};
use crate::via::nic::Nic;
use crate::via::open::{Attempt, Kept, Request, Timer};
use crate::via::outcome::{self, Outcome};
use crate::via::state::ViState;
use crate::via::transition::{self, Transition};
use crate::via::vi::{Connection, Vi};

impl Nic {
    /// Waits for one client that asks for exactly `local`.
    ///
    /// Ends with [`Event::ConnectionRequested`] or [`Event::WaitTimedOut`]. Any number of waits may
    /// be open, on the same address or others; a request goes to the oldest wait on its address.
    ///
    /// # Errors
    /// [`ConnectError::DiscriminatorTooLong`].
    pub fn connect_wait(
        &mut self,
        local: Address,
        now: Timestamp,
        timeout: Timespan,
    ) -> Result<WaitId, ConnectError> {
        check::address_is_legal(&local, self.attributes.max_discriminator_bytes)?;
        let wait = WaitId(self.next_number());
        let connections = self.connections.get_or_insert_default();
        match connections.offer_held(&local) {
            Some((id, request)) => {
                let event = requested(wait, id, request);
                self.report(event);
            }
            None => connections.insert_wait(local, wait, now.after(timeout)),
        }
        Ok(wait)
    }

    /// Ends a wait without an event. False if it had ended.
    pub fn cancel_wait(&mut self, wait: WaitId) -> bool {
        self.connections
            .as_mut()
            .is_some_and(|connections| connections.cancel_wait(wait))
    }

    /// Asks for a connection from an idle VI to whoever waits on `remote`.
    ///
    /// Ends with [`Event::Connected`] or [`Event::ConnectFailed`], the latter at once when nobody
    /// waits there; or without an event by [`disconnect`](Self::disconnect).
    ///
    /// # Errors
    /// No such VI, a VI that is not idle, a time limit of zero, a discriminator too long.
    pub fn connect_request(
        &mut self,
        vi: ViId,
        local: Address,
        remote: Address,
        now: Timestamp,
        timeout: Timespan,
    ) -> Result<(), ConnectError> {
        let limit_bytes = self.attributes.max_discriminator_bytes;
        let has_time = timeout != Timespan::ZERO;
        check::request_is_legal([&local, &remote], limit_bytes, has_time)?;
        let attributes = self.idle_vi(vi)?.attributes.for_peer();
        let connection = self.next_connection();
        let host = remote.host;
        let connections = self.connections.get_or_insert_default();
        connections.insert_attempt(
            connection,
            Attempt {
                vi,
                host,
                deadline: now.after(timeout),
                peer: None,
            },
        );
        let request = ConnectionMessage::Request {
            vi,
            connection,
            local,
            remote,
            attributes,
        };
        connections.send(host, request);
        self.change_connection(vi, Transition::Ask, Connection::Pending(connection));
        Ok(())
    }

    /// Accepts a client's request with an idle VI, which is connected from here on.
    ///
    /// VIA, connection set-up: reliability level, largest message and quality of service must be
    /// equal at both ends. On a refusal nothing is sent, the client waits on, and the request can
    /// be accepted with a VI that fits, or rejected.
    ///
    /// # Errors
    /// No such request or VI, a VI that is not idle, attributes that differ;
    /// [`ConnectError::RequestWithdrawn`] if the client gave up, which ends the request.
    pub fn accept(&mut self, request: RequestId, vi: ViId) -> Result<(), ConnectError> {
        let open = self.request(request)?;
        let (next, remote) = (
            request_after(open.phase, RequestStep::Accept),
            open.attributes,
        );
        match next {
            Some(RequestPhase::Connected) => {}
            Some(_) => {
                self.take_request(request);
                return Err(ConnectError::RequestWithdrawn);
            }
            None => return Err(ConnectError::UnknownRequest),
        }
        let attributes = self.idle_vi(vi)?.attributes;
        check::ends_match(&attributes, &remote)?;
        let attributes = attributes.for_peer();
        let Request {
            host,
            vi: client,
            connection: to,
            ..
        } = self
            .take_request(request)
            .ok_or(ConnectError::UnknownRequest)?;
        let connection = self.next_connection();
        let peer = Peer {
            host,
            vi: client,
            connection: to,
        };
        self.establish(vi, connection, peer, remote);
        self.transmit(
            host,
            ConnectionMessage::Accept {
                to,
                vi,
                connection,
                attributes,
            },
        );
        self.announce_receives(vi);
        Ok(())
    }

    /// Rejects a client's request.
    ///
    /// # Errors
    /// [`ConnectError::UnknownRequest`].
    pub fn reject(&mut self, request: RequestId) -> Result<(), ConnectError> {
        let open = self.request(request)?;
        let (host, to) = (open.host, open.connection);
        let next =
            request_after(open.phase, RequestStep::Reject).ok_or(ConnectError::UnknownRequest)?;
        self.take_request(request);
        if next == RequestPhase::Rejected {
            self.transmit(host, ConnectionMessage::Reject { to });
        }
        Ok(())
    }

    /// Leaves a client's request without an answer: whoever was to give one has died. The client
    /// waits until its time is up.
    ///
    /// # Errors
    /// [`ConnectError::UnknownRequest`].
    pub fn abandon(&mut self, request: RequestId) -> Result<(), ConnectError> {
        let taken = self.take_request(request);
        taken.map(drop).ok_or(ConnectError::UnknownRequest)
    }

    /// Makes a VI idle: ends its connection or its attempt, and flushes both queues.
    ///
    /// Legal in every state. Work under way is flushed too: a driver that still moves its bytes
    /// must have stopped before it calls this, since the consumer owns the buffers afterwards.
    ///
    /// # Errors
    /// [`ConnectError::UnknownVi`].
    pub fn disconnect(&mut self, vi: ViId) -> Result<(), ConnectError> {
        match self
            .vis
            .get(vi.0)
            .ok_or(ConnectError::UnknownVi)?
            .connection
        {
            Connection::Idle | Connection::Broken => {}
            Connection::Pending(connection) => {
                let attempt = self
                    .connections
                    .as_mut()
                    .and_then(|c| c.take_attempt(connection));
                let withdrawn = request_after(RequestPhase::Waiting, RequestStep::Withdraw);
                if let (Some(Attempt { host, .. }), Some(_)) = (attempt, withdrawn) {
                    self.transmit(host, ConnectionMessage::Withdraw { connection });
                }
            }
            Connection::Up { peer, .. } => self.transmit_disconnect(peer),
        }
        // Idle VIs are flushed too, so that taking completions until none is left always ends.
        self.change_connection(vi, Transition::Disconnect, Connection::Idle);
        Ok(())
    }

    /// A message of another NIC, or of this one to itself, has arrived.
    ///
    /// A message that fits nothing here is dropped, or answered so that its sender learns.
    pub fn handle_connection_message(
        &mut self,
        from: HostAddress,
        message: ConnectionMessage,
        now: Timestamp,
    ) {
        match message {
            ConnectionMessage::Request {
                vi,
                connection,
                local,
                remote,
                attributes,
            } => {
                let kept = Kept::Until(now.after(self.attributes.connect_grace));
                let (client, asked) = (local, remote);
                self.handle_request(Request {
                    host: from,
                    vi,
                    connection,
                    client,
                    asked,
                    attributes,
                    phase: RequestPhase::Waiting,
                    kept,
                });
            }
            ConnectionMessage::Accept {
                to,
                vi,
                connection,
                attributes,
            } => {
                self.handle_accept(
                    to,
                    Peer {
                        host: from,
                        vi,
                        connection,
                    },
                    attributes,
                );
            }
            ConnectionMessage::Reject { to } => {
                self.handle_refusal(to, from, RequestStep::Reject);
            }
            ConnectionMessage::NoMatch { to } => {
                self.handle_refusal(to, from, RequestStep::Lapse);
            }
            ConnectionMessage::Withdraw { connection } => {
                self.handle_withdraw(from, connection);
            }
            ConnectionMessage::Disconnect { vi, connection } => {
                if self.is_up(vi, from, connection) {
                    self.lose_connection(vi, outcome::peer_disconnected());
                }
            }
            ConnectionMessage::PeerRequest {
                vi,
                connection,
                local,
                remote,
                attributes,
            } => self.handle_peer_request(Request {
                host: from,
                vi,
                connection,
                client: local,
                asked: remote,
                attributes,
                phase: RequestPhase::Waiting,
                kept: Kept::AsPeer,
            }),
            ConnectionMessage::Broken {
                vi,
                connection,
                reason,
            } => self.handle_broken(from, vi, connection, reason),
            ConnectionMessage::ReceivesPosted {
                vi,
                connection,
                capacities,
            } => {
                if self.is_up(vi, from, connection) {
                    self.handle_receives_posted(vi, &capacities);
                }
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next, if ever.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.connections.as_ref()?.next_deadline()
    }

    /// Time has passed: ends every wait and attempt whose time is up.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(timer) = self.connections.as_mut().and_then(|c| c.expired(now)) {
            match timer {
                Timer::Wait(local, wait) => {
                    if self
                        .connections
                        .as_mut()
                        .is_some_and(|c| c.take_wait(local, wait))
                    {
                        self.report(Event::WaitTimedOut { wait });
                    }
                }
                Timer::Held(id) => {
                    if let Some(mut request) = self.take_request(id)
                        && request.step(RequestStep::Lapse).is_some()
                    {
                        let to = request.connection;
                        self.transmit(request.host, ConnectionMessage::NoMatch { to });
                    }
                }
                Timer::Attempt(connection) => {
                    let attempt = self
                        .connections
                        .as_mut()
                        .and_then(|c| c.take_attempt(connection));
                    if let Some(Attempt { vi, host, .. }) = attempt {
                        self.transmit(host, ConnectionMessage::Withdraw { connection });
                        self.end_attempt(vi, RequestPhase::Waiting, RequestStep::Expire);
                    }
                }
            }
        }
    }

    /// Takes the next message for the driver to carry.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.connections.as_mut()?.transmits.pop_front();
        // Nothing open: a NIC at work carries no memory for connecting.
        if transmit.is_none() && self.connections.as_ref().is_some_and(|c| c.is_idle()) {
            self.connections = None;
        }
        transmit
    }

    fn handle_request(&mut self, mut request: Request) {
        let id = RequestId(self.next_number());
        let grace = self.attributes.connect_grace;
        let connections = self.connections.get_or_insert_default();
        if connections.knows_client(request.host, request.connection) {
            return;
        }
        if let Some(wait) = connections.take_wait_on(&request.asked) {
            if request.step(RequestStep::Meet).is_none() {
                return;
            }
            let event = requested(wait, id, &request);
            connections.insert_request(id, request);
            self.report(event);
        } else if grace != Timespan::ZERO && connections.may_hold() {
            connections.insert_request(id, request);
        } else if request.step(RequestStep::Lapse).is_some() {
            let to = request.connection;
            connections.send(request.host, ConnectionMessage::NoMatch { to });
        }
    }

    fn handle_accept(&mut self, to: ConnectionNumber, peer: Peer, attributes: RemoteViAttributes) {
        let fits = |vi: &Vi| check::ends_match(&vi.attributes, &attributes).is_ok();
        let attempt = self.connections.as_ref().and_then(|c| c.attempt(to));
        let expected = attempt
            .filter(|a| a.host == peer.host && a.peer.is_none())
            .filter(|a| self.vis.get(a.vi.0).is_some_and(fits))
            .map(|a| a.vi);
        let is_legal = request_after(RequestPhase::Offered, RequestStep::Accept);
        let Some(vi) = expected.filter(|_| is_legal == Some(RequestPhase::Connected)) else {
            // The client gave up meanwhile, or the server breaks the rules: it is told.
            self.transmit_disconnect(peer);
            return;
        };
        if let Some(connections) = &mut self.connections {
            connections.take_attempt(to);
        }
        self.establish(vi, to, peer, attributes);
        self.report(Event::Connected { vi, attributes });
        self.announce_receives(vi);
    }

    fn handle_refusal(&mut self, to: ConnectionNumber, from: HostAddress, step: RequestStep) {
        if let Some(attempt) = self.connections.as_mut().and_then(|c| c.answered(to, from)) {
            let phase = match step {
                RequestStep::Reject => RequestPhase::Offered,
                _ => RequestPhase::Waiting,
            };
            self.end_attempt(attempt.vi, phase, step);
        }
    }

    /// An attempt ends by a step, and its consumer is told what the rules say of that.
    pub(crate) fn end_attempt(&mut self, vi: ViId, phase: RequestPhase, step: RequestStep) {
        if let Some(reason) = request_after(phase, step).and_then(failure_told) {
            self.fail_attempt(vi, reason);
        }
    }

    /// Receives stay posted: the consumer will try again.
    pub(crate) fn fail_attempt(&mut self, vi: ViId, reason: ConnectFailure) {
        self.change_connection(vi, Transition::Fail, Connection::Idle);
        self.report(Event::ConnectFailed { vi, reason });
    }

    fn transmit_disconnect(&mut self, peer: Peer) {
        let Peer {
            host,
            vi,
            connection,
        } = peer;
        self.transmit(host, ConnectionMessage::Disconnect { vi, connection });
    }

    pub(crate) fn transmit(&mut self, to: HostAddress, message: ConnectionMessage) {
        self.connections.get_or_insert_default().send(to, message);
    }

    /// A VI is connected from here on.
    pub(crate) fn establish(
        &mut self,
        vi: ViId,
        local: ConnectionNumber,
        peer: Peer,
        remote: RemoteViAttributes,
    ) {
        self.change_connection(vi, Transition::Establish, Connection::Up { local, peer });
        if let Some(vi) = self.vis.get_mut(vi.0) {
            let first_send = vi.sends.next_posted();
            vi.ledger = Ledger::new(&vi.attributes, &remote, first_send).map(Box::new);
        }
    }

    /// Tells a peer with flow control of the receives that were posted before the connection.
    pub(crate) fn announce_receives(&mut self, id: ViId) {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return;
        };
        if vi
            .ledger
            .as_ref()
            .is_some_and(|ledger| ledger.peer.flow_control)
        {
            let capacities: Vec<_> = vi
                .receives
                .unstarted_slots()
                .map(|slot| slot.descriptor.segments.total_bytes())
                .collect();
            for capacity in capacities {
                self.announce_receive(id, capacity);
            }
        }
    }

    /// Tells a peer with flow control of a posted receive.
    pub(crate) fn announce_receive(&mut self, vi: ViId, capacity: u64) {
        if let Some(peer) = self.peer(vi) {
            // No message is longer than a number of 32 bits.
            let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
            let connections = self.connections.get_or_insert_default();
            connections.send_posted(peer, capacity);
        }
    }

    fn handle_receives_posted(&mut self, vi: ViId, capacities: &[u32]) {
        let ledger = self.vis.get_mut(vi.0).and_then(|vi| vi.ledger.as_mut());
        if let Some(ledger) = ledger
            && ledger.local.flow_control
        {
            ledger.add_credits(capacities);
            if !core::mem::replace(&mut ledger.is_ready, true) {
                let connections = self.connections.get_or_insert_default();
                connections.ready.push_back(vi);
            }
        }
    }

    /// The only place where the state of a VI changes: to what the rules say, `connection` being
    /// what it knows there.
    pub(crate) fn change_connection(
        &mut self,
        id: ViId,
        transition: Transition,
        connection: Connection,
    ) {
        self.end_connection(id, transition, connection, outcome::peer_disconnected());
    }

    /// The same for a transition that ends a connection: both queues are flushed, what is under
    /// way as `outcome` says.
    pub(crate) fn end_connection(
        &mut self,
        id: ViId,
        transition: Transition,
        connection: Connection,
        outcome: Outcome,
    ) {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return;
        };
        vi.connection = match transition::next(vi.state(), transition) {
            Ok(ViState::Idle) => Connection::Idle,
            Ok(ViState::Error) => Connection::Broken,
            Ok(ViState::ConnectPending | ViState::Connected) => connection,
            Err(_) => return,
        };
        if vi.state() != ViState::Connected {
            vi.ledger = None;
        }
        if transition::flushes(transition) {
            self.flush(id, outcome);
        }
    }

    pub(crate) fn idle_vi(&self, vi: ViId) -> Result<&Vi, ConnectError> {
        let vi = self.vis.get(vi.0).ok_or(ConnectError::UnknownVi)?;
        let state = vi.state();
        match transition::next(state, Transition::Ask) {
            Ok(_) => Ok(vi),
            Err(_) => Err(ConnectError::InvalidState { state }),
        }
    }

    fn request(&self, id: RequestId) -> Result<&Request, ConnectError> {
        self.connections
            .as_ref()
            .and_then(|connections| connections.request(id))
            .ok_or(ConnectError::UnknownRequest)
    }

    fn take_request(&mut self, id: RequestId) -> Option<Request> {
        self.connections.as_mut()?.take_request(id)
    }
}

fn requested(wait: WaitId, id: RequestId, request: &Request) -> Event {
    Event::ConnectionRequested {
        wait,
        request: id,
        client: request.client.clone(),
        attributes: request.attributes,
    }
}
