//! A ring all-reduce frame by frame beside htsim, in packets a second of processor time.
//!
//! Both have 1,024 hosts on a tree of three levels at 400 Gbit/s, frames of 4,096 bytes, windows by
//! NSCC and switches that trim. The peer makes a connection for each message, some 20 kB, so that
//! it is given the first steps of the ring and we all of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Viaduct, children_s};
use crate::table::{Row, Samples, Target};

const HOSTS: u32 = 1_024;
const STEPS: u32 = 2 * (HOSTS - 1);
/// Of the 16 MiB a host sends to the next one in a step.
const PART_BYTES: u32 = (16 << 20) / HOSTS;
/// Of a frame of 4,096 bytes, 64 of which are the peer's header.
const PAYLOAD_BYTES: u32 = 4_032;
/// How many steps the peer makes.
const PEER_STEPS: u32 = 20;

const STUDY: &str = "\
[run]
until = \"1 s\"
[network]
topology = \"clos\"
radix = 16
[links]
model = \"packets\"
switching = \"store-and-forward\"
rate = \"400 Gbit/s\"
propagation = \"1 us\"
frame_payload = \"4032 B\"
frame_header = \"64 B\"
buffer = \"937440 B\"
full = \"trim\"
ecn_low = \"187488 B\"
ecn_high = \"749952 B\"
congestion_control = \"nscc\"
[hosts]
nic = \"ideal\"
prepost = \"unlimited\"
[traffic]
arrivals = \"collective\"
collective = \"all-reduce\"
bytes = \"16 MiB\"
";

const OURS: &str = "ring all-reduce of 16 MiB, 1,024 hosts, packets a CPU second";
const PEER: &str = "of it, the first steps on htsim";

/// All of it.
pub(crate) fn measure(viaduct: &Viaduct, out: &Path, repeat: usize) -> Vec<Row> {
    let directory = out.join(format!("rings-{}", std::process::id()));
    let rows = measured(viaduct, &directory, repeat.min(3));
    // What is left of it would grow from run to run.
    let _ = std::fs::remove_dir_all(&directory);
    rows.unwrap_or_else(|reason| vec![Row::missing(OURS, reason)])
}

fn measured(viaduct: &Viaduct, directory: &Path, repeat: usize) -> Result<Vec<Row>, String> {
    let unwritten = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(unwritten)?;
    let study = directory.join("ring.toml");
    std::fs::write(&study, STUDY).map_err(unwritten)?;
    std::fs::write(directory.join("ring.cm"), connections()).map_err(unwritten)?;
    std::fs::write(directory.join("tree.topo"), tree()).map_err(unwritten)?;
    let peer = peer();
    let packets = f64::from(HOSTS * STEPS) * f64::from(PART_BYTES.div_ceil(PAYLOAD_BYTES));
    let [mut ours, mut theirs, mut times] = [const { Samples::EMPTY }; 3];
    let [mut seconds, mut megabytes] = [const { Samples::EMPTY }; 2];
    for _ in 0..repeat {
        let before_s = children_s()?;
        let run = viaduct.run(&study.display().to_string(), &[])?;
        let spent_s = children_s()? - before_s;
        ours.add(packets / spent_s);
        seconds.add(spent_s);
        megabytes.add(run.number("peak_rss_bytes")? * 1e-6);
        if let Some(peer) = &peer {
            let rate = peer_rate(peer, directory)?;
            theirs.add(rate);
            times.add(packets / spent_s / rate);
        }
    }
    let mut rows = vec![
        Row::new(OURS, "1/s", Target::None, &ours),
        Row::new("of it, processor time", "s", Target::None, &seconds),
        Row::new("of it, memory", "MB", Target::None, &megabytes),
    ];
    match peer {
        Some(_) => rows.extend([
            Row::new(PEER, "1/s", Target::None, &theirs),
            Row::new("ours over htsim's", "times", Target::AtLeast(5.0), &times),
        ]),
        None => rows.push(Row::missing(
            PEER,
            "skipped: no htsim_uec (see bench/peers/README.md), or HTSIM does not name it",
        )),
    }
    Ok(rows)
}

/// The peer's program: what `HTSIM` names, or the first on the path.
fn peer() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HTSIM") {
        return Some(named.into()).filter(|path: &PathBuf| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("htsim_uec"));
    all.find(|program| program.is_file())
}

/// The steps of the ring as the peer reads them: a message begins when the one that was to come to
/// its sender has ended.
fn connections() -> String {
    let triggers = HOSTS * (PEER_STEPS - 1);
    let connections = HOSTS * PEER_STEPS;
    let mut text = format!("Nodes {HOSTS}\nConnections {connections}\nTriggers {triggers}\n");
    for step in 0..PEER_STEPS {
        for host in 0..HOSTS {
            let (next, before) = ((host + 1) % HOSTS, (host + HOSTS - 1) % HOSTS);
            let id = step * HOSTS + host + 1;
            let _ = write!(text, "{host}->{next} id {id} ");
            match step.checked_sub(1) {
                None => text.push_str("start 0"),
                Some(former) => {
                    let _ = write!(text, "trigger {}", former * HOSTS + before + 1);
                }
            }
            let _ = write!(text, " size {PART_BYTES}");
            if step + 1 < PEER_STEPS {
                let _ = write!(text, " send_done_trigger {id}");
            }
            text.push('\n');
        }
    }
    for trigger in 1..=triggers {
        let _ = writeln!(text, "trigger id {trigger} oneshot");
    }
    text
}

/// The tree as the peer reads it: eight hosts a switch, eight switches a pod, sixteen pods.
fn tree() -> String {
    let mut text = format!("Nodes {HOSTS}\nTiers 3\nPodsize 64\n");
    for (tier, up, down) in [(0, Some(8), 8), (1, Some(8), 8), (2, None, 16)] {
        let _ = writeln!(text, "\nTier {tier}");
        if let Some(up) = up {
            let _ = writeln!(text, "Oversubscribed 1\nRadix_Up {up}");
        }
        let _ = writeln!(
            text,
            "Downlink_speed_Gbps 400\nRadix_Down {down}\nDownlink_Latency_ns 1000\n\
             Switch_Latency_ns 0"
        );
        if tier > 0 {
            text.push_str("Bundle 1\n");
        }
    }
    text
}

/// Packets a second of processor time, of the peer's first steps.
fn peer_rate(program: &Path, directory: &Path) -> Result<f64, String> {
    let shown = program.display();
    let before_s = children_s()?;
    let output = Command::new(program)
        .current_dir(directory)
        .args(["-tm", "ring.cm", "-topo", "tree.topo", "-nodes"])
        .arg(HOSTS.to_string())
        .args(["-linkspeed", "400000", "-mtu", "4096", "-paths", "128"])
        .args(["-sender_cc_only", "-end", "1000000", "-o", "log"])
        .output()
        .map_err(|error| format!("{shown} does not run: {error}"))?;
    let spent_s = children_s()? - before_s;
    let text = String::from_utf8_lossy(&output.stdout);
    let sent = text.lines().rev().find_map(|line| {
        let (count, _) = line.strip_prefix("New: ")?.split_once(' ')?;
        count.parse::<u32>().ok()
    });
    let expected = HOSTS * PEER_STEPS * PART_BYTES.div_ceil(PAYLOAD_BYTES);
    match sent {
        Some(sent) if sent == expected => Ok(f64::from(sent) / spent_s),
        sent => Err(format!(
            "{shown}, {}: it says {sent:?} packets, and {expected} are expected",
            output.status
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_but_the_first_of_a_host_waits_for_the_one_that_comes_to_it() {
        let text = connections();
        let last = HOSTS * PEER_STEPS;
        for line in [
            "0->1 id 1 start 0 size 16384 send_done_trigger 1",
            "0->1 id 1025 trigger 1024 size 16384 send_done_trigger 1025",
            "1->2 id 1026 trigger 1 size 16384 send_done_trigger 1026",
            &format!("1023->0 id {last} trigger {} size 16384", last - HOSTS - 1),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}");
        }
        assert_eq!(text.matches(" oneshot\n").count() as u32, last - HOSTS);
    }
}
