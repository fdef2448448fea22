//! The C functions of the installed library, loaded at run time, as a [`Provider`]: what the suite
//! asks of a fabric it asks through C.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{
    Address, Extensions, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag,
    Queue, ReliabilityLevel, ReliabilityLevels, RemoteViAttributes, Timespan, ViAttributes,
    ViState,
};
use viaduct_provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle,
    Descriptor, DescriptorHandler, Done, Error, ErrorCode, ErrorHandler, IncomingRequest,
    NicHandle, Provider, ResourceCode, Result, ReturnCode, ViHandle, ViInformation,
};
use vipl::abi::{
    VIP_INFINITE, VIP_SMI_AUTODISCOVERY, VipAutodiscoveryList, VipBoolean, VipCqCallback,
    VipErrorDescriptor, VipErrorHandler, VipMemAttributes, VipNetAddress, VipNicAttributes,
    VipPvoid, VipUlong, VipViAttributes, VipViCallback,
};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// `RTLD_NOW`, with local names: what is called is the library's, not what this test links.
const NOW: c_int = 2;

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*);)+) => {
        /// The library's functions.
        #[allow(non_snake_case, reason = "as the C interface spells them")]
        struct Library {
            $($name: unsafe extern "C" fn($($argument),*) -> c_uint,)+
        }

        impl Library {
            fn load(handle: *mut c_void) -> Self {
                Self {
                    $($name: {
                        let symbol = symbol(handle, stringify!($name));
                        // SAFETY: the header declares the function with these arguments.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> c_uint,
                            >(symbol)
                        }
                    },)+
                }
            }
        }
    };
}

library! {
    VipOpenNic: fn(*const c_char, *mut VipPvoid);
    VipCloseNic: fn(VipPvoid);
    VipQueryNic: fn(VipPvoid, *mut VipNicAttributes);
    VipCreateVi: fn(VipPvoid, *mut VipViAttributes, VipPvoid, VipPvoid, *mut VipPvoid);
    VipDestroyVi: fn(VipPvoid);
    VipQueryVi: fn(
        VipPvoid, *mut c_uint, *mut VipViAttributes, *mut VipBoolean, *mut VipBoolean
    );
    VipSetViAttributes: fn(VipPvoid, *mut VipViAttributes);
    VipConnectWait: fn(
        VipPvoid, *mut VipNetAddress, VipUlong, *mut VipNetAddress, *mut VipViAttributes,
        *mut VipPvoid
    );
    VipConnectAccept: fn(VipPvoid, VipPvoid);
    VipConnectReject: fn(VipPvoid);
    VipConnectRequest: fn(
        VipPvoid, *mut VipNetAddress, *mut VipNetAddress, VipUlong, *mut VipViAttributes
    );
    VipDisconnect: fn(VipPvoid);
    VipConnectPeerRequest: fn(VipPvoid, *mut VipNetAddress, *mut VipNetAddress, VipUlong);
    VipConnectPeerDone: fn(VipPvoid, *mut VipViAttributes);
    VipConnectPeerWait: fn(VipPvoid, *mut VipViAttributes);
    VipCreatePtag: fn(VipPvoid, *mut VipPvoid);
    VipDestroyPtag: fn(VipPvoid, VipPvoid);
    VipRegisterMem: fn(VipPvoid, VipPvoid, VipUlong, *mut VipMemAttributes, *mut u32);
    VipDeregisterMem: fn(VipPvoid, VipPvoid, u32);
    VipQueryMem: fn(VipPvoid, VipPvoid, u32, *mut VipMemAttributes);
    VipSetMemAttributes: fn(VipPvoid, VipPvoid, u32, *mut VipMemAttributes);
    VipPostSend: fn(VipPvoid, *mut Descriptor, u32);
    VipSendDone: fn(VipPvoid, *mut *mut Descriptor);
    VipSendWait: fn(VipPvoid, VipUlong, *mut *mut Descriptor);
    VipSendNotify: fn(VipPvoid, VipPvoid, VipViCallback);
    VipPostRecv: fn(VipPvoid, *mut Descriptor, u32);
    VipRecvDone: fn(VipPvoid, *mut *mut Descriptor);
    VipRecvWait: fn(VipPvoid, VipUlong, *mut *mut Descriptor);
    VipRecvNotify: fn(VipPvoid, VipPvoid, VipViCallback);
    VipCreateCQ: fn(VipPvoid, VipUlong, *mut VipPvoid);
    VipDestroyCQ: fn(VipPvoid);
    VipResizeCQ: fn(VipPvoid, VipUlong);
    VipCQDone: fn(VipPvoid, *mut VipPvoid, *mut VipBoolean);
    VipCQWait: fn(VipPvoid, VipUlong, *mut VipPvoid, *mut VipBoolean);
    VipCQNotify: fn(VipPvoid, VipPvoid, VipCqCallback);
    VipErrorCallback: fn(VipPvoid, VipPvoid, VipErrorHandler);
    VipQuerySystemManagementInfo: fn(VipPvoid, VipUlong, VipPvoid);
    VipNSInit: fn(VipPvoid, VipPvoid);
    VipNSGetHostByName: fn(VipPvoid, *mut c_char, *mut VipNetAddress, VipUlong);
    VipNSGetHostByAddr: fn(VipPvoid, *mut VipNetAddress, *mut c_char, *mut VipUlong);
    VipNSShutdown: fn(VipPvoid);
    VipxAllocateShared: fn(VipPvoid, VipUlong, *mut VipPvoid);
    VipxFreeShared: fn(VipPvoid, VipPvoid);
    VipxSetFlowControl: fn(VipPvoid, VipBoolean);
    VipxSetRequestSplitting: fn(VipPvoid, VipBoolean);
}

fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library stays loaded; the name ends with NUL.
    let symbol = unsafe { dlsym(handle, name.as_ptr()) };
    assert!(!symbol.is_null(), "libvipl.so lacks {name:?}");
    symbol
}

/// The library, asked through C.
pub(crate) struct CProvider(Library);

impl CProvider {
    /// Loads the library.
    pub(crate) fn load() -> Self {
        let path = crate::support::library().join("libvipl.so");
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with NUL; what the library does when it is loaded is ours.
        let handle = unsafe { dlopen(path.as_ptr(), NOW) };
        if handle.is_null() {
            // SAFETY: dlopen failed and said why.
            panic!("{:?}", unsafe { CStr::from_ptr(dlerror()) });
        }
        Self(Library::load(handle))
    }
}

/// What C said, in Rust: nothing for `VIP_SUCCESS`.
fn refusal(code: c_uint) -> Option<ReturnCode> {
    Some(match code {
        0 => return None,
        2 => ReturnCode::InvalidParameter,
        3 => ReturnCode::Resource,
        4 => ReturnCode::Timeout,
        5 => ReturnCode::Reject,
        6 => ReturnCode::InvalidReliabilityLevel,
        7 => ReturnCode::InvalidMtu,
        8 => ReturnCode::InvalidQos,
        9 => ReturnCode::InvalidPtag,
        10 => ReturnCode::InvalidRdmaRead,
        12 => ReturnCode::InvalidState,
        13 => ReturnCode::NameService,
        14 => ReturnCode::NoMatch,
        15 => ReturnCode::NotReachable,
        16 => ReturnCode::NotSupported,
        other => panic!("VIP_RETURN {other} here"),
    })
}

fn checked(code: c_uint) -> Result<()> {
    match refusal(code) {
        None => Ok(()),
        Some(refusal) => Err(Error::new(refusal, format!("VIP_RETURN {code}"))),
    }
}

/// `VIP_NOT_DONE`.
const NOT_DONE: c_uint = 1;
/// `VIP_DESCRIPTOR_ERROR`.
const DESCRIPTOR_ERROR: c_uint = 11;

fn looked(look: impl FnOnce(*mut *mut Descriptor) -> c_uint) -> Result<Done> {
    // Something that must be overwritten.
    let mut found: *mut Descriptor = NonNull::dangling().as_ptr();
    let code = look(&raw mut found);
    match (code, NonNull::new(found)) {
        (0, Some(descriptor)) => Ok(Done::Complete(descriptor)),
        (NOT_DONE, None) => Ok(Done::NotDone),
        (DESCRIPTOR_ERROR, Some(descriptor)) => Ok(Done::Failed(descriptor)),
        (DESCRIPTOR_ERROR, None) => Ok(Done::Empty),
        (code, found) => {
            assert!(found.is_none(), "a descriptor with VIP_RETURN {code}");
            Err(checked(code).expect_err("success with no descriptor"))
        }
    }
}

fn pointer(bits: u64) -> VipPvoid {
    bits as usize as VipPvoid
}

fn optional(queue: Option<CompletionQueueHandle>) -> VipPvoid {
    pointer(queue.map_or(0, CompletionQueueHandle::bits))
}

fn milliseconds(limit: Option<Duration>) -> VipUlong {
    limit.map_or(VIP_INFINITE, |limit| {
        limit.as_millis() as VipUlong + u64::from(!limit.subsec_nanos().is_multiple_of(1_000_000))
    })
}

/// A `VIP_NET_ADDRESS` with room for the longest discriminator.
struct NetAddress(Vec<u64>);

impl NetAddress {
    fn empty() -> Self {
        // What is there on entry means nothing.
        Self(vec![0xEEEE_EEEE_EEEE_EEEE; (4 + 6 + 65_536) / 8])
    }

    fn new(host: HostAddress, discriminator: &[u8]) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(6_u16.to_ne_bytes());
        bytes.extend((discriminator.len() as u16).to_ne_bytes());
        bytes.extend(&host.get().to_be_bytes()[2..]);
        bytes.extend(discriminator);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().unwrap());
        Self(bytes.chunks(8).map(word).collect())
    }

    fn of(address: &Address) -> Self {
        Self::new(address.host, address.discriminator.as_bytes())
    }

    fn pointer(&mut self) -> *mut VipNetAddress {
        self.0.as_mut_ptr().cast()
    }

    fn read(&self) -> Address {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes[..2], 6_u16.to_ne_bytes(), "HostAddressLen");
        let length = usize::from(u16::from_ne_bytes([bytes[2], bytes[3]]));
        let mut host = [0; 8];
        host[2..].copy_from_slice(&bytes[4..10]);
        let host = HostAddress::new(u64::from_be_bytes(host));
        Address::new(host, &bytes[10..10 + length])
    }
}

fn to_c(attributes: &ViAttributes) -> VipViAttributes {
    VipViAttributes {
        ReliabilityLevel: attributes.reliability as u16,
        MaxTransferSize: attributes.max_transfer_bytes.into(),
        QoS: pointer(attributes.quality_of_service.into()),
        Ptag: pointer(attributes.tag.bits().into()),
        EnableRdmaWrite: attributes.rdma_write.into(),
        EnableRdmaRead: attributes.rdma_read.into(),
    }
}

fn from_c(attributes: &VipViAttributes) -> ViAttributes {
    ViAttributes {
        reliability: ReliabilityLevel::from_bits(attributes.ReliabilityLevel).unwrap(),
        max_transfer_bytes: attributes.MaxTransferSize as u32,
        tag: ProtectionTag::from_bits(attributes.Ptag as usize as u32),
        rdma_write: attributes.EnableRdmaWrite != 0,
        rdma_read: attributes.EnableRdmaRead != 0,
        quality_of_service: attributes.QoS as usize as u16,
        extensions: Extensions::NONE,
    }
}

fn no_attributes() -> VipViAttributes {
    VipViAttributes {
        ReliabilityLevel: 0xEEEE,
        MaxTransferSize: 0,
        QoS: null_mut(),
        Ptag: null_mut(),
        EnableRdmaWrite: 0,
        EnableRdmaRead: 0,
    }
}

fn remote(attributes: &VipViAttributes) -> RemoteViAttributes {
    assert!(attributes.Ptag.is_null(), "a peer's tag");
    from_c(attributes).for_peer()
}

fn memory_to_c(attributes: &MemoryAttributes) -> VipMemAttributes {
    VipMemAttributes {
        Ptag: pointer(attributes.tag.bits().into()),
        EnableRdmaWrite: attributes.rdma_write.into(),
        EnableRdmaRead: attributes.rdma_read.into(),
    }
}

fn levels(bits: u16) -> ReliabilityLevels {
    [1, 2, 4]
        .into_iter()
        .filter(|level| bits & level != 0)
        .filter_map(ReliabilityLevel::from_bits)
        .fold(ReliabilityLevels::NONE, ReliabilityLevels::with)
}

/// Calls a handler of the suite once.
unsafe extern "C" fn on_descriptor(
    context: VipPvoid,
    nic: VipPvoid,
    vi: VipPvoid,
    descriptor: *mut Descriptor,
) {
    // SAFETY: the context is what `send_notify` and `receive_notify` gave away, for one call.
    let handler = unsafe { Box::from_raw(context.cast::<DescriptorHandler>()) };
    handler(
        NicHandle::from_bits(nic as u64).unwrap(),
        ViHandle::from_bits(vi as u64).unwrap(),
        NonNull::new(descriptor).unwrap(),
    );
}

unsafe extern "C" fn on_completion(
    context: VipPvoid,
    nic: VipPvoid,
    vi: VipPvoid,
    is_receive: VipBoolean,
) {
    // SAFETY: the context is what `completion_notify` gave away, for one call.
    let handler = unsafe { Box::from_raw(context.cast::<CompletionHandler>()) };
    let vi = ViHandle::from_bits(vi as u64).unwrap();
    let queue = queue(is_receive);
    handler(
        NicHandle::from_bits(nic as u64).unwrap(),
        CompletionEntry { vi, queue },
    );
}

fn queue(is_receive: VipBoolean) -> Queue {
    match is_receive {
        0 => Queue::Send,
        1 => Queue::Receive,
        other => panic!("RecvQueue is {other}"),
    }
}

unsafe extern "C" fn on_nothing(_: VipPvoid, _: *mut VipErrorDescriptor) {}

unsafe extern "C" fn on_error(context: VipPvoid, told: *mut VipErrorDescriptor) {
    // SAFETY: the context is a handler that `set_error_handler` leaked.
    let handler = unsafe { &*context.cast::<ErrorHandler>() };
    // SAFETY: the library lends a descriptor for the call.
    let told = unsafe { *told };
    let codes = [
        ErrorCode::PostDescriptor,
        ErrorCode::ConnectionLost,
        ErrorCode::ReceiveQueueEmpty,
        ErrorCode::ViOverrun,
        ErrorCode::RdmaWriteProtection,
        ErrorCode::RdmaWriteData,
        ErrorCode::RdmaWriteAbort,
        ErrorCode::RdmaReadProtection,
        ErrorCode::CompletionProtection,
        ErrorCode::RdmaTransport,
        ErrorCode::Catastrophic,
    ];
    let resources = [
        ResourceCode::Nic,
        ResourceCode::Vi,
        ResourceCode::CompletionQueue,
        ResourceCode::Descriptor,
    ];
    handler(&AsynchronousError {
        nic: NicHandle::from_bits(told.NicHandle as u64).unwrap(),
        vi: ViHandle::from_bits(told.ViHandle as u64),
        completion_queue: CompletionQueueHandle::from_bits(told.CQHandle as u64),
        descriptor: NonNull::new(told.DescriptorPtr),
        operation: told.OpCode as u32,
        resource: resources[told.ResourceCode as usize],
        code: codes[told.ErrorCode as usize],
    });
}

/// Every call hands C variables of its own, and what the caller of the trait vouched for.
macro_rules! c {
    ($self:ident.$name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the pointers are of live variables of the right types.
        unsafe { ($self.0.$name)($($argument),*) }
    };
}

// SAFETY: a libvipl that keeps to its reference keeps to this too.
unsafe impl Provider for CProvider {
    fn open_nic(&self, device: &str) -> Result<NicHandle> {
        let device = CString::new(device).unwrap();
        let mut nic = null_mut();
        checked(c!(self.VipOpenNic(device.as_ptr(), &raw mut nic)))?;
        // Connections are lost by the hundred on purpose: not a line for each.
        checked(c!(self.VipErrorCallback(nic, null_mut(), Some(on_nothing))))?;
        Ok(NicHandle::from_bits(nic as u64).unwrap())
    }

    fn close_nic(&self, nic: NicHandle) -> Result<()> {
        checked(c!(self.VipCloseNic(pointer(nic.bits()))))
    }

    fn query_nic(&self, nic: NicHandle) -> Result<(Arc<NicAttributes>, HostAddress)> {
        let mut place = std::mem::MaybeUninit::<VipNicAttributes>::uninit();
        checked(c!(self.VipQueryNic(pointer(nic.bits()), place.as_mut_ptr())))?;
        // SAFETY: the call succeeded and has written it.
        let told = unsafe { place.assume_init() };
        assert_eq!((told.NicAddressLen, told.ThreadSafe), (6, 1));
        // SAFETY: the name ends with NUL; the address has the bytes that are told.
        let (name, address) = unsafe {
            (
                CStr::from_ptr(told.Name.as_ptr()).to_str().unwrap(),
                std::slice::from_raw_parts(told.LocalNicAddress, 6),
            )
        };
        let mut host = [0; 8];
        host[2..].copy_from_slice(address);
        let attributes = NicAttributes {
            name: name.into(),
            max_vis: told.MaxVI as u32,
            max_descriptors_per_queue: told.MaxDescriptorsPerQueue as u32,
            max_segments_per_descriptor: told.MaxSegmentsPerDesc as u32,
            max_transfer_bytes: told.MaxTransferSize as u32,
            native_mtu_bytes: told.NativeMTU as u32,
            max_completion_queues: told.MaxCQ as u32,
            max_completion_queue_entries: told.MaxCQEntries as u32,
            max_protection_tags: told.MaxPtags as u32,
            max_memory_regions: told.MaxRegisterRegions as u32,
            max_region_bytes: told.MaxRegisterBlockBytes,
            max_registered_bytes: told.MaxRegisterBytes,
            max_discriminator_bytes: told.MaxDiscriminatorLen,
            reliability_levels: levels(told.ReliabilityLevelSupport),
            rdma_read_levels: levels(told.RDMAReadSupport),
            // C has no word for these.
            qualities_of_service: 1,
            connect_grace: Timespan::ZERO,
        };
        Ok((
            Arc::new(attributes),
            HostAddress::new(u64::from_be_bytes(host)),
        ))
    }

    fn create_vi(
        &self,
        nic: NicHandle,
        attributes: &ViAttributes,
        send_completions: Option<CompletionQueueHandle>,
        receive_completions: Option<CompletionQueueHandle>,
    ) -> Result<ViHandle> {
        let mut asked = to_c(attributes);
        let mut vi = null_mut();
        checked(c!(self.VipCreateVi(
            pointer(nic.bits()),
            &raw mut asked,
            optional(send_completions),
            optional(receive_completions),
            &raw mut vi,
        )))?;
        Ok(ViHandle::from_bits(vi as u64).unwrap())
    }

    fn destroy_vi(&self, vi: ViHandle) -> Result<()> {
        checked(c!(self.VipDestroyVi(pointer(vi.bits()))))
    }

    fn query_vi(&self, vi: ViHandle) -> Result<ViInformation> {
        let (mut state, mut attributes) = (99, no_attributes());
        let (mut send_empty, mut receive_empty) = (99, 99);
        checked(c!(self.VipQueryVi(
            pointer(vi.bits()),
            &raw mut state,
            &raw mut attributes,
            &raw mut send_empty,
            &raw mut receive_empty,
        )))?;
        assert!(send_empty <= 1 && receive_empty <= 1);
        let states = [
            ViState::Idle,
            ViState::Connected,
            ViState::ConnectPending,
            ViState::Error,
        ];
        Ok(ViInformation {
            state: states[state as usize],
            attributes: from_c(&attributes),
            send_queue_empty: send_empty == 1,
            receive_queue_empty: receive_empty == 1,
        })
    }

    fn set_vi_attributes(&self, vi: ViHandle, attributes: &ViAttributes) -> Result<()> {
        let mut asked = to_c(attributes);
        checked(c!(
            self.VipSetViAttributes(pointer(vi.bits()), &raw mut asked)
        ))
    }

    fn connect_wait(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        let (mut local, mut from) = (NetAddress::of(local), NetAddress::empty());
        let (mut attributes, mut connection) = (no_attributes(), null_mut());
        checked(c!(self.VipConnectWait(
            pointer(nic.bits()),
            local.pointer(),
            milliseconds(limit),
            from.pointer(),
            &raw mut attributes,
            &raw mut connection,
        )))?;
        Ok(IncomingRequest {
            connection: ConnectionHandle::from_bits(connection as u64).unwrap(),
            remote: from.read(),
            attributes: remote(&attributes),
        })
    }

    fn connect_accept(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()> {
        checked(c!(self.VipConnectAccept(
            pointer(connection.bits()),
            pointer(vi.bits())
        )))
    }

    fn connect_reject(&self, connection: ConnectionHandle) -> Result<()> {
        checked(c!(self.VipConnectReject(pointer(connection.bits()))))
    }

    fn connect_request(
        &self,
        vi: ViHandle,
        local: &Address,
        to: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        let (mut local, mut to) = (NetAddress::of(local), NetAddress::of(to));
        let mut attributes = no_attributes();
        checked(c!(self.VipConnectRequest(
            pointer(vi.bits()),
            local.pointer(),
            to.pointer(),
            milliseconds(limit),
            &raw mut attributes,
        )))?;
        Ok(remote(&attributes))
    }

    fn disconnect(&self, vi: ViHandle) -> Result<()> {
        checked(c!(self.VipDisconnect(pointer(vi.bits()))))
    }

    fn connect_peer_request(
        &self,
        vi: ViHandle,
        local: &Address,
        to: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        let (mut local, mut to) = (NetAddress::of(local), NetAddress::of(to));
        checked(c!(self.VipConnectPeerRequest(
            pointer(vi.bits()),
            local.pointer(),
            to.pointer(),
            milliseconds(limit),
        )))
    }

    fn connect_peer_done(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>> {
        let mut attributes = no_attributes();
        let code = c!(self.VipConnectPeerDone(pointer(vi.bits()), &raw mut attributes));
        if code == NOT_DONE {
            return Ok(None);
        }
        checked(code)?;
        Ok(Some(remote(&attributes)))
    }

    fn connect_peer_wait(&self, vi: ViHandle) -> Result<RemoteViAttributes> {
        let mut attributes = no_attributes();
        checked(c!(
            self.VipConnectPeerWait(pointer(vi.bits()), &raw mut attributes)
        ))?;
        Ok(remote(&attributes))
    }

    fn create_protection_tag(&self, nic: NicHandle) -> Result<ProtectionTag> {
        let mut tag = null_mut();
        checked(c!(self.VipCreatePtag(pointer(nic.bits()), &raw mut tag)))?;
        Ok(ProtectionTag::from_bits(tag as usize as u32))
    }

    fn destroy_protection_tag(&self, nic: NicHandle, tag: ProtectionTag) -> Result<()> {
        checked(c!(self.VipDestroyPtag(
            pointer(nic.bits()),
            pointer(tag.bits().into())
        )))
    }

    unsafe fn register_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        length: usize,
        attributes: &MemoryAttributes,
    ) -> Result<MemoryHandle> {
        let mut asked = memory_to_c(attributes);
        let mut handle = 99;
        let code = c!(self.VipRegisterMem(
            pointer(nic.bits()),
            address.cast(),
            length as VipUlong,
            &raw mut asked,
            &raw mut handle,
        ));
        assert_eq!(code != 0, handle == 0, "0 is failure, and failure is 0");
        checked(code)?;
        Ok(MemoryHandle::from_bits(handle))
    }

    fn deregister_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<()> {
        checked(c!(self.VipDeregisterMem(
            pointer(nic.bits()),
            address.cast(),
            handle.bits()
        )))
    }

    fn query_memory(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
    ) -> Result<MemoryAttributes> {
        let mut told = VipMemAttributes {
            Ptag: null_mut(),
            EnableRdmaWrite: 99,
            EnableRdmaRead: 99,
        };
        checked(c!(self.VipQueryMem(
            pointer(nic.bits()),
            address.cast(),
            handle.bits(),
            &raw mut told,
        )))?;
        Ok(MemoryAttributes {
            tag: ProtectionTag::from_bits(told.Ptag as usize as u32),
            rdma_write: told.EnableRdmaWrite != 0,
            rdma_read: told.EnableRdmaRead != 0,
        })
    }

    fn set_memory_attributes(
        &self,
        nic: NicHandle,
        address: *mut u8,
        handle: MemoryHandle,
        attributes: &MemoryAttributes,
    ) -> Result<()> {
        let mut asked = memory_to_c(attributes);
        checked(c!(self.VipSetMemAttributes(
            pointer(nic.bits()),
            address.cast(),
            handle.bits(),
            &raw mut asked,
        )))
    }

    unsafe fn post_send(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        checked(c!(self.VipPostSend(
            pointer(vi.bits()),
            descriptor,
            handle.bits()
        )))
    }

    unsafe fn post_receive(
        &self,
        vi: ViHandle,
        descriptor: *mut Descriptor,
        handle: MemoryHandle,
    ) -> Result<()> {
        checked(c!(self.VipPostRecv(
            pointer(vi.bits()),
            descriptor,
            handle.bits()
        )))
    }

    fn send_done(&self, vi: ViHandle) -> Result<Done> {
        looked(|place| c!(self.VipSendDone(pointer(vi.bits()), place)))
    }

    fn receive_done(&self, vi: ViHandle) -> Result<Done> {
        looked(|place| c!(self.VipRecvDone(pointer(vi.bits()), place)))
    }

    fn send_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        looked(|place| c!(self.VipSendWait(pointer(vi.bits()), milliseconds(limit), place)))
    }

    fn receive_wait(&self, vi: ViHandle, limit: Option<Duration>) -> Result<Done> {
        looked(|place| c!(self.VipRecvWait(pointer(vi.bits()), milliseconds(limit), place)))
    }

    fn send_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        // Given away to the handler; a notify that never fires leaks, as in C.
        let context = Box::into_raw(Box::new(handler)).cast();
        checked(c!(self.VipSendNotify(
            pointer(vi.bits()),
            context,
            Some(on_descriptor)
        )))
    }

    fn receive_notify(&self, vi: ViHandle, handler: DescriptorHandler) -> Result<()> {
        let context = Box::into_raw(Box::new(handler)).cast();
        checked(c!(self.VipRecvNotify(
            pointer(vi.bits()),
            context,
            Some(on_descriptor)
        )))
    }

    fn create_completion_queue(
        &self,
        nic: NicHandle,
        entries: u32,
    ) -> Result<CompletionQueueHandle> {
        let mut queue = null_mut();
        checked(c!(self.VipCreateCQ(
            pointer(nic.bits()),
            entries.into(),
            &raw mut queue
        )))?;
        Ok(CompletionQueueHandle::from_bits(queue as u64).unwrap())
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueHandle) -> Result<()> {
        checked(c!(self.VipDestroyCQ(pointer(queue.bits()))))
    }

    fn resize_completion_queue(&self, queue: CompletionQueueHandle, entries: u32) -> Result<()> {
        checked(c!(self.VipResizeCQ(pointer(queue.bits()), entries.into())))
    }

    fn completion_done(&self, from: CompletionQueueHandle) -> Result<Option<CompletionEntry>> {
        let (mut vi, mut is_receive) = (null_mut(), 99);
        let code = c!(self.VipCQDone(pointer(from.bits()), &raw mut vi, &raw mut is_receive));
        if code == NOT_DONE {
            return Ok(None);
        }
        checked(code)?;
        Ok(Some(CompletionEntry {
            vi: ViHandle::from_bits(vi as u64).unwrap(),
            queue: queue(is_receive),
        }))
    }

    fn completion_wait(
        &self,
        from: CompletionQueueHandle,
        limit: Option<Duration>,
    ) -> Result<CompletionEntry> {
        let (mut vi, mut is_receive) = (null_mut(), 99);
        checked(c!(self.VipCQWait(
            pointer(from.bits()),
            milliseconds(limit),
            &raw mut vi,
            &raw mut is_receive,
        )))?;
        Ok(CompletionEntry {
            vi: ViHandle::from_bits(vi as u64).unwrap(),
            queue: queue(is_receive),
        })
    }

    fn completion_notify(
        &self,
        queue: CompletionQueueHandle,
        handler: CompletionHandler,
    ) -> Result<()> {
        let context = Box::into_raw(Box::new(handler)).cast();
        checked(c!(self.VipCQNotify(
            pointer(queue.bits()),
            context,
            Some(on_completion)
        )))
    }

    fn set_error_handler(&self, nic: NicHandle, handler: Option<ErrorHandler>) -> Result<()> {
        let nic = pointer(nic.bits());
        let Some(handler) = handler else {
            return checked(c!(self.VipErrorCallback(nic, null_mut(), None)));
        };
        // Leaked: a call of the old handler may still be under way when a new one is set.
        let context: *mut ErrorHandler = Box::leak(Box::new(handler));
        checked(c!(self.VipErrorCallback(
            nic,
            context.cast(),
            Some(on_error)
        )))
    }

    fn host_by_name(&self, nic: NicHandle, name: &str, index: u32) -> Result<HostAddress> {
        let nic = pointer(nic.bits());
        checked(c!(self.VipNSInit(nic, null_mut())))?;
        let name = CString::new(name).unwrap();
        let mut place = NetAddress::empty();
        checked(c!(self.VipNSGetHostByName(
            nic,
            name.as_ptr().cast_mut(),
            place.pointer(),
            index.into(),
        )))?;
        checked(c!(self.VipNSShutdown(nic)))?;
        let address = place.read();
        assert!(address.discriminator.as_bytes().is_empty());
        Ok(address.host)
    }

    fn host_by_address(&self, nic: NicHandle, address: HostAddress) -> Result<String> {
        let nic = pointer(nic.bits());
        let mut address = NetAddress::new(address, b"");
        let mut needed: VipUlong = 0;
        let code = c!(self.VipNSGetHostByAddr(nic, address.pointer(), null_mut(), &raw mut needed));
        if refusal(code) != Some(ReturnCode::Resource) {
            checked(code)?;
            panic!("a name in no bytes");
        }
        let mut name: Vec<c_char> = vec![0x7F; needed as usize];
        checked(c!(self.VipNSGetHostByAddr(
            nic,
            address.pointer(),
            name.as_mut_ptr(),
            &raw mut needed,
        )))?;
        // SAFETY: the call succeeded and has written a string with its NUL.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        assert_eq!(name.count_bytes() as VipUlong + 1, needed);
        Ok(name.to_str().unwrap().to_owned())
    }

    fn discover(&self, nic: NicHandle, hops: u32) -> Result<Vec<HostAddress>> {
        let mut list = VipAutodiscoveryList {
            NumberOfHops: hops.into(),
            ADAddrArray: null_mut(),
            NumAdAddrs: 0,
        };
        let nic = pointer(nic.bits());
        let ask = |list: &mut VipAutodiscoveryList| {
            let list = (&raw mut *list).cast();
            c!(self.VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, list))
        };
        let code = ask(&mut list);
        if refusal(code) != Some(ReturnCode::Resource) {
            checked(code)?;
            return Ok(Vec::new());
        }
        let mut places: Vec<_> = (0..list.NumAdAddrs).map(|_| NetAddress::empty()).collect();
        let mut pointers: Vec<_> = places.iter_mut().map(NetAddress::pointer).collect();
        list.ADAddrArray = pointers.as_mut_ptr();
        checked(ask(&mut list))?;
        Ok(places.iter().map(|place| place.read().host).collect())
    }

    fn allocate_shared(&self, nic: NicHandle, length: usize) -> Result<NonNull<u8>> {
        let mut address = null_mut();
        checked(c!(self.VipxAllocateShared(
            pointer(nic.bits()),
            length as VipUlong,
            &raw mut address,
        )))?;
        Ok(NonNull::new(address.cast()).unwrap())
    }

    unsafe fn free_shared(&self, nic: NicHandle, address: NonNull<u8>) -> Result<()> {
        checked(c!(
            self.VipxFreeShared(pointer(nic.bits()), address.as_ptr().cast())
        ))
    }

    fn set_flow_control(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        checked(c!(
            self.VipxSetFlowControl(pointer(vi.bits()), enabled.into())
        ))
    }

    fn set_request_splitting(&self, vi: ViHandle, enabled: bool) -> Result<()> {
        checked(c!(
            self.VipxSetRequestSplitting(pointer(vi.bits()), enabled.into())
        ))
    }
}
