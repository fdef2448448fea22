//! Reliable connections of RDMA adapters send again what was lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_engine::Time;
use viaduct_hardware::Mechanism;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Outcome, Simulation};
use viaduct_provider::Memory;
use viaduct_provider::via::ReliabilityLevel;
use viaduct_scenario::load_programs;
use viaduct_topology::LinkId;

use super::two::{
    BYTES, End, Ended, RD, RECEIVES, RR, TRANSPORT, Told, UD, at, ended, run_two, until,
};

const MESSAGES: usize = 300;
const SCHEMES: [&str; 2] = ["go-back-n", "selective repeat"];

/// An RDMA adapter that waits so many microseconds until it sends again.
fn rnic(faults: &[Fault], timeout: u64) -> SimulationConfig {
    let mut config = load_programs("rnic-gen3", None, 2).unwrap();
    config.faults = faults.to_vec();
    if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
        model.timeout = Time::from_microseconds(timeout);
    }
    config
}

/// The same adapter, of go-back-N and of selective repeat.
fn both(config: &SimulationConfig) -> [SimulationConfig; 2] {
    [false, true].map(|is_selective| {
        let mut config = config.clone();
        if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
            model.repeats_selectively = is_selective;
        }
        config
    })
}

const fn loss(links: Links, rate: f64) -> Fault {
    Fault::Loss { links, rate }
}

const THERE: Links = Links::One(LinkId(0));
const BACK: Links = Links::One(LinkId(1));

/// Sends numbered messages one close behind the other.
fn send_numbers(end: &mut End) -> Vec<Ended> {
    until(&end.process, 2000);
    let mut told = Vec::new();
    let limit = Some(Duration::from_millis(50));
    for number in 0..MESSAGES as u64 {
        let mut buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        end.vi.post_send(buffer, BYTES).unwrap();
        if number % 8 == 7 {
            told.extend((0..8).map(|_| ended(end.vi.sent(limit))));
        }
    }
    told.retain(|ended| *ended != Ended::Well);
    told
}

/// The same, and disconnects as soon as the last has been told of.
fn send_and_leave(end: &mut End) -> Vec<Ended> {
    let mut told = send_numbers(end);
    told.extend((0..MESSAGES % 8).map(|_| ended(end.vi.sent(Some(Duration::from_millis(50))))));
    end.vi.disconnect().unwrap();
    told.retain(|ended| *ended != Ended::Well);
    told
}

/// Sends until the connection is lost.
fn send_few(end: &mut End) -> Vec<Ended> {
    for _ in 0..MESSAGES {
        let buffer = end.buffer();
        if end.vi.post_send(buffer, BYTES).is_err() || end.vi.sent(None).is_err() {
            break;
        }
    }
    Vec::new()
}

/// Expects the numbers in order, each once.
fn count_numbers(end: &mut End) -> Vec<Ended> {
    for _ in 0..MESSAGES + 8 {
        let buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
        end.vi.post_receive(buffer).unwrap();
    }
    for number in 0..MESSAGES as u64 {
        let limit = Some(Duration::from_millis(50));
        let Ok(received) = end.vi.receive(limit) else {
            return vec![Ended::Failed(number as u32)];
        };
        assert_eq!(received.data()[..8], number.to_le_bytes());
    }
    assert!(end.vi.receive(Some(Duration::from_millis(1))).is_err());
    Vec::new()
}

fn numbers(config: SimulationConfig, level: ReliabilityLevel) -> (Outcome, [Option<Told>; 2]) {
    let (outcome, told) = run_two(config, level, [send_numbers, count_numbers]);
    (outcome.unwrap(), told)
}

#[test]
fn every_message_comes_once_and_in_order_whatever_is_lost() {
    for level in [RD, RR] {
        for fault in [
            loss(THERE, 0.01),
            loss(THERE, 0.1),
            loss(THERE, 0.3),
            loss(BACK, 0.2),
            loss(Links::All, 0.1),
            Fault::Corruption {
                links: THERE,
                rate: 0.1,
            },
        ] {
            for (config, scheme) in both(&rnic(&[fault], 30)).into_iter().zip(SCHEMES) {
                let (outcome, told) = numbers(config, level);
                let place = format!("{level:?}, {fault:?}, {scheme}");
                for told in told.into_iter().flatten() {
                    assert_eq!((told.ended, told.errors), (vec![], vec![]), "{place}");
                }
                let counts = outcome.counts;
                // Without acknowledgements nothing goes back that could be lost.
                let has_way_back = fault == loss(BACK, 0.2) && level == RD;
                assert_eq!(counts.lost > 0, !has_way_back, "{place}");
                assert_eq!(counts.retransmissions > 0, !has_way_back, "{place}");
                assert_eq!(counts.corrupted, 0, "{place}");
            }
        }
    }
}

#[test]
fn what_was_told_of_comes_though_its_sender_has_disconnected() {
    for level in [RD, RR] {
        for seed in 1..=8 {
            let mut config = rnic(&[loss(THERE, 0.3)], 30);
            config.seed = seed;
            for config in both(&config) {
                let (outcome, told) = run_two(config, level, [send_and_leave, count_numbers]);
                let counts = outcome.unwrap().counts;
                for told in told.into_iter().flatten() {
                    assert_eq!(told.ended, vec![], "{level:?}, seed {seed}");
                }
                assert_eq!(counts.connections_broken, 0, "{level:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_more_is_lost_the_more_is_sent_again() {
    let mut last = 0;
    for rate in [0.0, 0.02, 0.1, 0.3] {
        let (outcome, _) = numbers(rnic(&[loss(THERE, rate)], 30), RD);
        let counts = outcome.counts;
        assert!(counts.retransmissions >= counts.lost, "{rate}");
        assert_eq!(counts.retransmissions == 0, rate == 0.0);
        assert!(rate == 0.0 || counts.retransmissions > last, "{rate}");
        last = counts.retransmissions;
    }
}

#[test]
fn a_gap_is_told_long_before_the_time_is_over() {
    // Losses at 40 ms each would not end in time.
    for config in both(&rnic(&[loss(THERE, 0.03)], 40_000)) {
        let (outcome, told) = numbers(config, RD);
        assert!(outcome.counts.lost > 3);
        let whole = told.into_iter().flatten().all(|told| told.ended.is_empty());
        assert!(whole);
    }
}

#[test]
fn a_connection_breaks_when_nothing_gets_through() {
    for retries in [1, 7] {
        let mut config = rnic(&[loss(THERE, 1.0)], 500);
        if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
            model.retries = retries;
        }
        for config in both(&config) {
            let (outcome, told) = run_two(
                config,
                RR,
                [
                    |end| {
                        end.post();
                        let before = end.process.now();
                        let ended = end.sent(1);
                        let took = (end.process.now() - before).as_micros() as u32;
                        vec![ended[0], Ended::Failed(took)]
                    },
                    |end| end.received(1),
                ],
            );
            assert_eq!(outcome.unwrap().counts.retransmissions, u64::from(retries));
            let sender = told[0].clone().unwrap();
            assert_eq!(sender.ended[0], TRANSPORT);
            let Ended::Failed(took) = sender.ended[1] else {
                panic!("{sender:?}")
            };
            let waited = 500 * (retries + 1);
            assert!((waited..waited + 50).contains(&took), "{took} us");
        }
    }
}

#[test]
fn unreliable_connections_lose_and_other_adapters_break() {
    let drain = |end: &mut End| {
        for _ in 0..MESSAGES {
            let buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
            end.vi.post_receive(buffer).unwrap();
        }
        while end.vi.receive(Some(Duration::from_millis(5))).is_ok() {}
        Vec::new()
    };
    let lossy = |retries| {
        let mut config = rnic(&[loss(THERE, 0.1)], 30);
        if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
            model.retries = retries;
        }
        config
    };
    let (outcome, told) = run_two(lossy(7), UD, [send_numbers, drain]);
    let outcome = outcome.unwrap();
    assert!(outcome.counts.lost > 0);
    assert_eq!(outcome.counts.retransmissions, 0);
    assert_eq!(told[0].clone().unwrap().errors, []);
    let (outcome, told) = run_two(lossy(0), RD, [send_few, drain]);
    assert_eq!(outcome.unwrap().counts.retransmissions, 0);
    assert_ne!(told[0].clone().unwrap().errors, []);
}

#[test]
fn remote_reads_and_writes_are_repeated_too() {
    for level in [RD, RR] {
        let part = |end: &mut End| {
            let limit = Some(Duration::from_millis(40));
            let mut told = Vec::new();
            for number in 1..=60_u64 {
                let mut buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
                buffer[..8].copy_from_slice(&number.to_le_bytes());
                end.vi.post_write(buffer, BYTES, end.remote).unwrap();
                told.push(ended(end.vi.sent(limit)));
                let buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
                end.vi.post_read(buffer, BYTES, end.remote).unwrap();
                let read = end.vi.sent(limit).unwrap();
                assert_eq!(read.buffer[..8], number.to_le_bytes());
            }
            told.retain(|ended| *ended != Ended::Well);
            told
        };
        for config in both(&rnic(&[loss(Links::All, 0.1)], 20)) {
            let (outcome, told) = run_two(config, level, [part, |_| Vec::new()]);
            let counts = outcome.unwrap().counts;
            assert!(counts.lost > 5 && counts.retransmissions >= 5, "{counts:?}");
            for told in told.into_iter().flatten() {
                assert_eq!((told.ended, told.errors), (vec![], vec![]));
            }
        }
    }
}

#[test]
fn a_short_cut_is_survived() {
    let cut = Fault::LinkDown {
        links: Links::All,
        from: at(2020),
        until: Some(at(2100)),
    };
    for config in both(&rnic(&[cut], 50)) {
        let (outcome, told) = numbers(config, RD);
        assert!(outcome.counts.lost > 0);
        for told in told.into_iter().flatten() {
            assert_eq!((told.ended, told.errors), (vec![], vec![]));
        }
    }
}

/// Frames of a long message, 4 KiB each.
const FRAMES: u32 = 256;
const LONG_BYTES: usize = FRAMES as usize * 4096;
/// Runs at each rate.
const SEEDS: u64 = 8;
/// How long their sender waits for an answer.
const TIMEOUT_US: u32 = 100;
/// Long messages of a stream.
const LONG_MESSAGES: u64 = 20;

/// Sends long messages one close behind the other.
fn send_long(end: &mut End) -> Vec<Ended> {
    let mut buffers: Vec<_> = (0..4)
        .map(|_| end.nic.buffer(LONG_BYTES, Memory::Private).unwrap())
        .collect();
    let limit = Some(Duration::from_millis(20));
    // For the short receives that are posted.
    for _ in 0..RECEIVES {
        end.post();
        end.vi.sent(limit).unwrap();
    }
    until(&end.process, 4000);
    for number in 0..LONG_MESSAGES {
        let mut buffer = match buffers.pop() {
            Some(buffer) => buffer,
            None => match end.vi.sent(limit) {
                Ok(sent) => sent.buffer,
                Err(_) => break,
            },
        };
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        let last = number.to_le_bytes();
        buffer[LONG_BYTES - 8..].copy_from_slice(&last);
        if end.vi.post_send(buffer, LONG_BYTES).is_err() {
            break;
        }
    }
    while end.vi.sent(limit).is_ok() {}
    Vec::new()
}

/// Expects long messages in order, each once; how many came, and how long after the beginning the
/// last.
fn count_long(end: &mut End) -> Vec<Ended> {
    for _ in 0..LONG_MESSAGES {
        let buffer = end.nic.buffer(LONG_BYTES, Memory::Private).unwrap();
        end.vi.post_receive(buffer).unwrap();
    }
    let limit = Some(Duration::from_millis(20));
    for _ in 0..RECEIVES {
        end.vi.receive(limit).unwrap();
    }
    let mut last = 0;
    for number in 0..LONG_MESSAGES {
        let Ok(received) = end.vi.receive(limit) else {
            return vec![Ended::Failed(number as u32)];
        };
        let wanted = number.to_le_bytes();
        assert_eq!(received.data()[..8], wanted);
        assert_eq!(received.data()[LONG_BYTES - 8..], wanted);
        last = end.process.now().as_micros() as u32;
    }
    vec![
        Ended::Failed(LONG_MESSAGES as u32),
        Ended::Failed(last - 4000),
    ]
}

/// How many long messages came, and how long all took, in microseconds.
fn long(faults: &[Fault], seed: u64, scheme: usize) -> (u32, u32, Outcome) {
    let mut config = both(&rnic(faults, TIMEOUT_US.into()))[scheme].clone();
    config.seed = seed;
    let (outcome, told) = run_two(config, RD, [send_long, count_long]);
    let told = told[1].clone().unwrap();
    let [Ended::Failed(came), took] = told.ended[..] else {
        let Ended::Failed(came) = told.ended[0] else {
            panic!("{told:?}")
        };
        return (came, 0, outcome.unwrap());
    };
    let Ended::Failed(took) = took else {
        panic!("{told:?}")
    };
    (came, took, outcome.unwrap())
}

#[test]
fn of_a_long_message_what_the_receiver_lacks_is_sent_again() {
    // Seven in a hundred of these messages get through without a loss at 1 %, one in a million at
    // 5 %: sent again as a whole, they would break the connection.
    let (came, alone, outcome) = long(&[], 1, 0);
    assert_eq!((u64::from(came), outcome.counts.lost), (LONG_MESSAGES, 0));
    for rate in [0.01, 0.05] {
        let (mut lost, mut took_us) = (0.0, 0.0);
        for seed in 1..=SEEDS {
            let (came, took, outcome) = long(&[loss(THERE, rate)], seed, 0);
            assert_eq!(u64::from(came), LONG_MESSAGES, "{rate}, seed {seed}");
            lost += outcome.counts.lost as f64;
            took_us += f64::from(took - alone);
        }
        // Each frame is lost so often before it comes: a geometric distribution.
        let frames = f64::from(FRAMES) * LONG_MESSAGES as f64 * SEEDS as f64;
        let (expected, deviation) = (
            frames * rate / (1.0 - rate),
            (frames * rate).sqrt() / (1.0 - rate),
        );
        assert!(
            (lost - expected).abs() < 4.0 * deviation,
            "{rate}: {lost} lost, {expected} +- {deviation} expected"
        );
        // Each costs the way there and back, some two microseconds, and the frame that tells of
        // it; far less than the message, of 90 us. What is lost once more, with four standard
        // deviations of how often that is, waits for the time-out.
        let each = took_us / lost;
        let lost_again = rate + 4.0 * (rate / lost).sqrt();
        let most = 4.0 + f64::from(TIMEOUT_US) * lost_again;
        assert!((1.0..most).contains(&each), "{rate}: {each} us a loss");
    }
}

#[test]
fn long_messages_survive_a_cut_in_their_middle() {
    let cut = Fault::LinkDown {
        links: Links::All,
        from: at(4030),
        until: Some(at(4060)),
    };
    for (scheme, name) in SCHEMES.iter().enumerate() {
        let (_, alone, _) = long(&[], 1, scheme);
        let (came, took, outcome) = long(&[cut], 1, scheme);
        assert_eq!(u64::from(came), LONG_MESSAGES, "{name}");
        assert!(outcome.counts.lost > 0, "{name}");
        // The first third of the message is not sent again.
        assert!(
            took > alone && took - alone < 300,
            "{name}: {took} us, {alone} alone"
        );
    }
}

#[test]
fn of_a_long_read_what_is_lacking_is_asked_for_again() {
    let part = |end: &mut End| {
        let mut told = Vec::new();
        for _ in 0..60 {
            let buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
            end.vi.post_read(buffer, BYTES, end.remote).unwrap();
            told.push(ended(end.vi.sent(Some(Duration::from_millis(40)))));
        }
        told.retain(|ended| *ended != Ended::Well);
        told
    };
    // Frames of 8 bytes, so that a read of what the peers gave has many.
    let mut config = rnic(&[loss(BACK, 0.1)], 20);
    config.links.frame.payload_bytes = 8;
    for config in both(&config) {
        let (outcome, told) = run_two(config, RD, [part, |_| Vec::new()]);
        assert!(outcome.unwrap().counts.lost > 30);
        for told in told.into_iter().flatten() {
            assert_eq!((told.ended, told.errors), (vec![], vec![]));
        }
    }
}

/// Three hosts: the first sends to the second, disconnects as soon as its sends are complete, and
/// goes on to the third with the same VI.
#[test]
fn what_was_told_of_comes_though_its_vi_has_another_peer() {
    const EACH: u64 = 40;
    for (seed, scheme) in (1..=4).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let mut config = load_programs("rnic-gen3", None, 3).unwrap();
        (config.seed, config.faults) = (seed, vec![loss(THERE, 0.3)]);
        let mut config = both(&config)[scheme].clone();
        if let Mechanism::Rdma(model) = &mut config.host.common_mut().mechanism {
            // Longer than the next connection takes to be set up.
            model.timeout = Time::from_milliseconds(4);
        }
        let mut simulation = Simulation::new(config);
        let came: Arc<Mutex<[Vec<u64>; 2]>> = Arc::default();
        simulation.spawn(0, move |process| {
            let mut end = End::new(process, RD);
            for host in ["host1", "host2"] {
                end.connect(host);
                for number in 0..EACH {
                    let mut buffer = end.buffer();
                    buffer[..8].copy_from_slice(&number.to_le_bytes());
                    end.vi.post_send(buffer, BYTES).unwrap();
                    end.vi.sent(None).unwrap();
                }
                end.vi.disconnect().unwrap();
            }
        });
        for host in 1..=2 {
            let came = came.clone();
            simulation.spawn(host, move |process| {
                let mut end = End::new(process, RD);
                for _ in 0..EACH {
                    let buffer = end.buffer();
                    end.vi.post_receive(buffer).unwrap();
                }
                let listener = end.nic.listen(b"faults");
                listener.accept(&mut end.vi, None).unwrap();
                let limit = Some(Duration::from_millis(100));
                let numbers = std::iter::from_fn(|| {
                    let received = end.vi.receive(limit).ok()?;
                    Some(u64::from_le_bytes(received.data()[..8].try_into().unwrap()))
                });
                came.lock().unwrap()[host as usize - 1] = numbers.collect();
            });
        }
        let outcome = simulation.run().unwrap();
        assert!(outcome.counts.retransmissions > 20);
        let all: Vec<u64> = (0..EACH).collect();
        let place = format!("seed {seed}, {}", SCHEMES[scheme]);
        assert_eq!(*came.lock().unwrap(), [all.clone(), all], "{place}");
    }
}
