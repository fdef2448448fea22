//! VIs.

use std::ffi::c_uint;

use viaduct_provider::CompletionQueueHandle;
use viaduct_provider::via::ViAttributes;

use crate::abi::{VipBoolean, VipCqHandle, VipNicHandle, VipReturn, VipViAttributes, VipViHandle};
use crate::attributes::{vi_attributes, vi_attributes_to_c};
use crate::call::{boolean, call, given, nic_handle, pointer, vi_handle};
use crate::fabric::fabric;
use crate::nics;

/// Makes a VI, in the idle state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateVi(
    NicHandle: VipNicHandle,
    ViAttribs: *mut VipViAttributes,
    SendCQHandle: VipCqHandle,
    RecvCQHandle: VipCqHandle,
    ViHandle: *mut VipViHandle,
) -> VipReturn {
    call("VipCreateVi", || {
        let nic = nic_handle(NicHandle)?;
        let place = given(ViHandle, "ViHandle")?;
        // SAFETY: the program gives attributes.
        let asked = unsafe { given(ViAttribs, "ViAttribs")?.read() };
        // A dead NIC is told before a bad attribute.
        nics::address(nic)?;
        let attributes = vi_attributes(&asked)?;
        // NULL: the queue has no completion queue.
        let send = CompletionQueueHandle::from_bits(SendCQHandle as u64);
        let receive = CompletionQueueHandle::from_bits(RecvCQHandle as u64);
        let vi = fabric().create_vi(nic, &attributes, send, receive)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(pointer(vi.bits())) };
        Ok(VipReturn::Success)
    })
}

/// Destroys an idle or broken VI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyVi(ViHandle: VipViHandle) -> VipReturn {
    call("VipDestroyVi", || {
        fabric().destroy_vi(vi_handle(ViHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// State, attributes, and whether the queues are empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryVi(
    ViHandle: VipViHandle,
    State: *mut c_uint,
    ViAttribs: *mut VipViAttributes,
    ViSendQEmpty: *mut VipBoolean,
    ViRecvQEmpty: *mut VipBoolean,
) -> VipReturn {
    call("VipQueryVi", || {
        let vi = vi_handle(ViHandle)?;
        let state = given(State, "State")?;
        let attributes = given(ViAttribs, "ViAttribs")?;
        let send_queue_empty = given(ViSendQEmpty, "ViSendQEmpty")?;
        let receive_queue_empty = given(ViRecvQEmpty, "ViRecvQEmpty")?;
        let information = fabric().query_vi(vi)?;
        // SAFETY: the program gives variables for the results.
        unsafe {
            state.write(information.state as c_uint);
            attributes.write(vi_attributes_to_c(&information.attributes));
            send_queue_empty.write(boolean(information.send_queue_empty));
            receive_queue_empty.write(boolean(information.receive_queue_empty));
        }
        Ok(VipReturn::Success)
    })
}

/// Changes an idle VI's attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetViAttributes(
    ViHandle: VipViHandle,
    ViAttribs: *mut VipViAttributes,
) -> VipReturn {
    call("VipSetViAttributes", || {
        let vi = vi_handle(ViHandle)?;
        // SAFETY: the program gives attributes.
        let asked = unsafe { given(ViAttribs, "ViAttribs")?.read() };
        let current = fabric().query_vi(vi)?.attributes;
        let attributes = ViAttributes {
            // The structure of C has no word of them: VipxSet* changes them.
            extensions: current.extensions,
            ..vi_attributes(&asked)?
        };
        fabric().set_vi_attributes(vi, &attributes)?;
        Ok(VipReturn::Success)
    })
}
