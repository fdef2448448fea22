//! What frames cost with nobody else there: one frame at one queue, and a whole message in closed
//! form.
//!
//! The engine and the floor of a message are both made of [`Leg`]s, so that a message alone takes
//! its floor to the picosecond.

use viaduct_topology::LinkId;

use crate::fluid::FlowDemand;
use crate::hops::{Delays, End, Ends, Shape, moving_time};
use crate::rate::{Frame, Rate, Switching};

/// The frames of a message: all are of one size but the last, which may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) count: u32,
    /// Bytes on the link of one that is not the last, and of the last.
    pub(crate) full: f64,
    pub(crate) last: f64,
    /// The same as whole bytes: a piece of one takes the place of one.
    pub(super) held: [u32; 2],
    /// What a switch leaves of one that it trims, at most.
    pub(super) trimmed: f64,
}

/// What a switch leaves of a frame that it trims, if its header is no longer: the shortest frame
/// of Ethernet, as in htsim's simulator of Ultra Ethernet.
const TRIMMED_BYTES: f64 = 64.0;

impl Sizes {
    /// Of so many bytes on the link, headers included. Where a message is framed in another way,
    /// or what is left of it begins in the middle of a frame, the last one is a header at least.
    pub(crate) fn of(wire_bytes: f64, frame: Frame) -> Self {
        let header = f64::from(frame.header_bytes);
        let trimmed = header.max(TRIMMED_BYTES);
        if frame.payload_bytes == 0 {
            let all = wire_bytes.max(header);
            return Self {
                count: 1,
                full: all,
                last: all,
                held: [all.ceil() as u32; 2],
                trimmed,
            };
        }
        let full = full_bytes(frame);
        let count = (wire_bytes / full).ceil().max(1.0);
        let last = (wire_bytes - (count - 1.0) * full).max(header);
        Self {
            count: count as u32,
            full,
            last,
            held: [full, last].map(|bytes| bytes.ceil() as u32),
            trimmed,
        }
    }

    /// Bytes that one of them takes in a queue.
    #[inline]
    pub(super) fn held(&self, is_last: bool) -> u32 {
        self.held[usize::from(is_last)]
    }

    /// Bytes on the link of one of them.
    #[inline]
    pub(super) fn bytes(&self, is_last: bool) -> f64 {
        if is_last { self.last } else { self.full }
    }
}

/// Bytes on the link of a frame with as much payload as it can have; none if that is any number.
pub(crate) fn full_bytes(frame: Frame) -> f64 {
    if frame.payload_bytes == 0 {
        return 0.0;
    }
    f64::from(frame.payload_bytes) + f64::from(frame.header_bytes)
}

/// How frames move on from queue to queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarding {
    pub(crate) switching: Switching,
    pub(crate) cut_through_bytes: f64,
}

impl Forwarding {
    pub(crate) fn of(delays: &Delays<'_>) -> Self {
        Self {
            switching: delays.links.switching,
            cut_through_bytes: f64::from(delays.switch.cut_through_bytes),
        }
    }

    /// From the start of a frame's first byte on a link to its entering the next queue, behind the
    /// cable and the switch: as many of its bytes must have come as the switch needs, and as many
    /// that a faster link does not run out of them.
    #[inline]
    pub(crate) fn wait(&self, cut: u64, service: u64, next_service: u64) -> u64 {
        match self.switching {
            Switching::CutThrough => cut.max(service.saturating_sub(next_service)),
            Switching::StoreAndForward => service,
        }
    }

    /// How long the bytes take over a link that a switch needs of a frame before it forwards it.
    #[inline]
    pub(crate) fn cut(&self, bytes: f64, rate: f64) -> u64 {
        (bytes.min(self.cut_through_bytes) / rate + 0.5) as u64
    }
}

/// How long frames take at one place of a way, picoseconds: full ones, and the last.
#[derive(Clone, Copy, Debug, Default)]
struct Leg {
    /// For how long each keeps the place busy.
    service: [u64; 2],
    /// From its start here to its entering the next place.
    lead: [u64; 2],
    /// Whether each frame may take another link in its stead.
    is_spread: bool,
}

/// How long a message takes that is alone, picoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Span {
    /// What its first byte takes on cables and in switches, without what it waits for there.
    pub(crate) head: u64,
    /// Until its last byte is at the end of its way.
    pub(crate) total: u64,
}

/// How long frames are with the adapter that sends or takes them, picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// On the bus.
    pub(crate) bus: u64,
    /// Until the adapter begins with the next one of the message.
    pub(crate) pace: u64,
}

impl Own {
    pub(crate) const NOTHING: Self = Self { bus: 0, pace: 0 };

    pub(crate) fn of(bytes: f64, demand: &FlowDemand, bus_rate: Option<Rate>) -> Self {
        let bus = bus_rate.map_or(0, |rate| bus_time(bytes, demand, rate));
        let pace = if demand.rate_max.is_finite() {
            picoseconds(bytes, demand.rate_max)
        } else {
            0
        };
        Self { bus, pace }
    }

    /// With the adapter that takes them. Bytes that are nowhere stored come no faster than they
    /// were sent.
    pub(crate) fn taken(
        bytes: f64,
        demand: &FlowDemand,
        bus_rate: Option<Rate>,
        switching: Switching,
    ) -> Self {
        let own = Self::of(bytes, demand, bus_rate);
        match switching {
            Switching::CutThrough => Self { pace: 0, ..own },
            Switching::StoreAndForward => own,
        }
    }

    /// Until its last byte is with the adapter.
    #[inline]
    pub(crate) fn span(&self) -> u64 {
        self.bus.max(self.pace)
    }
}

/// How long a frame takes on a bus.
fn bus_time(bytes: f64, demand: &FlowDemand, bus_rate: Rate) -> u64 {
    picoseconds(bytes / demand.scale, bus_rate.bytes_per_picosecond())
}

/// How long bytes take at a rate; never no time.
#[inline]
pub(crate) fn picoseconds(bytes: f64, rate: f64) -> u64 {
    moving_time(bytes, rate).picoseconds()
}

/// How long a message takes over a part of its way that it crosses at once, nobody else there.
pub(crate) fn alone(
    delays: &Delays<'_>,
    shape: Shape,
    path: &[LinkId],
    demand: &FlowDemand,
    ends: &Ends,
) -> Span {
    let forwarding = Forwarding::of(delays);
    let sizes = Sizes::of(demand.wire_bytes, delays.links.frame);
    let bytes = [sizes.full, sizes.last];
    let bus_rate = |has_bus: bool, end: &End| has_bus.then_some(end.bus_rate);
    let mut legs = Vec::with_capacity(shape.len() + 1);
    let own =
        bytes.map(|bytes| Own::of(bytes, demand, bus_rate(shape.first_bus, &ends.source)).span());
    if own[0] > 0 || path.is_empty() {
        legs.push(Leg {
            service: own,
            ..Leg::default()
        });
    }
    let mut head = 0;
    let mut tail = 0;
    let service_of = |link| {
        let rate = delays.links.rate_of(delays.topology, link);
        bytes.map(|bytes| picoseconds(bytes, rate.bytes_per_picosecond()))
    };
    if let (Some(source), Some(&link)) = (legs.last_mut(), path.first()) {
        let next = service_of(link);
        source.lead = [0, 1].map(|kind| source.service[kind].saturating_sub(next[kind]));
    }
    for (index, &link) in path.iter().enumerate() {
        let service = service_of(link);
        let propagation = delays.links.propagation_of(delays.topology, link);
        let propagation = propagation.picoseconds();
        let mut leg = Leg {
            service,
            lead: [propagation; 2],
            is_spread: delays.may_spread(link),
        };
        if let Some(&next) = path.get(index + 1) {
            let rate = delays.links.rate_of(delays.topology, link);
            let rate = rate.bytes_per_picosecond();
            let next = service_of(next);
            let base = propagation + delays.switch.delay.picoseconds();
            leg.lead = [0, 1].map(|kind| {
                let cut = forwarding.cut(bytes[kind], rate);
                (base + forwarding.wait(cut, service[kind], next[kind])).max(1)
            });
            // What a frame waits for is of its bytes: they are with its sender no longer than that.
            head += base;
        } else {
            head += propagation;
            tail = propagation;
        }
        legs.push(leg);
    }
    let switching = delays.links.switching;
    let taken = bytes.map(|bytes| {
        Own::taken(
            bytes,
            demand,
            bus_rate(shape.last_bus, &ends.target),
            switching,
        )
    });
    if let Some(last) = legs.last_mut()
        && !path.is_empty()
        && taken[0].span() > 0
    {
        let service = taken.map(|own| own.span());
        for kind in [0, 1] {
            last.lead[kind] += last.service[kind].saturating_sub(service[kind]);
        }
        legs.push(Leg {
            service,
            ..Leg::default()
        });
        tail = 0;
    }
    Span {
        head,
        total: (last_end(&legs, sizes.count) + tail).max(1),
    }
}

/// When the last of some frames is through the last of some places.
///
/// Frames that go over several links at once overtake each other, and no link holds them up for
/// long: what is left as a bound is that of the full ones, which are all alike, and that of the
/// last one, which holds to the order of the places before.
fn last_end(legs: &[Leg], count: u32) -> u64 {
    let service = |kind: usize| legs.last().map_or(0, |leg| leg.service[kind]);
    let in_order = legs.iter().position(|leg| leg.is_spread);
    let last = last_start(legs, in_order.unwrap_or(legs.len()), [0, 1], count) + service(1);
    match in_order {
        Some(_) if count > 1 => {
            let full = last_start(legs, legs.len(), [0, 0], count - 1) + service(0);
            last.max(full)
        }
        _ => last,
    }
}

/// When the last of some frames begins at the last of some places, of which so many serve them in
/// order: the longest of all ways through the grid of frames and places. Up to the place at which
/// such a way turns to the last frame it takes those before, and goes from frame to frame where
/// that takes longest. The two kinds are that of those before, and that of the last.
fn last_start(legs: &[Leg], in_order: usize, [kind, last]: [usize; 2], count: u32) -> u64 {
    let end = legs.len().saturating_sub(1);
    let mut rest: u64 = legs[..end].iter().map(|leg| leg.lead[last]).sum();
    let mut longest = rest;
    if count < 2 {
        return longest;
    }
    let (mut before, mut slowest) = (0, 0);
    for leg in &legs[..in_order] {
        let service = if leg.is_spread { 0 } else { leg.service[kind] };
        slowest = slowest.max(service);
        let frames = u64::from(count - 2) * slowest + service;
        longest = longest.max(before + frames + rest);
        before += leg.lead[kind];
        rest = rest.saturating_sub(leg.lead[last]);
    }
    longest
}
