//! Descriptors that are wrong in themselves or name what they may not: cases 36 to 38.

use std::sync::Arc;

use viaduct_provider::via::{MemoryAttributes, Queue, ViState};
use viaduct_provider::{ControlSegment, Done, Segment, control};

use crate::case::{Case, Level};
use crate::check::{Outcome, Stop, equal, equal_status};
use crate::environment::Environment;
use crate::memory::{Block, Work, pattern};
use crate::pair::{End, Nic, Options, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        36,
        Level::EarlyAdopter,
        "wrong_length_of_a_send_is_an_error",
        &[wrong_length_sender, one_good_receiver],
    ),
    Case::pair(
        37,
        Level::EarlyAdopter,
        "malformed_descriptors_complete_in_error",
        &[malformed_sender, malformed_receiver],
    ),
    Case::pair(
        38,
        Level::Functional,
        "sends_outside_protection_are_errors",
        &[unprotected_sender, one_good_receiver],
    ),
];

/// The bytes of the one message that arrives after those that must not.
const GOOD: (u64, usize) = (0x600D, 50);

/// Receives exactly one message: what came before it was not sent.
fn one_good_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let receive = end.post_receive(0, 16 << 10)?;
    env.meet("posted")?;
    end.received_bytes(receive, 0, &pattern(GOOD.0, GOOD.1))?;
    end.is_in(ViState::Connected)?;
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after one message",
    )?;
    end.close()
}

/// Posts sends that fail, each in its way, and a good one after them.
fn bad_sends(env: &Arc<Environment>, end: &End, bad: &[(Work, u32, &str)]) -> Outcome {
    for (work, error, what) in bad {
        let send = end.post(*work)?;
        let control = end.sent(send)?.control;
        let errors = control.status & status::ERROR_MASK;
        equal_status(errors, *error, format_args!("the error of {what}"))?;
        end.is_in(ViState::Connected)?;
    }
    env.meet("posted")?;
    end.fill(0, GOOD.1, GOOD.0);
    end.sent_well(end.post_send(0, GOOD.1)?).map(drop)
}

fn wrong_length_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let max = nic.transfer_max();
    let end = pair(env, &nic, Options::level(UD).bytes(max as usize + 64))?;
    let send = |length: u32| {
        Ok::<_, Stop>(
            end.work(1)?
                .send(&[end.segment(0, 100)])
                .with_length(length),
        )
    };
    let too_long = end.work(1)?.send(&[end.segment(0, max as usize + 1)]);
    let bad = [
        (send(99)?, status::LENGTH_ERROR, "a length one too small"),
        (send(101)?, status::LENGTH_ERROR, "a length one too large"),
        (send(0)?, status::LENGTH_ERROR, "a length of 0"),
        (send(u32::MAX)?, status::LENGTH_ERROR, "the longest length"),
        (
            end.work(0)?.send(&[]).with_length(1),
            status::LENGTH_ERROR,
            "a length without a segment",
        ),
        (
            too_long,
            status::LENGTH_ERROR,
            "a message one byte above the VI's limit",
        ),
    ];
    bad_sends(env, &end, &bad)?;
    end.close()
}

fn malformed_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD).rdma_write())?;
    let plain = || Ok::<_, Stop>(end.work(2)?.send(&[end.segment(0, 10)]));
    let flags = |bits: u16| {
        let work = plain()?;
        work.set_control(ControlSegment {
            control: bits,
            ..work.control()
        });
        Ok::<_, Stop>(work)
    };
    let error = status::FORMAT_ERROR;
    let no_address = end.work(2)?.send(&[]);
    no_address.set_control(ControlSegment {
        control: control::RDMA_WRITE,
        ..no_address.control()
    });
    let remote = Segment {
        address: end.data.address(),
        handle: end.handle.bits(),
        length: 0,
    };
    let mut bad = vec![
        (flags(control::OPERATION_MASK)?, error, "operation 3"),
        (flags(0x8000)?, error, "a reserved bit"),
        (flags(0x0010)?, error, "the lowest reserved bit"),
        (
            no_address,
            error,
            "a remote write without an address segment",
        ),
        (
            end.work(2)?
                .rdma_read(remote, &[end.segment(0, 8)])
                .immediate(1),
            error,
            "a remote read with immediate data",
        ),
    ];
    if let Some(segments) = above_limit(&end)? {
        bad.push((segments, error, "one segment too many"));
    }
    bad_sends(env, &end, &bad)?;
    env.meet("malformed receive posted")?;
    // As many messages as the other side may use: a malformed receive may be found when it is
    // posted, or when a message comes for it.
    for _ in 0..2 {
        end.sent_well(end.post_send(0, GOOD.1)?)?;
    }
    end.close()
}

/// A send of one segment more than the NIC takes, all of them empty.
fn above_limit(end: &End) -> Outcome<Option<Work>> {
    let count = end.nic.attributes.max_segments_per_descriptor as usize + 1;
    if count > usize::from(u16::MAX) {
        return Ok(None);
    }
    Ok(Some(end.work(count)?.send(&vec![end.segment(0, 0); count])))
}

fn malformed_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD).rdma_write())?;
    let receive = end.post_receive(0, 16 << 10)?;
    env.meet("posted")?;
    end.received_bytes(receive, 0, &pattern(GOOD.0, GOOD.1))?;
    let remote = Segment {
        address: end.data.address(),
        handle: end.handle.bits(),
        length: 0,
    };
    let bad = end.post_to_receive(end.work(2)?.rdma_write(remote, &[end.segment(0, 64)]))?;
    let good = end.post_receive(0, 64)?;
    env.meet("malformed receive posted")?;
    let control = end.received(bad)?.control;
    let errors = control.status & status::ERROR_MASK;
    equal_status(
        errors,
        status::FORMAT_ERROR,
        "the error of a remote write as a receive",
    )?;
    end.received_bytes(good, 0, &pattern(GOOD.0, GOOD.1))?;
    end.is_in(ViState::Connected)?;
    end.close()
}

fn unprotected_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let error = status::PROTECTION_ERROR;
    let fabric = env.provider();
    // Whole pages beside the region, so that a check by page would be found out.
    let region = Block::new(env, 3 * 4096)?;
    let local = MemoryAttributes::local(nic.tag);
    let small = Block::new(env, 4096 + 1)?;
    let small_handle = small.register(env, nic.handle, &local)?;
    let dead = region.register(env, nic.handle, &local)?;
    fabric.deregister_memory(nic.handle, region.as_pointer(), dead)?;
    let other_tag = fabric.create_protection_tag(nic.handle)?;
    let other = region.register(env, nic.handle, &MemoryAttributes::local(other_tag))?;
    let second = Nic::open(env)?;
    let foreign = region.register(env, second.handle, &MemoryAttributes::local(second.tag))?;
    let send = |address: u64, handle: u32, length: u32| {
        let segment = Segment {
            address,
            handle,
            length,
        };
        Ok::<_, Stop>(end.work(1)?.send(&[segment]))
    };
    let small_bits = small_handle.bits();
    let bad = [
        (
            send(small.address(), small_bits, 4098)?,
            error,
            "one byte past the end",
        ),
        (
            send(small.address() + 4097, small_bits, 1)?,
            error,
            "the byte past the end",
        ),
        (
            send(small.address() - 1, small_bits, 2)?,
            error,
            "one byte before the start",
        ),
        (
            send(u64::MAX, small_bits, 2)?,
            error,
            "a range that wraps around",
        ),
        (send(0, small_bits, 1)?, error, "address 0"),
        (
            send(region.address(), dead.bits(), 8)?,
            error,
            "a region that ended",
        ),
        (send(region.address(), 0, 8)?, error, "handle 0"),
        (
            send(region.address(), u32::MAX, 8)?,
            error,
            "a handle that never was",
        ),
        (
            send(region.address(), other.bits(), 8)?,
            error,
            "a region of another tag",
        ),
        (
            send(region.address(), foreign.bits(), 8)?,
            error,
            "a region of another NIC handle",
        ),
        (
            end.work(2)?.send(&[
                end.segment(0, 8),
                Segment {
                    address: region.address(),
                    handle: other.bits(),
                    length: 8,
                },
            ]),
            error,
            "a second segment of another tag",
        ),
    ];
    bad_sends(env, &end, &bad)?;
    end.close()
}
