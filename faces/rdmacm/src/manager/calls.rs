//! What the library asks of the manager.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{EADDRINUSE, EADDRNOTAVAIL, EHOSTUNREACH, EINVAL, EISCONN, ETIMEDOUT};
use viaduct_processes::deadline::Deadline;
use viaduct_processes::rendezvous::{self, Place};

use super::channel::{Channel, Event, EventKind, EventParameters};
use super::ports::{EPHEMERAL_FIRST, EPHEMERAL_LAST};
use super::wire::{Message, Request};
use super::world::{Asking, Endpoint, Port, State, Watched, World};
use super::{
    EndpointNumber, Manager, Parameters, Quota, Refusal, Result, Side, Space, are_of_one_family,
};
use crate::address;

/// How long a listener's process may leave its queue full.
const FULL_QUEUE_PATIENCE: Duration = Duration::from_secs(5);

/// How long somebody may take to listen. On a network a request needs its time, in which a program
/// that binds its port anew does so: perftest's server does between two connections.
const NOBODY_PATIENCE: Duration = Duration::from_millis(500);

/// Reasons of InfiniBand's connection manager for a rejection.
pub(crate) mod reason {
    pub(crate) const TIMEOUT: u32 = 4;
    pub(crate) const NOBODY_LISTENS: u32 = 8;
    pub(crate) const CONSUMER_DEFINED: u32 = 28;
    pub(crate) const ECE_NOT_SUPPORTED: u32 = 35;
}

/// Statuses of its answers to who asks for a datagram queue pair.
pub(crate) mod datagram_status {
    pub(crate) const VALID: u32 = 0;
    pub(crate) const NOBODY_LISTENS: u32 = 1;
    pub(crate) const REJECTED: u32 = 2;
}

/// Both ends of an endpoint's connection, as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) remote: Option<Side>,
    /// What the other side said of the connection.
    pub(crate) said: Parameters,
    /// Whether a connection has been asked for.
    pub(crate) is_asked_for: bool,
}

impl Manager {
    pub(crate) fn create(
        &self,
        channel: &Arc<Channel>,
        cookie: usize,
        space: Space,
        is_datagram: bool,
    ) -> EndpointNumber {
        let mut world = self.world();
        let number = EndpointNumber(world.next_number());
        let endpoint = Endpoint::new(Arc::clone(channel), cookie, space, is_datagram);
        world.endpoints.insert(number, endpoint);
        number
    }

    /// The event for a token that was read from the channel's descriptor.
    pub(crate) fn take(&self, channel: &Channel) -> Option<Event> {
        let mut world = self.world();
        let event = channel.pop()?;
        let endpoint = world.endpoints.get_mut(&event.endpoint)?;
        endpoint.reported += 1;
        if event.newcomer.is_some() {
            endpoint.waiting = endpoint.waiting.saturating_sub(1);
        }
        Some(event)
    }

    /// Gives an endpoint that a request made to its program.
    pub(crate) fn adopt(&self, number: EndpointNumber, cookie: usize) -> Option<Ends> {
        let mut world = self.world();
        let endpoint = world.endpoints.get_mut(&number)?;
        endpoint.cookie = cookie;
        Some(endpoint.ends())
    }

    pub(crate) fn ends(&self, number: EndpointNumber) -> Result<Ends> {
        Ok(self.world().endpoint(number)?.ends())
    }

    /// Binds to an address of this machine and a port, any port for 0.
    pub(crate) fn bind(&self, number: EndpointNumber, at: SocketAddr) -> Result<SocketAddr> {
        let mut world = self.world();
        self.bind_locked(&mut world, number, at)
    }

    fn bind_locked(
        &self,
        world: &mut World,
        number: EndpointNumber,
        at: SocketAddr,
    ) -> Result<SocketAddr> {
        let endpoint = world.endpoint(number)?;
        if endpoint.state != State::Idle {
            return Err(Refusal(EINVAL));
        }
        let beside = address::bound_beside(at);
        let at = address::bound(at);
        if !at.ip().is_unspecified() && !address::is_of_this_machine(at)? {
            return Err(Refusal(EADDRNOTAVAIL));
        }
        let (space, reuses, is_one_family) =
            (endpoint.space, endpoint.reuses_port, endpoint.is_one_family);
        let shared = world.ports.iter().find(|(_, port)| {
            let is_shared = |user| {
                world
                    .endpoints
                    .get(user)
                    .is_some_and(|user| user.reuses_port)
            };
            port.space == space && port.at == at && port.users.iter().all(is_shared)
        });
        let shared = shared
            .map(|(key, _)| *key)
            .filter(|_| reuses && at.port() != 0);
        let (key, at) = match shared {
            Some(key) => (key, at),
            None => self.open_port(world, space, (at, &beside), is_one_family)?,
        };
        if let Some(port) = world.ports.get_mut(&key) {
            port.users.push(number);
        }
        let endpoint = world.endpoint_mut(number)?;
        endpoint.port = Some(key);
        endpoint.source = Some(at);
        endpoint.state = State::Bound;
        Ok(at)
    }

    fn open_port(
        &self,
        world: &mut World,
        space: Space,
        (at, beside): (SocketAddr, &[SocketAddr]),
        is_one_family: bool,
    ) -> Result<(u64, SocketAddr)> {
        let key = world.next_number();
        let mut at = at;
        let listeners = if at.port() == 0 {
            let mut tries = 0;
            loop {
                at.set_port(any_port());
                match self.ports.bind(space, at, beside, is_one_family) {
                    Ok(listeners) => break listeners,
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < 100 => {
                        tries += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        } else {
            self.ports.bind(space, at, beside, is_one_family)?
        };
        for listener in &listeners {
            self.watch(world, listener, Watched::Port(key))?;
        }
        let port = Port {
            space,
            at,
            beside: beside.iter().map(SocketAddr::ip).collect(),
            is_one_family,
            listeners,
            users: Vec::new(),
            listening: None,
        };
        world.ports.insert(key, port);
        Ok((key, at))
    }

    /// Finds the way to an address; the channel tells whether there is one.
    pub(crate) fn resolve_address(
        &self,
        number: EndpointNumber,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<()> {
        let destination = address::bound(destination);
        let mut world = self.world();
        let endpoint = world.endpoint(number)?;
        if !matches!(endpoint.state, State::Idle | State::Bound) {
            return Err(Refusal(EINVAL));
        }
        let bound = endpoint.source.or(source);
        if bound.is_some_and(|bound| !are_of_one_family(bound, destination)) {
            return Err(Refusal(EINVAL));
        }
        if endpoint.state == State::Idle
            && let Some(source) = source
        {
            if source.port() != 0 {
                self.bind_locked(&mut world, number, source)?;
            } else if !source.ip().is_unspecified() && !address::is_of_this_machine(source)? {
                return Err(Refusal(EADDRNOTAVAIL));
            }
        }
        let chosen = match bound {
            Some(bound) if !bound.ip().is_unspecified() => Ok(bound),
            _ => address::source_for(destination).map(|mut chosen| {
                chosen.set_port(bound.map_or(0, |bound| bound.port()));
                chosen
            }),
        };
        let reached = chosen.map_err(Refusal::from).and_then(|chosen| {
            let is_here =
                destination.ip().is_unspecified() || address::is_of_this_machine(destination)?;
            match self.ports.place {
                Place::Abstract(_) if !is_here => Err(Refusal(EHOSTUNREACH)),
                _ => Ok(chosen),
            }
        });
        let mut chosen = match reached {
            Ok(chosen) => chosen,
            Err(Refusal(errno)) => {
                let endpoint = world.endpoint_mut(number)?;
                endpoint.state = State::Bound;
                world.tell(
                    number,
                    EventKind::AddressError,
                    -errno,
                    EventParameters::None,
                );
                return Ok(());
            }
        };
        let space = world.endpoint(number)?.space;
        let is_ephemeral = chosen.port() == 0;
        if is_ephemeral {
            chosen.set_port(ephemeral_port(&mut world.ephemeral, space));
        }
        let mut destination = destination;
        if destination.ip().is_unspecified() {
            destination.set_ip(chosen.ip());
        }
        let endpoint = world.endpoint_mut(number)?;
        endpoint.has_ephemeral_port |= is_ephemeral;
        endpoint.source = Some(chosen);
        endpoint.destination = Some(destination);
        endpoint.state = State::AddressResolved;
        world.tell(number, EventKind::AddressResolved, 0, EventParameters::None);
        Ok(())
    }

    pub(crate) fn resolve_route(&self, number: EndpointNumber) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        if endpoint.state != State::AddressResolved {
            return Err(Refusal(EINVAL));
        }
        endpoint.state = State::RouteResolved;
        world.tell(number, EventKind::RouteResolved, 0, EventParameters::None);
        Ok(())
    }

    /// Hears requests from now on; `backlog` may wait, of 0 and less the most.
    pub(crate) fn listen(&self, number: EndpointNumber, backlog: i32) -> Result<SocketAddr> {
        /// What the kernel allows unless told otherwise.
        const BACKLOG_MAX: usize = 1024;
        let mut world = self.world();
        if world.endpoint(number)?.state == State::Idle {
            self.bind_locked(&mut world, number, (Ipv4Addr::UNSPECIFIED, 0).into())?;
        }
        let endpoint = world.endpoint(number)?;
        let (State::Bound, Some(key), Some(at)) = (endpoint.state, endpoint.port, endpoint.source)
        else {
            return Err(Refusal(EINVAL));
        };
        let port = world.ports.get_mut(&key).ok_or(Refusal(EINVAL))?;
        if port.listening.is_some() {
            return Err(Refusal(EADDRINUSE));
        }
        port.listening = Some(number);
        let endpoint = world.endpoint_mut(number)?;
        endpoint.state = State::Listening;
        endpoint.backlog = match usize::try_from(backlog) {
            Ok(backlog @ 1..=BACKLOG_MAX) => backlog,
            _ => BACKLOG_MAX,
        };
        Ok(at)
    }

    /// Asks for a connection, or for a datagram queue pair. The channel tells the answer.
    pub(crate) fn connect(
        &self,
        number: EndpointNumber,
        local: Side,
        parameters: Parameters,
    ) -> Result<()> {
        let (space, request) = {
            let mut world = self.world();
            let endpoint = world.endpoint_mut(number)?;
            let quota = if endpoint.is_datagram {
                Quota::DATAGRAM_REQUEST
            } else {
                Quota::REQUEST
            };
            let (State::RouteResolved, Some(source), Some(destination)) =
                (endpoint.state, endpoint.source, endpoint.destination)
            else {
                return Err(Refusal(EINVAL));
            };
            check(&parameters, quota)?;
            endpoint.state = State::Connecting;
            let request = Request {
                space: endpoint.space,
                is_datagram: endpoint.is_datagram,
                source,
                destination,
                side: local,
                parameters,
            };
            (endpoint.space, request)
        };
        // Without the lock: a listener may let others wait.
        let reached = self.reach(space, request.destination, FULL_QUEUE_PATIENCE);
        let mut world = self.world();
        let Some(endpoint) = world.endpoints.get(&number) else {
            return Ok(());
        };
        if endpoint.state != State::Connecting {
            return Ok(());
        }
        let asking = Asking {
            number,
            request,
            until: Instant::now() + NOBODY_PATIENCE,
        };
        match reached {
            Ok(Some(socket)) => self.ask(&mut world, socket, asking),
            Ok(None) => {
                let wake = self.wake(&mut world)?;
                world.asking.push(asking);
                wake.now();
                Ok(())
            }
            Err(error) => {
                let Refusal(errno) = error.into();
                world.fail(number, EventKind::Unreachable, -errno);
                Ok(())
            }
        }
    }

    fn ask(&self, world: &mut World, socket: OwnedFd, asking: Asking) -> Result<()> {
        let number = asking.number;
        let request = asking.request.clone();
        super::world::say(&socket, &Message::Request(Box::new(request)));
        if let Err(refusal) = self.watch(world, &socket, Watched::Endpoint(number)) {
            world.finish(number);
            return Err(refusal);
        }
        let endpoint = world.endpoint_mut(number)?;
        endpoint.socket = Some(socket);
        endpoint.asking = Some(asking);
        Ok(())
    }

    /// Looks again for those whom nobody has heard yet, and tells those who have waited enough.
    /// Whether some still wait.
    pub(super) fn ask_again(&self, world: &mut World) -> bool {
        for asking in std::mem::take(&mut world.asking) {
            let number = asking.number;
            let endpoint = world.endpoints.get(&number);
            if endpoint.is_none_or(|endpoint| endpoint.state != State::Connecting) {
                continue;
            }
            let destination = asking.request.destination;
            match self.reach(asking.request.space, destination, Duration::ZERO) {
                Ok(Some(socket)) => {
                    if self.ask(world, socket, asking).is_err() {
                        world.fail(number, EventKind::Unreachable, -ETIMEDOUT);
                    }
                }
                _ if Instant::now() < asking.until => world.asking.push(asking),
                _ if !is_here(destination) => {
                    world.fail(number, EventKind::Unreachable, -ETIMEDOUT);
                }
                _ if asking.request.is_datagram => {
                    let status = datagram_status::NOBODY_LISTENS as i32;
                    world.fail(number, EventKind::Unreachable, status);
                }
                _ => world.fail(number, EventKind::Rejected, reason::NOBODY_LISTENS as i32),
            }
        }
        !world.asking.is_empty()
    }

    fn reach(
        &self,
        space: Space,
        destination: SocketAddr,
        patience: Duration,
    ) -> io::Result<Option<OwnedFd>> {
        let deadline = Deadline::after(Some(patience));
        for name in self.ports.names(space, destination) {
            let reached = rendezvous::connect(&self.ports.place, name, deadline, || false)?;
            if reached.is_some() {
                return Ok(reached);
            }
        }
        Ok(None)
    }

    /// Answers a request with yes.
    pub(crate) fn accept(
        &self,
        number: EndpointNumber,
        local: Side,
        parameters: Parameters,
    ) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        if endpoint.state != State::Asked {
            return Err(Refusal(EINVAL));
        }
        if endpoint.is_datagram {
            check(&parameters, Quota::DATAGRAM_RESPONSE)?;
            endpoint.say(&Message::Resolved {
                status: datagram_status::VALID,
                side: local,
                parameters,
            });
            world.finish(number);
        } else {
            check(&parameters, Quota::RESPONSE)?;
            endpoint.state = State::Accepted;
            endpoint.say(&Message::Response {
                side: local,
                parameters,
            });
        }
        Ok(())
    }

    /// Tells the other side, which has accepted, that this one is ready.
    pub(crate) fn ready(&self, number: EndpointNumber) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        if endpoint.state != State::Answered {
            return Err(Refusal(EINVAL));
        }
        endpoint.say(&Message::Ready);
        endpoint.state = State::Established;
        Ok(())
    }

    /// Answers a request, or an answer, with no.
    pub(crate) fn reject(
        &self,
        number: EndpointNumber,
        reason: u32,
        private_data: Vec<u8>,
    ) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint(number)?;
        if !matches!(
            endpoint.state,
            State::Asked | State::Answered | State::Connecting | State::Accepted
        ) {
            return Err(Refusal(EINVAL));
        }
        if endpoint.is_datagram {
            let parameters = Parameters {
                private_data,
                ..Parameters::default()
            };
            check(&parameters, Quota::DATAGRAM_RESPONSE)?;
            endpoint.say(&Message::Resolved {
                status: datagram_status::REJECTED,
                side: NO_SIDE,
                parameters,
            });
        } else {
            if private_data.len() > Quota::REJECT.bytes() {
                return Err(Refusal(EINVAL));
            }
            endpoint.say(&Message::Reject {
                reason,
                private_data,
            });
        }
        world.finish(number);
        Ok(())
    }

    /// Takes the connection as established, though its other side has not said so.
    pub(crate) fn establish_early(&self, number: EndpointNumber) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        match endpoint.state {
            State::Accepted => {
                endpoint.state = State::Established;
                world.tell(number, EventKind::Established, 0, EventParameters::None);
                Ok(())
            }
            State::Established => Err(Refusal(EISCONN)),
            _ => Err(Refusal(EINVAL)),
        }
    }

    /// Ends a connection; the channels of both sides tell when it has ended.
    pub(crate) fn disconnect(&self, number: EndpointNumber) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        match endpoint.state {
            State::Established | State::Accepted | State::Answered => {
                endpoint.say(&Message::Disconnect);
                endpoint.state = State::Leaving;
                Ok(())
            }
            // The other side was faster, or there is nothing yet: the kernel says nothing either.
            State::Leaving | State::Over | State::Asked | State::Connecting => Ok(()),
            _ => Err(Refusal(EINVAL)),
        }
    }

    /// Has an endpoint's events go to another channel, those too that nobody has seen. Returns how
    /// many were given out before.
    pub(crate) fn migrate(&self, number: EndpointNumber, channel: &Arc<Channel>) -> Result<u32> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        let reported = endpoint.reported;
        let old = std::mem::replace(&mut endpoint.channel, Arc::clone(channel));
        for event in old.withdraw(|event| event.endpoint == number) {
            if let Some(newcomer) = event.newcomer
                && let Ok(newcomer) = world.endpoint_mut(newcomer)
            {
                newcomer.channel = Arc::clone(channel);
            }
            channel.push(event);
        }
        Ok(reported)
    }

    /// Puts an event of the library's own, or of the program, into an endpoint's channel.
    pub(crate) fn tell(
        &self,
        number: EndpointNumber,
        kind: EventKind,
        status: i32,
        parameters: EventParameters,
    ) {
        self.world().tell(number, kind, status, parameters);
    }

    /// Shares a port with others that say so too.
    pub(crate) fn reuse_port(&self, number: EndpointNumber, reuses: bool) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        match endpoint.state {
            State::Idle => endpoint.reuses_port = reuses,
            State::Bound if reuses => endpoint.reuses_port = true,
            _ => return Err(Refusal(EINVAL)),
        }
        Ok(())
    }

    /// Has a port of IPv6 not hear IPv4.
    pub(crate) fn hear_one_family(&self, number: EndpointNumber, is_one: bool) -> Result<()> {
        let mut world = self.world();
        let endpoint = world.endpoint_mut(number)?;
        if endpoint.state != State::Idle {
            return Err(Refusal(EINVAL));
        }
        endpoint.is_one_family = is_one;
        Ok(())
    }

    /// Forgets an endpoint: its connection ends, its port is free, what waits is withdrawn. Returns
    /// how many of its events were given out.
    pub(crate) fn destroy(&self, number: EndpointNumber) -> Result<u32> {
        let mut world = self.world();
        world.endpoint(number)?;
        Ok(self.destroy_locked(&mut world, number))
    }

    fn destroy_locked(&self, world: &mut World, number: EndpointNumber) -> u32 {
        world.say_goodbye(number);
        world.finish(number);
        let Some(endpoint) = world.endpoints.remove(&number) else {
            return 0;
        };
        for event in endpoint.channel.withdraw(|event| event.endpoint == number) {
            // Nobody will ever answer these.
            if let Some(newcomer) = event.newcomer {
                self.destroy_locked(world, newcomer);
            }
        }
        if endpoint.has_ephemeral_port
            && let Some(source) = endpoint.source
        {
            world.ephemeral.remove(&(endpoint.space, source.port()));
        }
        if let Some(key) = endpoint.port
            && let Some(port) = world.ports.get_mut(&key)
        {
            port.users.retain(|user| *user != number);
            if port.listening == Some(number) {
                port.listening = None;
            }
            if port.users.is_empty()
                && let Some(port) = world.ports.remove(&key)
            {
                for listener in &port.listeners {
                    let _ = rustix::event::epoll::delete(&self.epoll, listener);
                }
                world.forget_watched(|watched| watched == Watched::Port(key));
            }
        }
        endpoint.reported
    }
}

impl Endpoint {
    fn ends(&self) -> Ends {
        Ends {
            source: self.source,
            destination: self.destination,
            remote: self.remote,
            said: self.said.clone(),
            is_asked_for: !matches!(
                self.state,
                State::Idle
                    | State::Bound
                    | State::AddressResolved
                    | State::RouteResolved
                    | State::Listening
            ),
        }
    }
}

impl World {
    fn endpoint(&self, number: EndpointNumber) -> Result<&Endpoint> {
        self.endpoints.get(&number).ok_or(Refusal(EINVAL))
    }

    fn endpoint_mut(&mut self, number: EndpointNumber) -> Result<&mut Endpoint> {
        self.endpoints.get_mut(&number).ok_or(Refusal(EINVAL))
    }

    /// Ends what was to be a connection, and tells the program.
    fn fail(&mut self, number: EndpointNumber, kind: EventKind, status: i32) {
        self.finish(number);
        self.tell(number, kind, status, EventParameters::None);
    }

    /// Tells the other side that this one goes away, in the words for how far they are.
    fn say_goodbye(&self, number: EndpointNumber) {
        let Some(endpoint) = self.endpoints.get(&number) else {
            return;
        };
        let reject = |reason| Message::Reject {
            reason,
            private_data: Vec::new(),
        };
        match endpoint.state {
            State::Connecting => endpoint.say(&reject(reason::TIMEOUT)),
            State::Asked if endpoint.is_datagram => endpoint.say(&Message::Resolved {
                status: datagram_status::REJECTED,
                side: NO_SIDE,
                parameters: Parameters::default(),
            }),
            State::Asked | State::Answered | State::Accepted => {
                endpoint.say(&reject(reason::CONSUMER_DEFINED));
            }
            State::Established => endpoint.say(&Message::Disconnect),
            _ => {}
        }
    }
}

/// Of who has no queue pair to name.
pub(super) const NO_SIDE: Side = Side {
    gid: [0; 16],
    lid: 0,
    mtu: 1,
    packet_number: 0,
    queue_key: 0,
};

fn is_here(destination: SocketAddr) -> bool {
    address::is_of_this_machine(destination).unwrap_or(false)
}

fn check(parameters: &Parameters, quota: Quota) -> Result<()> {
    let is_right = parameters.private_data.len() <= quota.bytes()
        && parameters.queue_pair <= 0xff_ffff
        && parameters.retry_count <= 7
        && parameters.rnr_retry_count <= 7;
    if is_right {
        Ok(())
    } else {
        Err(Refusal(EINVAL))
    }
}

/// A port that nobody of this process has for its own. Nobody looks for those who ask, so that
/// other processes may have the same.
fn ephemeral_port(taken: &mut BTreeSet<(Space, u16)>, space: Space) -> u16 {
    for _ in 0..1000 {
        let port = any_port();
        if taken.insert((space, port)) {
            return port;
        }
    }
    any_port()
}

fn any_port() -> u16 {
    let count = u64::from(EPHEMERAL_LAST - EPHEMERAL_FIRST) + 1;
    EPHEMERAL_FIRST + (random() % count) as u16
}

/// Different each time, and in each process.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
