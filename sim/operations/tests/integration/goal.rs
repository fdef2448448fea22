//! GOAL files: read, written, and what a bad one is told.

use std::io::Cursor;

use viaduct_operations::check::check;
use viaduct_operations::goal::{parse_text, read_binary, write_binary, write_text};
use viaduct_operations::{After, Graph, cycle};

const SAMPLE: &str = "\
// A comment, and an empty line.

num_ranks 3
/* Two lines
of comment */
rank 0 {
first: calc 1500 cpu 1
l2: send 8b to 1 tag 7 cpu 0 nic 2
l2 requires first
l3: recv 8b from 1 tag 7
l3 irequires l2
}
rank 1 {
recv 8b from -1 tag -1
a: recv 0b from 0
}
rank 2 {
}
";

fn binary(graph: &Graph) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_binary(graph, &mut bytes).expect("it is right");
    bytes
}

#[test]
fn a_text_is_read_and_written_and_read_again() {
    let graph = parse_text(SAMPLE).expect("it is right");
    assert_eq!(
        (graph.ranks(), graph.len(), graph.dependency_count()),
        (3, 5, 2)
    );
    assert_eq!((graph.processors(), graph.adapters()), (2, 3));
    assert_eq!(graph.line(1), Some(8));
    assert_eq!(graph.waiters(1).collect::<Vec<_>>(), [(2, After::Start)]);
    let mut text = Vec::new();
    write_text(&graph, &mut text).expect("it is right");
    let text = String::from_utf8(text).expect("it is right");
    assert!(text.contains("l1: recv 8b from -1 tag -1\n"), "{text}");
    assert_eq!(parse_text(&text).expect("it is right"), graph);
}

#[test]
fn an_operation_is_called_by_its_label_or_the_comment_above() {
    let text = "\
num_ranks 2
// the file
rank 0 {
l1: calc 1
// forward
l2: calc 2
optimizer: calc 3
/* beside
// the point */
calc 4
//
calc 5
// backward
}
rank 1 {
calc 6
}
";
    let graph = parse_text(text).expect("it is right");
    let labels = |graph: &Graph| -> Vec<Option<String>> {
        let labels = graph.operations().map(|(id, _)| graph.label(id));
        labels
            .map(|label| label.map(|label| label.to_string()))
            .collect()
    };
    let expected = [None, Some("forward"), Some("optimizer"), Some("forward")];
    let expected = expected.into_iter().chain([None, None]);
    let expected: Vec<Option<String>> = expected.map(|it| it.map(str::to_owned)).collect();
    assert_eq!(labels(&graph), expected);
    let mut text = Vec::new();
    write_text(&graph, &mut text).expect("it is right");
    let text = String::from_utf8(text).expect("it is right");
    assert_eq!(
        labels(&parse_text(&text).expect("it is right")),
        expected,
        "{text}"
    );
    // A binary file has no place for them.
    let again = read_binary(&mut Cursor::new(binary(&graph))).expect("it is right");
    assert!(again == graph && labels(&again).iter().all(Option::is_none));
}

#[test]
fn a_binary_file_has_the_layout_of_loggopsim() {
    let text =
        "num_ranks 1\nrank 0 {\nl1: calc 5 cpu 1\nl2: send 8b to 0 tag 7\nl2 requires l1\n}\n";
    let mut expected = Vec::new();
    expected.extend(4223u64.to_le_bytes());
    expected.extend(1u32.to_le_bytes());
    expected.extend([1, 0]);
    // Counted from byte 8: the rest of the head, 6, and the table, 16.
    expected.extend(22u64.to_le_bytes());
    expected.extend((22u64 + 8 + 4 + 2 * 39 + 4).to_le_bytes());
    for word in [2u32, 1, 0] {
        expected.extend(word.to_le_bytes());
    }
    let mut node = |waits: u32,
                    kind: u8,
                    peer: u32,
                    amount: u64,
                    tag: u32,
                    processor: u8,
                    after: u32,
                    first: u32| {
        expected.extend(waits.to_le_bytes());
        expected.push(kind);
        expected.extend(peer.to_le_bytes());
        expected.extend(amount.to_le_bytes());
        expected.extend(tag.to_le_bytes());
        expected.extend([processor, 0]);
        for word in [after, first, 0, 1] {
            expected.extend(word.to_le_bytes());
        }
    };
    node(0, 3, 0, 5, 0, 1, 1, 0);
    node(1, 1, 0, 8, 7, 0, 0, 1);
    expected.extend(1u32.to_le_bytes());
    assert_eq!(binary(&parse_text(text).expect("it is right")), expected);
}

#[test]
fn a_binary_file_is_read_again() {
    let graph = parse_text(SAMPLE).expect("it is right");
    let bytes = binary(&graph);
    assert_eq!(
        read_binary(&mut Cursor::new(bytes)).expect("it is right"),
        graph
    );
}

#[test]
fn a_binary_file_cut_off_or_changed_anywhere_is_refused_or_read_but_never_panics() {
    let bytes = binary(&parse_text(SAMPLE).expect("it is right"));
    for length in 0..bytes.len() {
        let cut = read_binary(&mut Cursor::new(&bytes[..length]));
        assert!(cut.is_err(), "{length} bytes of {}", bytes.len());
    }
    for place in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[place] = value;
            if let Err(error) = read_binary(&mut Cursor::new(changed)) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_binary_file_is_said() {
    let bytes = binary(&parse_text(SAMPLE).expect("it is right"));
    let told = |bytes: &[u8]| {
        read_binary(&mut Cursor::new(bytes))
            .expect_err("it is wrong")
            .to_string()
    };
    let mut spoiled = bytes.clone();
    spoiled[..8].copy_from_slice(&2342u64.to_le_bytes());
    assert!(told(&spoiled).contains("has used this file up"));
    // Behind the head, a table of three ranks, two counts and one root: what operation 0 waits for.
    let mut miscounted = bytes.clone();
    miscounted[14 + 3 * 16 + 8 + 4] = 5;
    let count = "rank 0: operation 0 waits for 5 others by itself, and for 0 by theirs";
    assert_eq!(told(&miscounted), count);
    assert!(told(b"num_ranks 2\nrank").starts_with("no binary GOAL file"));
    assert!(told(&bytes[..bytes.len() - 1]).starts_with("rank 2: the file ends in this rank"));
}

#[test]
fn ranks_of_a_binary_file_have_parts_of_their_own() {
    let text = format!(
        "num_ranks 9\nrank 0 {{\n{}}}\n{}",
        "calc 1\n".repeat(9),
        (1..9)
            .map(|rank| format!("rank {rank} {{\n}}\n"))
            .collect::<String>()
    );
    let mut bytes = binary(&parse_text(&text).expect("it is right"));
    let first: Vec<u8> = bytes[14..30].to_vec();
    for rank in 1..9 {
        bytes[14 + 16 * rank..][..16].copy_from_slice(&first);
    }
    let error = read_binary(&mut Cursor::new(&bytes))
        .expect_err("it is wrong")
        .to_string();
    assert!(error.contains("the parts of its ranks have"), "{error}");
}

#[test]
fn what_is_wrong_with_a_text_is_said_with_its_line_and_rank() {
    let rank = |body: &str| format!("num_ranks 2\nrank 0 {{\n{body}\n}}\nrank 1 {{\n}}\n");
    for (text, told) in [
        (String::new(), "line 1: the file ends before `num_ranks`"),
        (
            "ranks 2\n".to_owned(),
            "line 1: the first statement is `num_ranks N`, not `ranks`",
        ),
        (
            "num_ranks 0\n".to_owned(),
            "line 1: there is at least one rank",
        ),
        (
            "num_ranks 2\nrank 1 {\n}\n".to_owned(),
            "line 2: ranks stand in order: expected rank 0, found rank 1",
        ),
        (
            "num_ranks 2\nrank 0 {\n}\n".to_owned(),
            "line 3: the file ends before rank 1: num_ranks says that there are 2",
        ),
        (
            "num_ranks 1\nrank 0 {\ncalc 1\n".to_owned(),
            "line 3: rank 0: the file ends in this rank: `}` is missing",
        ),
        (
            rank("send 8 to 1"),
            "line 3: rank 0: bytes are a whole number with `b`, as in `8b`, not `8`",
        ),
        (
            rank("send 8b to 2"),
            "line 3: rank 0: there is no rank 2: ranks are 0 to 1",
        ),
        (
            rank("send 8b to -1"),
            "line 3: rank 0: the rank of a send is a number: only a receive takes any",
        ),
        (
            rank("recv 8b to 1"),
            "line 3: rank 0: expected `from`, not `to`",
        ),
        (
            rank("calc 5 nic 1"),
            "line 3: rank 0: expected `cpu N`, not `nic`",
        ),
        (
            rank("calc 5 cpu 256"),
            "line 3: rank 0: the processor is a whole number of 0 to 255, not `256`",
        ),
        (
            rank("l1: calc 5\nl1: calc 6"),
            "line 4: rank 0: rank 0 has the label `l1` already",
        ),
        (
            rank("l1: calc 5\nl1 requires l2"),
            "line 4: rank 0: no operation of rank 0 before this line has the label `l2`",
        ),
        (
            rank("l1: calc 5\nl1 requires l1"),
            "line 4: rank 0: it waits for itself",
        ),
        (
            rank("copy 5"),
            "line 3: rank 0: expected `send`, `recv`, `calc`, `LABEL requires LABEL` or `}`, not `copy`",
        ),
        (
            rank("calc 5 calc 6"),
            "line 3: rank 0: expected `cpu N`, not `calc`",
        ),
    ] {
        assert_eq!(
            parse_text(&text).expect_err("it is wrong").to_string(),
            told,
            "{text}"
        );
    }
}

#[test]
fn operations_that_wait_for_each_other_are_named() {
    let text = "num_ranks 2\nrank 0 {\n}\nrank 1 {\nl0: calc 1\nl1: calc 1\nl2: calc 1\nl3: calc 1\n\
                l1 requires l3\nl2 irequires l1\nl3 requires l2\nl1 requires l0\n}\n";
    let ring = cycle(&parse_text(text).expect("it is right")).expect("it is right");
    let mut lines: Vec<_> = ring.iter().map(|name| (name.rank, name.line)).collect();
    lines.sort_unstable();
    assert_eq!(lines, [(1, Some(6)), (1, Some(7)), (1, Some(8))]);
}

#[test]
fn what_cannot_match_is_named() {
    let text = "num_ranks 2\nrank 0 {\nsend 8b to 1\nsend 8b to 1 tag 4\n}\nrank 1 {\n\
                recv 9b from 0\nrecv 8b from 0 tag 5\n}\n";
    let faults = check(&parse_text(text).expect("it is right"));
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "sends or receives without a partner: 2\n  rank 0, line 4: send 8b to 1 with tag 4\n  \
             rank 1, line 8: recv 8b from 0 with tag 5",
            "a send and its receive differ in size: 1\n  rank 0, line 3: send 8b to 1\n  \
             rank 1, line 7: recv 9b from 0",
        ]
    );
    // Rank 0 waits for rank 1 in vain. Rank 1 may take whatever is there, and wants more.
    let faults = check(&parse_text(SAMPLE).expect("it is right"));
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "sends or receives without a partner: 1\n  rank 0, line 10: recv 8b from 1 with tag 7",
            "ranks that receive more or fewer messages than are sent to them: 1\n  \
             rank 1: messages 1, receives 2",
        ]
    );
}

#[test]
fn ranks_that_wait_for_each_other_are_named() {
    // Each receives before it sends.
    let half = |peer: u32, bytes: u32| {
        format!("l1: recv {bytes}b from {peer}\nl2: send {bytes}b to {peer}\n")
    };
    let both = |first: &str, second: &str| {
        let text = format!("num_ranks 2\nrank 0 {{\n{first}}}\nrank 1 {{\n{second}}}\n");
        let faults = check(&parse_text(&text).expect("it is right"));
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let in_turn = "l2 requires l1\n";
    let waits = |peer| half(peer, 8) + in_turn;
    assert_eq!(
        both(&waits(1), &waits(0)),
        [
            "4 operations never ended\n  receives that no message came for: 2\n    \
          rank 0, line 3: recv 8b from 1\n    rank 1, line 8: recv 8b from 0\n  \
          who waits for whom:\n    \
          rank 0, line 3: recv 8b from 1: waits for rank 1 to send it\n    \
          rank 1, line 8: recv 8b from 0: waits for rank 0 to send it\n    \
          and so round in a ring"
        ]
    );
    assert_eq!(both(&waits(1), &half(0, 8)), [""; 0]);
    // Sends that both wait for their receives end where they are eager.
    let long = |peer| half(peer, 1 << 30) + "l1 requires l2\n";
    assert_eq!(both(&long(1), &long(0)), [""; 0]);
}
