//! How long bytes take over a path with nobody else there.

use viaduct_engine::Time;
use viaduct_topology::{LinkId, Topology};

use crate::fluid::whole_above;
use crate::links::{LinkConfig, SwitchModel};

/// From the start of a message's first byte on the first of `path` to its arrival at the end of the
/// last link, forwarding on the way included.
#[must_use]
pub fn head_delay(
    topology: &Topology,
    links: &LinkConfig,
    switch: &SwitchModel,
    path: &[LinkId],
    wire_bytes: f64,
) -> Time {
    let mut delay = Time::ZERO;
    for (index, &link) in path.iter().enumerate() {
        delay += links.propagation_of(topology, link);
        if index + 1 < path.len() {
            let needed = f64::from(switch.cut_through_bytes).min(wire_bytes);
            delay += switch.delay + links.rate_of(topology, link).time_for(needed);
        }
    }
    delay
}

/// How long a flow of its own takes: as [`crate::fluid`] rounds it.
#[must_use]
pub fn moving_time(wire_bytes: f64, rate: f64) -> Time {
    Time::from_picoseconds(whole_above(wire_bytes / rate).max(1))
}
