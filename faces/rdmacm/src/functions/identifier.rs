//! Identifiers: made, bound, resolved, moved, destroyed.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use libc::{EINVAL, sockaddr};
use viaduct_verbs_abi::{IbvPd, IbvQpInitAttr};

use crate::abi::{RdmaAddrinfo, RdmaCmId, RdmaEventChannel, flags};
use crate::address::{self, UnknownFamily};
use crate::call::call;
use crate::functions::{
    complete, rdma_ack_cm_event, rdma_create_qp, rdma_destroy_qp, rdma_destroy_srq, rdma_set_option,
};
use crate::manager::{Manager, Refusal, Result};
use crate::object::{ChannelObject, Id, qp_type_of};

/// How long names and routes are looked for, in milliseconds.
const RESOLVE_MS: c_int = 2000;

impl From<UnknownFamily> for Refusal {
    fn from(UnknownFamily: UnknownFamily) -> Self {
        Self(EINVAL)
    }
}

/// `rdma_create_id(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut RdmaEventChannel,
    id: *mut *mut RdmaCmId,
    context: *mut c_void,
    port_space: c_int,
) -> c_int {
    call("rdma_create_id", || {
        if id.is_null() {
            return Err(Refusal(EINVAL));
        }
        let made = Id::create(channel, context, port_space, qp_type_of(port_space))?;
        // SAFETY: it is a variable, as the program says.
        unsafe { *id = made.cast() };
        Ok(())
    })
}

/// `rdma_destroy_id(3)`: waits until all its events are acknowledged.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut RdmaCmId) -> c_int {
    call("rdma_destroy_id", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        let reported = Manager::of_process()?.destroy(object.number)?;
        if !object.public.event.is_null() {
            // SAFETY: an event that a synchronous call has left.
            unsafe { rdma_ack_cm_event(object.public.event) };
        }
        object.wait_for_acknowledgements(reported);
        // SAFETY: nobody finds it any more.
        unsafe { Id::free(id.cast()) };
        Ok(())
    })
}

/// `rdma_bind_addr(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut RdmaCmId, addr: *mut sockaddr) -> c_int {
    call("rdma_bind_addr", || {
        // SAFETY: as the program says.
        let (object, at) = unsafe { (Id::of(id)?, address::read(addr)?) };
        let at = at.ok_or(Refusal(EINVAL))?;
        let bound = Manager::of_process()?.bind(object.number, at)?;
        object.attach(bound)?;
        object.show_addresses(&object.ends()?);
        Ok(())
    })
}

/// `rdma_resolve_addr(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_resolve_addr(
    id: *mut RdmaCmId,
    source: *mut sockaddr,
    destination: *mut sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    let begun = call("rdma_resolve_addr", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        // SAFETY: as above.
        let (source, destination) =
            unsafe { (address::read(source)?, address::read(destination)?) };
        let destination = destination.ok_or(Refusal(EINVAL))?;
        Manager::of_process()?.resolve_address(object.number, source, destination)?;
        address::write(destination, &mut object.public.route.addr.destination);
        Ok(())
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: it was used above.
    unsafe { complete(id) }
}

/// `rdma_resolve_route(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_resolve_route(id: *mut RdmaCmId, _timeout_ms: c_int) -> c_int {
    let begun = call("rdma_resolve_route", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        Manager::of_process()?.resolve_route(object.number)
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: it was used above.
    unsafe { complete(id) }
}

/// `rdma_migrate_id(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_migrate_id(
    id: *mut RdmaCmId,
    channel: *mut RdmaEventChannel,
) -> c_int {
    // SAFETY: as the program says.
    call("rdma_migrate_id", || unsafe { migrate(id, channel) })
}

/// Gives an identifier another channel, and without one a channel of its own.
///
/// # Safety
///
/// As of `rdma_migrate_id`.
pub(crate) unsafe fn migrate(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> Result<()> {
    // SAFETY: as the caller says, here and below.
    let object = unsafe { Id::of(id) }?;
    let is_synchronous = channel.is_null();
    if object.is_synchronous && is_synchronous {
        return Err(Refusal(EINVAL));
    }
    let channel = if is_synchronous {
        ChannelObject::create()?
    } else {
        channel
    };
    // SAFETY: as above.
    let new = Arc::clone(unsafe { &ChannelObject::of(channel)?.channel });
    let reported = Manager::of_process()?.migrate(object.number, &new)?;
    if object.is_synchronous {
        if !object.public.event.is_null() {
            // SAFETY: an event that a synchronous call has left.
            unsafe { rdma_ack_cm_event(object.public.event) };
            object.public.event = ptr::null_mut();
        }
        // SAFETY: it was its own.
        unsafe { ChannelObject::destroy(object.public.channel) };
    }
    object.is_synchronous = is_synchronous;
    object.public.channel = channel;
    object.wait_for_acknowledgements(reported);
    Ok(())
}

/// `rdma_create_ep(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_ep(
    id: *mut *mut RdmaCmId,
    information: *mut RdmaAddrinfo,
    pd: *mut IbvPd,
    queue_pair: *mut IbvQpInitAttr,
) -> c_int {
    let mut made: *mut RdmaCmId = ptr::null_mut();
    let begun = call("rdma_create_ep", || {
        if id.is_null() || information.is_null() {
            return Err(Refusal(EINVAL));
        }
        // SAFETY: as the program says.
        let information = unsafe { &*information };
        let (space, kind) = (information.ai_port_space, information.ai_qp_type);
        made = Id::create(ptr::null_mut(), ptr::null_mut(), space, kind)?.cast();
        Ok(())
    });
    if begun != 0 {
        return begun;
    }
    // SAFETY: as the program says, and it was just made.
    let answer = unsafe {
        if (*information).ai_flags & flags::PASSIVE != 0 {
            listen_by(made, information, pd, queue_pair)
        } else {
            connect_by(made, information, pd, queue_pair)
        }
    };
    // SAFETY: as above.
    unsafe {
        if answer == 0 {
            *id = made;
        } else {
            let refusal = crate::call::last_errno();
            rdma_destroy_ep(made);
            crate::call::set_errno(refusal.0);
        }
    }
    answer
}

unsafe fn listen_by(
    id: *mut RdmaCmId,
    information: *mut RdmaAddrinfo,
    pd: *mut IbvPd,
    queue_pair: *mut IbvQpInitAttr,
) -> c_int {
    // SAFETY: as the caller says, here and below.
    let bound = unsafe { rdma_bind_addr(id, (*information).ai_src_addr) };
    if bound != 0 {
        return bound;
    }
    call("rdma_create_ep", || {
        // SAFETY: as above.
        let (object, information) = unsafe { (Id::of(id)?, &*information) };
        if !pd.is_null() {
            object.public.pd = pd;
        }
        // SAFETY: NULL, or attributes, as the program says.
        object.queue_pair = unsafe { queue_pair.as_ref() }.map(|attributes| IbvQpInitAttr {
            qp_type: information.ai_qp_type,
            ..*attributes
        });
        Ok(())
    })
}

unsafe fn connect_by(
    id: *mut RdmaCmId,
    information: *mut RdmaAddrinfo,
    pd: *mut IbvPd,
    queue_pair: *mut IbvQpInitAttr,
) -> c_int {
    // SAFETY: as the caller says, here and below.
    unsafe {
        let info = &*information;
        let resolved = rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, RESOLVE_MS);
        if resolved != 0 {
            return resolved;
        }
        let routed = if info.ai_route_len > 0 {
            match rdma_set_option(id, 1, 1, info.ai_route, info.ai_route_len) {
                0 => complete(id),
                refused => refused,
            }
        } else {
            rdma_resolve_route(id, RESOLVE_MS)
        };
        if routed != 0 {
            return routed;
        }
        if !queue_pair.is_null() {
            (*queue_pair).qp_type = info.ai_qp_type;
            let created = rdma_create_qp(id, pd, queue_pair);
            if created != 0 {
                return created;
            }
        }
        if info.ai_connect_len > 0 && !info.ai_connect.is_null() {
            let data = info.ai_connect.cast::<u8>();
            let data = std::slice::from_raw_parts(data, info.ai_connect_len);
            (*id.cast::<Id>()).connect = data.to_vec();
        }
    }
    0
}

/// `rdma_destroy_ep(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut RdmaCmId) {
    if id.is_null() {
        return;
    }
    // SAFETY: as the program says.
    unsafe {
        if !(*id).qp.is_null() {
            rdma_destroy_qp(id);
        }
        if !(*id).srq.is_null() {
            rdma_destroy_srq(id);
        }
        rdma_destroy_id(id);
    }
}
