//! `viaduct goal`: files checked, converted and replayed.

use std::path::Path;
use std::process::{Command, Output};

use crate::critical_path::EXCHANGE;
use crate::support::Folder;

fn goal(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
    command.arg("goal").args(arguments).current_dir(folder);
    command.output().expect("the command runs")
}

fn told(output: &Output) -> (Option<i32>, String) {
    let bytes = [&*output.stdout, &*output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&bytes).into_owned(),
    )
}

#[test]
fn a_file_is_the_same_in_both_forms() {
    let folder = tempfile::tempdir().expect("it is right");
    let text =
        "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 3\n}\nrank 1 {\nl1: recv 8b from 0 tag 3\n}\n";
    std::fs::write(folder.path().join("a.goal"), text).expect("it is right");
    for arguments in [
        ["to-binary", "a.goal", "a.bin"],
        ["to-text", "a.bin", "b.goal"],
    ] {
        assert_eq!(
            told(&goal(folder.path(), &arguments)),
            (Some(0), String::new())
        );
    }
    assert_eq!(
        std::fs::read_to_string(folder.path().join("b.goal")).expect("it is right"),
        text
    );
    let replayed =
        [["replay", "a.goal"], ["replay", "a.bin"]].map(|it| told(&goal(folder.path(), &it)));
    assert_eq!(replayed[0], replayed[1]);
    assert_eq!(replayed[0].1, "end            5.542 us\nmessages       1\n");
}

#[test]
fn a_bad_file_is_told_its_place() {
    let folder = tempfile::tempdir().expect("it is right");
    for (text, word, code, place) in [
        (
            "num_ranks 2\nrank 0 {\nsend 8 to 1\n",
            "check",
            1,
            "line 3: rank 0: bytes are",
        ),
        (
            "num_ranks 1\nrank 0 {\nsend 8b to 0\n}\n",
            "check",
            1,
            "rank 0, line 3: send 8b to 0",
        ),
        (
            "num_ranks 2\nrank 0 {\nsend 8b to 1\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from -1\n}\n",
            "check",
            1,
            "than are sent to them: 1\n  rank 1: messages 2, receives 1",
        ),
        (
            "num_ranks 1\nrank 0 {\nsend 8b to 0\n}\n",
            "replay",
            2,
            "rank 0, line 3: send 8b to 0",
        ),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n",
            "replay",
            2,
            "in a ring:\n    rank 0, line 3: calc 1\n    rank 0, line 4: calc 1",
        ),
    ] {
        std::fs::write(folder.path().join("a.goal"), text).expect("it is right");
        let (exit, said) = told(&goal(folder.path(), &[word, "a.goal"]));
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains(place), "{said}");
    }
    let (exit, said) = told(&goal(folder.path(), &["info", "none.goal"]));
    assert!(
        exit == Some(1) && said.contains("cannot read `none.goal`"),
        "{said}"
    );
}

#[test]
fn a_run_says_when_each_of_its_jobs_has_ended() {
    let job = |first: u32, nanoseconds: u32| {
        let second = first + 1;
        format!(
            "rank {first} {{\nl1: calc {nanoseconds}\nl2: send 8b to {second}\nl2 requires l1\n}}\n\
             rank {second} {{\nrecv 8b from {first}\n}}\n"
        )
    };
    let study = |jobs: &str, ranks: u32| {
        format!(
            "[network]\ntopology = \"switch\"\nhosts = 5\n[links]\nrate = \"1 Gbit/s\"\n[traffic]\n\
             arrivals = \"goal\"\nfile = \"x.goal\"\n[files]\n\"x.goal\" = \"\"\"\n\
             num_ranks {ranks}\n{jobs}\"\"\"\n"
        )
    };
    let run = |jobs: &str, ranks: u32, arguments: &[&str]| {
        let folder = Folder::with("study.toml", &study(jobs, ranks));
        let run = ["run", "study.toml", "--no-out"];
        let (code, said) = told(&folder.run(&[&run, arguments].concat()));
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let object_with = |jobs: &str, ranks: u32, arguments: &[&str]| -> serde_json::Value {
        let said = run(jobs, ranks, &[&["--json"], arguments].concat());
        // Warnings stand behind it.
        let mut objects = serde_json::Deserializer::from_str(&said).into_iter();
        let summary: serde_json::Value = objects.next().expect("one").expect("it is right");
        summary["application"].clone()
    };
    let object = |jobs: &str, ranks: u32| object_with(jobs, ranks, &[]);
    let (short, long) = (object(&job(0, 1_000), 2), object(&job(0, 50_000), 2));
    assert!(short["jobs"].is_null(), "{short}");
    // A rank that only computes is of no job.
    let alone = "rank 4 {\ncalc 90000\n}\n";
    let both = format!("{}{}{alone}", job(0, 1_000), job(2, 50_000));
    let told = object(&both, 5);
    let expected = serde_json::json!([
        { "first_rank": 0, "ranks": 2, "makespan_us": short["makespan_us"] },
        { "first_rank": 2, "ranks": 2, "makespan_us": long["makespan_us"] },
    ]);
    assert_eq!(told["jobs"], expected);
    assert_eq!(told["makespan_us"], 90.0);
    let table = run(&both, 5, &[]);
    assert!(table.contains("job of rank 2, 2 ranks, us"), "{table}");

    // Where some have not ended, nobody knows how long they take. Computations under way do end.
    let cut = ["--set", "run.until=20 us"];
    let told = object_with(&both, 5, &cut);
    assert_eq!(
        (&told["operations_ended"], &told["operations"]),
        (&5.into(), &7.into())
    );
    assert!(
        told["makespan_us"].is_null() && told["jobs"].is_null(),
        "{told}"
    );
    let table = run(&both, 5, &cut);
    let row = table
        .lines()
        .find(|line| line.contains("all operations, us"));
    assert_eq!(
        row.map(|row| row.split_whitespace().last()),
        Some(Some("-")),
        "{table}"
    );
}

#[test]
fn a_study_is_checked_as_its_file_is() {
    let check = |file: &str| {
        let folder = Folder::with("study.toml", EXCHANGE);
        let study = std::fs::read_to_string(folder.join("study.toml")).expect("it is there");
        let study = study.replace("recv 8b from 0 tag 7", file);
        std::fs::write(folder.join("study.toml"), study).expect("it is right");
        told(&folder.run(&["check", "study.toml"]))
    };
    let (code, said) = check("recv 8b from 0 tag 7");
    assert_eq!(code, Some(0), "{said}");
    for (file, fault, place) in [
        (
            "recv 9b from 0 tag 7",
            "differ in size: 1",
            "rank 1, line 10: recv 9b",
        ),
        (
            "recv 8b from 0 tag 8",
            "without a partner: 2",
            "rank 1, line 10: recv 8b",
        ),
    ] {
        let (code, said) = check(file);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("error: `exchange.goal`: "), "{said}");
        assert!(said.contains(fault) && said.contains(place), "{said}");
    }
}

#[test]
fn a_collective_takes_what_its_file_does() {
    let folder = tempfile::tempdir().expect("it is right");
    let collective = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
        command.args([
            "collective",
            "all-reduce",
            "--ranks",
            "8",
            "--bytes",
            "1 KiB",
        ]);
        told(
            &command
                .args(more)
                .current_dir(folder.path())
                .output()
                .expect("the command runs"),
        )
    };
    // 14 (2 o + L + 127 G) = 87.668 us.
    let (code, text) = collective(&[]);
    assert_eq!(code, Some(0), "{text}");
    let lines = [
        "algorithm      ring",
        "time           87.668 us",
        "messages       112",
        "a rank sends   1,792 B",
        "bytes / time   0.0117 GB/s",
        "bus bandwidth  0.0204 GB/s, as NCCL's tests count it",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    for file in ["ring.goal", "ring.bin"] {
        assert_eq!(collective(&["--goal", file]), (Some(0), String::new()));
        let replayed = told(&goal(folder.path(), &["replay", file])).1;
        assert!(replayed.contains("end            87.668 us"), "{replayed}");
    }
}

#[test]
fn files_side_by_side_are_jobs_that_know_nothing_of_each_other() {
    let folder = tempfile::tempdir().expect("it is right");
    let one = "num_ranks 2\nrank 0 {\nfirst: calc 1500\nl2: send 8b to 1\nl2 requires first\n}\n\
               rank 1 {\nrecv 8b from -1\n}\n";
    std::fs::write(folder.path().join("one.goal"), one).expect("it is right");
    let other = one.replace("1500", "9000");
    std::fs::write(folder.path().join("other.goal"), other).expect("it is right");
    let said = told(&goal(
        folder.path(),
        &["join", "one.goal", "other.goal", "--to", "both.goal"],
    ));
    let ranks = "ranks 0 to 1: one.goal\nranks 2 to 3: other.goal\n";
    assert_eq!(said, (Some(0), ranks.to_owned()));
    let ends = |file: &str| {
        let text = told(&goal(folder.path(), &["replay", file, "--ranks"])).1;
        let ranks = text.lines().filter(|line| line.starts_with("rank "));
        let ends = ranks.map(|line| line.split_whitespace().skip(2).collect::<String>());
        ends.collect::<Vec<_>>()
    };
    let apart = [ends("one.goal"), ends("other.goal")].concat();
    assert_eq!(ends("both.goal"), apart);
    assert_ne!(apart[1], apart[3]);
    let text = std::fs::read_to_string(folder.path().join("both.goal")).expect("it is right");
    assert!(text.contains("// other: first\n"), "{text}");
    assert!(text.contains("send 8b to 3\n"), "{text}");
}
