//! Stock programs of two sides over our libraries: a server on the second core, a client on the
//! first.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::transports::{self, Running, free_port, leashed, listens, run};

const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// A program of two sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Of the launcher, where it runs over ours.
    pub(crate) options: &'static [&'static str],
    pub(crate) arguments: &'static [&'static str],
}

/// What carries a program's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over<'a> {
    /// Our libraries, by the command.
    Ours(&'a Path),
    /// What UCX has of its own for one machine.
    SharedMemory,
}

impl Program {
    /// Runs both sides and gives what the client printed.
    ///
    /// # Errors
    ///
    /// One line: what either side said.
    pub(crate) fn run(&self, over: Over<'_>, cores: [usize; 2]) -> Result<String, String> {
        let port = free_port().map_err(|error| format!("no port: {error}"))?;
        let server = Running::start(&mut self.side(over, cores[1], port)?)?;
        let deadline = Instant::now() + LIMIT;
        while !listens(port) {
            if Instant::now() > deadline {
                return Err(format!("the server of {} does not listen", self.name));
            }
            std::thread::sleep(LOOK);
        }
        let mut client = self.side(over, cores[0], port)?;
        client.arg(Ipv4Addr::LOCALHOST.to_string());
        let output = run(&mut client, LIMIT)?;
        server.finish(LIMIT)?;
        Ok(output)
    }

    fn side(&self, over: Over<'_>, core: usize, port: u16) -> Result<Command, String> {
        let mut command = leashed("taskset")?;
        command.args(["-c", &core.to_string()]);
        match over {
            Over::Ours(viaduct) => {
                command
                    .arg(viaduct)
                    .arg("rdma")
                    .args(self.options)
                    .arg("--");
                command.env("UCX_TLS", "rc_v,self");
                command.env("UCX_NET_DEVICES", "viaduct0:1");
            }
            Over::SharedMemory => {
                command.env("UCX_TLS", "posix,cma");
            }
        }
        command.arg(self.name).args(["-p", &port.to_string()]);
        command.args(self.arguments);
        Ok(command)
    }

    /// The typical latency of a program of perftest, in microseconds.
    ///
    /// # Errors
    ///
    /// One line: what either side said, or that it printed no figure.
    pub(crate) fn typical_us(&self, viaduct: &Path, cores: [usize; 2]) -> Result<f64, String> {
        self.figure(&self.run(Over::Ours(viaduct), cores)?, 4)
    }

    /// The bytes a second of one, on average, in MiB.
    ///
    /// # Errors
    ///
    /// As [`Program::typical_us`].
    pub(crate) fn mebibytes_a_second(
        &self,
        viaduct: &Path,
        cores: [usize; 2],
    ) -> Result<f64, String> {
        self.figure(&self.run(Over::Ours(viaduct), cores)?, 3)
    }

    /// The median latency of `ucx_perftest`, in microseconds.
    ///
    /// # Errors
    ///
    /// As [`Program::typical_us`].
    pub(crate) fn median_us(&self, over: Over<'_>, cores: [usize; 2]) -> Result<f64, String> {
        let output = self.run(over, cores)?;
        let figure = transports::median_latency_us(&output);
        figure.ok_or_else(|| format!("{} printed no figures", self.name))
    }

    /// The figure in a column of the line of a table of perftest.
    fn figure(&self, output: &str, column: usize) -> Result<f64, String> {
        column_of(output, column).ok_or_else(|| format!("{} printed no figures", self.name))
    }
}

/// The lines of the table begin with two whole numbers: bytes, iterations.
fn column_of(output: &str, column: usize) -> Option<f64> {
    output.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [bytes, iterations, ..] = words[..] else {
            return None;
        };
        bytes.parse::<u64>().ok()?;
        iterations.parse::<u64>().ok()?;
        words.get(column)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_line_below_the_heading() {
        let latency = "\
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]
 8       100000          0.31           5.65         0.44     \t       0.45
---------------------------------------------------------------------------------------
";
        assert_eq!(column_of(latency, 4), Some(0.44));
        let bandwidth = "\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      2000             8957.79            1741.39\t\t   0.027862
";
        assert_eq!(column_of(bandwidth, 3), Some(1741.39));
        assert_eq!(column_of("Unable to find the device\n", 3), None);
    }
}
