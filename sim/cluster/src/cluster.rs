//! The simulated cluster: state, event loop, and what a message's way costs with nobody else there.
//!
//! A message's way is cut into the fewest events that others can disturb: what is deterministic
//! and uncontended between two such points is added up, not scheduled.
//!
//! ```text
//! Arrival        the application posts: processor, send queue, doorbell       send.rs
//! Fetched        the NIC has the descriptor; the data may move
//!   flow begins  over bus, links and bus at once (cut-through), or hop by hop
//! HeadArrives    the receiving NIC takes the next receive descriptor          receive.rs
//! FlowEnds       links and the sending NIC are free; the send is complete
//! TailArrives    status written, completion queued; the host is told
//! Reaped         the application has the message
//! Reposted       the receive descriptor is with the NIC again
//! ```
//!
//! Hosts that cost nothing take a shorter way: direct.rs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use core::ops::ControlFlow;

use viaduct_core::{Nic, NicAttributes, ViId, WorkId};
use viaduct_engine::{EventId, EventQueue, Lane, Stream, StreamKey, Time};
use viaduct_topology::{HostId, LinkId};

use crate::accounting::Accounting;
use crate::adapters::{Numbering, Spreading};
use crate::background::Sources;
use crate::config::{Arrivals, ClusterConfig, TrafficConfig};
use crate::error::RunError;
use crate::event::Event;
use crate::failures::Failures;
use crate::hardware::{Hardware, moving_per_vi};
use crate::host::{AlignedNic, Buffers, Engines, Process, Processor};
use crate::idle::Idle;
use crate::message::{Message, MessageId, Messages};
use crate::operations::Operations;
use crate::path::Priced;
use crate::programs::guest::Guests;
use crate::programs::{NoPrograms, OF_PROGRAM, Programs};
use crate::result::{Ended, SeriesRow};
use crate::run::ClosedUse;
use crate::sent::Look;
use crate::trace::Observer;
use crate::workload::{Pattern, Targets};
use viaduct_hardware::mechanism::{self, LastPlan, PlanId, Plans};
use viaduct_hardware::{ByHost, HostModel, Pair, Switching};
use viaduct_network::windows::LinkWindows;
use viaduct_network::{Network, Next, Sharing};

/// Purposes of random streams.
pub(crate) mod purpose {
    pub(crate) const PROCESS: u64 = 1;
    pub(crate) const BUS_LOAD: u64 = 2;
}

/// Classes of flows, whose numbers between two hosts are their own.
pub(crate) mod class {
    pub(crate) const DRAWN: u8 = 0;
    pub(crate) const BACKGROUND: u8 = 1;
    pub(crate) const OF_PROGRAMS: u8 = 2;
    pub(crate) const REQUESTS: u8 = 3;
}

/// How often the caller is asked whether to go on, in events.
///
/// Few enough that Ctrl-C is obeyed soon where an event takes a millisecond, since thousands of
/// flows share a link; enough that asking costs nothing where one takes 100 ns.
pub const CONTROL_INTERVAL_EVENTS: u64 = 1 << 10;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Its end.
    pub until: Time,
    /// Events handled.
    pub events: u64,
    /// Messages posted.
    pub posted: u64,
    /// Messages delivered.
    pub delivered: u64,
}

/// Lanes for events whose delay is constant along the usual way.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) fetched: Lane,
    pub(crate) head: Lane,
    pub(crate) tail: Lane,
    pub(crate) reaped: Lane,
    pub(crate) reposted: Lane,
}

/// A cluster under simulation.
#[derive(Debug)]
pub struct Cluster<P: Programs> {
    /// What the run is told.
    pub config: Arc<ClusterConfig>,
    /// What each host asks of its hardware at every message.
    pub(crate) hardware: ByHost<Hardware>,
    /// Whether the adapter reads a VI's next descriptor while data of the VI waits to move.
    pub(crate) reads_ahead: bool,
    /// Whether a message takes its receive when its first byte comes, not its last.
    pub(crate) matches_first: bool,
    /// What adapters remember, by host; empty if they remember nothing.
    pub(crate) adapters: Vec<mechanism::AdapterState>,
    pub(crate) plans: Plans,
    pub(crate) last_plan: LastPlan,
    /// Of adapters that remember nothing: for messages of how many bytes that plan is.
    pub(crate) known_plan: Option<(u32, PlanId)>,
    pub(crate) queue: EventQueue<Event<P::Event>>,
    pub(crate) lanes: Lanes,
    pub(crate) network: Network,
    /// Whether no stage of a host takes time; see [`crate::direct`].
    pub(crate) is_direct: bool,
    /// Whether the heads of one connection's messages arrive in the order in which they began.
    pub(crate) are_heads_in_order: bool,
    /// Whether messages of one VI may arrive in another order than that of their posts.
    pub(crate) may_overtake: bool,
    /// Whether data of one VI moves one message at a time, so that drawn messages are placed one
    /// behind the other, though what it costs to place them differs; none if hosts differ in it.
    pub(crate) order: Option<bool>,
    /// Those that did, and wait: by host, VI and receive.
    pub(crate) overtakers: BTreeMap<(u32, ViId, WorkId), MessageId>,
    /// Messages that have come to processes that were busy, by process; see [`crate::taking`].
    pub(crate) untaken: BTreeMap<u32, VecDeque<MessageId>>,
    /// Receives posted after the first ones of a VI, by its process.
    pub(crate) late_receives: BTreeMap<(u32, ViId), u32>,
    /// Heads that needed no event of their own.
    pub(crate) heads_matched: u64,
    /// Whether adapters plan all messages of one size alike.
    pub(crate) are_plans_alike: bool,
    /// Processes of each host, and so ports of each place.
    pub(crate) processes_per_host: u32,
    /// Whether hosts have several adapters, or a number of processors.
    pub(crate) has_several: bool,
    pub(crate) numbering: Numbering,
    /// Which adapters messages take, if hosts have several.
    pub(crate) spreading: Option<Box<Spreading>>,
    /// The send buffers of hosts, each by its first place.
    pub(crate) buffers: Vec<Buffers>,
    /// The processors of hosts: [`Numbering`] says which is where.
    pub(crate) processors: Vec<Processor>,
    /// The engines of adapters, by place.
    pub(crate) engines: Vec<Engines>,
    /// What runs on the hosts beside drawn traffic, and what it uses of their NICs.
    pub programs: P,
    /// What drawn traffic uses of the hosts' NICs, by host; none where it is not.
    pub(crate) nics: Vec<AlignedNic>,
    /// By port. What belongs to no adapter is in that of the home port.
    pub(crate) processes: Vec<Process>,
    pub(crate) device_streams: Vec<Stream>,
    pub(crate) targets: Targets,
    pub(crate) idle: Idle,
    /// Completions of sends that a process has not taken from a connection that was given back, by
    /// process and peer.
    pub(crate) unreaped: BTreeMap<(u32, u32), u32>,
    /// Whether the adapter interrupts the processor for sends.
    pub(crate) is_interrupted_for_sends: bool,
    /// Of processes that will look at their sends, in such a case: where.
    pub(crate) looks_at_sends: BTreeMap<u32, VecDeque<Look>>,
    pub(crate) messages: Messages,
    pub(crate) accounting: Accounting,
    /// What may fail; nothing, as a rule.
    pub(crate) failures: Option<Box<Failures>>,
    pub(crate) sources: Sources,
    /// Transfers of theirs that have ended.
    pub(crate) transfers: u64,
    /// How far the application is that hosts carry out, if they do.
    pub(crate) operations: Option<Box<Operations>>,
    /// What is kept for programs.
    pub(crate) guests: Guests,
    /// Who watches; see [`crate::why`] and [`crate::record`].
    pub(crate) observer: Option<Observer>,
    pub(crate) windows: LinkWindows,
    /// Whether these are those of a recording.
    pub(crate) records_queues: bool,
    pub(crate) series: Vec<SeriesRow>,
    /// What the run's checks on itself found wrong.
    pub(crate) violations: Vec<String>,
    /// Receive completions that applications took, and messages that programs did.
    pub(crate) completions_taken: u64,
    pub(crate) taken_by_programs: u64,
    pub(crate) queue_depth_max: (u64, u32),
    pub(crate) blocked_depth_max: (u64, u32),
    /// Events that keep a run alive although no message is under way.
    pub(crate) idle_events: usize,
    pub(crate) measured_from: Time,
    /// What links and buses carried up to the time that is simulated, once that is reached: what
    /// they carry afterwards belongs to no time in which messages are posted.
    pub(crate) closed_use: Option<ClosedUse>,
    /// The message that was priced last.
    pub(crate) last_priced: Option<Priced>,
    pub(crate) is_draining: bool,
    /// Whether messages wait for each other for ever.
    stands_still: bool,
}

impl Cluster<NoPrograms> {
    /// A cluster of hosts that have drawn traffic alone.
    pub(crate) fn new(config: &ClusterConfig) -> Result<Self, RunError> {
        Self::with_programs(Arc::new(config.clone()), NoPrograms)
    }
}

impl<P: Programs> Cluster<P> {
    /// A cluster of hosts that have programs, beside the drawn traffic of the configuration.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the configuration cannot be run.
    pub fn with_programs(config: Arc<ClusterConfig>, programs: P) -> Result<Self, RunError> {
        if config.interfaces.is_some() {
            return Err(RunError::NoAdapters);
        }
        let topology = &*config.topology;
        // A place for each adapter, and a process's port at each.
        let host_count = topology.host_count();
        let mut process_count = host_count
            .checked_mul(config.hosts.processes)
            .ok_or(RunError::TooManyProcesses)?;
        config.check_places()?;
        config.check_list()?;
        config.traffic.check()?;
        config.check_adapters()?;
        let targets = match &config.traffic.pattern {
            // Programs alone.
            Pattern::Pairs(pairs) if P::EXIST && pairs.is_empty() => {
                process_count = 0;
                Targets::nobody(&config.topology)
            }
            // Its operations say it.
            _ if config.traffic.application().is_some() => Targets::nobody(&config.topology),
            pattern => Targets::between(
                pattern,
                &config.topology,
                config.hosts.adapters.count,
                config.run.seed,
            )?,
        };
        let mut network = Network::new(
            &config.topology,
            &config.links,
            config.switch,
            config.host.map(HostModel::end),
            P::EXIST,
        );
        network.set_seed(config.run.seed);
        if !config.hosts.adapters.has_own_bus {
            network.share_buses(config.hosts.adapters.count);
        }
        let numbering = Numbering::of(&config);
        let mut queue = EventQueue::new();
        let lanes = Lanes {
            fetched: queue.add_lane(),
            head: queue.add_lane(),
            tail: queue.add_lane(),
            reaped: queue.add_lane(),
            reposted: queue.add_lane(),
        };
        let stream = |purpose, entity: u32| {
            Stream::new(StreamKey {
                seed: config.run.seed,
                purpose,
                entity: u64::from(entity),
            })
        };
        let devices = match config.hosts.bus_load {
            Some(_) if network.has_buses() => host_count,
            _ => 0,
        };
        // Adapters that understand each other are of one kind.
        let mechanism = &config.host.common().mechanism;
        let hardware = config.host.map(Hardware::of);
        let (moving_least, moving_most) = moving_per_vi(&hardware);
        let adapters = if mechanism.is_stateless() {
            0
        } else {
            host_count
        };
        let processors = 0..numbering.processor_count(host_count);
        let mut processors: Vec<Processor> = processors.map(|_| Processor::new()).collect();
        let failures = Failures::new(&config, &mut processors)?;
        let sources = Sources::between(
            &config.background,
            host_count,
            config.hosts.adapters.count,
            config.run.seed,
        )?;
        let windows = match has_growing_windows(&config.traffic) {
            true => LinkWindows::growing(&network, topology),
            false => LinkWindows::new(&network, topology, config.run.until),
        };
        let mut cluster = Self {
            config: Arc::clone(&config),
            reads_ahead: mechanism.reads_ahead(),
            matches_first: Pair::alike(config.host.common())
                .plan_alone(config.host_link(), 0)
                .matches_first,
            adapters: (0..adapters)
                .map(|host| mechanism::AdapterState::new(&config.host.of(host).mechanism))
                .collect(),
            plans: Plans::default(),
            last_plan: LastPlan::default(),
            known_plan: None,
            queue,
            lanes,
            network,
            is_direct: !P::EXIST && config.is_direct(),
            are_heads_in_order: config.are_heads_in_order(),
            may_overtake: moving_most > 1
                && config.traffic.size.min_bytes() < config.traffic.size.max_bytes(),
            order: match P::EXIST && !config.traffic.has_sends_alone() {
                true => Some(true),
                false if moving_least > 1 || moving_most == 1 => Some(moving_most == 1),
                false => None,
            },
            hardware,
            overtakers: BTreeMap::new(),
            untaken: BTreeMap::new(),
            late_receives: BTreeMap::new(),
            heads_matched: 0,
            are_plans_alike: mechanism.is_stateless() && config.host.are_alike(),
            processes_per_host: config.hosts.processes,
            has_several: numbering.has_several(),
            numbering,
            spreading: Spreading::of(&config),
            buffers: (0..host_count)
                .map(|_| Buffers::new(config.hosts.send_buffers))
                .collect(),
            processors,
            engines: (0..host_count).map(|_| Engines::new()).collect(),
            programs,
            nics: drawn_nics(&config, process_count),
            processes: (0..process_count)
                .map(|port| Process::new(stream(purpose::PROCESS, numbering.process_of(port))))
                .collect(),
            device_streams: (0..devices)
                .map(|host| stream(purpose::BUS_LOAD, host))
                .collect(),
            targets,
            idle: Idle::new(config.run.connections_kept, process_count),
            unreaped: BTreeMap::new(),
            looks_at_sends: BTreeMap::new(),
            is_interrupted_for_sends: mechanism.interrupts_senders(),
            messages: Messages::default(),
            accounting: Accounting::new(config.run.warmup, config.run.message_rows_max, P::EXIST),
            failures,
            sources,
            transfers: 0,
            operations: Operations::of(&config),
            guests: Guests::new(if P::EXIST { host_count } else { 0 }, &config),
            observer: None,
            windows,
            records_queues: false,
            series: Vec::new(),
            violations: Vec::new(),
            completions_taken: 0,
            taken_by_programs: 0,
            queue_depth_max: (0, 0),
            blocked_depth_max: (0, 0),
            idle_events: 0,
            measured_from: Time::ZERO,
            closed_use: None,
            last_priced: None,
            is_draining: false,
            stands_still: false,
        };
        cluster.schedule_start();
        Ok(cluster)
    }

    /// Handles events until the run's end.
    pub(crate) fn run(&mut self, control: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Ended {
        let run = self.config.run;
        let events_max = run.events_max.unwrap_or(u64::MAX);
        let messages_max = run.messages_max.unwrap_or(u64::MAX);
        let mut next_control = CONTROL_INTERVAL_EVENTS;
        let mut limit = self.run_until(run.until);
        loop {
            // What is left are timers of devices and windows, and nothing to wait for.
            if self.queue.pending() <= self.idle_events {
                if !self.is_draining {
                    self.close_use(self.end_of_traffic());
                }
                return Ended::Finished;
            }
            let Some(event) = self.next_event(limit) else {
                if self.is_draining {
                    return Ended::Finished;
                }
                self.close_use(run.until);
                if !run.drain {
                    return Ended::Finished;
                }
                self.is_draining = true;
                limit = self.run_until(Time::MAX);
                continue;
            };
            self.look_ahead();
            self.handle(event);
            if self.idle.is_due() {
                self.release_idle();
            }
            if self.is_application_over() {
                if !self.is_draining {
                    self.close_use(self.now());
                }
                return match self.stalled() {
                    None => Ended::Finished,
                    Some(_) => Ended::Stalled,
                };
            }
            if self.stands_still {
                self.close_use(self.now());
                return Ended::Deadlock;
            }
            let events = self.events();
            if events >= events_max {
                return Ended::EventCount;
            }
            if self.accounting.counts.delivered >= messages_max {
                return Ended::MessageCount;
            }
            if events >= next_control {
                next_control = events + CONTROL_INTERVAL_EVENTS;
                if control(self.progress()).is_break() {
                    return Ended::Interrupted;
                }
            }
        }
    }

    /// The next event, if it is not after `limit`; time has moved to it.
    #[inline(always)]
    fn next_event(&mut self, limit: Time) -> Option<Event<P::Event>> {
        self.network.settle(&mut self.queue);
        let (time, event) = self.queue.pop_until(limit)?;
        if self.has_growing_windows() {
            self.close_windows(time);
        }
        Some(event)
    }

    /// Lets the next event happen, if it is not after `limit` and the network does not stand still:
    /// whether one did.
    #[inline]
    pub fn step(&mut self, limit: Time) -> bool {
        if self.stands_still {
            return false;
        }
        let Some(event) = self.next_event(limit) else {
            return false;
        };
        self.look_ahead();
        self.handle(event);
        if self.idle.is_due() {
            self.release_idle();
        }
        true
    }

    /// The semantics of a host's NIC, as the study's own processes use it.
    #[inline(always)]
    pub(crate) fn drawn(&self, host: u32) -> &Nic {
        &self.nics[host as usize]
    }

    /// As [`Cluster::drawn`].
    #[inline(always)]
    pub(crate) fn drawn_mut(&mut self, host: u32) -> &mut Nic {
        &mut self.nics[host as usize]
    }

    /// The semantics of a host's NIC, as whoever posts such messages uses it.
    #[inline(always)]
    pub(crate) fn nic(&self, host: u32, is_of_program: bool) -> &Nic {
        if P::EXIST && is_of_program {
            return self.programs.nic(host);
        }
        self.drawn(host)
    }

    /// As [`Cluster::nic`].
    #[inline(always)]
    pub(crate) fn nic_mut(&mut self, host: u32, is_of_program: bool) -> &mut Nic {
        if P::EXIST && is_of_program {
            return self.programs.nic_mut(host);
        }
        self.drawn_mut(host)
    }

    /// The time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// Moves time on, if nothing is to happen until then; says whether it did.
    #[inline]
    pub fn advance(&mut self, time: Time) -> bool {
        self.network.settle(&mut self.queue);
        self.queue.advance(time)
    }

    /// When something happens next, if anything does.
    pub fn next_time(&mut self) -> Option<Time> {
        self.network.settle(&mut self.queue);
        self.queue.next_time()
    }

    /// Has something happen to programs at a time.
    #[inline]
    pub fn schedule(&mut self, time: Time, event: P::Event) -> EventId {
        self.guests.going += 1;
        self.queue.schedule(time, Event::OfPrograms(event))
    }

    /// Has it not happen, if it has not.
    #[inline]
    pub fn cancel(&mut self, event: EventId) {
        self.guests.going -= u32::from(self.queue.cancel(event));
    }

    /// Hosts of two ends, and the number of the flow from one to the other, of a message.
    #[inline]
    pub(crate) fn ends_of(&self, message: &Message) -> ((u32, u32), u32) {
        if message.is_of::<P>() {
            let flow = message.connection & !OF_PROGRAM;
            return ((message.source, message.target), flow);
        }
        self.config.flow_of(message.source, message.target)
    }

    /// Hosts of two ends, and the number of the flow from one to the other, of what goes back to
    /// the sender of a message.
    pub(crate) fn way_back(&self, message: &Message) -> ((u32, u32), u32) {
        if message.is_of::<P>() {
            let flow = message.connection & !OF_PROGRAM;
            return ((message.target, message.source), flow);
        }
        self.config.flow_of(message.target, message.source)
    }

    /// The host of a message's source or target: of a process, or of a program's the host itself.
    #[inline(always)]
    pub(crate) fn host_of_end(&self, message: &Message, end: u32) -> u32 {
        if message.is_of::<P>() {
            return end;
        }
        self.host_of(end)
    }

    /// A list ends with its last message; other traffic when it stops, though nothing may happen
    /// at that moment.
    fn end_of_traffic(&self) -> Time {
        let now = self.queue.now();
        match self.config.traffic.arrivals {
            Arrivals::Listed(_) | Arrivals::Application(_) => now,
            _ => now.max(self.config.traffic.stop.min(self.config.run.until)),
        }
    }

    /// Whether windows of the time series grow, and end without events.
    #[inline]
    pub(crate) fn has_growing_windows(&self) -> bool {
        match P::EXIST {
            true => self.has_account() || self.records_queues,
            false => self.operations.is_some() || self.records_queues,
        }
    }

    /// Whether messages are what somebody has chosen, and no sample of anything.
    pub(crate) fn is_chosen(&self) -> bool {
        P::EXIST || self.operations.is_some()
    }

    /// Events so far: those of the queue, and heads that were matched without one.
    pub(crate) fn events(&self) -> u64 {
        self.queue.fired() + self.heads_matched
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            now: self.queue.now(),
            until: self.config.run.until,
            events: self.events(),
            posted: self.accounting.counts.posted,
            delivered: self.accounting.counts.delivered,
        }
    }

    /// Schedules an event on a lane, or handles it at once if it is due.
    ///
    /// Stages that cost nothing cost no event.
    #[inline(always)]
    pub(crate) fn after(&mut self, lane: Lane, time: Time, event: Event<P::Event>) {
        if time > self.queue.now() {
            self.queue.schedule_in_lane(lane, time, event);
            return;
        }
        // The usual ones without the way through `handle`.
        match event {
            Event::Fetched(message) => self.handle_fetched(message),
            Event::TailArrives(message) if !self.is_direct => self.arrive(message),
            Event::Reaped(message) => self.handle_reaped(message),
            Event::Reposted(message) => self.handle_reposted(message),
            event => self.handle(event),
        }
    }

    /// The place of a port: the host of a process, where each has one adapter.
    #[inline]
    pub(crate) fn host_of(&self, process: u32) -> u32 {
        // A division costs as much as ten other steps, and most studies do without.
        match self.processes_per_host {
            1 => process,
            processes => process / processes,
        }
    }

    /// As [`Network::transact`].
    #[inline(always)]
    pub(crate) fn short_transaction(&mut self, host: u32, length: Time, own: u32) -> Time {
        self.network.transact(&mut self.queue, host, length, own)
    }

    pub(crate) fn handle(&mut self, event: Event<P::Event>) {
        match event {
            Event::Arrival(process) => self.handle_arrival(process),
            Event::Fetched(message) => self.handle_fetched(message),
            Event::Begins(message) => self.move_in_order(message),
            Event::EngineFree(host) => self.handle_engine_free(host),
            Event::HeadArrives(message) => self.handle_head(message),
            Event::FlowEnds(flow) => {
                let Some(moved) = self.network.end(&mut self.queue, flow) else {
                    self.note_deadlock();
                    return;
                };
                let behind = moved.behind;
                if self.is_direct {
                    self.end_directly(MessageId(moved.tag));
                } else if moved.tag == Self::BACKGROUND_TAG {
                    self.end_background(moved.next);
                } else if moved.tag == Self::DEVICE_TAG {
                    self.follow_device_end(flow);
                } else if P::EXIST && moved.tag & OF_PROGRAM != 0 {
                    self.guests.going -= u32::from(moved.next == Next::There);
                    P::moved(self, moved.tag & !OF_PROGRAM, &moved);
                } else {
                    self.handle_flow_end(MessageId(moved.tag), moved);
                }
                if let Some(behind) = behind {
                    self.go_on(behind);
                }
            }
            Event::Forwarded(message) => self.handle_forwarded(message),
            Event::TailArrives(message) => self.arrive(message),
            Event::Rings(host) => self.handle_ring(host),
            Event::Looks(process) => self.handle_look(process),
            Event::LooksAtSends(process) => self.handle_look_at_sends(process),
            Event::Reaped(message) => self.handle_reaped(message),
            Event::Reposted(message) => self.handle_reposted(message),
            Event::SendReaped(process) => self.post_window(process),
            Event::Operation(place) => self.handle_operation(place),
            Event::Acknowledged(message) => self.handle_acknowledgement(message),
            Event::GivesUp(message) => self.give_up(message),
            Event::Refused(process) => self.handle_refused(process),
            Event::Dies(place) => self.handle_death(place),
            Event::DeathNoticed(host) => self.handle_death_noticed(host),
            Event::CutNoticed(link) => self.handle_cut_noticed(LinkId(link)),
            Event::Background(place) => self.handle_background(place),
            Event::GoesOn(journey) => self.go_on(journey),
            Event::DeviceTransfer(host) => self.handle_device_transfer(host),
            Event::WarmupEnds => self.handle_warmup_end(),
            Event::WindowEnds => self.handle_window_end(),
            Event::Sent(message) => self.handle_sent(message),
            Event::Meets(message) => self.handle_meeting(message),
            Event::Control(number) => self.handle_control(number),
            Event::Follows(number) => self.handle_consequence(number),
            Event::OfPrograms(event) => {
                self.guests.going -= 1;
                P::handle(self, event);
            }
        }
    }

    /// If messages wait for each other for ever, the run is to end.
    fn note_deadlock(&mut self) {
        let Some(text) = self.deadlock().filter(|_| !self.stands_still) else {
            return;
        };
        self.stands_still = true;
        self.violations.push(text);
    }

    /// That messages in the network wait for each other for ever, if they do, and which channels
    /// they hold.
    #[must_use]
    pub fn deadlock(&self) -> Option<String> {
        let deadlock = self.network.deadlock()?;
        let (stuck, remedy) = match self.config.links.sharing {
            Sharing::Credits => (
                "the buffers of these channels are full",
                "more classes of channels (links.channel_classes)",
            ),
            _ => (
                "these links pause since the switches behind them are full",
                "more room (links.buffer)",
            ),
        };
        Some(format!(
            "deadlock at {:.3} us: {stuck}, and each waits for the next, the last for the first: \
             {}; {remedy} or another routing may end it",
            deadlock.at.microseconds_f64(),
            self.config.topology.channel_names(&deadlock.channels)
        ))
    }

    fn schedule_start(&mut self) {
        let config = Arc::clone(&self.config);
        let start = config.traffic.start;
        let sending = match self.operations {
            // Its ranks post what their operations say.
            Some(_) => 0,
            None => self.processes.len() as u32,
        };
        self.schedule_ranks(start);
        let numbering = self.numbering;
        for process in (0..sending).filter(|port| numbering.home_port(*port) == *port) {
            let (host, _) = config.adapter_at(self.host_of(process));
            if self.targets.possible_targets(HostId(host)) == 0 {
                continue;
            }
            match &config.traffic.arrivals {
                Arrivals::Open(_) => self.schedule_arrival(process, start),
                Arrivals::PingPong | Arrivals::Application(_) => {
                    self.queue.schedule(start, Event::Arrival(process));
                }
                Arrivals::Window(_) => {
                    self.queue.schedule(start, Event::SendReaped(process));
                }
                Arrivals::Listed(list) => {
                    let number = self.numbering.process_of(process);
                    self.processes[process as usize].turn = list.first_of(number);
                    self.schedule_arrival(process, start);
                }
            }
        }
        self.expect_failures();
        for (place, first) in self.sources.first() {
            self.expect_transfer(place, first);
        }
        if let Some(load) = &config.hosts.bus_load {
            let hosts = 0..self.device_streams.len() as u32;
            // What crosses a bus that limits nothing disturbs nobody.
            let buses = hosts.filter(|host| config.bus_at(*host) == *host);
            for host in buses.filter(|host| !config.host.of(*host).bus.is_free()) {
                let first = load
                    .interval
                    .sample(&mut self.device_streams[host as usize]);
                self.queue.schedule(first, Event::DeviceTransfer(host));
                self.idle_events += 1;
            }
        }
        if config.run.warmup > Time::ZERO {
            self.queue.schedule(config.run.warmup, Event::WarmupEnds);
            self.idle_events += 1;
        }
        // Programs last as long as they do: nobody knows how long a window would be.
        if !P::EXIST && !has_growing_windows(&config.traffic) {
            self.queue
                .schedule(self.windows.next_end(), Event::WindowEnds);
            self.idle_events += 1;
        }
    }

    fn handle_warmup_end(&mut self) {
        self.idle_events -= 1;
        let now = self.queue.now();
        self.network.credit_all(now);
        self.windows.before_clearing(&self.network);
        self.network.clear_credit();
        self.measured_from = now;
    }

    fn handle_window_end(&mut self) {
        self.idle_events -= 1;
        if self.has_growing_windows() {
            return;
        }
        self.close_window(self.queue.now());
        let next = self.windows.next_end();
        if next <= self.config.run.until {
            self.queue.schedule(next, Event::WindowEnds);
            self.idle_events += 1;
        }
    }

    pub(crate) fn close_window(&mut self, now: Time) {
        let mut row = self.accounting.close_window(now);
        let usage = self.windows.close(&mut self.network, now);
        // A run that ends with a window has no time left for another.
        if let Some(last) = self.series.last_mut().filter(|last| last.end == now) {
            last.join(row);
            return;
        }
        row.link_utilisation_mean = usage.mean;
        row.link_utilisation_max = usage.max;
        self.series.push(row);
    }
}

impl ClusterConfig {
    /// The rate of a link: its own where the topology names one, else that of its kind.
    pub(crate) fn link_rate(&self, link: LinkId) -> viaduct_hardware::Rate {
        self.links.rate_of(&self.topology, link)
    }

    /// Whether a list of messages or an application is for this cluster.
    fn check_list(&self) -> Result<(), RunError> {
        let cluster = (self.host_count(), self.hosts.processes);
        if let Some(application) = self.traffic.application() {
            let made_for = application.made_for();
            return match made_for == cluster {
                true if application.protocol().adapters == self.hosts.adapters => Ok(()),
                true => Err(RunError::AdaptersOfOthers),
                false => Err(RunError::PlacedOnAnother { made_for, cluster }),
            };
        }
        let Arrivals::Listed(list) = &self.traffic.arrivals else {
            return Ok(());
        };
        if list.made_for() != cluster {
            return Err(RunError::ListedForOthers {
                list: list.made_for(),
                cluster,
            });
        }
        let (min, max, _) = list.bytes_range();
        let size = &self.traffic.size;
        if min < size.min_bytes() || max > size.max_bytes() {
            return Err(RunError::ListedSizes {
                list: (min, max),
                sizes: (size.min_bytes(), size.max_bytes()),
            });
        }
        Ok(())
    }

    /// Whether a message crosses all links and both buses at once.
    pub(crate) fn is_all_cut_through(&self) -> bool {
        self.links.switching == Switching::CutThrough
            && self
                .host
                .values()
                .all(|host| host.mechanism.forwarding() == Switching::CutThrough)
    }
}

/// Whether nobody knows how long a run of such traffic will be.
const fn has_growing_windows(traffic: &TrafficConfig) -> bool {
    traffic.application().is_some()
}

/// What drawn traffic uses of the hosts' NICs, if there is any.
fn drawn_nics(config: &ClusterConfig, process_count: u32) -> Vec<AlignedNic> {
    let hosts = match process_count {
        0 => 0,
        _ => config.topology.host_count(),
    };
    let attributes = config
        .host
        .map(|host| Arc::new(nic_attributes(config, &host.name)));
    let nic = |host| AlignedNic(Nic::new(Arc::clone(attributes.of(host))));
    (0..hosts).map(nic).collect()
}

fn nic_attributes(config: &ClusterConfig, name: &str) -> NicAttributes {
    let attributes = NicAttributes {
        name: name.into(),
        ..NicAttributes::default()
    };
    // The buffer pool and `prepost` are the limits of a simulated host, not its work queues.
    let most = config.hosts.send_buffers.max(config.hosts.prepost);
    NicAttributes {
        max_descriptors_per_queue: attributes
            .max_descriptors_per_queue
            .max(most.saturating_add(1)),
        max_completion_queue_entries: attributes.max_completion_queue_entries.max(most),
        ..attributes
    }
}
