//! Each network by rule in a small study: it runs at each level that has no packets, keeps what
//! must hold and repeats; what does not exist is refused where it is written.

use std::ops::ControlFlow;

use viaduct_cluster::result::RunResult;
use viaduct_scenario::{Override, network_toml, parse_study_with};

/// Networks as studies write them, and their hosts.
const NETWORKS: [(&str, u32); 16] = [
    ("topology = \"switch\"\nhosts = 9", 9),
    (
        "topology = \"chain\"\nswitches = 4\nhosts_per_switch = 2",
        8,
    ),
    ("topology = \"mesh\"\ndimensions = [3, 3]", 9),
    ("topology = \"torus\"\ndimensions = [4, 4]", 16),
    (
        "topology = \"torus\"\ndimensions = [4, 4]\nequal_paths = \"hash\"",
        16,
    ),
    ("topology = \"fat-tree\"\narity = 2\nlevels = 3", 8),
    (
        "topology = \"fat-tree\"\narity = 2\nlevels = 3\nequal_paths = \"hash\"",
        8,
    ),
    (
        "topology = \"leaf-spine\"\nhosts = 9\nhosts_per_switch = 3\nspines = 2",
        9,
    ),
    ("topology = \"clos\"\nradix = 4", 16),
    (
        "topology = \"clos\"\nradix = 10\ntiers = 2\noversubscription = 4\npods = 2",
        16,
    ),
    (
        "topology = \"rail\"\nrails = 2\nservers = 6\nservers_per_unit = 2\nspines = 2",
        12,
    ),
    (
        "topology = \"dragonfly\"\nswitches_per_group = 2\nglobal_links = 1\nhosts_per_switch = 2",
        12,
    ),
    ("topology = \"dragonfly-plus\"\nradix = 4", 20),
    (
        "topology = \"hyperx\"\ndimensions = [3, 2]\nhosts_per_switch = 2",
        12,
    ),
    ("topology = \"slim-fly\"\norder = 3", 54),
    ("topology = \"polar-fly\"\norder = 3", 26),
];

/// The same with routes that they have where these are asked for.
const ROUTED: [(&str, u32); 5] = [
    (
        "topology = \"torus\"\ndimensions = [4, 4]\nrouting = \"valiant\"",
        16,
    ),
    (
        "topology = \"dragonfly\"\nswitches_per_group = 2\nglobal_links = 1\nrouting = \"valiant\"",
        6,
    ),
    (
        "topology = \"jellyfish\"\nswitches = 8\nswitch_links = 3\nrouting = \"up-down\"",
        8,
    ),
    (
        "topology = \"jellyfish\"\nswitches = 8\nswitch_links = 3\nequal_paths = \"single\"",
        8,
    ),
    ("topology = \"clos\"\nradix = 4\nrouting = \"up-down\"", 16),
];

fn study(network: &str, level: &str) -> String {
    format!(
        "[run]\nuntil = \"2 ms\"\n[network]\n{network}\n[links]\nrate = \"10 Gbit/s\"\n\
         propagation = \"50 ns\"\nmodel = \"{level}\"\n[switches]\ndelay = \"200 ns\"\n\
         [hosts]\nnic = \"rnic-gen4\"\nprepost = \"unlimited\"\n[traffic]\n\
         pattern = \"uniform\"\nrate = \"3000/s\"\nsize = \"8 KiB\"\n"
    )
}

fn run(text: &str) -> RunResult {
    let study = parse_study_with(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error}"));
    viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn each_runs_at_each_level_keeps_what_must_hold_and_repeats() {
    for (network, hosts) in NETWORKS.into_iter().chain(ROUTED) {
        for level in ["fluid", "max-min", "queues"] {
            let text = study(network, level);
            let config = parse_study_with(&text, &[]).unwrap().config;
            assert_eq!(config.topology.host_count(), hosts, "{network}");
            let (first, second) = (run(&text), run(&text));
            assert_eq!(first.digest, second.digest, "{network} at {level}");
            assert!(
                first.violations.is_empty(),
                "{network}: {:?}",
                first.violations
            );
            let counts = &first.messages;
            assert!(counts.delivered > 0, "{network} at {level}");
            let told = counts.delivered + counts.dropped + counts.in_flight;
            assert_eq!(counts.posted, told, "{network} at {level}");
        }
    }
}

#[test]
fn frames_that_overtake_each_other_are_no_faster_than_their_floor() {
    // Links between switches are slower than those of hosts, so that a message over several of
    // them at once is faster than over one; its last frame, which is short, comes before others.
    let networks = [
        "topology = \"clos\"\nradix = 8\ntiers = 2",
        "topology = \"hyperx\"\ndimensions = [4]\nrouting = \"ugal-l\"",
    ];
    for (network, paths) in networks
        .iter()
        .flat_map(|it| [(it, "spray"), (it, "least-queued")])
    {
        for (level, more) in [
            ("packets", ""),
            ("credits", ""),
            ("credits", "speedup = 2\n"),
        ] {
            let network = format!("{network}\nequal_paths = \"{paths}\"");
            let text = study(&network, level)
                .replace("model =", &format!("{more}model ="))
                .replace(
                    "rate = \"10 Gbit/s\"",
                    "rate = \"1 Gbit/s\"\nhost_rate = \"10 Gbit/s\"",
                )
                .replace("8 KiB", "8 KB")
                .replace("model =", "frame_payload = \"1500 B\"\nmodel =");
            let found = run(&text);
            assert!(found.messages.delivered > 0, "{text}");
            assert_eq!(found.violations, [""; 0], "{text}");
        }
    }
}

#[test]
fn tables_written_for_a_network_give_it_again() {
    let with_detours = ["valiant", "ugal-l", "ugal-g"].map(|routing| {
        let torus = "topology = \"torus\"\ndimensions = [4, 4]";
        format!("{torus}\nrouting = \"{routing}\"")
    });
    let with_detours = with_detours.iter().map(String::as_str);
    for network in NETWORKS.map(|it| it.0).into_iter().chain(with_detours) {
        let given = parse_study_with(&study(network, "packets"), &[]).unwrap();
        let toml = network_toml(&given.config.topology, "none.json");
        let written = toml.strip_prefix("[network]\n").unwrap();
        let again = parse_study_with(&study(written, "packets"), &[]);
        let again = again.unwrap_or_else(|error| panic!("{toml}\n{error}"));
        assert!(again.config.topology == given.config.topology, "{toml}");
    }
}

#[test]
fn what_does_not_exist_is_refused_where_it_is_written() {
    let told = |network: &str, set: &[&str]| {
        let set: Vec<_> = set
            .iter()
            .map(|&it| Override::fixed(it.to_owned()))
            .collect();
        let error = parse_study_with(&study(network, "fluid"), &set).unwrap_err();
        error.to_string()
    };
    insta::assert_snapshot!(told("topology = \"slim-fly\"\norder = 6", &[]));
    insta::assert_snapshot!(told(
        "topology = \"clos\"\nradix = 16\noversubscription = 4",
        &[]
    ));
    let dragonfly = "topology = \"dragonfly\"\nswitches_per_group = 4\nglobal_links = 2";
    insta::assert_snapshot!(told(dragonfly, &["network.groups=10"]));
    let sprayed = format!("{dragonfly}\nequal_paths = \"spray\"");
    insta::assert_snapshot!("spray_elsewhere", told(&sprayed, &[]));
    insta::assert_snapshot!(
        "ugal_elsewhere",
        told(dragonfly, &["network.routing=ugal-g"])
    );
    let of_file = "topology = \"graph\"\nfile = \"slow.txt\"\nequal_paths = \"least-queued\"\n\
                   [files]\n\"slow.txt\" = \"\"\"\nhosts n*\nn0 a\nn1 d\na b\nb d\na c\n\
                   c d rate=\"1 Gbit/s\"\n\"\"\"";
    insta::assert_snapshot!(
        "spray_over_unlike_links",
        told(of_file, &["links.model=packets"])
    );
    let up_down = "topology = \"dragonfly\"\nswitches_per_group = 4\nglobal_links = 2\n\
                   routing = \"up-down\"";
    insta::assert_snapshot!(told(up_down, &[]));
    insta::assert_snapshot!(told(
        "topology = \"jellyfish\"\nswitches = 5\nswitch_links = 3",
        &[]
    ));
}
