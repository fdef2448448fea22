//! What the steps of a message tell whoever watches a run: a [`Follower`] keeps who uses what one
//! message needs while it lives, for [`crate::why`]; a [`Recorder`] keeps what some messages use.
//!
//! Without an [`Observer`] a run keeps nothing of this, and asks once a step whether there is one.

use core::ops::Range;

use viaduct_engine::Time;
use viaduct_hardware::mechanism::Plan;
use viaduct_topology::{HostId, LinkId};

use crate::adapters::Numbering;
use crate::cluster::Cluster;
use crate::config::ClusterConfig;
use crate::host::{BlockedPost, Buffers};
use crate::message::{Message, MessageId};
use crate::programs::{OF_PROGRAM, Programs};
use crate::record::{Recorder, Used};
use crate::why::{MessageName, Work};
use viaduct_hardware::Stage;
use viaduct_network::Waits;
use viaduct_network::fluid::{FlowId, ResourceId};

/// What the followed message may have to wait for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Server {
    /// The bus or link at this place of its path.
    Place(usize),
    /// The sending host's processor.
    SenderProcessor,
    /// The receiving host's processor.
    ReceiverProcessor,
    /// The sending adapter's descriptor stage.
    DescriptorStage,
    /// Its VI, whose messages move in order.
    Vi,
    /// The sending host's buffers.
    Buffers,
}

/// Two hosts, and the number of a flow from one to the other.
pub(crate) type FlowName = ((u32, u32), u32);

/// A stretch of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) begin: Time,
    pub(crate) end: Time,
}

impl Span {
    pub(crate) fn length(self) -> Time {
        self.end.saturating_sub(self.begin)
    }

    /// What two spans have in common; an empty span if nothing.
    pub(crate) fn overlap(self, other: Self) -> Self {
        let begin = self.begin.max(other.begin);
        Self {
            begin,
            end: self.end.min(other.end).max(begin),
        }
    }
}

/// A use of a server by somebody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) server: Server,
    /// None of another device on a bus.
    pub(crate) message: Option<MessageName>,
    pub(crate) work: Work,
    pub(crate) span: Span,
}

/// A way of the followed message.
#[derive(Clone, Debug)]
pub(crate) struct OwnWay {
    /// Its first place in the path.
    pub(crate) first: usize,
    /// How the adapter carries it there, where that had to be planned.
    pub(crate) plan: Option<Plan>,
}

/// The followed message's own way over some places at once.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) places: Range<usize>,
    pub(crate) span: Span,
    /// What it waited for, where flows do not share links.
    pub(crate) waits: Option<Waits>,
}

/// Who watches a run.
#[derive(Debug)]
pub(crate) enum Observer {
    Follower(Box<Follower>),
    Recorder(Box<Recorder>),
}

/// Keeps who used the servers of one message while it lived.
#[derive(Debug)]
pub(crate) struct Follower {
    message: MessageName,
    processes: u32,
    first_bus: u32,
    source_host: HostId,
    target_host: HostId,
    /// The processors of its two processes.
    processors: (usize, usize),
    life: Span,
    /// Buses and links that the message crosses, in order: those of a remote read's answer behind
    /// those of its request.
    pub(crate) path: Vec<ResourceId>,
    /// The way to its target, and of a remote read the way back, once it has begun.
    pub(crate) ways: Vec<OwnWay>,
    pub(crate) uses: Vec<Use>,
    /// Its own moves in order: one, or one a hop.
    pub(crate) moves: Vec<Move>,
    /// From when to when the adapter read its own descriptor.
    pub(crate) fetch: Option<Span>,
    /// Whether a program has posted it.
    pub(crate) is_of_program: bool,
    /// Transfers of other devices that have begun on one of its buses.
    devices: Vec<(FlowId, u32, Time)>,
}

impl Follower {
    pub(crate) fn new(
        config: &ClusterConfig,
        message: MessageName,
        posted: Time,
        latency: Time,
    ) -> Self {
        let processes = config.hosts.processes;
        let (source_host, target_host) = message.hosts(processes);
        let first_bus = config.topology.link_count();
        let numbering = Numbering::of(config);
        let processor = |port| numbering.processor(port, 0);
        let mut follower = Self {
            message,
            processes,
            first_bus,
            source_host,
            target_host,
            processors: (processor(message.source), processor(message.target)),
            life: Span {
                begin: posted,
                end: posted + latency,
            },
            path: Vec::new(),
            ways: vec![OwnWay {
                first: 0,
                plan: None,
            }],
            uses: Vec::new(),
            moves: Vec::new(),
            fetch: None,
            is_of_program: false,
            devices: Vec::new(),
        };
        let flow = config.flow_of(message.source, message.target);
        follower.path = follower.path_of(config, flow);
        follower
    }

    /// Buses and links that a flow between two hosts crosses.
    fn path_of(&self, config: &ClusterConfig, flow: FlowName) -> Vec<ResourceId> {
        let ((source, target), _) = flow;
        let has_bus = |host| !config.host.of(host).bus.is_free();
        let bus = |place| has_bus(place).then(|| ResourceId(self.first_bus + config.bus_at(place)));
        let links = config.links_of(flow).into_iter();
        let links = links.map(|link| ResourceId(link.0));
        let path = bus(source).into_iter().chain(links);
        path.chain(bus(target)).collect()
    }

    /// The places of one of its ways in its path.
    pub(crate) fn places_of_way(&self, way: usize) -> Range<usize> {
        let next = self.ways.get(way + 1);
        self.ways[way].first..next.map_or(self.path.len(), |next| next.first)
    }

    /// Links that one of its ways crosses.
    pub(crate) fn links(&self, way: usize) -> Vec<LinkId> {
        let path = self.path[self.places_of_way(way)].iter();
        let links = path.filter(|place| place.0 < self.first_bus);
        links.map(|place| LinkId(place.0)).collect()
    }

    /// The message begins to move, carried so, as a flow between two hosts: for the first time, or
    /// once more.
    fn begins(&mut self, config: &ClusterConfig, plan: Plan, flow: FlowName, is_answer: bool) {
        if is_answer && self.ways.len() == 1 {
            self.ways.push(OwnWay {
                first: self.path.len(),
                plan: None,
            });
            let back = self.path_of(config, flow);
            self.path.extend(back);
        } else if !is_answer {
            self.path = self.path_of(config, flow);
        }
        if let Some(way) = self.ways.last_mut() {
            way.plan = Some(plan);
        }
    }

    /// Its hosts.
    pub(crate) fn hosts(&self) -> (u32, u32) {
        (self.source_host.0, self.target_host.0)
    }

    /// Whether a bus is at a place of its path.
    pub(crate) fn is_bus(&self, place: usize) -> bool {
        self.is_bus_at(&self.path, place)
    }

    fn is_bus_at(&self, path: &[ResourceId], place: usize) -> bool {
        path.get(place).is_some_and(|it| it.0 >= self.first_bus)
    }

    fn is_own(&self, message: MessageName) -> bool {
        (message.number, message.is_around) == (self.message.number, self.message.is_around)
    }

    /// Keeps somebody else's use, if the followed message lived meanwhile.
    fn keep(&mut self, server: Server, message: Option<MessageName>, work: Work, span: Span) {
        let is_own = message.is_some_and(|message| self.is_own(message));
        if !is_own && self.life.overlap(span).length() > Time::ZERO {
            self.uses.push(Use {
                server,
                message,
                work,
                span,
            });
        }
    }

    /// A message has moved its bytes over some places of its path.
    fn moved(
        &mut self,
        config: &ClusterConfig,
        (message, flow): (MessageName, FlowName),
        (places, work): (Range<usize>, Work),
        span: Span,
    ) {
        if self.is_own(message) {
            if work == Work::Acknowledge {
                return;
            }
            let way = self.places_of_way(self.ways.len() - 1);
            let places = places_within(places, way.len());
            let places = way.start + places.start..way.start + places.end;
            let waits = None;
            self.moves.push(Move {
                places,
                span,
                waits,
            });
            return;
        }
        if self.life.overlap(span).length() == Time::ZERO {
            return;
        }
        // Descriptors of one VI go in order: its messages before this one hold it up until their
        // bytes have left.
        let path = self.path_of(config, flow);
        if places.start <= usize::from(self.is_bus_at(&path, 0)) && work == Work::Move {
            self.keep_for_vi(config, message, span);
        }
        for resource in &path[places_within(places, path.len())] {
            self.keep_at(*resource, Some(message), work, span);
        }
    }

    /// For so long a message holds up others of its VI, if adapters move them one by one.
    fn keep_for_vi(&mut self, config: &ClusterConfig, message: MessageName, span: Span) {
        let ends = (message.source, message.target);
        let is_of_same_vi = ends == (self.message.source, self.message.target);
        let mechanism = &config.host.of(self.source_host.0).mechanism;
        if is_of_same_vi && mechanism.moving_per_vi() != u32::MAX {
            self.keep(Server::Vi, Some(message), Work::Move, span);
        }
    }

    fn device_moved(&mut self, host: u32, span: Span) {
        self.keep_at(ResourceId(self.first_bus + host), None, Work::Move, span);
    }

    /// Keeps somebody else's use of a bus or link, at each place where the message crosses it.
    fn keep_at(
        &mut self,
        resource: ResourceId,
        message: Option<MessageName>,
        work: Work,
        span: Span,
    ) {
        for place in 0..self.path.len() {
            if self.path[place] == resource {
                self.keep(Server::Place(place), message, work, span);
            }
        }
    }
}

/// Places of a path of so many: those given, or, where their end is not known, all but as many at
/// the end as are left out at the beginning.
pub(crate) fn places_within(places: Range<usize>, len: usize) -> Range<usize> {
    match places.end {
        usize::MAX => places.start..len - places.start,
        end => places.start..end.min(len),
    }
}

/// What the way of a message tells its follower, if there is one.
impl<P: Programs> Cluster<P> {
    /// A message is wanted.
    #[inline]
    pub(crate) fn follow_wish(&mut self, wish: &BlockedPost) {
        if self.observer.is_some() {
            self.keep_wish(wish.name(), wish.wanted);
        }
    }

    /// A program has posted a message.
    #[inline]
    pub(crate) fn follow_post_of_program(&mut self, id: MessageId) {
        if self.observer.is_some() {
            let message = self.messages.get(id);
            self.keep_wish(message.name(self.processes_per_host), message.posted);
        }
    }

    /// A program has posted to a queue pair what a message will carry.
    pub(crate) fn follow_post_of_pair(&mut self, host: u32, message: &Message, span: Span) {
        if self.observer.is_some() {
            let name = message.name(self.processes_per_host);
            self.keep_wish(name, message.posted);
            self.keep_processor((host, self.worker(host)), name, Work::Post, span);
        }
    }

    #[cold]
    fn keep_wish(&mut self, name: MessageName, wanted: Time) {
        if let (Some(Observer::Recorder(recorder)), Some(chooser)) =
            (&mut self.observer, &mut self.accounting.chooser)
            && let Some(sample) = &mut chooser.sample
        {
            let was_none = recorder.first.is_none();
            recorder.first = sample.wished(name, wanted);
            if was_none && recorder.first.is_some() {
                self.begin_recorded_windows();
            }
        }
    }

    /// The processor of `host` was given work for a message.
    #[inline]
    pub(crate) fn follow_processor(
        &mut self,
        host: u32,
        id: MessageId,
        work: Work,
        begin: Time,
        end: Time,
    ) {
        if self.observer.is_some() || self.operations.is_some() {
            let message = self.messages.get(id);
            let name = message.name(self.processes_per_host);
            let (process, processor) = match work {
                Work::Post => (message.source, self.source_processor(host, id)),
                _ => (message.target, self.target_processor(host, id)),
            };
            let span = Span { begin, end };
            self.note_messaging(process, span);
            self.keep_processor((host, processor), name, work, span);
        }
    }

    /// As [`Cluster::follow_processor`], for a message that may be gone: its process had the
    /// processor.
    #[inline]
    pub(crate) fn follow_processor_for(
        &mut self,
        host: u32,
        (message, process): (MessageName, u32),
        work: Work,
        span: Span,
    ) {
        self.note_messaging(process, span);
        let processor = self.processor_of(host, process);
        self.keep_processor((host, processor), message, work, span);
    }

    #[cold]
    fn keep_processor(
        &mut self,
        (host, processor): (u32, usize),
        name: MessageName,
        work: Work,
        span: Span,
    ) {
        let host = self.numbering.first_place(host);
        let follower = match &mut self.observer {
            Some(Observer::Follower(follower)) => follower,
            Some(Observer::Recorder(recorder)) => {
                let number = processor - self.numbering.processors_of(host).start;
                let used = Used::Processor(HostId(host), number as u32);
                recorder.keep(name, used, work, span);
                return;
            }
            None => return,
        };
        let message = Some(name);
        if follower.processors.0 == processor {
            follower.keep(Server::SenderProcessor, message, work, span);
        }
        if follower.processors.1 == processor {
            follower.keep(Server::ReceiverProcessor, message, work, span);
        }
    }

    /// The adapter of `host` is taken by a message's descriptor from now on, which it reads from
    /// `begin` to `end`.
    #[inline]
    pub(crate) fn follow_descriptor(&mut self, host: u32, id: MessageId, begin: Time, end: Time) {
        if self.observer.is_some() {
            self.keep_descriptor(host, id, Span { begin, end });
        }
    }

    /// A message begins to move.
    #[inline]
    pub(crate) fn follow_plan(&mut self, id: MessageId) {
        if let Some(Observer::Follower(follower)) = &mut self.observer {
            let message = self.messages.get(id);
            let is_own = follower.is_own(message.name(self.processes_per_host));
            if is_own && !message.is_acknowledgement() {
                let plan = *self.plans.get(message.plan);
                // A program's VI may take another way than a process would.
                follower.is_of_program = message.is_of::<P>();
                let flow = match message.is_of::<P>() {
                    true => (
                        (message.source, message.target),
                        message.connection & !OF_PROGRAM,
                    ),
                    false => self.config.flow_of(message.source, message.target),
                };
                follower.begins(&self.config, plan, flow, message.is_answer);
                self.network.follow(id.0);
            }
        }
    }

    /// A message keeps a host's sending engine busy, though its descriptor is read: the engine is
    /// held until the bytes have left, or takes messages in as well.
    #[inline]
    pub(crate) fn follow_engine(&mut self, host: u32, id: MessageId, begin: Time, end: Time) {
        if self.observer.is_some() {
            self.keep_engine(host, id, Span { begin, end });
        }
    }

    #[cold]
    fn keep_engine(&mut self, host: u32, id: MessageId, span: Span) {
        let message = self.messages.get(id).name(self.processes_per_host);
        if let Some(Observer::Follower(follower)) = &mut self.observer
            && follower.source_host.0 == host
        {
            follower.keep(Server::DescriptorStage, Some(message), Work::Move, span);
        }
    }

    #[cold]
    fn keep_descriptor(&mut self, host: u32, id: MessageId, reading: Span) {
        let message = self.messages.get(id).name(self.processes_per_host);
        let follower = match &mut self.observer {
            Some(Observer::Follower(follower)) => follower,
            Some(Observer::Recorder(recorder)) => {
                let used = Used::Adapter(HostId(host));
                recorder.keep(message, used, Work::Descriptor, reading);
                return;
            }
            None => return,
        };
        if follower.is_own(message) {
            follower.fetch = Some(reading);
        }
        if follower.source_host.0 == host {
            let taken = Span {
                begin: self.queue.now(),
                end: reading.end,
            };
            follower.keep(
                Server::DescriptorStage,
                Some(message),
                Work::Descriptor,
                taken,
            );
        }
    }

    /// A message has moved its bytes over `places` of its path since `begin`.
    #[inline]
    pub(crate) fn follow_move(&mut self, id: MessageId, places: Range<usize>, span: Span) {
        if self.observer.is_some() {
            self.keep_move(id, places, span);
        }
    }

    #[cold]
    fn keep_move(&mut self, id: MessageId, places: Range<usize>, span: Span) {
        let places = self.places_of(id, places);
        let message = self.messages.get(id);
        let work = match message.is_acknowledgement() {
            true => Work::Acknowledge,
            false => Work::Move,
        };
        let message = (message.name(self.processes_per_host), self.ends_of(message));
        match &mut self.observer {
            Some(Observer::Follower(follower)) => {
                let is_own = follower.is_own(message.0) && work == Work::Move;
                follower.moved(&self.config, message, (places, work), span);
                if is_own && let Some(moved) = follower.moves.last_mut() {
                    moved.waits = self.network.take_waits(span.end);
                }
            }
            Some(Observer::Recorder(recorder)) => {
                recorder.moved(&self.config, message, (places, work), span);
            }
            None => {}
        }
    }

    /// A sender is done with a message only now, though the message's move is counted up to
    /// `moved`: as if it had been in all of its queues since it began.
    #[inline]
    pub(crate) fn follow_leaving(&mut self, id: MessageId, moved: Time) {
        let (begin, end) = (moved, self.queue.now());
        if begin < end
            && let Some(Observer::Follower(follower)) = &mut self.observer
        {
            let message = self.messages.get(id).name(self.processes_per_host);
            follower.keep_for_vi(&self.config, message, Span { begin, end });
        }
    }

    /// A message gives its send buffer back.
    #[inline]
    pub(crate) fn follow_buffer(&mut self, id: MessageId) {
        if self.observer.is_some() {
            self.keep_buffer(id);
        }
    }

    #[cold]
    fn keep_buffer(&mut self, id: MessageId) {
        let Some(Observer::Follower(follower)) = &mut self.observer else {
            return;
        };
        let message = self.messages.get(id);
        let begin = if self.is_direct {
            message.mark
        } else {
            message.posted + Time::from_picoseconds(message.stages[Stage::Buffer as usize])
        };
        let end = self.queue.now();
        let name = message.name(self.processes_per_host);
        let (numbering, processes) = (self.numbering, follower.processes);
        let first_place = |host: HostId| numbering.first_place(host.0);
        if first_place(name.hosts(processes).0) == first_place(follower.source_host) {
            let span = Span { begin, end };
            follower.keep(Server::Buffers, Some(name), Work::Buffer, span);
        }
    }

    /// Another device has begun a transfer on the bus of `host`.
    pub(crate) fn follow_device(&mut self, flow: FlowId, host: u32, bytes: u64) {
        let now = self.queue.now();
        match &mut self.observer {
            Some(Observer::Follower(follower))
                if [follower.source_host, follower.target_host]
                    .map(|end| self.config.bus_at(end.0))
                    .contains(&host) =>
            {
                follower.devices.push((flow, host, now));
            }
            Some(Observer::Recorder(recorder)) => {
                recorder.device_begins(flow, HostId(host), bytes, now);
            }
            Some(Observer::Follower(_)) | None => {}
        }
    }

    /// A transfer of another device has ended.
    pub(crate) fn follow_device_end(&mut self, flow: FlowId) {
        let end = self.queue.now();
        let chooser = self.accounting.chooser.as_ref();
        let sample = chooser.and_then(|chooser| chooser.sample.as_ref());
        match &mut self.observer {
            Some(Observer::Follower(follower)) => {
                let known = follower.devices.iter().position(|device| device.0 == flow);
                if let Some(index) = known {
                    let (_, host, begin) = follower.devices.swap_remove(index);
                    follower.device_moved(host, Span { begin, end });
                }
            }
            Some(Observer::Recorder(recorder)) => {
                if let Some(sample) = sample {
                    recorder.device_ends(flow, sample, end);
                }
            }
            None => {}
        }
    }

    /// At the end of a run: what has begun and not ended.
    pub(crate) fn follow_to_the_end(&mut self) {
        let end = self.queue.now();
        if let Some(Observer::Recorder(recorder)) = &mut self.observer {
            let chooser = self.accounting.chooser.as_ref();
            if let Some(sample) = chooser.and_then(|chooser| chooser.sample.as_ref()) {
                recorder.devices_end(sample, end);
            }
        }
        if !matches!(self.observer, Some(Observer::Follower(_))) {
            return;
        }
        for id in self.messages.under_way() {
            let message = self.messages.get(id);
            let is_sent = self.network.has_left(message.journey);
            let has_left = is_sent || message.tail_arrives < Time::MAX;
            if message.is_awaited || !has_left && !message.is_acknowledgement() {
                self.keep_buffer(id);
            }
        }
        let moving: Vec<_> = self.network.moving().collect();
        for (tag, places) in moving {
            if tag >= Self::BACKGROUND_TAG || P::EXIST && tag & OF_PROGRAM != 0 {
                continue;
            }
            let id = MessageId(tag);
            let begin = self.messages.get(id).mark;
            let places = self.places_of(id, places);
            self.keep_move(id, places, Span { begin, end });
        }
        if let Some(Observer::Follower(follower)) = &mut self.observer {
            for (_, host, begin) in core::mem::take(&mut follower.devices) {
                follower.device_moved(host, Span { begin, end });
            }
        }
    }

    /// The message of a number if it is under way: its name, when it was posted, and whether it
    /// waits for a send buffer.
    pub(crate) fn find_under_way(&self, number: u64) -> Option<(MessageName, Time, bool)> {
        let blocked = self.buffers.iter().flat_map(Buffers::blocked);
        for wish in blocked {
            if wish.number == number {
                return Some((wish.name(), wish.wanted, true));
            }
        }
        if let Some(message) = self.guests.posts.find(number) {
            return Some((message.name(self.processes_per_host), message.posted, false));
        }
        let mut under_way = self.messages.under_way().into_iter();
        let id = under_way.find(|&id| self.messages.get(id).number == number)?;
        let message = self.messages.get(id);
        Some((message.name(self.processes_per_host), message.posted, false))
    }
}
