//! Service discipline: which endpoint's messages the interface sends next.
//!
//! Weighted round robin over the frames that have something to send: stay with one while it has,
//! at most [`Discipline::messages_max`] messages or [`Discipline::time_max`], then the next. The
//! descriptors of one endpoint go first come, first served: when the first cannot go, because all
//! channels to its destination are taken, the endpoint parks and leaves its turn; the first to park
//! is the first to be made ready when a channel comes free.
//!
//! What holds after each call:
//! - an idle frame is in no list: it costs nothing;
//! - among frames that stay ready, none is passed over: between two turns of one, every other has
//!   at most one turn;
//! - as many parked frames are made ready as channels came free for them: a frame that stops while
//!   it has such a permit hands it on.

use viaduct_engine::Time;

use crate::names::{Frame, Line, NONE};

/// How long the interface stays with one endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Discipline {
    /// Messages of one turn, at most; at least 1.
    pub messages_max: u32,
    /// Time of one turn: no message begins later than this after its turn began.
    pub time_max: Time,
}

impl Default for Discipline {
    /// The published figures: 64 messages, 4 ms.
    fn default() -> Self {
        Self {
            messages_max: 64,
            time_max: Time::from_milliseconds(4),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Has nothing to send, or may not.
    Idle,
    /// In the ring.
    Ready,
    /// Waits for a channel of this line.
    Parked(Line),
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    place: Place,
    /// Made ready because a channel of this line came free, and not served since.
    permit: Option<Line>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

/// The ring of frames with something to send. Every call is O(1) and allocates nothing.
#[derive(Clone, Debug)]
pub struct Service {
    discipline: Discipline,
    links: Vec<Link>,
    ring: List,
    /// Frames that wait for a channel, by line; lines behind the last have none.
    parked: Vec<List>,
    /// Whose turn it is: the first of the ring, if its turn has begun.
    has_turn: bool,
    messages: u32,
    since: Time,
}

impl Service {
    /// For an interface with `frames` frames.
    #[must_use]
    pub fn new(frames: u16, discipline: Discipline) -> Self {
        let idle = Link {
            before: NONE,
            after: NONE,
            place: Place::Idle,
            permit: None,
        };
        Self {
            discipline,
            links: vec![idle; usize::from(frames)],
            ring: EMPTY,
            parked: Vec::new(),
            has_turn: false,
            messages: 0,
            since: Time::ZERO,
        }
    }

    /// The endpoint in this frame has something to send. Harmless if that is known.
    #[inline]
    pub fn ready(&mut self, frame: Frame) {
        if self.links[frame.index()].place == Place::Idle {
            self.links[frame.index()].place = Place::Ready;
            append(&mut self.links, &mut self.ring, frame);
        }
    }

    /// The endpoint in this frame has nothing to send, or may send nothing more.
    #[inline]
    pub fn stop(&mut self, frame: Frame) {
        let link = &mut self.links[frame.index()];
        let place = core::mem::replace(&mut link.place, Place::Idle);
        let permit = link.permit.take();
        match place {
            Place::Idle => {}
            Place::Ready => self.leave_ring(frame),
            Place::Parked(line) => {
                detach(&mut self.links, &mut self.parked[line.index()], frame);
            }
        }
        if let Some(line) = permit {
            self.release(line);
        }
    }

    /// Whose first message is to be sent now; the same until told otherwise.
    ///
    /// Then say [`Service::sent`] (and [`Service::stop`] if it was the last), or [`Service::park`].
    #[inline]
    pub fn turn(&mut self, now: Time) -> Option<Frame> {
        let first = self.ring.first;
        if first == NONE {
            return None;
        }
        if !self.has_turn {
            self.begin_turn(now);
        } else if self.messages >= self.discipline.messages_max
            || now.saturating_sub(self.since) > self.discipline.time_max
        {
            let frame = Frame::new(first as u16);
            detach(&mut self.links, &mut self.ring, frame);
            append(&mut self.links, &mut self.ring, frame);
            self.begin_turn(now);
        }
        Some(Frame::new(self.ring.first as u16))
    }

    /// A message of the frame whose turn it is was sent over `line`.
    #[inline]
    pub fn sent(&mut self, frame: Frame, line: Line) {
        self.messages += 1;
        self.use_permit(frame, line);
    }

    /// The first message of the frame whose turn it is finds no channel of `line`: it waits.
    #[inline]
    pub fn park(&mut self, frame: Frame, line: Line) {
        let link = &mut self.links[frame.index()];
        if link.place != Place::Ready {
            return;
        }
        link.place = Place::Parked(line);
        self.leave_ring(frame);
        // The channel it was promised was taken by another: it keeps its place in the line.
        let was_promised = self.use_permit(frame, line);
        if self.parked.len() <= line.index() {
            self.parked.resize(line.index() + 1, EMPTY);
        }
        let list = &mut self.parked[line.index()];
        if was_promised {
            prepend(&mut self.links, list, frame);
        } else {
            append(&mut self.links, list, frame);
        }
    }

    /// A channel of `line` came free: the first that waits for one is ready.
    #[inline]
    pub fn release(&mut self, line: Line) {
        let Some(list) = self.parked.get_mut(line.index()) else {
            return;
        };
        if list.first == NONE {
            return;
        }
        let frame = Frame::new(list.first as u16);
        detach(&mut self.links, list, frame);
        let link = &mut self.links[frame.index()];
        link.place = Place::Ready;
        link.permit = Some(line);
        append(&mut self.links, &mut self.ring, frame);
    }

    /// Whether no frame is ready.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ring.first == NONE
    }

    /// Whether some frame waits for a channel of `line`.
    #[must_use]
    pub fn is_awaited(&self, line: Line) -> bool {
        let list = self.parked.get(line.index());
        list.is_some_and(|list| list.first != NONE)
    }

    /// Whether the frame had a permit for `line`; one for another is handed on.
    #[inline]
    fn use_permit(&mut self, frame: Frame, line: Line) -> bool {
        match self.links[frame.index()].permit.take() {
            Some(promised) if promised != line => {
                self.release(promised);
                false
            }
            permit => permit.is_some(),
        }
    }

    fn begin_turn(&mut self, now: Time) {
        self.has_turn = true;
        self.messages = 0;
        self.since = now;
    }

    fn leave_ring(&mut self, frame: Frame) {
        if self.ring.first == frame.index() as u32 {
            self.has_turn = false;
        }
        detach(&mut self.links, &mut self.ring, frame);
    }
}

fn append(links: &mut [Link], list: &mut List, frame: Frame) {
    let index = frame.index() as u32;
    links[frame.index()].before = list.last;
    links[frame.index()].after = NONE;
    match links.get_mut(list.last as usize) {
        Some(last) => last.after = index,
        None => list.first = index,
    }
    list.last = index;
}

fn prepend(links: &mut [Link], list: &mut List, frame: Frame) {
    let index = frame.index() as u32;
    links[frame.index()].before = NONE;
    links[frame.index()].after = list.first;
    match links.get_mut(list.first as usize) {
        Some(first) => first.before = index,
        None => list.last = index,
    }
    list.first = index;
}

fn detach(links: &mut [Link], list: &mut List, frame: Frame) {
    let Link { before, after, .. } = links[frame.index()];
    match links.get_mut(before as usize) {
        Some(link) => link.after = after,
        None => list.first = after,
    }
    match links.get_mut(after as usize) {
        Some(link) => link.before = before,
        None => list.last = before,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::seeds;

    /// The discipline by its words: queues of destinations, a rotating list, nothing linked.
    struct Reference {
        discipline: Discipline,
        ring: VecDeque<Frame>,
        parked: Vec<VecDeque<Frame>>,
        permits: Vec<Option<Line>>,
        turn: Option<(u32, Time)>,
    }

    impl Reference {
        fn turn(&mut self, now: Time) -> Option<Frame> {
            self.ring.front()?;
            let is_over = self.turn.is_some_and(|(messages, since)| {
                messages == self.discipline.messages_max || now > since + self.discipline.time_max
            });
            if is_over {
                self.ring.rotate_left(1);
            }
            if is_over || self.turn.is_none() {
                self.turn = Some((0, now));
            }
            self.ring.front().copied()
        }

        fn leave(&mut self, frame: Frame) {
            if self.ring.front() == Some(&frame) {
                self.turn = None;
            }
            self.ring.retain(|other| *other != frame);
        }

        fn release(&mut self, line: Line) {
            if let Some(frame) = self.parked[line.index()].pop_front() {
                self.permits[frame.index()] = Some(line);
                self.ring.push_back(frame);
            }
        }

        fn use_permit(&mut self, frame: Frame, line: Line) -> bool {
            let permit = self.permits[frame.index()].take();
            if let Some(promised) = permit.filter(|promised| *promised != line) {
                self.release(promised);
            }
            permit == Some(line)
        }

        fn stop(&mut self, frame: Frame) {
            self.leave(frame);
            for line in &mut self.parked {
                line.retain(|other| *other != frame);
            }
            if let Some(line) = self.permits[frame.index()].take() {
                self.release(line);
            }
        }
    }

    fn explore(seed: u64) {
        let mut random = seeds::stream(seed, 0);
        let discipline = Discipline {
            messages_max: 1 + random.below(4) as u32,
            time_max: Time::from_microseconds(5 + random.below(40)),
        };
        let (frames, lines) = (1 + random.below(6), 1 + random.below(3));
        let mut service = Service::new(frames as u16, discipline);
        let mut reference = Reference {
            discipline,
            ring: VecDeque::new(),
            parked: vec![VecDeque::new(); lines as usize],
            permits: vec![None; frames as usize],
            turn: None,
        };
        let mut now = Time::ZERO;
        for _ in 0..400 {
            now += Time::from_microseconds(random.below(12));
            let frame = Frame::new(random.below(frames) as u16);
            let line = Line::new(random.below(lines) as u32);
            match random.below(8) {
                0 | 1 => {
                    service.ready(frame);
                    let is_parked = reference.parked.iter().any(|line| line.contains(&frame));
                    if !is_parked && !reference.ring.contains(&frame) {
                        reference.ring.push_back(frame);
                    }
                }
                2 => {
                    service.stop(frame);
                    reference.stop(frame);
                }
                3 => {
                    service.release(line);
                    reference.release(line);
                }
                action => {
                    let turn = service.turn(now);
                    assert_eq!(turn, reference.turn(now));
                    let Some(turn) = turn else { continue };
                    if action == 4 {
                        service.park(turn, line);
                        reference.leave(turn);
                        if reference.use_permit(turn, line) {
                            reference.parked[line.index()].push_front(turn);
                        } else {
                            reference.parked[line.index()].push_back(turn);
                        }
                    } else {
                        service.sent(turn, line);
                        reference.turn.as_mut().unwrap().0 += 1;
                        reference.use_permit(turn, line);
                    }
                }
            }
            for (number, line) in reference.parked.iter().enumerate() {
                assert_eq!(
                    service.is_awaited(Line::new(number as u32)),
                    !line.is_empty()
                );
            }
        }
    }

    #[test]
    fn turns_are_those_of_the_reference() {
        seeds::each("service::tests", 3000, explore);
    }

    #[test]
    fn a_turn_is_64_messages_or_4_ms() {
        let mut service = Service::new(3, Discipline::default());
        let [one, _, three] = [0, 1, 2].map(Frame::new);
        service.ready(one);
        service.ready(three);
        let mut turns = Vec::new();
        for _ in 0..130 {
            let frame = service.turn(Time::ZERO).unwrap();
            service.sent(frame, Line::new(0));
            turns.push(frame.index());
        }
        let expected: Vec<_> = [[0; 64], [2; 64]].concat();
        assert_eq!(turns[..128], expected);
        assert_eq!(turns[128..], [0, 0]);
        assert_eq!(service.turn(Time::from_milliseconds(4)), Some(one));
        let later = Time::from_milliseconds(4) + Time::from_picoseconds(1);
        assert_eq!(service.turn(later), Some(three));
    }
}
