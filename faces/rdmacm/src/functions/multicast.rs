//! Multicast, which there is none of: a join that could be says that it is not supported.

use std::ffi::{c_int, c_void};

use libc::{EADDRNOTAVAIL, EINVAL, ENOTSUP, EOPNOTSUPP, sockaddr};

use crate::abi::{RdmaCmId, RdmaCmJoinMcAttrEx};
use crate::address;
use crate::call::call;
use crate::manager::{Refusal, Result};
use crate::object::Id;

unsafe fn join(id: *mut RdmaCmId, group: *mut sockaddr) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        Id::of(id)?;
        address::read(group)?.ok_or(Refusal(EINVAL))?;
    }
    Err(Refusal(EOPNOTSUPP))
}

/// `rdma_join_multicast(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_join_multicast(
    id: *mut RdmaCmId,
    group: *mut sockaddr,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: as the program says.
    call("rdma_join_multicast", || unsafe { join(id, group) })
}

/// `rdma_join_multicast_ex(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_join_multicast_ex(
    id: *mut RdmaCmId,
    attributes: *mut RdmaCmJoinMcAttrEx,
    _context: *mut c_void,
) -> c_int {
    /// Bits of the mask: an address, flags; those from here on are nobody's.
    const ADDRESS: u32 = 1;
    const FLAGS: u32 = 2;
    const RESERVED: u32 = 4;
    /// Flags from here on are nobody's.
    const FLAG_RESERVED: u32 = 2;
    call("rdma_join_multicast_ex", || {
        // SAFETY: as the program says, here and below.
        let attributes = unsafe { attributes.as_ref() }.ok_or(Refusal(EINVAL))?;
        if attributes.comp_mask >= RESERVED {
            return Err(Refusal(ENOTSUP));
        }
        let wanted = ADDRESS | FLAGS;
        if attributes.comp_mask & wanted != wanted || attributes.join_flags >= FLAG_RESERVED {
            return Err(Refusal(EINVAL));
        }
        // SAFETY: as above.
        unsafe { join(id, attributes.addr) }
    })
}

/// `rdma_leave_multicast(3)`: nobody has joined.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_leave_multicast(id: *mut RdmaCmId, group: *mut sockaddr) -> c_int {
    call("rdma_leave_multicast", || {
        // SAFETY: as the program says.
        unsafe {
            Id::of(id)?;
            address::read(group)?.ok_or(Refusal(EINVAL))?;
        }
        Err(Refusal(EADDRNOTAVAIL))
    })
}
