//! Rules of the sending side: which send may begin, when it is done, what is tried again, and what
//! an error throws out.
//!
//! Whoever carries queue pairs keeps the requests and moves the bytes; it tells these functions how
//! far things are, and does what they say. Sends of a queue begin in their order and complete in
//! their order: the rules say of one send whether it may, and the oldest is the next to complete.

use super::flags::send;
use super::{
    AsyncEventType, CompletionOpcode, CompletionStatus, QueuePairState, QueuePairType, SendOpcode,
    check,
};

/// What becomes of the oldest send that has not begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// It may begin, or go on.
    Begins,
    /// It stays where it is.
    Waits,
    /// It is thrown out with those behind it.
    IsFlushed,
}

/// Whether the sends of a queue pair are carried out in a state.
///
/// Source: states of the specification: in SQD what has begun is finished, and nothing begins.
#[inline]
#[must_use]
pub fn turn(state: QueuePairState, is_under_way: bool) -> Turn {
    rule!(match state {
        QueuePairState::ReadyToSend => Turn::Begins,
        QueuePairState::SendDrained if is_under_way => Turn::Begins,
        QueuePairState::SendError | QueuePairState::Error => Turn::IsFlushed,
        _ => Turn::Waits,
    })
}

/// A send as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The type of its queue pair.
    pub kind: QueuePairType,
    /// The operation.
    pub opcode: SendOpcode,
    /// Bits of [`send`].
    pub flags: u32,
    /// Its bytes.
    pub length: u64,
}

/// What holds a send back, or ends it before it began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begin {
    /// Nothing.
    Now,
    /// An answer that one before it is owed.
    Later,
    /// It fails at its own side, as soon as those before it are done.
    Fails(CompletionStatus),
}

/// Whether a send may begin, while `answers` reads and atomics before it wait for theirs.
///
/// Source: `ibv_modify_qp(3)`, `max_rd_atomic`; `ibv_post_send(3)`, `IBV_SEND_FENCE`;
/// `ibv_poll_cq(3)`, `IBV_WC_LOC_LEN_ERR`: longer than the port's `max_msg_sz`, or for a datagram
/// than its MTU; an atomic has 8 bytes.
#[inline]
#[must_use]
pub fn begin(request: &Request, answers: usize, max_read_atomic: u8, bytes_max: u64) -> Begin {
    rule!(begin_request(request, answers, max_read_atomic, bytes_max))
}

#[inline]
fn begin_request(request: &Request, answers: usize, max_read_atomic: u8, bytes_max: u64) -> Begin {
    let opcode = request.opcode;
    if opcode.is_answered() {
        if max_read_atomic == 0 {
            return Begin::Fails(CompletionStatus::LocalQueuePairOperationError);
        }
        if answers >= usize::from(max_read_atomic) {
            return Begin::Later;
        }
    }
    if request.flags & send::FENCE != 0 && answers > 0 {
        return Begin::Later;
    }
    if request.length > bytes_max || opcode.is_atomic() && request.length != 8 {
        return Begin::Fails(CompletionStatus::LocalLengthError);
    }
    Begin::Now
}

/// What the completion of a send waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndsWhen {
    /// Its bytes have been taken from memory.
    HandedOver,
    /// The peer has acknowledged it.
    Acknowledged,
    /// What was asked for is there.
    Answered,
}

/// What the completion of a send waits for.
///
/// Source: reliable and unreliable service of the specification.
#[inline]
#[must_use]
pub fn ends_when(kind: QueuePairType, opcode: SendOpcode) -> EndsWhen {
    rule!(match kind {
        QueuePairType::Uc | QueuePairType::Ud => EndsWhen::HandedOver,
        QueuePairType::Rc if opcode.is_answered() => EndsWhen::Answered,
        QueuePairType::Rc => EndsWhen::Acknowledged,
    })
}

/// Whether a peer that expects `expected` has acknowledged the request of this number. Numbers
/// begin again behind the last.
///
/// Source: acknowledgements of the specification: one of a request is one of all before it.
#[inline]
#[must_use]
pub fn is_acknowledged(number: u32, expected: u32) -> bool {
    rule!((number.wrapping_sub(expected) as i32) < 0)
}

/// Whether a peer may expect this number, when `next` is the one behind the last that was ever
/// sent. What it has not been sent it cannot acknowledge: such a number is of another connection,
/// or wrong.
///
/// Source: ghost acknowledgements of the specification, which are dropped.
#[inline]
#[must_use]
pub fn may_expect(expected: u32, next: u32) -> bool {
    rule!(expected.wrapping_sub(next) as i32 <= 0)
}

/// What the completion of a send is called.
///
/// Source: `ibv_poll_cq(3)`.
#[inline]
#[must_use]
pub fn completed(opcode: SendOpcode) -> CompletionOpcode {
    rule!(match opcode {
        SendOpcode::RdmaWrite | SendOpcode::RdmaWriteWithImmediate => CompletionOpcode::RdmaWrite,
        SendOpcode::Send | SendOpcode::SendWithImmediate => CompletionOpcode::Send,
        SendOpcode::RdmaRead => CompletionOpcode::RdmaRead,
        SendOpcode::AtomicCompareAndSwap => CompletionOpcode::CompareAndSwap,
        SendOpcode::AtomicFetchAndAdd => CompletionOpcode::FetchAndAdd,
    })
}

/// How a send that an error throws out completes; `done` is how it had ended before, if it had.
///
/// Source: `ibv_poll_cq(3)`, `IBV_WC_WR_FLUSH_ERR`.
#[inline]
#[must_use]
pub fn status_when_flushed(done: Option<CompletionStatus>) -> CompletionStatus {
    rule!(done.unwrap_or(CompletionStatus::FlushError))
}

/// Which receives an error throws out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlushedReceives {
    /// None.
    None,
    /// The one that a message has begun to fill.
    Taken,
    /// That one, and all that are posted.
    All,
}

/// Which receives a state throws out.
///
/// Source: states of the specification: in SQE receiving goes on. A shared receive queue is not the
/// queue pair's, and keeps what is posted.
#[inline]
#[must_use]
pub fn flushed_receives(state: QueuePairState, has_shared_queue: bool) -> FlushedReceives {
    rule!(match (state, has_shared_queue) {
        (QueuePairState::Error, false) => FlushedReceives::All,
        (QueuePairState::Error, true) => FlushedReceives::Taken,
        _ => FlushedReceives::None,
    })
}

/// What is told when a queue pair goes to the error state.
///
/// Source: `ibv_get_async_event(3)`, `IBV_EVENT_QP_LAST_WQE_REACHED`: of one with a shared receive
/// queue alone.
#[inline]
#[must_use]
pub fn event_in_error(has_shared_queue: bool) -> Option<AsyncEventType> {
    rule!(has_shared_queue.then_some(AsyncEventType::LastRequestReached))
}

/// What becomes of a request that the peer did not carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Again {
    /// It is sent again, with all behind it, after so many nanoseconds.
    After(u64),
    /// It fails.
    Fails(CompletionStatus),
}

/// What becomes of a request without an answer in time, which was tried again `tried` times since
/// something was last done.
///
/// Source: `ibv_modify_qp(3)`: `retry_cnt`, of three bits, is the number of times before an error
/// is reported.
#[inline]
#[must_use]
pub fn after_silence(tried: u32, retry_count: u8) -> Again {
    rule!(if tried < u32::from(retry_count & 7) {
        Again::After(0)
    } else {
        Again::Fails(CompletionStatus::RetryExceededError)
    })
}

/// What becomes of a request for which the peer has no receive, which was told so `tried` times
/// since something was last done. `timer` is the peer's.
///
/// Source: `ibv_modify_qp(3)`, `rnr_retry` and `min_rnr_timer`.
#[inline]
#[must_use]
pub fn after_not_ready(tried: u32, retry: u8, timer: u8) -> Again {
    let retries = check::receiver_not_ready_retries(retry);
    rule!(
        if retries.is_some_and(|retries| tried >= u32::from(retries)) {
            Again::Fails(CompletionStatus::ReceiverNotReadyRetryExceededError)
        } else {
            Again::After(check::receiver_not_ready_nanoseconds(timer))
        }
    )
}

/// How a request ends that the peer refused, by the number that the peer says. A peer that says
/// what is no error is not believed.
///
/// Source: negative acknowledgements of the specification.
#[inline]
#[must_use]
pub fn status_when_refused(number: u32) -> CompletionStatus {
    let said = CompletionStatus::from_number(number);
    let error = said.filter(|status| *status != CompletionStatus::Success);
    rule!(error.unwrap_or(CompletionStatus::GeneralError))
}

/// How a read or an atomic of `length` bytes stands, of which the answer has come up to `end`.
///
/// Source: `ibv_poll_cq(3)`, `IBV_WC_BAD_RESP_ERR`.
#[inline]
#[must_use]
pub fn answered(length: u64, end: u64, is_last: bool) -> CompletionStatus {
    rule!(if end > length || is_last && end != length {
        CompletionStatus::BadResponseError
    } else {
        CompletionStatus::Success
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, SendDrained, SendError};
    use QueuePairType::{Rc, Uc, Ud};

    fn request(opcode: SendOpcode, flags: u32, length: u64) -> Request {
        let kind = Rc;
        Request {
            kind,
            opcode,
            flags,
            length,
        }
    }

    #[test]
    fn sends_begin_where_they_are_carried_out() {
        assert_eq!(turn(ReadyToSend, false), Turn::Begins);
        assert_eq!(turn(SendDrained, false), Turn::Waits);
        assert_eq!(turn(SendDrained, true), Turn::Begins);
        for state in [Init, ReadyToReceive] {
            assert_eq!(turn(state, false), Turn::Waits);
        }
        for state in [SendError, Error] {
            assert_eq!(turn(state, true), Turn::IsFlushed);
        }
    }

    #[test]
    fn reads_wait_for_each_other_and_a_fence_for_all() {
        let read = request(SendOpcode::RdmaRead, 0, 64);
        assert_eq!(begin(&read, 1, 2, 100), Begin::Now);
        assert_eq!(begin(&read, 2, 2, 100), Begin::Later);
        let none = CompletionStatus::LocalQueuePairOperationError;
        assert_eq!(begin(&read, 0, 0, 100), Begin::Fails(none));
        let write = |flags| request(SendOpcode::RdmaWrite, flags, 64);
        assert_eq!(begin(&write(0), 2, 2, 100), Begin::Now);
        assert_eq!(begin(&write(send::FENCE), 1, 2, 100), Begin::Later);
        assert_eq!(begin(&write(send::FENCE), 0, 2, 100), Begin::Now);
    }

    #[test]
    fn a_length_that_nobody_carries_fails_at_home() {
        let fails = Begin::Fails(CompletionStatus::LocalLengthError);
        assert_eq!(begin(&request(SendOpcode::Send, 0, 101), 0, 1, 100), fails);
        let atomic = |length| request(SendOpcode::AtomicFetchAndAdd, 0, length);
        assert_eq!(begin(&atomic(4), 0, 1, 100), fails);
        assert_eq!(begin(&atomic(8), 0, 1, 100), Begin::Now);
    }

    #[test]
    fn only_a_reliable_send_waits_for_its_peer() {
        use SendOpcode::{AtomicFetchAndAdd, RdmaRead, RdmaWrite, Send};
        for opcode in [Send, RdmaWrite] {
            assert_eq!(ends_when(Rc, opcode), EndsWhen::Acknowledged);
            assert_eq!(ends_when(Uc, opcode), EndsWhen::HandedOver);
            assert_eq!(ends_when(Ud, opcode), EndsWhen::HandedOver);
        }
        for opcode in [RdmaRead, AtomicFetchAndAdd] {
            assert_eq!(ends_when(Rc, opcode), EndsWhen::Answered);
        }
    }

    #[test]
    fn an_acknowledgement_is_one_of_all_before_it_past_the_last_number_too() {
        assert!(is_acknowledged(4, 5) && !is_acknowledged(5, 5) && !is_acknowledged(6, 5));
        assert!(is_acknowledged(u32::MAX, 0) && !is_acknowledged(0, u32::MAX));
        assert!(may_expect(5, 5) && may_expect(4, 5) && !may_expect(6, 5));
        assert!(may_expect(u32::MAX, 0) && !may_expect(1, 0));
    }

    #[test]
    fn what_was_done_before_an_error_stays_so() {
        let flushed = CompletionStatus::FlushError;
        assert_eq!(status_when_flushed(None), flushed);
        let done = CompletionStatus::Success;
        assert_eq!(status_when_flushed(Some(done)), done);
        assert_eq!(flushed_receives(Error, false), FlushedReceives::All);
        assert_eq!(flushed_receives(Error, true), FlushedReceives::Taken);
        assert_eq!(flushed_receives(SendError, false), FlushedReceives::None);
        assert_eq!(event_in_error(false), None);
        let last = AsyncEventType::LastRequestReached;
        assert_eq!(event_in_error(true), Some(last));
    }

    #[test]
    fn retries_are_counted_and_7_is_for_ever_only_without_a_receive() {
        let exceeded = Again::Fails(CompletionStatus::RetryExceededError);
        assert_eq!(after_silence(6, 7), Again::After(0));
        assert_eq!(after_silence(7, 7), exceeded);
        assert_eq!(after_silence(0, 0), exceeded);
        let exceeded = Again::Fails(CompletionStatus::ReceiverNotReadyRetryExceededError);
        assert_eq!(after_not_ready(0, 0, 1), exceeded);
        assert_eq!(after_not_ready(1, 2, 1), Again::After(10_000));
        assert_eq!(after_not_ready(2, 2, 1), exceeded);
        assert_eq!(after_not_ready(u32::MAX, 7, 12), Again::After(640_000));
    }

    #[test]
    fn a_refusal_is_an_error_whatever_the_peer_says() {
        let access = CompletionStatus::RemoteAccessError;
        assert_eq!(status_when_refused(access.number()), access);
        for number in [0, 9999] {
            let status = status_when_refused(number);
            assert_eq!(status, CompletionStatus::GeneralError);
        }
        assert_eq!(answered(8, 8, true), CompletionStatus::Success);
        assert_eq!(answered(8, 4, false), CompletionStatus::Success);
        let bad = CompletionStatus::BadResponseError;
        assert_eq!(answered(8, 4, true), bad);
        assert_eq!(answered(8, 9, false), bad);
    }
}
