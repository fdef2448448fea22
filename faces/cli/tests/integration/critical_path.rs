//! `viaduct why --critical-path` from outside.

use std::fs;

use serde_json::Value;

use crate::support::{Folder, text};

/// Two ranks: one computes, and asks the other for more than is sent at once.
pub(crate) const EXCHANGE: &str = r#"
[network]
topology = "switch"
hosts = 2

[links]
rate = "856 Mbit/s"

[hosts]
nic = "giganet-clan"

[traffic]
arrivals = "goal"
file = "exchange.goal"

[files]
"exchange.goal" = """
num_ranks 2
rank 0 {
l1: calc 1500
l2: send 8b to 1 tag 7
l2 requires l1
l3: recv 100000b from 1
l3 requires l2
}
rank 1 {
l1: recv 8b from 0 tag 7
l2: send 100000b to 0
l2 requires l1
}
"""
"#;

/// An all-reduce of eight hosts, the sixth of which has a slow processor.
pub(crate) const SLOW: &str = r#"
[network]
topology = "switch"
hosts = 8

[links]
rate = "856 Mbit/s"

[hosts]
nic = "giganet-clan"

[traffic]
collective = "all-reduce"
bytes = "16 KiB"

[[fault]]
kind = "slow-host"
host = 5
factor = 8
"#;

fn run(study: &str, arguments: &[&str]) -> String {
    let output = Folder::with("study.toml", study).run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn told(study: &str) -> String {
    run(study, &["why", "study.toml", "--critical-path"])
}

fn object(study: &str) -> Value {
    let arguments = ["why", "study.toml", "--critical-path", "--json"];
    serde_json::from_str(&run(study, &arguments)).unwrap()
}

fn sum(rows: &Value, field: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[field].as_u64().unwrap()).sum()
}

#[test]
fn an_application_is_explained_from_its_start_to_its_end() {
    insta::assert_snapshot!(told(EXCHANGE));
}

/// The same with names for what is done.
fn named() -> String {
    let named = EXCHANGE.replace("l1: calc 1500", "// forward <1>\nl1: calc 1500");
    named
        .replace("l2: send 100000b", "gradients: send 100000b")
        .replace(
            "l2 requires l1\n}\n\"\"\"",
            "gradients requires l1\n}\n\"\"\"",
        )
}

#[test]
fn steps_are_called_as_in_their_source() {
    let named = named();
    let told = told(&named);
    for expected in [
        "forward <1>: computes 1500 ns",
        "gradients: 100000 B to rank 0",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    assert!(
        told.contains("forward <1>: 8 B to rank 1"),
        "as all below the comment: {told}"
    );
    let labels = |study| {
        let object = object(study);
        let steps = object["steps"].as_array().unwrap().iter();
        steps
            .map(|step| step["operation"]["label"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(&named)[0], "forward <1>");
    assert!(labels(EXCHANGE).iter().all(Value::is_null));
    assert!(
        labels(SLOW)
            .iter()
            .all(|label| label.as_str().unwrap().starts_with("round "))
    );
    let folder = Folder::with("study.toml", &named);
    folder.succeed(&[
        "why",
        "study.toml",
        "--critical-path",
        "--report=a.html",
        "--trace=a.trace",
    ]);
    assert!(
        folder
            .read("a.html")
            .contains("forward &lt;1&gt;: computes 1500 ns")
    );
    let trace = fs::read(folder.join("a.trace")).unwrap();
    let name = b"forward <1>: computes 1500 ns";
    assert!(trace.windows(name.len()).any(|part| part == name));
    // What stops names them, too.
    let stuck = named.replace("l1: recv 8b from 0 tag 7", "l1: recv 8b from 0 tag 6");
    let output = Folder::with("study.toml", &stuck).run(&["run", "study.toml", "--no-out"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    let send = "rank 0, line 5 `forward <1>`: send 8b to 1 with tag 7";
    assert!(error.contains(send), "{error}");
}

#[test]
fn all_ways_to_cut_the_path_add_up_to_the_makespan() {
    for study in [EXCHANGE, SLOW] {
        let object = object(study);
        let makespan = object["makespan_ps"].as_u64().unwrap();
        assert_eq!(sum(&object["steps"], "time_ps"), makespan);
        assert_eq!(sum(&object["parts"], "time_ps"), makespan);
        let ranks = &object["ranks_on_path"];
        let at_ranks = ["computing_ps", "sending_ps", "receiving_ps"];
        let at_ranks: u64 = at_ranks.iter().map(|field| sum(ranks, field)).sum();
        assert_eq!(at_ranks + object["moving_ps"].as_u64().unwrap(), makespan);
        let mut reached = object["start_ps"].as_u64().unwrap();
        for step in object["steps"].as_array().unwrap() {
            assert_eq!(step["begin_ps"].as_u64().unwrap(), reached, "{step}");
            let time = step["time_ps"].as_u64().unwrap();
            reached += time;
            if step.get("stages").is_some() {
                assert_eq!(sum(&step["stages"], "time_ps"), time, "{step}");
            }
        }

        let summary = run(study, &["run", "study.toml", "--no-out", "--json"]);
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["digest"], object["digest"]);
        let makespan_us = summary["application"]["makespan_us"].as_f64().unwrap();
        assert!((makespan_us * 1e6 - makespan as f64).abs() < 1e-6 * makespan as f64);
    }
}

#[test]
fn a_message_of_the_path_is_explained_by_its_number_as_there() {
    let object = object(EXCHANGE);
    let steps = object["steps"].as_array().unwrap();
    let data = steps.iter().find(|step| step["kind"] == "data").unwrap();
    let number = data["message"]["message"].to_string();
    let arguments = ["why", "study.toml", "--json", "--message", &number];
    let explained: Value = serde_json::from_str(&run(EXCHANGE, &arguments)).unwrap();
    assert_eq!(explained["message"], data["message"]);
    assert_eq!(explained["latency_ps"], data["time_ps"]);
    assert_eq!(explained["excess_ps"], data["waited_ps"]);
    let taken = |rows: &Value, name: &str| -> Vec<(String, u64)> {
        let rows = rows.as_array().unwrap().iter();
        let pair = |row: &Value| (row[name].to_string(), row["time_ps"].as_u64().unwrap());
        rows.map(pair).filter(|(_, time)| *time > 0).collect()
    };
    assert_eq!(
        taken(&explained["stages"], "stage"),
        taken(&data["stages"], "part")
    );
}

#[test]
fn a_slow_host_has_most_of_the_path() {
    let share = |study: &str| {
        let object = object(study);
        let first = &object["ranks_on_path"][0];
        let times = ["computing_ps", "sending_ps", "receiving_ps"];
        let times = times.map(|field| first[field].as_u64().unwrap());
        let makespan = object["makespan_ps"].as_u64().unwrap();
        let share = times.iter().sum::<u64>() as f64 / makespan as f64;
        (first["rank"].as_u64().unwrap(), share)
    };
    let (rank, most) = share(SLOW);
    assert_eq!(rank, 5);
    assert!(most > 0.5, "{most}");
    let (_, most) = share(SLOW.split("[[fault]]").next().unwrap());
    assert!(most < 0.3, "{most}");
}

#[test]
fn a_page_and_a_time_line_have_the_same_path() {
    let folder = Folder::with("study.toml", EXCHANGE);
    let why = ["why", "study.toml", "--critical-path"];
    let told = folder.succeed(&[&why[..], &["--report=a.html", "--trace=a.trace"]].concat());
    let (page, trace) = (
        folder.read("a.html"),
        fs::read(folder.join("a.trace")).unwrap(),
    );
    // Each row of the table of steps: when, how long, and what.
    let steps: Vec<&str> = told.split("what\n").nth(1).unwrap().split("\n\n").collect();
    assert_eq!(steps[0].lines().count(), 5);
    for line in steps[0].lines() {
        for word in line
            .split("   ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            assert!(page.contains(&format!(">{word}</td>")), "{word}");
        }
        let what = line.rsplit("   ").next().unwrap().as_bytes();
        assert!(trace.windows(what.len()).any(|part| part == what), "{line}");
    }
    assert!(page.contains("viaduct why study.toml --critical-path"));
    folder.succeed(&[&why[..], &["--trace=b.trace", "--json"]].concat());
    assert_eq!(fs::read(folder.join("b.trace")).unwrap(), trace);

    let error = folder.failure(1, &[&why[..], &["--report=no/a.html"]].concat());
    assert!(error.contains("cannot write `no/a.html`"), "{error}");
    let error = folder.failure(1, &["why", "study.toml", "--slowest", "--trace=c.trace"]);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn traffic_without_operations_has_none() {
    let output = Folder::small().run(&["why", "small.toml", "--critical-path"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    insta::assert_snapshot!(text(&output.stderr));
}
