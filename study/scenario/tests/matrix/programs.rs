//! Programs that use VIs: sends, and writes and reads of remote memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::{MessageCounts, RunResult};
use viaduct_cluster::workload::MessageOperation;
use viaduct_engine::Time;
use viaduct_hardware::Completion;
use viaduct_programs::config::{Around, SimulationConfig};
use viaduct_programs::{Outcome, Process, SimulatedFabric, Simulation, SimulationError};
use viaduct_provider::via::{Address, ReliabilityLevel};
use viaduct_provider::{Access, Memory, RemoteBuffer};
use viaduct_scenario::Study;
use viaduct_scenario::combinations::Disturbance;
use viaduct_topology::HostId;

use crate::{
    Cell, HOSTS, cells, combination, floor, has_full_queues, level, listed, may_stand_still, name,
    operation, study, text, twice, wanted,
};

type Nic = viaduct_provider::Nic<SimulatedFabric>;

/// Messages that each sender posts, and bytes of each.
const POSTS: u64 = 60;
const BYTES: usize = 1500;

/// What a receiver had: numbers, and how long each message took.
type Taken = Vec<(u64, Time)>;

/// What programs did.
#[derive(Debug)]
struct Ran {
    #[expect(dead_code, reason = "two runs are compared by their text")]
    outcome: Outcome,
    /// What receivers had.
    taken: Vec<Taken>,
    /// How many sends were well.
    well: u64,
    /// What was around them.
    around: MessageCounts,
    #[expect(dead_code, reason = "two runs are compared by their text")]
    digest: u64,
    violations: Vec<String>,
}

/// From each place of an even host to that of the same adapter at the next one.
fn ways(adapters: Adapters) -> impl Iterator<Item = (u32, u32)> {
    let from = (0..HOSTS).filter(move |place| (place / adapters.count).is_multiple_of(2));
    from.map(move |place| (place, place + adapters.count))
}

/// A host at the adapter of a place.
fn stand(simulation: &Simulation, place: u32) -> Process {
    let (host, adapter) = simulation.configuration().adapter_at(place);
    simulation.process(host).at_adapter(adapter).unwrap()
}

/// The NIC of that adapter.
fn open(process: &Process) -> Nic {
    let name = format!("sim{}", process.adapter());
    Nic::open(process.fabric(), &name).unwrap()
}

/// A VI's peer, which waits at a place.
fn address(nic: &Nic, process: &Process, place: u32) -> Address {
    let (host, adapter) = (place / process.adapters(), place % process.adapters());
    nic.resolve_at(&format!("host{host}"), adapter, b"matrix")
        .unwrap()
}

/// Every adapter of an even host sends to that of the next one.
fn run_programs(
    config: &SimulationConfig,
    level: ReliabilityLevel,
) -> Result<Ran, SimulationError> {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(0);
    let taken: Arc<Mutex<Vec<Taken>>> = Arc::new(Mutex::new(vec![Vec::new(); HOSTS as usize]));
    let well = Arc::new(Mutex::new(0));
    for (from, to) in ways(config.adapters) {
        let (taken, well) = (Arc::clone(&taken), Arc::clone(&well));
        stand(&simulation, to).spawn(move |process| {
            receive(&process, level, |message| {
                taken.lock().unwrap()[to as usize].push(message);
            });
        });
        stand(&simulation, from).spawn(move |process| {
            *well.lock().unwrap() += send(&process, level, to);
        });
    }
    let outcome = simulation.run()?;
    let (taken, well) = (taken.lock().unwrap().clone(), *well.lock().unwrap());
    let account = simulation.account();
    Ok(Ran {
        outcome,
        taken,
        well,
        around: account.around,
        digest: account.digest,
        violations: account.violations,
    })
}

/// Long enough for anything that still comes.
const PATIENCE: Duration = Duration::from_millis(20);

fn receive(process: &Process, level: ReliabilityLevel, mut take: impl FnMut((u64, Time))) {
    let nic = open(process);
    let mut vi = nic
        .vi()
        .reliability(level)
        .receive_depth(128)
        .build()
        .unwrap();
    for _ in 0..POSTS + 2 {
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(buffer).unwrap();
    }
    if nic
        .listen(b"matrix")
        .accept(&mut vi, Some(PATIENCE))
        .is_err()
    {
        return;
    }
    while let Ok(received) = vi.receive(Some(PATIENCE)) {
        let word = |place: usize| {
            let bytes = received.data()[8 * place..8 * place + 8]
                .try_into()
                .unwrap();
            u64::from_le_bytes(bytes)
        };
        let latency = process.time() - Time::from_picoseconds(word(1));
        take((word(0), latency));
    }
}

fn send(process: &Process, level: ReliabilityLevel, to: u32) -> u64 {
    let nic = open(process);
    let mut vi = nic.vi().reliability(level).send_depth(128).build().unwrap();
    let address = address(&nic, process, to);
    while vi.connect(&address, Some(PATIENCE)).is_err() {
        if process.now() > PATIENCE {
            return 0;
        }
        process.relax();
    }
    let mut well = 0;
    for number in 0..POSTS {
        let mut buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        process.sleep(Duration::from_micros(70));
        buffer[8..16].copy_from_slice(&process.time().picoseconds().to_le_bytes());
        if vi.post_send(buffer, BYTES).is_err() {
            break;
        }
        if number % 4 == 3 {
            for _ in 0..4 {
                well += u64::from(vi.sent(Some(PATIENCE)).is_ok());
            }
        }
    }
    process.sleep(PATIENCE);
    well
}

/// What came out; nothing where links wait for each other, as they may in this cell.
fn unless_still<T>(
    cell: &Cell,
    config: &SimulationConfig,
    ran: Result<T, SimulationError>,
) -> Result<Option<T>, String> {
    match ran {
        Ok(ran) => Ok(Some(ran)),
        Err(SimulationError::Deadlock { .. }) if may_stand_still(cell, &config.topology) => {
            Ok(None)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Programs that write and read remote memory: what the account of their messages says.
fn remote_programs(cell: &Cell, config: &SimulationConfig) -> Result<(), String> {
    let (level, operation) = (level(cell), operation(cell));
    let ran = twice(|| run_remote(config, level, operation))?;
    let Some(result) = unless_still(cell, config, ran)? else {
        return Ok(());
    };
    wanted(result.violations.is_empty(), || {
        format!("{:?}", result.violations)
    })?;
    let counts = result.messages;
    let ended = counts.delivered + counts.dropped + counts.in_flight;
    wanted(counts.posted == ended && counts.delivered > 0, || {
        format!("{counts:?}")
    })?;
    let disturbance = combination(cell).disturbance;
    // A host may die before its program has taken what was placed.
    let has_dead = disturbance == Some(Disturbance::HostDies) && operation.is_heard();
    wanted(counts.in_flight == 0 || has_dead, || {
        format!("after the end: {counts:?}")
    })?;
    let alone = heard_at_once(config);
    for row in &result.message_rows {
        let (source, target) = (HostId(row.source), HostId(row.target));
        let floor = floor(&alone, source, target, row.bytes, operation);
        let holds = row.operation == operation && row.latency.is_none_or(|it| it >= floor);
        wanted(holds, || format!("the floor is {floor}: {row:?}"))?;
    }
    let is_harmless = !has_full_queues(cell)
        && matches!(
            disturbance,
            None | Some(Disturbance::Background | Disturbance::SlowHost)
        );
    let all = POSTS * u64::from(HOSTS / 2);
    wanted(!is_harmless || counts.delivered == all, || {
        format!("{counts:?} of {all}")
    })
}

/// What is there before a program looks costs it no notice.
fn heard_at_once(config: &SimulationConfig) -> ClusterConfig {
    let mut alone = ClusterConfig::from(config.clone());
    for host in alone.host.values_mut() {
        host.completion = Completion::Polling;
        host.processor.polling_delay = Time::ZERO;
    }
    alone
}

/// The hosts of a study with programs on them, amid such traffic.
pub(crate) fn simulated(study: Study, around: Option<Around>) -> SimulationConfig {
    let config = study.config;
    SimulationConfig {
        around,
        topology: config.topology,
        links: config.links,
        switch: config.switch,
        host: config.host,
        adapters: config.hosts.adapters,
        processors: config.hosts.processors,
        faults: config.faults,
        background: config.background,
        detection: config.detection,
        seed: 1,
    }
}

pub(crate) fn programs(cell: &Cell) -> Result<(), String> {
    let (is_amid, is_listed) = (
        text(cell, 0) != "programs",
        text(cell, 0) == "programs amid list",
    );
    let study = study(cell);
    let around = Around {
        hosts: study.config.hosts.clone(),
        traffic: match is_listed {
            true => listed(cell, study.config.run.until),
            false => study.config.traffic.clone(),
        },
        warmup: Time::from_microseconds(500),
    };
    let programs = simulated(study, is_amid.then_some(around));
    if operation(cell) != MessageOperation::Send {
        return remote_programs(cell, &programs);
    }
    let level = level(cell);
    let ran = twice(|| run_programs(&programs, level))?;
    let Some(ran) = unless_still(cell, &programs, ran)? else {
        return Ok(());
    };
    let (taken, well, around) = (ran.taken, ran.well, ran.around);
    wanted(ran.violations.is_empty(), || {
        format!("{:?}", ran.violations)
    })?;
    let ended = around.delivered + around.dropped + around.in_flight;
    wanted(around.posted == ended, || format!("{around:?}"))?;
    wanted((around.delivered > 0) == is_amid, || format!("{around:?}"))?;
    let alone = heard_at_once(&programs);
    let mut count = 0;
    let adapters = programs.adapters.count;
    for (host, taken) in (0..).zip(&taken) {
        let mut last = None;
        for &(number, latency) in taken {
            let follows = last.is_none_or(|last| number > last);
            let has_gap = number != last.map_or(0, |last| last + 1);
            let holds = number < POSTS && follows && !(level.is_reliable() && has_gap);
            wanted(holds, || format!("host {host}: {number} behind {last:?}"))?;
            let ends = (HostId(host - adapters), HostId(host));
            let send = MessageOperation::Send;
            let floor = floor(&alone, ends.0, ends.1, BYTES as u32, send);
            wanted(latency >= floor, || {
                format!("{latency} below the floor of {floor}")
            })?;
            last = Some(number);
        }
        count += taken.len() as u64;
    }
    let all = POSTS * u64::from(HOSTS / 2);
    wanted(count > 0 && count <= all, || format!("{count} of {all}"))?;
    let disturbance = combination(cell).disturbance;
    // A host may die before its program has taken what was placed.
    let has_dead = disturbance == Some(Disturbance::HostDies);
    if level == ReliabilityLevel::ReliableReception && !has_dead {
        wanted(well <= count, || {
            format!("{well} were told as placed, {count} were")
        })?;
    }
    let is_harmless = !has_full_queues(cell)
        && matches!(
            disturbance,
            None | Some(Disturbance::Background | Disturbance::SlowHost)
        );
    wanted(!is_harmless || count == all, || format!("{count} of {all}"))?;
    // It has stopped long before the programs end.
    let has_all = around.posted == around.delivered;
    wanted(!is_harmless || has_all, || format!("{around:?}"))
}

/// Offers its memory, and takes what it is told of.
fn offer(process: &Process, level: ReliabilityLevel, tell: impl FnOnce(RemoteBuffer)) {
    let nic = open(process);
    let window = nic.window(BYTES, Access::ReadWrite, Memory::Private);
    let window = window.unwrap();
    let is_reliable = level.is_reliable();
    let vi = nic.vi().reliability(level).receive_depth(128);
    let mut vi = vi.rdma_write(true).rdma_read(is_reliable).build().unwrap();
    for _ in 0..POSTS + 2 {
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        vi.post_receive(buffer).unwrap();
    }
    tell(window.remote());
    let listening = nic.listen(b"matrix");
    if listening.accept(&mut vi, Some(PATIENCE)).is_ok() {
        while vi.receive(Some(PATIENCE)).is_ok() {}
    }
}

/// Writes or reads another host's memory until the connection breaks.
fn access(
    process: &Process,
    level: ReliabilityLevel,
    (to, operation): (u32, MessageOperation),
    window: impl Fn() -> Option<RemoteBuffer>,
) {
    let nic = open(process);
    let mut vi = nic.vi().reliability(level).send_depth(128).build().unwrap();
    let address = address(&nic, process, to);
    while vi.connect(&address, Some(PATIENCE)).is_err() {
        if process.now() > PATIENCE {
            return;
        }
        process.relax();
    }
    let remote = window().unwrap();
    for _ in 0..POSTS {
        let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
        process.sleep(Duration::from_micros(70));
        let posted = match operation {
            MessageOperation::Send => vi.post_send(buffer, BYTES),
            MessageOperation::Write => vi.post_write(buffer, BYTES, remote),
            MessageOperation::WriteWithImmediate => {
                vi.post_write_immediate(buffer, BYTES, remote, 1)
            }
            MessageOperation::Read => vi.post_read(buffer, BYTES, remote),
        };
        if posted.is_err() {
            break;
        }
    }
    process.sleep(2 * PATIENCE);
}

/// Every adapter of an even host writes into the memory of the next one, or reads it: the account
/// of that.
fn run_remote(
    config: &SimulationConfig,
    level: ReliabilityLevel,
    operation: MessageOperation,
) -> Result<RunResult, SimulationError> {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(1 << 12);
    let windows: Arc<Mutex<Vec<Option<RemoteBuffer>>>> =
        Arc::new(Mutex::new(vec![None; HOSTS as usize]));
    for (from, to) in ways(config.adapters) {
        let known = Arc::clone(&windows);
        stand(&simulation, to).spawn(move |process| {
            offer(&process, level, |window| {
                known.lock().unwrap()[to as usize] = Some(window);
            });
        });
        let windows = Arc::clone(&windows);
        stand(&simulation, from).spawn(move |process| {
            let window = || windows.lock().unwrap()[to as usize];
            access(&process, level, (to, operation), window);
        });
    }
    simulation.run()?;
    Ok(simulation.account())
}

#[test]
fn programs_amid_links_that_wait_for_each_other_are_ended() {
    const NAME: &str = "programs amid window | clan-pio | dragonfly | packets pause fair | \
                        unreliable | corruption | send | alike";
    let cell = cells().into_iter().find(|cell| name(cell) == NAME).unwrap();
    let study = study(&cell);
    let around = Around {
        hosts: study.config.hosts.clone(),
        traffic: study.config.traffic.clone(),
        warmup: Time::from_microseconds(500),
    };
    let ran = run_programs(&simulated(study, Some(around)), level(&cell));
    let error = ran.map(|ran| ran.taken).unwrap_err();
    assert!(matches!(error, SimulationError::Deadlock { .. }), "{error}");
}
