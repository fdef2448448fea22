//! Asynchronous errors: cases 66 to 68.

use std::sync::Arc;

use viaduct_provider::via::{MemoryAttributes, MemoryHandle, Queue};
use viaduct_provider::{Done, ErrorCode, ResourceCode, ReturnCode};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_status, holds, refused, skip};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::{Block, Work, pattern};
use crate::pair::{End, Nic, Options, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::alone(
        66,
        Level::Functional,
        "bad_descriptor_address_is_told_and_not_queued",
        &[bad_address],
    ),
    Case::alone(
        67,
        Level::Functional,
        "overrun_is_told_and_loses_nothing",
        &[overrun],
    ),
    Case::pair(
        68,
        Level::Functional,
        "replaced_handler_is_not_called",
        &[dropped_twice, replaced_handler],
    ),
    Case::pair(
        104,
        Level::Decision,
        "descriptor_memory_gone_before_completion_is_told",
        &[one_message, descriptor_gone],
    ),
    Case::pair(
        105,
        Level::Functional,
        "handler_may_call_the_fabric",
        &[dropped_twice, calling_handler],
    ),
    Case::pair(
        106,
        Level::Functional,
        "each_nic_handle_has_its_own_handler",
        &[leaves_one, two_handlers],
    ),
];

fn bad_address(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let block = Block::new(env, 4096)?;
    let local = MemoryAttributes::local(nic.tag);
    let handle = block.register(env, nic.handle, &local)?;
    let dead = block.register(env, nic.handle, &local)?;
    env.provider()
        .deregister_memory(nic.handle, block.as_pointer(), dead)?;
    let outside = Block::new(env, 4096)?;
    let good = end.segment(0, 64);
    let place = |offset, handle| Work::at(block, offset, 1, handle).receive(&[good]);
    let bad = [
        (place(8, handle), "a descriptor at 8 past a multiple of 64"),
        (
            place(96, handle),
            "a descriptor at 32 past a multiple of 64",
        ),
        (place(0, dead), "a descriptor under a dead handle"),
        (
            place(0, MemoryHandle::from_bits(0)),
            "a descriptor under handle 0",
        ),
        (
            Work::at(outside, 0, 1, handle).receive(&[good]),
            "a descriptor outside its handle's region",
        ),
    ];
    for (count, (work, what)) in bad.into_iter().enumerate() {
        let posted = work.post_receive(env, end.vi);
        refused(
            posted,
            ReturnCode::InvalidParameter,
            format_args!("{what}, as a receive"),
        )?;
        let posted = work.post_send(env, end.vi);
        refused(
            posted,
            ReturnCode::InvalidParameter,
            format_args!("{what}, as a send"),
        )?;
        let told = env.until(
            format_args!("two calls of the error handler for {what}"),
            || {
                let told = errors.with(ErrorCode::PostDescriptor);
                Ok((told.len() >= 2 * (count + 1)).then_some(told))
            },
        )?;
        equal(told.len(), 2 * (count + 1), "how often POST_DESC was told")?;
        let last = &told[told.len() - 1];
        equal(
            last.resource,
            ResourceCode::Descriptor,
            "the resource of POST_DESC",
        )?;
        equal(last.nic, nic.handle, "the NIC of POST_DESC")?;
        let address = last.descriptor.map(|pointer| pointer.as_ptr() as u64);
        equal(address, Some(work.address()), "the descriptor of POST_DESC")?;
    }
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after it",
    )?;
    equal(
        end.done(Queue::Send)?,
        Done::Empty,
        "the send queue after it",
    )?;
    let receive = end.post_receive(0, 64)?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "a good receive after it",
    )?;
    env.provider().disconnect(end.vi)?;
    end.received(receive).map(drop)
}

fn overrun(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let limit = nic.attributes.max_descriptors_per_queue;
    if limit > 1 << 17 {
        return skip(format!(
            "{limit} descriptors in a queue are too many to try"
        ));
    }
    let errors = Errors::of(env, nic.handle)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let posted: Vec<Work> = (0..limit)
        .map(|_| end.post_receive(0, 8))
        .collect::<Outcome<_>>()?;
    let more = end.work(1)?.receive(&[end.segment(0, 8)]);
    for _ in 0..2 {
        let refusal = more.post_receive(env, end.vi);
        refused(
            refusal,
            ReturnCode::Resource,
            "one descriptor more than the queue holds",
        )?;
    }
    errors.about_vi(env, nic.handle, end.vi, ErrorCode::ViOverrun)?;
    env.provider().disconnect(end.vi)?;
    for receive in posted {
        let control = end.received(receive)?.control;
        holds(
            control.status & status::FLUSHED != 0,
            "a receive that was flushed",
        )?;
    }
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after all of them",
    )?;
    // There is room again.
    end.post_receive(0, 8).map(drop)
}

/// Sends two messages that meet no receive, when it is told to.
fn dropped_twice(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    for _ in 0..2 {
        env.meet("ready")?;
        end.sent_well(end.post_send(0, 8)?)?;
        env.meet("sent")?;
    }
    end.close()
}

fn replaced_handler(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let first = Errors::of(env, nic.handle)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let second = Errors::of(env, nic.handle)?;
    env.meet("ready")?;
    env.meet("sent")?;
    second.about_vi(env, nic.handle, end.vi, ErrorCode::ReceiveQueueEmpty)?;
    equal(
        first.count(end.vi, ErrorCode::ReceiveQueueEmpty),
        0,
        "calls of the first handler",
    )?;
    // None brings back the one that logs.
    env.provider().set_error_handler(nic.handle, None)?;
    env.meet("ready")?;
    env.meet("sent")?;
    env.sleep(50);
    equal(
        second.count(end.vi, ErrorCode::ReceiveQueueEmpty),
        1,
        "calls of the second handler",
    )?;
    end.close()
}

fn one_message(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    env.meet("deregistered")?;
    end.fill(0, 32, 104);
    end.sent_well(end.post_send(0, 32)?)?;
    env.meet("noticed")
}

fn descriptor_gone(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let errors = Errors::of(env, nic.handle)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let block = Block::new(env, 64)?;
    let local = MemoryAttributes::local(nic.tag);
    let handle = block.register(env, nic.handle, &local)?;
    let receive = Work::at(block, 0, 1, handle).receive(&[end.segment(0, 64)]);
    end.post_to_receive(receive)?;
    env.provider()
        .deregister_memory(nic.handle, block.as_pointer(), handle)?;
    let before = receive.control();
    env.meet("deregistered")?;
    env.until(
        "a call of the error handler with CompletionProtection",
        || {
            // A fabric may notice when it is asked for the descriptor.
            end.done(Queue::Receive)?;
            Ok(errors
                .with(ErrorCode::CompletionProtection)
                .first()
                .copied())
        },
    )?;
    let after = receive.control();
    equal_status(
        after.status,
        before.status,
        "a descriptor in memory that is not registered",
    )?;
    equal(after.length, before.length, "the length of that descriptor")?;
    env.meet("noticed")
}

/// Posts a receive and queries the VI from within the handler.
fn calling_handler(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let receive = end.work(1)?.receive(&[end.segment(0, 64)]);
    let (vi, inner) = (end.vi, env.clone());
    env.provider().set_error_handler(
        nic.handle,
        Some(Arc::new(move |error| {
            if error.code == ErrorCode::ReceiveQueueEmpty
                && inner
                    .provider()
                    .query_vi(vi)
                    .is_ok_and(|vi| vi.receive_queue_empty)
            {
                // A refusal shows as a receive that never comes.
                let _ = receive.post_receive(&inner, vi);
            }
        })),
    )?;
    env.meet("ready")?;
    env.meet("sent")?;
    env.until("the receive that the handler posts", || {
        Ok((!env.provider().query_vi(vi)?.receive_queue_empty).then_some(()))
    })?;
    env.meet("ready")?;
    end.received_bytes(receive, 0, &[0; 8])?;
    env.meet("sent")?;
    env.provider().set_error_handler(nic.handle, None)?;
    end.close()
}

fn leaves_one(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let (first, second) = (
        pair(env, &nic, Options::level(level))?,
        pair(env, &nic, Options::level(level))?,
    );
    env.provider().disconnect(second.vi)?;
    env.meet("noticed")?;
    first.fill(0, 8, 106);
    first.sent_well(first.post_send(0, 8)?)?;
    first.close()
}

fn two_handlers(env: &Arc<Environment>) -> Outcome {
    let nics = [Nic::open(env)?, Nic::open(env)?];
    let level = nics[0].any_level()?;
    let errors = [
        Errors::of(env, nics[0].handle)?,
        Errors::of(env, nics[1].handle)?,
    ];
    let first = pair(env, &nics[0], Options::level(level))?;
    let second = pair(env, &nics[1], Options::level(level))?;
    let receive = first.post_receive(0, 64)?;
    errors[1].about_vi(env, nics[1].handle, second.vi, ErrorCode::ConnectionLost)?;
    equal(
        errors[0].with(ErrorCode::ConnectionLost).len(),
        0,
        "calls of the other NIC's handler",
    )?;
    env.meet("noticed")?;
    first.received_bytes(receive, 0, &pattern(106, 8))?;
    first.close()
}
