//! Registered pages that peers map, so that their writes and reads are plain copies
//! (`--share-memory`).
//!
//! Pages of a region that a peer may reach move into a store of the process, a sealed memfd, and
//! that is mapped where they were. Peers of this user get the store with the link, and map what the
//! table of regions says of it. When the last region that has them is gone, the pages move back:
//! what a peer still has mapped is then no memory of this process.
//!
//! - Whole pages inside of the region, of private memory without a file, readable and writable.
//!   Others stay, and are copied by the kernel: what a program keeps beside its buffers is not
//!   touched.
//! - While pages move, writers of them are held ([`viaduct_processes::held`]).
//! - A region shares pages with an earlier one if they are all of them among those that it has. If
//!   only some are, its pages stay as they are.
//! - A forked child has a copy of its own, made before the fork.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use viaduct_processes::held::{self, Held};
use viaduct_processes::segment::Store;

use crate::tables::Shared;

/// Bytes of a store, most of which are never touched.
const STORE_BYTES: u64 = 1 << 40;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Pages that lie in the store, and follow each other there.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    length: usize,
    offset: u64,
    /// Regions that have them.
    users: u32,
    /// Tells it from others that were at its address.
    life: u64,
}

/// The pages of a process that are shared.
#[derive(Debug)]
pub(crate) struct Pages {
    store: Arc<Store>,
    /// By the address of the first byte.
    stretches: BTreeMap<usize, Stretch>,
    /// By life, those whose memory a program gave back before their regions. Their place in the
    /// store stays theirs: peers may go on to write there.
    gone: BTreeMap<u64, Stretch>,
    /// By region, the stretch in which its pages lie: its address and its life.
    regions: BTreeMap<u32, (usize, u64)>,
    /// Stretches so far.
    lives: u64,
    /// Parts of the store that nothing lies in: offset and bytes.
    free: BTreeMap<u64, u64>,
    /// Copies for a child, while the process forks.
    copies: Vec<Copy>,
}

/// What a child gets in the place of shared pages.
#[derive(Clone, Copy, Debug)]
struct Copy {
    address: usize,
    length: usize,
    copy: *mut libc::c_void,
}

// SAFETY: the copies are looked at while the process forks, by the thread that does.
unsafe impl Send for Pages {}

/// A mapping of this process, as `/proc/self/maps` shows it.
#[derive(Debug)]
struct Mapping<'a> {
    start: usize,
    end: usize,
    protection: &'a str,
    offset: u64,
    inode: u64,
    path: &'a str,
}

fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let protection = words.next()?;
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            protection,
            offset,
            inode,
            path: words.next().unwrap_or_default(),
        })
    })
}

fn read_mappings() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/maps")
}

/// Whether all of a range is memory that can move.
fn can_move(text: &str, start: usize, end: usize) -> bool {
    let mut next = start;
    for mapping in mappings(text) {
        if mapping.end <= next || mapping.start >= end {
            continue;
        }
        let is_plain = mapping.protection == "rw-p"
            && mapping.inode == 0
            && (matches!(mapping.path, "" | "[heap]") || mapping.path.starts_with("[anon"));
        if mapping.start > next || !is_plain {
            return false;
        }
        next = mapping.end;
    }
    next >= end
}

/// Whether this thread writes to a range without being told: its stack, and what it has of its own.
fn is_used_here(start: usize, end: usize) -> bool {
    let local = 0_u8;
    // SAFETY: the place of this thread's `errno`.
    let own = unsafe { libc::__errno_location() };
    [(&raw const local).addr(), own.addr()]
        .into_iter()
        .any(|place| (start..end).contains(&place))
}

impl Pages {
    /// # Errors
    ///
    /// Where writers cannot be held, with the reason in words; what the system says.
    pub(crate) fn new() -> io::Result<Self> {
        held::check()?;
        let store = Arc::new(Store::create("viaduct-rdma-memory", STORE_BYTES)?);
        let free = BTreeMap::from([(0, store.length() / PAGE_BYTES as u64 * PAGE_BYTES as u64)]);
        Ok(Self {
            store,
            stretches: BTreeMap::new(),
            gone: BTreeMap::new(),
            regions: BTreeMap::new(),
            lives: 0,
            free,
            copies: Vec::new(),
        })
    }

    /// What peers map.
    pub(crate) const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Shares the pages of a region that can be.
    pub(crate) fn share(&mut self, key: u32, address: u64, length: u64) -> Option<Shared> {
        let (start, end) = (address as usize, address.checked_add(length)? as usize);
        let start = start.checked_next_multiple_of(PAGE_BYTES)?;
        let length = (end - end % PAGE_BYTES).checked_sub(start)?;
        let end = start + length;
        if length == 0 {
            return None;
        }
        let (first, stretch) = match self.overlapping(start, end) {
            Some((first, stretch)) => {
                let is_inside = first <= start && first + stretch.length >= end;
                let parts = self.still_mapped(first, stretch);
                if !is_inside || parts? != [(first, stretch.length)] {
                    return None;
                }
                (first, stretch)
            }
            None => (start, self.move_in(start, length)?),
        };
        let users = stretch.users + 1;
        self.stretches.insert(first, Stretch { users, ..stretch });
        self.regions.insert(key, (first, stretch.life));
        Some(Shared {
            address: start as u64,
            length: length as u64,
            offset: stretch.offset + (start - first) as u64,
        })
    }

    /// The regions that have shared pages.
    pub(crate) fn regions(&self) -> impl Iterator<Item = u32> {
        self.regions.keys().copied()
    }

    /// Whether a region has shared pages.
    pub(crate) fn shares(&self, key: u32) -> bool {
        self.regions.contains_key(&key)
    }

    /// A region is gone, and no peer that keeps to the rules reaches its pages.
    pub(crate) fn leave(&mut self, key: u32) {
        let Some((first, life)) = self.regions.remove(&key) else {
            return;
        };
        if let Some(stretch) = self.gone.get_mut(&life) {
            stretch.users -= 1;
            if stretch.users == 0 {
                let Stretch { offset, length, .. } = *stretch;
                self.gone.remove(&life);
                self.clear(offset, length);
            }
            return;
        }
        let Some(stretch) = self.stretches.get_mut(&first) else {
            return;
        };
        stretch.users -= 1;
        if stretch.users > 0 {
            return;
        }
        let stretch = *stretch;
        let mut is_home = true;
        let Ok(text) = read_mappings() else {
            return;
        };
        for (address, length, protection) in self.parts(&text, first, stretch) {
            let offset = stretch.offset + (address - first) as u64;
            is_home &= self.move_back(address, length, offset, protection);
        }
        // What could not move stays where it is, and peers that know of it reach it.
        if is_home {
            self.stretches.remove(&first);
            self.clear(stretch.offset, stretch.length);
        }
    }

    /// The last stretch that has pages of a range. One whose memory is all gone has none.
    fn overlapping(&mut self, start: usize, end: usize) -> Option<(usize, Stretch)> {
        loop {
            let (&first, &stretch) = self.stretches.range(..end).next_back()?;
            if first + stretch.length <= start {
                return None;
            }
            if self
                .still_mapped(first, stretch)
                .is_none_or(|parts| !parts.is_empty())
            {
                return Some((first, stretch));
            }
            self.stretches.remove(&first);
            let _ = self.store.clear(stretch.offset, stretch.length as u64);
            self.gone.insert(stretch.life, stretch);
        }
    }

    /// Nothing lies in a part of the store any more, and nobody is told of it.
    fn clear(&mut self, offset: u64, length: usize) {
        if self.store.clear(offset, length as u64).is_ok() {
            self.give_back(offset, length as u64);
        }
    }

    /// Moves pages into the store.
    fn move_in(&mut self, start: usize, length: usize) -> Option<Stretch> {
        let end = start + length;
        if is_used_here(start, end) || !can_move(&read_mappings().ok()?, start, end) {
            return None;
        }
        let offset = self.take(length as u64)?;
        for page in (start..end).step_by(PAGE_BYTES) {
            // There is something to be held then. Not one of the operations that change nothing, of
            // which a compiler may leave a load.
            // SAFETY: memory of the program that can be written, and stays what it is.
            let byte = unsafe { AtomicU8::from_ptr(page as *mut u8) };
            let _ = byte.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        let is_moved = self.replace(start, length, offset).is_ok();
        if !is_moved {
            self.clear(offset, length);
            return None;
        }
        self.lives += 1;
        Some(Stretch {
            length,
            offset,
            users: 0,
            life: self.lives,
        })
    }

    /// Nothing here may write to the heap: what moves may be a part of it.
    fn replace(&self, start: usize, length: usize, offset: u64) -> io::Result<()> {
        let held = Held::over(start, length)?;
        let descriptor = self.store.fd().as_raw_fd();
        let mut done = 0;
        while done < length {
            let from = (start + done) as *const libc::c_void;
            let to = (offset + done as u64) as libc::off_t;
            // SAFETY: memory of the program, which the kernel reads.
            let count = unsafe { libc::pwrite(descriptor, from, length - done, to) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => done += count,
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        // The system refuses it, if it does, before it takes away what is there.
        // SAFETY: the same bytes take the place of private memory, to which nobody has written
        // since they were copied.
        let mapped = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                descriptor,
                offset as libc::off_t,
            )
        };
        let error = io::Error::last_os_error();
        drop(held);
        if mapped == libc::MAP_FAILED {
            return Err(error);
        }
        Ok(())
    }

    /// Where a stretch is still mapped: addresses and bytes; nothing, if that cannot be told.
    fn still_mapped(&self, first: usize, stretch: Stretch) -> Option<Vec<(usize, usize)>> {
        let text = read_mappings().ok()?;
        let parts = self.parts(&text, first, stretch).into_iter();
        Some(
            parts
                .map(|(address, length, _)| (address, length))
                .collect(),
        )
    }

    /// The parts of a stretch that are still mapped where they were, and their protection: a
    /// program may have given memory back before its region.
    fn parts(
        &self,
        text: &str,
        first: usize,
        stretch: Stretch,
    ) -> Vec<(usize, usize, libc::c_int)> {
        let inode = rustix::fs::fstat(self.store.fd()).map_or(0, |found| found.st_ino);
        let last = first + stretch.length;
        let mut parts = Vec::new();
        // A mapping that changes while the list is read may stand in it twice.
        let mut next = first;
        for mapping in mappings(text) {
            let (start, end) = (mapping.start.max(next), mapping.end.min(last));
            // Where its first byte would lie, if it were at the beginning of the stretch.
            let shift = mapping.start.wrapping_sub(first) as u64;
            if start >= end
                || mapping.inode != inode
                || !mapping.protection.ends_with('s')
                || mapping.offset != stretch.offset.wrapping_add(shift)
            {
                continue;
            }
            let mut protection = 0;
            for (letter, bit) in [
                ('r', libc::PROT_READ),
                ('w', libc::PROT_WRITE),
                ('x', libc::PROT_EXEC),
            ] {
                if mapping.protection.contains(letter) {
                    protection |= bit;
                }
            }
            parts.push((start, end - start, protection));
            next = end;
        }
        parts
    }

    /// Moves pages out of the store; whether they are.
    fn move_back(&self, start: usize, length: usize, offset: u64, protection: libc::c_int) -> bool {
        if is_used_here(start, start + length) {
            return false;
        }
        let Some(place) = reserve(length) else {
            return false;
        };
        // Nothing from here on may write to the heap: what moves may be a part of it.
        let held = Held::over(start, length);
        let is_copied =
            held.is_ok() && read_into(self.store.fd().as_raw_fd(), place, length, offset);
        // SAFETY: the copy is ours. It takes the place of the shared pages, to which nobody of this
        // process has written since they were copied.
        let is_home = is_copied
            && unsafe {
                libc::mprotect(place, length, protection) == 0 && put(place, length, start)
            };
        drop(held);
        if !is_home {
            // SAFETY: the copy is ours, and nobody uses it.
            unsafe { libc::munmap(place, length) };
        }
        is_home
    }

    /// Takes a part of the store that nothing lies in.
    fn take(&mut self, length: u64) -> Option<u64> {
        let (&offset, &bytes) = self.free.iter().find(|(_, bytes)| **bytes >= length)?;
        self.free.remove(&offset);
        if bytes > length {
            self.free.insert(offset + length, bytes - length);
        }
        Some(offset)
    }

    /// Nothing lies in a part of the store any more.
    fn give_back(&mut self, mut offset: u64, mut length: u64) {
        if let Some(bytes) = self.free.remove(&(offset + length)) {
            length += bytes;
        }
        if let Some((&before, &bytes)) = self.free.range(..offset).next_back()
            && before + bytes == offset
        {
            self.free.remove(&before);
            (offset, length) = (before, bytes + length);
        }
        self.free.insert(offset, length);
    }

    /// The process is about to fork: copies what its child shall have.
    pub(crate) fn before_fork(&mut self) {
        if self.stretches.is_empty() {
            return;
        }
        let Ok(text) = read_mappings() else {
            eprintln!("viaduct: a child shares registered memory with its parent: no list of it");
            return;
        };
        for (&first, &stretch) in &self.stretches {
            for (address, length, protection) in self.parts(&text, first, stretch) {
                let offset = stretch.offset + (address - first) as u64;
                let descriptor = self.store.fd().as_raw_fd();
                let copy = reserve(length).and_then(|copy| {
                    let is_done = read_into(descriptor, copy, length, offset)
                        // SAFETY: a mapping of this function's.
                        && unsafe { libc::mprotect(copy, length, protection) == 0 };
                    if !is_done {
                        // SAFETY: as above, and nobody uses it.
                        unsafe { libc::munmap(copy, length) };
                    }
                    is_done.then_some(copy)
                });
                let Some(copy) = copy else {
                    eprintln!(
                        "viaduct: no memory for a child's copy of {length} shared bytes: the child \
                         shares them with its parent"
                    );
                    continue;
                };
                self.copies.push(Copy {
                    address,
                    length,
                    copy,
                });
            }
        }
    }

    /// The process has forked, and this is the parent.
    pub(crate) fn after_fork(&mut self) {
        for Copy { copy, length, .. } in self.copies.drain(..) {
            // SAFETY: a mapping of `before_fork`, which nobody else knows.
            unsafe { libc::munmap(copy, length) };
        }
    }

    /// This is the child: its copies take the place of what it would share.
    pub(crate) fn in_child(&mut self) -> RawFd {
        for each in &self.copies {
            // SAFETY: a copy of `before_fork`, of what lies there; the child has this thread alone.
            unsafe { put(each.copy, each.length, each.address) };
        }
        self.store.fd().as_fd().as_raw_fd()
    }
}

/// Private memory that nobody uses.
fn reserve(length: usize) -> Option<*mut libc::c_void> {
    // SAFETY: a new mapping at an address of the system's choice touches no other memory.
    let made = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (made != libc::MAP_FAILED).then_some(made)
}

/// Copies out of a store; whether that was all.
fn read_into(store: RawFd, place: *mut libc::c_void, length: usize, offset: u64) -> bool {
    let mut done = 0;
    while done < length {
        let from = (offset + done as u64) as libc::off_t;
        // SAFETY: a mapping of the caller's, of so many bytes.
        let count = unsafe { libc::pread(store, place.byte_add(done), length - done, from) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            Ok(_) => return false,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// Puts a mapping in the place of another; whether it is there.
///
/// # Safety
///
/// Both are the caller's, and nobody has addresses of the first one.
unsafe fn put(mapping: *mut libc::c_void, length: usize, at: usize) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: as promised by the caller.
    let moved = unsafe { libc::mremap(mapping, length, length, flags, at as *mut libc::c_void) };
    moved != libc::MAP_FAILED
}

#[cfg(test)]
mod tests;
