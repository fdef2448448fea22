//! Who a process is: what its names and its address hold.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use viaduct_am::Name;
use viaduct_core::{Address, HostAddress};

/// One life of one process: 16 bytes that no other process ever has.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
pub struct Identity([u8; 16]);

impl Identity {
    /// From a number that the caller gives to one process only, ever: for simulated hosts.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number.to_be_bytes())
    }

    /// A random one, from the system.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Where this process waits for connections.
    pub(crate) fn address(self, host: HostAddress) -> Address {
        let mut discriminator = [0; PREFIX.len() + 16];
        discriminator[..PREFIX.len()].copy_from_slice(PREFIX);
        discriminator[PREFIX.len()..].copy_from_slice(&self.0);
        Address::new(host, &discriminator)
    }

    /// Whose address it is; `None` for a stranger's.
    pub(crate) fn of_address(address: &Address) -> Option<Self> {
        let bytes = address.discriminator.as_bytes().strip_prefix(PREFIX)?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The protocol and its version: others do not meet.
const PREFIX: &[u8] = b"am1.";

/// What a name says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Parts {
    pub(crate) host: HostAddress,
    pub(crate) identity: Identity,
    pub(crate) index: u32,
    /// Which life of the endpoint of that index; from 1.
    pub(crate) generation: u32,
}

impl Parts {
    pub(crate) fn name(self) -> Name {
        let mut bytes = [0; Name::BYTES];
        bytes[..8].copy_from_slice(&self.host.get().to_le_bytes());
        bytes[8..24].copy_from_slice(&self.identity.0);
        bytes[24..28].copy_from_slice(&self.index.to_le_bytes());
        bytes[28..].copy_from_slice(&self.generation.to_le_bytes());
        Name::from_bytes(bytes)
    }

    pub(crate) fn of(name: &Name) -> Self {
        let bytes = name.to_bytes();
        let word = |at: usize| std::array::from_fn(|index| bytes[at + index]);
        Self {
            host: HostAddress::new(u64::from_le_bytes(std::array::from_fn(|index| {
                bytes[index]
            }))),
            identity: Identity(std::array::from_fn(|index| bytes[8 + index])),
            index: u32::from_le_bytes(word(24)),
            generation: u32::from_le_bytes(word(28)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_its_parts() {
        let parts = Parts {
            host: HostAddress::new(0x0102_0304_0506),
            identity: Identity::new(u128::MAX / 3),
            index: 7,
            generation: u32::MAX,
        };
        assert_eq!(Parts::of(&parts.name()), parts);
    }

    #[test]
    fn an_address_tells_whose_it_is() {
        let identity = Identity::random().unwrap();
        assert_ne!(identity, Identity::random().unwrap());
        let host = HostAddress::new(1);
        assert_eq!(
            Identity::of_address(&identity.address(host)),
            Some(identity)
        );
        let strange = Address::new(host, b"am1.short");
        assert_eq!(Identity::of_address(&strange), None);
    }
}
