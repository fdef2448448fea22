//! The account of programs' messages, where somebody asks for it: their numbers, floors and ends.
//!
//! ```text
//!  posted: its number -> begins to move: its floor -> placed: it waits -> taken: delivered
//!                                                  `-> lost or refused: dropped
//! ```
//!
//! A send is delivered when its receiver's program has taken it, and so is a remote write with
//! immediate data: what has come and was not taken is in flight. Nobody takes another remote write
//! or a read, which is delivered when its bytes are placed.

use std::collections::{BTreeMap, VecDeque};

use viaduct_core::{ViId, WorkId};
use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_network::hops::Alone;
use viaduct_network::windows::LinkWindows;

use super::Programs;
use crate::cluster::Cluster;
use crate::failures::cause;
use crate::faults::Fate;
use crate::message::MessageId;
use crate::result::SeriesRow;
use crate::why::Work;

/// Messages that have come and were not taken: by host and VI, each with the last receive that it
/// fills, oldest first.
pub(crate) type Untaken = BTreeMap<(u32, ViId), VecDeque<(WorkId, MessageId)>>;

/// How a program has come to take a message.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    /// How long it took to hear of it: its loop came to it, or it was woken.
    pub notice: Time,
    /// How long it took to take it, after that.
    pub reap: Time,
}

impl<P: Programs> Cluster<P> {
    /// Keeps an account of all messages from now on, with so many of them as rows, and of the links
    /// over time. Before programs begin.
    pub fn keep_account(&mut self, message_rows_max: u32) {
        if self.guests.untaken.is_some() {
            return;
        }
        self.guests.untaken = Some(Box::default());
        self.accounting.keep_rows(message_rows_max);
        // Nobody knows how long programs last.
        self.windows = LinkWindows::growing(&self.network, &self.config.topology);
    }

    /// Whether an account of programs' messages is kept.
    #[inline]
    #[must_use]
    pub fn has_account(&self) -> bool {
        self.guests.untaken.is_some()
    }

    /// Ends the windows that are over at a time at which something is about to happen, so that they
    /// need no events, which programs would notice. Where there are too many, two become one.
    #[inline]
    pub(crate) fn close_windows(&mut self, time: Time) {
        if self.records_queues && self.is_recorded() {
            return;
        }
        while self.windows.next_end() <= time {
            self.close_window(self.windows.next_end());
            if self.series.len() >= self.windows.most() {
                self.windows.double();
                let pairs = self.series.chunks(2);
                self.series = pairs.map(SeriesRow::joined).collect();
            }
        }
    }

    /// A program's message is posted: its number, if an account is kept.
    #[inline]
    pub(crate) fn number_of_post(&mut self) -> u64 {
        match self.guests.untaken {
            Some(_) => self.accounting.posted(false),
            None => 0,
        }
    }

    /// A program's message has been made.
    #[inline]
    pub(crate) fn open_account(&mut self, id: MessageId) {
        self.guests.sent(id).is_open = self.guests.untaken.is_some();
    }

    /// A message begins to move over a way on which it would be alone for so long: it cannot be
    /// faster. One whose frames are sent in several goes crosses no less than any of them.
    pub(crate) fn bound_below(&mut self, id: MessageId, alone: Alone) {
        // A program that looks at the right moment hears of it at once.
        let floor = self.floor_with(id, alone, Time::ZERO);
        let message = self.messages.get_mut(id);
        message.floor = message.floor.max(floor);
    }

    /// All of a program's message is placed: it is delivered, or waits to be taken, with the last
    /// receive that it fills if it fills any.
    pub(crate) fn placed_in_account(&mut self, id: MessageId, last: Option<WorkId>) {
        if !self.guests.sent(id).is_open {
            return;
        }
        let message = self.messages.get(id);
        let key = (message.target, message.target_vi);
        match (last, &mut self.guests.untaken) {
            (Some(last), Some(untaken)) => {
                untaken.entry(key).or_default().push_back((last, id));
                self.messages.get_mut(id).references += 1;
                self.guests.sent(id).is_untaken = true;
            }
            _ => self.deliver(id),
        }
    }

    /// The program of a host has taken what came to a VI, up to a receive. Its processor is done
    /// with that when it has done all it was given.
    pub fn taken(&mut self, host: u32, vi: ViId, before: WorkId, take: Take) {
        while let Some(untaken) = &mut self.guests.untaken
            && let Some(line) = untaken.get_mut(&(host, vi))
        {
            let Some(&(_, id)) = line.front().filter(|(last, _)| *last < before) else {
                if line.is_empty() {
                    untaken.remove(&(host, vi));
                }
                return;
            };
            line.pop_front();
            self.spend_take(host, id, take);
            self.deliver(id);
            self.guests.sent(id).is_untaken = false;
            self.remove_message(id);
        }
    }

    /// VIs of a host to which something came that nobody has taken.
    #[must_use]
    pub fn untaken(&self, host: u32) -> Vec<ViId> {
        let untaken = self.guests.untaken.iter();
        let of_host = (host, ViId::NONE)..;
        let lines = untaken.flat_map(|untaken| untaken.range(of_host.clone()));
        let lines = lines.take_while(|((of, _), _)| *of == host);
        lines.map(|((_, vi), _)| *vi).collect()
    }

    /// From its arrival on a message has waited for its program, which heard of it and took it.
    pub(super) fn spend_take(&mut self, host: u32, id: MessageId, take: Take) {
        let end = self.processor_free(host);
        let message = self.messages.get_mut(id);
        let noticed = end.saturating_sub(take.reap);
        message.spend(
            Stage::ReceiverProcessor,
            noticed.saturating_sub(take.notice),
        );
        message.spend(Stage::Notice, noticed);
        message.spend(Stage::Reap, end);
        let begin = end.saturating_sub(take.notice + take.reap);
        self.follow_processor(host, id, Work::Take, begin, end);
    }

    pub(super) fn deliver(&mut self, id: MessageId) {
        self.guests.sent(id).is_open = false;
        self.taken_by_programs += 1;
        let message = self.messages.get(id);
        self.accounting.delivered(message, message.ends_as_posted());
    }

    /// A program's message is over, and its receiver does not have it.
    pub(crate) fn drop_of_program(&mut self, id: MessageId, cause: &'static str) {
        let sent = self.guests.sent(id);
        if !sent.is_open {
            return;
        }
        sent.is_open = false;
        let now = self.queue.now();
        let message = self.messages.get(id);
        let hosts = message.ends_as_posted();
        self.accounting
            .dropped(message, hosts, cause, message.queued(), now);
    }

    /// Nothing names a program's message any more: it was lost if it did not end before.
    pub(crate) fn close_account(&mut self, id: MessageId) {
        let cause = match self.messages.get(id).fate {
            Fate::Whole => cause::NO_CONNECTION,
            Fate::Corrupt => cause::CORRUPTED,
            Fate::Lost | Fate::Gap => self.loss_of(id),
        };
        self.drop_of_program(id, cause);
    }
}
