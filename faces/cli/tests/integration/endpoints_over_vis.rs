//! `viaduct measure logp` and `bulk` of endpoints over the VIs of simulated adapters.

use serde_json::Value;

use crate::support::text;
use crate::virtual_networks::{failure, json, run};

fn number(report: &Value, key: &str) -> f64 {
    report[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key}: {report}"))
}

/// A request and its reply are messages of 32 bytes of header and two words, and what both sides
/// do beside them: longer than two such messages take, and not much longer.
#[test]
fn a_request_costs_what_its_messages_cost_on_each_kind_of_adapter() {
    for model in [
        "giganet-clan",
        "clan-pio",
        "bvia-myrinet",
        "m-via",
        "rnic-gen5",
    ] {
        let fabric = format!("sim:{model}");
        let logp = json(&["logp", "--on", &fabric]);
        assert_eq!(logp["network_level"], "max-min");
        let messages = json(&["latency", "--on", &fabric, "--sizes", "48"]);
        assert_eq!(messages["network_level"], "max-min");
        let half = messages["rows"][0]["half_rtt_us"]["median"]
            .as_f64()
            .unwrap();
        let round_trip = number(&logp, "round_trip_us");
        let times = round_trip / (2.0 * half);
        assert!((1.0..2.5).contains(&times), "{model}: {round_trip}, {half}");
        let whole =
            number(&logp, "o_send_us") + number(&logp, "latency_us") + number(&logp, "o_recv_us");
        assert!((2.0 * whole / round_trip - 1.0).abs() < 1e-6, "{logp}");
        assert!(number(&logp, "gap_us") < round_trip, "{logp}");
    }
}

#[test]
fn what_a_study_has_around_endpoints_slows_them() {
    let of = |options: &[&str]| {
        let usual = ["bulk", "--on", "sim:clan@torus-1024", "--sizes", "4KiB"];
        json(&[&usual, options].concat())["rows"][0].clone()
    };
    let alone = of(&["--no-traffic"]);
    let amid = of(&["--iterations", "9"]);
    // One round trip of ten may find the network idle; a stream does not.
    assert!(
        number(&amid, "mbyte_s") < 0.98 * number(&alone, "mbyte_s"),
        "{alone} {amid}"
    );
    assert_eq!(amid, of(&["--iterations", "9"]), "the same seed");
    assert_ne!(amid, of(&["--iterations", "9", "--seed", "7"]));
}

/// VIA sends nothing again: the carrier gives back what a lost message took with it. RDMA adapters
/// send again.
#[test]
fn faults_strike_endpoints_over_vis() {
    let lossy = ["logp", "--on", "sim:clan-pio", "--fault", "loss 5 %"];
    let output = run(&lossy);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("came back"),
        "{}",
        text(&output.stderr)
    );
    let resent = ["logp", "--on", "sim:rnic-gen4", "--fault", "loss 1 %"];
    let resent = json(&[&resent[..], &["--iterations", "9"]].concat());
    assert!(number(&resent, "round_trip_us") > 0.0);
}

#[test]
fn what_needs_frames_is_told() {
    let told = failure(&["timesharing", "--on", "sim:clan-pio"]);
    assert!(told.contains("sim:am-myrinet"), "{told}");
    // Of several fabrics each would have to have it.
    let told = failure(&["logp", "--on", "sim:clan-pio,shm", "--fault", "loss 1 %"]);
    assert!(told.contains("`--fault`"), "{told}");
}
