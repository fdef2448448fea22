//! Asynchronous errors, discovery, the name service.

use std::ffi::CStr;
use std::ptr::NonNull;

use viaduct_provider::{Error, Result, ReturnCode};

use crate::abi::{
    VIP_SMI_AUTODISCOVERY, VipAutodiscoveryList, VipChar, VipErrorHandler, VipNetAddress,
    VipNicHandle, VipPvoid, VipReturn, VipUlong,
};
use crate::call::{call, given, invalid, nic_handle};
use crate::fabric::fabric;
use crate::{address, handlers};

/// Sets the NIC's error handler; NULL brings back the one that logs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipErrorCallback(
    NicHandle: VipNicHandle,
    Context: VipPvoid,
    Handler: VipErrorHandler,
) -> VipReturn {
    call("VipErrorCallback", || {
        let handler = handlers::error_handler(Context, Handler);
        fabric().set_error_handler(nic_handle(NicHandle)?, Some(handler))?;
        Ok(VipReturn::Success)
    })
}

/// The addresses of hosts within so many hops.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQuerySystemManagementInfo(
    NicHandle: VipNicHandle,
    InfoType: VipUlong,
    SysManInfo: VipPvoid,
) -> VipReturn {
    call("VipQuerySystemManagementInfo", || {
        let nic = nic_handle(NicHandle)?;
        let list = given(SysManInfo, "SysManInfo")?.cast::<VipAutodiscoveryList>();
        if InfoType != VIP_SMI_AUTODISCOVERY {
            return Err(invalid(
                "InfoType is not VIP_SMI_AUTODISCOVERY, the only one",
            ));
        }
        // SAFETY: the program gives a list.
        let VipAutodiscoveryList {
            NumberOfHops,
            ADAddrArray,
            NumAdAddrs,
        } = unsafe { list.read() };
        let hops = u32::try_from(NumberOfHops).unwrap_or(u32::MAX);
        let hosts = fabric().discover(nic, hops)?;
        let room = usize::try_from(NumAdAddrs).unwrap_or(usize::MAX);
        for (index, host) in hosts.iter().take(room).enumerate() {
            let buffers = given(ADAddrArray, "ADAddrArray")?;
            // SAFETY: the program gives NumAdAddrs pointers, each NULL or with room for a host's
            // address.
            unsafe {
                let buffer = given(buffers.add(index).read(), "ADAddrArray[i]")?;
                address::write(buffer, *host, &[]);
            }
        }
        // SAFETY: the list is the program's variable.
        unsafe { (&raw mut (*list.as_ptr()).NumAdAddrs).write(hosts.len() as VipUlong) };
        if hosts.len() > room {
            return Err(Error::new(
                ReturnCode::Resource,
                "ADAddrArray has fewer buffers than there are hosts; NumAdAddrs says how many",
            ));
        }
        Ok(VipReturn::Success)
    })
}

/// Starts the name service: there is nothing to start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSInit(NicHandle: VipNicHandle, NSInitInfo: VipPvoid) -> VipReturn {
    call("VipNSInit", || {
        // Whatever other implementations took here, programs pass it on.
        let _ = NSInitInfo;
        fabric().query_nic(nic_handle(NicHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// The address of a host's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByName(
    NicHandle: VipNicHandle,
    Name: *mut VipChar,
    Address: *mut VipNetAddress,
    NameIndex: VipUlong,
) -> VipReturn {
    call("VipNSGetHostByName", || {
        let nic = nic_handle(NicHandle)?;
        let name = given(Name, "Name")?;
        let place = given(Address, "Address")?;
        // SAFETY: the program gives a string that ends with NUL.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        let name = name
            .to_str()
            .map_err(|_| unknown("Name is no host's name"))?;
        let index =
            u32::try_from(NameIndex).map_err(|_| unknown("NameIndex is past the last address"))?;
        let host = fabric().host_by_name(nic, name, index)?;
        // SAFETY: the program gives room for an address.
        unsafe { address::write(place, host, &[]) };
        Ok(VipReturn::Success)
    })
}

/// The name of a host's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByAddr(
    NicHandle: VipNicHandle,
    Address: *mut VipNetAddress,
    Name: *mut VipChar,
    NameLen: *mut VipUlong,
) -> VipReturn {
    call("VipNSGetHostByAddr", || {
        let nic = nic_handle(NicHandle)?;
        let asked = given(Address, "Address")?;
        let length = given(NameLen, "NameLen")?;
        // SAFETY: the program gives an address.
        let host = unsafe { address::read_host(asked) }?;
        let name = fabric().host_by_address(nic, host)?;
        // SAFETY: the program gives NameLen bytes at Name, or says with 0 that it has none.
        unsafe { write_name(&name, Name, length) }?;
        Ok(VipReturn::Success)
    })
}

/// Ends the name service: the NIC stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSShutdown(NicHandle: VipNicHandle) -> VipReturn {
    call("VipNSShutdown", || {
        fabric().query_nic(nic_handle(NicHandle)?)?;
        Ok(VipReturn::Success)
    })
}

fn unknown(reason: &'static str) -> Error {
    Error::new(ReturnCode::NameService, reason)
}

/// Writes a name and its NUL, and how many bytes they are: also when the buffer is too small.
///
/// # Safety
///
/// `length` holds how many bytes there are at `place`.
unsafe fn write_name(name: &str, place: *mut VipChar, length: NonNull<VipUlong>) -> Result<()> {
    let needed = name.len() + 1;
    // SAFETY: the caller says so.
    let room = unsafe { length.read() };
    if room > 0 {
        given(place, "Name")?;
    }
    // SAFETY: the caller says so.
    unsafe { length.write(needed as VipUlong) };
    if room < needed as VipUlong {
        return Err(Error::new(
            ReturnCode::Resource,
            format!("the name takes {needed} bytes with its NUL; NameLen gave {room}"),
        ));
    }
    // SAFETY: there is room for that many bytes.
    unsafe {
        place.copy_from_nonoverlapping(name.as_ptr().cast(), name.len());
        place.add(name.len()).write(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_where_it_fits_and_its_length_always() {
        let mut buffer = [0x7F as VipChar; 8];
        for (room, fits) in [(0, false), (4, false), (5, true), (8, true)] {
            buffer.fill(0x7F);
            let mut length: VipUlong = room;
            // SAFETY: the buffer has 8 bytes.
            let written =
                unsafe { write_name("host", buffer.as_mut_ptr(), NonNull::from(&mut length)) };
            assert_eq!(length, 5, "with its NUL");
            match written {
                Ok(()) => assert!(fits && buffer[..6] == [104, 111, 115, 116, 0, 0x7F]),
                Err(error) => {
                    assert_eq!((fits, error.code()), (false, ReturnCode::Resource));
                    assert_eq!(buffer, [0x7F; 8], "nothing is written");
                }
            }
        }
    }
}
