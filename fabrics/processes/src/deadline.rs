//! When a caller's patience ends.

use std::time::{Duration, Instant};

/// A point in time after which a call gives up, or never.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now; `None`, and what is past the clock's end, is never.
    pub fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// The earlier of this and so long from now.
    pub fn or_after(self, limit: Duration) -> Self {
        let other = Self::after(Some(limit));
        match (self.0, other.0) {
            (Some(left), Some(right)) => Self(Some(left.min(right))),
            (left, right) => Self(left.or(right)),
        }
    }

    /// What is left; `None` is for ever.
    pub fn remaining(self) -> Option<Duration> {
        self.0
            .map(|instant| instant.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing is left.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|instant| Instant::now() >= instant)
    }
}
