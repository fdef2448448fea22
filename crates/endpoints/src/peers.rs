//! Other processes, and what waits to go to them.

use std::collections::{BTreeMap, VecDeque};

use viaduct_fabric::Buffer;
use viaduct_via::HostAddress;

use crate::identity::Identity;
use crate::wire::{self, Packet};

/// A name, resolved: which process, which of its endpoints, which life of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    pub(crate) peer: u32,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The own process, among the peers.
pub(crate) const SELF: u32 = 0;

/// Requests that may wait for one process, besides those that wait for a full endpoint.
pub(crate) const PENDING_MAX: usize = 64;

/// A message, as it goes over a VI.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) buffer: Buffer,
    pub(crate) length: u32,
}

impl Frame {
    pub(crate) fn packet(&self) -> Option<Packet> {
        wire::parse(self.buffer.get(..self.length as usize)?)
    }
}

/// Another process.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    pub(crate) host: HostAddress,
    pub(crate) connection: Option<usize>,
    /// What goes when there is a connection with room.
    pub(crate) pending: VecDeque<Frame>,
    /// What goes when an endpoint there, by its index, has room again.
    pub(crate) parked: BTreeMap<u32, VecDeque<Frame>>,
    /// The endpoint with room was told of before the message that found none came back.
    pub(crate) is_ready_early: bool,
    /// Offers found no room here.
    pub(crate) has_refused: bool,
    /// Whether somebody is about to connect, or it stands in the line of those to connect.
    pub(crate) is_wanted: bool,
    /// A connection was lost, or nobody answered: it has most likely died.
    pub(crate) is_doubtful: bool,
}

impl Peer {
    pub(crate) const fn new(identity: Identity, host: HostAddress) -> Self {
        Self {
            identity,
            host,
            connection: None,
            pending: VecDeque::new(),
            parked: BTreeMap::new(),
            is_ready_early: false,
            has_refused: false,
            is_wanted: false,
            is_doubtful: false,
        }
    }

    /// Has what was parked go with the rest: it will be judged again.
    pub(crate) fn unpark_all(&mut self) {
        for (_, mut frames) in std::mem::take(&mut self.parked) {
            self.pending.append(&mut frames);
        }
    }

    /// As [`Peer::unpark_all`], for one endpoint. Its messages go before others: they are older.
    pub(crate) fn unpark(&mut self, index: u32) {
        if let Some(mut frames) = self.parked.remove(&index) {
            frames.append(&mut self.pending);
            self.pending = frames;
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }
}
