//! Remote writes and reads that the sender leaves to this side, and those that it refused.

use viaduct_core::Operation;
use viaduct_core::outcome;
use viaduct_core::protection::RemoteAccess;

use super::{Look, ReceiveSide, Stage};
use crate::channel::{Header, Kind, flag};
use crate::copy;
use crate::regions::Placement;

impl ReceiveSide {
    /// Where a range of this NIC's memory is, if the peer may reach it through this VI.
    fn may_reach(
        &self,
        handle: u32,
        address: u64,
        bytes: u64,
        access: RemoteAccess,
    ) -> Option<Placement> {
        let (incoming, nic) = (self.incoming.as_ref()?, self.side.nic.as_ref()?);
        let vi = &incoming.attributes;
        nic.regions
            .check_remote(handle, address, bytes, vi, access)
            .ok()
    }

    /// Lets the peer reach memory by itself the next time that this side had to.
    fn let_reach(&self, placement: Option<Placement>) {
        if let (Some(incoming), Some(placement)) = (&self.incoming, placement)
            && let Some(segment) = placement.segment
        {
            incoming.link.announce_segment(segment.bits());
        }
    }

    pub(super) fn rdma_write(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let Some((words, source, bytes)) = self.part() else {
            return Look::Garbage;
        };
        let Some(mut partial) = self.partial(Kind::RdmaWrite, header, bytes) else {
            return Look::Garbage;
        };
        let has_immediate = header.flags & flag::IMMEDIATE != 0;
        let level = self.side.level();
        let nic = self.side.nic.clone();
        let copying = nic.as_ref().map(|nic| nic.regions.begin_remote_copy());
        let place = self.may_reach(words[2] as u32, words[1], bytes, RemoteAccess::Write);
        if partial.bad.is_none() && place.is_none() {
            partial.bad = Some(outcome::rdma_write_refused(level, has_immediate).into());
        }
        if partial.bad.is_none() && bytes > 0 {
            // SAFETY: the range lies in a live region of this process, the source in the pool.
            unsafe {
                copy::copy_last_word_last(words[1] as *mut u8, source, bytes as usize, false)
            };
        }
        drop(copying);
        self.let_reach(place);
        partial.done += bytes;
        if header.flags & flag::MORE != 0 {
            return self.keep(partial);
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.stage = Stage::BetweenMessages;
        }
        let operation = Operation::RdmaWrite;
        if has_immediate && let Err(outcome) = self.receive_of_write() {
            return self.fail(outcome, operation, 1, header);
        }
        if let Some(outcome) = partial.bad {
            return self.fail(outcome, operation, 1, header);
        }
        if has_immediate {
            return self.succeed(operation, header.length, immediate, 1, 1, header);
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.advance(1, true);
        }
        Look::Dealt
    }

    pub(super) fn rdma_read(&mut self, header: Header) -> Look {
        let Some((words, target, bytes)) = self.part() else {
            return Look::Garbage;
        };
        let nic = self.side.nic.clone();
        let copying = nic.as_ref().map(|nic| nic.regions.begin_remote_copy());
        let place = self.may_reach(words[2] as u32, words[1], bytes, RemoteAccess::Read);
        if place.is_none() {
            drop(copying);
            let outcome = outcome::rdma_read_refused(self.side.level());
            return self.fail(outcome, Operation::RdmaRead, 1, header);
        }
        // SAFETY: the range lies in a live region of this process, the target in the pool.
        unsafe { copy::copy(target, words[1] as *const u8, bytes as usize) };
        drop(copying);
        self.let_reach(place);
        if let Some(incoming) = &mut self.incoming {
            incoming.counts.chunks += 1;
            incoming.advance(1, true);
        }
        Look::Dealt
    }

    /// A remote operation that its initiator's check refused.
    pub(super) fn refused(&mut self, header: Header, immediate: Option<u32>) -> Look {
        let level = self.side.level();
        if header.flags & flag::READ != 0 {
            let outcome = outcome::rdma_read_refused(level);
            return self.fail(outcome, Operation::RdmaRead, 1, header);
        }
        let operation = Operation::RdmaWrite;
        if immediate.is_some()
            && let Err(outcome) = self.receive_of_write()
        {
            return self.fail(outcome, operation, 1, header);
        }
        let outcome = outcome::rdma_write_refused(level, immediate.is_some());
        self.fail(outcome, operation, 1, header)
    }
}
