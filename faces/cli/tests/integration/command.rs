//! The command from outside: what is on stdout, what on stderr, which exit code, what is left.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Folder, SMALL, text};

/// The only run directory.
fn run_directory(folder: &Folder) -> PathBuf {
    let entries: Vec<PathBuf> = fs::read_dir(folder.join("runs"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].clone()
}

/// Takes out what differs between equal runs: time and memory of this machine.
fn without_costs(mut value: Value) -> Value {
    const COSTS: [&str; 4] = [
        "wall_s",
        "events_per_s",
        "messages_per_wall_s",
        "peak_rss_bytes",
    ];
    match &mut value {
        Value::Object(members) => {
            members.retain(|name, _| !COSTS.contains(&name.as_str()));
            for member in members.values_mut() {
                *member = without_costs(member.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_costs(item.take());
            }
        }
        _ => {}
    }
    value
}

#[test]
fn json_is_one_object_and_nothing_else() {
    let folder = Folder::small();
    let output = folder.run(&["run", "small.toml", "--json", "--no-out"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields = [
        "/study",
        "/seed",
        "/version",
        "/digest",
        "/hosts",
        "/switches",
        "/simulated_s",
        "/warmup_s",
        "/messages/posted",
        "/messages/delivered",
        "/messages/dropped",
        "/messages/in_flight",
        "/latency_us/mean",
        "/latency_us/ci95",
        "/latency_us/sd",
        "/latency_us/min",
        "/latency_us/p50",
        "/latency_us/p90",
        "/latency_us/p99",
        "/latency_us/p999",
        "/latency_us/max",
        "/breakdown_us/post",
        "/breakdown_us/doorbell",
        "/links/mesh/count",
        "/links/mesh/utilisation_mean",
        "/links/mesh/utilisation_max",
        "/links/host_up/count",
        "/links/host_down/count",
        "/buses/utilisation_mean",
        "/buses/utilisation_max",
        "/drops/no_descriptor",
        "/events",
        "/wall_s",
        "/events_per_s",
        "/messages_per_wall_s",
        "/peak_rss_bytes",
        "/warnings",
    ];
    for field in fields {
        assert!(
            summary.pointer(field).is_some_and(|value| !value.is_null()),
            "{field}"
        );
    }
    let count = |field: &str| summary["messages"][field].as_u64().unwrap();
    assert!(count("posted") > 1_000);
    assert_eq!(
        count("posted"),
        count("delivered") + count("dropped") + count("in_flight")
    );
    assert_eq!(summary["study"], "small");
    assert_eq!(summary["hosts"], 32);
    assert_eq!(summary["links"]["mesh"]["count"], 64);
    assert!(!folder.join("runs").exists(), "--no-out leaves nothing");
}

#[test]
fn stages_add_up_to_the_mean() {
    let folder = Folder::small();
    let summary = folder.json(&["run", "small.toml", "--json", "--no-out"]);
    let stages = summary["breakdown_us"].as_object().unwrap();
    let sum: f64 = stages.values().map(|mean| mean.as_f64().unwrap()).sum();
    let mean = summary["latency_us"]["mean"].as_f64().unwrap();
    assert!((sum / mean - 1.0).abs() < 1e-6, "{sum} {mean}");
}

#[test]
fn the_run_directory_is_complete_and_runs_again() {
    let folder = Folder::small();
    let output = folder.run(&["run", "small.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for row in [
        "small: 32 hosts",
        "  bounds ",
        "mean latency, us",
        "conserved",
        "  report ",
        "  data ",
        "  next ",
    ] {
        assert!(table.contains(row), "{row} in\n{table}");
    }
    let place = run_directory(&folder);
    for name in ["scenario.toml", "summary.json"] {
        assert!(place.join(name).is_file(), "{name}");
    }
    let page = fs::read_to_string(place.join("report.html")).unwrap();
    assert!(page.contains("<pre>viaduct run small.toml</pre>"));
    let again = format!(
        "<pre>viaduct rerun runs&#x2f;{}</pre>",
        place.file_name().unwrap().display()
    );
    assert!(page.contains(&again), "{again}");
    for name in ["messages", "links", "series", "latency"] {
        let bytes = fs::read(place.join(format!("{name}.parquet"))).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
    let place = place.to_str().unwrap();
    let output = folder.run(&["rerun", place]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("the same digest"));

    let path = Path::new(place).join("summary.json");
    let summary = fs::read_to_string(&path).unwrap();
    let kept: Value = serde_json::from_str(&summary).unwrap();
    let digest = kept["digest"].as_str().unwrap();
    fs::write(&path, summary.replace(digest, "0000000000000000")).unwrap();
    let output = folder.run(&["rerun", place, "--quiet"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert_eq!(
        said,
        format!("error: digest {digest}, and 0000000000000000 in the directory\n")
    );
}

#[test]
fn seeds_and_sweeps_run_again() {
    let folder = Folder::small();
    let sweep = SMALL.to_owned() + "\n[sweep]\n\"traffic.size\" = [\"64 B\", \"2 KiB\"]\n";
    fs::write(folder.join("sweep.toml"), sweep).unwrap();
    let value = folder.json(&[
        "run",
        "sweep.toml",
        "--json",
        "--seeds",
        "2",
        "--out",
        "kept",
    ]);
    let cells = value["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    assert_eq!(cells[1]["set"]["traffic.size"], "2 KiB");
    assert_eq!(cells[1]["runs"][1]["seed"], 2);
    assert_eq!(cells[1]["across_seeds"]["count"], 2);
    assert_ne!(cells[1]["runs"][0]["digest"], cells[1]["runs"][1]["digest"]);
    let kept: Value = serde_json::from_str(&folder.read("kept/summary.json")).unwrap();
    assert_eq!(kept, value, "the file holds what stdout showed");
    let again = folder.json(&["rerun", "kept", "--json"]);
    assert_eq!(without_costs(again), without_costs(value));
}

#[test]
fn results_do_not_depend_on_threads() {
    let folder = Folder::small();
    let run = |threads| {
        folder.json(&[
            "run",
            "small.toml",
            "--json",
            "--no-out",
            "--seeds",
            "3",
            "--seed",
            "7",
            "--threads",
            threads,
        ])
    };
    let (one, two) = (run("1"), run("2"));
    assert_eq!(one["runs"][2]["seed"], 9);
    assert_eq!(without_costs(one), without_costs(two));
    // A graph of operations, with ranks that the seed places.
    let run = |threads| {
        folder.json(&[
            "run",
            "small.toml",
            "--json",
            "--no-out",
            "--seeds",
            "4",
            "--threads",
            threads,
            "--set",
            "traffic.arrivals=collective",
            "--set",
            "traffic.collective=all-to-all",
            "--set",
            "traffic.placement=random",
        ])
    };
    let (one, two, seven) = (run("1"), run("2"), run("7"));
    let one = without_costs(one);
    let spans: Vec<_> = (0..4).map(|run| &one["runs"][run]["digest"]).collect();
    assert_ne!(spans[0], spans[1], "ranks are placed by the seed");
    assert_eq!(one, without_costs(two));
    assert_eq!(one, without_costs(seven));
}

#[test]
fn quiet_says_nothing_on_stderr_and_only_the_table_on_stdout() {
    let folder = Folder::small();
    let output = folder.run(&["run", "small.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    assert!(!text(&output.stdout).contains("  next "));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::small();
    let mut child = folder
        .command(&["run", "small.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.as_mut().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(
        run_directory(&folder).join("summary.json").exists(),
        "the results are kept"
    );
}

/// Starts a run that would take hours and waits until it has said what it runs.
fn start_long_run(folder: &Folder, arguments: &[&str]) -> (Child, BufReader<impl Read>) {
    let mut all = vec!["run", "small.toml", "--set", "run.until=100000 s"];
    all.extend(arguments);
    let mut child = folder
        .command(&all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("small: "), "{line}");
    (child, stdout)
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    signal(child, "INT");
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    // The shell's own: a program of that name is not on every machine.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", child.id())])
        .status()
        .unwrap();
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_gives_what_there_is() {
    let folder = Folder::small();
    let (mut child, mut stdout) = start_long_run(&folder, &[]);
    // Long enough that there is something to show; any time would do.
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        rest.contains("mean latency, us") && rest.contains("conserved"),
        "{rest}"
    );
    assert!(rest.contains("\n  stopped at "), "{rest}");

    let place = run_directory(&folder);
    let page = fs::read_to_string(place.join("report.html")).unwrap();
    assert!(page.contains(", stopped at "), "its head");
    assert!(
        place.to_str().unwrap().ends_with("-interrupted"),
        "{place:?}"
    );
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(place.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["ended"], "interrupted");
    let again = folder.run(&["rerun", place.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}

#[cfg(unix)]
#[test]
fn a_program_that_is_told_to_end_keeps_what_there_is() {
    let folder = Folder::small();
    let (mut child, mut stdout) = start_long_run(&folder, &["--out", "kept"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(&child, "TERM");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.contains("mean latency, us"), "{rest}");
    let summary = fs::read_to_string(folder.join("kept/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["ended"], "interrupted");
}

#[test]
fn a_list_that_is_cut_has_the_events_of_one_that_is_not_and_more_windows() {
    let folder = Folder::small();
    let study = r#"
[network]
topology = "switch"
hosts = 2
[links]
rate = "1 Gbit/s"
[traffic]
arrivals = "list"
file = "two.csv"
"#;
    let list = "time_us,source,target,bytes\n0,0,1,64\n100,1,0,64\n";
    fs::write(folder.join("two.csv"), list).unwrap();
    fs::write(folder.join("list.toml"), study).unwrap();
    let events = |until_us: f64| {
        let until = format!("run.until={until_us} us");
        let arguments = ["run", "list.toml", "--set", &until, "--no-out", "--json"];
        let output = folder.run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let windows = summary["simulated_s"].as_f64().unwrap() * 1e8 / until_us + 1e-6;
        summary["events"].as_u64().unwrap() - windows as u64
    };
    assert_eq!(events(100.001), events(1000.0));
}

#[test]
fn a_run_is_replaced_by_another_only_by_force() {
    let folder = Folder::small();
    let first = ["run", "small.toml", "--out", "kept"];
    assert_eq!(folder.run(&first).status.code(), Some(0));
    assert_eq!(folder.run(&first).status.code(), Some(0));
    let others = [
        "run",
        "small.toml",
        "--set",
        "traffic.size=64 B",
        "--out",
        "kept",
    ];
    let told = folder.failure(1, &others);
    assert!(
        told.contains("holds a run of `small` with other settings") && told.contains("--force"),
        "{told}"
    );
    let told = folder.failure(1, &[&first[..], &["--seed=7"]].concat());
    assert!(told.contains("with other settings"), "{told}");
    let told = folder.failure(1, &[&first[..], &["--seeds=2"]].concat());
    assert!(told.contains("with other seeds"), "{told}");
    let other = ["run", "two-hosts", "--out", "kept"];
    let told = folder.failure(1, &other);
    assert!(
        told.contains("holds a run of `small`") && told.contains("--force"),
        "{told}"
    );
    let forced = folder.run(&[&other[..], &["--force"]].concat());
    assert_eq!(forced.status.code(), Some(0), "{}", text(&forced.stderr));
    let summary = fs::read_to_string(folder.join("kept/summary.json")).unwrap();
    assert!(summary.contains("two-hosts"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_out_runs_that_had_not_begun() {
    let folder = Folder::small();
    let seeds = ["--seeds", "4", "--threads", "1", "--out", "kept"];
    let (mut child, mut stdout) = start_long_run(&folder, &seeds);
    interrupt(&child);
    stdout.read_to_string(&mut String::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The signal may come before the first run: then there is nothing to keep.
    if let Ok(kept) = fs::read_to_string(folder.join("kept/summary.json")) {
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept["runs_not_begun"], 3);
        assert_eq!(kept["runs"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn wrong_input_is_told_and_exits_with_1() {
    let folder = Folder::small();
    fs::write(folder.join("file"), "").unwrap();
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/notes.txt"), "").unwrap();
    let links: String = (0..200).map(|n| format!("n{n} s{}\n", n % 4)).collect();
    fs::write(folder.join("links.txt"), format!("hosts n*\n{links}")).unwrap();
    fs::write(folder.join("study.yaml"), "run:\n  until: 10 ms\n").unwrap();
    fs::write(folder.join("latin.toml"), b"[run]\n# caf\xE9\n").unwrap();
    let cases: [&[&str]; 17] = [
        &["run", "links.txt"],
        &["run", "study.yaml"],
        &["run", "latin.toml"],
        &["run", "small.toml", "--set", "traffic.rate=4e11/s"],
        &["sweep", "small.toml"],
        &["sweep", "small.toml", "--set", "traffic.size=64 B"],
        &["run", "small.toml", "--set", "traffic.siz=3"],
        &["run", "small.toml", "--set", "hosts.nic=am-myrinet"],
        &["run", "small.toml", "--set", "links.rate=856 MByte"],
        &["run", "small.toml", "--out", "mine"],
        &["run", "small.toml", "--out", "file"],
        &[
            "run",
            "small.toml",
            "--seed",
            "18446744073709551615",
            "--seeds",
            "2",
        ],
        &["rerun", "mine"],
        &["models", "giganet-clam"],
        &["models", "diff", "giganet-clan", "idle"],
        &["models", "diff", "mine.toml", "ideal"],
        &["keys", "trafic"],
    ];
    let mut told = String::new();
    for case in cases {
        told += &format!(
            "$ viaduct {}\n{}\n",
            case.join(" "),
            folder.failure(1, case)
        );
    }
    insta::assert_snapshot!(told);
    // The system's own words differ from system to system.
    let told = folder.failure(1, &["run", "small.toml", "--out", "file/out"]);
    assert!(
        told.starts_with("error: cannot write the run directory `file/out`: "),
        "{told}"
    );
    for usage in [
        &["run"][..],
        &["fly"],
        &["models", "diff", "ideal"],
        &["models", "ideal", "diff", "ideal", "giganet-clan"],
        &["run", "small.toml", "--seeds", "0"],
    ] {
        assert!(folder.failure(1, usage).starts_with("error: "), "{usage:?}");
    }
    assert!(!folder.join("runs").exists());
}

#[test]
fn check_says_what_a_list_asks_and_of_whom_too_much() {
    let folder = Folder::small();
    let mut list = "time_us,source,target,bytes\n".to_owned();
    for k in 0..40 {
        list += &format!("{},{},0,5000\n", 20 * k, 1 + k % 3);
    }
    fs::write(folder.join("messages.csv"), list).unwrap();
    let set = [
        "--set",
        "traffic.arrivals=list",
        "--set",
        "traffic.file=messages.csv",
    ];
    let output = folder.run(&[&["check", "small.toml"], set.as_slice()].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (said, warned) = (text(&output.stdout), text(&output.stderr));
    // 5,000 bytes take 46.73 us at 856 Mbit/s.
    let takes = "the list is posted within 780 us (233.64 % busy: link s0-0 -> n0-0-0) and takes \
                 1.869 ms at least";
    assert!(said.contains(takes), "{said}");
    let much = "warning: the list gives link s0-0 -> n0-0-0 more than it can do";
    assert!(warned.contains(much), "{warned}");
    assert!(warned.contains("234 % in the 780 us"), "{warned}");
}

#[test]
fn a_study_that_says_nothing_shares_links_max_min_fairly() {
    let plain = SMALL.replace("model = \"fluid\"\n", "");
    let folder = Folder::with("plain.toml", &plain);
    let ideal = ["check", "plain.toml", "--set", "hosts.nic=ideal"];
    let loaded = [&ideal[..], &["--set", "traffic.rate=50000/s"]].concat();
    let checked = |arguments: &[&str]| {
        let output = folder.run(arguments);
        (text(&output.stdout), text(&output.stderr))
    };
    let (said, warned) = checked(&loaded);
    assert!(said.contains("saturates at"), "{said}");
    assert!(said.contains(", max-min)"), "{said}");
    assert!(
        warned.contains("more at `max-min` than at `packets`"),
        "{warned}"
    );
    // A link is never full with the other rule: queues grow without end before.
    let (said, warned) = checked(&[&loaded[..], &["--set", "links.model=fluid"]].concat());
    assert!(said.contains("saturates below"), "{said}");
    assert!(
        warned.contains("more at `fluid` than at `packets`"),
        "{warned}"
    );
}

#[test]
fn a_run_with_fluid_sharing_above_half_load_says_so() {
    let folder = Folder::small();
    let ideal = ["run", "small.toml", "--no-out", "--set", "hosts.nic=ideal"];
    let loaded = [&ideal[..], &["--set", "traffic.rate=70000/s"]].concat();
    let overstates = |arguments: &[&str]| {
        let output = folder.run(arguments);
        let warned = text(&output.stderr) + &text(&output.stdout);
        warned.contains("more at `fluid` than at `packets`")
    };
    assert!(overstates(&loaded));
    assert!(!overstates(&ideal));
    assert!(!overstates(
        &[&loaded[..], &["--set", "links.model=max-min"]].concat()
    ));
}

/// Two leaves with four hosts each, and four spines.
fn leaf_spine() -> Folder {
    let mut list = String::from("hosts n*\n");
    for leaf in 0..2 {
        for host in 0..4 {
            list.push_str(&format!("n{} leaf{leaf}\n", 4 * leaf + host));
        }
        for spine in 0..4 {
            list.push_str(&format!("leaf{leaf} spine{spine}\n"));
        }
    }
    let study = "[run]\nuntil = \"50 ms\"\n[network]\ntopology = \"graph\"\nfile = \"net.txt\"\n\
                 [links]\nrate = \"1 Gbit/s\"\n[hosts]\nnic = \"ideal\"\n[traffic]\n\
                 pattern = \"uniform\"\nrate = \"2000/s\"\nsize = \"8 KiB\"\n";
    let folder = Folder::with("study.toml", study);
    fs::write(folder.join("net.txt"), list).unwrap();
    folder
}

#[test]
fn a_graph_spreads_its_flows_over_equal_paths() {
    let folder = leaf_spine();
    let run = |equal_paths: &str| {
        let equal_paths = format!("network.equal_paths={equal_paths}");
        let arguments = ["run", "study.toml", "--no-out", "--json", "--set"];
        let output = folder.run(&[&arguments[..], &[equal_paths.as_str()]].concat());
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        (summary, text(&output.stderr))
    };
    let (spread, silent) = run("hash");
    let (single, warned) = run("single");
    let busiest = |summary: &Value| {
        let links = summary["links"].to_string();
        let classes = summary["links"].as_object().unwrap();
        let mesh = &classes["mesh"]["utilisation_max"];
        mesh.as_f64().unwrap_or_else(|| panic!("{links}"))
    };
    assert!(busiest(&spread) < 0.7 * busiest(&single));
    assert!(
        warned.contains("equal paths stay idle: of 4 equally good links"),
        "{warned}"
    );
    assert!(!silent.contains("equal paths"), "{silent}");
    assert_eq!(run("hash").0["digest"], spread["digest"]);
}

#[test]
fn check_says_the_cost_and_what_can_go_wrong() {
    let folder = Folder::small();
    let output = folder.run(&["check", "small.toml", "--set", "traffic.rate=200000/s"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (said, warned) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("about 128,000 messages; at least "), "{said}");
    // What is full first is a processor, whatever the rule for links.
    assert!(said.contains("saturates at"), "{said}");
    assert!(said.contains(", fluid)"), "{said}");
    assert!(
        warned.contains("more at `fluid` than at `packets`"),
        "{warned}"
    );
    assert!(warned.contains("note: possible deadlock"), "{warned}");
    assert!(
        warned.contains("messages/s a process are offered, but"),
        "{warned}"
    );
    assert!(!folder.join("runs").exists(), "check runs nothing");
}

#[test]
fn messages_that_stand_still_are_told_before_a_run_and_end_it_with_exit_code_2() {
    let rings = "[run]\nuntil = \"20 ms\"\n[network]\ntopology = \"torus\"\ndimensions = [8]\n\
                 hosts_per_switch = 2\n[links]\nrate = \"856 Mbit/s\"\nframe_payload = \"1000 B\"\n\
                 [hosts]\nprepost = \"unlimited\"\n[traffic]\npattern = \"uniform\"\n\
                 arrivals = \"window\"\nwindow = 8\nsize = \"30 KiB\"\n";
    let folder = Folder::with("ring.toml", rings);
    let credits = &["links.model=credits", "links.channel_classes=1"][..];
    let pauses = &["links.model=packets", "links.full=pause"][..];
    for (sets, room, more, remedy) in [
        (
            credits,
            "links.channel_buffer=2048 B",
            "links.channel_classes=2",
            "links.channel_classes",
        ),
        (
            pauses,
            "links.buffer=12 KiB",
            "links.buffer=16 MiB",
            "links.buffer",
        ),
    ] {
        let sets = sets.iter().chain([&room]).flat_map(|set| ["--set", set]);
        let sets: Vec<&str> = sets.collect();
        let check = [&["check", "ring.toml"], &sets[..]].concat();
        let warned = text(&folder.ended(0, &check).stderr);
        assert!(warned.contains("warning: possible deadlock"), "{warned}");
        let run = [&["run", "ring.toml", "--no-out", "--json"], &sets[..]].concat();
        let output = folder.ended(2, &run);
        let said = text(&output.stderr);
        assert!(
            said.contains("error: deadlock at ") && said.contains(remedy),
            "{said}"
        );
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["ended"], "deadlock");
        let summary = folder.json(&[&run[..], &["--set", more]].concat());
        assert_eq!(summary["ended"], "finished");

        // Nowhere is it called an error in the program, which a user is to report.
        let why = [&["why", "ring.toml", "--message", "0"], &sets[..]].concat();
        let sweep = [
            "sweep",
            "ring.toml",
            "--out",
            room,
            "--set",
            "traffic.window=8,9",
        ];
        for command in [why, [&sweep[..], &sets[..]].concat()] {
            let output = folder.ended(2, &command);
            let said = text(&output.stderr);
            assert!(said.contains("deadlock at "), "{said}");
            assert!(said.contains("the run ended there"), "{said}");
            assert!(!said.contains("report it"), "{said}");
            let table = text(&output.stdout);
            assert!(!table.contains("a check failed"), "{table}");
            let is_sweep = command[0] == "sweep";
            assert!(!is_sweep || table.contains("deadlock"), "{table}");
        }
    }
}

#[test]
fn lists_show_what_the_program_carries() {
    let folder = Folder::small();
    let said = |arguments: &[&str]| {
        let output = folder.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let studies = said(&["studies"]);
    for study in [
        "four-hop",
        "torus-1024",
        "prepost-drops",
        "bus-contention",
        "torus-million",
    ] {
        assert!(studies.contains(study), "{study}");
    }
    assert!(said(&["models"]).contains("giganet-clan-linux"));
    assert!(said(&["models"]).contains("infiniband-ndr"));
    let network = said(&["models", "infiniband-ndr"]);
    assert!(network.contains("inherits: infiniband-edr"), "{network}");
    assert!(network.contains("for links.model: credits, fluid, max-min, queues"));
    assert!(network.contains("plausible: 150 ns to 330 ns"), "{network}");
    let model = said(&["models", "giganet-clan"]);
    assert!(
        model.contains("nic.doorbell") && model.contains("bus.rate"),
        "{model}"
    );
    assert!(said(&["keys"]).len() > said(&["keys", "traffic"]).len());
}

/// A built-in preset with two numbers of its own, one of which only has another source.
const SLOW_BUS: &str = r#"
name = "slow-bus"
inherits = "giganet-clan"

[bus]
rate = { value = "132 MB/s", source = "PCI 2.1, 32 bit at 33 MHz", confidence = "derived" }

[cpu]
polling_delay = { value = "200 ns", source = "a guess", confidence = "assumed" }
"#;

#[test]
fn man_pages_and_completions_know_every_word() {
    let folder = Folder::small();
    let help = folder.run(&["--help"]);
    let help = text(&help.stdout);
    let words = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let words: Vec<&str> = words
        .map_while(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split(' ').next().filter(|word| !word.is_empty()))
        .filter(|word| *word != "help")
        .collect();
    assert!(words.contains(&"run") && words.len() > 10, "{words:?}");

    fs::create_dir(folder.join("man")).unwrap();
    let output = folder.run(&["manual", "man"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for word in &words {
        let page = fs::read_to_string(folder.join(&format!("man/viaduct-{word}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{word}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = folder.run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let script = text(&output.stdout);
        assert!(words.iter().all(|word| script.contains(word)), "{shell}");
    }

    let output = folder.run(&["manual", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("nowhere") && error.contains("a folder that exists"),
        "{error}"
    );
}

#[test]
fn models_diff_shows_what_differs_and_says_if_nothing_does() {
    let folder = Folder::small();
    fs::write(folder.join("slow-bus.toml"), SLOW_BUS).unwrap();
    let heir = "name = \"heir\"\ninherits = \"slow-bus.toml\"\n";
    fs::write(folder.join("heir.toml"), heir).unwrap();
    let surer = "name = \"surer\"\ninherits = \"slow-bus.toml\"\n[cpu]\npolling_delay = \
        { value = \"0.2 us\", source = \"a test\", confidence = \"measured\" }\n";
    fs::write(folder.join("surer.toml"), surer).unwrap();
    let mut said = String::new();
    for (first, second) in [
        ("giganet-clan", "slow-bus.toml"),
        ("slow-bus.toml", "heir.toml"),
        ("slow-bus.toml", "surer.toml"),
        ("ideal", "ideal"),
    ] {
        let output = folder.run(&["models", "diff", first, second]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        said += &format!("$ viaduct models diff {first} {second}\n");
        said += &format!("{}\n", text(&output.stdout));
    }
    insta::assert_snapshot!(said);
    let shown = text(&folder.run(&["models", "heir.toml"]).stdout);
    assert!(
        shown.contains("\ninherits: slow-bus.toml, giganet-clan\n"),
        "{shown}"
    );
    assert!(shown.contains("132 MB/s"), "{shown}");
}

#[test]
fn a_study_that_ships_takes_a_preset_from_a_file() {
    let folder = Folder::with("slow-bus.toml", SLOW_BUS);
    let mean = |arguments: &[&str]| {
        let run = ["run", "two-hosts", "--json", "--no-out"];
        let summary = folder.json(&[&run, arguments].concat());
        summary["latency_us"]["mean"].as_f64().unwrap()
    };
    assert!(mean(&["--set", "hosts.nic=slow-bus.toml"]) > mean(&[]));
}

#[test]
fn a_run_with_inherited_presets_is_run_again_without_their_files() {
    let folder = Folder::small();
    let preset = folder.join("slow-bus.toml");
    fs::write(&preset, SLOW_BUS).unwrap();
    let nic = "hosts.nic=slow-bus.toml";
    let run = ["run", "small.toml", "--set", nic, "--out", "first"];
    let output = folder.run(&run);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fs::remove_file(&preset).unwrap();
    let again = folder.run(&["rerun", "first"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("the same digest"));
}

#[test]
fn a_pipe_is_no_scenario() {
    let folder = Folder::small();
    let made = Command::new("mkfifo")
        .arg(folder.join("pipe.toml"))
        .status();
    assert!(made.unwrap().success());
    // Goal: it does not wait for somebody to write into it. If it does, it hears an end in time.
    let path = folder.join("pipe.toml");
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(30));
        fs::OpenOptions::new().write(true).open(path)
    });
    let said = folder.failure(1, &["check", "pipe.toml"]);
    assert!(said.contains("no ordinary file"), "{said}");
}
