//! Queue pairs: how they are made, go from state to state, and end.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;

use super::{Objects, Owner, change};
use crate::verbs::carrier::Carrier;
use crate::verbs::error::{Error, Result, full, gone, invalid, unsupported};
use crate::verbs::flags::attribute;
use crate::verbs::notices::Destruction;
use crate::verbs::regions::ACCESS_KNOWN;
use crate::verbs::transition::{self, ModifyError};
use crate::verbs::{
    Key, QueuePairAttributes, QueuePairOptions, QueuePairState, RangeError, Receive, SendQueue,
};

/// A queue pair.
#[derive(Debug)]
pub struct Pair<C: Carrier> {
    /// Its place, and which of those that had it.
    pub key: Key,
    /// By which its peer names it.
    pub number: u32,
    /// The opened device that it belongs to.
    pub context: Key,
    /// Its protection domain.
    pub domain: Key,
    /// What it was made with, with the sizes that it got.
    pub options: QueuePairOptions,
    /// Its state.
    pub state: QueuePairState,
    /// What was set of it.
    pub attributes: QueuePairAttributes,
    /// Its sends.
    pub sends: SendQueue<C::Send>,
    /// Its receives, if it has its own.
    pub receives: VecDeque<Receive>,
    /// Sends begin not before this, since the peer was not ready, in nanoseconds; 0: at once.
    pub wait_until: u64,
    /// The number of the request that is expected.
    pub expected: u32,
    /// Whether it was told that its peer has sent something.
    pub is_established: bool,
    /// Whether its sends are to be drained.
    pub drain_wanted: bool,
    pub(super) async_unacknowledged: u32,
    /// What its carrier keeps.
    pub own: C::Pair,
}

impl<C: Carrier> Pair<C> {
    /// Whether its receives come from a shared receive queue.
    #[must_use]
    pub const fn has_shared_queue(&self) -> bool {
        self.options.shared_receive_queue.is_some()
    }
}

impl<C: Carrier> Objects<C> {
    /// Makes a queue pair, in the state RESET: its key and its number.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's or objects of another context; ENOMEM when there are too
    /// many.
    pub fn create_pair(&mut self, domain: Key, options: &QueuePairOptions) -> Result<(Key, u32)> {
        let context = self.context_of_domain(domain)?;
        let (mut options, own) = (*options, &self.limits);
        let sizes = &mut options.capabilities;
        if sizes.max_send_requests > own.max_requests
            || sizes.max_receive_requests > own.max_requests
            || sizes.max_send_elements > own.max_elements
            || sizes.max_receive_elements > own.max_elements
            || sizes.max_inline_bytes > own.max_inline_bytes
        {
            return Err(invalid("a queue pair of these sizes is not to be had"));
        }
        sizes.max_inline_bytes = sizes.max_inline_bytes.max(own.min_inline_bytes);
        if options.shared_receive_queue.is_some() {
            sizes.max_receive_requests = 0;
            sizes.max_receive_elements = 0;
        }
        for queue in [options.send_queue, options.receive_queue] {
            if self.notices.queue(queue)?.context != context {
                return Err(invalid("a completion queue is of another context"));
            }
        }
        if let Some(shared) = options.shared_receive_queue
            && self.context_of_shared(shared)? != context
        {
            return Err(invalid("the shared receive queue is of another context"));
        }
        let most = self.limits.max_queue_pairs;
        let key = self.pairs.insert(None);
        let key = key.ok_or_else(|| full(format!("there are {most} queue pairs at most")))?;
        let number = self.limits.first_number + key.index();
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
            is_established: false,
            drain_wanted: false,
            async_unacknowledged: 0,
            own: C::Pair::default(),
        });
        self.notices.carrier.shows_pair(&pair);
        self.use_of_pair(&pair, true);
        self.put_pair(pair);
        Ok((key, number))
    }

    /// Counts what a queue pair uses, or no longer does.
    fn use_of_pair(&mut self, pair: &Pair<C>, is_used: bool) {
        for queue in [pair.options.send_queue, pair.options.receive_queue] {
            if let Some(queue) = self.notices.queues.get_mut(queue) {
                queue.users = queue.users.wrapping_add_signed(change(is_used));
            }
        }
        if let Some(shared) = pair.options.shared_receive_queue {
            self.use_shared(shared, is_used);
        }
        self.use_domain(pair.domain, is_used);
    }

    /// A queue pair.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn pair(&self, key: Key) -> Result<&Pair<C>> {
        let pair = self.pairs.get(key).and_then(Option::as_deref);
        pair.ok_or_else(gone)
    }

    /// A queue pair that lives, with the rest at hand. It must be put back.
    #[inline]
    pub fn take_pair(&mut self, place: u32) -> Option<Box<Pair<C>>> {
        self.pairs.at_mut(place)?.take()
    }

    /// Puts it back.
    #[inline]
    pub fn put_pair(&mut self, mut pair: Box<Pair<C>>) {
        self.notices.carrier.puts_pair(&mut pair);
        self.restore_pair(pair);
    }

    /// Puts it back, of which nothing new is to be said to its carrier.
    #[inline]
    pub fn restore_pair(&mut self, pair: Box<Pair<C>>) {
        if let Some(place) = self.pairs.get_mut(pair.key) {
            *place = Some(pair);
        }
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
    /// completions that wait in a queue, and the events that nobody has taken.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy_pair(&mut self, key: Key) -> Result<Destruction> {
        let pair = self.pair(key)?;
        let (context, is_held) = (pair.context, pair.async_unacknowledged > 0);
        self.notices.forget_async(context, Owner::Pair(key));
        if is_held {
            return Ok(Destruction::Waits);
        }
        self.remove_pair(key);
        Ok(Destruction::Done)
    }

    pub(super) fn remove_pair(&mut self, key: Key) {
        if let Some(pair) = self.pairs.remove(key).flatten() {
            self.notices.carrier.hides_pair(&pair);
            self.forget_completions(&pair);
            self.use_of_pair(&pair, false);
        }
    }

    fn forget_completions(&mut self, pair: &Pair<C>) {
        for queue in [pair.options.send_queue, pair.options.receive_queue] {
            self.notices.forget_completions(queue, pair.number);
        }
    }

    /// Changes what bits of [`attribute`] name.
    ///
    /// # Errors
    ///
    /// As [`Objects::check_modify`].
    pub fn modify(&mut self, key: Key, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
        let to = self.check_modify(key, wanted, mask)?;
        let mut pair = self.take_pair(key.index()).ok_or_else(gone)?;
        self.apply(&mut pair, wanted, mask, to);
        self.put_pair(pair);
        Ok(())
    }

    /// The state after a call that changes what bits of [`attribute`] name.
    ///
    /// # Errors
    ///
    /// EINVAL for a transition that does not exist, an attribute that is missing, one that has no
    /// place in it, or a value past the device's; EOPNOTSUPP for second paths and rates.
    pub fn check_modify(
        &self,
        key: Key,
        wanted: &QueuePairAttributes,
        mask: u32,
    ) -> Result<QueuePairState> {
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
        Ok(to)
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
        if has(attribute::PATH_MTU) && wanted.path_mtu > self.limits.mtu {
            return Err(invalid("the path's MTU is greater than the port's"));
        }
        let most = self.limits.max_read_atomic;
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
    pub fn apply(
        &mut self,
        pair: &mut Pair<C>,
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
                pair.receives.clear();
                C::rewinds(pair);
                C::resets(&mut pair.own);
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
        self.notices.carrier.shows_pair(pair);
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
