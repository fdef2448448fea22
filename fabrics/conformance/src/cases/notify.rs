//! Notify handlers: cases 72 to 75.

use std::sync::{Arc, Mutex};

use viaduct_provider::via::{Queue, ViState};
use viaduct_provider::{
    CompletionEntry, CompletionQueueHandle, Done, NicHandle, ReturnCode, ViHandle,
};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_status, holds, refused};
use crate::environment::{Environment, lock};
use crate::memory::{Work, pattern};
use crate::pair::{End, Nic, Options, milliseconds, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        72,
        Level::Full,
        "notify_takes_the_entry_that_is_there",
        &[three_messages, waiting_entry],
    ),
    Case::pair(
        73,
        Level::Full,
        "two_notifies_take_two_entries",
        &[three_messages, two_armed],
    ),
    Case::pair(
        74,
        Level::Full,
        "pending_notifies_at_the_end",
        &[leaving_peer, pending_at_end],
    ),
    Case::pair(
        75,
        Level::Full,
        "receive_notify_hands_over_the_descriptor",
        &[three_messages, receive_handler],
    ),
    Case::pair(
        110,
        Level::Full,
        "send_notify_hands_over_the_descriptor",
        &[sending_handler, three_receives],
    ),
    Case::pair(
        111,
        Level::Full,
        "notify_handler_may_arm_the_next",
        &[three_messages, rearming],
    ),
];

/// What the handlers of a case were called with, in order.
#[derive(Clone, Debug)]
struct Calls<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Calls<T> {
    fn add(&self, call: T) {
        lock(&self.0).push(call);
    }

    fn all(&self) -> Vec<T> {
        lock(&self.0).clone()
    }

    /// Waits for so many calls, and a moment longer for one too many.
    #[track_caller]
    fn exactly(&self, env: &Environment, count: usize) -> Outcome<Vec<T>> {
        env.until(format_args!("call {count} of a handler"), || {
            Ok((self.all().len() >= count).then_some(()))
        })?;
        env.sleep(30);
        equal(self.all().len(), count, "calls of handlers")?;
        Ok(self.all())
    }
}

type EntryCalls = Calls<(u32, NicHandle, CompletionEntry)>;

/// Arms a handler of a completion queue that says that it is number `which`.
fn arm(
    env: &Environment,
    queue: CompletionQueueHandle,
    calls: &EntryCalls,
    which: u32,
) -> viaduct_provider::Result<()> {
    let calls = calls.clone();
    env.provider().completion_notify(
        queue,
        Box::new(move |nic, entry| calls.add((which, nic, entry))),
    )
}

type DescriptorCalls = Calls<(NicHandle, ViHandle, u64)>;

/// Arms a handler of a work queue.
fn arm_work(
    env: &Environment,
    (vi, queue): (ViHandle, Queue),
    calls: &DescriptorCalls,
) -> viaduct_provider::Result<()> {
    let calls = calls.clone();
    let handler: viaduct_provider::DescriptorHandler = Box::new(move |nic, vi, descriptor| {
        calls.add((nic, vi, descriptor.as_ptr() as u64));
    });
    match queue {
        Queue::Send => env.provider().send_notify(vi, handler),
        Queue::Receive => env.provider().receive_notify(vi, handler),
    }
}

/// Sends three messages, each when it is told to.
fn three_messages(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    for index in 0..3 {
        env.meet("next")?;
        end.fill(0, 16, index);
        end.sent_well(end.post_send(0, 16)?)?;
        env.meet("sent")?;
    }
    end.close()
}

/// An end whose receives go to a completion queue, with three receives posted.
fn bound(env: &Arc<Environment>) -> Outcome<(End, CompletionQueueHandle, Vec<Work>)> {
    let nic = Nic::open(env)?;
    let queue = env.provider().create_completion_queue(nic.handle, 16)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    let receives = (0..3)
        .map(|n| end.post_receive(n * 64, 64))
        .collect::<Outcome<_>>()?;
    Ok((end, queue, receives))
}

fn next_message(env: &Environment) -> Outcome {
    env.meet("next")?;
    env.meet("sent")
}

fn waiting_entry(env: &Arc<Environment>) -> Outcome {
    let (end, queue, receives) = bound(env)?;
    let calls = EntryCalls::default();
    next_message(env)?;
    // By the bytes, so that the entry is not taken.
    let first = pattern(0, 16);
    env.until("the first message", || {
        Ok((end.data.read(0, 16) == first).then_some(()))
    })?;
    arm(env, queue, &calls, 1)?;
    let seen = calls.exactly(env, 1)?;
    let entry = CompletionEntry {
        vi: end.vi,
        queue: Queue::Receive,
    };
    equal(
        seen[0],
        (1, end.nic.handle, entry),
        "what the handler was called with",
    )?;
    equal(
        env.provider().completion_done(queue)?,
        None,
        "the entry after the handler",
    )?;
    let taken = crate::pair::taken(env, end.done(Queue::Receive)?)?;
    equal(
        taken.address,
        receives[0].address(),
        "the descriptor of the entry",
    )?;
    next_message(env)?;
    next_message(env)?;
    env.sleep(30);
    equal(
        calls.all().len(),
        1,
        "calls of a handler that was armed once",
    )?;
    end.close()
}

fn two_armed(env: &Arc<Environment>) -> Outcome {
    let (end, queue, receives) = bound(env)?;
    let calls = EntryCalls::default();
    arm(env, queue, &calls, 1)?;
    arm(env, queue, &calls, 2)?;
    env.sleep(20);
    equal(calls.all().len(), 0, "calls before any message")?;
    for _ in 0..3 {
        next_message(env)?;
    }
    let seen = calls.exactly(env, 2)?;
    let mut which: Vec<u32> = seen.iter().map(|(which, ..)| *which).collect();
    which.sort_unstable();
    equal(
        which,
        vec![1, 2],
        "the handlers that were called, each once",
    )?;
    // The third entry is nobody's, and is there.
    let entry = env.provider().completion_wait(queue, milliseconds(6000))?;
    equal(
        (entry.vi, entry.queue),
        (end.vi, Queue::Receive),
        "the third entry",
    )?;
    for receive in receives {
        end.received(receive)?;
    }
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry too many",
    )?;
    end.close()
}

fn leaving_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("armed")?;
    env.meet("over")?;
    end.comes_to(ViState::Error)?;
    env.meet("noticed")
}

fn pending_at_end(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let queue = fabric.create_completion_queue(nic.handle, 8)?;
    let entries = EntryCalls::default();
    arm(env, queue, &entries, 1)?;
    fabric.destroy_completion_queue(queue)?;
    let refusal = arm(env, queue, &entries, 2);
    refused(
        refusal,
        ReturnCode::InvalidParameter,
        "a notify on a destroyed queue",
    )?;

    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
    let calls = DescriptorCalls::default();
    arm_work(env, (end.vi, Queue::Receive), &calls)?;
    env.meet("armed")?;
    fabric.disconnect(end.vi)?;
    let seen = calls.exactly(env, 1)?;
    let expected = (nic.handle, end.vi, receives[0].address());
    equal(
        seen[0],
        expected,
        "what the handler was called with at the end",
    )?;
    let flushed = receives[0].control().status & status::FLUSHED;
    equal_status(
        flushed,
        status::FLUSHED,
        "the descriptor that the handler got",
    )?;
    end.received(receives[1])?;
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "the receive queue after it",
    )?;
    equal(
        entries.all().len(),
        0,
        "calls of a handler whose queue was destroyed",
    )?;
    env.meet("over")?;
    env.meet("noticed")
}

fn receive_handler(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let receives = [0, 64, 128].map(|offset| end.post_receive(offset, 64));
    let [first, second, third] = receives;
    let (first, second, third) = (first?, second?, third?);
    let calls = DescriptorCalls::default();
    arm_work(env, (end.vi, Queue::Receive), &calls)?;
    next_message(env)?;
    let seen = calls.exactly(env, 1)?;
    equal(
        seen[0],
        (nic.handle, end.vi, first.address()),
        "what the handler was called with",
    )?;
    equal_status(
        first.control().status,
        status::RECEIVED,
        "the descriptor of the handler",
    )?;
    equal(
        end.data.read(0, 16),
        pattern(0, 16),
        "the data of the receive",
    )?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "the queue after the handler",
    )?;
    // A head that is complete already fires at once.
    next_message(env)?;
    let bytes = pattern(1, 16);
    env.until("the second message", || {
        Ok((end.data.read(64, 16) == bytes).then_some(()))
    })?;
    arm_work(env, (end.vi, Queue::Receive), &calls)?;
    let seen = calls.exactly(env, 2)?;
    equal(
        seen[1].2,
        second.address(),
        "the descriptor of the second call",
    )?;
    next_message(env)?;
    end.received_bytes(third, 128, &pattern(2, 16))?;
    equal(
        calls.all().len(),
        2,
        "calls of handlers that were armed twice",
    )?;
    end.close()
}

fn three_receives(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let receives = [0; 3].map(|_| end.post_receive(0, 64));
    env.meet("posted")?;
    for receive in receives {
        end.received(receive?)?;
    }
    end.close()
}

fn sending_handler(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("posted")?;
    let calls = DescriptorCalls::default();
    let mut sends = Vec::new();
    for count in 1..=3 {
        // Armed before the send once, after it the other times.
        if count == 1 {
            arm_work(env, (end.vi, Queue::Send), &calls)?;
        }
        sends.push(end.post_send(0, 16)?);
        if count > 1 {
            arm_work(env, (end.vi, Queue::Send), &calls)?;
        }
        let seen = calls.exactly(env, count)?;
        let expected = (nic.handle, end.vi, sends[count - 1].address());
        equal(
            seen[count - 1],
            expected,
            "what the handler was called with",
        )?;
    }
    equal(
        end.done(Queue::Send)?,
        Done::Empty,
        "the send queue after it",
    )?;
    end.close()
}

/// Each call of the handler arms the next.
fn rearming(env: &Arc<Environment>) -> Outcome {
    let (end, queue, receives) = bound(env)?;
    let calls = EntryCalls::default();
    arm_again(env, queue, &calls, 1)?;
    for _ in 0..3 {
        next_message(env)?;
    }
    let seen = calls.exactly(env, 3)?;
    let which: Vec<u32> = seen.iter().map(|(which, ..)| *which).collect();
    equal(which, vec![1, 2, 3], "the order of calls")?;
    for receive in receives {
        end.received(receive)?;
    }
    holds(
        env.provider().completion_done(queue)?.is_none(),
        "no entry left",
    )?;
    end.close()
}

fn arm_again(
    env: &Arc<Environment>,
    queue: CompletionQueueHandle,
    calls: &EntryCalls,
    which: u32,
) -> viaduct_provider::Result<()> {
    let (inner, calls) = (env.clone(), calls.clone());
    env.provider().completion_notify(
        queue,
        Box::new(move |nic, entry| {
            calls.add((which, nic, entry));
            if which < 3 {
                // A refusal shows as a call that never comes.
                let _ = arm_again(&inner, queue, &calls, which + 1);
            }
        }),
    )
}
