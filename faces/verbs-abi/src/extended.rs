//! The extended interfaces: attributes with masks, and objects that carry their functions.

use core::ffi::{c_int, c_uint, c_void};

use crate::context::IbvContext;
use crate::objects::{
    IbvAh, IbvCompChannel, IbvCq, IbvDeviceAttr, IbvMw, IbvPd, IbvQp, IbvQpCap, IbvSrq, IbvSrqAttr,
    IbvTd, IbvXrcd,
};
use crate::requests::{IbvDataBuf, IbvMwBindInfo, IbvSge};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvOdpCaps {
    pub general_caps: u64,
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvTsoCaps {
    pub max_tso: u32,
    pub supported_qpts: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvRssCaps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub rx_hash_fields_mask: u64,
    pub rx_hash_function: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvPacketPacingCaps {
    pub qp_rate_limit_min: u32,
    pub qp_rate_limit_max: u32,
    pub supported_qpts: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvTmCaps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvCqModerationCaps {
    pub max_cq_count: u16,
    pub max_cq_period: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvPciAtomicCaps {
    pub fetch_add: u16,
    pub swap: u16,
    pub compare_swap: u16,
}

#[repr(C)]
#[derive(Clone, Debug)]
pub struct IbvDeviceAttrEx {
    pub orig_attr: IbvDeviceAttr,
    pub comp_mask: u32,
    pub odp_caps: IbvOdpCaps,
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: IbvTsoCaps,
    pub rss_caps: IbvRssCaps,
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: IbvPacketPacingCaps,
    pub raw_packet_caps: u32,
    pub tm_caps: IbvTmCaps,
    pub cq_mod_caps: IbvCqModerationCaps,
    pub max_dm_size: u64,
    pub pci_atomic_caps: IbvPciAtomicCaps,
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvQueryDeviceExInput {
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvSrqInitAttrEx {
    pub srq_context: *mut c_void,
    pub attr: IbvSrqAttr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut IbvPd,
    pub xrcd: *mut IbvXrcd,
    pub cq: *mut IbvCq,
    pub max_num_tags: u32,
    pub max_ops: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvRxHashConf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvQpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut IbvCq,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub cap: IbvQpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut IbvPd,
    pub xrcd: *mut IbvXrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: IbvRxHashConf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvCqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut IbvCompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut IbvPd,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvParentDomainInitAttr {
    pub pd: *mut IbvPd,
    pub td: *mut IbvTd,
    pub comp_mask: u32,
    pub alloc: usize,
    pub free: usize,
    pub pd_context: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvTdInitAttr {
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvMrInitAttr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut c_void,
    pub buf: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvModifyCqAttr {
    pub attr_mask: u32,
    pub cq_count: u16,
    pub cq_period: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvPollCqAttr {
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvWcTmInfo {
    pub tag: u64,
    pub private: u32,
}

/// A completion queue whose entries are read field by field.
#[repr(C)]
#[expect(
    missing_debug_implementations,
    reason = "a lock of C, which has nothing to show"
)]
pub struct IbvCqEx {
    pub base: IbvCq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut Self, *mut IbvPollCqAttr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut Self)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub read_vendor_err: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut Self) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(*mut Self) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(*mut Self) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(*mut Self) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(*mut Self) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut Self, *mut IbvWcTmInfo)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut Self) -> u64>,
}

/// A queue pair whose requests are built call by call. The program writes `wr_id` and `wr_flags`
/// before each.
#[repr(C)]
#[expect(
    missing_debug_implementations,
    reason = "a lock of C, which has nothing to show"
)]
pub struct IbvQpEx {
    pub base: IbvQp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64, u64)>,
    pub wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64)>,
    pub wr_bind_mw: Option<unsafe extern "C" fn(*mut Self, *mut IbvMw, u32, *const IbvMwBindInfo)>,
    pub wr_local_inv: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub wr_rdma_read: Option<unsafe extern "C" fn(*mut Self, u32, u64)>,
    pub wr_rdma_write: Option<unsafe extern "C" fn(*mut Self, u32, u64)>,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub wr_send: Option<unsafe extern "C" fn(*mut Self)>,
    pub wr_send_imm: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub wr_send_inv: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub wr_send_tso: Option<unsafe extern "C" fn(*mut Self, *mut c_void, u16, u16)>,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(*mut Self, *mut IbvAh, u32, u32)>,
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(*mut Self, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut Self, usize, *const IbvDataBuf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(*mut Self, usize, *const IbvSge)>,
    pub wr_start: Option<unsafe extern "C" fn(*mut Self)>,
    pub wr_complete: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub wr_abort: Option<unsafe extern "C" fn(*mut Self)>,
    pub wr_atomic_write: Option<unsafe extern "C" fn(*mut Self, u32, u64, *const c_void)>,
    pub wr_flush: Option<unsafe extern "C" fn(*mut Self, u32, u64, usize, u8, u8)>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvQpOpenAttr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut IbvXrcd,
    pub qp_context: *mut c_void,
    pub qp_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvXrcdInitAttr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}

/// The first member of objects that only the extended interface has.
#[repr(C)]
#[derive(Debug)]
pub struct OfContext {
    pub context: *mut IbvContext,
}
