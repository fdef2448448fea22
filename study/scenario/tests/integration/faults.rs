//! Faults and background traffic: what a study says, what a line says, and errors of bad ones.

use viaduct_cluster::faults::{Fault, Links, Slowness};
use viaduct_engine::Time;
use viaduct_programs::config::SimulationConfig;
use viaduct_scenario::{
    LEVELS, Override, Study, load_programs, parse_study, parse_study_with, read_faults,
};
use viaduct_topology::{HostId, Node, Ports, SwitchId, Topology};

/// Two switches with two hosts each.
const STUDY: &str = r#"
[run]
until = "10 ms"

[network]
topology = "chain"
switches = 2
hosts_per_switch = 2

[links]
rate = "856 Mbit/s"

[traffic]
pattern = "uniform"
rate = "100/s"
size = "4 KiB"
"#;

/// What programs on hosts of the study meet with, its text being longer by this.
fn programs(test: &str, text: &str) -> SimulationConfig {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.toml"));
    std::fs::write(&path, format!("{STUDY}{text}")).expect("the folder is there");
    let path = path.to_str().expect("a path of ASCII");
    load_programs("clan-pio", Some(path), 2).expect("the study is right")
}

fn chain() -> Topology {
    Topology::chain(2, viaduct_topology::ChainHosts::EverySwitch(2), Ports(8)).expect("it fits")
}

const fn ms(milliseconds: u64) -> Time {
    Time::from_milliseconds(milliseconds)
}

#[test]
fn a_line_and_a_row_say_the_same() {
    let cable = Links::Between(Node::Host(HostId(1)), Node::Switch(SwitchId(0)));
    let [first, second] = [0, 1].map(|switch| Node::Switch(SwitchId(switch)));
    let cases = [
        (
            "loss 0.01 %",
            "kind = \"loss\"\nrate = \"0.01 %\"",
            Fault::Loss {
                links: Links::All,
                rate: 1e-4,
            },
        ),
        (
            "link switch s1 down 1 ms..2 ms",
            "kind = \"link-down\"\nlinks = \"switch s1\"\nfrom = \"1 ms\"\nuntil = \"2 ms\"",
            Fault::LinkDown {
                links: Links::Of(second),
                from: ms(1),
                until: Some(ms(2)),
            },
        ),
        (
            "  corruption 1e-4  on  host 1 ",
            "kind = \"corruption\"\nrate = 0.0001\nlinks = \"host1\"",
            Fault::Corruption {
                links: cable,
                rate: 1e-4,
            },
        ),
        (
            "link host 1 down 10 ms..20 ms",
            "kind = \"link-down\"\nlinks = \"host 1\"\nfrom = \"10 ms\"\nuntil = \"20 ms\"",
            Fault::LinkDown {
                links: cable,
                from: ms(10),
                until: Some(ms(20)),
            },
        ),
        (
            "link s1 -> s0 down ..",
            "kind = \"link-down\"\nlinks = \"s1 -> s0\"",
            Fault::LinkDown {
                links: Links::OneWay(second, first),
                from: Time::ZERO,
                until: None,
            },
        ),
        (
            "link s0 <-> s1 down 1 ms..",
            "kind = \"link-down\"\nlinks = \"s0 <-> s1\"\nfrom = \"1 ms\"",
            Fault::LinkDown {
                links: Links::Between(first, second),
                from: ms(1),
                until: None,
            },
        ),
        (
            "host 3 dies at 5 ms",
            "kind = \"host-dies\"\nhost = 3\nat = \"5 ms\"",
            Fault::HostDies { host: 3, at: ms(5) },
        ),
        (
            "nic 0 dies at 5 ms",
            "kind = \"nic-dies\"\nhost = 0\nat = \"5 ms\"",
            Fault::NicDies { host: 0, at: ms(5) },
        ),
        (
            "host 2 slow 2.5 times from 1 ms",
            "kind = \"slow-host\"\nhost = 2\nfactor = 2.5\nfrom = \"1 ms\"",
            Fault::SlowHost {
                host: 2,
                from: ms(1),
                by: Slowness::Factor(2.5),
            },
        ),
        (
            "host 2 slow 5 us a message",
            "kind = \"slow-host\"\nhost = 2\nper_message = \"5 us\"",
            Fault::SlowHost {
                host: 2,
                from: Time::ZERO,
                by: Slowness::PerMessage(Time::from_microseconds(5)),
            },
        ),
    ];
    for (line, row, fault) in cases {
        let of_line = read_faults(&[line.to_owned()], &chain()).expect(line);
        let of_row = programs("a_line_and_a_row", &format!("[[fault]]\n{row}\n")).faults;
        assert_eq!(
            (&of_line[..], &of_row[..]),
            (&[fault][..], &[fault][..]),
            "{line}"
        );
    }
}

#[test]
fn background_traffic_and_detection_are_read() {
    let config = programs(
        "background",
        "[detection]\ntransport_timeout = \"2 ms\"\n[[background]]\nsource = 0\ninterval = \"1 ms\"\n\
         size = \"8 KiB\"\n[[background]]\nsource = 1\ntarget = 3\nfrom = \"1 ms\"\nuntil = \"2 ms\"\n\
         interval_distribution = \"constant\"\ninterval = \"1 us\"\n\
         size_distribution = \"uniform\"\nsize_min = \"0 B\"\nsize_max = \"9 B\"\n",
    );
    assert_eq!(config.detection.transport_timeout, ms(2));
    assert_eq!(config.detection.host_timeout, ms(10));
    let [any, one] = &config.background[..] else {
        panic!("{:?}", config.background)
    };
    assert_eq!((any.source, any.target, any.until), (0, None, None));
    assert_eq!(
        (any.from, any.interval.mean_picoseconds()),
        (Time::ZERO, 1e9)
    );
    assert_eq!(any.size.mean_bytes(), 8192.0);
    assert_eq!((one.source, one.target), (1, Some(3)));
    assert_eq!((one.from, one.until), (ms(1), Some(ms(2))));
    assert_eq!(
        (one.interval.mean_picoseconds(), one.size.max_bytes()),
        (1e6, 9)
    );
    config.check_faults().expect("they can be");
    config.check_background().expect("it can be");
}

#[test]
fn background_that_fills_a_bus_or_a_link_is_told_of() {
    let row = |ends: &str, interval: &str| {
        format!("[[background]]\n{ends}\ninterval = \"{interval}\"\nsize = \"4 KiB\"\n")
    };
    let warnings = |rows: &str| {
        let study = parse_study(&format!("{STUDY}{rows}")).expect(rows);
        study.warnings.to_string()
    };
    // 328 Mbit/s each, of 856.
    let quiet: String = (1..3)
        .map(|to| row(&format!("source = 0\ntarget = {to}"), "100 us"))
        .collect();
    assert_eq!(warnings(&quiet), "");
    let sent = warnings(&(quiet + &row("source = 0", "100 us")));
    assert!(sent.contains("fills the link of host 0"), "{sent}");
    let received: String = [0, 1, 3]
        .map(|from| row(&format!("source = {from}\ntarget = 2"), "100 us"))
        .concat();
    let received = warnings(&received);
    assert!(received.contains("fills the link of host 2"), "{received}");
}

#[test]
fn a_resolved_study_keeps_them_and_runs_with_them() {
    let text = format!(
        "{STUDY}[[fault]]\nkind = \"loss\"\nrate = \"1 %\"\n[[background]]\nsource = 0\n\
         interval = \"1 ms\"\nsize = \"8 KiB\"\n"
    );
    let study = parse_study(&text).expect("it is right");
    let resolved = study.resolved_toml();
    let again = Study::from_resolved(&resolved).expect("it is right still");
    assert_eq!(again.resolved_toml(), resolved);
    assert!(
        resolved.contains("[[fault]]\nkind = \"loss\"\nlinks = \"all\"\nrate = \"1 %\"\n"),
        "{resolved}"
    );
    assert!(
        resolved.contains("[[background]]\nsource = 0\n"),
        "{resolved}"
    );
    for study in [study, again] {
        assert_eq!(study.config.faults.len(), 1);
        assert_eq!(study.config.background.len(), 1);
    }
}

#[test]
fn bad_rows() {
    let rows = [
        "[fault]\nkind = \"loss\"",
        "[[fault]]",
        "[[fault]]\nkind = \"lost\"\nrate = 0.1",
        "[[fault]]\nkind = \"loss\"\nrate = 5",
        "[[fault]]\nkind = \"loss\"\nrate = 0.1\nhost = 1",
        "[[fault]]\nkind = \"loss\"\nrate = 0.1\nlinks = \"host 4\"",
        "[[fault]]\nkind = \"loss\"\nrate = 0.1\nlinks = \"s0 - s1\"",
        "[[fault]]\nkind = \"loss\"\nrate = 0.1\nlinks = \"s0 -> s2\"",
        "[[fault]]\nkind = \"loss\"\nrate = 0.1\nlinks = \"s0 <-> n1-0\"",
        "[[fault]]\nkind = \"link-down\"\nfrom = \"2 ms\"\nuntil = \"1 ms\"",
        "[[fault]]\nkind = \"link-down\"\nform = \"2 ms\"",
        "[[fault]]\nkind = \"host-dies\"\nhost = 9\nat = \"1 ms\"",
        "[[fault]]\nkind = \"nic-dies\"\nhost = 1",
        "[[fault]]\nkind = \"slow-host\"\nhost = 1",
        "[[fault]]\nkind = \"slow-host\"\nhost = 1\nfactor = 0",
        "[[fault]]\nkind = \"slow-host\"\nhost = 1\nfactor = 2\nper_message = \"1 us\"",
        "[[background]]\nsource = 0",
        "[[background]]\nsource = 4\ninterval = \"1 ms\"\nsize = \"1 KiB\"",
        "[[background]]\nsource = 1\ntarget = 1\ninterval = \"1 ms\"\nsize = \"1 KiB\"",
        "[hosts]\nadapters = 2\n[[background]]\nsource = 1\ntarget = 0\ninterval = \"1 ms\"\n\
         size = \"1 KiB\"",
        "[[background]]\nsource = 1\nuntil = \"0 s\"\ninterval = \"1 ms\"\nsize = \"1 KiB\"",
        "[[background]]\nsource = 1\ninterval_distribution = \"pareto\"\ninterval_shape = 0.5\n\
         interval = \"1 ms\"\nsize = \"1 KiB\"",
        "[background]\nsource = 1",
        "[detection]\nhost_timeout = 3",
        "[[faults]]\nkind = \"loss\"",
    ];
    let mut said = String::new();
    for row in rows {
        let answer = parse_study(&format!("{STUDY}{row}\n")).expect_err(row);
        said.push_str(&format!("---- {row}\n{answer}\n"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn bad_lines() {
    let lines = [
        "",
        "los 3",
        "loss",
        "loss on all",
        "loss 3",
        "loss 0.1 on host 4",
        "link 0-1 down 10 ms..20 ms",
        "link host 1",
        "link down 1 ms..2 ms",
        "link host 1 down",
        "link host 1 down 10 ms",
        "link host 1 down 10..20",
        "link host 1 down 20 ms..10 ms",
        "link nowhere -> s0 down 1 ms..",
        "host",
        "host x dies at 1 ms",
        "host 1",
        "host 1 dies",
        "host 1 dies at noon",
        "host 9 dies at 1 ms",
        "host 99999999999 dies at 1 ms",
        "host 1 slow",
        "host 1 slow 2",
        "host 1 slow -2 times",
        "nic 1 slow 2 times",
    ];
    let mut said = String::new();
    for line in lines {
        let before = "loss 0.1".to_owned();
        let answer = read_faults(&[before, line.to_owned()], &chain()).expect_err(line);
        said.push_str(&format!("---- {line}\n{answer}\n"));
    }
    insta::assert_snapshot!(said);
}

/// One message of a megabyte from host 0 to host 1.
const LONG: &str = r#"
[network]
topology = "switch"
hosts = 2

[links]
rate = "1 Gbit/s"
frame_payload = "1500 B"

[hosts]
nic = "ideal"

[traffic]
arrivals = "goal"
file = "one.goal"
eager = "unlimited"

[files]
"one.goal" = """
num_ranks 2
rank 0 {
send 1000000b to 1
}
rank 1 {
recv 1000000b from 0
}
"""
"#;

/// Messages of the same size, each alone, over the slow cable of host 1 and over others.
const ONE_AFTER_THE_OTHER: &str = r#"
[run]
until = "10 ms"

[network]
topology = "switch"
hosts = 4

[links]
rate = "1 Gbit/s"
frame_payload = "1500 B"

[hosts]
nic = "ideal"

[traffic]
arrivals = "list"
file = "alone.csv"

[files]
"alone.csv" = """
time_us,source,target,bytes
0,1,2,1000
1000,0,2,1000
2000,0,3,1000
3000,3,1,1000
4000,2,3,1000
"""

[[fault]]
kind = "slow-link"
links = "host 1"
factor = 4
"#;

#[test]
fn a_slow_link_is_slow_for_its_own_messages_alone() {
    for level in LEVELS {
        let level = [Override::fixed(format!("links.model={level}"))];
        let study = parse_study_with(ONE_AFTER_THE_OTHER, &level).unwrap();
        let run =
            viaduct_cluster::run(&study.config, &mut |_| core::ops::ControlFlow::Continue(()));
        let run = run.unwrap();
        assert_eq!(run.violations, [""; 0], "{level:?}");
        let slow = run.message_rows.iter().map(|row| {
            // 8 us a link at the usual rate, and 32 on the slow one.
            row.latency.unwrap().microseconds_f64() > 25.0
        });
        assert_eq!(
            slow.collect::<Vec<_>>(),
            [true, false, false, true, false],
            "{level:?}"
        );
    }
}

#[test]
fn a_slow_link_has_a_part_of_its_rate_at_every_level() {
    let slow = |links: &str, factor: &str| {
        format!("{LONG}[[fault]]\nkind = \"slow-link\"\nlinks = \"{links}\"\nfactor = {factor}\n")
    };
    for level in LEVELS {
        let level = [Override::fixed(format!("links.model={level}"))];
        let makespan = |text: &str| {
            let study = parse_study_with(text, &level).unwrap();
            let again = parse_study(&study.resolved_toml()).unwrap();
            assert_eq!(study.config.topology, again.config.topology);
            let run =
                viaduct_cluster::run(&study.config, &mut |_| core::ops::ControlFlow::Continue(()));
            let application = run.unwrap().application.unwrap();
            application.makespan.microseconds_f64()
        };
        let usual = makespan(LONG);
        for (links, times) in [
            ("host 1", 4.0),
            ("s0 -> n0-1", 4.0),
            ("n0-1 -> s0", 1.0),
            ("all", 4.0),
        ] {
            let found = makespan(&slow(links, "4")) / usual;
            assert!(
                (found / times - 1.0).abs() < 0.01,
                "{level:?} {links}: {found}"
            );
        }
    }
    let error = |text: &str| parse_study(text).expect_err("it is refused").to_string();
    let nowhere = error(&slow("host 2", "4"));
    assert!(nowhere.contains("no host 2"), "{nowhere}");
    let never = error(&slow("host 1", "0"));
    assert!(never.contains("a factor is above 0"), "{never}");
    let message = slow("host 1", "4").replace("factor = 4", "per_message = \"1 us\"");
    let message = error(&message);
    assert!(message.contains("per_message"), "{message}");
}
