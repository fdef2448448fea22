//! One queue, worked out as far as somebody asks.
//!
//! All busy subqueues get the same share at any time, so one number tells what each has got: the
//! bytes that a subqueue has been served which was busy all the time. A message that enters is
//! served when that number has grown by its length. Nothing but entering and leaving changes the
//! shares; between two of these moments the number grows evenly.

use std::collections::VecDeque;

use viaduct_engine::Time;

use super::Place;
use crate::fluid::whole_above;

/// Members that are looked at one by one to tell when another is served; of more, some.
const LOOKED_AT: usize = 64;

/// Part of a picosecond that rounding of sums may make of nothing.
const NOISE: f64 = 1e-3;

/// A link or bus as a queue: two cache lines. A message that meets nobody reads the first alone.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Server {
    /// Up to when it is worked out, and up to when what it carries is accounted for.
    until: Time,
    accounted: Time,
    /// The message that comes next; at [`Time::MAX`] if none does.
    next: Coming,
    /// Busy subqueues now, and most at once.
    busy: u32,
    pub(super) busy_max: u32,
    /// Bytes a picosecond.
    pub(super) rate: f64,
    /// Bytes served, of all.
    pub(super) carried: f64,
    /// Those that come behind the next one, in order, once there were any.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of four, which most messages do not need"
    )]
    later: Option<Box<VecDeque<Coming>>>,

    /// Picoseconds for a byte.
    byte: f64,
    /// What each busy subqueue has been served since there was none.
    level: f64,
    /// The first message of each busy subqueue: the one that is served first, if there is any, and
    /// the others, the last of which is served next.
    first: Member,
    others: Vec<Member>,
    /// Most bytes that were left to serve in this window of the time series while several messages
    /// were there.
    held_max: f64,
}

/// A message that a queue serves.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The level at which it has been served.
    finish: f64,
    visit: Visit,
}

/// A message whose head comes to a queue.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Time,
    visit: Visit,
}

/// A message at a queue: the number of that place among all places of all messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit(pub(super) u32);

impl Visit {
    #[inline]
    fn of(self, places: &mut [Place]) -> &mut Place {
        &mut places[self.0 as usize]
    }
}

impl Coming {
    const NOBODY: Self = Self {
        at: Time::MAX,
        visit: Visit(u32::MAX),
    };
}

impl Server {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            until: Time::ZERO,
            accounted: Time::ZERO,
            next: Coming::NOBODY,
            busy: 0,
            busy_max: 0,
            rate,
            carried: 0.0,
            later: None,
            byte: 1.0 / rate,
            level: 0.0,
            first: Member {
                finish: 0.0,
                visit: Coming::NOBODY.visit,
            },
            others: Vec::new(),
            held_max: 0.0,
        }
    }

    /// A message's head will be here at a time that is not past.
    #[inline]
    pub(super) fn expect(&mut self, at: Time, visit: Visit) {
        debug_assert!(at >= self.until, "what has been worked out does not change");
        let coming = Coming { at, visit };
        if self.next.at == Time::MAX {
            self.next = coming;
        } else {
            self.expect_among_others(coming);
        }
    }

    #[inline(never)]
    fn expect_among_others(&mut self, coming: Coming) {
        let later = self.later.get_or_insert_default();
        if coming.at < self.next.at {
            later.push_front(core::mem::replace(&mut self.next, coming));
            return;
        }
        // Of those that come at one time the first that was told enters first; mostly the last that
        // is told comes last.
        let mut place = later.len();
        while place > 0 && later[place - 1].at > coming.at {
            place -= 1;
        }
        later.insert(place, coming);
    }

    /// Works out what has happened here until now, and notes it at the places of messages.
    #[inline]
    pub(super) fn work_out(&mut self, places: &mut [Place], now: Time) {
        if self.busy > 0 || self.next.at <= now {
            self.work_out_more(places, now);
        }
    }

    #[inline(never)]
    fn work_out_more(&mut self, places: &mut [Place], now: Time) {
        loop {
            if self.busy > 0 {
                let Member { finish, visit } = self.first;
                let at = self.time_of(finish);
                if at <= now && at <= self.next.at {
                    self.proceed(at);
                    // Times are whole picoseconds: what was served a part of one ago leaves now.
                    self.leave(finish);
                    visit.of(places).is_served(at);
                    continue;
                }
            }
            if self.next.at > now {
                return;
            }
            self.let_in(places, now);
        }
    }

    /// The message that comes next enters.
    #[inline]
    fn let_in(&mut self, places: &mut [Place], now: Time) {
        let Coming { at, visit } = self.next;
        let later = self.later.as_mut().and_then(|later| later.pop_front());
        self.next = later.unwrap_or(Coming::NOBODY);
        let place = visit.of(places);
        if self.busy == 0 {
            let end = at + place.alone;
            if end <= now && end <= self.next.at {
                // It comes and goes, and meets nobody.
                self.busy_max = self.busy_max.max(1);
                self.carried += end.saturating_sub(at).picoseconds() as f64 * self.rate;
                (self.until, self.accounted) = (end, end);
                place.is_served(end);
                return;
            }
        }
        self.proceed(at);
        let finish = self.level + place.bytes;
        place.finish = finish;
        self.join(Member { finish, visit });
    }

    /// One more is served.
    fn join(&mut self, member: Member) {
        if self.busy == 0 {
            self.first = member;
        } else if member.finish < self.first.finish {
            self.others
                .push(core::mem::replace(&mut self.first, member));
        } else {
            let is_behind = |it: &Member| it.finish > member.finish;
            let index = self.others.partition_point(is_behind);
            self.others.insert(index, member);
        }
        self.busy += 1;
        self.busy_max = self.busy_max.max(self.busy);
        if self.busy > 1 {
            self.held_max = self.held_max.max(self.held_at(self.level));
        }
    }

    /// Bytes that are left to serve at a level of the queue.
    fn held_at(&self, level: f64) -> f64 {
        let others = self.others.iter().map(|member| member.finish - level);
        others.sum::<f64>() + self.first.finish - level
    }

    /// Most bytes that were left to serve while several messages were there, since this was last
    /// asked: it has been worked out until now.
    pub(super) fn take_held_max(&mut self, now: Time) -> f64 {
        let left = if self.busy > 1 {
            let span = now.saturating_sub(self.until).picoseconds() as f64;
            self.held_at(self.level + span / self.each())
        } else {
            0.0
        };
        core::mem::replace(&mut self.held_max, left)
    }

    /// The first has been served at a level.
    fn leave(&mut self, finish: f64) {
        self.busy -= 1;
        match self.others.pop() {
            Some(next) => {
                self.first = next;
                self.level = self.level.max(finish);
            }
            None => self.level = 0.0,
        }
    }

    /// When it has served all up to a level, if nobody enters before.
    #[inline]
    pub(super) fn leaves(&self, finish: f64) -> Time {
        let mut sum = 0.0;
        let mut ahead = 0;
        if self.first.finish < finish {
            let rest = self.others.iter().rev();
            ahead = 1 + rest.take_while(|member| member.finish < finish).count();
            let step = ahead.div_ceil(LOOKED_AT).max(1);
            // Of several that are served one after another, none is served before the first.
            for index in (0..ahead).step_by(step) {
                let width = step.min(ahead - index);
                let member = match index {
                    0 => &self.first,
                    _ => &self.others[self.others.len() - index],
                };
                sum += (member.finish - self.level) * width as f64;
            }
        }
        sum += (finish - self.level) * (self.busy as usize - ahead) as f64;
        self.until + after(sum * self.byte)
    }

    /// Subqueues that are busy now: it has been worked out so far.
    #[inline]
    pub(super) fn busy(&self) -> u32 {
        self.busy
    }

    /// How long it serves so many bytes, nobody else there.
    pub(super) fn alone(&self, bytes: f64) -> Time {
        after(bytes * self.byte)
    }

    /// Serves nobody for so long from now on; it has been worked out so far.
    pub(super) fn hold_up(&mut self, time: Time, now: Time) {
        self.proceed(now);
        if self.busy > 0 {
            self.level -= time.picoseconds() as f64 / self.each();
        }
        self.carried -= self.rate * time.picoseconds() as f64;
    }

    /// Memory beside itself.
    pub(super) fn spilled_bytes(&self) -> usize {
        let later = self.later.as_ref().map_or(0, |later| {
            size_of::<VecDeque<Coming>>() + later.capacity() * size_of::<Coming>()
        });
        self.others.capacity() * size_of::<Member>() + later
    }

    /// Picoseconds for a byte of each busy subqueue.
    #[inline]
    fn each(&self) -> f64 {
        f64::from(self.busy) * self.byte
    }

    /// When the level is so high, if nobody enters or leaves before.
    #[inline]
    fn time_of(&self, finish: f64) -> Time {
        self.until + after((finish - self.level) * self.each())
    }

    /// Serves those that are there until a time before which nothing happens.
    #[inline]
    fn proceed(&mut self, at: Time) {
        if self.busy > 0 {
            let span = at.saturating_sub(self.until).picoseconds() as f64;
            self.level += span / self.each();
        }
        self.account(at);
        self.until = at;
    }

    /// Accounts for what it has carried up to a time before which nothing happens.
    #[inline]
    pub(super) fn account(&mut self, at: Time) {
        if self.busy > 0 {
            let span = at.saturating_sub(self.accounted).picoseconds() as f64;
            self.carried += span * self.rate;
        }
        self.accounted = at;
    }
}

/// A span of so many picoseconds: the next whole one.
#[inline]
pub(super) fn after(picoseconds: f64) -> Time {
    Time::from_picoseconds(whole_above(picoseconds - NOISE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_two_cache_lines() {
        assert!(size_of::<Server>() <= 128);
    }
}
