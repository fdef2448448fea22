//! The channels of a way, and packets that take ways of their own ([`crate::spread`]).
//!
//! An adapter lays the way of a packet when it begins to send it. Where queues decide, that is a
//! shortest way until the packet is at the front of a switch's buffer and may go on; there the
//! switch looks at the credits of its links that are in use, the queues that it knows of. The first
//! switch decides on a detour, and each one on the next link. The rest of a packet follows its
//! first flit.

use viaduct_topology::{Detours, HostId, LinkId, Node};

use super::Credits;
use super::channel::{NONE, Unit};
use crate::passage::Crossing;
use crate::queues::FlowKey;
use crate::spread::Course;

/// A packet on a way of its own.
#[derive(Debug)]
pub(super) struct Routed {
    /// Its number is what is left of it behind the switches that have chosen a link.
    course: Course,
    lane: u32,
    /// Its channels.
    pub(super) way: Vec<u32>,
    /// The host over whose switch its detour goes, and the place on its way with which that turns
    /// to the target.
    over: Option<HostId>,
    turn: Option<usize>,
    /// The place on its way from which on switches have to choose.
    open_from: usize,
    /// The credits of its first unit, while that waits for the link that it has chosen.
    waiting: u32,
}

/// Nothing is left to choose.
const CHOSEN: usize = usize::MAX;

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
                over: None,
                turn: None,
                open_from: CHOSEN,
                waiting: 0,
            });
            self.routed.len() as u32 - 1
        });
        let detours = self.topology.detours();
        self.lay_packet(packet, (course, lane), detours == Detours::Always);
        let is_open = self.spread.as_ref().is_some_and(|spread| {
            spread.is_least_queued() || detours.are_by_queues() && spread.over(&course).is_some()
        });
        self.routed[packet as usize].open_from = if is_open { 1 } else { CHOSEN };
        self.passages[id as usize].parts.packet = packet;
        packet
    }

    /// Lays all of the way of a packet, over its detour or not.
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
            over,
            turn,
            open_from: CHOSEN,
            waiting: 0,
        };
    }

    /// The switch before a place on the way of a packet, which is in front there, chooses what is
    /// open.
    fn choose(&mut self, unit: &Unit, now: u64) {
        let (packet, place) = (unit.packet, usize::from(unit.next_place));
        let Routed { course, lane, .. } = self.routed[packet as usize];
        let used = |link| self.used_bytes(link, now);
        let Some(spread) = &self.spread else {
            return;
        };
        let is_least_queued = spread.is_least_queued();
        let may_turn = place == 1 && spread.detours().are_by_queues();
        if may_turn && spread.is_too_full(&course, used) {
            self.lay_packet(packet, (course, lane), true);
        }
        if is_least_queued {
            let wanted = self.passages[unit.passage as usize]
                .parts
                .credits(unit.kind);
            self.choose_link((packet, wanted), place, now);
        }
        self.routed[packet as usize].open_from = match is_least_queued {
            true => place + 1,
            false => CHOSEN,
        };
    }

    /// That switch takes its link with the shortest queue, of those that lead on equally well.
    fn choose_link(&mut self, (packet, wanted): (u32, u32), place: usize, now: u64) {
        let its = &self.routed[packet as usize];
        let Some(spread) = &self.spread else {
            return;
        };
        let over = its
            .over
            .filter(|_| its.turn.is_some_and(|turn| place < turn));
        let mut course = its.course;
        let goal = over.unwrap_or(course.target);
        let mut links: Vec<u32> = its.way[..place]
            .iter()
            .map(|channel| channel / self.settings.channels)
            .collect();
        let at = links.last().and_then(|link| spread.head(*link));
        let Some((at, count)) = at.and_then(|at| Some((at, spread.choices(at, goal)?))) else {
            return;
        };
        let number = u32::from(course.number);
        let used = |link| self.used_bytes(link, now);
        let Some(link) = spread.least_queued((at, goal), (number, count), used) else {
            return;
        };
        let Some(next) = spread.head(link.0) else {
            return;
        };
        links.push(link.0);
        // On a detour the number stays as it is.
        let mut turn = its.turn;
        if over.is_none() {
            course.number = (number / count) as u16;
            spread.lay_from(&course, next, None, &mut links);
        } else {
            turn = spread.lay_from(&course, next, over, &mut links);
        }
        let lane = its.lane;
        let mut way = core::mem::take(&mut self.routed[packet as usize].way);
        way.clear();
        self.lay_channels(&links, turn, lane, &mut way);
        let its = &mut self.routed[packet as usize];
        (its.course, its.turn, its.way) = (course, turn, way);
        its.waiting = wanted;
        self.links[link.0 as usize].chosen += wanted;
    }

    /// A unit leaves a switch by a link, for which its packet may have waited.
    #[inline]
    pub(super) fn note_leaving(&mut self, unit: &Unit) {
        if self.chooses_links
            && let Some(its) = self.routed.get_mut(unit.packet as usize)
            // Its first unit may have gone before it, and wait in the next switch.
            && its.open_from == usize::from(unit.next_place) + 1
        {
            self.links[unit.next_link as usize].chosen -= core::mem::take(&mut its.waiting);
        }
    }

    /// A unit at the front of a buffer may go on: it takes the way that its packet does, which the
    /// switch chooses if that is open.
    #[inline(never)]
    pub(super) fn choose_way(&mut self, channel: u32, mut unit: Unit, now: u64) -> Unit {
        let place = usize::from(unit.next_place);
        if place >= self.routed[unit.packet as usize].open_from {
            self.choose(&unit, now);
        }
        let next = self.routed[unit.packet as usize].way[place];
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
    /// their way there, or left them so lately that the sender has not heard of it. Those come on
    /// top that have chosen the link and wait for it.
    fn used_bytes(&self, link: u32, now: u64) -> u64 {
        let first = link * self.settings.channels;
        let channels = &self.channels[first as usize..(first + self.settings.channels) as usize];
        let missing: u32 = channels.iter().map(|it| it.all - it.credits).sum();
        let returning = self.links[link as usize].returning.iter();
        let back: u32 = returning
            .take_while(|(time, ..)| *time <= now)
            .map(|(_, _, credits)| credits)
            .sum();
        let chosen = self.links[link as usize].chosen;
        u64::from(missing - back + chosen) * u64::from(self.settings.flit_bytes)
    }

    /// Memory of packets that take ways of their own.
    pub(super) fn ways_bytes(&self) -> usize {
        let ways: usize = self.routed.iter().map(|it| it.way.capacity()).sum();
        self.routed.capacity() * size_of::<Routed>()
            + ways * size_of::<u32>()
            + self.spread.as_ref().map_or(0, |it| it.state_bytes())
    }
}
