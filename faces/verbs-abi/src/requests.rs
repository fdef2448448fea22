//! Work requests and completions.

use core::ffi::{c_int, c_uint, c_void};

use crate::objects::{IbvAh, IbvMr, IbvMw};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvSge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvDataBuf {
    pub addr: *mut c_void,
    pub length: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvRdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvAtomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvUd {
    pub ah: *mut IbvAh,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union IbvSendRemote {
    pub rdma: IbvRdma,
    pub atomic: IbvAtomic,
    pub ud: IbvUd,
}

impl core::fmt::Debug for IbvSendRemote {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("IbvSendRemote")
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvMwBindInfo {
    pub mr: *mut IbvMr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvBindMw {
    pub mw: *mut IbvMw,
    pub rkey: u32,
    pub bind_info: IbvMwBindInfo,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvTso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union IbvSendMore {
    pub bind_mw: IbvBindMw,
    pub tso: IbvTso,
}

impl core::fmt::Debug for IbvSendMore {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("IbvSendMore")
    }
}

/// A request of the send queue. `imm_data` is big-endian and shares its place with the key that an
/// invalidating request names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IbvSendWr {
    pub wr_id: u64,
    pub next: *mut Self,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub wr: IbvSendRemote,
    pub remote_srqn: u32,
    pub more: IbvSendMore,
}

impl core::fmt::Debug for IbvSendWr {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = formatter.debug_struct("IbvSendWr");
        shown.field("wr_id", &self.wr_id);
        shown.field("opcode", &self.opcode).finish_non_exhaustive()
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IbvRecvWr {
    pub wr_id: u64,
    pub next: *mut Self,
    pub sg_list: *mut IbvSge,
    pub num_sge: c_int,
}

/// A completion. `imm_data` is big-endian.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvWc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
