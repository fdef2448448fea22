//! CLAN below VIA: what its writes cost, and what they may not do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::background::Background;
use viaduct_cluster::faults::{Fault, Links};
use viaduct_cluster::workload::{Interval, SizeDistribution};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, RemoteWriteModel};
use viaduct_network::hops::Delays;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::raw::{Cookie, Given, RemoteWrites, remote_write_latency, remote_write_rate};
use viaduct_programs::{Counts, Process, Simulation};
use viaduct_provider::ReturnCode;
use viaduct_scenario::load_programs;
use viaduct_topology::HostId;

fn clan() -> SimulationConfig {
    load_programs("clan", None, 2).unwrap()
}

fn model(config: &SimulationConfig) -> RemoteWriteModel {
    match config.host.common().mechanism {
        Mechanism::RemoteWrites(model) => model,
        _ => panic!("no CLAN"),
    }
}

/// The bytes' way over the network, and the time that they take on it at a rate of the sender's.
fn moving(config: &SimulationConfig, bytes: u32, slowest: Time) -> (Time, Time) {
    let wire_bytes = config.links.frame.wire_bytes(u64::from(bytes)) as f64;
    let mut route = Vec::new();
    config.topology.route(HostId(0), HostId(1), &mut route);
    let delays = Delays {
        topology: &config.topology,
        links: &config.links,
        switch: &config.switch,
    };
    let head = delays.head(&route, wire_bytes);
    let link = config.links.host_rate.time_for(wire_bytes);
    let bus = config
        .host
        .common()
        .bus
        .dma_rate()
        .time_for(f64::from(bytes));
    (head, slowest.max(link).max(bus))
}

fn is_near(one: Time, other: Time) -> bool {
    one.picoseconds().abs_diff(other.picoseconds()) <= 100
}

#[test]
fn a_ping_pong_takes_the_sum_of_its_parts() {
    let config = clan();
    let (model, bus) = (model(&config), config.host.common().bus);
    for bytes in [1, 4, 64, 512, 4096] {
        let (head, moving) = moving(&config, bytes, model.write_rate.time_for(bytes.into()));
        let adapters = model.adapter + model.adapter;
        let ends = bus.programmed_write + bus.write + config.host.common().processor.polling_delay;
        let expected = ends + moving + head + adapters;
        let ran = remote_write_latency(&config, bytes).unwrap().unwrap();
        assert!(is_near(ran, expected), "{bytes}: {ran:?}, not {expected:?}");
    }
}

#[test]
fn a_stream_of_requests_goes_at_the_rate_of_set_up_bus_and_interrupt() {
    let config = clan();
    let model = model(&config);
    for bytes in [1024, 4096, 65_536] {
        let (_, moving) = moving(&config, bytes, Time::ZERO);
        let request = model.dma_setup + moving + model.dma_interrupt;
        let expected = f64::from(bytes) * 8.0 / request.seconds_f64();
        let ran = remote_write_rate(&config, bytes).unwrap().unwrap();
        let off = ran.bits_per_second() / expected - 1.0;
        assert!(off.abs() < 1e-3, "{bytes}: {off}");
    }
}

#[test]
fn an_adapter_without_remote_writes_has_no_such_network() {
    let native = load_programs("giganet-clan-linux", None, 2).unwrap();
    assert_eq!(remote_write_latency(&native, 4), Ok(None));
    assert_eq!(remote_write_rate(&native, 4), Ok(None));
    let simulation = Simulation::new(native);
    assert!(simulation.process(0).remote_writes().is_none());
}

fn network(process: &Process) -> RemoteWrites {
    process.remote_writes().unwrap()
}

/// One program writes, the other has given memory.
fn run(
    config: SimulationConfig,
    write: impl FnOnce(&Process, Cookie) + Send + 'static,
    read: impl FnOnce(&Process, Given) + Send + 'static,
) -> Counts {
    let mut simulation = Simulation::new(config);
    let given = network(&simulation.process(1)).give(8192);
    let cookie = given.cookie();
    simulation.spawn(0, move |process| write(&process, cookie));
    simulation.spawn(1, move |process| read(&process, given));
    simulation.run().unwrap().counts
}

#[test]
fn a_sleeper_is_woken_by_a_tripwire_on_a_byte() {
    let asleep: Arc<Mutex<[Duration; 2]>> = Arc::default();
    for has_tripwires in [true, false] {
        let mut config = clan();
        if let Mechanism::RemoteWrites(model) = &mut config.host.common_mut().mechanism {
            model.notices.tripwires *= u32::from(has_tripwires);
        }
        let seen = asleep.clone();
        let counts = run(
            config,
            |process, cookie| {
                let memory = network(process).map(cookie).unwrap();
                process.sleep(Duration::from_millis(1));
                memory.write(100, &[1]).unwrap();
            },
            move |process, given| {
                let found = given.wait(100, None, |bytes| (bytes[100] != 0).then_some(()));
                assert_eq!(found, Some(()));
                seen.lock().unwrap()[usize::from(has_tripwires)] = process.now();
            },
        );
        let expected = u64::from(has_tripwires);
        assert_eq!((counts.wake_ups, counts.events), (expected, expected));
    }
    let [without, with] = *asleep.lock().unwrap();
    // An interrupt, a wake-up and an event, or polling and half a look.
    assert_eq!(with - without, Duration::from_nanos(8350 - 200 - 15));
}

#[test]
fn memory_that_was_taken_back_is_not_written() {
    let counts = run(
        clan(),
        |process, cookie| {
            let memory = network(process).map(cookie).unwrap();
            memory.write(0, &[1]).unwrap();
            process.sleep(Duration::from_millis(1));
            // What is mapped stays mapped; what arrives is refused.
            memory.write(0, &[2]).unwrap();
            memory.post_dma(0, &[3; 4096]).unwrap();
            assert!(memory.poll_dma(0, None));
            let again = network(process).map(cookie).unwrap_err();
            assert_eq!(again.code(), ReturnCode::InvalidParameter);
        },
        |process, given| {
            given.poll(None, |bytes| (bytes[0] == 1).then_some(()));
            drop(given);
            process.sleep(Duration::from_millis(5));
        },
    );
    assert_eq!((counts.remote_writes, counts.refused_writes), (3, 2));
}

#[test]
fn a_write_stays_inside_the_memory_that_was_given() {
    run(
        clan(),
        |process, cookie| {
            let memory = network(process).map(cookie).unwrap();
            for (offset, bytes) in [(8192, 1), (8190, 3), (u32::MAX, 1), (0, 8193), (0, 0)] {
                let refused = memory.write(offset, &vec![1; bytes]).unwrap_err();
                assert_eq!(refused.code(), ReturnCode::InvalidParameter);
                assert!(memory.post_dma(offset, &vec![1; bytes]).is_err());
            }
            memory.write(8191, &[1]).unwrap();
        },
        |_, given| {
            given.poll(None, |bytes| (bytes[8191] == 1).then_some(()));
        },
    );
}

#[test]
fn writes_arrive_in_order_and_a_mapping_costs_time() {
    let mut config = clan();
    let map = model(&config).map;
    config.background = vec![Background {
        source: 0,
        target: Some(1),
        interval: Interval::exponential(1e6).unwrap(),
        size: SizeDistribution::constant(1 << 20),
        from: Time::ZERO,
        until: Some(Time::from_microseconds(200)),
    }];
    run(
        config,
        move |process, cookie| {
            process.sleep(Duration::from_micros(200));
            let began = process.now();
            let memory = network(process).map(cookie).unwrap();
            let took = u64::try_from((process.now() - began).as_nanos()).unwrap();
            assert_eq!(took * 1000, map.picoseconds());
            // The long one is held up when the short one is written.
            memory.write(0, &[7; 4096]).unwrap();
            memory.write(5000, &[1]).unwrap();
        },
        |_, given| {
            let seen = given.poll(None, |bytes| (bytes[5000] == 1).then(|| bytes[4095]));
            assert_eq!(seen, Some(7));
        },
    );
}

#[test]
fn a_write_overtakes_a_request_and_requests_do_not_overtake_each_other() {
    run(
        clan(),
        |process, cookie| {
            let memory = network(process).map(cookie).unwrap();
            memory.post_dma(0, &[7; 4096]).unwrap();
            memory.post_dma(6000, &[1]).unwrap();
            memory.write(5000, &[1]).unwrap();
        },
        |_, given| {
            let seen = given.poll(None, |bytes| (bytes[5000] == 1).then(|| bytes[4095]));
            assert_eq!(seen, Some(0));
            let seen = given.poll(None, |bytes| (bytes[6000] == 1).then(|| bytes[4095]));
            assert_eq!(seen, Some(7));
        },
    );
}

#[test]
fn a_lost_write_changes_nothing() {
    let mut config = clan();
    config.faults = vec![Fault::Loss {
        links: Links::All,
        rate: 1.0,
    }];
    let counts = run(
        config,
        |process, cookie| {
            let memory = network(process).map(cookie).unwrap();
            memory.write(0, &[1]).unwrap();
        },
        |_, given| {
            let limit = Some(Duration::from_millis(1));
            let seen = given.poll(limit, |bytes| (bytes[0] == 1).then_some(()));
            assert_eq!(seen, None);
        },
    );
    assert_eq!(counts.lost, 1);
}
