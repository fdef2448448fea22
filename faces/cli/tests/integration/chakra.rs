//! `viaduct chakra`: traces described, and made GOAL files.

use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
    command.args(arguments).current_dir(folder);
    command.output().expect("the command runs")
}

fn told(output: &Output) -> (Option<i32>, String) {
    let bytes = [&*output.stdout, &*output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// Two operators of the host, a kernel, a computation, and a broadcast of nothing.
const STEP: &str = "\
{\"workload_graph\": [
{\"Id\": 1, \"Name\": \"mm\", \"NodeType\": 4, \"runtime\": 3, \"is_cpu_op\": true, \"data_deps\": [77]},
{\"Id\": 2, \"Name\": \"launch\", \"NodeType\": 7, \"runtime\": 1, \"is_cpu_op\": true, \"data_deps\": [1]},
{\"Id\": 3, \"Name\": \"kernel\", \"NodeType\": 7, \"comm_type\": 0, \"comm_size\": 96, \"data_deps\": [2, 4]},
{\"Id\": 4, \"Name\": \"gemm\", \"NodeType\": 4, \"runtime\": 7, \"data_deps\": []},
{\"Id\": 5, \"Name\": \"kernel\", \"NodeType\": 7, \"comm_type\": 5, \"comm_size\": 0, \"data_deps\": []}
]}
";

#[test]
fn a_trace_is_described_and_becomes_a_goal_file() {
    let folder = tempfile::tempdir().expect("it is right");
    std::fs::write(folder.path().join("step.json"), STEP).expect("it is right");
    let info = told(&run(
        folder.path(),
        &["chakra", "info", "step.json", "--ranks", "4"],
    ));
    insta::assert_snapshot!(info.1);
    assert_eq!(info.0, Some(0));
    // Both wait for the computation, 7 us; then come the steps, and a broadcast of two.
    for (algorithm, end) in [("ring", "51.828 us"), ("recursive-doubling", "30.14 us")] {
        let arguments = [
            "chakra",
            "to-goal",
            "step.json",
            "step.goal",
            "--ranks",
            "4",
            "--all-reduce",
            algorithm,
        ];
        assert_eq!(
            told(&run(folder.path(), &arguments)),
            (Some(0), String::new())
        );
        let replayed = told(&run(folder.path(), &["goal", "replay", "step.goal"]));
        assert_eq!(replayed.0, Some(0));
        assert!(replayed.1.contains(end), "{algorithm}: {}", replayed.1);
    }
}

/// A stream by gzip without its last 30 bytes.
const CUT: &[u8] = b"\
\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x13\x12\x12\xe0\x62\x2b\x4e\xce\x48\xcd\
\x4d\x7c\xc5\xc8\x6a\xa8\x67\xa0\x67\x28\x29\xc4\x94\x9b\x2b\xc1\x62\xb1\x8f\x29\
\x88\x8f\x8b\x33\xb3\x38\x3e\xb9\xa0\x34\x3e\xbf\xe0\x06\x23\x23\x3f\x07\xa3\x10\
\x4b\x66\x5e\x66\x89\x04\xa3\x13\x33\x17\x63\x85\x06\x07\x93\x90\x40\xb2\xa1\x41\
\x8a\x95\x55\x62\x4e\x4e\x51\x6a\x4a\x69\x72\x6a\xbc\x04\xbb\x05\x3f\xba\x46\x03\
\x0e\x66\x21\xb6\xec\xd4\xa2\xbc\xd4\x1c\x09\x76\x2d\x66\x26\x06\xce\x20\x5e\x2e\
\xce\xe4\xfc\xdc\xdc\xf8\x92\xca\x82\x54\x0f\x06\x90\x06\x30\xb7\x38\xb3\x2a\x35\
\xe3\x00\xbb\x2e\x07\x8b\x10\x5b\x7a\x62\x49\x46\x6a\x11\x50\x03\x23\x33\x8a\x72\
";

#[test]
fn what_is_wrong_with_a_trace_is_told_with_its_place() {
    let folder = tempfile::tempdir().expect("it is right");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("it is right");
    };
    write("step.json", STEP.as_bytes());
    write("empty.et", b"");
    write("ring.json", STEP.replace("[77]", "[3]").as_bytes());
    write(
        "group.json",
        STEP.replace("\"comm_size\"", "\"pg_name\": \"7\", \"comm_size\"")
            .as_bytes(),
    );
    for rank in [0, 2, 3] {
        write(&format!("some.{rank}.json"), STEP.as_bytes());
    }
    for rank in [0, 1] {
        write(&format!("two.{rank}.json"), STEP.as_bytes());
    }
    let other = STEP.replace("\"comm_size\": 96", "\"comm_size\": 97");
    write("differ.0.json", STEP.as_bytes());
    write("differ.1.json", other.as_bytes());
    write("cut.et", CUT);
    let mut said = String::new();
    for arguments in [
        &["empty.et"][..],
        &["cut.et"],
        &["some"],
        &["two", "--ranks", "3"],
        &["differ"],
        &["ring.json"],
        &["group.json"],
        &["group.json", "--groups", "empty.et"],
        &["nothing"],
    ] {
        let arguments = [&["chakra", "info"], arguments].concat();
        let (code, text) = told(&run(folder.path(), &arguments));
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        said += &text;
    }
    insta::assert_snapshot!(said);
}
