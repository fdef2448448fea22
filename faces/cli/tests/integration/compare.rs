//! `viaduct compare` from outside: the same posts at several levels.

use crate::support::{Folder, text};

#[test]
fn levels_are_compared_message_by_message() {
    let folder = Folder::small();
    let arguments = ["compare", "small.toml", "--seeds", "2", "--json", "--quiet"];
    let printed = folder.succeed(&arguments);
    let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let levels = compared["levels"].as_array().unwrap();
    let names: Vec<_> = levels.iter().map(|level| &level["level"]).collect();
    // The study's own first, then the others.
    assert_eq!(names[0], "fluid");
    for name in ["max-min", "queues"] {
        assert!(names.iter().any(|it| *it == name), "{names:?}");
    }
    assert!(levels[0]["difference"].is_null());
    let mean = |level: &serde_json::Value| level["mean_us"]["mean"].as_f64().unwrap();
    for level in &levels[1..] {
        let difference = &level["difference"];
        assert!(difference["pairs"].as_u64().unwrap() > 1_000, "{level}");
        assert_eq!(difference["unpaired"], 0, "{level}");
        // The sample of so small a run has every message, so the difference is that of the means.
        let means = mean(level) - mean(&levels[0]);
        let paired = difference["mean_us"]["mean"].as_f64().unwrap();
        assert!((paired - means).abs() < 1e-6 * mean(level), "{level}");
    }
    // A level's runs are those of `viaduct run`.
    let run = ["run", "small.toml", "--set", "links.model=queues"];
    let run = folder.succeed(&[&run[..], &["--json", "--no-out", "--quiet"]].concat());
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let queues = levels.iter().find(|it| it["level"] == "queues").unwrap();
    assert_eq!(queues["digests"][0], run["digest"]);
}

#[test]
fn levels_that_the_networks_preset_fits_are_compared_unless_others_are_named() {
    let folder = Folder::small();
    let arguments = ["compare", "small.toml", "--json", "--quiet"];
    let printed =
        folder.succeed(&[&arguments[..], &["--set", "links.preset=infiniband-edr"]].concat());
    let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let levels = compared["levels"].as_array().unwrap();
    let names: Vec<_> = levels.iter().map(|level| &level["level"]).collect();
    assert_eq!(names, ["fluid", "max-min", "queues", "credits"]);
}

#[test]
fn a_level_that_cannot_stand_for_another_is_warned_of() {
    let folder = Folder::small();
    let compared = |rate: &str| {
        let size = "traffic.size=32 KiB";
        let rate = format!("traffic.rate={rate}");
        let arguments = ["compare", "small.toml", "--levels", "queues,fluid"];
        let settings = ["--set", size, "--set", &rate];
        let output = folder.run(&[&arguments[..], &settings].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (table, warned) = compared("100/s");
    assert!(table.contains("minus queues, us"), "{table}");
    assert!(!warned.contains("at `fluid` messages take"), "{warned}");
    let (_, warned) = compared("1500/s");
    assert!(warned.contains("at `fluid` messages take"), "{warned}");
    assert!(warned.contains("longer than at `queues`"), "{warned}");
}

#[test]
fn the_critical_path_at_each_level_is_that_of_the_level() {
    let folder = Folder::with("study.toml", crate::critical_path::SLOW);
    let compare = [
        "compare",
        "study.toml",
        "--levels",
        "queues,fluid",
        "--critical-path",
    ];
    let printed = folder.succeed(&[&compare[..], &["--json", "--quiet"]].concat());
    let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let table = folder.succeed(&[&compare[..], &["--quiet"]].concat());
    assert!(table.contains("critical path, us"), "{table}");
    for level in compared["levels"].as_array().unwrap() {
        let model = format!("links.model={}", level["level"].as_str().unwrap());
        let why = [
            "why",
            "study.toml",
            "--critical-path",
            "--json",
            "--set",
            &model,
        ];
        let why: serde_json::Value = serde_json::from_str(&folder.succeed(&why)).unwrap();
        assert_eq!(level["critical_path"], why["parts"], "{model}");
    }
    let levels = &compared["levels"];
    assert_ne!(levels[0]["critical_path"], levels[1]["critical_path"]);
    let small = Folder::small();
    let error = small.failure(1, &["compare", "small.toml", "--critical-path", "--quiet"]);
    assert!(error.contains("small has no critical path"), "{error}");
}

#[test]
fn flows_that_nobody_counts_are_not_shown_as_none() {
    let study = "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1280 Mbit/s\"\n\
                 [hosts]\nnic = \"am-myrinet\"\n[traffic]\ncollective = \"all-to-all\"\n";
    let folder = Folder::with("study.toml", study);
    let arguments = ["compare", "study.toml", "--levels", "max-min,fluid"];
    let printed = folder.succeed(&[&arguments[..], &["--json", "--quiet"]].concat());
    let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
    for level in compared["levels"].as_array().unwrap() {
        assert_eq!(level["link_flows_max"], serde_json::Value::Null);
        assert!(level["busiest_link"].as_f64().unwrap() > 0.0, "{level}");
        assert!(level["p50_us"].as_f64().unwrap() > 0.0, "{level}");
    }
}

#[test]
fn a_key_of_one_level_is_for_that_level_alone() {
    let folder = Folder::small();
    let digests = |set: &[&str]| {
        let compare = ["compare", "small.toml", "--levels", "fluid,queues"];
        let printed = folder.succeed(&[&compare[..], set, &["--json", "--quiet"]].concat());
        let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let levels = compared["levels"].as_array().unwrap();
        let digest = |level: &serde_json::Value| level["digests"][0].as_str().unwrap().to_owned();
        levels.iter().map(digest).collect::<Vec<_>>()
    };
    let limits = ["--set", "links.arrival=limits"];
    let (free, stricter) = (digests(&[]), digests(&limits));
    assert_eq!(free[0], stricter[0]);
    assert_ne!(free[1], stricter[1]);
    // Also without levels that are named: the study's own is one that does not take it.
    folder.succeed(&[&["compare", "small.toml", "--quiet"], &limits[..]].concat());
    // At no level that is compared it is a mistake.
    let levels = ["compare", "small.toml", "--levels", "fluid,max-min"];
    let error = folder.failure(1, &[&levels[..], &limits].concat());
    assert!(
        error.contains("`arrival` in [links] has no effect here"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = Folder::small();
    let said = |arguments: &[&str]| folder.failure(1, &[&["compare"], arguments].concat());
    let one = said(&["small.toml", "--levels", "fluid"]);
    assert!(one.contains("nothing to compare"), "{one}");
    let twice = said(&["small.toml", "--levels", "fluid,queues,fluid"]);
    assert!(twice.contains("names `fluid` twice"), "{twice}");
    let unknown = said(&["small.toml", "--levels", "fluid,quues"]);
    assert!(unknown.contains("did you mean \"queues\""), "{unknown}");
    let swept = said(&["four-hop"]);
    assert!(swept.contains("--set traffic.size=VALUE"), "{swept}");
}

#[test]
fn a_level_that_stands_still_is_said_and_the_others_are_shown() {
    let rings = "[run]\nuntil = \"20 ms\"\n[network]\ntopology = \"torus\"\ndimensions = [8]\n\
                 hosts_per_switch = 2\n[links]\nmodel = \"credits\"\nrate = \"856 Mbit/s\"\n\
                 frame_payload = \"1000 B\"\nchannel_classes = 1\nchannel_buffer = \"2048 B\"\n\
                 [hosts]\nprepost = \"unlimited\"\n[traffic]\npattern = \"uniform\"\n\
                 arrivals = \"window\"\nwindow = 8\nsize = \"30 KiB\"\n";
    let folder = Folder::with("ring.toml", rings);
    let compare = ["compare", "ring.toml", "--levels", "queues,credits"];
    let output = folder.ended(2, &compare);
    let (table, said) = (text(&output.stdout), text(&output.stderr));
    assert!(
        said.contains("links.model = credits: deadlock at "),
        "{said}"
    );
    assert!(table.contains("`credits` stood still at "), "{table}");
    assert!(!table.contains("`queues` stood still"), "{table}");
    assert!(!table.contains("depends on what has arrived"), "{table}");
    let output = folder.ended(2, &[&compare[..], &["--json"]].concat());
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let still = |level: usize| compared["levels"][level]["standstill_us"].as_f64();
    assert_eq!(still(0), None);
    assert!((0.0..20_000.0).contains(&still(1).unwrap()), "{compared}");
}

#[test]
fn studies_and_values_are_held_against_the_first_seed_by_seed() {
    let torus = "\
[network]
topology = \"torus\"
dimensions = [4, 4]
[links]
rate = \"10 Gbit/s\"
[hosts]
nic = \"rnic-gen4\"
[traffic]
arrivals = \"collective\"
collective = \"all-reduce\"
bytes = \"64 KiB\"
";
    let folder = Folder::with("torus.toml", torus);
    let switch = torus.replace("torus\"\ndimensions = [4, 4]", "switch\"\nhosts = 16");
    std::fs::write(folder.join("switch.toml"), switch).unwrap();
    let compare = [
        "compare",
        "torus.toml",
        "switch.toml",
        "--set",
        "traffic.placement=linear,random",
        "--set",
        "traffic.algorithm=ring,rabenseifner",
        "--seeds",
        "3",
        "--critical-path",
    ];
    let printed = folder.succeed(&[&compare[..], &["--json", "--quiet"]].concat());
    let compared: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let cases = compared["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    assert!(cases[0]["difference"].is_null());
    let makespan = |case: &serde_json::Value| case["makespan_us"]["mean"].as_f64().unwrap();
    for case in cases {
        // Each case is what the study is by itself.
        let mut alone = vec![
            "run".to_owned(),
            format!("{}.toml", case["study"].as_str().unwrap()),
        ];
        for pair in case["set"].as_array().unwrap() {
            let [key, value] = [0, 1].map(|place| pair[place].as_str().unwrap());
            alone.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        alone.extend(["--no-out", "--quiet", "--json"].map(str::to_owned));
        let alone: Vec<&str> = alone.iter().map(String::as_str).collect();
        let run: serde_json::Value = serde_json::from_str(&folder.succeed(&alone)).unwrap();
        assert_eq!(run["digest"], case["digests"][0], "{alone:?}");
        if let Some(difference) = case["difference"].as_object() {
            let less = makespan(case) - makespan(&cases[0]);
            let mean = difference["mean_us"]["mean"].as_f64().unwrap();
            assert!((mean - less).abs() < 1e-6, "{mean} {less}");
        }
    }
    // Chance is in the random placements alone.
    assert_eq!(cases[0]["makespan_us"]["ci95"], 0.0);
    assert!(cases[2]["makespan_us"]["ci95"].as_f64().unwrap() > 0.0);
    let table = folder.succeed(&[&compare[..], &["--quiet"]].concat());
    for title in [
        "all operations us (95 % CI)",
        "minus the first, us",
        "switch random ring",
    ] {
        assert!(table.contains(title), "{table}");
    }
    let placed = "traffic.placement=random,scattered";
    let sweep = [
        "sweep",
        "torus.toml",
        "--set",
        placed,
        "--seeds",
        "3",
        "--out",
        "swept",
    ];
    let swept = folder.succeed(&sweep);
    assert!(swept.contains("all operations us (95 % CI)"), "{swept}");
    let random = swept.lines().find(|line| line.contains("random")).unwrap();
    assert!(random.contains(" +- "), "{swept}");
}
