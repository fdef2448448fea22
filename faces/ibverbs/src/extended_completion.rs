//! Completion queues that are read field by field.

use std::ffi::{c_int, c_uint};

use viaduct_rdma::verbs::{Completion, CompletionStatus};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid, unsupported};
use crate::completion::{Wanted, create};
use crate::objects::{CompletionQueue, find, given, trust, zeroed};

/// Where a program is that reads.
pub(crate) struct Reading {
    /// Held from a start that found something to its end.
    lock: libc::pthread_mutex_t,
    /// Whether one thread alone reads, so that nothing is held.
    is_single: bool,
    completion: Completion,
}

impl Reading {
    pub(crate) fn new() -> Self {
        Self {
            lock: zeroed(),
            is_single: false,
            completion: Completion::default(),
        }
    }
}

const KNOWN_FIELDS: u64 = WC_EX_WITH_BYTE_LEN
    | WC_EX_WITH_IMM
    | WC_EX_WITH_QP_NUM
    | WC_EX_WITH_SRC_QP
    | WC_EX_WITH_SLID
    | WC_EX_WITH_SL
    | WC_EX_WITH_DLID_PATH_BITS
    | WC_EX_WITH_COMPLETION_TIMESTAMP
    | WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut IbvContext,
    attributes: *mut IbvCqInitAttrEx,
) -> *mut IbvCqEx {
    call::pointer("ibv_create_cq_ex", || {
        // SAFETY: the program passes its attributes.
        let attributes = unsafe { given(attributes, "no attributes") }?;
        if attributes.wc_flags & !KNOWN_FIELDS != 0 {
            return Err(unsupported("a field of completions that is not known"));
        }
        if attributes.comp_mask & !(CQ_INIT_ATTR_MASK_FLAGS | CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(unsupported("a bit of comp_mask that is not known"));
        }
        let flags = if attributes.comp_mask & CQ_INIT_ATTR_MASK_FLAGS == 0 {
            0
        } else {
            attributes.flags
        };
        let known = CREATE_CQ_ATTR_SINGLE_THREADED | CREATE_CQ_ATTR_IGNORE_OVERRUN;
        if flags & !known != 0 {
            return Err(unsupported("a flag that is not known"));
        }
        let times = WC_EX_WITH_COMPLETION_TIMESTAMP | WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
        let wanted = Wanted {
            entries: attributes.cqe,
            cq_context: attributes.cq_context,
            channel: attributes.channel,
            vector: attributes.comp_vector,
            has_timestamps: attributes.wc_flags & times != 0,
            ignores_overrun: flags & CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
        };
        // SAFETY: the program passes an open context.
        let queue = find::<CompletionQueue>(unsafe { create(context, &wanted) }?)?;
        // SAFETY: it is live, and nobody else has it yet.
        let queue = unsafe { &mut *queue };
        queue.reading.get_mut().is_single = flags & CREATE_CQ_ATTR_SINGLE_THREADED != 0;
        let verbs = &mut queue.verbs;
        verbs.start_poll = Some(start_poll);
        verbs.next_poll = Some(next_poll);
        verbs.end_poll = Some(end_poll);
        verbs.read_opcode = Some(read_opcode);
        verbs.read_vendor_err = Some(read_vendor_err);
        verbs.read_byte_len = Some(read_byte_len);
        verbs.read_imm_data = Some(read_imm_data);
        verbs.read_qp_num = Some(read_qp_num);
        verbs.read_src_qp = Some(read_src_qp);
        verbs.read_wc_flags = Some(read_wc_flags);
        verbs.read_slid = Some(read_slid);
        verbs.read_sl = Some(read_sl);
        verbs.read_dlid_path_bits = Some(read_dlid_path_bits);
        verbs.read_completion_ts = Some(read_completion_ts);
        verbs.read_cvlan = Some(read_cvlan);
        verbs.read_flow_tag = Some(read_flow_tag);
        verbs.read_tm_info = Some(read_tm_info);
        verbs.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
        Ok(std::ptr::from_mut(verbs))
    })
}

/// The next completion into `reading`: 0, or ENOENT when there is none.
///
/// # Safety
///
/// The queue is live, and this thread reads it.
unsafe fn next(queue: *mut IbvCqEx) -> c_int {
    // SAFETY: as promised by the caller.
    let object = unsafe { trust::<CompletionQueue>(queue.cast()) };
    let mut found = [Completion::default(); 1];
    // SAFETY: it is live.
    let count = call::run("ibv_start_poll", || unsafe {
        (*object).handle.poll(&mut found)
    });
    match count {
        Ok(0) => libc::ENOENT,
        Ok(_) => {
            // SAFETY: this thread reads it.
            unsafe {
                (*(*object).reading.get()).completion = found[0];
                (*queue).status = found[0].status.number() as c_int;
                (*queue).wr_id = found[0].request;
            }
            0
        }
        Err(number) => number,
    }
}

/// # Safety
///
/// The queue is live.
unsafe fn reading(queue: *mut IbvCqEx) -> *mut Reading {
    // SAFETY: as promised by the caller.
    unsafe { (*trust::<CompletionQueue>(queue.cast())).reading.get() }
}

unsafe extern "C" fn start_poll(queue: *mut IbvCqEx, attributes: *mut IbvPollCqAttr) -> c_int {
    // SAFETY: the program passes null or its attributes.
    if unsafe { attributes.as_ref() }.is_some_and(|attributes| attributes.comp_mask != 0) {
        return call::status("ibv_start_poll", || {
            Err(invalid("no bit of comp_mask is known"))
        });
    }
    // SAFETY: the program passes a live queue.
    let reading = unsafe { reading(queue) };
    // SAFETY: as above.
    unsafe {
        if (*reading).is_single {
            return next(queue);
        }
        libc::pthread_mutex_lock(&raw mut (*reading).lock);
        let answer = next(queue);
        if answer != 0 {
            libc::pthread_mutex_unlock(&raw mut (*reading).lock);
        }
        answer
    }
}

unsafe extern "C" fn next_poll(queue: *mut IbvCqEx) -> c_int {
    // SAFETY: the program passes a queue that it reads.
    unsafe { next(queue) }
}

unsafe extern "C" fn end_poll(queue: *mut IbvCqEx) {
    // SAFETY: the program passes a queue that it reads.
    unsafe {
        let reading = reading(queue);
        if !(*reading).is_single {
            libc::pthread_mutex_unlock(&raw mut (*reading).lock);
        }
    }
}

macro_rules! fields {
    ($(fn $name:ident($completion:ident) -> $type:ty { $value:expr })+) => {$(
        unsafe extern "C" fn $name(queue: *mut IbvCqEx) -> $type {
            // SAFETY: the program passes a queue that it reads.
            let $completion = unsafe { &(*reading(queue)).completion };
            $value
        }
    )+};
}

fields! {
    fn read_opcode(completion) -> c_int { completion.opcode.number() as c_int }
    fn read_vendor_err(completion) -> u32 { completion.vendor_error }
    fn read_byte_len(completion) -> u32 { completion.byte_length }
    fn read_imm_data(completion) -> u32 { completion.immediate }
    fn read_qp_num(completion) -> u32 { completion.queue_pair }
    fn read_src_qp(completion) -> u32 { completion.source_queue_pair }
    fn read_wc_flags(completion) -> c_uint {
        // What an error leaves there means nothing.
        if completion.status == CompletionStatus::Success { completion.flags } else { 0 }
    }
    fn read_slid(completion) -> u32 { u32::from(completion.source_lid) }
    fn read_sl(completion) -> u8 { completion.service_level }
    fn read_dlid_path_bits(completion) -> u8 { completion.destination_path_bits }
    fn read_completion_ts(completion) -> u64 { completion.timestamp }
    fn read_completion_wallclock_ns(completion) -> u64 { wall_clock(completion.timestamp) }
}

unsafe extern "C" fn read_cvlan(_: *mut IbvCqEx) -> u16 {
    0
}

unsafe extern "C" fn read_flow_tag(_: *mut IbvCqEx) -> u32 {
    0
}

unsafe extern "C" fn read_tm_info(_: *mut IbvCqEx, info: *mut IbvWcTmInfo) {
    // SAFETY: the program passes null or a place.
    if let Some(info) = unsafe { info.as_mut() } {
        (info.tag, info.private) = (0, 0);
    }
}

/// A time of `CLOCK_MONOTONIC` as one of the clock on the wall.
fn wall_clock(monotonic_ns: u64) -> u64 {
    let now = |clock| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a place for the time.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let (wall, here) = (now(libc::CLOCK_REALTIME), now(libc::CLOCK_MONOTONIC));
    wall.wrapping_sub(here).wrapping_add(monotonic_ns)
}

/// `ibv_modify_cq`: to tell of several completions at once is a hint that is not taken.
pub(crate) unsafe extern "C" fn modify_cq(
    queue: *mut IbvCq,
    attributes: *mut IbvModifyCqAttr,
) -> c_int {
    call::status("ibv_modify_cq", || {
        find::<CompletionQueue>(queue)?;
        // SAFETY: the program passes its attributes.
        unsafe { given(attributes, "no attributes") }?;
        Err(unsupported("moderation of completions"))
    })
}
