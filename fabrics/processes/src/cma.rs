//! One copy between private memories by the kernel.
//!
//! Two calls of Linux move bytes between the memories of two processes without either mapping the
//! other's: no page is shared and nothing has to be arranged before. They cost a system call (about
//! 1.5 us) and are refused by some systems and containers, which [`probe`] finds out once a link.
//!
//! A process is named by its number, and numbers are used again: the caller knows by the link's
//! socket and pidfd that the peer is alive, and stops when it is not.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;

/// Copies all of `local` into `remote`, ranges of the process `pid`. Tells the bytes copied, which
/// are the bytes of either list.
///
/// # Safety
///
/// The local ranges can be read; who else writes them meanwhile makes the bytes arbitrary.
///
/// # Errors
///
/// `InvalidInput` when the lists differ in bytes or one of the ranges is not mapped, `NotFound`
/// when there is no such process, `PermissionDenied` when the system forbids it, `Unsupported` when
/// it has no such call. Some of the bytes may have been copied.
pub unsafe fn write(
    pid: i32,
    local: &[(*const u8, usize)],
    remote: &[(u64, u64)],
) -> io::Result<usize> {
    let near = |range: &(*const u8, usize)| (range.0.cast_mut().cast(), range.1);
    // SAFETY: the kernel reads `local_count` and `remote_count` ranges from the arrays, the bytes
    // of the former as promised by the caller, and writes no memory of this process; unless `pid`
    // is this one, and then what its own program asked for.
    transfer(local, near, remote, |mine, theirs| unsafe {
        libc::process_vm_writev(
            pid,
            mine.as_ptr(),
            mine.len() as libc::c_ulong,
            theirs.as_ptr(),
            theirs.len() as libc::c_ulong,
            0,
        )
    })
}

/// Copies all of `remote`, ranges of the process `pid`, into `local`.
///
/// # Safety
///
/// The local ranges can be written, and nobody holds a reference to their bytes.
///
/// # Errors
///
/// As [`write()`].
pub unsafe fn read(
    pid: i32,
    local: &[(*mut u8, usize)],
    remote: &[(u64, u64)],
) -> io::Result<usize> {
    let near = |range: &(*mut u8, usize)| (range.0.cast(), range.1);
    // SAFETY: as in `write`; the kernel writes the local ranges, as promised by the caller.
    transfer(local, near, remote, |mine, theirs| unsafe {
        libc::process_vm_readv(
            pid,
            mine.as_ptr(),
            mine.len() as libc::c_ulong,
            theirs.as_ptr(),
            theirs.len() as libc::c_ulong,
            0,
        )
    })
}

/// Whether this process may copy from `pid`, and it is the process that it is thought to be:
/// `expected` lies at `address` there.
pub fn probe(pid: i32, address: u64, expected: &[u8; 16]) -> bool {
    let mut found = [0_u8; 16];
    let length = found.len();
    // SAFETY: `found` is local and as long as it says.
    let copied = unsafe {
        read(
            pid,
            &[(found.as_mut_ptr(), length)],
            &[(address, length as u64)],
        )
    };
    copied.is_ok() && found == *expected
}

/// Calls the kernel until all bytes are copied.
fn transfer<T>(
    local: &[T],
    near: impl Fn(&T) -> (*mut c_void, usize),
    remote: &[(u64, u64)],
    mut call: impl FnMut(&[libc::iovec], &[libc::iovec]) -> isize,
) -> io::Result<usize> {
    let far = |range: &(u64, u64)| (range.0 as *mut c_void, range.1 as usize);
    let wanted = sum(local.iter().map(|range| near(range).1));
    let offered = sum(remote.iter().map(|range| far(range).1));
    let (Some(total), true) = (wanted, wanted == offered) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the two sides of a copy between processes differ in length",
        ));
    };
    let mut mine = Cursor::new(local, near);
    let mut theirs = Cursor::new(remote, far);
    let mut copied = 0;
    while copied < total {
        let mut mine_batch = [const { MaybeUninit::uninit() }; BATCH_RANGES];
        let mut theirs_batch = [const { MaybeUninit::uninit() }; BATCH_RANGES];
        let moved = call(mine.batch(&mut mine_batch), theirs.batch(&mut theirs_batch));
        let Ok(moved) = usize::try_from(moved) else {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(explained(error));
        };
        if moved == 0 {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "the system stopped in the middle of a copy between processes",
            ));
        }
        copied += moved;
        mine.advance(moved);
        theirs.advance(moved);
    }
    Ok(copied)
}

fn sum(mut lengths: impl Iterator<Item = usize>) -> Option<usize> {
    lengths.try_fold(0, usize::checked_add)
}

/// What is left of a list of ranges.
struct Cursor<'a, T, F> {
    ranges: &'a [T],
    /// Bytes of the first range that are done.
    done: usize,
    view: F,
}

impl<'a, T, F: Fn(&T) -> (*mut c_void, usize)> Cursor<'a, T, F> {
    const fn new(ranges: &'a [T], view: F) -> Self {
        Self {
            ranges,
            done: 0,
            view,
        }
    }

    /// The next ranges that have bytes, as many as there is room for.
    fn batch<'b>(&self, room: &'b mut [MaybeUninit<libc::iovec>]) -> &'b [libc::iovec] {
        let mut count = 0;
        let mut done = self.done;
        for range in self.ranges {
            let (base, length) = (self.view)(range);
            if length > done {
                let Some(place) = room.get_mut(count) else {
                    break;
                };
                place.write(libc::iovec {
                    iov_base: base.wrapping_byte_add(done),
                    iov_len: length - done,
                });
                count += 1;
            }
            done = 0;
        }
        // SAFETY: the first `count` places of the array are written.
        unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) }
    }

    fn advance(&mut self, mut bytes: usize) {
        while let Some((first, rest)) = self.ranges.split_first() {
            let left = (self.view)(first).1 - self.done;
            if bytes < left {
                self.done += bytes;
                return;
            }
            bytes -= left;
            self.done = 0;
            self.ranges = rest;
        }
    }
}

/// The system's error, in words that say what to do.
fn explained(error: io::Error) -> io::Error {
    let (kind, reason) = match error.raw_os_error() {
        Some(libc::EFAULT) => (
            io::ErrorKind::InvalidInput,
            "a range of a copy between processes is not mapped, here or in the peer",
        ),
        Some(libc::EPERM) => (
            io::ErrorKind::PermissionDenied,
            "the system forbids copies between these processes (another user, ptrace_scope, or a \
             container's filter): use shared memory",
        ),
        Some(libc::ESRCH) => (
            io::ErrorKind::NotFound,
            "the process to copy from or to is gone",
        ),
        Some(libc::ENOSYS) => (
            io::ErrorKind::Unsupported,
            "this system has no copies between processes: use shared memory",
        ),
        _ => return error,
    };
    io::Error::new(kind, reason)
}

/// Ranges given to one call; the system's limit is 1024. A descriptor has at most 252.
const BATCH_RANGES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        std::process::id() as i32
    }

    fn remote(bytes: &mut [u8], at: usize, length: usize) -> (u64, u64) {
        (bytes[at..].as_mut_ptr() as u64, length as u64)
    }

    #[test]
    fn ranges_are_cut_differently_on_both_sides() {
        let source: Vec<u8> = (0..100).collect();
        let mut target = vec![0_u8; 200];
        let local = [
            (source.as_ptr(), 0),
            (source.as_ptr(), 33),
            (source[33..].as_ptr(), 67),
        ];
        let theirs = [
            remote(&mut target, 100, 1),
            remote(&mut target, 7, 0),
            remote(&mut target, 0, 99),
        ];
        // SAFETY: all ranges lie in the two vectors.
        let copied = unsafe { write(own(), &local, &theirs) };
        assert_eq!(copied.unwrap(), 100);
        assert_eq!(target[100], 0);
        assert_eq!(target[..99], source[1..]);
        let mut back = vec![0_u8; 100];
        // SAFETY: all ranges lie in the two vectors.
        let copied = unsafe { read(own(), &[(back.as_mut_ptr(), 100)], &theirs) };
        assert_eq!(copied.unwrap(), 100);
        assert_eq!(back, source);
    }

    #[test]
    fn more_ranges_than_one_call_takes() {
        let source: Vec<u8> = (0..3000_u32).map(|i| i as u8).collect();
        let mut target = vec![0_u8; 3000];
        let base = target.as_mut_ptr() as u64;
        let local: Vec<_> = source.chunks(3).map(|c| (c.as_ptr(), c.len())).collect();
        let theirs: Vec<_> = (0..3000).step_by(2).map(|at| (base + at, 2)).collect();
        assert!(local.len() > 3 * BATCH_RANGES);
        // SAFETY: all ranges lie in the two vectors.
        let copied = unsafe { write(own(), &local, &theirs) };
        assert_eq!(copied.unwrap(), 3000);
        assert_eq!(target, source);
    }

    #[test]
    fn a_copy_that_the_system_cuts_short_is_continued() {
        // A call that moves at most 7 bytes, on plain memory.
        let source: Vec<u8> = (0..100).collect();
        let mut target = vec![0_u8; 100];
        let theirs = [remote(&mut target, 0, 60), remote(&mut target, 60, 40)];
        let local = [(source.as_ptr(), 50), (source[50..].as_ptr(), 50)];
        let near = |range: &(*const u8, usize)| (range.0.cast_mut().cast(), range.1);
        let copied = transfer(&local, near, &theirs, |mine, theirs| {
            let moved = mine[0].iov_len.min(theirs[0].iov_len).min(7);
            // SAFETY: the ranges lie in the two vectors.
            unsafe { std::ptr::copy(mine[0].iov_base, theirs[0].iov_base, moved) };
            moved as isize
        });
        assert_eq!(copied.unwrap(), 100);
        assert_eq!(target, source);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let byte = [7_u8];
        let local = [(byte.as_ptr(), 1)];
        // SAFETY: the local range is there; the remote ones are refused.
        let kind =
            |pid, remote: &[(u64, u64)]| unsafe { write(pid, &local, remote).unwrap_err().kind() };
        assert_eq!(kind(own(), &[(16, 1)]), io::ErrorKind::InvalidInput);
        assert_eq!(kind(own(), &[(16, 2)]), io::ErrorKind::InvalidInput);
        let endless = [(0, u64::MAX), (0, 2)];
        assert_eq!(kind(own(), &endless), io::ErrorKind::InvalidInput);
        let here = [(byte.as_ptr() as u64, 1)];
        assert_eq!(kind(i32::MAX, &here), io::ErrorKind::NotFound);
        assert_eq!(kind(0, &here), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_probe_tells_the_right_process_from_others() {
        let nonce = *b"sixteen bytes ok";
        let address = nonce.as_ptr() as u64;
        assert!(probe(own(), address, &nonce));
        assert!(!probe(own(), address, b"sixteen bytes no"));
        assert!(!probe(own(), 16, &nonce));
        assert!(!probe(i32::MAX, address, &nonce));
    }
}
