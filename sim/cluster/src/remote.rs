//! Remote writes and reads: where their way is another than that of a send.
//!
//! ```text
//!  write:  the way of a send -> TailArrives: placed. Nobody at the target hears of it
//!  with immediate data: it takes its receive at TailArrives, and goes on as a send
//!  read:   a request without bytes goes the way of a send -> TailArrives: the target's adapter
//!          begins with the answer, whose source and target have changed places
//!          -> TailArrives: the bytes are placed, the read is complete
//! ```
//!
//! The initiator of a read keeps its buffer until the answer is there, as the sender of a message
//! does that is to be acknowledged.

use viaduct_core::{
    Descriptor, DropReason, MessageHeader, ReceiveOutcome, RemoteSegment, RemoteVerdict, Segments,
    SendOutcome, ViId, WorkId,
};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::{self, Request};
use viaduct_hardware::pages::BUFFER_OFFSET_BYTES;
use viaduct_network::hops::Alone;

use crate::cluster::Cluster;
use crate::connect::BUFFER_BASE;
use crate::failures::cause;
use crate::faults::Fate;
use crate::host::BlockedPost;
use crate::message::{Ends, MessageId};
use crate::path::{floor_of, leg_of};
use crate::programs::Programs;
use crate::receive::drop_cause;
use crate::workload::MessageOperation;

/// The immediate data of all messages that have any: nobody looks at it.
const IMMEDIATE: u32 = 0;

impl<P: Programs> Cluster<P> {
    /// Whether memory may be written by peers, and read.
    pub(crate) fn remote_rights(&self) -> (bool, bool) {
        let has = |operation| self.config.traffic.has(operation);
        let writes = has(MessageOperation::Write) || has(MessageOperation::WriteWithImmediate);
        (writes, has(MessageOperation::Read))
    }

    /// The memory of a process that its peers write and read: its buffer, whose address and handle
    /// it has told them before.
    fn remote_buffer(&self, process: u32) -> Option<RemoteSegment> {
        let endpoint = self.processes[process as usize].endpoint;
        endpoint.map(|endpoint| RemoteSegment {
            address: BUFFER_BASE + BUFFER_OFFSET_BYTES,
            handle: endpoint.memory,
        })
    }

    /// Posts a message of drawn traffic that is no send.
    #[inline(never)]
    pub(crate) fn post_remote(&mut self, host: u32, ends: Ends, wish: &BlockedPost) {
        let local = self.buffer(wish.process, wish.bytes);
        let data = local.as_slice();
        let Some(remote) = self.remote_buffer(wish.target) else {
            return;
        };
        let descriptor = match wish.operation {
            MessageOperation::Send => Descriptor::send(Segments::from_slice(data), wish.number),
            MessageOperation::Write => Descriptor::rdma_write(remote, data, wish.number),
            MessageOperation::WriteWithImmediate => {
                Descriptor::rdma_write(remote, data, wish.number).with_immediate(IMMEDIATE)
            }
            MessageOperation::Read => Descriptor::rdma_read(remote, data, wish.number),
        };
        let posted = self.nics[host as usize].post_send(ends.source_vi, descriptor);
        if let Err(error) = posted {
            let name = wish.operation.name();
            self.violations
                .push(format!("host {host} could not post a {name}: {error}"));
        }
    }

    /// The least latency of a message of drawn traffic that would be alone for so long on its way.
    #[inline(never)]
    pub(crate) fn floor_of_remote(&self, id: MessageId, alone: Alone) -> Time {
        let host = self.host_of(self.messages.get(id).target);
        self.floor_with(id, alone, self.hardware.of(host).notice.alone())
    }

    /// The least latency of a message that would be alone for so long on its way, and of which an
    /// application hears in so long if it does.
    pub(crate) fn floor_with(&self, id: MessageId, alone: Alone, notice: Time) -> Time {
        let message = self.messages.get(id);
        let plan = self.plans.get(message.plan);
        let leg = leg_of(message.operation, message.is_answer, notice);
        let hosts = self.config.pair(self.ends_of(message).0);
        message.floor_before + floor_of(hosts, plan, alone, leg)
    }

    /// A remote write with immediate data takes its receive at a process, or is dropped.
    #[inline(never)]
    pub(crate) fn match_immediate(
        &mut self,
        target: u32,
        header: &MessageHeader,
        vi: ViId,
    ) -> Result<WorkId, DropReason> {
        let host = self.host_of(target);
        let remote = self.remote_buffer(target);
        let remote = remote.ok_or(DropReason::RemoteProtection)?;
        let nic = &mut self.nics[host as usize];
        match nic.start_remote_write(vi, header, remote) {
            RemoteVerdict::Access(started) => started.receive.ok_or(DropReason::NotSupported),
            RemoteVerdict::Drop(reason) => Err(reason),
        }
    }

    /// Where messages of one VI may overtake each other, a remote write takes its receive before it
    /// is known whether others are in front of it.
    #[inline(never)]
    pub(crate) fn match_before_order(&mut self, id: MessageId) {
        let is_withheld = self.failures.is_some() && self.may_overtake && self.withhold(id);
        let message = self.messages.get(id);
        let host = self.host_of(message.target);
        let is_matched = message.is_dropped || message.receive_work.is_some();
        if self.may_overtake
            && !is_withheld
            && !is_matched
            && let Some(header) = message.header
        {
            self.match_receive(id, host, &header);
        }
    }

    /// All of a message of drawn traffic is there of which nobody at its target hears.
    #[inline(never)]
    pub(crate) fn arrive_unheard(&mut self, id: MessageId) {
        if self.failures.is_some() && self.withholds_tail(id) {
            return;
        }
        let message = self.messages.get(id);
        let (operation, is_answer) = (message.operation, message.is_answer);
        let Some(header) = message.header.filter(|_| !message.is_dropped) else {
            if self.failures.is_some() {
                self.await_in_vain(id);
            }
            return self.remove_message(id);
        };
        if is_answer {
            self.finish_read(id);
        } else if operation == MessageOperation::Read {
            self.answer_read(id, &header);
        } else {
            self.place_write(id, &header);
        }
    }

    /// A remote write meets its region.
    fn place_write(&mut self, id: MessageId, header: &MessageHeader) {
        let outcome = match &self.failures {
            None => ReceiveOutcome::Placed,
            Some(_) => self.outcome(id),
        };
        let message = self.messages.get(id);
        let (target, vi) = (message.target, message.target_vi);
        let host = self.host_of(target);
        let remote = self.remote_buffer(target);
        let nic = &mut self.nics[host as usize];
        let verdict = remote.map(|remote| nic.start_remote_write(vi, header, remote));
        match verdict {
            Some(RemoteVerdict::Access(started)) => {
                let is_placed = nic.finish_remote_write(vi, started, outcome);
                if self.failures.is_some() {
                    self.placed(id, host, is_placed);
                }
                if !self.messages.get(id).is_dropped {
                    self.deliver_unheard(id);
                }
            }
            Some(RemoteVerdict::Drop(reason)) => self.refuse_remote(id, host, reason),
            None => self.refuse_remote(id, host, DropReason::RemoteProtection),
        }
        self.remove_message(id);
    }

    /// The request of a remote read is at its target.
    fn answer_read(&mut self, id: MessageId, header: &MessageHeader) {
        let message = self.messages.get(id);
        let (target, vi) = (message.target, message.target_vi);
        let host = self.host_of(target);
        if self.failures.is_some() {
            self.suffer_slowness(self.processor_of(host, target));
        }
        let remote = self.remote_buffer(target);
        let nic = &mut self.nics[host as usize];
        let verdict = remote.map(|remote| nic.start_remote_read(vi, header, remote));
        let reason = match verdict {
            Some(RemoteVerdict::Access(_)) => return self.turn_back(id),
            Some(RemoteVerdict::Drop(reason)) => reason,
            None => DropReason::RemoteProtection,
        };
        self.refuse_remote(id, host, reason);
        self.remove_message(id);
    }

    /// The target of a message does not let its peer write or read there, or no longer knows it.
    fn refuse_remote(&mut self, id: MessageId, host: u32, reason: DropReason) {
        if !self.messages.get(id).is_dropped {
            self.drop_message(id, drop_cause(reason));
        }
        self.carry_breaks(host);
    }

    /// The answer to a remote read begins: its bytes go from the target to whoever reads, and no
    /// processor and no descriptor of the target's is asked.
    pub(crate) fn turn_back(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let reader = self.host_of_end(message, message.source);
        let host = self.host_of_end(message, message.target);
        let request = Request::alone(message.bytes, (reader, 0));
        let is_of_program = message.is_of::<P>();
        let (hosts, link) = (self.config.pair((host, reader)), self.config.host_link());
        let none = &mut mechanism::AdapterState::Plain;
        let state = self.adapters.get_mut(host as usize).unwrap_or(none);
        let plan = *state.plan(hosts, link, &request, &mut self.last_plan);
        self.known_plan = None;
        if is_of_program {
            self.programs.counted(host, &plan.tally, request.bytes);
        }
        let plan = self.plans.add(plan.of_answer());
        let message = self.messages.get_mut(id);
        let former = core::mem::replace(&mut message.plan, plan);
        core::mem::swap(&mut message.source, &mut message.target);
        core::mem::swap(&mut message.source_vi, &mut message.target_vi);
        message.is_answer = true;
        message.floor_before = message.floor;
        message.tail_arrives = Time::MAX;
        message.receive_delay = None;
        message.idle_at_head = Time::ZERO;
        self.begin_answer(id);
        self.plans.release(former);
        self.begin_transfer(id);
    }

    /// The answer of a remote read is there.
    fn finish_read(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (work, is_whole) = (message.send_work, message.fate == Fate::Whole);
        let (host, vi) = self.poster(id);
        if self.failures.is_some() {
            let (reader, _) = self.messages.get(id).ends_as_posted();
            self.suffer_slowness(self.processor_of(host, reader));
        }
        let outcome = match is_whole {
            true => SendOutcome::Sent,
            false => SendOutcome::TransportFailed,
        };
        let nic = &mut self.nics[host as usize];
        let is_done = work.is_some_and(|work| nic.finish_send(vi, work, outcome));
        if !is_whole {
            self.drop_message(id, cause::CORRUPTED);
        } else if !is_done {
            self.drop_message(id, cause::NO_CONNECTION);
        } else {
            self.deliver_unheard(id);
        }
        self.messages.get_mut(id).is_awaited = false;
        self.hear(id);
        self.carry_breaks(host);
        self.remove_message(id);
    }

    /// A message's bytes are where they belong, and nobody takes it.
    fn deliver_unheard(&mut self, id: MessageId) {
        self.completions_taken += 1;
        let message = self.messages.get(id);
        let (source, target) = message.ends_as_posted();
        let hosts = (self.host_of(source), self.host_of(target));
        self.accounting.delivered(message, hosts);
    }
}
