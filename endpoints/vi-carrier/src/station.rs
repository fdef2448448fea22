//! A process's end of its virtual networks.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use viaduct_am::{
    Admission, Carrier, CarrierError, Group, Key, Message, Name, Readiness, Refusal, Slot, Taken,
    TimedOut, Watch,
};
use viaduct_core::Address;
use viaduct_provider::{
    CompletionQueue, CompletionQueueHandle, Error, Nic, NicHandle, Provider, Result, ReturnCode,
};

use crate::acceptor::Acceptor;
use crate::connection::DEPTH;
use crate::identity::Identity;
use crate::options::Options;
use crate::payload::Payload;
use crate::peers::Route;
use crate::state::{StationState, Statistics};

/// The way back of a request.
#[derive(Debug)]
pub struct ReturnPath {
    pub(crate) peer: u32,
    pub(crate) endpoint: u32,
    pub(crate) tag: u32,
}

/// A process's end: where its endpoints are made, and what carries their messages.
///
/// A clone is another handle to the same. With the last one, endpoints' included, it closes: what
/// was sent is waited for, for up to a quarter of a second, then the connections end.
pub struct Station<P: Provider>(Arc<Owner<P>>);

struct Owner<P: Provider>(Arc<Shared<P>>);

pub(crate) struct Shared<P: Provider> {
    state: Mutex<StationState<P>>,
    pub(crate) fabric: viaduct_provider::Fabric<P>,
    pub(crate) nic: NicHandle,
    pub(crate) address: Address,
    pub(crate) completions: CompletionQueueHandle,
    /// Nothing ever comes here: a wait in it is a sleep in the fabric's own time.
    pause: CompletionQueue<P>,
    pub(crate) is_stopping: AtomicBool,
    /// Whether threads of the system run it, which can wake one another.
    pub(crate) has_threads: bool,
}

impl<P: Provider> Station<P> {
    /// Opens a station, and answers its peers in a thread of its own.
    ///
    /// # Errors
    ///
    /// What the fabric says; [`ReturnCode::Resource`] when there is no thread.
    pub fn start(
        fabric: impl Into<viaduct_provider::Fabric<P>>,
        device: &str,
        identity: Identity,
        options: Options,
    ) -> Result<Self> {
        let (station, acceptor) = Self::new(fabric.into(), device, identity, options, true)?;
        let spawned = thread::Builder::new()
            .name("viaduct-accept".to_owned())
            .spawn(move || acceptor.run());
        let no_thread = |error: io::Error| {
            let reason = format!("no thread to answer peers: {error}");
            Error::new(ReturnCode::Resource, reason)
        };
        spawned.map_err(no_thread)?;
        Ok(station)
    }

    /// Opens a station whose [`Acceptor`] the caller runs, beside the program: on simulated hosts,
    /// as another program of the same host. One program of such a host uses the station.
    ///
    /// # Errors
    ///
    /// What the fabric says.
    pub fn open(
        fabric: impl Into<viaduct_provider::Fabric<P>>,
        device: &str,
        identity: Identity,
        options: Options,
    ) -> Result<(Self, Acceptor<P>)> {
        Self::new(fabric.into(), device, identity, options, false)
    }

    fn new(
        fabric: viaduct_provider::Fabric<P>,
        device: &str,
        identity: Identity,
        options: Options,
        has_threads: bool,
    ) -> Result<(Self, Acceptor<P>)> {
        if options.frames == 0 || options.frames > FRAMES_MAX {
            let reason = format!(
                "{} frames are asked for; a station has 1 to {FRAMES_MAX}",
                options.frames
            );
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        }
        let nic = Nic::open(fabric.clone(), device)?;
        // A connection that ends says so by its descriptors.
        nic.set_error_handler(Some(Arc::new(|_| {})))?;
        // Every receive of every connection may complete before the first is taken.
        let entries = 2 * options.frames * DEPTH;
        let limit = nic.attributes().max_completion_queue_entries;
        let completions = nic.completion_queue(entries.min(limit))?;
        let shared = Arc::new(Shared {
            fabric,
            nic: nic.handle(),
            address: identity.address(nic.host()),
            completions: completions.handle(),
            pause: nic.completion_queue(1)?,
            state: Mutex::new(StationState::new(
                nic,
                completions,
                identity,
                options,
                has_threads,
            )),
            is_stopping: AtomicBool::new(false),
            has_threads,
        });
        let acceptor = Acceptor::new(Arc::clone(&shared));
        Ok((Self(Arc::new(Owner(shared))), acceptor))
    }

    /// What it has done and has.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let state = self.shared().lock();
        let mut statistics = state.statistics;
        let open = state.connections.iter().flatten();
        statistics.connections = open.filter(|each| each.is_open).count() as u32;
        // But the own one.
        statistics.peers = state.peers.len() as u64 - 1;
        statistics
    }

    /// Waits until all that was sent is acknowledged, or nothing has changed for about `limit`;
    /// whether it is. Messages for endpoints that are full count as sent.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared().flush(limit)
    }

    fn shared(&self) -> &Shared<P> {
        &self.0.0
    }

    /// Connects to whom somebody waits to send, if there is one: with the lock free.
    #[inline]
    fn unlock(&self, state: MutexGuard<'_, StationState<P>>) {
        let must_connect = !state.to_connect.is_empty();
        drop(state);
        if must_connect {
            self.shared().connect_waiting();
        }
    }
}

impl<P: Provider> Shared<P> {
    /// Takes the lock. Nobody sleeps with it, but on a simulated host whoever has it may be
    /// switched off in the middle: so this gives way in the fabric's time.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, StationState<P>> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_slowly(),
        }
    }

    #[cold]
    fn lock_slowly(&self) -> MutexGuard<'_, StationState<P>> {
        if self.has_threads {
            return self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            self.pause(Duration::from_micros(1));
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }

    /// Sleeps, in the time of the fabric.
    pub(crate) fn pause(&self, span: Duration) {
        // It can only time out.
        let _ = self.fabric.completion_wait(self.pause.handle(), Some(span));
    }

    fn flush(&self, limit: Duration) -> bool {
        const LOOK: Duration = Duration::from_micros(250);

        let mut left = limit;
        let mut last = None;
        loop {
            let mut state = self.lock();
            state.progress(|_| false);
            state.acknowledge_all();
            state.settle_late();
            let must_connect = !state.to_connect.is_empty();
            let unsent: usize = state.peers.iter().map(|peer| peer.pending.len()).sum();
            let present = state.connections.iter().flatten();
            // What is owed cannot go before the acceptor has noted that the connection came about.
            let unacknowledged: u32 = present.map(|each| each.outstanding() + each.owed()).sum();
            drop(state);
            if unsent == 0 && unacknowledged == 0 {
                return true;
            }
            if must_connect {
                self.connect_waiting();
            }
            if last.replace((unsent, unacknowledged)) != last {
                left = limit;
            }
            if left.is_zero() {
                return false;
            }
            self.pause(LOOK);
            left = left.saturating_sub(LOOK);
        }
    }

    fn close(&self) {
        const PATIENCE: Duration = Duration::from_millis(250);

        self.flush(PATIENCE);
        self.is_stopping.store(true, Ordering::Release);
        let mut state = self.lock();
        state.is_closed = true;
        state.waiters.wake_all();
        for index in 0..state.connections.len() {
            if state.connections[index]
                .as_deref()
                .is_some_and(|each| each.is_open)
            {
                state.close(index, false);
            }
        }
        drop(state);
        self.knock();
    }
}

impl<P: Provider> Carrier for Station<P> {
    type Payload = Payload;
    type ReturnPath = ReturnPath;
    type Route = Route;

    fn create(&self, admission: Admission) -> std::result::Result<(Slot, Name), CarrierError> {
        self.shared().lock().create(admission)
    }

    fn destroy(&self, slot: Slot) {
        let mut state = self.shared().lock();
        state.destroy(slot);
        state.follow();
        self.unlock(state);
    }

    fn resolve(&self, name: &Name) -> std::result::Result<Route, CarrierError> {
        self.shared().lock().resolve(name)
    }

    fn release(&self, route: Route) {
        self.shared().lock().release(route);
    }

    #[inline]
    fn offer(
        &self,
        slot: Slot,
        route: Route,
        key: Key,
        context: u32,
        message: &Message<'_>,
    ) -> std::result::Result<(), Refusal> {
        let mut state = self.shared().lock();
        let outcome = state.offer(slot, route, key, context, message);
        state.follow();
        self.unlock(state);
        outcome
    }

    #[inline]
    fn reply(&self, slot: Slot, path: ReturnPath, message: Option<&Message<'_>>) {
        let mut state = self.shared().lock();
        state.reply(slot, path, message);
        state.follow();
        self.unlock(state);
    }

    #[inline]
    fn take(&self, slot: Slot) -> Option<Taken<Self>> {
        let mut state = self.shared().lock();
        state.waiters.note_user();
        if state.endpoints[slot.0 as usize].is_empty() {
            state.progress(|state| !state.endpoints[slot.0 as usize].is_empty());
        }
        let arrival = state.pop(slot.0);
        let has_more = !state.endpoints[slot.0 as usize].is_empty();
        state.follow();
        self.unlock(state);
        Some(Taken {
            member: 0,
            arrival: arrival?,
            has_more,
        })
    }

    fn look(&self, slot: Slot) -> Readiness {
        self.shared().lock().look(slot.0)
    }

    fn create_group(&self) -> Group {
        let mut state = self.shared().lock();
        let free = state.groups.iter().position(Option::is_none);
        let index = free.unwrap_or(state.groups.len());
        if index == state.groups.len() {
            state.groups.push(None);
        }
        state.groups[index] = Some(Default::default());
        // As many as there is memory for.
        Group(index as u32)
    }

    fn destroy_group(&self, group: Group) {
        let mut state = self.shared().lock();
        state.groups[group.0 as usize] = None;
        for endpoint in &mut state.endpoints {
            if endpoint.group.is_some_and(|(its, _)| its == group.0) {
                endpoint.group = None;
                endpoint.is_queued_in_group = false;
            }
        }
    }

    fn join(&self, slot: Slot, group: Group, member: u32) {
        let mut state = self.shared().lock();
        let endpoint = &mut state.endpoints[slot.0 as usize];
        endpoint.group = Some((group.0, member));
        endpoint.is_queued_in_group = false;
        if !endpoint.is_empty() {
            state.arrived(slot.0);
        }
    }

    fn leave(&self, slot: Slot) {
        let mut state = self.shared().lock();
        let endpoint = &mut state.endpoints[slot.0 as usize];
        let group = endpoint.group.take();
        endpoint.is_queued_in_group = false;
        if let Some((group, _)) = group
            && let Some(Some(line)) = state.groups.get_mut(group as usize)
        {
            line.retain(|each| *each != slot.0);
        }
    }

    #[inline]
    fn take_any(&self, group: Group) -> Option<Taken<Self>> {
        let mut state = self.shared().lock();
        state.waiters.note_user();
        if !state.has_ready(group.0) {
            state.progress(|state| state.has_ready(group.0));
        }
        let popped = state.pop_any(group.0);
        let has_more = state.has_ready(group.0);
        state.follow();
        self.unlock(state);
        let (member, arrival) = popped?;
        Some(Taken {
            member,
            arrival,
            has_more,
        })
    }

    fn wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        limit: Option<Duration>,
    ) -> std::result::Result<(), TimedOut> {
        self.shared().wait(watch, is_over, limit)
    }

    fn poll_wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.shared().poll_wait(watch, is_over, context)
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn relax(&self) {
        if self.shared().has_threads {
            thread::yield_now();
        } else {
            self.shared().pause(Duration::from_micros(1));
        }
    }
}

impl<P: Provider> Clone for Station<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: Provider> Drop for Owner<P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<P: Provider> fmt::Debug for Station<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Station")
            .field("address", &self.shared().address)
            .finish_non_exhaustive()
    }
}

/// Frames of a station, at most.
const FRAMES_MAX: u32 = 16_384;
