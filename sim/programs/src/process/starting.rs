//! Programs that are started on a host, and the processors that they take.

use std::future::Future;

use viaduct_cluster::programs::Programs as _;

use super::Process;
use crate::executor::{Program, Spawn};
use crate::tasks::TaskId;

impl Process {
    /// Starts a blocking program beside this one.
    pub fn spawn(&self, program: impl FnOnce(Self) + Send + 'static) {
        let process = self.clone();
        let program = Program::Blocking(Box::new(move || program(process)));
        let _ = self.start(program, None);
    }

    /// The same on the processor of the program that runs.
    pub fn spawn_aside(&self, program: impl FnOnce(Self) + Send + 'static) {
        let process = self.clone();
        let program = Program::Blocking(Box::new(move || program(process)));
        let own = {
            let cluster = self.shared.lock();
            cluster.programs.running(cluster.first_place(self.place))
        };
        let _ = self.start(program, Some(own));
    }

    /// Starts an asynchronous program beside this one.
    pub fn spawn_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        program: impl FnOnce(Self) -> F,
    ) {
        let future = Box::pin(program(self.clone()));
        self.start(Program::Asynchronous(future), None);
    }

    /// Starts a program on a processor of the host; where none is named they take turns. There is
    /// no task if the host is dead.
    pub(crate) fn start(&self, program: Program, processor: Option<u32>) -> Option<TaskId> {
        let mut cluster = self.shared.lock();
        if cluster.is_host_dead(self.place) {
            // Dropped without the lock: it may hold anything.
            drop(cluster);
            drop(program);
            return None;
        }
        let home = cluster.first_place(self.place);
        let processor = processor.unwrap_or_else(|| {
            let number = cluster.config.adapter_at(home).0 as usize;
            let count = cluster.config.hosts.processors.unwrap_or(1);
            let next = cluster.programs.next_processors.get_mut(number);
            next.map_or(0, |next| {
                let taken = *next;
                *next = (taken + 1) % count;
                taken
            })
        });
        let task = cluster.programs.tasks.add(home, processor, true);
        cluster.programs.spawned.push_back(Spawn { task, program });
        Some(task)
    }
}
