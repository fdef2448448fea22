//! Handlers of programs, called from threads of the fabric.

use std::ptr::NonNull;
use std::sync::Arc;

use viaduct_provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, Descriptor, DescriptorHandler,
    ErrorCode, ErrorHandler, NicHandle, Result, ViHandle, via::Queue,
};

use crate::abi::{VipCqCallback, VipErrorDescriptor, VipErrorHandler, VipPvoid, VipViCallback};
use crate::call::{boolean, invalid, log, pointer};

/// What a program wants its handler to be given. It crosses threads as the number that it is: what
/// it points to is the program's, which said that the handler may run in any thread.
#[derive(Clone, Copy)]
struct Context(usize);

impl Context {
    fn new(context: VipPvoid) -> Self {
        Self(context.expose_provenance())
    }

    fn get(self) -> VipPvoid {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

fn no_handler() -> viaduct_provider::Error {
    invalid("Handler is NULL: give a function")
}

/// For `VipSendNotify` and `VipRecvNotify`.
pub(crate) fn descriptor_handler(
    context: VipPvoid,
    handler: VipViCallback,
) -> Result<DescriptorHandler> {
    let handler = handler.ok_or_else(no_handler)?;
    let context = Context::new(context);
    Ok(Box::new(
        move |nic: NicHandle, vi: ViHandle, descriptor: NonNull<Descriptor>| {
            // SAFETY: the program gave a function of this type, to be called so.
            unsafe {
                handler(
                    context.get(),
                    pointer(nic.bits()),
                    pointer(vi.bits()),
                    descriptor.as_ptr(),
                );
            }
        },
    ))
}

/// For `VipCQNotify`.
pub(crate) fn completion_handler(
    context: VipPvoid,
    handler: VipCqCallback,
) -> Result<CompletionHandler> {
    let handler = handler.ok_or_else(no_handler)?;
    let context = Context::new(context);
    Ok(Box::new(move |nic: NicHandle, entry: CompletionEntry| {
        // SAFETY: the program gave a function of this type, to be called so.
        unsafe {
            handler(
                context.get(),
                pointer(nic.bits()),
                pointer(entry.vi.bits()),
                boolean(entry.queue == Queue::Receive),
            );
        }
    }))
}

/// For `VipErrorCallback`: the program's handler, or the one that logs.
pub(crate) fn error_handler(context: VipPvoid, handler: VipErrorHandler) -> ErrorHandler {
    let Some(handler) = handler else {
        return Arc::new(log_error);
    };
    let context = Context::new(context);
    Arc::new(move |error: &AsynchronousError| {
        let mut descriptor = error_to_c(error);
        // SAFETY: the program gave a function of this type; the descriptor lives through the call.
        unsafe { handler(context.get(), &raw mut descriptor) };
    })
}

fn error_to_c(error: &AsynchronousError) -> VipErrorDescriptor {
    VipErrorDescriptor {
        NicHandle: pointer(error.nic.bits()),
        ViHandle: pointer(error.vi.map_or(0, ViHandle::bits)),
        CQHandle: pointer(error.completion_queue.map_or(0, |queue| queue.bits())),
        DescriptorPtr: error
            .descriptor
            .map_or(std::ptr::null_mut(), NonNull::as_ptr),
        OpCode: u64::from(error.operation),
        ResourceCode: error.resource as u32,
        ErrorCode: error.code as u32,
    }
}

fn log_error(error: &AsynchronousError) {
    let told = error_to_c(error);
    let (name, meaning) = describe(error.code);
    log(format_args!(
        "{name}: {meaning} (NIC {:p}, VI {:p}, CQ {:p}, descriptor {:p}, operation {:#x}); \
         VipErrorCallback sets a handler for this",
        told.NicHandle, told.ViHandle, told.CQHandle, told.DescriptorPtr, told.OpCode
    ));
}

const fn describe(code: ErrorCode) -> (&'static str, &'static str) {
    match code {
        ErrorCode::PostDescriptor => (
            "VIP_ERROR_POST_DESC",
            "a descriptor was posted that is not on 64 bytes or not inside its region, or its \
             Next was changed after the post",
        ),
        ErrorCode::ConnectionLost => (
            "VIP_ERROR_CONN_LOST",
            "the connection is lost; VipDisconnect makes the VI idle again",
        ),
        ErrorCode::ReceiveQueueEmpty => (
            "VIP_ERROR_RECVQ_EMPTY",
            "a message was dropped: no receive was posted",
        ),
        ErrorCode::ViOverrun => (
            "VIP_ERROR_VI_OVERRUN",
            "a post was refused: the queue holds MaxDescriptorsPerQueue",
        ),
        ErrorCode::RdmaWriteProtection => (
            "VIP_ERROR_RDMAW_PROT",
            "a peer's RDMA write was refused by protection",
        ),
        ErrorCode::RdmaWriteData => ("VIP_ERROR_RDMAW_DATA", "a peer's RDMA write was corrupt"),
        ErrorCode::RdmaWriteAbort => ("VIP_ERROR_RDMAW_ABORT", "a peer's RDMA write was cut short"),
        ErrorCode::RdmaReadProtection => (
            "VIP_ERROR_RDMAR_PROT",
            "a peer's RDMA read was refused by protection",
        ),
        ErrorCode::CompletionProtection => (
            "VIP_ERROR_COMP_PROT",
            "a completion could not be written: is its memory still registered?",
        ),
        ErrorCode::RdmaTransport => (
            "VIP_ERROR_RDMA_TRANSPORT",
            "the transport failed in an RDMA operation",
        ),
        ErrorCode::Catastrophic => ("VIP_ERROR_CATASTROPHIC", "the NIC is unusable"),
    }
}

#[cfg(test)]
mod tests {
    use viaduct_provider::{CompletionQueueHandle, ResourceCode};

    use super::*;

    /// Keeps what it is told where its context points.
    unsafe extern "C" fn keep(context: VipPvoid, told: *mut VipErrorDescriptor) {
        // SAFETY: the test gives a place for one descriptor; the library lends one.
        unsafe { *context.cast::<Option<VipErrorDescriptor>>() = Some(*told) };
    }

    #[test]
    fn an_error_is_told_in_the_words_of_c() {
        let mut kept: Option<VipErrorDescriptor> = None;
        let handler = error_handler((&raw mut kept).cast(), Some(keep));
        handler(&AsynchronousError {
            nic: NicHandle::from_bits(5).unwrap(),
            vi: None,
            completion_queue: CompletionQueueHandle::from_bits(6),
            descriptor: None,
            operation: 0x0001_0000,
            resource: ResourceCode::CompletionQueue,
            code: ErrorCode::CompletionProtection,
        });
        let told = kept.unwrap();
        assert_eq!((told.NicHandle, told.ViHandle), (pointer(5), pointer(0)));
        assert_eq!((told.CQHandle, told.OpCode), (pointer(6), 0x0001_0000));
        assert_eq!((told.ResourceCode, told.ErrorCode), (2, 8));
        assert!(told.DescriptorPtr.is_null());
    }

    #[test]
    fn a_notify_without_a_handler_is_refused() {
        assert!(descriptor_handler(std::ptr::null_mut(), None).is_err());
        assert!(completion_handler(std::ptr::null_mut(), None).is_err());
    }
}
