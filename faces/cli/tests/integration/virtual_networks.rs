//! `viaduct measure` of virtual networks from outside: two processes, and simulated interfaces.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Folder, text};

pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_viaduct"))
        .arg("measure")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs what must succeed and gives its JSON; nothing else may be on stdout.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_measurement_says_where_and_when_it_was_made() {
    let short = ["--seconds", "0.01"];
    let contention = [&short[..], &["--clients", "1", "--server", "one"]].concat();
    let timesharing = [&short[..], &["--programs", "1"]].concat();
    for (test, fabric, options) in [
        ("logp", "shm", &["--iterations", "3"][..]),
        ("contention", "shm", &contention),
        ("contention", "sim:am-myrinet", &contention),
        ("timesharing", "sim:am-myrinet", &timesharing),
    ] {
        let report = json(&[&[test, "--on", fabric], options].concat());
        assert_eq!(report["version"], env!("CARGO_PKG_VERSION"), "{report}");
        // Which machine simulates, and when, changes nothing.
        for key in ["machine", "date"] {
            assert_eq!(report[key].is_string(), fabric == "shm", "{key}: {report}");
        }
        let level = (fabric != "shm").then_some("held");
        assert_eq!(report["network_level"].as_str(), level, "{report}");
    }
}

pub(crate) fn failure(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key} in {object}"))
}

fn assert_near(ours: f64, given: f64) {
    let off = (ours / given - 1.0).abs();
    assert!(off < 0.05, "{ours} where {given} is given");
}

#[test]
fn a_file_that_inherits_an_interface_is_measured_with_what_it_changes() {
    let folder = Folder::new();
    let path = folder.join("slow-send.toml");
    let preset = "name = \"slow-send\"\ninherits = \"am-myrinet\"\n[host]\n\
                  send = { value = \"4.9 us\", source = \"a test\", confidence = \"assumed\" }\n";
    fs::write(&path, preset).unwrap();
    let fabric = format!("sim:{}", path.display());
    let slow = json(&["logp", "--on", &fabric]);
    let given = json(&["logp", "--on", "sim:am-myrinet"]);
    assert_eq!(slow["fabric"], fabric.as_str());
    let more = |key| number(&slow, key) - number(&given, key);
    assert_near(more("o_send_us"), 2.0);
    assert_near(more("round_trip_us"), 4.0);

    fs::write(&path, preset.replace("4.9 us", "4.9 furlongs")).unwrap();
    let error = failure(&["contention", "--on", &fabric]);
    assert!(error.contains("furlongs"), "{error}");
}

#[test]
fn the_first_generation_has_its_given_figures() {
    let logp = json(&["logp", "--on", "sim:gam-myrinet"]);
    let keys: Vec<&String> = logp.as_object().unwrap().keys().collect();
    let wanted = [
        "cores",
        "fabric",
        "gap_us",
        "latency_us",
        "network_level",
        "o_recv_us",
        "o_send_us",
        "round_trip_us",
        "test",
        "version",
    ];
    assert_eq!(keys, wanted);
    assert_near(number(&logp, "o_send_us") + number(&logp, "o_recv_us"), 5.8);
    assert_near(number(&logp, "o_send_us"), 2.9);
    assert_near(number(&logp, "gap_us"), 5.8);
    let sum = 2.0 * (number(&logp, "o_send_us") + number(&logp, "o_recv_us"));
    let latency_us = (number(&logp, "round_trip_us") - sum) / 2.0;
    assert!(
        (latency_us - number(&logp, "latency_us")).abs() < 1e-6,
        "{logp}"
    );
    let bulk = json(&["bulk", "--on", "sim:gam-myrinet"]);
    let rows = bulk["rows"].as_array().unwrap();
    let sizes: Vec<u64> = rows
        .iter()
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [128, 256, 512, 1024, 2048, 4096, 8192]);
    assert_near(number(&rows[6], "mbyte_s"), 38.0);
}

#[test]
fn virtual_networks_cost_more_and_end_at_the_same_bandwidth() {
    let fabrics = "sim:gam-myrinet,sim:am-myrinet";
    let told = json(&["logp", "--on", fabrics]);
    for key in ["latency_us", "gap_us", "round_trip_us"] {
        let [first, second] = [0, 1].map(|index| number(&told[index], key));
        assert!(second > first + 1.0, "{key}: {told}");
    }
    let told = json(&["bulk", "--on", fabrics, "--sizes", "128,1KiB,8KiB"]);
    let [first, second] = [0, 1].map(|index| &told[index]);
    assert!(number(second, "half_power_bytes") > number(first, "half_power_bytes"));
    for report in [first, second] {
        let last = &report["rows"][2];
        let line = &report["round_trip_fit"];
        let fitted = number(line, "us") + number(line, "us_per_byte") * 8192.0;
        assert_near(number(last, "round_trip_us"), fitted);
    }
    let [first, second] = [first, second].map(|report| number(&report["rows"][2], "mbyte_s"));
    assert_near(second, first);
    // Simulated time: the same again.
    assert_eq!(
        told,
        json(&["bulk", "--on", fabrics, "--sizes", "128,1KiB,8KiB"])
    );
}

#[test]
fn two_processes_are_measured() {
    let logp = json(&["logp", "--on", "shm", "--iterations", "9"]);
    assert_eq!(logp["fabric"], "shm");
    assert_eq!(logp["cores"].as_array().unwrap().len(), 2);
    for key in ["o_send_us", "round_trip_us"] {
        assert!(number(&logp, key) > 0.0, "{logp}");
    }
    // What is left of differences on a machine that is busy otherwise may have any sign.
    for key in ["o_recv_us", "latency_us", "gap_us"] {
        number(&logp, key);
    }
    let bulk = json(&[
        "bulk",
        "--on",
        "shm",
        "--iterations",
        "3",
        "--sizes",
        "64,8KiB",
    ]);
    let rows = bulk["rows"].as_array().unwrap();
    number(&rows[1], "mbyte_s");
    assert!(number(&rows[0], "round_trip_us") > 0.0, "{bulk}");
}

#[test]
fn tables_and_plots_have_every_fabric() {
    let directory = Folder::new();
    for test in ["logp", "bulk"] {
        let plot = directory.join(&format!("{test}.svg"));
        let output = run(&[
            test,
            "--on",
            "sim:gam-myrinet,sim:am-myrinet",
            "--plot",
            plot.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let (table, picture) = (text(&output.stdout), fs::read_to_string(&plot).unwrap());
        for name in ["sim:gam-myrinet", "sim:am-myrinet"] {
            assert!(table.contains(name), "{table}");
            assert!(picture.contains(name), "no {name} in the plot of {test}");
        }
    }
}

/// `viaduct models ranges ...`: exit code, and what it says.
fn ranges(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_viaduct"))
        .args([&["models", "ranges"], arguments].concat())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_docs_say_what_assumed_numbers_do() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/virtual-networks-interface.md"
    );
    let page = fs::read_to_string(page).unwrap();
    let (code, table, told) = ranges(&["am-myrinet"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(table.lines().count() > 40, "{table}");
    for line in table.lines() {
        assert!(
            page.lines().any(|its| its == line),
            "{line}\nis not in the docs: viaduct models ranges am-myrinet"
        );
    }
    // Nor has the page a row of its own.
    let rows = |text: &str| -> Vec<String> {
        let key = |line: &str| line.split('`').nth(1).is_some_and(|key| key.contains('.'));
        let is_row = |line: &&str| line.starts_with("| `") && key(line);
        text.lines().filter(is_row).map(str::to_owned).collect()
    };
    let (of_page, of_command) = (rows(&page), rows(&table));
    assert_eq!(of_page, of_command);
}

#[test]
fn ranges_are_those_of_the_numbers_that_are_asked_for() {
    let (code, table, told) = ranges(&["am-myrinet", "interface.timer"]);
    assert_eq!(code, Some(0), "{told}");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(
        rows[1].starts_with("| `interface.timer` | 20 | 10 to 40 | 14."),
        "{table}"
    );
    // A fitted step is fitted again: the first generation keeps its gap.
    let (_, table, _) = ranges(&["gam-myrinet", "interface.header"]);
    let row = table.lines().last().unwrap_or_default();
    assert_eq!(
        row,
        "| `interface.header` | 16 | 8 to 28 |  |  |  |  |  |  |  |"
    );
    for (arguments, words) in [
        (&["am-myrinet", "host.send"][..], "has no range"),
        (&["clan"], "has no endpoints"),
        (&["nowhere"], "nowhere"),
    ] {
        let (code, _, told) = ranges(arguments);
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

/// What no text gives is shown over its range, and nothing else has one.
#[test]
fn assumed_numbers_of_interfaces_with_endpoints_have_ranges() {
    for name in ["gam-myrinet", "am-myrinet"] {
        let preset = viaduct_scenario::load_preset(name).unwrap();
        for number in &preset.numbers {
            let is_open = number.confidence == viaduct_scenario::Confidence::Assumed;
            // A link that loses something is another experiment.
            let is_open = is_open && number.key != "lost";
            let is_published = number.confidence == viaduct_scenario::Confidence::Published;
            let has_range = number.ends().is_some();
            assert!(has_range || !is_open, "{name}: {}", number.key);
            assert!(!has_range || !is_published, "{name}: {}", number.key);
        }
    }
}

#[test]
fn what_does_not_go_is_told() {
    for (arguments, words) in [
        (&["logp", "--on", "shm", "--sizes", "8"][..], "`--sizes`"),
        (&["bulk", "--on", "shm", "--sizes", "9000"], "8192"),
        (&["bulk", "--on", "shm", "--sizes", "0"], "1 to 8192"),
        (&["logp", "--on", "shm", "--mode", "block"], "`--mode`"),
        (
            &["logp", "--on", "shm", "--connections", "2"],
            "`--connections`",
        ),
        (
            &["logp", "--on", "sim:am-myrinet", "--fault", "loss 1 %"],
            "`--fault`",
        ),
        (&["latency", "--on", "sim:am-myrinet"], "logp"),
    ] {
        let told = failure(arguments);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

/// A file of the repository.
fn shipped(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn endpoints_run_in_the_network_of_a_study() {
    let latency = |fabric: &str| {
        let logp = json(&["logp", "--on", fabric]);
        assert_eq!(logp["fabric"], fabric);
        number(&logp, "latency_us")
    };
    // 52 bytes over two links of 150 MB/s and one switch.
    let usual = latency("sim:am-myrinet") - 0.3 - 52.0 / 150.0;
    // Five switches of 0.5 us, six links of 25 ns, 1 Gbit/s.
    let chain = |head: f64| 5.0 * (0.5 + head / 125.0) + 6.0 * 0.025 + 52.0 / 125.0;
    // The study says how links are shared: a switch waits for 80 bytes, or all of a packet.
    let added = latency("sim:am-myrinet@four-hop") - usual;
    assert!((added - chain(52.0)).abs() < 0.01, "{added}");
    // One that does not say so: a packet holds its way, and waits for 80 bytes' time.
    let folder = Folder::new();
    let text = fs::read_to_string(shipped("studies/four-hop.toml")).unwrap();
    fs::write(
        folder.join("held.toml"),
        text.replace("model = \"fluid\"", ""),
    )
    .unwrap();
    let held = format!("sim:am-myrinet@{}", folder.join("held.toml").display());
    let added = latency(&held) - usual;
    assert!((added - chain(80.0)).abs() < 0.01, "{added}");
    // The published sizes: three switches between the first host and the last.
    let tree = shipped("studies/virtual-networks/myrinet-100.toml");
    let tree = format!("sim:am-myrinet@{tree}");
    let added = latency(&tree) - usual;
    assert!((added - 3.0 * 0.3 - 52.0 / 150.0).abs() < 0.01, "{added}");
    let crowd = [
        "contention",
        "--on",
        &tree,
        "--seconds",
        "0.05",
        "--server",
        "mt",
    ];
    let crowd = |faults: &[&str]| {
        let report = json(&[&crowd, &["--clients", "24"][..], faults].concat());
        number(&report["rows"][0], "messages_s")
    };
    let undisturbed = crowd(&[]);
    assert!(undisturbed > 30_000.0, "{undisturbed}");
    // The server is the network's last host.
    assert!(crowd(&["--fault", "link n99 <-> leaf19 down 20 ms.."]) < 0.8 * undisturbed);
    assert!(crowd(&["--fault", "link n98 <-> leaf19 down 20 ms.."]) > 0.99 * undisturbed);
}

/// Eight clients at one leaf ask a server at another. Over one switch above they have one link in
/// common, which costs nothing where packets hold their ways, and all there is where they share it.
#[test]
fn a_study_says_how_packets_share_links() {
    let folder = Folder::new();
    let run = |model: &str, rate: &str| {
        let text = format!(
            "[run]\nuntil = \"1 ms\"\n[network]\ntopology = \"leaf-spine\"\nhosts = 16\n\
             hosts_per_switch = 8\nspines = 1\n[switches]\ndelay = \"300 ns\"\n[links]\n\
             rate = \"{rate}\"\nhost_rate = \"1.2 Gbit/s\"\n{model}\n[hosts]\n\
             nic = \"bvia-myrinet\"\n[traffic]\npattern = \"uniform\"\narrivals = \"open\"\n\
             rate = \"100/s\"\nsize = \"1 KiB\"\n"
        );
        fs::write(folder.join("tree.toml"), text).unwrap();
        let fabric = format!("sim:am-myrinet@{}", folder.join("tree.toml").display());
        let options = ["--clients", "8", "--server", "mt", "--frames", "8"];
        let report = json(
            &[
                &["contention", "--on", &fabric, "--bytes", "1024", "--links"],
                &options[..],
                &["--seconds", "0.05"],
            ]
            .concat(),
        );
        report["rows"][0].clone()
    };
    let busy = |row: &Value, name: &str| {
        let links = row["links"].as_array().unwrap();
        let found = links.iter().find(|link| link["link"] == name);
        number(found.unwrap(), "busy_fraction")
    };
    // Between the leaves 16 MB/s: each client's packets take a while, and keep nobody waiting.
    let held = run("", "128 Mbit/s");
    let shared = run("model = \"max-min\"", "128 Mbit/s");
    let (of_held, of_shared) = (number(&held, "mbyte_s"), number(&shared, "mbyte_s"));
    assert!(
        of_shared < 16.0 && of_held > 0.0,
        "{of_held} and {of_shared}"
    );
    let full = busy(&shared, "leaf0 -> spine0");
    assert!((0.97..1.01).contains(&full), "{full}");
    assert!(busy(&shared, "host15 -> leaf1") < 0.5, "{shared}");
    // Links that are no bottleneck give about the same by either rule.
    let [held, shared] = ["", "model = \"max-min\""].map(|model| run(model, "1.2 Gbit/s"));
    let ratio = number(&held, "messages_s") / number(&shared, "messages_s");
    assert!((0.9..1.1).contains(&ratio), "{held} and {shared}");
}

#[test]
fn links_are_told_where_that_is_asked_for() {
    // Endpoints are in their frames when the window begins.
    let options = ["contention", "--on", "sim:am-myrinet", "--seconds", "0.3"];
    let options = [&options[..], &["--clients", "2", "--server", "one"]].concat();
    let usual = json(&options);
    assert!(usual["rows"][0].get("links").is_none());
    let told = json(&[&options[..], &["--links"]].concat());
    let links = told["rows"][0]["links"].as_array().unwrap();
    let names: Vec<&str> = links
        .iter()
        .map(|it| it["link"].as_str().unwrap())
        .collect();
    // Hosts 0 to 2 are at one leaf.
    let expected = [
        "host0 -> leaf0",
        "host1 -> leaf0",
        "host2 -> leaf0",
        "leaf0 -> host0",
        "leaf0 -> host1",
        "leaf0 -> host2",
    ];
    assert_eq!(names, expected);
    // A request of 52 bytes and its answer of 24, a reply of 52 and an answer to that.
    let bytes = |place: usize| number(&links[place], "bytes");
    let per_message = number(&told["rows"][0], "messages_s") * 0.3;
    assert!((bytes(0) / per_message - 76.0).abs() < 0.5, "{links:?}");
    assert!((bytes(3) / bytes(0) - 1.0).abs() < 0.01, "{links:?}");
    let into_server = bytes(3) / 150e6 / 0.3;
    let busy = number(&links[3], "busy_fraction");
    assert!(
        (busy / into_server - 1.0).abs() < 1e-3,
        "{busy} where {into_server} is due"
    );
    // Nothing else is different.
    let mut without = told.clone();
    without["rows"][0].as_object_mut().unwrap().remove("links");
    assert_eq!(without, usual);
    let table = run(&[&options[..], &["--links"]].concat());
    let table = text(&table.stdout);
    assert!(table.contains("busiest of 6 links: "), "{table}");
    let error = failure(&["contention", "--on", "shm", "--links", "--clients", "1"]);
    assert!(error.contains("--links"), "{error}");
    let error = failure(&["logp", "--on", "sim:am-myrinet", "--links"]);
    assert!(error.contains("contention"), "{error}");
}

/// One client, so that nothing is refused: of many a link that loses some relieves the server.
#[test]
fn links_lose_the_part_that_they_are_told_to() {
    let rows = |faults: &[&str]| {
        let options = ["contention", "--on", "sim:am-myrinet", "--seconds", "0.1"];
        let options = [&options[..], &["--clients", "1", "--server", "one"], faults].concat();
        json(&options)["rows"][0].clone()
    };
    let usual = rows(&[]);
    let lossy = rows(&["--fault", "loss 10 % on host 0"]);
    assert!(number(&lossy, "messages_s") < 0.9 * number(&usual, "messages_s"));
    // What is lost goes again.
    assert_eq!(lossy["ends"]["unreachable"], 0);
    assert_eq!(lossy["ends"]["requests"], {
        let ends = &lossy["ends"];
        number(ends, "replied") as u64 + number(ends, "open") as u64
    });
    let corrupt = rows(&["--fault", "corruption 10 % on host 0"]);
    assert!(number(&corrupt, "messages_s") < 0.9 * number(&usual, "messages_s"));
}

#[test]
fn networks_that_endpoints_cannot_use_are_told() {
    let folder = Folder::new();
    let study = |links: &str, more: &str| {
        fs::write(folder.join("net.links"), links).unwrap();
        let text = fs::read_to_string(shipped("studies/virtual-networks/myrinet-100.toml"));
        let text = text.unwrap().replace("myrinet-100.links", "net.links");
        fs::write(folder.join("net.toml"), text + more).unwrap();
        let fabric = format!("sim:am-myrinet@{}", folder.join("net.toml").display());
        let told = failure(&["contention", "--on", &fabric, "--clients", "4"]);
        assert!(told.contains("error"), "{told}");
        told
    };
    let four = "hosts n*\nn0 s\nn1 s\nn2 s\nn3 s\n";
    let told = study(four, "");
    assert!(told.contains("4 hosts, and 5 take part"), "{told}");
    let apart = "hosts n*\nn0 s\nn1 s\nn2 s\nn3 s\nn4 t\n";
    let told = study(apart, "");
    assert!(told.contains("n4"), "{told}");
    let told = study("hosts n*\nn0 s s\n", "");
    assert!(told.contains("net.links"), "{told}");
    let told = failure(&["logp", "--on", "sim:am-myrinet@nowhere"]);
    assert!(told.contains("nowhere"), "{told}");
}

#[test]
fn faults_of_a_study_strike_endpoints_as_those_of_the_command_line() {
    let folder = Folder::new();
    let five = "hosts n*\nn0 s\nn1 s\nn2 s\nn3 s\nn4 s\n";
    fs::write(folder.join("net.links"), five).unwrap();
    let text = fs::read_to_string(shipped("studies/virtual-networks/myrinet-100.toml"));
    let text = text.unwrap().replace("myrinet-100.links", "net.links");
    let rows = |fault: &str, options: &[&str]| {
        fs::write(folder.join("net.toml"), format!("{text}{fault}")).unwrap();
        let fabric = format!("sim:am-myrinet@{}", folder.join("net.toml").display());
        let usual = [
            "contention",
            "--on",
            &fabric,
            "--clients",
            "2",
            "--seconds",
            "0.1",
        ];
        json(&[&usual, options].concat())["rows"].clone()
    };
    // Faults of a host alone, its interface alone.
    let dies = "[[fault]]\nkind = \"nic-dies\"\nhost = 0\nat = \"50 ms\"\n";
    let told = rows(dies, &[]);
    assert!(told[1]["ends"]["unreachable"].as_u64() > Some(0), "{told}");
    assert_eq!(told, rows("", &["--fault", "nic 0 dies at 50 ms"]));
    let slow = "[[fault]]\nkind = \"slow-host\"\nhost = 4\nfactor = 3\n";
    let told = rows(slow, &[]);
    assert_eq!(told, rows("", &["--fault", "host 4 slow 3 times"]));
    let rate = |rows: &Value| rows[0]["messages_s"].as_f64().unwrap();
    assert!(rate(&told) < 0.9 * rate(&rows("", &[])), "{told}");
    // A host that takes no part may die.
    let of_study = "[[fault]]\nkind = \"loss\"\nrate = \"2 %\"\n\
                    [[fault]]\nkind = \"host-dies\"\nhost = 3\nat = \"1 ms\"\n";
    let of_study = rows(of_study, &[]);
    assert_eq!(of_study, rows("", &["--fault", "loss 2 %"]));
    assert_ne!(of_study, rows("", &[]));
}

/// Rows of contention on the simulated interface, by server, frames and clients.
fn contention(options: &[&str]) -> Vec<Value> {
    let report = json(
        &[
            &["contention", "--on", "sim:am-myrinet", "--seconds", "0.2"],
            options,
        ]
        .concat(),
    );
    assert_eq!(report["test"], "contention");
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn a_shared_endpoint_drops_once_the_credits_of_three_clients_exceed_its_queue() {
    let rows = contention(&["--server", "one", "--clients", "1..4"]);
    assert_eq!(rows.len(), 4);
    let rate = |row: usize| number(&rows[row], "messages_s");
    assert!((rate(1) / rate(0) - 1.0).abs() < 0.02, "{rows:?}");
    assert!(rate(2) < 0.9 * rate(1) && rate(3) < rate(2), "{rows:?}");
    for (row, has_refusals) in [(0, false), (1, false), (2, true), (3, true)] {
        assert_eq!(
            number(&rows[row], "nacks_s") > 0.0,
            has_refusals,
            "{}",
            rows[row]
        );
    }
    // In proportion: each client the same share.
    for row in &rows[..2] {
        assert!(
            number(row, "client_min_s") > 0.99 * number(row, "client_max_s"),
            "{row}"
        );
    }
}

#[test]
fn with_eight_frames_remapping_begins_at_the_ninth_client_and_with_96_never() {
    let rows = contention(&["--server", "st,mt", "--clients", "8,9,24"]);
    let told: Vec<(String, u64, u64)> = rows
        .iter()
        .map(|row| {
            let server = row["server"].as_str().unwrap().to_owned();
            (
                server,
                row["frames"].as_u64().unwrap(),
                row["clients"].as_u64().unwrap(),
            )
        })
        .collect();
    let mut wanted = Vec::new();
    for server in ["st", "mt"] {
        for frames in [8, 96] {
            wanted.extend([8, 9, 24].map(|clients| (server.to_owned(), frames, clients)));
        }
    }
    assert_eq!(told, wanted);
    for row in &rows {
        let is_remapped = row["frames"] == 8 && row["clients"] != 8;
        assert_eq!(number(row, "remaps_s") > 0.0, is_remapped, "{row}");
        assert!(
            number(row, "messages_s") > 0.75 * number(&rows[0], "messages_s"),
            "{row}"
        );
        let latency = &row["latency_us"];
        assert!(number(latency, "min") <= number(latency, "median"), "{row}");
        assert!(number(latency, "median") <= number(latency, "p99"), "{row}");
        if is_remapped {
            // Those that met a remap, and those that met none.
            let modes = latency["modes"].as_array().unwrap();
            let (first, last) = (&modes[0], &modes[modes.len() - 1]);
            assert!(
                modes.len() >= 2 && number(last, "us") > 5.0 * number(first, "us"),
                "{row}"
            );
        }
    }
}

#[test]
fn bulk_requests_contend_for_the_bus() {
    let rows = contention(&[
        "--server",
        "mt",
        "--frames",
        "96",
        "--clients",
        "4",
        "--bytes",
        "8192",
    ]);
    // 46.8 MB/s into host memory.
    assert_near(number(&rows[0], "mbyte_s"), 46.8);
    assert_near(
        number(&rows[0], "messages_s") * 8192.0 / 1e6,
        number(&rows[0], "mbyte_s"),
    );
}

#[test]
fn clients_that_are_processes_all_get_something() {
    for (server, clients, bytes) in [("one", "2", "16"), ("st", "3", "8192"), ("mt", "2", "16")] {
        let report = json(&[
            "contention",
            "--on",
            "shm",
            "--server",
            server,
            "--clients",
            clients,
            "--bytes",
            bytes,
            "--frames",
            "8",
            "--seconds",
            "0.5",
        ]);
        let row = &report["rows"][0];
        assert_eq!(row["clients"].to_string(), clients);
        assert!(
            number(row, "messages_s") >= number(row, "client_max_s"),
            "{row}"
        );
        assert!(number(row, "client_max_s") > 0.0, "{row}");
        assert!(number(&row["latency_us"], "mean") > 0.0, "{row}");
        assert_eq!(number(row, "remaps_s"), 0.0, "{row}");
    }
}

#[test]
fn more_processes_than_connections_that_stay_have_them_made_again() {
    let report = json(&[
        "contention",
        "--on",
        "shm",
        "--server",
        "st",
        "--clients",
        "3",
        "--frames",
        "2",
        "--seconds",
        "0.5",
    ]);
    assert!(number(&report["rows"][0], "remaps_s") > 0.0, "{report}");
}

#[test]
fn a_plot_of_contention_has_all_five_set_ups() {
    let directory = Folder::new();
    let plot = directory.join("contention.svg");
    let output = run(&[
        "contention",
        "--on",
        "sim:am-myrinet",
        "--clients",
        "1,2",
        "--seconds",
        "0.01",
        "--plot",
        plot.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let picture = fs::read_to_string(&plot).unwrap();
    for name in [
        "one",
        "st, 8 frames",
        "st, 96 frames",
        "mt, 8 frames",
        "mt, 96 frames",
    ] {
        assert!(picture.contains(name), "no {name} in the plot");
    }
    // A header and ten rows, with a title, a blank line.
    assert_eq!(text(&output.stdout).lines().count(), 13);
}

#[test]
fn what_contention_cannot_do_is_told() {
    for (arguments, words) in [
        (
            &["contention", "--on", "sim:gam-myrinet"][..],
            "sim:am-myrinet",
        ),
        (&["contention", "--on", "shm", "--bytes", "9000"], "8192"),
        (&["contention", "--on", "shm", "--seconds", "0"], "3600"),
        (&["contention", "--on", "shm", "--sizes", "16"], "--bytes"),
        (
            &["contention", "--on", "shm", "--iterations", "9"],
            "--seconds",
        ),
        (
            &["contention", "--on", "shm", "--mode", "block"],
            "`--mode`",
        ),
        (&["logp", "--on", "shm", "--clients", "2"], "`--clients`"),
        (&["latency", "--on", "shm", "--frames", "8"], "`--frames`"),
    ] {
        let told = failure(arguments);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    for wrong in [
        ["--clients", "0..4"],
        ["--clients", "65"],
        ["--frames", "0"],
        ["--server", "two"],
    ] {
        let output = run(&[&["contention", "--on", "shm"][..], &wrong].concat());
        assert_ne!(output.status.code(), Some(0), "{wrong:?}");
    }
}

/// Time sharing, each process with a tenth of a second of computing.
fn timesharing(options: &[&str]) -> Value {
    let arguments = ["timesharing", "--on", "sim:am-myrinet", "--seconds", "0.1"];
    json(&[&arguments, options].concat())
}

#[test]
fn programs_that_share_hosts_are_far_slower_if_they_only_spin() {
    let report = timesharing(&["--programs", "2", "--wait", "spin,two-phase"]);
    assert_eq!(report["test"], "timesharing");
    assert_eq!(report["hosts"], 16);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let [spin, two_phase] = [0, 1].map(|row| number(&rows[row], "ratio"));
    assert!(spin > 4.0 && two_phase < 1.5, "{report}");
    for row in rows {
        let ratio = number(row, "together_s") / number(row, "one_by_one_s");
        assert!((ratio - number(row, "ratio")).abs() < 1e-9, "{row}");
        assert!(number(&row["shares"], "computing") > 0.0, "{row}");
    }
    // Turns that end together are nearly as good as one program after the other.
    let aligned = timesharing(&["--programs", "2", "--phases", "aligned"]);
    assert!(number(&aligned["rows"][0], "ratio") < 1.02, "{aligned}");
}

#[test]
fn time_sharing_has_a_row_for_each_set_up_and_the_same_again_for_a_seed() {
    let options = [
        "--programs",
        "1..2",
        "--wait",
        "block",
        "--grain",
        "2ms,4ms",
        "--imbalance",
        "0,50",
        "--pattern",
        "neighbours,all",
        "--quantum",
        "20 ms",
        "--seed",
        "7",
    ];
    let report = timesharing(&options);
    assert_eq!(report["rows"].as_array().unwrap().len(), 16);
    assert_eq!(number(&report, "quantum_us"), 20_000.0);
    assert_eq!(report, timesharing(&options));
    let table = run(&["timesharing", "--on", "sim:am-myrinet", "--seconds", "0.01"]);
    // Three numbers of programs, three ways to wait.
    let lines = text(&table.stdout).lines().count();
    assert_eq!(lines, 2 + 1 + 1 + 9 + 2, "{}", text(&table.stdout));
}

#[test]
fn what_time_sharing_cannot_do_is_told() {
    for (options, words) in [
        (&["--on", "shm"][..], "sim:am-myrinet"),
        (&["--on", "sim:gam-myrinet"], "sim:am-myrinet"),
        (&["--on", "sim:am-myrinet", "--clients", "2"], "`--clients`"),
        (&["--on", "sim:am-myrinet", "--frames", "1"], "2 frames"),
        (
            &["--on", "sim:am-myrinet", "--quantum", "40us"],
            "--quantum",
        ),
        (&["--on", "sim:am-myrinet", "--grain", "0 us"], "rounds"),
        (&["--on", "sim:am-myrinet", "--programs", "17"], "16"),
        (
            &[
                "--on",
                "sim:am-myrinet",
                "--phases",
                "aligned",
                "--wait",
                "block",
            ],
            "--wait spin",
        ),
    ] {
        let told = failure(&[&["timesharing"], options].concat());
        assert!(told.contains(words), "{options:?}: {told}");
    }
    let told = failure(&["contention", "--on", "sim:am-myrinet", "--programs", "2"]);
    assert!(told.contains("`--programs`"), "{told}");
    let told = failure(&["latency", "--on", "shm", "--quantum", "1 ms"]);
    assert!(told.contains("`--quantum`"), "{told}");
}

#[test]
fn contention_goes_on_while_hosts_reboot_and_switches_are_exchanged() {
    let report = json(&[
        "contention",
        "--on",
        "sim:am-myrinet",
        "--server",
        "mt",
        "--frames",
        "8",
        "--clients",
        "6",
        "--seconds",
        "1",
        "--fault",
        "host 0 reboots at 200 ms for 50 ms",
        "--fault",
        "link switch spine1 down 100 ms..400 ms",
        "--fault",
        "link leaf0 <-> spine2 down 500 ms..",
        "--fault",
        "link host 3 down 700 ms..720 ms",
        "--fault",
        "host 2 dies at 600 ms",
        "--fault",
        "link leaf1 -> spine3 down 800 ms..900 ms",
    ]);
    let row = &report["rows"][0];
    assert!(number(row, "messages_s") > 50_000.0, "{row}");
    let ends = &row["ends"];
    let of = |key| ends[key].as_u64().unwrap();
    let returned = of("refused") + of("unreachable") + of("rebooted") + of("unanswered");
    assert!(returned > 0 && of("in_doubt") <= returned, "{ends}");
    assert!((1..=32).contains(&of("forgotten")), "{ends}");
    let all = of("replied") + returned + of("forgotten") + of("open");
    assert_eq!(all, of("requests"), "{ends}");
    assert!(of("open") <= 6 * 32, "{ends}");
}

#[test]
fn faults_that_cannot_be_are_told() {
    let simulated = ["contention", "--on", "sim:am-myrinet", "--clients", "1"];
    for (fault, words) in [
        ("host 99 reboots at 1 ms for 2 ms", "0 to 24"),
        ("host 1 reboots", "when"),
        ("host 1 reboots at noon for 2 ms", "noon"),
        ("link switch spine9 down 1 ms..2 ms", "spine9"),
        ("link leaf0 <-> leaf1 down 1 ms..2 ms", "leaf1"),
        ("loss 1 % on host 99", "99"),
        ("link host 1 down 2 ms..1 ms", "ends before"),
        ("nonsense", "host 1 reboots at 5 ms"),
    ] {
        let told = failure(&[&simulated[..], &["--fault", fault]].concat());
        assert!(told.contains(words), "{fault}: {told}");
    }
    let told = failure(&[
        "contention",
        "--on",
        "shm",
        "--fault",
        "host 1 dies at 1 ms",
    ]);
    assert!(told.contains("sim:am-myrinet"), "{told}");
}

/// A client has 32 requests outstanding, so that by Little's law the mean latency is 32 over its
/// rate; latencies are right to 6 %.
#[test]
fn clients_contend_for_a_host_with_vis() {
    for (fabric, seconds) in [
        ("sim:clan-pio", "0.01"),
        ("sim:m-via", "0.01"),
        ("sim:rnic-gen5", "0.001"),
    ] {
        let options = ["contention", "--on", fabric, "--server", "one,st"];
        let options = [&options[..], &["--clients", "1,4", "--frames", "8"]].concat();
        let options = [&options[..], &["--seconds", seconds]].concat();
        let report = json(&options);
        assert_eq!(report["rows"], json(&options)["rows"], "{fabric}");
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4, "{fabric}");
        for row in rows {
            let number = |key: &str| row[key].as_f64().unwrap();
            let outstanding = number("messages_s") * row["latency_us"]["mean"].as_f64().unwrap();
            let wanted = 32.0 * number("clients") * 1e6;
            assert!((outstanding / wanted - 1.0).abs() < 0.08, "{fabric}: {row}");
            assert!(
                number("client_min_s") > 0.8 * number("client_max_s"),
                "{row}"
            );
        }
        let rate = |row: usize| rows[row]["messages_s"].as_f64().unwrap();
        // One server has work enough with one client, or nearly so.
        assert!(
            (0.9..1.6).contains(&(rate(1) / rate(0))),
            "{fabric}: {rows:?}"
        );
    }
    let error = failure(&["contention", "--on", "sim:clan-pio", "--server", "mt"]);
    assert!(error.contains("not switched between"), "{error}");
}

#[test]
fn a_graph_of_operations_is_around_no_programs() {
    let told = failure(&["logp", "--on", "sim:clan@speed-up"]);
    assert!(told.contains("those of a graph of operations"), "{told}");
}
