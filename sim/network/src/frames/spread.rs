//! Frames of a message that take different ways.
//!
//! An adapter numbers the frames of each flow, from a number on that is drawn when a message of it
//! begins with none before it. A frame's number says which of the equally good links it takes at
//! each switch: of c links the one of the remainder by c, and the quotient is its number from there
//! on. So the frames of a flow take each way over a tree once before they take one again, and those
//! that follow each other part close to their sender.
//!
//! Or the switch takes the link whose queue holds the fewest bytes as the frame comes, and if
//! several hold as few the first of them from the one on that the number says.
//!
//! With detours frames go over the switch of a host by chance, which follows from the number: all
//! of them, or those for which the shortest way is too full. That is decided where a frame enters
//! the network ([`Spread::is_too_full`]). On the way there the number stays as it is, and with c
//! links is a remainder as before.

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::{Detours, EqualPaths, HostId, LinkId, Node, SwitchId, Topology};

use super::Frames;
use super::alone::full_bytes;
use super::calendar::{Arrival, Kind};
use super::parts::Passage;
use crate::passage::Parts;
use crate::rate::Frame;

/// Purpose of the random streams; each host has one.
const FIRST_NUMBER: u64 = 0xfa04;

/// Full frames that may wait on the shortest way before a longer one is looked at.
const FRAMES_PATIENT: u64 = 2;

/// Which ways frames take.
#[derive(Debug)]
pub(super) struct Spread {
    topology: Arc<Topology>,
    /// By link: the switch that it leads to; none if that is a host.
    heads: Vec<Option<SwitchId>>,
    /// Whether a switch looks at its queues.
    is_by_queue: bool,
    detours: Detours,
    /// Bytes of the frames that may wait before a longer way is looked at.
    patience: u64,
    seed: u64,
    streams: BTreeMap<u32, Stream>,
}

/// What says which link a frame takes next: its ends, its number, and what it is.
#[derive(Clone, Copy, Debug)]
struct Course {
    source: HostId,
    target: HostId,
    number: u16,
    kind: Kind,
}

impl Course {
    fn of(passage: &Passage, number: u16, kind: Kind) -> Self {
        Self {
            source: HostId(passage.parts.source),
            target: HostId(passage.target),
            number,
            kind,
        }
    }
}

impl Spread {
    /// Of a network; none if all frames of a flow take one way.
    pub(super) fn of(topology: &Arc<Topology>, frame: Frame) -> Option<Box<Self>> {
        let head = |link| match topology.link_ends(LinkId(link)).1 {
            Node::Switch(switch) => Some(switch),
            Node::Host(_) => None,
        };
        topology.spreads_frames().then(|| {
            Box::new(Self {
                topology: Arc::clone(topology),
                heads: (0..topology.link_count()).map(head).collect(),
                is_by_queue: topology.equal_paths() == EqualPaths::LeastQueued,
                detours: topology.detours(),
                patience: FRAMES_PATIENT * full_bytes(frame) as u64,
                seed: 0,
                streams: BTreeMap::new(),
            })
        })
    }

    pub(super) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The number of the first frame of a host's message.
    pub(super) fn first_number(&mut self, host: u32) -> u16 {
        let key = StreamKey {
            seed: self.seed,
            purpose: FIRST_NUMBER,
            entity: u64::from(host),
        };
        let stream = self.streams.entry(host);
        stream.or_insert_with(|| Stream::new(key)).next_u64() as u16
    }

    /// Whether switches look at their queues when frames come.
    pub(super) fn is_by_queue(&self) -> bool {
        self.is_by_queue || self.detours.are_by_queues()
    }

    /// Whether it is decided for all frames at once that come in a window which of them take
    /// detours: by queues as they are when it begins.
    pub(super) fn looks_ahead(&self) -> bool {
        self.detours == Detours::ByAllQueues
    }

    /// The link that a frame takes behind another one, its number from there on, and what it is.
    #[inline(never)]
    fn next(&self, link: u32, mut course: Course) -> Option<(u32, u16, Kind)> {
        let at = self.heads[link as usize]?;
        let enters = self.is_of_host(link);
        if enters && self.detours == Detours::Always && self.over(&course).is_some() {
            course.kind = course.kind.on_detour(true);
        }
        let goal = self.goal(at, &mut course);
        let Some(count) = self.choices(at, goal) else {
            return Some((self.topology.host_down(goal).0, course.number, course.kind));
        };
        let number = u32::from(course.number);
        let next = self.topology.next_link(at, goal, number % count)?;
        // Where the switch looks at its queues the number is used when the frame is there.
        let is_used_there = self.is_by_queue || enters && self.detours.are_by_queues();
        let rest = match course.kind.is_on_detour() || is_used_there {
            true => course.number,
            false => (number / count) as u16,
        };
        Some((next.0, rest, course.kind))
    }

    /// Whether a link leads from a host.
    fn is_of_host(&self, link: u32) -> bool {
        link < self.topology.host_count()
    }

    /// The host that a frame goes to from a switch: its target, unless it is on a detour. That ends
    /// where it has led.
    fn goal(&self, at: SwitchId, course: &mut Course) -> HostId {
        if course.kind.is_on_detour() {
            match self.over(course) {
                Some(over) if self.topology.host_switch(over) != at => return over,
                _ => course.kind = course.kind.on_detour(false),
            }
        }
        course.target
    }

    /// The host over whose switch its detour goes; none if it would not leave its way for that.
    fn over(&self, course: &Course) -> Option<HostId> {
        let (topology, number) = (&self.topology, course.number.into());
        let over = topology.detour_host(course.source, course.target, number);
        let ends = [course.source, course.target].map(|end| topology.host_switch(end));
        (ends[0] != ends[1] && !ends.contains(&topology.host_switch(over))).then_some(over)
    }

    /// How many links a frame may take from a switch; none if that is the one of the host.
    fn choices(&self, at: SwitchId, goal: HostId) -> Option<u32> {
        let is_there = at == self.topology.host_switch(goal);
        (!is_there).then(|| self.topology.next_count(at, goal).max(1))
    }

    /// Whether a frame that enters the network takes its detour: where the bytes in the queues of
    /// the shortest way, without the frames that may wait there, times its links are more than
    /// those of the detour times its own (UGAL; Singh, Load-balanced routing in interconnection
    /// networks, 2005). `held` says what the queue of a link has.
    fn is_too_full(&self, course: &Course, mut held: impl FnMut(u32) -> u64) -> bool {
        let Some(over) = self.over(course) else {
            return false;
        };
        let topology = &self.topology;
        let at = topology.host_switch(course.source);
        let mut weigh = |legs: &[(SwitchId, HostId)]| {
            let (mut links, mut most) = (0, 0);
            for (from, goal) in legs {
                let (mut at, mut number) = (*from, u32::from(course.number));
                while let Some(count) = self.choices(at, *goal) {
                    let Some(link) = topology.next_link(at, *goal, number % count) else {
                        break;
                    };
                    if links == 0 || self.detours == Detours::ByAllQueues {
                        most = most.max(held(link.0));
                    }
                    links += 1;
                    if *goal == course.target {
                        number /= count;
                    }
                    let Some(next) = self.heads[link.0 as usize] else {
                        break;
                    };
                    at = next;
                }
            }
            (links, most)
        };
        let (links, most) = weigh(&[(at, course.target)]);
        let around = [(at, over), (topology.host_switch(over), course.target)];
        let (links_around, most_around) = weigh(&around);
        most.saturating_sub(self.patience) * links > most_around * links_around
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Option<SwitchId>>()
            + self.streams.len() * size_of::<(u32, Stream)>()
    }
}

impl Frames {
    /// The link that a frame takes next, what is left to say which it takes then, and what it is;
    /// none if it is at its target.
    // Where all take one way, nothing is called for that.
    #[inline(always)]
    pub(super) fn next_of(
        &self,
        passage: &Passage,
        it: &Arrival,
        kind: Kind,
    ) -> Option<(u32, u16, Kind)> {
        if let Some(spread) = &self.spread
            && passage.parts.is_spread
        {
            return spread.next(it.link, Course::of(passage, it.route, kind));
        }
        let next = passage.way.get(usize::from(it.route) + 1)?;
        Some((*next, it.route + 1, kind))
    }

    /// The adapter has chosen the next frame of a message, which gets a number.
    pub(super) fn number_frame(&mut self, id: u32) {
        let passage = &mut self.passages[id as usize];
        if !passage.parts.is_spread {
            return;
        }
        passage.parts.route = passage.parts.next_number;
        let next = passage.parts.next_number.wrapping_add(1);
        passage.parts.next_number = next;
        let (is_over, behind) = (passage.parts.are_sent(), passage.behind);
        if is_over && let Some(behind) = self.passages.get_mut(behind as usize) {
            behind.parts.next_number = next;
        }
    }

    /// A frame comes to its first switch: whether it takes its detour follows from the queues at a
    /// time.
    pub(super) fn choose_detour(&mut self, arrival: &mut Arrival, time: u64) {
        let Some(spread) = self.spread.as_ref().filter(|_| arrival.kind.is_frame()) else {
            return;
        };
        let passage = &self.passages[arrival.passage as usize];
        if !spread.is_of_host(arrival.from) || !passage.parts.is_spread {
            return;
        }
        let course = Course::of(passage, arrival.route, arrival.kind);
        let (outputs, is_ordered) = (&mut self.outputs, self.ordered.is_some());
        let held = |link: u32| outputs[link as usize].held_by(time, is_ordered);
        if !spread.is_too_full(&course, held) {
            return;
        }
        let at = spread.heads[arrival.from as usize];
        if let (Some(at), Some(over)) = (at, spread.over(&course)) {
            let count = spread.choices(at, over).unwrap_or(1);
            let number = u32::from(arrival.route) % count;
            if let Some(link) = spread.topology.next_link(at, over, number) {
                (arrival.link, arrival.kind) = (link.0, arrival.kind.on_detour(true));
            }
        }
    }

    /// A switch to which a frame comes looks at its queues, if switches do.
    pub(super) fn look_for_link(&mut self, arrival: &mut Arrival) {
        let Some(spread) = self.spread.as_ref().filter(|it| it.is_by_queue()) else {
            return;
        };
        let enters = spread.is_of_host(arrival.from) && spread.detours.are_by_queues();
        if enters && !spread.looks_ahead() {
            self.choose_detour(arrival, arrival.time);
        }
        let Some(spread) = self.spread.as_ref() else {
            return;
        };
        let passage = &self.passages[arrival.passage as usize];
        let Some(at) = spread.heads[arrival.from as usize].filter(|_| passage.parts.is_spread)
        else {
            return;
        };
        let mut course = Course::of(passage, arrival.route, arrival.kind);
        let goal = spread.goal(at, &mut course);
        let Some(count) = spread.choices(at, goal) else {
            return;
        };
        if spread.is_by_queue {
            let mut least = u64::MAX;
            for turn in 0..count {
                let number = (u32::from(arrival.route) + turn) % count;
                let Some(link) = spread.topology.next_link(at, goal, number) else {
                    continue;
                };
                let output = &mut self.outputs[link.0 as usize];
                let held = output.held_by(arrival.time, self.ordered.is_some());
                if held < least {
                    (least, arrival.link) = (held, link.0);
                }
            }
        }
        if !arrival.kind.is_on_detour() && (spread.is_by_queue || enters) {
            arrival.route = (u32::from(arrival.route) / count) as u16;
        }
    }

    /// What comes to switches in a window, in the order of time: they look at their queues.
    pub(super) fn serve_by_queue(&mut self, bucket: &[Arrival]) {
        let mut all = bucket.to_vec();
        all.sort_by_key(Arrival::key);
        for mut arrival in all {
            self.look_for_link(&mut arrival);
            self.serve(&arrival);
        }
    }
}
