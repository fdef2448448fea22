//! Graphs of operations, carried out by hosts.

use std::ops::ControlFlow;
use std::sync::Arc;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::{ClusterConfig, TrafficConfig, UNLIMITED};
use viaduct_cluster::faults::{Fault, Links, Slowness};
use viaduct_cluster::result::{ApplicationResult, Ended, RunResult};
use viaduct_cluster::workload::{
    Application, Handling, LocalLink, Pattern, Placement, Protocol, help_of_application,
};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::{HostModel, MemoryModel, Rate};
use viaduct_operations::collective::{Algorithm, Collective, Request, graph as collective};
use viaduct_operations::loggops::{Parameters, replay};
use viaduct_operations::{ANY, After, Builder, Graph, Operation};
use viaduct_topology::{LinkId, Ports, Topology};

use crate::common::{costly_host, ideal_host, nanoseconds, run, scenario, set_propagation};
use crate::critical_path::compute_aside;

/// Eager whatever the size, with one descriptor.
pub(crate) const EAGER: Protocol = Protocol {
    eager_bytes: u64::MAX,
    piece_bytes: 1 << 30,
    local: None,
    adapters: Adapters::ONE,
    handling: Handling::FREE,
};

/// One switch, links of 1 Gbit/s, 100 ns each, and 300 ns in the switch.
pub(crate) fn config(
    graph: Graph,
    host: HostModel,
    protocol: Protocol,
    each: u32,
) -> ClusterConfig {
    let hosts = graph.ranks().div_ceil(each).max(2);
    let mut config = scenario(
        Topology::single_switch(hosts, Ports(hosts)).unwrap(),
        host,
        Pattern::Uniform,
    );
    set_propagation(&mut config, nanoseconds(100));
    config.switch.delay = nanoseconds(300);
    config.hosts.prepost = UNLIMITED;
    config.hosts.processes = each;
    let made = Application::new(Arc::new(graph), (hosts, each), Placement::Linear, protocol);
    let application = made.unwrap();
    let until = Time::from_seconds_f64(1e6);
    config.run.until = until;
    config.traffic = TrafficConfig::of_application(Arc::new(application), Time::ZERO, until);
    config
}

/// The latency of a message of so many bytes between hosts that cost nothing.
fn wire(bytes: u64) -> Time {
    nanoseconds(500 + 8 * bytes)
}

fn application(result: &RunResult) -> &ApplicationResult {
    result.application.as_ref().unwrap()
}

fn makespan(config: &ClusterConfig) -> Time {
    let result = run(config);
    let application = application(&result);
    assert_eq!(application.stalled, None);
    assert_eq!(application.ended, application.operations);
    assert!(application.misfits.is_empty());
    assert_eq!(result.messages.posted, result.messages.delivered);
    application.makespan
}

/// Operations of each rank, each after the end of the one before.
pub(crate) fn chains(ranks: &[&[Operation]]) -> Graph {
    let mut builder = Builder::new(ranks.len() as u32);
    for of_rank in ranks {
        for (place, operation) in (0..).zip(*of_rank) {
            builder.add(*operation).unwrap();
            if place > 0 {
                builder.require(place, place - 1, After::End).unwrap();
            }
        }
        builder.next_rank();
    }
    builder.finish()
}

pub(crate) const fn send(bytes: u64, to: u32) -> Operation {
    Operation::send(bytes, to)
}

pub(crate) const fn receive(bytes: u64, from: u32) -> Operation {
    Operation::receive(bytes, from)
}

#[test]
fn a_ring_and_a_barrier_take_what_their_steps_take() {
    // 1,024 bytes over 8 ranks are 14 steps of 128 bytes; a barrier of 8 is 3 steps of none.
    let ring = Request::usual(Collective::AllReduce, 8, 1024);
    let barrier = Request::usual(Collective::Barrier, 8, 0);
    for level in [
        ReliabilityLevel::Unreliable,
        ReliabilityLevel::ReliableDelivery,
    ] {
        for (request, steps, bytes) in [(ring, 14, 128), (barrier, 3, 0)] {
            let mut config = config(collective(&request).unwrap(), ideal_host(), EAGER, 1);
            config.traffic.reliability = level;
            // What moves ends at the next picosecond.
            let least = wire(bytes).saturating_mul(steps);
            let most = least + Time::from_picoseconds(steps);
            let makespan = makespan(&config);
            assert!((least..=most).contains(&makespan), "{level:?}: {makespan}");
        }
    }
}

#[test]
fn a_message_is_copied_where_it_came_before_its_receive() {
    // A nanosecond a byte.
    let copies = Handling {
        copy_rate: Rate::from_bits_per_second(8e9),
        ..Handling::FREE
    };
    let graph = |computing| {
        chains(&[
            &[send(1_000, 1)],
            &[compute_aside(computing), receive(1_000, 0)],
        ])
    };
    for handling in [copies, Handling::FREE] {
        let protocol = Protocol { handling, ..EAGER };
        let copied = nanoseconds(if handling == copies { 1_000 } else { 0 });
        let late = run(&config(graph(20_000), ideal_host(), protocol, 1));
        let rank = &application(&late).ranks[1];
        assert_eq!(rank.span, nanoseconds(20_000) + copied);
        assert_eq!((rank.messaging, rank.waiting), (copied, Time::ZERO));
        // It waits for the receive, and takes the bytes as they come.
        let in_time = run(&config(graph(0), ideal_host(), protocol, 1));
        assert_eq!(application(&in_time).ranks[1].messaging, Time::ZERO);
        // A longer one than is sent before its receiver has asked for it is not copied.
        let rendezvous = Protocol {
            eager_bytes: 999,
            ..protocol
        };
        let asked = run(&config(graph(20_000), ideal_host(), rendezvous, 1));
        assert_eq!(application(&asked).ranks[1].messaging, Time::ZERO);
    }
}

#[test]
fn both_ends_of_a_rendezvous_register_its_bytes() {
    let memory = MemoryModel {
        register: nanoseconds(3_000),
        register_rate: Rate::from_bits_per_second(8e9),
    };
    let host = HostModel {
        memory,
        ..ideal_host()
    };
    let protocol = Protocol {
        eager_bytes: 2_499,
        piece_bytes: 1_000,
        handling: Handling {
            registers: true,
            ..Handling::FREE
        },
        ..EAGER
    };
    let graph = |bytes| chains(&[&[send(bytes, 1)], &[receive(bytes, 0)]]);
    let found = run(&config(graph(2_500), host.clone(), protocol, 1));
    let registered = nanoseconds(3_000 + 2_500);
    // What moves ends at the next picosecond.
    let least = registered + registered + wire(0) + wire(0) + wire(2_500);
    let most = least + Time::from_picoseconds(3);
    assert!((least..=most).contains(&application(&found).makespan));
    let ranks = &application(&found).ranks;
    assert_eq!([0, 1].map(|rank| ranks[rank].messaging), [registered; 2]);
    // Shorter ones go by memory that is registered already.
    let eager = makespan(&config(graph(2_499), host, protocol, 1));
    let free = makespan(&config(graph(2_499), ideal_host(), protocol, 1));
    assert_eq!(eager, free);
}

#[test]
fn a_rendezvous_is_a_request_a_clearance_and_the_bytes_in_pieces() {
    let graph = || {
        chains(&[
            &[send(2_500, 1)],
            &[Operation::compute(7_000), receive(2_500, 0)],
        ])
    };
    let protocol = Protocol {
        eager_bytes: 2_499,
        piece_bytes: 1_000,
        ..EAGER
    };
    let result = run(&config(graph(), ideal_host(), protocol, 1));
    // The request waits for the receive; the pieces share the sender's link.
    // What moves ends at the next picosecond.
    let expected = nanoseconds(7_000) + wire(0) + wire(2_500) + Time::from_picoseconds(1);
    assert_eq!(application(&result).makespan, expected);
    assert_eq!(result.messages.delivered, 5);
    // The sender is done when the last piece has left, the receiver when it has all.
    let ranks = &application(&result).ranks;
    assert_eq!(ranks[0].span, expected - nanoseconds(500));
    assert_eq!(ranks[1].computing, nanoseconds(7_000));
    assert_eq!(ranks[1].waiting, expected - nanoseconds(7_000));
    // An eager message was there before, and its sender long done.
    let eager = Protocol {
        eager_bytes: 2_500,
        ..protocol
    };
    let result = run(&config(graph(), ideal_host(), eager, 1));
    assert_eq!(application(&result).ranks[0].span, Time::ZERO);
    assert_eq!(application(&result).makespan, wire(2_500));
    assert_eq!(result.messages.delivered, 3);
}

#[test]
fn receives_take_messages_in_order_and_of_anybody() {
    // Rank 2 has both messages when it begins to receive; that of rank 1 came first.
    let any = receive(64, ANY).tagged(ANY);
    let graph = chains(&[
        &[Operation::compute(3_000), send(64, 2).tagged(5)],
        &[send(64, 2).tagged(4), receive(8, 2)],
        &[
            Operation::compute(90_000),
            any,
            receive(64, 0).tagged(5),
            send(8, 1),
        ],
    ]);
    let expected = nanoseconds(90_000) + wire(8);
    assert_eq!(makespan(&config(graph, ideal_host(), EAGER, 1)), expected);
}

#[test]
fn what_waits_for_a_start_does_not_wait_for_the_end() {
    let with = |after| {
        let mut builder = Builder::new(1);
        builder.add(Operation::compute(1_000)).unwrap();
        let other = Operation {
            processor: 1,
            ..Operation::compute(5_000)
        };
        builder.add(other).unwrap();
        builder.require(1, 0, after).unwrap();
        makespan(&config(builder.finish(), ideal_host(), EAGER, 1))
    };
    assert_eq!(with(After::Start), nanoseconds(5_000));
    // And a dependency holds from one processor to another.
    assert_eq!(with(After::End), nanoseconds(6_000));
}

#[test]
fn a_send_is_not_held_up_by_a_computation_that_is_free_with_it() {
    let mut builder = Builder::new(2);
    builder.add(Operation::compute(9_000)).unwrap();
    builder.add(send(8, 1)).unwrap();
    builder.next_rank();
    builder.add(receive(8, 0)).unwrap();
    let result = run(&config(builder.finish(), costly_host(), EAGER, 1));
    let ranks = &application(&result).ranks;
    // The processor posts first, and then computes.
    assert_eq!(ranks[0].span, nanoseconds(1_000 + 9_000));
    assert_eq!(ranks[0].messaging, nanoseconds(1_000));
    assert_eq!(ranks[0].waiting, Time::ZERO);
    assert!(ranks[1].span < nanoseconds(30_000), "{:?}", ranks[1]);
}

#[test]
fn messages_within_a_host_take_its_local_link() {
    let ranks: [&[Operation]; 4] = [
        &[send(1_000, 1), send(0, 1), send(8, 2)],
        &[receive(1_000, 0), receive(0, 0)],
        &[receive(8, 0)],
        &[],
    ];
    let local = Protocol {
        local: Some(LocalLink {
            rate: Rate::from_bits_per_second(8e9),
            latency: nanoseconds(50),
        }),
        ..EAGER
    };
    let result = run(&config(chains(&ranks), ideal_host(), local, 2));
    let application = application(&result);
    assert_eq!(
        (application.local_messages, result.messages.delivered),
        (2, 1)
    );
    let spans: Vec<Time> = application.ranks.iter().map(|row| row.span).collect();
    let sent = nanoseconds(1_000);
    assert_eq!(
        spans,
        [sent, sent + nanoseconds(50), sent + wire(8), Time::ZERO]
    );
}

#[test]
fn a_slow_processor_computes_slowly() {
    let graph = chains(&[&[Operation::compute(1_000)], &[Operation::compute(1_000)]]);
    let mut config = config(graph, ideal_host(), EAGER, 1);
    config.faults = vec![Fault::SlowHost {
        host: 1,
        from: Time::ZERO,
        by: Slowness::Factor(3.0),
    }];
    let result = run(&config);
    let computing = |rank: usize| application(&result).ranks[rank].computing;
    assert_eq!(
        (computing(0), computing(1)),
        (nanoseconds(1_000), nanoseconds(3_000))
    );
}

#[test]
fn what_never_ends_is_told_with_who_waits_for_whom() {
    let stuck = chains(&[
        &[receive(8, 1), send(8, 1)],
        &[receive(8, 0), send(8, 0)],
        &[send(4, 3)],
        &[receive(5, 2)],
    ]);
    let config = config(stuck, ideal_host(), EAGER, 1);
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.ended, Ended::Stalled);
    let [stopped, differ] = &*result.violations else {
        panic!("{:?}", result.violations);
    };
    let said = "the application came to a stop: 4 operations never ended";
    assert!(stopped.starts_with(said), "{result:?}");
    assert_eq!(
        differ,
        "the application: a send and its receive differ in size: 1\n  rank 2, operation 0: send 4b \
         to 3\n  rank 3, operation 0: recv 5b from 2"
    );
    let application = application(&result);
    let stalled = application.stalled.as_ref().unwrap();
    assert_eq!(
        (stalled.operations, stalled.receives, stalled.is_ring),
        (4, 2, true)
    );
    assert_eq!(stalled.chain.len(), 2);
    assert_eq!(application.misfits.count, 1);
    assert_eq!(application.ended, 2);
    assert!(!application.is_cut);
}

#[test]
fn a_run_that_is_too_short_is_cut_and_not_stalled() {
    let graph = chains(&[&[send(8, 1), receive(8, 1)], &[receive(8, 0), send(8, 0)]]);
    let mut config = config(graph, ideal_host(), EAGER, 1);
    config.run.until = nanoseconds(400);
    config.traffic.stop = nanoseconds(400);
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    let cut = application(&result);
    assert!(cut.is_cut && cut.stalled.is_none());
    assert_eq!((cut.ended, cut.operations), (2, 4));

    // The user is told what to change, by what ended the run.
    let help = |result: &RunResult| {
        assert_eq!(result.warnings.len(), 1);
        result.warnings[0].help.clone()
    };
    assert!(help(&result).unwrap().contains("`run.until`"));
    config.run.until = Time::MAX;
    config.traffic.stop = Time::MAX;
    config.run.events_max = Some(5);
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(help(&result).unwrap().contains("`run.events_max`"));
}

#[test]
fn an_application_that_stops_says_whose_host_died() {
    let graph = chains(&[&[receive(8, 1)], &[Operation::compute(5_000), send(8, 0)]]);
    let mut config = config(graph, ideal_host(), EAGER, 1);
    config.faults = vec![Fault::HostDies {
        host: 1,
        at: nanoseconds(100),
    }];
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.ended, Ended::Stalled);
    let told = "the application came to a stop (the host of rank 1 died): 3 operations never ended";
    assert!(
        result.violations[0].starts_with(told),
        "{:?}",
        result.violations
    );
}

/// The first message is lost; the receive that waits for it takes the one behind it.
#[test]
fn what_a_lost_message_brings_about_is_not_called_a_mistake_of_the_file() {
    let sends = [send(8, 1), Operation::compute(1_000), send(16, 1)];
    let graph = chains(&[&sends, &[receive(8, 0), receive(16, 0)]]);
    let mut config = config(graph, ideal_host(), EAGER, 1);
    config.traffic.reliability = ReliabilityLevel::Unreliable;
    config.faults = vec![Fault::LinkDown {
        links: Links::One(LinkId(0)),
        from: Time::ZERO,
        until: Some(nanoseconds(60)),
    }];
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.messages.dropped, 1);
    let [stalled, misfit] = &result.violations[..] else {
        panic!("{:?}", result.violations);
    };
    let told =
        "the application came to a stop (1 message lost on the way): 1 operation never ended";
    assert!(stalled.starts_with(told), "{stalled}");
    let told = "messages that were lost: 1\n    rank 0, operation 0: send 8b to 1";
    assert!(stalled.contains(told), "{stalled}");
    let told = "the application (1 message lost on the way): a send and its receive differ in size";
    assert!(misfit.starts_with(told), "{misfit}");
    let help = help_of_application(misfit).unwrap();
    assert!(help.contains("behind one that was lost"), "{help}");
    let help = help_of_application("the application: a send and its receive differ in size");
    assert!(help.unwrap().contains("the file"), "{help:?}");
}

#[test]
fn a_run_asks_often_whether_to_go_on() {
    let lines = |peer| [send(8, peer), receive(8, peer)].repeat(2_000);
    let mut config = config(chains(&[&lines(1), &lines(0)]), ideal_host(), EAGER, 1);
    config.run.events_max = Some(20_000);
    let mut asked = Vec::new();
    let result = viaduct_cluster::run(&config, &mut |progress| {
        asked.push(progress.events);
        match asked.len() {
            10 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let result = result.unwrap();
    assert_eq!(result.ended, Ended::Interrupted);
    // An event may take milliseconds.
    assert!(
        asked.windows(2).all(|pair| pair[1] - pair[0] <= 1_100),
        "{asked:?}"
    );
    assert_eq!(result.warnings.len(), 1);
    assert_eq!(result.warnings[0].help, None);
}

/// LogGOPS parameters of a host of which a post takes o and a reap as long, and that has nothing
/// else, over links of 1 Gbit/s.
const OVERHEAD: Time = Time::from_picoseconds(1_000_000);

#[test]
fn without_contention_a_cluster_is_as_fast_as_loggops_says() {
    let mut host = ideal_host();
    host.processor.post = OVERHEAD;
    host.processor.reap = OVERHEAD;
    let parameters = Parameters {
        // A message of no bytes: the links and the switch, and one byte that LogGOPS counts.
        latency: nanoseconds(4_300 + 8),
        overhead: OVERHEAD,
        gap: Time::ZERO,
        gap_per_byte: nanoseconds(8),
        overhead_per_byte: Time::ZERO,
        eager_bytes: u64::MAX,
    };
    let all = Collective::ALL.into_iter();
    let all = all.flat_map(|it| {
        it.algorithms()
            .iter()
            .map(move |algorithm| (it, *algorithm))
    });
    for (kind, algorithm) in all {
        let request = Request {
            algorithm,
            ..Request::usual(kind, 16, 64_000)
        };
        let graph = collective(&request).unwrap();
        let ideal = replay(&graph, &parameters).unwrap().end();
        let mut config = config(graph, host.clone(), EAGER, 1);
        // So long that a receive is posted again before the next message is there, which LogGOPS
        // knows nothing of.
        set_propagation(&mut config, nanoseconds(2_000));
        let simulated = makespan(&config);
        let ratio = simulated.picoseconds() as f64 / ideal.picoseconds() as f64;
        // An adapter moves what it is given at once side by side, and LogGOPS one by one: only the
        // root of a tree gives it several.
        let bound = match algorithm {
            Algorithm::Binomial if kind == Collective::Broadcast => 1.0..2.5,
            // Two children may come at once: the receive of the first is posted again before the
            // second is taken.
            Algorithm::DoubleTree => 1.0..1.35,
            // All end together, and the root handles them then, not while the next one comes.
            // What a root gives to all at once moves side by side.
            Algorithm::Direct => 1.0..1.05,
            // A message of no bytes costs LogGOPS what one of one byte does.
            Algorithm::Dissemination => 0.998..1.0,
            _ => 0.999_999..1.000_001,
        };
        assert!(bound.contains(&ratio), "{kind} by {algorithm}: {ratio}");
    }
}
