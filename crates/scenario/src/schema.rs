//! The list of keys: name, kind, default, meaning.

mod adapters;
mod faults;
mod hardware;

use crate::keys::{Key, Table};
use crate::value::Kind;
use adapters::{
    endpoints_keys, figure_keys, firmware_keys, host_side_keys, interface_keys,
    interface_network_keys, kernel_keys, link_keys as preset_link_keys, memory_keys, rdma_keys,
    remote_writes_keys, transport_keys,
};
use faults::{background_keys, detection_keys, fault_keys};
use hardware::{bus_keys, cpu_keys, model_keys, nic_keys};

/// Largest message that a key takes: sizes of messages are 32-bit numbers.
pub const MESSAGE_BYTES_MAX: u64 = (1 << 32) - 1;
/// Most application processes a host.
pub const PROCESSES_MAX: u64 = 1 << 16;
/// Most receive descriptors kept on a VI, and most send buffers a host.
pub const DESCRIPTORS_MAX: u64 = 1 << 20;

const WHOLE: Kind = Kind::Count(0, u64::MAX);
const NUMBER_FROM_1: Kind = Kind::Count(1, u32::MAX as u64);
const MESSAGE: Kind = Kind::Size(MESSAGE_BYTES_MAX);

/// How adapters carry messages; each but the first has a table of its own in a preset.
pub(crate) const MECHANISMS: &[&str] = &[
    "native",
    "remote-writes",
    "firmware",
    "kernel",
    "rdma",
    "endpoints",
];

const MEAN_INTERVALS: &[&str] = &["exponential", "constant", "pareto", "log-normal"];

/// All tables, in the order in which they are read and written.
pub(crate) fn list() -> Vec<Table> {
    let table = |name, meaning, keys| Table {
        name,
        meaning,
        optional: false,
        keys,
    };
    let optional = |name, meaning, keys| Table {
        name,
        meaning,
        optional: true,
        keys,
    };
    vec![
        table("study", "what the study is", study_keys()),
        table("run", "how long, which seed", run_keys()),
        table(
            "network",
            "hosts, switches and how they are joined",
            network_keys(),
        ),
        table("switches", "what a switch costs a message", switch_keys()),
        table(
            "links",
            "rate and framing of the links, and how flows share them",
            link_keys(),
        ),
        table("hosts", "how each host is used", host_keys()),
        table(
            "hosts.model",
            "the hardware of a host, over the preset's values",
            model_keys(),
        ),
        table(
            "hosts.model.cpu",
            "what the processor spends on a message",
            cpu_keys(),
        ),
        table("hosts.model.bus", "the I/O bus", bus_keys()),
        table(
            "hosts.model.nic",
            "the network adapter, stage by stage",
            nic_keys(),
        ),
        optional(
            "hosts.bus_load",
            "other devices on each host's bus",
            bus_load_keys(),
        ),
        table("traffic", "what the applications send", traffic_keys()),
        optional(
            "detection",
            "for programs: how long simulated hosts take to notice a fault",
            detection_keys(),
        ),
        optional(
            "fault",
            "[[fault]], for programs: something that goes wrong, one a row",
            fault_keys(),
        ),
        optional(
            "background",
            "[[background]], for programs: traffic of others beside them, one a row",
            background_keys(),
        ),
        optional(
            "published",
            "[[published]]: a published figure, one a row",
            published_keys(),
        ),
        optional(
            "preset",
            "the head of a preset; its tables are hosts.model.* and preset.*",
            preset_keys(),
        ),
        optional(
            "preset.memory",
            "a preset's [memory]: what registering it costs; nothing, if left out",
            memory_keys(),
        ),
        optional(
            "preset.link",
            "a preset's [link]: the cable of a pair of such hosts",
            preset_link_keys(),
        ),
        optional(
            "preset.remote_writes",
            "a preset's [remote_writes]: VIA in a library above remote writes",
            remote_writes_keys(),
        ),
        optional(
            "preset.firmware",
            "a preset's [firmware]: VIA in the adapter's own processor",
            firmware_keys(),
        ),
        optional(
            "preset.kernel",
            "a preset's [kernel]: VIA in the kernel",
            kernel_keys(),
        ),
        optional(
            "preset.rdma",
            "a preset's [rdma]: a current RDMA adapter",
            rdma_keys(),
        ),
        optional(
            "preset.endpoints",
            "a preset's [endpoints]: Active Messages, in frames of the interface",
            endpoints_keys(),
        ),
        optional(
            "preset.interface",
            "a preset's [interface]: the processor that serves endpoints",
            interface_keys(),
        ),
        optional(
            "preset.host",
            "a preset's [host]: processor, driver and bus beside it",
            host_side_keys(),
        ),
        optional(
            "preset.network",
            "a preset's [network]: links and switches between interfaces",
            interface_network_keys(),
        ),
        optional(
            "preset.transport",
            "a preset's [transport]: messages exactly once; once and unanswered, if left out",
            transport_keys(),
        ),
        optional(
            "preset.published",
            "a preset's [[published]]: a figure of a program on it, one a row",
            figure_keys(),
        ),
    ]
}

fn study_keys() -> Vec<Key> {
    vec![
        Key::new("name", Kind::Text, "a short name").otherwise("the file's"),
        Key::new("title", Kind::Text, "one line that names the study").or(""),
        Key::new("question", Kind::Text, "what it answers").or(""),
        Key::new(
            "source",
            Kind::Text,
            "where its set-up and figures come from",
        )
        .or(""),
    ]
}

fn run_keys() -> Vec<Key> {
    vec![
        Key::new("until", Kind::Time, "end of simulated time"),
        Key::new(
            "warmup",
            Kind::Time,
            "messages posted before it are not counted",
        )
        .or("0 s"),
        Key::new("seed", WHOLE, "seed of all random streams").or("1"),
        Key::new(
            "drain",
            Kind::Boolean,
            "carry messages under way at the end to theirs",
        )
        .or("true"),
        Key::new(
            "messages_max",
            Kind::Count(1, u64::MAX),
            "end after so many deliveries",
        )
        .otherwise("no limit"),
        Key::new(
            "events_max",
            Kind::Count(1, u64::MAX),
            "end after so many events",
        )
        .otherwise("no limit"),
        Key::new(
            "message_rows_max",
            Kind::Count(0, 1 << 28),
            "rows kept of single messages",
        )
        .or("100000"),
    ]
}

fn network_keys() -> Vec<Key> {
    const TOPOLOGIES: &[&str] = &["chain", "switch", "mesh", "torus", "fat-tree", "graph"];
    const GENERATED: &[&str] = &["chain", "switch", "mesh", "torus", "fat-tree"];
    const GRIDS: &[&str] = &["mesh", "torus"];
    const GRAPH: &[&str] = &["graph"];
    vec![
        Key::new(
            "topology",
            Kind::Choice(TOPOLOGIES),
            "how the switches are joined",
        ),
        Key::new(
            "dimensions",
            Kind::Counts,
            "switches along each dimension: [16, 16]",
        )
        .with("topology", GRIDS),
        Key::new("switches", NUMBER_FROM_1, "switches in the chain").with("topology", &["chain"]),
        Key::new("hosts", NUMBER_FROM_1, "hosts on the switch").with("topology", &["switch"]),
        Key::new(
            "hosts_per_switch",
            NUMBER_FROM_1,
            "hosts on each switch that has any",
        )
        .or("1")
        .with("topology", &["chain", "mesh", "torus"]),
        Key::new(
            "ends_only",
            Kind::Boolean,
            "hosts only on the first and last switch",
        )
        .or("false")
        .with("topology", &["chain"]),
        Key::new(
            "arity",
            NUMBER_FROM_1,
            "k of the k-ary n-tree: links up, and down, of a switch",
        )
        .with("topology", &["fat-tree"]),
        Key::new(
            "levels",
            NUMBER_FROM_1,
            "n of the k-ary n-tree: levels of switches",
        )
        .with("topology", &["fat-tree"]),
        Key::new("switch_ports", NUMBER_FROM_1, "ports of a switch")
            .otherwise("as many as it takes")
            .with("topology", GENERATED),
        Key::new("file", Kind::File, "link list, node-link JSON or GraphML")
            .with("topology", GRAPH),
        Key::new(
            "format",
            Kind::Choice(&["list", "json", "graphml"]),
            "how `file` is written",
        )
        .otherwise("by the file's ending")
        .with("topology", GRAPH),
        Key::new(
            "routing",
            Kind::Choice(&["rule", "shortest-path", "table"]),
            "how routes are made",
        )
        .otherwise("rule; for a graph shortest-path"),
        Key::new("routes", Kind::File, "file of routing tables").with("routing", &["table"]),
        Key::new(
            "equal_paths",
            Kind::Choice(&["hash", "single"]),
            "of equally good links: one a flow, or always the first",
        )
        .otherwise("hash")
        .with("topology", GRAPH),
    ]
}

fn switch_keys() -> Vec<Key> {
    vec![
        Key::new(
            "delay",
            Kind::Time,
            "from the header's arrival to the start of forwarding",
        )
        .or("0 s"),
        Key::new(
            "cut_through",
            MESSAGE,
            "bytes that must arrive before forwarding",
        )
        .or("0 B"),
    ]
}

fn link_keys() -> Vec<Key> {
    vec![
        Key::new(
            "model",
            Kind::Choice(&["fluid", "max-min"]),
            "n flows each get 1/n, used or not (our rule), or unused shares are handed on",
        )
        .or("max-min"),
        Key::new(
            "switching",
            Kind::Choice(&["cut-through", "store-and-forward"]),
            "forward while a message still arrives, or when it has",
        )
        .or("cut-through"),
        Key::new(
            "rate",
            Kind::Rate,
            "of a link between switches, after line coding",
        )
        .otherwise("from signal_rate and coding")
        .not_beside(&["signal_rate", "coding"]),
        Key::new(
            "signal_rate",
            Kind::Rate,
            "bits on the wire, before line coding",
        )
        .otherwise("rate is given")
        .not_beside(&["rate"]),
        Key::new(
            "coding",
            Kind::Choice(&["none", "8b/10b", "64b/66b"]),
            "line coding of signal_rate",
        )
        .otherwise("none")
        .not_beside(&["rate"]),
        Key::new(
            "host_rate",
            Kind::Rate,
            "of a link between host and switch, after line coding",
        )
        .otherwise("links.rate"),
        Key::new("propagation", Kind::Time, "signal propagation of one link").or("0 s"),
        Key::new(
            "frame_payload",
            MESSAGE,
            "largest payload of a frame; 0 B: one frame a message",
        )
        .or("0 B"),
        Key::new(
            "frame_header",
            Kind::Size(1 << 16),
            "header, trailer and gap of a frame",
        )
        .or("0 B"),
    ]
}

fn host_keys() -> Vec<Key> {
    vec![
        Key::new(
            "nic",
            Kind::Preset,
            "the hardware: a preset, a file, or inline (all in hosts.model)",
        )
        .or("giganet-clan"),
        Key::new(
            "processes",
            Kind::Count(1, PROCESSES_MAX),
            "application processes a host",
        )
        .or("1"),
        Key::new(
            "prepost",
            Kind::CountOrUnlimited(1, DESCRIPTORS_MAX),
            "receive descriptors kept on each VI; unlimited if not set with `ideal`",
        )
        .or("8"),
        Key::new(
            "send_buffers",
            Kind::CountOrUnlimited(1, DESCRIPTORS_MAX),
            "send buffers of a host; unlimited if not set with `ideal`",
        )
        .or("64"),
        Key::new(
            "completion",
            Kind::Choice(&["preset", "polling", "interrupt"]),
            "how the application learns of a message",
        )
        .or("preset"),
    ]
}

/// Keys of a distribution of intervals, but for the mean; `arrivals` guards them in traffic.
fn interval_keys(guard: impl Fn(Key) -> Key) -> Vec<Key> {
    const DISTRIBUTIONS: &[&str] = &[
        "exponential",
        "constant",
        "uniform",
        "pareto",
        "log-normal",
        "empirical",
    ];
    let distribution = "interval_distribution";
    vec![
        guard(Key::new(
            distribution,
            Kind::Choice(DISTRIBUTIONS),
            "how intervals are drawn",
        ))
        .or("exponential"),
        guard(Key::new("interval_min", Kind::Time, "shortest interval"))
            .with(distribution, &["uniform"]),
        guard(Key::new("interval_max", Kind::Time, "longest interval"))
            .with(distribution, &["uniform"]),
        guard(Key::new(
            "interval_shape",
            Kind::Real,
            "Pareto shape, above 1",
        ))
        .with(distribution, &["pareto"]),
        guard(Key::new(
            "interval_variation",
            Kind::Real,
            "deviation over mean",
        ))
        .with(distribution, &["log-normal"]),
        guard(Key::new(
            "interval_table",
            Kind::TimeTable,
            "[[\"1 ms\", \"50 %\"], ...]",
        ))
        .with(distribution, &["empirical"]),
    ]
}

fn size_keys() -> Vec<Key> {
    const DISTRIBUTIONS: &[&str] = &["constant", "uniform", "pareto", "log-normal", "empirical"];
    let distribution = "size_distribution";
    vec![
        Key::new(
            distribution,
            Kind::Choice(DISTRIBUTIONS),
            "how sizes are drawn",
        )
        .or("constant"),
        Key::new("size", MESSAGE, "bytes of a message, or their mean")
            .with(distribution, &["constant", "log-normal"]),
        Key::new("size_min", MESSAGE, "smallest").with(distribution, &["uniform", "pareto"]),
        Key::new("size_max", MESSAGE, "largest")
            .with(distribution, &["uniform", "pareto", "log-normal"]),
        Key::new("size_shape", Kind::Real, "Pareto shape").with(distribution, &["pareto"]),
        Key::new("size_variation", Kind::Real, "deviation over mean")
            .with(distribution, &["log-normal"]),
        Key::new(
            "size_file",
            Kind::File,
            "flow-size table: `bytes cumulative_percent` a line",
        )
        .with(distribution, &["empirical"]),
    ]
}

fn bus_load_keys() -> Vec<Key> {
    let mut keys = interval_keys(|key| key);
    let mean = Key::new(
        "interval",
        Kind::Time,
        "mean time between the starts of two transfers",
    );
    keys.insert(1, mean.with("interval_distribution", MEAN_INTERVALS));
    keys.extend(size_keys());
    keys
}

fn traffic_keys() -> Vec<Key> {
    const PATTERNS: &[&str] = &[
        "straight-line",
        "uniform",
        "transpose",
        "bit-reversal",
        "random-permutation",
        "neighbours",
        "hot-spot",
        "incast",
        "all-to-all",
        "pairs",
    ];
    const HOST: Kind = Kind::Count(0, u32::MAX as u64);
    const DRAWN: &[&str] = &["open", "ping-pong", "window"];
    let open = |key: Key| key.with("arrivals", &["open"]);
    let drawn = |key: Key| key.with("arrivals", DRAWN);
    let mut keys = vec![
        Key::new(
            "arrivals",
            Kind::Choice(&["open", "ping-pong", "window", "list"]),
            "post by the clock, after the answer, with so many sends open, or what a file lists",
        )
        .or("open"),
        Key::new(
            "file",
            Kind::File,
            "messages, one a line, below `time_us,source,target,bytes`",
        )
        .with("arrivals", &["list"]),
        drawn(Key::new(
            "pattern",
            Kind::Choice(PATTERNS),
            "to whom each host sends",
        )),
        Key::new("hops", NUMBER_FROM_1, "switch hops along the line")
            .with("pattern", &["straight-line"]),
        Key::new("hot", HOST, "the host that many send to")
            .or("0")
            .with("pattern", &["hot-spot"]),
        Key::new(
            "fraction",
            Kind::Ratio,
            "share that goes to the hot host on purpose",
        )
        .with("pattern", &["hot-spot"]),
        Key::new("target", HOST, "the host that all send to")
            .or("0")
            .with("pattern", &["incast"]),
        Key::new("pairs", Kind::Pairs, "who sends to whom: [[0, 1], ...]")
            .with("pattern", &["pairs"]),
        Key::new(
            "window",
            NUMBER_FROM_1,
            "messages posted whose sends are not complete",
        )
        .with("arrivals", &["window"]),
    ];
    keys.extend(interval_keys(open));
    let mean = |key: Key| open(key).with("interval_distribution", MEAN_INTERVALS);
    keys.push(
        mean(Key::new(
            "rate",
            Kind::Frequency,
            "messages a second and process",
        ))
        .otherwise("from interval")
        .not_beside(&["interval"]),
    );
    keys.push(
        mean(Key::new(
            "interval",
            Kind::Time,
            "mean time between two messages of a process",
        ))
        .otherwise("from rate")
        .not_beside(&["rate"]),
    );
    // The other keys of the size hang on the first.
    keys.extend(
        size_keys()
            .into_iter()
            .map(|key| match key.when.is_empty() {
                true => drawn(key),
                false => key,
            }),
    );
    keys.push(
        Key::new(
            "start",
            Kind::TimeOr("run.warmup"),
            "no message is posted before",
        )
        .or("0 s"),
    );
    keys.push(Key::new("stop", Kind::Time, "none is posted at or after").otherwise("run.until"));
    keys
}

/// How far a reproduction may be off where the study does not say: `Role::tolerance`, in words.
const TOLERANCE_DEFAULT: &str = "2 % where role is given, else 5 %";

fn published_keys() -> Vec<Key> {
    vec![
        Key::new(
            "quantity",
            Kind::Text,
            "the result that it stands beside: latency_us.mean",
        ),
        Key::new("value", Kind::Real, "the published figure"),
        Key::new("unit", Kind::Text, "its unit").or(""),
        Key::new("source", Kind::Text, "where it is published").or(""),
        Key::new(
            "role",
            Kind::Choice(&["given", "result", "predicted", "context"]),
            "calibrated on, to be predicted, predicted blind, or only for comparison",
        )
        .or("result"),
        Key::new(
            "tolerance",
            Kind::Ratio,
            "how far a reproduction may be off, relative to the figure",
        )
        .otherwise(TOLERANCE_DEFAULT),
        Key::new(
            "blind",
            Kind::Real,
            "what was predicted before the figure was known",
        )
        .with("role", &["predicted"]),
        Key::new(
            "blind_by",
            Kind::Text,
            "the version that predicted it: 0.1.0",
        )
        .with("role", &["predicted"]),
        Key::new(
            "authors_model",
            Kind::Real,
            "what the source's own model says where the figure is measured",
        )
        .otherwise("nothing"),
    ]
}

fn preset_keys() -> Vec<Key> {
    vec![
        Key::new("name", Kind::Text, "name of the preset"),
        Key::new(
            "inherits",
            Kind::Text,
            "a preset, or a file beside this one, that gives what this one does not",
        )
        .otherwise("nothing: this one gives every number"),
        Key::new("description", Kind::Text, "the hardware, one line").or(""),
        Key::new(
            "source",
            Kind::Text,
            "where its numbers come from, one line",
        )
        .or(""),
        Key::new(
            "mechanism",
            Kind::Choice(MECHANISMS),
            "how the adapter carries messages; studies take native",
        )
        .or("native"),
    ]
}
