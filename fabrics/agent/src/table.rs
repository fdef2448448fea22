//! What has a handle, found by it in one step.

use std::fmt;
use std::marker::PhantomData;

use viaduct_provider::{CompletionQueueHandle, ConnectionHandle, NicHandle, ViHandle};

/// A handle as a number.
pub(crate) trait Handle: Copy {
    /// Told from the other kinds in the number, so that a handle of one names none of another.
    const KIND: u64;

    fn from_number(number: u64) -> Option<Self>;
    fn number(self) -> u64;
}

macro_rules! kinds {
    ($($kind:literal: $handle:ident),*) => {$(
        impl Handle for $handle {
            const KIND: u64 = $kind;

            fn from_number(number: u64) -> Option<Self> {
                Self::from_bits(number)
            }

            fn number(self) -> u64 {
                self.bits()
            }
        }
    )*};
}

kinds!(0: NicHandle, 1: ViHandle, 2: CompletionQueueHandle, 3: ConnectionHandle);

/// Values under handles that no other value had, or will have.
///
/// A handle's number is the value's place, how often the place was used, the number of the agent
/// among those of its program, and the kind:
///
/// ```text
///  63    58 57        32 31        2 1    0
/// [ agent  | generation |  place    | kind ]
/// ```
pub(crate) struct Table<H, T> {
    slots: Vec<Slot<T>>,
    /// Agent and generation of a place's first value.
    first_generation: u32,
    /// The first place that is vacant; each names the next.
    vacant_head: u32,
    handle: PhantomData<fn(H)>,
}

struct Slot<T> {
    /// The agent, and which of the place's values; never 0.
    generation: u32,
    /// Of a vacant place: the next one.
    vacant_next: u32,
    value: Option<T>,
}

/// Ends the list of vacant places.
const NO_PLACE: u32 = u32::MAX;

/// Bits of a handle's number that say of which agent it is: the highest.
pub const AGENT_BITS: u32 = 6;

/// The agent of a handle's number, among those of its program.
#[must_use]
pub const fn agent_of(number: u64) -> u32 {
    (number >> (u64::BITS - AGENT_BITS)) as u32
}

/// The number of the highest 32 bits with which handles of an agent begin: its own, and 1.
///
/// # Panics
///
/// If there is no such agent.
#[must_use]
pub const fn first_generation(agent: u32) -> u32 {
    assert!(agent < 1 << AGENT_BITS, "too many agents of one program");
    agent << (u32::BITS - AGENT_BITS) | 1
}

/// Places that a handle's number can tell apart.
const PLACES_MAX: usize = 1 << 30;

impl<H: Handle, T> Table<H, T> {
    /// The table of an agent of this number. Has allocated nothing.
    pub(crate) const fn new(agent: u32) -> Self {
        Self {
            slots: Vec::new(),
            first_generation: first_generation(agent),
            vacant_head: NO_PLACE,
            handle: PhantomData,
        }
    }

    /// Whether it never had a value.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a value; gives it back when all places are taken.
    pub(crate) fn insert(&mut self, value: T) -> Result<H, T> {
        let vacant = self.slots.get(self.vacant_head as usize);
        let place = match vacant.map(|slot| slot.vacant_next) {
            Some(next) => std::mem::replace(&mut self.vacant_head, next) as usize,
            None if self.slots.len() >= PLACES_MAX => return Err(value),
            None => {
                // Doubling from one: most simulated hosts have a NIC, and a VI or two.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(self.slots.len().max(1));
                }
                self.slots.push(Slot {
                    generation: self.first_generation,
                    vacant_next: NO_PLACE,
                    value: None,
                });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[place];
        let number = (u64::from(slot.generation) << 32) | ((place as u64) << 2) | H::KIND;
        let Some(handle) = H::from_number(number) else {
            return Err(value);
        };
        slot.value = Some(value);
        Ok(handle)
    }

    /// Where the value of a handle lies, and its bytes; nothing is read.
    #[inline]
    pub(crate) fn address(&self, handle: H) -> (*const u8, usize) {
        let place = place_of(handle).unwrap_or_default();
        let slot = self.slots.as_ptr().wrapping_add(place);
        (slot.cast(), size_of::<Slot<T>>())
    }

    #[inline]
    pub(crate) fn get(&self, handle: H) -> Option<&T> {
        let place = place_of(handle)?;
        let slot = self.slots.get(place)?;
        (slot.generation == generation_of(handle)).then_some(slot.value.as_ref()?)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: H) -> Option<&mut T> {
        let place = place_of(handle)?;
        let slot = self.slots.get_mut(place)?;
        (slot.generation == generation_of(handle)).then_some(slot.value.as_mut()?)
    }

    /// Takes a value out; its handle is dead.
    pub(crate) fn remove(&mut self, handle: H) -> Option<T> {
        self.get(handle)?;
        let place = place_of(handle)?;
        let slot = self.slots.get_mut(place)?;
        let value = slot.value.take();
        // A place whose numbers are used up stays empty.
        let next = slot.generation.wrapping_add(1);
        if next << AGENT_BITS != 0 {
            slot.generation = next;
            slot.vacant_next = std::mem::replace(&mut self.vacant_head, place as u32);
        }
        value
    }

    /// Every value with its handle, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (H, &T)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| {
            let number = (u64::from(slot.generation) << 32) | ((place as u64) << 2) | H::KIND;
            Some((H::from_number(number)?, slot.value.as_ref()?))
        })
    }
}

/// The place that a handle names; `None` for a handle of another kind.
#[inline]
fn place_of<H: Handle>(handle: H) -> Option<usize> {
    let low = handle.number() as u32;
    (u64::from(low & 3) == H::KIND).then_some((low >> 2) as usize)
}

#[inline]
fn generation_of<H: Handle>(handle: H) -> u32 {
    (handle.number() >> 32) as u32
}

impl<H: Handle, T> fmt::Debug for Table<H, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.iter().count();
        formatter
            .debug_struct("Table")
            .field("values", &count)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_dies_with_its_value() {
        let mut table: Table<ViHandle, u8> = Table::new(0);
        let first = table.insert(1).unwrap();
        assert_eq!(table.get(first), Some(&1));
        assert_eq!(table.remove(first), Some(1));
        let second = table.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&2));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(second, &2)]);
    }

    #[test]
    fn numbers_of_other_kinds_and_of_nothing_name_nothing() {
        let mut nics: Table<NicHandle, u8> = Table::new(0);
        let mut vis: Table<ViHandle, u8> = Table::new(0);
        let nic = nics.insert(1).unwrap();
        vis.insert(2).unwrap();
        let crossed = ViHandle::from_bits(nic.bits()).unwrap();
        assert_eq!(vis.get(crossed), None);
        for bits in [1, 7, u64::MAX, 1 << 32, (1 << 32) | (1 << 2) | 1] {
            assert_eq!(
                vis.get(ViHandle::from_bits(bits).unwrap()),
                None,
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn handles_say_of_which_agent_they_are() {
        let last = (1 << AGENT_BITS) - 1;
        let mut tables = [0, 1, last].map(|agent| (agent, Table::<ViHandle, u32>::new(agent)));
        let mut handles = Vec::new();
        for (agent, table) in &mut tables {
            let used = table.insert(7).unwrap();
            table.remove(used);
            let handle = table.insert(*agent).unwrap();
            assert_eq!(
                (agent_of(used.bits()), agent_of(handle.bits())),
                (*agent, *agent)
            );
            handles.push(handle);
        }
        for (agent, table) in &tables {
            let found: Vec<_> = handles.iter().filter_map(|it| table.get(*it)).collect();
            assert_eq!(found, [agent]);
        }
    }

    #[test]
    fn a_place_whose_numbers_are_used_up_stays_empty() {
        let mut table: Table<ViHandle, u8> = Table::new(0);
        let first = table.insert(1).unwrap();
        table.slots[0].generation = u32::MAX >> AGENT_BITS;
        let number = (u64::from(u32::MAX >> AGENT_BITS) << 32) | 1;
        let last = ViHandle::from_bits(number).unwrap();
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(last), Some(1));
        let next = table.insert(2).unwrap();
        assert_eq!(place_of(next), Some(1));
        assert_eq!(table.get(last), None);
    }
}
