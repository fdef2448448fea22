//! Registered memory, and where what requests name lies in it.

use alloc::format;

use super::check::{self, Region};
use super::error::{Result, invalid, unsupported};
use super::flags::access;
use super::{Key, ScatterGatherElement, Table};

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct RegionState {
    /// The opened device that it belongs to.
    pub context: Key,
    /// Its protection domain.
    pub domain: Key,
    /// By what requests name it.
    pub key: u32,
    /// What requests are checked against.
    pub region: Region,
    /// Its first byte in the program's memory.
    pub address: u64,
}

/// All regions of an adapter, each at the place that its key names.
pub type Regions = Table<RegionState>;

/// The key of the region at a place, of those that have been there: variants are 1 to 255, so that
/// 0 is no key.
#[must_use]
pub const fn key_at(place: u32, variant: u32) -> u32 {
    place << 8 | variant
}

/// Access flags that are known, hints among them. Programs set the bit of memory windows beside the
/// others, and learn that there are none when they ask for one.
pub const ACCESS_KNOWN: u32 = access::LOCAL_WRITE
    | access::REMOTE_WRITE
    | access::REMOTE_READ
    | access::REMOTE_ATOMIC
    | access::MEMORY_WINDOW_BIND
    | access::ZERO_BASED
    | access::HUGE_PAGES
    | access::OPTIONAL;

/// Whether `length` bytes at `address`, which requests call by addresses from `first` on, can be a
/// region with these access flags.
///
/// # Errors
///
/// EOPNOTSUPP for on-demand paging; EINVAL for flags that are not known or do not go together, for
/// more than `length_max` bytes and for a range past the end of memory.
pub fn check_region(
    address: u64,
    length: u64,
    first: u64,
    flags: u32,
    length_max: u64,
) -> Result<()> {
    if flags & access::ON_DEMAND != 0 {
        return Err(unsupported("there is no on-demand paging"));
    }
    if flags & !ACCESS_KNOWN != 0 {
        return Err(invalid(format!(
            "access flags {flags:#x} are not all known"
        )));
    }
    if !check::are_access_flags_legal(flags) {
        return Err(invalid("remote writes and atomics need LOCAL_WRITE"));
    }
    if length > length_max
        || address.checked_add(length).is_none()
        || first.checked_add(length).is_none()
    {
        return Err(invalid("the region is too long"));
    }
    Ok(())
}

/// Where bytes lie in the program's memory, if the region of the key lets the access through.
#[inline]
#[must_use]
pub fn find(
    regions: &Regions,
    key: u32,
    domain: u32,
    needed: u32,
    address: u64,
    length: u64,
) -> Option<u64> {
    let state = regions.at(key >> 8).filter(|state| state.key == key)?;
    check::lets_through(&state.region, domain, needed, address, length)
        .then(|| state.address.wrapping_add(address - state.region.first))
}

/// Calls `visit` with the address and the bytes of each element; false if a key does not let one
/// through. Those of no bytes are not looked at.
#[inline]
#[must_use]
pub fn find_all(
    regions: &Regions,
    elements: &[ScatterGatherElement],
    domain: u32,
    needed: u32,
    mut visit: impl FnMut(u64, usize),
) -> bool {
    for element in elements.iter().filter(|element| element.length > 0) {
        let (key, length) = (element.local_key, u64::from(element.length));
        let Some(address) = find(regions, key, domain, needed, element.address, length) else {
            return false;
        };
        visit(address, element.length as usize);
    }
    true
}
