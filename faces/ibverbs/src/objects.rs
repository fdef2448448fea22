//! What programs hold pointers to: the structure of C first, then what is ours.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

use viaduct_rdma::Result;
use viaduct_verbs_abi::{
    IbvAh, IbvCompChannel, IbvContext, IbvCq, IbvCqEx, IbvMr, IbvPd, IbvQp, IbvQpEx, IbvSrq, IbvTd,
    VerbsContext,
};

use crate::call::invalid;
use crate::extended_completion::Reading;
use crate::extended_pair::Building;
use crate::fabric;

/// An open device.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) verbs: VerbsContext,
    pub(crate) handle: fabric::Context,
}

/// A protection domain, or a parent domain: that one stands for the domain it was made from.
#[repr(C)]
pub(crate) struct ProtectionDomain {
    pub(crate) verbs: IbvPd,
    pub(crate) handle: fabric::ProtectionDomain,
    /// Of a parent domain: that of which it is one.
    pub(crate) parent: *mut IbvPd,
    /// Of a parent domain: the thread domain that it uses.
    pub(crate) threads: *mut IbvTd,
    /// Parent domains that were made of this one.
    pub(crate) children: u32,
}

#[repr(C)]
pub(crate) struct MemoryRegion {
    pub(crate) verbs: IbvMr,
    pub(crate) handle: fabric::MemoryRegion,
}

#[repr(C)]
pub(crate) struct AddressHandle {
    pub(crate) verbs: IbvAh,
    pub(crate) handle: fabric::AddressHandle,
}

#[repr(C)]
pub(crate) struct ThreadDomain {
    pub(crate) verbs: IbvTd,
    /// Parent domains that use it.
    pub(crate) users: u32,
}

#[repr(C)]
pub(crate) struct CompletionChannel {
    pub(crate) verbs: IbvCompChannel,
    pub(crate) handle: fabric::CompletionChannel,
}

#[repr(C)]
pub(crate) struct CompletionQueue {
    pub(crate) verbs: IbvCqEx,
    pub(crate) handle: fabric::CompletionQueue,
    pub(crate) reading: UnsafeCell<Reading>,
}

#[repr(C)]
pub(crate) struct SharedReceiveQueue {
    pub(crate) verbs: IbvSrq,
    pub(crate) handle: fabric::SharedReceiveQueue,
}

#[repr(C)]
pub(crate) struct QueuePair {
    pub(crate) verbs: IbvQpEx,
    pub(crate) handle: fabric::QueuePair,
    /// Whether requests are built call by call.
    pub(crate) is_extended: bool,
    pub(crate) building: UnsafeCell<Building>,
}

/// A kind of object that programs hold a pointer to.
pub(crate) trait Object: Sized {
    /// What the program knows of it.
    type Verbs;
    const KIND: &'static str;
    /// Where that lies in it.
    const OFFSET: usize;
}

macro_rules! objects {
    ($($ours:ident: $verbs:ident at $offset:expr, $kind:literal;)+) => {$(
        impl Object for $ours {
            type Verbs = $verbs;
            const KIND: &'static str = $kind;
            const OFFSET: usize = $offset;
        }
    )+};
}

objects! {
    Context: IbvContext at offset_of!(VerbsContext, context), "context";
    ProtectionDomain: IbvPd at 0, "protection domain";
    MemoryRegion: IbvMr at 0, "memory region";
    AddressHandle: IbvAh at 0, "address handle";
    ThreadDomain: IbvTd at 0, "thread domain";
    CompletionChannel: IbvCompChannel at 0, "completion channel";
    CompletionQueue: IbvCq at 0, "completion queue";
    SharedReceiveQueue: IbvSrq at 0, "shared receive queue";
    QueuePair: IbvQp at 0, "queue pair";
}

/// The objects that programs have, by address, with their kinds. No hash map: what that allocates
/// follows from random numbers, and so would all addresses that programs are given.
fn live() -> MutexGuard<'static, BTreeMap<usize, &'static str>> {
    static LIVE: Mutex<BTreeMap<usize, &'static str>> = Mutex::new(BTreeMap::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives an object to the program.
pub(crate) fn give<T: Object>(object: T) -> *mut T::Verbs {
    give_boxed(Box::new(object))
}

/// As [`give`], for one whose address is known before.
pub(crate) fn give_boxed<T: Object>(object: Box<T>) -> *mut T::Verbs {
    let object = Box::into_raw(object).cast::<u8>();
    // SAFETY: the part lies in the object.
    let verbs = unsafe { object.add(T::OFFSET) }.cast::<T::Verbs>();
    live().insert(verbs as usize, T::KIND);
    verbs
}

/// The object that a program means, looked up.
pub(crate) fn find<T: Object>(verbs: *mut T::Verbs) -> Result<*mut T> {
    if live().get(&(verbs as usize)).copied() == Some(T::KIND) {
        // SAFETY: it was given by `give`, whose part lies in an object.
        Ok(unsafe { trust(verbs) })
    } else {
        Err(viaduct_rdma::Error::new(
            libc::EINVAL,
            format!("there is no {} at {verbs:p}", T::KIND),
        ))
    }
}

/// The object that a program means, not looked up.
///
/// # Safety
///
/// `verbs` was given by [`give`] and not taken back.
#[inline(always)]
pub(crate) unsafe fn trust<T: Object>(verbs: *mut T::Verbs) -> *mut T {
    // SAFETY: the part lies in an object.
    unsafe { verbs.cast::<u8>().sub(T::OFFSET) }.cast::<T>()
}

/// Takes an object back from the program, if `release` lets it go.
pub(crate) fn take<T: Object>(
    verbs: *mut T::Verbs,
    release: impl FnOnce(&T) -> Result<()>,
) -> Result<()> {
    let object = find::<T>(verbs)?;
    // SAFETY: it is live: `find` saw it.
    release(unsafe { &*object })?;
    if live().remove(&(verbs as usize)).is_none() {
        return Err(invalid("another thread destroyed it at the same time"));
    }
    // SAFETY: made by `give`; the entry is removed once, by this call.
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

/// Memory of zeros, for structures of C: their locks are open so.
pub(crate) const fn zeroed<T: OfZeros>() -> T {
    // SAFETY: the trait says that zeros are a value.
    unsafe { std::mem::zeroed() }
}

/// # Safety
///
/// Zeros are a value of the type.
pub(crate) unsafe trait OfZeros: Sized {}
// SAFETY: integers, null pointers and functions that are not there, open locks of the C library.
unsafe impl OfZeros for VerbsContext {}
// SAFETY: as above.
unsafe impl OfZeros for IbvCqEx {}
// SAFETY: as above.
unsafe impl OfZeros for IbvQpEx {}
// SAFETY: as above.
unsafe impl OfZeros for IbvSrq {}
// SAFETY: as above.
unsafe impl OfZeros for libc::pthread_mutex_t {}

/// The argument of a function, if it is not null.
///
/// # Safety
///
/// `pointer` is null or what the caller says it is, for as long as the result is used.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| invalid(what))
}

/// As [`given`], to be written to.
///
/// # Safety
///
/// As for [`given`], and nothing else refers to it.
pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T, what: &'static str) -> Result<&'a mut T> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_mut() }.ok_or_else(|| invalid(what))
}

/// Text into an array of C, cut where it has no room.
pub(crate) fn text<const N: usize>(text: &str) -> [std::ffi::c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *place = byte as std::ffi::c_char;
    }
    array
}

/// A number of the fabric into an `int` of C.
pub(crate) fn int(number: u32) -> c_int {
    number.try_into().unwrap_or(c_int::MAX)
}
