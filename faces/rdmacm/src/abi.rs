//! The structures of `rdma/rdma_cma.h`, held against Debian's headers by a test.

#![expect(
    missing_docs,
    reason = "fields are those of rdma_cma.h, whose manual pages say what they mean"
)]

use std::ffi::{c_char, c_int, c_void};

use libc::{sockaddr, sockaddr_storage, socklen_t};
use viaduct_verbs_abi::{
    IbvAhAttr, IbvCompChannel, IbvContext, IbvCq, IbvGid, IbvPd, IbvQp, IbvSrq,
};

/// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`: as many as the device has.
pub const MOST: u8 = 0xff;
/// `RDMA_UDP_QKEY`.
pub const UDP_QUEUE_KEY: u32 = 0x0123_4567;

/// Flags of `rdma_addrinfo`.
pub mod flags {
    use std::ffi::c_int;

    pub const PASSIVE: c_int = 1;
    pub const NUMERIC_HOST: c_int = 2;
    pub const FAMILY: c_int = 8;
    pub const SERVICE_RECORDS: c_int = 0x10;
    pub const DNS: c_int = 0x20;
}

#[repr(C)]
#[derive(Debug)]
pub struct RdmaEventChannel {
    pub fd: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RdmaIbAddr {
    pub sgid: IbvGid,
    pub dgid: IbvGid,
    /// Big-endian.
    pub pkey: u16,
}

#[repr(C)]
#[expect(missing_debug_implementations, reason = "addresses as C has them")]
pub struct RdmaAddr {
    pub source: sockaddr_storage,
    pub destination: sockaddr_storage,
    pub ib: RdmaIbAddr,
}

#[repr(C)]
#[expect(missing_debug_implementations, reason = "addresses as C has them")]
pub struct RdmaRoute {
    pub addr: RdmaAddr,
    pub path_rec: *mut IbvSaPathRec,
    pub num_paths: c_int,
}

#[repr(C)]
#[expect(missing_debug_implementations, reason = "addresses as C has them")]
pub struct RdmaCmId {
    pub verbs: *mut IbvContext,
    pub channel: *mut RdmaEventChannel,
    pub context: *mut c_void,
    pub qp: *mut IbvQp,
    pub route: RdmaRoute,
    pub ps: c_int,
    pub port_num: u8,
    pub event: *mut RdmaCmEvent,
    pub send_cq_channel: *mut IbvCompChannel,
    pub send_cq: *mut IbvCq,
    pub recv_cq_channel: *mut IbvCompChannel,
    pub recv_cq: *mut IbvCq,
    pub srq: *mut IbvSrq,
    pub pd: *mut IbvPd,
    pub qp_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RdmaConnParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RdmaUdParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: IbvAhAttr,
    pub qp_num: u32,
    pub qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
#[expect(
    missing_debug_implementations,
    reason = "which of them it is, the event says"
)]
pub union RdmaEventParam {
    pub conn: RdmaConnParam,
    pub ud: RdmaUdParam,
    pub arg: u64,
}

#[repr(C)]
#[expect(
    missing_debug_implementations,
    reason = "which of its parameters are set, it says"
)]
pub struct RdmaCmEvent {
    pub id: *mut RdmaCmId,
    pub listen_id: *mut RdmaCmId,
    pub event: c_int,
    pub status: c_int,
    pub param: RdmaEventParam,
}

#[repr(C)]
#[derive(Debug)]
pub struct RdmaAddrinfo {
    pub ai_flags: c_int,
    pub ai_family: c_int,
    pub ai_qp_type: c_int,
    pub ai_port_space: c_int,
    pub ai_src_len: socklen_t,
    pub ai_dst_len: socklen_t,
    pub ai_src_addr: *mut sockaddr,
    pub ai_dst_addr: *mut sockaddr,
    pub ai_src_canonname: *mut c_char,
    pub ai_dst_canonname: *mut c_char,
    pub ai_route_len: usize,
    pub ai_route: *mut c_void,
    pub ai_connect_len: usize,
    pub ai_connect: *mut c_void,
    pub ai_next: *mut Self,
}

#[repr(C)]
#[derive(Debug)]
pub struct RdmaCmJoinMcAttrEx {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut sockaddr,
}

/// `struct ibv_sa_path_rec` of `infiniband/sa.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IbvSaPathRec {
    pub dgid: IbvGid,
    pub sgid: IbvGid,
    /// Big-endian, as the next one, the label and the key.
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: c_int,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

/// Bytes of `struct ibv_path_data` of `infiniband/sa.h`: paths that a program sets itself.
pub const PATH_DATA_BYTES: usize = 72;
