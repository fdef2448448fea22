//! Calls of the system that others wait for, and that wait for others, by their names in the C
//! library: on a simulated host another library has these names, and lets others go on meanwhile.

use std::os::fd::{AsRawFd as _, OwnedFd};

use libc::{c_int, epoll_event};

/// Adds one to a descriptor that counts. It fails only if that was done 2^64 times.
pub(crate) fn count_up(descriptor: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: the bytes are there.
    unsafe { libc::write(descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Sends a packet if there is room for it now.
pub(crate) fn send(socket: &OwnedFd, packet: &[u8]) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the bytes are there.
    unsafe {
        libc::send(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            flags,
        )
    };
}

/// Has both sides of a socket at its end.
pub(crate) fn shut_down(socket: &OwnedFd) {
    // SAFETY: it takes numbers.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Waits until something has come to descriptors, for so long at most: the tokens of those. `None`:
/// the descriptor that watches them is gone.
pub(crate) fn wait(watching: &OwnedFd, limit_ms: Option<c_int>) -> Option<Vec<u64>> {
    const NOTHING: epoll_event = epoll_event { events: 0, u64: 0 };
    let mut found = [NOTHING; 64];
    // SAFETY: there is room for so many.
    let count = unsafe {
        libc::epoll_wait(
            watching.as_raw_fd(),
            found.as_mut_ptr(),
            found.len() as c_int,
            limit_ms.unwrap_or(-1),
        )
    };
    match usize::try_from(count) {
        Ok(count) => Some(found[..count].iter().map(|event| event.u64).collect()),
        Err(_) => {
            let error = std::io::Error::last_os_error();
            let is_interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            is_interrupted.then(Vec::new)
        }
    }
}
