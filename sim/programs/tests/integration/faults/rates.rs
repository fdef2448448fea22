//! Loss and corruption at a rate: how much, and the same again from the same seed.

use std::time::Duration;

use viaduct_cluster::faults::{Fault, FaultError, Links, Slowness};
use viaduct_programs::Outcome;
use viaduct_programs::config::SimulationConfig;
use viaduct_provider::Memory;
use viaduct_topology::{HostId, LinkId, Node};

use super::two::{BYTES, End, Ended, RR, UD, at, cable, run_two, with};
use crate::models;

const MESSAGES: usize = 10_000;

fn send_many(end: &mut End) -> Vec<Ended> {
    let mut spare = vec![end.buffer()];
    for _ in 0..MESSAGES {
        let buffer = spare.pop().unwrap();
        end.vi.post_send(buffer, BYTES).unwrap();
        spare.push(end.vi.sent(None).unwrap().buffer);
    }
    Vec::new()
}

/// Counts what came well, and what did not, as long as something comes.
fn count(end: &mut End) -> Vec<Ended> {
    for _ in 0..32 {
        let buffer = end.nic.buffer(BYTES, Memory::Private).unwrap();
        end.vi.post_receive(buffer).unwrap();
    }
    let (mut well, mut failed) = (0, 0);
    let limit = Some(Duration::from_millis(1));
    loop {
        let buffer = match end.vi.receive(limit) {
            Ok(received) => {
                well += 1;
                received.buffer
            }
            // The sender has left.
            Err(error) if error.is_flushed() => break,
            Err(viaduct_provider::CompletionError::Failed { buffer, .. }) => {
                failed += 1;
                buffer
            }
            Err(_) => break,
        };
        end.vi.post_receive(buffer).unwrap();
    }
    vec![Ended::Failed(well), Ended::Failed(failed)]
}

/// What came well, what was corrupt, and how it all ended.
fn numbers(config: SimulationConfig) -> (u32, u32, Outcome) {
    let (outcome, told) = run_two(config, UD, [send_many, count]);
    let ended = told[1].clone().unwrap().ended;
    let [Ended::Failed(well), Ended::Failed(failed)] = ended[..] else {
        panic!("{ended:?}")
    };
    (well, failed, outcome.unwrap())
}

fn seeded(faults: &[Fault], seed: u64) -> SimulationConfig {
    SimulationConfig {
        seed,
        ..with(&models::native(), faults)
    }
}

const fn loss(links: Links, rate: f64) -> Fault {
    Fault::Loss { links, rate }
}

const fn corruption(links: Links, rate: f64) -> Fault {
    Fault::Corruption { links, rate }
}

/// Whether a count of 10,000 is as likely at this rate as four standard deviations.
fn is_near(count: u32, rate: f64) -> bool {
    let all = MESSAGES as f64;
    let deviation = (all * rate * (1.0 - rate)).sqrt();
    (f64::from(count) - all * rate).abs() <= 4.0 * deviation
}

#[test]
fn as_many_are_lost_as_the_rate_says() {
    for (links, rate, part) in [
        (Links::One(LinkId(0)), 0.1, 0.1),
        // On both links of the way.
        (Links::All, 0.1, 0.19),
        (cable(1), 0.02, 0.02),
        // Of the way back.
        (Links::One(LinkId(1)), 0.5, 0.0),
    ] {
        let (well, failed, outcome) = numbers(seeded(&[loss(links, rate)], 7));
        let lost = MESSAGES as u32 - well;
        assert!(is_near(lost, part), "{links:?}: {lost} lost");
        assert_eq!(failed, 0);
        let counts = outcome.counts;
        assert_eq!((counts.lost, counts.corrupted), (u64::from(lost), 0));
        assert_eq!(counts.messages, u64::from(well));
    }
}

#[test]
fn as_many_are_corrupt_as_the_rate_says() {
    let (well, failed, outcome) = numbers(seeded(&[corruption(Links::All, 0.05)], 7));
    assert!(is_near(failed, 0.0975), "{failed} corrupt");
    assert_eq!(well + failed, MESSAGES as u32);
    assert_eq!(outcome.counts.corrupted, u64::from(failed));
}

#[test]
fn two_rates_of_one_link_strike_apart() {
    let links = Links::One(LinkId(0));
    let faults = [loss(links, 0.2), loss(links, 0.5), corruption(links, 0.1)];
    let (well, failed, _) = numbers(seeded(&faults, 3));
    let lost = MESSAGES as u32 - well - failed;
    assert!(is_near(lost, 0.6), "{lost} lost");
    assert!(is_near(failed, 0.04), "{failed} corrupt");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let faults = [loss(Links::All, 0.1), corruption(Links::All, 0.1)];
    let one = numbers(seeded(&faults, 1));
    assert_eq!(one, numbers(seeded(&faults, 1)));
    let other = numbers(seeded(&faults, 2));
    assert_ne!((one.0, one.1), (other.0, other.1));
    assert_ne!(one.2, other.2);
}

#[test]
fn a_link_draws_the_same_whatever_happens_on_others() {
    let own = loss(Links::One(LinkId(0)), 0.1);
    let alone = numbers(seeded(&[own], 1));
    // No message goes this way at unreliable delivery.
    let beside = numbers(seeded(&[loss(Links::One(LinkId(1)), 0.5), own], 1));
    assert_eq!(alone, beside);
}

#[test]
fn faults_that_do_not_strike_change_nothing() {
    let far = at(1_000_000_000);
    let faults = [
        loss(Links::All, 0.0),
        corruption(Links::All, 0.0),
        Fault::LinkDown {
            links: Links::All,
            from: far,
            until: None,
        },
        Fault::HostDies { host: 0, at: far },
        Fault::NicDies { host: 1, at: far },
        Fault::SlowHost {
            host: 1,
            from: far,
            by: Slowness::Factor(3.0),
        },
        Fault::SlowHost {
            host: 1,
            from: far,
            by: Slowness::PerMessage(at(5)),
        },
    ];
    let without = numbers(seeded(&[], 1));
    assert_eq!(without, numbers(seeded(&faults, 1)));
    assert_eq!((without.0, without.1), (MESSAGES as u32, 0));
}

#[test]
fn some_acknowledgements_are_lost_at_reliable_reception() {
    let mut breaks = 0;
    for seed in 0..40 {
        let mut config = seeded(&[loss(Links::One(LinkId(1)), 0.5)], seed);
        config.detection.transport_timeout = at(100);
        let (outcome, told) = run_two(
            config,
            RR,
            [
                |end| {
                    end.post();
                    end.sent(1)
                },
                |end| end.received(1),
            ],
        );
        let lost = outcome.unwrap().counts.lost;
        // The message itself is always placed.
        assert_eq!(told[1].clone().unwrap().ended, [Ended::Well]);
        let was_acknowledged = told[0].clone().unwrap().ended == [Ended::Well];
        assert_eq!(lost, u64::from(!was_acknowledged));
        breaks += lost;
    }
    assert!((10..=30).contains(&breaks), "{breaks}");
}

#[test]
fn a_fault_that_cannot_be_is_refused_and_told_by_its_place() {
    let own = Node::Host(HostId(0));
    for (fault, expected) in [
        (loss(Links::All, 1.5), "fault 1: a rate is 0 to 1, not 1.5"),
        (
            loss(Links::All, f64::NAN),
            "fault 1: a rate is 0 to 1, not NaN",
        ),
        (
            loss(Links::One(LinkId(4)), 0.1),
            "fault 1: no link 4: links are 0 to 3",
        ),
        (
            loss(Links::OneWay(own, own), 0.1),
            "fault 1: no link joins the two nodes that it names",
        ),
        (
            Fault::HostDies { host: 2, at: at(1) },
            "fault 1: no host 2: hosts are 0 to 1",
        ),
        (
            Fault::LinkDown {
                links: Links::All,
                from: at(2),
                until: Some(at(2)),
            },
            "fault 1: it ends before it begins",
        ),
        (
            Fault::SlowHost {
                host: 0,
                from: at(0),
                by: Slowness::Factor(0.0),
            },
            "fault 1: a factor is above 0, not 0",
        ),
    ] {
        let config = seeded(&[loss(Links::All, 0.5), fault], 1);
        let refused = config
            .check_faults()
            .map_err(|error: FaultError| error.to_string());
        assert_eq!(refused, Err(expected.to_owned()));
    }
    assert!(seeded(&[loss(Links::All, 1.0)], 1).check_faults().is_ok());
}
