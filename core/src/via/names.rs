//! The name service as data: which hosts have which names.
//!
//! A host may have several addresses, numbered from 0 in the order in which they were added, and
//! an address one name.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::address::HostAddress;

/// Names and addresses of the hosts of a network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NameTable {
    addresses: BTreeMap<Box<str>, Vec<HostAddress>>,
    names: BTreeMap<HostAddress, Box<str>>,
}

/// Why a name or an address was not found or not added (`VIP_ERROR_NAMESERVICE`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NameError {
    /// No host has this name.
    UnknownName,
    /// The host has fewer addresses.
    NoSuchIndex {
        /// How many it has; they are numbered from 0.
        count: u32,
    },
    /// No host has this address.
    UnknownAddress,
    /// The address has another name: remove it first.
    AddressTaken {
        /// Its name.
        name: Box<str>,
    },
    /// A name has at least one byte, and none of them is 0.
    InvalidName,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => write!(f, "no host has this name"),
            Self::NoSuchIndex { count } => {
                write!(f, "the host has {count} addresses, numbered from 0")
            }
            Self::UnknownAddress => write!(f, "no host has this address"),
            Self::AddressTaken { name } => {
                write!(f, "the address belongs to host {name:?}: remove it first")
            }
            Self::InvalidName => {
                write!(f, "a host's name has at least one byte, none of them 0")
            }
        }
    }
}

impl Error for NameError {}

impl NameTable {
    /// A table without names.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            addresses: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Adds an address to a name, behind those that the name has. Adding it twice adds it once.
    ///
    /// # Errors
    /// [`NameError::InvalidName`], [`NameError::AddressTaken`].
    pub fn insert(&mut self, name: &str, address: HostAddress) -> Result<(), NameError> {
        if name.is_empty() || name.contains('\0') {
            return Err(NameError::InvalidName);
        }
        match self.names.get(&address) {
            Some(known) if **known == *name => return Ok(()),
            Some(known) => {
                let name = known.clone();
                return Err(NameError::AddressTaken { name });
            }
            None => {}
        }
        self.names.insert(address, name.into());
        self.addresses.entry(name.into()).or_default().push(address);
        Ok(())
    }

    /// Removes an address from its name, and the name with its last address.
    ///
    /// # Errors
    /// [`NameError::UnknownAddress`].
    pub fn remove(&mut self, address: HostAddress) -> Result<(), NameError> {
        let name = self
            .names
            .remove(&address)
            .ok_or(NameError::UnknownAddress)?;
        if let Some(addresses) = self.addresses.get_mut(&name) {
            addresses.retain(|known| *known != address);
            if addresses.is_empty() {
                self.addresses.remove(&name);
            }
        }
        Ok(())
    }

    /// The address of a name with this number (`VipNSGetHostByName`).
    ///
    /// # Errors
    /// [`NameError::UnknownName`]; [`NameError::NoSuchIndex`] past the last.
    pub fn address(&self, name: &str, index: u32) -> Result<HostAddress, NameError> {
        let addresses = self.addresses.get(name).ok_or(NameError::UnknownName)?;
        let count = addresses.len() as u32;
        addresses
            .get(index as usize)
            .copied()
            .ok_or(NameError::NoSuchIndex { count })
    }

    /// The name of an address (`VipNSGetHostByAddr`).
    ///
    /// # Errors
    /// [`NameError::UnknownAddress`].
    pub fn name(&self, address: HostAddress) -> Result<&str, NameError> {
        self.names
            .get(&address)
            .map(|name| &**name)
            .ok_or(NameError::UnknownAddress)
    }

    /// Every name with its addresses, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[HostAddress])> {
        self.addresses
            .iter()
            .map(|(name, addresses)| (&**name, addresses.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_several_addresses_in_order_and_an_address_one_name() {
        // Conformance cases 76 to 78.
        let [a, b, c] = [1, 2, 3].map(HostAddress::new);
        let mut table = NameTable::new();
        assert_eq!(table.address("ann", 0), Err(NameError::UnknownName));
        for address in [b, a, b] {
            table.insert("ann", address).unwrap();
        }
        table.insert("bob", c).unwrap();
        assert_eq!(table.address("ann", 0), Ok(b));
        assert_eq!(table.address("ann", 1), Ok(a));
        let past = Err(NameError::NoSuchIndex { count: 2 });
        assert_eq!(table.address("ann", 2), past);
        assert_eq!(table.name(c), Ok("bob"));
        let taken = Err(NameError::AddressTaken { name: "ann".into() });
        assert_eq!(table.insert("bob", a), taken);
        assert_eq!(table.insert("", a), Err(NameError::InvalidName));
        assert_eq!(table.iter().count(), 2);
        table.remove(c).unwrap();
        assert_eq!(table.remove(c), Err(NameError::UnknownAddress));
        assert_eq!(table.name(c), Err(NameError::UnknownAddress));
        assert_eq!(table.address("bob", 0), Err(NameError::UnknownName));
        table.remove(b).unwrap();
        assert_eq!(table.address("ann", 0), Ok(a));
    }
}
