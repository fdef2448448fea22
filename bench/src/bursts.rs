//! Messages that begin together, and many messages on one link: what the sharing of links costs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::command::Viaduct;
use crate::simgrid::SimGrid;
use crate::table::{Row, Samples, Target};

const BYTES: u32 = 32 * 1024;
const TORUS_HOSTS: u64 = 1024;
const SWITCH_HOSTS: u64 = 64;

/// Some messages that all begin at time zero.
struct Burst {
    name: &'static str,
    /// As the peer's program names it.
    network: &'static str,
    network_toml: &'static str,
    /// Source and target of each.
    messages: Vec<(u64, u64)>,
    seconds_max: f64,
    /// Whether the peer ends in some seconds.
    is_for_peer: bool,
}

const TORUS: &str = "topology = \"torus\"\ndimensions = [16, 16]\nhosts_per_switch = 4\n";
const SWITCH: &str = "topology = \"switch\"\nhosts = 64\n";

/// A link that all hosts but one keep busy, a message each: the next begins when one ends.
const CROWD: &str = "\
[run]
until = \"30 s\"
[network]
topology = \"switch\"
[links]
rate = \"856 Mbit/s\"
[hosts]
nic = \"ideal\"
[traffic]
pattern = \"incast\"
arrivals = \"window\"
window = 1
size_distribution = \"uniform\"
size_min = \"8 KiB\"
size_max = \"64 KiB\"
";

pub(crate) fn measure(
    viaduct: &Viaduct,
    simgrid: Result<&SimGrid, &String>,
    out: &Path,
    repeat: usize,
) -> Vec<Row> {
    let directory = out.join(format!("bursts-{}", std::process::id()));
    let mut rows = Vec::new();
    for burst in bursts() {
        let measured = burst.measure(viaduct, simgrid.ok(), &directory, repeat.min(3));
        let name = format!("burst, {}", burst.name);
        rows.extend(measured.unwrap_or_else(|reason| vec![Row::missing(&name, reason)]));
    }
    for model in ["fluid", "max-min"] {
        let name = format!("500 messages on a link, {model}, a message");
        let measured = crowd(viaduct, model, &directory, repeat.min(3));
        rows.extend(measured.unwrap_or_else(|reason| vec![Row::missing(&name, reason)]));
    }
    // What is left of it would grow from run to run.
    let _ = std::fs::remove_dir_all(&directory);
    rows
}

fn bursts() -> Vec<Burst> {
    let all_to_all = (1..SWITCH_HOSTS).flat_map(|shift| {
        (0..SWITCH_HOSTS).map(move |source| (source, (source + shift) % SWITCH_HOSTS))
    });
    vec![
        Burst {
            name: "3,000 messages on the torus",
            network: "torus",
            network_toml: TORUS,
            messages: between_any(3_000),
            seconds_max: 1.0,
            is_for_peer: true,
        },
        Burst {
            name: "100,000 messages on the torus",
            network: "torus",
            network_toml: TORUS,
            messages: between_any(100_000),
            seconds_max: 10.0,
            is_for_peer: false,
        },
        Burst {
            name: "64 hosts all to all at a switch",
            network: "switch",
            network_toml: SWITCH,
            messages: all_to_all.collect(),
            seconds_max: 1.0,
            is_for_peer: true,
        },
    ]
}

/// So many pairs of hosts, the same in each run.
fn between_any(count: usize) -> Vec<(u64, u64)> {
    let mut state = 1_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % TORUS_HOSTS
    };
    let pairs = core::iter::repeat_with(|| (draw(), draw()));
    pairs
        .filter(|(one, other)| one != other)
        .take(count)
        .collect()
}

impl Burst {
    /// Ours by the summary's wall clock; the peer's is that of its run, too.
    fn measure(
        &self,
        viaduct: &Viaduct,
        simgrid: Option<&SimGrid>,
        directory: &Path,
        repeat: usize,
    ) -> Result<Vec<Row>, String> {
        let (study, list) = self.write(directory)?;
        let [mut wall, mut last, mut peer_wall, mut peer_last, mut times] =
            [const { Samples::EMPTY }; 5];
        for _ in 0..repeat {
            let run = viaduct.run(&study.to_string_lossy(), &[])?;
            let wall_s = run.number("wall_s")?;
            wall.add(wall_s);
            last.add(run.number("latency_us/max")?);
            if let Some(simgrid) = simgrid.filter(|_| self.is_for_peer) {
                let peer = simgrid.burst(self.network, &list)?;
                peer_wall.add(peer.wall_s);
                peer_last.add(peer.last_us);
                times.add(peer.wall_s / wall_s);
            }
        }
        let name = self.name;
        let most = Target::Below(self.seconds_max);
        let mut rows = vec![
            Row::new(format!("burst, {name}"), "s", most, &wall),
            Row::new(
                format!("burst, {name}: the last ends"),
                "us",
                Target::None,
                &last,
            ),
        ];
        if !times.is_empty() {
            let near = Target::Near {
                value: last.median(),
                tolerance: 0.1,
            };
            let at_least = Target::AtLeast(1.0);
            rows.extend([
                Row::new(
                    format!("burst, {name}, SimGrid"),
                    "s",
                    Target::None,
                    &peer_wall,
                ),
                Row::new(
                    format!("burst, {name}, SimGrid: the last ends"),
                    "us",
                    near,
                    &peer_last,
                ),
                Row::new(
                    format!("burst, {name}, times SimGrid"),
                    "",
                    at_least,
                    &times,
                ),
            ]);
        }
        Ok(rows)
    }

    /// Writes the study and its list of messages; where they are.
    fn write(&self, directory: &Path) -> Result<(PathBuf, PathBuf), String> {
        let mut list = String::from("time_us,source,target,bytes\n");
        for (source, target) in &self.messages {
            let _ = writeln!(list, "0,{source},{target},{BYTES}");
        }
        let study = format!(
            "[run]\nuntil = \"10 s\"\n[network]\n{}\
             [switches]\ndelay = \"0 s\"\ncut_through = \"0 B\"\n\
             [links]\nmodel = \"max-min\"\nrate = \"856 Mbit/s\"\npropagation = \"0 s\"\n\
             frame_payload = \"0 B\"\nframe_header = \"0 B\"\n\
             [hosts]\nnic = \"ideal\"\nsend_buffers = 1024\nprepost = 1024\n\
             [traffic]\narrivals = \"list\"\nfile = \"burst.csv\"\n",
            self.network_toml
        );
        write(&directory.join("burst.csv"), &list)?;
        write(&directory.join("burst.toml"), &study)?;
        Ok((directory.join("burst.toml"), directory.join("burst.csv")))
    }
}

/// What a message costs with 500 on the link, and how many times what it costs with 5.
fn crowd(
    viaduct: &Viaduct,
    model: &str,
    directory: &Path,
    repeat: usize,
) -> Result<Vec<Row>, String> {
    let study = directory.join("crowd.toml");
    write(&study, CROWD)?;
    let model_key = format!("links.model={model}");
    let cost_us = |sources: u32| {
        let hosts = format!("network.hosts={}", sources + 1);
        let run = viaduct.run(&study.to_string_lossy(), &[&model_key, &hosts])?;
        Ok::<f64, String>(run.number("wall_s")? * 1e6 / run.number("messages/delivered")?)
    };
    let [mut many_us, mut times_few] = [const { Samples::EMPTY }; 2];
    for _ in 0..repeat {
        let (many, few) = (cost_us(500)?, cost_us(5)?);
        many_us.add(many);
        times_few.add(many / few);
    }
    let name = |what: &str| format!("500 messages on a link, {model}, {what}");
    Ok(vec![
        Row::new(name("a message"), "us", Target::None, &many_us),
        Row::new(name("times 5"), "", Target::Below(3.0), &times_few),
    ])
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
