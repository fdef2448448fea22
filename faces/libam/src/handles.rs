//! Handles: numbers that lead to objects, each in one of its place's lives.
//!
//! ```text
//!  63      56 55             32 31           0
//! |  kind    | life, from 1     | place       |
//! ```
//!
//! A place is never given back to the system, so that any number can be looked up by any thread at
//! any time without a lock; whose life is over is refused.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use crate::abi::Code;
use crate::call::{Refused, Result};

/// Objects of one kind.
pub(crate) struct Handles<T> {
    kind: u8,
    /// For texts: such as "an endpoint".
    noun: &'static str,
    /// Each twice as long as the one before.
    chunks: [OnceLock<Box<[Place<T>]>>; CHUNKS],
    free: Mutex<Free>,
}

struct Free {
    places: Vec<u32>,
    /// The first that was never used.
    next: u32,
}

/// Where an object is, or was.
struct Place<T> {
    /// Which life, times 4; [`LIVE`] and [`SHARED`] while there is an object.
    life: AtomicU32,
    object: Mutex<Option<T>>,
}

/// An object, alone for whoever has this.
pub(crate) struct Held<'a, T>(MutexGuard<'a, Option<T>>);

const LIVE: u32 = 1;
const SHARED: u32 = 2;
const LIFE_STEP: u32 = 4;
/// Lives are 24 bits of a handle.
const LIFE_MAX: u32 = (1 << 24) - 1;
/// Places of the first chunk.
const FIRST: u32 = 64;
/// 64 * (2^24 - 1) places.
const CHUNKS: usize = 24;

impl<T> Handles<T> {
    pub(crate) const fn new(kind: u8, noun: &'static str) -> Self {
        Self {
            kind,
            noun,
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free {
                places: Vec::new(),
                next: 0,
            }),
        }
    }

    /// Puts an object in. One that is shared is waited for by who finds it held; one that is not
    /// refuses.
    pub(crate) fn insert(&self, object: T, is_shared: bool) -> Result<u64> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match free.places.pop() {
            Some(index) => index,
            None => free.next,
        };
        let Some(place) = self.made(index) else {
            let text = format!("there is no room for {} more", self.noun);
            return Err(Refused::new(Code::Resource, text));
        };
        if index == free.next {
            free.next += 1;
        }
        drop(free);
        *lock(&place.object) = Some(object);
        let life = place.life.load(Ordering::Relaxed) / LIFE_STEP + 1;
        let flags = LIVE | if is_shared { SHARED } else { 0 };
        // Release: whoever sees the life finds the object.
        place
            .life
            .store((life * LIFE_STEP) | flags, Ordering::Release);
        Ok(u64::from(self.kind) << 56 | u64::from(life) << 32 | u64::from(index))
    }

    /// The object of a handle, alone.
    #[inline]
    pub(crate) fn hold(&self, handle: u64) -> Result<Held<'_, T>> {
        let place = self.find(handle).ok_or_else(|| self.unknown(handle))?;
        let life = place.life.load(Ordering::Acquire);
        if !is_life(life, handle) {
            return Err(self.unknown(handle));
        }
        let guard = match place.object.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if life & SHARED != 0 => lock(&place.object),
            Err(TryLockError::WouldBlock) => return Err(self.busy()),
        };
        // Its life may have ended before the lock was there.
        if !is_life(place.life.load(Ordering::Acquire), handle) || guard.is_none() {
            return Err(self.unknown(handle));
        }
        Ok(Held(guard))
    }

    /// Ends an object's life, and gives it to the caller. `held` is of this handle.
    pub(crate) fn remove(&self, handle: u64, mut held: Held<'_, T>) -> Option<T> {
        let object = held.0.take();
        let place = self.find(handle)?;
        let life = place.life.load(Ordering::Relaxed) & !(LIVE | SHARED);
        place.life.store(life, Ordering::Release);
        drop(held);
        // A place whose lives are used up stays unused.
        if life / LIFE_STEP < LIFE_MAX {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.places.push(handle as u32);
        }
        object
    }

    pub(crate) fn busy(&self) -> Refused {
        let text = format!(
            "another thread uses {} that is for one at a time",
            self.noun
        );
        Refused::new(Code::Busy, text)
    }

    fn unknown(&self, handle: u64) -> Refused {
        if handle == 0 {
            return Refused::new(Code::Null, format!("{} is NULL", self.noun));
        }
        let text = format!(
            "{handle:#x} is not {} that exists: was it freed?",
            self.noun
        );
        Refused::new(Code::Handle, text)
    }

    #[inline]
    fn find(&self, handle: u64) -> Option<&Place<T>> {
        if handle >> 56 != u64::from(self.kind) {
            return None;
        }
        let (chunk, offset) = position(handle as u32)?;
        self.chunks[chunk].get()?.get(offset)
    }

    /// A place, made if it has to be.
    fn made(&self, index: u32) -> Option<&Place<T>> {
        let (chunk, offset) = position(index)?;
        let places = self.chunks[chunk].get_or_init(|| {
            let count = (FIRST as usize) << chunk;
            let place = |_| Place {
                life: AtomicU32::new(0),
                object: Mutex::new(None),
            };
            (0..count).map(place).collect()
        });
        places.get(offset)
    }
}

impl<T> Held<'_, T> {
    /// The object.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut T {
        // `Handles::hold` has seen it, and only `remove` takes it out.
        self.0.as_mut().expect("a held object is there")
    }
}

#[inline]
fn is_life(life: u32, handle: u64) -> bool {
    life & LIVE != 0 && u64::from(life / LIFE_STEP) == handle >> 32 & u64::from(LIFE_MAX)
}

#[inline]
fn position(index: u32) -> Option<(usize, usize)> {
    let shifted = index.checked_add(FIRST)?;
    let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (chunk < CHUNKS).then(|| (chunk, (shifted - (FIRST << chunk)) as usize))
}

fn lock<T>(mutex: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_one_another() {
        let mut places = (0..10_000).map(|index| position(index).unwrap());
        let mut last = places.next().unwrap();
        assert_eq!(last, (0, 0));
        for (chunk, offset) in places {
            let is_next = (chunk, offset) == (last.0, last.1 + 1);
            assert!(is_next || (chunk == last.0 + 1 && offset == 0 && last.1 + 1 == 64 << last.0));
            last = (chunk, offset);
        }
        assert_eq!(position(u32::MAX), None);
    }

    #[test]
    fn a_handle_is_of_one_life() {
        let handles: Handles<u32> = Handles::new(b'T', "a thing");
        let first = handles.insert(1, false).unwrap();
        assert_eq!(*handles.hold(first).unwrap().get(), 1);
        let held = handles.hold(first).unwrap();
        assert_eq!(handles.remove(first, held), Some(1));
        let second = handles.insert(2, false).unwrap();
        assert_eq!(first as u32, second as u32, "the same place");
        assert_eq!(handles.hold(first).err().unwrap().code, Code::Handle);
        assert_eq!(*handles.hold(second).unwrap().get(), 2);
    }

    #[test]
    fn any_number_is_refused() {
        let handles: Handles<u32> = Handles::new(b'T', "a thing");
        let good = handles.insert(1, false).unwrap();
        assert_eq!(handles.hold(0).err().unwrap().code, Code::Null);
        let others = [
            1,
            u64::MAX,
            good ^ 1 << 32,
            good ^ 1 << 56,
            good + 1,
            good + 100,
        ];
        for other in others {
            assert_eq!(handles.hold(other).err().unwrap().code, Code::Handle);
        }
    }

    #[test]
    fn what_is_held_refuses_and_what_is_shared_is_waited_for() {
        let handles: Handles<u32> = Handles::new(b'T', "a thing");
        let alone = handles.insert(1, false).unwrap();
        let held = handles.hold(alone).unwrap();
        assert_eq!(handles.hold(alone).err().unwrap().code, Code::Busy);
        drop(held);
        let shared = handles.insert(0, true).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *handles.hold(shared).unwrap().get() += 1));
            }
        });
        assert_eq!(*handles.hold(shared).unwrap().get(), 4000);
    }

    #[test]
    fn a_place_whose_lives_are_used_up_stays_unused() {
        let handles: Handles<u32> = Handles::new(b'T', "a thing");
        let first = handles.insert(1, false).unwrap();
        let held = handles.hold(first).unwrap();
        handles.remove(first, held);
        let place = handles.find(first).unwrap();
        place
            .life
            .store((LIFE_MAX - 1) * LIFE_STEP, Ordering::Relaxed);
        let last = handles.insert(2, false).unwrap();
        let held = handles.hold(last).unwrap();
        handles.remove(last, held);
        assert_ne!(handles.insert(3, false).unwrap() as u32, first as u32);
    }
}
