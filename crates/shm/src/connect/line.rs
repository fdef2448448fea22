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
