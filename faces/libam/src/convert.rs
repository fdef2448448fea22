//! Arguments of C, checked; nothing that they point to is kept.

use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use viaduct_am::{Body, EventMask, HANDLERS_MAX, HandlerId, MTU_BYTES, WORDS_MAX};

use crate::abi::{Code, FOREVER};
use crate::call::{Refused, Result};

/// A pointer that must not be NULL. `name` is the argument in `am.h`.
#[inline]
pub(crate) fn given<T>(argument: *mut T, name: &'static str) -> Result<NonNull<T>> {
    NonNull::new(argument).ok_or_else(|| missing(name))
}

#[cold]
fn missing(name: &'static str) -> Refused {
    let text = format!("{name} is NULL: give the address of a variable");
    Refused::new(Code::Null, text)
}

/// The number that goes to programs as a pointer to an incomplete type.
#[inline]
pub(crate) fn handle<T>(pointer: *mut T) -> u64 {
    pointer.addr() as u64
}

/// And back.
pub(crate) fn pointer<T>(handle: u64) -> *mut T {
    std::ptr::without_provenance_mut(handle as usize)
}

/// Writes a result where the program wants it, if it does.
///
/// # Safety
///
/// `into` is NULL, or a variable of the program's.
#[inline]
pub(crate) unsafe fn write_optional<T>(into: *mut T, value: T) {
    if let Some(into) = NonNull::new(into) {
        // SAFETY: the caller says so.
        unsafe { into.write_unaligned(value) };
    }
}

/// A handler's number.
#[inline]
pub(crate) fn handler(number: c_uint) -> Result<HandlerId> {
    let found = u8::try_from(number).ok().and_then(HandlerId::new);
    found.ok_or_else(|| {
        let last = HANDLERS_MAX - 1;
        Refused::limit(format!(
            "handler {number} is asked for; they go from 0 to {last}"
        ))
    })
}

/// Words of a message, copied.
pub(crate) struct Words {
    words: [u64; WORDS_MAX],
    count: usize,
}

impl Words {
    /// Reads them.
    ///
    /// # Safety
    ///
    /// `words` is NULL, or `count` words are readable there; more than [`WORDS_MAX`] are not read.
    #[inline]
    pub(crate) unsafe fn read(words: *const u64, count: usize) -> Result<Self> {
        if count > WORDS_MAX {
            let text = format!("word_count is {count}; a message has up to {WORDS_MAX} words");
            return Err(Refused::limit(text));
        }
        let mut read = Self {
            words: [0; WORDS_MAX],
            count,
        };
        if count > 0 {
            let first = given(words.cast_mut(), "words")?;
            for (index, word) in read.words[..count].iter_mut().enumerate() {
                // SAFETY: the caller says so.
                *word = unsafe { first.add(index).read_unaligned() };
            }
        }
        Ok(read)
    }

    /// The words.
    #[inline]
    pub(crate) fn get(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

/// What goes with the words, as the program gave it.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    Short,
    Medium {
        payload: *const c_void,
        bytes: usize,
    },
    Bulk {
        offset: usize,
        payload: *const c_void,
        bytes: usize,
    },
}

impl Given {
    /// As the interface of Rust has it.
    ///
    /// # Safety
    ///
    /// The bytes are readable, and nobody writes them while the body is in use: for a call that
    /// runs no handler. More than [`MTU_BYTES`] are refused unread.
    #[inline]
    pub(crate) unsafe fn body<'a>(self) -> Result<Body<'a>> {
        Ok(match self {
            Self::Short => Body::Short,
            // SAFETY: the caller says so.
            Self::Medium { payload, bytes } => Body::Medium(unsafe { slice(payload, bytes) }?),
            Self::Bulk {
                offset,
                payload,
                bytes,
            } => Body::Bulk {
                offset: offset as u64,
                // SAFETY: the caller says so.
                bytes: unsafe { slice(payload, bytes) }?,
            },
        })
    }
}

unsafe fn slice<'a>(payload: *const c_void, bytes: usize) -> Result<&'a [u8]> {
    if bytes > MTU_BYTES {
        let text = format!("payload_bytes is {bytes}; a message has up to {MTU_BYTES}");
        return Err(Refused::limit(text));
    }
    if bytes == 0 {
        return Ok(&[]);
    }
    let first = given(payload.cast_mut(), "payload")?;
    // SAFETY: the caller says so; bytes need no alignment.
    Ok(unsafe { std::slice::from_raw_parts(first.cast().as_ptr(), bytes) })
}

/// A time limit; none for `AM_FOREVER`, and for 30 years.
#[inline]
pub(crate) fn limit(microseconds: u64) -> Option<Duration> {
    const YEARS_30_US: u64 = 30 * 365 * 86_400 * 1_000_000;
    (microseconds != FOREVER && microseconds < YEARS_30_US)
        .then(|| Duration::from_micros(microseconds))
}

const EVENTS: [(c_uint, EventMask); 3] = [
    (1, EventMask::MESSAGE),
    (2, EventMask::SPACE),
    (4, EventMask::RETURNED),
];

/// The mask of C.
pub(crate) fn mask(bits: c_uint) -> Result<EventMask> {
    if bits == 0 || bits & !7 != 0 {
        let text = format!("the mask is {bits:#x}: give one or more of AM_EVENT_MESSAGE, ...");
        return Err(Refused::limit(text));
    }
    let chosen = EVENTS.into_iter().filter(|(bit, _)| bits & bit != 0);
    Ok(chosen.fold(EventMask::NONE, |all, (_, event)| all | event))
}

/// And back.
pub(crate) fn bits(mask: EventMask) -> c_uint {
    let present = EVENTS
        .into_iter()
        .filter(|(_, event)| mask.intersects(*event));
    present.map(|(bit, _)| bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_bits_are_inverses() {
        for each in 1..8 {
            assert_eq!(bits(mask(each).ok().unwrap()), each);
        }
        for wrong in [0, 8, 9, u32::MAX] {
            assert_eq!(mask(wrong).err().unwrap().code, Code::Limit);
        }
    }

    #[test]
    fn forever_is_no_limit_and_nothing_overflows() {
        assert_eq!(limit(FOREVER), None);
        assert_eq!(limit(FOREVER - 1), None);
        assert_eq!(limit(0), Some(Duration::ZERO));
        assert_eq!(limit(1_500), Some(Duration::from_micros(1_500)));
    }
}
