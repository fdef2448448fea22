//! The sending side: begins sends, hears how each ended, completes them in order.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Adapter, Answer, Datagram, Memory, Packet, Pair, Payload};
use crate::verbs::flags::{access, send};
use crate::verbs::regions;
use crate::verbs::requester::{self, Again, Begin, FlushedReceives, Request, Turn};
use crate::verbs::{
    AddressAttributes, AsyncEventType, Completion, CompletionOpcode, CompletionStatus, Phase,
    QueuePairState, QueuePairType, check,
};

impl Adapter {
    /// Sends of a queue pair that have not begun.
    #[must_use]
    pub fn unstarted(&self, place: u32) -> u32 {
        let pair = self.pairs.at(place).and_then(Option::as_deref);
        pair.map_or(0, |pair| (pair.sends.len() - pair.sends.started()) as u32)
    }

    /// Begins the next send of a queue pair, if it may: what goes, and its bytes. A send that may
    /// not begin and will never is complete.
    pub fn begin(
        &mut self,
        place: u32,
        memory: &impl Memory,
        into: &mut Vec<u8>,
    ) -> Option<Packet> {
        let mut pair = self.take_pair(place)?;
        let packet = loop {
            let before = pair.sends.len();
            let begun = self.begin_next(&mut pair, memory, into);
            // What failed at its own side was flushed, with all behind it.
            if begun.is_some() || pair.sends.len() == before {
                break begun;
            }
        };
        if let Some(slot) = self.pairs.get_mut(pair.key) {
            *slot = Some(pair);
        }
        packet
    }

    fn begin_next(
        &mut self,
        pair: &mut Pair,
        memory: &impl Memory,
        into: &mut Vec<u8>,
    ) -> Option<Packet> {
        match requester::turn(pair.state, false) {
            Turn::Begins => {}
            Turn::Waits => return None,
            Turn::IsFlushed => {
                self.flush(pair);
                return None;
            }
        }
        if pair.wait_until > self.now {
            return None;
        }
        pair.wait_until = 0;
        let kind = pair.options.kind;
        let send = pair.sends.next()?;
        let opcode = send.opcode;
        let bytes_max = match kind {
            QueuePairType::Ud => u64::from(self.attributes.mtu.bytes()),
            QueuePairType::Rc | QueuePairType::Uc => self.attributes.max_message_bytes,
        };
        let request = Request {
            kind,
            opcode,
            flags: send.flags,
            length: send.length,
        };
        let max_read_atomic = pair.attributes.max_read_atomic;
        let answers = if opcode.is_answered() {
            pair.asking
        } else {
            pair.sends.asked()
        };
        match requester::begin(&request, answers, max_read_atomic, bytes_max) {
            Begin::Now => {}
            Begin::Later => return None,
            Begin::Fails(status) => return self.refuse(pair, status),
        }
        into.clear();
        let mut elements = 1;
        match &send.own.payload {
            Payload::Inline(bytes) => into.extend_from_slice(bytes),
            Payload::Elements(all) => {
                let is_answered = opcode.is_answered();
                let needed = if is_answered { access::LOCAL_WRITE } else { 0 };
                let (all, domain) = (all.as_slice(), pair.domain.index());
                elements = all.len() as u32;
                let are_open =
                    regions::find_all(&self.regions, all, domain, needed, |address, length| {
                        if !is_answered {
                            memory.read(address, length, into);
                        }
                    });
                if !are_open {
                    return self.refuse(pair, CompletionStatus::LocalProtectionError);
                }
            }
        }
        let (mut target, mut datagram) = (pair.attributes.destination, None);
        if let Some((address, number, key)) = send.own.destination.as_deref() {
            target = *number;
            datagram = Some(Box::new(Datagram {
                queue_key: check::queue_key_sent(pair.attributes.queue_key, *key),
                address: *address,
                route: self.routing_header(address),
            }));
        }
        let packet = Packet {
            source: pair.number,
            target,
            sequence: pair.sends.next_sequence(),
            opcode,
            is_solicited: send.flags & send::SOLICITED != 0,
            immediate: send.immediate,
            length: send.length,
            remote_address: send.remote_address,
            remote_key: send.remote_key,
            compare_add: send.compare_add,
            swap: send.swap,
            datagram,
            elements,
            is_inline: matches!(send.own.payload, Payload::Inline(_)),
        };
        pair.asking += usize::from(opcode.is_answered());
        pair.sends.hand_over(kind);
        Some(packet)
    }

    /// Ends the send that is to be begun with an error of this side, when those before it are done.
    fn refuse(&mut self, pair: &mut Pair, status: CompletionStatus) -> Option<Packet> {
        if !pair.sends.is_waiting() {
            self.fail_first(pair, status);
        }
        None
    }

    /// The header that stands before a datagram in its receive: that of IPv6.
    fn routing_header(&self, address: &AddressAttributes) -> [u8; 40] {
        let mut header = [0; 40];
        let route = &address.route;
        let first = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[6] = 0x1b;
        header[7] = route.hop_limit;
        header[8..24].copy_from_slice(&self.attributes.gid);
        header[24..].copy_from_slice(&route.destination_gid);
        header
    }

    /// The last byte of a send has left, of the number that its packet has.
    pub fn left(&mut self, place: u32, sequence: u32) {
        let Some(mut pair) = self.take_pair(place) else {
            return;
        };
        let now = self.now;
        if let Some(at) = pair.sends.place_of(sequence)
            && at < pair.sends.started()
            && let Some(send) = pair.sends.get_mut(at)
        {
            send.own.has_left = true;
            if at == 0 {
                pair.sends.heard_at = now;
            }
        }
        self.retire(&mut pair);
        self.put_pair(pair);
    }

    /// What the target of a send said, of the number that its packet has, with the bytes that were
    /// asked for.
    pub fn hear(
        &mut self,
        place: u32,
        sequence: u32,
        answer: Answer,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) {
        let Some(mut pair) = self.take_pair(place) else {
            return;
        };
        if pair.options.kind == QueuePairType::Rc && check::hears(pair.state) {
            match answer {
                Answer::Acknowledged { expected } => {
                    if requester::may_expect(expected, pair.sends.next_sequence()) {
                        pair.sends.acknowledge(expected);
                    }
                }
                Answer::Bytes => self.take_bytes(&mut pair, sequence, bytes, memory),
                Answer::Refused { status } => self.hear_refusal(&mut pair, sequence, status),
                Answer::NotReady { timer } => self.hear_not_ready(&mut pair, sequence, timer),
            }
            self.retire(&mut pair);
        }
        self.put_pair(pair);
    }

    /// Bytes that were asked for.
    fn take_bytes(&self, pair: &mut Pair, sequence: u32, bytes: &[u8], memory: &mut impl Memory) {
        let Some(send) = pair.sends.find_asked(sequence) else {
            return;
        };
        let end = bytes.len() as u64;
        let mut status = requester::answered(send.length, end, true);
        if status == CompletionStatus::Success
            && let Payload::Elements(elements) = &send.own.payload
        {
            let (elements, domain) = (elements.as_slice(), pair.domain.index());
            if !place(self, elements, domain, 0, bytes, memory) {
                status = CompletionStatus::LocalProtectionError;
            }
        }
        pair.sends.answer(sequence, end, true, status);
        // An answer acknowledges what was sent before it was asked for.
        pair.sends.acknowledge(sequence);
    }

    fn hear_refusal(&mut self, pair: &mut Pair, sequence: u32, status: CompletionStatus) {
        if !pair.sends.refuse(sequence) {
            return;
        }
        self.retire(pair);
        let status = requester::status_when_refused(status.number());
        match pair.sends.place_of(sequence) {
            Some(0) => self.fail_first(pair, status),
            // A read before it is still under way; those behind are done with all the same.
            Some(place) => pair.sends.end(place, status),
            None => {}
        }
    }

    fn hear_not_ready(&mut self, pair: &mut Pair, sequence: u32, timer: u8) {
        if !pair.sends.refuse(sequence) {
            return;
        }
        self.retire(pair);
        if pair.sends.place_of(sequence) != Some(0) {
            return;
        }
        let retry = pair.attributes.receiver_not_ready_retry;
        match pair.sends.after_not_ready(retry, timer) {
            Again::Fails(status) => self.fail_first(pair, status),
            Again::After(nanoseconds) => {
                pair.wait_until = self.now + nanoseconds;
                rewind(pair);
            }
        }
    }

    /// When a queue pair must be looked at again though nothing comes: a pause ends, or a timeout.
    #[must_use]
    pub fn due(&self, place: u32) -> Option<u64> {
        let pair = self.pairs.at(place)?.as_deref()?;
        if pair.wait_until > 0 && pair.sends.has_more() {
            return Some(pair.wait_until);
        }
        if pair.sends.heard_at == 0 || !waits_for_peer(pair) {
            return None;
        }
        let patience = check::timeout_nanoseconds(pair.attributes.timeout)?;
        Some(pair.sends.heard_at + patience)
    }

    /// That time has come, or is over: what was lost goes again, or fails. Whether something goes
    /// again.
    pub fn expire(&mut self, place: u32) -> bool {
        let Some(due) = self.due(place).filter(|due| *due <= self.now) else {
            return false;
        };
        let Some(mut pair) = self.take_pair(place) else {
            return false;
        };
        let mut goes_again = false;
        if pair.wait_until != due {
            let retries = pair.attributes.retry_count;
            match pair.sends.after_silence(retries) {
                Again::Fails(status) => self.fail_first(&mut pair, status),
                Again::After(_) => {
                    rewind(&mut pair);
                    goes_again = true;
                }
            }
        }
        self.put_pair(pair);
        goes_again
    }

    /// Completes what is done, in order.
    pub(super) fn retire(&mut self, pair: &mut Pair) {
        while let Some((send, status)) = pair.sends.first_done() {
            let kind = pair.options.kind;
            let is_success = status == CompletionStatus::Success;
            // Nobody acknowledges it: it is done when it is gone.
            if is_success && kind != QueuePairType::Rc && !send.own.has_left {
                break;
            }
            let (request, opcode, flags) = (send.request, send.opcode, send.flags);
            let length = send.length;
            self.complete_send(pair, (request, opcode, flags, length), status);
            pair.sends.drop_first();
            pair.asking -= usize::from(opcode.is_answered()).min(pair.asking);
            if pair.sends.first().is_some_and(|send| send.own.has_left) {
                pair.sends.heard_at = self.now;
            }
            if !is_success {
                match check::state_after_send_error(kind) {
                    QueuePairState::Error => self.fail(pair),
                    state => {
                        pair.state = state;
                        self.flush(pair);
                    }
                }
                return;
            }
        }
        if pair.drain_wanted
            && !pair.sends.is_waiting()
            && pair.state == QueuePairState::SendDrained
        {
            pair.drain_wanted = false;
            if pair.attributes.send_drained_notify {
                self.tell_pair(pair, AsyncEventType::SendQueueDrained);
            }
        }
    }

    fn complete_send(
        &mut self,
        pair: &Pair,
        (request, opcode, flags, length): (u64, crate::verbs::SendOpcode, u32, u64),
        status: CompletionStatus,
    ) {
        if !check::is_told(status, flags, pair.options.is_every_send_signaled) {
            return;
        }
        let completion = Completion {
            request,
            status,
            opcode: requester::completed(opcode),
            byte_length: length as u32,
            queue_pair: pair.number,
            ..Completion::default()
        };
        self.complete(pair.options.send_queue, completion, false);
    }

    /// The oldest send fails.
    fn fail_first(&mut self, pair: &mut Pair, status: CompletionStatus) {
        pair.sends.end_first(status);
        self.retire(pair);
    }

    /// Goes to the error state: everything is flushed.
    pub(super) fn fail(&mut self, pair: &mut Pair) {
        pair.state = QueuePairState::Error;
        self.flush(pair);
        if let Some(event) = requester::event_in_error(pair.options.shared_receive_queue.is_some())
        {
            self.tell_pair(pair, event);
        }
    }

    /// Throws out, in order, what an error state does not carry out.
    pub(super) fn flush(&mut self, pair: &mut Pair) {
        while let Some((send, status)) = pair.sends.throw_out() {
            let (request, opcode, flags) = (send.request, send.opcode, send.flags);
            self.complete_send(pair, (request, opcode, flags, send.length), status);
        }
        pair.asking = 0;
        let has_shared_queue = pair.options.shared_receive_queue.is_some();
        let receives = match requester::flushed_receives(pair.state, has_shared_queue) {
            FlushedReceives::All => core::mem::take(&mut pair.receives),
            // A message takes its receive when all of it is there.
            FlushedReceives::Taken | FlushedReceives::None => VecDeque::new(),
        };
        for receive in receives {
            let status = requester::status_when_flushed(None);
            self.complete_receive_error(pair, receive.request, status);
        }
    }

    pub(super) fn complete_receive_error(
        &mut self,
        pair: &Pair,
        request: u64,
        status: CompletionStatus,
    ) {
        let completion = Completion {
            request,
            status,
            opcode: CompletionOpcode::Receive,
            queue_pair: pair.number,
            ..Completion::default()
        };
        self.complete(pair.options.receive_queue, completion, false);
    }
}

/// Begins everything again that was begun and is not done.
fn rewind(pair: &mut Pair) {
    pair.sends.rewind(0);
    pair.sends.heard_at = 0;
    pair.asking = 0;
    for send in pair.sends.iter_mut() {
        send.own.has_left = false;
    }
}

/// Whether the oldest send has left, and its peer is to say something of it.
fn waits_for_peer(pair: &Pair) -> bool {
    let is_reliable = pair.options.kind == QueuePairType::Rc;
    let first = pair.sends.first().filter(|_| pair.sends.is_waiting());
    is_reliable
        && first.is_some_and(|send| {
            send.own.has_left && !matches!(send.phase, Phase::Done(_) | Phase::Queued)
        })
}

/// Places bytes into elements, `from` bytes behind their start; false if a key does not let them
/// through.
pub(super) fn place(
    adapter: &Adapter,
    elements: &[crate::verbs::ScatterGatherElement],
    domain: u32,
    from: usize,
    bytes: &[u8],
    memory: &mut impl Memory,
) -> bool {
    let needed = access::LOCAL_WRITE;
    // A request that names one closed region writes nothing at all, so all are looked at first.
    if !regions::find_all(&adapter.regions, elements, domain, needed, |_, _| {}) {
        return false;
    }
    let (mut skipped, mut rest) = (from, bytes);
    regions::find_all(
        &adapter.regions,
        elements,
        domain,
        needed,
        |address, length| {
            let skip = skipped.min(length);
            skipped -= skip;
            let (part, behind) = rest.split_at(rest.len().min(length - skip));
            if !part.is_empty() {
                memory.write(address + skip as u64, part);
            }
            rest = behind;
        },
    )
}
