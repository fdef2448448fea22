//! Sends under each fault of the network, at each level.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_programs::{Simulation, SimulationError};
use viaduct_provider::Nic;
use viaduct_provider::via::ViState;
use viaduct_topology::{ChainHosts, LinkId, Node, Ports, SwitchId, Topology};

use super::two::{
    BYTES, End, Ended, FLUSHED, RD, RR, STRIKE, TRANSPORT, UD, at, breaks, cable, ended, expect,
    run_two, stays, until, up, with,
};
use crate::models;

const ALL_LOST: Fault = Fault::Loss {
    links: Links::All,
    rate: 1.0,
};

/// On the way from host 0 alone: acknowledgements would get through.
const ALL_CORRUPT: Fault = Fault::Corruption {
    links: Links::One(LinkId(0)),
    rate: 1.0,
};

fn send_when_it_strikes(end: &mut End) -> Vec<Ended> {
    until(&end.process, STRIKE + 500);
    end.post();
    end.sent(1)
}

#[test]
fn a_lost_message_breaks_reliable_connections_alone() {
    expect(
        &[ALL_LOST],
        [send_when_it_strikes, |end| end.received(1)],
        |level| {
            [
                Some(match level {
                    UD => stays(&[Ended::Well]),
                    // It had left, and was complete.
                    RD => breaks(&[Ended::Well]),
                    RR => breaks(&[TRANSPORT]),
                }),
                Some(match level {
                    UD => stays(&[Ended::Waits]),
                    RD | RR => breaks(&[FLUSHED]),
                }),
            ]
        },
    );
}

#[test]
fn the_sender_gives_up_when_the_transport_time_is_over() {
    for timeout in [300, 2000] {
        let mut config = with(&models::ideal(), &[ALL_LOST]);
        config.detection.transport_timeout = at(timeout);
        let (_, told) = run_two(
            config,
            RR,
            [
                |end| {
                    let start = end.process.now();
                    end.post();
                    let ended = end.sent(1);
                    let took = (end.process.now() - start).as_micros() as u32;
                    [ended, vec![Ended::Failed(took)]].concat()
                },
                |end| end.received(1),
            ],
        );
        let ended = &told[0].as_ref().unwrap().ended;
        let Ended::Failed(took) = ended[1] else {
            panic!("{ended:?}")
        };
        let timeout = timeout as u32;
        assert!((timeout..timeout + 50).contains(&took), "{took} us");
    }
}

#[test]
fn corrupt_data_fails_its_receive_and_breaks_reliable_connections() {
    expect(
        &[ALL_CORRUPT],
        [
            |end| {
                end.post();
                end.sent(1)
            },
            |end| end.received(1),
        ],
        |level| {
            [
                Some(match level {
                    UD => stays(&[Ended::Well]),
                    RD => breaks(&[Ended::Well]),
                    RR => breaks(&[TRANSPORT]),
                }),
                Some(match level {
                    UD => stays(&[TRANSPORT]),
                    RD | RR => breaks(&[TRANSPORT]),
                }),
            ]
        },
    );
}

#[test]
fn a_cut_breaks_every_connection_when_the_hosts_have_missed_each_other() {
    let cut = Fault::LinkDown {
        links: cable(0),
        from: at(STRIKE),
        until: None,
    };
    expect(
        &[cut],
        [send_when_it_strikes, |end| end.received(1)],
        |level| {
            [
                Some(match level {
                    UD | RD => breaks(&[Ended::Well]),
                    RR => breaks(&[TRANSPORT]),
                }),
                // Nobody can tell it: its own time is over.
                Some(breaks(&[FLUSHED])),
            ]
        },
    );
}

#[test]
fn a_short_cut_loses_what_is_sent_meanwhile() {
    let cut = Fault::LinkDown {
        links: cable(1),
        from: at(STRIKE),
        until: Some(at(STRIKE + 600)),
    };
    expect(
        &[cut],
        [
            |end| {
                until(&end.process, STRIKE + 500);
                end.post();
                until(&end.process, STRIKE + 700);
                end.post();
                // Time for the first to be given up.
                until(&end.process, STRIKE + 3000);
                end.post();
                end.sent(3)
            },
            |end| end.received(2),
        ],
        |level| {
            [
                Some(match level {
                    UD => stays(&[Ended::Well; 3]),
                    RD => breaks(&[Ended::Well, Ended::Well, FLUSHED]),
                    RR => breaks(&[TRANSPORT, TRANSPORT, FLUSHED]),
                }),
                Some(match level {
                    UD => stays(&[Ended::Well; 2]),
                    // What comes behind a lost message is not delivered.
                    RD | RR => breaks(&[FLUSHED; 2]),
                }),
            ]
        },
    );
}

#[test]
fn without_a_way_back_the_acknowledgement_is_lost() {
    let cut = Fault::LinkDown {
        links: up(1),
        from: at(STRIKE),
        until: None,
    };
    expect(
        &[cut],
        [send_when_it_strikes, |end| end.received(2)],
        |level| {
            [
                Some(match level {
                    UD | RD => breaks(&[Ended::Well]),
                    RR => breaks(&[TRANSPORT]),
                }),
                Some(breaks(&[Ended::Well, FLUSHED])),
            ]
        },
    );
}

#[test]
fn everything_that_is_posted_ends_at_the_reliable_levels() {
    for fault in [ALL_LOST, ALL_CORRUPT] {
        for model in models::all() {
            for level in [RD, RR] {
                let (outcome, told) = run_two(
                    with(&model, &[fault]),
                    level,
                    [
                        |end| {
                            (0..20).for_each(|_| end.post());
                            // Without a limit: who waits for ever is told by the simulation.
                            let ends = (0..20).map(|_| ended(end.vi.sent(None)));
                            ends.collect()
                        },
                        |end| {
                            let ends = (0..4).map(|_| ended(end.vi.receive(None)));
                            ends.collect()
                        },
                    ],
                );
                assert!(outcome.is_ok(), "{outcome:?}");
                let [Some(sender), Some(receiver)] = told else {
                    panic!("a side has not ended")
                };
                assert_eq!((sender.ended.len(), receiver.ended.len()), (20, 4));
                assert!(receiver.ended.iter().all(|ended| *ended != Ended::Well));
                if level == RR {
                    assert!(sender.ended.iter().all(|ended| *ended != Ended::Well));
                }
            }
        }
    }
}

#[test]
fn who_waits_for_ever_for_a_lost_message_is_named() {
    let (outcome, told) = run_two(
        with(&models::ideal(), &[ALL_LOST]),
        UD,
        [
            |end| {
                end.post();
                let sent = end.sent(1);
                // The other end would be flushed when this one leaves.
                let _ = end.vi.receive(None);
                sent
            },
            |end| vec![ended(end.vi.receive(None))],
        ],
    );
    assert!(
        matches!(&outcome, Err(SimulationError::Stuck { hosts, .. }) if *hosts == [0, 1]),
        "{outcome:?}"
    );
    assert_eq!(told, [None, None]);
}

#[test]
fn a_loss_of_an_earlier_connection_leaves_the_next_alone() {
    fn client(end: &mut End) -> Vec<Ended> {
        until(&end.process, STRIKE + 500);
        end.post();
        let mut ended = end.sent(1);
        end.vi.disconnect().unwrap();
        end.connect("host1");
        // Before the lost message is given up.
        assert!(end.process.now() < Duration::from_micros(STRIKE + 1400));
        until(&end.process, STRIKE + 5000);
        end.post();
        ended.extend(end.sent(1));
        ended
    }
    fn server(end: &mut End) -> Vec<Ended> {
        let mut ended = end.received(4);
        end.vi.disconnect().unwrap();
        let buffer = end.buffer();
        end.vi.post_receive(buffer).unwrap();
        let listener = end.nic.listen(b"faults");
        listener.accept(&mut end.vi, None).unwrap();
        ended.extend(end.received(1));
        ended
    }
    let cut = Fault::LinkDown {
        links: cable(1),
        from: at(STRIKE),
        until: Some(at(STRIKE + 600)),
    };
    for model in models::all() {
        let (outcome, told) = run_two(with(&model, &[cut]), RD, [client, server]);
        assert!(outcome.is_ok(), "{outcome:?}");
        let [Some(client), Some(server)] = told else {
            panic!("a side has not ended")
        };
        assert_eq!(client, stays(&[Ended::Well; 2]), "on {}", model.name);
        let flushed = [FLUSHED; 4];
        assert_eq!(server.ended, [&flushed[..], &[Ended::Well]].concat());
        assert_eq!(server.state, ViState::Connected);
    }
}

/// Three hosts at two switches, each connected to the others: who has lost whom.
fn lost_between_three(fault: Fault) -> Vec<(usize, usize)> {
    let mut config = with(&models::native(), &[fault]);
    let hosts = ChainHosts::EverySwitch(2);
    config.topology = Arc::new(Topology::chain(2, hosts, Ports(8)).unwrap());
    let mut simulation = Simulation::new(config);
    let lost: Arc<Mutex<Vec<(usize, usize)>>> = Arc::default();
    // Hosts 0 and 1 are at the first switch, 2 at the second.
    for (client, server) in [(0, 1), (0, 2), (1, 2)] {
        for (own, other) in [(client, server), (server, client)] {
            let lost = lost.clone();
            simulation.spawn(own as u32, move |process| {
                let nic = Nic::open(process.fabric(), "sim0").unwrap();
                let mut vi = nic.vi().build().unwrap();
                let name = [client as u8, server as u8];
                if own == client {
                    let address = nic.resolve(&format!("host{server}"), &name).unwrap();
                    while vi.connect(&address, None).is_err() {
                        process.relax();
                    }
                } else {
                    nic.listen(&name).accept(&mut vi, None).unwrap();
                }
                until(&process, 50_000);
                if vi.query().unwrap().state == ViState::Error {
                    lost.lock().unwrap().push((own, other));
                }
                until(&process, 51_000);
            });
        }
    }
    simulation.run().unwrap();
    let mut lost = lost.lock().unwrap().clone();
    lost.sort_unstable();
    lost
}

#[test]
fn a_fault_concerns_the_hosts_whose_ways_it_lies_on() {
    let switches = [Node::Switch(SwitchId(0)), Node::Switch(SwitchId(1))];
    let cut = |links, until: Option<u64>| Fault::LinkDown {
        links,
        from: at(STRIKE),
        until: until.map(at),
    };
    let across = [(0, 2), (1, 2), (2, 0), (2, 1)];
    let between = Links::Between(switches[0], switches[1]);
    assert_eq!(lost_between_three(cut(between, None)), across);
    // In either direction.
    for (from, to) in [(0, 1), (1, 0)] {
        let one_way = Links::OneWay(switches[from], switches[to]);
        assert_eq!(lost_between_three(cut(one_way, None)), across);
    }
    assert_eq!(lost_between_three(cut(between, Some(STRIKE + 9000))), []);
    assert_eq!(
        lost_between_three(cut(cable(0), None)),
        [(0, 1), (0, 2), (1, 0), (2, 0)]
    );
    let host = 1;
    let dies = Fault::HostDies {
        host,
        at: at(STRIKE),
    };
    assert_eq!(lost_between_three(dies), [(0, 1), (2, 1)]);
}

#[test]
fn a_corrupt_message_differs_from_what_was_sent() {
    let (_, told) = run_two(
        with(&models::ideal(), &[ALL_CORRUPT]),
        UD,
        [
            |end| {
                end.post();
                end.sent(1)
            },
            |end| match end.vi.receive(None) {
                Err(viaduct_provider::CompletionError::Failed { buffer, .. }) => {
                    assert_ne!(buffer[..], [7; BYTES]);
                    vec![TRANSPORT]
                }
                other => panic!("{other:?}"),
            },
        ],
    );
    assert_eq!(told[1], Some(stays(&[TRANSPORT])));
}
