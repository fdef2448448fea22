//! An open NIC.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use viaduct_core::{NicAttributes, ReliabilityLevel, ReliabilityLevels, Timespan};
use viaduct_provider::{
    AsynchronousError, Error, ErrorCode, ErrorHandler, NicHandle, Result, ReturnCode, ViHandle,
};

use crate::counting::Counting;
use crate::handle::{Kind, Slab};
use crate::host::Host;
use crate::notice::CHANNELS;
use crate::regions::RegionTable;
use crate::transfer::Thresholds;
use crate::{completion_queue, events, fork, vi};

/// The names under which programs open this fabric.
pub(crate) const DEVICES: [&str; 2] = ["viaduct0", "shm"];

/// Calls of handlers that wait for their turn, from which on errors are not told.
const BACKLOG_MAX: usize = 1 << 16;

const VIS_MAX: u32 = 1 << 16;

// Each VI of a NIC can have a bit in the notices of one peer, whichever end accepted.
const _: () = assert!(CHANNELS >= 2 * VIS_MAX);

/// An open NIC: limits, registered memory, and who is told of errors.
pub(crate) struct Nic {
    pub(crate) handle: NicHandle,
    pub(crate) attributes: Arc<NicAttributes>,
    pub(crate) regions: Arc<RegionTable>,
    pub(crate) thresholds: Arc<Thresholds>,
    /// Of connections that are over, and of calls that wait.
    pub(crate) counting: Counting,
    pub(crate) vis: Population,
    pub(crate) completion_queues: Population,
    handler: Mutex<Option<ErrorHandler>>,
}

/// How many objects of a kind a NIC has, of those that it may have.
pub(crate) struct Population {
    what: &'static str,
    limit: u32,
    alive: AtomicU32,
}

impl Population {
    const fn new(what: &'static str, limit: u32) -> Self {
        Self {
            what,
            limit,
            alive: AtomicU32::new(0),
        }
    }

    /// Counts one more.
    ///
    /// # Errors
    ///
    /// `Resource` at the limit.
    pub(crate) fn add(&self) -> Result<()> {
        // Relaxed: a number, which guards no other memory.
        let added = self
            .alive
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |alive| {
                (alive < self.limit).then_some(alive + 1)
            });
        added.map(drop).map_err(|alive| {
            let what = self.what;
            Error::new(
                ReturnCode::Resource,
                format!("the NIC has {alive} {what}, and may have no more: destroy one first"),
            )
        })
    }

    /// One is gone.
    pub(crate) fn remove(&self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Place(Mutex<Option<Arc<Nic>>>);

static NICS: Slab<Place> = Slab::new(Kind::Nic);

fn dead() -> Error {
    let code = ReturnCode::InvalidParameter;
    fork::refusal(code).unwrap_or_else(|| Error::new(code, "the NIC is not open"))
}

/// Makes the NICs of a child's parent unreachable.
pub(crate) fn forget_all() {
    NICS.forget_all();
}

/// The limits of this fabric.
fn attributes() -> NicAttributes {
    let reliable = ReliabilityLevels::NONE
        .with(ReliabilityLevel::ReliableDelivery)
        .with(ReliabilityLevel::ReliableReception);
    NicAttributes {
        name: DEVICES[0].into(),
        max_vis: VIS_MAX,
        max_descriptors_per_queue: 1 << 14,
        max_memory_regions: crate::regions::REGIONS_MAX - 1,
        max_discriminator_bytes: 32,
        reliability_levels: reliable.with(ReliabilityLevel::Unreliable),
        rdma_read_levels: reliable,
        connect_grace: Timespan::ZERO,
        ..NicAttributes::default()
    }
}

/// Opens a NIC.
pub(crate) fn open(device: &str) -> Result<NicHandle> {
    if !DEVICES.contains(&device) {
        let names = DEVICES.join(", ");
        return Err(Error::new(
            ReturnCode::InvalidParameter,
            format!("there is no device {device:?}: this fabric has {names}"),
        ));
    }
    let host = Host::get()?;
    let no_more = |reason: String| Error::new(ReturnCode::Resource, reason);
    let attributes = Arc::new(attributes());
    let regions = RegionTable::new(Arc::clone(&attributes), Arc::clone(host.shared()))
        .map_err(|error| no_more(format!("no memory for the table of regions: {error}")))?;
    let slot = NICS
        .take()
        .ok_or_else(|| no_more("too many NICs are open: close one first".into()))?;
    let bits = slot.revive();
    let handle = NicHandle::from_bits(bits).ok_or_else(dead)?;
    let nic = Nic {
        handle,
        vis: Population::new("VIs", attributes.max_vis),
        completion_queues: Population::new("completion queues", attributes.max_completion_queues),
        attributes,
        regions: Arc::new(regions),
        thresholds: Thresholds::of_process(),
        counting: Counting::default(),
        handler: Mutex::new(None),
    };
    *slot.object.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(nic));
    Ok(handle)
}

/// The open NIC of a handle.
pub(crate) fn find(handle: NicHandle) -> Result<Arc<Nic>> {
    let slot = NICS.find(handle.bits()).ok_or_else(dead)?;
    let place = slot.object.0.lock().unwrap_or_else(PoisonError::into_inner);
    place
        .as_ref()
        .filter(|nic| nic.handle == handle)
        .map(Arc::clone)
        .ok_or_else(dead)
}

/// Closes a NIC, with everything that was made on it.
pub(crate) fn close(handle: NicHandle) -> Result<()> {
    let nic = find(handle)?;
    let slot = NICS.find(handle.bits()).ok_or_else(dead)?;
    if !slot.kill(handle.bits()) {
        return Err(dead());
    }
    vi::destroy_all(handle);
    completion_queue::destroy_all(handle);
    *slot.object.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    nic.set_handler(Some(Arc::new(|_| {})));
    if let Ok(host) = Host::get() {
        host.retire_nic(handle.bits());
    }
    events::drain(handle.bits());
    NICS.give_back(slot);
    Ok(())
}

impl Nic {
    pub(crate) fn set_handler(&self, handler: Option<ErrorHandler>) {
        *self.handler.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    /// Has the error handler called, by the thread for it.
    pub(crate) fn report(&self, error: AsynchronousError) {
        // A peer can cause the others without end, and faster than a handler takes them.
        if error.code != ErrorCode::ConnectionLost && events::backlog() >= BACKLOG_MAX {
            return;
        }
        let handler = self
            .handler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        events::dispatch(self.handle.bits(), move || match handler {
            Some(handler) => handler(&error),
            None => log(&error),
        });
    }
}

/// What a program that set no handler gets to see.
fn log(error: &AsynchronousError) {
    let vi = error.vi.map_or(0, ViHandle::bits);
    eprintln!(
        "viaduct: {:?} on VI {vi:#x} of NIC {:#x}",
        error.code,
        error.nic.bits()
    );
}
