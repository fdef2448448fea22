//! Posting: the way of every message.

use std::ffi::c_int;

use viaduct_rdma::verbs::{
    DatagramDestination, QueuePairType, ScatterGatherElement, SendOpcode, SendRequest,
};
use viaduct_rdma::{ReceiveRequest, Result};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid, unsupported};
use crate::fabric::{self, Fabric, Local, Remote};
use crate::objects::{AddressHandle, SharedReceiveQueue, trust};
use crate::pair;

const UD: c_int = QueuePairType::Ud as c_int;

/// The elements of a request, whose layout is that of C.
///
/// # Safety
///
/// The list has so many elements.
#[inline(always)]
unsafe fn elements<'a>(list: *const IbvSge, count: c_int) -> Result<&'a [ScatterGatherElement]> {
    const _: () = assert!(size_of::<IbvSge>() == size_of::<ScatterGatherElement>());
    let count = usize::try_from(count).map_err(|_| invalid("fewer than no elements"))?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(invalid("elements without a list"));
    }
    // SAFETY: as promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) })
}

/// What a number of `enum ibv_wr_opcode` asks for.
#[inline(always)]
pub(crate) fn opcode(number: c_int) -> Result<SendOpcode> {
    match SendOpcode::from_number(number as u32) {
        Some(opcode) => Ok(opcode),
        None => Err(refusal(number)),
    }
}

#[cold]
fn refusal(opcode: c_int) -> viaduct_rdma::Error {
    match opcode {
        WR_LOCAL_INV | WR_BIND_MW | WR_SEND_WITH_INV => unsupported("memory windows"),
        WR_TSO => unsupported("segmentation"),
        WR_FLUSH | WR_ATOMIC_WRITE => unsupported("flushes and atomic writes"),
        _ => invalid("an opcode that is not known"),
    }
}

/// # Safety
///
/// The request and its list can be read, and a datagram's address handle is live.
#[inline(always)]
unsafe fn send<'a, F: Fabric>(kind: c_int, wr: &IbvSendWr) -> Result<SendRequest<'a, F::Address>> {
    let opcode = opcode(wr.opcode)?;
    let mut request = SendRequest::new(wr.wr_id, opcode);
    request.flags = wr.send_flags;
    // SAFETY: as promised by the caller.
    request.elements = unsafe { elements(wr.sg_list, wr.num_sge) }?;
    request.immediate = wr.imm_data;
    // SAFETY: which part of the union a request has its opcode and the queue pair's type say.
    unsafe {
        match opcode {
            SendOpcode::Send | SendOpcode::SendWithImmediate => {
                if kind == UD {
                    request.datagram = Some(datagram::<F>(wr.wr.ud)?);
                }
            }
            SendOpcode::RdmaWrite | SendOpcode::RdmaWriteWithImmediate | SendOpcode::RdmaRead => {
                request.remote_address = wr.wr.rdma.remote_addr;
                request.remote_key = wr.wr.rdma.rkey;
            }
            SendOpcode::AtomicCompareAndSwap | SendOpcode::AtomicFetchAndAdd => {
                request.remote_address = wr.wr.atomic.remote_addr;
                request.remote_key = wr.wr.atomic.rkey;
                request.compare_add = wr.wr.atomic.compare_add;
                request.swap = wr.wr.atomic.swap;
            }
        }
    }
    Ok(request)
}

/// # Safety
///
/// The address handle is null or live.
#[inline(always)]
unsafe fn datagram<F: Fabric>(to: IbvUd) -> Result<DatagramDestination<F::Address>> {
    // SAFETY: as promised by the caller.
    let to = unsafe { destination(to) }?;
    Ok(DatagramDestination {
        address: F::address(&to.address)?,
        queue_pair: to.queue_pair,
        queue_key: to.queue_key,
    })
}

/// # Safety
///
/// The address handle is null or live.
#[inline(always)]
pub(crate) unsafe fn destination(to: IbvUd) -> Result<fabric::DatagramDestination> {
    if to.ah.is_null() {
        return Err(invalid("a datagram without an address handle"));
    }
    Ok(fabric::DatagramDestination {
        // SAFETY: as promised by the caller.
        address: unsafe { (*trust::<AddressHandle>(to.ah)).handle },
        queue_pair: to.remote_qpn,
        queue_key: to.remote_qkey,
    })
}

/// Hands on the requests of a list one by one. The first that is refused is told; those before it
/// are posted.
///
/// # Safety
///
/// The list can be read, and `bad` can be written.
#[inline(always)]
unsafe fn each<T>(
    function: &str,
    first: *mut T,
    bad: *mut *mut T,
    next: impl Fn(&T) -> *mut T,
    mut post: impl FnMut(&T) -> Result<()>,
) -> c_int {
    let mut at = first;
    // SAFETY: as promised by the caller.
    while let Some(request) = unsafe { at.as_ref() } {
        let number = call::status(function, || post(request));
        if number != 0 {
            if !bad.is_null() {
                // SAFETY: as promised by the caller.
                unsafe { bad.write(at) };
            }
            return number;
        }
        at = next(request);
    }
    0
}

/// `ibv_post_send`.
pub(crate) unsafe extern "C" fn post_send(
    pair: *mut IbvQp,
    first: *mut IbvSendWr,
    bad: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: the program passes a live queue pair and its list.
    unsafe {
        let kind = (*pair).qp_type;
        match pair::handle(pair) {
            fabric::QueuePair::Local(pair) => post_each::<Local>(kind, pair, first, bad),
            fabric::QueuePair::Remote(pair) => post_far(kind, pair, first, bad),
        }
    }
}

/// # Safety
///
/// As for [`post_send`].
#[inline(always)]
unsafe fn post_each<F: Fabric>(
    kind: c_int,
    pair: F::Pair,
    first: *mut IbvSendWr,
    bad: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        let post = |wr: &IbvSendWr| {
            let request = send::<F>(kind, wr)?;
            F::post_sends(pair, std::slice::from_ref(&request))
        };
        each("ibv_post_send", first, bad, |wr| wr.next, post)
    }
}

/// Apart from the way of messages between processes.
///
/// # Safety
///
/// As for [`post_send`].
#[cold]
#[inline(never)]
unsafe fn post_far(
    kind: c_int,
    pair: viaduct_calls::QueuePair,
    first: *mut IbvSendWr,
    bad: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { post_each::<Remote>(kind, pair, first, bad) }
}

/// `ibv_post_recv`.
pub(crate) unsafe extern "C" fn post_recv(
    pair: *mut IbvQp,
    first: *mut IbvRecvWr,
    bad: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: the program passes a live queue pair and its list.
    unsafe {
        let pair = pair::handle(pair);
        let post = |wr: &IbvRecvWr| pair.post_receive(&receive(wr)?);
        each("ibv_post_recv", first, bad, |wr| wr.next, post)
    }
}

/// `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    queue: *mut IbvSrq,
    first: *mut IbvRecvWr,
    bad: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: the program passes a live queue and its list.
    unsafe {
        let queue = (*trust::<SharedReceiveQueue>(queue)).handle;
        let post = |wr: &IbvRecvWr| queue.post_receive(&receive(wr)?);
        each("ibv_post_srq_recv", first, bad, |wr| wr.next, post)
    }
}

/// # Safety
///
/// The request's list can be read.
#[inline(always)]
unsafe fn receive<'a>(wr: &IbvRecvWr) -> Result<ReceiveRequest<'a>> {
    Ok(ReceiveRequest {
        request: wr.wr_id,
        // SAFETY: as promised by the caller.
        elements: unsafe { elements(wr.sg_list, wr.num_sge) }?,
    })
}
