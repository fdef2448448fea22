//! The channels of a way, and packets that take ways of their own ([`crate::spread`]).
//!
//! An adapter lays the way of a packet when it begins to send it. Where queues decide, that is the
//! shortest way until the packet is at the front of the first switch's buffer and may go on; there
//! the switch looks at the credits of its links that are in use, the queues that it knows of.
//! The rest of a packet follows its first flit.

use viaduct_topology::{Detours, HostId, LinkId, Node};

use super::Credits;
use super::channel::{NONE, Unit};
use crate::passage::Crossing;
use crate::queues::FlowKey;
use crate::spread::Course;

/// A packet on a way of its own.
#[derive(Debug)]
pub(super) struct Routed {
    course: Course,
    lane: u32,
    /// Its channels.
    pub(super) way: Vec<u32>,
    /// Whether its first switch has to choose.
    is_open: bool,
}

impl Credits {
    /// Which of the channels of a class a flow takes.
    pub(super) fn lane(&self, flow: Option<FlowKey>) -> u32 {
        flow.map_or(0, |flow| flow.part(self.settings.lanes()))
    }

    /// The place of the link with which the detour of a whole flow turns to its target.
    pub(super) fn turn_of(&self, crossing: &Crossing<'_>) -> Option<usize> {
        let topology = &self.topology;
        if topology.detours() != Detours::Always || self.spread.is_some() || !crossing.may_spread {
            return None;
        }
        let (source, target) = crossing.hosts;
        let flow = crossing.flow?.number();
        let over = topology.detour_host(HostId(source), HostId(target), flow);
        let turn = Node::Switch(topology.host_switch(over));
        let begins_there = |link: &u32| topology.link_ends(LinkId(*link)).0 == turn;
        crossing.way.iter().position(begins_there)
    }

    /// Appends the channels of a way.
    pub(super) fn lay_channels(
        &mut self,
        links: &[u32],
        turn: Option<usize>,
        lane: u32,
        way: &mut Vec<u32>,
    ) {
        let (settings, classes) = (&self.settings, &mut self.numbers);
        classes.clear();
        self.topology
            .channels_along(links, turn, settings.classes, classes);
        let channel = |(link, class): (&u32, &u32)| {
            link * settings.channels + class * settings.lanes() + lane
        };
        way.extend(links.iter().zip(&*classes).map(channel));
    }

    /// The packet of a message that a host sends now, if its packets take ways of their own.
    pub(super) fn route_packet(&mut self, host: u32, id: u32) -> u32 {
        let passage = &mut self.passages[id as usize];
        if !passage.parts.is_spread || passage.parts.packet != NONE {
            return passage.parts.packet;
        }
        let course = Course {
            source: HostId(host),
            target: HostId(passage.target),
            number: passage.parts.next_number,
        };
        let lane = passage.parts.lane;
        let next = course.number.wrapping_add(1);
        passage.parts.next_number = next;
        let (is_last, behind) = (passage.parts.left.packets == 1, passage.behind);
        if is_last && let Some(behind) = self.passages.get_mut(behind as usize) {
            behind.parts.next_number = next;
        }
        let packet = self.routed_free.pop().unwrap_or_else(|| {
            self.routed.push(Routed {
                course,
                lane: 0,
                way: Vec::new(),
                is_open: false,
            });
            self.routed.len() as u32 - 1
        });
        let detours = self.topology.detours();
        self.lay_packet(packet, (course, lane), detours == Detours::Always);
        let over = self.spread.as_ref().and_then(|it| it.over(&course));
        self.routed[packet as usize].is_open = detours.are_by_queues() && over.is_some();
        self.passages[id as usize].parts.packet = packet;
        packet
    }

    /// Lays the way of a packet, over its detour or not.
    fn lay_packet(&mut self, packet: u32, (course, lane): (Course, u32), is_around: bool) {
        let Some(spread) = &self.spread else {
            return;
        };
        let mut links = Vec::new();
        let over = spread.over(&course).filter(|_| is_around);
        let turn = spread.lay(&course, over, &mut links);
        let mut way = core::mem::take(&mut self.routed[packet as usize].way);
        way.clear();
        self.lay_channels(&links, turn, lane, &mut way);
        self.routed[packet as usize] = Routed {
            course,
            lane,
            way,
            is_open: false,
        };
    }

    /// A unit at the front of a buffer of its first switch may go on: it takes the way that its
    /// packet does, which the switch chooses if that is open.
    #[inline(never)]
    pub(super) fn choose_way(&mut self, channel: u32, mut unit: Unit, now: u64) -> Unit {
        let Routed {
            course,
            lane,
            is_open,
            ..
        } = self.routed[unit.packet as usize];
        if is_open {
            self.routed[unit.packet as usize].is_open = false;
            let used = |link| self.used_bytes(link, now);
            let spread = self.spread.as_ref();
            if spread.is_some_and(|spread| spread.is_too_full(&course, used)) {
                self.lay_packet(unit.packet, (course, lane), true);
            }
        }
        let next = self.routed[unit.packet as usize].way[usize::from(unit.next_place)];
        if next != unit.next_channel {
            let its = &self.channels[next as usize];
            let wanted = self.passages[unit.passage as usize]
                .parts
                .credits(unit.kind);
            unit.next_channel = next;
            unit.next_link = its.link;
            unit.next_credits = wanted.min(its.all);
            if let Some(front) = self.channels[channel as usize].units.front_mut() {
                *front = unit;
            }
        }
        unit
    }

    /// Bytes for which a link's sender has no credits back: they are in the buffers at its end, on
    /// their way there, or left them so lately that the sender has not heard of it.
    fn used_bytes(&self, link: u32, now: u64) -> u64 {
        let first = link * self.settings.channels;
        let channels = &self.channels[first as usize..(first + self.settings.channels) as usize];
        let missing: u32 = channels.iter().map(|it| it.all - it.credits).sum();
        let returning = self.links[link as usize].returning.iter();
        let back: u32 = returning
            .take_while(|(time, ..)| *time <= now)
            .map(|(_, _, credits)| credits)
            .sum();
        u64::from(missing - back) * u64::from(self.settings.flit_bytes)
    }

    /// Memory of packets that take ways of their own.
    pub(super) fn ways_bytes(&self) -> usize {
        let ways: usize = self.routed.iter().map(|it| it.way.capacity()).sum();
        self.routed.capacity() * size_of::<Routed>()
            + ways * size_of::<u32>()
            + self.spread.as_ref().map_or(0, |it| it.state_bytes())
    }
}
