//! The sender's ends of channels: transmissions, answers, and messages that are off their channels.

use viaduct_engine::Time;

use super::messages::Place;
use super::peer::stamp;
use super::{
    Answer, Fate, Line, NONE, Output, PROBE, Packet, ReturnReason, Transport, Verdict,
    timer_of_channel, timer_of_message,
};

impl Transport {
    /// An answer came. What it leads to is in the outputs.
    #[inline]
    pub fn handle_answer(&mut self, answer: Answer, now: Time) {
        if answer.target != self.me
            || answer.source.index() >= self.config.peers as usize
            || answer.channel >= self.config.channels
        {
            self.counts.malformed += 1;
            return;
        }
        // Whoever was sent something was met.
        let Some(line) = self.lines.find(answer.source) else {
            self.counts.stale += 1;
            return;
        };
        if answer.target_incarnation != self.incarnation
            || answer.source_incarnation < self.peers[line.index()].incarnation
        {
            self.counts.stale += 1;
            return;
        }
        self.meet(line, answer.source_incarnation, now);
        self.peers[line.index()].silent_since = None;
        let key = self.key(line, answer.channel);
        let channel = self.channels[key as usize];
        if channel.bound == NONE || answer.sequence != channel.sequence {
            self.hear_late(key, answer);
            return;
        }
        // A stamp is the time of its own transmission: each answer measures, that of an earlier one
        // too. Else a round trip longer than the first time-out would never be learnt.
        let state = &mut self.peers[line.index()];
        state.round_trip.sample(answer.stamp, now);
        let is_latest = answer.stamp == channel.stamp;
        if answer.verdict != Verdict::Unsynchronised && channel.limbo != NONE {
            self.channels[key as usize].limbo = NONE;
            self.settle(channel.limbo, answer.previous);
        }
        match answer.verdict {
            Verdict::Unsynchronised => {
                // It was not looked at: it goes again, with the incarnation that was learnt.
                if is_latest && channel.awaits_answer {
                    self.transmit(key, now);
                }
            }
            Verdict::Accepted => {
                if channel.bound != PROBE {
                    self.complete(channel.bound);
                }
                self.release(key, now);
            }
            Verdict::Refused(reason) if reason.is_final() => {
                if channel.bound != PROBE {
                    self.give_back(channel.bound, ReturnReason::Refused(reason), false);
                }
                self.release(key, now);
            }
            Verdict::Refused(_) => {
                self.counts.refusals += 1;
                if is_latest && channel.awaits_answer {
                    self.hear_refusal(key, now);
                }
            }
        }
        self.bind_ready(line, now);
    }

    /// A transmission was refused for the time being, and none is under way that might not be.
    fn hear_refusal(&mut self, key: u32, now: Time) {
        let channel = &mut self.channels[key as usize];
        channel.awaits_answer = false;
        let (slot, transmissions) = (channel.bound, channel.transmissions);
        if slot != PROBE && self.messages[slot].is_recalled {
            self.unbind(key);
            self.probe(key, now);
        } else if slot != PROBE && transmissions >= u32::from(self.config.transmissions_max) {
            self.take_off(key, now);
        } else {
            let delay = self.spread(self.doubled(self.config.refusal_delay, transmissions));
            self.timers.set(timer_of_channel(key), now + delay, now);
        }
    }

    /// An answer for what the channel does not carry: it may tell the fate of what it carried.
    fn hear_late(&mut self, key: u32, answer: Answer) {
        let channel = self.channels[key as usize];
        let before = channel
            .sequence
            .wrapping_sub(u32::from(channel.bound != NONE));
        let fate = match answer.verdict {
            Verdict::Accepted => Fate::Accepted,
            Verdict::Refused(reason) if reason.is_final() => Fate::Refused(reason),
            _ => {
                self.counts.stale += 1;
                return;
            }
        };
        if channel.limbo == NONE || answer.sequence != before {
            self.counts.stale += 1;
            return;
        }
        self.channels[key as usize].limbo = NONE;
        self.settle(channel.limbo, fate);
    }

    /// The time of a channel or a message has come.
    pub(super) fn expire(&mut self, key: u32, now: Time) {
        if key & 1 == 0 {
            self.expire_channel(key >> 1, now);
        } else {
            self.expire_message(key >> 1, now);
        }
    }

    fn expire_channel(&mut self, key: u32, now: Time) {
        let channel = &mut self.channels[key as usize];
        if !channel.awaits_answer {
            self.transmit(key, now);
            return;
        }
        self.counts.timeouts += 1;
        channel.route = (channel.route + 1) % self.config.routes;
        let Self {
            config, messages, ..
        } = self;
        let (bound, limbo) = (channel.bound, channel.limbo);
        let is_spent = channel.transmissions >= u32::from(config.transmissions_max);
        let may_leave = limbo == NONE && bound != PROBE && !messages[bound].is_recalled && is_spent;
        let line = self.line_of(key);
        let silent_since = self.peers[line.index()].silent_since;
        if silent_since.is_some_and(|since| now - since >= self.config.unreachable_after) {
            self.give_up(line);
        } else if may_leave {
            self.take_off(key, now);
            self.bind_ready(line, now);
        } else {
            self.transmit(key, now);
        }
    }

    fn expire_message(&mut self, slot: u32, now: Time) {
        let message = &mut self.messages[slot];
        let line = message.line;
        match message.place {
            Place::Limbo(key) if self.channels[key as usize].bound == NONE => {
                // Nobody else wanted the channel: it goes on under its own sequence.
                self.resume(key, slot, now);
            }
            Place::Limbo(_) => message.is_due = true,
            Place::Waiting => {
                let state = &mut self.peers[line.index()];
                self.messages.detach(&mut state.waiting, slot);
                self.make_ready(slot);
                self.bind_ready(line, now);
            }
            Place::Free | Place::Bound(_) | Place::Ready => {}
        }
    }

    pub(super) fn recall_slot(&mut self, slot: u32, now: Time) {
        if slot >= self.messages.slots() || self.messages[slot].place == Place::Free {
            return;
        }
        let message = &mut self.messages[slot];
        message.is_recalled = true;
        match message.place {
            Place::Free => {}
            Place::Waiting | Place::Ready => {
                self.leave_list(slot);
                self.let_go(slot);
            }
            Place::Limbo(key) => {
                if self.channels[key as usize].bound == NONE {
                    self.probe(key, now);
                }
            }
            Place::Bound(key) => {
                if !self.channels[key as usize].awaits_answer {
                    self.unbind(key);
                    self.probe(key, now);
                }
            }
        }
    }

    /// Puts a message on a channel that carries nothing, under a new sequence.
    #[inline]
    pub(super) fn bind(&mut self, key: u32, slot: u32, now: Time) {
        let channel = &mut self.channels[key as usize];
        channel.sequence = channel.sequence.wrapping_add(1);
        // The stamps of another sequence do not matter, however long ago they were.
        channel.stamp = stamp(now).wrapping_sub(1);
        self.carry(key, slot, now);
    }

    /// An empty packet asks for the end of the message in limbo.
    fn probe(&mut self, key: u32, now: Time) {
        self.occupy(key);
        self.bind(key, PROBE, now);
    }

    /// Puts a message of unknown fate on its channel again, under its own sequence.
    fn resume(&mut self, key: u32, slot: u32, now: Time) {
        self.occupy(key);
        self.channels[key as usize].limbo = NONE;
        self.carry(key, slot, now);
    }

    #[inline]
    fn carry(&mut self, key: u32, slot: u32, now: Time) {
        let channel = &mut self.channels[key as usize];
        channel.bound = slot;
        channel.transmissions = 0;
        if slot != PROBE {
            self.messages[slot].place = Place::Bound(key);
        }
        self.transmit(key, now);
    }

    /// Marks a channel as not free, whether it was or not.
    fn occupy(&mut self, key: u32) {
        let line = self.line_of(key);
        let bit = self.channel_of(key);
        self.peers[line.index()].free_channels &= !(1 << bit);
    }

    #[inline]
    fn transmit(&mut self, key: u32, now: Time) {
        let line = self.line_of(key);
        let state = &mut self.peers[line.index()];
        state.silent_since.get_or_insert(now);
        let overdue_after = state.round_trip.overdue_after();
        let (target, target_incarnation) = (state.peer, state.incarnation);
        let number = self.channel_of(key);
        let channel = &mut self.channels[key as usize];
        // Stamps of one sequence differ, so that an answer names the transmission it is for.
        let clock = stamp(now);
        let next = channel.stamp.wrapping_add(1);
        channel.stamp = if (clock.wrapping_sub(next) as i32) < 0 {
            next
        } else {
            clock
        };
        channel.awaits_answer = true;
        let earlier = channel.transmissions;
        channel.transmissions = earlier.saturating_add(1);
        let bound = channel.bound;
        let packet = Packet {
            source: self.me,
            target,
            channel: number,
            route: channel.route,
            is_empty: bound == PROBE,
            sequence: channel.sequence,
            stamp: channel.stamp,
            source_incarnation: self.incarnation,
            target_incarnation,
        };
        self.counts.transmissions += 1;
        self.counts.retransmissions += u64::from(earlier > 0);
        let base = overdue_after.max(self.config.timeout_min);
        let timeout = self.doubled(base, earlier);
        // The first is not drawn: what it is measured against is random enough.
        let timeout = if earlier == 0 {
            timeout
        } else {
            timeout + Time::from_picoseconds(self.random.below(timeout.picoseconds()))
        };
        self.timers.set(timer_of_channel(key), now + timeout, now);
        let token = (bound != PROBE).then(|| self.messages[bound].token);
        self.push(Output::Transmit { packet, token });
    }

    /// `time`, doubled for each of `times`, as far as the configuration lets it.
    #[inline]
    fn doubled(&self, time: Time, times: u32) -> Time {
        let times = times.min(u32::from(self.config.doublings_max)).min(32);
        time.saturating_mul(1 << times)
            .min(self.config.timeout_max.max(time))
    }

    /// Between half of a time and one and a half, each equally likely.
    fn spread(&mut self, mean: Time) -> Time {
        let mean = mean.picoseconds();
        Time::from_picoseconds(mean / 2 + self.random.below(mean.max(1)))
    }

    /// Takes a message off its channel for a while; the channel is for others.
    fn take_off(&mut self, key: u32, now: Time) {
        self.counts.unbound += 1;
        let slot = self.unbind(key);
        let message = &mut self.messages[slot];
        let times = message.times_unbound;
        message.times_unbound = times.saturating_add(1);
        let delay = self.spread(self.doubled(self.config.unbound_delay, u32::from(times)));
        let timer = timer_of_message(slot);
        self.timers.reserve(timer + 1);
        self.timers.set(timer, now + delay, now);
        self.release(key, now);
    }

    /// Takes the message off its channel, its fate unknown; the channel carries nothing.
    fn unbind(&mut self, key: u32) -> u32 {
        self.timers.clear(timer_of_channel(key));
        let channel = &mut self.channels[key as usize];
        debug_assert!(channel.limbo == NONE, "two messages of unknown fate");
        let slot = core::mem::replace(&mut channel.bound, NONE);
        channel.limbo = slot;
        let message = &mut self.messages[slot];
        message.place = Place::Limbo(key);
        message.is_due = false;
        slot
    }

    /// The fate of a message in limbo, which has left its channel for good.
    fn settle(&mut self, slot: u32, fate: Fate) {
        match fate {
            Fate::Accepted => self.complete(slot),
            Fate::Refused(reason) => self.give_back(slot, ReturnReason::Refused(reason), false),
            Fate::Undelivered if self.messages[slot].is_recalled => self.let_go(slot),
            Fate::Undelivered if self.messages[slot].is_due => self.make_ready(slot),
            Fate::Undelivered => {
                let message = &mut self.messages[slot];
                message.place = Place::Waiting;
                let line = message.line;
                let waiting = &mut self.peers[line.index()].waiting;
                self.messages.append(waiting, slot);
            }
        }
    }

    fn make_ready(&mut self, slot: u32) {
        let message = &mut self.messages[slot];
        message.place = Place::Ready;
        let line = message.line;
        let ready = &mut self.peers[line.index()].ready;
        self.messages.append(ready, slot);
    }

    /// Takes a message from the list of those that wait or are ready.
    fn leave_list(&mut self, slot: u32) {
        let message = self.messages[slot];
        let state = &mut self.peers[message.line.index()];
        let list = match message.place {
            Place::Waiting => &mut state.waiting,
            _ => &mut state.ready,
        };
        self.messages.detach(list, slot);
    }

    /// Gives messages that are ready the channels that are free.
    #[inline]
    fn bind_ready(&mut self, line: Line, now: Time) {
        if self.peers[line.index()].ready.first().is_some() {
            self.bind_those_ready(line, now);
        }
    }

    #[cold]
    fn bind_those_ready(&mut self, line: Line, now: Time) {
        while let Some(slot) = self.peers[line.index()].ready.first() {
            let Some(channel) = self.peers[line.index()].take_channel() else {
                return;
            };
            let ready = &mut self.peers[line.index()].ready;
            self.messages.detach(ready, slot);
            self.bind(self.key(line, channel), slot, now);
        }
    }

    /// What the channel carried has left it: the next that is ready goes on, or it is free.
    #[inline]
    fn release(&mut self, key: u32, now: Time) {
        self.timers.clear(timer_of_channel(key));
        self.channels[key as usize].bound = NONE;
        let line = self.line_of(key);
        let bit = self.channel_of(key);
        let state = &mut self.peers[line.index()];
        state.free_channels |= 1 << bit;
        self.bind_ready(line, now);
        if self.peers[line.index()].free_channels & (1 << bit) != 0 {
            self.push(Output::ChannelFree(line));
        }
    }

    #[inline]
    fn complete(&mut self, slot: u32) {
        let token = self.end(slot);
        self.push(Output::Completed { token });
    }

    fn let_go(&mut self, slot: u32) {
        let token = self.end(slot);
        self.push(Output::Released { token });
    }

    fn give_back(&mut self, slot: u32, reason: ReturnReason, may_have_arrived: bool) {
        let token = self.end(slot);
        self.push(Output::Returned {
            token,
            reason,
            may_have_arrived,
        });
    }

    /// Forgets a message that is in no list and on no channel any more.
    #[inline]
    fn end(&mut self, slot: u32) -> u32 {
        let timer = timer_of_message(slot);
        self.timers.clear(timer);
        self.messages.remove(slot)
    }

    /// Something of this incarnation of a peer came, which is not below the known one.
    #[inline]
    pub(super) fn meet(&mut self, line: Line, incarnation: u32, now: Time) {
        if self.peers[line.index()].incarnation != incarnation {
            self.learn(line, incarnation, now);
        }
    }

    #[cold]
    fn learn(&mut self, line: Line, incarnation: u32, now: Time) {
        let state = &mut self.peers[line.index()];
        let known = core::mem::replace(&mut state.incarnation, incarnation);
        let keys = self.key(line, 0)..self.key(line, 0) + u32::from(self.config.channels);
        for incoming in &mut self.incoming[keys.start as usize..keys.end as usize] {
            *incoming = super::Incoming::default();
        }
        // An incarnation of 0 accepts nothing: what was sent to it just goes again.
        if known != 0 {
            self.empty_channels(line, ReturnReason::Rebooted, true);
            self.bind_ready(line, now);
        }
    }

    /// Returns every message to a peer that has been silent for too long.
    pub(super) fn give_up(&mut self, line: Line) {
        let state = &mut self.peers[line.index()];
        state.silent_since = None;
        let is_known = state.incarnation != 0;
        while let Some(slot) = {
            let state = &self.peers[line.index()];
            state.ready.first().or(state.waiting.first())
        } {
            self.leave_list(slot);
            self.give_back(slot, ReturnReason::Unreachable, false);
        }
        self.empty_channels(line, ReturnReason::Unreachable, is_known);
    }

    /// Returns what is on the channels to a peer, or in limbo beside them; they are free.
    fn empty_channels(&mut self, line: Line, reason: ReturnReason, may_have_arrived: bool) {
        for number in 0..self.config.channels {
            let key = self.key(line, number);
            let channel = &mut self.channels[key as usize];
            let bound = core::mem::replace(&mut channel.bound, NONE);
            let limbo = core::mem::replace(&mut channel.limbo, NONE);
            for slot in [limbo, bound] {
                if slot != NONE && slot != PROBE {
                    self.give_back(slot, reason, may_have_arrived);
                }
            }
            self.timers.clear(timer_of_channel(key));
            let state = &mut self.peers[line.index()];
            let bit = 1 << number;
            if state.free_channels & bit == 0 {
                state.free_channels |= bit;
                self.push(Output::ChannelFree(line));
            }
        }
    }
}
