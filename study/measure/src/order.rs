//! What the responder is to do: bytes in the address that a connection is asked from.

use viaduct_provider::Memory;

use crate::plan::Mode;

/// What one connection is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    /// Send each message back.
    Echo,
    /// Take messages, acknowledge each window.
    Sink,
    /// Accept as many connections as `count` says, from as many clients as `number` says, and echo
    /// what comes through one completion queue.
    Serve,
    /// One of the connections of [`Task::Serve`].
    Member,
    /// No connection: the responder is done.
    Finish,
}

/// One row, as the responder needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Order {
    pub(crate) task: Task,
    pub(crate) mode: Mode,
    pub(crate) is_touched: bool,
    pub(crate) memory: Memory,
    /// Bytes of a message.
    pub(crate) bytes: u32,
    /// Messages of a window, or connections of all clients together.
    pub(crate) count: u32,
    /// Of [`Task::Serve`] how many clients there are; else it tells requests of one apart.
    pub(crate) number: u32,
}

impl Order {
    /// Fits into the shortest discriminator that a NIC may allow.
    pub(crate) const BYTES: usize = 20;
    const MARK: [u8; 3] = *b"vm1";

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags = u8::from(self.mode == Mode::Block)
            | u8::from(self.is_touched) << 1
            | u8::from(self.memory == Memory::Private) << 2;
        let mut bytes = [0; Self::BYTES];
        bytes[..3].copy_from_slice(&Self::MARK);
        bytes[3] = match self.task {
            Task::Echo => 0,
            Task::Sink => 1,
            Task::Serve => 2,
            Task::Member => 3,
            Task::Finish => 4,
        };
        bytes[4] = flags;
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// `None` for bytes that no initiator of this version writes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let number_at = |index: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|offset| bytes[index + offset]);
            u32::from_le_bytes([a, b, c, d])
        };
        if bytes[..3] != Self::MARK || bytes[4] > 7 {
            return None;
        }
        Some(Self {
            task: match bytes[3] {
                0 => Task::Echo,
                1 => Task::Sink,
                2 => Task::Serve,
                3 => Task::Member,
                4 => Task::Finish,
                _ => return None,
            },
            mode: if bytes[4] & 1 == 0 {
                Mode::Poll
            } else {
                Mode::Block
            },
            is_touched: bytes[4] & 2 != 0,
            memory: if bytes[4] & 4 == 0 {
                Memory::Shared
            } else {
                Memory::Private
            },
            bytes: number_at(8),
            count: number_at(12),
            number: number_at(16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_way() {
        for task in [
            Task::Echo,
            Task::Sink,
            Task::Serve,
            Task::Member,
            Task::Finish,
        ] {
            let order = Order {
                task,
                mode: Mode::Block,
                is_touched: task == Task::Sink,
                memory: Memory::Private,
                bytes: 0x0102_0304,
                count: 0xFFFF_FFFE,
                number: 7,
            };
            assert_eq!(Order::from_bytes(&order.to_bytes()), Some(order));
        }
        assert_eq!(Order::from_bytes(b"a stranger's address"), None);
        assert_eq!(Order::from_bytes(b""), None);
    }
}
