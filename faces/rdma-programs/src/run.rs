//! One row, run.

use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::rows::{Listens, Row, Side};

/// What every row runs with.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The command `viaduct`, whose `rdma` starts the programs.
    pub(crate) viaduct: Option<PathBuf>,
    /// Where the libraries are, for a run without that command.
    pub(crate) libraries: PathBuf,
    /// Where our own programs are.
    pub(crate) programs: PathBuf,
    /// Where output is kept.
    pub(crate) scratch: PathBuf,
}

/// What came out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was not as the row says; none of a row that passes.
    pub(crate) faults: Vec<String>,
    /// What each side was and printed, for whoever looks for the fault.
    pub(crate) sides: Vec<(String, String)>,
}

impl Setting {
    /// Runs a row.
    ///
    /// # Errors
    ///
    /// What the system says when a program cannot be started.
    pub(crate) fn run(&self, row: &Row) -> io::Result<Outcome> {
        let seconds = match row.fault {
            // What is known to hang need not do so for long.
            Some(_) => row.seconds.min(10),
            None => row.seconds,
        };
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let port = free_port()?;
        let mut faults = Vec::new();
        let mut first = self.start(row, &row.first, port, "first")?;
        let mut second = None;
        if let Some(client) = &row.second {
            let listens = |server: &Process| match how(row) {
                Listens::Rdma => server.listens_on_rdma(),
                _ => server.listens_on_tcp(port),
            };
            if first.wait_for(listens, deadline)? {
                second = Some(self.start(row, client, port, "second")?);
            } else {
                faults.push("the server does not listen".to_owned());
            }
        }
        if let Some(second) = &mut second {
            let status = second.wait(deadline)?;
            let client = row.second.as_ref();
            faults.extend(client.and_then(|client| ended("the client", client, status)));
        }
        let deadline = if faults.is_empty() {
            deadline
        } else {
            // Its other half has failed; it shows what it does then, and no more.
            deadline.min(Instant::now() + Duration::from_secs(2))
        };
        let status = if row.serves_for_ever {
            None
        } else {
            first.wait(deadline)?
        };
        let name = if row.second.is_some() {
            "the server"
        } else {
            "it"
        };
        if !row.serves_for_ever {
            faults.extend(ended(name, &row.first, status));
        }
        first.kill();
        let mut sides = Vec::new();
        let both = [
            (name, Some(&row.first), Some(first)),
            ("the client", row.second.as_ref(), second),
        ];
        for (name, side, process) in both {
            let (Some(side), Some(process)) = (side, process) else {
                continue;
            };
            let printed = process.printed();
            faults.extend(missing(name, side, &printed));
            let command = self.filled(side, port).join(" ");
            sides.push((format!("{name}: {command}"), printed));
        }
        Ok(Outcome { faults, sides })
    }

    fn filled(&self, side: &Side, port: u16) -> Vec<String> {
        let programs = self.programs.display().to_string();
        let fill = |word: &String| {
            word.replace("{port}", &port.to_string())
                .replace("{programs}", &programs)
        };
        side.command.iter().map(fill).collect()
    }

    fn start(&self, row: &Row, side: &Side, port: u16, name: &str) -> io::Result<Process> {
        let words = self.filled(side, port);
        let mut command = match &self.viaduct {
            Some(viaduct) => {
                let mut command = Command::new(viaduct);
                command.arg("rdma");
                if side.moves {
                    command.arg("--require-rdma");
                }
                command.arg("--").args(&words);
                command
            }
            None => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command.env("LD_LIBRARY_PATH", &self.libraries);
                let shim = self.libraries.join("libviaduct-rdma-paths.so");
                if shim.is_file() {
                    command.env("LD_PRELOAD", shim);
                }
                command
            }
        };
        command.envs(row.environment.iter().map(|(name, value)| (name, value)));
        // What a file of rows does not say is the same on every machine.
        command.env("LC_ALL", "C").current_dir(&self.scratch);
        Process::start(command, &self.scratch.join(name))
    }
}

fn how(row: &Row) -> Listens {
    match row.listens {
        Some(Listens::Perftest) => {
            let by_address = ["-R", "-z"];
            if row
                .first
                .command
                .iter()
                .any(|word| by_address.contains(&word.as_str()))
            {
                Listens::Rdma
            } else {
                Listens::Tcp
            }
        }
        listens => listens.unwrap_or(Listens::Tcp),
    }
}

fn ended(name: &str, side: &Side, status: Option<ExitStatus>) -> Option<String> {
    match status {
        None => Some(format!("{name} does not end")),
        Some(status) if status.code() == Some(side.exit) => None,
        Some(status) => Some(format!("{name} ends with {status}, not {}", side.exit)),
    }
}

fn missing(name: &str, side: &Side, printed: &str) -> Option<String> {
    let mut rest = printed;
    for wanted in &side.prints {
        match rest.find(wanted.as_str()) {
            Some(at) => rest = &rest[at + wanted.len()..],
            None => return Some(format!("{name} does not print `{wanted}`")),
        }
    }
    None
}

/// A port that nobody has now, below those that the system gives to whoever asks for any: one of
/// those may be another program's before the server of the row has taken it. Runs beside each other
/// begin at different ones.
fn free_port() -> io::Result<u16> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..PORTS {
        let number = first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = FIRST_PORT + number as u16;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    let all = format!(
        "ports {FIRST_PORT} to {} are all taken",
        FIRST_PORT as u32 + PORTS - 1
    );
    Err(io::Error::new(io::ErrorKind::AddrInUse, all))
}

/// Linux gives ports from 32,768 on.
const FIRST_PORT: u16 = 20_000;
const PORTS: u32 = 12_000;

impl Outcome {
    /// All of it as text.
    #[must_use]
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        for fault in &self.faults {
            let _ = writeln!(text, "    {fault}");
        }
        for (name, printed) in &self.sides {
            let _ = writeln!(text, "    --- {name}");
            for line in last_lines(printed) {
                let _ = writeln!(text, "    | {line}");
            }
        }
        text
    }
}

/// The end of what was printed, where it is long.
fn last_lines(printed: &str) -> impl Iterator<Item = &str> {
    const MOST: usize = 60;
    let count = printed.lines().count();
    printed.lines().skip(count.saturating_sub(MOST))
}

/// Our own programs of MPI.
const MPI_PROGRAMS: [&str; 6] = ["mix", "pingpong", "collectives", "is", "cg", "ft"];

/// The examples of VIA, which have a file beside them.
const VIA_PROGRAMS: [&str; 4] = ["pingpong", "cqserver", "rdma_immediate", "latency"];

/// A program of `rdma_cm`.
const RDMA_CM_PROGRAM: &str = "ports";

/// Compiles our own programs for each MPI, for VIA and for `rdma_cm`, and copies those that need no
/// compiler.
///
/// # Errors
///
/// What could not be run, or what the compiler says.
pub(crate) fn build_programs(
    source: &Path,
    libraries: &Path,
    programs: &Path,
) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", programs.display());
    std::fs::create_dir_all(programs).map_err(told)?;
    for file in [
        "loopback.py",
        "pyverbs_tests.py",
        "pyverbs_tests.txt",
        "hpccinf.txt",
    ] {
        std::fs::copy(source.join(file), programs.join(file)).map_err(told)?;
    }
    for mpi in ["mpich", "openmpi"] {
        for name in MPI_PROGRAMS {
            let source = source.join(format!("{name}.c"));
            let compiler = format!("mpicc.{mpi}");
            let output = programs.join(format!("{name}.{mpi}"));
            let mut command = Command::new(&compiler);
            command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
            command.arg(&output).arg(&source).arg("-lm");
            compile(&mut command)?;
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let examples = root.join("examples/c");
    for name in VIA_PROGRAMS {
        let mut command = Command::new("cc");
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
        command.arg(programs.join(format!("{name}.vipl")));
        command.args([
            examples.join(format!("{name}.c")),
            examples.join("common.c"),
        ]);
        command.arg("-I").arg(root.join("include"));
        command.arg("-L").arg(libraries).arg("-lvipl");
        compile(&mut command)?;
    }
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(programs.join(RDMA_CM_PROGRAM));
    command.arg(source.join(format!("{RDMA_CM_PROGRAM}.c")));
    compile(command.arg("-lrdmacm"))
}

fn compile(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    let status = status.map_err(|error| format!("{command:?}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}")),
    }
}
