//! Queue pairs and shared receive queues: made, changed, asked and destroyed.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr::null_mut;

use viaduct_rdma::Result;
use viaduct_rdma::verbs::{
    Capabilities, Mtu, PathMigrationState, QueuePairAttributes, QueuePairState, QueuePairType,
    SharedReceiveAttributes,
};
use viaduct_verbs_abi::*;

use crate::address;
use crate::call::{self, invalid, unsupported};
use crate::extended_pair::Building;
use crate::fabric::{self, QueuePairOptions};
use crate::objects::{
    CompletionQueue, ProtectionDomain, QueuePair, SharedReceiveQueue, find, give_boxed, given,
    given_mut, take, trust, zeroed,
};

fn sizes_from_c(cap: &IbvQpCap) -> Capabilities {
    Capabilities {
        max_send_requests: cap.max_send_wr,
        max_receive_requests: cap.max_recv_wr,
        max_send_elements: cap.max_send_sge,
        max_receive_elements: cap.max_recv_sge,
        max_inline_bytes: cap.max_inline_data,
    }
}

fn sizes_to_c(sizes: &Capabilities) -> IbvQpCap {
    IbvQpCap {
        max_send_wr: sizes.max_send_requests,
        max_recv_wr: sizes.max_receive_requests,
        max_send_sge: sizes.max_send_elements,
        max_recv_sge: sizes.max_receive_elements,
        max_inline_data: sizes.max_inline_bytes,
    }
}

/// Makes a queue pair, and writes the sizes that it got into `wanted`.
pub(crate) fn create(
    domain: *mut IbvPd,
    wanted: &mut IbvQpInitAttr,
    building: Option<Building>,
) -> Result<*mut IbvQp> {
    let Some(kind) = QueuePairType::from_number(wanted.qp_type as u32) else {
        return Err(unsupported("queue pairs are RC, UC or UD"));
    };
    let owner = find::<ProtectionDomain>(domain)?;
    if wanted.send_cq.is_null() || wanted.recv_cq.is_null() {
        return Err(invalid("a queue pair without a completion queue"));
    }
    let send_queue = find::<CompletionQueue>(wanted.send_cq)?;
    let receive_queue = find::<CompletionQueue>(wanted.recv_cq)?;
    let shared = if wanted.srq.is_null() {
        None
    } else {
        Some(find::<SharedReceiveQueue>(wanted.srq)?)
    };
    // Its address is its cookie, by which events lead back to it: it is known before.
    let mut place = Box::<QueuePair>::new_uninit();
    // SAFETY: they are live.
    let (owner, options) = unsafe {
        let options = QueuePairOptions {
            kind,
            capabilities: sizes_from_c(&wanted.cap),
            send_queue: (*send_queue).handle,
            receive_queue: (*receive_queue).handle,
            shared_receive_queue: shared.map(|shared| (*shared).handle),
            is_every_send_signaled: wanted.sq_sig_all != 0,
            cookie: place.as_ptr() as u64,
        };
        (&*owner, options)
    };
    let handle = owner.handle.create_queue_pair(&options)?;
    wanted.cap = sizes_to_c(&handle.query()?.1);
    let mut verbs: IbvQpEx = zeroed();
    let base = &mut verbs.base;
    base.context = owner.verbs.context;
    base.qp_context = wanted.qp_context;
    base.pd = domain;
    base.send_cq = wanted.send_cq;
    base.recv_cq = wanted.recv_cq;
    base.srq = wanted.srq;
    base.handle = handle.number();
    base.qp_num = handle.number();
    base.state = QPS_RESET;
    base.qp_type = wanted.qp_type;
    place.write(QueuePair {
        verbs,
        handle,
        is_extended: building.is_some(),
        building: UnsafeCell::new(building.unwrap_or_default()),
    });
    // SAFETY: written above.
    Ok(give_boxed(unsafe { place.assume_init() }))
}

/// `ibv_create_qp`.
///
/// # Safety
///
/// The attributes can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    domain: *mut IbvPd,
    attributes: *mut IbvQpInitAttr,
) -> *mut IbvQp {
    call::pointer("ibv_create_qp", || {
        // SAFETY: the caller says so.
        create(
            domain,
            unsafe { given_mut(attributes, "no attributes") }?,
            None,
        )
    })
}

/// `ibv_destroy_qp`: waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_qp(pair: *mut IbvQp) -> c_int {
    call::status("ibv_destroy_qp", || {
        take::<QueuePair>(pair, |pair| pair.handle.destroy())
    })
}

/// A word of an enumeration, which has to be one where the program's mask names it.
fn word<T>(
    is_named: bool,
    number: c_int,
    read: impl Fn(u32) -> Option<T>,
    otherwise: T,
    what: &'static str,
) -> Result<T> {
    match read(number as u32) {
        Some(word) => Ok(word),
        None if is_named => Err(invalid(what)),
        None => Ok(otherwise),
    }
}

fn attributes_from_c(from: &IbvQpAttr, mask: u32) -> Result<QueuePairAttributes> {
    let names = |bit: u32| mask & bit != 0;
    let state = |bit, number, what| {
        let read = QueuePairState::from_number;
        word(names(bit), number, read, QueuePairState::Reset, what)
    };
    Ok(QueuePairAttributes {
        state: state(QP_STATE, from.qp_state, "qp_state is no state")?,
        current_state: state(QP_CUR_STATE, from.cur_qp_state, "cur_qp_state is no state")?,
        path_mtu: word(
            names(QP_PATH_MTU),
            from.path_mtu,
            Mtu::from_number,
            Mtu::Bytes256,
            "path_mtu is none of IBV_MTU_*",
        )?,
        path_migration_state: word(
            names(QP_PATH_MIG_STATE),
            from.path_mig_state,
            PathMigrationState::from_number,
            PathMigrationState::Migrated,
            "path_mig_state is none of IBV_MIG_*",
        )?,
        queue_key: from.qkey,
        receive_packet_number: from.rq_psn,
        send_packet_number: from.sq_psn,
        destination: from.dest_qp_num,
        access_flags: from.qp_access_flags,
        capabilities: sizes_from_c(&from.cap),
        address: address::from_c(&from.ah_attr),
        alternate_address: address::from_c(&from.alt_ah_attr),
        partition_key_index: from.pkey_index,
        alternate_partition_key_index: from.alt_pkey_index,
        send_drained_notify: from.en_sqd_async_notify != 0,
        is_draining: from.sq_draining != 0,
        max_read_atomic: from.max_rd_atomic,
        max_destination_read_atomic: from.max_dest_rd_atomic,
        min_receiver_not_ready_timer: from.min_rnr_timer,
        port: from.port_num,
        timeout: from.timeout,
        retry_count: from.retry_cnt,
        receiver_not_ready_retry: from.rnr_retry,
        alternate_port: from.alt_port_num,
        alternate_timeout: from.alt_timeout,
        rate_limit: from.rate_limit,
    })
}

fn attributes_to_c(from: &QueuePairAttributes) -> IbvQpAttr {
    IbvQpAttr {
        qp_state: from.state.number() as c_int,
        cur_qp_state: from.current_state.number() as c_int,
        path_mtu: from.path_mtu.number() as c_int,
        path_mig_state: from.path_migration_state.number() as c_int,
        qkey: from.queue_key,
        rq_psn: from.receive_packet_number,
        sq_psn: from.send_packet_number,
        dest_qp_num: from.destination,
        qp_access_flags: from.access_flags,
        cap: sizes_to_c(&from.capabilities),
        ah_attr: address::to_c(&from.address),
        alt_ah_attr: address::to_c(&from.alternate_address),
        pkey_index: from.partition_key_index,
        alt_pkey_index: from.alternate_partition_key_index,
        en_sqd_async_notify: u8::from(from.send_drained_notify),
        sq_draining: u8::from(from.is_draining),
        max_rd_atomic: from.max_read_atomic,
        max_dest_rd_atomic: from.max_destination_read_atomic,
        min_rnr_timer: from.min_receiver_not_ready_timer,
        port_num: from.port,
        timeout: from.timeout,
        retry_cnt: from.retry_count,
        rnr_retry: from.receiver_not_ready_retry,
        alt_port_num: from.alternate_port,
        alt_timeout: from.alternate_timeout,
        rate_limit: from.rate_limit,
    }
}

/// `ibv_modify_qp`.
///
/// # Safety
///
/// The attributes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    pair: *mut IbvQp,
    attributes: *mut IbvQpAttr,
    mask: c_int,
) -> c_int {
    call::status("ibv_modify_qp", || {
        let pair = find::<QueuePair>(pair)?;
        // SAFETY: the caller says so.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        let mask = mask as u32;
        // SAFETY: it is live.
        let pair = unsafe { &mut *pair };
        pair.handle
            .modify(&attributes_from_c(attributes, mask)?, mask)?;
        if mask & QP_STATE != 0 {
            pair.verbs.base.state = attributes.qp_state;
        }
        Ok(())
    })
}

/// `ibv_query_qp`: all attributes, whatever the mask names.
///
/// # Safety
///
/// Both structures can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    pair: *mut IbvQp,
    attributes: *mut IbvQpAttr,
    _mask: c_int,
    made_with: *mut IbvQpInitAttr,
) -> c_int {
    call::status("ibv_query_qp", || {
        let pair = find::<QueuePair>(pair)?;
        // SAFETY: it is live.
        let pair = unsafe { &mut *pair };
        let (now, sizes, is_every_send_signaled) = pair.handle.query()?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(attributes, "no place for the attributes") }? = attributes_to_c(&now);
        let base = &mut pair.verbs.base;
        base.state = now.state.number() as c_int;
        // SAFETY: the caller says so.
        *unsafe { given_mut(made_with, "no place for the initial attributes") }? = IbvQpInitAttr {
            qp_context: base.qp_context,
            send_cq: base.send_cq,
            recv_cq: base.recv_cq,
            srq: base.srq,
            cap: sizes_to_c(&sizes),
            qp_type: base.qp_type,
            sq_sig_all: c_int::from(is_every_send_signaled),
        };
        Ok(())
    })
}

/// `ibv_query_qp_data_in_order`: no promise is made, though the last byte is written last.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(
    _pair: *mut IbvQp,
    _opcode: c_int,
    _flags: u32,
) -> c_int {
    0
}

/// `ibv_query_ece`: devices of this fabric have no options of a vendor.
///
/// # Safety
///
/// The options can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(pair: *mut IbvQp, options: *mut IbvEce) -> c_int {
    call::status("ibv_query_ece", || {
        find::<QueuePair>(pair)?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(options, "no place for the options") }? = IbvEce::default();
        Err(unsupported("enhanced connection establishment"))
    })
}

/// `ibv_set_ece`.
///
/// # Safety
///
/// None: it is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(pair: *mut IbvQp, _options: *mut IbvEce) -> c_int {
    call::status("ibv_set_ece", || {
        find::<QueuePair>(pair)?;
        Err(unsupported("enhanced connection establishment"))
    })
}

fn receive_from_c(attributes: &IbvSrqAttr) -> SharedReceiveAttributes {
    SharedReceiveAttributes {
        max_requests: attributes.max_wr,
        max_elements: attributes.max_sge,
        limit: attributes.srq_limit,
    }
}

fn receive_to_c(attributes: &SharedReceiveAttributes) -> IbvSrqAttr {
    IbvSrqAttr {
        max_wr: attributes.max_requests,
        max_sge: attributes.max_elements,
        srq_limit: attributes.limit,
    }
}

/// `ibv_create_srq`.
///
/// # Safety
///
/// The attributes can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    domain: *mut IbvPd,
    attributes: *mut IbvSrqInitAttr,
) -> *mut IbvSrq {
    call::pointer("ibv_create_srq", || {
        let owner = find::<ProtectionDomain>(domain)?;
        // SAFETY: it is live.
        let owner = unsafe { &*owner };
        // SAFETY: the caller says so.
        let wanted = unsafe { given_mut(attributes, "no attributes") }?;
        let mut place = Box::<SharedReceiveQueue>::new_uninit();
        let cookie = place.as_ptr() as u64;
        let mut sizes = receive_from_c(&wanted.attr);
        // A limit is set when there are receives.
        sizes.limit = 0;
        let handle = owner.handle.create_shared_receive_queue(&sizes, cookie)?;
        let got = handle.query()?;
        (wanted.attr.max_wr, wanted.attr.max_sge) = (got.max_requests, got.max_elements);
        let mut verbs: IbvSrq = zeroed();
        verbs.context = owner.verbs.context;
        verbs.srq_context = wanted.srq_context;
        verbs.pd = domain;
        verbs.handle = handle.number();
        place.write(SharedReceiveQueue { verbs, handle });
        // SAFETY: written above.
        Ok(give_boxed(unsafe { place.assume_init() }))
    })
}

/// What `ibv_create_srq_ex` calls for more than an ordinary queue.
pub(crate) unsafe extern "C" fn create_srq_ex(
    _context: *mut IbvContext,
    attributes: *mut IbvSrqInitAttrEx,
) -> *mut IbvSrq {
    let domain = call::run("ibv_create_srq_ex", || {
        // SAFETY: the program passes its attributes.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        let mask = attributes.comp_mask;
        if mask & !(SRQ_INIT_ATTR_PD | SRQ_INIT_ATTR_TYPE) != 0
            || mask & SRQ_INIT_ATTR_TYPE != 0 && attributes.srq_type != SRQT_BASIC
        {
            return Err(unsupported("shared receive queues of XRC or with tags"));
        }
        if mask & SRQ_INIT_ATTR_PD == 0 {
            return Err(invalid("no protection domain"));
        }
        Ok(attributes.pd)
    });
    match domain {
        // SAFETY: the extended attributes begin with the ordinary ones.
        Ok(domain) => unsafe { ibv_create_srq(domain, attributes.cast()) },
        Err(_) => null_mut(),
    }
}

/// `ibv_modify_srq`.
///
/// # Safety
///
/// The attributes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    queue: *mut IbvSrq,
    attributes: *mut IbvSrqAttr,
    mask: c_int,
) -> c_int {
    call::status("ibv_modify_srq", || {
        let queue = find::<SharedReceiveQueue>(queue)?;
        // SAFETY: the caller says so.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        // SAFETY: it is live.
        unsafe {
            (*queue)
                .handle
                .modify(&receive_from_c(attributes), mask as u32)
        }
    })
}

/// `ibv_query_srq`.
///
/// # Safety
///
/// The attributes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(queue: *mut IbvSrq, attributes: *mut IbvSrqAttr) -> c_int {
    call::status("ibv_query_srq", || {
        let queue = find::<SharedReceiveQueue>(queue)?;
        // SAFETY: it is live.
        let found = unsafe { (*queue).handle.query() }?;
        // SAFETY: the caller says so.
        *unsafe { given_mut(attributes, "no place for the attributes") }? = receive_to_c(&found);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn get_srq_num(queue: *mut IbvSrq, number: *mut u32) -> c_int {
    call::status("ibv_get_srq_num", || {
        let queue = find::<SharedReceiveQueue>(queue)?;
        // SAFETY: the program passes a place; the queue is live.
        *unsafe { given_mut(number, "no place for the number") }? =
            unsafe { (*queue).handle.number() };
        Ok(())
    })
}

/// `ibv_destroy_srq`: waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_srq(queue: *mut IbvSrq) -> c_int {
    call::status("ibv_destroy_srq", || {
        take::<SharedReceiveQueue>(queue, |queue| queue.handle.destroy())
    })
}

/// The queue pair that a program posts on.
///
/// # Safety
///
/// The queue pair is live.
#[inline(always)]
pub(crate) unsafe fn handle(pair: *mut IbvQp) -> fabric::QueuePair {
    // SAFETY: as promised by the caller.
    unsafe { (*trust::<QueuePair>(pair)).handle }
}
