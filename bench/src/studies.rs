//! Whole runs of the command: speed, memory and scaling of the studies that ship.

use crate::command::{Run, Viaduct};
use crate::simgrid::SimGrid;
use crate::table::{Row, Samples, Target};

const STUDY: &str = "torus-1024";
/// Links as the peer has them, and hosts that cost nothing.
const PEER_LIKE: &[&str] = &[
    "hosts.nic=ideal",
    "switches.delay=0 s",
    "switches.cut_through=0 B",
    "links.propagation=4.3 us",
    "links.frame_payload=0 B",
    "links.frame_header=0 B",
    "run.warmup=0 s",
];
/// Simulated time of 870,000 messages at 100 per second and host.
const UNTIL: &str = "run.until=8.5 s";
/// What SimGrid 3.32 and 4.1 give for it, microseconds.
const PEER_MEAN_US: f64 = 426.0;
const PEER_SD_US: f64 = 145.1;

/// Several quantities that come from the same runs.
type Measured<T> = Result<T, String>;

fn rows_or_reason(quantity: &str, rows: Measured<Vec<Row>>) -> Vec<Row> {
    rows.unwrap_or_else(|reason| vec![Row::missing(quantity, reason)])
}

fn messages_per_wall_s(run: &Run) -> Measured<f64> {
    run.number("messages_per_wall_s")
}

/// Virtual networks: the figure of five set-ups and 1 to 24 clients, with short rows, times what
/// the published 20 s a row are of them. Each simulated second costs about the same.
pub(crate) fn contention(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    const ROW_S: f64 = 0.2;
    const PUBLISHED_ROW_S: f64 = 20.0;

    let quantity = "contention of virtual networks, 120 rows of 20 s, from rows of 0.2 s";
    let measure = || {
        let mut process = Samples::EMPTY;
        for _ in 0..repeat {
            process.add(viaduct.contention(ROW_S)?.process_s * (PUBLISHED_ROW_S / ROW_S));
        }
        Ok(vec![Row::new(quantity, "s", Target::Below(60.0), &process)])
    };
    rows_or_reason(quantity, measure())
}

/// The 1024-node study, whole.
pub(crate) fn study(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    let measure = || {
        let [mut process, mut wall, mut speed] = [const { Samples::EMPTY }; 3];
        for _ in 0..repeat {
            let run = viaduct.run(STUDY, &[])?;
            process.add(run.process_s);
            wall.add(run.number("wall_s")?);
            speed.add(messages_per_wall_s(&run)?);
        }
        Ok(vec![
            Row::new(
                "torus-1024, start to end of the process",
                "s",
                Target::Below(1.0),
                &process,
            ),
            Row::new("torus-1024, the run itself", "s", Target::None, &wall),
            Row::new(
                "torus-1024, messages a wall second",
                "1/s",
                Target::None,
                &speed,
            ),
        ])
    };
    rows_or_reason("torus-1024", measure())
}

/// The same with NICs that cost nothing, beside SimGrid.
pub(crate) fn ideal(
    viaduct: &Viaduct,
    simgrid: Result<&SimGrid, &String>,
    repeat: usize,
) -> Vec<Row> {
    let fluid = [PEER_LIKE, &[UNTIL, "links.model=fluid"]].concat();
    let max_min = [PEER_LIKE, &[UNTIL, "links.model=max-min"]].concat();
    let measure = || {
        let [mut of_fluid, mut of_max_min, mut mean, mut sd] = [const { Samples::EMPTY }; 4];
        let [mut peer, mut fluid_ratio, mut max_min_ratio] = [const { Samples::EMPTY }; 3];
        let [mut peer_wall, mut peer_mean, mut peer_sd] = [const { Samples::EMPTY }; 3];
        for repetition in 0..repeat {
            let fluid_run = viaduct.run(STUDY, &fluid)?;
            let fluid_speed = messages_per_wall_s(&fluid_run)?;
            of_fluid.add(fluid_speed);
            let max_min_run = viaduct.run(STUDY, &max_min)?;
            let max_min_speed = messages_per_wall_s(&max_min_run)?;
            of_max_min.add(max_min_speed);
            mean.add(max_min_run.number("latency_us/mean")?);
            sd.add(max_min_run.number("latency_us/sd")?);
            // Five seconds each: three say enough.
            if let (Ok(simgrid), 0..3) = (simgrid, repetition) {
                let peer_run = simgrid.run(100.0, 8.5)?;
                peer.add(peer_run.messages_per_wall_s);
                peer_wall.add(peer_run.wall_s);
                peer_mean.add(peer_run.mean_us);
                peer_sd.add(peer_run.sd_us);
                fluid_ratio.add(fluid_speed / peer_run.messages_per_wall_s);
                max_min_ratio.add(max_min_speed / peer_run.messages_per_wall_s);
            }
        }
        let speed = Target::AtLeast(2_000_000.0);
        let near = |value| Target::Near {
            value,
            tolerance: 1.0,
        };
        let mut rows = vec![
            Row::new(
                "ideal NIC, fluid, messages a wall second",
                "1/s",
                speed,
                &of_fluid,
            ),
            Row::new(
                "ideal NIC, max-min, messages a wall second",
                "1/s",
                speed,
                &of_max_min,
            ),
            Row::new(
                "ideal NIC, max-min, mean latency",
                "us",
                near(PEER_MEAN_US),
                &mean,
            ),
            Row::new("ideal NIC, max-min, deviation", "us", near(PEER_SD_US), &sd),
        ];
        if simgrid.is_ok() {
            let times = Target::AtLeast(12.0);
            rows.extend([
                Row::new(
                    "SimGrid, messages a wall second",
                    "1/s",
                    Target::None,
                    &peer,
                ),
                Row::new(
                    "SimGrid, mean latency",
                    "us",
                    near(PEER_MEAN_US),
                    &peer_mean,
                ),
                Row::new("SimGrid, deviation", "us", near(PEER_SD_US), &peer_sd),
                Row::new("ideal NIC, fluid, times SimGrid", "", times, &fluid_ratio),
                Row::new(
                    "ideal NIC, max-min, times SimGrid",
                    "",
                    times,
                    &max_min_ratio,
                ),
            ]);
        }
        Ok(rows)
    };
    let mut rows = rows_or_reason("ideal NIC", measure());
    if let Err(note) = simgrid {
        rows.push(Row::missing("SimGrid", note));
    }
    rows
}

/// The full model at 61 and 80 % load of the mesh, and frames at 74 %.
pub(crate) fn load(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (rate, percent, target) in [(500, 61, 300_000.0), (653, 80, 75_000.0)] {
        let quantity = format!("torus-1024 at {percent} % load, messages a wall second");
        let measure = || {
            let mut speed = Samples::default();
            for _ in 0..repeat.min(3) {
                let rate = format!("traffic.rate={rate}");
                let settings = [&rate, "run.warmup=0.2 s", "run.until=1 s"];
                speed.add(messages_per_wall_s(&viaduct.run(STUDY, &settings)?)?);
            }
            Ok(vec![Row::new(
                &quantity,
                "1/s",
                Target::AtLeast(target),
                &speed,
            )])
        };
        rows.extend(rows_or_reason(&quantity, measure()));
    }
    rows.extend(frames(viaduct, repeat));
    rows
}

/// Frame by frame, where most of what a run reads is in no cache.
fn frames(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    const SETTINGS: [&str; 6] = [
        "links.model=packets",
        "links.frame_payload=1500 B",
        "network.dimensions=[32, 32]",
        "traffic.rate=600",
        "run.warmup=1.01 s",
        "run.until=1.05 s",
    ];

    let quantity = "4,096 hosts at 74 % load, packets, messages a wall second";
    let measure = || {
        let mut speed = Samples::default();
        for _ in 0..repeat.min(5) {
            speed.add(messages_per_wall_s(&viaduct.run(STUDY, &SETTINGS)?)?);
        }
        Ok(vec![Row::new(quantity, "1/s", Target::None, &speed)])
    };
    rows_or_reason(quantity, measure())
}

/// Ideal NICs at 49 % load of the mesh, where exact max-min solvers collapse.
pub(crate) fn heavy(
    viaduct: &Viaduct,
    simgrid: Result<&SimGrid, &String>,
    repeat: usize,
) -> Vec<Row> {
    /// Simulated seconds of the peer, which takes 16 s of wall time for them.
    const PEER_SECONDS: f64 = 0.1;
    let settings = |model: &'static str, until: &'static str| {
        [PEER_LIKE, &["traffic.rate=400", model, until]].concat()
    };
    let mut rows = Vec::new();
    let models = [
        ("fluid", settings("links.model=fluid", "run.until=1 s")),
        (
            "max-min",
            settings("links.model=max-min", "run.until=0.5 s"),
        ),
    ];
    for (name, settings) in models {
        let quantity = format!("ideal NIC at 49 % load, {name}, messages a wall second");
        let measure = || {
            let [mut speed, mut mean] = [const { Samples::EMPTY }; 2];
            for _ in 0..repeat.min(3) {
                let run = viaduct.run(STUDY, &settings)?;
                speed.add(messages_per_wall_s(&run)?);
                mean.add(run.number("latency_us/mean")?);
            }
            let latency = format!("ideal NIC at 49 % load, {name}, mean latency");
            Ok(vec![
                Row::new(&quantity, "1/s", Target::None, &speed),
                Row::new(latency, "us", Target::None, &mean),
            ])
        };
        rows.extend(rows_or_reason(&quantity, measure()));
    }
    let quantity = "SimGrid at 49 % load, messages a wall second";
    let measure = || {
        let run = simgrid.map_err(Clone::clone)?.run(400.0, PEER_SECONDS)?;
        let mut speed = Samples::default();
        speed.add(run.messages_per_wall_s);
        let mut mean = Samples::default();
        mean.add(run.mean_us);
        Ok(vec![
            Row::new(quantity, "1/s", Target::None, &speed),
            Row::new(
                "SimGrid at 49 % load, mean latency",
                "us",
                Target::None,
                &mean,
            ),
        ])
    };
    rows.extend(rows_or_reason(quantity, measure()));
    rows
}

/// Cost of a message from 1,024 to 262,144 hosts at equal load a host and equal receives on a VI.
///
/// With equal messages in all, a host of the large cluster sends 3 and most of these set up their
/// connection first, where a host of the small one sends 800. Both are measured: equal messages in
/// all, which has the target, and equal simulated time, in which hosts do the same.
pub(crate) fn scale(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    const SMALL: &str = "network.dimensions=[16, 16]";
    const LARGE: &str = "network.dimensions=[256, 256]";
    const PREPOST: &str = "hosts.prepost=8";
    const SHORT: [&str; 2] = ["run.warmup=2 ms", "run.until=33.2 ms"];
    const LONG: [&str; 2] = ["run.warmup=0.5 s", "run.until=8.5 s"];
    /// Short runs of the small cluster in one sample: one takes some milliseconds.
    const SMALL_SHORT_RUNS: usize = 32;
    let cost_ns = |dimensions, [warmup, until]: [&str; 2], runs| -> Measured<f64> {
        let [mut wall_s, mut messages] = [0.0; 2];
        for _ in 0..runs {
            let run = viaduct.run(STUDY, &[PREPOST, dimensions, warmup, until])?;
            wall_s += run.number("wall_s")?;
            messages += run.number("messages/posted")?;
        }
        Ok(wall_s * 1e9 / messages)
    };
    let measure = || {
        let [mut small, mut small_short, mut large] = [const { Samples::EMPTY }; 3];
        let [mut growth, mut growth_short] = [const { Samples::EMPTY }; 2];
        for _ in 0..repeat.min(3) {
            let small_ns = cost_ns(SMALL, LONG, 1)?;
            let small_short_ns = cost_ns(SMALL, SHORT, SMALL_SHORT_RUNS)?;
            let large_ns = cost_ns(LARGE, SHORT, 1)?;
            small.add(small_ns);
            small_short.add(small_short_ns);
            large.add(large_ns);
            growth.add(large_ns / small_ns);
            growth_short.add(large_ns / small_short_ns);
        }
        let none = Target::None;
        Ok(vec![
            Row::new("a message among 1,024 hosts, 8 s", "ns", none, &small),
            Row::new(
                "a message among 1,024 hosts, 31 ms",
                "ns",
                none,
                &small_short,
            ),
            Row::new("a message among 262,144 hosts, 31 ms", "ns", none, &large),
            Row::new(
                "growth of its cost, equal messages in all",
                "",
                Target::Below(3.0),
                &growth,
            ),
            Row::new(
                "growth of its cost, equal simulated time",
                "",
                none,
                &growth_short,
            ),
        ])
    };
    rows_or_reason("cost of a message by hosts", measure())
}

/// A million hosts.
pub(crate) fn million(viaduct: &Viaduct) -> Vec<Row> {
    let measure = || {
        let run = viaduct.run("torus-million", &[])?;
        let [mut process, mut delivered, mut bytes] = [const { Samples::EMPTY }; 3];
        process.add(run.process_s);
        delivered.add(run.number("messages/delivered")?);
        bytes.add(run.number("peak_rss_bytes")? / run.number("hosts")?);
        let messages = Target::AtLeast(1_000_000.0);
        Ok(vec![
            Row::new(
                "torus-million, start to end",
                "s",
                Target::Below(60.0),
                &process,
            ),
            Row::new(
                "torus-million, messages delivered",
                "",
                messages,
                &delivered,
            ),
            Row::new(
                "torus-million, memory a host",
                "bytes",
                Target::Below(4096.0),
                &bytes,
            ),
        ])
    };
    rows_or_reason("torus-million", measure())
}

/// From the start of the command to the result of two hosts.
pub(crate) fn start(viaduct: &Viaduct, repeat: usize) -> Vec<Row> {
    let quantity = "two hosts, start to result";
    let measure = || {
        let mut process_ms = Samples::default();
        for _ in 0..4 * repeat {
            process_ms.add(viaduct.run("two-hosts", &[])?.process_s * 1e3);
        }
        Ok(vec![Row::new(
            quantity,
            "ms",
            Target::Below(50.0),
            &process_ms,
        )])
    };
    rows_or_reason(quantity, measure())
}
