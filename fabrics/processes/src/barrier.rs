//! Barriers that the one who sleeps makes for all, so that those who wake others need none.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

/// Keeps this thread's stores before its loads towards whoever calls [`barrier_everywhere`].
#[inline]
pub fn light_barrier() {
    if has_barrier() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Makes the stores of this thread visible to every linked process, and theirs to it, without
/// their help.
pub fn barrier_everywhere() {
    fence(Ordering::SeqCst);
    if has_barrier() {
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}

/// Registers this process for the barrier of others; whether there is one.
#[inline]
pub fn has_barrier() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED)
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
    })
}
