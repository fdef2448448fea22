//! The names by which the two ends of a connection meet.

use viaduct_processes::rendezvous::{Name, digest};
use viaduct_provider::via::Address;

use crate::wire::VERSION;

/// Where a server waits.
pub(crate) fn server(address: &Address) -> Name {
    let host = address.host.get().to_le_bytes();
    Name::new(
        VERSION,
        's',
        digest(&[&host, address.discriminator.as_bytes()]),
    )
}

/// Where two equals meet, whichever way round they name themselves.
pub(crate) fn peers(one: &Address, other: &Address) -> Name {
    let (first, second) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    let hosts = [first, second].map(|address| address.host.get().to_le_bytes());
    let digest = digest(&[
        &hosts[0],
        first.discriminator.as_bytes(),
        &hosts[1],
        second.discriminator.as_bytes(),
    ]);
    Name::new(VERSION, 'p', digest)
}

#[cfg(test)]
mod tests {
    use viaduct_provider::via::HostAddress;

    use super::*;

    fn address(discriminator: &[u8]) -> Address {
        Address::new(HostAddress::new(1), discriminator)
    }

    #[test]
    fn names_differ_with_the_address_and_not_with_the_order_of_peers() {
        let names = [
            server(&address(b"")),
            server(&address(b"\0")),
            server(&address(b"server")),
            server(&address(b"serve")),
            server(&Address::new(HostAddress::new(2), b"server")),
            peers(&address(b"ab"), &address(b"c")),
            peers(&address(b"a"), &address(b"bc")),
            peers(&address(b"server"), &address(b"server")),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name}");
            assert_eq!(name.to_string().len(), 34);
        }
        let crossed = peers(&address(b"c"), &address(b"ab"));
        assert_eq!(crossed, peers(&address(b"ab"), &address(b"c")));
    }
}
