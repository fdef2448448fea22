//! Open devices: attributes, ports, and the functions that programs find through a context.

use std::ffi::c_int;

use viaduct_rdma::verbs::LinkLayer;
use viaduct_rdma::{DeviceAttributes, Result};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid, unsupported};
use crate::devices::device;
use crate::fabric;
use crate::objects::{self, Context, given, given_mut, int, text, trust, zeroed};
use crate::{completion, extended_completion, extended_pair, memory, pair, post};

/// `ibv_open_device`.
///
/// # Safety
///
/// None: another pointer than one of the list is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(pointer: *mut IbvDevice) -> *mut IbvContext {
    call::pointer("ibv_open_device", || {
        let device = device(pointer)?;
        crate::sysfs::publish_counters();
        let handle = device.open()?;
        let mut verbs: VerbsContext = zeroed();
        verbs.reg_mr_ex = Some(memory::reg_mr_ex);
        verbs.query_port = Some(query_port);
        verbs.alloc_parent_domain = Some(memory::alloc_parent_domain);
        verbs.dealloc_td = Some(memory::dealloc_td);
        verbs.alloc_td = Some(memory::alloc_td);
        verbs.modify_cq = Some(extended_completion::modify_cq);
        verbs.query_rt_values = Some(query_rt_values);
        verbs.create_cq_ex = Some(extended_completion::create_cq_ex);
        verbs.query_device_ex = Some(query_device_ex);
        verbs.create_qp_ex = Some(extended_pair::create_qp_ex);
        verbs.get_srq_num = Some(pair::get_srq_num);
        verbs.create_srq_ex = Some(pair::create_srq_ex);
        // Programs call it without a look whether it is there.
        verbs.close_xrcd = Some(close_xrcd);
        verbs.sz = size_of::<VerbsContext>();
        verbs.context.device = pointer;
        verbs.context.ops = IbvContextOps {
            query_device: Some(ibv_query_device),
            query_port: Some(ibv_query_port),
            bind_mw: Some(bind_mw),
            dealloc_mw: Some(dealloc_mw),
            poll_cq: Some(completion::poll_cq),
            req_notify_cq: Some(completion::req_notify_cq),
            post_srq_recv: Some(post::post_srq_recv),
            post_send: Some(post::post_send),
            post_recv: Some(post::post_recv),
            ..IbvContextOps::default()
        };
        verbs.context.cmd_fd = -1;
        verbs.context.async_fd = handle.async_fd();
        verbs.context.num_comp_vectors = int(device.attributes()?.completion_vectors);
        verbs.context.abi_compat = VERBS_ABI_IS_EXTENDED;
        Ok(objects::give(Context { verbs, handle }))
    })
}

/// `ibv_close_device`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_close_device(context: *mut IbvContext) -> c_int {
    call::status("ibv_close_device", || {
        objects::take::<Context>(context, |context| context.handle.close())
    })
}

/// The device of a context that is not looked up.
///
/// # Safety
///
/// The context is open.
pub(crate) unsafe fn opened(context: *mut IbvContext) -> Result<fabric::Context> {
    if context.is_null() {
        return Err(invalid("no context"));
    }
    // SAFETY: as promised by the caller.
    Ok(unsafe { (*trust::<Context>(context)).handle })
}

/// `ibv_query_device`.
///
/// # Safety
///
/// The context is open, and the attributes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut IbvContext,
    attributes: *mut IbvDeviceAttr,
) -> c_int {
    call::status("ibv_query_device", || {
        // SAFETY: the caller says so.
        let device = unsafe { opened(context) }?.device();
        // SAFETY: the caller says so.
        *unsafe { given_mut(attributes, "no place for the attributes") }? =
            device_attributes(&device.attributes()?);
        Ok(())
    })
}

fn device_attributes(of: &DeviceAttributes) -> IbvDeviceAttr {
    IbvDeviceAttr {
        fw_ver: text(of.firmware_version),
        node_guid: u64::from_ne_bytes(of.node_guid),
        sys_image_guid: u64::from_ne_bytes(of.system_image_guid),
        max_mr_size: of.max_region_bytes,
        page_size_cap: of.page_size_bits,
        vendor_id: of.vendor_id,
        vendor_part_id: of.vendor_part_id,
        hw_ver: of.hardware_version,
        max_qp: int(of.max_queue_pairs),
        max_qp_wr: int(of.max_requests),
        device_cap_flags: of.capability_flags,
        max_sge: int(of.max_elements),
        max_sge_rd: int(of.max_read_elements),
        max_cq: int(of.max_completion_queues),
        max_cqe: int(of.max_completion_entries),
        max_mr: int(of.max_regions),
        max_pd: int(of.max_protection_domains),
        max_qp_rd_atom: int(of.max_destination_read_atomic),
        max_ee_rd_atom: 0,
        max_res_rd_atom: int(of.max_read_atomic_resources),
        max_qp_init_rd_atom: int(of.max_read_atomic),
        max_ee_init_rd_atom: 0,
        atomic_cap: int(of.atomic_capability),
        max_ee: 0,
        max_rdd: 0,
        max_mw: 0,
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_total_mcast_qp_attach: 0,
        max_ah: int(of.max_address_handles),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: int(of.max_shared_receive_queues),
        max_srq_wr: int(of.max_shared_receive_requests),
        max_srq_sge: int(of.max_shared_receive_elements),
        max_pkeys: of.max_partition_keys,
        local_ca_ack_delay: 0,
        phys_port_cnt: of.ports,
    }
}

unsafe extern "C" fn query_device_ex(
    context: *mut IbvContext,
    input: *const IbvQueryDeviceExInput,
    attributes: *mut IbvDeviceAttrEx,
    bytes: usize,
) -> c_int {
    call::status("ibv_query_device_ex", || {
        // SAFETY: the program passes null or its input.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0) {
            return Err(invalid("no bit of the input's comp_mask is known"));
        }
        if attributes.is_null() || bytes < size_of::<IbvDeviceAttr>() {
            return Err(invalid("no place for the attributes"));
        }
        // SAFETY: the program passes an open context.
        let device = unsafe { opened(context) }?.device();
        let of = device.attributes()?;
        let all = IbvDeviceAttrEx {
            orig_attr: device_attributes(&of),
            comp_mask: 0,
            odp_caps: IbvOdpCaps::default(),
            completion_timestamp_mask: of.timestamp_mask,
            hca_core_clock: of.clock_khz,
            device_cap_flags_ex: u64::from(of.capability_flags),
            tso_caps: IbvTsoCaps::default(),
            rss_caps: IbvRssCaps::default(),
            max_wq_type_rq: 0,
            packet_pacing_caps: IbvPacketPacingCaps::default(),
            raw_packet_caps: 0,
            tm_caps: IbvTmCaps::default(),
            cq_mod_caps: IbvCqModerationCaps::default(),
            max_dm_size: 0,
            // Eight bytes, atomic for the processor too: UCX asks here.
            pci_atomic_caps: IbvPciAtomicCaps {
                fetch_add: 1 << 1,
                swap: 0,
                compare_swap: 1 << 1,
            },
            xrc_odp_caps: 0,
            phys_port_cnt_ex: u32::from(of.ports),
        };
        // SAFETY: the program says how many bytes it has room for.
        unsafe { fill(&all, attributes.cast(), bytes) };
        Ok(())
    })
}

/// Writes a structure into the room that the program has for it: its beginning into less, zeros
/// behind it into more.
///
/// # Safety
///
/// `bytes` bytes can be written at `to`.
pub(crate) unsafe fn fill<T>(from: &T, to: *mut u8, bytes: usize) {
    let both = bytes.min(size_of::<T>());
    // SAFETY: so many bytes can be read and written.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast(), to, both);
        to.add(both).write_bytes(0, bytes - both);
    }
}

fn port_attributes(context: fabric::Context, port: u8) -> Result<IbvPortAttr> {
    let of = context.device().port(port)?;
    Ok(IbvPortAttr {
        state: int(of.state.number()),
        max_mtu: int(of.max_mtu.number()),
        active_mtu: int(of.active_mtu.number()),
        gid_tbl_len: int(of.gid_table_length),
        port_cap_flags: of.capability_flags,
        max_msg_sz: of.max_message_bytes,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: of.partition_key_table_length,
        lid: of.lid,
        sm_lid: of.subnet_manager_lid,
        lmc: of.lid_mask_bits,
        max_vl_num: of.max_virtual_lanes,
        sm_sl: of.subnet_manager_service_level,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: of.active_width,
        active_speed: of.active_speed,
        phys_state: of.physical_state,
        link_layer: match of.link_layer {
            LinkLayer::InfiniBand => LINK_LAYER_INFINIBAND,
            LinkLayer::Ethernet => LINK_LAYER_ETHERNET,
        },
        flags: of.flags,
        port_cap_flags2: 0,
        active_speed_ex: 0,
    })
}

unsafe extern "C" fn query_port(
    context: *mut IbvContext,
    port: u8,
    attributes: *mut IbvPortAttr,
    bytes: usize,
) -> c_int {
    call::status("ibv_query_port", || {
        if attributes.is_null() {
            return Err(invalid("no place for the attributes"));
        }
        // SAFETY: the program passes an open context.
        let found = port_attributes(unsafe { opened(context) }?, port)?;
        // SAFETY: the program says how many bytes it has room for.
        unsafe { fill(&found, attributes.cast(), bytes) };
        Ok(())
    })
}

/// `ibv_query_port`, for programs without the extended interface: it ends with the field `flags`.
///
/// # Safety
///
/// The context is open, and 48 bytes of the attributes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut IbvContext,
    port: u8,
    attributes: *mut IbvPortAttr,
) -> c_int {
    let bytes = std::mem::offset_of!(IbvPortAttr, port_cap_flags2);
    // SAFETY: the caller says so.
    unsafe { query_port(context, port, attributes, bytes) }
}

unsafe extern "C" fn query_rt_values(context: *mut IbvContext, values: *mut IbvValuesEx) -> c_int {
    call::status("ibv_query_rt_values_ex", || {
        // SAFETY: the program passes an open context.
        unsafe { opened(context) }?;
        // SAFETY: the program passes its values.
        let values = unsafe { given_mut(values, "no place for the values") }?;
        if values.comp_mask & !VALUES_MASK_RAW_CLOCK != 0 {
            return Err(invalid("another value than IBV_VALUES_MASK_RAW_CLOCK"));
        }
        values.comp_mask &= VALUES_MASK_RAW_CLOCK;
        if values.comp_mask != 0 {
            // SAFETY: a place for the time.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut values.raw_clock) };
        }
        Ok(())
    })
}

unsafe extern "C" fn bind_mw(_: *mut IbvQp, _: *mut IbvMw, _: *mut std::ffi::c_void) -> c_int {
    call::status("ibv_bind_mw", || Err(unsupported("memory windows")))
}

unsafe extern "C" fn dealloc_mw(_: *mut IbvMw) -> c_int {
    call::status("ibv_dealloc_mw", || Err(unsupported("memory windows")))
}

unsafe extern "C" fn close_xrcd(_: *mut IbvXrcd) -> c_int {
    call::status("ibv_close_xrcd", || {
        Err(unsupported("extended reliable connections"))
    })
}

/// `ibv_query_port_speed`: in units of 100 Mbit/s.
///
/// # Safety
///
/// The context is open, and the speed can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut IbvContext,
    port: u32,
    speed: *mut u64,
) -> c_int {
    call::status("ibv_query_port_speed", || {
        let port = u8::try_from(port).map_err(|_| invalid("ports have numbers up to 255"))?;
        // SAFETY: the caller says so.
        let attributes = port_attributes(unsafe { opened(context) }?, port)?;
        let lane = crate::rates::lane_mbps(attributes.active_speed);
        let lanes = crate::rates::lanes(attributes.active_width);
        // SAFETY: the caller says so.
        *unsafe { given_mut(speed, "no place for the speed") }? = u64::from(lane * lanes / 100);
        Ok(())
    })
}

/// `_ibv_query_gid_ex`.
///
/// # Safety
///
/// The context is open, and `bytes` bytes of the entry can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut IbvContext,
    port: u32,
    index: u32,
    entry: *mut IbvGidEntry,
    flags: u32,
    bytes: usize,
) -> c_int {
    call::status("ibv_query_gid_ex", || {
        if flags != 0 {
            return Err(unsupported("no flag is known"));
        }
        if entry.is_null() {
            return Err(invalid("no place for the entry"));
        }
        let port = u8::try_from(port).map_err(|_| invalid("ports have numbers up to 255"))?;
        // SAFETY: the caller says so.
        let found = unsafe { opened(context) }?.device().gid(port, index)?;
        // SAFETY: the caller says how many bytes there are.
        unsafe { fill(&gid_entry(&found), entry.cast(), bytes) };
        Ok(())
    })
}

fn gid_entry(found: &viaduct_rdma::GidEntry) -> IbvGidEntry {
    IbvGidEntry {
        gid: IbvGid::new(found.gid),
        gid_index: found.index,
        port_num: u32::from(found.port),
        gid_type: found.kind as u32,
        ndev_ifindex: crate::sysfs::interface_of(found.gid),
    }
}

/// `_ibv_query_gid_table`.
///
/// # Safety
///
/// The context is open, and `most` entries of `bytes` bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut IbvContext,
    entries: *mut IbvGidEntry,
    most: usize,
    flags: u32,
    bytes: usize,
) -> isize {
    let found = call::run("ibv_query_gid_table", || {
        if flags != 0 {
            return Err(unsupported("no flag is known"));
        }
        if entries.is_null() {
            return Err(invalid("no place for the entries"));
        }
        // SAFETY: the caller says so.
        let gids = unsafe { opened(context) }?.device().gids();
        if gids.len() > most {
            return Err(invalid("the table has more entries than there is room for"));
        }
        for (index, gid) in gids.iter().enumerate() {
            // SAFETY: the caller says how many there are, of how many bytes.
            unsafe {
                fill(
                    &gid_entry(gid),
                    entries.cast::<u8>().add(index * bytes),
                    bytes,
                )
            };
        }
        Ok(gids.len() as isize)
    });
    found.unwrap_or_else(|number| -(number as isize))
}

/// `ibv_query_gid`.
///
/// # Safety
///
/// The context is open, and the GID can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut IbvContext,
    port: u8,
    index: c_int,
    gid: *mut IbvGid,
) -> c_int {
    call::or_minus("ibv_query_gid", || {
        let index = u32::try_from(index).map_err(|_| invalid("an index below 0"))?;
        // SAFETY: the caller says so.
        let found = unsafe { opened(context) }?.device().gid(port, index)?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(gid, "no place for the GID") }? = IbvGid::new(found.gid);
        Ok(0)
    })
}

/// `ibv_query_gid_type`, which is private to rdma-core but for `ibv_devinfo`: 0 for InfiniBand and
/// the first version of RoCE, 1 for the second.
///
/// # Safety
///
/// The context is open, and the type can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn viaduct_ibv_query_gid_type(
    context: *mut IbvContext,
    port: u8,
    index: u32,
    kind: *mut c_int,
) -> c_int {
    call::or_minus("ibv_query_gid_type", || {
        // SAFETY: the caller says so.
        let found = unsafe { opened(context) }?.device().gid(port, index)?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(kind, "no place for the type") }? =
            c_int::from(found.kind == viaduct_rdma::GidType::RoceV2);
        Ok(0)
    })
}

/// `ibv_query_pkey`: in network order.
///
/// # Safety
///
/// The context is open, and the key can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut IbvContext,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    call::or_minus("ibv_query_pkey", || {
        let index = u32::try_from(index).map_err(|_| invalid("an index below 0"))?;
        // SAFETY: the caller says so.
        let found = unsafe { opened(context) }?
            .device()
            .partition_key(port, index)?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(key, "no place for the key") }? = found;
        Ok(0)
    })
}

/// `ibv_get_pkey_index`.
///
/// # Safety
///
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(context: *mut IbvContext, port: u8, key: u16) -> c_int {
    call::or_minus("ibv_get_pkey_index", || {
        // SAFETY: the caller says so.
        let device = unsafe { opened(context) }?.device();
        let count = u32::from(device.attributes()?.max_partition_keys);
        (0..count)
            .find(|index| device.partition_key(port, *index).ok() == Some(key))
            .map(|index| index as c_int)
            .ok_or_else(|| invalid("no such P_Key"))
    })
}

/// Whether an argument is an open context, and which.
///
/// # Safety
///
/// `context` is null or an open context.
pub(crate) unsafe fn context_of<'a>(context: *mut IbvContext) -> Result<&'a Context> {
    let known = objects::find::<Context>(context)?;
    // SAFETY: it is live.
    unsafe { given(known, "no context") }
}
