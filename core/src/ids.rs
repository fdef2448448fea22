//! What things are called: ends of connections and their queues, connections, waits and requests.

use crate::address::HostAddress;
use crate::slab::Key;

/// Names a live VI of one NIC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ViId(pub(crate) Key);

impl ViId {
    /// Names no VI: its generation is never reached.
    pub const NONE: Self = Self(Key::LAST);

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

/// One of the two work queues of a VI.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// Names one attempt to connect, or one connection, at one of its ends.
///
/// Numbers of one NIC come again after 2^32 waits, requests and connections.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionNumber(pub(crate) u32);

/// Names a wait for a connection request.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WaitId(pub(crate) u32);

/// Names a connection request that waits for an answer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub(crate) u32);

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
