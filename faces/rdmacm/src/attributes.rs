//! What queue pairs are set to on their way to a connection, as the kernel says it.

use std::ffi::c_int;

use viaduct_verbs_abi::{
    ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, IbvAhAttr, IbvGid,
    IbvGlobalRoute, IbvQpAttr, QP_ACCESS_FLAGS, QP_AV, QP_DEST_QPN, QP_MAX_DEST_RD_ATOMIC,
    QP_MAX_QP_RD_ATOMIC, QP_MIN_RNR_TIMER, QP_PATH_MTU, QP_PKEY_INDEX, QP_PORT, QP_QKEY,
    QP_RETRY_CNT, QP_RNR_RETRY, QP_RQ_PSN, QP_SQ_PSN, QP_STATE, QP_TIMEOUT, QPS_ERR, QPS_INIT,
    QPS_RTR, QPS_RTS, QPT_RC,
};

use crate::abi::{MOST, UDP_QUEUE_KEY};
use crate::call::answered;
use crate::devices::{self, Interface, PORT};
use crate::manager::{Refusal, Result, Side};
use crate::object::{HOP_LIMIT, Id, PACKET_LIFE_TIME};
use crate::verbs;

/// What `rdma_init_qp_attr` answers for a state: attributes and their mask.
pub(crate) fn attributes(id: &Id, state: c_int) -> Result<(IbvQpAttr, u32)> {
    let ends = id.ends()?;
    let interface = id.interface()?;
    let mut attributes = IbvQpAttr {
        qp_state: state,
        ..IbvQpAttr::default()
    };
    // Before a connection is asked for, and where there is none.
    if id.is_datagram() || !ends.is_asked_for {
        attributes.port_num = PORT;
        let mut mask = QP_STATE | QP_PKEY_INDEX | QP_PORT;
        if id.is_datagram() {
            attributes.qkey = UDP_QUEUE_KEY;
            mask |= QP_QKEY;
        } else {
            mask |= QP_ACCESS_FLAGS;
        }
        return Ok((attributes, mask));
    }
    let is_reliable = id.public.qp_type == QPT_RC;
    let (responder_resources, initiator_depth) = match (ends.remote, id.retry_count) {
        // What the other side answered to this one's wishes.
        (Some(_), Some(_)) => (ends.said.responder_resources, ends.said.initiator_depth),
        _ => (id.responder_resources, id.initiator_depth),
    };
    let mask = match state {
        QPS_INIT => {
            attributes.port_num = PORT;
            attributes.qp_access_flags = ACCESS_REMOTE_WRITE;
            if responder_resources > 0 {
                attributes.qp_access_flags |= ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;
            }
            QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS
        }
        QPS_RTR => {
            let remote = ends.remote.ok_or(Refusal(libc::EINVAL))?;
            attributes.ah_attr = address_of(id, interface, &remote)?;
            let mtu = interface.device.port()?.active_mtu.clamp(1, 5);
            attributes.path_mtu = mtu.min(remote.mtu.into());
            attributes.dest_qp_num = ends.said.queue_pair;
            attributes.rq_psn = remote.packet_number;
            let mut mask = QP_STATE | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN;
            if is_reliable {
                attributes.max_dest_rd_atomic = responder_resources;
                attributes.min_rnr_timer = 0;
                mask |= QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER;
            }
            mask
        }
        QPS_RTS => {
            attributes.sq_psn = id.packet_number;
            let mut mask = QP_STATE | QP_SQ_PSN;
            if is_reliable {
                attributes.timeout = acknowledge_timeout(id, interface);
                attributes.retry_cnt = id.retry_count.unwrap_or(ends.said.retry_count);
                attributes.rnr_retry = ends.said.rnr_retry_count;
                attributes.max_rd_atomic = initiator_depth;
                mask |= QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC;
            }
            mask
        }
        _ => return Err(Refusal(libc::EINVAL)),
    };
    Ok((attributes, mask))
}

/// From the time that a packet may be under way and that the device takes, rounded as the kernel
/// does it.
fn acknowledge_timeout(id: &Id, interface: Interface) -> u8 {
    if let Some(timeout) = id.acknowledge_timeout {
        return timeout & 0x1f;
    }
    let delay = interface.device.attributes.local_ca_ack_delay;
    let there_and_back = PACKET_LIFE_TIME + 1;
    let timeout = if there_and_back >= delay {
        there_and_back + u8::from(delay >= there_and_back - 1)
    } else {
        delay + u8::from(there_and_back >= delay - 1)
    };
    timeout.min(31)
}

/// How packets get to the other side.
pub(crate) fn address_of(id: &Id, interface: Interface, remote: &Side) -> Result<IbvAhAttr> {
    let port = interface.device.port()?;
    let is_ethernet = devices::is_ethernet(&port);
    Ok(IbvAhAttr {
        grh: IbvGlobalRoute {
            dgid: IbvGid::new(remote.gid),
            flow_label: 0,
            sgid_index: interface.gid_index,
            hop_limit: HOP_LIMIT,
            traffic_class: id.traffic_class,
        },
        dlid: if is_ethernet { 0 } else { remote.lid },
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: is_ethernet.into(),
        port_num: PORT,
    })
}

/// Sets the queue pair to what a state asks for; nothing without one.
pub(crate) fn modify(id: &Id, state: c_int, adjust: impl FnOnce(&mut IbvQpAttr)) -> Result<()> {
    if id.public.qp.is_null() {
        return Ok(());
    }
    let (mut attributes, mask) = attributes(id, state)?;
    adjust(&mut attributes);
    // SAFETY: the identifier's queue pair lives until the program destroys it.
    answered(unsafe { verbs::ibv_modify_qp(id.public.qp, &raw mut attributes, mask as c_int) })
}

/// Makes the queue pair ready for what was agreed on; [`MOST`] leaves what the agreement says.
pub(crate) fn make_ready(id: &Id, responder_resources: u8, initiator_depth: u8) -> Result<()> {
    modify(id, QPS_INIT, |_| {})?;
    modify(id, QPS_RTR, |attributes| {
        if responder_resources != MOST {
            attributes.max_dest_rd_atomic = responder_resources;
        }
    })?;
    modify(id, QPS_RTS, |attributes| {
        if initiator_depth != MOST {
            attributes.max_rd_atomic = initiator_depth;
        }
    })
}

/// Has the queue pair flush what it holds.
pub(crate) fn make_failed(id: &Id) -> Result<()> {
    if id.public.qp.is_null() {
        return Ok(());
    }
    let mut attributes = IbvQpAttr {
        qp_state: QPS_ERR,
        ..IbvQpAttr::default()
    };
    // SAFETY: the identifier's queue pair lives until the program destroys it.
    answered(unsafe { verbs::ibv_modify_qp(id.public.qp, &raw mut attributes, QP_STATE as c_int) })
}
