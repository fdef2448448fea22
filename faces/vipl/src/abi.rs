//! The types of `vipl.h`, field by field; the header is the contract, and a test compares the two.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ushort, c_void};

use viaduct_provider::{ControlSegment, Descriptor, ReturnCode, Segment};

/// `VIP_PVOID`, and every opaque handle.
pub type VipPvoid = *mut c_void;
/// `VIP_NIC_HANDLE`.
pub type VipNicHandle = VipPvoid;
/// `VIP_VI_HANDLE`.
pub type VipViHandle = VipPvoid;
/// `VIP_CQ_HANDLE`.
pub type VipCqHandle = VipPvoid;
/// `VIP_PROTECTION_HANDLE`.
pub type VipProtectionHandle = VipPvoid;
/// `VIP_CONN_HANDLE`.
pub type VipConnHandle = VipPvoid;
/// `VIP_QOS`.
pub type VipQos = VipPvoid;
/// `VIP_MEM_HANDLE`.
pub type VipMemHandle = u32;
/// `VIP_BOOLEAN`.
pub type VipBoolean = c_int;
/// `VIP_CHAR`.
pub type VipChar = c_char;
/// `VIP_ULONG`.
pub type VipUlong = c_ulong;
/// `VIP_RELIABILITY_LEVEL`: a mask.
pub type VipReliabilityLevel = c_ushort;
/// `VIP_CONTROL_SEGMENT`.
pub type VipControlSegment = ControlSegment;
/// `VIP_DATA_SEGMENT`, and `VIP_ADDRESS_SEGMENT` with its last word 0.
pub type VipDescriptorSegment = Segment;
/// `VIP_DESCRIPTOR`.
pub type VipDescriptor = Descriptor;

/// `VIP_INFINITE`; `0xFFFF_FFFF` is infinite too.
pub const VIP_INFINITE: VipUlong = VipUlong::MAX;
/// `VIP_SMI_AUTODISCOVERY`.
pub const VIP_SMI_AUTODISCOVERY: VipUlong = 1;

/// `VIP_RETURN`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
#[must_use]
pub enum VipReturn {
    /// `VIP_SUCCESS`.
    Success,
    /// `VIP_NOT_DONE`.
    NotDone,
    /// `VIP_INVALID_PARAMETER`.
    InvalidParameter,
    /// `VIP_ERROR_RESOURCE`.
    ErrorResource,
    /// `VIP_TIMEOUT`.
    Timeout,
    /// `VIP_REJECT`.
    Reject,
    /// `VIP_INVALID_RELIABILITY_LEVEL`.
    InvalidReliabilityLevel,
    /// `VIP_INVALID_MTU`.
    InvalidMtu,
    /// `VIP_INVALID_QOS`.
    InvalidQos,
    /// `VIP_INVALID_PTAG`.
    InvalidPtag,
    /// `VIP_INVALID_RDMAREAD`.
    InvalidRdmaRead,
    /// `VIP_DESCRIPTOR_ERROR`.
    DescriptorError,
    /// `VIP_INVALID_STATE`.
    InvalidState,
    /// `VIP_ERROR_NAMESERVICE`.
    ErrorNameService,
    /// `VIP_NO_MATCH`.
    NoMatch,
    /// `VIP_NOT_REACHABLE`.
    NotReachable,
    /// `VIP_ERROR_NOT_SUPPORTED`.
    ErrorNotSupported,
}

impl VipReturn {
    /// Every code, in the order of its value.
    pub const ALL: [Self; 17] = [
        Self::Success,
        Self::NotDone,
        Self::InvalidParameter,
        Self::ErrorResource,
        Self::Timeout,
        Self::Reject,
        Self::InvalidReliabilityLevel,
        Self::InvalidMtu,
        Self::InvalidQos,
        Self::InvalidPtag,
        Self::InvalidRdmaRead,
        Self::DescriptorError,
        Self::InvalidState,
        Self::ErrorNameService,
        Self::NoMatch,
        Self::NotReachable,
        Self::ErrorNotSupported,
    ];

    /// The name in `vipl.h`.
    #[must_use]
    pub const fn name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Success => c"VIP_SUCCESS",
            Self::NotDone => c"VIP_NOT_DONE",
            Self::InvalidParameter => c"VIP_INVALID_PARAMETER",
            Self::ErrorResource => c"VIP_ERROR_RESOURCE",
            Self::Timeout => c"VIP_TIMEOUT",
            Self::Reject => c"VIP_REJECT",
            Self::InvalidReliabilityLevel => c"VIP_INVALID_RELIABILITY_LEVEL",
            Self::InvalidMtu => c"VIP_INVALID_MTU",
            Self::InvalidQos => c"VIP_INVALID_QOS",
            Self::InvalidPtag => c"VIP_INVALID_PTAG",
            Self::InvalidRdmaRead => c"VIP_INVALID_RDMAREAD",
            Self::DescriptorError => c"VIP_DESCRIPTOR_ERROR",
            Self::InvalidState => c"VIP_INVALID_STATE",
            Self::ErrorNameService => c"VIP_ERROR_NAMESERVICE",
            Self::NoMatch => c"VIP_NO_MATCH",
            Self::NotReachable => c"VIP_NOT_REACHABLE",
            Self::ErrorNotSupported => c"VIP_ERROR_NOT_SUPPORTED",
        }
    }
}

impl From<ReturnCode> for VipReturn {
    fn from(code: ReturnCode) -> Self {
        match code {
            ReturnCode::InvalidParameter => Self::InvalidParameter,
            ReturnCode::Resource => Self::ErrorResource,
            ReturnCode::Timeout => Self::Timeout,
            ReturnCode::Reject => Self::Reject,
            ReturnCode::InvalidReliabilityLevel => Self::InvalidReliabilityLevel,
            ReturnCode::InvalidMtu => Self::InvalidMtu,
            ReturnCode::InvalidQos => Self::InvalidQos,
            ReturnCode::InvalidPtag => Self::InvalidPtag,
            ReturnCode::InvalidRdmaRead => Self::InvalidRdmaRead,
            ReturnCode::InvalidState => Self::InvalidState,
            ReturnCode::NameService => Self::ErrorNameService,
            ReturnCode::NoMatch => Self::NoMatch,
            ReturnCode::NotReachable => Self::NotReachable,
            ReturnCode::NotSupported => Self::ErrorNotSupported,
        }
    }
}

/// `VIP_NET_ADDRESS`: a header of four bytes, the host's address, the discriminator.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipNetAddress {
    /// Bytes of the host's address.
    pub HostAddressLen: u16,
    /// Bytes of the discriminator that follows it.
    pub DiscriminatorLen: u16,
    /// The first byte of both.
    pub HostAddress: [u8; 1],
}

/// `VIP_NIC_ATTRIBUTES`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipNicAttributes {
    /// What the NIC is called; ends with NUL.
    pub Name: [c_char; 64],
    /// Version of the hardware.
    pub HardwareVersion: c_ulong,
    /// Version of this library.
    pub ProviderVersion: c_ulong,
    /// Bytes of a host address.
    pub NicAddressLen: u16,
    /// This NIC's address, valid while the handle is open.
    pub LocalNicAddress: *const u8,
    /// Whether any thread may call anything.
    pub ThreadSafe: VipBoolean,
    /// Bytes of a discriminator.
    pub MaxDiscriminatorLen: u16,
    /// Bytes of all regions.
    pub MaxRegisterBytes: c_ulong,
    /// Regions.
    pub MaxRegisterRegions: c_ulong,
    /// Bytes of one region.
    pub MaxRegisterBlockBytes: c_ulong,
    /// VIs.
    pub MaxVI: c_ulong,
    /// Descriptors in one work queue.
    pub MaxDescriptorsPerQueue: c_ulong,
    /// Segments in one descriptor.
    pub MaxSegmentsPerDesc: c_ulong,
    /// Completion queues.
    pub MaxCQ: c_ulong,
    /// Entries of one completion queue.
    pub MaxCQEntries: c_ulong,
    /// Bytes of one message.
    pub MaxTransferSize: c_ulong,
    /// Payload bytes of a frame.
    pub NativeMTU: c_ulong,
    /// Protection tags.
    pub MaxPtags: c_ulong,
    /// Mask of levels.
    pub ReliabilityLevelSupport: VipReliabilityLevel,
    /// Mask of levels at which remote reads work.
    pub RDMAReadSupport: VipReliabilityLevel,
}

/// `VIP_VI_ATTRIBUTES`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipViAttributes {
    /// One level.
    pub ReliabilityLevel: VipReliabilityLevel,
    /// Bytes of the largest message.
    pub MaxTransferSize: c_ulong,
    /// 0 for the default.
    pub QoS: VipQos,
    /// Which regions the VI may name.
    pub Ptag: VipProtectionHandle,
    /// Whether the peer may write.
    pub EnableRdmaWrite: VipBoolean,
    /// Whether the peer may read.
    pub EnableRdmaRead: VipBoolean,
}

/// `VIP_MEM_ATTRIBUTES`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipMemAttributes {
    /// Which VIs may name the region.
    pub Ptag: VipProtectionHandle,
    /// Whether a peer may write it.
    pub EnableRdmaWrite: VipBoolean,
    /// Whether a peer may read it.
    pub EnableRdmaRead: VipBoolean,
}

/// `VIP_ERROR_DESCRIPTOR`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipErrorDescriptor {
    /// The NIC.
    pub NicHandle: VipNicHandle,
    /// The VI, or NULL.
    pub ViHandle: VipViHandle,
    /// The completion queue, or NULL.
    pub CQHandle: VipCqHandle,
    /// The descriptor, or NULL.
    pub DescriptorPtr: *mut VipDescriptor,
    /// A `VIP_STATUS_OP_*` code.
    pub OpCode: c_ulong,
    /// `VIP_RESOURCE_CODE`: which handle is meant.
    pub ResourceCode: c_uint,
    /// `VIP_ERROR_CODE`.
    pub ErrorCode: c_uint,
}

/// `VIP_AUTODISCOVERY_LIST`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VipAutodiscoveryList {
    /// How far to look.
    pub NumberOfHops: c_ulong,
    /// One buffer for each address.
    pub ADAddrArray: *mut *mut VipNetAddress,
    /// How many buffers; then how many addresses.
    pub NumAdAddrs: c_ulong,
}

/// `VIP_ERROR_HANDLER`.
pub type VipErrorHandler = Option<unsafe extern "C" fn(VipPvoid, *mut VipErrorDescriptor)>;
/// `VIP_VI_CALLBACK`.
pub type VipViCallback =
    Option<unsafe extern "C" fn(VipPvoid, VipNicHandle, VipViHandle, *mut VipDescriptor)>;
/// `VIP_CQ_CALLBACK`.
pub type VipCqCallback =
    Option<unsafe extern "C" fn(VipPvoid, VipNicHandle, VipViHandle, VipBoolean)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_value_of_its_return_code() {
        for refusal in ReturnCode::ALL {
            assert_eq!(VipReturn::from(refusal) as u32, refusal as u32);
        }
    }
}
