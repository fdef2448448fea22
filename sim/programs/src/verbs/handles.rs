//! What programs hold: devices, queue pairs, completion queues and memory of their host.

use std::cell::UnsafeCell;
use std::fmt;
use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use viaduct_hardware::Mechanism;
use viaduct_provider::via::verbs::{
    self, Adapter, AddressAttributes, AsyncEvent, Completion, Error, Key, QueuePairAttributes,
    QueuePairState, ReceiveRequest, Result, ScatterGatherElement, SharedReceiveAttributes, errno,
};

use super::host::ProgramMemory;
use crate::cluster::Hosted;
use crate::process::Process;

/// What a queue pair is made with.
pub type QueuePairOptions = verbs::QueuePairOptions<CompletionQueue, SharedReceiveQueue>;
/// What a completion queue is made with.
pub type CompletionQueueOptions = verbs::CompletionQueueOptions<CompletionChannel>;
/// A piece of work for the send queue.
pub type SendRequest<'a> = verbs::SendRequest<'a, &'a AddressHandle>;
/// Where a datagram goes.
pub type DatagramDestination<'a> = verbs::DatagramDestination<&'a AddressHandle>;

macro_rules! handles {
    ($($(#[$about:meta])* $name:ident;)+) => {
        $($(#[$about])*
        #[derive(Clone)]
        pub struct $name {
            process: Process,
            key: Key,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut handle = formatter.debug_struct(stringify!($name));
                handle.field("host", &self.process.host()).field("key", &self.key).finish()
            }
        })+
    };
}

handles! {
    /// An opened device. Every opening is one of its own: objects of one are not those of another.
    Context;
    /// A protection domain.
    ProtectionDomain;
    /// Where completion queues tell that something is in them.
    CompletionChannel;
    /// Where completions are found.
    CompletionQueue;
    /// Receives of many queue pairs.
    SharedReceiveQueue;
    /// Where datagrams go.
    AddressHandle;
}

/// The RDMA adapter of a host.
#[derive(Clone, Debug)]
pub struct Device {
    process: Process,
}

/// Memory that is open to requests.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    process: Process,
    key: Key,
    memory_key: u32,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct QueuePair {
    process: Process,
    key: Key,
    number: u32,
}

/// Memory of a program that is open to requests, until this is dropped.
pub struct Buffer {
    region: MemoryRegion,
    memory: Box<[UnsafeCell<u64>]>,
    bytes: usize,
}

// SAFETY: the adapter and programs reach the bytes under the lock of the simulation alone.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = formatter.debug_struct("Buffer");
        buffer
            .field("region", &self.region)
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// An operation on the adapter of a program's host.
fn call<T>(process: &Process, act: impl FnOnce(&mut Adapter) -> Result<T>) -> Result<T> {
    let host = process.host();
    process
        .ask(|cluster| {
            let result = act(Hosted::adapter(cluster, host));
            Hosted::follow_pairs(cluster, host, None);
            result
        })
        .unwrap_or_else(|| Err(dead(host)))
}

fn dead(host: u32) -> Error {
    Error::new(errno::EIO, format!("host{host} is dead"))
}

fn nothing_yet() -> Error {
    Error::new(errno::EAGAIN, "there is nothing yet")
}

impl Process {
    /// The RDMA adapter of the host.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP if its adapter has no queue pairs: presets whose mechanism is `rdma` have.
    pub fn rdma(&self) -> Result<Device> {
        let cluster = self.lock();
        if !Hosted::has_pairs(&cluster) {
            let reason = match cluster.config.host.mechanism {
                Mechanism::RemoteWrites(_) => "the adapter writes remotely and has no queue pairs",
                _ => "the adapter has no queue pairs: use a preset with the mechanism `rdma`",
            };
            return Err(Error::new(errno::EOPNOTSUPP, reason));
        }
        drop(cluster);
        let process = self.clone();
        Ok(Device { process })
    }
}

impl Device {
    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        "sim0"
    }

    /// Its address, at index 0 of its GIDs: that of an IPv4 address.
    #[must_use]
    pub fn gid(&self) -> [u8; 16] {
        let host = self.process.host();
        Hosted::adapter(&mut self.process.lock(), host)
            .attributes()
            .gid
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is open too often.
    pub fn open(&self) -> Result<Context> {
        let key = call(&self.process, Adapter::open)?;
        let process = self.process.clone();
        Ok(Context { process, key })
    }
}

impl Context {
    /// The program's view of the host.
    #[must_use]
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// What was opened.
    #[must_use]
    pub fn device(&self) -> Device {
        let process = self.process.clone();
        Device { process }
    }

    /// The next asynchronous event, without waiting.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event, EINVAL when it is closed.
    pub fn try_next_async_event(&self) -> Result<AsyncEvent> {
        let event = call(&self.process, |adapter| adapter.next_async_event(self.key))?;
        event.ok_or_else(nothing_yet)
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// ENOMEM when there are too many.
    pub fn allocate_protection_domain(&self) -> Result<ProtectionDomain> {
        let key = call(&self.process, |adapter| adapter.allocate_domain(self.key))?;
        let process = self.process.clone();
        Ok(ProtectionDomain { process, key })
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// ENOMEM when there are too many.
    pub fn create_completion_channel(&self) -> Result<CompletionChannel> {
        let key = call(&self.process, |adapter| adapter.create_channel(self.key))?;
        let process = self.process.clone();
        Ok(CompletionChannel { process, key })
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
        let options = verbs::CompletionQueueOptions {
            entries: options.entries,
            cookie: options.cookie,
            channel: options.channel.as_ref().map(|channel| channel.key),
            vector: options.vector,
            has_timestamps: options.has_timestamps,
            ignores_overrun: options.ignores_overrun,
        };
        let key = call(&self.process, |adapter| {
            adapter.create_completion_queue(self.key, &options)
        })?;
        let process = self.process.clone();
        Ok(CompletionQueue { process, key })
    }

    /// Closes the device. What is left of its objects goes with it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn close(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.close(self.key))
    }
}

impl CompletionChannel {
    /// The next event: the cookie of a completion queue. Sleeps until one comes, for so long at
    /// most; its host's processor is interrupted then.
    ///
    /// # Errors
    ///
    /// EAGAIN when the time is over or the program cannot wait, EINVAL when it is gone.
    pub fn next_event(&self, limit: Option<Duration>) -> Result<u64> {
        let host = self.process.host();
        let event = self.process.sleep_for(limit, |cluster| {
            let event = Hosted::adapter(cluster, host).next_completion_event(self.key);
            event.transpose()
        });
        event.unwrap_or_else(|| Err(nothing_yet()))
    }

    /// The same, without waiting.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event, EINVAL when it is gone.
    pub fn try_next_event(&self) -> Result<u64> {
        let next = |adapter: &mut Adapter| adapter.next_completion_event(self.key);
        call(&self.process, next)?.ok_or_else(nothing_yet)
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.destroy_channel(self.key))
    }
}

impl CompletionQueue {
    /// Takes completions, oldest first, and says how many. An empty poll costs the program one turn
    /// of its polling loop.
    ///
    /// # Errors
    ///
    /// EIO when it has overrun and is empty, EINVAL when it is gone.
    pub fn poll(&self, into: &mut [Completion]) -> Result<usize> {
        let host = self.process.host();
        let found = self.process.glance(|cluster| {
            let adapter = Hosted::adapter(cluster, host);
            let mut taken = 0;
            while taken < into.len() {
                match adapter.poll(self.key) {
                    Ok(Some(completion)) => into[taken] = completion,
                    Ok(None) => break,
                    Err(error) if taken == 0 => return Some((Err(error), 1)),
                    Err(_) => break,
                }
                taken += 1;
            }
            (taken > 0).then_some((Ok(taken), taken as u64))
        });
        found.unwrap_or(Ok(0))
    }

    /// Looks in a loop until there is a completion, for so long at most; `None` when the time is
    /// over or the program cannot wait.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, limit: Option<Duration>) -> Result<Option<Completion>> {
        let host = self.process.host();
        let look = |cluster: &mut crate::cluster::Cluster| {
            let completion = Hosted::adapter(cluster, host).poll(self.key);
            completion.transpose()
        };
        let completion = self.process.poll_memory(limit, look).transpose()?;
        if completion.is_some() {
            self.process.pay_for_reaping();
        }
        Ok(completion)
    }

    /// As [`CompletionQueue::wait`], for asynchronous programs.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub async fn completed(&self) -> Result<Completion> {
        let host = self.process.host();
        let mut has_looked = false;
        let completion = poll_fn(|_| {
            ready!(self.process.poll_caught_up());
            let mut cluster = self.process.lock();
            let completion = Hosted::adapter(&mut cluster, host).poll(self.key);
            drop(cluster);
            match completion.transpose() {
                Some(completion) => Poll::Ready(completion),
                None => {
                    has_looked = true;
                    self.process.watch();
                    Poll::Pending
                }
            }
        })
        .await?;
        if has_looked {
            self.process.pay_for_polling();
        }
        self.process.pay_for_reaping();
        Ok(completion)
    }

    /// Has it tell its channel, once, of what comes from now on.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&self, is_solicited_only: bool) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.arm(self.key, is_solicited_only)
        })
    }

    /// Completions that find room.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&self) -> Result<u32> {
        call(&self.process, |adapter| adapter.entries(self.key))
    }

    /// Changes its size, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&self, entries: u32) -> Result<u32> {
        call(&self.process, |adapter| adapter.resize(self.key, entries))
    }

    /// Destroys it, with the events that nobody has taken.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.destroy_completion_queue(self.key)
        })
    }
}

impl ProtectionDomain {
    /// Opens memory of this program to requests: `length` bytes from `address`, which requests call
    /// by addresses from `iova` on (from 0 with `ZERO_BASED`). `access` has bits of
    /// [`access`](super::flags::access). The key serves local and remote requests.
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
        let register = |adapter: &mut Adapter| {
            adapter.register_memory(self.key, address, length, iova, access)
        };
        let (key, memory_key) = call(&self.process, register)?;
        self.process.pay_for_registering(length);
        let process = self.process.clone();
        Ok(MemoryRegion {
            process,
            key,
            memory_key,
        })
    }

    /// Memory of this program that is open to requests, zeroed.
    ///
    /// # Errors
    ///
    /// As [`ProtectionDomain::register_memory`].
    pub fn allocate(&self, bytes: usize, access: u32) -> Result<Buffer> {
        let words = bytes.div_ceil(8).max(1);
        let memory: Box<[_]> = (0..words).map(|_| UnsafeCell::new(0_u64)).collect();
        let address = memory.as_ptr().addr() as u64;
        // SAFETY: the memory stays where it is until the buffer is dropped, which deregisters it
        // first, and nobody has a reference into it.
        let region = unsafe { self.register_memory(address, bytes as u64, address, access)? };
        // Requests reach it by its address alone.
        let _ = memory.as_ptr().expose_provenance();
        Ok(Buffer {
            region,
            memory,
            bytes,
        })
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
        let create = |adapter: &mut Adapter| adapter.create_shared(self.key, attributes, cookie);
        let key = call(&self.process, create)?;
        let process = self.process.clone();
        Ok(SharedReceiveQueue { process, key })
    }

    /// Makes a queue pair, in the state RESET.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's or objects of another context or host.
    pub fn create_queue_pair(&self, options: &QueuePairOptions) -> Result<QueuePair> {
        let host = self.process.host();
        let shared = options.shared_receive_queue.as_ref();
        let owners = [&options.send_queue.process, &options.receive_queue.process];
        let mut owners = owners
            .into_iter()
            .chain(shared.map(|shared| &shared.process));
        if owners.any(|owner| owner.host() != host) {
            return Err(Error::new(errno::EINVAL, "an object is of another host"));
        }
        let options = verbs::QueuePairOptions {
            kind: options.kind,
            capabilities: options.capabilities,
            send_queue: options.send_queue.key,
            receive_queue: options.receive_queue.key,
            shared_receive_queue: shared.map(|shared| shared.key),
            is_every_send_signaled: options.is_every_send_signaled,
            cookie: options.cookie,
        };
        let (key, number) = call(&self.process, |adapter| {
            adapter.create_pair(self.key, &options)
        })?;
        let process = self.process.clone();
        Ok(QueuePair {
            process,
            key,
            number,
        })
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, for an address without a route, or for a source past the
    /// table of GIDs.
    pub fn create_address_handle(&self, attributes: &AddressAttributes) -> Result<AddressHandle> {
        let key = call(&self.process, |adapter| {
            adapter.create_address(self.key, attributes)
        })?;
        let process = self.process.clone();
        Ok(AddressHandle { process, key })
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// EBUSY while something was made in it.
    pub fn deallocate(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.deallocate_domain(self.key))
    }
}

impl MemoryRegion {
    /// `lkey` and `rkey`. It stays the same when the region is registered again.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.memory_key
    }

    /// Changes what `flags` (bits of [`reregister`](super::flags::reregister)) name.
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
        domain: Option<&ProtectionDomain>,
        address: u64,
        length: u64,
        access: u32,
    ) -> Result<()> {
        let domain = domain.map(|domain| domain.key);
        call(&self.process, |adapter| {
            adapter.reregister_memory(self.key, flags, domain, (address, length), access)
        })
    }

    /// Closes the memory to requests.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn deregister(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.deregister_memory(self.key))
    }
}

impl Buffer {
    /// Its first byte, as requests call it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.as_ptr().addr() as u64
    }

    /// `lkey` and `rkey`.
    #[must_use]
    pub const fn memory_key(&self) -> u32 {
        self.region.memory_key()
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A piece of it, for requests. Where it ends past the buffer requests are refused.
    #[must_use]
    pub fn element(&self, from: usize, length: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.address() + from as u64,
            length,
            local_key: self.memory_key(),
        }
    }

    fn check(&self, from: usize, length: usize) -> *mut u8 {
        let is_inside = from
            .checked_add(length)
            .is_some_and(|end| end <= self.bytes);
        assert!(
            is_inside,
            "{length} bytes from {from} on are not inside a buffer of {}",
            self.bytes
        );
        self.memory
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(from)
            .cast_mut()
    }

    /// Writes bytes from an offset on.
    ///
    /// # Panics
    ///
    /// Past its end.
    pub fn write(&self, from: usize, bytes: &[u8]) {
        let to = self.check(from, bytes.len());
        let _locked = self.region.process.lock();
        // SAFETY: inside, and under the lock.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Looks at the bytes until there is something to see, in a loop; `None` when the time is over,
    /// or when the program cannot wait. `look` must not use the simulation: it would wait for
    /// itself.
    pub fn poll<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let start = self.check(0, self.bytes);
        self.region.process.poll_memory(limit, |_| {
            // SAFETY: the buffer's own memory, looked at under the lock, in which nobody writes.
            look(unsafe { std::slice::from_raw_parts(start, self.bytes) })
        })
    }

    /// A copy of bytes from an offset on.
    ///
    /// # Panics
    ///
    /// Past its end.
    #[must_use]
    pub fn read(&self, from: usize, length: usize) -> Vec<u8> {
        let start = self.check(from, length);
        let mut bytes = vec![0; length];
        let _locked = self.region.process.lock();
        // SAFETY: inside, and under the lock.
        unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), length) };
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let host = self.region.process.host();
        let mut cluster = self.region.process.lock();
        // It may be gone with its context.
        let _ = Hosted::adapter(&mut cluster, host).deregister_memory(self.region.key);
    }
}

impl SharedReceiveQueue {
    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is full, EINVAL for too many elements.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        post_receive(&self.process, |adapter| {
            adapter.post_shared_receive(self.key, request)
        })
    }

    /// Changes what `mask` (bits of [`shared_receive`](super::flags::shared_receive)) names.
    ///
    /// # Errors
    ///
    /// EINVAL for a limit past its size, EOPNOTSUPP for another size.
    pub fn modify(&self, attributes: &SharedReceiveAttributes, mask: u32) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.modify_shared(self.key, attributes, mask)
        })
    }

    /// Sizes, and the limit if it has not been told of.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<SharedReceiveAttributes> {
        call(&self.process, |adapter| adapter.query_shared(self.key))
    }

    /// Destroys it.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.destroy_shared(self.key))
    }
}

impl AddressHandle {
    /// Gives it back. Datagrams that were posted with it still go.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.destroy_address(self.key))
    }
}

/// Posts a receive, which takes the processor what a post takes.
fn post_receive(process: &Process, act: impl FnOnce(&mut Adapter) -> Result<()>) -> Result<()> {
    let host = process.host();
    process
        .work_on(1, |cluster, _| {
            let result = act(Hosted::adapter(cluster, host));
            Hosted::follow_pairs(cluster, host, None);
            result
        })
        .unwrap_or_else(|| Err(dead(host)))
}

impl QueuePair {
    /// Its number, 24 bits, by which its peer names it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn state(&self) -> Result<QueuePairState> {
        call(&self.process, |adapter| adapter.state(self.key))
    }

    /// Changes what `mask` (bits of [`attribute`](super::flags::attribute)) names.
    ///
    /// # Errors
    ///
    /// EINVAL for a transition that does not exist, an attribute that is missing, one that has no
    /// place in it, or a value past the device's; EOPNOTSUPP for second paths and rates.
    pub fn modify(&self, attributes: &QueuePairAttributes, mask: u32) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.modify(self.key, attributes, mask)
        })
    }

    /// Takes a new one up to RTS: through INIT and RTR, with the attributes that each step must
    /// name.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::modify`].
    pub fn raise(&self, attributes: &QueuePairAttributes) -> Result<()> {
        let kind = call(&self.process, |adapter| adapter.query(self.key))?
            .1
            .kind;
        for (step, mask) in attributes.steps_up(kind) {
            self.modify(&step, mask)?;
        }
        Ok(())
    }

    /// All that was set, and its type and sizes.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query(&self) -> Result<(QueuePairAttributes, verbs::QueuePairOptions)> {
        call(&self.process, |adapter| adapter.query(self.key))
    }

    /// Posts a piece of work, which takes the processor what a post takes.
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

    /// Posts several pieces of work, all of them or none, with one doorbell.
    ///
    /// # Errors
    ///
    /// As [`QueuePair::post_send`].
    ///
    /// # Safety
    ///
    /// As [`QueuePair::post_send`].
    pub unsafe fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<()> {
        let host = self.process.host();
        let requests: Vec<verbs::SendRequest<'_>> = requests.iter().map(plain).collect();
        // SAFETY: as promised by the caller.
        let memory = unsafe { ProgramMemory::new() };
        self.process
            .work_on(requests.len() as u64, |cluster, worked| {
                let adapter = Hosted::adapter(cluster, host);
                let result = adapter.post_sends(self.key, &requests, &memory);
                let posted = (self.key.index(), worked);
                Hosted::follow_pairs(cluster, host, Some(posted));
                result
            })
            .unwrap_or_else(|| Err(dead(host)))
    }

    /// Posts a receive, which takes the processor what a post takes.
    ///
    /// # Errors
    ///
    /// EINVAL in the state RESET, with a shared receive queue, or for too many elements; ENOMEM
    /// when the queue is full.
    pub fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        post_receive(&self.process, |adapter| {
            adapter.post_receive(self.key, request)
        })
    }

    /// Destroys it: what is posted is gone without completions, and so are those of its completions
    /// that wait in a queue.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| adapter.destroy_pair(self.key))
    }
}

/// A request as the adapter knows it.
fn plain<'a>(request: &SendRequest<'a>) -> verbs::SendRequest<'a> {
    verbs::SendRequest {
        request: request.request,
        opcode: request.opcode,
        flags: request.flags,
        elements: request.elements,
        immediate: request.immediate,
        remote_address: request.remote_address,
        remote_key: request.remote_key,
        compare_add: request.compare_add,
        swap: request.swap,
        datagram: request.datagram.map(|way| verbs::DatagramDestination {
            address: way.address.key,
            queue_pair: way.queue_pair,
            queue_key: way.queue_key,
        }),
    }
}
