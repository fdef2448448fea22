//! A VI: a pair of work queues and the state of their connection.

use alloc::boxed::Box;
use core::fmt;

use crate::address::HostAddress;
use crate::attributes::ViAttributes;
use crate::completion_queue::CompletionQueueId;
use crate::connection::ConnectionNumber;
use crate::ledger::Ledger;
use crate::slab::Key;
use crate::work_queue::WorkQueue;

/// Names a live VI of one NIC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ViId(pub(crate) Key);

impl ViId {
    /// The slot of the VI in its NIC: small, dense, used again after the VI is gone.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }

    /// The id as a number, never 0.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The inverse of [`ViId::to_bits`]; `None` for a number that no id has.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Key::from_bits(bits).map(Self)
    }
}

/// The state of a VI, with the numbers of the C interface.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ViState {
    /// Not connected. Receives can be posted.
    Idle = 0,
    /// Messages can be exchanged.
    Connected = 1,
    /// A connection was asked for.
    ConnectPending = 2,
    /// The connection broke; disconnect to make the VI idle again.
    Error = 3,
}

impl fmt::Display for ViState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Idle => "idle",
            Self::Connected => "connected",
            Self::ConnectPending => "connect-pending",
            Self::Error => "error",
        })
    }
}

/// One of the two work queues of a VI.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

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

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its host.
    pub host: HostAddress,
    /// The VI there.
    pub vi: ViId,
    /// What that host calls the connection; goes into the header of each message to it.
    pub connection: ConnectionNumber,
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
    use crate::work_queue::Slot;

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
