//! The calls of the data path: post, done, wait, notify, and looking for what a peer wrote.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use viaduct_core::{MemoryHandle, Queue, transition};
use viaduct_processes::lock::{Guard, OwnGuard};
use viaduct_provider::{Descriptor, DescriptorHandler, Done, Error, Result, ReturnCode, ViHandle};

use super::{Connected, VIS, Vi, find};
use crate::channel::SLOTS;
use crate::counting::Asleep;
use crate::deadline::Deadline;
use crate::handle::Slot;
use crate::host::{Host, Pace};
use crate::receive::{Look, ReceiveSide};
use crate::send::{SendSide, Step};
use crate::side::{bound_to_completion_queue, dead_vi, done};
use crate::wait::{self, Parker, SERVICE_MARK, Spin, barrier_everywhere};

/// A VI whose send queue this thread uses most, locked. A handle that names nothing, 0 among them,
/// has none.
#[inline(always)]
fn own_send(handle: u64) -> Option<(&'static Slot<Vi>, OwnGuard<'static, SendSide>)> {
    let slot = VIS.place(handle)?;
    let send = slot.object.send.lock_own()?;
    (send.side.handle == handle).then_some((slot, send))
}

/// The same of a receive queue.
#[inline(always)]
fn own_receive(handle: u64) -> Option<(&'static Vi, OwnGuard<'static, ReceiveSide>)> {
    let vi = &VIS.place(handle)?.object;
    let receive = vi.receive.lock_own()?;
    (receive.side.handle == handle).then_some((vi, receive))
}

/// Posts to the send queue on the short way. `None`: nothing was done, and the long way is its.
///
/// # Safety
///
/// As [`viaduct_provider::Provider::post_send`].
#[inline(always)]
pub(crate) unsafe fn post_send_simply(
    handle: u64,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Option<()> {
    let (slot, mut send) = own_send(handle)?;
    let vi = &slot.object;
    vi.count_post();
    // SAFETY: the caller's promise.
    let is_waited_for =
        unsafe { send.post_simple::<false>(descriptor, memory, &vi.credit, &vi.posted)? };
    if is_waited_for || vi.watched.load(Ordering::Relaxed) != handle {
        sent(slot, send, is_waited_for);
    } else {
        vi.keep_next_slot(&send);
    }
    Some(())
}

/// Does what is left to do for what was sent on the short way.
#[inline(never)]
fn sent(slot: &'static Slot<Vi>, mut send: OwnGuard<'static, SendSide>, is_waited_for: bool) {
    let vi = &slot.object;
    if is_waited_for && let Some(out) = &mut send.out {
        out.notify();
    }
    vi.keep_next_slot(&send);
    let handle = send.side.handle;
    drop(send);
    if vi.watched.load(Ordering::Relaxed) != handle {
        vi.watch(slot, handle, Pace::Slow);
    }
}

/// Posts to the send queue what [`post_send_simply`] did not.
///
/// # Safety
///
/// As [`viaduct_provider::Provider::post_send`].
#[inline(never)]
pub(crate) unsafe fn post_send_in_full(
    handle: ViHandle,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Result<()> {
    let slot = VIS.place(handle.bits()).ok_or_else(dead_vi)?;
    let vi = &slot.object;
    let mut send = vi.send.lock();
    if send.side.handle != handle.bits() {
        return Err(dead_vi());
    }
    vi.count_post();
    let (credit, posted) = (&vi.credit, &vi.posted);
    let is_waited_for = if send.is_shared() || send.side.has_listeners() {
        // SAFETY: the caller's promise.
        unsafe { send.post_simple::<true>(descriptor, memory, credit, posted) }
    } else {
        None
    };
    match is_waited_for {
        Some(false) => {}
        Some(true) => {
            if let Some(out) = &mut send.out {
                out.notify();
            }
        }
        // SAFETY: the caller's promise.
        None => return unsafe { post_send_long(slot, send, handle, descriptor, memory) },
    }
    vi.keep_next_slot(&send);
    if vi.watched.load(Ordering::Relaxed) != handle.bits() {
        drop(send);
        vi.watch(slot, handle.bits(), Pace::Slow);
    }
    Ok(())
}

/// # Safety
///
/// As [`viaduct_provider::Provider::post_send`].
unsafe fn post_send_long(
    slot: &'static Slot<Vi>,
    mut send: Guard<'static, SendSide>,
    handle: ViHandle,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Result<()> {
    let vi = &slot.object;
    let credit = vi.credit.load(Ordering::Relaxed);
    let posted = vi.posted.load(Ordering::Relaxed);
    // SAFETY: the caller's promise.
    if unsafe { send.post_acknowledged(descriptor, memory, credit, posted) } {
        go_on(slot, send, handle);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { send.side.post(descriptor, memory, Queue::Send)? };
    if send.out.is_none() {
        if transition::flushes_posts(slot.object.state(), Queue::Send) {
            send.side.flush(Queue::Send);
        }
        return Ok(());
    }
    go_on(slot, send, handle);
    Ok(())
}

/// Sends what a queue holds, as far as it can, and has others do the rest.
#[inline(never)]
fn go_on(slot: &'static Slot<Vi>, mut send: Guard<'static, SendSide>, handle: ViHandle) {
    let vi = &slot.object;
    match send.progress(
        vi.credit.load(Ordering::Relaxed),
        vi.posted.load(Ordering::Relaxed),
    ) {
        Step::Breaks => {
            let connection = send.connection();
            drop(send);
            vi.break_connection(handle.bits(), connection, Queue::Send);
        }
        _ => {
            if send.is_waiting() {
                // Changed under the lock: whoever looks after the VI has seen what is there, or
                // sees it before it leaves.
                let is_news = !vi.is_waiting.load(Ordering::Relaxed);
                if is_news {
                    vi.is_waiting.store(true, Ordering::SeqCst);
                }
                drop(send);
                if is_news || vi.watched.load(Ordering::SeqCst) != handle.bits() {
                    vi.list_waiting(slot, handle.bits());
                    vi.watch(slot, handle.bits(), Pace::Quick);
                }
            } else if vi.watched.load(Ordering::Relaxed) != handle.bits() {
                drop(send);
                vi.watch(slot, handle.bits(), Pace::Slow);
            }
        }
    }
}

/// Posts to the receive queue on the short way. `None`: nothing was done, and the long way is its.
///
/// # Safety
///
/// As [`viaduct_provider::Provider::post_send`].
#[inline(always)]
pub(crate) unsafe fn post_receive_simply(
    handle: u64,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Option<()> {
    let (vi, mut receive) = own_receive(handle)?;
    // SAFETY: the caller's promise.
    let is_told = unsafe { receive.post_simple(descriptor, memory, &vi.posted)? };
    if !is_told {
        tell_posted(vi, receive);
    }
    Some(())
}

/// Tells the sender of the receive that was posted last.
#[inline(never)]
fn tell_posted(vi: &Vi, mut receive: OwnGuard<'_, ReceiveSide>) {
    receive.posted(&vi.posted);
}

/// Posts to the receive queue what [`post_receive_simply`] did not.
///
/// # Safety
///
/// As [`viaduct_provider::Provider::post_send`].
#[inline(never)]
pub(crate) unsafe fn post_receive_in_full(
    handle: ViHandle,
    descriptor: *mut Descriptor,
    memory: MemoryHandle,
) -> Result<()> {
    let vi = &VIS.place(handle.bits()).ok_or_else(dead_vi)?.object;
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

/// Takes the oldest completed send on the short way. `None`: nothing was done.
#[inline(always)]
pub(crate) fn send_done_simply(handle: u64) -> Option<Done> {
    let (_, mut send) = own_send(handle)?;
    send.side.queue.take_simple().map(done)
}

/// Takes the oldest completed send where [`send_done_simply`] did not.
#[inline(never)]
pub(crate) fn send_done_in_full(handle: ViHandle) -> Result<Done> {
    let slot = VIS.place(handle.bits()).ok_or_else(dead_vi)?;
    slot.object.send_done(handle.bits())
}

/// Takes the oldest completed receive, or the message of the next slot, on the short way. `None`:
/// nothing was done.
#[inline(always)]
pub(crate) fn receive_done_simply(handle: u64) -> Option<Done> {
    let (vi, mut receive) = own_receive(handle)?;
    if receive.side.queue.has_complete() {
        return receive.side.queue.take_simple().map(done);
    }
    if let Some(descriptor) = receive.look_simply(&vi.credit)? {
        return Some(Done::Complete(descriptor));
    }
    let found = receive.side.none_complete();
    if found == Done::NotDone
        && (vi.is_waiting.load(Ordering::Relaxed) || !wait::looked_shortly(&vi.looks))
    {
        return None;
    }
    Some(found)
}

/// Takes the oldest completed receive where [`receive_done_simply`] did not.
#[inline(never)]
pub(crate) fn receive_done_in_full(handle: ViHandle) -> Result<Done> {
    let slot = VIS.place(handle.bits()).ok_or_else(dead_vi)?;
    slot.object.receive_done(handle.bits())
}

/// Waits for the oldest send.
pub(crate) fn send_wait(handle: ViHandle, limit: Option<Duration>) -> Result<Done> {
    let vi = &find(handle)?.object;
    let deadline = Deadline::after(limit);
    let mut spin = Spin::new();
    let mut nap = Duration::from_micros(50);
    let mut asleep = Asleep::default();
    loop {
        if vi.send.lock().side.completion_queue.is_some() {
            return Err(bound_to_completion_queue());
        }
        match vi.send_done(handle.bits())? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        if deadline.has_passed() {
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
            let limit = deadline.remaining().map_or(nap, |left| left.min(nap));
            asleep.sleep(&parker, Some(limit), || vi.send.lock().side.nic.clone());
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
    let mut asleep = Asleep::default();
    loop {
        match vi.receive_done(handle.bits())? {
            Done::NotDone => {}
            done => return Ok(done),
        }
        if deadline.has_passed() {
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
            asleep.sleep(&parker, deadline.remaining(), || {
                vi.receive.lock().side.nic.clone()
            });
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
    /// Counts a post: a program that goes on posting needs no help; see `Connected::progress`.
    #[inline(always)]
    fn count_post(&self) {
        let activity = self.activity.load(Ordering::Relaxed);
        self.activity
            .store(activity.wrapping_add(1), Ordering::Relaxed);
    }

    /// Remembers the line that the next message is written to.
    #[inline(always)]
    fn keep_next_slot(&self, send: &SendSide) {
        if let Some(out) = &send.out {
            let next = out.direction.slot_line(out.next);
            self.next_slot.store(next, Ordering::Relaxed);
        }
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
            self.break_connection(handle, connection, Queue::Send);
            send = self.send.lock();
        }
        let done = send.side.take();
        drop(send);
        if done == Done::NotDone {
            wait::looked_in_vain(&self.looks);
        }
        Ok(done)
    }

    #[inline]
    fn receive_done(&self, handle: u64) -> Result<Done> {
        let mut receive = self.receive.lock();
        if receive.side.handle != handle {
            return Err(dead_vi());
        }
        if !receive.side.queue.has_complete() {
            match receive.look(&self.credit) {
                Look::Nothing => {
                    let done = receive.side.none_complete();
                    drop(receive);
                    self.found(done, handle);
                    return Ok(done);
                }
                Look::Dealt if receive.side.queue.has_complete() => {}
                look => {
                    receive = self.look_further(receive, handle, look);
                    let done = receive.side.take();
                    drop(receive);
                    self.found(done, handle);
                    return Ok(done);
                }
            }
        }
        Ok(receive.side.take())
    }

    /// Does what a look in vain leads to.
    #[inline(always)]
    fn found(&self, done: Done, handle: u64) {
        if done == Done::NotDone {
            // Sends that wait for the peer go on while the program waits for its answer.
            if self.is_waiting.load(Ordering::Relaxed) {
                self.push_sends(handle);
            }
            wait::looked_in_vain(&self.looks);
        }
    }

    /// Goes on looking after a look that completed no receive.
    #[inline(never)]
    fn look_further<'a>(
        &'a self,
        mut receive: Guard<'a, ReceiveSide>,
        handle: u64,
        mut look: Look,
    ) -> Guard<'a, ReceiveSide> {
        // A peer may send for ever what completes nothing.
        for _ in 0..SLOTS {
            match look {
                Look::Nothing => break,
                Look::Dealt if receive.side.queue.has_complete() => break,
                Look::Dealt => look = receive.look(&self.credit),
                Look::Breaks | Look::Garbage => {
                    let connection = receive.connection();
                    drop(receive);
                    self.break_connection(handle, connection, Queue::Receive);
                    return self.receive.lock();
                }
            }
        }
        receive
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
                    vi.break_connection(handle, connection, Queue::Receive);
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
            self.break_connection(handle, connection, Queue::Send);
        }
        waits
    }

    /// Has the peer's service thread look when its program has used nothing for a while. Whether
    /// something is still to be used.
    pub(super) fn kick_peer_if_stuck(&self, handle: u64) -> bool {
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
    pub(super) fn arm(&self, handle: u64) {
        let (is_armed, queue) = {
            let receive = self.receive.lock();
            (receive.side.is_armed(), self.looking_queue())
        };
        if let Some(queue) = queue {
            queue.object.rearm();
        }
        if is_armed {
            self.set_sleeper(handle, SERVICE_MARK);
            barrier_everywhere();
            if let Some(slot) = VIS.find(handle) {
                // What comes later finds the mark.
                Self::look(slot, handle, SLOTS);
            }
        }
    }
}
