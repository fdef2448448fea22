//! Calls about queue pairs.

use super::*;

/// Inline bytes that every queue pair takes, whatever it asked for.
const INLINE_BYTES_MIN: u32 = 256;

pub(crate) fn create_queue_pair(domain: Key, options: &QueuePairOptions) -> Result<(Key, u32)> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    let mut options = *options;
    let sizes = &mut options.capabilities;
    if sizes.max_send_requests > limits::REQUESTS_MAX
        || sizes.max_receive_requests > limits::REQUESTS_MAX
        || sizes.max_send_elements > limits::ELEMENTS_MAX
        || sizes.max_receive_elements > limits::ELEMENTS_MAX
        || sizes.max_inline_bytes > limits::INLINE_BYTES_MAX
    {
        return Err(invalid("a queue pair of these sizes is not to be had"));
    }
    sizes.max_inline_bytes = sizes.max_inline_bytes.max(INLINE_BYTES_MIN);
    if options.shared_receive_queue.is_some() {
        sizes.max_receive_requests = 0;
        sizes.max_receive_elements = 0;
    }
    for queue in [options.send_queue, options.receive_queue] {
        let queue = engine.notices.queues.get(queue.key).ok_or_else(gone)?;
        if queue.context != context {
            return Err(invalid("a completion queue is of another context"));
        }
    }
    if let Some(shared) = options.shared_receive_queue {
        let shared = engine.shared.get(shared.key).ok_or_else(gone)?;
        if shared.context != context {
            return Err(invalid("the shared receive queue is of another context"));
        }
    }
    let key = engine.pairs.insert(None);
    let key = key.ok_or_else(|| full("too many queue pairs"))?;
    let number = engine.block << limits::QUEUE_PAIR_BITS | key.index();
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
        link: None,
        is_active: false,
        wait_until: 0,
        table_at: 0,
        expected: 0,
        incoming: None,
        is_established: false,
        drain_wanted: false,
        async_unacknowledged: 0,
        begun_count: 0,
        heard_count: 0,
        has_gap: false,
    });
    engine.show(&pair);
    engine.put_pair(pair);
    for queue in [options.send_queue, options.receive_queue] {
        if let Some(queue) = engine.notices.queues.get_mut(queue.key) {
            queue.users += 1;
        }
    }
    if let Some(shared) = options.shared_receive_queue
        && let Some(shared) = engine.shared.get_mut(shared.key)
    {
        shared.users += 1;
    }
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok((key, number))
}

pub(crate) fn queue_pair_state(key: Key) -> Result<QueuePairState> {
    Ok(engine()?.pair(key)?.state)
}

pub(crate) fn query_queue_pair(key: Key) -> Result<(QueuePairAttributes, QueuePairOptions)> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    let mut attributes = pair.attributes;
    attributes.state = pair.state;
    attributes.current_state = pair.state;
    attributes.capabilities = pair.options.capabilities;
    attributes.is_draining = pair.state == QueuePairState::SendDrained && pair.sends.is_waiting();
    Ok((attributes, pair.options))
}

pub(crate) fn modify_queue_pair(key: Key, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    let context = pair.context;
    let unsupported_bits = attribute::RATE_LIMIT | attribute::CAPABILITIES;
    if mask & unsupported_bits != 0 {
        return Err(unsupported(
            "rates and sizes of a queue pair are not modified",
        ));
    }
    let from = pair.state;
    let to = transition::next(
        pair.options.kind,
        from,
        mask,
        wanted.state,
        wanted.current_state,
    )
    .map_err(|error| match error {
        ModifyError::NoTransition => invalid(format!(
            "a queue pair does not go from {from:?} to {:?}",
            wanted.state
        )),
        ModifyError::Missing(bits) => invalid(format!("attributes {bits:#x} are missing")),
        ModifyError::Surplus(bits) => {
            invalid(format!("attributes {bits:#x} have no place in this step"))
        }
        ModifyError::NotInState => invalid(format!("the queue pair is in {from:?}")),
    })?;
    engine.check_attributes(context, wanted, mask)?;
    if to == QueuePairState::Error {
        // What the peer has received and acknowledged by now is done, and is not flushed.
        engine.progress();
    }
    let mut pair = engine.take_pair(key.index()).ok_or_else(gone)?;
    engine.apply(&mut pair, wanted, mask, to);
    engine.put_pair(pair);
    engine.progress();
    engine.wants_ticks();
    Ok(())
}

pub(crate) fn destroy_queue_pair(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let context = engine.pair(key)?.context;
    engine.notices.forget_async(context, Owner::Pair(key));
    while engine.pair(key)?.async_unacknowledged > 0 {
        engine = wait(engine)?;
    }
    engine.remove_pair(key);
    Ok(())
}

pub(crate) fn post_receive(key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
    let mut engine = engine()?;
    let pair = engine.pair(key)?;
    if pair.options.shared_receive_queue.is_some() {
        return Err(invalid(
            "the queue pair takes its receives from a shared receive queue",
        ));
    }
    if !check::takes_receives(pair.state) {
        return Err(invalid(format!(
            "receives are not posted in {:?}",
            pair.state
        )));
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
        let mut pair = engine.take_pair(key.index()).ok_or_else(gone)?;
        engine.flush(&mut pair);
        engine.put_pair(pair);
    }
    Ok(())
}

pub(crate) unsafe fn post_sends(key: Key, requests: &[SendRequest<'_>]) -> Result<()> {
    let mut engine = engine()?;
    let engine = &mut *engine;
    if let [request] = requests {
        // SAFETY: as promised by the caller.
        let is_sent = unsafe { engine.post_short(key, request) };
        if is_sent {
            return Ok(());
        }
    }
    let pair = engine.pair(key)?;
    if !check::takes_sends(pair.state) {
        return Err(invalid(format!("sends are not posted in {:?}", pair.state)));
    }
    let sizes = pair.options.capabilities;
    let kind = pair.options.kind;
    if pair.sends.len() + requests.len() > sizes.max_send_requests as usize {
        return Err(full("the send queue is full"));
    }
    let limits = SendLimits {
        elements: sizes.max_send_elements,
        inline_bytes: sizes.max_inline_bytes,
    };
    for request in requests {
        check::send(
            kind,
            request.opcode,
            request.flags,
            request.elements.len(),
            bytes_of(request.elements),
            limits,
        )
        .map_err(refused)?;
        if kind == QueuePairType::Ud && request.datagram.is_none() {
            return Err(refused(PostError::Address));
        }
    }
    for request in requests {
        let destination = match request.datagram {
            Some(way) if kind == QueuePairType::Ud => {
                let address = engine.addresses.get(way.address.key).ok_or_else(gone)?;
                Some(Box::new((
                    address.attributes,
                    way.queue_pair,
                    way.queue_key,
                )))
            }
            _ => None,
        };
        let is_inline = request.flags & send::INLINE != 0;
        let send = Send {
            request: request.request,
            opcode: request.opcode,
            flags: request.flags,
            length: bytes_of(request.elements),
            immediate: request.immediate,
            remote_address: request.remote_address,
            remote_key: request.remote_key,
            compare_add: request.compare_add,
            swap: request.swap,
            phase: Phase::Queued,
            sequence: 0,
            offset: 0,
            own: OnRing {
                // SAFETY: as promised by the caller.
                payload: unsafe { Payload::new(request.elements, is_inline) },
                destination,
                end: 0,
                is_placed: false,
                struck: Struck::default(),
            },
        };
        engine.pair(key)?.sends.post(send);
    }
    let index = key.index();
    let mut pair = engine.take_pair(index).ok_or_else(gone)?;
    engine.transmit(&mut pair);
    engine.put_pair(pair);
    engine.wants_ticks();
    Ok(())
}

fn refused(error: PostError) -> Error {
    match error {
        PostError::State => invalid("sends are not posted in this state"),
        PostError::Opcode => invalid("this type of queue pair has no such operation"),
        PostError::Elements => invalid("a send has too many elements"),
        PostError::Inline => invalid("too many inline bytes, or none possible"),
        PostError::Flags => invalid("a flag of a send is not known"),
        PostError::Address => invalid("a datagram needs an address handle"),
    }
}

impl Engine {
    fn check_attributes(
        &self,
        context: Key,
        wanted: &QueuePairAttributes,
        mask: u32,
    ) -> Result<()> {
        let state = self.notices.contexts.get(context).ok_or_else(gone)?;
        if mask & attribute::PORT != 0 {
            state.device.check_port(wanted.port)?;
        }
        if mask & attribute::PARTITION_KEY_INDEX != 0 && wanted.partition_key_index != 0 {
            return Err(invalid("there is P_Key 0 alone"));
        }
        if mask & attribute::ALTERNATE_PATH != 0 {
            return Err(unsupported("there are no alternate paths"));
        }
        if mask & attribute::ADDRESS != 0 {
            self.check_address(context, &wanted.address)?;
        }
        if mask & attribute::PATH_MTU != 0 && wanted.path_mtu > device::active_mtu() {
            return Err(invalid("the path's MTU is greater than the port's"));
        }
        if mask & attribute::MAX_READ_ATOMIC != 0
            && wanted.max_read_atomic > limits::READ_ATOMIC_MAX
            || mask & attribute::MAX_DESTINATION_READ_ATOMIC != 0
                && wanted.max_destination_read_atomic > limits::READ_ATOMIC_MAX
        {
            return Err(invalid("too many reads and atomics at once"));
        }
        if mask & attribute::ACCESS_FLAGS != 0 && wanted.access_flags & !ACCESS_KNOWN != 0 {
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
        pair.attributes.take_over(wanted, mask);
        let from = std::mem::replace(&mut pair.state, to);
        match (from, to) {
            (_, QueuePairState::Reset) => {
                pair.attributes = QueuePairAttributes::default();
                pair.sends.clear();
                pair.receives.clear();
                pair.incoming = None;
                pair.link = None;
                pair.is_established = false;
                pair.drain_wanted = false;
                pair.has_gap = false;
                for queue in [pair.options.send_queue, pair.options.receive_queue] {
                    self.notices.forget_completions(queue.key, pair.number);
                }
            }
            (QueuePairState::Init, QueuePairState::ReadyToReceive) => {
                pair.expected = pair.attributes.receive_packet_number;
                if pair.options.kind != QueuePairType::Ud {
                    pair.link = self.link_to(pair.attributes.destination);
                }
            }
            (QueuePairState::ReadyToReceive, QueuePairState::ReadyToSend) => {
                pair.sends.connect(pair.attributes.send_packet_number);
                pair.wait_until = 0;
            }
            (_, QueuePairState::SendDrained) => {
                pair.drain_wanted = true;
            }
            (_, QueuePairState::Error) if from != QueuePairState::Error => {
                self.show(pair);
                self.fail(pair);
                return;
            }
            _ => {}
        }
        self.show(pair);
        self.transmit(pair);
    }
}
