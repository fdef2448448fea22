//! Connecting to hosts that are dead or cut off.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_programs::Simulation;
use viaduct_provider::via::ViState;
use viaduct_provider::{Nic, ReturnCode};

use super::two::{at, cable, with};
use crate::models;

/// How a request to host 1 ends, and after how many microseconds.
fn request(fault: Fault, limit: Option<Duration>) -> (Option<ReturnCode>, u128) {
    let told = Arc::new(Mutex::new(None));
    let slot = told.clone();
    let mut simulation = Simulation::new(with(&models::native(), &[fault]));
    simulation.spawn(0, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        let address = nic.resolve("host1", b"there").unwrap();
        process.sleep(Duration::from_micros(100));
        let start = process.now();
        let code = vi.connect(&address, limit).err().map(|error| error.code());
        let state = vi.query().unwrap().state;
        let connected = code.is_none();
        assert_eq!(state == ViState::Connected, connected);
        assert_eq!(state == ViState::Idle, !connected);
        *slot.lock().unwrap() = Some((code, (process.now() - start).as_micros()));
    });
    simulation.spawn(1, |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let mut vi = nic.vi().build().unwrap();
        let limit = Some(Duration::from_millis(50));
        if nic.listen(b"there").accept(&mut vi, limit).is_ok() {
            process.sleep(Duration::from_millis(50));
        }
    });
    simulation.run().unwrap();
    let told = told.lock().unwrap();
    told.unwrap()
}

const LIMIT: Option<Duration> = Some(Duration::from_millis(2));

const DEAD: Fault = Fault::HostDies {
    host: 1,
    at: at(50),
};

const DEAD_NIC: Fault = Fault::NicDies {
    host: 1,
    at: at(50),
};

const OWN_NIC_DEAD: Fault = Fault::NicDies {
    host: 0,
    at: at(50),
};

fn cut_until(end: Option<u64>) -> Fault {
    Fault::LinkDown {
        links: cable(1),
        from: at(50),
        until: end.map(at),
    }
}

#[test]
fn a_request_to_who_is_not_there_ends_in_its_own_time_or_unreachable() {
    for fault in [DEAD, DEAD_NIC, OWN_NIC_DEAD, cut_until(None)] {
        let (code, took) = request(fault, LIMIT);
        assert_eq!(code, Some(ReturnCode::Timeout), "{fault:?}");
        assert!((2000..2100).contains(&took), "{took} us");
        let (code, took) = request(fault, None);
        assert_eq!(code, Some(ReturnCode::NotReachable), "{fault:?}");
        assert!((9000..10_100).contains(&took), "{took} us");
    }
}

#[test]
fn a_request_gets_through_when_a_short_cut_is_over() {
    let (code, took) = request(cut_until(Some(3000)), None);
    assert_eq!(code, None);
    assert!((2900..3200).contains(&took), "{took} us");
    assert_eq!(
        request(cut_until(Some(3000)), LIMIT).0,
        Some(ReturnCode::Timeout)
    );
}

#[test]
fn requests_are_said_again_where_messages_are_lost() {
    for (links, rate) in [(Links::All, 1.0), (cable(0), 0.5)] {
        assert_eq!(request(Fault::Loss { links, rate }, LIMIT).0, None);
        assert_eq!(request(Fault::Corruption { links, rate }, LIMIT).0, None);
    }
}

#[test]
fn a_host_that_dies_over_a_request_leaves_nobody_waiting() {
    // Whenever in the exchange it dies: at the request's way, at the answer's, behind it.
    for microseconds in (90..200).step_by(3) {
        let dies = Fault::HostDies {
            host: 1,
            at: at(microseconds),
        };
        let (code, took) = request(dies, None);
        assert!(
            matches!(code, None | Some(ReturnCode::NotReachable)),
            "{code:?}"
        );
        assert!(took < 10_200, "{took} us");
        // The client dies and its server, once it has accepted, is told.
        let dies = Fault::HostDies {
            host: 0,
            at: at(microseconds),
        };
        let mut simulation = Simulation::new(with(&models::native(), &[dies]));
        simulation.spawn(0, |process| {
            let nic = Nic::open(process.fabric(), "sim0").unwrap();
            let mut vi = nic.vi().build().unwrap();
            let address = nic.resolve("host1", b"there").unwrap();
            process.sleep(Duration::from_micros(100));
            vi.connect(&address, None).unwrap();
            process.sleep(Duration::from_secs(1));
        });
        simulation.spawn(1, |process| {
            let nic = Nic::open(process.fabric(), "sim0").unwrap();
            let mut vi = nic.vi().build().unwrap();
            let limit = Some(Duration::from_millis(5));
            if nic.listen(b"there").accept(&mut vi, limit).is_ok() {
                process.sleep(Duration::from_millis(20));
                assert_eq!(vi.query().unwrap().state, ViState::Error);
            }
        });
        simulation.run().unwrap();
    }
}
