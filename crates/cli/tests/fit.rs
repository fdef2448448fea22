//! `viaduct fit` from outside: the preset it writes, what it says, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use serde_json::Value;

mod support;
use support::Folder;

/// Latency between two processes, of the magnitudes that a rented server shows.
const SHM: &str = include_str!("fixtures/shm-latency.json");

/// A folder with the measurement in it.
fn measured() -> Folder {
    Folder::with("shm.json", SHM)
}

#[test]
fn a_measurement_becomes_a_preset_that_predicts_as_the_fit_said() {
    let folder = measured();
    let said = folder.said(&[
        "fit",
        "shm.json",
        "--base",
        "rnic-gen4",
        "-o",
        "my-host.toml",
    ]);
    insta::assert_snapshot!(format!("{said}\n{}", folder.read("my-host.toml")));

    let sizes = "0,8,64,256,1024,4096,16384,65536,262144,1048576";
    let measured = folder.said(&[
        "measure",
        "latency",
        "--on",
        "sim:my-host.toml",
        "--sizes",
        sizes,
    ]);
    let column = |text: &str, column: usize| -> Vec<String> {
        let lines = text.lines().map(|line| line.split_whitespace());
        let mut rows = lines.filter(|row| row.clone().all(|cell| !cell.contains("bytes")));
        let rows = rows.by_ref().map(|row| row.collect::<Vec<_>>());
        let rows = rows.filter(|row| row.len() > column && row[0].parse::<u32>().is_ok());
        rows.map(|row| row[column].to_owned()).collect()
    };
    let predicted = column(&said, 2);
    assert_eq!(predicted.len(), 10);
    assert_eq!(predicted, column(&measured, 2), "{said}{measured}");
}

#[test]
fn a_base_in_a_file_is_named_from_where_the_new_preset_stands() {
    let folder = measured();
    fs::create_dir(folder.join("bases")).unwrap();
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(
        folder.join("bases/base.toml"),
        "name = \"base\"\ninherits = \"clan-pio\"\n[cpu]\n\
         post = { value = \"9 us\", source = \"none\", confidence = \"assumed\" }\n",
    )
    .unwrap();
    let json = folder.said(&["measure", "latency", "--on", "sim:clan-pio", "--json"]);
    fs::write(folder.join("pio.json"), json).unwrap();
    let said = folder.said(&[
        "fit",
        "pio.json",
        "--base",
        "bases/base.toml",
        "-o",
        "mine/host.toml",
    ]);
    assert!(said.contains("simulated hosts"), "{said}");
    let preset = folder.read("mine/host.toml");
    assert!(
        preset.contains("inherits = \"../bases/base.toml\""),
        "{preset}"
    );

    let report = |hosts: &str| -> Value {
        let arguments = ["measure", "latency", "--on", hosts, "--json"];
        serde_json::from_str(&folder.said(&arguments)).unwrap()
    };
    let (meant, fitted) = (report("sim:clan-pio"), report("sim:mine/host.toml"));
    let rows = |report: &Value| report["rows"].as_array().unwrap().clone();
    for (meant, fitted) in rows(&meant).iter().zip(rows(&fitted)) {
        let time = |row: &Value| row["half_rtt_us"]["median"].as_f64().unwrap();
        let error = time(&fitted) / time(meant) - 1.0;
        assert!(error.abs() < 0.02, "{error}: {fitted}");
    }

    let itself = folder.failure(
        1,
        &[
            "fit",
            "pio.json",
            "--base",
            "mine/host.toml",
            "-o",
            "mine/host.toml",
        ],
    );
    assert!(itself.contains("a file of its own"), "{itself}");
    assert_eq!(folder.read("mine/host.toml"), preset);
}

#[test]
fn what_cannot_be_fitted_is_told_and_nothing_is_written() {
    let folder = measured();
    let three = SHM.replace("\"bytes\":8,", "\"bytes\":0,");
    let three: Vec<&str> = three.lines().take(4).collect();
    let three = three.join("\n");
    for (name, text) in [
        ("text.json", "bytes 8"),
        ("empty.json", "[]"),
        ("other.json", "{\"name\": 3}"),
        (
            "none.json",
            r#"{"fabric":"shm","test":"latency","mode":"poll","level":"rd","rows":[]}"#,
        ),
        ("few.json", &(three.trim_end_matches(',').to_owned() + "]}")),
        ("other-fabric.json", &SHM.replace("\"shm\"", "\"tcp\"")),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let mut told = String::new();
    let cases: [(&[&str], &str, &str); 8] = [
        (&["text.json"], "clan", "mine.toml"),
        (&["empty.json"], "clan", "mine.toml"),
        (&["other.json"], "clan", "mine.toml"),
        (&["none.json"], "clan", "mine.toml"),
        (&["few.json"], "clan", "mine.toml"),
        (&["shm.json", "other-fabric.json"], "clan", "mine.toml"),
        (&["shm.json"], "clan", "mine.txt"),
        (&["shm.json"], "clan", "clan"),
    ];
    for (files, base, out) in cases {
        let arguments = [&["fit"], files, &["--base", base, "-o", out]].concat();
        let failure = folder.failure(1, &arguments);
        told += &format!("$ viaduct {}\n{failure}\n", arguments.join(" "));
    }
    insta::assert_snapshot!(told);
    let unknown = folder.failure(1, &["fit", "shm.json", "--base", "rnic", "-o", "mine.toml"]);
    assert!(unknown.contains("no preset rnic"), "{unknown}");
    // The system's own words differ from system to system.
    for (file, out) in [
        ("nowhere.json", "mine.toml"),
        ("shm.json", "nowhere/mine.toml"),
    ] {
        let failure = folder.failure(1, &["fit", file, "--base", "clan", "-o", out]);
        assert!(
            failure.starts_with("error: ") && failure.contains("nowhere"),
            "{failure}"
        );
    }
    assert!(!folder.join("mine.toml").exists());
}
