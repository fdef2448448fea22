//! Signals that are sent and waited for.

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr;

use libc::{pid_t, pthread_t, siginfo_t, sigset_t, sigval, timespec};
use viaduct_turns::{Client, Waited, here};

use crate::clocks::after;
use crate::counter::without_ours;
use crate::interruptions::{Interruption, await_handler};
use crate::polls::Limit;
use crate::real::{self, errno, set_errno};
use crate::transfers::before_call;

static NO_TIME: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Sends a signal by a call that says whether it did, to a process; 0: to several, or none that is
/// known.
fn send(number: c_int, process: c_int, send: impl FnOnce() -> c_int) -> c_int {
    let Some(client) = here() else { return send() };
    before_call(client);
    // It may be somebody outside.
    viaduct_turns::tell_outside();
    viaduct_turns::show_time(client.now());
    let result = send();
    let error = errno();
    if result == 0 && number != 0 {
        if process > 0 {
            await_handler(process, number);
        }
        viaduct_turns::let_others_see();
    }
    set_errno(error);
    result
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn kill(process: pid_t, number: c_int) -> c_int {
    // SAFETY: it takes numbers.
    send(number, process, || unsafe { real::kill(process, number) })
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn killpg(group: pid_t, number: c_int) -> c_int {
    // SAFETY: it takes numbers.
    send(number, 0, || unsafe { real::killpg(group, number) })
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn tgkill(process: pid_t, thread: pid_t, number: c_int) -> c_int {
    // SAFETY: it takes numbers.
    send(number, process, || unsafe {
        real::tgkill(process, thread, number)
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigqueue(process: pid_t, number: c_int, value: sigval) -> c_int {
    // SAFETY: the caller's arguments.
    send(number, process, || unsafe {
        real::sigqueue(process, number, value)
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_kill(thread: pthread_t, number: c_int) -> c_int {
    // SAFETY: it has no arguments.
    let process = unsafe { libc::getpid() };
    // SAFETY: the caller's arguments.
    send(number, process, || unsafe {
        real::pthread_kill(thread, number)
    })
}

/// Waits until a handler has run, with these signals masked, or those of the thread if it is null.
///
/// # Safety
///
/// `mask` is null or points to a set.
unsafe fn wait_for_handler(client: Client, what: &CStr, mask: *const sigset_t) -> c_int {
    before_call(client);
    let mut all = MaybeUninit::uninit();
    let mut own = MaybeUninit::uninit();
    // SAFETY: the sets are ours, or the caller's.
    unsafe {
        // A signal that comes between two looks waits for the next.
        libc::sigfillset(all.as_mut_ptr());
        without_ours(libc::SIG_SETMASK, all.as_ptr(), |all| {
            real::pthread_sigmask(libc::SIG_SETMASK, all, own.as_mut_ptr())
        });
        let mask = if mask.is_null() { own.as_ptr() } else { mask };
        client.foreign(what, Waited::Anything, None, || {
            // A poll of nothing has the mask for a moment, in which handlers run.
            let seen = without_ours(libc::SIG_SETMASK, mask, |mask| {
                real::ppoll(ptr::null_mut(), 0, &raw const NO_TIME, mask)
            });
            (seen < 0 && errno() == libc::EINTR).then_some(())
        });
        real::pthread_sigmask(libc::SIG_SETMASK, own.as_ptr(), ptr::null_mut());
    }
    set_errno(libc::EINTR);
    -1
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigsuspend(mask: *const sigset_t) -> c_int {
    // SAFETY: the caller's set.
    unsafe {
        match here() {
            Some(client) => wait_for_handler(client, c"sigsuspend", mask),
            None => real::sigsuspend(mask),
        }
    }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn pause() -> c_int {
    // SAFETY: there is no set.
    unsafe {
        match here() {
            Some(client) => wait_for_handler(client, c"pause", ptr::null()),
            None => real::pause(),
        }
    }
}

/// Takes a signal of a set, and says its number, or waits for one; -1 with EAGAIN when the time is
/// up.
///
/// # Safety
///
/// The set can be read, and `about` is null or has room.
unsafe fn take(
    client: Client,
    what: &CStr,
    (set, about): (*const sigset_t, *mut siginfo_t),
    limit: Limit,
) -> c_int {
    let length = match limit {
        Limit::Wrong => {
            set_errno(libc::EINVAL);
            return -1;
        }
        Limit::Never => None,
        Limit::Picoseconds(length) => Some(length),
    };
    before_call(client);
    let interruption = Interruption::by_any_handler();
    let look = || {
        // SAFETY: the caller's promise.
        let taken = unsafe { real::sigtimedwait(set, about, &raw const NO_TIME) };
        if taken >= 0 || errno() != libc::EAGAIN {
            return Some((taken, errno()));
        }
        interruption.has_come().then_some((-1, libc::EINTR))
    };
    let taken = match (look(), length) {
        (None, Some(0)) => None,
        (None, length) => {
            let deadline = length.map(|length| after(client, length));
            client.foreign(what, Waited::Anything, deadline, look)
        }
        (taken, _) => taken,
    };
    let (taken, error) = taken.unwrap_or((-1, libc::EAGAIN));
    set_errno(error);
    taken
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(
    set: *const sigset_t,
    about: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match here() {
            Some(client) => {
                let limit = Limit::of_timespec(timeout);
                take(client, c"sigtimedwait", (set, about), limit)
            }
            None => real::sigtimedwait(set, about, timeout),
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, about: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match here() {
            Some(client) => take(client, c"sigwaitinfo", (set, about), Limit::Never),
            None => real::sigwaitinfo(set, about),
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(client) = here() else {
            return real::sigwait(set, signal);
        };
        loop {
            let taken = take(client, c"sigwait", (set, ptr::null_mut()), Limit::Never);
            if taken >= 0 {
                signal.write(taken);
                return 0;
            }
            // A handler of another signal has run, which this call does not tell of.
            if errno() != libc::EINTR {
                return errno();
            }
        }
    }
}
