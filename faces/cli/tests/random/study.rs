//! Draws a study: any network, level, adapter, workload and fault, with keys that hang on them.
//!
//! Each part is a strategy of its own and most may be missing, so that a study that breaks a rule
//! shrinks to the few lines that it takes. A part that another refuses is no fault: the command
//! says so, and that is looked at as well.

use proptest::prelude::*;

/// Lines of text.
type Lines = BoxedStrategy<String>;

/// One of some texts, simplest first.
fn one_of(texts: &'static [&'static str]) -> Lines {
    (0..texts.len()).prop_map(|at| texts[at].to_owned()).boxed()
}

/// A key with one of some values. What is no number, truth value or list is a string.
fn key(name: &'static str, values: &'static [&'static str]) -> Lines {
    let line = move |at: usize| {
        let value = values[at];
        let is_bare = value.starts_with(['[', '{'])
            || value.parse::<f64>().is_ok()
            || matches!(value, "true" | "false");
        match is_bare {
            true => format!("{name} = {value}\n"),
            false => format!("{name} = \"{value}\"\n"),
        }
    };
    (0..values.len()).prop_map(line).boxed()
}

/// The same, or nothing: in so many of a hundred studies there is something.
fn maybe(percent: u32, lines: Lines) -> Lines {
    let with = proptest::option::weighted(f64::from(percent) / 100.0, lines);
    with.prop_map(Option::unwrap_or_default).boxed()
}

fn all(parts: Vec<Lines>) -> Lines {
    parts.prop_map(|parts| parts.concat()).boxed()
}

/// A table with a head.
fn table(head: &'static str, parts: Vec<Lines>) -> Lines {
    all(parts)
        .prop_map(move |lines| format!("[{head}]\n{lines}"))
        .boxed()
}

/// Up to so many rows of a kind.
fn rows(most: usize, row: Lines) -> Lines {
    let rows = proptest::collection::vec(row, 0..=most);
    rows.prop_map(|rows| rows.concat()).boxed()
}

fn run() -> Lines {
    table(
        "run",
        vec![
            key("until", &["1 ms", "300 us", "3 ms"]),
            key("seed", &["1", "2", "3", "18446744073709551614"]),
            maybe(30, key("warmup", &["100 us", "0 s", "900 us"])),
            maybe(15, key("drain", &["true", "false"])),
            maybe(10, key("messages_max", &["1", "50"])),
            maybe(5, key("events_max", &["1000", "1"])),
            maybe(20, key("message_rows_max", &["0", "1", "10"])),
        ],
    )
}

fn network() -> Lines {
    let shapes = one_of(&[
        "topology = \"switch\"\nhosts = 4\n",
        "topology = \"switch\"\nhosts = 2\n",
        "topology = \"switch\"\nhosts = 9\n",
        "topology = \"chain\"\nswitches = 1\nhosts_per_switch = 4\n",
        "topology = \"chain\"\nswitches = 3\nhosts_per_switch = 2\n",
        "topology = \"chain\"\nswitches = 4\nhosts_per_switch = 2\nends_only = true\n",
        "topology = \"mesh\"\ndimensions = [4]\n",
        "topology = \"mesh\"\ndimensions = [3, 2]\nhosts_per_switch = 2\n",
        "topology = \"torus\"\ndimensions = [5]\n",
        "topology = \"torus\"\ndimensions = [4, 4]\n",
        "topology = \"torus\"\ndimensions = [2, 2, 2]\n",
        "topology = \"torus\"\ndimensions = [3, 3]\nhosts_per_switch = 2\n",
        "topology = \"fat-tree\"\narity = 2\nlevels = 3\n",
        "topology = \"fat-tree\"\narity = 4\nlevels = 2\n",
        "topology = \"leaf-spine\"\nhosts = 8\nhosts_per_switch = 2\nspines = 2\n",
        "topology = \"leaf-spine\"\nhosts = 6\nhosts_per_switch = 3\nspines = 1\n",
        "topology = \"clos\"\nradix = 4\n",
        "topology = \"clos\"\nradix = 4\ntiers = 2\n",
        "topology = \"clos\"\nradix = 8\noversubscription = 3\npods = 2\n",
        "topology = \"rail\"\nrails = 2\nservers = 4\nservers_per_unit = 2\nspines = 2\n",
        "topology = \"rail\"\nrails = 4\nservers = 4\nservers_per_unit = 4\nspines = 1\n",
        "topology = \"dragonfly\"\nswitches_per_group = 2\nglobal_links = 1\nhosts_per_switch = 2\n",
        "topology = \"dragonfly\"\nswitches_per_group = 4\nglobal_links = 2\ngroups = 3\nhosts_per_switch = 1\n",
        "topology = \"dragonfly-plus\"\nradix = 4\ngroups = 2\n",
        "topology = \"dragonfly-plus\"\nradix = 4\n",
        "topology = \"hyperx\"\ndimensions = [3, 3]\n",
        "topology = \"hyperx\"\ndimensions = [2, 2]\nhosts_per_switch = 2\n",
        "topology = \"slim-fly\"\norder = 3\nhosts_per_switch = 1\n",
        "topology = \"polar-fly\"\norder = 2\n",
        "topology = \"polar-fly\"\norder = 3\nhosts_per_switch = 1\n",
        "topology = \"jellyfish\"\nswitches = 6\nswitch_links = 3\nhosts_per_switch = 2\n",
        "topology = \"graph\"\nfile = \"net.txt\"\n",
        "topology = \"graph\"\nfile = \"tree.txt\"\n",
    ]);
    table(
        "network",
        vec![
            shapes,
            maybe(
                25,
                key(
                    "routing",
                    &[
                        "rule",
                        "shortest-path",
                        "up-down",
                        "valiant",
                        "ugal-l",
                        "ugal-g",
                    ],
                ),
            ),
            maybe(
                30,
                key("equal_paths", &["hash", "single", "spray", "least-queued"]),
            ),
        ],
    )
}

/// Files that networks and workloads name.
const FILES: [(&str, &str); 6] = [
    (
        "net.txt",
        "hosts n*\nn0 s0\nn1 s0\nn2 s1\nn3 s1\nn4 s2\nn5 s2\ns0 s1\ns1 s2\ns2 s0\ns0 t0\ns1 t0\ns2 t0\n",
    ),
    (
        "tree.txt",
        "hosts n*\nn0 s0\nn1 s0\nn2 s1\nn3 s1\ns0 r\ns1 r\n",
    ),
    (
        "list.csv",
        "time_us,source,target,bytes\n0,0,1,100\n0,1,0,5000\n10,0,1,0\n10,1,0,1500\n50.5,0,1,20000\n",
    ),
    ("sizes.txt", "100 0\n1000 50\n6000 100\n"),
    ("ring.goal", RING),
    ("steps.txt", STEPS),
];

/// Three ranks send around a ring, and across it.
const RING: &str = "num_ranks 3
rank 0 {
a: send 5000b to 1 tag 7
b: recv 5000b from 2 tag 7
c: calc 700
d: send 100b to 2
e: recv 90000b from 1
c requires b
d requires c
e irequires d
}
rank 1 {
a: recv 5000b from 0 tag 7
b: send 5000b to 2 tag 7
c: send 90000b to 0
b requires a
}
rank 2 {
a: recv 5000b from 1 tag 7
b: send 5000b to 0 tag 7
c: recv 100b from 0
b requires a
}
";

/// Three ranks of an MPI program, as SimGrid's time-independent trace.
const STEPS: &str = "0 init
0 irecv 1 0 80000
0 isend 1 0 80000
0 compute 4e4
0 waitall
0 allreduce 8 100
0 send 2 1 300
0 bcast 20000 0
0 finalize
1 init
1 irecv 0 0 80000
1 isend 0 0 80000
1 compute 9e4
1 waitall
1 allreduce 8 100
1 bcast 20000 0
1 finalize
2 init
2 compute 1e4
2 allreduce 8 100
2 recv 0 1 300
2 bcast 20000 0
2 finalize
";

/// A study with the files that it names; of all tables that of files comes last.
fn with_files(mut text: String) -> String {
    let named = FILES.iter().filter(|(name, _)| text.contains(name));
    let files: String = named
        .map(|(name, lines)| format!("\"{name}\" = \"\"\"\n{lines}\"\"\"\n"))
        .collect();
    if !files.is_empty() {
        text.push_str("[files]\n");
        text.push_str(&files);
    }
    text
}

fn link_keys() -> Vec<Lines> {
    vec![
        key(
            "rate",
            &["856 Mbit/s", "10 Gbit/s", "100 Gbit/s", "100 MB/s"],
        ),
        maybe(
            20,
            key("host_rate", &["1 Gbit/s", "400 Mbit/s", "25 Gbit/s"]),
        ),
        maybe(40, key("propagation", &["50 ns", "1 us", "0 s", "100 us"])),
        maybe(15, key("host_propagation", &["5 ns", "0 s"])),
        maybe(
            60,
            key(
                "frame_payload",
                &["1 KiB", "1500 B", "256 B", "0 B", "4 KiB"],
            ),
        ),
        maybe(40, key("frame_header", &["32 B", "0 B", "78 B"])),
        maybe(25, key("switching", &["cut-through", "store-and-forward"])),
    ]
}

fn with_links(model: &'static str, own: Vec<Lines>) -> Lines {
    let model = key_text("model", model);
    let mut parts = vec![Just(model).boxed()];
    parts.extend(link_keys());
    parts.extend(own);
    table("links", parts)
}

fn key_text(name: &str, value: &str) -> String {
    format!("{name} = \"{value}\"\n")
}

fn links() -> Lines {
    let packets = vec![
        maybe(
            50,
            one_of(&[
                "buffer = \"64 KiB\"\n",
                "buffer = \"6 KiB\"\n",
                "buffer = \"3 KiB\"\n",
                "shared_buffer = \"64 KiB\"\n",
                "shared_buffer = \"16 KiB\"\nalpha = 0.5\n",
            ]),
        ),
        maybe(30, key("queueing", &["fifo", "fair"])),
        maybe(45, key("full", &["drop", "trim", "pause"])),
        maybe(
            35,
            one_of(&[
                "ecn_low = \"1 KiB\"\n",
                "ecn_low = \"3 KiB\"\necn_high = \"9 KiB\"\necn_probability = \"20 %\"\n",
                "ecn_low = \"3 KiB\"\ncongestion_control = \"dcqcn\"\n",
                "ecn_low = \"3 KiB\"\ncongestion_control = \"nscc\"\n",
            ]),
        ),
    ];
    let credits = vec![
        maybe(
            35,
            key("flow_control", &["virtual-cut-through", "wormhole"]),
        ),
        maybe(30, key("flit", &["64 B", "32 B", "128 B"])),
        maybe(30, key("virtual_channels", &["1", "2", "4", "6"])),
        maybe(15, key("channel_classes", &["1", "2", "3"])),
        maybe(25, key("channel_buffer", &["4 KiB", "8 KiB", "1 KiB"])),
        maybe(20, key("credit_delay", &["10 ns", "1 us"])),
        maybe(20, key("traversal", &["10 ns", "100 ns"])),
        maybe(20, key("speedup", &["1", "2", "4"])),
        maybe(30, key("arbitration", &["round-robin", "age"])),
    ];
    let presets = one_of(&[
        "preset = \"infiniband-edr\"\n",
        "preset = \"ethernet-100g\"\n",
        "preset = \"myrinet\"\n",
        "preset = \"clan-network\"\n",
        "preset = \"gigabit-ethernet\"\n",
        "preset = \"ethernet-400g\"\n",
        "preset = \"ethernet-40g\"\n",
        "preset = \"infiniband-ndr\"\n",
        "preset = \"wan-10ms\"\n",
    ]);
    prop_oneof![
        2 => with_links("max-min", vec![]),
        2 => with_links("fluid", vec![]),
        2 => with_links("queues", vec![maybe(40, key("arrival", &["free", "limits"]))]),
        5 => with_links("packets", packets),
        4 => with_links("credits", credits),
        1 => table("links", vec![presets]),
    ]
    .boxed()
}

fn switches() -> Lines {
    table(
        "switches",
        vec![
            maybe(50, key("delay", &["500 ns", "0 s", "5 us"])),
            maybe(40, key("cut_through", &["64 B", "0 B", "1 KiB"])),
        ],
    )
}

const ADAPTERS: &[&str] = &[
    "ideal",
    "giganet-clan",
    "giganet-clan-linux",
    "m-via",
    "m-via-jumbo",
    "bvia-myrinet",
    "kvia-myrinet",
    "clan-pio",
    "clan-dma",
    "rnic-gen3",
    "rnic-gen4",
    "rnic-gen5",
    "rnic-gen5",
    "am-myrinet",
    "gam-myrinet",
];

fn hosts() -> Lines {
    table(
        "hosts",
        vec![
            key("nic", ADAPTERS),
            maybe(25, key("processes", &["1", "2", "4"])),
            maybe(
                20,
                one_of(&[
                    "adapters = 2\nbuses = \"own\"\n",
                    "adapters = 2\n",
                    "adapters = 4\nbuses = \"own\"\n",
                    "adapters = 2\nbuses = \"own\"\nadapter_choice = \"round-robin\"\n",
                    "adapters = 2\nbuses = \"own\"\nadapter_choice = \"peer\"\n",
                    "adapters = 2\nbuses = \"own\"\nadapter_choice = \"process\"\n",
                    "adapters = 2\nbuses = \"own\"\nadapter_choice = \"stripe\"\n",
                    "adapters = 2\nbuses = \"shared\"\nadapter_choice = \"operation\"\n",
                ]),
            ),
            maybe(15, key("processors", &["1", "2", "3"])),
            maybe(40, key("prepost", &["unlimited", "1", "8", "2"])),
            maybe(20, key("send_buffers", &["unlimited", "1", "4"])),
            maybe(30, key("completion", &["preset", "polling", "interrupt"])),
            maybe(
                25,
                one_of(&[
                    "local_rate = \"1 GB/s\"\n",
                    "local_rate = \"1 GB/s\"\nlocal_latency = \"1 us\"\n",
                ]),
            ),
            maybe(
                8,
                one_of(&[
                    "[hosts.bus_load]\ninterval = \"200 us\"\nsize = \"4 KiB\"\n",
                    "[hosts.bus_load]\ninterval_distribution = \"uniform\"\ninterval_min = \"10 us\"\ninterval_max = \"90 us\"\nsize_distribution = \"uniform\"\nsize_min = \"0 B\"\nsize_max = \"2 KiB\"\n",
                ]),
            ),
            maybe(
                10,
                one_of(&[
                    "[hosts.model.rdma]\ntimeout = \"65536 ns\"\n",
                    "[hosts.model.rdma]\nretransmission = \"selective-repeat\"\n",
                    "[hosts.model.rdma]\nretries = 1\ntimeout = \"32768 ns\"\n",
                    "[hosts.model.nic]\ninline = \"0 B\"\nmoving_per_vi = 1\n",
                    "[hosts.model.nic]\nforwarding = \"store-and-forward\"\n",
                    "[hosts.model.cpu]\npost = \"0 s\"\nreap = \"0 s\"\n",
                    "[hosts.model.bus]\nrate = \"infinite\"\n",
                    "[hosts.model.bus]\nrate = \"200 MB/s\"\n",
                ]),
            ),
            maybe(
                6,
                one_of(&[
                    "[hosts.scheduler]\n",
                    "[hosts.scheduler]\nquantum = \"1 ms\"\nwait = \"spin\"\n",
                ]),
            ),
        ],
    )
}

fn host_groups() -> Lines {
    let row = table(
        "[host_group]",
        vec![
            key("hosts", &["1", "0-2:2", "0, 3", "n1", "1-3"]),
            maybe(40, key("nic", ADAPTERS)),
            maybe(30, key("completion", &["polling", "interrupt"])),
            maybe(
                30,
                one_of(&[
                    "[host_group.model.cpu]\npost = \"5 us\"\n",
                    "[host_group.model.bus]\nrate = \"150 MB/s\"\n",
                ]),
            ),
        ],
    );
    maybe(15, rows(2, row))
}

fn sizes() -> Lines {
    one_of(&[
        "size = \"1 KiB\"\n",
        "size = \"64 B\"\n",
        "size = \"20 KiB\"\n",
        "size = \"200 KiB\"\n",
        "size_distribution = \"uniform\"\nsize_min = \"0 B\"\nsize_max = \"9 KiB\"\n",
        "size_distribution = \"pareto\"\nsize_min = \"64 B\"\nsize_max = \"64 KiB\"\nsize_shape = 1.2\n",
        "size_distribution = \"log-normal\"\nsize = \"1 KiB\"\nsize_max = \"32 KiB\"\nsize_variation = 2\n",
        "size_distribution = \"empirical\"\nsize_file = \"sizes.txt\"\n",
    ])
}

fn patterns() -> Lines {
    one_of(&[
        "pattern = \"pairs\"\npairs = [[0, 1]]\n",
        "pattern = \"uniform\"\n",
        "pattern = \"pairs\"\npairs = [[0, 1], [1, 0], [0, 2], [3, 1]]\n",
        "pattern = \"incast\"\n",
        "pattern = \"incast\"\ntarget = 2\n",
        "pattern = \"random-permutation\"\n",
        "pattern = \"neighbours\"\n",
        "pattern = \"hot-spot\"\nfraction = \"30 %\"\n",
        "pattern = \"transpose\"\n",
        "pattern = \"bit-reversal\"\n",
        "pattern = \"all-to-all\"\n",
        "pattern = \"straight-line\"\nhops = 2\n",
    ])
}

fn intervals() -> Lines {
    one_of(&[
        "rate = \"5000/s\"\n",
        "rate = \"20000/s\"\n",
        "rate = \"100000/s\"\n",
        "interval = \"100 us\"\ninterval_distribution = \"constant\"\n",
        "interval_distribution = \"uniform\"\ninterval_min = \"0 s\"\ninterval_max = \"100 us\"\n",
        "rate = \"20000/s\"\ninterval_distribution = \"pareto\"\ninterval_shape = 1.5\n",
        "rate = \"20000/s\"\ninterval_distribution = \"log-normal\"\ninterval_variation = 4\n",
        "interval_distribution = \"empirical\"\ninterval_table = [[\"1 us\", \"50 %\"], [\"80 us\", \"100 %\"]]\n",
    ])
}

/// Keys of each traffic.
fn of_traffic() -> Vec<Lines> {
    vec![
        maybe(
            50,
            key(
                "reliability",
                &["unreliable", "reliable-delivery", "reliable-reception"],
            ),
        ),
        maybe(15, key("start", &["10 us", "0 s"])),
        maybe(10, key("stop", &["200 us", "1 ms"])),
    ]
}

fn drawn(arrivals: Vec<Lines>) -> Lines {
    let mut parts = arrivals;
    parts.extend([
        patterns(),
        sizes(),
        maybe(
            40,
            key(
                "operation",
                &["send", "write", "write-with-immediate", "read"],
            ),
        ),
    ]);
    parts.extend(of_traffic());
    table("traffic", parts)
}

fn of_graphs() -> Vec<Lines> {
    let mut parts = vec![
        maybe(40, key("eager", &["64 KiB", "1 KiB", "unlimited", "0 B"])),
        maybe(15, key("copy_rate", &["1 GB/s"])),
        maybe(15, key("registration", &["before", "each"])),
        maybe(30, key("placement", &["linear", "random", "scattered"])),
    ];
    parts.extend(of_traffic());
    parts
}

fn traffic() -> Lines {
    // Closed loops of messages without bytes do a million of them a microsecond.
    let empty = table(
        "traffic",
        vec![intervals(), patterns(), key("size", &["0 B"])],
    );
    let open = drawn(vec![intervals()]);
    let ping_pong = drawn(vec![key("arrivals", &["ping-pong"])]);
    let window = drawn(vec![
        key("arrivals", &["window"]),
        key("window", &["1", "4", "32"]),
    ]);
    let mut list = vec![one_of(&["arrivals = \"list\"\nfile = \"list.csv\"\n"])];
    list.extend(of_traffic());
    let mut goal = vec![one_of(&["arrivals = \"goal\"\nfile = \"ring.goal\"\n"])];
    goal.extend(of_graphs());
    let mut simgrid = vec![
        one_of(&["arrivals = \"simgrid\"\nfile = \"steps.txt\"\n"]),
        key("operations_per_second", &["500000000"]),
    ];
    simgrid.extend(of_graphs());
    let collectives = key(
        "collective",
        &[
            "all-reduce",
            "barrier",
            "broadcast",
            "reduce",
            "gather",
            "scatter",
            "all-gather",
            "reduce-scatter",
            "all-to-all",
        ],
    );
    let mut collective = vec![
        key("arrivals", &["collective"]),
        collectives,
        maybe(
            50,
            key(
                "algorithm",
                &[
                    "ring",
                    "dissemination",
                    "binomial",
                    "recursive-doubling",
                    "rabenseifner",
                    "double-tree",
                    "bruck",
                    "pairwise",
                    "direct",
                    "hierarchical",
                ],
            ),
        ),
        maybe(
            60,
            key("bytes", &["64 KiB", "0 B", "1 B", "1000 B", "1 MiB"]),
        ),
        maybe(30, key("ranks", &["4", "2", "3", "1", "8"])),
        maybe(15, key("root", &["0", "1", "3"])),
        maybe(10, key("pieces", &["1", "3"])),
        maybe(10, key("group_ranks", &["2", "4"])),
        maybe(10, key("reduce_rate", &["1 GB/s"])),
    ];
    collective.extend(of_graphs());
    let mut program = vec![
        key("arrivals", &["program"]),
        one_of(&[
            "program = \"nas-ep\"\nclass = \"S\"\n",
            "program = \"nas-is\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-ft\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-cg\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-mg\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-lu\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-sp\"\nclass = \"S\"\niterations = 1\n",
            "program = \"nas-bt\"\nclass = \"S\"\niterations = 1\n",
            "program = \"linpack\"\norder = 200\niterations = 2\n",
            "program = \"radix-sort\"\nkeys = 4096\niterations = 1\n",
        ]),
        key("operations_per_second", &["50000000"]),
        maybe(40, key("ranks", &["4", "2", "1", "8"])),
        maybe(15, key("copies", &["2"])),
    ];
    program.extend(of_graphs());
    prop_oneof![
        5 => open,
        1 => empty,
        2 => ping_pong,
        3 => window,
        1 => table("traffic", list),
        1 => table("traffic", goal),
        1 => table("traffic", simgrid),
        3 => table("traffic", collective),
        2 => table("traffic", program),
    ]
    .boxed()
}

fn faults() -> Lines {
    let row = one_of(&[
        "kind = \"loss\"\nrate = \"1 %\"\n",
        "kind = \"loss\"\nrate = \"20 %\"\nlinks = \"host 1\"\n",
        "kind = \"loss\"\nrate = \"100 %\"\nlinks = \"host 0\"\n",
        "kind = \"corruption\"\nrate = \"2 %\"\n",
        "kind = \"link-down\"\nlinks = \"host 1\"\nfrom = \"200 us\"\nuntil = \"300 us\"\n",
        "kind = \"link-down\"\nlinks = \"host 1\"\nfrom = \"100 us\"\n",
        "kind = \"link-down\"\nlinks = \"s0 <-> s1\"\nfrom = \"100 us\"\nuntil = \"600 us\"\n",
        "kind = \"link-down\"\nlinks = \"s0 -> s1\"\n",
        "kind = \"link-down\"\nfrom = \"50 us\"\nuntil = \"80 us\"\n",
        "kind = \"nic-dies\"\nhost = 1\nat = \"150 us\"\n",
        "kind = \"host-dies\"\nhost = 1\nat = \"150 us\"\n",
        "kind = \"host-dies\"\nhost = 0\nat = \"0 s\"\n",
        "kind = \"slow-host\"\nhost = 0\nfactor = 4\nfrom = \"50 us\"\n",
        "kind = \"slow-host\"\nhost = 1\nper_message = \"20 us\"\n",
        "kind = \"slow-link\"\nlinks = \"host 0\"\nfactor = 5\n",
        "kind = \"slow-link\"\nlinks = \"s0 -> s1\"\nfactor = 3\n",
    ])
    .prop_map(|row| format!("[[fault]]\n{row}"))
    .boxed();
    let detection = table(
        "detection",
        vec![
            maybe(70, key("transport_timeout", &["200 us", "10 us"])),
            maybe(50, key("host_timeout", &["1 ms", "100 us"])),
        ],
    );
    all(vec![rows(2, row), maybe(20, detection)])
}

fn background() -> Lines {
    let row = one_of(&[
        "source = 0\ninterval = \"200 us\"\nsize = \"8 KiB\"\n",
        "source = 2\ntarget = 1\ninterval = \"50 us\"\nsize = \"1 KiB\"\nfrom = \"100 us\"\nuntil = \"500 us\"\n",
        "source = 1\ninterval_distribution = \"uniform\"\ninterval_min = \"1 us\"\ninterval_max = \"90 us\"\nsize_distribution = \"uniform\"\nsize_min = \"0 B\"\nsize_max = \"4 KiB\"\n",
    ])
    .prop_map(|row| format!("[[background]]\n{row}"))
    .boxed();
    maybe(20, rows(2, row))
}

/// A study.
pub(crate) fn study() -> Lines {
    all(vec![
        run(),
        network(),
        links(),
        switches(),
        hosts(),
        traffic(),
        faults(),
        background(),
        host_groups(),
    ])
    .prop_map(with_files)
    .boxed()
}
