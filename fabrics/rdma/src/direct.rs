//! Writes, reads and atomics that this process carries out in its peer's memory by itself: by plain
//! copies where the peer shares the pages ([`crate::shared`]), by the kernel elsewhere.
//!
//! The peer's tables say for each of them whether it is let through. What they do not let through
//! is asked of the peer, which refuses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_core::verbs::check;
use viaduct_core::verbs::flags::{access, send};
use viaduct_core::verbs::{CompletionStatus, Elements, Key, Phase, SendOpcode};
use viaduct_processes::cma;
use viaduct_processes::copy::copy_last_word_last;
use viaduct_processes::segment::{Access, Store, Window};

use crate::counters::live;
use crate::engine::Engine;
use crate::faults::Struck;
use crate::link::Link;
use crate::memory::{self, Piece};
use crate::pair::SendRequest;
use crate::requester::INDEX_MASK;
use crate::state::{OnRing, Pair, Payload, Send, begins_at_once, source_of};
use crate::tables::Found;

/// Bytes at the end of a remote write that are written last.
const WORD_BYTES: u64 = 8;

/// A peer's store, and what of it is mapped here.
#[derive(Debug)]
pub(crate) struct Windows {
    store: Store,
    /// By the key of the region.
    open: BTreeMap<u32, Open>,
    /// The one that was used last.
    last: Option<(u32, Open)>,
}

/// The shared pages of a region, mapped.
#[derive(Debug)]
struct Open {
    /// What the region's entry had when they were.
    sequence: u32,
    /// The address of the first byte, as the peer has it.
    address: u64,
    can_write: bool,
    window: Window,
}

/// What is wanted of a peer's memory.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    opcode: SendOpcode,
    key: u32,
    address: u64,
    length: u64,
    /// The queue pairs at both ends.
    own: u32,
    peer: u32,
}

impl Windows {
    pub(crate) const fn new(store: Store) -> Self {
        Self {
            store,
            open: BTreeMap::new(),
            last: None,
        }
    }

    /// Where bytes of a region lie here, if all of them are shared. What the peer says of its pages
    /// is not believed further than its store reaches.
    #[inline]
    fn at(
        &mut self,
        wanted: &Wanted,
        found: &Found,
        is_same: impl Fn(u32, u32) -> bool,
    ) -> Option<*mut u8> {
        let key = wanted.key;
        let is_at_hand = self
            .last
            .as_ref()
            .is_some_and(|(last, open)| *last == key && open.sequence == found.sequence);
        if !is_at_hand {
            self.bring(key, found, is_same)?;
        }
        let (_, open) = self.last.as_ref()?;
        // A peer that lies may have said otherwise when the window was mapped.
        if wanted.opcode != SendOpcode::RdmaRead && !open.can_write {
            return None;
        }
        let offset = found.address.checked_sub(open.address)?;
        Some(open.window.range(offset, wanted.length)?.as_ptr())
    }

    /// Maps the shared pages of a region, if they are not, and has them at hand.
    #[cold]
    fn bring(&mut self, key: u32, found: &Found, is_same: impl Fn(u32, u32) -> bool) -> Option<()> {
        if found.shared.length == 0 {
            return None;
        }
        if let Some((last, open)) = self.last.take() {
            self.open.insert(last, open);
        }
        let open = match self.open.remove(&key) {
            Some(open) if open.sequence == found.sequence => open,
            _ => {
                // Regions that are gone are not to be mapped for ever.
                self.open.retain(|key, open| is_same(*key, open.sequence));
                let writes = access::REMOTE_WRITE | access::REMOTE_ATOMIC;
                let can_write = found.access & writes != 0;
                let access = if can_write {
                    Access::ReadWrite
                } else {
                    Access::Read
                };
                let length = usize::try_from(found.shared.length).ok()?;
                let window = self.store.window(found.shared.offset, length, access);
                Open {
                    sequence: found.sequence,
                    address: found.shared.address,
                    can_write,
                    window: window.ok()?,
                }
            }
        };
        self.last = Some((key, open));
        Some(())
    }
}

impl Engine {
    /// Whether a send is one that this process may carry out by itself.
    pub(crate) fn may_be_direct(&self, index: usize, opcode: SendOpcode) -> bool {
        self.links[index].as_ref().is_some_and(|link| {
            let is_copied = opcode.is_write() || opcode == SendOpcode::RdmaRead;
            is_copied && link.copies || link.windows.is_some() && check::remote_right(opcode) != 0
        })
    }

    /// Carries out the first send of a queue pair by itself, if the peer's tables let that through.
    pub(crate) fn carry_out(&mut self, pair: &Pair, index: usize, pieces: &[Piece]) -> bool {
        let (Some(link), Some(send)) = (&mut self.links[index], pair.sends.first()) else {
            return false;
        };
        let wanted = Wanted {
            opcode: send.opcode,
            key: send.remote_key,
            address: send.remote_address,
            length: send.length,
            own: pair.number,
            peer: pair.attributes.destination,
        };
        let is_own = link.socket.is_none();
        link.outgoing.begin_direct();
        let is_done = link.find(&wanted).is_some_and(|found| {
            let place = if is_own {
                Some(found.address as *mut u8)
            } else {
                link.place(&wanted, &found)
            };
            match place {
                Some(place) => {
                    if !is_own {
                        live().shared_copies.add(1);
                    }
                    // SAFETY: a part of a window that is mapped, or registered memory of this
                    // program; the pieces are that, or inline bytes.
                    unsafe { carry_out_at(place, send, pieces) }
                }
                None if link.copies && !send.opcode.is_atomic() => {
                    copy_by_kernel(link.pid, found.address, send, pieces)
                }
                None => false,
            }
        });
        link.outgoing.end_direct();
        if is_done {
            link.outgoing.count_direct(send.opcode, send.length);
        }
        is_done
    }

    /// Posts a remote write and carries it out in the peer's shared pages, if nothing is in the
    /// way. If something is, nothing has been done.
    ///
    /// # Safety
    ///
    /// With the flag `INLINE` the elements' bytes can be read.
    #[inline(always)]
    pub(crate) unsafe fn post_direct(&mut self, key: Key, request: &SendRequest<'_>) -> bool {
        let ([element], Some(Some(pair))) = (request.elements, self.objects.pairs.get_mut(key))
        else {
            return false;
        };
        let pair = &mut **pair;
        let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut()) else {
            return false;
        };
        let length = u64::from(element.length);
        // Those that were posted before are complete, so that this one may be.
        if link.windows.is_none()
            || !pair.sends.is_empty()
            || length == 0
            || self.faults.is_some()
            || !begins_at_once(pair, request, length)
        {
            return false;
        }
        let (regions, domain) = (&self.objects.regions, pair.domain.index());
        let is_inline = request.flags & send::INLINE != 0;
        let Some(source) = source_of(regions, domain, element, is_inline) else {
            return false;
        };
        let wanted = Wanted {
            opcode: request.opcode,
            key: request.remote_key,
            address: request.remote_address,
            length,
            own: pair.number,
            peer: pair.attributes.destination,
        };
        link.outgoing.begin_direct();
        let found = link.find(&wanted);
        let place = found.and_then(|found| link.place(&wanted, &found));
        if let Some(place) = place {
            // SAFETY: a part of a window that is mapped; registered memory of this program, or
            // inline bytes.
            unsafe { copy_last_word_last(place, source as *const u8, length as usize, false) };
        }
        link.outgoing.end_direct();
        if place.is_none() {
            return false;
        }
        // The peer has it: what follows delays nobody.
        self.complete_direct(key, request, length);
        true
    }

    /// Completes a write that has been carried out.
    #[inline(never)]
    fn complete_direct(&mut self, key: Key, request: &SendRequest<'_>, length: u64) {
        let Some(Some(pair)) = self.objects.pairs.get_mut(key) else {
            return;
        };
        if let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut()) {
            link.outgoing.count_direct(request.opcode, length);
        }
        live().shared_copies.add(1);
        let sent = Send {
            request: request.request,
            opcode: request.opcode,
            flags: request.flags,
            length,
            immediate: 0,
            remote_address: request.remote_address,
            remote_key: request.remote_key,
            compare_add: 0,
            swap: 0,
            phase: Phase::Done(CompletionStatus::Success),
            sequence: 0,
            offset: 0,
            own: OnRing {
                payload: Payload::Elements(Elements::new(&[])),
                destination: None,
                end: 0,
                is_placed: true,
                struck: Struck::default(),
            },
        };
        let notices = &mut self.objects.notices;
        notices.complete_send(pair, &sent, CompletionStatus::Success);
    }
}

impl Link {
    /// Where bytes lie, if the peer's tables let through what is wanted of them. The caller has
    /// said that it is under way: a peer that takes a region away waits for the end of that.
    #[inline(always)]
    fn find(&self, wanted: &Wanted) -> Option<Found> {
        let tables = self.tables.as_ref()?;
        let regions = tables.regions.as_ref()?;
        let right = check::remote_right(wanted.opcode);
        let entry = tables.pairs.at(wanted.peer & INDEX_MASK);
        let is_let_through = entry.hears.load(Ordering::Acquire) == 1
            && entry.peer.load(Ordering::Relaxed) == wanted.own
            && check::lets_peer(entry.access.load(Ordering::Relaxed), right)
            && (!wanted.opcode.is_atomic() || check::is_atomic_address(wanted.address));
        if !is_let_through {
            return None;
        }
        let domain = entry.domain.load(Ordering::Relaxed);
        regions.find(wanted.key, domain, right, wanted.address, wanted.length)
    }

    /// Where they lie here, if all of them are shared.
    #[inline(always)]
    fn place(&mut self, wanted: &Wanted, found: &Found) -> Option<*mut u8> {
        let regions = self.tables.as_ref()?.regions.as_ref()?;
        let is_same = |key, sequence| regions.is_same(key, sequence);
        self.windows.as_mut()?.at(wanted, found, is_same)
    }
}

/// Carries out a write, a read or an atomic at a place of this process; whether it did.
///
/// # Safety
///
/// The place has as many bytes as the send, for whatever it does; the pieces are registered memory
/// of this program, or inline bytes, and have as many.
unsafe fn carry_out_at(place: *mut u8, send: &Send, pieces: &[Piece]) -> bool {
    if !send.opcode.is_atomic() {
        // SAFETY: as promised by the caller.
        unsafe {
            if send.opcode == SendOpcode::RdmaRead {
                memory::read_all(pieces, place);
            } else {
                memory::write_all(place, pieces);
            }
        }
        return true;
    }
    // Where the region begins is the program's to say: its addresses may be aligned otherwise.
    if !place.addr().is_multiple_of(8) || send.length != 8 {
        return false;
    }
    // SAFETY: as promised by the caller, and aligned.
    let word = unsafe { AtomicU64::from_ptr(place.cast()) };
    let before = memory::atomic(word, send.opcode, send.compare_add, send.swap);
    // SAFETY: the pieces have eight bytes.
    unsafe { memory::read_all(pieces, (&raw const before).cast()) };
    true
}

/// Writes or reads a peer's memory by one call of the kernel; whether it did.
fn copy_by_kernel(pid: i32, remote: u64, send: &Send, pieces: &[Piece]) -> bool {
    live().kernel_copies.add(1);
    if send.opcode == SendOpcode::RdmaRead {
        // SAFETY: the pieces are registered memory of this program, open to local writes.
        return unsafe { cma::read(pid, pieces, &[(remote, send.length)]) }.is_ok();
    }
    // The end by itself, so that it is written last.
    let tail = if send.length > WORD_BYTES {
        WORD_BYTES
    } else {
        0
    };
    let body = send.length - tail;
    let ranges = [(remote, body), (remote.wrapping_add(body), tail)];
    let ranges = if tail > 0 { &ranges[..] } else { &ranges[..1] };
    let local: Vec<(*const u8, usize)>;
    let one;
    let local = match pieces {
        [(address, length)] => {
            one = [(address.cast_const(), *length)];
            &one[..]
        }
        _ => {
            local = pieces
                .iter()
                .map(|(at, length)| (at.cast_const(), *length))
                .collect();
            &local[..]
        }
    };
    // SAFETY: the pieces are registered memory of this program, or inline bytes.
    unsafe { cma::write(pid, local, ranges) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Shared;

    fn wanted(opcode: SendOpcode) -> Wanted {
        Wanted {
            opcode,
            key: 5,
            address: 0,
            length: 8,
            own: 1,
            peer: 2,
        }
    }

    #[test]
    fn a_peer_that_lies_about_its_pages_is_not_believed() {
        let store = Store::create("viaduct-test", 0x4000).unwrap();
        let mut windows = Windows::new(store);
        let true_one = Found {
            address: 0x7008,
            access: access::REMOTE_READ,
            shared: Shared {
                address: 0x7000,
                length: 0x1000,
                offset: 0x1000,
            },
            sequence: 2,
        };
        let mut is_found = |opcode, found: Found| {
            windows
                .at(&wanted(opcode), &found, |_, sequence| sequence == 2)
                .is_some()
        };
        let (read, write) = (SendOpcode::RdmaRead, SendOpcode::RdmaWrite);
        assert!(is_found(read, true_one));
        // What is mapped cannot be written, whatever is said of it later.
        let writable = Found {
            access: access::REMOTE_WRITE,
            ..true_one
        };
        assert!(!is_found(write, writable));
        assert!(!is_found(SendOpcode::AtomicFetchAndAdd, writable));
        // Bytes beside the window.
        for address in [0, 0x6fff, 0x7ff9, 0x8000, u64::MAX] {
            assert!(
                !is_found(
                    read,
                    Found {
                        address,
                        ..true_one
                    }
                ),
                "{address:#x}"
            );
        }
        assert!(is_found(read, true_one));
        // Windows beside the store.
        for (offset, length) in [
            (0x3000, 0x2000),
            (u64::MAX - 0xfff, 0x1000),
            (8, 0x1000),
            (0, u64::MAX),
            (0, 0),
        ] {
            let shared = Shared {
                offset,
                length,
                ..true_one.shared
            };
            let found = Found {
                shared,
                sequence: 4,
                ..true_one
            };
            assert!(!is_found(read, found), "{offset:#x}, {length:#x}");
        }
        // The region has become another.
        assert!(is_found(
            write,
            Found {
                sequence: 6,
                ..writable
            }
        ));
        assert_eq!(
            windows.last.as_ref().map(|(_, open)| open.sequence),
            Some(6)
        );
    }

    #[test]
    fn windows_of_regions_that_are_gone_are_not_kept() {
        let store = Store::create("viaduct-test", 0x4000).unwrap();
        let mut windows = Windows::new(store);
        let mut look = |key, is_there: fn(u32) -> bool| {
            let found = Found {
                address: 0x7000,
                access: access::REMOTE_WRITE,
                shared: Shared {
                    address: 0x7000,
                    length: 0x1000,
                    offset: 0x1000,
                },
                sequence: 2,
            };
            let wanted = Wanted {
                key,
                ..wanted(SendOpcode::RdmaWrite)
            };
            let place = windows.at(&wanted, &found, |key, _| is_there(key));
            assert!(place.is_some());
            let last = windows.last.iter().map(|(key, _)| *key);
            last.chain(windows.open.keys().copied()).collect::<Vec<_>>()
        };
        assert_eq!(look(5, |_| true), [5]);
        assert_eq!(look(6, |_| true), [6, 5]);
        assert_eq!(look(5, |_| true), [5, 6]);
        assert_eq!(look(7, |key| key != 5), [7, 6]);
    }
}
