//! VIs: making, connecting, splitting and dropping them.

use std::fmt;
use std::mem;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use viaduct_core::{Address, MemoryAttributes, ReliabilityLevel, RemoteViAttributes, ViAttributes};

use crate::buffer::Buffer;
use crate::completion::{CompletionError, Received, Refused, Sent};
use crate::completion_queue::{CompletionQueue, CompletionQueueShared};
use crate::descriptor::Descriptor;
use crate::error::{Error, Result, ReturnCode};
use crate::half::{Receiver, Sender};
use crate::nic::NicShared;
use crate::provider::{Provider, ViHandle, ViInformation};
use crate::reference::Fabric;
use crate::region::{Memory, Region};
use crate::window::RemoteBuffer;
use crate::work_queue::WorkQueue;

/// What a VI is to be like; made by [`crate::Nic::vi`].
#[must_use = "a builder makes nothing until `build`"]
pub struct ViBuilder<P: Provider> {
    nic: Arc<NicShared<P>>,
    attributes: ViAttributes,
    send_depth: u32,
    receive_depth: u32,
    send_completions: Option<Arc<CompletionQueueShared<P>>>,
    receive_completions: Option<Arc<CompletionQueueShared<P>>>,
    flow_control: bool,
    request_splitting: bool,
}

impl<P: Provider> ViBuilder<P> {
    pub(crate) fn new(nic: Arc<NicShared<P>>) -> Self {
        const DEPTH: u32 = 64;

        let mut attributes = ViAttributes::unreliable(nic.tag, nic.attributes.max_transfer_bytes);
        attributes.reliability = ReliabilityLevel::ReliableDelivery;
        Self {
            nic,
            attributes,
            send_depth: DEPTH,
            receive_depth: DEPTH,
            send_completions: None,
            receive_completions: None,
            flow_control: false,
            request_splitting: false,
        }
    }

    /// How much the connection promises; reliable delivery if not said.
    pub fn reliability(mut self, level: ReliabilityLevel) -> Self {
        self.attributes.reliability = level;
        self
    }

    /// Bytes of the longest message; the NIC's limit if not said. Both ends say the same.
    pub fn max_transfer_bytes(mut self, bytes: u32) -> Self {
        self.attributes.max_transfer_bytes = bytes;
        self
    }

    /// Lets the peer write this NIC's windows through the VI.
    pub fn rdma_write(mut self, allowed: bool) -> Self {
        self.attributes.rdma_write = allowed;
        self
    }

    /// Lets the peer read this NIC's windows through the VI.
    pub fn rdma_read(mut self, allowed: bool) -> Self {
        self.attributes.rdma_read = allowed;
        self
    }

    /// Lets sends wait for the peer's receives instead of overrunning it (an extension).
    pub fn flow_control(mut self, enabled: bool) -> Self {
        self.flow_control = enabled;
        self
    }

    /// Lets a message that is longer than its receive go on in the following ones (an extension).
    pub fn request_splitting(mut self, enabled: bool) -> Self {
        self.request_splitting = enabled;
        self
    }

    /// How many sends may be outstanding; 64 if not said.
    pub fn send_depth(mut self, descriptors: u32) -> Self {
        self.send_depth = descriptors;
        self
    }

    /// How many receives may be outstanding; 64 if not said.
    pub fn receive_depth(mut self, descriptors: u32) -> Self {
        self.receive_depth = descriptors;
        self
    }

    /// Tells completed sends to a queue.
    pub fn send_completions(mut self, queue: &CompletionQueue<P>) -> Self {
        self.send_completions = Some(queue.share());
        self
    }

    /// Tells completed receives to a queue.
    pub fn receive_completions(mut self, queue: &CompletionQueue<P>) -> Self {
        self.receive_completions = Some(queue.share());
        self
    }

    /// Makes it, idle.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] for a depth above the NIC's, or none at all; else what
    /// [`Provider::create_vi`] says.
    pub fn build(self) -> Result<Vi<P>> {
        let Self {
            nic,
            attributes,
            send_depth,
            receive_depth,
            ..
        } = self;
        let depth_max = nic.attributes.max_descriptors_per_queue;
        if send_depth > depth_max || receive_depth > depth_max || send_depth + receive_depth == 0 {
            let reason = format!(
                "{send_depth} sends and {receive_depth} receives are asked for; a queue of this \
                 NIC holds at most {depth_max}, and a VI needs one"
            );
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        }
        let sends = WorkQueue::ring_length(send_depth);
        let receives = WorkQueue::ring_length(receive_depth);
        let block = Region::new(
            &nic,
            (sends + receives) * size_of::<Descriptor>(),
            // A fabric reads descriptors where their VI is.
            Memory::Private,
            &MemoryAttributes::local(nic.tag),
        )?;
        let handle = nic.fabric.create_vi(
            nic.handle,
            &attributes,
            self.send_completions.as_ref().map(|queue| queue.handle),
            self.receive_completions.as_ref().map(|queue| queue.handle),
        )?;
        let first: NonNull<Descriptor> = block.address().cast();
        // SAFETY: the block, aligned to 64, has `sends + receives` descriptors; `ViShared` keeps it
        // until the VI is destroyed and both queues have come back.
        let (send_queue, receive_queue) = unsafe {
            (
                WorkQueue::new(first, send_depth, block.handle()),
                WorkQueue::new(first.add(sends), receive_depth, block.handle()),
            )
        };
        let shared = Arc::new(ViShared {
            handle,
            remains: Mutex::default(),
            block: Some(block),
            _completions: [self.send_completions, self.receive_completions],
            nic,
        });
        let vi = Vi {
            sender: Sender::new(send_queue, Arc::clone(&shared)),
            receiver: Receiver::new(receive_queue, Arc::clone(&shared)),
            shared,
        };
        // Asked for only where wanted: a fabric need not have them.
        if self.flow_control {
            vi.shared.fabric().set_flow_control(handle, true)?;
        }
        if self.request_splitting {
            vi.shared.fabric().set_request_splitting(handle, true)?;
        }
        Ok(vi)
    }
}

/// What both halves of a VI stand on. Dropped after both, with all that they left posted.
pub(crate) struct ViShared<P: Provider> {
    handle: ViHandle,
    /// The queues of halves that were dropped.
    remains: Mutex<Vec<WorkQueue>>,
    block: Option<Region<P>>,
    _completions: [Option<Arc<CompletionQueueShared<P>>>; 2],
    nic: Arc<NicShared<P>>,
}

impl<P: Provider> ViShared<P> {
    pub(crate) fn fabric(&self) -> &Fabric<P> {
        &self.nic.fabric
    }

    pub(crate) const fn handle(&self) -> ViHandle {
        self.handle
    }

    /// Keeps a queue, and the buffers that are posted on it, until the VI is destroyed.
    pub(crate) fn keep(&self, queue: WorkQueue) {
        let mut remains = self.remains.lock().unwrap_or_else(PoisonError::into_inner);
        remains.push(queue);
    }
}

impl<P: Provider> Drop for ViShared<P> {
    fn drop(&mut self) {
        let fabric = &self.nic.fabric;
        // Whatever it says: if it matters, the VI is not destroyed below.
        let _ = fabric.disconnect(self.handle);
        let takes_send = || fabric.send_done(self.handle);
        let takes_receive = || fabric.receive_done(self.handle);
        while takes_send().is_ok_and(|done| done.descriptor().is_some()) {}
        while takes_receive().is_ok_and(|done| done.descriptor().is_some()) {}
        if fabric.destroy_vi(self.handle).is_err() {
            // The fabric may still reach descriptors and buffers: they stay for ever.
            let remains = self
                .remains
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(remains));
            mem::forget(self.block.take());
        }
    }
}

impl<P: Provider> fmt::Debug for ViShared<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ViShared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

/// A VI: a pair of work queues, and one connection at a time.
///
/// A dropped VI disconnects, and what it had posted goes with it. Sends that must arrive are waited
/// for first ([`Sender::sent`]). A VI that is forgotten ([`mem::forget`]) keeps its memory.
pub struct Vi<P: Provider> {
    sender: Sender<P>,
    receiver: Receiver<P>,
    shared: Arc<ViShared<P>>,
}

impl<P: Provider> Vi<P> {
    /// Its handle, as completion queues name it.
    #[must_use]
    pub fn handle(&self) -> ViHandle {
        self.shared.handle
    }

    /// State and attributes.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] if the NIC was closed under it.
    pub fn query(&self) -> Result<ViInformation> {
        self.shared.fabric().query_vi(self.shared.handle)
    }

    /// Asks the listener at `remote` for a connection and waits for its answer; `None` waits for
    /// ever. The VI is then connected, or idle as before.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::NoMatch`] at once when nobody listens there, and what
    /// [`Provider::connect_request`] says.
    pub fn connect(
        &mut self,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        let local = self.local_address();
        self.request(&local, remote, limit)
    }

    /// The same, telling the listener who asks: its [`Request::remote`](crate::Request::remote) has
    /// this discriminator.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub fn connect_as(
        &mut self,
        local_discriminator: &[u8],
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        let local = Address::new(self.shared.nic.host, local_discriminator);
        self.request(&local, remote, limit)
    }

    fn request(
        &self,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        self.shared
            .fabric()
            .connect_request(self.shared.handle, local, remote, limit)
    }

    /// Connects two equals: each calls it, with the other's address as `remote`.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::Timeout`] when the other did not, and what
    /// [`Provider::connect_peer_wait`] says.
    pub fn connect_peer(
        &mut self,
        local_discriminator: &[u8],
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        let (fabric, handle) = (self.shared.fabric(), self.shared.handle);
        let local = Address::new(self.shared.nic.host, local_discriminator);
        fabric.connect_peer_request(handle, &local, remote, limit)?;
        fabric.connect_peer_wait(handle)
    }

    /// Ends the connection; what is posted completes as flushed. The VI is idle then, and can be
    /// connected again.
    ///
    /// # Errors
    ///
    /// What the fabric says; none is expected.
    pub fn disconnect(&mut self) -> Result<()> {
        self.sender.disconnect()
    }

    /// Both halves, to use at once.
    pub fn halves(&mut self) -> (&mut Sender<P>, &mut Receiver<P>) {
        (&mut self.sender, &mut self.receiver)
    }

    /// Both halves, for two threads or tasks. The VI ends when both are dropped.
    #[must_use]
    pub fn split(self) -> (Sender<P>, Receiver<P>) {
        (self.sender, self.receiver)
    }

    /// As [`Sender::post_send`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::post_send`].
    #[inline]
    pub fn post_send(&mut self, buffer: Buffer, length: usize) -> std::result::Result<(), Refused> {
        self.sender.post_send(buffer, length)
    }

    /// As [`Sender::post_send_immediate`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::post_send_immediate`].
    #[inline]
    pub fn post_send_immediate(
        &mut self,
        buffer: Buffer,
        length: usize,
        immediate: u32,
    ) -> std::result::Result<(), Refused> {
        self.sender.post_send_immediate(buffer, length, immediate)
    }

    /// As [`Sender::post_write`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::post_write`].
    #[inline]
    pub fn post_write(
        &mut self,
        buffer: Buffer,
        length: usize,
        target: RemoteBuffer,
    ) -> std::result::Result<(), Refused> {
        self.sender.post_write(buffer, length, target)
    }

    /// As [`Sender::post_write_immediate`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::post_write_immediate`].
    #[inline]
    pub fn post_write_immediate(
        &mut self,
        buffer: Buffer,
        length: usize,
        target: RemoteBuffer,
        immediate: u32,
    ) -> std::result::Result<(), Refused> {
        self.sender
            .post_write_immediate(buffer, length, target, immediate)
    }

    /// As [`Sender::post_read`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::post_read`].
    #[inline]
    pub fn post_read(
        &mut self,
        buffer: Buffer,
        length: usize,
        source: RemoteBuffer,
    ) -> std::result::Result<(), Refused> {
        self.sender.post_read(buffer, length, source)
    }

    /// As [`Receiver::post_receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::post_receive`].
    #[inline]
    pub fn post_receive(&mut self, buffer: Buffer) -> std::result::Result<(), Refused> {
        self.receiver.post_receive(buffer)
    }

    /// As [`Sender::try_sent`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::try_sent`].
    #[inline]
    pub fn try_sent(&mut self) -> std::result::Result<Option<Sent>, CompletionError> {
        self.sender.try_sent()
    }

    /// As [`Sender::sent`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::sent`].
    pub fn sent(&mut self, limit: Option<Duration>) -> std::result::Result<Sent, CompletionError> {
        self.sender.sent(limit)
    }

    /// As [`Sender::sent_async`].
    ///
    /// # Errors
    ///
    /// Those of [`Sender::sent_async`].
    pub async fn sent_async(&mut self) -> std::result::Result<Sent, CompletionError> {
        self.sender.sent_async().await
    }

    /// As [`Receiver::try_receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::try_receive`].
    #[inline]
    pub fn try_receive(&mut self) -> std::result::Result<Option<Received>, CompletionError> {
        self.receiver.try_receive()
    }

    /// As [`Receiver::receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive`].
    pub fn receive(
        &mut self,
        limit: Option<Duration>,
    ) -> std::result::Result<Received, CompletionError> {
        self.receiver.receive(limit)
    }

    /// As [`Receiver::receive_async`].
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive_async`].
    pub async fn receive_async(&mut self) -> std::result::Result<Received, CompletionError> {
        self.receiver.receive_async().await
    }

    /// As [`Receiver::poll_receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::poll_receive`].
    pub fn poll_receive(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<std::result::Result<Received, CompletionError>> {
        self.receiver.poll_receive(context)
    }

    /// An address that no other VI of this process asks from.
    fn local_address(&self) -> Address {
        let discriminator = self.shared.handle.bits().to_le_bytes();
        Address::new(self.shared.nic.host, &discriminator)
    }
}

impl<P: Provider> fmt::Debug for ViBuilder<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ViBuilder")
            .field("attributes", &self.attributes)
            .field("send_depth", &self.send_depth)
            .field("receive_depth", &self.receive_depth)
            .finish_non_exhaustive()
    }
}

impl<P: Provider> fmt::Debug for Vi<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Vi")
            .field("sender", &self.sender)
            .field("receiver", &self.receiver)
            .finish_non_exhaustive()
    }
}
