//! Queue pairs and shared receive queues of identifiers, with the completion queues they need.

use std::ffi::c_int;
use std::ptr;

use libc::EINVAL;
use viaduct_verbs_abi::{
    IbvCq, IbvPd, IbvQp, IbvQpAttr, IbvQpInitAttr, IbvQpInitAttrEx, IbvSrqInitAttr,
    IbvSrqInitAttrEx, QP_INIT_ATTR_PD, QP_SQ_PSN, QP_STATE, QPS_INIT, QPS_RTR, QPS_RTS,
    QPT_XRC_RECV, SRQ_INIT_ATTR_PD, SRQ_INIT_ATTR_TYPE, SRQT_BASIC,
};

use crate::abi::RdmaCmId;
use crate::attributes;
use crate::call::{answered, call, last_errno};
use crate::manager::{Refusal, Result};
use crate::object::Id;
use crate::verbs;

/// `rdma_create_qp(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut RdmaCmId,
    pd: *mut IbvPd,
    attributes: *mut IbvQpInitAttr,
) -> c_int {
    call("rdma_create_qp", || {
        // SAFETY: as the program says, here and below.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: as above.
        let given = unsafe { attributes.as_mut() }.ok_or(Refusal(EINVAL))?;
        // SAFETY: all of it is numbers and pointers that may be null.
        let mut extended: IbvQpInitAttrEx = unsafe { std::mem::zeroed() };
        extended.qp_context = given.qp_context;
        extended.send_cq = given.send_cq;
        extended.recv_cq = given.recv_cq;
        extended.srq = given.srq;
        extended.cap = given.cap;
        extended.qp_type = given.qp_type;
        extended.sq_sig_all = given.sq_sig_all;
        extended.comp_mask = QP_INIT_ATTR_PD;
        extended.pd = if pd.is_null() { object.public.pd } else { pd };
        // SAFETY: as above.
        let created = unsafe { create_qp(object, &mut extended) };
        given.send_cq = extended.send_cq;
        given.recv_cq = extended.recv_cq;
        given.srq = extended.srq;
        given.cap = extended.cap;
        created
    })
}

/// The same with more attributes.
///
/// # Safety
///
/// As of [`rdma_create_qp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut RdmaCmId,
    attributes: *mut IbvQpInitAttrEx,
) -> c_int {
    call("rdma_create_qp_ex", || {
        // SAFETY: as the program says.
        unsafe {
            let object = Id::of(id)?;
            create_qp(object, attributes.as_mut().ok_or(Refusal(EINVAL))?)
        }
    })
}

unsafe fn create_qp(id: &mut Id, attributes: &mut IbvQpInitAttrEx) -> Result<()> {
    if !id.public.qp.is_null() || id.interface.is_none() {
        return Err(Refusal(EINVAL));
    }
    if attributes.comp_mask & QP_INIT_ATTR_PD == 0 || attributes.pd.is_null() {
        attributes.comp_mask |= QP_INIT_ATTR_PD;
        attributes.pd = id.public.pd;
    } else {
        // SAFETY: a protection domain, as the program says.
        if unsafe { (*attributes.pd).context } != id.public.verbs {
            return Err(Refusal(EINVAL));
        }
    }
    let differ =
        |own: *mut IbvCq, given: *mut IbvCq| !own.is_null() && !given.is_null() && own != given;
    if differ(id.public.recv_cq, attributes.recv_cq)
        || differ(id.public.send_cq, attributes.send_cq)
    {
        return Err(Refusal(EINVAL));
    }
    let needs_send = attributes.send_cq.is_null() && id.public.send_cq.is_null();
    let needs_receive = attributes.recv_cq.is_null() && id.public.recv_cq.is_null();
    let send = if needs_send {
        attributes.cap.max_send_wr
    } else {
        0
    };
    let receive = if needs_receive {
        attributes.cap.max_recv_wr
    } else {
        0
    };
    create_cqs(id, send, receive)?;
    if attributes.send_cq.is_null() {
        attributes.send_cq = id.public.send_cq;
    }
    if attributes.recv_cq.is_null() {
        attributes.recv_cq = id.public.recv_cq;
    }
    if attributes.srq.is_null() {
        attributes.srq = id.public.srq;
    }
    // SAFETY: as the program says.
    let qp = unsafe { verbs::create_qp_ex(id.public.verbs, attributes) };
    let refusal = if qp.is_null() {
        last_errno()
    } else {
        // SAFETY: it was just created.
        match unsafe { initialise(id, qp) } {
            Ok(()) => {
                // SAFETY: as above.
                id.public.pd = unsafe { (*qp).pd };
                id.public.qp = qp;
                return Ok(());
            }
            Err(refusal) => {
                // SAFETY: as above.
                unsafe { verbs::ibv_destroy_qp(qp) };
                refusal
            }
        }
    };
    destroy_cqs(id);
    Err(refusal)
}

/// A queue pair that will be connected may take receives; one for datagrams may send too.
unsafe fn initialise(id: &Id, qp: *mut IbvQp) -> Result<()> {
    let (mut first, mask) = attributes::attributes(id, QPS_INIT)?;
    let modify = |mut attributes: IbvQpAttr, mask: u32| {
        // SAFETY: as the caller says.
        answered(unsafe { verbs::ibv_modify_qp(qp, &raw mut attributes, mask as c_int) })
    };
    modify(first, mask)?;
    if id.is_datagram() {
        first.qp_state = QPS_RTR;
        modify(first, QP_STATE)?;
        first.qp_state = QPS_RTS;
        first.sq_psn = 0;
        modify(first, QP_STATE | QP_SQ_PSN)?;
    }
    Ok(())
}

/// Makes completion queues of these sizes with channels; none of 0 entries.
fn create_cqs(id: &mut Id, send: u32, receive: u32) -> Result<()> {
    let context: *mut std::ffi::c_void = ptr::from_mut(id).cast();
    let public = &mut id.public;
    let mut refusal = None;
    for (entries, cq, channel) in [
        (receive, &mut public.recv_cq, &mut public.recv_cq_channel),
        (send, &mut public.send_cq, &mut public.send_cq_channel),
    ] {
        let Ok(entries @ 1..) = c_int::try_from(entries) else {
            continue;
        };
        // SAFETY: the device stays open.
        unsafe {
            *channel = verbs::ibv_create_comp_channel(public.verbs);
            if !channel.is_null() {
                *cq = verbs::ibv_create_cq(public.verbs, entries, context, *channel, 0);
            }
        }
        if cq.is_null() {
            refusal = Some(last_errno());
            break;
        }
    }
    let Some(refusal) = refusal else {
        return Ok(());
    };
    destroy_cqs(id);
    Err(refusal)
}

/// Destroys the completion queues and channels that are the identifier's own.
fn destroy_cqs(id: &mut Id) {
    let public = &mut id.public;
    // SAFETY: they are its own, and a queue goes before its channel.
    unsafe {
        if !public.recv_cq.is_null() {
            verbs::ibv_destroy_cq(public.recv_cq);
        }
        if !public.send_cq.is_null() && public.send_cq != public.recv_cq {
            verbs::ibv_destroy_cq(public.send_cq);
        }
        public.recv_cq = ptr::null_mut();
        public.send_cq = ptr::null_mut();
        if !public.recv_cq_channel.is_null() {
            verbs::ibv_destroy_comp_channel(public.recv_cq_channel);
        }
        if !public.send_cq_channel.is_null() && public.send_cq_channel != public.recv_cq_channel {
            verbs::ibv_destroy_comp_channel(public.send_cq_channel);
        }
        public.recv_cq_channel = ptr::null_mut();
        public.send_cq_channel = ptr::null_mut();
    }
}

/// `rdma_destroy_qp(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut RdmaCmId) {
    call("rdma_destroy_qp", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        if !object.public.qp.is_null() {
            // SAFETY: it is the identifier's.
            unsafe { verbs::ibv_destroy_qp(object.public.qp) };
            object.public.qp = ptr::null_mut();
        }
        destroy_cqs(object);
        Ok(())
    });
}

/// `rdma_create_srq(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut RdmaCmId,
    pd: *mut IbvPd,
    attributes: *mut IbvSrqInitAttr,
) -> c_int {
    call("rdma_create_srq", || {
        // SAFETY: as the program says, here and below.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: as above.
        let given = unsafe { attributes.as_mut() }.ok_or(Refusal(EINVAL))?;
        if object.public.qp_type == QPT_XRC_RECV {
            return Err(Refusal(libc::EOPNOTSUPP));
        }
        let mut extended = IbvSrqInitAttrEx {
            srq_context: given.srq_context,
            attr: given.attr,
            comp_mask: SRQ_INIT_ATTR_TYPE | SRQ_INIT_ATTR_PD,
            srq_type: SRQT_BASIC,
            pd,
            xrcd: ptr::null_mut(),
            cq: ptr::null_mut(),
            max_num_tags: 0,
            max_ops: 0,
        };
        // SAFETY: as above.
        let created = unsafe { create_srq(object, &mut extended) };
        given.attr = extended.attr;
        created
    })
}

/// The same with more attributes.
///
/// # Safety
///
/// As of [`rdma_create_srq`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq_ex(
    id: *mut RdmaCmId,
    attributes: *mut IbvSrqInitAttrEx,
) -> c_int {
    call("rdma_create_srq_ex", || {
        // SAFETY: as the program says.
        unsafe {
            let object = Id::of(id)?;
            create_srq(object, attributes.as_mut().ok_or(Refusal(EINVAL))?)
        }
    })
}

unsafe fn create_srq(id: &mut Id, attributes: &mut IbvSrqInitAttrEx) -> Result<()> {
    if attributes.comp_mask & SRQ_INIT_ATTR_TYPE == 0 || id.interface.is_none() {
        return Err(Refusal(EINVAL));
    }
    if attributes.comp_mask & SRQ_INIT_ATTR_PD == 0 || attributes.pd.is_null() {
        attributes.pd = id.public.pd;
        attributes.comp_mask |= SRQ_INIT_ATTR_PD;
    }
    // SAFETY: as the program says. Of types that there are not, libibverbs says so.
    let srq = unsafe { verbs::create_srq_ex(id.public.verbs, attributes) };
    if srq.is_null() {
        return Err(last_errno());
    }
    if id.public.pd.is_null() {
        id.public.pd = attributes.pd;
    }
    id.public.srq = srq;
    Ok(())
}

/// `rdma_destroy_srq(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut RdmaCmId) {
    call("rdma_destroy_srq", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        if !object.public.srq.is_null() {
            // SAFETY: it is the identifier's.
            unsafe { verbs::ibv_destroy_srq(object.public.srq) };
            object.public.srq = ptr::null_mut();
        }
        destroy_cqs(object);
        Ok(())
    });
}
