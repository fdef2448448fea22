//! A process to which the system refuses copies between memories, as a container's does.

use std::io;

/// Has a station refuse itself copies.
pub(crate) const VARIABLE: &str = "VIADUCT_STATION_REFUSED";

/// Installs a filter for this process under which `process_vm_readv` and `process_vm_writev` fail
/// with EPERM, and sees that they do.
pub(crate) fn refuse_copies() {
    let statement = |code: u32, jump_true, jump_false, value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k: value,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = [
        // The number of the call, which stands first.
        statement(load, 0, 0, 0),
        statement(is_equal, 1, 0, libc::SYS_process_vm_readv as u32),
        statement(is_equal, 0, 1, libc::SYS_process_vm_writev as u32),
        statement(answer, 0, 0, refused),
        statement(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
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
        let own = libc::getpid();
        let copied = libc::process_vm_readv(own, std::ptr::null(), 0, std::ptr::null(), 0, 0);
        assert_eq!(copied, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
    }
}
