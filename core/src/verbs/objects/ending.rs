//! How requests end: completions in their order, what is tried again, and what errors do.

use alloc::collections::VecDeque;
use core::mem;

use super::{Objects, Owner};
use crate::verbs::carrier::Carrier;
use crate::verbs::notices::{Looker, Notices};
use crate::verbs::requester::{self, Again, Begin, FlushedReceives, Request};
use crate::verbs::responder::{self, Incident};
use crate::verbs::{
    AsyncElement, AsyncEventType, Completion, CompletionOpcode, CompletionStatus, Pair, PostedSend,
    QueuePairState, QueuePairType, Receive, check,
};

impl<C: Carrier> Notices<C> {
    /// A send is done: its completion goes into its queue, if it is told.
    #[inline]
    pub fn complete_send(
        &mut self,
        pair: &Pair<C>,
        send: &PostedSend<C::Send>,
        status: CompletionStatus,
    ) {
        self.complete_send_for(&mut (), pair, send, status);
    }

    /// The same, or it is handed to who looks for it.
    #[inline(always)]
    pub fn complete_send_for(
        &mut self,
        looker: &mut impl Looker,
        pair: &Pair<C>,
        send: &PostedSend<C::Send>,
        status: CompletionStatus,
    ) {
        if status == CompletionStatus::Success {
            self.carrier.succeeds(send.opcode, send.length);
        }
        if !check::is_told(status, send.flags, pair.options.is_every_send_signaled) {
            return;
        }
        let completion = Completion {
            request: send.request,
            status,
            opcode: requester::completed(send.opcode),
            byte_length: send.length as u32,
            queue_pair: pair.number,
            ..Completion::default()
        };
        self.complete_for(looker, pair.options.send_queue, completion, false);
    }

    /// Tells something of a queue pair.
    pub fn tell_pair(&mut self, pair: &Pair<C>, kind: AsyncEventType) {
        let element = AsyncElement::QueuePair(pair.options.cookie);
        self.tell(pair.context, kind, element, Some(Owner::Pair(pair.key)));
    }

    fn complete_receive_error(&mut self, pair: &Pair<C>, request: u64, status: CompletionStatus) {
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

impl<C: Carrier> Objects<C> {
    /// Whether the next send may begin, while `answers` reads and atomics before it wait for
    /// theirs. One that fails does so when those before it are done.
    pub fn may_begin(&mut self, pair: &mut Pair<C>, answers: usize) -> bool {
        if pair.wait_until != 0 {
            if self.notices.carrier.now() < pair.wait_until {
                return false;
            }
            pair.wait_until = 0;
        }
        let Some(send) = pair.sends.next() else {
            return false;
        };
        let kind = pair.options.kind;
        let bytes_max = match kind {
            QueuePairType::Ud => u64::from(self.limits.mtu.bytes()),
            QueuePairType::Rc | QueuePairType::Uc => self.limits.max_message_bytes,
        };
        let request = Request {
            kind,
            opcode: send.opcode,
            flags: send.flags,
            length: send.length,
        };
        let max_read_atomic = pair.attributes.max_read_atomic;
        match requester::begin(&request, answers, max_read_atomic, bytes_max) {
            Begin::Now => return true,
            Begin::Later => {}
            Begin::Fails(status) => self.refuse(pair, status),
        }
        false
    }

    /// Ends the send that is to be begun with an error of this side, when those before it are done.
    pub fn refuse(&mut self, pair: &mut Pair<C>, status: CompletionStatus) {
        if !pair.sends.is_waiting() {
            self.fail_first(pair, status);
        }
    }

    /// Completes what is done, in order.
    pub fn retire(&mut self, pair: &mut Pair<C>) {
        while let Some((send, status)) = pair.sends.first_done() {
            let (kind, opcode) = (pair.options.kind, send.opcode);
            let is_success = status == CompletionStatus::Success;
            // Nobody acknowledges it: it is done when it is gone.
            if is_success && kind != QueuePairType::Rc && !C::has_left(&send.own) {
                break;
            }
            self.notices.complete_send(pair, send, status);
            pair.sends.drop_first();
            self.notices.carrier.retires(pair, opcode);
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
        let is_under_way = pair.sends.next().is_some_and(|send| send.offset > 0);
        if pair.drain_wanted
            && !pair.sends.is_waiting()
            && !is_under_way
            && pair.state == QueuePairState::SendDrained
        {
            pair.drain_wanted = false;
            if pair.attributes.send_drained_notify {
                self.notices
                    .tell_pair(pair, AsyncEventType::SendQueueDrained);
            }
        }
    }

    /// The oldest send fails.
    pub fn fail_first(&mut self, pair: &mut Pair<C>, status: CompletionStatus) {
        pair.sends.end_first(status);
        self.retire(pair);
    }

    /// Goes to the error state: everything is flushed.
    pub fn fail(&mut self, pair: &mut Pair<C>) {
        pair.state = QueuePairState::Error;
        self.notices.carrier.shows_pair(pair);
        self.flush(pair);
        if let Some(event) = requester::event_in_error(pair.has_shared_queue()) {
            self.notices.tell_pair(pair, event);
        }
    }

    /// Throws out, in order, what an error state does not carry out.
    pub fn flush(&mut self, pair: &mut Pair<C>) {
        while let Some((send, status)) = pair.sends.throw_out() {
            self.notices.complete_send(pair, &send, status);
        }
        C::rewinds(pair);
        let flushed = requester::flushed_receives(pair.state, pair.has_shared_queue());
        if flushed == FlushedReceives::None {
            return;
        }
        let taken = C::takes_back(&mut pair.own);
        let posted = match flushed {
            FlushedReceives::All => mem::take(&mut pair.receives),
            FlushedReceives::Taken | FlushedReceives::None => VecDeque::new(),
        };
        for receive in taken.into_iter().chain(posted) {
            let status = requester::status_when_flushed(None);
            self.notices
                .complete_receive_error(pair, receive.request, status);
        }
    }

    /// Has everything begin again, from a place on, that was begun and is not done.
    pub fn rewind(&mut self, pair: &mut Pair<C>, from: usize) {
        pair.sends.rewind(from);
        C::rewinds(pair);
    }

    /// Nothing was heard of the oldest send in time. Whether it is sent again, with all behind it.
    pub fn hear_nothing(&mut self, pair: &mut Pair<C>) -> bool {
        let retries = pair.attributes.retry_count;
        match pair.sends.after_silence(retries) {
            Again::Fails(status) => {
                self.fail_first(pair, status);
                false
            }
            Again::After(_) => {
                self.rewind(pair, 0);
                true
            }
        }
    }

    /// The peer misses the send of a number, and has carried out all before it. Whether that is
    /// sent again, with all behind it: as what nobody hears of, if often enough, it fails.
    pub fn hear_missing(&mut self, pair: &mut Pair<C>, expected: u32) -> bool {
        if !requester::may_expect(expected, pair.sends.furthest_sequence()) {
            return false;
        }
        pair.sends.acknowledge(expected);
        self.retire(pair);
        let place = pair.sends.place_of(expected);
        let Some(place) = place.filter(|place| *place < pair.sends.started()) else {
            return false;
        };
        match pair.sends.after_silence(pair.attributes.retry_count) {
            // A read before it is still under way; the timeout is another try.
            Again::Fails(_) if place > 0 => false,
            Again::Fails(status) => {
                self.fail_first(pair, status);
                false
            }
            Again::After(_) => {
                self.rewind(pair, place);
                true
            }
        }
    }

    /// The peer refuses a request, by the number that it says.
    pub fn hear_refusal(&mut self, pair: &mut Pair<C>, sequence: u32, status: u32) {
        if !pair.sends.refuse(sequence) {
            return;
        }
        self.retire(pair);
        let status = requester::status_when_refused(status);
        match pair.sends.place_of(sequence) {
            Some(0) => self.fail_first(pair, status),
            // A read before it is still under way; those behind are done with all the same.
            Some(place) => pair.sends.end(place, status),
            None => {}
        }
    }

    /// The peer has no receive for a request, and says how long to wait. Whether it is sent again.
    pub fn hear_not_ready(&mut self, pair: &mut Pair<C>, sequence: u32, timer: u8) -> bool {
        if !pair.sends.refuse(sequence) {
            return false;
        }
        self.retire(pair);
        if pair.sends.place_of(sequence) != Some(0) {
            return false;
        }
        let retry = pair.attributes.receiver_not_ready_retry;
        match pair.sends.after_not_ready(retry, timer) {
            Again::Fails(status) => {
                self.fail_first(pair, status);
                false
            }
            Again::After(nanoseconds) => {
                pair.wait_until = self.notices.carrier.now() + nanoseconds;
                self.rewind(pair, 0);
                true
            }
        }
    }

    /// A request of the peer has come.
    pub fn establish(&mut self, pair: &mut Pair<C>) {
        if let Some(event) = responder::event_at_first_request(pair.state, pair.is_established) {
            pair.is_established = true;
            self.notices.tell_pair(pair, event);
        }
    }

    /// A request of the peer is not carried out, for which a receive was taken, perhaps. What the
    /// peer is told, if it is.
    pub fn fail_request(
        &mut self,
        pair: &mut Pair<C>,
        incident: Incident,
        receive: Option<Receive>,
    ) -> Option<CompletionStatus> {
        let failure = responder::failure(pair.options.kind, incident);
        match (receive, failure.receive) {
            (Some(receive), Some(status)) => {
                self.notices
                    .complete_receive_error(pair, receive.request, status);
            }
            (Some(receive), None) => self.give_back(pair, receive),
            (None, _) => {}
        }
        if let Some(event) = failure.event {
            self.notices.tell_pair(pair, event);
        }
        if failure.fails {
            self.fail(pair);
        }
        failure.sender
    }
}
