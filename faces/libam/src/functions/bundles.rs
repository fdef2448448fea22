//! Bundles.

use std::sync::Arc;

use viaduct_am::Carrier as _;

use crate::abi::{Bundle, Code, Endpoint, Station};
use crate::call::{Refused, call_outside};
use crate::convert::{given, handle, limit, pointer, write_optional};
use crate::handles::Held;
use crate::objects::{BUNDLES, BundleObject, ENDPOINTS, EndpointObject, STATIONS};

/// Makes an empty bundle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_create(station: *mut Station, bundle: *mut *mut Bundle) -> Code {
    call_outside("am_bundle_create", || {
        let place = given(bundle, "bundle")?;
        let mut held = STATIONS.hold(handle(station))?;
        let object = held.get();
        let (carrier, uses) = (object.carrier.clone(), Arc::clone(&object.uses));
        drop(held);
        let made = BundleObject {
            bundle: viaduct_am::Bundle::new(&carrier),
            carrier,
            handles: Vec::new(),
            _use: uses,
        };
        let made = BUNDLES.insert(made, false)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write_unaligned(pointer(made)) };
        Ok(())
    })
}

/// Ends it; its members go on alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_free(bundle: *mut Bundle) -> Code {
    call_outside("am_bundle_free", || {
        let mut held = BUNDLES.hold(handle(bundle))?;
        let object = held.get();
        for member in 0..object.handles.len() {
            let Some(endpoint) = object.handles[member] else {
                continue;
            };
            // Who else holds a member's place finds the bundle held, and lets go at once.
            let mut its_place = loop {
                match ENDPOINTS.hold(endpoint) {
                    Err(refused) if refused.code == Code::Busy => std::thread::yield_now(),
                    outcome => break outcome?,
                }
            };
            release(object, &mut its_place, member);
        }
        drop(BUNDLES.remove(handle(bundle), held));
        Ok(())
    })
}

/// Takes an endpoint in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_insert(bundle: *mut Bundle, endpoint: *mut Endpoint) -> Code {
    call_outside("am_bundle_insert", || {
        let mut bundle_held = BUNDLES.hold(handle(bundle))?;
        let object = bundle_held.get();
        let mut held = ENDPOINTS.hold(handle(endpoint))?;
        let place = held.get();
        let alone = match place {
            EndpointObject::Exclusive(alone) => alone,
            EndpointObject::Shared(_) => {
                return Err(Refused::state(
                    "the endpoint is shared: a bundle takes exclusive ones",
                ));
            }
            EndpointObject::Member { .. } => {
                return Err(Refused::state(
                    "the endpoint is in a bundle already: remove it from there first",
                ));
            }
        };
        if !alone.carrier().is_same(&object.carrier) {
            return Err(Refused::state(
                "the endpoint is of another station than the bundle",
            ));
        }
        // It is moved in two steps, between which nobody else can look.
        let moving = EndpointObject::Member {
            bundle: handle(bundle),
            member: usize::MAX,
        };
        let EndpointObject::Exclusive(alone) = std::mem::replace(place, moving) else {
            unreachable!("it was one just now");
        };
        let member = object.bundle.insert(*alone);
        if member >= object.handles.len() {
            object.handles.resize(member + 1, None);
        }
        object.handles[member] = Some(handle(endpoint));
        *place = EndpointObject::Member {
            bundle: handle(bundle),
            member,
        };
        Ok(())
    })
}

/// Takes it out again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_remove(bundle: *mut Bundle, endpoint: *mut Endpoint) -> Code {
    call_outside("am_bundle_remove", || {
        let mut bundle_held = BUNDLES.hold(handle(bundle))?;
        let object = bundle_held.get();
        let mut held = ENDPOINTS.hold(handle(endpoint))?;
        match *held.get() {
            EndpointObject::Member {
                bundle: its,
                member,
            } if its == handle(bundle) => {
                release(object, &mut held, member);
                Ok(())
            }
            _ => Err(Refused::state("the endpoint is not in this bundle")),
        }
    })
}

/// Has a member go on alone.
fn release(object: &mut BundleObject, held: &mut Held<'_, EndpointObject>, member: usize) {
    if let Some(alone) = object.bundle.remove(member) {
        *held.get() = EndpointObject::Exclusive(Box::new(alone));
    }
    object.handles[member] = None;
}

/// Handles messages of its members, one of each in turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_poll(
    bundle: *mut Bundle,
    limit: usize,
    handled: *mut usize,
) -> Code {
    call_outside("am_bundle_poll", || {
        let count = BUNDLES.hold(handle(bundle))?.get().bundle.poll(limit);
        // SAFETY: the program gives a variable for the result, or NULL.
        unsafe { write_optional(handled, count) };
        Ok(())
    })
}

/// Sleeps until some member has something to poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn am_bundle_wait(bundle: *mut Bundle, limit_us: u64) -> Code {
    call_outside("am_bundle_wait", || {
        let mut held = BUNDLES.hold(handle(bundle))?;
        Ok(held.get().bundle.wait(limit(limit_us))?)
    })
}
