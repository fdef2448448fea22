//! Instants and spans that a driver tells the core.

/// An instant, in picoseconds since an origin of the driver's choice.
///
/// The instants given to one [`Nic`](crate::Nic) never decrease.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every instant that can happen.
    pub const NEVER: Self = Self(u64::MAX);

    /// From picoseconds since the origin.
    #[must_use]
    pub const fn from_picoseconds(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// Picoseconds since the origin.
    #[must_use]
    pub const fn picoseconds(self) -> u64 {
        self.0
    }

    /// The instant `span` later; [`Timestamp::NEVER`] when it lies past the end of time.
    #[must_use]
    pub const fn after(self, span: Timespan) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A length of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timespan(u64);

impl Timespan {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Without end.
    pub const INFINITE: Self = Self(u64::MAX);

    /// From picoseconds.
    #[must_use]
    pub const fn from_picoseconds(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// From milliseconds, the unit of the C interface; [`Timespan::INFINITE`] past the range.
    #[must_use]
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000_000))
    }

    /// In picoseconds.
    #[must_use]
    pub const fn picoseconds(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_saturate_at_the_end_of_time() {
        assert_eq!(Timestamp::ZERO.after(Timespan::INFINITE), Timestamp::NEVER);
        let late = Timestamp::from_picoseconds(u64::MAX - 1);
        assert_eq!(late.after(Timespan::from_picoseconds(1)), Timestamp::NEVER);
        assert_eq!(late.after(Timespan::from_picoseconds(2)), Timestamp::NEVER);
        assert_eq!(Timespan::from_milliseconds(u64::MAX), Timespan::INFINITE);
        assert_eq!(Timespan::from_milliseconds(3).picoseconds(), 3_000_000_000);
    }
}
