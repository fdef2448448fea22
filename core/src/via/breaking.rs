//! Connections that end without their consumers' doing: errors that break them, transports that
//! fail, peers that leave.
//!
//! Whatever the cause, both queues of a VI are flushed in post order and its consumer is told once,
//! since a connection is up only once. What differs is the status of what was under way.

use alloc::vec::Vec;

use crate::address::HostAddress;
use crate::connection::{RequestPhase, RequestStep};
use crate::ids::ConnectionNumber;
use crate::ids::{Queue, ViId};
use crate::via::error_code::ErrorCode;
use crate::via::event::Event;
use crate::via::messages::{BreakReason, ConnectionMessage};
use crate::via::nic::{Nic, announce};
use crate::via::outcome::{self, Outcome};
use crate::via::status::Status;
use crate::via::transition::Transition;
use crate::via::vi::{Connection, Vi};

impl Nic {
    /// The transport under a VI's connection gave up: a loss that was not repaired, a link cut.
    ///
    /// At the reliable levels what was under way completes as `TRANSPORT_ERROR`. False, and
    /// without effect, if the VI is not connected.
    pub fn handle_transport_failure(&mut self, vi: ViId) -> bool {
        self.fail_transport(vi, true)
    }

    /// A host can no longer be reached, or its consumer is gone.
    ///
    /// Connections to it fail as by [`handle_transport_failure`](Self::handle_transport_failure),
    /// requests to it fail, requests from it are withdrawn. Tells how many connections that ended.
    pub fn handle_host_unreachable(&mut self, host: HostAddress) -> usize {
        if let Some(connections) = &mut self.connections {
            connections.withdraw_host(host);
            for attempt in connections.take_attempts_to(Some(host)) {
                self.end_attempt(attempt.vi, RequestPhase::Waiting, RequestStep::CutOff);
            }
        }
        self.fail_transports(Some(host))
    }

    /// The NIC is unusable (`VIP_ERROR_CATASTROPHIC`): every connection fails, as does every
    /// request, and nothing is said to anybody. What it holds can still be taken and destroyed.
    pub fn handle_catastrophe(&mut self) {
        self.report(Event::Catastrophic);
        if let Some(connections) = &mut self.connections {
            connections.transmits.clear();
            for attempt in connections.take_attempts_to(None) {
                self.end_attempt(attempt.vi, RequestPhase::Waiting, RequestStep::CutOff);
            }
        }
        self.fail_transports(None);
    }

    /// Fails every connection to `host`, or every one; its other end is not told. How many.
    fn fail_transports(&mut self, host: Option<HostAddress>) -> usize {
        let is_lost = |vi: &Vi| match &vi.connection {
            Connection::Up { peer, .. } => host.is_none_or(|host| peer.host == host),
            _ => false,
        };
        let lost: Vec<_> = self
            .vis
            .iter()
            .filter(|(_, vi)| is_lost(vi))
            .map(|(key, _)| ViId(key))
            .collect();
        for vi in &lost {
            self.fail_transport(*vi, false);
        }
        lost.len()
    }

    fn fail_transport(&mut self, id: ViId, tells_peer: bool) -> bool {
        let Some(vi) = self.vis.get(id.0) else {
            return false;
        };
        let Connection::Up { peer, .. } = vi.connection else {
            return false;
        };
        let outcome = outcome::transport_failed(vi.attributes.reliability);
        if tells_peer {
            self.transmit(
                peer.host,
                ConnectionMessage::Broken {
                    vi: peer.vi,
                    connection: peer.connection,
                    reason: BreakReason::Transport,
                },
            );
        }
        self.lose_to_transport(id, outcome);
        true
    }

    /// An incident breaks a connection here; the other end is told, with what its descriptor gets.
    ///
    /// `under_way` is what started work gets that has no status of its own.
    #[cold]
    pub(crate) fn break_connection(&mut self, id: ViId, reason: BreakReason, under_way: Status) {
        if let Some(peer) = self.peer(id) {
            let (vi, connection) = (peer.vi, peer.connection);
            self.transmit(
                peer.host,
                ConnectionMessage::Broken {
                    vi,
                    connection,
                    reason,
                },
            );
            self.lose_connection(id, all_under_way(under_way));
        }
    }

    /// The message that arrived last met with an error: what `outcome` says beside the receive.
    #[cold]
    pub(crate) fn suffer(&mut self, id: ViId, outcome: Outcome) {
        match outcome.event {
            Some(ErrorCode::ReceiveQueueEmpty) => self.report_drop(id),
            Some(code) => self.report_error(id, code),
            None => {}
        }
        if outcome.breaks {
            let ledger = self.vis.get(id.0).and_then(|vi| vi.ledger.as_deref());
            let reason = match ledger {
                Some(ledger) if outcome.sender.is_error() => BreakReason::Refused {
                    message: ledger.last_arrived(),
                    error: outcome.sender,
                },
                _ => BreakReason::Local,
            };
            self.break_connection(id, reason, Status::FLUSHED_ERROR);
        }
    }

    /// Bytes came to harm on their way, and `outcome` says that this breaks the connection.
    #[cold]
    pub(crate) fn suffer_damage(&mut self, id: ViId, outcome: Outcome) {
        if let Some(code) = outcome.event {
            self.report_error(id, code);
        }
        if outcome.breaks {
            self.break_connection(id, BreakReason::Transport, Status::TRANSPORT_ERROR);
        }
    }

    /// The other end says that the connection is over.
    pub(crate) fn handle_broken(
        &mut self,
        from: HostAddress,
        id: ViId,
        connection: ConnectionNumber,
        reason: BreakReason,
    ) {
        if !self.is_up(id, from, connection) {
            return;
        }
        match reason {
            BreakReason::Local => {
                self.lose_connection(id, all_under_way(Status::FLUSHED_ERROR));
            }
            BreakReason::Transport => {
                let level = self.vis.get(id.0).map(|vi| vi.attributes.reliability);
                if let Some(level) = level {
                    self.lose_to_transport(id, outcome::transport_failed(level));
                }
            }
            BreakReason::Refused { message, error } => {
                if let Some(vi) = self.vis.get_mut(id.0)
                    && let Some(ledger) = &vi.ledger
                    && let Some(slot) = vi.sends.under_way(ledger.send_of(message))
                {
                    // What the peer may say is an error, not that the send went well.
                    slot.finish_send(match error {
                        Status::RDMA_PROTECTION_ERROR | Status::TRANSPORT_ERROR => error,
                        _ => Status::REMOTE_DESCRIPTOR_ERROR,
                    });
                }
                self.lose_connection(id, all_under_way(Status::FLUSHED_ERROR));
            }
        }
    }

    /// Whether a VI is connected under this number to a VI of `from`.
    pub(crate) fn is_up(&self, id: ViId, from: HostAddress, connection: ConnectionNumber) -> bool {
        self.vis.get(id.0).is_some_and(|vi| {
            matches!(vi.connection, Connection::Up { local, peer }
                if local == connection && peer.host == from)
        })
    }

    fn lose_to_transport(&mut self, id: ViId, outcome: Outcome) {
        let is_rdma_hit = outcome.sender == Status::TRANSPORT_ERROR
            && self
                .vis
                .get(id.0)
                .is_some_and(|vi| vi.sends.has_remote_work_under_way());
        if is_rdma_hit {
            self.report_error(id, ErrorCode::RdmaTransport);
        }
        self.lose_connection(id, outcome);
    }

    /// VIA, connection states: a connection that ends without the consumer's doing leaves the VI
    /// in error, with both queues flushed.
    pub(crate) fn lose_connection(&mut self, id: ViId, outcome: Outcome) {
        if !outcome.breaks {
            return;
        }
        self.end_connection(id, Transition::Lose, Connection::Broken, outcome);
        if outcome.event == Some(ErrorCode::ConnectionLost) {
            self.report(Event::ConnectionLost { vi: id });
        }
    }

    /// Completes everything pending on both queues: as `outcome` says what was started, as flushed
    /// what was not.
    ///
    /// VIA, connection states: what was posted is given back in post order when the connection
    /// ends, each descriptor once, and bound completion queues tell of each.
    pub(crate) fn flush(&mut self, id: ViId, outcome: Outcome) {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return;
        };
        let sends = vi.sends.flush(Queue::Send, outcome.sender);
        let received = outcome.receive.unwrap_or(Status::PENDING);
        let receives = vi.receives.flush(Queue::Receive, received);
        let (send_queue, receive_queue) = (vi.send_completion_queue, vi.receive_completion_queue);
        for (bound, queue, completions) in [
            (send_queue, Queue::Send, sends),
            (receive_queue, Queue::Receive, receives),
        ] {
            announce(&mut self.completion_queues, bound, (id, queue), completions);
        }
    }
}

/// An incident here ends a connection: what is under way on either queue has the same status.
fn all_under_way(status: Status) -> Outcome {
    Outcome {
        sender: status,
        receive: Some(status),
        ..outcome::peer_disconnected()
    }
}
