//! Messages that a receive cannot take, since it was meant for another size.

use core::fmt;

use crate::graph::{Graph, OperationId, OperationName};
use crate::stalled::NAMES_MAX;

/// Sends and receives that belong together and whose sizes do not fit: see [`Graph::fits`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Misfits {
    /// How many there are.
    pub count: u64,
    /// The first of them, the send before its receive.
    pub first: Vec<(OperationName, OperationName)>,
    /// Whether the receives would take less.
    pub are_limits: bool,
}

impl Misfits {
    /// A receive takes a message.
    #[inline]
    pub fn look_at(&mut self, graph: &Graph, send: OperationId, receive: OperationId) {
        if !graph.fits(send, receive) {
            self.keep(graph, send, receive);
        }
    }

    #[cold]
    fn keep(&mut self, graph: &Graph, send: OperationId, receive: OperationId) {
        self.count += 1;
        self.are_limits = graph.receives_are_limits();
        if self.first.len() < NAMES_MAX {
            self.first.push((graph.name(send), graph.name(receive)));
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Misfits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.are_limits {
            true => "a message has more bytes than its receive takes",
            false => "a send and its receive differ in size",
        };
        write!(formatter, "{what}: {}", self.count)?;
        for (send, receive) in &self.first {
            write!(formatter, "\n  {send}\n  {receive}")?;
        }
        more(formatter, self.count, self.first.len())
    }
}

/// The end of a list of which not all are shown.
pub(crate) fn more(formatter: &mut fmt::Formatter<'_>, count: u64, shown: usize) -> fmt::Result {
    match count - shown as u64 {
        0 => Ok(()),
        more => write!(formatter, "\n  and {more} more"),
    }
}
