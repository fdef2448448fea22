//! What the C interface keeps for an open NIC: bytes that programs hold pointers to, and whether
//! tag 0 is accepted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use viaduct_provider::via::{HostAddress, ProtectionTag};
use viaduct_provider::{Error, NicHandle, Result, ReturnCode};

use crate::abi::VipProtectionHandle;
use crate::address::{HOST_ADDRESS_BYTES, host_bytes};
use crate::call::{invalid, is_set, pointer};
use crate::fabric::set_any_tag;

/// Set to anything but nothing or 0, the switch of `VipxAcceptTagZero` is on from the start.
const TAG_ZERO_VARIABLE: &str = "VIADUCT_VIPL_TAG0";

/// `LocalNicAddress` of an open NIC points here until it is closed.
type AddressBytes = Box<[u8; HOST_ADDRESS_BYTES]>;

/// The open NICs of this process. Programs know a NIC by its handle alone, so that this is the one
/// place to find it.
static NICS: Mutex<BTreeMap<NicHandle, AddressBytes>> = Mutex::new(BTreeMap::new());

fn nics() -> MutexGuard<'static, BTreeMap<NicHandle, AddressBytes>> {
    // Each change is one insertion or removal: a panic in between leaves the map whole.
    NICS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> Error {
    invalid("the NIC handle is not of an open NIC")
}

/// Remembers a NIC that was opened, and gives it the switch of `VipxAcceptTagZero`.
pub(crate) fn opened(nic: NicHandle, address: HostAddress) -> Result<()> {
    nics().insert(nic, Box::new(host_bytes(address)));
    // Behind that, so that whoever turns the switch in between finds the NIC. Nothing is locked
    // while the fabric is asked, which may let others go on meanwhile.
    set_any_tag(nic, accepts_tag_zero())
}

/// Forgets a NIC that was closed.
pub(crate) fn forget(nic: NicHandle) {
    nics().remove(&nic);
}

/// Where the NIC's address lies, until it is closed.
pub(crate) fn address(nic: NicHandle) -> Result<*const u8> {
    let nics = nics();
    Ok(nics.get(&nic).ok_or_else(closed)?.as_ptr())
}

/// The switch of `VipxAcceptTagZero`.
fn tag_zero() -> &'static AtomicBool {
    static SWITCH: OnceLock<AtomicBool> = OnceLock::new();
    SWITCH.get_or_init(|| AtomicBool::new(is_set(TAG_ZERO_VARIABLE)))
}

/// Turns it, for the NICs that are open and those to come.
pub(crate) fn accept_tag_zero(accept: bool) -> Result<()> {
    // Before the NICs are looked for: whoever opens one that is not found reads this value.
    tag_zero().store(accept, Ordering::SeqCst);
    let open: Vec<NicHandle> = nics().keys().copied().collect();
    for nic in open {
        match set_any_tag(nic, accept) {
            // It was closed meanwhile.
            Err(error) if error.code() == ReturnCode::InvalidParameter => {}
            result => result?,
        }
    }
    Ok(())
}

fn accepts_tag_zero() -> bool {
    tag_zero().load(Ordering::SeqCst)
}

/// The tag that a program gives.
pub(crate) fn tag(handle: VipProtectionHandle) -> Result<ProtectionTag> {
    let invalid = |reason: &'static str| Err(Error::new(ReturnCode::InvalidPtag, reason));
    match u32::try_from(handle as usize) {
        Ok(0) if !accepts_tag_zero() => invalid(
            "the protection tag is 0: make one with VipCreatePtag, or set VIADUCT_VIPL_TAG0=1 for \
             a program that counts on 0",
        ),
        Ok(bits) => Ok(ProtectionTag::from_bits(bits)),
        Err(_) => invalid("the protection tag is not one that VipCreatePtag made"),
    }
}

/// A tag as the program sees it.
pub(crate) fn tag_handle(tag: ProtectionTag) -> VipProtectionHandle {
    pointer(u64::from(tag.bits()))
}
