//! A VI as its completion queues see it.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::Queue;

use super::Vi;
use crate::channel::{Watch, prefetch_line};
use crate::completion_queue::CompletionQueue;
use crate::copy::prefetch_line_to_write;
use crate::handle::Slot;
use crate::receive::Look;

/// What a completion queue found at a VI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum News {
    /// So many slots were dealt with.
    Slots(u32),
    /// The connection is to be broken, by [`Vi::break_source`].
    Broken,
}

impl Vi {
    pub(super) fn set_queues(&self, queues: [Option<&'static Slot<CompletionQueue>>; 2]) {
        for (place, queue) in self.queues.iter().zip(queues) {
            let queue = queue.map_or(ptr::null_mut(), |queue| ptr::from_ref(queue).cast_mut());
            place.store(queue, Ordering::Release);
        }
    }

    fn queue(&self, which: usize) -> Option<&'static Slot<CompletionQueue>> {
        let queue = self.queues[which].load(Ordering::Acquire);
        // SAFETY: null, or a slot, which is never freed.
        unsafe { queue.cast_const().as_ref() }
    }

    /// The completion queue that looks for what the VI receives.
    pub(super) fn looking_queue(&self) -> Option<&'static Slot<CompletionQueue>> {
        super::looking_queue([self.queue(0), self.queue(1)])
    }

    /// Its place among the sources of a completion queue, under the lock of which it is used.
    pub(crate) const fn source(&self) -> &AtomicU32 {
        &self.source
    }

    /// Asks for what a look reads first.
    #[inline]
    pub(crate) fn prefetch_receive(&self) {
        let receive = ptr::from_ref(&self.receive).cast::<u8>();
        for line in 0..size_of_val(&self.receive) / 64 {
            prefetch_line(receive.wrapping_add(64 * line));
        }
    }

    /// Asks for what an answer writes first.
    #[inline]
    pub(crate) fn prefetch_send(&self) {
        prefetch_line_to_write(self.next_slot.load(Ordering::Relaxed));
        let send = ptr::from_ref(&self.send).cast::<u8>();
        for line in 0..size_of_val(&self.send) / 64 {
            prefetch_line(send.wrapping_add(64 * line));
        }
    }

    /// Deals with some slots of a connection, for the completion queue; `watch` becomes that of the
    /// slot after.
    #[inline]
    pub(crate) fn look_as_source(
        &self,
        handle: u64,
        connection: u64,
        limit: u32,
        watch: &mut Watch,
    ) -> News {
        let mut receive = self.receive.lock();
        if receive.side.handle != handle || receive.connection() != Some(connection) {
            return News::Slots(0);
        }
        let mut found = 0;
        while found < limit {
            match receive.look(&self.credit) {
                Look::Nothing => break,
                Look::Dealt => found += 1,
                Look::Breaks | Look::Garbage => return News::Broken,
            }
        }
        if let Some(incoming) = &receive.incoming {
            *watch = incoming.watch();
        }
        News::Slots(found)
    }

    /// Breaks a connection as [`News::Broken`] says. Called without a lock.
    #[cold]
    pub(crate) fn break_source(&self, handle: u64, connection: u64) {
        self.break_connection(handle, Some(connection), Queue::Receive);
    }

    /// Has the peer tell the completion queue of what it sends. False when the connection is over.
    pub(crate) fn set_tripwire(&self, handle: u64, connection: u64, tripwire: u32) -> bool {
        let receive = self.receive.lock();
        let Some(incoming) = &receive.incoming else {
            return false;
        };
        if receive.side.handle != handle || incoming.connection != connection {
            return false;
        }
        let word = incoming.direction.tripwire();
        word.store(tripwire, Ordering::Relaxed);
        true
    }

    /// Has the completion queues push sends that wait for the peer.
    #[cold]
    pub(super) fn list_waiting(&'static self, slot: &'static Slot<Self>, handle: u64) {
        let queues = [self.queue(0), self.queue(1)];
        for (which, queue) in queues.into_iter().enumerate() {
            let is_second = which == 1
                && queues[0]
                    .is_some_and(|first| queue.is_some_and(|second| ptr::eq(first, second)));
            if let Some(queue) = queue
                && !is_second
                && self.listed[which].swap(handle, Ordering::SeqCst) != handle
            {
                queue.object.list_waiting(slot, handle, which);
            }
        }
    }

    /// Pushes sends that wait, for a completion queue; whether it is to do so again.
    pub(crate) fn push_listed(&self, handle: u64, which: usize) -> bool {
        if self.is_waiting.load(Ordering::Relaxed) && self.push_sends(handle) {
            return true;
        }
        let listed = &self.listed[which];
        if listed
            .compare_exchange(handle, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            // Another VI lives here now, and is listed under its own handle.
            return false;
        }
        // A send that began to wait meanwhile found the VI listed.
        self.is_waiting.load(Ordering::SeqCst) && listed.swap(handle, Ordering::SeqCst) != handle
    }
}
