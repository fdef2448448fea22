//! Remote memory access, at its target. At its initiator it is a send like others, in
//! `transfer.rs`.
//!
//! ```text
//! initiator                                  target
//! start_send, send_remote  -- header, remote --> start_remote_write    checks, takes a receive
//! send_segments            -- bytes -----------> finish_remote_write   if there is immediate data
//! finish_send              <- acknowledgement -
//!
//! start_send, send_remote  -- header, remote --> start_remote_read     checks
//! send_segments            <-------------- bytes -
//! finish_send
//! ```

use crate::descriptor::{Operation, RemoteSegment};
use crate::ids::ConnectionNumber;
use crate::ids::{Queue, ViId};
use crate::protection::{self, AccessError, RemoteAccess};
use crate::via::attributes::ViAttributes;
use crate::via::check;
use crate::via::nic::{Nic, announce};
use crate::via::outcome::{self, Outcome};
use crate::via::status::Status;
use crate::via::transfer::{DropReason, MessageHeader, ReceiveOutcome};
use crate::via::vi::Connection;
use crate::via::work_queue::WorkId;

/// What to do with a remote access that arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum RemoteVerdict {
    /// Move the bytes: all `header.length` of them, from `remote.address` on. For a write, then
    /// call `finish_remote_write`.
    Access(StartedRemote),
    /// Touch nothing.
    Drop(DropReason),
}

/// A remote access that a driver has to carry out at the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StartedRemote {
    /// The receive that a write with immediate data has taken. Its buffers stay untouched.
    pub receive: Option<WorkId>,
    /// Of which connection it is.
    pub connection: ConnectionNumber,
}

impl Nic {
    /// A peer's remote write arrives: checks it, and takes a receive if it has immediate data.
    ///
    /// VIA, remote access: VI and region must both be enabled, the region's tag the VI's, every
    /// byte inside. Nothing is changed by a write that is dropped.
    pub fn start_remote_write(
        &mut self,
        id: ViId,
        header: &MessageHeader,
        remote: RemoteSegment,
    ) -> RemoteVerdict {
        let attributes = match self.remote_target(id, header, Operation::RdmaWrite) {
            Ok(attributes) => attributes,
            Err(reason) => return RemoteVerdict::Drop(reason),
        };
        let level = attributes.reliability;
        let access = self.check_remote(&attributes, RemoteAccess::Write, remote, header.length);
        let mut started = StartedRemote {
            receive: None,
            connection: header.connection,
        };
        let Some(immediate) = header.immediate else {
            return match access {
                Ok(()) => RemoteVerdict::Access(started),
                Err(_) => {
                    self.suffer(id, outcome::rdma_write_refused(level, false));
                    RemoteVerdict::Drop(DropReason::RemoteProtection)
                }
            };
        };
        let nic_attributes = &self.attributes;
        let Some(vi) = self.vis.get_mut(id.0) else {
            return RemoteVerdict::Drop(DropReason::NotConnected);
        };
        let Some(slot) = vi.receives.next() else {
            self.suffer(id, outcome::receive_queue_empty(level));
            return RemoteVerdict::Drop(DropReason::NoDescriptor);
        };
        let (operation, segments) = (slot.descriptor.operation, slot.descriptor.segments.count());
        // The receive's own buffers are not touched, so their protection does not matter.
        let (failure, reason) =
            if !check::receive_is_well_formed(operation, segments, nic_attributes) {
                (outcome::receive_format(level), DropReason::Format)
            } else if access.is_err() {
                let refused = outcome::rdma_write_refused(level, true);
                (refused, DropReason::RemoteProtection)
            } else {
                slot.descriptor.operation = Operation::RdmaWrite;
                slot.descriptor.length = header.length;
                slot.descriptor.immediate = Some(immediate);
                started.receive = Some(vi.receives.start());
                return RemoteVerdict::Access(started);
            };
        let error = failure.receive.unwrap_or(Status::PENDING);
        slot.finish_receive(Operation::RdmaWrite, error, 0, None);
        vi.receives.start();
        let completions = vi.receives.settle();
        let bound = vi.receive_completion_queue;
        let entry = (id, Queue::Receive);
        announce(&mut self.completion_queues, bound, entry, completions);
        self.suffer(id, failure);
        RemoteVerdict::Drop(reason)
    }

    /// Says how a remote write ended that was to be placed.
    ///
    /// False, and without effect, if its connection is over.
    pub fn finish_remote_write(
        &mut self,
        id: ViId,
        started: StartedRemote,
        outcome: ReceiveOutcome,
    ) -> bool {
        if let Some(work) = started.receive {
            return self.finish_receive(id, work, outcome);
        }
        let Some(vi) = self.vis.get(id.0) else {
            return false;
        };
        if !matches!(vi.connection, Connection::Up { local, .. } if local == started.connection) {
            return false;
        }
        if let Some(damage) = outcome.damage() {
            let level = vi.attributes.reliability;
            self.suffer_damage(id, outcome::rdma_write_damaged(level, damage, false));
        }
        true
    }

    /// A peer's remote read arrives: checks it. The bytes go back to the initiator, whose driver
    /// places them and calls `finish_send`; nothing is left to say here.
    pub fn start_remote_read(
        &mut self,
        id: ViId,
        header: &MessageHeader,
        remote: RemoteSegment,
    ) -> RemoteVerdict {
        let attributes = match self.remote_target(id, header, Operation::RdmaRead) {
            Ok(attributes) => attributes,
            Err(reason) => return RemoteVerdict::Drop(reason),
        };
        let level = attributes.reliability;
        if !self.attributes.supports_rdma_read(level) {
            return RemoteVerdict::Drop(DropReason::NotSupported);
        }
        match self.check_remote(&attributes, RemoteAccess::Read, remote, header.length) {
            Ok(()) => RemoteVerdict::Access(StartedRemote {
                receive: None,
                connection: header.connection,
            }),
            Err(_) => {
                let refused: Outcome = outcome::rdma_read_refused(level);
                self.suffer(id, refused);
                RemoteVerdict::Drop(DropReason::RemoteProtection)
            }
        }
    }

    /// Counts an access that arrives; the attributes of the VI that it is for.
    fn remote_target(
        &mut self,
        id: ViId,
        header: &MessageHeader,
        operation: Operation,
    ) -> Result<ViAttributes, DropReason> {
        let vi = self.vis.get_mut(id.0).ok_or(DropReason::NotConnected)?;
        match vi.connection {
            Connection::Up { local, .. } if local == header.connection => {}
            _ => return Err(DropReason::NotConnected),
        }
        if header.operation != operation {
            return Err(DropReason::NotSupported);
        }
        if let Some(ledger) = &mut vi.ledger {
            ledger.arrive();
        }
        Ok(vi.attributes)
    }

    fn check_remote(
        &self,
        vi: &ViAttributes,
        access: RemoteAccess,
        remote: RemoteSegment,
        length: u32,
    ) -> Result<(), AccessError> {
        if length == 0 {
            return protection::check_end(vi, access);
        }
        let region = self.memory.region(remote.handle);
        let region = region.ok_or(AccessError::UnknownHandle)?;
        let vi = ViAttributes {
            tag: self.memory.tag_at(region, vi.tag),
            ..*vi
        };
        region.check_remote(&vi, access, remote.address, u64::from(length))
    }
}
