//! One queue, worked out as far as somebody asks.
//!
//! All busy subqueues get the same share at any time, so one number tells what each has got: the
//! bytes that a subqueue has been served which was busy all the time. A message that enters is
//! served when that number has grown by its length. Nothing but entering and leaving changes the
//! shares; between two of these moments the number grows evenly.

use viaduct_engine::Time;

use super::{FlowId, FlowKey};
use crate::fluid::whole_above;

/// Members that are looked at one by one to tell when another is served; of more, some.
const LOOKED_AT: usize = 64;

/// Part of a picosecond that rounding of sums may make of nothing.
const NOISE: f64 = 1e-3;

/// A link or bus as a queue.
#[derive(Debug)]
pub(super) struct Server {
    /// Bytes a picosecond; and picoseconds for a byte of each busy subqueue.
    pub(super) rate: f64,
    byte: f64,
    each: f64,
    /// Up to when it is worked out, and up to when what it carries is accounted for.
    until: Time,
    accounted: Time,
    /// What each busy subqueue has been served since there was none.
    level: f64,
    /// Bytes served, of all.
    pub(super) carried: f64,
    /// Most busy subqueues at once.
    pub(super) busy_max: u32,
    /// The first message of each busy subqueue: the one that is served first is the last.
    members: Vec<Member>,
    /// Those whose heads are on their way here, in order, behind some that have come.
    coming: Vec<Coming>,
    come: u32,
    /// The last message of a flow that is in some queue, and came to this one first.
    pub(super) last: Option<(FlowKey, FlowId)>,
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
    bytes: f64,
    visit: Visit,
}

/// A message at a queue: the place of that on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) message: FlowId,
    pub(super) place: u32,
}

/// What happened at a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// A message has entered: the level at which it will have been served.
    Entered(Visit, f64),
    /// A message has been served, at some time.
    Served(Visit, Time),
}

impl Server {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            rate,
            byte: 1.0 / rate,
            each: 1.0 / rate,
            until: Time::ZERO,
            accounted: Time::ZERO,
            level: 0.0,
            carried: 0.0,
            busy_max: 0,
            members: Vec::new(),
            coming: Vec::new(),
            come: 0,
            last: None,
        }
    }

    /// A message's head will be here at a time that is not past.
    #[inline]
    pub(super) fn expect(&mut self, at: Time, bytes: f64, visit: Visit) {
        debug_assert!(at >= self.until, "what has been worked out does not change");
        let coming = Coming { at, bytes, visit };
        self.coming.push(coming);
        // Of those that come at one time the first that was told enters first.
        let mut place = self.coming.len() - 1;
        while place > self.come as usize && self.coming[place - 1].at > at {
            self.coming.swap(place - 1, place);
            place -= 1;
        }
    }

    /// When the next one comes.
    #[inline]
    fn next_comes(&self) -> Time {
        self.coming
            .get(self.come as usize)
            .map_or(Time::MAX, |coming| coming.at)
    }

    /// What happens next, by `now`.
    #[inline]
    pub(super) fn next(&mut self, now: Time) -> Option<Happening> {
        let comes = self.next_comes();
        if let Some(&Member { finish, visit }) = self.members.last() {
            let at = self.time_of(finish);
            if at <= now && at <= comes {
                self.proceed(at);
                self.members.pop();
                // Times are whole picoseconds, and what was served a part of one ago leaves now.
                self.level = self.level.max(finish);
                self.count_members();
                return Some(Happening::Served(visit, at));
            }
        }
        if comes > now {
            return None;
        }
        self.proceed(comes);
        let Coming { bytes, visit, .. } = *self.coming.get(self.come as usize)?;
        self.come += 1;
        if self.come as usize == self.coming.len() {
            self.coming.clear();
            self.come = 0;
        }
        if self.members.is_empty() {
            let end = comes + after(bytes * self.byte);
            if end <= now && end <= self.next_comes() {
                // It comes and goes, and meets nobody.
                self.busy_max = self.busy_max.max(1);
                self.carried += end.saturating_sub(comes).picoseconds() as f64 * self.rate;
                (self.until, self.accounted) = (end, end);
                return Some(Happening::Served(visit, end));
            }
        }
        let finish = self.level + bytes;
        let member = Member { finish, visit };
        match self.members.last() {
            Some(last) if last.finish <= finish => {
                let index = self.members.partition_point(|it| it.finish > finish);
                self.members.insert(index, member);
            }
            _ => self.members.push(member),
        }
        self.busy_max = self.busy_max.max(self.members.len() as u32);
        self.count_members();
        Some(Happening::Entered(visit, finish))
    }

    /// Members have come or gone.
    #[inline]
    fn count_members(&mut self) {
        match self.members.len() {
            0 => self.level = 0.0,
            1 => self.each = self.byte,
            more => self.each = more as f64 * self.byte,
        }
    }

    /// When it has served all up to a level, if nobody enters before.
    #[inline]
    pub(super) fn leaves(&self, finish: f64) -> Time {
        let ahead = self
            .members
            .iter()
            .rev()
            .take_while(|member| member.finish < finish)
            .count();
        let (len, mut sum) = (self.members.len(), 0.0);
        let step = ahead.div_ceil(LOOKED_AT).max(1);
        // Of several that are served one after another, none is served before the first.
        let mut index = 0;
        while index < ahead {
            let width = step.min(ahead - index);
            sum += (self.members[len - 1 - index].finish - self.level) * width as f64;
            index += width;
        }
        sum += (finish - self.level) * (len - ahead) as f64;
        self.until + after(sum * self.byte)
    }

    /// Subqueues that are busy now: it has been worked out so far.
    #[inline]
    pub(super) fn busy(&self) -> u32 {
        self.members.len() as u32
    }

    /// How long it serves so many bytes, nobody else there.
    #[inline]
    pub(super) fn alone(&self, bytes: f64) -> Time {
        after(bytes * self.byte)
    }

    /// Serves nobody for so long from now on; it has been worked out so far.
    pub(super) fn hold_up(&mut self, time: Time, now: Time) {
        self.proceed(now);
        if !self.members.is_empty() {
            self.level -= time.picoseconds() as f64 / self.each;
        }
        self.carried -= self.rate * time.picoseconds() as f64;
    }

    /// Memory beside itself.
    pub(super) fn spilled_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>() + self.coming.capacity() * size_of::<Coming>()
    }

    /// When the level is so high, if nobody enters or leaves before.
    #[inline]
    fn time_of(&self, finish: f64) -> Time {
        self.until + after((finish - self.level) * self.each)
    }

    /// Serves those that are there until a time before which nothing happens.
    #[inline]
    fn proceed(&mut self, at: Time) {
        if !self.members.is_empty() {
            let span = at.saturating_sub(self.until).picoseconds() as f64;
            self.level += span / self.each;
        }
        self.account(at);
        self.until = at;
    }

    /// Accounts for what it has carried up to a time before which nothing happens.
    #[inline]
    pub(super) fn account(&mut self, at: Time) {
        if !self.members.is_empty() {
            let span = at.saturating_sub(self.accounted).picoseconds() as f64;
            self.carried += span * self.rate;
        }
        self.accounted = at;
    }
}

/// A span of so many picoseconds: the next whole one.
#[inline]
fn after(picoseconds: f64) -> Time {
    Time::from_picoseconds(whole_above(picoseconds - NOISE))
}
