//! What every function does around its body: no panic crosses, a refusal becomes -1 and errno.

use std::ffi::c_int;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::manager::{Refusal, Result};

/// Runs the body of `function`: 0, or -1 with errno.
///
/// A panic is a mistake of ours: it ends here, as EIO and a line on stderr.
pub(crate) fn call(function: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(function, body) {
        Some(()) => 0,
        None => -1,
    }
}

/// The same, of a function that answers with something.
pub(crate) fn guarded<T>(function: &str, body: impl FnOnce() -> Result<T>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(Refusal(errno))) => set_errno(errno),
        Err(payload) => {
            let text = (payload.downcast_ref::<&str>().copied())
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            let _ = writeln!(
                std::io::stderr(),
                "librdmacm of Viaduct: {function}: a mistake in the library, please report it: {text}"
            );
            set_errno(libc::EIO);
        }
    }
    None
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// What the last refused call of this thread said, of libibverbs for one.
pub(crate) fn last_errno() -> Refusal {
    // SAFETY: the thread's own.
    match unsafe { *libc::__errno_location() } {
        0 => Refusal(libc::EIO),
        errno => Refusal(errno),
    }
}

/// A function of libibverbs that answers with a number of errno, or with -1 and errno.
pub(crate) fn answered(answer: c_int) -> Result<()> {
    match answer {
        0 => Ok(()),
        ..0 => Err(last_errno()),
        errno => Err(Refusal(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_number() {
        assert_eq!(call("rdma_test", || panic!("on purpose")), -1);
        assert_eq!(last_errno(), Refusal(libc::EIO));
    }
}
