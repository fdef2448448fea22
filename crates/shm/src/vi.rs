//! VIs: creation, state, the end of a connection, and the calls of the data path.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_fabric::{
    CompletionQueueHandle, Descriptor, DescriptorHandler, Done, Error, ErrorCode, NicHandle,
    Result, ReturnCode, ViHandle, ViInformation,
};
use viaduct_via::{
    MemoryHandle, ProtectionTag, Queue, Status, ViAttributes, ViError, ViState, check, outcome,
    transition,
};

use crate::channel::Direction;
use crate::completion_queue::{self, CompletionQueue};
use crate::connect::{ChannelEnd, CloseReason, Connectable, LocalEnd, RemoteEnd};
use crate::handle::{Slab, Slot};
use crate::host::{Host, Pace, Progress};
use crate::lock::BiasedMutex;
use crate::nic::Nic;
use crate::receive::{Incoming, Look, ReceiveSide};
use crate::refuse;
use crate::send::{Outgoing, SendSide, Step};
use crate::side::{Side, bound_to_completion_queue, dead_vi};
use crate::wait::{self, Deadline, Parker, SERVICE_MARK, Spin, barrier_everywhere};

static VIS: Slab<Vi> = Slab::new();

/// Looks in vain after which the processor is offered to others.
const LOOKS_A_YIELD: u32 = 4096;

/// A VI. Locks are taken in the order of the fields; see `completion_queue` for its locks.
#[derive(Default)]
pub(crate) struct Vi {
    control: Mutex<Control>,
    send: BiasedMutex<SendSide>,
    receive: BiasedMutex<ReceiveSide>,
    /// Changed with both sides locked.
    state: AtomicU8,
    /// Receives posted, as the peer was told.
    posted: AtomicU32,
    /// Receives that the peer has posted, as last heard in a slot.
    credit: AtomicU32,
    /// Sends wait for the peer.
    is_waiting: AtomicBool,
    /// The handle under which the service thread watches it; 0: it does not.
    watched: AtomicU64,
    looks: AtomicU32,
}

/// What the data path does not need.
#[derive(Default)]
struct Control {
    handle: u64,
    nic: Option<Arc<Nic>>,
    attributes: Option<ViAttributes>,
    completions: [Option<&'static Slot<CompletionQueue>>; 2],
}

/// A VI as the service thread and the connecting functions see it.
#[derive(Debug)]
pub(crate) struct Connected {
    slot: &'static Slot<Vi>,
    vi: u64,
}

pub(crate) fn find(vi: ViHandle) -> Result<&'static Slot<Vi>> {
    VIS.find(vi.bits()).ok_or_else(dead_vi)
}

/// The VI behind a handle, for `connect`.
pub(crate) fn connectable(vi: ViHandle) -> Result<Arc<dyn Connectable>> {
    let slot = find(vi)?;
    Ok(Arc::new(Connected {
        slot,
        vi: vi.bits(),
    }))
}

/// Makes a VI.
pub(crate) fn create(
    nic: &Arc<Nic>,
    attributes: &ViAttributes,
    send_completions: Option<CompletionQueueHandle>,
    receive_completions: Option<CompletionQueueHandle>,
) -> Result<ViHandle> {
    check::vi_is_supported(attributes, &nic.attributes).map_err(refuse::vi)?;
    let mut completions = [None, None];
    for (place, handle) in completions
        .iter_mut()
        .zip([send_completions, receive_completions])
    {
        if let Some(handle) = handle {
            let queue = completion_queue::find(handle)?;
            if queue.object.nic() != nic.handle.bits() {
                return Err(Error::new(
                    ReturnCode::InvalidParameter,
                    "the completion queue belongs to another NIC",
                ));
            }
            *place = Some(queue);
        }
    }
    nic.regions.retain_tag(attributes.tag)?;
    let Some(slot) = VIS.take() else {
        nic.regions.release_tag(attributes.tag);
        return Err(Error::new(
            ReturnCode::Resource,
            "all VIs exist: destroy one first",
        ));
    };
    for queue in completions.into_iter().flatten() {
        queue.object.bind();
    }
    let vi = &slot.object;
    let mut control = vi.control();
    let handle = slot.revive();
    vi.set_state(ViState::Idle);
    *control = Control {
        handle,
        nic: Some(Arc::clone(nic)),
        attributes: Some(*attributes),
        completions,
        ..Control::default()
    };
    let mut send = vi.send.lock();
    let mut receive = vi.receive.lock();
    send.side = Side::new(handle, nic, completions[0], attributes);
    receive.side = Side::new(handle, nic, completions[1], attributes);
    ViHandle::from_bits(handle).ok_or_else(dead_vi)
}

/// Destroys a VI that is idle or broken.
pub(crate) fn destroy(handle: ViHandle) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    {
        let control = vi.control();
        if control.handle != handle.bits() {
            return Err(dead_vi());
        }
        let state = vi.state();
        if !transition::may_be_destroyed(state) {
            return Err(Error::new(
                ReturnCode::InvalidState,
                format!("the VI is in state {state}: disconnect it first"),
            ));
        }
    }
    vi.bury(slot, handle.bits())
}

/// Destroys every VI of a NIC, connected or not.
pub(crate) fn destroy_all(nic: NicHandle) {
    for slot in VIS.living() {
        let vi = &slot.object;
        let (handle, is_of_nic) = {
            let control = vi.control();
            (
                control.handle,
                control.nic.as_ref().is_some_and(|own| own.handle == nic),
            )
        };
        if is_of_nic && let Some(handle) = ViHandle::from_bits(handle) {
            let _ = disconnect(handle);
            let _ = vi.bury(slot, handle.bits());
        }
    }
}

/// State, attributes, and whether the queues are empty.
pub(crate) fn query(handle: ViHandle) -> Result<ViInformation> {
    let vi = &find(handle)?.object;
    let control = vi.control();
    let attributes = control
        .attributes
        .filter(|_| control.handle == handle.bits())
        .ok_or_else(dead_vi)?;
    let send_queue_empty = vi.send.lock().side.queue.is_empty();
    let receive_queue_empty = vi.receive.lock().side.queue.is_empty();
    Ok(ViInformation {
        state: vi.state(),
        attributes,
        send_queue_empty,
        receive_queue_empty,
    })
}

/// Changes an idle VI's attributes.
pub(crate) fn set_attributes(handle: ViHandle, attributes: &ViAttributes) -> Result<()> {
    let vi = &find(handle)?.object;
    let mut control = vi.idle(handle)?;
    let nic = control.nic.clone().ok_or_else(dead_vi)?;
    check::vi_is_supported(attributes, &nic.attributes).map_err(refuse::vi)?;
    nic.regions.retain_tag(attributes.tag)?;
    if let Some(old) = control.attributes.replace(*attributes) {
        nic.regions.release_tag(old.tag);
    }
    vi.send.lock().side.set_attributes(attributes);
    vi.receive.lock().side.set_attributes(attributes);
    Ok(())
}

/// Whether sends of an idle VI wait for a posted receive.
pub(crate) fn set_flow_control(handle: ViHandle, enabled: bool) -> Result<()> {
    let mut control = find(handle)?.object.idle(handle)?;
    let attributes = control.attributes.as_mut().ok_or_else(dead_vi)?;
    attributes.extensions.flow_control = enabled;
    Ok(())
}

/// Whether messages longer than a receive continue in the following ones.
pub(crate) fn set_request_splitting(handle: ViHandle, enabled: bool) -> Result<()> {
    let mut control = find(handle)?.object.idle(handle)?;
    let attributes = control.attributes.as_mut().ok_or_else(dead_vi)?;
    attributes.extensions.request_splitting = enabled;
    Ok(())
}

/// Ends the connection, or the attempt at one, and flushes both queues.
pub(crate) fn disconnect(handle: ViHandle) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    let nic_and_completions = {
        let control = vi.control();
        if control.handle != handle.bits() {
            return Err(dead_vi());
        }
        control.completions
    };
    if vi.state() == ViState::ConnectPending {
        Host::get()?.connect_cancel(handle.bits());
    }
    let mut send = vi.send.lock();
    let mut receive = vi.receive.lock();
    if send.side.handle != handle.bits() {
        return Err(dead_vi());
    }
    let left = vi.end(&mut send, &mut receive, outcome::peer_disconnected().sender);
    vi.set_state(ViState::Idle);
    drop(receive);
    drop(send);
    vi.leave(
        handle.bits(),
        nic_and_completions,
        left,
        CloseReason::Disconnected,
    );
    Ok(())
}

/// Posts to the send queue.
///
/// # Safety
///
/// As [`viaduct_fabric::Provider::post_send`].
#[inline]
pub(crate) unsafe fn post_send(
    handle: ViHandle,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    let mut send = vi.send.lock();
    if send.side.handle != handle.bits() {
        return Err(dead_vi());
    }
    // SAFETY: the caller's promise.
    unsafe { send.side.post(descriptor, memory, Queue::Send)? };
    if send.out.is_none() {
        send.side.flush(Queue::Send);
        return Ok(());
    }
    match send.progress(
        vi.credit.load(Ordering::Relaxed),
        vi.posted.load(Ordering::Relaxed),
    ) {
        Step::Breaks => {
            let connection = send.connection();
            drop(send);
            vi.break_connection(handle.bits(), connection);
        }
        _ => {
            if send.is_waiting() {
                vi.is_waiting.store(true, Ordering::SeqCst);
                drop(send);
                vi.watch(slot, handle.bits(), Pace::Quick);
            } else if vi.watched.load(Ordering::Relaxed) != handle.bits() {
                drop(send);
                vi.watch(slot, handle.bits(), Pace::Slow);
            }
        }
    }
    Ok(())
}

/// Posts to the receive queue.
///
/// # Safety
///
/// As [`viaduct_fabric::Provider::post_send`].
#[inline]
pub(crate) unsafe fn post_receive(
    handle: ViHandle,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Result<()> {
    let vi = &find(handle)?.object;
    let mut receive = vi.receive.lock();
    if receive.side.handle != handle.bits() {
        return Err(dead_vi());
    }
    // SAFETY: the caller's promise.
    unsafe { receive.side.post(descriptor, memory, Queue::Receive)? };
    if receive.incoming.is_some() {
        receive.posted(&vi.posted);
    } else if transition::flushes_posts(vi.state(), Queue::Receive) {
        receive.side.flush(Queue::Receive);
    }
    Ok(())
}

/// Takes the oldest completed send.
#[inline]
pub(crate) fn send_done(handle: ViHandle) -> Result<Done> {
    let slot = find(handle)?;
    slot.object.send_done(handle.bits())
}

/// Takes the oldest completed receive.
#[inline]
pub(crate) fn receive_done(handle: ViHandle) -> Result<Done> {
    let slot = find(handle)?;
    slot.object.receive_done(handle.bits())
}

/// Waits for the oldest send.
pub(crate) fn send_wait(handle: ViHandle, limit: Option<Duration>) -> Result<Done> {
    let vi = &find(handle)?.object;
    let deadline = Deadline::after(limit);
    let mut spin = Spin::new();
    let mut nap = Duration::from_micros(50);
    loop {
        if vi.send.lock().side.completion_queue.is_some() {
            return Err(bound_to_completion_queue());
        }
        match vi.send_done(handle.bits())? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        if deadline.is_over() {
            return Err(timeout());
        }
        if spin.again() {
            continue;
        }
        // The receiver's counter has no sleeper's mark: this looks at it now and then.
        let mut parker = Parker::take(wait::doorbells());
        vi.send.lock().side.waiters |= parker.bit();
        parker.announce();
        let found = vi.send_done(handle.bits());
        if matches!(found, Ok(Done::NotDone)) {
            parker.sleep(Some(deadline.left().map_or(nap, |left| left.min(nap))));
        }
        vi.send.lock().side.waiters &= !parker.bit();
        match found? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        nap = (nap * 2).min(Duration::from_millis(1));
    }
}

/// Waits for the oldest receive.
pub(crate) fn receive_wait(handle: ViHandle, limit: Option<Duration>) -> Result<Done> {
    let vi = &find(handle)?.object;
    if vi.receive.lock().side.completion_queue.is_some() {
        return Err(bound_to_completion_queue());
    }
    let deadline = Deadline::after(limit);
    let mut spin = Spin::new();
    loop {
        match vi.receive_done(handle.bits())? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        if deadline.is_over() {
            return Err(timeout());
        }
        if spin.again() {
            continue;
        }
        let mut parker = Parker::take(wait::doorbells());
        vi.receive.lock().side.waiters |= parker.bit();
        vi.set_sleeper(handle.bits(), parker.mark());
        parker.announce();
        let found = vi.receive_done(handle.bits());
        if matches!(found, Ok(Done::NotDone)) {
            parker.sleep(deadline.left());
        }
        vi.clear_sleeper(handle.bits(), parker.mark());
        vi.arm(handle.bits());
        let others = {
            let mut receive = vi.receive.lock();
            receive.side.waiters &= !parker.bit();
            std::mem::take(&mut receive.side.waiters)
        };
        // Whoever else waits here may have lost its mark to this thread.
        wait::doorbells().wake_all(others);
        match found? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        spin = Spin::new();
    }
}

fn timeout() -> Error {
    Error::new(ReturnCode::Timeout, "no descriptor completed in time")
}

/// Arms a handler for one completed send.
pub(crate) fn send_notify(handle: ViHandle, handler: DescriptorHandler) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    let mut send = vi.send.lock();
    if send.side.handle != handle.bits() {
        return Err(dead_vi());
    }
    send.side.notify(handler)
}

/// Arms a handler for one completed receive.
pub(crate) fn receive_notify(handle: ViHandle, handler: DescriptorHandler) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    {
        let mut receive = vi.receive.lock();
        if receive.side.handle != handle.bits() {
            return Err(dead_vi());
        }
        receive.side.notify(handler)?;
    }
    vi.arm(handle.bits());
    Ok(())
}

impl Vi {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> ViState {
        match self.state.load(Ordering::Acquire) {
            1 => ViState::Connected,
            2 => ViState::ConnectPending,
            3 => ViState::Error,
            _ => ViState::Idle,
        }
    }

    fn set_state(&self, state: ViState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// The control of an idle VI, which stays idle while it is held.
    fn idle(&self, handle: ViHandle) -> Result<MutexGuard<'_, Control>> {
        let control = self.control();
        if control.handle != handle.bits() {
            return Err(dead_vi());
        }
        let state = self.state();
        if !transition::may_be_changed(state) {
            return Err(Error::new(
                ReturnCode::InvalidState,
                format!("the VI is in state {state}: only an idle VI can be changed"),
            ));
        }
        Ok(control)
    }

    /// Makes an unconnected VI unreachable, and gives back what it holds.
    fn bury(&self, slot: &'static Slot<Self>, handle: u64) -> Result<()> {
        if !slot.kill(handle) {
            return Err(dead_vi());
        }
        let mut waiters = 0;
        {
            let mut send = self.send.lock();
            waiters |= send.side.waiters;
            *send = SendSide::default();
        }
        {
            let mut receive = self.receive.lock();
            waiters |= receive.side.waiters;
            *receive = ReceiveSide::default();
        }
        let old = std::mem::take(&mut *self.control());
        for queue in old.completions.into_iter().flatten() {
            queue.object.unbind(handle);
        }
        if let (Some(nic), Some(attributes)) = (old.nic, old.attributes) {
            nic.regions.release_tag(attributes.tag);
        }
        self.is_waiting.store(false, Ordering::Relaxed);
        self.watched.store(0, Ordering::SeqCst);
        self.set_state(ViState::Idle);
        wait::doorbells().wake_all(waiters);
        VIS.give_back(slot);
        Ok(())
    }

    #[inline]
    fn send_done(&self, handle: u64) -> Result<Done> {
        let mut send = self.send.lock();
        if send.side.handle != handle {
            return Err(dead_vi());
        }
        let done = send.side.take();
        if done != Done::NotDone || send.out.is_none() {
            return Ok(done);
        }
        let step = send.progress(
            self.credit.load(Ordering::Relaxed),
            self.posted.load(Ordering::Relaxed),
        );
        if step == Step::Breaks {
            let connection = send.connection();
            drop(send);
            self.break_connection(handle, connection);
            send = self.send.lock();
        }
        let done = send.side.take();
        drop(send);
        if done == Done::NotDone {
            self.looked_in_vain();
        }
        Ok(done)
    }

    #[inline]
    fn receive_done(&self, handle: u64) -> Result<Done> {
        let mut receive = self.receive.lock();
        if receive.side.handle != handle {
            return Err(dead_vi());
        }
        while receive.side.queue.head == receive.side.queue.done {
            match receive.look(&self.credit) {
                Look::Nothing => break,
                Look::Dealt => {}
                Look::Breaks | Look::Garbage => {
                    let connection = receive.connection();
                    drop(receive);
                    self.break_connection(handle, connection);
                    receive = self.receive.lock();
                    break;
                }
            }
        }
        let done = receive.side.take();
        drop(receive);
        if done == Done::NotDone {
            self.looked_in_vain();
        }
        Ok(done)
    }

    /// Spinning programs must not keep the processor from the one they wait for.
    #[inline]
    fn looked_in_vain(&self) {
        let looks = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(looks, Ordering::Relaxed);
        if looks.is_multiple_of(LOOKS_A_YIELD) {
            std::thread::yield_now();
        }
    }

    /// Looks for news of a VI, for its completion queue; how many messages there were.
    pub(crate) fn look(slot: &'static Slot<Self>, handle: u64, limit: u32) -> u32 {
        let vi = &slot.object;
        if vi.is_waiting.load(Ordering::Relaxed) {
            vi.push_sends(handle);
        }
        let mut receive = vi.receive.lock();
        if receive.side.handle != handle {
            return 0;
        }
        for found in 0..limit {
            match receive.look(&vi.credit) {
                Look::Nothing => return found,
                Look::Dealt => {}
                Look::Breaks | Look::Garbage => {
                    let connection = receive.connection();
                    drop(receive);
                    vi.break_connection(handle, connection);
                    return found + 1;
                }
            }
        }
        limit
    }

    /// Sends and completes what waits for the peer. Whether something still does.
    pub(crate) fn push_sends(&self, handle: u64) -> bool {
        let mut send = self.send.lock();
        if send.side.handle != handle {
            return false;
        }
        if send.out.is_none() {
            self.is_waiting.store(false, Ordering::Relaxed);
            return false;
        }
        let step = send.progress(
            self.credit.load(Ordering::Relaxed),
            self.posted.load(Ordering::Relaxed),
        );
        let waits = send.is_waiting();
        self.is_waiting.store(waits, Ordering::Relaxed);
        let connection = send.connection();
        drop(send);
        if step == Step::Breaks {
            self.break_connection(handle, connection);
        }
        waits
    }

    /// Has the peer's service thread look when its program has used nothing for a while. Whether
    /// something is still to be used.
    fn kick_peer_if_stuck(&self, handle: u64) -> bool {
        let mut send = self.send.lock();
        if send.side.handle != handle {
            return false;
        }
        let Some(out) = &mut send.out else {
            return false;
        };
        if out.is_stuck() {
            out.kick();
        }
        out.has_unused()
    }

    /// Has the service thread look after what was sent, should neither program make a call.
    #[cold]
    fn watch(&self, slot: &'static Slot<Self>, handle: u64, pace: Pace) {
        if self.watched.swap(handle, Ordering::SeqCst) != handle
            && let Ok(host) = Host::get()
        {
            host.watch(Arc::new(Connected { slot, vi: handle }), pace);
        }
    }

    /// Leaves a sleeper's mark for the next message.
    pub(crate) fn set_sleeper(&self, handle: u64, mark: u32) {
        let receive = self.receive.lock();
        if receive.side.handle == handle
            && let Some(incoming) = &receive.incoming
        {
            incoming.direction.sleeper().store(mark, Ordering::Relaxed);
        }
    }

    /// Takes it back if it is still there.
    pub(crate) fn clear_sleeper(&self, handle: u64, mark: u32) {
        let receive = self.receive.lock();
        if receive.side.handle == handle
            && let Some(incoming) = &receive.incoming
        {
            let sleeper = incoming.direction.sleeper();
            let _ = sleeper.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Has the service thread look when a message comes, while a handler waits for one.
    fn arm(&self, handle: u64) {
        let is_armed = {
            let receive = self.receive.lock();
            receive.side.is_armed()
                || receive
                    .side
                    .completion_queue
                    .is_some_and(|queue| queue.object.is_armed())
        };
        if is_armed {
            self.set_sleeper(handle, SERVICE_MARK);
            barrier_everywhere();
            if let Some(slot) = VIS.find(handle) {
                Self::look(slot, handle, u32::MAX);
            }
        }
    }

    /// Takes both sides out of their connection and completes what was posted.
    fn end(
        &self,
        send: &mut SendSide,
        receive: &mut ReceiveSide,
        in_flight: Status,
    ) -> Option<ChannelEndLeft> {
        let left = send.out.as_ref().map(|out| ChannelEndLeft {
            link: Arc::clone(&out.link),
            channel: out.channel,
            connection: out.connection,
        });
        receive.end();
        send.end(in_flight);
        self.is_waiting.store(false, Ordering::Relaxed);
        left
    }

    /// What follows with no lock held.
    fn leave(
        &self,
        handle: u64,
        completions: [Option<&'static Slot<CompletionQueue>>; 2],
        left: Option<ChannelEndLeft>,
        reason: CloseReason,
    ) {
        for queue in completions.into_iter().flatten() {
            queue.object.remove_source(handle);
        }
        if let Some(left) = left {
            left.link.close(left.channel, left.connection, reason);
        }
    }

    /// An error at a reliable level, or a peer that broke the protocol, ends the connection.
    #[cold]
    fn break_connection(&self, handle: u64, connection: Option<u64>) {
        let completions = self.control().completions;
        let mut send = self.send.lock();
        let mut receive = self.receive.lock();
        // The peer may have ended it meanwhile, and the program begun another.
        if send.side.handle != handle || connection.is_none() || send.connection() != connection {
            return;
        }
        let left = self.end(&mut send, &mut receive, outcome::peer_disconnected().sender);
        self.set_state(ViState::Error);
        receive
            .side
            .report(ErrorCode::ConnectionLost, None, Queue::Receive);
        drop(receive);
        drop(send);
        self.leave(handle, completions, left, CloseReason::Broken);
    }
}

struct ChannelEndLeft {
    link: Arc<crate::link::Link>,
    channel: u32,
    connection: u64,
}

impl Progress for Connected {
    fn progress(&self) -> Pace {
        let vi = self.vi();
        if vi.watched.load(Ordering::SeqCst) != self.vi {
            // Another VI lives here now.
            return Pace::Over;
        }
        if vi.is_waiting.load(Ordering::Relaxed) && vi.push_sends(self.vi) {
            vi.kick_peer_if_stuck(self.vi);
            return Pace::Quick;
        }
        if vi.kick_peer_if_stuck(self.vi) {
            return Pace::Slow;
        }
        vi.watched.store(0, Ordering::SeqCst);
        // A send that began to wait meanwhile found the VI watched.
        if vi.is_waiting.load(Ordering::SeqCst)
            && vi.watched.swap(self.vi, Ordering::SeqCst) != self.vi
        {
            return Pace::Quick;
        }
        Pace::Over
    }
}

impl Connected {
    fn vi(&self) -> &'static Vi {
        &self.slot.object
    }

    pub(crate) const fn handle(&self) -> u64 {
        self.vi
    }
}

impl Connectable for Connected {
    fn local_end(&self) -> LocalEnd {
        let control = self.vi().control();
        let nothing = ViAttributes::unreliable(ProtectionTag::from_bits(0), 0);
        LocalEnd {
            attributes: control.attributes.unwrap_or(nothing),
            nic: control.nic.as_ref().map_or(0, |nic| nic.handle.bits()),
            vi: self.vi,
            regions: control.nic.as_ref().map(|nic| Arc::clone(&nic.regions)),
        }
    }

    fn begin_pending(&self) -> Result<()> {
        let control = self.vi().control();
        if control.handle != self.vi {
            return Err(dead_vi());
        }
        let state =
            transition::next(self.vi().state(), transition::Transition::Ask).map_err(refuse::vi)?;
        self.vi().set_state(state);
        Ok(())
    }

    fn cancel_pending(&self) {
        let control = self.vi().control();
        if control.handle == self.vi && self.vi().state() == ViState::ConnectPending {
            self.vi().set_state(ViState::Idle);
        }
    }

    fn connect(&self, end: ChannelEnd, remote: RemoteEnd) -> Result<()> {
        let vi = self.vi();
        let control = vi.control();
        let (Some(nic), Some(attributes)) = (control.nic.clone(), control.attributes) else {
            return Err(dead_vi());
        };
        if control.handle != self.vi {
            return Err(dead_vi());
        }
        let completions = control.completions;
        {
            let mut send = vi.send.lock();
            let mut receive = vi.receive.lock();
            // A VI that was disconnected meanwhile stays so.
            if vi.state() != ViState::ConnectPending {
                return Err(refuse::vi(ViError::InvalidState { state: vi.state() }));
            }
            let state = ViState::Connected;
            let side = end.side as u8;
            // SAFETY: the block has the bytes, is aligned, and is mapped as long as the link lives,
            // which both sides keep alive.
            let (outgoing, incoming) = unsafe {
                (
                    Direction::sent_by(side, end.block),
                    Direction::sent_by(1 - side, end.block),
                )
            };
            vi.credit.store(0, Ordering::Relaxed);
            send.out = Some(Outgoing::new(
                outgoing,
                Arc::clone(&end.link),
                end.channel,
                end.connection,
                remote,
                Arc::clone(&nic.thresholds),
                attributes.extensions.flow_control,
            ));
            let incoming = Incoming::new(
                incoming,
                end.link,
                end.connection,
                &attributes,
                nic.thresholds.inline_bytes(),
            );
            receive.begin(incoming, &vi.posted);
            vi.set_state(state);
        }
        drop(control);
        for queue in completions.into_iter().flatten() {
            queue.object.add_source(self.slot, self.vi);
        }
        vi.arm(self.vi);
        Ok(())
    }

    fn peer_closed(&self, connection: u64, reason: CloseReason) {
        let vi = self.vi();
        let completions = vi.control().completions;
        {
            let mut send = vi.send.lock();
            let mut receive = vi.receive.lock();
            if send.side.handle != self.vi
                || send
                    .out
                    .as_ref()
                    .is_none_or(|out| out.connection != connection)
            {
                return;
            }
            // What the peer sent before it left still arrives.
            while receive.look(&vi.credit) == Look::Dealt {}
            let level = send.side.level();
            let in_flight = match reason {
                CloseReason::Died => outcome::transport_failed(level).sender,
                _ => outcome::peer_disconnected().sender,
            };
            // The peer leaves the channel as well: there is nobody to tell.
            let _ = vi.end(&mut send, &mut receive, in_flight);
            vi.set_state(ViState::Error);
            receive
                .side
                .report(ErrorCode::ConnectionLost, None, Queue::Receive);
        }
        vi.leave(self.vi, completions, None, reason);
    }

    fn kicked(&self) {
        Vi::look(self.slot, self.vi, u32::MAX);
        self.vi().receive.lock().tell_consumed();
        self.vi().arm(self.vi);
    }

    fn peer_event(&self, code: u8, _operation: u32) {
        // The only event that a peer tells of: a message of its met no receive.
        if code == ErrorCode::ReceiveQueueEmpty as u8 {
            let receive = self.vi().receive.lock();
            if receive.side.handle == self.vi {
                receive
                    .side
                    .report(ErrorCode::ReceiveQueueEmpty, None, Queue::Receive);
            }
        }
    }
}
