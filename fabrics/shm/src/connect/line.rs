//! One end of the socket over which two processes agree.

use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};

/// Ends when it is dropped, and the other side hears that at once: also while a thread still sleeps
/// on the descriptor, or a child that this process is just starting still has a copy of it.
#[derive(Debug)]
pub(super) struct Line {
    socket: Arc<OwnedFd>,
    /// The socket outlives it.
    is_handed_on: bool,
}

impl Line {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: Arc::new(socket),
            is_handed_on: false,
        }
    }

    /// To sleep on.
    pub(super) fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    /// The socket becomes a link.
    ///
    /// # Errors
    ///
    /// What the system says when it has no more descriptors: somebody sleeps on this one.
    pub(super) fn into_socket(mut self) -> io::Result<OwnedFd> {
        self.is_handed_on = true;
        let socket = self.socket.clone();
        drop(self);
        Arc::try_unwrap(socket).or_else(|shared| shared.try_clone())
    }
}

impl Deref for Line {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.socket
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.is_handed_on {
            let _ = shutdown(&*self.socket, Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn its_end_is_heard_though_somebody_holds_the_descriptor() {
        let (near, far) = pair();
        let line = Line::new(near);
        let held = line.socket();
        drop(line);
        let heard = recv(&far, &mut [0_u8; 1], RecvFlags::DONTWAIT);
        assert_eq!(heard.map(|(count, _)| count), Ok(0));
        drop(held);
    }

    #[test]
    fn a_link_goes_on_with_its_socket() {
        for is_held in [false, true] {
            let (near, far) = pair();
            let line = Line::new(near);
            let held = is_held.then(|| line.socket());
            let socket = line.into_socket().unwrap();
            assert_eq!(rustix::io::write(&far, b"x"), Ok(1));
            let heard = recv(&socket, &mut [0_u8; 1], RecvFlags::DONTWAIT);
            assert_eq!(heard.map(|(count, _)| count), Ok(1));
            drop(held);
        }
    }
}
