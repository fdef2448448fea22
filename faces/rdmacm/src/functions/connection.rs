//! Connections: asked for, answered, ended.

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::EINVAL;
use viaduct_verbs_abi::{EVENT_COMM_EST, IbvQpAttr};

use crate::abi::{MOST, RdmaCmEvent, RdmaCmId, RdmaConnParam};
use crate::attributes;
use crate::call::{call, last_errno};
use crate::functions::rdma_get_cm_event;
use crate::functions::{answer_response, complete, rdma_ack_cm_event, rdma_create_qp};
use crate::manager::{EventKind, Manager, Parameters, Refusal, Result, Space, reason};
use crate::object::Id;

/// What is said of retries by those who say nothing: as often as can be.
const RETRIES: u8 = 7;

/// `rdma_listen(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_listen(id: *mut RdmaCmId, backlog: c_int) -> c_int {
    call("rdma_listen", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        Manager::of_process()?.listen(object.number, backlog)?;
        object.show_addresses(&object.ends()?);
        Ok(())
    })
}

/// `rdma_get_request(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_request(
    listen: *mut RdmaCmId,
    id: *mut *mut RdmaCmId,
) -> c_int {
    let begun = call("rdma_get_request", || {
        // SAFETY: as the program says, here and below.
        let listener = unsafe { Id::of(listen) }?;
        if !listener.is_synchronous || id.is_null() {
            return Err(Refusal(EINVAL));
        }
        if !listener.public.event.is_null() {
            // SAFETY: an event that a call before has left.
            unsafe { rdma_ack_cm_event(listener.public.event) };
            listener.public.event = ptr::null_mut();
        }
        Ok(())
    });
    if begun != 0 {
        return begun;
    }
    let mut event: *mut RdmaCmEvent = ptr::null_mut();
    // SAFETY: it was used above.
    let answer = unsafe { rdma_get_cm_event((*listen).channel, &raw mut event) };
    if answer != 0 {
        return answer;
    }
    let taken = call("rdma_get_request", || {
        // SAFETY: as above; the event was just given.
        let (listener, shown) = unsafe { (Id::of(listen)?, &*event) };
        if shown.event == EventKind::Rejected as c_int {
            return Err(Refusal(libc::ECONNREFUSED));
        }
        if shown.status != 0 {
            return Err(Refusal(shown.status.saturating_abs()));
        }
        if shown.event != EventKind::ConnectRequest as c_int {
            return Err(Refusal(EINVAL));
        }
        if let Some(mut attributes) = listener.queue_pair {
            // SAFETY: as above; the identifier is a new one.
            let created =
                unsafe { rdma_create_qp(shown.id, listener.public.pd, &raw mut attributes) };
            if created != 0 {
                return Err(last_errno());
            }
        }
        Ok(())
    });
    // SAFETY: as above.
    unsafe {
        if taken == 0 {
            *id = (*event).id;
            (*(*event).id).event = event;
        } else {
            (*listen).event = event;
        }
    }
    taken
}

/// `rdma_connect(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_connect(
    id: *mut RdmaCmId,
    param: *mut RdmaConnParam,
) -> c_int {
    let begun = call("rdma_connect", || {
        // SAFETY: as the program says, here and below.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        let device = object.interface()?.device;
        check(object, param)?;
        object.initiator_depth = match param {
            Some(param) if param.initiator_depth != MOST => param.initiator_depth,
            _ => device.max_initiator_depth(),
        };
        object.responder_resources = match param {
            Some(param) if param.responder_resources != MOST => param.responder_resources,
            _ => device.max_responder_resources(),
        };
        object.retry_count = Some(
            param
                .map_or(RETRIES, |param| param.retry_count)
                .min(RETRIES),
        );
        let mut parameters = parameters(object, param)?;
        parameters.ece = object.local_ece;
        Manager::of_process()?.connect(object.number, object.side()?, parameters)?;
        object.connect.clear();
        Ok(())
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: it was used above.
    unsafe { complete(id) }
}

/// `rdma_accept(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_accept(id: *mut RdmaCmId, param: *mut RdmaConnParam) -> c_int {
    let begun = call("rdma_accept", || {
        // SAFETY: as the program says, here and below.
        let (object, param) = unsafe { (Id::of(id)?, param.as_ref()) };
        let device = object.interface()?.device;
        if object.public.qp.is_null() && param.is_none() {
            return Err(Refusal(EINVAL));
        }
        check(object, param)?;
        object.initiator_depth = match param {
            Some(param) if param.initiator_depth != MOST => param.initiator_depth,
            _ => object.initiator_depth.min(device.max_initiator_depth()),
        };
        object.responder_resources = match param {
            Some(param) if param.responder_resources != MOST => param.responder_resources,
            _ => object
                .responder_resources
                .min(device.max_responder_resources()),
        };
        let mut parameters = parameters(object, param)?;
        parameters.ece = crate::manager::Ece {
            vendor: object.remote_ece.vendor,
            options: object.local_ece.options,
        };
        if !object.is_datagram() {
            let (resources, depth) = (object.responder_resources, object.initiator_depth);
            attributes::make_ready(object, resources, depth)?;
        }
        let accepted = Manager::of_process()?.accept(object.number, object.side()?, parameters);
        if accepted.is_err() {
            let _ = attributes::make_failed(object);
            return accepted;
        }
        if object.is_datagram() && object.is_synchronous && !object.public.event.is_null() {
            // SAFETY: the request, which is answered.
            unsafe { rdma_ack_cm_event(object.public.event) };
            object.public.event = ptr::null_mut();
        }
        Ok(())
    });
    // SAFETY: as the program says.
    if begun != 0 || unsafe { (*id.cast::<Id>()).is_datagram() } {
        return begun;
    }
    // SAFETY: it was used above.
    unsafe { complete(id) }
}

/// What a program may say of a connection.
fn check(object: &Id, param: Option<&RdmaConnParam>) -> Result<()> {
    if object.public.ps != c_int::from(Space::Tcp.code()) {
        return Ok(());
    }
    let Some(param) = param else {
        return if object.public.qp.is_null() {
            Err(Refusal(EINVAL))
        } else {
            Ok(())
        };
    };
    let device = object.interface()?.device;
    let is_right = (param.responder_resources == MOST
        || param.responder_resources <= device.max_responder_resources())
        && (param.initiator_depth == MOST || param.initiator_depth <= device.max_initiator_depth());
    if is_right {
        Ok(())
    } else {
        Err(Refusal(EINVAL))
    }
}

fn parameters(object: &Id, param: Option<&RdmaConnParam>) -> Result<Parameters> {
    let mut private_data = object.connect.clone();
    if let Some(param) = param
        && !param.private_data.is_null()
    {
        let data = param.private_data.cast::<u8>();
        // SAFETY: there are as many bytes, as the program says.
        let data = unsafe { std::slice::from_raw_parts(data, param.private_data_len.into()) };
        private_data.extend(data);
    }
    let qp = object.public.qp;
    let (queue_pair, has_srq) = if qp.is_null() {
        let param = param.ok_or(Refusal(EINVAL));
        match param {
            Ok(param) => (param.qp_num, param.srq != 0),
            // A datagram's lookup needs none.
            Err(_) if object.is_datagram() => (0, false),
            Err(refusal) => return Err(refusal),
        }
    } else {
        // SAFETY: the identifier's queue pair lives until the program destroys it.
        unsafe { ((*qp).qp_num, !(*qp).srq.is_null()) }
    };
    Ok(Parameters {
        // A number of 24 bits.
        queue_pair: queue_pair & 0xff_ffff,
        responder_resources: object.responder_resources,
        initiator_depth: object.initiator_depth,
        flow_control: param.map_or(0, |param| param.flow_control),
        // Numbers of three bits: what is more is as often as can be.
        retry_count: param
            .map_or(RETRIES, |param| param.retry_count)
            .min(RETRIES),
        rnr_retry_count: param
            .map_or(RETRIES, |param| param.rnr_retry_count)
            .min(RETRIES),
        has_srq,
        ece: crate::manager::Ece::default(),
        private_data,
    })
}

/// `rdma_establish(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_establish(id: *mut RdmaCmId) -> c_int {
    call("rdma_establish", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        if !object.public.qp.is_null() {
            return Err(Refusal(EINVAL));
        }
        answer_response(object)
    })
}

/// `rdma_reject(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(
    id: *mut RdmaCmId,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: as the program says.
    call("rdma_reject", || unsafe {
        reject(id, private_data, private_data_len, reason::CONSUMER_DEFINED)
    })
}

/// `rdma_reject_ece(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject_ece(
    id: *mut RdmaCmId,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: as the program says.
    call("rdma_reject_ece", || unsafe {
        reject(
            id,
            private_data,
            private_data_len,
            reason::ECE_NOT_SUPPORTED,
        )
    })
}

unsafe fn reject(id: *mut RdmaCmId, data: *const c_void, bytes: u8, reason: u32) -> Result<()> {
    // SAFETY: as the caller says.
    let object = unsafe { Id::of(id) }?;
    let data = if data.is_null() {
        Vec::new()
    } else {
        // SAFETY: there are as many bytes, as the caller says.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes.into()) }.to_vec()
    };
    Manager::of_process()?.reject(object.number, reason, data)
}

/// `rdma_notify(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_notify(id: *mut RdmaCmId, event: c_int) -> c_int {
    call("rdma_notify", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        if event != EVENT_COMM_EST {
            return Err(Refusal(EINVAL));
        }
        Manager::of_process()?.establish_early(object.number)
    })
}

/// `rdma_disconnect(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_disconnect(id: *mut RdmaCmId) -> c_int {
    let begun = call("rdma_disconnect", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        object.interface()?;
        attributes::make_failed(object)?;
        Manager::of_process()?.disconnect(object.number)
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: it was used above.
    unsafe { complete(id) }
}

/// `rdma_init_qp_attr(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut RdmaCmId,
    result: *mut IbvQpAttr,
    mask: *mut c_int,
) -> c_int {
    call("rdma_init_qp_attr", || {
        if result.is_null() || mask.is_null() {
            return Err(Refusal(EINVAL));
        }
        // SAFETY: as the program says.
        unsafe {
            let (filled, filled_mask) = attributes::attributes(Id::of(id)?, (*result).qp_state)?;
            *result = filled;
            *mask = filled_mask as c_int;
        }
        Ok(())
    })
}
