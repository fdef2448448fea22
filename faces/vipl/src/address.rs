//! Network addresses: `VIP_NET_ADDRESS` and back.
//!
//! ```text
//!  0               2                  4
//! | HostAddressLen | DiscriminatorLen | host address ... | discriminator ... |
//! ```

use std::ptr::NonNull;

use viaduct_provider::Result;
use viaduct_provider::via::{Address, HostAddress};

use crate::abi::VipNetAddress;
use crate::call::invalid;

/// Bytes of a host address: old programs hard-code them.
pub(crate) const HOST_ADDRESS_BYTES: usize = 6;

/// Where the host's address begins.
const HEADER_BYTES: usize = std::mem::offset_of!(VipNetAddress, HostAddress);

/// A host's address in the order in which programs print it: the highest of 48 bits first.
pub(crate) fn host_bytes(host: HostAddress) -> [u8; HOST_ADDRESS_BYTES] {
    let [_, _, bytes @ ..] = host.get().to_be_bytes();
    bytes
}

/// Reads an address.
///
/// # Errors
///
/// `InvalidParameter` for a host address of another length than NICs here have.
///
/// # Safety
///
/// The lengths are readable, and so are the bytes that they promise.
pub(crate) unsafe fn read(address: NonNull<VipNetAddress>) -> Result<Address> {
    // SAFETY: the caller says so.
    let host = unsafe { read_host(address) }?;
    // SAFETY: the caller says so; the discriminator follows the host's address.
    let discriminator = unsafe {
        let length = (&raw const (*address.as_ptr()).DiscriminatorLen).read_unaligned();
        let first = address.cast::<u8>().add(HEADER_BYTES + HOST_ADDRESS_BYTES);
        std::slice::from_raw_parts(first.as_ptr(), usize::from(length))
    };
    Ok(Address::new(host, discriminator))
}

/// Reads the host's part of an address.
///
/// # Errors
///
/// As [`read`].
///
/// # Safety
///
/// As [`read`].
pub(crate) unsafe fn read_host(address: NonNull<VipNetAddress>) -> Result<HostAddress> {
    // SAFETY: the caller says so.
    let length = unsafe { (&raw const (*address.as_ptr()).HostAddressLen).read_unaligned() };
    if usize::from(length) != HOST_ADDRESS_BYTES {
        return Err(invalid(
            "HostAddressLen is not the NicAddressLen that VipQueryNic reports, 6",
        ));
    }
    let mut bytes = [0; 8];
    // SAFETY: the caller promises as many bytes as the length says.
    let host = unsafe {
        let first = address.cast::<u8>().add(HEADER_BYTES);
        std::slice::from_raw_parts(first.as_ptr(), HOST_ADDRESS_BYTES)
    };
    bytes[8 - HOST_ADDRESS_BYTES..].copy_from_slice(host);
    Ok(HostAddress::new(u64::from_be_bytes(bytes)))
}

/// Writes an address.
///
/// # Safety
///
/// There is room for the header, the host's address and the discriminator.
pub(crate) unsafe fn write(into: NonNull<VipNetAddress>, host: HostAddress, discriminator: &[u8]) {
    // What a peer was allowed to send has a length of 16 bits: fabrics refuse longer ones.
    let length = discriminator.len().min(usize::from(u16::MAX));
    // SAFETY: the caller says so.
    unsafe {
        (&raw mut (*into.as_ptr()).HostAddressLen).write_unaligned(HOST_ADDRESS_BYTES as u16);
        (&raw mut (*into.as_ptr()).DiscriminatorLen).write_unaligned(length as u16);
        let first = into.cast::<u8>().add(HEADER_BYTES).as_ptr();
        first.copy_from_nonoverlapping(host_bytes(host).as_ptr(), HOST_ADDRESS_BYTES);
        first
            .add(HOST_ADDRESS_BYTES)
            .copy_from_nonoverlapping(discriminator.as_ptr(), length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer as programs make it, at an address that suits the type.
    fn buffer(fill: u8) -> [u64; 8] {
        [u64::from_ne_bytes([fill; 8]); 8]
    }

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let mut words = buffer(0xEE);
        let place = NonNull::from(&mut words).cast();
        // SAFETY: 64 bytes hold an address of 4 + 6 + 4.
        let back = unsafe {
            write(place, HostAddress::new(0x0102_0304_0506), b"port");
            read(place).unwrap()
        };
        assert_eq!(back.host.get(), 0x0102_0304_0506);
        assert_eq!(back.discriminator.as_bytes(), b"port");
        let mut bytes = Vec::new();
        bytes.extend(6_u16.to_ne_bytes());
        bytes.extend(4_u16.to_ne_bytes());
        bytes.extend([1, 2, 3, 4, 5, 6]);
        bytes.extend(b"port");
        // Nothing past the address is touched.
        bytes.push(0xEE);
        let written: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(&written[..bytes.len()], &bytes[..]);
    }

    #[test]
    fn a_host_address_of_another_length_is_refused() {
        for length in [0_u16, 4, 5, 7, 8, u16::MAX] {
            let mut words = buffer(0);
            let place = NonNull::from(&mut words).cast::<VipNetAddress>();
            // SAFETY: 64 bytes hold the header; the address behind it is not read.
            let refused = unsafe {
                (*place.as_ptr()).HostAddressLen = length;
                read(place)
            };
            assert!(refused.is_err(), "{length}");
        }
    }
}
