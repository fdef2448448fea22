//! `io_uring`: what the system does for a program's rings takes real time while the program goes on
//! or waits there, and nothing of that is a call by name. A filter of the system has the calls that
//! make and use rings come to a handler, which answers as a system without them: programs that can
//! do without do so. The coordinator tells of it.
//!
//! A filter stays with what a process starts. Programs that are no clients, such as static ones,
//! have no handler: the call ends them, by SIGSYS. Where the system has no filters nothing is
//! refused.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{c_long, siginfo_t, sock_filter, sock_fprog};
use viaduct_turns::here;

use crate::faults::OfProgram;
use crate::real;
use crate::transfers::before_call;

/// The calls: these and those between.
const FIRST: c_long = libc::SYS_io_uring_setup;
const LAST: c_long = libc::SYS_io_uring_register;

/// What the program has set for the signal that such a call is.
pub(crate) static OF_PROGRAM: OfProgram = OfProgram::nothing();

/// The process has the filter; one that it forks, too.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// `SYS_SECCOMP` of `asm-generic/siginfo.h`: a call that a filter has stopped.
const STOPPED_BY_FILTER: c_int = 1;
/// `AUDIT_ARCH_X86_64` of `linux/audit.h`.
const X86_64: u32 = 0xc000_003e;
/// Where `struct seccomp_data` of `linux/seccomp.h` has the number of a call, and the machine.
const NUMBER_AT: u32 = 0;
const MACHINE_AT: u32 = 4;

/// One instruction of a filter.
const fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k: operand,
    }
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_NOT_LESS: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

static FILTER: [sock_filter; 7] = [
    instruction(LOAD, MACHINE_AT, 0, 0),
    instruction(IF_EQUAL, X86_64, 0, 3),
    instruction(LOAD, NUMBER_AT, 0, 0),
    instruction(IF_NOT_LESS, FIRST as u32, 0, 1),
    instruction(IF_NOT_LESS, LAST as u32 + 1, 0, 1),
    instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    instruction(RETURN, libc::SECCOMP_RET_TRAP, 0, 0),
];

/// Has such calls of this process, and of those that it starts, refused.
pub(crate) fn refuse() {
    OF_PROGRAM.listen(libc::SIGSYS, refused);
    if IS_FILTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    let program = sock_fprog {
        len: FILTER.len() as u16,
        filter: FILTER.as_ptr().cast_mut(),
    };
    let filter = || {
        // Threads that a library has started already have it, too; speculation stays as it is.
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
        let how = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the filter is one, which the call reads and does not keep.
        unsafe { libc::syscall(libc::SYS_seccomp, how, flags, &raw const program) == 0 }
    };
    if !filter() {
        // Who is not root must not start programs with others' rights from then on.
        // SAFETY: the call takes numbers.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        filter();
    }
}

extern "C" fn refused(signal: c_int, about: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes both. Where the result of the call is to be is its number.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let result = &mut registers[libc::REG_RAX as usize];
        let is_ours = (*about).si_code == STOPPED_BY_FILTER && (FIRST..=LAST).contains(result);
        if !is_ours {
            return OF_PROGRAM.pass_on(signal, about, context);
        }
        let error = real::errno();
        if let Some(client) = here() {
            before_call(client);
            viaduct_turns::tell_refused();
        }
        real::set_errno(error);
        *result = -i64::from(libc::ENOSYS);
    }
}
