//! What is fuzzed: one entry for each kind of text that a user can hand in.
//!
//! An entry reads the text and, where it is accepted, uses what was read: it must neither panic
//! nor contradict itself. Shared by the targets of libFuzzer and by the smoke test on stable Rust,
//! which is why it is a file and no crate.

use viaduct_cluster::bounds::load_bounds;
use viaduct_cluster::config::Arrivals;
use viaduct_cluster::workload::parse_size_cdf;
use viaduct_operations::chakra::{Groups, read_rank, repeat, write_json};
use viaduct_operations::loggops::{Parameters, replay};
use viaduct_operations::simgrid::{self, TraceFile};
use viaduct_operations::{Graph, check, cycle, goal as file, trace};
use viaduct_scenario::{Override, Study, message_list_csv, parse_preset, parse_study};
use viaduct_topology::{
    GraphFormat, GraphRouting, HostId, LinkId, Topology, TopologyError, parse_edge_list,
    parse_graph, parse_graphml, parse_node_link_json,
};

/// An entry's name, which is also that of its target and of its folder of seeds, and what it does.
pub(crate) type Entry = (&'static str, fn(&str));

/// Every entry.
pub(crate) const ENTRIES: &[Entry] = &[
    ("study", study),
    ("preset", preset),
    ("setting", setting),
    ("node_link_json", |text| graph(parse_node_link_json(text))),
    ("graphml", |text| graph(parse_graphml(text))),
    ("edge_list", |text| {
        graph(parse_edge_list(text));
        graph(parse_graph(text, GraphFormat::EdgeList, GraphRouting::Rule));
    }),
    ("route_table", route_table),
    ("size_cdf", size_cdf),
    ("message_list", message_list),
    ("goal", goal),
    ("goal_binary", goal_binary),
    ("chakra", chakra),
    ("simgrid", simgrid),
];

/// Runs one entry; bytes that are no text are none of its business.
pub(crate) fn run(name: &str, data: &[u8]) {
    let entry = ENTRIES.iter().find(|(each, _)| *each == name);
    if let (Some((_, entry)), Ok(text)) = (entry, core::str::from_utf8(data)) {
        entry(text);
    }
}

/// A study that is accepted can be written in full and read again to the same.
fn study(text: &str) {
    match parse_study(text) {
        Ok(study) => {
            let resolved = study.resolved_toml();
            match parse_study(&resolved) {
                Ok(again) => assert_eq!(again.resolved_toml(), resolved, "resolved twice"),
                Err(problems) => panic!("what was resolved is refused:\n{problems}\n{resolved}"),
            }
        }
        Err(problems) => assert!(
            !problems.render(true).is_empty(),
            "refused without a reason"
        ),
    }
}

fn preset(text: &str) {
    if let Err(problems) = parse_preset("fuzz.toml", text) {
        assert!(
            !problems.render(false).is_empty(),
            "refused without a reason"
        );
    }
}

/// Each line is one `--set` of the same command.
fn setting(text: &str) {
    let settings: Vec<Override> = text.lines().map(Override::fixed).collect();
    if let Err(problems) = Study::load("four-hop", &settings) {
        assert!(
            !problems.render(false).is_empty(),
            "refused without a reason"
        );
    }
}

/// A list of messages that is accepted is written out to the same messages, and what it asks of a
/// network can be said.
fn message_list(text: &str) {
    let of = |text: &str| {
        format!(
            "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1 Gbit/s\"\n\
             [traffic]\narrivals = \"list\"\nfile = \"list\"\n[run]\nuntil = \"1200 s\"\n\
             [files]\n\"list\" = {}\n",
            toml_text(text)
        )
    };
    let messages = |study: &Study| match &study.config.traffic.arrivals {
        Arrivals::Listed(list) => list.messages().collect::<Vec<_>>(),
        other => panic!("no list: {other:?}"),
    };
    match parse_study(&of(text)) {
        Ok(study) => {
            let read = messages(&study);
            let written = message_list_csv(read.iter().copied());
            let again = parse_study(&of(&written));
            match again {
                Ok(again) => assert_eq!(messages(&again), read, "written and read again"),
                Err(problems) => panic!("what was written is refused:\n{problems}"),
            }
            let bounds = load_bounds(&study.config).expect("its hosts are there");
            let list = bounds
                .and_then(|bounds| bounds.list)
                .expect("all is posted");
            assert!(list.fullest.is_none_or(|fullest| fullest.load > 0.0));
        }
        Err(problems) => assert!(
            !problems.render(true).is_empty(),
            "refused without a reason"
        ),
    }
}

/// A string of TOML on one line.
fn toml_text(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '"' | '\\' => format!("\\{character}"),
        character if character.is_control() => format!("\\u{:04X}", u32::from(character)),
        character => character.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A graph that is accepted answers every question asked of it.
fn graph(graph: Result<Topology, TopologyError>) {
    /// Hosts between which routes are walked.
    const HOSTS_TRIED: u32 = 8;

    let graph = match graph {
        Ok(graph) => graph,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            return;
        }
    };
    let _ = graph.check();
    let mut path = Vec::new();
    let tried = graph.host_count().min(HOSTS_TRIED);
    for source in (0..tried).map(HostId) {
        for target in (0..tried).map(HostId).filter(|target| *target != source) {
            let Some(length) = graph.path_length(source, target) else {
                continue;
            };
            path.clear();
            graph.route(source, target, &mut path);
            assert_eq!(path.len(), length as usize, "{source:?} to {target:?}");
            assert_eq!(path.first(), Some(&graph.host_up(source)));
            assert_eq!(path.last(), Some(&graph.host_down(target)));
            for pair in path.windows(2) {
                assert_eq!(
                    graph.link_ends(pair[0]).1,
                    graph.link_ends(pair[1]).0,
                    "a gap"
                );
            }
        }
    }
    let exported = graph.to_node_link_json();
    match parse_node_link_json(&exported) {
        Ok(again) => {
            let counts =
                |graph: &Topology| (graph.host_count(), graph.switch_count(), graph.link_count());
            assert_eq!(counts(&again), counts(&graph), "exported and read again");
            for link in (0..graph.link_count()).map(LinkId) {
                let attributes = |graph: &Topology| {
                    (
                        graph.link_rate_bits_per_second(link),
                        graph.link_latency_picoseconds(link),
                    )
                };
                assert_eq!(
                    attributes(&again),
                    attributes(&graph),
                    "{link:?} read again"
                );
            }
        }
        Err(error) => panic!("what was exported is refused: {error}\n{exported}"),
    }
}

/// Tables over a ring of three switches.
fn route_table(text: &str) {
    let ring = parse_edge_list("hosts n*\nn0 s0\nn1 s1\nn2 s2\ns0 s1\ns1 s2\ns2 s0\n");
    graph(ring.and_then(|ring| ring.with_tables(text)));
}

/// Sizes that are accepted have a mean between their least and their largest.
fn size_cdf(text: &str) {
    match parse_size_cdf(text) {
        Ok(sizes) => {
            let (least, largest) = (f64::from(sizes.min_bytes()), f64::from(sizes.max_bytes()));
            let mean = sizes.mean_bytes();
            // Sizes are rounded to whole bytes, the mean is not.
            assert!(
                least - 1.0 <= mean && mean <= largest + 1.0,
                "{least} {mean} {largest}"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty(), "refused without a reason"),
    }
}

/// A GOAL file that is accepted is written in both forms and read again to the same graph, and a
/// replay of it comes to an end.
fn goal(text: &str) {
    operations(file::parse_text(text));
}

/// The same of a binary file, as hexadecimal digits of its bytes.
fn goal_binary(text: &str) {
    operations(file::read_binary(&mut std::io::Cursor::new(bytes_of(text))));
}

/// The bytes that hexadecimal digits say.
fn bytes_of(text: &str) -> Vec<u8> {
    let digits = || text.chars().filter_map(|it| it.to_digit(16));
    let pairs = digits().step_by(2).zip(digits().skip(1).step_by(2));
    pairs.map(|(high, low)| (high << 4 | low) as u8).collect()
}

fn operations(read: Result<Graph, file::GoalError>) {
    let graph = match read {
        Ok(graph) => graph,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            return;
        }
    };
    // A few letters can ask for a billion ranks without operations.
    if graph.ranks() > 1 << 16 {
        return;
    }
    let (mut written, mut binary) = (Vec::new(), Vec::new());
    file::write_text(&graph, &mut written).expect("memory can be written");
    file::write_binary(&graph, &mut binary).expect("memory can be written");
    assert_eq!(
        file::read_text(&mut &*written).as_ref(),
        Ok(&graph),
        "a text"
    );
    let mut binary = std::io::Cursor::new(binary);
    assert_eq!(
        file::read_binary(&mut binary).as_ref(),
        Ok(&graph),
        "binary"
    );
    let is_ring = cycle(&graph).is_some();
    if let Ok(outcome) = replay(&graph, &Parameters::default()) {
        assert!(
            !is_ring || outcome.stalled.is_some(),
            "a ring came to its end"
        );
    }
}

/// A trace, in JSON or as hexadecimal digits of its bytes: what is accepted is written and read
/// again to the same, and where ranks can do it together, they come to an end.
fn chakra(text: &str) {
    let bytes = match text.starts_with('{') {
        true => text.as_bytes().to_vec(),
        false => bytes_of(text),
    };
    let first = match read_rank(&mut &*bytes) {
        Ok(first) => first,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            return;
        }
    };
    let mut written = Vec::new();
    write_json(&first, &mut written).expect("memory can be written");
    let again = read_rank(&mut &*written).expect("what was written is read");
    let mut twice = Vec::new();
    write_json(&again, &mut twice).expect("memory can be written");
    assert_eq!(written, twice, "written and read again");
    let Ok(joined) = repeat(&first, 3, &Groups::default()) else {
        return;
    };
    let Ok(graph) = trace::graph(&joined, &trace::Options::default()) else {
        return;
    };
    assert_eq!(check::check(&graph), [], "it has all that it waits for");
    if let Ok(outcome) = replay(&graph, &Parameters::default()) {
        assert!(outcome.stalled.is_none(), "it does not come to its end");
    }
}

/// A SimGrid trace that is accepted is carried out, or it is said why not.
fn simgrid(text: &str) {
    let name = "trace.txt";
    let _ = simgrid::listed(text);
    let joined = match simgrid::read(&[TraceFile { name, text }]) {
        Ok((joined, _)) => joined,
        Err(error) => {
            assert!(error.to_string().starts_with(name), "{error}");
            return;
        }
    };
    // An all-to-all of many ranks is a square of messages.
    if joined.ranks.len() > 64 {
        return;
    }
    let options = trace::Options {
        operations_per_second: Some(1e9),
        ..trace::Options::default()
    };
    let Ok(graph) = trace::graph(&joined, &options) else {
        return;
    };
    assert!(cycle(&graph).is_none(), "steps wait for earlier ones");
    // Ranks may wait for each other, as in the program that was recorded.
    let _ = replay(&graph, &Parameters::default());
}
