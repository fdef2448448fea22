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

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::{EqualPaths, HostId, LinkId, Node, SwitchId, Topology};

use super::Frames;
use super::calendar::Arrival;
use super::parts::Passage;
use crate::passage::Parts;

/// Purpose of the random streams; each host has one.
const FIRST_NUMBER: u64 = 0xfa04;

/// Which ways frames take.
#[derive(Debug)]
pub(super) struct Spread {
    topology: Arc<Topology>,
    /// By link: the switch that it leads to; none if that is a host.
    heads: Vec<Option<SwitchId>>,
    /// Whether a switch looks at its queues.
    is_by_queue: bool,
    seed: u64,
    streams: BTreeMap<u32, Stream>,
}

impl Spread {
    /// Of a network; none if all frames of a flow take one way.
    pub(super) fn of(topology: &Arc<Topology>) -> Option<Box<Self>> {
        let equal_paths = topology.equal_paths();
        let head = |link| match topology.link_ends(LinkId(link)).1 {
            Node::Switch(switch) => Some(switch),
            Node::Host(_) => None,
        };
        equal_paths.is_by_frame().then(|| {
            Box::new(Self {
                topology: Arc::clone(topology),
                heads: (0..topology.link_count()).map(head).collect(),
                is_by_queue: equal_paths == EqualPaths::LeastQueued,
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
        self.is_by_queue
    }

    /// The link that a frame of a number takes behind another one, and its number from there on.
    #[inline(never)]
    fn next(&self, link: u32, target: HostId, number: u16) -> Option<(u32, u16)> {
        let at = self.heads[link as usize]?;
        let Some(count) = self.choices(at, target) else {
            return Some((self.topology.host_down(target).0, number));
        };
        let (next, rest) = (u32::from(number) % count, u32::from(number) / count);
        let next = self.topology.next_link(at, target, next)?;
        // Where the switch looks at its queues the number is used when the frame is there.
        Some((
            next.0,
            if self.is_by_queue {
                number
            } else {
                rest as u16
            },
        ))
    }

    /// How many links a frame may take from a switch; none if that is its target's.
    fn choices(&self, at: SwitchId, target: HostId) -> Option<u32> {
        let is_there = at == self.topology.host_switch(target);
        (!is_there).then(|| self.topology.next_count(at, target).max(1))
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.heads.capacity() * size_of::<Option<SwitchId>>()
            + self.streams.len() * size_of::<(u32, Stream)>()
    }
}

impl Frames {
    /// The link that a frame takes next, and what is left to say which it takes then; none if it
    /// is at its target.
    // Where all take one way, nothing is called for that.
    #[inline(always)]
    pub(super) fn next_of(&self, passage: &Passage, it: &Arrival) -> Option<(u32, u16)> {
        if let Some(spread) = &self.spread
            && passage.parts.is_spread
        {
            return spread.next(it.link, HostId(passage.target), it.route);
        }
        let next = passage.way.get(usize::from(it.route) + 1)?;
        Some((*next, it.route + 1))
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

    /// A switch to which a frame comes looks for the link with the shortest queue, if switches do.
    pub(super) fn look_for_link(&mut self, arrival: &mut Arrival) {
        let Some(spread) = self.spread.as_ref().filter(|it| it.is_by_queue) else {
            return;
        };
        let passage = &self.passages[arrival.passage as usize];
        let target = HostId(passage.target);
        let Some(at) = spread.heads[arrival.from as usize].filter(|_| passage.parts.is_spread)
        else {
            return;
        };
        let Some(count) = spread.choices(at, target) else {
            return;
        };
        let mut least = u64::MAX;
        for turn in 0..count {
            let number = (u32::from(arrival.route) + turn) % count;
            let Some(link) = spread.topology.next_link(at, target, number) else {
                continue;
            };
            let output = &mut self.outputs[link.0 as usize];
            let held = match self.ordered {
                None => output.held_at(arrival.time),
                Some(_) => output.held_now(),
            };
            if held < least {
                (least, arrival.link) = (held, link.0);
            }
        }
        arrival.route = (u32::from(arrival.route) / count) as u16;
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
