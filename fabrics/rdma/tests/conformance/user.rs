//! A process of another user than its peer, as root can start one.

use std::io;

/// Has a station become another user.
pub(crate) const VARIABLE: &str = "VIADUCT_STATION_USER";

/// The user of Linux that owns nothing.
const NOBODY: u32 = 65_534;

/// Whether this process may start one of another user.
pub(crate) fn may_be_another() -> bool {
    // SAFETY: the call takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Makes this process one of that user's, for good.
pub(crate) fn become_another() {
    // SAFETY: numbers, and an empty list.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
    };
    assert!(done, "{}", io::Error::last_os_error());
    assert!(!may_be_another());
}
