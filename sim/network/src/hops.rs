//! What a message crosses at once: its way cut into hops.
//!
//! A way is the bus of the sending host, links, and the bus of the receiving host; a host whose bus
//! limits nothing has none. Where everything forwards while a message still arrives, the whole way
//! is one hop. Where something stores the message, a hop ends.

use core::ops::Range;

use viaduct_engine::Time;
use viaduct_topology::{LinkClass, LinkId, Topology};

use crate::credits;
use crate::fluid::{FlowDemand, ResourceId, whole_above};
use crate::frames;
use crate::frames::alone::{Sizes, Span};
use crate::links::{LinkConfig, Sharing, SwitchModel};
use crate::queues::Stop;
use crate::rate::{Rate, Switching};

/// What a host at an end of a way is to the network.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The rate of a host's bus, which all that it sends and is sent shares; infinite if it limits
    /// nothing.
    pub bus_rate: Rate,
    /// Whether an adapter forwards between bus and link while a message still arrives.
    pub forwarding: Switching,
    /// How long an adapter's short write over a bus takes that limits something.
    pub write: Time,
}

impl End {
    /// Whether its bus limits anything.
    #[must_use]
    pub const fn has_bus(&self) -> bool {
        !self.bus_rate.is_infinite()
    }
}

/// The hosts at both ends of a way.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Where it begins.
    pub source: End,
    /// Where it ends.
    pub target: End,
}

impl Ends {
    /// Hosts that are the same to the network.
    #[must_use]
    pub const fn alike(end: End) -> Self {
        Self {
            source: end,
            target: end,
        }
    }

    /// The buses that bytes cross between two hosts, if they cross buses.
    #[must_use]
    pub const fn shape(&self, uses_buses: bool, links: usize) -> Shape {
        Shape {
            first_bus: uses_buses && self.source.has_bus(),
            links,
            last_bus: uses_buses && self.target.has_bus(),
        }
    }

    /// Those of a part of the way that begins at a place.
    fn from(&self, shape: Shape, place: usize) -> Self {
        // The last bus alone begins and ends with its host.
        match place >= shape.links_end() && place > 0 {
            true => Self::alike(self.target),
            false => *self,
        }
    }
}

/// The shape of a way: how many buses and links it has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Whether it begins with a bus.
    pub first_bus: bool,
    /// Links.
    pub links: usize,
    /// Whether it ends with a bus.
    pub last_bus: bool,
}

impl Shape {
    /// Of a way over no bus.
    pub(crate) const fn of_links(links: usize) -> Self {
        Self {
            first_bus: false,
            links,
            last_bus: false,
        }
    }

    /// The number of a place on the way of the same message if it crossed the buses, from 0.
    ///
    /// Of one flow some messages may cross them and others not: a number names one queue for all.
    pub(crate) fn place_on_way(self, place: usize) -> u16 {
        (place + usize::from(!self.first_bus)) as u16
    }

    /// Buses and links.
    #[must_use]
    pub const fn len(self) -> usize {
        self.links_end() + self.last_bus as usize
    }

    /// Whether it has neither.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The places of its links.
    pub(crate) fn place_range_of_links(self) -> Range<usize> {
        usize::from(self.first_bus)..self.links_end()
    }

    const fn links_end(self) -> usize {
        self.first_bus as usize + self.links
    }

    const fn is_bus(self, place: usize) -> bool {
        self.first_bus && place == 0 || place >= self.links_end()
    }

    /// The links among some places, by their numbers on the way.
    #[must_use]
    pub fn links_of(self, places: &Range<usize>) -> Range<usize> {
        let first = usize::from(self.first_bus);
        let link = |place: usize| place.clamp(first, self.links_end()) - first;
        link(places.start)..link(places.end)
    }

    /// Whether a hop has carried a message away from the adapter that sends it.
    #[must_use]
    pub fn leaves(self, hop: &Range<usize>) -> bool {
        // What crosses no link has left when it is there.
        let first_link = usize::from(self.first_bus);
        hop.contains(&first_link) || self.links == 0 && hop.end == self.len()
    }

    /// Of a part of it; a bus alone is the first one, whichever it is.
    pub(crate) fn part(self, places: &Range<usize>) -> Self {
        let links = self.links_of(places).len();
        let has_bus = |place| places.contains(&place) && self.is_bus(place);
        Self {
            first_bus: if links == 0 {
                places.clone().any(has_bus)
            } else {
                has_bus(0)
            },
            links,
            last_bus: links > 0 && self.last_bus && places.end == self.len(),
        }
    }

    /// How many of its places the adapter that sends is busy with.
    pub(crate) fn senders(self) -> usize {
        if self.links == 0 {
            self.len()
        } else {
            usize::from(self.first_bus) + 1
        }
    }

    /// Whether an adapter is at one of the ends of a hop: its own rate bounds the hop's.
    pub(crate) fn touches_adapter(self, hop: &Range<usize>) -> bool {
        hop.start <= usize::from(self.first_bus) || hop.end >= self.links_end()
    }

    /// Whether a message that crosses a hop meets its receiver while it moves.
    pub(crate) fn brings_head(self, hop: &Range<usize>) -> bool {
        hop.end == self.len() && (hop.start < self.links_end() || self.links == 0)
    }

    /// The end of the hop that begins at a place.
    #[must_use]
    pub fn hop_end(self, from: usize, links: Switching, ends: &Ends) -> usize {
        let stores = |place: usize| {
            let rule = if self.is_bus(place) {
                ends.target.forwarding
            } else if self.is_bus(place - 1) {
                ends.source.forwarding
            } else {
                links
            };
            rule == Switching::StoreAndForward
        };
        (from + 1..self.len())
            .find(|&place| stores(place))
            .unwrap_or(self.len())
    }
}

/// The delays of a network's links and switches.
#[derive(Clone, Copy, Debug)]
pub struct Delays<'network> {
    /// Its links, and how they are joined.
    pub topology: &'network Topology,
    /// What each link is.
    pub links: &'network LinkConfig,
    /// What a switch costs.
    pub switch: &'network SwitchModel,
}

/// How long a message takes that is alone in the network.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Alone {
    /// Its bytes on each of its hops.
    pub moving: Time,
    /// The way of each byte, of the last one where they differ.
    pub delay: Time,
}

impl Delays<'_> {
    /// From the start of a message's first byte on the first of `path` to its arrival at the end of
    /// the last link, forwarding on the way included.
    #[must_use]
    pub fn head(&self, path: &[LinkId], wire_bytes: f64) -> Time {
        let mut delay = Time::ZERO;
        for (index, &link) in path.iter().enumerate() {
            delay += self.head_over(link, wire_bytes, index + 1 < path.len());
        }
        delay
    }

    /// The same of one link, with forwarding at its end if the message goes on there.
    fn head_over(&self, link: LinkId, wire_bytes: f64, goes_on: bool) -> Time {
        let (way, held) = self.over(link, wire_bytes, goes_on);
        way + held
    }

    /// The way of each byte over one link, and for how long its switch holds the first one back
    /// until it has what it needs of the message.
    fn over(&self, link: LinkId, wire_bytes: f64, goes_on: bool) -> (Time, Time) {
        let propagation = self.links.propagation_of(self.topology, link);
        if !goes_on {
            return (propagation, Time::ZERO);
        }
        let needed = f64::from(self.switch.cut_through_bytes).min(wire_bytes);
        let rate = self.links.rate_of(self.topology, link);
        let forwarding = self.switch.delay + self.links.credits.traversal;
        (propagation + forwarding, rate.time_for(needed))
    }

    /// The places of a hop as queues, each as far from the start as a message's head is when it
    /// comes there, and as the message's last byte is when it has been served there.
    pub(crate) fn stops(
        &self,
        shape: Shape,
        places: &Range<usize>,
        way: &[ResourceId],
        (demand, ends): (&FlowDemand, &Ends),
        stops: &mut Vec<Stop>,
    ) {
        let crossed_end = places.end.min(shape.links_end());
        let over = |place: usize| match shape.is_bus(place) {
            true => (Time::ZERO, Time::ZERO),
            false => self.over(
                LinkId(way[place].0),
                demand.wire_bytes,
                place + 1 < crossed_end,
            ),
        };
        let mut offset = Time::ZERO;
        stops.clear();
        for place in places.clone() {
            let resource = way[place];
            let lag = offset;
            stops.push(Stop {
                resource,
                offset,
                lag,
            });
            let (bytes, held) = over(place);
            offset += bytes + held;
        }
        let links = places.clone().filter(|place| !shape.is_bus(*place));
        let mut rates = links.map(|place| self.links.rate_of(self.topology, LinkId(way[place].0)));
        let first = rates.next();
        if rates.all(|rate| Some(rate) == first) {
            return;
        }
        let frame_bytes = self.frame_bytes(demand);
        let mut rest = Rest::default();
        for (place, stop) in places.clone().zip(stops.iter_mut()).rev() {
            if !shape.is_bus(place) {
                let link = LinkId(way[place].0);
                let goes_on = place + 1 < crossed_end;
                rest.add_link(self, (link, goes_on), (demand.wire_bytes, frame_bytes));
            } else if place > 0 {
                rest.add_last_bus(frame_bytes, demand, ends);
            }
            stop.lag = rest.delay();
        }
        let whole = rest.delay();
        let mut least = Time::ZERO;
        for (place, stop) in places.clone().zip(stops.iter_mut()) {
            // No byte is faster than its way.
            stop.lag = whole.saturating_sub(stop.lag).max(least);
            least = stop.lag + over(place).0;
        }
    }

    /// The rate of the slowest of some links, bytes a picosecond.
    #[must_use]
    pub fn slowest(&self, path: &[LinkId]) -> f64 {
        let rates = path.iter().map(|&link| {
            let rate = self.links.rate_of(self.topology, link);
            rate.bytes_per_picosecond()
        });
        rates.fold(f64::INFINITY, f64::min)
    }

    /// From the last byte's start on the slowest part of a hop to its being at the hop's end: at a
    /// switch that stores, ready to be forwarded. Each byte takes as long over links of one rate.
    #[must_use]
    pub fn hop(
        &self,
        shape: Shape,
        places: &Range<usize>,
        path: &[LinkId],
        demand: &FlowDemand,
        ends: &Ends,
    ) -> Time {
        let crossed = shape.links_of(places);
        let ends_at_switch = !crossed.is_empty() && crossed.end < shape.links;
        let forwarding = if ends_at_switch {
            self.switch.delay
        } else {
            Time::ZERO
        };
        let frame_bytes = self.frame_bytes(demand);
        let mut rest = Rest::default();
        if shape.last_bus && places.end == shape.len() {
            rest.add_last_bus(frame_bytes, demand, ends);
        }
        for place in crossed.clone().rev() {
            let goes_on = place + 1 < crossed.end;
            rest.add_link(
                self,
                (path[place], goes_on),
                (demand.wire_bytes, frame_bytes),
            );
        }
        rest.delay() + forwarding
    }

    /// Of a message's last frame: as many bytes of it are held back again as of the first one.
    fn frame_bytes(&self, demand: &FlowDemand) -> f64 {
        Sizes::of(demand.wire_bytes, self.links.frame).last
    }

    /// How long the bytes take over a hop, nobody else there.
    #[must_use]
    pub fn moving(
        &self,
        shape: Shape,
        places: &Range<usize>,
        path: &[LinkId],
        demand: &FlowDemand,
        ends: &Ends,
    ) -> Time {
        let mut rate = self.slowest(&path[shape.links_of(places)]);
        if shape.touches_adapter(places) {
            rate = rate.min(demand.rate_max);
        }
        for place in places.clone().filter(|&place| shape.is_bus(place)) {
            let end = match place {
                0 => ends.source,
                _ => ends.target,
            };
            rate = rate.min(end.bus_rate.bytes_per_picosecond() * demand.scale);
        }
        moving_time(demand.wire_bytes, rate)
    }

    /// What a message costs over these links, and the buses at their ends if it uses them, nobody
    /// else there.
    #[must_use]
    pub fn alone_over(&self, path: &[LinkId], demand: &FlowDemand, ends: &Ends) -> Alone {
        let shape = ends.shape(demand.uses_buses(), path.len());
        self.alone(shape, path, demand, ends)
    }

    /// What a message costs over a way of some shape and these links, nobody else there.
    #[must_use]
    pub fn alone(&self, shape: Shape, path: &[LinkId], demand: &FlowDemand, ends: &Ends) -> Alone {
        let mut alone = Alone {
            moving: Time::ZERO,
            delay: Time::ZERO,
        };
        let mut from = 0;
        if let Sharing::Packets | Sharing::Credits = self.links.sharing {
            return self.frames_alone(shape, path, demand, ends);
        }
        while from < shape.len() {
            let end = shape.hop_end(from, self.links.switching, ends);
            let places = from..end;
            alone.moving += self.moving(shape, &places, path, demand, ends);
            alone.delay += self.hop(shape, &places, path, demand, ends);
            from = end;
        }
        alone
    }

    /// Whether the frames of a message may share this link with others.
    pub(crate) fn may_spread(&self, link: LinkId) -> bool {
        let is_of_host = matches!(
            self.topology.link_class(link),
            LinkClass::HostUp | LinkClass::HostDown
        );
        !is_of_host && self.topology.spreads_frames()
    }

    /// As [`Delays::alone`], of frames that go one by one.
    fn frames_alone(
        &self,
        shape: Shape,
        path: &[LinkId],
        demand: &FlowDemand,
        ends: &Ends,
    ) -> Alone {
        let mut alone = Alone::default();
        let mut from = 0;
        loop {
            let end = shape.hop_end(from, Switching::CutThrough, ends);
            let span = self.frames_over(shape, &(from..end), path, demand, ends);
            alone.delay += Time::from_picoseconds(span.head);
            alone.moving += Time::from_picoseconds(span.total - span.head);
            from = end;
            if from >= shape.len() {
                return alone;
            }
        }
    }

    /// How long the frames of a message take over a hop, nobody else there.
    pub(crate) fn frames_over(
        &self,
        shape: Shape,
        places: &Range<usize>,
        path: &[LinkId],
        demand: &FlowDemand,
        ends: &Ends,
    ) -> Span {
        let hop = shape.part(places);
        let ends = &ends.from(shape, places.start);
        let mut demand = *demand;
        if !shape.touches_adapter(places) {
            demand.rate_max = f64::INFINITY;
        }
        let path = &path[shape.links_of(places)];
        match self.links.sharing {
            Sharing::Credits => credits::alone::alone(self, hop, path, &demand, ends),
            _ => frames::alone::alone(self, hop, path, &demand, ends),
        }
    }
}

/// What is left of a hop from some place on.
///
/// Switches hold the first byte back until they have what they need of the message. A link that is
/// faster than one before it catches up meanwhile, so that behind the slowest link the last byte
/// waits only where links have not done so by then.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// For the first byte, and how much of that it is held back.
    head: Time,
    held: Time,
    /// The last frame on the slowest link.
    slowest: Time,
    /// How much later than its first byte the frame's last one is at the end at least.
    last: Time,
}

impl Rest {
    /// A bus at the end of the way, before any link.
    fn add_last_bus(&mut self, frame_bytes: f64, demand: &FlowDemand, ends: &Ends) {
        let rate = ends.target.bus_rate.bytes_per_picosecond() * demand.scale;
        self.last = moving_time(frame_bytes, rate);
    }

    /// The link before what is there.
    fn add_link(
        &mut self,
        delays: &Delays<'_>,
        (link, goes_on): (LinkId, bool),
        (wire_bytes, frame_bytes): (f64, f64),
    ) {
        let (way, held) = delays.over(link, wire_bytes, goes_on);
        let rate = delays.links.rate_of(delays.topology, link);
        let frame = moving_time(frame_bytes, rate.bytes_per_picosecond());
        self.head += way + held;
        self.held += held;
        self.slowest = self.slowest.max(frame);
        self.last = self.last.max(frame.saturating_sub(self.held));
    }

    /// For the last byte, behind the slowest link.
    fn delay(&self) -> Time {
        self.head - self.slowest.saturating_sub(self.last)
    }
}

/// How long a flow of its own takes: as [`crate::fluid`] rounds it.
#[must_use]
pub fn moving_time(wire_bytes: f64, rate: f64) -> Time {
    Time::from_picoseconds(whole_above(wire_bytes / rate).max(1))
}
