//! Loops that make no call: a program that looks at memory until another has written there.
//!
//! A timer of the time that a thread has computed interrupts it. If it has made no call since the
//! interruption before, it is run by steps for a while, which shows whether its loop waits for
//! memory: then it gives the turn. A place where that has happened is known from then on: a finer
//! timer, which runs while the thread has the turn, has it run by steps there at once.
//!
//! A loop that waits for memory and counts meanwhile is not seen so. A thread that has made no call
//! for 0.2 s is taken to wait, wherever it is. It may compute: others go on meanwhile, and it goes
//! on when they wait for it: its clock may then depend on how fast the machine is, which the
//! coordinator tells. One that is the first to touch pages is not taken to wait: the system counts
//! them. Where computing counts, such a thread computes: its clock goes on, and others up to it.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;

use libc::{itimerspec, siginfo_t, timespec, ucontext_t};
use viaduct_turns::{activity, here};

use crate::{real, steps};

/// Computing between two looks at a thread. The system looks at its own pace, too: each 4 ms.
const INTERVAL_NS: i64 = 25_000_000;
/// Looks after which a thread that has made no call is not computing, wherever it is.
const LOOKS_MAX: u32 = 8;
/// Between two looks at a thread that has the turn and has waited for memory before.
const KNOWN_INTERVAL_NS: i64 = 40_000;
/// Looks at such a thread in one turn: then the coarse timer alone goes on.
const KNOWN_LOOKS_MAX: u32 = 64;
/// Instructions of a loop: so many bytes from one to another.
const LOOP_BYTES: u64 = 128;

/// Such loops that a thread is known for.
const PLACES: usize = 4;

/// What is known of a thread.
struct Watch {
    /// Its coarse timer and its fine one, once there are.
    coarse: Cell<Option<usize>>,
    fine: Cell<Option<usize>>,
    /// What it had done at the look before this, and looks since it has done something or was found
    /// to wait.
    activity: Cell<u64>,
    looks: Cell<u32>,
    /// Where it has waited for memory, the last first; 0: nowhere.
    known_places: Cell<[u64; PLACES]>,
    /// Looks of the fine timer since it has the turn.
    known_looks: Cell<u32>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch {
            coarse: Cell::new(None),
            fine: Cell::new(None),
            activity: Cell::new(u64::MAX),
            looks: Cell::new(0),
            known_places: Cell::new([0; PLACES]),
            known_looks: Cell::new(0),
        }
    };
}

/// The signal of the timers: one that programs hardly use.
pub(crate) fn number() -> c_int {
    libc::SIGRTMAX() - 3
}

/// Has this process be looked at by its threads' timers.
pub(crate) fn watch_process() {
    // SAFETY: an action of zeros is one; the handler does what a handler may.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = look as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        real::sigaction(number(), &raw const action, ptr::null_mut());
    }
    steps::listen();
    viaduct_turns::watch_waits(after_wait);
    watch_thread();
}

/// Has this thread be looked at, from its beginning on.
pub(crate) fn watch_thread() {
    let coarse = timer(libc::CLOCK_THREAD_CPUTIME_ID);
    WATCH.with(|watch| {
        watch.coarse.set(coarse);
        watch.fine.set(None);
        watch.known_places.set([0; PLACES]);
    });
    if let Some(coarse) = coarse {
        set(coarse, INTERVAL_NS, INTERVAL_NS);
    }
}

/// At the end of a thread: its timers go, which are the process's.
pub(crate) fn forget_thread() {
    WATCH.with(|watch| {
        for timer in [watch.coarse.take(), watch.fine.take()]
            .into_iter()
            .flatten()
        {
            // SAFETY: made by this thread and not deleted.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
        }
    });
}

/// A timer on a clock that interrupts this thread.
fn timer(clock: c_int) -> Option<usize> {
    // SAFETY: an event of zeros is one; the timer has room.
    unsafe {
        let mut event: libc::sigevent = core::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = number();
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as c_int;
        // By number: the functions are ours, for timers in simulated time.
        let mut made: c_int = 0;
        let result = libc::syscall(libc::SYS_timer_create, clock, &raw mut event, &raw mut made);
        (result == 0).then_some(made as usize)
    }
}

fn set(timer: usize, first_ns: i64, interval_ns: i64) {
    let time = |ns| timespec {
        tv_sec: 0,
        tv_nsec: ns,
    };
    let when = itimerspec {
        it_interval: time(interval_ns),
        it_value: time(first_ns),
    };
    // SAFETY: the timer is one; the time lives until the call returns.
    unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const when, 0) };
}

/// Grows with each call of this thread, and with each page that it is the first to touch: a loop
/// that only looks at memory does neither, and one that prepares memory takes long.
fn done() -> u64 {
    // SAFETY: numbers of zeros are some.
    let mut used: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the numbers have room.
    unsafe { real::getrusage(libc::RUSAGE_THREAD, &raw mut used) };
    activity().wrapping_add(used.ru_minflt as u64)
}

/// A thread has its turn: the fine timer looks at one that has waited for memory before.
extern "C" fn after_wait() {
    crate::timers::after_wait();
    WATCH.with(|watch| {
        if watch.is_known()
            && let Some(fine) = watch.fine.get()
        {
            watch.known_looks.set(0);
            set(fine, KNOWN_INTERVAL_NS, 0);
        }
    });
}

extern "C" fn look(_signal: c_int, about: *mut siginfo_t, context: *mut c_void) {
    if here().is_none() {
        return;
    }
    let error = real::errno();
    // SAFETY: the system passes both.
    let (context, is_timer) = unsafe {
        (
            &mut *context.cast::<ucontext_t>(),
            (*about).si_code == libc::SI_TIMER,
        )
    };
    if is_timer {
        WATCH.with(|watch| watch.look(context));
    }
    real::set_errno(error);
}

/// This thread waits for memory, in a loop that was found here.
pub(crate) fn wait(place: u64) {
    WATCH.with(|watch| {
        watch.looks.set(0);
        watch.wait(Some(place));
    });
}

impl Watch {
    fn look(&self, context: &mut ucontext_t) {
        if self.is_known() && self.known_looks.get() < KNOWN_LOOKS_MAX {
            self.known_looks.set(self.known_looks.get() + 1);
            let place = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
            if self.is_near(place) {
                steps::begin(context);
            }
            if let Some(fine) = self.fine.get() {
                set(fine, KNOWN_INTERVAL_NS, 0);
            }
            return;
        }
        let activity = done();
        if self.activity.replace(activity) != activity {
            self.looks.set(0);
            return;
        }
        viaduct_turns::has_computed();
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() < LOOKS_MAX {
            steps::begin(context);
        } else if viaduct_turns::give_while_computing() {
            self.looks.set(0);
        } else {
            self.wait(None);
        }
    }

    fn is_known(&self) -> bool {
        self.known_places.get()[0] != 0
    }

    fn is_near(&self, place: u64) -> bool {
        let mut known = self.known_places.get().into_iter();
        known.any(|known| known.abs_diff(place) < LOOP_BYTES)
    }

    /// Gives the turn until something is written; a place where a loop was found is known from then
    /// on.
    fn wait(&self, place: Option<u64>) {
        if self.fine.get().is_none() {
            self.fine.set(timer(libc::CLOCK_MONOTONIC));
        }
        if let Some(place) = place
            && !self.is_near(place)
        {
            let mut known = self.known_places.get();
            known.rotate_right(1);
            known[0] = place;
            self.known_places.set(known);
        }
        viaduct_turns::await_memory();
    }
}
