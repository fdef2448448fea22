//! A work queue's descriptors, and the buffers that travel with them.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use viaduct_core::{MemoryHandle, Status};

use crate::buffer::Buffer;
use crate::completion::{CompletionError, Refused};
use crate::descriptor::{ControlSegment, Descriptor, Segment};
use crate::error::{Error, Result, ReturnCode};
use crate::mailbox::{Courier, Delivery, Mailbox};
use crate::provider::{DescriptorHandler, Done};

/// Descriptors of one queue in a ring, and for each posted one its buffer.
///
/// A queue completes in the order in which it was posted, so the oldest posted descriptor is the
/// next to come back. The descriptors themselves lie in a block that the VI owns.
pub(crate) struct WorkQueue {
    descriptors: NonNull<Descriptor>,
    slots: Slots,
    depth: u32,
    /// Of a count of descriptors, the bits that are a place in the ring.
    mask: u32,
    /// Descriptors ever posted, and ever taken back; both run over.
    posted: u32,
    taken: u32,
    handle: MemoryHandle,
    /// Whether a notify handler is out: it takes the next completion off the queue.
    is_awaited: bool,
    mailbox: Option<Arc<Mailbox<Completed>>>,
}

/// A buffer for each descriptor of a ring, empty where nothing is posted. Those of the shortest
/// rings lie in place: programs by the thousand have such.
enum Slots {
    Few([Buffer; 2]),
    Many(Box<[Buffer]>),
}

impl Slots {
    fn new(count: usize) -> Self {
        if count <= 2 {
            Self::Few([const { Buffer::empty() }; 2])
        } else {
            Self::Many((0..count).map(|_| Buffer::empty()).collect())
        }
    }
}

impl Deref for Slots {
    type Target = [Buffer];

    #[inline]
    fn deref(&self) -> &[Buffer] {
        match self {
            Self::Few(slots) => slots,
            Self::Many(slots) => slots,
        }
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Buffer] {
        match self {
            Self::Few(slots) => slots,
            Self::Many(slots) => slots,
        }
    }
}

// SAFETY: the ring is the only one that reaches descriptors it has not posted, and a fabric may be
// called from any thread.
unsafe impl Send for WorkQueue {}
// SAFETY: nothing is reached through a shared queue.
unsafe impl Sync for WorkQueue {}

/// A descriptor that a handler was called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed(NonNull<Descriptor>);

// SAFETY: it is compared, not followed.
unsafe impl Send for Completed {}

/// A descriptor that came back: its buffer and what the fabric wrote.
pub(crate) struct Taken {
    pub(crate) buffer: Buffer,
    pub(crate) length: u32,
    pub(crate) immediate: u32,
    pub(crate) status: Status,
}

impl WorkQueue {
    /// How many descriptors lie in a ring of `depth`.
    pub(crate) const fn ring_length(depth: u32) -> usize {
        (depth as usize).next_power_of_two()
    }

    /// # Safety
    ///
    /// `descriptors` points at [`WorkQueue::ring_length`] descriptors in the region of `handle`,
    /// which stay as long as the queue and are used by nothing else.
    pub(crate) unsafe fn new(
        descriptors: NonNull<Descriptor>,
        depth: u32,
        handle: MemoryHandle,
    ) -> Self {
        Self {
            descriptors,
            slots: Slots::new(Self::ring_length(depth)),
            depth,
            mask: Self::ring_length(depth) as u32 - 1,
            posted: 0,
            taken: 0,
            handle,
            is_awaited: false,
            mailbox: None,
        }
    }

    /// A queue of nothing, to leave in the place of another.
    pub(crate) fn none() -> Self {
        // SAFETY: a depth of 0 is refused by `post`: no descriptor is ever touched.
        unsafe { Self::new(NonNull::dangling(), 0, MemoryHandle::from_bits(0)) }
    }

    /// Descriptors that are posted and have not come back.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.posted.wrapping_sub(self.taken)
    }

    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Fills the next descriptor with one data segment, after an address segment if there is one,
    /// and has `submit` post it.
    #[inline]
    pub(crate) fn post(
        &mut self,
        buffer: Buffer,
        work: Work,
        submit: impl FnOnce(*mut Descriptor, MemoryHandle) -> Result<()>,
    ) -> std::result::Result<(), Refused> {
        if work.length > buffer.length() as usize {
            return Err(too_long(buffer, work.length));
        }
        if self.outstanding() >= self.depth {
            return Err(full(buffer, self.depth));
        }
        let length = work.length as u32;
        let (segments, segment_count) = match (work.remote, buffer.segment(length)) {
            (None, Some(data)) => ([data, Segment::default()], 1),
            (Some(remote), Some(data)) => ([remote, data], 2),
            (Some(remote), None) => ([remote, Segment::default()], 1),
            (None, None) => ([Segment::default(); 2], 0),
        };
        let filled = Descriptor {
            control: ControlSegment {
                segment_count,
                control: work.control,
                immediate: work.immediate,
                length,
                ..ControlSegment::default()
            },
            segments,
        };
        let index = (self.posted & self.mask) as usize;
        // SAFETY: the index is inside the ring, and the descriptor is not posted: fewer than
        // `depth` are outstanding.
        let descriptor = unsafe { self.descriptors.add(index) };
        // SAFETY: as above.
        unsafe { descriptor.write(filled) };
        // From here on the buffer is the fabric's, whatever `submit` does.
        self.slots[index] = buffer;
        self.posted = self.posted.wrapping_add(1);
        match submit(descriptor.as_ptr(), self.handle) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.posted = self.posted.wrapping_sub(1);
                let buffer = mem::replace(&mut self.slots[index], Buffer::empty());
                Err(Refused { error, buffer })
            }
        }
    }

    /// Takes the buffer of a completed descriptor.
    #[inline]
    fn take(&mut self, descriptor: NonNull<Descriptor>) -> Taken {
        let index = (self.taken & self.mask) as usize;
        let expected = self.descriptors.as_ptr().wrapping_add(index);
        assert!(
            descriptor.as_ptr() == expected && self.posted != self.taken,
            "the fabric handed back a descriptor that is not the oldest one posted"
        );
        // SAFETY: it was posted, lies in the ring, and the fabric has given it back. Word by word:
        // a wide read right after the fabric's narrow writes would wait for them.
        let (length, immediate, status) = unsafe {
            let control = &raw const (*expected).control;
            ((*control).length, (*control).immediate, (*control).status)
        };
        self.taken = self.taken.wrapping_add(1);
        let buffer = mem::replace(&mut self.slots[index], Buffer::empty());
        Taken {
            buffer,
            length,
            immediate,
            status: Status::from_bits(status),
        }
    }

    /// What a look at the queue comes to.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        done: Done,
    ) -> std::result::Result<Option<Taken>, CompletionError> {
        match done {
            Done::Complete(descriptor) => Ok(Some(self.take(descriptor))),
            Done::NotDone => Ok(None),
            Done::Failed(descriptor) => Err(failed(self.take(descriptor))),
            Done::Empty => Err(CompletionError::NothingPosted),
        }
    }

    /// Whether a notify handler is out, so that the queue itself must not be looked at.
    #[inline]
    pub(crate) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Takes what a notify handler has left; `None` while it has not been called.
    pub(crate) fn try_mailbox(&mut self) -> std::result::Result<Option<Taken>, CompletionError> {
        let delivery = self.mailbox.as_ref().and_then(|mailbox| mailbox.take());
        self.open(delivery)
    }

    /// Waits for what a notify handler leaves.
    pub(crate) fn wait_mailbox(
        &mut self,
        limit: Option<Duration>,
    ) -> std::result::Result<Taken, CompletionError> {
        let delivery = self
            .mailbox
            .as_ref()
            .and_then(|mailbox| mailbox.wait(limit));
        self.open(delivery)?.ok_or_else(|| {
            let reason = "no descriptor completed within the time limit";
            CompletionError::Fabric(Error::new(ReturnCode::Timeout, reason))
        })
    }

    /// Lets a future wait: `notify` hands a handler to the fabric if none is out.
    pub(crate) fn poll_mailbox(
        &mut self,
        context: &Context<'_>,
        notify: impl FnOnce(DescriptorHandler) -> Result<()>,
    ) -> Poll<std::result::Result<Taken, CompletionError>> {
        let mailbox = Arc::clone(self.mailbox.get_or_insert_with(Mailbox::new));
        if !self.is_awaited {
            let courier = Courier::to(&mailbox);
            self.is_awaited = true;
            let handler = Box::new(move |_nic, _vi, descriptor| {
                courier.deliver(Completed(descriptor));
            });
            if let Err(error) = notify(handler) {
                self.is_awaited = false;
                // The handler was dropped, and said so.
                let _ = mailbox.take();
                return Poll::Ready(Err(error.into()));
            }
        }
        match mailbox.poll(context) {
            Poll::Ready(delivery) => Poll::Ready(match self.open(Some(delivery)) {
                Ok(Some(taken)) => Ok(taken),
                Ok(None) => Err(abandoned()),
                Err(error) => Err(error),
            }),
            Poll::Pending => Poll::Pending,
        }
    }

    fn open(
        &mut self,
        delivery: Option<Delivery<Completed>>,
    ) -> std::result::Result<Option<Taken>, CompletionError> {
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        self.is_awaited = false;
        match delivery {
            Delivery::Arrived(Completed(descriptor)) => {
                let taken = self.take(descriptor);
                if taken.status.is_error() {
                    return Err(failed(taken));
                }
                Ok(Some(taken))
            }
            Delivery::Abandoned => Err(abandoned()),
        }
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkQueue")
            .field("depth", &self.depth)
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}

/// What a descriptor asks for, beside its buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) control: u16,
    pub(crate) immediate: u32,
    /// Bytes of the buffer, from its beginning.
    pub(crate) length: usize,
    /// The target's range.
    pub(crate) remote: Option<Segment>,
}

#[cold]
fn failed(taken: Taken) -> CompletionError {
    CompletionError::Failed {
        buffer: taken.buffer,
        status: taken.status,
    }
}

#[cold]
fn abandoned() -> CompletionError {
    let reason = "the fabric dropped a notify handler without calling it: the NIC was closed";
    CompletionError::Fabric(Error::new(ReturnCode::Resource, reason))
}

#[cold]
fn too_long(buffer: Buffer, length: usize) -> Refused {
    let reason = format!(
        "{length} bytes are asked for of a buffer of {} bytes",
        buffer.length()
    );
    Refused {
        error: Error::new(ReturnCode::InvalidParameter, reason),
        buffer,
    }
}

#[cold]
fn full(buffer: Buffer, depth: u32) -> Refused {
    let reason = format!("the queue holds its {depth} descriptors: take a completion, then post");
    Refused {
        error: Error::new(ReturnCode::Resource, reason),
        buffer,
    }
}
