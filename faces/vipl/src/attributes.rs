//! Attributes of NICs, VIs and regions: to C and from C.

use std::ffi::c_char;

use viaduct_provider::via::{
    Extensions, MemoryAttributes, NicAttributes, ReliabilityLevel, RemoteViAttributes, ViAttributes,
};
use viaduct_provider::{Error, Result, ReturnCode};

use crate::abi::{VipMemAttributes, VipNicAttributes, VipUlong, VipViAttributes};
use crate::address::HOST_ADDRESS_BYTES;
use crate::call::{boolean, pointer};
use crate::nics::{tag, tag_handle};

/// What a program asks for a VI.
pub(crate) fn vi_attributes(given: &VipViAttributes) -> Result<ViAttributes> {
    let reliability = ReliabilityLevel::from_bits(given.ReliabilityLevel).ok_or_else(|| {
        Error::new(
            ReturnCode::InvalidReliabilityLevel,
            format!(
                "ReliabilityLevel {} is not one level: give 1, 2 or 4 (VIP_SERVICE_*)",
                given.ReliabilityLevel
            ),
        )
    })?;
    let max_transfer_bytes = u32::try_from(given.MaxTransferSize).map_err(|_| {
        Error::new(
            ReturnCode::InvalidMtu,
            format!(
                "MaxTransferSize {} is more than VipQueryNic reports",
                given.MaxTransferSize
            ),
        )
    })?;
    let quality_of_service = u16::try_from(given.QoS as usize)
        .map_err(|_| Error::new(ReturnCode::InvalidQos, "QoS is not 0, the default"))?;
    Ok(ViAttributes {
        reliability,
        max_transfer_bytes,
        tag: tag(given.Ptag)?,
        rdma_write: given.EnableRdmaWrite != 0,
        rdma_read: given.EnableRdmaRead != 0,
        quality_of_service,
        extensions: Extensions::NONE,
    })
}

pub(crate) fn vi_attributes_to_c(attributes: &ViAttributes) -> VipViAttributes {
    VipViAttributes {
        ReliabilityLevel: attributes.reliability as u16,
        MaxTransferSize: VipUlong::from(attributes.max_transfer_bytes),
        QoS: pointer(u64::from(attributes.quality_of_service)),
        Ptag: tag_handle(attributes.tag),
        EnableRdmaWrite: boolean(attributes.rdma_write),
        EnableRdmaRead: boolean(attributes.rdma_read),
    }
}

/// The peer's tag means nothing here: it is NULL.
pub(crate) fn remote_attributes_to_c(attributes: &RemoteViAttributes) -> VipViAttributes {
    VipViAttributes {
        ReliabilityLevel: attributes.reliability as u16,
        MaxTransferSize: VipUlong::from(attributes.max_transfer_bytes),
        QoS: pointer(u64::from(attributes.quality_of_service)),
        Ptag: std::ptr::null_mut(),
        EnableRdmaWrite: boolean(attributes.rdma_write),
        EnableRdmaRead: boolean(attributes.rdma_read),
    }
}

/// What a program asks for a region.
pub(crate) fn memory_attributes(given: &VipMemAttributes) -> Result<MemoryAttributes> {
    Ok(MemoryAttributes {
        tag: tag(given.Ptag)?,
        rdma_write: given.EnableRdmaWrite != 0,
        rdma_read: given.EnableRdmaRead != 0,
    })
}

pub(crate) fn memory_attributes_to_c(attributes: &MemoryAttributes) -> VipMemAttributes {
    VipMemAttributes {
        Ptag: tag_handle(attributes.tag),
        EnableRdmaWrite: boolean(attributes.rdma_write),
        EnableRdmaRead: boolean(attributes.rdma_read),
    }
}

/// What a NIC says of itself. `address` is where its address lies.
pub(crate) fn nic_attributes_to_c(
    attributes: &NicAttributes,
    address: *const u8,
) -> VipNicAttributes {
    let mut name = [0; 64];
    // The last byte stays NUL.
    for (place, byte) in name.iter_mut().zip(attributes.name.bytes().take(63)) {
        *place = byte as c_char;
    }
    VipNicAttributes {
        Name: name,
        HardwareVersion: HARDWARE_VERSION,
        ProviderVersion: provider_version(),
        NicAddressLen: HOST_ADDRESS_BYTES as u16,
        LocalNicAddress: address,
        ThreadSafe: boolean(true),
        MaxDiscriminatorLen: attributes.max_discriminator_bytes,
        MaxRegisterBytes: attributes.max_registered_bytes,
        MaxRegisterRegions: VipUlong::from(attributes.max_memory_regions),
        MaxRegisterBlockBytes: attributes.max_region_bytes,
        MaxVI: VipUlong::from(attributes.max_vis),
        MaxDescriptorsPerQueue: VipUlong::from(attributes.max_descriptors_per_queue),
        MaxSegmentsPerDesc: VipUlong::from(attributes.max_segments_per_descriptor),
        MaxCQ: VipUlong::from(attributes.max_completion_queues),
        MaxCQEntries: VipUlong::from(attributes.max_completion_queue_entries),
        MaxTransferSize: VipUlong::from(attributes.max_transfer_bytes),
        NativeMTU: VipUlong::from(attributes.native_mtu_bytes),
        MaxPtags: VipUlong::from(attributes.max_protection_tags),
        ReliabilityLevelSupport: attributes.reliability_levels.bits(),
        RDMAReadSupport: attributes.rdma_read_levels.bits(),
    }
}

/// There is no hardware; programs print the number.
const HARDWARE_VERSION: VipUlong = 1;

/// 0x00MMmmpp of this library's version.
fn provider_version() -> VipUlong {
    let part = |text: &str| text.parse::<VipUlong>().unwrap_or(0);
    part(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | part(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | part(env!("CARGO_PKG_VERSION_PATCH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> VipViAttributes {
        VipViAttributes {
            ReliabilityLevel: 2,
            MaxTransferSize: 65_536,
            QoS: std::ptr::null_mut(),
            Ptag: pointer(7),
            EnableRdmaWrite: 17,
            EnableRdmaRead: 0,
        }
    }

    fn refusal(asked: &VipViAttributes) -> ReturnCode {
        vi_attributes(asked).unwrap_err().code()
    }

    #[test]
    fn attributes_come_back_as_they_went() {
        let attributes = vi_attributes(&asked()).unwrap();
        assert!(attributes.rdma_write && !attributes.rdma_read);
        let back = vi_attributes_to_c(&attributes);
        assert_eq!((back.ReliabilityLevel, back.MaxTransferSize), (2, 65_536));
        assert_eq!((back.QoS, back.Ptag), (pointer(0), pointer(7)));
        assert_eq!((back.EnableRdmaWrite, back.EnableRdmaRead), (1, 0));
    }

    #[test]
    fn what_no_vi_can_have_is_refused_with_its_own_code() {
        let mut level = asked();
        level.ReliabilityLevel = 3;
        assert_eq!(refusal(&level), ReturnCode::InvalidReliabilityLevel);
        let mut transfer = asked();
        transfer.MaxTransferSize = 1 << 32;
        assert_eq!(refusal(&transfer), ReturnCode::InvalidMtu);
        let mut quality = asked();
        quality.QoS = pointer(1 << 16);
        assert_eq!(refusal(&quality), ReturnCode::InvalidQos);
    }

    #[test]
    fn a_long_name_still_ends_with_nul() {
        let nic = NicAttributes {
            name: "n".repeat(100).into(),
            ..NicAttributes::default()
        };
        let attributes = nic_attributes_to_c(&nic, std::ptr::null());
        assert_eq!(attributes.Name[62], b'n' as c_char);
        assert_eq!(attributes.Name[63], 0);
    }
}
