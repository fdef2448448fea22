//! One end of a connection, with the tightest way to post and to take.

use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::time::Duration;

use viaduct_provider::via::Status;
use viaduct_provider::{
    ControlSegment, Counts, Descriptor, Done, Memory, NicHandle, Provider, ReturnCode, Segment,
    ViHandle, control,
};

use crate::error::{Doing, MeasureError, Result};
use crate::host::Host;
use crate::patience::{PATIENCE, Patience};
use crate::plan::Mode;
use crate::session::{Block, Session};

/// How many descriptors and buffers an end has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Sends that may be outstanding.
    pub(crate) sends: u32,
    /// Buffers to send from.
    pub(crate) send_buffers: u32,
    /// Receives, with a buffer each.
    pub(crate) receives: u32,
    /// Bytes of each buffer to send from.
    pub(crate) send_bytes: u32,
    /// Bytes of each buffer to receive into.
    pub(crate) receive_bytes: u32,
}

impl Shape {
    const fn send_stride(&self) -> usize {
        (self.send_bytes as usize).next_multiple_of(64)
    }

    const fn receive_stride(&self) -> usize {
        (self.receive_bytes as usize).next_multiple_of(64)
    }

    const fn data_bytes(&self) -> usize {
        self.send_buffers as usize * self.send_stride()
            + self.receives as usize * self.receive_stride()
    }

    const fn descriptors(&self) -> usize {
        (self.sends + self.receives) as usize
    }
}

/// Memory of one or many lanes of one shape.
#[derive(Debug)]
pub(crate) struct Blocks<'s, P: Provider> {
    descriptors: Block<'s, P>,
    data: Block<'s, P>,
    shape: Shape,
}

impl<'s, P: Provider> Blocks<'s, P> {
    pub(crate) fn new(
        session: &'s Session<'s, P>,
        shape: Shape,
        lanes: usize,
        memory: Memory,
    ) -> Result<Rc<Self>> {
        let descriptor_bytes = lanes * shape.descriptors() * size_of::<Descriptor>();
        Ok(Rc::new(Self {
            descriptors: Block::new(session, descriptor_bytes, Memory::Private)?,
            data: Block::new(session, lanes * shape.data_bytes(), memory)?,
            shape,
        }))
    }
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Which receive took it: its buffer, and what to post again.
    pub(crate) slot: u32,
    /// Bytes.
    pub(crate) length: u32,
    /// Whether it carries immediate data: an order to stop.
    pub(crate) is_stop: bool,
}

/// One end of a connection. Descriptors are written anew for each post.
#[derive(Debug)]
pub(crate) struct Lane<'s, P: Provider> {
    provider: &'s P,
    nic: NicHandle,
    pub(crate) vi: ViHandle,
    descriptors: NonNull<Descriptor>,
    descriptor_handle: viaduct_provider::via::MemoryHandle,
    data: NonNull<u8>,
    data_handle: u32,
    shape: Shape,
    next_send: u32,
    /// Sends that are posted and not taken back.
    pub(crate) sends_outstanding: u32,
    /// Dropped after `Drop` has destroyed the VI.
    _blocks: Rc<Blocks<'s, P>>,
}

impl<'s, P: Provider> Lane<'s, P> {
    /// The `index`th lane of the blocks, over a VI that it destroys in the end.
    pub(crate) fn new(
        session: &'s Session<'s, P>,
        vi: ViHandle,
        blocks: &Rc<Blocks<'s, P>>,
        index: usize,
    ) -> Self {
        let shape = blocks.shape;
        let descriptors_before = index * shape.descriptors();
        let data_before = index * shape.data_bytes();
        assert!(
            (descriptors_before + shape.descriptors()) * size_of::<Descriptor>()
                <= blocks.descriptors.length
                && data_before + shape.data_bytes() <= blocks.data.length,
            "lane {index} is not inside its blocks"
        );
        Self {
            provider: session.provider,
            nic: session.nic,
            vi,
            // SAFETY: inside the block, by the assertion.
            descriptors: unsafe { blocks.descriptors.address.cast().add(descriptors_before) },
            descriptor_handle: blocks.descriptors.handle,
            // SAFETY: inside the block, by the assertion.
            data: unsafe { blocks.data.address.add(data_before) },
            data_handle: blocks.data.handle.bits(),
            shape,
            next_send: 0,
            sends_outstanding: 0,
            _blocks: Rc::clone(blocks),
        }
    }

    /// What the NIC has counted so far; `None` where it does not count.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.provider.counts(self.nic).ok()
    }

    /// Posts every receive, before there is a connection.
    pub(crate) fn post_all_receives(&mut self) -> Result<()> {
        (0..self.shape.receives).try_for_each(|slot| self.post_receive(slot))
    }

    #[inline]
    fn send_address(&self, buffer: u32) -> *mut u8 {
        let offset = buffer as usize * self.shape.send_stride();
        self.data.as_ptr().wrapping_add(offset)
    }

    #[inline]
    fn receive_address(&self, slot: u32) -> *mut u8 {
        let offset = self.shape.send_buffers as usize * self.shape.send_stride()
            + slot as usize * self.shape.receive_stride();
        self.data.as_ptr().wrapping_add(offset)
    }

    /// Which buffer the next send sends.
    #[inline]
    const fn next_buffer(&self) -> u32 {
        if self.next_send < self.shape.send_buffers {
            self.next_send
        } else {
            self.next_send % self.shape.send_buffers
        }
    }

    /// The buffer of the next send, to be written. It is free when fewer sends are outstanding than
    /// there are buffers.
    #[inline]
    pub(crate) fn outgoing(&mut self, bytes: u32) -> &mut [u8] {
        assert!(
            bytes <= self.shape.send_bytes && self.sends_outstanding < self.shape.send_buffers,
            "a buffer is written that is being sent"
        );
        // SAFETY: inside the data block; no send that is outstanding names it.
        unsafe { slice::from_raw_parts_mut(self.send_address(self.next_buffer()), bytes as usize) }
    }

    /// What has arrived.
    #[inline]
    pub(crate) fn incoming(&self, arrival: Arrival) -> &[u8] {
        assert!(
            arrival.slot < self.shape.receives && arrival.length <= self.shape.receive_bytes,
            "a message is longer than its buffer"
        );
        // SAFETY: inside the data block; the receive has come back and is not posted again before
        // the borrow ends.
        unsafe {
            slice::from_raw_parts(self.receive_address(arrival.slot), arrival.length as usize)
        }
    }

    /// Sends the next buffer; `stop` tells the peer that it is the last message.
    #[inline]
    pub(crate) fn post_send(&mut self, bytes: u32, stop: bool) -> Result<()> {
        debug_assert!(bytes <= self.shape.send_bytes);
        debug_assert!(self.sends_outstanding < self.shape.sends);
        // SAFETY: the index is below the number of sends, and that descriptor is not posted: fewer
        // than all are outstanding, and they complete in order.
        let descriptor = unsafe { self.descriptors.add(self.next_send as usize) };
        let flags = if stop { control::IMMEDIATE } else { 0 };
        let address = self.send_address(self.next_buffer());
        self.write(descriptor, control::SEND_RECEIVE | flags, address, bytes);
        self.next_send += 1;
        if self.next_send == self.shape.sends {
            self.next_send = 0;
        }
        self.sends_outstanding += 1;
        // SAFETY: descriptor and buffer lie in blocks that outlive the VI.
        let posted = unsafe {
            self.provider
                .post_send(self.vi, descriptor.as_ptr(), self.descriptor_handle)
        };
        posted.doing("posting a send")
    }

    /// Posts a receive that is not posted.
    #[inline]
    pub(crate) fn post_receive(&mut self, slot: u32) -> Result<()> {
        debug_assert!(slot < self.shape.receives);
        // SAFETY: the receives' descriptors come after those of the sends.
        let descriptor = unsafe { self.descriptors.add((self.shape.sends + slot) as usize) };
        let address = self.receive_address(slot);
        self.write(
            descriptor,
            control::SEND_RECEIVE,
            address,
            self.shape.receive_bytes,
        );
        // SAFETY: as in `post_send`.
        let posted = unsafe {
            self.provider
                .post_receive(self.vi, descriptor.as_ptr(), self.descriptor_handle)
        };
        posted.doing("posting a receive")
    }

    #[inline]
    fn write(&self, descriptor: NonNull<Descriptor>, control: u16, address: *mut u8, bytes: u32) {
        let filled = Descriptor {
            control: ControlSegment {
                segment_count: u16::from(bytes > 0),
                control,
                length: bytes,
                ..ControlSegment::default()
            },
            segments: [
                Segment {
                    address: address.expose_provenance() as u64,
                    handle: self.data_handle,
                    length: bytes,
                },
                Segment::default(),
            ],
        };
        // SAFETY: the caller's descriptor lies in the block and is not posted.
        unsafe { descriptor.write(filled) };
    }

    /// Takes the oldest receive, if its message is there.
    #[inline]
    pub(crate) fn try_receive(&mut self) -> Result<Option<Arrival>> {
        let done = self.provider.receive_done(self.vi);
        self.arrival(done.doing("looking for a message")?)
    }

    #[inline]
    fn arrival(&mut self, done: Done) -> Result<Option<Arrival>> {
        match done {
            Done::Complete(descriptor) => {
                // SAFETY: it has come back.
                let (length, status) = unsafe {
                    let control = &raw const (*descriptor.as_ptr()).control;
                    ((*control).length, (*control).status)
                };
                let first = self.descriptors.as_ptr().addr() / size_of::<Descriptor>();
                let index = descriptor.as_ptr().addr() / size_of::<Descriptor>() - first;
                let slot = (index as u32).wrapping_sub(self.shape.sends);
                assert!(slot < self.shape.receives, "not a receive came back");
                Ok(Some(Arrival {
                    slot,
                    length,
                    is_stop: status & Status::IMMEDIATE.bits() != 0,
                }))
            }
            Done::NotDone => Ok(None),
            Done::Failed(descriptor) => Err(failed("waiting for a message", descriptor)),
            Done::Empty => Err(nothing_posted("waiting for a message")),
        }
    }

    /// Waits for the next message.
    #[inline]
    pub(crate) fn receive(&mut self, waiter: &Waiter<'_, impl Host>) -> Result<Arrival> {
        match waiter.mode {
            Mode::Poll => waiter.poll("waiting for a message", || self.try_receive()),
            Mode::Block => loop {
                let done = self.provider.receive_wait(self.vi, Some(PATIENCE));
                let done = done.map_err(|error| waiter.refused("waiting for a message", error))?;
                if let Some(arrival) = self.arrival(done)? {
                    return Ok(arrival);
                }
            },
        }
    }

    /// Takes back the oldest send, if it is complete.
    #[inline]
    pub(crate) fn try_sent(&mut self) -> Result<bool> {
        let done = self.provider.send_done(self.vi);
        self.departure(done.doing("looking for a send")?)
    }

    #[inline]
    fn departure(&mut self, done: Done) -> Result<bool> {
        match done {
            Done::Complete(_) => {
                self.sends_outstanding -= 1;
                Ok(true)
            }
            Done::NotDone => Ok(false),
            Done::Failed(descriptor) => Err(failed("sending", descriptor)),
            Done::Empty => Err(nothing_posted("sending")),
        }
    }

    /// Takes back sends until no more than so many are outstanding.
    #[inline]
    pub(crate) fn drain_sends(
        &mut self,
        outstanding_max: u32,
        waiter: &Waiter<'_, impl Host>,
    ) -> Result<()> {
        while self.sends_outstanding > outstanding_max {
            match waiter.mode {
                Mode::Poll => {
                    waiter.poll("waiting for a send", || Ok(self.try_sent()?.then_some(())))?
                }
                Mode::Block => {
                    let done = self.provider.send_wait(self.vi, Some(PATIENCE));
                    let done = done.map_err(|error| waiter.refused("waiting for a send", error))?;
                    self.departure(done)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the connection ends within some time: the peer has disconnected.
    pub(crate) fn await_end(&mut self, host: &impl Host) -> bool {
        let start_ns = host.now_ns();
        let patience_ns = PATIENCE.as_nanos() as u64;
        loop {
            match self.provider.receive_done(self.vi) {
                Ok(Done::NotDone) => {}
                // Late messages are nobody's any more.
                Ok(Done::Complete(_)) => continue,
                Ok(Done::Failed(_) | Done::Empty) | Err(_) => return true,
            }
            if host.now_ns() - start_ns > patience_ns || host.stop_reason().is_some() {
                return false;
            }
            host.sleep(Duration::from_micros(50));
        }
    }
}

impl<P: Provider> Drop for Lane<'_, P> {
    fn drop(&mut self) {
        let Self { provider, vi, .. } = self;
        // What these say does not matter: either the VI can be destroyed, or it stays.
        let _ = provider.disconnect(*vi);
        while matches!(provider.send_done(*vi), Ok(done) if done.descriptor().is_some()) {}
        while matches!(provider.receive_done(*vi), Ok(done) if done.descriptor().is_some()) {}
        if provider.destroy_vi(*vi).is_err() {
            // Its descriptors and buffers must stay: one more owner that never goes.
            std::mem::forget(Rc::clone(&self._blocks));
        }
    }
}

/// How a side waits, and when it gives up.
#[derive(Debug)]
pub(crate) struct Waiter<'h, H: Host> {
    pub(crate) host: &'h H,
    pub(crate) mode: Mode,
}

impl<H: Host> Waiter<'_, H> {
    /// Looks until there is something.
    #[inline]
    pub(crate) fn poll<T>(
        &self,
        doing: &'static str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let mut looks = Looks::default();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.host.relax();
            looks.add_doing(doing, self)?;
        }
    }

    /// What a wait that the fabric refused means.
    #[cold]
    pub(crate) fn refused(
        &self,
        doing: &'static str,
        error: viaduct_provider::Error,
    ) -> MeasureError {
        if let Some(reason) = self.host.stop_reason() {
            return MeasureError::Stopped { reason };
        }
        if error.code() == ReturnCode::Timeout {
            return MeasureError::Stalled {
                doing,
                waited: PATIENCE,
            };
        }
        MeasureError::Refused { doing, error }
    }
}

/// About a millisecond.
const LOOKS_PER_CHECK: u32 = 1 << 15;

/// Looks in vain.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    count: u32,
    patience: Patience,
}

impl Looks {
    /// After a look for a completion that found nothing.
    ///
    /// # Errors
    ///
    /// When it has gone on for too long.
    #[inline]
    pub(crate) fn add<H: Host>(&mut self, waiter: &Waiter<'_, H>) -> Result<()> {
        self.add_doing("waiting for a completion", waiter)
    }

    #[inline]
    fn add_doing<H: Host>(&mut self, doing: &'static str, waiter: &Waiter<'_, H>) -> Result<()> {
        self.count += 1;
        if self.count == LOOKS_PER_CHECK {
            self.check(doing, waiter)?;
        }
        Ok(())
    }

    #[cold]
    fn check<H: Host>(&mut self, doing: &'static str, waiter: &Waiter<'_, H>) -> Result<()> {
        self.count = 0;
        if let Some(reason) = waiter.host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
        self.patience.look(doing, waiter.host.now_ns())?;
        // With fewer cores than sides the other one needs this one.
        std::thread::yield_now();
        Ok(())
    }
}

#[cold]
fn failed(doing: &'static str, descriptor: NonNull<Descriptor>) -> MeasureError {
    // SAFETY: the fabric has given the descriptor back, and it lies in a block of ours.
    let status = unsafe { descriptor.read() }.control.status;
    MeasureError::Failed {
        doing,
        status: Status::from_bits(status),
    }
}

#[cold]
fn nothing_posted(doing: &'static str) -> MeasureError {
    MeasureError::Failed {
        doing,
        status: Status::FLUSHED_ERROR,
    }
}
