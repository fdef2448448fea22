//! What a process holds: all objects behind one lock, and the calls of the interface.

mod calls;
pub(crate) mod fork;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
pub(crate) use viaduct_core::verbs::Key;
use viaduct_core::verbs::error::{full, gone};
use viaduct_core::verbs::flags::access;
use viaduct_core::verbs::notices::{Destruction, Owner};
use viaduct_core::verbs::{Completion, Error, Objects, QueuePairType, Result, check};
use viaduct_processes::barrier::{barrier_everywhere, has_barrier};
use viaduct_processes::lock::{self, BiasedMutex, OwnGuard};
use viaduct_processes::rendezvous::{Listener, Place};

use crate::carrier::{Counter, Rings, now};
use crate::counters;
use crate::device::{self, Device};
use crate::error::of_system;
use crate::faults::{self, Strikes};
use crate::limits;
use crate::link::{self, Link, OwnTables};
use crate::memory::Scratch;
use crate::service;
use crate::shared::Pages;
use crate::tables::{PairTable, RegionTable};

pub(crate) use self::calls::*;

/// Everything.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) place: Place,
    pub(crate) block: u32,
    pub(crate) listener: Arc<Listener>,
    pub(crate) objects: Objects<Rings>,
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) links_by_block: BTreeMap<u32, usize>,
    /// Peers that have connected and not said who they are.
    pub(crate) strangers: Vec<Arc<OwnedFd>>,
    /// Wakes the service thread.
    pub(crate) wake: Arc<OwnedFd>,
    /// Scratch memory.
    pub(crate) pieces: Scratch,
    /// Looks for completions in vain, and at which of them sends are next gone on with.
    pub(crate) looks: u64,
    pub(crate) advance_at: u64,
    /// Whether the last look was in vain, and nothing came at it.
    pub(crate) is_waiting: bool,
    /// The link that the last short message came over.
    pub(crate) near: usize,
    /// Pages that peers map, if that was asked for.
    pub(crate) pages: Option<Box<Pages>>,
    /// Faults on request.
    pub(crate) faults: Option<Box<Strikes>>,
}

/// The engine, behind a lock that costs nothing while one thread uses it.
type Lock = BiasedMutex<Option<Box<Engine>>>;
type Held = lock::Guard<'static, Option<Box<Engine>>>;

static ENGINE: OnceLock<Lock> = OnceLock::new();
/// Whoever waits for an acknowledgement of events looks again at each.
static ACKNOWLEDGED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
/// Whether the service thread looks by itself now and then.
pub(crate) static IS_TICKING: AtomicBool = AtomicBool::new(false);
/// Whether nobody has looked after sends under way since the service thread last asked: whoever
/// looks for completions in vain does, so that the service thread need not take the lock away.
pub(crate) static IS_TICK_DUE: AtomicBool = AtomicBool::new(false);

/// The engine, if there is one.
pub(crate) struct Guard(Held);

impl std::ops::Deref for Guard {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        self.0.as_ref().expect("checked when it was made")
    }
}

impl std::ops::DerefMut for Guard {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine {
        self.0.as_mut().expect("checked when it was made")
    }
}

#[inline]
pub(crate) fn engine() -> Result<Guard> {
    let guard = ENGINE.get().ok_or_else(gone)?.lock();
    if guard.is_none() {
        return Err(gone());
    }
    Ok(Guard(guard))
}

/// The engine of a thread that has the lock's bias, for ways that take few steps.
pub(crate) struct Own(OwnGuard<'static, Option<Box<Engine>>>);

impl Own {
    #[inline(always)]
    pub(crate) fn get(&mut self) -> Option<&mut Engine> {
        self.0.as_deref_mut()
    }
}

#[inline(always)]
pub(crate) fn own_engine() -> Option<Own> {
    Some(Own(ENGINE.get()?.lock_own()?))
}

/// Destroys something as soon as the events about it are acknowledged that were handed out.
pub(crate) fn destroy(
    mut act: impl FnMut(&mut Objects<Rings>) -> Result<Destruction>,
) -> Result<()> {
    loop {
        let mut engine = engine()?;
        if act(&mut engine.objects)? == Destruction::Done {
            return Ok(());
        }
        let (lock, condition) = &ACKNOWLEDGED;
        let waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Not before: whoever acknowledges after this is heard.
        drop(engine);
        drop(condition.wait(waiting));
    }
}

/// Has those look again who wait for an acknowledgement. The engine is the caller's.
pub(crate) fn tell_acknowledged(_engine: &Engine) {
    let (lock, condition) = &ACKNOWLEDGED;
    drop(lock.lock());
    condition.notify_all();
}

/// Says that asynchronous events about an object have been dealt with.
pub(crate) fn acknowledge_async(owner: Owner, count: u32) {
    if let Ok(mut engine) = engine() {
        engine.objects.acknowledge_async(owner, count);
        tell_acknowledged(&engine);
    }
}

/// How long a region that goes waits for peers in the middle of a write or read of it, and a
/// process that ends for the lock. A peer that was stopped there, or died, does not hold this
/// process up: it goes on in pages that are nobody's.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Turns in which a peer that is gone is heard: more than a ring has packets for.
const TURNS_AT_END: u32 = 64;

/// Has what peers did counted when this process ends, for a program that leaves without destroying
/// its queue pairs.
fn count_at_end() {
    static REGISTERED: Once = Once::new();
    extern "C" fn count() {
        let begun = Instant::now();
        while let Some(engine) = ENGINE.get()
            && begun.elapsed() < PATIENCE
        {
            if let Some(mut guard) = engine.try_lock() {
                if let Some(engine) = guard.as_mut() {
                    engine.count_direct();
                }
                return;
            }
            std::thread::yield_now();
        }
    }
    REGISTERED.call_once(|| {
        // SAFETY: a function that lives as long as this library.
        let _ = unsafe { libc::atexit(count) };
    });
}

/// Blocks of numbers: block 0 has the special ones.
const BLOCKS: u32 = 1 << (24 - limits::QUEUE_PAIR_BITS);

impl Engine {
    fn start() -> Result<Box<Self>> {
        // Siblings may copy from and to this process where Yama would forbid it.
        // SAFETY: the call takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        // Registers this process for the barriers of its peers.
        has_barrier();
        let place = link::place();
        let start = std::process::id().wrapping_mul(0x9e37_79b9) >> 12;
        let mut bound = None;
        for step in 0..BLOCKS - 1 {
            let block = 1 + (start.wrapping_add(step)) % (BLOCKS - 1);
            match Listener::bind(&place, link::name(block)) {
                Ok(listener) => {
                    bound = Some((block, listener));
                    break;
                }
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(of_system(error)),
            }
        }
        let (block, listener) =
            bound.ok_or_else(|| full("1,023 processes of this machine have devices open"))?;
        let pages = device::shares_memory().then(Pages::new).transpose();
        let pages = pages.map_err(|error| {
            // The number alone tells nobody what to do, and many programs print not even that.
            let reason = format!("registered memory cannot be shared (--share-memory): {error}");
            eprintln!("viaduct: {reason}");
            Error::new(libc::EOPNOTSUPP, reason)
        })?;
        let tables = OwnTables {
            store: pages.as_ref().map(|pages| pages.store().clone()),
            pairs: Arc::new(PairTable::create().map_err(of_system)?),
            regions: Arc::new(RegionTable::create().map_err(of_system)?),
        };
        let wake = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(of_system)?,
        );
        let own = Link::to_self(block, &tables).map_err(of_system)?;
        let carrier = Rings {
            tables,
            active: Vec::new(),
        };
        let objects = Objects::new(limits::of_block(block), fork::first_life(), carrier);
        let mut engine = Box::new(Self {
            place,
            block,
            listener: Arc::new(listener),
            objects,
            links: vec![Some(own)],
            links_by_block: BTreeMap::new(),
            strangers: Vec::new(),
            wake: wake.clone(),
            pieces: Scratch::default(),
            looks: 0,
            advance_at: 0,
            is_waiting: false,
            near: 0,
            pages: pages.map(Box::new),
            faults: Strikes::from_environment(),
        });
        engine.links_by_block.insert(block, 0);
        count_at_end();
        service::start(wake).map_err(of_system)?;
        counters::say_block(block);
        Ok(engine)
    }

    /// Wakes the service thread if it sleeps.
    pub(crate) fn poke(&self) {
        let _ = rustix::io::write(self.wake.as_fd(), &1_u64.to_ne_bytes());
    }

    /// The service thread shall look at sends that are under way.
    pub(crate) fn wants_ticks(&self) {
        if !IS_TICKING.load(Ordering::Relaxed) && self.has_work() {
            IS_TICK_DUE.store(true, Ordering::Relaxed);
            IS_TICKING.store(true, Ordering::Relaxed);
            self.poke();
        }
    }

    /// Whether something is under way that the service thread may have to help along.
    pub(crate) fn has_work(&self) -> bool {
        let mut links = self.links.iter().flatten();
        !self.objects.notices.carrier.active.is_empty()
            || links.any(|link| !link.responses.is_empty() || link.wants_help())
    }

    /// The link to whoever has a number.
    pub(crate) fn link_to(&mut self, number: u32) -> Option<usize> {
        let block = number >> limits::QUEUE_PAIR_BITS;
        if let Some(&index) = self.links_by_block.get(&block)
            && self.links[index].as_ref().is_some_and(|link| !link.is_dead)
        {
            return Some(index);
        }
        if block == 0 || block >= BLOCKS {
            return None;
        }
        let link = Link::connect(
            &self.place,
            block,
            self.block,
            &self.objects.notices.carrier.tables,
        )
        .ok()??;
        let index = self.add_link(link);
        self.links_by_block.insert(block, index);
        self.poke();
        Some(index)
    }

    /// Counts what peers did by themselves in this process's memory. Of two processes that found
    /// each other at the same time each sends over a link of its own, so that a queue pair's own
    /// link does not tell by which one its peer counts.
    pub(crate) fn count_direct(&mut self) {
        self.links.iter_mut().flatten().for_each(Link::count_direct);
    }

    /// Shares the pages of a region with peers, if that was asked for and they may reach it.
    pub(crate) fn share_pages(&mut self, key: Key) {
        let (Some(pages), Some(state)) = (&mut self.pages, self.objects.regions.get(key)) else {
            return;
        };
        let remote = access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
        if state.region.access & remote != 0
            && let Some(shared) = pages.share(state.key, state.address, state.region.length)
        {
            self.objects
                .notices
                .carrier
                .tables
                .regions
                .share(state.key, shared);
        }
    }

    /// A region is gone, or has become another, and its entry says so: no peer reaches the pages
    /// that it shared when this returns.
    pub(crate) fn leave_pages(&mut self, key: u32) {
        let Some(pages) = self.pages.as_mut().filter(|pages| pages.shares(key)) else {
            return;
        };
        // Who looked at the entry before is seen to be under way; who looks later finds it gone.
        barrier_everywhere();
        let begun = Instant::now();
        for link in self.links.iter().flatten() {
            let before = link.incoming.under_way();
            while before & 1 == 1
                && link.incoming.under_way() == before
                && begun.elapsed() < PATIENCE
            {
                std::thread::yield_now();
            }
        }
        pages.leave(key);
    }

    /// The same for all regions that went with their device.
    pub(crate) fn leave_pages_of_the_gone(&mut self) {
        let shared = self.pages.iter().flat_map(|pages| pages.regions());
        let is_gone = |key: &u32| {
            let state = self.objects.regions.at(key >> 8);
            state.is_none_or(|state| state.key != *key)
        };
        for key in shared.filter(is_gone).collect::<Vec<_>>() {
            self.leave_pages(key);
        }
    }

    pub(crate) fn add_link(&mut self, link: Link) -> usize {
        if self.objects.notices.armed() > 0 {
            link.incoming.set_attention(true);
            barrier_everywhere();
        }
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or(self.links.len());
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some(link);
        index
    }

    /// A peer is gone: its sends time out.
    pub(crate) fn lose_link(&mut self, index: usize) {
        let Some(link) = &mut self.links[index] else {
            return;
        };
        link.is_dead = true;
        link.count_direct();
        let block = link.block;
        // What it sent before is heard, and what it acknowledged.
        // One that goes on writing is not heard for ever.
        let _ = (0..TURNS_AT_END).find(|_| self.hear(index) == 0);
        for at in self.objects.notices.carrier.active.clone() {
            if let Some(mut pair) = self.objects.take_pair(at) {
                if pair.own.link == Some(index) {
                    self.hear_acknowledgements(&mut pair);
                    self.objects.retire(&mut pair);
                }
                self.objects.put_pair(pair);
            }
        }
        if self.links_by_block.get(&block) == Some(&index) {
            self.links_by_block.remove(&block);
        }
        for key in self
            .objects
            .pairs
            .iter()
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
        {
            if let Some(Some(pair)) = self.objects.pairs.get_mut(key)
                && pair.own.link == Some(index)
            {
                pair.own.link = None;
                pair.sends.heard_at = now();
                for send in pair.sends.iter_mut() {
                    send.own.end = 0;
                }
            }
        }
        self.links[index] = None;
        if device::reports_dead_peers() {
            self.report_dead_peer(block);
        }
    }

    /// Reliable queue pairs that only wait for a peer that is gone fail, if that was asked for:
    /// hardware tells them nothing. Those with sends find out by their retries.
    fn report_dead_peer(&mut self, block: u32) {
        for place in 0..self.objects.limits().max_queue_pairs {
            let Some(mut pair) = self.objects.take_pair(place) else {
                continue;
            };
            let is_its = pair.attributes.destination >> limits::QUEUE_PAIR_BITS == block;
            let is_reliable = pair.options.kind == QueuePairType::Rc;
            if is_its && is_reliable && check::hears(pair.state) && pair.sends.is_empty() {
                self.objects.fail(&mut pair);
            }
            self.objects.put_pair(pair);
        }
    }

    /// Says to all peers whether this process wants to be woken.
    pub(crate) fn set_attention(&mut self, is_wanted: bool) {
        for link in self.links.iter().flatten() {
            link.incoming.set_attention(is_wanted);
        }
        if is_wanted {
            barrier_everywhere();
        }
    }
}

#[cfg(test)]
mod tests;
