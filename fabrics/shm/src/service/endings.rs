//! Deaths of peers where no processor is free for the service thread.
//!
//! Threads that look for messages in vain ask the system themselves, once a millisecond all of them
//! together; and the service thread asks the scheduler for short turns, which it gives sooner.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{Timespec, epoll};
use rustix::io;
use rustix::time::{ClockId, clock_gettime};

/// Sockets and processes of linked peers, of which only the end is told.
pub(super) struct Endings {
    epoll: OwnedFd,
    /// When they were last asked about, in nanoseconds of the monotonic clock.
    asked_at_ns: AtomicU64,
}

impl Endings {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            asked_at_ns: AtomicU64::new(0),
        })
    }

    /// Has the end of a link told. What the system refuses is heard by the service thread alone.
    pub(super) fn add(&self, token: u64, socket: &OwnedFd, pidfd: Option<&OwnedFd>) {
        let data = epoll::EventData::new_u64(token << 1);
        let _ = epoll::add(&self.epoll, socket, data, epoll::EventFlags::RDHUP);
        if let Some(pidfd) = pidfd {
            let data = epoll::EventData::new_u64(token << 1 | 1);
            let _ = epoll::add(&self.epoll, pidfd, data, epoll::EventFlags::IN);
        }
    }

    pub(super) fn delete(&self, socket: &OwnedFd, pidfd: Option<&OwnedFd>) {
        let _ = epoll::delete(&self.epoll, socket);
        if let Some(pidfd) = pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
    }

    /// The tokens of some links that have ended, and whether the peer's process has; none when
    /// somebody asked less than [`ASK_EVERY_NS`] ago.
    pub(super) fn ask(&self) -> impl Iterator<Item = (u64, bool)> + use<> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_A_TURN];
        let told = if self.is_due() {
            epoll::wait(&self.epoll, &mut events, Some(&Timespec::default()))
                .map_or(0, |(told, _)| told.len())
        } else {
            0
        };
        events.into_iter().take(told).map(|event| {
            // SAFETY: the call above wrote the first `told` events.
            let data = unsafe { event.assume_init() }.data.u64();
            (data >> 1, data & 1 == 1)
        })
    }

    fn is_due(&self) -> bool {
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        // Relaxed: it guards nothing; at worst two ask.
        let before = self.asked_at_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(before) >= ASK_EVERY_NS
            && self
                .asked_at_ns
                .compare_exchange(before, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Has the scheduler give this thread turns of a tenth of a millisecond. Since Linux 6.12 such a
/// thread runs before others whose turns are long, and gets no larger share; where the system
/// knows no such thing, or refuses it, all stays as it was.
pub(super) fn ask_for_short_turns() {
    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
    let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
    // SAFETY: thread 0 is this one; the system writes `SIZE` bytes at most, and zeros are valid.
    let attributes = unsafe {
        let pointer = attributes.as_mut_ptr();
        if libc::syscall(libc::SYS_sched_getattr, 0, pointer, SIZE, 0) != 0 {
            return;
        }
        attributes.assume_init_mut()
    };
    // A program that chose another policy for its threads knows why.
    if attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = TURN_NS;
        attributes.sched_flags &= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        // SAFETY: the system reads as many bytes as the value says that it has.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    }
}

/// Between two questions after deaths.
const ASK_EVERY_NS: u64 = 1_000_000;

/// Events taken from the system at once.
const EVENTS_A_TURN: usize = 16;

/// Of the service thread's turns; the shortest that the scheduler takes.
const TURN_NS: u64 = 100_000;
