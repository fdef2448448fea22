//! Posting descriptors, and taking them back by a look, a wait or a handler.

use std::ptr::NonNull;
use std::task::Waker;
use std::time::Duration;

use viaduct_provider::via::{
    self, Completion, Completions, ErrorCode, MemoryHandle, Nic, PostError, Queue, ViId,
};
use viaduct_provider::{
    AsynchronousError, CONTROL_SEGMENT_BYTES, CompletionEntry, CompletionQueueHandle,
    DESCRIPTOR_ALIGNMENT, Descriptor, DescriptorHandler, Done, Error, Result, ReturnCode, Segment,
    ViHandle, Watched,
};

use crate::agent::{Agent, Posted, WorkQueue, no_vi};
use crate::device::Device;
use crate::elsewhere::Elsewhere;
use crate::job::{Job, push};
use crate::memory::{Brought, Place};
use crate::provider::AgentProvider;
use crate::runtime::{Runtime, Work};

impl<R: Runtime> AgentProvider<R> {
    // Always inlined, so that the queue is known.
    #[inline(always)]
    pub(crate) fn post(
        &self,
        (vi, queue): (ViHandle, Queue),
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        let address = descriptor.expose_provenance();
        let work = match queue {
            Queue::Send => Work::PostSend,
            Queue::Receive => Work::PostReceive,
        };
        self.runtime.perform(vi, work, |state, _| {
            let Agent {
                vis,
                devices,
                elsewhere,
                ..
            } = state;
            let owner = vis.get_mut(vi).ok_or_else(no_vi)?;
            let id = owner.id;
            let Device {
                nic, attributes, ..
            } = &mut devices[owner.device];
            let segments_max = attributes.max_segments_per_descriptor;
            let limit = attributes.max_descriptors_per_queue as usize;
            // A region that the VI may use is one of the VI's NIC handle.
            let room = nic.region(handle).and_then(|region| {
                let tag = nic.vi_tag_at(id, region)?;
                region.room_from(tag, address as u64).ok()
            });
            let room = room.unwrap_or(0);
            let lies_in = |bytes: usize| bytes as u64 <= room;
            let mut place = None;
            let mut brought = None;
            if address.is_multiple_of(DESCRIPTOR_ALIGNMENT) && lies_in(CONTROL_SEGMENT_BYTES) {
                // SAFETY: by the caller's contract; the control segment lies in memory that is
                // registered. The segments do too, or the place is not used.
                let there = unsafe { Place::new(address) };
                brought = Brought::from(there, elsewhere, room, segments_max);
                let near = brought.as_ref().map_or(there, Brought::place);
                let count = u32::from(near.segment_count());
                let bytes = CONTROL_SEGMENT_BYTES + count as usize * size_of::<Segment>();
                if count > segments_max || lies_in(bytes) {
                    place = Some((there, near));
                }
            }
            let Some((place, near)) = place else {
                return Err(state.refuse_descriptor(vi, queue, descriptor));
            };
            // Counted here: what is complete has left the semantics' queue and not the consumer's.
            let work = owner.queue(queue);
            if work.posted.len() >= limit {
                return Err(state.refuse_overrun(vi, limit));
            }
            // A call each, so that the descriptor is written where it stays.
            match near.load_simple(segments_max) {
                Some(value) => put(nic, (id, queue), value),
                None => put(nic, (id, queue), near.load(segments_max)),
            }?;
            drop(brought);
            place.store_posted(elsewhere);
            let is_followed = work.posted.len() > work.completed as usize;
            if is_followed
                && let Some(previous) = work.posted.back()
                && nic.region(previous.handle).is_some()
            {
                previous.place.store_next(elsewhere, place, handle);
            }
            // Doubling from one: most queues of simulated hosts hold a descriptor or two.
            if work.posted.len() == work.posted.capacity() {
                work.posted.reserve_exact(work.posted.len().max(1));
            }
            work.posted.push_back(Posted {
                place,
                handle,
                is_error: false,
            });
            Ok(())
        })
    }

    /// Takes the oldest descriptor of a work queue if it is complete
    /// ([`send_done`](viaduct_provider::Provider::send_done) and its twin). A loop of so
    /// many such calls, between which the program does nothing, is one call: what it finds, and
    /// when, is what that many would.
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    pub fn done(&self, vi: ViHandle, queue: Queue, looks: u64) -> Result<Done> {
        let watched = Watched::Vi(vi, queue);
        let found = self.runtime.poll(watched, looks, |state| {
            match state.vi(vi)?.queue(queue).take() {
                Done::NotDone => Ok(None),
                done => Ok(Some(done)),
            }
        })?;
        Ok(found.unwrap_or(Done::NotDone))
    }

    /// Takes the oldest entry of a completion queue
    /// ([`completion_done`](viaduct_provider::Provider::completion_done)); several calls in one, as
    /// [`AgentProvider::done`].
    ///
    /// # Errors
    ///
    /// `InvalidParameter`.
    pub fn entry_done(
        &self,
        queue: CompletionQueueHandle,
        looks: u64,
    ) -> Result<Option<CompletionEntry>> {
        let watched = Watched::Entries(queue);
        self.runtime
            .poll(watched, looks, |state| state.take_entry(queue))
    }

    pub(crate) fn wait(&self, vi: ViHandle, queue: Queue, limit: Option<Duration>) -> Result<Done> {
        let watched = Watched::Vi(vi, queue);
        let found = self.runtime.take(watched, limit, |state| {
            let work = state.vi(vi)?.queue(queue);
            work.check_unbound()?;
            Ok(match work.take() {
                Done::NotDone => None,
                done => Some(done),
            })
        })?;
        found.ok_or_else(|| {
            let reason = "no descriptor completed in the time given";
            Error::new(ReturnCode::Timeout, reason)
        })
    }

    pub(crate) fn notify(
        &self,
        vi: ViHandle,
        queue: Queue,
        handler: DescriptorHandler,
    ) -> Result<()> {
        self.runtime.expect(Watched::Vi(vi, queue));
        self.runtime.operate(Some(vi), |state, _| {
            let work = state.vi(vi)?.queue(queue);
            work.check_unbound()?;
            work.notifies.get_or_insert_default().push_back(handler);
            Ok(())
        })
    }
}

#[inline(always)]
fn put(nic: &mut Nic, (vi, queue): (ViId, Queue), value: via::Descriptor) -> PostResult {
    match queue {
        Queue::Send => nic.post_send(vi, value),
        Queue::Receive => nic.post_receive(vi, value),
    }
}

type PostResult = std::result::Result<(), PostError>;

impl Agent {
    /// A descriptor is posted that does not lie where it may: the error handler is told.
    #[cold]
    fn refuse_descriptor(
        &mut self,
        vi: ViHandle,
        queue: Queue,
        descriptor: *mut Descriptor,
    ) -> Error {
        let Some(nic) = self.vis.get(vi).map(|vi| vi.nic) else {
            return no_vi();
        };
        push(
            &mut self.jobs,
            Job::Error(AsynchronousError {
                nic,
                vi: Some(vi),
                completion_queue: None,
                descriptor: NonNull::new(descriptor),
                operation: queue as u32,
                resource: ErrorCode::PostDescriptor.resource(),
                code: ErrorCode::PostDescriptor,
            }),
        );
        Error::new(
            ReturnCode::InvalidParameter,
            "the descriptor must begin at a multiple of 64 and lie inside the region of its memory \
             handle, under the VI's protection tag",
        )
    }

    /// A descriptor is posted to a full queue: the error handler is told.
    #[cold]
    fn refuse_overrun(&mut self, vi: ViHandle, limit: usize) -> Error {
        self.tell(vi, ErrorCode::ViOverrun);
        Error::new(
            ReturnCode::Resource,
            format!("the work queue holds {limit} descriptors: take a completion first"),
        )
    }

    /// Has a waker woken by the next completion, unless there is one: then says so.
    pub(crate) fn watch(&mut self, watched: Watched, waker: &Waker) -> Result<bool> {
        let (is_there, watcher) = match watched {
            Watched::Vi(vi, queue) => {
                let work = self.vi(vi)?.queue(queue);
                work.check_unbound()?;
                (work.completed > 0, &mut work.watcher)
            }
            Watched::Entries(handle) => {
                let queue = self.completion_queue(handle)?;
                let (device, id) = (queue.device, queue.id);
                let is_there = self.devices[device].nic.has_entries(id);
                (is_there, &mut self.completion_queue(handle)?.watcher)
            }
        };
        if is_there {
            *watcher = None;
        } else if let Some(former) = watcher {
            former.clone_from(waker);
        } else {
            *watcher = Some(waker.clone());
        }
        Ok(is_there)
    }
}

impl WorkQueue {
    /// Whether somebody is to be told of completions.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.watcher.is_some() || self.has_notifies()
    }

    /// Whether handlers wait for completions.
    #[inline]
    pub(crate) fn has_notifies(&self) -> bool {
        let notifies = self.notifies.as_ref();
        notifies.is_some_and(|notifies| !notifies.is_empty())
    }

    /// The handler that has waited longest.
    pub(crate) fn next_notify(&mut self) -> Option<DescriptorHandler> {
        self.notifies.as_mut()?.pop_front()
    }

    /// Writes completions to their descriptors; `lose` is told of those that lie nowhere any more.
    // Always inlined, so that the queue is known.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        completions: &mut Completions<'_>,
        queue: Queue,
        memory: &Elsewhere,
        lose: &mut impl FnMut(Completion, Option<NonNull<Descriptor>>),
    ) {
        while completions.has(queue)
            && let Some(posted) = self.posted.get_mut(self.completed as usize)
            && let Some(completion) = completions.take(queue)
        {
            let is_there = completions.is_registered(posted.handle);
            posted.is_error = !is_there || completion.status.is_error();
            self.completed += 1;
            if is_there {
                let is_receive = queue == Queue::Receive;
                posted
                    .place
                    .store_completion(memory, &completion, is_receive);
            } else {
                lose(completion, posted.place.pointer());
            }
        }
    }

    /// The oldest descriptor, if it is complete.
    #[inline]
    pub(crate) fn pop_completed(&mut self) -> Option<Posted> {
        self.completed = self.completed.checked_sub(1)?;
        self.posted.pop_front()
    }

    #[inline]
    fn take(&mut self) -> Done {
        let Some(completed) = self.pop_completed() else {
            return if self.posted.is_empty() {
                Done::Empty
            } else {
                Done::NotDone
            };
        };
        match completed.place.pointer() {
            Some(descriptor) if completed.is_error => Done::Failed(descriptor),
            Some(descriptor) => Done::Complete(descriptor),
            None => Done::Empty,
        }
    }

    fn check_unbound(&self) -> Result<()> {
        if self.is_bound {
            return Err(Error::new(
                ReturnCode::InvalidParameter,
                "the work queue is bound to a completion queue: wait there",
            ));
        }
        Ok(())
    }
}
