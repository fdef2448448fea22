//! A table whose keys name a slot and its generation, so that a dead key is told from a live one.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Names one value of a [`Slab`]: a slot, and which of the slot's successive values.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    index: u32,
    generation: NonZeroU32,
}

/// Bits of a packed key that name the slot; the others hold the generation.
const PACKED_INDEX_BITS: u32 = 20;
/// Values that a slab with packed keys can hold.
pub(crate) const PACKED_SLOTS_MAX: u32 = 1 << PACKED_INDEX_BITS;
/// Last generation that fits into a packed key.
pub(crate) const PACKED_GENERATION_MAX: u32 = (1 << (32 - PACKED_INDEX_BITS)) - 1;

impl Key {
    /// The key that a slab comes to last of all.
    pub(crate) const LAST: Self = Self {
        index: u32::MAX,
        generation: NonZeroU32::MAX,
    };

    /// The key in 32 bits, never 0. Right for slabs with [`PACKED_GENERATION_MAX`] only.
    pub(crate) const fn pack(self) -> u32 {
        (self.generation.get() << PACKED_INDEX_BITS) | self.index
    }

    /// The inverse of [`Key::pack`]; `None` when the bits hold no generation.
    pub(crate) const fn unpack(bits: u32) -> Option<Self> {
        match NonZeroU32::new(bits >> PACKED_INDEX_BITS) {
            Some(generation) => Some(Self {
                index: bits & (PACKED_SLOTS_MAX - 1),
                generation,
            }),
            None => None,
        }
    }

    /// The key in 64 bits, never 0.
    pub(crate) const fn to_bits(self) -> u64 {
        ((self.generation.get() as u64) << 32) | self.index as u64
    }

    /// The inverse of [`Key::to_bits`]; `None` when the bits hold no generation.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(Self {
                index: bits as u32,
                generation,
            }),
            None => None,
        }
    }

    /// The slot.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

/// Values under keys that die with them.
///
/// A key is told from the `GENERATION_MAX - 1` keys that had its slot before.
#[derive(Debug)]
pub(crate) struct Slab<T, const GENERATION_MAX: u32 = { u32::MAX }> {
    slots: Vec<Slot<T>>,
    vacant_head: u32,
    occupied: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Occupied { generation: NonZeroU32, value: T },
    Vacant { generation: NonZeroU32, next: u32 },
}

/// Ends the list of vacant slots.
const NO_SLOT: u32 = u32::MAX;

impl<T, const GENERATION_MAX: u32> Slab<T, GENERATION_MAX> {
    /// Holds nothing and has allocated nothing.
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            vacant_head: NO_SLOT,
            occupied: 0,
        }
    }

    /// Values held.
    pub(crate) const fn len(&self) -> u32 {
        self.occupied
    }

    /// Adds a value. The caller keeps the number of values below [`NO_SLOT`].
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.occupied += 1;
        if let Some(slot) = self.slots.get_mut(self.vacant_head as usize)
            && let Slot::Vacant { generation, next } = *slot
        {
            let key = Key {
                index: self.vacant_head,
                generation,
            };
            *slot = Slot::Occupied { generation, value };
            self.vacant_head = next;
            return key;
        }
        let key = Key {
            index: self.slots.len() as u32,
            generation: NonZeroU32::MIN,
        };
        // Doubling from one, not from Vec's four: most of a million NICs have one VI.
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len().max(1));
        }
        self.slots.push(Slot::Occupied {
            generation: key.generation,
            value,
        });
        key
    }

    /// Where the slot of a key lies, and its bytes; nothing is read.
    #[inline]
    pub(crate) fn slot_address(&self, index: u32) -> (*const u8, usize) {
        let slot = self.slots.as_ptr().wrapping_add(index as usize);
        (slot.cast(), size_of::<Slot<T>>())
    }

    /// The value under a live key.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize) {
            Some(Slot::Occupied { generation, value }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The value under a live key.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some(Slot::Occupied { generation, value }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Takes the value out; the key is dead from here on.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let following = match key.generation.get() {
            last if last >= GENERATION_MAX => NonZeroU32::MIN,
            generation => NonZeroU32::MIN.saturating_add(generation),
        };
        let vacant = Slot::Vacant {
            generation: following,
            next: self.vacant_head,
        };
        let slot = self.slots.get_mut(key.index as usize)?;
        match core::mem::replace(slot, vacant) {
            Slot::Occupied { value, .. } => {
                self.vacant_head = key.index;
                self.occupied -= 1;
                Some(value)
            }
            Slot::Vacant { .. } => None,
        }
    }

    /// Every value with its key, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| match slot {
                Slot::Occupied { generation, value } => Some((
                    Key {
                        index: index as u32,
                        generation: *generation,
                    },
                    value,
                )),
                Slot::Vacant { .. } => None,
            })
    }

    /// Lets `action` see every value.
    pub(crate) fn for_each_mut(&mut self, mut action: impl FnMut(&mut T)) {
        for slot in &mut self.slots {
            if let Slot::Occupied { value, .. } = slot {
                action(value);
            }
        }
    }

    /// Gives back memory that no slot uses.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.slots.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_key_stays_dead_when_its_slot_is_used_again() {
        let mut slab: Slab<u8> = Slab::new();
        let first = slab.insert(1);
        assert_eq!(slab.remove(first), Some(1));
        let second = slab.insert(2);
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&2));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn packed_keys_are_never_zero_through_all_generations() {
        let mut slab: Slab<u32, PACKED_GENERATION_MAX> = Slab::new();
        let first = slab.insert(0).pack();
        assert_ne!(first, 0);
        let mut current = first;
        for round in 1..PACKED_GENERATION_MAX {
            let key = Key::unpack(current).unwrap();
            assert_eq!(slab.remove(key), Some(round - 1));
            current = slab.insert(round).pack();
            assert_ne!(current, 0);
            assert_ne!(
                current, first,
                "the first key came back after {round} rounds"
            );
            assert_eq!(Key::unpack(current).map(Key::pack), Some(current));
        }
        // One past: the generations begin again.
        slab.remove(Key::unpack(current).unwrap());
        assert_eq!(slab.insert(0).pack(), first);
    }

    #[test]
    fn bits_of_a_key_are_reversible() {
        let mut slab: Slab<u8> = Slab::new();
        slab.insert(0);
        let key = slab.insert(1);
        assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        assert_eq!(Key::from_bits(7), None);
        assert_eq!(Key::unpack(7), None);
    }

    #[test]
    fn vacant_slots_are_used_before_new_ones() {
        let mut slab: Slab<u8> = Slab::new();
        let keys = [slab.insert(0), slab.insert(1), slab.insert(2)];
        slab.remove(keys[0]);
        slab.remove(keys[2]);
        assert_eq!(slab.insert(3).index(), 2);
        assert_eq!(slab.insert(4).index(), 0);
        assert_eq!(slab.insert(5).index(), 3);
        let values: Vec<u8> = slab.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [4, 1, 3, 5]);
    }
}
