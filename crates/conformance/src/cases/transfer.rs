//! Sending and receiving: cases 23 to 38.

use std::sync::Arc;
use std::time::Duration;

use viaduct_fabric::via::{MemoryAttributes, Queue, ViState};
use viaduct_fabric::{ControlSegment, Done, ReturnCode, Segment, control};

use crate::case::{Case, Level};
use crate::check::{Outcome, Stop, equal, equal_bytes, equal_status, holds, refused};
use crate::environment::Environment;
use crate::memory::{Block, Work, pattern};
use crate::pair::{End, Nic, Options, UD, milliseconds, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        23,
        Level::EarlyAdopter,
        "receives_posted_while_idle_are_used",
        &[early_sender, early_receiver],
    ),
    Case::pair(
        24,
        Level::EarlyAdopter,
        "messages_of_many_sizes_arrive",
        &[sizes_sender, sizes_receiver],
    ),
    Case::pair(
        25,
        Level::EarlyAdopter,
        "immediate_data_arrives",
        &[immediate_sender, immediate_receiver],
    ),
    Case::pair(
        26,
        Level::EarlyAdopter,
        "no_immediate_data_leaves_the_field_alone",
        &[no_immediate_sender, no_immediate_receiver],
    ),
    Case::pair(
        27,
        Level::EarlyAdopter,
        "gathered_bytes_are_scattered_in_order",
        &[gather_sender, scatter_receiver],
    ),
    Case::pair(
        28,
        Level::EarlyAdopter,
        "rest_of_a_longer_receive_is_untouched",
        &[short_sender, long_receiver],
    ),
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
    Case::pair(
        33,
        Level::EarlyAdopter,
        "stale_status_is_no_completion",
        &[stale_sender, stale_receiver],
    ),
    Case::pair(
        34,
        Level::EarlyAdopter,
        "private_lists_in_next_are_harmless",
        &[lists_sender, lists_receiver],
    ),
    Case::pair(
        35,
        Level::EarlyAdopter,
        "completions_come_in_post_order",
        &[order_sender, order_receiver],
    ),
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

/// Runs a side once for each level that the NIC has.
fn each_level(
    env: &Arc<Environment>,
    options: fn(Options) -> Options,
    side: impl Fn(&End) -> Outcome,
) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, options(Options::level(level)))?;
        side(&end)?;
        end.close()?;
    }
    Ok(())
}

fn same(options: Options) -> Options {
    options
}

const EARLY: usize = 8;

fn early_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for index in 0..EARLY {
            end.fill(index * 128, 128, index as u64);
            let send = end.post_send(index * 128, 100 + index)?;
            end.sent_well(send)?;
        }
        Ok(())
    })
}

fn early_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level))?;
        let posted: Vec<Work> = (0..EARLY)
            .map(|index| end.post_receive(index * 128, 128))
            .collect::<Outcome<_>>()?;
        end.is_in(ViState::Idle)?;
        let information = env.provider().query_vi(end.vi)?;
        holds(
            !information.receive_queue_empty,
            "a receive queue that is not empty",
        )?;
        end.connect()?;
        for (index, receive) in posted.into_iter().enumerate() {
            let bytes = &pattern(index as u64, 128)[..100 + index];
            end.received_bytes(receive, index * 128, bytes)?;
        }
        end.close()?;
    }
    Ok(())
}

/// Sizes around what transports treat differently, up to the VI's own limit.
fn sizes(transfer_max: u32) -> Vec<usize> {
    let max = transfer_max as usize;
    let mut sizes = vec![
        0,
        1,
        7,
        8,
        63,
        64,
        65,
        255,
        256,
        4095,
        4096,
        4097,
        32_768,
        65_537,
        1 << 20,
    ];
    sizes.retain(|size| *size < max);
    sizes.push(max);
    sizes
}

fn whole_transfer(options: Options) -> Options {
    options.bytes((4 << 20) + 64)
}

fn sizes_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, whole_transfer, |end| {
        for size in sizes(end.attributes.max_transfer_bytes) {
            end.fill(0, size, size as u64);
            end.env.meet("posted")?;
            let send = end.post_send(0, size)?;
            let taken = end.sent_well(send)?;
            equal(
                taken.control.length as usize,
                size,
                "the length that the send keeps",
            )?;
        }
        Ok(())
    })
}

fn sizes_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, whole_transfer, |end| {
        for size in sizes(end.attributes.max_transfer_bytes) {
            let receive = end.post_receive(0, size)?;
            end.env.meet("posted")?;
            end.received_bytes(receive, 0, &pattern(size as u64, size))?;
        }
        Ok(())
    })
}

fn immediate_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for (size, immediate) in [(0, 0), (10, u32::MAX), (4097, 0x1234_5678)] {
            end.env.meet("posted")?;
            let send = end
                .work(1)?
                .send(&[end.segment(0, size)])
                .immediate(immediate);
            end.sent_well(end.post(send)?)?;
        }
        Ok(())
    })
}

fn immediate_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for (size, immediate) in [(0, 0), (10, u32::MAX), (4097, 0x1234_5678_u32)] {
            let receive = end.work(1)?.receive(&[end.segment(0, 8192)]);
            let stale = !immediate;
            receive.set_control(ControlSegment {
                immediate: stale,
                ..receive.control()
            });
            end.post_to_receive(receive)?;
            end.env.meet("posted")?;
            let control = end.received(receive)?.control;
            equal_status(control.status, status::RECEIVED_IMMEDIATE, "a receive")?;
            equal(control.immediate, immediate, "the immediate data")?;
            equal(control.length, size, "bytes of the receive")?;
        }
        Ok(())
    })
}

fn no_immediate_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        end.env.meet("posted")?;
        let send = end.work(1)?.send(&[end.segment(0, 16)]);
        // Immediate data in the field, and no flag that says so.
        send.set_control(ControlSegment {
            immediate: 0xBAD0_BAD0,
            ..send.control()
        });
        end.sent_well(end.post(send)?).map(drop)
    })
}

fn no_immediate_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        let receive = end.work(1)?.receive(&[end.segment(0, 64)]);
        receive.set_control(ControlSegment {
            immediate: 0x0BAD_CAFE,
            ..receive.control()
        });
        end.post_to_receive(receive)?;
        end.env.meet("posted")?;
        let control = end.received(receive)?.control;
        equal_status(control.status, status::RECEIVED, "a receive")?;
        equal(
            control.immediate,
            0x0BAD_CAFE,
            "the field for immediate data",
        )
    })
}

/// Lengths of the segments of a message, sending and receiving: sums are equal.
const SCATTERS: &[(&[usize], &[usize])] = &[
    (&[10], &[4, 6]),
    (&[4, 6], &[10]),
    (&[1, 0, 2, 3, 0], &[0, 0, 5, 0, 1]),
    (&[64, 64, 64], &[63, 1, 65, 63]),
    (&[1, 1, 1, 1, 1, 1, 1, 1], &[3, 5]),
    (&[4096, 1], &[1, 4096]),
    (&[5000, 3, 5000], &[1, 10_000, 2]),
    (&[0, 0], &[0]),
];

/// Segments of these lengths, each apart from the next by a guard.
fn spread(end: &End, lengths: &[usize]) -> Vec<(usize, Segment)> {
    let mut offset = 8;
    lengths
        .iter()
        .map(|length| {
            let place = offset;
            offset += length + 24;
            (place, end.segment(place, *length))
        })
        .collect()
}

fn gather_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for (number, (lengths, _)) in SCATTERS.iter().enumerate() {
            end.data.fill(0xEE);
            let message = pattern(number as u64, lengths.iter().sum());
            let mut rest = &message[..];
            let parts = spread(end, lengths);
            for ((offset, _), length) in parts.iter().zip(*lengths) {
                end.data.write(*offset, &rest[..*length]);
                rest = &rest[*length..];
            }
            let segments: Vec<Segment> = parts.iter().map(|(_, segment)| *segment).collect();
            end.env.meet("posted")?;
            let send = end.post(end.work(segments.len())?.send(&segments))?;
            end.sent_well(send)?;
        }
        Ok(())
    })
}

fn scatter_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for (number, (_, lengths)) in SCATTERS.iter().enumerate() {
            end.data.fill(0xCC);
            let before = end.data.read(0, end.data.length());
            let parts = spread(end, lengths);
            let segments: Vec<Segment> = parts.iter().map(|(_, segment)| *segment).collect();
            let receive = end.post_to_receive(end.work(segments.len())?.receive(&segments))?;
            end.env.meet("posted")?;
            let control = end.received(receive)?.control;
            equal_status(control.status, status::RECEIVED, "a receive")?;
            let message = pattern(number as u64, lengths.iter().sum());
            equal(
                control.length as usize,
                message.len(),
                "bytes of the receive",
            )?;
            let mut expected = before;
            let mut rest = &message[..];
            for ((offset, _), length) in parts.iter().zip(*lengths) {
                expected[*offset..*offset + *length].copy_from_slice(&rest[..*length]);
                rest = &rest[*length..];
            }
            let actual = end.data.read(0, end.data.length());
            equal_bytes(
                &actual,
                &expected,
                format_args!("memory after scatter {number}"),
            )?;
        }
        Ok(())
    })
}

fn short_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for size in [0, 1, 100, 5000] {
            end.fill(0, size, 28);
            end.env.meet("posted")?;
            end.sent_well(end.post_send(0, size)?)?;
        }
        Ok(())
    })
}

fn long_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for size in [0, 1, 100, 5000] {
            end.data.fill(0xAB);
            let receive = end.post_receive(64, 8192)?;
            end.env.meet("posted")?;
            end.received_bytes(receive, 64, &pattern(28, size))?;
            let around = end.data.read(0, 64);
            equal_bytes(&around, &[0xAB; 64], "memory in front of the receive")?;
            let behind = end.data.read(64 + size, 8192 - size + 64);
            equal_bytes(
                &behind,
                &vec![0xAB; behind.len()],
                "memory behind the message",
            )?;
        }
        Ok(())
    })
}

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

fn stale_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        for round in 0..3 {
            end.env.meet("posted")?;
            end.env.meet("looked")?;
            end.fill(0, 16, round);
            let send = end.work(1)?.send(&[end.segment(0, 16)]);
            send.set_control(ControlSegment {
                status: status::SENT,
                ..send.control()
            });
            end.sent_well(end.post(send)?)?;
        }
        Ok(())
    })
}

/// Posts the same descriptor again and again, its status as the last completion left it.
fn stale_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        let receive = end.work(1)?.receive(&[end.segment(0, 64)]);
        receive.set_control(ControlSegment {
            status: status::RECEIVED,
            ..receive.control()
        });
        for round in 0..3 {
            end.post_to_receive(receive)?;
            end.env.meet("posted")?;
            equal_status(
                receive.poll_status() & status::DONE,
                0,
                "a descriptor just posted",
            )?;
            for _ in 0..20 {
                equal(
                    end.done(Queue::Receive)?,
                    Done::NotDone,
                    "a look before any message",
                )?;
            }
            end.env.meet("looked")?;
            end.received_bytes(receive, 0, &pattern(round, 16))?;
        }
        Ok(())
    })
}

fn lists_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        end.env.meet("posted")?;
        let mine = listed(end, |work| work.send(&[end.segment(0, 24)]))?;
        for send in &mine {
            end.sent_well(end.post(*send)?)?;
        }
        Ok(())
    })
}

fn lists_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        let mine = listed(end, |work| work.receive(&[end.segment(0, 64)]))?;
        let bystander = end.work(1)?.receive(&[end.segment(0, 64)]);
        let before = bystander.control();
        for receive in &mine {
            end.post_to_receive(*receive)?;
        }
        end.env.meet("posted")?;
        for receive in mine {
            let taken = end.received(receive)?;
            equal_status(taken.control.status, status::RECEIVED, "a receive")?;
        }
        let after = bystander.control();
        equal(
            (after.next, after.status, after.length, after.segment_count),
            (
                before.next,
                before.status,
                before.length,
                before.segment_count,
            ),
            "a descriptor that was not posted",
        )
    })
}

/// Four descriptors, each of which points in its `next` at another one, or at nothing sensible.
fn listed(end: &End, prepare: impl Fn(Work) -> Work) -> Outcome<Vec<Work>> {
    let works: Vec<Work> = (0..4)
        .map(|_| Ok(prepare(end.work(1)?)))
        .collect::<Outcome<_>>()?;
    for (index, work) in works.iter().enumerate() {
        let next = match index {
            3 => 0xDEAD_BEEF,
            index => works[3 - index].address(),
        };
        work.set_control(ControlSegment {
            next,
            next_handle: 0x7777,
            ..work.control()
        });
    }
    Ok(works)
}

const ORDERED: usize = 100;

fn order_sender(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        end.env.meet("posted")?;
        let sends: Vec<Work> = (0..ORDERED)
            .map(|index| {
                // Sizes that go different ways in between.
                let size = if index % 3 == 0 { 6000 } else { 4 };
                end.post(
                    end.work(1)?
                        .send(&[end.segment(0, size)])
                        .immediate(index as u32),
                )
            })
            .collect::<Outcome<_>>()?;
        for send in sends {
            end.sent_well(send)?;
        }
        equal(
            end.done(Queue::Send)?,
            Done::Empty,
            "the send queue after all of them",
        )
    })
}

fn order_receiver(env: &Arc<Environment>) -> Outcome {
    each_level(env, same, |end| {
        let receives: Vec<Work> = (0..ORDERED)
            .map(|_| end.post_receive(0, 8192))
            .collect::<Outcome<_>>()?;
        end.env.meet("posted")?;
        for (index, receive) in receives.into_iter().enumerate() {
            let control = end.received(receive)?.control;
            equal_status(control.status, status::RECEIVED_IMMEDIATE, "a receive")?;
            equal(control.immediate as usize, index, "the order of messages")?;
        }
        equal(
            end.done(Queue::Receive)?,
            Done::Empty,
            "the receive queue after all of them",
        )
    })
}

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
