//! The two halves of a VI: one sends, one receives, each from where it is needed.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use viaduct_core::{Queue, Status};

use crate::buffer::Buffer;
use crate::completion::{CompletionError, Received, Refused, Sent};
use crate::descriptor::{Segment, control};
use crate::error::Result;
use crate::provider::{Provider, ViHandle, Watched};
use crate::reference::Fabric;
use crate::vi::ViShared;
use crate::window::RemoteBuffer;
use crate::work_queue::{Taken, Work, WorkQueue};

/// What both halves are: a queue of descriptors, and who fills it and looks at it.
struct Half<P: Provider, const SENDS: bool> {
    queue: WorkQueue,
    fabric: Fabric<P>,
    vi: ViHandle,
    shared: Arc<ViShared<P>>,
}

impl<P: Provider, const SENDS: bool> Half<P, SENDS> {
    fn new(queue: WorkQueue, shared: Arc<ViShared<P>>) -> Self {
        Self {
            queue,
            fabric: shared.fabric().clone(),
            vi: shared.handle(),
            shared,
        }
    }

    #[inline]
    fn post(&mut self, buffer: Buffer, work: Work) -> std::result::Result<(), Refused> {
        let Self {
            queue, fabric, vi, ..
        } = self;
        queue.post(buffer, work, |descriptor, handle| {
            // SAFETY: the descriptor and the buffer lie in registered memory, and the queue
            // leaves both alone until the descriptor comes back or the VI is destroyed.
            unsafe {
                if SENDS {
                    fabric.post_send(*vi, descriptor, handle)
                } else {
                    fabric.post_receive(*vi, descriptor, handle)
                }
            }
        })
    }

    #[inline]
    fn try_take(&mut self) -> std::result::Result<Option<Taken>, CompletionError> {
        if self.queue.is_awaited() {
            return self.queue.try_mailbox();
        }
        let done = if SENDS {
            self.fabric.send_done(self.vi)?
        } else {
            self.fabric.receive_done(self.vi)?
        };
        self.queue.settle(done)
    }

    fn take(&mut self, limit: Option<Duration>) -> std::result::Result<Taken, CompletionError> {
        if self.queue.is_awaited() {
            return self.queue.wait_mailbox(limit);
        }
        loop {
            let done = if SENDS {
                self.fabric.send_wait(self.vi, limit)?
            } else {
                self.fabric.receive_wait(self.vi, limit)?
            };
            if let Some(taken) = self.queue.settle(done)? {
                return Ok(taken);
            }
        }
    }

    fn poll_take(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<std::result::Result<Taken, CompletionError>> {
        if !self.queue.is_awaited() {
            if let Some(result) = self.try_take().transpose() {
                return Poll::Ready(result);
            }
            let queue = if SENDS { Queue::Send } else { Queue::Receive };
            let watched = Watched::Vi(self.vi, queue);
            if self.fabric.watch(watched, context.waker())? {
                return Poll::Pending;
            }
        }
        let Self {
            queue, fabric, vi, ..
        } = self;
        queue.poll_mailbox(context, |handler| {
            if SENDS {
                fabric.send_notify(*vi, handler)
            } else {
                fabric.receive_notify(*vi, handler)
            }
        })
    }
}

// What is still posted outlives its half: the VI keeps it until it is destroyed.
impl<P: Provider, const SENDS: bool> Drop for Half<P, SENDS> {
    fn drop(&mut self) {
        let queue = std::mem::replace(&mut self.queue, WorkQueue::none());
        self.shared.keep(queue);
    }
}

impl<P: Provider, const SENDS: bool> fmt::Debug for Half<P, SENDS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct(if SENDS { "Sender" } else { "Receiver" })
            .field("vi", &self.vi)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// The sending half of a VI: sends, remote writes and reads, and their completions.
///
/// All complete in the order in which they were posted.
pub struct Sender<P: Provider>(Half<P, true>);

impl<P: Provider> Sender<P> {
    pub(crate) fn new(queue: WorkQueue, shared: Arc<ViShared<P>>) -> Self {
        Self(Half::new(queue, shared))
    }

    /// Sends the first `length` bytes of a buffer.
    ///
    /// # Errors
    ///
    /// When the queue is full, or the buffer shorter than `length`: the buffer comes back.
    #[inline]
    pub fn post_send(&mut self, buffer: Buffer, length: usize) -> std::result::Result<(), Refused> {
        let control = control::SEND_RECEIVE;
        self.0.post(
            buffer,
            Work {
                control,
                length,
                ..Work::default()
            },
        )
    }

    /// Sends the first `length` bytes of a buffer, and four bytes with them.
    ///
    /// # Errors
    ///
    /// As [`Sender::post_send`].
    #[inline]
    pub fn post_send_immediate(
        &mut self,
        buffer: Buffer,
        length: usize,
        immediate: u32,
    ) -> std::result::Result<(), Refused> {
        let control = control::SEND_RECEIVE | control::IMMEDIATE;
        self.0.post(
            buffer,
            Work {
                control,
                length,
                immediate,
                remote: None,
            },
        )
    }

    /// Writes the first `length` bytes of a buffer into the peer's memory, from where `target`
    /// begins. The peer is not told.
    ///
    /// # Errors
    ///
    /// As [`Sender::post_send`]. A target that does not take it is reported by the completion.
    #[inline]
    pub fn post_write(
        &mut self,
        buffer: Buffer,
        length: usize,
        target: RemoteBuffer,
    ) -> std::result::Result<(), Refused> {
        let control = control::RDMA_WRITE;
        let remote = Some(address_segment(target));
        self.0.post(
            buffer,
            Work {
                control,
                length,
                immediate: 0,
                remote,
            },
        )
    }

    /// Writes as [`Sender::post_write`] does, then completes one of the peer's receives with four
    /// bytes.
    ///
    /// # Errors
    ///
    /// As [`Sender::post_write`].
    #[inline]
    pub fn post_write_immediate(
        &mut self,
        buffer: Buffer,
        length: usize,
        target: RemoteBuffer,
        immediate: u32,
    ) -> std::result::Result<(), Refused> {
        let control = control::RDMA_WRITE | control::IMMEDIATE;
        let remote = Some(address_segment(target));
        self.0.post(
            buffer,
            Work {
                control,
                length,
                immediate,
                remote,
            },
        )
    }

    /// Reads `length` bytes from where `source` begins into a buffer.
    ///
    /// # Errors
    ///
    /// As [`Sender::post_write`].
    #[inline]
    pub fn post_read(
        &mut self,
        buffer: Buffer,
        length: usize,
        source: RemoteBuffer,
    ) -> std::result::Result<(), Refused> {
        let control = control::RDMA_READ;
        let remote = Some(address_segment(source));
        self.0.post(
            buffer,
            Work {
                control,
                length,
                immediate: 0,
                remote,
            },
        )
    }

    /// Takes the oldest completion, if it is there.
    ///
    /// # Errors
    ///
    /// [`CompletionError::NothingPosted`]; [`CompletionError::Failed`] with the buffer.
    #[inline]
    pub fn try_sent(&mut self) -> std::result::Result<Option<Sent>, CompletionError> {
        Ok(self.0.try_take()?.map(sent))
    }

    /// Waits for the oldest completion; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// As [`Sender::try_sent`], and [`CompletionError::Fabric`] when the time is over.
    pub fn sent(&mut self, limit: Option<Duration>) -> std::result::Result<Sent, CompletionError> {
        self.0.take(limit).map(sent)
    }

    /// As [`Sender::sent_async`], for futures written by hand.
    ///
    /// # Errors
    ///
    /// As [`Sender::try_sent`].
    pub fn poll_sent(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<std::result::Result<Sent, CompletionError>> {
        self.0.poll_take(context).map_ok(sent)
    }

    /// Waits for the oldest completion without a thread. It is not lost when the future is
    /// dropped: whoever looks next finds it.
    ///
    /// # Errors
    ///
    /// As [`Sender::try_sent`].
    pub async fn sent_async(&mut self) -> std::result::Result<Sent, CompletionError> {
        poll_fn(|context| self.poll_sent(context)).await
    }

    /// Descriptors that are posted and whose completions have not been taken.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.0.queue.outstanding()
    }

    /// How many may be outstanding.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.queue.depth()
    }

    /// The VI, as completion queues name it.
    #[must_use]
    pub fn handle(&self) -> ViHandle {
        self.0.vi
    }

    /// Ends the connection: what is posted at either half completes as flushed.
    ///
    /// # Errors
    ///
    /// What the fabric says; none is expected.
    pub fn disconnect(&mut self) -> Result<()> {
        self.0.fabric.disconnect(self.0.vi)
    }
}

/// The receiving half of a VI: receives and their completions, in the order they were posted.
pub struct Receiver<P: Provider>(Half<P, false>);

impl<P: Provider> Receiver<P> {
    pub(crate) fn new(queue: WorkQueue, shared: Arc<ViShared<P>>) -> Self {
        Self(Half::new(queue, shared))
    }

    /// Offers a buffer to the next message that no earlier receive takes. Allowed before the VI is
    /// connected, and wise.
    ///
    /// # Errors
    ///
    /// When the queue is full: the buffer comes back.
    #[inline]
    pub fn post_receive(&mut self, buffer: Buffer) -> std::result::Result<(), Refused> {
        let length = buffer.len();
        self.0.post(
            buffer,
            Work {
                length,
                ..Work::default()
            },
        )
    }

    /// Takes the oldest receive, if its message is there.
    ///
    /// # Errors
    ///
    /// [`CompletionError::NothingPosted`]; [`CompletionError::Failed`] with the buffer.
    #[inline]
    pub fn try_receive(&mut self) -> std::result::Result<Option<Received>, CompletionError> {
        Ok(self.0.try_take()?.map(received))
    }

    /// Waits for a message; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// As [`Receiver::try_receive`], and [`CompletionError::Fabric`] when the time is over.
    pub fn receive(
        &mut self,
        limit: Option<Duration>,
    ) -> std::result::Result<Received, CompletionError> {
        self.0.take(limit).map(received)
    }

    /// As [`Receiver::receive_async`], for futures written by hand.
    ///
    /// # Errors
    ///
    /// As [`Receiver::try_receive`].
    pub fn poll_receive(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<std::result::Result<Received, CompletionError>> {
        self.0.poll_take(context).map_ok(received)
    }

    /// Waits for a message without a thread. It is not lost when the future is dropped: whoever
    /// looks next finds it.
    ///
    /// # Errors
    ///
    /// As [`Receiver::try_receive`].
    pub async fn receive_async(&mut self) -> std::result::Result<Received, CompletionError> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Receives that are posted and have not been taken back.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.0.queue.outstanding()
    }

    /// How many may be outstanding.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.queue.depth()
    }

    /// The VI, as completion queues name it.
    #[must_use]
    pub fn handle(&self) -> ViHandle {
        self.0.vi
    }
}

impl<P: Provider> fmt::Debug for Sender<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<P: Provider> fmt::Debug for Receiver<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[inline]
fn sent(taken: Taken) -> Sent {
    Sent {
        buffer: taken.buffer,
        length: taken.length as usize,
        status: taken.status,
    }
}

#[inline]
fn received(taken: Taken) -> Received {
    let status = taken.status;
    Received {
        buffer: taken.buffer,
        length: taken.length as usize,
        immediate: status
            .contains(Status::IMMEDIATE)
            .then_some(taken.immediate),
        status,
    }
}

const fn address_segment(remote: RemoteBuffer) -> Segment {
    Segment {
        address: remote.address,
        handle: remote.handle,
        length: 0,
    }
}
