//! A study's own messages and those of programs, on the same hosts: what a message costs that is
//! alone in the network is the same, whoever sends it, in each of its stages.

use std::ops::ControlFlow;

use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_programs::breakdown;
use viaduct_scenario::{Override, Study, list_models, load_programs};

const SIZES: [u32; 9] = [0, 1, 4, 64, 200, 1000, 1500, 4096, 30_000];

/// Two hosts of a preset that play ping-pong with messages of one size.
fn study(model: &str, bytes: u32) -> Study {
    let set = [
        format!("hosts.nic={model}"),
        "hosts.completion=polling".to_owned(),
        format!("traffic.size={bytes} B"),
        "run.messages_max=4".to_owned(),
    ];
    let overrides = set.map(Override::fixed);
    Study::load("two-hosts", &overrides).unwrap_or_else(|error| panic!("{model}: {error}"))
}

#[test]
fn a_message_alone_costs_the_same_of_a_study_and_of_a_program() {
    let models = list_models().into_iter();
    let models: Vec<String> = models
        .filter(|model| !model.has_endpoints())
        .map(|model| model.name)
        .collect();
    assert!(models.len() >= 13, "{models:?}");
    for model in models {
        let programs = load_programs(&model, Some("two-hosts"), 2).unwrap().quiet();
        for bytes in SIZES {
            let config = study(&model, bytes).config;
            let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(
                result.violations,
                Vec::<String>::new(),
                "{model}, {bytes} B"
            );
            let of_program = breakdown(&programs, bytes);
            let sum = of_program
                .iter()
                .fold(Time::ZERO, |sum, (_, time)| sum + *time);
            // The first messages of each host fill the caches of the adapters.
            let rows = &result.message_rows[2..];
            assert!(rows.len() >= 2, "{model}, {bytes} B");
            for row in rows {
                assert_eq!(row.latency, Some(sum), "{model}, {bytes} B");
            }
            let last = rows.last().map_or(0, |row| row.message);
            let choice = viaduct_cluster::why::Choice::Message(last);
            let explanation = viaduct_cluster::why::explain(&config, choice, &mut |_, _| {
                ControlFlow::Continue(())
            })
            .unwrap();
            let viaduct_cluster::why::Fate::Delivered(account) = explanation.fate else {
                panic!("{model}, {bytes} B: not delivered");
            };
            for stage in account.stages {
                let time_of = |stage: Stage| {
                    let mut stages = of_program.iter();
                    let found = stages.find(|(of_program, _)| *of_program == stage);
                    found.map_or(Time::ZERO, |(_, time)| *time)
                };
                assert_eq!(
                    stage.time,
                    time_of(stage.stage),
                    "{model}, {bytes} B: {:?}",
                    stage.stage
                );
            }
        }
    }
}
