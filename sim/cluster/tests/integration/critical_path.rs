//! The critical path of a graph of operations.

use std::ops::ControlFlow;

use proptest::prelude::*;
use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{CriticalPath, Doing, WhyError, critical_path};
use viaduct_cluster::workload::{Handling, LocalLink, Pattern, Protocol};
use viaduct_engine::Time;
use viaduct_hardware::{HostModel, MemoryModel, Rate};
use viaduct_operations::collective::{Collective, Request, graph as collective};
use viaduct_operations::{ANY, After, Builder, Graph, Operation};
use viaduct_topology::{Ports, Topology};

use crate::application::{EAGER, chains, config, receive, send};
use crate::common::{costly_host, ideal_host, nanoseconds, run, scenario};

fn path(config: &ClusterConfig) -> CriticalPath {
    critical_path(config, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// Rank, what was done, and how long it took in nanoseconds, of each step.
fn steps(path: &CriticalPath) -> Vec<(u32, &'static str, u64)> {
    let row = |step: &viaduct_cluster::why::Step| {
        let what = match &step.doing {
            Doing::Compute { .. } => "compute",
            Doing::Post => "post",
            Doing::Message { part, .. } => part,
            Doing::Leave => "leave",
            Doing::Local => "local",
            Doing::Copy => "copy",
            Doing::Register => "register",
        };
        let taken = step.time().picoseconds() / 1000;
        (step.operation.rank, what, taken)
    };
    path.steps.iter().map(row).collect()
}

/// A computation that leaves the processor free which handles messages.
pub(crate) const fn compute_aside(nanoseconds: u64) -> Operation {
    Operation {
        processor: 1,
        ..Operation::compute(nanoseconds)
    }
}

/// What is so of every path.
fn holds(config: &ClusterConfig, path: &CriticalPath) {
    assert_eq!(path.violations, [] as [String; 0]);
    let result = run(config);
    assert_eq!(result.digest, path.digest);
    assert_eq!(result.application.unwrap().makespan, path.makespan);
    let mut reached = path.start;
    for step in &path.steps {
        assert_eq!(step.begin, reached, "{step:?}");
        reached = step.end;
        if let Doing::Message { stages, floor, .. } = &step.doing {
            let sum: u64 = stages.iter().map(|(_, time)| time.picoseconds()).sum();
            assert_eq!(sum, step.time().picoseconds(), "{step:?}");
            let floor = floor.unwrap_or_default();
            assert!(floor <= step.time(), "{step:?}");
        }
    }
    assert_eq!(reached.saturating_sub(path.start), path.makespan);
}

#[test]
fn it_is_what_nothing_else_was_waited_for() {
    // Rank 1 gets its message early and computes for long; rank 2 gets late what it waits for.
    let graph = chains(&[
        &[send(100, 1), Operation::compute(3_000), send(1_000, 2)],
        &[receive(100, 0), Operation::compute(5_000)],
        &[Operation::compute(9_000), receive(1_000, 0)],
    ]);
    let config = config(graph, ideal_host(), EAGER, 1);
    let found = path(&config);
    holds(&config, &found);
    assert_eq!(
        steps(&found),
        [(0, "post", 0), (0, "compute", 3_000), (0, "eager", 8_500)]
    );
}

#[test]
fn a_late_receive_puts_its_own_rank_on_the_path() {
    let graph = chains(&[
        &[send(100, 1)],
        &[compute_aside(9_000), receive(100, 0), compute_aside(50)],
    ]);
    let config = config(graph, ideal_host(), EAGER, 1);
    let found = path(&config);
    holds(&config, &found);
    assert_eq!(steps(&found), [(1, "compute", 9_000), (1, "compute", 50)]);
}

#[test]
fn a_rendezvous_goes_by_whoever_was_late() {
    let protocol = Protocol {
        eager_bytes: 999,
        piece_bytes: 400,
        ..EAGER
    };
    for (sender, receiver, first) in [
        (0, 7_000, (1, "compute", 7_000)),
        (7_000, 0, (0, "compute", 7_000)),
    ] {
        let graph = chains(&[
            &[compute_aside(sender), send(1_000, 1)],
            &[compute_aside(receiver), receive(1_000, 0)],
        ]);
        let config = config(graph, ideal_host(), protocol, 1);
        let found = path(&config);
        holds(&config, &found);
        let request = (sender > 0).then_some((0, "request", 500));
        let mut expected = vec![first];
        expected.extend(request);
        expected.extend([(0, "clearance", 500), (0, "data", 8_500)]);
        assert_eq!(steps(&found), expected);
    }
}

#[test]
fn copying_and_registering_are_steps_of_their_own() {
    let protocol = Protocol {
        eager_bytes: 999,
        handling: Handling {
            copy_rate: Rate::from_bits_per_second(8e9),
            registers: true,
        },
        ..EAGER
    };
    let host = HostModel {
        memory: MemoryModel {
            register: nanoseconds(3_000),
            register_rate: Rate::INFINITE,
        },
        ..ideal_host()
    };
    let graph = |bytes, computing| {
        chains(&[
            &[send(bytes, 1)],
            &[compute_aside(computing), receive(bytes, 0)],
        ])
    };
    let rendezvous = [
        (0, "register", 3_000),
        (0, "clearance", 500),
        (0, "data", 8_500),
    ];
    let asked = [(0, "register", 3_000), (0, "request", 500)];
    let computes = (1, "compute", 9_000);
    for (bytes, computing, expected) in [
        (900, 9_000, vec![computes, (1, "copy", 900)]),
        (900, 0, vec![(0, "eager", 7_700)]),
        (1_000, 0, [&asked[..], &rendezvous].concat()),
        (1_000, 9_000, [&[computes][..], &rendezvous].concat()),
    ] {
        let config = config(graph(bytes, computing), host.clone(), protocol, 1);
        let found = path(&config);
        holds(&config, &found);
        assert_eq!(steps(&found), expected, "{bytes} {computing}");
    }
}

#[test]
fn a_ring_is_as_many_messages_as_it_has_steps() {
    let request = Request::usual(Collective::AllReduce, 8, 1 << 16);
    let config = config(collective(&request).unwrap(), costly_host(), EAGER, 1);
    let found = path(&config);
    holds(&config, &found);
    let messages = found.steps.iter();
    let messages = messages.filter(|step| matches!(step.doing, Doing::Message { .. }));
    assert_eq!(messages.count(), 14);
}

#[test]
fn drawn_traffic_has_none() {
    let topology = Topology::single_switch(2, Ports(2)).unwrap();
    let config = scenario(topology, ideal_host(), Pattern::Uniform);
    let found = critical_path(&config, &mut |_, _| ControlFlow::Continue(()));
    assert!(matches!(found, Err(WhyError::NoApplication)), "{found:?}");
}

/// Operations of some ranks in the order in which they could go one by one, so that nothing stops:
/// each is a computation of a rank or a message between two, and waits for earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    ranks: u32,
    operations: Vec<(u32, u32, u64, bool, bool)>,
}

pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
    (2_u32..7).prop_flat_map(|ranks| {
        let operation = (
            0..ranks,
            0..ranks,
            0_u64..6_000,
            any::<bool>(),
            any::<bool>(),
        );
        prop::collection::vec(operation, 1..40)
            .prop_map(move |operations| Drawn { ranks, operations })
    })
}

impl Drawn {
    pub(crate) fn graph(&self) -> Graph {
        let mut builder = Builder::new(self.ranks);
        for rank in 0..self.ranks {
            let mut place = 0;
            for (tag, &(from, to, amount, waits_for_start, takes_any)) in
                (0..).zip(&self.operations)
            {
                let operation = match (from == rank, to == rank) {
                    (true, true) => Operation::compute(amount),
                    (true, false) => Operation::send(amount, to).tagged(tag),
                    (false, true) if takes_any => Operation::receive(amount, ANY).tagged(tag),
                    (false, true) => Operation::receive(amount, from).tagged(tag),
                    (false, false) => continue,
                };
                builder.add(operation).unwrap();
                if place > 0 {
                    let after = if waits_for_start {
                        After::Start
                    } else {
                        After::End
                    };
                    builder.require(place, place - 1, after).unwrap();
                }
                place += 1;
            }
            builder.next_rank();
        }
        builder.finish()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn its_steps_add_up(drawn in drawn(), is_costly: bool, eager in 0_u64..6_000, each in 1_u32..3, handles: (bool, bool)) {
        let (copies, registers) = handles;
        let copy_rate = if copies { Rate::from_bits_per_second(3e9) } else { Rate::INFINITE };
        let protocol = Protocol {
            eager_bytes: eager,
            piece_bytes: 1_500,
            local: Some(LocalLink {
                rate: Rate::from_bits_per_second(8e9),
                latency: nanoseconds(300),
            }),
            adapters: Adapters::ONE,
            handling: Handling { copy_rate, registers },
        };
        let mut host = if is_costly { costly_host() } else { ideal_host() };
        host.memory = MemoryModel {
            register: nanoseconds(700),
            register_rate: Rate::from_bits_per_second(7e9),
        };
        let config = config(drawn.graph(), host, protocol, each);
        let found = path(&config);
        holds(&config, &found);
        prop_assert!(found.makespan == Time::ZERO || !found.steps.is_empty());
    }
}
