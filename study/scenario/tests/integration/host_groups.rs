//! Hosts that differ: `[[host_group]]`.

use std::ops::ControlFlow;

use viaduct_engine::Time;
use viaduct_hardware::{Completion, HostModel};
use viaduct_scenario::{Override, Study, load_programs, parse_study, parse_study_with};

/// Eight hosts on four switches in a row, with such groups.
fn study(groups: &str) -> Result<Study, viaduct_scenario::Diagnostics> {
    study_of("rnic-gen4", groups)
}

fn study_of(nic: &str, groups: &str) -> Result<Study, viaduct_scenario::Diagnostics> {
    parse_study(&text_of(nic, groups))
}

fn text_of(nic: &str, groups: &str) -> String {
    format!(
        "[run]\nuntil = \"2 ms\"\n[network]\ntopology = \"chain\"\nswitches = 4\n\
         hosts_per_switch = 2\n[links]\nrate = \"25 Gbit/s\"\n[hosts]\nnic = \"{nic}\"\n\
         [hosts.model.cpu]\nreap = \"123 ns\"\n[traffic]\npattern = \"uniform\"\nsize = \"4 KiB\"\n\
         rate = \"20000/s\"\n{groups}"
    )
}

fn digest(study: &Study) -> u64 {
    let run = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
    let result = run.unwrap();
    assert!(result.violations.is_empty(), "{:?}", result.violations);
    result.digest
}

fn names(study: &Study) -> Vec<&str> {
    let host = |host| study.config.host.of(host);
    (0..8).map(|number| host(number).name.as_str()).collect()
}

const SOME: &str = "
[[host_group]]
hosts = \"1, 4-7:3\"
nic = \"rnic-gen5\"
completion = \"interrupt\"
[host_group.model.cpu]
post = { value = \"77 ns\", source = \"a guess\", confidence = \"assumed\" }
[[host_group]]
hosts = \"switch s1\"
[host_group.model.bus]
write = \"9 ns\"
";

#[test]
fn a_group_has_its_own_hardware_and_changes_of_it() {
    let study = study(SOME).unwrap();
    assert_eq!(
        names(&study),
        [
            "rnic-gen4",
            "rnic-gen5",
            "rnic-gen4",
            "rnic-gen4",
            "rnic-gen5",
            "rnic-gen4",
            "rnic-gen4",
            "rnic-gen5"
        ]
    );
    let ns = Time::from_nanoseconds;
    let numbers = |host: &HostModel| (host.processor.post, host.processor.reap, host.bus.write);
    let gen5 = load_programs("rnic-gen5", None, 2).unwrap().host;
    let of = |host| study.config.host.of(host);
    // A preset of its own is not changed by what [hosts.model] says of another.
    let own = gen5.common();
    assert_eq!(numbers(of(4)), (ns(77), own.processor.reap, own.bus.write));
    assert_eq!(of(4).completion, Completion::Interrupt);
    // Without one it has what [hosts] says, and its own changes.
    let (_, reap, write) = numbers(of(2));
    assert_eq!((reap, write), (ns(123), ns(9)));
    assert_eq!(numbers(of(0)).1, ns(123));
    assert_ne!(numbers(of(0)).2, ns(9));
    assert_ne!(digest(&study), digest(&self::study("").unwrap()));
}

#[test]
fn what_is_resolved_runs_again_to_the_bit() {
    let study = study(SOME).unwrap();
    let again = Study::from_resolved(&study.resolved_toml()).unwrap();
    assert_eq!(again.resolved_toml(), study.resolved_toml());
    assert_eq!(names(&again), names(&study));
    assert_eq!(digest(&again), digest(&study));
}

#[test]
fn a_group_that_says_what_all_have_changes_no_bit() {
    let plain = digest(&study("").unwrap());
    for group in [
        "[[host_group]]\nhosts = \"0-3\"\n",
        "[[host_group]]\nhosts = \"0-7\"\nnic = \"rnic-gen4\"\n[host_group.model.cpu]\nreap = \"123 ns\"\n",
    ] {
        assert_eq!(digest(&study(group).unwrap()), plain, "{group}");
    }
    // Of two groups that hold all hosts, what [hosts] says is nobody's.
    let all = "[[host_group]]\nhosts = \"0-5\"\nnic = \"rnic-gen4\"\n[host_group.model.cpu]\nreap = \"123 ns\"\n\
               [[host_group]]\nhosts = \"6, 7\"\nnic = \"rnic-gen4\"\n[host_group.model.cpu]\nreap = \"123 ns\"\n";
    assert_eq!(digest(&study_of("ideal", all).unwrap()), plain);
    // A swept value of [hosts] holds for groups that do not say otherwise.
    let set = Override::fixed("hosts.model.bus.write=5 ns");
    let text = study("[[host_group]]\nhosts = \"2\"\n[host_group.model.cpu]\npost = \"5 us\"\n");
    let study = parse_study_with(&text.unwrap().resolved_toml(), &[set]).unwrap();
    assert_eq!(study.config.host.of(0).bus.write, Time::from_nanoseconds(5));
}

#[test]
fn a_row_is_set_and_swept_by_its_number() {
    let text = text_of("rnic-gen4", SOME);
    let with = |set: &[Override]| parse_study_with(&text, set).unwrap();
    // The first row's own number, and the second row's preset.
    let set = [
        Override::fixed("host_group[0].model.cpu.post=78 ns"),
        Override::fixed("host_group[1].nic=rnic-gen3"),
    ];
    let changed = with(&set);
    let post = |study: &Study, host| study.config.host.of(host).processor.post;
    assert_eq!(post(&changed, 4), Time::from_nanoseconds(78));
    assert_eq!(changed.config.host.of(2).name, "rnic-gen3");
    assert_eq!(post(&changed, 0), post(&study(SOME).unwrap(), 0));
    let written = SOME.replacen("77 ns", "78 ns", 1);
    let set = [Override::fixed("host_group[0].model.cpu.post=78 ns")];
    assert_eq!(digest(&with(&set)), digest(&study(&written).unwrap()));
    // Each point of a sweep has its own value, on the command line and in the file.
    let set = Override::swept("host_group[1].model.bus.write=1 ns,2 ns");
    let in_file =
        format!("{text}[sweep]\n\"host_group[1].model.bus.write\" = [\"1 ns\", \"2 ns\"]\n");
    for swept in [with(&[set]), parse_study(&in_file).unwrap()] {
        let cells = swept.cells();
        let write = |cell: &Study| cell.config.host.of(2).bus.write;
        assert_eq!(
            cells.iter().map(write).collect::<Vec<_>>(),
            [1, 2].map(Time::from_nanoseconds)
        );
    }
    // What may not stand beside a value goes with it.
    let fault = "[[fault]]\nkind = \"slow-host\"\nhost = 1\nper_message = \"1 us\"\n";
    let slow = parse_study_with(
        &format!("{text}{fault}"),
        &[Override::fixed("fault[0].factor=2")],
    );
    let slow = slow.unwrap().resolved_toml();
    assert!(slow.contains("factor = 2"), "{slow}");
    assert!(!slow.contains("per_message"), "{slow}");
}

#[test]
fn bad_rows() {
    let text = text_of("rnic-gen4", SOME);
    let mut said = String::new();
    for set in [
        "host_group.nic=rnic-gen3",
        "host_group=rnic-gen3",
        "host_group[2].nic=rnic-gen3",
        "host_group[-1].nic=rnic-gen3",
        "host_group[0].nics=rnic-gen3",
        "host_group[0].model.cpu.pots=1 us",
        "host_group[0].traffic.size=1 B",
        "hosts[0].nic=rnic-gen3",
        "fault[0].at=1 us",
        "published[0].value=1",
        "host_group[0].nic=clan-pio",
    ] {
        let with = parse_study_with(&text, &[Override::fixed(set)]);
        let told = with.map_or_else(|told| told.to_string(), |_| "accepted".to_owned());
        said.push_str(&format!("---- --set {set}\n{told}\n"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn programs_have_the_groups_of_the_study_around_them() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mixed.toml");
    std::fs::write(&path, study(SOME).unwrap().resolved_toml()).unwrap();
    let path = path.to_str().unwrap();
    let programs = load_programs("rnic-gen3", Some(path), 8).unwrap();
    let name = |host| programs.host.of(host).name.as_str();
    // The preset stands in place of [hosts].
    assert_eq!([0, 1, 2].map(name), ["rnic-gen3", "rnic-gen5", "rnic-gen4"]);
    let refused = load_programs("clan-pio", Some(path), 8).unwrap_err();
    assert!(
        refused.to_string().contains("do not understand"),
        "{refused}"
    );
    let endpoints = viaduct_scenario::load_endpoints_in("am-myrinet", path, 8).unwrap_err();
    assert!(endpoints.to_string().contains("all alike"), "{endpoints}");
}

#[test]
fn bad_groups() {
    let mut said = String::new();
    for group in [
        "[host_group]\nhosts = \"1\"\n",
        "[[host_group]]\nnic = \"rnic-gen5\"\n",
        "[[host_group]]\nhosts = \"1\"\nnics = \"rnic-gen5\"\n",
        "[[host_group]]\nhosts = \"1\"\nnic = \"rnic-gen6\"\n",
        "[[host_group]]\nhosts = \"1\"\nnic = \"am-myrinet\"\n",
        "[[host_group]]\nhosts = \"1\"\nnic = \"clan-pio\"\n",
        "[[host_group]]\nhosts = \"1\"\nnic = \"inline\"\n",
        "[[host_group]]\nhosts = \"1\"\nmodel = \"rnic-gen5\"\n",
        "[[host_group]]\nhosts = \"1\"\n[host_group.model.cpu]\npots = \"1 us\"\n",
        "[[host_group]]\nhosts = \"1\"\n[host_group.model.cpu]\npost = \"1 parsec\"\n",
        "[[host_group]]\nhosts = \"1\"\n[host_group.model.nic]\ninline = \"8 B\"\n",
        "[[host_group]]\nhosts = \"8\"\n",
        "[[host_group]]\nhosts = \"3-1\"\n",
        "[[host_group]]\nhosts = \"1-3:0\"\n",
        "[[host_group]]\nhosts = \"\"\n",
        "[[host_group]]\nhosts = \"switch s9\"\n",
        "[[host_group]]\nhosts = \"s1\"\n",
        "[[host_group]]\nhosts = \"1\"\n[[host_group]]\nhosts = \"0-1\"\n",
        "[[host_group]]\nhosts = \"1\"\n[host_group.model.rdma]\ntransfer_max = \"1 KiB\"\n",
    ] {
        let error = study(group).unwrap_err();
        said.push_str(&format!("{group}{error}\n"));
    }
    insta::assert_snapshot!(said);
}
