//! The sends of a queue pair in their order: which of them have begun, which are done, and by what
//! numbers they are told apart.
//!
//! Whoever carries queue pairs moves the bytes, and keeps what it needs for that with each send
//! ([`PostedSend::own`]). It begins the next one ([`SendQueue::next`]) when the rules let it
//! ([`requester::turn`], [`requester::begin`]), says what it hears of the peer, and completes what
//! has come to the front ([`SendQueue::first_done`]).
//!
//! ```text
//!  post -> Queued -> hand_over: Sent  -> acknowledge         -> Done -> first_done, drop_first
//!            ^                  Asked -> answer              -> Done
//!            |                  Done (nobody acknowledges it)
//!            +---- rewind: what was lost, or found no receive, goes again with all behind it
//! ```

use alloc::collections::VecDeque;

use super::requester::{self, Again, EndsWhen};
use super::{CompletionStatus, QueuePairType, SendOpcode};

/// How far a send has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Not begun, or to be begun again.
    Queued,
    /// All of it is sent.
    Sent,
    /// All of it is sent, and bytes are to come back.
    Asked,
    /// Complete.
    Done(CompletionStatus),
}

impl Phase {
    /// That of a send whose bytes have been handed over.
    #[inline]
    #[must_use]
    pub fn handed_over(kind: QueuePairType, opcode: SendOpcode) -> Self {
        match requester::ends_when(kind, opcode) {
            EndsWhen::HandedOver => Self::Done(CompletionStatus::Success),
            EndsWhen::Acknowledged => Self::Sent,
            EndsWhen::Answered => Self::Asked,
        }
    }
}

/// A send that was posted.
#[derive(Debug)]
pub struct PostedSend<T> {
    /// The program's word for it.
    pub request: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Bits of [`send`](super::flags::send).
    pub flags: u32,
    /// Its bytes.
    pub length: u64,
    /// Immediate data.
    pub immediate: u32,
    /// Where in the peer's memory.
    pub remote_address: u64,
    /// The key of that.
    pub remote_key: u32,
    /// What to compare with, or to add.
    pub compare_add: u64,
    /// What to store if equal.
    pub swap: u64,
    /// How far it has come.
    pub phase: Phase,
    /// Its number on its connection, once it has begun.
    pub sequence: u32,
    /// Bytes sent, or, of those asked for, received.
    pub offset: u64,
    /// What its carrier keeps of it.
    pub own: T,
}

/// The sends of a queue pair, oldest first: some that have begun, and those that have not.
#[derive(Debug)]
pub struct SendQueue<T> {
    sends: VecDeque<PostedSend<T>>,
    /// Sends at the front that were begun.
    started: usize,
    /// Sends at the front that were begun, or were before all from one on began again.
    reached: usize,
    next_sequence: u32,
    /// The number of the send that has never begun, and is the next to.
    furthest_sequence: u32,
    /// Reads and atomics under way.
    asked: usize,
    retry_count: u32,
    not_ready_count: u32,
    /// When something was last heard of the oldest send, by the carrier's clock; 0: not yet.
    pub heard_at: u64,
}

impl<T> Default for SendQueue<T> {
    fn default() -> Self {
        Self {
            sends: VecDeque::new(),
            started: 0,
            reached: 0,
            next_sequence: 0,
            furthest_sequence: 0,
            asked: 0,
            retry_count: 0,
            not_ready_count: 0,
            heard_at: 0,
        }
    }
}

impl<T> SendQueue<T> {
    /// Sends that are not complete.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.sends.len()
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// How many have begun: their places come first.
    #[inline]
    #[must_use]
    pub const fn started(&self) -> usize {
        self.started
    }

    /// Whether one has begun that is not complete.
    #[inline]
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.started > 0
    }

    /// Whether one has not begun.
    #[inline]
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.sends.len() > self.started
    }

    /// Reads and atomics that wait for their answers.
    #[inline]
    #[must_use]
    pub const fn asked(&self) -> usize {
        self.asked
    }

    /// The number of the send that begins next.
    #[inline]
    #[must_use]
    pub const fn next_sequence(&self) -> u32 {
        self.next_sequence
    }

    /// The number behind the last that was ever sent: the peer expects none that is greater.
    #[inline]
    #[must_use]
    pub const fn furthest_sequence(&self) -> u32 {
        self.furthest_sequence
    }

    /// The oldest.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&PostedSend<T>> {
        self.sends.front()
    }

    /// The oldest that has not begun.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<&PostedSend<T>> {
        self.sends.get(self.started)
    }

    /// As [`SendQueue::next`].
    #[inline]
    pub fn next_mut(&mut self) -> Option<&mut PostedSend<T>> {
        self.sends.get_mut(self.started)
    }

    /// That at a place, the oldest at 0.
    #[inline]
    pub fn get_mut(&mut self, place: usize) -> Option<&mut PostedSend<T>> {
        self.sends.get_mut(place)
    }

    /// Those that have begun.
    pub fn begun(&self) -> impl Iterator<Item = &PostedSend<T>> {
        self.sends.iter().take(self.started)
    }

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PostedSend<T>> {
        self.sends.iter_mut()
    }

    /// A connection begins: its first send has this number.
    pub const fn connect(&mut self, sequence: u32) {
        (self.next_sequence, self.furthest_sequence) = (sequence, sequence);
        self.retry_count = 0;
        self.not_ready_count = 0;
    }

    /// Adds one that has not begun.
    #[inline]
    pub fn post(&mut self, send: PostedSend<T>) {
        self.sends.push_back(send);
    }

    /// Adds one whose bytes have been handed over, in the phase that this makes, with the next
    /// number. There is none that has not begun.
    #[inline]
    pub fn post_begun(&mut self, send: PostedSend<T>) {
        debug_assert!(!self.has_more() && send.sequence == self.next_sequence);
        self.next_sequence = send.sequence.wrapping_add(1);
        self.asked += usize::from(send.phase == Phase::Asked);
        self.started += 1;
        self.sends.push_back(send);
        self.reach();
    }

    /// All bytes of the next one have been handed over, under the next number: how far it has come.
    #[inline]
    pub fn hand_over(&mut self, kind: QueuePairType) -> Option<Phase> {
        let send = self.sends.get_mut(self.started)?;
        let phase = Phase::handed_over(kind, send.opcode);
        (send.phase, send.sequence) = (phase, self.next_sequence);
        self.started += 1;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.asked += usize::from(phase == Phase::Asked);
        self.reach();
        Some(phase)
    }

    /// One more has begun, for the first time or again.
    #[inline]
    const fn reach(&mut self) {
        if self.started > self.reached {
            self.reached = self.started;
            self.furthest_sequence = self.next_sequence;
        }
    }

    /// The next one is done as soon as it begins, and has no number: nobody will say anything of
    /// it.
    #[inline]
    pub fn end_next(&mut self, status: CompletionStatus) {
        if let Some(send) = self.sends.get_mut(self.started) {
            send.phase = Phase::Done(status);
        }
        self.started += 1;
        self.reach();
    }

    /// The oldest is done.
    pub fn end_first(&mut self, status: CompletionStatus) {
        if let Some(send) = self.sends.front_mut() {
            send.phase = Phase::Done(status);
        }
    }

    /// That at a place is done.
    pub fn end(&mut self, place: usize, status: CompletionStatus) {
        if let Some(send) = self.sends.get_mut(place) {
            send.phase = Phase::Done(status);
        }
    }

    /// The peer expects a number: it has carried out all before it. What of that was to go again
    /// does not, up to the first that waits for an answer.
    #[inline]
    pub fn acknowledge(&mut self, expected: u32) {
        let waiting = self.sends.iter_mut().take(self.started);
        // Those behind have later numbers.
        let acknowledged = waiting.take_while(|send| {
            matches!(send.phase, Phase::Done(_))
                || requester::is_acknowledged(send.sequence, expected)
        });
        for send in acknowledged.filter(|send| send.phase == Phase::Sent) {
            send.phase = Phase::Done(CompletionStatus::Success);
        }
        if self.started < self.reached {
            self.acknowledge_again(expected);
        }
    }

    #[cold]
    fn acknowledge_again(&mut self, expected: u32) {
        for send in self.sends.range_mut(self.started..self.reached) {
            let has_arrived = requester::is_acknowledged(send.sequence, expected);
            if !has_arrived || send.opcode.is_answered() || send.offset > 0 {
                return;
            }
            send.phase = Phase::Done(CompletionStatus::Success);
            self.started += 1;
            self.next_sequence = send.sequence.wrapping_add(1);
        }
    }

    /// The oldest, if a peer that expects a number has acknowledged it, and nothing else is due.
    #[inline(always)]
    #[must_use]
    pub fn first_acknowledged(&self, expected: u32) -> Option<&PostedSend<T>> {
        let send = self.sends.front().filter(|_| self.started > 0)?;
        let is_acknowledged =
            send.phase == Phase::Sent && requester::is_acknowledged(send.sequence, expected);
        is_acknowledged.then_some(send)
    }

    /// The oldest, if it is done, and how.
    #[inline]
    #[must_use]
    pub fn first_done(&self) -> Option<(&PostedSend<T>, CompletionStatus)> {
        let send = self.sends.front()?;
        match send.phase {
            Phase::Done(status) => Some((send, status)),
            Phase::Queued | Phase::Sent | Phase::Asked => None,
        }
    }

    /// Takes the oldest out, which is complete: what is counted of the oldest is counted anew.
    #[inline(never)]
    pub fn drop_first(&mut self) {
        self.sends.pop_front();
        self.started = self.started.saturating_sub(1);
        self.reached = self.reached.saturating_sub(1);
        self.heard_at = 0;
        self.retry_count = 0;
        self.not_ready_count = 0;
    }

    /// Takes the oldest out, which an error throws out, and how it completes.
    pub fn throw_out(&mut self) -> Option<(PostedSend<T>, CompletionStatus)> {
        (self.started, self.reached, self.asked) = (0, 0, 0);
        let send = self.sends.pop_front()?;
        let done = match send.phase {
            Phase::Done(status) => Some(status),
            Phase::Queued | Phase::Sent | Phase::Asked => None,
        };
        Some((send, requester::status_when_flushed(done)))
    }

    /// Forgets those that were posted behind so many.
    pub fn truncate(&mut self, length: usize) {
        self.sends.truncate(length);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.sends.clear();
        (self.started, self.reached, self.asked) = (0, 0, 0);
    }

    /// Has everything begin again that was begun and is not done, from a place on.
    pub fn rewind(&mut self, from: usize) {
        if let Some(first) = self.sends.get(from)
            && from < self.started
        {
            self.next_sequence = first.sequence;
        }
        for send in self.sends.iter_mut().skip(from) {
            send.phase = Phase::Queued;
            send.offset = 0;
        }
        self.started = self.started.min(from);
        let left = self.begun();
        self.asked = left.filter(|send| send.phase == Phase::Asked).count();
    }

    /// The one of a number that waits for its answer.
    pub fn find_asked(&mut self, sequence: u32) -> Option<&mut PostedSend<T>> {
        let mut begun = self.sends.iter_mut().take(self.started);
        begun.find(|send| send.phase == Phase::Asked && send.sequence == sequence)
    }

    /// The answer of the one of a number has come up to some byte, and may have ended it.
    pub fn answer(&mut self, sequence: u32, end: u64, is_last: bool, status: CompletionStatus) {
        let Some(send) = self.find_asked(sequence) else {
            return;
        };
        send.offset = end;
        if is_last || status != CompletionStatus::Success {
            send.phase = Phase::Done(status);
            self.asked = self.asked.saturating_sub(1);
        }
    }

    /// The peer refuses the request of a number; one that is being sent can be refused, too. What
    /// was sent before it has arrived. Whether there is such a one.
    pub fn refuse(&mut self, sequence: u32) -> bool {
        let begun = self.sends.iter().enumerate().take(self.started + 1);
        let mut begun = begun.filter(|(place, send)| *place < self.started || send.offset > 0);
        let refused = begun
            .find(|(_, send)| send.sequence == sequence && !matches!(send.phase, Phase::Done(_)));
        let Some((place, _)) = refused else {
            return false;
        };
        for send in self.sends.iter_mut().take(place) {
            if send.phase == Phase::Sent {
                send.phase = Phase::Done(CompletionStatus::Success);
            }
        }
        true
    }

    /// The place of the one of a number.
    #[must_use]
    pub fn place_of(&self, sequence: u32) -> Option<usize> {
        self.sends.iter().position(|send| send.sequence == sequence)
    }

    /// What becomes of the oldest, of which nothing was heard in time.
    pub fn after_silence(&mut self, retries: u8) -> Again {
        let again = requester::after_silence(self.retry_count, retries);
        self.retry_count += u32::from(matches!(again, Again::After(_)));
        again
    }

    /// What becomes of the oldest, for which the peer has no receive.
    pub fn after_not_ready(&mut self, retries: u8, timer: u8) -> Again {
        let again = requester::after_not_ready(self.not_ready_count, retries, timer);
        self.not_ready_count += u32::from(matches!(again, Again::After(_)));
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CompletionStatus::{FlushError, RetryExceededError, Success};
    use QueuePairType::{Rc, Uc};
    use SendOpcode::{RdmaRead, Send};

    fn queue(opcodes: &[SendOpcode], sequence: u32) -> SendQueue<()> {
        let mut queue = SendQueue::default();
        queue.connect(sequence);
        for (request, opcode) in (0..).zip(opcodes) {
            queue.post(PostedSend {
                request,
                opcode: *opcode,
                flags: 0,
                length: 8,
                immediate: 0,
                remote_address: 0,
                remote_key: 0,
                compare_add: 0,
                swap: 0,
                phase: Phase::Queued,
                sequence: 0,
                offset: 0,
                own: (),
            });
        }
        queue
    }

    /// Takes out what is complete.
    fn retire(queue: &mut SendQueue<()>) -> alloc::vec::Vec<(u64, CompletionStatus)> {
        let mut done = alloc::vec::Vec::new();
        while let Some((send, status)) = queue.first_done() {
            done.push((send.request, status));
            queue.drop_first();
        }
        done
    }

    #[test]
    fn sends_complete_in_order_though_a_later_one_is_done_first() {
        let mut queue = queue(&[Send, RdmaRead, Send], u32::MAX);
        assert_eq!(queue.hand_over(Rc), Some(Phase::Sent));
        assert_eq!(queue.hand_over(Rc), Some(Phase::Asked));
        assert_eq!(queue.hand_over(Rc), Some(Phase::Sent));
        assert_eq!((queue.asked(), queue.next_sequence()), (1, 2));
        assert_eq!(queue.hand_over(Rc), None);
        // Numbers begin again behind the last. An acknowledgement is no answer.
        queue.acknowledge(2);
        assert_eq!(retire(&mut queue), [(0, Success)]);
        queue.answer(0, 4, false, Success);
        assert_eq!(retire(&mut queue), []);
        queue.answer(0, 8, true, Success);
        assert_eq!(retire(&mut queue), [(1, Success), (2, Success)]);
        assert!(queue.is_empty() && !queue.is_waiting() && queue.asked() == 0);
    }

    #[test]
    fn what_nobody_acknowledges_is_done_at_once() {
        let mut queue = queue(&[Send, Send], 5);
        assert_eq!(queue.hand_over(Uc), Some(Phase::Done(Success)));
        queue.end_next(CompletionStatus::LocalLengthError);
        // It had no number.
        assert_eq!(queue.next_sequence(), 6);
        let failed = (1, CompletionStatus::LocalLengthError);
        assert_eq!(retire(&mut queue), [(0, Success), failed]);
    }

    #[test]
    fn what_goes_again_has_its_number_again() {
        let mut queue = queue(&[Send, RdmaRead, Send], 7);
        for _ in 0..3 {
            queue.hand_over(Rc);
        }
        queue.rewind(1);
        assert_eq!((queue.started(), queue.asked()), (1, 0));
        assert_eq!(queue.next_sequence(), 8);
        assert_eq!(queue.hand_over(Rc), Some(Phase::Asked));
        assert_eq!(queue.find_asked(8).map(|send| send.request), Some(1));
        // One that had not begun is not begun again.
        queue.rewind(2);
        assert_eq!((queue.started(), queue.next_sequence()), (2, 9));
    }

    #[test]
    fn what_has_arrived_after_all_does_not_go_again() {
        let mut queue = queue(&[Send, Send, RdmaRead, Send, Send], u32::MAX);
        for _ in 0..4 {
            queue.hand_over(Rc);
        }
        queue.rewind(0);
        // The first is on its way once more when the peer speaks of those before the last.
        queue.hand_over(Rc);
        assert_eq!(queue.furthest_sequence(), 3);
        queue.acknowledge(2);
        assert_eq!(retire(&mut queue), [(0, Success), (1, Success)]);
        // What was asked for has not come, and is asked for again, with what is behind it.
        assert_eq!((queue.started(), queue.next_sequence()), (0, 1));
        assert_eq!(queue.hand_over(Rc), Some(Phase::Asked));
        queue.acknowledge(3);
        queue.answer(1, 8, true, Success);
        assert_eq!(retire(&mut queue), [(2, Success), (3, Success)]);
        // The last has never gone: nobody has it.
        assert_eq!((queue.len(), queue.started()), (1, 0));
        assert_eq!((queue.next_sequence(), queue.furthest_sequence()), (3, 3));
    }

    #[test]
    fn a_refusal_acknowledges_what_was_sent_before() {
        let mut queue = queue(&[Send, Send, Send], 1);
        queue.hand_over(Rc);
        queue.hand_over(Rc);
        assert!(!queue.refuse(3));
        assert!(queue.refuse(2));
        assert_eq!(retire(&mut queue), [(0, Success)]);
        assert_eq!(queue.place_of(2), Some(0));
        // The next is being sent.
        queue.end_first(RetryExceededError);
        assert_eq!(retire(&mut queue), [(1, RetryExceededError)]);
        if let Some(send) = queue.next_mut() {
            (send.sequence, send.offset) = (3, 4);
        }
        assert!(queue.refuse(3));
    }

    #[test]
    fn what_is_thrown_out_says_how_it_had_ended() {
        let mut queue = queue(&[RdmaRead, Send, Send], 1);
        queue.hand_over(Rc);
        queue.hand_over(Rc);
        queue.acknowledge(3);
        let mut thrown = alloc::vec::Vec::new();
        while let Some((send, status)) = queue.throw_out() {
            thrown.push((send.request, status));
        }
        assert_eq!(thrown, [(0, FlushError), (1, Success), (2, FlushError)]);
        assert_eq!((queue.started(), queue.asked()), (0, 0));
    }

    #[test]
    fn tries_are_counted_of_the_oldest_send_alone() {
        let mut queue = queue(&[Send, Send], 1);
        queue.hand_over(Rc);
        queue.hand_over(Rc);
        assert_eq!(queue.after_silence(1), Again::After(0));
        let given_up = Again::Fails(RetryExceededError);
        assert_eq!(queue.after_silence(1), given_up);
        let not_ready = CompletionStatus::ReceiverNotReadyRetryExceededError;
        assert_eq!(queue.after_not_ready(1, 1), Again::After(10_000));
        assert_eq!(queue.after_not_ready(1, 1), Again::Fails(not_ready));
        queue.acknowledge(2);
        assert_eq!(retire(&mut queue), [(0, Success)]);
        assert_eq!(queue.after_silence(1), Again::After(0));
        assert_eq!(queue.after_not_ready(1, 1), Again::After(10_000));
    }
}
