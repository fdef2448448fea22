//! How far the quick levels of a network are off `packets`.
//!
//! `levels.csv` is measured by `make levels` and shown in docs/levels.md: uniform traffic on four
//! networks, with hosts that cost nothing. Waiting grows with what a message takes on a link, its
//! *message time*; in these units waiting and its difference are taken over to another study, with
//! the load of its busiest link. What its hosts take is the same at every level.

use viaduct_network::{Arrival, Sharing};
use viaduct_topology::{HostId, Topology};

use crate::config::{Arrivals, ClusterConfig};
use crate::path::floor_latency;
use crate::result::Warning;

/// From which difference of mean latencies on one level does not stand for the other.
pub const AGREE_WITHIN: f64 = 0.1;

/// Measured by `make levels`.
const TABLE: &str = include_str!("levels.csv");

/// Bytes of the frames with which the table was measured.
const FRAME_BYTES: f64 = 1500.0;

/// What the table says of a network, a length and a level at a load, in message times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    load: f64,
    /// How long a message waits at `packets`, on the mean.
    waiting: f64,
    /// How much longer it takes at the level.
    difference: f64,
}

/// One line of the table.
struct Row<'a> {
    network: &'a str,
    bytes: f64,
    level: &'a str,
    measured: Measured,
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    TABLE.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        let (network, bytes, load, level) = (next()?, next()?, next()?, next()?);
        // Of the tables that are shown.
        let _ = (next()?, next()?);
        let measured = Measured {
            load: load.parse().ok()?,
            waiting: next()?.parse().ok()?,
            difference: next()?.parse().ok()?,
        };
        let bytes = bytes.parse().ok()?;
        Some(Row {
            network,
            bytes,
            level,
            measured,
        })
    })
}

/// The measured network that is most like this one; none of a graph, which is like any.
fn likeness(topology: &Topology) -> Option<&'static str> {
    let (name, _) = topology.plan()?.words();
    Some(match name {
        "switch" => "switch",
        "chain" | "mesh" | "torus" => "torus",
        "fat-tree" | "leaf-spine" | "clos" | "rail" => "fat-tree",
        _ => "dragonfly",
    })
}

/// The figures at a load, between those of the loads that were measured.
fn at_load(line: &[Measured], load: f64) -> Measured {
    let mut before = Measured::default();
    for &after in line {
        if load <= after.load {
            let share = (load - before.load) / (after.load - before.load);
            let between = |from: f64, to: f64| from + (to - from) * share;
            return Measured {
                load,
                waiting: between(before.waiting, after.waiting),
                difference: between(before.difference, after.difference),
            };
        }
        before = after;
    }
    before
}

/// What the table says of a configuration whose busiest link has this load.
fn measured(config: &ClusterConfig, load: f64) -> Option<Measured> {
    let level = match has_limits(config) {
        true => "limits",
        false => config.links.sharing.name(),
    };
    let bytes = config.traffic.size.mean_bytes();
    let frame = match config.links.frame.payload_bytes {
        0 => FRAME_BYTES,
        bytes => f64::from(bytes),
    };
    let frames = (bytes / frame).max(1.0);
    let far = |row: &Row<'_>| {
        let ratio = row.bytes / FRAME_BYTES / frames;
        ratio.max(1.0 / ratio)
    };
    let nearest = rows().map(|row| far(&row)).fold(f64::INFINITY, f64::min);
    let of = |network: &str| {
        let of_it = rows()
            .filter(|row| row.network == network && row.level == level && far(row) <= nearest);
        let line: Vec<Measured> = of_it.map(|row| row.measured).collect();
        (!line.is_empty()).then(|| at_load(&line, load))
    };
    match likeness(&config.topology) {
        Some(network) => of(network),
        None => ["switch", "torus", "fat-tree", "dragonfly"]
            .into_iter()
            .filter_map(of)
            .max_by(|one, other| one.difference.abs().total_cmp(&other.difference.abs())),
    }
}

/// Whether queues serve no byte before it has come.
fn has_limits(config: &ClusterConfig) -> bool {
    config.links.sharing == Sharing::Queues && config.links.arrival == Arrival::Limits
}

/// How long a message of the traffic takes on a link, microseconds.
fn message_us(config: &ClusterConfig) -> f64 {
    let bytes = config.traffic.size.mean_bytes();
    bytes * 8.0 / config.links.rate.bits_per_second() * 1e6
}

/// Whether somebody else than the network says how much is offered.
const fn is_offered(config: &ClusterConfig) -> bool {
    matches!(
        config.traffic.arrivals,
        Arrivals::Open(_) | Arrivals::Listed(_)
    )
}

/// A warning that the level of a study whose busiest link has this load is far off `packets`.
#[must_use]
pub fn far_off(config: &ClusterConfig, load: f64) -> Option<Warning> {
    let measured = measured(config, load)?;
    let last = HostId(config.topology.host_count() - 1);
    let bytes = config.traffic.size.mean_bytes() as u32;
    let operation = config.traffic.operation;
    let alone = floor_latency(config, HostId(0), last, bytes, operation);
    let message_us = message_us(config);
    let packets_us = alone.microseconds_f64() + measured.waiting * message_us;
    let relative = measured.difference * message_us / packets_us;
    // Links with credits hold back what has no room, as other switches do: that is no error.
    let is_other = config.links.sharing == Sharing::Credits;
    if is_other || relative.abs() <= AGREE_WITHIN || !is_offered(config) {
        return None;
    }
    let level = config.links.sharing.name();
    let (percent, load) = (relative.abs() * 100.0, load * 100.0);
    let more = if relative > 0.0 { "more" } else { "less" };
    let set = match has_limits(config) {
        true => " --set links.arrival=limits",
        false => "",
    };
    Some(Warning {
        text: format!(
            "the busiest link is {load:.0} % busy: with uniform traffic on such a network mean \
             latency is then about {percent:.0} % {more} at `{level}` than at `packets`"
        ),
        help: Some(format!(
            "`viaduct compare STUDY --levels packets,{level}{set}` says how far this study is off; \
             docs/levels.md has the differences by network, load and length of messages"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(network: &str, bytes: f64, level: &str) -> Vec<Measured> {
        let rows = rows().filter(|row| {
            row.network == network && row.bytes.total_cmp(&bytes).is_eq() && row.level == level
        });
        rows.map(|row| row.measured).collect()
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(rows().count(), TABLE.lines().count() - 1);
        for network in ["switch", "torus", "fat-tree", "dragonfly"] {
            for bytes in [1500.0, 32_768.0, 1_048_576.0] {
                for level in ["queues", "limits", "max-min", "fluid", "credits"] {
                    let loads: Vec<f64> =
                        of(network, bytes, level).iter().map(|it| it.load).collect();
                    assert_eq!(loads, [0.2, 0.4, 0.6, 0.8], "{network} {bytes} {level}");
                }
            }
        }
    }

    #[test]
    fn between_two_loads_differences_lie_between_theirs() {
        let line = of("torus", 32_768.0, "fluid");
        assert_eq!(at_load(&line, 0.0), Measured::default());
        assert_eq!(at_load(&line, 0.4), line[1]);
        let middle = at_load(&line, 0.5);
        let mean = |of: fn(&Measured) -> f64| (of(&line[1]) + of(&line[2])) / 2.0;
        assert!((middle.difference - mean(|it| it.difference)).abs() < 1e-9);
        assert!((middle.waiting - mean(|it| it.waiting)).abs() < 1e-9);
        // Nothing was measured beyond the last.
        assert_eq!(at_load(&line, 1.5), line[3]);
    }
}
