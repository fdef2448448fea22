//! Tables whose dead keys are told from live ones.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Names an object, and which of those that had its place.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    index: u32,
    life: u32,
}

impl Key {
    /// Its place, which others have after it.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// As a number, for whoever keeps it elsewhere.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.life as u64) << 32 | self.index as u64
    }

    /// From such a number. Of any other it names nothing.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            life: (bits >> 32) as u32,
        }
    }
}

#[derive(Debug)]
struct Place<T> {
    life: u32,
    value: Option<T>,
}

/// Objects by key. A place is used again only when all others were.
#[derive(Debug)]
pub struct Table<T> {
    places: Vec<Place<T>>,
    free: VecDeque<u32>,
    limit: u32,
    first_life: u32,
}

/// Places that are left free so that a dead name is not used again soon.
const REST: usize = 64;

impl<T> Table<T> {
    /// A table of at most `limit` objects, whose places begin with this life.
    #[must_use]
    pub const fn new(limit: u32, first_life: u32) -> Self {
        Self {
            places: Vec::new(),
            free: VecDeque::new(),
            limit,
            first_life,
        }
    }

    /// The place of the next object, if there is one left.
    pub fn next_key(&mut self) -> Option<Key> {
        let is_full = self.places.len() >= self.limit as usize;
        if self.free.len() > REST || is_full {
            let index = *self.free.front()?;
            let life = self.places[index as usize].life;
            return Some(Key { index, life });
        }
        Some(Key {
            index: self.places.len() as u32,
            life: self.first_life,
        })
    }

    /// Puts an object at the place that `next_key` named.
    pub fn insert(&mut self, value: T) -> Option<Key> {
        let key = self.next_key()?;
        if key.index as usize == self.places.len() {
            self.places.push(Place {
                life: self.first_life,
                value: Some(value),
            });
        } else {
            self.free.pop_front();
            self.places[key.index as usize].value = Some(value);
        }
        Some(key)
    }

    /// The object of a key that is not dead.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place.value.as_ref().filter(|_| place.life == key.life)
    }

    /// As [`Table::get`].
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        let is_live = place.life == key.life;
        place.value.as_mut().filter(|_| is_live)
    }

    /// The object at a place.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_mut()
    }

    /// As [`Table::at_mut`].
    #[inline]
    #[must_use]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.value.as_ref()
    }

    /// Takes an object out; its key is dead from now on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.life != key.life {
            return None;
        }
        let value = place.value.take()?;
        place.life = place.life.wrapping_add(1);
        self.free.push_back(key.index);
        Some(value)
    }

    /// All of them, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.places).filter_map(|(index, place)| {
            let life = place.life;
            Some((Key { index, life }, place.value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_key_names_nothing_though_its_place_is_used_again() {
        let mut table = Table::new(1, 1);
        let first = table.insert(7).unwrap();
        assert!(table.insert(8).is_none());
        assert_eq!(table.remove(first), Some(7));
        assert_eq!(table.remove(first), None);
        let second = table.insert(9).unwrap();
        assert_eq!(second.index(), first.index());
        assert_eq!((table.get(first), table.get(second)), (None, Some(&9)));
    }

    #[test]
    fn a_place_rests_before_it_is_used_again() {
        let mut table = Table::new(1000, 1);
        let first = table.insert(0).unwrap();
        table.remove(first);
        assert_ne!(table.insert(1).unwrap().index(), first.index());
    }
}
