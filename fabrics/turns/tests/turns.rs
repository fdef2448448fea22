//! Clients are processes: this program starts itself again as each of them, over a world that has a
//! clock and nothing else. What a run did is a list of lines, and the same list each time.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use viaduct_turns::{
    Client, Coordinator, Ended, HOST_VARIABLE, NewThread, Outcome, Process, RunError,
    SOCKET_VARIABLE, Thread, Waited, World,
};

/// Picoseconds.
const US: u64 = 1_000_000;
/// Runs that must be equal.
const RUNS: u32 = 20;

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
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

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--client") {
        act(&words[1], &words[2..]);
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == "--list") {
        for (name, _) in TESTS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    for (name, test) in TESTS {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

// The world.

/// Writes down what it is asked. A request is words: `cost N`, `wait N` (answered so long after),
/// `never` (unless `wake` is posted), `until N` (given up so long after).
#[derive(Default)]
struct Clock {
    now: u64,
    lines: Vec<String>,
    sleepers: Vec<Thread>,
    alarms: BTreeMap<(u64, Thread), ()>,
    ready: Vec<(Thread, u64, Vec<u8>)>,
    /// What is to be written, when, where, and what has been.
    pokes: BTreeMap<u64, (Process, u64)>,
    poked: Vec<Process>,
    /// When a byte is to come to whose descriptor, and whether one has.
    rings: BTreeMap<u64, (Process, u64)>,
    has_rung: bool,
    /// When hosts die.
    deaths: BTreeMap<u64, u32>,
}

impl Clock {
    fn say(&mut self, at: u64, thread: Thread, text: &str) {
        let Thread { process, number } = thread;
        let Process {
            host,
            number: process,
            ..
        } = process;
        self.lines.push(format!(
            "{at} host {host} process {process} thread {number}: {text}"
        ));
    }
}

impl World for Clock {
    fn next_event(&self) -> Option<u64> {
        let alarm = self.alarms.first_key_value().map(|((at, _), ())| *at);
        let poke = self.pokes.first_key_value().map(|(at, _)| *at);
        let ring = self.rings.first_key_value().map(|(at, _)| *at);
        let death = self.deaths.keys().copied().find(|at| *at > self.now);
        let all = alarm.into_iter().chain(poke).chain(ring).chain(death);
        all.min()
    }

    fn advance(&mut self, until: u64) -> u64 {
        let first = self.next_event().unwrap_or(u64::MAX);
        if let Some(poke) = self.pokes.first_entry()
            && *poke.key() == first
        {
            let (process, address) = poke.remove();
            let path = format!("/proc/{}/mem", process.pid);
            let memory = std::fs::File::options().write(true).open(path).unwrap();
            memory.write_all_at(&[1], address).unwrap();
            self.poked.push(process);
            self.now = first;
            return first;
        }
        if let Some(ring) = self.rings.first_entry()
            && *ring.key() == first
        {
            let (process, number) = ring.remove();
            let path = format!("/proc/{}/fd/{number}", process.pid);
            std::fs::write(path, [1]).unwrap();
            self.has_rung = true;
            self.now = first;
            return first;
        }
        if self.deaths.contains_key(&first) {
            self.now = first;
            return first;
        }
        let Some(((at, thread), ())) = self.alarms.pop_first() else {
            return until;
        };
        assert!(at <= until && at >= self.now, "time went past {at}");
        self.now = at;
        self.ready
            .push((thread, at, format!("rung at {at}").into_bytes()));
        at
    }

    fn call(&mut self, thread: Thread, now: u64, request: &[u8], answer: &mut Vec<u8>) -> Outcome {
        assert!(now >= self.now, "a call at {now}, behind {}", self.now);
        self.now = now;
        let text = String::from_utf8(request.to_vec()).unwrap();
        self.say(now, thread, &text);
        let number = |word: Option<&str>| word.map_or(0, |word| word.parse().unwrap());
        let mut words = text.split(' ');
        match words.next().unwrap() {
            "wait" => {
                let at = now + number(words.next());
                self.alarms.insert((at, thread), ());
                Outcome::Waits { until: None }
            }
            "never" => {
                self.sleepers.push(thread);
                Outcome::Waits { until: None }
            }
            "until" => Outcome::Waits {
                until: Some(now + number(words.next())),
            },
            "ring" => {
                let descriptor = number(words.next());
                self.rings
                    .insert(now + number(words.next()), (thread.process, descriptor));
                Outcome::Done { cost: 0 }
            }
            "poke" => {
                let address = number(words.next());
                self.pokes
                    .insert(now + number(words.next()), (thread.process, address));
                Outcome::Done { cost: 0 }
            }
            word => {
                answer.extend_from_slice(text.as_bytes());
                let cost = if word == "cost" {
                    number(words.next())
                } else {
                    0
                };
                Outcome::Done { cost }
            }
        }
    }

    fn post(&mut self, thread: Thread, now: u64, request: &[u8]) {
        self.call(thread, now, request, &mut Vec::new());
        if request == b"wake" {
            for thread in std::mem::take(&mut self.sleepers) {
                self.alarms.insert((now + US, thread), ());
            }
        }
    }

    fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)> {
        self.ready.pop()
    }

    fn written(&mut self) -> Option<Process> {
        self.poked.pop()
    }

    fn has_rung(&mut self) -> bool {
        std::mem::take(&mut self.has_rung)
    }

    fn died(&mut self) -> Option<(u32, u64)> {
        let first = self.deaths.first_entry()?;
        let at = *first.key();
        (at <= self.now).then(|| (first.remove(), at))
    }

    fn gave_up(&mut self, thread: Thread, now: u64) {
        self.say(now, thread, "gave up");
    }

    fn gone(&mut self, process: Process, now: u64) {
        let Process { host, number, .. } = process;
        self.lines
            .push(format!("{now} host {host} process {number}: gone"));
    }
}

// The clients.

fn say(client: Client, text: &str) {
    let mut answer = Vec::new();
    assert!(client.call(c"call", text.as_bytes(), &mut answer));
}

/// What a client does, by its first word; descriptors that it inherits are numbers.
fn act(role: &str, words: &[String]) {
    if role == "coordinates" {
        return coordinate(&words[0]);
    }
    let client = viaduct_turns::start().unwrap().unwrap();
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    match role {
        // Steps of so many picoseconds, so many times.
        "steps" => {
            for _ in 0..number(1) {
                let before = client.now();
                let mut answer = b"> ".to_vec();
                assert!(client.call(c"cost", b"cost 70", &mut answer));
                assert_eq!(answer, b"> cost 70");
                assert_eq!(client.now(), before + 70);
                client.charge(number(0));
            }
        }
        "waits" => {
            let mut answer = Vec::new();
            assert!(client.call(c"wait", b"wait 5000", &mut answer));
            assert_eq!(
                (answer.as_slice(), client.now()),
                (&b"rung at 5000"[..], 5000)
            );
            assert!(!client.call(c"until", b"until 300", &mut answer));
            assert_eq!(
                (answer.as_slice(), client.now()),
                (&b"rung at 5000"[..], 5300)
            );
        }
        "posts" => {
            for _ in 0..number(1) {
                client.charge(number(0));
                client.post(b"posted");
            }
            // What was posted may start something: this gives the turn.
            client.sleep_until(100 * US);
            say(client, "slept");
        }
        "wakes" => {
            // The other waits from the start.
            client.sleep_until(US);
            client.charge(US);
            client.post(b"wake");
            client.sleep_until(100 * US);
            client.synchronise();
            write(number(0) as i32, 7);
        }
        "woken" => {
            client.call(c"never", b"never", &mut Vec::new());
            let early = read(client, number(0) as i32, Some(client.now()));
            let late = read(client, number(0) as i32, None);
            say(client, &format!("read {early:?} {late:?}"));
        }
        "reads" => {
            for _ in 0..number(1) {
                let byte = read(client, number(0) as i32, None);
                say(client, &format!("read {byte:?}"));
            }
        }
        "writes" => {
            for byte in 0..3 {
                client.charge(5 * US);
                client.synchronise();
                write(number(0) as i32, byte);
            }
            client.charge(US);
        }
        "mutters" => {
            for byte in 0..2 {
                for _ in 0..1000 {
                    client.call(c"cost", b"cost 1000000", &mut Vec::new());
                }
                // Nobody is told.
                write(number(0) as i32, byte);
            }
        }
        "rings" => {
            let (from, to) = pipe();
            say(client, &format!("ring {} {}", to.as_raw_fd(), 7 * US));
            let byte = read(client, from.as_raw_fd(), None);
            assert_eq!((byte, client.now()), (Some(1), 7 * US));
            say(client, "heard it");
        }
        "leaves" => {
            // What is to come then finds nobody.
            say(client, &format!("ring 0 {}", 7 * US));
            client.charge(US);
        }
        "deadline" => {
            let byte = read(client, number(0) as i32, Some(7 * US));
            assert!(byte.is_none() && client.now() == 7 * US);
            say(client, "in vain");
        }
        "outside" => {
            say(client, "begins");
            let byte = read(client, number(0) as i32, None);
            say(client, &format!("read {byte:?}"));
        }
        "blocks" => {
            client.charge(US);
            let mut byte = 0_u8;
            // SAFETY: one byte has room.
            unsafe { libc::read(number(0) as i32, (&raw mut byte).cast(), 1) };
        }
        "sleeps" => {
            for _ in 0..1000 {
                client.sleep_until(client.now() + US);
            }
            say(client, "slept");
            if let Some(to) = words.first() {
                client.synchronise();
                write(to.parse().unwrap(), 3);
            }
        }
        "asks" => {
            for _ in 0..3 {
                client.charge(US);
                client.synchronise();
                viaduct_turns::tell_outside();
                write(number(0) as i32, b'\n');
                let byte = read(client, number(1) as i32, None);
                say(client, &format!("read {byte:?}"));
            }
        }
        "clocks" => {
            let end = number(0) * US;
            while client.now() < end {
                client.charge(US / 40);
            }
            say(client, "read");
        }
        "looks" => {
            let place = AtomicU8::new(0);
            let address = place.as_ptr().addr();
            say(client, &format!("poke {address} {}", 7 * US));
            client.charge(US);
            // What a signal's handler does that interrupts such a loop.
            while place.load(Ordering::Relaxed) == 0 {
                viaduct_turns::await_memory();
            }
            assert_eq!(client.now(), 7 * US);
            say(client, "saw it");
        }
        "threads" => threads(client),
        "unknown" => unknown_thread(client),
        "dies" => {
            client.sleep_until(2 * US);
            client.charge(US);
            client.post(b"last words");
            // SAFETY: it ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        "lies" => {
            client.sleep_until(2 * US);
            scribble();
            say(client, "never heard");
            panic!("it lives on");
        }
        "forks" => forks(client),
        "replaced" => say(client, "replaced"),
        "never" => {
            client.charge(US);
            client.call(c"never", b"never", &mut Vec::new());
        }
        other => panic!("no role {other}"),
    }
}

fn read(client: Client, descriptor: i32, deadline: Option<u64>) -> Option<u8> {
    let waited = [(descriptor, libc::POLLIN)];
    client.foreign(c"read", Waited::Descriptors(&waited), deadline, || {
        let mut byte = 0_u8;
        // SAFETY: one byte has room.
        let got = unsafe { libc::read(descriptor, (&raw mut byte).cast(), 1) };
        (got == 1).then_some(byte)
    })
}

fn write(descriptor: i32, byte: u8) {
    // SAFETY: one byte is there.
    let put = unsafe { libc::write(descriptor, (&raw const byte).cast(), 1) };
    assert_eq!(put, 1);
}

fn threads(client: Client) {
    static RUNS: AtomicBool = AtomicBool::new(false);
    // Between two calls nobody else is here, however long that takes.
    let alone = || {
        assert!(!RUNS.swap(true, Ordering::SeqCst), "two threads run");
        std::thread::yield_now();
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
        assert!(RUNS.swap(false, Ordering::SeqCst));
    };
    let mut handles = Vec::new();
    for number in 1..=3_u64 {
        alone();
        let announced = NewThread::announce().unwrap();
        handles.push(std::thread::spawn(move || {
            announced.begin();
            for _ in 0..4 {
                alone();
                client.sleep_until(client.now() + number * 100);
                say(client, "awake");
            }
            NewThread::end();
        }));
        client.charge(50);
    }
    for _ in 0..20 {
        alone();
        client.sleep_until(client.now() + 130);
    }
    for handle in handles {
        handle.join().unwrap();
    }
}

fn unknown_thread(client: Client) {
    let unknown = std::thread::spawn(move || {
        say(client, "unknown");
        NewThread::end();
    });
    client.foreign(c"join", Waited::Anything, None, || {
        unknown.is_finished().then_some(())
    });
    say(client, "joined");
}

/// Writes over all seats of this process, as somebody might who means harm.
fn scribble() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.contains("viaduct-seats"))
        .unwrap();
    let start = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    // Behind `turn`, which would hang this process alone.
    for at in (4..128).step_by(4) {
        // SAFETY: the first seat is as long; whoever reads it stands what it finds.
        unsafe { std::ptr::with_exposed_provenance_mut::<u32>(start + at).write_volatile(!0) };
    }
}

fn forks(client: Client) {
    client.charge(3 * US);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        viaduct_turns::forget();
        viaduct_turns::start().unwrap().unwrap();
        client.charge(US);
        say(client, "child");
        client.charge(US);
        let error = itself("replaced", &[]).exec();
        panic!("{error}");
    }
    NewThread::forked(child);
    say(client, "parent");
    let status = client.foreign(c"wait", Waited::Anything, None, || {
        let mut status = 0;
        // SAFETY: the number has room.
        let got = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        (got == child).then_some(status)
    });
    assert_eq!(status, Some(0));
    say(client, "waited");
}

// The coordinator.

fn itself(role: &str, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--client").arg(role).args(words);
    command
}

/// What the world wrote down, how the run ended, and each client's exit code and complaint.
type Finished = (Clock, Result<Ended, RunError>, Vec<(Option<i32>, String)>);

/// One run with a client on each host.
struct Run {
    folder: tempfile::TempDir,
    coordinator: Coordinator,
    children: Vec<Child>,
}

impl Run {
    fn new(clients: &[(&str, &[&str])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let hosts = u32::try_from(clients.len()).unwrap();
        let mut coordinator = Coordinator::bind(&path, hosts).unwrap();
        let mut children = Vec::new();
        // The last is started first: the order of hosts is not that of starting.
        for (host, (role, words)) in clients.iter().enumerate().rev() {
            let mut command = itself(role, words);
            command
                .env(SOCKET_VARIABLE, &path)
                .env(HOST_VARIABLE, host.to_string());
            command.stderr(Stdio::piped());
            // SAFETY: the calls are allowed there.
            unsafe {
                command.pre_exec(|| {
                    viaduct_turns::pin_to_one_core()?;
                    Ok(())
                });
            }
            let child = command.spawn().unwrap();
            coordinator.expect_process(child.id());
            children.insert(0, child);
        }
        Self {
            folder,
            coordinator,
            children,
        }
    }

    /// Runs, and says how each client ended and what it complained of.
    fn result(self) -> Finished {
        self.result_with(Clock::default())
    }

    /// The same in a world in which something happens.
    fn result_with(self, mut clock: Clock) -> Finished {
        let result = self.coordinator.run(&mut clock);
        let ended = self.children.into_iter().map(|mut child| {
            if result.is_err() {
                has_been_killed(&mut child);
            }
            let mut text = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            (child.wait().unwrap().code(), text)
        });
        let ended = ended.collect();
        drop(self.folder);
        (clock, result, ended)
    }
}

/// A run that ends early ends its clients.
fn has_been_killed(child: &mut Child) {
    for _ in 0..1000 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("a client is left");
}

/// Runs clients that all end well.
fn well(clients: &[(&str, &[&str])]) -> (Vec<String>, Ended) {
    let (clock, result, ended) = Run::new(clients).result();
    for (code, text) in ended {
        assert!(code == Some(0), "{code:?}: {text}\n{result:?}");
    }
    let ended = result.unwrap();
    assert_eq!(ended.notices, Vec::<String>::new());
    (clock.lines, ended)
}

/// The same, many times with one result, which is returned.
fn well_each_time(clients: impl Fn() -> Vec<(&'static str, Vec<String>)>) -> (Vec<String>, Ended) {
    let mut first = None;
    for run in 0..RUNS {
        let clients = clients();
        let words: Vec<Vec<&str>> = clients
            .iter()
            .map(|(_, words)| words.iter().map(String::as_str).collect())
            .collect();
        let roles = clients.iter().zip(&words);
        let roles: Vec<(&str, &[&str])> = roles
            .map(|((role, _), words)| (*role, words.as_slice()))
            .collect();
        let result = well(&roles);
        let first = first.get_or_insert_with(|| result.clone());
        assert_eq!(*first, result, "run {run}");
    }
    first.unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A pipe whose ends children inherit; nobody waits in a read.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two numbers have room, and the descriptors are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn times(lines: &[String]) -> Vec<u64> {
    let first = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
    lines.iter().map(first).collect()
}

// The tests.

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

/// The number of a descriptor that stays open here, for clients to inherit.
fn inherited(descriptor: OwnedFd) -> String {
    let number = descriptor.as_raw_fd().to_string();
    std::mem::forget(descriptor);
    number
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
        let mut run = Run::new(&[("asks", &[&to, &from]), ("sleeps", &[])]);
        run.coordinator.heed_outside(outsider.0.id());
        let (clock, result, ended) = run.result();
        assert!(ended.iter().all(|(code, _)| *code == Some(0)), "{ended:?}");
        assert_eq!(result.unwrap().notices, Vec::<String>::new());
        for round in 1..=3 {
            let at = round * US;
            let wanted = format!("{at} host 0 process 0 thread 0: read Some(10)");
            let is_there = clock.lines.contains(&wanted);
            assert!(is_there, "{wanted}: {:#?}", clock.lines);
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
        let clock = Clock {
            deaths: BTreeMap::from([(3 * US, 1), (5 * US, 2)]),
            ..Clock::default()
        };
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
fn coordinate(descriptor: &str) {
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
