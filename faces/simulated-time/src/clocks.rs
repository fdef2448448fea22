//! Clocks and sleeps.

use core::ffi::{c_int, c_long, c_uint, c_void};

use libc::{timespec, timeval};
use viaduct_turns::{Client, TIME_MAX, here};

use crate::cost;
use crate::interruptions::Interruption;
use crate::real::{self, set_errno};

/// The simulated time at which a run begins, for clocks of the day: 2020-01-01 00:00 UTC.
const EPOCH_S: i64 = 1_577_836_800;
/// What clocks that count from a start say when a run begins: programs take 0 for none.
pub(crate) const START_S: i64 = 1000;
const PS_PER_S: i128 = 1_000_000_000_000;
const PS_PER_NS: u64 = 1000;

/// The seconds that a clock shows at the beginning of a run; none: it is no clock of ours.
pub(crate) const fn base_s(clock: c_int) -> Option<i64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(EPOCH_S),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Some(START_S),
        // A thread is taken to compute whenever it does not wait, at no cost: all time is its.
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Some(0),
        _ => None,
    }
}

/// What a clock that began at `base_s` shows at a simulated time.
const fn shown(time: u64, base_s: i64) -> timespec {
    let ns = time / PS_PER_NS;
    timespec {
        tv_sec: base_s + (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as c_long,
    }
}

/// Picoseconds of a length of time; none: it is none.
pub(crate) fn picoseconds(length: &timespec) -> Option<u64> {
    if length.tv_sec < 0 || !(0..1_000_000_000).contains(&length.tv_nsec) {
        return None;
    }
    let ps = i128::from(length.tv_sec) * PS_PER_S + i128::from(length.tv_nsec) * 1000;
    Some(u64::try_from(ps).unwrap_or(TIME_MAX).min(TIME_MAX))
}

/// The simulated time at which a clock shows this; none: it is no time, or no clock of ours.
pub(crate) fn simulated(clock: c_int, time: &timespec) -> Option<u64> {
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return None;
    }
    let since_s = i128::from(time.tv_sec) - i128::from(base_s(clock)?);
    let ps = since_s * PS_PER_S + i128::from(time.tv_nsec) * 1000;
    Some(ps.clamp(0, i128::from(TIME_MAX)) as u64)
}

/// So long from now.
pub(crate) fn after(client: Client, picoseconds: u64) -> u64 {
    client.now().saturating_add(picoseconds).min(TIME_MAX)
}

/// Reads this thread's clock, which costs what it costs.
fn read(client: Client) -> u64 {
    client.charge(cost::CLOCK_READ);
    client.now()
}

/// This process as a client, for what a signal's handler may ask for at any moment.
fn client() -> Option<Client> {
    viaduct_turns::local()
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, to: *mut timespec) -> c_int {
    let (Some(client), Some(base_s)) = (client(), base_s(clock)) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::clock_gettime(clock, to) };
    };
    // SAFETY: the caller's pointer.
    unsafe { to.write(shown(read(client), base_s)) };
    0
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_getres(clock: c_int, to: *mut timespec) -> c_int {
    if client().is_none() || base_s(clock).is_none() {
        // SAFETY: the caller's arguments.
        return unsafe { real::clock_getres(clock, to) };
    }
    if !to.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { to.write(shown(PS_PER_NS, 0)) };
    }
    0
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(to: *mut timeval, zone: *mut c_void) -> c_int {
    let Some(client) = client() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::gettimeofday(to, zone) };
    };
    let now = shown(read(client), EPOCH_S);
    if !to.is_null() {
        let now = timeval {
            tv_sec: now.tv_sec,
            tv_usec: now.tv_nsec / 1000,
        };
        // SAFETY: the caller's pointer.
        unsafe { to.write(now) };
    }
    if !zone.is_null() {
        // Greenwich.
        // SAFETY: the caller's pointer to two numbers.
        unsafe { zone.cast::<[c_int; 2]>().write([0, 0]) };
    }
    0
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(to: *mut libc::time_t) -> libc::time_t {
    let Some(client) = client() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::time(to) };
    };
    let now = shown(read(client), EPOCH_S).tv_sec;
    if !to.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { to.write(now) };
    }
    now
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(to: *mut timespec, base: c_int) -> c_int {
    let (Some(client), 1) = (client(), base) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::timespec_get(to, base) };
    };
    // SAFETY: the caller's pointer.
    unsafe { to.write(shown(read(client), EPOCH_S)) };
    base
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn clock() -> libc::clock_t {
    let Some(client) = client() else {
        // SAFETY: it has no arguments.
        return unsafe { real::clock() };
    };
    (read(client) / (1000 * PS_PER_NS)) as libc::clock_t
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn times(to: *mut libc::tms) -> libc::clock_t {
    let Some(client) = client() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::times(to) };
    };
    // A hundred a second.
    let ticks = (read(client) / 10_000_000_000) as libc::clock_t;
    if !to.is_null() {
        let now = libc::tms {
            tms_utime: ticks,
            tms_stime: 0,
            tms_cutime: 0,
            tms_cstime: 0,
        };
        // SAFETY: the caller's pointer.
        unsafe { to.write(now) };
    }
    START_S * 100 + ticks
}

/// In place of the C library's. What children have computed is free.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrusage(whose: c_int, to: *mut libc::rusage) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { real::getrusage(whose, to) };
    if let Some(client) = client()
        && result == 0
    {
        client.charge(cost::SYSTEM_CALL);
        let computed = match whose {
            libc::RUSAGE_CHILDREN => 0,
            _ => client.now(),
        };
        let time = |picoseconds| {
            let time = shown(picoseconds, 0);
            timeval {
                tv_sec: time.tv_sec,
                tv_usec: time.tv_nsec / 1000,
            }
        };
        // SAFETY: the caller's pointer, at which the system has written.
        unsafe { ((*to).ru_utime, (*to).ru_stime) = (time(computed), time(0)) };
    }
    result
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(how_long: *const timespec, left: *mut timespec) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::nanosleep(how_long, left) };
    };
    // SAFETY: the caller's pointer.
    let Some(length) = picoseconds(unsafe { &*how_long }) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    match sleep_for(client, length) {
        0 => 0,
        rest => {
            // SAFETY: the caller's pointer.
            unsafe { tell_rest(left, rest) };
            set_errno(libc::EINTR);
            -1
        }
    }
}

/// # Safety
///
/// It is null or has room.
unsafe fn tell_rest(to: *mut timespec, rest: u64) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(shown(rest, 0)) };
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    how_long: *const timespec,
    left: *mut timespec,
) -> c_int {
    let (Some(client), Some(_)) = (here(), base_s(clock)) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::clock_nanosleep(clock, flags, how_long, left) };
    };
    // SAFETY: the caller's pointer.
    let time = unsafe { &*how_long };
    if flags & libc::TIMER_ABSTIME != 0 {
        let Some(until) = simulated(clock, time) else {
            return libc::EINVAL;
        };
        client.charge(cost::SYSTEM_CALL);
        if !sleep_until(client, until) {
            return libc::EINTR;
        }
    } else {
        let Some(length) = picoseconds(time) else {
            return libc::EINVAL;
        };
        let rest = sleep_for(client, length);
        if rest > 0 {
            // SAFETY: the caller's pointer.
            unsafe { tell_rest(left, rest) };
            return libc::EINTR;
        }
    }
    0
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn usleep(microseconds: c_uint) -> c_int {
    let Some(client) = here() else {
        // SAFETY: it takes a number.
        return unsafe { real::usleep(microseconds) };
    };
    if sleep_for(client, u64::from(microseconds) * 1000 * PS_PER_NS) > 0 {
        set_errno(libc::EINTR);
        return -1;
    }
    0
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let Some(client) = here() else {
        // SAFETY: it takes a number.
        return unsafe { real::sleep(seconds) };
    };
    let length = timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    let rest = sleep_for(client, picoseconds(&length).unwrap_or(TIME_MAX));
    rest.div_ceil(PS_PER_S as u64) as c_uint
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    let Some(client) = here() else {
        // SAFETY: it has no arguments.
        return unsafe { real::sched_yield() };
    };
    client.charge(cost::SYSTEM_CALL);
    client.synchronise();
    0
}

/// What is left when a signal has ended it.
fn sleep_for(client: Client, picoseconds: u64) -> u64 {
    client.charge(cost::SYSTEM_CALL);
    let until = after(client, picoseconds);
    match sleep_until(client, until) {
        true => 0,
        false => until.saturating_sub(client.now()),
    }
}

/// False: a signal has ended it before.
fn sleep_until(client: Client, until: u64) -> bool {
    let interruption = Interruption::by_any_handler();
    client.sleep_until(until);
    !interruption.has_come() || client.now() >= until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_shown_is_the_time_simulated() {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            for time in [
                0,
                1000,
                999_999_999_000,
                1_000_000_000_000,
                7_654_321_987_654_000,
            ] {
                let seen = shown(time, base_s(clock).unwrap());
                assert_eq!(simulated(clock, &seen), Some(time));
            }
        }
        let early = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        assert_eq!(simulated(libc::CLOCK_REALTIME, &early), Some(0));
        assert_eq!(simulated(-1, &early), None);
    }

    #[test]
    fn lengths_that_are_none_are_refused() {
        let length = |tv_sec, tv_nsec| picoseconds(&timespec { tv_sec, tv_nsec });
        assert_eq!(length(1, 5), Some(1_000_000_005_000));
        assert_eq!(length(i64::MAX, 0), Some(TIME_MAX));
        for (s, ns) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(length(s, ns), None);
        }
    }
}
