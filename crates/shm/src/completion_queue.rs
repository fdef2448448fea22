//! Completion queues: one place to learn of completions on many work queues.
//!
//! An entry is made when a descriptor completes. Sends complete in the call that posts them, as a
//! rule; receives complete when somebody looks at the slots that peers wrote. So a look at an empty
//! completion queue looks at the VIs that are bound to it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use viaduct_fabric::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, Error, NicHandle, Result, ReturnCode,
};

use crate::events;
use crate::handle::{Slab, Slot};
use crate::lock::BiasedMutex;
use crate::nic::{self, Nic};
use crate::vi::Vi;
use crate::wait::{self, Deadline, Parker, SERVICE_MARK, Spin, barrier_everywhere};

static QUEUES: Slab<CompletionQueue> = Slab::new();

/// Messages that one look takes from one VI, so that none keeps the others waiting.
const MESSAGES_A_LOOK: u32 = 16;
/// Entries that are enough for one look.
const ENTRIES_A_LOOK: usize = 32;

/// A completion queue.
#[derive(Default)]
pub(crate) struct CompletionQueue {
    /// Locked last of all.
    entries: BiasedMutex<Entries>,
    /// Locked before the sides of a VI.
    sources: BiasedMutex<Sources>,
    control: Mutex<Control>,
}

#[derive(Default)]
struct Entries {
    handle: u64,
    nic: Option<NicHandle>,
    waiting: VecDeque<CompletionEntry>,
    notify: VecDeque<CompletionHandler>,
    /// Parkers of threads that wait for an entry.
    waiters: u64,
}

/// Connected VIs that are bound here.
#[derive(Default)]
struct Sources {
    vis: Vec<(&'static Slot<Vi>, u64)>,
    turn: usize,
}

#[derive(Default)]
struct Control {
    nic: u64,
    capacity: u32,
    bound: u32,
}

fn dead() -> Error {
    Error::new(
        ReturnCode::InvalidParameter,
        "the completion queue does not exist",
    )
}

/// The living queue of a handle.
pub(crate) fn find(queue: CompletionQueueHandle) -> Result<&'static Slot<CompletionQueue>> {
    QUEUES.find(queue.bits()).ok_or_else(dead)
}

fn check_entries(nic: &Nic, entries: u32) -> Result<()> {
    let limit = nic.attributes.max_completion_queue_entries;
    if entries == 0 {
        return Err(Error::new(
            ReturnCode::InvalidParameter,
            "a completion queue has at least one entry",
        ));
    }
    if entries > limit {
        return Err(Error::new(
            ReturnCode::Resource,
            format!("a completion queue has at most {limit} entries"),
        ));
    }
    Ok(())
}

/// Makes a queue.
pub(crate) fn create(nic: &Nic, entries: u32) -> Result<CompletionQueueHandle> {
    check_entries(nic, entries)?;
    let none = || {
        Error::new(
            ReturnCode::Resource,
            "all completion queues exist: destroy one first",
        )
    };
    let slot = QUEUES.take().ok_or_else(none)?;
    let queue = &slot.object;
    *queue.control() = Control {
        nic: nic.handle.bits(),
        capacity: entries,
        bound: 0,
    };
    let handle = slot.revive();
    let mut inner = queue.entries.lock();
    inner.handle = handle;
    inner.nic = Some(nic.handle);
    CompletionQueueHandle::from_bits(handle).ok_or_else(dead)
}

/// Destroys a queue that no VI is bound to.
pub(crate) fn destroy(handle: CompletionQueueHandle) -> Result<()> {
    let slot = find(handle)?;
    let control = slot.object.control();
    if control.bound > 0 {
        return Err(Error::new(
            ReturnCode::Resource,
            format!(
                "{} work queues are bound to the completion queue",
                control.bound
            ),
        ));
    }
    if !slot.kill(handle.bits()) {
        return Err(dead());
    }
    drop(control);
    let waiters = {
        let mut entries = slot.object.entries.lock();
        entries.waiting = VecDeque::new();
        entries.notify.clear();
        entries.handle = 0;
        std::mem::take(&mut entries.waiters)
    };
    wait::doorbells().wake_all(waiters);
    QUEUES.give_back(slot);
    Ok(())
}

/// Destroys every queue of a NIC; its VIs are gone.
pub(crate) fn destroy_all(nic: NicHandle) {
    for slot in QUEUES.living() {
        if slot.object.control().nic == nic.bits()
            && let Some(handle) = CompletionQueueHandle::from_bits(slot.handle())
        {
            let _ = destroy(handle);
        }
    }
}

/// Changes how many entries a queue has.
pub(crate) fn resize(handle: CompletionQueueHandle, entries: u32) -> Result<()> {
    let queue = &find(handle)?.object;
    let nic = NicHandle::from_bits(queue.control().nic).ok_or_else(dead)?;
    check_entries(&*nic::find(nic)?, entries)?;
    let waiting = queue.entries.lock().waiting.len();
    if waiting > entries as usize {
        return Err(Error::new(
            ReturnCode::Resource,
            format!("{waiting} entries wait in the completion queue: take them first"),
        ));
    }
    queue.control().capacity = entries;
    Ok(())
}

/// Takes the oldest entry.
#[inline]
pub(crate) fn done(handle: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
    find(handle)?.object.done(handle)
}

/// Waits for an entry and takes it.
pub(crate) fn wait(
    handle: CompletionQueueHandle,
    limit: Option<Duration>,
) -> Result<CompletionEntry> {
    let queue = &find(handle)?.object;
    if let Some(entry) = queue.done(handle)? {
        return Ok(entry);
    }
    let deadline = Deadline::after(limit);
    let mut spin = Spin::new();
    loop {
        if let Some(entry) = queue.done(handle)? {
            return Ok(entry);
        }
        if deadline.is_over() {
            return Err(Error::new(ReturnCode::Timeout, "no entry came in time"));
        }
        if spin.again() {
            continue;
        }
        let mut parker = Parker::take(wait::doorbells());
        queue.entries.lock().waiters |= parker.bit();
        queue.set_sleeper(parker.mark());
        parker.announce();
        let found = queue.done(handle);
        if matches!(found, Ok(None)) {
            parker.sleep(deadline.left());
        }
        queue.clear_sleeper(parker.mark());
        if queue.is_armed() {
            queue.set_sleeper(SERVICE_MARK);
        }
        let others = {
            let mut entries = queue.entries.lock();
            entries.waiters &= !parker.bit();
            std::mem::take(&mut entries.waiters)
        };
        // Whoever else waits here may have lost its mark to this thread.
        wait::doorbells().wake_all(others);
        if let Some(entry) = found? {
            return Ok(entry);
        }
        spin = Spin::new();
    }
}

/// Arms a handler for one entry.
pub(crate) fn notify(handle: CompletionQueueHandle, handler: CompletionHandler) -> Result<()> {
    let queue = &find(handle)?.object;
    queue.look(handle);
    let mut entries = queue.entries.lock();
    if entries.handle != handle.bits() {
        return Err(dead());
    }
    entries.notify.push_back(handler);
    entries.fire();
    let is_armed = !entries.notify.is_empty();
    drop(entries);
    if is_armed {
        // Whoever sends next has the service thread look.
        queue.set_sleeper(SERVICE_MARK);
        barrier_everywhere();
        queue.look(handle);
    }
    Ok(())
}

impl Entries {
    fn fire(&mut self) {
        while !self.waiting.is_empty() {
            let (Some(handler), Some(nic)) = (self.notify.pop_front(), self.nic) else {
                return;
            };
            let Some(entry) = self.waiting.pop_front() else {
                return;
            };
            events::dispatch(nic.bits(), move || handler(nic, entry));
        }
    }
}

impl CompletionQueue {
    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The NIC it belongs to, if it is alive under this handle.
    pub(crate) fn nic(&self) -> u64 {
        self.control().nic
    }

    /// Appends an entry, and tells who waits for one.
    #[inline]
    pub(crate) fn push(&self, entry: CompletionEntry) {
        let mut entries = self.entries.lock();
        entries.waiting.push_back(entry);
        if entries.waiters != 0 || !entries.notify.is_empty() {
            let waiters = std::mem::take(&mut entries.waiters);
            entries.fire();
            drop(entries);
            wait::doorbells().wake_all(waiters);
        }
    }

    #[inline]
    fn done(&self, handle: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        for looked in [false, true] {
            let mut entries = self.entries.lock();
            if entries.handle != handle.bits() {
                return Err(dead());
            }
            if let Some(entry) = entries.waiting.pop_front() {
                return Ok(Some(entry));
            }
            drop(entries);
            if !looked {
                self.look(handle);
            }
        }
        Ok(None)
    }

    /// Looks at the VIs for what peers wrote.
    pub(crate) fn look(&self, _handle: CompletionQueueHandle) {
        let mut sources = self.sources.lock();
        let count = sources.vis.len();
        let mut found = 0;
        for step in 0..count {
            let place = (sources.turn + step) % count;
            let (slot, vi) = sources.vis[place];
            found += Vi::look(slot, vi, MESSAGES_A_LOOK) as usize;
            if found >= ENTRIES_A_LOOK {
                sources.turn = (place + 1) % count;
                return;
            }
        }
    }

    fn set_sleeper(&self, mark: u32) {
        for (slot, vi) in self.sources.lock().vis.iter().copied() {
            slot.object.set_sleeper(vi, mark);
        }
    }

    fn clear_sleeper(&self, mark: u32) {
        for (slot, vi) in self.sources.lock().vis.iter().copied() {
            slot.object.clear_sleeper(vi, mark);
        }
    }

    /// Whether a handler waits for an entry.
    pub(crate) fn is_armed(&self) -> bool {
        !self.entries.lock().notify.is_empty()
    }

    /// Binds a work queue.
    pub(crate) fn bind(&self) {
        self.control().bound += 1;
    }

    /// Unbinds a work queue of a VI that is gone, with its entries.
    pub(crate) fn unbind(&self, vi: u64) {
        self.control().bound -= 1;
        self.entries
            .lock()
            .waiting
            .retain(|entry| entry.vi.bits() != vi);
    }

    /// A VI that is bound here can have news from now on.
    pub(crate) fn add_source(&self, slot: &'static Slot<Vi>, vi: u64) {
        let mut sources = self.sources.lock();
        if !sources.vis.iter().any(|(_, known)| *known == vi) {
            sources.vis.push((slot, vi));
        }
        drop(sources);
        // A thread that sleeps here has left no mark with the new VI.
        let waiters = std::mem::take(&mut self.entries.lock().waiters);
        wait::doorbells().wake_all(waiters);
    }

    /// The VI has no more news.
    pub(crate) fn remove_source(&self, vi: u64) {
        let mut sources = self.sources.lock();
        sources.vis.retain(|(_, known)| *known != vi);
        sources.turn = 0;
    }
}
