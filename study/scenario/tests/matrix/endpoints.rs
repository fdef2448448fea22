//! Programs that use endpoints of Active Messages, on interfaces that have such and over VIs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_am::{Body, Endpoint, HandlerId, Handlers, Key, Name, Phase};
use viaduct_lanai::{Server, exchange};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_scenario::combinations::Disturbance;
use viaduct_scenario::{MechanismKind, endpoints_in, keep_faults_of_hosts};
use viaduct_vi_carrier::{Identity, Options, Station};

use crate::programs::simulated;
use crate::{Cell, HOSTS, MECHANISMS, combination, has_full_queues, study, text, twice, wanted};

/// Requests of clients and the replies of one server.
pub(crate) fn endpoints(cell: &Cell) -> Result<(), String> {
    if MECHANISMS[cell[1]] == MechanismKind::Endpoints {
        return on_interfaces(cell);
    }
    over_vis(cell)
}

/// On interfaces that have endpoints.
fn on_interfaces(cell: &Cell) -> Result<(), String> {
    let study = study(cell);
    let config = endpoints_in(text(cell, 1), "matrix", &study, HOSTS);
    let mut config = config.map_err(|error| error.to_string())?;
    keep_faults_of_hosts(&mut config);
    let run = || exchange(config.clone(), Server::One, HOSTS as u16 - 1, 1024, 60);
    let result = twice(run)?;
    let replies: u64 = result.replies.iter().sum();
    if let Some(ends) = &result.ends {
        wanted(ends.violations.is_empty(), || {
            format!("{:?}", ends.violations)
        })?;
        let returned = ends.refused + ends.unreachable + ends.rebooted + ends.unanswered;
        let ended = ends.replied + returned + ends.forgotten;
        wanted(ends.open == 0 && ended == ends.requests, || {
            format!("{ends:?}")
        })?;
        wanted(ends.replied == replies && replies > 0, || {
            format!("{ends:?}, {replies}")
        })
    } else {
        wanted(replies == 60 * u64::from(HOSTS - 1), || {
            format!("{replies} replies")
        })
    }
}

/// Requests that each client makes, and bytes of each.
const REQUESTS: u64 = 40;
const BYTES: usize = 1024;

/// Longer than anything takes that ends at all.
const END: Duration = Duration::from_secs(3);

const KEY: Key = Key(7);
const ECHO: HandlerId = HandlerId::of(0);
const ANSWER: HandlerId = HandlerId::of(0);

/// What a client found.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    requests: u64,
    replied: u64,
    returned: u64,
    has_ended: bool,
}

type End = Endpoint<Station<SimulatedFabric>, Ends>;

fn endpoint(process: &Process) -> End {
    let identity = Identity::new(u128::from(process.host()) + 1);
    let opened = Station::open(process.fabric(), "sim0", identity, Options::default());
    let (station, acceptor) = opened.unwrap();
    process.spawn(move |_| acceptor.run());
    let handlers = Handlers::new(|ends: &mut Ends, returned| {
        // A server's replies may come back to it: its clients hear of that by themselves.
        ends.returned += u64::from(returned.phase == Phase::Request);
    });
    let handlers = handlers
        .on_request(ECHO, |_, request| {
            let _ = request.echo(ANSWER, &[]);
        })
        .on_reply(ANSWER, |ends, reply| {
            ends.replied += u64::from(reply.payload().len() == BYTES);
        });
    let options = viaduct_am::Options::new(KEY);
    Endpoint::new(&station, &Arc::new(handlers), Ends::default(), options).unwrap()
}

/// What all clients found, in the order of hosts; the first host is the server.
fn run_over_vis(config: &SimulationConfig) -> (String, Vec<Ends>, Vec<String>) {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(0);
    let server: Arc<Mutex<Option<Name>>> = Arc::default();
    let ends = Arc::new(Mutex::new(vec![Ends::default(); HOSTS as usize]));
    for host in 0..HOSTS {
        let (server, ends) = (Arc::clone(&server), Arc::clone(&ends));
        simulation.spawn(host, move |process| {
            let mut end = endpoint(&process);
            if host == 0 {
                *server.lock().unwrap() = Some(end.name());
                let is_over = || ends.lock().unwrap()[1..].iter().all(|it| it.has_ended);
                while !is_over() && process.now() < END {
                    if end.poll() == 0 {
                        process.relax();
                    }
                }
                return;
            }
            while server.lock().unwrap().is_none() {
                process.relax();
            }
            let name = server.lock().unwrap().unwrap();
            end.map(0, &name, KEY).unwrap();
            for _ in 0..REQUESTS {
                process.sleep(Duration::from_micros(100));
                let body = Body::Medium(&[7; BYTES]);
                end.request_with(0, ECHO, &[], body).unwrap();
                end.state_mut().requests += 1;
                ends.lock().unwrap()[host as usize] = *end.state();
            }
            while end.outstanding() > 0 && process.now() < END {
                if end.poll() == 0 {
                    process.relax();
                }
            }
            end.state_mut().has_ended = true;
            ends.lock().unwrap()[host as usize] = *end.state();
        });
    }
    let outcome = simulation.run().unwrap();
    let ends = ends.lock().unwrap().clone();
    let account = simulation.account();
    (format!("{outcome:?}"), ends, account.violations)
}

/// Over VIs of adapters, as between processes: each request ends once, in whatever goes wrong.
fn over_vis(cell: &Cell) -> Result<(), String> {
    let config = simulated(study(cell), None);
    let (_, ends, violations) = twice(|| run_over_vis(&config))?;
    wanted(violations.is_empty(), || format!("{violations:?}"))?;
    let disturbance = combination(cell).disturbance;
    let loses = !matches!(
        disturbance,
        None | Some(Disturbance::Background | Disturbance::SlowHost)
    );
    for (host, ends) in ends.iter().enumerate().skip(1) {
        // One of host 1 that dies is not heard of any more.
        if disturbance == Some(Disturbance::HostDies) && host == 1 {
            continue;
        }
        let has_all = ends.requests == REQUESTS && ends.replied + ends.returned == REQUESTS;
        wanted(ends.has_ended && has_all, || {
            format!("host {host}: {ends:?}")
        })?;
        let is_well = ends.returned == 0 || loses || has_full_queues(cell);
        wanted(is_well, || format!("host {host}: {ends:?}"))?;
    }
    let replied: u64 = ends.iter().map(|it| it.replied).sum();
    wanted(replied > 0, || format!("{ends:?}"))
}
