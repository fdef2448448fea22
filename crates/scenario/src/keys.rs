//! Every key of a study and of a preset: the one list behind reading, `viaduct keys`, suggestions
//! and the resolved scenario.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::value::Kind;

/// A key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name in its table.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// What holds when it is not given.
    pub fallback: Fallback,
    /// The key counts only where these keys of its table have one of these values.
    pub when: Vec<(&'static str, &'static [&'static str])>,
    /// Keys of its table that may not stand beside it.
    pub excludes: &'static [&'static str],
    /// What it means, one line.
    pub meaning: &'static str,
}

/// What holds when a key is not given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// This value, written without quotes.
    Value(&'static str),
    /// What these words say.
    Otherwise(&'static str),
}

/// A table of keys.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name: `traffic`, `hosts.model.nic`.
    pub name: &'static str,
    /// What it is about, one line.
    pub meaning: &'static str,
    /// Whether leaving the whole table out means something of its own.
    pub optional: bool,
    /// Its keys, in the order in which they are read and written.
    pub keys: Vec<Key>,
}

impl Table {
    /// The key of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    fn new(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        let (when, excludes) = (Vec::new(), &[][..]);
        Self {
            name,
            kind,
            fallback: Fallback::Required,
            when,
            excludes,
            meaning,
        }
    }

    fn or(mut self, value: &'static str) -> Self {
        self.fallback = Fallback::Value(value);
        self
    }

    fn otherwise(mut self, words: &'static str) -> Self {
        self.fallback = Fallback::Otherwise(words);
        self
    }

    fn with(mut self, key: &'static str, choices: &'static [&'static str]) -> Self {
        self.when.push((key, choices));
        self
    }

    fn not_beside(mut self, keys: &'static [&'static str]) -> Self {
        self.excludes = keys;
        self
    }

    /// Where the key counts: `pattern = "hot-spot"`; empty if everywhere.
    #[must_use]
    pub fn used_with(&self) -> String {
        let condition = |(key, choices): &(&str, &[&str])| {
            let choices: Vec<String> = choices.iter().map(|c| format!("\"{c}\"")).collect();
            format!("{key} = {}", choices.join(" or "))
        };
        self.when
            .iter()
            .map(condition)
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// The fallback in words.
    #[must_use]
    pub fn default_text(&self) -> &'static str {
        match self.fallback {
            Fallback::Required => "required",
            Fallback::Value(value) => value,
            Fallback::Otherwise(words) => words,
        }
    }
}

/// All tables of a study, in the order in which they are read and written.
#[must_use]
pub fn tables() -> &'static [Table] {
    &TABLES
}

/// The table of a name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

/// A table by the name that a program of ours uses.
pub(crate) fn known_table(name: &'static str) -> &'static Table {
    // Only names of the list below are asked for; a test walks them.
    table(name).unwrap_or(&TABLES[0])
}

/// A key by its whole path: `traffic.size`.
#[must_use]
pub fn key_at(path: &str) -> Option<(&'static Table, &'static Key)> {
    let (name, key) = path.rsplit_once('.')?;
    let table = table(name)?;
    Some((table, table.find(key)?))
}

/// Tables that hold settings of a run; `published`, `sweep` and `files` are lists beside them.
pub(crate) fn setting_tables() -> impl Iterator<Item = &'static Table> {
    TABLES
        .iter()
        .filter(|table| !matches!(table.name, "published" | "preset"))
}

/// What `viaduct keys` and `viaduct keys TABLE` print.
///
/// # Errors
///
/// When there is no such table: a line that says which there are.
pub fn keys_text(only: Option<&str>) -> Result<String, String> {
    let mut text = String::new();
    if let Some(name) = only.map(|name| name.trim_matches(['[', ']'])) {
        let Some(table) = table(name) else {
            let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
            let near = crate::diagnostics::nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            return Err(format!(
                "no table `{name}`; {near}tables: {}",
                names.join(", ")
            ));
        };
        write_table(&mut text, table);
        return Ok(text);
    }
    for table in TABLES.iter() {
        if !text.is_empty() {
            text.push('\n');
        }
        write_table(&mut text, table);
    }
    text.push_str(
        "\n[sweep]\n  \"TABLE.KEY\" = [value, ...]: the values that the study runs over\n",
    );
    text.push_str("\n[files]\n  \"PATH\" = text: files that the study names, carried along\n");
    Ok(text)
}

fn write_table(text: &mut String, table: &Table) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[{}]  {}", table.name, table.meaning);
    let width = table
        .keys
        .iter()
        .map(|key| key.name.len())
        .max()
        .unwrap_or(0);
    for key in &table.keys {
        let _ = writeln!(text, "  {:width$}  {}", key.name, key.meaning);
        let used_with = key.used_with();
        let used = if used_with.is_empty() {
            String::new()
        } else {
            format!("; with {used_with}")
        };
        let kind = key.kind.describe();
        let _ = writeln!(
            text,
            "  {:width$}    {kind}; default: {}{used}",
            "",
            key.default_text()
        );
    }
}

/// Largest message that a key takes: sizes of messages are 32-bit numbers.
pub const MESSAGE_BYTES_MAX: u64 = (1 << 32) - 1;
/// Most application processes a host.
pub const PROCESSES_MAX: u64 = 1 << 16;
/// Most receive descriptors kept on a VI, and most send buffers a host.
pub const DESCRIPTORS_MAX: u64 = 1 << 20;

const WHOLE: Kind = Kind::Count(0, u64::MAX);
const NUMBER_FROM_1: Kind = Kind::Count(1, u32::MAX as u64);
const MESSAGE: Kind = Kind::Size(MESSAGE_BYTES_MAX);

const MEAN_INTERVALS: &[&str] = &["exponential", "constant", "pareto", "log-normal"];

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
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
            {
                vec![
                    Key::new("name", Kind::Text, "the name of the hardware")
                        .otherwise("the preset's"),
                ]
            },
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
            "published",
            "[[published]]: a published figure, one a row",
            published_keys(),
        ),
        optional(
            "preset",
            "the head of a preset; its tables are hosts.model.*",
            preset_keys(),
        ),
    ]
});

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
            "how flows share a link",
        )
        .or("fluid"),
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
            "preset of the hardware: a name of `viaduct models` or a file",
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
            Kind::Count(1, DESCRIPTORS_MAX),
            "receive descriptors kept on each VI",
        )
        .or("64"),
        Key::new(
            "send_buffers",
            Kind::Count(1, DESCRIPTORS_MAX),
            "send buffers of a host",
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

fn cpu_keys() -> Vec<Key> {
    vec![
        Key::new("post", Kind::Time, "building a descriptor and queueing it"),
        Key::new(
            "reap",
            Kind::Time,
            "taking a completed descriptor off its queue",
        ),
        Key::new(
            "notice",
            Kind::Choice(&["polling", "interrupt"]),
            "how the application learns of a message",
        ),
        Key::new(
            "polling_delay",
            Kind::Time,
            "from the completion's write to the loop's seeing it",
        ),
        Key::new(
            "interrupt",
            Kind::Time,
            "from the interrupt to its handler's end",
        ),
        Key::new(
            "wake_up",
            Kind::Time,
            "scheduling the application that waits",
        ),
    ]
}

fn bus_keys() -> Vec<Key> {
    vec![
        Key::new("rate", Kind::RateOrInfinite, "peak rate"),
        Key::new(
            "burst",
            Kind::Size(1 << 30),
            "data of a DMA burst; 0 B: bursts cost nothing",
        ),
        Key::new(
            "burst_overhead",
            Kind::Time,
            "arbitration, address and turn-around of a burst",
        ),
        Key::new(
            "programmed_write",
            Kind::Time,
            "a write of the processor to the NIC: a doorbell",
        ),
        Key::new("read", Kind::Time, "a short read by the NIC: a descriptor"),
        Key::new(
            "write",
            Kind::Time,
            "a short write by the NIC: a status word",
        ),
    ]
}

fn nic_keys() -> Vec<Key> {
    vec![
        Key::new(
            "doorbell",
            Kind::Time,
            "from the doorbell's arrival to the NIC's reaction",
        ),
        Key::new(
            "send_descriptor",
            Kind::Time,
            "reading and checking a send descriptor",
        ),
        Key::new(
            "translate",
            Kind::Time,
            "translation and protection check of a segment",
        ),
        Key::new(
            "inline",
            Kind::Size(1 << 20),
            "messages up to this travel with the descriptor",
        ),
        Key::new(
            "dma_setup",
            Kind::Time,
            "starting a DMA transfer, at each end",
        ),
        Key::new(
            "rate",
            Kind::RateOrInfinite,
            "at which bytes move between bus and link",
        ),
        Key::new(
            "page",
            Kind::Size(1 << 30),
            "page of the translation table; 0 B: costs nothing",
        ),
        Key::new(
            "page_crossing",
            Kind::Time,
            "going on in the buffer's next page, at each end",
        ),
        Key::new(
            "forwarding",
            Kind::Choice(&["cut-through", "store-and-forward"]),
            "send while data still arrives, or when it has",
        ),
        Key::new(
            "receive_match",
            Kind::Time,
            "finding the VI and its receive descriptor",
        ),
        Key::new("completion", Kind::Time, "preparing the completion"),
        Key::new(
            "transfer_max",
            MESSAGE,
            "largest message that a descriptor takes",
        ),
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
    let open = |key: Key| key.with("arrivals", &["open"]);
    let mut keys = vec![
        Key::new("pattern", Kind::Choice(PATTERNS), "to whom each host sends"),
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
            "arrivals",
            Kind::Choice(&["open", "ping-pong", "window"]),
            "post by the clock, after the answer, or with so many under way",
        )
        .or("open"),
        Key::new(
            "window",
            NUMBER_FROM_1,
            "messages posted and not yet delivered",
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
    keys.extend(size_keys());
    keys.push(Key::new("start", Kind::Time, "no message is posted before").or("0 s"));
    keys.push(Key::new("stop", Kind::Time, "none is posted at or after").otherwise("run.until"));
    keys
}

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
            Kind::Choice(&["given", "result", "context"]),
            "calibrated on, to be predicted, or only for comparison",
        )
        .or("result"),
    ]
}

fn preset_keys() -> Vec<Key> {
    vec![
        Key::new("name", Kind::Text, "name of the preset"),
        Key::new("description", Kind::Text, "the hardware, one line").or(""),
        Key::new(
            "source",
            Kind::Text,
            "where its numbers come from, one line",
        )
        .or(""),
    ]
}
