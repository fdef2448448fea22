//! Addresses of simulated hosts, all of this machine: that of host 3 is 127.77.0.4.

use std::net::Ipv4Addr;

/// Hosts that have an address.
pub const HOSTS_MAX: u32 = (1 << 16) - 2;

/// The address of a host.
#[must_use]
pub fn address(host: u32) -> Ipv4Addr {
    let number = (host.min(HOSTS_MAX - 1) + 1) as u16;
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 77, high, low)
}

/// Whether an address is that of a host.
#[must_use]
pub fn is_host(address: Ipv4Addr) -> bool {
    address.octets().starts_with(&[127, 77])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses() {
        assert_eq!(address(0), Ipv4Addr::new(127, 77, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(127, 77, 1, 0));
        assert!(is_host(address(70)) && !is_host(Ipv4Addr::LOCALHOST));
    }
}
