//! Remote writes and reads of a list, and of a program that posts the same at the same times: each
//! has the same latency and the same stages, on each adapter, with each rule of sharing, alone and
//! behind others, and where frames are lost that the adapter sends again.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::floor_latency;
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::MessageOperation::{self, Read, Send, Write, WriteWithImmediate};
use viaduct_cluster::workload::{ListedMessage, MessageList};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Notice, Switching};
use viaduct_network::Sharing;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, Simulation};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Access, Buffer, Memory, Nic, RemoteBuffer, ReturnCode};
use viaduct_scenario::{list_models, load_programs};
use viaduct_topology::HostId;

const RD: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
const RR: ReliabilityLevel = ReliabilityLevel::ReliableReception;
const UD: ReliabilityLevel = ReliabilityLevel::Unreliable;

const BYTES_MAX: u32 = 30_000;

/// One message.
type Given = (MessageOperation, u32);

/// All kinds, of sizes that change from one message to the next and come again.
const ALL: [Given; 14] = [
    (Write, 64),
    (Read, 64),
    (Write, 0),
    (Read, 0),
    (Send, 5000),
    (WriteWithImmediate, 4),
    (Read, 5000),
    (Write, 30_000),
    (Read, 30_000),
    (WriteWithImmediate, 30_000),
    (Write, 5000),
    (Send, 64),
    (Read, 4),
    (Write, 4),
];

/// Writes and reads that are posted while others are under way. None of them is heard of: how soon
/// a program hears, and what it costs it to post a receive again, is its own doing.
const CLOSE: [Given; 10] = [
    (Write, 30_000),
    (Read, 30_000),
    (Read, 64),
    (Write, 5000),
    (Write, 0),
    (Write, 30_000),
    (Read, 5000),
    (Write, 64),
    (Read, 0),
    (Read, 5000),
];

/// So far apart that each message is alone.
const APART: Duration = Duration::from_millis(3);

/// What happens to messages of a list that are posted at these times.
fn of_list(
    programs: &SimulationConfig,
    level: ReliabilityLevel,
    posted: &[(Time, Given)],
) -> RunResult {
    let listed = |&(time, (operation, bytes)): &(Time, Given)| ListedMessage {
        time,
        source: 0,
        target: 1,
        bytes,
        operation,
    };
    let messages: Vec<ListedMessage> = posted.iter().map(listed).collect();
    let list = Arc::new(MessageList::new(&messages, 2, 1).unwrap());
    let mut config = ClusterConfig::from(programs.clone());
    config.traffic = TrafficConfig::listed(list, Time::ZERO, Time::MAX);
    config.traffic.reliability = level;
    config.run.until = Time::from_milliseconds(200);
    config.run.message_rows_max = 1000;
    config.hosts.prepost = 100;
    config.hosts.send_buffers = 100;
    viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The same of two programs, which post so many times the same at such intervals.
fn of_programs(
    config: &SimulationConfig,
    level: ReliabilityLevel,
    given: &[Given],
    apart: Duration,
) -> RunResult {
    let notice = config.host.common().notice();
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(1000);
    let window: Arc<Mutex<Option<RemoteBuffer>>> = Arc::default();
    let exported = Arc::clone(&window);
    let heard = given.iter().filter(|(it, _)| it.is_heard()).count();
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let memory = nic
            .window(BYTES_MAX as usize, Access::ReadWrite, Memory::Private)
            .unwrap();
        let vi = nic.vi().reliability(level).rdma_write(true);
        let mut vi = vi.rdma_read(level != UD).build().unwrap();
        for _ in 0..=heard {
            let buffer = nic.buffer(BYTES_MAX as usize, Memory::Private).unwrap();
            vi.post_receive(buffer).unwrap();
        }
        *exported.lock().unwrap() = Some(memory.remote());
        nic.listen(b"list").accept(&mut vi, None).unwrap();
        for _ in 0..heard {
            let received = loop {
                let received = match notice {
                    Notice::Polling { .. } => vi.try_receive().unwrap(),
                    Notice::Interrupt { .. } => Some(vi.receive(None).unwrap()),
                };
                if let Some(received) = received {
                    break received;
                }
            };
            vi.post_receive(received.buffer).unwrap();
        }
        // Until the sender has heard of the last one.
        process.sleep(Duration::from_millis(150).saturating_sub(process.now()));
    });
    let given = given.to_vec();
    simulation.spawn(0, move |process: Process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let depth = given.len() as u32 + 1;
        let vi = nic.vi().reliability(level).send_depth(depth);
        let mut vi = vi.build().unwrap();
        let server = nic.resolve("host1", b"list").unwrap();
        while let Err(error) = vi.connect(&server, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(10));
        }
        let remote = window.lock().unwrap().unwrap();
        let mut left = 0;
        for (operation, bytes) in given {
            let length = bytes as usize;
            let buffer = match bytes {
                0 => Buffer::empty(),
                _ => nic.buffer(length, Memory::Private).unwrap(),
            };
            process.sleep(apart);
            match operation {
                Send => vi.post_send(buffer, length),
                Write => vi.post_write(buffer, length, remote),
                WriteWithImmediate => vi.post_write_immediate(buffer, length, remote, 7),
                Read => vi.post_read(buffer, length, remote),
            }
            .unwrap();
            left += 1;
            if apart == APART {
                vi.sent(None).unwrap();
                left -= 1;
            }
            // As processes of a list do, behind each post.
            while left > 0 && vi.try_sent().unwrap().is_some() {
                left -= 1;
            }
        }
        process.sleep(Duration::from_millis(100).saturating_sub(process.now()));
        for _ in 0..left {
            vi.sent(None).unwrap();
        }
        process.sleep(Duration::from_millis(140).saturating_sub(process.now()));
    });
    simulation.run().unwrap();
    simulation.account()
}

/// What is the same of both, and what must hold of each.
fn told(result: &RunResult, name: &str) -> (Vec<String>, Vec<String>, Vec<f64>) {
    assert_eq!(result.violations, Vec::<String>::new(), "{name}");
    let mut rows = result.message_rows.clone();
    rows.sort_by_key(|row| row.message);
    for row in &mut rows {
        // Other programs' posts count too.
        row.message = 0;
        assert!(row.latency.is_some(), "{name}: {row:?}");
    }
    let rows = rows.iter().map(|row| format!("{row:?}")).collect();
    let stages = result.breakdown.iter();
    let stages = stages.map(|it| format!("{} {:.9}", it.stage, it.mean_us));
    let links = result.link_rows.iter().map(|row| row.wire_bytes);
    (rows, stages.collect(), links.collect())
}

fn compare(
    config: &SimulationConfig,
    level: ReliabilityLevel,
    given: &[Given],
    apart: Duration,
    name: &str,
) -> RunResult {
    let programs = of_programs(config, level, given, apart);
    let mut rows = programs.message_rows.clone();
    rows.sort_by_key(|row| row.message);
    let posted = rows
        .iter()
        .map(|row| (row.posted, (row.operation, row.bytes)));
    let posted: Vec<(Time, Given)> = posted.collect();
    let asked: Vec<Given> = posted.iter().map(|(_, given)| *given).collect();
    assert_eq!(asked, given, "{name}");
    let listed = of_list(config, level, &posted);
    assert_eq!(told(&listed, name), told(&programs, name), "{name}");
    let resends = |result: &RunResult| {
        let mut warnings = result.warnings.iter();
        warnings.any(|it| it.text.contains("sent again"))
    };
    assert_eq!(resends(&listed), !config.faults.is_empty(), "{name}");
    listed
}

fn models() -> Vec<(String, SimulationConfig)> {
    let models = list_models().into_iter().filter(|it| !it.has_endpoints());
    let loaded = models.map(|model| {
        let config = load_programs(&model.name, Some("two-hosts"), 2)
            .unwrap()
            .quiet();
        (model.name, config)
    });
    let models: Vec<_> = loaded.collect();
    assert!(models.len() >= 13);
    models
}

/// What is alone takes no longer than it must, there and back: once its memory is mapped.
fn takes_its_floor(config: &SimulationConfig, listed: &RunResult, name: &str) {
    let config = ClusterConfig::from(config.clone());
    for row in &listed.message_rows {
        let (source, target) = (HostId(row.source), HostId(row.target));
        let floor = floor_latency(&config, source, target, row.bytes, row.operation);
        let latency = row.latency.unwrap();
        // The first of each kind finds nothing that its adapter remembers.
        let is_first = row.message < 6;
        let holds = latency == floor || is_first && latency > floor;
        assert!(holds, "{name}: {floor} is the floor, {row:?}");
    }
}

#[test]
fn a_list_has_each_write_and_read_when_a_program_has_it() {
    for (name, mut config) in models() {
        for sharing in [Sharing::Fluid, Sharing::MaxMin, Sharing::Queues] {
            for switching in [Switching::CutThrough, Switching::StoreAndForward] {
                config.links.sharing = sharing;
                config.links.switching = switching;
                for level in [RD, RR] {
                    let name = format!("{name}, {sharing:?}, {switching:?}, {level:?}");
                    let listed = compare(&config, level, &ALL, APART, &name);
                    takes_its_floor(&config, &listed, &name);
                }
            }
        }
        let unreliable = ALL.into_iter().filter(|(it, _)| *it != Read);
        let unreliable: Vec<Given> = unreliable.collect();
        compare(&config, UD, &unreliable, APART, &name);
    }
}

#[test]
fn writes_and_reads_that_wait_for_each_other_are_equal_too() {
    for (name, mut config) in models() {
        if matches!(config.host.common().mechanism, Mechanism::Kernel(_)) {
            // The kernel takes what comes on the processor that a program looks and waits with.
            continue;
        }
        if let Mechanism::Native(nic) = &mut config.host.common_mut().mechanism {
            // Programs' messages go one by one whatever this is.
            nic.moving_per_vi = 1;
        }
        let given: Vec<Given> = CLOSE.into_iter().cycle().take(40).collect();
        for sharing in [Sharing::Fluid, Sharing::MaxMin, Sharing::Queues] {
            config.links.sharing = sharing;
            let name = format!("{name}, {sharing:?}");
            let apart = Duration::from_micros(60);
            let listed = compare(&config, RD, &given, apart, &name);
            let alone = of_list(&config, RD, &[(Time::ZERO, (Write, 30_000))]);
            let longest = |result: &RunResult| result.latency.as_ref().unwrap().max_us;
            // Where the processor writes the bytes they wait for it, and are not posted before.
            let shared = listed.message_rows.iter().any(|it| it.queued > Time::ZERO);
            let waits = longest(&listed) > 2.0 * longest(&alone);
            assert!(waits || shared, "{name}: each is alone");
        }
    }
}

#[test]
fn what_is_lost_of_writes_and_reads_is_sent_again_at_the_same_times() {
    let loss = |rate| Fault::Loss {
        links: Links::All,
        rate,
    };
    // While some are posted and read, and for many time-outs.
    let cut = Fault::LinkDown {
        links: Links::All,
        from: Time::from_microseconds(20_000),
        until: Some(Time::from_microseconds(23_200)),
    };
    for level in [RD, RR] {
        for faults in [vec![loss(0.1)], vec![cut], vec![loss(0.05), cut]] {
            let mut config = load_programs("rnic-gen3", Some("two-hosts"), 2)
                .unwrap()
                .quiet();
            if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
                (model.timeout, model.retries) = (Time::from_microseconds(100), 60);
            }
            config.links.frame.payload_bytes = 1000;
            config.faults = faults;
            for seed in 1..=3 {
                config.seed = seed;
                let name = format!("{level:?}, {:?}, {seed}", config.faults);
                compare(&config, level, &ALL, APART, &name);
            }
        }
    }
}
