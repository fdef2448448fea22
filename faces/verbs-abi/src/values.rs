//! The values of enumerations and masks.

use core::ffi::c_int;

// enum ibv_node_type
pub const NODE_UNKNOWN: c_int = -1;
pub const NODE_CA: c_int = 1;
pub const NODE_SWITCH: c_int = 2;
pub const NODE_ROUTER: c_int = 3;
pub const NODE_RNIC: c_int = 4;
pub const NODE_USNIC: c_int = 5;
pub const NODE_USNIC_UDP: c_int = 6;
pub const NODE_UNSPECIFIED: c_int = 7;

// enum ibv_transport_type
pub const TRANSPORT_UNKNOWN: c_int = -1;
pub const TRANSPORT_IB: c_int = 0;
pub const TRANSPORT_IWARP: c_int = 1;
pub const TRANSPORT_USNIC: c_int = 2;
pub const TRANSPORT_USNIC_UDP: c_int = 3;
pub const TRANSPORT_UNSPECIFIED: c_int = 4;

// enum ibv_gid_type
pub const GID_TYPE_IB: c_int = 0;
pub const GID_TYPE_ROCE_V1: c_int = 1;
pub const GID_TYPE_ROCE_V2: c_int = 2;

// enum ibv_device_cap_flags
pub const DEVICE_RESIZE_MAX_WR: u32 = 1;
pub const DEVICE_BAD_PKEY_CNTR: u32 = 1 << 1;
pub const DEVICE_BAD_QKEY_CNTR: u32 = 1 << 2;
pub const DEVICE_RAW_MULTI: u32 = 1 << 3;
pub const DEVICE_AUTO_PATH_MIG: u32 = 1 << 4;
pub const DEVICE_CHANGE_PHY_PORT: u32 = 1 << 5;
pub const DEVICE_UD_AV_PORT_ENFORCE: u32 = 1 << 6;
pub const DEVICE_CURR_QP_STATE_MOD: u32 = 1 << 7;
pub const DEVICE_SHUTDOWN_PORT: u32 = 1 << 8;
pub const DEVICE_INIT_TYPE: u32 = 1 << 9;
pub const DEVICE_PORT_ACTIVE_EVENT: u32 = 1 << 10;
pub const DEVICE_SYS_IMAGE_GUID: u32 = 1 << 11;
pub const DEVICE_RC_RNR_NAK_GEN: u32 = 1 << 12;
pub const DEVICE_SRQ_RESIZE: u32 = 1 << 13;
pub const DEVICE_N_NOTIFY_CQ: u32 = 1 << 14;
pub const DEVICE_MEM_WINDOW: u32 = 1 << 17;
pub const DEVICE_UD_IP_CSUM: u32 = 1 << 18;
pub const DEVICE_XRC: u32 = 1 << 20;
pub const DEVICE_MEM_MGT_EXTENSIONS: u32 = 1 << 21;
pub const DEVICE_MEM_WINDOW_TYPE_2A: u32 = 1 << 23;
pub const DEVICE_MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
pub const DEVICE_RC_IP_CSUM: u32 = 1 << 25;
pub const DEVICE_RAW_IP_CSUM: u32 = 1 << 26;
pub const DEVICE_MANAGED_FLOW_STEERING: u32 = 1 << 29;

// enum ibv_atomic_cap
pub const ATOMIC_NONE: c_int = 0;
pub const ATOMIC_HCA: c_int = 1;
pub const ATOMIC_GLOB: c_int = 2;

// enum ibv_mtu
pub const MTU_256: c_int = 1;
pub const MTU_512: c_int = 2;
pub const MTU_1024: c_int = 3;
pub const MTU_2048: c_int = 4;
pub const MTU_4096: c_int = 5;

// enum ibv_port_state
pub const PORT_NOP: c_int = 0;
pub const PORT_DOWN: c_int = 1;
pub const PORT_INIT: c_int = 2;
pub const PORT_ARMED: c_int = 3;
pub const PORT_ACTIVE: c_int = 4;
pub const PORT_ACTIVE_DEFER: c_int = 5;

// enum ibv_port_cap_flags
pub const PORT_SM: u32 = 1 << 1;
pub const PORT_NOTICE_SUP: u32 = 1 << 2;
pub const PORT_TRAP_SUP: u32 = 1 << 3;
pub const PORT_OPT_IPD_SUP: u32 = 1 << 4;
pub const PORT_AUTO_MIGR_SUP: u32 = 1 << 5;
pub const PORT_SL_MAP_SUP: u32 = 1 << 6;
pub const PORT_MKEY_NVRAM: u32 = 1 << 7;
pub const PORT_PKEY_NVRAM: u32 = 1 << 8;
pub const PORT_LED_INFO_SUP: u32 = 1 << 9;
pub const PORT_SYS_IMAGE_GUID_SUP: u32 = 1 << 11;
pub const PORT_PKEY_SW_EXT_PORT_TRAP_SUP: u32 = 1 << 12;
pub const PORT_EXTENDED_SPEEDS_SUP: u32 = 1 << 14;
pub const PORT_CAP_MASK2_SUP: u32 = 1 << 15;
pub const PORT_CM_SUP: u32 = 1 << 16;
pub const PORT_SNMP_TUNNEL_SUP: u32 = 1 << 17;
pub const PORT_REINIT_SUP: u32 = 1 << 18;
pub const PORT_DEVICE_MGMT_SUP: u32 = 1 << 19;
pub const PORT_VENDOR_CLASS_SUP: u32 = 1 << 20;
pub const PORT_DR_NOTICE_SUP: u32 = 1 << 21;
pub const PORT_CAP_MASK_NOTICE_SUP: u32 = 1 << 22;
pub const PORT_BOOT_MGMT_SUP: u32 = 1 << 23;
pub const PORT_LINK_LATENCY_SUP: u32 = 1 << 24;
pub const PORT_CLIENT_REG_SUP: u32 = 1 << 25;
pub const PORT_IP_BASED_GIDS: u32 = 1 << 26;

// enum ibv_event_type
pub const EVENT_CQ_ERR: c_int = 0;
pub const EVENT_QP_FATAL: c_int = 1;
pub const EVENT_QP_REQ_ERR: c_int = 2;
pub const EVENT_QP_ACCESS_ERR: c_int = 3;
pub const EVENT_COMM_EST: c_int = 4;
pub const EVENT_SQ_DRAINED: c_int = 5;
pub const EVENT_PATH_MIG: c_int = 6;
pub const EVENT_PATH_MIG_ERR: c_int = 7;
pub const EVENT_DEVICE_FATAL: c_int = 8;
pub const EVENT_PORT_ACTIVE: c_int = 9;
pub const EVENT_PORT_ERR: c_int = 10;
pub const EVENT_LID_CHANGE: c_int = 11;
pub const EVENT_PKEY_CHANGE: c_int = 12;
pub const EVENT_SM_CHANGE: c_int = 13;
pub const EVENT_SRQ_ERR: c_int = 14;
pub const EVENT_SRQ_LIMIT_REACHED: c_int = 15;
pub const EVENT_QP_LAST_WQE_REACHED: c_int = 16;
pub const EVENT_CLIENT_REREGISTER: c_int = 17;
pub const EVENT_GID_CHANGE: c_int = 18;
pub const EVENT_WQ_FATAL: c_int = 19;
pub const EVENT_DEVICE_SPEED_CHANGE: c_int = 20;

// enum ibv_wc_status
pub const WC_SUCCESS: c_int = 0;
pub const WC_LOC_LEN_ERR: c_int = 1;
pub const WC_LOC_QP_OP_ERR: c_int = 2;
pub const WC_LOC_EEC_OP_ERR: c_int = 3;
pub const WC_LOC_PROT_ERR: c_int = 4;
pub const WC_WR_FLUSH_ERR: c_int = 5;
pub const WC_MW_BIND_ERR: c_int = 6;
pub const WC_BAD_RESP_ERR: c_int = 7;
pub const WC_LOC_ACCESS_ERR: c_int = 8;
pub const WC_REM_INV_REQ_ERR: c_int = 9;
pub const WC_REM_ACCESS_ERR: c_int = 10;
pub const WC_REM_OP_ERR: c_int = 11;
pub const WC_RETRY_EXC_ERR: c_int = 12;
pub const WC_RNR_RETRY_EXC_ERR: c_int = 13;
pub const WC_LOC_RDD_VIOL_ERR: c_int = 14;
pub const WC_REM_INV_RD_REQ_ERR: c_int = 15;
pub const WC_REM_ABORT_ERR: c_int = 16;
pub const WC_INV_EECN_ERR: c_int = 17;
pub const WC_INV_EEC_STATE_ERR: c_int = 18;
pub const WC_FATAL_ERR: c_int = 19;
pub const WC_RESP_TIMEOUT_ERR: c_int = 20;
pub const WC_GENERAL_ERR: c_int = 21;
pub const WC_TM_ERR: c_int = 22;
pub const WC_TM_RNDV_INCOMPLETE: c_int = 23;

// enum ibv_wc_opcode
pub const WC_SEND: c_int = 0;
pub const WC_RDMA_WRITE: c_int = 1;
pub const WC_RDMA_READ: c_int = 2;
pub const WC_COMP_SWAP: c_int = 3;
pub const WC_FETCH_ADD: c_int = 4;
pub const WC_BIND_MW: c_int = 5;
pub const WC_LOCAL_INV: c_int = 6;
pub const WC_TSO: c_int = 7;
pub const WC_FLUSH: c_int = 8;
pub const WC_ATOMIC_WRITE: c_int = 9;
pub const WC_RECV: c_int = 128;
pub const WC_RECV_RDMA_WITH_IMM: c_int = 129;
pub const WC_TM_ADD: c_int = 130;
pub const WC_TM_DEL: c_int = 131;
pub const WC_TM_SYNC: c_int = 132;
pub const WC_TM_RECV: c_int = 133;
pub const WC_TM_NO_TAG: c_int = 134;
pub const WC_DRIVER1: c_int = 135;
pub const WC_DRIVER2: c_int = 136;
pub const WC_DRIVER3: c_int = 137;

// enum ibv_wc_flags
pub const WC_GRH: u32 = 1;
pub const WC_WITH_IMM: u32 = 1 << 1;
pub const WC_IP_CSUM_OK: u32 = 1 << 2;
pub const WC_WITH_INV: u32 = 1 << 3;
pub const WC_TM_SYNC_REQ: u32 = 1 << 4;
pub const WC_TM_MATCH: u32 = 1 << 5;
pub const WC_TM_DATA_VALID: u32 = 1 << 6;

// enum ibv_create_cq_wc_flags
pub const WC_EX_WITH_BYTE_LEN: u64 = 1;
pub const WC_EX_WITH_IMM: u64 = 1 << 1;
pub const WC_EX_WITH_QP_NUM: u64 = 1 << 2;
pub const WC_EX_WITH_SRC_QP: u64 = 1 << 3;
pub const WC_EX_WITH_SLID: u64 = 1 << 4;
pub const WC_EX_WITH_SL: u64 = 1 << 5;
pub const WC_EX_WITH_DLID_PATH_BITS: u64 = 1 << 6;
pub const WC_EX_WITH_COMPLETION_TIMESTAMP: u64 = 1 << 7;
pub const WC_EX_WITH_CVLAN: u64 = 1 << 8;
pub const WC_EX_WITH_FLOW_TAG: u64 = 1 << 9;
pub const WC_EX_WITH_TM_INFO: u64 = 1 << 10;
pub const WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK: u64 = 1 << 11;

// enum ibv_access_flags
pub const ACCESS_LOCAL_WRITE: u32 = 1;
pub const ACCESS_REMOTE_WRITE: u32 = 1 << 1;
pub const ACCESS_REMOTE_READ: u32 = 1 << 2;
pub const ACCESS_REMOTE_ATOMIC: u32 = 1 << 3;
pub const ACCESS_MW_BIND: u32 = 1 << 4;
pub const ACCESS_ZERO_BASED: u32 = 1 << 5;
pub const ACCESS_ON_DEMAND: u32 = 1 << 6;
pub const ACCESS_HUGETLB: u32 = 1 << 7;
pub const ACCESS_FLUSH_GLOBAL: u32 = 1 << 8;
pub const ACCESS_FLUSH_PERSISTENT: u32 = 1 << 9;
pub const ACCESS_RELAXED_ORDERING: u32 = 1 << 20;

// enum ibv_rereg_mr_flags
pub const REREG_MR_CHANGE_TRANSLATION: u32 = 1;
pub const REREG_MR_CHANGE_PD: u32 = 1 << 1;
pub const REREG_MR_CHANGE_ACCESS: u32 = 1 << 2;
pub const REREG_MR_FLAGS_SUPPORTED: u32 = 7;

// enum ibv_rereg_mr_err_code
pub const REREG_MR_ERR_INPUT: c_int = -1;
pub const REREG_MR_ERR_DONT_FORK_NEW: c_int = -2;
pub const REREG_MR_ERR_DO_FORK_OLD: c_int = -3;
pub const REREG_MR_ERR_CMD: c_int = -4;
pub const REREG_MR_ERR_CMD_AND_DO_FORK_NEW: c_int = -5;

// enum ibv_srq_attr_mask
pub const SRQ_MAX_WR: u32 = 1;
pub const SRQ_LIMIT: u32 = 1 << 1;

// enum ibv_srq_type
pub const SRQT_BASIC: c_int = 0;
pub const SRQT_XRC: c_int = 1;
pub const SRQT_TM: c_int = 2;

// enum ibv_srq_init_attr_mask
pub const SRQ_INIT_ATTR_TYPE: u32 = 1;
pub const SRQ_INIT_ATTR_PD: u32 = 1 << 1;
pub const SRQ_INIT_ATTR_XRCD: u32 = 1 << 2;
pub const SRQ_INIT_ATTR_CQ: u32 = 1 << 3;
pub const SRQ_INIT_ATTR_TM: u32 = 1 << 4;
pub const SRQ_INIT_ATTR_RESERVED: u32 = 1 << 5;

// enum ibv_qp_type
pub const QPT_RC: c_int = 2;
pub const QPT_UC: c_int = 3;
pub const QPT_UD: c_int = 4;
pub const QPT_RAW_PACKET: c_int = 8;
pub const QPT_XRC_SEND: c_int = 9;
pub const QPT_XRC_RECV: c_int = 10;
pub const QPT_DRIVER: c_int = 255;

// enum ibv_qp_init_attr_mask
pub const QP_INIT_ATTR_PD: u32 = 1;
pub const QP_INIT_ATTR_XRCD: u32 = 1 << 1;
pub const QP_INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
pub const QP_INIT_ATTR_MAX_TSO_HEADER: u32 = 1 << 3;
pub const QP_INIT_ATTR_IND_TABLE: u32 = 1 << 4;
pub const QP_INIT_ATTR_RX_HASH: u32 = 1 << 5;
pub const QP_INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;

// enum ibv_qp_create_flags
pub const QP_CREATE_BLOCK_SELF_MCAST_LB: u32 = 1 << 1;
pub const QP_CREATE_SCATTER_FCS: u32 = 1 << 8;
pub const QP_CREATE_CVLAN_STRIPPING: u32 = 1 << 9;
pub const QP_CREATE_SOURCE_QPN: u32 = 1 << 10;
pub const QP_CREATE_PCI_WRITE_END_PADDING: u32 = 1 << 11;

// enum ibv_qp_create_send_ops_flags
pub const QP_EX_WITH_RDMA_WRITE: u64 = 1;
pub const QP_EX_WITH_RDMA_WRITE_WITH_IMM: u64 = 1 << 1;
pub const QP_EX_WITH_SEND: u64 = 1 << 2;
pub const QP_EX_WITH_SEND_WITH_IMM: u64 = 1 << 3;
pub const QP_EX_WITH_RDMA_READ: u64 = 1 << 4;
pub const QP_EX_WITH_ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
pub const QP_EX_WITH_ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
pub const QP_EX_WITH_LOCAL_INV: u64 = 1 << 7;
pub const QP_EX_WITH_BIND_MW: u64 = 1 << 8;
pub const QP_EX_WITH_SEND_WITH_INV: u64 = 1 << 9;
pub const QP_EX_WITH_TSO: u64 = 1 << 10;
pub const QP_EX_WITH_FLUSH: u64 = 1 << 11;
pub const QP_EX_WITH_ATOMIC_WRITE: u64 = 1 << 12;

// enum ibv_qp_attr_mask
pub const QP_STATE: u32 = 1;
pub const QP_CUR_STATE: u32 = 1 << 1;
pub const QP_EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
pub const QP_ACCESS_FLAGS: u32 = 1 << 3;
pub const QP_PKEY_INDEX: u32 = 1 << 4;
pub const QP_PORT: u32 = 1 << 5;
pub const QP_QKEY: u32 = 1 << 6;
pub const QP_AV: u32 = 1 << 7;
pub const QP_PATH_MTU: u32 = 1 << 8;
pub const QP_TIMEOUT: u32 = 1 << 9;
pub const QP_RETRY_CNT: u32 = 1 << 10;
pub const QP_RNR_RETRY: u32 = 1 << 11;
pub const QP_RQ_PSN: u32 = 1 << 12;
pub const QP_MAX_QP_RD_ATOMIC: u32 = 1 << 13;
pub const QP_ALT_PATH: u32 = 1 << 14;
pub const QP_MIN_RNR_TIMER: u32 = 1 << 15;
pub const QP_SQ_PSN: u32 = 1 << 16;
pub const QP_MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
pub const QP_PATH_MIG_STATE: u32 = 1 << 18;
pub const QP_CAP: u32 = 1 << 19;
pub const QP_DEST_QPN: u32 = 1 << 20;
pub const QP_RATE_LIMIT: u32 = 1 << 25;

// enum ibv_qp_state
pub const QPS_RESET: c_int = 0;
pub const QPS_INIT: c_int = 1;
pub const QPS_RTR: c_int = 2;
pub const QPS_RTS: c_int = 3;
pub const QPS_SQD: c_int = 4;
pub const QPS_SQE: c_int = 5;
pub const QPS_ERR: c_int = 6;
pub const QPS_UNKNOWN: c_int = 7;

// enum ibv_mig_state
pub const MIG_MIGRATED: c_int = 0;
pub const MIG_REARM: c_int = 1;
pub const MIG_ARMED: c_int = 2;

// enum ibv_wr_opcode
pub const WR_RDMA_WRITE: c_int = 0;
pub const WR_RDMA_WRITE_WITH_IMM: c_int = 1;
pub const WR_SEND: c_int = 2;
pub const WR_SEND_WITH_IMM: c_int = 3;
pub const WR_RDMA_READ: c_int = 4;
pub const WR_ATOMIC_CMP_AND_SWP: c_int = 5;
pub const WR_ATOMIC_FETCH_AND_ADD: c_int = 6;
pub const WR_LOCAL_INV: c_int = 7;
pub const WR_BIND_MW: c_int = 8;
pub const WR_SEND_WITH_INV: c_int = 9;
pub const WR_TSO: c_int = 10;
pub const WR_DRIVER1: c_int = 11;
pub const WR_FLUSH: c_int = 14;
pub const WR_ATOMIC_WRITE: c_int = 15;

// enum ibv_send_flags
pub const SEND_FENCE: u32 = 1;
pub const SEND_SIGNALED: u32 = 1 << 1;
pub const SEND_SOLICITED: u32 = 1 << 2;
pub const SEND_INLINE: u32 = 1 << 3;
pub const SEND_IP_CSUM: u32 = 1 << 4;

// enum ibv_cq_init_attr_mask
pub const CQ_INIT_ATTR_MASK_FLAGS: u32 = 1;
pub const CQ_INIT_ATTR_MASK_PD: u32 = 1 << 1;

// enum ibv_create_cq_attr_flags
pub const CREATE_CQ_ATTR_SINGLE_THREADED: u32 = 1;
pub const CREATE_CQ_ATTR_IGNORE_OVERRUN: u32 = 1 << 1;

// enum ibv_values_mask
pub const VALUES_MASK_RAW_CLOCK: u32 = 1;
pub const VALUES_MASK_RESERVED: u32 = 1 << 1;

// enum ibv_fork_status
pub const FORK_DISABLED: c_int = 0;
pub const FORK_ENABLED: c_int = 1;
pub const FORK_UNNEEDED: c_int = 2;

// enum ibv_rate
pub const RATE_MAX: c_int = 0;
pub const RATE_2_5_GBPS: c_int = 2;
pub const RATE_5_GBPS: c_int = 5;
pub const RATE_10_GBPS: c_int = 3;
pub const RATE_20_GBPS: c_int = 6;
pub const RATE_30_GBPS: c_int = 4;
pub const RATE_40_GBPS: c_int = 7;
pub const RATE_60_GBPS: c_int = 8;
pub const RATE_80_GBPS: c_int = 9;
pub const RATE_120_GBPS: c_int = 10;
pub const RATE_14_GBPS: c_int = 11;
pub const RATE_56_GBPS: c_int = 12;
pub const RATE_112_GBPS: c_int = 13;
pub const RATE_168_GBPS: c_int = 14;
pub const RATE_25_GBPS: c_int = 15;
pub const RATE_100_GBPS: c_int = 16;
pub const RATE_200_GBPS: c_int = 17;
pub const RATE_300_GBPS: c_int = 18;
pub const RATE_28_GBPS: c_int = 19;
pub const RATE_50_GBPS: c_int = 20;
pub const RATE_400_GBPS: c_int = 21;
pub const RATE_600_GBPS: c_int = 22;
pub const RATE_800_GBPS: c_int = 23;
pub const RATE_1200_GBPS: c_int = 24;

// enum ibv_mr_init_attr_mask
pub const REG_MR_MASK_IOVA: u32 = 1;
pub const REG_MR_MASK_ADDR: u32 = 1 << 1;
pub const REG_MR_MASK_FD: u32 = 1 << 2;
pub const REG_MR_MASK_FD_OFFSET: u32 = 1 << 3;
pub const REG_MR_MASK_DMAH: u32 = 1 << 4;
pub const REG_MR_MASK_BUF: u32 = 1 << 5;

// enum ibv_cq_attr_mask
pub const CQ_ATTR_MODERATE: u32 = 1;
pub const CQ_ATTR_RESERVED: u32 = 1 << 1;

// Of a port.
pub const LINK_LAYER_UNSPECIFIED: u8 = 0;
pub const LINK_LAYER_INFINIBAND: u8 = 1;
pub const LINK_LAYER_ETHERNET: u8 = 2;

/// The bits of access that a device may leave without effect.
pub const ACCESS_OPTIONAL_RANGE: u32 = 0x3ff0_0000;
