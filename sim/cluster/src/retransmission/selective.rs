//! Selective repeat: the receiver keeps what comes behind a gap; only what is missing goes again.
//!
//! A frame is known to be lost when one has come that was sent after it, whether of the same
//! message or of a later one, for the first time or not. Its receiver tells the sender, which sends
//! the missing frames of that message again, before what has not moved yet of the VI. What nothing
//! was sent after goes again when a time-out is over. Messages are taken in the order of their
//! sending: one that is there early waits for those before it.
//!
//! Each go of a message has a number, in the order in which goes begin. What is told is the last go
//! of which, and of those before it, all that did not come is missing.

use viaduct_hardware::{Frame, Stage};
use viaduct_network::QueueLoss;

use super::{Direction, Go, Rule, part_bytes};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::failures::Consequence;
use crate::faults::Fate;
use crate::message::MessageId;
use crate::programs::Programs;

/// Frames of a message. No more need be known of them: all but its last are alike.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Missing {
    others: u32,
    has_last: bool,
}

impl Missing {
    /// All of so many.
    pub(super) fn all(frames: u64) -> Self {
        Self {
            others: (frames - 1) as u32,
            has_last: true,
        }
    }

    pub(super) const fn count(self) -> u32 {
        self.others + self.has_last as u32
    }

    /// What they take on the wire, of a message of some bytes.
    pub(super) fn wire_bytes(self, frame: Frame, bytes: u64) -> f64 {
        let (from, to) = match self.has_last {
            true => {
                let frames = frame.count(bytes);
                (frames - u64::from(self.count()), frames)
            }
            false => (0, u64::from(self.others)),
        };
        part_bytes(frame, bytes, from, to)
    }

    /// Those of them that are behind the first so many.
    fn behind(self, came: u32) -> Self {
        let left = self.count().saturating_sub(came);
        let has_last = self.has_last && left > 0;
        Self {
            others: left - u32::from(has_last),
            has_last,
        }
    }
}

impl Go {
    /// All that is missing goes, in its order, and each frame crosses the links or not: what comes
    /// of that, before queues are asked.
    pub(super) fn cross(&mut self, crosses: &mut impl FnMut() -> bool) -> Fate {
        self.sent = self.missing;
        self.missing = Missing::default();
        self.has_come = false;
        let mut is_last_there = true;
        for _ in 0..self.sent.others {
            is_last_there = crosses();
            self.has_come |= is_last_there;
            self.missing.others += u32::from(!is_last_there);
        }
        if self.sent.has_last {
            is_last_there = crosses();
            self.has_come |= is_last_there;
            self.missing.has_last = !is_last_there;
        }
        match (self.missing.count(), is_last_there) {
            (0, _) => Fate::Whole,
            (_, true) => Fate::Gap,
            (_, false) => Fate::Lost,
        }
    }

    /// It was whole so far, and a link was cut after a part of its frames.
    pub(super) fn ends_after(&mut self, part: f64) {
        let came = (f64::from(self.sent.count()) * part) as u32;
        self.missing = self.sent.behind(came.min(self.sent.count() - 1));
        self.has_come = came > 0;
    }

    /// Queues have lost frames of it: what comes of that, and of what the links did.
    fn miss(&mut self, loss: QueueLoss, fate: Fate) -> Fate {
        let lacks_last = loss.lacks_last && self.sent.has_last;
        self.missing.has_last |= lacks_last;
        let others = self.missing.others + loss.lost - u32::from(lacks_last);
        self.missing.others = others.min(self.sent.others);
        self.has_come = self.missing.count() < self.sent.count();
        match self.has_come && loss.is_all_told && fate != Fate::Lost {
            true => Fate::Gap,
            false => Fate::Lost,
        }
    }
}

impl<P: Programs> Cluster<P> {
    /// As [`Cluster::note_frames_lost`].
    pub(super) fn note_frames_missing(&mut self, id: MessageId, is_first: bool, loss: QueueLoss) {
        let message = self.messages.get_mut(id);
        // What its first byte has met was told before.
        let fate = match message.met_full_queue {
            true => Fate::Whole,
            false => message.fate,
        };
        if is_first {
            if fate == Fate::Whole {
                (message.fate, message.met_full_queue) = (Fate::Lost, true);
            }
            return;
        }
        message.met_full_queue = true;
        let fate = self.go_mut(id).map(|go| go.miss(loss, fate));
        self.messages.get_mut(id).fate = fate.unwrap_or_default();
    }

    /// As [`Cluster::withholds_repeatable`], of a message that was not taken before.
    pub(super) fn withholds_selectively(&mut self, id: MessageId, of: &Direction) -> bool {
        let fate = self.messages.get(id).fate;
        let go = self.go(id);
        let Some(recovery) = self.recovery_of(of) else {
            return false;
        };
        let is_whole = fate == Fate::Whole;
        if is_whole && go.sequence == recovery.expected {
            recovery.expected += 1;
            recovery.early.retain(|(_, early)| *early != id);
            let next = recovery.early.first().copied();
            if let Some((sequence, next)) = next
                && sequence == go.sequence + 1
            {
                self.queue
                    .schedule(self.queue.now(), Event::TailArrives(next));
            }
            // It may have been there for some time.
            let now = self.queue.now();
            self.messages.get_mut(id).spend(Stage::Network, now);
            return false;
        }
        if is_whole {
            let place = recovery
                .early
                .partition_point(|(other, _)| *other < go.sequence);
            recovery.early.insert(place, (go.sequence, id));
        } else {
            self.guests.counts.lost += u64::from(of.is_of_program());
            self.wait_for_another_go(id);
        }
        if is_whole || go.has_come {
            // Of what nothing has come after it is not known whether it will.
            let last = go.epoch - u32::from(fate == Fate::Lost);
            self.tell_of_missing(id, of, last);
        }
        true
    }

    /// The receiver tells what is missing of goes up to one, if it has not.
    fn tell_of_missing(&mut self, id: MessageId, of: &Direction, last: u32) {
        let Some(recovery) = self.recovery_of(of) else {
            return;
        };
        let (told, expected) = (recovery.told_go, recovery.expected);
        let lost = recovery.lost.clone();
        let is_news = lost.into_iter().any(|(sequence, lost)| {
            let epoch = self.go(lost).epoch;
            sequence >= expected && told < epoch && epoch <= last
        });
        if is_news
            && self.tell_sender(id, Consequence::Again(*of, last))
            && let Some(recovery) = self.recovery_of(of)
        {
            recovery.told_go = last;
        }
    }

    /// A sender sends again what is missing of goes up to one, unless it has since.
    pub(super) fn send_what_is_missing(&mut self, of: &Direction, last: u32, rule: Rule) {
        let Some(recovery) = self.recovery_of(of) else {
            return;
        };
        let expected = recovery.expected;
        let lost = core::mem::take(&mut recovery.lost);
        let (due, mut rest): (Vec<_>, Vec<_>) = lost
            .into_iter()
            .partition(|(_, id)| self.go(*id).epoch <= last);
        let is_carried = self.is_carried(of);
        let mut failed = None;
        for (place, (sequence, id)) in due.iter().enumerate() {
            let Some(go) = self.go_mut(*id) else {
                continue;
            };
            // That its acknowledgement was lost once more is no progress.
            let has_come = go.has_come && *sequence >= expected;
            go.goes_in_vain = if has_come { 0 } else { go.goes_in_vain + 1 };
            if go.goes_in_vain > rule.retries {
                failed = failed.or(Some(place));
            }
        }
        let goes_on = is_carried && failed.is_none();
        let Some(recovery) = self.recovery_of(of) else {
            return;
        };
        if goes_on {
            recovery.lost = rest;
            return self.repeat(of, &due);
        }
        rest.append(&mut recovery.early);
        let mut due = due;
        match failed.filter(|_| is_carried) {
            Some(place) => {
                let (_, id) = due.remove(place);
                rest.append(&mut due);
                self.end_with(id, rest);
            }
            None => {
                rest.append(&mut due);
                self.forget_lost(rest);
            }
        }
    }
}
