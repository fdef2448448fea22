//! Signals of timers, and the waits that they end.
//!
//! A signal is the process's, and the system has the first thread take it unless that has masked
//! it: waits of the first thread are then over.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use viaduct_turns::Client;

use crate::real;
use crate::transfers::is_ready;

/// How often the first thread is looked at until it has run a signal's handler.
const LOOKS_MAX: u32 = 10_000;

/// Signals that have been sent to the first thread, for its waits; and timers that may send some.
static SENT: AtomicU64 = AtomicU64::new(0);
static MAY_SEND: AtomicBool = AtomicBool::new(false);

/// A timer that sends signals is set.
pub(crate) fn expect() {
    MAY_SEND.store(true, Ordering::Relaxed);
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
    let taker = thread.unwrap_or(process);
    let mut handles = false;
    for _ in 0..LOOKS_MAX {
        let Some(status) = Taker::of(taker, number) else {
            return;
        };
        if status.is_masked {
            return;
        }
        handles |= !status.has_it;
        if handles && status.sleeps {
            break;
        }
        // SAFETY: it has no arguments.
        unsafe { real::sched_yield() };
    }
    if taker == process {
        SENT.fetch_add(1, Ordering::Relaxed);
        if let Some(bell) = bell() {
            add(bell, 1);
        }
    }
}

/// What a file has, read without a call of ours, which would give the turn.
fn contents(path: &str) -> Option<String> {
    let path = CStr::from_bytes_until_nul(path.as_bytes()).ok()?;
    let mut bytes = [0_u8; 4096];
    // SAFETY: the path is a string, and the bytes have room.
    let length = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = real::read(file, bytes.as_mut_ptr().cast(), bytes.len());
        real::close(file);
        length
    };
    let bytes = bytes.get(..usize::try_from(length).ok()?)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// The thread that takes a signal.
struct Taker {
    sleeps: bool,
    is_masked: bool,
    /// The signal waits for it, or for the process.
    has_it: bool,
}

impl Taker {
    fn of(thread: c_int, number: c_int) -> Option<Self> {
        let text = contents(&format!("/proc/self/task/{thread}/status\0"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map_or("", str::trim)
        };
        let has = |name| {
            let set = u64::from_str_radix(field(name), 16).unwrap_or(0);
            set >> (number - 1) & 1 != 0
        };
        Some(Self {
            sleeps: !field("State:").starts_with('R'),
            is_masked: has("SigBlk:"),
            has_it: has("SigPnd:") || has("ShdPnd:"),
        })
    }
}

/// An eventfd that is written to when the first thread has taken a signal, so that its waits at
/// descriptors end. None if the system gives none.
fn bell() -> Option<c_int> {
    static BELL: std::sync::OnceLock<c_int> = std::sync::OnceLock::new();
    // SAFETY: the call takes numbers.
    let bell =
        *BELL.get_or_init(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) });
    (bell >= 0).then_some(bell)
}

/// A wait of this thread that a signal of a timer ends.
pub(crate) struct Interruption(Option<u64>);

impl Interruption {
    /// From here on.
    pub(crate) fn watch() -> Self {
        // SAFETY: neither has arguments.
        let is_first = || unsafe { libc::gettid() == libc::getpid() };
        let can_be = MAY_SEND.load(Ordering::Relaxed) && is_first();
        if can_be && let Some(bell) = bell() {
            drain(bell);
        }
        Self(can_be.then(|| SENT.load(Ordering::Relaxed)))
    }

    /// Whether one can come at all.
    pub(crate) const fn can_come(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0
            .is_some_and(|sent| sent != SENT.load(Ordering::Relaxed))
    }

    /// Where something is to be read when it has come.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        self.0.and_then(|_| bell())
    }
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
