//! The conformance suite of verbs over simulated hosts: each case between two hosts, and between
//! two programs of one, with each preset that has queue pairs. Then a sample of the rules of verbs
//! is broken, one at a time, and a case must fail; `--mutants` breaks all of them.

#[path = "../../../../fabrics/conformance/verbs/objects.rs"]
mod objects;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use objects::Objects;
use viaduct_conformance::verbs::{self, Reply, Run, Station, cases};
use viaduct_hardware::Mechanism;
use viaduct_programs::{Process, Simulation};
use viaduct_scenario::{list_models, load_programs};

/// What is not the same on all fabrics.
mod fabric {
    use std::time::Duration;

    use viaduct_programs::Process;
    pub(crate) use viaduct_programs::verbs::{
        self, AddressHandle, AsyncElement, CompletionChannel, CompletionQueue,
        CompletionQueueOptions, Context, DatagramDestination, MemoryRegion, ProtectionDomain,
        QueuePair, QueuePairOptions, ReceiveRequest, Result as Made, SendRequest,
        SharedReceiveQueue,
    };

    /// Where a station is: on a host.
    pub(crate) type Home = Process;

    pub(crate) fn open(home: &Home) -> Made<Context> {
        home.rdma()?.open()
    }

    #[allow(clippy::unnecessary_wraps, reason = "others have to look")]
    pub(crate) fn gid(context: &Context) -> Made<[u8; 16]> {
        Ok(context.device().gid())
    }

    pub(crate) const fn way(address: &AddressHandle) -> &AddressHandle {
        address
    }

    pub(crate) fn now(context: &Context) -> Duration {
        context.process().now()
    }

    pub(crate) fn relax(context: &Context) {
        context.process().relax();
    }

    pub(crate) fn later(context: &Context, span: Duration, act: impl FnOnce() + Send + 'static) {
        context.process().spawn(move |process| {
            process.sleep(span);
            act();
        });
    }

    /// There are no commands of this fabric's alone.
    pub(crate) fn answer(_: &Context, name: &str) -> Made<Vec<u64>> {
        panic!("a station does not know {name}")
    }
}

/// How long a command takes to a station, on a way that is not the fabric's.
const COMMAND: Duration = Duration::from_micros(20);

/// A station on a host of a simulation.
struct Simulated {
    simulation: Rc<RefCell<Simulation>>,
    process: Process,
    objects: Arc<Mutex<Objects>>,
}

impl Simulated {
    fn new(simulation: &Rc<RefCell<Simulation>>, host: u32) -> Self {
        let process = simulation.borrow().process(host);
        Self {
            simulation: Rc::clone(simulation),
            objects: Arc::new(Mutex::new(Objects::new(&process))),
            process,
        }
    }
}

impl Station for Simulated {
    fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        let reply = Arc::new(Mutex::new(None));
        let (objects, place) = (Arc::clone(&self.objects), Arc::clone(&reply));
        let (name, numbers) = (name.to_owned(), numbers.to_vec());
        self.process.spawn(move |process| {
            process.sleep(COMMAND);
            let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
            let said = objects.call(&name, &numbers);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        });
        if let Err(error) = self.simulation.borrow_mut().run() {
            panic!("{error}");
        }
        let reply = reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        reply.expect("the program has ended")
    }

    fn renew(&mut self) {
        self.objects = Arc::new(Mutex::new(Objects::new(&self.process)));
    }
}

fn run(run: &mut Run) {
    let mut models = 0;
    for model in list_models() {
        // Presets of interfaces without VIs have no queue pairs either.
        let Ok(config) = load_programs(&model.name, None, 2) else {
            continue;
        };
        if !matches!(config.host.common().mechanism, Mechanism::Rdma(_)) {
            let refused = Simulation::new(config).process(0).rdma();
            assert!(refused.is_err(), "{} has queue pairs", model.name);
            continue;
        }
        models += 1;
        for (mode, far_host) in [("hosts", 1), ("one-host", 0)] {
            let sides = format!("sim:{}::{mode}", model.name);
            for case in cases() {
                run.case(&sides, case, || {
                    let simulation = Simulation::new(config.clone());
                    let simulation = Rc::new(RefCell::new(simulation));
                    let mut near = Simulated::new(&simulation, 0);
                    let mut far = Simulated::new(&simulation, far_host);
                    case.2(&mut near, &mut far);
                });
            }
        }
        // What rules say does not depend on what hardware costs.
        if run.is_mutant() {
            return;
        }
    }
    assert_eq!(models, 3, "presets with queue pairs");
}

fn main() -> ExitCode {
    verbs::main(&verbs::mutants_under("simulated hosts"), run)
}
