//! The VI state of one NIC: its tables, and the commands that make, query and destroy what is in
//! them. Transfers are in `transfer.rs`, connections in `connect.rs`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::completion_queue::{
    CompletionEntry, CompletionQueue, CompletionQueueId, CompletionQueueInformation,
};
use crate::descriptor::DataSegment;
use crate::ids::ConnectionNumber;
use crate::ids::{Peer, Queue, ViId};
use crate::keys::MemoryAttributes;
use crate::keys::{MemoryHandle, ProtectionTag};
use crate::memory::MemoryTable;
use crate::memory::{MemoryError, TagError};
use crate::protection::Region;
use crate::slab::Slab;
use crate::via::attributes::{NicAttributes, ViAttributes};
use crate::via::check;
use crate::via::error::{CompletionQueueError, ViError};
use crate::via::error_code::ErrorCode;
use crate::via::event::Event;
use crate::via::open::Connections;
use crate::via::state::ViState;
use crate::via::transition;
use crate::via::vi::{Connection, Vi, ViInformation};

/// The VI state of one NIC on one host.
///
/// A consumer gives commands (`create_vi`, `post_send`, ...). A driver tells what happened
/// (`start_send`, `finish_receive`, `handle_connection_message`, ...) and drains, after each input
/// or command, [`poll_transmit`](Self::poll_transmit), [`poll_timeout`](Self::poll_timeout) and
/// [`poll_event`](Self::poll_event). Every call does bounded work and returns at once; `now` never
/// decreases from call to call, and a call that comes early is harmless.
///
/// An empty `Nic` has allocated nothing.
// Finishing and taking read the first 64 bytes, posting and starting the next ones too.
#[derive(Debug)]
#[repr(C)]
pub struct Nic {
    pub(crate) vis: Slab<Vi>,
    pub(crate) completion_queues: Slab<CompletionQueue>,
    pub(crate) memory: MemoryTable,
    pub(crate) attributes: Arc<NicAttributes>,
    events: VecDeque<Event>,
    pub(crate) connections: Option<Box<Connections>>,
    last_number: u32,
}

impl Nic {
    /// A NIC with nothing in it.
    #[must_use]
    pub const fn new(attributes: Arc<NicAttributes>) -> Self {
        Self {
            attributes,
            vis: Slab::new(),
            completion_queues: Slab::new(),
            memory: MemoryTable::new(),
            events: VecDeque::new(),
            connections: None,
            last_number: 0,
        }
    }

    /// What the NIC can do.
    #[must_use]
    pub fn attributes(&self) -> &NicAttributes {
        &self.attributes
    }

    /// Makes a protection tag.
    ///
    /// # Errors
    /// [`TagError::LimitReached`].
    pub fn create_protection_tag(&mut self) -> Result<ProtectionTag, TagError> {
        self.memory.create_tag(self.attributes.memory_limits())
    }

    /// Lets VIs of another tag use the regions of this one, too; none: no longer. For programs that
    /// mix tags up.
    ///
    /// # Errors
    /// [`TagError::Unknown`].
    pub fn set_guest(
        &mut self,
        tag: ProtectionTag,
        guest: Option<ProtectionTag>,
    ) -> Result<(), TagError> {
        self.memory.set_guest(tag, guest)
    }

    /// Destroys a protection tag that nothing uses.
    ///
    /// # Errors
    /// [`TagError::Unknown`], [`TagError::InUse`].
    pub fn destroy_protection_tag(&mut self, tag: ProtectionTag) -> Result<(), TagError> {
        self.memory.destroy_tag(tag)
    }

    /// Registers `length` bytes at `address`, at any alignment.
    ///
    /// The same bytes may be registered again, with other attributes, under another handle.
    ///
    /// # Errors
    /// An empty or endless range, a dead tag, remote reads, or a limit of the NIC.
    pub fn register_memory(
        &mut self,
        address: u64,
        length: u64,
        attributes: MemoryAttributes,
    ) -> Result<MemoryHandle, MemoryError> {
        let supported = check::memory_is_supported(&attributes, &self.attributes);
        let limits = self.attributes.memory_limits();
        self.memory
            .register(address, length, attributes, limits, supported)
    }

    /// Ends a registration. Descriptors that name it and have not started fail their check.
    ///
    /// # Errors
    /// [`MemoryError::UnknownHandle`]; [`MemoryError::WrongAddress`] if the region begins
    /// elsewhere.
    pub fn deregister_memory(
        &mut self,
        address: u64,
        handle: MemoryHandle,
    ) -> Result<(), MemoryError> {
        self.memory.deregister(address, handle)
    }

    /// The attributes of a region.
    ///
    /// # Errors
    /// As [`deregister_memory`](Self::deregister_memory).
    pub fn query_memory(
        &self,
        address: u64,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes, MemoryError> {
        self.memory.query(address, handle)
    }

    /// Changes the attributes of a region, its tag included.
    ///
    /// # Errors
    /// As [`deregister_memory`](Self::deregister_memory); a dead tag; remote reads.
    pub fn set_memory_attributes(
        &mut self,
        address: u64,
        handle: MemoryHandle,
        attributes: MemoryAttributes,
    ) -> Result<(), MemoryError> {
        let supported = check::memory_is_supported(&attributes, &self.attributes);
        self.memory
            .set_attributes(address, handle, attributes, supported)
    }

    /// Makes a completion queue for `entries` entries.
    ///
    /// More entries than that are kept all the same, none is lost.
    ///
    /// # Errors
    /// No entries asked for, or a limit of the NIC.
    pub fn create_completion_queue(
        &mut self,
        entries: u32,
    ) -> Result<CompletionQueueId, CompletionQueueError> {
        self.check_entries(entries)?;
        let limit = self.attributes.max_completion_queues;
        if self.completion_queues.len() >= limit {
            return Err(CompletionQueueError::LimitReached { limit });
        }
        Ok(CompletionQueueId(
            self.completion_queues.insert(CompletionQueue::new(entries)),
        ))
    }

    /// Destroys a completion queue to which no VI is bound.
    ///
    /// # Errors
    /// [`CompletionQueueError::Unknown`], [`CompletionQueueError::InUse`].
    pub fn destroy_completion_queue(
        &mut self,
        queue: CompletionQueueId,
    ) -> Result<(), CompletionQueueError> {
        match self.query_completion_queue(queue)?.work_queues {
            0 => {
                self.completion_queues.remove(queue.0);
                Ok(())
            }
            work_queues => Err(CompletionQueueError::InUse { work_queues }),
        }
    }

    /// Gives a completion queue another size; entries that wait are kept.
    ///
    /// # Errors
    /// More entries wait than would fit, no entries asked for, or a limit of the NIC.
    pub fn resize_completion_queue(
        &mut self,
        queue: CompletionQueueId,
        entries: u32,
    ) -> Result<(), CompletionQueueError> {
        self.check_entries(entries)?;
        let queue = self
            .completion_queues
            .get_mut(queue.0)
            .ok_or(CompletionQueueError::Unknown)?;
        if queue.waiting() > entries {
            return Err(CompletionQueueError::EntriesWaiting {
                waiting: queue.waiting(),
            });
        }
        queue.entries = entries;
        Ok(())
    }

    fn check_entries(&self, entries: u32) -> Result<(), CompletionQueueError> {
        let limit = self.attributes.max_completion_queue_entries;
        match entries {
            0 => Err(CompletionQueueError::NoEntries),
            entries if entries > limit => Err(CompletionQueueError::TooManyEntries { limit }),
            _ => Ok(()),
        }
    }

    /// Size and filling of a completion queue.
    ///
    /// # Errors
    /// [`CompletionQueueError::Unknown`].
    pub fn query_completion_queue(
        &self,
        queue: CompletionQueueId,
    ) -> Result<CompletionQueueInformation, CompletionQueueError> {
        let queue = self
            .completion_queues
            .get(queue.0)
            .ok_or(CompletionQueueError::Unknown)?;
        Ok(queue.information())
    }

    /// Whether a completion queue has an entry to be taken.
    #[inline]
    #[must_use]
    pub fn has_entries(&self, queue: CompletionQueueId) -> bool {
        let queue = self.completion_queues.get(queue.0);
        queue.is_some_and(|queue| queue.information().entries_waiting > 0)
    }

    /// Takes the oldest entry of a completion queue; `None` if there is none, or no such queue.
    ///
    /// The descriptor is then taken with [`send_done`](Self::send_done) or
    /// [`receive_done`](Self::receive_done), which finds it complete.
    #[inline]
    pub fn completion_queue_done(&mut self, queue: CompletionQueueId) -> Option<CompletionEntry> {
        self.completion_queues.get_mut(queue.0)?.take()
    }

    /// Makes an idle VI. Each of its queues may be bound to a completion queue, or both to one.
    ///
    /// # Errors
    /// Attributes that the NIC does not support, a dead tag or completion queue, or the NIC's
    /// limit.
    pub fn create_vi(
        &mut self,
        attributes: ViAttributes,
        send_queue: Option<CompletionQueueId>,
        receive_queue: Option<CompletionQueueId>,
    ) -> Result<ViId, ViError> {
        let limit = self.attributes.max_vis;
        if self.vis.len() >= limit {
            return Err(ViError::LimitReached { limit });
        }
        self.check_vi_attributes(&attributes)?;
        let bound = [send_queue, receive_queue];
        if bound
            .into_iter()
            .flatten()
            .any(|queue| self.completion_queues.get(queue.0).is_none())
        {
            return Err(ViError::UnknownCompletionQueue);
        }
        self.memory
            .retain_tag(attributes.tag)
            .ok_or(ViError::InvalidTag)?;
        for queue in bound.into_iter().flatten() {
            if let Some(queue) = self.completion_queues.get_mut(queue.0) {
                queue.work_queues += 1;
            }
        }
        Ok(ViId(self.vis.insert(Vi::new(
            attributes,
            send_queue,
            receive_queue,
        ))))
    }

    /// Destroys a VI. Descriptors that were not taken, their completion entries and events that
    /// were not polled are discarded.
    ///
    /// # Errors
    /// [`ViError::Unknown`]; [`ViError::InvalidState`] unless it is idle or in error.
    pub fn destroy_vi(&mut self, vi: ViId) -> Result<(), ViError> {
        let state = self.vi_state(vi).ok_or(ViError::Unknown)?;
        if !transition::may_be_destroyed(state) {
            return Err(ViError::InvalidState { state });
        }
        let gone = self.vis.remove(vi.0).ok_or(ViError::Unknown)?;
        self.memory.release_tag(gone.attributes.tag);
        let bound = [gone.send_completion_queue, gone.receive_completion_queue];
        for queue in bound.into_iter().flatten() {
            if let Some(queue) = self.completion_queues.get_mut(queue.0) {
                queue.work_queues -= 1;
                queue.purge(vi);
            }
        }
        self.events.retain(|event| event.vi() != Some(vi));
        Ok(())
    }

    /// State, attributes and whether the queues are empty.
    ///
    /// # Errors
    /// [`ViError::Unknown`].
    pub fn query_vi(&self, vi: ViId) -> Result<ViInformation, ViError> {
        let vi = self.vis.get(vi.0).ok_or(ViError::Unknown)?;
        Ok(ViInformation {
            state: vi.state(),
            attributes: vi.attributes,
            send_queue_empty: vi.sends.len() == 0,
            receive_queue_empty: vi.receives.len() == 0,
        })
    }

    /// The state of a VI; `None` if there is no such VI.
    #[inline]
    #[must_use]
    pub fn vi_state(&self, vi: ViId) -> Option<ViState> {
        self.vis.get(vi.0).map(Vi::state)
    }

    /// The protection tag of a VI; `None` if there is no such VI.
    #[inline]
    #[must_use]
    pub fn vi_tag(&self, vi: ViId) -> Option<ProtectionTag> {
        self.vis.get(vi.0).map(|vi| vi.attributes.tag)
    }

    /// The tag with which a VI comes to a region: the region's own, if it may use it.
    #[inline]
    #[must_use]
    pub fn vi_tag_at(&self, vi: ViId, region: &Region) -> Option<ProtectionTag> {
        let tag = self.vi_tag(vi)?;
        Some(self.memory.tag_at(region, tag))
    }

    /// The region of a live memory handle.
    #[inline]
    #[must_use]
    pub fn region(&self, handle: MemoryHandle) -> Option<&Region> {
        self.memory.region(handle)
    }

    /// Every registered region, in no order that means anything.
    pub fn regions(&self) -> impl Iterator<Item = (MemoryHandle, &Region)> {
        self.memory.regions()
    }

    /// Whether a VI with `tag` may use every byte of `segments` for its own sends and receives.
    #[inline]
    #[must_use]
    pub fn permits(&self, tag: ProtectionTag, segments: &[DataSegment]) -> bool {
        self.memory.permits(tag, segments)
    }

    /// Whether a message of so many bytes for a VI with `tag` may be placed into the `segments` of
    /// a receive, which may run past their regions behind it.
    #[inline]
    #[must_use]
    pub fn permits_message(
        &self,
        tag: ProtectionTag,
        segments: &[DataSegment],
        bytes: u64,
    ) -> bool {
        self.memory.permits_message(tag, segments, bytes)
    }

    /// The other end of a connected VI.
    #[inline]
    #[must_use]
    pub fn peer(&self, vi: ViId) -> Option<Peer> {
        match self.vis.get(vi.0)?.connection {
            Connection::Up { peer, .. } => Some(peer),
            Connection::Idle | Connection::Pending(_) | Connection::Broken => None,
        }
    }

    /// Every VI, by slot.
    pub fn vis(&self) -> impl Iterator<Item = ViId> {
        self.vis.iter().map(|(key, _)| ViId(key))
    }

    /// Changes the attributes of an idle VI, its tag included.
    ///
    /// # Errors
    /// As [`create_vi`](Self::create_vi); [`ViError::InvalidState`] unless it is idle.
    pub fn set_vi_attributes(&mut self, vi: ViId, attributes: ViAttributes) -> Result<(), ViError> {
        let state = self.vi_state(vi).ok_or(ViError::Unknown)?;
        if !transition::may_be_changed(state) {
            return Err(ViError::InvalidState { state });
        }
        self.check_vi_attributes(&attributes)?;
        self.memory
            .retain_tag(attributes.tag)
            .ok_or(ViError::InvalidTag)?;
        let vi = self.vis.get_mut(vi.0).ok_or(ViError::Unknown)?;
        let former = core::mem::replace(&mut vi.attributes, attributes);
        self.memory.release_tag(former.tag);
        Ok(())
    }

    fn check_vi_attributes(&self, attributes: &ViAttributes) -> Result<(), ViError> {
        check::vi_is_supported(attributes, &self.attributes)
    }

    /// Takes the oldest event that was not told yet.
    ///
    /// What a consumer or a peer can cause without end (drops, overruns, refused remote accesses)
    /// waits at most once for each VI, so that undrained events do not pile up.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let mut event = self.events.pop_front()?;
        match &mut event {
            Event::ReceiveQueueEmpty { vi, dropped } => {
                if let Some(vi) = self.vis.get_mut(vi.0) {
                    *dropped = core::mem::take(&mut vi.drops_unreported);
                }
            }
            other => {
                if let Some((vi, bit)) = told_once(other)
                    && let Some(vi) = self.vis.get_mut(vi.0)
                {
                    vi.unreported &= !bit;
                }
            }
        }
        Some(event)
    }

    /// Whether there is nothing to drain: no event, nothing to transmit, no VI that became ready,
    /// and no time to keep.
    #[inline]
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.events.is_empty() && self.connections.is_none()
    }

    pub(crate) fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// A message found no receive.
    pub(crate) fn report_drop(&mut self, vi: ViId) {
        if let Some(state) = self.vis.get_mut(vi.0) {
            let first = state.drops_unreported == 0;
            state.drops_unreported = state.drops_unreported.saturating_add(1);
            if first {
                self.report(Event::ReceiveQueueEmpty { vi, dropped: 0 });
            }
        }
    }

    /// A descriptor found its queue full.
    pub(crate) fn report_overrun(&mut self, vi: ViId, queue: Queue) {
        self.report_once(vi, Event::ViOverrun { vi, queue });
    }

    /// An asynchronous error that this crate notices and that is about a VI alone.
    pub(crate) fn report_error(&mut self, vi: ViId, code: ErrorCode) {
        let event = match code {
            ErrorCode::RdmaWriteProtection => Event::RdmaWriteProtection { vi },
            ErrorCode::RdmaWriteData => Event::RdmaWriteData { vi },
            ErrorCode::RdmaWriteAbort => Event::RdmaWriteAbort { vi },
            ErrorCode::RdmaReadProtection => Event::RdmaReadProtection { vi },
            ErrorCode::RdmaTransport => Event::RdmaTransport { vi },
            // These have events of their own, with more to say.
            ErrorCode::PostDescriptor
            | ErrorCode::ConnectionLost
            | ErrorCode::ReceiveQueueEmpty
            | ErrorCode::ViOverrun
            | ErrorCode::CompletionProtection
            | ErrorCode::Catastrophic => return,
        };
        self.report_once(vi, event);
    }

    /// Whoever holds the memory of descriptors found one that the consumer must not have posted:
    /// misaligned, outside its registration, or changed after the post. Told by
    /// [`Event::InvalidDescriptor`]. Here descriptors are values and are always in order.
    pub fn report_invalid_descriptor(&mut self, vi: ViId, queue: Queue, cookie: u64) {
        self.report_once(vi, Event::InvalidDescriptor { vi, queue, cookie });
    }

    /// Whoever holds the memory of descriptors could not write a completion, since the memory was
    /// deregistered. Told by [`Event::CompletionProtection`].
    pub fn report_completion_protection(&mut self, vi: ViId, queue: Queue, cookie: u64) {
        self.report_once(vi, Event::CompletionProtection { vi, queue, cookie });
    }

    fn report_once(&mut self, vi: ViId, event: Event) {
        if let Some(state) = self.vis.get_mut(vi.0)
            && let Some((_, bit)) = told_once(&event)
            && state.unreported & bit == 0
        {
            state.unreported |= bit;
            self.report(event);
        }
    }

    /// The next number of a wait, a request or a connection of this NIC.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.last_number = self.last_number.wrapping_add(1);
        self.last_number
    }

    /// The next number, as a connection's.
    pub(crate) fn next_connection(&mut self) -> ConnectionNumber {
        ConnectionNumber(self.next_number())
    }

    /// Where the state lies that calls on `vi` read: address and bytes of each part.
    ///
    /// For a driver of very many NICs that asks its processor for the memory beforehand. The
    /// addresses are hints: they may be dangling by the time they are used. Nothing beyond the NIC
    /// itself is read here.
    #[inline]
    #[must_use]
    pub fn state_addresses(&self, vi: ViId) -> [(*const u8, usize); 3] {
        [
            self.vis.slot_address(vi.0.index()),
            self.completion_queues.slot_address(0),
            self.memory.first_region_address(),
        ]
    }

    /// Where the descriptor lies that the next message for `vi` takes; a hint, as
    /// [`state_addresses`](Self::state_addresses), that reads the VI's state.
    #[inline]
    #[must_use]
    pub fn next_receive_address(&self, vi: ViId) -> *const u8 {
        self.vis
            .get(vi.0)
            .map_or(core::ptr::null(), |vi| vi.receives.next_address())
    }

    /// Where the oldest descriptor of a VI's send queue lies; a hint, as
    /// [`next_receive_address`](Self::next_receive_address).
    #[inline]
    #[must_use]
    pub fn oldest_send_address(&self, vi: ViId) -> *const u8 {
        self.vis
            .get(vi.0)
            .map_or(core::ptr::null(), |vi| vi.sends.oldest_address())
    }

    /// Gives back the memory of events, if all were polled: most come while connections are made.
    pub fn release_events(&mut self) {
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Gives back memory that is not in use, say after a driver has set up its connections.
    pub fn shrink_to_fit(&mut self) {
        self.memory.shrink_to_fit();
        self.events.shrink_to_fit();
        self.vis.shrink_to_fit();
        self.completion_queues.shrink_to_fit();
        self.vis.for_each_mut(|vi| {
            vi.sends.shrink_to_fit();
            vi.receives.shrink_to_fit();
        });
    }
}

/// For an error that waits at most once for each VI to be polled: the VI, and its bit there.
fn told_once(event: &Event) -> Option<(ViId, u16)> {
    // The lower bits by error; the two queues of an overrun are told apart.
    let bit = match event {
        Event::ViOverrun {
            queue: Queue::Receive,
            ..
        } => 15,
        Event::ConnectionLost { .. } | Event::ReceiveQueueEmpty { .. } => return None,
        other => other.error_code()? as u16,
    };
    Some((event.vi()?, 1 << bit))
}

/// Puts one entry for each newly visible completion of a work queue into its completion queue.
#[inline]
pub(crate) fn announce(
    completion_queues: &mut Slab<CompletionQueue>,
    bound: Option<CompletionQueueId>,
    (vi, queue): (ViId, Queue),
    completions: u32,
) {
    if let Some(bound) = bound
        && let Some(bound) = completion_queues.get_mut(bound.0)
    {
        (0..completions).for_each(|_| bound.push(CompletionEntry { vi, queue }));
    }
}
