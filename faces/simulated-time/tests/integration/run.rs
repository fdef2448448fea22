//! Starts programs on simulated hosts.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use viaduct_c_programs::{compiler, run};
use viaduct_turns::hosts::{Claim, HostAddresses};
use viaduct_turns::{
    Coordinator, Ended, HOST_VARIABLE, Outcome, Process, RunError, SOCKET_VARIABLE, Thread, World,
};

/// Runs that must be equal.
const RUNS: u32 = 20;

/// A world in which nothing happens by itself.
pub(crate) struct Nothing;

impl World for Nothing {
    fn next_event(&self) -> Option<u64> {
        None
    }
    fn advance(&mut self, until: u64) -> u64 {
        until
    }
    fn call(&mut self, _: Thread, _: u64, _: &[u8], _: &mut Vec<u8>) -> Outcome {
        Outcome::Done { cost: 0 }
    }
    fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)> {
        None
    }
    fn gone(&mut self, _: Process, _: u64) {}
}

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulated-time");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The library, as it is installed.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/link-verbs.sh");
        // Another process of these tests may do the same, and use it.
        let own = scratch().join(format!("lib.{}", std::process::id()));
        let mut link = Command::new(script);
        run(link.arg(test.parent().unwrap()).arg(&own).arg("time"));
        let library = scratch().join("libviaduct-time.so");
        std::fs::rename(own.join("libviaduct-time.so"), &library).unwrap();
        std::fs::remove_dir_all(own).unwrap();
        library
    })
}

/// A program of `tests/c`, as a user would compile it.
pub(crate) fn program(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = scratch().join(name);
    // Tests that want the same program may build it at the same time, and run it, in this process
    // or another.
    let thread = std::thread::current().id();
    let own = scratch().join(format!("{name}.{}.{thread:?}", std::process::id()));
    let mut command = Command::new(compiler(false));
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]);
    run(command.arg(source).arg("-lpthread").arg("-o").arg(&own));
    std::fs::rename(&own, &program).unwrap();
    program
}

/// How a run ended, and of each host whether its program ended well and what it printed.
pub(crate) type Finished = (Result<Ended, RunError>, Vec<(bool, String)>);

/// Runs the program once, on a host for each list of words. Whatever the hosts' addresses are,
/// since other runs may have the first ones, it prints those of a run that is alone.
pub(crate) fn once(
    program: &Path,
    hosts: &[&[&str]],
    set: impl FnOnce(&mut Coordinator),
) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let claim = Claim::new().unwrap();
    let network = |addresses: HostAddresses| format!("127.{}.", addresses.of(0).octets()[1]);
    let (own, usual) = (
        network(claim.addresses()),
        network(HostAddresses::default()),
    );
    let mut coordinator = Coordinator::bind(&path, hosts.len().try_into().unwrap()).unwrap();
    coordinator.set_addresses(claim.addresses());
    let mut children = Vec::new();
    for (host, words) in hosts.iter().enumerate() {
        let mut command = Command::new(program);
        command.args(*words).env("LD_PRELOAD", library());
        command
            .env(SOCKET_VARIABLE, &path)
            .env(HOST_VARIABLE, host.to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: the calls are allowed there.
        unsafe {
            command.pre_exec(viaduct_turns::pin_to_one_core);
        }
        let child = command.spawn().unwrap();
        coordinator.expect_process(child.id());
        children.push(child);
    }
    set(&mut coordinator);
    let result = coordinator.run(&mut Nothing);
    let ended = children.into_iter().map(|mut child| {
        let mut text = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        (child.wait().unwrap().success(), text.replace(&own, &usual))
    });
    let ended = ended.collect();
    (result, ended)
}

/// Runs it many times, with one result, and returns what each host printed.
pub(crate) fn each_time(program: &Path, hosts: &[&[&str]]) -> Vec<String> {
    let mut first: Option<Vec<String>> = None;
    for run in 0..RUNS {
        let (result, ended) = once(program, hosts, |_| {});
        assert!(
            ended.iter().all(|(well, _)| *well),
            "run {run}: {result:?} {ended:?}"
        );
        let ended_run = result.unwrap();
        assert_eq!(ended_run.notices, Vec::<String>::new());
        let printed: Vec<String> = ended.into_iter().map(|(_, text)| text).collect();
        let first = first.get_or_insert_with(|| printed.clone());
        assert_eq!(*first, printed, "run {run}");
    }
    first.unwrap()
}
