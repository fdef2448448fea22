//! A VI: a pair of work queues and the state of their connection.

use alloc::boxed::Box;

use crate::completion_queue::CompletionQueueId;
use crate::ids::{ConnectionNumber, Peer};
use crate::via::attributes::ViAttributes;
use crate::via::ledger::Ledger;
use crate::via::state::ViState;
use crate::via::work_queue::WorkQueue;

/// What a VI says of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ViInformation {
    /// State of the connection.
    pub state: ViState,
    /// As created or set.
    pub attributes: ViAttributes,
    /// Whether no descriptor, pending or complete, is in the send queue.
    pub send_queue_empty: bool,
    /// Whether no descriptor, pending or complete, is in the receive queue.
    pub receive_queue_empty: bool,
}

/// A VI's memory. Everything that only connecting needs lies elsewhere.
///
/// In this order: a send reads what is up to `sends`, a receive what is from `connection` on.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Vi {
    pub(crate) sends: WorkQueue,
    pub(crate) send_completion_queue: Option<CompletionQueueId>,
    pub(crate) connection: Connection,
    pub(crate) attributes: ViAttributes,
    /// What only the reliable levels and the extensions need, while connected.
    pub(crate) ledger: Option<Box<Ledger>>,
    pub(crate) receive_completion_queue: Option<CompletionQueueId>,
    pub(crate) receives: WorkQueue,
    /// Messages dropped for want of a receive, not yet reported.
    pub(crate) drops_unreported: u32,
    /// One bit for each kind of error that waits to be reported; told once until it is polled.
    pub(crate) unreported: u16,
}

/// What a VI knows of its connection in each state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Connection {
    Idle,
    /// Asked for under this number.
    Pending(ConnectionNumber),
    /// Up, under this number here and the peer's own there.
    Up {
        local: ConnectionNumber,
        peer: Peer,
    },
    Broken,
}

impl Vi {
    pub(crate) const fn new(
        attributes: ViAttributes,
        send_completion_queue: Option<CompletionQueueId>,
        receive_completion_queue: Option<CompletionQueueId>,
    ) -> Self {
        Self {
            sends: WorkQueue::new(),
            receives: WorkQueue::new(),
            connection: Connection::Idle,
            attributes,
            send_completion_queue,
            receive_completion_queue,
            drops_unreported: 0,
            unreported: 0,
            ledger: None,
        }
    }

    pub(crate) const fn state(&self) -> ViState {
        match self.connection {
            Connection::Idle => ViState::Idle,
            Connection::Pending(_) => ViState::ConnectPending,
            Connection::Up { .. } => ViState::Connected,
            Connection::Broken => ViState::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ViId;
    use crate::via::work_queue::Slot;

    #[test]
    fn what_exists_a_million_times_is_small() {
        assert!(size_of::<Vi>() <= 200, "an idle VI: {}", size_of::<Vi>());
        assert!(
            size_of::<Slot>() <= 64,
            "a posted descriptor: {}",
            size_of::<Slot>()
        );
        assert!(size_of::<Option<ViId>>() == 8);
    }
}
