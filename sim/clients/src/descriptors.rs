//! Descriptors of clients that can be read while events wait: `poll` and `epoll` in a client look
//! at them as at any other.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_processes::{descriptor, socket};
use viaduct_programs::verbs::Signal;

/// Descriptors at which something has come since that was last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raised(Arc<Mutex<Vec<Arc<Descriptor>>>>);

impl Raised {
    /// Of a client on a host: its descriptor is the first of two sockets that are connected to each
    /// other, by its numbers for both.
    pub(crate) fn signal(
        &self,
        host: u32,
        process: i32,
        numbers: (u32, u32),
    ) -> io::Result<Box<Waiting>> {
        let descriptor = Descriptor {
            host,
            near: descriptor::duplicate(process, numbers.0)?,
            far: descriptor::duplicate(process, numbers.1)?,
            state: Mutex::default(),
        };
        Ok(Box::new(Waiting {
            descriptor: Arc::new(descriptor),
            raised: self.clone(),
        }))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn take(&self) -> Vec<Arc<Descriptor>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Descriptor>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends, as the client has them. What it does with them is its own affair: nothing here waits.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) host: u32,
    near: OwnedFd,
    far: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    events: u32,
    can_be_read: bool,
}

impl Descriptor {
    /// An interrupt has told the host of an event. It can be read from now on, and whoever looks
    /// for changes sees one; true unless the event was taken meanwhile.
    pub(crate) fn ring(&self) -> bool {
        let mut state = self.lock();
        if state.events == 0 {
            return false;
        }
        state.can_be_read = true;
        let _ = socket::send(self.far.as_fd(), &[0], &[]);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is told of events as they come and are taken.
#[derive(Debug)]
pub(crate) struct Waiting {
    descriptor: Arc<Descriptor>,
    raised: Raised,
}

impl Signal for Waiting {
    fn raise(&self) {
        self.descriptor.lock().events += 1;
        self.raised.lock().push(Arc::clone(&self.descriptor));
    }

    fn lower(&self) {
        let mut state = self.descriptor.lock();
        state.events = state.events.saturating_sub(1);
        if state.events == 0 && std::mem::take(&mut state.can_be_read) {
            // A socket has room for less.
            let mut bytes = [0_u8; 4096];
            let _ = socket::receive(self.descriptor.near.as_fd(), &mut bytes);
        }
    }
}
