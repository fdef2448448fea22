//! Requests about queue pairs as calls of `viaduct_programs::verbs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_calls::{Description, Owner as AsyncOwner, Request, Send, put_answer};
use viaduct_programs::Process;
use viaduct_programs::outside::Owner;
use viaduct_programs::verbs::{
    AddressHandle, Completion, CompletionChannel, CompletionQueue, Context, DatagramDestination,
    Device, Error, Key, MemoryRegion, ProtectionDomain, QueuePair, ReceiveRequest, Result,
    ScatterGatherElement, SendRequest, SharedReceiveQueue, Signal, bytes_of, errno, flags,
    flags::reregister,
};

use viaduct_provider::NicHandle;
use viaduct_turns::Thread;

use crate::descriptors::Raised;
use crate::handlers::Handlers;
use crate::looks::{Looks, Place};

/// What a client has opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Arc<Mutex<Openings>>);

#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// Devices with queue pairs.
    pub(crate) contexts: Vec<Key>,
    /// NICs with VIs.
    pub(crate) nics: Vec<NicHandle>,
}

impl Opened {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Openings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread, as its requests are carried out for it.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) thread: Thread,
    /// Whose memory its client's regions are in.
    pub(crate) memory: Owner,
    /// What its client has opened.
    pub(crate) opened: Opened,
    pub(crate) looks: Looks,
    /// Its client's handlers.
    pub(crate) handlers: Handlers,
    /// Its client's number for the system.
    pub(crate) process: i32,
    pub(crate) raised: Raised,
}

impl Asker {
    /// Memory of its client's as it is named: not past what is the client's.
    fn named(&self, address: u64, bytes: u64) -> Result<u64> {
        let named = self.memory.name_range(address, bytes);
        let past = || Error::new(errno::EINVAL, "the range ends past the end of memory");
        named.ok_or_else(past)
    }

    fn signal(
        &self,
        host: u32,
        sockets: (u32, u32),
    ) -> Result<Option<Box<dyn Signal + std::marker::Send>>> {
        match self.raised.signal(host, self.process, sockets) {
            Ok(signal) => Ok(Some(signal)),
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(errno::EINVAL);
                let reason = format!(
                    "the simulation may not duplicate a descriptor of this process, for its \
                     events: {error}"
                );
                Err(Error::new(number, reason))
            }
        }
    }
}

/// Completions that one look takes at most.
const COMPLETIONS_MAX: u32 = 1024;

/// Carries out a request: the bytes of its answer.
pub(crate) fn perform(process: &Process, asker: &Asker, request: Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    let into = &mut bytes;
    if !matches!(request, Request::Poll { .. }) {
        asker.looks.interrupt();
    }
    match request {
        Request::Describe { adapter } => put_answer(&describe(process, adapter), into),
        Request::Open { adapter, sockets } => {
            put_answer(&open(process, asker, adapter, sockets), into);
        }
        Request::Close { context } => {
            asker.opened.lock().contexts.retain(|key| *key != context);
            put_answer(&Context::of(process, context).close(), into);
        }
        Request::NextAsyncEvent { context, waits } => {
            let context = Context::of(process, context);
            put_answer(&context.next_async_event(limit(waits)), into);
        }
        Request::AllocateDomain { context } => {
            let made = Context::of(process, context).allocate_protection_domain();
            put_answer(&made.map(|domain| domain.key()), into);
        }
        Request::DeallocateDomain { domain } => {
            put_answer(&ProtectionDomain::of(process, domain).deallocate(), into);
        }
        Request::CreateChannel { context, sockets } => {
            let context = Context::of(process, context);
            let made = asker
                .signal(process.host(), sockets)
                .and_then(|signal| context.create_completion_channel_with(signal));
            put_answer(&made.map(|channel| channel.key()), into);
        }
        Request::DestroyChannel { channel } => {
            put_answer(&CompletionChannel::of(process, channel).destroy(), into);
        }
        Request::NextEvent { channel, waits } => {
            let channel = CompletionChannel::of(process, channel);
            let event = match waits {
                true => channel.next_event(None),
                false => channel.try_next_event(),
            };
            put_answer(&event, into);
        }
        Request::CreateQueue { context, options } => {
            let options = options.map(|channel| CompletionChannel::of(process, *channel));
            let made = Context::of(process, context).create_completion_queue(&options);
            let with_cost = |queue: CompletionQueue| {
                let cost = process.at_adapter_of(queue.key().to_bits()).look_cost();
                (queue.key(), cost.map(|cost| cost.picoseconds()))
            };
            put_answer(&made.map(with_cost), into);
        }
        Request::DestroyQueue { queue } => {
            put_answer(&CompletionQueue::of(process, queue).destroy(), into);
        }
        Request::Entries { queue } => {
            put_answer(&CompletionQueue::of(process, queue).entries(), into);
        }
        Request::Resize { queue, entries } => {
            put_answer(&CompletionQueue::of(process, queue).resize(entries), into);
        }
        Request::Arm {
            queue,
            is_solicited_only,
        } => {
            let queue = CompletionQueue::of(process, queue);
            put_answer(&queue.arm(is_solicited_only), into);
        }
        Request::Poll { queue, most } => {
            let found = poll(process, &asker.looks, queue, most);
            put_answer(&found, into);
        }
        Request::Acknowledge { queue, count } => {
            CompletionQueue::of(process, queue).acknowledge_events(count);
            put_answer::<(), Error>(&Ok(()), into);
        }
        Request::AcknowledgeAsync { owner, count } => {
            match owner {
                AsyncOwner::Queue(key) => {
                    CompletionQueue::of(process, key).acknowledge_async_events(count);
                }
                AsyncOwner::Pair(key) => {
                    QueuePair::of(process, key).acknowledge_async_events(count)
                }
                AsyncOwner::Shared(key) => {
                    SharedReceiveQueue::of(process, key).acknowledge_async_events(count);
                }
            }
            put_answer::<(), Error>(&Ok(()), into);
        }
        Request::Register {
            domain,
            address,
            length,
            iova,
            access,
        } => {
            let domain = ProtectionDomain::of(process, domain);
            let made = asker.named(address, length).and_then(|address| {
                // SAFETY: the memory is the client's, which is read and written by copies of the
                // kernel; where it is not there, these fail.
                unsafe { domain.register_memory(address, length, iova, access) }
            });
            put_answer(
                &made.map(|region| (region.key(), region.memory_key())),
                into,
            );
        }
        Request::Reregister {
            region,
            flags,
            domain,
            address,
            length,
            access,
        } => {
            let domain = domain.map(|domain| ProtectionDomain::of(process, domain));
            let region = MemoryRegion::of(process, region);
            // Where it lies says nothing unless that is changed.
            let bytes = match flags & reregister::TRANSLATION {
                0 => 0,
                _ => length,
            };
            let done = asker.named(address, bytes).and_then(|address| {
                // SAFETY: as for `Register`.
                unsafe { region.reregister(flags, domain.as_ref(), address, length, access) }
            });
            put_answer(&done, into);
        }
        Request::Deregister { region } => {
            put_answer(&MemoryRegion::of(process, region).deregister(), into);
        }
        Request::CreateAddress { domain, attributes } => {
            let made = ProtectionDomain::of(process, domain).create_address_handle(&attributes);
            put_answer(&made.map(|address| address.key()), into);
        }
        Request::DestroyAddress { address } => {
            put_answer(&AddressHandle::of(process, address).destroy(), into);
        }
        Request::CreateShared {
            domain,
            attributes,
            cookie,
        } => {
            let domain = ProtectionDomain::of(process, domain);
            let made = domain.create_shared_receive_queue(&attributes, cookie);
            put_answer(&made.map(|shared| with_cost(process, shared.key())), into);
        }
        Request::ModifyShared {
            shared,
            attributes,
            mask,
        } => {
            let shared = SharedReceiveQueue::of(process, shared);
            put_answer(&shared.modify(&attributes, mask), into);
        }
        Request::QueryShared { shared } => {
            put_answer(&SharedReceiveQueue::of(process, shared).query(), into);
        }
        Request::DestroyShared { shared } => {
            put_answer(&SharedReceiveQueue::of(process, shared).destroy(), into);
        }
        Request::CreatePair { domain, options } => {
            let options = options.map(
                |queue| CompletionQueue::of(process, *queue),
                |shared| SharedReceiveQueue::of(process, *shared),
            );
            let made = ProtectionDomain::of(process, domain).create_queue_pair(&options);
            let made = made.map(|pair| ((pair.key(), pair.number()), pair.key()));
            let told = made.map(|(made, key)| (made, with_cost(process, key).1));
            put_answer(&told, into);
        }
        Request::Modify {
            pair,
            attributes,
            mask,
        } => {
            let pair = QueuePair::of(process, pair);
            put_answer(&pair.modify(&attributes, mask), into);
        }
        Request::Query { pair } => put_answer(&QueuePair::of(process, pair).query(), into),
        Request::DestroyPair { pair } => {
            put_answer(&QueuePair::of(process, pair).destroy(), into);
        }
        post @ (Request::PostSends { .. }
        | Request::PostReceive { .. }
        | Request::PostShared { .. }
        | Request::Looked { .. }) => {
            put_answer(&perform_post(process, asker, post), into);
        }
    }
    bytes
}

/// An object, and what a post to it takes the processor, if that is always the same.
fn with_cost(process: &Process, key: Key) -> (Key, Option<u64>) {
    let cost = process.at_adapter_of(key.to_bits()).post_cost();
    (key, cost.map(|cost| cost.picoseconds()))
}

/// Carries out a post whose answer nobody waits for.
pub(crate) fn perform_post(process: &Process, asker: &Asker, request: Request) -> Result<()> {
    if let Request::Looked { queue } = request {
        looked(process, &asker.looks, queue);
        return Ok(());
    }
    asker.looks.interrupt();
    match request {
        Request::PostSends { pair, mut sends } => post(process, pair, &mut sends),
        Request::PostReceive { pair, receive } => {
            QueuePair::of(process, pair).post_receive(&receive_of(&receive))
        }
        Request::PostShared { shared, receive } => {
            SharedReceiveQueue::of(process, shared).post_receive(&receive_of(&receive))
        }
        _ => Err(Error::new(errno::EINVAL, "it is no post")),
    }
}

/// How long to wait for an event.
const fn limit(waits: bool) -> Option<Duration> {
    match waits {
        true => None,
        false => Some(Duration::ZERO),
    }
}

fn device(process: &Process, adapter: u32) -> Result<Device> {
    let no_such = || Error::new(errno::EINVAL, format!("the host has no adapter {adapter}"));
    process.at_adapter(adapter).ok_or_else(no_such)?.rdma()
}

fn describe(process: &Process, adapter: u32) -> Result<Description> {
    let device = device(process, adapter)?;
    Ok(Description {
        host: process.host(),
        adapters: process.adapters(),
        adapter,
        gid: device.gid(),
        limits: device.limits(),
    })
}

fn open(process: &Process, asker: &Asker, adapter: u32, sockets: (u32, u32)) -> Result<Key> {
    let signal = asker.signal(process.host(), sockets)?;
    let key = device(process, adapter)?.open_with(signal)?.key();
    asker.opened.lock().contexts.push(key);
    Ok(key)
}

fn poll(process: &Process, looks: &Looks, queue: Key, most: u32) -> Result<Vec<Completion>> {
    let most = most.min(COMPLETIONS_MAX) as usize;
    let mut found = vec![Completion::default(); most];
    let now = process.time();
    let place = Place::Completions(queue);
    let (often, beside) = looks.next(place, now);
    let beside: Vec<Key> = beside.into_iter().filter_map(Place::completions).collect();
    let count = CompletionQueue::of(process, queue).poll_often(&mut found, often, &beside)?;
    found.truncate(count);
    looks.note(place, now, process.time(), count > 0);
    Ok(found)
}

/// A look in vain was made, as it would have been if it had been asked for.
fn looked(process: &Process, looks: &Looks, queue: Key) {
    let (place, now) = (Place::Completions(queue), process.time());
    let (often, _) = looks.next(place, now);
    debug_assert_eq!(often, 1, "a look that stands for more needs an answer");
    let at = process.at_adapter_of(queue.to_bits());
    if let Some(cost) = at.look_cost() {
        looks.note(place, now, now + cost, false);
    }
    process.count_look();
}

fn receive_of(receive: &viaduct_calls::Receive) -> ReceiveRequest<'_> {
    ReceiveRequest {
        request: receive.request,
        elements: &receive.elements,
    }
}

fn post(process: &Process, pair: Key, sends: &mut [Send]) -> Result<()> {
    for send in &mut *sends {
        if send.flags & flags::send::INLINE != 0 {
            bring_inline(send)?;
        }
    }
    let handles: Vec<Option<AddressHandle>> = sends
        .iter()
        .map(|send| Some(AddressHandle::of(process, send.datagram?.address)))
        .collect();
    let requests: Vec<SendRequest<'_>> = sends
        .iter()
        .zip(&handles)
        .map(|(send, handle)| request_of(send, handle.as_ref()))
        .collect();
    // SAFETY: the elements of an inline send name the bytes that came with it, which live until
    // this returns.
    unsafe { QueuePair::of(process, pair).post_sends(&requests) }
}

/// Has the elements of an inline send name the bytes that came with it.
fn bring_inline(send: &mut Send) -> Result<()> {
    if bytes_of(&send.elements) != send.inline.len() as u64 {
        let reason = "more bytes than a send may bring with it";
        return Err(Error::new(errno::EINVAL, reason));
    }
    let mut bytes: &[u8] = &send.inline;
    for element in &mut send.elements {
        let (own, rest) = bytes.split_at(element.length as usize);
        element.address = own.as_ptr().expose_provenance() as u64;
        bytes = rest;
    }
    Ok(())
}

fn request_of<'a>(send: &'a Send, handle: Option<&'a AddressHandle>) -> SendRequest<'a> {
    let elements: &[ScatterGatherElement] = &send.elements;
    let mut request = SendRequest::new(send.request, send.opcode)
        .with_elements(elements)
        .with_flags(send.flags)
        .with_remote(send.remote_address, send.remote_key);
    request.immediate = send.immediate;
    request.compare_add = send.compare_add;
    request.swap = send.swap;
    request.datagram = send
        .datagram
        .as_ref()
        .zip(handle)
        .map(|(datagram, address)| DatagramDestination {
            address,
            queue_pair: datagram.queue_pair,
            queue_key: datagram.queue_key,
        });
    request
}
