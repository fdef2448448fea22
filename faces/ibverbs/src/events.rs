//! Waiting for events: functions that a program's thread may be ended in.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

use viaduct_rdma::verbs::AsyncEventType;
use viaduct_rdma::{AsyncElement, AsyncEvent};
use viaduct_verbs_abi::*;

use crate::call;
use crate::fabric;
use crate::objects::{
    CompletionChannel, CompletionQueue, Context, QueuePair, SharedReceiveQueue, find, trust,
};

unsafe extern "C-unwind" {
    /// The C library's: where `pthread_cancel` ends a thread.
    fn poll(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
}

/// Waits, where the descriptor blocks, until it can be read, and asks `next`, until there is
/// something. Where it does not look at the descriptor, `next` waits. No value that has to be
/// dropped lives in this frame or its caller's while it waits at the descriptor.
#[inline(always)]
unsafe fn wait<T: Copy>(
    descriptor: RawFd,
    looks: bool,
    next: impl Fn() -> Result<T, c_int>,
) -> Result<T, c_int> {
    loop {
        // SAFETY: asks for flags.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
        if flags < 0 || flags & libc::O_NONBLOCK != 0 {
            return next();
        }
        let mut waited = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        if !looks {
            return next();
        }
        // SAFETY: one descriptor.
        if unsafe { poll(&raw mut waited, 1, -1) } < 0 {
            return Err(std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO));
        }
        match next() {
            // Another thread took it.
            Err(libc::EAGAIN) => {}
            found => return found,
        }
    }
}

/// `ibv_get_cq_event`: waits unless the channel's descriptor is `O_NONBLOCK`.
///
/// # Safety
///
/// The channel is live, and the places for the queue and its word can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut IbvCompChannel,
    queue: *mut *mut IbvCq,
    word: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller says so.
    let (handle, descriptor) = unsafe {
        let channel = trust::<CompletionChannel>(channel);
        ((*channel).handle, (*channel).verbs.fd)
    };
    let next = || quietly("ibv_get_cq_event", || handle.next_event());
    // SAFETY: nothing here is to be dropped.
    match unsafe {
        wait(
            descriptor,
            matches!(handle, fabric::CompletionChannel::Local(_)),
            next,
        )
    } {
        Ok(cookie) => {
            let found = cookie as *mut CompletionQueue;
            // SAFETY: the cookie is its address, and it lives until the event is acknowledged; the
            // caller says that the places can be written.
            unsafe {
                queue.write(found.cast());
                word.write((*found).verbs.base.cq_context);
            }
            0
        }
        Err(number) => {
            call::set_errno(number);
            -1
        }
    }
}

/// `ibv_get_async_event`: waits unless the context's descriptor is `O_NONBLOCK`.
///
/// # Safety
///
/// The context is open, and the event can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut IbvContext,
    event: *mut IbvAsyncEvent,
) -> c_int {
    // SAFETY: the caller says so.
    let (handle, descriptor) = unsafe {
        let context = trust::<Context>(context);
        ((*context).handle, (*context).verbs.context.async_fd)
    };
    let next = || quietly("ibv_get_async_event", || handle.next_async_event());
    // SAFETY: nothing here is to be dropped.
    match unsafe {
        wait(
            descriptor,
            matches!(handle, fabric::Context::Local(_)),
            next,
        )
    } {
        Ok(found) => {
            // SAFETY: the caller says so.
            unsafe { event.write(event_to_c(&found)) };
            0
        }
        Err(number) => {
            call::set_errno(number);
            -1
        }
    }
}

/// As [`call::run`]; that there is nothing yet is not a refusal.
fn quietly<T>(function: &str, body: impl FnOnce() -> viaduct_rdma::Result<T>) -> Result<T, c_int> {
    let found = call::run(function, || match body() {
        Err(error) if error.errno() == libc::EAGAIN => Ok(None),
        found => found.map(Some),
    });
    found?.ok_or(libc::EAGAIN)
}

fn event_to_c(event: &AsyncEvent) -> IbvAsyncEvent {
    let element = match event.element {
        AsyncElement::CompletionQueue(cookie) => IbvEventElement {
            cq: cookie as *mut IbvCq,
        },
        AsyncElement::QueuePair(cookie) => IbvEventElement {
            qp: cookie as *mut IbvQp,
        },
        AsyncElement::SharedReceiveQueue(cookie) => IbvEventElement {
            srq: cookie as *mut IbvSrq,
        },
        AsyncElement::Port(port) => IbvEventElement {
            port_num: c_int::from(port),
        },
        AsyncElement::Device => IbvEventElement { port_num: 0 },
    };
    IbvAsyncEvent {
        element,
        event_type: event.kind.number() as c_int,
    }
}

/// `ibv_ack_async_event`.
///
/// # Safety
///
/// The event can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut IbvAsyncEvent) {
    let _ = call::status("ibv_ack_async_event", || {
        // SAFETY: the caller says so.
        let event = unsafe { crate::objects::given(event, "no event") }?;
        // SAFETY: which part the element has the kind says; it is only looked up.
        unsafe {
            match AsyncEventType::from_number(event.event_type as u32) {
                Some(AsyncEventType::CompletionQueueError) => {
                    let queue = &mut *find::<CompletionQueue>(event.element.cq)?;
                    let seen = &mut queue.verbs.base.async_events_completed;
                    *seen = seen.wrapping_add(1);
                    queue.handle.acknowledge_async_events(1);
                }
                Some(
                    AsyncEventType::SharedReceiveQueueError
                    | AsyncEventType::SharedReceiveQueueLimitReached,
                ) => {
                    let queue = &mut *find::<SharedReceiveQueue>(event.element.srq)?;
                    let seen = &mut queue.verbs.events_completed;
                    *seen = seen.wrapping_add(1);
                    queue.handle.acknowledge_async_events(1);
                }
                Some(
                    AsyncEventType::QueuePairFatal
                    | AsyncEventType::QueuePairRequestError
                    | AsyncEventType::QueuePairAccessError
                    | AsyncEventType::CommunicationEstablished
                    | AsyncEventType::SendQueueDrained
                    | AsyncEventType::PathMigrated
                    | AsyncEventType::PathMigrationError
                    | AsyncEventType::LastRequestReached,
                ) => {
                    let pair = &mut *find::<QueuePair>(event.element.qp)?;
                    let seen = &mut pair.verbs.base.events_completed;
                    *seen = seen.wrapping_add(1);
                    pair.handle.acknowledge_async_events(1);
                }
                // Of a port or the device: nobody waits.
                _ => {}
            }
        }
        Ok(())
    });
}
