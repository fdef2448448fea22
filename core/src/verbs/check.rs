//! Rules about requests: what may be posted, what a key lets through, what a failure is called.

use super::flags::{access, send};
use super::{Armed, CompletionStatus, QueuePairState, QueuePairType, SendOpcode};

/// Why a request is refused when it is posted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PostError {
    /// The state takes no such request.
    State,
    /// The type of the queue pair has no such operation.
    Opcode,
    /// Too many elements.
    Elements,
    /// More inline bytes than the queue pair takes, or an operation without inline bytes.
    Inline,
    /// A flag that is not known, or that has no meaning here.
    Flags,
    /// A datagram without an address.
    Address,
}

/// Whether an operation exists for a type.
///
/// Source: `ibv_post_send(3)`, the table of opcodes and transport services.
#[inline]
#[must_use]
pub fn has_operation(kind: QueuePairType, opcode: SendOpcode) -> bool {
    use QueuePairType::{Rc, Uc, Ud};
    rule!(match opcode {
        SendOpcode::Send | SendOpcode::SendWithImmediate => true,
        SendOpcode::RdmaWrite | SendOpcode::RdmaWriteWithImmediate => matches!(kind, Rc | Uc),
        SendOpcode::RdmaRead | SendOpcode::AtomicCompareAndSwap | SendOpcode::AtomicFetchAndAdd => {
            matches!(kind, Rc) && !matches!(kind, Ud)
        }
    })
}

/// Whether sends may be posted. What is posted in an error state is flushed.
///
/// Source: `ibv_modify_qp(3)`; as mlx5 and rxe, posts in the states before RTS fail.
#[inline]
#[must_use]
pub fn takes_sends(state: QueuePairState) -> bool {
    use QueuePairState::{Error, ReadyToSend, SendDrained, SendError};
    rule!(matches!(
        state,
        ReadyToSend | SendDrained | SendError | Error
    ))
}

/// Whether receives may be posted.
///
/// Source: `ibv_post_recv(3)`, states of the specification: from INIT on.
#[inline]
#[must_use]
pub fn takes_receives(state: QueuePairState) -> bool {
    rule!(!matches!(state, QueuePairState::Reset))
}

/// Whether messages that come in are looked at.
///
/// Source: states of the specification: from RTR on, and not in the error state.
#[inline]
#[must_use]
pub fn hears(state: QueuePairState) -> bool {
    use QueuePairState::{ReadyToReceive, ReadyToSend, SendDrained, SendError};
    rule!(matches!(
        state,
        ReadyToReceive | ReadyToSend | SendDrained | SendError
    ))
}

/// Sizes against which a send is checked.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Elements.
    pub elements: u32,
    /// Inline bytes.
    pub inline_bytes: u32,
}

/// Whether a send may be posted.
///
/// Source: `ibv_post_send(3)`: inline for sends and writes alone, up to `max_inline_data`; elements
/// up to `max_send_sge`.
///
/// # Errors
///
/// The first thing that is wrong.
#[inline]
pub fn send(
    kind: QueuePairType,
    opcode: SendOpcode,
    flags: u32,
    elements: usize,
    bytes: u64,
    limits: SendLimits,
) -> Result<(), PostError> {
    rule!(check_send(kind, opcode, flags, elements, bytes, limits))
}

#[inline]
fn check_send(
    kind: QueuePairType,
    opcode: SendOpcode,
    flags: u32,
    elements: usize,
    bytes: u64,
    limits: SendLimits,
) -> Result<(), PostError> {
    const KNOWN: u32 = send::FENCE | send::SIGNALED | send::SOLICITED | send::INLINE;
    if !has_operation(kind, opcode) {
        return Err(PostError::Opcode);
    }
    if flags & !KNOWN != 0 {
        return Err(PostError::Flags);
    }
    if elements > limits.elements as usize {
        return Err(PostError::Elements);
    }
    let has_payload = matches!(
        opcode,
        SendOpcode::Send
            | SendOpcode::SendWithImmediate
            | SendOpcode::RdmaWrite
            | SendOpcode::RdmaWriteWithImmediate
    );
    if flags & send::INLINE != 0 && (!has_payload || bytes > u64::from(limits.inline_bytes)) {
        return Err(PostError::Inline);
    }
    Ok(())
}

/// Whether the access flags of a region go together.
///
/// Source: `ibv_reg_mr(3)`: "If IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC is set, then
/// IBV_ACCESS_LOCAL_WRITE must be set too."
#[inline]
#[must_use]
pub fn are_access_flags_legal(flags: u32) -> bool {
    rule!(
        flags & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) == 0
            || flags & access::LOCAL_WRITE != 0
    )
}

/// A region as checks see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Region {
    /// Its protection domain.
    pub domain: u32,
    /// Its access flags.
    pub access: u32,
    /// Its first address, as requests call it.
    pub first: u64,
    /// Its bytes.
    pub length: u64,
}

/// Whether a region lets an access through: of the right domain, with all of the needed rights, and
/// inside to the byte.
///
/// Source: `ibv_reg_mr(3)`; memory protection of the specification.
#[inline]
#[must_use]
pub fn lets_through(region: &Region, domain: u32, needed: u32, address: u64, length: u64) -> bool {
    rule!(
        region.domain == domain
            && region.access & needed == needed
            && address >= region.first
            && length <= region.length
            && address - region.first <= region.length - length
    )
}

/// Whether a queue pair lets its peer do what needs these rights.
///
/// Source: `ibv_modify_qp(3)`: `qp_access_flags`.
#[inline]
#[must_use]
pub fn lets_peer(queue_pair_access: u32, needed: u32) -> bool {
    rule!(queue_pair_access & needed == needed)
}

/// The right that a remote operation needs; 0 for a message.
#[inline]
#[must_use]
pub fn remote_right(opcode: SendOpcode) -> u32 {
    rule!(match opcode {
        SendOpcode::RdmaWrite | SendOpcode::RdmaWriteWithImmediate => access::REMOTE_WRITE,
        SendOpcode::RdmaRead => access::REMOTE_READ,
        SendOpcode::AtomicCompareAndSwap | SendOpcode::AtomicFetchAndAdd => access::REMOTE_ATOMIC,
        SendOpcode::Send | SendOpcode::SendWithImmediate => 0,
    })
}

/// Whether an address may be the target of an atomic operation.
///
/// Source: `ibv_post_send(3)`: the remote address must be aligned to 8 bytes.
#[inline]
#[must_use]
pub fn is_atomic_address(address: u64) -> bool {
    rule!(address.is_multiple_of(8))
}

/// Whether a completion is told to the program.
///
/// Source: `ibv_post_send(3)`, `IBV_SEND_SIGNALED`; `ibv_create_qp(3)`, `sq_sig_all`. An error is
/// always told.
#[inline]
#[must_use]
pub fn is_told(status: CompletionStatus, flags: u32, is_every_send_signaled: bool) -> bool {
    rule!(
        status != CompletionStatus::Success
            || is_every_send_signaled
            || flags & send::SIGNALED != 0
    )
}

/// Whether a completion is one for which a completion queue was armed.
///
/// Source: `ibv_req_notify_cq(3)`: solicited ones are those whose sender has said so, and those
/// with an error.
#[inline]
#[must_use]
pub fn tells_channel(armed: Armed, is_solicited: bool, is_error: bool) -> bool {
    rule!(match armed {
        Armed::No => false,
        Armed::Solicited => is_solicited || is_error,
        Armed::All => true,
    })
}

/// Whether a completion queue that is armed anew tells of all completions.
///
/// Source: `ibv_req_notify_cq(3)`; requests for notification of the specification: one for all
/// stays though one for solicited ones follows.
#[inline]
#[must_use]
pub fn arms_for_all(before: Armed, is_solicited_only: bool) -> bool {
    rule!(!is_solicited_only || before == Armed::All)
}

/// The state of a queue pair after one of its sends failed at its own side.
///
/// Source: states of the specification: of a datagram or unreliable queue pair only the send queue
/// stops.
#[inline]
#[must_use]
pub fn state_after_send_error(kind: QueuePairType) -> QueuePairState {
    rule!(match kind {
        QueuePairType::Rc => QueuePairState::Error,
        QueuePairType::Uc | QueuePairType::Ud => QueuePairState::SendError,
    })
}

/// Nanoseconds to wait when the peer says that it has no receive.
///
/// Source: `ibv_modify_qp(3)`, the table of `min_rnr_timer`.
#[inline]
#[must_use]
pub fn receiver_not_ready_nanoseconds(timer: u8) -> u64 {
    const HUNDREDTHS_OF_MILLISECONDS: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    rule!(u64::from(HUNDREDTHS_OF_MILLISECONDS[usize::from(timer & 31)]) * 10_000)
}

/// Nanoseconds to wait for an answer; none: for ever.
///
/// Source: `ibv_modify_qp(3)`: 4.096 us times two to the power of `timeout`.
#[inline]
#[must_use]
pub fn timeout_nanoseconds(timeout: u8) -> Option<u64> {
    rule!(match timeout & 31 {
        0 => None,
        power => Some(4096 << power),
    })
}

/// How often a request is tried again when the peer has no receive; none: for ever.
///
/// Source: `ibv_modify_qp(3)`: 7 is for ever.
#[inline]
#[must_use]
pub fn receiver_not_ready_retries(setting: u8) -> Option<u8> {
    rule!(if setting & 7 == 7 {
        None
    } else {
        Some(setting & 7)
    })
}

/// Whether a datagram with this Q_Key is let in. Another is dropped.
///
/// Source: Q_Keys of the specification.
#[inline]
#[must_use]
pub fn is_queue_key_right(own: u32, carried: u32) -> bool {
    rule!(own == carried)
}

/// The Q_Key that a datagram carries.
///
/// Source: `ibv_modify_qp(3)`, Q_Keys of the specification: with the highest bit set the sender's
/// own goes.
#[inline]
#[must_use]
pub fn queue_key_sent(own: u32, wanted: u32) -> u32 {
    rule!(if wanted & 1 << 31 != 0 { own } else { wanted })
}

/// Bytes in front of a datagram in its receive.
///
/// Source: `ibv_post_recv(3)`: "the first 40 bytes of the buffer are reserved for the GRH".
pub const GLOBAL_ROUTING_HEADER_BYTES: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// `ibv_modify_qp(3)`.
    #[test]
    fn timers_are_those_of_the_table() {
        assert_eq!(receiver_not_ready_nanoseconds(0), 655_360_000);
        assert_eq!(receiver_not_ready_nanoseconds(1), 10_000);
        assert_eq!(receiver_not_ready_nanoseconds(12), 640_000);
        assert_eq!(receiver_not_ready_nanoseconds(31), 491_520_000);
        assert_eq!(timeout_nanoseconds(0), None);
        assert_eq!(timeout_nanoseconds(14), Some(67_108_864));
        assert_eq!(receiver_not_ready_retries(7), None);
        assert_eq!(receiver_not_ready_retries(0), Some(0));
    }

    /// `ibv_reg_mr(3)`.
    #[test]
    fn a_region_is_checked_to_the_byte() {
        let region = Region {
            domain: 3,
            access: access::REMOTE_READ,
            first: 100,
            length: 50,
        };
        let check = |domain, needed, at, length| lets_through(&region, domain, needed, at, length);
        assert!(check(3, access::REMOTE_READ, 100, 50) && check(3, 0, 150, 0));
        assert!(!check(4, 0, 100, 1) && !check(3, access::REMOTE_WRITE, 100, 1));
        assert!(!check(3, 0, 99, 1) && !check(3, 0, 149, 2) && !check(3, 0, 151, 0));
        assert!(!check(3, 0, u64::MAX, 2) && !check(3, 0, 100, u64::MAX));
        assert!(!are_access_flags_legal(access::REMOTE_ATOMIC));
        assert!(are_access_flags_legal(
            access::REMOTE_WRITE | access::LOCAL_WRITE
        ));
        assert!(are_access_flags_legal(access::REMOTE_READ));
    }

    /// `ibv_post_send(3)`.
    #[test]
    fn a_send_is_checked_when_it_is_posted() {
        use QueuePairType::{Rc, Uc, Ud};
        use SendOpcode::{AtomicFetchAndAdd, RdmaRead, RdmaWrite, Send};
        let limits = SendLimits {
            elements: 2,
            inline_bytes: 64,
        };
        let check = |kind, opcode, flags, elements, bytes| {
            send(kind, opcode, flags, elements, bytes, limits)
        };
        assert_eq!(check(Rc, RdmaRead, 0, 2, 1 << 20), Ok(()));
        assert_eq!(check(Uc, RdmaRead, 0, 1, 1), Err(PostError::Opcode));
        assert_eq!(check(Ud, RdmaWrite, 0, 1, 1), Err(PostError::Opcode));
        assert_eq!(
            check(Uc, AtomicFetchAndAdd, 0, 1, 8),
            Err(PostError::Opcode)
        );
        assert_eq!(check(Rc, Send, 0, 3, 1), Err(PostError::Elements));
        assert_eq!(check(Rc, Send, send::INLINE, 1, 65), Err(PostError::Inline));
        assert_eq!(
            check(Rc, RdmaRead, send::INLINE, 1, 8),
            Err(PostError::Inline)
        );
        assert_eq!(check(Rc, Send, 1 << 7, 1, 8), Err(PostError::Flags));
    }
}
