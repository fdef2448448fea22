//! A program's view of its simulated host: the fabric's operations, time, and other programs.

mod adapters;
mod starting;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use viaduct_agent::{Agent, AgentProvider, Runtime, Work};
use viaduct_cluster::programs::Take;
use viaduct_engine::Time;
use viaduct_provider::via::verbs::Completion;
use viaduct_provider::via::{HostAddress, Queue, Timespan, Timestamp};
use viaduct_provider::{Counts, Error, Result, ReturnCode, ViHandle, Watched};

use crate::cluster::{Cluster, Hosted, half};
use crate::event::Event;
use crate::executor::{Current, Shared, current, may_block, suspend};
use crate::host::{address_of, host_at, reserve_little};
use crate::notices::Told;
use crate::tasks::TaskId;

/// The fabric, as the programs of a simulated host use it.
pub type SimulatedFabric = AgentProvider<Process>;

/// A simulated host, as a program on it sees it.
#[derive(Clone)]
pub struct Process {
    shared: Arc<Shared>,
    /// The place of the network that its adapter is at.
    place: u32,
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// What an operation takes at least that moves no message: a call into a library.
const QUESTION: Time = Time::from_picoseconds(10_000);

/// The longest pause of a program that looks in a loop.
const RELAX_MAX: Time = Time::from_picoseconds(20_000_000);

/// Looks of a program's loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// How many, at all places together.
    pub(crate) count: u64,
    /// At how many places, one after the other.
    pub(crate) places: u64,
}

/// A turn of a loop that looks, of which half passes until something that comes is seen.
pub(crate) fn turn_of(half: Time) -> Time {
    (half + half).max(QUESTION)
}

/// What is left of so many turns of a loop after a time. Something else that came has ended one,
/// and the next begins there.
fn turns_left(turns: u64, gone: Time, half: Time) -> u64 {
    let turn = turn_of(half).picoseconds();
    turns.saturating_sub(gone.picoseconds().div_ceil(turn).max(1))
}

/// From the clock of the machine's programs to simulated time.
fn time_of(span: Duration) -> Time {
    let picoseconds = span.as_nanos().saturating_mul(1000);
    Time::from_picoseconds(u64::try_from(picoseconds).unwrap_or(u64::MAX / 2))
}

impl Process {
    pub(crate) const fn new(shared: Arc<Shared>, place: u32) -> Self {
        Self { shared, place }
    }

    /// The place of its adapter.
    #[inline]
    pub(crate) const fn place(&self) -> u32 {
        self.place
    }

    /// The operations of the fabric, from this host.
    #[must_use]
    pub fn fabric(&self) -> Arc<SimulatedFabric> {
        Arc::new(AgentProvider {
            runtime: self.clone(),
        })
    }

    /// The time, as the program that asks has it: what it has computed counts.
    #[must_use]
    pub fn now(&self) -> Duration {
        let mut cluster = self.shared.lock();
        let time = self.local(&mut cluster);
        Duration::from_nanos(time.picoseconds() / 1000)
    }

    /// As [`Process::now`], to the picosecond.
    #[must_use]
    pub fn time(&self) -> Time {
        self.local(&mut self.shared.lock())
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        self.shared.lock()
    }

    pub(crate) fn local(&self, cluster: &mut Cluster) -> Time {
        let now = cluster.now();
        cluster.processor_free(self.place).max(now)
    }

    /// Keeps the host's processor busy for some time. A blocking program goes on when it is over,
    /// an asynchronous one when it next waits.
    pub fn compute(&self, span: Duration) {
        let mut cluster = self.shared.lock();
        let now = cluster.now();
        cluster.work(self.place, now, time_of(span));
        self.synchronise(&mut cluster);
    }

    /// Lets time pass; the processor is free meanwhile. No effect in an asynchronous program, see
    /// [`Process::sleep_async`].
    pub fn sleep(&self, span: Duration) {
        let mut cluster = self.shared.lock();
        self.synchronise(&mut cluster);
        let until = cluster.now() + time_of(span);
        self.wait(&mut cluster, Some(until), false);
    }

    /// As [`Process::sleep`], until a moment, which may be over.
    pub fn sleep_until(&self, moment: Time) {
        let mut cluster = self.shared.lock();
        self.synchronise(&mut cluster);
        if cluster.now() < moment {
            self.wait(&mut cluster, Some(moment), false);
        }
    }

    /// Lets time pass.
    pub async fn sleep_async(&self, span: Duration) {
        let until = {
            let mut cluster = self.shared.lock();
            self.local(&mut cluster) + time_of(span)
        };
        poll_fn(|_| {
            let mut cluster = self.shared.lock();
            if cluster.now() >= until {
                return Poll::Ready(());
            }
            let earliest = cluster
                .programs
                .wake_at
                .map_or(until, |time| time.min(until));
            cluster.programs.wake_at = Some(earliest);
            Poll::Pending
        })
        .await;
    }

    /// Whether the clock has reached the program's own time, which runs ahead by what its processor
    /// has to do. For futures written by hand that look at something: a blocking program's looks
    /// wait for the same. The task is polled again when it has.
    pub fn poll_caught_up(&self) -> Poll<()> {
        let mut cluster = self.shared.lock();
        let until = self.local(&mut cluster);
        if cluster.now() >= until {
            return Poll::Ready(());
        }
        let earliest = cluster
            .programs
            .wake_at
            .map_or(until, |time| time.min(until));
        cluster.programs.wake_at = Some(earliest);
        Poll::Pending
    }

    /// Has the task polled again when something changes on its host.
    ///
    /// For futures written by hand that look at a queue and found nothing: they are the loops of
    /// programs that poll, and [`Self::pay_for_polling`] when they have found something at last.
    pub fn watch(&self) {
        self.shared.lock().programs.is_watching = true;
    }

    /// The processor has looked in a loop, and sees a change half a turn late.
    pub fn pay_for_polling(&self) {
        let mut cluster = self.shared.lock();
        let delay = cluster.polling_delay(self.place);
        self.spend(&mut cluster, delay);
    }

    /// Lets time pass until something changes on this host, some microseconds at most: for the
    /// pauses of a loop that looks again and again.
    pub fn relax(&self) {
        self.pause(RELAX_MAX);
    }

    /// The same, so long at most.
    pub fn relax_for(&self, longest: Duration) {
        self.pause(RELAX_MAX.min(time_of(longest)));
    }

    fn pause(&self, longest: Time) {
        let mut cluster = self.shared.lock();
        self.synchronise(&mut cluster);
        let until = cluster.now() + longest;
        self.wait(&mut cluster, Some(until), true);
        // A loop over memory sees a change half a turn late.
        if cluster.now() < until {
            let delay = cluster.polling_delay(self.place);
            let now = cluster.now();
            cluster.work(self.place, now, delay);
        }
    }

    /// Kills the host: its programs never run again, what was under way from or to it is lost, and
    /// the others notice after a while ([`Detection`](viaduct_cluster::faults::Detection)).
    ///
    /// Does not return to a blocking program of the host. An asynchronous one goes on until it next
    /// waits. What programs of the host hold is dropped with the simulation; what that asks of the
    /// fabric then is refused.
    pub fn die(&self) {
        let own = {
            let mut cluster = self.shared.lock();
            cluster.kill(self.place, true);
            let home = cluster.first_place(self.place);
            current().filter(|current| cluster.programs.tasks.host(current.task) == home)
        };
        if let Some(current) = own.filter(Current::may_block) {
            loop {
                suspend(current);
            }
        }
    }

    /// The lock, if the host lives.
    #[inline(always)]
    fn alive(&self) -> Result<Guard<'_>> {
        let cluster = self.shared.lock();
        if cluster.is_host_dead(self.place) {
            return Err(dead(cluster.config.adapter_at(self.place).0));
        }
        Ok(cluster)
    }

    /// Has the processor work for the program from now on.
    #[inline]
    pub(crate) fn spend(&self, cluster: &mut Cluster, span: Time) {
        let now = cluster.now();
        cluster.work(self.place, now, span);
    }

    /// A program's wait is over: it pays for how it was told. What it still has to read.
    fn wake_up(&self, cluster: &mut Guard<'_>, told: Told) -> Time {
        let event = match told {
            Told::Woken(event) => {
                Hosted::wake(cluster, self.place);
                cluster.programs.counts.events += u64::from(event.is_some());
                event.unwrap_or(Time::ZERO)
            }
            Told::Looks(round) => {
                let delay = cluster.polling_delay(self.place);
                self.spend(cluster, delay + half(round));
                Time::ZERO
            }
        };
        self.synchronise(cluster);
        event
    }

    /// Waits until there is something to see. What is watched is for a message: sleeping for it is
    /// counted, and the program pays for taking it.
    fn block_for<T>(
        &self,
        watched: Option<Watched>,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut cluster = self.alive()?;
        self.synchronise(&mut cluster);
        let deadline = limit.map(|limit| cluster.now() + time_of(limit));
        let (mut told, mut has_slept) = (None, false);
        loop {
            if let Some(seen) = look(&mut cluster.programs.host(self.place).agent)? {
                let (mut event, mut notice) = (Time::ZERO, Time::ZERO);
                if let Some(told) = told
                    && has_slept
                {
                    let from = self.local(&mut cluster);
                    event = self.wake_up(&mut cluster, told);
                    notice = self.local(&mut cluster) - from;
                } else if watched.is_some_and(is_interrupted_for) {
                    notice = cluster.config.host.of(self.place).notice().found();
                    self.spend(&mut cluster, notice);
                }
                if let Some(watched) = watched {
                    let was_asleep = has_slept && matches!(told, Some(Told::Woken(_)));
                    let read = self.read(&mut cluster, watched);
                    cluster.programs.host(self.place).counts.wake_ups += u64::from(was_asleep);
                    let reap = cluster.config.host.of(self.place).processor.reap;
                    self.spend(&mut cluster, event + read + reap);
                    let reap = event + read + reap;
                    Hosted::tell_taken(&mut cluster, self.place, watched, Take { notice, reap });
                }
                return Ok(Some(seen));
            }
            if deadline.is_some_and(|deadline| deadline <= cluster.now()) {
                return Ok(None);
            }
            if !may_block() {
                return Err(Error::new(
                    ReturnCode::InvalidState,
                    "only a blocking program of the simulation can wait here: an asynchronous one \
                     awaits, and what is no program cannot",
                ));
            }
            if told.is_none() {
                let arranged =
                    watched.map(|watched| Hosted::arrange(&mut cluster, self.place, watched));
                told = Some(arranged.unwrap_or(Told::Woken(None)));
                // Setting a tripwire takes time, in which what is waited for may come.
                self.synchronise(&mut cluster);
                if arranged.is_some() {
                    continue;
                }
            }
            let sleeps = watched.is_some() && matches!(told, Some(Told::Woken(_)));
            if sleeps && !has_slept {
                cluster.programs.host(self.place).counts.sleeps += 1;
            }
            has_slept = true;
            self.wait(&mut cluster, deadline, true);
        }
    }

    /// Looks at memory in a loop.
    pub(crate) fn poll_memory<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Cluster) -> Option<T>,
    ) -> Option<T> {
        Some(self.notice_in_memory(limit, look)?.0)
    }

    /// The same, and how long it took to notice it.
    pub(crate) fn notice_in_memory<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Cluster) -> Option<T>,
    ) -> Option<(T, Time)> {
        let (mut cluster, seen, has_waited) = self.see(limit, look)?;
        let mut notice = QUESTION;
        if has_waited {
            notice = cluster.polling_delay(self.place);
            self.spend(&mut cluster, notice);
        }
        Some((seen, notice))
    }

    /// Sleeps for a byte of memory that is given below VIA.
    pub(crate) fn wait_for_memory<T>(
        &self,
        place: (u32, u32),
        limit: Option<Duration>,
        look: impl FnMut(&mut Cluster) -> Option<T>,
    ) -> Option<T> {
        let told = Hosted::arrange_memory(&mut self.shared.lock(), self.place, place);
        let (mut cluster, seen, has_slept) = self.see(limit, look)?;
        if has_slept {
            let event = self.wake_up(&mut cluster, told);
            self.spend(&mut cluster, event);
        }
        Some(seen)
    }

    /// An operation that moves no message; `None` if the host is dead.
    pub(crate) fn ask<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        let mut cluster = self.alive().ok()?;
        self.synchronise(&mut cluster);
        self.spend(&mut cluster, QUESTION);
        Some(act(&mut cluster))
    }

    /// Posts so many requests, on which the processor works from one time to another; `None` if the
    /// host is dead.
    pub(crate) fn work_on<T>(
        &self,
        posts: u64,
        act: impl FnOnce(&mut Cluster, (Time, Time)) -> T,
    ) -> Option<T> {
        let mut cluster = self.alive().ok()?;
        let (now, post) = (
            cluster.now(),
            cluster.config.host.of(self.place).processor.post,
        );
        let worked = cluster.work(self.place, now, post.saturating_mul(posts));
        Some(act(&mut cluster, worked))
    }

    /// Looks at memory once. Where there is nothing, the program's loop turns, and looks again when
    /// something comes meanwhile. What is found, in so many pieces, is taken: in what time.
    ///
    /// A loop of so many such looks, between which the program does nothing, is one call: what it
    /// finds, and when, is what that many calls would. Where the loop looks at other places, too,
    /// it ends when there is something in one of them, which `is_beside` tells.
    pub(crate) fn glance<T>(
        &self,
        looks: Looks,
        mut is_beside: impl FnMut(&mut Cluster) -> bool,
        mut look: impl FnMut(&mut Cluster) -> Option<(T, u64)>,
    ) -> Option<(T, Take)> {
        let mut cluster = self.shared.lock();
        self.synchronise(&mut cluster);
        let model = cluster.config.host.of(self.place).processor;
        if let Some((seen, pieces)) = look(&mut cluster) {
            let (notice, reap) = (Time::ZERO, model.reap.saturating_mul(pieces));
            self.spend(&mut cluster, reap);
            return Some((seen, Take { notice, reap }));
        }
        if !may_block() {
            return None;
        }
        let turn = turn_of(model.polling_delay);
        let places = looks.places.max(1);
        let mut left = match is_beside(&mut cluster) {
            true => 1,
            false => looks.count.max(1),
        };
        // The place that the next look is at: 0 is this one, at which the loop ends.
        let mut place = 0;
        while left > 0 || place != 1 % places {
            let from = cluster.now();
            let more = left.max((places + 1 - place) % places).max(1);
            let notice = self.turns(&mut cluster, model.polling_delay, more);
            let gone = (cluster.now() - from).picoseconds();
            let ended = gone.div_ceil(turn.picoseconds()).max(1);
            // Something that came has ended this look, and the next begins there.
            let last = (place + ended - 1) % places;
            if let Some((seen, pieces)) = look(&mut cluster) {
                let reap = model.reap.saturating_mul(pieces);
                let notice = match last {
                    0 => notice,
                    // Looks at other places are between, and then it is there.
                    last => turn.saturating_mul(places - 1 - last),
                };
                self.spend(&mut cluster, notice + reap);
                return Some((seen, Take { notice, reap }));
            }
            if places > 1 && is_beside(&mut cluster) {
                return None;
            }
            place = (last + 1) % places;
            left = left.saturating_sub(ended);
        }
        None
    }

    /// Turns of a program's loop that has found nothing, fewer if something comes: how long it then
    /// takes to see that, half a turn.
    fn turns(&self, cluster: &mut Guard<'_>, half: Time, turns: u64) -> Time {
        let until = cluster.now() + turn_of(half).saturating_mul(turns);
        self.wait(cluster, Some(until), true);
        if cluster.polling_delay(self.place) == Time::ZERO {
            // Others have the processor: the loop goes on when it is free, and looks then.
            self.synchronise(cluster);
            return Time::ZERO;
        }
        half
    }

    /// Sleeps until there is something to see, and how long it took to be woken.
    pub(crate) fn sleep_for<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Cluster) -> Option<T>,
    ) -> Option<(T, Time)> {
        let (mut cluster, seen, has_slept) = self.see(limit, look)?;
        let mut woken = Time::ZERO;
        if has_slept {
            let from = cluster.now();
            woken = Hosted::wake(&mut cluster, self.place) - from;
            self.synchronise(&mut cluster);
        }
        Some((seen, woken))
    }

    /// The processor takes a completion, which it has noticed in so long.
    pub(crate) fn pay_for_reaping(&self, completion: &Completion, notice: Time) {
        let mut cluster = self.shared.lock();
        let reap = cluster.config.host.of(self.place).processor.reap;
        self.spend(&mut cluster, reap);
        let taken = std::slice::from_ref(completion);
        Hosted::tell_completed(&mut cluster, self.place, taken, Take { notice, reap });
    }

    /// The processor registers memory.
    pub(crate) fn pay_for_registering(&self, bytes: u64) {
        let mut cluster = self.shared.lock();
        let span = cluster
            .config
            .host
            .of(self.place)
            .memory
            .registration(bytes);
        self.spend(&mut cluster, span);
    }

    /// Waits until there is something to see; whether it had to wait.
    fn see<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut Cluster) -> Option<T>,
    ) -> Option<(Guard<'_>, T, bool)> {
        let mut cluster = self.shared.lock();
        self.synchronise(&mut cluster);
        let deadline = limit.map(|limit| cluster.now() + time_of(limit));
        let mut has_waited = false;
        loop {
            if let Some(seen) = look(&mut cluster) {
                if !has_waited {
                    self.spend(&mut cluster, QUESTION);
                }
                return Some((cluster, seen, has_waited));
            }
            let is_late = deadline.is_some_and(|deadline| deadline <= cluster.now());
            if is_late || !may_block() {
                return None;
            }
            has_waited = true;
            self.wait(&mut cluster, deadline, true);
        }
    }

    /// A program has found something in a loop, and pays for that and for taking it.
    #[inline]
    fn pay(&self, cluster: &mut Cluster, watched: Watched, notice: Time, reap: Time) {
        self.spend(cluster, notice + reap);
        Hosted::tell_taken(cluster, self.place, watched, Take { notice, reap });
    }

    /// What there is to read of the event queue by a program that has found something.
    fn read(&self, cluster: &mut Cluster, watched: Watched) -> Time {
        match watched {
            Watched::Entries(_) => Hosted::read_event(cluster, self.place),
            Watched::Vi(..) => Time::ZERO,
        }
    }

    /// Waits until the simulation's time has reached the program's own.
    #[inline]
    fn synchronise(&self, cluster: &mut Guard<'_>) {
        let free = cluster.processor_free(self.place);
        if free <= cluster.now() || !may_block() {
            return;
        }
        // Nothing else happens until then, as a rule: the clock moves, and that is all.
        if !(self.is_alone(cluster) && !cluster.is_host_dead(self.place) && cluster.advance(free)) {
            self.catch_up(cluster);
        }
    }

    #[inline(never)]
    fn catch_up(&self, cluster: &mut Guard<'_>) {
        loop {
            let free = cluster.processor_free(self.place);
            if free <= cluster.now() {
                return;
            }
            self.wait(cluster, Some(free), false);
        }
    }

    /// Waits until a time, or for a change on this host. Returns at once where nothing can wait.
    fn wait(&self, cluster: &mut Guard<'_>, until: Option<Time>, is_watching: bool) {
        let Some(current) = current().filter(Current::may_block) else {
            return;
        };
        let task = current.task;
        let wait = cluster.programs.tasks.wait(task, is_watching);
        if is_watching && cluster.programs.tasks.list(task) {
            let home = cluster.first_place(self.place);
            let watchers = &mut cluster.programs.host(home).watchers;
            reserve_little(watchers);
            watchers.push(task);
        }
        if self.wait_in_place(cluster, task, until) {
            return;
        }
        let event = until.map(|time| cluster.schedule(time, Event::Wake(task, wait)));
        cluster.let_go(|| suspend(current));
        if let Some(event) = event {
            cluster.cancel(event);
        }
    }

    /// Whether nobody but the program that runs wants to go on.
    #[inline]
    fn is_alone(&self, cluster: &Cluster) -> bool {
        cluster.programs.is_idle() && !self.shared.has_woken()
    }

    /// Lets things happen from the stack that waits, for as long as they concern no other program;
    /// whether the wait is over.
    fn wait_in_place(&self, cluster: &mut Cluster, task: TaskId, until: Option<Time>) -> bool {
        /// So that whoever runs the simulation can look whether to stop.
        const EVENTS_MAX: u32 = 1 << 10;

        for _ in 0..EVENTS_MAX {
            if cluster.is_host_dead(self.place) {
                return false;
            }
            if let Some(is_over) = cluster.programs.tasks.take_if_next(task) {
                return is_over;
            }
            if cluster.programs.has_calls() || self.shared.has_woken() {
                return false;
            }
            if cluster.is_quiet() {
                // Generators alone end no wait but one for a time. A program that looks in a loop
                // for what nobody sends waits for nothing else: it lets go now and then, too.
                cluster.programs.quiet_waits += 1;
                if cluster.programs.quiet_waits >= EVENTS_MAX {
                    cluster.programs.quiet_waits = 0;
                    return false;
                }
                let is_over = until.is_some_and(|time| cluster.advance(time));
                if is_over {
                    cluster.programs.tasks.end_wait_now(task);
                }
                return is_over;
            }
            cluster.programs.is_stepping = true;
            let has_stepped = cluster.step(until.unwrap_or(Time::MAX));
            cluster.programs.is_stepping = false;
            if !has_stepped {
                // Nothing is to happen by then: the clock moves, and that is all. It does not
                // where messages wait for each other for ever: whoever runs the simulation ends it.
                let is_over = until.is_some_and(|time| cluster.advance(time));
                if is_over {
                    cluster.programs.tasks.end_wait_now(task);
                }
                return is_over;
            }
        }
        false
    }
}

pub(crate) type Guard<'a> = crate::lock::Guard<'a, Cluster>;

// SAFETY: messages are carried by the verdicts of the semantics, under the lock of all operations.
unsafe impl Runtime for Process {
    fn access<T>(&self, act: impl FnOnce(&mut Agent) -> T) -> T {
        act(&mut self.shared.lock().programs.host(self.place).agent)
    }

    fn operate<T>(
        &self,
        vi: Option<ViHandle>,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let mut cluster = self.alive()?;
        self.synchronise(&mut cluster);
        // A loop of questions takes time, or what it waits for never comes.
        self.spend(&mut cluster, QUESTION);
        let now = cluster.timestamp();
        let result = act(&mut cluster.programs.host(self.place).agent, now);
        Hosted::follow_up(&mut cluster, self.place, vi);
        if let Some(vi) = vi {
            Hosted::tell_receives(&mut cluster, self.place, vi);
        }
        result
    }

    fn poll<T>(
        &self,
        watched: Watched,
        looks: u64,
        mut look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut cluster = self.alive()?;
        self.synchronise(&mut cluster);
        let model = cluster.config.host.of(self.place).processor;
        let round = Hosted::round(&cluster, self.place, watched);
        let (delay, reap) = (model.polling_delay + half(round), model.reap);
        let seen = look(&mut cluster.programs.host(self.place).agent)?;
        if seen.is_some() {
            let read = self.read(&mut cluster, watched);
            self.pay(&mut cluster, watched, half(round), read + reap);
            return Ok(seen);
        }
        if !may_block() {
            return Ok(None);
        }
        let mut left = looks.max(1);
        while left > 0 {
            let from = cluster.now();
            let notice = self.turns(&mut cluster, delay, left);
            let seen = look(&mut cluster.programs.host(self.place).agent)?;
            if seen.is_some() {
                let read = self.read(&mut cluster, watched);
                self.pay(&mut cluster, watched, notice, read + reap);
                return Ok(seen);
            }
            left = turns_left(left, cluster.now() - from, delay);
        }
        Ok(None)
    }

    fn block<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.block_for(None, limit, look)
    }

    fn perform<T>(
        &self,
        vi: ViHandle,
        work: Work,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let mut cluster = self.alive()?;
        let queue = match work {
            Work::PostReceive => Queue::Receive,
            Work::PostSend | Work::Register { .. } => Queue::Send,
        };
        let (now, post) = (
            cluster.now(),
            cluster.config.host.of(self.place).processor.post,
        );
        let (begins, _) = cluster.work(self.place, now, post);
        let Some((_, id)) = cluster.programs.host(self.place).agent.place_of(vi) else {
            // It says what is wrong.
            let now = cluster.timestamp();
            let result = act(&mut cluster.programs.host(self.place).agent, now);
            Hosted::follow_post(&mut cluster, self.place, vi, None);
            return result;
        };
        Hosted::arrange_bound(&mut cluster, self.place, id, queue);
        let now = cluster.timestamp();
        let before = cluster.unstarted(self.place, id);
        let result = act(&mut cluster.programs.host(self.place).agent, now);
        if work == Work::PostSend {
            // A tripwire that had to be set is a part of it.
            let worked = (begins, cluster.processor_free(self.place));
            cluster.posted(self.place, id, before, worked);
        }
        Hosted::follow_post(&mut cluster, self.place, vi, Some(id));
        if work == Work::PostReceive {
            cluster.posted_receive(self.place, id, begins);
            Hosted::tell_receives_of(&mut cluster, self.place, id);
        }
        result
    }

    fn take<T>(
        &self,
        watched: Watched,
        limit: Option<Duration>,
        look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.block_for(Some(watched), limit, look)
    }

    fn charge(&self, work: Work) {
        if let Work::Register { bytes } = work {
            let mut cluster = self.shared.lock();
            let span = cluster
                .config
                .host
                .of(self.place)
                .memory
                .registration(bytes);
            self.spend(&mut cluster, span);
        }
    }

    fn expect(&self, watched: Watched) {
        Hosted::arrange(&mut self.shared.lock(), self.place, watched);
    }

    fn is_handler(&self) -> bool {
        current().is_some_and(|current| current.is_handler)
    }

    fn span(&self, limit: Option<Duration>) -> Timespan {
        limit.map_or(Timespan::INFINITE, |limit| {
            Timespan::from_picoseconds(time_of(limit).picoseconds())
        })
    }

    fn address(&self, name: &str, index: u32) -> Result<HostAddress> {
        let config = Arc::clone(&self.shared.lock().config);
        let (hosts, adapters) = (config.host_count(), config.hosts.adapters.count);
        let number = name.strip_prefix("host").unwrap_or(name).parse::<u32>();
        match number.ok().filter(|number| *number < hosts) {
            Some(number) if index < adapters => Ok(address_of(config.place_of(number, index))),
            Some(_) if adapters == 1 => Err(unknown(format!("host {name:?} has one address"))),
            Some(_) => Err(unknown(format!(
                "host {name:?} has {adapters} addresses, one for each adapter: 0 to {}",
                adapters - 1
            ))),
            None => Err(unknown(format!(
                "no host {name:?}: there are host0 to host{}",
                hosts - 1
            ))),
        }
    }

    fn name(&self, address: HostAddress) -> Result<String> {
        let config = Arc::clone(&self.shared.lock().config);
        host_at(address, config.topology.host_count() as usize)
            .map(|place| format!("host{}", config.adapter_at(place).0))
            .ok_or_else(|| unknown(format!("no host has the address {:#x}", address.get())))
    }

    fn counts(&self) -> Result<Counts> {
        Ok(self.alive()?.programs.host(self.place).counts)
    }

    fn neighbours(&self, own: HostAddress, hops: u32) -> Vec<HostAddress> {
        let places = self.shared.lock().place_count();
        (0..places)
            .map(address_of)
            .filter(|address| hops > 0 || *address == own)
            .collect()
    }
}

/// Whether an adapter that interrupts does so for each thing that is waited for: messages of a VI.
/// Who reads a completion queue finds all that it has gathered.
const fn is_interrupted_for(watched: Watched) -> bool {
    matches!(watched, Watched::Vi(_, Queue::Receive))
}

#[cold]
fn dead(host: u32) -> Error {
    Error::new(ReturnCode::InvalidState, format!("host{host} is dead"))
}

fn unknown(reason: String) -> Error {
    Error::new(ReturnCode::NameService, reason)
}
