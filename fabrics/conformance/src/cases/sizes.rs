//! Sizes, segments and numbers of messages at which transports differ: cases of this suite.

use std::sync::Arc;

use viaduct_provider::Segment;
use viaduct_provider::via::{Queue, ReliabilityLevel};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status};
use crate::environment::Environment;
use crate::memory::{Block, Work, pattern};
use crate::pair::{End, Nic, Options, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        112,
        Level::EarlyAdopter,
        "one_to_all_segments",
        &[segments_sender, segments_receiver],
    ),
    Case::pair(
        113,
        Level::EarlyAdopter,
        "thousands_of_messages_wrap_every_ring",
        &[wrap_sender, wrap_receiver],
    ),
    Case::pair(
        114,
        Level::EarlyAdopter,
        "both_directions_at_once",
        &[both_ways, both_ways],
    ),
    Case::pair(
        115,
        Level::EarlyAdopter,
        "a_full_queue_of_sends_drains",
        &[burst_sender, burst_receiver],
    ),
    Case::pair(
        116,
        Level::EarlyAdopter,
        "messages_between_odd_addresses",
        &[odd_sender, odd_receiver],
    ),
    Case::pair(
        117,
        Level::EarlyAdopter,
        "many_messages_of_the_longest_size",
        &[long_sender, long_receiver],
    ),
    Case::pair(
        118,
        Level::EarlyAdopter,
        "connections_come_and_go",
        &[come_and_go, come_and_go],
    ),
    Case::pair(
        132,
        Level::EarlyAdopter,
        "threads_on_vis_of_their_own",
        &[own_vis, own_vis],
    ),
];

/// Numbers of segments to try: few, around what fits a cache line or a page, and the limit.
fn segment_counts(nic: &Nic) -> Vec<usize> {
    let limit = (nic.attributes.max_segments_per_descriptor as usize).min(2000);
    let mut counts = vec![1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 128, 251, limit];
    counts.retain(|count| *count <= limit);
    counts.dedup();
    counts
}

/// Segments of 1 to 13 bytes each, one byte apart.
fn small_segments(end: &End, count: usize) -> (Vec<Segment>, Vec<(usize, usize)>) {
    let mut offset = 0;
    let places: Vec<(usize, usize)> = (0..count)
        .map(|index| {
            let place = (offset, 1 + index % 13);
            offset += place.1 + 1;
            place
        })
        .collect();
    let segments = places
        .iter()
        .map(|(offset, length)| end.segment(*offset, *length))
        .collect();
    (segments, places)
}

fn total(count: usize) -> usize {
    (0..count).map(|index| 1 + index % 13).sum()
}

fn segments_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        for count in segment_counts(&nic) {
            let (segments, places) = small_segments(&end, count);
            let message = pattern(count as u64, total(count));
            let mut rest = &message[..];
            for (offset, length) in places {
                end.data.write(offset, &rest[..length]);
                rest = &rest[length..];
            }
            env.meet("posted")?;
            end.sent_well(end.post(end.work(count)?.send(&segments))?)?;
            // And the other way round: from one segment into many.
            end.data.write(0, &message);
            env.meet("posted")?;
            end.sent_well(end.post_send(0, message.len())?)?;
        }
        end.close()?;
    }
    Ok(())
}

fn segments_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        for count in segment_counts(&nic) {
            let message = pattern(count as u64, total(count));
            let receive = end.post_receive(0, message.len())?;
            env.meet("posted")?;
            end.received_bytes(receive, 0, &message)?;

            let (segments, places) = small_segments(&end, count);
            end.data.fill(0x99);
            let receive = end.post_to_receive(end.work(count)?.receive(&segments))?;
            env.meet("posted")?;
            let control = end.received(receive)?.control;
            equal_status(control.status, status::RECEIVED, "a receive")?;
            let mut bytes = Vec::new();
            for (offset, length) in places {
                bytes.extend(end.data.read(offset, length));
                equal(
                    end.data.read(offset + length, 1),
                    vec![0x99],
                    "a byte between segments",
                )?;
            }
            equal_bytes(&bytes, &message, format_args!("bytes of {count} segments"))?;
        }
        end.close()?;
    }
    Ok(())
}

const WRAPS: u32 = 20_000;
/// Receives that are posted at any time. A message is sent only when one is, so that none is lost.
const WINDOW: u32 = 64;
/// Room for the longest of these messages.
const WRAP_BYTES: usize = 9000;

/// The size of message `index`: mostly small, some of a few kilobytes.
fn wrap_size(index: u32) -> usize {
    match index % 16 {
        0 => 0,
        7 => 3000,
        11 => 9000,
        step => (step * 5) as usize,
    }
}

fn wrap_sender(env: &Arc<Environment>) -> Outcome {
    each_reliability(env, 64 << 10, |end| {
        let env = &end.env;
        end.fill(0, 16 << 10, 113);
        // The other side says by a message how far it has come.
        // Two of them: it says so every half window, and a window is under way.
        let news = [end.work(0)?.receive(&[]), end.work(0)?.receive(&[])];
        for receive in news {
            end.post_to_receive(receive)?;
        }
        env.meet("posted")?;
        let works: Vec<Work> = (0..WINDOW).map(|_| end.work(1)).collect::<Outcome<_>>()?;
        let (mut sent, mut taken) = (0, 0);
        for (turn, allowed) in (WINDOW..=WRAPS).step_by(WINDOW as usize / 2).enumerate() {
            while sent < allowed {
                let offset = sent as usize % 64;
                let segment = end.segment(offset, wrap_size(sent));
                let work = works[(sent % WINDOW) as usize]
                    .send(&[segment])
                    .immediate(sent);
                end.post(work)?;
                sent += 1;
                if sent - taken == WINDOW {
                    end.sent_well(works[(taken % WINDOW) as usize])?;
                    taken += 1;
                }
            }
            let control = end.received(news[turn % 2])?.control;
            equal(
                control.immediate,
                allowed - WINDOW / 2,
                "how far the other side has come",
            )?;
            end.post_to_receive(news[turn % 2])?;
        }
        while taken < sent {
            end.sent_well(works[(taken % WINDOW) as usize])?;
            taken += 1;
        }
        Ok(())
    })
}

fn wrap_receiver(env: &Arc<Environment>) -> Outcome {
    each_reliability(env, WINDOW as usize * WRAP_BYTES, |end| {
        let env = &end.env;
        let message = pattern(113, 16 << 10);
        let works: Vec<Work> = (0..WINDOW).map(|_| end.work(1)).collect::<Outcome<_>>()?;
        // A buffer each: messages arrive before the ones in front of them have been looked at.
        let buffer = |index: u32| (index % WINDOW) as usize * WRAP_BYTES;
        for (work, index) in works.iter().zip(0..) {
            end.post_to_receive(work.receive(&[end.segment(buffer(index), WRAP_BYTES)]))?;
        }
        env.meet("posted")?;
        let news = end.work(0)?.send(&[]);
        let last = (WINDOW..=WRAPS)
            .step_by(WINDOW as usize / 2)
            .last()
            .unwrap_or(WINDOW);
        for index in 0..last {
            let work = works[(index % WINDOW) as usize];
            let control = end.received(work)?.control;
            equal_status(control.status, status::RECEIVED_IMMEDIATE, "a receive")?;
            equal(control.immediate, index, "the order of messages")?;
            let (offset, size) = (index as usize % 64, wrap_size(index));
            let expected = &message[offset..offset + size];
            equal_bytes(
                &end.data.read(buffer(index), size),
                expected,
                format_args!("message {index}"),
            )?;
            end.post_to_receive(work)?;
            let done = index + 1;
            if done % (WINDOW / 2) == 0 && done <= last - WINDOW / 2 {
                end.sent_well(end.post(news.send(&[]).immediate(done))?)?;
            }
        }
        Ok(())
    })
}

/// Runs a side at the unreliable level and at one reliable level.
fn each_reliability(
    env: &Arc<Environment>,
    bytes: usize,
    side: impl Fn(&End) -> Outcome,
) -> Outcome {
    let nic = Nic::open(env)?;
    let reliable = nic.reliable_levels().first().copied();
    let levels: Vec<ReliabilityLevel> = nic
        .levels()
        .into_iter()
        .filter(|l| *l == UD || Some(*l) == reliable)
        .collect();
    for level in levels {
        let end = pair(env, &nic, Options::level(level).bytes(bytes))?;
        side(&end)?;
        end.close()?;
    }
    Ok(())
}

const EACH_WAY: usize = 2000;

fn both_ways(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let depth = 32;
    // The other side sends a message when it has seen the one `depth` before it, and we may be as
    // far behind with posting again.
    let receives: Vec<Work> = (0..2 * depth)
        .map(|_| end.post_receive(0, 256))
        .collect::<Outcome<_>>()?;
    let sends: Vec<Work> = (0..depth).map(|_| end.work(1)).collect::<Outcome<_>>()?;
    env.meet("posted")?;
    for index in 0..EACH_WAY + depth {
        if index >= depth {
            let work = receives[(index - depth) % (2 * depth)];
            let control = end.received(work)?.control;
            equal(
                control.immediate as usize,
                index - depth,
                "the order of messages",
            )?;
            end.sent_well(sends[index % depth])?;
            end.post_to_receive(work)?;
        }
        if index < EACH_WAY {
            let send = sends[index % depth].send(&[end.segment(4096, index % 250)]);
            end.post(send.immediate(index as u32))?;
        }
    }
    end.close()
}

const BURST: usize = 1000;

fn burst_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        env.meet("posted")?;
        let sends: Vec<Work> = (0..BURST)
            .map(|index| {
                let size = if index % 5 == 0 { 4096 } else { 32 };
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
        end.close()?;
    }
    Ok(())
}

fn burst_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        for _ in 0..BURST {
            end.post_receive(0, 4096)?;
        }
        env.meet("posted")?;
        // Nothing is taken for a while: the sender must not need that.
        env.sleep(50);
        for index in 0..BURST {
            let control = end.take(Queue::Receive)?.control;
            equal(control.immediate as usize, index, "the order of messages")?;
            equal(
                control.length,
                if index % 5 == 0 { 4096 } else { 32 },
                "bytes of a message",
            )?;
        }
        end.close()?;
    }
    Ok(())
}

/// Offsets from and to which messages go, across the ends of cache lines and pages.
const ODD: [(usize, usize, usize); 6] = [
    (1, 3, 61),
    (63, 1, 2),
    (4095, 7, 2),
    (7, 4093, 4099),
    (4097, 8191, 8190),
    (13, 11, 20_001),
];

fn odd_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    for (from, _, length) in ODD {
        end.fill(from, length, length as u64);
        env.meet("posted")?;
        end.sent_well(end.post_send(from, length)?)?;
    }
    end.close()
}

fn odd_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    for (_, to, length) in ODD {
        end.data.fill(0x3C);
        let receive = end.post_receive(to, length)?;
        env.meet("posted")?;
        end.received_bytes(receive, to, &pattern(length as u64, length))?;
        equal(
            end.data.read(to - 1, 1),
            vec![0x3C],
            "the byte in front of the message",
        )?;
        equal(
            end.data.read(to + length, 1),
            vec![0x3C],
            "the byte behind the message",
        )?;
    }
    // A region that is one odd byte range of a page.
    let block = Block::new(env, 3)?;
    let local = viaduct_provider::via::MemoryAttributes::local(nic.tag);
    block.register(env, nic.handle, &local)?;
    end.close()
}

const LONG: usize = 12;

fn long_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let size = nic.transfer_max() as usize;
    let end = pair(env, &nic, Options::level(nic.any_level()?).bytes(size))?;
    end.fill(0, size, 117);
    env.meet("posted")?;
    let sends: Vec<Work> = (0..LONG)
        .map(|index| {
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
    end.close()
}

fn long_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let size = nic.transfer_max() as usize;
    let end = pair(env, &nic, Options::level(nic.any_level()?).bytes(size))?;
    let receives: Vec<Work> = (0..LONG)
        .map(|_| end.post_receive(0, size))
        .collect::<Outcome<_>>()?;
    env.meet("posted")?;
    for (index, receive) in receives.into_iter().enumerate() {
        let control = end.received(receive)?.control;
        equal_status(control.status, status::RECEIVED_IMMEDIATE, "a receive")?;
        equal(control.immediate as usize, index, "the order of messages")?;
        equal(control.length as usize, size, "bytes of a message")?;
    }
    equal_bytes(
        &end.data.read(0, size),
        &pattern(117, size),
        "the data of the messages",
    )?;
    end.close()
}

fn come_and_go(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    for round in 0..60 {
        let receive = end.post_receive(0, 64)?;
        end.connect()?;
        end.fill(1024, 10, round);
        end.sent_well(end.post_send(1024, 10)?)?;
        end.received_bytes(receive, 0, &pattern(round, 10))?;
        env.meet("received")?;
        end.disconnect()?;
        // A peer that was faster leaves an error here; both are idle in the end.
        env.provider().disconnect(end.vi)?;
        end.drain(Queue::Receive)?;
        end.drain(Queue::Send)?;
    }
    // VIs too.
    for _ in 0..200 {
        let vi = env
            .provider()
            .create_vi(nic.handle, &end.attributes, None, None)?;
        env.provider().destroy_vi(vi)?;
    }
    Ok(())
}

const TASKS: usize = 4;
const EACH_TASK: u32 = 400;

/// Several tasks on each side, each with a VI of its own, all at work at once.
fn own_vis(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let ends = (0..TASKS)
        .map(|_| {
            let end = End::new(env, &nic, Options::level(level))?;
            let receives = [0; 2].map(|_| end.post_receive(0, 512));
            end.connect()?;
            Ok((end, receives))
        })
        .collect::<Outcome<Vec<_>>>()?;
    env.meet("all connected")?;
    let side = env.side();
    let tasks = ends
        .into_iter()
        .map(|(end, receives)| {
            env.spawn("task", move |_| {
                let [first, second] = receives;
                let receives = [first?, second?];
                let send = end.work(1)?;
                // Ping and pong, so that a receive is always posted.
                for round in 0..EACH_TASK {
                    let ping = || {
                        let segment = end.segment(1024, round as usize % 500);
                        end.sent_well(end.post(send.send(&[segment]).immediate(round))?)
                    };
                    if side == 0 {
                        ping()?;
                    }
                    let receive = receives[round as usize % 2];
                    let control = end.received(receive)?.control;
                    equal(control.immediate, round, "the order of messages")?;
                    equal(control.length, round % 500, "bytes of a message")?;
                    end.post_to_receive(receive)?;
                    if side == 1 {
                        ping()?;
                    }
                }
                Ok(end)
            })
        })
        .collect::<Outcome<Vec<_>>>()?;
    for task in tasks {
        task.join()?.close()?;
    }
    Ok(())
}
