//! Endpoints, ports and sockets of a process, and what their states are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::RecvFlags;
use viaduct_processes::rendezvous::Listener;

use super::channel::{Channel, Event, EventKind, EventParameters};
use super::wire::{MESSAGE_BYTES_MAX, Message, Request};
use super::{EndpointNumber, Parameters, Side, Space};
use crate::system;

/// How far an endpoint has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Idle,
    Bound,
    AddressResolved,
    RouteResolved,
    Listening,
    /// Has asked, and waits for an answer.
    Connecting,
    /// Has an answer, and the program has not said that it is ready.
    Answered,
    /// Was asked, and the program has not answered.
    Asked,
    /// Has answered, and waits until the other side is ready.
    Accepted,
    Established,
    /// Has said that it ends the connection.
    Leaving,
    /// Was connected, or never will be.
    Over,
}

/// What an `rdma_cm_id` is to the manager.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) channel: Arc<Channel>,
    pub(super) cookie: usize,
    pub(super) space: Space,
    pub(super) is_datagram: bool,
    pub(super) state: State,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    pub(super) port: Option<u64>,
    pub(super) has_ephemeral_port: bool,
    pub(super) reuses_port: bool,
    pub(super) is_one_family: bool,
    pub(super) socket: Option<OwnedFd>,
    /// What it asks for, while the socket's other end may have bound its port and not listen yet.
    pub(super) asking: Option<Asking>,
    pub(super) remote: Option<Side>,
    /// What the other side said.
    pub(super) said: Parameters,
    /// Of one that was asked: by whom.
    pub(super) listener: Option<EndpointNumber>,
    /// Requests that may wait.
    pub(super) backlog: usize,
    pub(super) waiting: usize,
    /// Events that were given to the program.
    pub(super) reported: u32,
}

impl Endpoint {
    pub(super) fn new(
        channel: Arc<Channel>,
        cookie: usize,
        space: Space,
        is_datagram: bool,
    ) -> Self {
        Self {
            channel,
            cookie,
            space,
            is_datagram,
            state: State::Idle,
            source: None,
            destination: None,
            port: None,
            has_ephemeral_port: false,
            reuses_port: false,
            is_one_family: false,
            socket: None,
            asking: None,
            remote: None,
            said: Parameters::default(),
            listener: None,
            backlog: 0,
            waiting: 0,
            reported: 0,
        }
    }

    /// Says something to the peer; one that cannot hear it has ended, which its socket will tell.
    pub(super) fn say(&self, message: &Message) {
        if let Some(socket) = &self.socket {
            say(socket, message);
        }
    }
}

/// Writes a message. A socket has place for the few that a connection needs; a peer that reads none
/// of them, or is gone, is told nothing.
pub(super) fn say(socket: &OwnedFd, message: &Message) {
    system::send(socket, &message.encode());
}

/// What a socket has to tell.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Message(Message),
    /// Nothing yet.
    Nothing,
    /// It is closed, or what came was no message.
    End,
}

pub(super) fn hear(socket: &OwnedFd) -> Heard {
    let mut packet = [0; MESSAGE_BYTES_MAX];
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    loop {
        return match rustix::net::recv(socket, &mut packet[..], flags) {
            Ok((_, bytes)) if bytes == 0 || bytes > packet.len() => Heard::End,
            Ok((_, bytes)) => Message::decode(&packet[..bytes]).map_or(Heard::End, Heard::Message),
            Err(rustix::io::Errno::AGAIN) => Heard::Nothing,
            // A peer that closes before it has read all of ours: what it said before is still
            // there.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => continue,
            Err(_) => Heard::End,
        };
    }
}

/// A bound port, shared by endpoints that say that they share.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) space: Space,
    pub(super) at: SocketAddr,
    /// Other addresses that it answers for.
    pub(super) beside: Vec<IpAddr>,
    pub(super) is_one_family: bool,
    pub(super) listeners: Vec<Listener>,
    pub(super) users: Vec<EndpointNumber>,
    pub(super) listening: Option<EndpointNumber>,
}

/// A request that nobody has heard yet.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) number: EndpointNumber,
    pub(super) request: Request,
    /// Until when somebody may come to listen.
    pub(super) until: Instant,
}

/// Whom the service thread's events are about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Watched {
    Port(u64),
    /// Somebody who has come to a port and has not said what for.
    Newcomer(u64),
    Endpoint(EndpointNumber),
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) endpoints: BTreeMap<EndpointNumber, Endpoint>,
    pub(super) ports: BTreeMap<u64, Port>,
    pub(super) newcomers: BTreeMap<u64, (u64, OwnedFd)>,
    /// In the order in which they came.
    pub(super) newcomers_in_order: std::collections::VecDeque<u64>,
    pub(super) ephemeral: BTreeSet<(Space, u16)>,
    pub(super) watched: BTreeMap<u64, Watched>,
    pub(super) asking: Vec<Asking>,
    pub(super) last_number: u64,
    pub(super) has_thread: bool,
}

impl World {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Puts an event where its endpoint's program looks.
    pub(super) fn tell(
        &self,
        number: EndpointNumber,
        kind: EventKind,
        status: i32,
        parameters: EventParameters,
    ) {
        if let Some(endpoint) = self.endpoints.get(&number) {
            endpoint.channel.push(Event {
                endpoint: number,
                cookie: endpoint.cookie,
                kind,
                status,
                parameters,
                newcomer: None,
            });
        }
    }
}
