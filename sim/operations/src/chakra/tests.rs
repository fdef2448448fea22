//! Files are made here byte by byte, not by the definitions that read them.

use std::io::Write as _;

use super::*;
use crate::graph::{Graph, Kind};
use crate::trace::{ACCELERATOR, Options, Steps, Work, graph};

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), value.to_vec()].concat())
}

fn int64(name: &str, value: u64) -> Vec<u8> {
    attribute(name, &number(9, value))
}

fn is_cpu_op(value: bool) -> Vec<u8> {
    attribute("is_cpu_op", &number(27, value.into()))
}

fn text(name: &str, value: &str) -> Vec<u8> {
    attribute(name, &bytes(29, value.as_bytes()))
}

/// A node of an id, a name and a type, and more fields. What is zero is left out, as writers do.
fn node(id: u64, name: &str, kind: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    let id = if id == 0 { Vec::new() } else { number(1, id) };
    [
        id,
        bytes(2, name.as_bytes()),
        number(3, kind),
        fields.concat(),
    ]
    .concat()
}

fn needs(ids: &[u64]) -> Vec<u8> {
    bytes(
        5,
        &ids.iter().copied().flat_map(varint).collect::<Vec<u8>>(),
    )
}

fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    // No version, but attributes: as PyTorch's traces have it.
    let schema = [bytes(1, b"schema"), bytes(29, b"1.0.1")].concat();
    let mut all = vec![bytes(2, &schema)];
    all.extend(nodes.iter().cloned());
    all.iter()
        .flat_map(|message| [varint(message.len() as u64), message.clone()].concat())
        .collect()
}

fn read(bytes: &[u8]) -> RankFile {
    read_rank(&mut &*bytes).expect("it is right")
}

fn problem(bytes: &[u8]) -> String {
    read_rank(&mut &*bytes).expect_err("it is wrong").problem
}

fn works(file: &RankFile) -> Vec<Work> {
    file.steps.all().collect()
}

const fn compute(nanoseconds: u64, processor: u8) -> Work {
    Work::Compute {
        nanoseconds,
        processor,
    }
}

/// A launch and its kernel, of one all-reduce.
fn all_reduce(id: u64, comm_size: u64) -> [Vec<u8>; 2] {
    let launch = [number(7, 151), is_cpu_op(true)];
    let kernel = [
        number(7, 5_572),
        needs(&[id]),
        is_cpu_op(false),
        int64("comm_type", 0),
        int64("comm_size", comm_size),
    ];
    [
        node(id, "c10d::allreduce_(0)", 7, &launch),
        node(id + 1, "ncclKernel_AllReduce_RING_LL_Sum_float", 7, &kernel),
    ]
}

fn graph_of(files: &[Vec<u8>]) -> Graph {
    let files: Vec<Arc<RankFile>> = files.iter().map(|file| Arc::new(read(file))).collect();
    let trace = join(&files, &Groups::default()).expect("it is right");
    graph(&trace, &Options::default()).expect("it is right")
}

#[test]
fn a_rate_says_how_long_counted_operations_take() {
    let nodes = "{\"workload_graph\": [\
        {\"Id\": 1, \"Name\": \"gemm\", \"NodeType\": 4, \"num_ops\": 6000}, \
        {\"Id\": 2, \"Name\": \"timed\", \"NodeType\": 4, \"num_ops\": 9, \"runtime\": 3}]}";
    let file = read(nodes.as_bytes());
    let count = Work::Count {
        operations: 6_000,
        processor: ACCELERATOR,
    };
    assert_eq!(works(&file), [count, compute(3_000, ACCELERATOR)]);
    assert_eq!(file.notes().untimed, 1);
    let mut written = Vec::new();
    write_json(&file, &mut written).expect("memory can be written");
    assert_eq!(works(&read(&written)), works(&file));
    let trace = repeat(&file, 1, &Groups::default()).expect("it is right");
    assert_eq!(trace.counting(), 1);
    for (operations_per_second, compute_scale, expected) in [
        (None, 1.0, 0),
        (Some(2e9), 1.0, 3_000),
        (Some(2e9), 0.5, 1_500),
    ] {
        let options = Options {
            operations_per_second,
            compute_scale,
            ..Options::default()
        };
        let graph = graph(&trace, &options).expect("it is right");
        assert_eq!(graph.operation(0).amount, expected);
    }
}

#[test]
fn kernels_carry_the_bytes_and_operators_launch_them() {
    let [launch, kernel] = all_reduce(432, 8_196_000);
    let nodes = [
        // The first has no id: it is 0.
        node(0, "aten::mm", 4, &[number(7, 318), is_cpu_op(true)]),
        node(
            430,
            "gemm",
            4,
            &[number(7, 4), needs(&[0]), is_cpu_op(false)],
        ),
        launch,
        kernel,
    ];
    let read = read(&file(&nodes));
    assert_eq!(
        works(&read),
        [
            compute(318_000, 2),
            compute(4_000, 1),
            compute(151_000, 2),
            Work::Together(crate::trace::Together {
                collective: Collective::AllReduce,
                bytes: 8_196_000,
                group: 0,
                root: 0
            })
        ]
    );
    assert_eq!(read.notes().launches, 1);
    let graph = graph_of(&[file(&nodes), file(&nodes), file(&nodes)]);
    let sends = graph.operations().filter(|(_, it)| it.kind == Kind::Send);
    // A ring of three: four steps, each a third.
    assert_eq!(
        sends.map(|(_, it)| it.amount).collect::<Vec<_>>(),
        [2_732_000; 12]
    );
}

#[test]
fn ids_that_are_absent_count_as_done_and_may_stand_behind() {
    // Once packed, once one by one, as older writers do.
    let one_by_one = [number(5, 7), number(5, 99), number(5, 8)].concat();
    let nodes = [
        node(5, "a", 4, &[number(7, 1), needs(&[8, 7, 100])]),
        node(7, "b", 4, &[number(7, 2)]),
        node(8, "c", 4, &[number(7, 3), needs(&[7])]),
        node(9, "d", 4, &[number(7, 4), one_by_one]),
    ];
    let read = read(&file(&nodes));
    let all = [0, 1, 2, 3].map(|place| read.steps.needs(place).to_vec());
    assert_eq!(all, [vec![1, 2], vec![], vec![1], vec![1, 2]]);
    let expected = Notes {
        absent: 2,
        forward: 2,
        ..Notes::default()
    };
    assert_eq!(read.notes(), &expected);
    assert_eq!(
        read.notes().lines(),
        [
            (
                2,
                "dependencies on nodes that are not there: they count as done"
            ),
            (2, "dependencies on nodes that stand behind")
        ]
    );
    let one = Notes {
        forward: 1,
        ..Notes::default()
    };
    assert_eq!(
        one.lines(),
        [(1, "dependency on a node that stands behind")]
    );
}

#[test]
fn attributes_of_every_kind_of_number_are_read() {
    let zigzag = 8;
    for (kind, value) in [
        (7, varint(4)),
        (9, varint(4)),
        (11, varint(4)),
        (13, varint(4)),
        (15, varint(zigzag)),
        (17, varint(zigzag)),
        (19, 4_u32.to_le_bytes().to_vec()),
        (21, 4_u64.to_le_bytes().to_vec()),
        (23, 4_i32.to_le_bytes().to_vec()),
        (25, 4_i64.to_le_bytes().to_vec()),
    ] {
        let wire: u64 = match value.len() {
            1 => 0,
            4 => 5,
            _ => 1,
        };
        let value = [varint(kind << 3 | wire), value].concat();
        let sizes = [
            attribute("comm_type", &value),
            attribute("comm_size", &value),
            // What nobody asks for may be anything.
            attribute("priority", &bytes(32, &bytes(1, b"x"))),
        ];
        let read = read(&file(&[node(1, "scatter", 7, &sizes)]));
        let Work::Together(together) = read.steps.work(0) else {
            panic!("{:?}", read.steps.work(0));
        };
        assert_eq!(
            (together.collective, together.bytes),
            (Collective::Scatter, 4)
        );
    }
}

#[test]
fn every_collective_is_what_its_number_says() {
    let expected = [
        (0, Collective::AllReduce, 12),
        (1, Collective::Reduce, 12),
        (2, Collective::AllGather, 36),
        (3, Collective::Gather, 36),
        (4, Collective::Scatter, 12),
        (5, Collective::Broadcast, 12),
        (6, Collective::AllToAll, 12),
        (7, Collective::ReduceScatter, 12),
        (8, Collective::ReduceScatter, 12),
        (9, Collective::Barrier, 0),
    ];
    for (number, collective, bytes) in expected {
        let sizes = [
            int64("comm_type", number),
            int64("comm_size", 12),
            text("pg_name", "g"),
        ];
        let files = [0, 1, 2].map(|_| Arc::new(read(&file(&[node(1, "", 7, &sizes)]))));
        let groups = read_groups("{\"g\": [2, 0, 1]}").unwrap();
        let trace = join(&files, &groups).unwrap();
        let Work::Together(together) = trace.ranks[0].work(0) else {
            panic!("{:?}", trace.ranks[0].work(0));
        };
        assert_eq!((together.collective, together.bytes), (collective, bytes));
        // Rank 0 is the root, the second of the group.
        let root = u32::from(collective.has_root());
        assert_eq!(together.root, root, "{collective}");
        assert_eq!(files[0].notes().rooted, u64::from(root));
    }
}

#[test]
fn messages_go_to_the_rank_and_with_the_tag_that_they_name() {
    let send = [
        int64("comm_size", 100),
        int64("comm_src", 0),
        int64("comm_dst", 1),
        int64("comm_tag", 7),
    ];
    let receive = [
        int64("comm_size", 100),
        int64("comm_src", 0),
        int64("comm_tag", 7),
    ];
    let graph = graph_of(&[
        file(&[node(1, "send", 5, &send)]),
        file(&[node(1, "recv", 6, &receive)]),
    ]);
    assert_eq!(crate::check::check(&graph), []);
    let all: Vec<String> = graph.operations().map(|(_, it)| it.to_string()).collect();
    assert_eq!(
        all,
        ["send 100b to 1 with tag 7", "recv 100b from 0 with tag 7"]
    );
}

const INIT: &str = "## process_group:init ##";

fn init(values: &str) -> Vec<u8> {
    node(1, INIT, 1, &[bytes(8, &bytes(1, values.as_bytes()))])
}

#[test]
fn process_groups_are_those_of_the_trace_or_of_a_file_beside_it() {
    let described = "['[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"ranks\": []}, \
                     {\"pg_name\": \"11\", \"ranks\": [0, 2]}, {\"pg_name\": 12, \"ranks\": \
                     {\"1\": 0, \"3\": 1}}]']";
    let reduce = |id, group| {
        let sizes = [
            int64("comm_type", 0),
            int64("comm_size", 8),
            text("pg_name", group),
        ];
        node(id, "kernel", 7, &sizes)
    };
    let of_rank = |group| file(&[init(described), reduce(2, "0"), reduce(3, group)]);
    let all = ["11", "12", "11", "12"].map(|group| Arc::new(read(&of_rank(group))));
    let trace = join(&all, &Groups::default()).unwrap();
    let members = |trace: &Trace| -> Vec<Vec<u32>> {
        trace
            .groups
            .iter()
            .map(|group| group.members.clone())
            .collect()
    };
    assert_eq!(members(&trace), [vec![0, 1, 2, 3], vec![0, 2], vec![1, 3]]);
    assert!(graph(&trace, &Options::default()).is_ok());
    // A file beside it says more.
    let groups = read_groups("{\"11\": [2, 0], \"12\": [3, 1]}").unwrap();
    let trace = join(&all, &groups).unwrap();
    assert_eq!(members(&trace), [vec![0, 1, 2, 3], vec![2, 0], vec![3, 1]]);
    let of_eight = described.replace("\"ranks\": []", "\"ranks\": [], \"group_size\": 8");
    let of_eight = Arc::new(read(&file(&[init(&of_eight)])));
    assert_eq!(
        join(&[of_eight], &groups).unwrap_err().to_string(),
        "rank 0: it was recorded with 8 ranks, and there are 1 files"
    );
    // With marks before quotes, as some writers have it.
    let marked = described.replace('"', "\\\"");
    let read = read(&file(&[init(&marked), reduce(2, "11")]));
    assert_eq!(read.groups, all[0].groups);
}

#[test]
fn the_json_form_says_the_same() {
    let described = "[[{\"pg_name\": \"tp\", \"ranks\": [0, 1]}]]";
    let [launch, kernel] = all_reduce(40, 96);
    let gather = [
        needs(&[6, 40]),
        int64("comm_type", 2),
        int64("comm_size", 8),
        text("pg_name", "tp"),
    ];
    let send = [
        int64("comm_size", 1),
        int64("comm_dst", 1),
        int64("comm_tag", 3),
    ];
    let receive = [int64("comm_size", 1), int64("comm_src", 1)];
    let nodes = [
        init(described),
        launch,
        kernel,
        node(5, "\"gather\"", 7, &gather),
        node(6, "send", 5, &send),
        node(7, "recv", 6, &receive),
        node(8, "cpu", 4, &[number(7, 12), is_cpu_op(true)]),
        node(9, "load", 2, &[number(7, 13)]),
    ];
    let first = read(&file(&nodes));
    let mut json = Vec::new();
    write_json(&first, &mut json).unwrap();
    let again = read(&json);
    assert_eq!(again.steps, first.steps);
    assert_eq!(again.groups, first.groups);
    assert_eq!(again.group_names, first.group_names);
    let mut twice = Vec::new();
    write_json(&again, &mut twice).unwrap();
    assert_eq!(json, twice);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_file_by_gzip_is_read_and_one_that_is_cut_is_told() {
    let whole: Vec<Vec<u8>> = (1..100)
        .map(|id| node(id * 1_001, &format!("node {id}"), 4, &[number(7, id * id)]))
        .collect();
    let plain = file(&whole);
    let packed = gzip(&plain);
    assert_eq!(read(&packed), read(&plain));
    assert_eq!(
        problem(&packed[..packed.len() - 9]),
        "the file by gzip ends too early"
    );
    assert_eq!(problem(&packed[..20]), "the file by gzip ends too early");
    assert_eq!(
        problem(&gzip(b"")),
        "the file by gzip is empty: a trace begins with its metadata"
    );
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_node() {
    let one = |kind, fields: &[Vec<u8>]| problem(&file(&[node(12, "kernel", kind, fields)]));
    let whole = file(&[node(3, "a", 4, &[])]);
    let said = [
        problem(b""),
        problem(b"num_ranks 2\nrank 0 {\n}\n"),
        problem(&[&[2, 8, 1], &whole[..]].concat()),
        problem(&whole[..whole.len() - 1]),
        problem(&[file(&[]), vec![0x80]].concat()),
        problem(&[file(&[]), vec![0xff; 9], vec![0x01]].concat()),
        problem(&file(&[vec![0xff, 0xff]])),
        problem(&file(&[node(3, "a", 4, &[]), node(3, "b", 4, &[])])),
        one(0, &[]),
        one(7, &[int64("comm_size", 8)]),
        one(7, &[int64("comm_type", 0)]),
        one(7, &[int64("comm_type", 10), int64("comm_size", 8)]),
        one(7, &[int64("comm_type", 0), int64("comm_size", u64::MAX)]),
        one(7, &[int64("comm_type", 0), text("comm_size", "8")]),
        one(
            7,
            &[
                int64("comm_type", 0),
                int64("comm_size", 8),
                attribute("involved_dim", &bytes(28, &bytes(1, &[1, 0]))),
            ],
        ),
        one(5, &[int64("comm_size", 8)]),
        one(6, &[int64("comm_src", 8)]),
        one(5, &[int64("comm_size", 8), int64("comm_dst", 1 << 40)]),
        problem(&file(&[init("[\"nothing\"]")])),
        problem(b"{\"nodes\": [], \"schema\": \"1.1.1\"}"),
        problem(b"{\"graph\": []}"),
        problem(b"{\"workload_graph\": [{\"Name\": \"x\"}]}"),
        problem(b"{\"workload_graph\": [{\"Id\": 4, \"Name\": \"x\", \"runtime\": -3}]}"),
        problem(b"{\"workload_graph\": [{\"Id\": 4, \"Name\": \"x\", \"data_deps\": 3}]}"),
        problem(b"{\"workload_graph\": ["),
    ];
    let expected = "\
the file is empty: a trace begins with its metadata
the file ends in its metadata: no Chakra trace, or a cut one: 110 bytes are expected, 22 are there
no Chakra trace: its first message is no metadata (failed to decode Protobuf message: Metadata.version: invalid wire type: Varint (expected LengthDelimited))
the file ends in message 1: 7 bytes are expected, 6 are there
the file ends in the length of message 1
message 1 is longer than 268435456 B: no Chakra trace, or one whose middle is missing
message 1 is no node: failed to decode Protobuf message: invalid varint
node 3 `b`: its id is that of another node, too
node 12 `kernel`: its type is 0: 1 metadata, 2 and 3 memory, 4 computation, 5 send, 6 receive and 7 collective are known
node 12 `kernel`: it is a collective, and no `comm_type` says which
node 12 `kernel`: it is all-reduce, and no `comm_size` says of how many bytes
node 12 `kernel`: its `comm_type` is 10: 0 to 9 are known, 0 is an all-reduce
node 12 `kernel`: its `comm_size` is -1, and counts
node 12 `kernel`: its `comm_size` is no whole number
node 12 `kernel`: its `involved_dim` leaves dimensions out, and says nothing of ranks: a process group (`pg_name`) does
node 12 `kernel`: it sends, and no `comm_dst` says which rank is at the other end
node 12 `kernel`: it receives, and no `comm_size` says how many bytes
node 12 `kernel`: `comm_dst` is 1099511627776: no rank
node 1 `## process_group:init ##`: its value describes no process groups
this is what PyTorch records: `chakra_trace_link` and `chakra_converter` make a Chakra trace of it
a trace in JSON has its nodes in `workload_graph`, and this has none
`workload_graph[0]` has no whole number `Id`
node 4 `x`: its `runtime` is -3, and counts
node 4 `x`: its `data_deps` are no ids
no JSON: EOF while parsing a list at line 1 column 20";
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(
        said.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn what_is_wrong_with_files_together_is_said_with_the_rank() {
    let reduce = |group| {
        let sizes = [
            int64("comm_type", 0),
            int64("comm_size", 8),
            text("pg_name", group),
        ];
        Arc::new(read(&file(&[node(4, "k", 7, &sizes)])))
    };
    let plain = Arc::new(read(&file(&[])));
    let groups = read_groups("{\"a\": [0], \"b\": [0, 7], \"c\": [1, 1]}").unwrap();
    let none = Groups::default();
    let said = |files: &[Arc<RankFile>], groups| join(files, groups).unwrap_err().to_string();
    let both = |group| [Arc::clone(&plain), reduce(group)];
    assert_eq!(
        said(&both("x"), &none),
        "rank 1: node 4 `k`: process group `x` is not known: neither the trace nor a file of \
         groups describes any"
    );
    assert_eq!(
        said(&both("x"), &groups),
        "rank 1: node 4 `k`: process group `x` is not known: a, b, c are"
    );
    assert_eq!(
        said(&both("b"), &groups),
        "rank 1: node 4 `k`: process group `b` has rank 7, and the trace ranks 0 to 1"
    );
    assert_eq!(
        said(&both("c"), &groups),
        "rank 1: node 4 `k`: process group `c` has rank 1 twice"
    );
    // That a rank is no member shows when the graph is made.
    let trace = join(&both("a"), &groups).unwrap();
    assert_eq!(
        graph(&trace, &Options::default()).unwrap_err().to_string(),
        "rank 0 does 0 collectives of group `a`, and another does more:\n  rank 1, node 4 `k`"
    );
    for wrong in ["[1]", "{\"a\": 3}", "{\"a\": [-1]}", "{"] {
        assert!(read_groups(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn one_file_stands_for_all_ranks_if_it_names_none() {
    let nodes = all_reduce(2, 960);
    let one = read(&file(&nodes));
    let trace = repeat(&one, 5, &Groups::default()).unwrap();
    let files = [0; 5].map(|_| file(&nodes));
    assert_eq!(
        graph(&trace, &Options::default()).unwrap(),
        graph_of(&files)
    );
    let send = [int64("comm_size", 100), int64("comm_dst", 1)];
    let message = read(&file(&[node(9, "send", 5, &send)]));
    assert_eq!(
        repeat(&message, 5, &Groups::default())
            .unwrap_err()
            .to_string(),
        "node 9 `send` is a message of one rank: only the files of all ranks say who else has one"
    );
    let sizes = [
        int64("comm_type", 0),
        int64("comm_size", 8),
        text("pg_name", "some"),
    ];
    let some = read(&file(&[node(4, "k", 7, &sizes)]));
    let groups = read_groups("{\"some\": [0, 1]}").unwrap();
    assert_eq!(
        repeat(&some, 5, &groups).unwrap_err().to_string(),
        "process group `some` has 2 of 5 ranks: only the files of all ranks say what the others do"
    );
    assert!(repeat(&some, 2, &groups).is_ok());
}

#[test]
fn a_ring_of_nodes_is_told_by_their_ids() {
    let nodes = [
        node(17, "a", 4, &[needs(&[19])]),
        node(18, "b", 4, &[needs(&[17])]),
        node(19, "c", 4, &[needs(&[18])]),
    ];
    let files = [Arc::new(read(&file(&nodes)))];
    let trace = join(&files, &Groups::default()).unwrap();
    assert_eq!(
        graph(&trace, &Options::default()).unwrap_err().to_string(),
        "steps wait for each other in a ring:\n  rank 0, node 17 `a`\n  rank 0, node 19 `c`\n  \
         rank 0, node 18 `b`"
    );
    assert_eq!(Steps::default().len(), 0);
}
