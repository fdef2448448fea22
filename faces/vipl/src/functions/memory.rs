//! Protection tags and registered memory.

use viaduct_provider::via::{MemoryAttributes, MemoryHandle};

use crate::abi::{
    VipMemAttributes, VipMemHandle, VipNicHandle, VipProtectionHandle, VipPvoid, VipReturn,
    VipUlong,
};
use crate::attributes::{memory_attributes, memory_attributes_to_c};
use crate::call::{call, given, invalid, nic_handle};
use crate::fabric::{fabric, on_fabric};
use crate::nics;

/// Makes a protection tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreatePtag(
    NicHandle: VipNicHandle,
    Ptag: *mut VipProtectionHandle,
) -> VipReturn {
    call("VipCreatePtag", || {
        let place = given(Ptag, "Ptag")?;
        let tag = fabric().create_protection_tag(nic_handle(NicHandle)?)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(nics::tag_handle(tag)) };
        Ok(VipReturn::Success)
    })
}

/// Destroys it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyPtag(
    NicHandle: VipNicHandle,
    Ptag: VipProtectionHandle,
) -> VipReturn {
    call("VipDestroyPtag", || {
        fabric().destroy_protection_tag(nic_handle(NicHandle)?, nics::tag(Ptag)?)?;
        Ok(VipReturn::Success)
    })
}

/// Registers memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRegisterMem(
    NicHandle: VipNicHandle,
    VirtualAddress: VipPvoid,
    Length: VipUlong,
    MemAttribs: *mut VipMemAttributes,
    MemoryHandle: *mut VipMemHandle,
) -> VipReturn {
    call("VipRegisterMem", || {
        let place = given(MemoryHandle, "MemoryHandle")?;
        // SAFETY: the program gives a variable for the result. Programs look for 0 in it.
        unsafe { place.write(0) };
        let nic = nic_handle(NicHandle)?;
        let address = given(VirtualAddress, "VirtualAddress")?.cast();
        let length = usize::try_from(Length).map_err(|_| invalid("Length is too large"))?;
        nics::address(nic)?;
        let attributes = if MemAttribs.is_null() {
            MemoryAttributes::local(on_fabric!(
                default_protection_tag | default_protection_tag(nic)
            )?)
        } else {
            // SAFETY: the program gives attributes.
            let asked = unsafe { MemAttribs.read() };
            memory_attributes(&asked)?
        };
        // SAFETY: the program leaves the range mapped, and to us while we may use it.
        let handle =
            unsafe { fabric().register_memory(nic, address.as_ptr(), length, &attributes) }?;
        // SAFETY: as above.
        unsafe { place.write(handle.bits()) };
        Ok(VipReturn::Success)
    })
}

/// Ends a registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDeregisterMem(
    NicHandle: VipNicHandle,
    VirtualAddress: VipPvoid,
    MemoryHandle: VipMemHandle,
) -> VipReturn {
    call("VipDeregisterMem", || {
        let handle = memory_handle(MemoryHandle);
        fabric().deregister_memory(nic_handle(NicHandle)?, VirtualAddress.cast(), handle)?;
        Ok(VipReturn::Success)
    })
}

/// What a region was registered with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryMem(
    NicHandle: VipNicHandle,
    Address: VipPvoid,
    MemoryHandle: VipMemHandle,
    MemAttribs: *mut VipMemAttributes,
) -> VipReturn {
    call("VipQueryMem", || {
        let place = given(MemAttribs, "MemAttribs")?;
        let nic = nic_handle(NicHandle)?;
        let attributes = fabric().query_memory(nic, Address.cast(), memory_handle(MemoryHandle))?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(memory_attributes_to_c(&attributes)) };
        Ok(VipReturn::Success)
    })
}

/// Changes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetMemAttributes(
    NicHandle: VipNicHandle,
    Address: VipPvoid,
    MemoryHandle: VipMemHandle,
    MemAttribs: *mut VipMemAttributes,
) -> VipReturn {
    call("VipSetMemAttributes", || {
        let nic = nic_handle(NicHandle)?;
        // SAFETY: the program gives attributes.
        let asked = unsafe { given(MemAttribs, "MemAttribs")?.read() };
        nics::address(nic)?;
        let attributes = memory_attributes(&asked)?;
        let handle = memory_handle(MemoryHandle);
        fabric().set_memory_attributes(nic, Address.cast(), handle, &attributes)?;
        Ok(VipReturn::Success)
    })
}

/// The argument hides the type's name.
const fn memory_handle(bits: VipMemHandle) -> MemoryHandle {
    MemoryHandle::from_bits(bits)
}
