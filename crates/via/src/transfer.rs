//! Posting, starting, finishing and taking descriptors: the path of every message.
//!
//! ```text
//! consumer   post_send                                              send_done
//! driver                start_send ... moves the bytes ... finish_send
//! driver                start_receive ......................... finish_receive
//! consumer   post_receive                                           receive_done
//! ```

use crate::attributes::ReliabilityLevel;
use crate::connection::ConnectionNumber;
use crate::descriptor::{DataSegment, Descriptor, Operation};
use crate::error::PostError;
use crate::nic::{Nic, announce};
use crate::status::Status;
use crate::transition;
use crate::vi::{Connection, Peer, Queue, ViId};
use crate::work_queue::{Done, WorkId};

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
}

/// What became of a send that was started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// The network has the message.
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
    /// The message asks for something that is not implemented. No receive is consumed.
    NotSupported,
}

/// What became of a receive that was started.
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
    #[inline]
    pub fn post_send(&mut self, vi: ViId, descriptor: Descriptor) -> Result<(), PostError> {
        let state = self.vis.get_mut(vi.0).ok_or(PostError::UnknownVi)?;
        let limit = self.attributes.max_descriptors_per_queue;
        if state.sends.len() >= limit as usize {
            self.report_overrun(vi, Queue::Send);
            return Err(PostError::QueueFull { limit });
        }
        state.sends.push(descriptor);
        // VIA, connection states: a send needs a connection; without one it is given back.
        if transition::flushes_posts(state.state(), Queue::Send) {
            let completions = state.sends.flush(Queue::Send);
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
    #[inline]
    pub fn post_receive(&mut self, vi: ViId, descriptor: Descriptor) -> Result<(), PostError> {
        let state = self.vis.get_mut(vi.0).ok_or(PostError::UnknownVi)?;
        let limit = self.attributes.max_descriptors_per_queue;
        if state.receives.len() >= limit as usize {
            self.report_overrun(vi, Queue::Receive);
            return Err(PostError::QueueFull { limit });
        }
        state.receives.push(descriptor);
        if transition::flushes_posts(state.state(), Queue::Receive) {
            let completions = state.receives.flush(Queue::Receive);
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

    /// Descriptors, pending and complete, in a VI's queue; 0 if there is no such VI.
    #[must_use]
    pub fn queue_depth(&self, vi: ViId, queue: Queue) -> u32 {
        self.vis.get(vi.0).map_or(0, |vi| match queue {
            Queue::Send => vi.sends.len() as u32,
            Queue::Receive => vi.receives.len() as u32,
        })
    }

    /// Descriptors in a VI's queue that wait to be started; 0 if there is no such VI.
    #[must_use]
    pub fn unstarted(&self, vi: ViId, queue: Queue) -> u32 {
        self.vis.get(vi.0).map_or(0, |vi| match queue {
            Queue::Send => vi.sends.unstarted(),
            Queue::Receive => vi.receives.unstarted(),
        })
    }

    /// Starts the oldest send that was not started; `None` if there is none.
    ///
    /// A send that fails its checks completes in error, and the next one is looked at. Several
    /// sends may be under way at once.
    #[inline]
    pub fn start_send(&mut self, id: ViId) -> Option<StartedSend> {
        let vi = self.vis.get_mut(id.0)?;
        let Connection::Up { peer, .. } = vi.connection else {
            return None;
        };
        loop {
            let slot = vi.sends.next()?;
            let descriptor = &slot.descriptor;
            let segments = descriptor.segments.as_slice();
            let error = if is_malformed(descriptor, self.attributes.max_segments_per_descriptor) {
                Status::FORMAT_ERROR
            } else if !self.memory.permits(vi.attributes.tag, segments) {
                Status::PROTECTION_ERROR
            } else if u64::from(descriptor.length) != descriptor.segments.total_bytes()
                || descriptor.length > vi.attributes.max_transfer_bytes
            {
                Status::LENGTH_ERROR
            } else {
                let header = MessageHeader {
                    operation: descriptor.operation,
                    length: descriptor.length,
                    immediate: descriptor.immediate,
                    connection: peer.connection,
                };
                let segment_count = segments.len() as u32;
                return Some(StartedSend {
                    work: vi.sends.start(),
                    header,
                    peer,
                    segment_count,
                });
            };
            // VIA, unreliable delivery: a bad send completes in error, nothing is sent for it, and
            // the ones behind it go on. The reliable levels will break the connection here.
            debug_assert_eq!(vi.attributes.reliability, ReliabilityLevel::Unreliable);
            slot.finish_send(error);
            vi.sends.start();
            let completions = vi.sends.settle();
            let bound = vi.send_completion_queue;
            announce(
                &mut self.completion_queues,
                bound,
                (id, Queue::Send),
                completions,
            );
        }
    }

    /// Says what became of a send under way; in any order, the consumer sees post order.
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
        slot.finish_send(match outcome {
            SendOutcome::Sent => Status::PENDING,
            SendOutcome::CutShort => Status::PARTIAL_ERROR,
            SendOutcome::TransportFailed => Status::TRANSPORT_ERROR,
        });
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

    /// A message for a VI arrives: says whether to place it, and consumes a receive if so.
    ///
    /// A receive that fails its checks is consumed too, and completes in error; the message is
    /// dropped and the VI stays connected. Several receives may be under way at once.
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
        // VIA, data transfer: a message takes one receive, the oldest.
        let Some(slot) = vi.receives.next() else {
            self.report_drop(id);
            return ReceiveVerdict::Drop(DropReason::NoDescriptor);
        };
        let descriptor = &mut slot.descriptor;
        let segments = descriptor.segments.as_slice();
        let (error, reason) =
            if is_malformed(descriptor, self.attributes.max_segments_per_descriptor) {
                (Status::FORMAT_ERROR, DropReason::Format)
            } else if !self.memory.permits(vi.attributes.tag, segments) {
                (Status::PROTECTION_ERROR, DropReason::Protection)
            } else if u64::from(header.length) > descriptor.segments.total_bytes() {
                (Status::LENGTH_ERROR, DropReason::TooLong)
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
                });
            };
        // VIA, unreliable delivery: an error on a receive leaves the connection alone.
        debug_assert_eq!(vi.attributes.reliability, ReliabilityLevel::Unreliable);
        slot.finish_receive(error, 0, None);
        vi.receives.start();
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        announce(
            &mut self.completion_queues,
            bound,
            (id, Queue::Receive),
            completions,
        );
        ReceiveVerdict::Drop(reason)
    }

    /// Says what became of a receive under way; in any order, the consumer sees post order.
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
        let (length, immediate) = (slot.descriptor.length, slot.descriptor.immediate);
        match outcome {
            ReceiveOutcome::Placed => slot.finish_receive(Status::PENDING, length, immediate),
            ReceiveOutcome::CutShort { placed_bytes } => {
                slot.finish_receive(Status::PARTIAL_ERROR, placed_bytes.min(length), None);
            }
            ReceiveOutcome::Corrupt => slot.finish_receive(Status::TRANSPORT_ERROR, 0, None),
        }
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        announce(
            &mut self.completion_queues,
            bound,
            (id, Queue::Receive),
            completions,
        );
        true
    }

    /// Where the bytes of a send under way lie; empty if the work is not under way.
    #[inline]
    #[must_use]
    pub fn send_segments(&self, vi: ViId, work: WorkId) -> &[DataSegment] {
        self.vis.get(vi.0).map_or(&[], |vi| vi.sends.segments(work))
    }

    /// Where the bytes of a receive under way go; empty if the work is not under way.
    #[inline]
    #[must_use]
    pub fn receive_segments(&self, vi: ViId, work: WorkId) -> &[DataSegment] {
        self.vis
            .get(vi.0)
            .map_or(&[], |vi| vi.receives.segments(work))
    }
}

/// Whether a descriptor asks for what this queue, and this crate, cannot do.
#[inline]
fn is_malformed(descriptor: &Descriptor, segments_max: u32) -> bool {
    descriptor.operation != Operation::SendReceive
        || descriptor.segments.as_slice().len() > segments_max as usize
}
