//! The service thread: hears the links, notices deaths, and makes slow progress for VIs that need
//! it.
//!
//! One thread a process. It sleeps without a time limit unless something is due: VIs that are
//! watched, or links with more to send than the system takes. Where every processor is taken it
//! may wait for one, so threads that look in vain ask after deaths, too: see [`endings`].

mod endings;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll};
use rustix::io::Errno;

use self::endings::Endings;
use crate::link::{Flush, Link, Turn};
use crate::wire::CloseReason;

/// Something that must be looked at from time to time although nobody calls.
pub(crate) trait Progress: Send + Sync {
    /// Does what can be done now, and says when to call again.
    fn progress(&self) -> Pace;
}

/// When something that is watched is looked at again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pace {
    /// Soon: something waits.
    Quick,
    /// In a few milliseconds: something may come to wait.
    Slow,
    /// Never.
    Over,
}

/// A lock whose holder panicked is taken all the same: what it guards is kept valid at every step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that takes no signals: those are for the program's own threads.
pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut everything = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writing, and the first is filled before it is read.
    let is_masked = unsafe {
        libc::sigfillset(everything.as_mut_ptr());
        let how = libc::SIG_SETMASK;
        libc::pthread_sigmask(how, everything.as_ptr(), before.as_mut_ptr()) == 0
    };
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(body);
    if is_masked {
        // SAFETY: the set was filled by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    thread
}

/// What the service thread and its callers share.
pub(crate) struct Service {
    epoll: OwnedFd,
    wake: OwnedFd,
    endings: Endings,
    state: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    links: BTreeMap<u64, Registered>,
    last_token: u64,
    watched: Vec<Watched>,
    /// Links to be flushed for the first time or again.
    unflushed: Vec<u64>,
}

struct Watched {
    progress: Arc<dyn Progress>,
    pace: Pace,
    /// When a slow one is looked at.
    due: Instant,
}

#[derive(Clone)]
struct Registered {
    link: Arc<Link>,
    socket: Arc<OwnedFd>,
    /// Held to keep it in the epoll set.
    pidfd: Option<Arc<OwnedFd>>,
    /// Held by whoever hears the link: its messages are obeyed in their order.
    hearing: Arc<Mutex<()>>,
}

impl Service {
    /// Without its thread, which calls [`Service::run`].
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, &wake, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            wake,
            endings: Endings::new()?,
            state: Mutex::default(),
        })
    }

    /// Has a link heard from here on. `pidfd` tells when its peer's process ends.
    pub(crate) fn add(&self, link: Arc<Link>, pidfd: Option<OwnedFd>) -> io::Result<()> {
        let socket = link.socket().ok_or(io::ErrorKind::BrokenPipe)?;
        let pidfd = pidfd.map(Arc::new);
        let mut state = locked(&self.state);
        state.last_token += 1;
        let token = state.last_token;
        link.set_token(token);
        let flags = epoll::EventFlags::IN;
        let socket_data = epoll::EventData::new_u64(token << 1);
        epoll::add(&self.epoll, &socket, socket_data, flags)?;
        let has_queued = link.has_queued();
        if let Some(pidfd) = &pidfd {
            let data = epoll::EventData::new_u64(token << 1 | 1);
            if let Err(error) = epoll::add(&self.epoll, pidfd, data, flags) {
                let _ = epoll::delete(&self.epoll, &socket);
                return Err(error.into());
            }
        }
        self.endings.add(token, &socket, pidfd.as_deref());
        let registered = Registered {
            link,
            socket,
            pidfd,
            hearing: Arc::default(),
        };
        state.links.insert(token, registered);
        drop(state);
        if has_queued {
            self.flush_later(token);
        }
        Ok(())
    }

    /// Calls `progress` every now and then until it says that it need not be called.
    pub(crate) fn watch(&self, progress: Arc<dyn Progress>, pace: Pace) {
        let mut state = locked(&self.state);
        let is_news = match pace {
            Pace::Quick => state
                .watched
                .iter()
                .all(|watched| watched.pace != Pace::Quick),
            Pace::Slow | Pace::Over => state.watched.is_empty(),
        };
        state.watched.push(Watched {
            progress,
            pace,
            due: Instant::now() + INTERVAL_SLOW,
        });
        drop(state);
        if is_news {
            self.wake();
        }
    }

    /// Has a link's queue sent when its socket takes more.
    pub(crate) fn flush_later(&self, token: u64) {
        let mut state = locked(&self.state);
        if state.links.contains_key(&token) {
            state.unflushed.push(token);
            drop(state);
            self.wake();
        }
    }

    /// Ends the links that no connection uses, in the caller's thread.
    pub(crate) fn end_idle(&self) {
        let links = locked(&self.state).links.clone();
        for (token, registered) in links {
            if registered.link.end_if_idle() {
                self.remove(token, CloseReason::Disconnected);
            }
        }
    }

    /// The links that are heard.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        let state = locked(&self.state);
        state.links.values().map(|r| r.link.clone()).collect()
    }

    fn wake(&self) {
        // Fails only when the counter is full: then it wakes all the same.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn remove(&self, token: u64, reason: CloseReason) {
        let Some(registered) = locked(&self.state).links.remove(&token) else {
            return;
        };
        let _ = epoll::delete(&self.epoll, &registered.socket);
        if let Some(pidfd) = &registered.pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
        self.endings
            .delete(&registered.socket, registered.pidfd.as_deref());
        registered.link.host().forget(&registered.link);
        registered.link.kill(reason);
    }

    /// The service thread.
    pub(crate) fn run(&self) -> ! {
        endings::ask_for_short_turns();
        let mut events = Vec::with_capacity(EVENTS_A_TURN);
        let mut interval = INTERVAL_MIN;
        loop {
            let (watches, slow_watches, retries) = {
                let state = locked(&self.state);
                let watches = |pace| state.watched.iter().any(|watched| watched.pace == pace);
                (
                    watches(Pace::Quick),
                    watches(Pace::Slow),
                    !state.unflushed.is_empty(),
                )
            };
            let limit = match (watches, retries) {
                (true, _) => Some(interval),
                (false, true) => Some(RETRY),
                (false, false) => slow_watches.then_some(INTERVAL_SLOW),
            };
            events.clear();
            self.sleep(&mut events, limit);
            let mut new_watch = false;
            for event in &events {
                let data = event.data.u64();
                if data == 0 {
                    let _ = rustix::io::read(&self.wake, &mut [0; 8]);
                    new_watch = true;
                } else {
                    self.serve(data >> 1, data & 1 == 1, event.flags);
                }
            }
            self.flush_all();
            interval = match new_watch {
                true => INTERVAL_MIN,
                false if watches => (interval * 5 / 4).min(INTERVAL_MAX),
                false => interval,
            };
            self.progress();
        }
    }

    fn sleep(&self, events: &mut Vec<epoll::Event>, limit: Option<Duration>) {
        let timeout = |limit: Duration| Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let spare = rustix::buffer::spare_capacity(events);
        let result = epoll::wait(&self.epoll, spare, limit.map(timeout).as_ref());
        if let (Err(Errno::NOSYS), Some(limit)) = (result, limit) {
            // A kernel before 5.11 counts in milliseconds.
            let milliseconds = limit.subsec_millis().max(1);
            let timeout = timeout(Duration::from_millis(milliseconds.into()));
            let spare = rustix::buffer::spare_capacity(events);
            let _ = epoll::wait(&self.epoll, spare, Some(&timeout));
        }
    }

    fn serve(&self, token: u64, process_ended: bool, flags: epoll::EventFlags) {
        let Some(registered) = self.registered(token) else {
            return;
        };
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(token, &registered.link, &registered.socket);
        }
        let _hearing = locked(&registered.hearing);
        self.hear(token, process_ended, &registered);
    }

    /// Hears links whose other end may be gone, in the thread of a program that looks in vain and
    /// holds no lock. Asks the system once a millisecond at most.
    pub(crate) fn hear_endings(&self) {
        for (token, process_ended) in self.endings.ask() {
            let Some(registered) = self.registered(token) else {
                continue;
            };
            match registered.hearing.try_lock() {
                Ok(_hearing) => self.hear(token, process_ended, &registered),
                Err(TryLockError::Poisoned(_)) => {}
                // The service thread is at it, and may need this processor.
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    fn registered(&self, token: u64) -> Option<Registered> {
        locked(&self.state).links.get(&token).cloned()
    }

    /// Hears a link, whose `hearing` is held.
    fn hear(&self, token: u64, process_ended: bool, registered: &Registered) {
        let Registered { link, socket, .. } = registered;
        // A dead process says no more than what lies in the socket; one turn is enough for a live
        // one, whose rest is heard when the others had theirs.
        let turns = if process_ended { LAST_TURNS } else { 1 };
        for _ in 0..turns {
            match link.hear(socket) {
                Turn::Dead(reason) => return self.remove(token, reason),
                Turn::Idle => break,
                Turn::More => {}
            }
        }
        if process_ended {
            self.remove(token, CloseReason::Died);
        }
    }

    fn flush_all(&self) {
        let tokens = std::mem::take(&mut locked(&self.state).unflushed);
        for token in tokens {
            if let Some(Registered { link, socket, .. }) = self.registered(token) {
                self.flush(token, &link, &socket);
            }
        }
    }

    fn flush(&self, token: u64, link: &Link, socket: &OwnedFd) {
        let mut flags = epoll::EventFlags::IN;
        match link.flush() {
            Flush::Empty => {}
            Flush::Full => flags |= epoll::EventFlags::OUT,
            Flush::Later => locked(&self.state).unflushed.push(token),
        }
        let data = epoll::EventData::new_u64(token << 1);
        let _ = epoll::modify(&self.epoll, socket.as_fd(), data, flags);
    }

    fn progress(&self) {
        let mut watched = std::mem::take(&mut locked(&self.state).watched);
        if watched.is_empty() {
            return;
        }
        let now = Instant::now();
        watched.retain_mut(|watched| {
            if watched.pace == Pace::Slow && watched.due > now {
                return true;
            }
            watched.pace = watched.progress.progress();
            watched.due = now + INTERVAL_SLOW;
            watched.pace != Pace::Over
        });
        let mut state = locked(&self.state);
        watched.append(&mut state.watched);
        state.watched = watched;
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").finish_non_exhaustive()
    }
}

/// Stack of our threads: handlers of the program run on one of them.
const STACK_BYTES: usize = 1 << 20;

/// Events taken from the system at once.
const EVENTS_A_TURN: usize = 64;

/// Between two looks at what is watched: at first, and when that has gone on for a while.
const INTERVAL_MIN: Duration = Duration::from_micros(200);
const INTERVAL_MAX: Duration = Duration::from_millis(2);
/// The same for what need not be looked at soon.
const INTERVAL_SLOW: Duration = Duration::from_millis(4);

/// Turns in which the last words of a dead process are heard: more than a socket holds.
const LAST_TURNS: usize = 256;

/// Until descriptors that the system did not take are offered again.
const RETRY: Duration = Duration::from_millis(2);
