//! Each program, between two threads over a fabric inside this process: shape and sanity, no times.

use std::sync::Arc;
use std::thread;

use serde_json::Value;
use viaduct_measure::{
    Machine, MeasureError, Meeting, Mode, Plan, Report, Row, Test, Transfer, initiate, respond,
};
use viaduct_provider::Memory;
use viaduct_provider::via::ReliabilityLevel;
use viaduct_threads::InProcess;

const DEVICE: &str = "inproc0";

/// A plan that takes no time.
fn small(test: Test) -> Plan {
    let mut plan = Plan::usual(test);
    plan.iterations = Some(100);
    // Threads that share a core wait for each other best asleep.
    plan.mode = Mode::Block;
    plan.sizes.retain(|bytes| *bytes <= 65_536);
    plan.connections.retain(|count| *count <= 16);
    plan
}

fn run(plan: &Plan) -> Result<Value, MeasureError> {
    let fabric = Arc::new(InProcess::new());
    let meeting = Meeting {
        device: DEVICE.to_owned(),
        host: None,
        discriminator: b"test".to_vec(),
    };
    let machine = Machine::new(None);
    let mut told = 0;
    let rows = thread::scope(|scope| {
        let other = {
            let (fabric, meeting, machine) =
                (Arc::clone(&fabric), meeting.clone(), machine.clone());
            let level = plan.level;
            scope.spawn(move || respond(&*fabric, &meeting, level, &machine))
        };
        let rows = initiate(&*fabric, &meeting, plan, &machine, |_: &Row| told += 1);
        if rows.is_err() {
            machine.stop("the test is over");
        }
        let other = other.join().unwrap();
        let rows = rows?;
        other?;
        Ok(rows)
    })?;
    assert_eq!(told, rows.len());
    let report = Report::new("inproc", plan, Transfer::Auto, None, rows);
    assert!(report.table().lines().count() > report.rows.len());
    Ok(serde_json::from_str(&report.to_json()).unwrap())
}

fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap();
    assert!(number > 0.0, "{value}");
    number
}

#[test]
fn latency_has_a_row_a_size() {
    for mode in [Mode::Poll, Mode::Block] {
        let mut plan = small(Test::Latency);
        plan.mode = mode;
        plan.sizes = vec![0, 1, 8, 65, 4096];
        let report = run(&plan).unwrap();
        assert_eq!(
            (&report["fabric"], &report["test"]),
            (&"inproc".into(), &"latency".into())
        );
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5);
        for (row, bytes) in rows.iter().zip(&plan.sizes) {
            assert_eq!(row["bytes"], *bytes);
            let times = &row["half_rtt_us"];
            let (min, median) = (positive(&times["min"]), positive(&times["median"]));
            assert!(
                min <= median && median <= positive(&times["p99"]),
                "{times}"
            );
            assert!(row["round_trips"].as_u64().unwrap() >= 100);
            let lost = row["lost_fraction"].as_f64().unwrap();
            assert!((0.0..1.0).contains(&lost), "{lost}");
        }
    }
}

#[test]
fn bandwidth_and_rate_say_bytes_and_messages() {
    for test in [Test::Bandwidth, Test::Rate] {
        let plan = small(test);
        let report = run(&plan).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), plan.sizes.len());
        for row in rows {
            let bytes = positive(&row["bytes"]);
            let (mbyte_s, messages_s) = (positive(&row["mbyte_s"]), positive(&row["messages_s"]));
            assert!(
                (mbyte_s * 1e6 / messages_s / bytes - 1.0).abs() < 1e-9,
                "{row}"
            );
            assert!(row["messages"].as_u64().unwrap() >= 100);
        }
    }
}

#[test]
fn many_connections_share_a_queue() {
    for mode in [Mode::Poll, Mode::Block] {
        let mut plan = small(Test::Cq);
        plan.mode = mode;
        plan.is_touched = true;
        let report = run(&plan).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&rows[0]["connections"], &rows[1]["connections"]),
            (&1.into(), &16.into())
        );
        for row in rows {
            positive(&row["requests_s"]);
            assert!(row["requests"].as_u64().unwrap() >= 100);
            assert!(row["bytes_per_connection"].is_u64() || row["bytes_per_connection"].is_null());
        }
    }
}

#[test]
fn no_more_requests_are_issued_than_the_load_that_is_asked_for() {
    for mode in [Mode::Poll, Mode::Block] {
        let mut plan = small(Test::Cq);
        plan.mode = mode;
        plan.connections = vec![4];
        plan.loads_requests_s = vec![2000, 5000];
        let report = run(&plan).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for (row, load) in rows.iter().zip(&plan.loads_requests_s) {
            assert_eq!(
                (&row["connections"], &row["offered_requests_s"]),
                (&4.into(), &(*load).into())
            );
            assert_eq!(row["requests"], 100);
            // 25 of each connection take 24 intervals, one of which it may make up for; the first
            // answer, from which on time counts, may be late by another on a busy machine. Without
            // a pace it would be a hundred times the load.
            let answered = positive(&row["mean_requests_s"]) / f64::from(*load);
            assert!(answered <= 25.0 / 22.0, "{row}");
        }
    }
    let mut plan = small(Test::Cq);
    plan.loads_requests_s = vec![0];
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("0 requests a second"), "{error}");
}

#[test]
fn every_byte_is_checked_at_every_level_and_in_any_memory() {
    let levels = [
        ReliabilityLevel::Unreliable,
        ReliabilityLevel::ReliableDelivery,
        ReliabilityLevel::ReliableReception,
    ];
    for level in levels {
        for test in [Test::Latency, Test::Bandwidth] {
            let mut plan = small(test);
            plan.level = level;
            plan.is_touched = true;
            plan.memory = Memory::Private;
            plan.sizes = vec![1, 63, 4097];
            let report = run(&plan).unwrap();
            assert_eq!(report["touched"], true);
            assert_eq!(report["memory"], "private");
            assert_eq!(report["rows"].as_array().unwrap().len(), 3);
        }
    }
}

#[test]
fn what_the_fabric_cannot_do_is_said_at_once() {
    let mut plan = small(Test::Latency);
    plan.sizes = vec![8, u32::MAX];
    let error = run(&plan).unwrap_err();
    assert!(matches!(error, MeasureError::Impossible { .. }), "{error}");
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");

    let mut plan = small(Test::Cq);
    plan.connections = vec![0];
    assert!(
        run(&plan)
            .unwrap_err()
            .to_string()
            .contains("0 connections")
    );
}

#[test]
fn a_side_alone_gives_up_when_told() {
    let meeting = Meeting {
        device: DEVICE.to_owned(),
        host: None,
        discriminator: b"nobody".to_vec(),
    };
    let machine = Machine::new(None);
    machine.stop("enough");
    let fabric = InProcess::new();
    let error = initiate(&fabric, &meeting, &small(Test::Latency), &machine, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "enough");
    let level = ReliabilityLevel::ReliableDelivery;
    let error = respond(&fabric, &meeting, level, &machine).unwrap_err();
    assert_eq!(error.to_string(), "enough");
}
