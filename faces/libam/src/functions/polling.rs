//! Polling and waiting.

use std::ffi::c_uint;

use crate::abi::{Code, Endpoint};
use crate::call::call_outside;
use crate::convert::{bits, given, handle, limit, mask as read_mask, write_optional};
use crate::objects::Found;

/// Runs the handlers of what has come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_poll(endpoint: *mut Endpoint, handled: *mut usize) -> Code {
    call_outside("am_poll", || {
        let count = Found::of(handle(endpoint))?.with(|endpoint| endpoint.poll());
        // SAFETY: the program gives a variable for the result, or NULL.
        unsafe { write_optional(handled, count) };
        Ok(())
    })
}

/// What a thread that waits would find.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_get_events(endpoint: *mut Endpoint, events: *mut c_uint) -> Code {
    call_outside("am_get_events", || {
        let place = given(events, "events")?;
        let found = Found::of(handle(endpoint))?.with(|endpoint| endpoint.events());
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(bits(found)) };
        Ok(())
    })
}

/// Sleeps until one of some events is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_wait(
    endpoint: *mut Endpoint,
    mask: c_uint,
    limit_us: u64,
    events: *mut c_uint,
) -> Code {
    call_outside("am_wait", || {
        let mask = read_mask(mask)?;
        let found = Found::of(handle(endpoint))?.wait(mask, limit(limit_us))?;
        // SAFETY: the program gives a variable for the result, or NULL.
        unsafe { write_optional(events, bits(found)) };
        Ok(())
    })
}
