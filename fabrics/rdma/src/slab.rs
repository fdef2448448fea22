//! Tables whose dead keys are told from live ones.

use std::collections::VecDeque;

/// Names an object, and which of those that had its place.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    index: u32,
    life: u32,
}

impl Key {
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug)]
struct Place<T> {
    life: u32,
    value: Option<T>,
}

/// Objects by key. A place is used again only when all others were.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: VecDeque<u32>,
    limit: u32,
    first_life: u32,
}

/// Places that are left free so that a dead name is not used again soon.
const REST: usize = 64;

impl<T> Slab<T> {
    /// A table of at most `limit` objects, whose places begin with this life.
    pub(crate) const fn new(limit: u32, first_life: u32) -> Self {
        Self {
            places: Vec::new(),
            free: VecDeque::new(),
            limit,
            first_life,
        }
    }

    /// The place of the next object, if there is one left.
    pub(crate) fn next(&mut self) -> Option<Key> {
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

    /// Puts an object at the place that `next` named.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        let key = self.next()?;
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

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place.value.as_ref().filter(|_| place.life == key.life)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        let is_live = place.life == key.life;
        place.value.as_mut().filter(|_| is_live)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_mut()
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.value.as_ref()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.life != key.life {
            return None;
        }
        let value = place.value.take()?;
        place.life = place.life.wrapping_add(1);
        self.free.push_back(key.index);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
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
        let mut slab = Slab::new(1, 1);
        let first = slab.insert(7).unwrap();
        assert!(slab.insert(8).is_none());
        assert_eq!(slab.remove(first), Some(7));
        assert_eq!(slab.remove(first), None);
        let second = slab.insert(9).unwrap();
        assert_eq!(second.index(), first.index());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&9)));
    }

    #[test]
    fn a_place_rests_before_it_is_used_again() {
        let mut slab = Slab::new(1000, 1);
        let first = slab.insert(0).unwrap();
        slab.remove(first);
        assert_ne!(slab.insert(1).unwrap().index(), first.index());
    }
}
