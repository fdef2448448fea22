//! What every fabric does for a program.
//!
//! [`Provider`] is the VI Provider Library in Rust words: its operations, one by one, over
//! descriptors that lie in the consumer's memory. The C interface, the conformance suite and the
//! safe interface stand on it; each fabric implements it.

mod descriptor;
mod error;
mod provider;

pub use descriptor::{
    CONTROL_SEGMENT_BYTES, ControlSegment, DESCRIPTOR_ALIGNMENT, Descriptor, Segment, control,
};
pub use error::{Error, Result, ReturnCode};
pub use provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle,
    DescriptorHandler, Done, ErrorHandler, IncomingRequest, NicHandle, Provider,
    ViHandle, ViInformation,
};
pub use viaduct_via as via;
pub use viaduct_via::{ErrorCode, ResourceCode};
