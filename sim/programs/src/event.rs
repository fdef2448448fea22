//! What happens to the programs of a cluster, and to nobody else.

use crate::raw::RawEvent;
use crate::tasks::TaskId;

/// One event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// A task that waits has waited long enough; which of its waits.
    Wake(TaskId, u32),
    /// A host's handlers are to be called.
    Call(u32),
    /// Something happens to a write below VIA.
    Raw(RawEvent),
    /// Something may be due at a queue pair of a host, by its place.
    Pair(u32, u32),
    /// Something of the semantics on a host has run out of time.
    Timeout(u32),
}
