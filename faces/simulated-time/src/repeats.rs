//! Threads that ask `epoll` in a loop and are told the same at once each time, such as one of UCX's
//! that may not yet do anything about what it is told of: each of these calls is a turn, and at
//! 200 ns each they are most turns of a program.
//!
//! When such a loop has turned often with the same result, and has taken the same time and made the
//! same calls each time, its thread waits until another of its process has had the turn, which
//! alone can end the loop but for what else there is to be told of, or time. It goes on at the time
//! of one of its calls, as if it had made those between, with what there is to be told then. Where
//! nobody has the turn it looks again itself after a while, which grows.

use core::cell::RefCell;

use libc::epoll_event;
use viaduct_turns::{Client, Waited, activity};

use crate::cost;

/// Calls after which it is a loop.
const CALLS_MIN: u32 = 16;
/// Calls that a wait stands for at most, the first time, and at last.
const CALLS_FIRST: u64 = 16;
const CALLS_LAST: u64 = 512;

#[derive(Default)]
struct Loop {
    /// What was told, and by whom.
    told: Vec<(u32, u64)>,
    epoll: i32,
    /// The thread's clock behind the last call, and what it had done by then.
    end: u64,
    done: u64,
    /// From there to the next call.
    gap: (u64, u64),
    calls: u32,
}

thread_local! {
    static LOOP: RefCell<Loop> = RefCell::default();
}

/// A call that is made: when, and what the thread had done before.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    clock: u64,
    done: u64,
}

impl Made {
    pub(crate) fn now(client: Client) -> Self {
        let clock = client.now();
        let done = activity();
        Self { clock, done }
    }
}

/// A call that has told this. True: the thread has waited, in place of some calls, and asks again.
pub(crate) fn has_waited(client: Client, made: Made, epoll: i32, told: &[epoll_event]) -> bool {
    let told: Vec<(u32, u64)> = told.iter().map(|event| (event.events, event.u64)).collect();
    let look = LOOP.with_borrow_mut(|known| known.note(client.now(), made, epoll, told));
    if let Some((length, calls)) = look {
        wait(client, length, calls);
    }
    LOOP.with_borrow_mut(|known| {
        known.end = client.now();
        known.done = activity();
    });
    look.is_some()
}

impl Loop {
    /// How long a turn of the loop takes, and how many calls a wait may stand for; none: it is no
    /// loop.
    fn note(
        &mut self,
        now: u64,
        made: Made,
        epoll: i32,
        told: Vec<(u32, u64)>,
    ) -> Option<(u64, u64)> {
        let gap = (
            made.clock.wrapping_sub(self.end),
            made.done.wrapping_sub(self.done),
        );
        let is_at_once = now.wrapping_sub(made.clock) == cost::SYSTEM_CALL;
        let is_same = is_at_once && epoll == self.epoll && told == self.told && gap == self.gap;
        self.calls = if is_same { self.calls + 1 } else { 0 };
        (self.told, self.epoll, self.gap) = (told, epoll, gap);
        let beyond = self.calls.checked_sub(CALLS_MIN)?;
        let calls = (CALLS_FIRST << beyond.min(16)).min(CALLS_LAST);
        Some((gap.0 + cost::SYSTEM_CALL, calls))
    }
}

/// Returns at the time of one of so many calls, each of which would take so long.
fn wait(client: Client, length: u64, calls: u64) {
    let begin = client.now();
    let mut is_first = true;
    let until = begin.saturating_add(length.saturating_mul(calls));
    let again = || (!core::mem::replace(&mut is_first, false)).then_some(());
    client.foreign(c"epoll_wait", Waited::Process, Some(until), again);
    let passed = client.now() - begin;
    client.charge(passed.next_multiple_of(length) - passed);
}
