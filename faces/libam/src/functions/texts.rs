//! Texts.

use std::ffi::{c_char, c_uint};

use viaduct_am::Reason;

use crate::abi::Code;
use crate::{call, texts};

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn am_error_text(error: c_uint) -> *const c_char {
    let code = Code::ALL.get(error as usize);
    code.map_or(c"not an am_error", |code| texts::of_code(*code))
        .as_ptr()
}

/// What was wrong with the last call of this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn am_error_detail() -> *const c_char {
    call::detail()
}

/// What a reason means.
#[unsafe(no_mangle)]
pub extern "C" fn am_reason_text(reason: c_uint) -> *const c_char {
    let reason = u8::try_from(reason).ok().map(Reason::try_from);
    match reason {
        Some(Ok(reason)) => texts::of_reason(reason).as_ptr(),
        _ => c"not an am_reason".as_ptr(),
    }
}
