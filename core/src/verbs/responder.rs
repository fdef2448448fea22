//! Rules of the receiving side: which requests are carried out, which take a receive, and what each
//! failure does to both ends.

use super::{
    AsyncEventType, CompletionOpcode, CompletionStatus, QueuePairState, QueuePairType, check,
};

/// Whether a request of a connection is the one to be carried out. `number` is its own, `expected`
/// the one after the last that was carried out.
///
/// Source: reliable service of the specification, which carries out each request once and in order;
/// unreliable connections take what comes.
#[inline]
#[must_use]
pub fn takes_request(kind: QueuePairType, is_message: bool, number: u32, expected: u32) -> bool {
    rule!(match kind {
        QueuePairType::Rc => number == expected,
        QueuePairType::Uc => is_message,
        QueuePairType::Ud => false,
    })
}

/// Whether the sender of a request is told that one before it is missing: once, until that comes.
///
/// Source: negative acknowledgements of the specification, as Linux has them: `check_psn` and
/// `sent_psn_nak` in `drivers/infiniband/sw/rxe/rxe_resp.c`.
#[inline]
#[must_use]
pub fn tells_missing(kind: QueuePairType, number: u32, expected: u32, was_told: bool) -> bool {
    let is_behind_a_gap = number.wrapping_sub(expected) as i32 > 0;
    rule!(matches!(kind, QueuePairType::Rc) && is_behind_a_gap && !was_told)
}

/// Whether what comes takes a receive.
///
/// Source: `ibv_post_send(3)`: sends, and writes with immediate data.
#[inline]
#[must_use]
pub fn takes_receive(is_write: bool, has_immediate: bool) -> bool {
    rule!(!is_write || has_immediate)
}

/// Whether the sender is told that there is no receive, and tries again. If not, what came is
/// dropped.
///
/// Source: reliable and unreliable service of the specification.
#[inline]
#[must_use]
pub fn tells_not_ready(kind: QueuePairType) -> bool {
    rule!(matches!(kind, QueuePairType::Rc))
}

/// Whether a shared receive queue with so many receives left tells that it runs short, once.
/// Limit 0 is none.
///
/// Source: `ibv_modify_srq(3)`, `ibv_get_async_event(3)`, `IBV_EVENT_SRQ_LIMIT_REACHED`.
#[inline]
#[must_use]
pub fn tells_limit(left: usize, limit: u32) -> bool {
    rule!(left < limit as usize)
}

/// Whether a request for so many bytes of memory is checked against its key: of none, key and
/// address are not looked at.
///
/// Source: `ibv_post_send(3)`; requests of no bytes of the specification.
#[inline]
#[must_use]
pub fn checks_key(length: u64) -> bool {
    rule!(length > 0)
}

/// What is told at the first request in the state RTR.
///
/// Source: `ibv_get_async_event(3)`, `IBV_EVENT_COMM_EST`.
#[inline]
#[must_use]
pub fn event_at_first_request(state: QueuePairState, was_told: bool) -> Option<AsyncEventType> {
    rule!(
        (state == QueuePairState::ReadyToReceive && !was_told)
            .then_some(AsyncEventType::CommunicationEstablished)
    )
}

/// What the completion of a receive is called.
///
/// Source: `ibv_poll_cq(3)`.
#[inline]
#[must_use]
pub fn completed(is_write: bool) -> CompletionOpcode {
    rule!(if is_write {
        CompletionOpcode::ReceiveRdmaWithImmediate
    } else {
        CompletionOpcode::Receive
    })
}

/// Bytes that a receive needs for a message of so many.
///
/// Source: `ibv_post_recv(3)`: in front of a datagram are 40 for its header.
#[inline]
#[must_use]
pub fn receive_bytes(kind: QueuePairType, length: u64) -> u64 {
    rule!(match kind {
        QueuePairType::Ud => length + u64::from(check::GLOBAL_ROUTING_HEADER_BYTES),
        QueuePairType::Rc | QueuePairType::Uc => length,
    })
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Incident {
    /// The receive is too short, or a write brings more than it said.
    TooLong,
    /// A key of the receive does not let the bytes through.
    ReceiveClosed,
    /// The queue pair or the remote key does not let the access through.
    AccessRefused,
    /// An atomic's address is off its eight bytes.
    Misaligned,
}

/// What a failure does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failure {
    /// How the receive completes that was taken, if one was; none: it is given back, for the next
    /// message.
    pub receive: Option<CompletionStatus>,
    /// What the sender is told.
    pub sender: Option<CompletionStatus>,
    /// What is told here.
    pub event: Option<AsyncEventType>,
    /// Whether the queue pair goes to the error state.
    pub fails: bool,
}

/// What a failure does.
///
/// Source: `ibv_poll_cq(3)`, `ibv_get_async_event(3)`; negative acknowledgements and classes of
/// responder errors of the specification. Without reliability nobody is told, and what is too long
/// is dropped, which is class D as Linux has it: `RESPST_ERR_LENGTH` in
/// `drivers/infiniband/sw/rxe/rxe_resp.c`; "silently drop packets which are too big" in `ud.c` of
/// hfi1 and qib, which use the receive again.
#[inline]
#[must_use]
pub fn failure(kind: QueuePairType, incident: Incident) -> Failure {
    let is_reliable = matches!(kind, QueuePairType::Rc);
    let (receive, sender, event) = match incident {
        Incident::TooLong => (
            CompletionStatus::LocalLengthError,
            CompletionStatus::RemoteInvalidRequestError,
            Some(AsyncEventType::QueuePairRequestError),
        ),
        Incident::ReceiveClosed => (
            CompletionStatus::LocalProtectionError,
            CompletionStatus::RemoteOperationError,
            None,
        ),
        Incident::AccessRefused => (
            CompletionStatus::LocalProtectionError,
            CompletionStatus::RemoteAccessError,
            Some(AsyncEventType::QueuePairAccessError),
        ),
        Incident::Misaligned => (
            CompletionStatus::LocalProtectionError,
            CompletionStatus::RemoteInvalidRequestError,
            Some(AsyncEventType::QueuePairRequestError),
        ),
    };
    let keeps_receive = !is_reliable && incident == Incident::TooLong;
    rule!(Failure {
        receive: (!keeps_receive).then_some(receive),
        sender: is_reliable.then_some(sender),
        event: event.filter(|_| is_reliable),
        fails: is_reliable || incident == Incident::ReceiveClosed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use QueuePairType::{Rc, Uc, Ud};

    #[test]
    fn reliable_requests_come_in_order_and_unreliable_messages_as_they_are() {
        assert!(takes_request(Rc, true, 5, 5) && takes_request(Rc, false, 5, 5));
        assert!(!takes_request(Rc, true, 4, 5) && !takes_request(Rc, true, 6, 5));
        assert!(takes_request(Uc, true, 9, 5) && !takes_request(Uc, false, 5, 5));
        assert!(!takes_request(Ud, true, 5, 5));
    }

    #[test]
    fn a_gap_is_told_once_where_there_is_reliability() {
        assert!(tells_missing(Rc, 7, 5, false) && tells_missing(Rc, 0, u32::MAX, false));
        assert!(!tells_missing(Rc, 7, 5, true) && !tells_missing(Rc, 5, 5, false));
        assert!(!tells_missing(Rc, 4, 5, false) && !tells_missing(Uc, 7, 5, false));
    }

    #[test]
    fn only_a_plain_write_takes_no_receive() {
        assert!(takes_receive(false, false) && takes_receive(false, true));
        assert!(takes_receive(true, true) && !takes_receive(true, false));
        assert!(tells_not_ready(Rc) && !tells_not_ready(Uc) && !tells_not_ready(Ud));
        assert!(checks_key(1) && !checks_key(0));
        assert!(tells_limit(1, 2) && !tells_limit(2, 2) && !tells_limit(0, 0));
        assert_eq!(completed(true), CompletionOpcode::ReceiveRdmaWithImmediate);
        assert_eq!(completed(false), CompletionOpcode::Receive);
        assert_eq!((receive_bytes(Ud, 8), receive_bytes(Rc, 8)), (48, 8));
    }

    #[test]
    fn a_connection_is_told_once_and_only_before_it_sends() {
        let told = Some(AsyncEventType::CommunicationEstablished);
        let at = event_at_first_request;
        assert_eq!(at(QueuePairState::ReadyToReceive, false), told);
        assert_eq!(at(QueuePairState::ReadyToReceive, true), None);
        assert_eq!(at(QueuePairState::ReadyToSend, false), None);
    }

    #[test]
    fn a_sender_is_told_where_there_is_reliability() {
        let told = failure(Rc, Incident::TooLong);
        assert_eq!(told.receive, Some(CompletionStatus::LocalLengthError));
        let status = CompletionStatus::RemoteInvalidRequestError;
        assert_eq!(told.sender, Some(status));
        assert_eq!(told.event, Some(AsyncEventType::QueuePairRequestError));
        assert!(told.fails);
        for kind in [Uc, Ud] {
            let silent = failure(kind, Incident::TooLong);
            assert_eq!((silent.sender, silent.event), (None, None));
            assert_eq!((silent.receive, silent.fails), (None, false));
            assert!(failure(kind, Incident::ReceiveClosed).fails);
        }
        let closed = failure(Rc, Incident::ReceiveClosed);
        assert_eq!(closed.receive, Some(CompletionStatus::LocalProtectionError));
        let status = CompletionStatus::RemoteOperationError;
        assert_eq!((closed.sender, closed.event), (Some(status), None));
    }

    #[test]
    fn a_refused_access_ends_a_reliable_connection_alone() {
        let status = CompletionStatus::RemoteAccessError;
        let refused = failure(Rc, Incident::AccessRefused);
        assert_eq!((refused.sender, refused.fails), (Some(status), true));
        assert_eq!(refused.event, Some(AsyncEventType::QueuePairAccessError));
        let dropped = failure(Uc, Incident::AccessRefused);
        assert_eq!((dropped.sender, dropped.event), (None, None));
        assert!(!dropped.fails);
        let misaligned = failure(Rc, Incident::Misaligned);
        let status = CompletionStatus::RemoteInvalidRequestError;
        assert_eq!(misaligned.sender, Some(status));
    }
}
