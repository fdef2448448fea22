//! Which changes of an endpoint's state a thread waits for.

use std::ops::{BitAnd, BitOr};

/// A set of changes of an endpoint's state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EventMask(u8);

impl EventMask {
    /// None.
    pub const NONE: Self = Self(0);
    /// A request or a reply waits for [`crate::Endpoint::poll`].
    pub const MESSAGE: Self = Self(1);
    /// A request can be sent, at once or after a poll.
    pub const SPACE: Self = Self(2);
    /// A message that could not be delivered has come back.
    pub const RETURNED: Self = Self(4);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Whether some event is in both.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no event is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// It, if `condition` holds, else none.
    #[must_use]
    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }
}

impl BitOr for EventMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for EventMask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
