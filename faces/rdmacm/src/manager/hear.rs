//! The thread that hears other processes: requests at ports, answers, and ends.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use libc::ETIMEDOUT;
use rustix::event::epoll;

use super::calls::{NO_SIDE, datagram_status, reason};
use super::channel::{Event, EventKind, EventParameters};
use super::wire::{Message, Request};
use super::world::{Asking, Endpoint, Heard, Port, State, Watched, World, hear, say};
use super::{EndpointNumber, Manager, Parameters, Quota, Result, Side};
use crate::system;

/// How many may have come to ports without having said what for. The first who came go first.
const NEWCOMERS_MAX: usize = 256;

/// The token of the descriptor that wakes the thread; no other has it.
const WAKE: u64 = 0;

/// Between two looks for a listener, which nobody tells of.
const ASK_AGAIN_MS: i32 = 2;

/// Wakes the thread.
pub(super) struct Wake<'a>(&'a OwnedFd);

impl Wake<'_> {
    pub(super) fn now(&self) {
        system::count_up(self.0);
    }
}

impl Manager {
    /// Has the thread look at a socket.
    pub(super) fn watch(&self, world: &mut World, socket: impl AsFd, whom: Watched) -> Result<()> {
        self.need_thread(world)?;
        let token = world.next_number();
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?;
        world.watched.insert(token, whom);
        Ok(())
    }

    fn need_thread(&self, world: &mut World) -> Result<()> {
        if !world.has_thread {
            let data = epoll::EventData::new_u64(WAKE);
            epoll::add(&self.epoll, &self.wake, data, epoll::EventFlags::IN)?;
            start_thread(self)?;
            world.has_thread = true;
        }
        Ok(())
    }

    /// What has the thread look at those who ask.
    pub(super) fn wake(&self, world: &mut World) -> Result<Wake<'_>> {
        self.need_thread(world)?;
        Ok(Wake(&self.wake))
    }

    /// Hears for ever.
    fn serve(&self) {
        let mut some_ask = false;
        // Without an answer the program has closed what is not its own.
        while let Some(tokens) = system::wait(&self.epoll, some_ask.then_some(ASK_AGAIN_MS)) {
            let mut world = self.world();
            for token in tokens {
                if token == WAKE {
                    let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
                }
                match world.watched.get(&token) {
                    Some(Watched::Port(key)) => {
                        let key = *key;
                        self.hear_port(&mut world, key);
                    }
                    Some(Watched::Newcomer(key)) => {
                        let key = *key;
                        self.hear_newcomer(&mut world, key);
                    }
                    Some(Watched::Endpoint(number)) => {
                        let number = *number;
                        self.hear_endpoint(&mut world, number);
                    }
                    None => {}
                }
            }
            some_ask = self.ask_again(&mut world);
        }
    }

    fn hear_port(&self, world: &mut World, key: u64) {
        let Some(port) = world.ports.get(&key) else {
            return;
        };
        let mut came = Vec::new();
        for listener in &port.listeners {
            while let Ok(Some(socket)) = listener.accept() {
                came.push(socket);
            }
        }
        for socket in came {
            if world.newcomers.len() >= NEWCOMERS_MAX
                && let Some(first) = world.newcomers_in_order.pop_front()
            {
                self.dismiss(world, first);
            }
            let newcomer = world.next_number();
            if self
                .watch(world, &socket, Watched::Newcomer(newcomer))
                .is_err()
            {
                continue;
            }
            world.newcomers.insert(newcomer, (key, socket));
            world.newcomers_in_order.push_back(newcomer);
            self.hear_newcomer(world, newcomer);
        }
    }

    fn dismiss(&self, world: &mut World, newcomer: u64) -> Option<(u64, OwnedFd)> {
        let (port, socket) = world.newcomers.remove(&newcomer)?;
        let _ = epoll::delete(&self.epoll, &socket);
        world.forget_watched(|watched| watched == Watched::Newcomer(newcomer));
        world.newcomers_in_order.retain(|other| *other != newcomer);
        Some((port, socket))
    }

    fn hear_newcomer(&self, world: &mut World, newcomer: u64) {
        let Some((_, socket)) = world.newcomers.get(&newcomer) else {
            return;
        };
        let heard = hear(socket);
        if heard == Heard::Nothing {
            return;
        }
        let Some((port, socket)) = self.dismiss(world, newcomer) else {
            return;
        };
        if let Heard::Message(Message::Request(request)) = heard {
            self.hear_request(world, port, socket, *request);
        }
    }

    fn hear_request(&self, world: &mut World, key: u64, socket: OwnedFd, request: Request) {
        let refuse = |status, reason| {
            let message = if request.is_datagram {
                Message::Resolved {
                    status,
                    side: NO_SIDE,
                    parameters: Parameters::default(),
                }
            } else {
                Message::Reject {
                    reason,
                    private_data: Vec::new(),
                }
            };
            say(&socket, &message);
        };
        let Some(port) = world.ports.get(&key) else {
            return;
        };
        // Who comes here has found the port by this address: another one is a lie.
        if request.space != port.space || !answers_for(port, request.destination) {
            return;
        }
        let is_heard = !port.is_one_family || port.at.is_ipv4() == request.destination.is_ipv4();
        let listening = port.listening.filter(|_| is_heard).and_then(|number| {
            let listener = world.endpoints.get(&number)?;
            (listener.is_datagram == request.is_datagram).then_some((number, listener))
        });
        let Some((number, listener)) = listening else {
            refuse(datagram_status::NOBODY_LISTENS, reason::NOBODY_LISTENS);
            return;
        };
        if listener.waiting >= listener.backlog {
            refuse(datagram_status::REJECTED, reason::CONSUMER_DEFINED);
            return;
        }
        let quota = if request.is_datagram {
            Quota::DATAGRAM_REQUEST
        } else {
            Quota::REQUEST
        };
        let channel = listener.channel.clone();
        let mut endpoint = Endpoint::new(channel.clone(), 0, listener.space, listener.is_datagram);
        endpoint.state = State::Asked;
        endpoint.source = Some(request.destination);
        endpoint.destination = Some(request.source);
        endpoint.remote = Some(request.side);
        endpoint.said = request.parameters.seen_by_peer(quota);
        endpoint.listener = Some(number);
        let newcomer = EndpointNumber(world.next_number());
        if self
            .watch(world, &socket, Watched::Endpoint(newcomer))
            .is_err()
        {
            return;
        }
        endpoint.socket = Some(socket);
        let Some(listener) = world.endpoints.get_mut(&number) else {
            return;
        };
        listener.waiting += 1;
        let event = Event {
            endpoint: number,
            cookie: listener.cookie,
            kind: EventKind::ConnectRequest,
            status: 0,
            parameters: endpoint.heard(),
            newcomer: Some(newcomer),
        };
        world.endpoints.insert(newcomer, endpoint);
        channel.push(event);
        // The peer may have gone already.
        self.hear_endpoint(world, newcomer);
    }

    fn hear_endpoint(&self, world: &mut World, number: EndpointNumber) {
        loop {
            let Some(endpoint) = world.endpoints.get(&number) else {
                return;
            };
            let Some(socket) = &endpoint.socket else {
                return;
            };
            match hear(socket) {
                Heard::Nothing => return,
                Heard::Message(message) => world.hear_message(number, message),
                Heard::End => world.hear_end(number),
            }
        }
    }
}

impl Endpoint {
    fn heard(&self) -> EventParameters {
        if self.is_datagram {
            EventParameters::Datagram {
                parameters: self.said.clone(),
                queue_key: self.remote.map_or(0, |remote| remote.queue_key),
            }
        } else {
            EventParameters::Connection(self.said.clone())
        }
    }

    fn learn(&mut self, side: Side, parameters: Parameters, quota: Quota) {
        self.remote = Some(side);
        self.said = parameters.seen_by_peer(quota);
    }
}

impl World {
    fn hear_message(&mut self, number: EndpointNumber, message: Message) {
        let Some(endpoint) = self.endpoints.get_mut(&number) else {
            return;
        };
        let is_datagram = endpoint.is_datagram;
        if endpoint.state == State::Connecting
            && let Some(asking) = endpoint.asking.take()
            && message.says_that_nobody_listens()
            && Instant::now() < asking.until
        {
            self.ask_later(asking);
            return;
        }
        match (endpoint.state, message) {
            (State::Connecting, Message::Response { side, parameters }) if !is_datagram => {
                endpoint.learn(side, parameters, Quota::RESPONSE);
                endpoint.state = State::Answered;
                let heard = endpoint.heard();
                self.tell(number, EventKind::ConnectResponse, 0, heard);
            }
            (
                State::Connecting,
                Message::Resolved {
                    status,
                    side,
                    parameters,
                },
            ) if is_datagram => {
                endpoint.learn(side, parameters, Quota::DATAGRAM_RESPONSE);
                let heard = endpoint.heard();
                let (kind, status) = match status {
                    datagram_status::VALID => (EventKind::Established, 0),
                    status => (
                        EventKind::Unreachable,
                        i32::try_from(status).unwrap_or(i32::MAX),
                    ),
                };
                self.finish(number);
                self.tell(number, kind, status, heard);
            }
            (
                State::Connecting | State::Answered | State::Accepted,
                Message::Reject {
                    reason,
                    mut private_data,
                },
            ) => {
                Quota::REJECT.fill(&mut private_data);
                let parameters = Parameters {
                    private_data,
                    ..Parameters::default()
                };
                let status = i32::try_from(reason).unwrap_or(i32::MAX);
                self.finish(number);
                let parameters = EventParameters::Connection(parameters);
                self.tell(number, EventKind::Rejected, status, parameters);
            }
            // Whoever accepts is told that it was too late.
            (State::Asked, Message::Reject { .. }) => self.finish(number),
            (State::Accepted, Message::Ready) => {
                endpoint.state = State::Established;
                self.tell(number, EventKind::Established, 0, EventParameters::None);
            }
            // The program has said so before its peer did.
            (State::Established | State::Leaving, Message::Ready) => {}
            (
                State::Answered | State::Accepted | State::Established | State::Leaving,
                Message::Disconnect,
            ) => {
                endpoint.say(&Message::Disconnected);
                self.finish(number);
                self.tell(number, EventKind::Disconnected, 0, EventParameters::None);
            }
            (State::Leaving, Message::Disconnected) => {
                self.finish(number);
                self.tell(number, EventKind::Disconnected, 0, EventParameters::None);
            }
            // It says what nobody says in this state: no more is heard of it.
            _ => self.hear_end(number),
        }
    }

    /// The peer's socket is closed: its process has ended, or has nothing more to say.
    fn hear_end(&mut self, number: EndpointNumber) {
        let Some(endpoint) = self.endpoints.get(&number) else {
            return;
        };
        let told = match endpoint.state {
            State::Connecting | State::Accepted => Some((EventKind::Unreachable, -ETIMEDOUT)),
            State::Answered | State::Established | State::Leaving => {
                Some((EventKind::Disconnected, 0))
            }
            _ => None,
        };
        self.finish(number);
        if let Some((kind, status)) = told {
            self.tell(number, kind, status, EventParameters::None);
        }
    }

    /// Whoever was asked has bound the port, and may listen in a moment.
    fn ask_later(&mut self, asking: Asking) {
        self.hang_up(asking.number);
        self.asking.push(asking);
    }

    /// Ends an endpoint's connection, or what was to be one.
    pub(super) fn finish(&mut self, number: EndpointNumber) {
        if let Some(endpoint) = self.endpoints.get_mut(&number) {
            endpoint.state = State::Over;
            self.hang_up(number);
        }
    }

    fn hang_up(&mut self, number: EndpointNumber) {
        let Some(endpoint) = self.endpoints.get_mut(&number) else {
            return;
        };
        if let Some(socket) = endpoint.socket.take() {
            // A child that was forked may hold a copy of it; the peer must hear the end all the
            // same.
            system::shut_down(&socket);
            self.forget_watched(|watched| watched == Watched::Endpoint(number));
        }
    }

    pub(super) fn forget_watched(&mut self, is_meant: impl Fn(Watched) -> bool) {
        self.watched.retain(|_, watched| !is_meant(*watched));
    }
}

/// Whether who has bound one address is found by another.
fn answers_for(Port { at, beside, .. }: &Port, asked: SocketAddr) -> bool {
    let is_address = at.ip().is_unspecified() || at.ip() == asked.ip();
    at.port() == asked.port() && (is_address || beside.contains(&asked.ip()))
}

/// Starts the thread, which takes none of the program's signals.
fn start_thread(manager: &Manager) -> Result<()> {
    // A manager is never given back.
    // SAFETY: it is leaked where it is made.
    let manager: &'static Manager = unsafe { &*std::ptr::from_ref(manager) };
    // SAFETY: both sets are filled in before they are read.
    let spawned = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let builder = std::thread::Builder::new().name("viaduct-rdmacm".into());
        let spawned = builder.stack_size(256 << 10).spawn(|| manager.serve());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        spawned
    };
    spawned?;
    Ok(())
}
