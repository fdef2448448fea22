//! Calls about queue pairs.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use super::{Adapter, Memory, OwnOfSend, Owner, Pair, Payload};
use crate::verbs::check::{self, PostError, SendLimits};
use crate::verbs::error::{Error, Result, full, gone, invalid, unsupported};
use crate::verbs::flags::{attribute, send};
use crate::verbs::regions::ACCESS_KNOWN;
use crate::verbs::transition::{self, ModifyError};
use crate::verbs::{
    Elements, Key, Phase, PostedSend, QueuePairAttributes, QueuePairOptions, QueuePairState,
    QueuePairType, RangeError, Receive, ReceiveRequest, SendQueue, SendRequest, bytes_of,
};

impl Adapter {
    /// Makes a queue pair, in the state RESET: its key and its number.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the adapter's or objects of another context; ENOMEM when there are too
    /// many.
    pub fn create_pair(&mut self, domain: Key, options: &QueuePairOptions) -> Result<(Key, u32)> {
        let context = self.context_of_domain(domain)?;
        let mut options = *options;
        let sizes = &mut options.capabilities;
        let own = &self.attributes;
        if sizes.max_send_requests > own.max_requests
            || sizes.max_receive_requests > own.max_requests
            || sizes.max_send_elements > own.max_elements
            || sizes.max_receive_elements > own.max_elements
            || sizes.max_inline_bytes > own.max_inline_bytes
        {
            return Err(invalid("a queue pair of these sizes is not to be had"));
        }
        if options.shared_receive_queue.is_some() {
            sizes.max_receive_requests = 0;
            sizes.max_receive_elements = 0;
        }
        for queue in [options.send_queue, options.receive_queue] {
            if self.queues.get(queue).ok_or_else(gone)?.context != context {
                return Err(invalid("a completion queue is of another context"));
            }
        }
        if let Some(shared) = options.shared_receive_queue
            && self.shared.get(shared).ok_or_else(gone)?.context != context
        {
            return Err(invalid("the shared receive queue is of another context"));
        }
        let most = own.max_queue_pairs;
        let key = self.pairs.insert(None);
        let key = key.ok_or_else(|| full(format!("a host has {most} queue pairs at most")))?;
        let number = self.attributes.first_number + key.index();
        let pair = Box::new(Pair {
            key,
            number,
            context,
            domain,
            options,
            state: QueuePairState::Reset,
            attributes: QueuePairAttributes::default(),
            sends: SendQueue::default(),
            receives: VecDeque::new(),
            wait_until: 0,
            expected: 0,
            asking: 0,
            found: VecDeque::new(),
            is_established: false,
            drain_wanted: false,
            is_ready: false,
        });
        self.put_pair(pair);
        self.use_of_pair(domain, &options, true);
        Ok((key, number))
    }

    /// Counts what a queue pair uses, or no longer does.
    fn use_of_pair(&mut self, domain: Key, options: &QueuePairOptions, is_used: bool) {
        let change = if is_used { 1 } else { -1 };
        for queue in [options.send_queue, options.receive_queue] {
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.users = queue.users.wrapping_add_signed(change);
            }
        }
        let shared = options.shared_receive_queue;
        if let Some(shared) = shared.and_then(|shared| self.shared.get_mut(shared)) {
            shared.users = shared.users.wrapping_add_signed(change);
        }
        self.use_domain(domain, is_used);
    }

    fn pair(&self, key: Key) -> Result<&Pair> {
        let pair = self.pairs.get(key).and_then(Option::as_deref);
        pair.ok_or_else(gone)
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn state(&self, key: Key) -> Result<QueuePairState> {
        Ok(self.pair(key)?.state)
    }

    /// All that was set of a queue pair, and what it was made with, with the sizes that it got.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self, key: Key) -> Result<(QueuePairAttributes, QueuePairOptions)> {
        let pair = self.pair(key)?;
        let is_drained = pair.state == QueuePairState::SendDrained;
        let attributes = QueuePairAttributes {
            state: pair.state,
            current_state: pair.state,
            capabilities: pair.options.capabilities,
            is_draining: is_drained && pair.sends.is_waiting(),
            ..pair.attributes
        };
        Ok((attributes, pair.options))
    }

    /// Destroys a queue pair: what is posted is gone without completions, and so are those of its
    /// completions that wait in a queue, and its events.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy_pair(&mut self, key: Key) -> Result<()> {
        let pair = self.pairs.remove(key).flatten().ok_or_else(gone)?;
        self.forget_completions(&pair);
        self.forget_async(pair.context, Owner::Pair(key));
        self.use_of_pair(pair.domain, &pair.options, false);
        Ok(())
    }

    fn forget_completions(&mut self, pair: &Pair) {
        for queue in [pair.options.send_queue, pair.options.receive_queue] {
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.completions.forget(pair.number);
            }
        }
    }

    /// Changes what bits of [`attribute`] name.
    ///
    /// # Errors
    ///
    /// EINVAL for a transition that does not exist, an attribute that is missing, one that has no
    /// place in it, or a value past the adapter's; EOPNOTSUPP for second paths and rates.
    pub fn modify(&mut self, key: Key, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
        let pair = self.pair(key)?;
        if mask & (attribute::RATE_LIMIT | attribute::CAPABILITIES) != 0 {
            return Err(unsupported(
                "rates and sizes of a queue pair are not modified",
            ));
        }
        let (kind, from) = (pair.options.kind, pair.state);
        let to = transition::next(kind, from, mask, wanted.state, wanted.current_state)
            .map_err(|error| not_modified(error, from, wanted.state))?;
        self.check_attributes(wanted, mask)?;
        let mut pair = self.take_pair(key.index()).ok_or_else(gone)?;
        self.apply(&mut pair, wanted, mask, to);
        self.put_pair(pair);
        Ok(())
    }

    fn check_attributes(&self, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
        let has = |bit| mask & bit != 0;
        if has(attribute::PORT) {
            self.check_port(wanted.port)?;
        }
        if has(attribute::PARTITION_KEY_INDEX) && wanted.partition_key_index != 0 {
            return Err(invalid("there is P_Key 0 alone"));
        }
        if has(attribute::ALTERNATE_PATH) {
            return Err(unsupported("there are no alternate paths"));
        }
        if has(attribute::ADDRESS) {
            self.check_address(&wanted.address)?;
        }
        if has(attribute::PATH_MTU) && wanted.path_mtu > self.attributes.mtu {
            return Err(invalid("the path's MTU is greater than the port's"));
        }
        let most = self.attributes.max_read_atomic;
        if has(attribute::MAX_READ_ATOMIC) && wanted.max_read_atomic > most
            || has(attribute::MAX_DESTINATION_READ_ATOMIC)
                && wanted.max_destination_read_atomic > most
        {
            return Err(invalid("too many reads and atomics at once"));
        }
        if has(attribute::ACCESS_FLAGS) && wanted.access_flags & !ACCESS_KNOWN != 0 {
            return Err(invalid("access flags of a queue pair are not all known"));
        }
        wanted.check_ranges(mask).map_err(|error| match error {
            RangeError::Destination => invalid("queue pair numbers have 24 bits"),
            RangeError::Patience => invalid("a timer or a number of retries is out of its range"),
        })
    }

    /// Takes over attributes, and does what the new state needs.
    fn apply(
        &mut self,
        pair: &mut Pair,
        wanted: &QueuePairAttributes,
        mask: u32,
        to: QueuePairState,
    ) {
        use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendDrained};
        pair.attributes.take_over(wanted, mask);
        let from = core::mem::replace(&mut pair.state, to);
        match (from, to) {
            (_, Reset) => {
                pair.attributes = QueuePairAttributes::default();
                pair.sends.clear();
                pair.asking = 0;
                pair.receives.clear();
                pair.found.clear();
                pair.is_established = false;
                pair.drain_wanted = false;
                self.forget_completions(pair);
            }
            (Init, ReadyToReceive) => pair.expected = pair.attributes.receive_packet_number,
            (ReadyToReceive, ReadyToSend) => {
                pair.sends.connect(pair.attributes.send_packet_number);
                pair.wait_until = 0;
            }
            (_, SendDrained) => {
                pair.drain_wanted = true;
                self.retire(pair);
            }
            (_, Error) if from != Error => self.fail(pair),
            _ => {}
        }
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// EINVAL in the state RESET, with a shared receive queue, or for too many elements; ENOMEM
    /// when the queue is full.
    pub fn post_receive(&mut self, key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
        let pair = self.pairs.get_mut(key).and_then(Option::as_mut);
        let pair = pair.ok_or_else(gone)?;
        if pair.options.shared_receive_queue.is_some() {
            return Err(invalid(
                "the queue pair takes its receives from a shared receive queue",
            ));
        }
        if !check::takes_receives(pair.state) {
            let reason = format!("receives are not posted in {:?}", pair.state);
            return Err(invalid(reason));
        }
        let sizes = &pair.options.capabilities;
        if request.elements.len() > sizes.max_receive_elements as usize {
            return Err(invalid("a receive has too many elements"));
        }
        if pair.receives.len() >= sizes.max_receive_requests as usize {
            return Err(full("the receive queue is full"));
        }
        pair.receives.push_back(Receive {
            request: request.request,
            elements: Elements::new(request.elements),
        });
        if pair.state == QueuePairState::Error {
            let mut pair = self.take_pair(key.index()).ok_or_else(gone)?;
            self.flush(&mut pair);
            self.put_pair(pair);
        }
        Ok(())
    }

    /// Posts pieces of work: all of them, or none. Inline bytes are taken from memory now.
    ///
    /// # Errors
    ///
    /// EINVAL in a state without sends, for an opcode that the type has not, too many elements or
    /// too many inline bytes; ENOMEM when the queue is full.
    pub fn post_sends(
        &mut self,
        key: Key,
        requests: &[SendRequest<'_>],
        memory: &impl Memory,
    ) -> Result<()> {
        let pair = self.pair(key)?;
        if !check::takes_sends(pair.state) {
            let reason = format!("sends are not posted in {:?}", pair.state);
            return Err(invalid(reason));
        }
        let (kind, sizes) = (pair.options.kind, pair.options.capabilities);
        if pair.sends.len() + requests.len() > sizes.max_send_requests as usize {
            return Err(full("the send queue is full"));
        }
        let limits = SendLimits {
            elements: sizes.max_send_elements,
            inline_bytes: sizes.max_inline_bytes,
        };
        let is_datagram = kind == QueuePairType::Ud;
        let mut sends = Vec::with_capacity(requests.len());
        for request in requests {
            let (elements, bytes) = (request.elements, bytes_of(request.elements));
            let (opcode, flags) = (request.opcode, request.flags);
            check::send(kind, opcode, flags, elements.len(), bytes, limits).map_err(refused)?;
            let destination = match request.datagram {
                None if is_datagram => return Err(refused(PostError::Address)),
                Some(way) if is_datagram => {
                    let address = self.addresses.get(way.address).ok_or_else(gone)?;
                    let (number, queue_key) = (way.queue_pair, way.queue_key);
                    Some(Box::new((address.attributes, number, queue_key)))
                }
                _ => None,
            };
            let payload = if flags & send::INLINE != 0 {
                let mut bytes = Vec::new();
                for element in elements {
                    memory.read(element.address, element.length as usize, &mut bytes);
                }
                Payload::Inline(bytes)
            } else {
                Payload::Elements(Elements::new(elements))
            };
            sends.push(PostedSend {
                request: request.request,
                opcode,
                flags,
                length: bytes,
                immediate: request.immediate,
                remote_address: request.remote_address,
                remote_key: request.remote_key,
                compare_add: request.compare_add,
                swap: request.swap,
                phase: Phase::Queued,
                sequence: 0,
                offset: 0,
                own: OwnOfSend {
                    payload,
                    destination,
                    has_left: false,
                },
            });
        }
        if let Some(Some(pair)) = self.pairs.get_mut(key) {
            sends.into_iter().for_each(|send| pair.sends.post(send));
        }
        self.make_ready(key.index());
        Ok(())
    }
}

fn not_modified(error: ModifyError, from: QueuePairState, to: QueuePairState) -> Error {
    invalid(match error {
        ModifyError::NoTransition => {
            format!("a queue pair does not go from {from:?} to {to:?}")
        }
        ModifyError::Missing(bits) => format!("attributes {bits:#x} are missing"),
        ModifyError::Surplus(bits) => format!("attributes {bits:#x} have no place in this step"),
        ModifyError::NotInState => format!("the queue pair is in {from:?}"),
    })
}

fn refused(error: PostError) -> Error {
    invalid(match error {
        PostError::State => "sends are not posted in this state",
        PostError::Opcode => "this type of queue pair has no such operation",
        PostError::Elements => "a send has too many elements",
        PostError::Inline => "too many inline bytes, or none possible",
        PostError::Flags => "a flag of a send is not known",
        PostError::Address => "a datagram needs an address handle",
    })
}
