//! The link between two processes: one socket, and the memory that both map.
//!
//! The VIs that connect two processes share a link. Each connection has a channel on it, a block of
//! [`BLOCK_BYTES`] that both ends map; the end that accepts a connection owns its block. A process
//! that is connected to itself has both ends of such a link.
//!
//! ```text
//!   socket    Close, Kick, Event, ...; its end is the end of the link
//!   chunks    64 blocks each, made by either end when it needs more, never given back
//!   pools     4 MiB a direction, of which only the touched pages exist
//!   notices   behind the pools: which channels have news, see `notice`
//!   doorbells a page of either process
//!   trusted links only: segments of user memory, region tables
//! ```
//!
//! A link dies with the peer's process, with its socket, or with the first message that no peer
//! sends. Its VIs are told; its memory stays mapped for as long as somebody holds the [`Link`].

mod channels;
mod incoming;
mod outgoing;
mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Poll;

use self::channels::{Attachment, Channels};
pub(crate) use self::incoming::Turn;
pub(crate) use self::outgoing::Flush;
use self::outgoing::Outgoing;
pub(crate) use self::segments::Mapping;
use self::segments::PeerSegments;
pub(crate) use self::segments::SEGMENTS_MAX;
use crate::channel::BLOCK_BYTES;
use crate::connect::Connectable;
use crate::deadline::Deadline;
use crate::host::Host;
use crate::notice::{GROUPS, NOTICE_BYTES, Notices};
use crate::pool::Chunks;
use crate::regions::remote::RemoteRegionTable;
use crate::segment::{Access, Segment};
use crate::service::locked;
use crate::shared::SegmentId;
pub(crate) use crate::wire::{CloseReason, LinkMessage};

/// Blocks of one shared chunk.
pub(crate) const CHUNK_BLOCKS: u32 = 64;

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = BLOCK_BYTES * CHUNK_BLOCKS as usize;

/// Bytes of the pool of one direction.
pub(crate) const POOL_BYTES: usize = 4 << 20;

/// Bytes of both pools and both notice areas, which are one segment.
pub(crate) const POOLS_BYTES: usize = 2 * (POOL_BYTES + NOTICE_BYTES);

// A bit of `Link::groups` each.
const _: () = assert!(GROUPS == u64::BITS);

/// Which end of a channel this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    /// The end that accepted the connection, and owns the block.
    First,
    /// The end that asked for it.
    Second,
}

/// Who is at the other end of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PeerProcess {
    /// Tells processes apart.
    pub(crate) nonce: [u8; 16],
    /// Its number in our namespace; 0 when it has none.
    pub(crate) pid: i32,
}

/// What both ends of a new link agree on.
pub(crate) struct LinkParts {
    /// Unlikely to be that of another link.
    pub(crate) id: u64,
    /// Said by the other end to prove that it is.
    pub(crate) key: u64,
    /// Whether this end made the shared memory.
    pub(crate) is_creator: bool,
    /// The other end.
    pub(crate) peer: PeerProcess,
    /// Whether user memory may be shared.
    pub(crate) trusted: bool,
    /// Whether the peer's private memory can be reached through the kernel.
    pub(crate) cma: bool,
    /// Both pools, the creator's outgoing one first, then the notice areas in the same order.
    pub(crate) pools: Mapping,
    /// The creator's first chunk.
    pub(crate) chunk: Mapping,
    /// The peer's doorbells.
    pub(crate) doorbells: Mapping,
    /// The socket of the handshake.
    pub(crate) socket: OwnedFd,
}

/// One end of the link between two processes.
pub(crate) struct Link {
    /// Which chunks of the outgoing pool are in use.
    pub(crate) chunks: Chunks,
    host: &'static Host,
    id: u64,
    key: u64,
    is_creator: bool,
    peer: PeerProcess,
    trusted: bool,
    cma: bool,
    alive: AtomicBool,
    /// What the service thread knows it by.
    token: AtomicU64,
    outgoing: Mutex<Outgoing>,
    pools: Mapping,
    /// Groups of the incoming notice area that completion queues have.
    groups: AtomicU64,
    doorbells: Mapping,
    memory: Mutex<ChannelMemory>,
    /// Told when `memory` or `regions` grow and when the link dies; goes with `memory`.
    changed: Condvar,
    channels: Mutex<Channels>,
    segments: PeerSegments,
    /// By slot: the segment announced last.
    announced: Box<[AtomicU32]>,
    announced_nics: Mutex<BTreeSet<u64>>,
}

#[derive(Default)]
struct ChannelMemory {
    own: Vec<Mapping>,
    /// `None` for a chunk whose descriptor was lost on the way.
    theirs: Vec<Option<Mapping>>,
    regions: BTreeMap<u64, Arc<RemoteRegionTable>>,
}

impl Link {
    /// A link over a socket whose handshake is over or about to be. It sends at once, and hears
    /// when the service thread knows it.
    pub(crate) fn new(host: &'static Host, parts: LinkParts) -> Self {
        let mut channels = Channels::new(u32::from(!parts.is_creator));
        let mut memory = ChannelMemory::default();
        if parts.is_creator {
            channels.add(CHUNK_BLOCKS);
            memory.own.push(parts.chunk);
        } else {
            memory.theirs.push(Some(parts.chunk));
        }
        Self {
            chunks: Chunks::default(),
            host,
            id: parts.id,
            key: parts.key,
            is_creator: parts.is_creator,
            peer: parts.peer,
            trusted: parts.trusted,
            cma: parts.cma,
            alive: AtomicBool::new(true),
            token: AtomicU64::new(0),
            outgoing: Mutex::new(Outgoing::over(parts.socket)),
            pools: parts.pools,
            groups: AtomicU64::new(0),
            doorbells: parts.doorbells,
            memory: Mutex::new(memory),
            changed: Condvar::new(),
            channels: Mutex::new(channels),
            segments: PeerSegments::new(),
            announced: std::iter::repeat_with(AtomicU32::default)
                .take(SEGMENTS_MAX)
                .collect(),
            announced_nics: Mutex::default(),
        }
    }

    /// The process that this end belongs to.
    pub(crate) const fn host(&self) -> &'static Host {
        self.host
    }

    /// What both ends call it.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// What the end that did not make it says to prove itself.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// Whether this end made the shared memory. Of the two ends in one process, this tells them
    /// apart.
    pub(crate) const fn is_creator(&self) -> bool {
        self.is_creator
    }

    /// The other end.
    pub(crate) const fn peer(&self) -> PeerProcess {
        self.peer
    }

    /// The peer's process number here, 0 if it has none.
    #[inline]
    pub(crate) const fn peer_pid(&self) -> i32 {
        self.peer.pid
    }

    /// Whether messages still arrive.
    #[inline]
    pub(crate) fn is_alive(&self) -> bool {
        // Acquire: pairs with the release in `kill`; what was told before it is seen.
        self.alive.load(Ordering::Acquire)
    }

    /// Whether both ends share memory of their users.
    #[inline]
    pub(crate) const fn trusted(&self) -> bool {
        self.trusted
    }

    /// Whether the peer's private memory can be read and written through the kernel.
    #[inline]
    pub(crate) const fn cma(&self) -> bool {
        self.cma
    }

    /// Where this end puts the bytes of long messages.
    #[inline]
    pub(crate) const fn outgoing_pool(&self) -> (NonNull<u8>, usize) {
        self.pool(self.is_creator)
    }

    /// Where the peer puts them.
    #[inline]
    pub(crate) const fn incoming_pool(&self) -> (NonNull<u8>, usize) {
        self.pool(!self.is_creator)
    }

    const fn pool(&self, first: bool) -> (NonNull<u8>, usize) {
        let offset = if first { 0 } else { POOL_BYTES };
        // SAFETY: whoever made the link checked that both pools are mapped.
        (unsafe { self.pools.base().add(offset) }, POOL_BYTES)
    }

    /// Where this end tells the peer's completion queues of messages.
    #[inline]
    pub(crate) const fn outgoing_notices(&self) -> Notices {
        self.notices(self.is_creator)
    }

    /// Where the peer tells those of this end.
    #[inline]
    pub(crate) const fn incoming_notices(&self) -> Notices {
        self.notices(!self.is_creator)
    }

    const fn notices(&self, first: bool) -> Notices {
        let offset = 2 * POOL_BYTES + if first { 0 } else { NOTICE_BYTES };
        // SAFETY: both areas lie behind the pools; whoever made the link checked that all of
        // [`POOLS_BYTES`] is mapped, and whoever uses them holds the link.
        unsafe { Notices::new(self.pools.base().add(offset)) }
    }

    /// A group of the incoming notice area, for one completion queue; `None` while others have all.
    pub(crate) fn take_group(&self) -> Option<u32> {
        let take = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let taken = self
            .groups
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take)
            .ok()?;
        Some(taken.trailing_ones())
    }

    /// Gives a group back; what the peer still tells in it is nobody's.
    pub(crate) fn give_back_group(&self, group: u32) {
        self.groups.fetch_and(!(1 << group), Ordering::Release);
    }

    /// The page by which threads of the peer are woken.
    #[inline]
    pub(crate) const fn peer_doorbells(&self) -> NonNull<u8> {
        self.doorbells.base()
    }

    /// Where a segment of the peer is mapped, and its size; `None` until its announcement was
    /// heard, and where memory is not shared. Lock-free. The addresses stay writable as long as the
    /// link is held, whatever the peer does.
    #[inline]
    pub(crate) fn peer_segment(&self, id: u32) -> Option<(NonNull<u8>, usize)> {
        self.segments.find(id)
    }

    /// Lets the peer map a segment of ours, once. Nothing on a link that is not trusted.
    #[inline]
    pub(crate) fn announce_segment(&self, id: u32) {
        if !self.trusted {
            return;
        }
        let announced = &self.announced[id as usize & (SEGMENTS_MAX - 1)];
        // Relaxed: the peer learns of it by message; at worst it is told twice.
        if announced.load(Ordering::Relaxed) == id {
            return;
        }
        let Some(segment) = SegmentId::from_bits(id).and_then(|id| self.host.shared().segment(id))
        else {
            return;
        };
        let Ok(descriptor) = segment.fd().try_clone_to_owned() else {
            return;
        };
        announced.store(id, Ordering::Relaxed);
        let length = segment.length() as u64;
        self.send_with(LinkMessage::Segment { id, length }, Some(descriptor));
    }

    /// Has the peer let go of a segment that was freed.
    pub(crate) fn retire_segment(&self, id: u32) {
        let announced = &self.announced[id as usize & (SEGMENTS_MAX - 1)];
        if self.trusted {
            let _ = announced.compare_exchange(id, 0, Ordering::Relaxed, Ordering::Relaxed);
            self.send(&LinkMessage::SegmentGone { id });
        }
    }

    /// Lets the peer read the region table of a NIC of ours, once.
    pub(crate) fn announce_regions(&self, nic: u64, table: BorrowedFd<'_>) {
        if !self.trusted || !locked(&self.announced_nics).insert(nic) {
            return;
        }
        match table.try_clone_to_owned() {
            Ok(table) => self.send_with(LinkMessage::Regions { nic }, Some(table)),
            Err(_) => {
                locked(&self.announced_nics).remove(&nic);
            }
        }
    }

    /// Has the peer let go of the region table of a NIC that was closed.
    pub(crate) fn retire_regions(&self, nic: u64) {
        if locked(&self.announced_nics).remove(&nic) {
            self.send(&LinkMessage::RegionsGone { nic });
        }
    }

    /// The region table of a NIC of the peer, waited for. Only on a trusted link one comes.
    pub(crate) fn wait_regions(
        &self,
        nic: u64,
        deadline: Deadline,
    ) -> Option<Arc<RemoteRegionTable>> {
        self.wait_memory(deadline, |memory| memory.regions.get(&nic).cloned())
    }

    /// The block of a channel of the peer, waited for: its chunk may still be on the way. Ready
    /// with nothing when its chunk could not be mapped.
    pub(crate) fn wait_block(&self, channel: u32, deadline: Deadline) -> Poll<Option<NonNull<u8>>> {
        let (chunk, offset) = place(channel);
        let mapped = |memory: &ChannelMemory| {
            let chunk = memory.theirs.get(chunk)?;
            Some(chunk.as_ref().map(|chunk| block(chunk, offset)))
        };
        self.wait_memory(deadline, mapped)
            .map_or(Poll::Pending, Poll::Ready)
    }

    fn wait_memory<T>(
        &self,
        deadline: Deadline,
        look: impl Fn(&ChannelMemory) -> Option<T>,
    ) -> Option<T> {
        let mut memory = locked(&self.memory);
        loop {
            if let Some(found) = look(&memory) {
                return Some(found);
            }
            if !self.is_alive() || deadline.has_passed() {
                return None;
            }
            memory = match deadline.remaining() {
                None => self
                    .changed
                    .wait(memory)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed
                        .wait_timeout(memory, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Takes a channel of ours for a connection, with its block full of zeros.
    ///
    /// # Errors
    ///
    /// What the system says when it has no memory; `BrokenPipe` on a dead link; `OutOfMemory` when
    /// the link has all the channels it can.
    pub(crate) fn allocate(&self, connection: u64) -> io::Result<(u32, NonNull<u8>)> {
        let (channel, was_used) = loop {
            {
                let mut channels = locked(&self.channels);
                // Under the lock: an idle link is not ended between this and that.
                if !self.is_alive() {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                if let Some(allocated) = channels.allocate(connection) {
                    break allocated;
                }
            }
            self.add_chunk()?;
        };
        let (chunk, offset) = place(channel);
        let memory = locked(&self.memory);
        let chunk = memory.own.get(chunk).ok_or(io::ErrorKind::NotFound)?;
        let block = block(chunk, offset);
        // A fresh block is all zeros, and the first one of a link may be in the peer's use already.
        if was_used {
            // SAFETY: it is inside the chunk, and neither end of its last connection uses it.
            unsafe { block.write_bytes(0, BLOCK_BYTES) };
        }
        Ok((channel, block))
    }

    fn add_chunk(&self) -> io::Result<()> {
        let mut memory = locked(&self.memory);
        let index = memory.own.len();
        if index >= CHUNKS_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let chunk = new_chunk()?;
        let descriptor = chunk.fd().try_clone_to_owned()?;
        memory.own.push(Mapping::of(&chunk)?);
        let index = index as u32;
        // Sent under the lock: chunks arrive in the order of their numbers.
        self.send_with(LinkMessage::Chunk { index }, Some(descriptor));
        drop(memory);
        locked(&self.channels).add(CHUNK_BLOCKS);
        Ok(())
    }

    /// Takes a channel of the peer's for a connection. False when that cannot be: the peer
    /// misbehaves.
    pub(crate) fn reserve(&self, channel: u32, connection: u64) -> bool {
        locked(&self.channels).reserve(channel, connection)
    }

    /// Gives an allocated or reserved channel its connected VI, and tells the VI what the peer did
    /// meanwhile: it is kicked once in any case. Called without a lock.
    pub(crate) fn attach(&self, channel: u32, connection: u64, vi: &Arc<dyn Connectable>) {
        let attachment = locked(&self.channels).attach(channel, connection, vi.clone());
        match attachment {
            Attachment::Done(events) => {
                for (code, operation) in events {
                    vi.peer_event(code, operation);
                }
                vi.kicked();
                // The link may have died between reservation and attachment.
                if !self.is_alive() {
                    self.tell_all(CloseReason::Died);
                }
            }
            Attachment::PeerLeft(reason) => {
                self.tell(channel, connection, vi.as_ref(), reason);
            }
            Attachment::Gone => vi.peer_closed(connection, CloseReason::Died),
        }
    }

    /// Leaves a channel and tells the peer. From here on the caller does not touch the block. Does
    /// nothing for a connection that has ended; takes locks for a moment and never waits.
    pub(crate) fn close(&self, channel: u32, connection: u64, reason: CloseReason) {
        if locked(&self.channels).leave(channel, connection) {
            self.send(&LinkMessage::Close {
                channel,
                connection,
                reason,
            });
        }
    }

    /// Ends a link that no connection uses. False when one does.
    pub(crate) fn end_if_idle(&self) -> bool {
        let channels = locked(&self.channels);
        if channels.in_use() > 0 {
            return false;
        }
        // Under the lock, so that no channel is allocated after the look.
        self.alive.store(false, Ordering::Release);
        drop(channels);
        self.kill(CloseReason::Disconnected);
        true
    }

    /// Channels in use.
    #[cfg(test)]
    pub(crate) fn channels_in_use(&self) -> usize {
        locked(&self.channels).in_use()
    }

    /// Sends a message, or leaves it to the service thread when the socket is full. Never waits. A
    /// kick that waits already is not doubled, and events that a peer does not read are dropped.
    pub(crate) fn send(&self, message: &LinkMessage) {
        self.send_with(*message, None);
    }

    /// What the service thread knows it by.
    pub(crate) fn set_token(&self, token: u64) {
        self.token.store(token, Ordering::Relaxed);
    }

    fn tell(&self, channel: u32, connection: u64, vi: &dyn Connectable, reason: CloseReason) {
        vi.peer_closed(connection, reason);
        locked(&self.channels).finish(channel, connection);
        self.send(&LinkMessage::CloseAck {
            channel,
            connection,
        });
    }

    /// Ends the link and tells its VIs. Service thread, or whoever closes an idle link.
    pub(crate) fn kill(&self, reason: CloseReason) {
        // Release: pairs with the acquire in `is_alive`.
        self.alive.store(false, Ordering::Release);
        let outgoing = std::mem::take(&mut *locked(&self.outgoing));
        if let Some(socket) = outgoing.socket {
            // The peer hears it although somebody may still hold the descriptor.
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        }
        // Taken, so that a waiter is not between its look and its sleep.
        drop(locked(&self.memory));
        self.changed.notify_all();
        self.tell_all(reason);
    }

    fn tell_all(&self, reason: CloseReason) {
        let attached = locked(&self.channels).clear();
        for (connection, vi) in attached {
            vi.peer_closed(connection, reason);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("alive", &self.is_alive())
            .finish_non_exhaustive()
    }
}

/// A chunk of channels, to be sent to the peer.
pub(crate) fn new_chunk() -> io::Result<Segment> {
    Segment::create("viaduct-channels", CHUNK_BYTES)
}

/// Memory of the peer, with all its pages checked to be there for good.
pub(crate) fn map_peer(descriptor: OwnedFd, length: usize) -> io::Result<Mapping> {
    Mapping::of(&Segment::map(descriptor, length, Access::ReadWrite)?)
}

/// Chunk and offset of a channel's block.
const fn place(channel: u32) -> (usize, usize) {
    let index = channel >> 1;
    let offset = (index % CHUNK_BLOCKS) as usize * BLOCK_BYTES;
    ((index / CHUNK_BLOCKS) as usize, offset)
}

fn block(chunk: &Mapping, offset: usize) -> NonNull<u8> {
    debug_assert!(offset + BLOCK_BYTES <= chunk.length());
    // SAFETY: chunks are mapped in full, and `place` gives offsets of blocks inside.
    unsafe { chunk.base().add(offset) }
}

/// Chunks that one end makes at most: 131,072 channels.
const CHUNKS_MAX: usize = 2048;
