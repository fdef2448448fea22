//! Names of simulated hosts: `host3` is 127.77.0.4. Where hosts have several adapters, `host3-1` is
//! that of number 1.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;

use viaduct_turns::host_addresses;

use crate::real::{self, set_errno};

/// The host and the adapter of a name.
fn named(name: &[u8]) -> Option<(u32, u32)> {
    let numbers = core::str::from_utf8(name).ok()?.strip_prefix("host")?;
    let (host, adapter) = numbers.split_once('-').unwrap_or((numbers, "0"));
    Some((number(host)?, number(adapter)?))
}

fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The address in place of a host's name, as a string, for a process that is on one.
///
/// # Safety
///
/// `name` is null or a string.
unsafe fn numeric(name: *const c_char) -> Option<CString> {
    viaduct_turns::local()?;
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let (host, adapter) = named(name.to_bytes())?;
    let address = host_addresses().at(host, adapter)?;
    CString::new(address.to_string()).ok()
}

/// The name of the host that this process is on.
fn own_name() -> Option<CString> {
    let host = viaduct_turns::local()?.host();
    CString::new(format!("host{host}")).ok()
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the caller's string.
    let numeric = unsafe { numeric(node) };
    let node = numeric.as_ref().map_or(node, |numeric| numeric.as_ptr());
    // SAFETY: the caller's arguments, and a string that lives until the call returns.
    unsafe { real::getaddrinfo(node, service, hints, found) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's string.
    let numeric = unsafe { numeric(name) };
    let name = numeric.as_ref().map_or(name, |numeric| numeric.as_ptr());
    // SAFETY: as above.
    unsafe { real::gethostbyname(name) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2(name: *const c_char, family: c_int) -> *mut c_void {
    // SAFETY: the caller's string.
    let numeric = unsafe { numeric(name) };
    let name = numeric.as_ref().map_or(name, |numeric| numeric.as_ptr());
    // SAFETY: as above.
    unsafe { real::gethostbyname2(name, family) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname_r(
    name: *const c_char,
    to: *mut c_void,
    room: *mut c_char,
    length: usize,
    found: *mut *mut c_void,
    error: *mut c_int,
) -> c_int {
    // SAFETY: the caller's string.
    let numeric = unsafe { numeric(name) };
    let name = numeric.as_ref().map_or(name, |numeric| numeric.as_ptr());
    // SAFETY: as above.
    unsafe { real::gethostbyname_r(name, to, room, length, found, error) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(to: *mut c_char, length: usize) -> c_int {
    let Some(name) = own_name() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::gethostname(to, length) };
    };
    let name = name.as_bytes_with_nul();
    if name.len() > length {
        set_errno(libc::ENAMETOOLONG);
        return -1;
    }
    // SAFETY: the caller's room, which is as long.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, name.len()) };
    0
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uname(to: *mut libc::utsname) -> c_int {
    // SAFETY: the caller's argument.
    let result = unsafe { real::uname(to) };
    if result == 0
        && let Some(name) = own_name()
    {
        let name = name.as_bytes_with_nul();
        // SAFETY: the call has filled it. The name is shorter than its place.
        unsafe {
            core::ptr::copy_nonoverlapping(
                name.as_ptr().cast(),
                (*to).nodename.as_mut_ptr(),
                name.len(),
            )
        };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names() {
        assert_eq!(named(b"host0"), Some((0, 0)));
        assert_eq!(named(b"host65533"), Some((65_533, 0)));
        assert_eq!(named(b"host12-0"), Some((12, 0)));
        assert_eq!(named(b"host12-63"), Some((12, 63)));
        for name in [
            "host",
            "host-1",
            "host+1",
            "host1-",
            "host1-+1",
            "host1-2-3",
            "hosta",
            "localhost",
            "host1.x",
        ] {
            assert_eq!(named(name.as_bytes()), None, "{name}");
        }
    }
}
