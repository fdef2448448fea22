//! Connecting two VIs that one driver holds both ends of, without a message between their NICs.
//!
//! A driver of many NICs, such as a simulated cluster, would otherwise carry a request and an
//! acceptance in no time, and throw away all that client and server keep of them meanwhile.

use crate::address::HostAddress;
use crate::ids::{Peer, ViId};
use crate::via::attributes::RemoteViAttributes;
use crate::via::check;
use crate::via::error::ConnectError;
use crate::via::nic::Nic;

/// One end of a connection that is to be: what the other end has to know of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Introduction {
    end: Peer,
    attributes: RemoteViAttributes,
}

impl Introduction {
    /// The VI that is introduced.
    #[must_use]
    pub const fn vi(&self) -> ViId {
        self.end.vi
    }
}

impl Nic {
    /// Introduces an idle VI of this NIC, which is on `host`, for [`connect_to`](Self::connect_to)
    /// at the other end. The VI stays idle.
    ///
    /// # Errors
    /// No such VI, or a VI that is not idle.
    pub fn introduce(&mut self, host: HostAddress, vi: ViId) -> Result<Introduction, ConnectError> {
        let attributes = self.idle_vi(vi)?.attributes.for_peer();
        let connection = self.next_connection();
        Ok(Introduction {
            end: Peer {
                host,
                vi,
                connection,
            },
            attributes,
        })
    }

    /// Connects the VI of `own`, an introduction by this NIC, to that of `other`. The driver does
    /// the same at the other end before it carries anything. No event tells of it.
    ///
    /// # Errors
    /// No such VI, a VI that is not idle, attributes that differ, as for
    /// [`accept`](Self::accept).
    pub fn connect_to(
        &mut self,
        own: &Introduction,
        other: &Introduction,
    ) -> Result<(), ConnectError> {
        let vi = own.end.vi;
        let attributes = self.idle_vi(vi)?.attributes;
        check::ends_match(&attributes, &other.attributes)?;
        self.establish(vi, own.end.connection, other.end, other.attributes);
        self.announce_receives(vi);
        Ok(())
    }
}
