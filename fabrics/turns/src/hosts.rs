//! Addresses of simulated hosts, all of this machine: that of host 3 is 127.77.0.4.
//!
//! Runs at the same time have networks of their own, so that programs of one do not find those of
//! another, nor its ports taken: 127.77.0.0/16, 127.78.0.0/16 and so on.

use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Hosts that have an address.
pub const HOSTS_MAX: u32 = (1 << 16) - 2;

/// The networks of runs.
const FIRST: u8 = 77;
const LAST: u8 = 126;

/// The addresses of the hosts of one run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostAddresses {
    network: u8,
}

impl Default for HostAddresses {
    /// Those of a run that is alone.
    fn default() -> Self {
        Self { network: FIRST }
    }
}

impl HostAddresses {
    /// The address of a host.
    #[must_use]
    pub fn of(self, host: u32) -> Ipv4Addr {
        let number = (host.min(HOSTS_MAX - 1) + 1) as u16;
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(127, self.network, high, low)
    }

    /// Whether an address is that of a host of this run.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.octets().starts_with(&[127, self.network])
    }

    /// As a number that [`HostAddresses::from_bits`] takes.
    pub(crate) const fn to_bits(self) -> u32 {
        self.network as u32
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        let network = u8::try_from(bits).ok()?;
        (FIRST..=LAST)
            .contains(&network)
            .then_some(Self { network })
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
                        addresses: HostAddresses { network },
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
    }

    #[test]
    fn no_two_runs_have_the_same_addresses() {
        let (first, second) = (Claim::new().unwrap(), Claim::new().unwrap());
        let (first, second) = (first.addresses(), second.addresses());
        assert!(!first.contains(second.of(0)) && !second.contains(first.of(0)));
        assert_eq!(HostAddresses::from_bits(second.to_bits()), Some(second));
        assert_eq!(HostAddresses::from_bits(127), None);
    }
}
