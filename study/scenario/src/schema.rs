//! The list of keys: each with its kind, meaning, default and the field that it fills.

mod adapters;
mod faults;
mod hardware;
mod networks;

use viaduct_cluster::adapters::{ADAPTERS_MAX, AdapterChoice, PROCESSORS_MAX};
use viaduct_cluster::workload::{MessageOperation, Placement};
use viaduct_engine::Time;
use viaduct_hardware::{Rate, Switching};
use viaduct_network::{Arbitration, Arrival, CongestionControl, FlowControl, Sharing};
use viaduct_operations::collective::{Algorithm, Collective, RANKS_MAX};
use viaduct_operations::programs::{
    BLOCK_MAX, Class, DIGIT_BITS_MAX, KEYS_MAX, ORDER_MAX, PanelBroadcast, Program,
};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_topology::{EqualPaths, GraphFormat};

use crate::keys::Table;
use crate::published::Role;
use crate::section::kinds::{
    boolean, choice, count, count_or_unlimited, counts, file, frequency, host, long_size, message,
    number, pairs, preset, rate, share, size, size_or_unlimited, start, text, time, time_table,
    whole,
};
use crate::section::{
    KeyName, Section, Setting, Start, Word, group, group_by_heads, section, words,
};
pub use adapters::{Cable, Firmware, Interface, Kernel, Rdma, RemoteWrites};
pub(crate) use adapters::{
    Endpoints, FigureRole, FigureRow, FigureUnit, HostSide, InterfaceNetwork, Memory, Repeat,
    Transport, WaysKind,
};
pub(crate) use faults::{Background, Detection, FaultKind, FaultRow};
pub use hardware::{Bus, Cpu, Nic};
pub(crate) use hardware::{Model, NoticeBy, PhasesKind, Scheduling, WaitKind};
pub(crate) use networks::NetworkHead;

/// Most virtual channels of a link: what a 64-bit word names.
const CHANNELS_MAX: u32 = 64;
/// Largest buffer of an output queue or of a channel, and largest limit of marking.
const BUFFER_BYTES_MAX: u32 = 1 << 31;
/// Largest message that a key takes: sizes of messages are 32-bit numbers.
pub const MESSAGE_BYTES_MAX: u64 = (1 << 32) - 1;
/// Most application processes a host.
pub const PROCESSES_MAX: u64 = 1 << 16;
/// Most receive descriptors kept on a VI, and most send buffers a host.
pub const DESCRIPTORS_MAX: u64 = 1 << 20;

/// All tables, in the order in which they are read and written.
pub(crate) fn list() -> Vec<&'static Table> {
    vec![
        StudyWords::table(),
        Run::table(),
        Network::table(),
        Switches::table(),
        Links::table(),
        Hosts::table(),
        Model::table(),
        Cpu::table(),
        Bus::table(),
        Memory::table(),
        Nic::table(),
        RemoteWrites::table(),
        Firmware::table(),
        Kernel::table(),
        Rdma::table(),
        HostGroup::table(),
        BusLoad::table(),
        Scheduling::table(),
        Traffic::table(),
        Detection::table(),
        FaultRow::table(),
        Background::table(),
        PublishedRow::table(),
        PresetHead::table(),
        Cable::table(),
        Endpoints::table(),
        Interface::table(),
        HostSide::table(),
        InterfaceNetwork::table(),
        Transport::table(),
        FigureRow::table(),
        NetworkHead::table(),
    ]
}

section! {
    StudyWords "study": "what the study is" {
        name: Setting<String> = text("a short name").otherwise("the file's");
        title: Setting<String> = text("one line that names the study").or("");
        question: Setting<String> = text("what it answers").or("");
        source: Setting<String> = text("where its set-up and figures come from").or("");
    }
}

section! {
    Run "run": "how long, which seed" {
        until: Setting<Time> = time("end of simulated time")
            .otherwise("when all operations have ended; needed for other traffic");
        warmup: Setting<Time> = time("messages posted before it are not counted").or("0 s");
        seed: Setting<u64> = whole(0, u64::MAX, "seed of all random streams").or("1");
        drain: Setting<bool> = boolean("carry messages under way at the end to theirs").or("true");
        messages_max: Setting<u64> =
            whole(1, u64::MAX, "end after so many deliveries").otherwise("no limit");
        events_max: Setting<u64> =
            whole(1, u64::MAX, "end after so many events").otherwise("no limit");
        message_rows_max: Setting<u32> =
            whole(0, 1 << 28, "rows kept of single messages").or("100000");
    }
}

words! {
    pub(crate) enum Shape {
        Chain = "chain",
        Switch = "switch",
        Mesh = "mesh",
        Torus = "torus",
        FatTree = "fat-tree",
        LeafSpine = "leaf-spine",
        Clos = "clos",
        Rail = "rail",
        Dragonfly = "dragonfly",
        DragonflyPlus = "dragonfly-plus",
        HyperX = "hyperx",
        SlimFly = "slim-fly",
        PolarFly = "polar-fly",
        Jellyfish = "jellyfish",
        Graph = "graph",
    }
}

words! {
    pub(crate) enum Routing {
        Rule = "rule",
        ShortestPath = "shortest-path",
        UpDown = "up-down",
        Valiant = "valiant",
        UgalLocal = "ugal-l",
        UgalGlobal = "ugal-g",
        Table = "table",
    }
}

words!(GraphFormat { EdgeList = "list", NodeLinkJson = "json", GraphMl = "graphml" });
words!(EqualPaths {
    Hash = "hash",
    Single = "single",
    Spray = "spray",
    LeastQueued = "least-queued",
});

section! {
    Network "network": "hosts, switches and how they are joined" {
        topology: Setting<Shape> = choice("how the switches are joined");
        dimensions: Setting<Vec<u32>> = counts("switches along each dimension: [16, 16]"),
            when topology = Shape::Mesh | Shape::Torus | Shape::HyperX;
        switches: Setting<u32> = count("switches in the chain, or of the random graph"),
            when topology = Shape::Chain | Shape::Jellyfish;
        hosts: Setting<u32> = count("hosts on the switch, or on all leaves"),
            when topology = Shape::Switch | Shape::LeafSpine;
        hosts_per_switch: Setting<u32> = count("hosts on each switch that has any")
            .otherwise("1; of slim-fly and polar-fly half as many as links to other switches"),
            when topology = Shape::Chain | Shape::Mesh | Shape::Torus | Shape::LeafSpine
                | Shape::Dragonfly | Shape::HyperX | Shape::SlimFly | Shape::PolarFly
                | Shape::Jellyfish;
        rails: Setting<u32> = count("adapters of a server, each a host of its own, and leaves of a unit"),
            when topology = Shape::Rail;
        servers: Setting<u32> = count("machines with an adapter on each rail"),
            when topology = Shape::Rail;
        servers_per_unit: Setting<u32> = count("servers whose adapters of one number share a leaf"),
            when topology = Shape::Rail;
        spines: Setting<u32> = count("switches above the leaves, each joined to all of them"),
            when topology = Shape::LeafSpine | Shape::Rail;
        ends_only: Setting<bool> = boolean("hosts only on the first and last switch").or("false"),
            when topology = Shape::Chain;
        arity: Setting<u32> = count("k of the k-ary n-tree: links up, and down, of a switch"),
            when topology = Shape::FatTree;
        levels: Setting<u32> = count("n of the k-ary n-tree: levels of switches"),
            when topology = Shape::FatTree;
        radix: Setting<u32> = count("ports of every switch, an even number"),
            when topology = Shape::Clos | Shape::DragonflyPlus;
        tiers: Setting<u32> = count("levels of switches, 2 or 3").or("3"),
            when topology = Shape::Clos;
        oversubscription: Setting<u32> =
            count("links down of a switch with hosts for each of its links up").or("1"),
            when topology = Shape::Clos;
        pods: Setting<u32> = count("pods, or leaves of two tiers").otherwise("as many as ports"),
            when topology = Shape::Clos;
        switches_per_group: Setting<u32> = count("a: switches of a group"),
            when topology = Shape::Dragonfly;
        global_links: Setting<u32> = count("h: links of a switch to other groups"),
            when topology = Shape::Dragonfly;
        groups: Setting<u32> = count("g: groups").otherwise("as many as can be joined"),
            when topology = Shape::Dragonfly | Shape::DragonflyPlus;
        order: Setting<u32> = count("q: elements of the field, a prime power"),
            when topology = Shape::SlimFly | Shape::PolarFly;
        switch_links: Setting<u32> = count("links of each switch to others"),
            when topology = Shape::Jellyfish;
        graph_seed: Setting<u64> = whole(0, u64::MAX, "which of all random graphs").or("1"),
            when topology = Shape::Jellyfish;
        switch_ports: Setting<u32> = count("ports of a switch").otherwise("as many as it takes"),
            when topology =
                Shape::Chain | Shape::Switch | Shape::Mesh | Shape::Torus | Shape::FatTree;
        file: Setting<String> = file("link list, node-link JSON or GraphML"),
            when topology = Shape::Graph;
        format: Setting<GraphFormat> =
            choice("how `file` is written").otherwise("by the file's ending"),
            when topology = Shape::Graph;
        routing: Setting<Routing> =
            choice("how routes are made; valiant, ugal-l, ugal-g: over a host by chance, or where it is full")
            .otherwise("rule; for a graph shortest-path");
        routes: Setting<String> = file("file of routing tables"), when routing = Routing::Table;
        equal_paths: Setting<EqualPaths> =
            choice("of equally good links: one for each flow or each frame, or always the same")
            .otherwise("hash; single for chain, mesh, torus, fat-tree and leaf-spine");
    }
}

section! {
    Switches "switches": "what a switch costs a message" {
        delay: Setting<Time> =
            time("from the header's arrival to the start of forwarding").or("0 s");
        cut_through: Setting<u32> = message("bytes that must arrive before forwarding").or("0 B");
    }
}

words!(Sharing {
    Fluid = "fluid",
    MaxMin = "max-min",
    Queues = "queues",
    Packets = "packets",
    Credits = "credits",
});
/// The levels at which a network is computed: the words of `links.model`.
pub const LEVELS: &[&str] = <Sharing as Word>::WORDS;
words!(Arrival { Free = "free", Limits = "limits" });
words!(Arbitration { RoundRobin = "round-robin", Age = "age" });
words!(FlowControl { VirtualCutThrough = "virtual-cut-through", Wormhole = "wormhole" });
words!(CongestionControl { None = "none", Dcqcn = "dcqcn", Nscc = "nscc" });
words!(ReliabilityLevel {
    Unreliable = "unreliable",
    ReliableDelivery = "reliable-delivery",
    ReliableReception = "reliable-reception",
});
words!(MessageOperation {
    Send = "send",
    Write = "write",
    WriteWithImmediate = "write-with-immediate",
    Read = "read",
});
words!(Switching { CutThrough = "cut-through", StoreAndForward = "store-and-forward" });

words! {
    /// Line coding of a link.
    pub(crate) enum Coding {
        None = "none",
        EightTen = "8b/10b",
        SixtyFour = "64b/66b",
    }
}

section! {
    Links "links": "rate and framing of the links, and how flows share them" {
        preset: Setting<String> =
            preset("switches and cables: a preset or a file that gives what the study does not")
                .otherwise("each number is the study's");
        model: Setting<Sharing> = choice(
            "shares of the whole way, unused ones lost or handed on; queue by queue; frame by frame; \
                as credits let frames",
        )
        .or("max-min");
        arrival: Setting<Arrival> = choice(
            "whether a queue serves bytes that have not come, as the published rule has it, or not",
        )
        .or("free"), when model = Sharing::Queues;
        switching: Setting<Switching> =
            choice("forward while a message still arrives, or when it has").or("cut-through");
        rate: Setting<Rate> = rate("of a link between switches, after line coding")
            .otherwise("from signal_rate and coding")
            .not_beside(&[Links::signal_rate, Links::coding]);
        signal_rate: Setting<Rate> = rate("bits on the wire, before line coding")
            .otherwise("rate is given")
            .not_beside(&[Links::rate]);
        coding: Setting<Coding> =
            choice("line coding of signal_rate").otherwise("none").not_beside(&[Links::rate]);
        host_rate: Setting<Rate> =
            rate("of a link between host and switch, after line coding").otherwise("links.rate");
        propagation: Setting<Time> =
            time("signal propagation of one link between switches").or("0 s");
        host_propagation: Setting<Time> =
            time("signal propagation of a link between host and switch")
                .otherwise("links.propagation");
        frame_payload: Setting<u32> =
            message("largest payload of a frame; 0 B: one frame per message").or("0 B");
        frame_header: Setting<u32> = size(1 << 16, "header, trailer and gap of a frame").or("0 B");
        buffer: Setting<u32> = size_or_unlimited(
            BUFFER_BYTES_MAX,
            "frames that an output queue of a switch holds; `full` says what becomes of more",
        )
        .or("unlimited"), when model = Sharing::Packets;
        shared_buffer: Setting<u32> = size(
            BUFFER_BYTES_MAX,
            "frames that all queues of a switch hold together, with dynamic thresholds",
        )
        .otherwise("each queue has a memory of its own"), when model = Sharing::Packets;
        alpha: Setting<f64> = number("how many times what is free of shared_buffer a queue holds")
            .otherwise("1"), when model = Sharing::Packets;
        queueing: Setting<QueueingKind> = choice(
            "which frame of an output queue goes first: the one that came first, or flows in turn",
        )
        .or("fifo"), when model = Sharing::Packets;
        full: Setting<WhenFullKind> = choice(
            "what a switch does without room: lose the frame, trim it, or have the link pause (PFC)",
        )
        .or("drop"), when model = Sharing::Packets;
        pause_headroom: Setting<u32> = size(
            BUFFER_BYTES_MAX,
            "of `buffer` or `shared_buffer`, kept for what still comes when a link is to pause",
        )
        .otherwise("from the link's length and rate"), when model = Sharing::Packets;
        ecn_low: Setting<u32> = size(
            BUFFER_BYTES_MAX,
            "frames in an output queue beyond which one that comes may be marked (ECN)",
        )
        .otherwise("none is marked"), when model = Sharing::Packets;
        ecn_high: Setting<u32> =
            size(BUFFER_BYTES_MAX, "frames in the queue from which each that comes is marked")
            .otherwise("links.ecn_low"), when model = Sharing::Packets;
        ecn_probability: Setting<f64> =
            share("of frames that is marked just below ecn_high; less with less, 0 at ecn_low")
            .or("100 %"), when model = Sharing::Packets;
        congestion_control: Setting<CongestionControl> =
            choice("what a sender does with marks: nothing, slow the flow down, or keep a window")
            .or("none"), when model = Sharing::Packets;
        flow_control: Setting<FlowControl> =
            choice("what must have room at a link's end before it begins there: a frame, or a flit")
            .or("virtual-cut-through"), when model = Sharing::Credits;
        flit: Setting<u32> = size(1 << 16, "a flit, and what a credit stands for")
            .or("64 B"), when model = Sharing::Credits;
        virtual_channels: Setting<u32> = whole(1, CHANNELS_MAX, "virtual channels of each link")
            .otherwise("one in each class"), when model = Sharing::Credits;
        channel_classes: Setting<u32> = whole(
            1,
            CHANNELS_MAX,
            "classes of channels, which frames move up through where their way would close a ring",
        )
        .otherwise("as few as let no channels wait in a ring"), when model = Sharing::Credits;
        channel_buffer: Setting<u32> =
            size(BUFFER_BYTES_MAX, "buffer of each channel at the end of a link")
            .otherwise("what keeps the link busy while credits return, and two frames"),
            when model = Sharing::Credits;
        credit_delay: Setting<Time> = time("what a credit takes beside the cable")
            .or("0 s"), when model = Sharing::Credits;
        traversal: Setting<Time> = time("from a switch's decision to the first bit on the cable")
            .or("0 s"), when model = Sharing::Credits;
        speedup: Setting<u32> =
            whole(1, 16, "times as fast as onto a link, switches read their buffers")
            .or("1"), when model = Sharing::Credits;
        arbitration: Setting<Arbitration> =
            choice("what goes first at a switch: in turn, or that whose message began first")
            .or("round-robin"), when model = Sharing::Credits;
    }
}

words! {
    pub(crate) enum QueueingKind {
        Fifo = "fifo",
        Fair = "fair",
    }
}

words! {
    pub(crate) enum WhenFullKind {
        Drop = "drop",
        Trim = "trim",
        Pause = "pause",
    }
}

words! {
    pub(crate) enum CompletionKind {
        Preset = "preset",
        Polling = "polling",
        Interrupt = "interrupt",
    }
}

section! {
    Hosts "hosts": "how each host is used" {
        nic: Setting<String> =
            preset("the hardware: a preset, a file, or inline (all in hosts.model)")
                .or("giganet-clan");
        processes: Setting<u32> =
            whole(
                1,
                PROCESSES_MAX as u32,
                "application processes per host; with [hosts.scheduler] as many as traffic.copies",
            )
            .or("1");
        adapters: Setting<u32> = whole(
            1,
            ADAPTERS_MAX,
            "adapters per host, each at a place (a host) of the network by itself"
        )
        .or("1");
        adapter_choice: Setting<AdapterChoice> =
            choice("which adapter a message takes").otherwise(
                "operation for GOAL files, stripe for other graphs, flow for all else",
            );
        buses: Setting<BusKind> =
            choice("whether the adapters of a host share its I/O bus, or each has its own")
                .or("shared");
        processors: Setting<u32> = whole(
            1,
            PROCESSORS_MAX,
            "processors per host, of which each process has one or shares it"
        )
        .otherwise("one for messages, and others for all that is computed beside it");
        prepost: Setting<u32> = count_or_unlimited(
            DESCRIPTORS_MAX as u32,
            "receive descriptors kept on each VI; unlimited if not set with `ideal`",
        )
        .or("8");
        send_buffers: Setting<u32> = count_or_unlimited(
            DESCRIPTORS_MAX as u32,
            "send buffers of a host; unlimited if not set with `ideal`",
        )
        .or("64");
        completion: Setting<CompletionKind> =
            choice("how the application learns of a message").or("preset");
        local_rate: Setting<Rate> =
            rate("rate of messages between ranks of one host, which no adapter carries")
                .otherwise("such messages are refused");
        local_latency: Setting<Time> =
            time("from the last byte of such a message to its being there").otherwise("0 s");
    }
}

section! {
    HostGroup Rows "host_group":
        "[[host_group]]: hosts that differ, one group per row; its [host_group.model] is as [hosts.model]" {
        hosts: Setting<String> =
            text("which hosts: 0-7, 12; 0-1023:4 is every fourth; switch s0; or names");
        nic: Setting<String> =
            preset("their hardware: a preset, a file, or inline (all in host_group.model)")
                .otherwise("that of [hosts]");
        completion: Setting<CompletionKind> =
            choice("how the application learns of a message").otherwise("hosts.completion");
    }
}

words! {
    pub(crate) enum IntervalKind {
        Exponential = "exponential",
        Constant = "constant",
        Uniform = "uniform",
        Pareto = "pareto",
        LogNormal = "log-normal",
        Empirical = "empirical",
    }
}

section! {
    /// A distribution of intervals, but for the mean.
    Intervals {
        interval_distribution: Setting<IntervalKind> =
            choice("how intervals are drawn").or("exponential");
        interval_min: Setting<Time> = time("shortest interval"),
            when interval_distribution = IntervalKind::Uniform;
        interval_max: Setting<Time> = time("longest interval"),
            when interval_distribution = IntervalKind::Uniform;
        interval_shape: Setting<f64> = number("Pareto shape, above 1"),
            when interval_distribution = IntervalKind::Pareto;
        interval_variation: Setting<f64> = number("deviation over mean"),
            when interval_distribution = IntervalKind::LogNormal;
        interval_table: Setting<Vec<(Time, f64)>> = time_table("[[\"1 ms\", \"50 %\"], ...]"),
            when interval_distribution = IntervalKind::Empirical;
    }
}

words! {
    pub(crate) enum SizeKind {
        Constant = "constant",
        Uniform = "uniform",
        Pareto = "pareto",
        LogNormal = "log-normal",
        Empirical = "empirical",
    }
}

section! {
    /// A distribution of sizes.
    Sizes {
        size_distribution: Setting<SizeKind> = choice("how sizes are drawn").or("constant");
        size: Setting<u32> = message("bytes of a message, or their mean"),
            when size_distribution = SizeKind::Constant | SizeKind::LogNormal;
        size_min: Setting<u32> = message("smallest"),
            when size_distribution = SizeKind::Uniform | SizeKind::Pareto;
        size_max: Setting<u32> = message("largest"),
            when size_distribution = SizeKind::Uniform | SizeKind::Pareto | SizeKind::LogNormal;
        size_shape: Setting<f64> = number("Pareto shape"),
            when size_distribution = SizeKind::Pareto;
        size_variation: Setting<f64> = number("deviation over mean"),
            when size_distribution = SizeKind::LogNormal;
        size_file: Setting<String> = file("flow-size table: one `bytes cumulative_percent` per line"),
            when size_distribution = SizeKind::Empirical;
    }
}

section! {
    BusLoad Optional "hosts.bus_load": "other devices on each host's bus" {
        intervals: Intervals = group();
        interval: Setting<Time> = time("mean time between the starts of two transfers"),
            when intervals.interval_distribution = IntervalKind::Exponential
                | IntervalKind::Constant | IntervalKind::Pareto | IntervalKind::LogNormal;
        sizes: Sizes = group();
    }
}

words! {
    pub(crate) enum ArrivalKind {
        Open = "open",
        PingPong = "ping-pong",
        Window = "window",
        List = "list",
        Goal = "goal",
        Chakra = "chakra",
        Simgrid = "simgrid",
        Collective = "collective",
        Program = "program",
    }
}

words!(Program {
    NasEp = "nas-ep",
    NasIs = "nas-is",
    NasFt = "nas-ft",
    NasCg = "nas-cg",
    NasMg = "nas-mg",
    NasLu = "nas-lu",
    NasSp = "nas-sp",
    NasBt = "nas-bt",
    Linpack = "linpack",
    RadixSort = "radix-sort",
});

words!(Class { S = "S", W = "W", A = "A", B = "B", C = "C" });

words!(PanelBroadcast {
    Ring = "ring",
    ModifiedRing = "modified-ring",
    TwoRings = "two-rings",
});

words!(Collective {
    Barrier = "barrier",
    Broadcast = "broadcast",
    Reduce = "reduce",
    Gather = "gather",
    Scatter = "scatter",
    AllReduce = "all-reduce",
    AllGather = "all-gather",
    ReduceScatter = "reduce-scatter",
    AllToAll = "all-to-all",
});

words!(Algorithm {
    Dissemination = "dissemination",
    Binomial = "binomial",
    Ring = "ring",
    RecursiveDoubling = "recursive-doubling",
    Rabenseifner = "rabenseifner",
    DoubleTree = "double-tree",
    Bruck = "bruck",
    Pairwise = "pairwise",
    Direct = "direct",
    Hierarchical = "hierarchical",
});

words!(AdapterChoice {
    Flow = "flow",
    RoundRobin = "round-robin",
    Process = "process",
    Peer = "peer",
    Operation = "operation",
    Stripe = "stripe",
});

words! {
    pub(crate) enum BusKind {
        Shared = "shared",
        Own = "own",
    }
}

words! {
    /// When ranks register the memory of longer messages.
    pub(crate) enum Registration {
        Before = "before",
        Each = "each",
    }
}

words!(Placement {
    Linear = "linear",
    Random = "random",
    Scattered = "scattered",
});

words! {
    pub(crate) enum PatternKind {
        StraightLine = "straight-line",
        Uniform = "uniform",
        Transpose = "transpose",
        BitReversal = "bit-reversal",
        RandomPermutation = "random-permutation",
        Neighbours = "neighbours",
        HotSpot = "hot-spot",
        Incast = "incast",
        AllToAll = "all-to-all",
        Pairs = "pairs",
    }
}

section! {
    Traffic "traffic": "what the applications send" {
        arrivals: Setting<ArrivalKind> = choice(
            "post by the clock, after the answer, with so many sends open, as a file lists, or as \
            the operations of a file, of traces, of a collective or of a program say; `window`, \
            `collective` and `program` choose theirs",
        )
        .or("open");
        file: Setting<String> = file(
            "messages, one per line, below `time_us,source,target,bytes`; or a GOAL file; or \
            Chakra traces: one file for all ranks, a folder, or what is before `.0.et`; or a \
            SimGrid trace: one file, one that lists those of ranks, or a folder",
        ),
            when arrivals = ArrivalKind::List | ArrivalKind::Goal | ArrivalKind::Chakra
                | ArrivalKind::Simgrid;
        groups: Setting<String> = file("process groups, each with its ranks: {\"0\": [0, 1]}")
            .otherwise("those that the traces describe"),
            when arrivals = ArrivalKind::Chakra;
        all_reduce: Setting<Algorithm> =
            choice("how all-reduces of a trace or a program are done")
                .otherwise("ring; of a program recursive-doubling"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        all_gather: Setting<Algorithm> =
            choice("how its all-gathers are done").otherwise("ring"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        reduce_scatter: Setting<Algorithm> =
            choice("how its reduce-scatters are done").otherwise("ring"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        all_to_all: Setting<Algorithm> =
            choice("how its all-to-alls are done").otherwise("pairwise"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        compute_scale: Setting<f64> =
            number("what its times of computations are multiplied by").or("1"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        operations_per_second: Setting<f64> = number(
            "how many operations a processor does, for computations that count theirs and have no \
            time: `num_ops` of Chakra, `compute` of SimGrid, and those of programs",
        )
        .otherwise("of Chakra, they take no time; of SimGrid and of programs it has to be said"),
            when arrivals = ArrivalKind::Chakra | ArrivalKind::Simgrid | ArrivalKind::Program;
        program: Setting<Program> =
            choice("which parallel program the ranks carry out").choosing(),
            when arrivals = ArrivalKind::Program;
        class: Setting<Class> = choice("how large the problem of a NAS benchmark is").or("A"),
            when program = Program::NasEp | Program::NasIs | Program::NasFt | Program::NasCg
                | Program::NasMg | Program::NasLu | Program::NasSp | Program::NasBt;
        order: Setting<u32> = whole(1, ORDER_MAX, "how many equations there are").or("1000"),
            when program = Program::Linpack;
        block: Setting<u32> =
            whole(1, BLOCK_MAX, "rows and columns of a block of the matrix").or("64"),
            when program = Program::Linpack;
        panel_broadcast: Setting<PanelBroadcast> =
            choice("how a panel goes along a row of ranks").or("ring"),
            when program = Program::Linpack;
        keys: Setting<u32> = whole(1, KEYS_MAX, "how many keys there are, of all ranks").or("65536"),
            when program = Program::RadixSort;
        digit_bits: Setting<u32> =
            whole(1, DIGIT_BITS_MAX, "bits of the digit of a pass").or("8"),
            when program = Program::RadixSort;
        iterations: Setting<u32> = whole(
            1,
            1 << 20,
            "how many of its iterations are made: panels of `linpack`, passes of `radix-sort`",
        )
        .otherwise("all that it has"),
            when arrivals = ArrivalKind::Program;
        copies: Setting<u32> = whole(
            1,
            1 << 16,
            "how many of the program run side by side: rank r of copy c is process r x copies + c",
        )
        .or("1"),
            when arrivals = ArrivalKind::Program;
        collective: Setting<Collective> = choice("what the ranks do together").choosing(),
            when arrivals = ArrivalKind::Collective;
        algorithm: Setting<Algorithm> =
            choice("how they do it").otherwise("the first that the collective has"),
            when arrivals = ArrivalKind::Collective;
        bytes: Setting<u64> = long_size(
            "the vector: of an all-gather all that a rank gets, of a reduce-scatter and an \
            all-to-all all that it has, of a gather and a scatter all that the root gets or has",
        )
        .or("1 MiB"),
            when arrivals = ArrivalKind::Collective;
        ranks: Setting<u32> = whole(1, RANKS_MAX, "between how many ranks")
            .otherwise("one for each process, shared between copies of a program"),
            when arrivals = ArrivalKind::Collective | ArrivalKind::Chakra | ArrivalKind::Program;
        root: Setting<u32> =
            whole(0, RANKS_MAX - 1, "the rank that has what all get, or gets what all have")
                .or("0"),
            when arrivals = ArrivalKind::Collective;
        pieces: Setting<u32> =
            whole(1, 1 << 16, "in how many pieces a half goes through a double tree").or("8"),
            when arrivals = ArrivalKind::Collective | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Program;
        group_ranks: Setting<u32> = whole(
            1,
            RANKS_MAX,
            "how many ranks, one after the other, are a group of a hierarchical all-reduce: those \
            of a host or at a switch",
        )
        .or("8"),
            when arrivals = ArrivalKind::Collective | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Program;
        reduce_rate: Setting<Rate> =
            rate("how fast a rank adds what comes in a reduction to what it has")
                .otherwise("that takes no time"),
            when arrivals = ArrivalKind::Collective | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Program;
        eager: Setting<u32> = size_or_unlimited(
            MESSAGE_BYTES_MAX as u32 - 1,
            "the longest message that is sent before its receiver has asked for it",
        )
        .or("64 KiB"),
            when arrivals = ArrivalKind::Goal | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Collective | ArrivalKind::Program;
        copy_rate: Setting<Rate> = rate(
            "how fast a receive copies a message of at most `eager` bytes that came before it",
        )
        .otherwise("that takes no time"),
            when arrivals = ArrivalKind::Goal | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Collective | ArrivalKind::Program;
        registration: Setting<Registration> = choice(
            "memory of longer messages is registered before all of them, or at both ends of each",
        )
        .or("before"),
            when arrivals = ArrivalKind::Goal | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Collective | ArrivalKind::Program;
        placement: Setting<Placement> =
            choice("which processes the ranks are: in order, drawn, or switch after switch")
                .or("linear"),
            when arrivals = ArrivalKind::Goal | ArrivalKind::Chakra | ArrivalKind::Simgrid
                | ArrivalKind::Collective | ArrivalKind::Program;
        pattern: Setting<PatternKind> = choice("to whom each host sends"),
            when arrivals = ArrivalKind::Open | ArrivalKind::PingPong | ArrivalKind::Window;
        hops: Setting<u32> = count("switch hops along the line"),
            when pattern = PatternKind::StraightLine;
        hot: Setting<u32> = host("the host that many send to").or("0"),
            when pattern = PatternKind::HotSpot;
        fraction: Setting<f64> = share("share that goes to the hot host on purpose"),
            when pattern = PatternKind::HotSpot;
        target: Setting<u32> = host("the host that all send to").or("0"),
            when pattern = PatternKind::Incast;
        pairs: Setting<Vec<(u32, u32)>> = pairs("who sends to whom: [[0, 1], ...]"),
            when pattern = PatternKind::Pairs;
        window: Setting<u32> =
            count("messages posted whose sends are not complete").choosing(),
            when arrivals = ArrivalKind::Window;
        intervals: Intervals = group(), when arrivals = ArrivalKind::Open;
        rate: Setting<f64> = frequency("messages per second and process")
            .otherwise("from interval")
            .not_beside(&[Traffic::interval]),
            when arrivals = ArrivalKind::Open,
            and intervals.interval_distribution = IntervalKind::Exponential
                | IntervalKind::Constant | IntervalKind::Pareto | IntervalKind::LogNormal;
        interval: Setting<Time> = time("mean time between two messages of a process")
            .otherwise("from rate")
            .not_beside(&[Traffic::rate]),
            when arrivals = ArrivalKind::Open,
            and intervals.interval_distribution = IntervalKind::Exponential
                | IntervalKind::Constant | IntervalKind::Pareto | IntervalKind::LogNormal;
        // The other keys of the size hang on the first.
        sizes: Sizes = group_by_heads(),
            when arrivals = ArrivalKind::Open | ArrivalKind::PingPong | ArrivalKind::Window;
        operation: Setting<MessageOperation> = choice(
            "a send, or a remote write or read; only sends and immediate data take a receive",
        )
        .or("send"),
            when arrivals = ArrivalKind::Open | ArrivalKind::PingPong | ArrivalKind::Window;
        reliability: Setting<ReliabilityLevel> =
            choice("lost messages go unnoticed, or break their connection; a send ends when its \
                    bytes have left, or when they are placed")
            .or("unreliable");
        start: Setting<Start> = start("no message is posted before").or("0 s");
        stop: Setting<Time> = time("none is posted at or after").otherwise("run.until");
    }
}

impl Traffic {
    /// The key `size`, of the group of sizes.
    #[expect(non_upper_case_globals, reason = "it has the name of its key")]
    pub const size: KeyName = Sizes::size.within::<Self>();
}

/// How far a reproduction may be off where the study does not say: `Role::tolerance`, in words.
const TOLERANCE_DEFAULT: &str = "2 % where role is given, else 5 %";

words!(Role {
    Given = "given",
    Result = "result",
    Predicted = "predicted",
    Context = "context",
});

section! {
    PublishedRow Rows "published": "[[published]]: a published figure, one per row" {
        quantity: Setting<String> = text("the result that it stands beside: latency_us.mean");
        value: Setting<f64> = number("the published figure");
        unit: Setting<String> = text("its unit").or("");
        source: Setting<String> = text("where it is published").or("");
        role: Setting<Role> =
            choice("calibrated on, to be predicted, predicted blind, or only for comparison")
                .or("result");
        tolerance: Setting<f64> = share("how far a reproduction may be off, relative to the figure")
            .otherwise(TOLERANCE_DEFAULT);
        blind: Setting<f64> = number("what was predicted before the figure was known"),
            when role = Role::Predicted;
        blind_by: Setting<String> = text("the version that predicted it: 0.1.0"),
            when role = Role::Predicted;
        authors_model: Setting<f64> =
            number("what the source's own model says where the figure is measured")
                .otherwise("nothing");
    }
}

words! {
    /// How adapters carry messages; each but the first has a table of its own in a preset.
    pub enum MechanismKind {
        /// VIA in the adapter.
        Native = "native",
        /// VIA in a library above remote writes.
        RemoteWrites = "remote-writes",
        /// VIA in the adapter's own slow processor.
        Firmware = "firmware",
        /// VIA in the kernel.
        Kernel = "kernel",
        /// A current RDMA adapter.
        Rdma = "rdma",
        /// Endpoints of Active Messages in frames of the interface, and no VIs.
        Endpoints = "endpoints",
    }
}

impl MechanismKind {
    /// The word that files use.
    #[must_use]
    pub fn word(self) -> &'static str {
        Word::word(self)
    }
}

section! {
    PresetHead Optional "preset": "the head of a preset; its tables are hosts.model.* and preset.*" {
        name: Setting<String> = text("name of the preset");
        inherits: Setting<String> =
            text("a preset, or a file beside this one, that gives what this one does not")
                .otherwise("nothing: this one gives every number");
        description: Setting<String> = text("the hardware, one line").or("");
        source: Setting<String> = text("where its numbers come from, one line").or("");
        mechanism: Setting<MechanismKind> =
            choice("how the adapter carries messages; studies take all with VIs").or("native");
    }
}
