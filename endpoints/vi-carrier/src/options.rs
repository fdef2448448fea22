//! What a station is to be like.

use viaduct_provider::Memory;

/// Which connection has to go when another is needed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// Any.
    Random,
    /// The one that was used least recently.
    LeastRecentlyUsed,
    /// The next one in a circle that was not used since the hand came by.
    #[default]
    Clock,
}

/// What a station is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Connections to other processes that stay; 64 if not said, at least 1. As many again may be
    /// on their way out.
    pub frames: u32,
    /// Which of them has to go for another.
    pub policy: Policy,
    /// Where messages are received: shared memory saves a copy of medium and bulk messages.
    pub memory: Memory,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            frames: 64,
            policy: Policy::default(),
            memory: Memory::Private,
        }
    }
}
