//! Stock RDMA programs on simulated hosts, in simulated time: how much slower than that they are.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::table::{Row, Samples, Target};

const HOSTS: &str = "sim:rnic-gen5";
/// Exchanges of two runs. What both do beside them, such as reading the clock for 0.2 s, is not in
/// the difference.
const FEW: u32 = 1000;
const MANY: u32 = 10_000;
/// Real time over simulated time.
const SLOWER_MAX: f64 = 30.0;

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
    rows.into()
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
