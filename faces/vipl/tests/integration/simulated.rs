//! Programs of libvipl on simulated hosts, in processes of their own, as `viaduct rdma --on` starts
//! them.

#![allow(dead_code, reason = "each test uses some of it")]

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use viaduct_c_programs::run;
use viaduct_clients::Clients;
use viaduct_programs::Simulation;
use viaduct_turns::hosts::HostAddresses;
use viaduct_turns::{Coordinator, HOST_VARIABLE, SOCKET_VARIABLE, pin_to_one_core};

use crate::support;

/// How a run ended.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Ran {
    /// What each command printed, and then what it said of errors; whether it ended well.
    pub(crate) commands: Vec<(String, bool)>,
    /// Picoseconds.
    pub(crate) time: u64,
    /// Of every message and the final counts.
    pub(crate) digest: u64,
}

impl Ran {
    /// What each command printed, all of which ended well.
    pub(crate) fn printed(&self) -> Vec<&str> {
        for (printed, is_well) in &self.commands {
            assert!(is_well, "{printed}");
        }
        let commands = self.commands.iter();
        commands.map(|(printed, _)| printed.as_str()).collect()
    }
}

/// The library for the time, as it is installed.
fn time_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let binaries = std::env::current_exe().unwrap();
        let script = support::crate_root().join("../../packaging/link-verbs.sh");
        let folder = support::scratch().join("time");
        let mut link = Command::new(script);
        run(link
            .arg(binaries.parent().unwrap())
            .arg(&folder)
            .arg("time"));
        folder.join("libviaduct-time.so")
    })
}

/// Reads all that a program prints while it runs: a pipe that is full would hold it up.
fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Runs commands on hosts of a model, the first on host 0 and so on.
pub(crate) fn on(model: &str, commands: Vec<Command>) -> Ran {
    let hosts = (commands.len() as u32).max(2);
    let mut simulation =
        Simulation::new(viaduct_scenario::load_programs(model, None, hosts).unwrap());
    simulation.keep_account(0);
    let folder = support::scratch().join(format!("turns-{:?}", thread::current().id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("s");
    let _ = std::fs::remove_file(&path);
    let mut coordinator = Coordinator::bind(&path, hosts).unwrap();
    let mut running = Vec::new();
    for (host, mut command) in (0_u32..).zip(commands) {
        command
            .env("LD_PRELOAD", time_library())
            .env("LD_LIBRARY_PATH", support::library())
            .env(SOCKET_VARIABLE, &path)
            .env(HOST_VARIABLE, host.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: the calls are allowed there.
        unsafe {
            command.pre_exec(pin_to_one_core);
        }
        let mut child = command.spawn().unwrap();
        coordinator.expect_process(child.id());
        let out = read(child.stdout.take().unwrap());
        let errors = read(child.stderr.take().unwrap());
        running.push((child, out, errors));
    }
    let mut clients = Clients::new(&mut simulation, HostAddresses::default());
    let ended = coordinator.run(&mut clients);
    if ended.is_err() {
        for (child, ..) in &mut running {
            let _ = child.kill();
        }
    }
    let commands: Vec<(String, bool)> = running
        .into_iter()
        .map(|(mut child, out, errors)| {
            let printed = out.join().unwrap() + &errors.join().unwrap();
            (printed, child.wait().unwrap().success())
        })
        .collect();
    let ended = ended.unwrap_or_else(|error| panic!("{error}: {commands:?}"));
    let failure = clients.failure().map(ToString::to_string);
    assert_eq!(failure, None, "{commands:?}");
    let account = simulation.account();
    assert_eq!(account.violations, Vec::<String>::new());
    Ran {
        commands,
        time: ended.time,
        digest: account.digest,
    }
}
