//! Any workload, on any adapter, over any network, at any level, with any fault: each combination
//! that `combinations.rs` does not refuse runs, and what must hold holds.
//!
//! - **Conserves.** What was posted was delivered, was dropped with a cause, or is under way; of
//!   programs each message comes once, in order, and none that was not posted; at the reliable
//!   levels there is no gap.
//! - **Repeats.** The same seed gives the same result to the bit.
//! - **The floor holds.** No message is faster than one that is alone, but for what a batch saves.
//!
//! As a test it runs so many combinations that each two values of two parts meet in one, and the
//! adapter that sends again at each level with each fault, and with queues that are full. Those
//! that have some words in their names, as failures show them, run with these words:
//! `VIADUCT_MATRIX="packets pause"` (`make matrix WORDS=...`); with `all` each of them does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endpoints;
mod programs;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::floor_latency;
use viaduct_cluster::result::Ended;
use viaduct_cluster::workload::{
    Application, Handling, ListedMessage, MessageList, MessageOperation, Placement, Protocol,
};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Notice};
use viaduct_operations::{ANY, After, Builder, Operation};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_scenario::combinations::{Combination, Disturbance, HostsKind, Refusal, Workload};
use viaduct_scenario::{MechanismKind, Override, Study, load_preset, parse_study_with};
use viaduct_topology::{HostId, Topology, Waiting};

use crate::endpoints::endpoints;
use crate::programs::programs;

/// What is put together, by part; the last value of each part is the simplest.
const PARTS: [&[&str]; 8] = [
    &[
        "programs",
        "programs amid list",
        "programs amid window",
        "programs amid open",
        "endpoints",
        "graph",
        "list",
        "window",
        "ping-pong",
        "open",
    ],
    &[
        "rnic-gen4 selective",
        "rnic-gen4",
        "am-myrinet",
        "clan-dma",
        "clan-pio",
        "kvia-myrinet",
        "bvia-myrinet",
        "m-via",
        "giganet-clan",
        "ideal",
    ],
    &[
        "clos",
        "rail",
        "dragonfly",
        "dragonfly-plus",
        "hyperx",
        "jellyfish",
        "leaf-spine",
        "torus",
        "switch",
    ],
    &[
        "credits least-queued slow switches",
        "credits least-queued",
        "credits ugal",
        "credits spray",
        "credits wormhole",
        "credits stored",
        "credits",
        "packets least-queued nscc",
        "packets ugal",
        "packets spray slow switches",
        "packets spray full",
        "packets spray",
        "packets nscc",
        "packets dcqcn",
        "packets full shared",
        "packets trim fair",
        "packets trim",
        "packets pause shared",
        "packets pause fair",
        "packets pause",
        "packets fair",
        "packets full stored",
        "packets full",
        "packets stored",
        "packets",
        "queues limits stored",
        "queues limits",
        "queues stored",
        "queues",
        "fluid stored",
        "fluid",
        "max-min stored",
        "max-min",
        "not said",
    ],
    &["reliable-reception", "reliable-delivery", "unreliable"],
    &[
        "loss",
        "corruption",
        "link-down",
        "link-stays-down",
        "slow-host",
        "slow-link",
        "nic-dies",
        "host-dies",
        "background",
        "nothing",
    ],
    &["read", "write-with-immediate", "write", "send"],
    &["adapters", "adapters on one bus", "groups", "alike"],
];

/// One value of each part, by its place.
type Cell = [usize; PARTS.len()];

/// Hosts of a network, each of which is an adapter of one of half as many where they have two.
const HOSTS: u32 = 8;

/// Hosts that have processes.
fn hosts(cell: &Cell) -> u32 {
    match text(cell, 7).starts_with("adapters") {
        true => HOSTS / 2,
        false => HOSTS,
    }
}

/// Two tiers, with two equal ways between hosts of two leaves.
const LEAF_SPINE: &str = "hosts n*
n0 leaf0
n1 leaf0
n2 leaf1
n3 leaf1
n4 leaf2
n5 leaf2
n6 leaf3
n7 leaf3
leaf0 spine0
leaf0 spine1
leaf1 spine0
leaf1 spine1
leaf2 spine0
leaf2 spine1
leaf3 spine0
leaf3 spine1
";

/// The preset of an adapter.
fn preset(words: &str) -> &str {
    words.split_whitespace().next().unwrap()
}

/// How the adapters of each preset carry messages.
static MECHANISMS: LazyLock<Vec<MechanismKind>> = LazyLock::new(|| {
    let presets = PARTS[1].iter();
    presets
        .map(|words| load_preset(preset(words)).unwrap().mechanism)
        .collect()
});

fn text(cell: &Cell, part: usize) -> &'static str {
    PARTS[part][cell[part]]
}

fn name(cell: &Cell) -> String {
    let words: Vec<_> = (0..PARTS.len()).map(|part| text(cell, part)).collect();
    words.join(" | ")
}

fn level(cell: &Cell) -> ReliabilityLevel {
    match text(cell, 4) {
        "unreliable" => ReliabilityLevel::Unreliable,
        "reliable-delivery" => ReliabilityLevel::ReliableDelivery,
        _ => ReliabilityLevel::ReliableReception,
    }
}

fn operation(cell: &Cell) -> MessageOperation {
    let mut all = MessageOperation::ALL.into_iter();
    all.find(|it| it.name() == text(cell, 6)).unwrap()
}

/// What the table is asked. Endpoints are asked for no level where the simplest is meant.
fn combination(cell: &Cell) -> Combination {
    let workload = match text(cell, 0) {
        "endpoints" => Workload::Endpoints,
        programs if programs.starts_with("programs") => Workload::Programs,
        _ => Workload::Traffic,
    };
    let is_usual = level(cell) == ReliabilityLevel::Unreliable;
    Combination {
        workload,
        adapter: MECHANISMS[cell[1]],
        operation: operation(cell),
        is_answered: text(cell, 0) == "ping-pong",
        level: (workload != Workload::Endpoints || !is_usual).then(|| level(cell)),
        disturbance: match text(cell, 5) {
            "loss" => Some(Disturbance::Loss),
            "corruption" => Some(Disturbance::Corruption),
            "link-down" | "link-stays-down" => Some(Disturbance::LinkDown),
            "slow-host" => Some(Disturbance::SlowHost),
            "nic-dies" => Some(Disturbance::NicDies),
            "host-dies" => Some(Disturbance::HostDies),
            "background" => Some(Disturbance::Background),
            _ => None,
        },
        hosts: match text(cell, 7) {
            "groups" => HostsKind::Groups,
            "adapters" | "adapters on one bus" => HostsKind::Adapters,
            _ => HostsKind::Alike,
        },
    }
}

/// Whether queues of switches lose frames.
fn has_full_queues(cell: &Cell) -> bool {
    text(cell, 3).contains("full")
}

/// Links that pause may wait for each other where their routes close a ring.
fn may_stand_still(cell: &Cell, topology: &Topology) -> bool {
    text(cell, 3).contains("pause") && matches!(topology.waiting(1), Waiting::Ring(_))
}

/// All cells, the last part fastest. There are millions: each is made when it is asked for.
fn cells() -> impl Iterator<Item = Cell> {
    let count: usize = PARTS.iter().map(|values| values.len()).product();
    (0..count).map(|number| {
        let mut rest = number;
        let mut cell = [0; PARTS.len()];
        for (value, values) in cell.iter_mut().zip(PARTS).rev() {
            *value = rest % values.len();
            rest /= values.len();
        }
        cell
    })
}

/// Whether the table lets it run.
fn runs(cell: &Cell) -> bool {
    Refusal::of(&combination(cell)).is_none()
}

/// The part that says how hosts differ, and its value where they do not.
const HOSTS_PART: usize = PARTS.len() - 1;
const ALIKE: usize = PARTS[HOSTS_PART].len() - 1;

/// Two values that are to meet, each with its part before it, the earlier part first.
type Pair = [(usize, usize); 2];

fn pair(one: (usize, usize), other: (usize, usize)) -> Pair {
    [one.min(other), one.max(other)]
}

/// The pairs that are to meet in a cell. Hosts that differ meet each value of the other parts, and
/// so do those of several adapters, whatever else that meets.
fn pairs() -> BTreeSet<Pair> {
    let values = |part: usize| (0..PARTS[part].len()).map(move |value| (part, value));
    let parts = (0..PARTS.len()).flat_map(|other| (0..other).map(move |one| (one, other)));
    parts
        .flat_map(|(one, other)| {
            values(one).flat_map(move |it| values(other).map(move |its| pair(it, its)))
        })
        .filter(|[_, other]| *other != (HOSTS_PART, ALIKE))
        .collect()
}

/// Few cells in which all pairs meet that meet in any cell that runs: each is made for a pair that
/// is missing, and with that as many others meet as can be had one part after another.
fn covering() -> Vec<Cell> {
    let mut missing = pairs();
    let mut chosen = Vec::new();
    while let Some(pair) = missing.pop_first() {
        let mut values = [None; PARTS.len()];
        values[HOSTS_PART] = Some(ALIKE);
        for (part, value) in pair {
            values[part] = Some(value);
        }
        // None has it if the table refuses this pair whatever else is chosen.
        let Some(cell) = complete(values, &missing) else {
            continue;
        };
        for part in 0..PARTS.len() {
            meetings(&cell.map(Some), (part, cell[part])).for_each(|it| {
                missing.remove(&it);
            });
        }
        chosen.push(cell);
    }
    chosen
}

/// The pairs in which a value meets those that are chosen.
fn meetings(
    values: &[Option<usize>; PARTS.len()],
    it: (usize, usize),
) -> impl Iterator<Item = Pair> + '_ {
    let are_alike = values[HOSTS_PART] == Some(ALIKE);
    let others = (0..PARTS.len()).filter(move |part| {
        *part != it.0 && (are_alike || HOSTS_PART == *part || HOSTS_PART == it.0)
    });
    others.filter_map(move |part| Some(pair(it, (part, values[part]?))))
}

/// A cell that runs, of the values that are chosen: of each other part, in turn, the first with
/// which most missing pairs meet.
fn complete(values: [Option<usize>; PARTS.len()], missing: &BTreeSet<Pair>) -> Option<Cell> {
    // What nothing is refused for comes last: not all of its values are tried where others are
    // refused.
    const ORDER: [usize; PARTS.len()] = [3, 0, 1, 4, 6, 7, 2, 5];
    const FREE: [usize; 2] = [2, 5];
    let left: Vec<usize> = ORDER
        .into_iter()
        .filter(|part| values[*part].is_none())
        .collect();
    let cell = values.map(|value| value.unwrap_or(0));
    let is_decided = left.iter().all(|part| FREE.contains(part));
    if is_decided && !runs(&cell) {
        return None;
    }
    let Some(part) = left.first() else {
        return Some(cell);
    };
    let new = |value: &usize| {
        let met = meetings(&values, (*part, *value));
        met.filter(|it| missing.contains(it)).count()
    };
    let mut by_count: Vec<usize> = (0..PARTS[*part].len()).collect();
    by_count.sort_by_cached_key(|value| Reverse(new(value)));
    by_count.into_iter().find_map(|value| {
        let mut values = values;
        values[*part] = Some(value);
        complete(values, missing)
    })
}

/// The study of a cell; endpoints take their network and faults from it.
fn study(cell: &Cell) -> Study {
    let (workload, adapter) = (text(cell, 0), preset(text(cell, 1)));
    let has_frames = workload == "endpoints" && MECHANISMS[cell[1]] == MechanismKind::Endpoints;
    let network = match text(cell, 2) {
        "switch" => "topology = \"switch\"\nhosts = 8",
        "torus" => "topology = \"torus\"\ndimensions = [2, 2]\nhosts_per_switch = 2",
        "clos" => "topology = \"clos\"\nradix = 4\npods = 2",
        "rail" => "topology = \"rail\"\nrails = 2\nservers = 4\nservers_per_unit = 2\nspines = 2",
        "dragonfly" => {
            "topology = \"dragonfly\"\nswitches_per_group = 2\nglobal_links = 1\ngroups = 2\n\
             hosts_per_switch = 2"
        }
        "dragonfly-plus" => "topology = \"dragonfly-plus\"\nradix = 4\ngroups = 2",
        "hyperx" => "topology = \"hyperx\"\ndimensions = [2, 2]\nhosts_per_switch = 2",
        "jellyfish" => {
            "topology = \"jellyfish\"\nswitches = 4\nswitch_links = 3\nhosts_per_switch = 2"
        }
        _ => "topology = \"graph\"\nfile = \"leaf-spine.txt\"",
    };
    let model = match text(cell, 3).split_whitespace().next() {
        Some("packets") if text(cell, 3).contains("nscc") => {
            "model = \"packets\"\nfull = \"trim\"\nbuffer = \"3 KiB\"\necn_low = \"1 KiB\"\n\
             congestion_control = \"nscc\""
        }
        Some("packets") if text(cell, 3).contains("dcqcn") => {
            "model = \"packets\"\necn_low = \"1 KiB\"\ncongestion_control = \"dcqcn\""
        }
        Some("packets") if text(cell, 3).contains("pause shared") => {
            "model = \"packets\"\nfull = \"pause\"\nshared_buffer = \"64 KiB\""
        }
        Some("packets") if text(cell, 3).contains("pause") => {
            "model = \"packets\"\nfull = \"pause\"\nbuffer = \"6 KiB\""
        }
        Some("packets") if text(cell, 3).contains("trim") => {
            "model = \"packets\"\nfull = \"trim\"\nbuffer = \"3 KiB\""
        }
        Some("packets") if text(cell, 3).contains("shared") => {
            "model = \"packets\"\nshared_buffer = \"16 KiB\""
        }
        Some("packets") if has_full_queues(cell) => {
            "model = \"packets\"\nbuffer = \"3 KiB\"\necn_low = \"1 KiB\""
        }
        Some("packets") => "model = \"packets\"",
        Some("credits") if text(cell, 3).contains("wormhole") => {
            "model = \"credits\"\nflow_control = \"wormhole\"\nflit = \"128 B\""
        }
        Some("credits") => "model = \"credits\"",
        Some("queues") if text(cell, 3).contains("limits") => {
            "model = \"queues\"\narrival = \"limits\""
        }
        Some("queues") => "model = \"queues\"",
        Some("fluid") => "model = \"fluid\"",
        Some("max-min") => "model = \"max-min\"",
        _ => "",
    };
    let equal_paths = match text(cell, 3) {
        spray if spray.contains("spray") => "equal_paths = \"spray\"",
        ugal if ugal.contains("ugal") => "routing = \"ugal-l\"",
        least if least.contains("least-queued") => "equal_paths = \"least-queued\"",
        _ => "",
    };
    let queueing = match text(cell, 3).contains("fair") {
        true => "queueing = \"fair\"",
        false => "",
    };
    let switching = match text(cell, 3).contains("stored") {
        true => "switching = \"store-and-forward\"",
        false => "",
    };
    // A message over several links at once is faster than over one.
    let host_rate = match text(cell, 3) {
        slow if !slow.contains("slow switches") => "",
        slow if slow.contains("credits") => "host_rate = \"4 Gbit/s\"\nspeedup = 2",
        _ => "host_rate = \"4 Gbit/s\"",
    };
    let arrivals = match workload {
        "window" | "programs amid window" => {
            "arrivals = \"window\"\nwindow = 3\npattern = \"uniform\""
        }
        "ping-pong" => "arrivals = \"ping-pong\"\npattern = \"random-permutation\"",
        _ => "pattern = \"uniform\"\nrate = \"2000/s\"",
    };
    let disturbance = match text(cell, 5) {
        "loss" => "[[fault]]\nkind = \"loss\"\nrate = \"2 %\"",
        "corruption" => "[[fault]]\nkind = \"corruption\"\nrate = \"2 %\"\nlinks = \"host 1\"",
        "link-down" => {
            "[[fault]]\nkind = \"link-down\"\nlinks = \"host 1\"\nfrom = \"2 ms\"\nuntil = \"2300 us\""
        }
        "link-stays-down" => "[[fault]]\nkind = \"link-down\"\nlinks = \"host 1\"\nfrom = \"2 ms\"",
        "slow-host" => "[[fault]]\nkind = \"slow-host\"\nhost = 1\nfactor = 3\nfrom = \"1 ms\"",
        "slow-link" => "[[fault]]\nkind = \"slow-link\"\nlinks = \"host 1\"\nfactor = 4",
        "nic-dies" => "[[fault]]\nkind = \"nic-dies\"\nhost = 1\nat = \"2 ms\"",
        "host-dies" => "[[fault]]\nkind = \"host-dies\"\nhost = 1\nat = \"2 ms\"",
        "background" => "[[background]]\nsource = 0\ninterval = \"200 us\"\nsize = \"8 KiB\"",
        _ => "",
    };
    // Another processor and another bus, and programs that look for themselves.
    let groups = match text(cell, 7) {
        "groups" => {
            "[[host_group]]\nhosts = \"1-7:3\"\ncompletion = \"polling\"\n[host_group.model.cpu]\n\
             post = \"700 ns\"\nreap = \"300 ns\"\npolling_delay = \"40 ns\"\n\
             [host_group.model.bus]\nrate = \"3 Gbit/s\"\nwrite = \"150 ns\""
        }
        _ => "",
    };
    // Of all tables that of files comes last.
    let files = match text(cell, 2) {
        "leaf-spine" => format!("[files]\n\"leaf-spine.txt\" = \"\"\"\n{LEAF_SPINE}\"\"\""),
        _ => String::new(),
    };
    let text = format!(
        r#"
[run]
until = "5 ms"
[network]
{network}
{equal_paths}
[links]
rate = "856 Mbit/s"
{host_rate}
propagation = "50 ns"
frame_payload = "1 KiB"
frame_header = "32 B"
{model}
{queueing}
{switching}
[switches]
delay = "500 ns"
cut_through = "64 B"
[hosts]
prepost = "unlimited"
[traffic]
{arrivals}
size_distribution = "uniform"
size_min = "0 B"
size_max = "6 KiB"
[detection]
transport_timeout = "200 us"
host_timeout = "1 ms"
{disturbance}
{groups}
{files}
"#
    );
    let mut set = vec![
        format!("traffic.reliability={}", self::text(cell, 4)),
        format!("traffic.operation={}", self::text(cell, 6)),
    ];
    if !has_frames {
        set.push(format!("hosts.nic={adapter}"));
    }
    if hosts(cell) < HOSTS {
        let buses = match self::text(cell, 7) {
            "adapters" => "own",
            _ => "shared",
        };
        let adapters = ["adapters=2", "adapter_choice=round-robin"];
        set.extend(adapters.map(|it| format!("hosts.{it}")));
        set.push(format!("hosts.buses={buses}"));
    }
    if self::text(cell, 1).contains("selective") && !has_frames {
        set.push("hosts.model.rdma.retransmission=selective-repeat".to_owned());
    }
    if adapter == "rnic-gen4" && !has_frames {
        // Shorter than the run, and longer in all than queues at this load hold a message up: these
        // have no back pressure, and with 65,536 ns a connection may give up that lost nothing.
        // Queues that share memory are longer than those of a bound each.
        let timeout = match text.contains("shared_buffer") {
            true => "1048576 ns",
            false => "262144 ns",
        };
        set.push(format!("hosts.model.rdma.timeout={timeout}"));
    }
    let set: Vec<Override> = set.into_iter().map(Override::fixed).collect();
    parse_study_with(&text, &set).unwrap_or_else(|error| panic!("{}\n{error}", name(cell)))
}

/// What no message may beat. An adapter that reads descriptors in batches has the one of a message
/// that is behind another in its batch without reading for it.
fn floor(
    config: &ClusterConfig,
    source: HostId,
    target: HostId,
    bytes: u32,
    operation: MessageOperation,
) -> Time {
    let alone = floor_latency(config, source, target, bytes, operation);
    match &config.host.common().mechanism {
        Mechanism::Rdma(adapter) if adapter.fetch_batch > 1 => alone.saturating_sub(adapter.read),
        _ => alone,
    }
}

/// Runs twice, and wants the same.
fn twice<T: Debug>(run: impl Fn() -> T) -> Result<T, String> {
    let (first, second) = (run(), run());
    if format!("{first:?}") != format!("{second:?}") {
        return Err("the same seed gave another result".to_owned());
    }
    Ok(first)
}

fn wanted(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Messages of a list, at a level.
fn listed(cell: &Cell, until: Time) -> TrafficConfig {
    let hosts = u64::from(hosts(cell));
    let messages: Vec<ListedMessage> = (0..120)
        .map(|number| ListedMessage {
            time: Time::from_microseconds(40 * number),
            source: (number % hosts) as u32,
            target: ((number + 1 + number / hosts % (hosts - 1)) % hosts) as u32,
            bytes: (number * 977 % 6_000) as u32,
            // Some of them are sends, on the same VIs.
            operation: match number % 3 {
                0 => MessageOperation::Send,
                _ => operation(cell),
            },
        })
        .collect();
    let list = Arc::new(MessageList::new(&messages, hosts as u32, 1).unwrap());
    TrafficConfig {
        reliability: level(cell),
        ..TrafficConfig::listed(list, Time::ZERO, until)
    }
}

/// Rounds of computing, sending and receiving, at a level: some messages are asked for, some go in
/// pieces, and every third is taken of whoever sent it.
fn graph(cell: &Cell, adapters: Adapters) -> TrafficConfig {
    const ROUNDS: u32 = 12;
    let ranks = hosts(cell);
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let mut before = None;
        for round in 0..ROUNDS {
            let away = 1 + round % (ranks - 1);
            let bytes = u64::from(round * 977 % 6_000);
            let (to, from) = ((rank + away) % ranks, (rank + ranks - away) % ranks);
            let any = if round % 3 == 0 { ANY } else { from };
            let compute = builder.add(Operation::compute(300_000)).unwrap();
            let sent = Operation::send(bytes, to).tagged(round);
            let taken = Operation::receive(bytes, any).tagged(round);
            let own = [sent, taken].map(|it| builder.add(it).unwrap());
            for operation in own {
                builder.require(operation, compute, After::End).unwrap();
            }
            for former in before.into_iter().flatten() {
                builder.require(compute, former, After::End).unwrap();
            }
            before = Some(own);
        }
        builder.next_rank();
    }
    let protocol = Protocol {
        eager_bytes: 3_000,
        piece_bytes: 2_000,
        local: None,
        adapters,
        handling: Handling::FREE,
    };
    let graph = Arc::new(builder.finish());
    let made = Application::new(graph, (ranks, 1), Placement::Scattered, protocol).unwrap();
    TrafficConfig {
        reliability: level(cell),
        ..TrafficConfig::of_application(Arc::new(made), Time::ZERO, Time::from_milliseconds(900))
    }
}

/// A study's own messages.
fn traffic(cell: &Cell) -> Result<(), String> {
    let study = study(cell);
    let mut config = study.config.clone();
    config.run.message_rows_max = 1 << 12;
    if text(cell, 0) == "list" {
        config.traffic = listed(cell, config.run.until);
    }
    if text(cell, 0) == "graph" {
        config.traffic = graph(cell, config.hosts.adapters);
        config.run.until = config.traffic.stop;
    }
    let run = || {
        let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
        (result.digest, result)
    };
    let (first, result) = run();
    let (second, _) = run();
    wanted(first == second, || {
        "the same seed gave another digest".to_owned()
    })?;
    // Somebody may wait for ever for what was lost, or for a host that died.
    let is_stalled = result.ended == Ended::Stalled && result.violations.len() == 1;
    let stands_still = may_stand_still(cell, &config.topology) && result.ended == Ended::Deadlock;
    let is_sound = result.violations.is_empty() || is_stalled || stands_still;
    wanted(is_sound, || format!("{:?}", result.violations))?;
    if let Some(application) = &result.application {
        let is_whole = application.ended == application.operations;
        wanted(is_whole != is_stalled && !application.is_cut, || {
            format!("{application:?}")
        })?;
    }
    let counts = result.messages;
    let ended = counts.delivered + counts.dropped + counts.in_flight;
    wanted(counts.posted == ended && counts.delivered > 0, || {
        format!("{counts:?}")
    })?;
    wanted(stands_still || counts.in_flight == 0, || {
        format!("after all is carried to its end: {counts:?}")
    })?;
    let dropped: u64 = result.drops.iter().map(|drops| drops.count).sum();
    wanted(counts.dropped == dropped, || {
        format!("{counts:?}, {:?}", result.drops)
    })?;
    let disturbance = combination(cell).disturbance;
    let sends_again = config.host.common().mechanism.sends_again() && level(cell).is_reliable();
    let loses = match disturbance {
        None | Some(Disturbance::Background | Disturbance::SlowHost) => false,
        Some(Disturbance::Loss | Disturbance::Corruption) => !sends_again,
        Some(_) => true,
    };
    let loses = loses || has_full_queues(cell) && !sends_again;
    wanted(loses || dropped == 0, || format!("{:?}", result.drops))?;
    wanted(loses || !is_stalled, || format!("{:?}", result.violations))?;
    // A message that a process in its loop finds costs that no notice.
    for host in config.host.values_mut() {
        if let Notice::Polling { .. } = host.notice() {
            host.processor.polling_delay = Time::ZERO;
        }
    }
    for row in &result.message_rows {
        let (source, target) = (HostId(row.source), HostId(row.target));
        let floor = floor(&config, source, target, row.bytes, row.operation);
        let holds = row.latency.is_none_or(|latency| latency >= floor);
        wanted(holds, || format!("the floor is {floor}: {row:?}"))?;
    }
    Ok(())
}

fn check(cell: &Cell) -> Result<(), String> {
    match combination(cell).workload {
        Workload::Traffic => traffic(cell),
        Workload::Programs => programs(cell),
        Workload::Endpoints => endpoints(cell),
    }
}

/// Of which combinations all are wanted: words in their names.
fn wanted_words() -> Option<String> {
    let words = std::env::var("VIADUCT_MATRIX").ok()?;
    Some(if words == "all" { String::new() } else { words })
}

/// Drawn traffic on the adapter that sends again what is lost: what it does hangs on level and
/// fault together.
fn sends_again(cell: &Cell) -> bool {
    let simplest = |part: usize| cell[part] + 1 == PARTS[part].len();
    let is_of_interest = || simplest(3) || text(cell, 3) == "packets full";
    [0, 2].into_iter().all(simplest) && is_of_interest() && preset(text(cell, 1)) == "rnic-gen4"
}

#[test]
fn every_combination_conserves_messages_repeats_and_keeps_its_floor() {
    let chosen: Vec<Cell> = match wanted_words() {
        Some(words) => {
            let are_wanted = |cell: &Cell| name(cell).contains(&words) && runs(cell);
            cells().filter(are_wanted).collect()
        }
        None => {
            let of_interest = cells().filter(|cell| sends_again(cell) && runs(cell));
            covering().into_iter().chain(of_interest).collect()
        }
    };
    assert!(
        !chosen.is_empty(),
        "no combination has these words in its name"
    );
    let wrong: Vec<String> = chosen
        .iter()
        .filter_map(|cell| Some(format!("{}: {}", name(cell), check(cell).err()?)))
        .collect();
    let (count, all) = (wrong.len(), chosen.len());
    assert!(wrong.is_empty(), "{count} of {all}:\n{}", wrong.join("\n"));
}

#[test]
fn what_the_table_refuses_is_refused_in_its_words() {
    // Hosts that do not understand each other are no part here, but in the integration tests.
    let of_parts = Refusal::ALL.iter();
    for refusal in of_parts.filter(|it| it.reason != Refusal::STRANGERS.reason) {
        let is_refused = |cell: &Cell| {
            Refusal::of(&combination(cell)).is_some_and(|it| it.reason == refusal.reason)
        };
        // They are told of the study that they are to stand in.
        if refusal.reason == Refusal::ONE_ADAPTER.reason {
            continue;
        }
        // Programs are told by their fabric, or of the study that they are to stand in.
        let is_own = |cell: &Cell| combination(cell).workload != Workload::Programs;
        let is_of_via = refusal.reason == Refusal::UNRELIABLE_READS.reason;
        let mut found = cells().filter(is_refused);
        let cell = found.find(|cell| !is_of_via || is_own(cell)).unwrap();
        let adapter = preset(text(&cell, 1));
        let said = match combination(&cell).workload {
            // No reader is ever told of a level for endpoints, or of an operation.
            Workload::Endpoints => continue,
            Workload::Traffic => {
                let mut set = vec![
                    format!("hosts.nic={adapter}"),
                    format!("traffic.operation={}", text(&cell, 6)),
                    format!("traffic.reliability={}", text(&cell, 4)),
                ];
                if combination(&cell).is_answered {
                    set.push("traffic.arrivals=ping-pong".to_owned());
                }
                let set: Vec<Override> = set.into_iter().map(Override::fixed).collect();
                let error = Study::load("two-hosts", &set).expect_err("it is refused");
                error.to_string()
            }
            Workload::Programs => {
                let made = viaduct_scenario::load_programs(adapter, None, 2);
                made.expect_err("it is refused").to_string()
            }
        };
        assert!(said.contains(refusal.reason), "{}: {said}", name(&cell));
    }
}
