//! NSCC: senders keep so many bytes on their way as what comes back allows.
//!
//! A receiver tells the sender of each frame that has come, or of which the header has. From how
//! long a frame waited in queues, and from whether it was marked, the sender of a flow widens and
//! narrows its window: the network-signal-based congestion control of Ultra Ethernet, as htsim has
//! it (`htsim/sim/uec.cpp` of ultraethernet/uet-htsim, commit 40ccb05), with its constants. They
//! are for a network of 100 Gbit/s and 12 us and are taken in proportion to the bytes that a flow's
//! link carries in an unloaded round trip.
//!
//! ```text
//!  not marked, waited less than the target    wider, the more the less it waited; much wider after
//!                                             a window in which nothing waited for 1 us
//!  not marked, waited longer                  wider by a fixed part, so that flows become equal
//!  marked, waited longer                      narrower, once in a round trip, by how long frames
//!                                             wait on average
//!  marked, waited less                        as it is
//!  trimmed or lost                            narrower by the frame
//!  much trimmed or waiting, little come       as many bytes as have come in a round trip
//! ```

use std::collections::BTreeMap;

use crate::queues::FlowKey;
use crate::rate::Frame;

/// The network that constants are for: picoseconds, and bytes that its links carry in these.
const REFERENCE_TIME: f64 = 12e6;
const REFERENCE_BYTES: f64 = 150_000.0;
/// How long frames should wait, in round trips: with trimming, and without.
const TARGET_TRIMMING: f64 = 0.75;
const TARGET: f64 = 1.0;
/// How fast the window grows by the time that frames do not wait, frames in a reference time.
const PROPORTIONAL: f64 = 4.0;
/// By how much it grows where they wait, and in each round trip, frames.
const FAIR: f64 = 5.0;
const EACH_TRIP: f64 = 0.15;
/// By what part of what has come it grows when nothing waits.
const FAST: f64 = 0.25;
/// What waits for less than this does not wait, picoseconds.
const NOTHING: u64 = 1_000_000;
/// How much of the excess over the target is taken away, and what is left at least.
const DECREASE: f64 = 0.8;
const LEFT_MIN: f64 = 0.5;
/// Weight of the newest in the average of how long frames wait.
const GAIN: f64 = 0.0125;
/// Frames that wait so many targets long are as bad as trimmed ones, if no more than this part of
/// the widest window has come in a round trip and target.
const LONG_TARGETS: f64 = 4.0;
const FEW: f64 = 0.125;
/// Full frames that come before the window is changed, if that takes no longer than a round trip.
const CHANGE_FRAMES: f64 = 8.0;
/// The widest window, in bytes that the link carries in a round trip.
const WIDEST: f64 = 1.5;

/// Memory of a flow's window.
pub(crate) const WINDOW_BYTES: u64 = size_of::<(FlowKey, Window)>() as u64;

/// The windows of flows.
#[derive(Debug)]
pub(super) struct Windows {
    frame: f64,
    payload: f64,
    target: f64,
    flows: BTreeMap<FlowKey, Window>,
}

/// The window of a flow. Bytes, and picoseconds.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// An unloaded round trip of a full frame, how long frames should wait, and the widest window
    /// and the narrowest.
    trip: f64,
    target: f64,
    widest: f64,
    narrowest: f64,
    /// What constants are scaled by, in a frame's payload.
    scale: f64,
    payload: f64,
    size: f64,
    in_flight: f64,
    /// What is to be added when the window is changed next, times its size, and what has come since
    /// it was.
    growth: f64,
    come: f64,
    changed: f64,
    /// How long frames wait on average, and when that last made it narrower.
    wait: f64,
    narrowed: f64,
    /// What has come without waiting, and whether that is a whole window.
    prompt: f64,
    is_fast: bool,
    /// What has come since the present round trip and target began, and when these end.
    achieved: f64,
    achieved_until: f64,
    has_lost: bool,
    /// What was on its way when the window was set to what had come: that tells nothing new.
    stale: f64,
}

impl Windows {
    /// Of frames; whether switches trim them.
    pub(super) fn of(frame: Frame, trims: bool) -> Self {
        let payload = f64::from(frame.payload_bytes);
        Self {
            frame: payload + f64::from(frame.header_bytes),
            payload,
            target: if trims { TARGET_TRIMMING } else { TARGET },
            flows: BTreeMap::new(),
        }
    }

    /// A flow begins, if it is new, whose link carries so many bytes a picosecond.
    pub(super) fn begin(&mut self, flow: FlowKey, trip: u64, rate: f64) {
        let (frame, payload, target) = (self.frame, self.payload, self.target);
        self.flows.entry(flow).or_insert_with(|| {
            let trip = trip as f64;
            Window::new((frame, payload), trip, rate * trip, target * trip)
        });
    }

    /// Whether so many bytes may be sent.
    pub(super) fn has_room(&self, flow: FlowKey, bytes: f64) -> bool {
        let window = self.flows.get(&flow);
        window.is_none_or(|it| it.in_flight == 0.0 || it.in_flight + bytes <= it.size)
    }

    /// They are sent.
    pub(super) fn send(&mut self, flow: FlowKey, bytes: f64) {
        if let Some(window) = self.flows.get_mut(&flow) {
            window.in_flight += bytes;
        }
    }

    /// Its sender hears that they have come, or have not.
    pub(super) fn hear(&mut self, flow: FlowKey, now: u64, bytes: f64, heard: Heard) {
        if let Some(window) = self.flows.get_mut(&flow) {
            match heard {
                Heard::Came { waited, is_marked } => window.came(now, bytes, waited, is_marked),
                Heard::Missing => window.is_missing(now, bytes),
            }
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.flows.len() * WINDOW_BYTES as usize
    }
}

/// What a sender hears of a frame.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Heard {
    /// It has come, so long in queues, and marked or not.
    Came { waited: u64, is_marked: bool },
    /// It was trimmed or lost.
    Missing,
}

impl Window {
    fn new((frame, payload): (f64, f64), trip: f64, carried: f64, target: f64) -> Self {
        let widest = (WIDEST * carried).max(frame);
        Self {
            trip,
            target,
            widest,
            narrowest: frame,
            scale: carried / REFERENCE_BYTES,
            payload,
            size: widest,
            in_flight: 0.0,
            growth: 0.0,
            come: 0.0,
            changed: 0.0,
            wait: 0.0,
            narrowed: 0.0,
            prompt: 0.0,
            is_fast: false,
            achieved: 0.0,
            achieved_until: 0.0,
            has_lost: false,
            stale: 0.0,
        }
    }

    fn came(&mut self, now: u64, bytes: f64, waited: u64, is_marked: bool) {
        let (now, wait) = (now as f64, waited as f64);
        self.in_flight -= bytes;
        self.achieved += bytes;
        self.come += bytes;
        self.stale -= bytes;
        let sample = match !is_marked && wait > self.target {
            true => self.trip / 4.0,
            false => wait,
        };
        self.wait += GAIN * (sample - self.wait);
        if self.adapts(now, is_marked, false, wait) {
            return;
        }
        match (is_marked, wait < self.target) {
            (false, false) => self.growth += FAIR * self.payload * self.scale * bytes,
            (false, true) => self.grow(bytes, waited),
            (true, false) => self.narrow(now),
            (true, true) => {}
        }
        self.keep_bounds();
        if self.come > CHANGE_FRAMES * self.narrowest || now - self.changed > self.trip {
            self.size += self.growth / self.size;
            if now - self.changed >= self.trip {
                self.size += EACH_TRIP * self.payload * self.scale;
                self.changed = now;
            }
            (self.growth, self.come) = (0.0, 0.0);
        }
        self.keep_bounds();
    }

    fn is_missing(&mut self, now: u64, bytes: f64) {
        self.stale -= bytes;
        self.wait += GAIN * (self.trip - self.wait);
        self.has_lost = true;
        if !self.adapts(now as f64, true, true, 0.0) {
            self.size -= bytes;
            self.keep_bounds();
        }
        self.in_flight -= bytes;
    }

    fn keep_bounds(&mut self) {
        self.size = self.size.clamp(self.narrowest, self.widest);
    }

    /// Nothing is marked, and waits less than it should.
    fn grow(&mut self, bytes: f64, waited: u64) {
        self.is_fast = waited < NOTHING && {
            self.prompt += bytes;
            self.prompt > self.size || self.is_fast
        };
        if waited >= NOTHING {
            self.prompt = 0.0;
        }
        if self.is_fast {
            self.size += bytes * FAST * self.scale;
            return;
        }
        let part = PROPORTIONAL * self.payload * self.scale / REFERENCE_TIME;
        self.growth += part * bytes * (self.target - waited as f64);
    }

    /// Frames are marked, and wait longer than they should.
    fn narrow(&mut self, now: f64) {
        (self.is_fast, self.prompt) = (false, 0.0);
        if self.wait > self.target && now - self.narrowed > self.trip {
            let left = 1.0 - DECREASE * (self.wait - self.target) / self.wait;
            self.size = (self.size * left.max(LEFT_MIN)).max(self.narrowest);
            self.narrowed = now;
        }
    }

    /// Whether little has come, and what had been sent before that was known tells nothing more.
    fn adapts(&mut self, now: f64, is_bad: bool, is_missing: bool, wait: f64) -> bool {
        let mut is_done = self.stale > 0.0 && is_bad;
        if !is_done && now > self.achieved_until {
            let is_long = wait > LONG_TARGETS * self.target;
            if self.achieved_until > 0.0
                && (self.has_lost || is_missing || is_long)
                && self.achieved < FEW * self.widest
            {
                self.size = self.achieved.max(self.narrowest);
                self.stale = self.in_flight;
                self.has_lost = false;
                is_done = true;
            }
            self.achieved = 0.0;
            self.achieved_until = now + self.trip + self.target;
        }
        if is_done {
            (self.growth, self.come) = (0.0, 0.0);
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: f64 = 1e6;
    const FRAME: f64 = 4_150.0;
    const PAYLOAD: f64 = 4_086.0;
    /// 100 Gbit/s.
    const RATE: f64 = 100e9 / 8e12;

    /// htsim prints the numbers of a window of 14.0227 us with trimming.
    fn window() -> Window {
        let trip = 14.0227 * US;
        let mut window = Window::new((FRAME, PAYLOAD), trip, RATE * trip, TARGET_TRIMMING * trip);
        window.size = 100_000.0;
        window.in_flight = 100_000.0;
        // Nothing is added for the round trip before the first frame came.
        window.changed = 20.0 * US;
        window.achieved_until = 1e12;
        window
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-9
    }

    #[test]
    fn its_numbers_are_those_that_htsim_prints() {
        let window = window();
        assert!((window.target / US - 10.517).abs() < 1e-3);
        assert!((window.scale - 1.168_56).abs() < 1e-5);
        assert!((FAIR * PAYLOAD * window.scale - 23_873.7).abs() < 0.1);
        assert!((EACH_TRIP * PAYLOAD * window.scale - 716.21).abs() < 0.01);
        assert!(is_near(window.widest, 1.5 * RATE * window.trip));
    }

    #[test]
    fn what_waits_less_than_it_should_widens_by_what_is_missing() {
        let mut window = window();
        for _ in 0..9 {
            window.came(21_000_000, FRAME, 5_000_000, false);
        }
        // The ninth makes more than eight frames, and the window changes.
        let part = 4.0 * PAYLOAD * window.scale / (12.0 * US);
        let growth = part * 9.0 * FRAME * (window.target - 5.0 * US);
        assert!(is_near(window.size, 100_000.0 + growth / 100_000.0));
    }

    #[test]
    fn what_waits_longer_unmarked_widens_by_a_fixed_part() {
        let mut window = window();
        for _ in 0..9 {
            window.came(21_000_000, FRAME, 20_000_000, false);
        }
        let growth = 5.0 * PAYLOAD * window.scale * 9.0 * FRAME;
        assert!(is_near(window.size, 100_000.0 + growth / 100_000.0));
        // Such a frame counts as a quarter of a round trip in the average.
        let average = window.trip / 4.0 * (1.0 - (1.0 - GAIN).powi(9));
        assert!(is_near(window.wait, average));
    }

    #[test]
    fn each_round_trip_widens_by_a_little_more() {
        let mut window = window();
        window.came(20_000_000 + 14_022_700, 0.0, 5_000_000, true);
        assert!(is_near(window.size, 100_000.0));
        window.came(20_000_000 + 14_022_701, 0.0, 5_000_000, true);
        assert!(is_near(
            window.size,
            100_000.0 + 0.15 * PAYLOAD * window.scale
        ));
    }

    #[test]
    fn what_is_marked_and_waits_longer_narrows_once_in_a_round_trip() {
        let mut window = window();
        window.wait = 20.0 * US;
        let now = 21_000_000;
        window.came(now, FRAME, 20_000_000, true);
        let part = 1.0 - 0.8 * (20.0 * US - window.target) / (20.0 * US);
        assert!(is_near(window.size, 100_000.0 * part));
        let narrowed = window.size;
        window.came(now + 14_000_000, 0.0, 20_000_000, true);
        assert!(window.size >= narrowed);
        // On average frames do not wait too long any more: nothing is taken away.
        window.wait = 5.0 * US;
        window.changed = 60.0 * US;
        let before = window.size;
        window.came(60_000_000, FRAME, 20_000_000, true);
        assert!(is_near(window.size, before));
        // Never more than half at once.
        window.wait = 500.0 * US;
        window.came(61_000_000, 0.0, 20_000_000, true);
        assert!(is_near(window.size, before / 2.0));
    }

    #[test]
    fn a_window_in_which_nothing_waits_widens_it_by_a_part_of_all_that_comes() {
        let mut window = window();
        window.changed = 1e12;
        window.come = -1e12;
        let frames = (100_000.0 / FRAME) as u32;
        for _ in 0..frames {
            window.came(21_000_000, FRAME, 999_999, false);
        }
        assert!(is_near(window.size, 100_000.0));
        window.came(21_000_000, FRAME, 0, false);
        assert!(is_near(
            window.size,
            100_000.0 + 0.25 * window.scale * FRAME
        ));
        // One that waits ends that.
        window.came(21_000_000, FRAME, 1_000_000, false);
        assert!(!window.is_fast && window.prompt == 0.0);
    }

    #[test]
    fn what_is_missing_narrows_by_itself_and_much_of_it_to_what_has_come() {
        let mut window = window();
        window.is_missing(21_000_000, FRAME);
        assert!(is_near(window.size, 100_000.0 - FRAME));
        assert!(is_near(window.in_flight, 100_000.0 - FRAME));
        // A round trip and target are over, and less than an eighth of the widest has come.
        window.achieved = 10_000.0;
        window.achieved_until = 30.0 * US;
        window.is_missing(31_000_000, FRAME);
        assert!(is_near(window.size, 10_000.0));
        assert!(is_near(
            window.achieved_until,
            31.0 * US + window.trip + window.target
        ));
        // What was on its way then tells nothing new, if it is marked.
        window.wait = 50.0 * US;
        window.came(60_000_000, FRAME, 50_000_000, true);
        assert!(is_near(window.size, 10_000.0));
        // Never less than a frame.
        window.stale = 0.0;
        for _ in 0..5 {
            window.is_missing(32_000_000, FRAME);
        }
        assert!(is_near(window.size, FRAME));
    }

    #[test]
    fn an_eighth_of_the_widest_window_in_a_round_trip_is_enough_not_to_adapt() {
        let size_after = |part: f64| {
            let mut window = window();
            window.achieved = part * window.widest;
            window.achieved_until = 30.0 * US;
            window.is_missing(31_000_000, FRAME);
            (window.size, window.widest)
        };
        assert!(is_near(size_after(0.13).0, 100_000.0 - FRAME));
        let (size, widest) = size_after(0.12);
        assert!(is_near(size, 0.12 * widest));
    }

    #[test]
    fn a_flow_sends_what_its_window_holds_and_one_frame_always() {
        let frame = Frame {
            payload_bytes: 4_086,
            header_bytes: 64,
        };
        let mut windows = Windows::of(frame, true);
        let flow = FlowKey::new(((0, 1), 0), 0, 0);
        windows.begin(flow, 14_022_700, RATE);
        let mut sent = 0;
        while windows.has_room(flow, FRAME) {
            windows.send(flow, FRAME);
            sent += 1;
        }
        assert_eq!(sent, (1.5 * RATE * 14_022_700.0 / FRAME) as u32);
        windows.flows.get_mut(&flow).unwrap().in_flight = 0.0;
        assert!(windows.has_room(flow, 1e9));
    }
}
