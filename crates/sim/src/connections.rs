//! A process's connections: one VI for each peer.

use viaduct_engine::prefetch;
use viaduct_via::ViId;

use crate::message::MessageId;

/// Up to this many connections are searched in turn; more are kept in an index.
const SCANNED_MAX: usize = 8;

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// The process at the other end.
    pub(crate) peer: u32,
    pub(crate) vi: ViId,
    pub(crate) peer_vi: ViId,
    /// Messages whose doorbells the NIC has and whose descriptors wait to be read.
    pub(crate) first_waiting: MessageId,
    pub(crate) last_waiting: MessageId,
    /// The message whose descriptor was read and whose data waits for the one before.
    pub(crate) fetched: MessageId,
    /// Messages whose data moves.
    pub(crate) moving: u32,
    /// Whether the descriptor stage has, or will take, a message of this VI.
    pub(crate) has_turn: bool,
    /// Whether receives are posted at the other end.
    pub(crate) is_peer_ready: bool,
    /// Whether a message found no descriptor free there when it began; see [`crate::direct`].
    pub(crate) has_late_heads: bool,
}

impl Connection {
    pub(crate) fn new(peer: u32, vi: ViId, peer_vi: ViId) -> Self {
        Self {
            peer,
            vi,
            peer_vi,
            first_waiting: MessageId::NONE,
            last_waiting: MessageId::NONE,
            fetched: MessageId::NONE,
            moving: 0,
            has_turn: false,
            is_peer_ready: false,
            has_late_heads: false,
        }
    }
}

/// All connections of a process. Places are stable.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    list: Vec<Connection>,
    /// Places by peer, once there are many.
    by_peer: Vec<u32>,
}

impl Connections {
    pub(crate) fn place_of(&self, peer: u32) -> Option<u32> {
        if self.by_peer.is_empty() {
            let place = self
                .list
                .iter()
                .position(|connection| connection.peer == peer);
            return place.map(|place| place as u32);
        }
        let found = self
            .by_peer
            .binary_search_by_key(&peer, |&place| self.list[place as usize].peer);
        found.ok().map(|index| self.by_peer[index])
    }

    pub(crate) fn insert(&mut self, connection: Connection) -> u32 {
        let place = self.list.len() as u32;
        if self.list.capacity() == self.list.len() && self.list.len() < SCANNED_MAX {
            // Most processes have few peers, and there may be a million processes.
            self.list.reserve_exact(self.list.len().max(1));
        }
        self.list.push(connection);
        if self.list.len() > SCANNED_MAX {
            if self.by_peer.is_empty() {
                self.by_peer.extend(0..place);
                let list = &self.list;
                self.by_peer
                    .sort_unstable_by_key(|&place| list[place as usize].peer);
            }
            let list = &self.list;
            let before = |&other: &u32| list[other as usize].peer < connection.peer;
            let index = self.by_peer.partition_point(before);
            self.by_peer.insert(index, place);
        }
        place
    }

    /// Asks for the first connections' memory; see [`crate::look_ahead`].
    #[inline]
    pub(crate) fn prefetch(&self) {
        for connection in self.list.iter().take(SCANNED_MAX) {
            prefetch(core::ptr::from_ref(connection));
        }
    }

    pub(crate) fn at(&mut self, place: u32) -> &mut Connection {
        &mut self.list[place as usize]
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Connection>() + self.by_peer.capacity() * size_of::<u32>()
    }
}
