//! `viaduct simgrid`: traces described, and made GOAL files.

use crate::support::{Folder, text};

/// Two ranks: a message that overlaps with a computation, and a reduction.
const TRACE: &str = "\
0 init
0 isend 1 7 1e3
0 compute 2e6
0 wait 0 1 7
0 allreduce 8 40 0
0 comm_dup 1
0 finalize
1 init
1 recv 0 7 -1
1 allreduce 8 40 0
1 finalize
";

#[test]
fn a_trace_is_described_and_becomes_a_goal_file() {
    let folder = Folder::with("trace.txt", TRACE);
    insta::assert_snapshot!(folder.succeed(&["simgrid", "info", "trace.txt"]));
    let to_goal = ["simgrid", "to-goal", "trace.txt", "trace.goal"];
    let output = folder.run(&to_goal);
    assert_eq!(output.status.code(), Some(0));
    let warned = text(&output.stderr);
    assert!(
        warned.contains("3 computations count operations"),
        "{warned}"
    );
    folder.succeed(&[&to_goal[..], &["--operations-per-second", "1e9"]].concat());
    let goal = folder.read("trace.goal");
    for expected in [
        "// isend\nl1: send 1000b to 1 tag 7",
        "// compute\nl2: calc 2000000",
        "recv 1000b",
    ] {
        assert!(goal.contains(expected), "{goal}");
    }
    let replayed = folder.succeed(&["goal", "replay", "trace.goal"]);
    // It posts, computes, handles what has come meanwhile (o + 31 G), does two rounds of 32 B and
    // computes what they bring.
    let end = 1_500 + 2_000_000 + (1_500 + 31 * 6) + 2 * (5_500 + 31 * 6) + 40;
    let (thousands, us) = (end / 1_000_000, end / 1_000 % 1_000);
    let end = format!("{thousands},{us:03}.{:03} us", end % 1_000);
    assert!(replayed.contains(&end), "{end}: {replayed}");
}

#[test]
fn what_is_wrong_with_a_trace_is_told_with_its_place() {
    let folder = Folder::with("trace.txt", &TRACE.replace("recv 0 7 -1", "recv 5 7 -1"));
    let error = folder.failure(1, &["simgrid", "info", "trace.txt"]);
    let expected = "trace.txt, line 9, rank 1: `recv`: there is no rank 5: ranks are 0 to 1";
    assert!(error.contains(expected), "{error}");
    let folder = Folder::with(
        "trace.txt",
        &TRACE.replace("1 allreduce 8", "1 allreduce 9"),
    );
    let error = folder.failure(1, &["simgrid", "info", "trace.txt"]);
    assert!(
        error.contains("rank 1, line 10 `allreduce`: all-reduce of 72 B"),
        "{error}"
    );
    let error = folder.failure(1, &["simgrid", "info", "other.txt"]);
    assert!(error.contains("there is no such file"), "{error}");
    let folder = Folder::with("trace.txt", &TRACE.replace("recv 0 7 -1", "recv 0 7 999"));
    let error = folder.failure(1, &["simgrid", "info", "trace.txt"]);
    let expected = "`trace.txt`: a message has more bytes than its receive takes: 1\n  \
                    rank 0, line 2 `isend`: send 1000b to 1 with tag 7\n  \
                    rank 1, line 9 `recv`: recv 999b from 0 with tag 7";
    assert!(error.contains(expected), "{error}");
    let run = [
        "run",
        "torus-1024",
        "--no-out",
        "--set",
        "traffic.arrivals=simgrid",
        "--set",
        "traffic.file=trace.txt",
        "--set",
        "traffic.operations_per_second=1e9",
    ];
    let error = text(&folder.ended(2, &run).stderr);
    let expected =
        "the application of `trace.txt`: a message has more bytes than its receive takes";
    assert!(error.contains(expected), "{error}");
    assert!(
        error.contains("rank 1, line 9 `recv`: recv 999b from 0"),
        "{error}"
    );
}

#[test]
fn what_a_goal_file_cannot_say_is_not_written() {
    let any = TRACE.replace("recv 0 7 -1", "recv 0 -1 -1");
    let folder = Folder::with("trace.txt", &any);
    folder.succeed(&["simgrid", "info", "trace.txt"]);
    let error = folder.failure(1, &["simgrid", "to-goal", "trace.txt", "trace.goal"]);
    let expected = "rank 1, line 9 `recv`: recv 1000b from 0 with any tag: in a GOAL file it would \
                    take messages of collectives, too";
    assert!(error.contains(expected), "{error}");
    assert!(!folder.path().join("trace.goal").exists());
}

/// The lines of each rank by gzip; one after the other they are a file by gzip, too.
const PACKED: [&[u8]; 2] = [
    b"\
\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x25\xca\x51\x0a\x80\x20\x10\x45\xd1\
\x7f\x57\xf1\x96\x30\x56\x54\xbb\x09\xd1\x09\x06\xd4\xa4\x1c\x82\x56\xdf\x44\
\x9f\x87\x7b\x09\x52\xa5\x3b\x82\x5c\x5c\x13\x3c\x16\x78\x1e\xcd\xf1\x28\x4d\
\x3b\x63\xe0\xd9\x74\x07\xe9\xa0\x2f\x1b\x42\xce\x27\x27\x8d\x8c\x15\x13\x81\
\xfe\xbb\x6c\x49\x1b\xbc\x61\x97\x1a\xb2\x3c\xec\x5e\x41\x14\xd1\x64\x5d\x00\
\x00\x00\
",
    b"\
\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x33\x54\xc8\xcc\xcb\x2c\xe1\x32\x54\
\x28\x4a\x4d\x2e\x53\x30\x50\x30\x57\xd0\x35\x04\xf2\x12\x73\x72\x8a\x52\x53\
\x4a\x93\x53\x15\x2c\x14\x4c\x0c\x14\x0c\x80\x42\x69\x99\x79\x89\x39\x99\x55\
\xa9\x5c\x00\x7e\x08\xf8\x3c\x33\x00\x00\x00\
",
];

#[test]
fn files_by_gzip_are_read_and_one_that_is_cut_is_told() {
    let folder = Folder::with("trace.txt", TRACE);
    let plain = folder.succeed(&["simgrid", "info", "trace.txt"]);
    let packed = PACKED.concat();
    std::fs::write(folder.path().join("trace.txt.gz"), &packed).unwrap();
    assert_eq!(folder.succeed(&["simgrid", "info", "trace.txt.gz"]), plain);
    std::fs::write(folder.path().join("list.txt"), "cut.gz\n").unwrap();
    std::fs::write(folder.path().join("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    let error = folder.failure(1, &["simgrid", "info", "list.txt"]);
    let expected = "`list.txt`: cut.gz, which list.txt lists: the file by gzip ends too early";
    assert!(error.contains(expected), "{error}");
    // Each rank its own, in a folder.
    std::fs::create_dir(folder.path().join("ranks")).unwrap();
    for (rank, packed) in PACKED.iter().enumerate() {
        let name = format!("ranks/rank-{rank}.txt.gz");
        std::fs::write(folder.path().join(name), packed).unwrap();
    }
    assert_eq!(folder.succeed(&["simgrid", "info", "ranks"]), plain);
}
