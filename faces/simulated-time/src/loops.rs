//! Loops that make no call: a program that looks at memory until another has written there.
//!
//! A timer of the time that a thread has computed interrupts it. If three interruptions find it
//! within the same few instructions and it has made no call between them, or if it has made none
//! for 0.2 s wherever it is, it is taken to wait for memory and gives the turn. A place where that
//! has happened is known from then on: a finer timer, which runs while the thread has the turn,
//! finds it there again after some 0.2 ms.
//!
//! A loop that computes is taken for a wait as well, if it is short and takes that long. Others go
//! on meanwhile, and it goes on when they wait for it: its clock may then depend on how fast the
//! machine is, which the coordinator tells. A loop that is the first to touch pages is none: the
//! system counts them.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;

use libc::{itimerspec, siginfo_t, timer_t, timespec};
use viaduct_turns::{activity, here};

use crate::real;

/// Computing between two looks at a thread. The system looks at its own pace, too: each 4 ms.
const INTERVAL_NS: i64 = 25_000_000;
/// Looks, without a call since the first, that find a thread within the same few instructions when
/// it waits. Two would do on a machine of one's own: a virtual processor that is taken away counts
/// as computing, and the thread may not have come to its next instruction.
const LOOKS_MIN: u32 = 2;
/// Looks after which a thread that has made no call is not computing, wherever it is.
const LOOKS_MAX: u32 = 8;
/// Between two looks at a thread that has the turn and has waited for memory before.
const KNOWN_INTERVAL_NS: i64 = 40_000;
/// Looks at such a thread in one turn: then the coarse timer alone goes on.
const KNOWN_LOOKS_MAX: u32 = 64;
/// Computing between two such looks, without what they take, that counts: less may be a thread that
/// did not run.
const KNOWN_COMPUTED_NS: u64 = 20_000;
/// Such looks one after the other until it waits; see [`LOOKS_MIN`].
const KNOWN_FOUND_MIN: u32 = 4;
/// Instructions of a loop: so many bytes from one to another.
const LOOP_BYTES: u64 = 128;

/// Such loops that a thread is known for.
const PLACES: usize = 4;

/// What is known of a thread.
struct Watch {
    /// Its coarse timer and its fine one, once there are.
    coarse: Cell<Option<usize>>,
    fine: Cell<Option<usize>>,
    /// At the look before this: what it had done, and where it was.
    activity: Cell<u64>,
    place: Cell<u64>,
    /// Looks since it has done something, and the last of them that found it near the one before.
    looks: Cell<u32>,
    near: Cell<u32>,
    /// Where it has waited for memory, the last first; 0: nowhere.
    known_places: Cell<[u64; PLACES]>,
    /// At the end of a fine look that has found it there: what it had computed.
    known_left_ns: Cell<Option<u64>>,
    known_activity: Cell<u64>,
    known_looks: Cell<u32>,
    /// Looks that have found it there one after the other.
    known_found: Cell<u32>,
}

thread_local! {
    static WATCH: Watch = const {
        Watch {
            coarse: Cell::new(None),
            fine: Cell::new(None),
            activity: Cell::new(u64::MAX),
            place: Cell::new(0),
            looks: Cell::new(0),
            near: Cell::new(0),
            known_places: Cell::new([0; PLACES]),
            known_left_ns: Cell::new(None),
            known_activity: Cell::new(0),
            known_looks: Cell::new(0),
            known_found: Cell::new(0),
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
            unsafe { libc::timer_delete(timer as timer_t) };
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
        let mut made: timer_t = ptr::null_mut();
        let result = libc::timer_create(clock, &raw mut event, &raw mut made);
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
    unsafe { libc::timer_settime(timer as timer_t, 0, &raw const when, ptr::null_mut()) };
}

/// What this thread has computed.
fn computed_ns() -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time has room.
    unsafe { real::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Grows with each call of this thread, and with each page that it is the first to touch: a loop
/// that only looks at memory does neither, and one that prepares memory takes long.
fn done() -> u64 {
    // SAFETY: numbers of zeros are some.
    let mut used: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the numbers have room.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut used) };
    activity().wrapping_add(used.ru_minflt as u64)
}

/// A thread has its turn: the fine timer looks at one that has waited for memory before.
extern "C" fn after_wait() {
    WATCH.with(|watch| {
        if watch.is_known()
            && let Some(fine) = watch.fine.get()
        {
            watch.known_left_ns.set(None);
            watch.known_looks.set(0);
            watch.known_found.set(0);
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
    let (place, is_timer) = unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        (
            registers[libc::REG_RIP as usize] as u64,
            (*about).si_code == libc::SI_TIMER,
        )
    };
    if is_timer {
        WATCH.with(|watch| watch.look(place));
    }
    real::set_errno(error);
}

impl Watch {
    fn look(&self, place: u64) {
        if self.is_known() && self.known_looks.get() < KNOWN_LOOKS_MAX {
            if self.look_known(place) {
                return;
            }
            if let Some(fine) = self.fine.get() {
                set(fine, KNOWN_INTERVAL_NS, 0);
            }
            // Only now: on a virtual machine to set a timer may take as long as such a look is to
            // have computed.
            if self.known_left_ns.get().is_some() {
                self.known_left_ns.set(Some(computed_ns()));
            }
            return;
        }
        let activity = done();
        let before = self.place.replace(place);
        if self.activity.replace(activity) != activity {
            self.looks.set(0);
            self.near.set(0);
            return;
        }
        self.looks.set(self.looks.get() + 1);
        let is_near = before.abs_diff(place) < LOOP_BYTES;
        if !is_near && self.looks.get() < LOOKS_MAX {
            self.near.set(0);
            return;
        }
        self.near.set(self.near.get() + 1);
        if self.near.get() >= LOOKS_MIN || self.looks.get() >= LOOKS_MAX {
            self.wait(place);
        }
    }

    /// True: it has waited.
    fn look_known(&self, place: u64) -> bool {
        self.known_looks.set(self.known_looks.get() + 1);
        let activity = activity();
        let mut known = self.known_places.get().into_iter();
        let is_there = self.known_activity.replace(activity) == activity
            && known.any(|known| known.abs_diff(place) < LOOP_BYTES);
        if !is_there {
            self.known_left_ns.set(None);
            self.known_found.set(0);
            return false;
        }
        let left = self.known_left_ns.get();
        if left.is_some_and(|left| computed_ns() - left >= KNOWN_COMPUTED_NS) {
            self.known_found.set(self.known_found.get() + 1);
            if self.known_found.get() >= KNOWN_FOUND_MIN {
                self.wait(place);
                return true;
            }
        }
        self.known_left_ns.set(Some(0));
        false
    }

    fn is_known(&self) -> bool {
        self.known_places.get()[0] != 0
    }

    fn wait(&self, place: u64) {
        if self.fine.get().is_none() {
            self.fine.set(timer(libc::CLOCK_MONOTONIC));
        }
        let mut known = self.known_places.get();
        if known
            .iter()
            .all(|known| known.abs_diff(place) >= LOOP_BYTES)
        {
            known.rotate_right(1);
            known[0] = place;
            self.known_places.set(known);
        }
        self.near.set(0);
        viaduct_turns::await_memory();
    }
}
