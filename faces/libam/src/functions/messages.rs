//! Requests and replies.

use std::ffi::{c_uint, c_void};

use crate::abi::{Code, Endpoint, Token};
use crate::call::{Result, call, call_outside};
use crate::convert::{self, Given, Words, handle};
use crate::handlers;
use crate::objects::Found;

/// Words of a message, as a program gives them.
type WordsGiven = (*const u64, usize);

/// Sends a short request; handles messages while there is no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_request(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
) -> Code {
    call_outside("am_request", || {
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { request(endpoint, index, handler, (words, word_count), Given::Short) }
    })
}

/// Sends a request with bytes for the handler; handles messages while there is no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_request_medium(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call_outside("am_request_medium", || {
        let body = medium(payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { request(endpoint, index, handler, (words, word_count), body) }
    })
}

/// Sends a request with bytes for the segment; handles messages while there is no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_request_bulk(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    offset: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call_outside("am_request_bulk", || {
        let body = bulk(offset, payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { request(endpoint, index, handler, (words, word_count), body) }
    })
}

/// Sends a short request, without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_try_request(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
) -> Code {
    call_outside("am_try_request", || {
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { try_request(endpoint, index, handler, (words, word_count), Given::Short) }
    })
}

/// Sends a request with bytes for the handler, without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_try_request_medium(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call_outside("am_try_request_medium", || {
        let body = medium(payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { try_request(endpoint, index, handler, (words, word_count), body) }
    })
}

/// Sends a request with bytes for the segment, without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_try_request_bulk(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    offset: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call_outside("am_try_request_bulk", || {
        let body = bulk(offset, payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { try_request(endpoint, index, handler, (words, word_count), body) }
    })
}

/// Replies with words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_reply(
    token: Token,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
) -> Code {
    call("am_reply", || {
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { reply(token, handler, (words, word_count), Given::Short) }
    })
}

/// Replies with bytes for the handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_reply_medium(
    token: Token,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call("am_reply_medium", || {
        let body = medium(payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { reply(token, handler, (words, word_count), body) }
    })
}

/// Replies with bytes for the segment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_reply_bulk(
    token: Token,
    handler: c_uint,
    words: *const u64,
    word_count: usize,
    offset: usize,
    payload: *const c_void,
    payload_bytes: usize,
) -> Code {
    call("am_reply_bulk", || {
        let body = bulk(offset, payload, payload_bytes);
        // SAFETY: the program's pointers are what `am.h` says.
        unsafe { reply(token, handler, (words, word_count), body) }
    })
}

const fn medium(payload: *const c_void, bytes: usize) -> Given {
    Given::Medium { payload, bytes }
}

const fn bulk(offset: usize, payload: *const c_void, bytes: usize) -> Given {
    Given::Bulk {
        offset,
        payload,
        bytes,
    }
}

#[inline]
unsafe fn try_request(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    (words, count): WordsGiven,
    body: Given,
) -> Result<()> {
    let handler = convert::handler(handler)?;
    // SAFETY: the caller says so; no handler runs in a try.
    let (words, body) = unsafe { (Words::read(words, count)?, body.body()?) };
    let mut found = Found::of(handle(endpoint))?;
    Ok(found.with(|endpoint| endpoint.try_request(index, handler, words.get(), body))?)
}

#[inline]
unsafe fn request(
    endpoint: *mut Endpoint,
    index: usize,
    handler: c_uint,
    (words, count): WordsGiven,
    given: Given,
) -> Result<()> {
    let handler = convert::handler(handler)?;
    // SAFETY: the caller says so.
    let words = unsafe { Words::read(words, count) }?;
    let mut found = Found::of(handle(endpoint))?;
    loop {
        // SAFETY: the caller says so. Handlers, which may write to the payload, run outside of the
        // try, and each try reads it anew.
        let body = unsafe { given.body() }?;
        match found.with(|endpoint| endpoint.try_request(index, handler, words.get(), body)) {
            Err(error) if error.is_back_pressure() => {
                if found.with(|endpoint| endpoint.poll()) == 0 {
                    found.wait_for_room();
                }
            }
            outcome => return Ok(outcome?),
        }
    }
}

#[inline]
unsafe fn reply(
    token: Token,
    handler: c_uint,
    (words, count): WordsGiven,
    body: Given,
) -> Result<()> {
    let handler = convert::handler(handler)?;
    // SAFETY: the caller says so; no handler runs in a reply.
    let (words, body) = unsafe { (Words::read(words, count)?, body.body()?) };
    handlers::reply(token, handler, words.get(), body)
}
