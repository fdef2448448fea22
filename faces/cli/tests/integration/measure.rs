//! `viaduct measure` from outside: two real processes; shape and sanity, no times.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Folder, text};

const PATIENCE: Duration = Duration::from_secs(60);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
    command
        .arg("measure")
        .args(arguments)
        .env_remove("VIADUCT_TRANSFER")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs what must succeed and gives its one object; nothing else may be on stdout.
fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failure(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

#[test]
fn latency_is_told_for_each_size() {
    let report = json(&[
        "latency",
        "--on",
        "shm",
        "--sizes",
        "0,8,65,4KiB",
        "--iterations",
        "50",
        "--mode",
        "block",
    ]);
    assert_eq!(report["fabric"], "shm");
    assert_eq!(report["test"], "latency");
    assert_eq!(report["transfer"], "auto");
    assert_eq!(report["touched"], false);
    let rows = report["rows"].as_array().unwrap();
    let sizes: Vec<u64> = rows
        .iter()
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [0, 8, 65, 4096]);
    for row in rows {
        let time = |name| row["half_rtt_us"][name].as_f64().unwrap();
        assert!(0.0 < time("min") && time("min") <= time("median"), "{row}");
        assert!(time("median") <= time("p99"), "{row}");
    }
}

#[test]
fn counts_are_told_when_asked_for_and_on_every_fabric_that_counts() {
    let arguments = [
        "latency",
        "--on",
        "shm,sim:clan-pio",
        "--sizes",
        "8,1KiB",
        "--iterations",
        "64",
    ];
    let told = json(&[&arguments[..], &["--counts"]].concat());
    for report in told.as_array().unwrap() {
        for row in report["rows"].as_array().unwrap() {
            let count = |name: &str| row["counts"][name].as_u64().unwrap();
            assert_eq!(row["round_trips"], row["counts"]["over"]);
            for name in ["messages", "received", "transfers"] {
                assert_eq!(count(name), count("over"), "{name}: {report}");
            }
            assert!(count("remote_writes") > count("over"), "{report}");
        }
    }
    let shm = |row: usize, name: &str| told[0]["rows"][row]["counts"][name].clone();
    assert_eq!(shm(0, "inline"), shm(0, "over"));
    assert_eq!(shm(1, "inline"), 0);
    for report in json(&arguments).as_array().unwrap() {
        assert!(report["rows"][0].get("counts").is_none(), "{report}");
    }
    let output = run(&[&arguments[..], &["--counts"]].concat());
    let table = text(&output.stdout);
    for name in ["over shm:", "over sim:clan-pio:"] {
        let (_, part) = table.split_once(name).unwrap();
        let line = part.lines().find(|line| line.contains("transfers"));
        let cells: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(cells, ["transfers", "1.000", "1.000"], "{table}");
    }
}

#[test]
fn the_other_tests_have_their_rows() {
    let common = [
        "--on",
        "shm",
        "--iterations",
        "200",
        "--mode",
        "block",
        "--touch",
    ];
    for test in ["bandwidth", "rate"] {
        let report = json(&[&[test, "--sizes", "8,100"], &common[..]].concat());
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert!(row["mbyte_s"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["messages_s"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(report["touched"], true);
    }
    let report = json(&[&["cq", "--connections", "1,20"], &common[..]].concat());
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["connections"], &rows[1]["connections"]),
        (&1.into(), &20.into())
    );
    for row in rows {
        assert!(row["requests_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["bytes_per_connection"].is_u64(), "{row}");
    }
}

#[test]
fn every_level_and_way_of_transfer_is_taken() {
    for level in ["ud", "rd", "rr"] {
        let arguments = [
            "latency",
            "--on",
            "shm",
            "--sizes",
            "100",
            "--iterations",
            "20",
            "--mode",
            "block",
            "--touch",
            "--level",
            level,
        ];
        assert_eq!(json(&arguments)["level"], level);
    }
    for transfer in ["auto", "inline", "pool", "direct", "copy"] {
        let arguments = [
            "latency",
            "--on",
            "shm",
            "--sizes",
            "20KiB",
            "--iterations",
            "20",
            "--mode",
            "block",
            "--touch",
            "--private",
            "--transfer",
            transfer,
        ];
        let report = json(&arguments);
        assert_eq!(report["transfer"], transfer);
        assert_eq!(report["memory"], "private");
    }
}

#[test]
fn the_table_explains_itself() {
    let output = run(&[
        "latency",
        "--on",
        "shm",
        "--sizes",
        "8",
        "--iterations",
        "20",
        "--mode",
        "block",
    ]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for words in [
        "latency over shm",
        "median us",
        "placement",
        "interruptions",
        "level rd",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let unknown = failure(1, &["latency", "--on", "carrier-pigeon"]);
    assert!(
        unknown.contains("no fabric is called `carrier-pigeon`"),
        "{unknown}"
    );
    assert!(unknown.contains("shm ("), "{unknown}");
    let useless = failure(1, &["cq", "--on", "shm", "--sizes", "8"]);
    assert!(useless.contains("--connections"), "{useless}");
    let useless = failure(1, &["rate", "--on", "shm", "--connections", "8"]);
    assert!(useless.contains("measure cq"), "{useless}");
    let core = failure(1, &["rate", "--on", "shm", "--cores", "0,1023"]);
    assert!(
        core.contains("core 1023") && core.contains("may use"),
        "{core}"
    );
    let size = failure(1, &["rate", "--on", "shm", "--sizes", "3GiB"]);
    assert!(size.contains("longest"), "{size}");
}

/// What a quick measurement needs beside its test and fabrics.
const QUICK: [&str; 4] = ["--mode", "block", "--iterations", "20"];

#[test]
fn several_fabrics_have_a_column_each() {
    let output = run(&[
        &["latency", "--on", "shm,shm", "--sizes", "0,8,4KiB"],
        &QUICK[..],
    ]
    .concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.starts_with("latency over shm and shm #2: median us"),
        "{table}"
    );
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip_while(|line| !line.contains("bytes  "))
        .take(4)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["bytes", "shm", "shm", "#2"], "{table}");
    for (row, bytes) in rows[1..].iter().zip(["0", "8", "4096"]) {
        assert_eq!((row.len(), row[0]), (3, bytes), "{table}");
        for cell in &row[1..] {
            assert!(cell.parse::<f64>().unwrap() > 0.0, "{table}");
        }
    }
}

#[test]
fn several_fabrics_are_one_array() {
    let array = json(&[&["rate", "--on", "shm", "--on", "shm"], &QUICK[..]].concat());
    let reports = array.as_array().unwrap();
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert_eq!(report["fabric"], "shm");
        assert!(
            report["rows"][0]["messages_s"].as_f64().unwrap() > 0.0,
            "{report}"
        );
    }
    let alone = json(&[&["rate", "--on", "shm"], &QUICK[..]].concat());
    assert!(alone.is_object(), "{alone}");
}

#[test]
fn a_plot_has_a_line_a_fabric() {
    let directory = Folder::new();
    let (svg, png) = (directory.join("a.svg"), directory.join("a.PNG"));
    for (file, arguments) in [
        (&svg, ["bandwidth", "--sizes", "64,4KiB", "--on", "shm,shm"]),
        (&png, ["cq", "--connections", "1,4", "--on", "shm"]),
    ] {
        let plot = ["--plot", file.to_str().unwrap()];
        let output = run(&[&arguments[..], &plot, &QUICK].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("shm"));
    }
    let svg = fs::read_to_string(svg).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    for words in [
        "bandwidth, MB/s",
        "size of a message",
        ">shm<",
        ">shm #2<",
        ">4 KiB<",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    assert!(fs::read(png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn a_plot_that_cannot_be_written_is_told_before_anything_is_measured() {
    let directory = Folder::new();
    let tell = |file: &Path| {
        let plot = ["--plot", file.to_str().unwrap()];
        // Nothing on stdout: no row was measured.
        failure(1, &[&["rate", "--on", "shm"], &plot[..], &QUICK].concat())
    };

    let gif = tell(&directory.join("rate.gif"));
    assert!(
        gif.contains("rate.gif") && gif.contains(".svg, .pdf or .png"),
        "{gif}"
    );
    let nowhere = tell(&directory.join("nowhere/rate.svg"));
    assert!(nowhere.contains("cannot write the file"), "{nowhere}");
    fs::create_dir(directory.join("rate.svg")).unwrap();
    let folder = tell(&directory.join("rate.svg"));
    assert!(folder.contains("cannot write the file"), "{folder}");
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing was left over"
    );
}

#[test]
fn a_file_is_as_before_until_there_is_a_plot() {
    let directory = Folder::new();
    let (old, new) = (directory.join("old.svg"), directory.join("new.svg"));
    fs::write(&old, "of before").unwrap();
    for file in [&old, &new] {
        let plot = ["--plot", file.to_str().unwrap()];
        failure(
            1,
            &[&["rate", "--on", "shm", "--sizes", "3GiB"], &plot[..]].concat(),
        );
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "of before");
    assert!(!new.exists());
    let plot = ["--plot", old.to_str().unwrap()];
    let output = run(&[&["rate", "--on", "shm"], &plot[..], &QUICK].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&old).unwrap().starts_with("<svg "));
}

/// A measurement that goes on until somebody ends it, and its other side's process id.
fn endless() -> (Child, u32) {
    let mut measurement = command(&[
        "latency",
        "--on",
        "shm",
        "--sizes",
        "8",
        "--iterations",
        "100000000000",
        "--mode",
        "block",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let start = Instant::now();
    loop {
        if let Some(peer) = child_of(measurement.id()) {
            // It has found its way into the measurement, or dies before: both must be told.
            thread::sleep(Duration::from_millis(500));
            return (measurement, peer);
        }
        assert!(start.elapsed() < PATIENCE, "no other side was started");
        assert!(
            measurement.try_wait().unwrap().is_none(),
            "it ended at once"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

fn child_of(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn kill(process: u32) {
    // The shell's own: a program of that name is not on every machine.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -KILL {process}")])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_peer_that_dies_is_reported() {
    let (measurement, peer) = endless();
    kill(peer);
    let killed = Instant::now();
    let output = measurement.wait_with_output().unwrap();
    assert!(killed.elapsed() < PATIENCE);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(text(&output.stdout), "");
    assert!(errors.contains("killed by signal 9"), "{errors}");
}

#[test]
fn a_peer_ends_with_the_measurement() {
    let (mut measurement, peer) = endless();
    measurement.kill().unwrap();
    measurement.wait().unwrap();
    let killed = Instant::now();
    // Whoever takes in orphans may leave it unburied.
    let is_there = || {
        fs::read_to_string(format!("/proc/{peer}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    };
    while is_there() {
        assert!(killed.elapsed() < PATIENCE, "the other side lives on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_measurement_says_where_and_when_and_by_what_it_was_made() {
    let report = json(&[&["rate", "--on", "shm"], &QUICK[..]].concat());
    let date = report["date"].as_str().unwrap();
    assert!(date.len() == 20 && date.ends_with('Z'), "{date}");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(report["machine"], name.trim());
    assert!(report["processor"].is_string() || report["processor"].is_null());
    // Which machine simulates changes nothing: equal runs are equal bytes.
    let simulated = json(&["rate", "--on", "sim:clan-pio"]);
    assert_eq!(simulated["version"], env!("CARGO_PKG_VERSION"));
    for key in ["machine", "processor", "date"] {
        assert!(simulated.get(key).is_none(), "{key}");
    }
}
