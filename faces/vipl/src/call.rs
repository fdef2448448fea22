//! What every function does around its body: no panic crosses, a refusal becomes a code.

use std::any::Any;
use std::ffi::c_void;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use viaduct_provider::{
    CompletionQueueHandle, ConnectionHandle, Done, Error, NicHandle, Result, ReturnCode, ViHandle,
};
use viaduct_turns::InLibrary;

use crate::abi::{VipBoolean, VipDescriptor, VipPvoid, VipReturn, VipUlong};

/// Set to anything but nothing or 0, refused calls are logged with their reasons.
const LOG_VARIABLE: &str = "VIADUCT_VIPL_LOG";

/// Runs the body of `function`.
///
/// A panic is a mistake of ours: it ends here, as `VIP_ERROR_RESOURCE` and a line on stderr.
#[inline(always)]
pub(crate) fn call(function: &str, body: impl FnOnce() -> Result<VipReturn>) -> VipReturn {
    let _inside = InLibrary::enter();
    // What a panic may leave half done is the fabric's; it poisons its own locks.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => refused(function, error),
        Err(payload) => panicked(function, payload),
    }
}

#[cold]
#[inline(never)]
// Takes what it reports, so that it is dropped here, off the way of a message.
fn refused(function: &str, error: Error) -> VipReturn {
    let code = VipReturn::from(error.code());
    if logs_refusals() {
        let line = format!("{function}: {}: {error}", name(code));
        if is_news(&line) {
            log(format_args!("{line}"));
        }
    }
    code
}

/// Whether the line before was another one: programs ask again and again.
fn is_news(line: &str) -> bool {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_news = *last != line;
    if is_news {
        line.clone_into(&mut last);
    }
    is_news
}

#[cold]
#[inline(never)]
// Takes what it reports, so that it is dropped here, off the way of a message.
fn panicked(function: &str, payload: Box<dyn Any + Send>) -> VipReturn {
    let text = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    log(format_args!(
        "{function}: VIP_ERROR_RESOURCE: a mistake in the library, please report it: {text}"
    ));
    VipReturn::ErrorResource
}

fn name(code: VipReturn) -> &'static str {
    code.name().to_str().unwrap_or_default()
}

/// One line on stderr. A program without one gets none.
pub(crate) fn log(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "libvipl: {line}");
}

fn logs_refusals() -> bool {
    static LOGS: OnceLock<bool> = OnceLock::new();
    *LOGS.get_or_init(|| is_set(LOG_VARIABLE))
}

/// Whether an environment variable is set to anything but nothing or 0.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

#[cold]
#[inline(never)]
pub(crate) fn invalid(reason: &'static str) -> Error {
    Error::new(ReturnCode::InvalidParameter, reason)
}

#[inline(always)]
pub(crate) fn nic_handle(handle: VipPvoid) -> Result<NicHandle> {
    NicHandle::from_bits(handle as u64).ok_or_else(|| invalid("the NIC handle is NULL"))
}

#[inline(always)]
pub(crate) fn vi_handle(handle: VipPvoid) -> Result<ViHandle> {
    ViHandle::from_bits(handle as u64).ok_or_else(|| invalid("the VI handle is NULL"))
}

#[inline(always)]
pub(crate) fn completion_queue_handle(handle: VipPvoid) -> Result<CompletionQueueHandle> {
    CompletionQueueHandle::from_bits(handle as u64)
        .ok_or_else(|| invalid("the completion queue handle is NULL"))
}

pub(crate) fn connection_handle(handle: VipPvoid) -> Result<ConnectionHandle> {
    ConnectionHandle::from_bits(handle as u64)
        .ok_or_else(|| invalid("the connection handle is NULL"))
}

/// A handle as the program sees it.
#[inline(always)]
pub(crate) fn pointer(bits: u64) -> *mut c_void {
    bits as usize as *mut c_void
}

/// A pointer argument that must not be NULL. `name` is the argument in `vipl.h`.
#[inline(always)]
pub(crate) fn given<T>(argument: *mut T, name: &'static str) -> Result<NonNull<T>> {
    NonNull::new(argument).ok_or_else(|| missing(name))
}

#[cold]
#[inline(never)]
fn missing(name: &'static str) -> Error {
    Error::new(
        ReturnCode::InvalidParameter,
        format!("{name} is NULL: give the address of a variable"),
    )
}

pub(crate) const fn boolean(value: bool) -> VipBoolean {
    value as VipBoolean
}

/// A time limit in milliseconds; none for both spellings of infinite.
pub(crate) const fn limit(milliseconds: VipUlong) -> Option<Duration> {
    /// `INFINITE` of the system that the interface was written for.
    const INFINITE_32: VipUlong = 0xFFFF_FFFF;
    match milliseconds {
        VipUlong::MAX | INFINITE_32 => None,
        milliseconds => Some(Duration::from_millis(milliseconds)),
    }
}

/// What a look at a queue is in C: a code, and a descriptor or NULL.
#[inline(always)]
pub(crate) fn done(done: Done) -> (VipReturn, *mut VipDescriptor) {
    match done {
        Done::Complete(descriptor) => (VipReturn::Success, descriptor.as_ptr()),
        Done::NotDone => (VipReturn::NotDone, std::ptr::null_mut()),
        Done::Failed(descriptor) => (VipReturn::DescriptorError, descriptor.as_ptr()),
        Done::Empty => (VipReturn::DescriptorError, std::ptr::null_mut()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_return_code() {
        let code = call("VipTest", || panic!("on purpose"));
        assert_eq!(code, VipReturn::ErrorResource);
    }

    #[test]
    fn what_is_refused_again_for_the_same_reason_is_no_news() {
        assert!(is_news("VipTest: one reason"));
        assert!(!is_news("VipTest: one reason"));
        assert!(is_news("VipTest: another reason"));
        assert!(is_news("VipTest: one reason"));
    }

    #[test]
    fn both_spellings_of_infinite_are_no_limit() {
        assert_eq!(limit(VipUlong::MAX), None);
        assert_eq!(limit(0xFFFF_FFFF), None);
        assert_eq!(limit(0), Some(Duration::ZERO));
        assert_eq!(limit(10_000), Some(Duration::from_secs(10)));
        assert_eq!(limit(0xFFFF_FFFE), Some(Duration::from_millis(0xFFFF_FFFE)));
        assert!(limit(0x1_0000_0000).is_some());
    }

    #[test]
    fn no_descriptor_is_null() {
        let mut descriptor = VipDescriptor::default();
        let there = NonNull::from(&mut descriptor);
        assert_eq!(
            done(Done::Complete(there)),
            (VipReturn::Success, there.as_ptr())
        );
        assert_eq!(
            done(Done::Failed(there)),
            (VipReturn::DescriptorError, there.as_ptr())
        );
        assert_eq!(
            done(Done::Empty),
            (VipReturn::DescriptorError, std::ptr::null_mut())
        );
        assert_eq!(
            done(Done::NotDone),
            (VipReturn::NotDone, std::ptr::null_mut())
        );
    }
}
