//! What programs see.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use viaduct_turns::{RunError, SOCKET_VARIABLE};

use crate::run::{each_time, library, once, program};

/// What one host prints alone, without the last line's end.
fn alone(words: &[&str]) -> String {
    let printed = each_time(&program("host"), &[words]);
    printed[0].trim_end().to_owned()
}

#[test]
fn clocks_show_what_was_slept_and_what_calls_cost() {
    // A call of the system costs 200 ns, a reading of a clock 25.
    let wanted = "start 25\n\
                  nanosleep 1725\n\
                  usleep, sleep 2000007425\n\
                  until 1000000000\n\
                  day 1577836803.000009 1577836803\n\
                  resolution 1\n\
                  processor 3000009\n\
                  used 3.000009\n\
                  name host0 host0";
    assert_eq!(alone(&["clocks"]), wanted);
}

#[test]
fn the_counter_is_a_nanosecond_a_tick_whatever_is_computed() {
    let wanted = "reads 10 processor 0\n\
                  a millisecond 1000210\n\
                  computing 10\n\
                  clock less counter 25\n\
                  20 ms 19999710";
    assert_eq!(alone(&["counter"]), wanted);
}

#[test]
fn what_programs_print_goes_elsewhere_whole() {
    const HOSTS: usize = 6;
    const LINES: usize = 3_000;
    let program = program("host");
    for _ in 0..5 {
        let (kept, reading) = mpsc::channel();
        let words: [&[&str]; HOSTS] = [&["lines", "3000"]; HOSTS];
        let (result, ended) = once(&program, &words, |coordinator| {
            coordinator.set_outputs(move |host, would| {
                let pipe = || -> io::Result<OwnedFd> {
                    let (mut from, to) = io::pipe()?;
                    let read = thread::spawn(move || {
                        let mut text = String::new();
                        from.read_to_string(&mut text).map(|_| text)
                    });
                    kept.send((host, read)).unwrap();
                    Ok(to.into())
                };
                let elsewhere = [pipe()?, pipe()?];
                // Where it would write is whoever's it was.
                for to in would {
                    std::fs::File::from(to).write_all(b"would\n")?;
                }
                Ok(elsewhere)
            });
        });
        result.unwrap();
        assert_eq!(ended, vec![(true, "would\nwould\n".to_owned()); HOSTS]);
        let mut printed: Vec<(u32, String)> = reading
            .into_iter()
            .map(|(host, read)| (host, read.join().unwrap().unwrap()))
            .collect();
        // Of one host the output came before the errors.
        printed.sort_by_key(|(host, _)| *host);
        let printed: Vec<String> = printed.into_iter().map(|(_, text)| text).collect();
        let lines =
            |what: &str| -> String { (0..LINES).map(|line| format!("{what} {line}\n")).collect() };
        for host in printed.chunks(2) {
            assert_eq!(host, [lines("line") + "child, 3 words\n", lines("error")]);
        }
    }
}

#[test]
fn numbers_that_ucx_makes_are_the_same_in_each_run_and_all_differ() {
    let hosts: [&[&str]; 3] = [&["numbers", "child"], &["numbers"], &["numbers"]];
    let printed = each_time(&program("host"), &hosts);
    let numbers: BTreeSet<&str> = printed.iter().flat_map(|text| text.lines()).collect();
    assert_eq!(numbers.len(), 7 + 3 + 3, "{printed:?}");
    // Elsewhere they are drawn.
    let drawn = || {
        let mut command = Command::new(program("host"));
        let command = command.arg("numbers").env("LD_PRELOAD", library());
        let output = command.output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn random_numbers_are_the_same_in_each_run_and_all_differ() {
    let hosts: [&[&str]; 3] = [&["draws", "child"], &["draws"], &["draws"]];
    let printed = each_time(&program("host"), &hosts);
    let lines: Vec<&str> = printed.iter().flat_map(|text| text.lines()).collect();
    assert!(lines.len() >= 5 * 3, "{printed:?}");
    let numbers: BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!(numbers.len(), lines.len(), "{printed:?}");
    // Elsewhere they are the system's.
    let drawn = || {
        let mut command = Command::new(program("host"));
        let command = command.arg("draws").env("LD_PRELOAD", library());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn faults_of_a_program_are_its_own() {
    assert_eq!(alone(&["fault"]), "reads 10\nfault 11");
}

#[test]
fn hosts_talk_over_sockets_at_the_same_times_in_each_run() {
    for (server, port) in [("server", "5001"), ("server6", "5002")] {
        let hosts: [&[&str]; 2] = [&[server, port], &["client", "host0", port]];
        let printed = each_time(&program("host"), &hosts);
        let prefix = if server == "server6" { "::ffff:" } else { "" };
        // A ping is read when it was sent, 10 us after the pong before it; the clock is read.
        let mut at = 225;
        let mut pings = format!("accepted at 225\npeer {prefix}127.77.0.2\n");
        let mut pongs = "connected at 225\npeer 127.77.0.1\n".to_owned();
        for number in 0..5 {
            at += 200 + 10_000 + 200;
            pings += &format!("ping {number} at {}\n", at + 25);
            at += 25 + 200 + 3000 + 200;
            pongs += &format!("pong {number} at {}\n", at + 25);
            at += 25;
        }
        pings += &format!("end at {}\n", at + 200 + 50_000 + 25);
        assert_eq!(printed, [pings, pongs], "{server}");
    }
}

#[test]
fn a_host_that_will_listen_is_waited_for() {
    let hosts: [&[&str]; 2] = [&["client", "host1", "5006"], &["late", "5006"]];
    let printed = each_time(&program("host"), &hosts);
    assert!(
        printed[0].starts_with("connected at 500225\npeer 127.77.0.2\n"),
        "{}",
        printed[0]
    );
}

#[test]
fn more_than_buffers_hold_goes_over_a_socket() {
    let hosts: [&[&str]; 2] = [&["sink", "5003"], &["source", "host0", "5003"]];
    let printed = each_time(&program("host"), &hosts);
    assert_eq!(printed, ["all at 0\n", "answered at 0\n"]);
}

#[test]
fn hosts_use_one_port_each() {
    let hosts: [&[&str]; 4] = [
        &["server", "5004"],
        &["server", "5004"],
        &["client", "host1", "5004"],
        &["client", "host0", "5004"],
    ];
    let printed = each_time(&program("host"), &hosts);
    assert!(printed[0].contains("peer 127.77.0.4"), "{}", printed[0]);
    assert!(printed[1].contains("peer 127.77.0.3"), "{}", printed[1]);
}

/// Each on hosts of other addresses, which [`once`] shows as the usual ones.
#[test]
fn runs_at_the_same_time_do_not_meet() {
    let program = program("host");
    let both = Barrier::new(2);
    let run = || {
        let hosts: [&[&str]; 2] = [&["server", "5007"], &["client", "host0", "5007"]];
        let (result, ended) = once(&program, &hosts, |_| {
            both.wait();
        });
        assert!(ended.iter().all(|(well, _)| *well), "{result:?} {ended:?}");
        for (peer, (_, printed)) in ["127.77.0.2", "127.77.0.1"].iter().zip(&ended) {
            let peer = format!("peer {peer}\n");
            assert!(printed.contains(&peer), "no {peer}in {printed}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(run);
        run();
    });
}

#[test]
fn waits_on_many_descriptors_and_for_children() {
    let wanted = "poll 3000225\n\
                  ppoll 2725\n\
                  select 500225\n\
                  epoll 4000225\n\
                  child's first 20400\n\
                  child's second 40800\n\
                  child's end 61000\n\
                  a million 1";
    assert_eq!(alone(&["waits"]), wanted);
}

#[test]
fn waits_for_signals() {
    // A child's 20 us and its calls; a time that is up with the call and a clock read.
    let wanted = "suspended 20200\n\
                  waited 20400\n\
                  in vain 3225\n\
                  paused 20400\n\
                  a shell 1";
    assert_eq!(alone(&["signals"]), wanted);
}

#[test]
fn timers_are_due_at_their_times_and_end_waits() {
    // From the clock read before a timer is set, which is a call of the system, to that behind it.
    let wanted = "paused 3000000225\n\
                  slept 3000000, rest 17000225\n\
                  polled 1999975\n\
                  selected 1999975\n\
                  alarms until 3000000\n\
                  signal 5225\n\
                  signal 9225\n\
                  called 8425\n\
                  read 20225\n\
                  again 70225\n\
                  until 1000000000";
    assert_eq!(alone(&["timers"]), wanted);
}

#[test]
fn what_ran_ahead_is_seen_at_its_time() {
    let wanted = "closed 4025\ncounted 8225\nheard 12025\nended 16025";
    assert_eq!(alone(&["ahead"]), wanted);
}

#[test]
fn programs_start_others() {
    let printed = alone(&["programs"]);
    for line in [
        "spawned, 3 words",
        "spawned took 10425",
        "not replaced 10",
        "replaced, 9 words",
        "first, 3 words",
        "second, 3 words",
        "shell took 1",
    ] {
        assert!(printed.contains(line), "no `{line}` in\n{printed}");
    }
}

#[test]
fn other_libraries_find_the_state() {
    assert_eq!(alone(&["symbol"]), "table 1");
}

#[test]
fn time_stands_while_something_outside_can_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let service = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        thread::sleep(Duration::from_millis(300));
        peer.write_all(b"y").unwrap();
    });
    let (result, ended) = once(&program("host"), &[&["outside", &port]], |_| {});
    service.join().unwrap();
    result.unwrap();
    assert_eq!(ended, [(true, "answer y at 425\n".to_owned())]);
}

/// Who looks without waiting, by each kind of call, finds what those outside only begin to do when
/// they are asked.
#[test]
fn who_looks_at_once_finds_what_those_outside_have_yet_to_do() {
    let program = program("outside");
    let folder = tempfile::tempdir().unwrap();
    let [questions, answers] = ["questions", "answers"].map(|name| folder.path().join(name));
    let made = Command::new("mkfifo").args([&questions, &answers]).status();
    assert!(made.unwrap().success());
    let mut outside = Command::new(&program);
    outside.arg("answers").args([&questions, &answers]);
    let mut outside = outside.spawn().unwrap();
    let words = [
        "asks",
        questions.to_str().unwrap(),
        answers.to_str().unwrap(),
    ];
    let (result, ended) = once(&program, &[&words], |coordinator| {
        coordinator.heed_outside(outside.id());
    });
    // It ends when nobody can ask any more.
    assert!(outside.wait().unwrap().success());
    assert_eq!(result.unwrap().notices, Vec::<String>::new());
    assert_eq!(ended, [(true, "read 1\npoll 1\nwait 1\n".to_owned())]);
}

#[test]
fn who_waits_in_vain_is_named_with_the_call() {
    let hosts: [&[&str]; 2] = [&["server", "5005"], &["server", "5005"]];
    let (result, _) = once(&program("host"), &hosts, |coordinator| {
        coordinator.set_patience(Duration::from_millis(50));
    });
    let error = result.unwrap_err();
    assert!(matches!(error, RunError::Stuck(_)));
    let text = error.to_string();
    assert!(
        text.contains("on host 0 is in accept since 0.200 us"),
        "{text}"
    );
    assert!(
        text.contains("on host 1 is in accept since 0.200 us"),
        "{text}"
    );
    // A host that nobody listens on refuses after a second, which nobody has to wait for.
    let begin = Instant::now();
    let (result, ended) = once(&program("host"), &[&["client", "host0", "5005"]], |_| {});
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(result.unwrap().time, 1_000_000_200_000);
    assert!(
        !ended[0].0 && ended[0].1.contains("Connection refused"),
        "{ended:?}"
    );
}

#[test]
fn programs_outside_of_a_simulation_see_everything_as_it_is() {
    assert_eq!(alone(&["names"]), "name host0\nclock 1577836800000000025");
    let real = |role: &str| {
        let mut command = Command::new(program("host"));
        let output = command
            .arg(role)
            .env("LD_PRELOAD", library())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = real("names");
    assert!(
        !printed.contains("name host0") && !printed.contains("clock 15778368"),
        "{printed}"
    );
    assert_eq!(real("symbol"), "table 0\n");
}

#[test]
fn a_program_that_cannot_take_part_says_why() {
    let mut command = Command::new(program("host"));
    command.arg("clocks").env("LD_PRELOAD", library());
    command
        .env(SOCKET_VARIABLE, "/nowhere/s")
        .env("PMI_RANK", "1");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("VIADUCT_SIMULATION=/nowhere/s: "), "{text}");
    command.env("PMI_RANK", "first");
    let text = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(text.contains("PMI_RANK is first, not a number"), "{text}");
}
