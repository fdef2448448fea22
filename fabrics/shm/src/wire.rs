//! Messages of a link and of its making, and how they cross a socket.
//!
//! A message is one packet of a `SOCK_SEQPACKET` socket: a byte that tells its kind, then fields in
//! little-endian order, with no padding, and file descriptors beside it. What comes in was written
//! by a stranger: every field is read with its bounds, a number that means nothing makes the whole
//! message garbage, and so do bytes left over.

use viaduct_provider::via::{
    Address, Extensions, HostAddress, ReliabilityLevel, RemoteViAttributes,
};

pub(crate) use viaduct_processes::socket::{Credentials, credentials, poll, receive, send};

/// Bytes of the longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256;

/// Bytes of the longest discriminator.
pub(crate) const DISCRIMINATOR_BYTES_MAX: usize = 32;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum CloseReason {
    /// The peer disconnected.
    Disconnected = 0,
    /// An error broke the connection at the peer's end.
    Broken = 1,
    /// The peer's process is gone, or its socket.
    Died = 2,
    /// The peer sent what no peer sends.
    Misbehaved = 3,
}

/// What goes over a link that stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LinkMessage {
    /// The sender has left this channel and touches its block no more.
    Close {
        /// Which.
        channel: u32,
        /// Which of the connections that the channel carries in the course of time.
        connection: u64,
        /// Why.
        reason: CloseReason,
    },
    /// The answer to `Close`: the sender has left the channel, too.
    CloseAck {
        /// Which.
        channel: u32,
        /// Which of its connections.
        connection: u64,
    },
    /// There is something in the channel that waits for the receiver.
    Kick {
        /// Which.
        channel: u32,
    },
    /// Something the receiver's program is to be told.
    Event {
        /// Which.
        channel: u32,
        /// What, as the data path numbers it.
        code: u8,
        /// During which operation.
        operation: u32,
    },
    /// The descriptor beside this is a segment of user memory.
    Segment {
        /// What cookies call it.
        id: u32,
        /// Its size.
        length: u64,
    },
    /// The segment is given back: its memory can go.
    SegmentGone {
        /// Which.
        id: u32,
    },
    /// The descriptor beside this is the region table of a NIC.
    Regions {
        /// Whose.
        nic: u64,
    },
    /// The NIC is closed: its region table can go.
    RegionsGone {
        /// Whose.
        nic: u64,
    },
    /// The descriptor beside this holds the sender's next channels.
    Chunk {
        /// Which of the sender's chunks; they come in order.
        index: u32,
    },
}

/// What two processes tell each other until they have a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Handshake {
    /// Client: connect us.
    Request(Request),
    /// Server: a program has seen the request.
    Taken,
    /// Server: here is the channel. A new link brings pools, first chunk and doorbells.
    Accept(Accept),
    /// Client: here I am. A new link brings the doorbells.
    Established {
        /// What `Accept` said, to prove who got it.
        key: u64,
        /// Whether this side, too, trusts the other.
        trusted: bool,
    },
    /// Client: the link named in `Accept` does not stand any more.
    LinkGone,
    /// Server: no.
    Reject,
    /// Server: nobody waits for this address.
    NoMatch,
    /// Peer: the two ends cannot be connected; these are mine.
    Differs(RemoteViAttributes),
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process {
    /// Tells processes apart.
    pub(crate) nonce: [u8; 16],
    /// Where the nonce lies in that process, to find out whether its memory can be reached.
    pub(crate) nonce_address: u64,
    /// Whether it wants to share no memory of its user.
    pub(crate) protected: bool,
}

/// One end of a connection, as the other is told of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EndFacts {
    /// The VI's attributes.
    pub(crate) attributes: RemoteViAttributes,
    /// Its NIC.
    pub(crate) nic: u64,
    /// Its protection tag.
    pub(crate) tag: u32,
    /// Whether the NIC's region table comes over the link.
    pub(crate) regions: bool,
}

/// The first message of a handshake.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Request {
    /// Between equals, not to a server.
    pub(crate) peer_to_peer: bool,
    /// The client's process.
    pub(crate) process: Process,
    /// The client's VI.
    pub(crate) end: EndFacts,
    /// The client's address.
    pub(crate) local: Address,
    /// The address that it asks for.
    pub(crate) remote: Address,
}

/// The answer that makes the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Accept {
    /// The server's process.
    pub(crate) process: Process,
    /// The server's VI.
    pub(crate) end: EndFacts,
    /// The link, by its number.
    pub(crate) link: u64,
    /// Whether this socket becomes that link.
    pub(crate) new_link: bool,
    /// To be said in `Established`.
    pub(crate) key: u64,
    /// Whether the server trusts the client.
    pub(crate) trusted: bool,
    /// The channel on the link.
    pub(crate) channel: u32,
    /// Which of the channel's connections this is.
    pub(crate) connection: u64,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Garbage;

/// A message under construction, without an allocation.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: [u8; MESSAGE_BYTES_MAX],
    length: usize,
}

impl Packet {
    fn new(kind: u8) -> Self {
        let mut packet = Self {
            bytes: [0; MESSAGE_BYTES_MAX],
            length: 0,
        };
        packet.u8(kind);
        packet
    }

    /// What is sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn process(&mut self, process: &Process) {
        self.put(&process.nonce);
        self.u64(process.nonce_address);
        self.flag(process.protected);
    }

    fn attributes(&mut self, attributes: &RemoteViAttributes) {
        self.u8(attributes.reliability as u8);
        self.u32(attributes.max_transfer_bytes);
        self.flag(attributes.rdma_write);
        self.flag(attributes.rdma_read);
        self.u16(attributes.quality_of_service);
        self.flag(attributes.extensions.flow_control);
        self.flag(attributes.extensions.request_splitting);
    }

    fn end(&mut self, end: &EndFacts) {
        self.attributes(&end.attributes);
        self.u64(end.nic);
        self.u32(end.tag);
        self.flag(end.regions);
    }

    /// The discriminator's length was checked where the address came in.
    fn address(&mut self, address: &Address) {
        let bytes = address.discriminator.as_bytes();
        let bytes = &bytes[..bytes.len().min(DISCRIMINATOR_BYTES_MAX)];
        self.u64(address.host.get());
        self.u8(bytes.len() as u8);
        self.put(bytes);
    }
}

/// Fields of a message, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Garbage)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Garbage> {
        Ok(self.take::<1>()?[0])
    }

    fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    fn u16(&mut self) -> Result<u16, Garbage> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32, Garbage> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Garbage> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn process(&mut self) -> Result<Process, Garbage> {
        Ok(Process {
            nonce: self.take()?,
            nonce_address: self.u64()?,
            protected: self.flag()?,
        })
    }

    fn attributes(&mut self) -> Result<RemoteViAttributes, Garbage> {
        Ok(RemoteViAttributes {
            reliability: ReliabilityLevel::from_bits(u16::from(self.u8()?)).ok_or(Garbage)?,
            max_transfer_bytes: self.u32()?,
            rdma_write: self.flag()?,
            rdma_read: self.flag()?,
            quality_of_service: self.u16()?,
            extensions: Extensions {
                flow_control: self.flag()?,
                request_splitting: self.flag()?,
            },
        })
    }

    fn end(&mut self) -> Result<EndFacts, Garbage> {
        Ok(EndFacts {
            attributes: self.attributes()?,
            nic: self.u64()?,
            tag: self.u32()?,
            regions: self.flag()?,
        })
    }

    fn address(&mut self) -> Result<Address, Garbage> {
        let host = HostAddress::new(self.u64()?);
        let length = usize::from(self.u8()?);
        if length > DISCRIMINATOR_BYTES_MAX {
            return Err(Garbage);
        }
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Garbage)?;
        self.0 = rest;
        Ok(Address::new(host, bytes))
    }

    fn end_of<T>(&self, message: T) -> Result<T, Garbage> {
        if self.0.is_empty() {
            Ok(message)
        } else {
            Err(Garbage)
        }
    }
}

impl LinkMessage {
    /// As a packet.
    pub(crate) fn packet(&self) -> Packet {
        match *self {
            Self::Close {
                channel,
                connection,
                reason,
            } => {
                let mut packet = Packet::new(kind::CLOSE);
                packet.u32(channel);
                packet.u64(connection);
                packet.u8(reason as u8);
                packet
            }
            Self::CloseAck {
                channel,
                connection,
            } => {
                let mut packet = Packet::new(kind::CLOSE_ACK);
                packet.u32(channel);
                packet.u64(connection);
                packet
            }
            Self::Kick { channel } => {
                let mut packet = Packet::new(kind::KICK);
                packet.u32(channel);
                packet
            }
            Self::Event {
                channel,
                code,
                operation,
            } => {
                let mut packet = Packet::new(kind::EVENT);
                packet.u32(channel);
                packet.u8(code);
                packet.u32(operation);
                packet
            }
            Self::Segment { id, length } => {
                let mut packet = Packet::new(kind::SEGMENT);
                packet.u32(id);
                packet.u64(length);
                packet
            }
            Self::SegmentGone { id } => {
                let mut packet = Packet::new(kind::SEGMENT_GONE);
                packet.u32(id);
                packet
            }
            Self::Regions { nic } => {
                let mut packet = Packet::new(kind::REGIONS);
                packet.u64(nic);
                packet
            }
            Self::RegionsGone { nic } => {
                let mut packet = Packet::new(kind::REGIONS_GONE);
                packet.u64(nic);
                packet
            }
            Self::Chunk { index } => {
                let mut packet = Packet::new(kind::CHUNK);
                packet.u32(index);
                packet
            }
        }
    }

    /// From a packet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Garbage> {
        let mut fields = Fields(bytes);
        let message = match fields.u8()? {
            kind::CLOSE => Self::Close {
                channel: fields.u32()?,
                connection: fields.u64()?,
                reason: match fields.u8()? {
                    0 => CloseReason::Disconnected,
                    1 => CloseReason::Broken,
                    2 => CloseReason::Died,
                    3 => CloseReason::Misbehaved,
                    _ => return Err(Garbage),
                },
            },
            kind::CLOSE_ACK => Self::CloseAck {
                channel: fields.u32()?,
                connection: fields.u64()?,
            },
            kind::KICK => Self::Kick {
                channel: fields.u32()?,
            },
            kind::EVENT => Self::Event {
                channel: fields.u32()?,
                code: fields.u8()?,
                operation: fields.u32()?,
            },
            kind::SEGMENT => Self::Segment {
                id: fields.u32()?,
                length: fields.u64()?,
            },
            kind::SEGMENT_GONE => Self::SegmentGone { id: fields.u32()? },
            kind::REGIONS => Self::Regions { nic: fields.u64()? },
            kind::REGIONS_GONE => Self::RegionsGone { nic: fields.u64()? },
            kind::CHUNK => Self::Chunk {
                index: fields.u32()?,
            },
            _ => return Err(Garbage),
        };
        fields.end_of(message)
    }
}

impl Handshake {
    /// As a packet.
    pub(crate) fn packet(&self) -> Packet {
        match self {
            Self::Request(request) => {
                let mut packet = Packet::new(kind::REQUEST);
                packet.u32(VERSION);
                packet.flag(request.peer_to_peer);
                packet.process(&request.process);
                packet.end(&request.end);
                packet.address(&request.local);
                packet.address(&request.remote);
                packet
            }
            Self::Taken => Packet::new(kind::TAKEN),
            Self::Accept(accept) => {
                let mut packet = Packet::new(kind::ACCEPT);
                packet.process(&accept.process);
                packet.end(&accept.end);
                packet.u64(accept.link);
                packet.flag(accept.new_link);
                packet.u64(accept.key);
                packet.flag(accept.trusted);
                packet.u32(accept.channel);
                packet.u64(accept.connection);
                packet
            }
            Self::Established { key, trusted } => {
                let mut packet = Packet::new(kind::ESTABLISHED);
                packet.u64(*key);
                packet.flag(*trusted);
                packet
            }
            Self::LinkGone => Packet::new(kind::LINK_GONE),
            Self::Reject => Packet::new(kind::REJECT),
            Self::NoMatch => Packet::new(kind::NO_MATCH),
            Self::Differs(attributes) => {
                let mut packet = Packet::new(kind::DIFFERS);
                packet.attributes(attributes);
                packet
            }
        }
    }

    /// From a packet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Garbage> {
        let mut fields = Fields(bytes);
        let message = match fields.u8()? {
            kind::REQUEST => {
                if fields.u32()? != VERSION {
                    return Err(Garbage);
                }
                Self::Request(Request {
                    peer_to_peer: fields.flag()?,
                    process: fields.process()?,
                    end: fields.end()?,
                    local: fields.address()?,
                    remote: fields.address()?,
                })
            }
            kind::TAKEN => Self::Taken,
            kind::ACCEPT => Self::Accept(Accept {
                process: fields.process()?,
                end: fields.end()?,
                link: fields.u64()?,
                new_link: fields.flag()?,
                key: fields.u64()?,
                trusted: fields.flag()?,
                channel: fields.u32()?,
                connection: fields.u64()?,
            }),
            kind::ESTABLISHED => Self::Established {
                key: fields.u64()?,
                trusted: fields.flag()?,
            },
            kind::LINK_GONE => Self::LinkGone,
            kind::REJECT => Self::Reject,
            kind::NO_MATCH => Self::NoMatch,
            kind::DIFFERS => Self::Differs(fields.attributes()?),
            _ => return Err(Garbage),
        };
        fields.end_of(message)
    }
}

/// Changes whenever messages or shared layouts do. Part of every rendezvous name, too.
pub(crate) const VERSION: u32 = 3;

mod kind {
    pub(super) const CLOSE: u8 = 1;
    pub(super) const CLOSE_ACK: u8 = 2;
    pub(super) const KICK: u8 = 3;
    pub(super) const EVENT: u8 = 4;
    pub(super) const SEGMENT: u8 = 5;
    pub(super) const SEGMENT_GONE: u8 = 6;
    pub(super) const REGIONS: u8 = 7;
    pub(super) const CHUNK: u8 = 8;
    pub(super) const REGIONS_GONE: u8 = 9;
    pub(super) const REQUEST: u8 = 32;
    pub(super) const TAKEN: u8 = 33;
    pub(super) const ACCEPT: u8 = 34;
    pub(super) const ESTABLISHED: u8 = 35;
    pub(super) const LINK_GONE: u8 = 36;
    pub(super) const REJECT: u8 = 37;
    pub(super) const NO_MATCH: u8 = 38;
    pub(super) const DIFFERS: u8 = 39;
}

#[cfg(test)]
mod tests;
