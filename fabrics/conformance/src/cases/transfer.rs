//! Sending and receiving: cases 23 to 28 and 33 to 35.

use std::sync::Arc;

use viaduct_provider::via::{Queue, ViState};
use viaduct_provider::{ControlSegment, Done, Segment};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, holds};
use crate::environment::Environment;
use crate::memory::{Work, pattern};
use crate::pair::{End, Nic, Options, pair, status};

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
