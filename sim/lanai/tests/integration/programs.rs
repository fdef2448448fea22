//! Programs written against `viaduct-am`, on simulated interfaces: what a carrier promises, and
//! that they take the time that costs add up to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use viaduct_am::{
    Body, Bundle, Carrier, Endpoint, EventMask, HandlerId, Handlers, Key, Name, Options, Reason,
    WaitError,
};
use viaduct_engine::Time;
use viaduct_lanai::{Config, Fault, Outcome, Programs, Station, Totals};
use viaduct_measure::{
    Burst, Elapsed, Host, LogP, MeasureError, Prober, Requests, bulk, logp, request_handlers,
    request_options,
};
use viaduct_network::outages::Links;
use viaduct_topology::{HostId, Node, SwitchId};

const KEY: Key = Key(0x5eed);
const ECHO: HandlerId = HandlerId::of(1);
const NOBODY: HandlerId = HandlerId::of(60);
const ANSWER: HandlerId = HandlerId::of(1);

/// First words of what handlers saw.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Seen {
    requests: Vec<u64>,
    replies: Vec<u64>,
    returned: Vec<(u64, Reason)>,
}

fn handlers<C: Carrier>() -> Arc<Handlers<C, Seen>> {
    let handlers = Handlers::new(|seen: &mut Seen, returned| {
        // One that was delivered has no words any more.
        let word = returned.words.first().copied().unwrap_or(u64::MAX);
        seen.returned.push((word, returned.reason));
    });
    Arc::new(
        handlers
            .on_request(ECHO, |seen: &mut Seen, request| {
                seen.requests.push(request.words()[0]);
                let words = request.words().to_vec();
                request.echo(ANSWER, &words).unwrap();
            })
            .on_reply(ANSWER, |seen, reply| seen.replies.push(reply.words()[0])),
    )
}

fn endpoint<C: Carrier>(carrier: &C) -> Endpoint<C, Seen> {
    let options = Options {
        segment_bytes: 16 * 1024,
        ..Options::new(KEY)
    };
    Endpoint::new(carrier, &handlers(), Seen::default(), options).unwrap()
}

/// What programs tell one another outside of the network.
#[derive(Clone, Default)]
struct Board {
    names: Rc<RefCell<Vec<(u32, Name)>>>,
    ended: Rc<Cell<usize>>,
}

impl Board {
    fn publish(&self, host: u32, name: Name) {
        self.names.borrow_mut().push((host, name));
    }

    /// The names of a host, once it has so many.
    fn names_of(&self, station: &Station<'_>, host: u32, count: usize) -> Vec<Name> {
        loop {
            let names = self.names.borrow();
            let its = names.iter().filter(|(its, _)| *its == host);
            let its: Vec<Name> = its.map(|(_, name)| *name).collect();
            drop(names);
            if its.len() >= count {
                return its;
            }
            station.compute(Duration::from_micros(10));
        }
    }
}

/// Three clients ask random ones of a server's endpoints, of which few are in frames.
fn exchange(endpoints: usize, frames: u16, requests: u64) -> (Vec<Seen>, Outcome) {
    let mut programs = Programs::new(Config::am_myrinet(4, frames)).unwrap();
    let board = Board::default();
    let all = Rc::new(RefCell::new(Vec::new()));
    let (its, seen) = (board.clone(), Rc::clone(&all));
    programs.spawn(0, move |station| {
        let mut bundle = Bundle::new(&station);
        for _ in 0..endpoints {
            let endpoint = endpoint(&station);
            its.publish(0, endpoint.name());
            bundle.insert(endpoint);
        }
        while its.ended.get() < 3 {
            let _ = bundle.wait(Some(Duration::from_millis(1)));
            bundle.poll(8);
        }
        let states = bundle.members().map(|member| member.state().clone());
        seen.borrow_mut().extend(states);
    });
    for host in 1..4 {
        let (its, seen) = (board.clone(), Rc::clone(&all));
        programs.spawn(host, move |station| {
            let mut own = endpoint(&station);
            for (index, name) in its.names_of(&station, 0, endpoints).iter().enumerate() {
                own.map(index, name, KEY).unwrap();
            }
            let mut target = host as usize;
            for number in 0..requests {
                target = (target * 7 + 5) % endpoints;
                let payload = [1; 3000];
                let body = match number % 5 {
                    0 => Body::Medium(&payload),
                    1 => Body::Bulk {
                        offset: 64,
                        bytes: &payload,
                    },
                    _ => Body::Short,
                };
                let word = u64::from(host) * 1000 + number;
                own.request_with(target, ECHO, &[word], body).unwrap();
            }
            while own.outstanding() > 0 {
                own.wait(EventMask::MESSAGE, None).unwrap();
                own.poll();
            }
            its.ended.set(its.ended.get() + 1);
            seen.borrow_mut().push(own.state().clone());
        });
    }
    let outcome = programs.run().unwrap();
    (all.take(), outcome)
}

#[test]
fn requests_end_once_while_endpoints_change_frames() {
    let (seen, outcome) = exchange(9, 2, 60);
    let all = |of: fn(&Seen) -> &Vec<u64>| {
        let mut words: Vec<u64> = seen.iter().flat_map(|seen| of(seen).clone()).collect();
        words.sort_unstable();
        words
    };
    let expected: Vec<u64> = (1..4)
        .flat_map(|host| (0..60).map(move |number| host * 1000 + number))
        .collect();
    assert_eq!(all(|seen| &seen.requests), expected);
    assert_eq!(all(|seen| &seen.replies), expected);
    assert!(seen.iter().all(|seen| seen.returned.is_empty()));
    let Totals {
        remaps, refusals, ..
    } = outcome.totals;
    assert!(remaps > 20 && refusals > 0, "{outcome:?}");
}

#[test]
fn equal_programs_are_equal_runs() {
    assert_eq!(exchange(5, 2, 40), exchange(5, 2, 40));
}

/// One host serves until a request carries this word.
const LAST: u64 = u64::MAX;

fn serve(station: &Station<'_>, board: &Board, own: &mut Endpoint<Station<'_>, Seen>) {
    board.publish(station.host(), own.name());
    while own.state().requests.last() != Some(&LAST) {
        own.wait(EventMask::MESSAGE, None).unwrap();
        own.poll();
    }
}

#[test]
fn what_cannot_be_delivered_comes_back_with_the_reason() {
    let mut programs = Programs::new(Config::am_myrinet(2, 8)).unwrap();
    let board = Board::default();
    let its = board.clone();
    programs.spawn(0, move |station| {
        let freed = endpoint(&station);
        let mut beside = endpoint(&station);
        its.publish(0, freed.name());
        let mut own = endpoint(&station);
        // A request waits in it when it is freed.
        beside
            .map(0, &its.names_of(&station, 1, 1)[0], KEY)
            .unwrap();
        while !freed.events().intersects(EventMask::MESSAGE) {
            station.idle();
        }
        drop(freed);
        serve(&station, &its, &mut own);
        assert_eq!(own.state().requests, [LAST]);
    });
    programs.spawn(1, move |station| {
        let mut own = endpoint(&station);
        board.publish(1, own.name());
        let freed = board.names_of(&station, 0, 1)[0];
        own.map(0, &freed, KEY).unwrap();
        own.request(0, ECHO, &[10]).unwrap();
        let server = board.names_of(&station, 0, 2)[1];
        let mut nowhere = server.to_bytes();
        nowhere[4] = 40;
        own.map(1, &server, Key(1)).unwrap();
        own.map(2, &server, KEY).unwrap();
        own.map(3, &Name::from_bytes(nowhere), KEY).unwrap();
        own.request(0, ECHO, &[11]).unwrap();
        own.request(1, ECHO, &[12]).unwrap();
        own.request(2, NOBODY, &[13]).unwrap();
        let outside = Body::Bulk {
            offset: 16 * 1024 - 1,
            bytes: &[1, 2],
        };
        own.request_with(2, ECHO, &[14], outside).unwrap();
        own.request_with(3, ECHO, &[15], Body::Medium(&[1; 100]))
            .unwrap();
        while own.outstanding() > 0 {
            own.wait(EventMask::RETURNED, None).unwrap();
            own.poll();
        }
        let mut returned = own.state().returned.clone();
        returned.sort_unstable_by_key(|(word, _)| *word);
        let expected = [
            (10, Reason::EndpointFreed),
            (11, Reason::EndpointFreed),
            (12, Reason::WrongKey),
            (13, Reason::NoSuchHandler),
            (14, Reason::OutsideSegment),
            (15, Reason::NoSuchEndpoint),
        ];
        assert_eq!(returned, expected);
        // Names of elsewhere, and a wait that ends.
        assert!(own.map(4, &Name::from_bytes([7; 32]), KEY).is_err());
        assert!(own.map(4, &own.name(), KEY).is_err());
        let before = station.now();
        let limit = Duration::from_micros(77);
        let waited = own.wait(EventMask::MESSAGE, Some(limit));
        assert_eq!(waited, Err(WaitError::TimedOut));
        assert_eq!(station.now() - before, limit);
        own.request(2, ECHO, &[LAST]).unwrap();
    });
    programs.run().unwrap();
}

/// Each client has as many credits as the server's queue has entries.
#[test]
fn a_full_queue_delays_and_loses_nothing() {
    let mut programs = Programs::new(Config::am_myrinet(4, 8)).unwrap();
    let board = Board::default();
    let its = board.clone();
    programs.spawn(0, move |station| {
        let mut own = endpoint(&station);
        its.publish(0, own.name());
        while its.ended.get() < 3 {
            let _ = own.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
            own.poll_at_most(1);
            station.compute(Duration::from_micros(20));
        }
        let mut requests = own.state().requests.clone();
        requests.sort_unstable();
        assert_eq!(requests, (0..300).collect::<Vec<_>>());
    });
    for host in 1..4 {
        let its = board.clone();
        programs.spawn(host, move |station| {
            // The same program, asynchronous.
            let mut own = endpoint(&station);
            own.map(0, &its.names_of(&station, 0, 1)[0], KEY).unwrap();
            let first = (u64::from(host) - 1) * 100;
            station.block_on(async {
                for word in first..first + 100 {
                    own.request_async(0, ECHO, &[word], Body::Short)
                        .await
                        .unwrap();
                }
                assert!(own.outstanding() > 0 && own.credits() < 32);
                while own.outstanding() > 0 {
                    own.wait_async(EventMask::MESSAGE).await.unwrap();
                    own.poll();
                }
            });
            let mut replies = own.state().replies.clone();
            replies.sort_unstable();
            assert_eq!(replies, (first..first + 100).collect::<Vec<_>>());
            its.ended.set(its.ended.get() + 1);
        });
    }
    let outcome = programs.run().unwrap();
    // Some 32 were for the endpoint, before it came into its frame.
    assert!(outcome.totals.refusals > 200, "{outcome:?}");
}

#[test]
fn programs_that_wait_for_ever_are_named() {
    let mut programs = Programs::new(Config::am_myrinet(3, 8)).unwrap();
    programs.spawn(0, |station| station.compute(Duration::from_micros(1)));
    programs.spawn(2, |station| {
        let mut own = endpoint(&station);
        let _ = own.wait(EventMask::MESSAGE, None);
    });
    let stuck = programs.run().unwrap_err();
    assert_eq!(stuck.hosts, [2]);
}

/// The clock of a host.
struct Clock<'station, 'program>(&'station Station<'program>);

impl Host for Clock<'_, '_> {
    fn now_ns(&self) -> u64 {
        self.now_ps() / 1000
    }

    fn now_ps(&self) -> u64 {
        self.0.now_ps()
    }

    fn compute(&self, time_ns: u64) -> u64 {
        self.0.compute(Duration::from_nanos(time_ns));
        time_ns * 1000
    }

    fn relax(&self) {
        self.0.idle();
    }

    fn sleep(&self, time: Duration) {
        self.0.compute(time);
    }
}

/// Measures with `viaduct measure`'s program on a simulated host.
fn measured<T: 'static>(config: Config, measure: fn(&mut dyn Requests) -> T) -> T {
    let mut programs = Programs::new(config).unwrap();
    let board = Board::default();
    let found = Rc::new(RefCell::new(None));
    let its = board.clone();
    programs.spawn(0, move |station| {
        let handlers = request_handlers();
        let options = request_options(KEY);
        let mut own = Endpoint::new(&station, &handlers, Default::default(), options).unwrap();
        its.publish(0, own.name());
        while its.ended.get() == 0 {
            own.wait(EventMask::MESSAGE, None).unwrap();
            own.poll();
        }
    });
    let result = Rc::clone(&found);
    programs.spawn(1, move |station| {
        let handlers = request_handlers();
        let options = request_options(KEY);
        let mut own = Endpoint::new(&station, &handlers, Default::default(), options).unwrap();
        own.map(0, &board.names_of(&station, 0, 1)[0], KEY).unwrap();
        let clock = Clock(&station);
        let mut prober = Rested(&station, Prober::new(own, &clock, Some(1)));
        // Both endpoints come into frames.
        let first = Burst {
            requests: 1,
            bytes: 16,
            delay_ns: 0,
            is_echoed: false,
        };
        prober.burst(first).unwrap();
        *result.borrow_mut() = Some(measure(&mut prober));
        board.ended.set(1);
        prober.burst(first).unwrap();
    });
    programs.run().unwrap();
    found.take().unwrap()
}

/// Bursts after a rest: no acknowledgement of the burst before is under way.
struct Rested<'a, 'program, P>(&'a Station<'program>, P);

impl<P: Requests> Requests for Rested<'_, '_, P> {
    fn burst(&mut self, burst: Burst) -> Result<Elapsed, MeasureError> {
        self.0.compute(Duration::from_millis(1));
        self.1.burst(burst)
    }

    fn repetitions(&self, burst: Burst) -> u32 {
        self.1.repetitions(burst)
    }
}

fn assert_near(ours: f64, wanted: f64, what: &str) {
    // A cycle of 26.7 ns is cut to whole picoseconds.
    assert!(
        (ours - wanted).abs() <= 1e-6 * wanted,
        "{what}: {ours}, not {wanted}"
    );
}

const CYCLE_US: f64 = 1.0 / 37.5;
/// Whoever waits for a message is half a look late, on average.
const NOTICED_US: f64 = 0.25;

/// What the steps add up to: 217 cycles of a message sent and taken in; with virtual networks 221
/// and 173, and 56 and 120 of the two acknowledgements.
#[test]
fn the_measuring_program_finds_what_the_costs_add_up_to() {
    for (config, way, header, interval) in [
        (Config::am_myrinet(2, 8), 394.0, 36.0, 570.0),
        // Less than the processor's 2.9 us a request and 2.9 a reply.
        (Config::gam_myrinet(2), 217.0, 16.0, 5.8 / CYCLE_US),
    ] {
        let found: LogP = measured(config, |requests| logp(requests).unwrap());
        println!("{found:?}");
        let wire_us = 0.3 + (header + 16.0) / 150.0;
        let latency_us = way * CYCLE_US + wire_us + NOTICED_US;
        assert_near(found.o_send_us, 2.9, "o_send");
        assert_near(found.o_recv_us, 2.9, "o_recv");
        assert_near(found.latency_us, latency_us, "latency");
        assert_near(found.gap_us, interval * CYCLE_US, "gap");
        assert_near(found.round_trip_us, 2.0 * (latency_us + 5.8), "round trip");
    }
}

#[test]
fn bulk_messages_take_two_copies_two_buses_and_a_link_each_way() {
    let mut config = Config::am_myrinet(2, 8);
    // Now and then an endpoint is looked at whose channels are all taken: that is not counted here.
    config.firmware.steps.turn = 0;
    let found = measured(config, |requests| {
        bulk(requests, &[128, 1024, 8192], &mut |_| {}).unwrap()
    });
    println!("{found:?}");
    let us_per_byte = 2.0 / 120.0 + 1.0 / 38.2 + 1.0 / 46.8 + 1.0 / 150.0;
    for row in &found.rows {
        let bytes = f64::from(row.bytes);
        // 36 cycles of the bus's engine in the place of 20 for four words, at each end.
        let once_us = 5.8 + 414.0 * CYCLE_US + 0.3 + 36.0 / 150.0 + NOTICED_US;
        let round_trip_us = 2.0 * (once_us + us_per_byte * bytes);
        assert_near(row.round_trip_us, round_trip_us, "round trip");
        // One message a gap, or the bus out of host memory.
        let mbyte_s = (bytes / (574.0 * CYCLE_US)).min(38.2);
        assert!(
            (row.mbyte_s / mbyte_s - 1.0).abs() < 1e-4,
            "{row:?}, not {mbyte_s} MB/s"
        );
    }
}

/// The generation before: one message, one packet, and nobody acknowledges.
#[test]
fn without_a_transport_what_is_refused_comes_back_too() {
    let mut programs = Programs::new(Config::gam_myrinet(3)).unwrap();
    let board = Board::default();
    let its = board.clone();
    programs.spawn(0, move |station| {
        let mut own = endpoint(&station);
        serve(&station, &its, &mut own);
        let words: Vec<u64> = own.state().requests.clone();
        assert_eq!(words.iter().filter(|word| **word < 100).count(), 80);
    });
    for host in 1..3 {
        let its = board.clone();
        programs.spawn(host, move |station| {
            let mut own = endpoint(&station);
            let server = its.names_of(&station, 0, 1)[0];
            let mut nowhere = server.to_bytes();
            nowhere[4] = 5;
            own.map(0, &server, KEY).unwrap();
            own.map(1, &server, Key(1)).unwrap();
            own.map(2, &Name::from_bytes(nowhere), KEY).unwrap();
            for word in 0..40 {
                own.request(0, ECHO, &[word]).unwrap();
            }
            own.request_with(1, ECHO, &[200], Body::Medium(&[1; 8000]))
                .unwrap();
            own.request(2, ECHO, &[201]).unwrap();
            own.request(0, NOBODY, &[202]).unwrap();
            while own.outstanding() > 0 {
                own.wait(EventMask::ALL, None).unwrap();
                if own.poll() == 0 {
                    station.idle();
                }
            }
            let mut returned = own.state().returned.clone();
            returned.sort_unstable_by_key(|(word, _)| *word);
            let expected = [
                (200, Reason::WrongKey),
                (201, Reason::NoSuchEndpoint),
                (202, Reason::NoSuchHandler),
            ];
            assert_eq!(returned, expected);
            assert_eq!(own.state().replies.len(), 40);
            its.ended.set(its.ended.get() + 1);
            if its.ended.get() == 2 {
                own.request(0, ECHO, &[LAST]).unwrap();
            }
        });
    }
    programs.run().unwrap();
}

#[test]
fn what_an_interface_without_a_transport_cannot_do_is_said() {
    let mut lossy = Config::gam_myrinet(2);
    lossy.network.lost_per_million = 1;
    assert!(Programs::new(lossy).is_err());
    let mut programs = Programs::new(Config::gam_myrinet(2)).unwrap();
    programs.spawn(0, |station| {
        let all: Vec<_> = (0..8).map(|_| endpoint(&station)).collect();
        let options = Options::new(KEY);
        let ninth = Endpoint::new(&station, &handlers(), Seen::default(), options);
        let error = ninth.unwrap_err().to_string();
        assert!(error.contains("as many endpoints as frames, 8"), "{error}");
        drop(all);
    });
    programs.run().unwrap();
}

/// A thousand endpoints in two frames: each is served, and those beyond the first 64 as the others.
#[test]
fn a_host_has_endpoints_without_number() {
    // A prime number, so that clients go through many.
    let (seen, outcome) = exchange(997, 2, 150);
    let requests: usize = seen.iter().map(|seen| seen.requests.len()).sum();
    let replies: usize = seen.iter().map(|seen| seen.replies.len()).sum();
    assert_eq!((requests, replies), (450, 450));
    let beyond = seen.iter().filter(|seen| seen.replies.is_empty()).skip(64);
    assert!(beyond.filter(|seen| !seen.requests.is_empty()).count() > 100);
    assert!(outcome.totals.remaps > 200, "{outcome:?}");
}

/// A cable that is down for a while delays; one that stays down has requests return.
#[test]
fn cables_that_fail_lose_nothing_in_silence() {
    let mut config = Config::am_myrinet(3, 8);
    let down = |host: u32, until| Fault::LinksDown {
        links: Links::Between(Node::Host(HostId(host)), Node::Switch(SwitchId(host / 5))),
        from: Time::from_milliseconds(2),
        until,
    };
    config.faults = vec![down(1, Some(Time::from_milliseconds(40))), down(2, None)];
    let mut programs = Programs::new(config).unwrap();
    let board = Board::default();
    let its = board.clone();
    programs.spawn(0, move |station| {
        let mut own = endpoint(&station);
        its.publish(0, own.name());
        while its.ended.get() < 2 {
            let _ = own.wait(EventMask::ALL, Some(Duration::from_millis(1)));
            if own.poll() == 0 {
                station.idle();
            }
        }
        // What it answered, and whose answers did not get there.
        assert!(own.state().returned.iter().all(|(word, _)| *word >= 2000));
    });
    for host in 1..3 {
        let its = board.clone();
        programs.spawn(host, move |station| {
            let mut own = endpoint(&station);
            own.map(0, &its.names_of(&station, 0, 1)[0], KEY).unwrap();
            let first = u64::from(host) * 1000;
            for word in first..first + 900 {
                own.request(0, ECHO, &[word]).unwrap();
            }
            while own.outstanding() > 0 {
                own.wait(EventMask::ALL, None).unwrap();
                if own.poll() == 0 {
                    station.idle();
                }
            }
            let Seen {
                replies, returned, ..
            } = own.state();
            assert_eq!(replies.len() + returned.len(), 900, "each ends once");
            if host == 1 {
                assert_eq!(*returned, []);
                assert!(station.now() > Duration::from_millis(40));
            } else {
                let known = [
                    Reason::HostUnreachable,
                    Reason::ConnectionLost,
                    Reason::Unanswered,
                ];
                assert!(returned.len() > 500, "{} came back", returned.len());
                let mut reasons = returned.iter().map(|(_, reason)| reason);
                assert!(reasons.all(|reason| known.contains(reason)));
            }
            its.ended.set(its.ended.get() + 1);
        });
    }
    programs.run().unwrap();
}

#[test]
fn a_program_whose_interface_dies_has_its_requests_back() {
    const DIES_MS: u64 = 40;
    let mut config = Config::am_myrinet(2, 8);
    config.faults = vec![Fault::InterfaceDies {
        host: 0,
        at: Time::from_milliseconds(DIES_MS),
    }];
    let mut programs = Programs::new(config).unwrap();
    let board = Board::default();
    let its = board.clone();
    programs.spawn(1, move |station| {
        let mut own = endpoint(&station);
        its.publish(1, own.name());
        while its.ended.get() < 1 {
            own.poll();
            station.compute(Duration::from_micros(50));
        }
    });
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (its, found) = (board.clone(), Rc::clone(&seen));
    programs.spawn(0, move |station| {
        let mut own = endpoint(&station);
        own.map(0, &its.names_of(&station, 1, 1)[0], KEY).unwrap();
        for word in 0..20 {
            own.request(0, ECHO, &[word]).unwrap();
            let posted = station.now();
            while own.outstanding() > 0 {
                own.wait(EventMask::MESSAGE | EventMask::RETURNED, None)
                    .unwrap();
                own.poll();
            }
            if posted > Duration::from_millis(DIES_MS) {
                // At once: the driver knows.
                let waited = station.now() - posted;
                assert!(waited < Duration::from_micros(10), "{waited:?}");
            }
            station.compute(Duration::from_millis(2));
        }
        *found.borrow_mut() = own.state().clone();
        its.ended.set(1);
    });
    programs.run().unwrap();
    let seen = seen.borrow();
    assert!(seen.replies.len() > 3, "{seen:?}");
    assert_eq!(seen.replies.len() + seen.returned.len(), 20, "{seen:?}");
    let unreachable = |it: &(u64, Reason)| it.1 == Reason::HostUnreachable;
    assert!(
        seen.returned.len() > 3 && seen.returned.iter().all(unreachable),
        "{seen:?}"
    );
}

#[test]
fn a_host_with_a_program_does_not_reboot() {
    let mut config = Config::am_myrinet(2, 8);
    config.faults = vec![Fault::Reboot {
        host: 1,
        at: Time::from_milliseconds(1),
        down_for: None,
    }];
    assert!(Programs::new(config).is_err());
}
