//! Children made by `fork`.
//!
//! A child has none of this library's threads, and everything that its parent's peers write was
//! addressed to the parent. So the memory of connections is not handed down
//! ([`crate::segment::Segment`]), and every handle is dead in a child: each call there fails and
//! says why. Memory that the program allocated as shared stays, as any shared memory does.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use viaduct_provider::{Error, ReturnCode};

use crate::{completion_queue, nic, vi};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Has every child from now on know what it is. Called before the first thing is made that a child
/// must not use.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the function may run at any moment of a fork: it takes no lock and allocates
        // nothing. Without memory for one more handler, memory is kept from children all the same.
        unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
    });
}

unsafe extern "C" fn begin_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    vi::forget_all();
    completion_queue::forget_all();
    nic::forget_all();
}

/// Why a call in a child fails; `None` in a process that is no such child.
pub(crate) fn refusal(code: ReturnCode) -> Option<Error> {
    // Relaxed: stored before the child ran anything else.
    IS_CHILD.load(Ordering::Relaxed).then(|| {
        Error::new(
            code,
            "this process was forked after its parent had opened a NIC, which the child cannot \
             use: fork before the NIC is opened, or run a program in the child (exec)",
        )
    })
}
