//! Frames through the output queues of switches, one by one.
//!
//! A message is cut into frames. Its adapter sends a frame of each of its flows in turn; a switch
//! puts a frame into the queue of the link that it goes to, behind those that came before, or where
//! flows take turns behind those of its flow ([`waiting`]): when as much of it is there as the
//! switch needs (cut-through), or all (store-and-forward). Queues hold as much as comes, or lose
//! and mark frames ([`limits`]), or trim them ([`trim`]). Of frames that come at one time, that of
//! the link with the smaller number is first.
//!
//! Time goes by windows ([`calendar`]). A window is the least time from a frame's start on a cable
//! to its entering the next queue, so that queues are worked out a window ahead of the hosts, each
//! by itself, and the hosts' events see what has come of it. An adapter is worked out when somebody
//! asks, and at the end of each window, together with those on its bus. One event of the caller's
//! ends a window, and those behind it too where nothing else is to happen first ([`window`]);
//! three, or four of a message: that its sender is done, that its head is there, that its last byte
//! is.

mod active;
pub(crate) mod alone;
mod cable;
mod calendar;
mod dcqcn;
mod followed;
mod inboxes;
pub(crate) mod limits;
mod look_ahead;
pub(crate) mod nscc;
mod order;
mod output;
mod overtaking;
mod parts;
pub(crate) mod pause;
mod replies;
mod spread;
mod trim;
mod waiting;
mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use viaduct_engine::{EventId, EventQueue, Time};
use viaduct_topology::{LinkClass, LinkId, Topology};

use self::active::Active;
use self::alone::{Forwarding, Sizes, Span, full_bytes, picoseconds};
use self::cable::{Cable, Cables};
use self::calendar::{Arrival, Calendar, Kind};
use self::dcqcn::Senders;
use self::inboxes::Inboxes;
use self::limits::Limits;
use self::nscc::{Heard, Windows};
use self::order::Ordered;
use self::output::Output;
use self::overtaking::Overtaking;
use self::parts::{Passages, Whole};
use self::pause::Pauses;
use self::replies::Replies;
use crate::account::Account;
use crate::adapter::{Adapters, Inbound, NEVER};
use crate::by_host::ByHost;
use crate::fluid::{FlowDemand, FlowId, ResourceId};
use crate::followed::Followed;
use crate::hops::Delays;
use crate::passage::{Crossing, NOBODY};
use crate::queues::Step;
use crate::rate::{Frame, Rate};
use crate::spread::Spread;

/// The event that ends a window: no message has this number.
const WINDOW: FlowId = FlowId(u32::MAX - 1);

/// All queues and adapters, and the messages on their way.
#[derive(Debug)]
pub(crate) struct Frames {
    cables: Cables,
    outputs: Vec<Output>,
    adapters: Adapters<Kind>,
    bus_rates: ByHost<Rate>,
    frame: Frame,
    forwarding: Forwarding,
    passages: Passages,
    calendar: Calendar,
    /// What queues do that do not hold all that comes, if there are any.
    limits: Option<Box<Limits>>,
    /// What waits for links where it is not known when it leaves as it comes.
    ordered: Option<Box<Ordered>>,
    /// What switches hold and links are told where they pause, if they do.
    pauses: Option<Box<Pauses>>,
    /// What receivers tell of each frame, if they do.
    replies: Option<Box<Replies>>,
    /// The order in which messages of flows are handed over, if frames overtake each other.
    overtaking: Option<Box<Overtaking>>,
    /// Which ways frames take, if not all of a flow take one.
    spread: Option<Box<Spread>>,
    /// The flows that are slowed down where frames are marked, if any are.
    senders: Option<Box<Senders>>,
    /// The windows of flows, if senders keep such.
    windows: Option<Box<Windows>>,
    /// Adapters that send, each once, by a time before which it does nothing; and those times.
    active: Active,
    active_from: Vec<u64>,
    /// Puts in order what comes in a window.
    inboxes: Inboxes,
    /// Adapters that do something in a window.
    due: Vec<(u64, u32)>,
    /// The event that ends a window, and which window.
    window_event: EventId,
    window_end: u64,
    /// Events to be scheduled: of which messages, and when.
    notices: Vec<(u64, u32)>,
    account: Account,
    /// The message whose frames are followed, if there is one.
    followed: Option<Box<Followed>>,
    /// When frames began on links: of which message, on which link.
    #[cfg(test)]
    log: Vec<(u32, u32, u64)>,
}

impl Frames {
    /// The links of a network, and hosts with buses of some rates at its ends.
    pub(crate) fn new(
        topology: &Arc<Topology>,
        delays: &Delays<'_>,
        bus_rates: ByHost<Rate>,
    ) -> Self {
        let links = delays.links;
        let forwarding = Forwarding::of(delays);
        let full = full_bytes(links.frame);
        let header = f64::from(links.frame.header_bytes);
        let mut width = u64::MAX;
        let cable_of = |number| {
            let link = LinkId(number);
            let rate = links.rate_of(topology, link).bytes_per_picosecond();
            let propagation = links.propagation_of(topology, link);
            let ends_at_host = topology.link_class(link) == LinkClass::HostDown;
            let switch = if ends_at_host {
                Time::ZERO
            } else {
                delays.switch.delay
            };
            let cable = Cable::new(rate, (propagation, switch), full, forwarding);
            if !ends_at_host {
                let least = picoseconds(header, rate);
                let wait = forwarding.wait(forwarding.cut(header, rate), least, least);
                width = width.min((propagation + switch).picoseconds() + wait);
                if links.buffers.may_pause() {
                    width = width.min(pause::notice(&cable));
                }
            }
            cable
        };
        let cables = Cables::of((0..topology.link_count()).map(cable_of));
        let outputs: Vec<Output> = cables.iter().map(|_| Output::new()).collect();
        let limits = Limits::of(&links.buffers, topology);
        let ordered = Ordered::of(links, outputs.len());
        let pauses = Pauses::of(delays, &cables);
        let spread = Spread::of(topology, links.frame);
        let hosts = topology.host_count();
        let resources = outputs.len() + hosts as usize;
        Self {
            inboxes: Inboxes::of(outputs.len()),
            due: Vec::new(),
            cables,
            outputs,
            adapters: Adapters::new(hosts),
            bus_rates,
            frame: links.frame,
            forwarding,
            passages: Passages::new(),
            // A cable is never crossed in no time at all.
            calendar: Calendar::new(width.max(1)),
            limits,
            ordered,
            pauses,
            replies: Replies::of(&links.buffers, hosts),
            overtaking: Overtaking::of(&links.buffers, spread.is_some()),
            spread,
            windows: links
                .buffers
                .has_windows()
                .then(|| Box::new(Windows::of(links.frame, links.buffers.may_trim()))),
            senders: Senders::of(&links.buffers),
            active: Active::default(),
            active_from: vec![NEVER; hosts as usize],
            window_event: EventId::NONE,
            window_end: NEVER,
            notices: Vec::new(),
            account: Account::of(resources),
            followed: None,
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// What is drawn hangs on a seed.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        if let Some(limits) = &mut self.limits {
            limits.set_seed(seed);
        }
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
        let source = crossing.hosts.0;
        if passage.way.is_empty() && !passage.has_first_bus {
            // It crosses nothing that anybody else crosses.
            passage.parts.left = 0;
            passage.end = now + alone.total;
            passage.parts.end_look = passage.end;
            self.notices.push((passage.end, id));
        } else if passage.way.is_empty() {
            self.advance(source, now);
            self.adapters[source]
                .inside
                .join(&mut self.passages, id, crossing.flow, now);
            let passage = &mut self.passages[id as usize];
            passage.parts.end_look = now + alone.total;
            self.notices.push((passage.parts.end_look, id));
        } else {
            self.advance(source, now);
            // What has been sent of its flow by now may hold it back.
            let next_start = now.max(self.may_send_from(crossing.flow));
            self.passages[id as usize].next_start = next_start;
            if let Some(spread) = self.spread.as_mut().filter(|_| crossing.may_spread) {
                let parts = &mut self.passages[id as usize].parts;
                (parts.is_spread, parts.next_number) = (true, spread.first_number(source));
            }
            let adapter = &mut self.adapters[source];
            adapter.out.join(&mut self.passages, id, crossing.flow, now);
            if let (Some(overtaking), Some(flow)) = (&mut self.overtaking, crossing.flow) {
                overtaking.begin(flow, id);
            }
            self.open_window(id);
            if self.adapters[source].out.wake < self.active_from[source as usize] {
                self.activate(source, now);
            }
            let passage = &self.passages[id as usize];
            let cable = &self.cables[passage.way[0]];
            let last = cable.service(passage.parts.sizes.last);
            // If the last frame may leave before a window ends, somebody has to look in time.
            if last < self.calendar.begin(1).picoseconds() {
                let full = cable.service(passage.parts.sizes.full);
                let least = now + passage.parts.rest(full, last);
                self.passages[id as usize].parts.gone_look = least;
                self.notices.push((least, id));
            }
            self.end_window_by(queue, self.calendar.window(now) + 1);
        }
        self.tell(queue);
        FlowId(id)
    }

    fn add(&mut self, crossing: &Crossing<'_>, demand: &FlowDemand, alone: Span) -> u32 {
        let id = self.passages.take();
        let sizes = Sizes::of(demand.wire_bytes, self.frame);
        let parts = (Whole::of(crossing, sizes), [sizes.full, sizes.last]);
        let rates = (&self.bus_rates, self.forwarding.switching);
        let passage = &mut self.passages[id as usize];
        passage.begin(crossing, demand, parts, alone, rates);
        passage.way.extend_from_slice(crossing.way);
        id
    }

    /// An adapter sends from a time on.
    fn activate(&mut self, host: u32, time: u64) {
        self.active_from[host as usize] = time;
        self.active.push(time, host);
    }

    /// The event of a number: a message's tag, and what has come of it. After [`Step::Served`]
    /// there is no such message.
    pub(crate) fn step<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        id: FlowId,
    ) -> (u32, Step) {
        if id == WINDOW {
            self.end_window(queue);
            return (NOBODY, Step::None);
        }
        let now = queue.now().picoseconds();
        let step = self.step_passage(now, id.0);
        let passage = &self.passages[id.0 as usize];
        let tag = passage.tag;
        if let Step::Served { .. } = step {
            let end = passage.end;
            self.follow_end(id.0, end);
            self.hand_over_next(id.0, end);
            self.passages.give_back(id.0);
        }
        self.tell(queue);
        (tag, step)
    }

    /// Does one thing that is due for a message. If several are due at one time, each has an event.
    fn step_passage(&mut self, now: u64, id: u32) -> Step {
        let passage = &mut self.passages[id as usize];
        if passage.owes_head && passage.head <= now {
            passage.owes_head = false;
            let begun = passage.head.saturating_sub(passage.lead);
            return Step::Head(Time::from_picoseconds(begun));
        }
        if passage.owes_gone && passage.parts.gone_look <= now {
            return self.look_whether_gone(now, id);
        }
        if passage.parts.end_look > now {
            return Step::None;
        }
        if passage.end == NEVER {
            let host = if passage.way.is_empty() {
                passage.parts.source
            } else {
                passage.target
            };
            self.advance(host, now);
        }
        let passage = &mut self.passages[id as usize];
        if passage.end == NEVER {
            let least = passage
                .parts
                .rest(passage.own[0].span(), passage.own[1].span());
            passage.parts.end_look = now + least.max(1);
            self.notices.push((passage.parts.end_look, id));
            return Step::None;
        }
        let is_alone_with_bus = passage.way.is_empty();
        // Others are told of ahead, as soon as it is known when they will have crossed the bus.
        let keeps_order = self.overtaking.is_some();
        if (is_alone_with_bus || keeps_order) && passage.end > now {
            passage.parts.end_look = passage.end;
            self.notices.push((passage.end, id));
            return Step::None;
        }
        Step::Served {
            at: Time::from_picoseconds(passage.end.saturating_sub(passage.lead)),
            leaves_sender: is_alone_with_bus,
        }
    }

    fn look_whether_gone(&mut self, now: u64, id: u32) -> Step {
        let source = self.passages[id as usize].parts.source;
        if self.passages[id as usize].gone == NEVER {
            self.advance(source, now);
        }
        let passage = &self.passages[id as usize];
        if passage.gone <= now {
            self.passages[id as usize].owes_gone = false;
            return Step::Gone;
        }
        let next = if passage.gone == NEVER {
            self.gone_min(now, id)
        } else {
            passage.gone
        };
        self.passages[id as usize].parts.gone_look = next;
        if next != NEVER {
            self.notices.push((next, id));
        }
        Step::None
    }

    /// When the last byte of a message that is being sent leaves at the earliest: others take turns
    /// with it.
    fn gone_min(&mut self, now: u64, id: u32) -> u64 {
        if let Some(least) = self.gone_min_of_pausing(now, id) {
            return least;
        }
        let passage = &self.passages[id as usize];
        let cable = &self.cables[passage.way[0]];
        let (full, last) = (
            cable.service(passage.parts.sizes.full),
            cable.service(passage.parts.sizes.last),
        );
        let mut least = passage.parts.rest(full, last);
        let line = &self.adapters[passage.parts.source].out;
        if self.windows.is_some() {
            let from = match line.wake {
                // It waits for something to come: that is not told before the next window, or is
                // known.
                NEVER => {
                    let window = self.calendar.begin(self.calendar.window(now) + 1);
                    self.hears_from(passage.parts.source)
                        .min(window.picoseconds())
                }
                wake => wake,
            };
            return from.max(now) + least.max(1);
        }
        if self.senders.is_some() {
            // Others may be slowed down, and it may be itself.
            return self.may_go_from(now, passage) + least.max(1);
        }
        let firsts = line.flows.iter().map(|flow| flow.first);
        let others = firsts.filter(|&first| first != id);
        let is_paced = |it: u32| self.passages[it as usize].own[0].pace > 0;
        if !others.clone().any(is_paced) && !is_paced(id) {
            for other in others {
                let before = self.passages[other as usize]
                    .parts
                    .left
                    .min(passage.parts.left - 1);
                let other_full = cable.service(self.passages[other as usize].parts.sizes.full);
                least += u64::from(before.saturating_sub(1)) * other_full;
            }
        }
        now + least.max(1)
    }

    /// Schedules what has been found out.
    fn tell<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        let now = queue.now();
        for (time, id) in self.notices.drain(..) {
            queue.schedule(Time::from_picoseconds(time).max(now), E::from(FlowId(id)));
        }
    }

    /// A frame comes to the queue of a switch.
    #[inline(always)]
    fn serve(&mut self, arrival: &Arrival) {
        let mut kind = arrival.kind;
        if self.limits.is_some() {
            match self.admit(arrival) {
                Some(admitted) => kind = admitted,
                None => return,
            }
        }
        let passage = &self.passages[arrival.passage as usize];
        let bytes = passage.parts.sizes.bytes(arrival.kind.is_last());
        let service = self.cables[arrival.link].service(bytes);
        let held = passage.parts.sizes.held(arrival.kind.is_last());
        let start = self.outputs[arrival.link as usize].take(arrival.time, service, (bytes, held));
        self.leave(arrival, kind, (start, service));
    }

    /// A frame begins on a link of its way, and keeps it busy for some time.
    #[inline]
    fn leave(&mut self, it: &Arrival, kind: Kind, (start, service): (u64, u64)) {
        let passage = &self.passages[it.passage as usize];
        #[cfg(test)]
        self.log.push((passage.tag, it.link, start));
        if let Some((next, route, kind)) = self.next_of(passage, it, kind) {
            let size = (passage.parts.bytes(kind), service);
            let time = start + self.cables.lead([it.link, next], size, self.forwarding);
            if self.followed.is_some() {
                self.follow_crossing(it, kind, (start, service), time);
            }
            self.calendar.push(Arrival {
                time,
                link: next,
                from: it.link,
                route,
                kind,
                ..*it
            });
            return;
        }
        let head = start + self.cables[it.link].propagation;
        self.arrive(it, kind, head, service);
    }

    /// A frame's first byte comes to its target, the rest as fast as the last link brings it.
    fn arrive(&mut self, it: &Arrival, kind: Kind, head: u64, service: u64) {
        let id = it.passage;
        if self.followed.is_some() {
            self.follow_arrival(it, kind, head, service);
        }
        if kind.is_trimmed() {
            return self.ask_again(id, kind, head + service);
        }
        let passage = &mut self.passages[id as usize];
        let overtakes = self.overtaking.is_some();
        passage.parts.is_told |= passage.parts.is_lossy;
        passage.parts.came += u32::from(overtakes || !passage.parts.is_lossy);
        if kind.is_marked() {
            self.tell_sender(id, head + service);
        }
        if self.windows.is_some() {
            let unloaded = it.sent + self.unloaded(id, kind.is_last());
            let heard = Heard::Came {
                waited: (head + service).saturating_sub(unloaded),
                is_marked: kind.is_marked(),
            };
            self.reply(id, kind, head + service, heard);
        }
        if kind.is_first() {
            self.head_comes(id, head);
        }
        let parts = &self.passages[id as usize].parts;
        let ends = match overtakes {
            true => parts.have_all_come(),
            false => kind.is_last(),
        };
        if ends {
            self.all_come(id, head + service);
        }
        let passage = &mut self.passages[id as usize];
        let span = passage.taken[usize::from(kind.is_last())].span();
        let ready = head + service.saturating_sub(span);
        if !passage.has_last_bus {
            let end = passage.take(ready, span);
            if self.followed.is_some() {
                let target = self.passages[id as usize].target;
                self.follow_bus(target, id, kind, (ready, end - span, end));
            }
            if ends {
                self.is_with_host(id, end);
                self.look_from(id, end);
            }
            return;
        }
        let target = passage.target;
        if ends {
            self.look_from(id, ready + span);
        }
        let inbound = Inbound {
            ready,
            passage: id,
            what: kind.ending(ends),
        };
        self.adapters.expect(target, inbound);
    }

    /// Works out what a host's bus, and the adapters that are on it, have done before `until`.
    #[inline]
    fn advance(&mut self, host: u32, until: u64) {
        match self.adapters.have_own_buses() {
            true => self.advance_one(host, until),
            false => self.advance_all_with(host, until),
        }
    }

    /// All adapters on a host's bus, in the order of time; at one time in that of their numbers.
    #[inline(never)]
    fn advance_all_with(&mut self, host: u32, until: u64) {
        let all = self.adapters.all_with(host);
        loop {
            let wakes = all.clone().map(|host| {
                let wake = self.adapters[host].wake();
                (wake.min(self.hears_from(host)), host)
            });
            match wakes.min() {
                Some((time, host)) if time < until => self.advance_one(host, time + 1),
                _ => return,
            }
        }
    }

    /// One adapter by itself.
    fn advance_one(&mut self, host: u32, until: u64) {
        loop {
            let adapter = &self.adapters[host];
            let ready = adapter.ready();
            let (inside, out) = (adapter.inside.wake, adapter.out.wake);
            let heard = self.hears_from(host);
            let next = ready.min(inside).min(out).min(heard);
            if next >= until {
                return;
            }
            if heard == next {
                self.hear(host);
            } else if ready == next {
                self.take_in(host);
            } else if inside == next {
                self.move_inside(host, inside);
            } else {
                self.send(host, out);
            }
        }
    }

    /// A frame that has come crosses the bus.
    fn take_in(&mut self, host: u32) {
        let adapter = &mut self.adapters[host];
        let Some(Inbound {
            ready,
            passage: id,
            what: kind,
        }) = adapter.inbox.pop_front()
        else {
            return;
        };
        let passage = &mut self.passages[id as usize];
        if kind.is_lost() {
            // No frame comes, and no more are to.
            let bus_free = self.adapters.bus(host).free;
            let over = ready.max(passage.next_taken).max(bus_free);
            if self.overtaking.is_some() {
                // Nobody looks before what has come by then is over the bus.
                return self.is_with_host(id, over.max(ready + 1));
            }
            passage.end = over.max(passage.parts.end_look);
            return;
        }
        let bytes = passage.parts.sizes.bytes(kind.is_last());
        let bus = self.adapters.bus_mut(host);
        let end = bus.write(passage, ready, (usize::from(kind.is_last()), bytes));
        if self.followed.is_some() {
            let span = self.passages[id as usize].taken[usize::from(kind.is_last())].span();
            self.follow_bus(host, id, kind, (ready, end - span, end));
        }
        if kind.ends() {
            self.is_with_host(id, end);
        }
    }

    /// A frame of what crosses the bus alone does.
    fn move_inside(&mut self, host: u32, time: u64) {
        let adapter = &mut self.adapters[host];
        let place = match adapter.inside.turn(&self.passages, time) {
            Ok(place) => place,
            Err(next) => {
                adapter.inside.wake = next;
                return;
            }
        };
        let id = adapter.inside.flows[place].first;
        let passage = &mut self.passages[id as usize];
        let kind = passage.parts.next_kind();
        let bytes = passage.parts.sizes.bytes(kind.is_last());
        let bus = self.adapters.bus_mut(host);
        let begin = bus.read(passage, time, (usize::from(kind.is_last()), bytes));
        let bus_free = bus.free;
        let span = passage.own[usize::from(kind.is_last())].span();
        passage.parts.send();
        if kind.is_last() {
            passage.end = begin + span;
        }
        let inside = &mut self.adapters[host].inside;
        inside.rotate(&self.passages, place);
        inside.rest_in_turn_until(bus_free);
        if self.followed.is_some() {
            self.follow_inside(host, id, kind, (begin, begin + span));
        }
    }

    /// The adapter sends a frame of the flow whose turn it is.
    fn send(&mut self, host: u32, time: u64) {
        if self.send_ready(host, time) {
            return;
        }
        let adapter = &mut self.adapters[host];
        let place = match adapter.out.turn(&self.passages, time) {
            Ok(place) => place,
            Err(next) => {
                adapter.out.wake = next;
                if self.senders.is_some() || self.replies.is_some() {
                    // Another flow need not wait for those that are slowed down.
                    adapter.out.open_from = time;
                }
                return;
            }
        };
        let id = adapter.out.flows[place].first;
        let passage = &mut self.passages[id as usize];
        let (allowed, is_again) = (passage.next_start, passage.parts.asks_again());
        let kind = passage.parts.next_kind();
        let own = passage.own[usize::from(kind.is_last())];
        let bytes = passage.parts.sizes.bytes(kind.is_last());
        let bus = self.adapters.bus_mut(host);
        let begin = bus.read(passage, time, (usize::from(kind.is_last()), bytes));
        passage.parts.send();
        let flow = passage.parts.flow;
        if self.spread.is_some() {
            self.number_frame(id);
        }
        if self.are_slowed() {
            self.pace(id, time, begin, bytes);
        }
        self.adapters[host].out.rotate(&self.passages, place);
        self.hold_back(host, flow);
        let adapter = &mut self.adapters[host];
        adapter.out.open_from = NEVER;
        let passage = &self.passages[id as usize];
        let service = self.cables[passage.way[0]].service(bytes);
        let comes = begin + own.span().saturating_sub(service);
        let reads_ahead = own.span() > 0;
        let way = passage.way[0] as usize;
        if self.followed.is_some() {
            self.follow_turn(id, (kind, allowed, is_again), (time, begin, comes));
        }
        if self.pauses.is_some() {
            return self.make_ready(host, id, kind, (comes, reads_ahead));
        }
        let held = self.passages[id as usize].parts.sizes.held(kind.is_last());
        let start = self.outputs[way].take(comes, service, (bytes, held));
        self.has_begun(host, id, kind, (start, service), reads_ahead);
    }

    /// A frame of a host begins on its link.
    #[inline]
    fn has_begun(
        &mut self,
        host: u32,
        id: u32,
        kind: Kind,
        (start, service): (u64, u64),
        reads_ahead: bool,
    ) {
        let passage = &mut self.passages[id as usize];
        if kind.is_last() && passage.gone == NEVER {
            passage.gone = start + service;
            if passage.parts.gone_look == NEVER {
                passage.parts.gone_look = passage.gone;
                self.notices.push((passage.gone, id));
            }
        }
        let adapter = &mut self.adapters[host];
        // It reads the next one while this one leaves.
        adapter.out.rest_in_turn_until(match reads_ahead {
            true => start,
            false => start + service,
        });
        let arrival = Arrival {
            time: start,
            sent: start,
            passage: id,
            link: self.passages[id as usize].way[0],
            from: 0,
            route: self.passages[id as usize].parts.route,
            kind,
        };
        self.leave(&arrival, kind, (start, service));
    }
}

/// What others do at a host, and accounts.
impl Frames {
    /// Whether something is on a host's bus now.
    pub(crate) fn busy_on_bus<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host: u32,
    ) -> bool {
        let now = queue.now().picoseconds();
        self.advance(host, now);
        self.tell(queue);
        self.adapters.bus(host).free > now
    }

    /// A short transaction takes some of a busy bus's time away.
    pub(crate) fn hold_up(&mut self, host: u32, length: Time) {
        self.adapters.bus_mut(host).free += length.picoseconds();
    }

    /// Works out until now what links and buses have carried.
    pub(crate) fn credit_all(&mut self, now: Time) {
        let now = now.picoseconds();
        for host in 0..self.active_from.len() as u32 {
            self.advance(host, now);
        }
        let links = self.outputs.iter().zip(self.cables.iter());
        let links = links.map(|(output, cable)| output.carried(now, cable.rate));
        let rate = |host| self.bus_rates.of(host).bytes_per_picosecond();
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
        match resource.0.checked_sub(self.outputs.len() as u32) {
            None => self.cables[resource.0].rate,
            Some(host) => self.bus_rates.of(host).bytes_per_picosecond(),
        }
    }

    /// Most frames that waited for a link, or for a host's bus, or were on it, at once.
    pub(crate) fn frames_max(&self, resource: ResourceId) -> u32 {
        let place = resource.0 as usize;
        match self.outputs.get(place) {
            Some(output) => output.frames_max(),
            None => {
                let host = resource.0 - self.outputs.len() as u32;
                self.adapters.bus(host).waiting_max
            }
        }
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
        let outputs: usize = self.outputs.iter().map(Output::state_bytes).sum();
        self.cables.state_bytes()
            + self.outputs.capacity() * size_of::<Output>()
            + outputs
            + self.inboxes.state_bytes()
            + self.adapters.state_bytes()
            + self.passages.state_bytes()
            + self.calendar.state_bytes()
            + self.active.state_bytes()
            + self.limits.as_ref().map_or(0, |it| it.state_bytes())
            + self.ordered.as_ref().map_or(0, |it| it.state_bytes())
            + self.pauses.as_ref().map_or(0, |it| it.state_bytes())
            + self.replies.as_ref().map_or(0, |it| it.state_bytes())
            + self.windows.as_ref().map_or(0, |it| it.state_bytes())
            + self.overtaking.as_ref().map_or(0, |it| it.state_bytes())
            + self.spread.as_ref().map_or(0, |it| it.state_bytes())
            + self.senders.as_ref().map_or(0, |it| it.state_bytes())
    }
}
