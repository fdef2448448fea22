//! What a link sends, and what waits to be sent.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::Link;
use crate::service::locked;
use crate::wire::{self, LinkMessage};

#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) socket: Option<Arc<OwnedFd>>,
    /// What did not fit into the socket, in order.
    queue: VecDeque<Queued>,
    /// Channels with a kick in the queue.
    kicks: BTreeSet<u32>,
}

pub(super) struct Queued {
    message: LinkMessage,
    descriptor: Option<OwnedFd>,
}

/// How far the queue of a link could be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flush {
    /// It is empty.
    Empty,
    /// The socket is full: wait until it is writable.
    Full,
    /// Too many descriptors are on their way: try again in a while.
    Later,
}

impl Outgoing {
    pub(super) fn over(socket: OwnedFd) -> Self {
        Self {
            socket: Some(Arc::new(socket)),
            ..Self::default()
        }
    }
}

impl Link {
    /// Sends a message, with the descriptor that it brings if it is of that kind.
    pub(super) fn send_with(&self, message: LinkMessage, descriptor: Option<OwnedFd>) {
        let mut outgoing = locked(&self.outgoing);
        let Some(socket) = &outgoing.socket else {
            return;
        };
        if outgoing.queue.is_empty() {
            match send_one(socket, &message, descriptor.as_ref()) {
                Ok(()) => return,
                Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {}
                // The service thread hears of the end by itself.
                Err(_) => return,
            }
        }
        match message {
            LinkMessage::Kick { channel } if !outgoing.kicks.insert(channel) => return,
            LinkMessage::Event { .. } if outgoing.queue.len() >= QUEUED_EVENTS_MAX => return,
            // A peer that asks for answers and takes none: the service thread hears of the end.
            _ if outgoing.queue.len() >= QUEUED_MAX => {
                if let Some(socket) = &outgoing.socket {
                    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
                }
                return;
            }
            _ => {}
        }
        outgoing.queue.push_back(Queued {
            message,
            descriptor,
        });
        let is_first = outgoing.queue.len() == 1;
        drop(outgoing);
        if is_first {
            self.host
                .service()
                .flush_later(self.token.load(Ordering::Relaxed));
        }
    }

    /// Sends what waits, as far as the socket takes it. Service thread.
    pub(crate) fn flush(&self) -> Flush {
        let mut outgoing = locked(&self.outgoing);
        let outgoing = &mut *outgoing;
        let Some(socket) = &outgoing.socket else {
            return Flush::Empty;
        };
        while let Some(Queued {
            message,
            descriptor,
        }) = outgoing.queue.front()
        {
            match send_one(socket, message, descriptor.as_ref()) {
                Ok(()) => {
                    if let LinkMessage::Kick { channel } = message {
                        outgoing.kicks.remove(channel);
                    }
                    outgoing.queue.pop_front();
                }
                Err(Errno::AGAIN) => return Flush::Full,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => return Flush::Later,
                Err(_) => {
                    outgoing.queue.clear();
                    outgoing.kicks.clear();
                }
            }
        }
        Flush::Empty
    }

    /// Whether something waits for [`Link::flush`].
    pub(crate) fn has_queued(&self) -> bool {
        !locked(&self.outgoing).queue.is_empty()
    }

    /// The socket, until the link dies.
    pub(crate) fn socket(&self) -> Option<Arc<OwnedFd>> {
        locked(&self.outgoing).socket.clone()
    }
}

fn send_one(
    socket: &OwnedFd,
    message: &LinkMessage,
    descriptor: Option<&OwnedFd>,
) -> Result<(), Errno> {
    let packet = message.packet();
    let descriptors = descriptor.map(AsFd::as_fd);
    wire::send(socket.as_fd(), packet.bytes(), descriptors.as_slice())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

/// Messages in a link's queue from which on events are dropped.
const QUEUED_EVENTS_MAX: usize = 1024;

/// Messages in a link's queue at which it ends: more than all channels of both ends ask for.
const QUEUED_MAX: usize = 1 << 19;
