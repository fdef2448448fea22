//! The processor's counter of time: reading it is forbidden, and what the handler of the fault puts
//! in its place is a nanosecond a tick.

use core::ffi::{c_int, c_void};
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::sigset_t;

use crate::clocks::START_S;
use crate::cost;
use crate::faults::OfProgram;
use crate::real;

/// What the program has set for the signal that a read of the counter is.
pub(crate) static OF_PROGRAM: OfProgram = OfProgram::nothing();

/// Has reads of the counter by this thread, and those it makes, come to the handler.
pub(crate) fn forbid() {
    OF_PROGRAM.listen(libc::SIGSEGV, fault);
    allow(false);
}

/// Reads by this thread are allowed while it starts another program, which has no handler when it
/// reads first.
pub(crate) fn allow(is_allowed: bool) {
    let how = if is_allowed {
        libc::PR_TSC_ENABLE
    } else {
        libc::PR_TSC_SIGSEGV
    };
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TSC, how) };
}

/// The instructions that read the counter, and their lengths.
fn reads_counter(code: *const u8) -> Option<(i64, bool)> {
    // SAFETY: an instruction is there: the processor has read it. The third byte is looked at when
    // the first two are those of one that has three.
    unsafe {
        match (*code, *code.add(1)) {
            (0x0f, 0x31) => Some((2, false)),
            (0x0f, 0x01) if *code.add(2) == 0xf9 => Some((3, true)),
            _ => None,
        }
    }
}

/// The processor time that a read of the counter takes at least, where computing counts.
static FAULT_NS: AtomicU64 = AtomicU64::new(0);
/// That is being measured.
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

/// What reads of the counter take the processor is no computing of the program's.
pub(crate) fn measure() {
    IS_MEASURED.store(true, Ordering::Relaxed);
    let least = viaduct_turns::least_processor_ns(|| {
        // SAFETY: every processor of this architecture has it.
        black_box(unsafe { core::arch::x86_64::_rdtsc() });
    });
    IS_MEASURED.store(false, Ordering::Relaxed);
    FAULT_NS.store(least.unwrap_or(0), Ordering::Relaxed);
}

/// Nanoseconds that the counter shows, which is read.
fn read() -> u64 {
    if IS_MEASURED.load(Ordering::Relaxed) {
        return 0;
    }
    let Some(client) = viaduct_turns::local() else {
        return 0;
    };
    viaduct_turns::let_computing_go(FAULT_NS.load(Ordering::Relaxed));
    client.charge(cost::COUNTER_READ);
    client.now() / 1000 + START_S as u64 * 1_000_000_000
}

extern "C" fn fault(signal: c_int, about: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes both. Of a fault by an instruction that is forbidden it knows no
    // address: the kernel says so by this code.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let is_fault = (*about).si_code == SI_KERNEL;
        let code = registers[libc::REG_RIP as usize] as *const u8;
        if is_fault && let Some((length, has_processor)) = reads_counter(code) {
            let error = real::errno();
            let ticks = read();
            real::set_errno(error);
            registers[libc::REG_RAX as usize] = (ticks & 0xffff_ffff) as i64;
            registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
            if has_processor {
                registers[libc::REG_RCX as usize] = 0;
            }
            registers[libc::REG_RIP as usize] += length;
            return;
        }
        OF_PROGRAM.pass_on(signal, about, context);
    }
}

/// `SI_KERNEL` of `asm-generic/siginfo.h`.
const SI_KERNEL: c_int = 0x80;

/// Takes our signals out of a set: the counter's and those of [`crate::io_uring`] and
/// [`crate::steps`], since a fault that is masked ends the process, and that of [`crate::loops`].
///
/// # Safety
///
/// It is a set.
pub(crate) unsafe fn open_ours(set: *mut sigset_t) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::sigdelset(set, libc::SIGSEGV);
        libc::sigdelset(set, libc::SIGSYS);
        libc::sigdelset(set, libc::SIGTRAP);
        libc::sigdelset(set, crate::loops::number());
    }
}

/// Calls a function that changes a mask with a set that leaves our signals open.
///
/// # Safety
///
/// `set` is null or points to a set.
pub(crate) unsafe fn without_ours(
    how: c_int,
    set: *const sigset_t,
    change: impl FnOnce(*const sigset_t) -> c_int,
) -> c_int {
    if set.is_null() || how == libc::SIG_UNBLOCK || viaduct_turns::local().is_none() {
        return change(set);
    }
    // SAFETY: the caller's set; the copy is ours.
    unsafe {
        let mut open = *set;
        open_ours(&raw mut open);
        change(&raw const open)
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { without_ours(how, set, |set| real::sigprocmask(how, set, old)) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { without_ours(how, set, |set| real::pthread_sigmask(how, set, old)) }
}
