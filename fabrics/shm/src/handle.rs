//! Handles that are told from dead ones.
//!
//! Objects lie in slabs that are never given back, so that a handle is resolved without a lock and
//! a reference outlives the object; whoever uses it checks under the object's own lock that it is
//! still the object the handle named.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const CHUNK: usize = 256;
const CHUNKS: usize = 4096;
const INDEX_BITS: u32 = (CHUNK * CHUNKS).ilog2();
const GENERATION_SHIFT: u32 = 32;

/// What a handle names, as a part of it: the interface of C cannot tell handles apart by type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Nic = 1,
    CompletionQueue = 2,
    Vi = 3,
}

/// Objects of one kind: at most 2^20 at once.
///
/// A handle is the generation of a place, the kind, and the place's index:
///
/// ```text
///  63        32 31    20 19   0
/// | generation | kind   | index |
/// ```
pub(crate) struct Slab<T: 'static> {
    kind: Kind,
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    free: Mutex<Free>,
}

/// A place for an object, for the life of the process. On lines of its own: neighbours are used by
/// other threads, and what a call reads of a VI lies on as few lines as its fields can.
#[repr(align(64))]
pub(crate) struct Slot<T> {
    /// Odd while an object lives here.
    generation: AtomicU32,
    /// The lower half of its handles.
    name: u32,
    pub(crate) object: T,
}

struct Free {
    slots: Vec<u32>,
    used: u32,
}

impl<T: Default + 'static> Slab<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            free: Mutex::new(Free {
                slots: Vec::new(),
                used: 0,
            }),
        }
    }

    /// A place whose object is not alive yet, to be filled and then [`Slot::revive`]d.
    pub(crate) fn take(&self) -> Option<&'static Slot<T>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.slots.pop() {
            return self.slot(index);
        }
        let index = free.used;
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        if chunk == CHUNKS {
            return None;
        }
        if at == 0 {
            let first = index | (self.kind as u32) << INDEX_BITS;
            let slots: Box<[Slot<T>]> = (0..CHUNK)
                .map(|offset| Slot {
                    generation: AtomicU32::new(0),
                    name: first + offset as u32,
                    object: T::default(),
                })
                .collect();
            self.chunks[chunk].store(Box::leak(slots).as_mut_ptr(), Ordering::Release);
        }
        free.used += 1;
        self.slot(index)
    }

    /// Gives a place back after [`Slot::kill`].
    pub(crate) fn give_back(&self, slot: &'static Slot<T>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.slots.push(slot.name);
    }

    /// The place of an index; the other bits of a name count nothing.
    #[inline]
    fn slot(&self, name: u32) -> Option<&'static Slot<T>> {
        let index = name & ((1 << INDEX_BITS) - 1);
        let chunk = self
            .chunks
            .get(index as usize / CHUNK)?
            .load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk has `CHUNK` slots and is never freed.
        Some(unsafe { &*chunk.add(index as usize % CHUNK) })
    }

    /// The place that a handle names, whatever lives there: for who compares the handle with the
    /// object's own.
    #[inline(always)]
    pub(crate) fn place(&self, bits: u64) -> Option<&'static Slot<T>> {
        self.slot(bits as u32)
    }

    /// The place that a handle names, if its object lives.
    #[inline]
    pub(crate) fn find(&self, bits: u64) -> Option<&'static Slot<T>> {
        let slot = self.slot(bits as u32)?;
        (bits != 0 && slot.handle() == bits).then_some(slot)
    }

    /// Makes every object unreachable for good; for a process that shall not use them. Takes no
    /// lock and frees nothing.
    pub(crate) fn forget_all(&self) {
        for chunk in &self.chunks {
            // They are filled from the first on.
            if chunk.swap(ptr::null_mut(), Ordering::Relaxed).is_null() {
                return;
            }
        }
    }

    /// Every living object.
    pub(crate) fn living(&self) -> Vec<&'static Slot<T>> {
        let used = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .used;
        (0..used)
            .filter_map(|index| self.slot(index))
            .filter(|slot| slot.is_alive())
            .collect()
    }
}

impl<T> Slot<T> {
    /// The handle of the object that lives here now. Never 0 for a living one.
    #[inline]
    pub(crate) fn handle(&self) -> u64 {
        let generation = self.generation.load(Ordering::Acquire);
        if generation & 1 == 0 {
            return 0;
        }
        u64::from(generation) << GENERATION_SHIFT | u64::from(self.name)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.generation.load(Ordering::Acquire) & 1 == 1
    }

    /// Makes the object reachable and gives its handle.
    pub(crate) fn revive(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.handle()
    }

    /// Makes the object unreachable; whether it was this call that did.
    pub(crate) fn kill(&self, handle: u64) -> bool {
        let generation = (handle >> GENERATION_SHIFT) as u32;
        self.generation
            .compare_exchange(
                generation,
                generation.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Slot({:#x})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_handle_finds_nothing() {
        static SLAB: Slab<AtomicU32> = Slab::new(Kind::Vi);
        let slot = SLAB.take().expect("there is room");
        assert!(SLAB.find(slot.handle()).is_none());
        let handle = slot.revive();
        assert!(SLAB.find(handle).is_some());
        assert!(slot.kill(handle));
        assert!(!slot.kill(handle));
        assert!(SLAB.find(handle).is_none());
        SLAB.give_back(slot);
        let again = SLAB.take().expect("there is room").revive();
        assert_eq!(again as u32, handle as u32);
        assert!(SLAB.find(handle).is_none());
        for garbage in [0, 1, u64::MAX, 1 << 63, handle ^ 1] {
            assert!(SLAB.find(garbage).is_none());
        }
    }

    #[test]
    fn a_handle_of_another_kind_finds_nothing() {
        static VIS: Slab<AtomicU32> = Slab::new(Kind::Vi);
        static QUEUES: Slab<AtomicU32> = Slab::new(Kind::CompletionQueue);
        let made = |slab: &'static Slab<AtomicU32>| slab.take().expect("there is room").revive();
        let (vi, queue) = (made(&VIS), made(&QUEUES));
        assert!(VIS.find(vi).is_some() && QUEUES.find(queue).is_some());
        assert!(VIS.find(queue).is_none() && QUEUES.find(vi).is_none());
    }
}
