//! The account of what programs post to queue pairs, where somebody asks for one.
//!
//! ```text
//!  posted: its number -> begins, as a packet -> placed, or taken: delivered
//!           ^            |                   -> lost, or no receive: it may begin again
//!           +------------+
//!  complete at its sender, or gone with it, and no packet of it under way: dropped
//! ```
//!
//! Numbers belong to posts and not to packets: what is lost goes again, and is no other message. A
//! send, and a write with immediate data, is delivered when the program of its target has taken the
//! completion of its receive; another write when it is placed; a read or an atomic, which is
//! counted as a read, when its bytes are back.

use std::collections::{BTreeMap, VecDeque};

use viaduct_core::ViId;
use viaduct_core::verbs::Outcome;
use viaduct_core::verbs::responder::Incident;
use viaduct_engine::Time;
use viaduct_hardware::{STAGES, Stage};

use super::account::Take;
use super::pairs::OF_PAIR;
use super::{OF_PROGRAM, Programs};
use crate::cluster::Cluster;
use crate::failures::cause;
use crate::faults::Fate;
use crate::host::BlockedPost;
use crate::message::{Ends, Message, MessageId};
use crate::trace::Span;
use crate::workload::MessageOperation;

/// What programs have posted to queue pairs, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    /// What has not ended, by its number.
    open: BTreeMap<u64, Post>,
    /// By host, and the place of a queue pair.
    pairs: BTreeMap<(u32, u32), OfPair>,
}

/// Of one queue pair.
#[derive(Debug, Default)]
struct OfPair {
    /// Numbers of what is not complete at its sender, oldest first.
    sends: VecDeque<u64>,
    /// What receives of it have taken, and its program has not, oldest first.
    untaken: VecDeque<MessageId>,
}

/// A post that has not ended.
#[derive(Debug)]
struct Post {
    /// Its number, where it goes, and when its program wanted to post it.
    wish: BlockedPost,
    /// When it was posted.
    posted: Time,
    /// When its doorbell had reached the adapter.
    reached: Time,
    /// Its packets that are under way, or wait for a program to take them.
    packets: u32,
    /// Whether it is not complete at its sender.
    is_held: bool,
    /// Why its last packet did not arrive.
    cause: &'static str,
}

/// A send that a program posts to a queue pair, as the account sees it.
#[derive(Clone, Copy, Debug)]
pub struct PairPost {
    /// The host that it is for, if there is one.
    pub target: Option<u32>,
    /// Its bytes.
    pub bytes: u32,
    /// What it is.
    pub operation: MessageOperation,
}

impl Posts {
    /// How many have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// One that has not ended, as the message that it will be.
    pub(crate) fn find(&self, number: u64) -> Option<Message> {
        let post = self.open.get(&number)?;
        Some(Message::new(&post.wish, ENDS))
    }
}

/// Why a message is dropped that a target did not carry out.
const fn cause_of(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Placed | Outcome::Received | Outcome::Ignored => None,
        Outcome::NoReceive => Some("no_descriptor"),
        Outcome::Refused(Incident::TooLong) => Some("too_long"),
        Outcome::Refused(Incident::Misaligned) => Some("format"),
        Outcome::Refused(Incident::ReceiveClosed | Incident::AccessRefused) => Some("protection"),
    }
}

impl<P: Programs> Cluster<P> {
    /// A program has posted sends to a queue pair, on which its processor worked from one time to
    /// another. To be told before [`Cluster::posted_to_pair`].
    pub fn account_for_posts(
        &mut self,
        (host, pair): (u32, u32),
        posts: impl Iterator<Item = PairPost>,
        (begin, end): (Time, Time),
    ) {
        if !self.has_account() {
            return;
        }
        for post in posts {
            let number = self.number_of_post();
            let wish = BlockedPost {
                number,
                process: host,
                target: post.target.unwrap_or(host),
                bytes: post.bytes,
                operation: post.operation,
                wanted: begin,
            };
            self.follow_post_of_pair(host, &Message::new(&wish, ENDS), Span { begin, end });
            let post = Post {
                wish,
                posted: end,
                reached: end,
                packets: 0,
                is_held: true,
                cause: cause::NO_CONNECTION,
            };
            self.guests.posts.open.insert(number, post);
            let of_pair = self.guests.posts.pairs.entry((host, pair)).or_default();
            of_pair.sends.push_back(number);
        }
    }

    /// The doorbell of what was posted to a queue pair up to a time has reached the adapter.
    pub(super) fn rung_for_posts(&mut self, pair: (u32, u32), posted: Time, reached: Time) {
        let Posts { open, pairs } = &mut self.guests.posts;
        let sends = pairs.get(&pair).map(|of_pair| of_pair.sends.iter().rev());
        for number in sends.into_iter().flatten() {
            match open.get_mut(number) {
                Some(post) if post.posted == posted => post.reached = reached,
                _ => return,
            }
        }
    }

    /// A queue pair's send has begun, for the first time or again, with a packet: which it is.
    pub(super) fn packet_begins(&mut self, host: u32, pair: u32, id: MessageId) {
        let Some(of_pair) = self.guests.posts.pairs.get(&(host, pair)) else {
            return;
        };
        let incomplete = self.programs.incomplete_of_pair(host, pair).unwrap_or(0);
        let started = incomplete - self.programs.unstarted_of_pair(host, pair);
        let place = started.checked_sub(1);
        let Some(&number) = place.and_then(|place| of_pair.sends.get(place as usize)) else {
            return;
        };
        self.guests.sent(id).post = Some(number);
        let message = self.messages.get_mut(id);
        message.number = number;
        if let Some(post) = self.guests.posts.open.get_mut(&number) {
            post.packets += 1;
            post.wish.target = message.target;
            // All the time in which it was tried before, it has waited for its turn.
            (message.posted, message.mark) = (post.wish.wanted, post.wish.wanted);
            message.stages = [0; STAGES];
            message.spend(Stage::Post, post.posted);
            message.spend(Stage::Doorbell, post.reached);
        }
    }

    /// A packet has come to its target, or what it asked for to its source.
    pub(super) fn packet_arrives(&mut self, id: MessageId, outcome: Outcome, at: Option<u32>) {
        let Some(number) = self.guests.sent(id).post else {
            return;
        };
        let posts = &mut self.guests.posts;
        match (outcome, at) {
            (Outcome::Received, Some(place)) if posts.open.contains_key(&number) => {
                let target = self.messages.get(id).target;
                let of_pair = posts.pairs.entry((target, place)).or_default();
                of_pair.untaken.push_back(id);
                self.messages.get_mut(id).references += 1;
                self.guests.sent(id).is_untaken = true;
            }
            (Outcome::Placed | Outcome::Received, _) => self.deliver_post(id),
            _ => {
                if let Some(post) = posts.open.get_mut(&number)
                    && let Some(cause) = cause_of(outcome)
                {
                    post.cause = cause;
                }
            }
        }
    }

    /// A packet does not arrive, or what it asked for.
    pub(super) fn packet_is_lost(&mut self, id: MessageId) {
        let cause = match self.messages.get(id).fate {
            Fate::Corrupt => cause::CORRUPTED,
            // That of a dead host's is whole.
            Fate::Whole | Fate::Lost | Fate::Gap => self.loss_of(id),
        };
        let number = self.guests.sent(id).post;
        let post = number.and_then(|number| self.guests.posts.open.get_mut(&number));
        if let Some(post) = post {
            post.cause = cause;
        }
    }

    /// A packet of a queue pair is over, and nothing names it any more.
    pub(crate) fn packet_ends(&mut self, id: MessageId) {
        if let Some(number) = self.guests.sent(id).post.take()
            && let Some(post) = self.guests.posts.open.get_mut(&number)
        {
            post.packets -= 1;
            self.end_post(number);
        }
    }

    fn deliver_post(&mut self, id: MessageId) {
        let number = self.guests.sent(id).post;
        if number.is_some_and(|number| self.guests.posts.open.remove(&number).is_some()) {
            self.deliver(id);
        }
    }

    /// A post that nobody tries any more is dropped.
    fn end_post(&mut self, number: u64) {
        let open = &mut self.guests.posts.open;
        let is_over = |post: &&Post| post.packets == 0 && !post.is_held;
        if open.get(&number).filter(is_over).is_none() {
            return;
        }
        if let Some(Post { wish, cause, .. }) = open.remove(&number) {
            let message = Message::new(&wish, ENDS);
            let (hosts, now) = ((wish.process, wish.target), self.queue.now());
            self.accounting
                .dropped(&message, hosts, cause, Time::ZERO, now);
        }
    }

    /// Sends of a queue pair may be complete, or it may be gone or as new, with what it had.
    pub fn settle_pair(&mut self, host: u32, pair: u32) {
        let Some(of_pair) = self.guests.posts.pairs.get_mut(&(host, pair)) else {
            return;
        };
        let incomplete = self.programs.incomplete_of_pair(host, pair);
        let left = incomplete.unwrap_or(0) as usize;
        let complete = of_pair.sends.len().saturating_sub(left);
        let complete: Vec<u64> = of_pair.sends.drain(..complete).collect();
        let mut untaken = VecDeque::new();
        if incomplete.is_none() {
            untaken = core::mem::take(&mut of_pair.untaken);
            self.guests.posts.pairs.remove(&(host, pair));
        }
        for number in complete {
            if let Some(post) = self.guests.posts.open.get_mut(&number) {
                post.is_held = false;
                self.end_post(number);
            }
        }
        for id in untaken {
            self.guests.sent(id).is_untaken = false;
            self.remove_message(id);
        }
    }

    /// As [`Cluster::settle_pair`], of all queue pairs of a host.
    pub fn settle_pairs(&mut self, host: u32) {
        let pairs = self.guests.posts.pairs.range((host, 0)..=(host, u32::MAX));
        let pairs: Vec<u32> = pairs.map(|((_, pair), _)| *pair).collect();
        for pair in pairs {
            self.settle_pair(host, pair);
        }
    }

    /// The program of a host has taken the completion of the oldest receive of a queue pair that a
    /// message has filled. Its processor is done with that when it has done all it was given.
    pub fn taken_of_pair(&mut self, host: u32, pair: u32, take: Take) {
        let of_pair = self.guests.posts.pairs.get_mut(&(host, pair));
        let Some(id) = of_pair.and_then(|of_pair| of_pair.untaken.pop_front()) else {
            return;
        };
        self.spend_take(host, id, take);
        self.deliver_post(id);
        self.guests.sent(id).is_untaken = false;
        self.remove_message(id);
    }
}

/// What marks a message of a queue pair that has no packet.
const ENDS: Ends = Ends {
    place: OF_PROGRAM | OF_PAIR,
    source_vi: ViId::NONE,
    target_vi: ViId::NONE,
    has_late_heads: false,
};
