//! Waits that a signal ends.
//!
//! Each handler that a program sets is called by one of ours (`handlers`), which counts here what
//! it has interrupted. A wait that began before is then over with EINTR, unless the handler was set
//! with `SA_RESTART` and the call is one of those that go on behind such a handler.

use core::cell::Cell;
use core::ffi::{CStr, c_int};
use std::io::Write as _;

use viaduct_turns::Client;

use crate::real;
use crate::transfers::is_ready;

/// How often a process is looked at until it has run a signal's handler.
const LOOKS_MAX: u32 = 10_000;
/// Bytes of a path below `/proc`.
const PATH_BYTES: usize = 64;

thread_local! {
    /// Handlers that have run in this thread, and those of them that were not set with
    /// `SA_RESTART`.
    static HANDLED: Cell<u64> = const { Cell::new(0) };
    static NOT_RESTARTED: Cell<u64> = const { Cell::new(0) };
}

/// A handler is about to run in this thread.
pub(crate) fn handled(has_restart: bool) {
    HANDLED.set(HANDLED.get() + 1);
    if !has_restart {
        NOT_RESTARTED.set(NOT_RESTARTED.get() + 1);
    }
    viaduct_turns::interrupt();
}

/// A wait of this thread, from here on, that a signal may end.
#[derive(Clone, Copy)]
pub(crate) struct Interruption {
    goes_on: bool,
    before: u64,
}

impl Interruption {
    /// Of a call that any handler ends: sleeps, `poll` and its like, sockets with a limit of time.
    pub(crate) fn by_any_handler() -> Self {
        Self::watch(false)
    }

    /// Of a call that goes on behind a handler with `SA_RESTART`.
    pub(crate) fn unless_restarted() -> Self {
        Self::watch(true)
    }

    fn watch(goes_on: bool) -> Self {
        let before = Self::count(goes_on);
        Self { goes_on, before }
    }

    fn count(goes_on: bool) -> u64 {
        match goes_on {
            true => NOT_RESTARTED.get(),
            false => HANDLED.get(),
        }
    }

    pub(crate) fn has_come(self) -> bool {
        Self::count(self.goes_on) != self.before
    }
}

/// Sends a signal of a timer to a thread or whoever takes it, and returns when its handler has run.
pub(crate) fn send(client: Client, number: c_int, value: usize, thread: Option<c_int>) {
    // SAFETY: it has no arguments.
    let process = unsafe { libc::getpid() };
    // What the system tells of a signal of a timer: number, error, code; timer, overruns, value.
    #[repr(C, align(8))]
    struct About([c_int; 6], usize, [u64; 12]);
    let about = About([number, 0, libc::SI_TIMER, 0, 0, 0], value, [0; 12]);
    viaduct_turns::show_time(client.now());
    // SAFETY: the structure has the size and layout that these calls want.
    unsafe {
        match thread {
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, process, number, &raw const about),
            Some(thread) => libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                number,
                &raw const about,
            ),
        };
    }
    await_handler(process, number);
    viaduct_turns::let_others_see();
}

/// Returns when a process that was sent a signal has run its handler, or has it masked: when none
/// of its threads is to take it or runs, but for the one that calls. A handler may call this: it
/// needs no memory.
pub(crate) fn await_handler(process: c_int, number: c_int) {
    for _ in 0..LOOKS_MAX {
        if !is_busy(process, number) {
            return;
        }
        // SAFETY: it has no arguments.
        unsafe { real::sched_yield() };
    }
}

/// Whether a thread of a process, not this one, runs or has this signal to take.
fn is_busy(process: c_int, number: c_int) -> bool {
    let mut path = [0_u8; PATH_BYTES];
    let Some(path) = path_of(&mut path, format_args!("/proc/{process}/task\0")) else {
        return false;
    };
    // SAFETY: the path is a string, the entries have room.
    unsafe {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let folder = libc::open(path.as_ptr(), flags);
        if folder < 0 {
            return false;
        }
        let own = libc::gettid();
        let mut entries = [0_u8; 4096];
        let mut is_busy = false;
        while !is_busy {
            let room = entries.len();
            let got = libc::syscall(libc::SYS_getdents64, folder, entries.as_mut_ptr(), room);
            let Some(mut rest) = usize::try_from(got).ok().and_then(|got| entries.get(..got))
            else {
                break;
            };
            if rest.is_empty() {
                break;
            }
            // An entry: its number and place, 8 bytes each, its length, 2, its kind, 1, its name.
            while let Some((entry, behind)) = rest
                .get(16..18)
                .map(|length| usize::from(u16::from_ne_bytes([length[0], length[1]])))
                .filter(|length| *length > 19)
                .and_then(|length| rest.split_at_checked(length))
            {
                rest = behind;
                let name = CStr::from_bytes_until_nul(&entry[19..]).ok();
                let thread = name.and_then(|name| name.to_str().ok()?.parse().ok());
                is_busy |= thread.is_some_and(|it: c_int| it != own && runs(process, it, number));
            }
        }
        real::close(folder);
        is_busy
    }
}

/// Whether a thread runs or has a signal to take.
fn runs(process: c_int, thread: c_int, number: c_int) -> bool {
    let mut path = [0_u8; PATH_BYTES];
    let mut bytes = [0_u8; 4096];
    let what = format_args!("/proc/{process}/task/{thread}/status\0");
    let text = path_of(&mut path, what).and_then(|path| contents(path, &mut bytes));
    let Some(text) = text else { return false };
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("", str::trim)
    };
    let has = |name| {
        let set = u64::from_str_radix(field(name), 16).unwrap_or(0);
        set >> (number - 1) & 1 != 0
    };
    let takes = (has("SigPnd:") || has("ShdPnd:")) && !has("SigBlk:");
    match field("State:").as_bytes().first() {
        Some(b'R') => true,
        // One that has ended keeps the signal.
        Some(b'Z' | b'X') => false,
        _ => takes,
    }
}

/// A path, which ends with a zero, in place.
fn path_of<'a>(room: &'a mut [u8], path: core::fmt::Arguments<'_>) -> Option<&'a CStr> {
    (&mut *room).write_fmt(path).ok()?;
    CStr::from_bytes_until_nul(room).ok()
}

/// The beginning of a file, read without a call of ours, which would give the turn.
fn contents<'a>(path: &CStr, room: &'a mut [u8]) -> Option<&'a str> {
    // SAFETY: the path is a string, and the bytes have room.
    let length = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = real::read(file, room.as_mut_ptr().cast(), room.len());
        real::close(file);
        length
    };
    str::from_utf8(room.get(..usize::try_from(length).ok()?)?).ok()
}

/// Adds to what an eventfd counts. A closed descriptor takes nothing.
pub(crate) fn add(descriptor: c_int, count: u64) {
    // SAFETY: the number lives until the call returns.
    unsafe { real::write(descriptor, (&raw const count).cast(), size_of_val(&count)) };
}

/// Takes what an eventfd has counted.
pub(crate) fn drain(descriptor: c_int) {
    let mut count = 0_u64;
    if is_ready(descriptor, libc::POLLIN) {
        // SAFETY: the number has room.
        unsafe { real::read(descriptor, (&raw mut count).cast(), size_of_val(&count)) };
    }
}
