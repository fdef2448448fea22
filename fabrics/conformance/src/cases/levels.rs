//! What the reliability levels promise when something goes wrong: cases 39 to 48, and the rows of
//! vipl.md table 7.2 that have no case of their own.

use std::sync::Arc;

use viaduct_provider::via::{MemoryAttributes, Queue, ReliabilityLevel, ViState};
use viaduct_provider::{ControlSegment, Done, ErrorCode, Segment, control};

use crate::case::{Case, Level};
use crate::check::{Outcome, Stop, equal, equal_bytes, equal_status};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::{Block, Work, pattern};
use crate::pair::{End, Nic, Options, RD, RR, Taken, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        39,
        Level::EarlyAdopter,
        "unreliable_message_without_receive_is_dropped",
        &[drop_sender, drop_receiver],
    ),
    Case::pair(
        40,
        Level::Functional,
        "drop_is_told_to_the_receivers_handler",
        &[drop_sender, told_receiver],
    ),
    Case::pair(
        41,
        Level::EarlyAdopter,
        "reliable_message_without_receive_breaks",
        &[|e| no_receive_sender(e, RD), |e| no_receive_target(e, RD)],
    ),
    Case::pair(
        42,
        Level::EarlyAdopter,
        "reception_without_receive_fails_the_send",
        &[|e| no_receive_sender(e, RR), |e| no_receive_target(e, RR)],
    ),
    Case::pair(
        43,
        Level::EarlyAdopter,
        "unreliable_message_too_long_is_an_error_of_the_receive",
        &[
            |e| bad_receive_sender(e, UD, BadReceive::TooShort),
            |e| bad_receive_target(e, UD, BadReceive::TooShort),
        ],
    ),
    Case::pair(
        44,
        Level::EarlyAdopter,
        "reliable_message_too_long_breaks",
        &[
            |e| bad_receive_sender(e, RD, BadReceive::TooShort),
            |e| bad_receive_target(e, RD, BadReceive::TooShort),
        ],
    ),
    Case::pair(
        45,
        Level::EarlyAdopter,
        "reception_too_long_fails_the_send",
        &[
            |e| bad_receive_sender(e, RR, BadReceive::TooShort),
            |e| bad_receive_target(e, RR, BadReceive::TooShort),
        ],
    ),
    Case::pair(
        46,
        Level::EarlyAdopter,
        "unreliable_send_after_a_bad_one_goes_on",
        &[unreliable_bad_send, unreliable_good_receive],
    ),
    Case::pair(
        47,
        Level::EarlyAdopter,
        "reliable_send_after_a_bad_one_is_flushed",
        &[|e| breaking_send(e, RD), |e| broken_by_peer(e, RD)],
    ),
    Case::pair(
        48,
        Level::EarlyAdopter,
        "completed_reception_is_in_the_targets_memory",
        &[reception_sender, reception_target],
    ),
    Case::pair(
        85,
        Level::Functional,
        "receive_outside_protection_unreliable",
        &[
            |e| bad_receive_sender(e, UD, BadReceive::Protection),
            |e| bad_receive_target(e, UD, BadReceive::Protection),
        ],
    ),
    Case::pair(
        86,
        Level::Functional,
        "receive_outside_protection_reliable",
        &[
            |e| bad_receive_sender(e, RD, BadReceive::Protection),
            |e| bad_receive_target(e, RD, BadReceive::Protection),
        ],
    ),
    Case::pair(
        87,
        Level::Functional,
        "receive_outside_protection_reception",
        &[
            |e| bad_receive_sender(e, RR, BadReceive::Protection),
            |e| bad_receive_target(e, RR, BadReceive::Protection),
        ],
    ),
    Case::pair(
        88,
        Level::Decision,
        "malformed_receive_reliable",
        &[
            |e| bad_receive_sender(e, RD, BadReceive::Format),
            |e| bad_receive_target(e, RD, BadReceive::Format),
        ],
    ),
    Case::pair(
        89,
        Level::Decision,
        "malformed_receive_reception",
        &[
            |e| bad_receive_sender(e, RR, BadReceive::Format),
            |e| bad_receive_target(e, RR, BadReceive::Format),
        ],
    ),
    Case::pair(
        90,
        Level::EarlyAdopter,
        "reception_send_after_a_bad_one_is_flushed",
        &[|e| breaking_send(e, RR), |e| broken_by_peer(e, RR)],
    ),
    Case::pair(
        154,
        Level::EarlyAdopter,
        "reception_is_told_to_a_sender_whose_receiver_looks_no_more",
        &[told_of_reception, takes_and_rests],
    ),
];

/// An end of `level` with an error handler, not yet connected.
pub(super) fn watched(env: &Arc<Environment>, level: ReliabilityLevel) -> Outcome<(End, Errors)> {
    let nic = Nic::open(env)?;
    nic.need(level)?;
    let errors = Errors::of(env, nic.handle)?;
    Ok((End::new(env, &nic, Options::level(level))?, errors))
}

/// Fails unless the connection broke as vipl.md 7.2 says: the VI in error, `CONN_LOST` told once.
#[track_caller]
pub(super) fn broke(end: &End, errors: &Errors) -> Outcome {
    end.comes_to(ViState::Error)?;
    errors.about_vi(&end.env, end.nic.handle, end.vi, ErrorCode::ConnectionLost)?;
    equal(
        errors.count(end.vi, ErrorCode::ConnectionLost),
        1,
        "how often CONN_LOST was told",
    )
}

/// Fails unless a descriptor came back flushed.
#[track_caller]
pub(super) fn flushed(taken: &Taken, operation: u32) -> Outcome {
    let expected = status::DONE | status::FLUSHED | operation;
    equal_status(taken.control.status, expected, "a flushed descriptor")
}

pub(super) const RECEIVE: u32 = 0x0001_0000;

fn drop_sender(env: &Arc<Environment>) -> Outcome {
    let (end, _errors) = watched(env, UD)?;
    end.connect()?;
    for _ in 0..3 {
        end.sent_well(end.post_send(0, 100)?)?;
    }
    env.meet("dropped")?;
    env.meet("posted")?;
    end.fill(0, 100, 39);
    end.sent_well(end.post_send(0, 100)?)?;
    end.is_in(ViState::Connected)?;
    end.close()
}

fn drop_receiver(env: &Arc<Environment>) -> Outcome {
    let (end, errors) = watched(env, UD)?;
    end.connect()?;
    env.meet("dropped")?;
    after_drop(env, &end)?;
    equal(
        errors.count(end.vi, ErrorCode::ConnectionLost),
        0,
        "how often CONN_LOST was told",
    )?;
    end.close()
}

/// A later receive takes a later message, and none of those that were dropped.
fn after_drop(env: &Environment, end: &End) -> Outcome {
    // What was sent may still be on its way to being dropped.
    env.sleep(50);
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after a drop",
    )?;
    end.is_in(ViState::Connected)?;
    let receive = end.post_receive(0, 128)?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "a receive posted after a drop",
    )?;
    env.meet("posted")?;
    end.received_bytes(receive, 0, &pattern(39, 100))?;
    end.is_in(ViState::Connected)
}

fn told_receiver(env: &Arc<Environment>) -> Outcome {
    let (end, errors) = watched(env, UD)?;
    end.connect()?;
    env.meet("dropped")?;
    errors.about_vi(env, end.nic.handle, end.vi, ErrorCode::ReceiveQueueEmpty)?;
    after_drop(env, &end)?;
    end.close()
}

/// A reliable message that meets no receive.
fn no_receive_sender(env: &Arc<Environment>, level: ReliabilityLevel) -> Outcome {
    let (end, errors) = watched(env, level)?;
    let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
    end.connect()?;
    let send = end.post_send(0, 100)?;
    let taken = end.sent(send)?;
    // Reliable delivery does not say: the send may have completed before the target's answer.
    if level == RR {
        let errors = taken.control.status & status::ERROR_MASK;
        let expected = status::REMOTE_DESCRIPTOR_ERROR;
        equal_status(errors, expected, "the error of the send")?;
    }
    broke(&end, &errors)?;
    for receive in receives {
        flushed(&end.received(receive)?, RECEIVE)?;
    }
    equal(
        end.done(Queue::Send)?,
        Done::Empty,
        "the send queue after it",
    )?;
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after it",
    )?;
    env.meet("broke")?;
    reconnects(&end)
}

fn no_receive_target(env: &Arc<Environment>, level: ReliabilityLevel) -> Outcome {
    let (end, errors) = watched(env, level)?;
    end.connect()?;
    broke(&end, &errors)?;
    errors.about_vi(env, end.nic.handle, end.vi, ErrorCode::ReceiveQueueEmpty)?;
    env.meet("broke")?;
    reconnects(&end)
}

/// A broken VI is idle after a disconnect, and connects and works again.
fn reconnects(end: &End) -> Outcome {
    end.env.provider().disconnect(end.vi)?;
    end.is_in(ViState::Idle)?;
    end.drain(Queue::Send)?;
    end.drain(Queue::Receive)?;
    let receive = end.post_receive(0, 64)?;
    end.connect()?;
    end.fill(1024, 20, 99);
    end.sent_well(end.post_send(1024, 20)?)?;
    end.received_bytes(receive, 0, &pattern(99, 20))?;
    end.env.meet("works again")
}

/// What is wrong with a receive that a message meets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BadReceive {
    TooShort,
    Protection,
    Format,
}

impl BadReceive {
    fn error(self) -> u32 {
        match self {
            Self::TooShort => status::LENGTH_ERROR,
            Self::Protection => status::PROTECTION_ERROR,
            Self::Format => status::FORMAT_ERROR,
        }
    }

    /// A receive of 64 bytes that is wrong in this way.
    fn work(self, end: &End) -> Outcome<Work> {
        let good = || Ok::<_, Stop>(end.work(1)?.receive(&[end.segment(0, 64)]));
        Ok(match self {
            Self::TooShort => good()?,
            Self::Protection => {
                let tag = end.env.provider().create_protection_tag(end.nic.handle)?;
                let other = Block::new(&end.env, 4096)?;
                let local = MemoryAttributes::local(tag);
                let handle = other.register(&end.env, end.nic.handle, &local)?;
                end.work(1)?.receive(&[Segment {
                    address: other.address(),
                    handle: handle.bits(),
                    length: 4096,
                }])
            }
            Self::Format => {
                let work = good()?;
                work.set_control(ControlSegment {
                    control: control::OPERATION_MASK,
                    ..work.control()
                });
                work
            }
        })
    }
}

fn bad_receive_sender(
    env: &Arc<Environment>,
    level: ReliabilityLevel,
    _wrong: BadReceive,
) -> Outcome {
    let (end, errors) = watched(env, level)?;
    let receive = end.post_receive(1024, 64)?;
    end.connect()?;
    env.meet("posted")?;
    end.fill(0, 65, 65);
    let send = end.post_send(0, 65)?;
    let taken = end.sent(send)?;
    if level == UD {
        equal_status(
            taken.control.status,
            status::SENT,
            "the send of a dropped message",
        )?;
        end.sent_well(end.post_send(0, 64)?)?;
        end.is_in(ViState::Connected)?;
        return end.close();
    }
    if level == RR {
        let errors = taken.control.status & status::ERROR_MASK;
        equal_status(
            errors,
            status::REMOTE_DESCRIPTOR_ERROR,
            "the error of the send",
        )?;
    }
    broke(&end, &errors)?;
    flushed(&end.received(receive)?, RECEIVE)?;
    env.meet("broke")?;
    reconnects(&end)
}

fn bad_receive_target(
    env: &Arc<Environment>,
    level: ReliabilityLevel,
    wrong: BadReceive,
) -> Outcome {
    let (end, errors) = watched(env, level)?;
    end.connect()?;
    end.data.fill(0xD0);
    let bad = end.post_to_receive(wrong.work(&end)?)?;
    let next = end.post_receive(1024, 64)?;
    env.meet("posted")?;
    let control = end.received(bad)?.control;
    let expected = status::DONE | RECEIVE | wrong.error();
    equal_status(control.status, expected, "the receive that the message met")?;
    let beyond = end.data.read(64, 1024 - 64);
    equal_bytes(&beyond, &[0xD0; 1024 - 64], "memory behind the receive")?;
    if level == UD {
        end.received_bytes(next, 1024, &pattern(65, 65)[..64])?;
        end.is_in(ViState::Connected)?;
        errors.only(end.vi, &[])?;
        return end.close();
    }
    flushed(&end.received(next)?, RECEIVE)?;
    broke(&end, &errors)?;
    // The receive tells of it, and no handler does.
    errors.only(end.vi, &[ErrorCode::ConnectionLost])?;
    env.meet("broke")?;
    reconnects(&end)
}

fn unreliable_bad_send(env: &Arc<Environment>) -> Outcome {
    let (end, errors) = watched(env, UD)?;
    end.connect()?;
    env.meet("posted")?;
    end.fill(0, 64, 46);
    let bad = end.post(end.work(1)?.send(&[end.segment(0, 64)]).with_length(63))?;
    let good = end.post_send(0, 64)?;
    let control = end.sent(bad)?.control;
    equal_status(
        control.status,
        status::DONE | status::LENGTH_ERROR,
        "the bad send",
    )?;
    end.sent_well(good)?;
    end.is_in(ViState::Connected)?;
    errors.only(end.vi, &[])?;
    end.close()
}

fn unreliable_good_receive(env: &Arc<Environment>) -> Outcome {
    let (end, _errors) = watched(env, UD)?;
    end.connect()?;
    let receive = end.post_receive(0, 64)?;
    env.meet("posted")?;
    end.received_bytes(receive, 0, &pattern(46, 64))?;
    end.is_in(ViState::Connected)?;
    end.close()
}

/// What can be wrong with a send, each in a connection of its own.
fn bad_sends(end: &End) -> Outcome<[(Work, u32); 3]> {
    let good = || Ok::<_, Stop>(end.work(1)?.send(&[end.segment(0, 40)]));
    let malformed = good()?;
    malformed.set_control(ControlSegment {
        control: control::OPERATION_MASK,
        ..malformed.control()
    });
    let outside = Segment {
        length: end.data.length() as u32 + 1,
        ..end.segment(0, 0)
    };
    Ok([
        (good()?.with_length(41), status::LENGTH_ERROR),
        (malformed, status::FORMAT_ERROR),
        (end.work(1)?.send(&[outside]), status::PROTECTION_ERROR),
    ])
}

fn breaking_send(env: &Arc<Environment>, level: ReliabilityLevel) -> Outcome {
    for kind in 0..3 {
        let (end, errors) = watched(env, level)?;
        let receive = end.post_receive(1024, 64)?;
        end.connect()?;
        // What a fabric remembers of a good one does not let a bad one pass.
        end.sent_well(end.post_send(0, 40)?)?;
        let (bad, error) = bad_sends(&end)?[kind];
        let bad = end.post(bad)?;
        let good = end.post_send(0, 64)?;
        let control = end.sent(bad)?.control;
        equal_status(
            control.status & status::ERROR_MASK,
            error,
            "the error of the bad send",
        )?;
        flushed(&end.sent(good)?, 0)?;
        flushed(&end.received(receive)?, RECEIVE)?;
        broke(&end, &errors)?;
        errors.only(end.vi, &[ErrorCode::ConnectionLost])?;
        env.meet("broke")?;
        reconnects(&end)?;
    }
    Ok(())
}

fn broken_by_peer(env: &Arc<Environment>, level: ReliabilityLevel) -> Outcome {
    for _ in 0..3 {
        let (end, errors) = watched(env, level)?;
        let first = end.post_receive(0, 64)?;
        let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
        end.connect()?;
        equal_status(
            end.received(first)?.control.status,
            status::RECEIVED,
            "the receive of the good send",
        )?;
        broke(&end, &errors)?;
        for receive in receives {
            flushed(&end.received(receive)?, RECEIVE)?;
        }
        env.meet("broke")?;
        reconnects(&end)?;
    }
    Ok(())
}

/// Bytes of the messages of case 48, and how many there are: those after the first find what it
/// left known.
const PLACED: [(usize, u64); 2] = [(32_000, 20), (8, 5)];

fn reception_sender(env: &Arc<Environment>) -> Outcome {
    let (end, _errors) = watched(env, RR)?;
    end.connect()?;
    for (bytes, rounds) in PLACED {
        for round in 0..rounds {
            env.meet("posted")?;
            end.fill(0, bytes, round);
            end.sent_well(end.post_send(0, bytes)?)?;
            // Told on another way than the fabric: the data must be there by then.
            env.meet("sent")?;
            env.meet("looked")?;
        }
    }
    end.close()
}

fn reception_target(env: &Arc<Environment>) -> Outcome {
    let (end, _errors) = watched(env, RR)?;
    end.connect()?;
    for (bytes, rounds) in PLACED {
        for round in 0..rounds {
            end.data.fill(0);
            let receive = end.post_receive(0, bytes)?;
            env.meet("posted")?;
            env.meet("sent")?;
            let expected = pattern(round, bytes);
            equal_bytes(
                &end.data.read(0, bytes),
                &expected,
                "memory when the send is complete",
            )?;
            env.meet("looked")?;
            end.received_bytes(receive, 0, &expected)?;
        }
    }
    end.close()
}

/// Sends that the other end has taken complete, though it makes no call any more.
fn told_of_reception(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(RR)?;
    let end = pair(env, &nic, Options::level(RR))?;
    env.meet("posted")?;
    for length in [0, 8, 48, 4096] {
        end.fill(0, length, 154);
        let work = end.post_send(0, length)?;
        env.meet("taken")?;
        end.sent_well(work)?;
        env.meet("told")?;
    }
    end.close()
}

fn takes_and_rests(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(RR)?;
    let end = pair(env, &nic, Options::level(RR))?;
    let mut receive = end.post_receive(0, 4096)?;
    env.meet("posted")?;
    for length in [0, 8, 48, 4096] {
        end.received_bytes(receive, 0, &pattern(154, length))?;
        receive = end.post_receive(0, 4096)?;
        env.meet("taken")?;
        env.meet("told")?;
    }
    end.close()
}
