//! An open device and the functions through which programs post and poll.

use core::ffi::{c_int, c_void};

use libc::pthread_mutex_t;

use crate::extended::{
    IbvCqEx, IbvCqInitAttrEx, IbvDeviceAttrEx, IbvModifyCqAttr, IbvMrInitAttr,
    IbvParentDomainInitAttr, IbvQpInitAttrEx, IbvQpOpenAttr, IbvQueryDeviceExInput,
    IbvSrqInitAttrEx, IbvTdInitAttr, IbvXrcdInitAttr,
};
use crate::objects::{
    IbvCq, IbvDevice, IbvDeviceAttr, IbvMr, IbvMw, IbvPd, IbvPortAttr, IbvQp, IbvSrq, IbvTd,
    IbvValuesEx, IbvXrcd,
};
use crate::requests::{IbvRecvWr, IbvSendWr, IbvWc};

/// A place of a function that no program calls.
pub type Unused = usize;

pub type PostSend = unsafe extern "C" fn(*mut IbvQp, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int;
pub type PostRecv = unsafe extern "C" fn(*mut IbvQp, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int;
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut IbvSrq, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvContextOps {
    pub query_device: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvDeviceAttr) -> c_int>,
    pub query_port: Option<unsafe extern "C" fn(*mut IbvContext, u8, *mut IbvPortAttr) -> c_int>,
    pub unused_before_windows: [Unused; 5],
    pub alloc_mw: Option<unsafe extern "C" fn(*mut IbvPd, c_int) -> *mut IbvMw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvMw, *mut c_void) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut IbvMw) -> c_int>,
    pub unused_create_cq: Unused,
    pub poll_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int, *mut IbvWc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int) -> c_int>,
    pub unused_before_srq: [Unused; 7],
    pub post_srq_recv: Option<PostSrqRecv>,
    pub unused_before_send: [Unused; 4],
    pub post_send: Option<PostSend>,
    pub post_recv: Option<PostRecv>,
    pub unused_at_the_end: [Unused; 5],
}

#[repr(C)]
#[expect(
    missing_debug_implementations,
    reason = "a lock of C, which has nothing to show"
)]
pub struct IbvContext {
    pub device: *mut IbvDevice,
    pub ops: IbvContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// What stands in front of an open device. It grows at its beginning, so that a program finds each
/// function at a fixed distance before `context`, and looks at `sz` whether it is there.
#[repr(C)]
#[expect(
    missing_debug_implementations,
    reason = "a lock of C, which has nothing to show"
)]
pub struct VerbsContext {
    pub free_buf: Unused,
    pub alloc_buf: Unused,
    pub dm_export_dmabuf_fd: Unused,
    pub reg_mr_ex: Option<unsafe extern "C" fn(*mut IbvPd, *mut IbvMrInitAttr) -> *mut IbvMr>,
    pub dealloc_dmah: Unused,
    pub alloc_dmah: Unused,
    pub query_port:
        Option<unsafe extern "C" fn(*mut IbvContext, u8, *mut IbvPortAttr, usize) -> c_int>,
    pub advise_mr: Unused,
    pub alloc_null_mr: Unused,
    pub read_counters: Unused,
    pub attach_counters_point_flow: Unused,
    pub create_counters: Unused,
    pub destroy_counters: Unused,
    pub reg_dm_mr: Unused,
    pub alloc_dm: Unused,
    pub free_dm: Unused,
    pub modify_flow_action_esp: Unused,
    pub destroy_flow_action: Unused,
    pub create_flow_action_esp: Unused,
    pub modify_qp_rate_limit: Unused,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvParentDomainInitAttr) -> *mut IbvPd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut IbvTd) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvTdInitAttr) -> *mut IbvTd>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut IbvCq, *mut IbvModifyCqAttr) -> c_int>,
    pub post_srq_ops: Unused,
    pub destroy_rwq_ind_table: Unused,
    pub create_rwq_ind_table: Unused,
    pub destroy_wq: Unused,
    pub modify_wq: Unused,
    pub create_wq: Unused,
    pub query_rt_values: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvValuesEx) -> c_int>,
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvCqInitAttrEx) -> *mut IbvCqEx>,
    pub private: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut IbvContext,
            *const IbvQueryDeviceExInput,
            *mut IbvDeviceAttrEx,
            usize,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: Unused,
    pub placeholder2: Unused,
    pub ibv_create_flow: Unused,
    pub placeholder1: Unused,
    pub open_qp: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvQpOpenAttr) -> *mut IbvQp>,
    pub create_qp_ex:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvQpInitAttrEx) -> *mut IbvQp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut IbvSrq, *mut u32) -> c_int>,
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvSrqInitAttrEx) -> *mut IbvSrq>,
    pub open_xrcd:
        Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvXrcdInitAttr) -> *mut IbvXrcd>,
    pub close_xrcd: Option<unsafe extern "C" fn(*mut IbvXrcd) -> c_int>,
    pub placeholder3: u64,
    pub sz: usize,
    pub context: IbvContext,
}

/// `abi_compat` of a context that has a [`VerbsContext`] in front of it.
pub const VERBS_ABI_IS_EXTENDED: *mut c_void = usize::MAX as *mut c_void;
