//! The programs of a simulation as its cluster sees them: their agents, who waits for what, and
//! what follows from what happens to a host.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::Waker;

use viaduct_agent::{Agent, Call};
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::programs::{Outgoing, Programs, Take};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::Tally;
use viaduct_network::{Begun, Moved};
use viaduct_provider::via::verbs::{Answer, Packet, Taken};
use viaduct_provider::via::{
    MessageHeader, Nic, NicAttributes, Queue, ReceiveOutcome, RemoteSegment, StartedReceive,
    StartedRemote, Timestamp, ViId, WorkId,
};
use viaduct_provider::{ViHandle, Watched};

use crate::bytes;
use crate::counts::{self, Counts};
use crate::event::Event;
use crate::executor::{Spawn, current};
use crate::host::{DEVICE, FIRST_ADDRESS, Host, device_name};
use crate::raw::{RawWrites, WriteId};
use crate::tasks::{TaskId, Tasks};

/// What a simulation's lock protects: a cluster of hosts with programs.
pub(crate) type Cluster = viaduct_cluster::programs::Cluster<Hosted>;

/// The programs of a cluster's hosts.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) hosts: Vec<Host>,
    /// What CLAN's programs do below VIA.
    pub(crate) raw: RawWrites,
    pub(crate) tasks: Tasks,
    /// Programs that were started and have no stack yet.
    pub(crate) spawned: VecDeque<Spawn>,
    /// Hosts whose handlers are to be called.
    pub(crate) calls: VecDeque<u32>,
    /// What only programs are counted for.
    pub(crate) counts: Counts,
    /// When the future that is being polled wants to go on.
    pub(crate) wake_at: Option<Time>,
    /// Whether a change on its host wakes the future that is being polled.
    pub(crate) is_watching: bool,
    /// By host, the processor of its next program; of hosts with a number of processors alone.
    pub(crate) next_processors: Vec<u32>,
    /// Whether an event happens while a program's stack waits in place: what it makes the host do
    /// is no work of that program.
    pub(crate) is_stepping: bool,
    /// Whether somebody else says how far time may go: for programs that run elsewhere.
    pub(crate) is_driven: bool,
    /// Waits for a time alone, since a stack waited for one last.
    pub(crate) quiet_waits: u32,
    /// Of the first host's first RDMA adapter, in its GID, if somebody has said so; those of the
    /// others follow, place by place.
    pub(crate) first_address: Option<Ipv4Addr>,
    /// VIs that an event concerned; kept to be used again.
    touched: Vec<ViHandle>,
}

/// In the mean, what is looked for in rounds is found in the middle of one.
pub(crate) const fn half(round: Time) -> Time {
    Time::from_picoseconds(round.picoseconds() / 2)
}

/// A cluster of hosts with programs, none of which has begun.
///
/// # Panics
///
/// If the configuration cannot be run.
pub(crate) fn new_cluster(config: ClusterConfig) -> Cluster {
    let programs = Hosted::new(&config);
    match Cluster::with_programs(Arc::new(config), programs) {
        Ok(cluster) => cluster,
        Err(error) => panic!("{error}"),
    }
}

impl Hosted {
    fn new(config: &ClusterConfig) -> Self {
        let attributes = config.host.map(|model| {
            Arc::new(NicAttributes {
                max_transfer_bytes: model.transfer_max_bytes,
                ..NicAttributes::default()
            })
        });
        let adapters = config.hosts.adapters.count;
        let names: Vec<Arc<str>> = (0..adapters).map(|it| device_name(it).into()).collect();
        Self {
            hosts: (0..config.topology.host_count())
                .map(|number| {
                    let (model, attributes) = (config.host.of(number), attributes.of(number));
                    let adapter = config.adapter_at(number).1;
                    let name = &names[adapter as usize];
                    Host::new(number, adapter, model, name, attributes)
                })
                .collect(),
            raw: RawWrites::default(),
            tasks: Tasks::default(),
            spawned: VecDeque::new(),
            calls: VecDeque::new(),
            counts: Counts::default(),
            wake_at: None,
            is_watching: false,
            next_processors: match config.hosts.processors {
                Some(_) => vec![0; config.host_count() as usize],
                None => Vec::new(),
            },
            is_stepping: false,
            is_driven: false,
            first_address: None,
            quiet_waits: 0,
            touched: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn host(&mut self, host: u32) -> &mut Host {
        &mut self.hosts[host as usize]
    }

    #[inline]
    fn agent(&self, host: u32) -> &Agent {
        &self.hosts[host as usize].agent
    }

    /// Whether nothing but an event is to come.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_idle() && !self.has_calls()
    }

    /// Whether programs are to be started or handlers to be called, or programs elsewhere may be to
    /// go on.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        self.is_driven || !self.spawned.is_empty() || !self.calls.is_empty()
    }
}

impl Programs for Hosted {
    const EXIST: bool = true;
    const FIRST_ADDRESS: u64 = FIRST_ADDRESS;

    type Event = Event;

    #[inline(always)]
    fn nic(&self, host: u32) -> &Nic {
        &self.hosts[host as usize].agent.devices[DEVICE].nic
    }

    #[inline(always)]
    fn nic_mut(&mut self, host: u32) -> &mut Nic {
        &mut self.hosts[host as usize].agent.devices[DEVICE].nic
    }

    fn handle(cluster: &mut Cluster, event: Event) {
        match event {
            Event::Wake(task, wait) => cluster.programs.tasks.end_wait(task, wait),
            Event::Call(host) => cluster.programs.calls.push_back(host),
            Event::Raw(event) => Self::handle_raw(cluster, event),
            Event::Pair(host, place) => Self::expire_pair(cluster, host, place),
            Event::Timeout(host) => {
                let now = cluster.timestamp();
                let state = cluster.programs.host(host);
                state.timeout = None;
                state.agent.expire(now);
                Self::follow_up(cluster, host, None);
            }
        }
    }

    fn gather(&self, host: u32, vi: ViId, work: WorkId, into: &mut Vec<u8>) {
        let Agent { elsewhere, .. } = self.agent(host);
        bytes::gather_send(self.nic(host), elsewhere, (vi, work), into);
    }

    fn place(
        &mut self,
        host: u32,
        vi: ViId,
        receive: &StartedReceive,
        is_early: bool,
        payload: &[u8],
    ) -> bool {
        let Agent { elsewhere, .. } = self.agent(host);
        let place = (vi, receive);
        bytes::place_received(self.nic(host), elsewhere, place, is_early, payload)
    }

    fn write_remote(
        &mut self,
        (host, vi): (u32, ViId),
        header: &MessageHeader,
        remote: RemoteSegment,
        payload: &[u8],
        outcome: ReceiveOutcome,
    ) -> Option<StartedRemote> {
        let Agent {
            elsewhere, devices, ..
        } = &mut self.host(host).agent;
        let access = (vi, header, remote);
        bytes::write_remote(
            &mut devices[DEVICE].nic,
            elsewhere,
            access,
            payload,
            outcome,
        )
    }

    fn read_remote(
        &mut self,
        (host, vi): (u32, ViId),
        header: &MessageHeader,
        remote: RemoteSegment,
        into: &mut Vec<u8>,
    ) -> bool {
        let Agent {
            elsewhere, devices, ..
        } = &mut self.host(host).agent;
        bytes::read_remote(
            &mut devices[DEVICE].nic,
            elsewhere,
            (vi, header, remote),
            into,
        )
    }

    fn place_read(&mut self, host: u32, vi: ViId, work: WorkId, payload: &[u8]) -> bool {
        let Agent { elsewhere, .. } = self.agent(host);
        bytes::place_read(self.nic(host), elsewhere, (vi, work), payload)
    }

    fn settle(cluster: &mut Cluster, host: u32, vi: ViId) {
        Self::settle_vi(cluster, host, vi);
    }

    fn follow(cluster: &mut Cluster, host: u32) {
        Self::follow_up(cluster, host, None);
    }

    fn written(cluster: &mut Cluster, host: u32, vi: ViId, queue: Queue) {
        Self::fire(cluster, host, vi, queue);
    }

    fn read(cluster: &mut Cluster, host: u32, vi: ViId, slots: u32, is_heard: bool) {
        Self::tell_read(cluster, host, vi, slots, is_heard);
    }

    fn request_ended(cluster: &mut Cluster, host: u32, vi: ViId) {
        Self::end_request(cluster, host, vi);
    }

    fn heard(cluster: &mut Cluster, host: u32) {
        Self::hear_out_of_band(cluster, host);
    }

    #[inline]
    fn counted(&mut self, host: u32, tally: &Tally, bytes: u32) {
        counts::add(&mut self.host(host).counts, tally, bytes);
    }

    #[inline]
    fn received(&mut self, host: u32) {
        self.host(host).counts.received += 1;
    }

    fn died(cluster: &mut Cluster, host: u32, is_host: bool) {
        if is_host {
            let handler = cluster.programs.host(host).handler;
            // What runs on a host is of its first place.
            cluster.programs.tasks.bury(host, handler);
        } else {
            Self::follow_up(cluster, host, None);
        }
    }

    fn serve(cluster: &mut Cluster, host: u32, request: u32) {
        Self::serve_raw(cluster, host, WriteId(request));
    }

    fn moved(cluster: &mut Cluster, request: u32, moved: &Moved) {
        Self::raw_moved(cluster, WriteId(request), moved);
    }

    fn went_on(cluster: &mut Cluster, request: u32, begun: &Begun) {
        Self::raw_begun(cluster, WriteId(request), begun);
    }

    fn unstarted_of_pair(&self, host: u32, pair: u32) -> u32 {
        self.unstarted(host, pair)
    }

    fn incomplete_of_pair(&self, host: u32, pair: u32) -> Option<u32> {
        self.incomplete(host, pair)
    }

    fn tells_of_acknowledgements(&self, host: u32, pair: u32) -> bool {
        let verbs = self.hosts[host as usize].verbs.as_deref();
        verbs.is_none_or(|verbs| verbs.adapter.tells_of_acknowledgements(pair))
    }

    fn place_of_pair(&self, host: u32, number: u32) -> Option<u32> {
        self.place_of_number(host, number)
    }

    fn begin_of_pair(
        cluster: &mut Cluster,
        host: u32,
        pair: u32,
        into: &mut Vec<u8>,
    ) -> Option<Outgoing> {
        Self::begin_send(cluster, host, pair, into)
    }

    fn left_of_pair(cluster: &mut Cluster, host: u32, pair: u32, sequence: u32) {
        Self::send_left(cluster, host, pair, sequence);
    }

    fn take_at_pair(
        cluster: &mut Cluster,
        host: u32,
        packet: &Packet,
        bytes: &mut Vec<u8>,
    ) -> Taken {
        Self::take_packet(cluster, host, packet, bytes)
    }

    fn hear_at_pair(
        cluster: &mut Cluster,
        host: u32,
        pair: u32,
        sequence: u32,
        answer: Answer,
        bytes: &[u8],
    ) -> bool {
        Self::hear_answer(cluster, (host, pair), sequence, answer, bytes)
    }

    fn running(&self, home: u32) -> u32 {
        let task = match self.is_stepping {
            true => None,
            false => current().map(|current| current.task),
        };
        let own = task.filter(|task| self.tasks.host(*task) == home);
        own.map_or(0, |task| self.tasks.processor(task))
    }

    fn host_of(&self, event: Event) -> Option<u32> {
        match event {
            Event::Wake(task, _) => Some(self.tasks.host(task)),
            Event::Call(host) | Event::Timeout(host) | Event::Pair(host, _) => Some(host),
            Event::Raw(_) => None,
        }
    }

    fn prefetch(&self, host: u32, vi: Option<ViId>) {
        let state = &self.hosts[host as usize];
        let Some(vi) = vi else {
            return viaduct_engine::prefetch_all(state);
        };
        let agent = &state.agent;
        for (address, bytes) in agent.devices[DEVICE].nic.state_addresses(vi) {
            viaduct_engine::prefetch_range(address, bytes);
        }
        let (address, bytes) = agent.state_address(DEVICE, vi);
        viaduct_engine::prefetch_range(address, bytes);
    }
}

impl Hosted {
    /// What follows from an operation or event on a host, about a VI if one is given.
    pub(crate) fn follow_up(cluster: &mut Cluster, host: u32, vi: Option<ViHandle>) {
        let mut touched = core::mem::take(&mut cluster.programs.touched);
        if let Some(vi) = vi {
            touched.push(vi);
            if let Some((_, id)) = cluster.programs.host(host).agent.place_of(vi) {
                cluster.kick(host, id);
            }
        }
        Self::follow_touched(cluster, host, &mut touched);
        touched.clear();
        cluster.programs.touched = touched;
    }

    /// What follows from a post, once its send waits: as a rule nothing.
    pub(crate) fn follow_post(cluster: &mut Cluster, host: u32, vi: ViHandle, id: Option<ViId>) {
        let nic = cluster.programs.nic(host);
        let is_complete = id.is_some_and(|id| nic.has_completions(id));
        let state = &mut cluster.programs.hosts[host as usize];
        if is_complete || !state.nic().is_silent() || state.agent.has_jobs() {
            let mut touched = core::mem::take(&mut cluster.programs.touched);
            touched.push(vi);
            Self::follow_touched(cluster, host, &mut touched);
            touched.clear();
            cluster.programs.touched = touched;
        }
    }

    fn follow_touched(cluster: &mut Cluster, host: u32, touched: &mut Vec<ViHandle>) {
        if cluster.is_host_dead(host) {
            return;
        }
        // As a rule nothing is to be drained.
        while !cluster.programs.host(host).nic().is_silent() {
            let mut has_moved = false;
            while let Some(transmit) = cluster.programs.host(host).nic().poll_transmit() {
                cluster.send_control(host, transmit);
                has_moved = true;
            }
            while let Some(ready) = cluster.programs.host(host).nic().poll_ready() {
                cluster.kick(host, ready);
                touched.extend(cluster.programs.host(host).agent.handle_of(DEVICE, ready));
                has_moved = true;
            }
            while let Some(event) = cluster.programs.host(host).nic().poll_event() {
                let first = touched.len();
                cluster
                    .programs
                    .host(host)
                    .agent
                    .hear(DEVICE, event, touched);
                for &vi in &touched[first..] {
                    Self::tell_receives(cluster, host, vi);
                }
                has_moved = true;
            }
            if !has_moved {
                break;
            }
            cluster.programs.host(host).nic().release_events();
        }
        for &vi in touched.iter() {
            cluster.programs.host(host).agent.settle(vi);
        }
        cluster.programs.host(host).agent.notify_entries();
        if !cluster.programs.host(host).nic().is_silent() {
            Self::set_timeout(cluster, host);
        }
        Self::changed(cluster, host);
    }

    /// A VI of a host has something that its program may take.
    pub(crate) fn settle_vi(cluster: &mut Cluster, host: u32, vi: ViId) {
        let is_dead = cluster.is_host_dead(host);
        let agent = &mut cluster.programs.hosts[host as usize].agent;
        let Some(handle) = agent.handle_of(DEVICE, vi) else {
            return Self::follow_up(cluster, host, None);
        };
        if is_dead || !agent.devices[DEVICE].nic.is_silent() {
            let mut touched = core::mem::take(&mut cluster.programs.touched);
            touched.push(handle);
            Self::follow_touched(cluster, host, &mut touched);
            touched.clear();
            cluster.programs.touched = touched;
            return;
        }
        // As a rule there is nothing else to follow.
        agent.settle(handle);
        agent.notify_entries();
        Self::changed(cluster, host);
    }

    /// Something changed on a host: whoever watches it looks.
    pub(crate) fn changed(cluster: &mut Cluster, host: u32) {
        let home = cluster.first_place(host);
        let watchers = &mut cluster.programs.hosts[home as usize].watchers;
        let tasks = &mut cluster.programs.tasks;
        for &task in &*watchers {
            tasks.notice(task);
        }
        watchers.clear();
        let state = &cluster.programs.hosts[host as usize];
        if state.agent.has_jobs() && state.handler.is_none() {
            cluster.programs.host(host).handler = Some(TaskId(u32::MAX));
            let done = Self::interrupt(cluster, host);
            cluster.schedule(done, Event::Call(host));
        }
    }

    /// A program of a host has taken something, for which its processor is busy: what it was is
    /// accounted for, if anybody asks.
    #[inline]
    pub(crate) fn tell_taken(cluster: &mut Cluster, host: u32, watched: Watched, take: Take) {
        if !cluster.has_account() {
            return;
        }
        // The entry of a completion queue says where something is, which is taken there.
        if let Watched::Vi(vi, Queue::Receive) = watched {
            Self::account_for(cluster, host, vi, take);
        }
    }

    /// Accounts for what programs of a host have taken from a VI.
    #[cold]
    fn account_for(cluster: &mut Cluster, host: u32, vi: ViHandle, take: Take) {
        let agent = &cluster.programs.hosts[host as usize].agent;
        if let (Some(before), Some((_, id))) = (agent.oldest_receive(vi), agent.place_of(vi)) {
            cluster.taken(host, id, before, take);
        }
    }

    /// Handlers of a host have been given what had come, which they take from now on.
    #[cold]
    fn account_for_handlers(cluster: &mut Cluster, host: u32, reap: Time) {
        let notice = Time::ZERO;
        for vi in cluster.untaken(host) {
            let agent = &cluster.programs.hosts[host as usize].agent;
            if let Some(handle) = agent.handle_of(DEVICE, vi) {
                Self::account_for(cluster, host, handle, Take { notice, reap });
            }
        }
    }

    /// The next call of a host's handlers, which has read of the event queue what it is about.
    pub(crate) fn next_call(cluster: &mut Cluster, host: u32) -> Option<Call> {
        let call = cluster.programs.host(host).agent.next_call()?;
        let read = Self::read_event(cluster, host);
        cluster.work_now(host, read);
        if cluster.has_account() {
            Self::account_for_handlers(cluster, host, read);
        }
        Some(call)
    }

    /// The next waker of a host, as [`Hosted::next_call`].
    pub(crate) fn next_wake(cluster: &mut Cluster, host: u32) -> Option<Waker> {
        let waker = cluster.programs.host(host).agent.next_wake()?;
        let read = Self::read_event(cluster, host);
        cluster.work_now(host, read);
        Some(waker)
    }

    /// A host's processor is interrupted for somebody who sleeps; when it has woken them.
    pub(crate) fn interrupt(cluster: &mut Cluster, host: u32) -> Time {
        let model = cluster.config.host.of(host).processor;
        let notices = cluster.programs.host(host).notices.as_ref();
        if let Some(round) = notices.and_then(|notices| notices.round()) {
            // Whoever calls handlers cannot sleep for what no tripwire watches: it looks.
            return cluster.work_now(host, model.polling_delay + half(round));
        }
        Self::wake(cluster, host)
    }

    /// An interrupt, and scheduling whoever sleeps; when that is over.
    pub(crate) fn wake(cluster: &mut Cluster, host: u32) -> Time {
        cluster.programs.counts.wake_ups += 1;
        let model = cluster.config.host.of(host).processor;
        let notices = cluster.programs.host(host).notices.as_ref();
        let served = notices.map_or(Time::ZERO, |notices| notices.interrupt_served());
        let interrupt = model.interrupt.saturating_sub(served);
        cluster.work_now(host, interrupt + model.wake_up)
    }

    fn set_timeout(cluster: &mut Cluster, host: u32) {
        let Some(due) = cluster.programs.host(host).agent.next_timeout() else {
            return;
        };
        if due == Timestamp::NEVER {
            return;
        }
        let due = Time::from_picoseconds(due.picoseconds()).max(cluster.now());
        if let Some((time, event)) = cluster.programs.host(host).timeout {
            if time <= due {
                return;
            }
            cluster.cancel(event);
        }
        let event = cluster.schedule(due, Event::Timeout(host));
        cluster.programs.host(host).timeout = Some((due, event));
    }
}
