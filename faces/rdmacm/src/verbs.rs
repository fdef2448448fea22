//! What this library calls of libibverbs, as any program does: functions by name, and those through
//! an open device as the inline functions of `verbs.h` find them.

use std::ffi::c_int;
use std::mem::offset_of;

use libc::EOPNOTSUPP;
use viaduct_verbs_abi::{
    IbvCompChannel, IbvContext, IbvCq, IbvDevice, IbvDeviceAttr, IbvGid, IbvPd, IbvPortAttr, IbvQp,
    IbvQpAttr, IbvQpInitAttr, IbvQpInitAttrEx, IbvSrq, IbvSrqInitAttr, IbvSrqInitAttrEx,
    QP_INIT_ATTR_PD, SRQ_INIT_ATTR_PD, SRQ_INIT_ATTR_TYPE, SRQT_BASIC, VERBS_ABI_IS_EXTENDED,
    VerbsContext,
};

use crate::call::set_errno;

unsafe extern "C" {
    pub(crate) fn ibv_get_device_list(number: *mut c_int) -> *mut *mut IbvDevice;
    pub(crate) fn ibv_free_device_list(list: *mut *mut IbvDevice);
    pub(crate) fn ibv_open_device(device: *mut IbvDevice) -> *mut IbvContext;
    pub(crate) fn ibv_query_device(context: *mut IbvContext, device: *mut IbvDeviceAttr) -> c_int;
    pub(crate) fn ibv_query_port(
        context: *mut IbvContext,
        port: u8,
        attributes: *mut IbvPortAttr,
    ) -> c_int;
    pub(crate) fn ibv_query_gid(
        context: *mut IbvContext,
        port: u8,
        index: c_int,
        gid: *mut IbvGid,
    ) -> c_int;
    pub(crate) fn ibv_alloc_pd(context: *mut IbvContext) -> *mut IbvPd;
    pub(crate) fn ibv_dealloc_pd(pd: *mut IbvPd) -> c_int;
    pub(crate) fn ibv_create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel;
    pub(crate) fn ibv_destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int;
    pub(crate) fn ibv_create_cq(
        context: *mut IbvContext,
        entries: c_int,
        cq_context: *mut std::ffi::c_void,
        channel: *mut IbvCompChannel,
        vector: c_int,
    ) -> *mut IbvCq;
    pub(crate) fn ibv_destroy_cq(cq: *mut IbvCq) -> c_int;
    fn ibv_create_qp(pd: *mut IbvPd, attributes: *mut IbvQpInitAttr) -> *mut IbvQp;
    pub(crate) fn ibv_modify_qp(qp: *mut IbvQp, attributes: *mut IbvQpAttr, mask: c_int) -> c_int;
    pub(crate) fn ibv_destroy_qp(qp: *mut IbvQp) -> c_int;
    fn ibv_create_srq(pd: *mut IbvPd, attributes: *mut IbvSrqInitAttr) -> *mut IbvSrq;
    pub(crate) fn ibv_destroy_srq(srq: *mut IbvSrq) -> c_int;
}

/// A function of an open device, if the device has it and is new enough to say so.
///
/// # Safety
///
/// The device is open.
unsafe fn function<T>(
    context: *mut IbvContext,
    offset: usize,
    read: impl FnOnce(&VerbsContext) -> Option<T>,
) -> Option<T> {
    // SAFETY: an open device with this mark has the larger structure in front of it.
    unsafe {
        if context.is_null() || (*context).abi_compat != VERBS_ABI_IS_EXTENDED {
            return None;
        }
        let extended = context.byte_sub(offset_of!(VerbsContext, context));
        let extended = extended.cast::<VerbsContext>();
        if (*extended).sz < size_of::<VerbsContext>() - offset {
            return None;
        }
        read(&*extended)
    }
}

/// `ibv_create_qp_ex`; null with errno when it is refused.
///
/// # Safety
///
/// As of that function.
pub(crate) unsafe fn create_qp_ex(
    context: *mut IbvContext,
    attributes: *mut IbvQpInitAttrEx,
) -> *mut IbvQp {
    // SAFETY: as the caller says; the shorter structure is the longer one's head.
    unsafe {
        if (*attributes).comp_mask == QP_INIT_ATTR_PD {
            return ibv_create_qp((*attributes).pd, attributes.cast());
        }
        let offset = offset_of!(VerbsContext, create_qp_ex);
        match function(context, offset, |extended| extended.create_qp_ex) {
            Some(create) => create(context, attributes),
            None => {
                set_errno(EOPNOTSUPP);
                std::ptr::null_mut()
            }
        }
    }
}

/// `ibv_create_srq_ex`; null with errno when it is refused.
///
/// # Safety
///
/// As of that function.
pub(crate) unsafe fn create_srq_ex(
    context: *mut IbvContext,
    attributes: *mut IbvSrqInitAttrEx,
) -> *mut IbvSrq {
    // SAFETY: as the caller says; the shorter structure is the longer one's head.
    unsafe {
        let mask = (*attributes).comp_mask;
        let is_basic = mask & !(SRQ_INIT_ATTR_PD | SRQ_INIT_ATTR_TYPE) == 0
            && mask & SRQ_INIT_ATTR_PD != 0
            && (mask & SRQ_INIT_ATTR_TYPE == 0 || (*attributes).srq_type == SRQT_BASIC);
        if is_basic {
            return ibv_create_srq((*attributes).pd, attributes.cast());
        }
        let offset = offset_of!(VerbsContext, create_srq_ex);
        match function(context, offset, |extended| extended.create_srq_ex) {
            Some(create) => create(context, attributes),
            None => {
                set_errno(EOPNOTSUPP);
                std::ptr::null_mut()
            }
        }
    }
}
