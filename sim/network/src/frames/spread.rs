//! Frames of a message that take different ways ([`crate::spread`]).
//!
//! A switch chooses by a frame's number, or it takes the link whose queue holds the fewest bytes as
//! the frame comes, and if several hold as few the first of them from the one on that the number
//! says.

use viaduct_topology::{Detours, HostId, SwitchId};

use super::Frames;
use super::calendar::{Arrival, Kind};
use super::parts::Passage;
use crate::passage::Parts;
use crate::spread::{Course, Spread};

fn course_of(passage: &Passage, number: u16) -> Course {
    Course {
        source: HostId(passage.parts.source),
        target: HostId(passage.target),
        number,
    }
}

/// The link that a frame takes behind another one, its number from there on, and what it is.
#[inline(never)]
fn next(spread: &Spread, link: u32, course: &Course, mut kind: Kind) -> Option<(u32, u16, Kind)> {
    let at = spread.head(link)?;
    let enters = spread.is_of_host(link);
    if enters && spread.detours() == Detours::Always && spread.over(course).is_some() {
        kind = kind.on_detour(true);
    }
    let goal = goal(spread, at, course, &mut kind);
    let Some(count) = spread.choices(at, goal) else {
        return Some((spread.topology().host_down(goal).0, course.number, kind));
    };
    let number = u32::from(course.number);
    let next = spread.topology().next_link(at, goal, number % count)?;
    // Where the switch looks at its queues the number is used when the frame is there.
    let is_used_there = spread.is_least_queued() || enters && spread.detours().are_by_queues();
    let rest = match kind.is_on_detour() || is_used_there {
        true => course.number,
        false => (number / count) as u16,
    };
    Some((next.0, rest, kind))
}

/// The host that a frame goes to from a switch: its target, unless it is on a detour. That ends
/// where it has led.
fn goal(spread: &Spread, at: SwitchId, course: &Course, kind: &mut Kind) -> HostId {
    if kind.is_on_detour() {
        match spread.over(course) {
            Some(over) if spread.topology().host_switch(over) != at => return over,
            _ => *kind = kind.on_detour(false),
        }
    }
    course.target
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
            return next(spread, it.link, &course_of(passage, it.route), kind);
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
        let course = course_of(passage, arrival.route);
        let (outputs, is_ordered) = (&mut self.outputs, self.ordered.is_some());
        let held = |link: u32| outputs[link as usize].held_by(time, is_ordered);
        if !spread.is_too_full(&course, held) {
            return;
        }
        let at = spread.head(arrival.from);
        if let (Some(at), Some(over)) = (at, spread.over(&course)) {
            let count = spread.choices(at, over).unwrap_or(1);
            let number = u32::from(arrival.route) % count;
            if let Some(link) = spread.topology().next_link(at, over, number) {
                (arrival.link, arrival.kind) = (link.0, arrival.kind.on_detour(true));
            }
        }
    }

    /// A switch to which a frame comes looks at its queues, if switches do.
    pub(super) fn look_for_link(&mut self, arrival: &mut Arrival) {
        let Some(spread) = self.spread.as_ref().filter(|it| it.is_by_queue()) else {
            return;
        };
        let enters = spread.is_of_host(arrival.from) && spread.detours().are_by_queues();
        if enters && !spread.looks_ahead() {
            self.choose_detour(arrival, arrival.time);
        }
        let Some(spread) = self.spread.as_ref() else {
            return;
        };
        let passage = &self.passages[arrival.passage as usize];
        let Some(at) = spread
            .head(arrival.from)
            .filter(|_| passage.parts.is_spread)
        else {
            return;
        };
        let course = course_of(passage, arrival.route);
        let goal = goal(spread, at, &course, &mut { arrival.kind });
        let Some(count) = spread.choices(at, goal) else {
            return;
        };
        if spread.is_least_queued() {
            let (outputs, is_ordered) = (&mut self.outputs, self.ordered.is_some());
            let held = |link: u32| outputs[link as usize].held_by(arrival.time, is_ordered);
            let number = u32::from(arrival.route);
            if let Some(link) = spread.least_queued((at, goal), (number, count), held) {
                arrival.link = link.0;
            }
        }
        if !arrival.kind.is_on_detour() && (spread.is_least_queued() || enters) {
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
