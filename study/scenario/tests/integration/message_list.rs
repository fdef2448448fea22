//! Traffic from a list of messages.

use std::sync::Arc;

use viaduct_cluster::config::Arrivals;
use viaduct_cluster::workload::{ListedMessage, MessageOperation, Pattern};
use viaduct_engine::Time;
use viaduct_scenario::{HandedIn, Override, Study, parse_study, parse_study_on, parse_study_with};

const STUDY: &str = "\
[network]
topology = \"switch\"
hosts = 4
[links]
rate = \"1 Gbit/s\"
[traffic]
arrivals = \"list\"
file = \"messages.csv\"
[run]
until = \"1 ms\"
";

fn with_list(list: &str) -> String {
    format!("{STUDY}[files]\n\"messages.csv\" = '''\n{list}'''\n")
}

const LIST: &str = "\
time_us,source,target,bytes
2,0,1,100
0.25,3,1,200
2,0,2,300
";

fn list_of(study: &Study) -> Vec<(u64, u32, u32, u32)> {
    let Arrivals::Listed(list) = &study.config.traffic.arrivals else {
        panic!("{:?}", study.config.traffic.arrivals);
    };
    list.messages()
        .map(|message| {
            let ListedMessage {
                time,
                source,
                target,
                bytes,
                ..
            } = message;
            (time.picoseconds(), source, target, bytes)
        })
        .collect()
}

const EXPECTED: [(u64, u32, u32, u32); 3] = [
    (2_000_000, 0, 1, 100),
    (2_000_000, 0, 2, 300),
    (250_000, 3, 1, 200),
];

fn digest(study: &Study) -> u64 {
    let go_on = &mut |_| std::ops::ControlFlow::Continue(());
    viaduct_cluster::run(&study.config, go_on).unwrap().digest
}

#[test]
fn a_study_takes_its_messages_from_a_file_that_it_carries() {
    let study = parse_study(&with_list(LIST)).unwrap();
    assert_eq!(list_of(&study), EXPECTED);
    assert!(study.warnings.is_empty(), "{}", study.warnings);
    let pairs = Pattern::Pairs(vec![(0, 1), (0, 2), (3, 1)]);
    assert_eq!(study.config.traffic.pattern, pairs);
    let size = &study.config.traffic.size;
    assert_eq!(
        (size.min_bytes(), size.max_bytes(), size.mean_bytes()),
        (100, 300, 200.0)
    );
    let again = Study::from_resolved(&study.resolved_toml()).unwrap();
    assert_eq!(list_of(&again), EXPECTED);
    assert_eq!(digest(&again), digest(&study));
}

#[test]
fn a_list_that_is_handed_in_is_written_out_to_run_again() {
    let message = |picoseconds, source, target| ListedMessage {
        time: Time::from_picoseconds(picoseconds),
        source,
        target,
        bytes: 64,
        operation: MessageOperation::Send,
    };
    let given = [message(1_000_001, 2, 0), message(3, 1, 0)];
    let handed_in = || HandedIn {
        messages: Some(("messages.csv", given.into())),
        ..HandedIn::default()
    };
    let study = parse_study_on("mine", STUDY, &[], handed_in()).unwrap();
    assert_eq!(list_of(&study), [(3, 1, 0, 64), (1_000_001, 2, 0, 64)]);
    let text = study.resolved_toml();
    assert!(text.contains("1.000001,2,0,64"), "{text}");
    assert_eq!(digest(&parse_study(&text).unwrap()), digest(&study));
    // The same numbers as processes of other hosts.
    let two = [Override::fixed("hosts.processes=2")];
    let error = parse_study_on("mine", STUDY, &two, handed_in()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("processes 1 and 0 are on one host"), "{said}");
}

#[test]
fn points_of_a_sweep_and_a_study_that_had_a_pattern_take_the_list() {
    let text = with_list(LIST);
    let sweep = [Override::swept("links.rate=1 Gbit/s,2 Gbit/s")];
    let study = parse_study_with(&text, &sweep).unwrap();
    let lists: Vec<_> = study
        .cells()
        .iter()
        .map(|cell| match &cell.config.traffic.arrivals {
            Arrivals::Listed(list) => Arc::clone(list),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(Arc::ptr_eq(&lists[0], &lists[1]));
    // What stood there for the pattern is left over.
    let drawn = "pattern = \"straight-line\"\nhops = 1\nrate = \"10/s\"\nsize = \"1 B\"\n";
    let listed = "arrivals = \"list\"\nfile = \"messages.csv\"\n";
    let set = ["traffic.arrivals=list", "traffic.file=messages.csv"].map(Override::fixed);
    let study = parse_study_with(&text.replace(listed, drawn), &set).unwrap();
    assert_eq!(list_of(&study), EXPECTED);
}

#[test]
fn a_list_that_gives_a_link_too_much_is_warned_of() {
    // Of 40 us each, one every 20 us, and one every 41 us.
    let every = |microseconds: usize| {
        let rows = (0..40).map(|k| format!("{},{},1,5000\n", k * microseconds, 2 * (k % 2)));
        format!("time_us,source,target,bytes\n{}", rows.collect::<String>())
    };
    let study = parse_study(&with_list(&every(20)).replace("1 ms", "9 ms")).unwrap();
    let said = study.warnings.to_string();
    let title = "the list gives link s0 -> n0-1 more than it can do";
    assert!(said.contains(title), "{said}");
    let label = "200 % in the 780 us in which messages are posted; 19 are left then";
    assert!(said.contains(label), "{said}");
    let study = parse_study(&with_list(&every(41)).replace("1 ms", "9 ms")).unwrap();
    assert!(study.warnings.is_empty(), "{}", study.warnings);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let said = |text: &str| parse_study(text).unwrap_err().to_string();
    let row = |row: &str| said(&with_list(&format!("{LIST}{row}\n")));
    for (row, expected) in [
        (row("1,2,2,10"), "2 sends to itself"),
        (row("1,0,4,10"), "target 4 does not exist; there are 0 to 3"),
        (row("1,9,0,10"), "source 9 does not exist; there are 0 to 3"),
        (row("-1,2,0,10"), "the time is a number"),
        (row("1,2,0"), "3 fields, the first line names 4"),
    ] {
        assert!(row.contains("messages.csv:5"), "{row}");
        assert!(row.contains(expected), "{row}");
    }
    let empty = said(&with_list("time_us,source,target,bytes\n"));
    assert!(empty.contains("the list has no message"), "{empty}");
    let missing = said(STUDY);
    assert!(
        missing.contains("cannot read the list of messages"),
        "{missing}"
    );
    let late = said(&with_list("time_ms,source,target,bytes\n1,0,1,1\n"));
    assert!(
        late.contains("no message of the list would be posted"),
        "{late}"
    );
    let partly = parse_study(&with_list(&format!("{LIST}1000,0,1,1\n"))).unwrap();
    let warned = partly.warnings.to_string();
    assert!(
        warned.contains("1 of 4 messages of the list come too late"),
        "{warned}"
    );
}

#[test]
fn keys_of_drawn_traffic_have_no_effect_beside_a_list() {
    for (key, expected) in [
        (
            "pattern = \"uniform\"",
            "`pattern` in [traffic] has no effect here",
        ),
        ("hops = 3", "`hops` in [traffic] has no effect here"),
        ("size = \"1 B\"", "`size` in [traffic] has no effect here"),
        ("rate = \"1/s\"", "`rate` in [traffic] has no effect here"),
    ] {
        let text = with_list(LIST).replace("[run]", &format!("{key}\n[run]"));
        let said = parse_study(&text).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("not used with arrivals = \"list\""), "{said}");
    }
    let file = with_list(LIST).replace("\"list\"", "\"open\"");
    let said = parse_study(&file).unwrap_err().to_string();
    assert!(
        said.contains("`file` in [traffic] has no effect here"),
        "{said}"
    );
}
