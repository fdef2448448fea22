//! Address handles.

use std::ffi::c_int;

use viaduct_rdma::Result;
use viaduct_rdma::verbs::{AddressAttributes, GlobalRoute};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid};
use crate::context::opened;
use crate::objects::{self, AddressHandle, ProtectionDomain, find, given, given_mut, take};

/// Attributes of C as those of the fabric.
pub(crate) fn from_c(attributes: &IbvAhAttr) -> AddressAttributes {
    AddressAttributes {
        route: GlobalRoute {
            destination_gid: attributes.grh.dgid.raw,
            flow_label: attributes.grh.flow_label,
            source_gid_index: attributes.grh.sgid_index,
            hop_limit: attributes.grh.hop_limit,
            traffic_class: attributes.grh.traffic_class,
        },
        destination_lid: attributes.dlid,
        service_level: attributes.sl,
        source_path_bits: attributes.src_path_bits,
        static_rate: attributes.static_rate,
        is_global: attributes.is_global != 0,
        port: attributes.port_num,
    }
}

/// Attributes of the fabric as those of C.
pub(crate) fn to_c(attributes: &AddressAttributes) -> IbvAhAttr {
    IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid::new(attributes.route.destination_gid),
            flow_label: attributes.route.flow_label,
            sgid_index: attributes.route.source_gid_index,
            hop_limit: attributes.route.hop_limit,
            traffic_class: attributes.route.traffic_class,
        },
        dlid: attributes.destination_lid,
        sl: attributes.service_level,
        src_path_bits: attributes.source_path_bits,
        static_rate: attributes.static_rate,
        is_global: u8::from(attributes.is_global),
        port_num: attributes.port,
    }
}

/// `ibv_create_ah`.
///
/// # Safety
///
/// The attributes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(
    domain: *mut IbvPd,
    attributes: *mut IbvAhAttr,
) -> *mut IbvAh {
    call::pointer("ibv_create_ah", || {
        // SAFETY: the caller says so.
        create(domain, unsafe { given(attributes, "no attributes") }?)
    })
}

fn create(domain: *mut IbvPd, attributes: &IbvAhAttr) -> Result<*mut IbvAh> {
    let owner = find::<ProtectionDomain>(domain)?;
    // SAFETY: it is live.
    let owner = unsafe { &*owner };
    let handle = owner.handle.create_address_handle(&from_c(attributes))?;
    Ok(objects::give(AddressHandle {
        verbs: IbvAh {
            context: owner.verbs.context,
            pd: domain,
            handle: 0,
        },
        handle,
    }))
}

/// `ibv_destroy_ah`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_ah(handle: *mut IbvAh) -> c_int {
    call::status("ibv_destroy_ah", || {
        take::<AddressHandle>(handle, |handle| handle.handle.destroy())
    })
}

/// The way back to the sender of a datagram.
///
/// # Safety
///
/// The context is open; the header is null or can be read.
unsafe fn way_back(
    context: *mut IbvContext,
    port: u8,
    completion: &IbvWc,
    header: *const IbvGrh,
) -> Result<IbvAhAttr> {
    let mut attributes = IbvAhAttr {
        dlid: completion.slid,
        sl: completion.sl,
        src_path_bits: completion.dlid_path_bits,
        port_num: port,
        ..IbvAhAttr::default()
    };
    if completion.wc_flags & WC_GRH == 0 {
        return Ok(attributes);
    }
    // SAFETY: the caller says so.
    let header = unsafe {
        given(
            header,
            "the completion speaks of a header, and none is given",
        )
    }?;
    let (to, from) = (header.dgid, header.sgid);
    // SAFETY: the caller says so.
    let gids = unsafe { opened(context) }?.device().gids();
    let index = gids
        .iter()
        .find(|entry| entry.gid == to)
        .map(|entry| entry.index);
    let index = index.ok_or_else(|| invalid("the datagram came to a GID that is not ours"))?;
    let word = u32::from_be(header.version_tclass_flow);
    attributes.is_global = 1;
    attributes.grh = IbvGlobalRoute {
        dgid: IbvGid::new(from),
        flow_label: word & 0xf_ffff,
        sgid_index: index as u8,
        hop_limit: 0xff,
        traffic_class: (word >> 20 & 0xff) as u8,
    };
    Ok(attributes)
}

/// `ibv_init_ah_from_wc`.
///
/// # Safety
///
/// The context is open; the completion can be read, the header too if there is one, and the
/// attributes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut IbvContext,
    port: u8,
    completion: *mut IbvWc,
    header: *mut IbvGrh,
    attributes: *mut IbvAhAttr,
) -> c_int {
    call::or_minus("ibv_init_ah_from_wc", || {
        // SAFETY: the caller says so.
        let completion = unsafe { given(completion, "no completion") }?;
        // SAFETY: the caller says so.
        let attributes = unsafe { given_mut(attributes, "no place for the attributes") }?;
        // SAFETY: the caller says so.
        *attributes = unsafe { way_back(context, port, completion, header) }?;
        Ok(0)
    })
}

/// `ibv_create_ah_from_wc`.
///
/// # Safety
///
/// As for [`ibv_init_ah_from_wc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    domain: *mut IbvPd,
    completion: *mut IbvWc,
    header: *mut IbvGrh,
    port: u8,
) -> *mut IbvAh {
    call::pointer("ibv_create_ah_from_wc", || {
        let owner = find::<ProtectionDomain>(domain)?;
        // SAFETY: it is live.
        let context = unsafe { (*owner).verbs.context };
        // SAFETY: the caller says so.
        let completion = unsafe { given(completion, "no completion") }?;
        // SAFETY: the caller says so.
        create(domain, &unsafe {
            way_back(context, port, completion, header)
        }?)
    })
}

/// `ibv_resolve_eth_l2_from_gid`: the address of the interface that a GID names. Interfaces of this
/// fabric have none; programs get one that is made of the GID, and no VLAN.
///
/// # Safety
///
/// The attributes can be read; six bytes of the address and the VLAN can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut IbvContext,
    attributes: *mut IbvAhAttr,
    mac: *mut [u8; 6],
    vlan: *mut u16,
) -> c_int {
    call::or_minus("ibv_resolve_eth_l2_from_gid", || {
        // SAFETY: the caller says so.
        let gid = unsafe { given(attributes, "no attributes") }?.grh.dgid.raw;
        // SAFETY: the caller says so.
        let mac = unsafe { given_mut(mac, "no place for the address") }?;
        // Locally administered, of one interface.
        *mac = [0x02, 0x56, gid[12], gid[13], gid[14], gid[15]];
        // SAFETY: the caller says that it is null or can be written.
        if let Some(vlan) = unsafe { vlan.as_mut() } {
            *vlan = 0xffff;
        }
        Ok(0)
    })
}
