//! Memory of programs that run elsewhere, in processes of their own.
//!
//! What such a program registers and posts is named to the agent by addresses that say whose they
//! are. So nothing of one program is taken for another's, though both use the same addresses, and
//! whoever reaches for the bytes knows where they lie.

use std::fmt;
use std::sync::Arc;

/// Memory of programs that run elsewhere.
pub trait MemoryElsewhere: fmt::Debug + Send + Sync {
    /// Reads bytes at an address of a program's.
    fn read(&self, owner: Owner, address: u64, into: &mut [u8]);

    /// Writes bytes at an address of a program's.
    fn write(&self, owner: Owner, address: u64, bytes: &[u8]);
}

impl<M: MemoryElsewhere + ?Sized> MemoryElsewhere for Arc<M> {
    fn read(&self, owner: Owner, address: u64, into: &mut [u8]) {
        M::read(self, owner, address, into);
    }

    fn write(&self, owner: Owner, address: u64, bytes: &[u8]) {
        M::write(self, owner, address, bytes);
    }
}

/// Where the memory of programs is that run elsewhere, if there are any. A word, where a pointer to
/// a trait object has two: each host of many has one.
pub type Elsewhere = Option<Arc<Box<dyn MemoryElsewhere>>>;

/// A program elsewhere, as regions of its memory name it: by the bits of their addresses that no
/// program uses.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Owner(u16);

/// Bits of an address that programs use: on x86-64 the 47 of user space.
const ADDRESS_BITS: u32 = 48;

impl Owner {
    /// How many there can be.
    pub const MAX: u16 = u16::MAX - 1;

    /// The one of a number, from 0.
    ///
    /// # Panics
    ///
    /// If there cannot be so many.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        assert!(number < Self::MAX, "too many programs");
        Self(number + 1)
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0 - 1
    }

    /// An address of its memory, which says whose it is.
    #[must_use]
    pub const fn name(self, address: u64) -> u64 {
        Self::plain(address) | (self.0 as u64) << ADDRESS_BITS
    }

    /// The same for an address that the program has written somewhere. One that no program can have
    /// stays as it is, and is found to lie in no region.
    #[must_use]
    pub const fn name_written(self, address: u64) -> u64 {
        match Self::of(address) {
            None => self.name(address),
            Some(_) => address,
        }
    }

    /// An address that this program was given or has written, as the program has it.
    #[must_use]
    pub const fn plain_of_own(self, address: u64) -> u64 {
        match Self::of(address) {
            Some(owner) if owner.0 == self.0 => Self::plain(address),
            _ => address,
        }
    }

    /// Where memory of the program begins, as it is named: none if such a range cannot be its.
    #[must_use]
    pub const fn name_range(self, address: u64, bytes: u64) -> Option<u64> {
        match address.checked_add(bytes) {
            Some(end) if end <= 1 << ADDRESS_BITS => Some(self.name(address)),
            _ => None,
        }
    }

    /// Whose memory an address is in; none: it is this process's.
    #[inline]
    #[must_use]
    pub const fn of(named: u64) -> Option<Self> {
        match (named >> ADDRESS_BITS) as u16 {
            0 => None,
            number => Some(Self(number)),
        }
    }

    /// An address as the program has it.
    #[must_use]
    pub const fn plain(named: u64) -> u64 {
        named & ((1 << ADDRESS_BITS) - 1)
    }
}

/// The memory that an address is in, if it is a program's elsewhere: whose, and where.
#[inline]
#[must_use]
pub fn find(elsewhere: &Elsewhere, named: u64) -> Option<(&dyn MemoryElsewhere, Owner, u64)> {
    let owner = Owner::of(named)?;
    let memory: &dyn MemoryElsewhere = &***elsewhere.as_ref()?;
    Some((memory, owner, Owner::plain(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whose_it_is() {
        let owner = Owner::new(7);
        let named = owner.name(0x7fff_1234_5678);
        assert_eq!(Owner::of(named), Some(owner));
        assert_eq!(Owner::plain(named), 0x7fff_1234_5678);
        assert_eq!(Owner::of(0x7fff_1234_5678), None);
        assert_eq!(owner.name_written(0x1000), owner.name(0x1000));
        // Not another's, nor one that is there.
        let wild = 0x00ff_0000_0000_1000;
        assert_eq!(owner.name_written(wild), wild);
        assert_eq!(owner.plain_of_own(wild), wild);
        assert_eq!(owner.plain_of_own(named), 0x7fff_1234_5678);
        // No range reaches into what is named as another's.
        let end = 1_u64 << 48;
        assert_eq!(owner.name_range(end - 8, 8), Some(owner.name(end - 8)));
        assert_eq!(owner.name_range(end - 8, 9), None);
        assert_eq!(owner.name_range(8, u64::MAX), None);
    }
}
