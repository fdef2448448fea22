//! How long a message takes that is alone, where buffers never hold it up.
//!
//! Each place of its way (an adapter, a link, the other adapter) serves its units in order, so when
//! one begins there is the later of two times: the unit before it is done with the place, and it
//! has come from the place before. That recurrence is followed until every place goes on by a fixed
//! time a packet, and from there in one step.

use core::cmp::Ordering;

use viaduct_topology::LinkId;

use super::settings::FlowControl;
use super::units::{Kind, Units};
use crate::fluid::FlowDemand;
use crate::frames::alone::{Forwarding, Own, Span, picoseconds};
use crate::hops::{Delays, End, Ends, Shape};
use crate::rate::Switching;

/// How long units take at one place, picoseconds, by their kind.
#[derive(Clone, Copy, Debug, Default)]
struct Leg {
    /// For how long each keeps the place busy.
    service: [u64; 3],
    /// From its start here to its entering the next place.
    lead: [u64; 3],
    /// Whether each packet may take another link in its stead.
    is_spread: bool,
}

/// How units move on from switch to switch.
pub(super) fn forwarding(delays: &Delays<'_>) -> Forwarding {
    let forwarding = Forwarding::of(delays);
    match delays.links.credits.flow_control {
        FlowControl::VirtualCutThrough => forwarding,
        // A flit is stored as a whole.
        FlowControl::Wormhole => Forwarding {
            switching: Switching::StoreAndForward,
            ..forwarding
        },
    }
}

/// How long a message takes over a part of its way that it crosses at once, nobody else there.
pub(crate) fn alone(
    delays: &Delays<'_>,
    shape: Shape,
    path: &[LinkId],
    demand: &FlowDemand,
    ends: &Ends,
) -> Span {
    let forwarding = forwarding(delays);
    let (frame, settings) = (delays.links.frame, &delays.links.credits);
    let units = Units::over(!path.is_empty(), demand.wire_bytes, frame, settings);
    let by_kind = |value: &dyn Fn(f64) -> u64| units.bytes.map(value);
    let bus_rate = |has_bus: bool, end: &End| has_bus.then_some(end.bus_rate);
    let mut legs = Vec::with_capacity(shape.len() + 1);
    let own =
        by_kind(&|bytes| Own::of(bytes, demand, bus_rate(shape.first_bus, &ends.source)).span());
    if own[1] > 0 || path.is_empty() {
        legs.push(Leg {
            service: own,
            ..Leg::default()
        });
    }
    let (mut head, mut tail) = (0, 0);
    let rate_of = |link| {
        let rate = delays.links.rate_of(delays.topology, link);
        rate.bytes_per_picosecond()
    };
    let service_of = |link| by_kind(&|bytes| picoseconds(bytes, rate_of(link)));
    if let (Some(source), Some(&link)) = (legs.last_mut(), path.first()) {
        let next = service_of(link);
        source.lead = Kind::ALL.map(|kind| {
            let kind = kind.place();
            source.service[kind].saturating_sub(next[kind])
        });
    }
    for (index, &link) in path.iter().enumerate() {
        let service = service_of(link);
        let mut base = delays.links.propagation_of(delays.topology, link);
        if index > 0 {
            base += delays.links.credits.traversal;
        }
        if index + 1 < path.len() {
            base += delays.switch.delay;
        }
        let base = base.picoseconds();
        let mut leg = Leg {
            service,
            lead: [base; 3],
            is_spread: delays.may_spread(link),
        };
        if let Some(&next) = path.get(index + 1) {
            let next = service_of(next);
            leg.lead = Kind::ALL.map(|kind| {
                let kind = kind.place();
                let cut = forwarding.cut(units.bytes[kind], rate_of(link));
                (base + forwarding.wait(cut, service[kind], next[kind])).max(1)
            });
        } else {
            tail = base;
        }
        head += base;
        legs.push(leg);
    }
    let switching = delays.links.switching;
    let taken = by_kind(&|bytes| {
        Own::taken(
            bytes,
            demand,
            bus_rate(shape.last_bus, &ends.target),
            switching,
        )
        .span()
    });
    if let Some(last) = legs.last_mut()
        && !path.is_empty()
        && taken[1] > 0
    {
        for (kind, taken) in taken.iter().enumerate() {
            last.lead[kind] += last.service[kind].saturating_sub(*taken);
        }
        legs.push(Leg {
            service: taken,
            ..Leg::default()
        });
        tail = 0;
    }
    Span {
        head,
        total: (last_end(&legs, &units) + tail).max(1),
    }
}

/// When the last unit is through the last of some places. Of packets that overtake each other it
/// is a bound, as [`crate::frames::alone`] has it of frames.
fn last_end(legs: &[Leg], units: &Units) -> u64 {
    let service = |kind: Kind| legs.last().map_or(0, |leg| leg.service[kind.place()]);
    let mut line = Places::new(legs.len());
    let (mut before, mut steps) = (vec![0; legs.len()], vec![0; legs.len()]);
    let mut left = units.packets.saturating_sub(1);
    while left > 0 {
        before.copy_from_slice(&line.free);
        line.take_packet(legs, units.per_packet, Kind::PacketEnd);
        left -= 1;
        for (step, (to, from)) in steps.iter_mut().zip(line.free.iter().zip(&before)) {
            *step = to - from;
        }
        if line.are_steady(&steps) {
            for (free, step) in line.free.iter_mut().zip(&steps) {
                *free += u64::from(left) * step;
            }
            line.start += u64::from(left) * steps.last().copied().unwrap_or_default();
            break;
        }
    }
    let full = match units.packets {
        0 | 1 => 0,
        _ => line.start + service(Kind::PacketEnd),
    };
    let in_order = legs.iter().position(|leg| leg.is_spread);
    if let Some(in_order) = in_order {
        line.free[in_order..].fill(0);
    }
    line.take_packet(legs, units.in_last, Kind::MessageEnd);
    let last = line.start + service(Kind::MessageEnd);
    match in_order {
        Some(_) => last.max(full),
        None => last,
    }
}

/// The places of a way, as the units so far have left them.
struct Places {
    /// When each is free.
    free: Vec<u64>,
    /// Of each, whether a unit of the packet before found it waiting.
    has_waited: Vec<bool>,
    /// When the last unit began at the last place.
    start: u64,
}

impl Places {
    fn new(count: usize) -> Self {
        Self {
            free: vec![0; count],
            has_waited: vec![false; count],
            start: 0,
        }
    }

    /// A packet of some units goes through all of them.
    fn take_packet(&mut self, legs: &[Leg], units: u32, end: Kind) {
        self.has_waited.fill(false);
        let spread = legs
            .iter()
            .zip(&mut self.free)
            .filter(|(leg, _)| leg.is_spread);
        spread.for_each(|(_, free)| *free = 0);
        for unit in 1..=units {
            let kind = if unit < units { Kind::Inner } else { end }.place();
            let mut comes = 0;
            for (place, leg) in legs.iter().enumerate() {
                self.has_waited[place] |= comes > self.free[place];
                self.start = comes.max(self.free[place]);
                self.free[place] = self.start + leg.service[kind];
                comes = self.start + leg.lead[kind];
            }
        }
    }

    /// Whether all packets from here on take the places the same steps as that before: none goes on
    /// by less than the place before it, and one that goes on by more has not waited for that.
    fn are_steady(&self, steps: &[u64]) -> bool {
        (1..steps.len()).all(|place| match steps[place].cmp(&steps[place - 1]) {
            Ordering::Less => false,
            Ordering::Equal => true,
            Ordering::Greater => !self.has_waited[place],
        })
    }
}
