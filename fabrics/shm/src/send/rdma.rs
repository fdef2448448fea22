//! Remote writes and reads, at their initiator.

use viaduct_core::Status;
use viaduct_core::protection::{self, RemoteAccess};

use super::outgoing::{Outgoing, ReadPart, Target, copy_planned, pieces, readable};
use super::{Completes, SendSide, Step};
use crate::channel::{Kind, flag};
use crate::pool::Chunk;
use crate::regions::{Placement, ProtectionError};
use crate::transfer::Mechanism;
use crate::{cma, copy};

/// What the initiator can say of a remote operation.
enum Verdict {
    Allowed(Target),
    Refused,
    /// The target's side must check.
    Unknown,
}

impl SendSide {
    pub(super) fn rdma_write(&mut self, number: u32, hint: u32, own_posted: u32) -> Step {
        let (completes, acknowledge) = Self::completes(self.side.level());
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        let Some(remote) = entry.remote() else {
            return Step::Blocked;
        };
        let (bytes, has_immediate) = (u64::from(entry.bytes), entry.has_immediate());
        let mut flags = acknowledge;
        if has_immediate {
            flags |= flag::IMMEDIATE;
            if out.offset == 0 && !out.has_credit(hint) {
                return self.overrun(number);
            }
        }
        if out.offset > 0 {
            return self.rdma_write_parts(number, flags, own_posted);
        }
        if !out.has_room(1) {
            return Step::Blocked;
        }
        match out.remote_range(remote.handle, remote.address, bytes, RemoteAccess::Write) {
            Verdict::Refused => {
                let immediate = entry.immediate;
                out.publish(
                    Kind::RdmaRefused,
                    flags,
                    bytes as u32,
                    immediate,
                    own_posted,
                    1,
                );
                out.messages = out.messages.wrapping_add(u32::from(has_immediate));
                out.kick();
                return self.begin(number, completes, Status::PENDING);
            }
            Verdict::Unknown => return self.rdma_write_parts(number, flags, own_posted),
            Verdict::Allowed(target) => {
                let plan = out.plan(bytes, &target);
                let is_placed = match target {
                    _ if bytes == 0 => {
                        out.counts.direct += 1;
                        true
                    }
                    Target::Mapped(target) if plan.mechanism != Mechanism::Pool => {
                        let last = entry.segments().filter(|s| s.length > 0).count();
                        let mut seen = 0;
                        out.counts.direct += 1;
                        out.counts.data_writes += last as u64;
                        entry.each_piece(0, bytes, |source, done, piece| {
                            seen += 1;
                            // SAFETY: inside the peer's mapped segment; the source was checked.
                            unsafe {
                                let target = target.as_ptr().add(done as usize);
                                if seen == last {
                                    copy::copy_last_word_last(
                                        target,
                                        source,
                                        piece,
                                        plan.non_temporal,
                                    );
                                } else {
                                    copy_planned(target, source, piece, plan);
                                }
                            }
                        });
                        true
                    }
                    Target::Private(address) if plan.mechanism != Mechanism::Pool => {
                        // The kernel promises no order: the last word goes in a call of its own.
                        let tail = bytes.min(8);
                        let body = bytes - tail;
                        let pid = out.link.peer_pid();
                        let mut copies = 0;
                        let mut write = |start: u64, length: u64| {
                            let local = pieces(entry, start, length);
                            copies += local.len() as u64;
                            // SAFETY: as above.
                            unsafe {
                                cma::write(pid, &readable(&local), &[(address + start, length)])
                            }
                            .is_ok()
                        };
                        let is_copied = (body == 0 || write(0, body)) && write(body, tail);
                        if is_copied {
                            out.counts.copied += 1;
                            out.counts.copies += copies;
                        }
                        is_copied
                    }
                    _ => false,
                };
                if !is_placed {
                    return self.rdma_write_parts(number, flags, own_posted);
                }
                out.counts.bytes += bytes;
            }
        }
        if has_immediate {
            out.publish(
                Kind::RdmaImmediate,
                flags,
                bytes as u32,
                entry.immediate,
                own_posted,
                1,
            );
            out.messages = out.messages.wrapping_add(1);
            return self.begin(number, completes, Status::PENDING);
        }
        // The bytes are in place: nothing is left to wait for at any level.
        self.begin(number, Completes::Now, Status::PENDING)
    }

    /// A remote write whose bytes the target's side places.
    fn rdma_write_parts(&mut self, number: u32, flags: u8, own_posted: u32) -> Step {
        let (completes, _) = Self::completes(self.side.level());
        loop {
            let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
                return Step::Blocked;
            };
            let Some(remote) = entry.remote() else {
                return Step::Blocked;
            };
            let (chunk, bytes) = if entry.bytes == 0 {
                if !out.has_room(1) {
                    return Step::Blocked;
                }
                (
                    Chunk {
                        offset: 0,
                        bytes: 0,
                    },
                    0,
                )
            } else {
                let Some(part) = out.next_part(&self.side, entry.bytes.into()) else {
                    return Step::Blocked;
                };
                out.fill_chunk(entry, part.0, part.1);
                part
            };
            let end = out.offset + bytes;
            let mut part_flags = flags;
            if out.offset > 0 {
                part_flags |= flag::CONTINUES;
            }
            if end < u64::from(entry.bytes) {
                part_flags |= flag::MORE;
            }
            let words = [
                u64::from(chunk.offset) | bytes << 32,
                remote.address.wrapping_add(out.offset),
                remote.handle.into(),
            ];
            out.direction.write_words(out.next, words);
            let (length, immediate) = (entry.bytes, entry.immediate);
            out.publish(
                Kind::RdmaWrite,
                part_flags,
                length,
                immediate,
                own_posted,
                1,
            );
            if bytes > 0 {
                out.chunks.push_back((out.next, chunk, None));
            }
            out.offset = end;
            out.placed_there = out.next;
            if end >= u64::from(entry.bytes) {
                // The target may make no call at all.
                out.kick();
                out.counts.pooled += 1;
                out.counts.bytes += u64::from(entry.bytes);
                let takes_receive = flags & flag::IMMEDIATE != 0;
                out.messages = out.messages.wrapping_add(takes_receive.into());
                return self.begin(number, completes, Status::PENDING);
            }
        }
    }

    pub(super) fn rdma_read(&mut self, number: u32, own_posted: u32) -> Step {
        let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
            return Step::Blocked;
        };
        let Some(remote) = entry.remote() else {
            return Step::Blocked;
        };
        let bytes = u64::from(entry.bytes);
        if out.offset == 0 {
            if !out.has_room(1) {
                return Step::Blocked;
            }
            match out.remote_range(remote.handle, remote.address, bytes, RemoteAccess::Read) {
                Verdict::Refused => {
                    let flags = flag::READ | flag::ACKNOWLEDGE;
                    out.publish(Kind::RdmaRefused, flags, bytes as u32, 0, own_posted, 1);
                    out.kick();
                    return self.begin(number, Completes::WhenConsumed, Status::PENDING);
                }
                Verdict::Allowed(target) => {
                    let plan = out.plan(bytes, &target);
                    let is_here = match target {
                        _ if bytes == 0 => {
                            out.counts.direct += 1;
                            true
                        }
                        Target::Mapped(source) if plan.mechanism != Mechanism::Pool => {
                            entry.each_piece(0, bytes, |target, done, piece| {
                                // SAFETY: inside the peer's mapped segment; the target was checked.
                                unsafe {
                                    copy::copy(target, source.as_ptr().add(done as usize), piece)
                                };
                            });
                            out.counts.direct += 1;
                            true
                        }
                        Target::Private(address) if plan.mechanism != Mechanism::Pool => {
                            let local = pieces(entry, 0, bytes);
                            // SAFETY: the local ranges were checked when the descriptor was posted.
                            let is_copied = unsafe {
                                cma::read(out.link.peer_pid(), &local, &[(address, bytes)])
                            }
                            .is_ok();
                            if is_copied {
                                out.counts.copied += 1;
                                out.counts.copies += local.len() as u64;
                            }
                            is_copied
                        }
                        _ => false,
                    };
                    if is_here {
                        out.counts.bytes += bytes;
                        return self.begin(number, Completes::Now, Status::PENDING);
                    }
                }
                Verdict::Unknown => {}
            }
        }
        self.rdma_read_parts(number, own_posted)
    }

    /// A remote read that the target's side answers.
    fn rdma_read_parts(&mut self, number: u32, own_posted: u32) -> Step {
        loop {
            let (Some(entry), Some(out)) = (self.side.queue.get(number), &mut self.out) else {
                return Step::Blocked;
            };
            let Some(remote) = entry.remote() else {
                return Step::Blocked;
            };
            let total = u64::from(entry.bytes).max(1);
            let Some((chunk, bytes)) = out.next_part(&self.side, total) else {
                return Step::Blocked;
            };
            let bytes = bytes.min(u64::from(entry.bytes) - out.offset);
            let words = [
                u64::from(chunk.offset) | bytes << 32,
                remote.address.wrapping_add(out.offset),
                remote.handle.into(),
            ];
            out.direction.write_words(out.next, words);
            if out.offset == 0 {
                out.reads += 1;
            }
            let end = out.offset + bytes;
            let is_last = end >= u64::from(entry.bytes);
            let flags = flag::ACKNOWLEDGE | if is_last { 0 } else { flag::MORE };
            out.publish(Kind::RdmaRead, flags, entry.bytes, 0, own_posted, 1);
            let part = ReadPart {
                descriptor: number,
                offset: out.offset,
                bytes: bytes as u32,
                is_last,
            };
            out.chunks.push_back((out.next, chunk, Some(part)));
            out.offset = end;
            if is_last {
                out.counts.pooled += 1;
                out.counts.bytes += u64::from(entry.bytes);
                out.kick();
                return self.begin(number, Completes::WhenConsumed, Status::PENDING);
            }
        }
    }
}

impl Outgoing {
    /// Whether a remote operation is allowed, and where its range is.
    fn remote_range(
        &mut self,
        handle: u32,
        address: u64,
        bytes: u64,
        access: RemoteAccess,
    ) -> Verdict {
        let peer = self.remote.as_vi();
        if protection::check_end(&peer, access).is_err() {
            return Verdict::Refused;
        }
        if !self.is_consumed(self.placed_there) {
            self.refresh();
            if !self.is_consumed(self.placed_there) {
                return Verdict::Unknown;
            }
        }
        let Some(regions) = &self.regions else {
            return Verdict::Unknown;
        };
        match regions.check_remote(handle, address, bytes, &peer, access) {
            Err(ProtectionError::Unsettled) => Verdict::Unknown,
            Err(_) => Verdict::Refused,
            Ok(Placement {
                segment: Some(segment),
                offset,
            }) => match self.reach(segment.bits(), offset, bytes) {
                Target::Nowhere => Verdict::Unknown,
                target => Verdict::Allowed(target),
            },
            Ok(_) => match self.reach(0, address, bytes) {
                Target::Nowhere => Verdict::Unknown,
                target => Verdict::Allowed(target),
            },
        }
    }
}
