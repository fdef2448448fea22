//! Stock RDMA programs on simulated hosts, in simulated time: how much slower than that they are,
//! and what memory we have for each.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::table::{Row, Samples, Target};

const HOSTS: &str = "sim:rnic-gen5";
/// Exchanges of two runs. What both do beside them, such as reading the clock for 0.2 s, is not in
/// the difference.
const FEW: u32 = 1000;
const MANY: u32 = 10_000;
/// Real time over simulated time.
const SLOWER_MAX: f64 = 30.0;
/// Of all-reduces.
const RANKS: u32 = 64;
const ALL_REDUCES: u32 = 200;
const ALL_REDUCE_SLOWER_MAX: f64 = 500.0;
/// What UCX has to be told: nothing but the adapter, and receives for so many that begin at once.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("UCX_TLS", "rc_v,self"),
    ("UCX_NET_DEVICES", "viaduct0:1"),
    ("MPIR_CVAR_NOLOCAL", "1"),
    ("UCX_UD_VERBS_RX_QUEUE_LEN_INIT", "1024"),
];
/// Memory for each client.
const CLIENTS: u32 = 32;
const MEMORY_MIB_MAX: f64 = 40.0;

/// All of it.
pub(crate) fn measure(viaduct: &Path, repeat: usize) -> Vec<Row> {
    let ways = [("", false), (" -R", true)];
    let rows = ways.map(|(label, by_address)| {
        let quantity = format!("ib_send_lat{label} on {HOSTS}, real over simulated time");
        let mut samples = Samples::EMPTY;
        for _ in 0..repeat {
            match slower(viaduct, by_address) {
                Ok(times) => samples.add(times),
                Err(reason) => return Row::missing(quantity, reason),
            }
        }
        Row::new(quantity, "", Target::AtMost(SLOWER_MAX), &samples)
    });
    let program = compile_all_reduce();
    let slower = || all_reduces_slower(viaduct, program.as_ref().map_err(Clone::clone)?);
    let all_reduce = format!(
        "all-reduce of 8 B by {RANKS} ranks of MPICH on {HOSTS}, real over simulated time of the \
         loop"
    );
    let memory = format!("memory for a client of {CLIENTS}, ours and `ibv_rc_pingpong`'s");
    let mut rows = Vec::from(rows);
    rows.extend([
        sampled(all_reduce, "", ALL_REDUCE_SLOWER_MAX, repeat, slower),
        sampled(memory, "MiB", MEMORY_MIB_MAX, repeat, || {
            memory_mib(viaduct)
        }),
    ]);
    if let Ok(program) = program {
        let _ = std::fs::remove_file(program);
    }
    rows
}

fn sampled(
    quantity: String,
    unit: &'static str,
    most: f64,
    repeat: usize,
    measure: impl Fn() -> Result<f64, String>,
) -> Row {
    let mut samples = Samples::EMPTY;
    for _ in 0..repeat {
        match measure() {
            Ok(value) => samples.add(value),
            Err(reason) => return Row::missing(quantity, reason),
        }
    }
    Row::new(quantity, unit, Target::AtMost(most), &samples)
}

fn compile_all_reduce() -> Result<PathBuf, String> {
    let program = std::env::temp_dir().join(format!("viaduct-all-reduce-{}", std::process::id()));
    let source = crate::root().join("bench/peers/mpich/all_reduce.c");
    let mut compiler = Command::new("mpicc.mpich");
    compiler.arg("-O2").arg(source).arg("-o").arg(&program);
    match compiler.status() {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("mpicc.mpich ended with {status}")),
        Err(_) => Err("skipped: no mpicc.mpich (Debian: libmpich-dev)".to_owned()),
    }
}

/// Real time over simulated time, both from the first line of rank 0 to its second.
fn all_reduces_slower(viaduct: &Path, program: &Path) -> Result<f64, String> {
    let ranks = RANKS.to_string();
    let mut command = Command::new(viaduct);
    command.args([
        "rdma",
        "--on",
        HOSTS,
        "--hosts",
        &ranks,
        "--",
        "mpiexec.mpich",
    ]);
    command
        .args(["-n", &ranks])
        .arg(program)
        .arg(ALL_REDUCES.to_string());
    command.envs(ENVIRONMENT);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command
        .spawn()
        .map_err(|error| format!("{}: {error}", viaduct.display()))?;
    let lines = running.stdout.take().map(BufReader::new);
    let (mut begin, mut slower) = (None, None);
    for line in lines.into_iter().flat_map(BufReader::lines) {
        let line = line.map_err(|error| error.to_string())?;
        if line.ends_with("begins") {
            begin = Some(Instant::now());
        } else if let Some((_, us)) = line.split_once("took ")
            && let (Some(begin), Ok(us)) = (begin, us.parse::<f64>())
        {
            slower = Some(begin.elapsed().as_secs_f64() * 1e6 / us);
        }
    }
    let status = running.wait().map_err(|error| error.to_string())?;
    slower
        .filter(|_| status.success())
        .ok_or_else(|| format!("mpiexec.mpich: {status}"))
}

/// What a client that waits for its peer has of its own, most of which is its libraries', and its
/// share of what simulates them.
fn memory_mib(viaduct: &Path) -> Result<f64, String> {
    let script = "ibv_rc_pingpong -d viaduct0 -g 0 > /dev/null & sleep 1; \
                  grep ^Private_Dirty /proc/$!/smaps_rollup; grep VmHWM /proc/$PPID/status; kill $!";
    let mut command = Command::new(viaduct);
    command.args(["rdma", "--on", HOSTS, "--"]);
    for host in 0..CLIENTS {
        let colon = (host > 0).then_some(":");
        command.args(colon).args(["sh", "-c", script]);
    }
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", viaduct.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let kib = |name: &str| -> Vec<f64> {
        let of = said.lines().filter(|line| line.contains(name));
        let words = of.filter_map(|line| line.split_whitespace().rev().nth(1));
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let (own, ours) = (kib("Private_Dirty"), kib("VmHWM"));
    let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    match own.len() == CLIENTS as usize && !ours.is_empty() {
        true => Ok((most(&own) + most(&ours) / f64::from(CLIENTS)) / 1024.0),
        false => Err(format!("{} of {CLIENTS} clients have told", own.len())),
    }
}

fn slower(viaduct: &Path, by_address: bool) -> Result<f64, String> {
    let few = run(viaduct, by_address, FEW)?;
    let many = run(viaduct, by_address, MANY)?;
    Ok((many.0 - few.0) / (many.1 - few.1))
}

/// Seconds that a run took, and that it simulated.
fn run(viaduct: &Path, by_address: bool, exchanges: u32) -> Result<(f64, f64), String> {
    let exchanges = exchanges.to_string();
    let mut program = vec!["ib_send_lat", "-F", "-d", "viaduct0", "-n", &exchanges];
    if by_address {
        program.push("-R");
    }
    let mut command = Command::new(viaduct);
    command.args(["rdma", "--on", HOSTS, "--"]).args(&program);
    command.arg(":").args(&program).arg("host0");
    let begin = Instant::now();
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", viaduct.display()))?;
    let real_s = begin.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let simulated_s = output.status.success().then(|| simulated_s(&said));
    let Some(simulated_s) = simulated_s.flatten() else {
        let last = said.lines().last().unwrap_or("it says nothing");
        return Err(format!("ib_send_lat: {last}"));
    };
    Ok((real_s, simulated_s))
}

/// What the command says at the end.
fn simulated_s(said: &str) -> Option<f64> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(HOSTS)?.strip_prefix(": "))?;
    let (us, _) = line.split_once(" us of simulated time")?;
    Some(us.parse::<f64>().ok()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_time_is_that_of_the_last_line() {
        let said = "warning: one\nsim:rnic-gen5: 469117.692 us of simulated time, 20000 messages\n";
        assert_eq!(simulated_s(said), Some(0.469_117_692));
        assert_eq!(simulated_s("error: none"), None);
    }
}
