//! What each incident does at each reliability level. Pure functions, for every kind of data path.
//!
//! One function for each row of the table of VIA's reliability levels; the columns are the fields
//! of [`Outcome`]. A [`Nic`](crate::Nic) asks these functions, and a data path of another shape
//! that asks them too behaves alike.
//!
//! | incident | function | what the receive descriptor, if it takes one, completes with |
//! | --- | --- | --- |
//! | no receive posted | [`receive_queue_empty`] | |
//! | message longer than its receive | [`message_too_long`] | `LENGTH_ERROR` |
//! | receive fails protection | [`receive_protection`] | `PROTECTION_ERROR` |
//! | receive malformed | [`receive_format`] | `FORMAT_ERROR` |
//! | message damaged | [`message_damaged`] | `PARTIAL_ERROR`, `TRANSPORT_ERROR` |
//! | remote write refused | [`rdma_write_refused`] | `RDMA_PROTECTION_ERROR` |
//! | remote write damaged | [`rdma_write_damaged`] | as a message |
//! | remote read refused | [`rdma_read_refused`] | |
//! | local error on a send | [`send_failed`] | |
//! | send damaged at its sender | [`send_damaged`] | |
//! | transport failed, peer died | [`transport_failed`] | `TRANSPORT_ERROR` or flushed |
//! | peer disconnected | [`peer_disconnected`] | flushed |
//!
//! [`part_of_split`] says what the receives of one message complete with that takes several.
//!
//! At unreliable delivery nothing but the last two breaks the connection, and the sender learns
//! nothing. At the reliable levels everything breaks it: both VIs go to the error state, both
//! queues of each are flushed, and `ConnectionLost` is told once at each end.

use crate::via::attributes::ReliabilityLevel;
use crate::via::error_code::ErrorCode;
use crate::via::status::Status;

/// What an incident does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Outcome {
    /// Error bits of the receive descriptor that it consumes; `None` if it consumes none.
    pub receive: Option<Status>,
    /// The asynchronous error at the end where it is noticed, besides the loss of the connection.
    pub event: Option<ErrorCode>,
    /// Whether the connection breaks at both ends.
    pub breaks: bool,
    /// Error bits of the descriptor at its initiator; [`Status::PENDING`] if that completes, or
    /// has completed, as if nothing had happened.
    pub sender: Status,
}

/// How a message's bytes came to harm on their way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Damage {
    /// Only a part arrived.
    CutShort,
    /// What arrived is not what was sent.
    Corrupt,
}

/// Where a message comes to harm, and how: what a fabric that does so on purpose is asked for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Harm {
    /// While it leaves: nothing of it arrives. Its initiator asks [`send_damaged`].
    Leaving(Damage),
    /// On its way. Its target asks [`message_damaged`] or [`rdma_write_damaged`].
    Arriving(Damage),
    /// Nothing of it arrives, which the transport notices at the reliable levels alone, and cannot
    /// repair: [`transport_failed`].
    Lost,
}

/// A message arrives and no receive is posted; also a remote write with immediate data.
pub fn receive_queue_empty(level: ReliabilityLevel) -> Outcome {
    rule!(Outcome {
        receive: None,
        event: Some(ErrorCode::ReceiveQueueEmpty),
        breaks: level.is_reliable(),
        sender: at_reception(level, Status::REMOTE_DESCRIPTOR_ERROR),
    })
}

/// A message is longer than the receive that it takes.
pub fn message_too_long(level: ReliabilityLevel) -> Outcome {
    rule!(bad_receive(level, Status::LENGTH_ERROR))
}

/// The receive that a message takes may not touch its memory.
pub fn receive_protection(level: ReliabilityLevel) -> Outcome {
    rule!(bad_receive(level, Status::PROTECTION_ERROR))
}

/// The receive that a message takes is malformed.
pub fn receive_format(level: ReliabilityLevel) -> Outcome {
    rule!(bad_receive(level, Status::FORMAT_ERROR))
}

/// A descriptor of the send queue fails a local check; `error` is its error bit.
///
/// Nothing is sent. What was posted behind it goes on at unreliable delivery and is flushed
/// otherwise.
pub fn send_failed(level: ReliabilityLevel, error: Status) -> Outcome {
    rule!(Outcome {
        receive: None,
        event: None,
        breaks: level.is_reliable(),
        sender: error,
    })
}

/// A send, a remote write or a remote read came to harm while it was under way at its initiator.
///
/// At the reliable levels everything that is under way there has the same error.
pub fn send_damaged(level: ReliabilityLevel, damage: Damage) -> Outcome {
    rule!(Outcome {
        receive: None,
        event: None,
        breaks: level.is_reliable(),
        sender: match (level, damage) {
            (ReliabilityLevel::Unreliable, Damage::CutShort) => Status::PARTIAL_ERROR,
            _ => Status::TRANSPORT_ERROR,
        },
    })
}

/// A remote write fails a protection check at its target.
///
/// With immediate data the receive that it consumes tells of it, and there is no event.
pub fn rdma_write_refused(level: ReliabilityLevel, has_immediate: bool) -> Outcome {
    let error = Status::RDMA_PROTECTION_ERROR;
    rule!(Outcome {
        receive: if has_immediate { Some(error) } else { None },
        event: if has_immediate {
            None
        } else {
            Some(ErrorCode::RdmaWriteProtection)
        },
        breaks: level.is_reliable(),
        sender: at_reception(level, error),
    })
}

/// A remote write arrives damaged.
///
/// With immediate data the receive that it consumes tells of it, and there is no event.
pub fn rdma_write_damaged(level: ReliabilityLevel, damage: Damage, has_immediate: bool) -> Outcome {
    let message = message_damaged(level, damage);
    rule!(if has_immediate {
        message
    } else {
        Outcome {
            receive: None,
            event: Some(match damage {
                Damage::CutShort => ErrorCode::RdmaWriteAbort,
                Damage::Corrupt => ErrorCode::RdmaWriteData,
            }),
            ..message
        }
    })
}

/// A remote read fails a protection check at its target. Unreliable delivery has no remote reads.
pub fn rdma_read_refused(level: ReliabilityLevel) -> Outcome {
    rule!(Outcome {
        receive: None,
        event: Some(ErrorCode::RdmaReadProtection),
        breaks: level.is_reliable(),
        // A read is pending at its initiator until its bytes are there, at every level.
        sender: Status::RDMA_PROTECTION_ERROR,
    })
}

/// A message arrives damaged.
pub fn message_damaged(level: ReliabilityLevel, damage: Damage) -> Outcome {
    rule!(Outcome {
        receive: Some(match damage {
            Damage::CutShort => Status::PARTIAL_ERROR,
            Damage::Corrupt => Status::TRANSPORT_ERROR,
        }),
        event: None,
        breaks: level.is_reliable(),
        sender: at_reception(level, Status::TRANSPORT_ERROR),
    })
}

/// The transport gave up: the link was cut, the peer's process died, a loss was not repaired.
///
/// `sender` and `receive` are for what was started and is not complete; what had not started is
/// flushed. Unreliable delivery tells it as a disconnect of the peer.
pub fn transport_failed(level: ReliabilityLevel) -> Outcome {
    let error = if level.is_reliable() {
        Status::TRANSPORT_ERROR
    } else {
        Status::FLUSHED_ERROR
    };
    rule!(Outcome {
        receive: Some(error),
        event: Some(ErrorCode::ConnectionLost),
        breaks: true,
        sender: error,
    })
}

/// The peer's consumer disconnected. The same at every level.
pub fn peer_disconnected() -> Outcome {
    rule!(Outcome {
        receive: Some(Status::FLUSHED_ERROR),
        event: Some(ErrorCode::ConnectionLost),
        breaks: true,
        sender: Status::FLUSHED_ERROR,
    })
}

/// What each receive completes with that a split message takes, but for the last of a message that
/// arrives: [`Status::CONTINUES`] in place of error bits where the message goes on in the next.
///
/// `own` is what is wrong with the receive itself. One bad receive is enough to fail the message,
/// and then the good ones beside it lose their part of it.
pub fn part_of_split(own: Status, message_fails: bool) -> Status {
    rule!(if own.is_error() {
        own
    } else if message_fails {
        Status::PARTIAL_ERROR
    } else {
        Status::CONTINUES
    })
}

/// When a send or a remote write counts as complete at its initiator.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CompletesWhen {
    /// The network has it.
    HandedOver,
    /// It lies in the target's memory.
    Placed,
}

/// When a send or a remote write of this level completes. A remote read completes, at every level,
/// when its bytes lie in the initiator's memory.
#[must_use]
pub fn completes_when(level: ReliabilityLevel) -> CompletesWhen {
    rule!(match level {
        ReliabilityLevel::Unreliable | ReliabilityLevel::ReliableDelivery => {
            CompletesWhen::HandedOver
        }
        ReliabilityLevel::ReliableReception => CompletesWhen::Placed,
    })
}

fn bad_receive(level: ReliabilityLevel, error: Status) -> Outcome {
    Outcome {
        receive: Some(error),
        event: None,
        breaks: level.is_reliable(),
        sender: at_reception(level, Status::REMOTE_DESCRIPTOR_ERROR),
    }
}

/// The sender still waits for its completion at reliable reception only.
fn at_reception(level: ReliabilityLevel, error: Status) -> Status {
    match completes_when(level) {
        CompletesWhen::HandedOver => Status::PENDING,
        CompletesWhen::Placed => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UD: ReliabilityLevel = ReliabilityLevel::Unreliable;
    const RD: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
    const RR: ReliabilityLevel = ReliabilityLevel::ReliableReception;

    #[test]
    fn at_unreliable_delivery_the_sender_learns_nothing_and_nothing_breaks() {
        for outcome in [
            receive_queue_empty(UD),
            message_too_long(UD),
            receive_protection(UD),
            receive_format(UD),
            rdma_write_refused(UD, false),
            rdma_write_refused(UD, true),
            rdma_write_damaged(UD, Damage::Corrupt, false),
            message_damaged(UD, Damage::CutShort),
        ] {
            assert_eq!((outcome.breaks, outcome.sender), (false, Status::PENDING));
        }
        assert!(!send_failed(UD, Status::FORMAT_ERROR).breaks);
        assert!(transport_failed(UD).breaks);
    }

    #[test]
    fn the_sender_is_told_at_reliable_reception_alone() {
        for (delivery, reception, error) in [
            (receive_queue_empty(RD), receive_queue_empty(RR), 0x100),
            (message_too_long(RD), message_too_long(RR), 0x100),
            (receive_protection(RD), receive_protection(RR), 0x100),
            (receive_format(RD), receive_format(RR), 0x100),
            (
                rdma_write_refused(RD, true),
                rdma_write_refused(RR, true),
                0x80,
            ),
            (
                message_damaged(RD, Damage::Corrupt),
                message_damaged(RR, Damage::Corrupt),
                0x40,
            ),
        ] {
            assert!(delivery.breaks && reception.breaks);
            assert_eq!(delivery.sender, Status::PENDING);
            assert_eq!(reception.sender.bits(), error);
            assert_eq!(
                Outcome {
                    sender: Status::PENDING,
                    ..reception
                },
                delivery
            );
        }
        assert_eq!(rdma_read_refused(RD), rdma_read_refused(RR));
    }

    #[test]
    fn a_remote_write_is_told_by_its_receive_or_by_an_event_never_by_both() {
        for level in [UD, RD, RR] {
            for has_immediate in [false, true] {
                for outcome in [
                    rdma_write_refused(level, has_immediate),
                    rdma_write_damaged(level, Damage::CutShort, has_immediate),
                    rdma_write_damaged(level, Damage::Corrupt, has_immediate),
                ] {
                    assert_eq!(outcome.receive.is_some(), has_immediate);
                    assert_eq!(outcome.event.is_some(), !has_immediate);
                }
            }
        }
    }
}
