//! Takes clients in, gives them the turn one by one, and drives the world between.

mod counter;
mod descriptors;
mod listener;
mod loopback;
mod order;
mod outside;
mod processes;
mod tasks;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::hosts::HostAddresses;
use crate::seat::{Reply, Request, TIME_MAX, Times, outside as outside_does};
use crate::waited::Told;
use crate::world::{Outcome, Process, Thread, World};
use counter::WithoutCounter;
use descriptors::Descriptors;
pub use listener::Stopper;
use listener::{Event, Listener};
use loopback::Loopback;
use order::{Due, Key, Order, Real, Step, Wait};
use outside::Outside;
use processes::Processes;
use tasks::Sleep;

/// How long nothing may go on, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between rounds of tries when only something outside can end a wait.
const HOLD_FIRST: Duration = Duration::from_millis(1);
const HOLD_LAST: Duration = Duration::from_millis(50);
/// A sleeper looks again after this long, whatever happens: a client may have spoilt the bell.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Turns one after the other in which threads only asked the world, after which those that wait for
/// something real are not to try after each: what was done before may take the system a moment.
const UNSEEN_TURNS_MIN: u32 = 64;
/// Then they try after so many. What is not known of a program, such as what it writes by the C
/// library's streams, may be what they wait for.
const UNSEEN_TURNS_BETWEEN: u32 = 32;
/// How long a process that a client has made may take to become one.
const BIRTH_LIMIT: Duration = Duration::from_secs(10);

/// Where a program's output and its errors go.
pub type Output = [OwnedFd; 2];

/// Stands between a program on a host and where that writes.
type Between = dyn FnMut(u32, Output) -> io::Result<Output> + Send;

struct Outputs(Box<Between>);

impl fmt::Debug for Outputs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Outputs")
    }
}

/// Where processes become clients.
#[derive(Debug)]
pub struct Coordinator {
    outputs: Option<Outputs>,
    listener: Listener,
    hosts: u32,
    addresses: HostAddresses,
    expected: Vec<processes::Expected>,
    clients_min: u32,
    outside: Vec<i32>,
    patience: Duration,
    computing_ps_per_ns: u64,
}

/// A run that came to its end: all clients have gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ended {
    /// The time reached.
    pub time: u64,
    /// How often the turn was given.
    pub turns: u64,
    /// Processes that were clients.
    pub processes: u32,
    /// What was not as it should be: times may differ from run to run.
    pub notices: Vec<String>,
    /// What is the same in each run and the user may not expect.
    pub remarks: Vec<String>,
}

/// A thread that waits when nothing can go on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// Which one.
    pub thread: Thread,
    /// Its clock.
    pub since: u64,
    /// The call that it made.
    pub call: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { host, pid, .. } = self.thread.process;
        let (number, call, since) = (self.thread.number, &self.call, self.since as f64 / 1e6);
        write!(
            formatter,
            "thread {number} of process {pid} on host {host} is in {call} since {since:.3} us"
        )
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum RunError {
    /// Nothing can go on: each of these waits for what never comes.
    Stuck(Vec<Waiting>),
    /// The thread that has the turn sleeps in a call of the system that none of our functions
    /// made, which would have given the turn.
    Blocked(Waiting),
    /// No other process has become a client for long, and so many have.
    Missing(u32),
    /// [`Stopper::stop`].
    Stopped,
    /// What the system said.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(waiting) => {
                formatter.write_str("nothing can go on:")?;
                for (number, waiting) in waiting.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    write!(formatter, "{comma} {waiting}")?;
                }
                Ok(())
            }
            Self::Blocked(waiting) => write!(
                formatter,
                "nothing can go on: {waiting} of simulated time, and holds up the others: it made \
                 this call of the system by itself, or by a stream of the C library"
            ),
            Self::Missing(come) => write!(
                formatter,
                "not all programs that the run begins with have come: {come} take part"
            ),
            Self::Stopped => formatter.write_str("the run was stopped"),
            Self::System(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Coordinator {
    /// Binds a socket, whose path clients are to find in [`crate::SOCKET_VARIABLE`], for clients on
    /// so many hosts.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind(path: &Path, hosts: u32) -> io::Result<Self> {
        Ok(Self {
            outputs: None,
            listener: Listener::bind(path)?,
            hosts: hosts.max(1),
            addresses: HostAddresses::default(),
            expected: Vec::new(),
            clients_min: 0,
            outside: Vec::new(),
            patience: PATIENCE,
            computing_ps_per_ns: 0,
        })
    }

    /// Says what addresses hosts have: those of a run that is alone, if nothing is said.
    pub const fn set_addresses(&mut self, addresses: HostAddresses) {
        self.addresses = addresses;
    }

    /// Has the run begin when this process, which was started for it, has become a client or ended.
    pub fn expect_process(&mut self, pid: u32) {
        let known = processes::Expected::new(&mut self.listener, pid);
        self.expected.extend(known);
    }

    /// Has the run begin when there are so many clients, whoever started them; or when all expected
    /// processes have ended.
    pub fn expect_clients(&mut self, count: u32) {
        self.clients_min = count;
    }

    /// Has time stand whenever this process, or one that it has started and that is no client, has
    /// something to do about what clients have told it: whoever starts clients, such as `mpiexec`.
    pub fn heed_outside(&mut self, pid: u32) {
        self.outside.extend(i32::try_from(pid));
    }

    /// Has each client that no other client has started write elsewhere: `between` is told its
    /// host and where it would write, and returns where it does. The client and those that it
    /// starts hold that, and nobody here: it comes to its end when the last of them has gone. What
    /// `between` fails for, and a client of which a stream is closed, writes as it would.
    pub fn set_outputs(
        &mut self,
        between: impl FnMut(u32, Output) -> io::Result<Output> + Send + 'static,
    ) {
        self.outputs = Some(Outputs(Box::new(between)));
    }

    /// How long, in real time, nothing may go on while clients wait for what is real, or before
    /// those that are expected have come: 60 s.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Has clients be charged what their threads compute between calls, so many picoseconds for
    /// each nanosecond of the processor: no two runs are equal then. It is free unless told.
    pub fn count_computing(&mut self, ps_per_ns: u64) {
        self.computing_ps_per_ns = ps_per_ns;
    }

    /// What ends the run from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.listener.stopper()
    }

    /// Waits for the clients that are expected, and gives turns until the last client has gone.
    /// What would happen in the world after that does not. Clients that are left when a run ends
    /// early are killed: none would ever have a turn again.
    ///
    /// # Errors
    ///
    /// Why it ended early.
    pub fn run(self, world: &mut dyn World) -> Result<Ended, RunError> {
        let processes = Processes::new(
            self.listener,
            self.hosts,
            self.addresses,
            self.expected,
            self.clients_min,
            self.computing_ps_per_ns,
            self.outputs,
        );
        let mut run = Run {
            world,
            processes,
            order: Order::default(),
            now: 0,
            turns: 0,
            unseen_turns: 0,
            descriptors: Descriptors::new()?,
            descriptors_round: 0,
            outside: Outside::new(self.outside),
            is_outside_told: true,
            has_packets: false,
            loopback: Loopback::new(),
            without_counter: WithoutCounter::new(),
            interruptions: 0,
            patience: self.patience,
        };
        if let Err(error) = run.gather().and_then(|()| run.turns()) {
            run.processes.kill_all();
            return Err(error);
        }
        Ok(Ended {
            time: run.now,
            turns: run.turns,
            processes: run.processes.count(),
            notices: run.processes.take_notices(),
            remarks: run.processes.take_remarks(),
        })
    }
}

struct Run<'world> {
    world: &'world mut dyn World,
    processes: Processes,
    order: Order,
    now: u64,
    turns: u64,
    /// One after the other in which threads only asked the world.
    unseen_turns: u32,
    /// Where clients wait, and the round in which they were looked at.
    descriptors: Descriptors,
    descriptors_round: u64,
    outside: Outside,
    /// Since they rested, clients may have told those outside something.
    is_outside_told: bool,
    /// Since all packets had come, clients may have sent some.
    has_packets: bool,
    loopback: Loopback,
    without_counter: WithoutCounter,
    /// As the bell had them counted.
    interruptions: u32,
    patience: Duration,
}

impl Run<'_> {
    /// Takes what came from outside.
    fn hear(&mut self) -> Result<(), RunError> {
        while let Some(event) = self.processes.listener().next() {
            match event {
                Event::Connection => {
                    for replaced in self.processes.accept()? {
                        self.end_process(replaced);
                    }
                }
                Event::Ended(watched) => {
                    if let Some(process) = self.processes.ended(watched) {
                        self.end_process(process);
                    }
                }
                Event::Stop => {}
            }
        }
        if self.processes.listener().wants_stop() {
            return Err(RunError::Stopped);
        }
        Ok(())
    }

    /// A process is not there any more: its end has its place in the order.
    fn end_process(&mut self, ended: processes::Gone) {
        for thread in ended.threads {
            self.order.remove(thread);
            self.descriptors.forget(thread);
        }
        self.is_outside_told = true;
        if ended.clock.is_some() {
            // It gave the turn by ending.
            self.order.next_round(Some(ended.process));
            let host = ended.process.host;
            let at = ended.clock.unwrap_or(self.now);
            self.order.look(at, |other| other.host == host);
        }
        let at = ended.clock.unwrap_or(self.now).max(self.now);
        let last = Thread {
            process: ended.process,
            number: u32::MAX,
        };
        if let Some((thread, posts)) = ended.last_turn
            && !posts.is_empty()
        {
            let posts = posts.into_iter();
            let steps = posts.map(|(at, post)| (at, Step::Post(post))).collect();
            self.order.put(thread, at, steps, Wait::Nothing, None);
        }
        let steps = VecDeque::from([(at, Step::Gone)]);
        self.order.put(last, at, steps, Wait::Nothing, None);
    }

    /// Waits for those that are expected.
    fn gather(&mut self) -> Result<(), RunError> {
        let mut last = Instant::now();
        let mut come = 0;
        loop {
            let heard = self.processes.bell().heard();
            self.hear()?;
            if self.processes.is_complete() {
                break;
            }
            if self.processes.strangers() != come {
                (come, last) = (self.processes.strangers(), Instant::now());
            } else if last.elapsed() > self.patience {
                return Err(RunError::Missing(come));
            }
            self.processes.bell().wait(heard, LONGEST_SLEEP);
        }
        self.admit_all()
    }

    /// Lets in whoever has connected, in order of host and rank.
    fn admit_all(&mut self) -> Result<(), RunError> {
        while let Some(stranger) = self.processes.next_stranger() {
            self.admit(stranger, self.now)?;
        }
        Ok(())
    }

    fn admit(&mut self, stranger: processes::Stranger, not_before: u64) -> Result<(), RunError> {
        let not_before = not_before.max(stranger.not_before());
        let process = self.processes.admit(stranger);
        self.world.came(process, not_before);
        let Some(seat) = self.processes.first_seat(process) else {
            return Ok(());
        };
        loop {
            let heard = self.processes.bell().heard();
            if seat.has_given() || !self.processes.is_alive(process) {
                break;
            }
            self.hear()?;
            self.processes.bell().wait(heard, LONGEST_SLEEP);
        }
        self.newcomers(not_before);
        Ok(())
    }

    /// Lets threads have their first turn that have sat down.
    fn newcomers(&mut self, not_before: u64) {
        for (thread, clock) in self.processes.newcomers(not_before) {
            let steps = VecDeque::from([(clock, Step::Resume)]);
            self.order.put(thread, clock, steps, Wait::Nothing, None);
        }
    }

    fn turns(&mut self) -> Result<(), RunError> {
        let mut hold = Hold::default();
        loop {
            self.processes.bury();
            self.hear()?;
            self.admit_all()?;
            self.newcomers(self.now);
            self.heed_interruptions(self.now);
            while let Some((host, died)) = self.world.died() {
                for gone in self.processes.kill_of(host, died) {
                    self.end_process(gone);
                }
            }
            while let Some((thread, when, answer)) = self.world.ready() {
                self.order.answer(thread, when.max(self.now), answer);
            }
            while let Some(process) = self.world.written() {
                self.order.look(self.now, |other| other == process);
            }
            if self.world.has_rung() {
                self.order.next_round(None);
            }
            let first = self.order.first();
            if first.is_none() && self.processes.is_empty() {
                return Ok(());
            }
            let target = first.map_or(u64::MAX, |key| key.at);
            if target > self.now {
                // Whoever looks finds all that those outside have to tell, and not as much as they
                // happen to have told.
                if self.has_outside_done() {
                    continue;
                }
                self.look_at_descriptors();
                if let Some(key) = self.order.to_try() {
                    self.retry(key)?;
                    continue;
                }
            }
            if self.world.next_event().is_some_and(|at| at <= target) {
                let reached = self.world.advance(target);
                self.now = self.now.max(reached.min(target));
                hold = Hold::default();
            } else if let Some(first) = first {
                self.now = self.now.max(first.at);
                self.take_first()?;
                hold = Hold::default();
            } else if self.order.has_onlookers() && hold.is_within(self.patience) {
                self.hold(&mut hold)?;
            } else {
                return Err(RunError::Stuck(self.waiting()));
            }
        }
    }

    /// Does what is first in the order.
    fn take_first(&mut self) -> Result<(), RunError> {
        let Some((Key { at, thread }, due)) = self.order.take_first() else {
            return Ok(());
        };
        match due {
            Due::Step(Step::Resume) => self.turn(thread, Reply::Granted, at),
            Due::Step(Step::Post(request)) => {
                self.world.post(thread, at, &request);
                Ok(())
            }
            Due::Step(Step::Call(request)) => self.call(thread, at, &request),
            Due::Step(Step::Answer(answer)) => {
                self.processes.put_answer(thread, &answer);
                self.turn(thread, Reply::Granted, at)
            }
            Due::Step(Step::End) => {
                self.processes.free_seat(thread);
                self.order.next_round(Some(thread.process));
                Ok(())
            }
            Due::Step(Step::Gone) => {
                self.order.next_round(Some(thread.process));
                self.world.gone(thread.process, at);
                Ok(())
            }
            Due::Expired(wait) => {
                if wait == Wait::World {
                    self.world.gave_up(thread, at);
                }
                self.turn(thread, Reply::Expired, at)
            }
        }
    }

    fn call(&mut self, thread: Thread, at: u64, request: &[u8]) -> Result<(), RunError> {
        let mut answer = Vec::new();
        match self.world.call(thread, at, request, &mut answer) {
            Outcome::Done { cost } => {
                self.processes.put_answer(thread, &answer);
                let clock = at.saturating_add(cost).min(TIME_MAX);
                self.turn(thread, Reply::Granted, clock)
            }
            Outcome::Waits { until } => {
                let steps = VecDeque::new();
                self.order.put(thread, at, steps, Wait::World, until);
                Ok(())
            }
        }
    }

    /// Has a thread try again that waits for something real; true: it was not in vain.
    fn retry(&mut self, key: Key) -> Result<bool, RunError> {
        let round = self.turns;
        let Some((clock, _)) = self.order.take_foreign(key.thread) else {
            return Ok(false);
        };
        self.now = self.now.max(clock);
        let was_in_vain = self.turn_until(key.thread, Reply::Retry, clock)?;
        debug_assert!(self.turns > round);
        Ok(!was_in_vain)
    }

    fn turn(&mut self, thread: Thread, reply: Reply, clock: u64) -> Result<(), RunError> {
        self.turn_until(thread, reply, clock).map(|_| ())
    }

    /// Gives a thread the turn and takes it back, with what it asks for; true: it only tried
    /// something, in vain.
    fn turn_until(
        &mut self,
        thread: Thread,
        mut reply: Reply,
        mut clock: u64,
    ) -> Result<bool, RunError> {
        let Some(seat) = self.processes.seat(thread) else {
            return Ok(false);
        };
        let mut steps = VecDeque::new();
        let mut is_seen = false;
        self.descriptors.forget(thread);
        self.processes.set_holder(Some((thread, clock)));
        let asked = loop {
            self.turns += 1;
            self.without_counter.renew();
            let times = Times {
                clock,
                now: self.now,
                horizon: self.horizon(),
                quiet_until: self.quiet_until(thread, clock),
                outside: match (self.outside.is_nobody(), self.is_outside_told) {
                    (true, _) => outside_does::NOBODY,
                    (_, true) => outside_does::TOLD,
                    (_, false) => outside_does::RESTS,
                },
            };
            seat.hand_over(reply, &times);
            if !self.await_given(thread)? {
                // Its end is in the order.
                return Ok(false);
            }
            let asked = match seat.asked(clock) {
                Ok(asked) => asked,
                Err(reason) => {
                    if let Some(gone) = self.processes.kill(thread.process, reason) {
                        self.end_process(gone);
                    }
                    return Ok(false);
                }
            };
            let posts = asked.posts.into_iter();
            steps.extend(posts.map(|(at, post)| (at, Step::Post(post))));
            clock = asked.clock;
            // Who sleeps, waits or ends is not taken to have only asked the world.
            is_seen |= asked.is_seen || asked.request != Request::Call;
            self.is_outside_told |= asked.is_seen_outside;
            self.has_packets |= asked.is_seen_outside;
            match asked.request {
                Request::Born => self.await_birth(asked.until, clock)?,
                Request::Refused => self.processes.remark_refused(thread.process),
                Request::Look => {
                    self.has_outside_done();
                }
                request => break (request, asked.until, asked.message),
            }
            reply = Reply::Granted;
        };
        self.processes.set_holder(None);
        let (request, until, message) = asked;
        let was_in_vain =
            matches!(request, Request::Again | Request::MemoryAgain) && steps.is_empty();
        if !was_in_vain {
            self.unseen_turns = match is_seen {
                true => 0,
                false => self.unseen_turns.saturating_add(1),
            };
            if self.unseen_turns <= UNSEEN_TURNS_MIN
                || self.unseen_turns.is_multiple_of(UNSEEN_TURNS_BETWEEN)
            {
                self.order.next_round(Some(thread.process));
            }
            // What it has written is there for those that share memory with it.
            let host = thread.process.host;
            self.order.look(clock, |other| other.host == host);
        }
        self.newcomers(self.now);
        let (wait, until) = match request {
            Request::Foreign | Request::Again => (self.waits_for(thread, &message), until),
            Request::Memory | Request::MemoryAgain => (Wait::Memory, None),
            Request::Call => {
                steps.push_back((clock, Step::Call(message)));
                (Wait::Nothing, None)
            }
            Request::End => {
                steps.push_back((clock, Step::End));
                (Wait::Nothing, None)
            }
            Request::Start | Request::Sleep | Request::Born | Request::Refused | Request::Look => {
                let until = until.unwrap_or(clock).clamp(clock, TIME_MAX);
                steps.push_back((until, Step::Resume));
                (Wait::Nothing, None)
            }
        };
        self.order.put(thread, clock, steps, wait, until);
        self.heed_interruptions(clock);
        Ok(was_in_vain)
    }

    /// Has those go on in which a signal's handler has run while they waited.
    fn heed_interruptions(&mut self, at: u64) {
        let count = self.processes.bell().interruptions();
        if std::mem::replace(&mut self.interruptions, count) == count {
            return;
        }
        let waiting: Vec<Thread> = self.order.waiting().map(|(thread, _)| thread).collect();
        for thread in waiting {
            let seat = self.processes.seat(thread);
            if seat.is_some_and(|seat| seat.take_interrupted()) {
                self.order.interrupt(thread, at);
            }
        }
    }

    /// What a thread waits for that has told it.
    fn waits_for(&mut self, thread: Thread, told: &[u8]) -> Wait {
        let what = match Told::from_bytes(told) {
            Told::Anything => Real::Anybody,
            Told::Process => Real::Process,
            Told::Descriptors(list) => {
                let process = self.processes.pidfd(thread.process);
                let is_watched =
                    process.is_some_and(|it| self.descriptors.watch(thread, it, &list));
                if is_watched {
                    Real::Descriptors
                } else {
                    Real::Anybody
                }
            }
        };
        self.order.tried(what)
    }

    /// Has those try that wait at descriptors which have something, once for each round.
    fn look_at_descriptors(&mut self) {
        if self.descriptors_round != self.order.round() {
            self.descriptors_round = self.order.round();
            if std::mem::take(&mut self.has_packets) {
                self.loopback.settle();
            }
            for thread in self.descriptors.ready() {
                self.order.has_come(thread);
            }
        }
    }

    /// Waits until those outside have done what they do about what clients have told them; true:
    /// there was something, and they may have told clients something.
    fn has_outside_done(&mut self) -> bool {
        if self.outside.is_nobody() || !std::mem::take(&mut self.is_outside_told) {
            return false;
        }
        let processes = &self.processes;
        let is_client = |pid| processes.is_client(pid);
        if !self.outside.await_rest(&self.loopback, is_client) {
            self.processes.notice_once(
                "a process that takes no part in the simulation and has started one that does \
                 never rests: times may differ from run to run"
                    .to_owned(),
            );
        }
        self.order.next_round(None);
        true
    }

    /// Until when a thread that gets the turn is alone: the next thing that anybody else does. If
    /// somebody waits for what it may do, each of its steps counts.
    fn horizon(&self) -> u64 {
        if self.order.has_onlookers() {
            return self.now;
        }
        let first = self.order.first().map_or(u64::MAX, |key| key.at);
        first.min(self.world.next_event().unwrap_or(u64::MAX))
    }

    /// Before when a thread that gets the turn finds nothing in the world that it is not told of:
    /// no other thread of its host goes on before it has given the turn again, unless for something
    /// real.
    fn quiet_until(&self, thread: Thread, clock: u64) -> u64 {
        match self.order.has_others_of(thread.process.host) {
            true => 0,
            false => self.world.quiet_until(thread, clock),
        }
    }

    /// Sleeps until the thread that has the turn has given it; false: its process has ended.
    fn await_given(&mut self, thread: Thread) -> Result<bool, RunError> {
        let mut sleep = Sleep::default();
        loop {
            let heard = self.processes.bell().heard();
            let Some(seat) = self.processes.seat(thread) else {
                return Ok(false);
            };
            if seat.has_given() {
                return Ok(true);
            }
            self.hear()?;
            if !self.processes.is_alive(thread.process) {
                return Ok(false);
            }
            // No clock is read at each turn: that is forbidden here, and takes longer than turns.
            let longest = LONGEST_SLEEP.min(self.patience);
            if self.processes.bell().wait(heard, longest) {
                let (process, task) = (thread.process.pid, seat.task() as i32);
                if sleep.lasts(process, task, self.patience) && !seat.has_given() {
                    return Err(RunError::Blocked(Waiting {
                        thread,
                        since: seat.clock(),
                        call: tasks::call_of(process, task)
                            .unwrap_or_else(|| "a call of the system".to_owned()),
                    }));
                }
            }
        }
    }

    /// Waits until a process that a client has made is a client, or has ended.
    fn await_birth(&mut self, pid: Option<u64>, clock: u64) -> Result<(), RunError> {
        let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) else {
            return Ok(());
        };
        let end = Instant::now() + BIRTH_LIMIT;
        loop {
            let heard = self.processes.bell().heard();
            self.hear()?;
            if let Some(stranger) = self.processes.take_stranger(pid) {
                return self.admit(stranger, clock);
            }
            if processes::has_ended(pid) {
                return Ok(());
            }
            if Instant::now() > end {
                self.processes.notice(format!(
                    "process {pid}, which a simulated process has made, takes no part in the \
                     simulation: a static program, or one of another user"
                ));
                return Ok(());
            }
            self.processes.bell().wait(heard, HOLD_FIRST * 10);
        }
    }

    /// Nothing goes on but what is real: has all that wait for it try, and pauses.
    fn hold(&mut self, hold: &mut Hold) -> Result<(), RunError> {
        let heard = self.processes.bell().heard();
        let ready = self.descriptors.ready();
        if !ready.is_empty() {
            self.order.next_round(None);
            return Ok(());
        }
        let mut after = None;
        while let Some(key) = self.order.to_try_blindly(after) {
            if self.retry(key)? {
                *hold = Hold::default();
                return Ok(());
            }
            after = Some(key);
        }
        let mut after = None;
        while let Some(thread) = self.order.looking(after) {
            after = Some(thread);
            if self.look(thread)? {
                *hold = Hold::default();
                return Ok(());
            }
        }
        self.processes.bell().wait(heard, hold.pause());
        Ok(())
    }

    /// Has a thread go on that was taken to wait for memory when nothing can write there: true, it
    /// did more than look.
    fn look(&mut self, thread: Thread) -> Result<bool, RunError> {
        let Some(clock) = self.order.take_looking(thread) else {
            return Ok(false);
        };
        let clock = clock.max(self.now);
        if self.turn_until(thread, Reply::Granted, clock)? {
            return Ok(false);
        }
        let Process { host, pid, .. } = thread.process;
        self.processes.notice_once(format!(
            "a computation of process {pid} on host {host} was taken for a wait for memory: times \
             may differ from run to run"
        ));
        Ok(true)
    }

    fn waiting(&self) -> Vec<Waiting> {
        let waiting = self.order.waiting().map(|(thread, since)| Waiting {
            thread,
            since,
            call: self.processes.doing(thread),
        });
        waiting.collect()
    }
}

/// For how long only something real could have ended a wait.
#[derive(Debug, Default)]
struct Hold {
    since: Option<Instant>,
    rounds: u32,
}

impl Hold {
    fn is_within(&mut self, patience: Duration) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() <= patience
    }

    fn pause(&mut self) -> Duration {
        let pause = HOLD_FIRST.saturating_mul(1 << self.rounds.min(6));
        self.rounds += 1;
        pause.min(HOLD_LAST)
    }
}
