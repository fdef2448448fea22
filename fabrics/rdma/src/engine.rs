//! What a process holds: all objects behind one lock, and the calls of the interface.

mod events;
pub(crate) mod fork;
mod objects;
mod pairs;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use viaduct_core::verbs::check::{self, PostError, Region, SendLimits};
use viaduct_core::verbs::error::{busy, full, gone, invalid, unsupported};
use viaduct_core::verbs::flags::{access, attribute, reregister, send, shared_receive};
use viaduct_core::verbs::regions::{self, ACCESS_KNOWN, RegionState, check_region};
use viaduct_core::verbs::responder;
use viaduct_core::verbs::transition::{self, ModifyError};
use viaduct_core::verbs::{
    AddressAttributes, Armed, AsyncEventType, Completion, Completions, Elements, Error, LinkLayer,
    Phase, QueuePairAttributes, QueuePairState, QueuePairType, RangeError, Receive, Result,
    SendQueue, SharedReceiveAttributes, Table, bytes_of,
};
use viaduct_processes::barrier::{barrier_everywhere, has_barrier};
use viaduct_processes::lock::{self, BiasedMutex};
use viaduct_processes::rendezvous::{Listener, Place};

use crate::context::{AsyncElement, AsyncEvent};
use crate::device::{self, Device};
use crate::error::of_system;
use crate::faults::{self, Strikes, Struck};
use crate::limits;
use crate::link::{self, Link, OwnTables};
use crate::memory::{Regions, Scratch};
use crate::notices::{Channel, ContextState, Counter, Notices, Owner, Queue};
use crate::pair::{QueuePairOptions, ReceiveRequest, SendRequest};
use crate::queues::CompletionQueueOptions;
use crate::service;
use crate::state::{Address, Domain, OnRing, Pair, Payload, Send, Shared};
use crate::tables::{PairTable, RegionTable};
pub(crate) use viaduct_core::verbs::Key;

pub(crate) use self::events::*;
pub(crate) use self::objects::*;
pub(crate) use self::pairs::*;

/// Everything.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) place: Place,
    pub(crate) block: u32,
    pub(crate) listener: Arc<Listener>,
    pub(crate) tables: OwnTables,
    pub(crate) notices: Notices,
    pub(crate) domains: Table<Domain>,
    pub(crate) regions: Regions,
    pub(crate) shared: Table<Shared>,
    pub(crate) pairs: Table<Option<Box<Pair>>>,
    pub(crate) addresses: Table<Address>,
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) links_by_block: BTreeMap<u32, usize>,
    /// Peers that have connected and not said who they are.
    pub(crate) strangers: Vec<Arc<OwnedFd>>,
    /// Indexes of queue pairs with sends.
    pub(crate) active: Vec<u32>,
    /// Wakes the service thread.
    pub(crate) wake: Arc<OwnedFd>,
    /// Scratch memory.
    pub(crate) pieces: Scratch,
    /// Looks for completions in vain, and at which of them sends are next gone on with.
    pub(crate) looks: u64,
    pub(crate) advance_at: u64,
    /// Whether the last look was in vain.
    pub(crate) is_waiting: bool,
    /// Faults on request.
    pub(crate) faults: Option<Box<Strikes>>,
    key_variant: u32,
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

/// Leaves the engine until events are acknowledged.
fn wait(guard: Guard) -> Result<Guard> {
    let (lock, condition) = &ACKNOWLEDGED;
    let waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
    // Not before: whoever acknowledges after this is heard.
    drop(guard);
    drop(condition.wait(waiting));
    engine()
}

/// Has those look again who wait for an acknowledgement. The engine is the caller's.
fn tell_acknowledged(_engine: &Engine) {
    let (lock, condition) = &ACKNOWLEDGED;
    drop(lock.lock());
    condition.notify_all();
}

/// Turns in which a peer that is gone is heard: more than a ring has packets for.
const TURNS_AT_END: u32 = 64;

/// Blocks of numbers: block 0 has the special ones.
const BLOCKS: u32 = 1 << (24 - limits::QUEUE_PAIR_BITS);

impl Engine {
    fn start() -> Result<Box<Self>> {
        // Siblings may copy from and to this process where Yama would forbid it.
        // SAFETY: the call takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        // Registers this process for the barriers of its peers.
        has_barrier();
        let place = match Place::from_environment() {
            Place::Abstract(_) => Place::Abstract("viaduct-rdma"),
            directory => directory,
        };
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
        let tables = OwnTables {
            pairs: Arc::new(PairTable::create().map_err(of_system)?),
            regions: Arc::new(RegionTable::create().map_err(of_system)?),
        };
        let wake = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(of_system)?,
        );
        let own = Link::to_self(block, &tables).map_err(of_system)?;
        let life = fork::first_life();
        let mut engine = Box::new(Self {
            place,
            block,
            listener: Arc::new(listener),
            tables,
            notices: Notices {
                contexts: Table::new(1024, life),
                channels: Table::new(65_536, life),
                queues: Table::new(limits::COMPLETION_QUEUES_MAX, life),
                armed: 0,
            },
            domains: Table::new(limits::PROTECTION_DOMAINS_MAX, life),
            regions: Table::new(limits::REGIONS_MAX, life),
            shared: Table::new(limits::SHARED_RECEIVE_QUEUES_MAX, life),
            pairs: Table::new(limits::QUEUE_PAIRS_MAX, life),
            addresses: Table::new(limits::ADDRESS_HANDLES_MAX, life),
            links: vec![Some(own)],
            links_by_block: BTreeMap::new(),
            strangers: Vec::new(),
            active: Vec::new(),
            wake: wake.clone(),
            pieces: Scratch::default(),
            looks: 0,
            advance_at: 0,
            is_waiting: false,
            faults: Strikes::from_environment(),
            key_variant: 1,
        });
        engine.links_by_block.insert(block, 0);
        service::start(wake).map_err(of_system)?;
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
        !self.active.is_empty() || links.any(|link| !link.responses.is_empty() || link.wants_help())
    }

    pub(crate) fn context_of_domain(&self, domain: Key) -> Result<Key> {
        Ok(self.domains.get(domain).ok_or_else(gone)?.context)
    }

    pub(crate) fn pair(&mut self, key: Key) -> Result<&mut Box<Pair>> {
        self.pairs
            .get_mut(key)
            .and_then(Option::as_mut)
            .ok_or_else(gone)
    }

    /// Takes a queue pair out, to work on it with the rest at hand. It must be put back.
    pub(crate) fn take_pair(&mut self, index: u32) -> Option<Box<Pair>> {
        self.pairs.at_mut(index)?.take()
    }

    pub(crate) fn put_pair(&mut self, pair: Box<Pair>) {
        if let Some(place) = self.pairs.get_mut(pair.key) {
            *place = Some(pair);
        }
    }

    /// Shows peers what a queue pair lets them do.
    pub(crate) fn show(&self, pair: &Pair) {
        let entry = self.tables.pairs.at(pair.key.index());
        entry.domain.store(pair.domain.index(), Ordering::Relaxed);
        entry
            .access
            .store(pair.attributes.access_flags, Ordering::Relaxed);
        entry
            .peer
            .store(pair.attributes.destination, Ordering::Relaxed);
        entry.expected.store(pair.expected, Ordering::Relaxed);
        let hears = check::hears(pair.state)
            && pair.options.kind != QueuePairType::Ud
            && !faults::is_port_down();
        entry.hears.store(u32::from(hears), Ordering::Release);
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
        let link = Link::connect(&self.place, block, self.block, &self.tables).ok()??;
        let index = self.add_link(link);
        self.links_by_block.insert(block, index);
        self.poke();
        Some(index)
    }

    pub(crate) fn add_link(&mut self, link: Link) -> usize {
        if self.notices.armed > 0 {
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
        let block = link.block;
        // What it sent before is heard, and what it acknowledged.
        // One that goes on writing is not heard for ever.
        let _ = (0..TURNS_AT_END).find(|_| self.hear(index) == 0);
        for at in self.active.clone() {
            if let Some(mut pair) = self.take_pair(at) {
                if pair.link == Some(index) {
                    self.hear_acknowledgements(&mut pair);
                    self.retire(&mut pair);
                }
                self.put_pair(pair);
            }
        }
        if self.links_by_block.get(&block) == Some(&index) {
            self.links_by_block.remove(&block);
        }
        for key in self.pairs.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            if let Ok(pair) = self.pair(key)
                && pair.link == Some(index)
            {
                pair.link = None;
                pair.sends.heard_at = crate::notices::now();
                for send in pair.sends.iter_mut() {
                    send.own.end = 0;
                }
            }
        }
        self.links[index] = None;
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

    /// Has a completion queue tell its channel, or tell nothing.
    pub(crate) fn set_armed(&mut self, key: Key, is_solicited_only: Option<bool>) -> Result<()> {
        let queue = self.notices.queues.get_mut(key).ok_or_else(gone)?;
        let completions = &mut queue.completions;
        let before = match is_solicited_only {
            Some(is_solicited_only) => completions.arm(is_solicited_only),
            None => completions.disarm(),
        };
        self.notices.armed += u32::from(is_solicited_only.is_some());
        self.notices.armed -= u32::from(before != Armed::No);
        Ok(())
    }
}

impl Engine {
    pub(crate) fn remove_region(&mut self, key: Key) -> Option<()> {
        let state = self.regions.remove(key)?;
        self.tables.regions.set(state.key, None);
        if let Some(domain) = self.domains.get_mut(state.domain) {
            domain.users -= 1;
        }
        Some(())
    }

    pub(crate) fn remove_pair(&mut self, key: Key) {
        let Some(pair) = self.pairs.get_mut(key).and_then(Option::take) else {
            return;
        };
        let entry = self.tables.pairs.at(key.index());
        // What it has acknowledged stays to be read: its peer may look for it later.
        entry.hears.store(0, Ordering::Release);
        self.pairs.remove(key);
        self.active.retain(|index| *index != key.index());
        let options = &pair.options;
        for queue in [options.send_queue, options.receive_queue] {
            self.notices.forget_completions(queue.key, pair.number);
            if let Some(queue) = self.notices.queues.get_mut(queue.key) {
                queue.users -= 1;
            }
        }
        if let Some(shared) = options.shared_receive_queue
            && let Some(shared) = self.shared.get_mut(shared.key)
        {
            shared.users -= 1;
        }
        if let Some(domain) = self.domains.get_mut(pair.domain) {
            domain.users -= 1;
        }
    }

    /// Tells once that a shared receive queue runs short.
    pub(crate) fn check_limit(&mut self, key: Key) {
        if let Some(shared) = self.shared.get_mut(key)
            && responder::tells_limit(shared.receives.len(), shared.limit)
        {
            shared.limit = 0;
            let (context, cookie) = (shared.context, shared.cookie);
            self.notices.tell(
                context,
                AsyncEventType::SharedReceiveQueueLimitReached,
                AsyncElement::SharedReceiveQueue(cookie),
                Some(Owner::Shared(key)),
            );
        }
    }

    pub(crate) fn check_address(&self, context: Key, attributes: &AddressAttributes) -> Result<()> {
        let state = self.notices.contexts.get(context).ok_or_else(gone)?;
        state.device.check_port(attributes.port)?;
        if device::link_layer() == LinkLayer::Ethernet && !attributes.is_global {
            return Err(invalid(
                "on Ethernet an address needs a route (is_global, a GID)",
            ));
        }
        if attributes.is_global {
            let index = attributes.route.source_gid_index;
            if state.device.gid(1, u32::from(index)).is_err() {
                return Err(invalid(format!("there is no source GID of index {index}")));
            }
        }
        Ok(())
    }
}
