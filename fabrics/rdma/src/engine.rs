//! What a process holds: all objects behind one lock, and the calls of the interface.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use viaduct_core::verbs::check::{self, PostError, Region, SendLimits};
use viaduct_core::verbs::flags::{access, attribute, reregister, send, shared_receive};
use viaduct_core::verbs::transition::{self, ModifyError};
use viaduct_core::verbs::{
    AddressAttributes, AsyncEventType, Completion, LinkLayer, QueuePairAttributes, QueuePairState,
    QueuePairType, SharedReceiveAttributes,
};
use viaduct_processes::rendezvous::{Listener, Place};

use crate::context::{AsyncElement, AsyncEvent};
use crate::device::{self, Device};
use crate::error::{Error, Result, busy, invalid, unsupported};
use crate::limits;
use crate::link::{self, Link, OwnTables};
use crate::memory::{Regions, Scratch};
use crate::notices::{Armed, Channel, ContextState, Counter, Notices, Owner, Queue};
use crate::pair::{QueuePairOptions, ReceiveRequest, SendRequest};
use crate::queues::CompletionQueueOptions;
use crate::service;
pub(crate) use crate::slab::Key;
use crate::slab::Slab;
use crate::state::{Address, Domain, Elements, Pair, Phase, Receive, RegionState, Send, Shared};
use crate::tables::{PairTable, RegionTable};

/// Everything.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) place: Place,
    pub(crate) block: u32,
    pub(crate) listener: Arc<Listener>,
    pub(crate) tables: OwnTables,
    pub(crate) notices: Notices,
    pub(crate) domains: Slab<Domain>,
    pub(crate) regions: Regions,
    pub(crate) shared: Slab<Shared>,
    pub(crate) pairs: Slab<Option<Box<Pair>>>,
    pub(crate) addresses: Slab<Address>,
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) links_by_block: BTreeMap<u32, usize>,
    /// Indexes of queue pairs with sends.
    pub(crate) active: Vec<u32>,
    /// Wakes the service thread.
    pub(crate) wake: Arc<OwnedFd>,
    /// Scratch memory.
    pub(crate) pieces: Scratch,
    key_variant: u32,
}

static ENGINE: Mutex<Option<Box<Engine>>> = Mutex::new(None);
/// Told of each acknowledgement.
static ACKNOWLEDGED: Condvar = Condvar::new();
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// Whether the service thread looks by itself now and then.
pub(crate) static IS_TICKING: AtomicBool = AtomicBool::new(false);

extern "C" fn begin_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// The engine, if there is one: nothing in a forked child.
pub(crate) struct Guard(MutexGuard<'static, Option<Box<Engine>>>);

impl std::ops::Deref for Guard {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.0.as_ref().expect("checked when it was made")
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Engine {
        self.0.as_mut().expect("checked when it was made")
    }
}

fn gone() -> Error {
    invalid("there is no such object, or not any more")
}

/// Why calls in a forked child fail.
fn child() -> Error {
    Error::new(
        libc::ENODEV,
        "this process was forked after its parent had opened a device, which the child cannot use",
    )
}

#[inline]
pub(crate) fn engine() -> Result<Guard> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(child());
    }
    let guard = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_none() {
        return Err(gone());
    }
    Ok(Guard(guard))
}

fn wait(guard: Guard) -> Guard {
    Guard(
        ACKNOWLEDGED
            .wait(guard.0)
            .unwrap_or_else(PoisonError::into_inner),
    )
}

/// Blocks of numbers: block 0 has the special ones.
const BLOCKS: u32 = 1 << (24 - limits::QUEUE_PAIR_BITS);

impl Engine {
    fn start() -> Result<Box<Self>> {
        // Siblings may copy from and to this process where Yama would forbid it.
        // SAFETY: the call takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
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
                Err(error) => return Err(error.into()),
            }
        }
        let (block, listener) = bound.ok_or_else(|| {
            Error::new(
                libc::ENOMEM,
                "1,023 processes of this machine have devices open",
            )
        })?;
        let tables = OwnTables {
            pairs: Arc::new(PairTable::create()?),
            regions: Arc::new(RegionTable::create()?),
        };
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let own = Link::to_self(block, &tables)?;
        let mut engine = Box::new(Self {
            place,
            block,
            listener: Arc::new(listener),
            tables,
            notices: Notices {
                contexts: Slab::new(1024),
                channels: Slab::new(65_536),
                queues: Slab::new(limits::COMPLETION_QUEUES_MAX),
                armed: 0,
            },
            domains: Slab::new(limits::PROTECTION_DOMAINS_MAX),
            regions: Slab::new(limits::REGIONS_MAX),
            shared: Slab::new(limits::SHARED_RECEIVE_QUEUES_MAX),
            pairs: Slab::new(limits::QUEUE_PAIRS_MAX),
            addresses: Slab::new(limits::ADDRESS_HANDLES_MAX),
            links: vec![Some(own)],
            links_by_block: BTreeMap::new(),
            active: Vec::new(),
            wake: wake.clone(),
            pieces: Scratch::default(),
            key_variant: 1,
        });
        engine.links_by_block.insert(block, 0);
        service::start(wake)?;
        Ok(engine)
    }

    /// Wakes the service thread if it sleeps.
    pub(crate) fn poke(&self) {
        let _ = rustix::io::write(self.wake.as_fd(), &1_u64.to_ne_bytes());
    }

    /// The service thread shall look at sends that are under way.
    pub(crate) fn wants_ticks(&self) {
        if self.has_work() && !IS_TICKING.swap(true, Ordering::Relaxed) {
            self.poke();
        }
    }

    /// Whether something is under way that the service thread may have to help along.
    pub(crate) fn has_work(&self) -> bool {
        let mut links = self.links.iter().flatten();
        !self.active.is_empty() || links.any(|link| !link.responses.is_empty() || link.wants_help())
    }

    fn context_of_domain(&self, domain: Key) -> Result<Key> {
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
        let hears = check::hears(pair.state) && pair.options.kind != QueuePairType::Ud;
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
        // What it sent before is heard.
        while self.hear(index) > 0 {}
        if self.links_by_block.get(&block) == Some(&index) {
            self.links_by_block.remove(&block);
        }
        for key in self.pairs.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            if let Ok(pair) = self.pair(key)
                && pair.link == Some(index)
            {
                pair.link = None;
                pair.heard_at = crate::notices::now();
                for send in &mut pair.sends {
                    send.end = 0;
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
    }

    fn set_armed(&mut self, key: Key, armed: Armed) -> Result<()> {
        let queue = self.notices.queues.get_mut(key).ok_or_else(gone)?;
        let before = std::mem::replace(&mut queue.armed, armed);
        match (before, armed) {
            (Armed::No, Armed::Solicited | Armed::All) => {
                self.notices.armed += 1;
            }
            (Armed::Solicited | Armed::All, Armed::No) => self.notices.armed -= 1,
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn open_context(device: Device) -> Result<Key> {
    static WATCHED: Once = Once::new();
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(child());
    }
    let mut guard = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_none() {
        WATCHED.call_once(|| {
            // SAFETY: the function stores one flag.
            unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
        });
        *guard = Some(Engine::start()?);
    }
    let mut engine = Guard(guard);
    let context = ContextState {
        device,
        counter: Counter::new()?,
        events: VecDeque::new(),
    };
    let key = engine.notices.contexts.insert(context);
    key.ok_or_else(|| Error::new(libc::ENOMEM, "too many devices are open"))
}

pub(crate) fn async_fd(context: Key) -> RawFd {
    engine().map_or(-1, |engine| {
        let context = engine.notices.contexts.get(context);
        context.map_or(-1, |context| context.counter.fd())
    })
}

/// Waits at a counter, unless it does not block.
fn await_count(fd: RawFd) -> Result<()> {
    let mut count = 0_u64;
    // SAFETY: the place has 8 bytes. The descriptor may have been closed by now, which fails.
    let read = unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
    if read == 8 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

pub(crate) fn next_async_event(context: Key) -> Result<AsyncEvent> {
    loop {
        await_count(async_fd(context))?;
        let mut engine = engine()?;
        let state = engine.notices.contexts.get_mut(context).ok_or_else(gone)?;
        let Some((event, owner)) = state.events.pop_front() else {
            continue;
        };
        match owner {
            Some(Owner::Queue(key)) => {
                if let Some(queue) = engine.notices.queues.get_mut(key) {
                    queue.async_unacknowledged += 1;
                }
            }
            Some(Owner::Pair(key)) => {
                if let Ok(pair) = engine.pair(key) {
                    pair.async_unacknowledged += 1;
                }
            }
            Some(Owner::Shared(key)) => {
                if let Some(shared) = engine.shared.get_mut(key) {
                    shared.async_unacknowledged += 1;
                }
            }
            None => {}
        }
        return Ok(event);
    }
}

pub(crate) fn acknowledge_async_events(owner: Owner, count: u32) {
    let Ok(mut engine) = engine() else { return };
    let left = match owner {
        Owner::Queue(key) => {
            let queue = engine.notices.queues.get_mut(key);
            queue.map(|queue| &mut queue.async_unacknowledged)
        }
        Owner::Pair(key) => {
            let pair = engine.pair(key).ok();
            pair.map(|pair| &mut pair.async_unacknowledged)
        }
        Owner::Shared(key) => {
            let shared = engine.shared.get_mut(key);
            shared.map(|shared| &mut shared.async_unacknowledged)
        }
    };
    if let Some(left) = left {
        *left = left.saturating_sub(count);
    }
    ACKNOWLEDGED.notify_all();
}

pub(crate) fn close_context(context: Key) -> Result<()> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let pairs: Vec<Key> = engine
        .pairs
        .iter()
        .filter(|(_, pair)| pair.as_ref().is_some_and(|pair| pair.context == context))
        .map(|(key, _)| key)
        .collect();
    for key in pairs {
        engine.remove_pair(key);
    }
    macro_rules! sweep {
        ($slab:expr, $each:expr) => {
            let keys: Vec<Key> = $slab
                .iter()
                .filter(|(_, object)| object.context == context)
                .map(|(key, _)| key)
                .collect();
            for key in keys {
                $each(&mut engine, key);
            }
        };
    }
    sweep!(engine.shared, |engine: &mut Guard, key| engine
        .shared
        .remove(key));
    sweep!(engine.notices.queues, |engine: &mut Guard, key| {
        let _ = engine.set_armed(key, Armed::No);
        engine.notices.queues.remove(key)
    });
    sweep!(engine.notices.channels, |engine: &mut Guard, key| engine
        .notices
        .channels
        .remove(key));
    sweep!(engine.regions, |engine: &mut Guard, key| engine
        .remove_region(key));
    sweep!(engine.addresses, |engine: &mut Guard, key| engine
        .addresses
        .remove(key));
    sweep!(engine.domains, |engine: &mut Guard, key| engine
        .domains
        .remove(key));
    engine.notices.contexts.remove(context);
    Ok(())
}

pub(crate) fn allocate_protection_domain(context: Key) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let domain = Domain { context, users: 0 };
    let key = engine.domains.insert(domain);
    key.ok_or_else(|| Error::new(libc::ENOMEM, "too many protection domains"))
}

pub(crate) fn deallocate_protection_domain(key: Key) -> Result<()> {
    let mut engine = engine()?;
    if engine.domains.get(key).ok_or_else(gone)?.users > 0 {
        return Err(busy("a protection domain still has objects"));
    }
    engine.domains.remove(key);
    Ok(())
}

pub(crate) fn create_completion_channel(context: Key) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let channel = Channel {
        context,
        counter: Counter::new()?,
        events: VecDeque::new(),
        queues: 0,
    };
    let key = engine.notices.channels.insert(channel);
    key.ok_or_else(|| Error::new(libc::ENOMEM, "too many completion channels"))
}

pub(crate) fn channel_fd(channel: Key) -> RawFd {
    engine().map_or(-1, |engine| {
        let channel = engine.notices.channels.get(channel);
        channel.map_or(-1, |channel| channel.counter.fd())
    })
}

pub(crate) fn next_completion_event(channel: Key) -> Result<u64> {
    loop {
        await_count(channel_fd(channel))?;
        let mut engine = engine()?;
        let state = engine.notices.channels.get_mut(channel).ok_or_else(gone)?;
        let Some((queue, cookie)) = state.events.pop_front() else {
            continue;
        };
        if let Some(queue) = engine.notices.queues.get_mut(queue) {
            queue.unacknowledged += 1;
        }
        return Ok(cookie);
    }
}

pub(crate) fn destroy_completion_channel(key: Key) -> Result<()> {
    let mut engine = engine()?;
    if engine.notices.channels.get(key).ok_or_else(gone)?.queues > 0 {
        return Err(busy("a completion queue still uses the channel"));
    }
    engine.notices.channels.remove(key);
    Ok(())
}

fn check_entries(entries: u32) -> Result<()> {
    if entries == 0 || entries > limits::COMPLETION_ENTRIES_MAX {
        return Err(invalid(format!(
            "a completion queue has 1 to {} entries, not {entries}",
            limits::COMPLETION_ENTRIES_MAX
        )));
    }
    Ok(())
}

pub(crate) fn create_completion_queue(
    context: Key,
    options: &CompletionQueueOptions,
) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    check_entries(options.entries)?;
    if options.vector != 0 {
        return Err(invalid(format!(
            "there is vector 0, not {}",
            options.vector
        )));
    }
    if let Some(channel) = options.channel {
        let channel = engine.notices.channels.get_mut(channel.key);
        let channel = channel.filter(|channel| channel.context == context);
        channel.ok_or_else(gone)?.queues += 1;
    }
    let queue = Queue {
        context,
        entries: options.entries,
        completions: VecDeque::new(),
        channel: options.channel.map(|channel| channel.key),
        cookie: options.cookie,
        has_timestamps: options.has_timestamps,
        ignores_overrun: options.ignores_overrun,
        is_dead: false,
        armed: Armed::No,
        users: 0,
        unacknowledged: 0,
        async_unacknowledged: 0,
    };
    let key = engine.notices.queues.insert(queue);
    key.ok_or_else(|| Error::new(libc::ENOMEM, "too many completion queues"))
}

pub(crate) fn poll_completions(key: Key, completions: &mut [Completion]) -> Result<usize> {
    let mut engine = engine()?;
    let mut taken = 0;
    for turn in 0..2 {
        let queue = engine.notices.queues.get_mut(key).ok_or_else(gone)?;
        if queue.is_dead && queue.completions.is_empty() {
            return Err(Error::new(libc::EIO, "the completion queue overran"));
        }
        while let Some(place) = completions.get_mut(taken) {
            let Some(completion) = queue.completions.pop_front() else {
                break;
            };
            *place = completion;
            taken += 1;
        }
        if taken > 0 || turn > 0 {
            break;
        }
        engine.progress();
    }
    drop(engine);
    if taken == 0 {
        looked_in_vain();
    } else {
        VAIN_LOOKS.store(0, Ordering::Relaxed);
    }
    Ok(taken)
}

/// Looks in vain since the last that was not.
static VAIN_LOOKS: AtomicU32 = AtomicU32::new(0);
/// So many of them, after which the processor is offered to others: the peer may need this one.
const LOOKS_A_YIELD: u32 = 128;

fn looked_in_vain() {
    let looks = VAIN_LOOKS.load(Ordering::Relaxed).wrapping_add(1);
    VAIN_LOOKS.store(looks, Ordering::Relaxed);
    if looks.is_multiple_of(LOOKS_A_YIELD) {
        std::thread::yield_now();
    }
}

pub(crate) fn arm(key: Key, is_solicited_only: bool) -> Result<()> {
    let mut engine = engine()?;
    let before = engine.notices.queues.get(key).ok_or_else(gone)?.armed;
    // Arming for all stays though arming for solicited ones follows.
    let armed = if is_solicited_only && before != Armed::All {
        Armed::Solicited
    } else {
        Armed::All
    };
    engine.set_armed(key, armed)?;
    engine.set_attention(true);
    engine.progress();
    if engine.notices.armed == 0 {
        engine.set_attention(false);
    }
    engine.wants_ticks();
    Ok(())
}

pub(crate) fn completion_queue_entries(key: Key) -> Result<u32> {
    let engine = engine()?;
    Ok(engine.notices.queues.get(key).ok_or_else(gone)?.entries)
}

pub(crate) fn resize_completion_queue(key: Key, entries: u32) -> Result<u32> {
    let mut engine = engine()?;
    check_entries(entries)?;
    let queue = engine.notices.queues.get_mut(key).ok_or_else(gone)?;
    if queue.completions.len() > entries as usize {
        return Err(invalid(format!(
            "{} completions are in the queue, more than {entries}",
            queue.completions.len()
        )));
    }
    queue.entries = entries;
    Ok(entries)
}

pub(crate) fn acknowledge_completion_events(key: Key, count: u32) {
    if let Ok(mut engine) = engine()
        && let Some(queue) = engine.notices.queues.get_mut(key)
    {
        queue.unacknowledged = queue.unacknowledged.saturating_sub(count);
        ACKNOWLEDGED.notify_all();
    }
}

pub(crate) fn destroy_completion_queue(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let queue = engine.notices.queues.get(key).ok_or_else(gone)?;
    if queue.users > 0 {
        return Err(busy("a queue pair still uses the completion queue"));
    }
    let (context, channel) = (queue.context, queue.channel);
    engine.set_armed(key, Armed::No)?;
    if let Some(channel) = channel {
        engine.notices.forget_completion_events(channel, key);
    }
    engine.notices.forget_async(context, Owner::Queue(key));
    loop {
        let queue = engine.notices.queues.get(key).ok_or_else(gone)?;
        if queue.unacknowledged == 0 && queue.async_unacknowledged == 0 {
            break;
        }
        engine = wait(engine);
    }
    engine.notices.queues.remove(key);
    if let Some(channel) = channel.and_then(|channel| engine.notices.channels.get_mut(channel)) {
        channel.queues -= 1;
    }
    Ok(())
}

/// Access flags that this fabric knows, hints among them.
const ACCESS_KNOWN: u32 = access::LOCAL_WRITE
    | access::REMOTE_WRITE
    | access::REMOTE_READ
    | access::REMOTE_ATOMIC
    | access::ZERO_BASED
    | access::HUGE_PAGES
    | access::OPTIONAL;

fn check_region(address: u64, length: u64, iova: u64, flags: u32) -> Result<()> {
    if flags & (access::MEMORY_WINDOW_BIND | access::ON_DEMAND) != 0 {
        return Err(unsupported(
            "there are neither memory windows nor on-demand paging",
        ));
    }
    if flags & !ACCESS_KNOWN != 0 {
        return Err(invalid(format!(
            "access flags {flags:#x} are not all known"
        )));
    }
    if !check::are_access_flags_legal(flags) {
        return Err(invalid("remote writes and atomics need LOCAL_WRITE"));
    }
    if length > limits::REGION_BYTES_MAX
        || address.checked_add(length).is_none()
        || iova.checked_add(length).is_none()
    {
        return Err(invalid("the region is too long"));
    }
    Ok(())
}

pub(crate) fn register_memory(
    domain: Key,
    address: u64,
    length: u64,
    iova: u64,
    flags: u32,
) -> Result<(Key, u32)> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    let first = if flags & access::ZERO_BASED != 0 {
        0
    } else {
        iova
    };
    check_region(address, length, first, flags)?;
    let full = || Error::new(libc::ENOMEM, "too many memory regions");
    let place = engine.regions.next().ok_or_else(full)?;
    let variant = engine.key_variant;
    engine.key_variant = variant % 255 + 1;
    let region = Region {
        domain: domain.index(),
        access: flags,
        first,
        length,
    };
    // Key 0 is none: the variant is never 0.
    let memory_key = place.index() << 8 | variant;
    let state = RegionState {
        context,
        domain,
        key: memory_key,
        region,
        address,
    };
    let key = engine.regions.insert(state).ok_or_else(full)?;
    engine
        .tables
        .regions
        .set(memory_key, Some((&region, address)));
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok((key, memory_key))
}

pub(crate) fn reregister_memory(
    key: Key,
    flags: u32,
    domain: Option<Key>,
    address: u64,
    length: u64,
    access: u32,
) -> Result<()> {
    let mut engine = engine()?;
    let mut state = *engine.regions.get(key).ok_or_else(gone)?;
    let known = reregister::TRANSLATION | reregister::PROTECTION_DOMAIN | reregister::ACCESS;
    if flags == 0 || flags & !known != 0 {
        return Err(invalid(format!("flags {flags:#x} of a new registration")));
    }
    if flags & reregister::ACCESS != 0 {
        state.region.access = access;
    }
    if flags & reregister::TRANSLATION != 0 {
        state.address = address;
        state.region.length = length;
        state.region.first = address;
    }
    if state.region.access & access::ZERO_BASED != 0 {
        state.region.first = 0;
    }
    let before = state.domain;
    if flags & reregister::PROTECTION_DOMAIN != 0 {
        let domain = domain.ok_or_else(|| invalid("a protection domain is missing"))?;
        if engine.context_of_domain(domain)? != state.context {
            return Err(invalid("the protection domain is of another context"));
        }
        state.domain = domain;
        state.region.domain = domain.index();
    }
    check_region(
        state.address,
        state.region.length,
        state.region.first,
        state.region.access,
    )?;
    engine
        .tables
        .regions
        .set(state.key, Some((&state.region, state.address)));
    if let Some(domain) = engine.domains.get_mut(before) {
        domain.users -= 1;
    }
    if let Some(domain) = engine.domains.get_mut(state.domain) {
        domain.users += 1;
    }
    *engine.regions.get_mut(key).ok_or_else(gone)? = state;
    Ok(())
}

pub(crate) fn deregister_memory(key: Key) -> Result<()> {
    engine()?.remove_region(key).ok_or_else(gone)
}

pub(crate) fn create_shared_receive_queue(
    domain: Key,
    attributes: &SharedReceiveAttributes,
    cookie: u64,
) -> Result<Key> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    if attributes.max_requests > limits::REQUESTS_MAX
        || attributes.max_elements > limits::ELEMENTS_MAX
        || attributes.max_requests == 0
    {
        return Err(invalid(
            "a shared receive queue of this size is not to be had",
        ));
    }
    let shared = Shared {
        context,
        domain,
        cookie,
        max_requests: attributes.max_requests,
        max_elements: attributes.max_elements.max(1),
        limit: 0,
        receives: VecDeque::new(),
        users: 0,
        async_unacknowledged: 0,
    };
    let key = engine.shared.insert(shared);
    let key = key.ok_or_else(|| Error::new(libc::ENOMEM, "too many shared receive queues"))?;
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok(key)
}

pub(crate) fn post_shared_receive(key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get_mut(key).ok_or_else(gone)?;
    if request.elements.len() > shared.max_elements as usize {
        return Err(invalid("a receive has too many elements"));
    }
    if shared.receives.len() >= shared.max_requests as usize {
        return Err(Error::new(libc::ENOMEM, "the shared receive queue is full"));
    }
    shared.receives.push_back(Receive {
        request: request.request,
        elements: Elements::new(request.elements),
    });
    Ok(())
}

pub(crate) fn modify_shared_receive_queue(
    key: Key,
    attributes: &SharedReceiveAttributes,
    mask: u32,
) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get_mut(key).ok_or_else(gone)?;
    if mask & shared_receive::MAX_REQUESTS != 0 {
        return Err(unsupported("a shared receive queue keeps its size"));
    }
    if mask & !shared_receive::LIMIT != 0 {
        return Err(invalid(
            "an attribute of a shared receive queue is not known",
        ));
    }
    if mask & shared_receive::LIMIT != 0 {
        if attributes.limit > shared.max_requests {
            return Err(invalid("the limit is past the shared receive queue's size"));
        }
        shared.limit = attributes.limit;
    }
    engine.check_limit(key);
    Ok(())
}

pub(crate) fn query_shared_receive_queue(key: Key) -> Result<SharedReceiveAttributes> {
    let engine = engine()?;
    let shared = engine.shared.get(key).ok_or_else(gone)?;
    Ok(SharedReceiveAttributes {
        max_requests: shared.max_requests,
        max_elements: shared.max_elements,
        limit: shared.limit,
    })
}

pub(crate) fn destroy_shared_receive_queue(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get(key).ok_or_else(gone)?;
    if shared.users > 0 {
        return Err(busy("a queue pair still uses the shared receive queue"));
    }
    let (context, domain) = (shared.context, shared.domain);
    engine.notices.forget_async(context, Owner::Shared(key));
    while engine
        .shared
        .get(key)
        .ok_or_else(gone)?
        .async_unacknowledged
        > 0
    {
        engine = wait(engine);
    }
    engine.shared.remove(key);
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users -= 1;
    }
    Ok(())
}

pub(crate) fn create_address_handle(domain: Key, attributes: &AddressAttributes) -> Result<Key> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    engine.check_address(context, attributes)?;
    let key = engine.addresses.insert(Address {
        context,
        domain,
        attributes: *attributes,
    });
    let key = key.ok_or_else(|| Error::new(libc::ENOMEM, "too many address handles"))?;
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok(key)
}

pub(crate) fn destroy_address_handle(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let address = engine.addresses.remove(key).ok_or_else(gone)?;
    if let Some(domain) = engine.domains.get_mut(address.domain) {
        domain.users -= 1;
    }
    Ok(())
}

/// Inline bytes that every queue pair takes, whatever it asked for.
const INLINE_BYTES_MIN: u32 = 256;

pub(crate) fn create_queue_pair(domain: Key, options: &QueuePairOptions) -> Result<(Key, u32)> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    let mut options = *options;
    let sizes = &mut options.capabilities;
    if sizes.max_send_requests > limits::REQUESTS_MAX
        || sizes.max_receive_requests > limits::REQUESTS_MAX
        || sizes.max_send_elements > limits::ELEMENTS_MAX
        || sizes.max_receive_elements > limits::ELEMENTS_MAX
        || sizes.max_inline_bytes > limits::INLINE_BYTES_MAX
    {
        return Err(invalid("a queue pair of these sizes is not to be had"));
    }
    sizes.max_inline_bytes = sizes.max_inline_bytes.max(INLINE_BYTES_MIN);
    if options.shared_receive_queue.is_some() {
        sizes.max_receive_requests = 0;
        sizes.max_receive_elements = 0;
    }
    for queue in [options.send_queue, options.receive_queue] {
        let queue = engine.notices.queues.get(queue.key).ok_or_else(gone)?;
        if queue.context != context {
            return Err(invalid("a completion queue is of another context"));
        }
    }
    if let Some(shared) = options.shared_receive_queue {
        let shared = engine.shared.get(shared.key).ok_or_else(gone)?;
        if shared.context != context {
            return Err(invalid("the shared receive queue is of another context"));
        }
    }
    let key = engine.pairs.insert(None);
    let key = key.ok_or_else(|| Error::new(libc::ENOMEM, "too many queue pairs"))?;
    let number = engine.block << limits::QUEUE_PAIR_BITS | key.index();
    let pair = Box::new(Pair {
        key,
        number,
        context,
        domain,
        options,
        state: QueuePairState::Reset,
        attributes: QueuePairAttributes::default(),
        sends: VecDeque::new(),
        started: 0,
        next_sequence: 0,
        asked: 0,
        receives: VecDeque::new(),
        link: None,
        is_active: false,
        wait_until: 0,
        not_ready_count: 0,
        retry_count: 0,
        heard_at: 0,
        expected: 0,
        incoming: None,
        is_established: false,
        drain_wanted: false,
        async_unacknowledged: 0,
    });
    engine.show(&pair);
    engine.put_pair(pair);
    for queue in [options.send_queue, options.receive_queue] {
        if let Some(queue) = engine.notices.queues.get_mut(queue.key) {
            queue.users += 1;
        }
    }
    if let Some(shared) = options.shared_receive_queue
        && let Some(shared) = engine.shared.get_mut(shared.key)
    {
        shared.users += 1;
    }
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok((key, number))
}

pub(crate) fn queue_pair_state(key: Key) -> Result<QueuePairState> {
    Ok(engine()?.pair(key)?.state)
}

pub(crate) fn query_queue_pair(key: Key) -> Result<(QueuePairAttributes, QueuePairOptions)> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    let mut attributes = pair.attributes;
    attributes.state = pair.state;
    attributes.current_state = pair.state;
    attributes.capabilities = pair.options.capabilities;
    attributes.is_draining = pair.state == QueuePairState::SendDrained && pair.is_waiting();
    Ok((attributes, pair.options))
}

pub(crate) fn modify_queue_pair(key: Key, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    let context = pair.context;
    let unsupported_bits = attribute::RATE_LIMIT | attribute::CAPABILITIES;
    if mask & unsupported_bits != 0 {
        return Err(unsupported(
            "rates and sizes of a queue pair are not modified",
        ));
    }
    let from = pair.state;
    let to = transition::next(
        pair.options.kind,
        from,
        mask,
        wanted.state,
        wanted.current_state,
    )
    .map_err(|error| match error {
        ModifyError::NoTransition => invalid(format!(
            "a queue pair does not go from {from:?} to {:?}",
            wanted.state
        )),
        ModifyError::Missing(bits) => invalid(format!("attributes {bits:#x} are missing")),
        ModifyError::Surplus(bits) => {
            invalid(format!("attributes {bits:#x} have no place in this step"))
        }
        ModifyError::NotInState => invalid(format!("the queue pair is in {from:?}")),
    })?;
    engine.check_attributes(context, wanted, mask)?;
    let mut pair = engine.take_pair(key.index()).ok_or_else(gone)?;
    engine.apply(&mut pair, wanted, mask, to);
    engine.put_pair(pair);
    engine.progress();
    engine.wants_ticks();
    Ok(())
}

pub(crate) fn destroy_queue_pair(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let context = engine.pair(key)?.context;
    engine.notices.forget_async(context, Owner::Pair(key));
    while engine.pair(key)?.async_unacknowledged > 0 {
        engine = wait(engine);
    }
    engine.remove_pair(key);
    Ok(())
}

pub(crate) fn post_receive(key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    if pair.options.shared_receive_queue.is_some() {
        return Err(invalid(
            "the queue pair takes its receives from a shared receive queue",
        ));
    }
    if !check::takes_receives(pair.state) {
        return Err(invalid(format!(
            "receives are not posted in {:?}",
            pair.state
        )));
    }
    let sizes = &pair.options.capabilities;
    if request.elements.len() > sizes.max_receive_elements as usize {
        return Err(invalid("a receive has too many elements"));
    }
    if pair.receives.len() >= sizes.max_receive_requests as usize {
        return Err(Error::new(libc::ENOMEM, "the receive queue is full"));
    }
    pair.receives.push_back(Receive {
        request: request.request,
        elements: Elements::new(request.elements),
    });
    if pair.state == QueuePairState::Error {
        let mut pair = engine.take_pair(key.index()).ok_or_else(gone)?;
        engine.flush(&mut pair);
        engine.put_pair(pair);
    }
    Ok(())
}

pub(crate) unsafe fn post_sends(key: Key, requests: &[SendRequest<'_>]) -> Result<()> {
    let mut engine = engine()?;
    let engine = &mut *engine;
    let pair = engine.pair(key)?;
    if !check::takes_sends(pair.state) {
        return Err(invalid(format!("sends are not posted in {:?}", pair.state)));
    }
    let sizes = pair.options.capabilities;
    let kind = pair.options.kind;
    if pair.sends.len() + requests.len() > sizes.max_send_requests as usize {
        return Err(Error::new(libc::ENOMEM, "the send queue is full"));
    }
    let limits = SendLimits {
        elements: sizes.max_send_elements,
        inline_bytes: sizes.max_inline_bytes,
    };
    let length = |request: &SendRequest<'_>| {
        let lengths = request.elements.iter().map(|element| element.length);
        lengths.map(u64::from).sum::<u64>()
    };
    for request in requests {
        check::send(
            kind,
            request.opcode,
            request.flags,
            request.elements.len(),
            length(request),
            limits,
        )
        .map_err(refused)?;
        if kind == QueuePairType::Ud && request.datagram.is_none() {
            return Err(refused(PostError::Address));
        }
    }
    for request in requests {
        let destination = match request.datagram {
            Some(way) if kind == QueuePairType::Ud => {
                let address = engine.addresses.get(way.address.key).ok_or_else(gone)?;
                Some(Box::new((
                    address.attributes,
                    way.queue_pair,
                    way.queue_key,
                )))
            }
            _ => None,
        };
        let inline = (request.flags & send::INLINE != 0).then(|| {
            let mut bytes = Vec::with_capacity(length(request) as usize);
            for element in request.elements.iter().filter(|element| element.length > 0) {
                let start = element.address as *const u8;
                // SAFETY: as promised by the caller.
                bytes.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(start, element.length as usize)
                });
            }
            bytes
        });
        let send = Send {
            request: request.request,
            opcode: request.opcode,
            flags: request.flags,
            elements: Elements::new(request.elements),
            inline,
            length: length(request),
            immediate: request.immediate,
            remote_address: request.remote_address,
            remote_key: request.remote_key,
            compare_add: request.compare_add,
            swap: request.swap,
            destination,
            phase: Phase::Queued,
            sequence: 0,
            offset: 0,
            end: 0,
            is_placed: false,
        };
        engine.pair(key)?.sends.push_back(send);
    }
    let index = key.index();
    let mut pair = engine.take_pair(index).ok_or_else(gone)?;
    engine.transmit(&mut pair);
    engine.put_pair(pair);
    engine.wants_ticks();
    Ok(())
}

fn refused(error: PostError) -> Error {
    match error {
        PostError::State => invalid("sends are not posted in this state"),
        PostError::Opcode => invalid("this type of queue pair has no such operation"),
        PostError::Elements => invalid("a send has too many elements"),
        PostError::Inline => invalid("too many inline bytes, or none possible"),
        PostError::Flags => invalid("a flag of a send is not known"),
        PostError::Address => invalid("a datagram needs an address handle"),
    }
}

impl Engine {
    fn remove_region(&mut self, key: Key) -> Option<()> {
        let state = self.regions.remove(key)?;
        self.tables.regions.set(state.key, None);
        if let Some(domain) = self.domains.get_mut(state.domain) {
            domain.users -= 1;
        }
        Some(())
    }

    fn remove_pair(&mut self, key: Key) {
        let Some(pair) = self.pairs.get_mut(key).and_then(Option::take) else {
            return;
        };
        let entry = self.tables.pairs.at(key.index());
        entry.hears.store(0, Ordering::Release);
        entry.peer.store(0, Ordering::Relaxed);
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
            && shared.receives.len() < shared.limit as usize
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

    fn check_address(&self, context: Key, attributes: &AddressAttributes) -> Result<()> {
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

    fn check_attributes(
        &self,
        context: Key,
        wanted: &QueuePairAttributes,
        mask: u32,
    ) -> Result<()> {
        let state = self.notices.contexts.get(context).ok_or_else(gone)?;
        if mask & attribute::PORT != 0 {
            state.device.check_port(wanted.port)?;
        }
        if mask & attribute::PARTITION_KEY_INDEX != 0 && wanted.partition_key_index != 0 {
            return Err(invalid("there is P_Key 0 alone"));
        }
        if mask & attribute::ALTERNATE_PATH != 0 {
            return Err(unsupported("there are no alternate paths"));
        }
        if mask & attribute::ADDRESS != 0 {
            self.check_address(context, &wanted.address)?;
        }
        if mask & attribute::PATH_MTU != 0 && wanted.path_mtu > device::active_mtu() {
            return Err(invalid("the path's MTU is greater than the port's"));
        }
        if mask & attribute::MAX_READ_ATOMIC != 0
            && wanted.max_read_atomic > limits::READ_ATOMIC_MAX
            || mask & attribute::MAX_DESTINATION_READ_ATOMIC != 0
                && wanted.max_destination_read_atomic > limits::READ_ATOMIC_MAX
        {
            return Err(invalid("too many reads and atomics at once"));
        }
        if mask & attribute::DESTINATION != 0 && wanted.destination >= 1 << 24 {
            return Err(invalid("queue pair numbers have 24 bits"));
        }
        if mask & attribute::ACCESS_FLAGS != 0 && wanted.access_flags & !ACCESS_KNOWN != 0 {
            return Err(invalid("access flags of a queue pair are not all known"));
        }
        if mask & attribute::TIMEOUT != 0 && wanted.timeout > 31
            || mask & attribute::RETRY_COUNT != 0 && wanted.retry_count > 7
            || mask & attribute::RECEIVER_NOT_READY_RETRY != 0
                && wanted.receiver_not_ready_retry > 7
            || mask & attribute::MIN_RECEIVER_NOT_READY_TIMER != 0
                && wanted.min_receiver_not_ready_timer > 31
        {
            return Err(invalid(
                "a timer or a number of retries is out of its range",
            ));
        }
        Ok(())
    }

    /// Takes over attributes, and does what the new state needs.
    fn apply(
        &mut self,
        pair: &mut Pair,
        wanted: &QueuePairAttributes,
        mask: u32,
        to: QueuePairState,
    ) {
        let own = &mut pair.attributes;
        let mut set = |bit: u32, change: &dyn Fn(&mut QueuePairAttributes)| {
            if mask & bit != 0 {
                change(own);
            }
        };
        const PSN: u32 = (1 << 24) - 1;
        set(attribute::SEND_DRAINED_NOTIFY, &|own| {
            own.send_drained_notify = wanted.send_drained_notify;
        });
        set(attribute::ACCESS_FLAGS, &|own| {
            own.access_flags = wanted.access_flags
        });
        set(attribute::PARTITION_KEY_INDEX, &|own| {
            own.partition_key_index = wanted.partition_key_index;
        });
        set(attribute::PORT, &|own| own.port = wanted.port);
        set(attribute::QUEUE_KEY, &|own| {
            own.queue_key = wanted.queue_key
        });
        set(attribute::ADDRESS, &|own| own.address = wanted.address);
        set(attribute::PATH_MTU, &|own| own.path_mtu = wanted.path_mtu);
        set(attribute::TIMEOUT, &|own| own.timeout = wanted.timeout);
        set(attribute::RETRY_COUNT, &|own| {
            own.retry_count = wanted.retry_count
        });
        set(attribute::RECEIVER_NOT_READY_RETRY, &|own| {
            own.receiver_not_ready_retry = wanted.receiver_not_ready_retry;
        });
        set(attribute::RECEIVE_PACKET_NUMBER, &|own| {
            own.receive_packet_number = wanted.receive_packet_number & PSN;
        });
        set(attribute::SEND_PACKET_NUMBER, &|own| {
            own.send_packet_number = wanted.send_packet_number & PSN;
        });
        set(attribute::MAX_READ_ATOMIC, &|own| {
            own.max_read_atomic = wanted.max_read_atomic
        });
        set(attribute::MAX_DESTINATION_READ_ATOMIC, &|own| {
            own.max_destination_read_atomic = wanted.max_destination_read_atomic;
        });
        set(attribute::MIN_RECEIVER_NOT_READY_TIMER, &|own| {
            own.min_receiver_not_ready_timer = wanted.min_receiver_not_ready_timer;
        });
        set(attribute::PATH_MIGRATION_STATE, &|own| {
            own.path_migration_state = wanted.path_migration_state;
        });
        set(attribute::DESTINATION, &|own| {
            own.destination = wanted.destination
        });
        let from = std::mem::replace(&mut pair.state, to);
        match (from, to) {
            (_, QueuePairState::Reset) => {
                pair.attributes = QueuePairAttributes::default();
                pair.sends.clear();
                pair.receives.clear();
                pair.started = 0;
                pair.asked = 0;
                pair.incoming = None;
                pair.link = None;
                pair.is_established = false;
                pair.drain_wanted = false;
                for queue in [pair.options.send_queue, pair.options.receive_queue] {
                    self.notices.forget_completions(queue.key, pair.number);
                }
            }
            (QueuePairState::Init, QueuePairState::ReadyToReceive) => {
                pair.expected = pair.attributes.receive_packet_number;
                if pair.options.kind != QueuePairType::Ud {
                    pair.link = self.link_to(pair.attributes.destination);
                }
            }
            (QueuePairState::ReadyToReceive, QueuePairState::ReadyToSend) => {
                pair.next_sequence = pair.attributes.send_packet_number;
                pair.retry_count = 0;
                pair.not_ready_count = 0;
                pair.wait_until = 0;
            }
            (_, QueuePairState::SendDrained) => {
                pair.drain_wanted = true;
            }
            (_, QueuePairState::Error) if from != QueuePairState::Error => {
                self.show(pair);
                self.fail(pair);
                return;
            }
            _ => {}
        }
        self.show(pair);
        self.transmit(pair);
    }
}
