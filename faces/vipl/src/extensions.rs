//! What `viplx.h` declares: ours alone, not part of VIPL.
//!
//! Pointers are as [`crate::functions`] says.

#![expect(
    clippy::missing_safety_doc,
    reason = "what all pointers must be is said once, in the module functions"
)]

use crate::abi::{VipBoolean, VipChar, VipNicHandle, VipPvoid, VipReturn, VipUlong, VipViHandle};
use crate::call::{call, given, invalid, nic_handle, vi_handle};
use crate::fabric::fabric;
use crate::nics;

/// Memory that peers reach without a copy between processes; register it like any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxAllocateShared(
    NicHandle: VipNicHandle,
    Length: VipUlong,
    VirtualAddress: *mut VipPvoid,
) -> VipReturn {
    call("VipxAllocateShared", || {
        let place = given(VirtualAddress, "VirtualAddress")?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(std::ptr::null_mut()) };
        let length = usize::try_from(Length).map_err(|_| invalid("Length is too large"))?;
        let memory = fabric().allocate_shared(nic_handle(NicHandle)?, length)?;
        // SAFETY: as above.
        unsafe { place.write(memory.as_ptr().cast()) };
        Ok(VipReturn::Success)
    })
}

/// Gives it back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxFreeShared(
    NicHandle: VipNicHandle,
    VirtualAddress: VipPvoid,
) -> VipReturn {
    call("VipxFreeShared", || {
        let memory = given(VirtualAddress, "VirtualAddress")?.cast();
        // SAFETY: the program says that nothing uses the memory any more.
        unsafe { fabric().free_shared(nic_handle(NicHandle)?, memory) }?;
        Ok(VipReturn::Success)
    })
}

/// Whether sends of an idle VI wait for a posted receive at the peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxSetFlowControl(
    ViHandle: VipViHandle,
    Enable: VipBoolean,
) -> VipReturn {
    call("VipxSetFlowControl", || {
        fabric().set_flow_control(vi_handle(ViHandle)?, Enable != 0)?;
        Ok(VipReturn::Success)
    })
}

/// Whether a message longer than an idle VI's first receive goes on in the following ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxSetRequestSplitting(
    ViHandle: VipViHandle,
    Enable: VipBoolean,
) -> VipReturn {
    call("VipxSetRequestSplitting", || {
        fabric().set_request_splitting(vi_handle(ViHandle)?, Enable != 0)?;
        Ok(VipReturn::Success)
    })
}

/// Whether a VI may have protection tag 0, which matches every region of its NIC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxAcceptTagZero(Enable: VipBoolean) -> VipReturn {
    call("VipxAcceptTagZero", || {
        nics::accept_tag_zero(Enable != 0)?;
        Ok(VipReturn::Success)
    })
}

/// The name of a return code; never NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxReturnName(Code: u32) -> *const VipChar {
    let code = VipReturn::ALL.get(Code as usize);
    code.map_or(c"(no VIP_RETURN)", |code| code.name()).as_ptr()
}
