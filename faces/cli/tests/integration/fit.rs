//! `viaduct fit` from outside: the preset it writes, what it says, and what it refuses.

use std::fs;

use serde_json::Value;

use crate::support::{Folder, text};

/// Latency between two processes, of the magnitudes that a rented server shows.
const SHM: &str = include_str!("../fixtures/shm-latency.json");

/// A folder with the measurement in it.
fn measured() -> Folder {
    Folder::with("shm.json", SHM)
}

#[test]
fn a_measurement_becomes_a_preset_that_predicts_as_the_fit_said() {
    let folder = measured();
    let fit = [
        "fit",
        "shm.json",
        "--base",
        "rnic-gen4",
        "-o",
        "my-host.toml",
    ];
    let output = folder.ended(0, &fit);
    let said = text(&output.stdout);
    let warned = text(&output.stderr);
    insta::assert_snapshot!(format!("{said}\n{warned}\n{}", folder.read("my-host.toml")));

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
    let said = folder.succeed(&[
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

/// The measured median time of the only row, or the rate as a time.
fn microseconds(report: &Value) -> f64 {
    let row = &report["rows"][0];
    let rate = row["messages_s"].as_f64();
    rate.map_or_else(
        || row["half_rtt_us"]["median"].as_f64().unwrap(),
        |rate| 1e6 / rate,
    )
}

#[test]
fn what_a_latency_does_not_tell_is_warned_of_and_is_wrong() {
    let folder = Folder::new();
    let json = folder.said(&["measure", "latency", "--on", "sim:clan-pio", "--json"]);
    fs::write(folder.join("latency.json"), json).unwrap();
    let fit = |files: &[&str], out: &str| {
        let arguments = [&["fit"], files, &["--base", "giganet-clan", "-o", out]].concat();
        text(&folder.ended(0, &arguments).stderr)
    };
    let rate =
        |hosts: &str| microseconds(&folder.json(&["measure", "rate", "--on", hosts, "--json"]));
    // What was fitted is right, and what was not is as wrong as the warning says it may be.
    let warned = fit(&["latency.json"], "by-latency.toml");
    assert!(
        warned.contains("keep the ratios of `giganet-clan`"),
        "{warned}"
    );
    assert!(warned.contains("rate of 8 bytes"), "{warned}");
    let wrong = (rate("sim:by-latency.toml") / rate("sim:clan-pio") - 1.0).abs();
    assert!(wrong > 0.1, "{wrong}");
    // With the rate as well nothing more is said of it.
    let json = folder.said(&["measure", "rate", "--on", "sim:clan-pio", "--json"]);
    fs::write(folder.join("rate.json"), json).unwrap();
    let warned = fit(&["latency.json", "rate.json"], "by-both.toml");
    assert!(!warned.contains("rate of 8 bytes"), "{warned}");
}

#[test]
fn a_shared_core_and_another_machine_are_told() {
    let folder = Folder::new();
    // Four sizes: a fit takes its time.
    let lines: Vec<&str> = SHM.lines().take(5).collect();
    let short = lines.join("\n").trim_end_matches(',').to_owned() + "]}";
    let fit = |files: &[&str]| {
        let arguments = [&["fit"], files, &["--base", "rnic-gen4", "-o", "mine.toml"]].concat();
        let output = folder.ended(0, &arguments);
        (text(&output.stdout), text(&output.stderr))
    };
    for machine in ["first", "second"] {
        let words = format!("\"machine\":\"{machine}\",\"rows\"");
        let named = short.replace("\"rows\"", &words);
        fs::write(folder.join(&format!("{machine}.json")), named).unwrap();
    }
    let one_core = folder.read("first.json").replace("[0,1]", "[1,1]");
    fs::write(folder.join("first.json"), one_core).unwrap();
    let (alone, warned) = fit(&["first.json"]);
    let words = "both processes of `latency` shared core 1";
    assert!(warned.contains(words), "{warned}");
    let (said, _) = fit(&["first.json", "second.json"]);
    let words = "over shm on second, which was not fitted";
    assert!(said.contains(words), "{said}");
    assert!(said.contains("other machines, 4 points"), "{said}");
    // The fit is the same as without it.
    let numbers = |said: &str| {
        let (from, to) = (
            said.find("  number").unwrap(),
            said.rfind("  error").unwrap(),
        );
        said[from..to].to_owned()
    };
    assert_eq!(numbers(&said), numbers(&alone));
}
