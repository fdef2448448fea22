//! Endpoints.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use viaduct_am::{Key, Options, SharedEndpoint};

use crate::abi::{Code, Endpoint, EndpointOptions, HandlerTable, NameBytes, Station};
use crate::call::{Refused, Result, call_outside};
use crate::convert::{given, handle, pointer, write_optional};
use crate::handlers::Context;
use crate::objects::{ENDPOINTS, EndpointObject, Found, STATIONS, State};

/// Allocates an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_allocate(
    station: *mut Station,
    handlers: *const HandlerTable,
    options: *const EndpointOptions,
    endpoint: *mut *mut Endpoint,
) -> Code {
    call_outside("am_allocate", || {
        let place = given(endpoint, "endpoint")?;
        let handlers = given(handlers.cast_mut(), "handlers")?;
        // SAFETY: the program gives a table; any function, or none, may stand in it.
        let table = unsafe { handlers.read_unaligned() };
        let options = match NonNull::new(options.cast_mut()) {
            // SAFETY: the program gives options; every bit pattern is some.
            Some(options) => unsafe { options.read_unaligned() },
            None => DEFAULT,
        };
        let mut held = STATIONS.hold(handle(station))?;
        let object = held.get();
        let handlers = object.table(&table)?;
        let (carrier, uses) = (object.carrier.clone(), Arc::clone(&object.uses));
        // The use keeps it open from here on.
        drop(held);
        let asked = asked(&options)?;
        let state = State {
            context: Context::new(options.context),
            key: asked.key,
            _use: uses,
        };
        let made = viaduct_am::Endpoint::new(&carrier, &handlers, state, asked);
        let made = made.map_err(|error| Refused::new(Code::Resource, error.to_string()))?;
        let is_shared = options.is_shared != 0;
        let object = match is_shared {
            true => EndpointObject::Shared(Arc::new(SharedEndpoint::new(made))),
            false => EndpointObject::Exclusive(Box::new(made)),
        };
        let allocated = ENDPOINTS.insert(object, is_shared)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(pointer(allocated)) };
        Ok(())
    })
}

const DEFAULT: EndpointOptions = EndpointOptions {
    key: 0,
    credits: 0,
    request_entries: 0,
    segment_bytes: 0,
    context: std::ptr::null_mut(),
    is_shared: 0,
};

fn asked(options: &EndpointOptions) -> Result<Options> {
    let mut asked = Options::new(Key(options.key));
    if options.credits != 0 {
        asked.credits = options.credits;
    }
    if options.request_entries != 0 {
        asked.request_entries = options.request_entries;
    }
    // Asked for here, since what the endpoint asks for ends the program if there is none.
    if Vec::<u8>::new()
        .try_reserve_exact(options.segment_bytes)
        .is_err()
    {
        let bytes = options.segment_bytes;
        let text = format!("there is no memory for a segment of {bytes} bytes");
        return Err(Refused::new(Code::Resource, text));
    }
    asked.segment_bytes = options.segment_bytes;
    Ok(asked)
}

/// Frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_free(endpoint: *mut Endpoint) -> Code {
    call_outside("am_free", || {
        let mut held = ENDPOINTS.hold(handle(endpoint))?;
        match held.get() {
            EndpointObject::Member { .. } => {
                return Err(Refused::state(
                    "the endpoint is in a bundle: remove it from there first",
                ));
            }
            // Who finds it has a clone until the call ends, and clones under this lock only.
            EndpointObject::Shared(shared) if Arc::strong_count(shared) > 1 => {
                return Err(ENDPOINTS.busy());
            }
            EndpointObject::Shared(_) | EndpointObject::Exclusive(_) => {}
        }
        drop(ENDPOINTS.remove(handle(endpoint), held));
        Ok(())
    })
}

/// Its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_get_name(endpoint: *mut Endpoint, name: *mut NameBytes) -> Code {
    call_outside("am_get_name", || {
        let place = given(name, "name")?;
        let found = Found::of(handle(endpoint))?.with(|endpoint| endpoint.name());
        let bytes = found.to_bytes();
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(NameBytes { bytes }) };
        Ok(())
    })
}

/// Its key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_get_key(endpoint: *mut Endpoint, key: *mut u64) -> Code {
    call_outside("am_get_key", || {
        let place = given(key, "key")?;
        let Key(found) = Found::of(handle(endpoint))?.with(|endpoint| endpoint.state().key);
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(found) };
        Ok(())
    })
}

/// Its credits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_get_credits(
    endpoint: *mut Endpoint,
    left: *mut u32,
    outstanding: *mut u32,
) -> Code {
    call_outside("am_get_credits", || {
        let mut found = Found::of(handle(endpoint))?;
        let credits = found.with(|endpoint| (endpoint.credits(), endpoint.outstanding()));
        // SAFETY: the program gives variables for the results, or NULL.
        unsafe {
            write_optional(left, credits.0);
            write_optional(outstanding, credits.1);
        }
        Ok(())
    })
}

/// Copies bytes out of its segment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_segment_read(
    endpoint: *mut Endpoint,
    offset: usize,
    into: *mut c_void,
    bytes: usize,
) -> Code {
    call_outside("am_segment_read", || {
        Found::of(handle(endpoint))?.with(|endpoint| {
            let segment = endpoint.segment();
            let part = &segment[part(segment.len(), offset, bytes)?];
            if !part.is_empty() {
                let into = given(into, "into")?.cast::<u8>();
                // SAFETY: the program gives memory of that size; it cannot have the segment's.
                unsafe { into.as_ptr().copy_from_nonoverlapping(part.as_ptr(), bytes) };
            }
            Ok(())
        })
    })
}

/// Copies bytes into its segment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_segment_write(
    endpoint: *mut Endpoint,
    offset: usize,
    from: *const c_void,
    bytes: usize,
) -> Code {
    call_outside("am_segment_write", || {
        Found::of(handle(endpoint))?.with(|endpoint| {
            let segment = endpoint.segment_mut();
            let range = part(segment.len(), offset, bytes)?;
            let part = &mut segment[range];
            if !part.is_empty() {
                let from = given(from.cast_mut(), "from")?.cast::<u8>();
                // SAFETY: as for reading.
                unsafe {
                    part.as_mut_ptr()
                        .copy_from_nonoverlapping(from.as_ptr(), bytes)
                };
            }
            Ok(())
        })
    })
}

/// A part of a segment.
fn part(segment_bytes: usize, offset: usize, bytes: usize) -> Result<Range<usize>> {
    let end = offset.checked_add(bytes);
    match end.filter(|end| *end <= segment_bytes) {
        Some(end) => Ok(offset..end),
        None => Err(Refused::limit(format!(
            "{bytes} bytes at {offset} are outside the segment, which has {segment_bytes}"
        ))),
    }
}
