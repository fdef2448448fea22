//! Extension, request splitting: a message longer than the receive that it takes goes on in the
//! following ones.
//!
//! Each receive but the last is filled, and completes with [`Status::CONTINUES`]; immediate data
//! comes with the last. A message takes as few receives as hold it. If all that are posted do not,
//! it is too long for the first, as without splitting.

use crate::ids::{Queue, ViId};
use crate::via::check;
use crate::via::ledger::receives_taken;
use crate::via::nic::{Nic, announce};
use crate::via::outcome;
use crate::via::status::Status;
use crate::via::transfer::{
    DropReason, MessageHeader, ReceiveOutcome, ReceiveVerdict, StartedReceive,
};
use crate::via::work_queue::WorkId;

impl Nic {
    /// As `start_receive`, on a VI that splits.
    #[cold]
    pub(crate) fn start_split(&mut self, id: ViId, header: &MessageHeader) -> ReceiveVerdict {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return ReceiveVerdict::Drop(DropReason::NotConnected);
        };
        let level = vi.attributes.reliability;
        if vi.receives.unstarted() == 0 {
            self.suffer(id, outcome::receive_queue_empty(level));
            return ReceiveVerdict::Drop(DropReason::NoDescriptor);
        }
        let capacities = vi
            .receives
            .unstarted_slots()
            .map(|slot| slot.descriptor.segments.total_bytes());
        let fitting = receives_taken(capacities, header.length);
        // Too long for everything: one receive tells of it, the others stay.
        let taken = fitting.unwrap_or(1);

        let mut failure = None;
        let mut segment_count = 0;
        let mut left = u64::from(header.length);
        for slot in vi.receives.unstarted_slots().take(taken) {
            let (operation, count) = (slot.descriptor.operation, slot.descriptor.segments.count());
            let segments = slot.descriptor.segments.as_slice();
            segment_count += segments.len() as u32;
            // Of a message that is too long the one receive that tells of it is meant.
            let part = left;
            left = left.saturating_sub(slot.descriptor.segments.total_bytes());
            let found = if !check::receive_is_well_formed(operation, count, &self.attributes) {
                Some((outcome::receive_format(level), DropReason::Format))
            } else if !self
                .memory
                .permits_message(vi.attributes.tag, segments, part)
            {
                Some((outcome::receive_protection(level), DropReason::Protection))
            } else if fitting.is_none() {
                Some((outcome::message_too_long(level), DropReason::TooLong))
            } else {
                None
            };
            failure = failure.or(found);
            slot.descriptor.immediate = None;
            if let Some((outcome, _)) = found {
                slot.note(outcome.receive.unwrap_or(Status::PENDING));
            }
        }
        if let Some((outcome, reason)) = failure {
            for slot in vi.receives.unstarted_slots().take(taken) {
                let error = outcome::part_of_split(slot.noted(), true);
                slot.finish_receive(header.operation, error, 0, None);
            }
            for _ in 0..taken {
                vi.receives.start();
            }
            let completions = vi.receives.settle();
            let bound = vi.receive_completion_queue;
            let entry = (id, Queue::Receive);
            announce(&mut self.completion_queues, bound, entry, completions);
            self.suffer(id, outcome);
            return ReceiveVerdict::Drop(reason);
        }

        let mut rest = header.length;
        for (index, slot) in vi.receives.unstarted_slots().take(taken).enumerate() {
            let capacity = slot.descriptor.segments.total_bytes();
            let part = u64::from(rest).min(capacity) as u32;
            rest -= part;
            slot.descriptor.length = part;
            if index + 1 == taken {
                slot.descriptor.immediate = header.immediate;
            } else {
                slot.note(outcome::part_of_split(Status::PENDING, false));
            }
        }
        let work = vi.receives.start();
        for _ in 1..taken {
            vi.receives.start();
        }
        ReceiveVerdict::Place(StartedReceive {
            work,
            length: header.length,
            segment_count,
            receives: taken as u32,
        })
    }

    /// As `finish_receive`, for the first of several receives.
    #[cold]
    pub(crate) fn finish_split(
        &mut self,
        id: ViId,
        first: WorkId,
        outcome: ReceiveOutcome,
    ) -> bool {
        let Some(vi) = self.vis.get_mut(id.0) else {
            return false;
        };
        let level = vi.attributes.reliability;
        let mut placed = match outcome {
            ReceiveOutcome::Placed => u32::MAX,
            ReceiveOutcome::CutShort { placed_bytes } => placed_bytes,
            ReceiveOutcome::Corrupt | ReceiveOutcome::Refused => 0,
        };
        let is_refused = outcome == ReceiveOutcome::Refused;
        let failure = if is_refused {
            Some(outcome::receive_protection(level))
        } else {
            let damage = outcome.damage();
            damage.map(|damage| outcome::message_damaged(level, damage))
        };
        let error = failure
            .and_then(|failure| failure.receive)
            .unwrap_or(Status::PENDING);
        let mut work = first;
        while let Some(slot) = vi.receives.under_way(work) {
            let descriptor = &slot.descriptor;
            let (operation, length) = (descriptor.operation, descriptor.length);
            let (immediate, continues) = (descriptor.immediate, slot.noted());
            let here = placed.min(length);
            placed -= here;
            let is_whole = match outcome {
                ReceiveOutcome::Placed => true,
                // What came before the cut is as it should be.
                ReceiveOutcome::CutShort { .. } => here == length && continues == Status::CONTINUES,
                ReceiveOutcome::Corrupt | ReceiveOutcome::Refused => false,
            };
            if is_whole {
                slot.finish_receive(operation, Status::PENDING, length, immediate);
                slot.note(continues);
            } else {
                slot.finish_receive(operation, error, here, None);
            }
            if continues != Status::CONTINUES {
                break;
            }
            work = work.following(1);
        }
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        let entry = (id, Queue::Receive);
        announce(&mut self.completion_queues, bound, entry, completions);
        if let Some(failure) = failure {
            if is_refused {
                self.suffer(id, failure);
            } else {
                self.suffer_damage(id, failure);
            }
        }
        true
    }
}
