//! What comes to the coordinator from outside of the turns: processes that want to be clients,
//! ends of processes, and whoever wants the run to end. A thread sleeps on all of it and rings.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use viaduct_processes::deadline::Deadline;
use viaduct_processes::segment::Segment;
use viaduct_processes::{socket, user};

use super::{Output, Outputs};
use crate::handshake::{Hello, PACKET_BYTES_MAX, Welcome};
use crate::seat::{BELL_BYTES, Bell, PROCESS_BYTES};

/// How long a process that has connected may take to say what it is.
const HELLO_LIMIT: Duration = Duration::from_secs(2);
const BACKLOG: i32 = 1024;
const SOCKET: u64 = 0;
const STOP: u64 = 1;
/// Processes that are watched have numbers from here on.
const FIRST_WATCHED: u64 = 2;

/// What came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// Somebody connects.
    Connection,
    /// The process that [`Listener::watch`] gave this number has ended.
    Ended(u64),
    /// The run is to end.
    Stop,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    bell: Bell,
    /// Keeps the bell.
    page: Segment,
    events: Mutex<VecDeque<Event>>,
    has_events: AtomicBool,
    /// Ends the thread.
    stop: OwnedFd,
    wants_stop: AtomicBool,
}

/// A process that became a client, with its memory.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) hello: Hello,
    pub(super) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) seats: Segment,
    /// Where it writes, if that may be elsewhere.
    output: Option<Output>,
    socket: OwnedFd,
}

impl Connected {
    /// Tells it its host, and where its output goes.
    pub(super) fn welcome(
        &mut self,
        welcome: Welcome,
        page: &Segment,
        outputs: Option<&mut Outputs>,
    ) -> io::Result<()> {
        let own = outputs.zip(self.output.take());
        let elsewhere = own.and_then(|(outputs, own)| (outputs.0)(welcome.host, own).ok());
        let mut descriptors = vec![self.seats.fd(), page.fd()];
        descriptors.extend(elsewhere.iter().flatten().map(AsFd::as_fd));
        socket::send(self.socket.as_fd(), &welcome.to_bytes(), &descriptors)
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    shared: Arc<Shared>,
    socket: OwnedFd,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    next_watched: u64,
}

/// Ends a run from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// The run ends at the next turn, and so do the clients that are still there.
    pub fn stop(&self) {
        self.0.wants_stop.store(true, Ordering::Release);
        self.0.push(Event::Stop);
    }
}

impl Shared {
    fn push(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_back(event);
        self.has_events.store(true, Ordering::Release);
        drop(events);
        self.bell.ring();
    }

    /// What the thread does.
    fn listen(&self) {
        let mut room = Vec::with_capacity(64);
        loop {
            room.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut room), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &room {
                match event.data.u64() {
                    SOCKET => self.push(Event::Connection),
                    STOP => return,
                    watched => self.push(Event::Ended(watched)),
                }
            }
        }
    }
}

impl Listener {
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let page = Segment::create("viaduct-bell", BELL_BYTES)?;
        let bell = Bell::of(&page).ok_or(io::ErrorKind::InvalidData)?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // At an edge: it rings once for what has come, and all of that is taken.
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(SOCKET), edge)?;
        epoll::add(
            &epoll,
            &stop,
            epoll::EventData::new_u64(STOP),
            epoll::EventFlags::IN,
        )?;
        let shared = Arc::new(Shared {
            epoll,
            bell,
            page,
            events: Mutex::new(VecDeque::new()),
            has_events: AtomicBool::new(false),
            stop,
            wants_stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("turns".to_owned())
            .spawn(move || of_thread.listen())?;
        Ok(Self {
            shared,
            socket,
            path: path.to_owned(),
            thread: Some(thread),
            next_watched: FIRST_WATCHED,
        })
    }

    pub(super) fn bell(&self) -> Bell {
        self.shared.bell
    }

    pub(super) fn page(&self) -> &Segment {
        &self.shared.page
    }

    pub(super) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    pub(super) fn wants_stop(&self) -> bool {
        self.shared.wants_stop.load(Ordering::Acquire)
    }

    /// The next thing that came.
    pub(super) fn next(&self) -> Option<Event> {
        if !self.shared.has_events.load(Ordering::Acquire) {
            return None;
        }
        let events = self.shared.events.lock();
        let mut events = events.unwrap_or_else(PoisonError::into_inner);
        let event = events.pop_front();
        if events.is_empty() {
            self.shared.has_events.store(false, Ordering::Release);
        }
        event
    }

    /// Has the end of a process come as an event with the number returned.
    pub(super) fn watch(&mut self, pidfd: &OwnedFd) -> io::Result<u64> {
        let number = self.next_watched;
        self.next_watched += 1;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.shared.epoll, pidfd, data, once)?;
        Ok(number)
    }

    /// Takes the next connection. A process of another user, and one that says nothing or nonsense,
    /// is not taken, and is `None` inside.
    pub(super) fn accept(&self) -> io::Result<Option<Option<Connected>>> {
        let socket = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => return Ok(Some(None)),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(greet(socket).unwrap_or(None)))
    }
}

fn greet(socket: OwnedFd) -> io::Result<Option<Connected>> {
    let who = socket::credentials(socket.as_fd())?;
    if !user::is_own(who.uid) || who.pid <= 0 {
        return Ok(None);
    }
    let mut waited = [PollFd::new(&socket, PollFlags::IN)];
    if !socket::poll(&mut waited, Deadline::after(Some(HELLO_LIMIT)))? {
        return Ok(None);
    }
    let mut packet = [0; PACKET_BYTES_MAX];
    let received = socket::receive(socket.as_fd(), &mut packet)?;
    let Some(hello) = Hello::from_bytes(&packet[..received.length]) else {
        return Ok(None);
    };
    Ok(Some(Connected {
        hello,
        pid: who.pid,
        pidfd: who.pidfd,
        seats: Segment::create("viaduct-seats", PROCESS_BYTES)?,
        output: received.descriptors.try_into().ok(),
        socket,
    }))
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
