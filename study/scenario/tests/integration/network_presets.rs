//! Presets of networks: what is in them, what a study makes of them, and one frame through one
//! switch of each, to the picosecond.

use std::ops::ControlFlow;

use viaduct_cluster::result::RunResult;
use viaduct_engine::Time;
use viaduct_network::Sharing;
use viaduct_scenario::{
    Override, Study, is_network, list_models, list_networks, load_network, parse_network,
    parse_study, parse_study_with,
};

/// All presets, with the bytes of a full frame and what one takes through one switch, between hosts
/// that cost nothing: cables, switch, the bytes that decide the route, and the frame. Picoseconds,
/// by hand.
const FRAMES: [(&str, u32, u64); 8] = [
    // 6.25 ns a byte: 2 x 25 ns, 250 ns, 8 bytes, and (4096 + 8) bytes.
    ("myrinet", 4096, 50_000 + 250_000 + 8 * 6250 + 4104 * 6250),
    // 8 ns a byte: 2 x 25 ns, 500 ns, 80 bytes, and (4096 + 16) bytes.
    (
        "clan-network",
        4096,
        50_000 + 500_000 + 80 * 8000 + 4112 * 8000,
    ),
    // 8 ns a byte: 2 x 25 ns, 5 us, and (1500 + 38) bytes twice.
    (
        "gigabit-ethernet",
        1500,
        50_000 + 5_000_000 + 2 * 1538 * 8000,
    ),
    // 80 ps a byte: 2 x 15 ns, 90 ns, 20 bytes, and (4096 + 30) bytes.
    (
        "infiniband-edr",
        4096,
        30_000 + 90_000 + 20 * 80 + 4126 * 80,
    ),
    // 20 ps a byte: 2 x 15 ns, 240 ns, 20 bytes, and (4096 + 30) bytes.
    (
        "infiniband-ndr",
        4096,
        30_000 + 240_000 + 20 * 20 + 4126 * 20,
    ),
    // 200 ps a byte: 2 x 15 ns, 550 ns, 64 bytes, and (1024 + 82) bytes.
    (
        "ethernet-40g",
        1024,
        30_000 + 550_000 + 64 * 200 + 1106 * 200,
    ),
    // 80 ps a byte: 2 x 15 ns, 300 ns, 64 bytes, and (4096 + 82) bytes.
    (
        "ethernet-100g",
        4096,
        30_000 + 300_000 + 64 * 80 + 4178 * 80,
    ),
    // 20 ps a byte: 2 x 15 ns, 300 ns, 64 bytes, and (4096 + 82) bytes.
    (
        "ethernet-400g",
        4096,
        30_000 + 300_000 + 64 * 20 + 4178 * 20,
    ),
];

/// A message at a time from host 0 to host 1.
fn pair(preset: &str, network: &str, level: &str, bytes: u32) -> String {
    format!(
        "[run]\nuntil = \"1 s\"\nmessages_max = 3\n[network]\n{network}\n[links]\npreset = \
         \"{preset}\"\nmodel = \"{level}\"\n[hosts]\nnic = \"ideal\"\n[traffic]\narrivals = \
         \"ping-pong\"\npattern = \"pairs\"\npairs = [[0, 1]]\nsize = \"{bytes} B\"\n"
    )
}

const SWITCH: &str = "topology = \"switch\"\nhosts = 2";
const TWO_CLUSTERS: &str = "topology = \"chain\"\nswitches = 2";

fn run(study: &Study) -> RunResult {
    viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn latency(text: &str) -> Time {
    let result = run(&parse_study(text).unwrap());
    result
        .message_rows
        .first()
        .and_then(|row| row.latency)
        .unwrap()
}

fn refusal(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<Override> = overrides.iter().map(|it| Override::fixed(*it)).collect();
    parse_study_with(text, &overrides).unwrap_err().to_string()
}

#[test]
fn one_frame_through_one_switch_takes_what_its_numbers_add_up_to() {
    for (name, bytes, picoseconds) in FRAMES {
        for level in load_network(name).unwrap().levels() {
            let took = latency(&pair(name, SWITCH, level, bytes));
            assert_eq!(took.picoseconds(), picoseconds, "{name} at {level}");
        }
    }
}

#[test]
fn one_frame_over_a_long_link_takes_its_way_and_the_slow_links_time() {
    // Hosts' cables, the long one, 2 switches, 64 bytes at 100 Gbit/s, and a frame at 10 Gbit/s.
    let way = 2 * 15_000 + 10_000_000_000 + 2 * 300_000;
    let expected = way + 64 * 80 + 4178 * 800;
    // The second switch waits for 64 bytes, too; but what goes on faster than it comes ends when it
    // has come.
    for level in ["packets", "queues", "max-min", "fluid"] {
        let took = latency(&pair("wan-10ms", TWO_CLUSTERS, level, 4096));
        assert_eq!(took.picoseconds(), expected, "{level}");
    }
}

#[test]
fn every_preset_is_tried_and_each_of_its_numbers_has_a_source() {
    let networks = list_networks();
    let names: Vec<&str> = networks.iter().map(|it| it.name.as_str()).collect();
    let tried: Vec<&str> = FRAMES.iter().map(|it| it.0).chain(["wan-10ms"]).collect();
    assert_eq!(names, tried);
    let hosts = list_models();
    for preset in &networks {
        assert!(
            preset
                .numbers
                .iter()
                .all(|number| !number.source.is_empty())
        );
        assert!(!preset.description.is_empty() && !preset.source.is_empty());
        assert!(preset.numbers.iter().any(|number| number.key == "rate"));
        // `viaduct models NAME` shows one of either kind.
        assert!(is_network(&preset.name));
        assert!(hosts.iter().all(|host| host.name != preset.name));
    }
    assert!(hosts.iter().all(|host| !is_network(&host.name)));
}

#[test]
fn the_docs_have_a_row_of_each_preset_with_its_numbers() {
    let page = include_str!("../../../../docs/models.md");
    for preset in list_networks() {
        let value = |table: &str, key: &str| {
            let mut numbers = preset.numbers.iter();
            let number = numbers.find(|it| it.table == table && it.key == key);
            number.map(|it| it.value.clone())
        };
        let link = |key: &str| value("links", key).unwrap();
        let switch = |key: &str| value("switches", key).unwrap();
        let keys = ["shared_buffer", "buffer", "channel_buffer"];
        let held = keys.iter().find_map(|key| value("links", key));
        let row = format!(
            "| `{}` | {} | {} | {} + {} | {} | {} | {} | {}|",
            preset.name,
            preset.level.name(),
            link("rate"),
            link("frame_payload"),
            link("frame_header"),
            switch("delay"),
            switch("cut_through"),
            link("propagation"),
            held.map_or(String::new(), |held| format!("{held} ")),
        );
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}

#[test]
fn a_link_with_the_channels_of_a_preset_is_kept_busy_by_one_sender() {
    for (name, bytes, frame, of_frame) in [
        ("myrinet", 1 << 20, 4096, 4104 * 6250),
        ("infiniband-edr", 1 << 24, 4096, 4126 * 80),
        ("infiniband-ndr", 1 << 24, 4096, 4126 * 20),
    ] {
        let long = latency(&pair(name, SWITCH, "credits", bytes)).picoseconds();
        let one = latency(&pair(name, SWITCH, "credits", frame)).picoseconds();
        let others = u64::from(bytes / frame - 1);
        assert_eq!(long - one, others * of_frame, "{name}");
    }
}

#[test]
fn what_the_study_says_stands_over_its_preset() {
    let text = pair("ethernet-100g", SWITCH, "packets", 4096);
    let study = |overrides: &[&str]| {
        let overrides: Vec<Override> = overrides.iter().map(|it| Override::fixed(*it)).collect();
        parse_study_with(&text, &overrides).unwrap()
    };
    let of_preset = study(&[]);
    assert_eq!(of_preset.value("links.buffer").unwrap(), "512 KiB");
    assert_eq!(of_preset.value("switches.delay").unwrap(), "300 ns");
    let own = study(&[
        "links.buffer=64KiB",
        "switches.delay=1us",
        "links.rate=50Gbit/s",
    ]);
    assert_eq!(own.value("links.buffer").unwrap(), "64 KiB");
    assert_eq!(own.config.switch.delay, Time::from_nanoseconds(1_000));
    // A rate that is written before its line coding takes the place of the preset's.
    let coded = study(&["links.signal_rate=125Gbit/s", "links.coding=8b/10b"]);
    assert_eq!(coded.value("links.rate").unwrap(), "100 Gbit/s");
    // At a level that has no buffers the preset's says nothing, and a study's own is a mistake.
    let fluid = study(&["links.model=max-min"]);
    assert_eq!(fluid.value("links.buffer"), None);
    let error = refusal(&text, &["links.model=max-min", "links.buffer=64KiB"]);
    assert!(
        error.contains("`buffer` in [links] has no effect here"),
        "{error}"
    );
}

#[test]
fn a_study_runs_again_from_its_resolved_text_without_its_preset() {
    for name in ["ethernet-40g", "ethernet-400g", "wan-10ms", "myrinet"] {
        let level = load_network(name).unwrap().levels()[0];
        let study = parse_study(&pair(name, SWITCH, level, 4096)).unwrap();
        let text = study.resolved_toml();
        assert!(text.contains(&format!("# preset = \"{name}\"")), "{text}");
        let again = Study::from_resolved(&text).unwrap();
        assert_eq!(run(&again).digest, run(&study).digest);
        assert_eq!(
            again.resolved_toml(),
            text.replace(&format!("# preset = \"{name}\"\n"), "")
        );
    }
}

#[test]
fn a_level_that_a_preset_does_not_fit_is_refused() {
    for (name, level, fits) in [
        ("infiniband-edr", "packets", "\"credits\""),
        ("ethernet-100g", "credits", "\"packets\""),
        ("clan-network", "packets", "\"queues\""),
    ] {
        let error = refusal(&pair(name, SWITCH, level, 64), &[]);
        let title = format!("`{name}` is no network for model = \"{level}\"");
        assert!(error.contains(&title) && error.contains(fits), "{error}");
        assert!(!load_network(name).unwrap().fits(match level {
            "packets" => Sharing::Packets,
            _ => Sharing::Credits,
        }));
    }
    let study = parse_study(&pair("infiniband-edr", SWITCH, "queues", 64)).unwrap();
    let fits: Vec<&str> = viaduct_scenario::LEVELS
        .iter()
        .copied()
        .filter(|level| study.fits_level(level))
        .collect();
    assert_eq!(fits, ["fluid", "max-min", "queues", "credits"]);
}

#[test]
fn bad_presets_are_told_what_is_wrong() {
    let text = |edit: (&str, &str)| {
        let whole = "name = \"own\"\ninherits = \"ethernet-100g\"\n[links]\nrate = { value = \"25 \
                     Gbit/s\", source = \"s\", confidence = \"assumed\" }\n";
        whole.replacen(edit.0, edit.1, 1)
    };
    assert!(parse_network("own.toml", &text(("", ""))).is_ok());
    for (edit, words) in [
        (
            ("ethernet-100g", "ethernet-100"),
            "no such preset of networks",
        ),
        (("ethernet-100g", "clan"), "one of hosts, for hosts.nic"),
        (
            ("inherits = \"ethernet-100g\"\n", ""),
            "the preset has no level",
        ),
        (
            ("inherits = \"ethernet-100g\"", "level = \"credits\""),
            "missing key `channel_buffer` in [links]",
        ),
        (("rate", "model"), "`model` is no number of a preset"),
        (("rate", "congestion_control"), "the study chooses it"),
        (("rate", "flit"), "`flit` in [links] has no effect here"),
        (("rate", "rates"), "did you mean `rate`"),
        (
            ("{ value = \"25 Gbit/s\"", "\"25 Gbit/s\" # "),
            "has no source",
        ),
        (("25 Gbit/s", "25 Gbps"), "bad value for `rate`"),
        (("[links]", "[link]"), "unknown key `link`"),
        (("name = \"own\"\n", ""), "the preset has no name"),
    ] {
        let error = parse_network("own.toml", &text(edit))
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{edit:?}: {error}");
    }
    // A study with a preset that is wrong hears of that alone.
    let error = refusal(&pair("ethernet-40gb", SWITCH, "packets", 64), &[]);
    assert!(error.contains("did you mean \"ethernet-40g\""), "{error}");
    assert_eq!(error.matches("error").count(), 1, "{error}");
}

/// Two clusters, their long link full or not, and messages of 1 MiB that go again when frames are
/// lost.
fn long_link(window: u32, loss: &str, seed: u32) -> RunResult {
    long_link_with("go-back-n", window, loss, seed)
}

fn long_link_with(retransmission: &str, window: u32, loss: &str, seed: u32) -> RunResult {
    let faults = match loss {
        "" => String::new(),
        rate => format!("[[fault]]\nkind = \"loss\"\nlinks = \"s0 -> s1\"\nrate = \"{rate}\"\n"),
    };
    let text = format!(
        "[run]\nuntil = \"20 s\"\nseed = {seed}\n[network]\n{TWO_CLUSTERS}\n[links]\npreset = \
         \"wan-10ms\"\n[hosts]\nnic = \"rnic-gen4\"\nprepost = 96\nsend_buffers = 96\n[hosts.model.rdma]\n\
         retransmission = \"{retransmission}\"\n[traffic]\narrivals = \"window\"\npattern = \"pairs\"\npairs = [[0, 1]]\nwindow = {window}\nsize = \"1 \
         MiB\"\nreliability = \"reliable-reception\"\n{faults}"
    );
    run(&parse_study(&text).unwrap())
}

/// Seconds: there and back, and a frame of 4,178 bytes at 10 Gbit/s.
const ROUND_TRIP: f64 = 20.000_6e-3;
const FRAME: f64 = 4178.0 * 8.0 / 10e9;

/// Frames of a message of 1 MiB.
const FRAMES_OF_MESSAGE: f64 = 256.0;

#[test]
fn a_long_link_carries_a_window_in_each_round_trip() {
    for window in [1, 4, 16] {
        let delivered = long_link(window, "", 1).messages.delivered as f64;
        // A send ends when the acknowledgement of its last byte is back.
        let rounds = 20.0 / (ROUND_TRIP + FRAMES_OF_MESSAGE * FRAME);
        let expected = rounds * f64::from(window);
        assert!(
            (delivered / expected - 1.0).abs() < 2e-3,
            "{window}: {delivered} {expected}"
        );
    }
    // A window of more than is under way in a round trip, 24 MiB, fills the link.
    let delivered = long_link(48, "", 1).messages.delivered as f64;
    let full = 20.0 / (FRAMES_OF_MESSAGE * FRAME);
    assert!((delivered / full - 1.0).abs() < 3e-3, "{delivered} {full}");
}

#[test]
fn a_lost_frame_costs_a_full_long_link_a_round_trip() {
    for (loss, share) in [("0.001 %", 1e-5), ("0.01 %", 1e-4), ("0.1 %", 1e-3)] {
        // Go-back-N: all that has left since is sent again, and the frame that told of the gap.
        let again = share / (1.0 - share) * (ROUND_TRIP / FRAME + 1.0);
        let expected = 20.0 / (FRAMES_OF_MESSAGE * FRAME * (1.0 + again));
        let seeds = 1..=10;
        let delivered = seeds.map(|seed| long_link(48, loss, seed).messages.delivered as f64);
        let mean = delivered.sum::<f64>() / 10.0;
        assert!(
            (mean / expected - 1.0).abs() < 0.02,
            "{loss}: {mean} {expected}"
        );
    }
}

#[test]
fn a_lost_frame_costs_itself_with_selective_repeat() {
    for (loss, share) in [("0.01 %", 1e-4), ("0.1 %", 1e-3), ("1 %", 1e-2)] {
        // Each frame goes 1 / (1 - p) times before it comes. A window of 96 MiB, four round trips,
        // is not used up while a message waits for its last frame.
        let expected = 20.0 * (1.0 - share) / (FRAMES_OF_MESSAGE * FRAME);
        let seeds = 1..=3;
        let delivered = seeds.map(|seed| {
            let result = long_link_with("selective-repeat", 96, loss, seed);
            result.messages.delivered as f64
        });
        let mean = delivered.sum::<f64>() / 3.0;
        assert!(
            (mean / expected - 1.0).abs() < 0.01,
            "{loss}: {mean} {expected}"
        );
    }
}

#[test]
fn a_level_that_stores_messages_where_frames_are_meant_is_told_with_both_times() {
    let warnings = |size: &str, set: &[&str]| {
        let text = format!(
            "[network]\ntopology = \"chain\"\nswitches = 3\nhosts_per_switch = 1\n\
             [links]\npreset = \"gigabit-ethernet\"\n[hosts]\nnic = \"ideal\"\n\
             [traffic]\npattern = \"uniform\"\nsize = \"{size}\"\nrate = \"10/s\"\n\
             [run]\nuntil = \"1 ms\"\n"
        );
        let set: Vec<Override> = set.iter().map(|text| Override::fixed(*text)).collect();
        parse_study_with(&text, &set).unwrap().warnings.to_string()
    };
    // Ten frames of 1,538 bytes at 8 ns, 12.304 us each, over four links: four times the message,
    // or its frames and three more. Cables and switches take 15.1 us.
    for level in ["fluid", "max-min", "queues"] {
        let told = warnings("15000 B", &[&format!("links.model={level}")]);
        let title = format!("warning: level `{level}` stores whole messages at each switch");
        assert!(told.contains(&title), "{told}");
        let times = "from host 0 to host 2 take 507.260 us alone, and 175.052 us at `packets`";
        assert!(told.contains(times), "{told}");
    }
    for (size, set) in [
        // One frame is stored either way.
        ("1500 B", "links.model=fluid"),
        ("15000 B", "links.model=packets"),
        ("15000 B", "links.switching=cut-through"),
        ("15000 B", "links.frame_payload=0 B"),
    ] {
        let told = warnings(size, &[set]);
        assert!(!told.contains("stores whole"), "{set}: {told}");
    }
}
