//! Pages of this process whose writers are held while they move.
//!
//! Memory that a program uses can be put into another place, and that place be mapped where the
//! first one was, if nobody writes between the copy and the mapping. `userfaultfd` holds whoever
//! writes: its thread sleeps in the write, and goes on with the same write in the new place.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Holds whoever writes to pages of a range, until it is dropped.
#[derive(Debug)]
pub struct Held {
    // All sleepers go on when it is closed.
    descriptor: OwnedFd,
}

impl Held {
    /// Holds writers of `length` bytes from `address` on, whole pages that are present.
    ///
    /// Who writes by a system call is held as well where this process may hold those
    /// ([`holds_system_calls`]); elsewhere such a call fails with `EFAULT` meanwhile.
    ///
    /// # Errors
    ///
    /// As [`check`]; what the system says of a range that is not mapped, or not of plain memory.
    pub fn over(address: usize, length: usize) -> io::Result<Self> {
        let held = Self {
            descriptor: open()?,
        };
        let range = Range {
            start: address as u64,
            length: length as u64,
        };
        let mut register = Register {
            range,
            mode: REGISTER_WRITE_PROTECT,
            calls: 0,
        };
        held.call(UFFDIO_REGISTER, &mut register)?;
        let mut protect = Protect {
            range,
            mode: PROTECT,
        };
        held.call(UFFDIO_WRITEPROTECT, &mut protect)?;
        Ok(held)
    }

    fn call<T>(&self, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        call(&self.descriptor, number, argument)
    }
}

/// Whether writers can be held here.
///
/// # Errors
///
/// A reason in words, where the kernel is too old or the system forbids it.
pub fn check() -> io::Result<()> {
    open().map(drop)
}

/// Whether those are held who write by system calls, too: a right of root's, or of all where
/// `vm.unprivileged_userfaultfd` is 1.
#[must_use]
pub fn holds_system_calls() -> bool {
    create(0).is_ok()
}

fn create(more: libc::c_int) -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | more;
    // SAFETY: the call takes a number alone.
    let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) })
}

fn open() -> io::Result<OwnedFd> {
    let descriptor = create(0)
        .or_else(|_| create(USER_MODE_ONLY))
        .map_err(|error| {
            let reason = match error.raw_os_error() {
                Some(libc::ENOSYS) => "this kernel has no userfaultfd",
                _ => "the system forbids userfaultfd, as containers do by default",
            };
            io::Error::new(error.kind(), format!("{reason} ({error})"))
        })?;
    let mut api = Api {
        version: UFFD_API,
        features: FEATURES,
        calls: 0,
    };
    call(&descriptor, UFFDIO_API, &mut api).map_err(|error| {
        let reason =
            "this kernel's userfaultfd cannot hold writers of shared memory, as Linux 5.19";
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{reason} can ({error})"),
        )
    })?;
    Ok(descriptor)
}

fn call<T>(descriptor: &OwnedFd, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: the number says how many bytes there are of an argument, which `T` has.
    let done = unsafe { libc::ioctl(descriptor.as_raw_fd(), number, &raw mut *argument) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

// Of `linux/userfaultfd.h`.

const UFFD_API: u64 = 0xaa;
const USER_MODE_ONLY: libc::c_int = 1;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, and `UFFD_FEATURE_WP_HUGETLBFS_SHMEM`.
const FEATURES: u64 = 1 | 1 << 12;
const REGISTER_WRITE_PROTECT: u64 = 1 << 1;
const PROTECT: u64 = 1;

const UFFDIO_API: libc::Ioctl = number::<Api>(0x3f);
const UFFDIO_REGISTER: libc::Ioctl = number::<Register>(0);
const UFFDIO_WRITEPROTECT: libc::Ioctl = number::<Protect>(6);

/// `_IOWR(0xaa, call, T)`.
const fn number<T>(call: u64) -> libc::Ioctl {
    (3 << 30 | (size_of::<T>() as u64) << 16 | UFFD_API << 8 | call) as libc::Ioctl
}

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    calls: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Range {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    calls: u64,
}

#[repr(C)]
struct Protect {
    range: Range,
    mode: u64,
}
