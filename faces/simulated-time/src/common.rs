//! Condition variables that lie in memory of several processes.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use libc::{clockid_t, pthread_cond_t, pthread_condattr_t};
use viaduct_turns::{Client, Waited, here};

use crate::real;

/// A condition variable that lies in memory of several processes. It is none that the C library
/// knows: where that counts, those who wait have numbers, and those are called below another.
pub(crate) struct Common<'a> {
    next: &'a AtomicU64,
    called: &'a AtomicU64,
    pub(crate) clock: clockid_t,
}

impl Common<'_> {
    /// None: it is one of this process alone.
    ///
    /// # Safety
    ///
    /// It is a condition variable.
    pub(crate) unsafe fn of(condition: *mut pthread_cond_t) -> Option<Self> {
        const SHARED: u32 = 1;
        const MONOTONIC: u32 = 2;
        // SAFETY: the caller's promise; the word is inside, as are the two counts before it.
        let (flags, next, called) = unsafe {
            let flags = condition.cast::<AtomicU32>().add(flags_word());
            let counts = condition.cast::<AtomicU64>();
            (&*flags, &*counts, &*counts.add(1))
        };
        let flags = flags.load(Ordering::Relaxed);
        (flags & SHARED != 0).then_some(Self {
            next,
            called,
            clock: match flags & MONOTONIC {
                0 => libc::CLOCK_REALTIME,
                _ => libc::CLOCK_MONOTONIC,
            },
        })
    }

    /// Waits until it is called; false: the deadline has come.
    pub(crate) fn wait(
        &self,
        client: Client,
        deadline: Option<u64>,
        before: impl FnOnce(),
    ) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        before();
        let is_called = || (self.called.load(Ordering::Relaxed) > number).then_some(());
        let what = c"pthread_cond_wait";
        let was_called = client
            .foreign(what, Waited::Anything, deadline, is_called)
            .is_some();
        if !was_called {
            // No call is lost to who does not wait any more: another is called for nothing.
            self.call(1);
        }
        was_called
    }

    fn call(&self, count: u64) {
        let (next, called) = (&self.next, &self.called);
        let below = called.load(Ordering::Relaxed).saturating_add(count);
        called.store(below.min(next.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// The word of a condition variable that says whether it is one of several processes: it is
/// elsewhere in other versions of the C library.
fn flags_word() -> usize {
    static WORD: OnceLock<usize> = OnceLock::new();
    *WORD.get_or_init(|| {
        const WORDS: usize = size_of::<pthread_cond_t>() / 4;
        let mut attributes = MaybeUninit::<pthread_condattr_t>::uninit();
        let mut condition = MaybeUninit::<pthread_cond_t>::zeroed();
        // SAFETY: both are made before they are used, and are of the C library's size.
        let words = unsafe {
            libc::pthread_condattr_init(attributes.as_mut_ptr());
            libc::pthread_condattr_setpshared(
                attributes.as_mut_ptr(),
                libc::PTHREAD_PROCESS_SHARED,
            );
            real::pthread_cond_init(condition.as_mut_ptr(), attributes.as_ptr());
            condition.as_ptr().cast::<[u32; WORDS]>().read()
        };
        words
            .iter()
            .position(|word| *word != 0)
            .unwrap_or(WORDS - 1)
    })
}

/// Calls so many who wait at a condition variable of several processes; false: it is another.
///
/// # Safety
///
/// It is one.
pub(crate) unsafe fn has_called(condition: *mut pthread_cond_t, count: u64) -> bool {
    // SAFETY: the caller's promise.
    match (here(), unsafe { Common::of(condition) }) {
        (Some(client), Some(common)) => {
            client.synchronise();
            common.call(count);
            true
        }
        _ => false,
    }
}
