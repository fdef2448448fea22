//! Packets over links with virtual channels and credits.
//!
//! A message is cut into packets. Each channel of a link has a buffer at the link's end, and what
//! begins on the link must have room there, which its sender knows from credits: it spends them,
//! and they come back over the cable when the buffer is free again. Nothing is lost, so what finds
//! no room waits where it is, and what is behind it waits too. With virtual cut-through a whole
//! packet must find room ([`units`]), and with wormhole each flit by itself.
//!
//! A switch looks at the front of each buffer when something has changed ([`switch`]): each of its
//! inputs puts one channel forward in turn, and each of its outputs takes one input in turn. An
//! adapter sends a packet of each of its flows in turn ([`adapter`]). The way of a message is fixed
//! when it begins, and so is its channel on each link: packets of a flow do not overtake each
//! other. Unless each takes a way of its own ([`spread`]).
//!
//! Time goes from event to event: of a switch or a host, when it has something to do. Those of one
//! time may be worked out in any order, since what one does others see later; but for hosts on one
//! bus, which have it in the order of their numbers. An arrival is no
//! event by itself, and nor is a credit unless somebody waits for it. Of the caller's events one
//! lets all that is due happen; three are of a message: that its sender is done, that its head is
//! there, that its last byte is.

pub(crate) mod alone;
mod channel;
mod deadlock;
mod followed;
mod settings;
mod spread;
mod switch;
mod units;

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use viaduct_engine::{EventId, EventQueue, Time};
use viaduct_topology::{LinkId, Node, Topology};

use self::channel::{Channel, Link, NONE, Unit, holder};
pub use self::deadlock::Deadlock;
use self::followed::FollowedUnits;
pub use self::settings::{Arbitration, CREDIT_BYTES, CreditLinks, FlowControl};
use self::spread::Routed;
use self::switch::Switch;
use self::units::{Cut, Kind, Passages, Units};
use crate::account::Account;
use crate::adapter::{Adapters, Inbound, NEVER};
use crate::by_host::ByHost;
use crate::fluid::{FlowDemand, FlowId, ResourceId};
use crate::frames::alone::{Forwarding, Span};
use crate::hops::Delays;
use crate::passage::Crossing;
use crate::queues::Step;
use crate::rate::{Frame, Rate, Switching};
use crate::spread::Spread;

/// The event that lets happen what is due: no message has this number.
const DUE: FlowId = FlowId(u32::MAX - 1);

/// A packet that nothing bounds is taken to have so many bytes, where a buffer's size follows from
/// that of packets.
const UNBOUNDED_PACKET_BYTES: f64 = 65_536.0;

/// All channels, switches and adapters, and the messages on their way.
#[derive(Debug)]
pub(crate) struct Credits {
    topology: Arc<Topology>,
    settings: CreditLinks,
    frame: Frame,
    switching: Switching,
    forwarding: Forwarding,
    bus_rates: ByHost<Rate>,
    links: Vec<Link>,
    channels: Vec<Channel>,
    switches: Vec<Switch>,
    adapters: Adapters<Held>,
    /// When each switch, and behind those each host, is to be worked out next.
    wakes: Vec<u64>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    due_event: EventId,
    due_at: u64,
    passages: Passages,
    /// Which ways packets take, if they take some of their own, and those that are on theirs.
    spread: Option<Box<Spread>>,
    /// Whether each switch chooses a link for them by its queues.
    chooses_links: bool,
    routed: Vec<Routed>,
    routed_free: Vec<u32>,
    /// Units in the buffers of switches, or on their way there.
    waiting: u32,
    /// Events to be scheduled: of which messages, and when.
    notices: Vec<(u64, u32)>,
    /// Links for which somebody asks.
    asked: Vec<u32>,
    /// Times that switches and hosts were worked out.
    works: u64,
    deadlock: Option<Box<Deadlock>>,
    /// The message whose units are followed, if there is one.
    followed: Option<Box<FollowedUnits>>,
    account: Account,
    numbers: Vec<u32>,
}

/// A unit that has come to a host: the channel whose buffer it is in until it is over the bus, and
/// the credits it takes there.
#[derive(Clone, Copy, Debug)]
struct Held {
    kind: Kind,
    channel: u32,
    credits: u32,
}

/// Whether a unit finds room at the end of a link.
enum Room {
    /// It does.
    Now,
    /// From a time on.
    At(u64),
    /// Nobody knows when.
    Unknown,
}

impl Credits {
    /// The links of a network, and hosts with buses of some rates at its ends.
    pub(crate) fn new(
        topology: &Arc<Topology>,
        delays: &Delays<'_>,
        bus_rates: ByHost<Rate>,
    ) -> Self {
        let config = delays.links;
        let settings = config.credits;
        let forwarding = alone::forwarding(delays);
        let hosts = topology.host_count();
        let number = |node: Node| match node {
            Node::Switch(switch) => switch.0,
            Node::Host(host) => topology.switch_count() + host.0,
        };
        let usual = Units::of(usual_bytes(config.frame), config.frame, &settings);
        let mut switches: Vec<Switch> = (0..topology.switch_count())
            .map(|_| Switch::default())
            .collect();
        let mut channels = Vec::new();
        let links: Vec<Link> = (0..topology.link_count())
            .map(|id| {
                let (from, to) = topology.link_ends(LinkId(id));
                let rate = config.rate_of(topology, LinkId(id)).bytes_per_picosecond();
                let propagation = config.propagation_of(topology, LinkId(id)).picoseconds();
                let mut link = Link::new((number(from), number(to)), rate);
                link.crossing = propagation;
                if let Node::Switch(_) = from {
                    link.crossing += settings.traversal.picoseconds();
                }
                link.credit = propagation + settings.credit_delay.picoseconds();
                if let Node::Switch(_) = to {
                    link.switch = delays.switch.delay.picoseconds();
                }
                link.expect([usual.bytes[0], usual.bytes[1]], |bytes, rate| {
                    forwarding.cut(bytes, rate)
                });
                let buffer = buffer_credits(&link, &usual, &settings);
                channels.extend((0..settings.channels).map(|_| Channel::new(id, buffer)));
                if let Node::Switch(switch) = to {
                    link.port = switches[switch.0 as usize].join(id);
                }
                link
            })
            .collect();
        for switch in &mut switches {
            switch.lay(settings.channels);
        }
        let resources = links.len() + hosts as usize;
        let spread = Spread::of(topology, config.frame);
        let chooses_links = spread.as_ref().is_some_and(|it| it.is_least_queued());
        Self {
            topology: Arc::clone(topology),
            settings,
            frame: config.frame,
            switching: config.switching,
            forwarding,
            bus_rates,
            links,
            channels,
            wakes: vec![NEVER; switches.len() + hosts as usize],
            switches,
            adapters: Adapters::new(hosts),
            due: BinaryHeap::new(),
            due_event: EventId::NONE,
            due_at: NEVER,
            passages: Passages::new(),
            spread,
            chooses_links,
            routed: Vec::new(),
            routed_free: Vec::new(),
            waiting: 0,
            notices: Vec::new(),
            asked: Vec::new(),
            works: 0,
            deadlock: None,
            followed: None,
            account: Account::of(resources),
            numbers: Vec::new(),
        }
    }

    /// What is drawn hangs on a seed.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        if let Some(spread) = &mut self.spread {
            spread.set_seed(seed);
        }
    }

    /// Puts each so many hosts, one after the other, on one bus.
    pub(crate) fn share_buses(&mut self, hosts: u32) {
        self.adapters.share_buses(hosts);
    }

    /// A message begins to move. `alone` is what that costs with nobody else there.
    pub(crate) fn begin<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        crossing: &Crossing<'_>,
        demand: &FlowDemand,
        alone: Span,
    ) -> FlowId {
        let now = queue.now().picoseconds();
        let id = self.add(crossing, demand, alone);
        let passage = &mut self.passages[id as usize];
        passage.parts.begun = now;
        let source = crossing.hosts.0;
        let adapter = &mut self.adapters[source];
        if !passage.way.is_empty() {
            adapter.out.join(&mut self.passages, id, crossing.flow, now);
        } else if passage.has_first_bus {
            adapter
                .inside
                .join(&mut self.passages, id, crossing.flow, now);
        } else {
            // It crosses nothing that anybody else crosses.
            passage.end = now + alone.total;
            self.notices.push((passage.end, id));
        }
        self.wake_host(source);
        self.tell(queue);
        FlowId(id)
    }

    fn add(&mut self, crossing: &Crossing<'_>, demand: &FlowDemand, alone: Span) -> u32 {
        let id = self.passages.take();
        let has_links = !crossing.way.is_empty();
        let units = Units::over(has_links, demand.wire_bytes, self.frame, &self.settings);
        let parts = (Cut::of(units), units.bytes);
        let rates = (&self.bus_rates, self.switching);
        let passage = &mut self.passages[id as usize];
        passage.begin(crossing, demand, parts, alone, rates);
        if has_links
            && crossing.may_spread
            && let Some(spread) = &mut self.spread
        {
            passage.parts.is_spread = true;
            passage.parts.next_number = spread.first_number(crossing.hosts.0);
        }
        let turn = self.turn_of(crossing);
        let lane = self.lane(crossing.flow);
        let mut way = core::mem::take(&mut self.passages[id as usize].way);
        self.lay_channels(crossing.way, turn, lane, &mut way);
        self.passages[id as usize].way = way;
        self.passages[id as usize].parts.lane = lane;
        id
    }

    /// The event of a number: a message's tag, and what has come of it. After [`Step::Served`]
    /// there is no such message.
    pub(crate) fn step<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
    ) -> (u32, Step) {
        if id == DUE {
            self.due_event = EventId::NONE;
            self.due_at = NEVER;
            self.work(queue.now().picoseconds());
            self.tell(queue);
            return (NONE, Step::None);
        }
        let now = queue.now().picoseconds();
        let passage = &mut self.passages[id.0 as usize];
        let tag = passage.tag;
        // If several are due at one time, each has an event.
        if passage.owes_head && passage.head <= now {
            passage.owes_head = false;
            let begun = passage.head.saturating_sub(passage.lead);
            return (tag, Step::Head(Time::from_picoseconds(begun)));
        }
        if passage.owes_gone && passage.gone <= now {
            passage.owes_gone = false;
            return (tag, Step::Gone);
        }
        let is_alone_with_bus = passage.way.is_empty();
        let at = passage.end.saturating_sub(passage.lead);
        self.passages.give_back(id.0);
        let served = Step::Served {
            at: Time::from_picoseconds(at),
            leaves_sender: is_alone_with_bus,
        };
        (tag, served)
    }

    /// Does what is due by a time.
    fn work(&mut self, now: u64) {
        while let Some(&Reverse((time, node))) = self.due.peek()
            && time <= now
        {
            self.due.pop();
            if self.wakes[node as usize] != time {
                continue;
            }
            self.wakes[node as usize] = NEVER;
            self.works += 1;
            match node.checked_sub(self.switches.len() as u32) {
                None => self.work_switch(node, time),
                Some(host) => self.work_host(host, time),
            }
        }
        let is_still = self.due.is_empty() && self.waiting > 0;
        if self.deadlock.is_none() && (is_still || self.works >= deadlock::WORKS) {
            self.works = 0;
            self.look_for_deadlock(now);
        }
    }

    /// A node is to be worked out at a time.
    #[inline]
    fn wake(&mut self, node: u32, time: u64) {
        let known = &mut self.wakes[node as usize];
        if time < *known {
            *known = time;
            self.due.push(Reverse((time, node)));
        }
    }

    fn wake_host(&mut self, host: u32) {
        let time = self.adapters[host].wake();
        if time < NEVER {
            self.wake(self.switches.len() as u32 + host, time);
        }
    }

    /// Schedules what has been found out.
    fn tell<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let now = queue.now();
        for (time, id) in self.notices.drain(..) {
            queue.schedule(Time::from_picoseconds(time).max(now), E::from(FlowId(id)));
        }
        let Some(&Reverse((due, _))) = self.due.peek() else {
            return;
        };
        if due < self.due_at {
            self.due_at = due;
            let due = Time::from_picoseconds(due).max(now);
            if !queue.reschedule(self.due_event, due) {
                self.due_event = queue.schedule(due, E::from(DUE));
            }
        }
    }

    /// Whether a unit of a message finds room in a channel.
    fn room(&mut self, channel: u32, credits: u32, holder: u32, now: u64) -> Room {
        let its = &self.channels[channel as usize];
        if its.holder != NONE && its.holder != holder {
            return Room::Unknown;
        }
        if its.credits < credits && its.returning > 0 {
            let link = &mut self.links[its.link as usize];
            while let Some(&(time, channel, credits)) = link.returning.front()
                && time <= now
            {
                link.returning.pop_front();
                let its = &mut self.channels[channel as usize];
                its.credits += credits;
                its.returning -= credits;
            }
        }
        let its = &mut self.channels[channel as usize];
        if its.credits >= credits {
            return Room::Now;
        }
        if its.credits + its.returning < credits {
            its.is_awaited = true;
            return Room::Unknown;
        }
        let mut have = its.credits;
        for &(time, of, some) in &self.links[its.link as usize].returning {
            have += if of == channel { some } else { 0 };
            if have >= credits {
                return Room::At(time);
            }
        }
        Room::Unknown
    }

    /// A unit leaves a buffer, its last byte at a time.
    #[inline]
    fn give_back(&mut self, channel: u32, credits: u32, left_at: u64) {
        let its = &mut self.channels[channel as usize];
        its.returning += credits;
        let is_awaited = core::mem::take(&mut its.is_awaited);
        let link = &mut self.links[its.link as usize];
        let time = left_at + link.credit;
        link.send_back(time, channel, credits);
        link.held -= credits;
        link.units -= 1;
        if !is_awaited {
            return;
        }
        let from = link.from;
        if let Some(host) = from.checked_sub(self.switches.len() as u32) {
            self.adapters[host].out.look_at(time);
            self.wake_host(host);
        } else {
            self.wake(from, time);
        }
    }

    /// A unit begins on a link of its way, and keeps it busy for some time.
    #[inline]
    fn leave(
        &mut self,
        (id, packet, kind): (u32, u32, Kind),
        place: u16,
        (start, service): (u64, u64),
    ) {
        let passage = &self.passages[id as usize];
        let way = match packet {
            NONE => &passage.way,
            packet => &self.routed[packet as usize].way,
        };
        let number = way[usize::from(place)];
        let bytes = passage.parts.bytes(kind);
        let wanted = passage.parts.credits(kind);
        let channel = &mut self.channels[number as usize];
        let credits = wanted.min(channel.all);
        channel.credits -= credits;
        channel.holder = match kind.ends_packet() {
            true => NONE,
            false => holder(id, packet),
        };
        let link_number = channel.link;
        let link = &mut self.links[link_number as usize];
        link.free_at = start + service;
        link.carried += bytes;
        link.held += credits;
        link.held_max = link.held_max.max(link.held);
        link.units += 1;
        link.units_max = link.units_max.max(link.units);
        let head = start + link.crossing;
        let Some(&next_channel) = way.get(usize::from(place) + 1) else {
            if packet != NONE && kind.ends_packet() {
                self.routed_free.push(packet);
            }
            if self.followed.is_some() {
                let on_link = (link_number, start, service);
                self.follow_unit((id, packet, kind), place, on_link, None);
            }
            return self.arrive(id, kind, (head, service), (number, credits));
        };
        let (switch, to) = (link.switch, link.to);
        let usual_cut = link.usual_cut(bytes);
        let (cut, rate) = (usual_cut.unwrap_or_default(), link.rate);
        let cut = match usual_cut {
            Some(_) => cut,
            None => self.forwarding.cut(bytes, rate),
        };
        let next = &self.channels[next_channel as usize];
        let next_link = next.link;
        let next_credits = wanted.min(next.all);
        let next_service = self.links[next_link as usize].service(bytes);
        let wait = self.forwarding.wait(cut, service, next_service);
        let ready = start + (head - start + switch + wait).max(1);
        if self.followed.is_some() {
            let on_link = (link_number, start, service);
            self.follow_unit((id, packet, kind), place, on_link, Some(ready));
        }
        self.waiting += 1;
        self.channels[number as usize].units.push_back(Unit {
            ready,
            passage: id,
            packet,
            next_link,
            next_channel,
            next_place: place + 1,
            kind,
            credits,
            next_credits,
        });
        let port = self.links[link_number as usize].port;
        let first = link_number * self.settings.channels;
        self.switches[to as usize].note(port * self.settings.channels + number - first);
        self.wake(to, ready);
    }

    /// A unit's first byte comes to its target, the rest as fast as the last link brings it.
    #[inline(never)]
    fn arrive(
        &mut self,
        id: u32,
        kind: Kind,
        (head, service): (u64, u64),
        (channel, credits): (u32, u32),
    ) {
        let passage = &mut self.passages[id as usize];
        if passage.head == NEVER {
            passage.head = head;
            if passage.owes_head {
                self.notices.push((head, id));
            }
        }
        let span = passage.taken[kind.place()].span();
        let ready = head + service.saturating_sub(span);
        if passage.has_last_bus {
            let host = passage.target;
            let inbound = Inbound {
                ready,
                passage: id,
                what: Held {
                    kind,
                    channel,
                    credits,
                },
            };
            self.adapters.expect(host, inbound);
            return self.wake_host(host);
        }
        let end = passage.take(ready, span);
        if self.followed.is_some() {
            let host = self.passages[id as usize].target;
            self.follow_bus(host, (id, kind), (ready, end));
        }
        self.come(id, end);
        self.give_back(channel, credits, end);
    }

    /// A host has something to do at a time.
    fn work_host(&mut self, host: u32, now: u64) {
        loop {
            let adapter = &self.adapters[host];
            if adapter.ready() <= now {
                self.take_in(host);
            } else if adapter.inside.wake <= now {
                self.move_inside(host, now);
            } else if adapter.out.wake <= now {
                self.send(host, now);
            } else {
                return self.wake_host(host);
            }
        }
    }

    /// A unit that has come crosses the bus.
    fn take_in(&mut self, host: u32) {
        let adapter = &mut self.adapters[host];
        let Some(it) = adapter.inbox.pop_front() else {
            return;
        };
        let passage = &mut self.passages[it.passage as usize];
        let kind = it.what.kind;
        let bytes = passage.parts.bytes(kind);
        let bus = self.adapters.bus_mut(host);
        let end = bus.write(passage, it.ready, (kind.place(), bytes));
        if self.followed.is_some() {
            self.follow_bus(host, (it.passage, kind), (it.ready, end));
        }
        self.come(it.passage, end);
        self.give_back(it.what.channel, it.what.credits, end);
    }

    /// A unit is with its target from a time on: its message is if all of it is.
    #[inline]
    fn come(&mut self, id: u32, end: u64) {
        let passage = &mut self.passages[id as usize];
        if let Some(end) = passage.parts.come(end) {
            passage.end = end;
            self.notices.push((end, id));
        }
    }

    /// A packet of what crosses the bus alone does.
    fn move_inside(&mut self, host: u32, now: u64) {
        let adapter = &mut self.adapters[host];
        let place = match adapter.inside.turn(&self.passages, now) {
            Ok(place) => place,
            Err(next) => {
                adapter.inside.wake = next;
                return;
            }
        };
        let id = adapter.inside.flows[place].first;
        let passage = &mut self.passages[id as usize];
        let kind = passage.parts.left.next();
        let bytes = passage.parts.bytes(kind);
        let bus = self.adapters.bus_mut(host);
        let begin = bus.read(passage, now, (kind.place(), bytes));
        let bus_free = bus.free;
        passage.parts.send();
        if kind == Kind::MessageEnd {
            passage.end = begin + passage.own[kind.place()].span();
            self.notices.push((passage.end, id));
        }
        let inside = &mut self.adapters[host].inside;
        inside.rotate(&self.passages, place);
        inside.rest_until(bus_free);
        if self.followed.is_some() {
            self.follow_inside(host, (id, kind), begin);
        }
    }

    /// The flow of a host whose turn it is and whose next unit finds room, else when one may.
    fn turn(&mut self, host: u32, now: u64) -> Result<usize, u64> {
        let mut next = NEVER;
        for place in 0..self.adapters[host].out.flows.len() {
            let id = self.adapters[host].out.flows[place].first;
            let passage = &self.passages[id as usize];
            if passage.next_start > now {
                next = next.min(passage.next_start);
                continue;
            }
            let channel = passage.way[0];
            let wanted = passage.parts.credits(passage.parts.left.next());
            let credits = wanted.min(self.channels[channel as usize].all);
            let holder = holder(id, passage.parts.packet);
            match self.room(channel, credits, holder, now) {
                Room::Now => return Ok(place),
                Room::At(time) => next = next.min(time),
                Room::Unknown => {}
            }
            if self.followed.is_some() {
                let link = self.channels[channel as usize].link;
                self.follow_want(id, link, now);
            }
        }
        Err(next)
    }

    /// The adapter sends a unit of the flow whose turn it is.
    fn send(&mut self, host: u32, now: u64) {
        let place = match self.turn(host, now) {
            Ok(place) => place,
            Err(next) => {
                self.adapters[host].out.wake = next;
                return;
            }
        };
        let id = self.adapters[host].out.flows[place].first;
        let packet = self.route_packet(host, id);
        let passage = &mut self.passages[id as usize];
        let kind = passage.parts.left.next();
        let own = passage.own[kind.place()];
        let allowed = passage.next_start;
        let bytes = passage.parts.bytes(kind);
        let bus = self.adapters.bus_mut(host);
        let begin = bus.read(passage, now, (kind.place(), bytes));
        let link = &self.links[self.channels[passage.way[0] as usize].link as usize];
        let service = link.service(bytes);
        let comes = begin + own.span().saturating_sub(service);
        let start = comes.max(link.free_at);
        passage.parts.send();
        if kind == Kind::MessageEnd {
            passage.gone = start + service;
            self.notices.push((passage.gone, id));
        }
        let out = &mut self.adapters[host].out;
        if kind.ends_packet() {
            passage.parts.packet = NONE;
            out.rotate(&self.passages, place);
        }
        // It reads the next one while this one leaves.
        out.rest_until(match own.span() {
            0 => start + service,
            _ => start,
        });
        if self.followed.is_some() {
            self.follow_turn(id, (kind, allowed), (now, begin, comes));
        }
        self.leave((id, packet, kind), 0, (start, service));
    }
}

/// What others do at a host, and accounts.
impl Credits {
    /// Messages that wait for each other, if there are some.
    pub(crate) fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_deref()
    }

    /// Whether something is on a host's bus now.
    pub(crate) fn busy_on_bus(&mut self, host: u32, now: Time) -> bool {
        self.adapters.bus(host).free > now.picoseconds()
    }

    /// A short transaction takes some of a busy bus's time away.
    pub(crate) fn hold_up(&mut self, host: u32, length: Time) {
        self.adapters.bus_mut(host).free += length.picoseconds();
    }

    /// Works out until now what links and buses have carried.
    pub(crate) fn credit_all(&mut self, now: Time) {
        let now = now.picoseconds();
        let rate = |host| self.bus_rates.of(host).bytes_per_picosecond();
        let links = self.links.iter().map(|link| link.carried_by(now));
        let buses = self.adapters.carried_by(now, rate);
        self.account.credit(links.chain(buses));
    }

    /// Begins a new account.
    pub(crate) fn clear_carried(&mut self) {
        self.account.clear();
    }

    /// Bytes that a link or bus had carried when that was worked out last.
    pub(crate) fn carried(&self, resource: ResourceId) -> f64 {
        self.account.carried(resource)
    }

    /// The rate of a link or bus, bytes a picosecond.
    pub(crate) fn rate(&self, resource: ResourceId) -> f64 {
        match self.links.get(resource.0 as usize) {
            Some(link) => link.rate,
            None => {
                let host = resource.0 - self.links.len() as u32;
                self.bus_rates.of(host).bytes_per_picosecond()
            }
        }
    }

    /// Most packets, or with wormhole flits, that were in the buffers at a link's end or on their
    /// way there at once; that waited for a host's bus.
    pub(crate) fn units_max(&self, resource: ResourceId) -> u32 {
        let place = resource.0 as usize;
        match self.links.get(place) {
            Some(link) => link.units_max,
            None => {
                let host = resource.0 - self.links.len() as u32;
                self.adapters.bus(host).waiting_max
            }
        }
    }

    /// Most bytes, as credits count them, that a link's buffers were promised at once.
    pub(crate) fn held_max_bytes(&self, resource: ResourceId) -> u64 {
        let link = self.links.get(resource.0 as usize);
        let held = link.map_or(0, |it| it.held_max.max(it.held_max_before));
        u64::from(held) * u64::from(self.settings.flit_bytes)
    }

    /// As [`Credits::held_max_bytes`], of the window of the time series that ends now.
    pub(crate) fn take_held_max_bytes(&mut self, resource: ResourceId) -> u64 {
        let Some(link) = self.links.get_mut(resource.0 as usize) else {
            return 0;
        };
        let most = core::mem::replace(&mut link.held_max, link.held);
        link.held_max_before = link.held_max_before.max(most);
        u64::from(most) * u64::from(self.settings.flit_bytes)
    }

    /// What a number belongs to.
    pub(crate) fn tag(&self, id: FlowId) -> u32 {
        self.passages.tag(id)
    }

    /// What the messages on their way belong to.
    pub(crate) fn active_tags(&self) -> impl Iterator<Item = u32> {
        self.passages.active_tags()
    }

    /// Memory of all this.
    pub(crate) fn state_bytes(&self) -> usize {
        let returning: usize = self.links.iter().map(|it| it.returning.capacity()).sum();
        let units: usize = self.channels.iter().map(|it| it.units.capacity()).sum();
        let switches: usize = self.switches.iter().map(Switch::state_bytes).sum();
        self.links.capacity() * size_of::<Link>()
            + returning * size_of::<(u64, u32, u32)>()
            + self.channels.capacity() * size_of::<Channel>()
            + units * size_of::<Unit>()
            + switches
            + self.adapters.state_bytes()
            + self.passages.state_bytes()
            + self.ways_bytes()
            + self.due.capacity() * size_of::<Reverse<(u64, u32)>>()
    }
}

/// Bytes of a packet as long as one can be.
fn usual_bytes(frame: Frame) -> f64 {
    match frame.payload_bytes {
        0 => UNBOUNDED_PACKET_BYTES,
        payload => f64::from(payload) + f64::from(frame.header_bytes),
    }
}

/// The credits of each channel of a link.
fn buffer_credits(link: &Link, usual: &Units, settings: &CreditLinks) -> u32 {
    let flit_bytes = u64::from(settings.flit_bytes.max(1));
    if let Some(bytes) = settings.buffer_bytes {
        return u32::try_from(bytes / flit_bytes).unwrap_or(u32::MAX).max(1);
    }
    // One packet after another goes on while the credits of the first are on their way back.
    let bytes: f64 = usual.bytes[0] * f64::from(usual.per_packet - 1) + usual.bytes[1];
    let packet = f64::from(usual.credits[1]) * f64::from(usual.per_packet);
    let loop_time = (link.crossing + link.switch + link.credit) as f64;
    let packets = (loop_time * link.rate / bytes).ceil() + 2.0;
    (packets * packet) as u32
}
