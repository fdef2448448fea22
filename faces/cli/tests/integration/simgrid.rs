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
    let end = format!("{}.{:03} us", end / 1_000, end % 1_000);
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
}
