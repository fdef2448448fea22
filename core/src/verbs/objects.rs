//! All objects of devices, whoever carries packets between them: what they are made with, what uses
//! them, and what becomes of them.

mod ending;
mod memory;
mod pairs;
mod posting;
mod shared;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

pub use self::pairs::Pair;
pub use self::posting::Destination;
use self::shared::Shared;
use super::carrier::Carrier;
use super::error::{Result, busy, full, gone, invalid};
use super::notices::{Notices, Owner, Queue};
use super::regions::Regions;
use super::{AddressAttributes, AsyncEvent, CompletionQueueOptions, Completions, Key, Mtu, Table};

/// What devices have at most, and what their port is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The number of the first queue pair; those of others follow.
    pub first_number: u32,
    /// Queue pairs at once.
    pub max_queue_pairs: u32,
    /// Regions at once.
    pub max_regions: u32,
    /// Address handles at once.
    pub max_address_handles: u32,
    /// Objects at once of each other kind.
    pub max_objects: u32,
    /// Requests on a queue.
    pub max_requests: u32,
    /// Elements of a request.
    pub max_elements: u32,
    /// Bytes that a send may bring with it.
    pub max_inline_bytes: u32,
    /// The same for queue pairs that ask for fewer.
    pub min_inline_bytes: u32,
    /// Entries of a completion queue.
    pub max_completion_entries: u32,
    /// Reads and atomics under way at either end of a queue pair.
    pub max_read_atomic: u8,
    /// Bytes of a message.
    pub max_message_bytes: u64,
    /// Bytes of a region.
    pub max_region_bytes: u64,
    /// The longest packet of a port.
    pub mtu: Mtu,
    /// Addresses of a port: its GIDs have the indexes below it.
    pub gids: u32,
    /// Whether an address needs a route, as it does on Ethernet.
    pub needs_route: bool,
}

/// A protection domain.
#[derive(Debug)]
struct Domain {
    context: Key,
    /// Objects made in it.
    users: u32,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
struct Address {
    context: Key,
    domain: Key,
    attributes: AddressAttributes,
}

/// All objects of devices.
#[derive(Debug)]
pub struct Objects<C: Carrier> {
    limits: Limits,
    /// Opened devices, completion channels and queues.
    pub notices: Notices<C>,
    domains: Table<Domain>,
    /// Registered memory.
    pub regions: Regions,
    shared: Table<Shared>,
    /// Queue pairs. Whoever works on one takes it out and puts it back.
    pub pairs: Table<Option<Box<Pair<C>>>>,
    addresses: Table<Address>,
    key_variant: u32,
}

impl<C: Carrier> Objects<C> {
    /// Has nothing yet. Keys begin with this life, so that those of others are told from them.
    #[must_use]
    pub const fn new(limits: Limits, life: u32, carrier: C) -> Self {
        Self {
            limits,
            notices: Notices::new(carrier, limits.max_objects, life),
            domains: Table::new(limits.max_objects, life),
            regions: Table::new(limits.max_regions, life),
            shared: Table::new(limits.max_objects, life),
            pairs: Table::new(limits.max_queue_pairs, life),
            addresses: Table::new(limits.max_address_handles, life),
            key_variant: 1,
        }
    }

    /// What devices have at most.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Closes a device. What is left of its objects goes with it.
    ///
    /// # Errors
    ///
    /// EINVAL when it is closed already.
    pub fn close(&mut self, context: Key) -> Result<()> {
        self.notices.check_context(context)?;
        macro_rules! sweep {
            ($($($of:ident).+, $remove:expr;)+) => {
                $(let objects = self.$($of).+.iter();
                let its = objects.filter(|(_, object)| object.context == context);
                for key in its.map(|(key, _)| key).collect::<Vec<_>>() {
                    $remove(self, key);
                })+
            };
        }
        let pairs = self.pairs.iter();
        let is_its = |pair: &&Pair<C>| pair.context == context;
        let pairs: Vec<Key> = pairs
            .filter_map(|(_, pair)| pair.as_deref().filter(is_its).map(|pair| pair.key))
            .collect();
        for key in pairs {
            self.remove_pair(key);
        }
        sweep! {
            shared, |all: &mut Self, key| all.shared.remove(key).is_some();
            notices.queues, |all: &mut Self, key| all.notices.remove_queue(key);
            notices.channels, |all: &mut Self, key| all.notices.channels.remove(key).is_some();
            regions, |all: &mut Self, key| all.deregister_memory(key).is_ok();
            addresses, |all: &mut Self, key| all.addresses.remove(key).is_some();
            domains, |all: &mut Self, key| all.domains.remove(key).is_some();
        }
        self.notices.contexts.remove(context);
        Ok(())
    }

    /// Events about an object that a program has taken and has not acknowledged.
    fn unacknowledged(&mut self, owner: Owner) -> Option<&mut u32> {
        match owner {
            Owner::Queue(key) => {
                let queue = self.notices.queues.get_mut(key)?;
                Some(&mut queue.async_unacknowledged)
            }
            Owner::Pair(key) => {
                let pair = self.pairs.get_mut(key)?.as_mut()?;
                Some(&mut pair.async_unacknowledged)
            }
            Owner::Shared(key) => {
                let shared = self.shared.get_mut(key)?;
                Some(&mut shared.async_unacknowledged)
            }
        }
    }

    /// The next asynchronous event, if there is one. It is to be acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed.
    pub fn next_async_event(&mut self, context: Key) -> Result<Option<AsyncEvent>> {
        let Some((event, owner)) = self.notices.next_async(context)? else {
            return Ok(None);
        };
        if let Some(count) = owner.and_then(|owner| self.unacknowledged(owner)) {
            *count += 1;
        }
        Ok(Some(event))
    }

    /// A program has dealt with asynchronous events about an object.
    pub fn acknowledge_async(&mut self, owner: Owner, count: u32) {
        if let Some(left) = self.unacknowledged(owner) {
            *left = left.saturating_sub(count);
            self.notices.carrier.has_news();
        }
    }

    fn check_entries(&self, entries: u32) -> Result<()> {
        let most = self.limits.max_completion_entries;
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
        self.notices.check_context(context)?;
        self.check_entries(options.entries)?;
        if options.vector != 0 {
            let reason = format!("there is vector 0, not {}", options.vector);
            return Err(invalid(reason));
        }
        if let Some(channel) = options.channel {
            let channel = self.notices.channels.get(channel).ok_or_else(gone)?;
            if channel.context != context {
                return Err(invalid("the completion channel is of another context"));
            }
        }
        let queue = Queue {
            context,
            completions: Completions::new(options.entries, options.ignores_overrun),
            channel: options.channel,
            cookie: options.cookie,
            has_timestamps: options.has_timestamps,
            users: 0,
            unacknowledged: 0,
            async_unacknowledged: 0,
        };
        let key = self.notices.queues.insert(queue);
        let key = key.ok_or_else(|| full("too many completion queues"))?;
        let channel = options.channel;
        if let Some(channel) = channel.and_then(|key| self.notices.channels.get_mut(key)) {
            channel.queues += 1;
        }
        Ok(key)
    }

    /// Changes the size of a completion queue, and tells the new one.
    ///
    /// # Errors
    ///
    /// EINVAL for no entries, too many, or fewer than are in it.
    pub fn resize(&mut self, key: Key, entries: u32) -> Result<u32> {
        self.check_entries(entries)?;
        let completions = &mut self.notices.queue(key)?.completions;
        if !completions.resize(entries) {
            let held = completions.len();
            let reason = format!("{held} completions are in the queue, more than {entries}");
            return Err(invalid(reason));
        }
        Ok(entries)
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// EINVAL when the device is closed, ENOMEM when there are too many.
    pub fn allocate_domain(&mut self, context: Key) -> Result<Key> {
        self.notices.check_context(context)?;
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

    fn context_of_domain(&self, domain: Key) -> Result<Key> {
        Ok(self.domains.get(domain).ok_or_else(gone)?.context)
    }

    fn use_domain(&mut self, key: Key, is_used: bool) {
        if let Some(domain) = self.domains.get_mut(key) {
            domain.users = domain.users.wrapping_add_signed(change(is_used));
        }
    }

    fn check_port(&self, port: u8) -> Result<()> {
        match port {
            1 => Ok(()),
            _ => Err(invalid(format!("there is port 1, not {port}"))),
        }
    }

    /// Whether an address can be sent to: of port 1, with a route if it needs one, from a GID that
    /// there is.
    fn check_address(&self, address: &AddressAttributes) -> Result<()> {
        self.check_port(address.port)?;
        if self.limits.needs_route && !address.is_global {
            return Err(invalid(
                "on Ethernet an address needs a route (is_global, a GID)",
            ));
        }
        let index = address.route.source_gid_index;
        if address.is_global && u32::from(index) >= self.limits.gids {
            return Err(invalid(format!("there is no source GID of index {index}")));
        }
        Ok(())
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, without a route where one is needed, or for a source past
    /// the table of GIDs.
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

/// What one that uses something, or no longer does, adds to the number of its users.
const fn change(is_used: bool) -> i32 {
    if is_used { 1 } else { -1 }
}

#[cfg(test)]
mod tests;
