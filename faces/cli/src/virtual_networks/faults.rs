//! `--fault` on simulated interfaces: lines into faults of a cluster.

use viaduct_engine::Time;
use viaduct_lanai::{Config, Fault};
use viaduct_scenario::{parse_time, read_faults};
use viaduct_topology::{HostId, Topology};

use crate::failure::Failure;

const FORMS: &str = "the forms are `link host 1 down 10 ms..20 ms` (its cable), `link leaf0 <-> spine1 \
                     down 10 ms..`, `link switch spine1 down ..20 ms`, `loss 0.1 %`, `host 1 \
                     dies at 5 ms`, `nic 1 dies at 5 ms`, `host 1 slow 2.5 times from 1 ms`, \
                     `host 1 reboots at 5 ms for 100 ms`";

/// Reads lines, and holds them to a cluster.
pub(super) fn read(lines: &[String], config: &Config) -> Result<Vec<Fault>, Failure> {
    let topology = config.joined().map_err(Failure::plain)?;
    let mut faults = Vec::new();
    for line in lines {
        if let Some(reboot) = reboot(line, (config, &topology))? {
            faults.push(reboot);
            continue;
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        // Of other faults it is said below what they would need.
        if !["link", "host", "nic", "loss", "corruption"].contains(&first) {
            return Err(Failure::new(
                format!("`--fault {line}`: it begins with none of link, loss, corruption, host"),
                FORMS,
            ));
        }
        for fault in read_faults(core::slice::from_ref(line), &topology)? {
            let fault = Fault::of_cluster(&fault, config, &topology);
            let wrong = |reason| Failure::new(format!("`--fault {line}`: {reason}"), FORMS);
            faults.push(fault.map_err(wrong)?);
        }
    }
    let with_faults = Config {
        faults,
        ..config.clone()
    };
    match with_faults.check_faults() {
        Ok(()) => Ok(with_faults.faults),
        Err(error) => Err(Failure::new(
            format!(
                "`--fault {}`: {}",
                lines[error.fault.min(lines.len() - 1)],
                error.reason
            ),
            FORMS,
        )),
    }
}

/// `host 1 reboots at 5 ms for 100 ms`; none if it is something else.
fn reboot(line: &str, (config, topology): (&Config, &Topology)) -> Result<Option<Fault>, Failure> {
    let Some((host, rest)) = line.split_once("reboots") else {
        return Ok(None);
    };
    let wrong = |problem: &str| Failure::new(format!("`--fault {line}`: {problem}"), FORMS);
    let host = host.trim().strip_prefix("host").map(str::trim);
    let host = host.and_then(|host| host.parse().ok());
    let host = host.ok_or_else(|| wrong("hosts have numbers, from 0"))?;
    let count = topology.host_count();
    if host >= count {
        return Err(wrong(&format!(
            "no host {host}: they are 0 to {}",
            count - 1
        )));
    }
    let host = config.host_at(topology, HostId(host));
    let host = host.ok_or_else(|| wrong("that host takes no part"))?;
    let times = rest
        .trim()
        .strip_prefix("at ")
        .and_then(|it| it.split_once(" for "));
    let (at, down_for) = times.ok_or_else(|| wrong("when, and for how long?"))?;
    let time = |text: &str| -> Result<Time, Failure> {
        parse_time(text.trim())
            .map_err(|error| wrong(&format!("{}: {}", text.trim(), error.problem)))
    };
    Ok(Some(Fault::Reboot {
        host,
        at: time(at)?,
        down_for: Some(time(down_for)?),
    }))
}
