//! Every size, offset and value is that of the system's `infiniband/verbs.h`.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use viaduct_c_programs::{abi_numbers, compiler, run};
use viaduct_verbs_abi::*;

/// What later versions of the header added: looked at where the header has it.
const ADDED_LATER: &[&str] = &[
    "EVENT_DEVICE_SPEED_CHANGE",
    "WC_FLUSH",
    "ACCESS_FLUSH_GLOBAL",
    "ACCESS_FLUSH_PERSISTENT",
    "QP_EX_WITH_FLUSH",
    "WR_FLUSH",
    "REG_MR_MASK_IOVA",
    "REG_MR_MASK_ADDR",
    "REG_MR_MASK_FD",
    "REG_MR_MASK_FD_OFFSET",
    "REG_MR_MASK_DMAH",
    "REG_MR_MASK_BUF",
    "RATE_1600_GBPS",
    "RATE_2400_GBPS",
];

fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verbs-abi");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Whether the system's header is of a version that has what was added later.
fn header_is_new() -> bool {
    let mut command = Command::new(compiler(false));
    command.args([
        "-E",
        "-x",
        "c",
        "-include",
        "infiniband/verbs.h",
        "/dev/null",
    ]);
    run(&mut command).contains("ibv_reg_mr_ex")
}

/// What a C program prints that is told to print these expressions, by name.
fn printed(name: &str, expressions: &[(String, String)]) -> String {
    let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
        int main(void)\n{\n"
        .to_owned();
    for (name, expression) in expressions {
        writeln!(
            text,
            "    printf(\"{name} %lld\\n\", (long long)({expression}));"
        )
        .unwrap();
    }
    text += "    return 0;\n}\n";
    let source = scratch().join(format!("{name}.c"));
    std::fs::write(&source, text).unwrap();
    let program = scratch().join(name);
    run(Command::new(compiler(false))
        .arg(&source)
        .arg("-o")
        .arg(&program));
    run(&mut Command::new(program))
}

macro_rules! structure {
    ($found:ident, $rust:ty, $c:literal: $($field:ident $(= $name:literal)?),+ $(,)?) => {
        $found.push((
            concat!("sizeof ", $c).to_owned(),
            format!("sizeof({})", $c),
            size_of::<$rust>(),
        ));
        $({
            let name = stringify!($field);
            $(let name = if true { $name } else { name };)?
            $found.push((
                format!("{}.{name}", $c),
                format!("offsetof({}, {name})", $c),
                offset_of!($rust, $field),
            ));
        })+
    };
}

fn compare(name: &str, found: Vec<(String, String, usize)>) {
    let asked: Vec<_> = found
        .iter()
        .map(|(name, what, _)| (name.clone(), what.clone()))
        .collect();
    let text = printed(name, &asked);
    let header = abi_numbers(&text);
    for (name, _, ours) in found {
        assert_eq!(header.get(name.as_str()), Some(&(ours as u64)), "{name}");
    }
}

#[test]
fn structures_are_laid_out_as_the_header_says() {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    structure!(found, IbvGid, "union ibv_gid": raw);
    structure!(found, IbvGidEntry, "struct ibv_gid_entry":
        gid, gid_index, port_num, gid_type, ndev_ifindex);
    structure!(found, IbvDevice, "struct ibv_device":
        ops = "_ops", node_type, transport_type, name, dev_name, dev_path, ibdev_path);
    structure!(found, IbvDeviceAttr, "struct ibv_device_attr":
        fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id,
        vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd,
        max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
        max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw,
        max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach,
        max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr,
        max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt);
    structure!(found, IbvPortAttr, "struct ibv_port_attr":
        state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr,
        qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
        init_type_reply, active_width, active_speed, phys_state, link_layer, flags,
        port_cap_flags2);
    structure!(found, IbvAsyncEvent, "struct ibv_async_event": element, event_type);
    structure!(found, IbvPd, "struct ibv_pd": context, handle);
    structure!(found, IbvMr, "struct ibv_mr": context, pd, addr, length, handle, lkey, rkey);
    structure!(found, IbvMw, "struct ibv_mw": context, pd, rkey, handle, kind = "type");
    structure!(found, IbvAh, "struct ibv_ah": context, pd, handle);
    structure!(found, IbvXrcd, "struct ibv_xrcd": context);
    structure!(found, IbvTd, "struct ibv_td": context);
    structure!(found, IbvCompChannel, "struct ibv_comp_channel": context, fd, refcnt);
    structure!(found, IbvCq, "struct ibv_cq":
        context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
        async_events_completed);
    structure!(found, IbvSrq, "struct ibv_srq":
        context, srq_context, pd, handle, mutex, cond, events_completed);
    structure!(found, IbvQp, "struct ibv_qp":
        context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type,
        mutex, cond, events_completed);
    structure!(found, IbvWq, "struct ibv_wq":
        context, wq_context, pd, cq, wq_num, handle, state, wq_type, post_recv, mutex, cond,
        events_completed, comp_mask);
    structure!(found, IbvGlobalRoute, "struct ibv_global_route":
        dgid, flow_label, sgid_index, hop_limit, traffic_class);
    structure!(found, IbvGrh, "struct ibv_grh":
        version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid);
    structure!(found, IbvAhAttr, "struct ibv_ah_attr":
        grh, dlid, sl, src_path_bits, static_rate, is_global, port_num);
    structure!(found, IbvSrqAttr, "struct ibv_srq_attr": max_wr, max_sge, srq_limit);
    structure!(found, IbvSrqInitAttr, "struct ibv_srq_init_attr": srq_context, attr);
    structure!(found, IbvQpCap, "struct ibv_qp_cap":
        max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data);
    structure!(found, IbvQpInitAttr, "struct ibv_qp_init_attr":
        qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all);
    structure!(found, IbvQpAttr, "struct ibv_qp_attr":
        qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
        qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index,
        en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
        port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit);
    structure!(found, IbvEce, "struct ibv_ece": vendor_id, options, comp_mask);
    structure!(found, IbvValuesEx, "struct ibv_values_ex": comp_mask, raw_clock);
    structure!(found, IbvSge, "struct ibv_sge": addr, length, lkey);
    structure!(found, IbvDataBuf, "struct ibv_data_buf": addr, length);
    structure!(found, IbvMwBindInfo, "struct ibv_mw_bind_info":
        mr, addr, length, mw_access_flags);
    structure!(found, IbvSendWr, "struct ibv_send_wr":
        wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr,
        remote_srqn = "qp_type.xrc.remote_srqn", more = "bind_mw");
    structure!(found, IbvRecvWr, "struct ibv_recv_wr": wr_id, next, sg_list, num_sge);
    structure!(found, IbvWc, "struct ibv_wc":
        wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
        pkey_index, slid, sl, dlid_path_bits);
    structure!(found, IbvOdpCaps, "struct ibv_odp_caps":
        general_caps, rc_odp_caps = "per_transport_caps.rc_odp_caps",
        uc_odp_caps = "per_transport_caps.uc_odp_caps",
        ud_odp_caps = "per_transport_caps.ud_odp_caps");
    structure!(found, IbvTsoCaps, "struct ibv_tso_caps": max_tso, supported_qpts);
    structure!(found, IbvRssCaps, "struct ibv_rss_caps":
        supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size,
        rx_hash_fields_mask, rx_hash_function);
    structure!(found, IbvPacketPacingCaps, "struct ibv_packet_pacing_caps":
        qp_rate_limit_min, qp_rate_limit_max, supported_qpts);
    structure!(found, IbvTmCaps, "struct ibv_tm_caps":
        max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge);
    structure!(found, IbvCqModerationCaps, "struct ibv_cq_moderation_caps":
        max_cq_count, max_cq_period);
    structure!(found, IbvPciAtomicCaps, "struct ibv_pci_atomic_caps":
        fetch_add, swap, compare_swap);
    structure!(found, IbvDeviceAttrEx, "struct ibv_device_attr_ex":
        orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock,
        device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps,
        raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps,
        phys_port_cnt_ex);
    structure!(found, IbvQueryDeviceExInput, "struct ibv_query_device_ex_input": comp_mask);
    structure!(found, IbvSrqInitAttrEx, "struct ibv_srq_init_attr_ex":
        srq_context, attr, comp_mask, srq_type, pd, xrcd, cq,
        max_num_tags = "tm_cap.max_num_tags", max_ops = "tm_cap.max_ops");
    structure!(found, IbvRxHashConf, "struct ibv_rx_hash_conf":
        rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask);
    structure!(found, IbvQpInitAttrEx, "struct ibv_qp_init_attr_ex":
        qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd,
        create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags);
    structure!(found, IbvCqInitAttrEx, "struct ibv_cq_init_attr_ex":
        cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain);
    structure!(found, IbvParentDomainInitAttr, "struct ibv_parent_domain_init_attr":
        pd, td, comp_mask, alloc, free, pd_context);
    structure!(found, IbvTdInitAttr, "struct ibv_td_init_attr": comp_mask);
    structure!(found, IbvModifyCqAttr, "struct ibv_modify_cq_attr":
        attr_mask, cq_count = "moderate.cq_count", cq_period = "moderate.cq_period");
    structure!(found, IbvPollCqAttr, "struct ibv_poll_cq_attr": comp_mask);
    structure!(found, IbvWcTmInfo, "struct ibv_wc_tm_info": tag, private = "priv");
    structure!(found, IbvCqEx, "struct ibv_cq_ex":
        base = "context", comp_mask, status, wr_id, start_poll, next_poll, end_poll,
        read_opcode, read_vendor_err, read_byte_len, read_imm_data, read_qp_num,
        read_src_qp, read_wc_flags, read_slid, read_sl, read_dlid_path_bits,
        read_completion_ts, read_cvlan, read_flow_tag, read_tm_info,
        read_completion_wallclock_ns);
    structure!(found, IbvQpEx, "struct ibv_qp_ex":
        base = "qp_base", comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp,
        wr_atomic_fetch_add, wr_bind_mw, wr_local_inv, wr_rdma_read, wr_rdma_write,
        wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso, wr_set_ud_addr,
        wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge,
        wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write);
    structure!(found, IbvQpOpenAttr, "struct ibv_qp_open_attr":
        comp_mask, qp_num, xrcd, qp_context, qp_type);
    structure!(found, IbvXrcdInitAttr, "struct ibv_xrcd_init_attr": comp_mask, fd, oflags);
    structure!(found, IbvContextOps, "struct ibv_context_ops":
        query_device = "_compat_query_device", query_port = "_compat_query_port",
        unused_before_windows = "_compat_alloc_pd", alloc_mw, bind_mw, dealloc_mw,
        unused_create_cq = "_compat_create_cq", poll_cq, req_notify_cq,
        unused_before_srq = "_compat_cq_event", post_srq_recv,
        unused_before_send = "_compat_create_qp", post_send, post_recv,
        unused_at_the_end = "_compat_create_ah");
    structure!(found, IbvContext, "struct ibv_context":
        device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat);
    // They have grown: see below.
    let has_grown =
        |name: &str| name == "sizeof struct ibv_port_attr" || name == "sizeof struct ibv_qp_ex";
    found.retain(|(name, ..)| header_is_new() || !has_grown(name));
    compare("layout", found);
}

#[test]
fn functions_stand_where_programs_look_for_them() {
    let end = offset_of!(VerbsContext, context);
    let mut found: Vec<(String, String, usize)> = Vec::new();
    macro_rules! before_context {
        ($($field:ident $(= $name:literal)?),+ $(,)?) => {
            $({
                let name = stringify!($field);
                $(let name = if true { $name } else { name };)?
                found.push((
                    name.to_owned(),
                    format!(
                        "offsetof(struct verbs_context, context) - \
                         offsetof(struct verbs_context, {name})"
                    ),
                    end - offset_of!(VerbsContext, $field),
                ));
            })+
        };
    }
    before_context!(
        query_port,
        advise_mr,
        alloc_null_mr,
        read_counters,
        attach_counters_point_flow,
        create_counters,
        destroy_counters,
        reg_dm_mr,
        alloc_dm,
        free_dm,
        modify_flow_action_esp,
        destroy_flow_action,
        create_flow_action_esp,
        modify_qp_rate_limit,
        alloc_parent_domain,
        dealloc_td,
        alloc_td,
        modify_cq,
        post_srq_ops,
        destroy_rwq_ind_table,
        create_rwq_ind_table,
        destroy_wq,
        modify_wq,
        create_wq,
        query_rt_values,
        create_cq_ex,
        private = "priv",
        query_device_ex,
        ibv_destroy_flow,
        placeholder2 = "ABI_placeholder2",
        ibv_create_flow,
        placeholder1 = "ABI_placeholder1",
        open_qp,
        create_qp_ex,
        get_srq_num,
        create_srq_ex,
        open_xrcd,
        close_xrcd,
        placeholder3 = "_ABI_placeholder3",
        sz,
        context
    );
    if header_is_new() {
        before_context!(
            free_buf,
            alloc_buf,
            dm_export_dmabuf_fd,
            reg_mr_ex,
            dealloc_dmah,
            alloc_dmah
        );
    }
    compare("functions", found);
}

/// Sizes of the newest header for what was smaller before.
#[test]
fn structures_that_grew_have_their_newest_size() {
    assert_eq!(size_of::<VerbsContext>(), 696);
    assert_eq!(offset_of!(VerbsContext, query_port), 48);
    assert_eq!(size_of::<IbvQpEx>(), 360);
    assert_eq!(offset_of!(IbvQpEx, wr_flush), 352);
    assert_eq!(size_of::<IbvPortAttr>(), 56);
    assert_eq!(offset_of!(IbvPortAttr, active_speed_ex), 52);
}

#[test]
fn parts_of_send_requests_stand_where_the_header_has_them() {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    let wr = offset_of!(IbvSendWr, wr);
    let more = offset_of!(IbvSendWr, more);
    for (name, ours) in [
        ("wr.rdma.remote_addr", wr + offset_of!(IbvRdma, remote_addr)),
        ("wr.rdma.rkey", wr + offset_of!(IbvRdma, rkey)),
        (
            "wr.atomic.remote_addr",
            wr + offset_of!(IbvAtomic, remote_addr),
        ),
        (
            "wr.atomic.compare_add",
            wr + offset_of!(IbvAtomic, compare_add),
        ),
        ("wr.atomic.swap", wr + offset_of!(IbvAtomic, swap)),
        ("wr.atomic.rkey", wr + offset_of!(IbvAtomic, rkey)),
        ("wr.ud.ah", wr + offset_of!(IbvUd, ah)),
        ("wr.ud.remote_qpn", wr + offset_of!(IbvUd, remote_qpn)),
        ("wr.ud.remote_qkey", wr + offset_of!(IbvUd, remote_qkey)),
        ("bind_mw.mw", more + offset_of!(IbvBindMw, mw)),
        ("bind_mw.rkey", more + offset_of!(IbvBindMw, rkey)),
        ("bind_mw.bind_info", more + offset_of!(IbvBindMw, bind_info)),
        ("tso.hdr", more + offset_of!(IbvTso, hdr)),
        ("tso.hdr_sz", more + offset_of!(IbvTso, hdr_sz)),
        ("tso.mss", more + offset_of!(IbvTso, mss)),
    ] {
        let expression = format!("offsetof(struct ibv_send_wr, {name})");
        found.push((name.to_owned(), expression, ours));
    }
    compare("requests", found);
}

#[test]
fn values_are_those_of_the_header() {
    let text = include_str!("../src/values.rs");
    let constant = |line: &'static str| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        let value = rest.split_once(" = ")?.1.strip_suffix(';')?;
        let value: i64 = match value.split_once(" << ") {
            Some((_, shift)) => 1 << shift.parse::<u32>().ok()?,
            None => value.parse().ok()?,
        };
        Some((name, value))
    };
    let is_new = header_is_new();
    let values: Vec<_> = text
        .lines()
        .filter_map(constant)
        .filter(|(name, _)| is_new || !ADDED_LATER.contains(name))
        .collect();
    assert!(values.len() > 290, "{} values are read", values.len());
    let asked: Vec<_> = values
        .iter()
        .map(|(name, _)| ((*name).to_owned(), format!("IBV_{name}")))
        .collect();
    let printed = printed("values", &asked);
    for ((name, value), line) in values.iter().zip(printed.lines()) {
        assert_eq!(line, format!("{name} {value}"));
    }
}
