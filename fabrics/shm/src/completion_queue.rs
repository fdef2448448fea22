//! Completion queues: one place to learn of completions on many work queues.
//!
//! An entry is made when a descriptor completes. Sends complete in the call that posts them, as a
//! rule; receives complete when somebody looks at the slots that peers wrote. So a look at an empty
//! completion queue looks at the VIs that are bound to it: at those that have news, which
//! [`sources`] finds without looking at the others.

mod sources;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use viaduct_processes::lock::BiasedMutex;
use viaduct_provider::{
    CompletionEntry, CompletionHandler, CompletionQueueHandle, Error, NicHandle, Result, ReturnCode,
};

pub(crate) use self::sources::NewSource;
use self::sources::{Extent, Sources};
use crate::counting::Asleep;
use crate::deadline::Deadline;
use crate::events;
use crate::fork;
use crate::handle::{Kind, Slab, Slot};
use crate::nic::{self, Nic};
use crate::service::locked;
use crate::vi::Vi;
use crate::wait::{self, Parker, SERVICE_MARK, Spin, barrier_everywhere};

static QUEUES: Slab<CompletionQueue> = Slab::new(Kind::CompletionQueue);

/// Looks after which an armed queue with news that make no entries is left alone.
const LOOKS_BEFORE_ARMED: u32 = 64;

/// A completion queue.
#[derive(Default)]
pub(crate) struct CompletionQueue {
    /// Locked last of all.
    entries: BiasedMutex<Entries>,
    /// Locked before the sides of a VI.
    sources: BiasedMutex<Sources>,
    /// VIs with sends that wait for the peer, and which of their queues this is. No other lock is
    /// taken while it is held.
    waiting_sends: Mutex<Vec<(&'static Slot<Vi>, u64, usize)>>,
    /// Whether there are any.
    has_waiting_sends: AtomicBool,
    looks_in_vain: AtomicU32,
    /// Handlers that wait for an entry; changed with `entries` locked.
    armed: AtomicU32,
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

#[derive(Default)]
struct Control {
    nic: u64,
    capacity: u32,
    bound: u32,
}

fn dead() -> Error {
    let code = ReturnCode::InvalidParameter;
    fork::refusal(code).unwrap_or_else(|| Error::new(code, "the completion queue does not exist"))
}

/// Makes the queues of a child's parent unreachable.
pub(crate) fn forget_all() {
    QUEUES.forget_all();
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
    nic.completion_queues.add()?;
    let slot = QUEUES.take().ok_or_else(|| {
        nic.completion_queues.remove();
        Error::new(
            ReturnCode::Resource,
            "this process has no room for more completion queues: destroy one first",
        )
    })?;
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
    let nic = NicHandle::from_bits(control.nic);
    drop(control);
    // One that is being closed is not found any more.
    if let Some(nic) = nic.and_then(|nic| nic::find(nic).ok()) {
        nic.completion_queues.remove();
    }
    let waiters = {
        let mut entries = slot.object.entries.lock();
        entries.waiting = VecDeque::new();
        entries.notify.clear();
        slot.object.armed.store(0, Ordering::SeqCst);
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
    let mut asleep = Asleep::default();
    loop {
        if let Some(entry) = queue.done(handle)? {
            return Ok(entry);
        }
        if deadline.has_passed() {
            return Err(Error::new(ReturnCode::Timeout, "no entry came in time"));
        }
        if spin.again() {
            continue;
        }
        let mut parker = Parker::take(wait::doorbells());
        queue.entries.lock().waiters |= parker.bit();
        queue.set_sleeper(parker.mark());
        parker.announce();
        let is_quiet = queue.look(Extent::All);
        let found = queue.done(handle);
        if is_quiet && matches!(found, Ok(None)) {
            asleep.sleep(&parker, deadline.remaining(), || queue.open_nic());
        }
        queue.clear_sleeper(parker.mark());
        queue.rearm();
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
    queue.look(Extent::Told);
    let mut entries = queue.entries.lock();
    if entries.handle != handle.bits() {
        return Err(dead());
    }
    entries.notify.push_back(handler);
    entries.fire();
    queue
        .armed
        .store(entries.notify.len() as u32, Ordering::SeqCst);
    drop(entries);
    queue.rearm();
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

    fn open_nic(&self) -> Option<Arc<Nic>> {
        NicHandle::from_bits(self.nic()).and_then(|nic| nic::find(nic).ok())
    }

    /// Appends an entry, and tells who waits for one.
    #[inline]
    pub(crate) fn push(&self, entry: CompletionEntry) {
        let mut entries = self.entries.lock();
        entries.waiting.push_back(entry);
        if entries.waiters != 0 || !entries.notify.is_empty() {
            let waiters = std::mem::take(&mut entries.waiters);
            entries.fire();
            self.armed
                .store(entries.notify.len() as u32, Ordering::SeqCst);
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
                self.look(Extent::Told);
            }
        }
        wait::looked_in_vain(&self.looks_in_vain);
        Ok(None)
    }

    /// Looks at the VIs for what peers wrote. Whether nothing was left that it knows of.
    #[inline]
    fn look(&self, extent: Extent) -> bool {
        if self.has_waiting_sends.load(Ordering::Relaxed) {
            self.push_waiting_sends();
        }
        let mut sources = self.sources.lock();
        let broken = sources.look(extent);
        let is_quiet = sources.is_quiet();
        drop(sources);
        if let Some(broken) = broken {
            let vi = &broken.slot.object;
            vi.break_source(broken.vi, broken.connection);
            return false;
        }
        is_quiet
    }

    /// A VI has sends that wait, which each look pushes until they do no more.
    #[cold]
    pub(crate) fn list_waiting(&self, slot: &'static Slot<Vi>, vi: u64, which: usize) {
        let mut waiting = locked(&self.waiting_sends);
        waiting.push((slot, vi, which));
        self.has_waiting_sends.store(true, Ordering::Relaxed);
    }

    #[cold]
    fn push_waiting_sends(&self) {
        let mut waiting = std::mem::take(&mut *locked(&self.waiting_sends));
        waiting.retain(|(slot, vi, which)| slot.object.push_listed(*vi, *which));
        let mut now = locked(&self.waiting_sends);
        // What was listed meanwhile comes after.
        waiting.append(&mut now);
        *now = waiting;
        self.has_waiting_sends
            .store(!now.is_empty(), Ordering::Relaxed);
    }

    fn set_sleeper(&self, mark: u32) {
        self.sources.lock().set_sleeper(mark);
    }

    fn clear_sleeper(&self, mark: u32) {
        self.sources.lock().clear_sleeper(mark);
    }

    /// Has whoever sends next have the service thread look, while a handler waits for an entry.
    pub(crate) fn rearm(&self) {
        if self.is_armed() {
            self.set_sleeper(SERVICE_MARK);
            barrier_everywhere();
            // A peer that never stops keeps nobody here; all others have had their turn then.
            for _ in 0..LOOKS_BEFORE_ARMED {
                if self.look(Extent::All) || !self.is_armed() {
                    return;
                }
            }
        }
    }

    /// Whether a handler waits for an entry.
    fn is_armed(&self) -> bool {
        // Not under the lock, which would take its bias from the thread that polls.
        self.armed.load(Ordering::SeqCst) != 0
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
    pub(crate) fn add_source(&self, source: NewSource) {
        self.sources.lock().add(source);
        // A thread that sleeps here has left no mark with the new VI.
        let waiters = std::mem::take(&mut self.entries.lock().waiters);
        wait::doorbells().wake_all(waiters);
    }

    /// A connection of the VI has no more news.
    pub(crate) fn remove_source(&self, object: &Vi, vi: u64, connection: u64) {
        let link = self.sources.lock().remove(object, vi, connection);
        // The last to hold it unmaps its memory.
        drop(link);
    }
}
