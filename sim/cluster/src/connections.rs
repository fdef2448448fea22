//! A process's connections: one VI for each peer.

use viaduct_core::ViId;
use viaduct_engine::{Time, prefetch};

use crate::host::Process;
use crate::message::MessageId;
use crate::programs::guest::Guests;
use crate::programs::{OF_PROGRAM, Programs};

/// Up to this many connections are searched in turn; more are kept in an index.
const SCANNED_MAX: usize = 32;

/// So many peers are compared at once.
const GROUP: usize = 4;

/// Fills a group, and stands for a connection that is gone; the number of no process.
const NOBODY: u32 = u32::MAX;

/// A list of so many doubles from one; a longer one grows as lists do.
const DOUBLED_MAX: usize = 8;

/// So many connections are asked for beforehand.
const PREFETCHED_MAX: usize = 8;

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) vi: ViId,
    pub(crate) peer_vi: ViId,
    /// Messages whose doorbells the NIC has and whose descriptors wait to be read.
    pub(crate) first_waiting: MessageId,
    pub(crate) last_waiting: MessageId,
    /// Messages whose descriptors were read and whose data waits for that before, in order.
    pub(crate) first_fetched: MessageId,
    pub(crate) last_fetched: MessageId,
    /// Messages whose data moves.
    pub(crate) moving: u32,
    /// Messages in the queue of an engine that is held by each, or moving by it.
    pub(crate) held: u32,
    /// When the data of the last of its messages may begin to move.
    pub(crate) last_begin: Time,
    /// When the last of its messages arrives, of adapters whose steps differ in length.
    pub(crate) last_arrival: Time,
    /// When the last of them is placed, its completion written.
    pub(crate) last_placed: Time,
    /// Sends that were complete, and not yet taken by the application, when the connection was last
    /// given back; see [`crate::idle`].
    pub(crate) unreaped: u32,
    /// Whether the descriptor stage has, or will take, a message of this VI.
    pub(crate) has_turn: bool,
    /// Whether receives are posted at the other end.
    pub(crate) is_peer_ready: bool,
    /// Whether a message found no descriptor free there when it began; see [`crate::direct`].
    pub(crate) has_late_heads: bool,
}

impl Connection {
    pub(crate) fn new(vi: ViId, peer_vi: ViId) -> Self {
        Self {
            vi,
            peer_vi,
            first_waiting: MessageId::NONE,
            last_waiting: MessageId::NONE,
            first_fetched: MessageId::NONE,
            last_fetched: MessageId::NONE,
            held: 0,
            last_begin: Time::ZERO,
            last_arrival: Time::ZERO,
            last_placed: Time::ZERO,
            moving: 0,
            unreaped: 0,
            has_turn: false,
            is_peer_ready: false,
            has_late_heads: false,
        }
    }

    /// Whether data of one more message may move beside what moves, of at most `most`; it is then
    /// among what moves.
    #[inline]
    pub(crate) fn may_move(&mut self, most: u32) -> bool {
        let may = self.moving < most;
        self.moving += u32::from(may);
        may
    }
}

/// The connection at a place of a process's list, or of a host's programs: of a cluster, with what
/// else it has left to be borrowed.
macro_rules! connection {
    ($cluster:ident, $process:expr, $place:expr) => {
        $crate::connections::connection_of::<P>(
            &mut $cluster.processes,
            &mut $cluster.guests,
            $process,
            $place,
        )
    };
}
pub(crate) use connection;

#[inline(always)]
pub(crate) fn connection_of<'a, P: Programs>(
    processes: &'a mut [Process],
    guests: &'a mut Guests,
    process: u32,
    place: u32,
) -> &'a mut Connection {
    if P::EXIST && place & OF_PROGRAM != 0 {
        return &mut guests.hosts[process as usize]
            .at(place & !OF_PROGRAM)
            .connection;
    }
    processes[process as usize].connections.at(place)
}

/// All connections of a process. Places are stable until [`Connections::compact`].
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// The peer of each connection, four at a time. Beside the list, not in it: to look through a
    /// dozen peers is to read one cache line.
    peers: Vec<[u32; GROUP]>,
    list: Vec<Connection>,
    /// Places by peer, once there are many.
    #[expect(clippy::box_collection, reason = "most processes have few peers")]
    by_peer: Option<Box<Vec<u32>>>,
}

impl Connections {
    #[inline]
    pub(crate) fn place_of(&self, peer: u32) -> Option<u32> {
        let Some(by_peer) = &self.by_peer else {
            return scan(&self.peers, peer);
        };
        let found = by_peer.binary_search_by_key(&peer, |&place| peer_at(&self.peers, place));
        found.ok().map(|index| by_peer[index])
    }

    /// The peers, in the order of their places.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.list.len() as u32).map(|place| peer_at(&self.peers, place))
    }

    pub(crate) fn insert(&mut self, peer: u32, connection: Connection) -> u32 {
        let place = self.list.len() as u32;
        if self.list.capacity() == self.list.len() && self.list.len() < DOUBLED_MAX {
            // Most processes have few peers, and there may be a million processes.
            self.list.reserve_exact(self.list.len().max(1));
        }
        self.list.push(connection);
        match place as usize % GROUP {
            0 => {
                if self.peers.len() == self.peers.capacity() {
                    self.peers.reserve_exact(self.peers.len().max(1));
                }
                self.peers.push([peer, NOBODY, NOBODY, NOBODY]);
            }
            index => self.peers[place as usize / GROUP][index] = peer,
        }
        if self.list.len() > SCANNED_MAX {
            let peers = &self.peers;
            let by_peer = self.by_peer.get_or_insert_with(|| {
                let mut places: Vec<u32> = (0..place).collect();
                places.sort_unstable_by_key(|&place| peer_at(peers, place));
                Box::new(places)
            });
            let before = |&other: &u32| peer_at(peers, other) < peer;
            let index = by_peer.partition_point(before);
            by_peer.insert(index, place);
        }
        place
    }

    /// The connection at a place is gone. From then on the list can only be compacted.
    pub(crate) fn mark_gone(&mut self, place: u32) {
        self.peers[place as usize / GROUP][place as usize % GROUP] = NOBODY;
    }

    /// Closes gaps. By former place, the place now; that of one that is gone means nothing. Empty
    /// if nothing was gone.
    pub(crate) fn compact(&mut self) -> Vec<u32> {
        let peers: Vec<u32> = self.peers().collect();
        if !peers.contains(&NOBODY) {
            return Vec::new();
        }
        let former = core::mem::take(self);
        let mut places = Vec::with_capacity(peers.len());
        for (peer, connection) in peers.into_iter().zip(former.list) {
            places.push(self.list.len() as u32);
            if peer != NOBODY {
                self.insert(peer, connection);
            }
        }
        places
    }

    /// Asks for the first connections' memory; see [`crate::look_ahead`].
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.peers.as_ptr());
        for connection in self.list.iter().take(PREFETCHED_MAX) {
            prefetch(core::ptr::from_ref(connection));
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Connection {
        &self.list[place as usize]
    }

    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> &mut Connection {
        &mut self.list[place as usize]
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let indexed = self.by_peer.as_ref().map_or(0, |places| places.capacity());
        self.list.capacity() * size_of::<Connection>()
            + (self.peers.capacity() * GROUP + indexed) * size_of::<u32>()
    }
}

fn peer_at(peers: &[[u32; GROUP]], place: u32) -> u32 {
    peers[place as usize / GROUP][place as usize % GROUP]
}

/// The place of `peer` among few, each there once.
#[inline]
fn scan(peers: &[[u32; GROUP]], peer: u32) -> Option<u32> {
    // A group at once and no way out within: where a peer is found is hard to predict.
    for (group, places) in peers.iter().enumerate() {
        let mut found = 0;
        for (index, &other) in (1..).zip(places) {
            found |= if other == peer { index } else { 0 };
        }
        if found > 0 {
            return Some((group * GROUP) as u32 + found - 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use viaduct_core::ViId;

    #[test]
    fn a_peer_is_found_at_its_place_however_many_there_are() {
        let vi = ViId::from_bits(1 << 32).unwrap();
        for count in [1, 4, 11, 3 * SCANNED_MAX as u32] {
            let mut connections = Connections::default();
            // In neither order, and each once: 7919 is prime.
            let peers: Vec<u32> = (0..count).map(|n| 5 + n * 7919 % 8191).collect();
            for (place, &peer) in (0..).zip(&peers) {
                assert_eq!(connections.place_of(peer), None);
                assert_eq!(connections.insert(peer, Connection::new(vi, vi)), place);
            }
            for (place, &peer) in (0..).zip(&peers) {
                assert_eq!(connections.place_of(peer), Some(place), "of {count}");
            }
            assert_eq!(connections.place_of(4), None);
        }
    }
}
