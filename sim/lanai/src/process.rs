//! A process of a parallel program: one that computes, then exchanges requests with others, round
//! by round, or a rank of an application.

use viaduct_engine::{Stream, Time};
use viaduct_frames::Endpoint;

use crate::cluster::{Entry, Message};
use crate::ranks::{Ranks, View};

/// What a process does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Computes, at most so long.
    Compute(Time),
    /// Takes a message, posts one, or both.
    Message(Time, Option<Message>),
    /// There is nothing to do before a message comes, or room for one.
    Wait,
    /// It has ended.
    Over,
}

/// What a process computes in a round: evenly between two bounds.
#[derive(Clone, Debug)]
pub(crate) struct Grain {
    pub(crate) least: Time,
    pub(crate) spread: Time,
    pub(crate) random: Stream,
}

impl Grain {
    fn draw(&mut self) -> Time {
        let spread = self.random.below(self.spread.picoseconds() + 1);
        self.least + Time::from_picoseconds(spread)
    }
}

/// Another process of the program, with which requests are exchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partner {
    pub(crate) host: u32,
    pub(crate) endpoint: Endpoint,
    /// Its requests that were taken.
    pub(crate) taken: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Process {
    Rounds(Rounds),
    /// A rank with its endpoint: what it does stands in [`Ranks`].
    Rank(u32, Endpoint),
}

impl Process {
    pub(crate) const fn endpoint(&self) -> Endpoint {
        match self {
            Self::Rounds(rounds) => rounds.endpoint,
            Self::Rank(_, endpoint) => *endpoint,
        }
    }

    pub(crate) fn message_came(&mut self, now: Time, ranks: Option<&mut Ranks>) {
        match (self, ranks) {
            (Self::Rounds(rounds), _) => rounds.arrived += 1,
            (Self::Rank(rank, _), Some(ranks)) => ranks.message_came(*rank, now),
            (Self::Rank(..), None) => {}
        }
    }

    /// It has computed up to now, for a span.
    pub(crate) fn computed(&mut self, span: Time, now: Time, ranks: Option<&mut Ranks>) {
        match (self, ranks) {
            (Self::Rounds(rounds), _) => rounds.left -= span,
            (Self::Rank(rank, _), Some(ranks)) => ranks.computed(*rank, span, now),
            (Self::Rank(..), None) => {}
        }
    }

    /// Whether it has anything to do but wait; `has_room` says of its send queue.
    pub(crate) fn can_act(&self, has_room: bool, ranks: Option<&Ranks>) -> bool {
        match (self, ranks) {
            (Self::Rounds(rounds), _) => rounds.can_act(has_room),
            (Self::Rank(rank, _), Some(ranks)) => ranks.can_act(*rank, has_room),
            (Self::Rank(..), None) => false,
        }
    }

    /// What it does next. A process looks at its queue only between computing and computing.
    pub(crate) fn act(&mut self, host: u32, view: View<'_>, ranks: Option<&mut Ranks>) -> Act {
        match (self, ranks) {
            (Self::Rounds(rounds), _) => rounds.act(host, view),
            (Self::Rank(rank, _), Some(ranks)) => ranks.act(*rank, view),
            (Self::Rank(..), None) => Act::Over,
        }
    }
}

/// It computes, then exchanges requests with its partners, so often.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    endpoint: Endpoint,
    partners: Vec<Partner>,
    grain: Grain,
    bytes: u32,
    rounds: u32,
    /// From 1; the program has ended when it is above `rounds`.
    round: u32,
    left: Time,
    /// Requests of this round that were posted.
    posted: usize,
    /// Replies of this round that have not come.
    awaited: u32,
    /// Messages in the queue that it can see.
    arrived: u32,
}

impl Rounds {
    pub(crate) fn new(
        endpoint: Endpoint,
        partners: Vec<Partner>,
        mut grain: Grain,
        bytes: u32,
        rounds: u32,
    ) -> Self {
        Self {
            endpoint,
            left: grain.draw(),
            awaited: partners.len() as u32,
            partners,
            grain,
            bytes,
            rounds,
            round: 1,
            posted: 0,
            arrived: 0,
        }
    }

    fn can_act(&self, has_room: bool) -> bool {
        self.left > Time::ZERO
            || self.is_round_over()
            || has_room && (self.arrived > 0 || self.posted < self.partners.len())
    }

    /// All replies are there, and all requests of the others.
    fn is_round_over(&self) -> bool {
        self.posted == self.partners.len()
            && self.awaited == 0
            && self.partners.iter().all(|it| it.taken >= self.round)
    }

    fn act(&mut self, host: u32, view: View<'_>) -> Act {
        let View {
            endpoint: state,
            entries,
            now,
            costs,
            is_in_frame,
            ..
        } = view;
        if self.left > Time::ZERO {
            return Act::Compute(self.left);
        }
        if self.is_round_over() {
            self.round += 1;
            if self.round > self.rounds {
                return Act::Over;
            }
            self.left = self.grain.draw();
            self.posted = 0;
            self.awaited = self.partners.len() as u32;
            if self.left > Time::ZERO {
                return Act::Compute(self.left);
            }
        }
        // A message of any kind may have to be answered.
        if state.send_queue.len() >= entries {
            return Act::Wait;
        }
        if self.arrived > 0
            && let Some(entry) = state.receive_queue.pop_front()
        {
            self.arrived -= 1;
            let receive = costs.receive_of(entry.bytes, is_in_frame);
            if entry.is_reply {
                self.awaited -= 1;
                return Act::Message(receive, None);
            }
            state.requests -= 1;
            let of = |it: &&mut Partner| it.host == entry.from;
            if let Some(partner) = self.partners.iter_mut().find(of) {
                partner.taken += 1;
            }
            let reply = self.message(host, entry.from, entry.from_endpoint, entry.posted_at, true);
            return Act::Message(receive + costs.send, Some(reply));
        }
        if let Some(partner) = self.partners.get(self.posted).copied() {
            self.posted += 1;
            let request = self.message(host, partner.host, partner.endpoint, now, false);
            return Act::Message(costs.send_of(self.bytes), Some(request));
        }
        Act::Wait
    }

    fn message(
        &self,
        from: u32,
        to: u32,
        to_endpoint: Endpoint,
        posted_at: Time,
        is_reply: bool,
    ) -> Message {
        Message {
            entry: Entry {
                from,
                from_endpoint: self.endpoint,
                bytes: if is_reply { 16 } else { self.bytes },
                is_reply,
                // No host of theirs reboots.
                key: 1,
                number: 0,
                request: 0,
                posted_at,
            },
            to,
            to_endpoint,
            to_key: 1,
            name: None,
            place: 0,
        }
    }
}
