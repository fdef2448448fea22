//! `viaduct measure --on sim:MODEL` from outside: figures, orderings and shapes of the published
//! systems, none of which is put into the models as such.

use std::process::{Command, Output};

use serde_json::Value;

fn viaduct(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_viaduct"))
        .args(arguments)
        .output()
        .unwrap()
}

/// A figure of each row, by model.
fn rows(test: &str, models: &[&str], options: &[&str], figure: &[&str]) -> Vec<Vec<f64>> {
    let on: Vec<String> = models.iter().map(|model| format!("sim:{model}")).collect();
    let on = on.join(",");
    let mut arguments = vec!["measure", test, "--json", "--on", &on];
    arguments.extend(options);
    let output = viaduct(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = match value {
        Value::Array(reports) => reports,
        report => vec![report],
    };
    reports
        .iter()
        .map(|report| {
            let rows = report["rows"].as_array().unwrap();
            let of = |row: &Value| figure.iter().fold(row.clone(), |at, key| at[*key].clone());
            rows.iter().map(|row| of(row).as_f64().unwrap()).collect()
        })
        .collect()
}

fn latency(models: &[&str], sizes: &str) -> Vec<Vec<f64>> {
    let figure = ["half_rtt_us", "median"];
    rows("latency", models, &["--sizes", sizes], &figure)
}

fn bandwidth(models: &[&str], sizes: &str) -> Vec<Vec<f64>> {
    rows("bandwidth", models, &["--sizes", sizes], &["mbyte_s"])
}

#[test]
fn equal_commands_print_equal_figures() {
    let arguments = [
        "measure",
        "cq",
        "--on",
        "sim:clan-dma",
        "--connections",
        "3",
    ];
    let (first, again) = (viaduct(&arguments), viaduct(&arguments));
    assert_eq!(first.status.code(), Some(0));
    assert_eq!(first.stdout, again.stdout);
}

#[test]
fn the_stages_of_a_message_alone_add_up_to_what_is_measured() {
    let models = [
        "clan-pio",
        "clan-dma",
        "giganet-clan",
        "bvia-myrinet",
        "kvia-myrinet",
        "m-via-jumbo",
        "rnic-gen5",
        "ideal",
    ];
    for model in models {
        let on = format!("sim:{model}");
        let sizes = "0,4,200,5000,60000";
        let output = viaduct(&["measure", "latency", "--on", &on, "--sizes", sizes]);
        let text = String::from_utf8(output.stdout).unwrap();
        let together = text.lines().find(|line| line.contains("together"));
        let sums = together.unwrap().split_whitespace().skip(1);
        let sums: Vec<f64> = sums.map(|cell| cell.parse().unwrap()).collect();
        let output = viaduct(&[
            "measure", "latency", "--on", &on, "--sizes", sizes, "--json",
        ]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!((rows.len(), sums.len()), (5, 5), "{model}");
        for (row, sum) in rows.iter().zip(&sums) {
            let measured = row["half_rtt_us"]["median"].as_f64().unwrap();
            let stages = row["stages_us"].as_object().unwrap();
            let us = |name: &str| stages[name].as_f64().unwrap();
            let added: f64 = stages.keys().map(|name| us(name)).sum();
            // The clock of programs counts nanoseconds, the table a thousandth of a microsecond.
            assert!((sum - measured).abs() < 0.002, "{model}: {row} {sum}");
            assert!((added - measured).abs() < 0.001_5, "{model}: {row}");
            assert!(us("post") >= 0.0 && us("transfer") > 0.0, "{model}: {row}");
        }
    }
}

#[test]
fn streams_too_say_where_the_time_of_one_message_goes() {
    let output = viaduct(&[
        "measure",
        "rate",
        "--on",
        "sim:clan-pio,sim:clan-dma",
        "--sizes",
        "4,16",
        "--json",
    ]);
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    for report in reports.as_array().unwrap() {
        let us = |row: usize| report["rows"][row]["stages_us"]["transfer"].as_f64();
        assert!(us(0).unwrap() < us(1).unwrap(), "{report}");
    }
}

#[test]
fn very_small_messages_are_quickest_by_pio() {
    let us = latency(&["clan-pio", "clan-dma", "giganet-clan-linux"], "0,4,16");
    for ((pio, dma), clan) in us[0].iter().zip(&us[1]).zip(&us[2]) {
        assert!(pio < dma && pio < clan, "{us:?}");
    }
}

#[test]
fn dma_dips_where_its_scheduler_stops_writing_itself() {
    let mb_s = bandwidth(&["clan-dma"], "96,128,129,512");
    let [before, at, behind, later] = mb_s[0][..] else {
        panic!("{mb_s:?}");
    };
    assert!(before < at && behind < 0.8 * at && later > at, "{mb_s:?}");
}

#[test]
fn clan_native_leads_dma_but_for_long_messages() {
    let mb_s = bandwidth(
        &["giganet-clan-linux", "clan-dma"],
        "64,256,1KiB,32KiB,65535",
    );
    let leads: Vec<bool> = mb_s[0].iter().zip(&mb_s[1]).map(|(a, b)| a > b).collect();
    assert_eq!(leads, [true, true, true, false, false], "{mb_s:?}");
}

#[test]
fn by_size_is_about_as_good_as_the_better_way() {
    let us = latency(&["clan", "clan-pio", "clan-dma"], "4,128,1KiB,4KiB,32KiB");
    for ((by_size, pio), dma) in us[0].iter().zip(&us[1]).zip(&us[2]) {
        assert!(*by_size <= pio.min(*dma) * 1.001, "{us:?}");
    }
}

#[test]
fn an_adapter_that_chooses_is_never_behind_one_mechanism() {
    let directory = env!("CARGO_TARGET_TMPDIR");
    let one_way = |way: &str| {
        let path = format!("{directory}/kvia-{way}.toml");
        let text = format!(
            "name = \"{way}\"\ninherits = \"kvia-myrinet\"\nmechanism = \"firmware\"\n[firmware]\n\
             ways = {{ value = \"{way}\", source = \"a test\", confidence = \"assumed\" }}\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let (staged, streamed) = (one_way("staged"), one_way("streamed"));
    let sizes = "0,4,64,256,1KiB,4KiB,16KiB,64KiB";
    let us = latency(&["kvia-myrinet", &staged, &streamed], sizes);
    let mut is_ahead_of = [false; 2];
    for (row, adaptive) in us[0].iter().enumerate() {
        for (other, ahead) in is_ahead_of.iter_mut().enumerate() {
            let single = us[other + 1][row];
            assert!(*adaptive <= single * 1.001, "{us:?}");
            *ahead |= *adaptive < single * 0.95;
        }
    }
    assert_eq!(is_ahead_of, [true, true], "{us:?}");
}

#[test]
fn requests_into_one_queue_do_not_fall_with_load() {
    let models = ["giganet-clan-linux", "clan-pio", "clan-dma"];
    let options = ["--connections", "4,16,64"];
    let per_second = rows("cq", &models, &options, &["requests_s"]);
    for model in &per_second {
        assert!(model.is_sorted_by(|a, b| *b >= a * 0.999), "{per_second:?}");
    }
    let last = |model: usize| per_second[model][2];
    assert!(last(0) > last(1) && last(1) > last(2), "{per_second:?}");
}

#[test]
fn requests_answered_follow_the_offered_load_and_stay_where_they_end() {
    let models = ["giganet-clan-linux", "clan-pio", "clan-dma"];
    let plot = format!("{}/offered-load.svg", env!("CARGO_TARGET_TMPDIR"));
    // One interrupt per message bounds CLAN near 100,000.
    let loads = [25, 75, 450, 700, 1000];
    let options = ["--load", "25k,75k,450k,700k,1M", "--plot", &plot];
    let answered = rows("cq", &models, &options, &["mean_requests_s"]);
    for model in &answered {
        for (answered, load) in model.iter().zip(&loads[..2]) {
            let share = answered / f64::from(load * 1000);
            assert!((share - 1.0).abs() < 0.005, "{share}");
        }
        // Flat: more clients' wishes cost the server nothing.
        for beyond in &model[3..] {
            assert!((beyond / model[2] - 1.0).abs() < 0.005, "{answered:?}");
        }
    }
    let most = |model: usize| answered[model][4];
    assert!(
        most(0) > 1.1 * most(1) && most(1) > 1.1 * most(2),
        "{answered:?}"
    );
    let picture = std::fs::read_to_string(&plot).unwrap();
    assert!(picture.contains("offered load, requests/s") && picture.contains("64 connections"));
}

#[test]
fn several_hosts_ask_one_and_what_they_get_adds_up() {
    let models = ["giganet-clan-linux", "clan-pio", "clan-dma"];
    let asked = |options: &[&str]| rows("cq", &models, options, &["mean_requests_s"]);
    // 66 connections are not the same number for each of 4 hosts.
    let loads = ["--connections", "66", "--load", "25k,75k,450k,1M"];
    let one = asked(&loads);
    let four = asked(&[&loads[..], &["--hosts", "4"]].concat());
    for (one, four) in one.iter().zip(&four) {
        for (answered, load) in four.iter().zip([25_000.0, 75_000.0]) {
            assert!((answered / load - 1.0_f64).abs() < 0.005, "{four:?}");
        }
        // The host that is asked does most of the work, and it is one.
        for (one, four) in one.iter().zip(four) {
            assert!((four / one - 1.0).abs() < 0.1, "{one} from one, {four}");
        }
        assert!((four[3] / four[2] - 1.0).abs() < 0.01, "flat: {four:?}");
    }
    assert!(
        four[0][3] > four[1][3] && four[1][3] > four[2][3],
        "{four:?}"
    );
    let most = asked(&["--connections", "66", "--hosts", "4"]);
    for (most, loaded) in most.iter().zip(&four) {
        assert!(
            (most[0] / loaded[3] - 1.0).abs() < 0.02,
            "{most:?} {four:?}"
        );
    }
    let table = viaduct(&[
        "measure", "cq", "--on", "sim:clan", "--hosts", "4", "--load", "9k",
    ]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains(", 4 client hosts"), "{table}");
}

#[test]
fn loads_are_chosen_around_the_most_of_all_fabrics() {
    let options = [
        "--load",
        "auto",
        "--connections",
        "16",
        "--iterations",
        "1600",
    ];
    let models = ["clan-pio", "clan-dma"];
    let offered = rows("cq", &models, &options, &["offered_requests_s"]);
    let most = rows("cq", &models, &["--connections", "16"], &["requests_s"])[0][0];
    assert_eq!(offered[0], offered[1]);
    assert!(offered[0].is_sorted_by(|a, b| a < b), "{offered:?}");
    let (least, greatest) = (offered[0][0], offered[0][offered[0].len() - 1]);
    assert!(
        least < 0.2 * most && greatest > 1.4 * most,
        "{offered:?} {most}"
    );
}

#[test]
fn sleeping_costs_an_interrupt_and_a_wake_up() {
    let figure = ["half_rtt_us", "median"];
    let of = |mode| {
        rows(
            "latency",
            &["m-via"],
            &["--sizes", "4", "--mode", mode],
            &figure,
        )
    };
    let (polling, sleeping) = (of("poll")[0][0], of("block")[0][0]);
    // 6.7 and 1.5 us, less the polling's own 0.2 us.
    assert!(
        (sleeping - polling - 8.0).abs() < 0.3,
        "{polling} {sleeping}"
    );
}

#[test]
fn a_study_lends_its_network() {
    let figure = ["half_rtt_us", "median"];
    let in_network = |options: &[&str]| {
        let hosts = ["giganet-clan-linux@four-hop"];
        let sizes = [&["--sizes", "64"], options].concat();
        rows("latency", &hosts, &sizes, &figure)[0][0]
    };
    let alone = latency(&["giganet-clan-linux"], "64")[0][0];
    let quiet = in_network(&["--no-traffic"]);
    // Three more switches and cables.
    assert!(
        quiet > alone + 0.5 && quiet < alone + 10.0,
        "{alone} {quiet}"
    );
}

#[test]
fn what_is_measured_amid_a_study_and_what_was_around_it_are_told() {
    let measure = [
        "measure",
        "latency",
        "--on",
        "sim:giganet-clan@torus-1024",
        "--sizes",
        "32KiB",
        "--iterations",
        "20",
    ];
    let json = |options: &[&str]| -> Value {
        let output = viaduct(&[&measure[..], options, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (amid, quiet) = (json(&["--links"]), json(&["--links", "--no-traffic"]));
    let us = |report: &Value| report["rows"][0]["half_rtt_us"]["p99"].as_f64().unwrap();
    assert!(
        us(&amid) > 1.05 * us(&quiet),
        "{} {}",
        us(&amid),
        us(&quiet)
    );
    let of = |name: &str| amid["around"][name].as_f64().unwrap();
    // The study's warm-up is 1.5 s; then 1024 hosts send 100 messages a second each.
    let (begun, ended) = (of("begun_us"), of("ended_us"));
    assert!(
        begun == 1.5e6 && ended > begun + 10_000.0,
        "{begun} {ended}"
    );
    let rate = of("messages_posted") / (ended - begun) * 1e6;
    assert!((rate / 102_400.0 - 1.0).abs() < 0.1, "{rate}");
    let over = of("messages_delivered") + of("messages_dropped") + of("messages_in_flight");
    assert_eq!(of("messages_posted"), over);
    assert_eq!(quiet["around"], Value::Null);
    let links = |report: &Value| report["links"].as_array().unwrap().len();
    assert!(links(&amid) > 2000 && links(&quiet) < 30);

    let text = viaduct(&[&measure[..], &["--why", "slowest"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    for part in ["  around: ", " of the study up to ", "study's "] {
        assert!(text.contains(part), "{text}");
    }
    for nowhere in ["sim:clan", "shm"] {
        let told = refusal(&["measure", "latency", "--on", nowhere, "--no-traffic"]);
        assert!(told.contains("the network of a study"), "{told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    let study = "[run]\nuntil = \"1 s\"\n[network]\ntopology = \"switch\"\nhosts = 2\n[links]\n\
                 rate = \"1 Gbit/s\"\n[hosts]\nnic = \"ideal\"\n[traffic]\nsize = \"70000 B\"\n\
                 pattern = \"uniform\"\nrate = \"10/s\"\n";
    std::fs::write(&path, study).unwrap();
    let on = format!("sim:giganet-clan@{}", path.display());
    let told = refusal(&["measure", "latency", "--on", &on]);
    let wanted = "have up to 70000 bytes, and the adapters take 65535";
    assert!(told.contains(wanted), "{told}");
    assert!(told.contains("`--no-traffic` leaves"), "{told}");
}

/// What a measurement of clan-pio under a fault says: exit code, report, stderr.
fn under(fault: &str, options: &[&str]) -> (Option<i32>, Value, String) {
    let on = [
        "measure",
        "latency",
        "--on",
        "sim:clan-pio",
        "--sizes",
        "8,64",
        "--json",
    ];
    let output = viaduct(&[&on[..], &["--fault", fault], options].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), report, errors)
}

#[test]
fn what_faults_did_is_told_though_the_measurement_broke() {
    for (fault, level, wanted) in [
        ("loss 1 %", "rd", [1, 0, 1]),
        ("loss 1 %", "ud", [1, 0, 0]),
        ("corruption 1 %", "rd", [0, 1, 1]),
        ("corruption 1 %", "ud", [0, 1, 0]),
        ("link host 1 down 1 ms..", "rd", [1, 0, 1]),
        ("link host 1 down 1 ms..", "ud", [1, 0, 1]),
        ("host 1 dies at 1 ms", "rr", [1, 0, 1]),
    ] {
        let (code, report, errors) = under(fault, &["--level", level]);
        let count = |name: &str| report["faults"][name].as_u64().unwrap();
        let names = ["messages_lost", "messages_corrupted", "connections_broken"];
        assert_eq!(names.map(count), wanted, "{fault} {level}: {report}");
        assert_eq!(code, Some(2), "{fault} {level}: {errors}");
        assert!(errors.contains("VIA sends nothing twice"), "{errors}");
        assert_eq!(report["rows"].as_array().unwrap().len(), 0, "{report}");
    }
}

#[test]
fn an_adapter_that_sends_again_is_not_said_to_send_nothing_twice() {
    let on = [
        "measure",
        "latency",
        "--on",
        "sim:rnic-gen4",
        "--sizes",
        "8",
    ];
    let told = |level| {
        let fault = ["--fault", "link host 1 down 50 us..", "--level", level];
        let output = viaduct(&[&on[..], &fault].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for level in ["rd", "ud"] {
        let told = told(level);
        assert!(told.contains("after 7 times without progress"), "{told}");
        assert!(!told.contains("VIA sends nothing twice"), "{told}");
    }
}

#[test]
fn what_faults_strike_follows_the_seed() {
    let lost = |seed: &str| {
        let on = [
            "measure",
            "rate",
            "--on",
            "sim:rnic-gen3",
            "--sizes",
            "8",
            "--json",
        ];
        let output = viaduct(&[&on[..], &["--fault", "loss 2 %", "--seed", seed]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["faults"].to_string(), report["rows"][0].to_string())
    };
    assert_eq!(lost("7"), lost("7"));
    assert_ne!(lost("7"), lost("8"));
    let output = viaduct(&[
        "measure", "rate", "--on", "shm", "--sizes", "8", "--seed", "7",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("`--seed` means nothing for `shm`"),
        "{errors}"
    );
}

#[test]
fn faults_that_break_nothing_change_the_figures_and_are_told() {
    let median = |report: &Value| report["rows"][0]["half_rtt_us"]["median"].as_f64().unwrap();
    let alone = latency(&["clan-pio"], "8")[0][0];
    let (code, report, errors) = under("host 1 slow 3 us a message", &[]);
    assert_eq!((code, &errors[..]), (Some(0), ""));
    // On one of the two ways of a round trip.
    let slower = median(&report) - alone;
    assert!((1.0..=1.6).contains(&slower), "{slower} us: {report}");
    let (code, report, _) = under("link host 1 down 1 s..2 s", &[]);
    assert_eq!(
        (code, report["faults"]["messages_lost"].as_u64()),
        (Some(0), Some(0))
    );
    assert_eq!(median(&report), alone);
}

#[test]
fn a_study_brings_faults_and_background_traffic() {
    let path = format!("{}/shared-link.toml", env!("CARGO_TARGET_TMPDIR"));
    let study = "[run]\nuntil = \"10 ms\"\n[network]\ntopology = \"chain\"\nswitches = 2\n\
                 [links]\nrate = \"1 Gbit/s\"\n[traffic]\npattern = \"uniform\"\nrate = \"100/s\"\n\
                 size = \"64 B\"\n";
    std::fs::write(&path, study).unwrap();
    let on = format!("clan-dma@{path}");
    let alone = bandwidth(&[&on], "32KiB")[0][0];
    let background = "[[background]]\nsource = 0\ntarget = 1\ninterval = \"100 us\"\nsize = \"4 KiB\"\n\
                      [[fault]]\nkind = \"slow-host\"\nhost = 0\nfactor = 1.5\n";
    std::fs::write(&path, format!("{study}{background}")).unwrap();
    let beside = bandwidth(&[&on], "32KiB")[0][0];
    assert!(beside < 0.9 * alone, "{beside} {alone}");
    let on = format!("sim:{on}");
    let output = viaduct(&["measure", "bandwidth", "--on", &on, "--sizes", "32KiB"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("  faults: in ") && text.contains("background transfers "),
        "{text}"
    );
    // Its own traffic meets the same.
    let mean = |path: &str| {
        let out = format!("{path}-run");
        let output = viaduct(&["run", path, "--json", "--out", &out, "--force"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        let result: Value = serde_json::from_str(&text).unwrap();
        result["latency_us"]["mean"].as_f64().unwrap()
    };
    let disturbed = mean(&path);
    std::fs::write(&path, study).unwrap();
    let undisturbed = mean(&path);
    assert!(disturbed > undisturbed, "{disturbed} {undisturbed}");
}

#[test]
fn what_does_not_go_is_told() {
    for (arguments, wanted) in [
        (&["--on", "sim:clan-poi"][..], "clan-pio"),
        (&["--on", "sim:clan@no-such-study"], "no-such-study"),
        (
            &["--on", "sim:clan", "--transfer", "pool"],
            "--transfer pool",
        ),
        (&["--on", "sim:m-via", "--sizes", "1MiB"], "65535"),
        (&["--on", "simulated"], "sim:MODEL"),
        (
            &["--on", "sim:clan", "--fault", "link 0-1 down 1 ms.."],
            "s0 <-> s1",
        ),
        (&["--on", "shm", "--fault", "loss 1 %"], "--on sim:clan-pio"),
        (&["--on", "sim:clan", "--load", "50k"], "viaduct measure cq"),
        (&["--on", "sim:clan", "--hosts", "2"], "viaduct measure cq"),
        (&["--on", "shm", "--hosts", "2"], "--on sim:clan-pio"),
        (
            &["--on", "sim:clan@two-hosts", "--hosts", "2"],
            "has no 2 hosts beside the one",
        ),
    ] {
        let output = viaduct(&[&["measure", "latency"], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains(wanted), "{arguments:?}: {errors}");
    }
    for (options, wanted) in [
        (&["--load", "50k,auto"][..], "give `--load auto` alone"),
        (
            &["--load", "50k", "--connections", "1,4"],
            "`--connections 64`",
        ),
        (&["--load", "50KB"], "50000 or 50k, or auto"),
        (&["--load", "0"], "50000 or 50k, or auto"),
        (
            &["--hosts", "9", "--connections", "4"],
            "cannot come from 9 hosts",
        ),
    ] {
        let output = viaduct(&[&["measure", "cq", "--on", "sim:clan"], options].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{options:?}: {errors}");
        assert!(errors.contains(wanted), "{options:?}: {errors}");
    }
    let output = viaduct(&[
        "run",
        "two-hosts",
        "--set",
        "hosts.nic=am-myrinet",
        "--no-out",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("have no VIs"), "{errors}");
    assert!(errors.contains("see traffic.arrivals"), "{errors}");
}

/// What a command prints on stderr that must fail.
fn refusal(arguments: &[&str]) -> String {
    let output = viaduct(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn messages_and_links_of_a_measurement_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, report) = (path("a.pftrace"), path("a.html"));
    let measure = ["measure", "latency", "--sizes", "64", "--iterations", "20"];
    let on = ["--on", "sim:giganet-clan@four-hop", "--no-traffic"];
    let looks = ["--links", "--why", "0.5", "--json"];
    let files = ["--trace", &trace, "--report", &report];
    let output = viaduct(&[&measure[..], &on, &looks, &files].concat());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let links = value["links"].as_array().unwrap();
    // Both ways over four links between five switches, and to two hosts.
    assert_eq!(links.len(), 12);
    let busiest = |link: &Value| link["busy_fraction"].as_f64().unwrap();
    assert!(links.iter().all(|link| (0.0..1.0).contains(&busiest(link))));
    let whole = value["rows"][0]["half_rtt_us"]["median"].as_f64().unwrap();
    let explained = value["why"]["latency_ps"].as_u64().unwrap() as f64 / 1e6;
    assert!((whole - explained).abs() < 1e-6, "{whole} {explained}");
    assert!(std::fs::read(&trace).unwrap().len() > 1000);
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("Where the time goes") && page.contains("busiest links"));

    let plain = viaduct(&[&measure[..], &on, &["--links", "--why", "slowest"]].concat());
    let text = String::from_utf8(plain.stdout).unwrap();
    for part in ["busiest of 12 links: ", "the slowest of ", "descriptor"] {
        assert!(text.contains(part), "{text}");
    }

    let two = ["--on", "sim:clan-pio,sim:clan-dma", "--why", "slowest"];
    assert!(refusal(&[&measure[..], &two].concat()).contains("name one"));
    let real = ["--on", "shm", "--links"];
    assert!(refusal(&[&measure[..], &real].concat()).contains("`--links` means nothing for `shm`"));
    let beyond = [&on[..], &["--why", "1000000"]].concat();
    assert!(refusal(&[&measure[..], &beyond].concat()).contains("there is no message 1000000"));
}

#[test]
fn queue_pairs_are_measured_as_perftest_does() {
    let of = |test: &str, sizes: &str| {
        let median: &[&str] = &["latency_us", "median"];
        let is_latency = test.ends_with("latency");
        let figure = if is_latency { median } else { &["mbyte_s"] };
        rows(test, &["rnic-gen5"], &["--sizes", sizes], figure).remove(0)
    };
    let (send, write, read) = (
        of("send-latency", "8,236,237"),
        of("write-latency", "8,220,221"),
        of("read-latency", "8"),
    );
    assert!(
        write[0] < send[0] && send[0] < read[0],
        "{write:?} {send:?} {read:?}"
    );
    // One byte more is not inline: the adapter fetches it.
    for [_, inline, fetched] in [send, write].map(|it| <[f64; 3]>::try_from(it).unwrap()) {
        assert!(fetched - inline > 0.3, "{inline} {fetched}");
    }
    for test in ["send-bandwidth", "write-bandwidth", "read-bandwidth"] {
        let [mebibytes] = of(test, "1MiB").try_into().unwrap();
        // 400 Gbit/s.
        assert!(
            (45_000.0..50_000.0).contains(&mebibytes),
            "{test}: {mebibytes}"
        );
    }
}

#[test]
fn messages_of_queue_pairs_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, report) = (path("a.pftrace"), path("a.html"));
    let of = |test| {
        [
            "measure",
            test,
            "--on",
            "sim:rnic-gen5",
            "--iterations",
            "20",
        ]
    };
    let looks = ["--sizes", "4096", "--links", "--why", "0.5"];
    let files = ["--trace", &trace, "--report", &report, "--json"];
    let output = viaduct(&[&of("read-latency")[..], &looks, &files].concat());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["links"].as_array().unwrap().len(), 4);
    // From the post until the bytes are there; then the program notices and takes the completion.
    let whole = value["rows"][0]["latency_us"]["median"].as_f64().unwrap();
    let explained = value["why"]["latency_ps"].as_u64().unwrap() as f64 / 1e6;
    assert!(
        explained < whole && explained > 0.9 * whole,
        "{whole} {explained}"
    );
    assert!(std::fs::read(&trace).unwrap().len() > 1000);
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("Where the time goes") && page.contains("read-latency"));

    let output = viaduct(&[&of("send-bandwidth")[..], &looks].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["busiest of ", "descriptor", "reap"] {
        assert!(text.contains(part), "{text}");
    }
    let two = ["--sizes", "8,16", "--why", "slowest"];
    assert!(refusal(&[&of("send-latency")[..], &two].concat()).contains("one size"));
}

#[test]
fn what_has_no_queue_pairs_is_not_measured_as_if_it_had() {
    for on in ["sim:clan", "shm", "sim:am-myrinet"] {
        let output = viaduct(&["measure", "write-latency", "--on", on]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            errors.contains("sim:rnic-gen5") || errors.contains("endpoints"),
            "{errors}"
        );
    }
    let mode = [
        "measure",
        "send-latency",
        "--on",
        "sim:rnic-gen5",
        "--mode",
        "block",
    ];
    let output = viaduct(&mode);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("`--mode` means nothing for `send-latency`"),
        "{errors}"
    );
}
