//! How a program learns that something is done: opened devices with their asynchronous events,
//! completion channels and completion queues.

use alloc::collections::VecDeque;

use super::carrier::{Carrier, Signal};
use super::error::{Error, Result, busy, errno, full, gone};
use super::{
    Armed, Arrival, AsyncElement, AsyncEvent, AsyncEventType, Completion, Completions, Key, Table,
};

/// Which object an event is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// A completion queue.
    Queue(Key),
    /// A queue pair.
    Pair(Key),
    /// A shared receive queue.
    Shared(Key),
}

/// What becomes of an object that is destroyed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Destruction {
    /// It is gone.
    Done,
    /// It is there until the events about it are acknowledged that a program has taken. It is to be
    /// destroyed again then.
    ///
    /// Source: `ibv_destroy_cq(3)`, `ibv_ack_cq_events(3)`, `ibv_get_async_event(3)`.
    Waits,
}

/// Who looks into a completion queue at this moment, and takes what comes meanwhile.
pub trait Looker {
    /// Takes a completion, if it is one of that queue and there is room for it.
    fn takes(&mut self, queue: Key, completion: &Completion) -> bool;
}

/// Nobody looks.
impl Looker for () {
    #[inline(always)]
    fn takes(&mut self, _: Key, _: &Completion) -> bool {
        false
    }
}

/// Events that wait for a program, and what wakes it.
#[derive(Debug)]
pub struct Events<T, S> {
    waiting: VecDeque<(T, Option<Owner>)>,
    /// Raised once for each of them.
    pub signal: S,
}

impl<T, S: Signal> Events<T, S> {
    const fn new(signal: S) -> Self {
        Self {
            waiting: VecDeque::new(),
            signal,
        }
    }

    fn put(&mut self, event: T, owner: Option<Owner>) {
        self.waiting.push_back((event, owner));
        self.signal.raise();
    }

    fn take(&mut self) -> Option<(T, Option<Owner>)> {
        let oldest = self.waiting.pop_front()?;
        self.signal.lower();
        Some(oldest)
    }

    /// Takes back those about an object.
    fn forget(&mut self, owner: Owner) {
        let before = self.waiting.len();
        self.waiting.retain(|(_, about)| *about != Some(owner));
        for _ in self.waiting.len()..before {
            self.signal.lower();
        }
    }
}

/// An opened device.
#[derive(Debug)]
pub struct ContextState<C: Carrier> {
    /// What was opened.
    pub device: C::Device,
    /// Asynchronous events.
    pub events: Events<AsyncEvent, C::Signal>,
}

/// A completion channel.
#[derive(Debug)]
pub struct Channel<C: Carrier> {
    pub(super) context: Key,
    /// Cookies of completion queues that have something.
    pub events: Events<u64, C::Signal>,
    /// Completion queues that tell here.
    pub(super) queues: u32,
}

/// A completion queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) context: Key,
    pub(super) completions: Completions,
    pub(super) channel: Option<Key>,
    pub(super) cookie: u64,
    pub(super) has_timestamps: bool,
    /// Queues of queue pairs that complete here.
    pub(super) users: u32,
    /// Events of the channel that were taken and are not acknowledged.
    pub(super) unacknowledged: u32,
    pub(super) async_unacknowledged: u32,
}

/// All of them.
#[derive(Debug)]
pub struct Notices<C: Carrier> {
    /// Who carries the packets.
    pub carrier: C,
    /// Opened devices.
    pub contexts: Table<ContextState<C>>,
    /// Completion channels.
    pub channels: Table<Channel<C>>,
    pub(super) queues: Table<Queue>,
    armed: u32,
}

impl<C: Carrier> Notices<C> {
    pub(super) const fn new(carrier: C, objects_max: u32, life: u32) -> Self {
        Self {
            carrier,
            contexts: Table::new(objects_max, life),
            channels: Table::new(objects_max, life),
            queues: Table::new(objects_max, life),
            armed: 0,
        }
    }

    /// Completion queues that are armed.
    #[must_use]
    pub const fn armed(&self) -> u32 {
        self.armed
    }

    pub(super) fn check_context(&self, context: Key) -> Result<()> {
        self.contexts.get(context).ok_or_else(gone).map(drop)
    }

    /// Opens a device.
    ///
    /// # Errors
    ///
    /// ENOMEM when devices are open too often.
    pub fn open(&mut self, device: C::Device, signal: C::Signal) -> Result<Key> {
        let events = Events::new(signal);
        let key = self.contexts.insert(ContextState { device, events });
        key.ok_or_else(|| full("devices are open too often"))
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed, ENOMEM when there are too many.
    pub fn create_channel(&mut self, context: Key, signal: C::Signal) -> Result<Key> {
        self.check_context(context)?;
        let channel = Channel {
            context,
            events: Events::new(signal),
            queues: 0,
        };
        let key = self.channels.insert(channel);
        key.ok_or_else(|| full("too many completion channels"))
    }

    /// The next event of a channel, if there is one: the cookie of a completion queue. It is to be
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn next_completion_event(&mut self, channel: Key) -> Result<Option<u64>> {
        let channel = self.channels.get_mut(channel).ok_or_else(gone)?;
        let Some((cookie, owner)) = channel.events.take() else {
            return Ok(None);
        };
        if let Some(Owner::Queue(key)) = owner
            && let Some(queue) = self.queues.get_mut(key)
        {
            queue.unacknowledged += 1;
        }
        Ok(Some(cookie))
    }

    /// A program has dealt with events that a channel told of a completion queue.
    pub fn acknowledge(&mut self, queue: Key, count: u32) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.unacknowledged = queue.unacknowledged.saturating_sub(count);
            self.carrier.has_news();
        }
    }

    /// Destroys a channel.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy_channel(&mut self, key: Key) -> Result<()> {
        if self.channels.get(key).ok_or_else(gone)?.queues > 0 {
            return Err(busy("a completion queue still uses the channel"));
        }
        self.channels.remove(key);
        Ok(())
    }

    pub(super) fn queue(&mut self, key: Key) -> Result<&mut Queue> {
        self.queues.get_mut(key).ok_or_else(gone)
    }

    /// Hands a completion to who looks for those of its queue, if that would put it in and take it
    /// out again; if not, puts it in.
    #[inline(always)]
    pub fn complete_for(
        &mut self,
        looker: &mut impl Looker,
        key: Key,
        completion: Completion,
        is_solicited: bool,
    ) {
        let queue = self.queues.get(key);
        if queue.is_some_and(|queue| queue.completions.is_passed_by() && !queue.has_timestamps)
            && looker.takes(key, &completion)
        {
            self.carrier.completes(&completion);
        } else {
            self.put(key, completion, is_solicited);
        }
    }

    /// Puts a completion into its queue.
    #[inline(never)]
    pub fn complete(&mut self, key: Key, completion: Completion, is_solicited: bool) {
        self.put(key, completion, is_solicited);
    }

    #[inline(always)]
    fn put(&mut self, key: Key, mut completion: Completion, is_solicited: bool) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        self.carrier.completes(&completion);
        if queue.has_timestamps {
            completion.timestamp = self.carrier.now();
        }
        match queue.completions.put(completion, is_solicited) {
            Arrival::Quiet => {}
            Arrival::Tells => self.tell_channel(key),
            Arrival::Overruns => self.overrun(key),
        }
    }

    /// A completion found no room.
    #[cold]
    fn overrun(&mut self, key: Key) {
        let Some(queue) = self.queues.get(key) else {
            return;
        };
        let element = AsyncElement::CompletionQueue(queue.cookie);
        let kind = AsyncEventType::CompletionQueueError;
        self.tell(queue.context, kind, element, Some(Owner::Queue(key)));
    }

    /// An armed queue has what it was armed for.
    #[inline(never)]
    fn tell_channel(&mut self, key: Key) {
        let Some(queue) = self.queues.get(key) else {
            return;
        };
        self.armed -= 1;
        if let Some(channel) = queue.channel.and_then(|key| self.channels.get_mut(key)) {
            channel.events.put(queue.cookie, Some(Owner::Queue(key)));
        }
    }

    /// Takes completions out, oldest first, and tells how many.
    ///
    /// # Errors
    ///
    /// EINVAL when the queue is gone, EIO when it has overrun and is empty.
    #[inline(always)]
    pub fn take(
        &mut self,
        key: Key,
        most: usize,
        visit: &mut impl FnMut(&Completion),
    ) -> Result<usize> {
        let completions = &mut self.queue(key)?.completions;
        let mut taken = 0;
        while taken < most
            && let Some(completion) = completions.oldest()
        {
            visit(completion);
            completions.take();
            taken += 1;
        }
        if taken == 0 && completions.has_ended() {
            return Err(Error::new(errno::EIO, "the completion queue overran"));
        }
        Ok(taken)
    }

    /// Whether [`Notices::take`] would find something or have an error to tell.
    #[inline(always)]
    #[must_use]
    pub fn has_something(&mut self, key: Key) -> bool {
        self.queue(key).map_or(true, |queue| {
            !queue.completions.is_empty() || queue.completions.has_ended()
        })
    }

    /// Whether [`Notices::take`] would find nothing in any queue, and have no error to tell.
    #[must_use]
    pub fn has_nothing(&self) -> bool {
        let mut queues = self.queues.iter();
        queues.all(|(_, queue)| queue.completions.is_empty() && !queue.completions.has_ended())
    }

    /// Takes the oldest completion, if there is one.
    ///
    /// # Errors
    ///
    /// As [`Notices::take`].
    pub fn poll(&mut self, key: Key) -> Result<Option<Completion>> {
        let mut oldest = None;
        self.take(key, 1, &mut |completion| oldest = Some(*completion))?;
        Ok(oldest)
    }

    /// Has a completion queue tell its channel, once, of what comes from now on.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&mut self, key: Key, is_solicited_only: bool) -> Result<()> {
        let before = self.queue(key)?.completions.arm(is_solicited_only);
        self.armed += u32::from(before == Armed::No);
        Ok(())
    }

    fn disarm(&mut self, key: Key) -> Result<()> {
        let before = self.queue(key)?.completions.disarm();
        self.armed -= u32::from(before != Armed::No);
        Ok(())
    }

    /// Completions that find room in a queue.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&self, key: Key) -> Result<u32> {
        let queue = self.queues.get(key).ok_or_else(gone)?;
        Ok(queue.completions.entries())
    }

    /// Takes back completions of a queue pair that goes.
    pub(super) fn forget_completions(&mut self, queue: Key, number: u32) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.completions.forget(number);
        }
    }

    /// Destroys a completion queue, with the events that nobody has taken.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy_queue(&mut self, key: Key) -> Result<Destruction> {
        let queue = self.queue(key)?;
        if queue.users > 0 {
            return Err(busy("a queue pair still uses the completion queue"));
        }
        let (context, channel) = (queue.context, queue.channel);
        let is_held = queue.unacknowledged > 0 || queue.async_unacknowledged > 0;
        self.disarm(key)?;
        self.forget_async(context, Owner::Queue(key));
        if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(channel)) {
            channel.events.forget(Owner::Queue(key));
        }
        if is_held {
            return Ok(Destruction::Waits);
        }
        self.remove_queue(key);
        Ok(Destruction::Done)
    }

    /// Removes a completion queue, whoever uses it.
    pub(super) fn remove_queue(&mut self, key: Key) {
        let _ = self.disarm(key);
        let queue = self.queues.remove(key);
        let channel = queue.and_then(|queue| self.channels.get_mut(queue.channel?));
        if let Some(channel) = channel {
            channel.queues -= 1;
        }
    }

    /// Tells an asynchronous event.
    pub fn tell(
        &mut self,
        context: Key,
        kind: AsyncEventType,
        element: AsyncElement,
        owner: Option<Owner>,
    ) {
        if let Some(context) = self.contexts.get_mut(context) {
            self.carrier.has_news();
            context.events.put(AsyncEvent { kind, element }, owner);
        }
    }

    /// Takes back events about an object that goes.
    pub(super) fn forget_async(&mut self, context: Key, owner: Owner) {
        if let Some(context) = self.contexts.get_mut(context) {
            context.events.forget(owner);
        }
    }

    /// The next asynchronous event of a device, and about which object.
    pub(super) fn next_async(
        &mut self,
        context: Key,
    ) -> Result<Option<(AsyncEvent, Option<Owner>)>> {
        let context = self.contexts.get_mut(context).ok_or_else(gone)?;
        Ok(context.events.take())
    }
}
