//! Other processes, and what waits to go to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use viaduct_core::HostAddress;
use viaduct_provider::Buffer;

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

/// Messages that wait for one process, from which on its requests are put off: who takes nothing
/// and asks for more would else fill this process's memory with its replies.
pub(crate) const UNSENT_MAX: usize = 1024;

/// Peers from which on it is worth to look whether some are of no use any more.
const WORTH_A_LOOK: usize = 256;

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
    /// How often in a row nobody answered; a connection that was lost counts as once.
    pub(crate) absences: u32,
    /// Routes to it that programs have.
    pub(crate) routes: u32,
    /// Its requests that were taken in and have no reply yet.
    pub(crate) replies_due: u32,
    /// Endpoints here that its requests were put off from, at [`UNSENT_MAX`].
    pub(crate) put_off: BTreeSet<u32>,
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
            absences: 0,
            routes: 0,
            replies_due: 0,
            put_off: BTreeSet::new(),
        }
    }

    /// Whether anything leads to it, or waits for it, that it knows of itself.
    pub(crate) fn is_used(&self) -> bool {
        self.connection.is_some()
            || self.is_wanted
            || self.routes > 0
            || self.replies_due > 0
            || !self.pending.is_empty()
            || !self.parked.is_empty()
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

/// All other processes that something here has to do with, and the own one as [`SELF`].
///
/// A peer keeps its number as long as anything leads to it. The others are forgotten when there
/// are twice as many as were of use at the last look: names that were resolved once, and processes
/// that came and went, take no memory for good.
#[derive(Debug)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    by_identity: BTreeMap<(HostAddress, Identity), u32>,
    free: Vec<u32>,
    look_at: usize,
}

impl Peers {
    pub(crate) fn new(own: Peer) -> Self {
        Self {
            by_identity: BTreeMap::from([((own.host, own.identity), SELF)]),
            list: vec![own],
            free: Vec::new(),
            look_at: WORTH_A_LOOK,
        }
    }

    pub(crate) fn find(&self, host: HostAddress, identity: Identity) -> Option<u32> {
        self.by_identity.get(&(host, identity)).copied()
    }

    /// Whether the unused ones should be forgotten before one more is added.
    pub(crate) fn is_crowded(&self) -> bool {
        self.by_identity.len() >= self.look_at
    }

    /// Adds one that is not there.
    pub(crate) fn add(&mut self, host: HostAddress, identity: Identity) -> u32 {
        let peer = Peer::new(identity, host);
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = peer;
                number
            }
            None => {
                self.list.push(peer);
                self.list.len() as u32 - 1
            }
        };
        self.by_identity.insert((host, identity), number);
        number
    }

    /// Forgets all that are not used, by what they know themselves or by `others`.
    pub(crate) fn forget_unused(&mut self, others: &BTreeSet<u32>) {
        let Self {
            list,
            by_identity,
            free,
            look_at,
        } = self;
        by_identity.retain(|_, number| {
            let is_kept =
                *number == SELF || list[*number as usize].is_used() || others.contains(number);
            if !is_kept {
                free.push(*number);
            }
            is_kept
        });
        *look_at = WORTH_A_LOOK.max(2 * by_identity.len());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_identity.len()
    }

    /// All of them; those that were forgotten have nothing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.list.iter()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Peer> {
        self.list.get_mut(number as usize)
    }
}

impl Index<usize> for Peers {
    type Output = Peer;

    #[inline]
    fn index(&self, number: usize) -> &Peer {
        &self.list[number]
    }
}

impl IndexMut<usize> for Peers {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Peer {
        &mut self.list[number]
    }
}
