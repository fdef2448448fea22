//! The state of an agent: the NICs, and everything that has a handle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::task::Waker;

use viaduct_provider::via::{
    CompletionQueueId, ConnectFailure, DataSegment, MemoryHandle, ProtectionTag, Queue,
    RemoteViAttributes, RequestId, Timestamp, ViId, WaitId, WorkId,
};
use viaduct_provider::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, DescriptorHandler,
    Error, ErrorCode, ErrorHandler, IncomingRequest, NicHandle, Result, ReturnCode, ViHandle,
};

use crate::device::{Device, Devices};
use crate::elsewhere::Elsewhere;
use crate::job::{Call, Job};
use crate::memory::{Place, SharedBlock};
use crate::refusal::dead;
use crate::table::Table;

/// What a runtime's lock protects: NICs, and everything on them that has a handle.
///
/// In this order: what every message needs comes first.
#[repr(C)]
pub struct Agent {
    /// The NICs.
    pub devices: Devices,
    pub(crate) vis: Table<ViHandle, Vi>,
    /// For the provider's thread, oldest first.
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) nics: Table<NicHandle, OpenNic>,
    pub(crate) completion_queues: Table<CompletionQueueHandle, CompletionQueue>,
    pub(crate) requests: Table<ConnectionHandle, Request>,
    /// Errors that wait in `jobs` and that a peer can cause without end: told once.
    pub(crate) told: BTreeSet<(ViHandle, ErrorCode)>,
    /// Memory that the fabric allocated, by address.
    pub(crate) blocks: BTreeMap<usize, SharedBlock>,
    /// The memory of programs that run elsewhere.
    pub elsewhere: Elsewhere,
    /// The NIC whose handler is running.
    pub running: Option<NicHandle>,
}

/// How a wait for a client ended.
pub(crate) enum WaitAnswer {
    /// By which handle.
    Open {
        nic: NicHandle,
    },
    Requested(IncomingRequest),
    TimedOut,
}

/// An opening of a NIC, with what belongs to it.
pub(crate) struct OpenNic {
    pub(crate) device: usize,
    pub(crate) error_handler: Option<ErrorHandler>,
    /// Its protection tags, which say whose a region is.
    pub(crate) tags: Vec<ProtectionTag>,
    /// The one whose VIs may use regions of all of them.
    pub(crate) any_tag: Option<ProtectionTag>,
}

pub(crate) struct Vi {
    pub(crate) nic: NicHandle,
    pub(crate) device: usize,
    pub(crate) id: ViId,
    pub(crate) queues: [WorkQueue; 2],
    pub(crate) attempt: Attempt,
}

/// A connection that was asked for.
pub(crate) enum Attempt {
    None,
    /// By a thread that waits for the answer.
    Client(Option<Answer>),
    /// To a peer; the answer waits until it is asked for.
    Peer(Option<Answer>),
}

/// How it ended.
pub(crate) type Answer = std::result::Result<RemoteViAttributes, ConnectFailure>;

/// The descriptors of a work queue, beside what the semantics knows of them.
#[derive(Default)]
pub(crate) struct WorkQueue {
    pub(crate) is_bound: bool,
    /// Not taken, in post order.
    pub(crate) posted: VecDeque<Posted>,
    /// So many of them, from the first, are complete.
    pub(crate) completed: u32,
    /// Made for the first: few queues ever have one.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of four, for each queue of many hosts"
    )]
    pub(crate) notifies: Option<Box<VecDeque<DescriptorHandler>>>,
    /// Woken by the next completion, which stays.
    pub(crate) watcher: Option<Waker>,
}

#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) place: Place,
    /// Covers the descriptor, as long as it is alive.
    pub(crate) handle: MemoryHandle,
    /// It completed so.
    pub(crate) is_error: bool,
}

pub(crate) struct CompletionQueue {
    pub(crate) nic: NicHandle,
    pub(crate) device: usize,
    pub(crate) id: CompletionQueueId,
    pub(crate) notifies: VecDeque<CompletionHandler>,
    /// Woken by the next entry, which stays.
    pub(crate) watcher: Option<Waker>,
}

pub(crate) struct Request {
    pub(crate) nic: NicHandle,
    pub(crate) device: usize,
    pub(crate) id: RequestId,
}

impl fmt::Debug for Agent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Agent")
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// With a NIC, and others. Its handles bear its number among the agents of its program.
    #[must_use]
    pub fn new(number: u32, first: Device, others: Vec<Device>) -> Self {
        Self {
            devices: Devices::new(first, others),
            nics: Table::new(number),
            vis: Table::new(number),
            completion_queues: Table::new(number),
            requests: Table::new(number),
            jobs: VecDeque::new(),
            told: BTreeSet::new(),
            blocks: BTreeMap::new(),
            elsewhere: None,
            running: None,
        }
    }

    pub(crate) fn nic(&mut self, nic: NicHandle) -> Result<&mut OpenNic> {
        self.nics
            .get_mut(nic)
            .ok_or_else(|| dead("the NIC handle is not open"))
    }

    /// The device of an open NIC.
    pub(crate) fn device(&mut self, nic: NicHandle) -> Result<&mut Device> {
        let device = self.nic(nic)?.device;
        Ok(&mut self.devices[device])
    }

    #[inline]
    pub(crate) fn vi(&mut self, vi: ViHandle) -> Result<&mut Vi> {
        self.vis.get_mut(vi).ok_or_else(no_vi)
    }

    /// A VI, and the semantics that has it.
    pub(crate) fn vi_and_nic(&mut self, vi: ViHandle) -> Result<(&mut Vi, &mut Device)> {
        let vi = self.vis.get_mut(vi).ok_or_else(no_vi)?;
        let device = &mut self.devices[vi.device];
        Ok((vi, device))
    }

    pub(crate) fn completion_queue(
        &mut self,
        queue: CompletionQueueHandle,
    ) -> Result<&mut CompletionQueue> {
        self.completion_queues
            .get_mut(queue)
            .ok_or_else(|| dead("the completion queue handle names no completion queue"))
    }

    /// Which NIC has a VI, and what the semantics calls it there.
    #[inline]
    #[must_use]
    pub fn place_of(&self, vi: ViHandle) -> Option<(usize, ViId)> {
        self.vis.get(vi).map(|vi| (vi.device, vi.id))
    }

    /// The oldest receive of a VI that its program has not taken, which may be the next one that it
    /// posts; `None` if there is no such VI.
    #[must_use]
    pub fn oldest_receive(&self, vi: ViHandle) -> Option<WorkId> {
        let vi = self.vis.get(vi)?;
        let held = vi.queues[Queue::Receive as usize].posted.len() as u64;
        let nic = &self.devices[vi.device].nic;
        nic.oldest_of_last_receives(vi.id, held)
    }

    /// Whether a NIC is open.
    #[must_use]
    pub const fn has_nics(&self) -> bool {
        !self.nics.is_empty()
    }

    /// Whether a work queue of a VI is bound to a completion queue.
    #[must_use]
    pub fn is_bound(&self, vi: ViHandle, queue: Queue) -> bool {
        let vi = self.vis.get(vi);
        vi.is_some_and(|vi| vi.queues[queue as usize].is_bound)
    }

    /// The handle of a VI of a NIC.
    #[inline]
    #[must_use]
    pub fn handle_of(&self, device: usize, vi: ViId) -> Option<ViHandle> {
        self.devices.get(device)?.handle_of(vi)
    }

    /// Where the agent's part of a VI's state lies, and its bytes: for whoever asks the processor
    /// for it beforehand. Reads the device.
    #[inline]
    #[must_use]
    pub fn state_address(&self, device: usize, vi: ViId) -> (*const u8, usize) {
        let handle = self.handle_of(device, vi);
        handle.map_or((std::ptr::null(), 0), |handle| self.vis.address(handle))
    }

    /// The VIs of a NIC handle.
    pub(crate) fn vis_of(&self, nic: NicHandle) -> Vec<ViHandle> {
        let own = self.vis.iter().filter(|(_, vi)| vi.nic == nic);
        own.map(|(handle, _)| handle).collect()
    }

    /// Refuses a memory handle that names no region of a NIC handle.
    pub(crate) fn check_region(&mut self, nic: NicHandle, handle: MemoryHandle) -> Result<()> {
        let open = self
            .nics
            .get(nic)
            .ok_or_else(|| dead("the NIC handle is not open"))?;
        let region = self.devices[open.device].nic.region(handle);
        if region.is_some_and(|region| open.tags.contains(&region.attributes.tag)) {
            return Ok(());
        }
        Err(dead("the memory handle names no region of this NIC handle"))
    }

    /// Whether segments lie in memory that is registered now, with the tag of a VI.
    #[must_use]
    pub fn may_touch(&self, vi: ViHandle, segments: &[DataSegment]) -> bool {
        let Some(vi) = self.vis.get(vi) else {
            return false;
        };
        let nic = &self.devices[vi.device].nic;
        nic.vi_tag(vi.id)
            .is_some_and(|tag| nic.permits(tag, segments))
    }

    /// Whether a message of so many bytes may still be placed into the segments of its receives.
    #[must_use]
    pub fn may_place(&self, vi: ViHandle, segments: &[DataSegment], bytes: u64) -> bool {
        let Some(vi) = self.vis.get(vi) else {
            return false;
        };
        let nic = &self.devices[vi.device].nic;
        nic.vi_tag(vi.id)
            .is_some_and(|tag| nic.permits_message(tag, segments, bytes))
    }

    /// Whether a handler waits to be called.
    #[inline]
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The next waker, if it is the next thing to be called. To be woken without the lock.
    pub fn next_wake(&mut self) -> Option<Waker> {
        if !matches!(self.jobs.front(), Some(Job::Wake { .. })) {
            return None;
        }
        match self.jobs.pop_front() {
            Some(Job::Wake { waker, .. }) => Some(waker),
            _ => None,
        }
    }

    /// The next call of a handler; it counts as running until [`Agent::running`] is cleared. To be
    /// called, or dropped, without the lock.
    pub fn next_call(&mut self) -> Option<Call> {
        let job = self.jobs.pop_front()?;
        if let Job::Error(error) = &job
            && let Some(vi) = error.vi
        {
            self.told.remove(&(vi, error.code));
        }
        // Calls for a NIC that was closed meanwhile are dropped with the handler's own data.
        let nic = job.nic();
        let open = self.nics.get(nic).map(|nic| nic.error_handler.clone());
        self.running = open.is_some().then_some(nic);
        Some(Call { job, open })
    }

    /// Ends what has run out of time.
    pub fn expire(&mut self, now: Timestamp) {
        for device in self.devices.iter_mut() {
            if device.nic.poll_timeout().is_some_and(|due| due <= now) {
                device.nic.handle_timeout(now);
            }
        }
    }

    /// When [`Agent::expire`] has something to do next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Timestamp> {
        self.devices
            .iter()
            .filter_map(|device| device.nic.poll_timeout())
            .min()
    }

    /// Destroys an idle or broken VI; what is left of it is to be dropped without the lock.
    pub(crate) fn destroy_vi(&mut self, handle: ViHandle) -> Result<Option<Vi>> {
        let (vi, device) = self.vi_and_nic(handle)?;
        device.nic.destroy_vi(vi.id)?;
        device.forget(vi.id);
        Ok(self.vis.remove(handle))
    }

    /// Destroys a completion queue; what is left of it is to be dropped without the lock.
    pub(crate) fn destroy_queue(
        &mut self,
        handle: CompletionQueueHandle,
    ) -> Result<Option<CompletionQueue>> {
        let queue = self.completion_queue(handle)?;
        let (device, id) = (queue.device, queue.id);
        let via = &mut self.devices[device].nic;
        via.destroy_completion_queue(id)?;
        Ok(self.completion_queues.remove(handle))
    }

    /// Closes a NIC, whose VIs are disconnected, with everything on it; what is left is to be
    /// dropped without the lock.
    pub(crate) fn close(&mut self, handle: NicHandle, farewell: Farewell) -> Result<Remains> {
        let nic = self.nic(handle)?;
        let (device, tags) = (nic.device, nic.tags.clone());
        let vis = self.vis_of(handle);
        let queues: Vec<_> = self
            .completion_queues
            .iter()
            .filter(|(_, queue)| queue.nic == handle)
            .map(|(queue, _)| queue)
            .collect();
        let regions: Vec<_> = self.devices[device]
            .nic
            .regions()
            .filter(|(_, region)| tags.contains(&region.attributes.tag))
            .map(|(region, registered)| (region, registered.address))
            .collect();

        let waits = &mut self.devices[device].waits;
        let is_own =
            |answer: &WaitAnswer| matches!(answer, WaitAnswer::Open { nic } if *nic == handle);
        let own: Vec<WaitId> = waits
            .iter()
            .filter(|(_, answer)| is_own(answer))
            .map(|(wait, _)| *wait)
            .collect();
        for wait in own {
            let device = &mut self.devices[device];
            device.end_wait(wait);
            device.nic.cancel_wait(wait);
        }
        let open: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, request)| request.nic == handle)
            .map(|(connection, request)| (connection, request.id))
            .collect();
        for (connection, request) in open {
            self.requests.remove(connection);
            let nic = &mut self.devices[device].nic;
            match farewell {
                Farewell::Said => nic.reject(request)?,
                Farewell::Unsaid => nic.abandon(request)?,
            }
        }

        let mut remains = Remains::default();
        for vi in vis {
            let id = self.vi(vi)?.id;
            self.devices[device].nic.disconnect(id)?;
            remains.vis.extend(self.destroy_vi(vi)?);
        }
        for queue in queues {
            remains.queues.extend(self.destroy_queue(queue)?);
        }
        let via = &mut self.devices[device].nic;
        for (region, address) in regions {
            via.deregister_memory(address, region)?;
        }
        for tag in tags {
            via.destroy_protection_tag(tag)?;
        }
        remains.nic = self.nics.remove(handle);
        Ok(remains)
    }

    /// Takes the oldest entry of a completion queue.
    pub(crate) fn take_entry(
        &mut self,
        queue: CompletionQueueHandle,
    ) -> Result<Option<CompletionEntry>> {
        let queue = self.completion_queue(queue)?;
        let (device, id) = (queue.device, queue.id);
        let device = &mut self.devices[device];
        while let Some(entry) = device.nic.completion_queue_done(id) {
            // A VI that is gone has no entries left; the semantics sees to it.
            if let Some(vi) = device.handle_of(entry.vi) {
                return Ok(Some(CompletionEntry {
                    vi,
                    queue: entry.queue,
                }));
            }
        }
        Ok(None)
    }
}

/// What an operation says about a VI handle that is dead.
#[cold]
pub(crate) fn no_vi() -> Error {
    dead("the VI handle names no VI")
}

/// Whether whoever has opened a NIC closes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Farewell {
    /// Requests that it has not answered are rejected.
    Said,
    /// It has died: they are left without an answer.
    Unsaid,
}

/// What is left of a closed NIC: handlers, that may hold anything.
#[derive(Default)]
pub(crate) struct Remains {
    nic: Option<OpenNic>,
    vis: Vec<Vi>,
    queues: Vec<CompletionQueue>,
}

impl Vi {
    #[inline]
    pub(crate) fn queue(&mut self, queue: Queue) -> &mut WorkQueue {
        &mut self.queues[queue as usize]
    }
}

impl OpenNic {
    pub(crate) fn new(device: usize) -> Self {
        Self {
            device,
            error_handler: None,
            tags: Vec::new(),
            any_tag: None,
        }
    }

    pub(crate) fn check_tag(&self, tag: ProtectionTag) -> Result<()> {
        if self.tags.contains(&tag) {
            return Ok(());
        }
        Err(Error::new(
            ReturnCode::InvalidPtag,
            "the protection tag is none of this NIC handle",
        ))
    }
}
