//! Addresses of simulated hosts, all of this machine: that of host 3 is 127.77.0.4.
//!
//! Runs at the same time have networks of their own, so that programs of one do not find those of
//! another, nor its ports taken: 127.77.0.0/16, 127.78.0.0/16 and so on. Where hosts have several
//! adapters, each has an address, those of a host one after the other.

use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Adapters that have an address, of all hosts together.
pub const ADDRESSES_MAX: u32 = (1 << 16) - 2;

/// The networks of runs.
const FIRST: u8 = 77;
const LAST: u8 = 126;

/// The addresses of the hosts of one run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostAddresses {
    network: u8,
    /// Of each host.
    adapters: u8,
}

impl Default for HostAddresses {
    /// Those of a run that is alone.
    fn default() -> Self {
        Self {
            network: FIRST,
            adapters: 1,
        }
    }
}

impl HostAddresses {
    /// The same for hosts of so many adapters, 255 at most.
    #[must_use]
    pub fn with_adapters(self, adapters: u32) -> Self {
        let adapters = adapters.clamp(1, u8::MAX.into()) as u8;
        Self { adapters, ..self }
    }

    /// The address of a host: that of its first adapter.
    #[must_use]
    pub fn of(self, host: u32) -> Ipv4Addr {
        let first = host.saturating_mul(self.adapters.into());
        let number = (first.min(ADDRESSES_MAX - 1) + 1) as u16;
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(127, self.network, high, low)
    }

    /// The address of an adapter of a host; none if there is no such adapter.
    #[must_use]
    pub fn at(self, host: u32, adapter: u32) -> Option<Ipv4Addr> {
        let first = host.checked_mul(self.adapters.into())?;
        let is_there = adapter < self.adapters.into() && first < ADDRESSES_MAX - adapter;
        is_there.then(|| Ipv4Addr::from_bits(self.of(host).to_bits() + adapter))
    }

    /// The host of this run that an address is of, by whichever of its adapters.
    #[must_use]
    pub fn host_at(self, address: Ipv4Addr) -> Option<u32> {
        let number = (address.to_bits() & 0xffff).checked_sub(1)?;
        self.contains(address)
            .then(|| number / u32::from(self.adapters))
    }

    /// Whether an address is that of a host of this run.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.octets().starts_with(&[127, self.network])
    }

    /// As a number that [`HostAddresses::from_bits`] takes.
    pub(crate) const fn to_bits(self) -> u32 {
        self.network as u32 | (self.adapters as u32) << u8::BITS
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        let [network, adapters, 0, 0] = bits.to_le_bytes() else {
            return None;
        };
        let is_one = (FIRST..=LAST).contains(&network) && adapters > 0;
        is_one.then_some(Self { network, adapters })
    }
}

/// Keeps addresses from other runs on this machine for as long as it lives.
#[derive(Debug)]
pub struct Claim {
    addresses: HostAddresses,
    /// A name in the namespace of the addresses, which the system frees with the process.
    _name: UnixDatagram,
}

impl Claim {
    /// The first addresses that no other run has.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] when other runs have all; what the system says.
    pub fn new() -> io::Result<Self> {
        for network in FIRST..=LAST {
            let name = SocketAddr::from_abstract_name(format!("viaduct-hosts-127.{network}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(name) => {
                    return Ok(Self {
                        addresses: HostAddresses {
                            network,
                            adapters: 1,
                        },
                        _name: name,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        let all = format!("all networks from 127.{FIRST}.0.0 to 127.{LAST}.0.0 have a run");
        Err(io::Error::new(io::ErrorKind::AddrInUse, all))
    }

    /// What is kept.
    #[must_use]
    pub const fn addresses(&self) -> HostAddresses {
        self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses() {
        let addresses = HostAddresses::default();
        assert_eq!(addresses.of(0), Ipv4Addr::new(127, 77, 0, 1));
        assert_eq!(addresses.of(255), Ipv4Addr::new(127, 77, 1, 0));
        assert!(addresses.contains(addresses.of(70)));
        assert!(!addresses.contains(Ipv4Addr::LOCALHOST));
        assert_eq!(addresses.at(3, 0), Some(addresses.of(3)));
        assert_eq!(addresses.at(3, 1), None);
    }

    #[test]
    fn each_adapter_of_a_host_has_an_address() {
        let addresses = HostAddresses::default().with_adapters(4);
        assert_eq!(addresses.of(0), Ipv4Addr::new(127, 77, 0, 1));
        assert_eq!(addresses.at(64, 3), Some(Ipv4Addr::new(127, 77, 1, 4)));
        for (host, adapter) in [(0, 0), (0, 3), (7, 2), (16_382, 3)] {
            let address = addresses.at(host, adapter).unwrap();
            assert_eq!(addresses.host_at(address), Some(host));
        }
        assert_eq!((addresses.at(0, 4), addresses.at(16_383, 2)), (None, None));
        for other in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 77, 0, 0)] {
            assert_eq!(addresses.host_at(other), None);
        }
        assert_eq!(
            HostAddresses::from_bits(addresses.to_bits()),
            Some(addresses)
        );
    }

    #[test]
    fn no_two_runs_have_the_same_addresses() {
        let (first, second) = (Claim::new().unwrap(), Claim::new().unwrap());
        let (first, second) = (first.addresses(), second.addresses());
        assert!(!first.contains(second.of(0)) && !second.contains(first.of(0)));
        assert_eq!(HostAddresses::from_bits(second.to_bits()), Some(second));
        assert_eq!(HostAddresses::from_bits(127 | 1 << 8), None);
    }
}
