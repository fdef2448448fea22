//! The state of one simulated host and its processes.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use viaduct_core::{CompletionQueueId, MemoryHandle, Nic, ProtectionTag};
use viaduct_engine::{Stream, Time};

use crate::accounting::AROUND;
use crate::connections::Connections;
use crate::faults::Slowing;
use crate::message::MessageId;
use crate::why::MessageName;
use crate::workload::MessageOperation;

/// A NIC's semantics on cache lines of its own: an event reads one of many, and mostly of that one
/// line alone.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct AlignedNic(pub(crate) Nic);

impl Deref for AlignedNic {
    type Target = Nic;

    #[inline(always)]
    fn deref(&self) -> &Nic {
        &self.0
    }
}

impl DerefMut for AlignedNic {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Nic {
        &mut self.0
    }
}

/// Send buffers of a host, and who waits for one.
///
/// Where hosts cost nothing ([`crate::direct`]) nothing else of a host is touched.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Free buffers of the pool.
    pub(crate) free: u32,
    /// Posts that wait for a buffer, in order.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of four, for each of many hosts"
    )]
    blocked: Option<Box<VecDeque<BlockedPost>>>,
}

/// What a processor has done and still has to do.
#[derive(Debug)]
pub(crate) struct Processor {
    /// When it has done all the work it was given.
    pub(crate) free: Time,
    /// How long all the work takes that it was given.
    given: Time,
    /// When it was given work last that it had none.
    pub(crate) idle_at: Time,
    /// What makes it slow: few have any.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of three, for each of many processors"
    )]
    pub(crate) slowings: Option<Box<Vec<Slowing>>>,
}

/// The sending and the receiving engine of an adapter.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Engines {
    /// When the receiving engine has done all the work it was given.
    pub(crate) receive_free: Time,
    /// What the sending engine serves next, in order.
    pub(crate) turns: VecDeque<Turn>,
    /// Messages that wait for it.
    pub(crate) queued: u32,
    /// Messages that it has taken since it last had nothing to do.
    pub(crate) in_batch: u32,
    /// Whether it has a message.
    pub(crate) is_fetching: bool,
}

/// Whose turn at the sending engine comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// A connection whose descriptors wait to be read.
    Connection {
        /// The process that posted them.
        process: u32,
        /// Its place in the process's list.
        place: u32,
    },
    /// A message that the processor has started.
    Message(MessageId),
    /// A request of a program that is no message.
    Request(u32),
}

impl Turn {
    /// Gives a connection another place in its process's list.
    pub(crate) fn move_place(&mut self, moved: impl FnOnce(u32, u32) -> u32) {
        if let Self::Connection { process, place } = self {
            *place = moved(*process, *place);
        }
    }
}

/// A message that an application wants to post and has no buffer for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedPost {
    /// Order of wanting to post in the whole run, from 0.
    pub(crate) number: u64,
    pub(crate) process: u32,
    pub(crate) target: u32,
    pub(crate) bytes: u32,
    pub(crate) operation: MessageOperation,
    pub(crate) wanted: Time,
}

impl BlockedPost {
    /// The message that it will be.
    pub(crate) fn name(&self) -> MessageName {
        MessageName {
            number: self.number & !AROUND,
            is_around: self.number & AROUND != 0,
            source: self.process,
            target: self.target,
            bytes: self.bytes,
            operation: self.operation,
        }
    }
}

/// An application process: what drawing a message needs, then what posting it needs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Process {
    pub(crate) stream: Stream,
    /// The pattern's own counter, where it takes targets in turn.
    pub(crate) turn: u32,
    /// Messages of a window not yet complete at the sender.
    pub(crate) outstanding: u32,
    /// The message that its next arrival posts.
    pub(crate) next: Option<Drawn>,
    /// When it has done what it does now: it looks for messages then. [`Time::MAX`] while nobody
    /// knows.
    pub(crate) busy_until: Time,
    /// Its registered memory and the queue of its receive completions, once it has a VI.
    pub(crate) endpoint: Option<Endpoint>,
    /// One VI for each peer.
    pub(crate) connections: Connections,
}

/// What was drawn for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) target: u32,
    pub(crate) bytes: u32,
    pub(crate) operation: MessageOperation,
}

/// What a process holds at its NIC beside its VIs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) tag: ProtectionTag,
    pub(crate) memory: MemoryHandle,
    pub(crate) receive_completions: CompletionQueueId,
}

impl Buffers {
    /// A pool of so many.
    pub(crate) const fn new(count: u32) -> Self {
        Self {
            free: count,
            blocked: None,
        }
    }

    /// A post waits for a buffer; how many do now.
    #[cold]
    pub(crate) fn block(&mut self, wish: BlockedPost) -> usize {
        let blocked = self.blocked.get_or_insert_default();
        blocked.push_back(wish);
        blocked.len()
    }

    /// The posts that wait, in order.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = &BlockedPost> {
        self.blocked.iter().flat_map(|line| line.iter())
    }

    /// The post that has waited longest, which waits no more.
    #[inline]
    pub(crate) fn unblock(&mut self) -> Option<BlockedPost> {
        self.blocked.as_mut()?.pop_front()
    }

    pub(crate) fn state_bytes(&self) -> usize {
        let of_line = |line: &VecDeque<BlockedPost>| {
            size_of_val(line) + line.capacity() * size_of::<BlockedPost>()
        };
        size_of::<Self>() + self.blocked.as_deref().map_or(0, of_line)
    }
}

impl Engines {
    pub(crate) const fn new() -> Self {
        Self {
            receive_free: Time::ZERO,
            turns: VecDeque::new(),
            queued: 0,
            in_batch: 0,
            is_fetching: false,
        }
    }

    pub(crate) fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.turns.capacity() * size_of::<Turn>()
    }
}

impl Processor {
    pub(crate) const fn new() -> Self {
        Self {
            free: Time::ZERO,
            given: Time::ZERO,
            idle_at: Time::ZERO,
            slowings: None,
        }
    }

    /// Gives it work of `span` from `ready` on; returns when it begins and ends.
    #[inline]
    pub(crate) fn work(&mut self, ready: Time, span: Time) -> (Time, Time) {
        self.note_idle(ready);
        let begin = ready.max(self.free);
        let span = self.stretched(begin, span);
        self.given += span;
        self.free = begin + span;
        (begin, self.free)
    }

    /// Gives it work of `span` that came bit by bit since it had been idle for so long
    /// in all: when it began, if all was done at once, and when it ends. It did as much as it
    /// could whenever it had nothing else to do, and does the rest now.
    pub(crate) fn work_since(&mut self, idle: Time, now: Time, span: Time) -> (Time, Time) {
        self.note_idle(now);
        let span = self.stretched(now, span);
        let done = span.min(self.idle(now).saturating_sub(idle));
        let left = span - done;
        self.given += span;
        if left == Time::ZERO {
            return (now.saturating_sub(span), now);
        }
        let begin = now.max(self.free);
        self.free = begin + left;
        (begin.saturating_sub(done), self.free)
    }

    /// How long it has been idle in all up to a time.
    #[inline]
    pub(crate) fn idle(&self, time: Time) -> Time {
        self.free.max(time).saturating_sub(self.given)
    }

    /// Notes that it is idle at a time, if it is.
    #[inline]
    pub(crate) fn note_idle(&mut self, time: Time) {
        if self.free < time {
            self.idle_at = self.idle_at.max(time);
        }
    }

    /// Whether it did nothing up to a time, whatever it was given at that moment: a
    /// program that polls goes round in its loop then.
    #[inline]
    pub(crate) fn is_idle_until(&self, time: Time) -> bool {
        self.free <= time || self.idle_at >= time
    }

    /// How long it takes for work of `span` that it begins at a time.
    #[inline]
    pub(crate) fn stretched(&self, begin: Time, span: Time) -> Time {
        match &self.slowings {
            None => span,
            Some(slowings) => {
                let stretch = |span, slowing: &Slowing| slowing.stretch(begin, span);
                slowings.iter().fold(span, stretch)
            }
        }
    }
}

impl Process {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            turn: 0,
            outstanding: 0,
            next: None,
            busy_until: Time::ZERO,
            connections: Connections::default(),
            endpoint: None,
        }
    }

    pub(crate) fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.connections.state_bytes()
    }
}
