//! What is posted on queue pairs.

use alloc::boxed::Box;
use alloc::format;

use super::Objects;
use crate::verbs::carrier::Carrier;
use crate::verbs::check::{self, PostError, SendLimits};
use crate::verbs::error::{Error, Result, full, gone, invalid};
use crate::verbs::flags::send;
use crate::verbs::{
    AddressAttributes, Elements, Key, Pair, Phase, PostedSend, QueuePairState, QueuePairType,
    Receive, ReceiveRequest, ScatterGatherElement, SendRequest, bytes_of,
};

/// Where a datagram goes, as it was posted.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The way.
    pub address: AddressAttributes,
    /// The queue pair.
    pub number: u32,
    /// Its Q_Key, or the bit that stands for the sender's own.
    pub queue_key: u32,
}

impl<C: Carrier> Objects<C> {
    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// EINVAL in the state RESET, with a shared receive queue, or for too many elements; ENOMEM
    /// when the queue is full.
    #[inline]
    pub fn post_receive(&mut self, key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
        let pair = self.pairs.get_mut(key).and_then(Option::as_mut);
        let pair = pair.ok_or_else(gone)?;
        if pair.has_shared_queue() {
            return Err(invalid(
                "the queue pair takes its receives from a shared receive queue",
            ));
        }
        if !check::takes_receives(pair.state) {
            return Err(state_without("receives", pair.state));
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
            return self.flush_at(key.index());
        }
        Ok(())
    }

    #[cold]
    fn flush_at(&mut self, place: u32) -> Result<()> {
        let mut pair = self.take_pair(place).ok_or_else(gone)?;
        self.flush(&mut pair);
        self.put_pair(pair);
        Ok(())
    }

    /// Posts pieces of work: all of them, or none. `own` makes of a request's elements, of whether
    /// they are inline, and of where a datagram goes, what its carrier keeps.
    ///
    /// # Errors
    ///
    /// EINVAL in a state without sends, for an opcode that the type has not, too many elements or
    /// too many inline bytes, a datagram without an address; ENOMEM when the queue is full.
    pub fn post_sends<A: Copy + Into<Key>>(
        &mut self,
        key: Key,
        requests: &[SendRequest<'_, A>],
        own: impl FnMut(&[ScatterGatherElement], bool, Option<Box<Destination>>) -> C::Send,
    ) -> Result<()> {
        self.pair(key)?;
        let mut pair = self.take_pair(key.index()).ok_or_else(gone)?;
        let before = pair.sends.len();
        let posted = self.post_each(&mut pair, requests, own);
        if posted.is_ok() {
            self.put_pair(pair);
        } else {
            pair.sends.truncate(before);
            self.restore_pair(pair);
        }
        posted
    }

    fn post_each<A: Copy + Into<Key>>(
        &self,
        pair: &mut Pair<C>,
        requests: &[SendRequest<'_, A>],
        mut own: impl FnMut(&[ScatterGatherElement], bool, Option<Box<Destination>>) -> C::Send,
    ) -> Result<()> {
        if !check::takes_sends(pair.state) {
            return Err(state_without("sends", pair.state));
        }
        let (kind, sizes) = (pair.options.kind, &pair.options.capabilities);
        if pair.sends.len() + requests.len() > sizes.max_send_requests as usize {
            return Err(full("the send queue is full"));
        }
        let limits = SendLimits {
            elements: sizes.max_send_elements,
            inline_bytes: sizes.max_inline_bytes,
        };
        for request in requests {
            let (elements, length) = (request.elements, bytes_of(request.elements));
            let (opcode, flags) = (request.opcode, request.flags);
            check::send(kind, opcode, flags, elements.len(), length, limits).map_err(refused)?;
            let destination = if kind == QueuePairType::Ud {
                let way = request
                    .datagram
                    .ok_or_else(|| refused(PostError::Address))?;
                let address = self.addresses.get(way.address.into()).ok_or_else(gone)?;
                Some(Box::new(Destination {
                    address: address.attributes,
                    number: way.queue_pair,
                    queue_key: way.queue_key,
                }))
            } else {
                None
            };
            pair.sends.post(PostedSend {
                request: request.request,
                opcode,
                flags,
                length,
                immediate: request.immediate,
                remote_address: request.remote_address,
                remote_key: request.remote_key,
                compare_add: request.compare_add,
                swap: request.swap,
                phase: Phase::Queued,
                sequence: 0,
                offset: 0,
                own: own(elements, flags & send::INLINE != 0, destination),
            });
        }
        Ok(())
    }
}

#[cold]
fn state_without(requests: &str, state: QueuePairState) -> Error {
    invalid(format!("{requests} are not posted in {state:?}"))
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
