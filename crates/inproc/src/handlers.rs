//! The provider's thread: it calls error and notify handlers, one after another, without the lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use viaduct_fabric::{
    AsynchronousError, CompletionEntry, CompletionHandler, Descriptor, DescriptorHandler,
    ErrorHandler, NicHandle, ViHandle,
};

use crate::shared::Shared;

/// A call of a handler that waits for its turn.
pub(crate) enum Job {
    /// The handler is looked up when its turn comes: it may have been replaced meanwhile.
    Error(AsynchronousError),
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
    pub(crate) fn nic(&self) -> NicHandle {
        match self {
            Self::Error(error) => error.nic,
            Self::Descriptor { nic, .. } | Self::Entry { nic, .. } => *nic,
        }
    }

    fn run(self, error_handler: Option<ErrorHandler>) {
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
        }
    }
}

/// The handler of a NIC that was given none.
fn log(error: &AsynchronousError) {
    let AsynchronousError { nic, vi, code, .. } = error;
    let vi = vi.map_or_else(String::new, |vi| format!(", VI {}", vi.bits()));
    eprintln!("viaduct: NIC {}{vi}: {code}", nic.bits());
}

/// Calls handlers until the fabric is closed.
pub(crate) fn work(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    loop {
        let Some(job) = state.jobs.pop_front() else {
            if state.is_closing {
                return;
            }
            state = shared.wait_for_job(state);
            continue;
        };
        if let Job::Error(error) = &job
            && let Some(vi) = error.vi
        {
            state.told.remove(&(vi, error.code));
        }
        // Calls for a NIC that was closed meanwhile are dropped with the handler's own data.
        let nic = job.nic();
        let open = state.nics.get(&nic).map(|nic| nic.error_handler.clone());
        state.running = open.is_some().then_some(nic);
        drop(state);
        if let Some(error_handler) = open {
            // A handler that panics has said so; the others go on.
            let _ = catch_unwind(AssertUnwindSafe(|| job.run(error_handler)));
        } else {
            drop(job);
        }
        state = shared.lock();
        state.running = None;
        shared.wake(&state);
    }
}
