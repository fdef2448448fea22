//! Two real processes: this test's executable runs itself again, with the part that the child
//! plays in the environment. The child stays until its standard input ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::MutexGuard;

use super::*;

const PART: &str = "VIADUCT_TEST_PART";
const PREFIX: &str = "VIADUCT_TEST_PREFIX";

/// The other process. Killed when dropped.
struct Other {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Other {
    /// Starts a process that plays `part` and meets us where hosts of `host()` do.
    fn start(part: &str, environment: &[(&str, &str)]) -> Self {
        let Place::Abstract(prefix) = place() else {
            panic!("tests meet at abstract names");
        };
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "connect::tests::processes::child", "--nocapture"])
            .env(PART, part)
            .env(PREFIX, prefix)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    /// The child's next line of its own, without what the test harness says.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "it ended");
            // The harness leaves its line open before the first of ours.
            if let Some((_, said)) = line.trim().split_once("> ") {
                return said.to_owned();
            }
        }
    }

    /// Has it do nothing more, and take nothing.
    fn stop(&self) {
        let pid = self.process.id() as i32;
        let mut status = 0;
        // SAFETY: the child is ours and was not waited for; the status is a place to write to.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
        }
        assert!(libc::WIFSTOPPED(status));
    }

    fn kill(&mut self) -> Instant {
        let started = Instant::now();
        self.process.kill().unwrap();
        started
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(line: &str) {
    println!("> {line}");
    io::stdout().flush().unwrap();
}

/// Not a test of its own: what the other process does.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let prefix: &str = std::env::var(PREFIX).unwrap().leak();
    let place = match std::env::var_os("VIADUCT_RENDEZVOUS") {
        Some(_) => Place::from_environment(),
        None => Place::Abstract(prefix),
    };
    if part == "leaks" {
        return count_leaks();
    }
    let protected = crate::host::protected_by_environment();
    let host = Host::start(place, protected).unwrap();
    let vi = TestVi::with(9001, regions(host));
    match part.as_str() {
        "serve" => loop {
            let incoming = host.connect_wait(9, &at(host, "child"), SOON).unwrap();
            let vi = TestVi::with(9002, regions(host));
            host.connect_accept(incoming.connection, &vi.handle())
                .unwrap();
            say("accepted");
            std::mem::forget(vi);
        },
        "wait" => {
            say("waiting");
            let _incoming = host.connect_wait(9, &at(host, "child"), None).unwrap();
            say("taken");
        }
        "client" => {
            request(host, &vi, &at(host, "parent")).unwrap();
            let (link, ..) = vi.end();
            say(&format!("connected {} {}", link.trusted(), link.cma()));
            // SAFETY: the block is mapped, and the parent only looks at it.
            unsafe { vi.end().3.write(42) };
            say("written");
        }
        "ask" => {
            say("asking");
            let _ = request(host, &vi, &at(host, "parent"));
        }
        "peer" => {
            let (here, there) = (at(host, "peer child"), at(host, "peer parent"));
            host.connect_peer_request(&vi.handle(), &here, &there, SOON)
                .unwrap();
            host.connect_peer_wait(9001).unwrap();
            say("met");
        }
        part => panic!("no part is called {part}"),
    }
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// Serves the child's request.
fn serve(only: &'static Host, vi: &Arc<TestVi>) {
    let incoming = only.connect_wait(1, &at(only, "parent"), SOON).unwrap();
    only.connect_accept(incoming.connection, &vi.handle())
        .unwrap();
}

/// One test at a time: they meet at the same addresses.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    locked(&ALONE)
}

#[test]
fn two_processes_share_a_channel() {
    let _alone = alone();
    let only = host();
    let vi = TestVi::with(1001, regions(only));
    let mut other = Other::start("client", &[]);
    serve(only, &vi);
    let (link, _, _, block) = vi.end();
    assert_eq!(other.line(), "connected true true");
    assert!(link.trusted() && link.cma());
    assert!(locked(&vi.state).has_regions);
    assert_eq!(link.peer_pid() as u32, other.process.id());
    assert_eq!(other.line(), "written");
    // SAFETY: the block is mapped, and the child has written.
    assert_eq!(unsafe { block.read_volatile() }, 42);
}

#[test]
fn a_protected_process_shares_no_user_memory() {
    let _alone = alone();
    let only = host();
    let vi = TestVi::with(1001, regions(only));
    let mut other = Other::start("client", &[("VIADUCT_PROTECTED", "1")]);
    serve(only, &vi);
    assert_eq!(other.line(), "connected false false");
    assert!(!vi.end().0.trusted() && !locked(&vi.state).has_regions);
}

#[test]
fn a_killed_process_is_noticed() {
    let _alone = alone();
    let only = host();
    let mut worst = Duration::ZERO;
    for _ in 0..10 {
        let vi = TestVi::new(1001);
        let mut other = Other::start("client", &[]);
        serve(only, &vi);
        assert_eq!(other.line(), "connected true true");
        let killed = other.kill();
        vi.wait_until(|state| !state.closed.is_empty());
        worst = worst.max(killed.elapsed());
        assert_eq!(locked(&vi.state).closed[0].1, CloseReason::Died);
        assert!(!vi.end().0.is_alive());
    }
    println!("a killed process was noticed after {worst:?} at most");
    assert!(worst < Duration::from_secs(1), "{worst:?}");
    assert!(only.links().is_empty());
}

#[test]
fn a_thread_that_looks_in_vain_hears_of_a_killed_process() {
    let _alone = alone();
    let only = Host::start_unserved(place()).unwrap();
    let vi = TestVi::new(1001);
    let mut other = Other::start("client", &[]);
    serve(only, &vi);
    assert_eq!(other.line(), "connected true true");
    only.hear_endings();
    assert!(vi.end().0.is_alive());
    let killed = other.kill();
    while locked(&vi.state).closed.is_empty() {
        assert!(killed.elapsed() < SOON.unwrap(), "nobody heard of it");
        only.hear_endings();
        thread::yield_now();
    }
    assert_eq!(locked(&vi.state).closed[0].1, CloseReason::Died);
    assert!(!vi.end().0.is_alive());
    assert!(only.links().is_empty());
}

#[test]
fn a_server_that_is_killed_ends_the_request() {
    let _alone = alone();
    let only = host();
    let vi = TestVi::new(1001);
    let address = at(only, "child");
    for is_taken in [false, true] {
        let mut other = Other::start("wait", &[]);
        assert_eq!(other.line(), "waiting");
        if !is_taken {
            other.stop();
        }
        thread::scope(|scope| {
            let asking = scope.spawn(|| request(only, &vi, &address));
            if is_taken {
                assert_eq!(other.line(), "taken");
                let killed = other.kill();
                // At once, not after the time limit.
                assert_eq!(code(asking.join().unwrap()), ReturnCode::Timeout);
                assert!(killed.elapsed() < SOON.unwrap() / 2);
            } else {
                // Somebody else can wait there when it is dead.
                other.kill();
                other.process.wait().unwrap();
                let incoming = loop {
                    match only.connect_wait(1, &address, SOON) {
                        Err(error) if error.code() == ReturnCode::Resource => {}
                        incoming => break incoming.unwrap(),
                    }
                };
                only.connect_reject(incoming.connection).unwrap();
                assert_eq!(code(asking.join().unwrap()), ReturnCode::Reject);
            }
        });
        assert!(vi.is_idle());
    }
}

#[test]
fn a_client_that_is_killed_ends_the_accept() {
    let _alone = alone();
    let only = host();
    let mut other = Other::start("ask", &[]);
    let address = at(only, "parent");
    let incoming = only.connect_wait(1, &address, SOON).unwrap();
    other.kill();
    other.process.wait().unwrap();
    let vi = TestVi::new(1001);
    let started = Instant::now();
    let accepted = only.connect_accept(incoming.connection, &vi.handle());
    assert_eq!(code(accepted), ReturnCode::Timeout);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(vi.is_idle());
}

#[test]
fn peers_of_two_processes_meet() {
    let _alone = alone();
    let only = host();
    for parent_first in [true, false] {
        let vi = TestVi::new(1001);
        let (here, there) = (at(only, "peer parent"), at(only, "peer child"));
        let mut other = Other::start("peer", &[]);
        if !parent_first {
            thread::sleep(Duration::from_millis(100));
        }
        only.connect_peer_request(&vi.handle(), &here, &there, SOON)
            .unwrap();
        only.connect_peer_wait(1001).unwrap();
        assert_eq!(other.line(), "met");
        assert_eq!(vi.remote_vi(), 9001);
    }
}

#[test]
fn a_stale_socket_file_of_a_killed_process_is_taken_over() {
    let _alone = alone();
    let directory = std::env::temp_dir().join(format!("viaduct-killed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let only = Host::start(Place::Directory(directory.clone()), false).unwrap();
    let address = at(only, "child");
    let files = || std::fs::read_dir(&directory).unwrap().count();
    let mut other = Other::start("wait", &[("VIADUCT_RENDEZVOUS", path)]);
    assert_eq!(other.line(), "waiting");
    let started = Instant::now();
    while files() == 0 {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    other.kill();
    other.process.wait().unwrap();
    assert_eq!(files(), 1);
    let vi = TestVi::new(1001);
    let ask = only.connect_request(&vi.handle(), &address, &address, SOON);
    assert_eq!(code(ask), ReturnCode::NoMatch);
    let limit = Some(Duration::from_millis(10));
    assert_eq!(
        code(only.connect_wait(1, &address, limit)),
        ReturnCode::Timeout
    );
    assert_eq!(files(), 0);
    // In a directory, too, a connection comes about.
    let mut other = Other::start("serve", &[("VIADUCT_RENDEZVOUS", path)]);
    request(only, &vi, &address).unwrap();
    assert_eq!(other.line(), "accepted");
    drop(other);
    vi.wait_until(|state| !state.closed.is_empty());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn nothing_is_left_of_many_connections_and_peers() {
    // Goal: descriptors and mappings of this process are as many as before, after connections
    // that were made and ended over one link, and after peers that died. Counted in a process of
    // its own kind: no other test's descriptors come and go there.
    let _alone = alone();
    let mut other = Other::start("leaks", &[]);
    assert_eq!(other.line(), "nothing is left");
}

/// What `nothing_is_left_of_many_connections_and_peers` counts.
fn count_leaks() {
    let only = host();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|l| l.contains("viaduct")).count()
    };
    let round = |number: usize| {
        let mut other = Other::start("serve", &[]);
        for _ in 0..number {
            let vi = TestVi::with(1001, None);
            request(only, &vi, &at(only, "child")).unwrap();
            assert_eq!(other.line(), "accepted");
            vi.disconnect();
        }
        drop(other);
        let started = Instant::now();
        while !only.links().is_empty() {
            assert!(started.elapsed() < SOON.unwrap());
            thread::yield_now();
        }
    };
    round(2);
    let before = (descriptors(), mappings());
    for _ in 0..10 {
        round(100);
    }
    let started = Instant::now();
    // The service thread drops the last link in its own time; before, too, so that there may have
    // been more to count.
    loop {
        let now = (descriptors(), mappings());
        if now.0 <= before.0 && now.1 <= before.1 {
            break;
        }
        assert!(started.elapsed() < SOON.unwrap(), "{before:?} {now:?}");
        thread::yield_now();
    }
    say("nothing is left");
}
