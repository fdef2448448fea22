//! Studies and presets that ship: each loads, and its resolved form loads to the same.

use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::workload::Pattern;
use viaduct_engine::Time;
use viaduct_hardware::{NicModel, Notice};
use viaduct_network::Sharing;
use viaduct_scenario::{
    Confidence, MechanismKind, Override, Study, keys_text, list_models, list_studies,
    load_endpoints, load_preset, load_programs, parse_preset, parse_study,
};

fn load(name: &str) -> Study {
    load_with(name, &[])
}

fn load_with(name: &str, set: &[&str]) -> Study {
    let overrides: Vec<Override> = set.iter().map(|text| Override::fixed(*text)).collect();
    Study::load(name, &overrides).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All of a configuration but the network, whose text is long; its measures stand for it.
fn text_of(config: &ClusterConfig) -> String {
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{}",
        config.links,
        config.switch,
        config.host,
        config.hosts,
        config.traffic,
        config.run,
        config.topology.description(),
    )
}

/// The adapter of a study's hosts, which has VIA of its own.
fn native(config: &ClusterConfig) -> &NicModel {
    match config.host.common().mechanism.native() {
        Some(nic) => nic,
        None => panic!("{} has no VIA of its own", config.host.common().name),
    }
}

#[test]
fn ideal_hosts_have_no_limits_that_nobody_set() {
    let hosts = |set: &[&str]| load_with("two-hosts", set).config.hosts;
    let ideal = hosts(&["hosts.nic=ideal"]);
    assert_eq!((ideal.prepost, ideal.send_buffers), (u32::MAX, u32::MAX));
    assert!(!ideal.is_prepost_chosen);
    let chosen = hosts(&[
        "hosts.nic=ideal",
        "hosts.prepost=8",
        "hosts.send_buffers=unlimited",
    ]);
    assert_eq!((chosen.prepost, chosen.send_buffers), (8, u32::MAX));
    assert!(chosen.is_prepost_chosen);
    assert_eq!(hosts(&["hosts.nic=giganet-clan"]).prepost, 8);
    assert_eq!(hosts(&["hosts.prepost=unlimited"]).prepost, u32::MAX);
    let study = load_with("two-hosts", &["hosts.nic=ideal"]);
    assert!(study.resolved_toml().contains("prepost = \"unlimited\""));
    let again = Study::from_resolved(&study.resolved_toml()).unwrap();
    assert_eq!(again.config.hosts.prepost, u32::MAX);
    assert!(!again.config.hosts.is_prepost_chosen);
}

#[test]
fn every_study_loads_without_a_warning_and_resolves_to_itself() {
    for (name, title, question) in list_studies() {
        assert!(
            !title.is_empty() && !question.is_empty(),
            "{name} says what it is"
        );
        let study = load(name);
        assert_eq!(study.name, name);
        for cell in study.cells() {
            assert!(cell.warnings.is_empty(), "{name}: {}", cell.warnings);
            let resolved = cell.resolved_toml();
            let again = Study::from_resolved(&resolved)
                .unwrap_or_else(|error| panic!("{name}: {error}\n{resolved}"));
            assert_eq!(text_of(&again.config), text_of(&cell.config), "{name}");
            assert_eq!(again.resolved_toml(), resolved, "{name}");
            assert_eq!(again.name, name);
            assert_eq!(again.published, cell.published, "{name}");
        }
    }
}

#[test]
fn every_preset_loads_and_each_number_has_a_source() {
    let models = list_models();
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let all = [
        "giganet-clan",
        "giganet-clan-linux",
        "clan",
        "clan-pio",
        "clan-dma",
        "bvia-myrinet",
        "kvia-myrinet",
        "m-via",
        "m-via-jumbo",
        "rnic-gen3",
        "rnic-gen4",
        "rnic-gen5",
        "gam-myrinet",
        "am-myrinet",
        "ideal",
    ];
    assert_eq!(names, all);
    for model in &models {
        let count = match model.mechanism {
            MechanismKind::Native | MechanismKind::Firmware => 31,
            MechanismKind::RemoteWrites => 41,
            MechanismKind::Kernel => 27,
            MechanismKind::Endpoints if model.name == "am-myrinet" => 58,
            MechanismKind::Endpoints => 49,
            MechanismKind::Rdma => 31,
        };
        assert_eq!(model.numbers.len(), count, "{}", model.name);
        // Each makes hosts for programs, in a network of its own, or interfaces with endpoints.
        if model.has_endpoints() {
            let hosts = load_endpoints(&model.name, 2).expect("interfaces with endpoints");
            assert_eq!(hosts.hosts, 2);
        } else {
            let hosts = load_programs(&model.name, None, 2).expect("hosts for programs");
            assert_eq!(hosts.host.common().name, model.name);
        }
        assert!(model.numbers.iter().all(|number| !number.source.is_empty()));
        let loaded = load_preset(&model.name).expect("a built-in preset");
        assert_eq!(loaded.numbers.len(), model.numbers.len());
    }
}

#[test]
fn a_preset_file_is_named_by_its_path() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/ideal.toml");
    assert_eq!(load_preset(path).expect("the file").name, "ideal");
    let study = load_with("two-hosts", &["nic=ideal"]);
    assert_eq!(study.config.host.common().name, "ideal");
    assert!(native(&study.config).rate.is_infinite());
}

#[test]
fn the_torus_is_the_published_one() {
    let study = load("torus-1024");
    let config = &study.config;
    assert_eq!(
        (config.topology.host_count(), config.topology.switch_count()),
        (1024, 256)
    );
    assert_eq!(config.links.rate.bits_per_second(), 856e6);
    assert_eq!(config.links.host_rate, config.links.rate);
    assert_eq!(config.traffic.pattern, Pattern::StraightLine { hops: 4 });
    assert_eq!(config.traffic.size.max_bytes(), 32768);
    assert_eq!(config.traffic.start, Time::from_milliseconds(1500));
    assert_eq!(config.traffic.stop, Time::from_milliseconds(10_000));
    assert_eq!(config.run.warmup, Time::from_milliseconds(1500));
    match &config.traffic.arrivals {
        Arrivals::Open(interval) => assert_eq!(interval.mean_picoseconds(), 1e10),
        other => panic!("an open loop, not {other:?}"),
    }
}

#[test]
fn the_four_hop_study_runs_over_its_sizes() {
    let study = load("four-hop");
    let cells = study.cells();
    assert_eq!(cells.len(), 11);
    // 1.25 Gbit/s on the wire, of which 8b/10b leaves eight tenths.
    assert_eq!(study.config.links.rate.bits_per_second(), 1e9);
    assert_eq!(
        cells[4].point,
        [("traffic.size".to_owned(), "64 B".to_owned())]
    );
    assert_eq!(cells[4].config.traffic.size.max_bytes(), 64);
    let figures = |cell: &Study| {
        cell.published_here()
            .map(|row| row.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(figures(&cells[4]), [33.2]);
    assert!(figures(&cells[2]).is_empty());
    // The points of a sweep share the network.
    assert!(std::sync::Arc::ptr_eq(
        &cells[0].config.topology,
        &cells[10].config.topology
    ));

    let one = load_with("four-hop", &["traffic.size=64 B"]);
    assert!(one.sweep.is_empty());
    assert_eq!(one.cells().len(), 1);
    assert_eq!(figures(&one), [33.2]);
}

#[test]
fn no_more_than_immediate_data_travels_in_a_descriptor() {
    for study in ["four-hop", "back-to-back"] {
        let config = load(study).config;
        assert_eq!(native(&config).inline_bytes, 4, "{study}");
    }
    let preset = load_preset("giganet-clan").expect("a built-in preset");
    let mut numbers = preset.numbers.iter();
    let inline = numbers.find(|number| (number.table, number.key) == ("nic", "inline"));
    assert_eq!(
        inline.map(|number| number.confidence),
        Some(Confidence::Assumed)
    );
}

#[test]
fn figures_stand_only_beside_what_they_were_published_for() {
    let quantities = |set: &[&str]| {
        let study = load_with("torus-1024", set);
        study
            .published_here()
            .map(|row| row.quantity.clone())
            .collect::<Vec<_>>()
    };
    let mesh = "links.mesh.utilisation_mean";
    let (mean, sd) = ("latency_us.mean", "latency_us.sd");
    assert_eq!(quantities(&[]), [mean, sd, mesh, "events", "wall_s"]);
    assert_eq!(
        quantities(&["seed=7"]),
        [mean, sd, mesh, "events", "wall_s"]
    );
    assert_eq!(quantities(&["run.until=3 s"]), [mean, sd, mesh]);
    assert!(quantities(&["traffic.rate=400/s"]).is_empty());
    assert!(quantities(&["hosts.nic=ideal"]).is_empty());
    assert!(quantities(&["hosts.model.cpu.post=1 us"]).is_empty());
}

#[test]
fn the_million_has_its_hosts() {
    let config = load("torus-million").config;
    assert_eq!(config.topology.host_count(), 1_048_576);
}

#[test]
fn the_torus_can_be_cut_short() {
    let study = load_with("torus-1024", &["run.until=30 ms", "run.warmup=5 ms"]);
    assert_eq!(study.config.traffic.start, Time::from_milliseconds(5));
    assert_eq!(study.config.traffic.stop, Time::from_milliseconds(30));
    assert_eq!(study.value("traffic.start").as_deref(), Some("5 ms"));
}

#[test]
fn sweeps_from_the_command_line_multiply() {
    let overrides = [
        Override::swept("traffic.rate=100,200/s"),
        Override::swept("links.model=fluid, max-min"),
    ];
    let study = Study::load("torus-1024", &overrides).expect("a sweep");
    assert_eq!(study.sweep[0].values, ["100/s", "200/s"]);
    assert_eq!(study.sweep[1].values, ["fluid", "max-min"]);
    let points: Vec<Vec<String>> = study
        .cells()
        .iter()
        .map(|cell| cell.point.iter().map(|(_, value)| value.clone()).collect())
        .collect();
    let expected = [
        ["100/s", "fluid"],
        ["100/s", "max-min"],
        ["200/s", "fluid"],
        ["200/s", "max-min"],
    ];
    assert_eq!(points, expected);
}

#[test]
fn an_interval_takes_the_place_of_a_rate() {
    let study = load_with("torus-1024", &["traffic.interval=20 ms"]);
    assert_eq!(study.value("traffic.rate"), None);
    match &study.config.traffic.arrivals {
        Arrivals::Open(interval) => assert_eq!(interval.mean_picoseconds(), 2e10),
        other => panic!("an open loop, not {other:?}"),
    }
}

#[test]
fn another_choice_leaves_keys_of_the_file_aside() {
    let study = load_with(
        "torus-1024",
        &["traffic.pattern=uniform", "arrivals=window", "window=2"],
    );
    assert_eq!(study.config.traffic.pattern, Pattern::Uniform);
    assert_eq!(study.value("traffic.hops"), None);
    assert!(!study.resolved_toml().contains("\nhops"));
}

#[test]
fn single_numbers_of_the_hardware_can_be_set() {
    let study = load_with(
        "two-hosts",
        &["nic.doorbell=3 us", "hosts.completion=interrupt"],
    );
    assert_eq!(native(&study.config).doorbell, Time::from_microseconds(3));
    assert!(matches!(
        study.config.host.common().notice(),
        Notice::Interrupt { .. }
    ));
    let differences = study.differences_from_defaults();
    let keys: Vec<&str> = differences
        .iter()
        .map(|difference| difference.key.as_str())
        .collect();
    assert!(keys.contains(&"hosts.model.nic.doorbell"), "{keys:?}");
    assert!(!keys.contains(&"hosts.model.nic.completion"), "{keys:?}");
    assert!(!keys.contains(&"study.title"), "{keys:?}");
}

#[test]
fn what_is_given_as_the_default_is_no_difference() {
    let study = load("torus-1024");
    let keys: Vec<String> = study
        .differences_from_defaults()
        .into_iter()
        .map(|difference| difference.key)
        .collect();
    let expected = [
        "run.until",
        "run.warmup",
        "network.topology",
        "network.dimensions",
        "network.hosts_per_switch",
        "network.switch_ports",
        "switches.delay",
        "switches.cut_through",
        "links.model",
        "links.rate",
        "links.propagation",
        "traffic.pattern",
        "traffic.hops",
        "traffic.rate",
        "traffic.size",
        "traffic.start",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn registering_that_takes_no_time_is_warned_of() {
    let warned = |set: &[&str]| {
        load_with("speed-up", &[&["traffic.program=nas-ft"], set].concat())
            .warnings
            .to_string()
    };
    let each = "traffic.registration=each";
    let text = warned(&["hosts.nic=giganet-clan", each]);
    assert!(text.contains("takes no time on these hosts"), "{text}");
    for set in [
        &["hosts.nic=giganet-clan", "traffic.registration=before"],
        &["hosts.nic=rnic-gen4", each],
    ] {
        assert_eq!(warned(set), "");
    }
}

#[test]
fn frames_without_a_length_are_warned_of() {
    let warned = |set: &[&str]| load_with("two-hosts", set).warnings.to_string();
    let packets = "links.model=packets";
    let text = warned(&[packets]);
    assert!(text.contains("each message is one frame"), "{text}");
    for payload in ["links.frame_payload=1500 B", "links.frame_payload=0 B"] {
        assert_eq!(warned(&[packets, payload]), "");
    }
    assert_eq!(warned(&["links.model=queues"]), "");
}

#[test]
fn warnings_are_values() {
    let study = load_with("torus-1024", &["traffic.rate=900"]);
    let text = study.warnings.to_string();
    insta::assert_snapshot!(text);
}

#[test]
fn the_list_of_keys_is_printed_by_table() {
    let of_traffic = keys_text(Some("traffic")).expect("a table");
    insta::assert_snapshot!(of_traffic);
    let all = keys_text(None).expect("all tables");
    for table in viaduct_scenario::tables() {
        for key in &table.keys {
            assert!(all.contains(key.name), "{} is printed", key.name);
        }
    }
    let error = keys_text(Some("trafic")).expect_err("no table");
    assert!(
        error.starts_with("no table `trafic`; did you mean `traffic`?"),
        "{error}"
    );
}

#[test]
fn a_preset_says_what_is_missing_in_it() {
    let text = "name = \"x\"\n[cpu]\npost = \"1 us\"\n[bus]\n";
    let error = parse_preset("x.toml", text)
        .expect_err("most of it is missing")
        .to_string();
    assert!(error.contains("`post` in [cpu] has no source"), "{error}");
    assert!(error.contains("missing key `reap` in [cpu]"), "{error}");
    assert!(error.contains("the preset has no table [nic]"), "{error}");
}

#[test]
fn a_preset_has_the_numbers_that_it_inherits_with_their_sources() {
    let text = "name = \"mine\"\ninherits = \"giganet-clan\"\n[nic]\n\
        doorbell = { value = \"1 us\", source = \"a guess\", confidence = \"assumed\" }\n";
    let mine = parse_preset("mine.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let parent = load_preset("giganet-clan").expect("a built-in preset");
    assert_eq!(mine.name, "mine");
    assert_eq!(mine.inherits, ["giganet-clan"]);
    assert_eq!(mine.source, parent.source);
    assert_eq!(mine.numbers.len(), parent.numbers.len());
    for (own, inherited) in mine.numbers.iter().zip(&parent.numbers) {
        assert_eq!((own.table, own.key), (inherited.table, inherited.key));
        if own.key == "doorbell" {
            assert_eq!((&own.value[..], &own.source[..]), ("1 us", "a guess"));
            assert!(!own.has_value_of(inherited));
        } else {
            assert_eq!(own.source, inherited.source);
            assert_eq!(own.confidence, inherited.confidence);
            assert!(own.has_value_of(inherited));
        }
    }
}

#[test]
fn values_are_compared_by_what_they_mean() {
    let ideal = include_str!("../../../../models/ideal.toml");
    let first = parse_preset("ideal.toml", ideal).expect("a built-in preset");
    let second = parse_preset("ideal.toml", &ideal.replace("\"0 s\"", "\"0 ns\""));
    let second = second.unwrap_or_else(|error| panic!("{error}"));
    for (first, second) in first.numbers.iter().zip(&second.numbers) {
        assert!(first.has_value_of(second), "{first:?} {second:?}");
    }
}

#[test]
fn a_preset_that_is_no_file_reads_no_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/ideal.toml");
    let text = format!("name = \"mine\"\ninherits = \"{path}\"\n");
    let error = parse_preset("mine.toml", &text).expect_err("it may not be opened");
    assert!(
        error.to_string().contains("no other file is read here"),
        "{error}"
    );
}

/// A preset in a folder, whose parent lies above it and itself inherits a built-in one.
#[test]
fn inherited_files_are_found_beside_their_heirs_and_not_needed_by_the_resolved_form() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("inherited");
    std::fs::create_dir_all(directory.join("nics")).expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).expect("a file");
    };
    let number = |value: &str| {
        format!("{{ value = \"{value}\", source = \"a guess\", confidence = \"assumed\" }}")
    };
    write(
        "base.toml",
        &format!(
            "name = \"base\"\ninherits = \"ideal\"\n[cpu]\npost = {}\nreap = {}\n",
            number("1 us"),
            number("2 us")
        ),
    );
    write(
        "nics/mine.toml",
        &format!(
            "name = \"mine\"\ninherits = \"../base.toml\"\n[cpu]\nreap = {}\n",
            number("3 us")
        ),
    );
    let study = "[run]\nuntil = \"1 ms\"\n[network]\ntopology = \"switch\"\nhosts = 2\n[links]\n\
        rate = \"1 Gbit/s\"\n[hosts]\nnic = \"nics/mine.toml\"\n[traffic]\npattern = \"uniform\"\n\
        rate = \"1 k/s\"\nsize = \"64 B\"\n";
    write("study.toml", study);
    let path = directory.join("study.toml");
    let study = load(path.to_str().expect("a path in UTF-8"));
    assert_eq!(study.config.host.common().name, "mine");
    let value = |key: &str| study.value(&format!("hosts.model.{key}"));
    assert_eq!(value("cpu.post").as_deref(), Some("1 us"));
    assert_eq!(value("cpu.reap").as_deref(), Some("3 us"));
    assert_eq!(value("nic.rate").as_deref(), Some("infinite"));
    let alone = directory.join("nics/mine.toml");
    let alone = load_preset(alone.to_str().expect("a path in UTF-8"));
    let alone = alone.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(alone.inherits, ["../base.toml", "ideal"]);
    let circle = "name = \"circle\"\ninherits = \"./../nics/circle.toml\"\n";
    write("nics/circle.toml", circle);
    let circle = directory.join("nics/circle.toml");
    let error = load_preset(circle.to_str().expect("a path in UTF-8")).expect_err("a circle");
    assert!(
        error.to_string().contains("a preset inherits itself"),
        "{error}"
    );

    std::fs::remove_dir_all(&directory).expect("the directory is ours");
    let resolved = study.resolved_toml();
    let again = Study::from_resolved(&resolved).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.resolved_toml(), resolved);
    assert_eq!(text_of(&again.config), text_of(&study.config));
}

/// A study with a graph, tables of routes and a table of sizes in files beside it.
#[test]
fn files_are_found_beside_the_study_and_carried_in_its_resolved_form() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("files");
    std::fs::create_dir_all(&directory).expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).expect("a file");
    };
    write(
        "net.txt",
        "hosts n*\nn0 s0\ns0 s1 rate=\"100 Mbit/s\"\ns1 n1\n",
    );
    write(
        "routes.json",
        "{\"s0\": {\"n1\": \"s1\"}, \"s1\": {\"n0\": \"s0\"}}",
    );
    write("sizes.txt", "0 0\n1000 50\n3000 100\n");
    let preset = include_str!("../../../../models/ideal.toml").replace("\"ideal\"", "\"mine\"");
    write("mine.toml", &preset);
    let text = r#"
[run]
until = "1 ms"
[network]
topology = "graph"
file = "net.txt"
routing = "table"
routes = "routes.json"
[links]
rate = "1 Gbit/s"
[hosts]
nic = "mine.toml"
[traffic]
pattern = "uniform"
rate = "1 k/s"
size_distribution = "empirical"
size_file = "sizes.txt"
"#;
    write("study.toml", text);
    let path = directory.join("study.toml");
    let study = load(path.to_str().expect("a path in UTF-8"));
    assert_eq!(study.name, "study");
    assert_eq!(study.config.topology.host_count(), 2);
    assert_eq!(study.config.traffic.size.mean_bytes(), 1250.0);
    assert_eq!(study.config.host.common().name, "mine");

    std::fs::remove_dir_all(&directory).expect("the directory is ours");
    let resolved = study.resolved_toml();
    let again = Study::from_resolved(&resolved).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.resolved_toml(), resolved);
    assert_eq!(text_of(&again.config), text_of(&study.config));
    assert_eq!(
        format!("{:?}", again.config.topology),
        format!("{:?}", study.config.topology)
    );
    Study::load(path.to_str().expect("a path in UTF-8"), &[]).expect_err("it is gone");
}

#[test]
fn a_sweep_says_the_warnings_of_all_its_points_once() {
    let overrides = [
        Override::swept("traffic.rate=100,900"),
        Override::swept("seed=1,2"),
    ];
    let study = Study::load("torus-1024", &overrides).expect("warnings are no errors");
    assert_eq!(study.warnings.iter().count(), 1);
    let warned: Vec<bool> = study
        .cells()
        .iter()
        .map(|cell| !cell.warnings.is_empty())
        .collect();
    assert_eq!(warned, [false, false, true, true]);
}

#[test]
fn a_point_of_a_sweep_runs_again_alone() {
    let study = load("prepost-drops");
    let cell = study.cells().swap_remove(2);
    let again = Study::from_resolved(&cell.resolved_toml()).expect("it is whole");
    assert!(again.sweep.is_empty());
    assert_eq!(again.config.hosts.prepost, 4);
}

#[test]
fn hosts_of_a_bare_preset_share_links_as_a_study_that_says_nothing() {
    let study = "[run]\nuntil = \"1 ms\"\n[network]\ntopology = \"switch\"\nhosts = 2\n\
                 [links]\nrate = \"1 Gbit/s\"\n[traffic]\npattern = \"uniform\"\n\
                 rate = \"1000/s\"\nsize = \"64 B\"\n";
    let study = parse_study(study).unwrap();
    let programs = load_programs("giganet-clan", None, 2).unwrap();
    assert_eq!(programs.links.sharing, Sharing::MaxMin);
    assert_eq!(programs.links.sharing, study.config.links.sharing);
}
