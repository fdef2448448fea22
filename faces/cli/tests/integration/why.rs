//! `viaduct why` from outside.

use std::process::Output;

use serde_json::Value;

use crate::support::{Folder, text};

/// A small cluster under load, with every stage: buses, processors, few send buffers.
const SMALL: &str = r#"
[run]
until = "20 ms"
warmup = "2 ms"

[network]
topology = "torus"
dimensions = [4, 4]
hosts_per_switch = 2

[links]
model = "fluid"
rate = "856 Mbit/s"

[hosts]
nic = "giganet-clan"
send_buffers = 3
processes = 2

[traffic]
pattern = "uniform"
rate = "3000/s"
size = "4 KiB"
"#;

fn why(arguments: &[&str]) -> Output {
    Folder::with("small.toml", SMALL).run(&[&["why"], arguments].concat())
}

fn told(arguments: &[&str]) -> String {
    let output = why(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn object(arguments: &[&str]) -> Value {
    let all = [arguments, &["--json", "--quiet"]].concat();
    serde_json::from_str(&told(&all)).unwrap()
}

fn picoseconds(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

#[test]
fn a_message_is_explained_from_its_post_to_its_end() {
    insta::assert_snapshot!(told(&["small.toml", "--slowest", "--quiet"]));
}

#[test]
fn other_devices_and_a_quantile() {
    let point = "hosts.bus_load.interval=50 us";
    let arguments = ["bus-contention", "--set", point, "--quantile", "0.999"];
    insta::assert_snapshot!(told(&arguments));
}

#[test]
fn the_stages_of_the_object_and_of_the_table_add_up() {
    let object = object(&["small.toml", "--quantile", "0.99"]);
    assert_eq!(object["chosen"]["quantile_fraction"], 0.99);
    assert_eq!(object["outcome"], "delivered");
    let stages = object["stages"].as_array().unwrap();
    let sum = |field: &str| -> i64 { stages.iter().map(|s| picoseconds(&s[field])).sum() };
    assert_eq!(sum("time_ps"), picoseconds(&object["latency_ps"]));
    assert_eq!(sum("alone_ps"), picoseconds(&object["floor_ps"]));
    let way = &object["way"];
    let places = way["places"].as_array().unwrap();
    let lost: i64 = places.iter().map(|p| picoseconds(&p["lost_ps"])).sum();
    let rest = picoseconds(&way["rest_ps"]);
    assert_eq!(lost + rest, picoseconds(&way["queued_ps"]));

    // The same message by its number, as text: what is printed adds up as well.
    let number = object["message"]["message"].to_string();
    let told = told(&["small.toml", "--message", &number]);
    let table = told.split("\n\n").nth(1).unwrap();
    let column: Vec<i64> = table
        .lines()
        .skip(1)
        .map(|line| {
            let time = line.split_whitespace().find(|word| word.contains('.'));
            time.unwrap().replace([',', '.'], "").parse().unwrap()
        })
        .collect();
    let (latency, stages) = column.split_last().unwrap();
    assert_eq!(*latency, picoseconds(&object["latency_ps"]));
    assert_eq!(stages.iter().sum::<i64>(), *latency);
}

#[test]
fn what_places_and_others_took_adds_up_to_the_wait_at_each_level() {
    for (level, exact) in [("queues", true), ("packets", false), ("credits", false)] {
        let model = format!("links.model={level}");
        let set = ["--set", &model, "--set", "links.frame_payload=1000 B"];
        let busy = ["--set", "traffic.rate=1500/s", "--quantile", "0.99"];
        let object = object(&[&["small.toml"], &set[..], &busy[..]].concat());
        let way = &object["way"];
        let places = way["places"].as_array().unwrap();
        let lost: i64 = places.iter().map(|p| picoseconds(&p["lost_ps"])).sum();
        let beside = way["beside"].as_object().unwrap().values();
        let beside: i64 = beside.map(picoseconds).sum();
        let rest = picoseconds(&way["rest_ps"]);
        let queued = picoseconds(&way["queued_ps"]);
        assert!(lost > 0, "{level}: {way}");
        assert_eq!(lost + beside + rest, queued, "{level}");
        assert!(rest <= 0 && (!exact || rest == 0), "{level}: {rest}");
        let of_queue = match level {
            "queues" => None,
            "packets" => Some("paused_ps"),
            _ => Some("without_credits_ps"),
        };
        for place in places {
            let queue = place["queue"].as_object();
            let has = |key: &str| queue.is_some_and(|queue| queue.contains_key(key));
            assert_eq!(queue.is_some(), of_queue.is_some(), "{level}: {place}");
            assert!(of_queue.is_none_or(has), "{level}: {place}");
        }
    }
}

#[test]
fn a_message_that_was_not_delivered_is_said_to_be_so() {
    let set = [
        "small.toml",
        "--set",
        "hosts.prepost=1",
        "--set",
        "traffic.pattern=incast",
        "--set",
        "traffic.target=0",
        "--set",
        "hosts.processes=1",
        "--set",
        "traffic.rate=20000/s",
        "--set",
        "run.until=2 ms",
        "--set",
        "run.warmup=0 s",
        "--set",
        "run.drain=false",
    ];
    let mut seen = Vec::new();
    for number in 0..1_000 {
        let number = number.to_string();
        let all = [&set[..], &["--message", &number]].concat();
        let object = object(&all);
        let outcome = object["outcome"].as_str().unwrap().to_owned();
        if seen.contains(&outcome) {
            continue;
        }
        let told = told(&[&all[..], &["--quiet"]].concat());
        match outcome.as_str() {
            "delivered" => assert!(told.contains("\n  latency  "), "{told}"),
            "dropped" => {
                assert!(told.contains("\n  dropped  at host "), "{told}");
                assert!(told.contains("`hosts.prepost` is 1"), "{told}");
                assert_eq!(object["cause"], "no_descriptor");
                assert!(object.get("latency_ps").is_none());
            }
            _ => assert!(told.contains("\n  not delivered: "), "{told}"),
        }
        seen.push(outcome);
        if seen.len() == 3 {
            return;
        }
    }
    panic!("only {seen:?}");
}

#[test]
fn with_max_min_sharing_no_place_is_charged() {
    let set = ["small.toml", "--slowest", "--set", "links.model=max-min"];
    let told = told(&set);
    assert!(told.contains("no place alone is to blame"), "{told}");
    assert!(!told.contains("lost, us"), "{told}");
    assert!(object(&set)["way"]["rest_ps"].is_null());
}

#[test]
fn no_link_is_named_that_some_frames_did_not_take() {
    let level = [
        "--set",
        "links.model=packets",
        "--set",
        "links.frame_payload=1 KiB",
    ];
    let set = [&["small.toml", "--slowest"], &level[..]].concat();
    let both = |equal_paths| {
        let equal_paths = format!("network.equal_paths={equal_paths}");
        let all = [&set[..], &["--set", &equal_paths]].concat();
        let object = object(&all);
        let places = object["way"]["places"].as_array().unwrap().len();
        let told = told(&all);
        (
            places,
            told.contains("each of its frames took a way of its own"),
        )
    };
    // Both buses and the links of both hosts.
    assert_eq!(both("spray"), (4, true));
    let (places, says) = both("hash");
    assert!(places > 4 && !says);
}

#[test]
fn what_cannot_be_explained_is_wrong_input() {
    let cases: [&[&str]; 5] = [
        &["small.toml", "--message", "1000000"],
        &[
            "small.toml",
            "--slowest",
            "--set",
            "run.warmup=19.999999 ms",
        ],
        &["bus-contention", "--slowest"],
        &["small.toml"],
        &["small.toml", "--slowest", "--quantile", "0.5"],
    ];
    let mut told = String::new();
    for case in cases {
        let output = why(case);
        assert_eq!(output.status.code(), Some(1), "{case:?}");
        assert_eq!(text(&output.stdout), "");
        let case = case.join(" ");
        told += &format!("$ viaduct why {case}\n{}\n", text(&output.stderr));
    }
    insta::assert_snapshot!(told);
    let usage = why(&["small.toml", "--quantile", "99"]);
    assert_eq!(usage.status.code(), Some(1));
    assert!(text(&usage.stderr).contains("a number from 0 to 1"));
}

/// Requests of four ranks on interfaces with endpoints are followed as messages of adapters are.
#[test]
fn a_request_of_an_interface_is_explained_and_drawn() {
    let study = "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1280 Mbit/s\"\n\
                 [hosts]\nnic = \"am-myrinet\"\n[traffic]\ncollective = \"all-to-all\"\n\
                 bytes = \"12 KiB\"\n";
    let folder = Folder::with("study.toml", study);
    let said = folder.succeed(&["trace", "study.toml", "-o", "a"]);
    // Each of four sends three, which use two processors, an interface and two links.
    assert!(said.contains("12 messages, 60 uses of hosts"), "{said}");
    let printed = folder.succeed(&["why", "study.toml", "--slowest", "--json", "--quiet"]);
    let slowest: Value = serde_json::from_str(&printed).unwrap();
    let stages = slowest["stages"].as_array().unwrap();
    let sum = |of: &str| -> i64 { stages.iter().map(|stage| picoseconds(&stage[of])).sum() };
    assert_eq!(sum("time_ps"), picoseconds(&slowest["latency_ps"]));
    assert_eq!(sum("alone_ps"), picoseconds(&slowest["floor_ps"]));
    let number = slowest["message"]["message"].to_string();
    let told = folder.succeed(&["why", "study.toml", "--message", &number, "--quiet"]);
    let message = format!("message  {number} of 12 (numbered from 0)");
    for words in [&message, "descriptor", "receive  "] {
        assert!(told.contains(words), "{told}");
    }
    // The path leads over messages of the same numbers.
    let path = ["why", "study.toml", "--critical-path", "--json", "--quiet"];
    let path: Value = serde_json::from_str(&folder.succeed(&path)).unwrap();
    for step in path["steps"].as_array().unwrap() {
        let Some(number) = step["message"]["message"].as_i64() else {
            continue;
        };
        let number = number.to_string();
        let one = [
            "why",
            "study.toml",
            "--message",
            &number,
            "--json",
            "--quiet",
        ];
        let one: Value = serde_json::from_str(&folder.succeed(&one)).unwrap();
        let end = picoseconds(&step["begin_ps"]) + picoseconds(&step["time_ps"]);
        assert_eq!(picoseconds(&one["ended_ps"]), end);
    }
    let none = folder.failure(1, &["why", "study.toml", "--message", "12", "--quiet"]);
    assert!(none.contains("numbers are 0 to 11"), "{none}");
}
