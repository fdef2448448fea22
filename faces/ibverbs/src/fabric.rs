//! What carries the calls of programs: the fabric between processes of this machine, or the host of
//! a simulation that this process runs on.
//!
//! Handles are one or the other; which one the process has is known when it lists its devices.
//! Calls that every message makes (`post`, `poll`) look which it is before they build anything.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use viaduct_calls as remote;
use viaduct_rdma as local;
use viaduct_rdma::verbs::error::invalid;
use viaduct_rdma::verbs::{
    self, AddressAttributes, Completion, Error, LinkLayer, QueuePairAttributes, ReceiveRequest,
    SharedReceiveAttributes,
};
use viaduct_rdma::{DeviceAttributes, GidEntry, GidType, PortAttributes, Result};

use crate::call;

/// A piece of work for the send queue.
pub(crate) type SendRequest<'a> = verbs::SendRequest<'a, AddressHandle>;
/// Where a datagram goes.
pub(crate) type DatagramDestination = verbs::DatagramDestination<AddressHandle>;
pub(crate) type CompletionQueueOptions = verbs::CompletionQueueOptions<CompletionChannel>;
pub(crate) type QueuePairOptions = verbs::QueuePairOptions<CompletionQueue, SharedReceiveQueue>;

macro_rules! handles {
    ($($name:ident { $(fn $method:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)* })+) => {
        $(#[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {
            Local(local::$name),
            Remote(remote::$name),
        }

        impl $name {
            $(#[inline(always)]
            pub(crate) fn $method(&self $(, $argument: $type)*) -> $result {
                match self {
                    Self::Local(handle) => handle.$method($($argument),*),
                    Self::Remote(handle) => handle.$method($($argument),*),
                }
            }

            )*
        })+
    };
}

/// Handles that calls about others take.
macro_rules! arguments {
    ($($name:ident),+) => {
        $(impl $name {
            /// That of the fabric between processes.
            #[inline(always)]
            fn local(&self) -> Result<local::$name> {
                match self {
                    Self::Local(handle) => Ok(*handle),
                    Self::Remote(_) => Err(mixed()),
                }
            }

            /// That of a simulated host.
            fn remote(&self) -> Result<remote::$name> {
                match self {
                    Self::Remote(handle) => Ok(*handle),
                    Self::Local(_) => Err(mixed()),
                }
            }
        })+
    };
}

#[cold]
fn mixed() -> Error {
    invalid("an object of another fabric")
}

handles! {
    Context {
        fn async_fd(&self) -> RawFd;
        fn close(&self) -> Result<()>;
    }
    ProtectionDomain {
        fn deallocate(&self) -> Result<()>;
    }
    MemoryRegion {
        fn memory_key(&self) -> u32;
        fn deregister(&self) -> Result<()>;
    }
    AddressHandle {
        fn destroy(&self) -> Result<()>;
    }
    CompletionChannel {
        fn fd(&self) -> RawFd;
        fn destroy(&self) -> Result<()>;
    }
    CompletionQueue {
        fn poll(&self, completions: &mut [Completion]) -> Result<usize>;
        fn arm(&self, is_solicited_only: bool) -> Result<()>;
        fn entries(&self) -> Result<u32>;
        fn resize(&self, entries: u32) -> Result<u32>;
        fn acknowledge_events(&self, count: u32) -> ();
        fn acknowledge_async_events(&self, count: u32) -> ();
        fn destroy(&self) -> Result<()>;
    }
    SharedReceiveQueue {
        fn number(&self) -> u32;
        fn modify(&self, attributes: &SharedReceiveAttributes, mask: u32) -> Result<()>;
        fn query(&self) -> Result<SharedReceiveAttributes>;
        fn acknowledge_async_events(&self, count: u32) -> ();
        fn destroy(&self) -> Result<()>;
    }
    QueuePair {
        fn number(&self) -> u32;
        fn modify(&self, attributes: &QueuePairAttributes, mask: u32) -> Result<()>;
        fn acknowledge_async_events(&self, count: u32) -> ();
        fn destroy(&self) -> Result<()>;
    }
    Device {}
}

arguments!(
    ProtectionDomain,
    AddressHandle,
    CompletionChannel,
    CompletionQueue,
    SharedReceiveQueue
);

/// This process as a client of a simulation, whose coordinator answers its calls.
struct Turn {
    client: viaduct_turns::Client,
    credits: remote::Credits,
}

impl remote::Line for Turn {
    fn call(&self, what: &'static CStr, request: &[u8], answer: &mut Vec<u8>) {
        self.client.call(what, request, answer);
    }

    fn credits(&self) -> Option<&remote::Credits> {
        Some(&self.credits)
    }

    fn post(&self, request: &[u8], cost: u64) -> bool {
        if request.len() > viaduct_turns::MESSAGE_BYTES_MAX / 2 {
            return false;
        }
        self.client.post(request);
        self.client.charge(cost);
        true
    }

    fn look(&self, request: &[u8], cost: u64) -> bool {
        self.client.now().saturating_add(cost) < self.client.quiet_until()
            && self.post(request, cost)
    }
}

/// The devices of this process.
pub(crate) fn devices() -> Vec<Device> {
    let Some(simulated) = simulated() else {
        return local::devices().into_iter().map(Device::Local).collect();
    };
    match simulated {
        Ok(devices) => devices.iter().copied().map(Device::Remote).collect(),
        Err(error) => {
            call::log(format_args!("no device: {error}"));
            Vec::new()
        }
    }
}

/// The adapters of the simulated host that this process runs on, if it runs on one.
fn simulated() -> Option<&'static Result<Vec<remote::Device>>> {
    static DEVICES: OnceLock<Option<Result<Vec<remote::Device>>>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| {
        if let Some(client) = viaduct_turns::client() {
            let credits = remote::Credits::default();
            let line: &'static Turn = Box::leak(Box::new(Turn { client, credits }));
            return Some(remote::Device::all_at(line));
        }
        // Its figures would be those of this machine.
        std::env::var_os(viaduct_turns::SOCKET_VARIABLE)?;
        let reason = "this process is to run on a simulated host and does not: libviaduct-time.so \
                      is not loaded, or of another version";
        Some(Err(Error::new(libc::ENODEV, reason)))
    });
    devices.as_ref()
}

/// What devices of this machine are like, which a simulated adapter is, too, but for what its host
/// says.
fn likeness() -> Result<local::Device> {
    let found = local::devices().into_iter().next();
    found.ok_or_else(|| Error::new(libc::ENODEV, "the environment asks for no device"))
}

impl Device {
    pub(crate) fn open(&self) -> Result<Context> {
        Ok(match self {
            Self::Local(device) => Context::Local(device.open()?),
            Self::Remote(device) => Context::Remote(device.open()?),
        })
    }

    pub(crate) fn index(&self) -> u32 {
        match self {
            Self::Local(device) => device.index(),
            Self::Remote(device) => device.description().adapter,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Local(device) => device.name(),
            Self::Remote(_) => format!("viaduct{}", self.index()),
        }
    }

    pub(crate) fn character_device_name(&self) -> String {
        match self {
            Self::Local(device) => device.character_device_name(),
            Self::Remote(_) => format!("uverbs{}", self.index()),
        }
    }

    /// Its GUID in network order: on a simulated host that of the adapter and the host's number are
    /// in it.
    pub(crate) fn guid(&self) -> [u8; 8] {
        match self {
            Self::Local(device) => device.guid(),
            Self::Remote(device) => {
                let description = device.description();
                let [_, high, middle, low] = description.host.to_be_bytes();
                let adapter = description.adapter as u8;
                [0x02, 0x56, 0x49, 0x73, adapter, high, middle, low]
            }
        }
    }

    pub(crate) fn attributes(&self) -> Result<DeviceAttributes> {
        let device = match self {
            Self::Local(device) => return Ok(device.attributes()),
            Self::Remote(device) => device,
        };
        let limits = &device.description().limits;
        Ok(DeviceAttributes {
            node_guid: self.guid(),
            system_image_guid: self.guid(),
            max_region_bytes: limits.max_region_bytes,
            max_queue_pairs: limits.max_queue_pairs,
            max_requests: limits.max_requests,
            max_elements: limits.max_elements,
            max_read_elements: limits.max_elements,
            max_completion_queues: limits.max_objects,
            max_completion_entries: limits.max_completion_entries,
            max_regions: limits.max_regions,
            max_protection_domains: limits.max_objects,
            max_destination_read_atomic: u32::from(limits.max_read_atomic),
            max_read_atomic_resources: u32::from(limits.max_read_atomic) * limits.max_queue_pairs,
            max_read_atomic: u32::from(limits.max_read_atomic),
            max_address_handles: limits.max_address_handles,
            max_shared_receive_queues: limits.max_objects,
            max_shared_receive_requests: limits.max_requests,
            max_shared_receive_elements: limits.max_elements,
            max_inline_bytes: limits.max_inline_bytes,
            ..likeness()?.attributes()
        })
    }

    pub(crate) fn port(&self, port: u8) -> Result<PortAttributes> {
        match self {
            Self::Local(device) => device.port(port),
            Self::Remote(device) => {
                let limits = &device.description().limits;
                let of = likeness()?.port(port)?;
                Ok(PortAttributes {
                    max_mtu: limits.mtu,
                    active_mtu: limits.mtu,
                    gid_table_length: limits.gids,
                    max_message_bytes: u32::try_from(limits.max_message_bytes).unwrap_or(u32::MAX),
                    lid: 0,
                    subnet_manager_lid: 0,
                    link_layer: LinkLayer::Ethernet,
                    ..of
                })
            }
        }
    }

    pub(crate) fn gids(&self) -> Vec<GidEntry> {
        match self {
            Self::Local(device) => device.gids(),
            Self::Remote(device) => vec![GidEntry {
                gid: device.description().gid,
                index: 0,
                port: 1,
                kind: GidType::RoceV2,
            }],
        }
    }

    pub(crate) fn gid(&self, port: u8, index: u32) -> Result<GidEntry> {
        if let Self::Local(device) = self {
            return device.gid(port, index);
        }
        likeness()?.port(port)?;
        self.gids().get(index as usize).copied().ok_or_else(|| {
            let reason = format!("{} has no GID of index {index}", self.name());
            Error::new(libc::ENODATA, reason)
        })
    }

    pub(crate) fn partition_key(&self, port: u8, index: u32) -> Result<u16> {
        match self {
            Self::Local(device) => device.partition_key(port, index),
            Self::Remote(_) => likeness()?.partition_key(port, index),
        }
    }
}

impl Context {
    pub(crate) fn device(&self) -> Device {
        match self {
            Self::Local(context) => Device::Local(context.device()),
            Self::Remote(context) => Device::Remote(context.device()),
        }
    }

    pub(crate) fn allocate_protection_domain(&self) -> Result<ProtectionDomain> {
        Ok(match self {
            Self::Local(context) => ProtectionDomain::Local(context.allocate_protection_domain()?),
            Self::Remote(context) => {
                ProtectionDomain::Remote(context.allocate_protection_domain()?)
            }
        })
    }

    pub(crate) fn create_completion_channel(&self) -> Result<CompletionChannel> {
        Ok(match self {
            Self::Local(context) => CompletionChannel::Local(context.create_completion_channel()?),
            Self::Remote(context) => {
                CompletionChannel::Remote(context.create_completion_channel()?)
            }
        })
    }

    pub(crate) fn create_completion_queue(
        &self,
        options: &CompletionQueueOptions,
    ) -> Result<CompletionQueue> {
        // Another word for the channel, which may be one of another fabric.
        macro_rules! with {
            ($fabric:ident) => {
                verbs::CompletionQueueOptions {
                    entries: options.entries,
                    cookie: options.cookie,
                    channel: options.channel.map(|it| it.$fabric()).transpose()?,
                    vector: options.vector,
                    has_timestamps: options.has_timestamps,
                    ignores_overrun: options.ignores_overrun,
                }
            };
        }
        Ok(match self {
            Self::Local(context) => {
                CompletionQueue::Local(context.create_completion_queue(&with!(local))?)
            }
            Self::Remote(context) => {
                CompletionQueue::Remote(context.create_completion_queue(&with!(remote))?)
            }
        })
    }

    /// The next asynchronous event. One of a simulated host is waited for here, where its
    /// descriptor blocks.
    pub(crate) fn next_async_event(&self) -> Result<verbs::AsyncEvent> {
        match self {
            Self::Local(context) => context.try_next_async_event(),
            Self::Remote(context) => context.next_async_event(),
        }
    }
}

impl CompletionChannel {
    /// As [`Context::next_async_event`], of completions.
    pub(crate) fn next_event(&self) -> Result<u64> {
        match self {
            Self::Local(channel) => channel.try_next_event(),
            Self::Remote(channel) => channel.next_event(),
        }
    }
}

impl SharedReceiveQueue {
    #[inline(always)]
    pub(crate) fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        match self {
            Self::Local(queue) => queue.post_receive(request),
            Self::Remote(queue) => queue.post_receive(request),
        }
    }
}

impl CompletionQueue {
    #[inline(always)]
    pub(crate) fn poll_each(&self, most: usize, visit: impl FnMut(&Completion)) -> Result<usize> {
        match self {
            Self::Local(queue) => queue.poll_each(most, visit),
            Self::Remote(queue) => queue.poll_each(most, visit),
        }
    }
}

impl ProtectionDomain {
    /// # Safety
    ///
    /// The memory stays while it is registered.
    pub(crate) unsafe fn register_memory(
        &self,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<MemoryRegion> {
        // SAFETY: as promised by the caller.
        unsafe {
            Ok(match self {
                Self::Local(domain) => {
                    MemoryRegion::Local(domain.register_memory(address, length, iova, access)?)
                }
                Self::Remote(domain) => {
                    MemoryRegion::Remote(domain.register_memory(address, length, iova, access)?)
                }
            })
        }
    }

    pub(crate) fn create_queue_pair(&self, options: &QueuePairOptions) -> Result<QueuePair> {
        macro_rules! with {
            ($fabric:ident) => {
                verbs::QueuePairOptions {
                    kind: options.kind,
                    capabilities: options.capabilities,
                    send_queue: options.send_queue.$fabric()?,
                    receive_queue: options.receive_queue.$fabric()?,
                    shared_receive_queue: options
                        .shared_receive_queue
                        .map(|it| it.$fabric())
                        .transpose()?,
                    is_every_send_signaled: options.is_every_send_signaled,
                    cookie: options.cookie,
                }
            };
        }
        Ok(match self {
            Self::Local(domain) => QueuePair::Local(domain.create_queue_pair(&with!(local))?),
            Self::Remote(domain) => QueuePair::Remote(domain.create_queue_pair(&with!(remote))?),
        })
    }

    pub(crate) fn create_shared_receive_queue(
        &self,
        attributes: &SharedReceiveAttributes,
        cookie: u64,
    ) -> Result<SharedReceiveQueue> {
        Ok(match self {
            Self::Local(domain) => {
                SharedReceiveQueue::Local(domain.create_shared_receive_queue(attributes, cookie)?)
            }
            Self::Remote(domain) => {
                SharedReceiveQueue::Remote(domain.create_shared_receive_queue(attributes, cookie)?)
            }
        })
    }

    pub(crate) fn create_address_handle(
        &self,
        attributes: &AddressAttributes,
    ) -> Result<AddressHandle> {
        Ok(match self {
            Self::Local(domain) => AddressHandle::Local(domain.create_address_handle(attributes)?),
            Self::Remote(domain) => {
                AddressHandle::Remote(domain.create_address_handle(attributes)?)
            }
        })
    }
}

impl MemoryRegion {
    /// # Safety
    ///
    /// The memory stays while it is registered.
    pub(crate) unsafe fn reregister(
        &self,
        flags: u32,
        domain: Option<ProtectionDomain>,
        address: u64,
        length: u64,
        access: u32,
    ) -> Result<()> {
        // SAFETY: as promised by the caller.
        unsafe {
            match self {
                Self::Local(region) => {
                    let domain = domain.map(|domain| domain.local()).transpose()?;
                    region.reregister(flags, domain, address, length, access)
                }
                Self::Remote(region) => {
                    let domain = domain.map(|domain| domain.remote()).transpose()?;
                    region.reregister(flags, domain, address, length, access)
                }
            }
        }
    }
}

impl QueuePair {
    #[inline(always)]
    pub(crate) fn post_receive(&self, request: &ReceiveRequest<'_>) -> Result<()> {
        match self {
            Self::Local(pair) => pair.post_receive(request),
            Self::Remote(pair) => pair.post_receive(request),
        }
    }

    /// The sizes that it got, and whether every send completes visibly, with its attributes.
    pub(crate) fn query(&self) -> Result<(QueuePairAttributes, verbs::Capabilities, bool)> {
        Ok(match self {
            Self::Local(pair) => {
                let (attributes, options) = pair.query()?;
                let is_every_send_signaled = options.is_every_send_signaled;
                (attributes, options.capabilities, is_every_send_signaled)
            }
            Self::Remote(pair) => {
                let (attributes, options) = pair.query()?;
                let is_every_send_signaled = options.is_every_send_signaled;
                (attributes, options.capabilities, is_every_send_signaled)
            }
        })
    }
}

/// A fabric, for what is built for it once it is known: requests with their address handles.
pub(crate) trait Fabric {
    type Address: Copy;
    type Pair: Copy;

    fn address(of: &AddressHandle) -> Result<Self::Address>;

    /// # Safety
    ///
    /// With the flag `INLINE` the elements' bytes can be read now.
    unsafe fn post_sends(
        pair: Self::Pair,
        requests: &[verbs::SendRequest<'_, Self::Address>],
    ) -> Result<()>;
}

macro_rules! fabrics {
    ($($(#[$about:meta])* $name:ident: $fabric:ident;)+) => {
        $($(#[$about])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl Fabric for $name {
            type Address = $fabric::AddressHandle;
            type Pair = $fabric::QueuePair;

            #[inline(always)]
            fn address(of: &AddressHandle) -> Result<Self::Address> {
                of.$fabric()
            }

            #[inline(always)]
            unsafe fn post_sends(
                pair: Self::Pair,
                requests: &[verbs::SendRequest<'_, Self::Address>],
            ) -> Result<()> {
                // SAFETY: as promised by the caller.
                unsafe { pair.post_sends(requests) }
            }
        })+
    };
}

fabrics! {
    /// Between processes of this machine.
    Local: local;
    /// A simulated host.
    Remote: remote;
}
