//! Signals that another process sends, passed on to a child.
//!
//! For a program that starts another and waits for it: who ends the first wants to end the second.
//! What a terminal sends (Ctrl-C) goes to both anyway, and is not passed on.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that ask a program to end, or tell it something.
const PASSED: [libc::c_int; 6] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The process number of the child, or 0 before it is started.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The last signal that came before there was a child, or 0.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// From here on this process is not ended by the signals. Call it before the child is started.
///
/// # Errors
///
/// What the system says.
pub fn hold() -> io::Result<()> {
    for signal in PASSED {
        // SAFETY: an action of zeros is one, and the handler calls what a handler may.
        let set = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, ptr::null_mut())
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Passes signals on to a child from here on, and one that came before; to none when it has ended.
pub fn pass_to(child: Option<u32>) {
    let child = child.and_then(|child| i32::try_from(child).ok());
    CHILD.store(child.unwrap_or(0), Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0
        && let Some(child) = child
    {
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(child, early) };
    }
}

/// Asks a child that has not been waited for to end.
pub fn ask_to_end(child: u32) {
    if let Ok(child) = i32::try_from(child) {
        // SAFETY: the call takes numbers; that of a child is nobody else's until it is waited for.
        unsafe { libc::kill(child, libc::SIGTERM) };
    }
}

extern "C" fn pass(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes what it knows of the signal. Above 0 is what the kernel sends by
    // itself, for a terminal.
    if unsafe { (*about).si_code } > 0 {
        return;
    }
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        EARLY.store(signal, Ordering::SeqCst);
        return;
    }
    // SAFETY: the call takes numbers; the place of the error is this thread's.
    unsafe {
        let error = *libc::__errno_location();
        libc::kill(child, signal);
        *libc::__errno_location() = error;
    }
}
