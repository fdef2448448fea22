//! What programs hold: devices, queue pairs, completion queues and memory of their host.

use std::fmt;
use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use viaduct_agent::agent_of;
use viaduct_cluster::programs::{PairPost, operation_of};
use viaduct_engine::Time;
use viaduct_hardware::Mechanism;
use viaduct_provider::via::verbs::carrier::Signal;
use viaduct_provider::via::verbs::notices::{Destruction, Owner};
use viaduct_provider::via::verbs::{
    self, Adapter, AddressAttributes, AsyncEvent, Completion, Error, Key, Limits,
    QueuePairAttributes, QueuePairState, ReceiveRequest, Result, SharedReceiveAttributes, errno,
};

use super::host::{ProgramMemory, host_of};
use crate::cluster::{Cluster, Hosted};
use crate::host::device_name;
use crate::process::{Looks, Process};

/// What a queue pair is made with.
pub type QueuePairOptions = verbs::QueuePairOptions<CompletionQueue, SharedReceiveQueue>;
/// What a completion queue is made with.
pub type CompletionQueueOptions = verbs::CompletionQueueOptions<CompletionChannel>;
/// A piece of work for the send queue.
pub type SendRequest<'a> = verbs::SendRequest<'a, &'a AddressHandle>;
/// Where a datagram goes.
pub type DatagramDestination<'a> = verbs::DatagramDestination<&'a AddressHandle>;

/// Handles by their keys, for whoever keeps these elsewhere.
macro_rules! keyed {
    ($name:ident) => {
        impl $name {
            /// That of a key on a host, by whichever of its adapters; of one that names nothing
            /// every call says so.
            #[must_use]
            pub fn of(process: &Process, key: Key) -> Self {
                let process = process.at_adapter_of(key.to_bits());
                Self { process, key }
            }

            /// By what it is named among those of its host, of all adapters.
            #[must_use]
            pub const fn key(&self) -> Key {
                self.key
            }
        }
    };
}

macro_rules! handles {
    ($($(#[$about:meta])* $name:ident;)+) => {
        $($(#[$about])*
        #[derive(Clone)]
        pub struct $name {
            pub(super) process: Process,
            pub(super) key: Key,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut handle = formatter.debug_struct(stringify!($name));
                handle.field("place", &self.process.place()).field("key", &self.key).finish()
            }
        }

        keyed!($name);)+
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

/// A queue pair.
#[derive(Clone, Debug)]
pub struct QueuePair {
    process: Process,
    key: Key,
    number: u32,
}

/// An operation on the adapter of a program's host.
pub(super) fn call<T>(process: &Process, act: impl FnOnce(&mut Adapter) -> Result<T>) -> Result<T> {
    let host = process.place();
    process
        .ask(|cluster| {
            let result = act(Hosted::adapter(cluster, host));
            // It may have thrown out what was posted, or destroyed or reset who had it.
            cluster.settle_pairs(host);
            Hosted::follow_pairs(cluster, host, None);
            result
        })
        .unwrap_or_else(|| Err(dead(process)))
}

/// Destroys something, as soon as the events about it are acknowledged that programs have taken.
fn destroy(
    process: &Process,
    mut act: impl FnMut(&mut Adapter) -> Result<Destruction>,
) -> Result<()> {
    if call(process, &mut act)? == Destruction::Done {
        return Ok(());
    }
    let host = process.place();
    let destroyed = process.sleep_for(None, |cluster| {
        let done = act(Hosted::adapter(cluster, host));
        cluster.settle_pairs(host);
        (done != Ok(Destruction::Waits)).then(|| done.map(drop))
    });
    let Some((destroyed, _)) = destroyed else {
        let reason = "events about it are not acknowledged, and the program cannot wait for that";
        return Err(Error::new(errno::EAGAIN, reason));
    };
    destroyed
}

fn dead(process: &Process) -> Error {
    Error::new(errno::EIO, format!("host{} is dead", process.host()))
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
        let host = self.place();
        if !Hosted::has_pairs(&cluster, host) {
            let reason = match cluster.config.host.of(host).mechanism {
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
    pub fn name(&self) -> String {
        device_name(self.process.adapter())
    }

    /// Its address, at index 0 of its GIDs: that of an IPv4 address.
    #[must_use]
    pub fn gid(&self) -> [u8; 16] {
        let host = self.process.place();
        let mut cluster = self.process.lock();
        let adapter = Hosted::adapter(&mut cluster, host);
        adapter.notices.carrier.gid()
    }

    /// What it has at most.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let host = self.process.place();
        let mut cluster = self.process.lock();
        *Hosted::adapter(&mut cluster, host).limits()
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is open too often.
    pub fn open(&self) -> Result<Context> {
        self.open_with(None)
    }

    /// The same, with something that is told of asynchronous events as they come and are taken.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn open_with(&self, signal: Option<Box<dyn Signal + Send>>) -> Result<Context> {
        let key = call(&self.process, |adapter| adapter.notices.open((), signal))?;
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

    /// The next asynchronous event, without waiting. It is to be acknowledged.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event, EINVAL when it is closed.
    pub fn try_next_async_event(&self) -> Result<AsyncEvent> {
        let event = call(&self.process, |adapter| adapter.next_async_event(self.key))?;
        event.ok_or_else(nothing_yet)
    }

    /// The same; sleeps until one comes, for so long at most.
    ///
    /// # Errors
    ///
    /// EAGAIN when the time is over or the program cannot wait, EINVAL when it is closed.
    pub fn next_async_event(&self, limit: Option<Duration>) -> Result<AsyncEvent> {
        let host = self.process.place();
        let event = self.process.sleep_for(limit, |cluster| {
            let event = Hosted::adapter(cluster, host).next_async_event(self.key);
            event.transpose()
        });
        event.map_or_else(|| Err(nothing_yet()), |(event, _)| event)
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
        self.create_completion_channel_with(None)
    }

    /// The same, with something that is told of events as they come and are taken.
    ///
    /// # Errors
    ///
    /// As [`Context::create_completion_channel`].
    pub fn create_completion_channel_with(
        &self,
        signal: Option<Box<dyn Signal + Send>>,
    ) -> Result<CompletionChannel> {
        let key = call(&self.process, |adapter| {
            adapter.notices.create_channel(self.key, signal)
        })?;
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
        let options = options.map(|channel| channel.key);
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
    /// The next event: the cookie of a completion queue, by which it is to be acknowledged
    /// ([`CompletionQueue::acknowledge_events`]). Sleeps until one comes, for so long at most; its
    /// host's processor is interrupted then.
    ///
    /// # Errors
    ///
    /// EAGAIN when the time is over or the program cannot wait, EINVAL when it is gone.
    pub fn next_event(&self, limit: Option<Duration>) -> Result<u64> {
        let host = self.process.place();
        let event = self.process.sleep_for(limit, |cluster| {
            let event = Hosted::adapter(cluster, host)
                .notices
                .next_completion_event(self.key);
            event.transpose()
        });
        let Some((event, woken)) = event else {
            return Err(nothing_yet());
        };
        if let Some(verbs) = &mut self.process.lock().programs.host(host).verbs {
            verbs.woken = woken;
        }
        event
    }

    /// The same, without waiting.
    ///
    /// # Errors
    ///
    /// EAGAIN when there is no event, EINVAL when it is gone.
    pub fn try_next_event(&self) -> Result<u64> {
        let next = |adapter: &mut Adapter| adapter.notices.next_completion_event(self.key);
        call(&self.process, next)?.ok_or_else(nothing_yet)
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy(&self) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.notices.destroy_channel(self.key)
        })
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
        self.poll_often(into, 1, &[])
    }

    /// Polls so often at most, until there is something. Takes the time that such a loop takes. It
    /// polls the queues `beside` this one as well, of any adapter of the host, one after the other,
    /// and ends after a poll of this one when there is something in one of them, or sooner: what it
    /// finds there is left there.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn poll_often(&self, into: &mut [Completion], polls: u64, beside: &[Key]) -> Result<usize> {
        let host = self.process.place();
        let looks = Looks {
            count: polls,
            places: beside.len() as u64 + 1,
        };
        let is_beside = |cluster: &mut Cluster| {
            let places = cluster.places_with(host);
            beside.iter().any(|other| {
                let place = places.start + agent_of(other.to_bits());
                let is_there = places.contains(&place);
                is_there
                    && Hosted::adapter(cluster, place)
                        .notices
                        .has_something(*other)
            })
        };
        let found = self.process.glance(looks, is_beside, |cluster| {
            let notices = &mut Hosted::adapter(cluster, host).notices;
            let mut places = into.iter_mut();
            let taken = notices.take(self.key, places.len(), &mut |completion| {
                if let Some(place) = places.next() {
                    *place = *completion;
                }
            });
            match taken {
                Ok(0) => None,
                Ok(taken) => Some((Ok(taken), taken as u64)),
                Err(error) => Some((Err(error), 1)),
            }
        });
        let Some((taken, take)) = found else {
            return Ok(0);
        };
        let taken = taken?;
        Hosted::tell_completed(&mut self.process.lock(), host, &into[..taken], take);
        Ok(taken)
    }

    /// Looks in a loop until there is a completion, for so long at most; `None` when the time is
    /// over or the program cannot wait.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub fn wait(&self, limit: Option<Duration>) -> Result<Option<Completion>> {
        let host = self.process.place();
        let look = |cluster: &mut Cluster| {
            let completion = Hosted::adapter(cluster, host).notices.poll(self.key);
            completion.transpose()
        };
        let Some((completion, notice)) = self.process.notice_in_memory(limit, look) else {
            return Ok(None);
        };
        let completion = completion?;
        self.process.pay_for_reaping(&completion, notice);
        Ok(Some(completion))
    }

    /// As [`CompletionQueue::wait`], for asynchronous programs.
    ///
    /// # Errors
    ///
    /// As [`CompletionQueue::poll`].
    pub async fn completed(&self) -> Result<Completion> {
        let host = self.process.place();
        let mut has_looked = false;
        let completion = poll_fn(|_| {
            ready!(self.process.poll_caught_up());
            let mut cluster = self.process.lock();
            let completion = Hosted::adapter(&mut cluster, host).notices.poll(self.key);
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
        let mut notice = Time::ZERO;
        if has_looked {
            self.process.pay_for_polling();
            let host = self.process.place();
            notice = self
                .process
                .lock()
                .config
                .host
                .of(host)
                .processor
                .polling_delay;
        }
        self.process.pay_for_reaping(&completion, notice);
        Ok(completion)
    }

    /// Has it tell its channel, once, of what comes from now on.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&self, is_solicited_only: bool) -> Result<()> {
        call(&self.process, |adapter| {
            adapter.notices.arm(self.key, is_solicited_only)
        })
    }

    /// Completions that find room.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&self) -> Result<u32> {
        call(&self.process, |adapter| adapter.notices.entries(self.key))
    }

    /// Changes its size, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&self, entries: u32) -> Result<u32> {
        call(&self.process, |adapter| adapter.resize(self.key, entries))
    }

    /// Destroys it, with the events that nobody has taken. Sleeps until those are acknowledged that
    /// a program has taken.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it; EAGAIN when it has to wait and the program cannot.
    pub fn destroy(&self) -> Result<()> {
        destroy(&self.process, |adapter| {
            adapter.notices.destroy_queue(self.key)
        })
    }
}

impl CompletionQueue {
    /// Says that events of its channel have been dealt with.
    pub fn acknowledge_events(&self, count: u32) {
        let _ = call(&self.process, |adapter| {
            adapter.notices.acknowledge(self.key, count);
            Ok(())
        });
    }
}

macro_rules! acknowledge_async_events {
    ($($name:ident: $owner:ident;)+) => {
        $(impl $name {
            /// Says that asynchronous events about it have been dealt with.
            pub fn acknowledge_async_events(&self, count: u32) {
                let _ = call(&self.process, |adapter| {
                    adapter.acknowledge_async(Owner::$owner(self.key), count);
                    Ok(())
                });
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
    /// EINVAL for sizes past the device's or objects of another context, adapter or host.
    pub fn create_queue_pair(&self, options: &QueuePairOptions) -> Result<QueuePair> {
        let host = self.process.place();
        let shared = options.shared_receive_queue.as_ref();
        let owners = [&options.send_queue.process, &options.receive_queue.process];
        let mut owners = owners
            .into_iter()
            .chain(shared.map(|shared| &shared.process));
        if owners.any(|owner| owner.place() != host) {
            let reason = "an object is of another adapter or host";
            return Err(Error::new(errno::EINVAL, reason));
        }
        let options = options.map(|queue| queue.key, |shared| shared.key);
        let (key, _) = call(&self.process, |adapter| {
            adapter.create_pair(self.key, &options)
        })?;
        Ok(QueuePair::of(&self.process, key))
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

    /// Destroys it, as [`CompletionQueue::destroy`].
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it; EAGAIN when it has to wait and the program cannot.
    pub fn destroy(&self) -> Result<()> {
        destroy(&self.process, |adapter| adapter.destroy_shared(self.key))
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

impl From<&AddressHandle> for Key {
    fn from(handle: &AddressHandle) -> Self {
        handle.key
    }
}

/// Posts a receive, which takes the processor what a post takes.
fn post_receive(process: &Process, act: impl FnOnce(&mut Adapter) -> Result<()>) -> Result<()> {
    let host = process.place();
    process
        .work_on(1, |cluster, _| {
            let result = act(Hosted::adapter(cluster, host));
            Hosted::follow_pairs(cluster, host, None);
            result
        })
        .unwrap_or_else(|| Err(dead(process)))
}

impl QueuePair {
    /// Its number, 24 bits, by which its peer names it.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// That of a key on a host, by whichever of its adapters; of one that names nothing every call
    /// says so.
    #[must_use]
    pub fn of(process: &Process, key: Key) -> Self {
        let process = process.at_adapter_of(key.to_bits());
        let mut cluster = process.lock();
        let limits = Hosted::adapter(&mut cluster, process.place()).limits();
        let number = limits.first_number.wrapping_add(key.index());
        drop(cluster);
        Self {
            process,
            key,
            number,
        }
    }

    /// By what it is named among those of its host, of all adapters.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn state(&self) -> Result<QueuePairState> {
        call(&self.process, |adapter| Ok(adapter.pair(self.key)?.state))
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
        let host = self.process.place();
        self.process
            .work_on(requests.len() as u64, |cluster, worked| {
                // SAFETY: as promised by the caller.
                let memory = unsafe { ProgramMemory::of(cluster, host) };
                let adapter = Hosted::adapter(cluster, host);
                let result = adapter.post(self.key, requests, &memory);
                if result.is_ok() && cluster.has_account() {
                    self.account_for(cluster, requests, worked);
                }
                let posted = (self.key.index(), worked);
                Hosted::follow_pairs(cluster, host, Some(posted));
                result
            })
            .unwrap_or_else(|| Err(dead(&self.process)))
    }

    /// Posts are told to the account of messages.
    #[cold]
    fn account_for(
        &self,
        cluster: &mut Cluster,
        requests: &[SendRequest<'_>],
        worked: (Time, Time),
    ) {
        let (host, hosts) = (self.process.place(), cluster.place_count());
        let adapter = Hosted::adapter(cluster, host);
        let connected = adapter.pair(self.key).map(|pair| pair.attributes);
        let connected = connected.map_or(0, |attributes| attributes.destination);
        let posts = requests.iter().map(|request| {
            let datagram = request.datagram.map(|to| to.queue_pair);
            PairPost {
                target: host_of(datagram.unwrap_or(connected), hosts),
                bytes: verbs::bytes_of(request.elements) as u32,
                operation: operation_of(request.opcode),
            }
        });
        let pair = (host, self.key.index());
        cluster.account_for_posts(pair, posts, worked);
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
    /// that wait in a queue. For events, as [`CompletionQueue::destroy`].
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already; EAGAIN when it has to wait and the program cannot.
    pub fn destroy(&self) -> Result<()> {
        destroy(&self.process, |adapter| adapter.destroy_pair(self.key))
    }
}
