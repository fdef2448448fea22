//! Where connections are asked for: hosts, and names within a host.

use alloc::boxed::Box;
use core::fmt;

/// A NIC's address on the network. A driver gives it meaning.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostAddress(u64);

impl HostAddress {
    /// From a number; the C interface uses the low 48 bits.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Tells the endpoints of one host apart: bytes that mean something to the consumers only.
///
/// Two discriminators are equal when their lengths and all their bytes are.
#[derive(Clone, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Discriminator(Box<[u8]>);

impl Discriminator {
    /// From bytes. The NIC's limit is checked where it is used.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Discriminator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", self.0.escape_ascii())
    }
}

/// An endpoint that can be waited on or asked for: a host and a discriminator.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Address {
    /// Which host.
    pub host: HostAddress,
    /// Which endpoint of that host.
    pub discriminator: Discriminator,
}

impl Address {
    /// The endpoint called `discriminator` on `host`.
    #[must_use]
    pub fn new(host: HostAddress, discriminator: &[u8]) -> Self {
        Self {
            host,
            discriminator: Discriminator::new(discriminator),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_prefix_is_another_discriminator() {
        let name = Discriminator::new(b"server");
        assert_ne!(name, Discriminator::new(b"serve"));
        assert_ne!(name, Discriminator::new(b"server\0"));
        assert_eq!(name, Discriminator::new(b"server"));
        assert_eq!(format!("{:?}", Discriminator::new(b"a\0")), "\"a\\x00\"");
    }
}
