//! Congestion control frame by frame: many flows over a tree, with windows (NSCC) and switches that
//! trim.
//!
//! The peer is htsim's simulator of Ultra Ethernet. It is not built here: what it was measured to
//! take, on another machine, is quoted.

use std::fmt::Write as _;
use std::path::Path;

use crate::command::Viaduct;
use crate::table::{Row, Samples, Target};

const BYTES: u32 = 2_000_000;
/// What the peer took: `htsim_uec -sender_cc_only -paths 128` of ultraethernet/uet-htsim, commit
/// 40ccb05, at 100 Gbit/s, 1 us a link and 4,150 bytes a packet.
const PEER: &str = "quoted: uet-htsim 40ccb05, elsewhere";

/// The peer's network, adapters that cost nothing, and its queues: they hold what a link carries in
/// an unloaded round trip, and mark between a fifth and four fifths of it.
const STUDY: &str = "\
[run]
until = \"100 ms\"
[network]
topology = \"clos\"
radix = RADIX
equal_paths = \"PATHS\"
[links]
model = \"packets\"
switching = \"store-and-forward\"
rate = \"100 Gbit/s\"
propagation = \"1 us\"
frame_payload = \"4086 B\"
frame_header = \"64 B\"
buffer = \"178450 B\"
full = \"trim\"
ecn_low = \"37350 B\"
ecn_high = \"145250 B\"
congestion_control = \"nscc\"
[hosts]
nic = \"ideal\"
prepost = \"unlimited\"
[traffic]
arrivals = \"list\"
file = \"flows.csv\"
";

/// Flows of [`BYTES`] that begin at one time.
#[derive(Clone)]
struct Flows {
    name: &'static str,
    /// Ports of the switches of the tree, and how flows or frames choose among its ways.
    radix: u32,
    equal_paths: &'static str,
    ends: Vec<(u32, u32)>,
    seconds_max: f64,
    megabytes_max: Option<f64>,
    peer_s: f64,
    peer_megabytes: Option<f64>,
}

pub(crate) fn measure(viaduct: &Viaduct, out: &Path, repeat: usize) -> Vec<Row> {
    let directory = out.join(format!("congestion-{}", std::process::id()));
    let permutation = Flows {
        name: "NSCC, permutation of 1,024 x 2 MB over three levels, 100 Gbit/s",
        radix: 16,
        equal_paths: "hash",
        ends: permutation(1_024),
        seconds_max: 17.6 / 5.0,
        megabytes_max: Some(60.0),
        peer_s: 17.6,
        peer_megabytes: Some(145.0),
    };
    let incast = Flows {
        name: "NSCC, incast of 127 x 2 MB over three levels, 100 Gbit/s",
        radix: 8,
        equal_paths: "hash",
        ends: (1..128).map(|source| (source, 0)).collect(),
        seconds_max: 0.87 / 3.0,
        megabytes_max: None,
        peer_s: 0.87,
        peer_megabytes: None,
    };
    let spray = Flows {
        name: "the permutation with frames that take all ways in turn",
        equal_paths: "spray",
        ..permutation.clone()
    };
    let least_queued = Flows {
        name: "the permutation with frames that take the shortest queue",
        equal_paths: "least-queued",
        ..permutation.clone()
    };
    let mut rows = Vec::new();
    for flows in [permutation, spray, least_queued, incast] {
        let measured = flows.measure(viaduct, &directory, repeat.min(3));
        rows.extend(measured.unwrap_or_else(|reason| vec![Row::missing(flows.name, reason)]));
    }
    // What is left of it would grow from run to run.
    let _ = std::fs::remove_dir_all(&directory);
    rows
}

/// Each of some hosts sends to another one, and nobody to itself; the same in each run.
fn permutation(hosts: u32) -> Vec<(u32, u32)> {
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    // Sattolo: one ring through all of them, so that nobody keeps its place.
    let mut targets: Vec<u32> = (0..hosts).collect();
    for place in (1..targets.len()).rev() {
        targets.swap(place, draw(place));
    }
    (0..hosts).zip(targets).collect()
}

impl Flows {
    fn measure(
        &self,
        viaduct: &Viaduct,
        directory: &Path,
        repeat: usize,
    ) -> Result<Vec<Row>, String> {
        let unwritten = |error: std::io::Error| format!("{}: {error}", directory.display());
        std::fs::create_dir_all(directory).map_err(unwritten)?;
        let mut list = String::from("time_us,source,target,bytes\n");
        for (source, target) in &self.ends {
            let _ = writeln!(list, "0,{source},{target},{BYTES}");
        }
        std::fs::write(directory.join("flows.csv"), list).map_err(unwritten)?;
        let study = directory.join("flows.toml");
        let text = STUDY.replace("RADIX", &self.radix.to_string());
        let text = text.replace("PATHS", self.equal_paths);
        std::fs::write(&study, text).map_err(unwritten)?;
        let [mut seconds, mut megabytes] = [const { Samples::EMPTY }; 2];
        let [mut median, mut last] = [const { Samples::EMPTY }; 2];
        for _ in 0..repeat {
            let run = viaduct.run(&study.display().to_string(), &[])?;
            seconds.add(run.process_s);
            megabytes.add(run.number("peak_rss_bytes")? * 1e-6);
            median.add(run.number("latency_us/p50")?);
            last.add(run.number("latency_us/max")?);
        }
        let memory = format!("{}: memory", self.name);
        let most = self.megabytes_max.map_or(Target::None, Target::AtMost);
        let mut rows = vec![
            Row::new(self.name, "s", Target::AtMost(self.seconds_max), &seconds),
            Row::quoted("the peer's processor time", "s", self.peer_s, PEER),
            Row::new(memory, "MB", most, &megabytes),
        ];
        let of = |what| format!("{}: {what}", self.name);
        rows.push(Row::new(
            of("half of the flows are there after"),
            "us",
            Target::None,
            &median,
        ));
        rows.push(Row::new(
            of("the last one is there after"),
            "us",
            Target::None,
            &last,
        ));
        let peer = self.peer_megabytes;
        rows.extend(peer.map(|peer| Row::quoted("the peer's memory", "MB", peer, PEER)));
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_sends_to_another_and_each_is_sent_to() {
        let ends = permutation(1_024);
        assert!(ends.iter().all(|(source, target)| source != target));
        let mut targets: Vec<_> = ends.iter().map(|(_, target)| *target).collect();
        targets.sort_unstable();
        assert!(targets.into_iter().eq(0..1_024));
    }
}
