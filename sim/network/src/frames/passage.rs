//! A message on its way through a network of frames.

use super::adapter::NEVER;
use super::alone::{Own, Sizes};
use super::calendar::Kind;
use crate::queues::FlowKey;

/// No message.
pub(super) const NOBODY: u32 = u32::MAX;

/// A message, over what it crosses at once. Times are picoseconds; `NEVER` if not known yet.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) tag: u32,
    pub(super) is_active: bool,
    /// The host whose adapter sends it, and the one it goes to.
    pub(super) source: u32,
    pub(super) target: u32,
    /// Its links, and whether it crosses the buses before and behind them.
    pub(super) way: Vec<u32>,
    pub(super) has_first_bus: bool,
    pub(super) has_last_bus: bool,
    pub(super) sizes: Sizes,
    /// Bytes on the link for each byte on a bus.
    pub(super) scale: f64,
    /// Of a full frame and of the last: with the sender's adapter, and with the target's.
    pub(super) own: [Own; 2],
    pub(super) taken: [Own; 2],
    /// When the target's adapter may begin with the next frame.
    pub(super) next_taken: u64,
    /// Frames that the adapter has not sent yet, and when it may send the next one.
    pub(super) left: u32,
    pub(super) next_start: u64,
    /// The flow it belongs to, and what is behind it there.
    pub(super) flow: Option<FlowKey>,
    pub(super) behind: u32,
    /// Whether one of its frames was lost in a queue: frames that have come before the first such,
    /// and whether one came behind it.
    pub(super) is_lossy: bool,
    pub(super) came: u32,
    pub(super) is_told: bool,
    /// How long its first byte takes, nobody else there.
    pub(super) lead: u64,
    /// Whether it is to be told that its head is there, and that its sender is done.
    pub(super) owes_head: bool,
    pub(super) owes_gone: bool,
    /// When its head is there; when its last byte has left the sender; when that is there.
    pub(super) head: u64,
    pub(super) gone: u64,
    pub(super) end: u64,
    /// When somebody looks for the latter two.
    pub(super) gone_look: u64,
    pub(super) end_look: u64,
}

impl Passage {
    pub(super) const EMPTY: Self = Self {
        tag: 0,
        is_active: false,
        source: 0,
        target: 0,
        way: Vec::new(),
        has_first_bus: false,
        has_last_bus: false,
        sizes: Sizes {
            count: 0,
            full: 0.0,
            last: 0.0,
            held: [0; 2],
        },
        scale: 1.0,
        own: [Own { bus: 0, pace: 0 }; 2],
        taken: [Own { bus: 0, pace: 0 }; 2],
        next_taken: 0,
        left: 0,
        next_start: 0,
        flow: None,
        behind: NOBODY,
        is_lossy: false,
        came: 0,
        is_told: false,
        lead: 0,
        owes_head: false,
        owes_gone: false,
        head: NEVER,
        gone: NEVER,
        end: NEVER,
        gone_look: NEVER,
        end_look: NEVER,
    };

    /// Which of its frames is next.
    #[inline]
    pub(super) fn next_kind(&self) -> Kind {
        Kind::new(self.left == self.sizes.count, self.left == 1)
    }

    /// For how long the adapter's own work holds the rest of it up at least, from now on.
    pub(super) fn rest(&self, full: u64, last: u64) -> u64 {
        match self.left {
            0 => 0,
            left => u64::from(left - 1) * full + last,
        }
    }
}

/// What is to go through a network of frames at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing<'way> {
    /// The host whose adapter or bus it begins with, and the one behind its links.
    pub(crate) hosts: (u32, u32),
    /// Its links.
    pub(crate) way: &'way [u32],
    pub(crate) has_first_bus: bool,
    pub(crate) has_last_bus: bool,
    /// The flow it belongs to; none if it is alone in its own.
    pub(crate) flow: Option<FlowKey>,
    /// Whether its head is to be told of.
    pub(crate) brings_head: bool,
}
