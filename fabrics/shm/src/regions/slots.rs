//! Handles that are told from dead ones.

/// Values under handles of 32 bits that die with them.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
    pub(super) live: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T: Copy> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            live: 0,
        }
    }

    /// Adds a value; the caller keeps to [`SLOTS_MAX`].
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.live += 1;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 1,
                value: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        (slot.generation << SLOT_BITS) | index
    }

    pub(super) fn get(&self, handle: u32) -> Option<T> {
        let slot = self.slots.get(index_of(handle) as usize)?;
        slot.value
            .filter(|_| slot.generation == handle >> SLOT_BITS)
    }

    /// Changes the value under a live handle.
    pub(super) fn replace(&mut self, handle: u32, value: T) {
        if self.get(handle).is_some() {
            self.slots[index_of(handle) as usize].value = Some(value);
        }
    }

    pub(super) fn remove(&mut self, handle: u32) {
        if self.get(handle).is_none() {
            return;
        }
        let index = index_of(handle);
        let slot = &mut self.slots[index as usize];
        slot.value = None;
        // Generation 0 is skipped, so that no handle is 0.
        slot.generation = slot.generation % GENERATION_MAX + 1;
        self.vacant.push(index);
        self.live -= 1;
    }

    /// Removes every value that `is_gone` picks.
    pub(super) fn remove_where(&mut self, is_gone: impl Fn(&T) -> bool) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.value.as_ref().is_some_and(&is_gone) {
                self.remove(slot.generation << SLOT_BITS | index as u32);
            }
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = T> {
        self.slots.iter().filter_map(|slot| slot.value)
    }
}

#[inline]
pub(super) const fn index_of(handle: u32) -> u32 {
    handle & (SLOTS_MAX - 1)
}

/// Bits of a handle that name the slot; the others hold its generation.
pub(super) const SLOT_BITS: u32 = 20;
pub(super) const SLOTS_MAX: u32 = 1 << SLOT_BITS;
pub(super) const GENERATION_MAX: u32 = (1 << (32 - SLOT_BITS)) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_handle_is_told_from_all_that_follow() {
        let mut slots = Slots::new();
        let first = slots.insert(0_u32);
        slots.remove(first);
        for round in 1..GENERATION_MAX {
            let handle = slots.insert(round);
            assert_ne!(handle, first);
            assert_ne!(handle, 0);
            assert_eq!(slots.get(first), None);
            assert_eq!(slots.get(handle), Some(round));
            slots.remove(handle);
        }
        let again = slots.insert(7);
        assert_eq!(again, first, "4095 generations, then the first again");
        assert_eq!(slots.slots.len(), 1);
    }
}
