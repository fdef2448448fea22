//! What every function does around its body: no panic crosses, a refusal becomes a number.

use std::any::Any;
use std::ffi::c_int;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

pub(crate) use viaduct_rdma::verbs::error::{invalid, unsupported};
use viaduct_rdma::{Error, Result};
use viaduct_turns::InLibrary;

/// Set to anything but nothing or 0, refused calls are logged with their reasons.
const LOG_VARIABLE: &str = "VIADUCT_RDMA_LOG";

/// Runs the body of a function that answers 0 or a number of `errno.h`.
#[inline(always)]
pub(crate) fn status(function: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    match run(function, body) {
        Ok(()) => 0,
        Err(number) => number,
    }
}

/// Runs the body of a function that answers -1 and a number in errno.
#[inline(always)]
pub(crate) fn or_minus(function: &str, body: impl FnOnce() -> Result<c_int>) -> c_int {
    run(function, body).unwrap_or(-1)
}

/// Runs the body of a function that answers null and a number in errno.
#[inline(always)]
pub(crate) fn pointer<T>(function: &str, body: impl FnOnce() -> Result<*mut T>) -> *mut T {
    run(function, body).unwrap_or(std::ptr::null_mut())
}

/// Runs a body. A panic is a mistake of ours: it ends here, as EIO and a line on stderr.
#[inline(always)]
pub(crate) fn run<T>(
    function: &str,
    body: impl FnOnce() -> Result<T>,
) -> std::result::Result<T, c_int> {
    let _inside = InLibrary::enter();
    // What a panic may leave half done is the fabric's, which poisons its own locks.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(refused(function, &error)),
        Err(payload) => Err(panicked(function, &*payload)),
    }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = number };
}

#[cold]
#[inline(never)]
fn refused(function: &str, error: &Error) -> c_int {
    if logs_refusals() {
        log(format_args!("{function}: {error}"));
    }
    set_errno(error.errno());
    error.errno()
}

#[cold]
#[inline(never)]
fn panicked(function: &str, payload: &(dyn Any + Send)) -> c_int {
    let text = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    log(format_args!(
        "{function}: a mistake in the library, please report it: {text}"
    ));
    set_errno(libc::EIO);
    libc::EIO
}

/// One line on stderr. A program without one gets none.
pub(crate) fn log(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "libibverbs (viaduct): {line}");
}

fn logs_refusals() -> bool {
    static LOGS: OnceLock<bool> = OnceLock::new();
    *LOGS.get_or_init(|| {
        std::env::var_os(LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
    })
}
