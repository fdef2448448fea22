//! Where processes find each other: sockets whose names are made from addresses.
//!
//! Whoever waits on an address binds its name, whoever asks for the address connects to it; there
//! is no broker. By default the names are abstract ones, which vanish with their socket, and which
//! all processes of a network namespace share. With `VIADUCT_RENDEZVOUS=DIR` they are files in a
//! directory, which containers can share: DIR/HEX.sock, removed when the wait ends. A file whose
//! process died is taken over by the next waiter.
//!
//! A name is a digest of the address, so that it fits; the address itself goes in the request.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::deadline::Deadline;

/// Where the names are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// The system's abstract names, each with this in front.
    Abstract(&'static str),
    /// Files in a directory.
    Directory(PathBuf),
}

impl Place {
    /// `VIADUCT_RENDEZVOUS` if it is set and not empty, else abstract names.
    pub fn from_environment() -> Self {
        match std::env::var_os("VIADUCT_RENDEZVOUS") {
            Some(directory) if !directory.is_empty() => Self::Directory(directory.into()),
            _ => Self::Abstract("viaduct"),
        }
    }
}

/// Names a meeting point.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name {
    version: u32,
    kind: char,
    digest: [u64; 2],
}

impl Name {
    /// A name of this kind. Peers of different versions do not meet.
    #[must_use]
    pub const fn new(version: u32, kind: char, digest: [u64; 2]) -> Self {
        Self {
            version,
            kind,
            digest,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            kind,
            digest: [low, high],
        } = self;
        write!(formatter, "{version}{kind}{low:016x}{high:016x}")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Spreads byte strings, and where each ends, over 128 bits. Not secret, and the same in all
/// versions of this program: what two processes meet by.
pub fn digest(parts: &[&[u8]]) -> [u64; 2] {
    const fn mix(value: u64) -> u64 {
        // The finalizer of splitmix64.
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
    let mut lanes = [0x9e37_79b9_7f4a_7c15_u64, 0xd1b5_4a32_d192_ed03];
    let mut take = |word: u64| {
        lanes[0] = mix(lanes[0] ^ word).wrapping_add(lanes[1]);
        lanes[1] = mix(lanes[1].rotate_left(29) ^ word).wrapping_add(lanes[0]);
    };
    for part in parts {
        take(part.len() as u64);
        for chunk in part.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            take(u64::from_le_bytes(word));
        }
    }
    take(u64::MAX);
    lanes
}

/// A bound name with a queue of those who ask for it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    file: Option<BoundFile>,
}

#[derive(Debug)]
struct BoundFile {
    directory: PathBuf,
    path: PathBuf,
    /// Device and number of the file, to remove no other.
    identity: (u64, u64),
}

impl Listener {
    /// Binds a name.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when somebody lives there; `InvalidInput` when the directory's path is too long;
    /// what the system says.
    pub fn bind(place: &Place, name: Name) -> io::Result<Self> {
        let socket = new_socket()?;
        match place {
            Place::Abstract(prefix) => {
                rustix::net::bind(&socket, &abstract_address(prefix, name)?)?;
                rustix::net::listen(&socket, BACKLOG)?;
                Ok(Self { socket, file: None })
            }
            Place::Directory(directory) => {
                Self::bind_file(socket, directory, name).map_err(|error| told(directory, &error))
            }
        }
    }

    fn bind_file(socket: OwnedFd, directory: &Path, name: Name) -> io::Result<Self> {
        let (path, address) = file_address(directory, name)?;
        // While it is held nobody else looks at, removes or makes a file.
        let _lock = lock(directory)?;
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                if is_inhabited(&address)? {
                    return Err(Errno::ADDRINUSE.into());
                }
                rustix::fs::unlink(&path)?;
                rustix::net::bind(&socket, &address)?;
            }
            bound => bound?,
        }
        rustix::net::listen(&socket, BACKLOG)?;
        let identity = identity(&path)?;
        let file = Some(BoundFile {
            directory: directory.to_owned(),
            path,
            identity,
        });
        Ok(Self { socket, file })
    }

    /// The next of those who ask, if there is one.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => return Ok(Some(socket)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Without the lock the file stays, stale, for the next waiter to take over.
            if let Ok(_lock) = lock(&file.directory)
                && identity(&file.path).is_ok_and(|identity| identity == file.identity)
            {
                let _ = rustix::fs::unlink(&file.path);
            }
        }
    }
}

/// Connects to whoever has bound a name; `None` when nobody has, at once.
///
/// # Errors
///
/// `TimedOut` while its queue is full; `Interrupted` when `is_cancelled` says so; what the system
/// says.
pub fn connect(
    place: &Place,
    name: Name,
    deadline: Deadline,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<Option<OwnedFd>> {
    let address = match place {
        Place::Abstract(prefix) => abstract_address(prefix, name)?,
        Place::Directory(directory) => file_address(directory, name)?.1,
    };
    let socket = new_socket()?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(Some(socket)),
            Err(Errno::CONNREFUSED) => return Ok(None),
            Err(Errno::NOENT) => match place {
                // Nobody ever waits where nobody can.
                Place::Directory(directory) if !directory.is_dir() => {
                    return Err(told(directory, &Errno::NOENT.into()));
                }
                _ => return Ok(None),
            },
            Err(Errno::INTR) => {}
            // The queue is full, and the system does not tell when it is not any more.
            Err(Errno::AGAIN) => {
                if deadline.has_passed() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if is_cancelled() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                std::thread::sleep(FULL_QUEUE_PAUSE);
            }
            Err(error) => {
                return Err(match place {
                    Place::Abstract(_) => error.into(),
                    Place::Directory(directory) => told(directory, &error.into()),
                });
            }
        }
    }
}

/// The same error, with where it was.
fn told(directory: &Path, error: &io::Error) -> io::Error {
    let directory = directory.display();
    io::Error::new(
        error.kind(),
        format!("{error}, in {directory}, which VIADUCT_RENDEZVOUS names"),
    )
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        kind,
        flags,
        None,
    )?)
}

fn abstract_address(prefix: &str, name: Name) -> io::Result<SocketAddrUnix> {
    let name = format!("{prefix}-{name}");
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

fn file_address(directory: &Path, name: Name) -> io::Result<(PathBuf, SocketAddrUnix)> {
    let path = directory.join(format!("{name}.sock"));
    let address = SocketAddrUnix::new(&path).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} is too long for a socket: set VIADUCT_RENDEZVOUS to a directory of at most {} bytes",
                path.display(),
                SOCKET_PATH_BYTES_MAX - (path.as_os_str().len() - directory.as_os_str().len())
            ),
        )
    })?;
    Ok((path, address))
}

/// Whether somebody listens there.
fn is_inhabited(address: &SocketAddrUnix) -> io::Result<bool> {
    match rustix::net::connect(new_socket()?, address) {
        // A full queue has an owner.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Locks a directory against others who bind; open until dropped, and with its process gone.
fn lock(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
    let deadline = Deadline::after(Some(LOCK_PATIENCE));
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN | Errno::INTR) if !deadline.has_passed() => {
                std::thread::sleep(FULL_QUEUE_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let status = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((status.st_dev, status.st_ino))
}

/// Requests that wait in a listener; the system lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// Between two tries of something that nobody tells of.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(1);

/// How long another process may hold a directory's lock, which it needs for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the path of a socket, without the 0 behind it.
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8]) -> Name {
        Name::new(0, 't', digest(&[bytes]))
    }

    fn directory(name: &str) -> PathBuf {
        let directory = format!("viaduct-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn reach(place: &Place, name: Name) -> bool {
        let limit = Deadline::after(Some(Duration::from_secs(5)));
        connect(place, name, limit, || false).unwrap().is_some()
    }

    fn can_be_bound_once(place: &Place) {
        let name = name(b"rendezvous, bound once");
        assert!(!reach(place, name));
        let listener = Listener::bind(place, name).unwrap();
        let taken = Listener::bind(place, name).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        // A directory's second binder has looked in.
        while listener.accept().unwrap().is_some() {}
        assert!(reach(place, name));
        assert!(listener.accept().unwrap().is_some());
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!reach(place, name));
        drop(Listener::bind(place, name).unwrap());
    }

    #[test]
    fn an_abstract_name_is_bound_once() {
        can_be_bound_once(&Place::Abstract("viaduct-test"));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named_to_both_sides() {
        let directory = directory("gone");
        std::fs::remove_dir_all(&directory).unwrap();
        let name = name(b"gone");
        let place = Place::Directory(directory.clone());
        let limit = Deadline::after(Some(Duration::from_secs(5)));
        let errors = [
            Listener::bind(&place, name).map(drop).unwrap_err(),
            connect(&place, name, limit, || false)
                .map(drop)
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            let text = error.to_string();
            assert!(text.contains(directory.to_str().unwrap()), "{text}");
            assert!(text.contains("VIADUCT_RENDEZVOUS"), "{text}");
        }
    }

    #[test]
    fn a_file_is_bound_once_and_removed() {
        let directory = directory("bound-once");
        can_be_bound_once(&Place::Directory(directory.clone()));
        // Fails unless it is empty.
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn a_file_that_a_dead_process_left_is_taken_over() {
        let directory = directory("stale");
        let place = Place::Directory(directory.clone());
        let name = name(b"stale");
        let mut dead = Listener::bind(&place, name).unwrap();
        // What a killed process leaves: the file, with nobody behind it.
        dead.file = None;
        drop(dead);
        assert!(directory.join(format!("{name}.sock")).exists());
        assert!(!reach(&place, name));
        let listener = Listener::bind(&place, name).unwrap();
        assert!(reach(&place, name));
        drop(listener);
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn a_file_of_somebody_else_is_not_removed() {
        let directory = directory("foreign");
        let place = Place::Directory(directory.clone());
        let name = name(b"foreign");
        let listener = Listener::bind(&place, name).unwrap();
        let path = directory.join(format!("{name}.sock"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        drop(listener);
        assert!(path.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_with_the_limit() {
        let place = Place::Directory(PathBuf::from(format!("/tmp/{}", "d".repeat(100))));
        let error = Listener::bind(&place, name(b"x")).unwrap_err();
        assert!(error.to_string().contains("at most 67 bytes"), "{error}");
    }
}
