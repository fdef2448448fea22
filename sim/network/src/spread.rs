//! Pieces of a message that take different ways: which, and when that is decided.
//!
//! An adapter numbers the pieces of each flow (frames, or packets with credits), from a number on
//! that is drawn when a message of it begins with none before it. A piece's number says which of
//! the equally good links it takes at each switch: of c links the one of the remainder by c, and
//! the quotient is its number from there on. So the pieces of a flow take each way over a tree once
//! before they take one again, and those that follow each other part close to their sender.
//!
//! With detours pieces go over the switch of a host by chance, which follows from the number: all
//! of them, or those for which the shortest way is too full. That is decided where a piece enters
//! the network ([`Spread::is_too_full`]). On the way there the number stays as it is, and with c
//! links is a remainder as before.

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::{Detours, EqualPaths, HostId, LinkId, Node, SwitchId, Topology};

use crate::frames::alone::full_bytes;
use crate::rate::Frame;

/// Purpose of the random streams; each host has one.
const FIRST_NUMBER: u64 = 0xfa04;

/// Full frames that may wait on the shortest way before a longer one is looked at.
const FRAMES_PATIENT: u64 = 2;

/// Which ways pieces take.
#[derive(Debug)]
pub(crate) struct Spread {
    topology: Arc<Topology>,
    /// By link: the switch that it leads to; none if that is a host.
    heads: Vec<Option<SwitchId>>,
    equal_paths: EqualPaths,
    detours: Detours,
    /// Bytes of the frames that may wait before a longer way is looked at.
    patience: u64,
    seed: u64,
    streams: BTreeMap<u32, Stream>,
}

/// What says which links a piece takes: its ends, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) source: HostId,
    pub(crate) target: HostId,
    pub(crate) number: u16,
}

/// A part of a way: from a switch to that of a host.
type Leg = (SwitchId, HostId);

impl Spread {
    /// Of a network; none if all pieces of a flow take one way.
    pub(crate) fn of(topology: &Arc<Topology>, frame: Frame) -> Option<Box<Self>> {
        let head = |link| match topology.link_ends(LinkId(link)).1 {
            Node::Switch(switch) => Some(switch),
            Node::Host(_) => None,
        };
        topology.spreads_frames().then(|| {
            Box::new(Self {
                topology: Arc::clone(topology),
                heads: (0..topology.link_count()).map(head).collect(),
                equal_paths: topology.equal_paths(),
                detours: topology.detours(),
                patience: FRAMES_PATIENT * full_bytes(frame) as u64,
                seed: 0,
                streams: BTreeMap::new(),
            })
        })
    }

    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The number of the first piece of a host's message.
    pub(crate) fn first_number(&mut self, host: u32) -> u16 {
        let key = StreamKey {
            seed: self.seed,
            purpose: FIRST_NUMBER,
            entity: u64::from(host),
        };
        let stream = self.streams.entry(host);
        stream.or_insert_with(|| Stream::new(key)).next_u64() as u16
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The switch that a link leads to; none if that is a host.
    pub(crate) fn head(&self, link: u32) -> Option<SwitchId> {
        self.heads[link as usize]
    }

    /// Whether switches look at their queues for the next link.
    pub(crate) fn is_least_queued(&self) -> bool {
        self.equal_paths == EqualPaths::LeastQueued
    }

    /// Whether switches look at their queues at all when pieces come.
    pub(crate) fn is_by_queue(&self) -> bool {
        self.is_least_queued() || self.detours.are_by_queues()
    }

    /// Whether it is decided for all pieces at once that come in a window which of them take
    /// detours: by queues as they are when it begins.
    pub(crate) fn looks_ahead(&self) -> bool {
        self.detours == Detours::ByAllQueues
    }

    pub(crate) fn detours(&self) -> Detours {
        self.detours
    }

    /// Whether a link leads from a host.
    pub(crate) fn is_of_host(&self, link: u32) -> bool {
        link < self.topology.host_count()
    }

    /// The host over whose switch its detour goes; none if it would not leave its way for that.
    pub(crate) fn over(&self, course: &Course) -> Option<HostId> {
        let (topology, number) = (&self.topology, course.number.into());
        let over = topology.detour_host(course.source, course.target, number);
        let ends = [course.source, course.target].map(|end| topology.host_switch(end));
        (ends[0] != ends[1] && !ends.contains(&topology.host_switch(over))).then_some(over)
    }

    /// How many links a piece may take from a switch; none if that is the one of the host.
    pub(crate) fn choices(&self, at: SwitchId, goal: HostId) -> Option<u32> {
        let is_there = at == self.topology.host_switch(goal);
        (!is_there).then(|| self.topology.next_count(at, goal).max(1))
    }

    /// The links between switches of the shortest way.
    fn straight(&self, course: &Course) -> [Leg; 1] {
        [(self.topology.host_switch(course.source), course.target)]
    }

    /// Those of a detour.
    fn around(&self, course: &Course, over: HostId) -> [Leg; 2] {
        let [source, turn] = [course.source, over].map(|host| self.topology.host_switch(host));
        [(source, over), (turn, course.target)]
    }

    /// The links of some legs, in order.
    fn follow(&self, course: &Course, legs: &[Leg], mut visit: impl FnMut(LinkId)) {
        for (from, goal) in legs {
            let (mut at, mut number) = (*from, u32::from(course.number));
            while let Some(count) = self.choices(at, *goal) {
                let Some(link) = self.topology.next_link(at, *goal, number % count) else {
                    break;
                };
                visit(link);
                if *goal == course.target {
                    number /= count;
                }
                let Some(next) = self.head(link.0) else {
                    break;
                };
                at = next;
            }
        }
    }

    /// Whether a piece that enters the network takes its detour: where the bytes in the queues of
    /// the shortest way, without the frames that may wait there, times its links are more than
    /// those of the detour times its own (UGAL; Singh, Load-balanced routing in interconnection
    /// networks, 2005). `held` says what the queue of a link has.
    pub(crate) fn is_too_full(&self, course: &Course, mut held: impl FnMut(u32) -> u64) -> bool {
        let Some(over) = self.over(course) else {
            return false;
        };
        let mut weigh = |legs: &[Leg]| {
            let (mut links, mut most) = (0, 0);
            self.follow(course, legs, |link| {
                if links == 0 || self.detours == Detours::ByAllQueues {
                    most = most.max(held(link.0));
                }
                links += 1;
            });
            (links, most)
        };
        let (links, most) = weigh(&self.straight(course));
        let (links_around, most_around) = weigh(&self.around(course, over));
        most.saturating_sub(self.patience) * links > most_around * links_around
    }

    /// The link that a switch takes of so many that lead on equally well: the one whose queue holds
    /// the fewest bytes, of several the first from the one on that a piece's number says.
    pub(crate) fn least_queued(
        &self,
        (at, goal): (SwitchId, HostId),
        (number, count): (u32, u32),
        mut held: impl FnMut(u32) -> u64,
    ) -> Option<LinkId> {
        let from_its_own = (0..count).map(|turn| (number + turn) % count);
        let links = from_its_own.filter_map(|place| self.topology.next_link(at, goal, place));
        links.min_by_key(|link| held(link.0))
    }

    /// Appends all links of the shortest way of a piece, or of its detour; the place of the link
    /// with which that turns to the target.
    pub(crate) fn lay(
        &self,
        course: &Course,
        over: Option<HostId>,
        way: &mut Vec<u32>,
    ) -> Option<usize> {
        way.push(self.topology.host_up(course.source).0);
        self.lay_from(course, self.topology.host_switch(course.source), over, way)
    }

    /// The same of what is left from a switch on.
    pub(crate) fn lay_from(
        &self,
        course: &Course,
        at: SwitchId,
        over: Option<HostId>,
        way: &mut Vec<u32>,
    ) -> Option<usize> {
        let (mut begin, mut turn) = (at, None);
        if let Some(over) = over {
            self.follow(course, &[(at, over)], |link| way.push(link.0));
            (begin, turn) = (self.topology.host_switch(over), Some(way.len()));
        }
        self.follow(course, &[(begin, course.target)], |link| way.push(link.0));
        way.push(self.topology.host_down(course.target).0);
        turn
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Option<SwitchId>>()
            + self.streams.len() * size_of::<(u32, Stream)>()
    }
}
