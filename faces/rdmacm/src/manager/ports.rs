//! Port spaces: who listens at which address, over all processes of the machine.
//!
//! A port that is bound is a set of meeting points (`viaduct_processes`), one for each address that
//! it answers for, so that it is taken for others as long as its owner lives and free at once
//! after. A listener on the any-address has one for each address of the machine's interfaces, and
//! one for the any-address itself, by which it is found under every other address of this machine.
//!
//! Where meeting points are files of a directory, containers with the same loopback address may
//! share it. What is bound there to the loopback or the any-address is found under its own network
//! first, and under the bare address if nobody else has that.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use viaduct_processes::rendezvous::{Listener, Name, Place, digest};

use super::{Space, wire};
use crate::address;

/// Ports that are given to those who ask for any, as Linux does by default.
pub(super) const EPHEMERAL_FIRST: u16 = 32768;
pub(super) const EPHEMERAL_LAST: u16 = 60999;

/// How a port space and its places are found: of the environment, once.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) place: Place,
    /// Where several networks may share meeting points: which is ours.
    network: Option<Vec<u8>>,
}

impl Ports {
    pub(super) fn from_environment() -> Self {
        let place = Place::from_environment();
        let network = match place {
            // Those names are the network's own.
            Place::Abstract(_) => None,
            Place::Directory(_) => {
                let link = std::fs::read_link("/proc/self/ns/net");
                Some(link.map_or_else(
                    |_| Vec::new(),
                    |link| link.into_os_string().into_encoded_bytes(),
                ))
            }
        };
        Self { place, network }
    }

    /// Binds a port, at addresses beside its own as well; a port of 0 is none.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when it is taken.
    pub(super) fn bind(
        &self,
        space: Space,
        at: SocketAddr,
        beside: &[SocketAddr],
        is_one_family: bool,
    ) -> io::Result<Vec<Listener>> {
        let port = at.port();
        let mut required = vec![self.local_name(space, at)];
        required.extend(
            beside
                .iter()
                .map(|other| self.local_name(space, SocketAddr::new(other.ip(), port))),
        );
        let mut wanted = Vec::new();
        if self.network.is_some() && is_local_to_network(at.ip()) {
            wanted.push(name(space, at, &[]));
        }
        if at.ip().is_unspecified() {
            for mut interface in address::interfaces() {
                interface.set_port(port);
                let is_heard = match (at.ip(), interface.ip()) {
                    (IpAddr::V4(_), IpAddr::V6(_)) => false,
                    (IpAddr::V6(_), IpAddr::V4(_)) => !is_one_family,
                    _ => true,
                };
                if is_heard {
                    required.push(self.local_name(space, interface));
                }
            }
            let other: SocketAddr = (Ipv4Addr::UNSPECIFIED, port).into();
            if at.is_ipv6() && !is_one_family {
                required.push(self.local_name(space, other));
            }
        } else {
            // Whoever listens on all addresses has this one too.
            self.refuse_taken(space, (Ipv4Addr::UNSPECIFIED, port).into(), at)?;
            self.refuse_taken(space, (Ipv6Addr::UNSPECIFIED, port).into(), at)?;
        }
        let mut listeners = Vec::with_capacity(required.len());
        for name in required {
            listeners.push(Listener::bind(&self.place, name)?);
        }
        for name in wanted {
            match Listener::bind(&self.place, name) {
                Ok(listener) => listeners.push(listener),
                // Of another network.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listeners)
    }

    fn refuse_taken(&self, space: Space, any: SocketAddr, at: SocketAddr) -> io::Result<()> {
        // Loopback addresses are behind the any-address alone: there is no name for each.
        if !at.ip().is_loopback() || any.is_ipv4() != at.is_ipv4() {
            return Ok(());
        }
        let name = self.local_name(space, any);
        match Listener::bind(&self.place, name) {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Under which names an address is looked for, in this order.
    pub(super) fn names(&self, space: Space, to: SocketAddr) -> Vec<Name> {
        let port = to.port();
        let any4: SocketAddr = (Ipv4Addr::UNSPECIFIED, port).into();
        let any6: SocketAddr = (Ipv6Addr::UNSPECIFIED, port).into();
        let mut names = vec![self.local_name(space, to)];
        let any = if to.is_ipv4() {
            vec![any4, any6]
        } else {
            vec![any6]
        };
        names.extend(any.iter().map(|any| self.local_name(space, *any)));
        if self.network.is_some() {
            if is_local_to_network(to.ip()) {
                names.push(name(space, to, &[]));
            }
            names.extend(any.iter().map(|any| name(space, *any, &[])));
        }
        names
    }

    /// The name of an address in this network; of an address that others share, the name of all.
    fn local_name(&self, space: Space, at: SocketAddr) -> Name {
        match &self.network {
            Some(network) if is_local_to_network(at.ip()) => name(space, at, network),
            _ => name(space, at, &[]),
        }
    }
}

/// Whether every network has an address of that name.
fn is_local_to_network(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

fn name(space: Space, at: SocketAddr, network: &[u8]) -> Name {
    let (ip, scope) = match at {
        SocketAddr::V4(at) => (at.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(at) if at.ip().is_unicast_link_local() => (*at.ip(), at.scope_id()),
        SocketAddr::V6(at) => (*at.ip(), 0),
    };
    let parts: [&[u8]; 5] = [
        &space.code().to_le_bytes(),
        &ip.octets(),
        &at.port().to_le_bytes(),
        &scope.to_le_bytes(),
        network,
    ];
    Name::new(wire::VERSION.into(), 'c', digest(&parts))
}
