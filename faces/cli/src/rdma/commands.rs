//! Commands on simulated hosts: their processes, and their output.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use viaduct_clients::Clients;
use viaduct_processes::signals;
use viaduct_programs::Simulation;
use viaduct_programs::config::SimulationConfig;
use viaduct_rdma::DEVICES_MAX;
use viaduct_turns::hosts::Claim;
use viaduct_turns::{
    Coordinator, HOST_VARIABLE, RunError, SOCKET_VARIABLE, Stopper, fix_addresses, pin_to_one_core,
    without_huge_pages,
};

use super::environment::Environment;
use super::executable::{self, Executable};
use super::{AdapterArguments, Order, cannot_start, environment, places};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// How often it is looked whether the user wants to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long those that are left when a run ends early may take to end by themselves, and when they
/// are asked to.
const FAREWELL_LIMIT: Duration = Duration::from_millis(1500);
const FAREWELL_LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How often it is looked whether there is room where nobody is let wait for it.
const FULL_LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// A longer line is copied in parts.
const PART_BYTES_MAX: u64 = 1 << 16;

/// One command: what runs on one host.
struct Program {
    words: Vec<OsString>,
    found: Executable,
}

/// Commands that can be started as often as is wanted, each time on hosts of their own.
pub(super) struct Commands<'a> {
    /// As messages name the hosts.
    name: &'a str,
    programs: Vec<Program>,
    /// Clients, where one command starts them.
    ranks: Option<u32>,
    /// What a nanosecond of computing is charged.
    computing_ps_per_ns: u64,
    environment: Environment,
    interrupt: &'a Interrupt,
    output: Output,
}

/// Who reads what commands print.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Audience {
    /// The user.
    User,
    /// Nobody: it has been said before.
    Nobody,
}

/// How commands ended.
pub(super) enum Ended {
    /// All of them, by this simulated time, picoseconds; which of them failed first, with the exit
    /// code; why times may differ from run to run, and what else there was, which were told.
    Whole {
        time: u64,
        failed: Option<(i32, String)>,
        notices: Vec<String>,
        remarks: Vec<String>,
    },
    /// Nothing could go on any more.
    Broken(Failure),
    /// The user stopped them.
    Stopped,
}

impl<'a> Commands<'a> {
    /// The first for host 0 and so on; or one, which starts so many.
    pub(super) fn new(
        order: &'a Order,
        commands: &[Vec<OsString>],
        simulated: &SimulationConfig,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let programs = commands.iter().map(|words| {
            Ok(Program {
                found: executable::find(&words[0])?,
                words: words.clone(),
            })
        });
        let programs: Vec<Program> = programs.collect::<Result<_, Failure>>()?;
        let adapters = AdapterArguments {
            devices: Some(simulated.adapters.count.min(DEVICES_MAX)),
            ..AdapterArguments::default()
        };
        let mut environment = environment::of(&adapters, std::process::id())?;
        environment.take_simulated_time()?;
        Ok(Self {
            name: &order.on,
            programs,
            ranks: order.ranks,
            computing_ps_per_ns: (order.computing_scale.unwrap_or(0.0) * 1000.0).round() as u64,
            environment,
            interrupt,
            output: Output::default(),
        })
    }

    /// What they have printed to the user so far, host by host.
    pub(super) fn output(&self) -> Vec<u8> {
        self.output.of_all()
    }

    /// Starts them, and lets them run to their end.
    pub(super) fn run(
        &self,
        simulation: &mut Simulation,
        audience: Audience,
    ) -> Result<Ended, Failure> {
        let folder = Folder::new()?;
        let socket = folder.0.join("turns");
        let mut coordinator = Coordinator::bind(&socket, simulation.hosts())
            .map_err(|error| Failure::plain(format!("no socket for clients: {error}")))?;
        coordinator.count_computing(self.computing_ps_per_ns);
        let claim = Claim::new()
            .map_err(|error| Failure::plain(format!("no addresses for hosts: {error}")))?;
        let adapters = simulation.configuration().hosts.adapters.count;
        let addresses = claim.addresses().with_adapters(adapters);
        coordinator.set_addresses(addresses);
        // Where the system does not let us, switches take longer, and that is all.
        let _ = pin_to_one_core();
        // As above, programs that follow addresses differ from run to run: digests tell.
        let _ = fix_addresses();
        // Where it does not, programs have more memory.
        let _ = without_huge_pages();
        let mut children = Children::of(audience, self.output.clone());
        for (host, program) in (0..).zip(&self.programs) {
            let mut command = Command::new(&program.words[0]);
            command.args(&program.words[1..]);
            self.environment.apply(&mut command, &program.found);
            command.env(SOCKET_VARIABLE, &socket);
            // Connections by address stay within the run.
            command.env("VIADUCT_RENDEZVOUS", &folder.0);
            let host = self.ranks.is_none().then_some(host);
            if let Some(host) = host {
                command.env(HOST_VARIABLE, u32::to_string(&host));
            }
            let number = children.start(command, &program.words[0], host)?;
            coordinator.expect_process(number);
            if host.is_none() {
                coordinator.heed_outside(number);
            }
        }
        if let Some(ranks) = self.ranks {
            coordinator.expect_clients(ranks);
            let labelling = Arc::clone(&children.labelling);
            coordinator.set_outputs(move |host, to| label(host, to, &labelling));
        }
        let stopping = Stopping::listen(self.interrupt.clone(), coordinator.stopper());
        let mut clients = Clients::new(simulation, addresses);
        let ended = coordinator.run(&mut clients);
        stopping.end();
        drop(folder);
        let broken = |why: String| {
            Ok(Ended::Broken(Failure::Broken {
                title: format!("{}: {why}", self.name),
                help: None,
            }))
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(RunError::Stopped) => return Ok(Ended::Stopped),
            Err(RunError::Missing(come)) => return Ok(Ended::Broken(self.missing(come))),
            Err(error) => return broken(error.to_string()),
        };
        let mut statuses = children.wait();
        if audience == Audience::User {
            for text in ended.notices.iter().chain(&ended.remarks) {
                output::message("warning", text, None);
            }
        }
        if let Some(failure) = clients.failure() {
            return broken(failure.to_string());
        }
        // What ran on a host that died was ended, and has not failed.
        let simulation = clients.simulation();
        let is_alive = |host: Option<u32>| host.is_none_or(|host| simulation.is_alive(host));
        statuses.retain(|(host, _)| is_alive(*host));
        let failed = first_failed(&statuses);
        if audience == Audience::User
            && let Some((_, failed)) = &failed
        {
            output::message("warning", failed, None);
        }
        if failed.is_none() && self.ranks.is_some_and(|ranks| ended.processes < ranks) {
            return Ok(Ended::Broken(self.missing(ended.processes)));
        }
        Ok(Ended::Whole {
            time: ended.time,
            failed,
            notices: ended.notices,
            remarks: ended.remarks,
        })
    }

    /// Fewer programs have come than the run is for.
    fn missing(&self, come: u32) -> Failure {
        let wanted = self.ranks.unwrap_or(self.programs.len() as u32);
        let help = match self.ranks {
            Some(_) => {
                "have the command start as many as `--hosts` says, each by a launcher that tells \
                 it its rank, and none of them linked statically"
            }
            None => "a program that starts others by a service of the system is not followed",
        };
        Failure::Broken {
            title: format!(
                "{}: {come} of {wanted} programs take part in the simulation",
                self.name
            ),
            help: Some(help.to_owned()),
        }
    }
}

/// The exit code of the first that failed, as a shell says it: of a signal 128 and its number; and
/// how it ended.
fn first_failed(statuses: &[(Option<u32>, ExitStatus)]) -> Option<(i32, String)> {
    let (host, status) = statuses.iter().find(|(_, status)| !status.success())?;
    let who = host.map_or_else(|| "the command".to_owned(), |host| format!("host{host}"));
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Some((code.unwrap_or(1), format!("{who} ended with {status}")))
}

/// Bytes of a host's lines that are kept; what is printed after those is only shown.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// What programs have printed, of each host.
#[derive(Clone, Debug, Default)]
struct Output(Arc<Mutex<BTreeMap<Option<u32>, Vec<u8>>>>);

impl Output {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<u32>, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, host: Option<u32>, line: &[u8]) {
        let mut lines = self.lock();
        let kept = lines.entry(host).or_default();
        if kept.len() < OUTPUT_BYTES_MAX && kept.len() + line.len() >= OUTPUT_BYTES_MAX {
            kept.extend_from_slice(b"... more was printed\n");
            kept.resize(kept.len().max(OUTPUT_BYTES_MAX), b' ');
        }
        if kept.len() < OUTPUT_BYTES_MAX {
            kept.extend_from_slice(line);
        }
    }

    fn of_all(&self) -> Vec<u8> {
        self.lock().values().flatten().copied().collect()
    }
}

/// Where clients find the coordinator, until this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let (space, number) = (places::process_namespace(), std::process::id());
        let folder = places::session()?.join(format!("simulation-{space:x}-{number}"));
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

type Labelling = Arc<Mutex<Vec<JoinHandle<()>>>>;

fn take(labelling: &Labelling) -> Vec<JoinHandle<()>> {
    std::mem::take(&mut *labelling.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Where a rank on a host writes, so that its lines come with the host's name to where it would
/// have written: to its launcher, or to what that was told to have it write to.
fn label(
    host: u32,
    [out, errors]: [OwnedFd; 2],
    labelling: &Labelling,
) -> io::Result<[OwnedFd; 2]> {
    let pipes = (io::pipe()?, io::pipe()?);
    let mut labelling = labelling.lock().unwrap_or_else(PoisonError::into_inner);
    for (from, to) in [(pipes.0.0, out), (pipes.1.0, errors)] {
        labelling.push(copy(from, fs::File::from(to), Some(host), None));
    }
    Ok([pipes.0.1.into(), pipes.1.1.into()])
}

/// What runs, with what copies its output.
struct Children {
    running: Vec<(Child, Option<u32>)>,
    copying: Vec<JoinHandle<()>>,
    /// What labels the lines of ranks on their way to whoever started them.
    labelling: Labelling,
    audience: Audience,
    output: Output,
}

impl Children {
    fn of(audience: Audience, output: Output) -> Self {
        Self {
            running: Vec::new(),
            copying: Vec::new(),
            labelling: Labelling::default(),
            audience,
            output,
        }
    }

    /// Starts a command, whose lines bear the name of its host if it has one: its process.
    fn start(
        &mut self,
        mut command: Command,
        program: &OsStr,
        host: Option<u32>,
    ) -> Result<u32, Failure> {
        let is_heard = self.audience == Audience::User;
        if !is_heard {
            command.stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command
            .spawn()
            .map_err(|error| cannot_start(program, &error))?;
        let streams = (child.stdout.take(), child.stderr.take());
        let kept = || self.output.clone();
        let copying = [
            streams
                .0
                .map(|from| copy(from, io::stdout(), host, Some(kept()))),
            streams
                .1
                .map(|from| copy(from, io::stderr(), host, Some(kept()))),
        ];
        self.copying.extend(copying.into_iter().flatten());
        let number = child.id();
        self.running.push((child, host));
        Ok(number)
    }

    /// Waits until all have ended: how each did, with its host.
    fn wait(&mut self) -> Vec<(Option<u32>, ExitStatus)> {
        let running = self.running.drain(..);
        let ended = running.filter_map(|(mut child, host)| Some((host, child.wait().ok()?)));
        let ended = ended.collect();
        for copying in self.copying.drain(..).chain(take(&self.labelling)) {
            let _ = copying.join();
        }
        ended
    }
}

impl Drop for Children {
    /// Nobody who is left would ever have a turn again. Who starts others sees their end, and ends
    /// by itself; if not, it is asked to.
    fn drop(&mut self) {
        for (child, host) in &mut self.running {
            if host.is_some() {
                let _ = child.kill();
            }
            if within(FAREWELL_LIMIT, || !matches!(child.try_wait(), Ok(None))) {
                continue;
            }
            signals::ask_to_end(child.id());
            if !within(FAREWELL_LIMIT, || !matches!(child.try_wait(), Ok(None))) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // Somebody whom none of them has waited for may have their output open for longer.
        within(FAREWELL_LIMIT, || {
            let labelling = self.labelling.lock();
            let labelling = labelling.unwrap_or_else(PoisonError::into_inner);
            let mut all = self.copying.iter().chain(labelling.iter());
            all.all(JoinHandle::is_finished)
        });
    }
}

/// Whether something comes to be true within so long.
fn within(limit: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(FAREWELL_LOOK_INTERVAL);
    }
}

/// Copies lines, each with its host's name in front, and keeps them if it is told where.
fn copy(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    host: Option<u32>,
    output: Option<Output>,
) -> JoinHandle<()> {
    let label = host.map_or_else(String::new, |host| format!("host{host}: "));
    thread::spawn(move || {
        let (mut from, mut begins) = (BufReader::new(from), true);
        loop {
            let mut part = if begins { label.clone() } else { String::new() }.into_bytes();
            let mut most = from.by_ref().take(PART_BYTES_MAX);
            let Ok(read) = most.read_until(b'\n', &mut part) else {
                return;
            };
            if read == 0 && begins {
                return;
            }
            begins = part.ends_with(b"\n");
            if !begins && (read as u64) < PART_BYTES_MAX {
                // It has ended within a line.
                part.push(b'\n');
                begins = true;
            }
            if let Some(output) = &output {
                output.keep(host, &part);
            }
            // Whoever reads may have gone.
            let _ = write_whole(&mut to, &part).and_then(|()| to.flush());
        }
    })
}

/// As `write_all`, where whoever has opened it may have it refuse what has no room yet.
fn write_whole(to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => thread::sleep(FULL_LOOK_INTERVAL),
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// Ends the run when the user wants that.
struct Stopping {
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<()>,
}

impl Stopping {
    fn listen(interrupt: Interrupt, stopper: Stopper) -> Self {
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
