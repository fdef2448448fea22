//! Graphs of operations on hosts whose interfaces have endpoints.

use std::fs;
use std::ops::ControlFlow;

use viaduct_cluster::record::{Recording, Selection, Used, record};
use viaduct_cluster::result::{ApplicationResult, Ended, RunResult};
use viaduct_cluster::why::{Account, Choice, Doing, Fate, Step, Work, critical_path, explain};
use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_scenario::{Override, Study, load_endpoints, load_endpoints_in, parse_study_with};

const HEAD: &str = "\
[network]
topology = \"switch\"
hosts = 4
[links]
rate = \"1280 Mbit/s\"
[hosts]
nic = \"am-myrinet\"
";

fn study(traffic: &str, set: &[&str]) -> Study {
    study_of(&format!("[traffic]\n{traffic}"), set)
}

/// Of tables, of which `[traffic]` is one.
fn study_of(tables: &str, set: &[&str]) -> Study {
    let overrides: Vec<Override> = set.iter().map(|text| Override::fixed(*text)).collect();
    let text = format!("{HEAD}{tables}");
    parse_study_with(&text, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// What is told of a study that cannot be.
fn refused(traffic: &str, set: &[&str]) -> String {
    let overrides: Vec<Override> = set.iter().map(|text| Override::fixed(*text)).collect();
    let text = format!("{HEAD}[traffic]\n{traffic}");
    parse_study_with(&text, &overrides)
        .expect_err("refused")
        .to_string()
}

/// Drawn traffic.
const DRAWN: &str = "pattern = \"uniform\"\nsize = \"64 B\"\nrate = \"100/s\"\n";

fn goal(ranks: &[&str]) -> String {
    let mut text = format!(
        "arrivals = \"goal\"\nfile = \"x.goal\"\n[files]\n\"x.goal\" = '''\nnum_ranks {}\n",
        ranks.len()
    );
    for (rank, operations) in ranks.iter().enumerate() {
        text += &format!("rank {rank} {{\n{operations}\n}}\n");
    }
    text + "'''\n"
}

fn run(study: &Study) -> RunResult {
    viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The result of a run that did all of it.
fn done(study: &Study) -> ApplicationResult {
    let result = run(study);
    assert_eq!(result.violations, [] as [String; 0]);
    let messages = result.messages;
    assert_eq!(
        (messages.posted, result.ended),
        (messages.delivered, Ended::Finished)
    );
    let application = result.application.unwrap();
    assert_eq!(application.ended, application.operations);
    application
}

fn makespan_us(traffic: &str, set: &[&str]) -> f64 {
    done(&study(traffic, set)).makespan.microseconds_f64()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    let off = (found - expected).abs();
    assert!(
        off <= expected.abs() * 1e-3 + 1e-3,
        "{found} and not {expected}"
    );
}

#[test]
fn a_message_takes_what_a_request_of_the_interface_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    let one = goal(&["send 0b to 1", "recv 0b from 0"]);
    fs::write(&path, format!("{HEAD}[traffic]\n{one}")).unwrap();
    for model in ["am-myrinet", "gam-myrinet"] {
        let nic = format!("hosts.nic={model}");
        let config = load_endpoints_in(model, path.to_str().unwrap(), 2).unwrap();
        let logp = viaduct_lanai::measure(&config);
        assert_near(makespan_us(&one, &[&nic]), logp.round_trip_us / 2.0);
        // Asked for first: the reply is the answer.
        let long = one.replace("0b", "20000b");
        let eager = makespan_us(&long, &[&nic, "traffic.eager=20000 B"]);
        let asked = makespan_us(&long, &[&nic, "traffic.eager=19999 B"]);
        // A reply that says which message is shorter than one of LogP's, by two words.
        let more = asked - eager - logp.round_trip_us;
        assert!(
            (-1.0..1.0).contains(&more),
            "{asked} {eager} {}",
            logp.round_trip_us
        );
    }
    // One that was taken before its receive is copied: 20,000 bytes at 100 MB/s.
    let late = goal(&[
        "send 20000b to 1\nsend 8b to 1 tag 2",
        "l1: recv 8b from 0 tag 2\nl2: recv 20000b from 0\nl2 requires l1",
    ]);
    let free = makespan_us(&late, &["traffic.eager=1 MiB"]);
    let copied = makespan_us(
        &late,
        &["traffic.eager=1 MiB", "traffic.copy_rate=100 MB/s"],
    );
    assert_near(copied - free, 200.0);
    // One whose receive is there is not.
    let awaited = goal(&["send 20000b to 1", "recv 20000b from 0"]);
    let free = makespan_us(&awaited, &["traffic.eager=1 MiB"]);
    let copied = makespan_us(
        &awaited,
        &["traffic.eager=1 MiB", "traffic.copy_rate=100 MB/s"],
    );
    assert_near(copied, free);
}

#[test]
fn a_rank_takes_no_message_before_its_interface_has_written_it() {
    for model in ["am-myrinet", "gam-myrinet"] {
        let nic = format!("hosts.nic={model}");
        // When the last rank has what follows the short message of another.
        let told_us = |nanoseconds: u32, long: &str| {
            let short = format!("c: calc {nanoseconds}\ns: send 0b to 1\ns requires c");
            let relays = "a: recv 2000b from 0\nr: recv 0b from 2\ns: send 0b to 3\ns requires r";
            let relays = match long {
                "" => &relays[relays.find("r:").unwrap()..],
                _ => relays,
            };
            let all = goal(&[long, relays, &short, "recv 0b from 1"]);
            done(&study(&all, &[&nic])).ranks[3].span.microseconds_f64()
        };
        let alone = told_us(0, "");
        // One that looks anyway is spared half a look. No long message that has been written while
        // the short one is makes that come earlier.
        let host = load_endpoints(model, 2).unwrap().host;
        let look = host.poll_frame.max(host.poll_host).microseconds_f64();
        for nanoseconds in (0..200_000).step_by(200) {
            let took = told_us(nanoseconds, "send 2000b to 1") - f64::from(nanoseconds) / 1e3;
            assert!(
                took >= alone - look - 1e-6,
                "{model} {nanoseconds}: {took} {alone}"
            );
        }
    }
}

#[test]
fn what_is_free_begins_in_the_order_sends_receives_computations() {
    let both = goal(&[
        "calc 1000000\nsend 0b to 1",
        "r: recv 0b from 0\nc: calc 1000000\nc requires r",
    ]);
    let took = makespan_us(&both, &[]);
    assert!((1_000.0..1_100.0).contains(&took), "{took}");
    // None of what would begin later than traffic stops begins.
    let late = goal(&["a: calc 2000000\nb: calc 3000000\nb requires a", "calc 1"]);
    let result = run(&study(&late, &["traffic.stop=1 ms"]));
    let application = result.application.unwrap();
    assert_eq!((application.ended, application.operations), (2, 3));
    assert_near(application.makespan.microseconds_f64(), 2_000.0);
}

#[test]
fn nothing_is_sent_again_where_nothing_is_lost() {
    // The first between two hosts, and long ones that wait for the bus of their sender.
    let ten = |bytes: u64| {
        let sends = format!("send {bytes}b to 1\n").repeat(10);
        let receives = format!("recv {bytes}b from 0\n").repeat(10);
        goal(&[&sends, &receives])
    };
    for bytes in [0, 8_192, 60_000] {
        let study = study(&ten(bytes), &["traffic.eager=1 MiB"]);
        done(&study);
        let counts = run(&study).interfaces.unwrap();
        assert_eq!((counts.retransmissions, counts.refusals), (0, 0), "{bytes}");
    }
}

#[test]
fn messages_that_overtake_each_other_on_lossy_links_are_matched_in_order() {
    let lines = |what: &str| -> String {
        let bytes = |number: u32| 8 + number * 977 % 12_000;
        let lines = (0..200).map(|number| format!("{what} {}b {{}}", bytes(number)));
        lines.collect::<Vec<String>>().join("\n")
    };
    let graph = goal(&[
        &lines("send").replace("{}", "to 1"),
        &lines("recv").replace("{}", "from 0"),
    ]);
    let lossy = "[[fault]]\nkind = \"loss\"\nrate = \"5 %\"\n";
    let study = study_of(
        &format!("{lossy}[traffic]\n{graph}"),
        &["traffic.eager=8 KiB"],
    );
    // Sizes that differ between a send and its receive would be told.
    done(&study);
    assert!(run(&study).interfaces.unwrap().retransmissions > 20);
}

#[test]
fn no_more_requests_are_outstanding_than_a_queue_holds() {
    let hundred = ["send 0b to 1"; 100].join("\n");
    let received = ["recv 0b from 0"; 100].join("\n");
    let busy = goal(&[&hundred, &format!("calc 10000000\n{received}")]);
    for model in ["am-myrinet", "gam-myrinet"] {
        let study = study(&busy, &[&format!("hosts.nic={model}")]);
        done(&study);
        assert_eq!(run(&study).interfaces.unwrap().refusals, 0, "{model}");
    }
}

#[test]
fn collectives_and_programs_run_on_every_interface_and_as_long_each_time() {
    let collectives = [
        "collective = \"all-reduce\"\nalgorithm = \"ring\"",
        "collective = \"all-reduce\"\nalgorithm = \"recursive-doubling\"",
        "collective = \"all-to-all\"",
        "collective = \"broadcast\"",
        "collective = \"barrier\"",
        "program = \"nas-cg\"\nclass = \"S\"\niterations = 1\noperations_per_second = 30e6",
        "program = \"nas-is\"\nclass = \"S\"\niterations = 1\noperations_per_second = 30e6",
    ];
    for model in ["am-myrinet", "gam-myrinet"] {
        for level in ["", "links.model=max-min", "links.model=fluid"] {
            let nic = format!("hosts.nic={model}");
            let set: Vec<&str> = [&*nic, level]
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect();
            for traffic in collectives {
                let study = study(traffic, &set);
                let (first, second) = (run(&study), run(&study));
                done(&study);
                assert_eq!(first.digest, second.digest, "{model} {traffic}");
                let again = Study::from_resolved(&study.resolved_toml()).unwrap();
                assert_eq!(
                    run(&again).digest,
                    first.digest,
                    "{model} {level} {traffic}"
                );
                let path = critical_path(&study.config, &mut |_, _| ControlFlow::Continue(()));
                let path = path.unwrap();
                // Among them is whether the steps add up to the makespan.
                assert_eq!(
                    path.violations,
                    [] as [String; 0],
                    "{model} {level} {traffic}"
                );
                let mut reached = path.start;
                for step in &path.steps {
                    assert_eq!(step.begin, reached, "{model} {traffic}: {step:?}");
                    reached = step.end;
                }
            }
        }
    }
}

#[test]
fn ranks_of_a_host_have_processors_and_a_link_of_their_own_unless_they_share_its_one() {
    let two = goal(&["calc 1000000", "calc 1000000"]);
    let own = makespan_us(&two, &["hosts.processes=2"]);
    assert_near(own, 1_000.0);
    // The one runs to the end of its turn, then the other, and each switch takes its time.
    let shared = makespan_us(&two, &["hosts.processes=2", "hosts.processors=1"]);
    assert_near(shared, 2_050.0);
    // 8,000 bytes at 80 MB/s and 5 us, to the rank itself and to the one beside it.
    let local = [
        "hosts.processes=2",
        "hosts.local_rate=80 MB/s",
        "hosts.local_latency=5 us",
    ];
    let itself = goal(&["send 8000b to 0\nrecv 8000b from 0", "calc 1"]);
    assert_near(makespan_us(&itself, &local), 105.0);
    let beside = goal(&["send 8000b to 1", "recv 8000b from 0"]);
    assert_near(makespan_us(&beside, &local), 105.0);
    let application = done(&study(&beside, &local));
    assert_eq!(application.local_messages, 1);
    // The link sends one after the other, and a send ends when it has been sent.
    let twice = goal(&[
        "send 8000b to 1\nsend 8000b to 1",
        "recv 8000b from 0\nrecv 8000b from 0",
    ]);
    assert_near(makespan_us(&twice, &local), 205.0);
    let then = goal(&[
        "s: send 8000b to 1\nc: calc 1000000\nc requires s",
        "recv 8000b from 0",
    ]);
    assert_near(makespan_us(&then, &local), 1_100.0);
    // A second processor computes beside the first.
    let both = goal(&["calc 1000000\ncalc 700000 cpu 1"]);
    assert_near(makespan_us(&both, &[]), 1_000.0);
    assert_near(makespan_us(&both, &["hosts.processors=1"]), 1_700.0);
    let others = goal(&["calc 1000000 cpu 1\ncalc 700000 cpu 2"]);
    assert_near(makespan_us(&others, &[]), 1_000.0);
}

#[test]
fn turns_are_as_the_scheduler_says() {
    let two = goal(&["calc 40000000", "calc 40000000"]);
    let shared = ["hosts.processes=2", "hosts.processors=1"];
    let took = |more: &[&str]| makespan_us(&two, &[&shared[..], more].concat());
    // A first turn of any length, then of 10 ms each: 8 or 9 in all.
    let switches = (took(&[]) - 80_000.0) / 50.0;
    assert!(
        [7.0, 8.0, 9.0]
            .iter()
            .any(|it| (switches - it).abs() < 0.01),
        "{switches}"
    );
    let free = took(&["hosts.scheduler.switch=0 s"]);
    assert_near(free, 80_000.0);
    let long = took(&["hosts.scheduler.quantum=100 ms"]);
    assert!((80_049.0..80_101.0).contains(&long), "{long}");
}

#[test]
fn both_ends_of_a_long_message_register_it() {
    let one = goal(&["send 80000b to 1", "recv 80000b from 0"]);
    let each = [
        "traffic.registration=each",
        "hosts.model.memory.register=16 us",
    ];
    let each = [&each[..], &["hosts.model.memory.register_rate=infinite"]].concat();
    let more = makespan_us(&one, &each) - makespan_us(&one, &[]);
    // The receiver answers with a request of its own and not with the reply.
    assert!((32.0..60.0).contains(&more), "{more}");
}

#[test]
fn all_that_the_processor_of_a_slow_host_does_takes_longer() {
    // Twice as slow as what is twenty times as slow: nothing of it overlaps with the interface.
    let more_us = |graph: &str, host: u32, set: &[&str]| {
        let took = |factor: u32| {
            let fault = format!("kind = \"slow-host\"\nhost = {host}\nfactor = {factor}\n");
            let traffic = format!("[[fault]]\n{fault}[traffic]\n{graph}");
            let set = [&["hosts.nic=gam-myrinet"][..], set].concat();
            done(&study_of(&traffic, &set)).makespan.microseconds_f64()
        };
        (took(40) - took(20)) / 20.0
    };
    let (send, receive, look) = (2.9, 2.9, 0.5);
    let one = goal(&["send 0b to 1", "recv 0b from 0"]);
    assert_near(more_us(&one, 0, &[]), send);
    assert_near(more_us(&one, 1, &[]), receive + look / 2.0);
    // What was taken is answered before anything else is posted.
    let back = goal(&[
        "send 0b to 1\nrecv 0b from 1",
        "r: recv 0b from 0\ns: send 0b to 0\ns requires r",
    ]);
    assert_near(more_us(&back, 1, &[]), receive + look / 2.0 + send + send);
    let computes = goal(&["calc 1000000\ncalc 3000000 cpu 1", "calc 1"]);
    assert_near(more_us(&computes, 0, &[]), 3_000.0);
    assert_near(more_us(&computes, 0, &["hosts.processors=1"]), 4_000.0);
    // 20,000 bytes at 100 MB/s.
    let late = goal(&[
        "send 20000b to 1\nsend 8b to 1 tag 2",
        "l1: recv 8b from 0 tag 2\nl2: recv 20000b from 0\nl2 requires l1",
    ]);
    let eager = "traffic.eager=1 MiB";
    let copied = more_us(&late, 1, &[eager, "traffic.copy_rate=100 MB/s"]);
    assert_near(copied - more_us(&late, 1, &[eager]), 200.0);
    // So long for each message that is taken, and longer on a processor that is slow.
    let each = |faults: &str| {
        let traffic = format!("{faults}[traffic]\n{one}");
        let study = study_of(&traffic, &["hosts.nic=gam-myrinet"]);
        done(&study).makespan.microseconds_f64()
    };
    let slow = "[[fault]]\nkind = \"slow-host\"\nhost = 1\n";
    let per_message = format!("{slow}per_message = \"100 us\"\n");
    let twice = format!("{slow}factor = 2\n");
    assert_near(each(&per_message) - each(""), 100.0);
    assert_near(each(&(twice.clone() + &per_message)) - each(&twice), 200.0);
}

#[test]
fn what_a_slow_host_takes_to_post_is_no_time_of_the_network() {
    let one = goal(&["send 0b to 1", "recv 0b from 0"]);
    let stages = |faults: &str| {
        let study = study_of(&format!("{faults}[traffic]\n{one}"), &[]);
        let path = critical_path(&study.config, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let [
            Step {
                doing: Doing::Message { stages, .. },
                ..
            },
        ] = &path.steps[..]
        else {
            panic!("one message: {:?}", path.steps);
        };
        [Stage::Post, Stage::Network, Stage::Reap].map(|of| {
            let found = stages.iter().find(|(stage, _)| *stage == of);
            found.map_or(0.0, |(_, time)| time.microseconds_f64())
        })
    };
    let usual = stages("");
    assert_near(usual[0], 2.9);
    let slow = stages("[[fault]]\nkind = \"slow-host\"\nhost = 0\nfactor = 20\n");
    assert_near(slow[0], 58.0);
    assert_near(slow[1], usual[1]);
    assert_near(slow[2], usual[2]);
}

#[test]
fn what_waits_for_what_never_comes_is_named() {
    let result = run(&study(&goal(&["recv 8b from 1", "recv 8b from 0"]), &[]));
    assert_eq!(result.ended, Ended::Stalled);
    let told = result.violations.join(" ");
    assert!(told.contains("came to a stop"), "{told}");
    // Ranks that look for ever on one processor stop, too.
    let set = [
        "hosts.processes=2",
        "hosts.processors=1",
        "hosts.scheduler.wait=spin",
    ];
    let local = ["hosts.local_rate=80 MB/s"];
    let set = [&set[..], &local].concat();
    let result = run(&study(&goal(&["recv 8b from 1", "recv 8b from 0"]), &set));
    assert_eq!(result.ended, Ended::Stalled);
    assert!(result.simulated < Time::from_milliseconds(200_000));
    // Sends that nobody takes.
    let result = run(&study(&goal(&["send 8b to 1", "calc 1"]), &[]));
    assert_eq!(result.violations.len(), 1, "{:?}", result.violations);
}

#[test]
fn endpoints_take_frames_in_turns_where_there_are_more_of_them() {
    let traffic = "program = \"nas-cg\"\nclass = \"S\"\niterations = 2\ncopies = 4\n\
                   operations_per_second = 30e6";
    let set = [
        "hosts.processes=4",
        "hosts.processors=1",
        "hosts.model.host.remap_period=0 s",
    ];
    let remaps = |frames: &str| {
        let result = run(&study(traffic, &[&set[..], &[frames]].concat()));
        assert_eq!(result.violations, [] as [String; 0]);
        result.interfaces.unwrap().remaps
    };
    // Each of 16 endpoints is moved in once before it begins, and no more.
    assert_eq!(remaps("hosts.model.endpoints.frames=8"), 16);
    assert!(remaps("hosts.model.endpoints.frames=2") > 16);
}

#[test]
fn latencies_are_those_of_requests_from_post_to_taking() {
    let one = goal(&["send 0b to 1", "recv 0b from 0"]);
    for model in ["am-myrinet", "gam-myrinet"] {
        let study = study(&one, &[&format!("hosts.nic={model}")]);
        let result = run(&study);
        let latency = result.latency.unwrap();
        assert_eq!(latency.count, 1);
        let makespan = result.application.unwrap().makespan;
        assert_near(latency.mean_us.mean, makespan.microseconds_f64());
        let shares = result.breakdown.iter().map(|share| share.mean_us);
        assert_near(shares.sum(), latency.mean_us.mean);
        // It waits for nothing but links and looks.
        let beyond = latency.min_us - latency.floor_us;
        assert!((0.2..1.5).contains(&beyond), "{model}: {latency:?}");
    }
    let long = goal(&["send 60000b to 1", "recv 60000b from 0"]);
    let study = study(&long, &[]);
    let result = run(&study);
    let latency = result.latency.unwrap();
    assert_eq!(latency.count, result.messages.delivered);
    assert!(latency.min_us >= latency.floor_us, "{latency:?}");
}

/// All requests of a run.
fn recorded(study: &Study) -> Recording {
    let all = Selection {
        from: Time::ZERO,
        every: 1,
        count: u64::MAX,
    };
    record(&study.config, all, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The account of one, and its number.
fn explained(study: &Study, choice: Choice, of: &RunResult) -> (u64, Account) {
    let control = &mut |_, _| ControlFlow::Continue(());
    let explanation = explain(&study.config, choice, control).unwrap();
    assert_eq!(explanation.violations, [] as [String; 0]);
    assert_eq!(explanation.digest, of.digest);
    assert_eq!(explanation.messages_posted, of.messages.posted);
    assert_eq!(explanation.messages_measured, of.messages.delivered);
    match explanation.fate {
        Fate::Delivered(account) => (explanation.message.number, *account),
        other => panic!("{choice:?}: {other:?}"),
    }
}

/// Requests of one piece and of several, of each role, over links that packets hold or share, that
/// are lost and sent again, or wait until their endpoint is in a frame.
fn studies_of_requests() -> Vec<Study> {
    let sizes = [0, 8, 3_000, 20_000];
    let lines = |what: &str| -> String {
        let line = |number: usize| {
            format!("{what} tag {number}").replace("{}", &sizes[number % 4].to_string())
        };
        Vec::from_iter((0..24).map(line)).join("\n")
    };
    let graph = goal(&[&lines("send {}b to 1"), &lines("recv {}b from 0")]);
    let graph = format!("[traffic]\neager = \"4 KiB\"\n{graph}");
    let lossy = format!("[[fault]]\nkind = \"loss\"\nrate = \"5 %\"\n{graph}");
    let all = "[traffic]\ncollective = \"all-to-all\"\nbytes = \"40 KB\"\n";
    let copies = "[traffic]\nprogram = \"nas-cg\"\nclass = \"S\"\niterations = 1\ncopies = 4\n\
                  operations_per_second = 30e6\n";
    vec![
        study_of(&graph, &[]),
        study_of(&graph, &["hosts.nic=gam-myrinet"]),
        study_of(&lossy, &[]),
        study_of(all, &[]),
        study_of(all, &["links.model=packets"]),
        study_of(all, &["links.model=max-min"]),
        study_of(
            copies,
            &[
                "hosts.processes=4",
                "hosts.processors=1",
                "hosts.model.host.remap_period=0 s",
                "hosts.model.endpoints.frames=2",
            ],
        ),
    ]
}

#[test]
fn the_stages_of_each_request_add_up_to_its_latency() {
    for (number, study) in studies_of_requests().iter().enumerate() {
        let result = run(study);
        let recording = recorded(study);
        let messages = &recording.messages;
        assert_eq!(messages.len() as u64, result.messages.delivered);
        assert_eq!(recording.under_way, 0);
        let mut sum = 0;
        for (place, message) in messages.iter().enumerate() {
            assert_eq!(message.message.number, place as u64);
            let latency = (message.ended - message.posted).picoseconds();
            let stages: u64 = message.stages.unwrap().iter().sum();
            assert_eq!(stages, latency, "study {number}: {message:?}");
            sum += latency;
        }
        let mean_us = sum as f64 * 1e-6 / messages.len() as f64;
        assert_near(result.latency.unwrap().mean_us.mean, mean_us);
        assert!(messages.is_sorted_by_key(|message| message.posted));
    }
}

#[test]
fn a_request_uses_its_processors_its_interface_and_its_links() {
    for study in studies_of_requests() {
        let recording = recorded(&study);
        assert!(recording.uses.is_sorted_by_key(|used| used.end));
        for message in &recording.messages {
            let uses = recording.uses.iter();
            let mut own =
                Vec::from_iter(uses.filter(|used| used.message == message.message.number));
            own.sort_by_key(|used| (used.begin, used.work));
            let of = |work| Vec::from_iter(own.iter().filter(|used| used.work == work));
            let (posts, takes) = (of(Work::Post), of(Work::Take));
            let (reads, moves) = (of(Work::Descriptor), of(Work::Move));
            // Two links lead over the switch.
            assert_eq!(
                [posts.len(), reads.len(), moves.len(), takes.len()],
                [1, 1, 2, 1]
            );
            let hosts = message.message.hosts(study.config.hosts.processes);
            assert_eq!(posts[0].used, Used::Processor(hosts.0, 0));
            assert_eq!(reads[0].used, Used::Adapter(hosts.0));
            assert_eq!(takes[0].used, Used::Processor(hosts.1, 0));
            let topology = &study.config.topology;
            let links = [topology.host_up(hosts.0), topology.host_down(hosts.1)];
            assert_eq!([moves[0].used, moves[1].used], links.map(Used::Link));
            // One after the other.
            assert_eq!(posts[0].begin, message.posted);
            assert!(posts[0].end <= reads[0].begin);
            assert_eq!(reads[0].end, moves[0].begin);
            assert!(moves[0].begin < moves[0].end && moves[0].end < takes[0].begin);
            assert_eq!(takes[0].end, message.ended);
        }
    }
}

#[test]
fn a_request_is_explained_to_the_last_picosecond() {
    for study in studies_of_requests() {
        let result = run(&study);
        let messages = recorded(&study).messages;
        let latency = |number: u64| {
            let message = &messages[number as usize];
            message.ended - message.posted
        };
        let slowest = (0..messages.len() as u64).map(latency).max().unwrap();
        let (_, account) = explained(&study, Choice::Slowest, &result);
        assert_eq!(account.latency, slowest);
        for share in [0.0, 0.4, 0.9, 1.0] {
            let mut sorted = Vec::from_iter((0..messages.len() as u64).map(latency));
            sorted.sort();
            let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
            let (_, account) = explained(&study, Choice::Quantile(share), &result);
            assert_eq!(account.latency, sorted[rank - 1]);
        }
        let last = messages.len() as u64 - 1;
        for asked in [0, 1, 2, 3, 5, last / 2, last] {
            let (number, account) = explained(&study, Choice::Message(asked), &result);
            assert_eq!((number, account.latency), (asked, latency(asked)));
            let sum = |of: fn(&viaduct_cluster::why::StageTime) -> Time| -> u64 {
                account.stages.iter().map(|it| of(it).picoseconds()).sum()
            };
            assert_eq!(sum(|it| it.time), account.latency.picoseconds());
            assert_eq!(sum(|it| it.alone), account.floor.picoseconds());
            for it in &account.stages {
                assert!(it.alone <= it.time, "{asked}: {it:?}");
            }
        }
    }
    // One that nothing holds up takes what it takes alone, but for half a look of its receiver,
    // and a wait of its interface.
    let study = study(&goal(&["send 3000b to 1", "recv 3000b from 0"]), &[]);
    let (_, account) = explained(&study, Choice::Slowest, &run(&study));
    for it in &account.stages {
        match it.stage {
            Stage::ReceiverProcessor | Stage::Receive => {
                assert!(it.time - it.alone < Time::from_microseconds(1), "{it:?}");
            }
            _ => assert_eq!(it.time, it.alone, "{it:?}"),
        }
    }
}

#[test]
fn requests_that_nobody_takes_are_told_as_lost_or_under_way() {
    let ring = "collective = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = \"100 KB\"";
    let fault = "[[fault]]\nkind = \"host-dies\"\nhost = 1\nat = \"1 ms\"\n";
    let study = study_of(&format!("{fault}[traffic]\n{ring}"), &[]);
    let result = run(&study);
    let recording = recorded(&study);
    let lost = recording.messages.iter().filter(|it| it.dropped.is_some());
    let lost = Vec::from_iter(lost.map(|it| it.message.number));
    let ended = recording.messages.len() as u64;
    assert_eq!(ended - lost.len() as u64, result.messages.delivered);
    assert_eq!(ended + recording.under_way, result.messages.posted);
    assert!(!lost.is_empty());
    let control = &mut |_, _| ControlFlow::Continue(());
    let told = explain(&study.config, Choice::Message(lost[0]), control).unwrap();
    assert!(
        matches!(
            told.fate,
            Fate::Dropped {
                cause: "returned_to_its_sender",
                ..
            }
        ),
        "{told:?}"
    );
    let numbers = Vec::from_iter(recording.messages.iter().map(|it| it.message.number));
    let under_way = (0..result.messages.posted).find(|number| !numbers.contains(number));
    if let Some(number) = under_way {
        let told = explain(&study.config, Choice::Message(number), control).unwrap();
        assert!(matches!(told.fate, Fate::UnderWay { .. }), "{told:?}");
    }
    assert!(
        explain(
            &study.config,
            Choice::Message(result.messages.posted),
            control
        )
        .is_err()
    );
}

#[test]
fn receives_from_any_rank_with_any_tag_take_what_came_first_of_each() {
    let graph = goal(&[
        "a: calc 5000000\nb: send 8b to 2 tag 5\nb requires a\nc: send 30000b to 2 tag 6\nc requires b",
        "a: send 16b to 2 tag 7\nb: send 0b to 2\nb requires a",
        "a: recv 16b from -1 tag -1\nb: recv 8b from -1 tag 5\nc: recv 0b from 1 tag -1\n\
         d: recv 30000b from -1 tag -1\nb requires a\nc requires b\nd requires c",
    ]);
    for eager in ["traffic.eager=0 B", "traffic.eager=1 MiB"] {
        // Sizes that differ between a send and its receive would be told.
        done(&study(&graph, &[eager]));
    }
}

#[test]
fn what_a_dead_host_or_interface_does_not_do_is_waited_for_and_named() {
    let ring = "collective = \"all-reduce\"\nalgorithm = \"ring\"\nbytes = \"100 KB\"";
    for kind in ["host-dies", "nic-dies"] {
        let fault = format!("[[fault]]\nkind = \"{kind}\"\nhost = 1\nat = \"1 ms\"\n");
        let study = study_of(&format!("{fault}[traffic]\n{ring}"), &[]);
        let result = run(&study);
        assert_eq!(result.ended, Ended::Stalled, "{kind}");
        let messages = result.messages;
        let known = messages.delivered + messages.dropped + messages.in_flight;
        assert_eq!(messages.posted, known, "{messages:?}");
        assert!(
            messages.dropped > 0 && messages.in_flight < 40,
            "{messages:?}"
        );
        assert!(result.violations.join(" ").contains("came to a stop"));
        assert_eq!(run(&study).digest, result.digest);
    }
    // What a dead host computes does not end, and others go on.
    let graph = goal(&["calc 5000000", "calc 5000000\ncalc 2000000 cpu 1", "calc 1"]);
    let fault = "[[fault]]\nkind = \"host-dies\"\nhost = 1\nat = \"1 ms\"\n";
    let result = run(&study_of(&format!("{fault}[traffic]\n{graph}"), &[]));
    let application = result.application.unwrap();
    assert_eq!((application.ended, application.operations), (2, 4));
    assert_near(application.makespan.microseconds_f64(), 5_000.0);
}

#[test]
fn what_endpoints_cannot_do_is_said() {
    let one = goal(&["send 8b to 1", "recv 8b from 0"]);
    // What is said, and the text that it points at: that which has to go.
    for (traffic, set, words, place) in [
        (DRAWN, &["run.until=1 ms"][..], "have no VIs", "am-myrinet"),
        (
            &*one,
            &["hosts.processors=2"],
            "has one processor",
            "hosts.processors",
        ),
        (
            &one,
            &["hosts.adapters=2"],
            "one interface at their host",
            "hosts.adapters",
        ),
        (
            &one,
            &["traffic.reliability=unreliable"],
            "transport of their own",
            "traffic.reliability",
        ),
        (
            &one,
            &["hosts.model.endpoints.remap=blocking"],
            "do not wait for remaps",
            "hosts.model.endpoints.remap",
        ),
        (
            &one,
            &["hosts.model.interface.clock=10 Hz"],
            "below 1 kHz",
            "hosts.model.interface.clock",
        ),
        (
            &one,
            &["hosts.scheduler.quantum=1 ms"],
            "has no effect here",
            "hosts.scheduler.quantum",
        ),
        (
            &one,
            &["hosts.processors=1", "hosts.scheduler.quantum=1 us"],
            "a turn ends before",
            "hosts.scheduler.quantum",
        ),
        (
            &one,
            &["hosts.bus_load.interval=1 ms", "hosts.bus_load.size=64 B"],
            "no other devices",
            "hosts.bus_load.interval",
        ),
        (
            &one,
            &[
                "hosts.processes=2",
                "hosts.local_rate=1 Gbit/s",
                "hosts.model.endpoints.frames=1",
            ],
            "push each other out",
            "hosts.model.endpoints.frames",
        ),
        (
            &one,
            &[
                "hosts.processes=9",
                "hosts.local_rate=1 Gbit/s",
                "hosts.nic=gam-myrinet",
            ],
            "as many endpoints as frames",
            "hosts.processes",
        ),
        (
            &one,
            &["hosts.nic=gam-myrinet", "hosts.model.network.lost=1 %"],
            "what its network loses stays lost",
            "hosts.model.network.lost",
        ),
    ] {
        let told = refused(traffic, set);
        assert!(told.contains(words), "{told}");
        // The line above the carets.
        let lines: Vec<&str> = told.lines().collect();
        let carets = lines.iter().position(|line| line.contains('^'));
        let pointed_at = carets.map_or("", |carets| lines[carets - 1]);
        assert!(pointed_at.contains(place), "{place}: {told}");
    }
}

#[test]
fn groups_of_hosts_with_endpoints_are_refused_at_the_group() {
    let one = goal(&["send 8b to 1", "recv 8b from 0"]);
    for nic in ["gam-myrinet", "giganet-clan"] {
        let group = format!("[[host_group]]\nhosts = \"0\"\nnic = \"{nic}\"\n");
        let text = format!("{HEAD}{group}[traffic]\n{one}");
        let told = parse_study_with(&text, &[])
            .expect_err("refused")
            .to_string();
        assert!(told.contains(&format!("| nic = \"{nic}\"")), "{told}");
    }
}

#[test]
fn copies_that_take_turns_are_on_the_same_hosts_and_page_their_endpoints() {
    let set: Vec<Override> = [
        "traffic.program=nas-cg",
        "traffic.class=S",
        "hosts.model.endpoints.frames=2",
    ]
    .map(Override::fixed)
    .into();
    let study = Study::load("time-shared", &set).unwrap();
    let found: Vec<(f64, u64)> = study
        .cells()
        .iter()
        .map(|cell| {
            let copies = cell.config.hosts.processes;
            assert_eq!(cell.value("traffic.copies"), Some(copies.to_string()));
            let remaps = run(cell).interfaces.unwrap().remaps;
            (done(cell).makespan.microseconds_f64(), remaps)
        })
        .collect();
    let [(alone, none), (two, few), (three, some), (four, more)] = found[..] else {
        panic!("four cells: {found:?}");
    };
    // One endpoint a host is moved in before anything begins, then two.
    assert_eq!((none, few), (16, 32));
    assert!(some > 48 && more > some, "{found:?}");
    assert!(
        two > 1.5 * alone && three > two && four > three,
        "{found:?}"
    );
}
