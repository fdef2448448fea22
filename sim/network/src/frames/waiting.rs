//! What waits for a link, where it is not known when it leaves: in one line, or flow by flow.
//!
//! Fair queueing is deficit round robin (Shreedhar and Varghese, SIGCOMM 1995). Each flow has a
//! line of its own, and the flows of which something waits take turns. With each turn a flow may
//! send a full frame's bytes more; what it does not use of that it has at its next turn, as long as
//! something of it waits.
//!
//! The headers of trimmed frames go first: ten of them for each frame that waits as well, so that
//! headers alone never fill a link (Handley et al., SIGCOMM 2017).

use std::collections::{BTreeMap, VecDeque};

use super::calendar::Arrival;
use crate::queues::FlowKey;

/// So many headers go before a frame that waits.
const HEADERS_A_FRAME: u32 = 10;

/// What waits for a link.
#[derive(Debug)]
pub(super) struct Waiting {
    frames: Frames,
    headers: VecDeque<Arrival>,
    /// Headers that have gone before the frame that is next.
    headers_gone: u32,
}

/// Frames that wait, and gaps in the place of lost ones.
#[derive(Debug)]
enum Frames {
    /// First come first served.
    Line(VecDeque<Arrival>),
    Turns(Turns),
}

/// Whose turn a frame is part of: that of a flow, or of a message that is alone in its own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Turn {
    Flow(FlowKey),
    Message(u32),
}

/// The flows of which something waits.
#[derive(Debug)]
pub(super) struct Turns {
    /// Bytes that a flow may send more with each turn.
    quantum: u64,
    lines: BTreeMap<Turn, Line>,
    /// Of these, whose turn is next, and whether the first has been given its bytes.
    order: VecDeque<Turn>,
    is_given: bool,
    /// Gaps with nothing of their flows before them.
    gaps: VecDeque<Arrival>,
    count: usize,
}

/// The frames of a flow, the bytes of each, and what it may send.
#[derive(Debug, Default)]
struct Line {
    frames: VecDeque<(Arrival, u32)>,
    deficit: u64,
}

impl Waiting {
    /// First come first served, or by turns of so many bytes.
    pub(super) fn new(quantum: Option<u64>) -> Self {
        let frames = match quantum {
            None => Frames::Line(VecDeque::new()),
            Some(quantum) => Frames::Turns(Turns {
                quantum: quantum.max(1),
                lines: BTreeMap::new(),
                order: VecDeque::new(),
                is_given: false,
                gaps: VecDeque::new(),
                count: 0,
            }),
        };
        Self {
            frames,
            headers: VecDeque::new(),
            headers_gone: 0,
        }
    }

    /// A frame of some bytes comes, or its header.
    pub(super) fn push(&mut self, arrival: Arrival, turn: Turn, bytes: u32) {
        match &mut self.frames {
            _ if arrival.kind.is_trimmed() => self.headers.push_back(arrival),
            Frames::Line(line) => line.push_back(arrival),
            Frames::Turns(turns) => turns.push(arrival, turn, bytes),
        }
    }

    /// Takes the next one away.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let frames = self.frames.len();
        if self.headers_gone < HEADERS_A_FRAME
            && let Some(header) = self.headers.pop_front()
        {
            self.headers_gone += u32::from(frames > 0);
            return Some(header);
        }
        self.headers_gone = 0;
        match &mut self.frames {
            Frames::Line(line) => line.pop_front(),
            Frames::Turns(turns) => turns.pop(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len() + self.frames.len()
    }

    /// All frames that wait, in no order that means something.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arrival> {
        let (line, lines) = match &self.frames {
            Frames::Line(line) => (Some(line.iter()), None),
            Frames::Turns(turns) => (None, Some(turns.lines.values())),
        };
        let by_turns = lines.into_iter().flatten().flat_map(|line| &line.frames);
        line.into_iter()
            .flatten()
            .chain(by_turns.map(|(arrival, _)| arrival))
    }

    pub(super) fn state_bytes(&self) -> usize {
        let headers = self.headers.capacity() * size_of::<Arrival>();
        headers
            + match &self.frames {
                Frames::Line(line) => line.capacity() * size_of::<Arrival>(),
                Frames::Turns(turns) => {
                    turns.count * size_of::<(Arrival, u32)>()
                        + turns.lines.len() * size_of::<(Turn, Line)>()
                        + turns.order.capacity() * size_of::<Turn>()
                }
            }
    }
}

impl Frames {
    fn len(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Turns(turns) => turns.count,
        }
    }
}

impl Turns {
    fn push(&mut self, arrival: Arrival, turn: Turn, bytes: u32) {
        let is_gap = arrival.kind.is_lost();
        if is_gap && !self.lines.contains_key(&turn) {
            self.count += 1;
            return self.gaps.push_back(arrival);
        }
        self.count += 1;
        let line = self.lines.entry(turn).or_default();
        if line.frames.is_empty() {
            self.order.push_back(turn);
        }
        let bytes = if is_gap { 0 } else { bytes };
        line.frames.push_back((arrival, bytes));
    }

    fn pop(&mut self) -> Option<Arrival> {
        if let Some(gap) = self.gaps.pop_front() {
            self.count -= 1;
            return Some(gap);
        }
        loop {
            let turn = *self.order.front()?;
            let line = self.lines.get_mut(&turn)?;
            if !self.is_given {
                line.deficit += self.quantum;
                self.is_given = true;
            }
            let &(arrival, bytes) = line.frames.front()?;
            if line.deficit < u64::from(bytes) {
                self.order.rotate_left(1);
                self.is_given = false;
                continue;
            }
            line.deficit -= u64::from(bytes);
            line.frames.pop_front();
            self.count -= 1;
            // A gap disturbs nothing: it keeps no place for its flow.
            while line.frames.front().is_some_and(|it| it.0.kind.is_lost()) {
                self.gaps
                    .extend(line.frames.pop_front().map(|(gap, _)| gap));
            }
            if line.frames.is_empty() {
                self.lines.remove(&turn);
                self.order.pop_front();
                self.is_given = false;
            }
            return Some(arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::calendar::Kind;

    fn frame(passage: u32) -> Arrival {
        Arrival {
            time: 0,
            sent: 0,
            passage,
            link: 0,
            from: 0,
            route: 0,
            kind: Kind::new(false, false),
        }
    }

    #[test]
    fn a_gap_keeps_no_place_for_its_flow() {
        let gap = Arrival {
            kind: frame(0).kind.lost(),
            ..frame(0)
        };
        let mut waiting = Waiting::new(Some(100));
        let push = |waiting: &mut Waiting, it: Arrival| {
            // With what is left of its turn a flow that stayed could send another one at once.
            waiting.push(it, Turn::Message(it.passage), 40);
        };
        push(&mut waiting, frame(0));
        push(&mut waiting, gap);
        push(&mut waiting, frame(1));
        assert_eq!(waiting.pop(), Some(frame(0)));
        // Another one of that flow comes behind the other flow's.
        push(&mut waiting, frame(0));
        let rest: Vec<_> = core::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(rest, [gap, frame(1), frame(0)]);
        // With nothing before it, it goes at once.
        push(&mut waiting, frame(1));
        push(&mut waiting, gap);
        assert_eq!(waiting.pop(), Some(gap));
        assert_eq!(waiting.len(), 1);
    }
}
