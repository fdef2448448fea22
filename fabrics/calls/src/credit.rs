//! Posts on credit: those that will be taken, which nobody has to wait for.
//!
//! What a queue pair takes is known where it was made: its sizes, its state as it was last changed,
//! what was posted, and what of that has completed. Whoever carries requests out never has less
//! room than is reckoned with here: a send or receive makes room there before its completion is
//! found. Of what is not known for sure the answer is waited for, as of any call: a datagram whose
//! address may be gone; what finds no room here; a queue pair that had an error or was reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use viaduct_core::verbs::{
    Completion, CompletionOpcode, CompletionStatus, Key, QueuePairOptions, QueuePairState,
    QueuePairType, SharedReceiveAttributes, check, flags,
};

use crate::request::Send;

/// What a program knows of its queue pairs, and of receives of many.
#[derive(Debug, Default)]
pub struct Credits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By their numbers.
    pairs: BTreeMap<u32, Pair>,
    shared: BTreeMap<Key, Shared>,
    /// What a look in vain into completion queues takes.
    queues: BTreeMap<Key, u64>,
    /// Where datagrams may go: address handles.
    addresses: BTreeSet<Key>,
}

#[derive(Debug)]
struct Pair {
    options: QueuePairOptions,
    state: QueuePairState,
    /// What a post takes the processor.
    cost: u64,
    /// Of sends, less than none if some were posted that found room all the same.
    room: i64,
    /// Sends that are yet to complete, together with those before each that complete unseen; and
    /// those behind the last.
    completing: VecDeque<i64>,
    unseen: i64,
    receive_room: i64,
    /// Something went wrong, or it was reset: nothing is known of it any more.
    is_lost: bool,
}

#[derive(Debug)]
struct Shared {
    elements: u32,
    cost: u64,
    room: i64,
}

/// How long a post takes the processor, if it can be made on credit, or a look.
type Cost = Option<u64>;

impl Credits {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn made(&self, number: u32, options: &QueuePairOptions, cost: u64) {
        let sizes = &options.capabilities;
        let pair = Pair {
            options: *options,
            state: QueuePairState::Reset,
            cost,
            room: sizes.max_send_requests.into(),
            completing: VecDeque::new(),
            unseen: 0,
            receive_room: sizes.max_receive_requests.into(),
            is_lost: false,
        };
        self.lock().pairs.insert(number, pair);
    }

    pub(crate) fn destroyed(&self, number: u32) {
        self.lock().pairs.remove(&number);
    }

    pub(crate) fn made_shared(&self, key: Key, attributes: &SharedReceiveAttributes, cost: u64) {
        let shared = Shared {
            elements: attributes.max_elements,
            cost,
            room: attributes.max_requests.into(),
        };
        self.lock().shared.insert(key, shared);
    }

    pub(crate) fn destroyed_shared(&self, key: Key) {
        self.lock().shared.remove(&key);
    }

    pub(crate) fn made_queue(&self, key: Key, cost: u64) {
        self.lock().queues.insert(key, cost);
    }

    pub(crate) fn destroyed_queue(&self, key: Key) {
        self.lock().queues.remove(&key);
    }

    /// What a look in vain into a completion queue takes.
    pub(crate) fn look(&self, key: Key) -> Cost {
        self.lock().queues.get(&key).copied()
    }

    /// Whether sends of a queue pair may complete before anybody has heard of them.
    pub(crate) fn completes_soon(&self, number: u32) -> bool {
        let state = self.lock();
        let pair = state.pairs.get(&number);
        pair.is_none_or(|pair| pair.options.kind != QueuePairType::Rc)
    }

    pub(crate) fn made_address(&self, key: Key) {
        self.lock().addresses.insert(key);
    }

    pub(crate) fn destroyed_address(&self, key: Key) {
        self.lock().addresses.remove(&key);
    }

    /// A device was closed, with the address handles that were made there.
    pub(crate) fn closed(&self) {
        self.lock().addresses.clear();
    }

    /// The program has changed its state.
    pub(crate) fn modified(&self, number: u32, state: QueuePairState) {
        if let Some(pair) = self.lock().pairs.get_mut(&number) {
            // What is thrown out never completes.
            pair.is_lost |= state == QueuePairState::Reset;
            pair.state = state;
        }
    }

    /// Posts sends on credit, if they will be taken.
    pub(crate) fn sends(&self, number: u32, sends: &[Send]) -> Cost {
        let State {
            pairs, addresses, ..
        } = &mut *self.lock();
        let pair = pairs.get_mut(&number)?;
        let is_there = |send: &Send| {
            let to = send.datagram.as_ref();
            to.is_some_and(|to| addresses.contains(&to.address))
        };
        let has_ways = pair.options.kind != QueuePairType::Ud || sends.iter().all(is_there);
        if !has_ways || !pair.takes(sends) {
            return None;
        }
        pair.posted(sends);
        Some(pair.cost.saturating_mul(sends.len() as u64))
    }

    /// Sends were posted by a call.
    pub(crate) fn sent(&self, number: u32, sends: &[Send]) {
        if let Some(pair) = self.lock().pairs.get_mut(&number) {
            pair.posted(sends);
        }
    }

    /// Posts a receive on credit, if it will be taken.
    pub(crate) fn receive(&self, number: u32, elements: usize) -> Cost {
        let mut state = self.lock();
        let pair = state.pairs.get_mut(&number)?;
        let most = pair.options.capabilities.max_receive_elements as usize;
        let is_taken = !pair.is_lost
            && pair.options.shared_receive_queue.is_none()
            && check::takes_receives(pair.state)
            && elements <= most
            && pair.receive_room > 0;
        pair.receive_room -= i64::from(is_taken);
        is_taken.then_some(pair.cost)
    }

    /// A receive was posted by a call.
    pub(crate) fn received(&self, number: u32) {
        if let Some(pair) = self.lock().pairs.get_mut(&number) {
            pair.receive_room -= 1;
        }
    }

    /// As [`Credits::receive`], for many queue pairs.
    pub(crate) fn receive_shared(&self, key: Key, elements: usize) -> Cost {
        let mut state = self.lock();
        let shared = state.shared.get_mut(&key)?;
        let is_taken = elements <= shared.elements as usize && shared.room > 0;
        shared.room -= i64::from(is_taken);
        is_taken.then_some(shared.cost)
    }

    /// As [`Credits::received`], for many queue pairs.
    pub(crate) fn received_shared(&self, key: Key) {
        if let Some(shared) = self.lock().shared.get_mut(&key) {
            shared.room -= 1;
        }
    }

    /// Completions were found.
    pub(crate) fn completed(&self, completions: &[Completion]) {
        if completions.is_empty() {
            return;
        }
        let State { pairs, shared, .. } = &mut *self.lock();
        for completion in completions {
            let Some(pair) = pairs.get_mut(&completion.queue_pair) else {
                continue;
            };
            let is_receive = matches!(
                completion.opcode,
                CompletionOpcode::Receive | CompletionOpcode::ReceiveRdmaWithImmediate
            );
            match pair.options.shared_receive_queue {
                // What it was is not told for sure.
                _ if completion.status != CompletionStatus::Success => pair.is_lost = true,
                Some(key) if is_receive => {
                    if let Some(shared) = shared.get_mut(&key) {
                        shared.room += 1;
                    }
                }
                None if is_receive => pair.receive_room += 1,
                _ => pair.room += pair.completing.pop_front().unwrap_or(0),
            }
        }
    }
}

impl Pair {
    fn takes(&self, sends: &[Send]) -> bool {
        let (kind, sizes) = (self.options.kind, &self.options.capabilities);
        let limits = check::SendLimits {
            elements: sizes.max_send_elements,
            inline_bytes: sizes.max_inline_bytes,
        };
        let is_fine = |send: &Send| {
            let (elements, bytes) = (
                &send.elements,
                viaduct_core::verbs::bytes_of(&send.elements),
            );
            let (opcode, flags) = (send.opcode, send.flags);
            check::send(kind, opcode, flags, elements.len(), bytes, limits).is_ok()
        };
        !self.is_lost
            && check::takes_sends(self.state)
            && self.room >= sends.len() as i64
            && sends.iter().all(is_fine)
    }

    fn posted(&mut self, sends: &[Send]) {
        self.room -= sends.len() as i64;
        for send in sends {
            self.unseen += 1;
            if self.options.is_every_send_signaled || send.flags & flags::send::SIGNALED != 0 {
                self.completing.push_back(std::mem::take(&mut self.unseen));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use viaduct_core::verbs::{Capabilities, SendOpcode};

    use super::*;
    use crate::request::Datagram;

    const PAIR: u32 = 7;
    const COST: u64 = 30;

    fn shared() -> Key {
        Key::from_bits(5)
    }

    /// A queue pair of three sends and two receives, in a state.
    fn credits(kind: QueuePairType, state: QueuePairState, is_shared: bool) -> Credits {
        let queue = Key::from_bits(1);
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 3,
                max_receive_requests: 2,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 0,
            },
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: is_shared.then(shared),
            is_every_send_signaled: false,
            cookie: 0,
        };
        let credits = Credits::default();
        credits.made(PAIR, &options, COST);
        credits.modified(PAIR, state);
        let attributes = SharedReceiveAttributes {
            max_requests: 2,
            max_elements: 1,
            ..SharedReceiveAttributes::default()
        };
        credits.made_shared(shared(), &attributes, COST);
        credits
    }

    fn send(flags: u32) -> Send {
        Send {
            request: 0,
            opcode: SendOpcode::Send,
            flags,
            elements: Vec::new(),
            inline: Vec::new(),
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            compare_add: 0,
            swap: 0,
            datagram: None,
        }
    }

    fn completion(opcode: CompletionOpcode, status: CompletionStatus) -> Completion {
        Completion {
            opcode,
            status,
            queue_pair: PAIR,
            ..Completion::default()
        }
    }

    fn sent() -> Completion {
        completion(CompletionOpcode::Send, CompletionStatus::Success)
    }

    fn received() -> Completion {
        completion(CompletionOpcode::Receive, CompletionStatus::Success)
    }

    fn ready() -> Credits {
        credits(QueuePairType::Rc, QueuePairState::ReadyToSend, false)
    }

    #[test]
    fn sends_have_room_again_when_a_completion_tells_of_them() {
        let credits = ready();
        assert_eq!(credits.sends(PAIR, &[send(0)]), Some(COST));
        let signaled = [send(flags::send::SIGNALED), send(0)];
        assert_eq!(credits.sends(PAIR, &signaled), Some(2 * COST));
        assert_eq!(credits.sends(PAIR, &[send(0)]), None);
        // The first two, and the third is yet to be told of.
        credits.completed(&[sent()]);
        let two = [send(flags::send::SIGNALED), send(flags::send::SIGNALED)];
        assert_eq!(credits.sends(PAIR, &[two.as_slice(), &two].concat()), None);
        assert_eq!(credits.sends(PAIR, &two), Some(2 * COST));
        assert_eq!(credits.sends(PAIR, &two[..1]), None);
        credits.completed(&[sent()]);
        assert_eq!(credits.sends(PAIR, &two), Some(2 * COST));
        // One that was posted by a call has had room all the same.
        credits.sent(PAIR, &two[..1]);
        credits.completed(&[sent()]);
        assert_eq!(credits.sends(PAIR, &two[..1]), None);
        credits.completed(&[sent()]);
        assert_eq!(credits.sends(PAIR, &two[..1]), Some(COST));
    }

    #[test]
    fn receives_have_room_again_when_they_have_completed() {
        let credits = ready();
        for _ in 0..2 {
            assert_eq!(credits.receive(PAIR, 1), Some(COST));
        }
        assert_eq!(credits.receive(PAIR, 1), None);
        credits.completed(&[sent(), received()]);
        assert_eq!(credits.receive(PAIR, 2), None);
        assert_eq!(credits.receive(PAIR, 1), Some(COST));
        credits.completed(&[received()]);
        credits.received(PAIR);
        assert_eq!(credits.receive(PAIR, 1), None);
        // Those of many queue pairs are told of by one.
        let of_many = self::credits(QueuePairType::Rc, QueuePairState::ReadyToSend, true);
        assert_eq!(of_many.receive(PAIR, 1), None);
        assert_eq!(of_many.receive_shared(shared(), 2), None);
        for _ in 0..2 {
            assert_eq!(of_many.receive_shared(shared(), 1), Some(COST));
        }
        assert_eq!(of_many.receive_shared(shared(), 1), None);
        of_many.completed(&[received()]);
        assert_eq!(of_many.receive_shared(shared(), 1), Some(COST));
        of_many.destroyed_shared(shared());
        assert_eq!(of_many.receive_shared(shared(), 1), None);
    }

    #[test]
    fn datagrams_go_where_an_address_is_known() {
        let credits = credits(QueuePairType::Ud, QueuePairState::ReadyToSend, false);
        let address = Key::from_bits(9);
        let mut datagram = send(flags::send::SIGNALED);
        assert_eq!(credits.sends(PAIR, &[datagram.clone()]), None);
        datagram.datagram = Some(Datagram {
            address,
            queue_pair: 8,
            queue_key: 7,
        });
        let datagram = [datagram];
        assert_eq!(credits.sends(PAIR, &datagram), None);
        for gone in [Credits::closed, |it: &Credits| {
            it.destroyed_address(Key::from_bits(9));
        }] {
            credits.made_address(address);
            assert_eq!(credits.sends(PAIR, &datagram), Some(COST));
            let mixed = [datagram.as_slice(), &[send(0)]].concat();
            assert_eq!(credits.sends(PAIR, &mixed), None);
            gone(&credits);
            assert_eq!(credits.sends(PAIR, &datagram), None);
        }
    }

    #[test]
    fn what_may_be_refused_is_no_credit() {
        use QueuePairState::{Init, ReadyToReceive, ReadyToSend, Reset};
        for state in [Init, ReadyToReceive] {
            let credits = credits(QueuePairType::Rc, state, false);
            assert_eq!(credits.sends(PAIR, &[send(0)]), None);
            assert_eq!(credits.receive(PAIR, 1), Some(COST));
        }
        let fine = ready();
        let mut wrong = send(0);
        wrong.opcode = SendOpcode::RdmaRead;
        wrong.flags = flags::send::INLINE;
        assert_eq!(fine.sends(PAIR, &[wrong]), None);
        assert_eq!(fine.sends(PAIR, &[send(0)]), Some(COST));
        // What is thrown out by a reset never completes, nor does it tell what an error was of.
        let reset = ready();
        reset.modified(PAIR, Reset);
        reset.modified(PAIR, ReadyToSend);
        let failed = ready();
        failed.completed(&[completion(
            CompletionOpcode::Receive,
            CompletionStatus::FlushError,
        )]);
        let gone = ready();
        gone.destroyed(PAIR);
        for credits in [reset, failed, gone] {
            assert_eq!(credits.sends(PAIR, &[send(0)]), None);
            assert_eq!(credits.receive(PAIR, 1), None);
        }
    }
}
