//! The state of an agent: the NICs, and everything that has a handle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use viaduct_fabric::via::{
    CompletionQueueId, ConnectFailure, DataSegment, HostAddress, MemoryHandle, Nic, NicAttributes,
    ProtectionTag, Queue, RemoteViAttributes, RequestId, Timestamp, ViId, WaitId,
};
use viaduct_fabric::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle, DescriptorHandler,
    Error, ErrorCode, ErrorHandler, IncomingRequest, NicHandle, Result, ReturnCode, ViHandle,
};

use crate::job::{Call, Job};
use crate::memory::{Place, SharedBlock};
use crate::refusal::{OrRefuse, dead};

/// What a runtime's lock protects: NICs, and everything on them that has a handle.
pub struct Agent {
    /// The NICs.
    pub devices: Vec<Device>,
    pub(crate) nics: BTreeMap<NicHandle, Box<OpenNic>>,
    pub(crate) vis: BTreeMap<ViHandle, Box<Vi>>,
    pub(crate) completion_queues: BTreeMap<CompletionQueueHandle, CompletionQueue>,
    pub(crate) requests: BTreeMap<ConnectionHandle, Request>,
    /// For the provider's thread, oldest first.
    pub(crate) jobs: VecDeque<Job>,
    /// Errors that wait in `jobs` and that a peer can cause without end: told once.
    pub(crate) told: BTreeSet<(ViHandle, ErrorCode)>,
    /// Memory that the fabric allocated, by address.
    pub(crate) blocks: BTreeMap<usize, SharedBlock>,
    /// The NIC whose handler is running.
    pub running: Option<NicHandle>,
    last_handle: u64,
}

/// One NIC of the fabric. Several openings of it are several handles.
pub struct Device {
    pub(crate) name: String,
    /// Its host's address.
    pub address: HostAddress,
    /// Its semantics.
    pub nic: Nic,
    pub(crate) attributes: Arc<NicAttributes>,
    /// The handles of VIs, by the semantics' own names for them.
    pub(crate) vi_handles: BTreeMap<ViId, ViHandle>,
    /// Waits that have not been answered, and those that have.
    pub(crate) waits: BTreeMap<WaitId, WaitAnswer>,
}

/// What became of a wait for a client.
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
    pub(crate) tags: BTreeSet<ProtectionTag>,
    pub(crate) regions: BTreeMap<MemoryHandle, Region>,
    pub(crate) vis: BTreeSet<ViHandle>,
    pub(crate) queues: BTreeSet<CompletionQueueHandle>,
}

/// A registered range. The semantics has it too; here it is looked up for descriptors.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) tag: ProtectionTag,
}

impl Region {
    pub(crate) fn covers(&self, address: u64, length: u64) -> bool {
        address >= self.address
            && length <= self.length
            && address - self.address <= self.length - length
    }
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

/// What became of it.
pub(crate) type Answer = std::result::Result<RemoteViAttributes, ConnectFailure>;

/// The descriptors of a work queue, beside what the semantics knows of them.
#[derive(Default)]
pub(crate) struct WorkQueue {
    pub(crate) is_bound: bool,
    /// Not complete, in post order.
    pub(crate) pending: VecDeque<Posted>,
    /// Complete and not taken, in post order.
    pub(crate) completed: VecDeque<Completed>,
    pub(crate) notifies: VecDeque<DescriptorHandler>,
}

#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) place: Place,
    /// Covers the descriptor, as long as it is alive.
    pub(crate) handle: MemoryHandle,
}

#[derive(Clone, Copy)]
pub(crate) struct Completed {
    pub(crate) place: Place,
    pub(crate) is_error: bool,
}

pub(crate) struct CompletionQueue {
    pub(crate) nic: NicHandle,
    pub(crate) device: usize,
    pub(crate) id: CompletionQueueId,
    pub(crate) notifies: VecDeque<CompletionHandler>,
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

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Device")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// With these NICs.
    #[must_use]
    pub fn new(devices: Vec<Device>) -> Self {
        Self {
            devices,
            nics: BTreeMap::new(),
            vis: BTreeMap::new(),
            completion_queues: BTreeMap::new(),
            requests: BTreeMap::new(),
            jobs: VecDeque::new(),
            told: BTreeSet::new(),
            blocks: BTreeMap::new(),
            running: None,
            last_handle: 0,
        }
    }

    /// A number that no handle of this fabric had before.
    pub(crate) fn next_handle<H>(&mut self, make: fn(u64) -> Option<H>) -> H {
        loop {
            self.last_handle = self.last_handle.wrapping_add(1);
            if let Some(handle) = make(self.last_handle) {
                return handle;
            }
        }
    }

    pub(crate) fn nic(&mut self, nic: NicHandle) -> Result<&mut OpenNic> {
        self.nics
            .get_mut(&nic)
            .map(|nic| &mut **nic)
            .ok_or_else(|| dead("the NIC handle is not open"))
    }

    /// The device of an open NIC.
    pub(crate) fn device(&mut self, nic: NicHandle) -> Result<&mut Device> {
        let device = self.nic(nic)?.device;
        Ok(&mut self.devices[device])
    }

    pub(crate) fn vi(&mut self, vi: ViHandle) -> Result<&mut Vi> {
        self.vis
            .get_mut(&vi)
            .map(|vi| &mut **vi)
            .ok_or_else(|| dead("the VI handle names no VI"))
    }

    /// A VI, and the semantics that has it.
    pub(crate) fn vi_and_nic(&mut self, vi: ViHandle) -> Result<(&mut Vi, &mut Device)> {
        let vi = self
            .vis
            .get_mut(&vi)
            .ok_or_else(|| dead("the VI handle names no VI"))?;
        let device = &mut self.devices[vi.device];
        Ok((vi, device))
    }

    pub(crate) fn completion_queue(
        &mut self,
        queue: CompletionQueueHandle,
    ) -> Result<&mut CompletionQueue> {
        self.completion_queues
            .get_mut(&queue)
            .ok_or_else(|| dead("the completion queue handle names no completion queue"))
    }

    /// Which NIC has a VI, and what the semantics calls it there.
    #[must_use]
    pub fn place_of(&self, vi: ViHandle) -> Option<(usize, ViId)> {
        self.vis.get(&vi).map(|vi| (vi.device, vi.id))
    }

    /// The handle of a VI of a NIC.
    #[must_use]
    pub fn handle_of(&self, device: usize, vi: ViId) -> Option<ViHandle> {
        self.devices.get(device)?.vi_handles.get(&vi).copied()
    }

    /// Whether segments lie in memory that is registered now, with the tag of a VI.
    #[must_use]
    pub fn may_touch(&self, vi: ViHandle, segments: &[DataSegment]) -> bool {
        let Some(vi) = self.vis.get(&vi) else {
            return false;
        };
        let information = self.devices[vi.device].nic.query_vi(vi.id);
        let (Ok(information), Some(nic)) = (information, self.nics.get(&vi.nic)) else {
            return false;
        };
        segments.iter().all(|segment| {
            let (handle, length) = (segment.handle, segment.length.into());
            length == 0 || nic.permits(handle, information.attributes.tag, segment.address, length)
        })
    }

    /// Whether a handler waits to be called.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
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
        let open = self.nics.get(&nic).map(|nic| nic.error_handler.clone());
        self.running = open.is_some().then_some(nic);
        Some(Call { job, open })
    }

    /// Ends what has run out of time.
    pub fn expire(&mut self, now: Timestamp) {
        for device in &mut self.devices {
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
    pub(crate) fn destroy_vi(&mut self, handle: ViHandle) -> Result<Option<Box<Vi>>> {
        let (vi, device) = self.vi_and_nic(handle)?;
        device.nic.destroy_vi(vi.id).or_refuse()?;
        device.vi_handles.remove(&vi.id);
        let nic = vi.nic;
        self.nic(nic)?.vis.remove(&handle);
        Ok(self.vis.remove(&handle))
    }

    /// Destroys a completion queue; what is left of it is to be dropped without the lock.
    pub(crate) fn destroy_queue(
        &mut self,
        handle: CompletionQueueHandle,
    ) -> Result<Option<CompletionQueue>> {
        let queue = self.completion_queue(handle)?;
        let (nic, device, id) = (queue.nic, queue.device, queue.id);
        let via = &mut self.devices[device].nic;
        via.destroy_completion_queue(id).or_refuse()?;
        self.nic(nic)?.queues.remove(&handle);
        Ok(self.completion_queues.remove(&handle))
    }

    /// Closes a NIC, whose VIs are disconnected, with everything on it; what is left is to be
    /// dropped without the lock.
    pub(crate) fn close(&mut self, handle: NicHandle) -> Result<Remains> {
        let nic = self.nic(handle)?;
        let (device, vis) = (nic.device, nic.vis.clone());
        let (queues, tags) = (nic.queues.clone(), nic.tags.clone());
        let regions: Vec<_> = nic.regions.iter().map(|(h, r)| (*h, r.address)).collect();

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
            device.waits.remove(&wait);
            device.nic.cancel_wait(wait);
        }
        let open: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, request)| request.nic == handle)
            .map(|(connection, request)| (*connection, request.id))
            .collect();
        for (connection, request) in open {
            self.requests.remove(&connection);
            self.devices[device].nic.reject(request).or_refuse()?;
        }

        let mut remains = Remains::default();
        for vi in vis {
            let id = self.vi(vi)?.id;
            self.devices[device].nic.disconnect(id).or_refuse()?;
            remains.vis.extend(self.destroy_vi(vi)?.map(|vi| *vi));
        }
        for queue in queues {
            remains.queues.extend(self.destroy_queue(queue)?);
        }
        let via = &mut self.devices[device].nic;
        for (region, address) in regions {
            via.deregister_memory(address, region).or_refuse()?;
        }
        for tag in tags {
            via.destroy_protection_tag(tag).or_refuse()?;
        }
        remains.nic = self.nics.remove(&handle);
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
            if let Some(vi) = device.vi_handles.get(&entry.vi) {
                return Ok(Some(CompletionEntry {
                    vi: *vi,
                    queue: entry.queue,
                }));
            }
        }
        Ok(None)
    }
}

/// What is left of a closed NIC: handlers, that may hold anything.
#[derive(Default)]
pub(crate) struct Remains {
    nic: Option<Box<OpenNic>>,
    vis: Vec<Vi>,
    queues: Vec<CompletionQueue>,
}

impl Device {
    /// A NIC of a name, with an address and its semantics.
    #[must_use]
    pub fn new(
        name: String,
        address: HostAddress,
        nic: Nic,
        attributes: Arc<NicAttributes>,
    ) -> Self {
        Self {
            name,
            address,
            nic,
            attributes,
            vi_handles: BTreeMap::new(),
            waits: BTreeMap::new(),
        }
    }
}

impl Vi {
    pub(crate) fn queue(&mut self, queue: Queue) -> &mut WorkQueue {
        &mut self.queues[queue as usize]
    }
}

impl OpenNic {
    pub(crate) fn new(device: usize) -> Self {
        Self {
            device,
            error_handler: None,
            tags: BTreeSet::new(),
            regions: BTreeMap::new(),
            vis: BTreeSet::new(),
            queues: BTreeSet::new(),
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

    pub(crate) fn check_region(&self, handle: MemoryHandle) -> Result<()> {
        if self.regions.contains_key(&handle) {
            return Ok(());
        }
        Err(dead("the memory handle names no region of this NIC handle"))
    }

    /// The region of a handle, if `length` bytes at `address` lie inside and `tag` is its tag.
    pub(crate) fn permits(
        &self,
        handle: MemoryHandle,
        tag: ProtectionTag,
        address: u64,
        length: u64,
    ) -> bool {
        self.regions
            .get(&handle)
            .is_some_and(|region| region.tag == tag && region.covers(address, length))
    }
}
