//! Looking at work queues and waiting on them: cases 29 to 32.

use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{Queue, ViState};
use viaduct_provider::{Done, ReturnCode};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, holds, refused};
use crate::environment::Environment;
use crate::memory::pattern;
use crate::pair::{End, Nic, Options, milliseconds, pair};

pub(super) const CASES: &[Case] = &[
    Case::alone(
        29,
        Level::EarlyAdopter,
        "empty_queues_say_so",
        &[empty_queues],
    ),
    Case::alone(
        30,
        Level::EarlyAdopter,
        "pending_receive_is_not_done",
        &[pending_receive],
    ),
    Case::alone(
        31,
        Level::EarlyAdopter,
        "receive_wait_times_out",
        &[wait_times_out],
    ),
    Case::pair(
        32,
        Level::EarlyAdopter,
        "done_does_not_block_behind_a_wait",
        &[blocked_sender, blocked_receiver],
    ),
];

fn empty_queues(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    equal(
        end.done(Queue::Receive)?,
        Done::Empty,
        "an empty receive queue",
    )?;
    equal(end.done(Queue::Send)?, Done::Empty, "an empty send queue")?;
    let start = env.now();
    let fabric = env.provider();
    let waited = fabric.receive_wait(end.vi, milliseconds(10_000))?;
    equal(waited, Done::Empty, "a wait on an empty receive queue")?;
    let waited = fabric.send_wait(end.vi, milliseconds(10_000))?;
    equal(waited, Done::Empty, "a wait on an empty send queue")?;
    holds(
        env.now() - start < Duration::from_secs(5),
        "waits on empty queues that return at once",
    )
}

fn pending_receive(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    end.post_receive(0, 64)?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "a pending receive",
    )
}

fn wait_times_out(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    end.post_receive(0, 64)?;
    let start = env.now();
    let waited = env.provider().receive_wait(end.vi, milliseconds(100));
    let took = env.now() - start;
    refused(waited, ReturnCode::Timeout, "a wait for a pending receive")?;
    holds(
        took >= Duration::from_millis(95),
        format_args!("100 ms of waiting, was {took:?}"),
    )?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "the receive after the wait",
    )?;
    let waited = env.provider().receive_wait(end.vi, Some(Duration::ZERO));
    refused(waited, ReturnCode::Timeout, "a wait of no time")
}

fn blocked_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("looked")?;
    end.fill(0, 32, 32);
    end.sent_well(end.post_send(0, 32)?)?;
    end.close()
}

fn blocked_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let receive = end.post_receive(0, 64)?;
    end.connect()?;
    let vi = end.vi;
    let waiter = env.spawn("waiter", move |env| {
        let done = env.provider().receive_wait(vi, None)?;
        crate::pair::taken(env, done).map(|taken| taken.address)
    })?;
    env.sleep(50);
    holds(!waiter.is_over(), "a wait that still waits")?;
    for _ in 0..100 {
        equal(
            end.done(Queue::Receive)?,
            Done::NotDone,
            "a look beside the wait",
        )?;
        equal(
            end.done(Queue::Send)?,
            Done::Empty,
            "a look at the other queue",
        )?;
    }
    end.is_in(ViState::Connected)?;
    env.meet("looked")?;
    equal(
        waiter.join()?,
        receive.address(),
        "the descriptor that the wait brought",
    )?;
    equal_bytes(
        &end.data.read(0, 32),
        &pattern(32, 32),
        "the data of the receive",
    )?;
    end.close()
}
