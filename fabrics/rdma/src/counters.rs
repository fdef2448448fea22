//! What crossed between processes, for whoever wants to know that RDMA was used.

use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use viaduct_core::verbs::Result;
use viaduct_core::verbs::error::invalid;

use crate::error::of_system;
use crate::link;

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// Operations and bytes of a process since it started.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct Counters {
            $($(#[$about])* pub $name: u64,)+
        }

        /// The same where they are counted.
        #[derive(Debug)]
        #[repr(C)]
        pub(crate) struct Live {
            magic: AtomicU64,
            /// By what others find the process: the block of its numbers; 0: it has no device open.
            block: AtomicU64,
            $(pub(crate) $name: Count,)+
        }

        static OWN: Live = Live {
            magic: AtomicU64::new(MAGIC),
            block: AtomicU64::new(0),
            $($name: Count(AtomicU64::new(0)),)+
        };

        impl Counters {
            fn of(live: &Live) -> Self {
                Self { $($name: live.$name.0.load(Ordering::Relaxed),)+ }
            }

            fn from_words(mut words: impl Iterator<Item = u64>) -> Self {
                Self { $($name: words.next().unwrap_or_default(),)+ }
            }

            /// Each with its name.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }

        impl Live {
            fn clear(&self) {
                self.block.store(0, Ordering::Relaxed);
                $(self.$name.0.store(0, Ordering::Relaxed);)+
            }

            fn take_over(&self, from: &Self) {
                self.block.store(from.block.load(Ordering::Relaxed), Ordering::Relaxed);
                $(self.$name.add(from.$name.0.load(Ordering::Relaxed));)+
                self.magic.store(MAGIC, Ordering::Release);
            }
        }
    };
}

counters! {
    /// Sends that completed, and their bytes.
    sends,
    /// Bytes of them.
    send_bytes,
    /// Receives that completed.
    receives,
    /// Bytes of them.
    receive_bytes,
    /// Remote writes that completed.
    writes,
    /// Bytes of them.
    write_bytes,
    /// Remote reads that completed.
    reads,
    /// Bytes of them.
    read_bytes,
    /// Atomics that completed.
    atomics,
    /// Bytes of them: eight each.
    atomic_bytes,
    /// Remote writes of peers into the memory of this process. What a peer wrote or read by itself
    /// is counted when somebody asks ([`Counters::read_now`]), and when the connection is over.
    peer_writes,
    /// Bytes of them.
    peer_write_bytes,
    /// Remote reads of peers.
    peer_reads,
    /// Bytes of them.
    peer_read_bytes,
    /// Atomics of peers.
    peer_atomics,
    /// Copies that the kernel made between two processes.
    kernel_copies,
    /// Writes, reads and atomics of this process in pages that a peer shares.
    shared_copies,
    /// Packets that went through shared memory.
    packets,
    /// Times that a peer's service thread was woken.
    kicks,
    /// Completions with an error, flushes among them.
    errors,
    /// Times that requests were sent again since nobody had acknowledged them.
    retries,
    /// Times that requests were sent again since their receiver had not been ready.
    not_ready_retries,
    /// Requests and datagrams lost by a fault on request.
    lost,
    /// Messages refused by such a fault though there was a receive.
    not_ready,
    /// Sends that such a fault delayed.
    delayed,
    /// Times that such a fault took the port down.
    port_downs,
    /// Queue pairs that such a fault broke.
    broken_queue_pairs,
}

impl Counters {
    /// Whether no message, read, write or atomic crossed, of this process or of a peer.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.sends == 0
            && self.receives == 0
            && self.writes == 0
            && self.reads == 0
            && self.atomics == 0
            && self.peer_writes == 0
            && self.peer_reads == 0
            && self.peer_atomics == 0
    }
}

/// A counter. One thread at a time counts: whoever holds the engine's lock.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(count), Ordering::Relaxed);
    }
}

/// How long a process is waited for that is asked to count.
const PATIENCE: Duration = Duration::from_millis(100);

/// The first word of a file of counters.
const MAGIC: u64 = u64::from_le_bytes(*b"viaduct1");

/// Where they are counted, if not in `OWN`.
static PUBLISHED: AtomicPtr<Live> = AtomicPtr::new(ptr::null_mut());

/// Where this process counts.
#[inline]
pub(crate) fn live() -> &'static Live {
    // SAFETY: a published place stays mapped for the life of the process.
    unsafe { PUBLISHED.load(Ordering::Acquire).as_ref() }.unwrap_or(&OWN)
}

/// Has others find this process, which has these numbers.
pub(crate) fn say_block(block: u32) {
    live().block.store(u64::from(block), Ordering::Relaxed);
}

/// Has a forked child count from nothing, and not where its parent does.
pub(crate) fn begin_child() {
    PUBLISHED.store(ptr::null_mut(), Ordering::Release);
    OWN.clear();
}

impl Counters {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::of(live())
    }

    /// Has this process count in a file from now on, which others read by [`Counters::read`] at any
    /// time, also when this process is gone. Nobody may shorten it while it is used.
    ///
    /// # Errors
    ///
    /// What the system says when the file exists already or cannot be made.
    pub fn publish(path: &Path) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(of_system)?;
        rustix::fs::ftruncate(&file, size_of::<Live>() as u64).map_err(of_system)?;
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                size_of::<Live>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
            .map_err(of_system)?
        };
        let place = NonNull::new(base.cast::<Live>())
            .ok_or_else(|| invalid("the system mapped a file at address 0"))?;
        // SAFETY: mapped for good, aligned to a page, of atomics alone.
        unsafe { place.as_ref() }.take_over(live());
        PUBLISHED.store(place.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Reads what a process published.
    ///
    /// # Errors
    ///
    /// What the system says; EINVAL for a file that is no file of counters.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self::read_with_block(path)?.1)
    }

    /// The same, of a process that runs up to now: it first counts what peers did by themselves in
    /// its memory. One that does not answer, since it is stopped, is waited for for 0.1 s.
    ///
    /// # Errors
    ///
    /// As [`Counters::read`].
    pub fn read_now(path: &Path) -> Result<Self> {
        let (block, counters) = Self::read_with_block(path)?;
        // Of one that cannot be asked it is what it has counted so far.
        if block != 0 && link::have_counted(block, PATIENCE).is_ok() {
            return Self::read(path);
        }
        Ok(counters)
    }

    fn read_with_block(path: &Path) -> Result<(u32, Self)> {
        let bytes = std::fs::read(path).map_err(of_system)?;
        let words = bytes.as_chunks::<8>().0.iter().copied();
        let mut words = words.map(u64::from_ne_bytes);
        if bytes.len() != size_of::<Live>() || words.next() != Some(MAGIC) {
            return Err(invalid(format!(
                "{} is no file of counters",
                path.display()
            )));
        }
        let block = words.next().unwrap_or_default() as u32;
        Ok((block, Self::from_words(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_read_from_the_file() {
        let name = format!("viaduct-counters-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        live().atomics.add(2);
        let before = Counters::of_this_process();
        Counters::publish(&path).unwrap();
        assert_eq!(Counters::read(&path).unwrap(), before);
        live().atomics.add(3);
        assert_eq!(Counters::read(&path).unwrap().atomics, before.atomics + 3);
        assert!(Counters::publish(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
