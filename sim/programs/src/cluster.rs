//! The state of a simulation, and what happens in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use viaduct_agent::Call;
use viaduct_engine::{EventQueue, Time};
use viaduct_hardware::mechanism::LastPlan;
use viaduct_network::Network;
use viaduct_provider::ViHandle;
use viaduct_provider::via::{NicAttributes, Timestamp, ViId};

use crate::config::SimulationConfig;
use crate::control::Controls;
use crate::counts::Counts;
use crate::event::{Code, Event};
use crate::executor::Spawn;
use crate::failures::Expected;
use crate::host::{DEVICE, DEVICE_NAME, Host};
use crate::message::Messages;
use crate::raw::RawWrites;
use crate::tasks::{TaskId, Tasks};
use crate::traffic::Generators;
use viaduct_cluster::faults::Faults;

/// What a simulation's lock protects.
pub(crate) struct Cluster {
    pub(crate) config: SimulationConfig,
    pub(crate) queue: EventQueue<Code>,
    pub(crate) network: Network,
    pub(crate) hosts: Vec<Host>,
    pub(crate) messages: Messages,
    pub(crate) last_plan: LastPlan,
    /// What CLAN's programs do below VIA.
    pub(crate) raw: RawWrites,
    pub(crate) controls: Controls,
    pub(crate) tasks: Tasks,
    /// Programs that were started and have no stack yet.
    pub(crate) spawned: VecDeque<Spawn>,
    /// Hosts whose handlers are to be called.
    pub(crate) calls: VecDeque<u32>,
    pub(crate) counts: Counts,
    /// When the future that is being polled wants to go on.
    pub(crate) wake_at: Option<Time>,
    /// Whether a change on its host wakes the future that is being polled.
    pub(crate) is_watching: bool,
    /// What is wrong; `None` as long as nothing can be.
    pub(crate) faults: Option<Box<Faults>>,
    pub(crate) expected: Expected,
    pub(crate) generators: Generators,
    /// VIs that an event concerned; kept to be used again.
    touched: Vec<ViHandle>,
}

/// In the mean, what is looked for in rounds is found in the middle of one.
pub(crate) const fn half(round: Time) -> Time {
    Time::from_picoseconds(round.picoseconds() / 2)
}

impl Cluster {
    pub(crate) fn new(config: SimulationConfig) -> Self {
        let attributes = Arc::new(NicAttributes {
            max_transfer_bytes: config.host.transfer_max_bytes,
            ..NicAttributes::default()
        });
        let name = Arc::from(DEVICE_NAME);
        let hosts = (0..config.topology.host_count())
            .map(|number| Host::new(number, &config.host, &name, &attributes))
            .collect();
        let mut cluster = Self {
            network: Network::new(
                &config.topology,
                &config.links,
                config.switch,
                config.host.ends(),
                true,
            ),
            queue: EventQueue::new(),
            hosts,
            messages: Messages::default(),
            last_plan: LastPlan::default(),
            raw: RawWrites::default(),
            controls: Controls::default(),
            tasks: Tasks::default(),
            spawned: VecDeque::new(),
            calls: VecDeque::new(),
            counts: Counts::default(),
            wake_at: None,
            is_watching: false,
            faults: None,
            expected: Expected::default(),
            generators: Generators::default(),
            touched: Vec::new(),
            config,
        };
        cluster.expect_faults();
        cluster.expect_traffic();
        cluster
    }

    #[inline]
    pub(crate) fn host(&mut self, host: u32) -> &mut Host {
        &mut self.hosts[host as usize]
    }

    /// Whether nothing but an event is to come.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_idle() && !self.has_calls()
    }

    /// Whether programs are to be started or handlers to be called.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        !self.spawned.is_empty() || !self.calls.is_empty()
    }

    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// As the semantics counts time.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_picoseconds(self.now().picoseconds())
    }

    /// The next event, if it is not after `limit`; time has moved to it.
    #[inline(always)]
    pub(crate) fn next_event(&mut self, limit: Time) -> Option<Event> {
        self.network.settle(&mut self.queue);
        self.queue.pop_until(limit)?.1.event()
    }

    /// Moves time on, if nothing is to happen until then; says whether it did.
    #[inline]
    pub(crate) fn advance(&mut self, time: Time) -> bool {
        self.network.settle(&mut self.queue);
        self.queue.advance(time)
    }

    /// Lets one thing happen.
    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::Wake(task, wait) => self.tasks.end_wait(task, wait),
            Event::Doorbell(host, vi) => self.handle_doorbell(host, vi),
            Event::Fetched(message) => self.handle_fetched(message),
            Event::Begins(message) => self.move_in_order(message),
            Event::Heads(message) => self.handle_head(message),
            Event::FlowEnds(flow) => self.handle_flow_end(flow),
            Event::Forwarded(journey) => self.handle_forwarded(journey),
            Event::EngineFree(host) => self.handle_engine_free(host),
            Event::Sent(message) => self.handle_sent(message),
            Event::Arrives(message) => self.handle_arrival(message),
            Event::Acknowledged(message) => self.handle_acknowledgement(message),
            Event::Control(number) => self.handle_control(number),
            Event::Call(host) => self.calls.push_back(host),
            Event::Follows(number) => self.handle_consequence(number),
            Event::Transfers(place) => self.handle_transfer(place),
            Event::Raw(event) => self.handle_raw(event),
            Event::Timeout(host) => {
                self.host(host).timeout = None;
                let now = self.timestamp();
                self.host(host).agent.expire(now);
                self.follow(host, None);
            }
        }
    }

    /// What follows from an operation or event on a host, about a VI if one is given.
    pub(crate) fn follow(&mut self, host: u32, vi: Option<ViHandle>) {
        let mut touched = core::mem::take(&mut self.touched);
        if let Some(vi) = vi {
            touched.push(vi);
            if let Some((_, id)) = self.host(host).agent.place_of(vi) {
                self.kick(host, id);
            }
        }
        self.follow_touched(host, &mut touched);
        touched.clear();
        self.touched = touched;
    }

    /// What follows from a post: as a rule nothing but that a send starts.
    pub(crate) fn follow_post(&mut self, host: u32, vi: ViHandle, id: Option<ViId>) {
        let mut is_complete = false;
        if let Some(id) = id {
            let (has_sends, has_completions) = self.host(host).nic().pending_work(id);
            is_complete = has_completions;
            if has_sends {
                self.start_sends(host, id);
                is_complete = self.host(host).nic().has_completions(id);
            }
        }
        let state = &mut self.hosts[host as usize];
        if is_complete || !state.nic().is_silent() || state.agent.has_jobs() {
            let mut touched = core::mem::take(&mut self.touched);
            touched.push(vi);
            self.follow_touched(host, &mut touched);
            touched.clear();
            self.touched = touched;
        }
    }

    fn follow_touched(&mut self, host: u32, touched: &mut Vec<ViHandle>) {
        if self.is_dead(host) {
            return;
        }
        // As a rule nothing is to be drained.
        while !self.host(host).nic().is_silent() {
            let mut has_moved = false;
            while let Some(transmit) = self.host(host).nic().poll_transmit() {
                self.send_control(host, transmit);
                has_moved = true;
            }
            while let Some(ready) = self.host(host).nic().poll_ready() {
                self.kick(host, ready);
                touched.extend(self.host(host).agent.handle_of(DEVICE, ready));
                has_moved = true;
            }
            while let Some(event) = self.host(host).nic().poll_event() {
                let first = touched.len();
                self.host(host).agent.hear(DEVICE, event, touched);
                for &vi in &touched[first..] {
                    self.tell_receives(host, vi);
                }
                has_moved = true;
            }
            if !has_moved {
                break;
            }
            self.host(host).nic().release_events();
        }
        for &vi in touched.iter() {
            self.host(host).agent.settle(vi);
        }
        self.host(host).agent.notify_entries();
        if !self.host(host).nic().is_silent() {
            self.set_timeout(host);
        }
        self.changed(host);
    }

    /// A VI of a host has something that its program may take.
    pub(crate) fn settle(&mut self, host: u32, vi: ViId) {
        let is_dead = self.is_dead(host);
        let agent = &mut self.hosts[host as usize].agent;
        let Some(handle) = agent.handle_of(DEVICE, vi) else {
            return self.follow(host, None);
        };
        if is_dead || !agent.devices[DEVICE].nic.is_silent() {
            let mut touched = core::mem::take(&mut self.touched);
            touched.push(handle);
            self.follow_touched(host, &mut touched);
            touched.clear();
            self.touched = touched;
            return;
        }
        // As a rule there is nothing else to follow.
        agent.settle(handle);
        agent.notify_entries();
        self.changed(host);
    }

    /// Something changed on a host: whoever watches it looks.
    pub(crate) fn changed(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        for &task in &state.watchers {
            self.tasks.notice(task);
        }
        state.watchers.clear();
        if state.agent.has_jobs() && state.handler.is_none() {
            state.handler = Some(TaskId(u32::MAX));
            let done = self.interrupt(host);
            self.queue.schedule(done, Event::Call(host).into());
        }
    }

    /// The next call of a host's handlers, which has read of the event queue what it is about.
    pub(crate) fn next_call(&mut self, host: u32) -> Option<Call> {
        let call = self.host(host).agent.next_call()?;
        let (read, now) = (self.read_event(host), self.now());
        self.host(host).work(now, read);
        Some(call)
    }

    /// The next waker of a host, as [`Cluster::next_call`].
    pub(crate) fn next_wake(&mut self, host: u32) -> Option<Waker> {
        let waker = self.host(host).agent.next_wake()?;
        let (read, now) = (self.read_event(host), self.now());
        self.host(host).work(now, read);
        Some(waker)
    }

    /// A host's processor is interrupted for somebody who sleeps; when it has woken them.
    pub(crate) fn interrupt(&mut self, host: u32) -> Time {
        let model = self.config.host.processor;
        let now = self.now();
        let notices = self.host(host).notices.as_ref();
        if let Some(round) = notices.and_then(|notices| notices.round()) {
            // Whoever calls handlers cannot sleep for what no tripwire watches: it looks.
            return self.host(host).work(now, model.polling_delay + half(round));
        }
        self.wake(host)
    }

    /// An interrupt, and scheduling whoever sleeps; when that is over.
    pub(crate) fn wake(&mut self, host: u32) -> Time {
        self.counts.wake_ups += 1;
        let model = self.config.host.processor;
        let now = self.now();
        let state = self.host(host);
        let notices = state.notices.as_ref();
        let served = notices.map_or(Time::ZERO, |notices| notices.interrupt_served());
        let interrupt = model.interrupt.saturating_sub(served);
        state.work(now, interrupt + model.wake_up)
    }

    fn set_timeout(&mut self, host: u32) {
        let Some(due) = self.host(host).agent.next_timeout() else {
            return;
        };
        if due == Timestamp::NEVER {
            return;
        }
        let due = Time::from_picoseconds(due.picoseconds()).max(self.now());
        if let Some((time, event)) = self.host(host).timeout {
            if time <= due {
                return;
            }
            self.queue.cancel(event);
        }
        let event = self.queue.schedule(due, Event::Timeout(host).into());
        self.host(host).timeout = Some((due, event));
    }
}
