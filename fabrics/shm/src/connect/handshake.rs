//! What two processes say to each other until their VIs are connected.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::RecvFlags;
use viaduct_provider::via::connection::{RequestPhase, RequestStep, request_after};
use viaduct_provider::via::matching::failure_told;
use viaduct_provider::via::{Address, ConnectError, ConnectFailure, RemoteViAttributes};
use viaduct_provider::{Error, ReturnCode};

use super::line::Line;
use super::{Bell, ChannelEnd, Connectable, LocalEnd, RemoteEnd};
use crate::cma;
use crate::deadline::Deadline;
use crate::host::{DOORBELL_BYTES, Host, random};
use crate::link::{
    self, CloseReason, Link, LinkParts, Mapping, POOLS_BYTES, PeerProcess, Side, map_peer,
};
use crate::segment::Segment;
use crate::wire::{self, Accept, Credentials, EndFacts, Handshake, Process, Request};

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request has ended, and this is what its asker is told.
    Ended(ConnectFailure),
    /// The asker is gone.
    Withdrawn,
    /// The program has ended the attempt.
    Cancelled,
    /// The VI refused.
    Refused(Error),
    /// The other side sent what no peer sends.
    Misbehaved,
    /// The system failed.
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => ended(RequestPhase::Offered, RequestStep::Expire),
            // The second when it had not read all that was said to it.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => server_is_gone(),
            io::ErrorKind::Interrupted => Self::Cancelled,
            _ => Self::System(error),
        }
    }
}

impl Failure {
    pub(super) fn into_error(self) -> Error {
        let (code, reason) = match self {
            Self::Ended(failure) => return failure.into(),
            Self::Withdrawn => return ConnectError::RequestWithdrawn.into(),
            Self::Cancelled => (
                ReturnCode::InvalidState,
                "the VI was disconnected while it was connecting",
            ),
            Self::Misbehaved => (
                ReturnCode::Timeout,
                "the other side broke off with a message that makes no sense",
            ),
            Self::Refused(error) => return error,
            Self::System(error) => return super::resource(&error),
        };
        Error::new(code, reason)
    }
}

/// What a request of this process comes to that has come so far, by a step.
pub(super) fn ended(phase: RequestPhase, step: RequestStep) -> Failure {
    match request_after(phase, step) {
        Some(RequestPhase::Withdrawn) => Failure::Cancelled,
        Some(next) => failure_told(next).map_or(Failure::Misbehaved, Failure::Ended),
        None => Failure::Misbehaved,
    }
}

/// The server has taken the request, and is gone.
fn server_is_gone() -> Failure {
    ended(RequestPhase::Offered, RequestStep::LoseServer)
}

/// Sends away somebody whose request is kept no longer, or is for nobody here.
pub(super) fn turn_away(socket: &OwnedFd) {
    if request_after(RequestPhase::Waiting, RequestStep::Lapse).is_some() {
        // Whoever is gone need not hear it.
        let _ = say(socket, &Handshake::NoMatch);
    }
}

/// How far a request has come that a program of this process was shown: its asker may be gone.
pub(super) fn phase_of_shown(socket: &OwnedFd) -> RequestPhase {
    let withdrawn = || request_after(RequestPhase::Offered, RequestStep::Withdraw);
    match is_there(socket) {
        true => RequestPhase::Offered,
        false => withdrawn().unwrap_or(RequestPhase::Offered),
    }
}

/// Sends a message.
pub(super) fn say(socket: &OwnedFd, message: &Handshake) -> io::Result<()> {
    wire::send(socket.as_fd(), message.packet().bytes(), &[])
}

/// What has come, if anything.
///
/// # Errors
///
/// `UnexpectedEof` when the other side is gone, `InvalidData` for garbage.
pub(super) fn hear(socket: &OwnedFd) -> io::Result<Option<(Handshake, Vec<OwnedFd>)>> {
    let mut buffer = [0; wire::MESSAGE_BYTES_MAX];
    match wire::receive(socket.as_fd(), &mut buffer) {
        Ok(received) if received.length == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(received) => match Handshake::parse(&buffer[..received.length]) {
            Ok(message) => Ok(Some((message, received.descriptors))),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Whether the other side is still there, or has left something to be read.
pub(super) fn is_there(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    match rustix::net::recv(socket, &mut [0_u8; 1], flags) {
        Ok((count, _)) => count > 0,
        Err(error) => error == rustix::io::Errno::AGAIN,
    }
}

/// A request under way.
pub(super) struct Ask<'a> {
    pub(super) local: &'a Address,
    pub(super) remote: &'a Address,
    pub(super) peer_to_peer: bool,
}

/// Asks over a fresh socket, and connects the VI, which is pending.
pub(super) fn ask(
    host: &'static Host,
    line: Line,
    vi: &Arc<dyn Connectable>,
    ask: &Ask<'_>,
    deadline: Deadline,
    bell: &Bell,
) -> Result<RemoteViAttributes, Failure> {
    let local = vi.local_end();
    let request = Handshake::Request(Request {
        peer_to_peer: ask.peer_to_peer,
        process: host.process(),
        end: local.facts(),
        local: ask.local.clone(),
        remote: ask.remote.clone(),
    });
    let mut phase = RequestPhase::Waiting;
    say(&line, &request).map_err(|_| ended(phase, RequestStep::LoseServer))?;
    loop {
        let mut sources = [
            PollFd::new(&*line, PollFlags::IN),
            PollFd::new(&bell.0, PollFlags::IN),
        ];
        if !wire::poll(&mut sources, deadline)? {
            return Err(ended(phase, RequestStep::Expire));
        }
        if bell.silence() {
            return Err(ended(phase, RequestStep::Withdraw));
        }
        let (message, descriptors) = match hear(&line) {
            Ok(Some(heard)) => heard,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(Failure::Misbehaved);
            }
            Err(_) => return Err(ended(phase, RequestStep::LoseServer)),
        };
        let follow = |phase, step| request_after(phase, step).ok_or(Failure::Misbehaved);
        // An answer says, too, that the request was met: between equals nothing else does.
        let answered = request_after(phase, RequestStep::Meet).unwrap_or(phase);
        match message {
            Handshake::Taken => phase = follow(phase, RequestStep::Meet)?,
            Handshake::Reject => return Err(ended(answered, RequestStep::Reject)),
            Handshake::NoMatch => return Err(ended(phase, RequestStep::Lapse)),
            Handshake::Differs(remote) => {
                return Err(match local.match_with(&remote) {
                    Err(error) => Failure::Refused(error),
                    Ok(()) => Failure::Misbehaved,
                });
            }
            Handshake::Accept(accept) => {
                if follow(answered, RequestStep::Accept)? != RequestPhase::Connected {
                    return Err(Failure::Misbehaved);
                }
                // What cannot be used is found before the VI is promised.
                local
                    .match_with(&accept.end.attributes)
                    .map_err(|_| Failure::Misbehaved)?;
                let who = wire::credentials(line.as_fd())?;
                let end = if accept.new_link {
                    follow_to_new_link(host, line, who, &accept, descriptors)?
                } else {
                    match follow_to_link(host, &line, &who, &accept, deadline)? {
                        Some(end) => end,
                        None => continue,
                    }
                };
                finish(vi, &local, end, &accept.end)?;
                return Ok(accept.end.attributes);
            }
            _ => return Err(Failure::Misbehaved),
        }
    }
}

/// The socket becomes the link.
fn follow_to_new_link(
    host: &'static Host,
    line: Line,
    who: Credentials,
    accept: &Accept,
    descriptors: Vec<OwnedFd>,
) -> Result<ChannelEnd, Failure> {
    // They are lost when this process has no room for them.
    let [pools, chunk, doorbells] = <[OwnedFd; 3]>::try_from(descriptors)
        .map_err(|_| io::Error::from_raw_os_error(libc::EMFILE))?;
    let chunk_bytes = link::CHUNK_BYTES;
    let trusted = accept.trusted && trusts(host, &who, &accept.process);
    let link = Arc::new(Link::new(
        host,
        LinkParts {
            id: accept.link,
            key: accept.key,
            is_creator: false,
            peer: peer(&who, &accept.process),
            trusted,
            cma: trusted && reaches(&who, &accept.process),
            pools: map_peer(pools, POOLS_BYTES).map_err(system_or_misbehaved)?,
            chunk: map_peer(chunk, chunk_bytes).map_err(system_or_misbehaved)?,
            doorbells: map_peer(doorbells, DOORBELL_BYTES).map_err(system_or_misbehaved)?,
            socket: line.into_socket()?,
        },
    ));
    let end = second_end(&link, accept, Deadline::after(Some(Duration::ZERO)), || {
        true
    })?;
    let established = Handshake::Established {
        key: accept.key,
        trusted,
    };
    let socket = link.socket().ok_or_else(server_is_gone)?;
    // Once it is said, the server may name the link to other threads of ours.
    host.publish(&link);
    let doorbells = [host.doorbell_segment().fd()];
    if wire::send(socket.as_fd(), established.packet().bytes(), &doorbells).is_err() {
        host.forget(&link);
        return Err(server_is_gone());
    }
    host.hear(&link, who.pidfd)?;
    Ok(end)
}

/// The connection goes over a link that stands; `None` when it does not, and the server is told.
fn follow_to_link(
    host: &'static Host,
    socket: &OwnedFd,
    who: &Credentials,
    accept: &Accept,
    deadline: Deadline,
) -> Result<Option<ChannelEnd>, Failure> {
    let nonce = accept.process.nonce;
    let Some(link) = host.link(nonce, who.pid, Some(accept.link), false) else {
        say(socket, &Handshake::LinkGone).map_err(|_| server_is_gone())?;
        return Ok(None);
    };
    let end = second_end(&link, accept, deadline, || is_there(socket))?;
    let established = Handshake::Established {
        key: link.key(),
        trusted: link.trusted(),
    };
    if say(socket, &established).is_err() {
        link.close(end.channel, end.connection, CloseReason::Disconnected);
        return Err(server_is_gone());
    }
    Ok(Some(end))
}

fn second_end(
    link: &Arc<Link>,
    accept: &Accept,
    deadline: Deadline,
    is_server_there: impl Fn() -> bool,
) -> Result<ChannelEnd, Failure> {
    let (channel, connection) = (accept.channel, accept.connection);
    // The server gives up before the caller does.
    let block = loop {
        let nap = deadline.or_after(SERVER_LOOK);
        match link.wait_block(channel, nap) {
            Poll::Ready(Some(block)) => break block,
            Poll::Pending if !deadline.has_passed() && link.is_alive() && is_server_there() => {}
            Poll::Ready(None) | Poll::Pending => return Err(server_is_gone()),
        }
    };
    if !link.reserve(channel, connection) {
        return Err(Failure::Misbehaved);
    }
    Ok(ChannelEnd {
        block,
        side: Side::Second,
        link: link.clone(),
        channel,
        connection,
    })
}

/// Grants a request, and connects the VI, which is pending and fits.
pub(super) fn answer(
    host: &'static Host,
    line: Line,
    request: &Request,
    vi: &Arc<dyn Connectable>,
) -> Result<(), Failure> {
    let answered = request_after(phase_of_shown(&line), RequestStep::Accept);
    if answered != Some(RequestPhase::Connected) {
        return Err(Failure::Withdrawn);
    }
    let local = vi.local_end();
    let who = wire::credentials(line.as_fd())?;
    let nonce = request.process.nonce;
    if let Some(link) = host.link(nonce, who.pid, None, true)
        && let Some(end) = lead_to_link(host, &line, &link, &local)?
    {
        return finish(vi, &local, end, &request.end);
    }
    let end = lead_to_new_link(host, line, who, request, &local)?;
    finish(vi, &local, end, &request.end)
}

/// Offers a channel of a link that stands; `None` when the client knows nothing of the link.
fn lead_to_link(
    host: &'static Host,
    socket: &OwnedFd,
    link: &Arc<Link>,
    local: &LocalEnd,
) -> Result<Option<ChannelEnd>, Failure> {
    let connection = host.next_connection();
    let Ok((channel, block)) = link.allocate(connection) else {
        return Ok(None);
    };
    let accept = Handshake::Accept(Accept {
        process: host.process(),
        end: local.facts(),
        link: link.id(),
        new_link: false,
        key: 0,
        trusted: link.trusted(),
        channel,
        connection,
    });
    let result = say(socket, &accept)
        .map_err(|_| Failure::Withdrawn)
        .and_then(|()| hear_established(socket));
    match result {
        Ok((Handshake::Established { key, .. }, _)) if key == link.key() => Ok(Some(ChannelEnd {
            block,
            side: Side::First,
            link: link.clone(),
            channel,
            connection,
        })),
        result => {
            link.close(channel, connection, CloseReason::Disconnected);
            match result {
                Ok((Handshake::LinkGone, _)) => Ok(None),
                Ok(_) => Err(Failure::Misbehaved),
                Err(failure) => Err(failure),
            }
        }
    }
}

/// Makes the memory of a new link, and the socket becomes that link.
fn lead_to_new_link(
    host: &'static Host,
    line: Line,
    who: Credentials,
    request: &Request,
    local: &LocalEnd,
) -> Result<ChannelEnd, Failure> {
    let [id, key] = [random()?, random()?].map(u64::from_le_bytes);
    let pools = Segment::create("viaduct-pools", POOLS_BYTES)?;
    let chunk = link::new_chunk()?;
    let trusted = trusts(host, &who, &request.process);
    let connection = host.next_connection();
    // The first channel of the first end of a link.
    let channel = 0;
    let accept = Handshake::Accept(Accept {
        process: host.process(),
        end: local.facts(),
        link: id,
        new_link: true,
        key,
        trusted,
        channel,
        connection,
    });
    let descriptors = [pools.fd(), chunk.fd(), host.doorbell_segment().fd()];
    wire::send(line.as_fd(), accept.packet().bytes(), &descriptors)?;
    let (established, descriptors) = hear_established(&line)?;
    let Handshake::Established {
        key: said,
        trusted: client_trusts,
    } = established
    else {
        return Err(Failure::Misbehaved);
    };
    if said != key {
        return Err(Failure::Misbehaved);
    }
    let [doorbells] = <[OwnedFd; 1]>::try_from(descriptors)
        .map_err(|_| io::Error::from_raw_os_error(libc::EMFILE))?;
    let trusted = trusted && client_trusts;
    let link = Arc::new(Link::new(
        host,
        LinkParts {
            id,
            key,
            is_creator: true,
            peer: peer(&who, &request.process),
            trusted,
            cma: trusted && reaches(&who, &request.process),
            pools: Mapping::of(&pools)?,
            chunk: Mapping::of(&chunk)?,
            doorbells: map_peer(doorbells, DOORBELL_BYTES).map_err(system_or_misbehaved)?,
            socket: line.into_socket()?,
        },
    ));
    let (allocated, block) = link.allocate(connection)?;
    debug_assert_eq!(allocated, channel);
    host.publish(&link);
    host.hear(&link, who.pidfd)?;
    Ok(ChannelEnd {
        block,
        side: Side::First,
        link,
        channel,
        connection,
    })
}

/// The client's answer to an `Accept`. It waits for nothing but that.
fn hear_established(socket: &OwnedFd) -> Result<(Handshake, Vec<OwnedFd>), Failure> {
    let deadline = Deadline::after(Some(ESTABLISHED_PATIENCE));
    loop {
        if !wire::poll(&mut [PollFd::new(socket, PollFlags::IN)], deadline)? {
            return Err(Failure::Withdrawn);
        }
        match hear(socket) {
            Ok(Some(heard)) => return Ok(heard),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(Failure::Misbehaved);
            }
            Err(_) => return Err(Failure::Withdrawn),
        }
    }
}

/// Both ends know the channel: the VI is connected to it.
fn finish(
    vi: &Arc<dyn Connectable>,
    local: &LocalEnd,
    end: ChannelEnd,
    remote: &EndFacts,
) -> Result<(), Failure> {
    let link = end.link.clone();
    let (channel, connection) = (end.channel, end.connection);
    if let Some(regions) = &local.regions {
        link.announce_regions(local.nic, regions.fd());
    }
    // Without the table all is slower, but works.
    let regions = (link.trusted() && remote.regions)
        .then(|| link.wait_regions(remote.nic, Deadline::after(Some(REGIONS_PATIENCE))))
        .flatten();
    let remote = RemoteEnd {
        attributes: remote.attributes,
        tag: remote.tag,
        regions,
    };
    match vi.connect(end, remote) {
        Ok(()) => {
            link.attach(channel, connection, vi);
            Ok(())
        }
        Err(error) => {
            link.close(channel, connection, CloseReason::Disconnected);
            Err(Failure::Refused(error))
        }
    }
}

/// Whether user memory may be shared, as far as this end is concerned.
fn trusts(host: &Host, who: &Credentials, process: &Process) -> bool {
    !host.is_protected() && !process.protected && viaduct_processes::user::is_own(who.uid)
}

/// Whether the other process's memory can be reached through the kernel: the proof is to read
/// there what it said of itself.
fn reaches(who: &Credentials, process: &Process) -> bool {
    cma::probe(who.pid, process.nonce_address, &process.nonce)
}

fn peer(who: &Credentials, process: &Process) -> PeerProcess {
    PeerProcess {
        nonce: process.nonce,
        pid: who.pid,
    }
}

fn system_or_misbehaved(error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(_) => Failure::System(error),
        None => Failure::Misbehaved,
    }
}

/// How long a client may take to answer an `Accept`, for which it is waiting: its machine may be
/// busy, or it is stopped. One that died is noticed at once.
const ESTABLISHED_PATIENCE: Duration = Duration::from_secs(10);

/// How often a client that waits for memory of a link looks whether its server is still there.
const SERVER_LOOK: Duration = Duration::from_millis(100);

/// How long the peer's region table is waited for when it says that it comes.
const REGIONS_PATIENCE: Duration = Duration::from_secs(1);
