use super::*;
use crate::check::check;
use crate::goal;
use crate::graph::{Graph, Kind, Operation};
use crate::loggops::{Parameters, replay};
use crate::trace::{Options, graph};

const RATE: f64 = 1e9;

fn one(text: &str) -> [TraceFile<'_>; 1] {
    [TraceFile {
        name: "t.txt",
        text,
    }]
}

fn graph_of(text: &str) -> Graph {
    let (trace, _) = read(&one(text)).expect("it is right");
    let options = Options {
        operations_per_second: Some(RATE),
        ..Options::default()
    };
    graph(&trace, &options).expect("it is right")
}

/// When all has ended, in nanoseconds.
fn end(text: &str) -> u64 {
    let graph = graph_of(text);
    assert_eq!(check(&graph), []);
    let parameters = Parameters {
        eager_bytes: u64::MAX,
        ..Parameters::default()
    };
    let outcome = replay(&graph, &parameters).expect("short enough");
    assert_eq!(outcome.stalled, None);
    outcome.end().picoseconds() / 1000
}

/// One message by itself, in nanoseconds.
const fn alone(bytes: u64) -> u64 {
    5_500 + 6 * (bytes - 1)
}

/// The same lines for each of so many ranks.
fn each(ranks: u32, lines: &str) -> String {
    let of_rank = |rank| lines.lines().map(move |line| format!("{rank} {line}\n"));
    (0..ranks).flat_map(of_rank).collect()
}

/// Bytes that each rank sends to each other one, zeros left out.
fn sent(graph: &Graph) -> Vec<(u32, u32, u64)> {
    let mut all: Vec<(u32, u32, u64)> = graph
        .operations()
        .map(|(id, operation)| (graph.rank_of(id), operation))
        .filter(|(_, operation)| operation.kind == Kind::Send)
        .map(|(rank, Operation { peer, amount, .. })| (rank, peer, amount))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_ring_of_blocking_messages_takes_one_after_the_other() {
    let text = "\
# three ranks
0 init
0 compute 2e3
0 send 1 7 1e2
0 recv 2 7 100
0 finalize
1 init
1 recv 0 7 100
1 compute 1500
1 send 2 7 100

1 finalize
2 init 1
2 recv 1 7 100 6
2 sleep 4e-6
2 send 0 7 12.5
2 finalize
";
    assert_eq!(end(text), 2_000 + 1_500 + 4_000 + 3 * alone(100));
}

#[test]
fn what_is_begun_overlaps_until_it_is_waited_for() {
    let asynchronous = "\
0 isend 1 0 1000
0 compute 9000
0 wait 0 1 0
1 irecv 0 0 1000
1 compute 9000
1 wait 0 1 0
1 compute 500
";
    // The message is handled once the computation has ended.
    let handled = end(asynchronous);
    let waited =
        end(&asynchronous.replace("compute 9000\n1 wait 0 1 0", "wait 0 1 0\n1 compute 9000"));
    assert_eq!(waited, alone(1_000) + 9_000 + 500);
    assert!(handled < waited, "{handled}");
    // Two requests of one source and tag are waited for in order.
    let two = "\
0 send 1 0 10
0 compute 50000
0 send 1 0 10
1 irecv 0 0 10
1 irecv 0 0 10
1 wait 0 1 0
1 compute 100
";
    assert_eq!(end(two), 1_500 + 50_000 + alone(10));
    let all = two.replace("wait 0 1 0", "waitall");
    assert_eq!(end(&all), 1_500 + 50_000 + alone(10) + 100);
    let tested = two.replace("1 wait 0 1 0", "1 test 0 1 0");
    assert_eq!(end(&tested), 1_500 + 50_000 + alone(10));
}

#[test]
fn collectives_take_what_they_do_by_name() {
    let ring = |bytes: u64| 3 * alone(bytes / 4);
    for (lines, expected) in [
        ("barrier", 2 * alone(1)),
        ("allReduce 4000 0", 2 * ring(4_000)),
        ("allreduce 500 7e3 0", 2 * ring(4_000) + 7_000),
        (
            "reducescatter 1000 1000 1000 1000 3000",
            ring(4_000) + 3_000,
        ),
        ("allgather 1000 1000", ring(4_000)),
        ("allgatherv 250 250 250 250 250 1", ring(4_000)),
        ("alltoall 1000 1000", ring(4_000)),
        (
            "alltoallv 4000 1000 1000 1000 1000 4000 1000 1000 1000 1000",
            ring(4_000),
        ),
        ("init 1\nalltoall 125 125", ring(4_000)),
        ("bcast 1000\nbcast 1000 3 2", 4 * alone(1_000)),
        ("reduce 1000 0 1", 2 * alone(1_000)),
    ] {
        assert_eq!(end(&each(4, lines)), expected, "{lines}");
    }
    // A chain: each computes what it has got, and passes it on.
    assert_eq!(end(&each(4, "scan 1000 100")), 3 * alone(1_000) + 4 * 100);
}

#[test]
fn shares_of_each_rank_go_to_it_and_what_is_empty_does_not_go() {
    let text = "\
0 alltoallv 9 0 3 0 9 0 0 5
1 alltoallv 9 0 4 7 9 3 4 0
2 alltoallv 9 5 0 0 9 0 7 0
";
    assert_eq!(sent(&graph_of(text)), [(0, 1, 3), (1, 2, 7), (2, 0, 5)]);
    assert_eq!(check(&graph_of(text)), []);
    let gathered = "\
0 gatherv 2 2 0 8 2 1 1
1 gatherv 0 2 0 8 2 1 1
2 gatherv 8 2 0 8 2 1 1
";
    assert_eq!(sent(&graph_of(gathered)), [(0, 2, 8)]);
    assert_eq!(check(&graph_of(gathered)), []);
    let scattered = "\
0 scatterv 8 8 16 1 1 6 0
1 scatterv 8 8 16 8 1 6 0
2 scatterv 8 8 16 2 1 6 0
";
    assert_eq!(sent(&graph_of(scattered)), [(1, 0, 8), (1, 2, 16)]);
    assert_eq!(check(&graph_of(scattered)), []);
}

#[test]
fn a_receive_of_no_bytes_takes_what_its_send_has() {
    let text = "0 send 1 3 77\n0 send 1 3 88\n1 recv 0 3 -1\n1 recv 0 3 88\n";
    let graph = graph_of(text);
    assert_eq!(check(&graph), []);
    let first = graph.of_rank(1).start;
    assert_eq!(graph.operation(first).amount, 77);
    let any = graph_of("0 send 1 3 77\n1 recv -555 3 77\n");
    assert_eq!(any.operation(any.of_rank(1).start).peer, crate::ANY);
}

/// The sizes of a rank's receives.
fn taken(graph: &Graph, rank: u32) -> Vec<u64> {
    let all = graph.of_rank(rank).map(|id| graph.operation(id));
    let receives = all.filter(|operation| operation.kind == Kind::Receive);
    receives.map(|operation| operation.amount).collect()
}

fn replayed(graph: &Graph) -> crate::loggops::Outcome {
    replay(graph, &Parameters::default()).expect("short enough")
}

#[test]
fn a_receive_takes_at_most_the_bytes_that_it_says() {
    // With room to spare it gets the size of what it takes, so that a GOAL file can say it.
    let text = "0 send 1 3 77\n1 recv 0 3 100\n";
    assert_eq!(taken(&graph_of(text), 1), [77]);
    assert!(replayed(&graph_of(text)).misfits.is_empty());
    let cut = graph_of(&text.replace("100", "76"));
    let told = "a message has more bytes than its receive takes: 1\n  rank 0, line 1 `send`: send \
                77b to 1 with tag 3\n  rank 1, line 2 `recv`: recv 76b from 0 with tag 3";
    assert_eq!(replayed(&cut).misfits.to_string(), told);
    assert_eq!(
        check(&cut)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [told]
    );
    // Where one of any source takes what comes first, the largest that may come counts.
    let any = "\
0 send 2 3 50
1 send 2 3 60
2 recv -555 3 100
2 recv 0 3 -1
2 recv -1 -444 0
";
    assert_eq!(taken(&graph_of(any), 2), [100, 50, 60]);
    let cut = replayed(&graph_of(&any.replace("3 100", "3 40")));
    assert_eq!(cut.misfits.count, 1);
    assert_eq!(
        replayed(&graph_of(&any.replace("1 send 2 3 60\n", "1 init\n")))
            .misfits
            .count,
        0
    );
}

#[test]
fn what_a_goal_file_would_say_wrongly_is_told() {
    let problem = |text: &str| goal::unsayable(&graph_of(text));
    let any = "0 send 1 0 8\n0 send 1 0 8\n1 recv -1 0 8\n1 recv -1 -1 0\n";
    assert_eq!(problem(any), None);
    assert_eq!(
        problem(&any.replace("0 send 1 0 8\n1", "0 send 1 0 9\n1")).as_deref(),
        Some(
            "rank 1, line 3 `recv`: recv 8b from any rank: in a GOAL file it has one size, and what \
             it takes several"
        )
    );
    assert_eq!(
        problem(&format!("{any}0 barrier\n1 barrier\n")).as_deref(),
        Some(
            "rank 1, line 4 `recv`: recv 8b from any rank with any tag: in a GOAL file it would \
             take messages of collectives, too"
        )
    );
    assert_eq!(problem("0 send 1 0 8\n1 recv 0 0 9\n"), None);
}

#[test]
fn a_receive_with_any_tag_leaves_messages_of_collectives() {
    let text = "\
0 irecv 1 -444 8
0 barrier
0 alltoallv 8 8 8 8 8 8
0 wait 1 0 5
1 barrier
1 alltoallv 8 8 8 8 8 8
1 send 0 5 8
";
    let graph = graph_of(text);
    assert!(graph.has_wildcards());
    let outcome = replayed(&graph);
    assert_eq!((outcome.stalled, outcome.messages), (None, 5));
    // What the wait names is known once the message is there: it waits for the receive of any.
    assert_eq!(read(&one(text)).expect("it is right").1.idle_waits, 0);
}

#[test]
fn an_exchange_is_a_message_each_way() {
    let text = "0 sendRecv 1000 1 2000 1\n1 sendRecv 250 0 125 0 1 0\n";
    let graph = graph_of(&text.replace("250 0", "500 0"));
    assert_eq!(sent(&graph), [(0, 1, 1_000), (1, 0, 2_000)]);
    // Both are on their way at once.
    assert_eq!(
        end(&text.replace("250 0", "500 0")),
        1_500 + 2 * 1_500 + 2_500 - 1_500 + 6 * 1_999
    );
    let ring: String = (0..4)
        .map(|rank| {
            format!(
                "{rank} sendRecv 10 {} -1 {}\n",
                (rank + 1) % 4,
                (rank + 3) % 4
            )
        })
        .collect();
    assert_eq!(end(&ring), alone(10));
    assert_eq!(taken(&graph_of(&ring), 2), [10]);
}

#[test]
fn each_rank_has_a_file_of_its_own() {
    let files = ["0 send 1 0 8\n", "1 recv 0 0 8\n"];
    let files = files.map(|text| TraceFile { name: "f", text });
    let (trace, _) = read(&files).expect("it is right");
    assert_eq!(trace.ranks.len(), 2);
    assert_eq!(trace.ranks[1].name(0), (1, "recv"));
    let [first, second] = files;
    let swapped = read(&[second, first]).expect_err("it is wrong").to_string();
    assert_eq!(
        swapped,
        "f, line 1: the file is that of rank 0, and the line of rank 1"
    );
    assert_eq!(
        listed("# files\n a.txt\n\nb.txt\n"),
        Some(vec!["a.txt", "b.txt"])
    );
    assert_eq!(listed("0 init\n"), None);
    assert_eq!(listed(""), None);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, expected) in [
        ("", "t.txt: there is no action in it"),
        (
            "p0 init\n",
            "t.txt, line 1: a line begins with its rank, 0 to 16777215, not `p0`",
        ),
        (
            "0 init\n2 init\n",
            "t.txt, rank 1: rank 1 has no action, and there are ranks 0 to 2",
        ),
        ("0\n", "t.txt, line 1: the line ends before its action"),
        (
            "0 init\n0 send 1 0 8\n",
            "t.txt, line 2, rank 0: `send`: there is no rank 1: ranks are 0 to 0",
        ),
        (
            "0 send 0 0\n",
            "t.txt, line 1, rank 0: `send`: 2 words follow, and the target, a tag, a size and \
             perhaps a type are expected",
        ),
        (
            "0 send 0 0 8 6 9\n",
            "t.txt, line 1, rank 0: `send`: 5 words follow, and the target, a tag, a size and \
             perhaps a type are expected",
        ),
        (
            "0 send 0 -1 8\n",
            "t.txt, line 1, rank 0: `send`: the tag is -1: 0 to 2147483646 are read",
        ),
        (
            "0 send 0 0 8 99\n",
            "t.txt, line 1, rank 0: `send`: type 99 is not known: 0 (double) to 29 are, 6 is a \
             byte",
        ),
        (
            "0 compute x\n",
            "t.txt, line 1, rank 0: `compute`: `x` is no number",
        ),
        (
            "0 compute -5\n",
            "t.txt, line 1, rank 0: `compute`: -5 is out of range: 0 to 1e18 are read",
        ),
        (
            "0 compute nan\n",
            "t.txt, line 1, rank 0: `compute`: `nan` is no number",
        ),
        (
            "0 recv 0 5 0\n",
            "t.txt, line 1, rank 0: `recv`: it takes what comes, and no send of rank 0 with tag 5 \
             is left for it",
        ),
        (
            "0 recv -1 5 0\n",
            "t.txt, line 1, rank 0: `recv`: it takes what comes, and no send of any rank with tag 5 \
             is left for it",
        ),
        (
            "0 sendRecv 8 0 8\n",
            "t.txt, line 1, rank 0: `sendRecv`: 3 words follow, and a size, the target, a size, the \
             source and perhaps two types are expected",
        ),
        (
            "0 alltoallv 8 0 8 8 0 8\n1 alltoallv 8 8 0 8 9 0\n",
            "t.txt, line 2, rank 1: `alltoallv`: it takes 9 B of rank 0, whose line 1 sends it 8 B",
        ),
    ] {
        let error = read(&one(text)).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
    let unknown = read(&one("0 dance\n"))
        .expect_err("it is wrong")
        .to_string();
    assert!(
        unknown.contains("`dance`: no such action: there are init, finalize,"),
        "{unknown}"
    );
    // Collectives that do not fit together name the lines.
    let (trace, _) = read(&one("0 barrier\n1 bcast 8\n")).expect("each is right");
    let error = graph(&trace, &Options::default())
        .expect_err("it is wrong")
        .to_string();
    assert!(
        error.contains("rank 1, line 2 `bcast`: broadcast of 8 B"),
        "{error}"
    );
}

#[test]
fn what_is_worth_knowing_is_counted() {
    let text = each(2, "comm_split 3 4 5\nreducescatter 1 2 0\nwait 0 1 9");
    let (trace, notes) = read(&one(&text)).expect("it is right");
    assert_eq!(
        notes,
        Notes {
            communicators: 2,
            unequal: 2,
            idle_waits: 2
        }
    );
    assert_eq!(notes.lines().len(), 3);
    assert_eq!(trace.counting(), 0);
    let (trace, _) = read(&one("0 compute 5\n0 compute 0\n")).expect("it is right");
    assert_eq!(trace.counting(), 1);
}
