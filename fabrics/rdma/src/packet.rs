//! Kinds of packets and what stands at the head of their payloads.

use crate::limits;

/// A part of a message or of a remote write: of reliable and unreliable connections.
pub(crate) const MESSAGE: u8 = 1;
/// A datagram.
pub(crate) const DATAGRAM: u8 = 2;
/// A remote read is asked for.
pub(crate) const READ: u8 = 3;
/// An atomic is asked for.
pub(crate) const ATOMIC: u8 = 4;
/// Bytes that were asked for.
pub(crate) const RESPONSE: u8 = 5;
/// A request is refused.
pub(crate) const REFUSED: u8 = 6;

/// The first part.
pub(crate) const FIRST: u8 = 1;
/// The last part.
pub(crate) const LAST: u8 = 2;
/// Immediate data are there.
pub(crate) const IMMEDIATE: u8 = 4;
/// Its receive is solicited.
pub(crate) const SOLICITED: u8 = 8;
/// A remote write: the first part begins with a [`Remote`].
pub(crate) const WRITE: u8 = 16;
/// The payload says where the bytes lie in the sender's memory: pairs of address and length.
pub(crate) const PULL: u8 = 32;
/// The bytes of the write have been placed.
pub(crate) const PLACED: u8 = 64;

/// The code of a [`MESSAGE`] of a reliable connection: the low bits of the number that its sender
/// expects, so that an answer acknowledges what it answers.
pub(crate) const fn acknowledging(expected: u32) -> u16 {
    expected as u16
}

/// The number that such a code means, while `next` is the one that goes next: the last one that is
/// not behind it. More requests than the low bits tell apart are never under way.
pub(crate) const fn acknowledged(code: u16, next: u32) -> u32 {
    next.wrapping_sub((next as u16).wrapping_sub(code) as u32)
}

/// The code of [`REFUSED`] for a receiver that is not ready; others are completion statuses.
pub(crate) const NOT_READY: u16 = 0x100;

/// Bytes of a [`Remote`].
pub(crate) const REMOTE_BYTES: usize = 16;

/// Remote memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

impl Remote {
    pub(crate) fn encode(self) -> [u8; REMOTE_BYTES] {
        let mut bytes = [0; REMOTE_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; REMOTE_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *bytes;
        Self {
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            key: u32::from_le_bytes([i, j, k, l]),
        }
    }
}

/// Bytes of an atomic's payload: a [`Remote`], what to compare with or to add, what to store.
pub(crate) const ATOMIC_BYTES: usize = REMOTE_BYTES + 16;

/// Bytes in front of a datagram's own: its Q_Key, whether it has a route, and the header of it.
pub(crate) const DATAGRAM_BYTES: usize = 48;

const _: () = assert!((limits::REQUESTS_MAX as u64) < 1 << 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_of_the_last_requests_over_the_end_of_numbers_too() {
        for next in [0_u32, 1, 5, 0xffff, 0x1_0000, 0x1_0001, u32::MAX] {
            for behind in [0_u32, 1, 2, 700, limits::REQUESTS_MAX] {
                let expected = next.wrapping_sub(behind);
                assert_eq!(acknowledged(acknowledging(expected), next), expected);
            }
        }
    }
}
