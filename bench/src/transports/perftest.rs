//! `ucx_perftest` as UCX ships it: a loop that others publish figures of.
//!
//! It is a server and a client that meet over TCP and then measure over shared memory. It never
//! touches the data.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::protocol::Test;
use crate::transports::cell::{Cell, Figures};
use crate::transports::process::{self, Running, leashed};

const PROGRAM: &str = "ucx_perftest";
/// Between two looks whether the server listens.
const LOOK: Duration = Duration::from_millis(5);
/// Half a round trip, or a message, of few bytes and of a byte more, in the worst placement: for
/// the number of iterations.
const MESSAGE_S: f64 = 0.3e-6;
const BYTE_S: f64 = 0.2e-9;
const DURATION_S: f64 = 0.1;

/// One test of one installed UCX.
#[derive(Clone, Debug)]
pub(crate) struct Perftest {
    program: PathBuf,
    /// Where a wheel has its libraries; it does not find them by itself.
    libraries: Option<PathBuf>,
    version: String,
    /// `put`, `am` or `tag`.
    test: String,
}

impl Perftest {
    /// The program of a wheel, or of the system; none when it is not there or does not run.
    pub(crate) fn find(wheel: Option<&Path>, test: &str) -> Option<Self> {
        let path = |name: &str| match wheel {
            Some(wheel) => wheel.join("bin").join(name),
            None => name.into(),
        };
        let mut found = Self {
            program: path(PROGRAM),
            libraries: wheel.map(|wheel| wheel.join("lib")),
            version: String::new(),
            test: test.to_owned(),
        };
        let limit = Duration::from_secs(10);
        let mut help = found.command(&found.program).ok()?;
        process::run(help.arg("-h"), limit).ok()?;
        let mut info = found.command(&path("ucx_info")).ok()?;
        found.version = version(&process::run(info.arg("-v"), limit).ok()?);
        Some(found)
    }

    fn command(&self, program: &Path) -> Result<Command, String> {
        let mut command = leashed(program)?;
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if std::env::var_os("UCX_TLS").is_none() {
            command.env("UCX_TLS", "posix,cma");
        }
        Ok(command)
    }

    /// Measures an untouched cell.
    ///
    /// # Errors
    ///
    /// One line: what either side said, or that the watchdog ended it.
    pub(crate) fn measure(
        &self,
        cell: Cell,
        cores: [usize; 2],
        limit: Duration,
    ) -> Result<Figures, String> {
        let port = free_port().map_err(|error| format!("no port for {PROGRAM}: {error}"))?;
        let side = |core: usize| {
            let mut command = self.command(&self.program)?;
            command.args(["-p", &port.to_string(), "-c", &core.to_string()]);
            Ok::<_, String>(command)
        };
        let server = Running::start(&mut side(cores[1])?)?;
        let deadline = Instant::now() + limit;
        while !listens(port) {
            if Instant::now() > deadline {
                return Err(format!("the server of {PROGRAM} does not listen"));
            }
            std::thread::sleep(LOOK);
        }
        let mut client = side(cores[0])?;
        client.arg(Ipv4Addr::LOCALHOST.to_string());
        client.args([
            "-t",
            &self.word(cell),
            "-s",
            &cell.bytes.to_string(),
            "-f",
            "-v",
        ]);
        let iterations = iterations(cell.bytes);
        client.args([
            "-n",
            &iterations.to_string(),
            "-w",
            &(iterations / 10).to_string(),
        ]);
        let output = process::run(&mut client, limit)?;
        server.finish(limit)?;
        let value = read(cell, &output).ok_or("ucx_perftest printed no figures")?;
        Ok(Figures {
            value,
            version: self.version.clone(),
            ..Figures::default()
        })
    }

    /// The name of the test: a rate is that of its bandwidth test.
    fn word(&self, cell: Cell) -> String {
        let layer = if self.test == "tag" { "" } else { "ucp_" };
        let what = if cell.test == Test::Latency {
            "lat"
        } else {
            "bw"
        };
        format!("{layer}{}_{what}", self.test)
    }
}

fn iterations(bytes: usize) -> usize {
    (DURATION_S / (MESSAGE_S + bytes as f64 * BYTE_S)) as usize
}

/// The figure of the last line, comma-separated as its heading says: the median of a latency, as
/// everywhere here, and the whole of a rate.
fn read(cell: Cell, output: &str) -> Option<f64> {
    let mut lines = output.lines().filter(|line| line.contains(','));
    let heading = lines.next()?;
    let figures: Vec<&str> = lines.next_back()?.split(',').collect();
    let column = |name: &str| {
        let place = heading.split(',').position(|word| word == name)?;
        figures.get(place)?.trim().parse::<f64>().ok()
    };
    match cell.test {
        Test::Latency => column("50.0_percentile_lat"),
        Test::Rate => column("overall_mr").map(|rate| rate / 1e6),
        // It counts in MiB.
        Test::Bandwidth => column("overall_bw").map(|rate| rate * 1_048_576.0 / 1e9),
    }
}

/// The median latency that it printed.
pub(crate) fn median_latency_us(output: &str) -> Option<f64> {
    read(Cell::new(Test::Latency, 8, false), output)
}

fn version(output: &str) -> String {
    let word = output
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'));
    word.unwrap_or_default().to_owned()
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Whether somebody listens, without a connection that the server would take for its client.
pub(crate) fn listens(port: u16) -> bool {
    const LISTENING: &str = "0A";
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|path| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&local) && words[3] == LISTENING
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100000,0.166,0.170,0.171,44.88,1000.00,5882903,5000000
";

    #[test]
    fn figures_are_taken_from_the_columns_of_the_heading() {
        let cell = |test| Cell::new(test, 8, false);
        assert_eq!(read(cell(Test::Latency), OUTPUT), Some(0.166));
        assert_eq!(read(cell(Test::Rate), OUTPUT), Some(5.0));
        assert_eq!(read(cell(Test::Bandwidth), OUTPUT), Some(1.048_576));
        assert_eq!(read(cell(Test::Rate), "nothing,here\n"), None);
    }

    #[test]
    fn version_is_the_first_number_with_a_dot() {
        assert_eq!(
            version("# Version 1.13.1\n# Git branch '', revision 0\n"),
            "1.13.1"
        );
        assert_eq!(version("# Library version: 1.22.0\n"), "1.22.0");
    }

    #[test]
    fn port_that_somebody_listens_on_is_seen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        assert!(listens(port));
        drop(listener);
        // A process that another test starts has the socket, too, until its program begins.
        let end = Instant::now() + Duration::from_secs(10);
        while listens(port) {
            assert!(Instant::now() < end, "port {port} is still listened on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
