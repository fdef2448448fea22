//! Protection domains and memory regions.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use viaduct_rdma::{Error, Result, of_system};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid, unsupported};
use crate::context::context_of;
use crate::objects::{self, MemoryRegion, ProtectionDomain, ThreadDomain, find, given, take};

/// `ibv_alloc_pd`.
///
/// # Safety
///
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut IbvContext) -> *mut IbvPd {
    call::pointer("ibv_alloc_pd", || {
        // SAFETY: the caller says so.
        let handle = unsafe { context_of(context) }?
            .handle
            .allocate_protection_domain()?;
        Ok(objects::give(ProtectionDomain {
            verbs: IbvPd { context, handle: 0 },
            handle,
            parent: null_mut(),
            threads: null_mut(),
            children: 0,
        }))
    })
}

/// `ibv_dealloc_pd`: of a parent domain too.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dealloc_pd(domain: *mut IbvPd) -> c_int {
    call::status("ibv_dealloc_pd", || {
        let (mut parent, mut threads) = (null_mut(), null_mut());
        take::<ProtectionDomain>(domain, |domain| {
            if domain.children > 0 {
                return Err(Error::new(libc::EBUSY, "parent domains were made of it"));
            }
            (parent, threads) = (domain.parent, domain.threads);
            if parent.is_null() {
                domain.handle.deallocate()
            } else {
                Ok(())
            }
        })?;
        if let Ok(parent) = find::<ProtectionDomain>(parent) {
            // SAFETY: it is live.
            unsafe { (*parent).children -= 1 };
        }
        if let Ok(threads) = find::<ThreadDomain>(threads) {
            // SAFETY: it is live.
            unsafe { (*threads).users -= 1 };
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut IbvContext,
    attributes: *mut IbvTdInitAttr,
) -> *mut IbvTd {
    call::pointer("ibv_alloc_td", || {
        // SAFETY: the program passes an open context.
        unsafe { context_of(context) }?;
        // SAFETY: the program passes its attributes.
        if unsafe { given(attributes, "no attributes") }?.comp_mask != 0 {
            return Err(unsupported("no bit of comp_mask is known"));
        }
        Ok(objects::give(ThreadDomain {
            verbs: IbvTd { context },
            users: 0,
        }))
    })
}

pub(crate) unsafe extern "C" fn dealloc_td(domain: *mut IbvTd) -> c_int {
    call::status("ibv_dealloc_td", || {
        take::<ThreadDomain>(domain, |domain| {
            if domain.users > 0 {
                return Err(Error::new(libc::EBUSY, "a parent domain uses it"));
            }
            Ok(())
        })
    })
}

/// A parent domain is its protection domain under another pointer. What it says of allocation and
/// of threads is a hint: queues of this fabric lie where they lie.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut IbvContext,
    attributes: *mut IbvParentDomainInitAttr,
) -> *mut IbvPd {
    call::pointer("ibv_alloc_parent_domain", || {
        // SAFETY: the program passes its attributes.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        // Allocators, and the program's own word for the domain.
        if attributes.comp_mask & !3 != 0 {
            return Err(unsupported("a bit of comp_mask is not known"));
        }
        let domain = find::<ProtectionDomain>(attributes.pd)?;
        if !attributes.td.is_null() {
            // SAFETY: it is live.
            unsafe { (*find::<ThreadDomain>(attributes.td)?).users += 1 };
        }
        // SAFETY: it is live.
        let domain = unsafe { &mut *domain };
        domain.children += 1;
        Ok(objects::give(ProtectionDomain {
            verbs: IbvPd { context, handle: 0 },
            handle: domain.handle,
            parent: attributes.pd,
            threads: attributes.td,
            children: 0,
        }))
    })
}

/// Registers memory.
///
/// # Safety
///
/// As for `ibv_reg_mr`: the memory stays while it is registered.
unsafe fn register(
    function: &str,
    domain: *mut IbvPd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut IbvMr {
    call::pointer(function, || {
        let owner = find::<ProtectionDomain>(domain)?;
        // SAFETY: it is live.
        let owner = unsafe { &*owner };
        // SAFETY: the program keeps the memory.
        let handle = unsafe {
            owner
                .handle
                .register_memory(address as u64, length as u64, iova, access)
        }?;
        let key = handle.memory_key();
        Ok(objects::give(MemoryRegion {
            verbs: IbvMr {
                context: owner.verbs.context,
                pd: domain,
                addr: address,
                length,
                handle: key,
                lkey: key,
                rkey: key,
            },
            handle,
        }))
    })
}

/// `ibv_reg_mr`.
///
/// # Safety
///
/// The memory stays mapped while it is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    domain: *mut IbvPd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut IbvMr {
    let iova = address as u64;
    // SAFETY: the caller says so.
    unsafe {
        register(
            "ibv_reg_mr",
            domain,
            address,
            length,
            iova,
            access as c_uint,
        )
    }
}

/// `ibv_reg_mr_iova`.
///
/// # Safety
///
/// As for [`ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    domain: *mut IbvPd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut IbvMr {
    // SAFETY: the caller says so.
    unsafe {
        register(
            "ibv_reg_mr_iova",
            domain,
            address,
            length,
            iova,
            access as c_uint,
        )
    }
}

/// `ibv_reg_mr_iova2`.
///
/// # Safety
///
/// As for [`ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    domain: *mut IbvPd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut IbvMr {
    // SAFETY: the caller says so.
    unsafe { register("ibv_reg_mr_iova2", domain, address, length, iova, access) }
}

/// `ibv_reg_mr_ex`, of memory at an address; with a file descriptor or a handle it is refused.
pub(crate) unsafe extern "C" fn reg_mr_ex(
    domain: *mut IbvPd,
    attributes: *mut IbvMrInitAttr,
) -> *mut IbvMr {
    let found = call::run("ibv_reg_mr_ex", || {
        // SAFETY: the program passes its attributes.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        let known = REG_MR_MASK_IOVA | REG_MR_MASK_ADDR | REG_MR_MASK_BUF;
        if attributes.comp_mask & !u64::from(known) != 0 {
            return Err(unsupported(
                "memory of a file descriptor or with a DMA handle",
            ));
        }
        if attributes.comp_mask & u64::from(REG_MR_MASK_ADDR) == 0 {
            return Err(invalid("no address"));
        }
        Ok(attributes)
    });
    let Ok(attributes) = found else {
        return null_mut();
    };
    let iova = if attributes.comp_mask & u64::from(REG_MR_MASK_IOVA) == 0 {
        attributes.addr as u64
    } else {
        attributes.iova
    };
    let (address, length) = (attributes.addr, attributes.length);
    let access = attributes.access as c_uint;
    // SAFETY: the program keeps the memory.
    unsafe { register("ibv_reg_mr_ex", domain, address, length, iova, access) }
}

/// `ibv_reg_mr_ex`.
///
/// # Safety
///
/// As for [`ibv_reg_mr`]; the attributes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    domain: *mut IbvPd,
    attributes: *mut IbvMrInitAttr,
) -> *mut IbvMr {
    // SAFETY: the caller says so.
    unsafe { reg_mr_ex(domain, attributes) }
}

/// `ibv_rereg_mr`: 0, or one of `IBV_REREG_MR_ERR_*` with errno.
///
/// # Safety
///
/// As for [`ibv_reg_mr`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    region: *mut IbvMr,
    flags: c_int,
    domain: *mut IbvPd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let done = call::run("ibv_rereg_mr", || {
        let region = find::<MemoryRegion>(region)?;
        let flags = flags as u32;
        let wants = |flag: u32| flags & flag != 0;
        let known = REREG_MR_CHANGE_TRANSLATION | REREG_MR_CHANGE_PD | REREG_MR_CHANGE_ACCESS;
        if flags & !known != 0 || flags == 0 {
            return Err(invalid("flags that are not known, or none"));
        }
        if wants(REREG_MR_CHANGE_TRANSLATION) && (length == 0 || address.is_null()) {
            return Err(invalid("a translation of nothing"));
        }
        let access = access as u32;
        if wants(REREG_MR_CHANGE_ACCESS) && access & ACCESS_ON_DEMAND != 0 {
            return Err(invalid("on-demand paging"));
        }
        let new = if wants(REREG_MR_CHANGE_PD) {
            // SAFETY: it is live.
            Some(unsafe { (*find::<ProtectionDomain>(domain)?).handle })
        } else {
            None
        };
        // SAFETY: it is live.
        let region = unsafe { &mut *region };
        // SAFETY: the program keeps the memory.
        unsafe {
            region
                .handle
                .reregister(flags, new, address as u64, length as u64, access)
        }?;
        if wants(REREG_MR_CHANGE_PD) {
            region.verbs.pd = domain;
            // SAFETY: the domain is live.
            region.verbs.context = unsafe { (*domain).context };
        }
        if wants(REREG_MR_CHANGE_TRANSLATION) {
            region.verbs.addr = address;
            region.verbs.length = length;
        }
        let key = region.handle.memory_key();
        (region.verbs.lkey, region.verbs.rkey) = (key, key);
        Ok(())
    });
    if done.is_ok() { 0 } else { REREG_MR_ERR_INPUT }
}

/// `ibv_dereg_mr`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dereg_mr(region: *mut IbvMr) -> c_int {
    call::status("ibv_dereg_mr", || {
        take::<MemoryRegion>(region, |region| region.handle.deregister())
    })
}

/// Memory that the library allocated, `struct ibv_buf` to programs.
#[derive(Debug)]
pub struct Buffer {
    address: *mut c_void,
    bytes: usize,
}

/// `ibv_alloc_buf`: ordinary memory, from a page on.
///
/// # Safety
///
/// The place of the buffer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    domain: *mut IbvPd,
    bytes: usize,
    buffer: *mut *mut Buffer,
) -> *mut c_void {
    call::pointer("ibv_alloc_buf", || {
        find::<ProtectionDomain>(domain)?;
        if bytes == 0 || buffer.is_null() {
            return Err(invalid("a buffer of nothing, or no place for it"));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at no place of somebody's.
        let address = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(of_system(std::io::Error::last_os_error()));
        }
        // SAFETY: the caller says so.
        unsafe { buffer.write(Box::into_raw(Box::new(Buffer { address, bytes }))) };
        Ok(address)
    })
}

/// `ibv_free_buf`.
///
/// # Safety
///
/// The buffer is of [`ibv_alloc_buf`], and freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buffer: *mut Buffer) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: made by `ibv_alloc_buf`.
    let buffer = unsafe { Box::from_raw(buffer) };
    // SAFETY: mapped there; nobody uses it any more.
    unsafe { libc::munmap(buffer.address, buffer.bytes) };
}

/// `ibv_reg_buf_mr`.
///
/// # Safety
///
/// The buffer is of [`ibv_alloc_buf`] and stays while it is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    domain: *mut IbvPd,
    buffer: *mut Buffer,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut IbvMr {
    let inside: std::result::Result<(), c_int> = call::run("ibv_reg_buf_mr", || {
        // SAFETY: the caller says so.
        let buffer = unsafe { given(buffer, "no buffer") }?;
        let first = (address as usize).checked_sub(buffer.address as usize);
        let end = first.and_then(|first| first.checked_add(length));
        let is_inside: Result<()> = match end {
            Some(end) if end <= buffer.bytes => Ok(()),
            _ => Err(invalid("a range past the buffer")),
        };
        is_inside
    });
    if inside.is_err() {
        return null_mut();
    }
    // SAFETY: the caller says so.
    unsafe { ibv_reg_mr(domain, address, length, access) }
}
