//! A program that posts a list's messages, and one that takes them: each has its message when the
//! list's own receiver has it, on each adapter with VIs and with each rule of sharing, alone and
//! behind others, and where frames are lost that the adapter sends again.

#[path = "../../examples/listed/both.rs"]
mod both;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{ListedMessage, MessageList, MessageOperation};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Notice};
use viaduct_network::Sharing;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Buffer, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::{list_models, load_programs};
use viaduct_topology::{ChainHosts, Ports, Topology};

/// Sizes that change from one message to the next, and come again behind others: what an adapter
/// has planned last is of another message then. Those of 0 bytes have no segment.
const SIZES: [u32; 9] = [64, 0, 64, 5000, 0, 5000, 4, 30_000, 64];

/// So far apart that each message is alone.
const APART: Duration = Duration::from_millis(3);

/// What the messages of a list take, from post to reap, posted at these times.
fn of_list(programs: &SimulationConfig, level: ReliabilityLevel, posted: &[Time]) -> Vec<Time> {
    let messages: Vec<ListedMessage> = SIZES
        .iter()
        .zip(posted)
        .map(|(&bytes, &time)| ListedMessage {
            time,
            source: 0,
            target: 1,
            bytes,
            operation: MessageOperation::Send,
        })
        .collect();
    let list = Arc::new(MessageList::new(&messages, 2, 1).unwrap());
    let mut config = ClusterConfig::from(programs.clone());
    config.traffic = TrafficConfig::listed(list, Time::ZERO, Time::MAX);
    config.traffic.reliability = level;
    config.run.until = Time::from_milliseconds(100);
    config.run.message_rows_max = 100;
    config.hosts.prepost = 8;
    config.hosts.send_buffers = 8;
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.violations, Vec::<String>::new());
    let was_resent = result
        .warnings
        .iter()
        .any(|it| it.text.contains("sent again"));
    assert_eq!(
        was_resent,
        !programs.faults.is_empty(),
        "{:?}",
        result.warnings
    );
    let rows = result.message_rows.iter();
    rows.map(|row| row.latency.unwrap()).collect()
}

/// Takes a message as the preset says; when the program has it. Its buffer goes after that.
fn take(process: &Process, vi: &mut Vi<SimulatedFabric>, notice: Notice) -> (Time, Vec<u8>) {
    loop {
        let received = match notice {
            Notice::Polling { .. } => vi.try_receive().unwrap(),
            Notice::Interrupt { .. } => Some(vi.receive(None).unwrap()),
        };
        if let Some(received) = received {
            return (process.time(), received.data().to_vec());
        }
    }
}

/// The same of two programs, with the times of their posts.
fn of_programs(config: &SimulationConfig, level: ReliabilityLevel) -> [Vec<Time>; 2] {
    let notice = config.host.common().notice();
    let mut simulation = Simulation::new(config.clone());
    let times: Arc<Mutex<[Vec<Time>; 2]>> = Arc::default();
    let taken = Arc::clone(&times);
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().reliability(level).build().unwrap();
        for _ in 0..=SIZES.len() {
            let buffer = nic.buffer(30_000, Memory::Private).unwrap();
            vi.post_receive(buffer).unwrap();
        }
        nic.listen(b"list").accept(&mut vi, None).unwrap();
        for (&bytes, place) in SIZES.iter().zip(0..) {
            let (time, data) = take(&process, &mut vi, notice);
            taken.lock().unwrap()[1].push(time);
            assert_eq!(data, vec![place; bytes as usize]);
        }
        // Until the sender has heard of the last one.
        process.sleep(APART);
    });
    let posted = Arc::clone(&times);
    simulation.spawn(0, move |process: Process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().reliability(level).build().unwrap();
        let server = nic.resolve("host1", b"list").unwrap();
        while let Err(error) = vi.connect(&server, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(10));
        }
        for (&bytes, place) in SIZES.iter().zip(0_u8..) {
            let mut buffer = match bytes {
                0 => Buffer::empty(),
                bytes => nic.buffer(bytes as usize, Memory::Private).unwrap(),
            };
            buffer.fill(place);
            process.sleep(APART);
            posted.lock().unwrap()[0].push(process.time());
            vi.post_send(buffer, bytes as usize).unwrap();
            vi.sent(None).unwrap();
        }
        process.sleep(APART);
    });
    simulation.run().unwrap();
    let [posted, taken] = &*times.lock().unwrap();
    let pairs = taken.iter().zip(posted);
    let spans = pairs.map(|(taken, posted)| *taken - *posted).collect();
    [posted.clone(), spans]
}

#[test]
fn a_program_has_each_message_when_the_receiver_of_a_list_has_it() {
    let models = list_models().into_iter();
    let models: Vec<_> = models.filter(|model| !model.has_endpoints()).collect();
    assert!(models.len() >= 13);
    for model in models {
        let mut config = load_programs(&model.name, Some("two-hosts"), 2)
            .unwrap()
            .quiet();
        for sharing in [
            Sharing::Fluid,
            Sharing::MaxMin,
            Sharing::Queues,
            Sharing::Packets,
            Sharing::Credits,
        ] {
            config.links.sharing = sharing;
            let level = ReliabilityLevel::Unreliable;
            let [posted, ours] = of_programs(&config, level);
            let listed = of_list(&config, level, &posted);
            assert_eq!(ours, listed, "{}, {sharing:?}", model.name);
        }
    }
}

#[test]
fn what_is_lost_of_a_program_and_of_a_list_is_sent_again_at_the_same_times() {
    let loss = |rate| Fault::Loss {
        links: Links::All,
        rate,
    };
    // While the sixth message is posted, and for some time-outs.
    let cut = Fault::LinkDown {
        links: Links::All,
        from: Time::from_microseconds(17_900),
        until: Some(Time::from_microseconds(18_600)),
    };
    for level in [
        ReliabilityLevel::ReliableDelivery,
        ReliabilityLevel::ReliableReception,
    ] {
        for faults in [vec![loss(0.1)], vec![cut], vec![loss(0.05), cut]] {
            let mut config = load_programs("rnic-gen3", Some("two-hosts"), 2)
                .unwrap()
                .quiet();
            if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
                (model.timeout, model.retries) = (Time::from_microseconds(100), 20);
            }
            config.links.frame.payload_bytes = 1000;
            config.faults = faults;
            for seed in 1..=3 {
                config.seed = seed;
                let [posted, ours] = of_programs(&config, level);
                let listed = of_list(&config, level, &posted);
                assert_eq!(ours, listed, "{level:?}, {:?}, {seed}", config.faults);
            }
        }
    }
}

#[test]
fn a_loaded_list_is_carried_as_programs_carry_it() {
    const PAIRS: u32 = 3;

    let models = list_models().into_iter();
    let models: Vec<_> = models.filter(|model| !model.has_endpoints()).collect();
    assert!(models.len() >= 13);
    for model in models {
        let mut config = load_programs(&model.name, None, 2 * PAIRS).unwrap();
        let topology = Topology::chain(2, ChainHosts::EverySwitch(PAIRS), Ports(8)).unwrap();
        config.topology = Arc::new(topology);
        both::move_one_by_one(&mut config);
        for sharing in [Sharing::Fluid, Sharing::MaxMin] {
            config.links.sharing = sharing;
            let mut means = Vec::new();
            for load in [10, 40, 200] {
                let name = format!("{}, {sharing:?}, {load} %", model.name);
                let listed = carried_alike(&config, load, &name);
                means.push(listed.latency.unwrap().mean_us.mean);
            }
            assert!(means[2] > 1.4 * means[0], "{}: {means:?}", model.name);
        }
    }
}

/// A list that fills a link to so many percent has the same posts, deliveries and stages by
/// programs; what became of it.
fn carried_alike(config: &SimulationConfig, load: u32, name: &str) -> RunResult {
    let wanted = both::messages(config, 32, load);
    let programs = both::of_programs(config, &wanted).unwrap();
    let list = both::posted(&programs);
    let listed = both::of_list(config, &list).unwrap();
    assert_eq!(both::rows(&programs), both::rows(&listed), "{name}");
    assert_eq!(programs.breakdown, listed.breakdown, "{name}");
    if load == 200 {
        // Programs that are given the list post at its times.
        let again = both::of_programs(config, &list).unwrap();
        assert_eq!(both::rows(&again), both::rows(&listed), "{name}");
    }
    listed
}

#[test]
fn doorbells_of_receives_take_some_of_a_full_bus() {
    for model in ["bvia-myrinet", "kvia-myrinet"] {
        let mut config = load_programs(model, None, 2).unwrap();
        assert!(
            config.host.common().bus.dma_rate() < config.links.host_rate,
            "{model}"
        );
        for sharing in [Sharing::Fluid, Sharing::MaxMin] {
            config.links.sharing = sharing;
            for load in [100, 200] {
                carried_alike(&config, load, &format!("{model}, {sharing:?}, {load} %"));
            }
        }
    }
}
