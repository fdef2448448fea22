//! Programs that run elsewhere, in processes of their own.
//!
//! Each of their threads has a [`Deputy`] here: a blocking program on its host that does what the
//! thread asks for, one call after the other, and waits between them without time's going on. So a
//! call costs what it costs a program that runs here, and waits as it does. Whoever holds the
//! threads says how far time may go: [`Simulation::run_until`] takes the place of
//! [`Simulation::run`].

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

pub use viaduct_agent::{MemoryElsewhere, Owner};
use viaduct_engine::Time;

use crate::cluster::Hosted;
use crate::executor::{Current, Program, Simulation, SimulationError, current, suspend};
use crate::process::{Process, turn_of};
use crate::tasks::TaskId;

type Job = Box<dyn FnOnce(&Process) + Send>;

/// What a deputy is to do next.
type Desk = Arc<Mutex<Option<Job>>>;

/// Stands on a host for a thread of a program that runs elsewhere.
pub struct Deputy {
    task: TaskId,
    desk: Desk,
}

impl fmt::Debug for Deputy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut deputy = formatter.debug_struct("Deputy");
        deputy.field("task", &self.task).finish_non_exhaustive()
    }
}

fn locked(desk: &Desk) -> std::sync::MutexGuard<'_, Option<Job>> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulation {
    /// Where the memory of programs is that run elsewhere.
    pub fn set_memory_elsewhere(&self, memory: Arc<dyn MemoryElsewhere>) {
        let memory: Arc<Box<dyn MemoryElsewhere>> = Arc::new(Box::new(memory));
        for host in &mut self.lock().programs.hosts {
            host.agent.elsewhere = Some(Arc::clone(&memory));
        }
    }

    /// What address the first host's first adapter has for programs that run elsewhere, which have
    /// sockets there; those of the others follow it, those of a host one after the other. Before
    /// any has opened an adapter.
    pub fn set_addresses(&self, first: Ipv4Addr) {
        self.lock().programs.first_address = Some(first);
    }

    /// A new deputy on a host; none if the host is dead. From now on no program waits in place:
    /// time goes on in [`Simulation::run_until`] alone.
    ///
    /// # Errors
    ///
    /// [`SimulationError::NoStack`].
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn deputy(&mut self, host: u32) -> Result<Option<Deputy>, SimulationError> {
        let process = self.process(host);
        self.lock().programs.is_driven = true;
        let desk = Desk::default();
        let its = Arc::clone(&desk);
        let body = move || work(&process, &its);
        let task = self
            .process(host)
            .start(Program::Blocking(Box::new(body)), None);
        self.run_ready()?;
        Ok(task.map(|task| Deputy { task, desk }))
    }

    /// Has a deputy do something now, for a thread whose clock shows `moment`: what that is ahead
    /// of the processor, the thread has computed. The job ends before this returns, unless it waits
    /// for time to go on.
    ///
    /// # Errors
    ///
    /// As [`Simulation::run`].
    pub fn ask(
        &mut self,
        deputy: &Deputy,
        moment: Time,
        job: impl FnOnce(&Process) + Send + 'static,
    ) -> Result<(), SimulationError> {
        *locked(&deputy.desk) = Some(Box::new(move |process| {
            process.compute_until(moment);
            job(process);
        }));
        self.lock().programs.tasks.wake(deputy.task);
        self.run_ready()
    }

    /// Does something now for a thread that waits for nothing, as [`Simulation::ask`] has its
    /// deputy do it. Without one, since no program has to be gone on with.
    ///
    /// # Errors
    ///
    /// As [`Simulation::run`].
    pub fn act(&mut self, host: u32, job: impl FnOnce(&Process)) -> Result<(), SimulationError> {
        job(&self.process(host));
        self.run_ready()
    }

    /// A deputy is no longer needed. What it does is left where it stands.
    pub fn dismiss(&mut self, deputy: Deputy) {
        self.bury(deputy.task);
    }

    /// When something happens next, if nobody asks for anything.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.lock().next_time()
    }

    /// Lets time go on to a moment, or until `is_enough` says so; where it is then. What happens at
    /// that moment has happened.
    ///
    /// # Errors
    ///
    /// As [`Simulation::run`].
    pub fn run_until(
        &mut self,
        moment: Time,
        is_enough: impl Fn() -> bool,
    ) -> Result<Time, SimulationError> {
        loop {
            self.run_ready()?;
            if is_enough() || !self.step(moment)? {
                return Ok(self.time());
            }
        }
    }
}

/// Does what lies on the desk, and waits for more.
fn work(process: &Process, desk: &Desk) {
    loop {
        let job = locked(desk).take();
        match job {
            Some(job) => job(process),
            None => process.park(),
        }
        if current().is_none() {
            // The simulation is being dropped, and this stack with it.
            return;
        }
    }
}

impl Process {
    /// What a post takes the processor that reaches this adapter; none: not always the same, since
    /// a fault slows it down.
    #[must_use]
    pub fn post_cost(&self) -> Option<Time> {
        let cluster = self.lock();
        let cost = cluster.config.host.of(self.place()).processor.post;
        (!cluster.is_slowed(self.place())).then_some(cost)
    }

    /// What a look in vain into a completion queue takes that is at this adapter; none: not always
    /// the same.
    #[must_use]
    pub fn look_cost(&self) -> Option<Time> {
        let cluster = self.lock();
        let delay = cluster.config.host.of(self.place()).processor.polling_delay;
        (!cluster.is_slowed(self.place())).then(|| turn_of(delay))
    }

    /// Before when a program of this host, which is alone there and whose clock shows `moment`,
    /// finds nothing in any completion queue, and that takes what it always takes; none: it is not
    /// known.
    #[must_use]
    pub fn quiet_until(&self, moment: Time) -> Option<Time> {
        let cluster = self.lock();
        if cluster.processor_free(self.place()) > moment {
            return None;
        }
        let mut places = cluster.places_with(self.place());
        places.try_fold(Time::MAX, |first, place| {
            Some(Hosted::quiet_until(&cluster, place)?.min(first))
        })
    }

    /// A program has looked in vain, which was known before.
    pub fn count_look(&self) {
        self.lock().count_spared();
    }

    /// Waits until somebody wakes the program.
    fn park(&self) {
        let Some(current) = current().filter(Current::may_block) else {
            return;
        };
        let mut cluster = self.lock();
        cluster.programs.tasks.wait(current.task, false);
        cluster.let_go(|| suspend(current));
    }

    /// Has the processor busy until a moment, if it is not.
    fn compute_until(&self, moment: Time) {
        let mut cluster = self.lock();
        let from = self.local(&mut cluster);
        if moment > from {
            self.spend(&mut cluster, moment - from);
        }
    }
}
