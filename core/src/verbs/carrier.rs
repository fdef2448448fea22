//! Who carries the packets of queue pairs: what it keeps with objects, and what it is told.

use alloc::boxed::Box;
use core::fmt::Debug;

use super::objects::Pair;
use super::regions::RegionState;
use super::{Completion, Receive, SendOpcode};

/// What wakes a program that waits for events, once for each.
pub trait Signal: Debug {
    /// An event waits.
    fn raise(&self);

    /// An event that waited does so no longer.
    fn lower(&self);
}

/// Somebody, or nobody, is woken.
impl Signal for Option<Box<dyn Signal + Send>> {
    fn raise(&self) {
        if let Some(signal) = self {
            signal.raise();
        }
    }

    fn lower(&self) {
        if let Some(signal) = self {
            signal.lower();
        }
    }
}

/// Who carries the packets of queue pairs.
///
/// It begins sends and takes what comes; [`Objects`](super::Objects) has everything else, and tells
/// it here what it has to know.
pub trait Carrier: Debug + Sized {
    /// What is opened.
    type Device: Debug;
    /// What wakes programs that wait for events.
    type Signal: Signal;
    /// What it keeps with a queue pair.
    type Pair: Debug + Default;
    /// What it keeps with a send.
    type Send: Debug;

    /// What time it is, in nanoseconds, never 0.
    fn now(&self) -> u64;

    /// A completion goes into its queue.
    fn completes(&mut self, _completion: &Completion) {}

    /// Something else has happened for which a program may wait.
    fn has_news(&mut self) {}

    /// A send of so many bytes has succeeded.
    fn succeeds(&mut self, _opcode: SendOpcode, _bytes: u64) {}

    /// A region is what is said of it, or is no more.
    fn shows_region(&self, _key: u32, _region: Option<&RegionState>) {}

    /// A queue pair is new, or its state or attributes have changed.
    fn shows_pair(&self, _pair: &Pair<Self>) {}

    /// A queue pair is no more.
    fn hides_pair(&mut self, _pair: &Pair<Self>) {}

    /// A queue pair was worked on.
    fn puts_pair(&mut self, _pair: &mut Pair<Self>) {}

    /// A queue pair is as new.
    fn resets(_own: &mut Self::Pair) {}

    /// What had begun of a queue pair's sends begins again, or is gone.
    fn rewinds(_pair: &mut Pair<Self>) {}

    /// Whether the bytes of a send have left, which is done then if nobody acknowledges it.
    fn has_left(_own: &Self::Send) -> bool {
        true
    }

    /// The oldest send, which was this, is complete.
    fn retires(&self, _pair: &mut Pair<Self>, _opcode: SendOpcode) {}

    /// The receive that a message on its way has taken.
    fn takes_back(_own: &mut Self::Pair) -> Option<Receive> {
        None
    }
}
