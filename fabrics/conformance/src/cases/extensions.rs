//! What Viaduct adds to the specification: memory from the fabric, flow control, splitting.

use std::sync::Arc;

use viaduct_provider::via::{
    MemoryAttributes, MemoryHandle, Queue, ReliabilityLevel, Status, ViState,
};
use viaduct_provider::{ControlSegment, Done, ErrorCode, ReturnCode, Segment, ViHandle, control};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, holds, refused, skip};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::{Block, free_shared, pattern};
use crate::pair::{End, Nic, Options, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        127,
        Level::Decision,
        "memory_of_the_fabric_is_like_any_other",
        &[shared_side, shared_side],
    ),
    Case::pair(
        128,
        Level::Decision,
        "flow_control_defers_sends",
        &[deferred_sender, deferred_receiver],
    ),
    Case::pair(
        129,
        Level::Decision,
        "request_splitting_continues_in_the_next_receive",
        &[split_sender, split_receiver],
    ),
    Case::pair(
        130,
        Level::Decision,
        "deferred_sends_are_flushed_in_order",
        &[deferred_and_left, never_posting],
    ),
    Case {
        kills: true,
        ..Case::pair(
            148,
            Level::Decision,
            "receives_half_filled_by_a_peer_that_dies_have_failed",
            &[dies_sending, has_half],
        )
    },
    Case::pair(
        149,
        Level::Decision,
        "each_receive_of_a_split_message_that_fails_says_its_own_error",
        &[sends_too_much, has_bad_receives],
    ),
];

/// Memory that the fabric allocates; `None` where it allocates none.
pub(super) fn of_fabric(env: &Environment, nic: &Nic, length: usize) -> Outcome<Option<Block>> {
    match env.provider().allocate_shared(nic.handle, length) {
        Err(error) if error.code() == ReturnCode::NotSupported => Ok(None),
        address => {
            let address = address?.as_ptr().expose_provenance();
            Ok(Some(Block::of_fabric(address, length)))
        }
    }
}

fn shared_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let Some(block) = of_fabric(env, &nic, 256 << 10)? else {
        return skip("the fabric allocates no memory");
    };
    let handle = block.register(env, nic.handle, &MemoryAttributes::local(nic.tag))?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let segment = |offset: u64, length: usize| Segment {
        address: block.address() + offset,
        handle: handle.bits(),
        length: length as u32,
    };
    for size in [0, 8, 64, 5000, 100_000_u32] {
        let size = size.min(nic.transfer_max()) as usize;
        let receive = end.post_to_receive(end.work(1)?.receive(&[segment(128 << 10, size)]))?;
        env.meet("posted")?;
        block.write(0, &pattern(env.side() as u64, size));
        end.sent_well(end.post(end.work(1)?.send(&[segment(0, size)]))?)?;
        let control = end.received(receive)?.control;
        equal_status(control.status, status::RECEIVED, "a receive")?;
        let expected = pattern(1 - env.side() as u64, size);
        equal_bytes(
            &block.read(128 << 10, size),
            &expected,
            "the data of a receive",
        )?;
        env.meet("received")?;
    }
    end.close()?;
    let early = free_shared(env, nic.handle, block);
    refused(
        early,
        ReturnCode::Resource,
        "giving back memory that is registered",
    )?;
    fabric.deregister_memory(nic.handle, block.as_pointer(), handle)?;
    free_shared(env, nic.handle, block)?;
    let foreign = Block::new(env, 4096)?;
    let refusal = free_shared(env, nic.handle, foreign);
    refused(
        refusal,
        ReturnCode::InvalidParameter,
        "giving back memory of another maker",
    )?;
    equal(
        handle != MemoryHandle::from_bits(0),
        true,
        "a handle other than 0",
    )
}

/// Switches an extension on, or skips the case where the fabric lacks it.
pub(super) fn enable(
    env: &Environment,
    vi: ViHandle,
    set: fn(&dyn viaduct_provider::Provider, ViHandle) -> viaduct_provider::Result<()>,
) -> Outcome {
    match set(env.provider(), vi) {
        Err(error) if error.code() == ReturnCode::NotSupported => {
            skip("the fabric lacks the extension")
        }
        result => Ok(result?),
    }
}

fn flow_controlled(env: &Arc<Environment>, nic: &Nic) -> Outcome<End> {
    nic.need(UD)?;
    let end = End::new(env, nic, Options::level(UD))?;
    enable(env, end.vi, |fabric, vi| fabric.set_flow_control(vi, true))?;
    end.connect()?;
    Ok(end)
}

fn deferred_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = flow_controlled(env, &nic)?;
    let set = env.provider().set_flow_control(end.vi, false);
    refused(
        set,
        ReturnCode::InvalidState,
        "switching flow control while connected",
    )?;
    let sends = (0..5)
        .map(|index| {
            end.fill(index * 64, 64, index as u64);
            end.post_send(index * 64, 64)
        })
        .collect::<Outcome<Vec<_>>>()?;
    env.sleep(30);
    equal(
        end.done(Queue::Send)?,
        Done::NotDone,
        "a send that waits for a receive",
    )?;
    env.meet("deferred")?;
    for send in sends {
        end.sent_well(send)?;
    }
    end.close()
}

fn deferred_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = flow_controlled(env, &nic)?;
    env.meet("deferred")?;
    for index in 0..5 {
        env.sleep(5);
        let receive = end.post_receive(0, 64)?;
        end.received_bytes(receive, 0, &pattern(index, 64))?;
    }
    end.close()
}

fn deferred_and_left(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = flow_controlled(env, &nic)?;
    let sends = [0; 3].map(|_| end.post_send(0, 64));
    let receives = [0; 5].map(|_| end.post_receive(0, 64));
    env.sleep(20);
    env.provider().disconnect(end.vi)?;
    for send in sends {
        let bits = end.sent(send?)?.control.status;
        equal_status(bits, status::DONE | status::FLUSHED, "a deferred send")?;
    }
    for receive in receives {
        let bits = end.received(receive?)?.control.status;
        equal_status(
            bits,
            0x0001_0000 | status::DONE | status::FLUSHED,
            "a receive",
        )?;
    }
    equal(end.done(Queue::Send)?, Done::Empty, "the send queue")?;
    end.is_in(ViState::Idle)?;
    env.meet("left")
}

fn never_posting(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = flow_controlled(env, &nic)?;
    env.meet("left")?;
    end.comes_to(ViState::Error)
}

const SPLIT: usize = 1000;

/// The status bit of a receive whose message goes on in the next one.
pub(super) const CONTINUES: u32 = Status::CONTINUES.bits();

/// A connected VI whose messages may take several receives.
pub(super) fn splitting(env: &Arc<Environment>, nic: &Nic) -> Outcome<End> {
    nic.need(UD)?;
    splitting_at(env, nic, Options::level(UD))
}

fn splitting_at(env: &Arc<Environment>, nic: &Nic, options: Options) -> Outcome<End> {
    let end = End::new(env, nic, options)?;
    enable(env, end.vi, |fabric, vi| {
        fabric.set_request_splitting(vi, true)
    })?;
    end.connect()?;
    Ok(end)
}

fn split_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = splitting(env, &nic)?;
    end.fill(0, SPLIT, 129);
    env.meet("posted")?;
    end.sent_well(end.post_send(0, SPLIT)?)?;
    end.sent_well(end.post_send(0, 100)?)?;
    end.close()
}

/// A message of 1000 bytes takes two whole receives of 400 and 200 bytes of a third.
fn split_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = splitting(env, &nic)?;
    let receives = (0..4)
        .map(|n| end.post_receive(n * 400, 400))
        .collect::<Outcome<Vec<_>>>()?;
    env.meet("posted")?;
    let message = pattern(129, SPLIT);
    for (index, length) in [400, 400, 200].into_iter().enumerate() {
        let taken = end.received(receives[index])?;
        let continues = if index < 2 { CONTINUES } else { 0 };
        let expected = status::RECEIVED | continues;
        equal_status(taken.control.status, expected, format_args!("part {index}"))?;
        equal(
            taken.control.length,
            length as u32,
            format_args!("bytes of part {index}"),
        )?;
        let bytes = &message[index * 400..index * 400 + length];
        equal_bytes(
            &end.data.read(index * 400, length),
            bytes,
            "the data of a part",
        )?;
    }
    end.received_bytes(receives[3], 1200, &message[..100])?;
    end.close()
}

/// More than fits between two processes at once.
const LONG_BYTES: u32 = 24 << 20;

fn splits_long(env: &Arc<Environment>, nic: &Nic, level: ReliabilityLevel) -> Outcome<End> {
    let bytes = nic.attributes.max_transfer_bytes.min(LONG_BYTES);
    let options = Options {
        transfer_max: bytes,
        ..Options::level(level).bytes(bytes as usize)
    };
    splitting_at(env, nic, options)
}

fn dies_sending(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = splits_long(env, &nic, level)?;
        env.meet("posted")?;
        end.fill(0, end.data.length(), 148);
        end.post_send(0, end.data.length())?;
    }
    env.die()
}

fn has_half(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    let mut ends = Vec::new();
    for level in nic.levels() {
        let end = splits_long(env, &nic, level)?;
        let half = end.data.length() / 2;
        let receives = [
            end.post_receive(0, half)?,
            end.post_receive(half, end.data.length() - half)?,
        ];
        env.meet("posted")?;
        ends.push((level, end, receives));
    }
    for (level, end, receives) in ends {
        let message = pattern(148, end.data.length());
        for (index, receive) in receives.into_iter().enumerate() {
            let taken = end.received(receive)?;
            let bits = taken.control.status;
            // What was begun before its first byte is there is not to be seen.
            let has_begun = end.data.read(0, 64) == message[..64];
            let allowed: &[u32] = match bits & status::ERROR_MASK {
                0 => {
                    let all = end.data.read(0, message.len());
                    equal_bytes(&all, &message, "a message whose sender has died")?;
                    continue;
                }
                // Its end was seen, or no end was.
                _ if level == UD => &[status::PARTIAL_ERROR, status::FLUSHED],
                _ if has_begun => &[status::PARTIAL_ERROR, status::TRANSPORT_ERROR],
                _ => &[
                    status::PARTIAL_ERROR,
                    status::TRANSPORT_ERROR,
                    status::FLUSHED,
                ],
            };
            holds(
                allowed.contains(&(bits & status::ERROR_MASK)),
                format_args!("receive {index} at {level:?} with status {bits:#010x}"),
            )?;
        }
        end.comes_to(ViState::Error)?;
        errors.about_vi(env, nic.handle, end.vi, ErrorCode::ConnectionLost)?;
    }
    Ok(())
}

/// A message of 1000 bytes for six receives, of which two may not be used; a malformed one holds
/// nothing.
fn sends_too_much(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = splitting(env, &nic)?;
    env.meet("posted")?;
    end.sent_well(end.post_send(0, SPLIT)?)?;
    end.sent_well(end.post_send(0, 100)?)?;
    end.close()
}

fn has_bad_receives(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = splitting(env, &nic)?;
    let good = |offset| end.post_receive(offset, 200);
    let not_ours = Segment {
        handle: u32::MAX,
        ..end.segment(200, 200)
    };
    let malformed = end.work(1)?.receive(&[end.segment(600, 200)]);
    malformed.set_control(ControlSegment {
        control: control::OPERATION_MASK,
        ..malformed.control()
    });
    let unusable = end.work(1)?.receive(&[not_ours]);
    let works = [
        (good(0)?, status::PARTIAL_ERROR),
        (end.post_to_receive(unusable)?, status::PROTECTION_ERROR),
        (good(400)?, status::PARTIAL_ERROR),
        (end.post_to_receive(malformed)?, status::FORMAT_ERROR),
        (good(600)?, status::PARTIAL_ERROR),
        (good(800)?, status::PARTIAL_ERROR),
    ];
    let next = end.post_receive(0, 200)?;
    env.meet("posted")?;
    for (index, (receive, error)) in works.into_iter().enumerate() {
        let taken = end.received(receive)?;
        let expected = status::RECEIVED | error;
        equal_status(taken.control.status, expected, format_args!("part {index}"))?;
    }
    equal(
        end.received(next)?.control.length,
        100,
        "bytes of the next message",
    )?;
    end.close()
}
