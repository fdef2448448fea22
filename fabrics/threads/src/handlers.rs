//! The provider's thread: it calls error and notify handlers, one after another, without the lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::shared::Shared;

/// Calls handlers until the fabric is closed.
pub(crate) fn work(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    loop {
        let Some(call) = state.agent.next_call() else {
            if state.is_closing {
                return;
            }
            state = shared.wait_for_job(state);
            continue;
        };
        drop(state);
        // A handler that panics has said so; the others go on.
        let _ = catch_unwind(AssertUnwindSafe(|| call.run()));
        state = shared.lock();
        state.agent.running = None;
        shared.wake(&state);
    }
}
