//! What a program holds of objects that are elsewhere.

use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use viaduct_core::verbs::{
    self, AddressAttributes, AsyncEvent, Completion, Error, Key, QueuePairAttributes,
    ReceiveRequest, Result, ScatterGatherElement, SharedReceiveAttributes, flags,
};

use crate::asking::{self, Line};
use crate::looked;
use crate::request::{Datagram, Description, Owner, Receive, Request, Send};
use crate::wire::Wire;

/// What a queue pair is made with.
pub type QueuePairOptions = verbs::QueuePairOptions<CompletionQueue, SharedReceiveQueue>;
/// What a completion queue is made with.
pub type CompletionQueueOptions = verbs::CompletionQueueOptions<CompletionChannel>;
/// A piece of work for the send queue.
pub type SendRequest<'a> = verbs::SendRequest<'a, AddressHandle>;
/// Where a datagram goes.
pub type DatagramDestination = verbs::DatagramDestination<AddressHandle>;

macro_rules! handles {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $type:ty),* })+) => {
        $($(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $name {
            line: &'static dyn Line,
            key: Key,
            $($field: $type,)*
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_tuple(stringify!($name)).field(&self.key).finish()
            }
        })+
    };
}

handles! {
    /// An opened device.
    Context { device: Device, descriptor: RawFd }
    /// A protection domain.
    ProtectionDomain {}
    /// Memory that is open to requests.
    MemoryRegion { memory_key: u32 }
    /// Where datagrams go.
    AddressHandle {}
    /// Where completion queues tell that something is in them.
    CompletionChannel { descriptor: RawFd }
    /// Where completions are found.
    CompletionQueue {}
    /// Receives of many queue pairs.
    SharedReceiveQueue {}
    /// A queue pair.
    QueuePair { number: u32 }
}

/// An adapter of the program's host.
#[derive(Clone, Copy)]
pub struct Device {
    line: &'static dyn Line,
    description: Description,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(formatter)
    }
}

/// Completions that one call asks for at most.
const COMPLETIONS_MAX: usize = 1024;

fn ask<T: Wire>(line: &dyn Line, asked: &Request) -> Result<T> {
    let (mut bytes, mut answer) = (Vec::new(), Vec::new());
    asked.put(&mut bytes);
    line.call(asked.name(), &bytes, &mut answer);
    looked::asked(true);
    asking::answer(&answer)
}

/// Has a post carried out on credit, or asks for it. What it posts may complete soon.
fn post(line: &dyn Line, asked: &Request, cost: Option<u64>, completes_soon: bool) -> Result<()> {
    if let Some(cost) = cost {
        let mut bytes = Vec::new();
        asked.put(&mut bytes);
        if line.post(&bytes, cost) {
            looked::posted(completes_soon);
            return Ok(());
        }
    }
    ask(line, asked)
}

/// Has something made that tells of events by a descriptor: its key, and the descriptor. It can be
/// read while events wait, and its flags say whether calls about them wait.
///
/// It is one of two sockets. Whoever has the events takes a duplicate of both, and can so make it
/// readable and not, whatever the program has made of its flags.
fn with_descriptor(
    line: &dyn Line,
    asked: impl FnOnce((u32, u32)) -> Request,
) -> Result<(Key, RawFd)> {
    let flags = SocketFlags::CLOEXEC;
    let made = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (near, far) = made.map_err(|error| {
        let reason = format!("no descriptor for events: {error}");
        Error::new(error.raw_os_error(), reason)
    })?;
    let numbers = (
        near.as_raw_fd().cast_unsigned(),
        far.as_raw_fd().cast_unsigned(),
    );
    let key = ask(line, &asked(numbers))?;
    Ok((key, near.into_raw_fd()))
}

fn close(descriptor: RawFd) {
    // SAFETY: it was made by `with_descriptor` for the object that is gone now.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
}

/// Whether calls about a descriptor wait, which its program may change.
fn waits(descriptor: RawFd) -> Result<bool> {
    // SAFETY: the descriptor is the object's, which the caller holds.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = rustix::fs::fcntl_getfl(borrowed)
        .map_err(|error| Error::new(error.raw_os_error(), "the descriptor is closed"))?;
    Ok(!flags.contains(rustix::fs::OFlags::NONBLOCK))
}

impl Device {
    /// All adapters of the host at the other end, by number.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP if the host's have no queue pairs, EIO when nobody answers.
    pub fn all_at(line: &'static dyn Line) -> Result<Vec<Self>> {
        let describe = |adapter| {
            let description = ask(line, &Request::Describe { adapter })?;
            Ok(Self { line, description })
        };
        let first = describe(0)?;
        let others = (1..first.description.adapters).map(describe);
        std::iter::once(Ok(first)).chain(others).collect()
    }

    /// What it is.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is open too often; what the system says when it has no descriptors left.
    pub fn open(&self) -> Result<Context> {
        let (line, device) = (self.line, *self);
        let adapter = device.description.adapter;
        let open = |sockets| Request::Open { adapter, sockets };
        let (key, descriptor) = with_descriptor(line, open)?;
        Ok(Context {
            line,
            key,
            device,
            descriptor,
        })
    }
}

impl Context {
    /// What was opened.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// A descriptor that can be read while events wait, and may be set to `O_NONBLOCK`. It is
    /// closed with the context.
    #[must_use]
    pub const fn async_fd(&self) -> RawFd {
        self.descriptor
    }

    /// The next asynchronous event. Waits for one unless the descriptor is `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event and the descriptor does not block.
    pub fn next_async_event(&self) -> Result<AsyncEvent> {
        let (context, waits) = (self.key, waits(self.descriptor)?);
        ask(self.line, &Request::NextAsyncEvent { context, waits })
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// ENOMEM when there are too many.
    pub fn allocate_protection_domain(&self) -> Result<ProtectionDomain> {
        let (line, context) = (self.line, self.key);
        let key = ask(line, &Request::AllocateDomain { context })?;
        Ok(ProtectionDomain { line, key })
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// ENOMEM when there are too many; what the system says when it has no descriptors left.
    pub fn create_completion_channel(&self) -> Result<CompletionChannel> {
        let (line, context) = (self.line, self.key);
        let (key, descriptor) =
            with_descriptor(line, |sockets| Request::CreateChannel { context, sockets })?;
        Ok(CompletionChannel {
            line,
            key,
            descriptor,
        })
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, an unknown vector, or a channel of another context.
    pub fn create_completion_queue(
        &self,
        options: &CompletionQueueOptions,
    ) -> Result<CompletionQueue> {
        let (line, context) = (self.line, self.key);
        let options = options.map(|channel| channel.key);
        let (key, cost): (Key, Option<u64>) =
            ask(line, &Request::CreateQueue { context, options })?;
        if let (Some(credits), Some(cost)) = (line.credits(), cost) {
            credits.made_queue(key, cost);
        }
        Ok(CompletionQueue { line, key })
    }

    /// Closes the device. What is left of its objects goes with it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn close(&self) -> Result<()> {
        let context = self.key;
        ask::<()>(self.line, &Request::Close { context })?;
        if let Some(credits) = self.line.credits() {
            credits.closed();
        }
        close(self.descriptor);
        Ok(())
    }
}

impl CompletionChannel {
    /// A descriptor that can be read while events wait, and may be set to `O_NONBLOCK`. It is
    /// closed with the channel.
    #[must_use]
    pub const fn fd(&self) -> RawFd {
        self.descriptor
    }

    /// The next event: the cookie of a completion queue. Waits for one unless the descriptor is
    /// `O_NONBLOCK`. Each must be acknowledged by [`CompletionQueue::acknowledge_events`].
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event and the descriptor does not block.
    pub fn next_event(&self) -> Result<u64> {
        let (channel, waits) = (self.key, waits(self.descriptor)?);
        ask(self.line, &Request::NextEvent { channel, waits })
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy(&self) -> Result<()> {
        let channel = self.key;
        ask::<()>(self.line, &Request::DestroyChannel { channel })?;
        close(self.descriptor);
        Ok(())
    }
}

impl CompletionQueue {
    /// Takes completions, oldest first, and says how many.
    ///
    /// # Errors
    ///
    /// EIO when it has overrun and is empty, EINVAL when it is gone.
    pub fn poll(&self, completions: &mut [Completion]) -> Result<usize> {
        let mut places = completions.iter_mut();
        self.poll_each(places.len(), |completion| {
            if let Some(place) = places.next() {
                *place = *completion;
            }
        })
    }

    /// Shows at most so many completions, oldest first, and says how many.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn poll_each(&self, most: usize, visit: impl FnMut(&Completion)) -> Result<usize> {
        let (queue, most) = (self.key, most.min(COMPLETIONS_MAX) as u32);
        if self.looks_in_vain() {
            return Ok(0);
        }
        let found: Result<Vec<Completion>> = ask(self.line, &Request::Poll { queue, most });
        looked::asked(matches!(&found, Ok(found) if !found.is_empty()));
        let found = found?;
        if let Some(credits) = self.line.credits() {
            credits.completed(&found);
        }
        found.iter().for_each(visit);
        Ok(found.len())
    }

    /// Looks into it, where it is known that nothing is there: whether that was so.
    fn looks_in_vain(&self) -> bool {
        let (line, queue) = (self.line, self.key);
        let Some(cost) = line.credits().and_then(|credits| credits.look(queue)) else {
            return false;
        };
        let mut bytes = Vec::new();
        Request::Looked { queue }.put(&mut bytes);
        let is_in_vain = looked::is_first(queue) && line.look(&bytes, cost);
        if is_in_vain {
            looked::at(queue);
        }
        is_in_vain
    }

    /// Has it tell its channel, once, of what comes from now on.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&self, is_solicited_only: bool) -> Result<()> {
        let queue = self.key;
        let asked = Request::Arm {
            queue,
            is_solicited_only,
        };
        ask(self.line, &asked)
    }

    /// Completions that find room.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&self) -> Result<u32> {
        let queue = self.key;
        ask(self.line, &Request::Entries { queue })
    }

    /// Changes its size, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&self, entries: u32) -> Result<u32> {
        let queue = self.key;
        ask(self.line, &Request::Resize { queue, entries })
    }

    /// Says that events of its channel have been dealt with.
    pub fn acknowledge_events(&self, count: u32) {
        let queue = self.key;
        let _ = ask::<()>(self.line, &Request::Acknowledge { queue, count });
    }

    /// Destroys it. Waits until every event that was handed out is acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        let queue = self.key;
        ask::<()>(self.line, &Request::DestroyQueue { queue })?;
        if let Some(credits) = self.line.credits() {
            credits.destroyed_queue(queue);
        }
        Ok(())
    }
}

macro_rules! acknowledge_async_events {
    ($($name:ident: $owner:ident;)+) => {
        $(impl $name {
            /// Says that asynchronous events about it have been dealt with.
            pub fn acknowledge_async_events(&self, count: u32) {
                let owner = Owner::$owner(self.key);
                let _ = ask::<()>(self.line, &Request::AcknowledgeAsync { owner, count });
            }
        })+
    };
}

acknowledge_async_events! {
    CompletionQueue: Queue;
    SharedReceiveQueue: Shared;
    QueuePair: Pair;
}

impl ProtectionDomain {
    /// Opens memory of this program to requests: `length` bytes from `address`, which requests call
    /// by addresses from `iova` on.
    ///
    /// # Errors
    ///
    /// EINVAL for REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, an unknown bit, or a range
    /// past the end of memory; EOPNOTSUPP for on-demand paging; ENOMEM when there are too many
    /// regions.
    ///
    /// # Safety
    ///
    /// The memory stays where it is until the region is deregistered, and the program expects
    /// requests to read and write it as `access` lets them.
    pub unsafe fn register_memory(
        &self,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<MemoryRegion> {
        let (line, domain) = (self.line, self.key);
        let asked = Request::Register {
            domain,
            address,
            length,
            iova,
            access,
        };
        let (key, memory_key) = ask(line, &asked)?;
        Ok(MemoryRegion {
            line,
            key,
            memory_key,
        })
    }

    /// Makes a queue pair, in the state RESET.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's or objects of another context.
    pub fn create_queue_pair(&self, options: &QueuePairOptions) -> Result<QueuePair> {
        let (line, domain) = (self.line, self.key);
        let options = options.map(|queue| queue.key, |shared| shared.key);
        let made = ask(line, &Request::CreatePair { domain, options })?;
        let ((key, number), cost): ((Key, u32), Option<u64>) = made;
        if let (Some(credits), Some(cost)) = (line.credits(), cost) {
            credits.made(number, &options, cost);
        }
        Ok(QueuePair { line, key, number })
    }

    /// Makes a shared receive queue. `cookie` names it in asynchronous events.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's.
    pub fn create_shared_receive_queue(
        &self,
        attributes: &SharedReceiveAttributes,
        cookie: u64,
    ) -> Result<SharedReceiveQueue> {
        let (line, domain, attributes) = (self.line, self.key, *attributes);
        let asked = Request::CreateShared {
            domain,
            attributes,
            cookie,
        };
        let (key, cost): (Key, Option<u64>) = ask(line, &asked)?;
        if let (Some(credits), Some(cost)) = (line.credits(), cost) {
            credits.made_shared(key, &attributes, cost);
        }
        Ok(SharedReceiveQueue { line, key })
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, for an address without a route, or for a source past the
    /// table of GIDs.
    pub fn create_address_handle(&self, attributes: &AddressAttributes) -> Result<AddressHandle> {
        let (line, domain, attributes) = (self.line, self.key, *attributes);
        let key = ask(line, &Request::CreateAddress { domain, attributes })?;
        if let Some(credits) = line.credits() {
            credits.made_address(key);
        }
        Ok(AddressHandle { line, key })
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// EBUSY while something was made in it.
    pub fn deallocate(&self) -> Result<()> {
        let domain = self.key;
        ask(self.line, &Request::DeallocateDomain { domain })
    }
}

impl MemoryRegion {
    /// `lkey` and `rkey`. It stays the same when the region is registered again.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.memory_key
    }

    /// Changes what `flags` name.
    ///
    /// # Errors
    ///
    /// As for [`ProtectionDomain::register_memory`]; the region is as before then.
    ///
    /// # Safety
    ///
    /// As for [`ProtectionDomain::register_memory`].
    pub unsafe fn reregister(
        &self,
        flags: u32,
        domain: Option<ProtectionDomain>,
        address: u64,
        length: u64,
        access: u32,
    ) -> Result<()> {
        let asked = Request::Reregister {
            region: self.key,
            flags,
            domain: domain.map(|domain| domain.key),
            address,
            length,
            access,
        };
        ask(self.line, &asked)
    }

    /// Closes the memory to requests.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn deregister(&self) -> Result<()> {
        let region = self.key;
        ask(self.line, &Request::Deregister { region })
    }
}

impl AddressHandle {
    /// Gives it back. Datagrams that were posted with it still go.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        let address = self.key;
        ask::<()>(self.line, &Request::DestroyAddress { address })?;
        if let Some(credits) = self.line.credits() {
            credits.destroyed_address(address);
        }
        Ok(())
    }
}

fn receive_of(request: &ReceiveRequest<'_>) -> Receive {
    Receive {
        request: request.request,
        elements: request.elements.to_vec(),
    }
}

impl SharedReceiveQueue {
    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.key.index()
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is full, EINVAL for too many elements.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        let (shared, receive) = (self.key, receive_of(request));
        let elements = receive.elements.len();
        let credits = self.line.credits();
        let cost = credits.and_then(|credits| credits.receive_shared(shared, elements));
        post(
            self.line,
            &Request::PostShared { shared, receive },
            cost,
            false,
        )?;
        if let (Some(credits), None) = (credits, cost) {
            credits.received_shared(shared);
        }
        Ok(())
    }

    /// Changes what `mask` names.
    ///
    /// # Errors
    ///
    /// EINVAL for a limit past its size, EOPNOTSUPP for another size.
    pub fn modify(&self, attributes: &SharedReceiveAttributes, mask: u32) -> Result<()> {
        let (shared, attributes) = (self.key, *attributes);
        let asked = Request::ModifyShared {
            shared,
            attributes,
            mask,
        };
        ask(self.line, &asked)
    }

    /// Sizes, and the limit if it has not been told of.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<SharedReceiveAttributes> {
        let shared = self.key;
        ask(self.line, &Request::QueryShared { shared })
    }

    /// Destroys it. Waits until every event that was handed out is acknowledged.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        let shared = self.key;
        ask::<()>(self.line, &Request::DestroyShared { shared })?;
        if let Some(credits) = self.line.credits() {
            credits.destroyed_shared(shared);
        }
        Ok(())
    }
}

impl QueuePair {
    /// Its number, 24 bits, by which its peer names it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Changes what `mask` names.
    ///
    /// # Errors
    ///
    /// EINVAL for a transition that does not exist, an attribute that is missing, one that has no
    /// place in it, or a value past the device's; EOPNOTSUPP for second paths and rates.
    pub fn modify(&self, attributes: &QueuePairAttributes, mask: u32) -> Result<()> {
        let (pair, attributes) = (self.key, *attributes);
        let asked = Request::Modify {
            pair,
            attributes,
            mask,
        };
        ask::<()>(self.line, &asked)?;
        if mask & flags::attribute::STATE != 0
            && let Some(credits) = self.line.credits()
        {
            credits.modified(self.number, attributes.state);
        }
        Ok(())
    }

    /// Takes a new one up to RTS: through INIT and RTR, with the attributes that each step must
    /// name.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::modify`].
    pub fn raise(&self, attributes: &QueuePairAttributes) -> Result<()> {
        let kind = self.query()?.1.kind;
        for (step, mask) in attributes.steps_up(kind) {
            self.modify(&step, mask)?;
        }
        Ok(())
    }

    /// All that was set, and what it was made with (with the sizes that it got).
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<(QueuePairAttributes, QueuePairOptions)> {
        let (line, pair) = (self.line, self.key);
        let asked = Request::Query { pair };
        let (attributes, options): (QueuePairAttributes, verbs::QueuePairOptions) =
            ask(line, &asked)?;
        let options = options.map(
            |&key| CompletionQueue { line, key },
            |&key| SharedReceiveQueue { line, key },
        );
        Ok((attributes, options))
    }

    /// Posts a piece of work.
    ///
    /// # Errors
    ///
    /// EINVAL in a state without sends, for an opcode that the type has not, too many elements or
    /// too many inline bytes; ENOMEM when the queue is full.
    ///
    /// # Safety
    ///
    /// With the flag `INLINE` the elements' bytes can be read now.
    pub unsafe fn post_send(&self, request: &SendRequest<'_>) -> Result<()> {
        // SAFETY: as promised by the caller.
        unsafe { self.post_sends(std::slice::from_ref(request)) }
    }

    /// Posts several pieces of work: all of them, or none.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    ///
    /// # Safety
    ///
    /// As [`QueuePair::post_send`].
    pub unsafe fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<()> {
        // SAFETY: as promised by the caller.
        let send = |request| unsafe { send_of(request) };
        let sends: Vec<Send> = requests.iter().map(send).collect();
        let (pair, credits) = (self.key, self.line.credits());
        let cost = credits.and_then(|credits| credits.sends(self.number, &sends));
        let asked = Request::PostSends { pair, sends };
        let completes_soon = credits.is_none_or(|credits| credits.completes_soon(self.number));
        post(self.line, &asked, cost, completes_soon)?;
        if let (Some(credits), None, Request::PostSends { sends, .. }) = (credits, cost, &asked) {
            credits.sent(self.number, sends);
        }
        Ok(())
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// EINVAL in the state RESET, with a shared receive queue, or for too many elements; ENOMEM
    /// when the queue is full.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        let (pair, receive) = (self.key, receive_of(request));
        let elements = receive.elements.len();
        let credits = self.line.credits();
        let cost = credits.and_then(|credits| credits.receive(self.number, elements));
        post(
            self.line,
            &Request::PostReceive { pair, receive },
            cost,
            false,
        )?;
        if let (Some(credits), None) = (credits, cost) {
            credits.received(self.number);
        }
        Ok(())
    }

    /// Destroys it: what is posted is gone without completions, and so are those of its completions
    /// that wait in a queue. Waits until every asynchronous event that was handed out is
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        let pair = self.key;
        ask::<()>(self.line, &Request::DestroyPair { pair })?;
        if let Some(credits) = self.line.credits() {
            credits.destroyed(self.number);
        }
        Ok(())
    }
}

/// Bytes that are taken of a send that says it is inline: one that has more is refused, for which
/// its length alone is looked at.
const INLINE_TAKEN_MAX: u64 = 4096;

/// # Safety
///
/// With the flag `INLINE` the elements' bytes can be read now.
unsafe fn send_of(request: &SendRequest<'_>) -> Send {
    let mut inline = Vec::new();
    let bytes = verbs::bytes_of(request.elements);
    if request.flags & flags::send::INLINE != 0 && bytes <= INLINE_TAKEN_MAX {
        for ScatterGatherElement {
            address, length, ..
        } in request.elements
        {
            let length = *length as usize;
            if length > 0 {
                // SAFETY: as promised by the caller.
                let bytes = unsafe { std::slice::from_raw_parts(*address as *const u8, length) };
                inline.extend_from_slice(bytes);
            }
        }
    }
    Send {
        request: request.request,
        opcode: request.opcode,
        flags: request.flags,
        elements: request.elements.to_vec(),
        inline,
        immediate: request.immediate,
        remote_address: request.remote_address,
        remote_key: request.remote_key,
        compare_add: request.compare_add,
        swap: request.swap,
        datagram: request.datagram.as_ref().map(|datagram| Datagram {
            address: datagram.address.key,
            queue_pair: datagram.queue_pair,
            queue_key: datagram.queue_key,
        }),
    }
}
