//! The connection manager of a process: what the kernel is to the original library.
//!
//! It knows endpoints (of the library's `rdma_cm_id`s, one each), the channels on which their
//! events wait, ports, and sockets to the managers of other processes, one for each connection. It
//! knows no verbs: what a connection needs of queue pairs comes as numbers and goes to the peer as
//! numbers.
//!
//! ```text
//!   functions/*  --  calls: state of an endpoint, messages out   \
//!                                                                  World, under one lock
//!   service thread  --  hear: messages in, ends of sockets, events /
//!   ports: meeting points of all processes       wire: the messages
//! ```
//!
//! # Decisions
//!
//! - **A socket for each connection** tells of a peer's death at once and by itself, and a peer
//!   that lies harms its own connection only.
//! - **An end is answered by the manager**, not by the program on the other side: whoever
//!   disconnects is told so even when nobody looks at the peer's channel. The original waits for
//!   that program.
//! - **Statuses and limits are those of RoCE** as Linux's kernel gives them: reasons of rejection,
//!   bytes of private data, and zeros behind it up to the most that a message carries.

mod calls;
mod channel;
mod hear;
mod ports;
mod wire;
mod world;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use calls::{Ends, random, reason};
pub(crate) use channel::{Channel, Event, EventKind, EventParameters};

use rustix::event::EventfdFlags;

use ports::Ports;
use world::World;

/// A range of ports of its own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Space {
    Ipoib,
    Tcp,
    Udp,
    InfiniBand,
}

impl Space {
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Ipoib => 0x0002,
            Self::Tcp => 0x0106,
            Self::Udp => 0x0111,
            Self::InfiniBand => 0x013f,
        }
    }

    pub(crate) const fn from_code(code: u16) -> Option<Self> {
        match code {
            0x0002 => Some(Self::Ipoib),
            0x0106 => Some(Self::Tcp),
            0x0111 => Some(Self::Udp),
            0x013f => Some(Self::InfiniBand),
            _ => None,
        }
    }
}

/// How much private data a message carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota(u8);

impl Quota {
    pub(crate) const REQUEST: Self = Self(56);
    pub(crate) const RESPONSE: Self = Self(196);
    pub(crate) const REJECT: Self = Self(148);
    pub(crate) const DATAGRAM_REQUEST: Self = Self(180);
    pub(crate) const DATAGRAM_RESPONSE: Self = Self(136);

    pub(crate) fn bytes(self) -> usize {
        self.0.into()
    }

    /// The data as a receiver sees it: with zeros up to the most.
    fn fill(self, data: &mut Vec<u8>) {
        data.resize(self.bytes(), 0);
    }
}

/// Enhanced connection establishment: what two adapters tell each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Ece {
    pub(crate) vendor: u32,
    pub(crate) options: u32,
}

/// What a program says of a connection, or is told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Parameters {
    pub(crate) queue_pair: u32,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) has_srq: bool,
    pub(crate) ece: Ece,
    pub(crate) private_data: Vec<u8>,
}

impl Parameters {
    /// As the other side sees them: what one answers is what the other may ask.
    fn seen_by_peer(mut self, quota: Quota) -> Self {
        std::mem::swap(&mut self.responder_resources, &mut self.initiator_depth);
        quota.fill(&mut self.private_data);
        self
    }
}

/// One end of a connection, as the other must know it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Side {
    pub(crate) gid: [u8; 16],
    pub(crate) lid: u16,
    /// Of its port, as verbs.h numbers them.
    pub(crate) mtu: u8,
    /// From which it counts its packets.
    pub(crate) packet_number: u32,
    pub(crate) queue_key: u32,
}

/// Names an endpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct EndpointNumber(u64);

impl EndpointNumber {
    /// No endpoint's.
    pub(crate) const NONE: Self = Self(0);
}

/// What a refused call says in errno.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Refusal(pub(crate) i32);

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(match error.kind() {
            io::ErrorKind::AddrInUse => libc::EADDRINUSE,
            io::ErrorKind::InvalidInput => libc::EINVAL,
            io::ErrorKind::NotFound => libc::ENOENT,
            io::ErrorKind::TimedOut => libc::ETIMEDOUT,
            io::ErrorKind::PermissionDenied => libc::EACCES,
            _ => libc::EIO,
        }))
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.raw_os_error())
    }
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// The manager of this process.
#[derive(Debug)]
pub(crate) struct Manager {
    world: Mutex<World>,
    ports: Ports,
    epoll: OwnedFd,
    wake: OwnedFd,
    /// Its process: a child has none of what its parent had.
    process: u32,
}

impl Manager {
    /// The manager of this process. The first call makes it; the first one in a child makes
    /// another, which knows nothing of what its parent had.
    ///
    /// # Errors
    ///
    /// What the system says when it has no descriptors left.
    pub(crate) fn of_process() -> Result<&'static Self> {
        static CURRENT: AtomicPtr<Manager> = AtomicPtr::new(std::ptr::null_mut());
        let process = std::process::id();
        loop {
            let current = CURRENT.load(Ordering::Acquire);
            // SAFETY: what is there was leaked below.
            match unsafe { current.as_ref() } {
                Some(manager) if manager.process == process => return Ok(manager),
                _ => {}
            }
            let made = Box::into_raw(Box::new(Self::new()?));
            let taken =
                CURRENT.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    fn new() -> Result<Self> {
        Ok(Self {
            world: Mutex::default(),
            ports: Ports::from_environment(),
            epoll: rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?,
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            process: std::process::id(),
        })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two addresses can be the ends of a connection.
fn are_of_one_family(one: SocketAddr, other: SocketAddr) -> bool {
    one.is_ipv4() == other.is_ipv4()
}
