//! Completion queues: cases 54 to 60. What loads them is in `completion_load.rs`.

use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionEntry, CompletionQueueHandle, Done, ReturnCode, ViHandle};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_status, holds, refused};
use crate::environment::Environment;
use crate::memory::Work;
use crate::pair::{End, Nic, Options, milliseconds, pair, status, taken};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        54,
        Level::EarlyAdopter,
        "one_queue_merges_two_vis",
        &[merged_peer, merged],
    ),
    Case::pair(
        55,
        Level::EarlyAdopter,
        "unbound_queue_has_no_entries",
        &[receives_only_peer, receives_only],
    ),
    Case::alone(
        56,
        Level::EarlyAdopter,
        "empty_completion_queue_says_so",
        &[empty],
    ),
    Case::pair(
        57,
        Level::EarlyAdopter,
        "entry_means_descriptor_is_done",
        &[entry_peer, entry_means_done],
    ),
    Case::alone(
        58,
        Level::EarlyAdopter,
        "completion_queue_in_use_is_not_destroyed",
        &[in_use],
    ),
    Case::pair(
        59,
        Level::Functional,
        "resize_keeps_entries",
        &[resize_peer, resize],
    ),
    Case::alone(
        60,
        Level::Decision,
        "wait_on_bound_queue_is_refused",
        &[bound_wait],
    ),
    Case::pair(
        155,
        Level::Decision,
        "entry_stays_when_its_descriptor_is_taken_first",
        &[entry_peer, taken_before_entries],
    ),
];

pub(super) fn queue(env: &Environment, nic: &Nic, entries: u32) -> Outcome<CompletionQueueHandle> {
    Ok(env
        .provider()
        .create_completion_queue(nic.handle, entries)?)
}

/// Waits for the next entry.
#[track_caller]
pub(super) fn next(env: &Environment, queue: CompletionQueueHandle) -> Outcome<CompletionEntry> {
    env.until("an entry of the completion queue", || {
        Ok(env.provider().completion_done(queue)?)
    })
}

pub(super) fn entry(vi: ViHandle, queue: Queue) -> CompletionEntry {
    CompletionEntry { vi, queue }
}

const ROUNDS: usize = 10;

/// Two connections, a message each way on each in each round.
fn merged_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let ends = [
        pair(env, &nic, Options::level(level))?,
        pair(env, &nic, Options::level(level))?,
    ];
    for end in &ends {
        for _ in 0..ROUNDS {
            end.post_receive(0, 64)?;
        }
    }
    env.meet("posted")?;
    for round in 0..ROUNDS {
        for end in &ends {
            let send = end
                .work(1)?
                .send(&[end.segment(0, 64)])
                .immediate(round as u32);
            end.sent_well(end.post(send)?)?;
        }
    }
    for end in &ends {
        for _ in 0..ROUNDS {
            let taken = end.take(Queue::Receive)?;
            equal_status(taken.control.status, status::RECEIVED, "a receive")?;
        }
    }
    ends.into_iter().try_for_each(End::close)
}

fn merged(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 1024)?;
    let options = Options::level(nic.any_level()?).completions(queue);
    let ends = [pair(env, &nic, options)?, pair(env, &nic, options)?];
    let post = |send: bool| -> Outcome<Vec<Vec<Work>>> {
        ends.iter()
            .map(|end| {
                (0..ROUNDS)
                    .map(|_| {
                        if send {
                            end.post_send(512, 64)
                        } else {
                            end.post_receive(0, 64)
                        }
                    })
                    .collect()
            })
            .collect()
    };
    let receives = post(false)?;
    env.meet("posted")?;
    let sends = post(true)?;
    let mut seen = [[0; 2]; 2];
    for _ in 0..4 * ROUNDS {
        let entry = next(env, queue)?;
        let which = ends
            .iter()
            .position(|end| end.vi == entry.vi)
            .ok_or_else(|| crate::check::Stop::failed("an entry of an unknown VI"))?;
        let end = &ends[which];
        let count = &mut seen[which][entry.queue as usize];
        let taken = taken(env, end.done(entry.queue)?)?;
        let expected = match entry.queue {
            Queue::Send => sends[which][*count],
            Queue::Receive => {
                equal(
                    taken.control.immediate as usize,
                    *count,
                    "the order of messages",
                )?;
                receives[which][*count]
            }
        };
        equal(
            taken.address,
            expected.address(),
            "the descriptor of an entry",
        )?;
        *count += 1;
    }
    equal(seen, [[ROUNDS; 2]; 2], "entries by VI and queue")?;
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry too many",
    )?;
    ends.into_iter().try_for_each(End::close)
}

fn receives_only_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
    env.meet("posted")?;
    for receive in receives {
        end.received(receive)?;
        end.sent_well(end.post_send(0, 8)?)?;
    }
    end.close()
}

fn receives_only(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 16)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
    env.meet("posted")?;
    for receive in receives {
        let send = end.post_send(0, 8)?;
        let sent = env.provider().send_wait(end.vi, milliseconds(6000))?;
        equal(
            taken(env, sent)?.address,
            send.address(),
            "the send that the wait brought",
        )?;
        let got = env.provider().completion_wait(queue, milliseconds(6000))?;
        equal(got, entry(end.vi, Queue::Receive), "the entry")?;
        let done = taken(env, end.done(Queue::Receive)?)?;
        equal(done.address, receive.address(), "the receive")?;
    }
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry too many",
    )?;
    end.close()
}

fn empty(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 4)?;
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry of an empty queue",
    )?;
    let start = env.now();
    let waited = env.provider().completion_wait(queue, milliseconds(50));
    let took = env.now() - start;
    refused(waited, ReturnCode::Timeout, "a wait on an empty queue")?;
    holds(
        took >= Duration::from_millis(45),
        format_args!("50 ms of waiting, was {took:?}"),
    )?;
    let none = env.provider().create_completion_queue(nic.handle, 0);
    refused(none, ReturnCode::InvalidParameter, "a queue of no entries")
}

pub(super) const MANY: usize = 300;

fn entry_peer(env: &Arc<Environment>) -> Outcome {
    stream_to(env, MANY)
}

/// Sends so many messages, as fast as it can after the other side has posted its receives.
pub(super) fn stream_to(env: &Arc<Environment>, count: usize) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("posted")?;
    let sends: Vec<Work> = (0..count)
        .map(|index| {
            end.post(
                end.work(1)?
                    .send(&[end.segment(0, 8)])
                    .immediate(index as u32),
            )
        })
        .collect::<Outcome<_>>()?;
    for send in sends {
        end.sent_well(send)?;
    }
    env.meet("all sent")?;
    end.close()
}

fn entry_means_done(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, MANY as u32)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    let receives: Vec<Work> = (0..MANY)
        .map(|_| end.post_receive(0, 64))
        .collect::<Outcome<_>>()?;
    env.meet("posted")?;
    for receive in receives {
        let got = next(env, queue)?;
        equal(got, entry(end.vi, Queue::Receive), "the entry")?;
        let done = end.done(Queue::Receive)?;
        holds(
            done != Done::NotDone,
            "a descriptor that is complete when its entry is there",
        )?;
        equal(taken(env, done)?.address, receive.address(), "the receive")?;
    }
    env.meet("all sent")?;
    end.close()
}

/// Looks at the VI alone until all is taken, and finds one entry for each descriptor afterwards.
fn taken_before_entries(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, MANY as u32)?;
    let level = nic.any_level()?;
    let end = pair(env, &nic, Options::level(level).receive_completions(queue))?;
    let receives: Vec<Work> = (0..MANY)
        .map(|_| end.post_receive(0, 64))
        .collect::<Outcome<_>>()?;
    env.meet("posted")?;
    for receive in receives {
        equal(
            end.received(receive)?.address,
            receive.address(),
            "the receive",
        )?;
    }
    for _ in 0..MANY {
        let got = env.provider().completion_done(queue)?;
        equal(
            got,
            Some(entry(end.vi, Queue::Receive)),
            "an entry left behind",
        )?;
    }
    let more = env.provider().completion_done(queue)?;
    equal(more, None, "an entry too many")?;
    env.meet("all sent")?;
    end.close()
}

fn in_use(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let queue = queue(env, &nic, 16)?;
    let end = End::new(
        env,
        &nic,
        Options::level(nic.any_level()?).completions(queue),
    )?;
    let destroyed = fabric.destroy_completion_queue(queue);
    refused(
        destroyed,
        ReturnCode::Resource,
        "destroying a queue with a VI",
    )?;
    for _ in 0..4 {
        end.post_receive(0, 64)?;
    }
    // Flushes them: their entries are left in the queue.
    fabric.disconnect(end.vi)?;
    let destroyed = fabric.destroy_completion_queue(queue);
    refused(
        destroyed,
        ReturnCode::Resource,
        "destroying a queue with a VI and entries",
    )?;
    fabric.destroy_vi(end.vi)?;
    fabric.destroy_completion_queue(queue)?;
    let gone = fabric.completion_done(queue);
    refused(
        gone,
        ReturnCode::InvalidParameter,
        "a look at the destroyed queue",
    )
}

fn resize_peer(env: &Arc<Environment>) -> Outcome {
    stream_to(env, 12)
}

fn resize(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let queue = queue(env, &nic, 12)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    let receives: Vec<Work> = (0..12)
        .map(|_| end.post_receive(0, 64))
        .collect::<Outcome<_>>()?;
    env.meet("posted")?;
    env.meet("all sent")?;
    // Two are taken; by the time the second is there, ten more are or will be.
    let mut receives = receives.into_iter();
    let mut take_one = |what: &str| {
        let receive = receives.next();
        equal(next(env, queue)?, entry(end.vi, Queue::Receive), what)?;
        let taken = taken(env, end.done(Queue::Receive)?)?;
        equal(Some(taken.address), receive.map(Work::address), what)
    };
    take_one("the first entry")?;
    take_one("the second entry")?;
    fabric.resize_completion_queue(queue, 1000)?;
    take_one("the third entry")?;
    fabric.resize_completion_queue(queue, 9)?;
    for _ in 0..9 {
        take_one("an entry after both resizings")?;
    }
    equal(fabric.completion_done(queue)?, None, "an entry too many")?;
    let none = fabric.resize_completion_queue(queue, 0);
    refused(none, ReturnCode::InvalidParameter, "a queue of no entries")?;
    end.close()
}

fn bound_wait(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 16)?;
    let end = End::new(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    end.post_receive(0, 64)?;
    let code = ReturnCode::InvalidParameter;
    let waited = env.provider().receive_wait(end.vi, milliseconds(100));
    refused(
        waited,
        code,
        "a wait on a queue bound to a completion queue",
    )?;
    let notify = env
        .provider()
        .receive_notify(end.vi, Box::new(|_, _, _| {}));
    refused(
        notify,
        code,
        "a notify on a queue bound to a completion queue",
    )?;
    // The other queue of the VI is not bound.
    equal(
        env.provider().send_wait(end.vi, milliseconds(100))?,
        Done::Empty,
        "a wait on the sends",
    )
}
