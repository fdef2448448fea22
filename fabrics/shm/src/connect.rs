//! Connecting, client-server and peer-to-peer.
//!
//! Both ends meet on a socket (see [`crate::rendezvous`]), agree there on a link and a channel, and
//! connect their VIs to it. A caller does all of this in its own thread, and sleeps on descriptors
//! while it waits.
//!
//! ```text
//!   client                       server
//!                                connect_wait: bind, sleep
//!   connect_request: Request -->
//!                            <-- Taken            connect_wait returns
//!                            <-- Accept (channel) connect_accept
//!   Established              -->
//!   connect_request returns      connect_accept returns
//! ```
//!
//! The socket becomes the link when the two processes have none; otherwise it is closed. A VI is
//! connected before its end says so to its program, and is told by [`Link::attach`] what the peer
//! did meanwhile.

mod handshake;
mod line;
mod peers;
mod waiters;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::EventfdFlags;
use viaduct_provider::via::connection::{RequestPhase, RequestStep, request_after};
use viaduct_provider::via::{Address, ProtectionTag, RemoteViAttributes, ViAttributes, check};
use viaduct_provider::{ConnectionHandle, Error, IncomingRequest, Result, ReturnCode};

use self::handshake::{Failure, ended};
use self::line::Line;
use self::peers::PeerAttempt;
use self::waiters::Waiters;
use crate::deadline::Deadline;
use crate::host::Host;
use crate::link::Link;
pub(crate) use crate::link::{CloseReason, Side};
use crate::meeting;
use crate::regions::RegionTable;
use crate::regions::remote::RemoteRegionTable;
use crate::rendezvous::{self, Place};
use crate::service::locked;
use crate::wire::{DISCRIMINATOR_BYTES_MAX, EndFacts, Handshake, Request};

/// A VI, as connecting and links see it. Called without a lock of theirs.
pub(crate) trait Connectable: Send + Sync {
    /// What the peer is told, and what both ends are compared by.
    fn local_end(&self) -> LocalEnd;
    /// From idle to connect pending.
    ///
    /// # Errors
    ///
    /// `InvalidState` from any other state.
    fn begin_pending(&self) -> Result<()>;
    /// Back to idle, if it is still connect pending.
    fn cancel_pending(&self);
    /// From connect pending to connected.
    ///
    /// # Errors
    ///
    /// `InvalidState` when it is not pending any more: the connection is closed again then.
    fn connect(&self, end: ChannelEnd, remote: RemoteEnd) -> Result<()>;
    /// The peer has left this connection. Once it returns the channel's block is not touched any
    /// more; there is no need to close the channel. Nothing for an earlier connection.
    fn peer_closed(&self, connection: u64, reason: CloseReason);
    /// The peer asks to have its slots looked at.
    fn kicked(&self);
    /// The peer has something for the program to know.
    fn peer_event(&self, code: u8, operation: u32);
}

/// A VI that is to be connected.
#[derive(Clone, Debug)]
pub(crate) struct LocalEnd {
    /// Its attributes.
    pub(crate) attributes: ViAttributes,
    /// Its NIC.
    pub(crate) nic: u64,
    /// Its handle.
    pub(crate) vi: u64,
    /// What trusted peers read of the NIC's regions.
    pub(crate) regions: Option<Arc<RegionTable>>,
}

impl LocalEnd {
    fn facts(&self) -> EndFacts {
        EndFacts {
            attributes: self.attributes.for_peer(),
            nic: self.nic,
            tag: self.attributes.tag.bits(),
            regions: self.regions.is_some(),
        }
    }

    /// Whether it can be connected with a VI like this.
    fn match_with(&self, remote: &RemoteViAttributes) -> Result<()> {
        Ok(check::ends_match(&self.attributes, remote)?)
    }
}

/// This end of a connection's channel.
#[derive(Debug)]
pub(crate) struct ChannelEnd {
    /// The shared block, `channel::BLOCK_BYTES` long, all zeros; mapped while the link is held.
    pub(crate) block: NonNull<u8>,
    /// Which end of it.
    pub(crate) side: Side,
    /// The link; `close` it with the two numbers below.
    pub(crate) link: Arc<Link>,
    /// The channel's number on the link.
    pub(crate) channel: u32,
    /// Which of the channel's connections; never 0.
    pub(crate) connection: u64,
}

// SAFETY: the block is memory of the link, which goes along; no reference to it is formed here.
unsafe impl Send for ChannelEnd {}

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct RemoteEnd {
    /// The VI's attributes.
    pub(crate) attributes: RemoteViAttributes,
    /// The VI's protection tag.
    pub(crate) tag: u32,
    /// The region table of its NIC, on a trusted link. Untrusted content.
    pub(crate) regions: Option<Arc<RemoteRegionTable>>,
}

impl RemoteEnd {
    /// The VI there, as far as the rules ask about it.
    pub(crate) const fn as_vi(&self) -> ViAttributes {
        let RemoteViAttributes {
            reliability,
            max_transfer_bytes,
            rdma_write,
            rdma_read,
            quality_of_service,
            extensions,
        } = self.attributes;
        ViAttributes {
            reliability,
            max_transfer_bytes,
            tag: ProtectionTag::from_bits(self.tag),
            rdma_write,
            rdma_read,
            quality_of_service,
            extensions,
        }
    }
}

/// What a process is about to connect.
#[derive(Default)]
pub(crate) struct Connections {
    waiters: Waiters,
    incoming: Mutex<BTreeMap<u64, Incoming>>,
    last_incoming: AtomicU64,
    /// Requests under way, by VI.
    attempts: Mutex<BTreeMap<u64, Arc<Bell>>>,
    peers: Mutex<BTreeMap<u64, Arc<PeerAttempt>>>,
}

/// A request that was shown to the program.
struct Incoming {
    nic: u64,
    line: Line,
    request: Request,
}

/// Something that wakes a thread out of `poll`, and stays rung.
#[derive(Debug)]
struct Bell(OwnedFd);

impl Bell {
    fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    fn ring(&self) {
        // Fails only when the counter is full: then it rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Whether it rang; from here on it is silent.
    fn silence(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl Host {
    /// Waits for a request to `local`.
    ///
    /// # Errors
    ///
    /// `Timeout`; `InvalidParameter` for an address that is not of this host or too long;
    /// `Resource` when another process waits there.
    pub(crate) fn connect_wait(
        &'static self,
        nic: u64,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        check::address_is_legal(local, DISCRIMINATOR_LIMIT_BYTES)?;
        if local.host != self.address() {
            return Err(invalid(
                "requests can be waited for on this host's own address only",
            ));
        }
        let deadline = Deadline::after(limit);
        let connections = &self.connections;
        loop {
            let (line, request) = connections.waiters.wait(self, nic, local, deadline)?;
            // A client that left in the meantime is none.
            if request_after(RequestPhase::Waiting, RequestStep::Meet).is_none()
                || handshake::say(&line, &Handshake::Taken).is_err()
            {
                continue;
            }
            let number = connections.last_incoming.fetch_add(1, Ordering::Relaxed) + 1;
            let Some(connection) = ConnectionHandle::from_bits(number) else {
                continue;
            };
            let shown = IncomingRequest {
                connection,
                remote: request.local.clone(),
                attributes: request.end.attributes,
            };
            let incoming = Incoming { nic, line, request };
            locked(&connections.incoming).insert(number, incoming);
            return Ok(shown);
        }
    }

    /// Connects an idle VI with whoever made the request.
    ///
    /// # Errors
    ///
    /// What differs between the ends, or `InvalidState`: the request stays open. `Timeout` when
    /// the client is gone, `Resource`: it is gone, too.
    pub(crate) fn connect_accept(
        &'static self,
        connection: ConnectionHandle,
        vi: &Arc<dyn Connectable>,
    ) -> Result<()> {
        let number = connection.bits();
        let incoming = locked(&self.connections.incoming)
            .remove(&number)
            .ok_or_else(no_such_request)?;
        let keep = |incoming, error| {
            locked(&self.connections.incoming).insert(number, incoming);
            Err(error)
        };
        if let Err(error) = vi.begin_pending() {
            return keep(incoming, error);
        }
        let remote = &incoming.request.end.attributes;
        if let Err(error) = vi.local_end().match_with(remote) {
            vi.cancel_pending();
            return keep(incoming, error);
        }
        let Incoming { line, request, .. } = incoming;
        handshake::answer(self, line, &request, vi).map_err(|failure| {
            vi.cancel_pending();
            failure.into_error()
        })
    }

    /// Refuses a request.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` for a request that was answered.
    pub(crate) fn connect_reject(&self, connection: ConnectionHandle) -> Result<()> {
        let incoming = locked(&self.connections.incoming).remove(&connection.bits());
        let incoming = incoming.ok_or_else(no_such_request)?;
        incoming.reject();
        Ok(())
    }

    /// Asks for a connection and waits for the answer.
    ///
    /// # Errors
    ///
    /// `InvalidParameter`, `InvalidState`, `NoMatch` at once, `Timeout`, `Reject`, `NotReachable`,
    /// `Resource`. The VI is idle then.
    pub(crate) fn connect_request(
        &'static self,
        vi: &Arc<dyn Connectable>,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        check_request(local, remote, limit)?;
        let deadline = Deadline::after(limit);
        let bell = Arc::new(Bell::new().map_err(|error| resource(&error))?);
        vi.begin_pending()?;
        let number = vi.local_end().vi;
        locked(&self.connections.attempts).insert(number, bell.clone());
        let result = self.ask_server(vi, local, remote, deadline, &bell);
        locked(&self.connections.attempts).remove(&number);
        result.map_err(|failure| {
            vi.cancel_pending();
            failure.into_error()
        })
    }

    fn ask_server(
        &'static self,
        vi: &Arc<dyn Connectable>,
        local: &Address,
        remote: &Address,
        deadline: Deadline,
        bell: &Bell,
    ) -> std::result::Result<RemoteViAttributes, Failure> {
        let is_own = remote.host == self.address();
        // Others can be met in a shared directory only.
        if !is_own && matches!(self.place(), Place::Abstract(_)) {
            return Err(ended(RequestPhase::Waiting, RequestStep::CutOff));
        }
        let name = meeting::server(remote);
        match rendezvous::connect(self.place(), name, deadline, || bell.silence())? {
            None if is_own => Err(ended(RequestPhase::Waiting, RequestStep::Lapse)),
            None => Err(ended(RequestPhase::Waiting, RequestStep::CutOff)),
            Some(socket) => {
                let ask = handshake::Ask {
                    local,
                    remote,
                    peer_to_peer: false,
                };
                handshake::ask(self, Line::new(socket), vi, &ask, deadline, bell)
            }
        }
    }

    /// Ends what a VI has begun with `connect_request` or `connect_peer_request` and forgets its
    /// outcome. For disconnecting and destroying VIs; nothing for one that has begun nothing.
    pub(crate) fn connect_cancel(&self, vi: u64) {
        if let Some(bell) = locked(&self.connections.attempts).get(&vi) {
            bell.ring();
        }
        if let Some(attempt) = locked(&self.connections.peers).remove(&vi) {
            attempt.cancel();
        }
    }
}

impl Connections {
    /// Nobody waits on this NIC any more, and its open requests are rejected.
    pub(crate) fn retire_nic(&self, nic: u64) {
        self.waiters.retire_nic(nic);
        locked(&self.incoming).retain(|_, incoming| {
            if incoming.nic == nic {
                incoming.reject();
            }
            incoming.nic != nic
        });
    }
}

impl Incoming {
    fn reject(&self) {
        let phase = handshake::phase_of_shown(&self.line);
        if request_after(phase, RequestStep::Reject) == Some(RequestPhase::Rejected) {
            // It may have left in this moment.
            let _ = handshake::say(&self.line, &Handshake::Reject);
        }
    }
}

fn check_request(local: &Address, remote: &Address, limit: Option<Duration>) -> Result<()> {
    let has_time = limit.is_none_or(|limit| !limit.is_zero());
    check::request_is_legal([local, remote], DISCRIMINATOR_LIMIT_BYTES, has_time)?;
    Ok(())
}

const DISCRIMINATOR_LIMIT_BYTES: u16 = DISCRIMINATOR_BYTES_MAX as u16;

fn invalid(reason: &'static str) -> Error {
    Error::new(ReturnCode::InvalidParameter, reason)
}

fn no_such_request() -> Error {
    invalid("no open connection request has this handle: it was answered, or never was")
}

fn resource(error: &io::Error) -> Error {
    Error::new(
        ReturnCode::Resource,
        format!("the system refuses what a connection needs: {error}"),
    )
}

#[cfg(test)]
mod tests;
