//! Hosts of several adapters and processors: `hosts.adapters` and what goes with it.

use std::ops::ControlFlow;
use std::path::Path;

use viaduct_cluster::adapters::AdapterChoice;
use viaduct_scenario::{Study, load_endpoints_in, load_programs, parse_study};

/// Four servers of two adapters, eight places, with such keys of hosts, links and traffic.
fn study(hosts: &str, links: &str, traffic: &str) -> Result<Study, viaduct_scenario::Diagnostics> {
    parse_study(&text(hosts, links, traffic))
}

fn text(hosts: &str, links: &str, traffic: &str) -> String {
    format!(
        "[run]\nuntil = \"2 ms\"\n[network]\ntopology = \"rail\"\nrails = 2\nservers = 4\n\
         servers_per_unit = 2\nspines = 2\n[links]\nrate = \"856 Mbit/s\"\n{links}\n[hosts]\n\
         nic = \"giganet-clan\"\n{hosts}\n[traffic]\n{traffic}\n"
    )
}

const UNIFORM: &str = "pattern = \"uniform\"\nsize = \"1 KiB\"\nrate = \"2000/s\"";
const COLLECTIVE: &str = "arrivals = \"collective\"\ncollective = \"all-reduce\"\n\
                          bytes = \"1 MiB\"";

#[test]
fn who_says_nothing_gets_the_choice_that_fits_the_traffic() {
    let choice = |hosts, traffic| {
        study(hosts, "", traffic)
            .unwrap()
            .config
            .hosts
            .adapters
            .choice
    };
    assert_eq!(choice("adapters = 2", UNIFORM), AdapterChoice::Flow);
    assert_eq!(choice("adapters = 2", COLLECTIVE), AdapterChoice::Stripe);
    let chosen = "adapters = 2\nadapter_choice = \"peer\"";
    assert_eq!(choice(chosen, COLLECTIVE), AdapterChoice::Peer);
}

#[test]
fn a_study_runs_with_all_keys_and_its_resolved_form_runs_alike() {
    let hosts = "adapters = 2\nadapter_choice = \"round-robin\"\nbuses = \"own\"\n\
                 processors = 3\nprocesses = 2";
    let study = study(hosts, "", UNIFORM).unwrap();
    assert_eq!(study.config.host_count(), 4);
    let run = |study: &Study| {
        let run = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
        let result = run.unwrap();
        assert!(result.violations.is_empty(), "{:?}", result.violations);
        // Four hosts of two processes that post 2,000 messages a second, for 2 ms.
        assert!((10..80).contains(&result.messages.delivered));
        result.digest
    };
    let again = parse_study(&study.resolved_toml()).unwrap();
    assert_eq!(run(&study), run(&again));
    assert_eq!(again.config.hosts.processors, Some(3));
    assert!(again.config.hosts.adapters.has_own_bus);
}

#[test]
fn a_collective_has_a_rank_for_each_process_of_a_host() {
    let study = study("adapters = 2", "", COLLECTIVE).unwrap();
    assert_eq!(
        study.config.traffic.application().unwrap().graph().ranks(),
        4
    );
}

#[test]
fn what_does_not_fit_is_told_where_and_what_instead() {
    fn said(hosts: &str, links: &str, traffic: &str) -> String {
        let told = study(hosts, links, traffic).map(|_| "nothing".to_owned());
        told.unwrap_or_else(|error| error.to_string())
    }
    let told = said("adapters = 3", "", UNIFORM);
    assert!(told.contains("its 8 places are no multiple of 3"), "{told}");
    assert!(told.contains("a network of 6 or 9 hosts"), "{told}");
    for choice in ["operation", "stripe"] {
        let hosts = format!("adapters = 2\nadapter_choice = \"{choice}\"");
        let told = said(&hosts, "", UNIFORM);
        assert!(told.contains("take one adapter, and name none"), "{told}");
    }
    let told = said("adapters = 0", "", UNIFORM);
    assert!(told.contains("adapters"), "{told}");
    // The same table, of a preset that says nothing of how its adapter works.
    let told = said("", "", &format!("{UNIFORM}\noperation = \"read\""));
    assert!(told.contains("no remote reads at unreliable"), "{told}");
    let some = format!(
        "{UNIFORM}\n[[host_group]]\nhosts = \"1\"\n[host_group.model.cpu]\npost = \"1 us\""
    );
    let told = said("adapters = 2", "", &some);
    assert!(
        told.contains("those of host 0 are in several groups"),
        "{told}"
    );
    study("adapters = 2\nbuses = \"own\"", "", &some).unwrap();
}

/// A study as a file.
fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("adapters-{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn programs_find_the_adapters_of_a_study_and_endpoints_one_interface() {
    let two = file("two", &text("adapters = 2", "", UNIFORM));
    let programs = load_programs("giganet-clan", Some(&two), 4).unwrap();
    assert_eq!(programs.adapters.count, 2);
    assert_eq!(programs.quiet().adapters.count, 2);
    let told = load_endpoints_in("am-myrinet", &two, 4).unwrap_err();
    assert!(told.to_string().contains("find one interface"), "{told}");

    let counted = file("counted", &text("processors = 2", "", UNIFORM));
    let programs = load_programs("giganet-clan", Some(&counted), 4).unwrap();
    assert_eq!(programs.processors, Some(2));
    assert_eq!(programs.quiet().processors, Some(2));
    let told = load_endpoints_in("am-myrinet", &counted, 4).unwrap_err();
    assert!(told.to_string().contains("find one processor"), "{told}");
}
