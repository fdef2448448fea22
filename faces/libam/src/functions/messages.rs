//! Requests and replies.

use std::ffi::{c_uint, c_void};

use crate::abi::{Code, Endpoint, Token};
use crate::call::{Result, call, call_outside};
use crate::convert::{self, Given, Words, handle};
use crate::handlers;
use crate::objects::Found;

/// Words of a message, as a program gives them.
type WordsGiven = (*const u64, usize);

/// The three functions of a kind of message: with words alone, with bytes for the handler, with
/// bytes for the segment. `$through` calls `$send`, which is told to whom.
macro_rules! messages {
    (
        $through:ident, $send:ident($($to:ident: $type:ty),+);
        $(#[$about_short:meta])* $short:ident;
        $(#[$about_medium:meta])* $medium:ident;
        $(#[$about_bulk:meta])* $bulk:ident;
    ) => {
        $(#[$about_short])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $short(
            $($to: $type,)+
            handler: c_uint,
            words: *const u64,
            word_count: usize,
        ) -> Code {
            $through(stringify!($short), || {
                // SAFETY: the program's pointers are what `am.h` says.
                unsafe { $send($($to,)+ handler, (words, word_count), Given::Short) }
            })
        }

        $(#[$about_medium])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $medium(
            $($to: $type,)+
            handler: c_uint,
            words: *const u64,
            word_count: usize,
            payload: *const c_void,
            payload_bytes: usize,
        ) -> Code {
            $through(stringify!($medium), || {
                let bytes = payload_bytes;
                let body = Given::Medium { payload, bytes };
                // SAFETY: the program's pointers are what `am.h` says.
                unsafe { $send($($to,)+ handler, (words, word_count), body) }
            })
        }

        $(#[$about_bulk])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $bulk(
            $($to: $type,)+
            handler: c_uint,
            words: *const u64,
            word_count: usize,
            offset: usize,
            payload: *const c_void,
            payload_bytes: usize,
        ) -> Code {
            $through(stringify!($bulk), || {
                let bytes = payload_bytes;
                let body = Given::Bulk {
                    offset,
                    payload,
                    bytes,
                };
                // SAFETY: the program's pointers are what `am.h` says.
                unsafe { $send($($to,)+ handler, (words, word_count), body) }
            })
        }
    };
}

messages! {
    call_outside, request(endpoint: *mut Endpoint, index: usize);
    /// Sends a short request; handles messages while there is no room.
    am_request;
    /// Sends a request with bytes for the handler; handles messages while there is no room.
    am_request_medium;
    /// Sends a request with bytes for the segment; handles messages while there is no room.
    am_request_bulk;
}

messages! {
    call_outside, try_request(endpoint: *mut Endpoint, index: usize);
    /// Sends a short request, without waiting.
    am_try_request;
    /// Sends a request with bytes for the handler, without waiting.
    am_try_request_medium;
    /// Sends a request with bytes for the segment, without waiting.
    am_try_request_bulk;
}

messages! {
    call, reply(token: Token);
    /// Replies with words.
    am_reply;
    /// Replies with bytes for the handler.
    am_reply_medium;
    /// Replies with bytes for the segment.
    am_reply_bulk;
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
