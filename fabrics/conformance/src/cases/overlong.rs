//! Receives whose posted length runs past their region: what is checked is what a message fills.

use std::sync::Arc;

use viaduct_provider::Segment;
use viaduct_provider::via::{MemoryAttributes, ReliabilityLevel};

use super::extensions::{CONTINUES, of_fabric, splitting};
use super::levels::{RECEIVE, broke, flushed, watched};
use super::rdma::{offer, remote_memory};
use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status};
use crate::environment::Environment;
use crate::memory::{Block, free_shared, pattern};
use crate::pair::{End, Nic, Options, RR, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        135,
        Level::EarlyAdopter,
        "receives_that_run_past_their_region_take_what_fits",
        &[fitting_sender, pool_of_receives],
    ),
    Case::pair(
        136,
        Level::EarlyAdopter,
        "messages_that_run_past_the_region_are_refused",
        &[overrunning_sender, overrun_target],
    ),
    Case::pair(
        137,
        Level::Functional,
        "segments_are_checked_as_far_as_they_are_filled",
        &[segments_sender, segments_target],
    ),
    Case::pair(
        138,
        Level::Decision,
        "split_messages_are_checked_as_far_as_they_go",
        &[split_sender, split_target],
    ),
    Case::pair(
        139,
        Level::EarlyAdopter,
        "remote_write_with_immediate_touches_no_buffer_of_its_receive",
        &[immediate_writer, immediate_target],
    ),
];

/// Longer than any region here.
const POSTED: usize = 256 << 10;
/// What memory holds that nobody may write.
const UNTOUCHED: u8 = 0xD0;

/// Memory of which the first bytes are registered.
#[derive(Clone, Copy)]
struct Area {
    all: Block,
    region: Block,
    handle: u32,
}

impl Area {
    fn new(env: &Environment, nic: &Nic, all: Block, bytes: usize) -> Outcome<Self> {
        all.fill(UNTOUCHED);
        let region = all.first(bytes);
        let handle = region.register(env, nic.handle, &MemoryAttributes::local(nic.tag))?;
        Ok(Self {
            all,
            region,
            handle: handle.bits(),
        })
    }

    /// So many bytes of it, of which a half is registered: once of a program's memory, and once of
    /// the fabric's where it allocates any.
    fn of_both_kinds(env: &Environment, nic: &Nic, bytes: usize) -> Outcome<Vec<Self>> {
        let private = Block::new(env, 2 * bytes)?;
        let mut areas = vec![Self::new(env, nic, private, bytes)?];
        if let Some(shared) = of_fabric(env, nic, 2 * bytes)? {
            areas.push(Self::new(env, nic, shared, bytes)?);
        }
        Ok(areas)
    }

    /// A segment that begins so many bytes before the end of the region.
    fn segment(self, room: usize, length: usize) -> Segment {
        Segment {
            address: self.region.address() + (self.region.length() - room) as u64,
            handle: self.handle,
            length: length as u32,
        }
    }

    /// Its last bytes.
    fn last(self, room: usize, bytes: usize) -> Vec<u8> {
        self.region.read(self.region.length() - room, bytes)
    }

    #[track_caller]
    fn nothing_behind(self) -> Outcome {
        let (start, end) = (self.region.length(), self.all.length());
        let behind = self.all.read(start, end - start);
        let expected = vec![UNTOUCHED; end - start];
        equal_bytes(&behind, &expected, "memory behind the region")
    }

    /// Gives memory of the fabric back, which is the second kind.
    fn free_shared(areas: Vec<Self>, env: &Environment, nic: &Nic) -> Outcome {
        for area in areas.into_iter().skip(1) {
            let handle = viaduct_provider::via::MemoryHandle::from_bits(area.handle);
            let fabric = env.provider();
            fabric.deregister_memory(nic.handle, area.region.as_pointer(), handle)?;
            free_shared(env, nic.handle, area.all)?;
        }
        Ok(())
    }
}

/// As many areas as the other side makes: both have the same fabric.
fn kinds(env: &Environment, nic: &Nic) -> Outcome<usize> {
    let shared = of_fabric(env, nic, 1)?;
    if let Some(block) = shared {
        free_shared(env, nic.handle, block)?;
    }
    Ok(1 + usize::from(shared.is_some()))
}

/// Buffers of a pool, and what is sent into them, one after the other.
fn pools(nic: &Nic) -> [(usize, Vec<usize>); 2] {
    let long = (96 << 10).min(nic.transfer_max() as usize);
    [
        (1024, vec![0, 1, 48, 240, 241, 700, 1023, 1024]),
        (long, vec![1025, long - 1, long]),
    ]
}

fn fitting_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for _ in 0..kinds(env, &nic)? {
            for (buffer, sizes) in pools(&nic) {
                let end = pair(env, &nic, Options::level(level).bytes(buffer))?;
                env.meet("posted")?;
                for size in sizes {
                    end.fill(0, size, size as u64);
                    end.sent_well(end.post_send(0, size)?)?;
                }
                end.close()?;
            }
        }
    }
    Ok(())
}

/// One length is posted for every buffer of a pool; the region ends with the last.
fn pool_of_receives(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for kind in 0..kinds(env, &nic)? {
            for (buffer, sizes) in pools(&nic) {
                let end = pair(env, &nic, Options::level(level))?;
                let areas = Area::of_both_kinds(env, &nic, buffer * sizes.len())?;
                let area = areas[kind];
                let room = |index: usize| buffer * (sizes.len() - index);
                let receives = (0..sizes.len())
                    .map(|index| {
                        let segment = area.segment(room(index), POSTED);
                        end.post_to_receive(end.work(1)?.receive(&[segment]))
                    })
                    .collect::<Outcome<Vec<_>>>()?;
                env.meet("posted")?;
                for (index, (receive, size)) in receives.into_iter().zip(&sizes).enumerate() {
                    let control = end.received(receive)?.control;
                    equal_status(control.status, status::RECEIVED, "a receive")?;
                    equal(control.length as usize, *size, "bytes of a receive")?;
                    let expected = pattern(*size as u64, *size);
                    let bytes = area.last(room(index), *size);
                    equal_bytes(&bytes, &expected, "the data of a receive")?;
                }
                area.nothing_behind()?;
                end.close()?;
                Area::free_shared(areas, env, &nic)?;
            }
        }
    }
    Ok(())
}

/// Bytes to the end of the region, and bytes of a message that are more.
fn overruns(nic: &Nic) -> [(usize, usize); 5] {
    let longest = (70_000).min(nic.transfer_max() as usize);
    [(0, 1), (64, 65), (64, 1000), (5000, 5001), (5000, longest)]
}

fn overrunning_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for _ in 0..kinds(env, &nic)? {
            for (_, bytes) in overruns(&nic) {
                overrunning_send(env, level, bytes)?;
            }
        }
    }
    Ok(())
}

fn overrunning_send(env: &Arc<Environment>, level: ReliabilityLevel, bytes: usize) -> Outcome {
    let (mut end, errors) = watched(env, level)?;
    if bytes > end.data.length() {
        end = End::new(env, &end.nic, Options::level(level).bytes(bytes))?;
    }
    end.connect()?;
    env.meet("posted")?;
    let bad = end.sent(end.post_send(0, bytes)?)?.control.status;
    if level == UD {
        equal_status(bad, status::SENT, "the send of a dropped message")?;
        end.fill(0, 64, 136);
        end.sent_well(end.post_send(0, 64)?)?;
        return end.close();
    }
    if level == RR {
        let expected = status::SENT | status::REMOTE_DESCRIPTOR_ERROR;
        equal_status(bad, expected, "the send of a refused message")?;
    }
    broke(&end, &errors)?;
    end.close()
}

fn overrun_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for kind in 0..kinds(env, &nic)? {
            for (room, _) in overruns(&nic) {
                let (end, errors) = watched(env, level)?;
                end.connect()?;
                let areas = Area::of_both_kinds(env, &end.nic, 8192)?;
                let past = end.work(1)?.receive(&[areas[kind].segment(room, POSTED)]);
                let (past, next) = (end.post_to_receive(past)?, end.post_receive(0, 64)?);
                env.meet("posted")?;
                let bits = end.received(past)?.control.status;
                let expected = RECEIVE | status::DONE | status::PROTECTION_ERROR;
                equal_status(bits, expected, "the receive that the message ran past")?;
                areas[kind].nothing_behind()?;
                if level == UD {
                    end.received_bytes(next, 0, &pattern(136, 64))?;
                } else {
                    flushed(&end.received(next)?, RECEIVE)?;
                    broke(&end, &errors)?;
                }
                let nic = end.nic.clone();
                end.close()?;
                Area::free_shared(areas, env, &nic)?;
            }
        }
    }
    Ok(())
}

/// Bytes of the messages of case 137, and whether each arrives.
const MESSAGES: [(usize, bool); 9] = [
    (32, true),
    (33, false),
    (16, true),
    (16, true),
    (17, false),
    (8, false),
    (8, false),
    (16, true),
    (48, true),
];

fn segments_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    env.meet("posted")?;
    for (bytes, _) in MESSAGES {
        end.fill(0, bytes, 137);
        end.sent_well(end.post_send(0, bytes)?)?;
    }
    end.close()
}

fn segments_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD))?;
    let area = Area::new(env, &nic, Block::new(env, 8192)?, 4096)?;
    let second = Area::new(env, &nic, Block::new(env, 8192)?, 4096)?;
    let good = |place: usize| end.segment(16 * place, 16);
    let other = Block::new(env, 4096)?;
    let tag = env.provider().create_protection_tag(nic.handle)?;
    let other_tag = other.register(env, nic.handle, &MemoryAttributes::local(tag))?;
    let dead = Block::new(env, 4096)?;
    let dead_handle = dead.register(env, nic.handle, &MemoryAttributes::local(nic.tag))?;
    env.provider()
        .deregister_memory(nic.handle, dead.as_pointer(), dead_handle)?;
    let named = |block: Block, handle: u32, length: u32| Segment {
        address: block.address(),
        handle,
        length,
    };
    let outside = named(other, area.handle, 16);
    let receives = [
        // As far as the end of the region in the middle, and a byte further.
        vec![good(0), area.segment(16, 2048), good(1)],
        vec![good(0), area.segment(16, 2048), good(1)],
        vec![second.segment(16, 2048), good(0)],
        // Nothing of the second segment is in its region.
        vec![good(0), outside],
        vec![good(0), outside],
        // What no message reaches must still be the VI's.
        vec![good(0), named(other, other_tag.bits(), 16)],
        vec![good(0), named(dead, dead_handle.bits(), 16)],
        vec![good(0), named(dead, dead_handle.bits(), 0)],
        vec![good(0), good(1), good(2)],
    ]
    .map(|segments| {
        let work = end.work(segments.len())?.receive(&segments);
        end.post_to_receive(work)
    });
    env.meet("posted")?;
    for (index, (receive, (bytes, arrives))) in receives.into_iter().zip(MESSAGES).enumerate() {
        let control = end.received(receive?)?.control;
        let expected = if arrives {
            status::RECEIVED
        } else {
            RECEIVE | status::DONE | status::PROTECTION_ERROR
        };
        equal_status(control.status, expected, format_args!("receive {index}"))?;
        let length = if arrives { bytes } else { 0 };
        equal(control.length as usize, length, "its bytes")?;
        if index == 0 {
            let mut message = end.data.read(0, 16);
            message.extend(area.last(16, 16));
            equal_bytes(&message, &pattern(137, 32), "its data")?;
        }
    }
    equal_bytes(&other.read(0, 4096), &[0; 4096], "memory of another tag")?;
    area.nothing_behind()?;
    second.nothing_behind()?;
    equal_bytes(&end.data.read(0, 48), &pattern(137, 48), "the last message")?;
    end.close()
}

fn split_sender(env: &Arc<Environment>) -> Outcome {
    let end = splitting(env, &Nic::open(env)?)?;
    end.fill(0, 500, 138);
    env.meet("posted")?;
    for bytes in [500, 500, 100] {
        end.sent_well(end.post_send(0, bytes)?)?;
    }
    end.close()
}

/// A receive of 400 bytes, of which 100 lie in its region, before, behind and without one that is
/// as it should be.
fn split_target(env: &Arc<Environment>) -> Outcome {
    let end = splitting(env, &Nic::open(env)?)?;
    let area = || Area::new(env, &end.nic, Block::new(env, 8192)?, 4096);
    let past = |area: Area| end.post_to_receive(end.work(1)?.receive(&[area.segment(100, 400)]));
    let areas = [area()?, area()?, area()?];
    let receives = [
        past(areas[0])?,
        end.post_receive(0, 400)?,
        end.post_receive(400, 400)?,
        past(areas[1])?,
        past(areas[2])?,
    ];
    env.meet("posted")?;
    let refused = RECEIVE | status::DONE;
    let expected = [
        (refused | status::PROTECTION_ERROR, 0),
        (refused | status::PARTIAL_ERROR, 0),
        (status::RECEIVED | CONTINUES, 400),
        (status::RECEIVED, 100),
        (status::RECEIVED, 100),
    ];
    for (index, (receive, (bits, bytes))) in receives.into_iter().zip(expected).enumerate() {
        let control = end.received(receive)?.control;
        equal_status(control.status, bits, format_args!("receive {index}"))?;
        equal(
            control.length,
            bytes,
            format_args!("bytes of receive {index}"),
        )?;
        if index == 3 {
            let mut message = end.data.read(400, 400);
            message.extend(areas[1].last(100, 100));
            equal_bytes(&message, &pattern(138, 500), "the message in two parts")?;
        }
    }
    areas.into_iter().try_for_each(Area::nothing_behind)?;
    end.close()
}

fn immediate_writer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        for seed in [1, 2] {
            end.fill(0, 64, seed);
            let write = end.work(2)?.rdma_write(remote, &[end.segment(0, 64)]);
            let bits = end.sent(end.post(write.immediate(7))?)?.control.status;
            equal_status(bits, status::WRITTEN, "a remote write with immediate data")?;
        }
        end.close()?;
    }
    Ok(())
}

fn immediate_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let tag = env.provider().create_protection_tag(nic.handle)?;
    let other = Block::new(env, 4096)?;
    let foreign = other.register(env, nic.handle, &MemoryAttributes::local(tag))?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        let area = Area::new(env, &nic, Block::new(env, 8192)?, 4096)?;
        let foreign = Segment {
            address: other.address(),
            handle: foreign.bits(),
            length: 64,
        };
        let receives = [foreign, area.segment(8, POSTED)]
            .map(|segment| end.post_to_receive(end.work(1)?.receive(&[segment])));
        offer(&end)?;
        for receive in receives {
            let control = end.received(receive?)?.control;
            equal_status(control.status, status::WRITTEN_BY_PEER, "the receive")?;
            equal(control.immediate, 7, "its immediate data")?;
            equal(control.length, 64, "bytes of the remote write")?;
        }
        equal_bytes(&end.data.read(0, 64), &pattern(2, 64), "what was written")?;
        area.nothing_behind()?;
        end.close()?;
    }
    Ok(())
}
