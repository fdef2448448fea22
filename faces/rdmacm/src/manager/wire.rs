//! What two connection managers write to each other: one message a packet.
//!
//! Whoever connects to a port's socket may be anybody: a packet is checked whole before anything of
//! it is used, and one that is not as it must be ends the connection that it came on, nothing else.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::calls::{datagram_status, reason};
use super::{Ece, Parameters, Quota, Side, Space};

/// Ahead of every message.
const MAGIC: [u8; 4] = *b"VRCM";

/// Changes with any message's form.
pub(super) const VERSION: u8 = 1;

/// No message is longer.
pub(super) const MESSAGE_BYTES_MAX: usize = 512;

/// A message of one manager to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// Asks whoever listens at an address for a connection, or for its datagram queue pair.
    Request(Box<Request>),
    /// The listener accepts.
    Response { side: Side, parameters: Parameters },
    /// The listener's datagram queue pair, or a status that says why there is none.
    Resolved {
        status: u32,
        side: Side,
        parameters: Parameters,
    },
    /// The response has arrived, and its receiver is ready.
    Ready,
    /// One side does not want the connection.
    Reject { reason: u32, private_data: Vec<u8> },
    /// One side ends the connection.
    Disconnect,
    /// The other side has seen that.
    Disconnected,
}

/// What a request says of its sender.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) space: Space,
    pub(super) is_datagram: bool,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) side: Side,
    pub(super) parameters: Parameters,
}

/// A packet that is no message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Malformed;

impl Message {
    /// Whether it refuses a request since its port is bound, and nobody listens there.
    pub(super) fn says_that_nobody_listens(&self) -> bool {
        match self {
            Self::Reject { reason, .. } => *reason == reason::NOBODY_LISTENS,
            Self::Resolved { status, .. } => *status == datagram_status::NOBODY_LISTENS,
            _ => false,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(MESSAGE_BYTES_MAX);
        packet.extend(MAGIC);
        packet.push(VERSION);
        match self {
            Self::Request(request) => {
                packet.push(1);
                packet.extend(request.space.code().to_le_bytes());
                packet.push(request.is_datagram.into());
                put_address(&mut packet, request.source);
                put_address(&mut packet, request.destination);
                put_side(&mut packet, &request.side);
                put_parameters(&mut packet, &request.parameters);
            }
            Self::Response { side, parameters } => {
                packet.push(2);
                put_side(&mut packet, side);
                put_parameters(&mut packet, parameters);
            }
            Self::Resolved {
                status,
                side,
                parameters,
            } => {
                packet.push(3);
                packet.extend(status.to_le_bytes());
                put_side(&mut packet, side);
                put_parameters(&mut packet, parameters);
            }
            Self::Ready => packet.push(4),
            Self::Reject {
                reason,
                private_data,
            } => {
                packet.push(5);
                packet.extend(reason.to_le_bytes());
                put_private_data(&mut packet, private_data);
            }
            Self::Disconnect => packet.push(6),
            Self::Disconnected => packet.push(7),
        }
        packet
    }

    pub(super) fn decode(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(packet);
        if reader.take::<4>()? != MAGIC || reader.byte()? != VERSION {
            return Err(Malformed);
        }
        let message = match reader.byte()? {
            1 => {
                let space = Space::from_code(u16::from_le_bytes(reader.take()?));
                let space = space.ok_or(Malformed)?;
                let is_datagram = reader.flag()?;
                let request = Request {
                    space,
                    is_datagram,
                    source: reader.address()?,
                    destination: reader.address()?,
                    side: reader.side()?,
                    parameters: reader.parameters(if is_datagram {
                        Quota::DATAGRAM_REQUEST
                    } else {
                        Quota::REQUEST
                    })?,
                };
                Self::Request(Box::new(request))
            }
            2 => Self::Response {
                side: reader.side()?,
                parameters: reader.parameters(Quota::RESPONSE)?,
            },
            3 => Self::Resolved {
                status: reader.word()?,
                side: reader.side()?,
                parameters: reader.parameters(Quota::DATAGRAM_RESPONSE)?,
            },
            4 => Self::Ready,
            5 => Self::Reject {
                reason: reader.word()?,
                private_data: reader.private_data(Quota::REJECT)?,
            },
            6 => Self::Disconnect,
            7 => Self::Disconnected,
            _ => return Err(Malformed),
        };
        if reader.0.is_empty() {
            Ok(message)
        } else {
            Err(Malformed)
        }
    }
}

fn put_address(packet: &mut Vec<u8>, address: SocketAddr) {
    let (is_v4, ip, scope) = match address {
        SocketAddr::V4(address) => (true, address.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(address) => (false, *address.ip(), address.scope_id()),
    };
    packet.push(is_v4.into());
    packet.extend(ip.octets());
    packet.extend(address.port().to_le_bytes());
    packet.extend(scope.to_le_bytes());
}

fn put_side(packet: &mut Vec<u8>, side: &Side) {
    packet.extend(side.gid);
    packet.extend(side.lid.to_le_bytes());
    packet.push(side.mtu);
    packet.extend(side.packet_number.to_le_bytes());
    packet.extend(side.queue_key.to_le_bytes());
}

fn put_parameters(packet: &mut Vec<u8>, parameters: &Parameters) {
    packet.extend(parameters.queue_pair.to_le_bytes());
    packet.extend([
        parameters.responder_resources,
        parameters.initiator_depth,
        parameters.flow_control,
        parameters.retry_count,
        parameters.rnr_retry_count,
        parameters.has_srq.into(),
    ]);
    packet.extend(parameters.ece.vendor.to_le_bytes());
    packet.extend(parameters.ece.options.to_le_bytes());
    put_private_data(packet, &parameters.private_data);
}

fn put_private_data(packet: &mut Vec<u8>, data: &[u8]) {
    packet.push(data.len().try_into().unwrap_or(u8::MAX));
    packet.extend(&data[..data.len().min(u8::MAX.into())]);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// A number of 24 bits: of a queue pair or of a packet.
    fn number(&mut self) -> Result<u32, Malformed> {
        match self.word()? {
            number @ 0..=0xff_ffff => Ok(number),
            _ => Err(Malformed),
        }
    }

    fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let is_v4 = self.flag()?;
        let ip = Ipv6Addr::from(self.take::<16>()?);
        let port = u16::from_le_bytes(self.take()?);
        let scope = self.word()?;
        if is_v4 {
            let ip = ip
                .to_ipv4_mapped()
                .filter(|_| scope == 0)
                .ok_or(Malformed)?;
            Ok(SocketAddr::new(IpAddr::V4(ip), port))
        } else {
            Ok(SocketAddrV6::new(ip, port, 0, scope).into())
        }
    }

    fn side(&mut self) -> Result<Side, Malformed> {
        let gid = self.take()?;
        let lid = u16::from_le_bytes(self.take()?);
        let mtu = self.byte()?;
        // What verbs.h calls IBV_MTU_256 to IBV_MTU_4096.
        if !(1..=5).contains(&mtu) {
            return Err(Malformed);
        }
        Ok(Side {
            gid,
            lid,
            mtu,
            packet_number: self.number()?,
            queue_key: self.word()?,
        })
    }

    fn parameters(&mut self, quota: Quota) -> Result<Parameters, Malformed> {
        let queue_pair = self.number()?;
        let responder_resources = self.byte()?;
        let initiator_depth = self.byte()?;
        let flow_control = self.byte()?;
        let retry_count = self.byte()?;
        let rnr_retry_count = self.byte()?;
        let has_srq = self.flag()?;
        // Numbers of three bits.
        if retry_count > 7 || rnr_retry_count > 7 {
            return Err(Malformed);
        }
        let ece = Ece {
            vendor: self.word()?,
            options: self.word()?,
        };
        Ok(Parameters {
            queue_pair,
            responder_resources,
            initiator_depth,
            flow_control,
            retry_count,
            rnr_retry_count,
            has_srq,
            ece,
            private_data: self.private_data(quota)?,
        })
    }

    fn private_data(&mut self, quota: Quota) -> Result<Vec<u8>, Malformed> {
        let bytes = usize::from(self.byte()?);
        if bytes > quota.bytes() || bytes > self.0.len() {
            return Err(Malformed);
        }
        let (data, rest) = self.0.split_at(bytes);
        self.0 = rest;
        Ok(data.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        Side {
            gid: [7; 16],
            lid: 3,
            mtu: 5,
            packet_number: 0x12_3456,
            queue_key: 0x0123_4567,
        }
    }

    fn parameters(bytes: usize) -> Parameters {
        Parameters {
            queue_pair: 0xab_cdef,
            responder_resources: 16,
            initiator_depth: 4,
            flow_control: 1,
            retry_count: 7,
            rnr_retry_count: 6,
            has_srq: true,
            ece: Ece {
                vendor: 1,
                options: 2,
            },
            private_data: (0..bytes).map(|byte| byte as u8).collect(),
        }
    }

    fn messages() -> Vec<Message> {
        let request = |is_datagram, bytes| {
            Message::Request(Box::new(Request {
                space: Space::Tcp,
                is_datagram,
                source: "127.0.0.1:40000".parse().unwrap(),
                destination: "[fe80::1%3]:7471".parse().unwrap(),
                side: side(),
                parameters: parameters(bytes),
            }))
        };
        vec![
            request(false, 56),
            request(true, 180),
            Message::Response {
                side: side(),
                parameters: parameters(196),
            },
            Message::Resolved {
                status: 2,
                side: side(),
                parameters: parameters(136),
            },
            Message::Ready,
            Message::Reject {
                reason: 28,
                private_data: vec![1; 148],
            },
            Message::Disconnect,
            Message::Disconnected,
        ]
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for message in messages() {
            let packet = message.encode();
            assert!(packet.len() <= MESSAGE_BYTES_MAX, "{}", packet.len());
            assert_eq!(Message::decode(&packet), Ok(message));
        }
    }

    #[test]
    fn packets_that_are_cut_or_too_long_are_refused() {
        for message in messages() {
            let mut packet = message.encode();
            for bytes in 0..packet.len() {
                assert_eq!(Message::decode(&packet[..bytes]), Err(Malformed), "{bytes}");
            }
            packet.push(0);
            assert_eq!(Message::decode(&packet), Err(Malformed));
        }
    }

    #[test]
    fn more_private_data_than_a_message_may_carry_is_refused() {
        for (message, most) in [(2, 196), (3, 136)] {
            let parameters = parameters(most + 1);
            let packet = match message {
                2 => Message::Response {
                    side: side(),
                    parameters,
                },
                _ => Message::Resolved {
                    status: 0,
                    side: side(),
                    parameters,
                },
            };
            assert_eq!(Message::decode(&packet.encode()), Err(Malformed));
        }
    }

    #[test]
    fn any_changed_byte_gives_a_message_or_a_refusal() {
        for message in messages() {
            let packet = message.encode();
            for index in 0..packet.len() {
                for value in [0, 1, 0x7f, 0xff, packet[index].wrapping_add(1)] {
                    let mut changed = packet.clone();
                    changed[index] = value;
                    if let Ok(message) = Message::decode(&changed) {
                        assert_eq!(message.encode(), changed);
                    }
                }
            }
        }
    }
}
