//! What interfaces say to each other in one packet, and the networks that carry it.

use std::sync::Arc;

use viaduct_frames::transport::{Answer, Packet};
use viaduct_network::{PacketNetwork, Parcel, SharedLinks, Wormhole};
use viaduct_topology::Topology;

use crate::config::{Config, LinkModel, NetworkError};

/// What a packet of the network carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// A message; the number of its record, if the packet carries one.
    Message(Packet, Option<u32>),
    Answer(Answer),
    /// A message of an interface that has no transport.
    Plain(u32),
    /// One that its target refused, on its way back.
    Back(u32),
    /// A part of what others transfer: no interface takes it.
    Foreign,
}

impl Load {
    /// The packet that carries it.
    #[inline(always)]
    pub(crate) fn packed(self, from: u32, to: u32, bytes: u32) -> Flight {
        Flight {
            from,
            to,
            bytes,
            load: self,
        }
    }
}

/// A packet between two interfaces.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    from: u32,
    pub(crate) to: u32,
    bytes: u32,
    pub(crate) load: Load,
}

impl Flight {
    /// What it carries beside its header, of a part of a transfer.
    pub(crate) fn payload(&self, header_bytes: u32) -> u16 {
        u16::try_from(self.bytes - header_bytes).unwrap_or(u16::MAX)
    }
}

impl Parcel for Flight {
    #[inline]
    fn from(&self) -> u32 {
        self.from
    }

    #[inline]
    fn to(&self) -> u32 {
        self.to
    }

    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn route(&self) -> u16 {
        match self.load {
            Load::Message(packet, _) => packet.route.into(),
            Load::Answer(answer) => answer.route.into(),
            Load::Plain(_) | Load::Back(_) | Load::Foreign => 0,
        }
    }
}

/// A network that carries the packets of interfaces: which one is fixed when a cluster is compiled.
pub trait Links: PacketNetwork<Flight> + Sized + 'static {
    /// The network of a configuration, no host in it yet.
    ///
    /// # Errors
    ///
    /// When the configuration's [`LinkModel`] is another.
    fn of(config: &Config, topology: &Arc<Topology>) -> Result<Self, NetworkError>;
}

/// Packets hold their ways: [`LinkModel::Wormhole`].
pub type HeldLinks = Wormhole<Flight>;

/// Packets share links: [`LinkModel::Shared`].
pub type FairLinks = SharedLinks<Flight>;

impl Links for HeldLinks {
    fn of(config: &Config, topology: &Arc<Topology>) -> Result<Self, NetworkError> {
        match config.model {
            LinkModel::Wormhole => Ok(Self::new(topology, config.wormhole())),
            LinkModel::Shared(..) => Err(NetworkError::new(
                "packets share links in this configuration: run it on FairLinks, or have its model \
                 be LinkModel::Wormhole",
            )),
        }
    }
}

impl Links for FairLinks {
    fn of(config: &Config, topology: &Arc<Topology>) -> Result<Self, NetworkError> {
        let LinkModel::Shared(sharing, switching) = config.model else {
            return Err(NetworkError::new(
                "packets hold their ways in this configuration: run it on HeldLinks, or have its \
                 model be LinkModel::Shared",
            ));
        };
        let (links, switch) = config.shared(sharing, switching);
        let speeds = config.wormhole();
        Ok(Self::new(
            topology,
            &links,
            switch,
            speeds.receive_buffers,
            speeds.ways_max,
        ))
    }
}
