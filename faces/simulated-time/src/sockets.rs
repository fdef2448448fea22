//! Whom sockets are bound and connected to: each host has its own of what is one loopback here.
//! Sockets are of a host, whichever of its adapters an address is of.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::net::{Ipv4Addr, Ipv6Addr};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use viaduct_turns::{Client, SOCKET_VARIABLE, Waited, here, host_addresses};

use crate::clocks::after;
use crate::interruptions::Interruption;
use crate::real::{self, errno, set_errno};
use crate::transfers::{before_call, is_nonblocking, tell_at};

/// How long, in simulated time, a host that nobody listens on may take to listen: programs of all
/// hosts begin at once, which people would begin one after the other.
const LISTEN_LIMIT_PS: u64 = 1_000_000_000_000;

/// There is a simulation above this process, whether it is a client or not.
static IS_IN_RUN: AtomicBool = AtomicBool::new(false);

/// When the library is loaded: later the program may be changing its environment.
pub(crate) fn look_at_environment() {
    let is_in_run = std::env::var_os(SOCKET_VARIABLE).is_some();
    IS_IN_RUN.store(is_in_run, Ordering::Relaxed);
}

/// An address of the internet, in the form that a socket takes.
#[derive(Clone, Copy)]
enum Internet {
    V4(sockaddr_in),
    V6(sockaddr_in6),
}

impl Internet {
    /// # Safety
    ///
    /// `address` is null or has `length` bytes.
    unsafe fn of(address: *const sockaddr, length: socklen_t) -> Option<Self> {
        if address.is_null() {
            return None;
        }
        let length = length as usize;
        // SAFETY: the caller's promise; each is read only if it is all there.
        unsafe {
            match c_int::from((*address).sa_family) {
                libc::AF_INET if length >= size_of::<sockaddr_in>() => {
                    Some(Self::V4(address.cast::<sockaddr_in>().read_unaligned()))
                }
                libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
                    Some(Self::V6(address.cast::<sockaddr_in6>().read_unaligned()))
                }
                _ => None,
            }
        }
    }

    /// The address of version 4 that it is or stands for; that of this machine for version 6's own.
    fn v4(&self) -> Option<Ipv4Addr> {
        match self {
            Self::V4(it) => Some(Ipv4Addr::from_bits(u32::from_be(it.sin_addr.s_addr))),
            Self::V6(it) => {
                let address = Ipv6Addr::from(it.sin6_addr.s6_addr);
                if address.is_loopback() {
                    Some(Ipv4Addr::LOCALHOST)
                } else if address.is_unspecified() {
                    Some(Ipv4Addr::UNSPECIFIED)
                } else {
                    address.to_ipv4_mapped()
                }
            }
        }
    }

    fn at(mut self, address: Ipv4Addr) -> Self {
        match &mut self {
            Self::V4(it) => it.sin_addr.s_addr = address.to_bits().to_be(),
            Self::V6(it) => it.sin6_addr.s6_addr = address.to_ipv6_mapped().octets(),
        }
        self
    }

    fn with_any_port(mut self) -> Self {
        match &mut self {
            Self::V4(it) => it.sin_port = 0,
            Self::V6(it) => it.sin6_port = 0,
        }
        self
    }

    fn parts(&self) -> (*const sockaddr, socklen_t) {
        match self {
            Self::V4(it) => (core::ptr::from_ref(it).cast(), size_of_val(it) as socklen_t),
            Self::V6(it) => (core::ptr::from_ref(it).cast(), size_of_val(it) as socklen_t),
        }
    }

    /// Whether a socket of this family can have an address of version 4.
    fn fits(&self, descriptor: c_int) -> bool {
        matches!(self, Self::V4(_))
            || option(descriptor, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(0)
    }
}

/// An option of a socket that is a number.
pub(crate) fn option(descriptor: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of_val(&value) as socklen_t;
    let error = errno();
    // SAFETY: the value has room for what is asked for.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    set_errno(error);
    (result == 0).then_some(value)
}

/// The address that a socket has itself.
fn own_address(descriptor: c_int) -> Option<Internet> {
    // SAFETY: a storage of zeros is one, and has room for any address.
    unsafe {
        let mut storage: libc::sockaddr_storage = core::mem::zeroed();
        let mut length = size_of_val(&storage) as socklen_t;
        let place = (&raw mut storage).cast::<sockaddr>();
        if libc::getsockname(descriptor, place, &raw mut length) != 0 {
            return None;
        }
        Internet::of(place, length)
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    descriptor: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let here = here();
    // SAFETY: the caller's argument.
    let wanted = unsafe { Internet::of(address, length) };
    if let (Some(client), Some(wanted)) = (here, wanted)
        && let Some(v4) = wanted.v4()
        && (v4.is_unspecified()
            || v4 == Ipv4Addr::LOCALHOST
            || host_addresses().host_at(v4) == Some(client.host()))
        && wanted.fits(descriptor)
    {
        let own = wanted.at(host_addresses().of(client.host()));
        let (address, length) = own.parts();
        // SAFETY: the address lives until the call returns.
        return unsafe { real::bind(descriptor, address, length) };
    }
    // SAFETY: the caller's arguments.
    unsafe { real::bind(descriptor, address, length) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(
    descriptor: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's argument.
    let wanted = unsafe { Internet::of(address, length) };
    send_at_once(descriptor);
    let Some(client) = here() else {
        // SAFETY: the caller's arguments.
        return unsafe { real::connect(descriptor, address, length) };
    };
    before_call(client);
    if let Some(wanted) = wanted
        && let Some(v4) = wanted.v4()
        && wanted.fits(descriptor)
    {
        if v4 == Ipv4Addr::LOCALHOST {
            // This host, if it listens there; or else what is outside of the simulation.
            bind_to_own(client, descriptor, wanted);
            let own = wanted.at(host_addresses().of(client.host()));
            let (own, own_length) = own.parts();
            // SAFETY: the address lives until the call returns.
            let result = unsafe { real::connect(descriptor, own, own_length) };
            if result == 0 || errno() != libc::ECONNREFUSED {
                return result;
            }
        } else if let Some(host) = host_addresses().host_at(v4) {
            bind_to_own(client, descriptor, wanted);
            return connect_host(client, descriptor, wanted.at(host_addresses().of(host)));
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::connect(descriptor, address, length) }
}

/// Has what is written to a socket of TCP be sent at once, by clients and by those who start them.
/// Otherwise the system keeps small pieces back until the one before is acknowledged, which may be
/// 40 ms later: whoever waits for them would seem to have nothing to do meanwhile.
pub(crate) fn send_at_once(descriptor: c_int) {
    if !IS_IN_RUN.load(Ordering::Relaxed) {
        return;
    }
    let (error, one) = (errno(), 1 as c_int);
    // SAFETY: the number lives until the call returns. Other sockets have no such option.
    unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const one).cast::<c_void>(),
            size_of_val(&one) as socklen_t,
        );
    }
    set_errno(error);
}

/// Has the peer see which host this is, unless the program has chosen an address.
fn bind_to_own(client: Client, descriptor: c_int, peer: Internet) {
    let error = errno();
    let is_free = own_address(descriptor).and_then(|own| own.v4());
    if is_free.is_some_and(|own| own.is_unspecified()) {
        let own = peer.with_any_port().at(host_addresses().of(client.host()));
        let (address, length) = own.parts();
        let one: c_int = 1;
        // SAFETY: the number and the address live until the calls return. A port is chosen when the
        // peer is known.
        unsafe {
            libc::setsockopt(
                descriptor,
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                (&raw const one).cast::<c_void>(),
                size_of_val(&one) as socklen_t,
            );
            real::bind(descriptor, address, length);
        }
    }
    set_errno(error);
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn listen(descriptor: c_int, waiting_max: c_int) -> c_int {
    // Others may wait for that in `connect`: they see it at its time, which it does not cost.
    if let Some(client) = here() {
        client.synchronise();
    }
    // SAFETY: it takes numbers.
    unsafe { real::listen(descriptor, waiting_max) }
}

/// Connects to a simulated host, when it listens.
fn connect_host(client: Client, descriptor: c_int, peer: Internet) -> c_int {
    let (address, length) = peer.parts();
    let interruption = Interruption::unless_restarted();
    let attempt = || {
        // SAFETY: the address lives until the call returns.
        let result = unsafe { real::connect(descriptor, address, length) };
        if result == 0 || errno() != libc::ECONNREFUSED {
            return Some((result, errno()));
        }
        interruption.has_come().then_some((-1, libc::EINTR))
    };
    let is_stream = option(descriptor, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM);
    if !is_stream || is_nonblocking(descriptor) {
        // SAFETY: as above.
        return unsafe { real::connect(descriptor, address, length) };
    }
    let deadline = after(client, LISTEN_LIMIT_PS);
    match client.foreign(c"connect", Waited::Anything, Some(deadline), attempt) {
        Some((result, error)) => {
            set_errno(error);
            result
        }
        None => {
            set_errno(libc::ECONNREFUSED);
            -1
        }
    }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(descriptor: c_int, how: c_int) -> c_int {
    if let Some(client) = here() {
        before_call(client);
        tell_at(descriptor);
    }
    // SAFETY: it takes numbers.
    unsafe { real::shutdown(descriptor, how) }
}

/// In place of the C library's.
///
/// # Safety
///
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    // The peer sees the end of a socket or pipe: at its time, which a close does not cost.
    if let Some(client) = here() {
        client.synchronise();
        tell_at(descriptor);
        crate::timers::close(descriptor);
    }
    // SAFETY: it takes a number.
    unsafe { real::close(descriptor) }
}
