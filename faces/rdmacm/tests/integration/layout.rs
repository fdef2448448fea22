//! Every size and offset is that of the system's `rdma/rdma_cma.h`.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use rdmacm::abi::*;
use viaduct_c_programs::{abi_numbers, compiler, run};

macro_rules! of {
    ($all:ident, $rust:ty, $c:literal: $($field:ident $(= $name:literal)?),+ $(,)?) => {
        $all.push((format!("sizeof(struct {})", $c), size_of::<$rust>()));
        $({
            let mut name = stringify!($field);
            $(name = $name;)?
            let _ = &mut name;
            $all.push((format!("offsetof(struct {}, {name})", $c), offset_of!($rust, $field)));
        })+
    };
}

#[test]
fn every_structure_is_laid_out_as_in_the_systems_header() {
    let mut all: Vec<(String, usize)> = Vec::new();
    of!(all, RdmaEventChannel, "rdma_event_channel": fd);
    of!(all, RdmaIbAddr, "rdma_ib_addr": sgid, dgid, pkey);
    of!(all, RdmaAddr, "rdma_addr": source = "src_addr", destination = "dst_addr", ib = "addr");
    of!(all, RdmaRoute, "rdma_route": addr, path_rec, num_paths);
    of!(all, RdmaCmId, "rdma_cm_id":
        verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq,
        recv_cq_channel, recv_cq, srq, pd, qp_type);
    of!(all, RdmaConnParam, "rdma_conn_param":
        private_data, private_data_len, responder_resources, initiator_depth, flow_control,
        retry_count, rnr_retry_count, srq, qp_num);
    of!(all, RdmaUdParam, "rdma_ud_param": private_data, private_data_len, ah_attr, qp_num, qkey);
    of!(all, RdmaCmEvent, "rdma_cm_event": id, listen_id, event, status, param);
    of!(all, RdmaAddrinfo, "rdma_addrinfo":
        ai_flags, ai_family, ai_qp_type, ai_port_space, ai_src_len, ai_dst_len, ai_src_addr,
        ai_dst_addr, ai_src_canonname, ai_dst_canonname, ai_route_len, ai_route, ai_connect_len,
        ai_connect, ai_next);
    of!(all, RdmaCmJoinMcAttrEx, "rdma_cm_join_mc_attr_ex": comp_mask, join_flags, addr);
    of!(all, IbvSaPathRec, "ibv_sa_path_rec":
        dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible,
        numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector,
        packet_life_time, preference);
    all.push(("sizeof(struct ibv_path_data)".into(), PATH_DATA_BYTES));
    all.push(("RDMA_MAX_RESP_RES".into(), MOST.into()));
    all.push(("RDMA_MAX_INIT_DEPTH".into(), MOST.into()));
    all.push(("RDMA_UDP_QKEY".into(), UDP_QUEUE_KEY as usize));
    all.push(("RAI_PASSIVE".into(), flags::PASSIVE as usize));
    all.push(("RAI_NUMERICHOST".into(), flags::NUMERIC_HOST as usize));

    let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/sa.h>\n\
        #include <rdma/rdma_cma.h>\nint main(void)\n{\n"
        .to_owned();
    for (number, (expression, _)) in all.iter().enumerate() {
        writeln!(
            text,
            "    printf(\"n{number} %lld\\n\", (long long)({expression}));"
        )
        .unwrap();
    }
    text += "    return 0;\n}\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rdmacm-layout");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, text).unwrap();
    run(Command::new(compiler(false))
        .arg(&source)
        .arg("-o")
        .arg(&program));
    let printed = run(&mut Command::new(&program));
    let numbers = abi_numbers(&printed);
    for (number, (expression, value)) in all.iter().enumerate() {
        let printed = numbers[format!("n{number}").as_str()];
        assert_eq!(printed, *value as u64, "{expression}");
    }
}
