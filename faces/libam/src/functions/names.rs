//! Names as text, and the translation table.

use std::ffi::c_char;

use viaduct_am::{Key, Name, TABLE_ENTRIES_MAX};

use crate::abi::{Code, Endpoint, NAME_TEXT_BYTES, NameBytes};
use crate::call::{Refused, Result, call, call_outside};
use crate::convert::{given, handle};
use crate::objects::Found;

/// Writes a name as text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_name_to_text(
    name: *const NameBytes,
    text: *mut c_char,
    text_bytes: usize,
) -> Code {
    call("am_name_to_text", || {
        // SAFETY: the program gives a name.
        let name = unsafe { read(name) }?;
        let place = given(text, "text")?.cast::<u8>();
        if text_bytes < NAME_TEXT_BYTES {
            let text = format!(
                "text_bytes is {text_bytes}; a name takes {NAME_TEXT_BYTES}, AM_NAME_TEXT_BYTES"
            );
            return Err(Refused::limit(text));
        }
        let digits = name.to_string();
        // SAFETY: the program gives as many bytes as it says, which are enough.
        unsafe {
            let place = place.as_ptr();
            place.copy_from_nonoverlapping(digits.as_ptr(), digits.len());
            place.add(digits.len()).write(0);
        }
        Ok(())
    })
}

/// Reads it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_name_from_text(text: *const c_char, name: *mut NameBytes) -> Code {
    call("am_name_from_text", || {
        let first = given(text.cast_mut(), "text")?.cast::<u8>();
        let place = given(name, "name")?;
        let mut digits = Vec::with_capacity(NAME_TEXT_BYTES);
        // One more than a name has is enough to know that it is none.
        while digits.len() < NAME_TEXT_BYTES {
            // SAFETY: the program gives a text that ends with NUL, and none was seen yet.
            match unsafe { first.add(digits.len()).read() } {
                0 => break,
                byte => digits.push(byte),
            }
        }
        if digits.len() == NAME_TEXT_BYTES {
            let text = "the text is longer than a name, which has 64 hexadecimal digits: does a \
                        newline stand behind it?";
            return Err(Refused::new(Code::Name, text));
        }
        let parsed: std::result::Result<Name, _> = String::from_utf8_lossy(&digits).parse();
        let parsed = parsed.map_err(|error| Refused::new(Code::Name, error.to_string()))?;
        let bytes = parsed.to_bytes();
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(NameBytes { bytes }) };
        Ok(())
    })
}

/// Has an index lead to an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_map(
    endpoint: *mut Endpoint,
    index: usize,
    name: *const NameBytes,
    key: u64,
) -> Code {
    call_outside("am_map", || {
        // SAFETY: the program gives a name.
        let name = unsafe { read(name) }?;
        if index >= TABLE_ENTRIES_MAX {
            let text = format!(
                "index {index} is too large; a translation table has {TABLE_ENTRIES_MAX} entries"
            );
            return Err(Refused::limit(text));
        }
        Found::of(handle(endpoint))?
            .with(|endpoint| endpoint.map(index, &name, Key(key)))
            .map_err(|_| {
                let text = format!("{name} is no name of an endpoint: take one from am_get_name");
                Refused::new(Code::Name, text)
            })
    })
}

/// Takes an entry out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_unmap(endpoint: *mut Endpoint, index: usize) -> Code {
    call_outside("am_unmap", || {
        if Found::of(handle(endpoint))?.with(|endpoint| endpoint.unmap(index)) {
            Ok(())
        } else {
            let text = format!("nothing is mapped at index {index}");
            Err(Refused::new(Code::NotMapped, text))
        }
    })
}

/// # Safety
///
/// `name` is NULL, or a name is readable there.
unsafe fn read(name: *const NameBytes) -> Result<Name> {
    let name = given(name.cast_mut(), "name")?;
    // SAFETY: the caller says so; any bytes are a name.
    let NameBytes { bytes } = unsafe { name.read_unaligned() };
    Ok(Name::from_bytes(bytes))
}
