//! What is tested, each by a run or more.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use viaduct_turns::{
    Coordinator, HOST_VARIABLE, Outcome, Process, RunError, SOCKET_VARIABLE, Thread, World,
};

use crate::runs::{RUNS, Run, inherited, itself, pipe, times, well, well_each_time, words};
use crate::world::{Clock, US};

pub(crate) type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[
    (
        "calls_are_taken_in_order_of_time_then_host",
        calls_are_taken_in_order,
    ),
    (
        "a_call_that_waits_is_answered_at_its_time",
        a_call_that_waits_is_answered,
    ),
    (
        "posts_reach_the_world_at_their_own_times",
        posts_reach_the_world,
    ),
    (
        "who_looks_at_memory_goes_on_at_the_time_of_the_write",
        a_look_at_memory,
    ),
    (
        "what_a_post_starts_is_seen_before_what_follows_it",
        what_a_post_starts,
    ),
    (
        "a_reader_goes_on_at_the_time_of_the_write",
        a_reader_goes_on,
    ),
    (
        "a_descriptor_of_the_world_is_read_at_its_time",
        a_descriptor_of_the_world,
    ),
    (
        "a_run_ends_when_its_last_client_does",
        a_run_ends_with_its_clients,
    ),
    (
        "a_wait_on_what_is_real_has_a_deadline",
        a_wait_has_a_deadline,
    ),
    ("time_stands_while_a_wait_can_end", time_stands),
    (
        "who_asks_the_world_for_long_has_others_try_again_less_often",
        who_asks_the_world_for_long,
    ),
    (
        "who_waits_at_a_descriptor_is_asked_when_it_has_something",
        who_waits_at_a_descriptor,
    ),
    (
        "time_stands_until_those_outside_have_answered",
        those_outside_are_heeded,
    ),
    ("who_is_alone_needs_no_turn", who_is_alone_needs_no_turn),
    (
        "who_reads_clocks_for_long_gives_the_turn_ever_less_often",
        who_reads_clocks,
    ),
    ("threads_run_one_at_a_time", threads_run_one_at_a_time),
    (
        "a_thread_that_nobody_announced_is_one_too",
        a_thread_that_nobody_announced,
    ),
    (
        "a_client_killed_with_the_turn_hangs_nobody",
        a_killed_client,
    ),
    (
        "a_client_that_writes_nonsense_is_killed_alone",
        a_lying_client,
    ),
    (
        "clients_of_a_host_that_dies_are_ended_then",
        clients_of_a_host_that_dies,
    ),
    ("forked_and_replaced_programs_are_clients", forked_programs),
    ("waits_that_nothing_ends_are_named", waits_that_nothing_ends),
    ("who_holds_up_the_others_is_named", who_holds_up_the_others),
    (
        "those_a_run_begins_with_are_not_waited_for_forever",
        those_a_run_begins_with,
    ),
    ("a_run_can_be_stopped", a_run_can_be_stopped),
    ("clients_end_with_their_coordinator", clients_end),
];

fn calls_are_taken_in_order() {
    let (lines, ended) = well_each_time(|| {
        vec![
            ("steps", words(&["130", "30"])),
            ("steps", words(&["30", "60"])),
            ("steps", words(&["130", "30"])),
        ]
    });
    assert_eq!(lines.len(), 30 + 60 + 30 + 3);
    assert!(times(&lines).is_sorted());
    // Host 0 and host 2 do the same at the same times.
    let of = |host: &str| -> Vec<usize> {
        let found = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains(host));
        found.map(|(at, _)| at).collect()
    };
    let pairs = of("host 0 ").into_iter().zip(of("host 2 "));
    assert!(pairs.clone().all(|(first, second)| first < second));
    assert_eq!(pairs.count(), 31);
    // A turn to begin with, and one behind each call.
    assert_eq!((ended.processes, ended.turns), (3, 123));
    assert_eq!(ended.time, 30 * 200);
}

fn a_call_that_waits_is_answered() {
    let (lines, _) = well_each_time(|| {
        vec![
            ("waits", words(&[])),
            ("steps", words(&["930", "10"])),
            ("waits", words(&[])),
        ]
    });
    assert!(times(&lines).is_sorted());
    let gave_up = |line: &&String| line.starts_with("5300 ") && line.ends_with("gave up");
    assert_eq!(lines.iter().filter(gave_up).count(), 2);
}

fn posts_reach_the_world() {
    let (lines, _) = well_each_time(|| {
        vec![
            ("posts", words(&["1000", "9000"])),
            ("posts", words(&["2500", "1000"])),
        ]
    });
    assert!(times(&lines).is_sorted());
    assert_eq!(
        lines.iter().filter(|line| line.ends_with("posted")).count(),
        10_000
    );
    assert!(lines[0].starts_with("1000 host 0") && lines[2].starts_with("2500 host 1"));
}

fn a_look_at_memory() {
    for others in 0..2 {
        let mut clients: Vec<(&str, &[&str])> = vec![("looks", &[])];
        if others > 0 {
            clients.push(("steps", &["71930", "300"]));
        }
        for _ in 0..RUNS {
            let (lines, _) = well(&clients);
            let wanted = "7000000 host 0 process 0 thread 0: saw it";
            assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
        }
    }
}

fn what_a_post_starts() {
    let (lines, _) = well_each_time(|| {
        let (from, to) = pipe();
        vec![
            ("wakes", vec![inherited(to)]),
            ("woken", vec![inherited(from)]),
        ]
    });
    let wanted = "100000000 host 1 process 1 thread 0: read None Some(7)";
    assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
}

fn a_reader_goes_on() {
    for others in 0..2 {
        let (lines, _) = well_each_time(|| {
            let (from, to) = pipe();
            let mut clients = vec![
                ("reads", vec![inherited(from), "3".to_owned()]),
                ("writes", vec![inherited(to)]),
            ];
            if others > 0 {
                clients.push(("steps", words(&["71930", "300"])));
            }
            clients
        });
        let read: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains(": read"))
            .collect();
        assert_eq!(read.len(), 3);
        for (number, line) in read.into_iter().enumerate() {
            let at = (number as u64 + 1) * 5 * US;
            let wanted = format!("{at} host 0 process 0 thread 0: read Some({number})");
            assert_eq!(*line, wanted);
        }
    }
}

fn a_descriptor_of_the_world() {
    // The other does nothing between that could have anybody look.
    let (lines, _) = well_each_time(|| {
        vec![
            ("rings", Vec::new()),
            ("posts", vec!["0".to_owned(), "0".to_owned()]),
        ]
    });
    let wanted = "7000000 host 0 process 0 thread 0: heard it";
    assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
}

fn a_run_ends_with_its_clients() {
    let (_, ended) = well(&[("leaves", &[])]);
    assert_eq!(ended.time, US);
}

fn a_wait_has_a_deadline() {
    let (lines, _) = well_each_time(|| {
        let (from, to) = pipe();
        std::mem::forget(to);
        vec![
            ("deadline", vec![inherited(from)]),
            ("steps", words(&["930000", "20"])),
        ]
    });
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("7000000 ") && line.ends_with("in vain"))
    );
    assert!(times(&lines).is_sorted());
}

fn who_asks_the_world_for_long() {
    let (from, to) = pipe();
    let (from, to) = (inherited(from), inherited(to));
    let (lines, ended) = well(&[("reads", &[&from, "2"]), ("mutters", &[&to])]);
    let read = |byte| {
        let text = format!("host 0 process 0 thread 0: read Some({byte})");
        let line = lines.iter().find(|line| line.ends_with(&text)).unwrap();
        line.split(' ').next().unwrap().parse::<u64>().unwrap() / US
    };
    assert!((1001..1033).contains(&read(0)), "{lines:#?}");
    // The end of a process is seen, at the time of its last call.
    assert_eq!(read(1), 1999);
    assert!(ended.turns < 2300, "{}", ended.turns);
}

fn time_stands() {
    let (from, to) = pipe();
    let from = inherited(from);
    let run = Run::new(&[("outside", &[&from]), ("waits", &[])]);
    let writer = std::thread::spawn(move || {
        // Longer than the others take: the wait is the last thing that is left.
        std::thread::sleep(Duration::from_millis(300));
        std::fs::File::from(to).write_all(&[9]).unwrap();
    });
    let (clock, result, ended) = run.result();
    writer.join().unwrap();
    assert!(ended.iter().all(|(code, _)| *code == Some(0)), "{ended:?}");
    assert_eq!(result.unwrap().time, 5300);
    assert!(
        clock
            .lines
            .iter()
            .any(|line| line.ends_with("read Some(9)")),
        "{:?}",
        clock.lines
    );
}

fn who_waits_at_a_descriptor() {
    let (lines, ended) = well_each_time(|| {
        let (from, to) = pipe();
        vec![
            ("reads", vec![inherited(from), "1".to_owned()]),
            ("sleeps", vec![inherited(to)]),
        ]
    });
    let wanted = "1000000000 host 0 process 0 thread 0: read Some(3)";
    assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
    // Those of the other, and few of its own.
    assert!((1000..1020).contains(&ended.turns), "{}", ended.turns);
}

/// Somebody answers who is no client and takes some time over it, while another client would go on.
fn those_outside_are_heeded() {
    for _ in 0..3 {
        let (question, to) = pipe();
        let (from, answer) = pipe();
        let (to, from) = (inherited(to), inherited(from));
        let script = "while read line; do i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done; \
                      echo; done";
        // SAFETY: the descriptor is ours.
        let is_set = unsafe { libc::fcntl(question.as_raw_fd(), libc::F_SETFL, 0) };
        assert_eq!(is_set, 0);
        let mut outsider = Command::new("sh");
        outsider.args(["-c", script]).stdin(question).stdout(answer);
        let outsider = Outsider(outsider.spawn().unwrap());
        let alone = ["asks_once", &to, &from];
        // Who looks once has not told anything, or has not given the turn since it has.
        let runs: [(&[&[&str]], _); 3] = [
            (
                &[&["asks", &to, &from], &["sleeps"]],
                "host 0 process 0 thread 0: read",
            ),
            (&[&alone], "host 0 process 0 thread 0: looked"),
            (
                &[&["asks_once", &to], &["asks_once", "-", &from]],
                "host 1 process 1 thread 0: looked",
            ),
        ];
        for (programs, said) in runs {
            let programs: Vec<_> = programs.iter().map(|it| (it[0], &it[1..])).collect();
            let mut run = Run::new(&programs);
            run.coordinator.heed_outside(outsider.0.id());
            let (clock, result, ended) = run.result();
            assert!(ended.iter().all(|(code, _)| *code == Some(0)), "{ended:?}");
            assert_eq!(result.unwrap().notices, Vec::<String>::new());
            for round in 1..=3 {
                let at = round * US;
                let wanted = format!("{at} {said} Some(10)");
                let is_there = clock.lines.contains(&wanted);
                assert!(is_there, "{wanted}: {:#?}", clock.lines);
            }
        }
    }
}

/// Ends with the test, however that ends.
struct Outsider(Child);

impl Drop for Outsider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn who_is_alone_needs_no_turn() {
    let (_, ended) = well(&[("sleeps", &[])]);
    assert_eq!((ended.time, ended.turns), (1000 * US, 2));
}

/// Each 10 us at first, and then when a hundredth of the time has gone.
fn who_reads_clocks() {
    let turns = |us| {
        let (lines, ended) = well(&[("clocks", &[us]), ("clocks", &[us])]);
        assert_eq!(ended.time, us.parse::<u64>().unwrap() * US);
        assert!(
            lines.iter().any(|line| line.ends_with("read")),
            "{lines:#?}"
        );
        ended.turns
    };
    let (short, long) = (turns("1000"), turns("100000"));
    assert!((90..120).contains(&short) && long < 1000, "{short} {long}");
}

fn threads_run_one_at_a_time() {
    // Alone, too: a thread that is made is somebody else.
    let (lines, _) = well_each_time(|| vec![("threads", vec![])]);
    assert!(
        times(&lines).is_sorted() && lines[0].contains("thread 1: awake"),
        "{lines:#?}"
    );
    let (lines, _) = well_each_time(|| vec![("threads", vec![]), ("threads", vec![])]);
    assert!(times(&lines).is_sorted());
    for host in ["host 0", "host 1"] {
        for thread in ["thread 1: awake", "thread 2: awake", "thread 3: awake"] {
            let is_of = |line: &&String| line.contains(host) && line.ends_with(thread);
            assert_eq!(lines.iter().filter(is_of).count(), 4, "{lines:#?}");
        }
    }
}

fn a_thread_that_nobody_announced() {
    let (lines, _) = well(&[("unknown", &[])]);
    let text: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    assert_eq!(text, ["unknown", "joined", "gone"]);
}

fn a_killed_client() {
    for _ in 0..RUNS {
        let run = Run::new(&[("steps", &["9930", "900"]), ("dies", &[]), ("waits", &[])]);
        let (clock, result, ended) = run.result();
        let codes: Vec<Option<i32>> = ended.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [Some(0), None, Some(0)], "{ended:?}");
        assert_eq!(result.unwrap().time, 9 * US);
        let dead = clock.lines.iter().filter(|line| line.contains("host 1"));
        let dead: Vec<&str> = dead.map(String::as_str).collect();
        // It slept for 2 us and had been charged with a third. What it posted had gone out.
        let wanted = [
            "3000000 host 1 process 1 thread 0: last words",
            "3000000 host 1 process 1: gone",
        ];
        assert_eq!(dead, wanted);
        assert!(times(&clock.lines).is_sorted());
    }
}

fn a_lying_client() {
    let run = Run::new(&[("steps", &["9930", "900"]), ("lies", &[])]);
    let (clock, result, ended) = run.result();
    assert_eq!((ended[0].0, ended[1].0), (Some(0), None), "{ended:?}");
    let notices = result.unwrap().notices;
    assert!(
        notices.len() == 1 && notices[0].contains("on host 1 was killed"),
        "{notices:?}"
    );
    assert_eq!(clock.lines.len(), 900 + 2);
}

fn clients_of_a_host_that_dies() {
    for _ in 0..RUNS {
        // One waits for ever, and one asks all the time, until 9 us; another is not concerned.
        let run = Run::new(&[
            ("steps", &["9930", "900"]),
            ("never", &[]),
            ("steps", &["930", "9000"]),
        ]);
        let clock = Clock::with_deaths([(3 * US, 1), (5 * US, 2)]);
        let (clock, result, ended) = run.result_with(clock);
        let codes: Vec<Option<i32>> = ended.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [Some(0), None, None], "{ended:?}");
        let result = result.unwrap();
        assert_eq!(result.time, 9 * US);
        let remarks = [
            "host1 died at 3.000 us: its programs were ended",
            "host2 died at 5.000 us: its programs were ended",
        ];
        assert_eq!(result.remarks, remarks);
        assert_eq!(result.notices, Vec::<String>::new());
        let last = |host: &str| {
            clock
                .lines
                .iter()
                .rfind(|line| line.contains(host))
                .cloned()
        };
        let gone = "3000000 host 1 process 1: gone";
        assert_eq!(last("host 1").as_deref(), Some(gone));
        let gone = "5000000 host 2 process 2: gone";
        assert_eq!(last("host 2").as_deref(), Some(gone));
        assert!(times(&clock.lines).is_sorted());
    }
}

fn forked_programs() {
    let (lines, ended) = well_each_time(|| vec![("forks", vec![]), ("steps", words(&["10", "9"]))]);
    assert_eq!(ended.processes, 4);
    let first: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|x| x.1)
        .collect();
    let place = |text: &str| first.iter().position(|line| *line == text).unwrap();
    assert!(place("parent") < place("child") && place("child") < place("replaced"));
    assert!(place("replaced") < place("waited"));
    let wanted = "5000000 host 0 process 3 thread 0: replaced";
    assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
}

fn waits_that_nothing_ends() {
    let run = Run::new(&[("steps", &["930", "3"]), ("never", &[])]);
    let (_, result, _) = run.result();
    let error = result.unwrap_err();
    let RunError::Stuck(waiting) = &error else {
        panic!("{error}");
    };
    assert_eq!(waiting.len(), 1);
    let text = error.to_string();
    assert!(
        text.contains("on host 1 is in never since 1.000 us"),
        "{text}"
    );
    // What is real may still come, for as long as the caller waits.
    let (from, to) = pipe();
    std::mem::forget(to);
    let mut run = Run::new(&[("outside", &[&inherited(from)])]);
    run.coordinator.set_patience(Duration::from_millis(50));
    let (_, result, _) = run.result();
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("on host 0 is in read since 0.000 us"),
        "{text}"
    );
}

fn who_holds_up_the_others() {
    let (from, to) = pipe();
    // SAFETY: the descriptor is ours.
    let is_set = unsafe { libc::fcntl(from.as_raw_fd(), libc::F_SETFL, 0) };
    assert_eq!(is_set, 0);
    let from = inherited(from);
    let mut run = Run::new(&[("sleeps", &[]), ("blocks", &[&from])]);
    run.coordinator.set_patience(Duration::from_millis(50));
    let (_, result, _) = run.result();
    let error = result.unwrap_err();
    assert!(matches!(error, RunError::Blocked(_)), "{error}");
    let text = error.to_string();
    let wanted = "on host 1 is in read since 1.000 us of simulated time, and holds up the others";
    assert!(text.contains(wanted), "{text}");
    drop(to);
}

fn those_a_run_begins_with() {
    let mut run = Run::new(&[("steps", &["10", "1"]), ("steps", &["10", "1"])]);
    run.coordinator.expect_clients(3);
    run.coordinator.set_patience(Duration::from_millis(50));
    let (_, result, _) = run.result();
    // One of them may have been slow.
    assert!(matches!(result, Err(RunError::Missing(..=2))), "{result:?}");
}

fn a_run_can_be_stopped() {
    let (from, to) = pipe();
    let run = Run::new(&[("outside", &[&inherited(from)])]);
    let stopper = run.coordinator.stopper();
    let other = std::thread::spawn(move || stopper.stop());
    let (_, result, _) = run.result();
    other.join().unwrap();
    assert!(matches!(result, Err(RunError::Stopped)), "{result:?}");
    drop(to);
}

/// The coordinator is another process here, so that it can be killed.
fn clients_end() {
    let (from, to) = pipe();
    let mut coordinator = itself("coordinates", &[&inherited(from)]);
    let coordinator = coordinator.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut coordinator = coordinator.spawn().unwrap();
    let mut begun = [0];
    coordinator
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut begun)
        .unwrap();
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    // Which the client has, too, for as long as it lives.
    let mut text = String::new();
    coordinator
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("has ended before this program"), "{text}");
    drop(to);
}

/// The other process: says when its client waits.
pub(crate) fn coordinate(descriptor: &str) {
    struct Told(Clock);
    impl World for Told {
        fn next_event(&self) -> Option<u64> {
            self.0.next_event()
        }
        fn advance(&mut self, until: u64) -> u64 {
            self.0.advance(until)
        }
        fn call(
            &mut self,
            thread: Thread,
            now: u64,
            request: &[u8],
            answer: &mut Vec<u8>,
        ) -> Outcome {
            print!(".");
            std::io::stdout().flush().unwrap();
            self.0.call(thread, now, request, answer)
        }
        fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)> {
            self.0.ready()
        }
        fn gone(&mut self, process: Process, now: u64) {
            self.0.gone(process, now);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut coordinator = Coordinator::bind(&path, 1).unwrap();
    let mut client = itself("outside", &[descriptor]);
    let client = client.env(SOCKET_VARIABLE, &path).env(HOST_VARIABLE, "0");
    coordinator.expect_process(client.stdout(Stdio::null()).spawn().unwrap().id());
    let _ = coordinator.run(&mut Told(Clock::default()));
}
