//! Memory that can be mapped by another process.
//!
//! A [`Segment`] is a memfd whose size is sealed, and a mapping of all of it. It has no name in any
//! file system: when the last process that holds it is gone, so is the memory. A forked child does
//! not have the mapping, unless [`Segment::hand_down`] says so.
//!
//! # Peers
//!
//! The process at the other end may change every byte of a segment that it can write, at any
//! moment, but it can change nothing else: the seals keep the size, so an access inside
//! [`Segment::length`] never ends in `SIGBUS`. Therefore
//!
//! - no `&` or `&mut` to the bytes of a segment is ever formed: they are reached by raw pointers,
//!   by atomics made with `from_ptr`, and by the copies of [`crate::copy`];
//! - what is read there is read once, checked, and then used.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A sealed memfd, mapped as a whole; unmapped and closed on drop.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    length: usize,
    descriptor: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread. A segment hands out no reference to
// its bytes; whoever goes through `base` answers for that access.
unsafe impl Send for Segment {}
// SAFETY: as for `Send`; the methods themselves only read fields that never change.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a segment of `length` zero bytes that others may map for reading and writing.
    ///
    /// Pages come into being when they are touched first. The name is for people who read
    /// `/proc/PID/maps`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a length of 0 or a name that the system refuses; what the system says
    /// when it has no memory, address space or file descriptors left.
    pub fn create(name: &str, length: usize) -> io::Result<Self> {
        Self::create_with(name, length, SealFlags::empty())
    }

    /// Makes a segment that this process writes and others can only read: the system refuses them
    /// a writable mapping and `write`.
    ///
    /// # Errors
    ///
    /// As [`Segment::create`].
    pub fn create_exported(name: &str, length: usize) -> io::Result<Self> {
        Self::create_with(name, length, SealFlags::FUTURE_WRITE)
    }

    fn create_with(name: &str, length: usize, seals: SealFlags) -> io::Result<Self> {
        let file_length = checked_length(length)?;
        let descriptor = memfd(name)?;
        rustix::fs::ftruncate(&descriptor, file_length)?;
        // The seal against future writers comes after the one mapping that may write.
        let segment = Self::over(descriptor, length, Access::ReadWrite)?;
        rustix::fs::fcntl_add_seals(&segment.descriptor, seals | SIZE_SEALS | SealFlags::SEAL)?;
        Ok(segment)
    }

    /// Maps `length` bytes of a segment that another process made.
    ///
    /// # Errors
    ///
    /// `InvalidData` when the descriptor is no memfd, when its size is not sealed, or when it is
    /// shorter than `length`: using it could end this process. `PermissionDenied` for a writable
    /// mapping of a segment made by [`Segment::create_exported`].
    pub fn map(descriptor: OwnedFd, length: usize, access: Access) -> io::Result<Self> {
        let wanted = checked_length(length)?;
        if sealed_size(&descriptor)? < wanted {
            return Err(refused("a segment is shorter than its sender said"));
        }
        Self::over(descriptor, length, access)
    }

    fn over(descriptor: OwnedFd, length: usize, access: Access) -> io::Result<Self> {
        let base = map_shared(&descriptor, 0, length, access)?;
        let segment = Self {
            base,
            length,
            descriptor,
        };
        keep_from_children(base, length)?;
        Ok(segment)
    }

    /// Lets forked children have the mapping, too.
    ///
    /// # Errors
    ///
    /// What the system says when it has no memory for it.
    pub fn hand_down(&self) -> io::Result<()> {
        advise(self.base, self.length, rustix::mm::Advice::LinuxDoFork)
    }

    /// The first byte. At least page aligned.
    #[inline]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes that may be reached from [`Segment::base`].
    #[inline]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// To be sent to a process that shall map it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Where `length` bytes from `offset` lie, if all of them are inside.
    #[inline]
    pub fn range(&self, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let size = self.length as u64;
        if length > size || offset > size - length {
            return None;
        }
        // SAFETY: `offset` is at most `self.length`, so it stays in the mapping or one past it.
        Some(unsafe { self.base.add(offset as usize) })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, made in `over`, and goes with the value: users of
        // `base` keep the segment alive. The call fails for bad arguments only.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A sealed memfd of which this process and others map parts.
///
/// It takes no memory until it is written: its size is that of what may come.
#[derive(Debug)]
pub struct Store {
    descriptor: OwnedFd,
    length: u64,
}

impl Store {
    /// Makes one of `length` zero bytes, or of as many as the limit of this process's files lets it
    /// have. The name is for people who read `/proc/PID/maps`.
    ///
    /// # Errors
    ///
    /// As [`Segment::create`].
    pub fn create(name: &str, length: u64) -> io::Result<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let length = length.min(limit.unwrap_or(u64::MAX));
        let descriptor = memfd(name)?;
        rustix::fs::ftruncate(&descriptor, length)?;
        rustix::fs::fcntl_add_seals(&descriptor, SIZE_SEALS | SealFlags::SEAL)?;
        Ok(Self { descriptor, length })
    }

    /// Takes one that another process made.
    ///
    /// # Errors
    ///
    /// `InvalidData` as [`Segment::map`].
    pub fn take(descriptor: OwnedFd) -> io::Result<Self> {
        let length = sealed_size(&descriptor)?;
        Ok(Self { descriptor, length })
    }

    /// Bytes.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// To be sent to a process that shall map parts of it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Maps `length` bytes from `offset` on, a multiple of a page's.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a part that is not inside; what the system says when it has no address
    /// space left.
    pub fn window(&self, offset: u64, length: usize, access: Access) -> io::Result<Window> {
        let end = offset.checked_add(length as u64);
        if length == 0 || end.is_none_or(|end| end > self.length) {
            return Err(refused("a window is not inside of what it looks into"));
        }
        let base = map_shared(&self.descriptor, offset, length, access)?;
        let window = Window { base, length };
        keep_from_children(base, length)?;
        Ok(window)
    }

    /// Gives the memory of whole pages back. Who maps them finds zeros there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn clear(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(
            &self.descriptor,
            flags,
            offset,
            length,
        )?)
    }
}

/// A part of a [`Store`], mapped; unmapped on drop. A forked child does not have it. What the head
/// of this file says of peers holds for it, too.
#[derive(Debug)]
pub struct Window {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: as for `Segment`.
unsafe impl Send for Window {}
// SAFETY: as for `Segment`.
unsafe impl Sync for Window {}

impl Window {
    /// Where `length` bytes from `offset` lie, if all of them are inside.
    #[inline]
    #[must_use]
    pub fn range(&self, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let size = self.length as u64;
        if length > size || offset > size - length {
            return None;
        }
        // SAFETY: `offset` is at most `self.length`, so it stays in the mapping or one past it.
        Some(unsafe { self.base.add(offset as usize) })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: this mapping, which goes with the value: who uses its addresses keeps that.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The size of a memfd that nobody can change.
fn sealed_size(descriptor: &OwnedFd) -> io::Result<u64> {
    // Asked for first: without the seals, whatever else is read here may change afterwards.
    let seals = rustix::fs::fcntl_get_seals(descriptor)
        .map_err(|_| refused("the descriptor of a segment is not a memfd"))?;
    if !seals.contains(SIZE_SEALS) {
        return Err(refused(
            "a segment is not sealed against shrinking and growing",
        ));
    }
    // Huge-page files take the same seals, but a fault in one may find no page and kill us.
    if rustix::fs::fstatfs(descriptor)?.f_type != TMPFS_MAGIC {
        return Err(refused("a segment lies in another file system than tmpfs"));
    }
    let size = rustix::fs::fstat(descriptor)?.st_size;
    u64::try_from(size).map_err(|_| refused("a segment has no size"))
}

/// Maps a part of a memfd where the system likes.
fn map_shared(
    descriptor: &OwnedFd,
    offset: u64,
    length: usize,
    access: Access,
) -> io::Result<NonNull<u8>> {
    let protection = match access {
        Access::Read => ProtFlags::READ,
        Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
    };
    // SAFETY: a new mapping at an address of the system's choice touches no other memory.
    let base = unsafe {
        rustix::mm::mmap(
            ptr::null_mut(),
            length,
            protection,
            MapFlags::SHARED,
            descriptor,
            offset,
        )?
    };
    NonNull::new(base.cast::<u8>())
        .ok_or_else(|| io::Error::other("the system mapped a segment at address 0"))
}

/// Has forked children find nothing at the addresses of a mapping.
pub fn keep_from_children(base: NonNull<u8>, length: usize) -> io::Result<()> {
    advise(base, length, rustix::mm::Advice::LinuxDontFork)
}

/// Tells what is to become of a mapping at a fork.
fn advise(base: NonNull<u8>, length: usize, advice: rustix::mm::Advice) -> io::Result<()> {
    // SAFETY: the range is a mapping of the caller's; the advice changes none of its bytes.
    unsafe { rustix::mm::madvise(base.as_ptr().cast(), length, advice)? };
    Ok(())
}

/// A new, empty memfd that can be sealed and never executed.
fn memfd(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // A kernel before 6.3 does not know the flag.
        Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::memfd_create(name, flags)?),
        made => Ok(made?),
    }
}

fn checked_length(length: usize) -> io::Result<u64> {
    if length == 0 || isize::try_from(length).is_err() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a segment of {length} bytes cannot be mapped: ask for at least one byte"),
        ));
    }
    Ok(length as u64)
}

fn refused(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Without these a peer could cut the memory off under a running access.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// `f_type` of the file system of memfds (`TMPFS_MAGIC` in `linux/magic.h`).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

#[cfg(test)]
mod tests {
    use super::*;

    fn again(segment: &Segment, access: Access) -> io::Result<Segment> {
        let descriptor = segment.fd().try_clone_to_owned().unwrap();
        Segment::map(descriptor, segment.length(), access)
    }

    #[test]
    fn two_mappings_show_the_same_bytes() {
        let ours = Segment::create("viaduct-test", 10_000).unwrap();
        let theirs = again(&ours, Access::ReadWrite).unwrap();
        assert_ne!(ours.base(), theirs.base());
        // SAFETY: both offsets lie inside; nobody else knows the segment.
        unsafe {
            ours.base().add(9_999).write(7);
            assert_eq!(theirs.base().add(9_999).read(), 7);
            theirs.base().write(9);
            assert_eq!(ours.base().read(), 9);
        }
    }

    #[test]
    fn the_size_cannot_be_changed_by_anyone() {
        let segment = Segment::create("viaduct-test", 4096).unwrap();
        let sealed = Err(rustix::io::Errno::PERM);
        assert_eq!(rustix::fs::ftruncate(segment.fd(), 0), sealed);
        assert_eq!(rustix::fs::ftruncate(segment.fd(), 8192), sealed);
        let more = rustix::fs::fcntl_add_seals(segment.fd(), SealFlags::WRITE);
        assert_eq!(more, sealed);
    }

    #[test]
    fn an_exported_segment_is_written_by_its_maker_alone() {
        let ours = Segment::create_exported("viaduct-test", 4096).unwrap();
        let refused = again(&ours, Access::ReadWrite).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(rustix::io::write(ours.fd(), b"x").is_err());
        let theirs = again(&ours, Access::Read).unwrap();
        // SAFETY: offset 5 lies inside; nobody else knows the segment.
        unsafe {
            ours.base().add(5).write(1);
            assert_eq!(theirs.base().add(5).read(), 1);
        }
    }

    #[test]
    fn a_descriptor_that_could_end_the_process_is_refused() {
        let refused = |descriptor: OwnedFd, length| {
            let error = Segment::map(descriptor, length, Access::ReadWrite).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        let unsealed = memfd("viaduct-test").unwrap();
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        assert!(refused(unsealed, 4096).contains("not sealed"));

        let halfway = memfd("viaduct-test").unwrap();
        rustix::fs::ftruncate(&halfway, 4096).unwrap();
        rustix::fs::fcntl_add_seals(&halfway, SealFlags::GROW).unwrap();
        assert!(refused(halfway, 4096).contains("not sealed"));

        let short = Segment::create("viaduct-test", 4096).unwrap();
        let descriptor = short.fd().try_clone_to_owned().unwrap();
        assert!(refused(descriptor, 4097).contains("shorter"));

        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert!(refused(pipe, 1).contains("not a memfd"));
    }

    #[test]
    fn a_range_is_inside_to_the_byte() {
        let segment = Segment::create("viaduct-test", 100).unwrap();
        let at = |offset, length| segment.range(offset, length).is_some();
        assert!(at(0, 100) && at(100, 0) && at(99, 1));
        assert!(!at(0, 101) && !at(100, 1) && !at(101, 0));
        assert!(!at(u64::MAX, 2) && !at(2, u64::MAX));
    }

    #[test]
    fn an_empty_segment_is_refused() {
        let error = Segment::create("viaduct-test", 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(Segment::create("viaduct-test", usize::MAX).is_err());
    }

    #[test]
    fn nothing_is_left_behind() {
        let lines = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter(|l| l.contains("viaduct-gone")).count()
        };
        let segment = Segment::create("viaduct-gone", 4096).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&segment.fd());
        assert_eq!(lines(), 1);
        drop(segment);
        assert_eq!(lines(), 0);
        let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
        assert!(!link.is_ok_and(|l| l.to_string_lossy().contains("viaduct-gone")));
    }
}
