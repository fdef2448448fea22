//! Handlers of signals: each that a program sets is called by one of ours, which has the wait end
//! that the signal interrupts (`interruptions`). The program sees its own.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::{sigaction as Action, sighandler_t, siginfo_t};

use crate::{counter, interruptions, io_uring, loops, real, steps};

/// Signals have the numbers below.
const SIGNALS: usize = 65;

/// What the program has set for each signal, and with which flags.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];

/// Signals whose handlers, set by `signal`, end calls: `siginterrupt`.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// Takes the place of every handler.
extern "C-unwind" fn handle(number: c_int, about: *mut siginfo_t, context: *mut c_void) {
    let flags = FLAGS[number as usize].load(Ordering::Relaxed);
    let handler = HANDLERS[number as usize].load(Ordering::Relaxed);
    let error = real::errno();
    interruptions::handled(flags & libc::SA_RESTART != 0);
    real::set_errno(error);
    // SAFETY: the program has set it. One that takes the number alone finds it where it is.
    let handler: extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { mem::transmute(handler) };
    handler(number, about, context);
}

fn own_handler() -> sighandler_t {
    handle as *const () as usize
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(number: c_int, new: *const Action, old: *mut Action) -> c_int {
    let slot = usize::try_from(number).ok().filter(|slot| *slot < SIGNALS);
    let is_ours = number == loops::number();
    if number == libc::SIGTRAP && !new.is_null() {
        steps::give_up();
    }
    // SAFETY: the caller's arguments; an action of zeros is one.
    unsafe {
        let (Some(slot), Some(_), false) = (slot, viaduct_turns::local(), is_ours) else {
            return real::sigaction(number, new, old);
        };
        match number {
            libc::SIGSEGV => return counter::OF_PROGRAM.set_action(new, old),
            libc::SIGSYS => return io_uring::OF_PROGRAM.set_action(new, old),
            _ => {}
        }
        let (handlers, flags) = (&HANDLERS[slot], &FLAGS[slot]);
        let before = (
            handlers.load(Ordering::Relaxed),
            flags.load(Ordering::Relaxed),
        );
        let mut own = new.as_ref().copied();
        if let Some(new) = &mut own {
            counter::open_ours(&raw mut new.sa_mask);
            if ![libc::SIG_DFL, libc::SIG_IGN].contains(&new.sa_sigaction) {
                // Before it can be called.
                handlers.store(new.sa_sigaction, Ordering::Relaxed);
                flags.store(new.sa_flags, Ordering::Relaxed);
                new.sa_sigaction = own_handler();
                new.sa_flags |= libc::SA_SIGINFO;
            }
        }
        let set = own.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut was: Action = mem::zeroed();
        let result = real::sigaction(number, set, &raw mut was);
        if result != 0 {
            handlers.store(before.0, Ordering::Relaxed);
            flags.store(before.1, Ordering::Relaxed);
        } else if !old.is_null() {
            if was.sa_sigaction == own_handler() {
                was.sa_sigaction = before.0;
                was.sa_flags &= !libc::SA_SIGINFO | before.1;
            }
            old.write(was);
        }
        result
    }
}

/// Sets a handler with these flags, as `signal` and its like do.
///
/// # Safety
///
/// It is one, or a word for none.
unsafe fn set(number: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: an action of zeros is one, and masks nothing.
    unsafe {
        let mut new: Action = mem::zeroed();
        let mut old: Action = mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        match sigaction(number, &raw const new, &raw mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    let ends = 1_u64
        .checked_shl(number as u32)
        .is_some_and(|bit| ENDING.load(Ordering::Relaxed) & bit != 0);
    let flags = if ends { 0 } else { libc::SA_RESTART };
    // SAFETY: the caller's handler.
    unsafe { set(number, handler, flags) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's handler.
    unsafe { signal(number, handler) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's handler.
    unsafe { set(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER) }
}

/// What `signal` is for programs that are compiled for the standards alone.
///
/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's handler.
    unsafe { sysv_signal(number, handler) }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn siginterrupt(number: c_int, ends: c_int) -> c_int {
    // SAFETY: an action of zeros is one, and has room.
    unsafe {
        let mut action: Action = mem::zeroed();
        if sigaction(number, ptr::null(), &raw mut action) != 0 {
            return -1;
        }
        let bit = 1_u64.checked_shl(number as u32).unwrap_or(0);
        if ends == 0 {
            ENDING.fetch_and(!bit, Ordering::Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        } else {
            ENDING.fetch_or(bit, Ordering::Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        }
        sigaction(number, &raw const action, ptr::null_mut())
    }
}
