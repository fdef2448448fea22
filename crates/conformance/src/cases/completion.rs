//! Completion queues: cases 54 to 60.

use std::sync::Arc;
use std::time::Duration;

use viaduct_fabric::via::{Queue, ViState};
use viaduct_fabric::{CompletionEntry, CompletionQueueHandle, Done, ReturnCode, ViHandle};

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
        94,
        Level::Decision,
        "full_completion_queue_loses_nothing",
        &[overfull_peer, overfull],
    ),
    Case::pair(
        95,
        Level::EarlyAdopter,
        "flushed_descriptors_have_entries",
        &[flush_peer, flush_entries],
    ),
    Case::pair(
        96,
        Level::EarlyAdopter,
        "each_entry_goes_to_one_of_many_waiters",
        &[waiters_peer, waiters],
    ),
    Case::pair(
        97,
        Level::Decision,
        "destroyed_vi_leaves_no_entries",
        &[purge_peer, purge],
    ),
    Case::pair(
        98,
        Level::EarlyAdopter,
        "many_vis_on_one_completion_queue",
        &[many_peer, many],
    ),
];

fn queue(env: &Environment, nic: &Nic, entries: u32) -> Outcome<CompletionQueueHandle> {
    Ok(env
        .provider()
        .create_completion_queue(nic.handle, entries)?)
}

/// Waits for the next entry.
#[track_caller]
fn next(env: &Environment, queue: CompletionQueueHandle) -> Outcome<CompletionEntry> {
    env.until("an entry of the completion queue", || {
        Ok(env.provider().completion_done(queue)?)
    })
}

fn entry(vi: ViHandle, queue: Queue) -> CompletionEntry {
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

const MANY: usize = 300;

fn entry_peer(env: &Arc<Environment>) -> Outcome {
    stream_to(env, MANY)
}

/// Sends so many messages, as fast as it can after the other side has posted its receives.
fn stream_to(env: &Arc<Environment>, count: usize) -> Outcome {
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

fn overfull_peer(env: &Arc<Environment>) -> Outcome {
    stream_to(env, MANY)
}

fn overfull(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 1)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    for _ in 0..MANY {
        end.post_receive(0, 64)?;
    }
    env.meet("posted")?;
    env.meet("all sent")?;
    for index in 0..MANY {
        equal(next(env, queue)?, entry(end.vi, Queue::Receive), "an entry")?;
        let taken = taken(env, end.done(Queue::Receive)?)?;
        equal(
            taken.control.immediate as usize,
            index,
            "the order of messages",
        )?;
    }
    end.close()
}

fn flush_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("posted")?;
    end.disconnect()
}

fn flush_entries(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 16)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).completions(queue),
    )?;
    let receives = [end.post_receive(0, 64)?, end.post_receive(0, 64)?];
    env.meet("posted")?;
    env.meet("disconnected")?;
    for receive in receives {
        equal(next(env, queue)?, entry(end.vi, Queue::Receive), "an entry")?;
        let taken = taken(env, end.done(Queue::Receive)?)?;
        equal(taken.address, receive.address(), "the flushed receive")?;
        holds(
            taken.control.status & status::FLUSHED != 0,
            "a receive that was flushed",
        )?;
    }
    end.comes_to(ViState::Error)?;
    // Posted in error: complete at once, with an entry each.
    let send = end.post_send(0, 8)?;
    equal(
        next(env, queue)?,
        entry(end.vi, Queue::Send),
        "the entry of a send in error",
    )?;
    equal(
        taken(env, end.done(Queue::Send)?)?.address,
        send.address(),
        "the flushed send",
    )?;
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry too many",
    )
}

fn waiters_peer(env: &Arc<Environment>) -> Outcome {
    stream_to(env, 60)
}

/// Three tasks wait on one queue; every entry goes to one of them.
fn waiters(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 64)?;
    let end = pair(
        env,
        &nic,
        Options::level(nic.any_level()?).receive_completions(queue),
    )?;
    for _ in 0..60 {
        end.post_receive(0, 64)?;
    }
    let vi = end.vi;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(env.spawn("waiter", move |env| {
            let mut seen = Vec::new();
            loop {
                match env.provider().completion_wait(queue, milliseconds(700)) {
                    Err(error) if error.code() == ReturnCode::Timeout => return Ok(seen),
                    entry => equal(entry?.vi, vi, "the VI of an entry")?,
                }
                let taken = taken(env, env.provider().receive_done(vi)?)?;
                seen.push(taken.control.immediate);
            }
        })?);
    }
    env.meet("posted")?;
    env.meet("all sent")?;
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.join()?);
    }
    all.sort_unstable();
    equal(
        all,
        (0..60).collect(),
        "the messages that the waiters took together",
    )?;
    end.close()
}

fn purge_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let first = pair(env, &nic, Options::level(level))?;
    let second = pair(env, &nic, Options::level(level))?;
    env.meet("posted")?;
    for end in [&first, &second, &first, &second] {
        end.sent_well(end.post_send(0, 8)?)?;
    }
    env.meet("all sent")?;
    env.meet("destroyed")?;
    second.close()
}

fn purge(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 16)?;
    let options = Options::level(nic.any_level()?).receive_completions(queue);
    let (first, second) = (pair(env, &nic, options)?, pair(env, &nic, options)?);
    for end in [&first, &second, &first, &second] {
        end.post_receive(0, 64)?;
    }
    env.meet("posted")?;
    env.meet("all sent")?;
    env.provider().disconnect(first.vi)?;
    env.provider().destroy_vi(first.vi)?;
    for _ in 0..2 {
        equal(
            next(env, queue)?,
            entry(second.vi, Queue::Receive),
            "an entry of the other VI",
        )?;
        taken(env, second.done(Queue::Receive)?)?;
    }
    equal(
        env.provider().completion_done(queue)?,
        None,
        "an entry of a VI that is gone",
    )?;
    env.meet("destroyed")?;
    second.close()
}

const VIS: usize = 48;

fn many_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let options = Options::level(nic.any_level()?).bytes(4096);
    let ends = (0..VIS)
        .map(|_| pair(env, &nic, options))
        .collect::<Outcome<Vec<_>>>()?;
    env.meet("posted")?;
    for round in 0..4 {
        for (index, end) in ends.iter().enumerate() {
            let end = if round % 2 == 0 {
                end
            } else {
                &ends[VIS - 1 - index]
            };
            end.sent_well(end.post_send(0, 16)?)?;
        }
    }
    env.meet("all sent")
}

fn many(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = queue(env, &nic, 4 * VIS as u32)?;
    let options = Options::level(nic.any_level()?)
        .bytes(4096)
        .receive_completions(queue);
    let ends = (0..VIS)
        .map(|_| pair(env, &nic, options))
        .collect::<Outcome<Vec<_>>>()?;
    for end in &ends {
        for _ in 0..4 {
            end.post_receive(0, 64)?;
        }
    }
    env.meet("posted")?;
    let mut counts = vec![0; VIS];
    for _ in 0..4 * VIS {
        let entry = next(env, queue)?;
        let which = ends.iter().position(|end| end.vi == entry.vi);
        let which = which.ok_or_else(|| crate::check::Stop::failed("an entry of an unknown VI"))?;
        let taken = taken(env, ends[which].done(entry.queue)?)?;
        equal_status(taken.control.status, status::RECEIVED, "a receive")?;
        counts[which] += 1;
    }
    equal(counts, vec![4; VIS], "messages by VI")?;
    env.meet("all sent")
}
