//! Frames, against a slow second implementation of the same rules: one heap for everything.

mod ordered;
mod spread;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use proptest::prelude::*;
use viaduct_engine::{EventQueue, Stream};
use viaduct_topology::{ChainHosts, HostId, Ports, Topology};

use self::spread::forget_behind_losses;
use super::*;
use crate::frames::limits::{QueueCounts, QueueLoss};
use crate::hops::{End, Ends, Shape};
use crate::links::{
    Arrival, Buffers, CongestionControl, LinkConfig, Marking, Queueing, SharedMemory, Sharing,
    SwitchModel, WhenFull,
};
use crate::queues::FlowKey;
use crate::rate::Switching;

#[derive(Clone, Debug)]
struct Message {
    at: u64,
    ends: (u32, u32),
    flow: u32,
    payload: u32,
    rate_max: f64,
}

#[derive(Clone, Debug)]
struct Network {
    topology: Arc<Topology>,
    links: LinkConfig,
    switch: SwitchModel,
    hosts: ByHost<End>,
    /// So many, one after the other, are on one bus.
    hosts_per_bus: u32,
}

impl Network {
    /// Whether two hosts are on one bus.
    fn share_a_bus(&self, (one, other): (u32, u32)) -> bool {
        one / self.hosts_per_bus == other / self.hosts_per_bus
    }

    fn delays(&self) -> Delays<'_> {
        Delays {
            topology: &self.topology,
            links: &self.links,
            switch: &self.switch,
        }
    }

    fn ends(&self, message: &Message) -> Ends {
        Ends {
            source: *self.hosts.of(message.ends.0),
            target: *self.hosts.of(message.ends.1),
        }
    }

    fn shape(&self, message: &Message, links: usize) -> Shape {
        self.ends(message).shape(true, links)
    }

    /// How long so many bytes take on a host's bus, if it has one.
    fn on_bus(&self, host: u32, bytes: f64) -> Option<u64> {
        let end = self.hosts.of(host);
        end.has_bus()
            .then(|| time(bytes, end.bus_rate.bytes_per_picosecond()))
    }

    fn way(&self, message: &Message) -> Vec<u32> {
        let mut way: Vec<LinkId> = Vec::new();
        let (source, target) = (HostId(message.ends.0), HostId(message.ends.1));
        self.topology.route(source, target, &mut way);
        way.iter().map(|link| link.0).collect()
    }

    fn demand(&self, message: &Message, tag: usize) -> FlowDemand {
        let wire_bytes = self.links.frame.wire_bytes(message.payload.into()) as f64;
        FlowDemand {
            wire_bytes,
            scale: wire_bytes / f64::from(message.payload.max(1)),
            rate_max: message.rate_max,
            tag: tag as u32,
        }
    }
}

/// When its sender is done with a message, when its head is there, and when its last byte is; what
/// was lost of it.
type Times = (u64, u64, u64, Option<QueueLoss>);

/// All that is compared: of each message its times, of each frame when it began on which link, and
/// of each link what its queue did.
type Outcome = (Vec<Times>, Vec<(u32, u32, u64)>, Vec<(QueueCounts, u64)>);

#[derive(Clone, Copy, Debug)]
enum Event {
    Begins(usize),
    FlowEnds(FlowId),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}

/// Times of messages, and of each frame on each link, by the engine.
fn engine(network: &Network, messages: &[Message]) -> Outcome {
    let mut frames = Frames::new(
        &network.topology,
        &network.delays(),
        network.hosts.map(|end| end.bus_rate),
    );
    frames.share_buses(network.hosts_per_bus);
    let mut queue = EventQueue::new();
    for (place, message) in messages.iter().enumerate() {
        queue.schedule(Time::from_picoseconds(message.at), Event::Begins(place));
    }
    let mut times = vec![(NEVER, NEVER, NEVER, None); messages.len()];
    let mut leads = vec![0; messages.len()];
    // By flow: the message that was handed over last.
    let mut handed = BTreeMap::new();
    let mut events = 0;
    while let Some((now, event)) = queue.pop() {
        let now = now.picoseconds();
        events += 1;
        assert!(events < 1_000_000_000, "it goes on and on, at {now} ps");
        match event {
            Event::Begins(place) => {
                let message = &messages[place];
                let way = network.way(message);
                let demand = network.demand(message, place);
                let (ends, shape) = (network.ends(message), network.shape(message, way.len()));
                let links: Vec<_> = way.iter().map(|&link| LinkId(link)).collect();
                let span = alone::alone(&network.delays(), shape, &links, &demand, &ends);
                leads[place] = span.head;
                let crossing = Crossing {
                    hosts: message.ends,
                    way: &way,
                    has_first_bus: shape.first_bus,
                    has_last_bus: shape.last_bus,
                    flow: Some(FlowKey::new((message.ends, message.flow), 0, 0)),
                    brings_head: true,
                    may_spread: true,
                };
                frames.begin(&mut queue, &crossing, &demand, span);
            }
            Event::FlowEnds(flow) => {
                let (tag, step) = frames.step(&mut queue, flow);
                let Some(times) = times.get_mut(tag as usize) else {
                    continue;
                };
                match step {
                    Step::None => {}
                    Step::Gone => times.0 = now,
                    Step::Head(begun) => times.1 = begun.picoseconds() + leads[tag as usize],
                    Step::Served { at, .. } => {
                        times.2 = at.picoseconds() + leads[tag as usize];
                        times.3 = frames.loss(flow);
                        if network.links.buffers.may_trim() || network.spreads() {
                            assert_eq!(times.2, now, "its end is told when it is");
                            let Message { at, ends, flow, .. } = messages[tag as usize];
                            let sent = Some((at, tag));
                            let before = handed.insert((ends, flow), sent).flatten();
                            assert!(before < sent, "{before:?} ended before {sent:?}");
                        }
                        assert!(times.2 >= times.0, "it ends before its sender is done");
                    }
                }
            }
        }
    }
    let all_end = frames.active_tags().count() == 0;
    assert_eq!(
        all_end,
        frames.deadlock().is_none(),
        "every message ends that may"
    );
    let mut log = core::mem::take(&mut frames.log);
    log.sort_unstable();
    for times in &mut times {
        // When the gap of what is lost would be there is a matter of the engine's own.
        if let Some(loss) = times.3 {
            times.2 = NEVER;
            times.1 = if loss.came == 0 { NEVER } else { times.1 };
        }
    }
    forget_behind_losses(network, messages, &mut times);
    let link = |number| {
        let link = ResourceId(number);
        let counts = QueueCounts {
            // While it is told, that has no end.
            paused: Time::ZERO,
            ..frames.queue_counts(link, Time::ZERO)
        };
        (counts, frames.queue_max_bytes(link))
    };
    let links = (0..network.topology.link_count()).map(link).collect();
    (times, log, links)
}

/// What happens in the second implementation; those at one time happen in this order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Happening {
    Begins(usize),
    /// A host hears of a frame of a flow, its target and number: how long that has waited and
    /// whether it was marked, or that it is wanted again.
    Heard {
        host: u32,
        flow: (u32, u32),
        message: usize,
        frame: u32,
        came: Option<(u64, bool)>,
    },
    /// The frame that is on a link has left its queue.
    Leaves(u32),
    /// A link hears that it is to pause, or to go on.
    Hears {
        link: u32,
        pauses: bool,
    },
    /// At the queue of a link, from another one.
    Queues {
        from: u32,
        link: u32,
        number: usize,
        it: Placed,
    },
    /// Of those on one bus first what happens at the first.
    AtHost {
        host: u32,
        what: AtHost,
    },
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum AtHost {
    /// To the bus.
    Comes { message: usize, frame: u32 },
    /// The adapter looks for what it sends next.
    Wakes,
}

/// The rules once more, frame by frame, with everything in one heap and nothing worked out ahead.
struct Slow<'a> {
    network: &'a Network,
    messages: &'a [Message],
    heap: BinaryHeap<Reverse<(u64, Happening)>>,
    link_free: BTreeMap<u32, u64>,
    /// By the number of a bus.
    bus_free: BTreeMap<u32, u64>,
    /// By host: flows in turn, each with its messages, and whether a look is to come.
    turns: BTreeMap<u32, (VecDeque<(u32, u32)>, bool)>,
    flows: BTreeMap<(u32, u32, u32), VecDeque<usize>>,
    sent: Vec<u32>,
    next_start: Vec<u64>,
    next_taken: Vec<u64>,
    times: Vec<Times>,
    log: Vec<(u32, u32, u64)>,
    /// By link: bytes that are in its queue, each with when it leaves; and what it did.
    held: BTreeMap<u32, Vec<(u64, u64)>>,
    /// Whether the frame that came last is marked.
    is_marked: bool,
    links: Vec<(QueueCounts, u64)>,
    /// By message: frames that were lost, and those that came.
    lost: Vec<Vec<u32>>,
    came: Vec<Vec<u32>>,
    /// By message: frames that were marked.
    marked: Vec<Vec<u32>>,
    /// By flow: when its receiver told of marks last, and its sender.
    told: BTreeMap<(u32, u32, u32), u64>,
    senders: BTreeMap<(u32, u32, u32), Slowed>,
    /// By host: when it looks for something to send, and since when it has found nothing that it
    /// may send.
    wakes: BTreeMap<u32, u64>,
    idle: BTreeMap<u32, u64>,
    /// Where links pause or flows take turns: by link what waits for it and what is on it; links
    /// that pause; by link the flows of which something waits, with the bytes that each may send,
    /// and whether the first has been given those of this turn.
    paused: BTreeSet<u32>,
    order: BTreeMap<u32, (VecDeque<(Flow, u64)>, bool)>,
    waiting: BTreeMap<u32, VecDeque<Placed>>,
    leaving: BTreeMap<u32, Placed>,
    /// By link: bytes in the switch behind it, and whether it was told to pause.
    behind: BTreeMap<u32, (u64, bool)>,
    /// By link: headers of trimmed frames that wait for it, and how many have gone before the frame
    /// that is next; and by message frames that are wanted again.
    headers: BTreeMap<u32, (VecDeque<Placed>, u32)>,
    wanted: Vec<BTreeSet<u32>>,
    /// By message: when all of it had come.
    there: Vec<u64>,
    /// By host: a frame that is ready for its link, when it is, and whether the next is read ahead.
    ready: BTreeMap<u32, (usize, u32, u64, bool)>,
    /// By message: the number of its next frame, where frames take ways of their own; by host what
    /// the first is drawn from; by frame its number, and what is left of it behind the links that
    /// it has come over; and frames that take detours.
    numbers: Vec<u16>,
    draws: BTreeMap<u32, Stream>,
    ways: BTreeMap<(usize, u32), (u32, Vec<u32>)>,
    around: BTreeSet<(usize, u32)>,
    /// If senders keep such: what they do with what they hear has tests of its own.
    windows: Option<Windows>,
}

/// A frame of a message at a place of its way, and the link it came by. A frame whose header has
/// come may be sent again while its bytes still leave a queue before the one that trimmed it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Placed {
    message: usize,
    frame: u32,
    place: usize,
    from: u32,
    /// Whether nothing else is left of it.
    is_header: bool,
    /// When it began on its first link.
    sent: u64,
}

/// Source, target and number.
type Flow = (u32, u32, u32);

/// The sender of a flow that was told of marks.
#[derive(Clone, Debug, Default)]
struct Slowed {
    /// When it is to hear of marks.
    notices: Vec<u64>,
    /// When it may send.
    next: u64,
}

impl Slowed {
    /// Its rate at a time, from the beginning on: no flow here sends so much that bytes count.
    fn rate(&self, now: u64, rate_max: f64) -> f64 {
        let (mut rate, mut alpha) = (rate_max, 1.0);
        let heard = self.notices.iter().filter(|time| **time <= now).count();
        for (number, cut) in self.notices[..heard].iter().enumerate() {
            let mut target = rate;
            rate = (rate * (1.0 - alpha / 2.0)).max(40e6 / 8e12);
            alpha += (1.0 - alpha) / 256.0;
            let until = self.notices[..heard]
                .get(number + 1)
                .copied()
                .unwrap_or(now);
            for timer in 1..=(until - cut) / 55_000_000 {
                alpha *= 1.0 - 1.0 / 256.0;
                if timer > 5 {
                    target = (target + 40e6 / 8e12).min(rate_max);
                }
                rate = (rate + target) / 2.0;
            }
        }
        rate
    }
}

impl Slow<'_> {
    fn bytes(&self, message: usize, frame: u32) -> (f64, f64) {
        let (payload, frames) = (
            self.messages[message].payload,
            self.network
                .links
                .frame
                .count(self.messages[message].payload.into()) as u32,
        );
        let (size, header) = (
            self.network.links.frame.payload_bytes,
            self.network.links.frame.header_bytes,
        );
        let own = if frames == 1 {
            payload
        } else if frame + 1 == frames {
            payload - size * (frames - 1)
        } else {
            size
        };
        let wire = f64::from(own + header);
        let demand = self.network.demand(&self.messages[message], 0);
        (wire, wire / demand.scale)
    }

    fn frames(&self, message: usize) -> u32 {
        self.network
            .links
            .frame
            .count(self.messages[message].payload.into()) as u32
    }

    fn service(&self, link: u32, bytes: f64) -> u64 {
        let links = &self.network.links;
        let rate = links.rate_of(&self.network.topology, LinkId(link));
        time(bytes, rate.bytes_per_picosecond())
    }

    /// Whether a frame is taken that comes to a queue.
    fn takes(&mut self, now: u64, link: u32, wire: f64) -> bool {
        let buffers = self.network.links.buffers;
        let held = self.held.entry(link).or_default();
        held.retain(|(leaves, _)| *leaves > now);
        let bytes: u64 = held.iter().map(|(_, bytes)| bytes).sum();
        let counts = &mut self.links[link as usize].0;
        if buffers
            .bytes_max
            .is_some_and(|most| bytes + wire as u64 > most)
        {
            counts.lost += 1;
            return false;
        }
        let is_over = |marking: Marking| bytes > marking.low_bytes;
        counts.marked += u64::from(buffers.marking.is_some_and(is_over));
        self.is_marked = buffers.marking.is_some_and(is_over);
        true
    }

    /// A frame has come: whether it was marked, and its sender is told.
    fn tells(&mut self, time: u64, message: usize, frame: u32) {
        let marking = self.network.links.buffers.marking;
        let is_controlled = marking.is_some_and(|it| it.control == CongestionControl::Dcqcn);
        if !is_controlled || !self.marked[message].contains(&frame) {
            return;
        }
        let Message { ends, flow, .. } = self.messages[message];
        let flow = (ends.0, ends.1, flow);
        let is_time = self
            .told
            .get(&flow)
            .is_none_or(|told| time - told >= 50_000_000);
        if is_time {
            self.told.insert(flow, time);
            let back = self.back(message);
            let slowed = self.senders.entry(flow).or_default();
            slowed.notices.push(time + back);
        }
    }

    /// How long what a receiver tells takes.
    fn back(&self, message: usize) -> u64 {
        let cable = self.network.links.propagation.picoseconds();
        let switch = self.network.switch.delay.picoseconds();
        let links = self.network.way(&self.messages[message]).len() as u64;
        links * cable + (links - 1) * switch + (64.0 / self.first_rate(message)).ceil() as u64
    }

    /// Of the link that a message leaves its host by.
    fn first_rate(&self, message: usize) -> f64 {
        let way = self.network.way(&self.messages[message]);
        let links = &self.network.links;
        let rate = links.rate_of(&self.network.topology, LinkId(way[0]));
        rate.bytes_per_picosecond()
    }

    fn look(&mut self, time: u64, host: u32) {
        self.wakes.insert(host, time);
        let what = AtHost::Wakes;
        self.heap
            .push(Reverse((time, Happening::AtHost { host, what })));
    }

    /// A frame is in a queue until it leaves.
    fn holds(&mut self, now: u64, link: u32, wire: f64, leaves: u64) {
        let held = self.held.entry(link).or_default();
        held.retain(|(leaves, _)| *leaves > now);
        held.push((leaves, wire as u64));
        let bytes: u64 = held.iter().map(|(_, bytes)| bytes).sum();
        let most = &mut self.links[link as usize].1;
        *most = bytes.max(*most);
    }

    fn run(mut self) -> Outcome {
        while let Some(Reverse((now, happening))) = self.heap.pop() {
            match happening {
                Happening::Begins(message) => self.begins(now, message),
                Happening::AtHost { host, what } => match what {
                    AtHost::Comes { message, frame } => self.comes(now, host, message, frame),
                    AtHost::Wakes => self.wakes(now, host),
                },
                Happening::Heard {
                    message,
                    frame,
                    came,
                    ..
                } => self.heard(now, message, frame, came),
                Happening::Leaves(link) => self.leaves(now, link),
                Happening::Hears { link, pauses } => self.hears(now, link, pauses),
                Happening::Queues { link, it, .. } => {
                    let link = self.chosen_link(now, link, it);
                    let Placed { message, frame, .. } = it;
                    let (wire, _) = self.bytes(message, frame);
                    if self.is_ordered() {
                        self.waits(now, link, it);
                        continue;
                    }
                    if !self.takes(now, link, wire) {
                        self.lost[message].push(frame);
                        continue;
                    }
                    if self.is_marked {
                        self.marked[message].push(frame);
                    }
                    let service = self.service(link, wire);
                    let start = now.max(self.link_free.get(&link).copied().unwrap_or(0));
                    self.link_free.insert(link, start + service);
                    self.holds(now, link, wire, start + service);
                    self.starts(start, it);
                }
            }
        }
        self.log.sort_unstable();
        for message in 0..self.messages.len() {
            let told_of = self.came[message].len() + self.lost[message].len();
            if told_of < self.frames(message) as usize {
                // What waits for ever is still to come.
                self.times[message].2 = NEVER;
            }
        }
        self.keep_order();
        let frames: Vec<u32> = (0..self.messages.len()).map(|it| self.frames(it)).collect();
        for (message, times) in self.times.iter_mut().enumerate() {
            if let Some(first) = self.lost[message].iter().copied().min() {
                let came = &self.came[message];
                let before = came.iter().filter(|frame| **frame < first).count();
                times.2 = NEVER;
                let lost = self.lost[message].len() as u32;
                let lacks_last = self.lost[message].contains(&(frames[message] - 1));
                if self.network.spreads() {
                    times.3 = Some(QueueLoss {
                        came: came.len() as u32,
                        is_told: !came.is_empty(),
                        lost,
                        lacks_last,
                        is_all_told: !came.is_empty(),
                    });
                    continue;
                }
                assert_eq!(before, first as usize, "none overtakes another");
                times.3 = Some(QueueLoss {
                    came: first,
                    is_told: came.len() > before,
                    lost,
                    lacks_last,
                    is_all_told: !lacks_last,
                });
            }
        }
        forget_behind_losses(self.network, self.messages, &mut self.times);
        (self.times, self.log, self.links)
    }

    fn begins(&mut self, now: u64, message: usize) {
        let Message { ends, flow, .. } = self.messages[message];
        self.open_window(message);
        self.draw_number(message);
        let line = self.flows.entry((ends.0, ends.1, flow)).or_default();
        line.push_back(message);
        let is_first = line.len() == 1;
        let (turns, is_awake) = self.turns.entry(ends.0).or_default();
        if is_first {
            turns.push_back((ends.1, flow));
        }
        let is_idle = is_first && self.idle.contains_key(&ends.0);
        if !core::mem::replace(is_awake, true) || is_idle {
            self.look(now, ends.0);
        }
        let slowed = self.senders.get(&(ends.0, ends.1, flow));
        self.next_start[message] = now.max(slowed.map_or(0, |slowed| slowed.next));
    }

    fn wakes(&mut self, now: u64, host: u32) {
        if self.wakes.get(&host) != Some(&now) {
            return;
        }
        self.idle.remove(&host);
        if self.is_ready(now, host) {
            return;
        }
        let (mut turns, _) = self.turns.remove(&host).unwrap();
        if turns.is_empty() {
            self.turns.insert(host, (turns, false));
            return;
        }
        let first = |flow: &(u32, u32)| self.flows[&(host, flow.0, flow.1)][0];
        let may_send = |flow: &(u32, u32)| self.has_room(first(flow));
        let ready = turns
            .iter()
            .position(|flow| self.next_start[first(flow)] <= now && may_send(flow));
        let Some(place) = ready else {
            let others = turns.iter().filter(|flow| may_send(flow));
            let next = others.map(|flow| self.next_start[first(flow)]).min();
            self.turns.insert(host, (turns, true));
            match next {
                Some(next) => self.look(next, host),
                // It is to hear of something first.
                None => _ = self.wakes.remove(&host),
            }
            let buffers = self.network.links.buffers;
            let is_slowed = |it: Marking| it.control != CongestionControl::None;
            if buffers.marking.is_some_and(is_slowed) || buffers.may_trim() {
                self.idle.insert(host, now);
            }
            return;
        };
        let flow = turns.remove(place).unwrap();
        let message = self.flows[&(host, flow.0, flow.1)][0];
        let frame = self.next_frame(message);
        self.number_frame(message, frame);
        let (wire, on_bus) = self.bytes(message, frame);
        let key = self.key(message);
        if let Some(windows) = &mut self.windows {
            windows.send(key, wire);
        }
        let rate_max = self.messages[message].rate_max;
        let pace = if rate_max.is_finite() {
            time(wire, rate_max)
        } else {
            0
        };
        let (mut begin, mut span) = (now, pace);
        if let Some(bus) = self.network.on_bus(host, on_bus) {
            let free = self.bus_free.entry(host / self.network.hosts_per_bus);
            let free = free.or_default();
            begin = begin.max(*free);
            *free = begin + bus;
            span = span.max(bus);
        }
        self.next_start[message] = begin + pace;
        let rate_max = self.first_rate(message);
        let name = (host, flow.0, flow.1);
        let mut slowed_until = 0;
        if let Some(slowed) = self.senders.get_mut(&name) {
            let rate = slowed.rate(now, rate_max);
            if rate < rate_max {
                slowed_until = begin + (wire / rate).ceil() as u64;
            }
            slowed.next = slowed_until;
        }
        self.next_start[message] = slowed_until.max(self.next_start[message]);
        let link = self.network.way(&self.messages[message])[0];
        let service = self.service(link, wire);
        let comes = begin + span.saturating_sub(service);
        if self.sent[message] == self.frames(message) && self.wanted[message].is_empty() {
            let line = self.flows.get_mut(&(host, flow.0, flow.1)).unwrap();
            line.pop_front();
            if let Some(behind) = line.front() {
                self.numbers[*behind] = self.numbers[message];
                self.next_start[*behind] = slowed_until.max(self.next_start[*behind]);
            }
            if !line.is_empty() {
                turns.push_back(flow);
            }
        } else {
            turns.push_back(flow);
        }
        let goes_on = !turns.is_empty();
        self.turns.insert(host, (turns, goes_on));
        if self.network.links.buffers.may_pause() {
            self.ready.insert(host, (message, frame, comes, span > 0));
            let free = self.link_free.get(&link).copied().unwrap_or(0);
            return self.look(comes.max(free), host);
        }
        let start = comes.max(self.link_free.get(&link).copied().unwrap_or(0));
        self.holds(comes, link, wire, start + service);
        self.leaves_host(host, start, (message, frame), span > 0);
    }

    /// A frame begins on the link of its host.
    fn leaves_host(
        &mut self,
        host: u32,
        start: u64,
        (message, frame): (usize, u32),
        reads_ahead: bool,
    ) {
        let link = self.network.way(&self.messages[message])[0];
        let service = self.service(link, self.bytes(message, frame).0);
        self.link_free.insert(link, start + service);
        if frame + 1 == self.frames(message) && self.times[message].0 == NEVER {
            self.times[message].0 = start + service;
        }
        if !self.turns[&host].0.is_empty() {
            let next = if reads_ahead { start } else { start + service };
            self.look(next, host);
        }
        let it = Placed {
            message,
            frame,
            place: 0,
            from: link,
            is_header: false,
            sent: start,
        };
        self.starts(start, it);
    }

    /// A frame begins on a link.
    fn starts(&mut self, start: u64, it: Placed) {
        let Placed {
            message,
            frame,
            place,
            ..
        } = it;
        let way = self.way_of(it);
        let (_, on_bus) = self.bytes(message, frame);
        let wire = self.wire(it);
        let link = way[place];
        let service = self.service(link, wire);
        self.log.push((message as u32, link, start));
        let links = &self.network.links;
        let cable = links
            .propagation_of(&self.network.topology, LinkId(link))
            .picoseconds();
        let is_stored = links.switching == Switching::StoreAndForward;
        if let Some(&next) = way.get(place + 1) {
            let needed = wire.min(f64::from(self.network.switch.cut_through_bytes));
            let rate = links.rate_of(&self.network.topology, LinkId(link));
            let waits = if is_stored {
                service
            } else {
                let runs_dry = service.saturating_sub(self.service(next, wire));
                rate.time_for(needed).picoseconds().max(runs_dry)
            };
            let after = cable + self.network.switch.delay.picoseconds() + waits;
            let queues = Happening::Queues {
                link: self.link_told(next),
                from: link,
                number: self.log.len(),
                it: Placed {
                    place: place + 1,
                    from: link,
                    ..it
                },
            };
            self.heap.push(Reverse((start + after.max(1), queues)));
            return;
        }
        let head = start + cable;
        if it.is_header {
            return self.asks(head + service, message, frame);
        }
        self.came[message].push(frame);
        self.tells(head + service, message, frame);
        self.replies(head + service, it);
        if frame == 0 {
            self.times[message].1 = head;
        }
        self.there[message] = self.there[message].max(head + service);
        let host = self.messages[message].ends.1;
        if let Some(bus) = self.network.on_bus(host, on_bus) {
            let span = bus.max(self.paced(message, wire));
            let what = AtHost::Comes { message, frame };
            let comes = Happening::AtHost { host, what };
            let ready = head + service.saturating_sub(span);
            self.heap.push(Reverse((ready, comes)));
            return;
        }
        let span = self.paced(message, wire);
        let begin = (head + service.saturating_sub(span)).max(self.next_taken[message]);
        self.next_taken[message] = begin + span;
        self.times[message].2 = begin + span;
    }

    /// What a receiving adapter's own rate makes of a frame: something where frames are stored.
    fn paced(&self, message: usize, wire: f64) -> u64 {
        let rate_max = self.messages[message].rate_max;
        let is_stored = self.network.links.switching == Switching::StoreAndForward;
        if is_stored && rate_max.is_finite() {
            time(wire, rate_max)
        } else {
            0
        }
    }

    fn comes(&mut self, now: u64, host: u32, message: usize, frame: u32) {
        let (wire, on_bus) = self.bytes(message, frame);
        let bus = self.network.on_bus(host, on_bus).unwrap_or(0);
        let pace = self.paced(message, wire);
        let free = self.bus_free.entry(host / self.network.hosts_per_bus);
        let free = free.or_default();
        let begin = now.max(*free).max(self.next_taken[message]);
        *free = begin + bus;
        self.next_taken[message] = begin + pace;
        self.times[message].2 = begin + bus.max(pace);
    }
}

fn time(bytes: f64, rate: f64) -> u64 {
    ((bytes / rate).ceil() as u64).max(1)
}

fn slow(network: &Network, messages: &[Message]) -> Outcome {
    let mut slow = Slow {
        network,
        messages,
        heap: BinaryHeap::new(),
        link_free: BTreeMap::new(),
        bus_free: BTreeMap::new(),
        turns: BTreeMap::new(),
        flows: BTreeMap::new(),
        sent: vec![0; messages.len()],
        next_start: vec![0; messages.len()],
        next_taken: vec![0; messages.len()],
        times: vec![(NEVER, NEVER, NEVER, None); messages.len()],
        log: Vec::new(),
        held: BTreeMap::new(),
        links: vec![<_>::default(); network.topology.link_count() as usize],
        lost: vec![Vec::new(); messages.len()],
        came: vec![Vec::new(); messages.len()],
        marked: vec![Vec::new(); messages.len()],
        told: BTreeMap::new(),
        senders: BTreeMap::new(),
        wakes: BTreeMap::new(),
        idle: BTreeMap::new(),
        paused: BTreeSet::new(),
        order: BTreeMap::new(),
        waiting: BTreeMap::new(),
        leaving: BTreeMap::new(),
        behind: BTreeMap::new(),
        headers: BTreeMap::new(),
        wanted: vec![BTreeSet::new(); messages.len()],
        there: vec![0; messages.len()],
        ready: BTreeMap::new(),
        numbers: vec![0; messages.len()],
        draws: BTreeMap::new(),
        ways: BTreeMap::new(),
        around: BTreeSet::new(),
        windows: network.links.buffers.has_windows().then(|| {
            let trims = network.links.buffers.may_trim();
            Windows::of(network.links.frame, trims)
        }),
        is_marked: false,
    };
    for (place, message) in messages.iter().enumerate() {
        slow.heap
            .push(Reverse((message.at, Happening::Begins(place))));
    }
    slow.run()
}

/// Hosts with two rates of their buses, by turns.
fn with_buses((common, odd): (f64, f64)) -> ByHost<End> {
    let end = |rate| End {
        bus_rate: Rate::from_bits_per_second(rate),
        forwarding: Switching::CutThrough,
        write: Time::ZERO,
    };
    let mut hosts = ByHost::from(end(common));
    hosts.set_group(HOSTS_MAX, (1..HOSTS_MAX).step_by(2), end(odd));
    hosts
}

/// No network here has more.
const HOSTS_MAX: u32 = 16;

fn networks() -> impl Strategy<Value = Network> {
    let topology = prop_oneof![
        (2_u32..6).prop_map(|hosts| Topology::single_switch(hosts, Ports(64)).unwrap()),
        (2_u32..5).prop_map(|switches| {
            Topology::chain(switches, ChainHosts::EverySwitch(2), Ports(64)).unwrap()
        }),
        Just(Topology::torus(&[3, 3], 1, Ports(64)).unwrap()),
    ];
    let switching = prop_oneof![
        Just(Switching::CutThrough),
        Just(Switching::StoreAndForward)
    ];
    let gbits = || prop_oneof![Just(1e9), Just(0.7e9), Just(4e9)];
    let bus = || prop_oneof![Just(f64::INFINITY), Just(2e9), Just(0.9e9)];
    let times = (0_u64..3, 0_u64..3, 0_u32..100);
    let frames = (prop_oneof![Just(0_u32), 1_u32..400], 0_u32..40);
    // Queues of no limit, and such as hold little more than one frame.
    let bytes = |most: u64| prop_oneof![2 => Just(None), 3 => (0..most).prop_map(Some)];
    let headroom = prop_oneof![Just(None), (0_u64..3_000).prop_map(Some)];
    let full = prop_oneof![
        Just(WhenFull::Drop),
        Just(WhenFull::Trim),
        headroom.prop_map(|headroom_bytes| WhenFull::Pause { headroom_bytes }),
    ];
    let queueing = prop_oneof![Just(Queueing::FirstCome), Just(Queueing::Fair)];
    let memory = (500_u64..8_000, prop_oneof![Just(0.5), Just(1.0), Just(8.0)]);
    let memory = memory.prop_map(|(bytes, alpha)| Some(SharedMemory { bytes, alpha }));
    let shared = prop_oneof![2 => Just(None), 1 => memory];
    let buffers = (bytes(6_000), bytes(2_000), full, queueing, shared);
    let speeds = (gbits(), gbits());
    let hosts_per_bus = prop_oneof![2 => Just(1_u32), 1 => 2_u32..5];
    // What is on one bus has that of its rate.
    let buses = (bus(), bus(), hosts_per_bus).prop_map(|(common, odd, hosts)| match hosts {
        1 => ((common, odd), hosts),
        _ => ((common, common), hosts),
    });
    (topology, switching, speeds, buses, times, frames, buffers).prop_map(
        |(topology, switching, (rate, host_rate), bus, times, frames, buffers)| Network {
            topology: Arc::new(topology),
            links: LinkConfig {
                sharing: Sharing::Packets,
                arrival: Arrival::default(),
                switching,
                rate: Rate::from_bits_per_second(rate),
                host_rate: Rate::from_bits_per_second(host_rate),
                propagation: Time::from_nanoseconds(times.0 * 300),
                host_propagation: Time::from_nanoseconds(times.0 * 300),
                frame: Frame {
                    payload_bytes: match (buffers.2, frames.0) {
                        // Short ones are sent again and again for very long.
                        (WhenFull::Trim, 1..) => 100 + frames.0,
                        _ => frames.0,
                    },
                    header_bytes: frames.1,
                },
                buffers: Buffers {
                    bytes_max: buffers.0,
                    shared: buffers.4,
                    full: buffers.2,
                    queueing: buffers.3,
                    marking: buffers.1.map(|bytes| Marking {
                        low_bytes: bytes,
                        high_bytes: bytes,
                        probability: 1.0,
                        control: CongestionControl::None,
                    }),
                },
                credits: crate::CreditLinks::default(),
            },
            switch: SwitchModel {
                delay: Time::from_nanoseconds(times.1 * 250),
                cut_through_bytes: times.2,
            },
            hosts: with_buses(bus.0),
            hosts_per_bus: bus.1,
        },
    )
}

fn cases() -> impl Strategy<Value = (Network, Vec<Message>)> {
    networks().prop_flat_map(|network| {
        let hosts = network.topology.host_count();
        let rate_max = prop_oneof![4 => Just(f64::INFINITY), 1 => Just(5e-5), 1 => Just(3e-4)];
        let message = (
            0_u64..40,
            (0..hosts, 1..hosts),
            0_u32..2,
            prop_oneof![0_u32..2_000, Just(64)],
            rate_max,
        );
        let messages = prop::collection::vec(message, 1..40);
        (Just(network), messages).prop_map(move |(network, drawn)| {
            let messages = drawn
                .into_iter()
                // Many at one time.
                .map(|(at, (source, other), flow, payload, rate_max)| Message {
                    at: at / 3 * 3_000_000,
                    ends: (source, (source + other) % hosts),
                    flow,
                    payload,
                    rate_max,
                })
                .collect();
            (network, messages)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn windows_give_the_times_of_one_heap_for_each_frame((network, messages) in cases()) {
        let (times, log, links) = engine(&network, &messages);
        let (slow_times, slow_log, slow_links) = slow(&network, &messages);
        prop_assert_eq!(log, slow_log);
        prop_assert_eq!(links, slow_links);
        prop_assert_eq!(times, slow_times);
    }

    #[test]
    fn senders_that_are_told_slow_down_at_the_times_of_one_heap((network, messages) in cases()) {
        let (mut network, mut messages) = (network, messages);
        let marking = network.links.buffers.marking.get_or_insert(Marking {
            low_bytes: 0,
            high_bytes: 0,
            probability: 1.0,
            control: CongestionControl::Dcqcn,
        });
        marking.control = CongestionControl::Dcqcn;
        for message in &mut messages {
            // So long that some are sent when their senders have been told.
            message.payload *= 10;
            message.at *= 10;
        }
        let (times, log, links) = engine(&network, &messages);
        let (slow_times, slow_log, slow_links) = slow(&network, &messages);
        prop_assert_eq!(log, slow_log);
        prop_assert_eq!(links, slow_links);
        prop_assert_eq!(times, slow_times);
    }

    #[test]
    fn senders_with_windows_send_at_the_times_of_one_heap(
        (network, messages) in cases(),
        trims in prop::bool::ANY,
    ) {
        let (mut network, mut messages) = (network, messages);
        let frame = &mut network.links.frame;
        frame.payload_bytes = frame.payload_bytes.max(100);
        let buffers = &mut network.links.buffers;
        buffers.full = WhenFull::Trim;
        if !trims {
            buffers.bytes_max = None;
        }
        let marking = buffers.marking.get_or_insert(Marking {
            low_bytes: 500,
            high_bytes: 500,
            probability: 1.0,
            control: CongestionControl::Nscc,
        });
        marking.control = CongestionControl::Nscc;
        for message in &mut messages {
            // Longer than a window.
            message.payload *= 5;
        }
        let (times, log, links) = engine(&network, &messages);
        let (slow_times, slow_log, slow_links) = slow(&network, &messages);
        prop_assert_eq!(log, slow_log);
        prop_assert_eq!(links, slow_links);
        prop_assert_eq!(times, slow_times);
    }

    #[test]
    fn links_that_pause_in_time_lose_nothing(
        (network, messages) in cases(),
        more in 0_u64..4_000,
        alpha in prop_oneof![3 => Just(None), 4 => (0.05..8.0_f64).prop_map(Some)],
        are_both in prop::bool::ANY,
    ) {
        let mut network = network;
        network.links.frame.payload_bytes = network.links.frame.payload_bytes.max(20);
        let links = (0..network.topology.link_count()).map(LinkId);
        let needed = links.map(|link| pause::headroom(&network.delays(), link)).max().unwrap();
        network.links.buffers.full = WhenFull::Pause { headroom_bytes: None };
        let kept = pause::headroom_of_switch(&network.delays());
        // What a switch has beside that may be next to nothing, and less than others take.
        let buffers = &mut network.links.buffers;
        buffers.shared = alpha.map(|alpha| SharedMemory { bytes: kept + more, alpha });
        buffers.bytes_max = (alpha.is_none() || are_both).then_some(needed + more);
        let (times, log, links) = engine(&network, &messages);
        prop_assert!(links.iter().all(|(counts, _)| counts.lost == 0));
        let (slow_times, slow_log, slow_links) = slow(&network, &messages);
        prop_assert_eq!(log, slow_log);
        prop_assert_eq!(links, slow_links);
        prop_assert_eq!(times, slow_times);
    }

    #[test]
    fn a_message_alone_takes_its_floor_and_no_other_less((network, messages) in cases()) {
        let mut network = network;
        network.links.buffers = Buffers::default();
        let floor = |message: &Message| {
            let way: Vec<_> = network.way(message).into_iter().map(LinkId).collect();
            let (ends, shape) = (network.ends(message), network.shape(message, way.len()));
            let demand = network.demand(message, 0);
            alone::alone(&network.delays(), shape, &way, &demand, &ends)
        };
        let (times, _, _) = engine(&network, &messages);
        for (message, times) in messages.iter().zip(times) {
            let span = floor(message);
            prop_assert!(times.2 - message.at >= span.total);
            prop_assert!(times.1 - message.at >= span.head);
            if network.share_a_bus(message.ends) {
                // It crosses that bus twice, and waits there for itself.
                continue;
            }
            let (alone, _, _) = engine(&network, std::slice::from_ref(message));
            prop_assert_eq!(alone[0].2 - message.at, span.total);
            // Its head may have to wait for more of it in a switch.
            prop_assert!(alone[0].1 - message.at >= span.head);
        }
    }
}
