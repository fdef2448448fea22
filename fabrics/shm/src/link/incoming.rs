//! What a link hears, and does about it. Everything here was written by a stranger.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::channels::Departure;
use super::{CHUNK_BYTES, CHUNKS_MAX, Link, map_peer};
use crate::regions::remote::RemoteRegionTable;
use crate::service::locked;
use crate::wire::{self, CloseReason, LinkMessage};

/// What the service thread does next with a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Turn {
    /// There may be more to read.
    More,
    /// There is nothing more to read.
    Idle,
    /// The link is to be closed.
    Dead(CloseReason),
}

impl Link {
    /// Reads some messages and obeys. Service thread, without a lock.
    pub(crate) fn hear(&self, socket: &OwnedFd) -> Turn {
        let mut buffer = [0; wire::MESSAGE_BYTES_MAX];
        for _ in 0..MESSAGES_A_TURN {
            let received = match wire::receive(socket.as_fd(), &mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Idle,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Turn::Dead(CloseReason::Misbehaved);
                }
                Err(_) => return Turn::Dead(CloseReason::Died),
            };
            if received.length == 0 {
                return Turn::Dead(CloseReason::Died);
            }
            let Ok(message) = LinkMessage::parse(&buffer[..received.length]) else {
                return Turn::Dead(CloseReason::Misbehaved);
            };
            if let Err(reason) = self.obey(message, received.descriptors) {
                return Turn::Dead(reason);
            }
        }
        Turn::More
    }

    fn obey(&self, message: LinkMessage, descriptors: Vec<OwnedFd>) -> Result<(), CloseReason> {
        let brings_descriptor = matches!(
            message,
            LinkMessage::Segment { .. } | LinkMessage::Regions { .. } | LinkMessage::Chunk { .. }
        );
        // One may be lost on the way when this process has no room for it.
        if descriptors.len() > usize::from(brings_descriptor) {
            return Err(CloseReason::Misbehaved);
        }
        let descriptor = descriptors.into_iter().next();
        match message {
            LinkMessage::Close {
                channel,
                connection,
                reason,
            } => {
                let departure = locked(&self.channels).peer_left(channel, connection, reason);
                match departure {
                    Departure::Tell(vi) => self.tell(channel, connection, vi.as_ref(), reason),
                    Departure::Acknowledge => self.send(&LinkMessage::CloseAck {
                        channel,
                        connection,
                    }),
                    Departure::Nothing => {}
                }
            }
            LinkMessage::CloseAck {
                channel,
                connection,
            } => locked(&self.channels).acknowledged(channel, connection),
            LinkMessage::Kick { channel } => {
                let vi = locked(&self.channels).vi(channel);
                if let Some(vi) = vi {
                    vi.kicked();
                }
            }
            LinkMessage::Event {
                channel,
                code,
                operation,
            } => {
                let vi = locked(&self.channels).event(channel, code, operation);
                if let Some(vi) = vi {
                    vi.peer_event(code, operation);
                }
            }
            LinkMessage::Chunk { index } => self.add_peer_chunk(index, descriptor)?,
            _ if !self.trusted => return Err(CloseReason::Misbehaved),
            LinkMessage::Segment { id, length } => self.add_segment(id, length, descriptor)?,
            LinkMessage::SegmentGone { id } => self.segments.remove(id),
            LinkMessage::Regions { nic } => self.add_regions(nic, descriptor)?,
            LinkMessage::RegionsGone { nic } => {
                locked(&self.memory).regions.remove(&nic);
            }
        }
        Ok(())
    }

    fn add_peer_chunk(&self, index: u32, descriptor: Option<OwnedFd>) -> Result<(), CloseReason> {
        let chunk = mapped(descriptor, |descriptor| map_peer(descriptor, CHUNK_BYTES))?;
        let mut memory = locked(&self.memory);
        if index as usize != memory.theirs.len() || memory.theirs.len() >= CHUNKS_MAX {
            return Err(CloseReason::Misbehaved);
        }
        memory.theirs.push(chunk);
        self.changed.notify_all();
        Ok(())
    }

    fn add_segment(
        &self,
        id: u32,
        length: u64,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), CloseReason> {
        let length = usize::try_from(length).map_err(|_| CloseReason::Misbehaved)?;
        if let Some(mapping) = mapped(descriptor, |descriptor| map_peer(descriptor, length))? {
            self.segments.insert(id, mapping);
        }
        Ok(())
    }

    fn add_regions(&self, nic: u64, descriptor: Option<OwnedFd>) -> Result<(), CloseReason> {
        let table = mapped(descriptor, RemoteRegionTable::map)?;
        let mut memory = locked(&self.memory);
        if let Some(table) = table
            && memory.regions.len() < REGION_TABLES_MAX
        {
            memory.regions.insert(nic, Arc::new(table));
        }
        self.changed.notify_all();
        Ok(())
    }
}

/// What a descriptor is mapped as. `None` when it was lost on the way or the system has no more:
/// not the peer's fault, whose messages then come by another way.
fn mapped<T>(
    descriptor: Option<OwnedFd>,
    map: impl FnOnce(OwnedFd) -> io::Result<T>,
) -> Result<Option<T>, CloseReason> {
    match descriptor.map(map).transpose() {
        Ok(mapped) => Ok(mapped),
        Err(error) if error.raw_os_error().is_some() => Ok(None),
        Err(_) => Err(CloseReason::Misbehaved),
    }
}

/// Messages of one link that are obeyed before another link's turn.
const MESSAGES_A_TURN: usize = 64;

/// Region tables of one peer that are mapped at a time.
const REGION_TABLES_MAX: usize = 1024;
