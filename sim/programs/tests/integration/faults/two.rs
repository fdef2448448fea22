//! Two programs on two hosts, connected, and what each was told in the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::faults::{Fault, Links};
use viaduct_engine::Time;
use viaduct_hardware::HostModel;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Outcome, Process, SimulatedFabric, Simulation, SimulationError};
use viaduct_provider::via::{ReliabilityLevel, Status, ViState};
use viaduct_provider::{
    Access, CompletionError, ErrorCode, Memory, Nic, RemoteBuffer, ReturnCode, Vi, Window,
};
use viaduct_topology::{HostId, Node, SwitchId};

use crate::models;

pub(crate) const UD: ReliabilityLevel = ReliabilityLevel::Unreliable;
pub(crate) const RD: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
pub(crate) const RR: ReliabilityLevel = ReliabilityLevel::ReliableReception;

/// Bytes of each message, and of each window.
pub(crate) const BYTES: usize = 64;

/// Receives posted at each end.
pub(crate) const RECEIVES: usize = 4;

/// When faults strike, microseconds: the connection is there by then.
pub(crate) const STRIKE: u64 = 5000;

/// When everything has been noticed, microseconds.
const END: u64 = 60_000;

/// How a descriptor ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    Well,
    /// With these error bits.
    Failed(u32),
    /// It is not complete.
    Waits,
    /// There was none, or no connection for it.
    Refused,
}

pub(crate) const TRANSPORT: Ended = Ended::Failed(Status::TRANSPORT_ERROR.bits());
pub(crate) const FLUSHED: Ended = Ended::Failed(Status::FLUSHED_ERROR.bits());

/// What a side was told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Told {
    pub(crate) ended: Vec<Ended>,
    pub(crate) state: ViState,
    pub(crate) errors: Vec<ErrorCode>,
}

/// One end of a connection.
pub(crate) struct End {
    pub(crate) process: Process,
    pub(crate) nic: Nic<SimulatedFabric>,
    pub(crate) vi: Vi<SimulatedFabric>,
    pub(crate) window: Window<SimulatedFabric>,
    /// The other end's.
    pub(crate) remote: RemoteBuffer,
}

pub(crate) const fn at(microseconds: u64) -> Time {
    Time::from_microseconds(microseconds)
}

/// Lets time pass until so many microseconds after the start.
pub(crate) fn until(process: &Process, microseconds: u64) {
    let time = Duration::from_micros(microseconds);
    process.sleep(time.saturating_sub(process.now()));
}

/// The links between a host and the switch, in both directions.
pub(crate) fn cable(host: u32) -> Links {
    let (host, switch) = (Node::Host(HostId(host)), Node::Switch(SwitchId(0)));
    Links::Between(host, switch)
}

/// The link from a host to the switch.
pub(crate) fn up(host: u32) -> Links {
    let (host, switch) = (Node::Host(HostId(host)), Node::Switch(SwitchId(0)));
    Links::OneWay(host, switch)
}

pub(crate) fn ended<T>(result: Result<T, CompletionError>) -> Ended {
    match result {
        Ok(_) => Ended::Well,
        Err(CompletionError::Failed { status, .. }) => {
            Ended::Failed(status.bits() & Status::ERROR_MASK.bits())
        }
        Err(CompletionError::Fabric(error)) if error.code() == ReturnCode::Timeout => Ended::Waits,
        Err(_) => Ended::Refused,
    }
}

impl End {
    pub(crate) fn new(process: Process, level: ReliabilityLevel) -> Self {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let builder = nic
            .vi()
            .reliability(level)
            .rdma_write(true)
            .receive_depth(512);
        let mut vi = builder.rdma_read(level != UD).build().unwrap();
        for _ in 0..RECEIVES {
            let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
            vi.post_receive(buffer).unwrap();
        }
        let access = Access::ReadWrite;
        let window = nic.window(BYTES, access, Memory::Private).unwrap();
        let remote = window.remote();
        Self {
            process,
            nic,
            vi,
            window,
            remote,
        }
    }

    pub(crate) fn buffer(&self) -> viaduct_provider::Buffer {
        let mut buffer = self.nic.buffer(BYTES, Memory::Private).unwrap();
        buffer.fill(7);
        buffer
    }

    /// Posts a send.
    pub(crate) fn post(&mut self) {
        let buffer = self.buffer();
        self.vi.post_send(buffer, BYTES).unwrap();
    }

    /// How so many sends end.
    pub(crate) fn sent(&mut self, count: usize) -> Vec<Ended> {
        let limit = Some(Duration::from_millis(40));
        (0..count).map(|_| ended(self.vi.sent(limit))).collect()
    }

    /// How so many receives end.
    pub(crate) fn received(&mut self, count: usize) -> Vec<Ended> {
        let limit = Some(Duration::from_millis(40 / count as u64));
        (0..count).map(|_| ended(self.vi.receive(limit))).collect()
    }

    /// Asks for a connection until somebody listens.
    pub(crate) fn connect(&mut self, to: &str) {
        let address = self.nic.resolve(to, b"faults").unwrap();
        while let Err(error) = self.vi.connect(&address, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch, "{error}");
            self.process.relax();
        }
    }
}

/// What a side does when it is connected; it tells how its descriptors ended.
pub(crate) type Part = fn(&mut End) -> Vec<Ended>;

/// Runs two programs to their ends. A side that never came to it has told nothing.
pub(crate) fn run_two(
    config: SimulationConfig,
    level: ReliabilityLevel,
    parts: [Part; 2],
) -> (Result<Outcome, SimulationError>, [Option<Told>; 2]) {
    let mut simulation = Simulation::new(config);
    simulation.keep_account(0);
    let told: Arc<Mutex<[Option<Told>; 2]>> = Arc::default();
    let windows: Arc<Mutex<[Option<RemoteBuffer>; 2]>> = Arc::default();
    for (side, part) in parts.into_iter().enumerate() {
        let (told, windows) = (told.clone(), windows.clone());
        simulation.spawn(side as u32, move |process| {
            let mut end = End::new(process.clone(), level);
            windows.lock().unwrap()[side] = Some(end.window.remote());
            let errors: Arc<Mutex<Vec<ErrorCode>>> = Arc::default();
            let heard = errors.clone();
            let handler = Arc::new(move |error: &viaduct_provider::AsynchronousError| {
                heard.lock().unwrap().push(error.code);
            });
            end.nic.set_error_handler(Some(handler)).unwrap();
            if side == 0 {
                end.connect("host1");
            } else {
                end.nic.listen(b"faults").accept(&mut end.vi, None).unwrap();
            }
            end.remote = windows.lock().unwrap()[1 - side].unwrap();
            let ended = part(&mut end);
            until(&process, END);
            let state = end.vi.query().unwrap().state;
            let errors = errors.lock().unwrap().clone();
            told.lock().unwrap()[side] = Some(Told {
                ended,
                state,
                errors,
            });
            until(&process, END + 1000);
        });
    }
    let outcome = simulation.run();
    let account = simulation.account();
    assert_eq!(account.violations, Vec::<String>::new());
    let told = told.lock().unwrap().clone();
    (outcome, told)
}

/// Two hosts, and what goes wrong.
pub(crate) fn with(model: &HostModel, faults: &[Fault]) -> SimulationConfig {
    SimulationConfig {
        adapters: Adapters::ONE,
        processors: None,
        faults: faults.to_vec(),
        ..models::pair(model.clone())
    }
}

/// What a side is told of its descriptors while the connection stays.
pub(crate) fn stays(ended: &[Ended]) -> Told {
    Told {
        ended: ended.to_vec(),
        state: ViState::Connected,
        errors: Vec::new(),
    }
}

/// What a side is told when the connection breaks.
pub(crate) fn breaks(ended: &[Ended]) -> Told {
    Told {
        ended: ended.to_vec(),
        state: ViState::Error,
        errors: vec![ErrorCode::ConnectionLost],
    }
}

/// Runs two programs under faults, on each model and at each level, and compares what they are
/// told.
pub(crate) fn expect(
    faults: &[Fault],
    parts: [Part; 2],
    told: fn(ReliabilityLevel) -> [Option<Told>; 2],
) {
    for model in models::all() {
        for level in [UD, RD, RR] {
            let (outcome, was) = run_two(with(&model, faults), level, parts);
            let place = format!("{level:?} on {}", model.name);
            assert!(outcome.is_ok(), "{place}: {outcome:?}");
            assert_eq!(was, told(level), "{place}");
            let mut states = was.iter().flatten().map(|told| told.state);
            let broken = u64::from(states.any(|state| state == ViState::Error));
            let counted = outcome.unwrap().counts.connections_broken;
            assert_eq!(counted, broken, "{place}: connections broken");
        }
    }
}
