//! What two NICs say to each other to connect.

use alloc::vec::Vec;

use crate::address::{Address, HostAddress};
use crate::ids::{ConnectionNumber, ViId};
use crate::via::attributes::RemoteViAttributes;
use crate::via::status::Status;

/// A message of connection management that a driver must carry to another host.
///
/// The driver carries these reliably and, between two hosts, in order; when it cannot, it tells
/// both NICs through `handle_host_unreachable`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Transmit {
    /// Where to.
    pub to: HostAddress,
    /// What.
    pub message: ConnectionMessage,
}

/// What one NIC says to another about connections.
///
/// ```text
/// client                              server
///   | -- Request ---------------------> |   meets a wait: event; else NoMatch
///   | <------------ Accept / Reject --- |
///   | -- Withdraw --------------------> |   the client gave up before an answer
///
/// peer                                peer
///   | -- PeerRequest -----------------> |   kept until this peer asks too, or Withdraw
///   | <----------------- PeerRequest -- |   each is connected when it has asked and was asked
///
///   | <- Disconnect, Broken ----------> |   either end, once connected
///   | <- ReceivesPosted --------------> |   to an end with flow control
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConnectionMessage {
    /// A client asks for a connection.
    Request {
        /// The client's VI.
        vi: ViId,
        /// The client's number for the attempt, and for the connection it becomes.
        connection: ConnectionNumber,
        /// The client's own address.
        local: Address,
        /// Whom it asks for.
        remote: Address,
        /// The client's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// The server accepts.
    Accept {
        /// The client's number.
        to: ConnectionNumber,
        /// The server's VI.
        vi: ViId,
        /// The server's number for the connection.
        connection: ConnectionNumber,
        /// The server's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// The server rejects.
    Reject {
        /// The client's number.
        to: ConnectionNumber,
    },
    /// Nobody waits on the address asked for.
    NoMatch {
        /// The client's number.
        to: ConnectionNumber,
    },
    /// The client no longer waits for an answer.
    Withdraw {
        /// The client's number.
        connection: ConnectionNumber,
    },
    /// The consumer of the other end has disconnected.
    Disconnect {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
    },
    /// A peer asks another for a connection, as that one does or will do.
    PeerRequest {
        /// The sender's VI.
        vi: ViId,
        /// The sender's number for the attempt, and for the connection it becomes.
        connection: ConnectionNumber,
        /// The sender's own address.
        local: Address,
        /// Whom it asks for.
        remote: Address,
        /// The sender's VI attributes.
        attributes: RemoteViAttributes,
    },
    /// An error has broken the connection at the other end.
    Broken {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
        /// What the receiver's descriptors learn of it.
        reason: BreakReason,
    },
    /// Extension, flow control: the other end has posted receives.
    ReceivesPosted {
        /// The receiver's VI.
        vi: ViId,
        /// The receiver's number.
        connection: ConnectionNumber,
        /// Bytes that each holds, in the order of the posts.
        capacities: Vec<u32>,
    },
}

/// What an end that broke a connection tells the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakReason {
    /// An error that concerns none of the other end's descriptors.
    Local,
    /// The transport gave up: what was under way is lost.
    Transport,
    /// A message of the other end was refused, and its descriptor still waits.
    Refused {
        /// Which: messages of a connection are numbered from 0, in the order of their sending.
        message: u64,
        /// Its error bit.
        error: Status,
    },
}
