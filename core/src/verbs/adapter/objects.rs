//! Opened devices, completion queues and channels, protection domains, regions, shared receive
//! queues and address handles.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use super::{Adapter, Address, Channel, ContextState, Domain, Owner, Queue, Shared};
use crate::verbs::check::Region;
use crate::verbs::error::{Error, Result, busy, errno, full, gone, invalid, unsupported};
use crate::verbs::flags::{access, reregister, shared_receive};
use crate::verbs::regions::{RegionState, check_region, key_at};
use crate::verbs::responder;
use crate::verbs::{
    AddressAttributes, AsyncElement, AsyncEvent, AsyncEventType, Completion,
    CompletionQueueOptions, Completions, Elements, Key, Receive, ReceiveRequest,
    SharedReceiveAttributes,
};

impl Adapter {
    /// Opens the device once more.
    ///
    /// # Errors
    ///
    /// ENOMEM when it is open too often.
    pub fn open(&mut self) -> Result<Key> {
        let events = VecDeque::new();
        let key = self.contexts.insert(ContextState { events });
        key.ok_or_else(|| full("the device is open too often"))
    }

    /// Closes it. What is left of its objects goes with it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn close(&mut self, context: Key) -> Result<()> {
        self.contexts.remove(context).ok_or_else(gone)?;
        let pairs = self.pairs.iter();
        let is_its = |pair: &&super::Pair| pair.context == context;
        let pairs: Vec<Key> = pairs
            .filter_map(|(_, pair)| pair.as_deref().filter(is_its).map(|pair| pair.key))
            .collect();
        for key in pairs {
            let _ = self.destroy_pair(key);
        }
        macro_rules! sweep {
            ($($table:ident)+) => {
                $(let objects = self.$table.iter();
                let its = objects.filter(|(_, object)| object.context == context);
                for key in its.map(|(key, _)| key).collect::<Vec<_>>() {
                    self.$table.remove(key);
                })+
            };
        }
        sweep!(shared queues channels regions addresses domains);
        Ok(())
    }

    fn check_context(&self, context: Key) -> Result<()> {
        self.contexts.get(context).ok_or_else(gone).map(drop)
    }

    pub(super) fn context_of_domain(&self, domain: Key) -> Result<Key> {
        Ok(self.domains.get(domain).ok_or_else(gone)?.context)
    }

    /// The next asynchronous event, if there is one.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed.
    pub fn next_async_event(&mut self, context: Key) -> Result<Option<AsyncEvent>> {
        let context = self.contexts.get_mut(context).ok_or_else(gone)?;
        Ok(context.events.pop_front().map(|(event, _)| event))
    }

    pub(super) fn forget_async(&mut self, context: Key, owner: Owner) {
        if let Some(context) = self.contexts.get_mut(context) {
            context.events.retain(|(_, about)| *about != owner);
        }
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed, ENOMEM when there are too many.
    pub fn create_channel(&mut self, context: Key) -> Result<Key> {
        self.check_context(context)?;
        let channel = Channel {
            context,
            events: VecDeque::new(),
            queues: 0,
        };
        let key = self.channels.insert(channel);
        key.ok_or_else(|| full("too many completion channels"))
    }

    /// The next event of a channel, if there is one: the cookie of a completion queue.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn next_completion_event(&mut self, channel: Key) -> Result<Option<u64>> {
        let channel = self.channels.get_mut(channel).ok_or_else(gone)?;
        Ok(channel.events.pop_front().map(|(_, cookie)| cookie))
    }

    /// Destroys a channel.
    ///
    /// # Errors
    ///
    /// EBUSY while a completion queue uses it.
    pub fn destroy_channel(&mut self, key: Key) -> Result<()> {
        if self.channels.get(key).ok_or_else(gone)?.queues > 0 {
            return Err(busy("a completion queue still uses the channel"));
        }
        self.channels.remove(key);
        Ok(())
    }

    fn check_entries(&self, entries: u32) -> Result<()> {
        let most = self.attributes.max_completion_entries;
        if entries == 0 || entries > most {
            let reason = format!("a completion queue has 1 to {most} entries, not {entries}");
            return Err(invalid(reason));
        }
        Ok(())
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, an unknown vector, or a channel of another context.
    pub fn create_completion_queue(
        &mut self,
        context: Key,
        options: &CompletionQueueOptions,
    ) -> Result<Key> {
        self.check_context(context)?;
        self.check_entries(options.entries)?;
        if options.vector != 0 {
            let reason = format!("there is vector 0, not {}", options.vector);
            return Err(invalid(reason));
        }
        if let Some(channel) = options.channel {
            let channel = self.channels.get_mut(channel);
            let channel = channel.filter(|channel| channel.context == context);
            channel.ok_or_else(gone)?.queues += 1;
        }
        let queue = Queue {
            context,
            completions: Completions::new(options.entries, options.ignores_overrun),
            channel: options.channel,
            cookie: options.cookie,
            has_timestamps: options.has_timestamps,
            users: 0,
        };
        let key = self.queues.insert(queue);
        key.ok_or_else(|| full("too many completion queues"))
    }

    fn queue(&mut self, key: Key) -> Result<&mut Queue> {
        self.queues.get_mut(key).ok_or_else(gone)
    }

    /// Takes the oldest completion, if there is one.
    ///
    /// # Errors
    ///
    /// EINVAL when the queue is gone, EIO when it has overrun and is empty.
    pub fn poll(&mut self, key: Key) -> Result<Option<Completion>> {
        let completions = &mut self.queue(key)?.completions;
        let completion = completions.take();
        if completion.is_none() && completions.has_ended() {
            return Err(Error::new(errno::EIO, "the completion queue overran"));
        }
        Ok(completion)
    }

    /// Has a completion queue tell its channel, once, of what comes from now on.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn arm(&mut self, key: Key, is_solicited_only: bool) -> Result<()> {
        self.queue(key)?.completions.arm(is_solicited_only);
        Ok(())
    }

    /// Completions that find room in a queue.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn entries(&mut self, key: Key) -> Result<u32> {
        Ok(self.queue(key)?.completions.entries())
    }

    /// Changes the size of a completion queue, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&mut self, key: Key, entries: u32) -> Result<u32> {
        self.check_entries(entries)?;
        let completions = &mut self.queue(key)?.completions;
        if !completions.resize(entries) {
            let held = completions.len();
            let reason = format!("{held} completions are in the queue, more than {entries}");
            return Err(invalid(reason));
        }
        Ok(entries)
    }

    /// Destroys a completion queue, with the events that nobody has taken.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy_completion_queue(&mut self, key: Key) -> Result<()> {
        let queue = self.queue(key)?;
        if queue.users > 0 {
            return Err(busy("a queue pair still uses the completion queue"));
        }
        let (context, channel) = (queue.context, queue.channel);
        self.forget_async(context, Owner::Queue(key));
        self.queues.remove(key);
        if let Some(channel) = channel.and_then(|channel| self.channels.get_mut(channel)) {
            channel.events.retain(|(about, _)| *about != key);
            channel.queues -= 1;
        }
        Ok(())
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed, ENOMEM when there are too many.
    pub fn allocate_domain(&mut self, context: Key) -> Result<Key> {
        self.check_context(context)?;
        let key = self.domains.insert(Domain { context, users: 0 });
        key.ok_or_else(|| full("too many protection domains"))
    }

    /// Gives a protection domain back.
    ///
    /// # Errors
    ///
    /// EBUSY while something was made in it.
    pub fn deallocate_domain(&mut self, key: Key) -> Result<()> {
        if self.domains.get(key).ok_or_else(gone)?.users > 0 {
            return Err(busy("a protection domain still has objects"));
        }
        self.domains.remove(key);
        Ok(())
    }

    pub(super) fn use_domain(&mut self, key: Key, is_used: bool) {
        if let Some(domain) = self.domains.get_mut(key) {
            domain.users = domain
                .users
                .wrapping_add_signed(if is_used { 1 } else { -1 });
        }
    }

    /// Opens memory to requests: its key, and the key by which requests name it.
    ///
    /// # Errors
    ///
    /// As [`check_region`]; ENOMEM when there are too many regions.
    pub fn register_memory(
        &mut self,
        domain: Key,
        address: u64,
        length: u64,
        iova: u64,
        flags: u32,
    ) -> Result<(Key, u32)> {
        let context = self.context_of_domain(domain)?;
        let is_zero_based = flags & access::ZERO_BASED != 0;
        let first = if is_zero_based { 0 } else { iova };
        let length_max = self.attributes.max_region_bytes;
        check_region(address, length, first, flags, length_max)?;
        let too_many = || full("too many memory regions");
        let place = self.regions.next_key().ok_or_else(too_many)?;
        let key = key_at(place.index(), self.key_variant);
        self.key_variant = self.key_variant % 255 + 1;
        let region = Region {
            domain: domain.index(),
            access: flags,
            first,
            length,
        };
        let state = RegionState {
            context,
            domain,
            key,
            region,
            address,
        };
        let place = self.regions.insert(state).ok_or_else(too_many)?;
        self.use_domain(domain, true);
        Ok((place, key))
    }

    /// Changes what bits of [`reregister`] name of a region, whose key stays the same.
    ///
    /// # Errors
    ///
    /// EINVAL for flags that are not known and for a domain of another context; otherwise as
    /// [`Adapter::register_memory`]. The region is as before then.
    pub fn reregister_memory(
        &mut self,
        key: Key,
        flags: u32,
        domain: Option<Key>,
        (address, length): (u64, u64),
        access: u32,
    ) -> Result<()> {
        let mut state = *self.regions.get(key).ok_or_else(gone)?;
        let known = reregister::TRANSLATION | reregister::PROTECTION_DOMAIN | reregister::ACCESS;
        if flags == 0 || flags & !known != 0 {
            return Err(invalid(format!("flags {flags:#x} of a new registration")));
        }
        if flags & reregister::ACCESS != 0 {
            state.region.access = access;
        }
        if flags & reregister::TRANSLATION != 0 {
            state.address = address;
            state.region.length = length;
            state.region.first = address;
        }
        if state.region.access & access::ZERO_BASED != 0 {
            state.region.first = 0;
        }
        let before = state.domain;
        if flags & reregister::PROTECTION_DOMAIN != 0 {
            let domain = domain.ok_or_else(|| invalid("a protection domain is missing"))?;
            if self.context_of_domain(domain)? != state.context {
                return Err(invalid("the protection domain is of another context"));
            }
            state.domain = domain;
            state.region.domain = domain.index();
        }
        let region = state.region;
        let length_max = self.attributes.max_region_bytes;
        check_region(
            state.address,
            region.length,
            region.first,
            region.access,
            length_max,
        )?;
        self.use_domain(before, false);
        self.use_domain(state.domain, true);
        *self.regions.get_mut(key).ok_or_else(gone)? = state;
        Ok(())
    }

    /// Closes memory to requests.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn deregister_memory(&mut self, key: Key) -> Result<()> {
        let state = self.regions.remove(key).ok_or_else(gone)?;
        self.use_domain(state.domain, false);
        Ok(())
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the adapter's.
    pub fn create_shared(
        &mut self,
        domain: Key,
        attributes: &SharedReceiveAttributes,
        cookie: u64,
    ) -> Result<Key> {
        let context = self.context_of_domain(domain)?;
        if attributes.max_requests > self.attributes.max_requests
            || attributes.max_elements > self.attributes.max_elements
            || attributes.max_requests == 0
        {
            return Err(invalid(
                "a shared receive queue of this size is not to be had",
            ));
        }
        let shared = Shared {
            context,
            domain,
            cookie,
            max_requests: attributes.max_requests,
            max_elements: attributes.max_elements.max(1),
            limit: 0,
            receives: VecDeque::new(),
            users: 0,
        };
        let key = self.shared.insert(shared);
        let key = key.ok_or_else(|| full("too many shared receive queues"))?;
        self.use_domain(domain, true);
        Ok(key)
    }

    fn shared(&mut self, key: Key) -> Result<&mut Shared> {
        self.shared.get_mut(key).ok_or_else(gone)
    }

    /// Posts a receive for many queue pairs.
    ///
    /// # Errors
    ///
    /// ENOMEM when the queue is full, EINVAL for too many elements.
    pub fn post_shared_receive(&mut self, key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
        let shared = self.shared(key)?;
        if request.elements.len() > shared.max_elements as usize {
            return Err(invalid("a receive has too many elements"));
        }
        if shared.receives.len() >= shared.max_requests as usize {
            return Err(full("the shared receive queue is full"));
        }
        shared.receives.push_back(Receive {
            request: request.request,
            elements: Elements::new(request.elements),
        });
        Ok(())
    }

    /// Changes what bits of [`shared_receive`] name.
    ///
    /// # Errors
    ///
    /// EINVAL for a limit past the queue's size, EOPNOTSUPP for another size.
    pub fn modify_shared(
        &mut self,
        key: Key,
        attributes: &SharedReceiveAttributes,
        mask: u32,
    ) -> Result<()> {
        let shared = self.shared(key)?;
        if mask & shared_receive::MAX_REQUESTS != 0 {
            return Err(unsupported("a shared receive queue keeps its size"));
        }
        if mask & !shared_receive::LIMIT != 0 {
            return Err(invalid(
                "an attribute of a shared receive queue is not known",
            ));
        }
        if mask & shared_receive::LIMIT != 0 {
            if attributes.limit > shared.max_requests {
                return Err(invalid("the limit is past the shared receive queue's size"));
            }
            shared.limit = attributes.limit;
        }
        self.check_limit(key);
        Ok(())
    }

    /// Sizes of a shared receive queue, and its limit if it has not been told of.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query_shared(&mut self, key: Key) -> Result<SharedReceiveAttributes> {
        let shared = self.shared(key)?;
        Ok(SharedReceiveAttributes {
            max_requests: shared.max_requests,
            max_elements: shared.max_elements,
            limit: shared.limit,
        })
    }

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy_shared(&mut self, key: Key) -> Result<()> {
        let shared = self.shared(key)?;
        if shared.users > 0 {
            return Err(busy("a queue pair still uses the shared receive queue"));
        }
        let (context, domain) = (shared.context, shared.domain);
        self.forget_async(context, Owner::Shared(key));
        self.shared.remove(key);
        self.use_domain(domain, false);
        Ok(())
    }

    /// Tells once that a shared receive queue runs short.
    pub(super) fn check_limit(&mut self, key: Key) {
        if let Some(shared) = self.shared.get_mut(key)
            && responder::tells_limit(shared.receives.len(), shared.limit)
        {
            shared.limit = 0;
            let (context, cookie) = (shared.context, shared.cookie);
            let kind = AsyncEventType::SharedReceiveQueueLimitReached;
            let element = AsyncElement::SharedReceiveQueue(cookie);
            self.tell(context, kind, element, Owner::Shared(key));
        }
    }

    /// Whether an address can be sent to: of port 1, with a route, from the one GID there is.
    pub(super) fn check_address(&self, address: &AddressAttributes) -> Result<()> {
        self.check_port(address.port)?;
        if !address.is_global {
            return Err(invalid(
                "on Ethernet an address needs a route (is_global, a GID)",
            ));
        }
        if address.route.source_gid_index != 0 {
            let index = address.route.source_gid_index;
            return Err(invalid(format!("there is no source GID of index {index}")));
        }
        Ok(())
    }

    pub(super) fn check_port(&self, port: u8) -> Result<()> {
        match port {
            1 => Ok(()),
            _ => Err(invalid(format!("there is port 1, not {port}"))),
        }
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, without a route, or for another source than GID 0.
    pub fn create_address(&mut self, domain: Key, attributes: &AddressAttributes) -> Result<Key> {
        let context = self.context_of_domain(domain)?;
        self.check_address(attributes)?;
        let address = Address {
            context,
            domain,
            attributes: *attributes,
        };
        let key = self.addresses.insert(address);
        let key = key.ok_or_else(|| full("too many address handles"))?;
        self.use_domain(domain, true);
        Ok(key)
    }

    /// Gives an address handle back. Datagrams that were posted with it still go.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone already.
    pub fn destroy_address(&mut self, key: Key) -> Result<()> {
        let address = self.addresses.remove(key).ok_or_else(gone)?;
        self.use_domain(address.domain, false);
        Ok(())
    }
}
