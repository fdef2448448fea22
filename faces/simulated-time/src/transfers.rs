//! Reads and writes. Those that would block give the turn until they would not.

use core::ffi::{CStr, c_int, c_short, c_void};

use libc::{iovec, msghdr, sockaddr, socklen_t};
use viaduct_turns::{Client, Waited, await_outside, here, tell_outside};

use crate::clocks::{after, picoseconds};
use crate::cost;
use crate::interruptions::Interruption;
use crate::real::{self, errno, set_errno};
use crate::sockets::{option, send_at_once};

/// Bytes that a pipe which can be written takes at once.
const PIPE_BYTES: usize = libc::PIPE_BUF;

/// Before a call that others may see or that sees others.
pub(crate) fn before_call(client: Client) {
    client.charge(cost::SYSTEM_CALL);
    client.synchronise();
}

/// As [`before_call`], when the call looks whether something is there that others may have sent.
pub(crate) fn before_look(client: Client) {
    before_call(client);
    await_outside();
}

/// As [`before_call`], when the call may be seen at the other end of a descriptor.
fn before_telling(client: Client, descriptor: c_int) {
    before_call(client);
    tell_at(descriptor);
}

/// What is done at a socket or a pipe may be seen outside of the simulation.
pub(crate) fn tell_at(descriptor: c_int) {
    if matches!(kind_of(descriptor), Some(libc::S_IFSOCK | libc::S_IFIFO)) {
        tell_outside();
    }
}

pub(crate) fn is_nonblocking(descriptor: c_int) -> bool {
    // SAFETY: the call takes numbers.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Whether a call for these events would not block: it has something, or has an error to tell.
pub(crate) fn is_ready(descriptor: c_int, events: c_short) -> bool {
    let mut entry = libc::pollfd {
        fd: descriptor,
        events,
        revents: 0,
    };
    // SAFETY: one entry is there. A call that fails has the caller's own call tell why.
    unsafe { real::poll(&raw mut entry, 1, 0) != 0 }
}

/// What a socket's own limit of waiting says.
fn limit(client: Client, descriptor: c_int, events: c_short) -> Option<u64> {
    let name = if events & libc::POLLIN != 0 {
        libc::SO_RCVTIMEO
    } else {
        libc::SO_SNDTIMEO
    };
    let mut limit = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut length = size_of_val(&limit) as socklen_t;
    // SAFETY: the value has room for what is asked for.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            name,
            (&raw mut limit).cast(),
            &raw mut length,
        )
    };
    if result != 0 || (limit.tv_sec == 0 && limit.tv_usec == 0) {
        return None;
    }
    let length = libc::timespec {
        tv_sec: limit.tv_sec,
        tv_nsec: limit.tv_usec * 1000,
    };
    Some(after(client, picoseconds(&length)?))
}

/// Returns when a call for these events would not block; false, with errno: it has waited for as
/// long as the socket says, or a signal has ended it.
fn wait(client: Client, what: &CStr, descriptor: c_int, events: c_short) -> bool {
    if is_ready(descriptor, events) {
        return true;
    }
    wait_again(client, what, descriptor, events)
}

/// As [`wait`], where it is known that a call would block.
fn wait_again(client: Client, what: &CStr, descriptor: c_int, events: c_short) -> bool {
    let error = errno();
    let deadline = limit(client, descriptor, events);
    let interruption = match deadline {
        None => Interruption::unless_restarted(),
        Some(_) => Interruption::by_any_handler(),
    };
    let waited = [(descriptor, events)];
    let ended = client.foreign(what, Waited::Descriptors(&waited), deadline, || {
        if is_ready(descriptor, events) {
            return Some(true);
        }
        interruption.has_come().then_some(false)
    });
    set_errno(match ended {
        Some(true) => error,
        Some(false) => libc::EINTR,
        None => libc::EAGAIN,
    });
    ended == Some(true)
}

/// Before a call of ours that could block: true, it would not, or shall not.
fn may_go_on(what: &CStr, descriptor: c_int, events: c_short, does_not_wait: bool) -> bool {
    let Some(client) = here() else { return true };
    before_look(client);
    does_not_wait
        || is_ready(descriptor, events)
        || is_nonblocking(descriptor)
        || wait(client, what, descriptor, events)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(descriptor: c_int, to: *mut c_void, length: usize) -> isize {
    if !may_go_on(c"read", descriptor, libc::POLLIN, false) {
        return -1;
    }
    // SAFETY: the caller's arguments.
    unsafe { real::read(descriptor, to, length) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    descriptor: c_int,
    to: *mut c_void,
    length: usize,
    room: usize,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { read(descriptor, to, length.min(room)) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(descriptor: c_int, parts: *const iovec, count: c_int) -> isize {
    if !may_go_on(c"readv", descriptor, libc::POLLIN, false) {
        return -1;
    }
    // SAFETY: the caller's arguments.
    unsafe { real::readv(descriptor, parts, count) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(
    descriptor: c_int,
    to: *mut c_void,
    length: usize,
    flags: c_int,
) -> isize {
    let (from, from_length) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(descriptor, to, length, flags, from, from_length) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    descriptor: c_int,
    to: *mut c_void,
    length: usize,
    room: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { recv(descriptor, to, length.min(room), flags) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    descriptor: c_int,
    to: *mut c_void,
    length: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> isize {
    let does_not_wait = flags & libc::MSG_DONTWAIT != 0;
    let mut had = 0;
    loop {
        if !may_go_on(c"recv", descriptor, libc::POLLIN, does_not_wait) {
            return if had > 0 { had as isize } else { -1 };
        }
        // Waiting for all of it is done here, where the turn can be given.
        let waits_for_all =
            flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0 && here().is_some();
        let own = if waits_for_all {
            flags & !libc::MSG_WAITALL
        } else {
            flags
        };
        // SAFETY: the caller's arguments; what is left of the room.
        let got = unsafe {
            let to = to.cast::<u8>().add(had).cast();
            real::recvfrom(descriptor, to, length - had, own, from, from_length)
        };
        if got <= 0 {
            return if had > 0 { had as isize } else { got };
        }
        had += got as usize;
        let is_stream =
            || option(descriptor, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM);
        if !waits_for_all || does_not_wait || had >= length || !is_stream() {
            return had as isize;
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    descriptor: c_int,
    to: *mut c_void,
    length: usize,
    room: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(descriptor, to, length.min(room), flags, from, from_length) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(descriptor: c_int, message: *mut msghdr, flags: c_int) -> isize {
    let does_not_wait = flags & libc::MSG_DONTWAIT != 0;
    if !may_go_on(c"recvmsg", descriptor, libc::POLLIN, does_not_wait) {
        return -1;
    }
    // SAFETY: the caller's arguments.
    unsafe { real::recvmsg(descriptor, message, flags) }
}

fn accepted(descriptor: c_int) -> c_int {
    if descriptor >= 0 {
        send_at_once(descriptor);
    }
    descriptor
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(
    descriptor: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    if !may_go_on(c"accept", descriptor, libc::POLLIN, false) {
        return -1;
    }
    // SAFETY: the caller's arguments.
    accepted(unsafe { real::accept(descriptor, address, length) })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    descriptor: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if !may_go_on(c"accept4", descriptor, libc::POLLIN, false) {
        return -1;
    }
    // SAFETY: the caller's arguments.
    accepted(unsafe { real::accept4(descriptor, address, length, flags) })
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, from: *const c_void, length: usize) -> isize {
    let part = iovec {
        iov_base: from.cast_mut(),
        iov_len: length,
    };
    // SAFETY: the caller's bytes as one part.
    unsafe { writev(descriptor, &raw const part, 1) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(descriptor: c_int, parts: *const iovec, count: c_int) -> isize {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::writev(descriptor, parts, count) };
    };
    before_telling(client, descriptor);
    let wanted = usize::try_from(count).is_ok_and(|count| count <= PARTS_MAX);
    if is_nonblocking(descriptor) || !wanted || (parts.is_null() && count > 0) {
        // SAFETY: the caller's arguments.
        return unsafe { real::writev(descriptor, parts, count) };
    }
    if option(descriptor, libc::SOL_SOCKET, libc::SO_TYPE).is_some() {
        // SAFETY: a message of zeros is one; the parts are the caller's.
        unsafe {
            let mut message: msghdr = core::mem::zeroed();
            message.msg_iov = parts.cast_mut();
            message.msg_iovlen = count as usize;
            return send_all(client, c"write", descriptor, &message, 0);
        }
    }
    if !is_pipe(descriptor) {
        // SAFETY: the caller's arguments. Files do not wait for others.
        return unsafe { real::writev(descriptor, parts, count) };
    }
    let mut had = 0_usize;
    for at in 0..count as usize {
        // SAFETY: the caller's parts.
        let part = unsafe { *parts.add(at) };
        let mut done = 0;
        while done < part.iov_len {
            let length = (part.iov_len - done).min(PIPE_BYTES);
            let is_there = wait(client, c"write", descriptor, libc::POLLOUT);
            let put = if is_there {
                // SAFETY: inside of the caller's part.
                unsafe { real::write(descriptor, part.iov_base.byte_add(done), length) }
            } else {
                -1
            };
            if put < 0 {
                return if had > 0 { had as isize } else { put };
            }
            done += put as usize;
            had += put as usize;
        }
    }
    had as isize
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn eventfd_write(descriptor: c_int, value: u64) -> c_int {
    let length = size_of_val(&value);
    // SAFETY: the number lives until the call returns.
    let put = unsafe { write(descriptor, (&raw const value).cast(), length) };
    if put == length as isize { 0 } else { -1 }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eventfd_read(descriptor: c_int, to: *mut u64) -> c_int {
    let length = size_of::<u64>();
    // SAFETY: the caller's room.
    let got = unsafe { read(descriptor, to.cast(), length) };
    if got == length as isize { 0 } else { -1 }
}

/// As many as the system takes.
const PARTS_MAX: usize = 1024;

fn is_pipe(descriptor: c_int) -> bool {
    kind_of(descriptor) == Some(libc::S_IFIFO)
}

/// What kind of file a descriptor is, by its bits of `st_mode`.
fn kind_of(descriptor: c_int) -> Option<libc::mode_t> {
    let error = errno();
    // SAFETY: a status of zeros is one, and has room.
    let (result, status) = unsafe {
        let mut status: libc::stat64 = core::mem::zeroed();
        (libc::fstat64(descriptor, &raw mut status), status)
    };
    set_errno(error);
    (result == 0).then_some(status.st_mode & libc::S_IFMT)
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    descriptor: c_int,
    from: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { sendto(descriptor, from, length, flags, core::ptr::null(), 0) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    descriptor: c_int,
    from: *const c_void,
    length: usize,
    flags: c_int,
    to: *const sockaddr,
    to_length: socklen_t,
) -> isize {
    let mut part = iovec {
        iov_base: from.cast_mut(),
        iov_len: length,
    };
    // SAFETY: a message of zeros is one; the rest is the caller's.
    unsafe {
        let mut message: msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_name = to.cast_mut().cast();
        message.msg_namelen = if to.is_null() { 0 } else { to_length };
        sendmsg(descriptor, &raw const message, flags)
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(descriptor: c_int, message: *const msghdr, flags: c_int) -> isize {
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::sendmsg(descriptor, message, flags) };
    };
    before_telling(client, descriptor);
    if message.is_null() || flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(descriptor) {
        // SAFETY: the caller's arguments.
        return unsafe { real::sendmsg(descriptor, message, flags) };
    }
    // SAFETY: the caller's message.
    unsafe { send_all(client, c"send", descriptor, &*message, flags) }
}

/// Sends a message over a socket that blocks, piece by piece as it takes them.
///
/// # Safety
///
/// The message is one.
unsafe fn send_all(
    client: Client,
    what: &CStr,
    descriptor: c_int,
    message: &msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's promise.
    let mut parts = unsafe {
        if message.msg_iovlen == 0 {
            Vec::new()
        } else {
            core::slice::from_raw_parts(message.msg_iov, message.msg_iovlen).to_vec()
        }
    };
    let mut message = *message;
    let total: usize = parts.iter().map(|part| part.iov_len).sum();
    let (mut had, mut first) = (0, 0);
    loop {
        message.msg_iov = parts[first..].as_mut_ptr();
        message.msg_iovlen = parts.len() - first;
        // SAFETY: the caller's message, or what is left of it.
        let put =
            unsafe { real::sendmsg(descriptor, &raw const message, flags | libc::MSG_DONTWAIT) };
        if put < 0 {
            let would_wait = matches!(errno(), libc::EAGAIN);
            if would_wait && wait_again(client, what, descriptor, libc::POLLOUT) {
                continue;
            }
            return if had > 0 { had as isize } else { put };
        }
        had += put as usize;
        if had >= total {
            return had as isize;
        }
        // What came beside it has gone with the first piece.
        message.msg_control = core::ptr::null_mut();
        message.msg_controllen = 0;
        let mut left = put as usize;
        while left >= parts[first].iov_len {
            left -= parts[first].iov_len;
            first += 1;
        }
        let part = &mut parts[first];
        // SAFETY: `left` is less than the part is long.
        part.iov_base = unsafe { part.iov_base.byte_add(left) };
        part.iov_len -= left;
    }
}
