//! Posting descriptors and taking them back: the way of a message.
//!
//! Each function here is one call of the fabric, known when this is compiled: no lock, no
//! allocation, no look at a table of ours. Most messages go the fabric's short way, for which a
//! function needs neither a place on the stack nor a guard against panics; the rest is a function
//! of its own.

use viaduct_provider::via::MemoryHandle as Handle;
use viaduct_provider::{Done, Provider as _, Result, ViHandle as Vi};

use crate::abi::{
    VipDescriptor, VipMemHandle, VipPvoid, VipReturn, VipUlong, VipViCallback, VipViHandle,
};
use crate::call::{call, done, given, limit, vi_handle};
use crate::fabric::{fabric, local, on_fabric};
use crate::handlers::descriptor_handler;

/// Puts a descriptor on the send queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipPostSend(
    ViHandle: VipViHandle,
    DescriptorPtr: *mut VipDescriptor,
    MemoryHandle: VipMemHandle,
) -> VipReturn {
    let handle = Handle::from_bits(MemoryHandle);
    // SAFETY: the program leaves descriptor and buffers to us until it has them back.
    if unsafe { local().post_send_simply(ViHandle as u64, DescriptorPtr, handle) } {
        return VipReturn::Success;
    }
    post_send(ViHandle, DescriptorPtr, MemoryHandle)
}

#[inline(never)]
extern "C" fn post_send(
    vi: VipViHandle,
    descriptor: *mut VipDescriptor,
    handle: VipMemHandle,
) -> VipReturn {
    call("VipPostSend", || {
        let descriptor = given(descriptor, "DescriptorPtr")?.as_ptr();
        // SAFETY: as above.
        unsafe {
            on_fabric!(
                post_send
                    | post_send_in_full(vi_handle(vi)?, descriptor, Handle::from_bits(handle))
            )
        }?;
        Ok(VipReturn::Success)
    })
}

/// Puts a descriptor on the receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipPostRecv(
    ViHandle: VipViHandle,
    DescriptorPtr: *mut VipDescriptor,
    MemoryHandle: VipMemHandle,
) -> VipReturn {
    let handle = Handle::from_bits(MemoryHandle);
    // SAFETY: the program leaves descriptor and buffers to us until it has them back.
    if unsafe { local().post_receive_simply(ViHandle as u64, DescriptorPtr, handle) } {
        return VipReturn::Success;
    }
    post_receive(ViHandle, DescriptorPtr, MemoryHandle)
}

#[inline(never)]
extern "C" fn post_receive(
    vi: VipViHandle,
    descriptor: *mut VipDescriptor,
    handle: VipMemHandle,
) -> VipReturn {
    call("VipPostRecv", || {
        let descriptor = given(descriptor, "DescriptorPtr")?.as_ptr();
        // SAFETY: as above.
        unsafe {
            on_fabric!(
                post_receive
                    | post_receive_in_full(vi_handle(vi)?, descriptor, Handle::from_bits(handle))
            )
        }?;
        Ok(VipReturn::Success)
    })
}

/// Takes the oldest completed send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendDone(
    ViHandle: VipViHandle,
    DescriptorPtr: *mut *mut VipDescriptor,
) -> VipReturn {
    // SAFETY: the program gives a variable for the result.
    unsafe {
        take_simply(ViHandle, DescriptorPtr, |vi| local().send_done_simply(vi))
            .unwrap_or_else(|| send_done(ViHandle, DescriptorPtr))
    }
}

#[inline(never)]
unsafe extern "C" fn send_done(vi: VipViHandle, place: *mut *mut VipDescriptor) -> VipReturn {
    // SAFETY: the program gives a variable for the result.
    unsafe {
        take("VipSendDone", vi, place, |vi| {
            on_fabric!(send_done | send_done_in_full(vi))
        })
    }
}

/// Takes the oldest completed receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvDone(
    ViHandle: VipViHandle,
    DescriptorPtr: *mut *mut VipDescriptor,
) -> VipReturn {
    // SAFETY: the program gives a variable for the result.
    unsafe {
        take_simply(ViHandle, DescriptorPtr, |vi| {
            local().receive_done_simply(vi)
        })
        .unwrap_or_else(|| receive_done(ViHandle, DescriptorPtr))
    }
}

#[inline(never)]
unsafe extern "C" fn receive_done(vi: VipViHandle, place: *mut *mut VipDescriptor) -> VipReturn {
    // SAFETY: the program gives a variable for the result.
    unsafe {
        take("VipRecvDone", vi, place, |vi| {
            on_fabric!(receive_done | receive_done_in_full(vi))
        })
    }
}

/// Waits for the oldest send and takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendWait(
    ViHandle: VipViHandle,
    Timeout: VipUlong,
    DescriptorPtr: *mut *mut VipDescriptor,
) -> VipReturn {
    let wait = |vi| on_fabric!(send_wait | send_wait(vi, limit(Timeout)));
    // SAFETY: the program gives a variable for the result.
    unsafe { take("VipSendWait", ViHandle, DescriptorPtr, wait) }
}

/// Waits for the oldest receive and takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvWait(
    ViHandle: VipViHandle,
    Timeout: VipUlong,
    DescriptorPtr: *mut *mut VipDescriptor,
) -> VipReturn {
    let wait = |vi| on_fabric!(receive_wait | receive_wait(vi, limit(Timeout)));
    // SAFETY: the program gives a variable for the result.
    unsafe { take("VipRecvWait", ViHandle, DescriptorPtr, wait) }
}

/// Has a handler called with the next completed send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendNotify(
    ViHandle: VipViHandle,
    Context: VipPvoid,
    Handler: VipViCallback,
) -> VipReturn {
    call("VipSendNotify", || {
        fabric().send_notify(vi_handle(ViHandle)?, descriptor_handler(Context, Handler)?)?;
        Ok(VipReturn::Success)
    })
}

/// Has a handler called with the next completed receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvNotify(
    ViHandle: VipViHandle,
    Context: VipPvoid,
    Handler: VipViCallback,
) -> VipReturn {
    call("VipRecvNotify", || {
        fabric().receive_notify(vi_handle(ViHandle)?, descriptor_handler(Context, Handler)?)?;
        Ok(VipReturn::Success)
    })
}

/// Takes a descriptor as `look` finds it; the program's variable is NULL when there is none,
/// whatever the reason.
///
/// # Safety
///
/// `place` is NULL or a variable of the program.
#[inline(always)]
unsafe fn take(
    function: &str,
    vi: VipViHandle,
    place: *mut *mut VipDescriptor,
    look: impl FnOnce(Vi) -> Result<Done>,
) -> VipReturn {
    call(function, || {
        let place = given(place, "DescriptorPtr")?;
        let found = vi_handle(vi).and_then(look);
        let (code, descriptor) = match found {
            Ok(found) => (Ok(done(found).0), done(found).1),
            Err(error) => (Err(error), std::ptr::null_mut()),
        };
        // SAFETY: the caller says so.
        unsafe { place.write(descriptor) };
        code
    })
}

/// Takes a descriptor as `look` finds it, where both it and the program's arguments are as usual.
///
/// # Safety
///
/// As for [`take`].
#[inline(always)]
unsafe fn take_simply(
    vi: VipViHandle,
    place: *mut *mut VipDescriptor,
    look: impl FnOnce(u64) -> Option<Done>,
) -> Option<VipReturn> {
    if place.is_null() {
        return None;
    }
    let (code, descriptor) = done(look(vi as u64)?);
    // SAFETY: the caller says so.
    unsafe { place.write(descriptor) };
    Some(code)
}
