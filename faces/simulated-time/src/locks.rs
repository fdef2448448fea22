//! Waits of threads for each other: mutexes, condition variables, semaphores, barriers, futexes.
//!
//! One thread runs at a time, so whether it would wait is known when it is tried. Mutexes,
//! semaphores and locks of readers and writers are the C library's, which are tried until they can
//! be had. Who waits at a condition variable, a barrier or a futex stands in a queue of ours. Of a
//! condition variable of several processes the queue is a count in its own memory; who waits at a
//! futex of several processes goes on when its word changes. Barriers of several are refused.

use core::ffi::{CStr, c_int, c_long, c_uint};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use libc::{
    clockid_t, pthread_barrier_t, pthread_barrierattr_t, pthread_cond_t, pthread_condattr_t,
    pthread_mutex_t, pthread_rwlock_t, pthread_spinlock_t, sem_t, timespec,
};
use viaduct_turns::{Client, Waited, here};

use crate::clocks::{after, picoseconds};
use crate::common::{Common, has_called};
use crate::cost;
use crate::interruptions::Interruption;
use crate::random::getrandom_by_number;
use crate::real::{self, errno, set_errno};
use crate::threads::{Queues, Woken, before_others, deadline};

/// Every bit of a futex.
const ALL_BITS: u32 = u32::MAX;
/// What the first of those at a barrier is told: `PTHREAD_BARRIER_SERIAL_THREAD`.
const BARRIER_FIRST: c_int = -1;

static CONDITIONS: Queues = Queues::new();
/// Condition variables whose deadlines are of another clock than that of the day.
static CONDITION_CLOCKS: Mutex<BTreeMap<usize, clockid_t>> = Mutex::new(BTreeMap::new());
static FUTEXES: Queues = Queues::new();

/// Takes what `attempt` takes: 0, or an error that is told; EBUSY: another thread has it, of this
/// process if `waited` says so.
fn take(
    what: &CStr,
    waited: Waited<'_>,
    deadline: Option<u64>,
    real: impl FnOnce() -> c_int,
    attempt: impl Fn() -> c_int,
) -> c_int {
    let Some(client) = here() else { return real() };
    before_others(client);
    let result = attempt();
    if result != libc::EBUSY {
        return result;
    }
    let taken = client.foreign(what, waited, deadline, || {
        let result = attempt();
        (result != libc::EBUSY).then_some(result)
    });
    taken.unwrap_or(libc::ETIMEDOUT)
}

/// As [`take`], until a time on a clock, if that is one.
fn take_until(
    what: &CStr,
    waited: Waited<'_>,
    clock: clockid_t,
    time: *const timespec,
    real: impl FnOnce() -> c_int,
    attempt: impl Fn() -> c_int,
) -> c_int {
    match deadline(clock, time) {
        Some(deadline) => take(what, waited, Some(deadline), real, attempt),
        None if here().is_none() => real(),
        None => libc::EINVAL,
    }
}

/// Before something is given that others may wait for.
fn before_giving() {
    if let Some(client) = here() {
        before_others(client);
    }
}

/// A mutex as it is laid out for programs: lock, count, owner, users, kind.
///
/// # Safety
///
/// It is one.
unsafe fn words_of(mutex: *mut pthread_mutex_t) -> [c_int; 5] {
    // SAFETY: the caller's promise.
    unsafe { mutex.cast::<[c_int; 5]>().read() }
}

/// Who may give a mutex free: `PTHREAD_MUTEX_PSHARED_BIT` of its kind says that it may lie in
/// memory of several processes.
///
/// # Safety
///
/// It is one.
unsafe fn givers_of(mutex: *mut pthread_mutex_t) -> Waited<'static> {
    const SHARED: c_int = 128;
    // SAFETY: the caller's promise.
    match unsafe { words_of(mutex) }[4] & SHARED {
        0 => Waited::Process,
        _ => Waited::Anything,
    }
}

/// Whether a mutex would tell its owner that it has it.
///
/// # Safety
///
/// It is one.
unsafe fn is_checked(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the caller's promise.
    let words = unsafe { words_of(mutex) };
    // SAFETY: it has no arguments.
    let own = unsafe { libc::gettid() };
    words[4] & 3 == libc::PTHREAD_MUTEX_ERRORCHECK && words[2] == own
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    let (real, attempt) = unsafe {
        (
            || real::pthread_mutex_lock(mutex),
            || {
                let result = real::pthread_mutex_trylock(mutex);
                if result == libc::EBUSY && is_checked(mutex) {
                    return libc::EDEADLK;
                }
                result
            },
        )
    };
    // SAFETY: as above.
    let waited = unsafe { givers_of(mutex) };
    take(c"pthread_mutex_lock", waited, None, real, attempt)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, time) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    let real = || unsafe {
        if clock == libc::CLOCK_REALTIME {
            real::pthread_mutex_timedlock(mutex, time)
        } else {
            real::pthread_mutex_clocklock(mutex, clock, time)
        }
    };
    // SAFETY: the caller's mutex.
    let attempt = || unsafe { real::pthread_mutex_trylock(mutex) };
    let what = c"pthread_mutex_timedlock";
    // SAFETY: as above.
    let waited = unsafe { givers_of(mutex) };
    take_until(what, waited, clock, time, real, attempt)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    before_giving();
    // SAFETY: the caller's mutex.
    unsafe { real::pthread_mutex_unlock(mutex) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    condition: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    let mut clock = libc::CLOCK_REALTIME;
    if !attributes.is_null() {
        // SAFETY: the caller's attributes; the clock has room.
        unsafe { libc::pthread_condattr_getclock(attributes, &raw mut clock) };
    }
    let mut clocks = condition_clocks();
    if clock == libc::CLOCK_REALTIME {
        clocks.remove(&condition.addr());
    } else {
        clocks.insert(condition.addr(), clock);
    }
    drop(clocks);
    // SAFETY: the caller's arguments.
    unsafe { real::pthread_cond_init(condition, attributes) }
}

fn condition_clocks() -> std::sync::MutexGuard<'static, BTreeMap<usize, clockid_t>> {
    CONDITION_CLOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(condition: *mut pthread_cond_t) -> c_int {
    condition_clocks().remove(&condition.addr());
    // SAFETY: the caller's argument.
    unsafe { real::pthread_cond_destroy(condition) }
}

/// Waits at a condition variable; false: the deadline has come.
///
/// # Safety
///
/// The caller has locked the mutex.
unsafe fn wait_at(
    client: Client,
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    deadline: Option<u64>,
) -> c_int {
    before_others(client);
    let what = c"pthread_cond_wait";
    let unlock = || {
        // SAFETY: the caller has locked it.
        unsafe { real::pthread_mutex_unlock(mutex) };
    };
    // SAFETY: the caller's argument.
    let was_called = match unsafe { Common::of(condition) } {
        Some(common) => common.wait(client, deadline, unlock),
        None => CONDITIONS.wait(client, what, condition.cast(), ALL_BITS, deadline, unlock),
    };
    // SAFETY: as above.
    let result = unsafe { pthread_mutex_lock(mutex) };
    match (result, was_called) {
        (0, true) => 0,
        (0, false) => libc::ETIMEDOUT,
        (error, _) => error,
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match here() {
            Some(client) => wait_at(client, condition, mutex, None),
            None => real::pthread_cond_wait(condition, mutex),
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_cond_timedwait(condition, mutex, time) };
    };
    // SAFETY: the caller's argument.
    let clock = match unsafe { Common::of(condition) } {
        Some(common) => Some(common.clock),
        None => condition_clocks().get(&condition.addr()).copied(),
    };
    match deadline(clock.unwrap_or(libc::CLOCK_REALTIME), time) {
        // SAFETY: the caller's arguments.
        Some(deadline) => unsafe { wait_at(client, condition, mutex, Some(deadline)) },
        None => libc::EINVAL,
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) };
    };
    match deadline(clock, time) {
        // SAFETY: the caller's arguments.
        Some(deadline) => unsafe { wait_at(client, condition, mutex, Some(deadline)) },
        None => libc::EINVAL,
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's argument.
    if unsafe { has_called(condition, 1) } {
        return 0;
    }
    before_giving();
    CONDITIONS.call(condition.cast(), 1, ALL_BITS);
    // SAFETY: the caller's argument. For threads that waited before this process was a client.
    unsafe { real::pthread_cond_signal(condition) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's argument.
    if unsafe { has_called(condition, u64::MAX) } {
        return 0;
    }
    before_giving();
    CONDITIONS.call(condition.cast(), usize::MAX, ALL_BITS);
    // SAFETY: as above.
    unsafe { real::pthread_cond_broadcast(condition) }
}

/// Tries to take a semaphore, as [`take`] wants it, in a wait that a signal may end.
///
/// # Safety
///
/// It is one.
unsafe fn try_semaphore(semaphore: *mut sem_t, interruption: Interruption) -> c_int {
    let before = errno();
    // SAFETY: the caller's promise.
    let result = unsafe { real::sem_trywait(semaphore) };
    let error = errno();
    set_errno(before);
    match (result, error) {
        (0, _) => 0,
        (_, libc::EAGAIN) if interruption.has_come() => libc::EINTR,
        (_, libc::EAGAIN) => libc::EBUSY,
        (_, error) => error,
    }
}

/// What functions of semaphores return for an error.
fn told(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    set_errno(error);
    -1
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    if here().is_none() {
        // SAFETY: the caller's argument.
        return unsafe { real::sem_wait(semaphore) };
    }
    let interruption = Interruption::unless_restarted();
    // SAFETY: as above.
    let attempt = || unsafe { try_semaphore(semaphore, interruption) };
    told(take(c"sem_wait", Waited::Anything, None, || 0, attempt))
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int {
    if here().is_none() {
        // SAFETY: the caller's arguments.
        return unsafe { real::sem_timedwait(semaphore, time) };
    }
    // SAFETY: as above.
    unsafe { sem_clockwait(semaphore, libc::CLOCK_REALTIME, time) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    if here().is_none() {
        // SAFETY: the caller's arguments.
        return unsafe { real::sem_clockwait(semaphore, clock, time) };
    }
    let interruption = Interruption::unless_restarted();
    // SAFETY: as above.
    let attempt = || unsafe { try_semaphore(semaphore, interruption) };
    let what = c"sem_timedwait";
    let real = || 0;
    told(take_until(
        what,
        Waited::Anything,
        clock,
        time,
        real,
        attempt,
    ))
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    // It may be another process's.
    if let Some(client) = here() {
        client.synchronise();
    }
    // SAFETY: the caller's argument.
    unsafe { real::sem_post(semaphore) }
}

/// Whether a thread has a lock for writing: word 6 of glibc's is the number of that thread.
///
/// # Safety
///
/// It is one.
unsafe fn has_writer(lock: *mut pthread_rwlock_t) -> bool {
    // SAFETY: the caller's promise.
    let words = unsafe { lock.cast::<[c_int; 7]>().read() };
    words[6] != 0
}

/// In place of the C library's. Others have no turn before it where it is free for readers, nor
/// when a reader gives it back: UCX takes one within `malloc`, whose own lock is held meanwhile,
/// and who waited for that would do so in the kernel, with the turn.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's argument.
    let (real, attempt) = unsafe {
        (
            || real::pthread_rwlock_rdlock(lock),
            || real::pthread_rwlock_tryrdlock(lock),
        )
    };
    if here().is_some() && attempt() == 0 {
        return 0;
    }
    take(
        c"pthread_rwlock_rdlock",
        Waited::Anything,
        None,
        real,
        attempt,
    )
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's argument.
    let (real, attempt) = unsafe {
        (
            || real::pthread_rwlock_wrlock(lock),
            || real::pthread_rwlock_trywrlock(lock),
        )
    };
    take(
        c"pthread_rwlock_wrlock",
        Waited::Anything,
        None,
        real,
        attempt,
    )
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedrdlock(
    lock: *mut pthread_rwlock_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    let (real, attempt) = unsafe {
        (
            || real::pthread_rwlock_timedrdlock(lock, time),
            || real::pthread_rwlock_tryrdlock(lock),
        )
    };
    let what = c"pthread_rwlock_timedrdlock";
    let clock = libc::CLOCK_REALTIME;
    take_until(what, Waited::Anything, clock, time, real, attempt)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedwrlock(
    lock: *mut pthread_rwlock_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    let (real, attempt) = unsafe {
        (
            || real::pthread_rwlock_timedwrlock(lock, time),
            || real::pthread_rwlock_trywrlock(lock),
        )
    };
    let what = c"pthread_rwlock_timedwrlock";
    let clock = libc::CLOCK_REALTIME;
    take_until(what, Waited::Anything, clock, time, real, attempt)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's argument.
    if unsafe { has_writer(lock) } {
        before_giving();
    }
    // SAFETY: the caller's argument.
    unsafe { real::pthread_rwlock_unlock(lock) }
}

/// Spin locks that only threads of this process have: they say nothing of that themselves.
static OWN_SPIN_LOCKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn own_spin_locks() -> std::sync::MutexGuard<'static, BTreeSet<usize>> {
    OWN_SPIN_LOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(lock: *mut pthread_spinlock_t, shared: c_int) -> c_int {
    if shared == libc::PTHREAD_PROCESS_PRIVATE {
        own_spin_locks().insert(lock.addr());
    } else {
        own_spin_locks().remove(&lock.addr());
    }
    // SAFETY: the caller's arguments.
    unsafe { real::pthread_spin_init(lock, shared) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_destroy(lock: *mut pthread_spinlock_t) -> c_int {
    own_spin_locks().remove(&lock.addr());
    // SAFETY: the caller's argument.
    unsafe { real::pthread_spin_destroy(lock) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's argument.
    let (real, attempt) = unsafe {
        (
            || real::pthread_spin_lock(lock),
            || real::pthread_spin_trylock(lock),
        )
    };
    let waited = match own_spin_locks().contains(&lock.addr()) {
        true => Waited::Process,
        false => Waited::Anything,
    };
    take(c"pthread_spin_lock", waited, None, real, attempt)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    before_giving();
    // SAFETY: the caller's argument.
    unsafe { real::pthread_spin_unlock(lock) }
}

/// A barrier: how many it is for, and how many have come.
#[derive(Clone, Copy)]
struct Barrier {
    count: c_uint,
    here: c_uint,
}

static BARRIERS: Mutex<BTreeMap<usize, Barrier>> = Mutex::new(BTreeMap::new());
static AT_BARRIERS: Queues = Queues::new();

fn barriers() -> std::sync::MutexGuard<'static, BTreeMap<usize, Barrier>> {
    BARRIERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    if here().is_some() && !attributes.is_null() {
        let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
        // SAFETY: the caller's attributes; the number has room.
        unsafe { libc::pthread_barrierattr_getpshared(attributes, &raw mut shared) };
        if shared == libc::PTHREAD_PROCESS_SHARED {
            eprintln!(
                "viaduct: a barrier of several processes is refused: whoever waits there in \
                 simulated time is seen by its own process alone; a mutex and a condition variable \
                 of several processes are seen by all"
            );
            return libc::ENOTSUP;
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::pthread_barrier_init(barrier, attributes, count) };
    if result == 0 {
        barriers().insert(barrier.addr(), Barrier { count, here: 0 });
    }
    result
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    barriers().remove(&barrier.addr());
    // SAFETY: the caller's argument.
    unsafe { real::pthread_barrier_destroy(barrier) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let client = here();
    if let Some(client) = client {
        before_others(client);
    }
    let is_last = barriers().get_mut(&barrier.addr()).map(|known| {
        known.here += 1;
        let is_last = known.here >= known.count;
        if is_last {
            known.here = 0;
        }
        is_last
    });
    let (Some(client), Some(is_last)) = (client, is_last) else {
        // SAFETY: the caller's argument.
        return unsafe { real::pthread_barrier_wait(barrier) };
    };
    if is_last {
        AT_BARRIERS.call(barrier.cast(), usize::MAX, ALL_BITS);
        return BARRIER_FIRST;
    }
    let what = c"pthread_barrier_wait";
    AT_BARRIERS.wait(client, what, barrier.cast(), ALL_BITS, None, || {});
    0
}

/// In place of the C library's, for what languages with locks of their own call: futexes.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    if number == libc::SYS_futex
        && let Some(client) = here()
    {
        let word = first as *const AtomicU32;
        let time = fourth as *const timespec;
        // SAFETY: the caller's arguments, as the call has them.
        let done = unsafe {
            futex(
                client,
                word,
                second as c_int,
                third as u32,
                time,
                sixth as u32,
            )
        };
        if let Some(result) = done {
            return result;
        }
    }
    if number == libc::SYS_getrandom {
        // SAFETY: the caller's arguments, as the call has them.
        return unsafe { getrandom_by_number(first, second, third) };
    }
    // SAFETY: the caller's arguments.
    unsafe { real::syscall(number, first, second, third, fourth, fifth, sixth) }
}

/// Waits and wakes; none: another operation.
///
/// # Safety
///
/// The word is one, the time is null or one.
unsafe fn futex(
    client: Client,
    word: *const AtomicU32,
    operation: c_int,
    value: u32,
    time: *const timespec,
    bits: u32,
) -> Option<c_long> {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let is_absolute = operation & !flags == libc::FUTEX_WAIT_BITSET;
    match operation & !flags {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            client.charge(cost::SYSTEM_CALL);
            before_others(client);
            // SAFETY: the caller's word.
            if unsafe { (*word).load(Ordering::SeqCst) } != value {
                set_errno(libc::EAGAIN);
                return Some(-1);
            }
            let clock = if operation & libc::FUTEX_CLOCK_REALTIME != 0 {
                libc::CLOCK_REALTIME
            } else {
                libc::CLOCK_MONOTONIC
            };
            // SAFETY: the caller's time.
            let until = match unsafe { time.as_ref() } {
                None => None,
                Some(_) if is_absolute => deadline(clock, time),
                Some(length) => picoseconds(length).map(|length| after(client, length)),
            };
            if until.is_none() && !time.is_null() {
                set_errno(libc::EINVAL);
                return Some(-1);
            }
            let bits = if is_absolute { bits } else { ALL_BITS };
            // As in the system, one with a limit is over behind any handler.
            let interruption = match until {
                Some(_) => Interruption::by_any_handler(),
                None => Interruption::unless_restarted(),
            };
            let is_common = operation & libc::FUTEX_PRIVATE_FLAG == 0;
            let waited = match is_common {
                true => Waited::Anything,
                false => Waited::Process,
            };
            // SAFETY: the caller's word, which is there as long as it waits.
            let has_changed = || is_common && unsafe { (*word).load(Ordering::SeqCst) } != value;
            let is_over = || has_changed() || interruption.has_come();
            let place = (word.cast(), bits, waited);
            let error = match FUTEXES.wait_or(client, c"futex", place, until, || {}, is_over) {
                Woken::Called => return Some(0),
                Woken::Otherwise if has_changed() => return Some(0),
                Woken::Otherwise => libc::EINTR,
                Woken::TooLate => libc::ETIMEDOUT,
            };
            set_errno(error);
            Some(-1)
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let is_by_bits = operation & !flags == libc::FUTEX_WAKE_BITSET;
            let bits = if is_by_bits { bits } else { ALL_BITS };
            client.charge(cost::SYSTEM_CALL);
            match operation & libc::FUTEX_PRIVATE_FLAG {
                0 => client.synchronise(),
                _ => before_others(client),
            }
            let called = FUTEXES.call(word.cast(), value as usize, bits);
            // Others may wait in the system: those of the C library, and of other processes.
            (called > 0).then_some(called as c_long)
        }
        _ => None,
    }
}
