//! The suite over simulated hosts: the cases of the real fabrics, in virtual time, on every preset.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_conformance::mutants::is_rule_broken;
use viaduct_conformance::{
    Case, Ending, Environment, Filter, Link, Outcome, Parts, Summary, World, ending_of, main_with,
    run_cases, run_side,
};
use viaduct_hardware::Mechanism;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, Simulation, die};
use viaduct_provider::via::outcome::{Damage, Harm};
use viaduct_scenario::{ProgramsError, list_models, load_programs};

/// Time and tasks of a simulated host.
struct SimulatedWorld(Process);

impl World for SimulatedWorld {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, span: Duration) {
        self.0.sleep(span);
    }

    fn relax(&self) {
        self.0.relax();
    }

    fn spawn(&self, _name: &str, task: Box<dyn FnOnce() + Send>) -> Result<(), String> {
        self.0.spawn(|_| task());
        Ok(())
    }
}

type Bytes = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A way between two hosts that is not the fabric's.
struct SimulatedLink {
    to: Bytes,
    from: Bytes,
    process: Process,
}

impl Link for SimulatedLink {
    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        self.to.lock().unwrap().push_back(bytes.to_vec());
        Ok(())
    }

    fn receive(&self, limit: Duration) -> Result<Vec<u8>, String> {
        let start = self.process.now();
        loop {
            if let Some(bytes) = self.from.lock().unwrap().pop_front() {
                return Ok(bytes);
            }
            if self.process.now() - start > limit {
                return Err(format!("it did not come within {limit:?}"));
            }
            self.process.relax();
        }
    }
}

/// The fault by which every message comes to harm, or why there is none.
fn fault(harm: Harm, hosts: &SimulationConfig) -> Result<Fault, &'static str> {
    let (links, rate) = (Links::All, 1.0);
    match harm {
        Harm::Lost => Ok(Fault::Loss { links, rate }),
        Harm::Arriving(Damage::Corrupt) => match hosts.host.common().mechanism {
            Mechanism::Rdma(_) => Err("what arrives corrupt is sent again"),
            _ => Ok(Fault::Corruption { links, rate }),
        },
        Harm::Arriving(Damage::CutShort) => Err("no fault cuts every message"),
        Harm::Leaving(_) => Err("no fault strikes before a message is on its way"),
    }
}

fn run_case(hosts: &SimulationConfig, case: &Case, token: u64) -> Ending {
    let mut hosts = hosts.clone();
    if let Some(harm) = case.harm {
        match fault(harm, &hosts) {
            Ok(fault) => hosts.faults.push(fault),
            Err(reason) => return Ending::Skipped(reason.to_owned()),
        }
    }
    let mut simulation = Simulation::new(hosts);
    simulation.keep_account(0);
    let ways: [Bytes; 2] = Default::default();
    let endings: Arc<Mutex<Vec<Option<Outcome>>>> =
        Arc::new(Mutex::new(vec![None; case.sides.len()]));
    for side in 0..case.sides.len() {
        let (ways, endings, case) = (ways.clone(), endings.clone(), *case);
        simulation.spawn(side as u32, move |process| {
            let link = SimulatedLink {
                to: ways[side].clone(),
                from: ways[1 - side].clone(),
                process: process.clone(),
            };
            let environment = Environment::new(Parts {
                provider: process.fabric(),
                device: "sim0".to_owned(),
                world: Arc::new(SimulatedWorld(process)),
                link: (case.sides.len() == 2).then(|| Box::new(link) as Box<dyn Link>),
                side,
                token,
                die: Some(die),
                harm: case.harm,
            });
            let outcome = run_side(&case, &environment);
            endings.lock().unwrap()[side] = Some(outcome);
        });
    }
    // Whoever is stuck has no ending: it counts as hung.
    if let Err(error) = simulation.run() {
        println!("{error}");
    }
    // Whatever programs do, their messages are conserved, and none beats its floor. A rule that is
    // broken on purpose is for the cases to notice.
    if !is_rule_broken() {
        let violations = simulation.account().violations;
        assert_eq!(violations, Vec::<String>::new(), "{}", case.name);
    }
    let mut endings = endings.lock().unwrap().clone();
    for (side, ending) in endings.iter_mut().enumerate() {
        if case.kills && !simulation.is_alive(side as u32) {
            // It has done its part.
            ending.get_or_insert(Ok(()));
        }
    }
    ending_of(&endings)
}

/// None of a preset of interfaces without VIs.
fn run(model: &str, filter: &Filter) -> Option<Summary> {
    let hosts = match load_programs(model, None, 2) {
        Err(ProgramsError::NoVia { .. }) => return None,
        hosts => hosts.unwrap(),
    };
    let name = format!("sim:{model}");
    Some(run_cases(&name, filter, |case, token| {
        run_case(&hosts, case, token)
    }))
}

fn main() -> ExitCode {
    main_with(Some("simulated hosts"), |filter| {
        let models = list_models();
        let names = models.iter().map(|model| &model.name);
        let summaries: Vec<Summary> = names.filter_map(|name| run(name, filter)).collect();
        // All that ship, but for the two with endpoints.
        assert_eq!(summaries.len(), models.len() - 2);
        summaries
    })
}
