//! Completion queues with much to do, or with VIs that go away: cases of this suite.

use std::sync::Arc;

use viaduct_provider::ReturnCode;
use viaduct_provider::via::{Queue, ViState};

use super::completion::{MANY, entry, next, queue, stream_to};
use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_status, holds};
use crate::environment::Environment;
use crate::pair::{Nic, Options, milliseconds, pair, status, taken};

pub(super) const CASES: &[Case] = &[
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
