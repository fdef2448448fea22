//! Runs programs in virtual time: each until it waits, then the next, then the next event.
//!
//! A blocking program has a stack of its own, which it leaves when it waits; an asynchronous one is
//! a future. All run on the thread that calls [`Simulation::run`], one at a time, in an order that
//! follows from the events alone.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::faults::Fault;
use viaduct_cluster::record::{Recording, Selection};
use viaduct_cluster::result::{Ended, MessageCounts, RunResult};
use viaduct_cluster::why::{Choice, Explaining, Explanation, WhyError};
use viaduct_engine::Time;

use crate::cluster::{Cluster, Hosted, new_cluster};
use crate::config::SimulationConfig;
use crate::counts::Counts;
use crate::event::Event;
use crate::lock::{Guard, RunLock};
use crate::notices::Shortage;
use crate::process::Process;
use crate::tasks::TaskId;

/// Bytes of a blocking program's stack, of which those that it uses become memory.
const STACK_BYTES: usize = 256 << 10;

/// A program that has not begun.
pub(crate) struct Spawn {
    pub(crate) task: TaskId,
    pub(crate) program: Program,
}

impl fmt::Debug for Spawn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut spawn = formatter.debug_struct("Spawn");
        spawn.field("task", &self.task).finish_non_exhaustive()
    }
}

pub(crate) enum Program {
    Blocking(Box<dyn FnOnce() + Send>),
    Asynchronous(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// What a simulation shares with its programs.
pub(crate) struct Shared {
    cluster: RunLock<Cluster>,
    woken: Arc<Woken>,
}

impl Shared {
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, Cluster> {
        self.cluster.lock()
    }

    /// Whether a future was woken.
    pub(crate) fn has_woken(&self) -> bool {
        self.woken.has_any.load(Ordering::Acquire)
    }
}

/// Futures that were woken.
#[derive(Default)]
struct Woken {
    tasks: Mutex<Vec<TaskId>>,
    has_any: AtomicBool,
}

struct TaskWaker {
    task: TaskId,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut tasks = self
            .woken
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tasks.push(self.task);
        self.woken.has_any.store(true, Ordering::Release);
    }
}

/// The program that runs on this thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) task: TaskId,
    /// How to leave its stack; a future has none.
    yielder: Option<*const Yielder<(), ()>>,
    pub(crate) is_handler: bool,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
    /// The simulation that runs on this thread.
    static RUNNING: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Makes a simulation the one that runs, until this is dropped.
struct Running(Option<Arc<Shared>>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        Self(RUNNING.replace(Some(Arc::clone(shared))))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0.take());
        // A program that panicked has left its stack without a word.
        CURRENT.set(None);
    }
}

/// Kills the simulated host of the program that calls it, as [`Process::die`] does. Without effect
/// in what is no program of a simulation.
pub fn die() {
    let running = RUNNING.with_borrow(Clone::clone);
    if let (Some(current), Some(shared)) = (current(), running) {
        let host = shared.lock().programs.tasks.host(current.task);
        Process::new(shared, host).die();
    }
}

/// Explains one message of programs, as [`viaduct_cluster::why::explain`] does of studies: has the
/// same programs run twice, each time in a simulation of their own. `run` starts them and lets
/// them run; false from it stops it all.
///
/// # Errors
///
/// [`WhyError`] if there is no such message, or it was stopped.
pub fn explain(
    config: &SimulationConfig,
    choice: Choice,
    mut run: impl FnMut(&mut Simulation) -> bool,
) -> Result<Explanation, WhyError> {
    let mut explaining = Explaining::new(choice);
    loop {
        let mut simulation = Simulation::new(config.clone());
        simulation.watch(&explaining);
        let ended = match run(&mut simulation) {
            true => Ended::Finished,
            false => Ended::Interrupted,
        };
        let explained = explaining.learn(&mut *simulation.shared.lock(), ended)?;
        if let Some(explanation) = explained {
            return Ok(explanation);
        }
    }
}

/// The program that runs on this thread, if it is one.
#[inline]
pub(crate) fn current() -> Option<Current> {
    CURRENT.get()
}

/// Whether the program that runs on this thread, if one does, can wait where it stands.
#[inline]
pub(crate) fn may_block() -> bool {
    current().is_some_and(|current| current.may_block())
}

impl Current {
    /// Whether it can wait where it stands.
    pub(crate) const fn may_block(&self) -> bool {
        self.yielder.is_some()
    }

    /// Leaves the program's stack until its wait is over.
    pub(crate) fn suspend(&self) {
        if let Some(yielder) = self.yielder {
            // SAFETY: `CURRENT` names the coroutine that runs on this thread, from its resumption
            // until it suspends: its yielder lives on the stack that we stand on.
            unsafe { (*yielder).suspend(()) };
        }
    }
}

enum Body {
    Blocking(Coroutine<(), (), ()>),
    Asynchronous(Pin<Box<dyn Future<Output = ()> + Send>>, Waker),
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The simulated time at which the last program ended.
    pub end: Time,
    /// Events that happened.
    pub events: u64,
    /// What was counted.
    pub counts: Counts,
}

/// Why a simulation did not come to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SimulationError {
    /// Programs wait, and nothing is left that could happen.
    Stuck {
        /// When.
        at: Time,
        /// The hosts of the programs that wait.
        hosts: Vec<u32>,
    },
    /// Messages in the network wait for each other for ever.
    Deadlock {
        /// When, and which channels they hold.
        reason: String,
    },
    /// It was asked to stop.
    Stopped {
        /// When.
        at: Time,
    },
    /// The system has no stack for another blocking program.
    NoStack {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for SimulationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck { at, hosts } => {
                let count = hosts.len();
                let first: Vec<String> = hosts.iter().take(5).map(u32::to_string).collect();
                let more = if count > 5 { ", ..." } else { "" };
                write!(
                    formatter,
                    "at {} us {count} programs wait and nothing is left that could happen: on \
                     hosts {}{more}",
                    at.microseconds_f64(),
                    first.join(", ")
                )
            }
            Self::Deadlock { reason } => formatter.write_str(reason),
            Self::Stopped { at } => write!(formatter, "stopped at {} us", at.microseconds_f64()),
            Self::NoStack { reason } => write!(
                formatter,
                "no stack for another blocking program: {reason}; asynchronous ones need none"
            ),
        }
    }
}

impl std::error::Error for SimulationError {}

/// Hosts, a network between them, and programs on the hosts.
pub struct Simulation {
    shared: Arc<Shared>,
    bodies: Vec<Option<Body>>,
    /// Tasks that call handlers and have nothing to do.
    idle_handlers: Arc<Mutex<Vec<TaskId>>>,
    stop: Option<Box<dyn Fn() -> bool>>,
    /// Events after which to ask next.
    next_look: u64,
    /// Whether what is around programs has warmed up.
    is_warm: bool,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Simulation")
            .field("now", &self.shared.lock().now())
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// With nothing running yet.
    ///
    /// # Panics
    ///
    /// If a fault cannot be: [`SimulationConfig::check_faults`] says why.
    #[must_use]
    pub fn new(config: SimulationConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                cluster: RunLock::new(new_cluster(config.into())),
                woken: Arc::default(),
            }),
            bodies: Vec::new(),
            idle_handlers: Arc::default(),
            stop: None,
            next_look: 0,
            is_warm: false,
        }
    }

    /// Keeps an account of each message and of the links, with so many messages as rows:
    /// [`Simulation::account`] tells it. Before [`Simulation::run`].
    pub fn keep_account(&self, message_rows_max: u32) {
        self.shared.lock().keep_account(message_rows_max);
    }

    /// What was kept since [`Simulation::keep_account`]: messages, their latencies and stages,
    /// links and how the run went over time. To be asked once, when programs have run; without an
    /// account links alone are told.
    #[must_use]
    pub fn account(&self) -> RunResult {
        self.shared.lock().result(Ended::Finished)
    }

    /// Watches for a message that is to be explained, which takes two runs: see [`explain`].
    fn watch(&self, explaining: &Explaining) {
        let mut cluster = self.shared.lock();
        cluster.keep_account(0);
        explaining.watch(&mut *cluster);
    }

    /// Records what some messages use; [`Simulation::recorded`] tells it. Before
    /// [`Simulation::run`].
    pub fn record(&self, selection: Selection) {
        let mut cluster = self.shared.lock();
        cluster.keep_account(0);
        cluster.record(selection);
    }

    /// What was recorded since [`Simulation::record`], once programs have run.
    #[must_use]
    pub fn recorded(&self) -> Recording {
        self.shared.lock().recorded()
    }

    /// The cluster as its run is told of: what reports and explanations are made with.
    #[must_use]
    pub fn configuration(&self) -> Arc<ClusterConfig> {
        Arc::clone(&self.shared.lock().config)
    }

    /// Asks now and then whether to stop before the programs have ended.
    pub fn stop_when(&mut self, asked: impl Fn() -> bool + 'static) {
        self.stop = Some(Box::new(asked));
    }

    /// Hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.shared.lock().config.host_count()
    }

    /// Simulated time so far.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.lock().now().picoseconds() / 1000)
    }

    /// The same, to the picosecond.
    #[must_use]
    pub fn time(&self) -> Time {
        self.shared.lock().now()
    }

    /// Whether the traffic of a study is around the programs.
    #[must_use]
    pub fn has_around(&self) -> bool {
        self.shared.lock().has_drawn()
    }

    /// What the study around programs has sent so far.
    #[must_use]
    pub fn around(&self) -> MessageCounts {
        self.shared.lock().around()
    }

    /// What was counted so far, however a run ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Hosted::counts(&self.shared.lock())
    }

    /// The hosts that die in this run, in the order of their deaths, with the times.
    #[must_use]
    pub fn deaths(&self) -> Vec<(Time, u32)> {
        let config = self.configuration();
        let deaths = config.faults.iter().filter_map(|fault| match *fault {
            Fault::HostDies { host, at } => Some((at, host)),
            _ => None,
        });
        let mut deaths: Vec<(Time, u32)> = deaths.collect();
        deaths.sort_unstable();
        deaths
    }

    /// Whether a host, and its programs with it, has not died.
    #[must_use]
    pub fn is_alive(&self, host: u32) -> bool {
        let cluster = self.shared.lock();
        !cluster.is_host_dead(cluster.config.place_of(host, 0))
    }

    /// What became short on adapters so far, and cost time: tripwires and events of CLAN.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        Hosted::shortages(&self.shared.lock())
    }

    /// A program's view of a host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    #[must_use]
    pub fn process(&self, host: u32) -> Process {
        assert!(host < self.hosts(), "host {host} of {}", self.hosts());
        let place = self.shared.lock().config.place_of(host, 0);
        Process::new(Arc::clone(&self.shared), place)
    }

    /// Starts a blocking program on a host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn spawn(&self, host: u32, program: impl FnOnce(Process) + Send + 'static) {
        self.process(host).spawn(program);
    }

    /// Starts an asynchronous program on a host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn spawn_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        host: u32,
        program: impl FnOnce(Process) -> F,
    ) {
        self.process(host).spawn_async(program);
    }

    /// Runs until every program has ended, but for those of hosts that died.
    ///
    /// # Errors
    ///
    /// [`SimulationError`]. What has not ended then is dropped with the simulation.
    ///
    /// # Panics
    ///
    /// When a program panics.
    pub fn run(&mut self) -> Result<Outcome, SimulationError> {
        let _running = Running::new(&self.shared);
        let shared = Arc::clone(&self.shared);
        let _held = shared.cluster.run();
        while let Some(task) = self.next(&shared)? {
            self.resume(task);
        }
        let cluster = self.shared.lock();
        Ok(Outcome {
            end: cluster.now(),
            events: cluster.fired(),
            counts: Hosted::all_counts(&cluster),
        })
    }

    /// The next task to run, after as many events as it takes; `None` when all programs have ended.
    fn next(&mut self, shared: &Shared) -> Result<Option<TaskId>, SimulationError> {
        loop {
            if let Some(task) = self.next_ready(shared)? {
                return Ok(Some(task));
            }
            let mut cluster = shared.lock();
            if cluster.programs.tasks.programs() == 0 {
                return Ok(None);
            }
            self.look(&cluster)?;
            if cluster.is_quiet() || !cluster.step(Time::MAX) {
                if let Some(reason) = cluster.deadlock() {
                    return Err(SimulationError::Deadlock { reason });
                }
                let places = cluster.programs.tasks.waiting_places().into_iter();
                let hosts = places.map(|place| cluster.config.adapter_at(place).0);
                return Err(SimulationError::Stuck {
                    at: cluster.now(),
                    hosts: hosts.collect(),
                });
            }
        }
    }

    /// The next task that can run now.
    fn next_ready(&mut self, shared: &Shared) -> Result<Option<TaskId>, SimulationError> {
        let mut cluster = shared.lock();
        if !self.is_warm {
            self.warm_up(&mut cluster)?;
        }
        while let Some(spawn) = cluster.programs.spawned.pop_front() {
            self.prepare(spawn)?;
        }
        while let Some(host) = cluster.programs.calls.pop_front() {
            if cluster.is_host_dead(host) {
                continue;
            }
            // Wakers need no stack to be called on; they may do anything but wait.
            while let Some(waker) = Hosted::next_wake(&mut cluster, host) {
                drop(cluster);
                waker.wake();
                cluster = shared.lock();
            }
            if cluster.programs.host(host).agent.has_jobs() {
                self.call_handlers(&mut cluster, host)?;
            } else {
                cluster.programs.host(host).handler = None;
            }
        }
        // After the calls, which wake futures: they run before time goes on.
        if shared.has_woken() {
            shared.woken.has_any.store(false, Ordering::Relaxed);
            let mut woken = shared
                .woken
                .tasks
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for task in woken.drain(..) {
                cluster.programs.tasks.wake(task);
            }
        }
        Ok(cluster.programs.tasks.next_ready())
    }

    /// Runs programs until each of them waits.
    pub(crate) fn run_ready(&mut self) -> Result<(), SimulationError> {
        let _running = Running::new(&self.shared);
        let shared = Arc::clone(&self.shared);
        let _held = shared.cluster.run();
        while let Some(task) = self.next_ready(&shared)? {
            self.resume(task);
        }
        Ok(())
    }

    /// Lets the next event happen, if it does by a moment; if not, time goes on to that moment, but
    /// where it is without end.
    pub(crate) fn step(&mut self, moment: Time) -> Result<bool, SimulationError> {
        let shared = Arc::clone(&self.shared);
        let mut cluster = shared.lock();
        self.look(&cluster)?;
        if cluster.step(moment) {
            return Ok(true);
        }
        if let Some(reason) = cluster.deadlock() {
            return Err(SimulationError::Deadlock { reason });
        }
        if moment < Time::MAX {
            cluster.advance(moment);
        }
        Ok(false)
    }

    /// A program ends where it stands: what it holds is dropped.
    pub(crate) fn bury(&mut self, task: TaskId) {
        if let Some(body) = self.bodies.get_mut(task.0 as usize) {
            *body = None;
        }
        self.lock().programs.tasks.remove(task);
    }

    pub(crate) fn lock(&self) -> Guard<'_, Cluster> {
        self.shared.lock()
    }

    /// Lets what is around programs go on alone until its warm-up is over.
    #[cold]
    fn warm_up(&mut self, cluster: &mut Cluster) -> Result<(), SimulationError> {
        let end = cluster.config.run.warmup;
        while cluster.step(end) {
            self.look(cluster)?;
        }
        cluster.advance(end);
        self.is_warm = true;
        Ok(())
    }

    /// Whether to go on.
    #[inline]
    fn look(&mut self, cluster: &Cluster) -> Result<(), SimulationError> {
        /// Events between two looks whether to stop.
        const EVENTS_PER_LOOK: u64 = 1 << 12;

        // Programs that wait let events happen, too: they are counted, not met one by one.
        if cluster.fired() >= self.next_look {
            self.next_look = cluster.fired() + EVENTS_PER_LOOK;
            if self.stop.as_ref().is_some_and(|asked| asked()) {
                return Err(SimulationError::Stopped { at: cluster.now() });
            }
        }
        Ok(())
    }

    /// Gives a program what it runs on.
    fn prepare(&mut self, Spawn { task, program }: Spawn) -> Result<(), SimulationError> {
        let body = match program {
            Program::Blocking(program) => Body::Blocking(coroutine(task, false, program)?),
            Program::Asynchronous(future) => {
                let waker = Waker::from(Arc::new(TaskWaker {
                    task,
                    woken: Arc::clone(&self.shared.woken),
                }));
                Body::Asynchronous(future, waker)
            }
        };
        self.put(task, body);
        Ok(())
    }

    fn put(&mut self, task: TaskId, body: Body) {
        let place = task.0 as usize;
        if self.bodies.len() <= place {
            self.bodies.resize_with(place + 1, || None);
        }
        self.bodies[place] = Some(body);
    }

    /// Has a task of the pool call a host's handlers.
    fn call_handlers(&mut self, cluster: &mut Cluster, host: u32) -> Result<(), SimulationError> {
        let idle = self
            .idle_handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let task = match idle {
            Some(task) => {
                cluster.programs.tasks.move_to(task, host);
                cluster.programs.tasks.wake(task);
                task
            }
            None => {
                // Handlers are called by what serves interrupts: the first processor.
                let task = cluster.programs.tasks.add(host, 0, false);
                let (shared, idle) = (Arc::clone(&self.shared), Arc::clone(&self.idle_handlers));
                let calls = Box::new(move || call_for_ever(&shared, &idle, task));
                self.put(task, Body::Blocking(coroutine(task, true, calls)?));
                task
            }
        };
        cluster.programs.host(host).handler = Some(task);
        Ok(())
    }

    /// Runs a task until it waits or ends.
    fn resume(&mut self, task: TaskId) {
        let Some(body) = self
            .bodies
            .get_mut(task.0 as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let has_ended = match body {
            Body::Blocking(coroutine) => {
                matches!(coroutine.resume(()), CoroutineResult::Return(()))
            }
            Body::Asynchronous(future, waker) => {
                let mut cluster = self.shared.lock();
                let host = cluster.programs.tasks.host(task);
                CURRENT.set(Some(Current {
                    task,
                    yielder: None,
                    is_handler: false,
                }));
                let free = cluster.processor_free(host);
                if free > cluster.now() {
                    // The processor is busy with what the program, or another, gave it.
                    CURRENT.set(None);
                    let wait = cluster.programs.tasks.wait(task, false);
                    cluster.schedule(free, Event::Wake(task, wait));
                    return;
                }
                drop(cluster);
                let polled = future.as_mut().poll(&mut Context::from_waker(waker));
                CURRENT.set(None);
                if polled.is_pending() {
                    let mut cluster = self.shared.lock();
                    let is_watching = std::mem::take(&mut cluster.programs.is_watching);
                    let wait = cluster.programs.tasks.wait(task, is_watching);
                    if is_watching && cluster.programs.tasks.list(task) {
                        cluster.programs.host(host).watchers.push(task);
                    }
                    if let Some(time) = cluster.programs.wake_at.take() {
                        cluster.schedule(time, Event::Wake(task, wait));
                    }
                }
                polled.is_ready()
            }
        };
        if has_ended {
            self.bodies[task.0 as usize] = None;
            self.shared.lock().programs.tasks.remove(task);
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // What programs hold is dropped on their stacks, where nothing waits any more.
        self.bodies.clear();
    }
}

/// A stack with a program on it.
fn coroutine(
    task: TaskId,
    is_handler: bool,
    program: Box<dyn FnOnce() + Send>,
) -> Result<Coroutine<(), (), ()>, SimulationError> {
    let stack = DefaultStack::new(STACK_BYTES).map_err(|error| SimulationError::NoStack {
        reason: error.to_string(),
    })?;
    Ok(Coroutine::with_stack(stack, move |yielder, ()| {
        let current = Current {
            task,
            yielder: Some(yielder),
            is_handler,
        };
        CURRENT.set(Some(current));
        program();
        CURRENT.set(None);
    }))
}

/// Leaves the stack of the program that runs; what it finds when it comes back is as it was.
pub(crate) fn suspend(current: Current) {
    CURRENT.set(None);
    current.suspend();
    CURRENT.set(Some(current));
}

/// Calls the handlers of one host after another.
fn call_for_ever(shared: &Arc<Shared>, idle: &Mutex<Vec<TaskId>>, task: TaskId) {
    loop {
        let host = shared.lock().programs.tasks.host(task);
        loop {
            let call = Hosted::next_call(&mut shared.lock(), host);
            let Some(call) = call else { break };
            // A handler that panics has said so; the others go on.
            let _ = catch_unwind(AssertUnwindSafe(|| call.run()));
            if current().is_none() {
                // The simulation is being dropped, and this stack with it.
                return;
            }
            let mut cluster = shared.lock();
            cluster.programs.host(host).agent.running = None;
            Hosted::changed(&mut cluster, host);
        }
        let mut cluster = shared.lock();
        cluster.programs.host(host).handler = None;
        Hosted::changed(&mut cluster, host);
        cluster.programs.tasks.wait(task, false);
        drop(cluster);
        idle.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
        let Some(current) = current() else { return };
        suspend(current);
    }
}
