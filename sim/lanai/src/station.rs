//! A simulated host as a carrier of Active Messages: programs written against `viaduct-am` run on
//! it unchanged, in virtual time.
//!
//! A program has a stack of its own, which it leaves whenever its processor is busy or it waits:
//! each call returns when the processor has ended what the call costs. So a program looks at
//! nothing before its time, and what it does interleaves with the interface, the driver and other
//! hosts as what the built-in programs do. Costs are those of [`crate::Host`]: `send` for a request
//! or a reply, whose message is in its endpoint when they end, `receive` for what is taken, the
//! copying of long messages, and a look for each that is in vain. Waiting is looking all the time:
//! what comes is seen half a round of looks later, which is the mean.
//!
//! The words of a message with a payload go in its header: its length is the payload's.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use viaduct_am::{
    Admission, Arrival, Body, Carrier, CarrierError, Content, ContentBody, Group, Key,
    Message as Said, Name, Readiness, Refusal, Slot, Taken, TimedOut, Watch, Words,
};
use viaduct_engine::Time;
use viaduct_frames::Endpoint;

use crate::cluster::{Cluster, Entry, Event, LinkLoad, Message, Totals, is_in_frame};
use crate::config::Config;
use crate::exchange::{Answer, Bytes, Came, Door};
use crate::faults::Fault;
use crate::load::{HeldLinks, Links};
use crate::program::{Program, half};

/// Simulated hosts, each of which may run a program, on a network of one kind.
pub struct Programs<N: Links = HeldLinks> {
    cluster: Rc<RefCell<Cluster<N>>>,
    /// By place.
    programs: Vec<Option<Coroutine<(), (), ()>>>,
}

/// The results of programs that have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last of them ended.
    pub elapsed: Duration,
    /// What happened.
    pub totals: Totals,
    /// What links carried, if they were watched.
    pub links: Vec<LinkLoad>,
}

/// Programs that wait for what never comes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stuck {
    /// Their hosts.
    pub hosts: Vec<u32>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "nothing is left to happen, and the programs of hosts {:?} still wait: has one of \
             those they wait for ended before?",
            self.hosts
        )
    }
}

impl std::error::Error for Stuck {}

impl Programs {
    /// Hosts without programs, whose packets hold their ways.
    ///
    /// # Errors
    ///
    /// As [`Programs::on_links`].
    pub fn new(config: Config) -> Result<Self, CarrierError> {
        Self::on_links(config)
    }
}

impl<N: Links> Programs<N> {
    /// Hosts without programs.
    ///
    /// # Errors
    ///
    /// For a network or faults that cannot be, or hosts that reboot or die: a program runs once.
    /// For messages that are lost without a transport that sends them again. For a network of
    /// another kind.
    pub fn on_links(config: Config) -> Result<Self, CarrierError> {
        let is_reboot = |fault: &Fault| matches!(fault, Fault::Reboot { .. });
        if config.faults.iter().any(is_reboot) {
            return Err(CarrierError::new(
                "a host with a program does not reboot or die: take its fault out, or have its \
                 cable down",
            ));
        }
        let checked = config.check_faults();
        checked.map_err(|error| CarrierError::new(error.to_string()))?;
        if config.transport.is_none() && config.network.lost_per_million > 0 {
            return Err(CarrierError::new(
                "this interface has no transport, so what its network loses stays lost: have it \
                 lose nothing, or take one with a transport, such as am-myrinet",
            ));
        }
        let made = Cluster::new(config);
        let mut cluster = made.map_err(|error| CarrierError::new(error.to_string()))?;
        // Programs keep their own.
        cluster.ledger = None;
        cluster.watch_links();
        cluster.exchange = Some(Box::default());
        Ok(Self {
            cluster: Rc::new(RefCell::new(cluster)),
            programs: Vec::new(),
        })
    }

    /// Has a host run a program.
    ///
    /// # Panics
    ///
    /// For a host that is none, or that has a program.
    pub fn spawn(&mut self, host: u32, program: impl FnOnce(Station<'_, N>) + 'static) {
        let cluster = Rc::clone(&self.cluster);
        let number = host;
        let host = cluster.borrow_mut().join(number);
        let count = cluster.borrow().nodes.len();
        self.programs.resize_with(count, || None);
        let place = &mut self.programs[host as usize];
        assert!(place.is_none(), "host {number} has a program");
        cluster.borrow_mut().nodes[host as usize].program = Program::Outside;
        cluster.borrow_mut().resume_program(host);
        *place = Some(Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
            program(Station {
                cluster,
                host,
                yielder,
            });
        }));
    }

    /// Runs all programs to their ends.
    ///
    /// # Errors
    ///
    /// [`Stuck`] when the others wait for ever.
    pub fn run(mut self) -> Result<Outcome, Stuck> {
        let mut left = self.programs.iter().flatten().count();
        while left > 0 {
            let due = {
                let mut cluster = self.cluster.borrow_mut();
                let exchange = cluster.exchange.as_mut();
                exchange.and_then(|exchange| exchange.due.pop_front())
            };
            let Some(host) = due else {
                let has_stopped = self.cluster.borrow().is_silent();
                if has_stopped || !self.cluster.borrow_mut().step() {
                    let cluster = self.cluster.borrow();
                    let running = cluster.nodes.iter().zip(&self.programs);
                    let hosts =
                        running.filter_map(|(node, each)| each.as_ref().map(|_| node.number));
                    return Err(Stuck {
                        hosts: hosts.collect(),
                    });
                }
                continue;
            };
            let Some(place) = self.programs.get_mut(host as usize) else {
                continue;
            };
            let Some(program) = place else { continue };
            if let CoroutineResult::Return(()) = program.resume(()) {
                *place = None;
                left -= 1;
            }
        }
        let cluster = self.cluster.borrow();
        Ok(Outcome {
            elapsed: span(cluster.queue.now()),
            totals: cluster.totals(),
            links: cluster.link_loads(),
        })
    }
}

impl<N: Links> fmt::Debug for Programs<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Programs")
            .field("hosts", &self.cluster.borrow().config.hosts)
            .finish_non_exhaustive()
    }
}

/// The host that a program runs on: its clock, and a carrier.
pub struct Station<'program, N: Links = HeldLinks> {
    cluster: Rc<RefCell<Cluster<N>>>,
    /// Its place.
    host: u32,
    yielder: &'program Yielder<(), ()>,
}

/// Where a name leads: a host and its endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    host: u32,
    endpoint: Endpoint,
}

/// The way back of a request.
#[derive(Debug)]
pub struct ReturnPath {
    pub(crate) host: u32,
    pub(crate) endpoint: Endpoint,
    pub(crate) number: u32,
}

impl<N: Links> Station<'_, N> {
    /// Since the beginning of the simulation.
    #[must_use]
    pub fn now(&self) -> Duration {
        span(self.cluster.borrow().queue.now())
    }

    /// The same, in whole picoseconds.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.cluster.borrow().queue.now().picoseconds()
    }

    /// Which host this is.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.cluster.borrow().nodes[self.index()].number
    }

    /// Has the processor work for so long.
    pub fn compute(&self, time: Duration) {
        self.busy(picoseconds(time), None);
    }

    /// Waits until something comes for this host, and the program looks that has looked in vain.
    pub fn idle(&self) {
        self.yielder.suspend(());
        let round = core::mem::take(&mut self.cluster.borrow_mut().nodes[self.index()].looks);
        self.spend(half(round));
    }

    /// Runs an asynchronous program on this host to its end.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(value) => return value,
                Poll::Pending => self.idle(),
            }
        }
    }

    fn index(&self) -> usize {
        self.host as usize
    }

    /// Has the processor work for so long, if that is any time.
    fn spend(&self, span: Time) {
        if span > Time::ZERO {
            self.busy(span, None);
        }
    }

    /// Has the processor work; then the message is in its endpoint.
    fn busy(&self, span: Time, message: Option<Message>) {
        let posted = {
            let cluster = &mut *self.cluster.borrow_mut();
            let now = cluster.queue.now();
            let span = cluster.pace(self.host, now).stretch(span);
            let posted = message.map(|message| cluster.messages.add(message));
            let node = &mut cluster.nodes[self.host as usize];
            node.posting.extend(posted);
            node.host_busy_until = node.host_busy_until.max(now) + span;
            cluster.schedule_host(self.host, now);
            posted
        };
        loop {
            self.yielder.suspend(());
            let cluster = self.cluster.borrow();
            let node = &cluster.nodes[self.host as usize];
            let is_posted = posted.is_none_or(|index| {
                !node.posting.contains(&index) && !node.blocked.contains(&index)
            });
            if is_posted && node.host_busy_until <= cluster.queue.now() {
                return;
            }
        }
    }

    const fn end(&self, slot: Slot) -> (u32, Endpoint) {
        (self.host, Endpoint::new(slot.0))
    }

    /// Takes what is next for an endpoint. A look that finds nothing is over before that is known.
    fn take_one(&self, slot: Slot) -> Option<Came> {
        let mut looked = Time::ZERO;
        if !self.cluster.borrow().has_arrival(self.host, slot) {
            looked = self.round(Watch::Endpoint(slot));
            self.spend(looked);
        }
        let (arrival, receive) = {
            let cluster = &mut *self.cluster.borrow_mut();
            let arrival = cluster.take_for(self.host, slot);
            let pace = cluster.pace(self.host, cluster.queue.now());
            let node = &mut cluster.nodes[self.index()];
            let Some(arrival) = arrival else {
                node.looks += looked;
                return None;
            };
            node.looks = Time::ZERO;
            let is_in_frame = is_in_frame(&node.driver, Endpoint::new(slot.0));
            let bytes = payload_bytes(&arrival);
            let receive = cluster.config.host.receive_of(bytes, is_in_frame);
            (arrival, receive + pace.per_message())
        };
        self.busy(receive.saturating_sub(looked), None);
        Some(arrival)
    }

    /// A look at everything that is watched.
    fn round(&self, watch: Watch) -> Time {
        let cluster = self.cluster.borrow();
        let look = |slot: usize| cluster.look_span(self.host, Endpoint::new(slot as u32));
        match watch {
            Watch::Endpoint(slot) => look(slot.0 as usize),
            Watch::Group(group) => {
                let exchange = cluster.exchange.as_ref();
                let doors = exchange.map_or(&[][..], |it| &it.doors[self.index()]);
                let members = doors.iter().enumerate();
                let members =
                    members.filter(|(_, door)| door.group.is_some_and(|(its, _)| its == group));
                members.fold(Time::ZERO, |sum, (slot, _)| sum + look(slot))
            }
        }
    }

    fn is_over(&self, watch: Watch, is_over: &dyn Fn(Readiness) -> bool) -> bool {
        let cluster = self.cluster.borrow();
        let found = |slot: u32| is_over(cluster.readiness(self.host, Slot(slot)));
        match watch {
            Watch::Endpoint(slot) => found(slot.0),
            Watch::Group(group) => {
                let exchange = cluster.exchange.as_ref();
                let line = exchange.and_then(|it| it.lines.get(group.0 as usize)?.as_ref());
                line.is_some_and(|line| line.iter().any(|slot| found(*slot)))
            }
        }
    }
}

impl<N: Links> Carrier for Station<'_, N> {
    type Route = Route;
    type Payload = Bytes;
    type ReturnPath = ReturnPath;

    fn create(&self, admission: Admission) -> Result<(Slot, Name), CarrierError> {
        let cluster = &mut *self.cluster.borrow_mut();
        let entries = cluster.config.queue_entries;
        if admission.request_entries > entries || admission.credits > entries {
            return Err(CarrierError::new(format!(
                "{} requests in the queue and {} credits are asked for; a queue of this interface \
                 has {entries} entries",
                admission.request_entries, admission.credits
            )));
        }
        let frames = cluster.config.frames;
        let has_transport = cluster.config.transport.is_some();
        let Some(exchange) = &mut cluster.exchange else {
            return Err(CarrierError::new("this cluster runs no programs"));
        };
        let doors = &mut exchange.doors[self.host as usize];
        if !has_transport && doors.len() == usize::from(frames) {
            return Err(CarrierError::new(format!(
                "an interface without a transport has as many endpoints as frames, {frames}, freed \
                 ones included: take am-myrinet for more"
            )));
        }
        doors.push(Door {
            admission,
            is_live: true,
            ended: Default::default(),
            group: None,
            is_queued: false,
        });
        let endpoint = cluster.create_endpoint(self.host);
        let slot = endpoint.index() as u32;
        let mut name = [0; Name::BYTES];
        let number = cluster.nodes[self.index()].number;
        name[..4].copy_from_slice(&number.to_le_bytes());
        name[4..8].copy_from_slice(&slot.to_le_bytes());
        name[8..8 + MARK.len()].copy_from_slice(MARK);
        Ok((Slot(slot), Name::from_bytes(name)))
    }

    fn destroy(&self, slot: Slot) {
        // Taken only while a panic inside of the simulation unwinds this program.
        let Ok(mut cluster) = self.cluster.try_borrow_mut() else {
            return;
        };
        let cluster = &mut *cluster;
        let endpoint = Endpoint::new(slot.0);
        let host = self.host;
        // Their endpoint still has them; it lets no other in from here on.
        let mut waiting = Vec::new();
        while let Some(came) = cluster.take_for(host, slot) {
            if let Arrival::Request { path, content } = came {
                waiting.push((path, content));
            }
        }
        let now = cluster.queue.now();
        let mut messages = Vec::new();
        if let Some(exchange) = &mut cluster.exchange {
            if let Some(door) = exchange.door(host, endpoint) {
                door.is_live = false;
                door.group = None;
            }
            for (path, content) in waiting {
                let Some(request) = exchange.request(path.number) else {
                    continue;
                };
                request.answer = Some(Answer::Back(content));
                let to = (path.host, path.endpoint);
                messages.push(message((host, endpoint), to, true, 0, path.number, now));
            }
        }
        for message in messages {
            let index = cluster.messages.add(message);
            cluster.nodes[host as usize].posting.push_back(index);
        }
        cluster.schedule_host(host, now);
    }

    fn resolve(&self, name: &Name) -> Result<Route, CarrierError> {
        let bytes = name.to_bytes();
        let number =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let (host, endpoint) = (number(0), number(4));
        let hosts = self.cluster.borrow().config.hosts;
        if !bytes[8..].starts_with(MARK) || host >= hosts {
            return Err(CarrierError::new(format!(
                "{name} is no name of a simulated endpoint: take one from Endpoint::name"
            )));
        }
        let host = self.cluster.borrow_mut().join(host);
        if host == self.host {
            return Err(CarrierError::new(format!(
                "{name} is of this host itself, whose interface has no way to it: use an endpoint \
                 of another host"
            )));
        }
        let endpoint = Endpoint::new(endpoint);
        Ok(Route { host, endpoint })
    }

    fn offer(
        &self,
        slot: Slot,
        route: Route,
        key: Key,
        context: u32,
        said: &Said<'_>,
    ) -> Result<(), Refusal> {
        let (send, number) = {
            let cluster = &mut *self.cluster.borrow_mut();
            if !cluster.has_room(self.host, slot) {
                return Err(Refusal::Full);
            }
            let exchange = cluster.exchange.as_mut().ok_or(Refusal::Closed)?;
            let number = exchange.begin(key, context, content(said));
            (cluster.config.host.send_of(length(said)), number)
        };
        let (from, to) = (self.end(slot), (route.host, route.endpoint));
        let now = self.cluster.borrow().queue.now();
        let posted = message(from, to, false, length(said), number, now);
        self.busy(send, Some(posted));
        Ok(())
    }

    fn reply(&self, slot: Slot, path: ReturnPath, said: Option<&Said<'_>>) {
        while !self.cluster.borrow().has_room(self.host, slot) {
            self.idle();
        }
        let send = {
            let cluster = &mut *self.cluster.borrow_mut();
            let exchange = cluster.exchange.as_mut();
            let request = exchange.and_then(|exchange| exchange.request(path.number));
            let Some(request) = request else { return };
            request.answer = Some(Answer::Reply(said.map(content)));
            cluster.config.host.send_of(said.map_or(0, length))
        };
        let (from, to) = (self.end(slot), (path.host, path.endpoint));
        let now = self.cluster.borrow().queue.now();
        let posted = message(from, to, true, said.map_or(0, length), path.number, now);
        self.busy(send, Some(posted));
    }

    fn take(&self, slot: Slot) -> Option<Taken<Self>> {
        let arrival = self.take_one(slot)?;
        let has_more = self.cluster.borrow().has_arrival(self.host, slot);
        Some(Taken {
            member: 0,
            arrival,
            has_more,
        })
    }

    fn look(&self, slot: Slot) -> Readiness {
        self.cluster.borrow().readiness(self.host, slot)
    }

    fn create_group(&self) -> Group {
        let mut cluster = self.cluster.borrow_mut();
        let Some(exchange) = &mut cluster.exchange else {
            return Group(0);
        };
        let lines = &mut exchange.lines;
        let free = lines.iter().position(Option::is_none);
        let index = free.unwrap_or(lines.len());
        if index == lines.len() {
            lines.push(None);
        }
        lines[index] = Some(Default::default());
        // As many as there is memory for.
        Group(index as u32)
    }

    fn destroy_group(&self, group: Group) {
        // Taken only while a panic inside of the simulation unwinds this program.
        let Ok(mut cluster) = self.cluster.try_borrow_mut() else {
            return;
        };
        let Some(exchange) = &mut cluster.exchange else {
            return;
        };
        exchange.lines[group.0 as usize] = None;
        for door in &mut exchange.doors[self.host as usize] {
            if door.group.is_some_and(|(its, _)| its == group) {
                door.group = None;
                door.is_queued = false;
            }
        }
    }

    fn join(&self, slot: Slot, group: Group, member: u32) {
        self.set_group(slot, Some((group, member)));
        let has_arrival = self.cluster.borrow().has_arrival(self.host, slot);
        let cluster = &mut *self.cluster.borrow_mut();
        if let Some(exchange) = cluster.exchange.as_mut().filter(|_| has_arrival) {
            exchange.arrived(self.host, Endpoint::new(slot.0));
        }
    }

    fn leave(&self, slot: Slot) {
        self.set_group(slot, None);
    }

    fn take_any(&self, group: Group) -> Option<Taken<Self>> {
        if !self.has_line(group) {
            let looked = self.round(Watch::Group(group));
            self.spend(looked);
            if !self.has_line(group) {
                self.cluster.borrow_mut().nodes[self.index()].looks += looked;
                return None;
            }
        }
        loop {
            let (slot, member) = {
                let mut cluster = self.cluster.borrow_mut();
                cluster.exchange.as_mut()?.next_of(self.host, group)?
            };
            // It may have been emptied by itself.
            let Some(arrival) = self.take_one(slot) else {
                continue;
            };
            let cluster = &mut *self.cluster.borrow_mut();
            let has_another = cluster.has_arrival(self.host, slot);
            let exchange = cluster.exchange.as_mut()?;
            if has_another {
                exchange.arrived(self.host, Endpoint::new(slot.0));
            }
            let line = exchange.lines.get(group.0 as usize)?.as_ref();
            return Some(Taken {
                member,
                arrival,
                has_more: line.is_some_and(|line| !line.is_empty()),
            });
        }
    }

    fn wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        limit: Option<Duration>,
    ) -> Result<(), TimedOut> {
        let end = limit.map(|limit| self.now().saturating_add(limit));
        if let Some(end) = end {
            let mut cluster = self.cluster.borrow_mut();
            cluster.patient += 1;
            cluster
                .queue
                .schedule(picoseconds(end), Event::Awakes(self.host));
        }
        loop {
            if self.is_over(watch, is_over) {
                return Ok(());
            }
            if end.is_some_and(|end| self.now() >= end) {
                return Err(TimedOut);
            }
            self.yielder.suspend(());
            if self.is_over(watch, is_over) {
                self.spend(half(self.round(watch)));
            }
        }
    }

    fn poll_wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        _context: &mut Context<'_>,
    ) -> Poll<()> {
        // `block_on` polls again whenever something has come for the host.
        match self.is_over(watch, is_over) {
            true => Poll::Ready(()),
            false => {
                let round = self.round(watch);
                self.cluster.borrow_mut().nodes[self.index()].looks = round;
                Poll::Pending
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.cluster, &other.cluster) && self.host == other.host
    }

    fn relax(&self) {
        self.busy(Time::from_nanoseconds(100), None);
    }
}

impl<N: Links> Station<'_, N> {
    /// Whether a member of a group has something, as far as is known.
    fn has_line(&self, group: Group) -> bool {
        let cluster = self.cluster.borrow();
        let exchange = cluster.exchange.as_ref();
        let line = exchange.and_then(|it| it.lines.get(group.0 as usize)?.as_ref());
        line.is_some_and(|line| !line.is_empty())
    }

    fn set_group(&self, slot: Slot, group: Option<(Group, u32)>) {
        let mut cluster = self.cluster.borrow_mut();
        let door = cluster
            .exchange
            .as_mut()
            .and_then(|exchange| exchange.door(self.host, Endpoint::new(slot.0)));
        let Some(door) = door else { return };
        let before = core::mem::replace(&mut door.group, group);
        let was_queued = core::mem::replace(&mut door.is_queued, false);
        if let (Some((before, _)), true, Some(exchange)) =
            (before, was_queued, &mut cluster.exchange)
            && let Some(Some(line)) = exchange.lines.get_mut(before.0 as usize)
        {
            line.retain(|each| *each != slot.0);
        }
    }
}

impl<N: Links> Clone for Station<'_, N> {
    fn clone(&self) -> Self {
        Self {
            cluster: Rc::clone(&self.cluster),
            host: self.host,
            yielder: self.yielder,
        }
    }
}

impl<N: Links> fmt::Debug for Station<'_, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Station")
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}

fn content(message: &Said<'_>) -> Content<Bytes> {
    Content {
        handler: message.handler(),
        words: Words::new(message.words()),
        body: match message.body() {
            Body::Short => ContentBody::Short,
            Body::Medium(bytes) => ContentBody::Medium(bytes.into()),
            Body::Bulk { offset, bytes } => ContentBody::Bulk {
                offset,
                bytes: bytes.into(),
            },
        },
    }
}

fn message(
    from: (u32, Endpoint),
    to: (u32, Endpoint),
    is_reply: bool,
    bytes: u32,
    number: u32,
    now: Time,
) -> Message {
    // Hosts of programs boot once.
    const KEY: u8 = 1;

    Message {
        entry: Entry {
            from: from.0,
            from_endpoint: from.1,
            bytes,
            is_reply,
            key: KEY,
            number,
            request: 0,
            posted_at: now,
        },
        to: to.0,
        to_endpoint: to.1,
        to_key: KEY,
        name: None,
        place: 0,
    }
}

/// Bytes of a payload that came.
fn payload_bytes(came: &Came) -> u32 {
    let content = match came {
        Arrival::Request { content, .. } => Some(content),
        Arrival::Reply { content, .. } | Arrival::Returned { content, .. } => content.as_ref(),
    };
    match content.map(|content| &content.body) {
        Some(ContentBody::Medium(bytes) | ContentBody::Bulk { bytes, .. }) => bytes.len() as u32,
        Some(ContentBody::Short) | None => 0,
    }
}

/// Bytes of a message, beside its header.
fn length(message: &Said<'_>) -> u32 {
    match message.payload().len() {
        0 => size_of_val(message.words()) as u32,
        bytes => bytes as u32,
    }
}

fn span(time: Time) -> Duration {
    Duration::from_nanos(time.picoseconds() / 1000)
}

fn picoseconds(span: Duration) -> Time {
    let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Time::from_picoseconds(nanoseconds.saturating_mul(1000))
}

/// In each name, behind host and endpoint.
const MARK: &[u8] = b"lanai endpoint";
