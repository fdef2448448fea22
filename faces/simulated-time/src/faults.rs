//! Signals that are this library's before they are the program's: what the program has set for one
//! is kept here, and is called for what is not the library's.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{SIG_DFL, SIG_IGN, sigaction as Action, siginfo_t};

use crate::{interruptions, real};

/// A handler, as these signals want it.
pub(crate) type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// What the program has set for such a signal; null: nothing.
pub(crate) struct OfProgram(AtomicPtr<Action>);

impl OfProgram {
    pub(crate) const fn nothing() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Has the signal come to this handler from here on.
    pub(crate) fn listen(&self, signal: c_int, handler: Handler) {
        // SAFETY: an action of zeros is one; the handler does what a handler may.
        unsafe {
            let mut action: Action = mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            let mut old: Action = mem::zeroed();
            if real::sigaction(signal, &raw const action, &raw mut old) == 0
                && old.sa_sigaction != action.sa_sigaction
            {
                self.keep(&old);
            }
        }
    }

    fn keep(&self, action: &Action) {
        // Never freed: a handler may be reading it.
        let kept = Box::into_raw(Box::new(*action));
        self.0.store(kept, Ordering::Release);
    }

    fn get(&self) -> Action {
        // SAFETY: null, or never freed. An action of zeros is the default.
        unsafe {
            let kept = self.0.load(Ordering::Acquire).as_ref();
            kept.map_or_else(|| mem::zeroed(), |kept| *kept)
        }
    }

    /// What `sigaction` does of such a signal.
    ///
    /// # Safety
    ///
    /// As for that function.
    pub(crate) unsafe fn set_action(&self, new: *const Action, old: *mut Action) -> c_int {
        let before = self.get();
        // SAFETY: the caller's pointers.
        unsafe {
            if !new.is_null() {
                self.keep(&*new);
            }
            if !old.is_null() {
                old.write(before);
            }
        }
        0
    }

    /// Does what the program wants done about a signal that is not the library's.
    ///
    /// # Safety
    ///
    /// The system has passed these.
    pub(crate) unsafe fn pass_on(
        &self,
        signal: c_int,
        about: *mut siginfo_t,
        context: *mut c_void,
    ) {
        let program = self.get();
        // SAFETY: the caller's promise; the program's handler is what its flags say.
        unsafe {
            let was_sent = (*about).si_code <= 0;
            if was_sent {
                let error = real::errno();
                interruptions::handled(program.sa_flags & libc::SA_RESTART != 0);
                real::set_errno(error);
            }
            match program.sa_sigaction {
                SIG_IGN if was_sent => {}
                SIG_DFL | SIG_IGN => {
                    let default: Action = mem::zeroed();
                    real::sigaction(signal, &raw const default, ptr::null_mut());
                    // An instruction that faults does so again, for good; a call of the system is
                    // not made again.
                    if was_sent || signal == libc::SIGSYS {
                        libc::syscall(
                            libc::SYS_tgkill,
                            libc::getpid(),
                            libc::syscall(libc::SYS_gettid),
                            signal,
                        );
                    }
                }
                handler if program.sa_flags & libc::SA_SIGINFO != 0 => {
                    let handler: Handler = mem::transmute(handler);
                    handler(signal, about, context);
                }
                handler => {
                    let handler: extern "C" fn(c_int) = mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}
