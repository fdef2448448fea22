//! A network as whoever simulates a cluster sees it.
//!
//! It is given a [`Transfer`]: who sends how many bytes to whom, as a part of which flow, and what
//! the two ends can take and give. It answers with values, and the caller schedules what follows:
//!
//! ```text
//!  begin    -> Begun  when the head will be there, unless the message is stored on its way
//!  end      -> Moved  the tail is gone; the tail is there; the message is stored at a switch or in
//!                     the receiving adapter; or its head, which had to wait, is on its way there
//!  forward  -> Begun  a stored message goes on
//! ```
//!
//! Here alone is worked out which way a message takes, what it crosses at once and how long that
//! takes. Of the caller's events it needs one: the end of a flow, made from its number.

mod account;
mod answers;
mod apart;
mod landings;
mod stored;
mod transactions;

use std::sync::Arc;

use viaduct_engine::{EventQueue, Time};
use viaduct_topology::{HostId, LinkId, Topology};

use crate::by_host::ByHost;
use crate::credits::Credits;
use crate::fluid::{FlowDemand, FlowId, Fluid, ResourceId};
use crate::followed::Waits;
use crate::frames::Frames;
use crate::frames::alone::Span;
use crate::hops::{Alone, Delays, End, Ends, Shape, moving_time};
use crate::journeys::{JourneyId, Journeys};
use crate::links::{Arrival, LinkConfig, Sharing, SwitchModel};
use crate::passage::Crossing;
use crate::queues::arrived::Arrived;
use crate::queues::{FlowKey, Passing, Queues, Step, Stop};
use crate::rate::{Rate, Switching};
use crate::ways::{Way, WayKey, Ways};

pub use self::answers::{Begun, Landing, Moved, Next, Transfer};
use self::apart::Apart;
use self::landings::{LANDED, Landings};

/// Links and switches that share their rate among all that crosses them, and the hosts' buses.
#[derive(Debug)]
pub struct Network {
    topology: Arc<Topology>,
    links: LinkConfig,
    switch: SwitchModel,
    hosts: ByHost<End>,
    fluid: Fluid,
    /// In its place, where no flow crosses several links at once.
    apart: Option<Apart>,
    first_bus: u32,
    has_buses: bool,
    /// So many hosts, one after the other, have one bus: that of the first of them.
    hosts_per_bus: u32,
    has_equal_paths: bool,
    /// Whether ways of as many links cost the same.
    are_ways_alike: bool,
    /// Whether every way is crossed at once.
    is_cut_through: bool,
    /// The way that was worked out last: all of it, and its links.
    path: Vec<ResourceId>,
    path_links: Vec<LinkId>,
    stops: Vec<Stop>,
    /// The same links by their numbers, where frames cross them.
    numbers: Vec<u32>,
    last: Option<Whole>,
    ways: Option<Ways>,
    journeys: Journeys,
    /// The tag of the message that is followed, and what it waited for, once it has been served.
    followed: Option<u32>,
    waits: Option<(Waits, Time)>,
    /// Where a message that crosses no bus might be there before one of its flow that does.
    landings: Option<Box<Landings>>,
}

/// What a message cost that crossed its way at once.
#[derive(Clone, Copy, Debug)]
struct Whole {
    links: usize,
    demand: FlowDemand,
    alone: Alone,
    /// How long its sender was busy with it.
    sending: Time,
}

impl Network {
    /// A network of some links with hosts at its ends. `keeps_ways` says whether the same few pairs
    /// of hosts talk again and again.
    #[must_use]
    pub fn new(
        topology: &Arc<Topology>,
        links: &LinkConfig,
        switch: SwitchModel,
        hosts: impl Into<ByHost<End>>,
        keeps_ways: bool,
    ) -> Self {
        let hosts = hosts.into();
        let (link_count, host_count) = (topology.link_count(), topology.host_count());
        let has_buses = hosts.values().any(End::has_bus);
        let bus_count = if has_buses { host_count } else { 0 };
        let rates = (0..link_count)
            .map(|link| links.rate_of(topology, LinkId(link)))
            .chain((0..bus_count).map(|host| hosts.of(host).bus_rate))
            .map(Rate::bytes_per_picosecond);
        let delays = Delays {
            topology,
            links,
            switch: &switch,
        };
        let apart = match links.sharing {
            Sharing::Fluid | Sharing::MaxMin => None,
            Sharing::Queues => Some(match links.arrival {
                Arrival::Free => Apart::Queues(Box::new(Queues::new(rates.clone(), link_count))),
                Arrival::Limits => {
                    Apart::Arrived(Box::new(Arrived::new(rates.clone(), link_count)))
                }
            }),
            Sharing::Packets => {
                let frames = Frames::new(topology, &delays, hosts.map(|end| end.bus_rate));
                Some(Apart::Frames(Box::new(frames)))
            }
            Sharing::Credits => {
                let credits = Credits::new(topology, &delays, hosts.map(|end| end.bus_rate));
                Some(Apart::Credits(Box::new(credits)))
            }
        };
        let forward = hosts
            .values()
            .all(|end| end.forwarding == Switching::CutThrough);
        let is_apart = apart.is_some();
        let of_flows = rates.filter(|_| !is_apart);
        let is_cut_through = forward && links.switching_of_messages() == Switching::CutThrough;
        let is_left_early = is_apart || !is_cut_through;
        // Frames keep their order themselves.
        let spreads_packets = links.sharing == Sharing::Credits && topology.spreads_frames();
        let lands_apart = spreads_packets || has_buses && is_left_early;
        Self {
            fluid: Fluid::new(links.sharing, of_flows, link_count),
            apart,
            first_bus: link_count,
            has_buses,
            hosts_per_bus: 1,
            has_equal_paths: topology.has_equal_paths(),
            are_ways_alike: topology.are_links_alike() && hosts.are_alike(),
            is_cut_through,
            path: Vec::new(),
            path_links: Vec::new(),
            stops: Vec::new(),
            numbers: Vec::new(),
            last: None,
            ways: keeps_ways.then(|| Ways::new(host_count)),
            journeys: Journeys::default(),
            followed: None,
            waits: None,
            landings: lands_apart.then(|| Box::new(Landings::new(spreads_packets))),
            topology: Arc::clone(topology),
            links: links.clone(),
            switch,
            hosts,
        }
    }

    /// What is drawn in switches hangs on a seed.
    pub fn set_seed(&mut self, seed: u64) {
        if let Some(apart) = &mut self.apart {
            apart.set_seed(seed);
        }
    }

    /// Gives each so many hosts, one after the other, one bus: they are adapters of one machine.
    pub fn share_buses(&mut self, hosts: u32) {
        self.hosts_per_bus = hosts.max(1);
        match &mut self.apart {
            Some(Apart::Frames(frames)) => frames.share_buses(hosts),
            Some(Apart::Credits(credits)) => credits.share_buses(hosts),
            // They cross those that `Network::bus` names.
            None | Some(Apart::Queues(_) | Apart::Arrived(_)) => {}
        }
    }

    /// Begins to move a message's bytes.
    // What it is given and what it answers are long, and need not lie in memory where it is called.
    #[inline(always)]
    pub fn begin<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
    ) -> Begun {
        let begun = self.begin_anywhere(queue, transfer);
        if let Some(landings) = &mut self.landings
            && (landings.are_for_all()
                || transfer.landing != Landing::Apart && self.hosts.of(transfer.ends.1).has_bus())
        {
            let flow = FlowKey::new(transfer.flow_name(), transfer.class, 0);
            landings.begin(flow, &begun, transfer.landing);
        }
        begun
    }

    #[inline(always)]
    fn begin_anywhere<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
    ) -> Begun {
        if self.apart.is_some() {
            return self.begin_apart(queue, transfer);
        }
        let demand = transfer.demand;
        let alone = match &self.ways {
            Some(ways) => {
                let key = self.key(transfer);
                match ways.find(&key) {
                    Some(way) if self.is_cut_through => {
                        let path = way.path();
                        self.fluid.begin(queue, path, demand);
                        return Begun::whole(demand.tag, way.alone);
                    }
                    Some(way) => {
                        self.path.clear();
                        self.path.extend_from_slice(way.path());
                        way.alone
                    }
                    None => self.find_way(transfer, key),
                }
            }
            None => {
                self.lay(transfer);
                self.alone(transfer)
            }
        };
        if self.is_cut_through {
            self.fluid.begin(queue, &self.path, demand);
            return Begun::whole(demand.tag, alone);
        }
        let shape = self.shape(transfer);
        self.begin_journey(queue, transfer, shape, alone)
    }

    /// A message that will be stored on the way in `path` begins with its first hop.
    fn begin_journey<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
        shape: Shape,
        alone: Alone,
    ) -> Begun {
        let flow = Some((transfer.flow_name(), transfer.class));
        let in_line = transfer.is_ordered && self.apart.is_none();
        let id = self.journeys.insert(
            &self.path,
            shape,
            transfer.demand,
            transfer.ends,
            flow,
            in_line,
        );
        Begun {
            alone,
            ..self.begin_hop(queue, id)
        }
    }

    /// As [`Network::begin`], where flows do not share links.
    #[inline(never)]
    fn begin_apart<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
    ) -> Begun {
        self.lay(transfer);
        let shape = self.shape(transfer);
        if !self.is_cut_through {
            let alone = self.alone(transfer);
            return self.begin_journey(queue, transfer, shape, alone);
        }
        if self.apart.as_ref().is_some_and(Apart::cuts) {
            let alone = self.alone(transfer);
            return self.cross_whole(queue, transfer, shape, (alone, true));
        }
        match &self.last {
            Some(last) if self.are_ways_alike && last.is_like(&self.path, transfer) => {
                for (stop, &resource) in self.stops.iter_mut().zip(&self.path) {
                    stop.resource = resource;
                }
            }
            _ => {
                self.another_alone(transfer);
                self.lay_stops(shape, transfer);
            }
        }
        let whole = self.last.as_ref().map(|last| (last.alone, last.sending));
        let (alone, sending) = whole.unwrap_or_default();
        self.pass_whole(queue, transfer, shape, (alone, sending))
    }

    /// A message goes through the queues in `stops`, which are its whole way.
    fn pass_whole<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
        shape: Shape,
        (alone, sending): (Alone, Time),
    ) -> Begun {
        let passing = Passing {
            stops: &self.stops,
            senders: shape.senders(),
            demand: transfer.demand,
            flow: Some(FlowKey::new(
                transfer.flow_name(),
                transfer.class,
                shape.place_on_way(0),
            )),
            unshared: alone.moving,
            sending,
        };
        let apart = self.apart.as_mut();
        let has_head = apart.is_some_and(|apart| apart.pass(queue, &passing).1);
        Begun {
            has_head,
            ..Begun::whole(transfer.demand.tag, alone)
        }
    }

    /// The frames of a message go over the way in `path`, or over others that are as good, if they
    /// may and do.
    fn cross_whole<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        transfer: &Transfer,
        shape: Shape,
        (alone, may_spread): (Alone, bool),
    ) -> Begun {
        self.numbers.clear();
        let links = &self.path[shape.place_range_of_links()];
        self.numbers.extend(links.iter().map(|link| link.0));
        let crossing = Crossing {
            hosts: transfer.ends,
            way: &self.numbers,
            has_first_bus: shape.first_bus,
            has_last_bus: shape.last_bus,
            flow: Some(FlowKey::new(transfer.flow_name(), transfer.class, 0)),
            brings_head: true,
            may_spread,
        };
        let span = Span {
            head: alone.delay.picoseconds(),
            total: (alone.delay + alone.moving).picoseconds(),
        };
        if let Some(apart) = &mut self.apart {
            let flow = apart.cross(queue, &crossing, &transfer.demand, span);
            if self.followed == Some(transfer.demand.tag) {
                apart.follow(flow, transfer.ends.0, queue.now());
            }
        }
        Begun {
            // Its head may have to wait, and so has what goes nowhere no head.
            has_head: shape.links == 0,
            ..Begun::whole(transfer.demand.tag, alone)
        }
    }

    /// Puts the way in `path` into `stops`.
    fn lay_stops(&mut self, shape: Shape, transfer: &Transfer) {
        let mut stops = core::mem::take(&mut self.stops);
        let (delays, ends) = (self.delays(), self.ends(transfer.ends));
        let message = (&transfer.demand, &ends);
        delays.stops(shape, &(0..shape.len()), &self.path, message, &mut stops);
        self.stops = stops;
    }

    /// What a transfer takes over links that the caller has chosen, nobody else there.
    pub(crate) fn alone_along(&self, way: &[LinkId], transfer: &Transfer) -> Alone {
        let shape = Shape::of_links(way.len());
        let ends = self.ends(transfer.ends);
        self.delays().alone(shape, way, &transfer.demand, &ends)
    }

    /// As [`Network::begin`], over links that the caller has chosen and over no bus, as adapters do
    /// that put the whole route into a packet's head.
    pub fn begin_along<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        way: &[LinkId],
        transfer: &Transfer,
    ) -> Begun {
        self.path.clear();
        self.path.extend(way.iter().copied().map(ResourceId::from));
        let shape = Shape::of_links(way.len());
        let alone = self.alone_along(way, transfer);
        let (demand, delays) = (transfer.demand, self.delays());
        let ends = self.ends(transfer.ends);
        if !self.is_cut_through {
            return self.begin_journey(queue, transfer, shape, alone);
        }
        match self.apart {
            None => {
                self.fluid.begin(queue, &self.path, demand);
                return Begun::whole(demand.tag, alone);
            }
            Some(Apart::Frames(_) | Apart::Credits(_)) => {
                return self.cross_whole(queue, transfer, shape, (alone, false));
            }
            Some(Apart::Queues(_) | Apart::Arrived(_)) => {}
        }
        let senders = 0..shape.senders();
        let sending = delays.moving(shape, &senders, way, &demand, &ends);
        self.lay_stops(shape, transfer);
        self.last = None;
        self.pass_whole(queue, transfer, shape, (alone, sending))
    }

    /// A stored message goes on over its next hop; not yet if one of the same flow that was stored
    /// before it crosses that now.
    pub fn forward<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: JourneyId,
    ) -> Option<Begun> {
        let is_free = self.journeys.take_place(id);
        let begun = is_free.then(|| self.begin_hop(queue, id))?;
        if let Some(landings) = &mut self.landings {
            landings.go_on(&begun);
        }
        Some(begun)
    }

    fn begin_hop<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: JourneyId,
    ) -> Begun {
        let delays = Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        };
        let journey = self.journeys.get_mut(id);
        let ends = Ends {
            source: *self.hosts.of(journey.ends.0),
            target: *self.hosts.of(journey.ends.1),
        };
        let (shape, from) = (journey.shape, journey.done);
        let switching = self.links.switching_of_messages();
        let end = shape.hop_end(from, switching, &ends);
        let places = from..end;
        let links = shape.place_range_of_links();
        self.path_links.clear();
        self.path_links
            .extend(journey.path[links].iter().map(|link| LinkId(link.0)));
        let mut demand = journey.demand;
        if !shape.touches_adapter(&places) {
            demand.rate_max = f64::INFINITY;
        }
        let path = &self.path_links;
        let unshared = delays.moving(shape, &places, path, &demand, &ends);
        journey.delay = delays.hop(shape, &places, path, &demand, &ends);
        journey.hop_end = end;
        let mut begun = Begun {
            tag: demand.tag,
            journey: id,
            delay: journey.delay,
            unshared,
            has_head: shape.brings_head(&places),
            alone: Alone::default(),
        };
        demand.tag = id.0;
        let name = journey.flow;
        let flow_at = |place| name.map(|(flow, class)| FlowKey::new(flow, class, place));
        let apart = match &mut self.apart {
            Some(apart) if !apart.cuts() => apart,
            Some(apart) => {
                let span = delays.frames_over(shape, &places, path, &demand, &ends);
                journey.delay = Time::from_picoseconds(span.head);
                begun.delay = journey.delay;
                begun.unshared = Time::from_picoseconds(span.total - span.head);
                let part = shape.part(&places);
                let (source, target) = journey.ends;
                let crosses_last_bus = part.links == 0 && from > 0;
                self.numbers.clear();
                self.numbers
                    .extend(path[shape.links_of(&places)].iter().map(|link| link.0));
                let crossing = Crossing {
                    hosts: (if crosses_last_bus { target } else { source }, target),
                    way: &self.numbers,
                    has_first_bus: part.first_bus,
                    has_last_bus: part.last_bus,
                    flow: flow_at(from as u16),
                    brings_head: begun.has_head,
                    may_spread: true,
                };
                begun.has_head &= part.links == 0;
                let flow = apart.cross(queue, &crossing, &demand, span);
                if self.followed == Some(begun.tag) {
                    apart.follow(flow, crossing.hosts.0, queue.now());
                }
                return begun;
            }
            None => {
                self.fluid.begin(queue, &journey.path[places], demand);
                return begun;
            }
        };
        let stops = &mut self.stops;
        delays.stops(shape, &places, &journey.path, (&demand, &ends), stops);
        self.last = None;
        let passing = Passing {
            stops,
            senders: places.len(),
            demand,
            flow: flow_at(shape.place_on_way(from)),
            unshared,
            sending: unshared,
        };
        let (_, is_head_known) = apart.pass(queue, &passing);
        begun.has_head &= is_head_known;
        begun
    }

    /// The event of a flow's number: what it has moved, if there is something to tell.
    #[inline(always)]
    pub fn end<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        flow: FlowId,
    ) -> Option<Moved> {
        if self.landings.is_some() {
            return self.end_in_order(queue, flow);
        }
        self.end_anyhow(queue, flow)
    }

    #[inline(never)]
    fn end_in_order<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        flow: FlowId,
    ) -> Option<Moved> {
        if flow == LANDED {
            return self.landings.as_mut()?.next();
        }
        let moved = self.end_anyhow(queue, flow)?;
        let landings = self.landings.as_mut()?;
        match moved.next {
            Next::There => landings.land(moved),
            Next::Head(_) => landings.meet(moved),
            _ => Some(moved),
        }
    }

    #[inline(always)]
    fn end_anyhow<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        flow: FlowId,
    ) -> Option<Moved> {
        if self.apart.is_some() {
            return self.step_apart(queue, flow);
        }
        let tag = self.fluid.end(queue, flow);
        let at = queue.now();
        Some(if self.is_cut_through {
            Moved::whole(tag, at)
        } else {
            self.end_hop(JourneyId(tag), at, at)
        })
    }

    #[inline(never)]
    fn step_apart<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        flow: FlowId,
    ) -> Option<Moved> {
        let now = queue.now();
        let mut loss = None;
        let (tag, step) = match self.apart.as_mut()? {
            Apart::Queues(queues) => queues.step(queue, flow),
            Apart::Arrived(queues) => queues.step(queue, flow),
            Apart::Credits(credits) => credits.step(queue, flow),
            Apart::Frames(frames) => {
                let told = frames.step(queue, flow);
                loss = frames.loss(flow);
                told
            }
        };
        if let Step::Served { at, .. } = step
            && self.followed.is_some()
            && self.followed == Some(self.tag_of(tag))
        {
            let waits = self.apart.as_mut().and_then(|it| it.take_waits(flow));
            self.waits = waits.map(|waits| (waits, at));
        }
        let (at, next, is_gone) = match step {
            Step::None => return None,
            Step::Head(_) if !self.brings_head(JourneyId(tag)) => return None,
            Step::Head(begun) => {
                // Frames behind the first are told of when all have come.
                loss = loss.filter(|loss| loss.came == 0);
                (now, Next::Head(begun), false)
            }
            Step::Gone => {
                loss = None;
                (now, Next::Onward, true)
            }
            Step::Served { at, .. } if !self.is_cut_through => {
                let moved = self.end_hop(JourneyId(tag), at, now);
                return Some(Moved { loss, ..moved });
            }
            Step::Served { at, leaves_sender } => (at, Next::There, leaves_sender),
        };
        Some(Moved {
            at,
            is_gone,
            next,
            loss,
            ..Moved::whole(self.tag_of(tag), at)
        })
    }

    /// Whether what a message crosses now ends where its head meets the receiving adapter.
    fn brings_head(&self, id: JourneyId) -> bool {
        self.is_cut_through
            || self.journeys.get(id).is_some_and(|journey| {
                let hop = journey.done..journey.hop_end;
                journey.shape.brings_head(&hop)
            })
    }

    #[cold]
    fn end_hop(&mut self, id: JourneyId, at: Time, now: Time) -> Moved {
        let behind = self.journeys.leave_place(id);
        let journey = self.journeys.get_mut(id);
        let places = journey.done..journey.hop_end;
        journey.done = places.end;
        let there = at + journey.delay;
        let (tag, after) = (journey.demand.tag, there.saturating_sub(now));
        // Of frames that is told by itself.
        let is_told = self.apart.as_ref().is_some_and(Apart::cuts)
            && !journey.shape.links_of(&places).is_empty();
        let is_gone = journey.shape.leaves(&places) && !is_told;
        let next = if places.end >= journey.path.len() {
            self.journeys.remove(id);
            Next::There
        } else if journey.is_at_adapter() {
            Next::AtAdapter(id, after)
        } else {
            Next::AtSwitch(id, after)
        };
        Moved {
            tag,
            at,
            places,
            is_gone,
            next,
            behind,
            loss: None,
        }
    }

    /// Another device on a host's bus begins to move bytes over it.
    pub fn begin_on_bus<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host: u32,
        mut demand: FlowDemand,
    ) -> FlowId {
        let path = [self.bus(host)];
        if !self.is_cut_through {
            let shape = Shape {
                first_bus: true,
                links: 0,
                last_bus: false,
            };
            let ends = (host, host);
            let id = self
                .journeys
                .insert(&path, shape, demand, ends, None, false);
            self.journeys.get_mut(id).hop_end = 1;
            demand.tag = id.0;
        }
        let apart = match &mut self.apart {
            None => return self.fluid.begin(queue, &path, demand),
            Some(apart) if !apart.cuts() => apart,
            Some(apart) => {
                let crossing = Crossing {
                    hosts: (host, host),
                    way: &[],
                    has_first_bus: self.hosts.of(host).has_bus(),
                    has_last_bus: false,
                    flow: None,
                    brings_head: false,
                    may_spread: false,
                };
                let span = Span {
                    head: 0,
                    total: moving_time(demand.wire_bytes, demand.rate_max).picoseconds(),
                };
                return apart.cross(queue, &crossing, &demand, span);
            }
        };
        let rate = self.hosts.of(host).bus_rate.bytes_per_picosecond() * demand.scale;
        let unshared = moving_time(demand.wire_bytes, rate.min(demand.rate_max));
        let passing = Passing {
            stops: &[Stop {
                resource: path[0],
                offset: Time::ZERO,
                lag: Time::ZERO,
            }],
            senders: 1,
            demand,
            flow: None,
            unshared,
            sending: unshared,
        };
        apart.pass(queue, &passing).0
    }

    /// To be called before time moves on: works out what this instant has changed.
    #[inline]
    pub fn settle<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        self.fluid.settle(queue);
        if let Some(apart) = &mut self.apart {
            apart.settle(queue);
        }
        if let Some(landings) = &mut self.landings {
            landings.schedule(queue);
        }
    }

    /// The links that the messages of a flow cross.
    pub fn way(&mut self, ends: (u32, u32), flow: u32) -> &[LinkId] {
        self.route(ends, flow);
        &self.path_links
    }

    fn route(&mut self, (source, target): (u32, u32), flow: u32) {
        self.path_links.clear();
        if source != target {
            let ends = (HostId(source), HostId(target));
            let topology = &self.topology;
            topology.route_flow(ends.0, ends.1, flow, &mut self.path_links);
        }
    }

    /// Puts the buses and links of a transfer into `path`.
    #[inline]
    fn lay(&mut self, transfer: &Transfer) {
        let (source, target) = transfer.ends;
        let uses_buses = self.has_buses && transfer.demand.uses_buses();
        self.path.clear();
        if uses_buses && self.hosts.of(source).has_bus() {
            self.path.push(self.bus(source));
        }
        if source == target {
            return;
        }
        let ends = (HostId(source), HostId(target));
        let topology = &self.topology;
        topology.route_flow(ends.0, ends.1, transfer.flow, &mut self.path);
        if uses_buses && self.hosts.of(target).has_bus() {
            self.path.push(self.bus(target));
        }
    }

    fn shape(&self, transfer: &Transfer) -> Shape {
        let (source, target) = transfer.ends;
        let uses_buses = self.has_buses && transfer.demand.uses_buses();
        let first_bus = uses_buses && self.hosts.of(source).has_bus();
        let last_bus = uses_buses && source != target && self.hosts.of(target).has_bus();
        Shape {
            first_bus,
            links: self.path.len() - usize::from(first_bus) - usize::from(last_bus),
            last_bus,
        }
    }

    /// What a transfer costs on `path`, nobody else there.
    #[inline]
    fn alone(&mut self, transfer: &Transfer) -> Alone {
        // Where all links are alike, paths of one length are too, and most messages repeat.
        if let Some(last) = &self.last
            && self.are_ways_alike
            && last.is_like(&self.path, transfer)
        {
            return last.alone;
        }
        self.another_alone(transfer)
    }

    #[inline(never)]
    fn another_alone(&mut self, transfer: &Transfer) -> Alone {
        let shape = self.shape(transfer);
        self.path_links.clear();
        let links = &self.path[shape.place_range_of_links()];
        self.path_links
            .extend(links.iter().map(|link| LinkId(link.0)));
        let (delays, demand) = (self.delays(), &transfer.demand);
        let (path, ends) = (&self.path_links, self.ends(transfer.ends));
        let alone = delays.alone(shape, path, demand, &ends);
        let sending = delays.moving(shape, &(0..shape.senders()), path, demand, &ends);
        self.last = Some(Whole {
            links: self.path.len(),
            demand: transfer.demand,
            alone,
            sending,
        });
        alone
    }

    fn key(&self, transfer: &Transfer) -> WayKey {
        WayKey {
            ends: transfer.ends,
            flow: if self.has_equal_paths {
                transfer.flow
            } else {
                0
            },
            demand: transfer.demand,
        }
    }

    /// Works a way out, and keeps it.
    #[inline(never)]
    fn find_way(&mut self, transfer: &Transfer, key: WayKey) -> Alone {
        self.lay(transfer);
        let alone = self.alone(transfer);
        if let Some(ways) = &mut self.ways {
            ways.keep(Way::new(key, &self.path, alone));
        }
        alone
    }

    /// The hosts at the ends of a way.
    fn ends(&self, (source, target): (u32, u32)) -> Ends {
        Ends {
            source: *self.hosts.of(source),
            target: *self.hosts.of(target),
        }
    }

    fn delays(&self) -> Delays<'_> {
        Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        }
    }

    /// A host's bus.
    #[inline]
    #[must_use]
    pub const fn bus(&self, host: u32) -> ResourceId {
        match self.hosts_per_bus {
            1 => ResourceId(self.first_bus + host),
            hosts => ResourceId(self.first_bus + host - host % hosts),
        }
    }

    /// Whether every way is crossed at once.
    #[inline]
    #[must_use]
    pub const fn is_cut_through(&self) -> bool {
        self.is_cut_through
    }

    /// Whether the bus of any host limits anything.
    #[inline]
    #[must_use]
    pub const fn has_buses(&self) -> bool {
        self.has_buses
    }
}

impl Whole {
    /// Whether a message costs the same over a path, if all links are alike.
    #[inline]
    fn is_like(&self, path: &[ResourceId], transfer: &Transfer) -> bool {
        self.links == path.len() && self.demand.is_like(&transfer.demand)
    }
}
