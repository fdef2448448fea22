//! VIs: creation, state, the end of a connection, and the calls of the data path.

mod connected;
mod source;
mod transfer;

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use viaduct_core::outcome::{self, Outcome};
use viaduct_core::transition::{self, Transition};
use viaduct_core::{Queue, Status, ViAttributes, ViState, check};
use viaduct_processes::lock::BiasedMutex;
use viaduct_provider::{
    CompletionQueueHandle, Counts, Error, NicHandle, Result, ReturnCode, ViHandle, ViInformation,
};

pub(crate) use self::source::News;
pub(crate) use self::transfer::{
    post_receive_in_full, post_receive_simply, post_send_in_full, post_send_simply,
    receive_done_in_full, receive_done_simply, receive_notify, receive_wait, send_done_in_full,
    send_done_simply, send_notify, send_wait,
};
use crate::completion_queue::{self, CompletionQueue};
use crate::connect::{CloseReason, Connectable};
use crate::handle::{Kind, Slab, Slot};
use crate::host::Host;
use crate::nic::Nic;
use crate::receive::ReceiveSide;
use crate::send::SendSide;
use crate::side::{Side, dead_vi};
use crate::wait;

static VIS: Slab<Vi> = Slab::new(Kind::Vi);

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
    /// Counts sends posted; the service thread leaves a VI alone whose program is busy.
    activity: AtomicU32,
    /// What it was when the service thread last looked.
    seen_activity: AtomicU32,
    looks: AtomicU32,
    /// Completion queues of sends and of receives.
    queues: [AtomicPtr<Slot<CompletionQueue>>; 2],
    /// The handle under which it waits to be pushed by them.
    listed: [AtomicU64; 2],
    /// The line of the slot that it writes next; maybe of a connection that is gone.
    next_slot: AtomicPtr<u8>,
    /// Its place among the sources of the queue that looks at it.
    source: AtomicU32,
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

#[inline]
pub(crate) fn find(vi: ViHandle) -> Result<&'static Slot<Vi>> {
    VIS.find(vi.bits()).ok_or_else(dead_vi)
}

/// Makes the VIs of a child's parent unreachable.
pub(crate) fn forget_all() {
    VIS.forget_all();
}

/// What a connected VI shares with its peer, for peers that lie.
#[cfg(test)]
pub(crate) fn shared(
    vi: ViHandle,
) -> Option<(Arc<crate::link::Link>, [crate::channel::Direction; 2], u32)> {
    let send = find(vi).ok()?.object.send.lock();
    let out = send.out.as_ref()?;
    let receive = find(vi).ok()?.object.receive.lock();
    let incoming = receive.incoming.as_ref()?;
    Some((
        Arc::clone(&out.link),
        [out.direction, incoming.direction],
        out.channel,
    ))
}

/// Deals with one slot, as a thread does that has not come to what follows from it yet.
#[cfg(test)]
pub(crate) fn look_once(vi: ViHandle) -> Result<crate::receive::Look> {
    let vi = &find(vi)?.object;
    Ok(vi.receive.lock().look(&vi.credit))
}

/// What such a thread comes to after a message that breaks the connection.
#[cfg(test)]
pub(crate) fn break_connection(vi: ViHandle) -> Result<()> {
    let found = &find(vi)?.object;
    let connection = found.receive.lock().connection();
    found.break_connection(vi.bits(), connection, Queue::Receive);
    Ok(())
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
    check::vi_is_supported(attributes, &nic.attributes)?;
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
    nic.vis.add()?;
    let place = nic.regions.retain_tag(attributes.tag).and_then(|()| {
        VIS.take().ok_or_else(|| {
            nic.regions.release_tag(attributes.tag);
            Error::new(
                ReturnCode::Resource,
                "this process has no room for more VIs: destroy one first",
            )
        })
    });
    let slot = place.inspect_err(|_| nic.vis.remove())?;
    for queue in completions.into_iter().flatten() {
        queue.object.bind();
    }
    let vi = &slot.object;
    vi.set_queues(completions);
    let mut control = vi.control();
    let handle = slot.revive();
    vi.set_state(ViState::Idle);
    *control = Control {
        handle,
        nic: Some(Arc::clone(nic)),
        attributes: Some(*attributes),
        completions,
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

/// What a NIC has counted.
pub(crate) fn counts(nic: &Nic) -> Counts {
    nic.counting.sum(|| {
        let mut counts = Counts::default();
        for slot in VIS.living() {
            let vi = &slot.object;
            let is_of_nic = {
                let control = vi.control();
                let own = control.nic.as_ref();
                own.is_some_and(|own| own.handle == nic.handle)
            };
            if !is_of_nic {
                continue;
            }
            counts += vi
                .send
                .lock()
                .out
                .as_ref()
                .map_or(Counts::default(), |out| out.counts);
            let receive = vi.receive.lock();
            counts += receive
                .incoming
                .as_ref()
                .map_or(Counts::default(), |it| it.counts);
        }
        counts
    })
}

/// Changes an idle VI's attributes.
pub(crate) fn set_attributes(handle: ViHandle, attributes: &ViAttributes) -> Result<()> {
    let vi = &find(handle)?.object;
    let mut control = vi.idle(handle)?;
    let nic = control.nic.clone().ok_or_else(dead_vi)?;
    check::vi_is_supported(attributes, &nic.attributes)?;
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

/// Ends the connection, or the attempt at one, and flushes both queues, when what had arrived is
/// in the program's receives.
pub(crate) fn disconnect(handle: ViHandle) -> Result<()> {
    let slot = find(handle)?;
    let vi = &slot.object;
    let completions = {
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
    let connection = send.connection();
    let outcome = outcome::peer_disconnected();
    let reason = if receive.take_arrived(&vi.credit) {
        CloseReason::Disconnected
    } else {
        receive.report_loss(outcome);
        CloseReason::Broken
    };
    let left = vi.end(&mut send, &mut receive, Transition::Disconnect, outcome);
    drop(receive);
    drop(send);
    vi.leave(handle.bits(), connection, completions, left, reason);
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

    /// Goes where the rules say that a transition leads; stays where there is none.
    fn follow(&self, transition: Transition) -> Result<()> {
        let next = transition::next(self.state(), transition)?;
        self.set_state(next);
        Ok(())
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
            nic.vis.remove();
        }
        self.set_queues([None, None]);
        self.is_waiting.store(false, Ordering::Relaxed);
        self.watched.store(0, Ordering::SeqCst);
        self.set_state(ViState::Idle);
        wait::doorbells().wake_all(waiters);
        VIS.give_back(slot);
        Ok(())
    }

    /// Takes both sides out of their connection, if there is one: what is under way completes as
    /// the outcome says, and of what is posted becomes what the transition makes of it.
    fn end(
        &self,
        send: &mut SendSide,
        receive: &mut ReceiveSide,
        transition: Transition,
        outcome: Outcome,
    ) -> Option<ChannelEndLeft> {
        let left = send.out.as_ref().map(|out| ChannelEndLeft {
            link: Arc::clone(&out.link),
            channel: out.channel,
            connection: out.connection,
        });
        receive.end(outcome.receive.unwrap_or(Status::PENDING));
        send.end(outcome.sender);
        if transition::flushes(transition) {
            receive.side.flush(Queue::Receive);
            send.side.flush(Queue::Send);
        }
        // A VI that may not go there stays where it is.
        let _ = self.follow(transition);
        self.is_waiting.store(false, Ordering::Relaxed);
        left
    }

    /// What follows the end of a connection, with no lock held.
    fn leave(
        &self,
        handle: u64,
        connection: Option<u64>,
        completions: [Option<&'static Slot<CompletionQueue>>; 2],
        left: Option<ChannelEndLeft>,
        reason: CloseReason,
    ) {
        // First, so that no completion queue looks at a channel that others may use.
        if let (Some(queue), Some(connection)) = (looking_queue(completions), connection) {
            queue.object.remove_source(self, handle, connection);
        }
        if let Some(left) = left {
            left.link.close(left.channel, left.connection, reason);
        }
    }

    /// An error at a reliable level, or a peer that broke the protocol, ends the connection. `at`
    /// is the queue where it was noticed: what arrived before a send that failed stays.
    #[cold]
    fn break_connection(&self, handle: u64, connection: Option<u64>, at: Queue) {
        let completions = self.control().completions;
        let mut send = self.send.lock();
        let mut receive = self.receive.lock();
        // The peer may have ended it meanwhile, and the program begun another.
        if send.side.handle != handle || connection.is_none() || send.connection() != connection {
            return;
        }
        if at == Queue::Send {
            let _ = receive.take_arrived(&self.credit);
        }
        let outcome = outcome::peer_disconnected();
        let left = self.end(&mut send, &mut receive, Transition::Lose, outcome);
        receive.report_loss(outcome);
        drop(receive);
        drop(send);
        self.leave(handle, connection, completions, left, CloseReason::Broken);
    }
}

/// The completion queue that looks for what a VI receives: that of its receives, or else that of
/// its sends, since a program may only ever look there.
fn looking_queue(
    completions: [Option<&'static Slot<CompletionQueue>>; 2],
) -> Option<&'static Slot<CompletionQueue>> {
    let [sends, receives] = completions;
    receives.or(sends)
}

struct ChannelEndLeft {
    link: Arc<crate::link::Link>,
    channel: u32,
    connection: u64,
}
