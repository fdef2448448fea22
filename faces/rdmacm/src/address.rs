//! Addresses of this machine, and socket addresses as C has them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

/// The addresses of several devices.
static OF_DEVICES: OnceLock<Vec<Ipv4Addr>> = OnceLock::new();

/// Learns what addresses devices have, if there are several, before anything is bound.
pub(crate) fn learn_of_devices(addresses: impl FnOnce() -> Vec<Ipv4Addr>) {
    if OF_DEVICES.get().is_none() {
        let _ = OF_DEVICES.set(addresses());
    }
}

/// The addresses of this program's host, one for each adapter, where it has no others: on a
/// simulated host, on which sockets that are bound to all addresses are bound to the first.
fn of_host() -> Vec<Ipv4Addr> {
    let bound = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|it| it.local_addr());
    let first = match bound.map(|at| at.ip()) {
        Ok(IpAddr::V4(ip)) if !ip.is_unspecified() => ip,
        _ => return Vec::new(),
    };
    let known = OF_DEVICES.get();
    match known.filter(|all| all.first() == Some(&first)) {
        Some(all) => all.clone(),
        None => vec![first],
    }
}

/// Where a program is bound that asks for this address: on a host that has its own alone all
/// addresses, and that of its own machine, are the first.
pub(crate) fn bound(mut address: SocketAddr) -> SocketAddr {
    if (address.ip().is_unspecified() || is_localhost(address.ip()))
        && let Some(first) = of_host().first()
    {
        address.set_ip(in_family_of(address, *first));
    }
    address
}

/// What else a program hears there: on such a host who asks for all addresses hears those of the
/// other adapters.
pub(crate) fn bound_beside(asked: SocketAddr) -> Vec<SocketAddr> {
    if !asked.ip().is_unspecified() {
        return Vec::new();
    }
    let others = of_host().into_iter().skip(1);
    others
        .map(|other| SocketAddr::new(in_family_of(asked, other), asked.port()))
        .collect()
}

fn is_localhost(ip: IpAddr) -> bool {
    ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST)
}

fn in_family_of(other: SocketAddr, ip: Ipv4Addr) -> IpAddr {
    match other {
        SocketAddr::V4(_) => ip.into(),
        SocketAddr::V6(_) => ip.to_ipv6_mapped().into(),
    }
}

/// Of a host's addresses the one of the adapter that has the number of another host's: those of a
/// host follow each other, and those of the next host follow these. For other addresses the first.
fn nearest(own: &[Ipv4Addr], other: IpAddr) -> Option<Ipv4Addr> {
    let first = *own.first()?;
    let other = match other {
        IpAddr::V4(other) => Some(other),
        IpAddr::V6(other) => other.to_ipv4_mapped(),
    };
    let network = |address: Ipv4Addr| address.to_bits() >> 16;
    let other = other.filter(|other| network(*other) == network(first));
    let apart = other.map_or(0, |other| {
        i64::from(other.to_bits()) - i64::from(first.to_bits())
    });
    let number = apart.rem_euclid(own.len() as i64) as usize;
    own.get(number).copied()
}

/// Whether this machine has an address. Those of the loopback are everywhere.
pub(crate) fn is_of_this_machine(address: SocketAddr) -> io::Result<bool> {
    let mut address = address;
    if address.ip().is_loopback() {
        return Ok(true);
    }
    address.set_port(0);
    match UdpSocket::bind(address) {
        Ok(_) => Ok(true),
        Err(error) if is_no_address(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_no_address(error: &io::Error) -> bool {
    // The second is what an address of IPv6 gets where there is none, the third one without a
    // scope.
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
        || error.raw_os_error() == Some(libc::EINVAL)
}

/// The address from which this machine would send to another, without a port. By the routing table;
/// an address of this machine is its own source.
///
/// # Errors
///
/// What the system says when there is no way there.
pub(crate) fn source_for(destination: SocketAddr) -> io::Result<SocketAddr> {
    let mut own = destination;
    own.set_port(0);
    if let Some(nearest) = nearest(&of_host(), destination.ip()) {
        own.set_ip(in_family_of(destination, nearest));
        return Ok(own);
    }
    if destination.ip().is_unspecified() {
        own.set_ip(match destination {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
        return Ok(own);
    }
    if is_of_this_machine(destination)? {
        return Ok(own);
    }
    let any: IpAddr = match destination {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // A port is needed to be routed; nothing is sent.
    let mut there = destination;
    if there.port() == 0 {
        there.set_port(1);
    }
    socket.connect(there)?;
    let mut source = socket.local_addr()?;
    source.set_port(0);
    Ok(source)
}

/// The addresses of the machine's interfaces.
pub(crate) fn interfaces() -> Vec<SocketAddr> {
    let mut list = ptr::null_mut();
    // SAFETY: the list is given back below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut addresses = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an element of the system's list, whose addresses are whole.
        unsafe {
            if let Ok(Some(address)) = read((*next).ifa_addr) {
                addresses.push(address);
            }
            next = (*next).ifa_next;
        }
    }
    // SAFETY: nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    addresses
}

/// An address family that connections are not made with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct UnknownFamily;

/// Reads a socket address of C; `None` for NULL.
///
/// # Safety
///
/// It is NULL, or as long as its family says.
pub(crate) unsafe fn read(address: *const sockaddr) -> Result<Option<SocketAddr>, UnknownFamily> {
    if address.is_null() {
        return Ok(None);
    }
    // SAFETY: as this function's caller says; programs may have it anywhere in a buffer.
    let read = unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let address = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
            }
            libc::AF_INET6 => {
                let address = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                let port = u16::from_be(address.sin6_port);
                SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into()
            }
            _ => return Err(UnknownFamily),
        }
    };
    Ok(Some(read))
}

/// Writes a socket address of C, and how long it is.
pub(crate) fn write(address: SocketAddr, storage: &mut sockaddr_storage) -> socklen_t {
    // SAFETY: all of it is numbers.
    *storage = unsafe { std::mem::zeroed() };
    let bytes = match address {
        SocketAddr::V4(address) => {
            let written = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*address.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage is longer than the address of any family, and aligned for it.
            unsafe { (&raw mut *storage).cast::<sockaddr_in>().write(written) };
            size_of::<sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let written = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut *storage).cast::<sockaddr_in6>().write(written) };
            size_of::<sockaddr_in6>()
        }
    };
    bytes as socklen_t
}

/// The address as a GID: that of a RoCE interface which has it.
pub(crate) fn gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_sends_to_the_one_of_its_number() {
        let address = |last| Ipv4Addr::new(127, 77, 0, last);
        let own = [address(3), address(4)];
        for (other, nearest_of_own) in [(1, 3), (2, 4), (3, 3), (4, 4), (5, 3), (8, 4)] {
            let found = nearest(&own, address(other).into());
            assert_eq!(found, Some(address(nearest_of_own)), "{other}");
        }
        let elsewhere = Ipv4Addr::new(192, 0, 2, 2);
        assert_eq!(nearest(&own, elsewhere.into()), Some(address(3)));
        assert_eq!(nearest(&[], elsewhere.into()), None);
    }

    #[test]
    fn addresses_of_c_come_back_as_they_were() {
        for text in ["127.0.0.1:7471", "[::1]:80", "[fe80::1%4]:1", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            // SAFETY: all of it is numbers.
            let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
            assert!(write(address, &mut storage) > 0);
            // SAFETY: it has just been written.
            let read = unsafe { read((&raw const storage).cast()) };
            assert_eq!(read, Ok(Some(address)));
        }
    }

    #[test]
    fn families_without_connections_are_refused() {
        // SAFETY: all of it is numbers.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        storage.ss_family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: only its family is looked at.
        let read = unsafe { read((&raw const storage).cast()) };
        assert_eq!(read, Err(UnknownFamily));
    }

    #[test]
    fn loopback_is_here_and_is_its_own_source() {
        for text in ["127.0.0.1:1", "127.3.2.1:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert!(is_of_this_machine(address).unwrap());
            let source = source_for(address).unwrap();
            assert_eq!((source.ip(), source.port()), (address.ip(), 0));
        }
        // An address that is kept for documents.
        assert!(!is_of_this_machine("192.0.2.7:1".parse().unwrap()).unwrap());
    }
}
