//! Completion channels and completion queues.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use viaduct_rdma::Result;
use viaduct_rdma::verbs::Completion;
use viaduct_verbs_abi::*;

use crate::call::{self, invalid};
use crate::context::context_of;
use crate::extended_completion::Reading;
use crate::fabric::CompletionQueueOptions;
use crate::objects::{
    self, CompletionChannel, CompletionQueue, find, give_boxed, int, take, trust, zeroed,
};

/// `ibv_create_comp_channel`.
///
/// # Safety
///
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut IbvContext) -> *mut IbvCompChannel {
    call::pointer("ibv_create_comp_channel", || {
        // SAFETY: the caller says so.
        let handle = unsafe { context_of(context) }?
            .handle
            .create_completion_channel()?;
        Ok(objects::give(CompletionChannel {
            verbs: IbvCompChannel {
                context,
                fd: handle.fd(),
                refcnt: 0,
            },
            handle,
        }))
    })
}

/// `ibv_destroy_comp_channel`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_comp_channel(channel: *mut IbvCompChannel) -> c_int {
    call::status("ibv_destroy_comp_channel", || {
        take::<CompletionChannel>(channel, |channel| channel.handle.destroy())
    })
}

/// What a completion queue is made with, by either interface.
pub(crate) struct Wanted {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) vector: u32,
    pub(crate) has_timestamps: bool,
    pub(crate) ignores_overrun: bool,
}

/// # Safety
///
/// The context is open.
pub(crate) unsafe fn create(context: *mut IbvContext, wanted: &Wanted) -> Result<*mut IbvCq> {
    // SAFETY: as promised by the caller.
    let owner = unsafe { context_of(context) }?.handle;
    let channel = if wanted.channel.is_null() {
        None
    } else {
        Some(find::<CompletionChannel>(wanted.channel)?)
    };
    // Its address is its cookie, by which events lead back to it: it is known before the queue.
    let mut place = Box::<CompletionQueue>::new_uninit();
    let handle = owner.create_completion_queue(&CompletionQueueOptions {
        entries: wanted.entries,
        cookie: place.as_ptr() as u64,
        // SAFETY: it is live.
        channel: channel.map(|channel| unsafe { (*channel).handle }),
        vector: wanted.vector,
        has_timestamps: wanted.has_timestamps,
        ignores_overrun: wanted.ignores_overrun,
    })?;
    let mut verbs: IbvCqEx = zeroed();
    verbs.base.context = context;
    verbs.base.channel = wanted.channel;
    verbs.base.cq_context = wanted.cq_context;
    verbs.base.cqe = int(handle.entries()?);
    place.write(CompletionQueue {
        verbs,
        handle,
        reading: UnsafeCell::new(Reading::new()),
    });
    if let Some(channel) = channel {
        // SAFETY: it is live.
        unsafe { (*channel).verbs.refcnt += 1 };
    }
    // SAFETY: written above.
    Ok(give_boxed(unsafe { place.assume_init() }))
}

/// `ibv_create_cq`.
///
/// # Safety
///
/// The context is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut IbvContext,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut IbvCompChannel,
    vector: c_int,
) -> *mut IbvCq {
    call::pointer("ibv_create_cq", || {
        let entries = u32::try_from(entries).map_err(|_| invalid("fewer than no entries"))?;
        let vector = u32::try_from(vector).map_err(|_| invalid("a vector below 0"))?;
        let wanted = Wanted {
            entries,
            cq_context,
            channel,
            vector,
            has_timestamps: false,
            ignores_overrun: false,
        };
        // SAFETY: the caller says so.
        unsafe { create(context, &wanted) }
    })
}

/// `ibv_resize_cq`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_resize_cq(queue: *mut IbvCq, entries: c_int) -> c_int {
    call::status("ibv_resize_cq", || {
        let queue = find::<CompletionQueue>(queue)?;
        let entries = u32::try_from(entries).map_err(|_| invalid("fewer than no entries"))?;
        // SAFETY: it is live.
        let queue = unsafe { &mut *queue };
        queue.verbs.base.cqe = int(queue.handle.resize(entries)?);
        Ok(())
    })
}

/// `ibv_destroy_cq`: waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_cq(queue: *mut IbvCq) -> c_int {
    call::status("ibv_destroy_cq", || {
        let mut channel = null_mut();
        take::<CompletionQueue>(queue, |queue| {
            channel = queue.verbs.base.channel;
            queue.handle.destroy()
        })?;
        if let Ok(channel) = find::<CompletionChannel>(channel) {
            // SAFETY: it is live.
            unsafe { (*channel).verbs.refcnt -= 1 };
        }
        Ok(())
    })
}

/// `ibv_ack_cq_events`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_cq_events(queue: *mut IbvCq, events: u32) {
    let _ = call::status("ibv_ack_cq_events", || {
        let queue = find::<CompletionQueue>(queue)?;
        // SAFETY: it is live.
        let queue = unsafe { &mut *queue };
        let seen = &mut queue.verbs.base.comp_events_completed;
        *seen = seen.wrapping_add(events);
        queue.handle.acknowledge_events(events);
        Ok(())
    });
}

/// A completion as programs read it.
#[inline(always)]
pub(crate) fn to_c(completion: &Completion) -> IbvWc {
    IbvWc {
        wr_id: completion.request,
        status: completion.status.number() as c_int,
        opcode: completion.opcode.number() as c_int,
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_length,
        imm_data: completion.immediate,
        qp_num: completion.queue_pair,
        src_qp: completion.source_queue_pair,
        wc_flags: completion.flags,
        pkey_index: completion.partition_key_index,
        slid: completion.source_lid,
        sl: completion.service_level,
        dlid_path_bits: completion.destination_path_bits,
    }
}

/// `ibv_poll_cq`: how many completions, or below 0.
pub(crate) unsafe extern "C" fn poll_cq(
    queue: *mut IbvCq,
    most: c_int,
    completions: *mut IbvWc,
) -> c_int {
    let found = call::run("ibv_poll_cq", || {
        let most = usize::try_from(most).map_err(|_| invalid("fewer than no completions"))?;
        // SAFETY: the program passes a live queue.
        let queue = unsafe { &(*trust::<CompletionQueue>(queue)).handle };
        let mut place = completions;
        let count = queue.poll_each(most, |completion| {
            // SAFETY: the program has room for `most`.
            unsafe { place.write(to_c(completion)) };
            place = place.wrapping_add(1);
        })?;
        Ok(count as c_int)
    });
    found.unwrap_or_else(|number| -number)
}

/// `ibv_req_notify_cq`.
pub(crate) unsafe extern "C" fn req_notify_cq(queue: *mut IbvCq, solicited: c_int) -> c_int {
    call::status("ibv_req_notify_cq", || {
        // SAFETY: the program passes a live queue.
        let queue = unsafe { &(*trust::<CompletionQueue>(queue)).handle };
        queue.arm(solicited != 0)
    })
}
