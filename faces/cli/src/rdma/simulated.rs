//! `viaduct rdma --on sim:MODEL`: commands on simulated hosts, in simulated time.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use viaduct_clients::Clients;
use viaduct_programs::Simulation;
use viaduct_turns::{
    Coordinator, Ended, HOST_VARIABLE, RunError, SOCKET_VARIABLE, Stopper, pin_to_one_core,
};

use super::environment::Environment;
use super::executable::{self, Executable};
use super::{AdapterArguments, RdmaArguments, cannot_start, environment, places};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;
use crate::simulated::Simulated;

/// What separates commands.
const SEPARATOR: &str = ":";

/// How often it is looked whether the user wants to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// One command: what runs on one host.
struct Program {
    words: Vec<OsString>,
    found: Executable,
}

/// Runs commands, the first on host 0 and so on.
pub(super) fn run(name: &str, arguments: &RdmaArguments) -> Result<Exit, Failure> {
    check(arguments)?;
    let programs = programs(&arguments.program)?;
    let hosts = hosts(name, arguments.hosts, &programs)?;
    let mut environment = environment::of(&AdapterArguments::default(), std::process::id())?;
    environment.take_simulated_time()?;
    let folder = Folder::new()?;
    let socket = folder.0.join("turns");
    let simulation = Simulation::new(hosts.config().clone());
    let count = simulation.hosts();
    let mut coordinator = Coordinator::bind(&socket, count)
        .map_err(|error| Failure::plain(format!("no socket for clients: {error}")))?;
    // Where the system does not let us, switches take longer, and that is all.
    let _ = pin_to_one_core();
    let mut children = Children::default();
    for (host, program) in (0..).zip(&programs) {
        let mut command = command(program, &environment);
        command.env(SOCKET_VARIABLE, &socket);
        // Connections by address stay within the run.
        command.env("VIADUCT_RENDEZVOUS", &folder.0);
        if arguments.hosts.is_none() {
            command.env(HOST_VARIABLE, host.to_string());
        }
        let label = arguments.hosts.is_none().then_some(host);
        let number = children.start(command, &program.words[0], label)?;
        if arguments.hosts.is_none() {
            coordinator.expect_process(number);
        }
    }
    if let Some(ranks) = arguments.hosts {
        coordinator.expect_clients(ranks);
    }
    let stopping = Stopping::listen(coordinator.stopper());
    let mut clients = Clients::new(simulation);
    let ended = coordinator.run(&mut clients);
    stopping.end();
    drop(folder);
    finish(name, &clients, ended, children)
}

/// Where clients find the coordinator, until this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let folder = places::session()?.join(format!("simulation-{}", std::process::id()));
        // One of a process that was killed, whose number this one has.
        let _ = fs::remove_dir_all(&folder);
        places::private(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says no to what has no meaning on simulated hosts.
fn check(arguments: &RdmaArguments) -> Result<(), Failure> {
    let what = "the model says what adapters are";
    let counted = "what crosses is simulated";
    let adapters = &arguments.adapters;
    let given = [
        ("--devices", adapters.devices.is_some(), what),
        ("--link", adapters.link.is_some(), what),
        ("--mtu", adapters.mtu.is_some(), what),
        ("--gids", !adapters.gids.is_empty(), what),
        (
            "--fault",
            !adapters.faults.is_empty(),
            "a study says what goes wrong: --on sim:MODEL@STUDY",
        ),
        ("--report-dead-peers", adapters.report_dead_peers, what),
        ("--stats", arguments.stats, counted),
        ("--require-rdma", arguments.require_rdma, counted),
    ];
    match given.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, why)) => {
            let title = format!("`{option}` means nothing with `--on`");
            Err(Failure::new(title, why))
        }
        None => Ok(()),
    }
}

/// The commands between separators.
fn programs(words: &[OsString]) -> Result<Vec<Program>, Failure> {
    let commands = words.split(|word| word == SEPARATOR);
    commands
        .map(|words| {
            let Some(program) = words.first() else {
                let help = "as in: viaduct rdma --on sim:rnic-gen5 -- SERVER : CLIENT host0";
                return Err(Failure::new("an empty command beside a `:`", help));
            };
            Ok(Program {
                words: words.to_vec(),
                found: executable::find(program)?,
            })
        })
        .collect()
}

/// The simulated hosts: one for each command, or as many as ranks.
fn hosts(name: &str, ranks: Option<u32>, programs: &[Program]) -> Result<Simulated, Failure> {
    let commands = programs.len() as u32;
    if ranks.is_some() && commands > 1 {
        return Err(Failure::new(
            "`--hosts` is for one command that starts the others, and there are several",
            "leave it out: each command has a host of its own",
        ));
    }
    let hosts = ranks.unwrap_or(commands).max(2);
    let named = Simulated::named(name, hosts - 1).ok_or_else(|| {
        Failure::new(
            format!("programs cannot run on `{name}`"),
            "it is for simulated hosts with an RDMA adapter: --on sim:rnic-gen5; without `--on` \
             programs run between processes of this machine",
        )
    })??;
    if !named.has_queue_pairs() {
        return Err(Failure::new(
            format!("the adapters of `{name}` have no queue pairs"),
            "take a preset whose mechanism is `rdma`: --on sim:rnic-gen5",
        ));
    }
    named.check()?;
    Ok(named)
}

fn command(program: &Program, environment: &Environment) -> Command {
    let mut command = Command::new(&program.words[0]);
    command.args(&program.words[1..]);
    environment.apply(&mut command, &program.found);
    command
}

/// What runs, with what copies its output.
#[derive(Default)]
struct Children {
    running: Vec<(Child, Option<u32>)>,
    copying: Vec<JoinHandle<()>>,
}

impl Children {
    /// Starts a command, whose lines bear the name of its host if it has one: its process.
    fn start(
        &mut self,
        mut command: Command,
        program: &OsStr,
        host: Option<u32>,
    ) -> Result<u32, Failure> {
        if host.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command
            .spawn()
            .map_err(|error| cannot_start(program, &error))?;
        if let Some(host) = host {
            let streams = (child.stdout.take(), child.stderr.take());
            self.copying
                .extend(streams.0.map(|from| copy(from, std::io::stdout(), host)));
            self.copying
                .extend(streams.1.map(|from| copy(from, std::io::stderr(), host)));
        }
        let number = child.id();
        self.running.push((child, host));
        Ok(number)
    }

    /// Waits until all have ended: how each did, with its host.
    fn wait(&mut self) -> Vec<(Option<u32>, ExitStatus)> {
        let running = self.running.drain(..);
        let ended = running.filter_map(|(mut child, host)| Some((host, child.wait().ok()?)));
        let ended = ended.collect();
        for copying in self.copying.drain(..) {
            let _ = copying.join();
        }
        ended
    }
}

impl Drop for Children {
    /// Nobody who is left would ever have a turn again.
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            let _ = child.kill();
        }
        self.wait();
    }
}

/// Copies lines, each with its host's name in front.
fn copy(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    host: u32,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            let mut labelled = format!("host{host}: ").into_bytes();
            labelled.append(&mut line);
            // Whoever reads may have gone.
            let _ = to.write_all(&labelled).and_then(|()| to.flush());
        }
    })
}

/// Ends the run when the user wants that.
struct Stopping {
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<()>,
}

impl Stopping {
    fn listen(stopper: Stopper) -> Self {
        let interrupt = Interrupt::listen();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let looking = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if interrupt.is_asked() {
                    stopper.stop();
                    return;
                }
                thread::park_timeout(LOOK_INTERVAL);
            }
        });
        Self { is_over, looking }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.looking.thread().unpark();
        let _ = self.looking.join();
    }
}

/// Says how it went, and decides how the command ends.
fn finish(
    name: &str,
    clients: &Clients,
    ended: Result<Ended, RunError>,
    mut children: Children,
) -> Result<Exit, Failure> {
    let ended = match ended {
        Ok(ended) => ended,
        Err(RunError::Stopped) => return Ok(Exit::Interrupted),
        Err(error) => {
            drop(children);
            return Err(Failure::Broken {
                title: format!("{name}: {error}"),
                help: None,
            });
        }
    };
    let statuses = children.wait();
    for notice in &ended.notices {
        output::message("warning", notice, None);
    }
    if let Some(failure) = clients.failure() {
        return Err(Failure::Broken {
            title: format!("{name}: {failure}"),
            help: None,
        });
    }
    let messages = clients.simulation().counts().messages;
    output::note(&format!(
        "{name}: {:.3} us of simulated time, {messages} messages\n",
        ended.time as f64 / 1e6
    ));
    // As a shell says it, of the first that failed: of a signal 128 and its number.
    let failed = statuses.iter().find(|(_, status)| !status.success());
    let Some((host, status)) = failed else {
        return Ok(Exit::Fine);
    };
    let who = host.map_or_else(|| "the command".to_owned(), |host| format!("host{host}"));
    output::message("warning", &format!("{who} ended with {status}"), None);
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    std::process::exit(code.unwrap_or(1))
}
