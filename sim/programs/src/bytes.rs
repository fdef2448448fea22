//! The bytes of messages, where they lie in the memory of programs: taken from a sender when its
//! message starts, put where they belong when all of them are there. Each function asks the
//! semantics, whose answer stands as long as nobody else has the lock of the simulation.
//!
//! Programs lie in this process, or elsewhere: then their addresses say so.

use viaduct_agent::{Elsewhere, Owner, copy, elsewhere, gather};
use viaduct_provider::via::{
    DataSegment, MemoryHandle, MessageHeader, Nic, ReceiveOutcome, RemoteSegment, RemoteVerdict,
    StartedReceive, StartedRemote, ViId, WorkId,
};

/// Takes the bytes of a send that has started.
pub(crate) fn gather_send(
    nic: &Nic,
    memory: &Elsewhere,
    (vi, work): (ViId, WorkId),
    into: &mut Vec<u8>,
) {
    let segments = nic.send_segments(vi, work);
    let bytes = segments.iter().map(|it| it.length as usize).sum();
    // SAFETY: the semantics gives the segments of a send that is under way, which it has found in
    // registered memory when it started it, just now.
    unsafe { take(memory, segments, into, bytes) };
}

/// Places a message into the receives that it has taken; whether it can be.
pub(crate) fn place_received(
    nic: &Nic,
    memory: &Elsewhere,
    (vi, receive): (ViId, &StartedReceive),
    is_early: bool,
    payload: &[u8],
) -> bool {
    let several: Vec<DataSegment>;
    let segments = if receive.receives == 1 {
        nic.receive_segments(vi, receive.work)
    } else {
        several = (0..u64::from(receive.receives))
            .flat_map(|place| nic.receive_segments(vi, receive.work.following(place)))
            .copied()
            .collect();
        &several
    };
    // What was registered when the first byte came may not be any more.
    let may = |tag| nic.permits_message(tag, segments, payload.len() as u64);
    if is_early && !nic.vi_tag(vi).is_some_and(may) {
        return false;
    }
    // SAFETY: `start_receive` has just checked that what the message fills of the segments lies in
    // registered memory, and that they hold it, or did so before and that is still so.
    unsafe { place(memory, payload, segments) };
    true
}

/// A remote write meets its region: what it took, if it was placed.
pub(crate) fn write_remote(
    nic: &mut Nic,
    memory: &Elsewhere,
    (vi, header, remote): (ViId, &MessageHeader, RemoteSegment),
    payload: &[u8],
    outcome: ReceiveOutcome,
) -> Option<StartedRemote> {
    let remote = named(nic, remote);
    let RemoteVerdict::Access(started) = nic.start_remote_write(vi, header, remote) else {
        return None;
    };
    // SAFETY: `start_remote_write` has just checked the range.
    unsafe { place(memory, payload, &[range(header, remote)]) };
    let is_placed = nic.finish_remote_write(vi, started, outcome);
    (is_placed && outcome == ReceiveOutcome::Placed).then_some(started)
}

/// A remote read meets its region: takes the bytes, if it may.
pub(crate) fn read_remote(
    nic: &mut Nic,
    memory: &Elsewhere,
    (vi, header, remote): (ViId, &MessageHeader, RemoteSegment),
    into: &mut Vec<u8>,
) -> bool {
    let remote = named(nic, remote);
    let verdict = nic.start_remote_read(vi, header, remote);
    if !matches!(verdict, RemoteVerdict::Access(_)) {
        return false;
    }
    // SAFETY: `start_remote_read` has just checked the range.
    unsafe {
        take(
            memory,
            &[range(header, remote)],
            into,
            header.length as usize,
        )
    };
    true
}

/// Places the answer of a remote read into the segments of its descriptor; whether it can be.
pub(crate) fn place_read(
    nic: &Nic,
    memory: &Elsewhere,
    (vi, work): (ViId, WorkId),
    payload: &[u8],
) -> bool {
    let segments = nic.send_segments(vi, work);
    if !nic.vi_tag(vi).is_some_and(|tag| nic.permits(tag, segments)) {
        return false;
    }
    // SAFETY: the segments lie in memory that is registered now.
    unsafe { place(memory, payload, segments) };
    true
}

fn range(header: &MessageHeader, remote: RemoteSegment) -> DataSegment {
    DataSegment {
        address: remote.address,
        handle: remote.handle,
        length: header.length,
    }
}

/// A range as its region is named: a peer calls memory of a program elsewhere by the addresses that
/// the program has there.
fn named(nic: &Nic, remote: RemoteSegment) -> RemoteSegment {
    let region = nic.region(remote.handle);
    let owner = region.and_then(|region| Owner::of(region.address));
    let address = owner.map_or(remote.address, |owner| owner.name_written(remote.address));
    RemoteSegment { address, ..remote }
}

/// Whether the bytes of segments are in the memory of a program elsewhere: the first that has any
/// says so. What an empty one names, or one that a message does not reach, nobody has checked.
#[inline]
fn are_elsewhere(segments: &[DataSegment]) -> bool {
    let mut segments = segments.iter();
    let first = segments.find(|segment| segment.length > 0);
    first.is_some_and(|segment| Owner::of(segment.address).is_some())
}

/// Appends so many bytes of segments.
///
/// # Safety
///
/// The segments hold so many bytes, in memory that is registered for this access.
unsafe fn take(memory: &Elsewhere, from: &[DataSegment], into: &mut Vec<u8>, length: usize) {
    if !are_elsewhere(from) {
        // SAFETY: by the caller's promise.
        return unsafe { gather(from, into, length) };
    }
    let mut left = length;
    for segment in from {
        let bytes = left.min(segment.length as usize);
        let start = into.len();
        into.resize(start + bytes, 0);
        if let Some((memory, owner, address)) = elsewhere::find(memory, segment.address) {
            memory.read(owner, address, &mut into[start..]);
        }
        left -= bytes;
    }
}

/// Puts a message's bytes where they belong.
///
/// # Safety
///
/// The segments hold so many bytes, in memory that is registered for this access.
unsafe fn place(memory: &Elsewhere, payload: &[u8], into: &[DataSegment]) {
    if are_elsewhere(into) {
        let mut rest = payload;
        for segment in into {
            let (bytes, later) = rest.split_at(rest.len().min(segment.length as usize));
            if !bytes.is_empty()
                && let Some((memory, owner, address)) = elsewhere::find(memory, segment.address)
            {
                memory.write(owner, address, bytes);
            }
            rest = later;
        }
        return;
    }
    let from = [DataSegment {
        address: payload.as_ptr().expose_provenance() as u64,
        handle: MemoryHandle::from_bits(0),
        length: payload.len() as u32,
    }];
    // SAFETY: the payload is ours; the segments by the caller's promise.
    unsafe { copy(&from, into, payload.len()) };
}
