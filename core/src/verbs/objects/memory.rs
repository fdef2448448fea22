//! Memory regions.

use alloc::format;

use super::Objects;
use crate::verbs::carrier::Carrier;
use crate::verbs::check::{self, Region};
use crate::verbs::error::{Result, full, gone, invalid};
use crate::verbs::flags::{access, reregister};
use crate::verbs::regions::{self, RegionState, check_region, key_at};
use crate::verbs::responder::{self, Incident};
use crate::verbs::{Key, Pair, SendOpcode};

impl<C: Carrier> Objects<C> {
    /// Opens memory to requests: its key, and the key by which requests name it.
    ///
    /// # Errors
    ///
    /// As [`check_region`]; ENOMEM when there are too many regions.
    pub fn register_memory(
        &mut self,
        domain: Key,
        address: u64,
        length: u64,
        iova: u64,
        flags: u32,
    ) -> Result<(Key, u32)> {
        let context = self.context_of_domain(domain)?;
        let is_zero_based = flags & access::ZERO_BASED != 0;
        let first = if is_zero_based { 0 } else { iova };
        let length_max = self.limits.max_region_bytes;
        check_region(address, length, first, flags, length_max)?;
        let too_many = || full("too many memory regions");
        let place = self.regions.next_key().ok_or_else(too_many)?;
        let key = key_at(place.index(), self.key_variant);
        self.key_variant = self.key_variant % 255 + 1;
        let region = Region {
            domain: domain.index(),
            access: flags,
            first,
            length,
        };
        let state = RegionState {
            context,
            domain,
            key,
            region,
            address,
        };
        let place = self.regions.insert(state).ok_or_else(too_many)?;
        self.notices.carrier.shows_region(key, Some(&state));
        self.use_domain(domain, true);
        Ok((place, key))
    }

    /// Changes what bits of [`reregister`] name of a region, whose key stays the same.
    ///
    /// # Errors
    ///
    /// EINVAL for flags that are not known and for a domain of another context; otherwise as
    /// [`Objects::register_memory`]. The region is as before then.
    pub fn reregister_memory(
        &mut self,
        key: Key,
        flags: u32,
        domain: Option<Key>,
        (address, length): (u64, u64),
        access: u32,
    ) -> Result<()> {
        let mut state = *self.regions.get(key).ok_or_else(gone)?;
        let known = reregister::TRANSLATION | reregister::PROTECTION_DOMAIN | reregister::ACCESS;
        if flags == 0 || flags & !known != 0 {
            return Err(invalid(format!("flags {flags:#x} of a new registration")));
        }
        if flags & reregister::ACCESS != 0 {
            state.region.access = access;
        }
        if flags & reregister::TRANSLATION != 0 {
            state.address = address;
            state.region.length = length;
            state.region.first = address;
        }
        if state.region.access & access::ZERO_BASED != 0 {
            state.region.first = 0;
        }
        let before = state.domain;
        if flags & reregister::PROTECTION_DOMAIN != 0 {
            let domain = domain.ok_or_else(|| invalid("a protection domain is missing"))?;
            if self.context_of_domain(domain)? != state.context {
                return Err(invalid("the protection domain is of another context"));
            }
            state.domain = domain;
            state.region.domain = domain.index();
        }
        let region = state.region;
        let length_max = self.limits.max_region_bytes;
        check_region(
            state.address,
            region.length,
            region.first,
            region.access,
            length_max,
        )?;
        self.notices.carrier.shows_region(state.key, Some(&state));
        self.use_domain(before, false);
        self.use_domain(state.domain, true);
        *self.regions.get_mut(key).ok_or_else(gone)? = state;
        Ok(())
    }

    /// Closes memory to requests.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn deregister_memory(&mut self, key: Key) -> Result<()> {
        let state = self.regions.remove(key).ok_or_else(gone)?;
        self.notices.carrier.shows_region(state.key, None);
        self.use_domain(state.domain, false);
        Ok(())
    }

    /// Where the bytes of a peer's write or read lie, if the queue pair and the region let it
    /// through; nowhere, if there are none.
    ///
    /// # Errors
    ///
    /// It is not let through.
    pub fn find_remote(
        &self,
        pair: &Pair<C>,
        opcode: SendOpcode,
        key: u32,
        (address, length): (u64, u64),
    ) -> core::result::Result<Option<u64>, Incident> {
        if !responder::checks_key(length) {
            return Ok(None);
        }
        let found = self.find_open(pair, opcode, key, (address, length));
        found.map(Some).ok_or(Incident::AccessRefused)
    }

    /// Where the eight bytes of a peer's atomic lie.
    ///
    /// # Errors
    ///
    /// It is not let through, or not aligned.
    pub fn find_atomic(
        &self,
        pair: &Pair<C>,
        opcode: SendOpcode,
        key: u32,
        address: u64,
    ) -> core::result::Result<u64, Incident> {
        if !check::is_atomic_address(address) {
            return Err(Incident::Misaligned);
        }
        let found = self.find_open(pair, opcode, key, (address, 8));
        let found = found.filter(|found| found.is_multiple_of(8));
        found.ok_or(Incident::AccessRefused)
    }

    fn find_open(
        &self,
        pair: &Pair<C>,
        opcode: SendOpcode,
        key: u32,
        (address, length): (u64, u64),
    ) -> Option<u64> {
        let needed = check::remote_right(opcode);
        if !check::lets_peer(pair.attributes.access_flags, needed) {
            return None;
        }
        let domain = pair.domain.index();
        regions::find(&self.regions, key, domain, needed, address, length)
    }
}
