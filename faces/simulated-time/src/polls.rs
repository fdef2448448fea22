//! Waits on many descriptors.

use core::ffi::{CStr, c_int};

use core::ffi::c_short;
use core::ptr;
use std::os::fd::RawFd;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use viaduct_turns::{Client, Waited, here};

use crate::clocks::{after, picoseconds};
use crate::interruptions::Interruption;
use crate::real::{self, errno, set_errno};
use crate::repeats::{Made, has_waited};
use crate::transfers::before_look;

/// How long a wait may take.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Never,
    Picoseconds(u64),
    /// As the program gave it, it is none.
    Wrong,
}

impl Limit {
    fn of_ms(milliseconds: c_int) -> Self {
        u64::try_from(milliseconds).map_or(Self::Never, |ms| Self::Picoseconds(ms * 1_000_000_000))
    }

    /// # Safety
    ///
    /// It is null or points to a length.
    pub(crate) unsafe fn of_timespec(length: *const timespec) -> Self {
        // SAFETY: the caller's promise.
        let Some(length) = (unsafe { length.as_ref() }) else {
            return Self::Never;
        };
        picoseconds(length).map_or(Self::Wrong, Self::Picoseconds)
    }

    /// # Safety
    ///
    /// It is null or points to a length.
    unsafe fn of_timeval(length: *const timeval) -> Self {
        // SAFETY: the caller's promise.
        let Some(length) = (unsafe { length.as_ref() }) else {
            return Self::Never;
        };
        let length = timespec {
            tv_sec: length.tv_sec,
            tv_nsec: length.tv_usec.saturating_mul(1000),
        };
        picoseconds(&length).map_or(Self::Wrong, Self::Picoseconds)
    }
}

/// Has `look`, which says how much is there, look until something is, or the time is up. It looks
/// at these descriptors, for these events; with a mask of its own for signals, it may be ended by
/// one that the thread has masked.
fn wait(
    client: Client,
    what: &CStr,
    limit: Limit,
    mask: *const sigset_t,
    descriptors: impl FnOnce() -> Vec<(RawFd, c_short)>,
    mut look: impl FnMut() -> c_int,
) -> c_int {
    let deadline = match limit {
        Limit::Wrong => {
            set_errno(libc::EINVAL);
            return -1;
        }
        Limit::Never => None,
        Limit::Picoseconds(length) => Some(length),
    };
    before_look(client);
    let seen = look();
    if seen != 0 || deadline == Some(0) {
        return seen;
    }
    let deadline = deadline.map(|length| after(client, length));
    let error = errno();
    let interruption = Interruption::by_any_handler();
    let descriptors = descriptors();
    let waited = match mask.is_null() {
        true => Waited::Descriptors(&descriptors),
        false => Waited::Anything,
    };
    let seen = client.foreign(what, waited, deadline, || {
        let seen = look();
        if seen == 0 && interruption.has_come() {
            return Some((-1, libc::EINTR));
        }
        (seen != 0).then(|| (seen, errno()))
    });
    let (seen, error) = seen.unwrap_or((0, error));
    set_errno(error);
    seen
}

/// # Safety
///
/// There are so many entries.
unsafe fn descriptors_of(entries: *const pollfd, count: nfds_t) -> Vec<(RawFd, c_short)> {
    // SAFETY: the caller's promise.
    let entry = |at| unsafe { *entries.add(at) };
    let entries = (0..count as usize).map(entry);
    entries.map(|entry| (entry.fd, entry.events)).collect()
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(entries: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::poll(entries, count, timeout_ms) };
    };
    // SAFETY: the caller's entries.
    let descriptors = || unsafe { descriptors_of(entries, count) };
    let limit = Limit::of_ms(timeout_ms);
    wait(client, c"poll", limit, ptr::null(), descriptors, || {
        // SAFETY: the caller's entries.
        unsafe { real::poll(entries, count, 0) }
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    entries: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    _room: usize,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { poll(entries, count, timeout_ms) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    entries: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::ppoll(entries, count, timeout, mask) };
    };
    let now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the caller's length.
    let limit = unsafe { Limit::of_timespec(timeout) };
    // SAFETY: the caller's entries.
    let descriptors = || unsafe { descriptors_of(entries, count) };
    wait(client, c"ppoll", limit, mask, descriptors, || {
        // SAFETY: the caller's entries and mask.
        unsafe { real::ppoll(entries, count, &raw const now, mask) }
    })
}

/// The three sets of a call, as they were given.
struct Sets {
    places: [*mut fd_set; 3],
    given: [Option<fd_set>; 3],
}

impl Sets {
    /// # Safety
    ///
    /// Each is null or points to a set.
    unsafe fn of(places: [*mut fd_set; 3]) -> Self {
        // SAFETY: the caller's promise.
        let given = places.map(|place| unsafe { place.as_ref() }.copied());
        Self { places, given }
    }

    /// What is in them, of so many.
    fn descriptors(&self, count: c_int) -> Vec<(RawFd, c_short)> {
        let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
        let count = count.clamp(0, libc::FD_SETSIZE as c_int);
        let wanted = |descriptor| {
            let sets = self.given.iter().zip(events);
            let events = sets.filter_map(|(set, events)| {
                // SAFETY: the set has room for as many.
                let is_in = unsafe { libc::FD_ISSET(descriptor, set.as_ref()?) };
                is_in.then_some(events)
            });
            let events = events.fold(0, |all, one| all | one);
            (events != 0).then_some((descriptor, events))
        };
        (0..count).filter_map(wanted).collect()
    }

    /// As they were.
    fn restore(&self) {
        for (place, given) in self.places.iter().zip(&self.given) {
            if let Some(given) = given {
                // SAFETY: it was read from there.
                unsafe { place.write(*given) };
            }
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::select(count, read, write, except, timeout) };
    };
    // SAFETY: the caller's sets and length.
    let (sets, limit) = unsafe { (Sets::of([read, write, except]), Limit::of_timeval(timeout)) };
    let descriptors = || sets.descriptors(count);
    wait(client, c"select", limit, ptr::null(), descriptors, || {
        sets.restore();
        let mut now = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        // SAFETY: the caller's sets.
        unsafe { real::select(count, read, write, except, &raw mut now) }
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::pselect(count, read, write, except, timeout, mask) };
    };
    // SAFETY: the caller's sets and length.
    let (sets, limit) = unsafe { (Sets::of([read, write, except]), Limit::of_timespec(timeout)) };
    let now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let descriptors = || sets.descriptors(count);
    wait(client, c"pselect", limit, mask, descriptors, || {
        sets.restore();
        // SAFETY: the caller's sets and mask.
        unsafe { real::pselect(count, read, write, except, &raw const now, mask) }
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller's arguments; no mask leaves the signals as they are.
    unsafe { epoll_pwait(epoll, events, count, timeout_ms, ptr::null()) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::epoll_pwait(epoll, events, count, timeout_ms, mask) };
    };
    let limit = Limit::of_ms(timeout_ms);
    let descriptors = || vec![(epoll, libc::POLLIN)];
    // SAFETY: the caller's room and mask.
    let mut look = || unsafe { real::epoll_pwait(epoll, events, count, 0, mask) };
    let made = Made::now(client);
    let seen = wait(client, c"epoll_wait", limit, mask, descriptors, &mut look);
    let Ok(told) = usize::try_from(seen) else {
        return seen;
    };
    let told = match told {
        0 => &[],
        // SAFETY: the call has put so many there.
        _ => unsafe { core::slice::from_raw_parts(events, told) },
    };
    match has_waited(client, made, epoll, told) {
        true => look(),
        false => seen,
    }
}
