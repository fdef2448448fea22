//! Simulated time: an integer number of picoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in simulated time, or a span of it, in picoseconds.
///
/// 64 bits reach 213 days. Arithmetic that leaves the range panics in debug builds; a run stops
/// long before ([`Time::MAX`] is the queue's word for "never").
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Hash)]
pub struct Time(u64);

impl Time {
    /// The beginning of a run.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const MAX: Self = Self(u64::MAX);

    /// From picoseconds.
    #[must_use]
    pub const fn from_picoseconds(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// From nanoseconds.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds * 1_000)
    }

    /// From microseconds.
    #[must_use]
    pub const fn from_microseconds(microseconds: u64) -> Self {
        Self(microseconds * 1_000_000)
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self(milliseconds * 1_000_000_000)
    }

    /// From seconds, rounded to the nearest picosecond; negative or not-a-number becomes zero.
    #[must_use]
    pub fn from_seconds_f64(seconds: f64) -> Self {
        Self((seconds * 1e12 + 0.5) as u64)
    }

    /// In picoseconds.
    #[must_use]
    pub const fn picoseconds(self) -> u64 {
        self.0
    }

    /// In microseconds.
    #[must_use]
    pub fn microseconds_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// In seconds.
    #[must_use]
    pub fn seconds_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// The span from `earlier` to this time, zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The sum, at most [`Time::MAX`].
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// `count` times this span, at most [`Time::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0 + span.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, span: Self) {
        self.0 += span.0;
    }
}

impl Sub for Time {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }
}

impl SubAssign for Time {
    fn sub_assign(&mut self, span: Self) {
        self.0 -= span.0;
    }
}

/// Shows the largest unit that leaves at least one whole: `331.2 us`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000_000, "s"),
            (1_000_000_000, "ms"),
            (1_000_000, "us"),
            (1_000, "ns"),
        ];
        for (size, unit) in UNITS {
            if self.0 >= size {
                let value = self.0 as f64 / size as f64;
                let text = format!("{value:.3}");
                return write!(
                    f,
                    "{} {unit}",
                    text.trim_end_matches('0').trim_end_matches('.')
                );
            }
        }
        write!(f, "{} ps", self.0)
    }
}
