//! Events that wait for a program, behind a descriptor that it can poll.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::event::EventfdFlags;
use rustix::io::ReadWriteFlags;

use super::{EndpointNumber, Parameters, Result};
use crate::system;

/// What `enum rdma_cm_event_type` lists.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
pub(crate) enum EventKind {
    AddressResolved = 0,
    AddressError = 1,
    RouteResolved = 2,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    AddressInformationResolved = 16,
    AddressInformationError = 17,
    User = 18,
}

/// What comes with an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum EventParameters {
    None,
    Connection(Parameters),
    /// `queue_key` is the peer's.
    Datagram {
        parameters: Parameters,
        queue_key: u32,
    },
    /// What a program wrote itself.
    Argument(u64),
}

/// Something that happened to an endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Event {
    /// Whose it is; of a request, the listener.
    pub(crate) endpoint: EndpointNumber,
    /// By which the program's side knows that endpoint.
    pub(crate) cookie: usize,
    pub(crate) kind: EventKind,
    pub(crate) status: i32,
    pub(crate) parameters: EventParameters,
    /// Of a request: the endpoint that it made.
    pub(crate) newcomer: Option<EndpointNumber>,
}

/// Events in order. The world's lock is held by whoever uses it.
///
/// The descriptor holds a token for each event: who has read one finds an event, or a gap where one
/// has been withdrawn since.
#[derive(Debug)]
pub(crate) struct Channel {
    descriptor: OwnedFd,
    events: Mutex<VecDeque<Option<Event>>>,
}

impl Channel {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        Ok(Self {
            descriptor: rustix::event::eventfd(0, flags)?,
            events: Mutex::default(),
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    pub(super) fn push(&self, event: Event) {
        self.with(|events| events.push_back(Some(event)));
        system::count_up(&self.descriptor);
    }

    /// For a token that was read.
    pub(super) fn pop(&self) -> Option<Event> {
        self.with(VecDeque::pop_front).flatten()
    }

    /// Takes back events that nobody has seen yet.
    pub(super) fn withdraw(&self, is_meant: impl Fn(&Event) -> bool) -> Vec<Event> {
        self.with(|events| {
            let mut withdrawn = Vec::new();
            let mut index = 0;
            while index < events.len() {
                if !events[index].as_ref().is_some_and(&is_meant) {
                    index += 1;
                    continue;
                }
                withdrawn.extend(events[index].take());
                if self.take_token() {
                    events.remove(index);
                } else {
                    // Somebody has the last token in hand and will meet the gap.
                    index += 1;
                }
            }
            withdrawn
        })
    }

    /// Without waiting, whatever the program has made of the descriptor.
    fn take_token(&self) -> bool {
        let mut token = [0; 8];
        let mut buffer = [IoSliceMut::new(&mut token)];
        let flags = ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(&self.descriptor, &mut buffer, u64::MAX, flags).is_ok()
    }

    fn with<T>(&self, act: impl FnOnce(&mut VecDeque<Option<Event>>) -> T) -> T {
        let events = self.events.lock();
        act(&mut events.unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
