//! Addresses of queue pairs, as programs tell them each other.

use pyo3::prelude::*;
use viaduct_programs::verbs::{self, AddressAttributes, QueuePairAttributes};

use super::On;
use super::bytes;
use super::device::Device;

/// Where datagrams go.
pub(crate) type AnyHandle = On<verbs::AddressHandle, viaduct_rdma::AddressHandle>;

/// Bytes of an address.
pub(crate) const ADDRESS_BYTES: usize = 24;

/// By what a queue pair is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairAddress {
    pub(crate) gid: [u8; 16],
    pub(crate) number: u32,
    pub(crate) queue_key: u32,
}

impl PairAddress {
    pub(crate) fn to_bytes(self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..16].copy_from_slice(&self.gid);
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..].copy_from_slice(&self.queue_key.to_le_bytes());
        bytes
    }

    /// From what a program was told.
    pub(crate) fn from_token(token: &Bound<'_, PyAny>) -> PyResult<Self> {
        let what = "the address is what the peer's queue_pair.address()";
        let [gid @ .., n0, n1, n2, n3, k0, k1, k2, k3] =
            bytes::token::<ADDRESS_BYTES>(token, what)?;
        Ok(Self {
            gid,
            number: u32::from_le_bytes([n0, n1, n2, n3]),
            queue_key: u32::from_le_bytes([k0, k1, k2, k3]),
        })
    }

    /// Has these attributes lead there.
    pub(crate) const fn lead(&self, attributes: &mut QueuePairAttributes) {
        attributes.destination = self.number;
        attributes.address.route.destination_gid = self.gid;
    }

    /// The way there.
    pub(crate) fn handle(&self, device: &Device) -> verbs::Result<AnyHandle> {
        let mut attributes = AddressAttributes {
            is_global: true,
            port: 1,
            ..AddressAttributes::default()
        };
        attributes.route.destination_gid = self.gid;
        Ok(match device {
            On::Simulated(device) => {
                On::Simulated(device.domain.create_address_handle(&attributes)?)
            }
            On::Real(device) => On::Real(device.domain.create_address_handle(&attributes)?),
        })
    }
}
