//! Packets and descriptors over a socket, and how long to wait for them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::deadline::Deadline;

/// File descriptors that one message may bring.
pub const DESCRIPTORS_MAX: usize = 4;

/// Sends one packet now, or fails with `WouldBlock`.
pub fn send(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    kill_point!();
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    kill_point!();
    Ok(())
}

/// A packet that came in.
#[derive(Debug, Default)]
pub struct Received {
    /// Its bytes in the caller's buffer; 0 at the end of the stream.
    pub length: usize,
    /// What came beside it. Descriptors that were too many, here or in the message, are closed.
    pub descriptors: Vec<OwnedFd>,
}

/// Takes one packet, or fails with `WouldBlock`, or with `InvalidData` when it is longer than
/// `buffer`.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        let mut slices = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, &mut slices, &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            descriptors.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Received {
        length: message.bytes,
        descriptors,
    })
}

/// Sleeps until one of the descriptors has something to say (see [`PollFd::revents`]) or the
/// deadline has passed, which is false.
pub fn poll(descriptors: &mut [PollFd<'_>], deadline: Deadline) -> io::Result<bool> {
    loop {
        let left = deadline.remaining();
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match rustix::event::poll(descriptors, timeout.as_ref()) {
            Ok(0) if deadline.has_passed() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Who is at the other end of a socket, as the system says.
#[derive(Debug)]
pub struct Credentials {
    /// The process in our namespace; 0 when it has no number there.
    pub pid: i32,
    /// Its user in our namespace.
    pub uid: u32,
    /// The process itself, told of when it ends.
    pub pidfd: Option<OwnedFd>,
}

/// Asks who is at the other end.
pub fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    socket_option(socket, libc::SO_PEERCRED, &mut who)?;
    let mut number: libc::c_int = -1;
    let pidfd = match socket_option(socket, SO_PEERPIDFD, &mut number) {
        // SAFETY: the call made this descriptor for us alone.
        Ok(()) if number >= 0 => Some(unsafe { OwnedFd::from_raw_fd(number) }),
        // A kernel before 6.5. The number is that of the peer as long as the socket is open at its
        // end, which the handshake that follows proves.
        _ => rustix::process::Pid::from_raw(who.pid).and_then(|pid| {
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        }),
    };
    Ok(Credentials {
        pid: who.pid,
        uid: who.uid,
        pidfd,
    })
}

/// Reads a socket option of fixed size. `T` is plain data.
fn socket_option<T: Copy>(socket: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for `length` bytes of plain data, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut *value).cast(),
            &raw mut length,
        )
    };
    if result == 0 && length as usize == size_of::<T>() {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `SO_PEERPIDFD` of `asm-generic/socket.h`, from Linux 6.5.
const SO_PEERPIDFD: i32 = 77;
