//! NICs.

use std::ffi::CStr;

use crate::abi::{VipChar, VipNicAttributes, VipNicHandle, VipReturn};
use crate::attributes::nic_attributes_to_c;
use crate::call::{call, given, invalid, nic_handle, pointer};
use crate::devices::{fabric_device, numbered, refusal};
use crate::fabric::{fabric, local_device, open_numbered};
use crate::{handlers, nics};

/// Opens a NIC by the name of its device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipOpenNic(
    DeviceName: *const VipChar,
    NicHandle: *mut VipNicHandle,
) -> VipReturn {
    call("VipOpenNic", || {
        let name = given(DeviceName.cast_mut(), "DeviceName")?;
        let place = given(NicHandle, "NicHandle")?;
        // SAFETY: the program gives a string that ends with NUL.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        let name = (name.to_str()).map_err(|_| invalid("DeviceName is not the name of a NIC"))?;
        let device = fabric_device(name, local_device()?);
        #[cfg(debug_assertions)]
        crate::fabric::break_rule();
        // A name that opens the one NIC elsewhere may open another one of several.
        let nic = match numbered(name).and_then(open_numbered) {
            Some(nic) => nic,
            None => (fabric().open_nic(device)).map_err(|error| refusal(name, error))?,
        };
        let prepared = fabric().query_nic(nic).and_then(|(_, address)| {
            nics::opened(nic, address)?;
            // Errors are told in the words of C from the first one on.
            let logging = handlers::error_handler(std::ptr::null_mut(), None);
            fabric().set_error_handler(nic, Some(logging))
        });
        if let Err(error) = prepared {
            nics::forget(nic);
            // It is the first refusal that the program must hear of.
            let _ = fabric().close_nic(nic);
            return Err(error);
        }
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(pointer(nic.bits())) };
        Ok(VipReturn::Success)
    })
}

/// Closes a NIC, with everything that was made on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCloseNic(NicHandle: VipNicHandle) -> VipReturn {
    call("VipCloseNic", || {
        let nic = nic_handle(NicHandle)?;
        fabric().close_nic(nic)?;
        nics::forget(nic);
        Ok(VipReturn::Success)
    })
}

/// What a NIC can do, and its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryNic(
    NicHandle: VipNicHandle,
    NicAttribs: *mut VipNicAttributes,
) -> VipReturn {
    call("VipQueryNic", || {
        let nic = nic_handle(NicHandle)?;
        let place = given(NicAttribs, "NicAttribs")?;
        let (attributes, _) = fabric().query_nic(nic)?;
        let attributes = nic_attributes_to_c(&attributes, nics::address(nic)?);
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(attributes) };
        Ok(VipReturn::Success)
    })
}
