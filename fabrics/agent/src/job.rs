//! Calls of error and notify handlers that wait for their turn.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::task::Waker;

use viaduct_provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, Descriptor, DescriptorHandler,
    ErrorHandler, NicHandle, ViHandle,
};

/// A call of a handler that waits for its turn.
pub(crate) enum Job {
    /// The handler is looked up when its turn comes: it may have been replaced meanwhile.
    Error(AsynchronousError),
    /// A descriptor for whoever asked for the next.
    Descriptor {
        nic: NicHandle,
        vi: ViHandle,
        descriptor: Address,
        handler: DescriptorHandler,
    },
    Entry {
        nic: NicHandle,
        entry: CompletionEntry,
        handler: CompletionHandler,
    },
    /// Somebody who waits for a completion.
    Wake { nic: NicHandle, waker: Waker },
}

/// Puts a call behind others. The room doubles from one: most simulated hosts have one call at a
/// time, if any.
pub(crate) fn push(jobs: &mut VecDeque<Job>, job: Job) {
    if jobs.len() == jobs.capacity() {
        jobs.reserve_exact(jobs.len().max(1));
    }
    jobs.push_back(job);
}

/// A call of a handler, to be made without the lock.
pub struct Call {
    pub(crate) job: Job,
    /// The NIC's error handler, if the NIC is still open.
    pub(crate) open: Option<Option<ErrorHandler>>,
}

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Call")
            .field("nic", &self.job.nic())
            .finish_non_exhaustive()
    }
}

impl Call {
    /// Calls it, unless its NIC was closed meanwhile.
    pub fn run(self) {
        if let Some(error_handler) = self.open {
            self.job.run(error_handler);
        }
    }
}

/// The address of a descriptor, to be passed on.
pub(crate) struct Address(NonNull<Descriptor>);

impl From<NonNull<Descriptor>> for Address {
    fn from(descriptor: NonNull<Descriptor>) -> Self {
        Self(descriptor)
    }
}

// SAFETY: the descriptor is told as an address; nothing is reached through it here.
unsafe impl Send for Address {}

impl Job {
    /// The NIC it is about.
    pub(crate) fn nic(&self) -> NicHandle {
        match self {
            Self::Error(error) => error.nic,
            Self::Descriptor { nic, .. } | Self::Entry { nic, .. } | Self::Wake { nic, .. } => *nic,
        }
    }

    /// Calls it.
    pub(crate) fn run(self, error_handler: Option<ErrorHandler>) {
        match self {
            Self::Error(error) => match error_handler {
                Some(handler) => handler(&error),
                None => log(&error),
            },
            Self::Descriptor {
                nic,
                vi,
                descriptor,
                handler,
            } => handler(nic, vi, descriptor.0),
            Self::Entry {
                nic,
                entry,
                handler,
            } => handler(nic, entry),
            Self::Wake { waker, .. } => waker.wake(),
        }
    }
}

/// The handler of a NIC that was given none.
fn log(error: &AsynchronousError) {
    let AsynchronousError { nic, vi, code, .. } = error;
    let vi = vi.map_or_else(String::new, |vi| format!(", VI {}", vi.bits()));
    eprintln!("viaduct: NIC {}{vi}: {code}", nic.bits());
}
