//! Who is measured: the floor, our own fabric, and the peers that are found on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::floor;
use crate::protocol::{Plan, Test};
use crate::transports::cell::{Cell, Figures, read_figures};
use crate::transports::perftest::Perftest;
use crate::transports::process::{self, leashed, own_program};

/// A value takes less than a second; what takes this long hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// The groups that `--only` takes, in the order of the tables.
pub(crate) const GROUPS: &[&str] = &[
    "floor",
    "viaduct",
    "ucx",
    "libfabric",
    "openmpi",
    "iceoryx2",
    "sockets",
];

/// What a transport is to the comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// The line, which tells the placement.
    Line,
    /// The bare ring, which ours is divided by.
    Ring,
    /// A futex, which a blocked receiver of ours is divided by.
    Futex,
    /// Another part of the floor.
    Floor,
    /// Our fabric, both sides polling, messages in ordinary memory as those of every peer.
    Ours,
    /// The same in memory of our library.
    OursLibrary,
    /// Our fabric, the receiver asleep.
    OursBlocked,
    /// A peer whose receiver takes each message, both sides spinning.
    TwoSided,
    /// A peer that hands over a pointer: untouched, no data moves at any size.
    ZeroCopy,
    /// A peer that writes into memory which nobody watches but the program.
    OneSided,
    /// A peer whose receiver sleeps in the kernel.
    Blocked,
}

/// How a value is had.
#[derive(Clone, Debug)]
enum Source {
    /// A program of `crate::protocol`: what comes before its arguments, and its kind.
    Program { prefix: Vec<String>, kind: String },
    /// `ucx_perftest` as UCX ships it.
    Perftest(Perftest),
}

/// One transport in one mode.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) role: Role,
    source: Source,
}

/// A group that is not measured, and what to install.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Skipped {
    pub(crate) name: String,
    pub(crate) note: String,
}

impl Contestant {
    /// One that a program of `crate::protocol` measures: `prefix` comes before its arguments.
    pub(crate) fn program(
        group: &'static str,
        name: &str,
        role: Role,
        prefix: &[impl AsRef<str>],
        kind: &str,
    ) -> Self {
        Self {
            group,
            name: name.to_owned(),
            role,
            source: Source::Program {
                prefix: prefix.iter().map(|word| word.as_ref().to_owned()).collect(),
                kind: kind.to_owned(),
            },
        }
    }

    /// Whether its receiver takes each message and gets the bytes that the cell says.
    pub(crate) fn is_two_sided(&self, cell: Cell) -> bool {
        match self.role {
            Role::TwoSided => true,
            Role::ZeroCopy => cell.touched,
            _ => false,
        }
    }

    /// Whether it has the cell at all.
    pub(crate) fn has(&self, cell: Cell) -> bool {
        let is_blocked = matches!(self.role, Role::Blocked | Role::OursBlocked);
        match &self.source {
            Source::Perftest(_) => !cell.touched,
            _ if is_blocked => cell.test == Test::Latency && !cell.touched,
            Source::Program { kind, .. } => match self.role {
                Role::Line | Role::Futex => cell == Cell::new(Test::Latency, 8, false),
                Role::Ring => cell.bytes == 8 && !cell.touched,
                Role::Floor if kind.starts_with("copy") => {
                    cell.bytes >= 4096 && cell.test != Test::Rate
                }
                Role::Floor => cell == Cell::new(Test::Latency, 8, false),
                _ => true,
            },
        }
    }

    /// Measures a cell once.
    ///
    /// # Errors
    ///
    /// One line: what the program said, or that the watchdog ended it.
    pub(crate) fn measure(
        &self,
        cell: Cell,
        duration: Duration,
        cores: [usize; 2],
    ) -> Result<Figures, String> {
        let mut command = match &self.source {
            Source::Perftest(perftest) => return perftest.measure(cell, cores, LIMIT),
            Source::Program { prefix, kind } => {
                let plan = Plan {
                    kind: kind.clone(),
                    test: cell.test,
                    bytes: cell.bytes,
                    touched: cell.touched,
                    duration,
                    cores,
                };
                let mut command = leashed(&prefix[0])?;
                command.args(&prefix[1..]).args(plan.arguments());
                command
            }
        };
        read_figures(cell.test, &process::run(&mut command, LIMIT)?)
    }
}

/// What is needed to find and build contestants.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    /// The command that measures our own fabric.
    pub(crate) viaduct: &'a Path,
    /// The folder `bench` of the checkout.
    pub(crate) bench: &'a Path,
    /// Where programs are built.
    pub(crate) build: &'a Path,
    /// Whether every mode of a peer is wanted.
    pub(crate) is_full: bool,
}

/// Finds the contestants of a group and compiles those that are ours.
///
/// # Errors
///
/// This program does not find itself. A peer that is missing is no error: it is skipped.
pub(crate) fn find(
    group: &'static str,
    places: &Places<'_>,
) -> Result<(Vec<Contestant>, Vec<Skipped>), String> {
    let mut found = Vec::new();
    let mut skipped = Vec::new();
    let mut take = |name: &str, contestants: Result<Vec<Contestant>, String>| match contestants {
        Ok(contestants) => found.extend(contestants),
        Err(note) => skipped.push(Skipped {
            name: name.to_owned(),
            note,
        }),
    };
    match group {
        "floor" => take("floor", floor_of(&own_program()?)),
        "viaduct" => take("viaduct", viaduct(places)),
        "ucx" => {
            take("UCX of the system", ucx(places, None));
            let wheel = ucx_wheel().and_then(|wheel| ucx(places, Some(&wheel)));
            take("UCX of the wheel", wheel);
        }
        "libfabric" => take("libfabric", libfabric(places)),
        "openmpi" => take("Open MPI", open_mpi(places)),
        "iceoryx2" => take("iceoryx2", iceoryx2(places)),
        _ => take("sockets and pipe", sockets(places)),
    }
    Ok((found, skipped))
}

fn floor_of(own: &Path) -> Result<Vec<Contestant>, String> {
    let prefix = [own.to_string_lossy().into_owned(), floor::FIRST.to_owned()];
    let part = |name, role, kind| Contestant::program("floor", name, role, &prefix, kind);
    Ok(vec![
        part("line, two", Role::Line, floor::LINE),
        part("line, one", Role::Floor, "line-one"),
        part("bare ring", Role::Ring, "ring"),
        part("one copy", Role::Floor, "copy"),
        part("one copy, non-temporal", Role::Floor, "copy-nt"),
        part("futex", Role::Futex, "futex"),
    ])
}

fn viaduct(places: &Places<'_>) -> Result<Vec<Contestant>, String> {
    let program = own_program_in_c(places)?;
    let mode = |name, role, kind| Contestant::program("viaduct", name, role, &[&program], kind);
    Ok(vec![
        mode("viaduct", Role::Ours, "ordinary"),
        mode("viaduct, library memory", Role::OursLibrary, "library"),
        mode("viaduct, blocked", Role::OursBlocked, "blocked"),
    ])
}

/// Builds our own program beside those of the peers, on the C library that lies beside the command.
///
/// # Errors
///
/// One line: what is missing, and how to make it.
pub(crate) fn own_program_in_c(places: &Places<'_>) -> Result<String, String> {
    /// What a program asks for that was linked with it.
    const NAME: &str = "libvipl.so.1";

    let install = "cargo build --release --package viaduct-vipl";
    let library = places.viaduct.with_file_name("libvipl.so");
    let library = std::fs::canonicalize(library)
        .map_err(|_| format!("skipped: no libvipl.so beside the command ({install})"))?;
    let link = places.build.join(NAME);
    // One of a run before may lead elsewhere, or there is none.
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&library, &link)
        .map_err(|error| format!("skipped: {}: {error}", link.display()))?;
    let root = places.bench.join("..");
    let examples = root.join("examples/c");
    let build = places.build.display();
    let flags = [
        format!("-I{}", root.join("include").display()),
        format!("-I{}", examples.display()),
        examples.join("common.c").display().to_string(),
        library.display().to_string(),
        format!("-Wl,-rpath,{build}"),
        "-lpthread".to_owned(),
    ];
    compile(places, "cc", "viaduct", "viaduct", &flags, install)
}

fn ucx(places: &Places<'_>, wheel: Option<&Path>) -> Result<Vec<Contestant>, String> {
    let mut flags = Vec::new();
    let (mark, install) = match wheel {
        Some(wheel) => {
            let libraries = wheel.join("lib").display().to_string();
            flags.push(format!("-I{}", wheel.join("include").display()));
            flags.push(format!("-L{libraries}"));
            flags.push(format!("-Wl,-rpath,{libraries}"));
            ("wheel", "PyPI: libucx-cu12")
        }
        None => ("system", "Debian: libucx-dev ucx-utils"),
    };
    flags.extend(["-lucp".to_owned(), "-lucs".to_owned()]);
    let program = compile(places, "cc", "ucx", &format!("ucx-{mark}"), &flags, install)?;
    let ours = |kind: &str| {
        let name = format!("UCX {kind}, {mark}");
        Contestant::program("ucx", &name, Role::TwoSided, &[&program], kind)
    };
    let mut found = vec![ours("am"), ours("tag")];
    let tests: &[(&str, Role)] = match places.is_full {
        true => &[
            ("put", Role::OneSided),
            ("am", Role::TwoSided),
            ("tag", Role::TwoSided),
        ],
        false => &[("put", Role::OneSided)],
    };
    for (test, role) in tests {
        if let Some(perftest) = Perftest::find(wheel, test) {
            found.push(Contestant {
                group: "ucx",
                name: format!("UCX {test}, {mark}, perftest"),
                role: *role,
                source: Source::Perftest(perftest),
            });
        }
    }
    Ok(found)
}

/// The folder of the Python package that carries a newer UCX.
fn ucx_wheel() -> Result<PathBuf, String> {
    let missing = || "skipped: no Python package libucx (PyPI: libucx-cu12)".to_owned();
    let script = "import libucx, os; print(os.path.dirname(libucx.__file__))";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let output = process::run(&mut command, LIMIT).map_err(|_| missing())?;
    let folder = PathBuf::from(output.trim());
    match folder.join("include/ucp/api/ucp.h").is_file() {
        true => Ok(folder),
        false => Err(missing()),
    }
}

fn libfabric(places: &Places<'_>) -> Result<Vec<Contestant>, String> {
    let flags = ["-lfabric".to_owned()];
    let install = "Debian: libfabric-dev";
    let program = compile(places, "cc", "libfabric", "libfabric", &flags, install)?;
    let role = Role::TwoSided;
    let shm = Contestant::program("libfabric", "libfabric shm", role, &[program], "shm");
    Ok(vec![shm])
}

fn open_mpi(places: &Places<'_>) -> Result<Vec<Contestant>, String> {
    let install = "Debian: libopenmpi-dev openmpi-bin";
    let program = compile(places, "mpicc", "openmpi", "openmpi", &[], install)?;
    // Both ranks pin themselves. A container often runs as root and counts its cores in other ways.
    let launcher = "mpirun -np 2 --allow-run-as-root --oversubscribe --bind-to none";
    let mut prefix: Vec<&str> = launcher.split(' ').collect();
    prefix.push(&program);
    let role = Role::TwoSided;
    let mpi = Contestant::program("openmpi", "Open MPI", role, &prefix, "mpi");
    Ok(vec![mpi])
}

fn iceoryx2(places: &Places<'_>) -> Result<Vec<Contestant>, String> {
    const BUILD_LIMIT: Duration = Duration::from_secs(900);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = places.build.join("iceoryx2");
    let program = target.join("release/viaduct-bench-iceoryx2");
    if !program.is_file() {
        println!("building iceoryx2: a minute or two the first time");
    }
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(&target)
        .current_dir(places.bench.join("peers/iceoryx2"));
    process::run(&mut command, BUILD_LIMIT).map_err(|error| format!("skipped: {error}"))?;
    let program = program.display().to_string();
    let mode = |name, role, kind| Contestant::program("iceoryx2", name, role, &[&program], kind);
    Ok(vec![
        mode("iceoryx2, in place", Role::ZeroCopy, "in-place"),
        mode("iceoryx2, copied", Role::TwoSided, "copied"),
    ])
}

fn sockets(places: &Places<'_>) -> Result<Vec<Contestant>, String> {
    let program = compile(places, "cc", "sockets", "sockets", &[], "a C compiler")?;
    let mut found = Vec::new();
    for (kind, name) in [
        ("pipe", "pipe"),
        ("unix", "Unix socket"),
        ("tcp", "TCP loopback"),
    ] {
        let modes = [
            (name.to_owned(), Role::TwoSided, kind.to_owned()),
            (
                format!("{name}, blocked"),
                Role::Blocked,
                format!("{kind}-block"),
            ),
        ];
        for (name, role, kind) in modes {
            found.push(Contestant::program(
                "sockets",
                &name,
                role,
                &[&program],
                &kind,
            ));
        }
    }
    Ok(found)
}

/// Compiles `peers/FOLDER/FOLDER.c`; gives the program's path.
///
/// # Errors
///
/// One line: what is missing, and what to install.
fn compile(
    places: &Places<'_>,
    compiler: &str,
    folder: &str,
    name: &str,
    flags: &[String],
    install: &str,
) -> Result<String, String> {
    let peers = places.bench.join("peers");
    let program = places.build.join(name);
    let own = if compiler == "cc" {
        std::env::var_os("CC")
    } else {
        None
    };
    let mut command = Command::new(own.unwrap_or_else(|| compiler.into()));
    command
        .args(["-O3", "-std=gnu11"])
        .arg(format!("-I{}", peers.join("common").display()))
        .arg(peers.join(folder).join(format!("{folder}.c")))
        .arg("-o")
        .arg(&program)
        .args(flags);
    let output = command.output().map_err(|_| {
        let compiler = command.get_program().to_string_lossy();
        format!("skipped: no {compiler} ({install})")
    })?;
    if output.status.success() {
        return Ok(program.display().to_string());
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = message.lines().find(|line| line.contains("error"));
    let error = error.unwrap_or_default();
    if error.contains("No such file") {
        let header = error.split(": ").nth(2).unwrap_or("a header");
        return Err(format!("skipped: no {header} ({install})"));
    }
    Err(format!("skipped: {folder}.c does not compile: {error}"))
}
