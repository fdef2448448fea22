//! Devices, and addresses from names.

use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::ptr;

use libc::{
    AF_UNSPEC, AI_NUMERICHOST, AI_PASSIVE, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP, IPPROTO_TCP,
    IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, addrinfo, sockaddr, sockaddr_storage, socklen_t,
};
use viaduct_verbs_abi::{IbvContext, QPT_RC, QPT_UC, QPT_UD, QPT_XRC_RECV, QPT_XRC_SEND};

use crate::abi::{RdmaAddrinfo, RdmaCmId, flags};
use crate::address;
use crate::call::{call, guarded};
use crate::devices;
use crate::manager::{EventKind, EventParameters, Manager, Refusal, Result, Space};
use crate::object::Id;

/// `rdma_get_devices(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_devices(number: *mut c_int) -> *mut *mut IbvContext {
    let list = guarded("rdma_get_devices", || {
        let devices = devices::all()?;
        // SAFETY: it is given back by `rdma_free_devices`.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut IbvContext>()) };
        let list = list.cast::<*mut IbvContext>();
        if list.is_null() {
            return Err(Refusal(ENOMEM));
        }
        for (index, device) in devices.iter().enumerate() {
            // SAFETY: there is a place for each, and for the null behind them.
            unsafe { *list.add(index) = device.verbs() };
        }
        Ok((list, devices.len() as c_int))
    });
    let (list, count) = list.unwrap_or((ptr::null_mut(), 0));
    if !number.is_null() {
        // SAFETY: it is a variable, as the program says.
        unsafe { *number = count };
    }
    list
}

/// `rdma_free_devices(3)`: the devices stay open as long as the process.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut IbvContext) {
    // SAFETY: it came from `rdma_get_devices`, as the program says.
    unsafe { libc::free(list.cast()) };
}

/// `rdma_get_src_port(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut RdmaCmId) -> u16 {
    // SAFETY: as the program says.
    unsafe { id.as_ref().map_or(0, |id| port(&id.route.addr.source)) }
}

/// `rdma_get_dst_port(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut RdmaCmId) -> u16 {
    // SAFETY: as the program says.
    unsafe { id.as_ref().map_or(0, |id| port(&id.route.addr.destination)) }
}

/// Big-endian, as C has it.
fn port(storage: &sockaddr_storage) -> u16 {
    // SAFETY: a storage is as long as any address.
    match unsafe { address::read(ptr::from_ref(storage).cast()) } {
        Ok(Some(address)) => SocketAddr::port(&address).to_be(),
        _ => 0,
    }
}

/// `rdma_getaddrinfo(3)`: 0, -1 with errno, or what `getaddrinfo(3)` answers.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
    result: *mut *mut RdmaAddrinfo,
) -> c_int {
    let found = guarded("rdma_getaddrinfo", || {
        if result.is_null() {
            return Err(Refusal(EINVAL));
        }
        devices::are_there()?;
        address::learn_of_devices(devices::addresses);
        // SAFETY: as the program says.
        let answer = unsafe { look_up(node, service, hints.as_ref()) }?;
        Ok(answer.map(|found| {
            // SAFETY: it is a variable, as the program says.
            unsafe { *result = found };
        }))
    });
    match found {
        Some(Ok(())) => 0,
        Some(Err(code)) => code,
        None => -1,
    }
}

/// What is found, or the code of `getaddrinfo(3)`.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&RdmaAddrinfo>,
) -> Result<std::result::Result<*mut RdmaAddrinfo, c_int>> {
    if node.is_null() && service.is_null() && hints.is_none() {
        return Err(Refusal(EINVAL));
    }
    if hints.is_some_and(|hints| hints.ai_flags & flags::SERVICE_RECORDS != 0) {
        return Err(Refusal(EOPNOTSUPP));
    }
    // SAFETY: zeros are an empty answer; the program gives it back.
    let found = unsafe { libc::calloc(1, size_of::<RdmaAddrinfo>()) }.cast::<RdmaAddrinfo>();
    // SAFETY: it was just made.
    let filled = unsafe { found.as_mut() }
        .ok_or(Refusal(ENOMEM))
        .and_then(|found| {
            // SAFETY: as the caller says.
            unsafe { fill(found, node, service, hints) }
        });
    match filled {
        Ok(0) => Ok(Ok(found)),
        refused => {
            // SAFETY: nobody else has seen it.
            unsafe { rdma_freeaddrinfo(found) };
            refused.map(Err)
        }
    }
}

unsafe fn fill(
    found: &mut RdmaAddrinfo,
    node: *const c_char,
    service: *const c_char,
    hints: Option<&RdmaAddrinfo>,
) -> Result<c_int> {
    if !node.is_null() || !service.is_null() {
        let wanted = hints.map(system_hints);
        let wanted = wanted.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut list: *mut addrinfo = ptr::null_mut();
        // SAFETY: as the caller says.
        let code = unsafe { libc::getaddrinfo(node, service, wanted, &raw mut list) };
        if code != 0 {
            return Ok(code);
        }
        // SAFETY: a list has a first.
        let converted = unsafe { convert(found, hints, &*list) };
        // SAFETY: it came from there.
        unsafe { libc::freeaddrinfo(list) };
        converted?;
    } else if let Some(hints) = hints {
        found.ai_flags = hints.ai_flags;
        found.ai_family = hints.ai_family;
        found.ai_qp_type = hints.ai_qp_type;
        found.ai_port_space = hints.ai_port_space;
        if hints.ai_dst_len > 0 {
            found.ai_dst_addr = copy(hints.ai_dst_addr, hints.ai_dst_len)?;
            found.ai_dst_len = hints.ai_dst_len;
        }
    }
    if let Some(hints) = hints
        && found.ai_src_len == 0
        && hints.ai_src_len > 0
    {
        found.ai_src_addr = copy(hints.ai_src_addr, hints.ai_src_len)?;
        found.ai_src_len = hints.ai_src_len;
    }
    Ok(0)
}

fn system_hints(hints: &RdmaAddrinfo) -> addrinfo {
    // SAFETY: all of it is numbers and pointers that may be null.
    let mut wanted: addrinfo = unsafe { std::mem::zeroed() };
    if hints.ai_flags & flags::PASSIVE != 0 {
        wanted.ai_flags |= AI_PASSIVE;
    }
    if hints.ai_flags & flags::NUMERIC_HOST != 0 {
        wanted.ai_flags |= AI_NUMERICHOST;
    }
    wanted.ai_family = match hints.ai_family {
        libc::AF_INET | libc::AF_INET6 => hints.ai_family,
        // That of InfiniBand is none of the system's.
        AF_INFINIBAND => AF_UNSPEC,
        family => family,
    };
    wanted.ai_socktype = match hints.ai_qp_type {
        QPT_RC | QPT_UC | QPT_XRC_SEND | QPT_XRC_RECV => SOCK_STREAM,
        QPT_UD => SOCK_DGRAM,
        _ => 0,
    };
    let space = u16::try_from(hints.ai_port_space)
        .ok()
        .and_then(Space::from_code);
    wanted.ai_protocol = match (space, wanted.ai_socktype) {
        (Some(Space::Tcp), _) | (Some(Space::InfiniBand), SOCK_STREAM) => IPPROTO_TCP,
        (Some(Space::Udp | Space::Ipoib), _) | (Some(Space::InfiniBand), SOCK_DGRAM) => IPPROTO_UDP,
        _ => 0,
    };
    wanted
}

/// `AF_IB`.
const AF_INFINIBAND: c_int = 27;

fn convert(found: &mut RdmaAddrinfo, hints: Option<&RdmaAddrinfo>, first: &addrinfo) -> Result<()> {
    found.ai_qp_type = match hints.map_or(0, |hints| hints.ai_qp_type) {
        0 if first.ai_socktype == SOCK_STREAM => QPT_RC,
        0 if first.ai_socktype == SOCK_DGRAM => QPT_UD,
        kind => kind,
    };
    found.ai_port_space = match hints.map_or(0, |hints| hints.ai_port_space) {
        0 if first.ai_protocol == IPPROTO_TCP => Space::Tcp.code().into(),
        0 if first.ai_protocol == IPPROTO_UDP => Space::Udp.code().into(),
        space => space,
    };
    found.ai_family = first.ai_family;
    let is_passive = first.ai_flags & AI_PASSIVE != 0
        || hints.is_some_and(|hints| hints.ai_flags & flags::PASSIVE != 0);
    let copied = copy(first.ai_addr, first.ai_addrlen)?;
    let name = if first.ai_canonname.is_null() {
        ptr::null_mut()
    } else {
        // SAFETY: a string of the system's.
        unsafe { libc::strdup(first.ai_canonname) }
    };
    if is_passive {
        found.ai_flags = flags::PASSIVE;
        found.ai_src_addr = copied;
        found.ai_src_len = first.ai_addrlen;
        found.ai_src_canonname = name;
    } else {
        found.ai_dst_addr = copied;
        found.ai_dst_len = first.ai_addrlen;
        found.ai_dst_canonname = name;
    }
    Ok(())
}

fn copy(from: *const sockaddr, bytes: socklen_t) -> Result<*mut sockaddr> {
    if from.is_null() {
        return Err(Refusal(EINVAL));
    }
    // SAFETY: it is given back by `rdma_freeaddrinfo`.
    let copied = unsafe { libc::malloc(bytes as usize) };
    if copied.is_null() {
        return Err(Refusal(ENOMEM));
    }
    // SAFETY: both are as long as said.
    unsafe { copied.copy_from_nonoverlapping(from.cast::<c_void>(), bytes as usize) };
    Ok(copied.cast())
}

/// `rdma_freeaddrinfo(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(result: *mut RdmaAddrinfo) {
    let mut next = result;
    // SAFETY: all of it came from `malloc`, as the program says.
    while let Some(found) = unsafe { next.as_ref() } {
        let this = next;
        next = found.ai_next;
        // SAFETY: as above.
        unsafe {
            libc::free(found.ai_connect);
            libc::free(found.ai_route);
            libc::free(found.ai_src_canonname.cast());
            libc::free(found.ai_dst_canonname.cast());
            libc::free(found.ai_src_addr.cast());
            libc::free(found.ai_dst_addr.cast());
            libc::free(this.cast());
        }
    }
}

/// Looks addresses up, and has the identifier's channel tell of them. Names are looked up before it
/// returns.
///
/// # Safety
///
/// As of `rdma_getaddrinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addrinfo(
    id: *mut RdmaCmId,
    node: *const c_char,
    service: *const c_char,
    hints: *const RdmaAddrinfo,
) -> c_int {
    call("rdma_resolve_addrinfo", || {
        // SAFETY: as the program says, here and below.
        let (object, hints) = unsafe { (Id::of(id)?, hints.as_ref()) };
        let is_by_name = hints.is_some_and(|hints| hints.ai_flags & flags::DNS != 0);
        object.begin_to_resolve()?;
        let found = if is_by_name {
            // SAFETY: as above.
            unsafe { look_up(node, service, hints) }
        } else {
            Err(Refusal(EOPNOTSUPP))
        };
        let (kind, status) = match found {
            Ok(Ok(found)) => {
                object.resolved = found;
                (EventKind::AddressInformationResolved, 0)
            }
            Ok(Err(code)) => (EventKind::AddressInformationError, code),
            Err(refusal) => {
                object.has_not_resolved();
                return Err(refusal);
            }
        };
        Manager::of_process()?.tell(object.number, kind, status, EventParameters::None);
        Ok(())
    })
}

/// An event of the above is seen.
pub(crate) fn resolve_names_done(id: &mut Id, kind: EventKind) {
    if kind == EventKind::AddressInformationError {
        id.has_not_resolved();
    }
}

/// Gives out what the above has found, once.
///
/// # Safety
///
/// They are an identifier and a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_query_addrinfo(
    id: *mut RdmaCmId,
    result: *mut *mut RdmaAddrinfo,
) -> c_int {
    call("rdma_query_addrinfo", || {
        // SAFETY: as the program says.
        let object = unsafe { Id::of(id) }?;
        if result.is_null() {
            return Err(Refusal(EINVAL));
        }
        if object.resolved.is_null() {
            return Err(Refusal(ENOENT));
        }
        object.has_not_resolved();
        // SAFETY: as above.
        unsafe { *result = std::mem::replace(&mut object.resolved, ptr::null_mut()) };
        Ok(())
    })
}
