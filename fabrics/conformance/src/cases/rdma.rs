//! Remote memory access that is allowed: cases 61 to 63 and 65. What is not is in `refused.rs`.

use std::sync::Arc;

use viaduct_provider::Segment;
use viaduct_provider::via::ReliabilityLevel;

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, skip};
use crate::environment::Environment;
use crate::memory::{Block, pattern};
use crate::pair::{End, Nic, Options, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        61,
        Level::EarlyAdopter,
        "remote_write_gathers_into_remote_memory",
        &[write_gathered, written],
    ),
    Case::pair(
        62,
        Level::EarlyAdopter,
        "remote_write_with_immediate_takes_a_receive",
        &[write_immediate, written_immediate],
    ),
    Case::pair(
        63,
        Level::Decision,
        "last_word_of_a_remote_write_comes_last",
        &[write_flags, poll_flags],
    ),
    Case::pair(
        65,
        Level::Optional,
        "fenced_send_follows_remote_read",
        &[reader, read_target],
    ),
    Case::pair(
        153,
        Level::Optional,
        "short_sends_keep_their_order_behind_a_fence",
        &[read_then_short, read_then_short_target],
    ),
    Case::pair(
        102,
        Level::EarlyAdopter,
        "remote_writes_of_many_sizes",
        &[write_sizes, written_sizes],
    ),
    Case::pair(
        103,
        Level::Optional,
        "remote_reads_scatter_many_sizes",
        &[read_sizes, read_sizes_target],
    ),
    Case::pair(
        134,
        Level::EarlyAdopter,
        "send_after_remote_write_finds_it_placed",
        &[write_then_send, written_then_sent],
    ),
];

/// What one side tells the other of memory that may be reached.
pub(super) fn remote_memory(env: &Environment, block: Option<(Block, u32)>) -> Outcome<Segment> {
    let own = block.map_or([0, 0], |(block, handle)| {
        [block.address(), u64::from(handle)]
    });
    let [address, handle] = env.exchange_numbers(own)?;
    Ok(Segment {
        address,
        handle: handle as u32,
        length: 0,
    })
}

pub(super) fn offer(end: &End) -> Outcome<Segment> {
    remote_memory(&end.env, Some((end.data, end.handle.bits())))
}

fn at(remote: Segment, offset: u64) -> Segment {
    Segment {
        address: remote.address + offset,
        ..remote
    }
}

fn write_gathered(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        env.meet("posted")?;
        end.fill(0, 300, 61);
        let parts = [
            end.segment(0, 100),
            end.segment(100, 0),
            end.segment(100, 1),
            end.segment(101, 199),
        ];
        for count in 0..=parts.len() {
            let target = at(remote, 1000 * count as u64);
            let write = end.work(1 + count)?.rdma_write(target, &parts[..count]);
            let taken = end.sent(end.post(write)?)?;
            equal_status(taken.control.status, status::WRITTEN, "a remote write")?;
        }
        env.meet("written")?;
        // The receive that was not consumed takes a message.
        end.sent_well(end.post_send(0, 10)?)?;
        end.close()?;
    }
    Ok(())
}

fn written(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        end.data.fill(0x5A);
        let mut expected = end.data.read(0, 6000);
        offer(&end)?;
        let receive = end.post_receive(8000, 64)?;
        env.meet("posted")?;
        env.meet("written")?;
        let message = pattern(61, 300);
        for (count, length) in [0, 100, 100, 101, 300].into_iter().enumerate() {
            expected[1000 * count..1000 * count + length].copy_from_slice(&message[..length]);
        }
        env.until("the last byte of the last write", || {
            Ok((end.data.read(4299, 1) == message[299..]).then_some(()))
        })?;
        equal_bytes(
            &end.data.read(0, 6000),
            &expected,
            "memory after the writes",
        )?;
        end.received_bytes(receive, 8000, &message[..10])?;
        end.close()?;
    }
    Ok(())
}

fn write_immediate(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        for (round, length) in [0, 1, 64, 5000, 32_768].into_iter().enumerate() {
            end.fill(0, length, round as u64);
            env.meet("posted")?;
            let write = end
                .work(2)?
                .rdma_write(remote, &[end.segment(0, length)])
                .immediate(0x600 + round as u32);
            let taken = end.sent(end.post(write)?)?;
            equal_status(taken.control.status, status::WRITTEN, "a remote write")?;
        }
        end.close()?;
    }
    Ok(())
}

fn written_immediate(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        offer(&end)?;
        let posted = 40_000;
        for (round, length) in [0, 1, 64, 5000, 32_768].into_iter().enumerate() {
            end.data.fill(0x77);
            // A receive that is too short for the data: it is not for the data.
            let receive = end.post_receive(posted, 16)?;
            env.meet("posted")?;
            let control = end.received(receive)?.control;
            let bytes = end.data.read(0, length);
            equal_status(control.status, status::WRITTEN_BY_PEER, "the receive")?;
            equal(
                control.immediate,
                0x600 + round as u32,
                "the immediate data",
            )?;
            equal(control.length as usize, length, "the length of the receive")?;
            let expected = pattern(round as u64, length);
            equal_bytes(&bytes, &expected, "memory when the receive is complete")?;
            equal_bytes(
                &end.data.read(posted, 16),
                &[0x77; 16],
                "the receive's own buffer",
            )?;
        }
        end.close()?;
    }
    Ok(())
}

const FLAGS: u32 = 200;
const FLAGGED: usize = 8192;

fn write_flags(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        for round in 1..=FLAGS {
            let length = flagged(round);
            end.fill(0, length - 4, u64::from(round));
            end.data.write(length - 4, &round.to_le_bytes());
            let write = end.work(2)?.rdma_write(remote, &[end.segment(0, length)]);
            let taken = end.sent(end.post(write)?)?;
            equal_status(taken.control.status, status::WRITTEN, "a remote write")?;
            env.meet("seen")?;
        }
        end.close()?;
    }
    Ok(())
}

/// Bytes of a write whose last word is a flag; always a whole number of words.
fn flagged(round: u32) -> usize {
    match round % 4 {
        0 => 8,
        1 => 64,
        2 => 4100,
        _ => FLAGGED,
    }
}

/// Polls memory and calls nothing.
fn poll_flags(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        end.data.fill(0);
        offer(&end)?;
        for round in 1..=FLAGS {
            let length = flagged(round);
            env.until(format_args!("flag {round} in memory"), || {
                Ok((end.data.poll_word(length - 4) == round).then_some(()))
            })?;
            let bytes = end.data.read(0, length - 4);
            let expected = pattern(u64::from(round), length - 4);
            equal_bytes(&bytes, &expected, "memory in front of the flag")?;
            // The next round's flag may lie in this round's data.
            end.data.fill(0);
            env.meet("seen")?;
        }
        end.close()?;
    }
    Ok(())
}

fn write_sizes(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).bytes((4 << 20) + 64))?;
        let remote = remote_memory(env, None)?;
        let max = end.attributes.max_transfer_bytes as usize;
        for length in [1, 63, 64, 65, 4096, 4097, 1 << 20, max] {
            let length = length.min(max);
            end.fill(0, length, length as u64);
            let write = end
                .work(2)?
                .rdma_write(remote, &[end.segment(0, length)])
                .immediate(1);
            env.meet("posted")?;
            let taken = end.sent(end.post(write)?)?;
            equal_status(taken.control.status, status::WRITTEN, "a remote write")?;
        }
        let too_long = end.work(2)?.rdma_write(remote, &[end.segment(0, max + 1)]);
        let bits = end.sent(end.post(too_long)?)?.control.status & status::ERROR_MASK;
        equal_status(
            bits,
            status::LENGTH_ERROR,
            "a remote write above the VI's limit",
        )?;
        env.meet("all written")?;
        end.close()?;
    }
    Ok(())
}

fn written_sizes(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(
            env,
            &nic,
            Options::level(level).rdma_write().bytes((4 << 20) + 64),
        )?;
        offer(&end)?;
        let max = end.attributes.max_transfer_bytes as usize;
        for length in [1, 63, 64, 65, 4096, 4097, 1 << 20, max] {
            let length = length.min(max);
            let receive = end.post_receive(0, 0)?;
            env.meet("posted")?;
            let control = end.received(receive)?.control;
            equal_status(control.status, status::WRITTEN_BY_PEER, "the receive")?;
            let expected = pattern(length as u64, length);
            equal_bytes(
                &end.data.read(0, length),
                &expected,
                "memory after the write",
            )?;
        }
        env.meet("all written")?;
        end.close()?;
    }
    Ok(())
}

/// The levels at which remote reads work; skips if there are none.
pub(super) fn read_levels(nic: &Nic) -> Outcome<Vec<ReliabilityLevel>> {
    let mut levels = nic.levels();
    levels.retain(|level| nic.attributes.rdma_read_levels.contains(*level));
    if levels.is_empty() {
        skip("the NIC has no remote reads")
    } else {
        Ok(levels)
    }
}

fn reader(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        env.meet("posted")?;
        end.data.fill(0);
        // The fenced send carries what the read brings: it must not start before it.
        let read = end.work(2)?.rdma_read(remote, &[end.segment(0, 20_000)]);
        let fenced = end.work(1)?.send(&[end.segment(0, 20_000)]).fence();
        let (read, fenced) = (end.post(read)?, end.post(fenced)?);
        let taken = end.sent(read)?;
        equal_status(taken.control.status, status::READ, "a remote read")?;
        equal_bytes(
            &end.data.read(0, 20_000),
            &pattern(65, 20_000),
            "what was read",
        )?;
        end.sent_well(fenced)?;
        end.close()?;
    }
    Ok(())
}

fn read_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let end = pair(env, &nic, Options::level(level).rdma_read())?;
        end.fill(0, 20_000, 65);
        offer(&end)?;
        let receive = end.post_receive(30_000, 20_000)?;
        env.meet("posted")?;
        end.received_bytes(receive, 30_000, &pattern(65, 20_000))?;
        end.close()?;
    }
    Ok(())
}

/// Bytes of a remote read that takes longer than two posts.
const LONG_READ: usize = 1 << 20;

/// Messages that follow a fenced one.
const BEHIND: usize = 8;

/// A message of eight bytes behind a fence carries what the read before it brings, and the next
/// ones, which have no fence, stay behind it.
fn read_then_short(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let end = pair(env, &nic, Options::level(level).bytes(2 * LONG_READ))?;
        let remote = remote_memory(env, None)?;
        env.meet("posted")?;
        let length = LONG_READ.min(nic.transfer_max() as usize);
        end.data.fill(0);
        end.fill(LONG_READ, 8 * BEHIND, 154);
        let read = end.work(2)?.rdma_read(remote, &[end.segment(0, length)]);
        let fenced = end.work(1)?.send(&[end.segment(length - 8, 8)]).fence();
        let mut next = Vec::new();
        for place in 0..BEHIND {
            next.push(end.work(1)?.send(&[end.segment(LONG_READ + 8 * place, 8)]));
        }
        let (read, fenced) = (end.post(read)?, end.post(fenced)?);
        let posted: Vec<_> = next.into_iter().map(|work| end.post(work)).collect();
        let taken = end.sent(read)?;
        equal_status(taken.control.status, status::READ, "a remote read")?;
        end.sent_well(fenced)?;
        for work in posted {
            end.sent_well(work?)?;
        }
        end.close()?;
    }
    Ok(())
}

fn read_then_short_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let options = Options::level(level).rdma_read().bytes(2 * LONG_READ);
        let end = pair(env, &nic, options)?;
        let length = LONG_READ.min(nic.transfer_max() as usize);
        let bytes = end.fill(0, length, 153);
        offer(&end)?;
        let mut receives = Vec::new();
        for place in 0..=BEHIND {
            receives.push(end.post_receive(LONG_READ + 8 * place, 8)?);
        }
        env.meet("posted")?;
        let mut expected = bytes[length - 8..].to_vec();
        expected.extend(pattern(154, 8 * BEHIND));
        for (place, receive) in receives.into_iter().enumerate() {
            let bytes = &expected[8 * place..][..8];
            end.received_bytes(receive, LONG_READ + 8 * place, bytes)?;
        }
        end.close()?;
    }
    Ok(())
}

fn read_sizes(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let end = pair(env, &nic, Options::level(level).bytes(2 << 20))?;
        let remote = remote_memory(env, None)?;
        for length in [0, 1, 64, 4097, 1_u32 << 20] {
            let length = length.min(nic.transfer_max()) as usize;
            end.data.fill(0);
            let parts = [
                end.segment(8, length / 3),
                end.segment((1 << 20) - 8, length - length / 3),
            ];
            let read = end.work(3)?.rdma_read(remote, &parts);
            let bits = end.sent(end.post(read)?)?.control.status;
            equal_status(bits, status::READ, "a remote read")?;
            let mut bytes = end.data.read(8, length / 3);
            bytes.extend(end.data.read((1 << 20) - 8, length - length / 3));
            equal_bytes(&bytes, &pattern(103, length), "what was read")?;
        }
        end.close()?;
    }
    Ok(())
}

fn read_sizes_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in read_levels(&nic)? {
        let end = pair(env, &nic, Options::level(level).rdma_read().bytes(2 << 20))?;
        end.fill(0, 1 << 20, 103);
        offer(&end)?;
        end.close()?;
    }
    Ok(())
}

const FOLLOWED: u64 = 50;

/// At the reliable levels order is kept: a message tells that what was written before is there.
fn write_then_send(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.reliable_levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        for round in 0..FOLLOWED {
            env.meet("posted")?;
            end.fill(0, 10_000, round);
            let write = end.work(2)?.rdma_write(remote, &[end.segment(0, 10_000)]);
            let write = end.post(write)?;
            let send = end.post_send(0, 1)?;
            let bits = end.sent(write)?.control.status;
            equal_status(bits, status::WRITTEN, "a remote write")?;
            end.sent_well(send)?;
        }
        end.close()?;
    }
    Ok(())
}

fn written_then_sent(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.reliable_levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        offer(&end)?;
        for round in 0..FOLLOWED {
            let expected = pattern(round, 10_000);
            let receive = end.post_receive(20_000, 1)?;
            env.meet("posted")?;
            end.received_bytes(receive, 20_000, &expected[..1])?;
            equal_bytes(
                &end.data.read(0, 10_000),
                &expected,
                "memory when the message is there",
            )?;
        }
        end.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flagged_write_ends_in_a_word() {
        for round in 1..=FLAGS {
            assert!(flagged(round).is_multiple_of(4) && flagged(round) <= FLAGGED);
        }
    }
}
