//! Stations.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Options, Policy, Station as Carrier};

use crate::abi::{Code, Station, StationOptions};
use crate::call::{Refused, Result, call_outside, watch_forks};
use crate::convert::{given, handle, limit, pointer};
use crate::objects::{DEVICE, STATIONS, StationObject};

/// Opens this process's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_open(
    options: *const StationOptions,
    station: *mut *mut Station,
) -> Code {
    call_outside("am_open", || {
        let place = given(station, "station")?;
        // SAFETY: the program gives options, or NULL.
        let options = unsafe { read_options(options) }?;
        watch_forks()?;
        let resource = |text: String| Refused::new(Code::Resource, text);
        let identity = Identity::random().map_err(|error| resource(error.to_string()))?;
        let carrier = Carrier::start(Shm::global(), DEVICE, identity, options)
            .map_err(|error| resource(error.to_string()))?;
        // Its short lock is waited for: stations are for any thread.
        let opened = STATIONS.insert(StationObject::new(carrier), true)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(pointer(opened)) };
        Ok(())
    })
}

unsafe fn read_options(options: *const StationOptions) -> Result<Options> {
    let mut read = Options::default();
    let Some(options) = NonNull::new(options.cast_mut()) else {
        return Ok(read);
    };
    // SAFETY: the caller says so; every bit pattern is one of these options.
    let options = unsafe { options.read_unaligned() };
    if options.frames != 0 {
        read.frames = options.frames;
    }
    if read.frames > FRAMES_MAX {
        let text = format!(
            "{} frames are asked for; a station has 1 to {FRAMES_MAX}",
            read.frames
        );
        return Err(Refused::limit(text));
    }
    read.policy = match options.policy {
        0 => Policy::Clock,
        1 => Policy::Random,
        2 => Policy::LeastRecentlyUsed,
        other => return Err(Refused::limit(format!("{other} is no am_policy"))),
    };
    Ok(read)
}

/// `AM_FRAMES_MAX`.
const FRAMES_MAX: u32 = 16_384;

/// Closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_close(station: *mut Station) -> Code {
    call_outside("am_close", || {
        let mut held = STATIONS.hold(handle(station))?;
        if Arc::strong_count(&held.get().uses) > 1 {
            return Err(Refused::state(
                "the station has endpoints or bundles: free them first",
            ));
        }
        // Dropped without the lock: it waits for what was sent.
        drop(STATIONS.remove(handle(station), held));
        Ok(())
    })
}

/// Waits until all that was sent is acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_flush(station: *mut Station, limit_us: u64) -> Code {
    call_outside("am_flush", || {
        let carrier = STATIONS.hold(handle(station))?.get().carrier.clone();
        if carrier.flush(limit(limit_us).unwrap_or(Duration::MAX)) {
            Ok(())
        } else {
            let text = "what was sent is not acknowledged: do its receivers poll?";
            Err(Refused::new(Code::TimedOut, text))
        }
    })
}
