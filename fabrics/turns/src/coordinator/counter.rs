//! The processor's counter of time, which clients may not read.
//!
//! Whether a thread may is a bit of the processor, which a switch between two threads that differ
//! has to change. A virtual machine traps that: it takes 4 us, beside 2.4 us for the switch. So the
//! coordinator's thread forbids itself what its clients forbid themselves. What reads the counter
//! there all the same, as the system's clocks do, faults once and finds it allowed; it is forbidden
//! again before the next switch.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::{mem, ptr};

use libc::{sigaction as Action, siginfo_t};

thread_local! {
    static IS_FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// What faults led to before; none: they come to nobody here.
static BEFORE: OnceLock<Option<Action>> = OnceLock::new();

/// `SI_KERNEL` of `asm-generic/siginfo.h`: a fault without an address.
const SI_KERNEL: c_int = 0x80;

/// This thread does without the counter until this is dropped.
#[derive(Debug)]
pub(super) struct WithoutCounter(PhantomData<*const ()>);

impl WithoutCounter {
    pub(super) fn new() -> Self {
        BEFORE.get_or_init(|| {
            // SAFETY: an action of zeros is one; the handler does what a handler may.
            unsafe {
                let mut action: Action = mem::zeroed();
                action.sa_sigaction = fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut before: Action = mem::zeroed();
                let result = libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before);
                (result == 0).then_some(before)
            }
        });
        let without = Self(PhantomData);
        without.renew();
        without
    }

    /// Before a switch.
    pub(super) fn renew(&self) {
        if !IS_FORBIDDEN.get() && matches!(BEFORE.get(), Some(Some(_))) {
            forbid(true);
        }
    }
}

impl Drop for WithoutCounter {
    fn drop(&mut self) {
        forbid(false);
    }
}

fn forbid(is_forbidden: bool) {
    let how = if is_forbidden {
        libc::PR_TSC_SIGSEGV
    } else {
        libc::PR_TSC_ENABLE
    };
    // A system that cannot has clients that cannot: no switch changes anything.
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TSC, how) };
    IS_FORBIDDEN.set(is_forbidden);
}

/// Allows a thread the counter that has read it, which it then does again. Threads that this one
/// has made meanwhile are forbidden it, too.
extern "C" fn fault(_signal: c_int, about: *mut siginfo_t, _context: *mut c_void) {
    let mut how: c_int = 0;
    // SAFETY: the number has room; the system passes what it knows of the fault.
    let is_counter = unsafe {
        libc::prctl(libc::PR_GET_TSC, &raw mut how);
        (*about).si_code == SI_KERNEL && how == libc::PR_TSC_SIGSEGV
    };
    if is_counter {
        return forbid(false);
    }
    // The instruction faults again, and comes to whom it came before.
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: an action that the system told.
        unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn is_forbidden() -> bool {
        let mut how: c_int = 0;
        // SAFETY: the number has room.
        unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut how) };
        how == libc::PR_TSC_SIGSEGV
    }

    #[test]
    fn clocks_can_be_read_where_the_counter_is_forbidden() {
        let without = WithoutCounter::new();
        assert!(is_forbidden());
        // SAFETY: every x86-64 has the counter.
        let first = unsafe { core::arch::x86_64::_rdtsc() };
        assert!(!is_forbidden());
        without.renew();
        assert!(is_forbidden());
        // SAFETY: as above.
        let read = std::thread::spawn(|| unsafe { core::arch::x86_64::_rdtsc() });
        assert!(read.join().unwrap() > first);
        drop(without);
        assert!(!is_forbidden());
    }
}
