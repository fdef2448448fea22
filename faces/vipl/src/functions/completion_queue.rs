//! Completion queues.

use viaduct_provider::via::Queue;
use viaduct_provider::{CompletionEntry, Error, Provider as _, Result, ReturnCode};

use crate::abi::{
    VipBoolean, VipCqCallback, VipCqHandle, VipNicHandle, VipPvoid, VipReturn, VipUlong,
    VipViHandle,
};
use crate::call::{boolean, call, completion_queue_handle, given, limit, nic_handle, pointer};
use crate::fabric::{fabric, on_fabric};
use crate::handlers::completion_handler;

/// Makes a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateCQ(
    NicHandle: VipNicHandle,
    EntryCount: VipUlong,
    CQHandle: *mut VipCqHandle,
) -> VipReturn {
    call("VipCreateCQ", || {
        let nic = nic_handle(NicHandle)?;
        let place = given(CQHandle, "CQHandle")?;
        let queue = fabric().create_completion_queue(nic, entries(EntryCount)?)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { place.write(pointer(queue.bits())) };
        Ok(VipReturn::Success)
    })
}

/// Destroys it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyCQ(CQHandle: VipCqHandle) -> VipReturn {
    call("VipDestroyCQ", || {
        fabric().destroy_completion_queue(completion_queue_handle(CQHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// Changes how many entries it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipResizeCQ(CQHandle: VipCqHandle, EntryCount: VipUlong) -> VipReturn {
    call("VipResizeCQ", || {
        let queue = completion_queue_handle(CQHandle)?;
        fabric().resize_completion_queue(queue, entries(EntryCount)?)?;
        Ok(VipReturn::Success)
    })
}

/// Takes the oldest entry, if there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQDone(
    CQHandle: VipCqHandle,
    ViHandle: *mut VipViHandle,
    RecvQueue: *mut VipBoolean,
) -> VipReturn {
    call("VipCQDone", || {
        let places = (given(ViHandle, "ViHandle")?, given(RecvQueue, "RecvQueue")?);
        let Some(entry) =
            on_fabric!(completion_done | completion_done(completion_queue_handle(CQHandle)?))?
        else {
            return Ok(VipReturn::NotDone);
        };
        let (vi, is_receive) = entry_to_c(entry);
        // SAFETY: the program gives variables for the results.
        unsafe {
            places.0.write(vi);
            places.1.write(is_receive);
        }
        Ok(VipReturn::Success)
    })
}

/// Waits for an entry and takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQWait(
    CQHandle: VipCqHandle,
    Timeout: VipUlong,
    ViHandle: *mut VipViHandle,
    RecvQueue: *mut VipBoolean,
) -> VipReturn {
    call("VipCQWait", || {
        let places = (given(ViHandle, "ViHandle")?, given(RecvQueue, "RecvQueue")?);
        let queue = completion_queue_handle(CQHandle)?;
        let (vi, is_receive) = entry_to_c(on_fabric!(
            completion_wait | completion_wait(queue, limit(Timeout))
        )?);
        // SAFETY: the program gives variables for the results.
        unsafe {
            places.0.write(vi);
            places.1.write(is_receive);
        }
        Ok(VipReturn::Success)
    })
}

/// Has a handler called with the next entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQNotify(
    CQHandle: VipCqHandle,
    Context: VipPvoid,
    Handler: VipCqCallback,
) -> VipReturn {
    call("VipCQNotify", || {
        let handler = completion_handler(Context, Handler)?;
        fabric().completion_notify(completion_queue_handle(CQHandle)?, handler)?;
        Ok(VipReturn::Success)
    })
}

#[inline(always)]
fn entry_to_c(entry: CompletionEntry) -> (VipViHandle, VipBoolean) {
    (
        pointer(entry.vi.bits()),
        boolean(entry.queue == Queue::Receive),
    )
}

fn entries(count: VipUlong) -> Result<u32> {
    u32::try_from(count).map_err(|_| {
        Error::new(
            ReturnCode::Resource,
            format!("EntryCount {count} is more than the MaxCQEntries that VipQueryNic reports"),
        )
    })
}
