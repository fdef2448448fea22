//! Memory of clients, which the kernel copies from and to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use viaduct_processes::cma;
use viaduct_programs::outside::{MemoryElsewhere, Owner};

/// The processes of clients, by the numbers of their owners.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    processes: Mutex<Vec<i32>>,
    /// Whose memory was written since that was last asked.
    written: Mutex<Vec<Owner>>,
}

impl Memories {
    /// A new client's memory; none if there are too many.
    pub(crate) fn add(&self, process: i32) -> Option<Owner> {
        let mut processes = self.lock();
        let number = u16::try_from(processes.len()).ok()?;
        if number >= Owner::MAX {
            return None;
        }
        processes.push(process);
        Some(Owner::new(number))
    }

    /// Whether memory of somebody was written since [`Memories::take_written`].
    pub(crate) fn is_written(&self) -> bool {
        !self.lock_written().is_empty()
    }

    /// Whose memory was written since this was last asked.
    pub(crate) fn take_written(&self) -> Vec<Owner> {
        std::mem::take(&mut *self.lock_written())
    }

    fn lock_written(&self) -> MutexGuard<'_, Vec<Owner>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self, owner: Owner) -> i32 {
        self.lock()[usize::from(owner.number())]
    }

    fn lock(&self) -> MutexGuard<'_, Vec<i32>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that unmaps what it has registered loses what comes, as adapters with pinned pages
/// write where nobody looks any more; so does one that has ended.
impl MemoryElsewhere for Memories {
    fn read(&self, owner: Owner, address: u64, into: &mut [u8]) {
        let near = (into.as_mut_ptr(), into.len());
        let far = (address, into.len() as u64);
        // SAFETY: the local range is this slice, which nobody else refers to.
        if unsafe { cma::read(self.process(owner), &[near], &[far]) }.is_err() {
            into.fill(0);
        }
    }

    fn write(&self, owner: Owner, address: u64, bytes: &[u8]) {
        let near = (bytes.as_ptr(), bytes.len());
        let far = (address, bytes.len() as u64);
        let mut written = self.lock_written();
        if written.last() != Some(&owner) {
            written.push(owner);
        }
        drop(written);
        // SAFETY: the local range is this slice.
        let _ = unsafe { cma::write(self.process(owner), &[near], &[far]) };
    }
}
