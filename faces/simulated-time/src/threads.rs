//! Threads: each has its turns, and gives them where it would wait for another.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use libc::{clockid_t, pthread_attr_t, pthread_key_t, pthread_t, timespec};
use viaduct_turns::{Client, NewThread, Waited, here};

use crate::clocks::simulated;
use crate::cost;
use crate::real;

/// What a thread runs. It may be left by an unwinding that is forced: a thread that is cancelled.
type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// How often the system runs what is to run at a thread's end, as long as there is something:
/// this one is to be behind the others.
const ENDING_ROUNDS: u32 = 3;

/// This process has had more threads than one: they may wait for each other.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Threads that were made and not yet joined, and whether they have ended.
static STARTED: Mutex<BTreeMap<pthread_t, Arc<AtomicBool>>> = Mutex::new(BTreeMap::new());

/// Nobody waits here: one thread runs at a time.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before what other threads of this process may see.
pub(crate) fn before_others(client: Client) {
    if HAS_THREADS.load(Ordering::Relaxed) {
        client.synchronise();
    }
}

/// A deadline as these functions have it; none: it is no time.
pub(crate) fn deadline(clock: clockid_t, time: *const timespec) -> Option<u64> {
    // SAFETY: the callers pass their caller's pointer.
    simulated(clock, unsafe { time.as_ref() }?)
}

/// What goes to a thread that begins.
struct Beginning {
    announced: NewThread,
    routine: Routine,
    argument: *mut c_void,
    has_ended: Arc<AtomicBool>,
}

/// What is left to do at the end of a thread.
struct Ending {
    rounds: Cell<u32>,
    has_ended: Arc<AtomicBool>,
}

fn key() -> Option<pthread_key_t> {
    static KEY: OnceLock<Option<pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key has room.
        let result = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) };
        (result == 0).then_some(key)
    })
}

extern "C-unwind" fn begin(beginning: *mut c_void) -> *mut c_void {
    let (routine, argument) = {
        // SAFETY: made in `pthread_create` for this thread.
        let beginning = unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
        let Beginning {
            announced,
            routine,
            argument,
            has_ended,
        } = *beginning;
        announced.begin();
        crate::loops::watch_thread();
        let ending = Ending {
            rounds: Cell::new(0),
            has_ended,
        };
        if let Some(key) = key() {
            // SAFETY: the key is one; the value is freed in `end`.
            unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(ending)).cast()) };
        }
        (routine, argument)
    };
    // Nothing of ours is left here to be dropped.
    routine(argument)
}

extern "C" fn end(ending: *mut c_void) {
    // SAFETY: made in `begin`, and freed below.
    let rounds = unsafe { &(*ending.cast::<Ending>()).rounds };
    rounds.set(rounds.get() + 1);
    if rounds.get() < ENDING_ROUNDS
        && let Some(key) = key()
    {
        // SAFETY: as in `begin`.
        unsafe { libc::pthread_setspecific(key, ending) };
        return;
    }
    // SAFETY: nobody has it any more.
    let ending = unsafe { Box::from_raw(ending.cast::<Ending>()) };
    if let Some(client) = here() {
        client.synchronise();
        ending.has_ended.store(true, Ordering::Relaxed);
        drop(ending);
        crate::loops::forget_thread();
        NewThread::end();
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let announced = here().and_then(|client| {
        client.charge(cost::SYSTEM_CALL);
        NewThread::announce()
    });
    let Some(announced) = announced else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_create(thread, attributes, routine, argument) };
    };
    HAS_THREADS.store(true, Ordering::Relaxed);
    let has_ended = Arc::new(AtomicBool::new(false));
    let beginning = Box::into_raw(Box::new(Beginning {
        announced,
        routine,
        argument,
        has_ended: Arc::clone(&has_ended),
    }));
    // SAFETY: the caller's arguments, and what the thread frees.
    let result = unsafe { real::pthread_create(thread, attributes, begin, beginning.cast()) };
    if result == 0 {
        // SAFETY: the call has filled it.
        locked(&STARTED).insert(unsafe { *thread }, has_ended);
    } else {
        // SAFETY: there is no thread to free it.
        unsafe { Box::from_raw(beginning) }.announced.cancel();
    }
    result
}

/// Returns when a thread has ended, or its deadline has come, which is false; true, too, for a
/// thread that is not known here.
fn await_end(client: Client, thread: pthread_t, deadline: Option<u64>) -> bool {
    let Some(has_ended) = locked(&STARTED).get(&thread).map(Arc::clone) else {
        return true;
    };
    let look = || has_ended.load(Ordering::Relaxed).then_some(());
    let what = c"pthread_join";
    client
        .foreign(what, Waited::Process, deadline, look)
        .is_some()
}

/// Joins a thread that has ended, or is not known.
///
/// # Safety
///
/// As for `pthread_join`.
unsafe fn join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    locked(&STARTED).remove(&thread);
    // SAFETY: the caller's arguments.
    unsafe { real::pthread_join(thread, result) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    if let Some(client) = here() {
        await_end(client, thread, None);
    }
    // SAFETY: the caller's arguments.
    unsafe { join(thread, result) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    if let Some(client) = here() {
        client.charge(cost::SYSTEM_CALL);
        if !await_end(client, thread, Some(0)) {
            return libc::EBUSY;
        }
        // SAFETY: the caller's arguments.
        return unsafe { join(thread, result) };
    }
    // SAFETY: the caller's arguments.
    unsafe { real::pthread_tryjoin_np(thread, result) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    time: *const timespec,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_timedjoin_np(thread, result, time) };
    };
    let deadline = if time.is_null() {
        None
    } else {
        let Some(deadline) = deadline(libc::CLOCK_REALTIME, time) else {
            return libc::EINVAL;
        };
        Some(deadline)
    };
    if !await_end(client, thread, deadline) {
        return libc::ETIMEDOUT;
    }
    // SAFETY: the caller's arguments.
    unsafe { join(thread, result) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    locked(&STARTED).remove(&thread);
    // SAFETY: the caller's argument.
    unsafe { real::pthread_detach(thread) }
}

/// Tickets of those who wait at an address, in order of their coming.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tickets: Vec<(Arc<AtomicBool>, u32)>,
}

/// How a wait at an address has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Woken {
    Called,
    /// Something else has ended it.
    Otherwise,
    TooLate,
}

/// Those who wait, by address.
pub(crate) struct Queues(Mutex<BTreeMap<usize, Queue>>);

impl Queues {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Waits at an address, for a call that has one of the bits; false: the deadline has come. What
    /// `before` does is done when this thread has its place.
    pub(crate) fn wait(
        &self,
        client: Client,
        what: &core::ffi::CStr,
        address: *const c_void,
        bits: u32,
        deadline: Option<u64>,
        before: impl FnOnce(),
    ) -> bool {
        let place = (address, bits, Waited::Process);
        let never = || false;
        self.wait_or(client, what, place, deadline, before, never) == Woken::Called
    }

    /// As [`Queues::wait`], of those that may call by `waited`, and until something else ends it.
    pub(crate) fn wait_or(
        &self,
        client: Client,
        what: &core::ffi::CStr,
        (address, bits, waited): (*const c_void, u32, Waited<'_>),
        deadline: Option<u64>,
        before: impl FnOnce(),
        is_over: impl Fn() -> bool,
    ) -> Woken {
        let ticket = Arc::new(AtomicBool::new(false));
        {
            let mut queues = locked(&self.0);
            let queue = queues.entry(address.addr()).or_default();
            queue.tickets.push((Arc::clone(&ticket), bits));
        }
        before();
        let look = || match ticket.load(Ordering::Relaxed) {
            true => Some(Woken::Called),
            false => is_over().then_some(Woken::Otherwise),
        };
        let woken = client.foreign(what, waited, deadline, look);
        let woken = woken.unwrap_or(Woken::TooLate);
        if woken != Woken::Called {
            self.edit(address, |queue| {
                queue
                    .tickets
                    .retain(|(other, _)| !Arc::ptr_eq(other, &ticket));
            });
        }
        woken
    }

    /// Calls so many who wait at an address for one of the bits, the first first. Returns how many
    /// there were.
    pub(crate) fn call(&self, address: *const c_void, count: usize, bits: u32) -> usize {
        self.edit(address, |queue| {
            let mut called = 0;
            queue.tickets.retain(|(ticket, wanted)| {
                if called == count || wanted & bits == 0 {
                    return true;
                }
                called += 1;
                ticket.store(true, Ordering::Relaxed);
                false
            });
            called
        })
    }

    fn edit<R: Default>(&self, address: *const c_void, edit: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queues = locked(&self.0);
        let Some(queue) = queues.get_mut(&address.addr()) else {
            return R::default();
        };
        let result = edit(queue);
        if queue.tickets.is_empty() {
            queues.remove(&address.addr());
        }
        result
    }
}
