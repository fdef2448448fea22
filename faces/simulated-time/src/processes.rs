//! Processes: made, replaced, waited for and ended.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{pid_t, rusage, siginfo_t};
use viaduct_turns::{Client, Waited, here};

use crate::counter;
use crate::interruptions::Interruption;
use crate::real::{self, errno, set_errno};
use crate::transfers::{before_call, before_look};

/// What a process does from here on is seen at its time.
pub(crate) fn before_end() {
    if let Some(client) = here() {
        client.synchronise();
    }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: c_int) -> ! {
    before_end();
    loop {
        // SAFETY: the call does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    let client = here();
    if let Some(client) = client {
        before_call(client);
    }
    // SAFETY: it has no arguments.
    let child = unsafe { real::fork() };
    if client.is_some() {
        match child {
            0 => crate::begin_child(),
            1.. => crate::has_child(child),
            _ => {}
        }
    }
    child
}

/// A child that shares the parent's memory would run on the parent's turn: it is a fork.
///
/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: a program that may do what a child of this may can do so in one of `fork`.
    unsafe { fork() }
}

/// Calls a function that starts another program, which may read the counter before it can know that
/// it must not.
fn with_counter<R>(start: impl FnOnce() -> R) -> R {
    counter::allow(true);
    let result = start();
    let error = errno();
    counter::allow(false);
    set_errno(error);
    result
}

fn spawned(start: impl FnOnce(*mut pid_t) -> c_int, pid: *mut pid_t) -> c_int {
    let mut own = 0;
    let result = with_counter(|| start(&raw mut own));
    if result == 0 {
        crate::has_child(own);
        if !pid.is_null() {
            // SAFETY: the caller's pointer.
            unsafe { pid.write(own) };
        }
    }
    result
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's arguments.
    let start =
        |pid| unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, environment) };
    let Some(client) = here() else {
        return start(pid);
    };
    before_call(client);
    spawned(start, pid)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's arguments.
    let start =
        |pid| unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, environment) };
    let Some(client) = here() else {
        return start(pid);
    };
    before_call(client);
    spawned(start, pid)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    let is_client = here().is_some();
    if !is_client || command.is_null() {
        // SAFETY: the caller's string.
        return unsafe { real::system(command) };
    }
    // The C library's would wait with the turn.
    let shell = c"/bin/sh".as_ptr();
    let words = [c"sh".as_ptr(), c"-c".as_ptr(), command, ptr::null()];
    let mut child = 0;
    let mut status = 0;
    // SAFETY: the words and the environment are arrays of strings that end with null.
    unsafe {
        let error = posix_spawn(
            &raw mut child,
            shell,
            ptr::null(),
            ptr::null(),
            words.as_ptr().cast(),
            environ.cast(),
        );
        if error != 0 {
            set_errno(error);
            return -1;
        }
        if waitpid(child, &raw mut status, 0) < 0 {
            return -1;
        }
    }
    status
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns what `look` finds, when it does not find nothing; `failed`, with errno: a signal has
/// ended that.
fn wait<R: PartialEq + From<u8> + Copy>(
    client: Client,
    does_not_wait: bool,
    failed: R,
    mut look: impl FnMut() -> R,
) -> R {
    before_look(client);
    let seen = look();
    if seen != R::from(0) || does_not_wait {
        return seen;
    }
    let interruption = Interruption::unless_restarted();
    let seen = client.foreign(c"wait", Waited::Anything, None, || {
        let seen = look();
        if seen != R::from(0) {
            return Some((seen, errno()));
        }
        interruption.has_come().then_some((failed, libc::EINTR))
    });
    let Some((seen, error)) = seen else {
        return R::from(0);
    };
    set_errno(error);
    seen
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::wait4(pid, status, options, usage) };
    };
    wait(client, options & libc::WNOHANG != 0, -1, || {
        // SAFETY: the caller's arguments.
        unsafe { real::wait4(pid, status, options | libc::WNOHANG, usage) }
    })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: the caller's arguments.
    unsafe { wait4(-1, status, options, usage) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the caller's arguments.
    unsafe { wait4(pid, status, options, ptr::null_mut()) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(export_name = "wait")]
pub unsafe extern "C" fn wait_for_any(status: *mut c_int) -> pid_t {
    // SAFETY: the caller's arguments.
    unsafe { wait4(-1, status, 0, ptr::null_mut()) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waitid(
    kind: c_uint,
    id: c_uint,
    about: *mut siginfo_t,
    options: c_int,
) -> c_int {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::waitid(kind, id, about, options) };
    };
    // SAFETY: zeros are such a structure.
    let mut own: siginfo_t = unsafe { core::mem::zeroed() };
    let result = wait(client, options & libc::WNOHANG != 0, -1, || {
        // SAFETY: the structure has room. Without a child that has changed, its number stays 0.
        unsafe {
            let result = real::waitid(kind, id, &raw mut own, options | libc::WNOHANG);
            if result == 0 {
                i64::from(own.si_pid())
            } else {
                -1
            }
        }
    });
    if result >= 0 && !about.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { about.write(own) };
    }
    if result < 0 { -1 } else { 0 }
}

/// Where a call that replaces the program returns to if it fails; 0: this process is no client. One
/// thread runs at a time.
static RETURN: AtomicUsize = AtomicUsize::new(0);

/// Before another program takes the place of this one, in a call that returns to `caller`: the C
/// library's function for it.
fn replace(cache: &AtomicPtr<c_void>, name: &core::ffi::CStr, caller: usize) -> *mut c_void {
    let client = here();
    if let Some(client) = client {
        before_call(client);
        counter::allow(true);
    }
    let caller = if client.is_some() { caller } else { 0 };
    RETURN.store(caller, Ordering::Relaxed);
    real::next(cache, name)
}

/// After such a call, which has failed: where it returns to.
extern "C" fn not_replaced() -> usize {
    let error = errno();
    counter::allow(false);
    set_errno(error);
    RETURN.load(Ordering::Relaxed)
}

/// Functions that replace the program. Those with a variable number of arguments cannot be written
/// here: each hands on what it was called with as it is, with another place to return to.
macro_rules! replaces {
    ($($name:ident by $find:ident;)+) => {$(
        extern "C" fn $find(caller: usize) -> *mut c_void {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            let name = concat!(stringify!($name), "\0");
            // SAFETY: it ends with its only zero.
            let name = unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(name.as_bytes()) };
            replace(&NEXT, name, caller)
        }

        /// In place of the C library's.
        ///
        /// # Safety
        ///
        /// As for that function.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "mov rdi, [rsp + 56]",
                "call {find}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "cmp qword ptr [rip + {caller}], 0",
                "jne 2f",
                "jmp r11",
                // The arguments on the stack are where they were.
                "2: add rsp, 8",
                "call r11",
                "push rax",
                "sub rsp, 8",
                "call {not_replaced}",
                "mov r11, rax",
                "add rsp, 8",
                "pop rax",
                "push r11",
                "ret",
                find = sym $find,
                caller = sym RETURN,
                not_replaced = sym not_replaced,
            )
        }
    )+};
}

replaces! {
    execve by find_execve;
    execv by find_execv;
    execvp by find_execvp;
    execvpe by find_execvpe;
    execl by find_execl;
    execlp by find_execlp;
    execle by find_execle;
    fexecve by find_fexecve;
}
