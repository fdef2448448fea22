//! The short way of short messages, which most messages are. One that may begin at once goes from
//! the program's memory into the ring in one step, and from the peer's ring into its receive.
//!
//! A message that has to wait, or that breaks a rule, takes the general way
//! ([`Engine::transmit`], [`Engine::hear`]). Both ways ask the same rules, so the general way finds
//! the same reason, and acts on it.

use std::sync::atomic::Ordering;

use viaduct_core::verbs::flags::{access, send};
use viaduct_core::verbs::notices::{Looker, Notices};
use viaduct_core::verbs::{
    Completion, CompletionStatus, Key, Phase, QueuePairType, SendOpcode, bytes_of, responder,
};

use crate::carrier::Rings;
use crate::counters::live;
use crate::engine::Engine;
use crate::faults::Struck;
use crate::limits::QUEUE_PAIR_BITS;
use crate::memory;
use crate::packet::{FIRST, IMMEDIATE, LAST, MESSAGE, SOLICITED, acknowledged, acknowledging};
use crate::pair::SendRequest;
use crate::requester::table_at;
use crate::ring::{Consumer, Header};
use crate::state::{OnRing, Pair, Payload, Send, begins_at_once, source_of};

/// Messages up to here go this way. Longer ones are copied for longer than they are looked at.
const BYTES_MAX: u64 = 1024;

impl Engine {
    /// Posts a short message of a connection and sends it, if nothing is in the way. If something
    /// is, nothing has been done.
    ///
    /// # Safety
    ///
    /// With the flag `INLINE` the elements' bytes can be read.
    #[inline(always)]
    pub(crate) unsafe fn post_short(&mut self, key: Key, request: &SendRequest<'_>) -> bool {
        let pair = self.objects.pairs.get_mut(key);
        let Some(pair) = pair.and_then(Option::as_deref_mut) else {
            return false;
        };
        let (opcode, flags) = (request.opcode, request.flags);
        let has_immediate = opcode == SendOpcode::SendWithImmediate;
        let length = bytes_of(request.elements);
        if !has_immediate && opcode != SendOpcode::Send
            || length > BYTES_MAX
            || self.faults.is_some()
            || !begins_at_once(pair, request, length)
        {
            return false;
        }
        let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut()) else {
            return false;
        };
        if !link.outgoing.has_room(length as usize) {
            return false;
        }
        let is_inline = flags & send::INLINE != 0;
        let mut to = 0;
        for element in request.elements {
            let (regions, domain) = (&self.objects.regions, pair.domain.index());
            let start = source_of(regions, domain, element, is_inline);
            // What has been written nobody sees.
            let Some(start) = start else { return false };
            let count = element.length as usize;
            // SAFETY: inline bytes, or registered memory; there is room for all of them.
            unsafe { link.outgoing.write(to, start as *const u8, count) };
            to += count;
        }
        let mut header = Header {
            kind: MESSAGE,
            flags: FIRST | LAST,
            code: acknowledging(pair.expected),
            target: pair.attributes.destination,
            source: pair.number,
            sequence: pair.sends.next_sequence(),
            immediate: request.immediate,
            length: length as u32,
            total: length as u32,
        };
        if has_immediate {
            header.flags |= IMMEDIATE;
        }
        if flags & send::SOLICITED != 0 {
            header.flags |= SOLICITED;
        }
        link.outgoing.publish(&header);
        // The peer has it: what follows delays nobody.
        // SAFETY: as promised by the caller.
        unsafe { self.keep_short(key, request, length) };
        true
    }

    /// Keeps a send that has gone the short way, until it is acknowledged, and wakes who sleeps.
    ///
    /// # Safety
    ///
    /// As for [`Engine::post_short`].
    #[inline(never)]
    unsafe fn keep_short(&mut self, key: Key, request: &SendRequest<'_>, length: u64) {
        let Some(Some(pair)) = self.objects.pairs.get_mut(key) else {
            return;
        };
        let Some(link) = pair.own.link.and_then(|link| self.links[link].as_mut()) else {
            return;
        };
        let (opcode, flags) = (request.opcode, request.flags);
        let is_inline = flags & send::INLINE != 0;
        let phase = Phase::handed_over(pair.options.kind, opcode);
        let sequence = pair.sends.next_sequence();
        pair.sends.post_begun(Send {
            request: request.request,
            opcode,
            flags,
            length,
            immediate: request.immediate,
            remote_address: 0,
            remote_key: 0,
            compare_add: 0,
            swap: 0,
            phase,
            sequence,
            offset: length,
            own: OnRing {
                // SAFETY: as promised by the caller.
                payload: unsafe { Payload::new(request.elements, is_inline) },
                destination: None,
                end: link.outgoing.tail(),
                is_placed: false,
                struck: Struck::default(),
            },
        });
        live().packets.add(1);
        let mut wakes_self = false;
        if link.outgoing.takes_attention() {
            link.kick();
            live().kicks.add(1);
            wakes_self = link.socket.is_none();
        }
        let is_under_way = !matches!(phase, Phase::Done(_));
        if is_under_way {
            self.advance_at = self.advance_at.min(pair.own.table_at);
            if !pair.own.is_active {
                pair.own.is_active = true;
                self.objects.notices.carrier.active.push(key.index());
            }
        }
        if wakes_self {
            self.poke();
        }
        if is_under_way {
            self.wants_ticks();
        } else if let Some(mut pair) = self.objects.take_pair(key.index()) {
            self.objects.retire(&mut pair);
            self.objects.put_pair(pair);
        }
    }

    /// Takes a message of one packet into a receive of one element. If that is not what there is,
    /// nothing has been done but to hear what it acknowledges.
    #[inline(always)]
    pub(crate) fn take_short(
        &mut self,
        block: u32,
        header: &Header,
        consumer: &Consumer,
        looker: &mut impl Looker,
    ) -> bool {
        let has_immediate = header.flags & IMMEDIATE != 0;
        if header.kind != MESSAGE
            || header.flags & !(IMMEDIATE | SOLICITED) != FIRST | LAST
            || header.source >> QUEUE_PAIR_BITS != block
            || self.faults.is_some()
            || !responder::takes_receive(false, has_immediate)
        {
            return false;
        }
        let index = header.target & ((1 << QUEUE_PAIR_BITS) - 1);
        let Some(Some(pair)) = self.objects.pairs.at_mut(index) else {
            return false;
        };
        let pair = &mut **pair;
        let kind = pair.options.kind;
        if pair.own.short.hears != header.ends()
            || !responder::takes_request(kind, true, header.sequence, pair.expected)
        {
            return false;
        }
        if kind == QueuePairType::Rc && pair.sends.is_waiting() {
            hear_answer(looker, &mut self.objects.notices, pair, header.code);
            pair.own.table_at = table_at(pair, self.looks);
            if pair.sends.is_waiting() {
                self.advance_at = 0;
            }
        }
        let Some(receive) = pair.receives.front() else {
            return false;
        };
        let [element] = receive.elements.as_slice() else {
            return false;
        };
        let bytes = u64::from(element.length);
        if responder::receive_bytes(kind, u64::from(header.length)) > bytes || header.length == 0 {
            return false;
        }
        let domain = pair.domain.index();
        let (key, address) = (element.local_key, element.address);
        let needed = access::LOCAL_WRITE;
        let found = memory::find(&self.objects.regions, key, domain, needed, address, bytes);
        let Some(start) = found else { return false };
        // SAFETY: registered memory of this program, open to local writes, and long enough.
        unsafe { consumer.read(0, start as *mut u8, header.length as usize) };
        let immediate = has_immediate.then_some(header.immediate);
        let ends = (pair.number, header.source);
        let done = Completion::received(receive.request, false, header.length, immediate, ends);
        pair.receives.pop_front();
        pair.expected = header.sequence.wrapping_add(1);
        let entry = self.objects.notices.carrier.tables.pairs.at(index);
        entry.expected.store(pair.expected, Ordering::Release);
        let live = live();
        live.receives.add(1);
        live.receive_bytes.add(u64::from(header.length));
        let queue = pair.options.receive_queue;
        let is_solicited = header.flags & SOLICITED != 0;
        let notices = &mut self.objects.notices;
        notices.complete_for(looker, queue, done, is_solicited);
        true
    }
}

/// The oldest sends are done that a message acknowledges; `Objects::retire` does the rest.
#[inline(always)]
fn hear_answer(looker: &mut impl Looker, notices: &mut Notices<Rings>, pair: &mut Pair, code: u16) {
    let expected = acknowledged(code, pair.sends.next_sequence());
    while let Some(send) = pair.sends.first_acknowledged(expected) {
        notices.complete_send_for(looker, pair, send, CompletionStatus::Success);
        pair.sends.drop_first();
    }
}
