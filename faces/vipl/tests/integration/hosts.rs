//! C programs on simulated hosts: the same that run between processes of this machine, on every
//! preset that has VIs.

use std::collections::BTreeMap;
use std::process::Command;

use viaduct_fit::measure_simulated;
use viaduct_measure::{Plan, Row, Test};
use viaduct_scenario::{Figure, FigureTest, ProgramsError, list_models, load_programs};

use crate::programs::{example, old};
use crate::simulated::{Ran, on};

/// Presets whose adapters have VIs: all that ship, but for the two with endpoints.
fn models() -> Vec<String> {
    let models = list_models().into_iter().map(|model| model.name);
    let has_via = |name: &String| {
        let loaded = load_programs(name, None, 2);
        !matches!(loaded, Err(ProgramsError::NoVia { .. }))
    };
    let models: Vec<String> = models.filter(has_via).collect();
    assert_eq!(models.len(), list_models().len() - 2);
    models
}

fn server_and_client(model: &str, name: &str) -> Ran {
    let program = example(name, false);
    let command = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env("VIADUCT_VIPL_LOG", "1");
        command
    };
    on(
        model,
        vec![
            command(&["server", "p"]),
            command(&["client", "p", "host0"]),
        ],
    )
}

/// Two roles of a program that look for each other on their own host.
fn on_one_host(model: &str, name: &str, roles: [&str; 2], environment: &[(&str, &str)]) -> Ran {
    let program = old(name);
    let program = program.to_str().unwrap();
    let [first, second] = roles;
    let script = format!("{program} {first} & exec {program} {second}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    command.envs(environment.iter().copied());
    on(model, vec![command])
}

#[test]
fn the_examples_run_on_every_preset_and_equal_runs_are_equal() {
    let lines = [
        (
            "pingpong",
            "pingpong: 1000 round trips of 64 bytes, data right\n",
        ),
        (
            "cqserver",
            "cqserver: 4 connections, 400 requests, answers right\n",
        ),
        (
            "rdma_immediate",
            "rdma_immediate: 32768 bytes written, immediate data 1999, data right\n",
        ),
    ];
    for model in models() {
        for (name, line) in lines {
            let ran = server_and_client(&model, name);
            assert_eq!(ran.printed(), [line, line], "{name} on {model}");
            let again = server_and_client(&model, name);
            assert_eq!(ran, again, "{name} on {model}");
        }
    }
}

#[test]
fn programs_of_1999_run_on_adapters_of_their_time() {
    let bytes: u64 = (0..5000).map(|n| n * 37 % 8193).sum();
    let wanted = [
        (
            "vstream",
            ["server p", "client p"],
            [
                format!("vstream server: 5000 messages, {bytes} bytes, 32 receives flushed"),
                "vstream client: 626 signals, 32 receives flushed".to_owned(),
            ],
        ),
        (
            "vthreads",
            ["server p", "client p"],
            [
                "vthreads server: 4 clients, 2000 requests".to_owned(),
                "vthreads client: 2 clients, 1000 requests".to_owned(),
            ],
        ),
        (
            "vmesh",
            ["even p", "odd p"],
            [
                "vmesh even: 200 rounds, sums right, rank 3 lost".to_owned(),
                "vmesh odd: 200 rounds, sums right, rank 3 lost".to_owned(),
            ],
        ),
        // It looks at memory, and makes no call.
        (
            "vput",
            ["left p", "right p"],
            [
                "vput left: 2000 messages each way".to_owned(),
                "vput right: 2000 messages each way".to_owned(),
            ],
        ),
    ];
    for model in ["giganet-clan", "clan", "kvia-myrinet"] {
        for (name, roles, lines) in &wanted {
            // Each wait of a program that makes no call is found out by a timer of the system.
            if *name == "vput" && model != "giganet-clan" {
                continue;
            }
            let run = || on_one_host(model, name, *roles, &[("VIADUCT_VIPL_TAG0", "1")]);
            let ran = run();
            let printed = ran.printed()[0].to_owned();
            for line in lines {
                assert!(
                    printed.contains(line.as_str()),
                    "{name} on {model}: {printed}"
                );
            }
            if model != "giganet-clan" || *name == "vput" {
                continue;
            }
            let again = run();
            assert_eq!(
                (ran.time, ran.digest),
                (again.time, again.digest),
                "{name} on {model}"
            );
        }
    }
}

/// Half a round trip by size, microseconds, as the example measures it.
fn latencies(model: &str) -> BTreeMap<u32, f64> {
    let ran = server_and_client(model, "latency");
    let printed = ran.printed()[1].to_owned();
    let rows = printed.lines().skip(1).map(|line| {
        let (bytes, us) = line.trim().split_once(' ').unwrap();
        (bytes.parse().unwrap(), us.trim().parse().unwrap())
    });
    rows.collect()
}

/// The same as `viaduct measure latency --on` has it: of programs in the simulation.
fn measured(model: &str, sizes: &[u32]) -> Vec<(u32, f64)> {
    let mut plan = Plan::usual(Test::Latency);
    plan.sizes = sizes.to_vec();
    plan.iterations = Some(100);
    let hosts = load_programs(model, None, 2).unwrap();
    let measured = measure_simulated(hosts, plan, || false);
    measured.ending.unwrap();
    let rows = measured.rows.iter().map(|row| match row {
        Row::Latency(row) => (row.bytes, row.half_rtt_us.median),
        _ => panic!("{row:?}"),
    });
    rows.collect()
}

/// Half round trips that were published of an adapter, of sizes that the example has.
fn published(model: &str) -> Vec<Figure> {
    let preset = list_models().into_iter().find(|it| it.name == model);
    let is_latency = |figure: &Figure| figure.test == FigureTest::Latency && figure.bytes <= 4;
    let figures: Vec<Figure> = preset.unwrap().published;
    let found: Vec<Figure> = figures.into_iter().filter(is_latency).collect();
    let has_some = [
        "clan-pio",
        "clan-dma",
        "kvia-myrinet",
        "bvia-myrinet",
        "m-via",
    ];
    assert!(!found.is_empty() || !has_some.contains(&model), "{model}");
    found
}

/// What `viaduct measure latency --on` has of it shares the model with these programs, and no path.
#[test]
fn a_ping_pong_measures_what_programs_in_the_simulation_measure() {
    for model in models() {
        let there = latencies(&model);
        assert_eq!(there.len(), 9, "{model}: {there:?}");
        let sizes: Vec<u32> = there.keys().copied().collect();
        for figure in published(&model) {
            let us = there[&figure.bytes];
            let error = (us - figure.value).abs() / figure.value;
            assert!(error <= figure.tolerance, "{us} us on {model}: {figure:?}");
        }
        for (bytes, us) in measured(&model, &sizes) {
            let error = (there[&bytes] - us).abs();
            assert!(
                error <= 0.02 && error <= 0.01 * us.max(0.1),
                "{bytes} bytes on {model}: {} and {us}",
                there[&bytes]
            );
        }
    }
}
