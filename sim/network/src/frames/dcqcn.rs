//! DCQCN: senders slow down whose frames are marked, and speed up again.
//!
//! A receiver that gets a marked frame tells the flow's sender, at most once in some time. The
//! sender then cuts the rate of that flow, the more the more often it has been told of late. With
//! time, and with bytes sent, it goes back to the rate before the cut in halves, and beyond that in
//! steps (Zhu et al., SIGCOMM 2015). There is no state of flows that nobody was told of.

use std::collections::{BTreeMap, VecDeque};

use super::Frames;
use super::parts::Passage;
use crate::adapter::NEVER;
use crate::links::{Buffers, CongestionControl};
use crate::passage::Parts;
use crate::queues::FlowKey;

/// Weight of the newest in the average of how often a sender is told.
const GAIN: f64 = 1.0 / 256.0;
/// Without being told for so long, a sender takes the network for less congested.
const ALPHA_TIMER: u64 = 55_000_000;
/// A sender speeds up after each of these times, and each of these many bytes.
const INCREASE_TIMER: u64 = 55_000_000;
const INCREASE_BYTES: f64 = 10e6;
/// So many times it halves its distance to the rate before the cut.
const FAST_RECOVERIES: u32 = 5;
/// Then it aims higher by this much each time, and by this where both time and bytes say so, bytes
/// a picosecond: 40 and 400 Mbit/s.
const STEP: f64 = 40e6 / 8e12;
const LARGE_STEP: f64 = 400e6 / 8e12;
/// No flow is slower than one step.
const RATE_MIN: f64 = STEP;
/// A receiver tells the sender of a flow once in this time at most.
const TELLING_INTERVAL: u64 = 50_000_000;
/// What it tells by, bytes.
const NOTICE_BYTES: f64 = 64.0;
/// After so many steps in silence any flow is at its link's rate.
const STEPS_MAX: u32 = 1 << 15;

/// The flows that senders slow down.
#[derive(Debug, Default)]
pub(super) struct Senders {
    flows: BTreeMap<FlowKey, Sender>,
}

/// The sender of a flow. Rates are bytes a picosecond, times picoseconds.
#[derive(Debug)]
struct Sender {
    /// Of its link.
    rate_max: f64,
    rate: f64,
    /// Where it goes back to.
    target: f64,
    /// How much of its rate it takes for too much.
    alpha: f64,
    alpha_due: u64,
    increase_due: u64,
    /// How often time, and bytes, have let it speed up since the last cut.
    by_time: u32,
    by_bytes: u32,
    /// Bytes since then, or since they last did.
    bytes: f64,
    /// When it may send the next frame.
    next: u64,
    /// When its receiver has told it last, and when it will hear of it.
    told: Option<u64>,
    notices: VecDeque<u64>,
}

impl Senders {
    pub(super) fn of(buffers: &Buffers) -> Option<Box<Self>> {
        let control = buffers.marking.map(|marking| marking.control);
        (control == Some(CongestionControl::Dcqcn)).then(Box::default)
    }

    /// A marked frame has come to its receiver at a time, from which it is `back` to the sender,
    /// whose link has a rate.
    fn mark(&mut self, flow: FlowKey, time: u64, back: u64, rate_max: f64) {
        let sender = self
            .flows
            .entry(flow)
            .or_insert_with(|| Sender::new(rate_max));
        if sender
            .told
            .is_none_or(|told| time >= told + TELLING_INTERVAL)
        {
            sender.told = Some(time);
            sender.notices.push_back(time + back);
        }
    }

    /// The adapter chooses at `now` a frame of a flow, which it begins with at `begin`: when the
    /// flow's rate lets it begin with the next.
    fn send(&mut self, flow: FlowKey, now: u64, begin: u64, bytes: f64) -> u64 {
        let Some(sender) = self.flows.get_mut(&flow) else {
            return 0;
        };
        sender.hear(now);
        sender.send(bytes);
        // At its link's rate nothing but the link holds it back: as if it had not been told, which
        // is known here before it is heard.
        sender.next = match sender.rate < sender.rate_max {
            true => begin + (bytes / sender.rate).ceil() as u64,
            false => 0,
        };
        sender.next
    }

    /// When a flow's next frame may be sent.
    fn next(&self, flow: FlowKey) -> u64 {
        self.flows.get(&flow).map_or(0, |sender| sender.next)
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.flows.len() * (size_of::<Sender>() + size_of::<FlowKey>())
    }
}

impl Sender {
    fn new(rate_max: f64) -> Self {
        Self {
            rate_max,
            rate: rate_max,
            target: rate_max,
            alpha: 1.0,
            alpha_due: u64::MAX,
            increase_due: u64::MAX,
            by_time: 0,
            by_bytes: 0,
            bytes: 0.0,
            next: 0,
            told: None,
            notices: VecDeque::new(),
        }
    }

    /// Does what was due by now: it was told, and timers ran out.
    fn hear(&mut self, now: u64) {
        while let Some(time) = self.notices.front().copied().filter(|time| *time <= now) {
            self.notices.pop_front();
            self.run_timers(time);
            self.cut(time);
        }
        self.run_timers(now);
    }

    fn cut(&mut self, now: u64) {
        self.target = self.rate;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(RATE_MIN);
        self.alpha += GAIN * (1.0 - self.alpha);
        (self.by_time, self.by_bytes, self.bytes) = (0, 0, 0.0);
        self.alpha_due = now + ALPHA_TIMER;
        self.increase_due = now + INCREASE_TIMER;
    }

    fn run_timers(&mut self, now: u64) {
        for _ in 0..STEPS_MAX {
            let due = self.alpha_due.min(self.increase_due);
            if due > now {
                return;
            }
            if self.alpha_due == due {
                self.alpha *= 1.0 - GAIN;
                self.alpha_due += ALPHA_TIMER;
            }
            if self.increase_due == due {
                self.by_time += 1;
                self.increase();
                self.increase_due += INCREASE_TIMER;
            }
        }
        // It has been silent for seconds.
        (self.rate, self.target) = (self.rate_max, self.rate_max);
        self.alpha = 0.0;
        (self.alpha_due, self.increase_due) = (u64::MAX, u64::MAX);
    }

    fn send(&mut self, bytes: f64) {
        self.bytes += bytes;
        if self.bytes >= INCREASE_BYTES {
            self.bytes -= INCREASE_BYTES;
            self.by_bytes += 1;
            self.increase();
        }
    }

    fn increase(&mut self) {
        let (least, most) = (
            self.by_time.min(self.by_bytes),
            self.by_time.max(self.by_bytes),
        );
        if least > FAST_RECOVERIES {
            self.target += f64::from(least - FAST_RECOVERIES) * LARGE_STEP;
        } else if most > FAST_RECOVERIES {
            self.target += STEP;
        }
        self.target = self.target.min(self.rate_max);
        self.rate = f64::midpoint(self.rate, self.target);
    }
}

impl Frames {
    /// A marked frame is all there, at its receiver.
    pub(super) fn tell_sender(&mut self, id: u32, time: u64) {
        let back = self.time_back(id);
        let passage = &self.passages[id as usize];
        if let (Some(senders), Some(flow)) = (&mut self.senders, passage.parts.flow)
            && let Some(&first) = passage.way.first()
        {
            senders.mark(flow, time, back, self.cables[first].rate);
        }
    }

    /// How long what a message's receiver tells takes to its sender: as long as the first byte took
    /// that came, with nobody else there, and its own bytes. It waits for nobody.
    pub(super) fn time_back(&self, id: u32) -> u64 {
        let passage = &self.passages[id as usize];
        let first = passage.way.first();
        let rate = first.map(|first| self.cables[*first].rate);
        passage.lead + rate.map_or(0, |rate| (NOTICE_BYTES / rate).ceil() as u64)
    }

    /// The adapter chooses at `now` a frame of a message, which it begins with at `begin`: when it
    /// may begin with the next of its flow.
    #[inline]
    pub(super) fn pace(&mut self, id: u32, now: u64, begin: u64, bytes: f64) {
        if let (Some(windows), Some(flow)) =
            (&mut self.windows, self.passages[id as usize].parts.flow)
        {
            windows.send(flow, bytes.ceil());
        }
        let Some(senders) = &mut self.senders else {
            return;
        };
        let passage = &mut self.passages[id as usize];
        let Some(flow) = passage.parts.flow else {
            return;
        };
        let next = senders.send(flow, now, begin, bytes);
        passage.next_start = next.max(passage.next_start);
        let behind = passage.behind;
        if passage.parts.are_sent()
            && let Some(behind) = self.passages.get_mut(behind as usize)
        {
            behind.next_start = next.max(behind.next_start);
        }
    }

    /// A time before which no frame of a message is sent that has some left.
    pub(super) fn may_go_from(&self, now: u64, passage: &Passage) -> u64 {
        let line = &self.adapters[passage.parts.source].out;
        let first = line.first_of(passage.parts.flow);
        let first = first.map_or(passage, |first| &self.passages[first as usize]);
        let next = first.next_start.max(passage.next_start);
        match line.wake {
            NEVER => now.max(next),
            wake => now.max(next).max(wake),
        }
    }

    /// Whether some flows may have to wait before they send.
    pub(super) fn are_slowed(&self) -> bool {
        self.senders.is_some() || self.windows.is_some()
    }

    /// When a flow's next frame may be sent.
    pub(super) fn may_send_from(&self, flow: Option<FlowKey>) -> u64 {
        let both = self.senders.as_ref().zip(flow);
        both.map_or(0, |(senders, flow)| senders.next(flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;
    /// 40 Gbit/s.
    const LINE: f64 = 40e9 / 8e12;

    fn told_at(times: &[u64]) -> Sender {
        let mut sender = Sender::new(LINE);
        sender.notices.extend(times);
        sender
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-12
    }

    #[test]
    fn the_first_notice_halves_the_rate_and_five_times_bring_it_nearly_back() {
        let mut sender = told_at(&[10 * US]);
        sender.hear(9 * US);
        assert!(is_near(sender.rate, LINE));
        sender.hear(10 * US);
        assert!(is_near(sender.rate, LINE / 2.0) && is_near(sender.target, LINE));
        for halvings in 1..=5 {
            let due = 10 * US + halvings * 55 * US;
            sender.hear(due - 1);
            let missing = LINE / 2_f64.powi(halvings as i32);
            assert!(is_near(sender.rate, LINE - missing));
            sender.hear(due);
            assert!(is_near(sender.rate, LINE - missing / 2.0));
        }
        // Alpha was 1 and stayed so when it was told, and has decayed five times.
        assert!(is_near(sender.alpha, (255.0_f64 / 256.0).powi(5)));
    }

    #[test]
    fn a_second_cut_goes_by_what_alpha_has_become() {
        let mut sender = told_at(&[0, 100 * US]);
        sender.hear(100 * US);
        // One timer of 55 us has run out: alpha is 255/256, and the rate three quarters.
        let (alpha, before) = (255.0 / 256.0, 0.75 * LINE);
        assert!(is_near(sender.target, before));
        assert!(is_near(sender.rate, before * (1.0 - alpha / 2.0)));
        assert!(is_near(sender.alpha, alpha * 255.0 / 256.0 + 1.0 / 256.0));
    }

    #[test]
    fn behind_the_fast_recovery_it_aims_higher_in_steps_and_with_bytes_in_large_ones() {
        let mut sender = told_at(&[0, 1]);
        sender.hear(5 * 55 * US + 1);
        let (target, rate) = (sender.target, sender.rate);
        assert!(is_near(target, LINE / 2.0));
        sender.hear(6 * 55 * US + 1);
        assert!(is_near(sender.target, target + STEP));
        assert!(is_near(sender.rate, (rate + target + STEP) / 2.0));
        // Bytes: five rounds change no target but by the step of the time's sixth; the sixth one
        // is the first where both say so.
        for round in 1..=6 {
            let before = sender.target;
            sender.send(INCREASE_BYTES);
            let step = if round == 6 { LARGE_STEP } else { STEP };
            assert!(is_near(sender.target, before + step), "{round}");
        }
        // It never aims higher than its link.
        sender.hear(1_000_000 * US);
        assert!(is_near(sender.target, LINE) && is_near(sender.rate, LINE));
    }

    #[test]
    fn a_receiver_tells_once_in_fifty_microseconds() {
        let mut senders = Senders::default();
        let flow = FlowKey::new(((0, 1), 0), 0, 0);
        for time in [0, 1, 49 * US, 50 * US, 51 * US, 99 * US, 101 * US] {
            senders.mark(flow, time, 7, LINE);
        }
        assert_eq!(senders.flows[&flow].notices, [7, 50 * US + 7, 101 * US + 7]);
        // The next frame may be sent when the rate lets it, once that is less than the link's.
        assert_eq!(senders.send(flow, 6, 6, 1_000.0), 0);
        assert_eq!(senders.send(flow, 7, 8, 1_000.0), 8 + 400_000);
        assert_eq!(senders.next(flow), 8 + 400_000);
    }
}
