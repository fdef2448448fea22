//! A calendar queue: a year of days, each a short sorted list (Brown 1988).

use super::{Entry, Rival};

/// Events by day, `time >> day_bits`, in a year of a power of two of days.
///
/// The year grows and shrinks with the number of events, and with it the length of a day is set to
/// about three times the mean gap between the next events.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Each day's events, latest first.
    days: Vec<Vec<Entry>>,
    day_bits: u32,
    /// No event is on an earlier day.
    today: u64,
    pending: usize,
    sequence: u64,
}

const DAYS_MIN: usize = 2;
/// Events from whose gaps the length of a day is set.
const SAMPLE: usize = 64;

impl Default for Calendar {
    fn default() -> Self {
        Self {
            days: vec![Vec::new(); DAYS_MIN],
            day_bits: 0,
            today: 0,
            pending: 0,
            sequence: 0,
        }
    }
}

impl Rival for Calendar {
    fn push(&mut self, time: u64, event: u64) {
        self.sequence += 1;
        self.insert(Entry::new(time, self.sequence, event));
        self.pending += 1;
        if self.pending > 2 * self.days.len() {
            self.resize(2 * self.days.len());
        }
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        if self.pending == 0 {
            return None;
        }
        let place = self.next_day();
        let entry = self.days[place].pop()?;
        self.pending -= 1;
        if self.pending < self.days.len() / 2 && self.days.len() > DAYS_MIN {
            self.resize(self.days.len() / 2);
        }
        Some((entry.time(), entry.event))
    }
}

impl Calendar {
    fn insert(&mut self, entry: Entry) {
        let day = entry.time() >> self.day_bits;
        self.today = self.today.min(day);
        let mask = self.days.len() - 1;
        let events = &mut self.days[day as usize & mask];
        let mut place = events.len();
        while place > 0 && events[place - 1] < entry {
            place -= 1;
        }
        events.insert(place, entry);
    }

    /// Moves on to the day of the next event; there is one.
    fn next_day(&mut self) -> usize {
        let mask = self.days.len() - 1;
        for _ in 0..self.days.len() {
            let place = self.today as usize & mask;
            let is_today = |entry: &Entry| entry.time() >> self.day_bits == self.today;
            if self.days[place].last().is_some_and(is_today) {
                return place;
            }
            self.today += 1;
        }
        // Nothing for a year: look at every day's first.
        let firsts = self.days.iter().filter_map(|events| events.last());
        let time = firsts.min().map_or(0, |first| first.time());
        self.today = time >> self.day_bits;
        self.today as usize & mask
    }

    fn resize(&mut self, days: usize) {
        let mut entries: Vec<Entry> = self.days.iter_mut().flat_map(std::mem::take).collect();
        entries.sort_unstable();
        let sample = &entries[..entries.len().min(SAMPLE)];
        if let [first, .., last] = sample {
            let gap = (last.time() - first.time()) / (sample.len() as u64 - 1);
            self.day_bits = (3 * gap).max(1).ilog2();
        }
        self.days.resize_with(days, Vec::new);
        self.today = entries
            .first()
            .map_or(0, |first| first.time() >> self.day_bits);
        // Latest first, so that each goes to the end of its day.
        for entry in entries.into_iter().rev() {
            let day = (entry.time() >> self.day_bits) as usize & (days - 1);
            self.days[day].push(entry);
        }
    }
}
