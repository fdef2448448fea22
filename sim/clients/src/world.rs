//! The simulation as its clients' threads meet it, in whatever order they are given their turns.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_calls::{Request, Wire, is_of_via, put_refused, via as calls};
use viaduct_engine::Time;
use viaduct_programs::outside::{Deputy, Owner};
use viaduct_programs::verbs::{Context, Error, errno};
use viaduct_programs::{Simulation, SimulationError};
use viaduct_turns::hosts::HostAddresses;
use viaduct_turns::{Outcome, Process, Thread, World};

use crate::descriptors::{Descriptor, Raised};
use crate::handlers::Handlers;
use crate::looks::Looks;
use crate::memory::Memories;
use crate::perform::{Asker, Opened, perform, perform_post};
use crate::via;

/// A simulation whose programs are clients.
///
/// A [`viaduct_turns::Coordinator`] gives its threads their turns.
pub struct Clients<'a> {
    simulation: &'a mut Simulation,
    memories: Arc<Memories>,
    answers: Answers,
    asking: BTreeMap<Process, Asking>,
    threads: BTreeMap<Thread, Seated>,
    /// Clients whose memory was written, and when a loop that looks there sees that.
    seen: VecDeque<(Time, Process)>,
    /// Descriptors at which something has come since that was last asked.
    raised: Raised,
    /// Descriptors of clients, and when interrupts have told of what came there.
    ringing: VecDeque<(Time, Arc<Descriptor>)>,
    /// Hosts that have yet to die, and when.
    deaths: VecDeque<(Time, u32)>,
    failed: Option<SimulationError>,
}

/// What a client has.
struct Asking {
    memory: Owner,
    opened: Opened,
    handlers: Handlers,
    /// A post on credit was not taken: what it knows of its queue pairs is wrong.
    overdrawn: Option<Error>,
}

/// What a client asks.
enum Asked {
    Verbs(Request),
    Via(calls::Request),
}

impl Asked {
    fn get(mut bytes: &[u8]) -> Option<Self> {
        let asked = match is_of_via(bytes) {
            true => Self::Via(calls::Request::get(&mut bytes)?),
            false => Self::Verbs(Request::get(&mut bytes)?),
        };
        bytes.is_empty().then_some(asked)
    }
}

/// A thread, and who stands for it on its host.
struct Seated {
    deputy: Deputy,
    asker: Asker,
}

type Answered = (Thread, Time, Vec<u8>);

/// Answers that nobody has taken, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<VecDeque<Answered>>>);

impl Answers {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Answered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, thread: Thread, when: Time, bytes: Vec<u8>) {
        self.lock().push_back((thread, when, bytes));
    }

    fn take_of(&self, thread: Thread) -> Option<Answered> {
        let mut answers = self.lock();
        let place = answers.iter().position(|(of, ..)| *of == thread)?;
        answers.remove(place)
    }
}

impl fmt::Debug for Clients<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Clients")
            .field("simulation", &self.simulation)
            .field("clients", &self.asking.keys())
            .finish_non_exhaustive()
    }
}

fn failed(error: SimulationError) -> Error {
    Error::new(errno::EIO, error.to_string())
}

fn time(picoseconds: u64) -> Time {
    Time::from_picoseconds(picoseconds)
}

impl<'a> Clients<'a> {
    /// With no client yet; the hosts have these addresses for them, one for each adapter.
    #[must_use]
    pub fn new(simulation: &'a mut Simulation, addresses: HostAddresses) -> Self {
        let memories = Arc::<Memories>::default();
        simulation.set_addresses(addresses.of(0));
        simulation.set_memory_elsewhere(Arc::clone(&memories) as _);
        let deaths = simulation.deaths().into();
        Self {
            simulation,
            memories,
            answers: Answers::default(),
            asking: BTreeMap::new(),
            threads: BTreeMap::new(),
            seen: VecDeque::new(),
            raised: Raised::default(),
            ringing: VecDeque::new(),
            deaths,
            failed: None,
        }
    }

    /// What is simulated.
    #[must_use]
    pub const fn simulation(&self) -> &Simulation {
        self.simulation
    }

    /// Why nothing goes on any more, if that is so.
    #[must_use]
    pub const fn failure(&self) -> Option<&SimulationError> {
        self.failed.as_ref()
    }

    /// What a thread asks at `now`, and the simulation is there.
    fn begin(&mut self, thread: Thread, now: u64, request: &[u8]) -> Result<Asked, Error> {
        if let Some(failed) = &self.failed {
            return Err(Error::new(errno::EIO, failed.to_string()));
        }
        if let Some(overdrawn) = &self.asking(thread)?.overdrawn {
            let reason = format!("a post without an answer was refused: {overdrawn}");
            return Err(Error::new(errno::EIO, reason));
        }
        let asked = Asked::get(request).ok_or_else(|| {
            let reason = "a request that is not understood: the program's libraries are of \
                          another version than the command";
            Error::new(errno::EINVAL, reason)
        })?;
        // Nothing happens by then: the clock moves, and the processor was free.
        self.simulation
            .run_until(time(now), || false)
            .map_err(failed)?;
        Ok(asked)
    }

    fn try_call(&mut self, thread: Thread, now: u64, request: &[u8]) -> Result<(), Error> {
        let asked = self.begin(thread, now, request)?;
        if matches!(asked, Asked::Via(calls::Request::NextCall)) {
            let handlers = &self.asking(thread)?.handlers;
            if let Some(bytes) = handlers.ask(thread) {
                self.answers.push(thread, time(now), bytes);
            }
            return Ok(());
        }
        self.sit_down(thread)?;
        let Seated { deputy, asker } = &self.threads[&thread];
        let (asker, answers) = (asker.clone(), self.answers.clone());
        let asked = self.simulation.ask(deputy, time(now), move |process| {
            let bytes = match asked {
                Asked::Verbs(request) => perform(process, &asker, request),
                Asked::Via(request) => via::perform(process, &asker, request),
            };
            answers.push(thread, process.time(), bytes);
        });
        asked.map_err(|error| {
            self.failed = Some(error.clone());
            failed(error)
        })
    }

    /// Notes what has come for descriptors, and whose memory was written just now. A loop sees it
    /// half a turn later, as one of a program in the simulation does.
    fn note_written(&mut self) {
        let (now, config) = (self.simulation.time(), self.simulation.configuration());
        for descriptor in self.raised.take() {
            let place = config.place_of(descriptor.host, 0);
            let processor = config.host.of(place).processor;
            let when = now + processor.interrupt + processor.wake_up;
            put_in_order(&mut self.ringing, when, descriptor);
        }
        for owner in self.memories.take_written() {
            let of = |asking: &Asking| asking.memory == owner;
            let found = self.asking.iter().find(|(_, asking)| of(asking));
            if let Some((process, _)) = found {
                let host = config.host.of(config.place_of(process.host, 0));
                let when = now + host.processor.polling_delay;
                put_in_order(&mut self.seen, when, *process);
            }
        }
    }

    /// What the client of a thread has.
    fn asking(&self, thread: Thread) -> Result<&Asking, Error> {
        let many = || Error::new(errno::ENOMEM, "too many clients of one simulation");
        self.asking.get(&thread.process).ok_or_else(many)
    }

    fn sit_down(&mut self, thread: Thread) -> Result<(), Error> {
        if !self.threads.contains_key(&thread) {
            let seated = self.seat(thread)?;
            self.threads.insert(thread, seated);
        }
        Ok(())
    }

    /// A post on credit.
    fn try_post(&mut self, thread: Thread, now: u64, request: &[u8]) -> Result<(), Error> {
        let Asked::Verbs(request) = self.begin(thread, now, request)? else {
            return Err(Error::new(errno::EINVAL, "it is no post"));
        };
        self.sit_down(thread)?;
        let asker = self.threads[&thread].asker.clone();
        let mut done = Ok(());
        let acted = self.simulation.act(thread.process.host, |process| {
            done = perform_post(process, &asker, request);
        });
        acted.map_err(|error| {
            self.failed = Some(error.clone());
            failed(error)
        })?;
        done
    }

    /// A thread that calls for the first time has somebody stand for it.
    fn seat(&mut self, thread: Thread) -> Result<Seated, Error> {
        let (host, hosts) = (thread.process.host, self.simulation.hosts());
        if host >= hosts {
            let reason = format!("there is no host {host}: there are {hosts}, from host 0 on");
            return Err(Error::new(errno::EINVAL, reason));
        }
        let asking = self.asking(thread)?;
        let (memory, opened) = (asking.memory, asking.opened.clone());
        let handlers = asking.handlers.clone();
        let dead = || Error::new(errno::EIO, format!("host{host} is dead"));
        let deputy = self
            .simulation
            .deputy(host)
            .map_err(|error| Error::new(errno::EIO, error.to_string()))?;
        Ok(Seated {
            deputy: deputy.ok_or_else(dead)?,
            asker: Asker {
                thread,
                memory,
                opened,
                handlers,
                looks: Looks::default(),
                process: thread.process.pid,
                raised: self.raised.clone(),
            },
        })
    }
}

/// Behind all that is not later: some hosts are slower than others.
fn put_in_order<T>(queue: &mut VecDeque<(Time, T)>, when: Time, what: T) {
    let place = queue.partition_point(|(other, _)| *other <= when);
    queue.insert(place, (when, what));
}

impl World for Clients<'_> {
    fn next_event(&self) -> Option<u64> {
        if self.failed.is_some() {
            return None;
        }
        let seen = self.seen.front().map(|(when, _)| *when);
        let rung = self.ringing.front().map(|(when, _)| *when);
        let next = self
            .simulation
            .next_event()
            .into_iter()
            .chain(seen)
            .chain(rung);
        next.min().map(Time::picoseconds)
    }

    fn advance(&mut self, until: u64) -> u64 {
        if self.failed.is_none() {
            let (answers, memories) = (self.answers.clone(), Arc::clone(&self.memories));
            let raised = self.raised.clone();
            let is_enough =
                || !answers.lock().is_empty() || memories.is_written() || !raised.is_empty();
            let seen = self.seen.front().map(|(when, _)| *when);
            let rung = self.ringing.front().map(|(when, _)| *when);
            let first = seen.into_iter().chain(rung).chain([time(until)]).min();
            let until = first.unwrap_or_else(|| time(until));
            match self.simulation.run_until(until, is_enough) {
                Ok(_) => self.note_written(),
                Err(error) => self.failed = Some(error),
            }
        }
        self.simulation.time().picoseconds()
    }

    fn quiet_until(&self, thread: Thread, clock: u64) -> u64 {
        let host = thread.process.host;
        let is_known = self.failed.is_none() && self.threads.contains_key(&thread);
        let until = is_known.then(|| self.simulation.process(host).quiet_until(time(clock)));
        until.flatten().map_or(0, Time::picoseconds)
    }

    fn call(&mut self, thread: Thread, now: u64, request: &[u8], answer: &mut Vec<u8>) -> Outcome {
        if let Err(error) = self.try_call(thread, now, request) {
            answer.clear();
            put_refused(request, &error, answer);
            return Outcome::Done { cost: 0 };
        }
        self.note_written();
        match self.answers.take_of(thread) {
            Some((_, when, bytes)) => {
                *answer = bytes;
                let cost = when.picoseconds().saturating_sub(now);
                Outcome::Done { cost }
            }
            None => Outcome::Waits { until: None },
        }
    }

    fn post(&mut self, thread: Thread, now: u64, request: &[u8]) {
        if let Err(error) = self.try_post(thread, now, request)
            && let Some(asking) = self.asking.get_mut(&thread.process)
        {
            asking.overdrawn.get_or_insert(error);
        }
        self.note_written();
    }

    fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)> {
        let (thread, when, bytes) = self.answers.lock().pop_front()?;
        Some((thread, when.picoseconds(), bytes))
    }

    fn written(&mut self) -> Option<Process> {
        let (when, process) = *self.seen.front()?;
        if when > self.simulation.time() {
            return None;
        }
        self.seen.pop_front();
        Some(process)
    }

    fn died(&mut self) -> Option<(u32, u64)> {
        let now = self.simulation.time();
        let &(when, host) = self.deaths.front().filter(|(when, _)| *when <= now)?;
        self.deaths.pop_front();
        Some((host, when.picoseconds()))
    }

    fn has_rung(&mut self) -> bool {
        let now = self.simulation.time();
        let mut has_rung = false;
        while let Some((when, descriptor)) = self.ringing.front()
            && *when <= now
        {
            has_rung |= descriptor.ring();
            self.ringing.pop_front();
        }
        has_rung
    }

    fn came(&mut self, process: Process, _now: u64) {
        // One too many learns of it when it calls.
        if let Some(memory) = self.memories.add(process.pid) {
            let asking = Asking {
                memory,
                opened: Opened::default(),
                handlers: Handlers::new(self.answers.clone()),
                overdrawn: None,
            };
            self.asking.insert(process, asking);
        }
    }

    /// What the client has opened is closed, as an adapter's driver does it.
    fn gone(&mut self, process: Process, _now: u64) {
        let its = |thread: &Thread| thread.process == process;
        let threads: Vec<Thread> = self.threads.keys().copied().filter(its).collect();
        for thread in threads {
            if let Some(seated) = self.threads.remove(&thread) {
                self.simulation.dismiss(seated.deputy);
            }
        }
        self.answers.lock().retain(|(thread, ..)| !its(thread));
        let Some(asking) = self.asking.remove(&process) else {
            return;
        };
        asking.handlers.end();
        let opened = std::mem::take(&mut *asking.opened.lock());
        let process = self.simulation.process(process.host);
        // A host that is dead has closed it.
        for context in opened.contexts {
            let _ = Context::of(&process, context).close();
        }
        for nic in opened.nics {
            let _ = process.at_adapter_of(nic.bits()).fabric().abandon_nic(nic);
        }
    }
}
