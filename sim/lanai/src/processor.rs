//! A host's processor that several processes share: a local scheduler.
//!
//! Round robin with a quantum, on two levels. A process that blocked and is woken by a message is
//! *raised*: it takes the processor at once from one that is not, and gets a fresh quantum; it
//! falls back when it has used that up. So does the time-sharing class of the system that is
//! modelled: who sleeps gains priority, who computes loses it. Among equals the line decides.
//!
//! A process that waits for messages looks at its endpoint all the time, for as long as [`Wait`]
//! lets it; then it blocks, which is a trap into the kernel. A message for a blocked process
//! interrupts the processor. No host knows of another's scheduler.

use std::collections::VecDeque;

use viaduct_engine::Time;
use viaduct_frames::Endpoint;

use crate::agenda::Wake;
use crate::cluster::{Cluster, Message, is_in_frame};
use crate::load::Links;
use crate::process::{Act, Process};
use crate::program::Program;
use crate::ranks::{Ranks, View};
use crate::timesharing::{Phases, Scheduler, Wait};

/// What the processor does until some time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The process computes.
    Compute,
    /// It takes or posts a message: this is not interrupted by other processes.
    Message,
    /// It waits, and looks.
    Spin,
    /// It traps into the kernel to block.
    Block,
    /// From the process that had it before to another.
    Switch,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    kind: Kind,
    span: Time,
    ends_at: Time,
    /// What is posted at the end.
    posts: Option<Message>,
}

/// Where a process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Running or in a line.
    Ready,
    Blocked,
    Over,
}

#[derive(Clone, Debug)]
struct Scheduled {
    process: Process,
    place: Place,
    is_raised: bool,
    quantum_left: Time,
    /// Since it last had something to do.
    spun: Time,
}

/// What a processor's time went into.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) computing: Time,
    pub(crate) messages: Time,
    pub(crate) spinning: Time,
    /// Traps, interrupts, the driver.
    pub(crate) kernel: Time,
    pub(crate) switching: Time,
    pub(crate) switches: u64,
    pub(crate) blocks: u64,
}

/// The processor of a host, its processes and who is next.
#[derive(Clone, Debug)]
pub(crate) struct Processor {
    scheduler: Scheduler,
    processes: Vec<Scheduled>,
    raised: VecDeque<usize>,
    ordinary: VecDeque<usize>,
    running: Option<usize>,
    /// Whose state the caches have.
    last: Option<usize>,
    slice: Option<Slice>,
    /// Until when the kernel has the processor: its work comes before that of processes.
    kernel_until: Time,
    pub(crate) spent: Spent,
    pub(crate) over: usize,
    pub(crate) ended_at: Vec<Time>,
}

impl Processor {
    /// Processes in the order of the line; the first has `first_quantum` left.
    pub(crate) fn new(
        scheduler: Scheduler,
        processes: Vec<Process>,
        line: VecDeque<usize>,
        first_quantum: Time,
    ) -> Self {
        let count = processes.len();
        let mut processes: Vec<Scheduled> = processes
            .into_iter()
            .map(|process| Scheduled {
                process,
                place: Place::Ready,
                is_raised: false,
                quantum_left: scheduler.quantum,
                spun: Time::ZERO,
            })
            .collect();
        if let Some(first) = line.front() {
            processes[*first].quantum_left = first_quantum;
        }
        Self {
            scheduler,
            processes,
            raised: VecDeque::new(),
            ordinary: line,
            running: None,
            last: None,
            slice: None,
            kernel_until: Time::ZERO,
            spent: Spent::default(),
            over: 0,
            ended_at: vec![Time::ZERO; count],
        }
    }

    /// Accounts for what a process did of its slice, up to now.
    fn charge(&mut self, kind: Kind, span: Time, now: Time, ranks: Option<&mut Ranks>) {
        let Some(index) = self.running else { return };
        let running = &mut self.processes[index];
        running.quantum_left = running.quantum_left.saturating_sub(span);
        match kind {
            Kind::Compute => {
                running.process.computed(span, now, ranks);
                running.spun = Time::ZERO;
                self.spent.computing += span;
            }
            Kind::Message => {
                running.spun = Time::ZERO;
                self.spent.messages += span;
            }
            Kind::Spin => {
                running.spun += span;
                self.spent.spinning += span;
            }
            Kind::Block => self.spent.kernel += span,
            Kind::Switch => self.spent.switching += span,
        }
    }

    /// Who runs now: the one that does, or the next of the lines.
    fn choose(&mut self, now: Time) -> Option<usize> {
        loop {
            let Some(index) = self.running else {
                let next = self.raised.pop_front();
                let next = next.or_else(|| self.ordinary.pop_front())?;
                self.running = Some(next);
                if self.scheduler.phases == Phases::Aligned {
                    self.processes[next].quantum_left = self.scheduler.quantum_from(now);
                }
                continue;
            };
            let running = &mut self.processes[index];
            let has_others = !self.raised.is_empty() || !self.ordinary.is_empty();
            if running.quantum_left == Time::ZERO {
                running.is_raised = false;
                running.quantum_left = self.scheduler.quantum_from(now);
                if has_others {
                    self.ordinary.push_back(index);
                    self.running = None;
                    continue;
                }
            } else if !running.is_raised && !self.raised.is_empty() {
                self.ordinary.push_front(index);
                self.running = None;
                continue;
            }
            return Some(index);
        }
    }

    /// A message for a process is in its queue. Whether that wakes it.
    fn notice(&mut self, endpoint: Endpoint, now: Time, ranks: Option<&mut Ranks>) -> bool {
        let of = |it: &Scheduled| it.process.endpoint() == endpoint;
        let Some(index) = self.processes.iter().position(of) else {
            return false;
        };
        let it = &mut self.processes[index];
        it.process.message_came(now, ranks);
        it.place == Place::Blocked && {
            self.wake(index);
            self.scheduler.wait != Wait::Leave
        }
    }

    fn wake(&mut self, index: usize) {
        let it = &mut self.processes[index];
        it.place = Place::Ready;
        it.is_raised = true;
        it.quantum_left = self.scheduler.quantum;
        if self.scheduler.wait != Wait::Leave {
            it.spun = Time::ZERO;
        }
        self.raised.push_back(index);
    }
}

impl Scheduler {
    /// The quantum of a turn that begins now.
    fn quantum_from(&self, now: Time) -> Time {
        let quantum = self.quantum.picoseconds();
        match self.phases {
            Phases::Random => self.quantum,
            // Turns end at the same times on all hosts, whatever happened in the last one.
            Phases::Aligned => Time::from_picoseconds(quantum - now.picoseconds() % quantum),
        }
    }
}

impl<N: Links> Cluster<N> {
    fn processor(&mut self, host: u32) -> Option<&mut Processor> {
        match &mut self.nodes[host as usize].program {
            Program::Processes(processor) => Some(processor),
            _ => None,
        }
    }

    /// The kernel needs a shared processor for `span`; returns when it has had it. None if
    /// processes do not share it.
    pub(crate) fn interrupt_processes(&mut self, host: u32, now: Time, span: Time) -> Option<Time> {
        let processor = self.processor(host)?;
        processor.spent.kernel += span;
        processor.kernel_until = processor.kernel_until.max(now) + span;
        let until = processor.kernel_until;
        if let Some(slice) = &mut processor.slice {
            slice.ends_at += span;
            let at = slice.ends_at;
            self.queue.wake(Wake::Slice(host), at);
        }
        Some(until)
    }

    /// A message is in a queue of a process.
    pub(crate) fn notice(&mut self, host: u32, endpoint: Endpoint, now: Time) {
        let Program::Processes(processor) = &mut self.nodes[host as usize].program else {
            return;
        };
        if processor.notice(endpoint, now, self.ranks.as_deref_mut()) {
            let span = self.config.host.interrupt;
            self.interrupt_processes(host, now, span);
        }
        self.look(host, now);
    }

    /// Something may be different for the processes of a host: room in a queue, a message.
    pub(crate) fn look(&mut self, host: u32, now: Time) {
        let entries = self.config.queue_entries as usize;
        let node = &mut self.nodes[host as usize];
        let Program::Processes(processor) = &mut node.program else {
            return;
        };
        for index in 0..processor.processes.len() {
            let it = &processor.processes[index];
            let queue = &node.endpoints[it.process.endpoint().index()].send_queue;
            let has_room = queue.len() < entries;
            if it.place == Place::Blocked && it.process.can_act(has_room, self.ranks.as_deref()) {
                processor.wake(index);
            }
        }
        let Some(slice) = processor.slice else {
            self.dispatch(host, now);
            return;
        };
        let Some(index) = processor.running else {
            return;
        };
        let running = &processor.processes[index];
        let queue = &node.endpoints[running.process.endpoint().index()].send_queue;
        let has_news = (running.process).can_act(queue.len() < entries, self.ranks.as_deref());
        let is_taken = !running.is_raised && !processor.raised.is_empty();
        let is_cut = match slice.kind {
            Kind::Spin => has_news || is_taken,
            Kind::Compute => is_taken,
            Kind::Message | Kind::Block | Kind::Switch => false,
        };
        if is_cut {
            let left = slice
                .ends_at
                .saturating_sub(processor.kernel_until.max(now));
            let span = slice.span - left.min(slice.span);
            processor.charge(slice.kind, span, now, self.ranks.as_deref_mut());
            processor.slice = None;
            self.queue.withdraw(Wake::Slice(host));
            self.dispatch(host, now);
        }
    }

    /// What the processor did is over.
    pub(crate) fn slice_ended(&mut self, host: u32, now: Time) {
        let entries = self.config.queue_entries as usize;
        let node = &mut self.nodes[host as usize];
        let Program::Processes(processor) = &mut node.program else {
            return;
        };
        let Some(slice) = processor.slice.take() else {
            return;
        };
        processor.charge(slice.kind, slice.span, now, self.ranks.as_deref_mut());
        if slice.kind == Kind::Block
            && let Some(index) = processor.running
        {
            let it = &mut processor.processes[index];
            it.spun = Time::ZERO;
            let queue = &node.endpoints[it.process.endpoint().index()].send_queue;
            // What came meanwhile keeps it from sleeping.
            if !(it.process).can_act(queue.len() < entries, self.ranks.as_deref()) {
                it.place = Place::Blocked;
                processor.spent.blocks += 1;
                processor.running = None;
            }
        }
        if let Some(message) = slice.posts {
            let message = self.messages.add(message);
            let fault = self.post(host, message, now);
            if fault > Time::ZERO {
                self.interrupt_processes(host, now, fault);
            }
        }
        if slice.kind == Kind::Message {
            self.rank_is_done(host, now);
        }
        self.dispatch(host, now);
    }

    /// The processor has ended what it did for the messages of the process that runs.
    fn rank_is_done(&mut self, host: u32, now: Time) {
        if let Some(ranks) = &mut self.ranks
            && let Program::Processes(processor) = &self.nodes[host as usize].program
            && let Some(running) = processor.running
            && let Process::Rank(rank, _) = processor.processes[running].process
        {
            ranks.done(rank, now);
        }
    }

    /// Has the processor begin what is next.
    fn dispatch(&mut self, host: u32, now: Time) {
        self.begin_next(host, now);
        self.schedule_ranks();
    }

    fn begin_next(&mut self, host: u32, now: Time) {
        let costs = self.config.host;
        let pace = self.pace(host, now);
        let entries = self.config.queue_entries as usize;
        let node = &mut self.nodes[host as usize];
        let Program::Processes(processor) = &mut node.program else {
            return;
        };
        let (kind, span, posts) = loop {
            let Some(index) = processor.choose(now) else {
                return;
            };
            let takes_time = processor.scheduler.switch > Time::ZERO;
            if takes_time && processor.last != Some(index) {
                let is_first = processor.last.replace(index).is_none();
                if !is_first {
                    processor.spent.switches += 1;
                    break (Kind::Switch, processor.scheduler.switch, None);
                }
            }
            let is_alone = processor.raised.is_empty() && processor.ordinary.is_empty();
            let Scheduled {
                process,
                quantum_left,
                spun,
                place,
                ..
            } = &mut processor.processes[index];
            let is_in_frame = is_in_frame(&node.driver, process.endpoint());
            let state = &mut node.endpoints[process.endpoint().index()];
            let view = View {
                endpoint: state,
                entries,
                now,
                costs: &costs,
                pace,
                is_in_frame,
                has_looked: *spun > Time::ZERO,
            };
            match process.act(host, view, self.ranks.as_deref_mut()) {
                Act::Message(span, posts) => break (Kind::Message, span, posts),
                Act::Compute(left) => break (Kind::Compute, left.min(*quantum_left), None),
                Act::Wait => {
                    let spin_left = match processor.scheduler.wait {
                        // Nobody else wants the processor: a rank looks until something comes.
                        Wait::Spin if is_alone && self.ranks.is_some() => {
                            *spun = (*spun).max(Time::from_picoseconds(1));
                            return;
                        }
                        Wait::Spin => *quantum_left,
                        Wait::Leave => {
                            *spun = Time::from_picoseconds(1);
                            *place = Place::Blocked;
                            processor.running = None;
                            continue;
                        }
                        Wait::Block => Time::ZERO,
                        Wait::TwoPhase(spin) => spin.saturating_sub(*spun),
                    };
                    if spin_left == Time::ZERO {
                        break (Kind::Block, costs.fault, None);
                    }
                    break (Kind::Spin, spin_left.min(*quantum_left), None);
                }
                Act::Over => {
                    *place = Place::Over;
                    processor.running = None;
                    processor.over += 1;
                    processor.ended_at[index] = now;
                }
            }
        };
        let ends_at = now.max(processor.kernel_until) + span;
        self.queue.wake(Wake::Slice(host), ends_at);
        processor.slice = Some(Slice {
            kind,
            span,
            ends_at,
            posts,
        });
    }
}
