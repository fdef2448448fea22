//! Queues of which it is not known when a frame leaves as it comes: flows take turns there, headers
//! of trimmed frames overtake it, or the link may pause meanwhile. And queues that share the memory
//! of their switch.
//!
//! So all that happens in a window is put in the order of time: frames leave, links pause and go
//! on, frames come. That takes two events a frame and hop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Frames;
use super::alone::full_bytes;
use super::calendar::{Arrival, Kind};
use super::waiting::{Turn, Waiting};
use crate::links::{LinkConfig, Queueing};
use crate::passage::NOBODY;

/// All such queues.
#[derive(Debug)]
pub(super) struct Ordered {
    links: Vec<Serving>,
    /// What happens in this window, by time, rank and link; the last puts it in order.
    agenda: BinaryHeap<Reverse<(u64, u8, u32, u32)>>,
    happenings: Vec<Arrival>,
    window_end: u64,
}

/// The queue of a link.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) waiting: Waiting,
    /// Of the frame that is on the link: the link that it came by, and its bytes.
    leaving: Option<(u32, u32)>,
    /// Whether the link pauses.
    pub(super) is_paused: bool,
}

impl Ordered {
    /// Of so many links; none if what comes to a queue is in the order of time by itself.
    pub(super) fn of(links: &LinkConfig, count: usize) -> Option<Box<Self>> {
        let is_fair = links.buffers.queueing == Queueing::Fair;
        let buffers = &links.buffers;
        let is_shared = buffers.shared.is_some();
        if !is_fair && !is_shared && !buffers.may_pause() && !buffers.may_trim() {
            return None;
        }
        let quantum = is_fair.then(|| full_bytes(links.frame).ceil() as u64);
        let serving = || Serving {
            waiting: Waiting::new(quantum),
            leaving: None,
            is_paused: false,
        };
        Some(Box::new(Self {
            links: (0..count).map(|_| serving()).collect(),
            agenda: BinaryHeap::new(),
            happenings: Vec::new(),
            window_end: 0,
        }))
    }

    /// The queue of a link.
    pub(super) fn of_link(&self, link: u32) -> &Serving {
        &self.links[link as usize]
    }

    pub(super) fn of_link_mut(&mut self, link: u32) -> &mut Serving {
        &mut self.links[link as usize]
    }

    pub(super) fn state_bytes(&self) -> usize {
        let waiting = self.links.iter().map(|it| it.waiting.state_bytes());
        self.links.capacity() * size_of::<Serving>()
            + waiting.sum::<usize>()
            + self.happenings.capacity() * size_of::<Arrival>()
    }

    fn expect(&mut self, arrival: Arrival) {
        let rank = arrival.kind.rank();
        let of = if rank == 2 {
            arrival.from
        } else {
            arrival.link
        };
        let number = self.happenings.len() as u32;
        self.happenings.push(arrival);
        self.agenda.push(Reverse((arrival.time, rank, of, number)));
    }
}

impl Frames {
    /// All that happens in a window.
    pub(super) fn work_out(&mut self, bucket: &[Arrival], end: u64) {
        let Some(ordered) = &mut self.ordered else {
            return;
        };
        ordered.window_end = end;
        ordered.happenings.clear();
        for arrival in bucket {
            ordered.expect(*arrival);
        }
        while let Some(ordered) = &mut self.ordered
            && let Some(Reverse((_, _, _, number))) = ordered.agenda.pop()
        {
            let happening = ordered.happenings[number as usize];
            match happening.kind {
                Kind::LEAVES => self.has_left(happening.time, happening.link),
                Kind::PAUSES => self.change(happening.time, happening.link, true),
                Kind::RESUMES => self.change(happening.time, happening.link, false),
                _ => self.enters(happening),
            }
        }
    }

    /// Something is to happen to a link.
    pub(super) fn expect(&mut self, link: u32, time: u64, kind: Kind) {
        let happening = Arrival {
            time,
            sent: time,
            passage: NOBODY,
            link,
            from: link,
            route: 0,
            kind,
        };
        match &mut self.ordered {
            Some(ordered) if time < ordered.window_end => ordered.expect(happening),
            _ => self.calendar.push(happening),
        }
    }

    /// A frame comes to the queue of a link.
    fn enters(&mut self, mut arrival: Arrival) {
        self.look_for_link(&mut arrival);
        let parts = &self.passages[arrival.passage as usize].parts;
        let mut held = parts.held(arrival.kind);
        let turn = parts
            .flow
            .map_or(Turn::Message(arrival.passage), Turn::Flow);
        if !arrival.kind.is_lost()
            && !arrival.kind.is_trimmed()
            && let Some(limits) = &mut self.limits
        {
            let pauses = self.pauses.as_ref();
            let fits = pauses.is_none_or(|it| it.have_room(arrival.from, held));
            let before = self.outputs[arrival.link as usize].held_now();
            arrival.kind = match fits {
                true => limits.judge(arrival.kind, arrival.link, (before, held.into())),
                false => limits.lose(arrival.kind, arrival.link),
            };
            held = parts.held(arrival.kind);
        }
        if !arrival.kind.is_lost() {
            self.hold(arrival.from, arrival.time, held);
            if let Some(limits) = &mut self.limits {
                limits.enter(arrival.link, held);
            }
        }
        let Some(ordered) = &mut self.ordered else {
            return;
        };
        let serving = ordered.of_link_mut(arrival.link);
        serving.waiting.push(arrival, turn, held);
        if !arrival.kind.is_lost() {
            let frames = serving.waiting.len() + usize::from(serving.leaving.is_some());
            self.outputs[arrival.link as usize].enter(held, frames as u32);
        }
        self.serve_next(arrival.time, arrival.link);
    }

    /// A link takes the next frame of its queue, if it is free and does not pause.
    pub(super) fn serve_next(&mut self, now: u64, link: u32) {
        while let Some(ordered) = &mut self.ordered {
            let serving = ordered.of_link_mut(link);
            if serving.leaving.is_some() || serving.is_paused {
                return;
            }
            let Some(arrival) = serving.waiting.pop() else {
                return;
            };
            if arrival.kind.is_lost() {
                self.go_on_without(&Arrival {
                    time: now,
                    ..arrival
                });
                continue;
            }
            let parts = &self.passages[arrival.passage as usize].parts;
            let held = parts.held(arrival.kind);
            serving.leaving = Some((arrival.from, held));
            let bytes = parts.bytes(arrival.kind);
            let service = self.cables[link].service(bytes);
            self.outputs[link as usize].begin(now, service, bytes);
            self.leave(&arrival, arrival.kind, (now, service));
            self.expect(link, now + service, Kind::LEAVES);
        }
    }

    /// A frame has left a queue, and the switch.
    fn has_left(&mut self, now: u64, link: u32) {
        let Some(ordered) = &mut self.ordered else {
            return;
        };
        let Some((from, held)) = ordered.of_link_mut(link).leaving.take() else {
            return;
        };
        self.outputs[link as usize].exit(held);
        if let Some(limits) = &mut self.limits {
            limits.exit(link, held);
        }
        self.release(from, now, held);
        self.serve_next(now, link);
    }
}
