//! A process to which the system refuses calls, as a container's does.

use std::io;

/// Has a station refuse itself copies.
pub(crate) const VARIABLE: &str = "VIADUCT_STATION_REFUSED";

/// Refuses itself copies between memories, and sees that they are.
pub(crate) fn refuse_copies() {
    refuse(&[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev]);
    // SAFETY: no bytes are named.
    let copied = unsafe {
        let own = libc::getpid();
        libc::process_vm_readv(own, std::ptr::null(), 0, std::ptr::null(), 0, 0)
    };
    assert_eq!(copied, -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
}

/// Installs a filter under which some system calls fail with EPERM: of this thread, and of those
/// and the processes that it starts.
pub(crate) fn refuse(calls: &[libc::c_long]) {
    let statement = |code: u32, jump_true: usize, value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_true as u8,
        jf: 0,
        k: value,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // The number of the call, which stands first.
    let mut program = vec![statement(load, 0, 0)];
    for (left, &call) in (1..=calls.len()).rev().zip(calls) {
        program.push(statement(is_equal, left, call as u32));
    }
    program.push(statement(answer, 0, libc::SECCOMP_RET_ALLOW));
    program.push(statement(answer, 0, refused));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: numbers, and a program that lives until it has been taken over.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        let set = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter);
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}
