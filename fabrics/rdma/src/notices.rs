//! Completion queues, channels and asynchronous events: how a program learns that something is
//! done.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use viaduct_core::verbs::{
    Arrival, AsyncEventType, Completion, CompletionStatus, Completions, Error, Result,
};

use crate::context::{AsyncElement, AsyncEvent};
use crate::counters::live;
use crate::device::Device;
use crate::error::of_system;
use viaduct_core::verbs::error::gone;
use viaduct_core::verbs::{Key, Table};

/// Counts what waits behind a descriptor: readable while something does.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC;
        eventfd(0, flags).map(Self).map_err(of_system)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn add(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes one away, if there is one.
    pub(crate) fn take(&self) {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if rustix::event::poll(&mut polled, Some(&at_once)) == Ok(1) {
            let _ = rustix::io::read(self.0.as_fd(), &mut [0_u8; 8]);
        }
    }
}

/// An opened device.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) device: Device,
    pub(crate) counter: Counter,
    pub(crate) events: VecDeque<(AsyncEvent, Option<Owner>)>,
}

/// Which object an event is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    Queue(Key),
    Pair(Key),
    Shared(Key),
}

/// A completion channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) context: Key,
    pub(crate) counter: Counter,
    pub(crate) events: VecDeque<(Key, u64)>,
    pub(crate) queues: u32,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) context: Key,
    pub(crate) completions: Completions,
    pub(crate) channel: Option<Key>,
    pub(crate) cookie: u64,
    pub(crate) has_timestamps: bool,
    /// Queue pairs that complete here.
    pub(crate) users: u32,
    /// Events handed out and not acknowledged.
    pub(crate) unacknowledged: u32,
    pub(crate) async_unacknowledged: u32,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) contexts: Table<ContextState>,
    pub(crate) channels: Table<Channel>,
    pub(crate) queues: Table<Queue>,
    /// Completion queues that are armed.
    pub(crate) armed: u32,
}

impl Notices {
    /// Puts a completion into its queue.
    pub(crate) fn complete(&mut self, key: Key, mut completion: Completion, is_solicited: bool) {
        let is_error = completion.status != CompletionStatus::Success;
        if is_error {
            live().errors.add(1);
        }
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if queue.has_timestamps {
            completion.timestamp = now();
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
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let (context, cookie) = (queue.context, queue.cookie);
        self.tell(
            context,
            AsyncEventType::CompletionQueueError,
            AsyncElement::CompletionQueue(cookie),
            Some(Owner::Queue(key)),
        );
    }

    /// An armed queue has what it was armed for.
    #[inline(never)]
    fn tell_channel(&mut self, key: Key) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        self.armed -= 1;
        let (channel, cookie) = (queue.channel, queue.cookie);
        if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(channel)) {
            channel.events.push_back((key, cookie));
            channel.counter.add();
        }
    }

    /// Takes completions out, oldest first, and tells how many.
    #[inline]
    pub(crate) fn take(
        &mut self,
        key: Key,
        most: usize,
        visit: &mut impl FnMut(&Completion),
    ) -> Result<usize> {
        let queue = self.queues.get_mut(key).ok_or_else(gone)?;
        let mut taken = 0;
        while taken < most
            && let Some(completion) = queue.completions.take()
        {
            visit(&completion);
            taken += 1;
        }
        if taken == 0 && queue.completions.has_ended() {
            return Err(Error::new(libc::EIO, "the completion queue overran"));
        }
        Ok(taken)
    }

    /// Tells an asynchronous event.
    pub(crate) fn tell(
        &mut self,
        context: Key,
        kind: AsyncEventType,
        element: AsyncElement,
        owner: Option<Owner>,
    ) {
        if let Some(context) = self.contexts.get_mut(context) {
            context
                .events
                .push_back((AsyncEvent { kind, element }, owner));
            context.counter.add();
        }
    }

    /// Takes back events about an object that goes.
    pub(crate) fn forget_async(&mut self, context: Key, owner: Owner) {
        if let Some(context) = self.contexts.get_mut(context) {
            let before = context.events.len();
            context.events.retain(|(_, about)| *about != Some(owner));
            for _ in context.events.len()..before {
                context.counter.take();
            }
        }
    }

    /// Takes back events of a completion queue that goes.
    pub(crate) fn forget_completion_events(&mut self, channel: Key, queue: Key) {
        if let Some(channel) = self.channels.get_mut(channel) {
            let before = channel.events.len();
            channel.events.retain(|(about, _)| *about != queue);
            for _ in channel.events.len()..before {
                channel.counter.take();
            }
        }
    }

    /// Takes back completions of a queue pair that goes.
    pub(crate) fn forget_completions(&mut self, queue: Key, number: u32) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.completions.forget(number);
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
