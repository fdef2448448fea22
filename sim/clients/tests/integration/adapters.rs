//! Clients on hosts of several adapters: each is a device of its own, and what is made on one is
//! not taken for what is made on another.

use std::sync::Arc;

use viaduct_calls::via::{Remote, device};
use viaduct_calls::{CompletionQueueOptions, Device};
use viaduct_programs::Simulation;
use viaduct_programs::verbs::{Completion, QueuePairType, errno};
use viaduct_provider::via::ViAttributes;
use viaduct_provider::{Done, Provider as _, ReturnCode};

use crate::calls::{End, Socket, done};
use crate::figures::{Noted, send_latencies_by, send_stream};
use crate::turns::{line, now, run, run_on};
use crate::via;

/// Two hosts of so many adapters each.
fn two_hosts(model: &str, adapters: u32) -> Simulation {
    let config = viaduct_scenario::load_programs(model, None, 2 * adapters);
    let mut config = config.expect("a preset");
    config.adapters.count = adapters;
    config.adapters.has_own_bus = true;
    Simulation::new(config)
}

#[test]
fn a_client_finds_all_adapters_of_its_host_and_each_is_its_own() {
    let programs = |host: u32| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            let devices = Device::all_at(line()).unwrap();
            let told: Vec<_> = devices.iter().map(Device::description).collect();
            let numbers: Vec<_> = told
                .iter()
                .map(|it| (it.host, it.adapters, it.adapter))
                .collect();
            assert_eq!(numbers, [(host, 3, 0), (host, 3, 1), (host, 3, 2)]);
            let gid = |adapter: u8| [127, 77, 0, 1 + 3 * host as u8 + adapter];
            let gids: Vec<_> = told.iter().map(|it| it.gid[12..].to_vec()).collect();
            assert_eq!(gids, [gid(0), gid(1), gid(2)]);
            let ends: Vec<_> = (0..3)
                .map(|it| End::at(it, QueuePairType::Rc, 64))
                .collect();
            // What is of one adapter has no place on another.
            let options = CompletionQueueOptions {
                entries: 16,
                ..Default::default()
            };
            let foreign = ends[2].context.create_completion_queue(&options).unwrap();
            let mut pair = ends[1].pair.query().unwrap().1;
            pair.send_queue = foreign;
            let refused = ends[1].domain.create_queue_pair(&pair).unwrap_err();
            assert_eq!(refused.errno(), errno::EINVAL);
            foreign.destroy().unwrap();
            // Each closes by itself, and what was made on it goes with it.
            ends[1].context.close().unwrap();
            assert!(ends[1].pair.query().is_err());
            assert!(ends[0].pair.query().is_ok() && ends[2].pair.query().is_ok());
        })
    };
    run(two_hosts("rnic-gen5", 3), vec![programs(0), programs(1)]);
}

#[test]
fn a_send_takes_as_long_by_each_adapter_as_by_the_only_one() {
    for bytes in [2, 4096] {
        let only = send_latencies_by(0, two_hosts("rnic-gen5", 1), bytes);
        for adapter in 0..2 {
            let by_it = send_latencies_by(adapter, two_hosts("rnic-gen5", 2), bytes);
            assert_eq!(by_it, only, "adapter {adapter}, {bytes} bytes");
        }
    }
}

/// How long streams take that two clients of a host send to two of another side by side, by these
/// adapters.
fn side_by_side(adapters: [usize; 2]) -> u64 {
    const BYTES: usize = 1 << 20;
    let times = Noted::default();
    let streams = adapters.map(|adapter| send_stream(adapter, BYTES, 100, &times));
    let programs = streams.into_iter().flat_map(|stream| (0..).zip(stream));
    run_on(two_hosts("rnic-gen5", 2), programs.collect());
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 2);
    *times.iter().max().unwrap()
}

#[test]
fn two_streams_by_two_adapters_carry_twice_what_they_carry_by_one() {
    let (by_one, by_two) = (side_by_side([1, 1]), side_by_side([0, 1]));
    let ratio = by_one as f64 / by_two as f64;
    assert!((1.98..2.02).contains(&ratio), "{by_one} ps, {by_two} ps");
}

#[test]
fn a_loop_over_queues_of_two_adapters_sees_what_comes_by_each() {
    // When the first of two completions was seen by a loop over the receive queues of both.
    let seen = |by: usize| {
        let (near, far) = Socket::pair();
        let sends = move || {
            let end = End::at(by, QueuePairType::Rc, 64);
            let peer = near.exchange(end.pair.number(), &end.context.device());
            end.raise(peer);
            near.exchange(0, &end.context.device());
            // The other one has looked in vain long enough to be answered for many looks at once.
            crate::turns::compute(200_000_000);
            let elements = [end.element(0, 8)];
            let request =
                viaduct_calls::SendRequest::new(0, viaduct_programs::verbs::SendOpcode::Send)
                    .with_elements(&elements)
                    .with_flags(viaduct_programs::verbs::flags::send::SIGNALED);
            // SAFETY: nothing is inline.
            unsafe { end.pair.post_send(&request) }.unwrap();
            done(&end.sends);
        };
        let times = Noted::default();
        let noted = Arc::clone(&times);
        let receives = move || {
            let ends = [0, 1].map(|adapter| End::at(adapter, QueuePairType::Rc, 64));
            let peer = far.exchange(ends[by].pair.number(), &ends[by].context.device());
            ends[by].raise(peer);
            ends[by].receive(0, 64);
            far.exchange(0, &ends[by].context.device());
            let mut found = [Completion::default(); 1];
            let mut looks = 0;
            let came = loop {
                let end = looks % 2;
                looks += 1;
                if ends[end].receives.poll(&mut found).unwrap() > 0 {
                    break end;
                }
            };
            assert_eq!(came, by);
            // Far fewer calls than a loop takes that is answered one by one.
            assert!(looks < 120, "{looks} calls");
            noted.lock().unwrap().push(now());
        };
        let programs: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(sends), Box::new(receives)];
        run(two_hosts("rnic-gen5", 2), programs);
        let times = times.lock().unwrap();
        times[0]
    };
    let (first, second) = (seen(0), seen(1));
    // A look at the other queue more or less.
    assert!(first.abs_diff(second) < 100_000, "{first} ps, {second} ps");
}

#[test]
fn nics_of_a_host_are_opened_by_name_and_their_handles_told_apart() {
    let server = || {
        let fabric = Remote::at(line());
        let mut ends = [0, 1].map(|adapter| via::End::at(fabric, &device(adapter)));
        assert_ne!(ends[0].nic, ends[1].nic);
        assert_ne!(ends[0].vi, ends[1].vi);
        // A queue of one NIC is none of another.
        let queue = fabric.create_completion_queue(ends[0].nic, 16).unwrap();
        let attributes = fabric.query_vi(ends[1].vi).unwrap().attributes;
        let made = fabric.create_vi(ends[1].nic, &attributes, Some(queue), None);
        assert_eq!(made.unwrap_err().code(), ReturnCode::InvalidParameter);
        let _: ViAttributes = attributes;
        for end in &mut ends {
            end.receive(0, 64);
            end.serve();
        }
        for end in &ends {
            assert!(matches!(end.received(), Done::Complete(_)));
        }
        fabric.close_nic(ends[1].nic).unwrap();
        assert!(fabric.query_vi(ends[1].vi).is_err());
        assert!(fabric.query_vi(ends[0].vi).is_ok());
        let told = fabric.open_nic("sim2").unwrap_err().to_string();
        assert!(told.contains("there are sim0 to sim1"), "{told}");
    };
    let client = || {
        let fabric = Remote::at(line());
        for adapter in 0..2 {
            let mut end = via::End::at(fabric, &device(adapter));
            end.ask_at("host0", adapter);
            end.send(0, 5);
            let done = fabric.send_wait(end.vi, None).unwrap();
            assert!(matches!(done, Done::Complete(_)), "{done:?}");
        }
        let told = fabric.host_by_name(fabric.open_nic("sim1").unwrap(), "host0", 2);
        assert_eq!(told.unwrap_err().code(), ReturnCode::NameService);
    };
    let ran = run(
        two_hosts("giganet-clan", 2),
        vec![Box::new(server), Box::new(client)],
    );
    assert_eq!(ran.simulation.counts().messages, 2);
}
