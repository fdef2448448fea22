//! Posting, starting, finishing and taking descriptors: the path of every message.
//!
//! ```text
//! consumer   post_send                                              send_done
//! driver                start_send ... moves the bytes ... finish_send
//! driver                start_receive ......................... finish_receive
//! consumer   post_receive                                           receive_done
//! ```
//!
//! At reliable reception a send completes when the target's driver has placed it and its
//! acknowledgement came back: `handle_acknowledgement` in place of `finish_send`.

use crate::descriptor::{DataSegment, Descriptor, Operation, RemoteSegment};
use crate::ids::ConnectionNumber;
use crate::ids::{Peer, Queue, ViId};
use crate::keys::MemoryHandle;
use crate::memory::MemoryTable;
use crate::via::attributes::{NicAttributes, ReliabilityLevel};
use crate::via::check::{self, Shape};
use crate::via::error::PostError;
use crate::via::error_code::ErrorCode;
use crate::via::messages::BreakReason;
use crate::via::nic::{Nic, announce};
use crate::via::outcome::{self, CompletesWhen, Damage};
use crate::via::status::Status;
use crate::via::transition;
use crate::via::vi::{Connection, Vi};
use crate::via::work_queue::{Completion, Done, WorkId};

/// What travels in front of a message's bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageHeader {
    /// Which operation the message belongs to.
    pub operation: Operation,
    /// Bytes that follow.
    pub length: u32,
    /// Immediate data, if the sender gave some.
    pub immediate: Option<u32>,
    /// What the receiver calls the connection: a message of an earlier one is told apart.
    pub connection: ConnectionNumber,
}

/// A send that a driver has to carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct StartedSend {
    /// Names the descriptor to `send_segments` and `finish_send`.
    pub work: WorkId,
    /// What to send in front of the bytes.
    pub header: MessageHeader,
    /// Whom to send it to.
    pub peer: Peer,
    /// Segments that the bytes are gathered from.
    pub segment_count: u32,
    /// Whether sends that were posted behind it wait to be started.
    pub is_followed: bool,
}

/// How a send that was started ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// The network has the message. Of a remote read: its bytes lie in the descriptor's segments.
    Sent,
    /// Only a part of it was sent.
    CutShort,
    /// The transport failed.
    TransportFailed,
}

/// What to do with a message that arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum ReceiveVerdict {
    /// Place its bytes, then call `finish_receive`.
    Place(StartedReceive),
    /// Drop it.
    Drop(DropReason),
}

/// A receive that a driver has to carry out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct StartedReceive {
    /// Names the descriptor to `receive_segments` and `finish_receive`.
    pub work: WorkId,
    /// Bytes to scatter, in order, from the start of the first segment.
    pub length: u32,
    /// Segments to scatter into.
    pub segment_count: u32,
    /// Receives that the message takes, from `work` on: 1, unless the VI splits requests. Each but
    /// the last is filled.
    pub receives: u32,
}

/// Why a message that arrived is dropped.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum DropReason {
    /// No such VI, or not connected, or the message is of an earlier connection.
    NotConnected,
    /// No receive is posted.
    NoDescriptor,
    /// The oldest receive is malformed; it completes with a format error.
    Format,
    /// The oldest receive may not touch its memory; it completes with a protection error.
    Protection,
    /// The message is longer than the oldest receive; it completes with a length error.
    TooLong,
    /// The message is for another call, or asks for what this NIC does not do. No receive is
    /// consumed.
    NotSupported,
    /// A remote access may not touch what it names. A write with immediate data consumes a
    /// receive, which completes with a remote protection error.
    RemoteProtection,
}

/// How a receive that was started ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReceiveOutcome {
    /// The whole message lies in the buffers.
    Placed,
    /// Only so many bytes arrived.
    CutShort {
        /// Bytes that lie in the buffers.
        placed_bytes: u32,
    },
    /// The bytes that arrived were corrupt.
    Corrupt,
    /// The buffers could be touched when the receive was started, and can no longer be: the memory
    /// was deregistered meanwhile. Nothing was placed.
    Refused,
}

impl ReceiveOutcome {
    /// What happened to the bytes, if anything did.
    #[must_use]
    pub const fn damage(self) -> Option<Damage> {
        match self {
            Self::Placed | Self::Refused => None,
            Self::CutShort { .. } => Some(Damage::CutShort),
            Self::Corrupt => Some(Damage::Corrupt),
        }
    }
}

/// The completions of one VI, and which memory is registered to write them to.
#[derive(Debug)]
pub struct Completions<'a> {
    vi: &'a mut Vi,
    memory: &'a MemoryTable,
}

impl Completions<'_> {
    /// Whether a queue has one.
    #[inline]
    #[must_use]
    pub fn has(&self, queue: Queue) -> bool {
        match queue {
            Queue::Send => self.vi.sends.has_completions(),
            Queue::Receive => self.vi.receives.has_completions(),
        }
    }

    /// Takes the head of a queue, if it is complete.
    #[inline]
    pub fn take(&mut self, queue: Queue) -> Option<Completion> {
        let done = match queue {
            Queue::Send => self.vi.sends.take(),
            Queue::Receive => self.vi.receives.take(),
        };
        done.completion()
    }

    /// Whether a memory handle is live.
    #[inline]
    #[must_use]
    pub fn is_registered(&self, handle: MemoryHandle) -> bool {
        self.memory.region(handle).is_some()
    }
}

impl Nic {
    /// Puts a descriptor at the end of a VI's send queue and returns at once.
    ///
    /// On a VI that is not connected it completes at once as flushed. Whatever is wrong with the
    /// descriptor shows in its completion.
    ///
    /// # Errors
    /// [`PostError::UnknownVi`]; [`PostError::QueueFull`], which is also told by
    /// [`Event::ViOverrun`](crate::Event::ViOverrun). The descriptor is not queued then.
    #[inline(always)]
    pub fn post_send(&mut self, vi: ViId, descriptor: Descriptor) -> Result<(), PostError> {
        self.post_send_with(vi, || descriptor)
    }

    /// As [`post_send`](Self::post_send), with a descriptor that is made where it stays: once, and
    /// only if there is room.
    ///
    /// A processor that reads a descriptor as it was not written, wider, waits until it has left
    /// the store buffer.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_send_with(
        &mut self,
        vi: ViId,
        make: impl FnOnce() -> Descriptor,
    ) -> Result<(), PostError> {
        let state = self.vis.get_mut(vi.0).ok_or(PostError::UnknownVi)?;
        let limit = self.attributes.max_descriptors_per_queue;
        if state.sends.len() >= limit as usize {
            self.report_overrun(vi, Queue::Send);
            return Err(PostError::QueueFull { limit });
        }
        state.sends.push(make);
        // VIA, connection states: a send needs a connection; without one it is given back.
        if transition::flushes_posts(state.state(), Queue::Send) {
            let completions = state.sends.flush(Queue::Send, Status::FLUSHED_ERROR);
            let bound = state.send_completion_queue;
            announce(
                &mut self.completion_queues,
                bound,
                (vi, Queue::Send),
                completions,
            );
        }
        Ok(())
    }

    /// Puts a descriptor at the end of a VI's receive queue and returns at once.
    ///
    /// Receives may be posted before the VI is connected. On a VI in error the descriptor
    /// completes at once as flushed.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_receive(&mut self, vi: ViId, descriptor: Descriptor) -> Result<(), PostError> {
        self.post_receive_with(vi, || descriptor)
    }

    /// As [`post_receive`](Self::post_receive), with a descriptor that is made where it stays; see
    /// [`post_send_with`](Self::post_send_with).
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_receive_with(
        &mut self,
        vi: ViId,
        make: impl FnOnce() -> Descriptor,
    ) -> Result<(), PostError> {
        let state = self.vis.get_mut(vi.0).ok_or(PostError::UnknownVi)?;
        let limit = self.attributes.max_descriptors_per_queue;
        if state.receives.len() >= limit as usize {
            self.report_overrun(vi, Queue::Receive);
            return Err(PostError::QueueFull { limit });
        }
        if let Some(ledger) = &state.ledger
            && ledger.peer.flow_control
        {
            let descriptor = make();
            let capacity = descriptor.segments.total_bytes();
            state.receives.push_or_count(|| descriptor);
            self.announce_receive(vi, capacity);
            return Ok(());
        }
        state.receives.push_or_count(make);
        if transition::flushes_posts(state.state(), Queue::Receive) {
            let completions = state.receives.flush(Queue::Receive, Status::FLUSHED_ERROR);
            let bound = state.receive_completion_queue;
            announce(
                &mut self.completion_queues,
                bound,
                (vi, Queue::Receive),
                completions,
            );
        }
        Ok(())
    }

    /// Takes the head of the send queue, if it is complete.
    #[inline]
    pub fn send_done(&mut self, vi: ViId) -> Done {
        self.vis
            .get_mut(vi.0)
            .map_or(Done::Empty, |vi| vi.sends.take())
    }

    /// Takes the head of the receive queue, if it is complete.
    #[inline]
    pub fn receive_done(&mut self, vi: ViId) -> Done {
        self.vis
            .get_mut(vi.0)
            .map_or(Done::Empty, |vi| vi.receives.take())
    }

    /// The completions of a VI, to be taken one by one; `None` if there is no such VI.
    #[inline]
    pub fn completions(&mut self, vi: ViId) -> Option<Completions<'_>> {
        let Self { vis, memory, .. } = self;
        vis.get_mut(vi.0).map(|vi| Completions { vi, memory })
    }

    /// Whether a VI has sends that wait to be started, and completions to be taken; neither if
    /// there is no such VI.
    #[inline]
    #[must_use]
    pub fn pending_work(&self, vi: ViId) -> (bool, bool) {
        self.vis.get(vi.0).map_or((false, false), |vi| {
            let is_complete = vi.sends.has_completions() || vi.receives.has_completions();
            (vi.sends.unstarted() > 0, is_complete)
        })
    }

    /// Whether a VI has completions to be taken.
    #[inline]
    #[must_use]
    pub fn has_completions(&self, vi: ViId) -> bool {
        self.vis
            .get(vi.0)
            .is_some_and(|vi| vi.sends.has_completions() || vi.receives.has_completions())
    }

    /// Descriptors, pending and complete, in a VI's queue; 0 if there is no such VI.
    #[must_use]
    pub fn queue_depth(&self, vi: ViId, queue: Queue) -> u32 {
        self.vis.get(vi.0).map_or(0, |vi| match queue {
            Queue::Send => vi.sends.len() as u32,
            Queue::Receive => vi.receives.len() as u32,
        })
    }

    /// Descriptors in a VI's queue that wait to be started; 0 if there is no such VI.
    #[inline]
    #[must_use]
    pub fn unstarted(&self, vi: ViId, queue: Queue) -> u32 {
        self.vis.get(vi.0).map_or(0, |vi| match queue {
            Queue::Send => vi.sends.unstarted(),
            Queue::Receive => vi.receives.unstarted(),
        })
    }

    /// The send of a VI that was posted last, unless it has been started.
    #[inline]
    #[must_use]
    pub fn newest_send(&self, vi: ViId) -> Option<&Descriptor> {
        self.vis.get(vi.0)?.sends.newest_unstarted()
    }

    /// Descriptors of a VI's queue that are complete and were not taken; 0 if there is no such VI.
    #[must_use]
    pub fn completed(&self, vi: ViId, queue: Queue) -> u32 {
        self.vis.get(vi.0).map_or(0, |vi| match queue {
            Queue::Send => vi.sends.completed(),
            Queue::Receive => vi.receives.completed(),
        })
    }

    /// Whether all receives of a VI before this one are finished.
    #[inline]
    #[must_use]
    pub fn is_oldest_receive(&self, vi: ViId, work: WorkId) -> bool {
        let vi = self.vis.get(vi.0);
        vi.is_none_or(|vi| vi.receives.is_oldest(work))
    }

    /// The oldest of so many receives of a VI that were posted last; `None` if there is no such VI.
    #[must_use]
    pub fn oldest_of_last_receives(&self, vi: ViId, count: u64) -> Option<WorkId> {
        Some(self.vis.get(vi.0)?.receives.oldest_of_last(count))
    }

    /// Of a connected VI: how many receives were posted since it was made, and the segments of
    /// those that wait to be started and were posted when it was `known` or more, oldest first.
    #[inline]
    pub fn receives_posted_since(
        &self,
        vi: ViId,
        known: u64,
    ) -> Option<(u64, impl Iterator<Item = &[DataSegment]>)> {
        let vi = self.vis.get(vi.0)?;
        if !matches!(vi.connection, Connection::Up { .. }) {
            return None;
        }
        let slots = vi.receives.unstarted_from(known);
        let segments = slots.map(|slot| slot.descriptor.segments.as_slice());
        Some((vi.receives.posted(), segments))
    }

    /// Starts the oldest send that was not started; `None` if there is none, or if it must wait:
    /// for earlier remote reads (queue fence), for the peer's receives (flow control), or, when it
    /// is bad and will break the connection, for the sends before it. Ask again after a
    /// `finish_send` or acknowledgement of this VI, and when
    /// [`poll_ready`](Self::poll_ready) names it.
    ///
    /// A send that fails its checks completes in error. At unreliable delivery the next one is
    /// looked at; otherwise the connection breaks. Several sends may be under way at once; at the
    /// reliable levels they must arrive in the order in which they started.
    #[inline]
    pub fn start_send(&mut self, id: ViId) -> Option<StartedSend> {
        loop {
            let vi = self.vis.get_mut(id.0)?;
            let Connection::Up { peer, .. } = vi.connection else {
                return None;
            };
            let slot = vi.sends.next()?;
            let descriptor = &slot.descriptor;
            let segments = descriptor.segments.as_slice();
            let level = vi.attributes.reliability;
            let error = if !is_well_formed(descriptor, &self.attributes, level) {
                Status::FORMAT_ERROR
            } else if !self.memory.permits(vi.attributes.tag, segments) {
                Status::PROTECTION_ERROR
            } else if !check::send_length_is_right(
                descriptor.length,
                descriptor.segments.total_bytes(),
                vi.attributes.max_transfer_bytes,
            ) {
                Status::LENGTH_ERROR
            } else {
                if let Some(ledger) = &mut vi.ledger {
                    if ledger.defers(descriptor) {
                        return None;
                    }
                    ledger.start(descriptor);
                }
                let header = MessageHeader {
                    operation: descriptor.operation,
                    length: descriptor.length,
                    immediate: descriptor.immediate,
                    connection: peer.connection,
                };
                let segment_count = segments.len() as u32;
                let work = vi.sends.start();
                return Some(StartedSend {
                    work,
                    header,
                    peer,
                    segment_count,
                    is_followed: vi.sends.unstarted() > 0,
                });
            };
            let failure = outcome::send_failed(level, error);
            // What was sent before ends first, each send in its own way.
            if failure.breaks && vi.sends.has_work_under_way() {
                return None;
            }
            let slot = vi.sends.next()?;
            slot.finish_send(failure.sender);
            vi.sends.start();
            let completions = vi.sends.settle();
            let bound = vi.send_completion_queue;
            announce(
                &mut self.completion_queues,
                bound,
                (id, Queue::Send),
                completions,
            );
            if let Some(code) = failure.event {
                self.report_error(id, code);
            }
            // VIA, unreliable delivery: nothing is sent for a bad send, those behind it go on.
            if failure.breaks {
                self.break_connection(id, BreakReason::Local, Status::FLUSHED_ERROR);
                return None;
            }
        }
    }

    /// Says how a send under way ended; in any order, the consumer sees post order.
    ///
    /// At reliable reception [`SendOutcome::Sent`] completes remote reads only: other sends wait
    /// for their acknowledgement. At the reliable levels any other outcome breaks the connection.
    ///
    /// False, and without effect, if the work is not under way: it was finished or flushed.
    #[inline]
    pub fn finish_send(&mut self, id: ViId, work: WorkId, outcome: SendOutcome) -> bool {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return false;
        };
        let Some(slot) = vi.sends.under_way(work) else {
            return false;
        };
        if let Some(ledger) = &mut vi.ledger {
            let operation = slot.descriptor.operation;
            if outcome == SendOutcome::Sent
                && ledger.awaits_acknowledgement
                && operation != Operation::RdmaRead
            {
                return true;
            }
            ledger.end(operation);
        }
        let damage = match outcome {
            SendOutcome::Sent => None,
            SendOutcome::CutShort => Some(Damage::CutShort),
            SendOutcome::TransportFailed => Some(Damage::Corrupt),
        };
        if let Some(damage) = damage {
            return self.harm_send(id, work, damage);
        }
        slot.finish_send(Status::PENDING);
        let completions = vi.sends.settle();
        let bound = vi.send_completion_queue;
        announce(
            &mut self.completion_queues,
            bound,
            (id, Queue::Send),
            completions,
        );
        true
    }

    /// The target has placed a send or a remote write: at reliable reception it completes.
    ///
    /// The target's driver sends the acknowledgement when `finish_receive` or
    /// `finish_remote_write` has returned true for [`ReceiveOutcome::Placed`] and its VI
    /// [`acknowledges`](Self::acknowledges); it names the work that `start_send` gave. What the
    /// target refuses comes back in the message that breaks the connection.
    ///
    /// False, and without effect, if nothing waits for it: at the other levels, or if the work was
    /// finished or flushed.
    pub fn handle_acknowledgement(&mut self, id: ViId, work: WorkId) -> bool {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return false;
        };
        let awaits = vi
            .ledger
            .as_ref()
            .is_some_and(|ledger| ledger.awaits_acknowledgement);
        let Some(slot) = vi.sends.under_way(work).filter(|_| awaits) else {
            return false;
        };
        if slot.descriptor.operation == Operation::RdmaRead {
            return false;
        }
        slot.finish_send(Status::PENDING);
        let completions = vi.sends.settle();
        let bound = vi.send_completion_queue;
        let entry = (id, Queue::Send);
        announce(&mut self.completion_queues, bound, entry, completions);
        true
    }

    /// Whether the peer of a VI waits for an acknowledgement of what is placed here.
    #[must_use]
    pub fn acknowledges(&self, vi: ViId) -> bool {
        self.vis.get(vi.0).is_some_and(|vi| {
            outcome::completes_when(vi.attributes.reliability) == CompletesWhen::Placed
        })
    }

    /// A message for a VI arrives: says whether to place it, and consumes a receive if so.
    ///
    /// A receive that fails its checks is consumed too, and completes in error; the message is
    /// dropped. At the reliable levels that, or the want of a receive, breaks the connection, and
    /// what is still being placed for it is flushed: a driver that wants earlier messages to end
    /// well finishes them before it starts the next. Several receives may be under way at once.
    #[inline]
    pub fn start_receive(&mut self, id: ViId, header: &MessageHeader) -> ReceiveVerdict {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return ReceiveVerdict::Drop(DropReason::NotConnected);
        };
        match vi.connection {
            Connection::Up { local, .. } if local == header.connection => {}
            _ => return ReceiveVerdict::Drop(DropReason::NotConnected),
        }
        if header.operation != Operation::SendReceive {
            return ReceiveVerdict::Drop(DropReason::NotSupported);
        }
        if let Some(ledger) = &mut vi.ledger {
            ledger.arrive();
            if ledger.local.request_splitting {
                return self.start_split(id, header);
            }
        }
        let level = vi.attributes.reliability;
        // VIA, data transfer: a message takes one receive, the oldest.
        let Some(slot) = vi.receives.next() else {
            self.suffer(id, outcome::receive_queue_empty(level));
            return ReceiveVerdict::Drop(DropReason::NoDescriptor);
        };
        let descriptor = &mut slot.descriptor;
        let segments = descriptor.segments.as_slice();
        let (operation, segment_total) = (descriptor.operation, descriptor.segments.count());
        let (failure, reason) =
            if !check::receive_is_well_formed(operation, segment_total, &self.attributes) {
                (outcome::receive_format(level), DropReason::Format)
            } else if !self.memory.permits_message(
                vi.attributes.tag,
                segments,
                header.length.into(),
            ) {
                (outcome::receive_protection(level), DropReason::Protection)
            } else if u64::from(header.length) > descriptor.segments.total_bytes() {
                (outcome::message_too_long(level), DropReason::TooLong)
            } else {
                let segment_count = segments.len() as u32;
                let length = header.length;
                // Kept for the completion: the driver need not say it again.
                descriptor.length = length;
                descriptor.immediate = header.immediate;
                let work = vi.receives.start();
                return ReceiveVerdict::Place(StartedReceive {
                    work,
                    length,
                    segment_count,
                    receives: 1,
                });
            };
        let error = failure.receive.unwrap_or(Status::PENDING);
        slot.finish_receive(Operation::SendReceive, error, 0, None);
        vi.receives.start();
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        announce(
            &mut self.completion_queues,
            bound,
            (id, Queue::Receive),
            completions,
        );
        self.suffer(id, failure);
        ReceiveVerdict::Drop(reason)
    }

    /// Says how a receive under way ended; in any order, the consumer sees post order.
    ///
    /// Of a message that takes several receives, say it of the first. At the reliable levels
    /// damage breaks the connection.
    ///
    /// False, and without effect, if the work is not under way: it was finished or flushed.
    #[inline]
    pub fn finish_receive(&mut self, id: ViId, work: WorkId, outcome: ReceiveOutcome) -> bool {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return false;
        };
        let Some(slot) = vi.receives.under_way(work) else {
            return false;
        };
        if slot.noted() == Status::CONTINUES {
            return self.finish_split(id, work, outcome);
        }
        let descriptor = &slot.descriptor;
        let (taken_by, length) = (descriptor.operation, descriptor.length);
        let immediate = descriptor.immediate;
        let (mut damaged, mut refused) = (None, None);
        if outcome == ReceiveOutcome::Refused {
            let failure = outcome::receive_protection(vi.attributes.reliability);
            let error = failure.receive.unwrap_or(Status::PENDING);
            slot.finish_receive(taken_by, error, 0, None);
            refused = Some(failure);
        } else if let Some(damage) = outcome.damage() {
            let level = vi.attributes.reliability;
            let failure = match taken_by {
                Operation::RdmaWrite => outcome::rdma_write_damaged(level, damage, true),
                _ => outcome::message_damaged(level, damage),
            };
            let placed = match outcome {
                ReceiveOutcome::CutShort { placed_bytes } => placed_bytes.min(length),
                _ => 0,
            };
            let error = failure.receive.unwrap_or(Status::PENDING);
            slot.finish_receive(taken_by, error, placed, None);
            damaged = Some(failure);
        } else {
            slot.finish_receive(taken_by, Status::PENDING, length, immediate);
        }
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        announce(
            &mut self.completion_queues,
            bound,
            (id, Queue::Receive),
            completions,
        );
        if let Some(failure) = damaged {
            self.suffer_damage(id, failure);
        }
        if let Some(failure) = refused {
            self.suffer(id, failure);
        }
        true
    }

    /// Where the bytes of a send under way lie, or go if it is a remote read; empty if the work is
    /// not under way.
    #[inline]
    #[must_use]
    pub fn send_segments(&self, vi: ViId, work: WorkId) -> &[DataSegment] {
        let segments = self.vis.get(vi.0).and_then(|vi| vi.sends.segments(work));
        segments.map_or(&[], |segments| segments.as_slice())
    }

    /// Which memory of the peer a send under way is about; `None` unless its header's operation is
    /// remote. Travels with the header.
    #[must_use]
    pub fn send_remote(&self, vi: ViId, work: WorkId) -> Option<RemoteSegment> {
        self.vis.get(vi.0)?.sends.segments(work)?.remote()
    }

    /// Takes a VI whose deferred sends may be able to start: the peer has posted receives.
    pub fn poll_ready(&mut self) -> Option<ViId> {
        let vi = self.connections.as_mut()?.ready.pop_front()?;
        let ledger = self.vis.get_mut(vi.0).and_then(|vi| vi.ledger.as_mut());
        if let Some(ledger) = ledger {
            ledger.is_ready = false;
        }
        Some(vi)
    }

    /// Where the bytes of a receive under way go; empty if the work is not under way.
    #[inline]
    #[must_use]
    pub fn receive_segments(&self, vi: ViId, work: WorkId) -> &[DataSegment] {
        let segments = self.vis.get(vi.0).and_then(|vi| vi.receives.segments(work));
        segments.map_or(&[], |segments| segments.as_slice())
    }

    /// A send under way came to harm here. If that breaks the connection, all that is under way at
    /// this end fails with it.
    #[cold]
    fn harm_send(&mut self, id: ViId, work: WorkId, damage: Damage) -> bool {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return false;
        };
        let failure = outcome::send_damaged(vi.attributes.reliability, damage);
        let has_remote_work = vi.sends.has_remote_work_under_way();
        if let Some(slot) = vi.sends.under_way(work)
            && !failure.breaks
        {
            slot.finish_send(failure.sender);
            let completions = vi.sends.settle();
            let bound = vi.send_completion_queue;
            let entry = (id, Queue::Send);
            announce(&mut self.completion_queues, bound, entry, completions);
        }
        if let Some(code) = failure.event {
            self.report_error(id, code);
        }
        if failure.breaks {
            if has_remote_work {
                self.report_error(id, ErrorCode::RdmaTransport);
            }
            self.break_connection(id, BreakReason::Transport, failure.sender);
        }
        true
    }
}

/// Whether a descriptor of the send queue is well formed.
#[inline]
fn is_well_formed(descriptor: &Descriptor, nic: &NicAttributes, level: ReliabilityLevel) -> bool {
    let shape = Shape {
        operation: descriptor.operation,
        has_immediate: descriptor.immediate.is_some(),
        has_remote: descriptor.segments.remote().is_some(),
        segments: descriptor.segments.count(),
    };
    check::send_is_well_formed(shape, nic, level)
}
