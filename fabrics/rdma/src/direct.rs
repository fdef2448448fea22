//! Writes, reads and atomics that this process carries out in its peer's memory by itself: by plain
//! copies where the peer shares the pages ([`crate::shared`]), by the kernel elsewhere.
//!
//! The peer's tables say for each of them whether it is let through. What they do not let through
//! is asked of the peer, which refuses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_core::verbs::SendOpcode;
use viaduct_core::verbs::check;
use viaduct_core::verbs::flags::access;
use viaduct_processes::cma;
use viaduct_processes::segment::{Access, Store, Window};

use crate::counters::live;
use crate::engine::Engine;
use crate::memory::{self, Piece};
use crate::requester::INDEX_MASK;
use crate::state::{Pair, Send};
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
        send: &Send,
        found: &Found,
        is_same: impl Fn(u32, u32) -> bool,
    ) -> Option<*mut u8> {
        let key = send.remote_key;
        let is_at_hand = self
            .last
            .as_ref()
            .is_some_and(|(last, open)| *last == key && open.sequence == found.sequence);
        if !is_at_hand {
            self.bring(key, found, is_same)?;
        }
        let (_, open) = self.last.as_ref()?;
        // A peer that lies may have said otherwise when the window was mapped.
        if send.opcode != SendOpcode::RdmaRead && !open.can_write {
            return None;
        }
        let offset = found.address.checked_sub(open.address)?;
        Some(open.window.range(offset, send.length)?.as_ptr())
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
        let Some((pairs, regions)) = link
            .tables
            .as_ref()
            .and_then(|tables| Some((&tables.pairs, tables.regions.as_ref()?)))
        else {
            return false;
        };
        let right = check::remote_right(send.opcode);
        if send.opcode.is_atomic() && !check::is_atomic_address(send.remote_address) {
            return false;
        }
        // Before it is asked whether it may: a peer that takes the region away waits for the end.
        let is_own = link.socket.is_none();
        link.outgoing.begin_direct();
        let entry = pairs.at(pair.attributes.destination & INDEX_MASK);
        let hears = entry.hears.load(Ordering::Acquire) == 1
            && entry.peer.load(Ordering::Relaxed) == pair.number
            && check::lets_peer(entry.access.load(Ordering::Relaxed), right);
        let domain = entry.domain.load(Ordering::Relaxed);
        let (key, address) = (send.remote_key, send.remote_address);
        let found = hears
            .then(|| regions.find(key, domain, right, address, send.length))
            .flatten();
        let is_done = found.is_some_and(|found| {
            let place = match &mut link.windows {
                _ if is_own => Some(found.address as *mut u8),
                Some(windows) => {
                    windows.at(send, &found, |key, sequence| regions.is_same(key, sequence))
                }
                None => None,
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
    use viaduct_core::verbs::Phase;

    use super::*;
    use crate::faults::Struck;
    use crate::state::{OnRing, Payload};
    use crate::tables::Shared;

    fn send(opcode: SendOpcode) -> Send {
        Send {
            request: 0,
            opcode,
            flags: 0,
            length: 8,
            immediate: 0,
            remote_address: 0,
            remote_key: 5,
            compare_add: 0,
            swap: 0,
            phase: Phase::Queued,
            sequence: 0,
            offset: 0,
            own: OnRing {
                // SAFETY: no elements.
                payload: unsafe { Payload::new(&[], false) },
                destination: None,
                end: 0,
                is_placed: false,
                struck: Struck::default(),
            },
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
                .at(&send(opcode), &found, |_, sequence| sequence == 2)
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
        assert!(windows.open.is_empty(), "what is old is not kept");
    }
}
