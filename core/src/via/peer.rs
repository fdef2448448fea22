//! Connecting peer to peer: each asks for the other, either may come first.
//!
//! A peer is connected when it has asked and was asked, so one message from each is enough. Both
//! see the same attributes and take the same decision. A peer that gives up withdraws; where that
//! crosses the other's connecting, the other's connection is lost at once.

use alloc::boxed::Box;

use crate::address::{Address, HostAddress};
use crate::connection::{RequestPhase, RequestStep, request_after};
use crate::ids::{ConnectionNumber, RequestId};
use crate::ids::{Peer, ViId};
use crate::time::{Timespan, Timestamp};
use crate::via::check;
use crate::via::error::ConnectError;
use crate::via::error::ConnectFailure;
use crate::via::event::Event;
use crate::via::messages::ConnectionMessage;
use crate::via::nic::Nic;
use crate::via::open::{Attempt, Request};
use crate::via::outcome;
use crate::via::transition::Transition;
use crate::via::vi::Connection;

impl Nic {
    /// Asks for a connection from an idle VI to a peer that asks for this one.
    ///
    /// VIA, peer-to-peer: each end names both addresses, and a match needs them crossed. Ends with
    /// [`Event::Connected`] or [`Event::ConnectFailed`]; or without an event by
    /// [`disconnect`](Self::disconnect). A request of a peer never meets a wait.
    ///
    /// # Errors
    /// No such VI, a VI that is not idle, a time limit of zero, a discriminator too long.
    pub fn connect_peer_request(
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
        self.change_connection(vi, Transition::Ask, Connection::Pending(connection));
        let connections = self.connections.get_or_insert_default();
        let waiting = connections.take_peer_request(&local, &remote);
        connections.send(
            host,
            ConnectionMessage::PeerRequest {
                vi,
                connection,
                local: local.clone(),
                remote: remote.clone(),
                attributes,
            },
        );
        match waiting {
            Some(request) => self.connect_peers(vi, connection, &request),
            None => connections.insert_attempt(
                connection,
                Attempt {
                    vi,
                    host,
                    deadline: now.after(timeout),
                    peer: Some(Box::new((local, remote))),
                },
            ),
        }
        Ok(())
    }

    /// A peer has asked: for an attempt of ours, or for one to come.
    pub(crate) fn handle_peer_request(&mut self, mut request: Request) {
        let id = RequestId(self.next_number());
        let connections = self.connections.get_or_insert_default();
        // The address asked from must be the asker's: a third host must not be able to step in.
        let is_known = connections.knows_client(request.host, request.connection);
        if is_known || request.client.host != request.host {
            return;
        }
        if let Some((number, attempt)) = connections.take_peer_attempt(&request) {
            self.connect_peers(attempt.vi, number, &request);
        } else if connections.may_hold_peer() {
            connections.insert_request(id, request);
        } else if request.step(RequestStep::Lapse).is_some() {
            let to = request.connection;
            connections.send(request.host, ConnectionMessage::NoMatch { to });
        }
    }

    /// Both have asked: they fit, or both fail.
    fn connect_peers(&mut self, id: ViId, local: ConnectionNumber, request: &Request) {
        let Some(vi) = self.vis.get(id.0) else {
            return;
        };
        let met = request_after(request.phase, RequestStep::Meet)
            .and_then(|met| request_after(met, RequestStep::Accept));
        if met != Some(RequestPhase::Connected) {
            return;
        }
        match check::ends_match(&vi.attributes, &request.attributes) {
            Ok(()) => {
                let peer = Peer {
                    host: request.host,
                    vi: request.vi,
                    connection: request.connection,
                };
                let attributes = request.attributes;
                self.establish(id, local, peer, attributes);
                self.report(Event::Connected { vi: id, attributes });
                self.announce_receives(id);
            }
            Err(difference) => self.fail_attempt(id, ConnectFailure::Differs(difference)),
        }
    }

    /// Whoever asked has given up: its request is forgotten. A peer that was just connected to it
    /// loses the connection, and withdraws what it asked for in turn.
    pub(crate) fn handle_withdraw(&mut self, from: HostAddress, connection: ConnectionNumber) {
        if let Some(connections) = &mut self.connections
            && connections.knows_client(from, connection)
        {
            connections.withdraw(from, connection);
            return;
        }
        let connected = self.vis.iter().find_map(|(key, vi)| match vi.connection {
            Connection::Up { local, peer }
                if (peer.host, peer.connection) == (from, connection) =>
            {
                Some((ViId(key), local))
            }
            _ => None,
        });
        if let Some((vi, connection)) = connected {
            self.transmit(from, ConnectionMessage::Withdraw { connection });
            self.lose_connection(vi, outcome::peer_disconnected());
        }
    }
}
