//! `viaduct measure` of virtual networks from outside: two processes, and simulated interfaces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_viaduct"))
        .arg("measure")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs what must succeed and gives its JSON; nothing else may be on stdout.
fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key} in {object}"))
}

fn assert_near(ours: f64, given: f64) {
    let off = (ours / given - 1.0).abs();
    assert!(off < 0.05, "{ours} where {given} is given");
}

#[test]
fn the_first_generation_has_its_given_figures() {
    let logp = json(&["logp", "--on", "sim:gam-myrinet"]);
    let keys: Vec<&String> = logp.as_object().unwrap().keys().collect();
    let wanted = [
        "cores",
        "fabric",
        "gap_us",
        "latency_us",
        "o_recv_us",
        "o_send_us",
        "round_trip_us",
        "test",
    ];
    assert_eq!(keys, wanted);
    assert_near(number(&logp, "o_send_us") + number(&logp, "o_recv_us"), 5.8);
    assert_near(number(&logp, "o_send_us"), 2.9);
    assert_near(number(&logp, "gap_us"), 5.8);
    let sum = 2.0 * (number(&logp, "o_send_us") + number(&logp, "o_recv_us"));
    let latency_us = (number(&logp, "round_trip_us") - sum) / 2.0;
    assert!(
        (latency_us - number(&logp, "latency_us")).abs() < 1e-6,
        "{logp}"
    );
    let bulk = json(&["bulk", "--on", "sim:gam-myrinet"]);
    let rows = bulk["rows"].as_array().unwrap();
    let sizes: Vec<u64> = rows
        .iter()
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [128, 256, 512, 1024, 2048, 4096, 8192]);
    assert_near(number(&rows[6], "mbyte_s"), 38.0);
}

#[test]
fn virtual_networks_cost_more_and_end_at_the_same_bandwidth() {
    let fabrics = "sim:gam-myrinet,sim:am-myrinet";
    let told = json(&["logp", "--on", fabrics]);
    for key in ["latency_us", "gap_us", "round_trip_us"] {
        let [first, second] = [0, 1].map(|index| number(&told[index], key));
        assert!(second > first + 1.0, "{key}: {told}");
    }
    let told = json(&["bulk", "--on", fabrics, "--sizes", "128,1KiB,8KiB"]);
    let [first, second] = [0, 1].map(|index| &told[index]);
    assert!(number(second, "half_power_bytes") > number(first, "half_power_bytes"));
    for report in [first, second] {
        let last = &report["rows"][2];
        let line = &report["round_trip_fit"];
        let fitted = number(line, "us") + number(line, "us_per_byte") * 8192.0;
        assert_near(number(last, "round_trip_us"), fitted);
    }
    let [first, second] = [first, second].map(|report| number(&report["rows"][2], "mbyte_s"));
    assert_near(second, first);
    // Simulated time: the same again.
    assert_eq!(
        told,
        json(&["bulk", "--on", fabrics, "--sizes", "128,1KiB,8KiB"])
    );
}

#[test]
fn two_processes_are_measured() {
    let logp = json(&["logp", "--on", "shm", "--iterations", "9"]);
    assert_eq!(logp["fabric"], "shm");
    assert_eq!(logp["cores"].as_array().unwrap().len(), 2);
    for key in ["o_send_us", "gap_us", "round_trip_us"] {
        assert!(number(&logp, key) > 0.0, "{logp}");
    }
    let bulk = json(&[
        "bulk",
        "--on",
        "shm",
        "--iterations",
        "3",
        "--sizes",
        "64,8KiB",
    ]);
    let rows = bulk["rows"].as_array().unwrap();
    assert!(
        number(&rows[1], "mbyte_s") > number(&rows[0], "mbyte_s"),
        "{bulk}"
    );
    assert!(number(&rows[0], "round_trip_us") > 0.0, "{bulk}");
}

#[test]
fn tables_and_plots_have_every_fabric() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("virtual-networks");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for test in ["logp", "bulk"] {
        let plot = directory.join(format!("{test}.svg"));
        let output = run(&[
            test,
            "--on",
            "sim:gam-myrinet,sim:am-myrinet",
            "--plot",
            plot.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let (table, picture) = (text(&output.stdout), fs::read_to_string(&plot).unwrap());
        for name in ["sim:gam-myrinet", "sim:am-myrinet"] {
            assert!(table.contains(name), "{table}");
            assert!(picture.contains(name), "no {name} in the plot of {test}");
        }
    }
}

#[test]
fn what_does_not_go_is_told() {
    for (arguments, words) in [
        (&["logp", "--on", "sim:clan-pio"][..], "sim:am-myrinet"),
        (&["logp", "--on", "shm", "--sizes", "8"], "`--sizes`"),
        (&["bulk", "--on", "shm", "--sizes", "9000"], "8192"),
        (&["bulk", "--on", "shm", "--sizes", "0"], "1 to 8192"),
        (&["logp", "--on", "shm", "--mode", "block"], "`--mode`"),
        (
            &["logp", "--on", "shm", "--connections", "2"],
            "`--connections`",
        ),
        (
            &["logp", "--on", "sim:am-myrinet", "--fault", "loss 1 %"],
            "`--fault`",
        ),
        (&["latency", "--on", "sim:am-myrinet"], "logp"),
    ] {
        let told = failure(arguments);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}
