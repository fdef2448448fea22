//! Timers in simulated time: `alarm`, `setitimer`, `timer_create`, `timerfd`.
//!
//! When the first of them is due, a thread of ours has its turn, in order like any other: it sends
//! the signal, has the function called, or writes to the descriptor. There is such a thread only
//! while a timer is set. It goes on when the signal's handler has run (`interruptions`).

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{clockid_t, itimerspec, itimerval, sigevent, sigval, timer_t, timespec};
use viaduct_turns::{Client, NewThread, here, local};

use crate::clocks::{after, base_s, picoseconds, simulated};
use crate::cost;
use crate::interruptions::{self, add, drain};
use crate::real::{self, set_errno};

/// What `alarm` and `setitimer` set.
const ALARM: usize = 0;
/// Descriptors have numbers from here on.
const DESCRIPTORS: usize = 1 << 32;

/// What is done when a timer is due.
#[derive(Clone, Copy)]
enum Means {
    Nothing,
    /// A signal of this number, with a value, to one thread or whoever takes it.
    Signal(c_int, usize, Option<c_int>),
    /// A function is called in a thread of its own.
    Call(extern "C-unwind" fn(*mut c_void) -> *mut c_void, usize),
    Write(c_int),
}

#[derive(Clone, Copy)]
struct Timer {
    means: Means,
    clock: clockid_t,
    deadline: Option<u64>,
    interval: u64,
    overruns: u64,
}

struct Timers {
    set: BTreeMap<usize, Timer>,
    next: usize,
    /// When threads of ours look what is due.
    looks: BTreeSet<u64>,
}

static TIMERS: Mutex<Timers> = Mutex::new(Timers {
    set: BTreeMap::new(),
    next: 1,
    looks: BTreeSet::new(),
});

/// A timer was set by a signal's handler, which can make no thread.
static IS_UNWATCHED: AtomicBool = AtomicBool::new(false);

/// Whoever has it does not give the turn meanwhile, so that a signal's handler that interrupts a
/// wait finds it free.
fn timers() -> MutexGuard<'static, Timers> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a child that was forked: it has none.
pub(crate) fn forget() {
    let mut timers = timers();
    timers.set.clear();
    timers.looks.clear();
}

impl Timers {
    fn first(&self) -> Option<u64> {
        self.set.values().filter_map(|timer| timer.deadline).min()
    }

    /// When a thread has to look that none does yet.
    fn unwatched(&self) -> Option<u64> {
        let first = self.first()?;
        let is_watched = self.looks.first().is_some_and(|look| *look <= first);
        (!is_watched).then_some(first)
    }

    /// What is to be done next of what is due.
    fn take_due(&mut self, now: u64) -> Option<(Means, u64)> {
        let due = |timer: &&mut Timer| timer.deadline.is_some_and(|at| at <= now);
        let timer = self.set.values_mut().find(due)?;
        let at = timer.deadline.unwrap_or(now);
        let more = (now - at).checked_div(timer.interval);
        let count = 1 + more.unwrap_or(0);
        timer.deadline = more.map(|_| at + count * timer.interval);
        timer.overruns = count - 1;
        Some((timer.means, count))
    }
}

/// What a thread of ours begins with.
struct Beginning {
    announced: NewThread,
    look: u64,
}

/// Has a thread look when the first timer is due, if none does.
pub(crate) fn watch() {
    if here().is_none() {
        IS_UNWATCHED.store(true, Ordering::Relaxed);
        return;
    }
    IS_UNWATCHED.store(false, Ordering::Relaxed);
    let Some(look) = timers().unwatched() else {
        return;
    };
    let Some(announced) = NewThread::announce() else {
        return;
    };
    timers().looks.insert(look);
    let beginning = Box::into_raw(Box::new(Beginning { announced, look }));
    // SAFETY: the sets and the thread have room; all signals are others' to take.
    unsafe {
        let (mut all, mut own) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigdelset(&raw mut all, libc::SIGSEGV);
        real::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut own);
        let mut thread = 0;
        let made = real::pthread_create(&raw mut thread, ptr::null(), keep, beginning.cast());
        real::pthread_sigmask(libc::SIG_SETMASK, &raw const own, ptr::null_mut());
        if made == 0 {
            real::pthread_detach(thread);
        } else {
            timers().looks.remove(&look);
            Box::from_raw(beginning).announced.cancel();
        }
    }
}

/// A thread has its turn.
pub(crate) fn after_wait() {
    if IS_UNWATCHED.load(Ordering::Relaxed) {
        watch();
    }
}

extern "C-unwind" fn keep(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: made in `watch` for this thread.
    let Beginning {
        announced,
        mut look,
    } = *unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
    announced.begin();
    while let Some(client) = here() {
        client.sleep_until(look);
        loop {
            let due = timers().take_due(client.now());
            let Some((means, count)) = due else { break };
            act(client, means, count);
        }
        let mut timers = timers();
        timers.looks.remove(&look);
        let Some(next) = timers.unwatched() else {
            break;
        };
        timers.looks.insert(next);
        look = next;
    }
    NewThread::end();
    ptr::null_mut()
}

fn act(client: Client, means: Means, count: u64) {
    match means {
        Means::Nothing => {}
        Means::Signal(number, value, thread) => interruptions::send(client, number, value, thread),
        Means::Call(function, value) => {
            let mut thread = 0;
            // SAFETY: the program's function and its value, as it gave them.
            unsafe {
                let value = ptr::with_exposed_provenance_mut(value);
                let thread_ = &raw mut thread;
                if crate::threads::pthread_create(thread_, ptr::null(), function, value) == 0 {
                    crate::threads::pthread_detach(thread);
                }
            }
        }
        Means::Write(descriptor) => add(descriptor, count),
    }
}

fn set(id: usize, deadline: Option<u64>, interval: u64) {
    if let Some(timer) = timers().set.get_mut(&id) {
        (timer.deadline, timer.interval, timer.overruns) = (deadline, interval, 0);
    }
    watch();
}

/// What is left of a timer, and its interval.
fn left(client: Client, id: usize) -> Option<(u64, u64)> {
    let timer = timers().set.get(&id).copied()?;
    let left = timer
        .deadline
        .map_or(0, |at| at.saturating_sub(client.now()).max(1000));
    Some((left, timer.interval))
}

fn length(picoseconds: u64) -> timespec {
    timespec {
        tv_sec: (picoseconds / 1_000_000_000_000) as i64,
        tv_nsec: (picoseconds / 1000 % 1_000_000_000) as i64,
    }
}

/// Sets a timer as `timer_settime` and `timerfd_settime` have it.
///
/// # Safety
///
/// `new` is a time, `old` null or has room.
unsafe fn set_time(
    client: Client,
    id: usize,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    client.charge(cost::SYSTEM_CALL);
    let clock = timers().set.get(&id).map(|timer| timer.clock);
    // SAFETY: the caller's promise.
    let new = unsafe { &*new };
    let interval = picoseconds(&new.it_interval);
    let is_set = new.it_value.tv_sec != 0 || new.it_value.tv_nsec != 0;
    let deadline = match (clock, is_set) {
        (None, _) => None,
        (Some(_), false) => Some(None),
        (Some(clock), true) if flags & libc::TIMER_ABSTIME != 0 => {
            simulated(clock, &new.it_value).map(Some)
        }
        (Some(_), true) => picoseconds(&new.it_value).map(|length| Some(after(client, length))),
    };
    let (Some(deadline), Some(interval)) = (deadline, interval) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    if !old.is_null() {
        // SAFETY: the caller's promise.
        unsafe { get_time(client, id, old) };
    }
    set(id, deadline, interval);
    0
}

/// # Safety
///
/// There is room.
unsafe fn get_time(client: Client, id: usize, to: *mut itimerspec) -> c_int {
    let Some((left, interval)) = left(client, id) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let time = itimerspec {
        it_interval: length(interval),
        it_value: length(left),
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(time) };
    0
}

/// Sets what `alarm` sets; what was left of it, and its interval.
fn set_alarm(client: Client, in_ps: u64, interval: u64) -> (u64, u64) {
    client.charge(cost::SYSTEM_CALL);
    let before = left(client, ALARM).unwrap_or((0, 0));
    timers().set.entry(ALARM).or_insert(Timer {
        means: Means::Signal(libc::SIGALRM, 0, None),
        clock: libc::CLOCK_REALTIME,
        deadline: None,
        interval: 0,
        overruns: 0,
    });
    set(ALARM, (in_ps > 0).then(|| after(client, in_ps)), interval);
    before
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn alarm(seconds: c_uint) -> c_uint {
    let Some(client) = local() else {
        // SAFETY: it takes a number.
        return unsafe { real::alarm(seconds) };
    };
    let second = 1_000_000_000_000;
    let (left, _) = set_alarm(client, u64::from(seconds) * second, 0);
    left.div_ceil(second) as c_uint
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setitimer(
    which: c_int,
    new: *const itimerval,
    old: *mut itimerval,
) -> c_int {
    let (Some(client), libc::ITIMER_REAL) = (local(), which) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::setitimer(which, new, old) };
    };
    let of = |time: &libc::timeval| {
        picoseconds(&timespec {
            tv_sec: time.tv_sec,
            tv_nsec: time.tv_usec.saturating_mul(1000),
        })
    };
    // SAFETY: the caller's pointers.
    unsafe {
        let times = (of(&(*new).it_value), of(&(*new).it_interval));
        let (Some(value), Some(interval)) = times else {
            set_errno(libc::EINVAL);
            return -1;
        };
        let before = set_alarm(client, value, interval);
        tell(old, before);
    }
    0
}

/// # Safety
///
/// It is null or has room.
unsafe fn tell(to: *mut itimerval, (left, interval): (u64, u64)) {
    let of = |picoseconds| libc::timeval {
        tv_sec: length(picoseconds).tv_sec,
        tv_usec: length(picoseconds).tv_nsec / 1000,
    };
    if !to.is_null() {
        let time = itimerval {
            it_interval: of(interval),
            it_value: of(left),
        };
        // SAFETY: the caller's promise.
        unsafe { to.write(time) };
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getitimer(which: c_int, to: *mut itimerval) -> c_int {
    let (Some(client), libc::ITIMER_REAL) = (local(), which) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::getitimer(which, to) };
    };
    // SAFETY: the caller's pointer.
    unsafe { tell(to, left(client, ALARM).unwrap_or((0, 0))) };
    0
}

/// What an event of a timer has where it is a function: behind the value, signal and kind.
#[repr(C)]
struct CallEvent {
    value: usize,
    signal: c_int,
    notify: c_int,
    function: Option<extern "C-unwind" fn(*mut c_void) -> *mut c_void>,
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(
    clock: clockid_t,
    event: *mut sigevent,
    to: *mut timer_t,
) -> c_int {
    let (Some(client), Some(_)) = (local(), base_s(clock)) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::timer_create(clock, event, to) };
    };
    client.charge(cost::SYSTEM_CALL);
    let mut timers = timers();
    let id = timers.next;
    // SAFETY: null, or the caller's event, which has a function where it says so.
    let means = unsafe {
        match event.as_ref() {
            None => Some(Means::Signal(libc::SIGALRM, id, None)),
            Some(it) => {
                let sigval { sival_ptr } = it.sigev_value;
                let value = sival_ptr.expose_provenance();
                match it.sigev_notify {
                    libc::SIGEV_NONE => Some(Means::Nothing),
                    libc::SIGEV_SIGNAL => Some(Means::Signal(it.sigev_signo, value, None)),
                    libc::SIGEV_THREAD_ID => {
                        let thread = Some(it.sigev_notify_thread_id);
                        Some(Means::Signal(it.sigev_signo, value, thread))
                    }
                    libc::SIGEV_THREAD => {
                        let event = event.cast::<CallEvent>().read();
                        event.function.map(|function| Means::Call(function, value))
                    }
                    _ => None,
                }
            }
        }
    };
    let means = means.filter(|means| match means {
        Means::Signal(number, ..) => (1..=libc::SIGRTMAX()).contains(number),
        _ => true,
    });
    let Some(means) = means else {
        drop(timers);
        set_errno(libc::EINVAL);
        return -1;
    };
    timers.next += 1;
    let timer = Timer {
        means,
        clock,
        deadline: None,
        interval: 0,
        overruns: 0,
    };
    timers.set.insert(id, timer);
    drop(timers);
    // SAFETY: the caller's pointer.
    unsafe { to.write(ptr::without_provenance_mut(id)) };
    0
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_settime(
    timer: timer_t,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match local() {
            Some(client) if is_own(timer) => set_time(client, timer.addr(), flags, new, old),
            _ => real::timer_settime(timer, flags, new, old),
        }
    }
}

/// Whether it is one of ours, and not one of a clock that is not simulated.
fn is_own(timer: timer_t) -> bool {
    timers().set.contains_key(&timer.addr())
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_gettime(timer: timer_t, to: *mut itimerspec) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match local() {
            Some(client) if is_own(timer) => get_time(client, timer.addr(), to),
            _ => real::timer_gettime(timer, to),
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_getoverrun(timer: timer_t) -> c_int {
    let known = timers().set.get(&timer.addr()).copied();
    // SAFETY: the caller's argument.
    known.map_or_else(
        || unsafe { real::timer_getoverrun(timer) },
        |known| known.overruns.try_into().unwrap_or(c_int::MAX),
    )
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_delete(timer: timer_t) -> c_int {
    let known = timers().set.remove(&timer.addr());
    // SAFETY: the caller's argument.
    known.map_or_else(|| unsafe { real::timer_delete(timer) }, |_| 0)
}

/// A descriptor to which expirations are written: a counter that is read as that of a timer is.
///
/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn timerfd_create(clock: clockid_t, flags: c_int) -> c_int {
    let (Some(client), Some(_)) = (local(), base_s(clock)) else {
        // SAFETY: it takes numbers.
        return unsafe { real::timerfd_create(clock, flags) };
    };
    client.charge(cost::SYSTEM_CALL);
    // SAFETY: as above; the flags of both are the same.
    let descriptor = unsafe { libc::eventfd(0, flags) };
    if descriptor >= 0 {
        let timer = Timer {
            means: Means::Write(descriptor),
            clock,
            deadline: None,
            interval: 0,
            overruns: 0,
        };
        timers()
            .set
            .insert(DESCRIPTORS + descriptor as usize, timer);
    }
    descriptor
}

/// A descriptor is closed.
pub(crate) fn close(descriptor: c_int) {
    let id = usize::try_from(descriptor).map(|number| DESCRIPTORS + number);
    if let Ok(id) = id {
        timers().set.remove(&id);
    }
}

fn of_descriptor(descriptor: c_int) -> Option<usize> {
    let id = DESCRIPTORS + usize::try_from(descriptor).ok()?;
    timers().set.contains_key(&id).then_some(id)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timerfd_settime(
    descriptor: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let (Some(client), Some(id)) = (local(), of_descriptor(descriptor)) else {
            return real::timerfd_settime(descriptor, flags, new, old);
        };
        let result = set_time(client, id, flags, new, old);
        if result == 0 {
            drain(descriptor);
        }
        result
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timerfd_gettime(descriptor: c_int, to: *mut itimerspec) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match (local(), of_descriptor(descriptor)) {
            (Some(client), Some(id)) => get_time(client, id, to),
            _ => real::timerfd_gettime(descriptor, to),
        }
    }
}
